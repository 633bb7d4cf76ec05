"""`swap_tensors`: two tensors become each other.  `Tensor.module_load`: what a module swaps in when it loads."""

from __future__ import annotations

import copyreg
import weakref
from typing import Any

from .._tensor import Tensor
from ..core.base.formats import strided
from ..core.tape.nodes import swap
from ..overrides import handle_torch_function, has_torch_function_variadic

__all__ = ["swap_tensors"]

_ABSENT = object()


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange two tensors in place: elements, shape, dtype, device, history, `.grad`, hooks, attributes and class.

    Every variable, module and optimiser that holds one of them then sees what the other was.  A graph that was recorded before
    and needs one of them raises RuntimeError in backward, and a view of one of them refuses writes that are recorded.

    Raises:
        TypeError: one of them is not a Tensor, or their classes cannot be exchanged.
        RuntimeError: weak references to one of them exist, or their classes have different `__slots__`; one of them is a masked,
            nested or sparse tensor.

    >>> import flambeau
    >>> from flambeau.utils import swap_tensors
    >>> a, b = flambeau.zeros(2), flambeau.arange(3)
    >>> swap_tensors(a, b)
    >>> a, b
    (tensor([0, 1, 2]), tensor([0., 0.]))
    """
    if t1 is t2:
        return
    for name, t in (("t1", t1), ("t2", t2)):
        if not isinstance(t, Tensor):
            raise TypeError(f"swap_tensors(): argument '{name}' must be Tensor, not {type(t).__name__}")
        if t._is_wrapper or t.layout is not strided:
            raise RuntimeError(
                f"swap_tensors(): {name} is a {type(t).__name__}; masked, nested and sparse tensors are not swapped"
            )
        if weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = set(copyreg._slotnames(type(t1)))
    if slots != set(copyreg._slotnames(type(t2))):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    values = [{name: getattr(t, name, _ABSENT) for name in slots} for t in (t1, t2)]
    attributes = [dict(vars(t)) for t in (t1, t2)]
    t1.__class__, t2.__class__ = type(t2), type(t1)  # before the rest: TypeError where their layouts differ
    swap(t1, t2)
    for t, own, slotted in ((t1, attributes[1], values[1]), (t2, attributes[0], values[0])):
        vars(t).clear()
        vars(t).update(own)
        for name, value in slotted.items():
            _set_slot(t, name, value)


def _set_slot(t: Tensor, name: str, value: Any) -> None:
    if value is not _ABSENT:
        setattr(t, name, value)
    elif hasattr(t, name):
        delattr(t, name)


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """The tensor that `load_state_dict` swaps in for this parameter or buffer, under `__future__.set_swap_module_params_on_conversion`.

    A new tensor over `other`'s elements with `assign`; else over this one's, with `other` copied into them.  A class of tensors
    answers otherwise by `__torch_function__`.  RuntimeError where the shapes do not fit.

    >>> import flambeau
    >>> flambeau.zeros(2).module_load(flambeau.ones(2))
    tensor([1., 1.])
    """
    if has_torch_function_variadic(self, other):
        return handle_torch_function(module_load, (self, other), self, other, assign=assign)
    return other.detach() if assign else self.copy_(other).detach()


Tensor.module_load = module_load  # type: ignore[method-assign]
