# SPDX-License-Identifier: Apache-2.0
"""python -m rueda: the paths of this package's parts, for other programs.

    cmake -DCMAKE_PREFIX_PATH=$(python -m rueda --cmake-dir) ...
"""

import argparse
import sys
from pathlib import Path

from rueda import _build


def cmake_dir():
    """For CMake's find_package(Rueda)."""
    folder = Path(__file__).resolve().parent / "lib" / "cmake" / "Rueda"
    if not folder.is_dir():
        sys.exit("python -m rueda: error: this package was not installed by pip, and has no package for CMake; use the folder that "
                 "`cmake --install` has made")
    return folder


def main():
    parser = argparse.ArgumentParser(prog="python -m rueda", description="Says where things of this package are.")
    parser.add_argument("--cmake-dir", action="store_true", help="the folder for CMAKE_PREFIX_PATH, so that find_package(Rueda) finds this package")
    parser.add_argument("--torch-version", action="store_true", help="the version of torch that it was built for")
    options = parser.parse_args()
    if options.cmake_dir:
        print(cmake_dir())
    if options.torch_version:
        print(_build.TORCH_VERSION)
    if not options.cmake_dir and not options.torch_version:
        parser.print_help()


if __name__ == "__main__":
    main()
