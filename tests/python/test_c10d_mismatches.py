# SPDX-License-Identifier: Apache-2.0
"""Ranks of torch.distributed that call different things: each rank hears of all sides, and the group goes on."""

import pytest
from c10d_programs import run, script  # noqa: F401 - script is a fixture

CALLS = '''
    rank, size = begin(seconds=20)
    ones = lambda *shape, dtype=torch.float32: torch.ones(*shape, dtype=dtype)
    def both(name, call):
        say(name, rank, error_of(call).split("Exception raised")[0])
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        assert tensor.item() == size
'''


def words_of(out, ready=()):
    """By name: the words that both ranks have alike, without the beginning that names the rank. One rank may be through with those in `ready`."""
    words = {}
    for line in out.splitlines():
        name, rank, text = line.split(" ", 2)
        if text == "none" and name in ready:
            continue
        assert text.startswith("DistBackendError: rueda: "), line
        assert f" on rank {rank} of 2: " in text and " number " in text, line
        words.setdefault(name, []).append(text.split(f" on rank {rank} of 2: ", 1)[1])
    for name, each in words.items():
        assert (len(each) == 2 or name in ready) and each[0] == each[-1], (name, each)
        assert "c10d." not in each[0] and "free memory" not in each[0] and "under different names" not in each[0], each[0]
    return {name: each[0] for name, each in words.items()}


def test_calls_that_differ(script):
    words = words_of(run(script(CALLS + '''
    both("operation", lambda: dist.all_reduce(ones(4)) if rank == 0 else dist.broadcast(ones(5), 0))
    both("shape", lambda: dist.all_reduce(ones(4 + rank)))
    both("type", lambda: dist.all_reduce(ones(4, dtype=[torch.float32, torch.int64][rank])))
    both("reduction", lambda: dist.all_reduce(ones(4), [dist.ReduceOp.SUM, dist.ReduceOp.MAX][rank]))
    both("factor", lambda: dist.all_reduce(ones(2), dist._make_nccl_premul_sum(0.5 + rank)))
    both("root", lambda: dist.broadcast(ones(4), rank))
    both("into_tensor", lambda: dist.all_gather_into_tensor(ones(2 * (4 + rank)), ones(4 + rank)))
    both("list", lambda: dist.all_gather([ones(4 + rank) for _ in range(2)], ones(4 + rank)))
    both("reduce_scatter", lambda: dist.reduce_scatter_tensor(ones(4 + rank), ones(2 * (4 + rank))))
    both("number", lambda: dist.all_reduce_coalesced([ones(2) for _ in range(2 + rank)]))
    both("coalesced", lambda: dist.all_reduce(ones(2)) if rank == 0 else dist.all_reduce_coalesced([ones(2), ones(3)]))
    both("second", lambda: dist.all_reduce_coalesced([ones(2), ones(3 + rank)]))
    dist.destroy_process_group()
    ''')))
    assert words["operation"] == ("the ranks differ in the operation: rank 0 called all_reduce (SUM) of float32 [4], rank 1 broadcast of float32 [5]. "
                                  "Call the same operations in the same order on every rank.")
    assert words["shape"] == ("the ranks differ in the shape: rank 0 called all_reduce (SUM) of float32 [4], rank 1 all_reduce (SUM) of float32 [5]. "
                              "Call it with the same shape on every rank.")
    assert "differ in the type: rank 0 called all_reduce (SUM) of float32 [4], rank 1 all_reduce (SUM) of int64 [4]" in words["type"]
    assert "differ in the reduction: rank 0 called all_reduce (SUM) of float32 [4], rank 1 all_reduce (MAX) of float32 [4]" in words["reduction"]
    assert "all_reduce (PREMUL_SUM) of float32 [2] with the prescale factor 0.5, rank 1" in words["factor"] and "factor 1.5" in words["factor"]
    assert "rank 0 called broadcast of float32 [4] with the root rank 0, rank 1 broadcast of float32 [4] with the root rank 1" in words["root"]
    assert "shape: rank 0 called all_gather_into_tensor of float32 [4], rank 1 all_gather_into_tensor of float32 [5]" in words["into_tensor"]
    assert "shape: rank 0 called all_gather of float32 [4], rank 1 all_gather of float32 [5]" in words["list"]
    assert "rank 0 called reduce_scatter_tensor (SUM) of float32 [8], rank 1 reduce_scatter_tensor (SUM) of float32 [10]" in words["reduce_scatter"]
    assert "differ in the number of tensors: rank 0" in words["number"] and "with the number of tensors 3" in words["number"]
    assert "operation: rank 0 called all_reduce (SUM) of float32 [2], rank 1 all_reduce_coalesced (SUM) of float32 [2]" in words["coalesced"]
    assert "all_reduce_coalesced (SUM) of float32 [3] as its tensor 2, rank 1 all_reduce_coalesced (SUM) of float32 [4] as its tensor 2" in words["second"]


def test_what_travels_as_something_else_is_compared_too(script):
    words = words_of(run(script(CALLS + '''
    six = lambda: torch.tensor([6, 6])
    both("bitwise", lambda: dist.all_reduce(six(), [dist.ReduceOp.BAND, dist.ReduceOp.BOR][rank]))
    both("gathered", lambda: dist.all_reduce(six(), dist.ReduceOp.BAND) if rank == 0 else dist.all_gather_into_tensor(torch.zeros(4, dtype=torch.int64), six()))
    both("bits", lambda: dist.all_reduce(torch.tensor([6]) if rank == 0 else torch.tensor([6, 7]), dist.ReduceOp.BXOR))
    both("pairs", lambda: dist.group.WORLD.allreduce([ones(4, dtype=torch.complex64) if rank == 0 else ones(4, 2)]).wait())
    both("complex", lambda: dist.group.WORLD.allreduce([ones(4 + rank, dtype=torch.complex64)]).wait())
    both("by_torch", lambda: dist.all_reduce(ones(4, dtype=torch.complex64) if rank == 0 else ones(8)))
    both("both_complex", lambda: dist.all_reduce(ones(4 + rank, dtype=torch.complex128)))
    both("sent", lambda: dist.broadcast(ones(4 + rank, dtype=torch.complex64), 0))
    both("scattered", lambda: dist.reduce_scatter_tensor(ones(2 + rank, dtype=torch.complex64), ones(2 * (2 + rank), dtype=torch.complex64)))
    both("unsigned", lambda: dist.all_reduce(ones(4, dtype=[torch.uint32, torch.int32][rank])))
    both("float8", lambda: dist.broadcast(ones(4, dtype=[torch.uint8, torch.float8_e4m3fn][rank]), 0))
    both("moved", lambda: dist.broadcast(ones(4 + rank, dtype=torch.uint16), 0))
    dist.destroy_process_group()
    ''')))
    assert "reduction: rank 0 called all_reduce (BAND) of int64 [2], rank 1 all_reduce (BOR) of int64 [2]" in words["bitwise"]
    assert "operation: rank 0 called all_reduce (BAND) of int64 [2], rank 1 all_gather_into_tensor of int64 [2]" in words["gathered"]
    assert "shape: rank 0 called all_reduce (BXOR) of int64 [1], rank 1 all_reduce (BXOR) of int64 [2]" in words["bits"]
    assert "type: rank 0 called all_reduce (SUM) of complex64 [4], rank 1 all_reduce (SUM) of float32 [4, 2]" in words["pairs"]
    assert "shape: rank 0 called all_reduce (SUM) of complex64 [4], rank 1 all_reduce (SUM) of complex64 [5]" in words["complex"]
    assert "type: rank 0 called all_reduce (SUM) of complex64 [4], rank 1 all_reduce (SUM) of float32 [8]" in words["by_torch"]
    assert "shape: rank 0 called all_reduce (SUM) of complex128 [4], rank 1 all_reduce (SUM) of complex128 [5]" in words["both_complex"]
    assert "shape: rank 0 called broadcast of complex64 [4], rank 1 broadcast of complex64 [5]" in words["sent"]
    assert "rank 0 called reduce_scatter_tensor (SUM) of complex64 [4], rank 1 reduce_scatter_tensor (SUM) of complex64 [6]" in words["scattered"]
    assert "type: rank 0 called all_reduce (SUM) of uint32 [4], rank 1 all_reduce (SUM) of int32 [4]" in words["unsigned"]
    assert "type: rank 0 called broadcast of uint8 [4], rank 1 broadcast of float8_e4m3fn [4]" in words["float8"]
    assert "shape: rank 0 called broadcast of uint16 [4], rank 1 broadcast of uint16 [5]" in words["moved"]


def test_pairs_that_the_program_makes_meet_those_of_torch(script):
    out = run(script(CALLS + '''
    for i in range(3):
        values = ones(4, dtype=torch.complex64) if rank == i % 2 else ones(4, 2)
        dist.all_reduce(values)
        pairs = torch.view_as_real(values) if values.is_complex() else values
        expected = ones(4, 2) + torch.tensor([1.0, 0.0]).expand(4, 2)
        say(torch.equal(pairs, expected))
    dist.destroy_process_group()
    '''))
    assert out.split() == ["True"] * 6, out


@pytest.mark.parametrize("shared", ["1", "0"])
def test_sizes_that_do_not_fit(script, shared):
    words = words_of(run(script(CALLS + '''
    zeros = torch.zeros
    full = lambda: torch.full((2,), float(rank))
    both("splits", lambda: dist.all_to_all_single(zeros(4), ones(4), [1, 3], [2, 2]))
    both("all_to_all", lambda: dist.all_to_all([zeros(1), zeros(3)], [full(), full()]))
    both("gather", lambda: dist.gather(ones(4 + rank), [ones(4) for _ in range(2)] if rank == 0 else None, 0))
    both("gather_list", lambda: dist.gather(full(), [zeros(2), zeros(4)] if rank == 0 else None, 0))
    both("scatter", lambda: dist.scatter(ones(4 + rank), [ones(4) for _ in range(2)] if rank == 0 else None, 0))
    both("lists", lambda: dist.all_gather([[zeros(2), zeros(3)], [zeros(2), zeros(2)]][rank], full()))
    both("parts", lambda: dist.reduce_scatter(zeros(2), [[ones(2), ones(2)], [ones(1), ones(2)]][rank]))
    dist.destroy_process_group()
    '''), RUEDA_SHM=shared), ready=() if shared == "1" else ("splits", "all_to_all", "gather", "gather_list", "scatter"))
    came = {"splits": "its output takes [1, 3] rows of float32 from the ranks in their order, and [2, 2] come",
            "all_to_all": "its output takes [1, 3] rows of float32 from the ranks in their order, and [2, 2] come",
            "gather": "its output takes [4, 4] rows of float32 from the ranks in their order, and [4, 5] come",
            "gather_list": "its output takes [2, 4] rows of float32 from the ranks in their order, and [2, 2] come",
            "scatter": "its output takes 5 elements of float32, and 4 come"}
    for name, each in came.items():
        assert each in words[name] and "call it with sizes that fit together on all ranks" in words[name], words[name]
    assert "sizes of the tensors in its list: rank 0 called all_gather of float32 [2], rank 1" in words["lists"]
    assert "rank 0 called reduce_scatter (SUM) of float32 [4], rank 1 reduce_scatter (SUM) of float32 [3]" in words["parts"]


def test_arguments_that_are_wrong_on_their_own_rank(script):
    out = run(script('''
    rank, size = begin(seconds=20)
    zeros, two = torch.zeros, torch.ones(2)
    say(error_of(lambda: dist.all_gather([zeros(1), zeros(3)], two)))
    say(error_of(lambda: dist.group.WORLD.allgather([[zeros(2), zeros(2, dtype=torch.int32)]], [two])))
    say(error_of(lambda: dist.group.WORLD.alltoall([zeros(2, dtype=torch.int32)] * 2, [two, two])))
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    say("goes on", tensor.item())
    dist.destroy_process_group()
    '''))
    assert out.count("ValueError: rueda: all_gather has invalid tensor size at index") == 2, out
    assert out.count("give all one type") == 4 and out.count("goes on 2.0") == 2, out


def test_sparse_tensors_of_different_shapes(script):
    words = words_of(run(script(CALLS + '''
    def sparse(*shape, dense=(), at=0):
        return torch.sparse_coo_tensor(torch.tensor([[at]] * len(shape)), torch.ones(1, *dense), (*shape, *dense))
    both("size", lambda: dist.all_reduce(sparse(3) if rank == 0 else sparse(50_000_000, at=49_999_999)))
    both("near", lambda: dist.all_reduce(sparse(3 + rank)))
    both("dense", lambda: dist.all_reduce(sparse(3, dense=(2 + rank,))))
    both("dimensions", lambda: dist.all_reduce(sparse(3, 3) if rank == 0 else sparse(3, dense=(3,))))
    both("layout", lambda: dist.all_reduce(sparse(3) if rank == 0 else ones(3)))
    both("vast", lambda: dist.all_reduce(sparse(2 ** 31 + rank, 2 ** 31)))
    tensor = sparse(5, 4, at=rank)
    dist.all_reduce(tensor)
    assert tensor.to_dense().sum() == 2 and tensor.to_dense()[1, 1] == 1
    dist.destroy_process_group()
    ''')))
    name = "all_reduce of a sparse tensor (SUM) of float32"
    assert f"shape: rank 0 called {name} [3], 1 of its dimensions sparse, rank 1 {name} [50000000], 1 of its dimensions sparse. Call it with the same shape on every rank." in words["size"]
    assert f"rank 0 called {name} [3], 1 of its dimensions sparse, rank 1 {name} [4], 1" in words["near"]
    assert f"rank 0 called {name} [3, 2], 1 of its dimensions sparse, rank 1 {name} [3, 3], 1" in words["dense"]
    assert f"rank 0 called {name} [3, 3], 2 of its dimensions sparse, rank 1 {name} [3, 3], 1" in words["dimensions"]
    assert f"operation: rank 0 called {name} [3], 1 of its dimensions sparse, rank 1 all_reduce (SUM) of float32 [3]" in words["layout"]
    assert f"rank 0 called {name} [2147483648, 2147483648]" in words["vast"]


def test_messages_that_differ(script):
    out = run(script('''
    rank, size = begin(seconds=20)
    def call():
        return dist.send(torch.ones(4), 1) if rank == 0 else dist.recv(torch.ones(5), 0)
    say(error_of(call).split("Exception raised")[0])
    def of_types():
        return dist.send(torch.ones(4, dtype=torch.uint8), 1, tag=1) if rank == 0 else dist.recv(torch.ones(4, dtype=torch.float8_e5m2), 0, tag=1)
    say(error_of(of_types).split("Exception raised")[0])
    dist.destroy_process_group()
    '''))
    assert out.count("send or recv of float32 [4]") == 2 and out.count("send or recv of float32 [5]") == 2, out
    assert out.count("send or recv of uint8 [4]") == 2 and out.count("send or recv of float8_e5m2 [4]") == 2, out


def test_expanded_tensors_and_types_that_are_not_reduced(script):
    out = run(script('''
    rank, size = begin()
    tensor = torch.ones(2, 1).expand(2, 3)
    dist.all_reduce(tensor)
    bits = torch.tensor([5 + rank]).expand(4)
    dist.all_reduce(bits, dist.ReduceOp.BAND)
    pairs = torch.full((1,), 1 + 1j).expand(2)
    dist.all_reduce(pairs)
    root = torch.ones(1).expand(3)
    dist.reduce(root, 0)
    sent = torch.full((1,), float(rank)).expand(3)
    dist.broadcast(sent, 1)
    say(tensor.tolist(), bits.tolist(), pairs.tolist(), root.tolist() if rank == 0 else [2.0] * 3, sent.tolist())
    say(error_of(lambda: dist.all_reduce(torch.ones(2, dtype=torch.float8_e5m2))))
    dist.destroy_process_group()
    '''))
    lines = out.splitlines()
    assert lines.count("[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]] [4, 4, 4, 4] [(2+2j), (2+2j)] [2.0, 2.0, 2.0] [1.0, 1.0, 1.0]") == 2, out
    assert out.count("ValueError: rueda: float8_e5m2 is moved, but not reduced; convert it by to(torch.bfloat16) before") == 2, out


def test_too_many_open_files(script):
    out = run(script('''
    import resource
    rank, size = begin(seconds=3)
    if rank == 0:
        most = max(map(int, os.listdir("/proc/self/fd"))) + 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        error_of(lambda: [os.dup(0) for _ in range(most)])
    say(rank, error_of(dist.new_group))
    os._exit(0)
    '''))
    assert "ulimit -n" in out and "RUEDA_RAILS" not in out, out
