"""What NumPy and SciPy compute on the host, and what can be said of it without them.

`computed` is the one way to them.  Beside the function stands a rule: the shape and the dtype of each result, from those of
the operands.  The host's results are brought to it; tensors without data have nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...core.base.device import find_device
from ...core.base.dtypes import by_name, dtype
from ...core.base.tensor import TensorBase
from ...core.call.copies import to_dtype
from ...core.make.bridge import from_numpy
from ...core.make.create import empty


class Result(NamedTuple):
    """What is known of a result before it is computed; it is contiguous."""

    shape: Sequence[int]
    dtype: dtype


def computed(rule: Any, function: Callable, *operands: Any) -> Any:
    """The tensors that `function` makes of the operands' arrays (other operands are handed on), as `rule` says: a Result, or
    a list of them for as many results.  Not recorded.
    """
    rules = [rule] if isinstance(rule, Result) else rule
    if without_data(*operands):
        result = [empty(r.shape, dtype=r.dtype, device="meta") for r in rules]
    else:
        import numpy as np

        with np.errstate(all="ignore"):
            made = function(*map(array, operands))
        made = [made] if isinstance(rule, Result) else made
        result = [tensor(a, r) for a, r in zip(made, rules, strict=True)]
    return result[0] if isinstance(rule, Result) else tuple(result)


def without_data(*operands: Any) -> bool:
    """Whether a tensor among them has no data."""
    return any(isinstance(x, TensorBase) and x.is_meta for x in operands)


def array(x: Any) -> Any:
    """The elements of a tensor as a NumPy array, half types in the next wider dtype; anything else as it is."""
    if not isinstance(x, TensorBase):
        return x
    x = x.detach()
    if x.dtype.name == "complex32":
        return to_dtype(x, by_name["complex64"]).numpy()
    if x.dtype.name.startswith("float8") or x.dtype.name.startswith("float4"):
        raise NotImplementedError(f"numpy(): not implemented for '{x.dtype.name}'")
    return (to_dtype(x, by_name["float32"]) if x.dtype.name in ("float16", "bfloat16") else x).numpy()


def tensor(a: Any, rule: Result | None = None) -> TensorBase:
    """A contiguous tensor of an array's elements, in the rule's dtype."""
    import numpy as np

    result = from_numpy(np.array(a, order="C"))
    return result if rule is None or result.dtype == rule.dtype else to_dtype(result, rule.dtype)


def holds(condition: Any) -> bool:
    """Whether it is true everywhere, in all slices inside of `vmap`.  Tensors without data are taken at their word, and so are those in the
    capture of a graph, for which the host cannot wait.
    """
    if condition._is_wrapper:
        return condition._everywhere()
    return condition.is_meta or (condition.is_cuda and is_capturing(condition)) or bool(condition.all())


def is_capturing(t: Any) -> bool:
    """Whether the device of a tensor writes down its work instead of running it."""
    return find_device(t.device.type, t.device.index).capturing()


def needs_data(who: str, what: str, *operands: Any) -> None:
    """NotImplementedError where a tensor has no data, in an operation whose result's shape, or answer, depends on elements."""
    if without_data(*operands):
        raise NotImplementedError(
            f"{who}(): {what} depends on the elements, and a tensor on 'meta' has none: Cannot copy out of meta tensor; no data!"
        )
