"""Discrete Fourier transforms over any number of dimensions, with derivatives of any order.

Three transforms are on the tape; all others are one of them between changes of shape:

    c2c   y_k = scale · Σ x_j e^(∓2πi jk/n)
    r2c   the same of real numbers, the first n/2 + 1 values of the last dimension, which determine the others
    c2r   of such values, the real result

The gradient of a linear map is its Hermitian transpose, which is again one of the three.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ...core.base.dtypes import by_name, get_default_dtype
from ...core.base.tensor import TensorBase
from ...core.lib.fourier import takes
from ...core.make.create import arange
from ..declare.dtype_groups import ALL, COMPLEX, EVERY, FLOATING, HALF, WIDE
from ..declare.examples import of_call
from ..declare.host import holds
from ..declare.registry import leaf, library
from ..declare.results import into
from ..declare.shapes import wrapped as _wrapped
from ..moving.joining import cat
from ..moving.shaping import _spread, roll
from ..moving.viewing import real, view_as_real
from ..on_device import transforms
from ..pointwise.complex_numbers import conj
from . import fourier
from .fourier import COMPLEX_OF, REAL_OF


# --- the three transforms ---------------------------------------------------------------------------------------------------
@leaf("spectral", label="FftC2CBackward0")
def fft_c2c(input: TensorBase, dims: tuple[int, ...], scale: float, forward: bool) -> TensorBase:
    """The transform of complex numbers along `dims`, of e^(-2πi jk/n) where `forward`, else of e^(2πi jk/n)."""
    if input.is_meta:
        return input.new_empty(input.shape)
    by = fourier if input.is_cpu else transforms
    return by.complex_to_complex(input, dims, scale, forward)


@fft_c2c.derivative
def _c2c_gradient(grad: TensorBase, dims: tuple[int, ...], scale: float, forward: bool) -> TensorBase:
    return fft_c2c(grad, dims, scale, not forward)


@leaf("spectral", label="FftR2CBackward0")
def fft_r2c(input: TensorBase, dims: tuple[int, ...], scale: float, n: int, onesided: bool) -> TensorBase:
    """The forward transform of real numbers, of which there are n in the last of `dims`; that is cut to n/2 + 1 values if `onesided`."""
    if input.dtype.name not in COMPLEX_OF:
        raise RuntimeError(f"fft(): Unsupported dtype {input.dtype}")
    values = n // 2 + 1 if onesided else n
    if input.is_meta:
        return input.new_empty(
            _with_size(input, dims[-1], values), dtype=by_name[COMPLEX_OF[input.dtype.name]]
        )
    by = fourier if input.is_cpu else transforms
    return by.real_to_complex(input, dims, scale, values)


@fft_r2c.derivative
def _r2c_gradient(grad: TensorBase, dims: tuple[int, ...], scale: float, n: int) -> TensorBase:
    return real(fft_c2c(resized(grad, dims[-1], n), dims, scale, False))


@leaf("spectral", label="FftC2RBackward0")
def fft_c2r(input: TensorBase, dims: tuple[int, ...], scale: float, n: int) -> TensorBase:
    """The inverse of `fft_r2c` but for its scale, where the last of `dims` gets n values."""
    if input.is_meta:
        return input.new_empty(_with_size(input, dims[-1], n), dtype=by_name[REAL_OF[input.dtype.name]])
    by = fourier if input.is_cpu else transforms
    return by.complex_to_real(input, dims, scale, n)


@fft_c2r.derivative
def _c2r_gradient(grad: TensorBase, dims: tuple[int, ...], scale: float, n: int) -> TensorBase:
    """Values that stand for their conjugates too count twice: all but the first and, for even n, the last."""
    half, axis = fft_r2c(grad, dims, scale, n, True), dims[-1]
    count = half.shape[axis]
    twice = (n - 1) // 2
    parts = [
        half.narrow(axis, 0, 1),
        half.narrow(axis, 1, twice) * 2.0,
        half.narrow(axis, 1 + twice, count - 1 - twice),
    ]
    return cat([p for p in parts if p.shape[axis]], axis)


def resized(x: TensorBase, dim: int, n: int) -> TensorBase:
    """The dimension cut or filled with zeros to n elements."""
    have = x.shape[dim]
    if n <= have:
        return x if n == have else x.narrow(dim, 0, n)
    return cat([x, x.new_zeros(_with_size(x, dim, n - have))], dim)


def _with_size(x: TensorBase, dim: int, n: int) -> list[int]:
    """The sizes, with n at that dimension."""
    sizes = list(x.shape)
    sizes[dim] = n
    return sizes


# --- arguments ----------------------------------------------------------------------------------------------------------------
def _floating(who: str, x: TensorBase) -> TensorBase:
    """Integers as the default dtype.  RuntimeError for half types and smaller ones."""
    if not isinstance(x, TensorBase):
        raise TypeError(f"{who}(): argument 'input' (position 1) must be Tensor, not {type(x).__name__}")
    if not (x.is_floating_point() or x.is_complex()):
        return x.to(get_default_dtype())
    if x.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise RuntimeError(f"{who}(): Unsupported dtype {x.dtype}")
    return x


def _complex(who: str, x: TensorBase) -> TensorBase:
    x = _floating(who, x)
    return x if x.is_complex() else x.to(by_name[COMPLEX_OF[x.dtype.name]])


def _real(who: str, x: TensorBase) -> TensorBase:
    if isinstance(x, TensorBase) and x.is_complex():
        raise RuntimeError(f"{who}() expects a real input tensor, but got {x.dtype}")
    return _floating(who, x)


def _scale(who: str, norm: str | None, count: int, forward: bool) -> float:
    """1, 1/n or 1/√n, where the norm puts it."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise RuntimeError(f'{who}(): Invalid normalization mode: "{norm}"')
    if norm == "ortho":
        return 1.0 / math.sqrt(count) if count else 1.0
    return 1.0 / count if count and (norm == "forward") == forward else 1.0


def _sized(who: str, x: TensorBase, s: Any, dim: Any) -> tuple[list[int], tuple[int, ...]]:
    """Sizes to transform and dimensions, as PyTorch derives one from the other where only one is given."""
    if dim is None:
        if s is None:
            axes = tuple(range(x.ndim))
        else:
            if len(s) > x.ndim:
                raise RuntimeError(
                    f"{who}(): Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions."
                )
            axes = tuple(range(x.ndim - len(s), x.ndim))
    else:
        given = (dim,) if isinstance(dim, int) else tuple(dim)
        if given and not x.ndim:
            raise IndexError(f"{who}(): Dimension specified as {given[0]} but tensor has no dimensions")
        axes = tuple(_wrapped(d, x, who) for d in given)
        if len(set(axes)) != len(axes):
            raise RuntimeError(f"{who}(): FFT dims must be unique, got {list(given)}")
        if s is not None and len(s) != len(axes):
            raise RuntimeError(
                f"{who}(): When given, dim and shape arguments must have the same length, got {len(axes)} and {len(s)}"
            )
    sizes = [x.shape[a] if s is None or s[k] == -1 else s[k] for k, a in enumerate(axes)]
    if (
        s is not None and isinstance(dim, int) and s[0] == -1
    ):  # `n` of one dimension; in `s` it stands for the size itself
        raise RuntimeError(f"{who}(): Invalid number of data points (-1) specified for n")
    for n in sizes:
        if n < 1:
            raise RuntimeError(f"{who}(): Invalid number of data points ({n}) specified")
    return sizes, axes


def _fitted(x: TensorBase, sizes: Sequence[int], axes: tuple[int, ...]) -> TensorBase:
    for n, a in zip(sizes, axes):
        x = resized(x, a, n)
    return x


# --- transforms over several dimensions -----------------------------------------------------------------------------------------
def _complex_to_complex(
    who: str, input: TensorBase, s: Any, dim: Any, norm: str | None, forward: bool
) -> TensorBase:
    x = _floating(who, input)
    sizes, axes = _sized(who, x, s, dim)
    if forward and axes and not x.is_complex():
        scale, last = _scale(who, norm, math.prod(sizes), True), axes[-1:]
        x = _fitted(x, sizes, axes)
        if len(axes) == 1:
            return fft_r2c(x, last, scale, sizes[-1], False)
        return fft_c2c(fft_r2c(x, last, 1.0, sizes[-1], False), axes[:-1], scale, True)
    x = _complex(who, x)
    return fft_c2c(_fitted(x, sizes, axes), axes, _scale(who, norm, math.prod(sizes), forward), forward)


def _real_to_complex(
    who: str, input: TensorBase, s: Any, dim: Any, norm: str | None, forward: bool
) -> TensorBase:
    """The forward transform of real numbers; the inverse one, their conjugate."""
    x = _real(who, input)
    sizes, axes = _sized(who, x, s, dim)
    if not axes:
        raise RuntimeError(f"{who}() must transform at least one axis")
    scale = _scale(who, norm, math.prod(sizes), forward)
    result = fft_r2c(_fitted(x, sizes, axes), axes, scale, sizes[-1], True)
    return result if forward else conj(result)


def _complex_to_real(
    who: str, input: TensorBase, s: Any, dim: Any, norm: str | None, forward: bool
) -> TensorBase:
    """The inverse transform of half of Hermitian values; the forward one is that of their conjugates."""
    x = _complex(who, input)
    if s is not None and not len(s):
        raise RuntimeError(f"{who}(): must transform at least one axis, got s={tuple(s)}")
    last = -1 if s is None else tuple(s)[-1]
    halves = None if s is None else (*tuple(s)[:-1], 1 if last == -1 else last // 2 + 1)
    if (last != -1 or isinstance(dim, int)) and s is not None and last < 1:
        raise RuntimeError(f"{who}(): Invalid number of data points ({last}) specified")
    _, axes = _sized(who, x, halves, dim)
    if not axes:
        raise RuntimeError(f"{who}() must transform at least one axis")
    n = 2 * (x.shape[axes[-1]] - 1) if last == -1 else last
    if n < 1:
        raise RuntimeError(f"{who}(): Invalid number of data points ({n}) specified")
    sizes = [x.shape[a] if s is None or s[k] == -1 else s[k] for k, a in enumerate(axes[:-1])] + [n // 2 + 1]
    x = _fitted(x, sizes, axes)
    scale = _scale(who, norm, math.prod([*sizes[:-1], n]), forward)
    return fft_c2r(conj(x) if forward else x, axes, scale, n)


def _short_fft(input: Any) -> TensorBase | None:
    """`fft` with all other arguments left out; None of a tensor that has to be looked at."""
    kind = takes(input)
    if not kind:
        return None
    n, dims = input.shape[-1], (input.ndim - 1,)
    return fft_r2c(input, dims, 1.0, n, False) if kind == 1 else fft_c2c(input, dims, 1.0, True)


def _short_ifft(input: Any) -> TensorBase | None:
    return fft_c2c(input, (input.ndim - 1,), 1.0 / input.shape[-1], False) if takes(input) == 2 else None


def _short_rfft(input: Any) -> TensorBase | None:
    return fft_r2c(input, (input.ndim - 1,), 1.0, input.shape[-1], True) if takes(input) == 1 else None


def _short_irfft(input: Any) -> TensorBase | None:
    n = 2 * (input.shape[-1] - 1) if takes(input) == 2 else 0
    return fft_c2r(input, (input.ndim - 1,), 1.0 / n, n) if n else None


# The usual calls, of which little has to be found out.
_SHORT = {"fft": _short_fft, "ifft": _short_ifft, "rfft": _short_rfft, "irfft": _short_irfft}


def _transform(
    name: str,
    compute: Any,
    forward: bool,
    what: str,
    given: str,
    elements: str,
    casts: tuple[str, ...] = ("", "2", "n"),
    dtypes: frozenset[str] = EVERY - HALF,
) -> None:
    """The public functions of one kind: over one dimension, two (`…2`) and any number (`…n`).

    `given` is the row of an example, `elements` the real numbers of its result, `casts` the functions that autocast computes in float32.
    """

    short = _SHORT.get(name)

    def one(input, n=None, dim=-1, norm=None, *, out=None):
        if short is not None and n is None and dim == -1 and norm is None and out is None:
            result = short(input)
            if result is not None:
                return result
        return into(
            out, compute(f"fft.{name}", input, None if n is None else (n,), dim, norm, forward), f"fft.{name}"
        )

    def two(input, s=None, dim=(-2, -1), norm=None, *, out=None):
        return into(out, compute(f"fft.{name}2", input, s, dim, norm, forward), f"fft.{name}2")

    def several(input, s=None, dim=None, norm=None, *, out=None):
        return into(out, compute(f"fft.{name}n", input, s, dim, norm, forward), f"fft.{name}n")

    ends = (
        ("", one, "`n` elements (cut or filled with zeros) along `dim`", "`dim`"),
        ("2", two, "the last two dimensions, or those in `dim`, with `s` elements", "those dimensions"),
        ("n", several, "all dimensions, or those in `dim`, with `s` elements", "those dimensions"),
    )
    real = "" if name in ("irfft", "hfft") else ".real"
    for end, function, where, lengths in ends:
        rows, shown = (f"[{given}]", f"[[{elements}]]") if end else (given, f"[{elements}]")
        function.__name__ = function.__qualname__ = f"{name}{end}"
        function.__doc__ = (
            f'{what}.\n\nOver {where}.  `norm`: "backward" (the default) divides the inverse transform by n, "forward" the '
            'forward one, "ortho" both by √n.\n\n'
            f"Shape:\n    input: any; result: the same, with {lengths} transformed\n\n"
            "Raises:\n    IndexError: a dimension is out of range\n"
            "    RuntimeError: a length is not above 0, a dimension is given twice, or the dtype cannot be transformed"
            + of_call(f"fft.{name}{end}(flambeau.tensor({rows})){real}", f"tensor({shown})")
        )
        library(
            "spectral",
            f"fft.{name}{end}",
            name=f"fft.{name}{end}",
            composite=True,
            autocast=("float32", "fallthrough") if end in casts else None,
            batching="transforms" if end == "n" else "along",
            dtypes=dtypes,
        )(function)


_transform(
    "fft",
    _complex_to_complex,
    True,
    "X[k] = Σ x[j] e^(-2πi jk/n), the discrete Fourier transform",
    "[1.0, 2.0, 3.0, 4.0]",
    "10., -2., -2., -2.",
)
_transform(
    "ifft",
    _complex_to_complex,
    False,
    "x[j] = Σ X[k] e^(2πi jk/n) / n, the inverse Fourier transform",
    "[4.0, 0.0, 0.0, 0.0]",
    "1., 1., 1., 1.",
)
_transform(
    "rfft",
    _real_to_complex,
    True,
    "X[k] = Σ x[j] e^(-2πi jk/n), k ≤ n/2, of real numbers",
    "[1.0, 2.0, 3.0, 4.0]",
    "10., -2., -2.",
    dtypes=ALL - HALF,
)
_transform(
    "irfft",
    _complex_to_real,
    False,
    "x[j] = Σ X[k] e^(2πi jk/n) / n, the inverse of `rfft`",
    "[4.0, 0.0, 0.0]",
    "1., 1., 1., 1.",
)
_transform(
    "hfft",
    _complex_to_real,
    True,
    "X[k] = Σ x[j] e^(-2πi jk/n), real, of half of a Hermitian signal",
    "[1.0, 0.0, 0.0]",
    "1., 1., 1., 1.",
    casts=("",),
)
_transform(
    "ihfft",
    _real_to_complex,
    False,
    "x[j] = Σ X[k] e^(2πi jk/n) / n, the inverse of `hfft`",
    "[1.0, 1.0, 1.0, 1.0]",
    "1., 0., 0.",
    casts=("",),
    dtypes=ALL - HALF,
)


# --- frequencies and shifts -----------------------------------------------------------------------------------------------------
def _frequencies(name: str, doc: str, multiples: Callable) -> Callable:
    """A function that makes `multiples(n, **options)` in units of 1 / (n · d)."""

    def function(
        n: int,
        d: float = 1.0,
        *,
        out: TensorBase | None = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
    ) -> TensorBase:
        if isinstance(n, (bool, float, complex)) or not hasattr(n, "__index__"):
            raise TypeError(f"{name}(): argument 'n' (position 1) must be int, not {type(n).__name__}")
        if isinstance(d, complex) or not hasattr(d, "__float__"):
            raise TypeError(f"{name}(): argument 'd' (position 2) must be float, not {type(d).__name__}")
        n, d, kind = operator.index(n), float(d), dtype or get_default_dtype()
        if n < 0:
            raise RuntimeError(f"{name}(): argument 'n' must not be negative, got {n}")
        if not kind.is_floating_point and not kind.is_complex:
            raise RuntimeError(f"{name}(): requires a floating point or complex dtype, got {kind}")
        result = multiples(n, dtype=kind, layout=layout, device=device, pin_memory=pin_memory)
        result = result * (1.0 / (n * d) if n * d else math.inf)
        return into(out, result, name).requires_grad_(requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return library("spectral", f"fft.{name}", differentiable=False, dtypes=FLOATING)(function)


fftfreq = _frequencies(
    "fftfreq",
    """[0, 1, …, -2, -1] / (n · d): the frequencies of `fft` for samples at distance d.

    TypeError unless n is an int and d a real number, RuntimeError for a negative n and a dtype of integers.

    Shape:
        result: (n,)

    >>> import flambeau
    >>> flambeau.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """,
    lambda n, **made: cat([arange((n + 1) // 2, **made), arange(-(n // 2), 0, **made)]),
)
rfftfreq = _frequencies(
    "rfftfreq",
    """The frequencies of the n/2 + 1 values of `rfft` for samples at distance d; arguments and errors as of `fftfreq`.

    Shape:
        result: (⌊n/2⌋ + 1,)

    >>> import flambeau
    >>> flambeau.fft.rfftfreq(4, d=0.5)
    tensor([0.0000, 0.5000, 1.0000])
    """,
    lambda n, **made: arange(n // 2 + 1, **made),
)


def _places(input: TensorBase, dim: Any, who: str) -> tuple[int, ...]:
    """The dimensions that `dim` names; IndexError where there is no such."""
    if input.ndim == 0:
        raise IndexError(f"{who}(): argument 'dim': the input has no dimensions, got {dim}")
    return tuple(_wrapped(d, input, who) for d in _spread((dim,)))


@library("composite", "fft.fftshift", reference="numpy.fft.fftshift", batching="along all")
def fftshift(input: TensorBase, dim: Any = None) -> TensorBase:
    """result[k] = input[(k - ⌊n/2⌋) mod n]: the frequency zero moved to the middle, along `dim`.
    By default that is all dimensions.

    Shape:
        input: any; the result has the same

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.fft.fftshift(flambeau.tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])
    """
    axes = tuple(range(input.ndim)) if dim is None else _places(input, dim, "fftshift")
    return roll(input, [input.shape[a] // 2 for a in axes], axes) if axes else input.clone()


@library("composite", "fft.ifftshift", reference="numpy.fft.ifftshift", batching="along all")
def ifftshift(input: TensorBase, dim: Any = None) -> TensorBase:
    """result[k] = input[(k + ⌊n/2⌋) mod n]: the inverse of `fftshift`.

    Shape:
        input: any; the result has the same

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.fft.ifftshift(flambeau.tensor([-2, -1, 0, 1, 2]))
    tensor([ 0,  1,  2, -2, -1])
    """
    axes = tuple(range(input.ndim)) if dim is None else _places(input, dim, "ifftshift")
    return roll(input, [-(input.shape[a] // 2) for a in axes], axes) if axes else input.clone()


# --- short-time transforms ------------------------------------------------------------------------------------------------------
def _window(who: str, window: TensorBase | None, length: int, n_fft: int, like: TensorBase) -> TensorBase:
    """The window, or ones, with zeros on both sides up to n_fft."""
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{who}(): expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is None:
        kind = by_name[REAL_OF.get(like.dtype.name, like.dtype.name)]
        window = like.new_ones(length, dtype=kind)
    elif tuple(window.shape) != (length,):
        raise RuntimeError(
            f"{who}(): expected a 1D window tensor of size equal to win_length={length}, but got window with size {list(window.shape)}"
        )
    left = (n_fft - length) // 2
    parts = [window.new_zeros(left), window, window.new_zeros(n_fft - length - left)]
    return cat(parts) if length < n_fft else window


@library(
    "spectral",
    "stft",
    "Tensor.stft",
    composite=True,
    autocast=("float32", "fallthrough"),
    dtypes=WIDE | COMPLEX,
)
def stft(
    input: TensorBase,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorBase | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> TensorBase:
    """Σ window[k] · input[t · hop_length + k] · e^(-2πi f k / n_fft): windows of n_fft elements.
    They stand at every hop_length-th place; the result is (batch, frequency, place).

    With `center` the first window stands around the first element: the signal is padded on both sides.  `onesided` (usual
    for real signals) leaves n_fft/2 + 1 frequencies.  RuntimeError for arguments that do not fit, and unless `return_complex`
    is given for a real signal.

    >>> import flambeau
    >>> signal = flambeau.tensor([1.0, -1.0, 1.0, -1.0])
    >>> flambeau.stft(signal, 2, hop_length=2, center=False, window=flambeau.ones(2), return_complex=True).real
    tensor([[0., 0.],
            [2., 2.]])
    """
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            f"stft(): expected a tensor of floating point or complex values as input, got {input.dtype}"
        )
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft(): expected a 1D or 2D tensor, but got {input.ndim}D")
    complex_input = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not complex_input:
            raise RuntimeError("stft(): requires the return_complex parameter be given for real inputs")
        return_complex = True
    hop = n_fft // 4 if hop_length is None else hop_length
    if hop <= 0:
        raise RuntimeError(f"stft(): expected hop_length > 0, but got hop_length={hop}")
    x = input.unsqueeze(0) if input.ndim == 1 else input
    if center:
        from ..moving.padding import pad

        x = pad(x.unsqueeze(1), (n_fft // 2, n_fft // 2), mode=pad_mode).squeeze(1)
    if not 0 < n_fft <= x.shape[-1]:
        raise RuntimeError(f"stft(): expected 0 < n_fft <= {x.shape[-1]}, but got n_fft={n_fft}")
    onesided = not complex_input if onesided is None else onesided
    if onesided and complex_input:
        raise RuntimeError("stft(): Cannot have onesided output if window or input is complex")
    frames = x.unfold(-1, n_fft, hop) * _window(
        "stft", window, n_fft if win_length is None else win_length, n_fft, x
    )
    scale = 1.0 / math.sqrt(n_fft) if normalized else 1.0
    result = (
        fft_r2c(frames, (2,), scale, n_fft, True)
        if onesided
        else fft_c2c(_complex("stft", frames), (2,), scale, True)
    ).mT
    result = result.squeeze(0) if input.ndim == 1 else result
    return result if return_complex else view_as_real(result.contiguous())


@library("spectral", "istft", "Tensor.istft", composite=True, dtypes=WIDE | COMPLEX)
def istft(
    input: TensorBase,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorBase | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> TensorBase:
    """The signal with the least squared distance to these short-time transforms: D. W. Griffin and J. S. Lim, "Signal
    estimation from modified short-time Fourier transform" (1984).

    Windows are added up where they stand, divided by the sum of the squared windows: Σₜ wₜ · yₜ / Σₜ wₜ² of
    the inverse transforms y.  (batch, frequency, place) becomes (batch, n).  RuntimeError where that is 0 somewhere.

    >>> import flambeau
    >>> signal = flambeau.arange(8.0)
    >>> window = flambeau.hann_window(4)
    >>> frames = flambeau.stft(signal, 4, window=window, return_complex=True)
    >>> flambeau.istft(frames, 4, window=window)
    tensor([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    if not input.is_complex():
        raise RuntimeError(
            "istft(): requires a complex-valued input tensor matching the output from stft(return_complex=True)"
        )
    if input.ndim not in (2, 3) or not input.numel():
        raise RuntimeError(
            f"istft(): expected a tensor with 2 or 3 dimensions and elements, but got {list(input.shape)}"
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    if not 0 < hop <= size:
        raise RuntimeError(f"istft(): expected 0 < hop_length <= win_length, got {hop} and {size}")
    x = input.unsqueeze(0) if input.ndim == 2 else input
    frequencies, places = x.shape[-2:]
    if onesided is None:
        onesided = frequencies != n_fft
    if frequencies != (n_fft // 2 + 1 if onesided else n_fft):
        raise RuntimeError(f"istft(): the frequency dimension does not fit n_fft={n_fft}: got {frequencies}")
    weights = _window("istft", window, size, n_fft, x)
    scale = 1.0 / math.sqrt(n_fft) if normalized else 1.0 / n_fft
    frames = x.mT
    if return_complex:
        frames = fft_c2c(frames, (2,), scale, False)
    else:
        if weights.is_complex():
            raise RuntimeError("istft(): Complex windows are incompatible with return_complex=False")
        frames = fft_c2r(frames.narrow(-1, 0, n_fft // 2 + 1), (2,), scale, n_fft)
    total = n_fft + hop * (places - 1)
    where = arange(places, device=x.device).unsqueeze(1) * hop + arange(n_fft, device=x.device)
    where = where.reshape(-1)
    batch = frames.shape[0]
    signal = (frames * weights).reshape(batch, -1)
    signal = signal.new_zeros((batch, total)).index_add(1, where, signal)
    squares = (weights * weights).unsqueeze(0).expand(places, n_fft).reshape(-1)
    envelope = squares.new_zeros(total).index_add(0, where, squares)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - (n_fft // 2 if center else 0)
    kept = min(end, total) - start
    signal, envelope = signal.narrow(1, start, kept), envelope.narrow(0, start, kept)
    if not holds(envelope.abs() > 1e-11):
        raise RuntimeError("istft(): window overlap add min: the windows leave places uncovered")
    signal = resized(signal / envelope, 1, end - start)
    return signal.squeeze(0) if input.ndim == 2 else signal
