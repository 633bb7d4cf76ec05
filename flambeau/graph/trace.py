"""From a recording to a graph of fx: leaves in the order of the program, tensors by where they lie."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

from ..core.base.tensor import TensorBase
from ..core.call.operation import Op
from ..fx import Graph, GraphModule, Node
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.node import base_types, map_aggregate
from ..nn import Module
from ..operations.declare.registry import REGISTRY
from .measured import Measured, compute_number, read_number
from .record import Place, Recording, place


def record(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[GraphModule, Any]:
    """The leaves that `function(*args, **kwargs)` calls, as a graph of its tensor arguments, and what it returned.

    The graph returns what the function returns; numbers that it read from tensors are constants.  Leaves of backward passes and of
    optimisers are part of it, and so are writes, also to tensors that are no arguments.  Arguments may share memory: the graph is then one
    of arguments that share it in the same way.

    >>> import flambeau as torch
    >>> from flambeau.graph.trace import record
    >>> graph, _ = record(lambda x: (x + 1).exp(), torch.zeros(2))
    >>> [node.name for node in graph.graph.nodes]
    ['arg_0', 'add', 'exp', 'output']
    >>> graph(torch.ones(2))
    tensor([7.3891, 7.3891])
    """
    inputs: list[TensorBase] = []
    mapped((args, kwargs), TensorBase, inputs.append)
    with Recording() as recording:
        result = function(*args, **kwargs)
    return graph_of(recording, inputs, result), result


_PLAIN = frozenset([int, float, bool, str, type(None)])
_NAMED = (Node, *base_types, slice, range, bytes, type, FunctionType, BuiltinFunctionType, Op)


def mapped(x: Any, kind: type | tuple[type, ...], change: Callable[[Any], Any]) -> Any:
    """`x` with everything of that class, or of those, in it changed."""
    if isinstance(x, kind):
        return change(x)
    if type(x) in _PLAIN:
        return x
    if isinstance(x, (list, tuple)):
        made = [mapped(y, kind, change) for y in x]
        if isinstance(x, list):
            return made
        return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)
    if isinstance(x, dict):
        return {k: mapped(v, kind, change) for k, v in x.items()}
    return x


def number_of(t: TensorBase) -> float:
    """The number that a tensor without dimensions holds."""
    return t.item()


def graph_of(
    recording: Recording,
    inputs: Sequence[TensorBase | Place],
    outputs: Any,
    numbers: Sequence[tuple[float, int]] = (),
) -> GraphModule:
    """A recording as a graph of `inputs` that returns `outputs`, a structure of tensors and other values.

    `numbers` are objects among the arguments of its calls that are read from an input, each with the number of that (`number_of`).

    Tensors may be given as their places.  Each call's node has in `meta["places"]` where its results lay, in `meta["call"]` which of the
    recording's it is.  A tensor that the program had before is an attribute of the graph.  A view that was made without a call is
    `as_strided` of another tensor over its storage.
    """
    return _Builder(recording, inputs, numbers).build(outputs)


class _Builder:
    def __init__(
        self, recording: Recording, inputs: Sequence[TensorBase | Place], numbers: Sequence[tuple[float, int]]
    ) -> None:
        self.recording, self.graph, self.root = recording, Graph(), Module()
        self.nodes: dict[
            Place, Node | tuple[Node, tuple]
        ] = {}  # what lies there: a node, or a part of its result
        self.storages: dict[int, Place] = {}  # a place in each storage that has a node
        self.objects: dict[int, Node] = {}  # by identity; the recording holds them
        self.numbers = {id(x): (x, k) for x, k in numbers}
        self.measured: Measured | None = recording.measured
        self.placeholders: list[Node] = []
        self.before = {place(t).storage: t for t in recording.inputs}
        for k, t in enumerate(inputs):
            node = self.graph.placeholder(f"arg_{k}")
            at = t if isinstance(t, Place) else place(t)
            node.meta["places"] = at
            self.placeholders.append(node)
            if at not in self.nodes:
                self.enter(at, node)

    def build(self, outputs: Any) -> GraphModule:
        for number, call in enumerate(self.recording.calls()):
            if self.measured is not None and number in self.measured.read:
                node = self.graph.call_function(read_number, (self.node_at(call.args[0]),))
                node.meta["places"], node.meta["call"] = self.measured.read[number], number
                self.enter(node.meta["places"], node)
                continue
            values = mapped((call.args, call.kwargs), Place, self.node_at)
            args, kwargs = map_aggregate(values, self.argument)
            node = self.graph.call_function(call.operation, args, kwargs)
            node.meta["places"], node.meta["call"] = call.result, number
            writes = getattr(call.operation, "writes", False) or "out" in kwargs
            self.enter_results(call.result, node, (), writes)
        self.graph.output(mapped(outputs, (TensorBase, Place), self.result))
        return _LazyGraphModule(self.root, self.graph)

    def result(self, t: TensorBase | Place) -> Node:
        return self.node_at(t) if isinstance(t, Place) else self.node_at(place(t), t)

    def argument(self, x: Any) -> Any:
        """What stands for an argument; one that the graph's text cannot name is an attribute of the graph."""
        if id(x) in self.numbers:
            if id(x) not in self.objects:
                given = self.placeholders[self.numbers[id(x)][1]]
                self.objects[id(x)] = self.graph.call_function(number_of, (given,))
            return self.objects[id(x)]
        if self.measured is not None and id(x) in self.measured.objects:
            return self.number_at(self.measured.objects[id(x)][1])
        if x is None or x is ... or isinstance(x, _NAMED):
            return x
        if id(x) not in self.objects:
            name = f"_object{len(self.objects)}"
            setattr(self.root, name, x)
            self.objects[id(x)] = self.graph.get_attr(name)
        return self.objects[id(x)]

    def enter(self, at: Place, node: Node | tuple[Node, tuple]) -> None:
        self.nodes[at] = node
        self.storages.setdefault(at.storage, at)

    def enter_results(self, x: Any, node: Node, path: tuple, writes: bool) -> None:
        """What a call returned; a view that lies where something lay before is that, unless the call has written there."""
        if isinstance(x, Place):
            if writes or x not in self.nodes:
                self.enter(x, (node, path) if path else node)
        elif isinstance(x, (list, tuple)):
            for k, y in enumerate(x):
                self.enter_results(y, node, (*path, k), writes)
        elif isinstance(x, dict):
            for k, y in x.items():
                self.enter_results(y, node, (*path, k), writes)

    def node_at(self, at: Place, tensor: TensorBase | None = None) -> Node:
        """What lies there; `tensor` is what to take where nothing does."""
        if self.measured is not None and at in self.measured.computed and at not in self.nodes:
            function, operands = self.measured.computed[at]
            args = [self.number_at(x) if isinstance(x, Place) else x for x in operands]
            made = self.graph.call_function(compute_number, (function, *args))
            made.meta["places"] = at
            self.enter(at, made)
        node = self.nodes.get(at)
        if isinstance(node, tuple):
            node, path = node
            for key in path:
                node = self.graph.call_function(operator.getitem, (node, key))
            node.meta["places"] = at
            self.nodes[at] = node
        if node is not None:
            return node
        if at.storage not in self.storages:
            before = self.before.get(at.storage, tensor)
            if before is None:
                raise RuntimeError(
                    f"record(): a result lies where nothing that was recorded made a tensor: {at}"
                )
            return self.constant(at, before)
        whole = self.node_at(self.storages[at.storage])
        if self.storages[at.storage].dtype != at.dtype:
            whole = self.retyped(whole, self.storages[at.storage], at)
        node = self.graph.call_function(
            REGISTRY["as_strided"].function, (whole, at.shape, at.stride, at.offset)
        )
        node.meta["places"] = at
        self.nodes[at] = node
        return node

    def number_at(self, at: Place) -> Node:
        """The number that lies in a tensor without dimensions."""
        return self.graph.call_function(number_of, (self.node_at(at),))

    def retyped(self, whole: Node, first: Place, at: Place) -> Node:
        """All that lies where a node does, in one dimension of the dtype of `at`."""
        span = 0 if 0 in first.shape else 1 + sum((n - 1) * s for n, s in zip(first.shape, first.stride))
        span -= span % max(1, at.dtype.itemsize // first.dtype.itemsize)
        flat = self.graph.call_function(REGISTRY["as_strided"].function, (whole, (span,), (1,), first.offset))
        flat.meta["places"] = first._replace(shape=(span,), stride=(1,))
        node = self.graph.call_function(REGISTRY["view"].function, (flat, at.dtype))
        old, new = first.dtype.itemsize, at.dtype.itemsize
        node.meta["places"] = at._replace(
            shape=(span * old // new,), stride=(1,), offset=first.offset * old // new
        )
        return node

    def constant(self, at: Place, tensor: TensorBase) -> Node:
        """A tensor that the program had before."""
        name = f"_tensor_constant{len(self.storages)}"
        self.root.register_buffer(name, tensor.detach(), persistent=True)
        node = self.graph.get_attr(name)
        node.meta["places"] = place(tensor)
        self.enter(place(tensor), node)
        return self.node_at(at)
