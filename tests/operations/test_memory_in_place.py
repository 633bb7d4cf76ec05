"""Forms in place need no second tensor: every operation that has one, or writes to its first argument, counted in bytes."""

from __future__ import annotations

import math
import warnings

import pytest
from flambeau.core.call.pointwise import InPlaceOp

import flambeau
from flambeau.cpu import memory_stats, reset_peak_memory_stats
from flambeau.operations.declare.registry import REGISTRY

SIDE = 128  # 64 KiB of float32
BYTES = SIDE * SIDE * 4
NOISE = 2048  # numbers as tensors, and one for each row

# What is behind the tensor that is written to; `t` has its shape, `v` is a row, `mask` and `at` choose elements, `rows` rows.
CALLS = {
    "addbmm": "t[None], t[None]",
    "addmm": "t, t",
    "addmv": None,  # of vectors
    "addr": "v, v",
    "baddbmm": None,  # of batches
    "bernoulli_": "0.5",
    "clamp": "0.2, 0.7 | 0.2 | max=t",
    "copy_": "t | v",
    "cumprod_": "0 | 1",
    "cumsum_": "0 | 1",
    "div": "t | t, rounding_mode='floor'",
    "embedding_renorm_": None,  # writes to a table
    "exponential_": "",
    "fill_": "0.5",
    "fill_diagonal_": "0.5",
    "flat_alpha_dropout_": "0.5, True",
    "flat_dropout_": "0.5, True",
    "flat_feature_alpha_dropout_": "0.5, True",
    "flat_feature_dropout_": "0.5, True",
    "float_power_": None,  # of float64
    "floor_divide": "0.3 | t",
    "fmod": "0.3 | t",
    "gcd": "t",
    "geometric_": "0.5",
    "hardtanh_function": "",
    "igamma": "t",
    "igammac": "t",
    "index_add": "0, rows, t",
    "index_copy": "0, rows, t",
    "index_fill": "0, rows, 0.5",
    "index_put": "(rows,), t",
    "index_reduce": "0, rows, t, 'mean'",
    "lcm": "t",
    "ldexp_in_place": "t",
    "logit_": " | 0.1",
    "map2_": None,  # a call of Python for each element
    "map_": None,
    "masked_fill": "mask, 0.5",
    "masked_scatter": "mask, t",
    "mvlgamma_": "1",
    "nan_to_num_": "",
    "nextafter": "t",
    "polygamma_in_place": "1",
    "pow": "2 | 3 | 0.7 | t",
    "put": "at, t",
    "remainder": "0.3 | t",
    "renorm_in_place": "2, 0, 0.5",
    "round_": " | decimals=2",
    "rrelu": "",
    "scatter": "0, at, t",
    "scatter_add": "0, at, t",
    "scatter_reduce": "0, at, t, 'sum'",
    "threshold": "0.3, 0.5",
}
# Of no operand, or of one for each operand of the declared function.
PLAIN = frozenset(
    ("cauchy_", "log_normal_", "normal_", "random_", "uniform_", "zero_", "tril_", "triu_", "i0")
)
# New shapes of the same memory; nothing is computed.
GEOMETRY = frozenset("""
    detach_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_ resize_ resize_as_ set_ __setitem__
""".split())  # fmt: skip
# What needs tensors of that size beside the one that is written to, and why.
WORKSPACE = {
    "addr": "the outer product",
    "index_fill": "the values, one for each place",
    "index_reduce": "how many elements each place has got",
    "masked_scatter": "the places where the mask holds",
    "mvlgamma_": "a term for each dimension",
    "polygamma_in_place": "SciPy's array",
    "flat_dropout_": "the mask",
    "flat_feature_dropout_": "the mask, where features are elements",
    "flat_feature_alpha_dropout_": "as of flat_alpha_dropout_, where features are elements",
    "flat_alpha_dropout_": "the mask, and what dropped elements become",
}


def written_over() -> list[tuple[str, object]]:
    """The name and the form that writes of every operation that has one."""
    found = [(e.name, e.in_place) for e in REGISTRY.values() if e.in_place is not None]
    return found + [(e.name, e.function) for e in REGISTRY.values() if getattr(e.function, "writes", False)]


def calls_of(name: str, form) -> list[str]:
    if name in CALLS:
        return [] if CALLS[name] is None else [c.strip() for c in CALLS[name].split("|")]
    if name in PLAIN:
        return [""]
    if isinstance(form, InPlaceOp):
        details = REGISTRY[name].details
        names = details.get("operands", ("input",))[1:]
        return [", ".join("mask" if n in details.get("raw", ()) else "t" for n in names)]
    raise KeyError(
        f"no call of {name}, which writes to its first argument, stands in tests/operations/test_memory_in_place.py"
    )


def of_integers(name: str) -> bool:
    dtypes = REGISTRY[name].dtypes
    return isinstance(dtypes, frozenset) and "float32" not in dtypes


def square(whole: bool) -> flambeau.Tensor:
    return flambeau.randint(1, 9, (SIDE, SIDE)) if whole else flambeau.rand(SIDE, SIDE) * 0.8 + 0.1


def operands(whole: bool) -> dict[str, flambeau.Tensor]:
    flambeau.manual_seed(0)
    t = square(whole)
    rows = flambeau.arange(SIDE)
    return {"t": t, "v": t[0].clone(), "mask": t > 0.5, "rows": rows, "at": rows.repeat(SIDE, 1)}


def extra_bytes(form, text: str, given: dict, whole: bool) -> int:
    x = square(whole)
    before = memory_stats()["allocated_bytes"]
    reset_peak_memory_stats()
    found = eval(f"form(x, {text})" if text else "form(x)", {"form": form, "x": x}, given)
    assert found is x
    return memory_stats()["peak_allocated_bytes"] - before


def test_every_form_in_place_is_counted():
    for name, form in written_over():
        assert name in GEOMETRY or calls_of(name, form) is not None
    assert len(written_over()) > 150
    assert WORKSPACE.keys() <= CALLS.keys()


@pytest.mark.parametrize("name", sorted({n for n, _ in written_over()} - GEOMETRY))
def test_no_second_tensor(name):
    whole = of_integers(name)
    given = operands(whole)
    with flambeau.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of functions that have a newer name
        for form in [f for n, f in written_over() if n == name]:
            for text in calls_of(name, form):
                extra_bytes(
                    form, text, given, whole
                )  # kernels are compiled, and numbers made, at the first call
                found = extra_bytes(form, text, given, whole)
                if name in WORKSPACE:
                    assert found > NOISE, f"{text}: no workspace any more"
                else:
                    assert found <= NOISE, f"{text}: {found / BYTES:.2f} tensors more"


@pytest.mark.parametrize("write", ["x.pow_(2)", "x.pow_(0.7)", "x.clamp_(0.2, 0.7)", "x.remainder_(0.3)", "x.fmod_(t)",
                                   "x.floor_divide_(0.3)", "x.round_(decimals=1)", "x.logit_(0.1)", "x.nan_to_num_()", "x.ldexp_(t)",
                                   "x.div_(t, rounding_mode='floor')", "x.renorm_(2, 0, 0.5)", "x.cumsum_(1)"])  # fmt: skip
def test_gradients_and_versions(write):
    """As of the same operations out of place; a tensor that was saved before is seen to be overwritten."""
    t = flambeau.rand(4, 5, dtype=flambeau.float64) * 0.7 + 0.2
    plain = write.replace("_(", "(", 1)
    results = []
    for text in (plain, write):
        leaf = flambeau.full((4, 5), 0.6, dtype=flambeau.float64).add_(t * 0.1).requires_grad_()
        x = leaf * 1.0
        version = x._version
        y = eval(text, {"x": x, "t": t})
        assert text == plain or (y is x and x._version == version + 1)
        (g,) = flambeau.autograd.grad(
            (y * t).sum(), leaf, allow_unused=True
        )  # of a rounded quotient there is none
        results.append((y.detach(), flambeau.zeros(()) if g is None else g))
    for a, b in zip(*results):
        flambeau.testing.assert_close(a, b, rtol=0, atol=0)
    x = flambeau.full((4, 5), 0.6, dtype=flambeau.float64)
    w = flambeau.ones(4, 5, dtype=flambeau.float64, requires_grad=True)
    product = (w * x).sum()
    eval(write, {"x": x, "t": t})
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


WHOLE = ["pow_(0.5)", "pow_(x / 2)", "clamp_(0.5)", "remainder_(2.5)", "fmod_(2.5)", "floor_divide_(2.5)", "logit_()", "ldexp_(x)",
         "div_(2.0, rounding_mode='floor')", "float_power_(2)", "cumsum_(0, dtype=flambeau.float32)", "mvlgamma_(1)", "polygamma_(1)",
         "nextafter_(x)", "i0_()"]  # fmt: skip


@pytest.mark.parametrize("write", WHOLE)
def test_integers_do_not_hold_the_result(write):
    x = flambeau.tensor([1, 2, 3])
    with pytest.raises((RuntimeError, NotImplementedError), match=write.partition("(")[0].rstrip("_")):
        eval(f"x.{write}", {"x": x, "flambeau": flambeau})
    assert x.tolist() == [1, 2, 3] and x._version == 0


def test_values_written_in_place():
    x = flambeau.tensor([-1.5, 0.25, 2.0])
    assert x.clone().clamp_(-1.0, 1.0).tolist() == [-1.0, 0.25, 1.0]
    assert x.clone().pow_(2).tolist() == [2.25, 0.0625, 4.0]
    y = x.clone()
    y %= 1.0
    assert y.tolist() == [0.5, 0.25, 0.0]
    y = x.clone()
    y //= 0.5
    assert y.tolist() == [-3.0, 0.0, 4.0]
    y = x.clone()
    y **= 3
    assert y.tolist() == [-3.375, 0.015625, 8.0]
    assert math.isnan(x.clone().logit_()[0].item()) and x.clone().round_(decimals=1)[
        1
    ].item() == pytest.approx(0.2)
