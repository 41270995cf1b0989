#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of a backend (torch.testing._internal.distributed.distributed_test.DistributedTest), which come with torch.

    torch_suite.py [--backend rueda|gloo] [--as-gloo] [--ranks N] [-k PART]... [--list]

Prints how many passed, failed and were skipped, and the names of those that failed. --as-gloo registers Rueda under gloo's name, so that tests
run that ask for a backend by its name. Processes are forked from a server that has imported torch, which saves most of the time.
"""

import argparse
import functools
import inspect
import multiprocessing
import os
import sys
import tempfile
import unittest


def register(as_gloo):
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    import rueda.torch.distributed as backend
    if not as_gloo:
        return
    create = functools.partial(backend.create_process_group, name="gloo")
    dist.Backend.register_backend("gloo", create, extended_api=True, devices=["cpu", "cuda"])
    dist.Backend.backend_type_map["gloo"] = dist.ProcessGroup.BackendType.CUSTOM
    # Torch looks for the name gloo before it looks for backends that a program has registered.
    source = inspect.getsource(distributed_c10d._new_process_group_helper)
    source = source.replace("backend_str == Backend.GLOO", "backend_str == 'torch gloo'").replace("    global _world\n", "", 1)
    exec(compile(source, distributed_c10d.__file__, "exec"), distributed_c10d.__dict__)  # noqa: S102 - torch's own source


def set_environment(arguments, folder):
    os.environ.update(BACKEND="gloo" if arguments.as_gloo else arguments.backend, WORLD_SIZE=str(arguments.ranks), TEMP_DIR=folder,
                      INIT_METHOD=f"file://{folder}/shared_init_file", MASTER_ADDR="127.0.0.1", MASTER_PORT="0", OMP_NUM_THREADS="1")
    os.environ["RUEDA_SUITE"] = "gloo" if arguments.as_gloo else arguments.backend


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="rueda", choices=["rueda", "gloo"])
    parser.add_argument("--as-gloo", action="store_true")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("-k", action="append", default=[], metavar="PART", help="only tests whose name has this part")
    return parser.parse_args()


if "RUEDA_SUITE" not in os.environ:  # otherwise a process of a test, which has the environment
    arguments = parse()
    set_environment(arguments, tempfile.mkdtemp(prefix="torch-suite-"))

as_gloo = os.environ["RUEDA_SUITE"] == "gloo" and "--as-gloo" in sys.argv
if os.environ["BACKEND"] == "rueda" or as_gloo:
    register(as_gloo)

from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


class Suite(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(multiprocessing.get_context("forkserver").Process)


class Names(unittest.TextTestResult):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(test.id())


def main():
    multiprocessing.set_forkserver_preload(["__main__"])
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(Suite)
    if arguments.k:
        tests = unittest.TestSuite(test for test in tests if any(part in test.id() for part in arguments.k))
    result = unittest.TextTestRunner(resultclass=Names, verbosity=2).run(tests)
    bad = [test.id().rpartition(".")[2] for test, _ in result.failures + result.errors]
    print(f"{len(result.passed)} passed, {len(bad)} failed, {len(result.skipped)} skipped")
    for name in bad:
        print("failed:", name)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
