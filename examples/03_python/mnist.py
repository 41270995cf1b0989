# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network learns digits: ruedarun -np 2 python mnist.py; with --elastic also ruedarun -np 2 --min-np 1 python mnist.py --elastic

Written for Horovod, after the pattern of its documentation; the import is all that differs.
"""

import argparse

import torch
import torch.nn.functional as F
from digits import Digits

import rueda.torch as hvd  # was: import horovod.torch as hvd


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 10, 5)
        self.conv2 = torch.nn.Conv2d(10, 20, 5)
        self.dropout = torch.nn.Dropout2d(0.2)
        self.fc1 = torch.nn.Linear(320, 50)
        self.fc2 = torch.nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.dropout(self.conv2(x)), 2))
        return F.log_softmax(self.fc2(F.relu(self.fc1(x.flatten(1)))), dim=1)


def train(model, optimizer, loader, sampler, epoch, log_interval):
    model.train()
    sampler.set_epoch(epoch)
    for batch, (images, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), labels)
        loss.backward()
        optimizer.step()
        if batch % log_interval == 0 and hvd.rank() == 0:
            print(f"epoch {epoch}, {batch * len(images)}/{len(sampler)}: loss {loss.item():.4f}", flush=True)


@hvd.elastic.run
def train_elastic(state, train_set, test_set, args):
    while state.epoch <= args.epochs:
        state.model.train()
        for batch, (images, labels) in enumerate(torch.utils.data.DataLoader(train_set, batch_size=args.batch_size, sampler=state.sampler)):
            state.optimizer.zero_grad()
            loss = F.nll_loss(state.model(images), labels)
            loss.backward()
            state.optimizer.step()
            state.sampler.record_batch(batch, len(images))
            state.commit()
            if batch % args.log_interval == 0 and hvd.rank() == 0:
                print(f"epoch {state.epoch}, {state.sampler.processed_num}/{len(train_set)}: loss {loss.item():.4f}", flush=True)
        test(state.model, test_loader(test_set, args))
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()


def test_loader(test_set, args):
    sampler = torch.utils.data.distributed.DistributedSampler(test_set, num_replicas=hvd.size(), rank=hvd.rank())
    return torch.utils.data.DataLoader(test_set, batch_size=args.batch_size, sampler=sampler)


def metric_average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()


def test(model, loader):
    model.eval()
    loss, correct, count = 0.0, 0, 0
    with torch.no_grad():
        for images, labels in loader:
            output = model(images)
            loss += F.nll_loss(output, labels, reduction="sum").item()
            correct += (output.argmax(1) == labels).sum().item()
            count += len(labels)
    loss, accuracy = metric_average(loss / count, "avg_loss"), metric_average(correct / count, "avg_accuracy")
    if hvd.rank() == 0:
        print(f"test: average loss {loss:.4f}, accuracy {100 * accuracy:.2f} %", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=6000)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--log-interval", type=int, default=20)
    parser.add_argument("--fp16-allreduce", action="store_true")
    parser.add_argument("--use-adasum", action="store_true")
    parser.add_argument("--elastic", action="store_true", help="go on when ranks are lost, and let others in (ruedarun --min-np)")
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(42)
    torch.set_num_threads(1)

    sets = Digits(args.samples), Digits(args.samples // 6, seed=1)
    model = Net()
    lr_scaler = hvd.size() if not args.use_adasum else 1
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * lr_scaler, momentum=args.momentum)
    if not args.elastic:  # there a new rank comes alone
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=compression,
                                         op=hvd.Adasum if args.use_adasum else hvd.Average)
    if args.elastic:
        state = hvd.elastic.TorchState(model, optimizer, sampler=hvd.elastic.ElasticSampler(sets[0]), epoch=1)
        return train_elastic(state, *sets, args)
    sampler = torch.utils.data.distributed.DistributedSampler(sets[0], num_replicas=hvd.size(), rank=hvd.rank())
    loader = torch.utils.data.DataLoader(sets[0], batch_size=args.batch_size, sampler=sampler)
    for epoch in range(1, args.epochs + 1):
        train(model, optimizer, loader, sampler, epoch, args.log_interval)
        test(model, test_loader(sets[1], args))


if __name__ == "__main__":
    main()
