# SPDX-License-Identifier: Apache-2.0
"""Programs of four ranks. Each function is one: run_under_both.py calls it with a group of each backend, and compares what it returns."""

import itertools
import shutil

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as checkpoints
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def _numbers(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _model(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.ReLU(), torch.nn.Linear(24, 8))


def _train(model, seed, steps=3):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        model(_numbers(10 * step + seed, 12, 8)).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    return optimizer


def _whole(model):
    return [each.full_tensor() for each in model.parameters()]


def _sharded(seed, *sizes):
    model, mesh = _model(seed), init_device_mesh("cpu", sizes, mesh_dim_names=("replicas", "shards")[-len(sizes):])
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    return model


def redistribute(rank, folder):
    """Also of sizes that ranks do not divide."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    assert mesh["rows"].size() == 2 and list(mesh.get_coordinate()) == [rank // 2, rank % 2]
    given, values = _numbers(1, 5, 7), []
    placements = [[Shard(0), Shard(1)], [Shard(1), Shard(0)], [Shard(0), Shard(0)], [Replicate(), Shard(1)], [Replicate(), Replicate()]]
    for begin, end in itertools.permutations(placements, 2):
        tensor = distribute_tensor(given, mesh, begin).redistribute(placements=end)
        assert torch.equal(tensor.full_tensor(), given), (begin, end)
        values.append(tensor.to_local())
    for begin in ([Partial("max"), Partial("max")], [Partial("avg"), Shard(0)], [Shard(1), Partial("min")]):
        tensor = DTensor.from_local(_numbers(rank, 4, 6), mesh, begin)
        values += [tensor.redistribute(placements=[Shard(0), Shard(1)]).to_local(), tensor.full_tensor()]
    return values


def tensor_parallel(rank, folder):
    """Within the second dimension of the mesh; FSDP2 along the first."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    values = []
    for rows in (Replicate(), Shard(0)):
        model = parallelize_module(_model(4), mesh["tensor"], {"0": ColwiseParallel(input_layouts=rows), "2": RowwiseParallel(output_layouts=rows)})
        fully_shard(model, mesh=mesh["data"])
        _train(model, mesh["data"].get_local_rank())
        values += [each.to_local() for each in model.parameters()]
    return values


def hybrid_shards(rank, folder):
    model = _sharded(5, 2, 2)
    _train(model, rank)
    return _whole(model)


def pipelines(rank, folder):
    values = []
    for schedule in (ScheduleGPipe, Schedule1F1B):
        torch.manual_seed(6)
        layer = [torch.nn.Linear(8, 8) for _ in range(4)][rank]
        pipeline = schedule(PipelineStage(layer, rank, 4, torch.device("cpu")), 4, loss_fn=torch.nn.functional.mse_loss)
        losses = []
        for step in range(2):
            first = [_numbers(step, 16, 8)] if rank == 0 else []
            last = {"target": _numbers(100 + step, 16, 8), "losses": losses} if rank == 3 else {}
            pipeline.step(*first, **last)
        assert bool(losses) == (rank == 3)
        values += [layer.weight.grad, *losses]
    return values


def checkpoint(rank, folder):
    """Saved by shards of four ranks, loaded into two times two."""
    model = _sharded(7, 4)
    optimizer = _train(model, rank)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    checkpoints.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder / "sync")
    saved = checkpoints.async_save({"model": model_state}, checkpoint_id=folder / "async", process_group=dist.new_group())
    model_of_pairs = _sharded(8, 2, 2)
    optimizer_of_pairs = torch.optim.Adam(model_of_pairs.parameters(), lr=0.5)
    model_state, optimizer_state = get_state_dict(model_of_pairs, optimizer_of_pairs)
    state = {"model": model_state, "optimizer": optimizer_state}
    checkpoints.load(state, checkpoint_id=folder / "sync")
    set_state_dict(model_of_pairs, optimizer_of_pairs, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    values = _whole(model_of_pairs)
    assert all(map(torch.equal, values, _whole(model)))
    moments = [state["exp_avg"].full_tensor() for state in optimizer_of_pairs.state.values()]
    assert len(moments) == 4 and all(each.any() for each in moments) and optimizer_of_pairs.param_groups[0]["lr"] == 0.01
    saved.result()
    dist.barrier()
    state = {"model": get_state_dict(_sharded(9, 4), ())[0]}
    checkpoints.load(state, checkpoint_id=folder / "async")
    assert all(map(torch.equal, values, (each.full_tensor() for each in state["model"].values())))
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder / "sync")
        shutil.rmtree(folder / "async")
    return values + moments


def functional_collectives(rank, folder):
    """Of half of the ranks."""
    group = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b")).get_group("a")
    given = _numbers(rank, 4, 3)
    values = [
        functional.all_reduce(given, "max", group), functional.broadcast(given, 0, group), functional.all_gather_tensor(given, 1, group),
        functional.reduce_scatter_tensor(given, "avg", 0, group), functional.permute_tensor(given[1], [1, 0], group),
        functional.all_to_all_single(given[0], [1 + rank // 2] * 2, [1, 2], group),
        *functional.all_reduce_coalesced([given, given[0]], "sum", group),
        *functional.all_gather_into_tensor_coalesced([given, given[0]], group),
        *functional.reduce_scatter_tensor_coalesced([given, given * 2], "sum", [0, 0], group)]
    given.requires_grad_()
    gathered = functional.all_gather_tensor_autograd(given, 0, group)
    scattered = functional.reduce_scatter_tensor_autograd(gathered.square(), "sum", 0, group)
    moved = functional.all_to_all_single_autograd(scattered, [2, 2], [2, 2], group)
    (moved * _numbers(50 + rank, 4, 3)).sum().backward()
    return [*values, moved, given.grad]
