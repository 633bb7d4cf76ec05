"""Where results go, over every operation: into the tensor that `out=` gives, over the first operand in place, or refused first."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from samples import Operands, calls, result, tensors_in

import flambeau
from flambeau.cpu import memory_stats, reset_peak_memory_stats
from flambeau.operations.declare.registry import REGISTRY

# Without a dimension there is one result, and `out=` is for two.
OF_TWO = ("median", "nanmedian")


def takes_out(entry) -> bool:
    try:
        return "out" in inspect.signature(entry.function).parameters
    except (AttributeError, TypeError, ValueError):
        return False


CALLS = [
    (entry, text)
    for entry in REGISTRY.values()
    if takes_out(entry)
    for text in (calls(entry) or ())
    if not (entry.name in OF_TWO and "," not in text)
]


def computed(entry, text):
    """The operands of a call, its results, and a function that calls again with `out=`."""
    operands = Operands()
    found = result(entry, text, operands)
    single = isinstance(found, flambeau.Tensor)

    def again(outs):
        out = outs[0] if single else tuple(outs)
        flambeau.manual_seed(0)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?!an output)")
            return tensors_in(
                eval(f"function({text}, out=out)", {"function": entry.function, "out": out}, operands)
            )

    return operands, tensors_in(found), again


def same(a, b) -> bool:
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and np.array_equal(a.numpy(), b.numpy(), equal_nan=a.is_floating_point() or a.is_complex())
    )


def faults(check) -> list[str]:
    """The calls for which a check says what is wrong."""
    found = []
    for entry, text in CALLS:
        wrong = check(entry, text)
        if wrong:
            found.append(f"{entry.name}({text}): {wrong}")
    return found


def test_a_tensor_that_fits_is_written_where_it_lies():
    def check(entry, text):
        _, expected, again = computed(entry, text)
        outs = [flambeau.empty(t.shape, dtype=t.dtype) for t in expected]
        places, versions = [t.data_ptr() for t in outs], [t._version for t in outs]
        found = again(outs)
        if not all(f is t for f, t in zip(found, outs, strict=True)):
            return "another tensor is returned"
        if places != [t.data_ptr() for t in outs]:
            return "it has other memory"
        if any(t._version == v for t, v in zip(outs, versions)):
            return "the write is not counted"
        return "" if all(map(same, expected, outs)) else "it has other elements"

    assert len(CALLS) > 350
    assert faults(check) == []


def test_an_empty_tensor_gets_the_shape():
    def check(entry, text):
        _, expected, again = computed(entry, text)
        outs = [flambeau.empty(0, dtype=t.dtype) for t in expected]
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "an output with")
            again(outs)
        return "" if all(map(same, expected, outs)) else "it has other elements"

    assert faults(check) == []


def test_a_view_is_written_where_it_lies():
    """Every other element of a longer tensor, its dimensions turned around: what lies between stays."""

    def check(entry, text):
        _, expected, again = computed(entry, text)
        rooms = [flambeau.full((*reversed(t.shape), 3), 7).to(t.dtype) for t in expected]
        outs = [r[..., 1].permute(tuple(reversed(range(t.ndim)))) for r, t in zip(rooms, expected)]
        strides = [t.stride() for t in outs]
        again(outs)
        if strides != [t.stride() for t in outs]:
            return "it has other strides"
        for room in rooms:
            around = flambeau.stack([room[..., 0], room[..., 2]])
            if not same(around, flambeau.full_like(around, 7)):
                return "what lies around it was written to"
        return "" if all(map(same, expected, outs)) else "it has other elements"

    assert faults(check) == []


def test_over_an_operand_the_result_is_as_if_copied():
    """Or the call is refused, as PyTorch refuses it, and changes nothing."""

    def check(entry, text):
        probe, expected, _ = computed(entry, text)
        for name, t in list(probe.items()):
            if not isinstance(t, flambeau.Tensor) or len(expected) > 1:
                continue
            if t.shape != expected[0].shape or t.dtype != expected[0].dtype:
                continue
            operands, _, again = computed(entry, text)
            before = operands[name].clone()
            try:
                again([operands[name]])
            except RuntimeError as e:
                if "single memory location" not in str(e):
                    return str(e)
                if not same(before, operands[name]):
                    return f"refused, {name} was changed"
                continue
            if not same(operands[name], expected[0]):
                return f"over {name} it has other elements"
        return ""

    assert faults(check) == []


def refusal(entry, text, make, kinds=(RuntimeError,)) -> str:
    """What is wrong with the refusal of outputs that `make` makes of the results."""
    _, expected, again = computed(entry, text)
    outs = [make(t) for t in expected]
    before = [t.detach().clone() for t in outs]
    try:
        again(outs)
    except kinds as e:
        if entry.function.__name__ not in str(e) and not any(
            p.rpartition(".")[2] in str(e) for p in entry.places
        ):
            return f"the error does not name the operation: {e}"
    else:
        return "it is taken"
    if any(t.shape != b.shape or not (t.is_meta or same(t.detach(), b)) for t, b in zip(outs, before)):
        return "refused, it was changed"
    return ""


def test_a_tensor_on_the_tape_is_refused():
    def check(entry, text):
        _, expected, _ = computed(entry, text)
        if not all(t.is_floating_point() or t.is_complex() for t in expected):
            return ""
        return refusal(entry, text, lambda t: flambeau.zeros(t.shape, dtype=t.dtype).requires_grad_())

    assert faults(check) == []


def test_a_tensor_on_another_device_is_refused():
    assert (
        faults(
            lambda e, text: refusal(e, text, lambda t: flambeau.empty(t.shape, dtype=t.dtype, device="meta"))
        )
        == []
    )


# Their result is computed in the dtype of `out=`.
OF_ITS_DTYPE = ("sum", "prod", "cumsum", "cumprod", "nansum")


def test_a_dtype_that_does_not_hold_the_result_is_refused():
    def check(entry, text):
        _, expected, _ = computed(entry, text)
        if entry.name in OF_ITS_DTYPE or not all(t.is_floating_point() or t.is_complex() for t in expected):
            return ""
        return refusal(
            entry, text, lambda t: flambeau.zeros(t.shape, dtype=flambeau.int32), (RuntimeError, TypeError)
        )

    assert faults(check) == []


def test_expanded_tensors_are_refused():
    """Two results in one place."""

    def check(entry, text):
        _, expected, _ = computed(entry, text)
        if any(t.numel() < 2 for t in expected):
            return ""
        return refusal(entry, text, lambda t: flambeau.zeros((), dtype=t.dtype).expand(t.shape))

    assert faults(check) == []


@pytest.mark.parametrize(
    "call",
    [
        "flambeau.cat([x, x], out=x[:2])",
        "flambeau.cat([x[:0], x], out=x[:0])",
        "flambeau.gather(x, 0, flambeau.tensor([0, 1]), out=x[:1])",
        "flambeau.index_select(x, 0, flambeau.tensor([0, 1]), out=x[:1])",
    ],
)
def test_what_would_reach_into_an_operand_is_refused(call):
    """Also with the shape that it gets."""
    x = flambeau.tensor([1.0, 2.0, 3.0, 4.0])
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="single memory location"):
        warnings.simplefilter("ignore")
        eval(call, {"flambeau": flambeau, "x": x})
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_large_results_are_computed_where_they_belong():
    """No second tensor: of operations whose kernels write with any strides, and of the others where `out=` is contiguous."""
    x = flambeau.rand(256, 256)
    turned, plain, row = flambeau.empty(256, 256).t(), flambeau.empty(256, 256), flambeau.empty(256)
    calls = {
        "add": lambda: flambeau.add(x, x, out=turned),
        "pow": lambda: flambeau.pow(x, 2.5, out=turned),
        "clamp": lambda: flambeau.clamp(x, 0.2, 0.7, out=turned),
        "softmax": lambda: flambeau.softmax(x, 1, out=plain),
        "cumsum": lambda: flambeau.cumsum(x, 1, out=plain),
        "mm": lambda: flambeau.mm(x, x, out=plain),
        "cat": lambda: flambeau.cat([x[:100], x[100:]], out=plain),
        "stack": lambda: flambeau.stack(x.unbind(0), out=plain),
        "sum": lambda: flambeau.sum(x, 1, out=row),
        "round": lambda: flambeau.round(x, decimals=1, out=turned),
        "logit": lambda: flambeau.logit(x, 0.1, out=turned),
        "nan_to_num": lambda: flambeau.nan_to_num(x, out=turned),
        "renorm": lambda: flambeau.renorm(x, 2, 0, 0.5, out=turned),
    }
    more = {}
    for name, call in calls.items():
        call()  # kernels are compiled at the first call
        before = memory_stats()["allocated_bytes"]
        reset_peak_memory_stats()
        call()
        more[name] = memory_stats()["peak_allocated_bytes"] - before
    assert {n: b for n, b in more.items() if b > x.nbytes // 8} == {}
