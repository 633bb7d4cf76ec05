"""The first form of `vmap`, which libraries import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .func import vmap


def _vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False
) -> Callable:
    """`vmap`; where `allow_none_pass_through`, results that are None stay so.

    >>> import flambeau
    >>> from flambeau._vmap_internals import _vmap
    >>> _vmap(lambda x: (x.sum(), None), allow_none_pass_through=True)(flambeau.ones(2, 3))
    (tensor([3., 3.]), None)
    """
    if not allow_none_pass_through:
        return vmap(func, in_dims, out_dims)

    def mapped(*args: Any) -> Any:
        shape: list[Any] = []

        def without_none(*inner: Any) -> tuple:
            result = func(*inner)
            shape[:] = [result] if not isinstance(result, tuple) else result
            return tuple(x for x in shape if x is not None)

        results = iter(vmap(without_none, in_dims, out_dims)(*args))
        whole = tuple(None if x is None else next(results) for x in shape)
        return whole if len(whole) != 1 else whole[0]

    return mapped
