"""A layer that SciPy solves: a network learns to smooth a photograph everywhere except across edges.

The layer is the solution x of (I + L(w)) x = y, where y is a noisy picture and L(w) the Laplacian of the grid of its pixels with a
conductivity w for each pair of neighbours.  SciPy factors the sparse matrix; its factors serve again in backward, for the adjoint
λ = (I + L)⁻¹ g gives both gradients: of y it is λ, of w it is -(λᵢ - λⱼ)(xᵢ - xⱼ).  A small convolutional network says w.

Data: scikit-learn's photographs in grey, with Gaussian noise of 0.1: patches of `china.jpg` to learn from, `flower.jpg` and a part of
`china.jpg` with nothing of it in the patches to be tested on.

Figure: peak signal-to-noise ratio of the cleaned held-out pictures, in dB.  To beat: SciPy's Gaussian filter, median filter and Wiener
filter, each with the width that is best on these very pictures, by half a dB at least.

    python examples/scipy_layer/main.py --picture scipy_layer.png
"""

from __future__ import annotations

import argparse
import sys

try:
    import matplotlib.pyplot as plt
    import numpy as np
    import scipy.ndimage
    import scipy.signal
    import scipy.sparse
    import scipy.sparse.linalg
    from sklearn.datasets import load_sample_image
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[examples]'")

import flambeau as torch
from flambeau import nn


class Diffuse(torch.autograd.Function):
    """(I + L(w)) x = y for one picture: y (n,), w (pairs,), `differ` the sparse matrix (pairs, n) of differences of neighbours."""

    @staticmethod
    def forward(ctx, y, w, differ):
        matrix = (
            scipy.sparse.eye_array(differ.shape[1])
            + differ.T @ scipy.sparse.diags_array(w.detach().numpy()) @ differ
        )
        ctx.solve = scipy.sparse.linalg.splu(
            matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}
        ).solve
        x = torch.from_numpy(ctx.solve(y.detach().numpy()))
        ctx.save_for_backward(x)
        ctx.differ = differ
        return x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        adjoint = ctx.solve(g.numpy())
        by_w = -(ctx.differ @ adjoint) * (ctx.differ @ x.numpy())
        return torch.from_numpy(adjoint), torch.from_numpy(by_w), None


def differences(height: int, width: int) -> scipy.sparse.csr_array:
    """What each pixel differs from the one below, then from the one to the right: (pairs, pixels)."""

    def along(n: int):
        return scipy.sparse.diags_array([-np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))

    down = scipy.sparse.kron(along(height), scipy.sparse.eye_array(width))
    right = scipy.sparse.kron(scipy.sparse.eye_array(height), along(width))
    return scipy.sparse.vstack([down, right]).tocsr()


class Cleaner(nn.Module):
    """Pictures (batch, h, w) to the same, cleaned."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.conductivity = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2, 3, padding=1),
            nn.Softplus(),
        )

    def forward(self, noisy):
        down, right = self.conductivity(noisy[:, None] - 0.5).unbind(1)
        w = torch.cat([down[:, :-1].flatten(1), right[:, :, :-1].flatten(1)], 1).double()
        differ = differences(*noisy.shape[1:])
        clean = [Diffuse.apply(y, one, differ) for y, one in zip(noisy.double().flatten(1), w)]
        return torch.stack(clean).view_as(noisy).to(noisy.dtype)


def psnr(made, true) -> float:
    return -10 * np.log10(np.mean((np.asarray(made) - np.asarray(true)) ** 2))


def best_filters(noisy, true) -> dict[str, float]:
    """The best that each of SciPy's filters does here, dB."""
    noisy = noisy.numpy().astype(float)
    return {
        "Gaussian": max(
            psnr(scipy.ndimage.gaussian_filter(noisy, (0, s, s)), true) for s in np.arange(0.5, 2, 0.1)
        ),
        "median": max(psnr(scipy.ndimage.median_filter(noisy, (1, n, n)), true) for n in (3, 5, 7)),
        "Wiener": max(psnr([scipy.signal.wiener(p, n) for p in noisy], true) for n in (3, 5, 7, 9)),
    }


def draw(path: str, true, noisy, cleaned, w, title: str) -> None:
    figure, panels = plt.subplots(1, 4, figsize=(13, 3.7), layout="constrained")
    figure.suptitle(title)
    shown = {"true": true, "noisy": noisy, "cleaned": cleaned}
    for axes, (name, picture) in zip(panels, shown.items()):
        axes.imshow(picture, cmap="gray", vmin=0, vmax=1)
        axes.set_title(name if name == "true" else f"{name}, {psnr(picture, true):.1f} dB")
    panels[3].imshow(w.log(), cmap="magma")
    panels[3].set_title("conductivity (bright: smoothed)")
    for axes in panels:
        axes.axis("off")
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a few steps, and an easy figure")
    options.add_argument("--picture", default="scipy_layer.png")
    args = options.parse_args()
    torch.manual_seed(0)
    steps = 5 if args.quick else 250

    y, w = torch.rand(12, dtype=torch.float64), torch.rand(17, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda *a: Diffuse.apply(*a, differences(3, 4)), (y.requires_grad_(), w.requires_grad_())
    )

    china, flower = (
        torch.tensor(load_sample_image(n)).float().mean(2) / 255 for n in ("china.jpg", "flower.jpg")
    )
    known = china[:, :480].unfold(0, 32, 16).unfold(1, 32, 16).flatten(0, 1)
    true = torch.stack([china[150:278, 500:628], flower[150:278, 250:378]])
    noisy = true + 0.1 * torch.randn(true.shape)
    net = Cleaner()
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=steps)
    for _ in (bar := tqdm(range(steps), disable=None)):
        batch = known[torch.randint(len(known), (16,))]
        loss = (net(batch + 0.1 * torch.randn(batch.shape)) - batch).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        bar.set_postfix(dB=-10 * loss.log10().item())

    with torch.no_grad():
        cleaned, w = net(noisy), net.conductivity(noisy[:, None] - 0.5).mean(1)
    reached, filters = psnr(cleaned, true), best_filters(noisy, true)
    goal = psnr(noisy, true) if args.quick else max(filters.values()) + 0.5
    others = ", ".join(f"{name} {level:.2f}" for name, level in filters.items())
    figure = (
        f"{reached:.2f} dB; to reach {goal:.2f}; noisy {psnr(noisy, true):.2f}, best of each filter: {others}"
    )
    draw(args.picture, true[0], noisy[0], cleaned[0], w[0], figure)
    print(figure)
    if not reached >= goal:
        sys.exit("missed")


if __name__ == "__main__":
    main()
