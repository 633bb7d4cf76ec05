"""Train a small convolutional network on real handwritten digits, and draw how it went.

The 1,797 images of 8×8 pixels come with scikit-learn (Alpaydin and Kaynak, 1998).  A fifth is held out; the
seed is fixed.  Prints the held-out accuracy and where the picture is.

    python examples/digits.py --picture digits.png

With `--folder runs/digits` checkpoints are kept there: interrupted at any moment, the same command goes on, and ends
with the same network to the last bit.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import flambeau as torch
from flambeau import nn
from flambeau.utils.data import DataLoader, TensorDataset, random_split
from flambeau.utils.trainer import Accuracy, ProgressBar, Trainer


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


def train(epochs: int, folder: Path | None = None, seed: int = 0) -> Trainer:
    """Train, or go on with what the folder holds; the trainer has the network, the held-out part and the history."""
    torch.manual_seed(seed)
    images, digits = load()
    held_out = len(images) // 5
    training, test = random_split(TensorDataset(images, digits), [len(images) - held_out, held_out])
    net = Net()
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    loader = DataLoader(training, batch_size=64, shuffle=True)
    trainer = Trainer(
        net,
        nn.CrossEntropyLoss(),
        optimiser,
        loader,
        validation=DataLoader(test, batch_size=len(test)),
        metrics={"accuracy": Accuracy()},
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=epochs * len(loader)),
        scheduler_unit="update",
        folder=folder,
    )
    trainer.register_plugin(ProgressBar(disable=None))  # on a terminal only
    trainer.run(epochs, resume=folder is not None)
    return trainer


def draw(path: Path, trainer: Trainer) -> None:
    """The learning curve, and the first held-out images with what the network says of them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    history, net = trainer.history, trainer.model
    images, digits = trainer.validation.dataset[:24]
    net.eval()
    with torch.no_grad():
        chances = torch.softmax(net(images), 1)
    figure = plt.figure(figsize=(11, 5.5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1))
    axes = left.subplots()
    epochs = [figures["epoch"] for figures in history]
    axes.semilogy(epochs, [f["loss"] for f in history], color="tab:orange", label="training loss")
    axes.semilogy(epochs, [f["val_loss"] for f in history], ":", color="tab:orange", label="held-out loss")
    axes.set_xlabel("epoch")
    axes.set_ylabel("cross-entropy")
    score = axes.twinx()
    score.plot(epochs, [100 * f["val_accuracy"] for f in history], color="tab:blue", label="held out, %")
    score.set_ylim(80, 100.5)
    left.suptitle(f"held-out accuracy {history[-1]['val_accuracy']:.2%}")
    left.legend(loc="outside lower center", ncols=3)
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
    options.add_argument("--folder", type=Path, help="where checkpoints are kept")
    given = options.parse_args()
    began = time.perf_counter()
    trainer = train(given.epochs, given.folder)
    took = time.perf_counter() - began
    draw(given.picture, trainer)
    print(
        f"held-out accuracy {trainer.history[-1]['val_accuracy']:.2%} after {trainer.epoch} epochs, {took:.1f} s; "
        f"picture: {given.picture.resolve()}"
    )


if __name__ == "__main__":
    main()
