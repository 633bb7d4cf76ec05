"""Tensors of a recorded program: what is known of each, what stands for it in other worlds, and structures that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .._symbols.expressions import Expr
from .._symbols.numbers import SymNumber
from ..autograd.grad_mode import no_grad
from ..core.base.dtypes import device as Device
from ..core.base.tensor import TensorBase
from ..core.call.operation import behind
from ..core.make.random import Generator
from ..fx.node import Node
from ..operations.declare.registry import REGISTRY
from ._values import TensorValue

META = Device("meta")


class Traced(NamedTuple):
    """A tensor of the program: its node, what is known of it, and what stands for it in the other worlds."""

    node: Node
    value: TensorValue
    shadows: tuple[Any, ...]


class Lifted(NamedTuple):
    """A tensor that is no input: where the program finds it."""

    kind: str  # "parameter", "buffer", "constant"
    name: str
    tensor: Any
    node: Node


# --- tensors without data ------------------------------
def shadow_of(t: Any) -> Any:
    with no_grad():
        return t.detach().to(META)


def value_of(t: Any, shape: tuple[Any, ...], strides: tuple[Any, ...] | None) -> TensorValue:
    return TensorValue(shape, t.dtype, strides, t.device, bool(t.requires_grad), t.layout, t.storage_offset())


def like(value: TensorValue, t: Any, assigned: Mapping[str, int]) -> Any:
    """A tensor without data for given sizes, its dimensions in memory in the order of the example's."""
    shape = [n.value(assigned) if isinstance(n, Expr) else n for n in value.shape]
    empty = REGISTRY["empty"].function
    if len(shape) < 2:
        return empty(shape, dtype=t.dtype, device=META)
    order = sorted(range(len(shape)), key=lambda d: (-TensorBase.stride(t)[d], d))
    made = empty([shape[d] for d in order], dtype=t.dtype, device=META)
    return made.permute(*[order.index(d) for d in range(len(shape))])


def filled(shadow: Any, w: int) -> Any:
    """A tensor with small whole numbers as elements, the same at each call.

    None of them is 0 in the second world and all but one are in the third, so that how many are, or how large the largest is, is not what
    the example has by chance in all worlds.
    """
    if w == 2:
        made = REGISTRY["full"].function(tuple(shadow.shape), w)
    elif w == 3:
        made = REGISTRY["zeros"].function(tuple(shadow.shape), dtype="int64")
        if made.numel() > 1:
            made.view(-1)[0] = 1
    else:
        made = REGISTRY["randint"].function(
            0, w + 1, tuple(shadow.shape), generator=Generator().manual_seed(w)
        )
    return made.to(shadow.dtype)


def strides_of(t: Any, shadows: Sequence[Any], sizes: Sequence[Any]) -> tuple[Any, ...] | None:
    """The strides, as products of sizes where memory is dense in some order of the dimensions; those of the example otherwise."""
    order = sorted(range(len(sizes)), key=lambda d: (TensorBase.stride(t)[d], -d))
    result: list[Any] = [0] * len(sizes)
    step: Any = 1
    for d in order:
        result[d] = step
        step = step * sizes[d] if not isinstance(sizes[d], Expr) else sizes[d] * step
    worlds = [t, *shadows]
    for world in worlds:
        dense = 1
        for d in order:
            if world.shape[d] > 1 and TensorBase.stride(world)[d] != dense:
                return tuple(TensorBase.stride(t))
            dense *= int(world.shape[d])
    return tuple(result)


def without_data(run: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result on tensors without data: devices among the arguments are "meta", and what is made is made there."""

    def one(x: Any) -> Any:
        return META if isinstance(x, Device) else x

    args, kwargs = mapped(args, one), mapped(kwargs, one)
    if isinstance(kwargs.get("device"), (str, int)):
        kwargs["device"] = META
    op = behind(run)
    entry = getattr(op, "entry", None)
    makes = (
        entry is not None
        and entry.kind in ("creation", "random")
        or getattr(run, "_opname", "") in ("full", "scalar_tensor")
    )
    if makes and not list(tensors_of((args, kwargs))):
        kwargs["device"] = META
    result = run(*args, **kwargs)
    return mapped(result, lambda x: x if not isinstance(x, TensorBase) or x.is_meta else shadow_of(x))


def alike(a: Any, b: Any) -> bool:
    """Whether two results have the same structure, and tensors of the same rank and dtype."""
    if isinstance(b, TensorBase):
        return isinstance(a, TensorBase) and a.dim() == b.dim() and a.dtype == b.dtype
    if isinstance(b, (tuple, list)):
        return isinstance(a, (tuple, list)) and len(a) == len(b) and all(map(alike, a, b))
    return True


# --- structures ------------------------------
def mapped(x: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(x, dict):
        return {k: mapped(v, function) for k, v in x.items()}
    if isinstance(x, slice):
        return slice(*(mapped(v, function) for v in (x.start, x.stop, x.step)))
    if isinstance(x, (list, tuple)):
        items = [mapped(v, function) for v in x]
        if type(x) is list:
            return items
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    return function(x)


def example_of(x: Any) -> Any:
    """A structure with numbers of the example in place of what stands for them."""
    return mapped(x, lambda v: v.value if isinstance(v, SymNumber) else v)


def leaves_of(x: Any) -> Iterator[Any]:
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, slice):
        x = [x.start, x.stop, x.step]
    if isinstance(x, (list, tuple)):
        for v in x:
            yield from leaves_of(v)
    else:
        yield x


def tensors_of(x: Any) -> Iterator[Any]:
    return (v for v in leaves_of(x) if isinstance(v, TensorBase))


def results_count(result: Any) -> int:
    if result is None:
        return 0
    return len(result) if isinstance(result, (tuple, list)) else 1


def storages_of(result: Any, storages: set[int]) -> None:
    """The serial numbers of the storages of what a call gave."""
    if hasattr(result, "storage"):
        storages.add(result.storage)
    elif isinstance(result, (list, tuple)):
        for each in result:
            storages_of(each, storages)
