"""Activation functions as `nn.functional` has them: with `inplace`, defaults, and choices by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from ...core.base.tensor import TensorBase
from ...core.call.pointwise import InPlaceOp
from ...core.make.elements import check_number
from ..declare import checks
from ..declare.half_types import in_float32
from ..declare.registry import library, register
from ..declare.results import into
from ..pointwise.elementary import tanh
from ..rows.reductions import log_softmax_of, softmax_of
from . import activations as a


def _with_inplace(name: str, op, *params: tuple[str, float], check: Callable | None = None) -> Callable:
    """`name(input, *params, inplace=False)` over a pointwise operation; `check(input, …params)` raises for values that it does
    not take.
    """
    written = InPlaceOp(op, name + "_")
    function: Callable
    if params:

        def with_params(input, *given, inplace=False, **named):
            values = dict(params)
            if len(given) > len(params):
                inplace, given = given[-1], given[:-1]
            values.update(zip(values, given))
            values.update(named)
            if check is not None:
                check(input, **values)
            return (written if inplace else op)(input, **values)

        function = with_params
    else:

        def plain(input, inplace=False):
            return written(input) if inplace else op(input)

        function = plain
    function.__name__ = function.__qualname__ = name
    shown = ", ".join(f"{n}={v}" for n, v in params)
    function.__doc__ = f"{name}(input, {shown + ', ' if shown else ''}inplace=False): {op.__doc__}"
    in_place = None if name in ("silu", "mish", "hardsigmoid", "hardswish", "relu6") else written
    return register(
        f"{name}_function",
        "composite",
        function,
        places=(f"nn.functional.{name}",),
        in_place=in_place,
        thin=True,
    )


def _check_celu(input: TensorBase, alpha: float) -> None:
    if alpha == 0:
        raise RuntimeError("celu(): alpha cannot be 0")


def _check_hardtanh(input: TensorBase, min_val: float, max_val: float) -> None:
    if min_val > max_val:
        raise ValueError(f"hardtanh(): min_val cannot be greater than max_val, got {min_val} and {max_val}")
    if not input.is_floating_point():
        check_number(min_val, input, "hardtanh")
        check_number(max_val, input, "hardtanh")
    if input.dtype.name == "uint8" and min(min_val, max_val) < 0:
        raise RuntimeError(
            f"hardtanh(): negative limits of an unsigned type: got min_val={min_val} for {input.dtype}"
        )


relu = _with_inplace("relu", a.relu)
relu6 = _with_inplace("relu6", a.relu6)
leaky_relu = _with_inplace("leaky_relu", a.leaky_relu, ("negative_slope", 0.01))
elu = _with_inplace("elu", a.elu, ("alpha", 1.0))
celu = _with_inplace("celu", a.celu, ("alpha", 1.0), check=_check_celu)
selu = _with_inplace("selu", a.selu)
silu = _with_inplace("silu", a.silu)
mish = _with_inplace("mish", a.mish)
hardtanh = _with_inplace("hardtanh", a.hardtanh, ("min_val", -1.0), ("max_val", 1.0), check=_check_hardtanh)
hardsigmoid = _with_inplace("hardsigmoid", a.hardsigmoid)
hardswish = _with_inplace("hardswish", a.hardswish)


@library("composite", "nn.functional.softshrink", name="softshrink_function", thin=True)
def softshrink(input: TensorBase, lambd: float = 0.5) -> TensorBase:
    """x moved by `lambd` towards 0, where it stays; `lambd` is at least 0 and finite."""
    if not 0.0 <= lambd <= 3.4028234663852886e38:
        raise RuntimeError(f"softshrink(): lambd must be a finite number of at least 0, but found {lambd}")
    return a.softshrink(input, lambd=lambd)


@library("composite", "nn.functional.gelu", thin=True)
def gelu(input: TensorBase, approximate: str = "none") -> TensorBase:
    """x · Φ(x), by erf or, with approximate="tanh", by tanh (Hendrycks and Gimpel 2016)."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu(): approximate argument must be either none or tanh, got {approximate!r}")
    return a.gelu_erf(input) if approximate == "none" else a.gelu_tanh(input)


_written_threshold = InPlaceOp(a.threshold_of, "threshold_")


def threshold(input: TensorBase, threshold: float, value: float, inplace: bool = False) -> TensorBase:
    """x where it exceeds the threshold, else `value`."""
    if not input.is_floating_point():
        check_number(threshold, input, "threshold")
        check_number(value, input, "threshold")
    return (_written_threshold if inplace else a.threshold_of)(input, threshold=threshold, value=value)


def threshold_(input: TensorBase, threshold: float, value: float) -> TensorBase:
    """`threshold` in place."""
    return _written_threshold(input, threshold=threshold, value=value)


register(
    "threshold",
    "composite",
    threshold,
    places=("threshold", "nn.functional.threshold"),
    in_place=threshold_,
    thin=True,
)
library("composite", "nn.functional.tanh", name="tanh_function", thin=True)(tanh)


def prelu(input: TensorBase, weight: TensorBase) -> TensorBase:
    """input above 0, weight · input elsewhere; `weight` has one element or one a channel (dimension 1)."""
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu(): Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if weight.numel() != 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.numel() != channels:
            raise RuntimeError(
                "prelu(): Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
        weight = weight.reshape([-1 if d == 1 else 1 for d in range(max(input.ndim, 2))])
        weight = weight if input.ndim > 1 else weight.reshape(())
    elif weight.ndim:
        weight = weight.reshape([1] * input.ndim)
    return a.prelu_of(input, weight)


register(
    "prelu",
    "composite",
    prelu,
    places=("prelu", "Tensor.prelu", "nn.functional.prelu"),
    thin=True,
)


@library("composite", "nn.functional.glu")
def glu(input: TensorBase, dim: int = -1) -> TensorBase:
    """First half times the sigmoid of the second, along `dim` (Dauphin et al. 2016)."""
    if input.ndim == 0:
        raise RuntimeError("glu(): does not support 0-dimensional tensors as input")
    if not input.is_floating_point():
        checks.floating("glu", input=input)
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"glu(): argument 'dim' must be in [{-input.ndim}, {input.ndim - 1}], got {dim}")
    size = input.shape[dim]
    if size % 2:
        raise RuntimeError(f"glu(): Halving dimension must be even, but dimension {dim} is size {size}")
    return input.narrow(dim, 0, size // 2) * input.narrow(dim, size // 2, size // 2).sigmoid()


def _implicit(name: str, ndim: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if ndim in (0, 1, 3) else 1


@library("composite", "nn.functional.softmax", name="softmax_function", thin=True)
def softmax(input: TensorBase, dim: int | None = None, _stacklevel: int = 3, dtype=None) -> TensorBase:
    """Exponentials divided by their sum along `dim`; see `flambeau.softmax`."""
    dim = _implicit("softmax", input.ndim) if dim is None else dim
    return softmax_of(input, dim) if dtype is None else softmax_of(input, dim, dtype=dtype)


@library("composite", "nn.functional.log_softmax", name="log_softmax_function")
def log_softmax(input: TensorBase, dim: int | None = None, _stacklevel: int = 3, dtype=None) -> TensorBase:
    """Logarithm of the softmax along `dim`, without overflow."""
    dim = _implicit("log_softmax", input.ndim) if dim is None else dim
    return log_softmax_of(input, dim) if dtype is None else log_softmax_of(input, dim, dtype=dtype)


@library("composite", "nn.functional.softmin")
def softmin(input: TensorBase, dim: int | None = None, _stacklevel: int = 3, dtype=None) -> TensorBase:
    """softmax(-input) along `dim`."""
    return softmax(-input, _implicit("softmin", input.ndim) if dim is None else dim, dtype=dtype)


@library("composite", "nn.functional.normalize")
@in_float32()
def normalize(input: TensorBase, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out=None) -> TensorBase:
    """input / max(‖input‖ₚ, eps) along `dim`."""
    from ..rows.summaries import vector_norm

    found = input / vector_norm(input, p, dim, True).clamp_min(eps)
    return into(out, found, "normalize")


@library("composite", "nn.functional.cosine_similarity", "cosine_similarity")
@in_float32()
def cosine_similarity(x1: TensorBase, x2: TensorBase, dim: int = 1, eps: float = 1e-8) -> TensorBase:
    """x1·x2 / (max(‖x1‖, eps) · max(‖x2‖, eps)) along `dim`."""
    from ..moving.shaping import broadcast_tensors
    from ..rows.summaries import vector_norm

    for name, x in (("x1", x1), ("x2", x2)):
        if not x.is_floating_point() and (
            x.is_complex() or not (x1.is_floating_point() or x2.is_floating_point())
        ):
            raise RuntimeError(
                f"cosine_similarity(): expected common dtype to be floating point, got {x.dtype} for argument '{name}'"
            )
    if not eps >= 0:
        raise RuntimeError(f"cosine_similarity(): eps must be non-negative, got {eps}")
    x1, x2 = broadcast_tensors(x1, x2)
    first = vector_norm(x1, 2, dim, True).clamp_min(eps)
    second = vector_norm(x2, 2, dim, True).clamp_min(eps)
    return ((x1 / first) * (x2 / second)).sum(dim)


@library("random", "nn.functional.gumbel_softmax")
def gumbel_softmax(
    logits: TensorBase, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> TensorBase:
    """A sample of the Gumbel-softmax distribution along `dim` (Jang et al. 2017); `hard` gives one-hot vectors, with the
    gradient of the soft ones.  `eps` changes nothing.
    """
    noise = -logits.new_empty(logits.shape).exponential_().log()
    soft = softmax_of((logits + noise) / tau, dim)
    if not hard:
        return soft
    hot = soft.detach().mul(0.0).scatter(dim, soft.detach().argmax(dim, True), 1.0)
    return hot - soft.detach() + soft
