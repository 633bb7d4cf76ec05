"""Forms that programs register for operations of their own (`library.custom_op`), as PyTorch's older exporter takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._writer import Value, Writer

__all__ = ["register_custom_op_symbolic", "unregister_custom_op_symbolic"]

_forms: dict[tuple[str, int], Callable[..., Any]] = {}


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Say how calls of the operation "namespace::name" are written in ONNX, from that opset on.

    Args:
        symbolic_name: the operation's name.
        symbolic_fn: called with a graph and the call's arguments; `g.op("Add", x, y, axis_i=1)` makes a node, and values are what
            stands for tensors.  An operator of another domain is written "domain::Name".
        opset_version: the first opset that it is for.

    Raises:
        ValueError: the name has another form

    >>> import flambeau as torch
    >>> @torch.library.custom_op("doc::twice", mutates_args=())
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> register_custom_op_symbolic("doc::twice", lambda g, x: g.op("Add", x, x), 18)
    >>> program = torch.onnx.export(lambda x: twice(x), (torch.ones(2),))
    >>> [node.op_type for node in program.model_proto.graph.node]
    ['Add']
    >>> unregister_custom_op_symbolic("doc::twice", 18)
    """
    if symbolic_name.count("::") != 1:
        raise ValueError(
            f"Failed to register operator {symbolic_name}. The symbolic name must match the format domain::name."
        )
    _forms[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget what `register_custom_op_symbolic` was given; KeyError where that is nothing.

    >>> unregister_custom_op_symbolic("mine::nothing", 11)
    Traceback (most recent call last):
        ...
    KeyError: ('mine::nothing', 11)
    """
    del _forms[symbolic_name, opset_version]


class Graph:
    """What registered functions write to: `op` as in PyTorch, its attributes named with their kind (`axis_i`, `alpha_f`, `mode_s`)."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def op(self, opname: str, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        """A node; one value, or a tuple of several."""
        attributes = {k[:-2] if k[-2:] in ("_i", "_f", "_s", "_t") else k: v for k, v in kwargs.items()}
        return self._writer.op(opname, *raw_args, outputs=outputs, **attributes)


def registered(operation: Any, opset: int) -> Callable[..., Any] | None:
    """The form that was registered for an operation of a program, as declared forms are; None where there is none."""
    name = getattr(operation, "_qualname", None)
    versions = [version for other, version in _forms if other == name and version <= opset]
    if not versions:
        return None
    function = _forms[name, max(versions)]  # type: ignore[index]

    def form(g: Writer, *args: Any, **kwargs: Any) -> list[Value]:
        returned = function(Graph(g), *args, **kwargs)
        made = [returned] if isinstance(returned, Value) else list(returned)
        for value, result in zip(made, g.results, strict=True):
            value.dtype = g.dtypes[value.name] = result.dtype
        return made

    return form
