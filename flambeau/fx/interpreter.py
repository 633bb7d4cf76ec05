"""`Interpreter` runs a graph node by node, `Transformer` makes another graph of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .._compat.absent import refusing
from ..nn.modules.module import Module
from . import traceback
from .graph import Graph
from .graph_module import GraphModule, _get_attr, _has_attr
from .node import Node, map_aggregate, map_arg
from .proxy import GraphAppendingTracer, Proxy

__all__ = ["Interpreter", "Transformer"]

Target = Callable[..., Any] | str


class Interpreter:
    """Runs a graph node by node; subclasses say what a node of each kind does.

    `garbage_collect_values` frees each value after its last use.  `graph` runs another graph than the module's own.

    `run` raises RuntimeError where an argument is missing.

    >>> import flambeau as torch
    >>> class Names(torch.fx.Interpreter):
    ...     def run_node(self, n):
    ...         print(n.name)
    ...         return super().run_node(n)
    >>> Names(torch.fx.symbolic_trace(lambda x: torch.relu(x))).run(torch.ones(1))
    x
    relu
    output
    tensor([1.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = graph if graph is not None else module.graph  # type: ignore[assignment]
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            seen: set[Node] = set()
            for node in reversed(self.graph.nodes):
                for used in node._input_nodes:
                    if used not in seen:
                        seen.add(used)
                        self.user_to_last_uses.setdefault(node, []).append(used)

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True
    ) -> Any:
        """Run the graph on these arguments and return its output.

        `initial_env` gives nodes values, so that they are not run; `enable_io_processing` takes structures apart as the graph's code does.
        RuntimeError where an argument is missing; an error of a node says which node it was.

        >>> import flambeau as torch
        >>> torch.fx.Interpreter(torch.fx.symbolic_trace(lambda x: x + 1)).run(1)
        2
        """
        self.env = {} if initial_env is None else dict(initial_env)
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    self._explain(error, node)
                raise
            for used in self.user_to_last_uses.get(node, ()):
                del self.env[used]
            if node.op == "output":
                value = self.env[node]
                return self.graph.process_outputs(value) if enable_io_processing else value
        return None

    def _explain(self, error: Exception, node: Node) -> None:
        message = f"While executing {node.format_node()}"
        if node.stack_trace:
            message += f"\nOriginal traceback:\n{node.stack_trace}"
        if error.args and isinstance(error.args[0], str):
            error.args = (f"{error.args[0]}\n\n{message}", *error.args[1:])
        else:
            error.add_note(message)

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph on the values in a list, which it takes out of there.

        >>> import flambeau as torch
        >>> torch.fx.Interpreter(torch.fx.symbolic_trace(lambda x: x + 1)).boxed_run([1])
        2
        """
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args, enable_io_processing=False)

    def run_node(self, n: Node) -> Any:
        """The value of a node: what the method of its kind makes of its target and arguments.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> two = graph.call_function(max, (1, 2))
        >>> torch.fx.Interpreter(torch.fx.GraphModule({}, graph)).run_node(two)
        2
        """
        with traceback.set_current_meta(n, f"Interpreter_{type(self).__name__}"):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The next argument, or the default; RuntimeError where there is neither."""
        name = str(target)
        if name.startswith("**"):
            return dict(self.args_iter)
        if name.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {name}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The module's attribute of this dotted name."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What the function returns."""
        return target(*args, **kwargs)  # type: ignore[operator]

    def call_method(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What the method of the first argument returns."""
        of, *rest = args
        return getattr(of, str(target))(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What the submodule returns."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What the graph returns."""
        return args[0] if args else None

    def fetch_attr(self, target: str) -> Any:
        """The module's attribute of a dotted name; RuntimeError where there is none.

        >>> import flambeau as torch
        >>> module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
        >>> torch.fx.Interpreter(module).fetch_attr("0")
        ReLU()
        """
        if not _has_attr(self.module, target):
            raise RuntimeError(f"Node referenced nonexistent target {target} of {type(self.module).__name__}")
        return _get_attr(self.module, target)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict[str, Any]]:
        """A node's arguments with values in the place of nodes.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> two = graph.call_function(max, (1, 2))
        >>> torch.fx.Interpreter(torch.fx.GraphModule({}, graph)).fetch_args_kwargs_from_env(two)
        ((1, 2), {})
        """
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Arguments with values in the place of nodes; RuntimeError where one has none.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> two = graph.call_function(max, (1, 2))
        >>> torch.fx.Interpreter(torch.fx.GraphModule({}, graph)).map_nodes_to_values([1], two)
        [1]
        """

        def value(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {used}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[used]

        return map_arg(args, value)


class _NewTracer(GraphAppendingTracer):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.tensor_attrs: dict[Any, str] = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """An Interpreter on proxies: what its methods do becomes another graph, which `transform` returns as a GraphModule.

    Raises nothing.

    >>> import flambeau as torch
    >>> class Swap(torch.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(torch.tanh if target is torch.sigmoid else target, args, kwargs)
    >>> module = Swap(torch.fx.symbolic_trace(lambda x: torch.sigmoid(x))).transform()
    >>> print(module.code.strip())
    def forward(self, x):
        tanh = flambeau.tanh(x);  x = None
        return tanh
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _NewTracer(self.new_graph)
        self.tracer.root = module  # type: ignore[attr-defined]

    def placeholder(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Proxy:
        """A proxy for an input of the new graph."""
        default = args[0] if args else inspect.Parameter.empty
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Proxy:
        """A proxy for an attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call of a submodule in the new graph."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call of a function in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module with the new graph.

        >>> import flambeau as torch
        >>> torch.fx.Transformer(torch.fx.symbolic_trace(lambda x: x + 1)).transform()(2)
        3
        """
        with traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            made = self.new_graph.output(
                map_aggregate(result, lambda x: x.node if isinstance(x, Proxy) else x)
            )
            old = self.graph.output_node()
            made.type, made.meta = old.type, dict(old.meta)
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)


__getattr__ = refusing("fx.interpreter")
