"""A kernel of one's own in two lines: a wavelet as activation, and a network that is a photograph.

`flambeau.kernels.pointwise` makes an operation of a formula: one fused kernel, its derivatives (the gradient is a kernel, too), every
device and dtype.  Here it is Gabor's wavelet, which finds detail that ReLU smears (Saragadam et al., 2023).

Data: a detail of scikit-learn's photograph `china.jpg`, 128×128 pixels.  The network is told the colour at half of the places, chosen at
random, and asked for the others.

Figure: peak signal-to-noise ratio at the places it was not told of, in dB.  To beat: the same network with ReLU, by 2 dB at least.  For
comparison: the colour of the nearest place that is known.

    python examples/own_kernel/main.py --picture own_kernel.png
"""

from __future__ import annotations

import argparse
import sys
import time

try:
    import matplotlib.pyplot as plt
    from scipy.interpolate import NearestNDInterpolator
    from sklearn.datasets import load_sample_image
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[examples]'")

import flambeau as torch
from flambeau import kernels, nn


@kernels.pointwise
def gabor(x, *, frequency=8.0, narrowness=4.0):
    return kernels.cos(frequency * x) * kernels.exp(-(narrowness * x) * (narrowness * x))


class Gabor(nn.Module):
    def forward(self, x):
        return gabor(x)


class Formula(nn.Module):
    """The same from four operations of the library, to compare the time."""

    def forward(self, x):
        return torch.cos(8.0 * x) * torch.exp(-(4.0 * x).square())


def network(activation: type[nn.Module], width: int = 128) -> nn.Module:
    """From places in [-1, 1]² to colours."""
    hidden = [layer for _ in range(2) for layer in (nn.Linear(width, width), activation())]
    return nn.Sequential(nn.Linear(2, width), activation(), *hidden, nn.Linear(width, 3))


def fit(activation: type[nn.Module], places, colours, steps: int) -> nn.Module:
    """A network that knows these colours at these places; always the same weights to begin with."""
    torch.manual_seed(0)
    net = network(activation)
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in (bar := tqdm(range(steps), desc=activation.__name__, disable=None)):
        loss = (net(places) - colours).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        bar.set_postfix(dB=-10 * loss.log10().item())
    return net


def seconds(activation: nn.Module, times: int = 30) -> float:
    """The least time of one call on a million elements and its gradient."""
    x = torch.linspace(-1, 1, 1 << 20, requires_grad=True)
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        activation(x).sum().backward()
        taken.append(time.perf_counter() - began)
    return min(taken)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a few steps, and an easy figure")
    options.add_argument("--picture", default="own_kernel.png")
    args = options.parse_args()
    torch.manual_seed(0)
    size, steps = (64, 100) if args.quick else (128, 300)

    true = torch.tensor(load_sample_image("china.jpg")[150 : 150 + size, 250 : 250 + size]).float() / 255
    line = torch.linspace(-1, 1, size)
    places = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).view(-1, 2)
    colours = true.view(-1, 3)
    known = torch.rand(len(places)) < 0.5

    shown = {"told": torch.where(known[:, None], colours, 1.0)}
    shown["nearest"] = torch.tensor(NearestNDInterpolator(places[known], colours[known])(places)).float()
    for activation in (nn.ReLU, Gabor):
        net = fit(activation, places[known], colours[known], steps)
        shown[activation.__name__] = net(places).detach().clamp(0, 1)
    dB = {name: -10 * (made - colours)[~known].square().mean().log10().item() for name, made in shown.items()}

    bar = dB["ReLU"] + (0 if args.quick else 2)
    figure = f"{dB['Gabor']:.1f} dB at unknown places; to reach {bar:.1f}; ReLU {dB['ReLU']:.1f}, nearest known {dB['nearest']:.1f}"
    panes, panels = plt.subplots(1, 5, figsize=(13, 3.2), layout="constrained")
    panes.suptitle(figure)
    for axes, (name, made) in zip(panels, {**shown, "true": colours}.items()):
        axes.imshow(made.view(size, size, 3))
        axes.set_title(name)
        axes.axis("off")
    panes.savefig(args.picture, dpi=80)
    if not args.quick:
        print(
            f"value and gradient take {seconds(Formula()) / seconds(Gabor()):.1f} times as long with the formula in ordinary operations"
        )
    print(figure)
    if not dB["Gabor"] >= bar:
        sys.exit("missed")


if __name__ == "__main__":
    main()
