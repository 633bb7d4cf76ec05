"""Every operation on tensors without data (device "meta"): shapes, dtypes and strides are those of the CPU's results.

Over the registry's sample calls, for contiguous, transposed, sliced, expanded and channels-last operands, recorded and not; gradients, too.
"""

from __future__ import annotations

import pytest
from flambeau.core.base.memory import memory_stats
from samples import ALL, LAYOUTS, Operands, run, tensors_in

import flambeau

# What has no answer without elements; PyTorch refuses the same calls.
REFUSED = {
    "nonzero": NotImplementedError,  # how many elements are not zero decides the shape
    "argwhere": NotImplementedError,
    "masked_select": NotImplementedError,
    "unique": NotImplementedError,
    "unique_consecutive": NotImplementedError,
    "bincount": NotImplementedError,
    "repeat_interleave": NotImplementedError,  # the sum of the numbers does, unless it is given as output_size
    "equal": NotImplementedError,  # the answer is Python's, not a tensor
    "allclose": RuntimeError,
}
OF_LISTS = frozenset(
    ("ctc_loss", "flat_ctc_loss")
)  # lengths given as Python's numbers become a tensor on the host first
OF_NO_TENSOR = frozenset(("fftfreq", "rfftfreq", "fft.fftfreq", "fft.rfftfreq"))


class WithoutData(Operands):
    """The same operands on "meta"."""

    def floats(self, name):
        return super().floats(name).to("meta")

    def make(self, name):
        return super().make(name).to("meta")


def described(results):
    return [
        (tuple(t.shape), t.dtype, t.stride() if t.numel() > 1 else None, t.requires_grad) for t in results
    ]


@pytest.mark.parametrize("layout", [*LAYOUTS, "last", "expanded"])
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "unrecorded"])
def test_results_are_described_as_on_the_cpu(layout, recorded):
    wrong, refused = [], set()
    for entry, text in ALL:
        with flambeau.set_grad_enabled(recorded):
            try:
                expected = run(entry, text, Operands(layout, grad=recorded))
            except RuntimeError:
                if layout != "expanded":
                    raise
                continue  # written to, or singular
            try:
                found = run(entry, text, WithoutData(layout, grad=recorded))
            except REFUSED.get(entry.name, ()) as error:
                assert "meta" in str(error)
                refused.add(entry.name)
                continue
            except Exception as error:
                wrong.append(f"{entry.name}({text}): {error!r}")
                continue
        if not all(t.is_meta for t in found) and entry.name not in OF_NO_TENSOR:
            wrong.append(f"{entry.name}({text}): a result is on {[str(t.device) for t in found]}")
        if described(found) != described(expected):
            wrong.append(f"{entry.name}({text}): {described(found)} is not {described(expected)}")
    assert not wrong, "\n".join(wrong)
    assert refused == set(REFUSED) or layout == "expanded", "what is no longer refused leaves the list"


def gradients(results, leaves, order):
    """Of the sum of the results, or of the sum of the squares of those: for each leaf a gradient or None."""
    roots = [t for t in results if t.requires_grad]
    if not roots:
        return None
    ones = [flambeau.ones_like(t) for t in roots]
    found = flambeau.autograd.grad(roots, leaves, ones, allow_unused=True, create_graph=order > 1)
    if order == 1:
        return found
    return gradients([(g * g).sum() for g in found if g is not None], leaves, order - 1)


@pytest.mark.parametrize("order", [1, 2])
def test_gradients_are_described_as_on_the_cpu(order):
    wrong, tried = [], 0
    for entry, text in ALL:
        if entry.name in REFUSED:
            continue
        seen = []
        for kind in (Operands, WithoutData):
            operands = kind(grad=True)
            try:
                found = gradients(run(entry, text, operands), operands.leaves, order)
            except Exception as error:
                seen.append(repr(error).replace("meta", "cpu"))
            else:
                seen.append(found and [g if g is None else (g.shape, g.dtype) for g in found])
        tried += seen[0] is not None
        if seen[0] != seen[1]:
            wrong.append(f"{entry.name}({text}): {seen[1]} is not {seen[0]}")
    assert not wrong, "\n".join(wrong)
    assert tried > 300


def test_nothing_is_allocated():
    """Sample operands are made first; what an operation then asks of the host's allocator is counted."""
    wrong = []
    for entry, text in ALL:
        if entry.name in REFUSED:
            continue
        operands = WithoutData()
        run(entry, text, operands)  # makes the operands, and constants that are kept
        flambeau.core.base.memory.reset_peak_memory_stats()
        before = memory_stats()["allocated_bytes"]
        results = run(entry, text, operands)
        grown = memory_stats()["peak_allocated_bytes"] - before
        assert tensors_in(results) == results
        if grown > 0 and entry.name not in OF_NO_TENSOR | OF_LISTS:
            wrong.append(f"{entry.name}({text}): {grown} bytes")
    assert not wrong, "\n".join(wrong)


def test_the_cpu_is_not_disturbed_by_a_default_device():
    """Inside `with device("meta")`, operations on tensors of the CPU compute what they compute outside."""
    wrong = []
    for entry, text in ALL:
        if entry.name in OF_NO_TENSOR:
            continue
        operands = Operands()
        expected = run(entry, text, operands)
        given = Operands()
        given.update({name: operands.make(name) for name in operands})
        try:
            with flambeau.device("meta"):
                found = run(entry, text, given)
        except Exception as error:
            wrong.append(f"{entry.name}({text}): {error!r}")
            continue
        if any(t.is_meta for t in found) or described(found) != described(expected):
            wrong.append(f"{entry.name}({text}): {found} is not {expected}")
    assert not wrong, "\n".join(wrong)
