# SPDX-License-Identifier: Apache-2.0
"""What rueda.run starts as each rank: python -m rueda.runner.task FOLDER."""

import os
import sys
import time
import traceback
from pathlib import Path

import cloudpickle


def main():
    folder = Path(sys.argv[1])
    func, args, kwargs = cloudpickle.loads((folder / "function").read_bytes())
    try:
        result = {"value": func(*args, **kwargs)}
        made = cloudpickle.dumps(result)
    except BaseException:  # whatever it is, the caller is told
        result = None
        made = cloudpickle.dumps({"error": traceback.format_exc(), "time": time.time()})
    rank = os.environ["RUEDA_RANK"]
    (folder / f"unfinished.{rank}").write_bytes(made)
    os.replace(folder / f"unfinished.{rank}", folder / f"result.{rank}")
    if result is None:
        # Not through shutdown(): the others may wait for this rank.
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
