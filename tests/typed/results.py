"""Results with names, and functions whose results follow from their arguments."""

from __future__ import annotations

import flambeau as torch
from flambeau import Tensor


def extremes(x: Tensor) -> Tensor:
    total: Tensor = x.max() + x.min() + torch.max(x) + torch.min(x) + torch.max(x, x + 1).sum()
    total = total + x.median() + torch.nanmedian(x) + x.max(x * 2).sum()
    values, places = x.max(dim=1)
    total = total + values.sum() + places.sum()
    total = (
        total
        + x.min(0).values.sum()
        + x.min(0, keepdim=True).indices.sum()
        + torch.max(x, dim=-1).values.sum()
    )
    total = total + x.median(dim=1).values.sum() + torch.median(x, 1, True).indices.sum()
    total = (
        total + x.kthvalue(2, dim=1).values.sum() + x.mode(dim=-1).indices.sum() + x.nanmedian(1).values.sum()
    )
    low, high = torch.aminmax(x)
    total = total + low + high + x.aminmax(dim=0, keepdim=True).max.sum()
    return total + x.amax((0, 1)) + x.amin(dim=1).sum() + x.argmax() + x.argmin(1, keepdim=True).sum()


def order(x: Tensor) -> Tensor:
    values, indices = x.sort(dim=1, descending=True)
    best = x.topk(2, dim=1)
    weights: Tensor = best.values.softmax(-1)
    chosen: Tensor = x.gather(1, best.indices)
    running = x.cummax(1).values + torch.cummin(x, dim=1).values + x.cumsum(1) + x.cumprod(dim=0)
    total = values.sum() + indices.sum() + (weights * chosen).sum() + running.sum()
    total = total + torch.sort(x).values.sum() + torch.topk(x, k=1, largest=False).indices.sum()
    unique = x.unique()
    distinct, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    again, back = torch.unique(x, return_inverse=True)
    runs, how_many = torch.unique_consecutive(x, return_counts=True)
    total = total + unique.sum() + distinct.sum() + inverse.sum() + counts.sum() + again.sum() + back.sum()
    return (
        total
        + runs.sum()
        + how_many.sum()
        + torch.bucketize(x, unique).sum()
        + torch.searchsorted(unique, x).sum()
    )


def moments(x: Tensor) -> Tensor:
    variance, mean = torch.var_mean(x, dim=1)
    deviation, centre = torch.std_mean(x, dim=(0, 1), keepdim=True)
    total = variance.sum() + mean.sum() + deviation.sum() + centre.sum()
    total = (
        total
        + x.var()
        + x.var(0).sum()
        + x.var(dim=1, unbiased=False).sum()
        + torch.var(x, 1, correction=0).sum()
    )
    total = total + x.std(dim=[0, 1], keepdim=True).sum() + torch.std(x) + x.mean((0, 1), dtype=torch.float64)
    total = (
        total
        + x.sum()
        + x.sum(0).sum()
        + x.sum(dim=(0, 1), keepdim=True).sum()
        + x.prod()
        + x.prod(dim=1).sum()
    )
    total = total + x.norm() + x.norm(p=1) + x.norm(dim=1, keepdim=True).sum() + torch.norm(x, 2, -1).sum()
    total = total + x.logsumexp(1).sum() + torch.logsumexp(x, dim=(0, 1)) + x.nansum() + x.nanmean(0).sum()
    total = (
        total
        + x.quantile(0.5)
        + torch.quantile(x, torch.tensor([0.1, 0.9]), dim=1).sum()
        + torch.dist(x, x + 1)
    )
    hist, edges = torch.histogram(x, bins=4)
    return total + hist.sum() + edges.sum() + x.histc(bins=3).sum()


def factors(a: Tensor) -> Tensor:
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    q, r = torch.linalg.qr(a)
    spectrum = torch.linalg.eigh(a @ a.T)
    sign, logarithm = torch.linalg.slogdet(a)
    total = (u @ torch.diag(s) @ vh - q @ r).abs().sum() + spectrum.eigenvalues.sum() + sign + logarithm
    solution: Tensor = torch.linalg.lstsq(a, a).solution
    total = total + solution.sum() + torch.linalg.svd(a).S.sum() + torch.linalg.svdvals(a).sum()
    total = total + torch.linalg.solve(a, a).sum() + torch.linalg.inv(a).sum() + torch.linalg.det(a)
    total = total + torch.linalg.norm(a) + torch.linalg.vector_norm(a, ord=1, dim=0).sum()
    total = total + torch.linalg.matrix_norm(a, ord="fro") + torch.linalg.cholesky(a @ a.T).sum()
    return total + torch.fft.rfft(a, dim=-1).abs().sum() + torch.special.expit(a).sum()


def several(x: Tensor) -> Tensor:
    first, second = torch.meshgrid(x[0], x[1], indexing="ij")
    left, right = x.chunk(2, dim=1)
    rows: tuple[Tensor, ...] = x.unbind()
    mantissa, exponent = torch.frexp(x)
    a, b = torch.broadcast_tensors(x[:1], x)
    where = x.nonzero(as_tuple=True)[0]
    places: Tensor = x.nonzero()
    thin = torch.atleast_2d(x[0])
    both = torch.atleast_1d(x[0], x[1])
    total = (
        first.sum()
        + second.sum()
        + left.sum()
        + right.sum()
        + rows[0].sum()
        + mantissa.sum()
        + exponent.sum()
    )
    same: bool = torch.equal(a, b) or torch.allclose(a, b, atol=1e-6) or torch.is_tensor(x)
    assert same or not same
    return (
        total
        + a.sum()
        + b.sum()
        + where.sum()
        + places.sum()
        + thin.sum()
        + both[0].sum()
        + torch.isclose(x, x).sum()
    )


def main() -> None:
    torch.manual_seed(0)
    x = torch.rand(4, 4) + 0.5
    for function in (extremes, order, moments, factors, several):
        assert torch.isfinite(function(x)).all(), function.__name__


main()
