"""An optimizer whose states lie spread over the ranks, beside one that has all of them everywhere.

torchrun --nproc-per-node N zero_optimizer.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP


def train(sharded):
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(*(nn.Linear(24, 24) for _ in range(6)), nn.Tanh()))
    if sharded:
        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.randn(8, 24), torch.randn(8, 24)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[rank::size]), y[rank::size])
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / size)
    if sharded:
        optimizer.consolidate_state_dict(to=0)
        if rank == 0:
            state = optimizer.state_dict()
            print("states of", len(state["state"]), "parameters")
    if rank == 0:
        total = sum(p.detach().double().sum() for p in model.parameters())
        print("sharded" if sharded else "whole", *(f"{loss:.6f}" for loss in losses), f"{total:.4f}")


def main():
    dist.init_process_group("gloo")
    train(False)
    train(True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
