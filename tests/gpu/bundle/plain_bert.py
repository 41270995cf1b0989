# SPDX-License-Identifier: Apache-2.0
"""plain_bert.py FOLDER BATCH LENGTH STEPS float32|bf16 PORT RANK SIZE: the checkpoint of FOLDER trained by torch and transformers alone, with
DistributedDataParallel over gloo where there are several ranks, on random tokens. Prints samples per second of all ranks."""

from __future__ import annotations

import contextlib
import sys
import time

import torch
import torch.distributed as dist
from transformers import BertForQuestionAnswering


def main() -> None:
    folder, batch, length, steps, kind, port, rank, size = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5], *map(int, sys.argv[6:9])
    torch.manual_seed(rank)
    model = BertForQuestionAnswering.from_pretrained(folder).cuda().train()
    if size > 1:  # on one GPU, which NCCL gives to one rank alone
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, fused=True)
    words = (model.module if size > 1 else model).config.vocab_size
    ids = torch.randint(5, words, (batch, length), device="cuda")
    starts = torch.randint(0, length, (batch,), device="cuda")
    began = 0.0
    for step in range(steps + 5):
        if step == 5:
            torch.cuda.synchronize()
            began = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16) if kind == "bf16" else contextlib.nullcontext():
            loss = model(input_ids=ids, start_positions=starts, end_positions=starts).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    print(f"samples_per_s {size * batch * steps / (time.perf_counter() - began):.2f}")
    if size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
