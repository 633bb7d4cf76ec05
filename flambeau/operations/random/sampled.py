"""Random numbers of distributions that tensors of parameters choose: gamma, beta, Dirichlet, Poisson, binomial, von Mises.

The loops are in `core/make/draws.c`; each element has a Philox stream of its own, and a call takes one counter of the generator.
They are `on_device/draws.py`'s on devices, and give float32 or, for float64, that.

Gamma, beta and Dirichlet numbers move with their parameters by implicit differentiation (Figurnov, Mohamed, Mnih 2018).
"""

from __future__ import annotations

from typing import Any

from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.call.copies import to_dtype
from ...core.make import sampling
from ...core.make.random import Generator
from ..declare import checks
from ..declare.registry import leaf, library
from ..declare.shapes import broadcast

_SINGLE, _DOUBLE = by_name["float32"], by_name["float64"]


def _drawn_from(x: TensorBase) -> TensorBase:
    """What the loops read: half types as float32."""
    return x if x.dtype is _SINGLE or x.dtype is _DOUBLE else to_dtype(x, _SINGLE)


def by(x: TensorBase) -> Any:
    """The module that draws where a tensor is; that of devices is imported then."""
    if x.is_cpu or x.is_meta:
        return sampling
    from ..on_device import draws

    return draws


def _together(who: str, **given: TensorBase) -> list[TensorBase]:
    """Floating-point tensors of one dtype, broadcast."""
    checks.floating(who, **given)
    checks.same_dtype(who, **given)
    tensors = list(given.values())
    shapes = [tuple(x.shape) for x in tensors]
    if len(set(shapes)) == 1:
        return tensors
    shape = broadcast(shapes)
    return [x.expand(shape) for x in tensors]


@leaf("random", "poisson", differentiable=False, elementwise=True)
def poisson(input: TensorBase, generator: Generator | None = None) -> TensorBase:
    """Poisson numbers with the rates that `input` gives; RuntimeError where one is negative or NaN.  The gradient is 0.

    Rates below 10 are drawn by inversion, larger ones by rejection (Hörmann, "The transformed rejection method for generating
    Poisson random variables", 1993), and from 10^8 on as rounded normal numbers with the skewness put right.

    >>> import flambeau
    >>> flambeau.poisson(flambeau.tensor([0.0, 1e-30]))
    tensor([0., 0.])
    """
    checks.floating("poisson", input=input)
    made = by(input).poisson(_drawn_from(input), generator)
    if made is None:
        raise RuntimeError("poisson(): invalid Poisson rate, expected rate to be non-negative")
    return to_dtype(made, input.dtype)


@poisson.derivative
def _poisson_gradient(grad: TensorBase) -> TensorBase:
    return grad.new_zeros(grad.shape)


@leaf("random", "binomial", differentiable=False)
def binomial(count: TensorBase, prob: TensorBase, generator: Generator | None = None) -> TensorBase:
    """How many of `count` trials succeed, each with probability `prob`: floating-point tensors of one dtype, which broadcast.

    Where fewer than 10 are expected, numbers are drawn by inversion, else by rejection (Hörmann, "The generation of binomial
    random variates", 1993), and for variances from 10^8 on as rounded normal numbers with the skewness put right.  As in
    PyTorch, no trials and probabilities up to 0 give 0, probabilities from 1 on give `count`, NaN gives NaN.  The gradient
    is 0.  ValueError for tensors of integers, RuntimeError for two dtypes.

    >>> import flambeau
    >>> flambeau.binomial(flambeau.tensor([3.0, 5.0]), flambeau.tensor([0.0, 1.0]))
    tensor([0., 5.])
    """
    checks.dtypes("binomial", checks.FLOATS, ValueError, count=count, prob=prob)
    a, b = _together("binomial", count=count, prob=prob)
    return to_dtype(by(a).binomial(_drawn_from(a), _drawn_from(b), generator), count.dtype)


@binomial.derivative
def _binomial_gradients(grad: TensorBase, shape_count: Any, shape_prob: Any) -> tuple:
    return grad.new_zeros(shape_count), grad.new_zeros(shape_prob)


@library("random", "_negative_binomial", name="negative_binomial", differentiable=False)
def negative_binomial(count: TensorBase, odds: TensorBase, generator: Generator | None = None) -> TensorBase:
    """How many trials succeed before `count` have failed, for these odds of success: Poisson numbers with gamma rates."""
    count, odds = _together("_negative_binomial", count=count, odds=odds)
    return to_dtype(
        by(count).negative_binomial(_drawn_from(count), _drawn_from(odds), generator), count.dtype
    )


@leaf("random", "_standard_gamma", name="standard_gamma", differentiable=False)
def standard_gamma(input: TensorBase, generator: Generator | None = None) -> TensorBase:
    """Numbers of the gamma distributions with the shapes in `input` and rate 1 (Marsaglia and Tsang 2000).

    At least the smallest normal number of float32 (float64); NaN for negative shapes.  Differentiable once.
    """
    checks.floating("_standard_gamma", input=input)
    return to_dtype(by(input).gamma(_drawn_from(input), generator), input.dtype)


@standard_gamma.derivative
def _gamma_gradient(grad: TensorBase, input: TensorBase, result: TensorBase) -> TensorBase:
    return grad * standard_gamma_grad(input, result)


@leaf(
    "library",
    "_standard_gamma_grad",
    name="standard_gamma_grad",
    underived=True,
    differentiable=False,
)
def standard_gamma_grad(self: TensorBase, output: TensorBase) -> TensorBase:
    """How `output`, which `standard_gamma` has made, moves with the shape `self`: -(∂F/∂shape) / density."""
    return to_dtype(by(self).gamma_gradient(_drawn_from(self), _drawn_from(output)), self.dtype)


@library("random", "_standard_beta", name="standard_beta", differentiable=False, composite=True)
def standard_beta(a: TensorBase, b: TensorBase, generator: Generator | None = None) -> TensorBase:
    """Numbers of beta distributions, inside of (0, 1): quotients of gamma numbers.  Differentiable once."""
    return beta_and_rest(*_together("_standard_beta", a=a, b=b), generator)[0]


@leaf(
    "random",
    results=("x", "rest"),
    label="StandardBetaBackward0",
    differentiable=False,
)
def beta_and_rest(
    a: TensorBase, b: TensorBase, generator: Generator | None = None
) -> tuple[TensorBase, TensorBase]:
    """Numbers x of beta distributions and 1 - x, each with all its digits."""
    x, rest = by(a).beta(_drawn_from(a), _drawn_from(b), generator)
    return to_dtype(x, a.dtype), to_dtype(rest, a.dtype)


@beta_and_rest.derivative
def _beta_gradients(
    grad_x: TensorBase, a: TensorBase, b: TensorBase, x: TensorBase, rest: TensorBase
) -> tuple:
    return grad_x * dirichlet_grad(x, a, b) * rest, -grad_x * dirichlet_grad(rest, b, a) * x


@leaf("random", "_sample_dirichlet", name="sample_dirichlet", differentiable=False)
def sample_dirichlet(input: TensorBase, generator: Generator | None = None) -> TensorBase:
    """Numbers of Dirichlet distributions, whose concentrations lie along the last dimension.  Differentiable once.

    Where a concentration is below 1 the logarithms of gamma numbers are compared, so that none is too small to tell.
    """
    checks.floating("_sample_dirichlet", input=input)
    return to_dtype(by(input).dirichlet(_drawn_from(input), generator), input.dtype)


@sample_dirichlet.derivative
def _dirichlet_gradient(grad: TensorBase, input: TensorBase, result: TensorBase) -> TensorBase:
    """Each number moves with its own concentration as a beta number does, and the others make room in proportion."""
    wide, x = to_dtype(input, _DOUBLE), to_dtype(result, _DOUBLE)
    g = to_dtype(grad, _DOUBLE)
    own = dirichlet_grad(x, wide, wide.sum(-1, True) - wide)
    return to_dtype(own * (g - (x * g).sum(-1, True)), grad.dtype)


@leaf("library", "_beta_grad", name="dirichlet_grad", underived=True, differentiable=False)
def dirichlet_grad(x: TensorBase, a: TensorBase, b: TensorBase) -> TensorBase:
    """How a beta(a, b) number x moves with a, over 1 - x: -(∂F/∂a) / density / (1 - x)."""
    return to_dtype(by(x).beta_gradient(*map(_drawn_from, (x, a, b))), x.dtype)


@library("random", "_von_mises", name="von_mises", differentiable=False)
def von_mises(loc: TensorBase, concentration: TensorBase, generator: Generator | None = None) -> TensorBase:
    """Angles in [-π, π) of von Mises distributions (Best and Fisher, "Efficient simulation of the von Mises distribution", 1979)."""
    loc, concentration = _together("_von_mises", loc=loc, concentration=concentration)
    return to_dtype(by(loc).von_mises(_drawn_from(concentration), _drawn_from(loc), generator), loc.dtype)
