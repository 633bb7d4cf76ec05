"""Train one network by several processes at once, without locks (Hogwild!, Niu, Recht, Ré and Wright, 2011).

The network of `digits.py` lies in shared memory: each process takes batches of its own from the shuffled images, computes
gradients, and steps on the parameters that all see.  Prints the held-out accuracy and how many images a second all processes
together have learnt from, for each number of processes.

    python examples/hogwild.py --processes 1 2 4
"""

from __future__ import annotations

import argparse
import time

from digits import Net, load

import flambeau as torch
from flambeau import multiprocessing as mp
from flambeau import nn
from flambeau.nn import functional as F


def accuracy(net: nn.Module, images: torch.Tensor, digits: torch.Tensor) -> float:
    """The share of images that the network names rightly."""
    net.eval()
    with torch.no_grad():
        return (net(images).argmax(1) == digits).float().mean().item()


def work(
    rank: int, net: nn.Module, data, clock: torch.Tensor, ready, processes: int, epochs: int, seed: int
) -> None:
    """One process: its share of the batches of each epoch, with an optimiser of its own."""
    torch.set_num_threads(1)
    torch.manual_seed(seed + rank)
    images, digits = data
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    batch = 64
    steps = epochs * len(images) // (batch * processes)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=steps)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        optimiser.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimiser.step()

    net.train()
    step(images[:batch], digits[:batch])  # what is compiled or loaded at the first step is not measured
    ready.wait()  # all begin together
    began, taken = time.perf_counter(), 0
    while taken < steps:
        for chosen in torch.randperm(len(images)).split(batch)[: steps - taken]:
            step(images[chosen], digits[chosen])
            schedule.step()
            taken += 1
    clock[rank] = time.perf_counter() - began


def train(processes: int, epochs: int, seed: int = 0) -> tuple[float, float]:
    """The held-out accuracy, and images a second."""
    torch.manual_seed(seed)
    images, digits = load()
    order = torch.randperm(len(images))
    images, digits = images[order].share_memory_(), digits[order].share_memory_()
    held_out = len(images) // 5
    training = images[held_out:], digits[held_out:]
    net = Net().share_memory()
    clock = torch.zeros(processes).share_memory_()
    ready = mp.get_context("fork").Barrier(processes)
    given = net, training, clock, ready, processes, epochs, seed
    mp.start_processes(work, given, nprocs=processes, start_method="fork")
    learnt = epochs * len(training[0]) // (64 * processes) * 64 * processes
    return accuracy(net, images[:held_out], digits[:held_out]), learnt / clock.max().item()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    options.add_argument("--epochs", type=int, default=30)
    options.add_argument(
        "--seeds", type=int, default=3, help="how many runs each; means of accuracies, best speed"
    )
    given = options.parse_args()
    runs = {n: [train(n, given.epochs, seed) for seed in range(given.seeds)] for n in given.processes}
    first = max(speed for _, speed in runs[given.processes[0]])
    for n, found in runs.items():
        right, speed = sum(a for a, _ in found) / len(found), max(speed for _, speed in found)
        print(f"{n} processes: held-out accuracy {right:.2%}, {speed:,.0f} images/s, {speed / first:.2f} x")


if __name__ == "__main__":
    main()
