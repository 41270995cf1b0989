# SPDX-License-Identifier: Apache-2.0
"""One test for each row of the table of horovod.torch's interface: its names with their exact signatures, and what scripts rely on.

What the functions compute, for every dtype and in every form, is in the other files of this folder.
"""

import inspect
import json
import os
import tempfile

import pytest
import torch
from training import batch, loss_of, model_of, reference, same, sgd

import rueda
import rueda.common.exceptions
import rueda.common.process_sets
import rueda.common.util
import rueda.data
import rueda.torch as hvd
import rueda.torch.compression
import rueda.torch.elastic
import rueda.torch.functions
import rueda.torch.mpi_ops
import rueda.torch.optimizer
import rueda.torch.sync_batch_norm


def signature(function):
    """Without annotations."""
    plain = inspect.signature(function)
    plain = plain.replace(parameters=[each.replace(annotation=each.empty) for each in plain.parameters.values()],
                          return_annotation=inspect.Signature.empty)
    words = str(plain)
    for value, name in ((hvd.Compression.none, "Compression.none"), (hvd.Average, "Average"), (hvd.global_process_set, "global_process_set")):
        words = words.replace(repr(value), name)
    return words.replace("process_set=global_process_set", "ps")


def test_row_init(size):
    assert signature(hvd.init).startswith("(comm=None, process_sets=None, *, ")  # what follows is Rueda's own
    hvd.init()
    hvd.init(comm=list(range(size)))
    hvd.init(process_sets="dynamic")
    assert hvd.size() == size
    with pytest.raises(ValueError, match="dynamic"):
        hvd.init(process_sets="static")


def test_row_shutdown_and_is_initialized(size):
    assert signature(hvd.shutdown) == signature(hvd.is_initialized) == "()"
    hvd.shutdown()
    assert hvd.is_initialized() is False
    with pytest.raises(ValueError):
        hvd.size()
    hvd.init()
    assert hvd.is_initialized() is True and hvd.size() == size


def test_row_topology(rank, size):
    functions = (hvd.size, hvd.local_size, hvd.cross_size, hvd.rank, hvd.local_rank, hvd.cross_rank)
    assert [function() for function in functions] == [size, size, 1, rank, rank, 0]
    assert hvd.is_homogeneous() is True


def test_row_allreduce(rank, size):
    assert signature(hvd.allreduce) == ("(tensor, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0, "
                                        "postscale_factor=1.0, ps, *, exact_gradient=False)")
    leaf = torch.full((2,), float(rank), requires_grad=True)
    hvd.allreduce(leaf).sum().backward()
    assert torch.all(leaf.grad == 1)
    with pytest.raises(ValueError, match="average"):
        hvd.allreduce(leaf, average=True, op=hvd.Sum)


def test_row_allreduce_async(rank, size):
    for function in (hvd.allreduce_async, hvd.allreduce_, hvd.allreduce_async_):
        assert signature(function) == "(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, ps)"
    tensor = torch.full((2,), float(rank))
    assert torch.all(hvd.synchronize(hvd.allreduce_async(tensor, op=hvd.Max)) == size - 1) and torch.all(tensor == rank)
    assert hvd.allreduce_(tensor, op=hvd.Max) is tensor and hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum)) is tensor
    assert torch.all(tensor == size * (size - 1))


def test_row_grouped_allreduce(rank, size):
    assert signature(hvd.grouped_allreduce) == ("(tensors, average=None, name=None, compression=Compression.none, op=None, "
                                                "prescale_factor=1.0, postscale_factor=1.0, ps)")
    for function in (hvd.grouped_allreduce_async, hvd.grouped_allreduce_, hvd.grouped_allreduce_async_):
        assert signature(function) == "(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, ps)"
    tensors = [torch.full((2,), float(rank)), torch.full((3,), float(rank))]
    assert [each.tolist() for each in hvd.grouped_allreduce(tensors, op=hvd.Max)] == [[size - 1] * 2, [size - 1] * 3]


def test_row_sparse_allreduce_async(size):
    assert signature(hvd.sparse_allreduce_async) == "(tensor, name, op, ps)"
    sparse = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([2.0]), (3,), check_invariants=True)
    finish = hvd.sparse_allreduce_async(sparse, "sparse", hvd.Sum)
    assert callable(finish) and finish().to_dense().tolist() == [0, 2.0 * size, 0]


def test_row_allgather(rank, size):
    assert signature(hvd.allgather_async) == "(tensor, name=None, ps)" and signature(hvd.grouped_allgather_async) == "(tensors, name=None, ps)"
    assert signature(hvd.allgather) == "(tensor, name=None, ps, *, exact_gradient=False)"
    assert signature(hvd.grouped_allgather) == "(tensors, name=None, ps, *, exact_gradient=False)"
    rows = hvd.allgather(torch.full((rank, 2), rank))  # first dimensions differ
    assert rows.shape == (size * (size - 1) // 2, 2)


def test_row_broadcast(rank, size):
    assert signature(hvd.broadcast) == "(tensor, root_rank, name=None, ps, *, exact_gradient=False)"
    for function in (hvd.broadcast_async, hvd.broadcast_, hvd.broadcast_async_):
        assert signature(function) == "(tensor, root_rank, name=None, ps)"
    assert hvd.broadcast(torch.tensor([rank]), size - 1).item() == size - 1


def test_row_alltoall(rank, size):
    for function in (hvd.alltoall, hvd.alltoall_async):
        assert signature(function) == "(tensor, splits=None, name=None, ps)"
    assert hvd.alltoall(torch.full((size,), rank)).tolist() == list(range(size))
    output, received = hvd.alltoall(torch.full((size,), rank), splits=torch.ones(size, dtype=torch.int32))
    assert output.tolist() == list(range(size)) and received.tolist() == [1] * size


def test_row_reducescatter(rank, size):
    assert signature(hvd.reducescatter) == ("(tensor, name=None, compression=Compression.none, op=Average, ps, prescale_factor=1.0, "
                                            "postscale_factor=1.0, *, exact_gradient=False)")
    assert signature(hvd.grouped_reducescatter) == signature(hvd.reducescatter).replace("tensor,", "tensors,")
    for function, word in ((hvd.reducescatter_async, "tensor"), (hvd.grouped_reducescatter_async, "tensors")):
        assert signature(function) == f"({word}, name=None, op=Average, ps, prescale_factor=1.0, postscale_factor=1.0)"
    assert hvd.reducescatter(torch.ones(size + 1), op=hvd.Sum).tolist() == [float(size)] * (2 if rank == 0 else 1)
    with pytest.raises(ValueError):
        hvd.reducescatter(torch.tensor(1.0))


def test_row_join(size):
    assert signature(hvd.join) == "(device=-1)"
    assert hvd.join() in range(size)


def test_row_barrier():
    assert signature(hvd.barrier) == "(ps)"
    hvd.barrier()


def test_row_poll_and_synchronize(size):
    assert signature(hvd.poll) == signature(hvd.synchronize) == "(handle)"
    handle = hvd.allreduce_async(torch.ones(2), op=hvd.Sum)
    assert hvd.poll(handle) in (True, False)
    assert torch.all(hvd.synchronize(handle) == size) and hvd.poll(handle) is True
    assert issubclass(hvd.HorovodInternalError, RuntimeError)


def test_row_broadcast_parameters(rank):
    assert signature(hvd.broadcast_parameters) == "(params, root_rank)"
    for params in ({"a": torch.full((2,), rank)}, [torch.full((2,), rank)], [("a", torch.full((2,), rank))]):
        hvd.broadcast_parameters(params, root_rank=0)
        tensors = params.values() if isinstance(params, dict) else [each[1] if isinstance(each, tuple) else each for each in params]
        assert all(torch.all(tensor == 0) for tensor in tensors)


def test_row_broadcast_optimizer_state(rank):
    assert signature(hvd.broadcast_optimizer_state) == "(optimizer, root_rank, model=None)"
    optimizer = torch.optim.SGD(model_of().parameters(), lr=0.5 if rank == 0 else 0.1)
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.param_groups[0]["lr"] == 0.5
    with pytest.raises(ValueError):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS(model_of().parameters()), 0)


def test_row_objects(rank, size):
    assert signature(hvd.broadcast_object) == "(obj, root_rank=0, name=None, ps)"
    assert signature(hvd.allgather_object).startswith("(obj, name=None")
    assert hvd.broadcast_object({"rank": rank}) == {"rank": 0}
    assert hvd.allgather_object(lambda: rank)[size - 1]() == size - 1  # by cloudpickle


def test_row_distributed_optimizer(rank):
    names = ("named_parameters=None, compression=Compression.none, backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0, "
             "num_groups=0, groups=None, sparse_as_dense=False, ps")
    assert signature(hvd.DistributedOptimizer).startswith(f"(optimizer, {names}, *, ")
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters())
    assert isinstance(optimizer, torch.optim.SGD)
    for step in range(2):
        optimizer.zero_grad()
        loss_of(model, batch(step, [rank])).backward()
        optimizer.synchronize()
        with optimizer.skip_synchronize():
            optimizer.step()
    same(model, reference(sgd, 2))
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.set_backward_passes_per_step(2)
    assert signature(optimizer.step) == "(closure=None)"


def test_row_sync_batch_norm(size):
    words = signature(hvd.SyncBatchNorm)
    assert words.startswith("(num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True")
    rows = torch.randn(size * 4, 3, generator=torch.Generator().manual_seed(0))
    mine = hvd.SyncBatchNorm(3)(rows[hvd.rank() * 4:hvd.rank() * 4 + 4])
    assert torch.allclose(mine, torch.nn.BatchNorm1d(3)(rows)[hvd.rank() * 4:hvd.rank() * 4 + 4], atol=1e-5)


def test_row_compression():
    compressed, context = hvd.Compression.fp16.compress(torch.ones(2))
    assert compressed.dtype == torch.float16 and hvd.Compression.fp16.decompress(compressed, context).dtype == torch.float32
    assert hvd.Compression.none.compress(compressed)[0] is compressed

    class Own(rueda.torch.compression.Compressor):
        @staticmethod
        def compress(tensor):
            return tensor * 2, None

        @staticmethod
        def decompress(tensor, ctx):
            return tensor / 2

    assert torch.all(hvd.allreduce(torch.ones(2), compression=Own) == 1)


def test_row_reduce_ops(size):
    ops = {hvd.Average: 2.0, hvd.Sum: 2.0 * size, hvd.Adasum: 2.0, hvd.Min: 2.0, hvd.Max: 2.0, hvd.Product: 2.0 ** size}
    for op, wanted in ops.items():
        assert torch.allclose(hvd.allreduce(torch.full((2,), 2.0), op=op), torch.tensor(wanted)), op


def test_row_process_sets(rank, size):
    assert signature(hvd.ProcessSet) == "(ranks_or_comm)"
    assert hvd.global_process_set.size() == size and hvd.remove_process_set(hvd.global_process_set) is False
    members = hvd.ProcessSet([0])
    assert members.process_set_id is None
    if size > 1:
        hvd.add_process_set(members)
        assert (members.size(), members.included(), members.ranks, members.mpi_comm) == (1, rank == 0, [0], None)
        assert members.process_set_id > 0
        assert hvd.remove_process_set(members) is True


def test_row_timeline(rank):
    assert signature(hvd.start_timeline) == "(file_path, mark_cycles=False)" and signature(hvd.stop_timeline) == "()"
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(hvd.broadcast_object(folder), "timeline.json")
        hvd.start_timeline(file, mark_cycles=True)
        hvd.allreduce(torch.ones(4), name="watched")
        hvd.stop_timeline()
        hvd.barrier()
        if rank == 0:
            text = open(file).read()
            json.loads(text)
            for word in ("NEGOTIATE_ALLREDUCE", "ALLREDUCE", "CYCLE_START", "allreduce.watched", "start_time_since_epoch_in_micros"):
                assert word in text
        hvd.barrier()


def test_row_build_probes():
    probes = "mpi_built mpi_enabled mpi_threads_supported gloo_built gloo_enabled ddl_built ccl_built cuda_built rocm_built".split()
    assert all(isinstance(getattr(hvd, probe)(), bool) for probe in probes)
    assert type(hvd.nccl_built()) is int


def test_row_common_util():
    util = rueda.common.util
    assert signature(util.check_extension) == "(ext_name, ext_env_var, pkg_path, *args)"
    assert signature(util.extension_available) == signature(util.gpu_available) == "(ext_base_name, verbose=False)"
    assert util.split_list([1, 2, 3], 2) == [[1, 2], [3]] and util.num_rank_is_power_2(8)


def test_row_elastic(rank):
    state = hvd.elastic.TorchState(model=model_of(), optimizer=None, epoch=0)
    names = "commit save restore sync reset on_reset register_reset_callbacks check_host_updates".split()
    assert all(callable(getattr(state, name)) for name in names) and isinstance(state, hvd.elastic.State)
    state.epoch = 3
    state.commit()
    state.epoch = 4
    state.restore()
    assert state.epoch == 3
    sampler = hvd.elastic.ElasticSampler(list(range(8)), shuffle=True, seed=0)
    assert all(callable(getattr(sampler, name)) for name in "set_epoch record_batch state_dict load_state_dict reset".split())
    assert hvd.elastic.run(lambda state: "done")(state) == "done"
    assert issubclass(hvd.HostsUpdatedInterrupt, RuntimeError)


def test_row_launcher_function():
    words = ("(func, args=(), kwargs=None, num_proc=1, min_num_proc=None, max_num_proc=None, slots=None, reset_limit=None, "
             "cooldown_range=None, hosts=None, hostfile=None, host_discovery_script=None, start_timeout=None, ssh_port=None, "
             "ssh_identity_file=None, disable_cache=None, output_filename=None, verbose=None, use_gloo=None, use_mpi=None, mpi_args=None, "
             "network_interface=None, network_interfaces=None, executable=None, np=None, min_np=None, max_np=None)")
    assert signature(rueda.run) == words  # it runs in tests/python/test_run.py


def test_row_data():
    parameters = inspect.signature(rueda.data.AsyncDataLoaderMixin).parameters
    assert parameters["async_loader_queue_size"].default == 64 and parameters["debug_data_loader"].default is False
