"""How divergences of pairs are declared: by a body whose arguments name what it reads of both distributions."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from ..core.make.create import full
from ..operations.moving.shaping import broadcast_shapes
from ._fused import fused
from ._kl_registry import register_kl


def pair(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """Register a body of traced values, one kernel, whose arguments are `p_name` and `q_name` for attributes of p and q."""

    def enter(body: Callable[..., Any]) -> Callable:
        operation = fused(body)
        read = [(name[0] == "p", name[2:]) for name in inspect.signature(body).parameters]

        def kl(p: Any, q: Any) -> Any:
            return operation(*[getattr(p if of_p else q, name) for of_p, name in read])

        kl.__name__ = kl.__qualname__ = f"kl_{type_p.__name__}_{type_q.__name__}".lower()
        kl.__doc__ = body.__doc__
        return register_kl(type_p, type_q)(kl)

    return enter


def infinite(type_p: type, *types_q: type) -> None:
    """Register pairs where p has values that q never has."""

    def kl(p: Any, q: Any) -> Any:
        like = p.mean
        shape = broadcast_shapes(p.batch_shape, q.batch_shape)
        return full(shape, math.inf, dtype=like.dtype, device=like.device)

    for type_q in types_q:
        register_kl(type_p, type_q)(kl)
