"""Functions of tables of tensors, which modules of one's own are written with.

A table is a tensor, or a list of tables.
"""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ...core.make.create import empty
from ._recording import form

__all__ = [
    "addSingletondimension",
    "clear",
    "contiguousView",
    "recursiveAdd",
    "recursiveCopy",
    "recursiveFill",
    "recursiveResizeAs",
    "recursiveType",
]


def recursiveType(param: Any, type: Any, tensorCache: dict | None = None) -> Any:
    """`param` (a tensor, a list, a module, a criterion; anything else stays) with its floating-point tensors in the type
    `type`: a dtype, or a name such as 'torch.DoubleTensor'. Tensors that share memory share it afterwards; those converted
    with one `tensorCache` share it with each other. Lists and modules are changed in place.

    Raises:
        AttributeError: the first argument is neither a tensor, a module nor a list of them

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> a = flambeau.zeros(2)
    >>> b, c = nn.utils.recursiveType([a, a[1:]], "torch.DoubleTensor")
    >>> c.fill_(1).dtype, b
    (flambeau.float64, tensor([0., 1.], dtype=flambeau.float64))
    """
    cache = {} if tensorCache is None else tensorCache
    if isinstance(param, list):
        param[:] = [recursiveType(x, type, cache) for x in param]
    elif isinstance(param, dict):
        param.update({k: recursiveType(x, type, cache) for k, x in param.items()})
    elif isinstance(param, Tensor):
        return _converted(param, type, cache)
    elif callable(getattr(param, "type", None)) and hasattr(param, "updateOutput"):
        param.type(type, cache)
    return param


def _converted(x: Tensor, to: Any, cache: dict) -> Tensor:
    model = empty(0).type(to)
    kind = model.dtype if x.is_floating_point() else x.dtype
    if (kind, model.device) == (x.dtype, x.device):
        return x
    storage = x.untyped_storage()
    key = (storage.data_ptr(), storage.nbytes(), x.dtype, kind, model.device)
    if key not in cache:
        original = empty(0, dtype=x.dtype, device=x.device)
        original.set_(storage, 0, (storage.nbytes() // x.dtype.itemsize,), (1,))
        cache[key] = original.to(model.device, kind), original  # the old one stays, and with it its address
    there = cache[key][0].untyped_storage()
    return empty(0, dtype=kind, device=model.device).set_(there, x.storage_offset(), x.shape, x.stride())


def recursiveResizeAs(t1: Any, t2: Any) -> tuple[Any, Any]:
    """`t1` (a table or None) with the form and sizes of the table `t2`, its tensors resized in place; and `t2`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.utils.recursiveResizeAs([flambeau.zeros(3)], [flambeau.ones(2), flambeau.ones(1, 1)])[0][1].shape
    flambeau.Size([1, 1])
    """
    if isinstance(t2, list):
        mine = t1 if isinstance(t1, list) else [t1]
        mine = mine[: len(t2)] + [None] * (len(t2) - len(mine))
        return [recursiveResizeAs(a, b)[0] for a, b in zip(mine, t2)], t2
    _expect(t2)
    made = t1 if isinstance(t1, Tensor) else t2.new_empty(0)
    return made.resize_(t2.shape), t2


def recursiveFill(t2: Any, val: float) -> Any:
    """The table, each of its tensors filled with a number.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.utils.recursiveFill([flambeau.zeros(2)], 3)
    [tensor([3., 3.])]
    """
    if isinstance(t2, list):
        return [recursiveFill(x, val) for x in t2]
    return _expect(t2).fill_(val)


def recursiveAdd(t1: Any, val: Any = 1, t2: Any = None) -> tuple[Any, Any]:
    """`t1 + val * t2` in place, for tables of one form: `recursiveAdd(t1, t2)` or `recursiveAdd(t1, val, t2)`; and `t2`.

    Raises:
        RuntimeError: the tensors are of shapes that do not fit

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.utils.recursiveAdd([flambeau.ones(2)], 2, [flambeau.ones(2)])[0]
    [tensor([3., 3.])]
    """
    if t2 is None:
        val, t2 = 1, val
    if isinstance(t2, list):
        mine = t1 if isinstance(t1, list) else [t1]
        for a, b in zip(mine, t2, strict=True):
            recursiveAdd(a, val, b)
        return mine, t2
    return _expect(t1).add_(_expect(t2), alpha=val), t2


def recursiveCopy(t1: Any, t2: Any) -> tuple[Any, Any]:
    """`t1` (a table or None) with the elements of the table `t2`, copied into its own tensors; and `t2`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.utils.recursiveCopy(None, [flambeau.ones(2)])[0]
    [tensor([1., 1.])]
    """
    made, _ = recursiveResizeAs(t1, t2)
    recursiveFill(made, 0)
    return recursiveAdd(made, t2)


def addSingletondimension(*args: Any) -> Tensor:
    """`(tensor, dim)`: a view with a dimension of size 1 more; `(view, tensor, dim)`: the same, put into `view`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.utils.addSingletondimension(flambeau.ones(2, 3), 1).shape
    flambeau.Size([2, 1, 3])
    """
    if len(args) < 3:
        return args[0].unsqueeze(args[1])
    return args[0].set_(args[1].unsqueeze(args[2]))


def contiguousView(output: Tensor | None, input: Tensor, *args: int) -> Tensor:
    """`output` (None: a new tensor) as a view of `input` with the sizes `args`, of a copy where it is not contiguous.

    Shape:
        output: `args`

    Raises:
        RuntimeError: the sizes do not multiply to the number of elements

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.utils.contiguousView(None, flambeau.ones(2, 3).T, -1).shape
    flambeau.Size([6])
    """
    made = input.new_empty(0) if output is None else output
    view: Any = input.contiguous().view(*args)
    return made.set_(view)


def clear(self: Any, *args: Any) -> Any:
    """The object, of whose attributes those named are emptied: tensors and lists in place, all else becomes None.

    Raises nothing.

    >>> from flambeau.legacy import nn
    >>> nn.utils.clear(nn.Linear(2, 3), "output").output
    tensor([])
    """
    names = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    for name in names:
        value = getattr(self, name, None)
        if isinstance(value, Tensor):
            setattr(self, name, value.new_empty(0))
        elif isinstance(value, list):
            setattr(self, name, [])
        elif value is not None:
            setattr(self, name, None)
    return self


def _expect(x: Any) -> Tensor:
    if not isinstance(x, Tensor):
        raise RuntimeError(f"expecting tensors, or lists of them, of one form; got {form(x)}")
    return x
