"""Layouts of weights that are kept: the same bits as without, and never those of bytes that have changed."""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import threading
import warnings
import weakref

import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.core.base import prepacked
from flambeau.nn import functional as F

flambeau.manual_seed(0)
LAYERS = {
    "winograd": (nn.Conv2d(32, 32, 3, padding=1), (1, 32, 28, 28)),
    "direct": (nn.Conv2d(16, 40, 5, stride=2), (2, 16, 15, 15)),
    "few places": (nn.Conv2d(256, 264, 3, padding=1), (2, 256, 2, 2)),
    "channels last": (nn.Conv2d(16, 40, 2).to(memory_format=flambeau.channels_last), (1, 16, 12, 12)),
    "double": (nn.Conv2d(24, 24, 3, dtype=flambeau.float64), (1, 24, 9, 9)),
    "transposed": (nn.ConvTranspose2d(24, 40, 3, stride=2), (1, 24, 9, 9)),
    "line": (nn.Conv1d(32, 64, 5), (2, 32, 60)),
    "winograd of halves": (nn.Conv2d(32, 32, 3, padding=1, dtype=flambeau.float16), (1, 32, 28, 28)),
    "strides of halves": (nn.Conv2d(32, 64, 3, stride=2, dtype=flambeau.bfloat16), (2, 32, 30, 30)),
    "transposed halves": (nn.ConvTranspose2d(24, 40, 3, stride=2, dtype=flambeau.bfloat16), (1, 24, 9, 9)),
    "lstm": (nn.LSTM(24, 40), (9, 3, 24)),
    "gru": (nn.GRU(24, 33), (9, 3, 24)),
    "rnn": (nn.RNN(24, 16, bidirectional=True), (9, 3, 24)),
}


@pytest.fixture(autouse=True)
def enough():
    limit = flambeau.backends.cpu.prepack_limit
    flambeau.backends.cpu.prepack_limit = 1 << 30
    yield
    flambeau.backends.cpu.prepack_limit = limit


def fresh(name: str):
    """A layer with weights of its own, of which nothing has been kept, and an input."""
    made, shape = LAYERS[name]
    layer = copy.deepcopy(made)
    dtype = next(layer.parameters()).dtype
    return layer, flambeau.rand(shape, dtype=dtype)


def first(result):
    return result[0] if isinstance(result, tuple) else result


def without(layer, x):
    """What a layer computes where nothing is kept, from weights of the same bytes."""
    limit = flambeau.backends.cpu.prepack_limit
    flambeau.backends.cpu.prepack_limit = 0
    result = first(layer(x)).clone()
    flambeau.backends.cpu.prepack_limit = limit
    return result


def kept(layer, x) -> int:
    """Bytes that are kept after two uses."""
    before = prepacked.bytes_held()
    for _ in range(2):
        layer(x)
    return prepacked.bytes_held() - before


@pytest.mark.parametrize(
    "mode", [flambeau.no_grad, flambeau.inference_mode, None], ids=["no_grad", "inference", "frozen"]
)
@pytest.mark.parametrize("name", LAYERS)
def test_the_same_bits_from_the_second_use_on(name, mode):
    layer, x = fresh(name)
    if mode is None:
        layer.requires_grad_(False)
    with flambeau.enable_grad() if mode is None else mode():
        expected = without(layer, x)
        before = prepacked.bytes_held()
        assert first(layer(x)).equal(expected) and prepacked.bytes_held() == before
        assert first(layer(x)).equal(expected) and prepacked.bytes_held() > before
        assert first(layer(x)).equal(expected)
    del layer
    gc.collect()
    assert prepacked.bytes_held() == before


@pytest.mark.parametrize("name", LAYERS)
def test_for_any_number_of_threads(name):
    layer, x = fresh(name)
    threads, results = flambeau.get_num_threads(), []
    with flambeau.no_grad():
        for number in (1, 2, 5):
            flambeau.set_num_threads(number)
            results += [first(layer(x)) for _ in range(2)]
    flambeau.set_num_threads(threads)
    assert all(r.equal(results[0]) for r in results)


@pytest.mark.parametrize("name", LAYERS)
def test_a_weight_that_is_trained_is_not_kept(name):
    layer, x = fresh(name)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    before = prepacked.bytes_held()
    for _ in range(3):
        optimizer.zero_grad()
        first(layer(x)).sum().backward()
        optimizer.step()
    assert prepacked.bytes_held() == before


def test_training_drops_what_evaluation_kept():
    layer, x = fresh("winograd")
    before = prepacked.bytes_held()
    with flambeau.no_grad():
        assert kept(layer, x) > 0
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    layer(x).sum().backward()
    optimizer.step()
    layer(x)
    assert prepacked.bytes_held() == before


def test_bytes_that_a_layout_takes():
    layer, x = fresh("winograd")
    with flambeau.no_grad():
        assert kept(layer, x) in (4 * layer.weight.nbytes, 16 * layer.weight.nbytes // 9)
        assert kept(layer, x) == 0  # nothing more


def test_the_limit():
    layer, x = fresh("winograd")
    with flambeau.no_grad():
        base = prepacked.bytes_held()
        flambeau.backends.cpu.prepack_limit = base + 1000
        assert kept(layer, x) == 0
        flambeau.backends.cpu.prepack_limit = 1 << 30
        assert kept(layer, x) > 0
        flambeau.backends.cpu.prepack_limit = 0
        layer(x)
        assert prepacked.bytes_held() == base
    for wrong in (-1, 1.5, True, "1G", 1 << 63):
        with pytest.raises(RuntimeError, match="prepack_limit must be a number of bytes"):
            flambeau.backends.cpu.prepack_limit = wrong


def test_shapes_that_share_a_layout_and_views_that_do_not():
    weight = flambeau.rand(64, 24, 5, 5)
    x = flambeau.rand(1, 24, 20, 20)
    with flambeau.no_grad():
        conv = lambda x, w: F.conv2d(x, w, stride=2)
        assert kept(lambda x: conv(x, weight), x) > 0
        assert kept(lambda x: conv(x, weight), flambeau.rand(1, 24, 33, 33)) == 0
        for part in (weight[:32], weight[32:], weight.flip(0), weight.transpose(2, 3)):
            for _ in range(3):
                assert conv(x, part).equal(conv(x, part.clone()))


def test_a_program_that_slices_anew_keeps_a_bounded_number():
    weight, x = flambeau.rand(80, 8, 5, 5), flambeau.rand(1, 8, 12, 12)
    with flambeau.no_grad():
        for n in range(1, 81):
            expected = F.conv2d(x, weight[:n].clone())
            assert all(F.conv2d(x, weight[:n]).equal(expected) for _ in range(2))
    del weight
    gc.collect()


def test_no_cycle_and_no_leak():
    before = prepacked.bytes_held()
    gc.disable()
    try:
        for _ in range(3):
            layer, x = fresh("lstm")
            with flambeau.no_grad():
                assert kept(layer, x) > 0
            gone = weakref.ref(layer.weight_hh_l0.untyped_storage())
            del layer
            if gone() is not None:  # modules are cycles
                gc.collect()
            assert gone() is None
    finally:
        gc.enable()
    assert prepacked.bytes_held() == before


# --- ways of writing ------------------------------
def by_numpy_before(layer):
    array = layer.weight.detach().numpy()
    return lambda: np.multiply(array, 2.0, out=array)


def by_address(layer):
    weight = layer.weight
    other = np.full(weight.numel(), 0.25, dtype=np.float32)
    return lambda: ctypes.memmove(weight.data_ptr(), other.ctypes.data, other.nbytes)


def by_state(layer):
    state = {k: v * 3 for k, v in layer.state_dict().items()}
    return lambda: layer.load_state_dict(state)


def by_compiled(layer):
    @flambeau.compile
    def double(w):
        w.mul_(2.0)
        return w.sum()

    return lambda: double(layer.weight)


def by_lazy(layer):
    def write():
        with flambeau.lazy():
            layer.weight.mul_(2.0)

    return write


def by_swap(layer):
    return lambda: flambeau.utils.swap_tensors(layer.weight, nn.Parameter(layer.weight * 2))


def by_thread(layer):
    def write():
        thread = threading.Thread(target=lambda: layer.weight.data.mul_(2))
        thread.start()
        thread.join()

    return write


def by_assignment(layer):
    def write():
        layer.weight.data = layer.weight.data * 2

    return write


def by_gradient(layer):
    """The weight is another leaf's gradient."""
    leaf = flambeau.zeros(layer.weight.shape, requires_grad=True)
    leaf.grad = layer.weight.detach()
    return lambda: (leaf * 3).sum().backward()


def by_custom(layer):
    from flambeau.library import custom_op

    def double(w: flambeau.Tensor) -> None:
        w.data.untyped_storage().copy_((w * 2).untyped_storage())

    made = custom_op("test_prepacked::double", double, mutates_args=("w",))
    return lambda: made(layer.weight)


WAYS = {
    "storage fill_": lambda m: lambda: m.weight.untyped_storage().fill_(0),
    "storage copy_": lambda m: lambda: m.weight.untyped_storage().copy_((m.weight * 2).untyped_storage()),
    "storage item": lambda m: lambda: m.weight.untyped_storage().__setitem__(slice(0, 64), 1),
    "storage slice": lambda m: lambda: m.weight.untyped_storage()[:64].fill_(1),
    "byteswap": lambda m: lambda: m.weight.untyped_storage().byteswap(flambeau.float32),
    "memoryview": lambda m: lambda: memoryview(m.weight.untyped_storage()).__setitem__(slice(0, 4), b"\0\0\0\0"),
    "typed storage": lambda m: lambda: m.weight.storage().fill_(1.0),
    "index": lambda m: lambda: m.weight.__setitem__((0, 0), 7.0),
    "index of data": lambda m: lambda: m.weight.data.__setitem__((0, 0), 7.0),
    "numpy, before": by_numpy_before,
    "numpy": lambda m: lambda: np.multiply(m.weight.detach().numpy(), 2.0, out=m.weight.detach().numpy()),
    "dlpack": lambda m: lambda: flambeau.from_dlpack(m.weight.detach()).mul_(2),
    "address": by_address,
    "set_ of the parameter": lambda m: lambda: m.weight.set_((m.weight * 2).detach()),
    "data": by_assignment,
    "state": by_state,
    "share_memory_": lambda m: lambda: (m.share_memory(), m.weight.data.mul_(2)),
    "compiled": by_compiled,
    "lazy": by_lazy,
    "swap_tensors": by_swap,
    "thread": by_thread,
    "gradient": by_gradient,
    "custom operation": by_custom,
    "foreach": lambda m: lambda: flambeau._foreach_mul_([m.weight.data], 2.0),
    "vector": lambda m: lambda: nn.utils.vector_to_parameters(flambeau.ones(sum(p.numel() for p in m.parameters())), m.parameters()),
    "out": lambda m: lambda: flambeau.mul(m.weight, 2.0, out=m.weight.data),
    "out of a product": lambda m: lambda: flambeau.mm(
        flambeau.eye(32), flambeau.ones(32, 288), out=m.weight.data.view(32, 288)
    ),
    "under inference_mode": lambda m: flambeau.inference_mode()(lambda: m.weight.mul_(2)),
    "to": lambda m: lambda: m.double().float().weight.data.mul_(2),
    "vmap": lambda m: lambda: flambeau.vmap(lambda w: w.mul_(2))(m.weight.data),
}  # fmt: skip
WAYS |= {
    f"init.{name}": lambda m, name=name: lambda: getattr(nn.init, name)(m.weight)
    for name in dir(nn.init)
    if name.endswith("_")
    and not name.startswith("_")
    and name not in ("trunc_normal_", "constant_", "eye_", "sparse_")
}
STEPS = sorted(
    n
    for n in dir(optim)
    if isinstance(getattr(optim, n), type) and issubclass(getattr(optim, n), optim.Optimizer)
)
STEPS = [n for n in STEPS if n not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")]


def check(write, layer, x):
    """Right numbers at the first, the second and the third use after a write."""
    expected = without(layer, x)
    for _ in range(2):
        assert first(layer(x)).equal(expected)
    write()
    changed = without(layer, x)
    return [first(layer(x)) for _ in range(3)], expected, changed


@pytest.mark.parametrize("way", WAYS)
def test_the_next_call_sees_a_write(way):
    layer, x = fresh("winograd")
    with flambeau.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write = WAYS[way](layer)
        assert kept(layer, x) > 0 or way.startswith("numpy, before")
        if way in ("gradient",):
            write = flambeau.enable_grad()(write)
        results, before, changed = check(write, layer, x)
    assert not changed.equal(before) or changed.isnan().any(), "nothing was written"
    for r in results:
        np.testing.assert_array_equal(r.numpy(), changed.numpy())


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("form", [{}, {"foreach": True}, {"fused": True}], ids=["plain", "foreach", "fused"])
def test_the_next_call_sees_a_step(name, form):
    layer, x = fresh("winograd")
    try:
        optimizer = getattr(optim, name)(layer.parameters(), lr=0.1, **form)
    except (TypeError, RuntimeError):
        pytest.skip("no such form")
    for _ in range(2):
        layer(x).square().sum().backward()
        results, before, changed = flambeau.no_grad()(check)(optimizer.step, layer, x)
        assert not changed.equal(before)
        assert all(r.equal(changed) for r in results)


def test_a_write_while_the_layout_is_made():
    weight, made = flambeau.rand(4, 4), []
    before = weight.clone()

    def make(w):
        made.append(w.clone())
        if len(made) == 1:
            weight.data.add_(1)  # as another thread might
        return made[-1]

    found = [prepacked.prepack(weight, "test", make) for _ in range(5)]
    assert found[0] is None and found[1].equal(before) and found[2] is None
    assert found[3].equal(weight) and found[4] is found[3] and len(made) == 2


def test_what_a_storage_would_keep_of_itself():
    weight = flambeau.rand(4)
    before = prepacked.bytes_held()
    for _ in range(3):
        prepacked.prepack(weight, "itself", lambda w: w)
    assert prepacked.bytes_held() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_after_a_fork():
    layer, x = fresh("winograd")
    with flambeau.no_grad():
        kept(layer, x)
        expected = layer(x)
        child = os.fork()
        if not child:
            right = layer(x).equal(expected)
            layer.weight.data.mul_(2)
            right = right and layer(x).equal(without(layer, x)) and not layer(x).equal(expected)
            os._exit(0 if right else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert layer(x).equal(expected)


@pytest.mark.parametrize("layer", ["winograd", "transposed", "line"])
def test_a_compiled_function_that_writes_between_uses(layer):
    """Its launches write without counting: what was laid out before one must not be used behind it."""
    made, x = fresh(layer)
    function = {"winograd": F.conv2d, "transposed": F.conv_transpose2d, "line": F.conv1d}[layer]

    def uses(x, w):
        made = w * 2
        before = [function(x, made) for _ in range(3)] + [function(x, w) for _ in range(3)]
        made.add_(1)
        w.mul_(3)
        return *before, function(x, made), function(x, w)

    compiled, own, other = flambeau.compile(uses), made.weight.detach().clone(), made.weight.detach().clone()
    with flambeau.no_grad():
        for _ in range(4):
            found = compiled(x, own)
            flambeau.backends.cpu.prepack_limit = 0
            expected = uses(x, other)
            flambeau.backends.cpu.prepack_limit = 1 << 30
            for f, e in zip(found, expected):
                flambeau.testing.assert_close(f, e, rtol=1e-4, atol=1e-4)
            assert function(x, own).equal(function(x, own.clone()))


# --- casts by autocast ------------------------------
CAST = {
    "convolution": (nn.Conv2d(32, 48, 3, padding=1), (2, 32, 14, 14)),
    "linear": (nn.Linear(64, 96), (8, 64)),
}


@pytest.mark.parametrize("lower", [flambeau.bfloat16, flambeau.float16], ids=str)
@pytest.mark.parametrize("name", CAST)
def test_casts_that_are_kept(name, lower):
    """A block's casts are the next block's, until the parameter is written to; where gradients are wanted each block makes its own."""
    made, shape = CAST[name]
    layer, x = copy.deepcopy(made), flambeau.rand(shape)

    def call():
        with flambeau.autocast("cpu", dtype=lower):
            return layer(x)

    def computed():
        """The same of lower tensors, of which nothing is kept."""
        given = {k: p.detach().to(lower) for k, p in layer.named_parameters()}
        return flambeau.func.functional_call(layer, given, (x.to(lower),))

    with flambeau.no_grad():
        before = prepacked.bytes_held()
        results = [call() for _ in range(3)]
        assert prepacked.bytes_held() >= before + layer.weight.numel() * 2
        assert all(flambeau.equal(r, computed()) for r in results)
        for write in (
            lambda: layer.weight.mul_(2),
            lambda: layer.weight.data.add_(1),
            lambda: setattr(layer.weight, "data", layer.weight.data * 0.5),
        ):
            write()
            assert all(flambeau.equal(call(), computed()) for _ in range(3))
        layer.weight.numpy()[:] = 3.0  # whoever knows the address may write unseen
        assert all(flambeau.equal(call(), computed()) for _ in range(2))
        layer.weight.numpy()[:] = -1.0
        assert all(flambeau.equal(call(), computed()) for _ in range(2))
    layer = copy.deepcopy(made)
    kept = prepacked.bytes_held()
    for _ in range(3):
        call().sum().backward()
    assert layer.weight.grad.dtype == flambeau.float32 and prepacked.bytes_held() == kept
