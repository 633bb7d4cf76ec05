"""Data parallel training in processes that the program starts itself, with a checkpoint that rank 0 writes and all ranks read.

python ddp_spawn.py N
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29513")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def cleanup():
    dist.destroy_process_group()


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def batch(rank, world_size, step):
    """This rank's rows of a batch of 20."""
    generator = torch.Generator().manual_seed(100 + step)
    x, y = torch.randn(20, 10, generator=generator), torch.randn(20, 5, generator=generator)
    return x[rank::world_size], y[rank::world_size]


def train(rank, world_size, model, optimizer, steps):
    loss_fn = nn.MSELoss()
    for step in steps:
        x, y = batch(rank, world_size, step)
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} loss {mean.item() / world_size:.6f}", flush=True)


def demo_basic(rank, world_size):
    setup(rank, world_size)
    torch.manual_seed(0)
    model = DDP(ToyModel())
    train(rank, world_size, model, torch.optim.SGD(model.parameters(), lr=0.1), range(4))
    cleanup()


def demo_checkpoint(rank, world_size, path):
    setup(rank, world_size)
    torch.manual_seed(rank)  # parameters differ until the checkpoint is read
    model = DDP(ToyModel())
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()  # nobody reads what is half written
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    train(rank, world_size, model, torch.optim.Adam(model.parameters(), lr=0.01), range(4, 8))
    dist.barrier()
    if rank == 0:
        os.remove(path)
    cleanup()


def run_demo(demo, world_size, *args):
    mp.spawn(demo, args=(world_size, *args), nprocs=world_size, join=True)


if __name__ == "__main__":
    processes = int(sys.argv[1])
    run_demo(demo_basic, processes)
    with tempfile.TemporaryDirectory() as folder:
        run_demo(demo_checkpoint, processes, os.path.join(folder, "model.checkpoint"))
    print("done")
