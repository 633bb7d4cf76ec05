"""Train a small convolutional network on real handwritten digits, and draw how it went.

The 1,797 images of 8×8 pixels come with scikit-learn (Alpaydin and Kaynak, 1998).  A fifth is held out; the
seed is fixed.  Prints the held-out accuracy and where the picture is.

    python examples/digits.py --picture digits.png
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    """Two convolutions, a pool, two linear layers: 38,000 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(
            nn.Flatten(), nn.Dropout(0.25), nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10)
        )

    def forward(self, x):
        return self.head(self.features(x))


def load() -> tuple[torch.Tensor, torch.Tensor]:
    """Images (1797, 1, 8, 8) in [0, 1] and their digits."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.from_numpy(digits.images).to(torch.float32).unsqueeze(1) / 16
    return images, torch.from_numpy(digits.target).to(torch.int64)


def bar(done: int, total: int, text: str) -> None:
    """One line that grows, rewritten in place on a terminal, printed at the end elsewhere."""
    if sys.stderr.isatty() or done == total:
        filled = 30 * done // total
        print(
            f"\r[{'█' * filled}{'·' * (30 - filled)}] {text}",
            end="\n" if done == total else "",
            file=sys.stderr,
            flush=True,
        )


def accuracy(net: nn.Module, data) -> float:
    """The share of images that the network names rightly."""
    net.eval()
    with torch.no_grad():
        images, digits = data[:]
        return (net(images).argmax(1) == digits).float().mean().item()


def train(epochs: int, seed: int = 0):
    """Train; returns the network, the held-out part, losses by step and accuracies by epoch."""
    torch.manual_seed(seed)
    images, digits = load()
    held_out = len(images) // 5
    training, test = random_split(TensorDataset(images, digits), [len(images) - held_out, held_out])
    net = Net()
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    loader = DataLoader(training, batch_size=64, shuffle=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=epochs * len(loader))
    losses, scores = [], []
    for epoch in range(epochs):
        net.train()
        for x, y in loader:
            optimiser.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
        scores.append(accuracy(net, test))
        bar(
            epoch + 1, epochs, f"epoch {epoch + 1}/{epochs}  loss {losses[-1]:.4f}  held out {scores[-1]:.2%}"
        )
    return net, test, losses, scores


def draw(path: Path, net: nn.Module, test, losses: list[float], scores: list[float]) -> None:
    """The learning curve, and the first held-out images with what the network says of them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    images, digits = test[:24]
    with torch.no_grad():
        chances = torch.softmax(net(images), 1)
    figure = plt.figure(figsize=(11, 5.5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1))
    axes = left.subplots()
    steps = len(losses) // len(scores)
    axes.semilogy(losses, color="tab:orange", linewidth=0.8, label="training loss")
    axes.set_xlabel("step")
    axes.set_ylabel("cross-entropy")
    score = axes.twinx()
    score.plot(
        [steps * (k + 1) for k in range(len(scores))],
        [100 * s for s in scores],
        color="tab:blue",
        label="held out, %",
    )
    score.set_ylim(80, 100.5)
    left.suptitle(f"held-out accuracy {scores[-1]:.2%}")
    left.legend(loc="outside lower center", ncols=2)
    for k, panel in enumerate(right.subplots(4, 6).flat):
        said = int(chances[k].argmax())
        panel.imshow(images[k, 0].numpy(), cmap="gray_r")
        panel.set_title(
            f"{said} ({chances[k, said].item():.0%})",
            fontsize=8,
            color="black" if said == int(digits[k]) else "red",
        )
        panel.axis("off")
    right.suptitle("what the network says (its certainty)")
    figure.savefig(path, dpi=120)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--epochs", type=int, default=20)
    options.add_argument("--picture", type=Path, default=Path("digits.png"))
    given = options.parse_args()
    began = time.perf_counter()
    net, test, losses, scores = train(given.epochs)
    took = time.perf_counter() - began
    draw(given.picture, net, test, losses, scores)
    print(
        f"held-out accuracy {scores[-1]:.2%} after {given.epochs} epochs, {took:.1f} s; picture: {given.picture.resolve()}"
    )


if __name__ == "__main__":
    main()
