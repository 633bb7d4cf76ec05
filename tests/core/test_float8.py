"""float8, float4: every byte, every rounding, what is computed and what is refused."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest

import flambeau

# name: bits of the fraction, bias, codes (without the sign) of infinity and of the first NaN, largest finite code, signed zero
FORMATS = {
    "float8_e4m3fn": (3, 7, None, 127, 126),
    "float8_e5m2": (2, 15, 124, 125, 123),
    "float8_e4m3fnuz": (3, 8, None, None, 127),
    "float8_e5m2fnuz": (2, 16, None, None, 127),
}
FLOAT8 = [*FORMATS, "float8_e8m0fnu"]


def magnitude(code, fraction, bias):
    """The number of a byte without its sign, by the specification's formula."""
    exponent, rest = divmod(code, 1 << fraction)
    if exponent == 0:
        return math.ldexp(rest, 1 - bias - fraction)
    return math.ldexp((1 << fraction) + rest, exponent - bias - fraction)


def number(byte, name):
    """What a byte stands for."""
    if name == "float8_e8m0fnu":
        return math.nan if byte == 255 else 2.0 ** (byte - 127)
    fraction, bias, infinity, nan, _ = FORMATS[name]
    code = byte & 127
    if name.endswith("fnuz"):
        if byte == 128:
            return math.nan
    elif nan is not None and code >= nan:
        return math.nan
    value = math.inf if code == infinity else magnitude(code, fraction, bias)
    return -value if byte >> 7 else value


def nearest(values, name):
    """The bytes that float32 numbers are rounded to: the nearest number's, of two the even one's."""
    with np.errstate(invalid="ignore"):
        values = np.asarray(values, np.float32).astype(np.float64)
    size = np.abs(values)
    if name == "float8_e8m0fnu":
        exponents = np.arange(0, 255)
        powers = 2.0 ** (exponents - 127.0)
        middle = (powers[1:] + powers[:-1]) / 2
        found = np.searchsorted(middle, size, side="right")  # a tie goes to the larger power
        found = np.where(size < 2.0**-126, size > 2.0**-127, found)  # subnormal float32s go up, as in PyTorch
        found = np.where(size > powers[-1] * 1.5 - 2.0**100, 255, found)
        return np.where(np.isfinite(values), found, 255).astype(np.uint8)
    fraction, bias, infinity, nan, last = FORMATS[name]
    table = np.array([magnitude(k, fraction, bias) for k in range(last + 2)])  # and the one after the largest
    middle = (table[1:] + table[:-1]) / 2
    code = np.searchsorted(middle, size, side="left")
    at = np.minimum(code, last)
    code = np.where((middle[at] == size) & (at % 2 == 1), at + 1, code)
    sign = np.where(np.signbit(values), 128, 0)
    if name == "float8_e4m3fn":  # PyTorch's conversion saturates
        found = np.where(np.isnan(values), 127, np.minimum(code, last)) | sign
    elif name == "float8_e5m2":
        found = np.where(np.isnan(values), 127, np.minimum(code, infinity)) | sign
    else:
        found = np.where(np.isnan(values) | (code > last), 128, np.where(code == 0, 0, code | sign))
    return found.astype(np.uint8)


def hard_numbers(name):
    """All float16 numbers, random float32 bits, and both sides of every point halfway between two numbers."""
    rng = np.random.default_rng(0)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    wild = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    table = np.sort([number(byte, name) for byte in range(256) if math.isfinite(number(byte, name))])
    middle = ((table[1:] + table[:-1]) / 2).astype(np.float32)
    least, most = np.float32(-np.inf), np.float32(np.inf)
    beside = [middle, np.nextafter(middle, least), np.nextafter(middle, most), table.astype(np.float32)]
    ends = np.float32(
        [0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 2.0**-127, 1.5 * 2.0**-127, 3.4e38]
    )
    return np.concatenate([halves, wild, *beside, ends])


@pytest.mark.parametrize("name", FLOAT8)
def test_every_byte_is_its_number(name):
    every = flambeau.arange(256, dtype=flambeau.uint8).view(getattr(flambeau, name))
    expected = [number(byte, name) for byte in range(256)]
    for kind in (flambeau.float32, flambeau.float64, flambeau.complex64):
        assert np.array_equal(every.to(kind).numpy(), np.array(expected), equal_nan=True)
    assert np.array_equal(every.tolist(), expected, equal_nan=True)
    with np.errstate(over="ignore"):
        for kind in ("float16", "bfloat16"):
            found = every.to(getattr(flambeau, kind)).float().numpy()
            rounded = flambeau.tensor(expected).to(getattr(flambeau, kind)).float().numpy()
            assert np.array_equal(found, rounded, equal_nan=True)
    negative = [v < 0 or str(v) == "-0.0" for v in expected]
    assert np.signbit(every.float().numpy())[~np.isnan(expected)].tolist() == [
        s for s, v in zip(negative, expected) if not math.isnan(v)
    ]


@pytest.mark.parametrize("name", FLOAT8)
def test_rounding_is_to_the_nearest_even(name):
    values, kind = hard_numbers(name), getattr(flambeau, name)
    found = flambeau.from_numpy(values).to(kind).view(flambeau.uint8).numpy()
    expected = nearest(values, name)
    wrong = np.nonzero(found != expected)[0]
    assert not len(wrong), [(values[k].item(), found[k].item(), expected[k].item()) for k in wrong[:5]]
    for k in range(0, len(values), 997):  # numbers of Python go another way
        one = flambeau.tensor(values[k].item(), dtype=kind).view(flambeau.uint8).item()
        assert one == expected[k], values[k]


@pytest.mark.parametrize("name", FLOAT8)
def test_other_dtypes_are_rounded_to_float32_first(name):
    kind = getattr(flambeau, name)
    for source in (
        "bool",
        "uint8",
        "int16",
        "int64",
        "uint64",
        "float16",
        "bfloat16",
        "float64",
        "complex64",
        "complex128",
    ):
        x = flambeau.tensor([0, 1, 3, 17, 100]).to(getattr(flambeau, source))
        assert flambeau.equal(x.to(kind), x.to(flambeau.complex64).real.to(kind))
        assert x.to(kind).to(x.dtype).dtype == x.dtype
    close = flambeau.tensor([1.0625 + 2.0**-40], dtype=flambeau.float64)  # a tie after the first rounding
    assert flambeau.equal(close.to(kind), close.float().to(kind))
    for other in FLOAT8:
        x = flambeau.tensor([0.5, 1.0, 2.0, 64.0]).to(kind)
        assert flambeau.equal(x.to(getattr(flambeau, other)).float(), x.float())


@pytest.mark.parametrize("name", FLOAT8)
def test_copies_keep_the_bits(name):
    kind = getattr(flambeau, name)
    x = flambeau.arange(256, dtype=flambeau.uint8).view(kind).reshape(16, 16)

    def bits(t):
        return t.contiguous().view(flambeau.uint8).numpy()

    plain = bits(x)
    assert (bits(x.clone()) == plain).all() and (bits(x.t()) == plain.T).all()
    assert (bits(flambeau.cat([x, x])) == np.concatenate([plain, plain])).all()
    assert (bits(flambeau.stack([x, x], 1)) == np.stack([plain, plain], 1)).all()
    assert (bits(x[[3, 1]]) == plain[[3, 1]]).all() and (bits(x[:, ::3]) == plain[:, ::3]).all()
    assert (bits(x.index_select(1, flambeau.tensor([5, 0]))) == plain[:, [5, 0]]).all()
    assert (bits(x.gather(0, flambeau.zeros(1, 16, dtype=flambeau.int64))) == plain[:1]).all()
    assert (bits(x.repeat(2, 1)) == np.tile(plain, (2, 1))).all() and (bits(x.flip(0)) == plain[::-1]).all()
    assert (bits(flambeau.roll(x, 1, 0)) == np.roll(plain, 1, 0)).all()
    y = flambeau.zeros(16, 16, dtype=kind)
    y.copy_(x)
    assert (bits(y) == plain).all()
    y.zero_()[2:4] = x[2:4]
    assert (bits(y)[2:4] == plain[2:4]).all()
    y[0] = x[1, 0]
    assert (bits(y)[0] == plain[1, 0]).all()
    assert (bits(copy.deepcopy(x)) == plain).all() and (bits(pickle.loads(pickle.dumps(x))) == plain).all()
    assert (bits(x.expand(2, 16, 16)) == plain).all()
    assert x.view(flambeau.int8).dtype == flambeau.int8 and x.view(flambeau.float32).shape == (16, 4)


@pytest.mark.parametrize("name", FLOAT8)
def test_factories(name):
    kind = getattr(flambeau, name)
    zero = number(0, name)
    assert flambeau.zeros(2, dtype=kind).tolist() == [zero] * 2
    assert flambeau.ones(2, dtype=kind).tolist() == [1.0] * 2
    assert flambeau.full((2,), 4.0, dtype=kind).tolist() == [4.0] * 2
    assert flambeau.tensor([1, 2.0, True], dtype=kind).tolist() == [1.0, 2.0, 1.0]
    assert flambeau.eye(2, dtype=kind).tolist() == [[1, zero], [zero, 1]]
    assert flambeau.ones(2, dtype=kind).fill_(2).tolist() == [2.0, 2.0]
    assert math.isnan(flambeau.full((), math.nan, dtype=kind).item())
    assert flambeau.empty(2, 3, dtype=kind).nbytes == 6
    assert flambeau.ones(1, dtype=kind, device="meta").to(flambeau.float32).shape == (1,)
    if name == "float8_e5m2":
        assert flambeau.full((), math.inf, dtype=kind).item() == math.inf
    else:
        with pytest.raises(RuntimeError, match="without overflow: got inf"):
            flambeau.full((), math.inf, dtype=kind)
    if name != "float8_e8m0fnu":
        with pytest.raises(RuntimeError, match=f"full.*{name} without overflow"):
            flambeau.full((), 1e9, dtype=kind)


@pytest.mark.parametrize("name", FLOAT8)
def test_limits(name):
    kind = getattr(flambeau, name)
    limits = flambeau.finfo(kind)
    finite = [v for v in (number(byte, name) for byte in range(256)) if math.isfinite(v)]
    assert (limits.max, limits.min, limits.bits) == (max(finite), min(finite), 8)
    above_one = min(v for v in finite if v > 1)
    assert limits.eps == above_one - 1 and limits.dtype == name
    assert kind.is_floating_point and kind.is_signed == (name != "float8_e8m0fnu") and kind.itemsize == 1


@pytest.mark.parametrize("name", FLOAT8)
def test_what_is_computed(name):
    kind = getattr(flambeau, name)
    x, y = flambeau.tensor([1.0, 2.0, 4.0]).to(kind), flambeau.tensor([1.0, 4.0, 0.5]).to(kind)
    assert (x * y).dtype == kind and (x * y).tolist() == [1.0, 8.0, 2.0]
    assert (x == y).tolist() == [True, False, False] and (x != y).tolist() == [False, True, True]
    assert (x == 2).tolist() == [False, True, False]
    assert (
        x.abs().tolist() == x.tolist() and not x.isnan().any() and x.isfinite().all() and not x.isinf().any()
    )
    assert flambeau.where(x == y, x, y).tolist() == [1.0, 4.0, 0.5]
    assert flambeau.equal(x, x.clone()) and not flambeau.equal(x, y)
    assert x.sum(dtype=flambeau.float32).item() == 7 and x.cumsum(0, dtype=flambeau.float32).tolist() == [
        1,
        3,
        7,
    ]
    assert (x.reshape(1, 3) @ y.reshape(3, 1)).tolist() == flambeau.tensor([[11.0]]).to(kind).tolist()
    assert (flambeau.ones(3) + x[1]).tolist() == [3, 3, 3]  # without dimensions, it gives its number alone
    out = flambeau.empty(3, dtype=kind)
    flambeau.add(flambeau.ones(3), flambeau.ones(3), out=out)
    assert out.tolist() == [2.0, 2.0, 2.0]
    assert x.clone().mul_(y).tolist() == [1.0, 8.0, 2.0]
    nan = flambeau.tensor([math.nan]).to(kind)
    assert not flambeau.equal(nan, nan) and nan.isnan().all()
    flambeau.testing.assert_close(x, x.clone())


REFUSED = {
    "add": lambda x: x + x,
    "sub": lambda x: x - 1,
    "div": lambda x: x / x,
    "lt": lambda x: x < x,
    "exp": lambda x: x.exp(),
    "neg": lambda x: -x,
    "sum": lambda x: x.sum(),
    "max": lambda x: x.max(),
    "mean": lambda x: x.mean(),
    "cumsum": lambda x: x.cumsum(0),
    "sort": lambda x: x.sort(),
    "softmax": lambda x: x.softmax(0),
    "clamp": lambda x: x.clamp(0, 1),
    "unique": lambda x: x.unique(),
    "random_": lambda x: x.random_(),
    "nan_to_num": lambda x: x.nan_to_num(),
    "arange": lambda x: flambeau.arange(3, dtype=x.dtype),
    "rand": lambda x: flambeau.rand(3, dtype=x.dtype),
    "linspace": lambda x: flambeau.linspace(0, 1, 3, dtype=x.dtype),
    "sqrt_out": lambda x: flambeau.sqrt(x, out=flambeau.empty(3)),
}


@pytest.mark.parametrize("what, name", list(itertools.product(REFUSED, [*FLOAT8, "float4_e2m1fn_x2"])))
def test_what_is_refused_names_the_dtype(what, name):
    x = flambeau.tensor([56, 64, 72], dtype=flambeau.uint8).view(getattr(flambeau, name))
    with pytest.raises(NotImplementedError, match=f"not implemented for '?(flambeau.)?{name}"):
        REFUSED[what](x)
    assert x.view(flambeau.uint8).tolist() == [56, 64, 72]


@pytest.mark.parametrize("name", FLOAT8)
def test_nothing_is_promoted(name):
    x = flambeau.ones(2, dtype=getattr(flambeau, name))
    for call in (
        lambda y: x + y,
        lambda y: x == y,
        lambda y: flambeau.cat([x, y]),
        lambda y: flambeau.ones(2).add_(x),
    ):
        with pytest.raises(
            RuntimeError, match="Promotion for Float8 Types is not supported, attempted to promote"
        ):
            call(flambeau.ones(2))


@pytest.mark.parametrize("name", FLOAT8[:4])
def test_gradients_go_through_conversions(name):
    kind = getattr(flambeau, name)
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    y = x.to(kind)
    assert y.requires_grad and y.dtype == kind
    (y.float() * flambeau.tensor([2.0, 4.0])).sum().backward()
    assert x.grad.dtype == flambeau.float32 and x.grad.tolist() == [2.0, 4.0]
    leaf = flambeau.tensor([1.0, 2.0]).to(kind).requires_grad_()
    (leaf.float() * 3).sum().backward()
    assert leaf.grad.dtype == kind and leaf.grad.tolist() == [3.0, 3.0]
    written = flambeau.zeros(2, dtype=kind)
    written.copy_(x)
    written.float().sum().backward()
    assert x.grad.tolist() == [3.0, 5.0]
    z = flambeau.tensor([3.0], requires_grad=True)
    (z.to(kind) * z.to(kind)).float().backward()
    assert z.grad.item() == 6.0


def test_numpy_has_none():
    for name in [*FLOAT8, "float4_e2m1fn_x2", "complex32"]:
        with pytest.raises(TypeError, match="Got unsupported ScalarType"):
            flambeau.zeros(2, dtype=getattr(flambeau, name)).numpy()


@pytest.mark.parametrize("name", [*FLOAT8, "float4_e2m1fn_x2", "complex32", "uint16", "uint32", "uint64"])
def test_dlpack_goes_there_and_back(name):
    x = flambeau.arange(8, dtype=flambeau.uint8).view(getattr(flambeau, name))
    y = flambeau.from_dlpack(x)
    assert y.dtype == x.dtype and y.data_ptr() == x.data_ptr()


def test_float4_is_storage():
    x = flambeau.tensor([0x21, 0x43], dtype=flambeau.uint8).view(flambeau.float4_e2m1fn_x2)
    assert repr(x) == "tensor([33., 67.], dtype=flambeau.float4_e2m1fn_x2)"
    assert (x == x.clone()).all() and flambeau.cat([x, x]).view(flambeau.uint8).tolist() == [33, 67, 33, 67]
    assert flambeau.equal(pickle.loads(pickle.dumps(x)).view(flambeau.uint8), x.view(flambeau.uint8))
    ones = flambeau.ones(2)
    for call in (x.float, lambda: ones.to(x.dtype), x[0].item, lambda: flambeau.ones(2, dtype=x.dtype)):
        with pytest.raises(NotImplementedError, match="not implemented for 'float4_e2m1fn_x2'"):
            call()


def test_printing():
    x = flambeau.tensor([1.0, 0.5, math.nan]).to(flambeau.float8_e4m3fn)
    assert repr(x) == "tensor([1.0000, 0.5000,    nan], dtype=flambeau.float8_e4m3fn)"
    assert repr(x[0]) == "tensor(1., dtype=flambeau.float8_e4m3fn)" and f"{x[1]:.2f}" == "0.50"


def test_no_default_dtype():
    with pytest.raises(TypeError, match="only floating-point types"):
        flambeau.set_default_dtype(flambeau.float8_e4m3fn)
