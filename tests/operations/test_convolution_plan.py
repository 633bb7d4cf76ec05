"""Plans of convolutions: eager's bits for any tensors of a geometry, epilogues of any expression, filters laid out once."""

import numpy as np
import pytest

import flambeau as fb
from flambeau.codegen import functions as fn
from flambeau.codegen.tiles.epilogues import traced
from flambeau.operations.neural.convolution_plan import ConvolutionPlan

F = fb.nn.functional
# (input, weight, stride, padding, dilation), and the way that it goes in float32 and float64
CASES = {
    "winograd": ((2, 32, 20, 20), (32, 32, 3, 3), 1, 1, 1),
    "direct": ((2, 16, 15, 13), (48, 16, 5, 5), 2, 2, 1),
    "direct, few": ((1, 3, 9, 11), (5, 3, 3, 2), 1, 0, 2),
    "planes": ((1, 40, 28, 28), (70, 40, 1, 1), 1, 0, 1),
    "planes, joined": ((8, 64, 9, 9), (90, 64, 1, 1), 1, 0, 1),
    "one row": ((4, 8, 1, 30), (24, 8, 1, 3), 1, (0, 1), 1),
}
LAYOUTS = {"pixels": fb.contiguous_format, "channels": fb.channels_last}


def given(case, layout, dtype="float32"):
    shape, weight, stride, padding, dilation = CASES[case]
    rng = np.random.default_rng(len(case))
    x, w = (fb.tensor(rng.standard_normal(s).astype(dtype)) for s in (shape, weight))
    terms = [fb.tensor(rng.standard_normal(weight[0]).astype(dtype)) for _ in range(2)]
    x = x.contiguous(memory_format=LAYOUTS[layout])
    return x, w, terms, {"stride": stride, "padding": padding, "dilation": dilation}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_a_plan_has_eagers_bits_on_other_tensors(case, layout, dtype):
    x, w, (bias, _), how = given(case, layout, dtype)
    plan, plus = ConvolutionPlan(x, w, **how), ConvolutionPlan(x, w, bias, **how)
    laid = ConvolutionPlan(x, w, bias, laid=True, **how)
    for _ in range(2):
        want = F.conv2d(x, w, bias, **how)
        assert fb.equal(plan(x, w), F.conv2d(x, w, **how)) and fb.equal(plus(x, w, bias), want)
        assert fb.equal(laid(x, laid.lay(w), bias), want)
        assert plus(x, w, bias).stride() == want.stride()
        x, w, bias = x.flip(2).contiguous(memory_format=LAYOUTS[layout]), w.flip(0), bias.flip(0)


def test_the_cases_go_the_ways_they_are_named_for():
    ways = {
        case: ConvolutionPlan(x, w, **how).way for case in CASES for x, w, _, how in [given(case, "pixels")]
    }
    assert {way.split()[0] for way in ways.values()} == {"winograd", "direct", "planes"}
    assert all(way.startswith(case.split(",")[0]) for case, way in ways.items() if case != "one row")


EPILOGUES = {
    "relu": (0, lambda s: fn.maximum(s, fn.like(s, 0.0)), lambda s: F.relu(s)),
    "bias, silu": (1, lambda s, b: (s + b) * fn.sigmoid(s + b), lambda s, b: F.silu(s + b)),
    "scale, shift, gelu": (
        2,
        lambda s, f, b: (s * f + b) * 0.5 * (1.0 + fn.erf((s * f + b) * 0.5**0.5)),
        lambda s, f, b: F.gelu(s * f + b),
    ),
}


def planned(name, x, w, terms, how, laid=False):
    count, body, eager = EPILOGUES[name]
    epilogue = traced(body, x.dtype.name, ("columns",) * count)
    plan = ConvolutionPlan(x, w, *terms[:count], epilogue=epilogue, laid=laid, **how)
    sums = F.conv2d(x.double(), w.double(), **how)
    return plan, eager(sums, *(t.double()[:, None, None] for t in terms[:count]))


@pytest.mark.parametrize("laid", [False, True])
@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_epilogues(case, layout, name, laid):
    for dtype, limit in (("float32", 2e-4), ("float64", 1e-12)):
        x, w, terms, how = given(case, layout, dtype)
        plan, want = planned(name, x, w, terms, how, laid)
        terms = terms[: plan.count]
        weight = plan.lay(w) if laid else w
        before, found = fb.get_num_threads(), []
        try:
            for threads in (1, 2):
                fb.set_num_threads(threads)
                found.append(plan(x, weight, *terms))
        finally:
            fb.set_num_threads(before)
        assert fb.equal(*found)
        np.testing.assert_allclose(found[0].double().numpy(), want.numpy(), rtol=limit, atol=limit)


@pytest.mark.parametrize("case", ["direct", "planes", "planes, joined"])
def test_nan_and_infinity(case):
    x, w, (bias, _), how = given(case, "pixels")
    x[0, 1, 3, 4], bias[2], bias[3] = float("nan"), float("inf"), float("-inf")
    epilogue = traced(lambda s, b: fn.maximum(s + b, fn.like(s, 0.0)), "float32", ("columns",))
    found, want = (
        ConvolutionPlan(x, w, bias, epilogue=epilogue, **how)(x, w, bias),
        F.relu(F.conv2d(x, w, bias, **how)),
    )
    assert fb.equal(found.isnan(), want.isnan()) and fb.equal(found.isinf(), want.isinf())


def test_plans_compare_and_print():
    x, w, (bias, _), how = given("planes", "pixels")
    plan = ConvolutionPlan(x, w, bias, **how)
    assert plan == ConvolutionPlan(x + 1, w + 1, bias, **how) and hash(plan) == hash(
        ConvolutionPlan(x, w, bias, **how)
    )
    assert plan != ConvolutionPlan(x, w, **how)
    assert (
        repr(plan)
        == "ConvolutionPlan(flambeau.float32 (1, 40, 28, 28) * (70, 40, 1, 1), operands 1, by planes)"
    )


def test_no_images():
    x, w = fb.zeros(0, 3, 8, 8), fb.zeros(4, 3, 3, 3)
    with pytest.raises(NotImplementedError, match="by 'grid'"):
        ConvolutionPlan(x, w)


SUM = traced(lambda s: s, "float32")


@pytest.mark.parametrize(
    "make, error, message",
    [
        (
            lambda x, w: ConvolutionPlan(x, w[:, :2]),
            RuntimeError,
            r"got \[1, 40, 28, 28\] and \[70, 2, 1, 1\]",
        ),
        (
            lambda x, w: ConvolutionPlan(x, w.double()),
            TypeError,
            "one dtype; got flambeau.float32 and flambeau.float64",
        ),
        (lambda x, w: ConvolutionPlan(x.to("meta"), w), NotImplementedError, "on the host; got one on meta"),
        (lambda x, w: ConvolutionPlan(x, w, w, w), ValueError, "takes 1 operands and no numbers; got 2"),
        (lambda x, w: ConvolutionPlan(x, w, w), ValueError, r"operand 0 has shape \[70\]"),
        (
            lambda x, w: ConvolutionPlan(x.double(), w.double(), epilogue=SUM),
            TypeError,
            "an epilogue of float64",
        ),
        (lambda x, w: ConvolutionPlan(x.half(), w.half()), NotImplementedError, "of float16"),
        (lambda x, w: ConvolutionPlan(x, w)(x[:, :, 1:], w), ValueError, r"x has shape \[1, 40, 28, 28\]"),
        (lambda x, w: ConvolutionPlan(x, w)(x, w[1:]), ValueError, r"weight has shape \[70, 40, 1, 1\]"),
        (lambda x, w: ConvolutionPlan(x, w)(x, w, w), ValueError, "0 operands; got 1"),
        (lambda x, w: ConvolutionPlan(x, w).lay(w), ValueError, "laid=True"),
        (lambda x, w: ConvolutionPlan(x, w, laid=True)(x, w[1:]), ValueError, "what `lay` has returned"),
    ],
)
def test_what_does_not_fit(make, error, message):
    x, w, _, _ = given("planes", "pixels")
    with pytest.raises(error, match=message):
        make(x, w)
