"""`assert_close`: whether two values, or two structures of values, agree within tolerances."""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any, NamedTuple

from .._tensor import Tensor
from ..core.base import dtypes
from ..core.base.dtypes import dtype
from ..core.base.formats import sparse_coo, strided
from ..core.make.literal import as_tensor
from ..operations.pointwise.arithmetic import isclose

_TOLERANCES = {  # relative, absolute: about ten roundings of a dtype; what is not named here is compared exactly
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


class _Options(NamedTuple):
    """How two values are compared."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool
    allow_subclasses: bool


class _Mismatch(Exception):
    """Two values differ; the text says how."""


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raises AssertionError unless `actual` and `expected` agree: |actual - expected| ≤ atol + rtol·|expected|, elementwise.

    Both are tensors (or what `as_tensor` takes: arrays), numbers, None, or sequences and mappings of such, to any depth.
    Tensors must agree in shape, and in device, dtype, layout (and strides, with `check_stride`) unless given otherwise: they
    are then brought to the host and to their common dtype.  Infinities agree with themselves, NaN with NaN only with
    `equal_nan`.  The tolerances follow from the dtype (the wider of two), and are 0 for integers and bools:

    | dtype | rtol | atol |
    |---|---|---|
    | float16 | 1e-3 | 1e-5 |
    | bfloat16 | 1.6e-2 | 1e-5 |
    | float32, complex64 | 1.3e-6 | 1e-5 |
    | float64, complex128, Python's float and complex | 1e-7 | 1e-7 |

    The message says how many elements differ, how much at most and where; `msg` takes its place, or makes another of it.

    Raises ValueError where only one tolerance is given or one is negative, TypeError for pairs of values that cannot be
    compared, and for different types with `allow_subclasses=False`.

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, 2.0, 3.0])
    >>> flambeau.testing.assert_close(x.exp().log(), x)
    >>> flambeau.testing.assert_close({"loss": x}, {"loss": x + flambeau.tensor([0.0, 0.0, 0.5])})
    Traceback (most recent call last):
        ...
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    Mismatched elements: 1 / 3 (33.3%)
    Greatest absolute difference: 0.5 at index (2,) (up to 1e-05 allowed)
    Greatest relative difference: 0.1428571492433548 at index (2,) (up to 1.3e-06 allowed)
    <BLANKLINE>
    The failure occurred for item ['loss']
    """
    if (rtol is None) != (atol is None):
        lacking = "atol" if atol is None else "rtol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {lacking}.")
    for name, given in (("rtol", rtol), ("atol", atol)):
        if given is not None and not given >= 0:
            raise ValueError(f"assert_close: {name} must not be negative, got {given}")
    options = _Options(
        rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, allow_subclasses
    )
    for path, ours, theirs in _pairs(actual, expected, ""):
        at = f"\n\nThe failure occurred for item {path}" if path else ""
        try:
            _compare(ours, theirs, options)
        except _Mismatch as result:
            said = str(result) + at
            break
        except TypeError as refused:
            raise TypeError(f"{refused}{at}") from None
    else:
        return
    raise AssertionError(said if msg is None else msg(said) if callable(msg) else msg)


def _pairs(actual: Any, expected: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """The leaves of two structures with their places; a difference between the structures is a pair, too."""
    if type(actual) is type(expected) and getattr(actual, "_is_wrapper", False):  # by what they are made of
        if actual.is_nested:
            yield from _pairs(actual.detach().unbind(), expected.detach().unbind(), path)
        else:
            yield from _pairs(actual.get_mask(), expected.get_mask(), path)
            yield from _pairs(actual.detach().to_tensor(0), expected.detach().to_tensor(0), path)
        return
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            yield path, actual, expected
            return
        for k, (ours, theirs) in enumerate(zip(actual, expected)):
            yield from _pairs(ours, theirs, f"{path}[{k}]")
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            yield path, actual, expected
            return
        for key in actual:
            yield from _pairs(actual[key], expected[key], f"{path}[{key!r}]")
    else:
        yield path, actual, expected


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _compare(actual: Any, expected: Any, options: _Options) -> None:
    """Raise _Mismatch where two leaves differ, TypeError where they cannot be compared."""
    if _is_sequence(actual) and _is_sequence(expected):
        raise _Mismatch(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        raise _Mismatch(
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {_names(expected.keys() - actual.keys())}\n"
            f"Additional keys in the actual mapping: {_names(actual.keys() - expected.keys())}"
        )
    if actual is None or expected is None:
        if actual is not expected:
            raise _Mismatch(f"None mismatch: {actual} is not {expected}")
    elif isinstance(actual, bool) and isinstance(expected, bool):
        if actual is not expected:
            raise _Mismatch(f"Booleans mismatch: {actual} is not {expected}")
    elif isinstance(actual, Number) and isinstance(expected, Number):  # NumPy's, too
        _compare_numbers(_python_number(actual), _python_number(expected), options)
    else:
        _compare_tensors(*_as_tensors(actual, expected, options.allow_subclasses), options)


def _names(keys: Any) -> list[Any]:
    return sorted(keys, key=str)


def _as_tensors(actual: Any, expected: Any, allow_subclasses: bool) -> tuple[Tensor, Tensor]:
    """Two values of directly related types as tensors."""
    ours, theirs = type(actual), type(expected)
    related = isinstance(actual, theirs) or isinstance(expected, ours)
    made = []
    if related if allow_subclasses else ours is theirs:
        for value in (actual, expected):
            try:
                made.append(as_tensor(value))
            except Exception:  # whatever an object says that is no array
                break
    if len(made) < 2 or isinstance(actual, Number) or isinstance(actual, (str, bytes)):
        raise TypeError(f"No comparison pair was able to handle inputs of type {ours} and {theirs}.")
    return made[0], made[1]


def _python_number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _tolerances(options: _Options, *of: dtype) -> tuple[float, float]:
    if options.rtol is not None and options.atol is not None:
        return options.rtol, options.atol
    each = [_TOLERANCES.get(d.name, (0.0, 0.0)) for d in of]
    return max(rtol for rtol, _ in each), max(atol for _, atol in each)


def _allowed(tolerance: float, exact: bool) -> str:
    return "" if exact else f" (up to {tolerance} allowed)"


def _compare_numbers(actual: complex, expected: complex, options: _Options) -> None:
    if options.check_dtype and type(actual) is not type(expected):
        raise _Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    whole = isinstance(actual, int) and isinstance(expected, int)
    kind = dtypes.by_name["int64" if whole else "float64"]
    rtol, atol = _tolerances(options, kind)
    if actual == expected or (options.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return
    difference = abs(actual - expected)
    # An infinite expectation allows any difference by the formula, but equals nothing else.
    if cmath.isfinite(expected) and difference <= atol + rtol * abs(expected):
        return
    raise _Mismatch(_scalars_differ(actual, expected, difference, rtol, atol))


def _scalars_differ(actual: Any, expected: Any, difference: float, rtol: float, atol: float) -> str:
    exact = rtol == 0 and atol == 0
    relative = difference / abs(expected) if expected else float("inf")
    return (
        f"Scalars are not {'equal' if exact else 'close'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{_allowed(atol, exact)}\n"
        f"Relative difference: {relative}{_allowed(rtol, exact)}"
    )


def _compare_tensors(actual: Tensor, expected: Tensor, options: _Options) -> None:
    def same(name: str, ours: Any, theirs: Any) -> None:
        if ours != theirs:
            raise _Mismatch(f"The values for attribute '{name}' do not match: {ours} != {theirs}.")

    same("shape", actual.shape, expected.shape)
    if options.check_layout:
        same("layout", actual.layout, expected.layout)
    if options.check_device:
        same("device", actual.device, expected.device)
    if options.check_dtype:
        same("dtype", actual.dtype, expected.dtype)
    if options.check_stride:
        same("stride()", actual.stride(), expected.stride())
    if actual.device.type == "meta" or expected.device.type == "meta":
        return  # nothing but what was compared
    if actual.layout is not strided or expected.layout is not strided:
        _compare_sparse(actual.detach(), expected.detach(), options)
        return
    rtol, atol = _tolerances(options, actual.dtype, expected.dtype)
    actual, expected = actual.detach(), expected.detach()
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    if actual.dtype != expected.dtype:
        wide_unsigned = [
            dtypes.by_name[n] for n in ("uint16", "uint32", "uint64")
        ]  # which promote with no other dtype
        int64 = dtypes.by_name["int64"]
        common = dtypes.promote_types(
            *(int64 if x.dtype in wide_unsigned else x.dtype for x in (actual, expected))
        )
        actual, expected = actual.to(common), expected.to(common)
    wide = dtypes.by_name["float32"]
    if actual.dtype.name == "float4_e2m1fn_x2":  # two numbers a byte, which have no other dtype
        actual, expected = actual.view(dtypes.by_name["uint8"]), expected.view(dtypes.by_name["uint8"])
    elif actual.dtype.name.startswith("float8"):
        actual, expected = actual.to(wide), expected.to(wide)
    close = isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    if not close.all():
        raise _Mismatch(_tensors_differ(actual, expected, close, rtol, atol))


def _compare_sparse(actual: Tensor, expected: Tensor, options: _Options) -> None:
    """What is listed, where both are of one layout, sorted; else as dense tensors."""
    if actual.layout is not expected.layout:
        _compare_tensors(actual.to_dense(), expected.to_dense(), options)
        return
    if actual.layout is sparse_coo:
        actual, expected = actual.coalesce(), expected.coalesce()
    kind = str(actual.layout).rpartition(".")[2]
    if actual._nnz() != expected._nnz():
        raise _Mismatch(
            f"The number of specified values in {kind} tensors does not match: {actual._nnz()} != {expected._nnz()}"
        )
    for a, b in zip(actual._pattern.parts(), expected._pattern.parts()):
        try:
            _compare_tensors(a, b, options._replace(rtol=0.0, atol=0.0, check_dtype=False))
        except _Mismatch as result:
            raise _Mismatch(f"The indices of {kind} tensors do not match: {result}") from None
    _compare_tensors(actual._values(), expected._values(), options)


def _tensors_differ(actual: Tensor, expected: Tensor, close: Tensor, rtol: float, atol: float) -> str:
    """How much two tensors differ, and where most."""
    if not actual.is_floating_point() and not actual.is_complex():
        wide = dtypes.by_name["int64"]
        actual, expected = actual.to(wide), expected.to(wide)
    difference = (actual - expected).abs()
    if actual.ndim == 0:
        return _scalars_differ(actual.item(), expected.item(), difference.item(), rtol, atol)
    exact = rtol == 0 and atol == 0
    relative = difference / expected.abs()
    # Elements that agree do not count: two equal infinities have a difference of NaN.
    difference, relative = difference.masked_fill(close, 0), relative.masked_fill(close, 0)
    differing = close.numel() - int(close.sum())
    lines = [
        f"Tensor-likes are not {'equal' if exact else 'close'}!\n",
        f"Mismatched elements: {differing} / {close.numel()} ({differing / close.numel():.1%})",
    ]
    for name, result, tolerance in (("absolute", difference, atol), ("relative", relative, rtol)):
        place = int(result.argmax())
        index = []
        for n in reversed(result.shape):
            place, k = divmod(place, n)
            index.append(k)
        where = tuple(reversed(index))
        lines.append(
            f"Greatest {name} difference: {result[where].item()} at index {where}{_allowed(tolerance, exact)}"
        )
    return "\n".join(lines)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """`assert_close` under its older name: NaN agrees with NaN, and devices, dtypes and layouts may differ. Deprecated.

    Raises:
        AssertionError: the two are not close

    >>> import warnings
    >>> import flambeau
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     flambeau.testing.assert_allclose(flambeau.tensor([1.0, float("nan")]), [1.0, float("nan")])
    """
    warnings.warn(
        "assert_allclose() is deprecated; assert_close() compares dtypes and devices as well",
        FutureWarning,
        stacklevel=2,
    )
    actual, expected = (x if isinstance(x, Tensor) else as_tensor(x) for x in (actual, expected))
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=False, check_dtype=False,
        check_layout=False, check_stride=False, msg=msg or None,
    )  # fmt: skip
