# SPDX-License-Identifier: Apache-2.0
"""Makes "rueda" known to torch.distributed, before anything of Rueda's is loaded.

Entry points of the package call register(): torch does so while it is imported, so nothing here may fail. The backend itself is loaded
when a program makes its first group.
"""

import importlib.util
import os
import runpy
from pathlib import Path

NAME = "rueda"
OF_RUEDARUN = {"RANK": "RUEDA_RANK", "WORLD_SIZE": "RUEDA_SIZE", "LOCAL_RANK": "RUEDA_LOCAL_RANK", "LOCAL_WORLD_SIZE": "RUEDA_LOCAL_SIZE"}


def _create(options, backend_options):
    from rueda.torch.distributed import create_process_group
    return create_process_group(options, backend_options)


def _act_as_ruedarun():
    """Ranks of ruedarun have the variables of env://. Workers of an elastic job come and go, so they have not."""
    if "RUEDA_WORKER" in os.environ or any(name in os.environ for name in OF_RUEDARUN):
        return
    if all(name in os.environ for name in OF_RUEDARUN.values()):
        os.environ.update({name: os.environ[ours] for name, ours in OF_RUEDARUN.items()})


def _devices():
    """Those whose tensors this build takes. Nothing of the package is imported."""
    try:
        package = importlib.util.find_spec("rueda").submodule_search_locations[0]
        has_cuda = runpy.run_path(str(Path(package, "_build.py")))["CUDA"]
    except Exception:  # a broken installation says so when its first group begins
        has_cuda = False
    return ["cpu", "cuda"] if has_cuda else ["cpu"]


def register():
    """With RUEDA_DEFAULT_BACKEND=1, "rueda" is also what torch.distributed takes for tensors of the host if a program names no backend."""
    import torch.distributed as dist
    if not dist.is_available():
        return
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=_devices())
        _act_as_ruedarun()
    if os.environ.get("RUEDA_DEFAULT_BACKEND") == "1":
        dist.Backend.default_device_backend_map["cpu"] = NAME
