"""Two networks in a contest: one forges handwritten digits, one tells forgeries from digits.

Data: scikit-learn's 1,797 digits of 8×8 pixels (Alpaydin and Kaynak, 1998), a fifth of them held out.  The generator is told which digit to
write; the critic, too (Miyato and Koyama, 2018), and its layers have spectral norm 1 (Miyato et al., 2018).

Figure: "train on forged, test on real" (Esteban, Hyland and Rätsch, 2017): the accuracy on real held-out digits of a nearest-neighbour
classifier that has seen 2,000 forgeries and nothing else.  It is low where forgeries are not digits, not the digit asked for, or all alike.
To beat: the same with images whose pixels are drawn one by one, each from real images of the digit.  No forger can be expected to pass:
the same classifier with the real training images.

    python examples/gan/main.py --picture gan.png
"""

from __future__ import annotations

import argparse
import sys

try:
    import matplotlib.pyplot as plt
    from sklearn.datasets import load_digits
    from sklearn.neighbors import KNeighborsClassifier
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[examples]'")

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils.parametrizations import spectral_norm
from flambeau.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

NOISE = 32


class Generator(nn.Module):
    """Noise and a digit to an image in [-1, 1]."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.digit = nn.Embedding(10, NOISE)
        self.layers = nn.Sequential(
            nn.Linear(2 * NOISE, 2 * width * 4),
            nn.Unflatten(1, (2 * width, 2, 2)),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1),
            nn.Tanh(),
        )

    def forward(self, noise, digit):
        return self.layers(torch.cat([noise, self.digit(digit)], 1))


class Critic(nn.Module):
    """How real an image of that digit looks: a number, high for real."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            spectral_norm(nn.Conv2d(1, width, 3, padding=1)),
            nn.LeakyReLU(0.2),
            spectral_norm(nn.Conv2d(width, 2 * width, 4, stride=2, padding=1)),
            nn.LeakyReLU(0.2),
            spectral_norm(nn.Conv2d(2 * width, 2 * width, 4, stride=2, padding=1)),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
        )
        self.real = spectral_norm(nn.Linear(8 * width, 1))
        self.fits = spectral_norm(nn.Embedding(10, 8 * width))

    def forward(self, image, digit):
        features = self.features(image)
        return self.real(features).squeeze(1) + (self.fits(digit) * features).sum(1)


def forge(generator: Generator, digits):
    return generator(torch.randn(len(digits), NOISE), digits)


def test_on_real(images, digits, held_out) -> float:
    """Accuracy on the held-out images of a nearest-neighbour classifier that knows these."""
    real, right = held_out
    classifier = KNeighborsClassifier(1).fit(images.flatten(1).numpy(), digits.numpy())
    return classifier.score(real.flatten(1).numpy(), right.numpy())


def pixel_by_pixel(images, digits, wanted):
    """Images of the wanted digits, each pixel from a real image of that digit, another one for each pixel."""
    made = torch.empty(len(wanted), 64)
    for k in range(10):
        real, here = images[digits == k].flatten(1), wanted == k
        chosen = torch.randint(len(real), (int(here.sum()), 64))
        made[here] = real.gather(0, chosen)
    return made


def draw(path: str, forged, images, labels, curve: list, others: tuple, title: str) -> None:
    """Real digits beside forged ones, and how the forger learnt."""
    figure, panels = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained", width_ratios=(1, 1, 1.1))
    figure.suptitle(title)
    genuine = torch.cat([images[labels == k][:10] for k in range(10)])
    copies = forged.view(-1, 10, 64)[:10].transpose(0, 1).reshape(100, 1, 8, 8)
    for axes, name, shown in zip(panels, ("real", "forged"), (genuine, copies)):
        padded = nn.functional.pad(shown.view(10, 10, 8, 8), (1, 1, 1, 1), value=-1.0)
        axes.imshow(padded.transpose(1, 2).reshape(100, 100), cmap="gray_r")
        axes.set_title(name)
        axes.axis("off")
    panels[2].plot(*zip(*curve), ".-", color="tab:blue")
    for level, name in zip(others, ("drawn pixel by pixel", "real images")):
        panels[2].axhline(level, color="0.6", linestyle=":")
        panels[2].annotate(name, (0, level), xytext=(0, 3), textcoords="offset points", fontsize=8)
    panels[2].set(xlabel="step", title="accuracy on real digits, trained on forged ones")
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a few steps, and an easy figure")
    options.add_argument("--picture", default="gan.png")
    args = options.parse_args()
    torch.manual_seed(0)
    steps = 60 if args.quick else 1500

    digits = load_digits()
    order = torch.randperm(len(digits.target))
    images = (torch.from_numpy(digits.images).float() / 8 - 1)[order, None]
    labels = torch.from_numpy(digits.target)[order]
    held_out = images[:359], labels[:359]
    images, labels = images[359:], labels[359:]

    generator, critic = Generator(), Critic()
    average = AveragedModel(generator, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True)
    ours = torch.optim.Adam(generator.parameters(), lr=4e-4, betas=(0.0, 0.9))
    theirs = torch.optim.Adam(critic.parameters(), lr=8e-4, betas=(0.0, 0.9))
    wanted = torch.arange(2000) % 10
    curve = []
    for step in tqdm(range(steps), disable=None):
        chosen = torch.randint(len(images), (64,))
        real, digit = images[chosen], labels[chosen]
        with torch.no_grad():
            forged = forge(generator, digit)
        loss = (1 - critic(real, digit)).relu().mean() + (1 + critic(forged, digit)).relu().mean()
        theirs.zero_grad()
        loss.backward()
        theirs.step()

        asked = torch.randint(10, (64,))
        loss = -critic(forge(generator, asked), asked).mean()
        ours.zero_grad()
        loss.backward()
        ours.step()
        average.update_parameters(generator)
        if (step + 1) % (steps // 10) == 0:
            with torch.no_grad():
                forged = forge(average.module.eval(), wanted)
            curve.append((step + 1, test_on_real(forged, wanted, held_out)))

    accuracy, genuine = curve[-1][1], test_on_real(images, labels, held_out)
    pixels = test_on_real(pixel_by_pixel(images, labels, wanted), wanted, held_out)
    bar = 0.2 if args.quick else 0.94
    figure = (
        f"trained on forged, tested on real: {accuracy:.1%}; to reach {bar:.0%}; "
        f"pixel by pixel {pixels:.1%}, trained on real {genuine:.1%}"
    )
    draw(args.picture, forged, images, labels, curve, (pixels, genuine), figure)
    print(figure)
    if not accuracy >= bar:
        sys.exit("missed")


if __name__ == "__main__":
    main()
