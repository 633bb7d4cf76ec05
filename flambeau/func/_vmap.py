"""`vmap`: a function of slices as one of whole tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

__all__ = ["vmap"]

P = ParamSpec("P")
R = TypeVar("R")


def vmap(
    func: Callable[P, R],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[P, R]:
    """A function that applies `func`, written for one slice, to all slices of its arguments at once.

    Inside, tensors have the shape of one slice, and an operation on them is done for all slices by as few calls as its kind allows:
    one, where it works on elements, along dimensions or by places.  What has no rule runs slice by slice, with a warning that names
    it.  Mapped functions nest, with each other and with `func.grad`, `vjp`, `jvp`, `functional_call`.

    Args:
        func: a function of tensors, and of nested tuples, lists and dictionaries of tensors, that returns such.  Keyword arguments
            are the same for all slices.
        in_dims: which dimension of each argument counts slices, None for one that is the same for all: a number, or a tuple
            with the structure of the arguments.
        out_dims: where that dimension stands in each result; None for a result that is the same for all.
        randomness: what random operations do inside: "error", "different" numbers for each slice, or the "same" for all.
        chunk_size: how many slices to take at once, to bound memory; None for all.

    Raises:
        ValueError: no tensors to map over, sizes that differ, `in_dims` or `out_dims` that do not fit, results that are no tensors.
        RuntimeError: what would need one value (`item()`, `if x:`), a shape that depends on values, a write to a tensor that is the
            same for all slices, or a random operation under "error".

    >>> import flambeau
    >>> flambeau.vmap(flambeau.dot)(flambeau.ones(2, 3), flambeau.arange(6.).reshape(2, 3))
    tensor([ 3., 12.])
    >>> rows = flambeau.vmap(lambda x, y: x * y, in_dims=(0, None), out_dims=1)
    >>> rows(flambeau.tensor([1., 2.]), flambeau.tensor([1., 10., 100.])).shape
    flambeau.Size([3, 2])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        from ._mapping import run  # what few programs use

        return run(func, in_dims, out_dims, randomness, chunk_size, args, kwargs)

    return mapped
