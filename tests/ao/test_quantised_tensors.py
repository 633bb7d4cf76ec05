"""Quantised tensors against integer arithmetic in NumPy: what codes mean, views, operations, copies and files."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
from flambeau.core.lib.layers.bags import run

import flambeau
from flambeau.ao._integers import ConvParams, LinearParams, packed, product
from flambeau.codegen.tiles import integer_rows
from flambeau.operations.declare import machine

f4 = np.float32
KINDS = {"quint8": ("u1", 0, 255), "qint8": ("i1", -128, 127), "qint32": ("i4", -(2**31), 2**31 - 128)}
F = flambeau.nn.functional


def codes_of(x, scale, zero_point, kind):
    dtype, low, high = KINDS[kind]
    return np.clip(np.round(x * (f4(1) / f4(scale)) + f4(zero_point)), f4(low), f4(high)).astype(dtype)


def numbers_of(codes, scale, zero_point):
    return (codes.astype("f4") - f4(zero_point)) * f4(scale)


def some(*shape, scale=0.1, zero_point=3, kind="quint8", seed=0):
    x = np.random.default_rng(seed).standard_normal(shape).astype("f4") * 5
    return x, flambeau.quantize_per_tensor(flambeau.tensor(x), scale, zero_point, getattr(flambeau, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale, zero_point", [(0.1, 3), (1 / 3, 100), (0.037, 0)])
def test_codes_and_what_they_mean(kind, scale, zero_point):
    x, q = some(3, 5, scale=scale, zero_point=zero_point, kind=kind)
    codes = codes_of(x, scale, zero_point, kind)
    assert q.int_repr().numpy().tolist() == codes.tolist() and q.int_repr().numpy().dtype == codes.dtype
    assert q.dequantize().tolist() == numbers_of(codes, scale, zero_point).tolist()
    assert (q.q_scale(), q.q_zero_point(), q.qscheme()) == (scale, zero_point, flambeau.per_tensor_affine)
    assert q.is_quantized and q.dtype is getattr(flambeau, kind) and not q.requires_grad
    assert flambeau.quantize_per_tensor(flambeau.ones(0, 3), 0.1, 0, q.dtype).shape == (0, 3)


def test_half_way_cases_limits_and_nan():
    x = flambeau.tensor([0.5, 1.5, 2.5, 1e30, -1e30, float("nan"), float("inf")])
    q = flambeau.quantize_per_tensor(x, 1.0, 0, flambeau.qint8)
    assert q.int_repr().tolist() == [0, 2, 2, 127, -128, -128, 127]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_channels_have_scales_of_their_own(axis):
    x = np.random.default_rng(0).standard_normal((3, 3, 3)).astype("f4")
    scales, zeros = np.array([0.1, 0.2, 0.3]), np.array([0, 5, -7])
    q = flambeau.quantize_per_channel(
        flambeau.tensor(x), flambeau.tensor(scales), flambeau.tensor(zeros), axis, flambeau.qint8
    )
    for c in range(3):
        wanted = codes_of(np.take(x, c, axis), scales[c], zeros[c], "qint8")
        assert np.array_equal(np.take(q.int_repr().numpy(), c, axis), wanted)
        one = q.select(axis, c)
        assert one.q_zero_point() == zeros[c] and one.q_scale() == scales[c]
        assert np.array_equal(one.dequantize().numpy(), np.take(q.dequantize().numpy(), c, axis))
    turned = q.transpose(0, 2)
    assert turned.q_per_channel_axis() == (2 - axis % 3) and flambeau.equal(
        turned.dequantize(), q.dequantize().transpose(0, 2)
    )
    cut = q.narrow(axis, 1, 2)
    assert cut.q_per_channel_zero_points().tolist() == [5, -7]
    assert flambeau.equal(q.clone().dequantize(), q.dequantize())


def test_channels_that_would_lie_in_no_dimension():
    scales = flambeau.arange(1, 5) / 10
    q = flambeau.quantize_per_channel(
        flambeau.ones(3, 4), scales, flambeau.zeros(4).long(), 1, flambeau.qint8
    )
    assert flambeau.equal(q.flatten().dequantize(), q.dequantize().flatten())
    with pytest.raises(RuntimeError, match="view.*channels"):
        q.view(4, 3)


def test_views_share_the_integers():
    _, q = some(4, 6)
    view = q.view(6, 4).t()[1:, ::2]
    view.fill_(2.0)
    assert (
        q._elements is not view._elements
        and (q.view(6, 4).t()[1:, ::2].dequantize() == view.dequantize()).all()
    )
    before = q.int_repr()
    q[0] = flambeau.zeros(6)
    assert q.dequantize()[0].tolist() == [0.0] * 6 and not flambeau.equal(before, q.int_repr())
    copied = q.clone()
    copied.masked_fill_(copied < 100.0, 1.0)
    assert not flambeau.equal(copied, q) and flambeau.equal(q, q.clone())
    plain = flambeau.zeros(4, 6)
    plain.copy_(q)
    assert flambeau.equal(plain, q.dequantize())
    q.copy_(plain + 0.1)
    assert np.array_equal(q.int_repr().numpy(), codes_of(plain.numpy() + f4(0.1), 0.1, 3, "quint8"))


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.flatten(),
        lambda x: x[:, 1],
        lambda x: x.permute(2, 0, 1).contiguous(),
        lambda x: flambeau.cat([x, x.flip(0)], 1),
        lambda x: flambeau.stack([x, x]),
        lambda x: x.index_select(0, flambeau.tensor([1, 1])),
        lambda x: x.unsqueeze(0).squeeze().expand(2, 2, 3, 4),
        lambda x: x.chunk(2, 2)[1],
        lambda x: x.unbind(1)[2],
        lambda x: F.pad(x, (1, 2)),
        lambda x: x.reshape_as(flambeau.empty(4, 6)),
        lambda x: x.relu(),
        lambda x: F.max_pool2d(x, 2),
        lambda x: x.sort(0)[0],
        lambda x: x.max(),
        lambda x: x.topk(2)[0],
    ],
)
def test_what_moves_or_chooses_elements_is_that_of_the_numbers(move):
    _, q = some(2, 3, 4)
    found = move(q)
    assert found.is_quantized and (found.q_scale(), found.q_zero_point()) == (0.1, 3)
    assert flambeau.equal(found.dequantize(), move(q.dequantize()))


@pytest.mark.parametrize(
    "function, scale, zero_point",
    [
        (flambeau.sigmoid, 1 / 256, 0),
        (flambeau.tanh, 2 / 256, 128),
        (F.hardsigmoid, 1 / 256, 0),
        (F.hardtanh, 0.1, 3),
        (F.relu6, 0.1, 3),
        (lambda x: x.clamp(-0.2, 1.0), 0.1, 3),
        (lambda x: F.leaky_relu(x, 0.25), 0.1, 3),
        (lambda x: x.mean(1), 0.1, 3),
        (lambda x: F.avg_pool2d(x, 2), 0.1, 3),
        (lambda x: F.adaptive_avg_pool2d(x, 1), 0.1, 3),
        (lambda x: F.interpolate(x[None], scale_factor=2, mode="bilinear"), 0.1, 3),
    ],
)
def test_functions_of_numbers_are_rounded_once(function, scale, zero_point):
    _, q = some(2, 4, 4)
    found, numbers = function(q), function(q.dequantize()).numpy()
    assert (found.q_scale(), found.q_zero_point()) == (scale, zero_point)
    wanted = codes_of(numbers, scale, zero_point, "quint8").astype(int)
    assert np.abs(found.int_repr().numpy().astype(int) - wanted).max() <= 1


def test_joins_of_other_scales_take_the_first():
    _, a = some(2, 2)
    _, b = some(2, 2, scale=0.3, zero_point=9, seed=1)
    found = flambeau.cat([a, b])
    assert found.q_scale() == 0.1
    assert np.array_equal(found[2:].int_repr().numpy(), codes_of(b.dequantize().numpy(), 0.1, 3, "quint8"))


@pytest.mark.parametrize(
    "error, message, run",
    [
        (NotImplementedError, r"add\(\): not available for quantised", lambda q: q + q),
        (NotImplementedError, "dequantize", lambda q: q.sum()),
        (NotImplementedError, "numpy", lambda q: q.numpy()),
        (RuntimeError, r"float\(\): Creation of quantized", lambda q: q.float()),
        (RuntimeError, "quantized dtype", lambda q: q.to(flambeau.float32)),
        (RuntimeError, "per channel", lambda q: q.q_per_channel_scales()),
        (RuntimeError, "require gradients", lambda q: q.requires_grad_()),
        (
            RuntimeError,
            "got flambeau.quint8",
            lambda q: flambeau.quantize_per_tensor(q, 0.1, 0, flambeau.quint8),
        ),
        (
            RuntimeError,
            "zero_point must be",
            lambda q: flambeau.quantize_per_tensor(flambeau.ones(1), 0.1, 256, flambeau.quint8),
        ),
        (
            RuntimeError,
            "positive finite",
            lambda q: flambeau.quantize_per_tensor(flambeau.ones(1), 0.0, 0, flambeau.quint8),
        ),
        (
            RuntimeError,
            "quantized dtype",
            lambda q: flambeau.quantize_per_tensor(flambeau.ones(1), 0.1, 0, flambeau.int8),
        ),
        (
            RuntimeError,
            "Float Tensor",
            lambda q: flambeau.quantize_per_tensor(flambeau.ones(1).int(), 0.1, 0, flambeau.qint8),
        ),
        (
            RuntimeError,
            "finite",
            lambda q: flambeau.quantize_per_tensor_dynamic(
                flambeau.tensor([float("nan")]), flambeau.qint8, True
            ),
        ),
        (
            RuntimeError,
            r"expected shape \[2\]",
            lambda q: flambeau.quantize_per_channel(
                flambeau.ones(2, 3), flambeau.ones(3), flambeau.zeros(3).long(), 0, flambeau.qint8
            ),
        ),
        (NotImplementedError, "expected a quantised tensor", lambda q: flambeau.ones(2).q_scale()),
    ],
)
def test_refusals(error, message, run):
    with pytest.raises(error, match=message):
        run(some(2, 3)[1])


def kinds():
    x = flambeau.arange(15).reshape(3, 5).float() / 10
    scales, zeros = flambeau.tensor([0.1, 0.2, 0.3]), flambeau.tensor([0, 1, 2])
    whole = flambeau.quantize_per_tensor(x, 0.1, 3, flambeau.quint8)
    return {
        "tensor": whole,
        "view": whole[:, 1:].t(),
        "signed": flambeau.quantize_per_tensor(x, 0.1, 3, flambeau.qint8),
        "wide": flambeau.quantize_per_tensor(x, 0.1, 3, flambeau.qint32),
        "channels": flambeau.quantize_per_channel(x, scales, zeros, 0, flambeau.qint8),
        "floats": flambeau.quantize_per_channel(x, scales, zeros.float(), 0, flambeau.quint8),
        "four bits": flambeau.quantize_per_channel(x, scales, zeros.float(), 0, flambeau.quint4x2),
        "empty": flambeau.quantize_per_tensor(x[:0], 0.1, 3, flambeau.quint8),
        "dtype": flambeau.quint8,
        "scheme": flambeau.per_tensor_affine,
    }


def through_a_file(x, **options):
    file = io.BytesIO()
    flambeau.save(x, file)
    file.seek(0)
    return flambeau.load(file, **options)


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        through_a_file,
        lambda x: through_a_file(x, weights_only=False),
        lambda x: pickle.loads(pickle.dumps(x)),
    ],
    ids=["deepcopy", "file", "unsafe file", "pickle"],
)
def test_copies_and_files(copied):
    given = kinds()
    found = copied(given)
    for name, x in given.items():
        y = found[name]
        if name in ("dtype", "scheme"):
            assert y is x
            continue
        assert (y.dtype, y.qscheme(), y.shape, y.stride()) == (x.dtype, x.qscheme(), x.shape, x.stride()), (
            name
        )
        assert flambeau.equal(y, x) and flambeau.equal(y.int_repr(), x.int_repr()), name
    found["tensor"].fill_(0.0)  # a view of one storage again, but in pickles
    assert given["tensor"].dequantize().abs().sum() > 0
    if copied is not pickle and copied in (copy.deepcopy, through_a_file):
        assert found["view"].dequantize().abs().sum() == 0


def test_four_bits_lie_two_a_byte():
    q = kinds()["four bits"]
    flat = q._elements.flatten().tolist() + [0]
    assert q.int_repr().tolist() == [a | b << 4 for a, b in zip(flat[::2], flat[1::2])]


def test_hostile_files_are_refused():
    from flambeau._files import rebuilding

    q = kinds()["tensor"]
    storage = rebuilding.typed(q.untyped_storage(), flambeau.quint8)
    good = [storage, 0, (3, 5), (5, 1), (flambeau.per_tensor_affine, 0.1, 3), False, None]
    assert flambeau.equal(rebuilding._rebuild_qtensor(*good), q)
    for at, bad in (
        (0, rebuilding.typed(q.untyped_storage(), flambeau.uint8)),
        (1, 1),
        (1, -1),
        (2, (3, 2**62)),
        (4, (flambeau.per_tensor_affine, float("nan"), 3)),
        (4, (flambeau.per_tensor_affine, 0.1, 300)),
        (4, (flambeau.per_tensor_affine, 0.1)),
        (4, (flambeau.per_channel_affine, flambeau.ones(3), flambeau.zeros(2).long(), 0)),
        (4, (flambeau.per_channel_affine, flambeau.ones(3), flambeau.zeros(3).long(), 7)),
        (4, [1]),
        (5, True),
    ):
        given = list(good)
        given[at] = bad
        with pytest.raises(RuntimeError):
            rebuilding._rebuild_qtensor(*given)


def test_text():
    text = repr(flambeau.quantize_per_tensor(flambeau.ones(2), 0.5, 3, flambeau.quint8))
    assert text == (
        "tensor([1., 1.], size=(2,), dtype=flambeau.quint8, quantization_scheme=flambeau.per_tensor_affine, scale=0.5, zero_point=3)"
    )


# --- products of integers ------------------------------
SIZES = [(1, 1, 1), (3, 5, 7), (40, 70, 130), (17, 33, 64), (100, 32, 1000), (0, 3, 4), (3, 0, 4)]


@pytest.mark.parametrize("m, n, k", SIZES)
@pytest.mark.parametrize("kind", ["u1", "i1"])
@pytest.mark.parametrize("shifted", [0, 1])
def test_sums_are_exact(m, n, k, kind, shifted):
    generator = np.random.default_rng(0)
    low, high = (0, 256) if kind == "u1" else (-128, 128)
    x, w = (
        generator.integers(low, high, (m, k)).astype(kind),
        generator.integers(-128, 128, (n, k)).astype("i1"),
    )
    zeros = generator.integers(-5, 6, n) * shifted
    weight = packed(flambeau.tensor(w), flambeau.tensor(zeros))
    wanted = (x.astype("i8") - 77) @ (w.astype("i8") - zeros[:, None]).T
    assert np.array_equal(product(flambeau.tensor(x), 77, weight).numpy(), wanted)


def test_extreme_codes_do_not_saturate():
    x, w = np.full((9, 512), 255, "u1"), np.full((40, 512), -128, "i1")
    found = product(flambeau.tensor(x), 0, packed(flambeau.tensor(w), flambeau.zeros(40)))
    assert (found.numpy() == 255 * -128 * 512).all()


@pytest.mark.parametrize("lanes", [4, 8])
def test_without_instructions_for_bytes(lanes):
    """By pairs of int16, as processors without VNNI do it, in registers of 16 and 32 bytes."""
    from flambeau.codegen.tiles.kernels import registers

    if 4 * lanes > registers().bytes:
        pytest.skip("no such registers")
    generator = np.random.default_rng(0)
    m, k, width = 7, 6, integer_rows.VECTORS * lanes
    x, w = generator.integers(0, 256, (m, k)), generator.integers(-128, 128, (width, k))
    kernel = integer_rows.Product(lanes, 2, 4)
    panels = flambeau.tensor(
        np.ascontiguousarray(w.astype("i1").reshape(width, k // 2, 2).transpose(1, 0, 2))
    )
    result, start = (
        flambeau.zeros(m, width, dtype=flambeau.int32),
        flambeau.arange(width, dtype=flambeau.int32),
    )
    rows = flambeau.tensor(x.astype("i2"))
    run(machine.address(kernel), (result, rows, panels, start), (width, k, m), 2, 1.0)
    assert np.array_equal(result.numpy(), x @ w.T + np.arange(width))


def weight_of(shape, channels, seed=1):
    w = np.random.default_rng(seed).standard_normal(shape).astype("f4")
    scales = (
        np.abs(w).reshape(shape[0], -1).max(1) / 127 if channels else np.full(shape[0], np.abs(w).max() / 127)
    )
    if channels:
        zeros = flambeau.zeros(shape[0], dtype=flambeau.int64)
        q = flambeau.quantize_per_channel(
            flambeau.tensor(w), flambeau.tensor(scales), zeros, 0, flambeau.qint8
        )
    else:
        q = flambeau.quantize_per_tensor(flambeau.tensor(w), float(scales[0]), 0, flambeau.qint8)
    return q, scales


def requantised(sums, bias, unit, scale, zero_point, relu):
    """Integer arithmetic of a layer: sums (…, n) of int64."""
    numbers = (sums + (0 if bias is None else bias / unit)) * (unit / scale)
    return np.clip(np.round(numbers) + zero_point, zero_point if relu else 0, 255)


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear_layers_over_integers(channels, relu, with_bias):
    x, q = some(5, 3, 37, scale=0.05, zero_point=60)
    w, scales = weight_of((20, 37), channels)
    bias = np.random.default_rng(2).standard_normal(20).astype("f4") if with_bias else None
    params = LinearParams(w, None if bias is None else flambeau.tensor(bias))
    found = params.run(q, 0.2, 50, relu)
    sums = (q.int_repr().numpy().astype("i8") - 60) @ w.int_repr().numpy().astype("i8").T
    wanted = requantised(sums, bias, scales * 0.05, 0.2, 50, relu)
    assert np.abs(found.int_repr().numpy() - wanted).max() <= 1
    assert (found.int_repr().numpy() != wanted).mean() < 0.01  # float32 at half-way cases
    assert params.run(q[:0], 0.2, 50).shape == (0, 3, 20)
    assert flambeau.equal(copy.deepcopy(params).run(q, 0.2, 50, relu), found)


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize(
    "groups, stride, padding, dilation",
    [
        (1, (1, 1), (0, 0), (1, 1)),
        (1, (2, 1), (1, 2), (1, 2)),
        (2, (1, 1), (1, 1), (1, 1)),
        (6, (1, 2), (1, 1), (1, 1)),
    ],
)
def test_convolutions_over_integers(channels, groups, stride, padding, dilation):
    x, q = some(2, 6, 9, 11, scale=0.05, zero_point=60)
    w, scales = weight_of((12, 6 // groups, 3, 3), channels)
    bias = np.random.default_rng(2).standard_normal(12).astype("f4")
    found = ConvParams(w, flambeau.tensor(bias), stride, padding, dilation, groups).run(q, 0.2, 50)
    centred = flambeau.tensor(q.int_repr().numpy().astype("f8") - 60)
    sums = F.conv2d(centred, w.int_repr().double(), None, stride, padding, dilation, groups).numpy()
    across = lambda t: t.reshape(1, -1, 1, 1)  # noqa: E731
    wanted = requantised(sums, across(bias), across(scales * 0.05), 0.2, 50, False)
    assert found.shape == wanted.shape and np.abs(found.int_repr().numpy() - wanted).max() <= 1
    assert (found.int_repr().numpy() != wanted).mean() < 0.01
    assert found.is_contiguous(memory_format=flambeau.channels_last)


@pytest.mark.parametrize(
    "message, run",
    [
        ("expected a quantised input", lambda q, w: LinearParams(w, None).run(q.dequantize(), 0.1, 0)),
        (r"shape \(…, 4\)", lambda q, w: LinearParams(w, None).run(q, 0.1, 0)),
        ("quint8 or qint8", lambda q, w: LinearParams(w, None).run(some(2, 4, kind="qint32")[1], 0.1, 0)),
        (
            "expected finite",
            lambda q, w: LinearParams(w, None).run_dynamic(flambeau.full((1, 4), float("inf"))),
        ),
    ],
)
def test_layers_refuse_other_inputs(message, run):
    with pytest.raises(RuntimeError, match=message):
        run(some(2, 3)[1], weight_of((5, 4), False)[0])
