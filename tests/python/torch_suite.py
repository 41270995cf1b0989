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


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="rueda", choices=["rueda", "gloo"])
    parser.add_argument("--as-gloo", action="store_true")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("-k", action="append", default=[], metavar="PART", help="only tests whose name has this part")
    return parser.parse_args()


def set_environment(arguments, folder):
    os.environ.update(BACKEND="gloo" if arguments.as_gloo else arguments.backend, WORLD_SIZE=str(arguments.ranks), TEMP_DIR=folder,
                      INIT_METHOD=f"file://{folder}/shared_init_file", MASTER_ADDR="127.0.0.1", MASTER_PORT="0", OMP_NUM_THREADS="1",
                      TORCH_SUITE="as gloo" if arguments.as_gloo else arguments.backend)


def run_in(environment, target, arguments, options):
    """The server of forks has the environment of its start: each test has folders of its own."""
    os.environ.update(environment)
    from torch.testing._internal.distributed import distributed_test
    distributed_test.INIT_METHOD = environment["INIT_METHOD"]
    target(*arguments, **options)


def process(target, name, args, kwargs):
    environment = {name: os.environ[name] for name in ("TEMP_DIR", "INIT_METHOD", "MASTER_ADDR", "MASTER_PORT")}
    return multiprocessing.get_context("forkserver").Process(target=run_in, name=name, args=(environment, target, args, kwargs))


class Result(unittest.TextTestResult):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main(suite, parts):
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(suite)
    if parts:
        tests = unittest.TestSuite(test for test in tests if any(part in test.id() for part in parts))
    result = unittest.TextTestRunner(resultclass=Result, verbosity=2).run(tests)
    bad = [test.id().rpartition(".")[2] for test, _ in result.failures + result.errors]
    print(f"{result.passed} passed, {len(bad)} failed, {len(result.skipped)} skipped")
    for name in bad:
        print("failed:", name)
    return 1 if bad else 0


if __name__ == "torch_suite":  # in the server of forks, and here: torch reads the environment while it is imported
    if os.environ["TORCH_SUITE"] != "gloo":
        register(os.environ["TORCH_SUITE"] == "as gloo")
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    class Suite(TestDistBackend, DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(process)

if __name__ == "__main__":
    arguments = parse()
    with tempfile.TemporaryDirectory(prefix="torch-suite-") as folder:
        set_environment(arguments, folder)
        # Where the server of forks looks for what it imports.
        os.environ["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
        multiprocessing.set_forkserver_preload(["torch_suite"])
        import torch_suite
        sys.exit(torch_suite.main(torch_suite.Suite, arguments.k))
