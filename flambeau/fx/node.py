"""`Node`: one step of a graph, with what it calls, its arguments and the nodes that use its value."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .._compat.absent import refusing
from .._tensor import Tensor
from ..core.base import display
from ..core.base.dtypes import device, dtype
from ..core.base.formats import layout, memory_format
from ..core.call.operation import Op, behind
from ._names import OWN, qualified_name, typename
from .immutable_collections import immutable_dict, immutable_list
from .operator_schemas import ArgsKwargsPair, normalize_function, normalize_module

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
BaseArgumentTypes = (
    str | int | float | bool | complex | dtype | Tensor | device | memory_format | layout | None
)
Argument = Any  # base types, nodes, and tuples, lists, dictionaries, slices and ranges of them
base_types: tuple[type, ...] = (str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout)
P = ParamSpec("P")
R = TypeVar("R")

OPS = frozenset(("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root"))
_ATOMS = frozenset((int, str, float, bool, type(None), dtype, device))
_side_effectful_functions: set[Callable[..., Any]] = {operator.setitem}


def has_side_effect(fn: Callable[P, R]) -> Callable[P, R]:
    """Say that calls of a function stay in graphs though nothing uses their results; returns the function.

    Raises nothing.

    >>> import flambeau as torch
    >>> @torch.fx.has_side_effect
    ... def shown(x):
    ...     print(x)
    >>> graph = torch.fx.Graph()
    >>> graph.call_function(shown, (graph.placeholder("x"),)).is_impure()
    True
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Arguments of the same structure with `fn` of each leaf: through tuples, named ones too, lists, dictionaries and slices.

    Raises nothing.

    >>> from flambeau.fx.node import map_aggregate
    >>> map_aggregate((1, [2, {"k": 3}]), lambda x: x + 1)
    (2, [3, {'k': 4}])
    """
    if isinstance(a, tuple):
        made = [map_aggregate(x, fn) for x in a]
        return type(a)(*made) if hasattr(a, "_fields") else tuple(made)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Arguments with `fn` of each node in them.

    AssertionError where `fn` is no function.

    >>> import flambeau as torch
    >>> x = torch.fx.Graph().placeholder("x")
    >>> torch.fx.map_arg([x, 1], lambda n: n.name)
    ['x', 1]
    """
    if not callable(fn):
        raise AssertionError(f"map_arg(): argument 'fn' must be a function, not {type(fn).__name__}")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _settled(a: Any, inputs: dict[Node, None]) -> Any:
    """An argument with its lists and dictionaries made immutable; the nodes in it enter `inputs`."""
    kind = type(a)
    if kind in _ATOMS:
        return a
    if kind is Node or isinstance(a, Node):
        inputs[a] = None
        return a
    if isinstance(a, tuple):
        made = [_settled(x, inputs) for x in a]
        return kind(*made) if hasattr(a, "_fields") else tuple(made)
    if isinstance(a, list):
        return immutable_list([_settled(x, inputs) for x in a])
    if isinstance(a, dict):
        return immutable_dict({k: _settled(v, inputs) for k, v in a.items()})
    if kind is slice:
        return slice(_settled(a.start, inputs), _settled(a.stop, inputs), _settled(a.step, inputs))
    return a


def _format_arg(a: Any, max_list_len: float = float("inf")) -> str:
    if isinstance(a, Node):
        return f"%{a}"
    if isinstance(a, list):
        shown = ", ".join(_format_arg(x) for k, x in enumerate(a) if k < max_list_len)
        more = f", ...[total_len={len(a)}]" if len(a) > max_list_len else ""
        return f"[{shown}{more}]"
    if isinstance(a, tuple):
        shown = ", ".join(_format_arg(x) for x in a)
        return f"({shown},)" if len(a) == 1 else f"({shown})"
    if isinstance(a, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in a.items()) + "}"
    return str(a)


def _get_qualified_name(func: Callable[..., Any]) -> str:
    return qualified_name(func)


class Node:
    """A step of a graph; `Graph.create_node` and its kin make them.

    `op` is one of

    - ``placeholder``: an input; `target` is its name, `args` its default value
    - ``get_attr``: a parameter, buffer or other attribute of the module, by its dotted name `target`
    - ``call_function``: `target(*args, **kwargs)`
    - ``call_module``: the submodule of the dotted name `target`, called
    - ``call_method``: `args[0].target(*args[1:], **kwargs)`
    - ``output``: what the graph returns, `args[0]`

    `users` are the nodes that use its value, `meta` is a dictionary for whatever passes know of it: "tensor_meta", "stack_trace", "val".

    Raises:
        ValueError: `target` is no function where `op` is call_function, or no str elsewhere

    >>> import flambeau as torch
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.relu, (x,))
    >>> y.op, y.args, x.users
    ('call_function', (x,), {relu: None})
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_args",
        "_erased",
        "_input_nodes",
        "_kwargs",
        "_next",
        "_number",
        "_prev",
        "_repr_fn",
        "graph",
        "meta",
        "name",
        "op",
        "target",
        "type",
        "users",
    )

    _args: tuple
    _kwargs: dict[str, Any]
    _next: Node
    _prev: Node

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple,
        kwargs: Mapping[str, Any],
        return_type: Any = None,
    ) -> None:
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._repr_fn: Callable[[Node], str] | None = None
        self._erased, self._number = False, 0
        self._prev = self._next = self
        self._input_nodes: dict[Node, None] = {}
        self._update_args_kwargs(args, kwargs)

    def _update_args_kwargs(self, args: Any, kwargs: Any) -> None:
        for used in self._input_nodes:
            used.users.pop(self, None)
        inputs: dict[Node, None] = {}
        self._input_nodes = inputs
        self._args = _settled(args, inputs)
        self._kwargs = _settled(kwargs, inputs)
        for used in inputs:
            used.users[self] = None

    def __repr__(self) -> str:
        return self.name if self._repr_fn is None else self._repr_fn(self)

    def __copy__(self) -> Node:
        raise TypeError("a Node is copied by Graph.node_copy, into a graph")

    def __deepcopy__(self, memo: dict) -> Node:
        raise TypeError("a Node is copied with its graph: copy.deepcopy(graph), or Graph.node_copy")

    # --- the order -------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after it; after the last one comes the root, which stands for no step."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before it."""
        return self._prev

    def _place(self) -> int:
        if not self.graph._numbered:
            self.graph._number_nodes()
        return self._number

    def __lt__(self, other: Node) -> bool:
        return self._place() < other._place()

    def __gt__(self, other: Node) -> bool:
        return self._place() > other._place()

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    def prepend(self, x: Node) -> None:
        """Move `x`, of the same graph, to the place before this node.

        AssertionError for a node of another graph.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> a, b = graph.placeholder("a"), graph.placeholder("b")
        >>> a.prepend(b)
        >>> list(graph.nodes)
        [b, a]
        """
        if self.graph is not x.graph:
            raise AssertionError(f"Attempting to move {x!r}, a Node of another Graph, before {self!r}")
        if x is self or x is self._prev:
            return
        x._unlink()
        x._link(self._prev, self)
        self.graph._numbered = False

    def append(self, x: Node) -> None:
        """Move `x`, of the same graph, to the place after this node.

        AssertionError for a node of another graph.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> a, b, c = map(graph.placeholder, "abc")
        >>> a.append(c)
        >>> list(graph.nodes)
        [a, c, b]
        """
        if x is not self:
            self._next.prepend(x)

    def _link(self, before: Node, after: Node) -> None:
        before._next = after._prev = self
        self._prev, self._next = before, after

    def _unlink(self) -> None:
        before, after = self._prev, self._next
        before._next, after._prev = after, before

    # --- arguments -------------------------------------------------

    @property
    def args(self) -> tuple:
        """The positional arguments, in which nodes stand for their values; assign another tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: Any) -> None:
        self._update_args_kwargs(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments; assign another dictionary to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: Mapping[str, Any]) -> None:
        self._update_args_kwargs(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes whose values it uses, each once, in the order of its arguments."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Set one positional argument.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> y = graph.call_function(torch.add, (graph.placeholder("x"), 1))
        >>> y.update_arg(1, 5)
        >>> y.args
        (x, 5)
        """
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Insert a positional argument before place `idx`; AssertionError where that is not from 0 to their number.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> y = graph.call_function(torch.add, (1,))
        >>> y.insert_arg(0, graph.placeholder("x"))
        >>> y.args
        (x, 1)
        """
        if not 0 <= idx <= len(self._args):
            raise AssertionError(
                f"insert_args index must be between 0 and len(self.args) = {len(self._args)}, got {idx}"
            )
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Set one keyword argument.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> y = graph.call_function(torch.sum, (graph.placeholder("x"),))
        >>> y.update_kwarg("dim", 0)
        >>> y.kwargs
        {'dim': 0}
        """
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use `new_input` in this node's arguments wherever `old_input` was used.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> a, b = graph.placeholder("a"), graph.placeholder("b")
        >>> y = graph.call_function(torch.add, (a, a))
        >>> y.replace_input_with(a, b)
        >>> y.args
        (b, b)
        """
        self._replace(old_input, new_input)

    def _replace(self, old: Node, new: Node) -> None:
        def other(n: Node) -> Node:
            return new if n is old else n

        hooks = getattr(self.graph.owning_module, "_replace_hooks", None)
        for hook in hooks or ():
            hook(old=old, new=new.name, user=self)
        self._update_args_kwargs(map_arg(self._args, other), map_arg(self._kwargs, other))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let all users of this node, or those for which `delete_user_cb` is true, use another; returns the users that changed.

        `propagate_meta` copies this node's `meta` to the other one, whose own must be empty (AssertionError).

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> a, b = graph.placeholder("a"), graph.placeholder("b")
        >>> y = graph.call_function(torch.relu, (a,))
        >>> a.replace_all_uses_with(b), y.args
        ([relu], (b,))
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        chosen = [n for n in self.users if delete_user_cb is None or delete_user_cb(n)]
        for user in chosen:
            user._replace(self, replace_with)
        return chosen

    # --- what is known of it -------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """The lines of the program that made it, where the tracer recorded them."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it does more than compute its value, so that it stays though nothing uses it.

        Inputs and outputs; operations that write to their arguments, and, if `impure_random`, that draw random numbers; functions of
        `has_side_effect`; modules with `_is_impure`.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> graph.call_function(torch.relu, (x,)).is_impure(), graph.call_function(torch.relu_, (x,)).is_impure()
        (False, True)
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            if self.target in _side_effectful_functions or self.target is getattr(
                sys.modules[OWN], "_assert", None
            ):
                return True
            op = behind(self.target)
            if not isinstance(op, Op):
                return getattr(getattr(op, "_schema", None), "is_mutable", False)
            entry = op.entry
            if impure_random and entry is not None and entry.kind == "random":
                return True
            return bool(op.writes) or "out" in self._kwargs or bool(self._kwargs.get("inplace"))
        if self.op == "call_method":
            return str(self.target).endswith("_") and not str(self.target).endswith("__")
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return bool(getattr(owner.get_submodule(str(self.target)), "_is_impure", False))
        return False

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """The arguments with defaults filled in, by position or all by name; None where the signature is not known.

        `root` is the module that call_module means.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> y = graph.call_function(torch.nn.functional.relu, (graph.placeholder("x"),))
        >>> y.normalized_arguments(torch.nn.Module(), normalize_to_only_use_kwargs=True).kwargs
        {'input': x, 'inplace': False}
        """
        if self.op == "call_function":
            return normalize_function(
                self.target,  # type: ignore[arg-type]
                self._args,
                self._kwargs,
                arg_types,
                kwarg_types,
                normalize_to_only_use_kwargs,
            )
        if self.op == "call_module":
            return normalize_module(
                root, str(self.target), self._args, self._kwargs, normalize_to_only_use_kwargs
            )
        return None

    @staticmethod
    def _pretty_print_target(target: Any) -> str:
        if isinstance(target, str):
            return target
        name = qualified_name(target)
        return name if "." in name else f"builtins.{name}"

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The line that a printed graph has of it; `include_tensor_metadata` adds dtypes and shapes that `ShapeProp` or `make_fx` found.

        >>> import flambeau as torch
        >>> graph = torch.fx.Graph()
        >>> graph.call_function(torch.relu, (graph.placeholder("x"),)).format_node()
        '%relu : [num_users=0] = call_function[target=flambeau.relu](args = (%x,), kwargs = {})'
        """
        kind = "" if self.type is None else f"{typename(self.type)} "
        if include_tensor_metadata and (val := self._described()):
            kind = f"{val} "
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(f"{self.target}")
            default = f"(default={self._args[0]})" if self._args else ""
            return f"{head}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"{head}[target={self._pretty_print_target(self.target)}]"
        if self.op == "output":
            if self.type is not None and maybe_return_typename:
                maybe_return_typename[0] = f" -> {typename(self.type)}"
            return f"return {self._args[0] if self._args else None}"
        return (
            f"{head}[target={self._pretty_print_target(self.target)}]"
            f"(args = {_format_arg(self._args)}, kwargs = {_format_arg(self._kwargs)})"
        )

    def _described(self) -> str:
        """The dtype and shape of its value, as "float32[2, 3]"; empty where they are not known."""
        val = self.meta.get("val", self.meta.get("tensor_meta"))
        shape, of = getattr(val, "shape", None), getattr(val, "dtype", None)
        if shape is None or of is None:
            return ""
        return f"{str(of).removeprefix(f'{display.NAME}.')}[{', '.join(map(str, shape))}]"

    def _rename(self, candidate: str) -> None:
        """Give it another name, like `candidate`, that no other node has."""
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)

    def _remove_from_list(self) -> None:
        self._unlink()


_type_repr = typename
__getattr__ = refusing("fx.node")
