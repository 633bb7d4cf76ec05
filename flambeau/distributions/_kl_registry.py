"""Which function computes the divergence of which pair of distributions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .._tensor import Tensor

_KL_REGISTRY: dict[tuple[type, type], Callable] = {}  # what was registered
_KL_MEMOIZE: dict[
    tuple[type, type], Callable | None
] = {}  # what was found for pairs of classes, None: nothing


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """Decorate the function of (p, q) that computes KL(p ‖ q) for instances of these classes and of their subclasses.

    The most specific pair wins; where the first and the second argument disagree which it is, the first does, with a
    RuntimeWarning.  Classes need not be of distributions, as in PyTorch; TypeError for what is no class.

    >>> import flambeau
    >>> from flambeau.distributions import Normal, kl_divergence, register_kl
    >>> class Centred(Normal):
    ...     def __init__(self, scale):
    ...         super().__init__(0.0, scale)
    >>> @register_kl(Centred, Centred)
    ... def kl_centred_centred(p, q):
    ...     ratio = p.scale / q.scale
    ...     return (ratio.square() - 1) / 2 - ratio.log()
    >>> kl_divergence(Centred(1.0), Centred(1.0))
    tensor(0.)
    """
    for name, given in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(given, type):
            raise TypeError(f"Expected {name} to be a class but got {given}")

    def decorator(fun: Callable) -> Callable:
        _KL_REGISTRY[type_p, type_q] = fun
        _KL_MEMOIZE.clear()
        return fun

    return decorator


def _before(a: tuple[type, ...], b: tuple[type, ...]) -> bool:
    """Whether a is more specific than b, by the first place where they differ."""
    for x, y in zip(a, b):
        if x is not y:
            return issubclass(x, y)
    return False


def _most_specific(matches: list[tuple[type, ...]]) -> tuple[type, ...]:
    best = matches[0]
    for match in matches[1:]:
        if _before(match, best):
            best = match
    return best


def _dispatch_kl(type_p: type, type_q: type) -> Callable | None:
    """The function of the most specific registered pair, for classes with single inheritance."""
    matches: list[tuple[type, ...]] = [
        (p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)
    ]
    if not matches:
        return None
    left_p, left_q = _most_specific(matches)
    right_q, right_p = _most_specific([(q, p) for p, q in matches])
    result = _KL_REGISTRY[left_p, left_q]
    if result is not _KL_REGISTRY[right_p, right_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__})."
            f" Please register_kl({left_p.__name__}, {right_q.__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return result


def kl_divergence(p: Any, q: Any) -> Tensor:
    """The Kullback-Leibler divergence KL(p ‖ q) = ∫ p(x) log(p(x) / q(x)) dx in nats, of the shape of the broadcast batches.

    NotImplementedError for pairs of classes that were not registered (`register_kl`).

    >>> from flambeau.distributions import Exponential, kl_divergence
    >>> kl_divergence(Exponential(1.0), Exponential(2.0))
    tensor(0.3069)
    """
    pair = type(p), type(q)
    try:
        result = _KL_MEMOIZE[pair]
    except KeyError:
        result = _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    if result is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}"
        )
    return result(p, q)


for _function in (register_kl, kl_divergence):
    _function.__module__ = __name__.replace("_kl_registry", "kl")
