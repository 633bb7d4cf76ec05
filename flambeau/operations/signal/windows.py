"""Window functions: symmetric ones of `signal.windows`, and the older names of the flat namespace, periodic by default."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ...core.base.dtypes import by_name, get_default_dtype
from ...core.base.formats import layout as Layout
from ...core.base.formats import strided
from ...core.base.tensor import TensorBase
from ...core.make.create import arange, empty
from ..declare.checks import FLOATS
from ..declare.examples import of_call
from ..declare.registry import library
from ..pointwise.special import i0

DOUBLE = by_name["float64"]


def _length(who: str, name: str, n: Any) -> int:
    """A number of elements: an integer, or a tensor that is one."""
    if isinstance(n, TensorBase):
        whole = n.dim() == 0 and not (n.is_floating_point() or n.is_complex())
        if whole:
            return int(n.item())
    elif hasattr(n, "__index__"):
        return operator.index(n)
    raise TypeError(f"{who}(): argument '{name}' (position 1) must be int, not {type(n).__name__}")


def _number(who: str, name: str, x: Any, dims: int = 0) -> float:
    """A real parameter: a number, or a tensor of one element with at most so many dimensions, whose gradient is not requested
    (PyTorch's windows have none either).
    """
    if isinstance(x, TensorBase):
        if x.numel() != 1 or x.dim() > dims:
            raise RuntimeError(
                f"{who}(): argument '{name}' must be a number or a 0-dimensional tensor, got shape {x.shape}"
            )
        x = x.item()
    if isinstance(x, complex) or not hasattr(x, "__float__"):
        raise TypeError(f"{who}(): argument '{name}' must be a real number, not {type(x).__name__}")
    return float(x)


def _made(
    who: str,
    M: int,
    sym: bool,
    shape: Callable,
    dtype: Any,
    layout: Any,
    device: Any,
    requires_grad: bool,
    kinds: frozenset[str] = frozenset(("float32", "float64")),
) -> TensorBase:
    """`shape(k, n)` for k = 0 … M-1, in float64 on the CPU and then rounded and moved; n is the distance of the first and last
    element of a period.

    ValueError for a negative M, another layout than `strided`, or where the dtype is not one of `kinds`.
    """
    M = _length(who, "M", M)
    if M < 0:
        raise ValueError(f"{who}(): requires non-negative window length, got M={M}")
    dtype = get_default_dtype() if dtype is None else dtype
    if dtype.name not in kinds:
        raise ValueError(f"{who}(): argument 'dtype': expects one of {sorted(kinds)}, got: {dtype}")
    if isinstance(layout, Layout) and layout is not strided:
        raise ValueError(f"{who}(): is implemented for strided tensors only, got: {layout}")
    result = empty(0, dtype=dtype, layout=layout, device=device)
    if M == 1:
        result = arange(1, 2, dtype=dtype, device=device)
    elif M > 1:
        at = arange(M, dtype=DOUBLE, device="meta" if result.is_meta else "cpu")
        result = shape(at, M - 1 if sym else M).to(result.device, dtype)
    return result.requires_grad_(requires_grad)


def _window(
    name: str, what: str, elements: str, shape: Callable, check: Callable | None = None, **given: float | None
) -> None:
    """Declare `signal.windows.name(M, *, …given, sym=True)`; `check(sym, …given)` raises for values that it does not take."""

    def function(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False, **options):
        unknown = set(options) - set(given)
        if unknown:
            raise TypeError(f"{name}() got an unexpected keyword argument '{sorted(unknown)[0]}'")
        values = {**given, **options}
        for key, value in values.items():
            if value is not None or given[key] is not None:
                values[key] = _number(name, key, value)
        if check is not None:
            check(sym, **values)
        return _made(name, M, sym, lambda k, n: shape(k, n, **values), dtype, layout, device, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{what}: M values, symmetric, or `sym=False` a period of length M.\n\nOptions: "
        + (", ".join(f"{k}={v}" for k, v in given.items()) or "none")
        + ".\n\nShape:\n    result: (M,)\n\nRaises:\n    ValueError: `M` is negative, or an option does not fit\n"
        "    TypeError: an option is unknown"
        + of_call(f"signal.windows.{name}(5)[1:4]", f"tensor([{elements}])")
    )
    library("window", f"signal.windows.{name}", name=f"window.{name}", differentiable=False)(function)


def _cosines(k: TensorBase, n: int, a: Sequence[float]) -> TensorBase:
    """Σ (-1)^j a_j cos(2πjk/n)."""
    result = k * 0.0
    for j, weight in enumerate(a):
        result = result + (-1) ** j * weight * (k * (2 * math.pi * j / n)).cos()
    return result


def _kaiser(k: TensorBase, n: int, beta: float) -> TensorBase:
    x = k * (2.0 / n) - 1.0
    return i0(beta * (1.0 - x * x).clamp(min=0.0).sqrt()) / i0(k.new_tensor(beta))


def _check_beta(sym: bool, beta: float) -> None:
    if beta < 0:
        raise ValueError(f"kaiser(): beta must be non-negative, got: {beta} instead.")


def _check_std(sym: bool, std: float) -> None:
    if std <= 0:
        raise ValueError(f"gaussian(): std, the standard deviation, must be positive, got: {std} instead.")


def _check_decay(sym: bool, center: float | None, tau: float) -> None:
    if tau <= 0:
        raise ValueError(f"exponential(): tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError(f"exponential(): center must be None for symmetric windows, got: {center}")


def _gaussian(k: TensorBase, n: int, std: float) -> TensorBase:
    x = (k - n / 2) / std
    return (x * x * -0.5).exp()


def _exponential(k: TensorBase, n: int, center: float | None, tau: float) -> TensorBase:
    return ((k - (n / 2 if center is None else center)).abs() / -tau).exp()


NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
_window(
    "bartlett",
    "1 - |2k/n - 1|, a triangle",
    "0.5000, 1.0000, 0.5000",
    lambda k, n: 1.0 - (k * (2.0 / n) - 1.0).abs(),
)
_window(
    "blackman",
    "0.42 - 0.5 cos(2πk/n) + 0.08 cos(4πk/n)",
    "0.3400, 1.0000, 0.3400",
    lambda k, n: _cosines(k, n, (0.42, 0.5, 0.08)),
)
_window(
    "cosine",
    "sin(π (k + 1/2) / (n + 1)), half a period of the sine",
    "0.8090, 1.0000, 0.8090",
    lambda k, n: ((k + 0.5) * (math.pi / (n + 1))).sin(),
)
_window(
    "exponential",
    "exp(-|k - center| / tau)",
    "0.3679, 1.0000, 0.3679",
    _exponential,
    _check_decay,
    center=None,
    tau=1.0,
)
_window(
    "gaussian",
    "exp(-((k - n/2) / std)² / 2)",
    "0.6065, 1.0000, 0.6065",
    _gaussian,
    _check_std,
    std=1.0,
)
_window(
    "hamming",
    "0.54 - 0.46 cos(2πk/n)",
    "0.5400, 1.0000, 0.5400",
    lambda k, n: _cosines(k, n, (0.54, 0.46)),
)
_window(
    "hann",
    "0.5 - 0.5 cos(2πk/n)",
    "0.5000, 1.0000, 0.5000",
    lambda k, n: _cosines(k, n, (0.5, 0.5)),
)
_window(
    "kaiser",
    "I₀(beta · √(1 - (2k/n - 1)²)) / I₀(beta)",
    "0.2157, 1.0000, 0.2157",
    _kaiser,
    _check_beta,
    beta=12.0,
)
_window(
    "nuttall",
    "Σ (-1)^j a_j cos(2πjk/n), Nuttall's window with continuous first derivative",
    "0.2270, 1.0000, 0.2270",
    lambda k, n: _cosines(k, n, NUTTALL),
)


@library("window", "signal.windows.general_cosine", differentiable=False)
def general_cosine(
    M: int,
    *,
    a: Sequence[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> TensorBase:
    """Σ (-1)^j a_j cos(2πjk/n).  TypeError unless `a` is a sequence, ValueError where it is empty.

    Shape:
        result: (M,)

    Raises:
        ValueError: `a` is empty
        ValueError: `M` is negative

    >>> import flambeau
    >>> flambeau.signal.windows.general_cosine(5, a=[0.5, 0.5])
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    if not isinstance(a, (list, tuple)):
        raise TypeError("general_cosine(): Coefficients must be a list/tuple")
    if not a:
        raise ValueError("general_cosine(): Coefficients cannot be empty")
    a = [_number("general_cosine", "a", weight, 64) for weight in a]
    return _made(
        "general_cosine", M, sym, lambda k, n: _cosines(k, n, a), dtype, layout, device, requires_grad
    )


@library("window", "signal.windows.general_hamming", differentiable=False)
def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> TensorBase:
    """alpha - (1 - alpha) cos(2πk/n).

    Shape:
        result: (M,)

    Raises:
        ValueError: `M` is negative

    >>> import flambeau
    >>> flambeau.signal.windows.general_hamming(5, alpha=0.5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    alpha = _number("general_hamming", "alpha", alpha, 64)
    weights = (alpha, 1.0 - alpha)
    return _made(
        "general_hamming", M, sym, lambda k, n: _cosines(k, n, weights), dtype, layout, device, requires_grad
    )


def _old(name: str, what: str, elements: str, shape: Callable, *parameters: tuple[str, float]) -> None:
    """Declare `flambeau.name(window_length, periodic=True, …parameters)`."""

    def function(
        window_length,
        periodic: bool = True,
        *values,
        dtype=None,
        layout=None,
        device=None,
        requires_grad: bool = False,
        **named,
    ):
        given = dict(parameters)
        given.update({n: v for (n, _), v in zip(parameters, values)})
        unknown = set(named) - set(given)
        if unknown or len(values) > len(parameters):
            raise TypeError(
                f"{name}() got unexpected arguments {[*sorted(unknown), *values[len(parameters) :]]}"
            )
        given.update(named)
        given = {key: _number(name, key, value) for key, value in given.items()}
        window_length = _length(name, "window_length", window_length)
        if window_length < 0:
            raise RuntimeError(
                f"{name}(): requires non-negative window_length, got window_length={window_length}"
            )
        if dtype is not None and not dtype.is_floating_point:
            raise RuntimeError(f"{name}(): expects floating point dtypes, got: {dtype}")
        formula = functools.partial(shape, **given)
        return _made(name, window_length, not periodic, formula, dtype, layout, device, requires_grad, FLOATS)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{what}: a period of that length or, unless `periodic`, symmetric.\n\nShape:\n    result: (window_length,)\n\n"
        "Raises:\n    RuntimeError: the length is negative, or the dtype not floating-point\n    TypeError: an argument is unknown"
        + of_call(f"{name}(4)[1:]", f"tensor([{elements}])")
    )
    library("window", name, name=name, differentiable=False, dtypes=FLOATS)(function)


_old(
    "hann_window",
    "0.5 - 0.5 cos(2πk/n)",
    "0.5000, 1.0000, 0.5000",
    lambda k, n: _cosines(k, n, (0.5, 0.5)),
)
_old(
    "hamming_window",
    "alpha - beta · cos(2πk/n)",
    "0.5400, 1.0000, 0.5400",
    lambda k, n, alpha, beta: _cosines(k, n, (alpha, beta)),
    ("alpha", 0.54),
    ("beta", 0.46),
)
_old(
    "blackman_window",
    "0.42 - 0.5 cos(2πk/n) + 0.08 cos(4πk/n)",
    "0.3400, 1.0000, 0.3400",
    lambda k, n: _cosines(k, n, (0.42, 0.5, 0.08)),
)
_old(
    "bartlett_window",
    "1 - |2k/n - 1|, a triangle",
    "0.5000, 1.0000, 0.5000",
    lambda k, n: 1.0 - (k * (2.0 / n) - 1.0).abs(),
)
_old(
    "kaiser_window",
    "I₀(beta · √(1 - (2k/n - 1)²)) / I₀(beta)",
    "0.2157, 1.0000, 0.2157",
    _kaiser,
    ("beta", 12.0),
)
