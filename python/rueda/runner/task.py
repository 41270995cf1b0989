# SPDX-License-Identifier: Apache-2.0
"""The program that rueda.run starts as each rank: python -m rueda.runner.task FOLDER."""

import os
import sys
import time
import traceback
from pathlib import Path

import cloudpickle


def _error():
    return cloudpickle.dumps({"error": traceback.format_exc(), "time": time.time()})


def main():
    folder = Path(sys.argv[1])
    func, args, kwargs = cloudpickle.loads((folder / "function").read_bytes())
    try:
        result = {"value": func(*args, **kwargs)}
        made = cloudpickle.dumps(result)
    except SystemExit as left:
        if left.code in (None, 0) and "RUEDA_WORKER" in os.environ:  # an elastic job goes on without this rank
            raise
        result, made = None, _error()
    except BaseException:  # whatever it is, the caller is told
        result = None
        made = _error()
    number = os.environ.get("RUEDA_WORKER") or os.environ["RUEDA_RANK"]  # ranks of an elastic job change
    (folder / f"unfinished.{number}").write_bytes(made)
    os.replace(folder / f"unfinished.{number}", folder / f"result.{number}")
    if result is None:
        # Not through shutdown(): the others may wait for this rank.
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
