# SPDX-License-Identifier: Apache-2.0
"""The marks of a training loop in Python, as another process reads them from the memory of a rank."""
import os
import subprocess
import sys
from pathlib import Path

BIN = Path(os.environ["RUEDA_BIN"])

READER = """
import gc, glob, math, mmap, os, struct, sys, threading, torch, rueda.torch as hvd

PHASES = "other data forward backward wait step evaluation checkpoint garbage".split()
HEADER, SPANS, SPAN, POINTS, POINT, TAG = 152 + 256 * 24, 4096, 7, 512, 6, 10
CURVE = 2 + TAG + POINTS * POINT

def page():
    number, = [each for each in glob.glob("/proc/self/fd/*") if os.path.exists(each) and "memfd:rueda-training" in os.readlink(each)]
    with open(number, "rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

def words(memory, first, count):
    return struct.unpack_from(f"{count}Q", memory, 8 * first)

def about(memory):
    _, _, process, step, total, samples, since, phase, offset, spans, curves = words(memory, 0, 11)
    assert process == os.getpid()
    return dict(step=step, total=total, samples=samples, phase=PHASES[phase], spans=spans, curves=curves)

def spans(memory, begin):
    found = []
    for number in range(begin, about(memory)["spans"]):
        _, ticket, phase, step, begin_ns, end_ns, _ = words(memory, HEADER + SPAN * (number % SPANS), SPAN)
        assert ticket == number and begin_ns <= end_ns
        found.append((PHASES[phase], step))
    return found

def curves(memory):
    found = {}
    for each in range(about(memory)["curves"]):
        first = HEADER + SPAN * SPANS + CURVE * each
        logged, stride, _, *tag = words(memory, first, 11)
        name = struct.pack("8Q", *tag).rstrip(b"\\0").decode()
        points = []
        for i in range(logged):
            at = 8 * (first + 2 + TAG + POINT * i)
            _, number, step, value, _ = struct.unpack_from("3Qdd", memory, at)
            points.append((step, value))
        found[name] = points
    return found
"""
STEPS = READER + """
hvd.init()
model = torch.nn.Linear(4, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters(), **OPTIONS)
hvd.describe_training(total_steps=3, samples_per_step=2)
loader = torch.utils.data.DataLoader(torch.ones(6, 4), batch_size=2)
memory = page()
gc.disable()
hvd.end_step()
begin, first = about(memory)["spans"], about(memory)["step"]
for batch in loader:
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    hvd.log({"loss": loss, "learning rate": 0.1, "bad": math.nan})
hvd.log({"loss": 9}, step=77)
end = about(memory)["step"]
found = spans(memory, begin)
"""
SYNCHRONIZING = STEPS.replace("OPTIONS", "{}") + """
expected = []
for step in range(3):
    expected += [(phase, first + step) for phase in f"{'other' if step else 'forward'} data forward backward wait other step".split()]
assert found[:21] == expected, found
assert found[21:] == [("other", end), ("data", end)], found[21:]   # the loader has no more
assert end == first + 3
facts = about(memory)
assert facts["total"] == 3 and facts["samples"] == 2 and facts["phase"] == "other", facts
loss = curves(memory)["loss"]
assert [step for step, _ in loss] == [first + 1, first + 2, first + 3, 77] and loss[-1][1] == 9, loss
assert curves(memory)["learning rate"][0] == (first + 1, 0.1)
assert math.isnan(curves(memory)["bad"][0][1])
print("done", flush=True)
"""
ADASUM = STEPS.replace("OPTIONS", "dict(op=hvd.Adasum)") + """
assert end == first + 3 and ("wait", first) in found and ("data", first) in found, found
print("done", flush=True)
"""
SHARDED = STEPS.replace("OPTIONS", "dict(sharded=True)") + """
assert end == first + 3, (first, end)
assert [phase for phase, step in found if step == first] == "forward data forward backward wait other step wait step wait step".split(), found
print("done", flush=True)
"""
PHASE = READER + """
hvd.init()
memory = page()
hvd.end_step()
begin = about(memory)["spans"]
with hvd.phase("evaluation"):
    assert about(memory)["phase"] == "evaluation"
    gc.collect()
    gc.collect(0)
    gc.collect(1)
    collector = threading.Thread(target=gc.collect)   # of another thread: no phase of the training loop
    collector.start()
    collector.join()
    assert about(memory)["phase"] == "evaluation"
assert about(memory)["phase"] == "forward"
loader = torch.utils.data.DataLoader(torch.ones(6, 4), batch_size=2)
ahead = threading.Thread(target=lambda: list(loader))
ahead.start()
ahead.join()
assert [phase for phase, _ in spans(memory, begin)] == ["forward", "evaluation", "garbage", "evaluation"], spans(memory, begin)
for wrong, error in ((lambda: hvd.phase("lunch"), "there is no phase 'lunch'; there are other, data, forward"),
                     (lambda: hvd.describe_training(-1, 2), "-1 steps"), (lambda: hvd.describe_training(1, 2, -1), "steps_done is -1")):
    try:
        wrong()
        raise AssertionError(error)
    except ValueError as told:
        assert error in str(told), told
hvd.describe_training(total_steps=20, steps_done=12)
hvd.end_step()
assert about(memory)["step"] == 13
before = about(memory)
child = os.fork()
if child == 0:
    hvd.end_step()
    hvd.log({"child": 1})
    os._exit(0)
os.waitpid(child, 0)
assert about(memory) == before and "child" not in curves(memory)
hvd.shutdown()
hvd.end_step()
hvd.init()
assert about(memory)["step"] == 14
print("done", flush=True)
"""


def run(script, folder, ranks=2):
    (folder / "script.py").write_text(script)
    launcher = [BIN / "ruedarun", "--no-prefix", "-np", str(ranks)] if ranks else []
    done = subprocess.run([*launcher, sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


def trained(script, folder):
    status, out, err = run(script, folder)
    assert status == 0 and out.count("done") == 2, out + err


def test_an_optimizer_and_a_loader_mark_their_phases(tmp_path):
    trained(SYNCHRONIZING, tmp_path)


def test_adasum_of_updates_marks_its_wait_and_step(tmp_path):
    trained(ADASUM, tmp_path)


def test_a_sharded_optimizer_waits_three_times(tmp_path):
    trained(SHARDED, tmp_path)


def test_phases_of_the_program(tmp_path):
    trained(PHASE, tmp_path)


def test_without_a_launcher_loaders_and_collections_are_left_alone(tmp_path):
    status, out, err = run("""
import gc, rueda.torch as hvd, torch
import rueda.torch.distributed
from torch.optim import optimizer
assert not hasattr(torch.utils.data.dataloader._BaseDataLoaderIter.__next__, "__wrapped__") and not gc.callbacks
assert not optimizer._global_optimizer_pre_hooks and not optimizer._global_optimizer_post_hooks
hvd.log({"loss": 1.0})
hvd.end_step()
print("done")
""", tmp_path, ranks=0)
    assert status == 0 and "done" in out, out + err


GROUPS = READER + """
import rueda.torch.distributed, torch.distributed as dist
dist.init_process_group("rueda")
memory = page()
gc.disable()
torch.manual_seed(1)
MODEL
data = torch.ones(2, 64)
private = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1)   # of no group
begin, first = about(memory)["spans"], about(memory)["step"]
for step in range(4):
    optimizer.zero_grad()
    loss = model(data).sum()
    loss.backward()
    private.step()
    optimizer.step()
    private.step()
assert about(memory)["step"] == first + 4, (first, about(memory))
found = [[phase for phase, of in spans(memory, begin) if of == first + step] for step in range(4)]
print("found", found)
CHECK
with torch.no_grad():
    model(data)
optimizer.step()   # without gradients of a group
assert about(memory)["step"] == first + 4
dist.destroy_process_group()
print("done", flush=True)
"""


def test_a_data_parallel_model_of_torch_marks_its_steps(tmp_path):
    trained(GROUPS.replace("MODEL", """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]), bucket_cap_mb=0.02)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""").replace("CHECK", """
for step in found[2:]:
    assert step == ["forward", "backward", "wait", "other", "step"], found
"""), tmp_path)


def test_steps_that_the_program_counts_are_not_counted_twice(tmp_path):
    trained(GROUPS.replace("MODEL", """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""").replace("    private.step()\n    optimizer.step()\n    private.step()", "    optimizer.step()\n    hvd.end_step()").replace("CHECK", ""), tmp_path)


def test_a_fully_sharded_model_of_torch_marks_its_steps(tmp_path):
    trained(GROUPS.replace("MODEL", """
from torch.distributed.fsdp import fully_shard
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)])
for layer in model:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
""").replace("CHECK", """
for step in found[2:]:
    assert step[0] == "forward" and step[1] == "wait" and step[-1] == "step", found   # the parameters of the first layer
    assert "backward" in step and "wait" in step[step.index("backward"):], found
    assert step == found[2], found
"""), tmp_path)


def test_optimizers_that_step_in_the_backward_pass_are_one_step(tmp_path):
    trained(GROUPS.replace("MODEL", """
from torch.distributed.fsdp import fully_shard
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)])
for layer in model:
    fully_shard(layer)
fully_shard(model)
stepped = []
def step_in_backward(parameter):
    own = torch.optim.SGD([parameter], lr=0.1)
    def step(parameter):
        own.step()
        own.zero_grad()
        stepped.append(1)
    parameter.register_post_accumulate_grad_hook(step)
for parameter in model.parameters():
    step_in_backward(parameter)
optimizer = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1)
""").replace("CHECK", """
assert len(stepped) == 4 * 6, stepped
"""), tmp_path)


def test_an_optimizer_that_counts_itself_is_not_counted_by_groups(tmp_path):
    trained(GROUPS.replace("MODEL", """
hvd.init()
model = torch.nn.Sequential(torch.nn.Linear(64, 8))
class Summed(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        return values.clone()
    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)   # as a SyncBatchNorm does
        return gradient
model.register_forward_hook(lambda module, inputs, output: Summed.apply(output))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters())
""").replace("""
optimizer.step()   # without gradients of a group
""", "\n").replace("    private.step()\n    optimizer.step()\n", "    optimizer.step()\n").replace("CHECK", ""), tmp_path)
