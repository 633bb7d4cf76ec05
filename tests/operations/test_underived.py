"""Nobody gets a result without its gradient in silence: over the registry and over what programs declare."""

from __future__ import annotations

import pytest
from samples import ALL, Operands, run

import flambeau
from flambeau import kernels
from flambeau.codegen import kernels as kn
from flambeau.operations.declare.registry import REGISTRY
from flambeau.operations.declare.rows import reduction, row

# Results of floating-point operands that carry no gradient, as PyTorch's; none of them is a function with one.
WITHOUT = {
    "detach": "what it is for",
    "histc": "counts",
    "lu": "exchanges of rows",
    "lu_unpack": "exchanges of rows",
    "lstsq": "singular values, and residuals where there are none",
    "masked.argmax": "places",
    "masked.argmin": "places",
    "native_layer_norm": "moments, which are kept for backward",
    "native_group_norm": "moments",
    "native_batch_norm": "moments",
}


def smooth(t):
    return t.is_floating_point() or t.is_complex()


def test_every_result_has_a_gradient_or_says_that_it_has_none():
    silent, refused = [], set()
    for entry, text in ALL:
        operands = Operands(grad=True)
        found = [t for t in run(entry, text, operands) if smooth(t)]
        given = [x for x in operands.values() if isinstance(x, flambeau.Tensor) and x.requires_grad]
        if not given or ".detach()" in text:
            continue
        if not all(t.requires_grad for t in found) and entry.name not in WITHOUT:
            silent.append(f"{entry.name}({text})")
        for t in found:
            if t.requires_grad:
                try:
                    flambeau.autograd.grad(
                        t, given, flambeau.ones_like(t), allow_unused=True, retain_graph=True
                    )
                except NotImplementedError as error:
                    assert entry.name.removeprefix("histogram") in str(error) or "histogram" in str(error)
                    assert "derivative" in str(error)
                    refused.add(entry.name)
    assert not silent, "\n".join(silent)
    assert refused >= {"unique", "unique_consecutive", "histogram", "histogramdd", "geqrf"}


def test_weights_of_counts():
    weights = flambeau.ones(2, requires_grad=True)
    found = flambeau.bincount(flambeau.tensor([0, 1]), weights)
    with pytest.raises(NotImplementedError, match="bincount"):
        found.sum().backward()
    assert not flambeau.bincount(flambeau.tensor([0, 1])).requires_grad


def declared(kind, name, body):
    try:
        return kind(name=name, places=())(body)
    finally:
        REGISTRY.pop(name, None)


@pytest.mark.parametrize("kind", [row, reduction])
def test_a_row_without_a_derivative_says_so(kind):
    def body(input):
        total = kn.sum(input * input)
        return input * total if kind is row else total

    op = declared(kind, f"bare_{kind.__name__}", body)
    x = flambeau.randn(2, 3, requires_grad=True)
    found = op(x, 1)
    assert found.requires_grad
    with pytest.raises(
        NotImplementedError, match=f"derivative for 'bare_{kind.__name__}' is not implemented"
    ):
        found.sum().backward()
    with pytest.raises(NotImplementedError, match=f"bare_{kind.__name__}"):
        flambeau.func.jvp(lambda x: op(x, 1), (x.detach(),), (flambeau.ones(2, 3),))
    with flambeau.no_grad():
        assert not op(x, 1).requires_grad

    @op.derivative
    def _(grad):
        return (grad.sum() * flambeau.ones(2, 3),)

    op(x, 1).sum().backward()
    assert x.grad.shape == x.shape


def user_kernels():
    yield kernels.pointwise(lambda x: x * x, name="squares"), lambda op, x: op(x)
    yield kernels.row(lambda x: x * kernels.sum(x), name="shares"), lambda op, x: op(x, 1)
    yield kernels.reduction(lambda x: kernels.sum(x * x), name="energy"), lambda op, x: op(x, 1)
    yield kernels.scan(lambda x: kernels.running_sum(x), name="sums"), lambda op, x: op(x, 1)
    yield kernels.indexed(lambda at, x: x[at] * 2, name="twice"), lambda op, x: op(x)


@pytest.mark.parametrize("number", range(5))
def test_kernels_of_programs_derive_themselves_or_raise(number):
    op, call = list(user_kernels())[number]
    x = flambeau.randn(2, 3, requires_grad=True)
    found = call(op, x)
    assert found.requires_grad
    try:
        found.sum().backward()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        assert op.name in str(error)  # noqa: PT017
    else:
        assert x.grad is not None and x.grad.abs().sum() > 0
