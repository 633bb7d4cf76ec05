"""One network, trained by several processes at once, without locks (Hogwild!, Niu, Recht, Ré and Wright, 2011).

The network lies in shared memory: each process takes batches of its own from the shuffled images, computes gradients, and steps on the
parameters that all see.  Nobody waits for anybody, so no two runs end with the same bits.

Data: scikit-learn's 1,797 digits of 8×8 pixels (Alpaydin and Kaynak, 1998), a fifth of them held out.

Figure: held-out accuracy of the network that most processes trained together, mean over the seeds.  To reach: 98 %, which one process
reaches alone, too.  To compare: logistic regression, and how many images a second all have learnt from.

    python examples/hogwild/main.py --processes 1 2 4 --picture hogwild.png
"""

from __future__ import annotations

import argparse
import sys
import time

try:
    import matplotlib.pyplot as plt
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[examples]'")

import flambeau as torch
from flambeau import multiprocessing as mp
from flambeau import nn
from flambeau.nn import functional as F


def network() -> nn.Module:
    """Two convolutions, a pool, two linear layers: 38,000 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def load():
    """Images (1797, 1, 8, 8) in [0, 1] and their digits."""
    digits = load_digits()
    return torch.from_numpy(digits.images).float()[:, None] / 16, torch.from_numpy(digits.target)


def accuracy(net: nn.Module, images, digits) -> float:
    """The share of images that the network names rightly."""
    net.eval()
    with torch.no_grad():
        return (net(images).argmax(1) == digits).float().mean().item()


def work(rank: int, net: nn.Module, data, clock, ready, processes: int, epochs: int, seed: int) -> None:
    """One process: its share of the batches of each epoch, with an optimiser of its own."""
    torch.set_num_threads(1)
    torch.manual_seed(seed + rank)
    images, digits = data
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    batch = 64
    steps = epochs * len(images) // (batch * processes)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=steps)

    def step(x, y) -> None:
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
    net = network().share_memory()
    clock = torch.zeros(processes).share_memory_()
    ready = mp.get_context("fork").Barrier(processes)
    work_args = net, training, clock, ready, processes, epochs, seed
    mp.start_processes(work, work_args, nprocs=processes, start_method="fork")
    learnt = epochs * len(training[0]) // (64 * processes) * 64 * processes
    return accuracy(net, images[:held_out], digits[:held_out]), learnt / clock.max().item()


def draw(path: str, runs_by_count: dict[int, list], linear: float, title: str) -> None:
    """Accuracy and speed by the number of processes; each dot is one run."""
    figure, (right, fast) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    figure.suptitle(title)
    for n, runs in runs_by_count.items():
        right.plot([n] * len(runs), [100 * a for a, _ in runs], "o", color="tab:blue", alpha=0.6)
        fast.bar(str(n), max(speed for _, speed in runs), color="tab:blue", width=0.5)
    right.axhline(100 * linear, color="0.6", linestyle=":", label="logistic regression")
    right.set(xlabel="processes", xticks=list(runs_by_count), ylabel="held-out accuracy, %")
    right.legend()
    fast.set(xlabel="processes", ylabel="images a second, best run")
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    options.add_argument("--epochs", type=int, default=30)
    options.add_argument("--seeds", type=int, default=3, help="runs each: means of accuracies, best speed")
    options.add_argument("--quick", action="store_true", help="few epochs, and an easy figure")
    options.add_argument("--picture", default="hogwild.png")
    args = options.parse_args()
    if args.quick:
        args.processes, args.epochs, args.seeds = [2], 3, 1

    runs = [(n, seed) for n in args.processes for seed in range(args.seeds)]
    runs_by_count = {n: [] for n in args.processes}
    for n, seed in tqdm(runs, disable=None):
        runs_by_count[n].append(train(n, args.epochs, seed))
    first = max(speed for _, speed in runs_by_count[args.processes[0]])
    for n, these in runs_by_count.items():
        right, speed = sum(a for a, _ in these) / len(these), max(speed for _, speed in these)
        print(f"{n} processes: held-out accuracy {right:.2%}, {speed:,.0f} images/s, {speed / first:.2f} x")

    torch.manual_seed(0)
    images, digits = load()
    order = torch.randperm(len(images))
    pixels, digits, held_out = images[order].flatten(1).numpy(), digits[order].numpy(), len(images) // 5
    linear = LogisticRegression(max_iter=300).fit(pixels[held_out:], digits[held_out:])
    linear = linear.score(pixels[:held_out], digits[:held_out])
    bar = 0.6 if args.quick else 0.98
    figure = (
        f"{n} processes: held-out accuracy {right:.1%}; to reach {bar:.1%}; logistic regression {linear:.1%}"
    )
    draw(args.picture, runs_by_count, linear, figure)
    print(figure)
    if not right >= bar:
        sys.exit("missed")


if __name__ == "__main__":
    main()
