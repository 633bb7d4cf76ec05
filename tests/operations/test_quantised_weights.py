"""Products by weights of few bits, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.ao.quantization import (
    Float8WeightOnlyConfig,
    Int4WeightOnlyConfig,
    Int8WeightOnlyConfig,
    NF4WeightOnlyConfig,
    WeightOnlyLinear,
)
from flambeau.codegen import target
from flambeau.codegen.tiles import kernels
from flambeau.codegen.tiles import quantised_integers as integers
from flambeau.codegen.tiles.quantised import NF4
from flambeau.operations.declare import machine
from flambeau.operations.linalg import quantised

CONFIGURATIONS = {
    "int8": Int8WeightOnlyConfig,
    "float8": Float8WeightOnlyConfig,
    "float8_e5m2": lambda: Float8WeightOnlyConfig(flambeau.float8_e5m2),
    "int4": Int4WeightOnlyConfig,
    "nf4": NF4WeightOnlyConfig,
}
SHAPES = [(1, 32), (3, 64), (4, 128), (10, 256), (65, 512)]  # of weights
ROWS = [0, 1, 2, 3, 5, 16, 17, 40]
FLOATS = {"float32": 2e-6, "bfloat16": 2**-8, "float16": 2**-11}


def close(found, wanted, dtype, terms):
    """As near as float32 sums of so many terms, rounded once, are: `terms` are the sums of magnitudes."""
    error = np.abs(found.to(flambeau.float32).numpy().astype("f8") - wanted)
    assert (error <= FLOATS[dtype] * np.abs(wanted) + 1e-6 * terms).all(), error.max()


def rows_of(generator, m, k, dtype):
    x = flambeau.tensor(generator.standard_normal((m, k)).astype("f4")).to(getattr(flambeau, dtype))
    return x, x.to(flambeau.float32).numpy().astype("f8")


def wide(t):
    return t.to(flambeau.float32).numpy().astype("f8")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [*SHAPES, (7, 100), (5, 1), (2, 17)])
def test_eight_bits(dtype, shape):
    generator = np.random.default_rng(0)
    n, k = shape
    codes = generator.integers(-128, 128, shape).astype("i1")
    scales = flambeau.tensor(generator.random(n).astype("f4")).to(getattr(flambeau, dtype))
    weight = codes * wide(scales)[:, None]
    for m in ROWS:
        x, numbers = rows_of(generator, m, k, dtype)
        found = flambeau._weight_int8pack_mm(x, flambeau.tensor(codes), scales)
        assert found.dtype == x.dtype and found.shape == (m, n)
        close(found, numbers @ weight.T, dtype, np.abs(numbers) @ np.abs(weight).T)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("group", quantised.GROUPS)
def test_four_bits(dtype, shape, group):
    generator = np.random.default_rng(1)
    n, k = shape
    codes = generator.integers(0, 16, shape).astype("i4")
    packed = flambeau._convert_weight_to_int4pack_for_cpu(flambeau.tensor(codes), 2)
    assert packed.shape == (n, k // 2) and packed.dtype == flambeau.uint8
    pairs = flambeau.tensor(generator.standard_normal((max(k // group, 1), n, 2)).astype("f4"))
    pairs = pairs.to(getattr(flambeau, dtype))
    x, numbers = rows_of(generator, 3, k, dtype)
    if k % group:
        with pytest.raises(RuntimeError, match="expect qGroupSize to be 32, 64, 128 or 256 and to divide"):
            flambeau._weight_int4pack_mm_for_cpu(x, packed, group, pairs)
        return
    scale, zero = (wide(pairs)[..., i].T[..., None] for i in (0, 1))
    weight = ((codes - 8).reshape(n, k // group, group) * scale + zero).reshape(n, k)
    magnitudes = ((8 * np.abs(scale) + np.abs(zero)) * np.ones((1, 1, group))).reshape(n, k)
    for m in ROWS:
        x, numbers = rows_of(generator, m, k, dtype)
        found = flambeau._weight_int4pack_mm_for_cpu(x, packed, group, pairs)
        assert found.dtype == x.dtype and found.shape == (m, n)
        close(found, numbers @ weight.T, dtype, np.abs(numbers) @ magnitudes.T)


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_quantiles(rows):
    generator = np.random.default_rng(2)
    codes = generator.integers(0, 16, (9, 128))
    scales = generator.random((2, 9)).astype("f4")
    weight = (np.array(NF4)[codes].reshape(9, 2, 64) * scales.T[..., None]).reshape(9, 128)
    packed = quantised.packed(flambeau.tensor(codes))
    kept = quantised.Weight(packed, flambeau.tensor(scales), "nf4", 64, 9, 128)
    x, numbers = rows_of(generator, rows, 128, "float32")
    close(quantised.product(x, kept), numbers @ weight.T, "float32", np.abs(numbers) @ np.abs(weight).T)
    assert np.abs(wide(quantised.dequantised(kept)) - weight).max() < 1e-7


@pytest.fixture
def other_kernels(monkeypatch):
    """Sets functions that choose kernels; what was chosen before, and by them, is forgotten."""

    def choose(name, function):
        monkeypatch.setattr(quantised, name, function)
        quantised.few_rows.cache_clear()

    yield choose
    quantised.few_rows.cache_clear()


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_registers_of_other_processors(lanes, other_kernels):
    """Kernels for shorter registers, where this processor runs them."""
    if 4 * lanes > kernels.registers().bytes:
        pytest.skip("this processor has shorter registers")
    other_kernels("_kernel", lambda kind, dtype, codes: machine.address(kind(dtype, codes, lanes)))
    test_quantiles(3)
    test_quantiles(40)
    test_eight_bits("bfloat16", (7, 100))
    test_four_bits("float32", (10, 256), 64)


@pytest.mark.parametrize("length, vnni", [(32, False), (32, True), (64, False), (64, True)])
def test_integers_of_other_processors(length, vnni, other_kernels):
    """The products of bytes of AVX2, of AVX-512 and of VNNI, where this processor runs them."""
    if length > kernels.registers().bytes or (vnni and not integers.has_vnni(length)):
        pytest.skip("this processor lacks the instructions")
    if length == 64 and "+avx512bw" not in target.processor()[1].split(","):
        pytest.skip("this processor lacks the instructions")

    def kernels_of(dtype, group):
        one = min(length, group // 2)
        if one < length:
            return 0, 0, 0
        split = machine.address(integers.Digits(dtype, one, one // 4))
        return one, split, machine.address(integers.Product(dtype, one, vnni))

    other_kernels("_integers", kernels_of)
    for dtype in FLOATS:
        for group in (64, 128, 256):
            test_four_bits(dtype, (10, 512), group)


def close_to_floats(x, w):
    """The product by integers is the one by floats, and is finite where that is."""
    floats = quantised.few_rows(x.dtype.name, w.kind, w.group)[1]
    found, wanted = quantised._tiled(x, w).numpy(), floats(x, w.codes, w.scales).numpy()
    assert np.allclose(found, wanted, rtol=2e-5, atol=0, equal_nan=True), (found, wanted)


@pytest.mark.parametrize("scale", [0.0, 1e-45, 1e-38, 1e-30, 1.0, 1e30, 3e38])
def test_digits_of_numbers_of_every_size(scale):
    """Rows whose numbers are so small or so large that they have no digits, beside others that have."""
    generator = np.random.default_rng(6)
    codes = flambeau.tensor(generator.integers(0, 16, (5, 256)).astype("i4"))
    pairs = flambeau.tensor(generator.random((2, 5, 2)).astype("f4") + 0.5)
    w = quantised.Weight(quantised.packed(codes), pairs, "int4", 128, 5, 256)
    x = flambeau.tensor(np.stack([np.full(256, scale, "f4"), np.full(256, 0.5, "f4")]))
    close_to_floats(x, w)
    for odd in (float("inf"), float("-inf"), float("nan")):
        x[0, 200] = odd
        close_to_floats(x, w)
        assert quantised._tiled(x, w)[1].isfinite().all()


def test_rows_do_not_depend_on_those_beside_them():
    codes = flambeau.randint(0, 16, (9, 256), dtype=flambeau.int32)
    w = quantised.Weight(quantised.packed(codes), flambeau.rand(2, 9, 2), "int4", 128, 9, 256)
    x = flambeau.randn(5, 256)
    x[3, 0] = float("nan")
    whole = quantised._tiled(x, w)
    for i in range(5):
        assert whole[i].numpy().tobytes() == quantised._tiled(x[i : i + 1], w)[0].numpy().tobytes()


def test_dequantised_by_kernels_and_by_operations():
    generator = np.random.default_rng(3)
    codes = flambeau.tensor(generator.integers(0, 16, (6, 64)).astype("i4"))
    pairs = flambeau.tensor(generator.standard_normal((2, 6, 2)).astype("f4"))
    for w in (
        quantised.Weight(quantised.packed(codes), pairs, "int4", 32, 6, 64),
        quantised.Weight(quantised.packed(codes), pairs[..., 0].contiguous(), "nf4", 32, 6, 64),
        quantised.Weight(codes.to(flambeau.int8), pairs[0, :, 0].contiguous(), "int8", 64, 6, 64),
    ):
        assert np.allclose(
            wide(quantised.dequantised(w)), wide(quantised._by_operations(w)), rtol=1e-6, atol=1e-6
        )


def test_the_gradient_is_that_of_the_input():
    generator = np.random.default_rng(4)
    codes, scales = flambeau.tensor(generator.integers(-128, 128, (5, 64)).astype("i1")), flambeau.rand(5)
    x = flambeau.randn(2, 64, requires_grad=True)
    flambeau._weight_int8pack_mm(x, codes, scales).sum().backward()
    wanted = (wide(codes) * wide(scales)[:, None]).sum(0)
    assert np.allclose(x.grad.numpy(), wanted, rtol=1e-5, atol=1e-4)
    packed = flambeau._convert_weight_to_int4pack_for_cpu(codes.to(flambeau.int32) & 15, 2)
    pairs, x = flambeau.rand(2, 5, 2), flambeau.randn(2, 64, requires_grad=True)
    flambeau._weight_int4pack_mm_for_cpu(x, packed, 32, pairs).sum().backward()
    unit = flambeau._weight_int4pack_mm_for_cpu(flambeau.eye(64), packed, 32, pairs)
    assert np.allclose(x.grad.numpy(), unit.sum(1).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", quantised.CODED)
def test_leading_dimensions_and_what_the_fast_way_refuses(kind):
    """The same bits for rows in any shape, for views and for tensors of a class; errors for all else."""
    layer = WeightOnlyLinear(flambeau.nn.Linear(256, 5), CONFIGURATIONS[kind]())
    given = layer.codes, layer.scales, kind, layer.group_size
    x = flambeau.randn(2, 3, 256)
    wanted = quantised.weight_only_linear(x.reshape(6, 256), *given).reshape(2, 3, 5)
    apart = flambeau.empty(2, 512, 3).permute(0, 2, 1)[..., ::2].copy_(x)
    for same in (x, apart, x.clone()[:, :, :], flambeau.nn.Parameter(x)):
        assert flambeau.equal(quantised.weight_only_linear(same, *given), wanted)
    assert flambeau.equal(quantised.weight_only_linear(x[1, 2], *given), wanted[1, 2])
    assert quantised.weight_only_linear(x[:0], *given).shape == (0, 3, 5)
    many = x.repeat(9, 1, 1)
    flambeau.testing.assert_close(quantised.weight_only_linear(many, *given)[:2], wanted)
    every = x.double().reshape(6, 256).float()[:, None].expand(6, 2, 256)
    assert flambeau.equal(
        quantised.weight_only_linear(every[:, 0], *given), wanted.reshape(6, 5)
    ) and flambeau.equal(quantised.weight_only_linear(every, *given)[:, 1], wanted.reshape(6, 5))
    for wrong in (x[..., :255], x.double(), x.half(), x.to(flambeau.int32), flambeau.ones(())):
        with pytest.raises(RuntimeError, match=r"weight_only_linear\(\): expected"):
            quantised.weight_only_linear(wrong, *given)
    x.requires_grad_()
    quantised.weight_only_linear(x, *given).square().sum().backward()
    again = x.detach().reshape(6, 256).requires_grad_()
    (again @ (layer.weight.detach().float().t())).square().sum().backward()
    flambeau.testing.assert_close(x.grad.reshape(6, 256), again.grad, rtol=1e-3, atol=1e-3)


def test_views_threads_and_nan():
    generator = np.random.default_rng(5)
    codes, scales = flambeau.tensor(generator.integers(-128, 128, (301, 96)).astype("i1")), flambeau.rand(301)
    x = flambeau.randn(4, 192)
    strided, turned = x[:, ::2], x[:, :96].t().contiguous().t()
    before = flambeau.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            flambeau.set_num_threads(threads)
            results.append([flambeau._weight_int8pack_mm(v, codes, scales) for v in (strided, turned)])
    finally:
        flambeau.set_num_threads(before)
    for one, two, v in zip(*results, (strided, turned)):
        assert one.numpy().tobytes() == two.numpy().tobytes()
        assert flambeau.equal(one, flambeau._weight_int8pack_mm(v.contiguous(), codes, scales))
    # One row's result does not depend on how many rows come with it.
    assert flambeau.allclose(
        flambeau._weight_int8pack_mm(x[:1, :96], codes, scales), results[0][1][:1], rtol=1e-5, atol=1e-3
    )
    x[2, 5] = float("nan")
    found = flambeau._weight_int8pack_mm(x[:, :96], codes, scales)
    assert found[2].isnan().all() and not found[[0, 1, 3]].isnan().any()


def test_without_data():
    x = flambeau.empty(3, 64, device="meta")
    codes = flambeau.empty(5, 64, dtype=flambeau.int8, device="meta")
    assert flambeau._weight_int8pack_mm(x, codes, flambeau.empty(5, device="meta")).shape == (3, 5)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(input=flambeau.ones(64)), "expected a matrix"),
        (dict(input=flambeau.ones(2, 64, dtype=flambeau.int32)), "float32, bfloat16 or float16"),
        (dict(input=flambeau.ones(2, 65)), r"mat2 of shape \(n, 65\)"),
        (dict(mat2=flambeau.ones(5, 64)), "int8 matrix"),
        (dict(mat2=flambeau.ones(64, 5, dtype=flambeau.int8).t()), "contiguous"),
        (dict(scales=flambeau.ones(4)), r"scales of shape \(5,\)"),
        (dict(scales=flambeau.ones(5, dtype=flambeau.float64)), "scales of shape"),
    ],
)
def test_refusals(change, message):
    given = dict(
        input=flambeau.ones(2, 64), mat2=flambeau.ones(5, 64, dtype=flambeau.int8), scales=flambeau.ones(5)
    )
    with pytest.raises(RuntimeError, match=message):
        flambeau._weight_int8pack_mm(**{**given, **change})


def test_refusals_of_four_bits():
    packed = flambeau._convert_weight_to_int4pack_for_cpu(flambeau.ones(4, 64, dtype=flambeau.int32), 8)
    with pytest.raises(RuntimeError, match="qScaleAndZeros to be of shape"):
        flambeau._weight_int4pack_mm_for_cpu(flambeau.ones(1, 64), packed, 32, flambeau.ones(4, 2, 2))
    with pytest.raises(RuntimeError, match="uint8 matrix"):
        flambeau._weight_int4pack_mm_for_cpu(
            flambeau.ones(1, 64), packed.to(flambeau.int8), 32, flambeau.ones(2, 4, 2)
        )
    with pytest.raises(RuntimeError, match="multiple of 32"):
        flambeau._convert_weight_to_int4pack_for_cpu(flambeau.ones(4, 33, dtype=flambeau.int32), 8)
    with pytest.raises(RuntimeError, match="innerKTiles"):
        flambeau._convert_weight_to_int4pack_for_cpu(flambeau.ones(4, 32, dtype=flambeau.int32), 3)
    with pytest.raises(RuntimeError, match="int32 matrix"):
        flambeau._convert_weight_to_int4pack_for_cpu(flambeau.ones(4, 32), 2)
