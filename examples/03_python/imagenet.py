# SPDX-License-Identifier: Apache-2.0
"""Training with everything that a long run needs: ruedarun -np 2 python imagenet.py --checkpoint-format /tmp/net-{epoch}.pt

Warm-up and steps of the learning rate, several batches per allreduce, metrics over all ranks, checkpoints by rank 0 and going on from the
last of them. On images that are made on the fly; put an ImageFolder in the place of Digits. Written for Horovod, after the pattern of its
documentation; the import is all that differs.
"""

import argparse
import os

import torch
import torch.nn.functional as F
from digits import Digits
from residual_net import ResidualNet

import rueda.torch as hvd  # was: import horovod.torch as hvd


class Metric:
    """A mean over all batches of all ranks."""

    def __init__(self, name):
        self.name, self.sum, self.n = name, torch.tensor(0.0), torch.tensor(0.0)

    def update(self, value):
        self.sum += hvd.allreduce(value.detach().cpu(), name=self.name)
        self.n += 1

    @property
    def avg(self):
        return self.sum / self.n


def accuracy(output, target):
    return (output.argmax(1) == target).float().mean()


def adjust_learning_rate(optimizer, args, epoch, batch, batches):
    """From lr to size * lr in the first epochs, then a tenth of it twice."""
    epoch += float(batch + 1) / batches
    if epoch < args.warmup_epochs:
        factor = 1.0 / hvd.size() * (epoch * (hvd.size() - 1) / args.warmup_epochs + 1)
    else:
        factor = 1.0 if epoch < 0.6 * args.epochs else 0.1 if epoch < 0.8 * args.epochs else 0.01
    for group in optimizer.param_groups:
        group["lr"] = args.base_lr * hvd.size() * args.batches_per_allreduce * factor


def train(model, optimizer, loader, sampler, epoch, args):
    model.train()
    sampler.set_epoch(epoch)
    loss_metric, accuracy_metric = Metric("train_loss"), Metric("train_accuracy")
    for batch, (images, labels) in enumerate(loader):
        adjust_learning_rate(optimizer, args, epoch, batch, len(loader))
        optimizer.zero_grad()
        for begin in range(0, len(images), args.batch_size):
            part, target = images[begin:begin + args.batch_size], labels[begin:begin + args.batch_size]
            output = model(part)
            accuracy_metric.update(accuracy(output, target))
            loss = F.cross_entropy(output, target)
            loss_metric.update(loss)
            loss.div_(args.batches_per_allreduce)
            loss.backward()
        optimizer.step()
    return loss_metric.avg, accuracy_metric.avg


def validate(model, loader):
    model.eval()
    loss_metric, accuracy_metric = Metric("val_loss"), Metric("val_accuracy")
    with torch.no_grad():
        for images, labels in loader:
            output = model(images)
            loss_metric.update(F.cross_entropy(output, labels))
            accuracy_metric.update(accuracy(output, labels))
    return loss_metric.avg, accuracy_metric.avg


def last_checkpoint(args):
    epochs = [epoch for epoch in range(args.epochs, 0, -1) if os.path.exists(args.checkpoint_format.format(epoch=epoch))]
    return epochs[0] if epochs else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint-format", default="./checkpoint-{epoch}.pt")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--batches-per-allreduce", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--warmup-epochs", type=float, default=1)
    parser.add_argument("--base-lr", type=float, default=0.0125)
    parser.add_argument("--samples", type=int, default=1600)
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(42)
    torch.set_num_threads(1)
    resume_from_epoch = hvd.broadcast(torch.tensor(last_checkpoint(args)), root_rank=0, name="resume_from_epoch").item()

    sets = Digits(args.samples), Digits(args.samples // 8, seed=1)
    samplers = [torch.utils.data.distributed.DistributedSampler(each, num_replicas=hvd.size(), rank=hvd.rank()) for each in sets]
    loaders = [torch.utils.data.DataLoader(each, batch_size=args.batch_size * args.batches_per_allreduce, sampler=sampler, num_workers=1)
               for each, sampler in zip(sets, samplers)]

    model = ResidualNet(channels=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * args.batches_per_allreduce * hvd.size(), momentum=0.9,
                                weight_decay=0.00005)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                         backward_passes_per_step=args.batches_per_allreduce)
    if resume_from_epoch > 0 and hvd.rank() == 0:
        checkpoint = torch.load(args.checkpoint_format.format(epoch=resume_from_epoch), weights_only=True)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(resume_from_epoch, args.epochs):
        (loss, right), (val_loss, val_right) = train(model, optimizer, loaders[0], samplers[0], epoch, args), validate(model, loaders[1])
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss:.4f}, accuracy {100 * right:.1f} %; validation: loss {val_loss:.4f}, accuracy "
                  f"{100 * val_right:.1f} %", flush=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, args.checkpoint_format.format(epoch=epoch + 1))


if __name__ == "__main__":
    main()
