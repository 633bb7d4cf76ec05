"""Activation functions of neural networks: pointwise, with their derivatives where a shorter one is known; then as
`nn.functional` has them, with `inplace` and choices by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...codegen import functions as fn
from ...core.base.dtypes import by_name
from ...core.base.parameters import BY_PLACE, MISSING
from ...core.base.tensor import TensorBase
from ...core.call.operation import rename
from ...core.call.pointwise import InPlaceOp
from ...core.make.elements import check_number
from ..declare import checks
from ..declare.examples import of_numbers
from ..declare.pointwise import BOOL, COMPLEX, EVERY, FLOATING, NUMERIC, pointwise
from ..declare.registry import library, register
from ..pointwise.elementary import tanh
from ..random.random import draws_as_pytorch

_SQRT_HALF, _INV_SQRT_2PI = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)


def _zero(x):
    return fn.like(x, 0.0)


@pointwise(dtypes=NUMERIC, aten_backward="threshold_backward", gain=math.sqrt(2.0))
def relu(input):
    """max(input, 0), element by element; the derivative at 0 is 0.

    >>> import flambeau
    >>> flambeau.relu(flambeau.tensor([-1., 2.]))
    tensor([0., 2.])
    """
    return fn.maximum(input, fn.like(input, 0))


@relu.derivative
def _(grad, out):
    return fn.where(out <= 0, _zero(grad), grad)  # of NaN, 1


_NO_BOOLS = [(BOOL, RuntimeError, "bool inputs are not supported")]


@pointwise(places=("_hardtanh",), dtypes=NUMERIC, refused=_NO_BOOLS, in_place=False)
def hardtanh(input, *, min_val=-1.0, max_val=1.0):
    """input, kept between min_val and max_val."""
    return fn.minimum(fn.maximum(input, min_val), max_val)


@hardtanh.derivative
def _(grad, input, min_val, max_val):
    return fn.where((input <= min_val) | (input >= max_val), _zero(grad), grad)


@pointwise(places=("_relu6",), dtypes=NUMERIC, refused=_NO_BOOLS, in_place=False, label="HardtanhBackward0")
def relu6(input):
    """min(max(input, 0), 6)."""
    return fn.minimum(fn.maximum(input, fn.like(input, 0)), fn.like(input, 6))


@relu6.derivative
def _(grad, input):
    return fn.where((input <= 0.0) | (input >= 6.0), _zero(grad), grad)


@pointwise(places=("_leaky_relu",), dtypes=FLOATING, in_place=False)
def leaky_relu(input, *, negative_slope=0.01):
    """input above 0, negative_slope · input elsewhere."""
    return fn.where(input > 0, input, input * negative_slope)


@leaky_relu.derivative
def _(grad, input, negative_slope):
    return fn.where(input > 0, grad, grad * negative_slope)


@pointwise(
    places=("_prelu",),
    dtypes=FLOATING,
    alike=("input", "weight"),
    in_place=False,
    label="PreluKernelBackward0",
)
def prelu_of(input, weight):
    """input above 0, weight · input elsewhere."""
    return fn.where(input > 0, input, input * weight)


@prelu_of.derivative
def _(grad, input, weight):
    return fn.where(input > 0, grad, grad * weight), fn.where(input > 0, _zero(grad), grad * input)


@pointwise(places=("_elu",), dtypes=FLOATING, in_place=False)
def elu(input, *, alpha=1.0):
    """input above 0, alpha · (exp(input) - 1) elsewhere (Clevert et al. 2015)."""
    return fn.where(input > 0, input, alpha * fn.expm1(input))


@elu.derivative
def _(grad, input, alpha):
    return fn.where(input <= 0, grad * alpha * fn.exp(input), grad)


@pointwise(dtypes=FLOATING)
def celu(input, *, alpha=1.0):
    """max(0, x) + min(0, alpha · (exp(x / alpha) - 1)) (Barron 2017).

    >>> import flambeau
    >>> flambeau.celu(flambeau.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return fn.where(input > 0, input, alpha * fn.expm1(input / alpha))


@celu.derivative
def _(grad, input, alpha):
    return fn.where(input <= 0, grad * fn.exp(input / alpha), grad)


_ALPHA, _SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@pointwise(dtypes=FLOATING, label="EluBackward0", gain=3.0 / 4.0)
def selu(input):
    """scale · (max(0, x) + min(0, α · (exp(x) - 1))): a scaled elu whose activations keep mean 0 and variance 1 (Klambauer et al. 2017).

    >>> import flambeau
    >>> flambeau.selu(flambeau.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return fn.where(input > 0, input * _SCALE, fn.expm1(input) * (_ALPHA * _SCALE))


@selu.derivative
def _(grad, input):
    return fn.where(input <= 0, grad * fn.exp(input) * (_ALPHA * _SCALE), grad * _SCALE)


@pointwise(places=("_gelu",), dtypes=FLOATING, in_place=False, label="GeluBackward0")
def gelu_erf(input):
    """x · Φ(x) with the normal distribution function Φ (Hendrycks and Gimpel 2016)."""
    half = input * 0.5
    return fn.fma(half, fn.erf(input * _SQRT_HALF), half)


@gelu_erf.derivative
def _(grad, input):
    cdf = 0.5 * (1.0 + fn.erf(input * _SQRT_HALF))
    pdf = fn.exp(input * input * -0.5) * _INV_SQRT_2PI
    return grad * (cdf + input * pdf)


@pointwise(places=("_gelu_tanh",), dtypes=FLOATING, in_place=False, label="GeluBackward0")
def gelu_tanh(input):
    """x · Φ(x), Φ approximated through tanh (Hendrycks and Gimpel 2016)."""
    inner = (input + input * input * input * 0.044715) * math.sqrt(2.0 / math.pi)
    return input * 0.5 * (1.0 + fn.tanh(inner))


@pointwise(places=("_silu",), dtypes=FLOATING | COMPLEX, in_place=False)
def silu(input):
    """x · sigmoid(x)."""
    return input * fn.sigmoid(input)


@silu.derivative
def _(grad, input):
    s = fn.sigmoid(input)
    return grad * (s * (1.0 + input * (1.0 - s)))


@pointwise(places=("_gated",), dtypes=FLOATING, in_place=False, label="GluBackward0")
def gated(input, gate):
    """input · sigmoid(gate)."""
    return input * fn.sigmoid(gate)


@gated.derivative
def _(grad, input, gate):
    s = fn.sigmoid(gate)
    return grad * s, grad * input * (s * (1.0 - s))


@pointwise(places=("_mish",), dtypes=FLOATING, in_place=False)
def mish(input):
    """x · tanh(softplus(x)) (Misra 2019)."""
    return input * fn.tanh(_softplus(input))


@mish.derivative
def _(grad, input):
    t = fn.tanh(_softplus(input))
    return grad * (t + input * (1.0 - t * t) * fn.sigmoid(input))


def _softplus(x):
    """log(1 + exp(x)) without overflow."""
    return fn.maximum(x, _zero(x)) + fn.log1p(fn.exp(-fn.absolute(x)))


@pointwise(
    places=("nn.functional.softplus",), dtypes=FLOATING, in_place=False, autocast=("fallthrough", "float32")
)
def softplus(input, *, beta=1.0, threshold=20.0):
    """log(1 + exp(beta · x)) / beta; x itself where beta · x exceeds the threshold.

    >>> import flambeau
    >>> flambeau.nn.functional.softplus(flambeau.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """
    scaled = input * beta
    return fn.where(scaled > threshold, input, fn.log1p(fn.exp(scaled)) / beta)


@softplus.derivative
def _(grad, input, beta, threshold):
    scaled = input * beta
    return fn.where(scaled > threshold, grad, grad * fn.sigmoid(scaled))


@pointwise(
    places=("nn.functional.logsigmoid",),
    dtypes=FLOATING,
    in_place=False,
    label="LogSigmoidBackward0",
    aten="log_sigmoid",
)
def logsigmoid(input):
    """log(sigmoid(x)) without overflow.

    >>> import flambeau
    >>> flambeau.nn.functional.logsigmoid(flambeau.tensor([0.0, -100.0]))
    tensor([  -0.6931, -100.0000])
    """
    return fn.minimum(input, _zero(input)) - fn.log1p(fn.exp(-fn.absolute(input)))


@logsigmoid.derivative
def _(grad, input):
    return grad * fn.sigmoid(-input)


@pointwise(
    places=("nn.functional.softsign",),
    int_to_float=True,
    in_place=False,
    dtypes=EVERY - BOOL,
    refused=[(BOOL, NotImplementedError, "bool inputs are not supported")],
    label="DivBackward0",
)
def softsign(input):
    """x / (1 + |x|).

    >>> import flambeau
    >>> flambeau.nn.functional.softsign(flambeau.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    return input / (1.0 + fn.absolute(input))


@pointwise(
    places=("nn.functional.tanhshrink",),
    int_to_float=True,
    in_place=False,
    dtypes=EVERY - BOOL,
    refused=_NO_BOOLS,
    label="SubBackward0",
)
def tanhshrink(input):
    """x - tanh(x).

    >>> import flambeau
    >>> flambeau.nn.functional.tanhshrink(flambeau.tensor([0.0, 2.0]))
    tensor([0.0000, 1.0360])
    """
    return input - fn.tanh(input)


@pointwise(places=("_hardsigmoid",), dtypes=FLOATING, in_place=False)
def hardsigmoid(input):
    """min(max(x + 3, 0), 6) / 6."""
    return fn.minimum(fn.maximum(input + 3.0, _zero(input)), fn.like(input, 6.0)) / 6.0


@hardsigmoid.derivative
def _(grad, input):
    return fn.where((input > -3.0) & (input < 3.0), grad * (1.0 / 6.0), _zero(grad))


@pointwise(places=("_hardswish",), dtypes=FLOATING, in_place=False)
def hardswish(input):
    """x · hardsigmoid(x) (Howard et al. 2019)."""
    return input * fn.minimum(fn.maximum(input + 3.0, _zero(input)), fn.like(input, 6.0)) / 6.0


@hardswish.derivative
def _(grad, input):
    middle = grad * (input / 3.0 + 0.5)
    return fn.where(input <= -3.0, _zero(grad), fn.where(input < 3.0, middle, grad))


@pointwise(places=("_softshrink",), dtypes=FLOATING, in_place=False)
def softshrink(input, *, lambd=0.5):
    """x moved towards 0 by lambd; 0 within lambd of it."""
    moved = fn.where(input > lambd, input - lambd, fn.where(input < -lambd, input + lambd, input * 0.0))
    return moved


@softshrink.derivative
def _(grad, input, lambd):
    return fn.where((input >= -lambd) & (input <= lambd), _zero(grad), grad)


@pointwise(also=("nn.functional.hardshrink",), dtypes=FLOATING, in_place=False)
def hardshrink(input, *, lambd=0.5):
    """input where |input| > lambd, else 0.

    >>> import flambeau
    >>> flambeau.hardshrink(flambeau.tensor([-0.3, 0.5, 2.0]))
    tensor([0., 0., 2.])
    """
    return fn.where((input >= -lambd) & (input <= lambd), _zero(input), input)


@hardshrink.derivative
def _(grad, input, lambd):
    return fn.where((input >= -lambd) & (input <= lambd), _zero(grad), grad)


@pointwise(places=("_threshold",), dtypes=NUMERIC, in_place=False)
def threshold_of(input, *, threshold, value):
    """x where it exceeds the threshold, else value."""
    return fn.where(input <= threshold, value, input)


@threshold_of.derivative
def _(grad, input, threshold):
    return fn.where(input <= threshold, _zero(grad), grad)


# What public functions compute with them is called by the public name, in errors and on the tape.
for _op, _name in ((gelu_erf, "gelu"), (gelu_tanh, "gelu"), (prelu_of, "prelu"), (threshold_of, "threshold")):
    rename(_op, _name)


# --- as `nn.functional` has them ------------------------------
def _check_celu(input: TensorBase, alpha: float) -> None:
    if alpha == 0:
        raise RuntimeError("celu(): alpha cannot be 0")


def _check_hardtanh(input: TensorBase, min_val: float, max_val: float) -> None:
    if not isinstance(input, TensorBase):
        raise TypeError(
            f"hardtanh(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    if min_val > max_val:
        raise ValueError(f"hardtanh(): min_val cannot be greater than max_val, got {min_val} and {max_val}")
    if not input.is_floating_point():
        check_number(min_val, input, "hardtanh")
        check_number(max_val, input, "hardtanh")
    if input.dtype.name == "uint8" and min(min_val, max_val) < 0:
        raise RuntimeError(
            f"hardtanh(): negative limits of an unsigned type: got min_val={min_val} for {input.dtype}"
        )


def _with_inplace(op, example: str, *params: tuple[str, float], check: Callable | None = None) -> None:
    """`name(input, *params, inplace=False)` over a pointwise operation; `check(input, …params)` raises for values that it does
    not take.
    """
    name = op.name
    written = InPlaceOp(op, name + "_")  # public beside that of the operation
    function: Callable
    if params:

        def with_params(input, *given, inplace=False, **named) -> TensorBase:
            values, most = dict(params), len(params) + 2
            if len(given) + 1 > most:
                raise TypeError(
                    f"{name}() takes from 1 to {most} positional arguments but {len(given) + 1} were given"
                )
            if len(given) > len(params):
                inplace, given = given[-1], given[:-1]
            values.update(zip(values, given))
            values.update(named)
            if check is not None:
                check(input, **values)
            return (written if inplace else op)(input, **values)

        given = [(n, BY_PLACE, v, MISSING) for n, v in (*params, ("inplace", False))]
        with_params.describe_parameters = lambda: [("input", BY_PLACE, MISSING, MISSING), *given]  # type: ignore[attr-defined]
        function = with_params
    else:

        def plain(input, inplace=False) -> TensorBase:
            return written(input) if inplace else op(input)

        function = plain
    function.__name__ = function.__qualname__ = name
    shown = ", ".join(f"{n}={v}" for n, v in params)
    what = vars(op)["__doc__"].partition("\n\n")[0]
    function.__doc__ = (
        f"{what}\n\n`{name}(input, {shown + ', ' if shown else ''}inplace=False)`; `inplace` writes over the input."
        + of_numbers(f"nn.functional.{name}", example)
    )
    in_place = None if name in ("silu", "mish", "hardsigmoid", "hardswish", "relu6") else written
    register(
        f"{name}_function",
        "composite",
        function,
        places=(f"nn.functional.{name}",),
        in_place=in_place,
        forwards=True,
        computed_by=op,
        elementwise=True,
    )


for _op, _example, *_params in (
    (
        relu,
        "-1.0, 2.0 -> 0., 2.",
    ),
    (
        relu6,
        "-1.0, 7.0 -> 0., 6.",
    ),
    (leaky_relu, "-1.0, 2.0 -> -0.0100,  2.0000", ("negative_slope", 0.01)),
    (elu, "-1.0, 2.0 -> -0.6321,  2.0000", ("alpha", 1.0)),
    (
        selu,
        "-1.0, 2.0 -> -1.1113,  2.1014",
    ),
    (
        silu,
        "-1.0, 2.0 -> -0.2689,  1.7616",
    ),
    (
        mish,
        "-1.0, 2.0 -> -0.3034,  1.9440",
    ),
    (
        hardsigmoid,
        "-1.0, 2.0 -> 0.3333, 0.8333",
    ),
    (
        hardswish,
        "-1.0, 2.0 -> -0.3333,  1.6667",
    ),
):
    _with_inplace(_op, _example, *_params)
_with_inplace(celu, "-1.0, 2.0 -> -0.6321,  2.0000", ("alpha", 1.0), check=_check_celu)
_with_inplace(hardtanh, "-1.0, 2.0 -> -1.,  1.", ("min_val", -1.0), ("max_val", 1.0), check=_check_hardtanh)


@library(
    "composite",
    "nn.functional.softshrink",
    name="softshrink_function",
    forwards=True,
    elementwise=True,
    dtypes=FLOATING,
)
def softshrink_function(input: TensorBase, lambd: float = 0.5) -> TensorBase:
    """sign(x) · max(|x| - lambd, 0): x moved by `lambd` towards 0, where it stays; `lambd` is at least 0 and finite.

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: `lambd` is negative

    >>> import flambeau
    >>> flambeau.nn.functional.softshrink(flambeau.tensor([-0.3, 2.0, -2.0]))
    tensor([-0.0000,  1.5000, -1.5000])
    """
    if not 0.0 <= lambd <= 3.4028234663852886e38:
        raise RuntimeError(f"softshrink(): lambd must be a finite number of at least 0, but found {lambd}")
    return softshrink(input, lambd=lambd)


@library("composite", "nn.functional.gelu", forwards=True, elementwise=True, dtypes=FLOATING)
def gelu(input: TensorBase, approximate: str = "none") -> TensorBase:
    """x · Φ(x), by erf or, with approximate="tanh", by tanh (Hendrycks and Gimpel 2016).

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: `approximate` is neither "none" nor "tanh"

    >>> import flambeau
    >>> flambeau.nn.functional.gelu(flambeau.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu(): approximate argument must be either none or tanh, got {approximate!r}")
    return gelu_erf(input) if approximate == "none" else gelu_tanh(input)


def threshold(input: TensorBase, threshold: float, value: float, inplace: Any = False) -> TensorBase:
    """input where input > threshold, else `value`.

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.threshold(flambeau.tensor([0.5, 2.0]), 1.0, -1.0)
    tensor([-1.,  2.])
    """
    if not input.is_floating_point():
        check_number(threshold, input, "threshold")
        check_number(value, input, "threshold")
    return (threshold_of.in_place if inplace else threshold_of)(input, threshold=threshold, value=value)


def threshold_(input: TensorBase, threshold: float, value: float) -> TensorBase:
    """`threshold` in place."""
    return _threshold(input, threshold, value, inplace=True)


_threshold = threshold


register(
    "threshold",
    "composite",
    threshold,
    places=("threshold", "nn.functional.threshold"),
    in_place=threshold_,
    forwards=True,
    elementwise=True,
    dtypes=NUMERIC,
)

library("composite", "nn.functional.tanh", name="tanh_function", forwards=True)(tanh)


def prelu(input: TensorBase, weight: TensorBase) -> TensorBase:
    """max(0, input) + weight · min(0, input); `weight` has one element or one a channel (dimension 1).

    Shape:
        input: (N, C, *); weight: (1,) or (C,); result: the shape of `input`

    Raises:
        RuntimeError: the number of weights is neither 1 nor that of channels

    >>> import flambeau
    >>> flambeau.prelu(flambeau.tensor([[-4.0, 2.0]]), flambeau.tensor([0.25]))
    tensor([[-1.,  2.]])
    """
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
    return prelu_of(input, weight)


register(
    "prelu",
    "composite",
    prelu,
    places=("prelu", "Tensor.prelu", "nn.functional.prelu"),
    forwards=True,
    autocast="lower",
    label="PreluKernelBackward0",
    dtypes=FLOATING,
)


@library("composite", "nn.functional.glu", dtypes=FLOATING)
def glu(input: TensorBase, dim: int = -1) -> TensorBase:
    """a · sigmoid(b) for the halves a and b of the input along `dim` (Dauphin et al. 2016).

    Shape:
        input: (*, 2n, *); result: (*, n, *)

    Raises:
        RuntimeError: the size along `dim` is odd

    >>> import flambeau
    >>> flambeau.nn.functional.glu(flambeau.tensor([3.0, 5.0, 0.0, 100.0]))
    tensor([1.5000, 5.0000])
    """
    if input.ndim == 0:
        raise RuntimeError("glu(): does not support 0-dimensional tensors as input")
    if not input.is_floating_point():
        checks.floating("glu", input=input)
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"glu(): argument 'dim' must be in [{-input.ndim}, {input.ndim - 1}], got {dim}")
    size = input.shape[dim]
    if size % 2:
        raise RuntimeError(f"glu(): Halving dimension must be even, but dimension {dim} is size {size}")
    return gated(input.narrow(dim, 0, size // 2), input.narrow(dim, size // 2, size // 2))


def rrelu_(
    input: TensorBase, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> TensorBase:
    """`rrelu`, written over the input."""
    return rrelu(input, lower, upper, training, inplace=True)


def _slopes(input: TensorBase, lower: float, upper: float) -> TensorBase:
    """Uniform numbers; in PyTorch's stream they are drawn as float64, and for elements that are not above 0 alone."""
    if not draws_as_pytorch(input):
        return input.new_empty(input.shape).uniform_(lower, upper)
    below = input <= 0
    drawn = input.new_empty((int(below.sum()),), dtype=by_name["float64"]).uniform_() * (upper - lower)
    return input.new_ones(input.shape).masked_scatter_(below, (drawn + lower).to(input.dtype))


@library("random", "nn.functional.rrelu", "rrelu", in_place=rrelu_, composite=True, elementwise=True)
def rrelu(
    input: TensorBase,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: Any = False,
) -> TensorBase:
    """x above 0, else x times a random slope in [lower, upper]; outside training the mean slope (Xu et al. 2015).

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.nn.functional.rrelu(flambeau.tensor([-12.0, 3.0]), lower=0.25, upper=0.25)
    tensor([-3.,  3.])
    """
    if not (math.isfinite(lower) and math.isfinite(upper)):
        raise RuntimeError(f"rrelu(): lower and upper must be finite, got {lower} and {upper}")
    if lower > upper:
        raise RuntimeError(f"rrelu(): lower must be at most upper, got {lower} and {upper}")
    checks.floating("rrelu", input=input)
    if not training:
        return (leaky_relu.in_place if inplace else leaky_relu)(input, negative_slope=(lower + upper) / 2)
    slopes = _slopes(input.detach(), lower, upper)
    return (prelu_of.in_place if inplace else prelu_of)(input, slopes)
