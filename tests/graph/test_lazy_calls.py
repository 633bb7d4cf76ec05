"""Lazy calls: results, gradients, writes and errors are those of eager calls, whatever looks at them, and repeated segments are planned."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import threading
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest
from random_programs import lazy_difference

import flambeau
from flambeau import lazy, nn
from flambeau.graph import segment
from flambeau.operations.declare.registry import REGISTRY

sys.path.insert(0, str(Path(__file__).parent.parent / "operations"))

import samples


@pytest.fixture(autouse=True)
def eager_is_usable_after_each():
    segment.forget()
    yield
    assert not lazy.is_enabled()
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


def waits(t):
    """Whether a tensor is not computed yet; without having it computed."""
    return segment.is_waiting(t)


def test_nothing_is_computed_before_it_is_looked_at():
    x = flambeau.tensor([1.0, 2.0])
    with lazy():
        y = (x + 1).sum()
        assert waits(y) and y.shape == () and y.dtype == flambeau.float32 and y.device.type == "cpu"
        assert y.item() == 5 and not waits(y)


@pytest.mark.parametrize(
    "look",
    [
        lambda t: t.item(),
        lambda t: t.tolist(),
        lambda t: float(t),
        lambda t: int(t),
        lambda t: bool(t),
        lambda t: str(t),
        lambda t: t.numpy(),
        lambda t: np.asarray(t),
        lambda t: memoryview(t.reshape(1)),
        lambda t: t.data_ptr(),
        lambda t: t.untyped_storage(),
        lambda t: np.from_dlpack(t),
        lambda t: pickle.dumps(t),
        lambda t: t.is_nonzero(),
        lambda t: flambeau.equal(t, t),
        lambda t: t.view(1).nonzero(),
        lambda t: f"{t:.3f}",
        lambda t: t.share_memory_(),
        lambda t: flambeau.rand(1).uniform_(0, t.item()),
        lambda t: t.clone().resize_(3),
        lambda t: hash(t.data_ptr()),
    ],
)
def test_whatever_looks_at_elements_computes_them(look):
    x = flambeau.full((), 2.0)
    with lazy():
        y = x * 3
        assert waits(y)
        look(y)
        assert not waits(y) or y.item() == 6
    assert y.item() == 6


def test_the_end_of_the_context_computes_what_waits():
    with lazy():
        y = flambeau.ones(3) + 1
        assert waits(y)
    assert not waits(y) and y.tolist() == [2, 2, 2]


def test_what_nobody_has_any_more_is_not_computed():
    x = flambeau.ones(4)
    for _ in range(2):
        with lazy():
            y = (x.exp() + 1).sqrt()
            flambeau.stack([x, x]).sin()
    assert y.tolist() == pytest.approx([np.sqrt(np.e + 1)] * 4)


def test_repeated_segments_are_planned_once():
    x = flambeau.linspace(-1, 1, 24).reshape(4, 6)
    expected = (x.tanh() * 2 + 1).sum(1)
    with lazy():
        for _ in range(5):
            np.testing.assert_allclose((x.tanh() * 2 + 1).sum(1).numpy(), expected.numpy(), rtol=1e-6)
    assert segment.segments_seen() == 1


def test_numbers_that_change_are_read_at_each_call():
    x = flambeau.linspace(1, 2, 8)
    with lazy():
        for k in range(20):
            scale = 0.5 + k / 7
            np.testing.assert_allclose((x * scale + scale).numpy(), x.numpy() * scale + scale, rtol=1e-6)
    assert segment.segments_seen() == 1


def test_signed_zeros_nan_and_kinds_of_numbers_are_told_apart():
    x = flambeau.tensor([1, -1])
    with lazy():
        for number in (1, 1.0, True, 0.0, -0.0, float("nan"), 2**40, 1, 0.0, -0.0):
            found = flambeau.div(x * number, 1)
            waits(found)
            seen = found.numpy(), found.dtype
            with lazy(False):
                expected = flambeau.div(x * number, 1)
            assert seen[1] == expected.dtype
            np.testing.assert_array_equal(seen[0], expected.numpy())
            np.testing.assert_array_equal(np.signbit(seen[0]), np.signbit(expected.numpy()))


def test_numbers_where_no_plan_reads_them():
    x = flambeau.linspace(1, 2, 8)
    with lazy():
        for k in range(12):
            y = x.logsumexp(0) + x.clone().fill_(k / 3)
            np.testing.assert_allclose(
                y.numpy(), np.log(np.exp(x.numpy()).sum()) + np.float32(k / 3), rtol=1e-5
            )


def test_writes_to_what_was_there_before():
    x = flambeau.zeros(3)
    seen = x.numpy()
    with lazy():
        for k in range(4):
            before = x * 2
            x.add_(1)
            x[1:].mul_(2)
            after = x + 0
            assert waits(x)
            expected = [k, [0, 2, 6, 14][k], [0, 2, 6, 14][k]]
            assert before.tolist() == [2 * v for v in expected]
            assert after[0].item() == k + 1
    assert x.tolist() == [4, 30, 30] and seen.tolist() == [4, 30, 30]


def test_writes_count_once_for_the_tape():
    w = flambeau.ones(3, requires_grad=True)
    with lazy():
        for _ in range(3):
            loss = (w * w).sum()
            loss.backward()
            with flambeau.no_grad():
                w.sub_(0.25 * w.grad)
            w.grad = None
        assert w.tolist() == [0.125] * 3
        loss = (w * w).sum()
        with flambeau.no_grad():
            w.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def make_network():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.25), nn.Linear(8, 3))


OPTIMIZERS = {
    "sgd": lambda p: flambeau.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: flambeau.optim.AdamW(p, lr=0.01),
    "adagrad": lambda p: flambeau.optim.Adagrad(p),
    "rprop": lambda p: flambeau.optim.Rprop(p),
    "adafactor": lambda p: flambeau.optim.Adafactor(p),
}


def train(name, steps=5):
    network = make_network()
    optimizer = OPTIMIZERS[name](network.parameters())
    scheduler = flambeau.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    total = flambeau.zeros(())
    generator = flambeau.Generator().manual_seed(1)
    for _ in range(steps):
        x, y = flambeau.randn(5, 6, generator=generator), flambeau.randint(0, 3, (5,), generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        total += loss.detach()
    return [total, *network.parameters()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training(name):
    expected = train(name)
    with lazy():
        found = train(name)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-4, atol=1e-5)


def test_second_derivatives():
    x = flambeau.linspace(0.1, 1, 5, requires_grad=True)
    with lazy():
        for _ in range(3):
            (g,) = flambeau.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
            (h,) = flambeau.autograd.grad(g.sum(), x)
            v = x.detach().numpy()
            np.testing.assert_allclose(h.numpy(), 2 * np.cos(v) - v * np.sin(v), rtol=1e-5)


def test_forward_mode_vmap_and_modes():
    x = flambeau.linspace(0.1, 1, 5)
    with lazy():
        value, tangent = flambeau.func.jvp(flambeau.sin, (x,), (flambeau.ones(5),))
        np.testing.assert_allclose(tangent.numpy(), np.cos(x.numpy()), rtol=1e-6)
        found = flambeau.vmap(lambda a, b: (a * b).sum())(x.expand(3, 5), flambeau.ones(3, 5))
        np.testing.assert_allclose(found.numpy(), [x.sum().item()] * 3, rtol=1e-6)
        with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
            product = flambeau.ones(2, 2) @ flambeau.ones(2, 2)
        assert product.dtype == flambeau.bfloat16 and product.tolist() == [[2, 2], [2, 2]]
        with flambeau.inference_mode():
            y = x * 2
        assert y.is_inference() and y.tolist() == (x * 2).tolist()


def test_inference_tensors_that_are_written_to_and_looked_at_outside():
    with flambeau.inference_mode():
        x = flambeau.ones(3)
    w = flambeau.ones(3, requires_grad=True)
    with lazy():
        for k in range(3):
            with flambeau.inference_mode():
                x.add_(1)
                y = (x * 2).mul_(3)
            z = w * 2
            assert x.tolist() == [2.0 + k] * 3 and y.tolist() == [12.0 + 6 * k] * 3
            assert y.is_inference() and not z.is_inference() and not flambeau.is_inference_mode_enabled()
            z.sum().backward()
        with pytest.raises(RuntimeError, match="outside InferenceMode"):
            x.add_(1)
    assert w.grad.tolist() == [6.0] * 3


def test_saved_tensor_hooks_see_elements():
    x = flambeau.ones(3, requires_grad=True)
    packed = []
    with lazy():
        with flambeau.autograd.graph.saved_tensors_hooks(
            lambda t: packed.append(t.tolist()) or t, lambda t: t
        ):
            y = (x.exp() * x).sum()
        y.backward()
    assert packed and x.grad.tolist() == pytest.approx([2 * np.e] * 3)


def test_shapes_and_their_errors_are_there_at_once():
    with lazy():
        x = flambeau.ones(2, 3) + 1
        with pytest.raises(RuntimeError, match="must match|size"):
            x + flambeau.ones(2, 4)
        with pytest.raises(RuntimeError):
            x @ x
        with pytest.raises(IndexError):
            x.sum(5)
        with pytest.raises(TypeError):
            x.sum("a")
        assert (x.mT @ x).shape == (3, 3)
    assert x.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_a_computation_that_fails_is_told_to_whoever_looks(monkeypatch):
    monkeypatch.setattr(lazy_module(), "_each", broken)
    with lazy():
        x = flambeau.ones(3)
        y, z = x + 1, x * 2
        with pytest.raises(ZeroDivisionError):
            y.tolist()
        for t in (y, z):
            with pytest.raises(RuntimeError, match="never computed: ZeroDivisionError"):
                t.tolist()
            with pytest.raises(RuntimeError, match="never computed"):
                t + 1
        monkeypatch.undo()
        lazy.disable()
        lazy.enable()
        assert (x + 1).tolist() == [2, 2, 2]


def broken(_):
    raise ZeroDivisionError("a test")


def lazy_module():
    import importlib

    return importlib.import_module("flambeau.graph.lazy")


def test_a_failed_computation_leaves_what_was_there_before(monkeypatch):
    x = flambeau.ones(3)
    monkeypatch.setattr(lazy_module(), "_each", broken)
    with lazy():
        x.add_(1)
        with pytest.raises(ZeroDivisionError):
            x.tolist()
        assert x.tolist() == [1, 1, 1]  # it has its bytes, as they were


def test_a_mistake_of_the_planner_costs_speed_alone(monkeypatch):
    def plan(*_):
        raise KeyError("a test")

    import flambeau.graph.lower

    monkeypatch.setattr(flambeau.graph.lower, "plan", plan)
    x = flambeau.ones(3)
    with lazy():
        for _ in range(3):
            assert (x + 1).exp().tolist() == pytest.approx([np.exp(2)] * 3)


def test_another_thread_looks():
    x = flambeau.ones(3)
    found = []
    with lazy():
        y = x + 1
        thread = threading.Thread(
            target=lambda: found.append((y.tolist(), (y * 2).tolist(), lazy.is_enabled()))
        )
        thread.start()
        thread.join()
        assert not waits(y)
        z = y + 1
        assert z.tolist() == [3, 3, 3]
    assert found == [([2, 2, 2], [4, 4, 4], False)]


def test_threads_that_write_to_one_tensor_and_read_another():
    shared = flambeau.zeros(64)
    right = []

    def work(k):
        own = flambeau.zeros(64)
        with lazy():
            for _ in range(50):
                own.add_(shared + 1)
                own.mul_(1)
                _ = (own + shared).sum()
        right.append(own.tolist() == [50.0] * 64)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert right == [True] * 4


def test_a_storage_that_two_segments_have_met():
    x = flambeau.zeros(4)
    with lazy():
        y = x * 1
        other = threading.Thread(target=lambda: lazy()(lambda: (x + 5).tolist())())
        other.start()
        other.join()
        x.add_(1)  # by the same number as the first reading
        z = x * 1
        assert (y.tolist(), z.tolist()) == ([0] * 4, [1] * 4)


def test_the_decorator_the_switch_and_nesting():
    @lazy()
    def f(x):
        y = x + 1
        assert waits(y)
        with lazy(False):
            assert not waits(y) and not waits(y + 1)
        with lazy():
            assert waits(y + 2)
        assert lazy.is_enabled() and waits(y * 2)
        return y * 3

    assert f(flambeau.ones(2)).tolist() == [6, 6]
    lazy.enable()
    try:
        y = flambeau.ones(2) + 1
        assert waits(y)
        lazy.run()
        assert not waits(y)
    finally:
        lazy.disable()


def test_an_exception_within_the_context():
    x = flambeau.zeros(2)
    with pytest.raises(ZeroDivisionError), lazy():
        x.add_(1)
        y = x * 2
        raise ZeroDivisionError
    assert x.tolist() == [1, 1] and y.tolist() == [2, 2] and not lazy.is_enabled()


def test_compiled_functions_and_recordings_within():
    @flambeau.compile
    def f(x):
        return (x * 2).tanh().sum()

    x = flambeau.linspace(0, 1, 5)
    expected = f(x).item()
    with lazy():
        for _ in range(3):
            assert f(x + 0).item() == pytest.approx(expected)
        y = x + 1
        graph, made = flambeau.graph.trace.record(lambda t: t * 2, y)
        assert [n.name for n in graph.graph.nodes][1:-1] == ["mul"]
        assert made.tolist() == (y * 2).tolist()
        assert waits(x + 1)


def test_lazy_within_a_compiled_function():
    def f(x):
        with lazy():
            y = x * 2
        return y + 1

    assert flambeau.compile(f)(flambeau.ones(2)).tolist() == [3, 3]


def test_other_default_dtypes():
    x = flambeau.tensor([1, 2, 3])
    with lazy():
        for _ in range(2):
            a = x / 2
            flambeau.set_default_dtype(flambeau.float64)
            try:
                b = x / 2
                assert (a.dtype, b.dtype) == (flambeau.float32, flambeau.float64)
            finally:
                flambeau.set_default_dtype(flambeau.float32)
            assert a.tolist() == b.tolist() == [0.5, 1, 1.5]


def test_views_bytes_and_other_dtypes_of_what_waits():
    x = flambeau.arange(12.0).reshape(3, 4)
    with lazy():
        for _ in range(3):
            y = x * 2
            view = y[1:, ::2]
            view += 1
            bits = y.view(flambeau.int32)
            assert waits(bits) and bits.dtype == flambeau.int32
            assert y.tolist() == [[0, 2, 4, 6], [9, 10, 13, 14], [17, 18, 21, 22]]
            assert bits[0, 1].item() == np.float32(2).view(np.int32)


def test_inputs_at_other_places_of_their_storages_share_a_plan():
    x = flambeau.arange(40.0).reshape(10, 4)
    with lazy():
        for k in range(9):
            a, b = x[k], x[k + 1]
            assert (a * b + 1).sum().item() == (np.arange(4.0) + 4 * k) @ (np.arange(4.0) + 4 * k + 4) + 4
    assert segment.segments_seen() == 1


def test_empty_and_large_sizes():
    with lazy():
        for _ in range(2):
            assert (flambeau.ones(0, 3) * 2).sum(1).tolist() == []
            assert flambeau.ones(0).sum().item() == 0
            big = flambeau.ones(1, dtype=flambeau.uint8).expand(1 << 33)[:: 1 << 31] + 1
            assert big.tolist() == [2, 2, 2, 2]


def test_nothing_is_left_behind():
    before = flambeau.cpu.memory_stats()["allocated_bytes"]
    for _ in range(3):
        with lazy():
            x = flambeau.ones(1000)
            y = x + 1
            del y
            w = x * 3
            kept = weakref.ref(w)
            del w
            x.add_(1)
    assert kept() is None
    del x
    gc.collect()
    segment.forget()
    assert flambeau.cpu.memory_stats()["allocated_bytes"] <= before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_while_calls_wait(tmp_path: Path):
    with lazy():
        y = flambeau.ones(3) + 1
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if (y * 2).tolist() == [4, 4, 4] else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert y.tolist() == [2, 2, 2]


def cases():
    return [(entry, text) for entry, text in samples.ALL if entry.kind not in ("creation", "error")]


def outcomes(entry, text, grad):
    """Results of one call, then gradients, or the class of the error."""
    operands = samples.Operands(grad=grad)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = samples.run(entry, text, operands)
            roots = [t for t in found if t.requires_grad and (t.is_floating_point() or t.is_complex())]
            if roots:
                flambeau.autograd.backward([t.abs().sum() if t.is_complex() else t.sum() for t in roots])
            return [t.detach() for t in found], [leaf.grad for leaf in operands.leaves]
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("kind", sorted({entry.kind for entry in REGISTRY.values()}))
def test_every_operation(kind, grad):
    wrong = []
    for entry, text in cases():
        if entry.kind != kind or (grad and not entry.differentiable):
            continue
        expected = outcomes(entry, text, grad)
        for _ in range(3):
            with lazy():
                found = outcomes(entry, text, grad)
                if isinstance(found, tuple):
                    found = tuple([None if t is None else t.clone() for t in part] for part in found)
            if not alike(found, expected):
                wrong.append((entry.name, text, found if isinstance(found, type) else "another result"))
                break
    assert wrong == []


def alike(found, expected):
    if isinstance(found, type) or isinstance(expected, type):
        return found is expected
    for a, b in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
        if (a is None) != (b is None):
            return False
        if a is None:
            continue
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.is_quantized or a.layout != flambeau.strided or a.dtype.itemsize == 1 and a.is_floating_point():
            continue
        x, y = (t.resolve_conj().resolve_neg() for t in (a, b))
        if x.dtype in (flambeau.bfloat16,):
            x, y = x.float(), y.float()
        if not np.allclose(x.numpy(), y.numpy(), rtol=1e-5, atol=1e-6, equal_nan=True):
            return False
    return True


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs(first):
    assert [d for seed in range(first, first + 10) if (d := lazy_difference(seed))] == []
