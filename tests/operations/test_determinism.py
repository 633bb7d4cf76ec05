"""What `use_deterministic_algorithms` says: every operation gives the same bits on each run, for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from samples import ALL, Operands, run

import flambeau
from flambeau.operations.declare.registry import REGISTRY

F = flambeau.nn.functional
WIDE = [
    e
    for e in REGISTRY.values()
    if e.kind in ("pointwise", "reduction", "row", "scan")
    and e.places
    and e.body is not None
    and "float32" in e.dtypes
]


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = flambeau.get_num_threads()
    yield
    flambeau.set_num_threads(before)


def bits(tensors):
    """The elements' bits, and those of what else there is."""
    found = []
    for t in tensors:
        if t is None:
            found.append(None)
        elif t.layout is not flambeau.strided:
            found.append(bits([t.coalesce().indices(), t.coalesce().values()]))
        else:
            found.append((t.dtype, tuple(t.shape), bytes(t.detach().contiguous().untyped_storage())))
    return found


def with_gradients(results, leaves):
    """The results, and the gradients of all that have a history with respect to all leaves; a refusal by its words."""
    ends = [r for r in results if r.requires_grad]
    if not ends or not leaves:
        return bits(results)
    try:
        given = [flambeau.ones_like(r) for r in ends]
        grads = flambeau.autograd.grad(ends, leaves, given, allow_unused=True)
    except (RuntimeError, NotImplementedError) as error:
        return [*bits(results), str(error)]
    return bits([*results, *grads])


@pytest.mark.parametrize(("entry", "text"), ALL, ids=lambda x: getattr(x, "name", None))
def test_every_operation_twice(entry, text):
    found = []
    for threads in (1, 2):
        flambeau.set_num_threads(threads)
        operands = Operands(grad=True)
        found.append(with_gradients(run(entry, text, operands), operands.leaves))
    assert found[0] == found[1]


def on_any_number_of_threads(make):
    """`make()` gives results and leaves; their bits are the same for 1, 3 and 64 threads."""
    found = []
    for threads in (1, 3, 64):
        flambeau.set_num_threads(threads)
        flambeau.manual_seed(4)
        results, leaves = make()
        found.append(with_gradients(results if isinstance(results, (list, tuple)) else [results], leaves))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("entry", WIDE, ids=lambda e: e.name)
def test_operations_on_much_at_once(entry):
    """Operands of which each thread has a part."""
    rng = np.random.default_rng(1)
    low, high = entry.domain if entry.kind == "pointwise" else (-1.0, 1.0)
    parameters = entry.function.__signature__.parameters.values()
    names = entry.details.get("operands") or [next(iter(parameters)).name]
    arrays = []
    for name in names:
        if name in ("condition", "mask"):
            arrays.append(rng.random((40, 2500)) < 0.5)
        elif name in entry.details.get("raw", ()):
            arrays.append(rng.integers(0, 9, (40, 2500)))
        else:
            arrays.append(rng.uniform(low, high, (40, 2500)).astype("float32"))
    named = [p.name for p in parameters if p.default is p.empty and p.name not in names]
    given = {n: (1 if n == "dim" else 0.5) for n in named if n not in ("args", "kwargs")}

    def make():
        operands = [flambeau.from_numpy(a.copy()) for a in arrays]
        leaves = [t.requires_grad_() for t in operands if t.is_floating_point() and entry.differentiable]
        return entry.function(*operands, **given), leaves

    on_any_number_of_threads(make)


MEETING = {
    "scatter_add": lambda x, i: flambeau.zeros(7, 300).scatter_add(0, i % 7, x),
    "scatter_reduce": lambda x, i: flambeau.ones(7, 300).scatter_reduce(0, i % 7, x, "mean"),
    "index_add": lambda x, i: flambeau.zeros(7, 300).index_add(0, i[:, 0] % 7, x),
    "index_put": lambda x, i: flambeau.zeros(300).index_put((i % 300,), x, accumulate=True),
    "gather": lambda x, i: x.gather(0, i),
    "index": lambda x, i: x[i[:, 0]],
    "take": lambda x, i: x.take(i),
    "embedding": lambda x, i: F.embedding(i, x),
    "cumsum": lambda x, i: x.cumsum(0),
    "sort": lambda x, i: x.round(decimals=1).sort(0, stable=True)[0],
    "matmul": lambda x, i: x @ x.T,
    "conv": lambda x, i: F.conv2d(x.view(1, 4, 100, 300), x.view(-1)[:360].view(10, 4, 3, 3), padding=1),
    "conv_transpose": lambda x, i: F.conv_transpose2d(
        x.view(1, 4, 100, 300), x.view(-1)[:360].view(4, 10, 3, 3)
    ),
    "max_pool": lambda x, i: F.max_pool2d(x.view(1, 4, 100, 300), 3, 1),
    "avg_pool": lambda x, i: F.avg_pool2d(x.view(1, 4, 100, 300), 3, 2),
    "interpolate": lambda x, i: F.interpolate(x.view(1, 4, 100, 300), scale_factor=1.7, mode="bilinear"),
    "grid_sample": lambda x, i: F.grid_sample(
        x.view(1, 4, 100, 300), x.view(1, 200, 300, 2), align_corners=False
    ),
    "softmax": lambda x, i: x.softmax(0),
    "layer_norm": lambda x, i: F.layer_norm(x, (300,), x[0], x[1]),
    "batch_norm": lambda x, i: F.batch_norm(x, None, None, x[0], x[1], training=True),
    "cross_entropy": lambda x, i: F.cross_entropy(x, i[:, 0] % 300),
    "attention": lambda x, i: F.scaled_dot_product_attention(*[x.view(1, 4, 500, 60)] * 3, is_causal=True),
    "broadcast": lambda x, i: x * x[:, :1] + x[:1],
    "dropout": lambda x, i: F.dropout(x, 0.3),
    "max": lambda x, i: x.max(1)[0],
    "quantile": lambda x, i: x.quantile(0.3, 1),
    "cumsum of all": lambda x, i: x.view(-1).cumsum(0),
    "cumprod": lambda x, i: (1 + 0.01 * x).cumprod(1),
    "logcumsumexp": lambda x, i: x.logcumsumexp(0),
    "var": lambda x, i: x.view(-1).var(0),
    "norm": lambda x, i: x.norm(),
    "topk": lambda x, i: x.topk(7, 1)[0],
    "sort of all": lambda x, i: x.view(-1).sort()[0],
    "matmul, long": lambda x, i: x.view(20, -1) @ x.view(20, -1).T,
    "matmul, wide": lambda x, i: x[:, :40] @ x[:40],
    "matmul, bfloat16": lambda x, i: x.bfloat16() @ x.bfloat16().T,
    "matmul, float16": lambda x, i: x.half() @ x.half().T,
    "matmul, float64": lambda x, i: x.double() @ x.double().T,
    "matmul, vector": lambda x, i: x @ x[0],
    "bmm": lambda x, i: x.view(40, 30, 100) @ x.view(40, 100, 30),
    "linear": lambda x, i: F.relu(F.linear(x, x[:250], x[0, :250])),
    "conv, 64 channels": lambda x, i: F.conv2d(
        x[:, :245].reshape(2, 40, 35, 35), x[:48].view(-1)[: 40 * 40 * 9].view(40, 40, 3, 3), padding=1
    ),
    "conv, stem": lambda x, i: F.conv2d(
        x.view(1, 3, 200, 200), x.view(-1)[: 24 * 147].view(24, 3, 7, 7), stride=2, padding=3
    ),
    "conv, strided": lambda x, i: F.conv2d(
        x.view(2, 24, 50, 50), x.view(-1)[: 32 * 216].view(32, 24, 3, 3), stride=2, padding=1
    ),
    "conv, 1×1": lambda x, i: F.conv2d(x.view(2, 24, 50, 50), x.view(-1)[:960].view(40, 24, 1, 1)),
    "conv, depthwise": lambda x, i: F.conv2d(
        x.view(2, 24, 50, 50), x.view(-1)[:216].view(24, 1, 3, 3), padding=1, groups=24
    ),
    "conv, groups": lambda x, i: F.conv2d(
        x.view(2, 24, 50, 50), x.view(-1)[: 24 * 54].view(24, 6, 3, 3), padding=1, groups=4
    ),
    "conv, dilated": lambda x, i: F.conv2d(
        x.view(2, 24, 50, 50), x.view(-1)[: 16 * 216].view(16, 24, 3, 3), dilation=2
    ),
    "conv1d": lambda x, i: F.conv1d(x.view(2, 24, 2500), x.view(-1)[: 16 * 72].view(16, 24, 3)),
    "conv3d": lambda x, i: F.conv3d(x.view(1, 8, 10, 30, 50), x.view(-1)[: 16 * 216].view(16, 8, 3, 3, 3)),
    "lstm": lambda x, i: recurrent("LSTM", x),
    "gru": lambda x, i: recurrent("GRU", x),
    "attention, masked": lambda x, i: F.scaled_dot_product_attention(
        *[x.view(4, 2, 250, 60)] * 3, attn_mask=(i[:250, :250] % 3 > 0)
    ),
    "group_norm": lambda x, i: F.group_norm(x.view(20, 60, 100), 6, x[0, :60], x[1, :60]),
    "embedding_bag": lambda x, i: F.embedding_bag(i[:40], x, mode="mean"),
    "fft": lambda x, i: flambeau.view_as_real(flambeau.fft.rfft(x)),
    "adaptive pool": lambda x, i: F.adaptive_avg_pool2d(x.view(1, 40, 60, 50), (7, 9)),
    "interpolate, cubic": lambda x, i: F.interpolate(x.view(1, 12, 100, 100), (70, 151), mode="bicubic"),
    "cdist": lambda x, i: flambeau.cdist(x[:90], x[90:200]),
    "searchsorted": lambda x, i: flambeau.searchsorted(x[0].sort()[0], x),
    "unique": lambda x, i: x.round(decimals=1).unique(),
    "bincount": lambda x, i: flambeau.bincount(i.view(-1), x.detach().view(-1).abs()),
}


def recurrent(kind: str, x):
    flambeau.manual_seed(1)
    return getattr(flambeau.nn, kind)(30, 40, 2, bidirectional=True)(x.view(25, 160, 30))[0]


@pytest.mark.parametrize("name", MEETING)
def test_where_several_sources_meet(name):
    rng = np.random.default_rng(3)
    array, places = rng.standard_normal((400, 300)).astype("float32"), rng.integers(0, 400, (400, 300))

    def make():
        x = flambeau.from_numpy(array.copy()).requires_grad_()
        return MEETING[name](x, flambeau.from_numpy(places)), [x]

    on_any_number_of_threads(make)
