#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step by torch.distributed: over Rueda, over gloo and without communication, in the same processes and in turns.

    torchrun --standalone --nproc-per-node 2 bench/c10d_training.py [--wrapper ddp,fsdp] [--model encoder] [--layers 6] [--width 768] [--rounds 7]
        [--steps 3] [--json FILE]

The model `encoder` is like BERT with so many layers. `linear` has so many linear layers, so that communication takes most of a step. Each round makes
some steps with each side, in an order that turns from round to round; after each step ranks wait for each other. The table has medians over rounds of
the mean step, in milliseconds, of rank 0. `of none` is how fast training is beside training without communication, a ratio within a round; for FSDP,
which has no such side, `of gloo`.
Sides of DistributedDataParallel: none, gloo, rueda, and shared: rueda after share_buckets(). Of FSDP2: gloo, rueda, and allocated: rueda with
set_allocate_memory_from_process_group_for_comm().

Between hosts, --card says the megabits a second that each host's network card carries. Then the table has `of the cards`: the bytes that the cards of
rank 0's host sent, as a share of the bytes that they can carry in that time; `of bare streams`, the same as a share of the bytes that TCP alone sends
there, from each host to the next one at once, measured before the steps.

    sudo build/bin/ruedarun --virtual-hosts 4 --rate 200mbit -np 8 .venv/bin/python bench/c10d_training.py --card 200 --wrapper ddp --sides rueda --model linear
"""

import argparse
import contextlib
import datetime
import fcntl
import os
import socket
import statistics
import struct
import threading
import time
from pathlib import Path

import performance_page
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import rueda.torch.distributed

WORDS, HEAD = 30522, 64  # of BERT
SIOCGIFADDR = 0x8915  # of linux/sockios.h
SIDES = {"ddp": ["none", "gloo", "rueda", "shared"], "fsdp": ["gloo", "rueda", "allocated"]}
BASE = {"ddp": "none", "fsdp": "gloo"}


class Encoder(torch.nn.Module):
    """Embeddings, layers, and the two scores a token of question answering."""

    def __init__(self, layers, width, length):
        super().__init__()
        self.words, self.positions = torch.nn.Embedding(WORDS, width), torch.nn.Embedding(length, width)
        layer = torch.nn.TransformerEncoderLayer(width, width // HEAD, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = torch.nn.ModuleList(torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).layers)
        self.scores = torch.nn.Linear(width, 2)

    def forward(self, tokens):
        hidden = self.words(tokens) + self.positions.weight[:tokens.shape[1]]
        for layer in self.layers:
            hidden = layer(hidden)
        return self.scores(hidden)


class Linears(torch.nn.Module):
    """Layers of equal width, one after another."""

    def __init__(self, layers, width):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(layers))

    def forward(self, hidden):
        for layer in self.layers:
            hidden = torch.relu(layer(hidden))
        return hidden


def wrapped(wrapper, side, model, groups, bucket_mb):
    group = groups["gloo" if side == "gloo" else "rueda"]
    if side == "none":
        return model
    if wrapper == "ddp":
        model = DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True, bucket_cap_mb=bucket_mb)
        if side == "shared":
            rueda.torch.distributed.share_buckets(model)
        return model
    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if side == "allocated":
        for module in [*model.layers, model]:
            module.set_allocate_memory_from_process_group_for_comm(True)
    return model


class Side:
    def __init__(self, wrapper, name, options, groups):
        torch.manual_seed(1)
        encodes = options.model == "encoder"
        model = Encoder(options.layers, options.width, options.length) if encodes else Linears(options.layers, options.width)
        self.model = wrapped(wrapper, name, model, groups, options.bucket_mb)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        generator = torch.Generator().manual_seed(dist.get_rank())
        self.data = torch.randint(WORDS, (options.batch, options.length), generator=generator) if encodes \
            else torch.randn(options.batch, options.width, generator=generator)
        self.times = []
        self.sent, self.seconds = 0, 0.0

    def steps(self, count):
        """Milliseconds of one, in the mean."""
        dist.barrier()
        sent, began = bytes_sent(), time.perf_counter()
        for _ in range(count):
            self.optimizer.zero_grad(set_to_none=False)
            self.model(self.data).square().mean().backward()
            self.optimizer.step()
            dist.barrier()
        seconds = time.perf_counter() - began
        self.sent += bytes_sent() - sent
        self.seconds += seconds
        return seconds / count * 1e3


def bytes_sent():
    """By the network cards of this host, with headers."""
    cards = [card for card in Path("/sys/class/net").iterdir() if card.name != "lo"]
    return sum(int((card / "statistics/tx_bytes").read_text()) for card in cards)


def card_addresses():
    """The IPv4 address of each network card of this host, in the order of their names."""
    addresses = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        for _, card in socket.if_nameindex():
            with contextlib.suppress(OSError):
                name = card.encode()[:15]
                addresses[card] = socket.inet_ntoa(fcntl.ioctl(asks.fileno(), SIOCGIFADDR, struct.pack("256s", name))[20:24])
    return [addresses[card] for card in sorted(addresses) if card != "lo"]


def bare_streams(seconds=3.0):
    """Bytes a second that the cards of this host send, with headers, while each rank streams to the next one if that is on another host."""
    hosts, mine = [None] * dist.get_world_size(), []
    for address in card_addresses():
        mine.append(socket.create_server((address, 0)))
    dist.all_gather_object(hosts, [server.getsockname() for server in mine])
    following = hosts[(dist.get_rank() + 1) % len(hosts)]
    elsewhere = {address for address, _ in following}.isdisjoint({address for address, _ in hosts[dist.get_rank()]})
    leaves = [socket.create_connection(address) for address in following] if elsewhere else []
    before = hosts[dist.get_rank() - 1]
    comes = [server.accept()[0] for server in mine] if {a for a, _ in before}.isdisjoint({a for a, _ in hosts[dist.get_rank()]}) else []
    block, threads = bytes(1 << 20), []

    def send(stream, until):
        while time.perf_counter() < until:
            stream.sendall(block)
        stream.shutdown(socket.SHUT_WR)

    def receive(stream):
        while stream.recv(1 << 20):
            pass

    dist.barrier()
    sent, began = bytes_sent(), time.perf_counter()
    for stream in leaves:
        threads.append(threading.Thread(target=send, args=(stream, began + seconds)))
    for stream in comes:
        threads.append(threading.Thread(target=receive, args=(stream,)))
    for thread in threads:
        thread.start()
    time.sleep(seconds - 0.2)  # until all streams still run
    rate = (bytes_sent() - sent) / (time.perf_counter() - began)
    for thread in threads:
        thread.join()
    for stream in [*leaves, *comes, *mine]:
        stream.close()
    dist.barrier()
    return rate


def measure(wrapper, options, groups):
    sides = {name: Side(wrapper, name, options, groups) for name in options.sides.split(",") if name in SIDES[wrapper]}
    for side in sides.values():
        side.steps(2)
    names = list(sides)
    for number in range(options.rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            sides[name].times.append(sides[name].steps(options.steps))
    parameters = sum(each.numel() for each in next(iter(sides.values())).model.parameters())
    rows = []
    for name, side in sides.items():
        row = {"wrapper": wrapper, "side": name, "parameters": parameters, "ranks": dist.get_world_size(), "step_ms": statistics.median(side.times)}
        if base := sides.get(BASE[wrapper]):
            row["ratio"] = statistics.median(one / other for one, other in zip(base.times, side.times))
        if options.card:
            row["of_cards"] = side.sent * 8 / (options.card * 1e6 * side.seconds)
            row["of_streams"] = side.sent / (options.stream_rate * side.seconds)
        rows.append(row)
        if dist.get_rank() == 0:
            ratio = f"   of {BASE[wrapper]} {row['ratio']:.3f}" if "ratio" in row else ""
            ratio += f"   of the cards {row['of_cards']:.3f}   of bare streams {row['of_streams']:.3f}" if "of_cards" in row else ""
            print(f"{wrapper:5} {name:10} {row['step_ms']:9.1f} ms{ratio}", flush=True)
    return rows


NAMES_OF_WRAPPERS = {"ddp": "DistributedDataParallel", "fsdp": "FSDP2"}
NAMES_OF_SIDES = {"none": "no communication", "gloo": "gloo", "rueda": "Rueda", "shared": "Rueda, after share_buckets()",
                  "allocated": "Rueda, with memory of the group"}


def keep(options, rows):
    """For bench/performance_page.py."""
    bases = {row["wrapper"]: row["step_ms"] for row in rows if row["side"] == BASE[row["wrapper"]]}
    figures = [{"figure": f"{NAMES_OF_WRAPPERS[row['wrapper']]} over {NAMES_OF_SIDES[row['side']]}", "value": round(row["step_ms"], 1),
                "peer": round(bases[row["wrapper"]], 1), "ratio": round(row["ratio"], 3), "note": f"the peer: {NAMES_OF_SIDES[BASE[row['wrapper']]]}"}
               for row in rows if row["wrapper"] in bases and row["side"] != BASE[row["wrapper"]]]
    ranks = rows[0]["ranks"]
    wrappers = " and ".join(NAMES_OF_WRAPPERS[wrapper] for wrapper in bases)
    model = {"encoder": "an encoder", "linear": "linear layers"}[options.model]
    performance_page.keep(Path(options.json), f"torch.distributed: a training step of {wrappers} with {model}, {ranks} ranks on one host", "Training",
                          f"torchrun --standalone --nproc-per-node {ranks} bench/c10d_training.py", "ms",
                          f"{rows[0]['parameters'] / 1e6:.0f} million parameters. Medians of {options.rounds} rounds of {options.steps} steps, in turns.",
                          figures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wrapper", default="ddp,fsdp")
    parser.add_argument("--sides", default="none,gloo,rueda,shared,allocated")
    parser.add_argument("--model", default="encoder", choices=["encoder", "linear"])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3, help="a round and side")
    parser.add_argument("--bucket-mb", type=float, default=25, help="of DistributedDataParallel")
    parser.add_argument("--card", type=float, help="Mbit/s of each host's network card")
    parser.add_argument("--json", help="keep the figures for bench/performance_page.py")
    options = parser.parse_args()
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=300)
    dist.init_process_group("rueda", timeout=limit)
    groups = {"rueda": dist.group.WORLD, "gloo": dist.new_group(backend="gloo", timeout=limit)}
    if options.card:
        options.stream_rate = statistics.median(bare_streams() for _ in range(3))
    rows = [row for wrapper in options.wrapper.split(",") for row in measure(wrapper, options, groups)]
    if dist.get_rank() == 0:
        print(f"{options.rounds} rounds of {options.steps} steps; load {os.getloadavg()[0]:.1f}")
        if options.json:
            keep(options, rows)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
