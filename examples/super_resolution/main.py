"""Twice the pixels: a small convolutional network sharpens what it has never seen.

Data: the two photographs in scikit-learn, 427×640 (a temple, a held_out).  The quarter in the middle of each is held out.  Pictures are
halved by bicubic interpolation, and the network is to undo that (Shi et al., 2016: it works on the small picture, and shuffles pixels at
the end).  It learns what bicubic enlargement leaves wrong.

Figure: peak signal-to-noise ratio over both held-out quarters, in dB.  To beat: bicubic enlargement, by half a dB at least.

    python examples/super_resolution/main.py --picture super_resolution.png
"""

from __future__ import annotations

import argparse
import sys

try:
    import matplotlib.pyplot as plt
    from sklearn.datasets import load_sample_image
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[examples]'")

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


class Sharper(nn.Module):
    """(batch, 3, h, w) in [0, 1] to (batch, 3, 2h, 2w)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.missing = nn.Sequential(
            nn.Conv2d(3, width, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 12, 3, padding=1),
            nn.PixelShuffle(2),
        )
        nn.init.zeros_(self.missing[4].weight)  # begins as bicubic enlargement
        nn.init.zeros_(self.missing[4].bias)

    def forward(self, small):
        return bicubic(small) + self.missing(small - 0.5)


def bicubic(small):
    return F.interpolate(small, scale_factor=2, mode="bicubic", align_corners=False)


def halved(pictures):
    return F.interpolate(pictures, scale_factor=0.5, mode="bicubic", antialias=True)


def photographs():
    """(2, 3, 426, 640) in [0, 1]."""
    both = [torch.tensor(load_sample_image(name)[:426]) for name in ("china.jpg", "flower.jpg")]
    return torch.stack(both).float().permute(0, 3, 1, 2) / 255


def patches(pictures, size: int = 64, stride: int = 32):
    """Squares of pictures and all their turns and mirror images, (n, 3, size, size)."""
    squares = pictures.unfold(2, size, stride).unfold(3, size, stride).permute(0, 2, 3, 1, 4, 5).flatten(0, 2)
    turned = torch.cat([squares.rot90(k, (2, 3)) for k in range(4)])
    return torch.cat([turned, turned.flip(3)])


def psnr(made, true) -> float:
    return -10 * (made.clamp(0, 1) - true).square().mean().log10().item()


def draw(path: str, panels: dict, curve: list, level: float, title: str) -> None:
    """A held-out detail of the temple as each method shows it, and the learning curve."""
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.9), layout="constrained")
    figure.suptitle(title)
    for place, (name, picture) in zip(axes, panels.items()):
        scale = picture.shape[-1] / 160
        top, left, size = (int(scale * k) for k in (140, 10, 110))
        detail = picture[0, :, top : top + size, left : left + size].permute(1, 2, 0).clamp(0, 1)
        place.imshow(detail, interpolation="nearest")
        place.set_title(name)
        place.axis("off")
    axes[3].plot(*zip(*curve), ".-", color="tab:blue")
    axes[3].axhline(level, color="0.6", linestyle=":")
    axes[3].annotate("bicubic", (0, level), xytext=(0, 3), textcoords="offset points", fontsize=8)
    axes[3].set(xlabel="step", title="dB, held out")
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a few steps, and an easy figure")
    options.add_argument("--picture", default="super_resolution.png")
    args = options.parse_args()
    torch.manual_seed(0)
    steps = 20 if args.quick else 1000

    pictures = photographs()
    known = torch.cat([patches(pictures[..., :240]), patches(pictures[..., 400:])])
    held_out = pictures[..., 240:400]
    small = halved(held_out)
    net = Sharper()
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    interpolated, curve = psnr(bicubic(small), held_out), []
    for step in (bar := tqdm(range(steps), disable=None)):
        true = known[torch.randint(len(known), (16,))]
        loss = F.mse_loss(net(halved(true)), true)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if (step + 1) % (steps // 10) == 0:
            with torch.no_grad():
                sharp = net(small)
            curve.append((step + 1, psnr(sharp, held_out)))
            bar.set_postfix(dB=curve[-1][1])

    reached = curve[-1][1]
    goal = interpolated + (-0.5 if args.quick else 0.5)
    figure = f"{reached:.2f} dB on held-out quarters; to reach {goal:.2f}; bicubic {interpolated:.2f}"
    draw(
        args.picture,
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
