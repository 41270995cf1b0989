# SPDX-License-Identifier: Apache-2.0
"""A long run whose ranks come and go: ruedarun -np 2 --min-np 1 python imagenet_elastic.py

Warm-up of the learning rate for the number of ranks of the moment, a commit once in some batches, looks for new hosts between, and an epoch that goes on in the
middle. On images that are made on the fly. Written for Horovod, after the pattern of its documentation; the import is all that differs.
"""

import argparse

import torch
import torch.nn.functional as F
from digits import Digits
from imagenet import Metric, accuracy
from residual_net import ResidualNet

import rueda.torch as hvd  # was: import horovod.torch as hvd


def adjust_learning_rate(state, args):
    """From lr to size * lr in the first epochs."""
    epoch = state.epoch + (state.batch + 1) / (args.samples / (args.batch_size * hvd.size()))
    factor = min(1.0, 1.0 / hvd.size() * (epoch * (hvd.size() - 1) / args.warmup_epochs + 1))
    for group in state.optimizer.param_groups:
        group["lr"] = args.base_lr * hvd.size() * factor


def train_epoch(state, loader, args):
    state.model.train()
    loss_metric = Metric("train_loss")
    offset = state.batch
    for index, (images, labels) in enumerate(loader):
        state.batch = batch = offset + index
        adjust_learning_rate(state, args)
        if args.batches_per_commit > 0 and (batch + 1) % args.batches_per_commit == 0:
            state.commit()
        elif args.batches_per_host_check > 0 and (batch + 1) % args.batches_per_host_check == 0:
            state.check_host_updates()
        state.optimizer.zero_grad()
        output = state.model(images)
        loss = F.cross_entropy(output, labels)
        loss.backward()
        state.optimizer.step()
        loss_metric.update(loss)
        state.train_sampler.record_batch(index, args.batch_size)
    return loss_metric.avg


def validate(model, loader):
    model.eval()
    right = Metric("val_accuracy")
    with torch.no_grad():
        for images, labels in loader:
            right.update(accuracy(model(images), labels))
    return right.avg


@hvd.elastic.run
def full_train(state, train_set, val_set, args):
    loader = torch.utils.data.DataLoader(train_set, batch_size=args.batch_size, sampler=state.train_sampler)
    while state.epoch < args.epochs:
        loss = train_epoch(state, loader, args)
        val_loader = torch.utils.data.DataLoader(val_set, batch_size=args.batch_size, sampler=state.val_sampler)
        right = validate(state.model, val_loader)
        if hvd.rank() == 0:
            print(f"epoch {state.epoch + 1} on {hvd.size()} ranks: loss {loss:.4f}; validation: accuracy {100 * right:.1f} %", flush=True)
        end_epoch(state)


def end_epoch(state):
    state.epoch += 1
    state.batch = 0
    state.train_sampler.set_epoch(state.epoch)
    state.commit()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--batches-per-commit", type=int, default=10)
    parser.add_argument("--batches-per-host-check", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--warmup-epochs", type=float, default=1)
    parser.add_argument("--base-lr", type=float, default=0.0125)
    parser.add_argument("--samples", type=int, default=1600)
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(42)
    torch.set_num_threads(1)
    train_set, val_set = Digits(args.samples), Digits(args.samples // 8, seed=1)
    model = ResidualNet(channels=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * hvd.size(), momentum=0.9, weight_decay=0.00005)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model, optimizer, train_sampler=hvd.elastic.ElasticSampler(train_set),
                                   val_sampler=hvd.elastic.ElasticSampler(val_set), epoch=0, batch=0)
    full_train(state, train_set, val_set, args)


if __name__ == "__main__":
    main()
