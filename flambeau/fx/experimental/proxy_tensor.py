"""`make_fx`: a function as the graph of the leaves that its tensors go through, backward passes included."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..._compat.absent import refusing
from ..._tensor import Tensor
from ...core.call.operation import behind
from ...nn.modules.module import Module
from ...overrides import TorchFunctionMode
from ...utils import _pytree as pytree
from ...utils._python_dispatch import TorchDispatchMode
from .._code import TreeInfo, _PyTreeCodeGen
from .._tracer import Tracer
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node
from ..proxy import Proxy

__all__ = [
    "ProxyTorchDispatchMode",
    "PythonKeyTracer",
    "get_innermost_proxy_mode",
    "get_proxy_mode",
    "make_fx",
]

Decompositions = Mapping[Any, Callable[..., Any]]
_modes: list[ProxyTorchDispatchMode] = []


class PythonKeyTracer(Tracer):
    """The tracer that `make_fx` appends nodes with: tensors that are no inputs become attributes of the root.

    >>> from flambeau.fx.experimental.proxy_tensor import PythonKeyTracer
    >>> PythonKeyTracer().root
    Module()
    """

    def __init__(self) -> None:
        super().__init__(autowrap_modules=())
        self.graph = Graph(tracer_cls=Tracer)

    def create_arg(self, a: Any) -> Any:
        """An argument as graphs hold it."""
        if isinstance(a, Tensor):
            if (attribute := self.tensor_attrs.get(id(a))) is None:
                attribute = self.tensor_attrs[id(a)] = self.get_fresh_qualname("_tensor_constant")
                self.root.register_buffer(attribute, a.detach())
            return self.create_node("get_attr", attribute, (), {})
        return super().create_arg(a)


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Within it, leaves that tensors go through become nodes of the tracer's graph.

    `decomposition_table` has functions by operations, which run in their place; what those call becomes nodes.

    Raises nothing.

    >>> import flambeau as torch
    >>> from flambeau.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer
    >>> tracer = PythonKeyTracer()
    >>> x = torch.ones(2)
    >>> with ProxyTorchDispatchMode(tracer) as mode:
    ...     mode.track(x, tracer.graph.placeholder("x"))
    ...     y = x.exp()
    >>> list(tracer.graph.nodes)
    [x, exp]
    """

    def __init__(self, tracer: PythonKeyTracer, decomposition_table: Decompositions | None = None) -> None:
        super().__init__()
        self.tracer = tracer
        self.silent = False
        self.decompositions = {behind(op): f for op, f in (decomposition_table or {}).items()}
        # By object, and by memory, for another tensor over the same; with the tensors, so that addresses stay theirs.
        self._nodes: dict[Any, tuple[Any, Node]] = {}

    def track(self, tensor: Tensor, node: Node) -> None:
        """Let a node stand for a tensor from here on."""
        self._nodes[id(tensor)] = self._nodes[_memory(tensor)] = tensor, node
        with _silently(self):
            node.meta["val"] = tensor.detach().to("meta")

    def standing_for(self, x: Any) -> Any:
        """The proxy for a tensor that was tracked; anything else as it is."""
        if isinstance(x, Tensor):
            entry = self._nodes.get(id(x)) or self._nodes.get(_memory(x))
            if entry is not None:
                return Proxy(entry[1], self.tracer)
        return x

    def __enter__(self) -> ProxyTorchDispatchMode:
        _modes.append(self)
        return super().__enter__()

    def __exit__(self, *exception: Any) -> Any:
        _modes.remove(self)
        return super().__exit__(*exception)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.silent:
            return func(*args, **kwargs)
        op = behind(func)
        if (rule := self.decompositions.get(op)) is not None:
            with self:
                decomposed = rule(*args, **kwargs)
            if decomposed is not NotImplemented:
                return decomposed
        result = func(*args, **kwargs)
        args_, kwargs_ = pytree.tree_map(self.standing_for, (args, kwargs))
        made = self.tracer.create_proxy("call_function", op, args_, kwargs_)
        self._track_results(result, made, made.node)
        return result

    def _track_results(self, result: Any, proxy: Any, node: Node) -> None:
        if isinstance(result, Tensor):
            self.track(result, node)
        elif isinstance(result, tuple | list):
            for k, each in enumerate(result):
                if isinstance(each, Tensor | tuple | list):
                    inner = proxy[k]
                    self._track_results(each, inner, inner.node)


class _Decomposing(TorchFunctionMode):
    """Lets functions of a table run in the place of composites, which the lower level does not see."""

    def __init__(self, mode: ProxyTorchDispatchMode) -> None:
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        rule = self.mode.decompositions.get(behind(func))
        if rule is not None:
            with self:
                result = rule(*args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        return func(*args, **(kwargs or {}))


def _memory(t: Tensor) -> tuple:
    """What two tensors over the same memory have in common."""
    return id(t.untyped_storage()), t.storage_offset(), tuple(t.shape), t.stride(), t.dtype


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The mode that traces operations; None where none is on.

    >>> from flambeau.fx.experimental.proxy_tensor import get_proxy_mode
    >>> get_proxy_mode() is None
    True
    """
    return _modes[-1] if _modes else None


get_innermost_proxy_mode = get_proxy_mode


@contextlib.contextmanager
def disable_proxy_modes_tracing() -> Iterator[None]:
    """Within it, no operation becomes a node.

    >>> from flambeau.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
    >>> with disable_proxy_modes_tracing():
    ...     pass
    """
    with contextlib.ExitStack() as stack:
        for mode in _modes:
            stack.enter_context(_silently(mode))
        yield


@contextlib.contextmanager
def _silently(mode: ProxyTorchDispatchMode) -> Iterator[None]:
    former, mode.silent = mode.silent, True
    try:
        yield
    finally:
        mode.silent = former


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Decompositions | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
) -> Callable[..., GraphModule]:
    """A function of example inputs that runs `f` on them, and returns what it did as a GraphModule: leaves, of backward passes too.

    A node's target is the operation, which is `ops.aten`'s of the same meaning where ATen has one; "val" in its `meta` is its value on
    device "meta".  Shapes and numbers of the example are constants in the graph.  `decomposition_table` has functions by operations,
    which run in their place.

    NotImplementedError for a `tracing_mode` other than "real": shapes are numbers here, and inputs on device "meta" need no memory.

    >>> import flambeau as torch
    >>> from flambeau.fx.experimental.proxy_tensor import make_fx
    >>> def step(x):
    ...     return torch.func.grad(lambda x: x.exp().sum())(x)
    >>> {"exp", "sum_1"} <= {n.name for n in make_fx(step)(torch.ones(3)).graph.nodes}
    True
    """
    if tracing_mode != "real":
        raise NotImplementedError(
            f"make_fx(): argument 'tracing_mode' must be 'real', got {tracing_mode!r}: shapes are numbers here, and inputs "
            "on device 'meta' need no memory"
        )
    if pre_dispatch:
        raise NotImplementedError(
            "make_fx(): argument 'pre_dispatch' must be False: operations are seen as leaves"
        )

    @functools.wraps(f)
    def traced(*args: Any) -> GraphModule:
        tracer = PythonKeyTracer()
        tracer.record_stack_traces = record_stack_traces
        mode = ProxyTorchDispatchMode(tracer, decomposition_table)
        names = _names(f, len(args))
        leaves, in_spec = pytree.tree_flatten(list(args))
        nodes: list[Node] = []
        for name, arg in zip(names, args, strict=True):
            inner = pytree.tree_leaves(arg)
            for k, leaf in enumerate(inner):
                node = tracer.create_node("placeholder", f"{name}_{k + 1}", (), {})
                nodes.append(node)
                if isinstance(leaf, Tensor):
                    mode.track(leaf, node)
        with mode, _Decomposing(mode) if decomposition_table else contextlib.nullcontext():
            out = f(*args)
        flat, out_spec = pytree.tree_flatten(out)
        values = [tracer.create_arg(mode.standing_for(x)) for x in flat]
        nested = any(not child.is_leaf() for child in in_spec.children())
        if nested:
            tracer.graph.set_codegen(_PyTreeCodeGen(TreeInfo(["self", *names], in_spec, out_spec)))
            tracer.graph.output(values)
        else:
            tracer.graph.output(pytree.tree_unflatten(values, out_spec))
        tracer.graph.eliminate_dead_code()
        return GraphModule(tracer.root, tracer.graph, getattr(f, "__name__", type(f).__name__))

    return traced


def _names(f: Callable[..., Any], count: int) -> list[str]:
    """The names of a function's positional parameters, as many as it is given arguments."""
    function = f.forward if isinstance(f, Module) else f
    try:
        parameters = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters[:count]]
    return names + [f"arg{k}" for k in range(len(names), count)]


__getattr__ = refusing("fx.experimental.proxy_tensor")
