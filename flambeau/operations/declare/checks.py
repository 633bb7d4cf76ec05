"""Checks of arguments that many operations make: each raises before anything is computed, naming the operation, the argument,
what was expected and what was given.

None stands for an argument that was not given and passes every check.
"""

from __future__ import annotations

from collections.abc import Collection

from ...core.base.tensor import TensorBase

FLOATS: frozenset[str] = frozenset(("float16", "bfloat16", "float32", "float64"))
COMPLEXES = frozenset(("complex64", "complex128"))
INTEGERS = frozenset(("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"))


def dtypes(
    who: str,
    allowed: Collection[str],
    error: type[Exception] = NotImplementedError,
    **tensors: TensorBase | None,
) -> None:
    """Each tensor is of one of the dtypes of those names."""
    for argument, x in tensors.items():
        if x is not None and x.dtype.name not in allowed:
            raise error(
                f"{who}(): \"{who}\" not implemented for '{x.dtype.name}': expected argument '{argument}' to be one of "
                f"{sorted(allowed)}, got {x.dtype}"
            )


def floating(who: str, **tensors: TensorBase | None) -> None:
    """Each tensor holds floating-point numbers: NotImplementedError otherwise, as PyTorch's kernels have it."""
    dtypes(who, FLOATS, NotImplementedError, **tensors)


def not_bool(who: str, **tensors: TensorBase | None) -> None:
    """No tensor is of truth values: RuntimeError otherwise."""
    for argument, x in tensors.items():
        if x is not None and x.dtype.name == "bool":
            raise RuntimeError(f"{who}(): argument '{argument}' must not be a bool tensor, got {x.dtype}")


def same_dtype(who: str, **tensors: TensorBase | None) -> None:
    """All tensors are of the first one's dtype: RuntimeError otherwise."""
    first = None
    for argument, x in tensors.items():
        if x is None:
            continue
        if first is None:
            first, like = argument, x
        elif x.dtype != like.dtype:
            raise RuntimeError(
                f"{who}(): expected '{argument}' to have the dtype of '{first}', {like.dtype}, but got {x.dtype}"
            )


def rank(
    who: str, argument: str, x: TensorBase | None, *ranks: int, error: type[Exception] = RuntimeError
) -> None:
    """The tensor has one of those numbers of dimensions."""
    if x is not None and x.ndim not in ranks:
        wanted = " or ".join(f"{n}D" for n in ranks)
        raise error(f"{who}(): expected '{argument}' to be {wanted}, got {x.ndim}D of shape {list(x.shape)}")


def rank_at_least(
    who: str, argument: str, x: TensorBase, least: int, error: type[Exception] = RuntimeError
) -> None:
    """The tensor has at least that many dimensions."""
    if x.ndim < least:
        raise error(
            f"{who}(): expected '{argument}' to have at least {least} dimensions, got {x.ndim}: shape {list(x.shape)}"
        )


def probability(who: str, argument: str, p: float, error: type[Exception] = ValueError) -> None:
    """0 ≤ p ≤ 1, which NaN is not."""
    if not 0.0 <= p <= 1.0:
        raise error(f"{who}(): {argument} has to be a probability between 0 and 1, but got {p}")
