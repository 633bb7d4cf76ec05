"""Ranks with different numbers of batches, an evaluation over samples that do not divide, and gradients sent as halves.

torchrun --nproc-per-node N uneven_inputs.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def joined(rank, size):
    """Rank r has 4 + r batches of ones; those who are through take part until the last is."""
    model = DDP(nn.Linear(1, 1))
    with torch.no_grad():
        model.module.weight.fill_(0.5)
        model.module.bias.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with Join([model]):
        for _ in range(4 + rank):
            optimizer.zero_grad()
            model(torch.ones(2, 1)).square().mean().backward()
            optimizer.step()
    weight = model.module.weight.detach().clone()
    gathered = [torch.zeros_like(weight) for _ in range(size)]
    dist.all_gather(gathered, weight)
    if rank == 0:
        print("weights", *(f"{w.item():.6f}" for w in gathered))


def evaluated(rank, size):
    """Accuracy over 31 samples: the sampler repeats some of them, as PyTorch's does."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(31, 4, generator=generator)
    data = TensorDataset(x, (x.sum(1) > 0).long())
    sampler = DistributedSampler(data, num_replicas=size, rank=rank, shuffle=False)
    right = torch.zeros(2)
    for inputs, labels in DataLoader(data, batch_size=5, sampler=sampler):
        right += torch.tensor([((inputs[:, 0] > 0).long() == labels).sum().item(), len(labels)])
    dist.all_reduce(right)
    dropped = DistributedSampler(data, num_replicas=size, rank=rank, shuffle=True, drop_last=True)
    dropped.set_epoch(2)
    order = [None] * size
    dist.all_gather_object(order, list(dropped))
    if rank == 0:
        print("right", right[0].item(), "of", right[1].item(), "samples of each", len(dropped))
        print("order", order)


def compressed(rank, size):
    """Gradients that travel as float16."""
    torch.manual_seed(5)
    model = DDP(nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)))
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(8, 2, 6, 6), torch.randint(2, (8,))
    for step in range(4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rank::size]), y[rank::size])
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} loss {mean.item() / size:.2f}")


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    joined(rank, size)
    evaluated(rank, size)
    compressed(rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
