"""From constraints to transforms of unconstrained real numbers.

`biject_to(constraint)` gives a bijection, with `log_abs_det_jacobian`: for samplers that move through unconstrained space.
`transform_to(constraint)` gives any transform onto the region, cheap and rather coordinate by coordinate: for optimisers of
constrained parameters.

| constraint | `biject_to` | `transform_to` |
|---|---|---|
| `real` | identity | identity |
| `positive`, `nonnegative` | exp | exp |
| `greater_than`, `greater_than_eq`, `less_than` | exp, affine | exp, affine |
| `unit_interval`, `interval`, `half_open_interval` | sigmoid, affine | sigmoid, affine |
| `simplex` | stick breaking | softmax |
| `corr_cholesky` | `CorrCholeskyTransform` | `CorrCholeskyTransform` |
| `lower_cholesky` | — | `LowerCholeskyTransform` |
| `positive_definite`, `positive_semidefinite` | — | `PositiveDefiniteTransform` |
| `independent`, `cat`, `stack` | of their parts | of their parts |

>>> import flambeau
>>> from flambeau.distributions import Normal, transform_to
>>> transform_to(Normal.arg_constraints["scale"])(flambeau.zeros(2))
tensor([1., 1.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A table from classes of constraints to functions that make a transform of a constraint.

    >>> from flambeau.distributions import constraints, transforms
    >>> from flambeau.distributions.constraint_registry import ConstraintRegistry
    >>> registry = ConstraintRegistry()
    >>> @registry.register(constraints.greater_than)
    ... def shifted(constraint):
    ...     return transforms.AffineTransform(constraint.lower_bound, 1.0)
    >>> registry(constraints.greater_than(3.0)).loc
    3.0
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Callable | None = None) -> Any:
        """Enter the function that makes the transform for constraints of a class, which may be given by an instance.

        Without `factory` a decorator.  TypeError for what is no constraint.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {kind}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform from unconstrained space to the region; NotImplementedError where none was registered."""
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints") from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()
_BOTH = (biject_to, transform_to)


def _for(registries: tuple[ConstraintRegistry, ...], *kinds: Any) -> Callable[[Callable], Callable]:
    def enter(factory: Callable) -> Callable:
        for registry in registries:
            for kind in kinds:
                registry.register(kind, factory)
        return factory

    return enter


@_for(_BOTH, constraints.real)
def _to_real(constraint: Any) -> Any:
    return transforms.identity_transform


@_for(_BOTH, constraints.positive, constraints.nonnegative)
def _to_positive(constraint: Any) -> Any:
    return transforms.ExpTransform()


@_for(_BOTH, constraints.greater_than, constraints.greater_than_eq)
def _to_greater_than(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


@_for(_BOTH, constraints.less_than)
def _to_less_than(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


@_for(_BOTH, constraints.interval, constraints.half_open_interval)
def _to_interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and low == 0 and isinstance(high, (int, float)) and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


@_for((biject_to,), constraints.simplex)
def _biject_to_simplex(constraint: Any) -> Any:
    return transforms.StickBreakingTransform()


@_for((transform_to,), constraints.simplex)
def _transform_to_simplex(constraint: Any) -> Any:
    return transforms.SoftmaxTransform()


@_for((transform_to,), constraints.lower_cholesky)
def _to_lower_cholesky(constraint: Any) -> Any:
    return transforms.LowerCholeskyTransform()


@_for((transform_to,), constraints.positive_definite, constraints.positive_semidefinite)
def _to_positive_definite(constraint: Any) -> Any:
    return transforms.PositiveDefiniteTransform()


@_for(_BOTH, constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


def _of_parts(registry: ConstraintRegistry) -> None:
    """Constraints that are made of others become transforms that are."""

    @registry.register(constraints.independent)
    def of_independent(constraint: Any) -> Any:
        return transforms.IndependentTransform(
            registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        )

    @registry.register(constraints.cat)
    def of_cat(constraint: Any) -> Any:
        return transforms.CatTransform(
            [registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths
        )

    @registry.register(constraints.stack)
    def of_stack(constraint: Any) -> Any:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


for _registry in _BOTH:
    _of_parts(_registry)
