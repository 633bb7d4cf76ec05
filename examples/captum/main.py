"""Which pixels made the network say so?  Captum, unmodified, on a flambeau network.

`flambeau.as_torch()` makes `import torch` mean flambeau for the rest of the program, so a library that was written for PyTorch runs on it.

Data: scikit-learn's 1,797 digits of 8×8 pixels (Alpaydin and Kaynak, 1998), a fifth held out.  Integrated gradients (Sundararajan, Taly
and Yan, 2017) and DeepLIFT (Shrikumar, Greenside and Kundaje, 2017) attribute the logit of the digit that the network names to pixels.

Figure: accuracy on held-out digits when the 10 pixels to which integrated gradients attribute most are blanked; the lower, the truer.  To
reach: at most half of what is left when the 10 brightest pixels are blanked.  To compare: 10 pixels drawn at random.  The attributions must
add up to the difference of the logit from that of a blank image, within 0.01 of it (completeness), which is checked, too.

    python examples/captum/main.py --picture captum.png
"""

from __future__ import annotations

import argparse
import sys

import flambeau

flambeau.as_torch()

try:
    import matplotlib.pyplot as plt
    import torch  # this is flambeau
    from captum.attr import DeepLift, IntegratedGradients
    from sklearn.datasets import load_digits
    from torch import nn
    from torch.nn import functional as F
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install ./dropin '.[examples]'")


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(24, 24, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(24 * 16, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def train(net: nn.Module, images, digits, epochs: int) -> None:
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for _ in (bar := tqdm(range(epochs), disable=None)):
        for chosen in torch.randperm(len(images)).split(64):
            loss = F.cross_entropy(net(images[chosen]), digits[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
        bar.set_postfix(loss=loss.item())


def accuracy(net: nn.Module, images, digits) -> float:
    with torch.no_grad():
        return (net(images).argmax(1) == digits).float().mean().item()


def blanked(images, scores, count: int):
    """The images without the pixels of the highest scores."""
    highest = scores.flatten(1).topk(count, dim=1).indices
    return images.flatten(1).scatter(1, highest, 0.0).view_as(images)


def draw(path: str, images, said, attributed: dict, curves: dict, title: str) -> None:
    """Digits above what each method attributes to their pixels, and how accuracy falls as pixels are blanked."""
    figure = plt.figure(figsize=(13, 4.4), layout="constrained")
    figure.suptitle(title)
    left, right = figure.subfigures(1, 2, width_ratios=(1.6, 1))
    panels = left.subplots(1 + len(attributed), 8)
    for column in range(8):
        panels[0, column].imshow(images[column, 0], cmap="gray_r")
        panels[0, column].set_title(f"says {said[column]}", fontsize=9)
        for row, (name, scores) in zip(panels[1:], attributed.items()):
            most = scores[column].abs().max().item()
            row[column].imshow(scores[column, 0].detach(), cmap="RdBu_r", vmin=-most, vmax=most)
            row[0].set_ylabel(name, fontsize=9)
    for axes in panels.flat:
        axes.set(xticks=[], yticks=[])
    axes = right.subplots()
    for name, curve in curves.items():
        axes.plot([100 * a for a in curve], ".-", label=name)
    axes.set(xlabel="pixels blanked", ylabel="held-out accuracy, %")
    axes.legend()
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="few epochs, and an easy figure")
    options.add_argument("--picture", default="captum.png")
    args = options.parse_args()
    torch.manual_seed(0)

    data = load_digits()
    order = torch.randperm(len(data.target))
    images = (torch.from_numpy(data.images).float() / 16)[order, None]
    digits = torch.from_numpy(data.target)[order]
    net = network()
    train(net, images[359:], digits[359:], epochs=2 if args.quick else 25)
    net.eval()

    images, digits = images[:359], digits[:359]
    said = net(images).argmax(1)
    gradients, missing = IntegratedGradients(net).attribute(
        images, target=said, n_steps=64, method="gausslegendre", return_convergence_delta=True
    )
    with torch.no_grad():
        gained = (net(images) - net(torch.zeros_like(images))).gather(1, said[:, None])[:, 0]
    incomplete = (missing.abs().mean() / gained.abs().mean()).item()
    lift = DeepLift(net).attribute(images, target=said)
    scores = {
        "integrated gradients": gradients,
        "DeepLIFT": lift,
        "brightest": images,
        "random": torch.rand(images.shape),
    }
    curves = {
        name: [accuracy(net, blanked(images, s, n), digits) for n in range(21)] for name, s in scores.items()
    }
    left, brightest, at_random = (
        curves[name][10] for name in ("integrated gradients", "brightest", "random")
    )

    bar = brightest / 2 if not args.quick else brightest
    figure = (
        f"accuracy {curves['random'][0]:.1%} falls to {left:.1%} with 10 pixels blanked (at most {bar:.1%}); brightest {brightest:.1%}, "
        f"at random {at_random:.1%}; attributions miss {incomplete:.2%} of the logit"
    )
    draw(
        args.picture,
        images,
        said.tolist(),
        {k: scores[k] for k in ("integrated gradients", "DeepLIFT")},
        curves,
        figure,
    )
    print(figure)
    if not (left <= bar and incomplete < 0.01):
        sys.exit("missed")


if __name__ == "__main__":
    main()
