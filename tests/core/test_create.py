"""Making tensors: sizes, dtypes, layouts, data, filling; values against NumPy."""

from __future__ import annotations

import array as arrays
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import flambeau

NUMPY_DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def array(t) -> np.ndarray:
    return t.numpy()


def check(t, expected) -> None:
    got = array(t)
    expected = np.asarray(expected)
    assert got.dtype == expected.dtype and got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


# --- sizes, dtypes, layouts ------------------------------
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("name", ["zeros", "ones"])
def test_zeros_and_ones_in_every_dtype(name, dtype):
    t = getattr(flambeau, name)(2, 3, dtype=getattr(flambeau, dtype))
    check(t, getattr(np, name)((2, 3), dtype))


@pytest.mark.parametrize(
    "make",
    [
        lambda: flambeau.empty(2, 3),
        lambda: flambeau.empty((2, 3)),
        lambda: flambeau.empty([2, 3]),
        lambda: flambeau.empty(size=(2, 3)),
        lambda: flambeau.empty(flambeau.Size([2, 3])),
        lambda: flambeau.empty(np.int64(2), flambeau.tensor(3)),
    ],
)
def test_sizes_come_in_many_forms(make):
    t = make()
    assert t.shape == (2, 3) and t.stride() == (3, 1) and t.dtype is flambeau.float32


def test_sizes_of_rank_zero_and_of_zero():
    assert flambeau.ones(()).item() == 1.0
    assert flambeau.ones(3, 0, 2).numel() == 0
    assert flambeau.zeros([1] * 64).dim() == 64


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: flambeau.empty(), TypeError, "missing 1 required positional"),
        (lambda: flambeau.empty(2, -1), RuntimeError, r"negative dimension -1: \[2, -1\]"),
        (lambda: flambeau.empty(2.0), TypeError, "must be tuple of ints, not float"),
        (lambda: flambeau.empty(True), TypeError, "must be tuple of ints, not bool"),
        (lambda: flambeau.empty("2"), TypeError, "must be tuple of ints, not str"),
        (lambda: flambeau.empty((2,), 3), TypeError, "takes 1 positional argument but 2 were given"),
        (lambda: flambeau.empty(2, size=(2,)), TypeError, "multiple values for argument 'size'"),
        (lambda: flambeau.zeros(2, foo=1), TypeError, "unexpected keyword argument 'foo'"),
        (lambda: flambeau.zeros(2, dtype="float32"), TypeError, "argument 'dtype' must be"),
        (lambda: flambeau.zeros(2, device="cuda"), RuntimeError, "driver|not available"),
        (
            lambda: flambeau.zeros(2, dtype=flambeau.int64, requires_grad=True),
            RuntimeError,
            "floating point and complex",
        ),
        (lambda: flambeau.zeros([1] * 65), RuntimeError, "at most 64 dimensions"),
        (lambda: flambeau.zeros(1 << 40, 1 << 40), RuntimeError, "overflowed"),
        (lambda: flambeau.full(3, 1.0), TypeError, "must be tuple of ints, not int"),
        (lambda: flambeau.full((2,)), TypeError, 'missing 1 required positional arguments: "fill_value"'),
        (lambda: flambeau.full((2,), "a"), TypeError, "must be Number, not str"),
        (lambda: flambeau.full((2,), flambeau.ones(1)), TypeError, "must be Number, not Tensor"),
        (lambda: flambeau.zeros_like([1]), TypeError, "must be Tensor, not list"),
        (lambda: flambeau.empty_strided((2, 3), (1,)), RuntimeError, "must match dimensionality of strides"),
        (lambda: flambeau.empty_strided((2, 3), (-1, 1)), RuntimeError, "Negative strides"),
        (lambda: flambeau.empty_strided((2, 3), (1 << 60, 1)), RuntimeError, "cannot allocate"),
        (lambda: flambeau.eye(-1), RuntimeError, "n must be greater or equal to 0"),
        (lambda: flambeau.eye(2, 3.0), TypeError, "must be int, not float"),
        (lambda: flambeau.empty(2, 3, memory_format=flambeau.channels_last), RuntimeError, "required rank 4"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_requires_grad_makes_a_leaf():
    t = flambeau.zeros(2, requires_grad=True)
    assert t.requires_grad and t.is_leaf
    assert not flambeau.zeros(2).requires_grad


def test_default_dtype_is_followed():
    flambeau.set_default_dtype(flambeau.float64)
    try:
        for t in (flambeau.zeros(1), flambeau.tensor([1.0]), flambeau.arange(1.0), flambeau.full((1,), 1.0)):
            assert t.dtype is flambeau.float64
        assert flambeau.tensor([1j]).dtype is flambeau.complex128
    finally:
        flambeau.set_default_dtype(flambeau.float32)


def test_channels_last():
    assert flambeau.empty(2, 3, 4, 5, memory_format=flambeau.channels_last).stride() == (60, 1, 15, 3)
    assert flambeau.empty(2, 3, 4, 5, 6, memory_format=flambeau.channels_last_3d).stride() == (
        360,
        1,
        90,
        18,
        3,
    )


@pytest.mark.parametrize(
    ("size", "stride", "expected"),
    [
        ((2, 3), (3, 1), (3, 1)),
        ((4, 2, 3), (1, 12, 4), (1, 12, 4)),  # dense: kept
        ((3, 4), (2, 6), (1, 3)),  # gaps: the order is kept
        ((3, 4), (1, 0), (4, 1)),  # broadcast
        ((3, 4), (0, 1), (4, 1)),
        ((1, 3, 1), (7, 1, 9), (7, 1, 9)),
        ((4, 0, 3), (1, 7, 9), (1, 7, 9)),
        ((1, 2, 2, 3, 2), (16, 8, 1, 16, 4), (8, 4, 1, 8, 2)),
    ],
)
def test_like_keeps_the_layout(size, stride, expected):
    model = flambeau.empty_strided(size, stride)
    made = flambeau.empty_like(model)
    assert made.shape == size and made.stride() == expected
    assert flambeau.empty_like(model, memory_format=flambeau.contiguous_format).is_contiguous()


def test_like_and_new_take_dtype_and_values():
    model = flambeau.empty(2, 3, dtype=flambeau.int16)
    check(flambeau.zeros_like(model), np.zeros((2, 3), "i2"))
    check(flambeau.ones_like(model, dtype=flambeau.float64), np.ones((2, 3)))
    check(flambeau.full_like(model, 2.9), np.full((2, 3), 2, "i2"))
    check(model.new_zeros(2), np.zeros(2, "i2"))
    check(model.new_ones((2, 1)), np.ones((2, 1), "i2"))
    check(model.new_full((2,), 7), np.full(2, 7, "i2"))
    check(model.new_tensor([1.5, 2]), np.array([1, 2], "i2"))
    assert model.new_empty(4).shape == (4,)
    assert model.new_empty_strided((2, 3), (1, 2)).stride() == (1, 2)


def test_out():
    out = flambeau.empty(0, dtype=flambeau.int32)
    assert flambeau.ones(2, 2, out=out) is out
    check(out, np.ones((2, 2), "i4"))
    transposed = flambeau.empty(2, 3).t()
    flambeau.full((3, 2), 5.0, out=transposed)
    assert transposed.stride() == (1, 3)
    check(transposed, np.full((3, 2), 5, "f4"))
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        flambeau.zeros(2, out=out, dtype=flambeau.float32)


# --- ranges ------------------------------
@pytest.mark.parametrize(
    "args",
    [(5,), (2, 7), (1, 10, 3), (10, 1, -3), (5, 5), (0, 300000), (-5, 2**62, 2**60), (2**63 - 2, 2**63 - 1)],
)
def test_arange_of_integers(args):
    check(flambeau.arange(*args), np.array(range(*args), dtype=np.int64))


@pytest.mark.parametrize("args", [(2.0,), (1, 2, 0.3), (0.1, 1, 0.1), (3, -1, -0.25), (0, 200000.0)])
def test_arange_of_floats(args):
    expected = np.arange(*args)
    np.testing.assert_allclose(array(flambeau.arange(*args, dtype=flambeau.float64)), expected, rtol=1e-15)
    single = flambeau.arange(*args)
    assert single.dtype is flambeau.float32 and single.shape == expected.shape
    np.testing.assert_allclose(array(single), expected, rtol=6e-8)  # half a unit in the last place


def test_arange_converts():
    check(flambeau.arange(0, 5.5, 1.1, dtype=flambeau.int64), np.arange(5))
    check(flambeau.arange(0, 300, 100, dtype=flambeau.int8), np.array([0, 100, -56], "i1"))
    check(flambeau.arange(4, dtype=flambeau.float16), np.arange(4, dtype="f2"))
    check(flambeau.arange(start=1, end=4), np.arange(1, 4))
    check(flambeau.arange(end=flambeau.tensor(3)), np.arange(3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: flambeau.arange(), TypeError, 'missing .*"end"'),
        (lambda: flambeau.arange(5, 0), RuntimeError, "inconsistent with step sign"),
        (lambda: flambeau.arange(0, 5, 0), RuntimeError, "step must be nonzero"),
        (lambda: flambeau.arange(0, math.inf), RuntimeError, "unsupported range"),
        (lambda: flambeau.arange(math.nan), RuntimeError, "unsupported range"),
        (lambda: flambeau.arange(0, 1e300), RuntimeError, "invalid size"),
        (lambda: flambeau.arange("a"), TypeError, "must be a real Number, not str"),
        (lambda: flambeau.arange(2, dtype=flambeau.bool), NotImplementedError, "flambeau.bool"),
        (lambda: flambeau.linspace(0, 1, -1), RuntimeError, "number of steps must be non-negative"),
        (lambda: flambeau.linspace(0, 1), TypeError, 'missing .*"steps"'),
        (lambda: flambeau.linspace(flambeau.ones(1), 1, 2), RuntimeError, "0-dimensional start and end"),
        (lambda: flambeau.linspace(0, 1j, 2, dtype=flambeau.float32), RuntimeError, "safely cast"),
    ],
)
def test_wrong_ranges(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("args", [(0, 1, 5), (0, 1, 1), (3, -3, 0), (-2.5, 7.25, 100), (0, 1j, 3)])
def test_linspace(args):
    dtype = flambeau.complex128 if isinstance(args[1], complex) else flambeau.float64
    np.testing.assert_allclose(
        array(flambeau.linspace(*args, dtype=dtype)), np.linspace(*args), rtol=1e-15, atol=1e-15
    )


def test_linspace_ends_exactly_and_truncates():
    t = array(flambeau.linspace(0.1, 0.7, 1001))
    assert t[0] == np.float32(0.1) and t[-1] == np.float32(0.7)
    check(flambeau.linspace(0, 10, 4, dtype=flambeau.int64), np.array([0, 3, 6, 10]))


def test_logspace():
    np.testing.assert_allclose(array(flambeau.logspace(-2, 3, 7)), np.logspace(-2, 3, 7), rtol=1e-6)
    check(flambeau.logspace(0, 3, 4, base=2, dtype=flambeau.int64), np.array([1, 2, 4, 8]))
    check(flambeau.logspace(0, 3, 4, -2), np.array([1, -2, 4, -8], "f4"))


def test_eye_and_triangles():
    check(flambeau.eye(3, dtype=flambeau.int64), np.eye(3, dtype=int))
    check(flambeau.eye(2, 4), np.eye(2, 4, dtype="f4"))
    for row, col, offset in itertools.product([0, 1, 3], [0, 2, 4], [-5, -1, 0, 2, 9]):
        for name in ("tril_indices", "triu_indices"):
            expected = np.array(getattr(np, name)(row, offset, col))
            check(getattr(flambeau, name)(row, col, offset), expected)
    with pytest.raises(RuntimeError, match="row must be non-negative"):
        flambeau.tril_indices(-3, 4)


# --- data ------------------------------
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (1, np.array(1)),
        (1.5, np.array(1.5, "f4")),
        (True, np.array(True)),
        (1 + 2j, np.array(1 + 2j, "c8")),
        ([], np.zeros(0, "f4")),
        ([[], []], np.zeros((2, 0), "f4")),
        ([1, 2, 3], np.array([1, 2, 3])),
        ((1.0, 2.0), np.array([1, 2], "f4")),
        ([True, False], np.array([True, False])),
        ([True, 2], np.array([1, 2])),
        ([1, 2.5], np.array([1, 2.5], "f4")),
        ([2.5, 1, True], np.array([2.5, 1, 1], "f4")),
        ([1, 2j], np.array([1, 2j], "c8")),
        ([[1, 2], (3, 4.5)], np.array([[1, 2], [3, 4.5]], "f4")),
        (range(4), np.arange(4)),
        ([range(2), range(2)], np.array([[0, 1], [0, 1]])),
        ([np.float64(1.5)], np.array([1.5])),
        ([np.float32(1), 2], np.array([1, 2], "f4")),
        ([np.int8(3)], np.array([3], "i1")),
        ([np.array([1, 2]), np.array([3, 4])], np.array([[1, 2], [3, 4]])),
        (np.float64(2.5), np.array(2.5)),
        ([2**63 - 1, -(2**63)], np.array([2**63 - 1, -(2**63)])),
    ],
)
def test_tensor_infers_shape_and_dtype(data, expected):
    check(flambeau.tensor(data), expected)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("data", [[0, 1, 2], [0.5, 1.5, 2.75], [True, False, True], [[1], [0], [3]]])
def test_tensor_converts(data, dtype):
    check(flambeau.tensor(data, dtype=getattr(flambeau, dtype)), np.array(data).astype(dtype))


def test_tensor_takes_single_tensors_as_elements():
    check(flambeau.tensor([flambeau.tensor(1), flambeau.tensor(3.5)]), np.array([1, 3.5], "f4"))
    check(flambeau.tensor([flambeau.tensor(1.0, dtype=flambeau.float64), 2]), np.array([1.0, 2.0]))


@pytest.mark.parametrize(
    ("data", "kwargs", "error", "message"),
    [
        ([[1, 2], [3, 4, 5]], {}, ValueError, r"expected sequence of length 2 at dim 1 \(got 3\)"),
        (
            [[[1, 2], [3, 4]], [[1, 2], [3]]],
            {},
            ValueError,
            r"expected sequence of length 2 at dim 2 \(got 1\)",
        ),
        ([[1, 2], 3], {}, TypeError, "not a sequence"),
        ([1, [2, 3]], {}, TypeError, "'list' object cannot be interpreted"),
        ("a", {}, TypeError, "invalid data type 'str'"),
        (["a"], {}, ValueError, "too many dimensions 'str'"),
        (None, {}, RuntimeError, "Could not infer dtype of NoneType"),
        ([1.0, None], {}, RuntimeError, "Could not infer dtype of NoneType"),
        ({1: 2}, {}, RuntimeError, "Could not infer dtype of dict"),
        ([1.0, None], {"dtype": "float32"}, TypeError, "must be real number, not NoneType"),
        ([1j], {"dtype": "float32"}, TypeError, "must be real number, not complex"),
        ([300], {"dtype": "int8"}, RuntimeError, "cannot be converted to type int8 without overflow"),
        ([math.nan], {"dtype": "int64"}, RuntimeError, "without overflow"),
        ([2**63], {}, ValueError, "Overflow when unpacking"),
        (np.array(["a"]), {}, TypeError, "can't convert np.ndarray of type numpy.str_"),
        (np.array([1], ">i4"), {}, ValueError, "byte order"),
    ],
)
def test_tensor_refuses(data, kwargs, error, message):
    if kwargs:
        kwargs = {"dtype": getattr(flambeau, kwargs["dtype"])}
    with pytest.raises(error, match=message):
        flambeau.tensor(data, **kwargs)


def test_a_list_nested_in_itself_is_refused():
    endless: list = []
    endless.append(endless)
    with pytest.raises(ValueError, match="too many dimensions"):
        flambeau.tensor(endless)


def test_a_list_that_changes_while_it_is_read():
    class Shrinking(np.ndarray):
        @property
        def ndim(self):
            items.clear()
            return 0

    items = [1, 2.0]
    items.insert(1, np.zeros(1).view(Shrinking))
    with pytest.raises((ValueError, TypeError, IndexError)):
        flambeau.tensor(items)


def test_tensor_of_an_array_copies():
    for source in (
        np.arange(6).reshape(2, 3),
        np.arange(6).reshape(2, 3).T,
        np.arange(6)[::-2],
        np.array(3.5),
    ):
        t = flambeau.tensor(source)
        check(t, source)
        assert t.is_contiguous()
        array(t)[...] = 0
        assert source.any()
    check(flambeau.tensor(np.arange(3), dtype=flambeau.float32), np.arange(3, dtype="f4"))


def test_tensor_of_a_tensor_copies_and_warns():
    source = flambeau.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="clone"):
        t = flambeau.tensor(source)
    assert not t.requires_grad
    t.fill_(5)
    check(source.detach(), np.ones(2, "f4"))


def test_as_tensor_shares_where_it_can():
    t = flambeau.ones(2)
    assert flambeau.as_tensor(t) is t
    check(flambeau.as_tensor(t, dtype=flambeau.int64), np.ones(2, int))
    source = np.zeros(3)
    flambeau.as_tensor(source).fill_(2)
    assert (source == 2).all()
    check(flambeau.as_tensor([1, 2], dtype=flambeau.float64), np.array([1.0, 2.0]))


def test_asarray_of_a_storage():
    storage = flambeau.UntypedStorage([1, 0, 2, 0])
    shorts = flambeau.asarray(storage, dtype=flambeau.int16)
    assert shorts.tolist() == [1, 2] and shorts.data_ptr() == storage.data_ptr()
    for empty in (flambeau.UntypedStorage(0), storage[2:2]):  # as safetensors makes empty tensors
        made = flambeau.asarray(empty, dtype=flambeau.uint8)
        assert (
            made.shape == (0,) and made.dtype == flambeau.uint8 and made.view(flambeau.float32).shape == (0,)
        )
        with pytest.raises(ValueError):
            flambeau.asarray(empty, copy=False)
    with pytest.raises(ValueError, match="buffer length"):
        flambeau.asarray(bytearray())


def test_asarray():
    source = np.zeros(3)
    flambeau.asarray(source).fill_(2)
    assert (source == 2).all()
    flambeau.asarray(source, copy=True).fill_(3)
    assert (source == 2).all()
    check(flambeau.asarray(bytearray(8), dtype=flambeau.int32), np.zeros(2, "i4"))
    check(flambeau.asarray([1, 2]), np.array([1, 2]))
    t = flambeau.ones(2, requires_grad=True)
    assert not flambeau.asarray(t, requires_grad=False).requires_grad
    assert flambeau.asarray(t, requires_grad=True).is_leaf
    with pytest.raises(ValueError, match="can't alias arbitrary sequence"):
        flambeau.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="can't alias tensor with dtype"):
        flambeau.asarray(source, dtype=flambeau.float32, copy=False)


def test_scalar_tensor():
    check(flambeau.scalar_tensor(3), np.array(3, "f4"))
    check(flambeau.scalar_tensor(3, dtype=flambeau.int8), np.array(3, "i1"))


# --- filling ------------------------------
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("value", [0, 3, -1, 2.75, True])
def test_fill_strided(dtype, value):
    if dtype == "uint8" and value == -1:
        expected = 255
    else:
        expected = np.array(value).astype(dtype)
    base = flambeau.zeros(4, 6, 5, dtype=getattr(flambeau, dtype))
    twin = np.zeros((4, 6, 5), dtype)
    part = base.permute(2, 0, 1).narrow(0, 1, 3).narrow(2, 2, 2)
    assert part.fill_(value) is part
    twin.transpose(2, 0, 1)[1:4, :, 2:4] = expected
    check(base, twin)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
def test_fill_of_a_large_tensor(dtype):
    t = flambeau.empty(700, 1001, dtype=getattr(flambeau, dtype)).fill_(7)
    check(t, np.full((700, 1001), 7, dtype))


def test_halves_round_to_even():
    values = [
        1 / 3,
        65504.0,
        65519.0,
        1e-8,
        2.9802322387695312e-08,
        2.99e-08,
        6.1e-5,
        6.09755516e-05,
        -7.25,
        2049.0,
        2051.0,
    ]
    for value in values:
        assert flambeau.tensor(value, dtype=flambeau.float16).item() == float(np.float16(value))
    assert flambeau.tensor(1.00390625, dtype=flambeau.bfloat16).item() == 1.0  # halfway, to even
    assert flambeau.tensor(1.01171875, dtype=flambeau.bfloat16).item() == 1.015625
    assert math.isnan(flambeau.tensor(math.nan, dtype=flambeau.bfloat16).item())
    assert flambeau.tensor(70000.0, dtype=flambeau.float16).item() == math.inf


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", 300),
        ("uint8", -256),
        ("int64", math.nan),
        ("int64", 2**63),
        ("float16", 7e4),
        ("float32", 1e40),
        ("int64", 1j),
    ],
)
def test_fill_refuses_what_does_not_fit(dtype, value):
    t = flambeau.zeros(2, dtype=getattr(flambeau, dtype))
    with pytest.raises(RuntimeError, match="without overflow"):
        t.fill_(value)
    with pytest.raises(RuntimeError, match="without overflow"):
        flambeau.full((2,), value, dtype=t.dtype)
    check(t, np.zeros(2, dtype))


def test_fill_refuses_other_things():
    with pytest.raises(RuntimeError, match="0-dimension value tensor"):
        flambeau.zeros(2).fill_(flambeau.ones(1))
    with pytest.raises(TypeError, match="must be Number or Tensor, not str"):
        flambeau.zeros(2).fill_("a")
    with pytest.raises(RuntimeError, match="leaf Variable"):
        flambeau.zeros(2, requires_grad=True).fill_(1)


def test_fill_on_the_tape():
    x = flambeau.ones(3, requires_grad=True)
    value = flambeau.tensor(2.0, requires_grad=True)
    y = x * 2
    y.narrow(0, 0, 2).fill_(value)
    assert y.tolist() == [2, 2, 2] and y.requires_grad
    (y * flambeau.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [0, 0, 200] and value.grad.item() == 11
    z = x.detach().requires_grad_() * 3
    z.zero_()
    assert z.grad_fn.name() == "ZeroBackward0" and z.tolist() == [0, 0, 0]


def test_a_write_is_counted():
    t = flambeau.zeros(2)
    before = t._version
    t.fill_(1)
    t.zero_()
    assert t._version == before + 2


def test_sizes_are_tuples_whose_parts_are_sizes():
    shape = flambeau.zeros(2, 3, 4).shape
    assert (shape[0], shape[-1], flambeau.Size.__getitem__(shape, 1)) == (2, 4, 3)
    assert shape[1:] == (3, 4) and type(shape[1:]) is flambeau.Size and type(shape[::2]) is flambeau.Size
    with pytest.raises(IndexError):
        shape[3]
    with pytest.raises(TypeError):
        shape["a"]

    class Named(flambeau.Size):
        def __getitem__(self, key):
            return "named"

    assert Named((1, 2))[0] == "named" and flambeau.Size((1, 2))[0] == 1


# ---------------------------------------------------------------- columns of tables, and what else becomes an array


class Column:
    """As a table's column: its items have labels, an iteration gives Python numbers, `__array__` knows the dtype."""

    def __init__(self, values, labels=None, dtype=None):
        self.values = np.array(values, dtype=dtype)
        self.dtype, self.shape = self.values.dtype, self.values.shape
        self.labels = list(range(len(values))) if labels is None else list(labels)

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values.tolist())

    def __getitem__(self, label):
        return self.values[self.labels.index(label)] if label in self.labels else self.missing(label)

    def missing(self, label):
        raise KeyError(label)

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)


MAKERS = {"tensor": flambeau.tensor, "as_tensor": flambeau.as_tensor, "asarray": flambeau.asarray}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("labels", [None, "abc", (5, 6, 7)], ids=["positions", "letters", "numbers"])
@pytest.mark.parametrize(
    "name", ["bool", "uint8", "int8", "int32", "int64", "float16", "float32", "float64", "complex64"]
)
def test_columns_keep_their_dtype(make, labels, name):
    column = Column([0, 1, 3], labels, name)
    x = make(column)
    assert x.dtype == getattr(flambeau, name) and x.tolist() == column.values.tolist()
    nested = make([column, column])
    assert nested.dtype == x.dtype and nested.tolist() == [x.tolist()] * 2
    assert make([column, [0.5, 1.5, 2.5]]).shape == (2, 3)
    x.zero_()
    assert column.values.any()


def test_columns_are_copied_and_converted():
    column = Column([1.0, 2.0], "ab")
    x = flambeau.tensor(column, dtype=flambeau.float32)
    x.zero_()
    assert x.dtype == flambeau.float32 and column.values.tolist() == [1.0, 2.0]
    assert flambeau.ones(1, dtype=flambeau.int16).new_tensor(column).tolist() == [1, 2]
    assert flambeau.Tensor(column).dtype == flambeau.float32
    assert flambeau.tensor(Column(np.arange(6.0).reshape(2, 3), "ab")).shape == (2, 3)
    assert flambeau.tensor(Column([], [])).dtype == flambeau.float64


def test_columns_of_objects_are_read_by_element():
    assert flambeau.tensor(Column([1.0, 2], "ab", object)).tolist() == [1.0, 2.0]
    assert flambeau.tensor(Column([1.0, 2], "ab", object)).dtype == flambeau.float32
    for wrong in (Column(["a", "b"]), Column(["a", 1], dtype=object), Column([None], dtype=object)):
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            flambeau.tensor(wrong)
    with pytest.raises(TypeError, match="datetime64"):
        flambeau.tensor(Column(["2020-01-01"], dtype="datetime64[s]"))
    with pytest.raises(ValueError, match="expected sequence of length 2"):
        flambeau.tensor([Column([1, 2]), Column([1, 2, 3])])


class Lent:
    """Memory of another library, which lends it by DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_lent_memory():
    array = np.arange(3.0)
    copied, shared = flambeau.tensor(Lent(array)), flambeau.as_tensor(Lent(array))
    assert copied.dtype == shared.dtype == flambeau.float64
    array[0] = 7
    assert copied.tolist() == [0.0, 1.0, 2.0] and shared.tolist() == [7.0, 1.0, 2.0]
    assert flambeau.tensor(Lent(array), dtype=flambeau.int32).tolist() == [7, 1, 2]


class Half:
    def __float__(self):
        return 0.5


class Three:
    def __index__(self):
        return 3


@pytest.mark.parametrize(
    "data, dtype, expected",
    [
        (Decimal("1.5"), "float32", 1.5),
        ([Decimal("1.5"), Fraction(1, 4), Half(), Three(), 2], "float64", [1.5, 0.25, 0.5, 3.0, 2.0]),
        ([Three()], "int16", [3]),
        (np.longdouble(0.5), "float32", 0.5),
        ([np.float64(0.5), 1], None, [0.5, 1.0]),
        ([np.bool_(True), np.bool_(False)], None, [True, False]),
        (arrays.array("d", [1, 2]), None, [1.0, 2.0]),
        (memoryview(arrays.array("i", [1, 2])), None, [1, 2]),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), None, [1.0, 2.0]),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_is_a_number_in_the_dtype_asked_for(data, dtype, expected):
    asked = {} if dtype is None else {"dtype": getattr(flambeau, dtype)}
    assert flambeau.tensor(data, **asked).tolist() == expected


@pytest.mark.parametrize(
    "data", [Decimal("1.5"), [Fraction(1, 2)], Half(), [Three()]], ids=lambda v: type(v).__name__
)
def test_what_has_no_dtype_of_its_own(data):
    with pytest.raises(RuntimeError, match="Could not infer dtype"):
        flambeau.tensor(data)
    if not isinstance(data, list) or not isinstance(data[0], Three):
        with pytest.raises(TypeError):
            flambeau.tensor(data, dtype=flambeau.int64)


def test_tensor_takes_no_out():
    with pytest.raises(TypeError, match="'out'"):
        flambeau.tensor([1.0], out=flambeau.empty(1))


@pytest.mark.parametrize("kind", ["uint8", "int16", "float32", "complex64", "complex128"])
def test_large_tensors_are_filled_to_the_last_byte(kind):
    """Those that no cache holds, from places where lines of the cache begin and others."""
    dtype = getattr(flambeau, kind)
    elements = (33 << 20) // dtype.itemsize
    x = flambeau.empty(elements + 7, dtype=dtype)
    number = 7 if kind in ("uint8", "int16") else 2.5
    threads = flambeau.get_num_threads()
    for count, begin, end in ((1, 0, elements + 7), (3, 0, elements + 3), (3, 3, elements + 5)):
        flambeau.set_num_threads(count)
        x.zero_()
        assert not x.numpy().any()
        x[begin:end].fill_(number)
        found = x.numpy()
        assert (found[begin:end] == number).all()
        assert not found[:begin].any() and not found[end:].any()
    flambeau.set_num_threads(threads)


@pytest.mark.parametrize("kind", [k for k in NUMPY_DTYPES if k != "bool"])
def test_fills_of_any_length_and_place(kind):
    """Lengths about those at which the way of filling changes, from each place in a line of the cache; nothing beside is written to."""
    width = np.dtype(kind).itemsize
    number = 3 if np.dtype(kind).kind in "iu" else 2.5
    for length in (2047, 2048, 2049, 2056, 2063, 2111, 2112, 4096, 5003):
        for begin in range(0, 64 + width, max(width, 3)):  # also places that no element may begin at
            elements = length // width
            data = bytearray(b"\xa5" * (begin + elements * width + 70))
            flambeau.frombuffer(data, dtype=getattr(flambeau, kind), count=elements, offset=begin).fill_(
                number
            )
            end = begin + elements * width
            assert (np.frombuffer(bytes(data[begin:end]), dtype=kind) == number).all()
            assert data[:begin] == b"\xa5" * begin and data[end:] == b"\xa5" * 70


@pytest.mark.parametrize(
    "options", [{}, {"copy": True}, {"copy": False}, {"dtype": flambeau.float64}], ids=str
)
def test_asarray_leaves_tensors_on_the_tape(options):
    """Unless `requires_grad` says otherwise."""
    leaf = flambeau.ones(2, requires_grad=True)
    for x in (leaf, leaf * 2, flambeau.ones(2), flambeau.nn.Parameter(flambeau.ones(2))):
        same = not options.get("copy") and "dtype" not in options
        for requires_grad in (None, True):
            found = flambeau.asarray(x, requires_grad=requires_grad, **options)
            assert found.requires_grad == (x.requires_grad or bool(requires_grad))
            if x.requires_grad:
                assert (found is x) == same and flambeau.autograd.grad(found.sum(), x)[0].tolist() == [
                    1.0,
                    1.0,
                ]
        alone = flambeau.asarray(x, requires_grad=False, **options)
        assert not alone.requires_grad and (alone.data_ptr() == x.data_ptr()) == same
    assert (
        not flambeau.asarray([1.0]).requires_grad
        and flambeau.asarray([1.0], requires_grad=True).requires_grad
    )
