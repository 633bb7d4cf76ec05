"""Control flow as functions, and what programs ask of a compiler."""

from __future__ import annotations

import importlib

import pytest

import flambeau
from flambeau import compiler
from flambeau._higher_order_ops import associative_scan, cond, scan, while_loop
from flambeau._higher_order_ops import map as mapped


def test_cond_runs_one_branch_on_the_tape():
    x = flambeau.tensor([1.0, -2.0], requires_grad=True)
    ran = []
    for pred in (True, False, 1, 0.0, flambeau.tensor(True), flambeau.tensor([False]), x.sum() > 0):
        out = cond(pred, lambda x: ran.append(True) or x * 2, lambda x: ran.append(False) or x * 3, (x,))
        assert ran.pop() is bool(pred) and not ran
        (grad,) = flambeau.autograd.grad(out.sum(), x)
        assert grad.tolist() == ([2.0, 2.0] if pred else [3.0, 3.0])
    assert flambeau.cond is cond and cond(True, lambda: 1, lambda: 2) == 1
    assert cond(False, lambda d: d["a"], lambda d: d["b"][0], [{"a": x, "b": (x * 4,)}])[0] == 4.0


@pytest.mark.parametrize(
    "call",
    [
        lambda x: cond(x, lambda x: x, lambda x: x, (x,)),
        lambda x: cond("yes", lambda x: x, lambda x: x, (x,)),
        lambda x: cond(True, None, lambda x: x, (x,)),
        lambda x: cond(True, lambda x: x, lambda x: x, x),
        lambda x: cond(True, lambda x: x, lambda x: x, ("text",)),
        lambda x: while_loop(lambda x: x, lambda x: x, (x,)),
        lambda x: while_loop(lambda x: x.sum() < 9, lambda x: (x, x), (x,)),
        lambda x: while_loop(lambda x: x.sum() < 9, lambda x: x[:1] + 1, (x,)),
        lambda x: while_loop(lambda x: x.sum() < 9, lambda x: x.double(), (x,)),
        lambda x: mapped(lambda x: x, flambeau.ones(0, 2)),
        lambda x: mapped(lambda x: x, flambeau.tensor(1.0)),
        lambda x: mapped(lambda x: x, [flambeau.ones(2), flambeau.ones(3)]),
        lambda x: mapped(lambda x: x, []),
        lambda x: mapped(lambda y: y.expand(int(y) + 1), flambeau.tensor([1.0, 2.0])),
        lambda x: scan(lambda c, y: c, x, x),
        lambda x: scan(lambda c, y: (c.sum(), y), x, x),
        lambda x: scan(lambda c, y: (c, y), "text", x),
        lambda x: associative_scan(lambda a, b: (a, b), x, 0),
        lambda x: associative_scan(lambda a, b: a, x, 3),
    ],
)
def test_what_does_not_fit_is_a_runtime_error(call):
    with pytest.raises(RuntimeError, match=r"^(cond|while_loop|map|scan|associative_scan)\(\): "):
        call(flambeau.tensor([1.0, 2.0]))


def test_while_loop_carries_trees_and_gradients():
    x = flambeau.tensor(2.0, requires_grad=True)
    n, found = while_loop(lambda n, s: n < 3, lambda n, s: (n + 1, {"x": s["x"] * x}), (0, {"x": x * 1}))
    found["x"].backward()
    assert n == 3 and x.grad == 4 * 2.0**3
    assert while_loop(lambda x: False, None or (lambda x: x), (x,)) == (x,)
    with pytest.raises(RuntimeError, match="callable"):
        while_loop(lambda x: False, None, (x,))


def test_map_and_scan_are_loops():
    xs = {"a": flambeau.randn(4, 3, requires_grad=True), "b": (flambeau.randn(4),)}
    found = mapped(lambda t, k: (t["a"] * t["b"][0], t["b"][0] + k), xs, 5.0)
    assert flambeau.equal(found[0], xs["a"] * xs["b"][0].unsqueeze(1)) and flambeau.equal(
        found[1], xs["b"][0] + 5
    )
    x = flambeau.randn(3, 5, dtype=flambeau.float64, requires_grad=True)
    start = flambeau.zeros(3, dtype=flambeau.float64)
    carry, sums = scan(lambda c, y: (c + y, c + y), start, x, dim=1)
    assert flambeau.allclose(carry, x.sum(1)) and flambeau.allclose(sums, x.cumsum(1).T)
    _, sums = scan(lambda c, y: (c + y, c + y), start, x, dim=1, reverse=True)
    assert flambeau.allclose(sums, x.flip(1).cumsum(1).flip(1).T)
    assert flambeau.autograd.gradcheck(lambda x: scan(lambda c, y: (c * y + 1, c), start, x, dim=-1), (x,))


@pytest.mark.parametrize("mode", ["pointwise", "generic"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13])
def test_associative_scan(n, reverse, mode):
    def affine(f, g):  # x -> a x + b, one after the other
        return f[0] * g[0], f[1] * g[0] + g[1]

    a, b = flambeau.randn(2, n, 3, dtype=flambeau.float64), flambeau.randn(2, n, 3, dtype=flambeau.float64)
    found = associative_scan(affine, (a, b), 1, reverse, mode)
    order = range(n)[::-1] if reverse else range(n)
    state = None
    for k in order:
        state = (a[:, k], b[:, k]) if state is None else affine(state, (a[:, k], b[:, k]))
        assert all(flambeau.allclose(x[:, k], y) for x, y in zip(found, state, strict=True))
    with pytest.raises(ValueError, match="combine_mode"):
        associative_scan(affine, (a, b), 1, combine_mode="fast")


def test_pointwise_scans_call_their_function_seldom():
    calls = []
    associative_scan(lambda a, b: calls.append(1) or a + b, flambeau.ones(1000), 0)
    assert len(calls) <= 2 * 10


def test_what_programs_say_to_the_compiler():
    assert not compiler.is_compiling() and not compiler.is_exporting()
    assert compiler.list_backends() == ["cudagraphs", "inductor"]

    @compiler.disable(reason="reads a file")
    def f(x):
        return x + 1

    class C:
        pass

    assert f(1) == 2 and compiler.disable(C) is C and compiler.allow_in_graph([len, f]) == [len, f]
    for wrong in (compiler.disable, compiler.allow_in_graph, compiler.assume_constant_result):
        with pytest.raises(TypeError, match="int"):
            wrong(3)


def test_sizes_are_numbers():
    for kind in (flambeau.SymInt, flambeau.SymFloat, flambeau.SymBool):
        assert not isinstance(flambeau.ones(2).shape[0], kind)
        with pytest.raises(TypeError):
            kind(3)
    assert flambeau.sym_max(1, 2) == 2 and isinstance(flambeau.sym_max(2, 1.0), float)
    assert (
        isinstance(flambeau.sym_min(1, 2.0), float)
        and flambeau.sym_sum(
            [1, 2],
        )
        == 3
    )
    with pytest.raises(TypeError):
        flambeau.sym_max("a", 1)
    with pytest.raises(TypeError):
        flambeau.sym_ite(True, 1, 2.0)


def test_questions_about_devices_that_are_not_here():
    x = flambeau.ones(2)
    for kind in ("ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu", "mkldnn"):
        assert getattr(x, f"is_{kind}") is False
    assert not flambeau.is_distributed(x) and not flambeau.is_conj(x) and not flambeau.is_neg(x)
    with flambeau.inference_mode():
        assert flambeau.is_inference(x + 1) and not flambeau.is_inference(x)


def test_each_function_has_a_module_of_its_name():
    for name in ("associative_scan", "cond", "map", "scan", "while_loop"):
        module = importlib.import_module(f"flambeau._higher_order_ops.{name}")
        assert getattr(module, name) is getattr(flambeau._higher_order_ops, name)
