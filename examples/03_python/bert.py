# SPDX-License-Identifier: Apache-2.0
"""A BERT of Hugging Face's transformers learns to find answers: ruedarun -np 2 python bert.py [--model CHECKPOINT]

Without --model a small random one learns the sample that comes with Rueda. Written for Horovod, after the pattern of its documentation;
the import is all that differs.
"""

import argparse
import json
from pathlib import Path

import torch
import transformers

import rueda.torch as hvd  # was: import horovod.torch as hvd

DATA = Path(__file__).resolve().parents[1] / "data"


def windows(questions, tokenizer, max_length):
    """(ids, mask, kinds, first token, last token) of each question whose answer is in its first window."""
    for text, question, answer, begin in questions:
        encoded = tokenizer(question, text, truncation="only_second", max_length=max_length, padding="max_length", return_tensors="pt")
        first, last = encoded.char_to_token(0, begin, 1), encoded.char_to_token(0, begin + len(answer) - 1, 1)
        if first is not None and last is not None:
            yield encoded["input_ids"][0], encoded["attention_mask"][0], encoded["token_type_ids"][0], first, last


def questions_of(path):
    for article in json.loads(Path(path).read_text())["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answer = question["answers"][0]
                yield paragraph["context"], question["question"], answer["text"], answer["answer_start"]


def make_model(args):
    if args.model:
        return transformers.BertTokenizerFast.from_pretrained(args.model), transformers.BertForQuestionAnswering.from_pretrained(args.model)
    tokenizer = transformers.BertTokenizerFast(vocab=str(DATA / "vocab.txt"))
    config = transformers.BertConfig(vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
                                     intermediate_size=128, max_position_embeddings=args.max_length)
    return tokenizer, transformers.BertForQuestionAnswering(config)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=DATA / "squad_sample.json")
    parser.add_argument("--model")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(42)
    torch.set_num_threads(1)
    tokenizer, model = make_model(args)
    samples = list(windows(questions_of(args.data), tokenizer, args.max_length))
    sampler = torch.utils.data.distributed.DistributedSampler(samples, num_replicas=hvd.size(), rank=hvd.rank())
    loader = torch.utils.data.DataLoader(samples, batch_size=args.batch_size, sampler=sampler)

    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=args.epochs * len(loader))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = 0.0
        for ids, mask, kinds, first, last in loader:
            optimizer.zero_grad()
            loss = model(input_ids=ids, attention_mask=mask, token_type_ids=kinds, start_positions=first, end_positions=last).loss
            loss.backward()
            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            with optimizer.skip_synchronize():
                optimizer.step()
            scheduler.step()
            total += loss.item()
        mean = hvd.allreduce(torch.tensor(total / len(loader)), name="loss").item()
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {mean:.4f}", flush=True)


if __name__ == "__main__":
    main()
