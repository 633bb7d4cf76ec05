"""`_foreach_…`: functions of lists of tensors.  Each repeats one operation, member by member.

>>> import flambeau
>>> tensors = [flambeau.ones(2), flambeau.ones(3)]
>>> flambeau._foreach_add(tensors, [1.0, 2.0])
(tensor([2., 2.]), tensor([3., 3., 3.]))
>>> flambeau._foreach_mul_(tensors, tensors)[0] is tensors[0]
True

The first argument is a list of tensors.  Others are lists of as many tensors or numbers, or one number or tensor for
all.  `_foreach_f` returns a tuple of new tensors, `_foreach_f_` writes over the first list and returns it.  Raises
TypeError where the first argument is no list of tensors, RuntimeError for empty lists and lists of other lengths, and
what the operation raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .core.base.tensor import TensorBase
from .operations.declare.registry import published

_operations = published("")

# What is repeated, by how many arguments besides the first may be lists (the others are keywords, one for all).
_REPEATED = {
    0: """abs acos asin atan ceil clone cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 max neg
    reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""",
    1: "add sub mul div pow clamp_max clamp_min mm",
    2: "lerp",
    3: "addcdiv addcmul",
}
_ONLY_NEW = ("clone", "max", "mm")  # without a form in place
_NAMES: dict[int, list[tuple[str, ...]]] = {  # how PyTorch calls the arguments
    1: [("other", "scalar", "scalars", "exponent", "mat2", "src")],
    2: [("tensors1",), ("weight", "weights")],
    3: [("tensor1",), ("tensor2",), ("value", "scalars")],
}


def _columns(name: str, lists: list[Any]) -> list[list[Any]]:
    """Lists of one length: what is one for all is repeated."""
    tensors = lists[0]
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not {type(tensors).__name__}"
        )
    for i, x in enumerate(tensors):
        if not isinstance(x, TensorBase):
            raise TypeError(
                f"{name}(): expected Tensor as element {i} in argument 0, but got {type(x).__name__}"
            )
    if not tensors:
        raise RuntimeError(f"{name}(): Tensor list must have at least one tensor.")
    columns = []
    for given in lists:
        column = list(given) if isinstance(given, (list, tuple)) else [given] * len(tensors)
        if len(column) != len(tensors):
            raise RuntimeError(
                f"{name}(): Tensor lists must have the same number of tensors, got {len(tensors)} and {len(column)}"
            )
        columns.append(column)
    return columns


def _call(
    name: str, operation: Callable, count: int, tensors: Any, given: tuple, keywords: dict[str, Any]
) -> list[Any]:
    lists: list[Any] = [tensors, *given]
    for names in _NAMES.get(count, [])[len(given) :]:
        lists += [keywords.pop(n) for n in names if n in keywords]
    last = lists[3] if len(lists) > 3 else None
    if isinstance(last, TensorBase):  # the factors of addcdiv and addcmul in one tensor
        if last.dim() != 1 or len(last) != len(tensors):
            raise RuntimeError(
                f"{name}(): Expected a packed scalar Tensor of dimension 1 and length {len(tensors)}, got {tuple(last.shape)}"
            )
        lists[3] = last.tolist()
    if len(lists) > count + 1:
        raise TypeError(f"{name}() takes at most {count + 1} lists, got {len(lists)}")
    if count == 1 and len(lists) == 2 and isinstance(lists[1], TensorBase) and lists[1].dim():
        raise RuntimeError(
            f"{name}(): scalar tensor expected to be 0 dim but it has {lists[1].dim()} dimensions and "
            f"{lists[1].numel()} elements."
        )
    rows = zip(*_columns(name, lists))
    if count == 3:
        return [
            operation(*row[:3], **({"value": row[3]} if len(row) > 3 else {}), **keywords) for row in rows
        ]
    return [operation(*row, **keywords) for row in rows]


def _function(name: str, operation: Callable, count: int) -> Callable:
    public = f"_foreach_{name}"

    def function(self: Any, *given: Any, **keywords: Any) -> Any:
        if (
            name == "pow" and isinstance(self, (int, float, complex)) and len(given) == 1
        ):  # one base for all exponents
            return tuple(operation(self, exponent) for (exponent,) in zip(*_columns(public, list(given))))
        made = _call(public, operation, count, self, given, keywords)
        return self if public.endswith("_") else tuple(made)

    function.__name__ = function.__qualname__ = public
    function.__module__ = "flambeau"
    function.__doc__ = (
        f"`{name}` of each tensor of a list: a {'list' if name.endswith('_') else 'tuple'} of as many."
    )
    return function


def _in_place(name: str) -> Callable:
    return lambda x, *given, **keywords: getattr(x, name)(*given, **keywords)


def _bounded(of_tensors: str, of_numbers: str) -> Callable:
    """`maximum` and `minimum`, of which numbers are operands, too."""

    def operation(x: Any, bound: Any) -> Any:
        return _operations[of_tensors if isinstance(bound, TensorBase) else of_numbers](x, bound)

    return operation


def _bounded_in_place(of_tensors: str, of_numbers: str) -> Callable:
    operation = _bounded(of_tensors, of_numbers)
    return lambda x, bound: x.copy_(operation(x, bound))


def _norm(x: Any, ord: Any = 2, dtype: Any = None) -> Any:
    return published("linalg.")["vector_norm"](x, ord, dtype=dtype)


def _powsum(x: Any, ord: Any = 2, dtype: Any = None) -> Any:
    return (x.abs() ** ord).sum(dtype=dtype)


def functions() -> dict[str, Callable]:
    """All of them by their names."""
    made: dict[str, tuple[Callable, int]] = {}
    for count, names in _REPEATED.items():
        for name in names.split():
            made[name] = _operations[name], count
            if name not in _ONLY_NEW:
                made[f"{name}_"] = _in_place(f"{name}_"), count
    for name, of_numbers in (("maximum", "clamp_min"), ("minimum", "clamp_max")):
        made[name] = _bounded(name, of_numbers), 1
        made[f"{name}_"] = _bounded_in_place(name, of_numbers), 1
    made |= {"copy_": (_in_place("copy_"), 1), "zero_": (_in_place("zero_"), 0)}
    made |= {"norm": (_norm, 1), "powsum": (_powsum, 1)}
    return {f"_foreach_{name}": _function(name, *parts) for name, parts in made.items()}
