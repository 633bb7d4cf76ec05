"""Indexing while a program is traced: `x[i, 1:, None]` as the selections, cuts and look-ups that TorchScript has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._symbols.numbers import SymInt
from ..core.base.tensor import TensorBase
from ..library._calls import CODES
from ._text import constant_text

if TYPE_CHECKING:
    from ._trace import Tracer


def _steps(tracer: Tracer, x: Any, index: Any) -> tuple[str, list[Any], int] | None:
    """The tensor that the plain parts of an index choose, the tensors that index it, None for a dimension without one, and its rank."""
    items = list(index) if isinstance(index, tuple) else [index]
    text, dim, looked, rank = tracer.reference(x), 0, list[Any](), x.dim()
    used = sum(_consumed(i) for i in items)
    if used > rank or sum(i is ... for i in items) > 1:
        return None

    def step(expression: str) -> str:
        name = tracer.fresh()
        tracer.add(f"{name} = {expression}", (name,), pure=True)
        tracer.uses.add(name)
        return name

    for item in items:
        if type(item) is int or isinstance(item, SymInt):
            text, rank = step(f"torch.select({text}, {dim}, {tracer._note(item)})"), rank - 1
        elif item is None:
            text, rank, dim = step(f"torch.unsqueeze({text}, {dim})"), rank + 1, dim + 1
            looked.append(None)
        elif item is ...:
            looked += [None] * (x.dim() - used)
            dim += x.dim() - used
        elif isinstance(item, slice):
            bounds = (item.start, item.stop, 1 if item.step is None else item.step)
            if any(not (b is None or type(b) is int or isinstance(b, SymInt)) for b in bounds):
                return None
            if item != slice(None):
                text = step(f"torch.slice({text}, {dim}, {', '.join(tracer._note(b) for b in bounds)})")
            looked.append(None)
            dim += 1
        elif isinstance(item, TensorBase) and item.dtype.name in ("int64", "int32", "bool"):
            if item.dtype.name == "bool" and item.dim() == 0:
                return None
            looked.append(item)
            dim += _consumed(item)
        else:
            return None
    return text, looked, rank


def _consumed(item: Any) -> int:
    """How many dimensions an item of an index stands for."""
    if item is None or item is ...:
        return 0
    return item.dim() if isinstance(item, TensorBase) and item.dtype.name == "bool" else 1


def _listed(tracer: Tracer, looked: list[Any]) -> str:
    while looked and looked[-1] is None:
        looked.pop()
    items = ", ".join("None" if t is None else tracer.reference(t) for t in looked)
    return f"annotate(List[Optional[Tensor]], [{items}])"


def read(tracer: Tracer, x: Any, index: Any) -> str | None:
    """`x[index]` as code; None for an index of other kinds."""
    result = _steps(tracer, x, index)
    if result is None:
        return None
    text, looked, _ = result
    if any(t is not None for t in looked):
        indices = _listed(tracer, looked)
        tracer.uses.add(text)
        return f"torch.index({text}, {indices})"
    tracer.uses.add(text)
    return f"torch.alias({text})"


def write(tracer: Tracer, x: Any, index: Any, value: Any) -> str | None:
    """`x[index] = value` as code; None for an index or a value of other kinds."""
    result = _steps(tracer, x, index)
    if result is None:
        return None
    text, looked, rank = result
    if isinstance(value, TensorBase):
        put = tracer.reference(value)
    else:
        put = constant_text(value) or ""
        if not put or isinstance(value, str) or value is None:
            return None
        if isinstance(value, SymInt):
            tracer._note(value)
    if any(t is not None for t in looked):
        code = CODES[x.dtype]
        if not isinstance(value, TensorBase):
            put = f"torch.full([], {put}, dtype={code})"
        elif value.dtype != x.dtype:
            put = f"torch.to({put}, {code})"
        indices = _listed(tracer, looked)
        tracer.uses.add(text)
        return f"torch.index_put_({text}, {indices}, {put})"
    tracer.uses.add(text)
    if not isinstance(value, TensorBase):
        return f"torch.fill_({text}, {put})"
    if value.dim() > rank:  # dimensions of one element in front, which a copy does not take
        put = f"torch.squeeze({put}, {list(range(value.dim() - rank))})"
    return f"torch.copy_({text}, {put})"
