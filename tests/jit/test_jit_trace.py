"""Tracing: what is written down, what is not, and what says so; saved and loaded each time, on other sizes and numbers."""

from __future__ import annotations

import io
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau import jit, nn

F = nn.functional


def reloaded(traced: Any) -> Any:
    """A program, saved and loaded."""
    return jit.load(io.BytesIO(traced.save_to_buffer()))


def flat(x: Any) -> list[Any]:
    if isinstance(x, flambeau.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for v in x for t in flat(v)]


def agree(actual: Any, wanted: Any) -> None:
    a, b = flat(actual), flat(wanted)
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x.numpy(force=True), y.numpy(force=True), rtol=1e-5, atol=1e-6)


def check(f: Any, example: tuple, *others: tuple, **options: Any) -> Any:
    """Trace on an example; the program, and the one that is kept, do what `f` does on it and on other inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced = jit.trace(f, example, **options)
    loaded = reloaded(traced)
    for inputs in (example, *others):
        wanted = f(*[flambeau.Tensor.clone(t) if isinstance(t, flambeau.Tensor) else t for t in inputs])
        for program in (traced, loaded, loaded):  # the second call goes another way
            agree(program(*[t.clone() if isinstance(t, flambeau.Tensor) else t for t in inputs]), wanted)
    return traced


r = flambeau.randn

PROGRAMS = {
    "reshape": lambda x: x.reshape(x.shape[0], -1, 2).sum(1),
    "view_of_products": lambda x: x.contiguous().view(x.size(0) * x.size(1)),
    "half": lambda x: x.reshape(x.shape[0], 2, x.shape[1] // 2),
    "shape_slices": lambda x: x.new_ones(x.shape[1:]) + x.new_zeros(*x.shape),
    "shape_sums": lambda x: flambeau.zeros(x.shape + (2,)) + 1,
    "expand": lambda x: x[:1].expand(x.shape[0] + 1, -1),
    "arange": lambda x: x + flambeau.arange(x.shape[1]) * 2,
    "range_of_sizes": lambda x: flambeau.arange(1, x.shape[0] + 1)[:, None] * x,
    "mean_by_size": lambda x: x.sum() / x.numel() + x.sum(0) / x.size(0),
    "size_in_float": lambda x: x * (1 / x.shape[0]) + (x.shape[1] - 1) / 2,
    "minus_size": lambda x: x - x.size(0) + x.shape[1] * 1.5 - (-x.shape[0]),
    "size_minus": lambda x: x.shape[0] - x + x.shape[0] / (x.abs() + 1),
    "last_row": lambda x: x[x.shape[0] - 1] + x[-1] + x[0],
    "slices": lambda x: x[1:, : x.shape[1] // 2].sum() + x[..., ::2].sum() + x[:, None].sum(),
    "flip_and_pad": lambda x: F.pad(x.flip(0), (1, x.shape[0])),
    "masks": lambda x: x[x > 0].sum() + x[:, flambeau.tensor([1, 0])],
    "one_index": lambda x: x[flambeau.tensor([0, 1]), 1:] + x[flambeau.tensor(1)][1:],
    "interpolated": lambda x: F.interpolate(x[None, None], size=(x.shape[0] * 2, 3)),
    "strided": lambda x: flambeau.as_strided(x.contiguous(), (x.shape[0],), (x.stride(0),)),
    "full": lambda x: flambeau.full((x.shape[0],), 2.5) @ x,
    "eye": lambda x: flambeau.eye(x.shape[0]) @ x,
    "repeat": lambda x: x.repeat(x.shape[0], 2),
    "flatten": lambda x: x.flatten() + x.numel(),
    "split": lambda x: x.split(1, dim=1)[0] + x.chunk(2, 1)[1],
    "unflatten": lambda x: x.unflatten(1, (2, -1)).transpose(1, 2),
    "linspace": lambda x: x + flambeau.linspace(0, 1, x.shape[1]),
    "tril": lambda x: flambeau.tril(flambeau.ones(x.shape[0], x.shape[0])) @ x,
    "positions": lambda x: (
        F.one_hot(flambeau.arange(x.shape[0]), x.shape[0] + 1).float().T @ x.new_ones(x.shape[0])
    ),
    "casts": lambda x: (
        x.double().float() + x.long() + x.to(flambeau.float64) + x.half().float() + x.bool().int()
    ),
    "half_dtype": lambda x: x.bfloat16().sum().float(),
    "compare_sizes": lambda x: x * 2 if x.shape == x.clone().shape else x,
    "einsum": lambda x: flambeau.einsum("ij,ik->jk", x, x),
    "max": lambda x: x.max(1),
    "topk": lambda x: x.topk(1, 0).values + x.sort(0)[0][:1],
    "svd": lambda x: flambeau.linalg.svdvals(x),
    "norms": lambda x: F.layer_norm(x, (x.shape[-1],)) + F.softmax(x, -1),
    "where": lambda x: flambeau.where(x > 0, x, flambeau.zeros_like(x)),
    "complex": lambda x: flambeau.fft.rfft(x, norm="ortho").abs() + (x * (1 + 2j)).imag.sum(),
    "strings": lambda x: F.gelu(x, approximate="tanh") + F.mse_loss(x, x * 2, reduction="sum"),
    "losses": lambda x: (
        F.mse_loss(x, x * 2) + F.l1_loss(x, x + 1, reduction="none").sum() + F.huber_loss(x, -x)
    ),
    "classes": lambda x: F.cross_entropy(x, flambeau.arange(x.shape[0]) % 4, reduction="sum"),
    "rolled": lambda x: x.roll(1) + x.roll((1, 2), (0, 1)) + x.sum().roll(3),
    "squeezed": lambda x: x[:, None].squeeze(()) + x[:, None].squeeze() + x[None].squeeze((0,)),
    "pooled": lambda x: (
        F.max_pool1d(x[None], 2) + F.avg_pool1d(x[None], 2) + F.adaptive_avg_pool1d(x[None], 2)
    ),
    "defaults": lambda x: (
        x.std() + x.var(0, correction=0).sum() + x.amax() + x.flip((0, 1)).norm() + x.std(1, True).sum()
    ),
    "infinities": lambda x: x.masked_fill(x > 0, float("-inf")).softmax(0).nan_to_num(posinf=float("inf")),
    "numbers": lambda x: x.clamp(-0.5, 1e-3) * 1e30 / 1e30,
    "set_values": lambda x: _written(x),
    "out": lambda x: flambeau.add(x, 1, out=flambeau.empty_like(x)),
    "constant": lambda x: x + flambeau.tensor([1.0, 2.0, 3.0, 4.0])[: x.shape[1]],
}


def _written(x):
    y = x.clone()
    y[0] = 7
    y[:, 1] = x[:, 0]
    y[1:, 2:] *= 2
    y[y > 5] = 0.5
    y[flambeau.tensor([0]), :] = x[:1] + 1
    y.t()[0].add_(1)
    y[..., -1:] = flambeau.ones(1, 1, 1)
    return y


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_sizes(name):
    check(PROGRAMS[name], (r(2, 4),), (r(3, 4),), (r(5, 4),))


@pytest.mark.parametrize(
    "make, shapes",
    [
        (
            lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 2)),
            ((2, 3), (5, 3), (2, 2, 3)),
        ),
        (
            lambda: nn.Sequential(
                nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.MaxPool2d(2), nn.Flatten()
            ).eval(),
            ((2, 1, 6, 6), (3, 1, 8, 8)),
        ),
        (lambda: nn.LSTM(3, 4, 2, bidirectional=True), ((5, 2, 3), (3, 4, 3))),
        (lambda: nn.GRU(3, 4, batch_first=True), ((2, 5, 3), (4, 3, 3))),
        (lambda: nn.RNN(3, 4), ((5, 2, 3), (2, 1, 3))),
        (lambda: nn.LSTMCell(3, 4), ((2, 3), (5, 3))),
        (lambda: nn.GRUCell(3, 4), ((2, 3), (5, 3))),
        (lambda: nn.Softmin(0), ((2, 3), (5, 3))),
        (lambda: nn.LPPool1d(2, 2), ((2, 3, 6), (1, 2, 8))),
        (lambda: nn.LocalResponseNorm(2), ((2, 3, 6), (1, 2, 8))),
        (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(), ((2, 3, 4), (5, 7, 4))),
        (
            lambda: nn.Sequential(nn.Unflatten(1, (2, 3)), nn.ConvTranspose1d(2, 2, 2), nn.PReLU()),
            ((2, 6), (3, 6)),
        ),
        (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), ((2, 3), (4, 3))),
    ],
)
def test_modules(make, shapes):
    net = make()
    traced = check(net, (r(*shapes[0]),), *[(r(*s),) for s in shapes[1:]])
    assert list(traced.state_dict()) == list(net.state_dict())
    assert all(a is b for a, b in zip(traced.parameters(), net.parameters()))


def test_structures():
    def f(pair, named, items):
        a, (b, c) = pair
        return {"sum": a + b, "rest": items[0] * named["x"]}, [c, c + 1], (a,)

    x = lambda: (r(2), (r(2), r(2)))
    inputs = (x(), {"x": r(2), "y": r(2)}, [r(2), r(2)])
    traced = jit.trace(f, inputs, strict=False)
    again = (x(), {"x": r(2), "y": r(2)}, [r(2), r(2)])
    for program in (traced, reloaded(traced)):
        agree(program(*again), f(*again))
        assert isinstance(program(*again)[0], dict) and isinstance(program(*again)[1], list)
    assert "pair: Tuple[Tensor, Tuple[Tensor, Tensor]]" in traced.code
    assert "-> Tuple[Dict[str, Tensor], List[Tensor], Tuple[Tensor]]" in traced.code


def test_lists_are_told_of_and_dicts_refused():
    x = r(2)
    for f in (lambda x: [x, x + 1], lambda x: (x, [x * 2]), lambda x: ((x, [x]), x)):
        with pytest.warns(jit.TracerWarning, match="a list at the output"):
            traced = jit.trace(f, x)
        agree(traced(x), f(x))
    for f in (lambda x: {"y": x}, lambda x: (x, {"y": x}), lambda x: [{"y": x}]):
        with pytest.raises(RuntimeError, match="a dict at the output"):
            jit.trace(f, x)


def test_inputs_by_name():
    def f(x, y, scale):
        return (x - y) * scale

    traced = jit.trace(f, example_kwarg_inputs={"y": r(2), "x": r(2), "scale": r(1)})
    x, y, s = r(3), r(3), r(1)
    agree(reloaded(traced)(x=x, y=y, scale=s), f(x, y, s))
    mixed = jit.trace(f, (r(2),), example_kwarg_inputs={"scale": r(1), "y": r(2)})
    agree(mixed(x, scale=s, y=y), f(x, y, s))


@pytest.mark.parametrize(
    "f, what",
    [
        (lambda x: {"a": x}, "a dict at the output"),
        (lambda x: (x, 3), "Type 'int' cannot be traced"),
        (lambda x: None, "Type 'NoneType' cannot be traced"),
    ],
)
def test_results_that_cannot_be_traced(f, what):
    with pytest.raises(RuntimeError, match=what):
        jit.trace(f, r(2))
    assert not jit.is_tracing() and r(2).shape == (2,)


def test_inputs_that_cannot_be_traced():
    with pytest.raises(RuntimeError, match="Type 'int' cannot be traced.*input 'n'"):
        jit.trace(lambda x, n: x * n, (r(2), 3))
    with pytest.raises(TypeError, match="a tensor or a tuple of tensors, got int"):
        jit.trace(lambda x: x, 3)
    with pytest.raises(TypeError, match="must be a function or a Module"):
        jit.trace(3, r(2))


# --- what Python decides ------------------------------
@pytest.mark.parametrize(
    "f, good, bad",
    [
        (lambda x: x * 2 if x.shape[0] > 1 else x, (3, 2), (1, 2)),
        (lambda x: x.sum() * sum(range(x.shape[0])), (2, 5), (3, 2)),
        (lambda x: sum(x[k] for k in range(len(x))), (2, 5), (4, 2)),
        (lambda x: [x, x * 2, x * 3][x.shape[0] - 1], (2, 5), (3, 2)),
        (lambda x: x * {2: 5.0, 3: 6.0}[x.shape[0]], (2, 5), (3, 2)),
        (lambda x: x.reshape([2] * x.shape[0] + [-1]), (2, 4), (3, 8)),
        (lambda x: x * float(x.shape[0]), (2, 5), (3, 2)),
        (lambda x: x * max(x.shape[0], 1), (3, 3), (0, 3)),
        (lambda x: x * 2 ** x.shape[0], (2, 5), (3, 2)),
        (lambda x: x * np.zeros(x.shape[0]).size, (2, 5), (3, 2)),
        (lambda x: x if x.shape[0] == x.shape[1] else x.T, (3, 3), (2, 3)),
        (lambda x: x * 2 if x.numel() else x, (1, 2), (0, 2)),
        (lambda x: flambeau.stack([row * k for k, row in enumerate(x)]), (2, 4), (3, 4)),
        (lambda x: x.flatten()[: 2 * round(x.shape[0] / 2)], (2, 5), (5, 2)),
        (lambda x: x * (7 if x.shape == (2, 2) else 1), (2, 2), (2, 3)),
    ],
)
def test_sizes_that_python_looks_at(f, good, bad):
    """Right where what Python decided holds, an error that says so where it does not: never another value."""
    traced = jit.trace(f, r(2, 2))
    for program in (traced, reloaded(traced)):
        x = flambeau.rand(*good)
        agree(program(x), f(x))
        with pytest.raises((jit.Error, RuntimeError), match="traced where a size|values to unpack"):
            program(flambeau.rand(*bad))
    assert flambeau.ones(3).shape[0] + 1 == 4 and type(flambeau.ones(3).shape[0]) is int


def test_the_check_names_the_line():
    def f(x):
        if x.shape[0] > 1:
            return x + 1
        return x

    traced = jit.trace(f, r(2))
    line = f.__code__.co_firstlineno + 1
    with pytest.raises(jit.Error, match=rf"test_jit_trace.py, line {line}"):
        traced(r(1))


@pytest.mark.parametrize(
    "look, kind",
    [
        (lambda x: x + 1 if x.sum() > 0 else x - 1, "boolean"),
        (lambda x: x * float(x.sum()), "float"),
        (lambda x: x * int(x.sum()), "float"),
        (lambda x: x * x.sum().item(), "float"),
        (lambda x: x * sum(x.tolist()), "list"),
        (lambda x: x + flambeau.from_numpy(x.detach().numpy() * 2), "ndarray"),
        (lambda x: x * (2 if flambeau.equal(x, x) else 3), "boolean"),
    ],
)
def test_values_that_python_looks_at(look, kind):
    x = flambeau.tensor([1.0, 2.0])
    with pytest.warns(
        jit.TracerWarning,
        match=f"Converting a tensor to a Python {kind} might cause the trace to be incorrect",
    ) as seen:
        traced = jit.trace(look, x, check_trace=False)
    assert seen[0].filename == __file__ and seen[0].lineno == look.__code__.co_firstlineno
    agree(reloaded(traced)(x), look(x))


def test_check_inputs():
    f = lambda x: x + 1 if x.sum() > 0 else x - 1  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jit.trace(f, flambeau.ones(2), check_inputs=[(flambeau.ones(2) * 2,)])
        with pytest.raises(jit.TracingCheckError, match=r"check_inputs\[1\]"):
            jit.trace(f, flambeau.ones(2), check_inputs=[(flambeau.ones(2),), (-flambeau.ones(2),)])
        with pytest.raises(jit.TracingCheckError, match="traced where a size"):
            jit.trace(lambda x: x * len(x), flambeau.ones(2), check_inputs=[(flambeau.ones(3),)])


def test_check_trace_finds_what_changes_from_run_to_run():
    state = [0.0]

    def f(x):
        state[0] += 1
        return x * state[0]

    with pytest.warns(jit.TracerWarning, match="does not match the corresponding output"):
        jit.trace(f, flambeau.ones(2))
    net = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced = jit.trace(net, r(4, 2))
    assert traced(r(100, 2)).shape == (100, 2)


# --- tensors of the program ------------------------------
def test_constants_are_copied():
    scale = flambeau.tensor([2.0, 3.0])
    traced = jit.trace(lambda x: x * scale, r(2))
    scale.zero_()
    agree(traced(flambeau.ones(2)), flambeau.tensor([2.0, 3.0]))
    agree(reloaded(traced)(flambeau.ones(2)), flambeau.tensor([2.0, 3.0]))


def test_constants_that_want_gradients_are_refused():
    weight = flambeau.ones(2, requires_grad=True)
    with pytest.raises(
        RuntimeError,
        match=r"Cannot insert a Tensor that requires grad as a constant.*[\s\S]*test_jit_trace.py",
    ):
        jit.trace(lambda x: x * weight, r(2))


def test_what_is_not_traced_is_refused():
    def f(x):
        with flambeau.enable_grad():
            y = x.detach().requires_grad_()
            return flambeau.autograd.grad((y**3).sum(), y)[0] * x

    with pytest.raises(
        RuntimeError, match="comes of calls which are not traced, such as those of a backward pass"
    ):
        jit.trace(f, r(2))
    with pytest.raises(NotImplementedError, match="autocast is on"), flambeau.autocast("cpu"):
        jit.trace(lambda x: x + 1, r(2))
    with pytest.raises(RuntimeError, match="this thread traces already"):
        jit.trace(lambda x: jit.trace(lambda y: y + 1, x)(x), r(2))
    with pytest.raises(RuntimeError, match="an argument|called with a value of type Generator"):
        jit.trace(lambda x: flambeau.rand(2, generator=flambeau.Generator()) + x, r(2))


def test_gradients():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    traced = jit.trace(net, r(2, 3))
    loaded = reloaded(traced)
    x = r(5, 3, requires_grad=True)
    wanted = flambeau.autograd.grad(net(x).pow(2).sum(), [x, *net.parameters()])
    agree(flambeau.autograd.grad(traced(x).pow(2).sum(), [x, *net.parameters()]), wanted)
    agree(flambeau.autograd.grad(loaded(x).pow(2).sum(), [x, *loaded.parameters()]), wanted)
    second = flambeau.autograd.grad(loaded(x).sum(), x, create_graph=True)[0]
    assert flambeau.autograd.grad(second.sum(), x)[0].abs().sum() > 0


def test_no_grad_within_a_program_is_kept():
    def f(x):
        with flambeau.no_grad():
            y = x * 2
        return x * y

    loaded = reloaded(jit.trace(f, r(2)))
    x = flambeau.tensor([1.0, 3.0], requires_grad=True)
    loaded(x).sum().backward()
    agree(x.grad, flambeau.tensor([2.0, 6.0]))
    with flambeau.no_grad():
        outside = jit.trace(lambda x: x * x, r(2))
    agree(flambeau.autograd.grad(outside(x).sum(), x)[0], 2 * x)


def test_writes_reach_the_caller_and_views():
    def f(x):
        x.add_(1)
        row = x[0]
        row.mul_(3)
        return x

    loaded = reloaded(jit.trace(f, r(2, 2)))
    x = flambeau.ones(2, 2)
    loaded(x)
    agree(x, flambeau.tensor([[6.0, 6.0], [2.0, 2.0]]))


def test_buffers_are_written():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", flambeau.zeros(1))

        def forward(self, x):
            self.count += 1
            return x * self.count

    net = Counter()
    loaded = reloaded(jit.trace(net, r(2), check_trace=False))
    before = loaded.count.item()
    loaded(r(2))
    loaded(r(2))
    assert loaded.count.item() == before + 2


def test_data_and_random_numbers():
    check(lambda x: x.data * 2 + x.detach(), (r(2),), (r(3),))
    traced = reloaded(jit.trace(lambda x: x + flambeau.rand(x.shape[0]), r(2), check_trace=False))
    flambeau.manual_seed(3)
    first = traced(flambeau.zeros(5))
    flambeau.manual_seed(3)
    agree(first, flambeau.rand(5))


def test_empty_batches_and_half_types():
    f = lambda x: (x.reshape(x.shape[0], x.numel() // 2 or 3) * 2).sum(1)  # noqa: E731
    check(lambda x: (x * 2).sum(1) + x.new_zeros(x.shape[0]), (r(2, 3),), (r(0, 3),))
    with pytest.raises(jit.Error, match="traced where a size"):
        jit.trace(f, r(2, 3), check_trace=False)(r(0, 3))
    for dtype in (flambeau.float16, flambeau.bfloat16, flambeau.float64):
        net = nn.Linear(2, 2).to(dtype)
        x = r(3, 2).to(dtype)
        result = reloaded(jit.trace(net, x))(x)
        assert result.dtype == dtype and flambeau.equal(result, net(x))


def test_nan_and_shared_modules():
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, nn.ReLU(), layer)
    loaded = reloaded(jit.trace(net, r(1, 2)))
    assert len(list(loaded.parameters())) == 2 and loaded[0] is loaded[2]
    x = flambeau.tensor([[float("nan"), 1.0]])
    assert bool(loaded(x).isnan().all())


def test_modules_in_train_and_eval():
    traced = jit.trace(nn.Sequential(nn.Linear(2, 2), nn.Dropout()), r(1, 2), check_trace=False)
    assert traced.training and not traced.eval().training and not traced[1].training
    assert reloaded(traced).training is False


def test_methods_and_trace_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(flambeau.tensor([2.0]))

        def forward(self, x):
            return x * self.weight

        def plus(self, x, y):
            return x + y * self.weight

    net = Net()
    made = jit.trace_module(net, {"forward": r(2), "plus": (r(2), r(2))})
    loaded = reloaded(made)
    x, y = r(3), r(3)
    agree(loaded(x), net(x))
    agree(loaded.plus(x, y), net.plus(x, y))
    method = jit.trace(net.plus, (r(2), r(2)))
    agree(method(x, y), net.plus(x, y))
    with pytest.raises(AttributeError, match="expected torch.nn.Module"):
        jit.trace_module(lambda x: x, {"forward": r(2)})
    with pytest.raises(AttributeError, match="expected a dictionary"):
        jit.trace_module(net, (r(2),))


def test_programs_in_programs():
    inner = jit.trace(lambda x: x.reshape(x.shape[0], -1) + 1, r(2, 2))
    outer = check(lambda x: inner(x).sum(1), (r(2, 3),), (r(4, 2, 2),))
    assert "torch.sum" in outer.code
    net = nn.Sequential(reloaded(jit.trace(nn.Linear(2, 3), r(1, 2))), nn.ReLU())
    check(net, (r(2, 2),), (r(3, 2),))
    with pytest.warns(UserWarning, match="already a ScriptModule"):
        assert jit.trace(inner, r(2)) is inner


def test_is_tracing():
    seen = []

    def f(x):
        seen.append(jit.is_tracing())
        return x

    jit.trace(f, r(2), check_trace=False)
    assert seen == [True] and not jit.is_tracing()


def test_errors_leave_nothing_behind():
    def f(x):
        x.shape[0] + 1
        raise KeyError("mine")

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            jit.trace(f, r(2))
    assert not jit.is_tracing() and type(r(2).shape[0]) is int and "shape" not in vars(flambeau.Tensor)


def test_other_threads_see_plain_sizes():
    seen = []

    def f(x):
        thread = threading.Thread(target=lambda: seen.append(type(x.shape[0])))
        thread.start()
        thread.join()
        return x * x.shape[0]

    jit.trace(f, r(2), check_trace=False)
    assert seen == [int]


def test_custom_operators_are_kept_by_name():
    lib = flambeau.library.Library("tracetests", "DEF")
    lib.define("scale(Tensor x, float by) -> Tensor")
    lib.impl("scale", lambda x, by: x * by, "CompositeImplicitAutograd")
    text = "class Plain(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return ops.tracetests.scale(x, 3.)\n"
    from flambeau.jit._interpreter import Program

    forward = Program({"__torch__.py": text}, ()).find(["__torch__", "Plain"]).methods["forward"]
    agree(forward(None, flambeau.ones(2)), flambeau.full((2,), 3.0))


def test_save_refuses_what_is_no_program(tmp_path):
    with pytest.raises(AttributeError, match="trace it first"):
        jit.save(nn.Linear(2, 2), tmp_path / "x.pt")
    assert not (tmp_path / "x.pt").exists()
    for kind in (jit.RecursiveScriptModule, jit.ScriptFunction):
        with pytest.raises(RuntimeError, match="are made by"):
            kind()
