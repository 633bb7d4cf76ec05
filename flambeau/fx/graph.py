"""`Graph`: nodes in their order, and everything that is done to them."""

from __future__ import annotations

import contextlib
import copy
import inspect
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from .._compat.absent import refusing
from ._code import BUILTINS, CodeGen, PythonCode, _PyTreeCodeGen  # noqa: F401
from ._code import TreeInfo as _PyTreeInfo  # noqa: F401
from ._names import Namespace as _Namespace
from .node import OPS, Node, Target, map_arg

if TYPE_CHECKING:
    from .graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

_NO_DEFAULT: Any = object()  # as `inspect.Parameter.empty` is, which would hide the parameter's own default
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_custom_builtins = BUILTINS


def _snake_case(name: str) -> str:
    return _CAPITAL.sub("_", name).lower()


class _node_list:
    """The nodes of a graph in their order, or backwards; nodes may be inserted and erased while they are gone through."""

    def __init__(self, graph: Graph, direction: Literal["_prev", "_next"] = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root, forward = self.graph._root, self.direction == "_next"
        node = root._next if forward else root._prev
        while node is not root:
            if not node._erased:
                yield node
            node = node._next if forward else node._prev

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_next" if self.direction == "_prev" else "_prev")

    def __repr__(self) -> str:
        return repr(list(self))


class _InsertPoint:
    """Where nodes are inserted; in a `with` statement, until its end."""

    def __init__(self, graph: Graph, anchor: Node, after: bool) -> None:
        self.graph, self.former = graph, (graph._anchor, graph._after)
        graph._anchor, graph._after = anchor, after

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: Any) -> None:
        self.graph._anchor, self.graph._after = self.former


class Graph:
    """A program as nodes in the order in which they run: inputs, calls, an output.

    Each node is used by others through their arguments; `GraphModule` makes a module of a graph.

    Raises nothing.

    >>> import flambeau as torch
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.relu, (x,))
    >>> _ = graph.output(y)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=flambeau.relu](args = (%x,), kwargs = {})
        return relu
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = root = Node(self, "", "root", "", (), {})
        self._anchor, self._after = root, False  # where new nodes come: right before or right after this one
        self._len = 0
        self._numbered = True  # whether each node's number tells its place
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._hooks: dict[str, tuple[Callable, ...]] = {}

    @property
    def owning_module(self) -> GraphModule | None:
        """The module whose graph it is."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in their order; `reversed` goes backwards."""
        return _node_list(self)

    def output_node(self) -> Node:
        """The output; AssertionError where there is none.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> graph.output(graph.placeholder("x")) is graph.output_node()
        True
        """
        node = next((n for n in reversed(self.nodes) if n.op == "output"), None)
        if node is None:
            raise AssertionError("the graph has no output node")
        return node

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, or those that call one target.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> y = graph.call_function(torch.relu, (graph.placeholder("x"),))
        >>> graph.find_nodes(op="call_function", target=torch.relu)
        [relu]
        """
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    # --- nodes -------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A new node, at the end or where `inserting_before` and `inserting_after` say.

        Lists and dictionaries among the arguments become immutable.  `name` is what its own name is made from.

        Raises:
            AssertionError: there is no such `op`
            ValueError: `target` is no function for call_function, or no str for another

        >>> import flambeau as torch
        >>> torch.fx.Graph().create_node("placeholder", "x")
        x
        """
        if op not in OPS:
            raise AssertionError(f"op '{op}' is not in _legal_ops {sorted(OPS)}")
        if (op == "call_function") != callable(target):
            wanted = "a Callable" if op == "call_function" else "a str"
            raise ValueError(
                f"Graph.create_node(): target {target!r} of a {op} has type {type(target).__name__} but {wanted} is expected"
            )
        name = self._graph_namespace.create_name(name or self._target_to_str(target), None)
        node = Node(self, name, op, target, args or (), kwargs or {}, type_expr)
        before = self._anchor._next if self._after else self._anchor
        if before is self._root and self._numbered:
            node._number = before._prev._number + 1
        else:
            self._numbered = False
        node._link(before._prev, before)
        self._len += 1
        if self._hooks:
            for hook in self._hooks.get("create", ()):
                hook(node)
        return node

    def _number_nodes(self) -> None:
        for number, node in enumerate(self.nodes):
            node._number = number
        self._numbered = True

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = _NO_DEFAULT) -> Node:
        """An input of this name, annotated with a type, with a default.

        >>> import flambeau as torch
        >>> torch.fx.Graph().placeholder("x", default_value=1).args
        (1,)
        """
        bare = default_value is _NO_DEFAULT or default_value is inspect.Parameter.empty
        args = () if bare else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def _missing(self, qualified_name: str, module: bool) -> bool:
        """Whether the owning module, where there is one, has nothing under this dotted name."""
        value: Any = self._owning_module
        if value is None:
            return False
        for part in qualified_name.split("."):
            if not hasattr(value, part):
                return True
            value = getattr(value, part)
        return module and not hasattr(value, "forward")

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or other attribute of the module by its dotted name; warns where the owning module has none.

        >>> import flambeau as torch
        >>> torch.fx.Graph().get_attr("layer.weight")
        layer_weight
        """
        if self._missing(qualified_name, False):
            import warnings

            warnings.warn(
                f"Graph.get_attr(): the owning GraphModule has no attribute {qualified_name!r}: use GraphModule.add_submodule, "
                "register_parameter or register_buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of the submodule of this dotted name; AttributeError where the owning module has none.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> graph.call_module("layer.0", (graph.placeholder("x"),))
        layer_0
        """
        if self._missing(module_name, True):
            raise AttributeError(
                f"Graph.call_module(): the owning GraphModule has no submodule `{module_name}`; GraphModule.add_submodule adds one"
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a method of `args[0]`.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> graph.call_method("view", (graph.placeholder("x"), -1))
        view
        """
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function; ValueError for what is none.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> graph.call_function(torch.add, (graph.placeholder("x"), 1))
        add
        """
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """What the graph returns: a node, or a structure of nodes and other values.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> graph.output([graph.placeholder("x")]).args
        ([x],)
        """
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def _target_to_str(self, target: Target | None) -> str:
        if callable(target):
            name = getattr(target, "__name__", type(target).__name__)
        else:
            name = str(target)
            if name.startswith("*"):
                name = f"_{name.lstrip('*')}"
        if name.startswith("__") and name.endswith("__") and len(name) > 4:
            name = name[2:-2]
        return _snake_case(name)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A copy of another graph's node here, `arg_transform` telling what stands for the nodes that it uses; `meta` is copied.

        >>> import flambeau as torch
        >>> old, new = torch.fx.Graph(), torch.fx.Graph()
        >>> y = old.call_function(torch.relu, (old.placeholder("x"),))
        >>> x = new.placeholder("z")
        >>> new.node_copy(y, lambda n: x).args
        (z,)
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError(f"the arguments of {node.name} are a {type(args).__name__}, not a tuple")
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copy all nodes of another graph but its output here; returns what that returned, in terms of the copies, else None.

        `val_map` says which nodes here stand for nodes there, and gets the copies.  `return_output_node` returns the pair of the value
        and the output node of `g`.

        >>> import flambeau as torch
        >>> old, new = torch.fx.Graph(), torch.fx.Graph()
        >>> _ = old.output(old.call_function(torch.relu, (old.placeholder("x"),)))
        >>> new.graph_copy(old, {})
        relu
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0] if node.args else None, lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        made._codegen = copy.deepcopy(self._codegen, memo)
        memo[id(self)] = made
        copies: dict[Node, Node] = {}
        result = made.graph_copy(self, copies, return_output_node=True)
        if result is not None:
            value, old = result
            output = made.output(value, old.type)
            output.meta = copy.copy(old.meta)
        return made

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out; RuntimeError while others use its value, or where it is not of this graph.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> graph.erase_node(graph.placeholder("x"))
        >>> list(graph.nodes)
        []
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(
                f"Attempting to remove {to_erase} from the wrong graph: it belongs to another Graph"
            )
        if to_erase._erased:
            import warnings

            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in self._hooks.get("erase", ()):
            hook(to_erase)
        if self._anchor is to_erase:
            self._anchor, self._after = to_erase._next, False
        to_erase._unlink()  # its own links stay, for who is going through the nodes
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs((), {})

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.users.clear()
            self.erase_node(node)

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes before this one, or at the beginning; in a `with` statement, until its end.

        AssertionError for a node of another graph.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> with graph.inserting_before(x):
        ...     y = graph.placeholder("y")
        >>> list(graph.nodes)
        [y, x]
        """
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError(f"Node to insert before, {n}, is not in graph.")
        return _InsertPoint(self, n, False)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes after this one, or at the end; in a `with` statement, until its end.

        Each comes right after `n`, and so before what was inserted there earlier.  AssertionError for a node of another graph.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> x, y = graph.placeholder("x"), graph.placeholder("y")
        >>> with graph.inserting_after(x):
        ...     z = graph.placeholder("z")
        >>> list(graph.nodes)
        [x, z, y]
        """
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError(f"Node to insert after, {n}, is not in graph.")
        return _InsertPoint(self, n, True)

    def process_inputs(self, *args: Any) -> Any:
        """What placeholders take of the arguments of the generated function.

        >>> import flambeau as torch
        >>> torch.fx.Graph().process_inputs(1, 2)
        (1, 2)
        """
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What the generated function returns of the output's value.

        >>> import flambeau as torch
        >>> torch.fx.Graph().process_outputs(1)
        1
        """
        return self._codegen.process_outputs(out)

    # --- code -------------------------------------------------

    def python_code(self, root_module: str, *, verbose: bool = False, **options: bool) -> PythonCode:
        """The graph as a function in Python, `root_module` being the name of the module in it.

        `verbose` adds the lines of the program that nodes came from, and dtypes and shapes where they are known; of PyTorch's other
        options, which decorate them, `include_stride` and `include_device` are taken.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> _ = graph.output(graph.call_function(torch.relu, (x,)))
        >>> print(graph.python_code("self").src.strip())
        def forward(self, x):
            relu = flambeau.relu(x);  x = None
            return relu
        """
        comments = described = None
        if verbose:
            from ._verbose import comments_of, describer

            comments, described = comments_of(), describer(**options)
        return self._codegen.write(self.nodes, root_module, _Namespace(), comments, described)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Let another object write the code.

        >>> import flambeau as torch
        >>> torch.fx.Graph().set_codegen(torch.fx.graph.CodeGen())
        """
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[Any], Callable[[list[str]], list[str]]]
    ) -> contextlib.AbstractContextManager[None]:
        """Register a function that changes the lines of the generated body; `with` takes it back at its end.

        `make_transformer` gets the function that was registered before, or None, and returns the one for now.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> _ = graph.output(graph.placeholder("x"))
        >>> with graph.on_generate_code(lambda former: lambda body: ["print('here')", *body]):
        ...     print(graph.python_code("self").src.strip())
        def forward(self, x):
            print('here')
            return x
        """
        former = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(former)

        @contextlib.contextmanager
        def registered() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = former

        return registered()

    def __str__(self) -> str:
        return self._printed()

    def _printed(self, **options: Any) -> str:
        returned = [""]
        lines = [n.format_node(None, returned, **options) for n in self.nodes]
        return f"graph(){returned[0]}:" + "".join(f"\n    {line}" for line in lines)

    def print_tabular(self) -> None:
        """Print the nodes as a table: opcode, name, target, args, kwargs.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> graph.print_tabular()
        opcode       name    target    args    kwargs
        -----------  ------  --------  ------  --------
        placeholder  x       x         ()      {}
        """
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(len(row[k]) + (2 if row is rows[0] else 0) for row in rows) for k in range(5)]
        rows.insert(1, tuple("-" * w for w in widths))  # type: ignore[arg-type]
        for row in rows:
            print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())

    # --- checks and passes -------------------------------------------------

    def lint(self) -> None:
        """Check that the graph is one: RuntimeError that names the first node at fault.

        Each node belongs to this graph, is of a known kind, has a name of its own and uses only nodes that come before it, whose users
        it is; placeholders come first, an output last; what call_module and get_attr name is in the owning module.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> y = graph.call_function(torch.relu, (x,))
        >>> y.append(x)
        >>> graph.lint()
        Traceback (most recent call last):
        RuntimeError: Argument 'x' of Node 'relu' was used before it has been defined! Nodes stand in the order in which they run
        """
        names: set[str] = set()
        before: set[Node] = set()
        for node in self.nodes:
            self._check_node(node, names, before)
            before.add(node)
        if self._owning_module is not None:
            for node in self.nodes:
                if node.op in ("call_module", "get_attr"):
                    self._check_target(node)

    def _check_node(self, node: Node, names: set[str], before: set[Node]) -> None:
        if node.op not in OPS or node.op == "root":
            raise RuntimeError(f"Node '{node}' had unknown opcode {node.op}!")
        if node.graph is not self:
            raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
        if node.name in names:
            raise RuntimeError(f"Node redefined name '{node.name}'!")
        names.add(node.name)
        if node.op == "call_function" and not callable(node.target):
            raise RuntimeError(
                f"Node '{node}' target {node.target!r} has type {type(node.target).__name__} but a Callable is expected"
            )
        if node.op != "call_function" and not isinstance(node.target, str):
            raise RuntimeError(
                f"Node '{node}' target {node.target!r} has type {type(node.target).__name__} but a str is expected"
            )
        if before and any(n.op == "output" for n in (node._prev,)):
            raise RuntimeError(f"Node '{node}' comes after the output")
        for used in node._input_nodes:
            if used.graph is not self:
                raise RuntimeError(
                    f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as an argument! "
                    "Graph.node_copy takes `arg_transform`, which says what stands for nodes of another graph"
                )
            if used._erased:
                raise RuntimeError(f"Argument '{used}' of Node '{node}' was erased from this Graph")
            if used not in before:
                raise RuntimeError(
                    f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                    "Nodes stand in the order in which they run"
                )
            if node not in used.users:
                raise RuntimeError(f"Node '{node}' uses '{used}', among whose users it is not")
        for user in node.users:
            if user._erased or node not in user._input_nodes:
                raise RuntimeError(f"Node '{node}' has the user '{user}', which does not use it")

    def _check_target(self, node: Node) -> None:
        owner: Any = self._owning_module
        parts = str(node.target).split(".")
        for k, part in enumerate(parts):
            if not hasattr(owner, part):
                where = ".".join(parts[:k]) or type(owner).__name__
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {part} of {where}"
                )
            owner = getattr(owner, part)
        if node.op == "call_module" and not callable(owner):
            raise RuntimeError(
                f"Node {node} target {node.target} does not reference an nn.Module, but a {type(owner).__name__}"
            )

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase the nodes whose values nothing uses, and which do nothing else; whether there were any.

        `is_impure_node` says which nodes stay, in place of `Node.is_impure`.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> _ = graph.call_function(torch.relu, (x,))
        >>> _ = graph.output(x)
        >>> graph.eliminate_dead_code(), list(graph.nodes)
        (True, [x, output])
        """
        self.lint()
        stays = Node.is_impure if is_impure_node is None else is_impure_node
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not stays(node):
                self.erase_node(node)
                changed = True
        return changed


__getattr__ = refusing("fx.graph")
