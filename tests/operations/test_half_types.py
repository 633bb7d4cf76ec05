"""Half types are computed and accumulated in float32 and rounded once: over all sample calls, and where squares overflow."""

from __future__ import annotations

import numpy as np
import pytest
from samples import ALL, Operands, run

import flambeau
from flambeau.nn import functional as F
from flambeau.operations.declare.registry import REGISTRY

EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
# Roundings in between that stay, each for a reason.
ROUNDED_BETWEEN = {
    "cross": "differences of rounded products, as PyTorch's",
    "linalg_cross": "differences of rounded products, as PyTorch's",
    "grid_sample": "places are computed in the dtype of the grid, as PyTorch's",
    "grid_sampler_2d": "places are computed in the dtype of the grid, as PyTorch's",
    "grid_sampler_3d": "places are computed in the dtype of the grid, as PyTorch's",
    "grid_sampler": "places are computed in the dtype of the grid, as PyTorch's",
    "mvlgamma": "its sample adds 2 to the operand before",
    "nextafter": "a step of the dtype itself",
}
CASES = [(e, text) for e, text in ALL if e.kind != "random" and e.name not in ROUNDED_BETWEEN]


class Halves(Operands):
    """The operands of sample calls in a half type, or the same numbers in float32."""

    def __init__(self, kind, wide: bool):
        super().__init__()
        self.kind, self.wide = kind, wide

    def floats(self, name: str) -> flambeau.Tensor:
        found = super().floats(name).to(self.kind)
        return found.float() if self.wide else found


def compared(kind) -> dict:
    """How many roundings each operation's results are from float32's, where it takes the half type."""
    found = {}
    for entry, text in CASES:
        try:
            halves = run(entry, text, Halves(kind, False))
        except (NotImplementedError, RuntimeError, TypeError, ValueError):
            continue  # linear algebra and transforms, which have no half types
        for got, want in zip(halves, run(entry, text, Halves(kind, True))):
            if got.dtype != kind or not want.is_floating_point():
                continue
            near, true = got.double().numpy(), want.to(kind).double().numpy()
            scale = np.abs(want.double().numpy())
            scale = np.maximum(scale, 1e-3 * scale.max(initial=0)) + 1e-7
            with np.errstate(invalid="ignore"):
                away = np.abs(near - want.double().numpy()) / scale / EPSILON[kind.name]
            away = np.where((near == true) | np.isnan(near) & np.isnan(true), 0.0, away)
            call = f"{entry.name}({text})"
            found[call] = max(found.get(call, 0.0), float(away.max(initial=0)))
    return found


@pytest.mark.parametrize("dtype", EPSILON)
def test_all_operations_round_once_or_twice(dtype):
    found = compared(getattr(flambeau, dtype))
    assert len(found) > 300  # so many sample calls take half types
    assert {call: away for call, away in found.items() if not away <= 1.0} == {}


def test_the_exceptions_are_operations():
    assert ROUNDED_BETWEEN.keys() <= REGISTRY.keys()


NORMS = {
    "vector_norm 6": lambda x: flambeau.linalg.vector_norm(x, 6),
    "vector_norm 4 of rows": lambda x: flambeau.linalg.vector_norm(x, 4, 1),
    "norm 3": lambda x: flambeau.norm(x, 3, 0),
    "dist 4": lambda x: flambeau.dist(x, x.flip(0), 4),
    "rms_norm": lambda x: F.rms_norm(x, (5,)),
    "rms_norm with eps": lambda x: F.rms_norm(x, (5,), eps=0.5),
    "normalize 3": lambda x: F.normalize(x, 3.0),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(0)),
    "renorm": lambda x: flambeau.renorm(x, 4, 0, 1.0),
    "local_response_norm": lambda x: F.local_response_norm(x.unsqueeze(0), 2, alpha=1.0),
    "lp_pool1d": lambda x: F.lp_pool1d(x.abs().unsqueeze(0), 3, 2),
    "group_norm": lambda x: F.group_norm(x.unsqueeze(0), 2),
    "instance_norm": lambda x: F.instance_norm(x.unsqueeze(0)),
}


@pytest.mark.parametrize("name", NORMS)
def test_powers_of_large_halves_do_not_overflow(name):
    x = flambeau.arange(1, 21, dtype=flambeau.float32).reshape(4, 5) * 37.0 - 200.0
    got, want = NORMS[name](x.half()), NORMS[name](x.half().float())
    assert got.dtype == flambeau.float16
    assert got.isfinite().all() and got.tolist() == want.half().tolist()


def test_gradients_are_of_the_half_type():
    x = flambeau.tensor([[300.0, 400.0]], dtype=flambeau.float16, requires_grad=True)
    flambeau.linalg.vector_norm(x, 4).backward()
    wide = x.detach().float().requires_grad_()
    flambeau.linalg.vector_norm(wide, 4).backward()
    assert x.grad.dtype == flambeau.float16 and x.grad.tolist() == wide.grad.half().tolist()


def test_results_are_written_and_running_moments_kept():
    x = flambeau.ones(2, 3, 4, dtype=flambeau.bfloat16)
    mean, var = flambeau.zeros(3, dtype=flambeau.bfloat16), flambeau.ones(3, dtype=flambeau.bfloat16)
    F.instance_norm(x, mean, var, momentum=0.5)
    assert mean.tolist() == [0.5] * 3 and var.tolist() == [0.5] * 3
    out = flambeau.empty(0, dtype=flambeau.bfloat16)
    assert flambeau.renorm(x, 3, 0, 1.0, out=out) is out and out.dtype == flambeau.bfloat16


@pytest.mark.parametrize("mode", ["linear", "bilinear", "bicubic", "trilinear"])
@pytest.mark.parametrize("dtype", EPSILON)
def test_interpolation(dtype, mode):
    rank = {"linear": 1, "trilinear": 3}.get(mode, 2)
    x = flambeau.from_numpy(np.random.default_rng(rank).normal(size=(2, 3, *(5, 4, 6)[:rank])))
    half = x.to(getattr(flambeau, dtype))
    for aligned in (False, True):
        got = F.interpolate(half, scale_factor=1.7, mode=mode, align_corners=aligned)
        want = F.interpolate(half.float(), scale_factor=1.7, mode=mode, align_corners=aligned)
        assert got.dtype == half.dtype and got.tolist() == want.to(half.dtype).tolist()


@pytest.mark.parametrize("dtype", EPSILON)
def test_nextafter_is_the_neighbour(dtype):
    """All numbers of the type in order, each the neighbour of the one before; NaN, ends and zeros."""
    kind = getattr(flambeau, dtype)
    patterns = np.arange(0, 1 << 15, 7, dtype=np.int16)
    x = flambeau.from_numpy(patterns).view(kind)
    for towards, step in ((np.inf, 1), (-np.inf, -1)):
        found = flambeau.nextafter(x, flambeau.tensor(towards, dtype=kind)).view(flambeau.int16).numpy()
        finite = x.isfinite().numpy() & (patterns > 0)
        assert (found[finite] == patterns[finite] + step).all()
        mirrored = flambeau.nextafter(-x, flambeau.tensor(-towards, dtype=kind))
        assert ((-mirrored).view(flambeau.int16).numpy()[finite] == found[finite]).all()
    least = {"float16": 2.0**-24, "bfloat16": 2.0**-133}[dtype]
    zero, nan = flambeau.tensor(0.0, dtype=kind), flambeau.tensor(float("nan"), dtype=kind)
    assert (
        flambeau.nextafter(zero, -zero - 1).item() == -least
        and flambeau.nextafter(zero, zero + 1).item() == least
    )
    assert flambeau.nextafter(zero, nan).isnan() and flambeau.nextafter(nan, zero).isnan()
    assert flambeau.nextafter(zero + 1, zero + 1).item() == 1.0


def test_calls_stay_what_they_were():
    """The wrapper hides no argument too many, and a warning is the caller's."""
    x = flambeau.ones(2, 3, dtype=flambeau.float16)
    for function in (flambeau.renorm, F.rms_norm, F.normalize, F.group_norm):
        with pytest.raises(TypeError):
            function(x, 2, 1, 1.0, None, None, None, None)
    with pytest.warns(UserWarning, match="resized") as caught:
        flambeau.renorm(x, 2, 0, 1.0, out=flambeau.empty(7, dtype=flambeau.float16))
    assert caught[0].filename == __file__
    wide = flambeau.empty(0)
    assert flambeau.renorm(x, 2, 0, 1.0, out=wide) is wide and wide.dtype == flambeau.float32
    assert F.rms_norm(x, (3,), flambeau.ones(3)).dtype == flambeau.float32  # promotion as ever
