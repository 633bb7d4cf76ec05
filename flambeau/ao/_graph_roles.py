"""What the nodes of a graph are when the graph is quantised: by the mappings of eager mode, and by what quantised tensors do.

A module is what `_mappings.STATIC` makes of it; one that is not there is what its own `forward` calls.  A function or a method is what
quantised tensors do with that operation (`_quantized_operations.scale_of_result`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from enum import Enum
from inspect import signature
from typing import Any, NamedTuple

from .. import nn
from ..core.call.operation import Op, behind
from ..fx._tracer import Tracer
from ..fx.node import Node
from ..fx.proxy import TraceError
from ..operations.declare.registry import published
from . import _mappings as mappings
from . import _quantized_arithmetic as arithmetic
from ._fake_quantize import FakeQuantizeBase
from ._observers import ObserverBase
from ._quantized_operations import Scale, scale_of_result
from .nn.quantized import Embedding
from .nn.quantized._base import Requantizing
from .nn.quantized._batchnorm import _BatchNorm

OWN = __name__.partition(".")[0]
LAYERS = mappings.get_embedding_static_quant_module_mappings()


class Role(Enum):
    """How an operation takes part in a quantised graph."""

    LAYER = "has a weight and a scale of its result"
    TABLE = "has codes of its weight alone"
    BINARY = "combines two tensors, or one and a number"
    SHARED = "has the scale of its input"
    OBSERVED = "has a scale of its own"
    FIXED = "has the scale of its range"
    MOVED = "moves what it is given, which may become several tensors"
    CUSTOM = "is a program's own, with classes for each step"
    RECURRENT = "rounds its input itself, and has a weight"


class Form(NamedTuple):
    """Functions of a binary operation and of one followed by a ReLU."""

    plain: Callable[..., Any]
    relu: Callable[..., Any]


_flat, _functional, _methods = published(""), published("nn.functional."), published("Tensor.")
_RELU = (behind(_functional["relu"]), behind(_flat["relu"]))
_SUM, _PRODUCT = Form(arithmetic.add, arithmetic.add_relu), Form(arithmetic.mul, arithmetic.mul_relu)
BINARY: dict[Any, Form] = {
    operator.add: _SUM,
    operator.mul: _PRODUCT,
    behind(_flat["add"]): _SUM,
    behind(_flat["mul"]): _PRODUCT,
}
# Layers that functions become once their weight is in codes, alone and with a ReLU behind.
WEIGHTED: dict[Any, tuple[Any, Any]] = {
    behind(_functional["linear"]): (nn.Linear, mappings.intrinsic.LinearReLU),
    **{
        behind(_functional[f"conv{d}d"]): (
            getattr(nn, f"Conv{d}d"),
            getattr(mappings.intrinsic, f"ConvReLU{d}d"),
        )
        for d in (1, 2, 3)
    },
}
_SCALES = {Scale.SHARED: Role.SHARED, Scale.OBSERVED: Role.OBSERVED, Scale.FIXED: Role.FIXED}


class Match(NamedTuple):
    """One operation of a graph: its first node, which takes the inputs, and its last, whose result is observed."""

    first: Node
    last: Node
    role: Role

    def nodes(self) -> tuple[Node, ...]:
        """The node, or both."""
        return (self.first,) if self.first is self.last else (self.first, self.last)


def name_of(node: Node) -> str:
    """The name of a node's operation; "" for a function that is none."""
    if node.op == "call_method":
        return str(node.target)
    if node.target is operator.getitem:
        return "__getitem__"
    return behind(node.target).__name__ if isinstance(node.target, Op) else ""


def _gives_several(name: str) -> bool:
    op = behind(_methods.get(name) or _flat.get(name) or _functional.get(name))
    gives = getattr(getattr(op, "entry", None), "gives", None)
    return name == "__getitem__" or str(gives).endswith("[]")


def arguments(node: Node) -> dict[str, Any]:
    """The arguments of a linear function or a convolution, by name."""
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    return {**dict(zip(names, node.args)), **node.kwargs}


def of_function(node: Node) -> Role | None:
    """The role of a function or a method by its operation alone."""
    target = behind(node.target) if isinstance(node.target, Op) else node.target
    if target in BINARY:
        return Role.BINARY if not node.kwargs and len(node.args) == 2 else None
    if target in WEIGHTED:
        return Role.LAYER
    name = name_of(node)
    scale = scale_of_result(name)
    if scale is None or node.kwargs.get("return_indices"):
        return None
    return Role.MOVED if _gives_several(name) else _SCALES[scale]


def called(module: Any) -> list[Node]:
    """What a layer's own `forward` of one tensor calls; TraceError where that hangs on the tensor."""
    return [n for n in Tracer().trace(module).nodes if n.op not in ("placeholder", "output", "get_attr")]


def fixed_functions(kind: Any) -> Iterator[Any]:
    """The functions that layers of a class call, and whose results lie in a known range."""
    for node in called(kind()):
        if node.op == "call_function" and scale_of_result(name_of(node)) is Scale.FIXED:
            yield node.target


def of_module(module: Any) -> Role | None:
    """The role of a layer."""
    kind = type(module)
    made = LAYERS.get(kind if kind in LAYERS else mappings.TRAINED.get(kind))
    if made is None and kind in mappings.DYNAMIC:
        return Role.RECURRENT
    if made is not None and issubclass(made, Embedding):
        return Role.TABLE
    if made is not None and kind in mappings.RANGES:
        return Role.FIXED
    if made is not None and issubclass(made, (Requantizing, _BatchNorm)):
        return Role.LAYER
    if not kind.__module__.startswith(f"{OWN}.nn.") or len(signature(kind.forward).parameters) != 2:
        return None
    try:
        roles = {of_function(node) for node in called(module)}
    except TraceError:
        return None
    if roles <= {Role.SHARED}:
        return Role.SHARED
    return roles.pop() if len(roles) == 1 and roles <= {Role.OBSERVED, Role.FIXED} else None


class Tensors:
    """Which nodes give tensors: not sizes and what is computed of them."""

    def __init__(self) -> None:
        self.known: dict[Node, bool] = {}

    def __contains__(self, x: Any) -> bool:
        return isinstance(x, Node) and self._of(x)

    def _of(self, node: Node) -> bool:
        for each in _backwards(node, self.known):
            self.known[each] = self._alone(each)
        return self.known[node]

    def _alone(self, node: Node) -> bool:
        if node.op == "call_method" and node.target not in _methods:
            return False
        if node.op == "call_function" and node.target is getattr:
            return node.args[1] in _methods and self.known[node.args[0]]  # type: ignore[index]
        if node.op in ("call_function", "call_method"):
            return any(self.known[n] for n in node.all_input_nodes)
        return True


def _backwards(node: Node, known: dict[Node, bool]) -> list[Node]:
    """What a node is computed from and is not known, the first computed first."""
    waiting, found = [node], dict[Node, None]()
    while waiting:
        each = waiting.pop()
        if each not in known:
            found.pop(each, None)
            found[each] = None
            waiting += each.all_input_nodes
    return list(reversed(found))


class Roles:
    """The operations of a graph that have a role, `matches`, by their last nodes.

    `modules` are those of the model by dotted names, `custom` classes of a program's own.
    """

    def __init__(self, graph: Any, modules: dict[str, Any], custom: Any = ()) -> None:
        self.modules, self.custom, self.tensors = modules, custom, Tensors()
        self.matches: dict[Node, Match] = {}
        open_: dict[Node, Match] = {}  # functions that a ReLU may follow
        for node in graph.nodes:
            before = node.args[0] if node.args else None
            if isinstance(before, Node) and before in open_ and self.is_relu(node):
                del self.matches[before]
                self.matches[node] = open_[before]._replace(last=node)
            elif (role := self.of(node)) is not None:
                match = self.matches[node] = Match(node, node, role)
                if node.op == "call_function" and role in (Role.BINARY, Role.LAYER) and len(node.users) == 1:
                    open_[node] = match

    def observer(self, node: Any) -> Any:
        """The observer that a node calls, or None."""
        if not isinstance(node, Node) or node.op != "call_module":
            return None
        module = self.modules[str(node.target)]
        return module if isinstance(module, (ObserverBase, FakeQuantizeBase)) else None

    def observed(self, x: Any) -> Any:
        """What an observer is given, or the node itself."""
        return x.args[0] if self.observer(x) is not None else x

    def of(self, node: Node) -> Role | None:
        """The role of a node, without what follows it."""
        if node.op == "call_module":
            module = self.modules[str(node.target)]
            if self.observer(node) is not None:
                return None
            return Role.CUSTOM if type(module) in self.custom else of_module(module)
        if node.op not in ("call_function", "call_method") or node not in self.tensors:
            return None
        role = of_function(node)
        return None if role is Role.LAYER and not self.has_weight(node) else role

    def has_weight(self, node: Node) -> bool:
        """Whether a function's weight and bias are the model's own, and its padding is in numbers."""
        given = arguments(node)
        weight, bias = self.observed(given.get("weight")), given.get("bias")
        own = isinstance(weight, Node) and weight.op == "get_attr"
        return own and (bias is None or bias.op == "get_attr") and not isinstance(given.get("padding"), str)

    def is_relu(self, node: Node) -> bool:
        """Whether a node is a ReLU, as a module or a function; a method is not one, as in PyTorch."""
        return is_relu(node, self.modules)


def is_relu(node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node is a ReLU, as a module or a function."""
    if node.op == "call_module":
        return type(modules[str(node.target)]) is nn.ReLU
    return node.op == "call_function" and isinstance(node.target, Op) and behind(node.target) in _RELU
