"""What nodes of the tape have saved, under PyTorch's names: what pictures of graphs show, and debuggers read."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau

sys.path.insert(0, str(Path(__file__).parent.parent / "operations"))

from samples import ALL, Operands, run

F = flambeau.nn.functional
TABLE = dict(
    line.rstrip("\n").split(" | ")
    for line in Path(__file__).with_name("saved_names.txt").read_text().splitlines()
)


def saved(node) -> dict:
    return {n.removeprefix("_saved_"): getattr(node, n) for n in dir(node) if n.startswith("_saved_")}


def nodes(results):
    """The nodes of results, and those behind them."""
    waiting, seen = [t.grad_fn for t in results if t.grad_fn is not None], set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        waiting += [n for n, _ in node.next_functions if n is not None]


def test_all_calls_whose_names_agreed():
    """The table is PyTorch's answer, written by tools/grad_fn_names.py --saved."""
    lost = {}
    seen = set()
    for entry, text in ALL:
        for place in entry.places:
            call = f"{place}({text})"
            if call in TABLE:
                first = run(entry, text, Operands(grad=True))[0]
                names = set(TABLE[call].split()) - saved(first.grad_fn).keys()
                seen.add(call)
                if names:
                    lost[call] = names
    assert seen == TABLE.keys() and not lost


def test_every_node_tells_what_it_has_and_that_it_is_gone():
    """Of every operation: values are read, tensors among them are those of the call, and after backward they are no more."""
    read = 0
    for entry, text in ALL:
        if not entry.differentiable:
            continue
        operands = Operands(grad=True)
        results = [t for t in run(entry, text, operands) if t.requires_grad]
        if not results:
            continue
        with flambeau.no_grad():
            before = [(node, saved(node)) for node in nodes(results)]
        for _, values in before:
            assert all(n.isidentifier() for n in values), (entry.name, values)
            read += len(values)
        result = results[0]
        own = saved(result.grad_fn).get("result")
        if isinstance(own, flambeau.Tensor) and own.shape == result.shape and not result._is_view():
            np.testing.assert_array_equal(own.detach(), result.detach(), f"{entry.name}({text})")
        total = sum((t.real + t.imag if t.is_complex() else t).sum() for t in results)
        try:
            total.backward()
        except (NotImplementedError, RuntimeError):
            continue
        for node, values in before:
            for name, value in values.items():
                raw = getattr(node, f"_raw_saved_{name}", None)
                if isinstance(value, flambeau.Tensor) and raw is not None and len(node.next_functions):
                    with pytest.raises(RuntimeError, match="a second time|modified by an inplace"):
                        getattr(node, f"_saved_{name}")
    assert read > 1000


def test_values_that_programs_read():
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    assert flambeau.equal(y.grad_fn._saved_result, y) and y.grad_fn._saved_result.grad_fn is y.grad_fn
    three = (x * 3).grad_fn
    assert three._saved_other.tolist() == 3 and three._saved_self is None
    square = x.pow(2).grad_fn
    assert square._saved_exponent == 2 and square._saved_self is x
    product = (x * y).grad_fn
    assert product._saved_self is x and flambeau.equal(product._saved_other, y)
    row = y.softmax(0).grad_fn
    assert row._saved_dim == 0 and row._saved_result.shape == (2,)
    assert x[None].sum(0).grad_fn._saved_dim == (0,) and tuple(x.sum().grad_fn._saved_self_sym_sizes) == (2,)
    m = x[None].mm(x[:, None]).grad_fn
    assert m._saved_self.shape == (1, 2) and m._saved_mat2.shape == (2, 1)
    normed = F.layer_norm(x, (2,), flambeau.ones(2)).grad_fn
    assert normed._saved_input is x and normed._saved_weight.tolist() == [1.0, 1.0]
    with pytest.raises(AttributeError, match="'ExpBackward0' object has no attribute '_saved_self'"):
        y.grad_fn._saved_self  # noqa: B018
    assert "_saved_result" in dir(y.grad_fn) and not hasattr(y.grad_fn, "_raw_saved_dim")


def test_after_backward():
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    s = (y * 3).softmax(0)
    kept = s.grad_fn
    s[0].backward()
    for read in (
        lambda: y.grad_fn._saved_result,
        lambda: kept._saved_result,
        lambda: kept.next_functions[0][0]._saved_other,
    ):
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            read()
    assert kept._saved_dim == 0
    y = x.exp()
    y.sum().backward(retain_graph=True)
    assert y.grad_fn._saved_result.shape == (2,)


def test_overwritten():
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    node = y.grad_fn
    with flambeau.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        node._saved_result  # noqa: B018


@pytest.mark.parametrize(
    "call",
    (
        lambda x: (x.exp(), "result"),
        lambda x: (x.pow(3), "self"),
        lambda x: (x.softmax(0), "result"),
        lambda x: (x.outer(x) @ x, "self"),
        lambda x: (x.cumprod(0), "self"),
    ),
)
def test_hooks_on_single_saved_tensors(call):
    x = flambeau.tensor([0.5, 1.5, 2.0], dtype=flambeau.float64, requires_grad=True)
    result, _ = call(x)
    (expected,) = flambeau.autograd.grad(result[1], x)
    result, name = call(x)
    raw = getattr(result.grad_fn, f"_raw_saved_{name}")
    calls = []
    raw.register_hooks(
        lambda t: calls.append("pack") or t.numpy().copy(),
        lambda a: calls.append("unpack") or flambeau.tensor(a),
    )
    assert calls == ["pack"]
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        raw.register_hooks(lambda t: t, lambda t: t)
    (found,) = flambeau.autograd.grad(result[1], x)
    assert calls[:2] == ["pack", "unpack"]
    np.testing.assert_allclose(found.numpy(), expected.numpy())
    with pytest.raises(RuntimeError, match="after it has been freed"):
        raw.register_hooks(lambda t: t, lambda t: t)


def test_hooks_on_what_a_function_has_saved():
    class Cube(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(None, x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return grad * 3 * ctx.saved_tensors[1] ** 2

    x = flambeau.tensor([2.0], requires_grad=True)
    y = Cube.apply(x)
    nothing, raw = y.grad_fn._raw_saved_tensors
    with pytest.raises(RuntimeError, match="value None is forbidden"):
        nothing.register_hooks(lambda t: t, lambda t: t)
    raw.register_hooks(lambda t: t.tolist(), lambda values: flambeau.tensor(values) + 1)
    y.backward()
    assert x.grad.tolist() == [27.0]


def test_hooks_on_what_was_not_saved():
    x = flambeau.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="value None is forbidden"):
        (x * 3).grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
