"""Twice the pixels: a small convolutional network that knows one photograph sharpens another.

Data: the two photographs in scikit-learn, 427×640: `china.jpg` (a temple, to learn from) and `flower.jpg` (held out).  Each is halved by
averaging 2×2 pixels, and the network is to undo that (Shi et al., 2016: it works on the small picture, and shuffles pixels at the end).  It
learns what bicubic interpolation leaves wrong.

Figure: peak signal-to-noise ratio on the photograph never seen, in dB.  To beat: bicubic interpolation, by half a dB at least.

    python examples/super_resolution/main.py --picture super_resolution.png
"""

from __future__ import annotations

import argparse
import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_sample_image
from tqdm import tqdm

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


class Sharper(nn.Module):
    """(batch, 3, h, w) in [0, 1] to (batch, 3, 2h, 2w)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(3, width, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 12, 3, padding=1),
            nn.PixelShuffle(2),
        )
        nn.init.zeros_(self.residual[4].weight)  # begins as bicubic interpolation
        nn.init.zeros_(self.residual[4].bias)

    def forward(self, small):
        return bicubic(small) + self.residual(small - 0.5)


def bicubic(small):
    return F.interpolate(small, scale_factor=2, mode="bicubic", align_corners=False)


def photograph(name: str):
    """(1, 3, 426, 640) in [0, 1]."""
    pixels = torch.tensor(load_sample_image(name)[:426]).float() / 255
    return pixels.permute(2, 0, 1)[None]


def patches(picture, size: int = 64, stride: int = 32):
    """Squares of a picture and all their turns and mirror images, (n, 3, size, size)."""
    squares = picture[0].unfold(1, size, stride).unfold(2, size, stride).permute(1, 2, 0, 3, 4).flatten(0, 1)
    turned = torch.cat([squares.rot90(k, (2, 3)) for k in range(4)])
    return torch.cat([turned, turned.flip(3)])


def psnr(made, true) -> float:
    return -10 * (made.clamp(0, 1) - true).square().mean().log10().item()


def draw(path: str, panels: dict, curve: list, level: float, title: str) -> None:
    """A detail of the flower as each method shows it, and the learning curve."""
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.9), layout="constrained")
    figure.suptitle(title)
    for place, (name, picture) in zip(axes, panels.items()):
        scale = picture.shape[-1] / 640
        top, left, size = (int(scale * k) for k in (150, 250, 110))
        detail = picture[0, :, top : top + size, left : left + size].permute(1, 2, 0).clamp(0, 1)
        place.imshow(detail, interpolation="nearest")
        place.set_title(name)
        place.axis("off")
    axes[3].plot(*zip(*curve), ".-", color="tab:blue")
    axes[3].axhline(level, color="0.6", linestyle=":")
    axes[3].annotate("bicubic", (0, level), xytext=(0, 3), textcoords="offset points", fontsize=8)
    axes[3].set(xlabel="step", title="dB on the flower")
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a few steps, and an easy figure")
    options.add_argument("--picture", default="super_resolution.png")
    given = options.parse_args()
    torch.manual_seed(0)
    steps = 20 if given.quick else 1000

    known, flower = patches(photograph("china.jpg")), photograph("flower.jpg")
    small = F.avg_pool2d(flower, 2)
    net = Sharper()
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    interpolated, curve = psnr(bicubic(small), flower), []
    for step in (bar := tqdm(range(steps), disable=None)):
        true = known[torch.randint(len(known), (16,))]
        loss = F.l1_loss(net(F.avg_pool2d(true, 2)), true)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if (step + 1) % (steps // 10) == 0:
            with torch.no_grad():
                sharp = net(small)
            curve.append((step + 1, psnr(sharp, flower)))
            bar.set_postfix(dB=curve[-1][1])

    reached = curve[-1][1]
    goal = interpolated - 0.5 if given.quick else interpolated + 0.5
    figure = f"{reached:.2f} dB on the flower, never seen; to reach {goal:.2f}; bicubic {interpolated:.2f}"
    draw(
        given.picture,
        {
            "given": small,
            f"bicubic, {interpolated:.2f} dB": bicubic(small),
            f"network, {reached:.2f} dB": sharp,
        },
        curve,
        interpolated,
        figure,
    )
    print(figure)
    if not reached >= goal:
        sys.exit("missed")


if __name__ == "__main__":
    main()
