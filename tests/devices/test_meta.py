"""Tensors without data: what they are, what they refuse, where they are made, and modules that are filled later."""

from __future__ import annotations

import copy
import io
import os
import pickle
import threading

import pytest
from flambeau.core.base.memory import memory_stats

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.operations.declare.registry import REGISTRY

HUGE = 10**12


def meta(*sizes, **options):
    return flambeau.empty(*sizes, device="meta", **options)


# --- what they are ------------------------------
def test_a_tensor_without_data():
    x = meta(2, 3, dtype=flambeau.float64)
    assert (x.device, x.is_meta, x.is_cpu) == (flambeau.device("meta"), True, False)
    assert (x.shape, x.stride(), x.data_ptr(), x.untyped_storage().nbytes()) == ((2, 3), (3, 1), 0, 48)
    assert repr(x) == "tensor(..., device='meta', size=(2, 3), dtype=flambeau.float64)"
    assert flambeau.empty(2, device="meta:1").device == flambeau.device("meta")
    assert f"{meta(())}" == "tensor(..., device='meta', size=())"
    assert [t.shape for t in x] == [(3,), (3,)] and len(x) == 2
    assert x.T.stride() == (1, 3) and x.T.is_meta and x.T.untyped_storage() is x.untyped_storage()


def test_sizes_of_any_number_cost_nothing():
    before = memory_stats()["peak_allocated_bytes"], memory_stats()["system_allocations"]
    x, w = meta(HUGE), meta(10**6, 10**6, requires_grad=True)
    assert (x + 1).exp().sum(0).shape == () and x.sort().values.shape == (HUGE,)
    assert (x.view(10**6, -1) @ w).softmax(1).cumsum(0)[5:].shape == (10**6 - 5, 10**6)
    loss = F.cross_entropy(w, meta(10**6, dtype=flambeau.int64))
    loss.backward()
    assert w.grad.shape == w.shape and w.grad.is_meta
    made = (
        flambeau.arange(HUGE, device="meta"),
        flambeau.randn(HUGE, device="meta"),
        flambeau.zeros(HUGE, device="meta"),
        flambeau.linspace(0, 1, HUGE, device="meta"),
        flambeau.eye(10**6, device="meta"),
        flambeau.hann_window(HUGE, device="meta"),
        flambeau.tril_indices(10**6, 10**6, device="meta"),
        flambeau.full((HUGE,), 2.0, device="meta"),
    )
    assert all(t.is_meta and t.numel() >= HUGE // 2 for t in made)
    assert F.conv2d(meta(1000, 3, 10**4, 10**4), meta(8, 3, 3, 3)).shape == (1000, 8, 9998, 9998)
    assert (memory_stats()["peak_allocated_bytes"], memory_stats()["system_allocations"]) == before


def test_every_window_is_made_there():
    """Those of a huge length cost nothing, either."""
    options: dict = {"general_cosine": {"a": (0.5, 0.5)}}
    tried = 0
    before = memory_stats()["peak_allocated_bytes"]
    for entry in REGISTRY.values():
        if entry.kind == "window":
            made = entry.function(HUGE, device="meta", **options.get(entry.function.__name__, {}))
            assert made.is_meta and made.shape == (HUGE,), entry.name
            tried += 1
    assert tried > 12 and memory_stats()["peak_allocated_bytes"] - before < 1 << 20


def test_sizes_end_where_64_bits_do():
    with pytest.raises(RuntimeError, match="overflowed"):
        meta(2**40, 2**40)
    with pytest.raises(RuntimeError, match="overflow"):
        meta(2**62)
    with pytest.raises(RuntimeError, match="64 bits"):
        flambeau.cat([meta(2**60, dtype=flambeau.uint8)] * 16)


def test_devices_do_not_mix():
    x = meta(2, 3)
    with pytest.raises(RuntimeError, match=r"add\(\): Expected all tensors to be on the same device"):
        x + flambeau.ones(2, 3)
    assert (x + flambeau.tensor(1.0)).is_meta, "numbers of the CPU may be mixed in"
    assert x.copy_(flambeau.ones(2, 3)) is x and flambeau.ones(2).to("meta").is_meta
    assert x.T.contiguous().to("meta").stride() == (2, 1)
    assert flambeau.ones(3, 2).T.to("meta").stride() == (1, 2)


# --- what they refuse ------------------------------
NO_NUMBER = "cannot be called on meta tensors"
NO_DATA = "no data"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.sum().item(), RuntimeError, NO_NUMBER),
        (lambda x: bool(x.sum()), RuntimeError, NO_NUMBER),
        (lambda x: float(x.sum()), RuntimeError, NO_NUMBER),
        (lambda x: int(x.sum()), RuntimeError, NO_NUMBER),
        (lambda x: complex(x.sum()), RuntimeError, NO_NUMBER),
        (lambda x: [1, 2][x.sum().long()], RuntimeError, NO_NUMBER),
        (lambda x: flambeau.allclose(x, x), RuntimeError, NO_NUMBER),
        (lambda x: x.tolist(), NotImplementedError, NO_DATA),
        (lambda x: x.cpu(), NotImplementedError, NO_DATA),
        (lambda x: x.to("cpu"), NotImplementedError, NO_DATA),
        (lambda x: flambeau.ones(2, 3).copy_(x), NotImplementedError, NO_DATA),
        (lambda x: x.numpy(), TypeError, "meta"),
        (lambda x: x.__dlpack__(), BufferError, "meta"),
        (lambda x: memoryview(x.untyped_storage()), BufferError, "meta"),
        (lambda x: x.nonzero(), NotImplementedError, r"nonzero\(\)"),
        (lambda x: x[x > 0], NotImplementedError, r"(nonzero|__getitem__)\(\)"),
        (lambda x: x.unique(), NotImplementedError, r"unique\(\)"),
        (lambda x: flambeau.equal(x, x + 1), NotImplementedError, r"equal\(\)"),
        (lambda x: x.long()[0].bincount(), NotImplementedError, r"bincount\(\)"),
        (lambda x: x[0].repeat_interleave(x[0].long()), NotImplementedError, r"repeat_interleave\(\)"),
    ],
)
def test_what_needs_elements_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(meta(2, 3))


def test_errors_are_those_of_the_cpu():
    with pytest.raises(RuntimeError, match="must match"):
        meta(2, 3) + meta(4)
    with pytest.raises(RuntimeError, match="linalg.inv"):
        flambeau.linalg.inv(meta(2, 3))
    with pytest.raises(IndexError, match="out of range"):
        meta(2, 3).sum(2)
    with pytest.raises(RuntimeError, match="fft.fft"):
        flambeau.fft.fft(meta(3, dtype=flambeau.float16))


# --- writes ------------------------------
def test_writes_under_masks_keep_their_history():
    x, values = meta(3, 4, requires_grad=True), meta(5, requires_grad=True)
    y = x * 1
    y[meta(3, 4, dtype=flambeau.bool)] = values
    y[meta(3, dtype=flambeau.bool)] = 0.0
    y.masked_scatter_(meta(3, 4, dtype=flambeau.bool), values)
    y.index_fill_(0, meta(2, dtype=flambeau.int64), 1.0)
    y.sum().backward()
    assert (x.grad.shape, values.grad.shape) == ((3, 4), (5,))


def test_versions_are_counted():
    x = meta(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_no_random_numbers_are_drawn():
    flambeau.manual_seed(3)
    before = flambeau.get_rng_state()
    x = flambeau.randn(5, device="meta").uniform_().bernoulli_()
    F.dropout(x), flambeau.randperm(5, device="meta"), flambeau.poisson(x.abs()), x.multinomial(2)
    assert flambeau.equal(flambeau.get_rng_state(), before)


# --- the default device ------------------------------
def test_a_device_is_a_context():
    place = flambeau.device("meta")
    with place as entered:
        assert entered is place and flambeau.get_default_device() == place
        made = [
            flambeau.empty(2), flambeau.zeros(2, 3), flambeau.tensor([1, 2]), flambeau.tensor(1.0),
            flambeau.arange(3), flambeau.eye(2), flambeau.randn(2), flambeau.rand(2), flambeau.randint(3, (2,)),
            flambeau.randperm(4), flambeau.linspace(0, 1, 3), flambeau.full((2,), 1.0), flambeau.as_tensor([1]),
            flambeau.normal(0.0, 1.0, (2,)), flambeau.hann_window(4), flambeau.fft.fftfreq(4),
            flambeau.empty_strided((2,), (1,)), flambeau.asarray([1.0]), flambeau.scalar_tensor(2.0),
            flambeau.tril_indices(2, 2), flambeau.as_tensor(flambeau.ones(2, device="cpu")),
        ]  # fmt: skip
        assert all(t.is_meta for t in made)
        assert flambeau.zeros(2, device="cpu").is_cpu
        cpu = flambeau.ones(2, device=flambeau.device("cpu"))
        assert cpu[[0, 1]].is_cpu and cpu[[True, False]].tolist() == [1] and cpu[True].is_cpu
        likes = [flambeau.zeros_like(cpu), cpu.new_zeros(2), cpu.new_tensor([1]), cpu + 1, cpu.clone()]
        assert all(t.is_cpu for t in likes)
        with flambeau.device("cpu"):
            assert flambeau.empty(2).is_cpu
            with place:
                assert flambeau.empty(2).is_meta
            assert flambeau.get_default_device() == flambeau.device("cpu")
        assert flambeau.empty(2).is_meta
        assert nn.Linear(2, 3).weight.is_meta
    assert flambeau.get_default_device() == flambeau.device("cpu") and flambeau.empty(2).is_cpu


def test_a_context_ends_with_an_error():
    with pytest.raises(KeyError), flambeau.device("meta"):
        raise KeyError
    assert flambeau.empty(2).is_cpu


def test_a_device_decorates_functions():
    @flambeau.device("meta")
    def made(n, *, more=0):
        """Doc."""
        return flambeau.zeros(n + more)

    assert made(2, more=1).is_meta and made.__name__ == "made" and flambeau.zeros(1).is_cpu


def test_set_default_device():
    try:
        flambeau.set_default_device("meta")
        assert flambeau.zeros(2).is_meta and flambeau.get_default_device() == flambeau.device("meta")
        with flambeau.device("cpu"):
            assert flambeau.zeros(2).is_cpu
            flambeau.set_default_device("meta")
            assert flambeau.zeros(2).is_cpu, "the context goes before it"
        assert flambeau.zeros(2).is_meta
        seen = []
        thread = threading.Thread(target=lambda: seen.append(flambeau.zeros(2).device.type))
        thread.start()
        thread.join()
        assert seen == ["cpu"], "each thread has its own"
    finally:
        flambeau.set_default_device(None)
    assert flambeau.zeros(2).is_cpu


def test_devices_that_are_none_are_refused():
    before = flambeau.get_default_device()
    with pytest.raises(RuntimeError, match="nonsense"):
        flambeau.set_default_device("nonsense")
    with pytest.raises(RuntimeError, match="rocm"):
        flambeau.set_default_device("rocm")
    with pytest.raises(RuntimeError, match="rocm"), flambeau.device("rocm"):
        raise AssertionError("not reached")
    with pytest.raises(RuntimeError, match="Expected one of"):
        flambeau.device("nonsense")
    with pytest.raises(RuntimeError, match="negative"):
        flambeau.device("meta", -1)
    assert flambeau.get_default_device() == before and flambeau.zeros(1).is_cpu


def test_a_device_stays_a_value():
    place = flambeau.device("meta")
    assert (place, hash(place)) == (flambeau.device("meta"), hash(flambeau.device("meta")))
    assert repr(place) == "device(type='meta')" and str(flambeau.device("meta:1")) == "meta:1"
    assert pickle.loads(pickle.dumps(place)) == place and copy.deepcopy(place) == place


def test_a_fork_keeps_the_device():
    with flambeau.device("meta"):
        flambeau.zeros(2)
        child = os.fork()
        if child == 0:
            os._exit(0 if flambeau.zeros(3).sum().is_meta else 1)
    assert os.waitpid(child, 0)[1] == 0


# --- copies ------------------------------
def test_copies_and_pickles():
    x = meta(2, 3, requires_grad=True)
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert made.is_meta and (made.shape, made.requires_grad) == (x.shape, True)
    parts = {"whole": meta(4, 4), "huge": meta(HUGE)}
    parts["turned"] = parts["whole"].T
    back = pickle.loads(pickle.dumps(parts))
    assert back["turned"].stride() == (1, 4) and back["huge"].shape == (HUGE,)
    assert back["turned"].untyped_storage() is back["whole"].untyped_storage()


def test_files():
    file = io.BytesIO()
    parts = {"a": meta(3, HUGE).T, "b": nn.Parameter(meta(2)), "c": flambeau.ones(2)}
    flambeau.save(parts, file)
    assert len(file.getvalue()) < 10_000
    back = flambeau.load(io.BytesIO(file.getvalue()))
    assert back["a"].is_meta and back["a"].stride() == (1, HUGE) and back["c"].tolist() == [1, 1]
    assert isinstance(back["b"], nn.Parameter)
    everything = flambeau.load(io.BytesIO(file.getvalue()), map_location="meta")
    assert all(t.is_meta for t in everything.values())


# --- modules ------------------------------
def network():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))


def test_modules_are_built_without_data_and_filled_later():
    with flambeau.device("meta"):
        net = network()
    assert all(t.is_meta for t in net.state_dict().values())
    assert isinstance(net[0].weight, nn.Parameter)
    net(meta(2, 1, 8, 8)).sum().backward()
    assert net[0].weight.grad.shape == (4, 1, 3, 3) and net[0].weight.grad.is_meta
    net.zero_grad()
    with pytest.raises(NotImplementedError, match=NO_DATA + r"! Please use Module.to_empty\(\)"):
        net.to("cpu")
    real = network()
    assert net.to_empty(device="cpu") is net
    assert all(t.is_cpu for t in net.state_dict().values()) and all(p.is_leaf for p in net.parameters())
    net.load_state_dict(real.state_dict())
    x = flambeau.randn(2, 1, 8, 8)
    assert flambeau.equal(net.eval()(x), real.eval()(x))


@pytest.mark.filterwarnings("ignore:for .* no-op")
def test_state_is_assigned():
    real, net = network(), network().to("meta")
    with pytest.warns(UserWarning, match="for 0.weight: copying .* is a no-op"):
        net.load_state_dict(real.state_dict())
    assert all(t.is_meta for t in net.state_dict().values())
    net.load_state_dict(real.state_dict(), assign=True)
    assert all(t.is_cpu for t in net.state_dict().values())
    assert isinstance(net[0].weight, nn.Parameter) and net[0].weight.requires_grad


def test_every_layer_with_a_device_argument_is_built_there():
    made = [
        nn.Linear(2, 3, device="meta"), nn.LSTM(2, 3, device="meta"), nn.Embedding(5, 2, device="meta"),
        nn.LayerNorm(3, device="meta"), nn.MultiheadAttention(4, 2, device="meta"), nn.BatchNorm1d(3, device="meta"),
        nn.TransformerEncoderLayer(4, 2, 8, device="meta"),
    ]  # fmt: skip
    for layer in made:
        assert all(t.is_meta for t in layer.state_dict().values()), type(layer).__name__
    assert made[1](meta(5, 1, 2))[0].shape == (5, 1, 3)
    assert made[6](meta(3, 5, 4)).shape == (3, 5, 4)


def test_skip_init():
    flambeau.manual_seed(1)
    before = flambeau.get_rng_state()
    made = nn.utils.skip_init(nn.Linear, 3, 2, dtype=flambeau.float64)
    assert made.weight.is_cpu and made.weight.requires_grad and made.weight.dtype == flambeau.float64
    assert nn.utils.skip_init(nn.Linear, 3, 2, device="meta").weight.is_meta
    assert flambeau.equal(flambeau.get_rng_state(), before), "nothing is drawn"
    for wrong in (nn.ReLU, int):
        with pytest.raises(RuntimeError, match=r"skip_init\(\)"):
            nn.utils.skip_init(wrong)


def test_an_optimiser_steps_without_data():
    net = network().to("meta")
    optimiser = flambeau.optim.Adam(net.parameters())
    net(meta(2, 1, 8, 8)).sum().backward()
    optimiser.step()
    assert all(s["exp_avg"].is_meta for s in optimiser.state.values())


def test_undefined_gradients_are_zeros_where_the_result_is():
    class Two(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, one, two):
            assert one.is_meta and two.is_meta
            return one + two

    x = meta(3, requires_grad=True)
    Two.apply(x)[0].sum().backward()
    assert x.grad.is_meta
