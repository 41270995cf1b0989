# SPDX-License-Identifier: Apache-2.0
"""Who is in the job, process sets, joining, the timeline, and what the build has."""

import json
import os
import subprocess
import sys
import tempfile

import pytest
import torch

import rueda
import rueda.torch as hvd
from rueda.common.util import extension_available, split_list


def test_init_again_does_nothing(rank, size):
    hvd.init()
    hvd.init(comm=list(range(size)))
    hvd.init(process_sets="dynamic")
    assert hvd.is_initialized() and (hvd.rank(), hvd.size()) == (rank, size)


def test_who_is_where(rank, size):
    assert hvd.allgather_object(hvd.rank()) == list(range(size))
    assert (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()) == (rank, size, 0, 1)  # on one host
    assert hvd.is_homogeneous() is True
    assert (rueda.rank(), rueda.size()) == (rank, size)


def test_shutdown_and_init_again(rank, size):
    hvd.shutdown()
    assert not hvd.is_initialized()
    for function in (hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_rank, hvd.cross_size, hvd.is_homogeneous):
        with pytest.raises(ValueError, match="not initialized"):
            function()
    with pytest.raises(ValueError, match="not initialized"):
        hvd.allreduce(torch.ones(1))
    hvd.init()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size


def test_init_of_some_ranks(rank, size):
    hvd.shutdown()
    jobs = [list(range(0, size, 2))[::-1], list(range(1, size, 2))]
    mine = jobs[rank % 2]
    hvd.init(comm=mine)
    assert hvd.size() == len(mine) and mine[hvd.rank()] == rank and hvd.local_rank() == hvd.rank()
    assert hvd.allreduce(torch.tensor([rank]), op=hvd.Sum, name="of this job").item() == sum(mine)
    last = hvd.add_process_set([len(mine) - 1]) if len(mine) > 1 else hvd.global_process_set
    if last.included():
        assert hvd.broadcast(torch.tensor([rank]), root_rank=len(mine) - 1, process_set=last).item() == mine[-1]
    calls = []

    @hvd.elastic.run
    def train(state):
        calls.append(hvd.size())
        if len(calls) == 1:
            raise hvd.HorovodInternalError("as if an operation had failed")
        return hvd.allreduce(torch.tensor([rank]), op=hvd.Sum).item(), last.included()

    assert train(hvd.elastic.ObjectState(epoch=0)) == (sum(mine), mine[-1] == rank) and calls == [len(mine)] * 2
    hvd.shutdown()
    hvd.init()
    assert hvd.rank() == rank and hvd.size() == size


def test_a_program_that_a_rank_starts_is_no_rank(rank):
    ended = subprocess.run([sys.executable, "-c", "import rueda.torch as hvd; hvd.init()"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and f"was started by rank {rank}, and is no rank itself" in ended.stderr
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PMI")}
    code = "import rueda.torch as hvd; hvd.init(); print(hvd.size())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=alone).stdout == "1\n"


def test_init_of_impossible_ranks(rank, size):
    hvd.shutdown()
    for comm, words in (([rank, size], "does not exist|no more than rank 0"), ([rank, rank], "twice|no more than rank 0"),
                        ([], r"comm is \[\]"), ([-1], r"comm is \[-1\]"), (["0"], "no list of ranks"), (3, "no list of ranks"), ([(rank + 1) % size], f"this process is rank {rank}")):
        if comm != [rank]:
            with pytest.raises(ValueError, match=words):
                hvd.init(comm=comm)
        assert not hvd.is_initialized()
    hvd.init()


def test_jobs_in_which_ranks_have_had_different_numbers_of_jobs(rank, size):
    hvd.shutdown()
    if rank == 0:
        hvd.init(comm=[0])
        hvd.shutdown()
    hvd.init()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size
    hvd.DistributedOptimizer(torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=1.0))


@pytest.mark.parametrize("options", [{}, {"sharded": True}, {"op": hvd.Sum}])
def test_an_optimizer_does_not_go_on_with_other_processes(options, rank, size):
    if size == 1:
        pytest.skip("needs a part of the ranks")
    model = torch.nn.Linear(2, 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), **options)
    hvd.shutdown()
    hvd.init(comm=[rank])
    with pytest.raises(ValueError, match="one of other processes"):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    hvd.shutdown()
    hvd.init()


def test_init_of_a_communicator(rank, size):
    from mpi4py import MPI
    hvd.shutdown()
    part = MPI.COMM_WORLD.Split(rank % 2, -rank)
    hvd.init(comm=part)
    assert hvd.size() == part.size and hvd.rank() == part.rank
    hvd.shutdown()
    hvd.init()


def test_what_was_made_with_a_process_set_goes_on_with_the_same_ranks(rank, size):
    if size < 3:
        pytest.skip("needs a part of the ranks")
    members = hvd.add_process_set([0, size - 1])
    model, plain = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, plain)]
    if members.included():
        optimizers[0] = hvd.DistributedOptimizer(optimizers[0], process_set=members)
    state = hvd.elastic.TorchState(model, optimizers[0], batch=0)
    calls = []

    @hvd.elastic.run
    def train(state):
        calls.append(state.batch)
        while state.batch < 4:
            optimizers[0].zero_grad()
            (model(torch.ones(1, 2)).sum() * (rank + 1)).backward()
            optimizers[0].step()
            state.batch += 1
            state.commit()
            if state.batch == 2 and len(calls) == 1:
                raise hvd.HorovodInternalError("as if an operation had failed")
        return model.bias.grad.item()

    assert train(state) == ((size + 1) / 2 if members.included() else rank + 1.0) and calls == [0, 2]
    hvd.remove_process_set(members)


@pytest.mark.parametrize("size_of_set", [1, 2])
def test_what_was_made_in_a_job_that_has_ended(size_of_set, rank, size):
    if size_of_set >= size:
        pytest.skip("needs a part of the ranks")
    hvd.shutdown()
    members = hvd.ProcessSet(list(range(size_of_set)))
    hvd.init(process_sets=[members])
    if rank < size_of_set:
        parameter = torch.nn.Parameter(torch.ones(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), process_set=members)
        norm = hvd.SyncBatchNorm(2, process_set=members)
        normalised = norm(torch.randn(4, 2, requires_grad=True)).sum()
    hvd.shutdown()
    hvd.init()
    if rank < size_of_set:
        with pytest.raises(ValueError, match="job that has ended"):
            parameter.sum().backward()
        with pytest.raises(ValueError, match="job that has ended"):
            normalised.backward()
        with pytest.raises(ValueError, match="job that has ended"):
            optimizer.step()
    follows = torch.nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([follows], lr=1.0))
    hvd.shutdown()
    hvd.init()
    (follows.sum() * (rank + 1)).backward()
    assert torch.allclose(follows.grad, torch.full((2,), (size + 1) / 2))


def test_process_sets_at_init(rank, size):
    if size == 1:
        pytest.skip("needs a part of the ranks")
    hvd.shutdown()
    first, last = hvd.ProcessSet([0]), hvd.ProcessSet([size - 1])
    assert first.process_set_id is None and first.rank() is None and first.size() is None
    for ask in (first.included, hvd.global_process_set.included, hvd.global_process_set.rank, hvd.global_process_set.size):
        with pytest.raises(ValueError, match="init"):
            ask()
    hvd.init(process_sets=[first, last])
    assert first.process_set_id == 1 and first.ranks == [0] and first.size() == 1
    assert last.process_set_id == 2 and last.included() == (rank == size - 1)
    assert first.included() == (rank == 0) and hvd.ProcessSet([0]).included() == (rank == 0)
    if rank == 0:
        assert first.rank() == 0
    else:
        with pytest.raises(ValueError, match="is not a member"):
            first.rank()
    hvd.shutdown()
    assert first.process_set_id is None
    hvd.init()


def test_global_process_set(rank, size):
    everyone = hvd.global_process_set
    assert (everyone.process_set_id, everyone.size(), everyone.rank(), everyone.included()) == (0, size, rank, True)
    assert everyone.ranks == list(range(size))
    assert hvd.remove_process_set(everyone) is False


def test_add_and_remove_process_set(rank, size):
    if size == 1:
        pytest.skip("needs a part of the ranks")
    others = hvd.add_process_set(list(range(1, size)))
    assert others.included() == (rank > 0)
    if others.included():
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=others).item() == size - 1
        assert hvd.allgather(torch.tensor([rank]), process_set=others).tolist() == list(range(1, size))
        assert hvd.broadcast(torch.tensor([rank]), size - 1, process_set=others).item() == size - 1
        leaf = torch.ones(2, requires_grad=True)
        hvd.allgather(leaf, process_set=others).sum().backward()
        assert torch.all(leaf.grad == 1)
        hvd.barrier(process_set=others)
        assert hvd.allgather_object(rank, process_set=others) == list(range(1, size))
    with pytest.raises(ValueError, match="registered already"):
        hvd.add_process_set(others)
    assert hvd.remove_process_set(others) is True
    with pytest.raises(ValueError, match="not registered"):
        hvd.allreduce(torch.ones(1), process_set=others)
    assert hvd.remove_process_set(others) is False


def test_process_set_of_ranks_that_do_not_exist(rank, size):
    with pytest.raises(ValueError, match=str(size)):
        hvd.add_process_set([0, size])
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size


def test_join(rank, size):
    for i in range(rank + 1):  # rank r has r + 1 batches
        total = hvd.allreduce(torch.ones(1), name=f"batch.{i}", op=hvd.Sum).item()
        assert total == size - i
    assert hvd.join() == size - 1 or size == 1


def test_barrier():
    hvd.barrier()


@pytest.fixture
def folder_of_rank_0():
    with tempfile.TemporaryDirectory() as folder:
        yield hvd.broadcast_object(folder)


def test_timeline(rank, folder_of_rank_0):
    file = f"{folder_of_rank_0}/timeline.json"
    hvd.start_timeline(file, mark_cycles=True)
    hvd.allreduce(torch.ones(4), name="watched")
    with pytest.raises(ValueError, match="timeline"):
        hvd.start_timeline(file)
    hvd.stop_timeline()
    hvd.stop_timeline()
    hvd.barrier()
    if rank == 0:
        text = open(file).read()
        assert json.loads(text)
        for word in ("allreduce.watched", "NEGOTIATE_ALLREDUCE", "ALLREDUCE", "CYCLE_START", "start_time_since_epoch_in_micros"):
            assert word in text


def test_build_probes():
    assert hvd.mpi_built() and hvd.mpi_enabled() and hvd.mpi_threads_supported()
    assert not any([hvd.gloo_built(), hvd.gloo_enabled(), hvd.ddl_built(), hvd.ccl_built(), hvd.rocm_built()])
    assert hvd.cuda_built() in (True, False) and (hvd.nccl_built() >= 21400 if hvd.cuda_built() else hvd.nccl_built() == 0)
    assert extension_available("torch") and not extension_available("tensorflow")
    hvd.check_extension("rueda.torch", "RUEDA_WITH_TORCH", __file__)
    with pytest.raises(ImportError, match="tensorflow"):
        hvd.check_extension("rueda.tensorflow", "RUEDA_WITH_TENSORFLOW", __file__)
    assert hvd.gpu_available("torch") is hvd.cuda_built()
    assert hvd.num_rank_is_power_2(4) and not hvd.num_rank_is_power_2(6)
    assert split_list([1, 2, 3, 4, 5], 2) == [[1, 2, 3], [4, 5]]


def test_metrics_and_report():
    assert "rueda_" in rueda.metrics()
    assert "rank" in rueda.report()
