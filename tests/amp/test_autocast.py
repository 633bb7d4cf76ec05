"""`autocast`: its state, what is cast, what is kept, and who else is there."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import threading
import warnings
import weakref

import numpy as np
import pytest
from flambeau.core.call.interceptors import has_interceptors

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils.checkpoint import checkpoint

BF16, F16, F32, F64 = flambeau.bfloat16, flambeau.float16, flambeau.float32, flambeau.float64


def state():
    return (
        flambeau.is_autocast_enabled("cpu"),
        flambeau.get_autocast_dtype("cpu"),
        flambeau.is_autocast_cache_enabled(),
        has_interceptors(),
    )


@pytest.fixture(autouse=True)
def state_is_left_as_it_was():
    before = state()
    yield
    assert state() == before == (False, BF16, True, before[3])
    assert flambeau.autocast_increment_nesting() == 1
    assert flambeau.autocast_decrement_nesting() == 0


def product():
    return (flambeau.ones(2, 2) @ flambeau.ones(2, 2)).dtype


# --- the state ------------------------------
def test_blocks_nest():
    with flambeau.autocast("cpu"):
        assert product() == BF16
        with flambeau.autocast("cpu", dtype=F16):
            assert product() == F16
            with flambeau.autocast("cpu", enabled=False):
                assert product() == F32
                assert not flambeau.is_autocast_enabled("cpu")
            assert product() == F16
        assert product() == BF16
    assert product() == F32


def test_one_object_may_be_entered_again_inside_itself():
    block = flambeau.autocast("cpu")
    with block:
        with block:
            assert product() == BF16
        assert product() == BF16
    assert product() == F32


def test_an_exception_leaves_the_state_right():
    with pytest.raises(ZeroDivisionError), flambeau.autocast("cpu"), flambeau.autocast("cpu", F16):
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="same dtype"), flambeau.autocast("cpu"):
        flambeau.ones(2, 2, dtype=F64) @ flambeau.ones(2, 2)


def test_decorates_functions_and_methods():
    class Net(nn.Module):
        @flambeau.autocast("cpu")
        def forward(self, x, depth):
            """Products."""
            return self(x, depth - 1) if depth else x @ x

    assert Net()(flambeau.ones(2, 2), 3).dtype == BF16
    assert Net.forward.__doc__ == "Products."
    assert flambeau.autocast("cpu", dtype=F16)(product)() == F16
    assert flambeau.autocast("cpu", enabled=False)(product)() == F32


@pytest.mark.parametrize("wrong", [3, None, "cpu"])
def test_decorates_nothing_else(wrong):
    with pytest.raises(TypeError, match="requires a callable"):
        flambeau.autocast("cpu")(wrong)


def test_belongs_to_the_thread():
    found = []
    with flambeau.autocast("cpu"):
        thread = threading.Thread(
            target=lambda: found.append((product(), flambeau.is_autocast_enabled("cpu")))
        )
        thread.start()
        thread.join()
    assert found == [(F32, False)]


def test_a_thread_that_ends_with_it_on_leaves_nothing():
    before = has_interceptors()
    thread = threading.Thread(target=lambda: flambeau.set_autocast_enabled("cpu", True))
    thread.start()
    thread.join()
    gc.collect()
    assert has_interceptors() == before


def test_what_is_kept_ends_with_the_thread():
    """A finaliser that runs operations while the thread's state is taken down finds no table that is gone."""

    class Last:
        def __del__(self):
            found.append((flambeau.ones(2, 2) @ w).dtype)

    w, found, own = nn.Parameter(flambeau.ones(2, 2)), [], threading.local()

    def work():
        own.last = Last()
        flambeau.set_autocast_enabled("cpu", True)
        flambeau.ones(2, 2) @ w

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    gc.collect()
    assert len(found) == 3


def test_ends_in_the_thread_where_it_began():
    block = flambeau.autocast("cpu")
    found = []

    def leave():
        with pytest.raises(RuntimeError, match="another thread"):
            block.__exit__(None, None, None)
        found.append(True)

    with block:
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
    assert found


def test_a_child_goes_on_as_its_parent_was():
    with flambeau.autocast("cpu"):
        pid = os.fork()
        if not pid:
            os._exit(0 if product() == BF16 and flambeau.is_autocast_enabled("cpu") else 1)
        assert os.waitpid(pid, 0)[1] == 0


def test_goes_along_with_copies():
    for block in (
        copy.deepcopy(flambeau.autocast("cpu")),
        pickle.loads(pickle.dumps(flambeau.autocast("cpu"))),
    ):
        with block:
            assert product() == BF16


def test_functions_of_the_state():
    flambeau.set_autocast_enabled("cpu", True)
    try:
        assert product() == BF16
        flambeau.set_autocast_dtype("cpu", F16)
        assert product() == F16
    finally:
        flambeau.set_autocast_enabled("cpu", False)
        flambeau.set_autocast_dtype("cpu", BF16)
    assert not flambeau.is_autocast_enabled()  # "cuda"'s
    with pytest.warns(DeprecationWarning, match="is_autocast_enabled"):
        assert not flambeau.is_autocast_cpu_enabled()
    with pytest.warns(DeprecationWarning, match=r"get_autocast_dtype\('cuda'\)"):
        assert flambeau.get_autocast_gpu_dtype() == F16


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: flambeau.autocast(3), ValueError),
        (lambda: flambeau.autocast("meta"), RuntimeError),
        (lambda: flambeau.autocast("nowhere"), RuntimeError),
        (lambda: flambeau.is_autocast_enabled(3), TypeError),
        (lambda: flambeau.is_autocast_enabled("nowhere"), RuntimeError),
        (lambda: flambeau.set_autocast_enabled("cpu", 1), TypeError),
        (lambda: flambeau.set_autocast_enabled(1), TypeError),
        (lambda: flambeau.set_autocast_dtype("cpu", 3), TypeError),
        (lambda: flambeau.set_autocast_cache_enabled(1), TypeError),
        (lambda: flambeau.amp.custom_fwd(device_type=3), ValueError),
        (lambda: flambeau.amp.custom_bwd(device_type=3), ValueError),
    ],
)
def test_wrong_arguments(call, error):
    with pytest.raises(error):
        call()


def test_other_dtypes_are_a_warning():
    with pytest.warns(UserWarning, match="In CPU autocast, but the target dtype is not supported"):
        block = flambeau.autocast("cpu", dtype=F32)
    with block:
        assert product() == F32


def test_cuda_without_a_device_is_a_warning():
    if flambeau.cuda.is_available():
        assert flambeau.autocast("cuda")._enabled
        return
    with pytest.warns(UserWarning, match="CUDA is not available"), flambeau.autocast("cuda"):
        assert not flambeau.is_autocast_enabled("cuda")


# --- what is cast ------------------------------
def test_other_devices_and_double_are_not_cast():
    x = flambeau.ones(2, 2)
    with flambeau.autocast("opencl"):
        assert (x @ x).dtype == F32
    with flambeau.autocast("cpu"):
        assert (x.double() @ x.double()).dtype == F64
        assert (x.to(flambeau.complex64) @ x.to(flambeau.complex64)).dtype == flambeau.complex64
        assert (x.long() @ x.long()).dtype == flambeau.int64


def test_forms_in_place_and_with_out_are_not_cast():
    x = flambeau.ones(2, 2)
    with flambeau.autocast("cpu"):
        assert x.clone().addmm_(x, x).dtype == F32
        out = flambeau.empty(2, 2)
        assert flambeau.mm(x, x, out=out) is out
        assert (x @ x).add_(x).dtype == BF16
        with pytest.raises(RuntimeError):
            x.to(BF16).addmm_(x, x)
        with pytest.raises(RuntimeError):
            flambeau.mm(x.to(BF16), x, out=out)


def test_operators_and_methods_are_the_same_operations():
    x = flambeau.ones(2, 2)
    with flambeau.autocast("cpu"):
        assert {(x @ x).dtype, x.matmul(x).dtype, x.mm(x).dtype, flambeau.matmul(x, other=x).dtype} == {BF16}


def test_widest_refuses_the_other_half_type():
    x = flambeau.ones(2, dtype=F16)
    with flambeau.autocast("cpu"), pytest.raises(RuntimeError, match="Unexpected floating ScalarType"):
        flambeau.cat([x, x])


def test_binary_cross_entropy_is_refused_on_accelerators():
    """Rules of accelerators are read off tensors without data."""
    x = flambeau.rand(3, device="meta")
    flambeau.set_autocast_enabled("meta", True)
    try:
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(x, x)
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            nn.BCELoss()(x, x)
        assert F.binary_cross_entropy_with_logits(x.half(), x.half()).dtype == F32
    finally:
        flambeau.set_autocast_enabled("meta", False)
    with flambeau.autocast("cpu"):
        assert F.binary_cross_entropy(flambeau.rand(3), flambeau.rand(3)).dtype == F32


# Dtypes of results in PyTorch 2.13 under autocast("cpu"): of inputs of float32, and of bfloat16.
LAYERS = [
    (lambda: nn.LSTM(8, 6, 2), (BF16, BF16, BF16), (BF16, BF16, BF16)),
    (lambda: nn.LSTM(8, 6, bidirectional=True), (BF16, BF16, BF16), (BF16, BF16, BF16)),
    (lambda: nn.GRU(8, 6, 2), (F32, F32), (BF16, BF16)),
    (lambda: nn.RNN(8, 6), (BF16, BF16), (BF16, BF16)),
    (lambda: nn.TransformerEncoderLayer(8, 2, 16), (F32,), (BF16,)),
    (lambda: nn.LayerNorm(8), (F32,), (BF16,)),
    (lambda: nn.GroupNorm(3, 3), (F32,), (BF16,)),
    (lambda: nn.RMSNorm(8), (F32,), (BF16,)),
    (lambda: nn.BatchNorm1d(3), (F32,), (BF16,)),
    (lambda: nn.InstanceNorm1d(3, affine=True), (F32,), (BF16,)),
    (lambda: nn.Conv1d(3, 4, 3), (BF16,), (BF16,)),
    (lambda: nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)), (BF16,), (BF16,)),
    (lambda: nn.PReLU(), (BF16,), (BF16,)),
]


@pytest.mark.parametrize("make, single, lower", LAYERS)
def test_layers_end_at_their_dtypes(make, single, lower):
    layer, x = make(), flambeau.randn(5, 3, 8)
    for given, wanted in ((x, single), (x.to(BF16), lower)):
        with flambeau.autocast("cpu"):
            found = layer(given)
        assert tuple(t.dtype for t in flat(found)) == wanted
        sum(t.float().sum() for t in flat(found)).backward()
        assert all(p.grad.dtype == F32 for p in layer.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    "cell, single", [(nn.LSTMCell, (F32, F32)), (nn.GRUCell, (F32,)), (nn.RNNCell, (BF16,))]
)
def test_cells_end_at_their_dtypes(cell, single):
    x = flambeau.randn(3, 8)
    with flambeau.autocast("cpu"):
        assert tuple(t.dtype for t in flat(cell(8, 6)(x))) == single
        assert {t.dtype for t in flat(cell(8, 6)(x.to(BF16)))} == {BF16}


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_ends_in_the_lower_dtype(need_weights):
    layer, x = nn.MultiheadAttention(8, 2), flambeau.randn(5, 3, 8)
    with flambeau.autocast("cpu"):
        found, weights = layer(x, x, x, attn_mask=flambeau.zeros(5, 5), need_weights=need_weights)
    assert found.dtype == BF16 and (weights is None or weights.dtype == BF16)


def flat(found):
    return [found] if isinstance(found, flambeau.Tensor) else [t for f in found for t in flat(f)]


def test_values_are_those_of_rounded_operands():
    x, w = flambeau.randn(5, 7), flambeau.randn(4, 7)
    with flambeau.autocast("cpu"):
        found = F.linear(x, w)
    assert flambeau.equal(found, F.linear(x.to(BF16), w.to(BF16)))


# --- gradients ------------------------------
def test_gradients_have_the_dtypes_of_what_they_are_of():
    w = flambeau.randn(3, 3, requires_grad=True)
    x = flambeau.randn(3, 3, requires_grad=True, dtype=BF16)
    with flambeau.autocast("cpu"):
        y = x @ w
        y.sum().backward()  # inside, too
    assert (w.grad.dtype, x.grad.dtype) == (F32, BF16)
    expected = flambeau.autograd.grad((x @ w.to(BF16)).sum(), (w, x))
    assert flambeau.equal(w.grad, expected[0]) and flambeau.equal(x.grad, expected[1])


def test_a_pass_inside_of_the_block_is_not_cast():
    """The second derivative of a product of float32 outside of the block is one of float32."""
    x = flambeau.randn(3, 3, requires_grad=True)
    y = x @ x
    with flambeau.autocast("cpu"):
        (grad,) = flambeau.autograd.grad(y.sum(), x, create_graph=True)
        assert product() == BF16
    assert flambeau.equal(grad, flambeau.ones(3, 3) @ x.T + x.T @ flambeau.ones(3, 3))


class Recorded(flambeau.autograd.Function):
    seen: list = []

    @staticmethod
    def forward(ctx, x):
        Recorded.seen.append((product(), flambeau.is_autocast_enabled("cpu")))
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        Recorded.seen.append((product(), flambeau.is_autocast_enabled("cpu")))
        return grad * 2


@pytest.mark.parametrize("inside", [True, False])
def test_a_function_of_the_program_runs_as_the_program_around_it(inside):
    Recorded.seen.clear()
    x = flambeau.ones(2, requires_grad=True)
    with flambeau.autocast("cpu"):
        y = Recorded.apply(x).sum()
        if inside:
            y.backward()
    if not inside:
        y.backward()
    assert Recorded.seen == [(BF16, True), (BF16, True) if inside else (F32, False)]


def test_custom_fwd_and_custom_bwd():
    class Cast(flambeau.autograd.Function):
        @staticmethod
        @flambeau.amp.custom_fwd(device_type="cpu", cast_inputs=F32)
        def forward(ctx, x, others):
            seen.append((x.dtype, others[0].dtype, others[1].dtype, product()))
            return x * 2

        @staticmethod
        @flambeau.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            seen.append(product())
            return grad * 2, None

    class Carried(Cast):
        @staticmethod
        @flambeau.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, others):
            seen.append(product())
            return x * 2

    seen: list = []
    x = flambeau.ones(2, dtype=BF16, requires_grad=True)
    others = [flambeau.ones(2, dtype=BF16), flambeau.ones(2, dtype=F64)]
    with flambeau.autocast("cpu"):
        y = Cast.apply(x, others)
        z = Carried.apply(x, others)
    assert y.dtype == F32
    y.sum().backward()
    z.sum().backward()
    assert seen == [(F32, F32, F64, F32), BF16, F32, BF16]
    seen.clear()
    Cast.apply(x, others)
    assert seen == [(BF16, BF16, F64, F32)]  # nothing happens outside


# --- what is kept ------------------------------
class Casts(flambeau.overrides.Mode):
    """Counts conversions."""

    def __init__(self):
        self.count = 0

    def handle(self, operation, types, args, kwargs):
        self.count += operation.__name__ == "to"
        return operation(*args, **kwargs)


@pytest.mark.parametrize("kept, expected", [(True, 3), (False, 4)])
def test_a_parameter_is_cast_once(kept, expected):
    w, x = nn.Parameter(flambeau.randn(3, 3)), flambeau.randn(3, 3)
    with Casts() as casts, flambeau.autocast("cpu", cache_enabled=kept):
        (x @ w), (x @ w)
    assert casts.count == expected


def test_what_is_kept_ends_with_the_outermost_block():
    w, x = nn.Parameter(flambeau.randn(3, 3)), flambeau.ones(3, 3, dtype=BF16)
    with Casts() as casts:
        with flambeau.autocast("cpu"):
            with flambeau.autocast("cpu"):
                x @ w
            x @ w
            assert casts.count == 1
            flambeau.clear_autocast_cache()
            x @ w
        assert casts.count == 2
        with flambeau.autocast("cpu"):
            x @ w
    assert casts.count == 3


def test_a_parameter_that_was_written_to_is_cast_anew():
    w, x = nn.Parameter(flambeau.ones(2, 2)), flambeau.ones(2, 2, dtype=BF16)
    with flambeau.autocast("cpu"):
        assert (x @ w).sum() == 8
        with flambeau.no_grad():
            w.mul_(2)
        assert (x @ w).sum() == 16


def test_what_was_cast_without_recording_is_not_taken_for_recorded():
    w, x = nn.Parameter(flambeau.ones(2, 2)), flambeau.ones(2, 2)
    with flambeau.autocast("cpu"):
        with flambeau.no_grad():
            assert not (x @ w).requires_grad
        (x @ w).sum().backward()
    assert w.grad is not None


def test_a_kept_cast_serves_several_backward_passes():
    w, x = nn.Parameter(flambeau.ones(2, 2)), flambeau.ones(2, 2)
    with flambeau.autocast("cpu"):
        first, second = (x @ w).sum(), (x @ w * 2).sum()
    first.backward()
    second.backward()
    assert flambeau.equal(w.grad, flambeau.full((2, 2), 6.0))


def test_nothing_is_held_after_the_block():
    w = nn.Parameter(flambeau.ones(2, 2))
    gone = []
    with flambeau.autocast("cpu"):
        kept = flambeau.ones(2, 2) @ w
    weakref.finalize(w, gone.append, True)
    del w, kept
    gc.collect()
    assert gone


# --- who else is there ------------------------------
class Seen(flambeau.Tensor):
    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append((func.__name__, [a.dtype for a in args if isinstance(a, flambeau.Tensor)]))
        return super().__torch_function__(func, types, args, kwargs)


def test_classes_see_what_the_program_gave_and_stay():
    Seen.calls.clear()
    x = flambeau.ones(2, 2).as_subclass(Seen)
    with flambeau.autocast("cpu"):
        y = x @ x
    assert ("matmul", [F32, F32]) in Seen.calls and type(y) is Seen and y.dtype == BF16


def test_upper_modes_see_the_operands_given_and_lower_ones_those_cast():
    seen = []

    class Upper(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(("upper", func.__name__, args[0].dtype if args else None))
            return func(*args, **(kwargs or {}))

    class Lower(flambeau.overrides.Mode):
        def handle(self, operation, types, args, kwargs):
            seen.append(("lower", operation.__name__, args[0].dtype))
            return operation(*args, **kwargs)

    x = flambeau.ones(2, 2)
    with flambeau.autocast("cpu"), Upper(), Lower():
        assert flambeau.mm(x, x).dtype == BF16
    calls = [s for s in seen if s[1] in ("mm", "to")]
    assert calls == [("upper", "mm", F32), ("lower", "to", F32), ("lower", "to", F32), ("lower", "mm", BF16)]


def test_forward_mode():
    x, t = flambeau.randn(3, 3), flambeau.randn(3, 3)
    w = nn.Parameter(flambeau.randn(3, 3))
    with flambeau.autocast("cpu"):
        value, tangent = flambeau.func.jvp(lambda a: a @ w, (x,), (t,))
    assert (value.dtype, tangent.dtype) == (BF16, BF16)
    assert flambeau.equal(tangent.detach(), (t.to(BF16) @ w.detach().to(BF16)))


def test_gradients_as_functions():
    x, w = flambeau.randn(3, 3), flambeau.randn(3, 3)
    with flambeau.autocast("cpu"):
        found = flambeau.func.grad(lambda a: (a @ w).float().sum())(x)
    assert found.dtype == F32


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("inside", [True, False])
def test_checkpoint_computes_again_as_it_did(reentrant, inside):
    seen = []

    def part(x):
        seen.append((product(), flambeau.get_autocast_dtype("cpu")))
        return (x @ x).float().sin()

    x = flambeau.randn(3, 3, requires_grad=True)
    with flambeau.autocast("cpu", dtype=F16):
        y = checkpoint(part, x, use_reentrant=reentrant).sum()
        if inside:
            y.backward()
    if not inside:
        y.backward()
    assert seen == [(F16, F16)] * 2
    found, x.grad = x.grad, None
    with flambeau.autocast("cpu", dtype=F16):
        z = part(x).sum()
    z.backward()
    assert flambeau.equal(found, x.grad)


def test_modules_in_threads_run_as_the_program_around_them():
    nets = [nn.Linear(2, 2) for _ in range(3)]
    x = flambeau.ones(1, 2)
    with flambeau.autocast("cpu"):
        assert [y.dtype for y in nn.parallel.parallel_apply(nets, [x] * 3)] == [BF16] * 3
    assert [y.dtype for y in nn.parallel.parallel_apply(nets, [x] * 3)] == [F32] * 3


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_loaded_as_without(workers):
    data = flambeau.utils.data.TensorDataset(flambeau.arange(6.0))
    with flambeau.autocast("cpu"):
        found = [x for (x,) in flambeau.utils.data.DataLoader(data, batch_size=3, num_workers=workers)]
    assert [x.dtype for x in found] == [F32, F32]


def test_nobody_watches_when_it_is_off():
    before = has_interceptors()
    with flambeau.autocast("cpu", enabled=False):
        assert has_interceptors() == before
    with flambeau.autocast("cpu"):
        assert has_interceptors()
    assert has_interceptors() == before


def test_old_names_warn():
    for name in ("cpu", "cuda"):
        module = getattr(flambeau, name).amp
        with pytest.warns(FutureWarning, match="deprecated"):
            block = module.autocast(enabled=False)
        assert isinstance(block, flambeau.autocast) and block.device == name
        with pytest.warns(FutureWarning, match="deprecated"):
            assert isinstance(module.GradScaler(enabled=False), flambeau.GradScaler)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        flambeau.cuda.amp.custom_fwd(lambda ctx, x: x)
        flambeau.cuda.amp.custom_bwd(lambda ctx, g: g)
    assert len(told) == 2


def test_a_network_learns_under_it():
    flambeau.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    optimiser = flambeau.optim.Adam(net.parameters(), lr=0.05)
    x = flambeau.randn(64, 4)
    wanted = x.sum(1, keepdim=True)
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        with flambeau.autocast("cpu"):
            loss = F.mse_loss(net(x), wanted)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10 and np.isfinite(losses).all()
