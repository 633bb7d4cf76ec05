"""What a recorder holds: the graph, and for each tensor of the program its node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from .._symbols.environment import Symbols
from .._symbols.numbers import SymNumber
from ..core.base.tensor import TensorBase
from ..core.tape import is_grad_enabled
from ..fx.graph import Graph
from ..fx.node import Node, map_arg
from ..graph.record import Recording, place, serial
from ..library._targets import target
from ._lines import stack_trace, user_line
from ._shadows import Lifted, Traced, like, shadow_of, storages_of, value_of
from ._values import TensorValue
from .errors import UserError


class Nodes:
    """The graph, its inputs, and the nodes that tensors of the program are."""

    is_jit = False

    def __init__(self, symbols: Symbols, attributes: Mapping[int, tuple[Any, str, str]]) -> None:
        self.symbols, self.attributes = symbols, attributes
        self.graph = Graph()
        self.suspended = 0
        self.entries: dict[
            int, tuple[Any, Traced]
        ] = {}  # by identity; with the tensors, so that it stays theirs
        self.places: dict[Any, Traced] = {}
        self.lifted: list[Lifted] = []
        self.first: Node | None = (
            None  # the first node of the program's inputs, before which lifted tensors stand
        )
        self.requested: dict[tuple[Any, ...], Any] = {}
        self.computed_before: dict[Any, Any] = {}
        self.recording = Recording()
        self.read_calls = 0
        self.made: set[int] = set()  # storages of what leaves gave
        self.inside = 0  # bodies of composites that are being recorded
        self.sized = False  # one of them has read a size
        self.modules: list[tuple[str, str]] = []  # those that are being called: paths and classes
        self.unbacked = 0
        self.asserted: set[str] = set()
        self.submodules: dict[str, Any] = {}  # graphs of branches
        self.branches = 0
        self.began_with_grad = is_grad_enabled()
        self.without_history: set[Node] = set()  # what no gradient flows through, such as buffers
        self.decompositions: Mapping[Any, Callable[..., Any]] = {}  # what runs in the place of overloads
        self.program_graph = self.graph  # that of the program, while `graph` may be that of a branch
        self.captured: dict[Node, Node] | None = (
            None  # in a branch: nodes outside, and the inputs that stand for them
        )

    @property
    def count(self) -> int:
        """How many worlds there are beside the example's."""
        return len(self.symbols.worlds) - 1

    # --- tensors ------------------------------
    def enter(self, t: Any, result: Traced) -> None:
        """Let what is known stand for a tensor from here on."""
        self.entries[id(t)] = t, result
        self.places[place(t)] = result

    def knows(self, t: Any) -> bool:
        """Whether a tensor's sizes may be symbols."""
        return (
            self.count > 0
            and id(t) not in self.attributes
            and (id(t) in self.entries or place(t) in self.places)
        )

    def traced(self, t: Any) -> Traced:
        """What is known of a tensor: of one that was there before, or came otherwise, a node that gives it."""
        result = self.entries.get(id(t))
        return self._discovered(t) if result is None else result[1]

    def _discovered(self, t: Any) -> Traced:
        if id(t) in self.attributes:
            _, kind, name = self.attributes[id(t)]
            result = self.lift(t, kind, name)
        elif place(t) in self.places:
            before = self.places[place(t)]
            node = self.node(target("aten", "detach"), (before.node,), {})
            result = Traced(node, self._untracked(before.value), before.shadows)
            self._describe(result)
        else:
            self._read_recording()
            if serial(t) in self.made:
                raise UserError(
                    f"export(): the program uses a tensor of shape {tuple(t.shape)} that comes of calls which are not recorded, such as "
                    f"those of a backward pass or of `.grad`{user_line()}"
                )
            result = self._lift_constant(t)
        self.enter(t, result)
        return result

    def _lift_constant(self, t: Any) -> Traced:
        k = sum(x.name.startswith("lifted_tensor_") for x in self.lifted)
        return self.lift(t, "constant", f"lifted_tensor_{k}")

    def _untracked(self, value: TensorValue) -> TensorValue:
        return TensorValue(
            value.shape, value.dtype, value.strides, value.device, False, value.layout, value.offset
        )

    def _read_recording(self) -> None:
        calls = self.recording.calls()
        for call in calls[self.read_calls :]:
            storages_of(call.result, self.made)
        self.read_calls = len(calls)

    def lift(self, t: Any, kind: str, name: str) -> Traced:
        """An input for a tensor that the module holds, or that is there anyway."""
        prefix = {"parameter": "p_", "buffer": "b_", "constant": "c_"}[kind]
        label = prefix + "".join(c if c.isalnum() else "_" for c in name)
        with self._before_inputs():
            node = self.program_graph.create_node("placeholder", label, name=label)
        node.target = node.name
        self.suspended += 1
        shadow = shadow_of(t)
        result = Traced(node, value_of(t, tuple(t.shape), tuple(t.stride())), (shadow,) * self.count)
        self.suspended -= 1
        self._describe(result)
        self.lifted.append(Lifted(kind, name, t, node))
        if kind != "parameter" and not t.requires_grad:
            self.without_history.add(node)
        self.enter(t, result)
        return result

    def _before_inputs(self) -> Any:
        """Where lifted tensors stand: before the program's inputs, and before anything that is computed."""
        first = self.first or next((n for n in self.program_graph.nodes if n.op != "placeholder"), None)
        return contextlib.nullcontext() if first is None else self.program_graph.inserting_before(first)

    def _describe(self, result: Traced) -> None:
        result.node.meta["val"] = result.value

    # --- nodes ------------------------------
    def node(self, function: Any, args: tuple, kwargs: dict[str, Any], name: str | None = None) -> Node:
        """A node at the end, with what is known of where it is."""
        wish = name or getattr(function, "_opname", None) or getattr(function, "__name__", None)
        if self.captured is not None:
            args, kwargs = map_arg(args, self.inner), map_arg(kwargs, self.inner)
        made = self.graph.create_node("call_function", function, args, kwargs, name=wish)
        trace = stack_trace()
        if trace is not None:
            made.meta["stack_trace"] = trace
        made.meta["nn_module_stack"] = {
            f"L__self__{path.replace('.', '_')}": (path.partition("@")[0], kind)
            for path, kind in self.modules
        }
        made.meta["torch_fn"] = (made.name, str(function))
        return made

    def inner(self, node: Any) -> Any:
        """A node of this graph for one outside, of which a branch reads the value."""
        if self.captured is None or not isinstance(node, Node) or node.graph is self.graph:
            return node
        result = self.captured.get(node)
        if result is None:
            last = [n for n in self.graph.nodes if n.op == "placeholder"]
            first = next(iter(self.graph.nodes), None)
            with (
                self.graph.inserting_after(last[-1])
                if last
                else self.graph.inserting_before(first)
                if first is not None
                else contextlib.nullcontext()
            ):
                result = self.captured[node] = self.graph.create_node("placeholder", node.name)
            result.meta.update(node.meta)
        return result

    def has_effect(self, node: Node) -> bool:
        """Whether a call writes to an argument, or only checks."""
        function = node.target
        if bool(getattr(function, "writes", False)):
            return True
        schema = getattr(function, "_schema", None)
        return schema is not None and (schema.is_mutable or not schema.returns)

    def like(self, value: TensorValue, t: Any, assigned: Mapping[str, int]) -> Any:
        """A tensor without data for given sizes."""
        self.suspended += 1
        try:
            return like(value, t, assigned)
        finally:
            self.suspended -= 1

    def reference(self, x: Any) -> Any:
        """An argument as graphs hold it."""
        if isinstance(x, TensorBase):
            return self.traced(x).node
        if isinstance(x, SymNumber):
            return self.number_node(x)
        if isinstance(x, slice):
            return slice(*map(self.reference, (x.start, x.stop, x.step)))
        if isinstance(x, dict):
            return {k: self.reference(v) for k, v in x.items()}
        if isinstance(x, (tuple, list)):
            return [self.reference(v) for v in x] if type(x) is not tuple else tuple(map(self.reference, x))
        return x

    def number_node(self, n: SymNumber) -> Any:
        """The node that computes a number."""
        return n.name.node if n.name.node is not None else n.value
