"""Handwritten digits: a small convolutional network and the Trainer, the loop that people write by hand.

Data: scikit-learn's 1,797 digits of 8×8 pixels (Alpaydin and Kaynak, 1998).  A fifth is held out.

Figure: held-out accuracy.  To reach: 98.5 %.  To compare: logistic regression.

    python examples/digits/main.py --picture digits.png

With `--folder runs/digits` checkpoints are kept there: interrupted at any moment, the same command goes on, and ends with the same
network to the last bit.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

try:
    import matplotlib.pyplot as plt
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[demo]'")

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


def linear_model(trainer: Trainer) -> float:
    """Held-out accuracy of logistic regression on the same parts."""
    training, held_out = (loader.dataset[:] for loader in (trainer.dataset, trainer.validation))
    model = LogisticRegression(max_iter=300).fit(training[0].flatten(1).numpy(), training[1].numpy())
    return model.score(held_out[0].flatten(1).numpy(), held_out[1].numpy())


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--epochs", type=int, default=20)
    options.add_argument("--quick", action="store_true", help="one epoch, and an easy figure")
    options.add_argument("--picture", type=Path, default=Path("digits.png"))
    options.add_argument("--folder", type=Path, help="where checkpoints are kept")
    args = options.parse_args()
    began = time.perf_counter()
    trainer = train(1 if args.quick else args.epochs, args.folder)
    took = time.perf_counter() - began
    draw(args.picture, trainer)
    accuracy, bar = trainer.history[-1]["val_accuracy"], 0.8 if args.quick else 0.985
    print(f"{trainer.epoch} epochs, {took:.1f} s; picture: {args.picture.resolve()}")
    print(
        f"held-out accuracy {accuracy:.2%}; to reach {bar:.1%}; logistic regression {linear_model(trainer):.2%}"
    )
    if not accuracy >= bar:
        sys.exit("missed")


if __name__ == "__main__":
    main()
