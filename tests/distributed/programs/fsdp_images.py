"""Images of ten classes with FullyShardedDataParallel, wrapped by size, with mixed precision, and its state dict made whole on rank 0.

torchrun --nproc-per-node N fsdp_images.py
"""

import functools
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import (
    FullStateDictConfig,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.fc1 = nn.Linear(256, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = torch.flatten(F.max_pool2d(F.relu(self.conv2(x)), 2), 1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def digits(size, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (size,), generator=generator)
    images = torch.rand(size, 1, 12, 12, generator=generator) * 0.5
    images[torch.arange(size), 0, 1 + labels] += 1
    return TensorDataset(images, labels)


def train(model, rank, loader, optimizer, epoch, sampler, places):
    model.train()
    sampler.set_epoch(epoch)
    ddp_loss = torch.zeros(2)
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.nll_loss(model(data).float(), target, reduction="sum") / len(target)
        loss.backward()
        optimizer.step()
        ddp_loss += torch.tensor([loss.item() * len(target), len(target)])
    dist.all_reduce(ddp_loss, op=dist.ReduceOp.SUM)
    if rank == 0:
        print(f"epoch {epoch} loss {(ddp_loss[0] / ddp_loss[1]).item():.{places}f}", flush=True)


@torch.no_grad()
def test(model, rank, loader, places):
    model.eval()
    result = torch.zeros(3)
    for data, target in loader:
        output = model(data).float()
        result[0] += F.nll_loss(output, target, reduction="sum").item()
        result[1] += (output.argmax(dim=1) == target).sum().item()
        result[2] += len(data)
    dist.all_reduce(result, op=dist.ReduceOp.SUM)
    if rank == 0:
        print(f"test loss {(result[0] / result[2]).item():.{places}f} of {int(result[2])}", flush=True)


def loaders(rank, size):
    sets = digits(64, 1), digits(32, 2)
    samplers = [
        DistributedSampler(data, num_replicas=size, rank=rank, shuffle=k == 0) for k, data in enumerate(sets)
    ]
    made = [DataLoader(data, batch_size=16 // size, sampler=s) for data, s in zip(sets, samplers)]
    return (*made, samplers[0])


def fit(rank, size, folder, places=5, **options):
    torch.manual_seed(2)
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1000)
    model = FSDP(Net(), auto_wrap_policy=policy, device_id=torch.device("cpu"), **options)
    if rank == 0:
        print("wrapped", sum(isinstance(module, FSDP) for module in model.modules()))
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    train_loader, test_loader, sampler = loaders(rank, size)
    for epoch in range(2):
        train(model, rank, train_loader, optimizer, epoch, sampler, places)
        test(model, rank, test_loader, places)
        scheduler.step()
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=True)):
        states = model.state_dict()
    path = os.path.join(folder, "images.pt")
    if rank == 0:
        torch.save(states, path)
        whole = Net()
        whole.load_state_dict(torch.load(path))
        output = whole(test_loader.dataset.tensors[0])
        loss = F.nll_loss(output, test_loader.dataset.tensors[1]).item()
        print("state dict", *states, f"loss of the whole model {loss:.{places}f}")
    dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    half = MixedPrecision(
        param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16
    )
    with tempfile.TemporaryDirectory() as folder:
        fit(rank, size, folder)
        fit(rank, size, folder, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)
        fit(rank, size, folder, mixed_precision=half, places=2)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
