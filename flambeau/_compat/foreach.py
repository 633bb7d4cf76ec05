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

import functools
from collections.abc import Callable
from typing import Any

from ..core.base.tensor import TensorBase
from ..operations.declare.registry import published

_operations = published("")

__all__ = """_foreach_abs _foreach_abs_ _foreach_acos _foreach_acos_ _foreach_add _foreach_add_ _foreach_addcdiv _foreach_addcdiv_
_foreach_addcmul _foreach_addcmul_ _foreach_asin _foreach_asin_ _foreach_atan _foreach_atan_ _foreach_ceil _foreach_ceil_
_foreach_clamp_max _foreach_clamp_max_ _foreach_clamp_min _foreach_clamp_min_ _foreach_clone _foreach_copy_ _foreach_cos
_foreach_cos_ _foreach_cosh _foreach_cosh_ _foreach_div _foreach_div_ _foreach_erf _foreach_erf_ _foreach_erfc _foreach_erfc_
_foreach_exp _foreach_exp_ _foreach_expm1 _foreach_expm1_ _foreach_floor _foreach_floor_ _foreach_frac _foreach_frac_
_foreach_lerp _foreach_lerp_ _foreach_lgamma _foreach_lgamma_ _foreach_log _foreach_log10 _foreach_log10_ _foreach_log1p
_foreach_log1p_ _foreach_log2 _foreach_log2_ _foreach_log_ _foreach_max _foreach_maximum _foreach_maximum_ _foreach_minimum
_foreach_minimum_ _foreach_mm _foreach_mul _foreach_mul_ _foreach_neg _foreach_neg_ _foreach_norm _foreach_pow _foreach_pow_
_foreach_powsum _foreach_reciprocal _foreach_reciprocal_ _foreach_round _foreach_round_ _foreach_rsqrt _foreach_rsqrt_
_foreach_sigmoid _foreach_sigmoid_ _foreach_sign _foreach_sign_ _foreach_sin _foreach_sin_ _foreach_sinh _foreach_sinh_
_foreach_sqrt _foreach_sqrt_ _foreach_sub _foreach_sub_ _foreach_tan _foreach_tan_ _foreach_tanh _foreach_tanh_ _foreach_trunc
_foreach_trunc_ _foreach_zero_""".split()

# How PyTorch calls the arguments that may be lists, by how many there are; the others are keywords, one for all.
_NAMES: dict[int, list[tuple[str, ...]]] = {
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


def _function(name: str, operation: Callable, lists: int | Callable[[], int]) -> Callable:
    """The function of a public name; `lists`, or what it says at the first call, is how many arguments more may be lists."""
    public, count = f"_foreach_{name}", functools.cache(lambda: lists if isinstance(lists, int) else lists())

    def function(self: Any, *given: Any, **keywords: Any) -> Any:
        if (
            name == "pow" and isinstance(self, (int, float, complex)) and len(given) == 1
        ):  # one base for all exponents
            return tuple(operation(self, exponent) for (exponent,) in zip(*_columns(public, list(given))))
        made = _call(public, operation, count(), self, given, keywords)
        return self if public.endswith("_") else tuple(made)

    function.__name__ = function.__qualname__ = public
    function.__module__ = "flambeau"
    function.__doc__ = (
        f"`{name}` of each tensor of a list: a {'list' if name.endswith('_') else 'tuple'} of as many."
    )
    return function


def _in_place(name: str) -> Callable:
    return lambda x, *given, **keywords: getattr(x, name)(*given, **keywords)


def _bounded(of_tensors: Callable, of_numbers: Callable) -> Callable:
    """`maximum` and `minimum`, of which numbers are operands, too."""
    return lambda x, bound: (of_tensors if isinstance(bound, TensorBase) else of_numbers)(x, bound)


def _written(operation: Callable) -> Callable:
    return lambda x, *given: x.copy_(operation(x, *given))


def _norm(x: Any, ord: Any = 2, dtype: Any = None) -> Any:
    return published("linalg.")["vector_norm"](x, ord, dtype=dtype)


def _powsum(x: Any, ord: Any = 2, dtype: Any = None) -> Any:
    return (x.abs() ** ord).sum(dtype=dtype)


def _lists(operation: Callable) -> int:
    """How many arguments besides the first may be lists: those that an operation needs, and a `value`."""
    import inspect  # which costs as much as a part of this package

    parameters = inspect.signature(operation).parameters
    return sum(p.default is p.empty for p in parameters.values()) - 1 + ("value" in parameters)


def functions() -> dict[str, Callable]:
    """All of them by their names."""
    clamp_max, clamp_min = _operations["clamp_max"], _operations["clamp_min"]
    own: dict[str, tuple[Callable, int]] = {
        "norm": (_norm, 1),
        "powsum": (_powsum, 1),
        "copy_": (_in_place("copy_"), 1),
        "zero_": (_in_place("zero_"), 0),
    }
    for name, of_numbers in (("maximum", clamp_min), ("minimum", clamp_max)):
        bounded = _bounded(_operations[name], of_numbers)
        own[name], own[f"{name}_"] = (bounded, 1), (_written(bounded), 1)
    made = {}
    for public in __all__:
        name = public.removeprefix("_foreach_")
        if name in own:
            made[public] = _function(name, *own[name])
        else:
            repeated = _in_place(name) if name.endswith("_") else _operations[name]
            made[public] = _function(name, repeated, functools.partial(_lists, _operations[name.rstrip("_")]))
    return made


globals().update(functions())
