"""A variational autoencoder of handwritten digits with two hidden numbers, so that all it knows fits on one page.

Data: scikit-learn's 1,797 digits of 8×8 pixels, each the number of 0 to 16 dots that were black (Alpaydin and Kaynak, 1998).  A fifth is
held out.  The decoder gives the chances of the 17 values of each pixel: the likelihood is that of the data as they are, no noise added.

Figure: nats per held-out image, -log p(x), by importance sampling with 500 draws (Burda, Grosse and Salakhutdinov, 2016).  To beat: a
histogram of each pixel by itself, and ten of them (one a digit, which are told the label that the autoencoder never sees).

    python examples/vae/main.py --picture vae.png
"""

from __future__ import annotations

import argparse
import math
import sys

try:
    import matplotlib.pyplot as plt
    from sklearn.datasets import load_digits
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[examples]'")

import flambeau as torch
from flambeau import nn
from flambeau.distributions import Categorical, Independent, Normal, kl_divergence


class VAE(nn.Module):
    """q(z | x), and p(x | z) with z of two dimensions."""

    def __init__(self, hidden: int = 2, width: int = 256) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2 * hidden)
        )
        self.decoder = nn.Sequential(
            nn.Linear(hidden, width),
            nn.SiLU(),
            nn.Linear(width, width),
            nn.SiLU(),
            nn.Dropout(0.3),
            nn.Linear(width, 64 * 17),
        )
        self.prior = Independent(Normal(torch.zeros(hidden), torch.ones(hidden)), 1)

    def q(self, x):
        mean, log_scale = self.encoder(x / 8 - 1).chunk(2, -1)
        return Independent(Normal(mean, log_scale.exp()), 1)

    def p(self, z):
        return Independent(Categorical(logits=self.decoder(z).unflatten(-1, (64, 17))), 1)

    def picture(self, z):
        """The mean of p(x | z)."""
        return self.p(z).base_dist.probs @ torch.arange(17.0)

    def loss(self, x, weight: float = 1.0):
        """The bound that is trained, in nats per image; `weight` of the divergence grows to 1."""
        q = self.q(x)
        return (weight * kl_divergence(q, self.prior) - self.p(q.rsample()).log_prob(x)).mean()

    @torch.no_grad()
    def nats(self, images, draws: int) -> float:
        """-log p(x) of an image, each draw z ~ q weighed by p(x, z) / q(z)."""
        estimates = []
        for x in images.split(16):
            q = self.q(x)
            z = q.sample((draws,))
            weights = self.p(z).log_prob(x) + self.prior.log_prob(z) - q.log_prob(z)
            estimates.append(math.log(draws) - weights.logsumexp(0))
        return torch.cat(estimates).mean().item()


def nats_of_histograms(training, held_out) -> float:
    """-log p(x) of pixels that know nothing of each other: how often each value was seen at each place, and once more."""
    counts = nn.functional.one_hot(training.long(), 17).sum(0) + 1.0
    logs = (counts / counts.sum(1, keepdim=True)).log()
    return -logs.expand(len(held_out), 64, 17).gather(2, held_out.long()[..., None]).sum().item() / len(
        held_out
    )


def tiled(images, columns: int):
    """Images of 64 pixels side by side, with a white line between."""
    padded = nn.functional.pad(images.detach().view(-1, columns, 8, 8), (1, 1, 1, 1))
    return padded.transpose(1, 2).reshape(-1, 10 * columns)


def draw(path: str, net: VAE, held_out, labels, title: str) -> None:
    """What the decoder makes of a grid of z; where the encoder puts held-out digits; those digits again."""
    figure, (manifold, places, again) = plt.subplots(
        1, 3, figsize=(13, 4.6), layout="constrained", width_ratios=(1, 1.1, 0.7)
    )
    figure.suptitle(title)
    side = 16
    line = Normal(0.0, 1.0).icdf(torch.linspace(0.02, 0.98, side))
    grid = torch.stack(torch.meshgrid(line, line.flip(0), indexing="xy"), -1).view(-1, 2)
    manifold.imshow(tiled(net.picture(grid), side), cmap="gray_r")
    manifold.set_title("what each z becomes")
    mean = net.q(held_out).mean.detach()
    dots = places.scatter(mean[:, 0], mean[:, 1], c=labels, cmap="tab10", s=10, vmin=-0.5, vmax=9.5)
    figure.colorbar(dots, ax=places, ticks=range(10), label="digit (never shown)", shrink=0.9)
    places.set(title="where held-out digits go", xlabel="$z_1$", ylabel="$z_2$", aspect="equal")
    pairs = torch.stack([held_out[:24], net.picture(net.q(held_out[:24]).mean)], 1)
    again.imshow(tiled(pairs.view(48, 64), 6), cmap="gray_r")
    again.set_title("held-out and rebuilt, in pairs")
    for axes in (manifold, again):
        axes.axis("off")
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a few epochs, and an easy figure")
    options.add_argument("--picture", default="vae.png")
    args = options.parse_args()
    torch.manual_seed(0)
    epochs = 3 if args.quick else 100

    digits = load_digits()
    order = torch.randperm(len(digits.target))
    images = torch.from_numpy(digits.data).float()[order]
    labels = torch.from_numpy(digits.target)[order]
    held_out, training = images[:359], images[359:]
    net = VAE()
    optimiser = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for epoch in (bar := tqdm(range(epochs), disable=None)):
        for batch in training[torch.randperm(len(training))].split(64):
            loss = net.loss(batch, weight=min(1.0, (epoch + 1) / 20))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
        bar.set_postfix(nats=loss.item())

    net.eval()
    nats, alone = net.nats(held_out, draws=10 if args.quick else 500), nats_of_histograms(training, held_out)
    told = sum(
        nats_of_histograms(training[labels[359:] == k], held_out[labels[:359] == k])
        * (labels[:359] == k).sum().item()
        for k in range(10)
    ) / len(held_out)
    bar = 200.0 if args.quick else told
    figure = f"held out: {nats:.1f} nats per image; to reach {bar:.1f}; a histogram per pixel {alone:.1f}, per pixel and digit {told:.1f}"
    draw(args.picture, net, held_out, labels[:359], figure)
    print(figure)
    if not nats <= bar:
        sys.exit("missed")


if __name__ == "__main__":
    main()
