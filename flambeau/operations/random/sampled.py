"""Random numbers of distributions that tensors of parameters choose: gamma, beta, Dirichlet, Poisson, binomial, von Mises.

The loops are in `core/make/draws.c`; each element has a Philox stream of its own, and a call takes one counter of the generator.
They run on the host, in float32 or, for float64, in that; tensors of other devices go there and back.

Gamma, beta and Dirichlet numbers move with their parameters by implicit differentiation (Figurnov, Mohamed, Mnih 2018).
"""

from __future__ import annotations

from typing import Any

from ...core import tape
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.call.copies import to_dtype
from ...core.make import sampling
from ...core.make.random import Generator
from ...core.tape.contexts import unrecorded
from ..declare import checks
from ..declare.registry import library
from ..declare.shapes import broadcast

_SINGLE, _DOUBLE = by_name["float32"], by_name["float64"]


def _drawn_from(x: TensorBase) -> TensorBase:
    """What the loops read: no history, half types as float32."""
    x = x.detach() if x.requires_grad else x
    return x if x.dtype is _SINGLE or x.dtype is _DOUBLE else to_dtype(x, _SINGLE)


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


def _not_twice(name: str) -> Any:
    def refuse(grad: TensorBase) -> Any:
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    return refuse


@library("random", "poisson", differentiable=False, on_host=True)
def poisson(input: TensorBase, generator: Generator | None = None) -> TensorBase:
    """Poisson numbers with the rates that `input` gives; RuntimeError where one is negative or NaN.  The gradient is 0.

    Rates below 10 are drawn by inversion, larger ones by rejection (Hörmann, "The transformed rejection method for generating
    Poisson random variables", 1993), and from 10^8 on as rounded normal numbers with the skewness put right.

    >>> import flambeau
    >>> flambeau.poisson(flambeau.tensor([0.0, 1e-30]))
    tensor([0., 0.])
    """
    checks.floating("poisson", input=input)
    made = sampling.poisson(_drawn_from(input), generator)
    if made is None:
        raise RuntimeError("poisson(): invalid Poisson rate, expected rate to be non-negative")
    made = to_dtype(made, input.dtype)
    if tape.recording(input):
        tape.record("PoissonBackward0", lambda g: g * 0.0, (input,), made)
    return made


@library("random", "binomial", differentiable=False, on_host=True)
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
    made = to_dtype(sampling.binomial(_drawn_from(a), _drawn_from(b), generator), count.dtype)
    if tape.recording(count, prob):
        tape.record("BinomialBackward0", lambda g: (g * 0.0, g * 0.0), (a, b), made)
    return made


@library("random", "_negative_binomial", name="negative_binomial", differentiable=False, on_host=True)
def negative_binomial(count: TensorBase, odds: TensorBase, generator: Generator | None = None) -> TensorBase:
    """How many trials succeed before `count` have failed, for these odds of success: Poisson numbers with gamma rates."""
    count, odds = _together("_negative_binomial", count=count, odds=odds)
    return to_dtype(sampling.negative_binomial(_drawn_from(count), _drawn_from(odds), generator), count.dtype)


@library("random", "_standard_gamma", name="standard_gamma", differentiable=False, on_host=True)
def standard_gamma(input: TensorBase, generator: Generator | None = None) -> TensorBase:
    """Numbers of the gamma distributions with the shapes in `input` and rate 1 (Marsaglia and Tsang 2000).

    At least the smallest normal number of float32 (float64); NaN for negative shapes.  Differentiable once.
    """
    checks.floating("_standard_gamma", input=input)
    drawn = sampling.gamma(_drawn_from(input), generator)
    made = to_dtype(drawn, input.dtype)
    if tape.recording(input):
        tape.record("StandardGammaBackward0", _times_gamma_gradient, (input,), made, (input, drawn))
    return made


def _times_gamma_gradient(grad: TensorBase, shape: TensorBase, drawn: TensorBase) -> TensorBase:
    return grad * standard_gamma_grad(shape, drawn)


@library("random", "_standard_gamma_grad", name="standard_gamma_grad", differentiable=False, on_host=True)
def standard_gamma_grad(self: TensorBase, output: TensorBase) -> TensorBase:
    """How `output`, which `standard_gamma` has made, moves with the shape `self`: -(∂F/∂shape) / density."""
    found = to_dtype(sampling.gamma_gradient(_drawn_from(self), _drawn_from(output)), self.dtype)
    if tape.recording(self, output):
        tape.record("StandardGammaGradBackward0", _not_twice("_standard_gamma_grad"), (self, output), found)
    return found


@library("random", "_standard_beta", name="standard_beta", differentiable=False, on_host=True)
def standard_beta(a: TensorBase, b: TensorBase, generator: Generator | None = None) -> TensorBase:
    """Numbers of beta distributions, inside of (0, 1): quotients of gamma numbers.  Differentiable once."""
    a, b = _together("_standard_beta", a=a, b=b)
    drawn, rest = sampling.beta(_drawn_from(a), _drawn_from(b), generator)
    made = to_dtype(drawn, a.dtype)
    if tape.recording(a, b):
        tape.record("StandardBetaBackward0", _beta_gradients, (a, b), made, (a, b, drawn, rest))
    return made


def _beta_gradients(grad: TensorBase, a: TensorBase, b: TensorBase, x: TensorBase, rest: TensorBase) -> tuple:
    return (
        grad * dirichlet_grad(x, a, b).to(grad.dtype) * rest.to(grad.dtype),
        -grad * dirichlet_grad(rest, b, a).to(grad.dtype) * x.to(grad.dtype),
    )


@library("random", "_sample_dirichlet", name="sample_dirichlet", differentiable=False, on_host=True)
def sample_dirichlet(input: TensorBase, generator: Generator | None = None) -> TensorBase:
    """Numbers of Dirichlet distributions, whose concentrations lie along the last dimension.  Differentiable once.

    Where a concentration is below 1 the logarithms of gamma numbers are compared, so that none is too small to tell.
    """
    checks.floating("_sample_dirichlet", input=input)
    drawn = sampling.dirichlet(_drawn_from(input), generator)
    made = to_dtype(drawn, input.dtype)
    if tape.recording(input):
        tape.record("SampleDirichletBackward0", _dirichlet_gradient, (input,), made, (input, drawn))
    return made


def _dirichlet_gradient(grad: TensorBase, concentration: TensorBase, x: TensorBase) -> TensorBase:
    """Each number moves with its own concentration as a beta number does, and the others make room in proportion."""
    wide, x = to_dtype(concentration, _DOUBLE), to_dtype(x, _DOUBLE)
    g = to_dtype(grad, _DOUBLE)
    own = dirichlet_grad(x, wide, wide.sum(-1, True) - wide)
    return to_dtype(own * (g - (x * g).sum(-1, True)), grad.dtype)


@library("random", "_beta_grad", name="dirichlet_grad", differentiable=False, on_host=True)
def dirichlet_grad(x: TensorBase, a: TensorBase, b: TensorBase) -> TensorBase:
    """How a beta(a, b) number x moves with a, over 1 - x: -(∂F/∂a) / density / (1 - x)."""
    found = to_dtype(sampling.beta_gradient(*map(_drawn_from, (x, a, b))), x.dtype)
    if tape.recording(x, a, b):
        tape.record("DirichletGradBackward0", _not_twice("_dirichlet_grad"), (x, a, b), found)
    return found


@library("random", "_von_mises", name="von_mises", differentiable=False, on_host=True)
def von_mises(loc: TensorBase, concentration: TensorBase, generator: Generator | None = None) -> TensorBase:
    """Angles in [-π, π) of von Mises distributions (Best and Fisher, "Efficient simulation of the von Mises distribution", 1979)."""
    loc, concentration = _together("_von_mises", loc=loc, concentration=concentration)
    with unrecorded():
        return to_dtype(
            sampling.von_mises(_drawn_from(concentration), _drawn_from(loc), generator), loc.dtype
        )
