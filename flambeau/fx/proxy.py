"""`Proxy`: stands for a value while a function is traced; what is done to it becomes nodes."""

from __future__ import annotations

import dis
import enum
import linecache
import operator
import sys
import traceback as _python
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from .._compat.absent import refusing
from ..core.base import display
from ..core.call.interceptors import attend_objects
from . import traceback
from ._names import OWN, is_method, method_name
from .node import Argument, Node, Target, base_types
from .operator_schemas import check_for_mutable_operation

if TYPE_CHECKING:
    from .._compat.typed import Size
    from ..nn.parameter import Parameter
    from .graph import Graph

__all__ = [
    "Argument",
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

_HERE = sys.modules[OWN].__path__[0]


class TraceError(ValueError):
    """A function does with a Proxy what a graph cannot hold: control flow, iteration."""


class Scope:
    """The module whose `forward` is being traced: its path and class.

    Raises nothing.

    >>> from flambeau.fx.proxy import Scope
    >>> Scope("layer", int).module_path
    'layer'
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Within it, `scope` has the contents of `current_scope`.

    Raises nothing.

    >>> from flambeau.fx.proxy import Scope, ScopeContextManager
    >>> scope = Scope("", None)
    >>> with ScopeContextManager(scope, Scope("layer", int)):
    ...     scope.module_path
    'layer'
    """

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope = scope
        self._former = scope.module_path, scope.module_type
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exception: Any) -> None:
        self._scope.module_path, self._scope.module_type = self._former


def _user_frame() -> FrameType | None:
    """The nearest frame that is not of this library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame


def _where() -> str:
    """The line of the program that is being traced, for errors."""
    frame = _user_frame()
    if frame is None:
        return ""
    path, line = frame.f_code.co_filename, frame.f_lineno
    code = linecache.getline(path, line, frame.f_globals).strip()
    return f'\n  File "{path}", line {line}, in {frame.f_code.co_name}' + (f"\n    {code}" if code else "")


class TracerBase:
    """What proxies hand nodes to; `graph` is where they go.

    `record_stack_traces` lets nodes know the lines of the program that made them; `check_mutable_operations` refuses operations that write
    to arguments; `trace_asserts` traces `assert x` as a call; `proxy_buffer_attributes` makes proxies of buffers that `forward` reads.

    >>> import flambeau as torch
    >>> issubclass(torch.fx.Tracer, torch.fx.proxy.TracerBase)
    True
    """

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope | None = None
    module_stack: dict[str, tuple[str, Any]] | None = None
    node_name_to_scope: dict[str, tuple[str, Any]] | None = None

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple,
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A node in the graph, which knows the module it was made in; subclasses see every node here."""
        if kind == "call_function" and self.check_mutable_operations:
            check_for_mutable_operation(target, args, kwargs)  # type: ignore[arg-type]
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.scope is not None and self.node_name_to_scope is not None:
            self.node_name_to_scope[node.name] = self.scope.module_path, self.scope.module_type
        if traceback.current_meta:
            if traceback.should_preserve_node_meta:
                node.meta.update(traceback.current_meta)
            elif kind not in ("placeholder", "output") and "custom" in traceback.current_meta:
                node.meta["custom"] = traceback.current_meta["custom"]
        if self.module_stack:
            node.meta["nn_module_stack"] = dict(self.module_stack)
        return node

    def proxy(self, node: Node) -> Proxy:
        """What stands for a node's value."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple,
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Any:
        """A node of arguments among which are proxies, and what stands for its value."""
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(args_, tuple) or not isinstance(kwargs_, dict):
            raise AssertionError(f"create_arg() made {type(args_).__name__} of a tuple of arguments")
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        made = self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)
        if self.record_stack_traces and not node.stack_trace and (frame := _user_frame()) is not None:
            stack = [f for f in _python.extract_stack(frame) if not f.filename.startswith(_HERE)]
            node.stack_trace = "".join(_python.format_list(stack)).strip()
        return made

    def create_arg(self, a: Any) -> Any:
        """An argument as graphs hold it: proxies become nodes, through tuples, lists, dictionaries, slices, ranges and dataclasses.

        NotImplementedError for an object that graphs do not hold, RuntimeError for a dictionary whose keys are proxies.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            made = [self.create_arg(x) for x in a]
            return type(a)(*made) if hasattr(a, "_fields") else type(a)(made)
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            for key in a:
                if isinstance(key, Proxy | Node):
                    raise RuntimeError(
                        f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}"
                    )
            return {self.create_arg(k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if a is None or a is ... or isinstance(a, (*base_types, enum.Enum)):
            return a
        if is_dataclass(a) and not isinstance(a, type):
            field_args = {f.name: self.create_arg(getattr(a, f.name)) for f in fields(a)}
            return self.create_node("call_function", type(a), (), field_args)
        if callable(a) and not hasattr(a, "forward"):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """What `if` on a proxy calls: TraceError, which names the line."""
        raise TraceError(
            f"symbolically traced variables cannot be used as inputs to control flow: {obj}{_where()}"
        )

    def iter(self, obj: Proxy) -> Iterator:
        """What iteration over a proxy calls: TraceError, which names the line."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs "
            f"function argument: {obj}{_where()}"
        )

    def keys(self, obj: Proxy) -> Any:
        """What `keys()` of a proxy is, also where it is used as `**kwargs`: a call in the graph."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """A tracer that appends to a graph.

    Raises nothing.

    >>> import flambeau as torch
    >>> from flambeau.fx.proxy import GraphAppendingTracer, Proxy
    >>> graph = torch.fx.Graph()
    >>> x = Proxy(graph.placeholder("x"), GraphAppendingTracer(graph))
    >>> x + 1
    Proxy(add)
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack, self.node_name_to_scope = {}, {}


class Proxy:
    """Stands for the value of a node: operators, methods, attributes and operations on it add nodes to the graph.

    It cannot be looked into, so conditions, loops and `len` on it are errors.

    RuntimeError for `len`, TraceError for conditions and loops.

    >>> import flambeau as torch
    >>> graph = torch.fx.Graph()
    >>> x = torch.fx.Proxy(graph.placeholder("x"))
    >>> (torch.relu(x) + 1).sum(dim=0)
    Proxy(sum_1)
    >>> list(graph.nodes)
    [x, relu, add, sum_1]
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node
        attend_objects(1)  # before operations look at their arguments, as long as there are proxies
        self._counted = True

    def __del__(self) -> None:
        if self.__dict__.get("_counted") and attend_objects is not None:  # which it is when Python ends
            attend_objects(-1)

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k.startswith("__") and k.endswith("__"):  # what Python and others look for in any object
            raise AttributeError(f"a Proxy has no attribute {k!r}")
        return Attribute(self, k)

    def __deepcopy__(self, memo: dict) -> Proxy:
        return self

    def __getstate__(self) -> dict:
        return {k: v for k, v in self.__dict__.items() if k != "_counted"}

    def __setstate__(self, d: dict) -> None:
        self.__dict__ = d

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator:
        count = _unpacked(sys._getframe(1))
        return self.tracer.iter(self) if count is None else iter([self[k] for k in range(count)])  # type: ignore[index]

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _asserted(sys._getframe(1)):  # type: ignore[union-attr]
            check = sys.modules[OWN]._assert  # type: ignore[attr-defined]
            self.tracer.create_proxy("call_function", check, (self, "assertion failed"), {})
            return True
        return self.tracer.to_bool(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def keys(self) -> Any:
        """The keys of what it stands for, as a proxy.

        >>> import flambeau as torch
        >>> torch.fx.Proxy(torch.fx.Graph().placeholder("x")).keys()
        Proxy(keys)
        """
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            f"{display.NAME}.fx.wrap('len') at module scope{_where()}"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        tracer = _tracer_of((args, kwargs))
        if is_method(orig_method):
            return tracer.create_proxy("call_method", method_name(orig_method), args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


def _tracer_of(values: Any) -> TracerBase:
    """The tracer of the proxies in arguments; RuntimeError where they are of several."""
    result: dict[int, TracerBase] = {}

    def look(x: Any) -> None:
        if isinstance(x, Proxy):
            result[id(x.tracer)] = x.tracer
        elif isinstance(x, tuple | list):
            for each in x:
                look(each)
        elif isinstance(x, dict):
            for each in x.values():
                look(each)
        elif isinstance(x, slice):
            look((x.start, x.stop, x.step))

    look(values)
    if len(result) != 1:
        raise RuntimeError(
            f"Found multiple different tracers {list(result.values())} while trying to trace operations on Proxies"
        )
    return next(iter(result.values()))


def _current(frame: FrameType) -> tuple[list[dis.Instruction], int]:
    """The instructions of a frame, and the place of the one that runs."""
    steps = list(dis.get_instructions(frame.f_code))
    at = next((k for k, step in enumerate(steps) if step.offset == frame.f_lasti), len(steps) - 1)
    return steps, at


def _unpacked(frame: FrameType) -> int | None:
    """How many values `a, b = x` takes, where that is what iterates; None elsewhere."""
    steps, at = _current(frame)
    return steps[at].argval if steps[at].opname == "UNPACK_SEQUENCE" else None


def _asserted(frame: FrameType) -> bool:
    """Whether the value whose truth is read is that of an `assert`."""
    steps, at = _current(frame)
    following = [
        s.opname for s in steps[at + 1 : at + 4] if s.opname not in ("CACHE", "NOT_TAKEN", "EXTENDED_ARG")
    ]
    if "POP_JUMP" not in steps[at].opname and following and "POP_JUMP" in following[0]:
        following = following[1:]
    return bool(following) and (
        following[0] == "LOAD_ASSERTION_ERROR"
        or (following[0] == "LOAD_COMMON_CONSTANT" and steps[at + 1].argval is AssertionError)
    )


class Attribute(Proxy):
    """An attribute of what a proxy stands for: a node once it is used as a value, none where it is called as a method.

    Raises nothing.

    >>> import flambeau as torch
    >>> x = torch.fx.Proxy(torch.fx.Graph().placeholder("x"))
    >>> type(x.shape).__name__, x.view(-1)
    ('Attribute', Proxy(view))
    """

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr = root, attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads it."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Stands for a parameter, whose shape is known while it is traced (`Tracer(param_shapes_constant=True)`).

    Raises nothing.

    >>> import flambeau as torch
    >>> class Scaled(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.w = torch.nn.Parameter(torch.ones(3))
    ...     def forward(self, x):
    ...         return x * self.w if self.w.shape[0] == 3 else x
    >>> [n.name for n in torch.fx.Tracer(param_shapes_constant=True).trace(Scaled()).nodes]
    ['x', 'w', 'mul', 'output']
    """

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Parameter) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Size:
        """The parameter's shape."""
        return self.param.shape

    def size(self, dim: int | None = None) -> Any:
        """The parameter's size, or that of one dimension."""
        return self.param.size() if dim is None else self.param.size(dim)

    def dim(self) -> int:
        """How many dimensions the parameter has."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """How many dimensions the parameter has."""
        return self.param.ndim

    def numel(self) -> int:
        """How many elements the parameter has."""
        return self.param.numel()

    def nelement(self) -> int:
        """How many elements the parameter has."""
        return self.param.nelement()


# Operators that Python calls by these names, and those that the right operand answers, too.
_UNARY = ("pos", "neg", "invert")
_COMPARED = ("eq", "ne", "lt", "gt", "le", "ge")
_BINARY = (
    "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "matmul", "getitem",
)  # fmt: skip


def _define(name: str, reflected: bool) -> None:
    function = getattr(operator, name)
    bare = name.strip("_")

    def forward(self: Proxy, *args: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, *args), {})

    def backward(self: Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    made = backward if reflected else forward
    made.__name__ = f"__r{bare}__" if reflected else f"__{bare}__"
    made.__qualname__ = f"Proxy.{made.__name__}"
    setattr(Proxy, made.__name__, made)


for _name in (*_UNARY, *_COMPARED, *_BINARY):
    _define(_name, False)
for _name in _BINARY[:-1]:
    _define(_name, True)
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]

__getattr__ = refusing("fx.proxy")
