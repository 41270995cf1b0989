# SPDX-License-Identifier: Apache-2.0
"""elastic_generations.py COUNT: leaves and forms the job so many times. Rank 0 prints descriptors, threads and MiB of memory, after a tenth and in the end."""
import os
import sys
from pathlib import Path

import torch

import rueda.torch as hvd

COUNT = int(sys.argv[1])


def held():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), pages * os.sysconf("SC_PAGE_SIZE") >> 20


hvd.init()
for generation in range(1, COUNT + 1):
    hvd.shutdown()
    hvd.init()
    assert float(hvd.allreduce(torch.ones(1000), op=hvd.Sum, name="x")[0]) == hvd.size()
    if hvd.rank() == 0 and generation in (COUNT // 10, COUNT):
        print("held", *held(), flush=True)
