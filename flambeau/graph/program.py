"""A recorded graph as values in memory and the calls that make them: what passes and plans work on.

A value is a tensor: a geometry over a root, the value whose memory it lies in.  A call that returns what it was given, or a view of it,
computes nothing, and is no call of the program.  Calls are in an order in which they may run; `after` says what each has to wait
for: what made the memory it reads, and what read or wrote the memory that it writes to.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..core.base.tensor import TensorBase
from ..fx import GraphModule, Node
from .decompose import decomposed
from .record import Place
from .trace import mapped, number_of


class Value:
    """A tensor of the program; `call` makes it, or it is an input or a constant.

    One with `reads` is not read from memory: its reader computes the call again, from these values.
    """

    __slots__ = ("call", "number", "place", "reads", "root", "tensor")

    def __init__(
        self, number: int, place: Place, call: Call | None = None, root: Value | None = None
    ) -> None:
        self.number, self.place, self.call = number, place, call
        self.root = self if root is None else root
        self.tensor: TensorBase | None = None  # of a constant
        self.reads: tuple[Value, ...] | None = None

    def computed_by(self, call: Call, reads: tuple[Value, ...]) -> Value:
        """The value as a reader of it computes it."""
        value = Value(self.number, self.place, call, self.root)
        value.reads = reads
        return value

    @property
    def shape(self) -> tuple[int, ...]:
        return self.place.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements; 0 for dimensions of size 1, along which nothing moves."""
        return tuple(0 if n == 1 else s for n, s in zip(self.place.shape, self.place.stride))

    @property
    def dtype(self) -> Any:
        return self.place.dtype

    @property
    def device(self) -> Any:
        """The `Device` that it lies on; None for the host."""
        return self.place.device

    @property
    def offset(self) -> int:
        """Elements from where the root begins."""
        return self.place.offset - self.root.place.offset * self.root.dtype.itemsize // self.dtype.itemsize

    @property
    def at(self) -> int:
        """Bytes from where the root begins."""
        root = self.root
        return self.place.offset * self.dtype.itemsize - root.place.offset * root.dtype.itemsize

    @property
    def mT(self) -> Value:
        """The value with its last two dimensions exchanged."""
        p = self.place
        turned = p._replace(
            shape=(*p.shape[:-2], p.shape[-1], p.shape[-2]),
            stride=(*p.stride[:-2], p.stride[-1], p.stride[-2]),
        )
        return Value(self.number, turned, self.call, self.root)

    def flatten(self, start: int, end: int) -> Value:
        """The value with dimensions from `start` to `end` as one; its elements lie one after another."""
        begin, until = start % len(self.shape), end % len(self.shape) + 1
        shape = (*self.shape[:begin], math.prod(self.shape[begin:until]), *self.shape[until:])
        stride = tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
        return Value(self.number, self.place._replace(shape=shape, stride=stride), self.call, self.root)

    def is_contiguous(self) -> bool:
        """`contiguous`, as a tensor says it."""
        return self.contiguous

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie one after another."""
        step = 1
        for n, s in zip(reversed(self.shape), reversed(self.place.stride)):
            if n != 1 and s != step:
                return False
            step *= n
        return True

    @property
    def span(self) -> int:
        """Elements from its first to its last, gaps included."""
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.place.stride))

    def __repr__(self) -> str:
        return f"%{self.number}: {self.dtype.name}{list(self.shape)}"


class Number(Value):
    """The number that an input without dimensions holds: an operand as Python's numbers are, which promote no dtype."""

    __slots__ = ()

    @property
    def example(self) -> float:
        """A number of its class."""
        return 0.0 if self.dtype.is_floating_point else 0


class Call:
    """A leaf on values: `results` are those that it makes, `written` the roots that it writes to."""

    __slots__ = (
        "_values",
        "after",
        "again",
        "args",
        "backward",
        "kwargs",
        "number",
        "operation",
        "recorded",
        "results",
        "written",
    )

    def __init__(self, number: int, operation: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
        self.number, self.operation, self.args, self.kwargs = number, operation, args, kwargs
        self.recorded: int | None = None  # its number in the recording
        self.backward = False  # whether it is part of a backward pass within the program
        self.again = False  # whether it computes there what forward has computed
        self._values: tuple[Value, ...] | None = None
        self.results: tuple[Value, ...] = ()
        self.written: frozenset[Value] = frozenset()
        self.after: set[Call] = set()

    @property
    def name(self) -> str:
        return self.operation.__name__

    def values(self) -> tuple[Value, ...]:
        """The values that it reads: those among its arguments, or what these are computed from."""
        if self._values is None:
            result: list[Value] = []
            mapped(
                (self.args, self.kwargs), Value, lambda v: result.extend((v,) if v.reads is None else v.reads)
            )
            self._values = tuple(result)
        return self._values

    def arguments(self) -> list[Value]:
        """The values among its arguments, however they are computed."""
        result: list[Value] = []
        mapped((self.args, self.kwargs), Value, result.append)
        return result

    def set_arguments(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Give it others; the program is then to be ordered again."""
        self.args, self.kwargs, self._values = args, kwargs, None

    def __repr__(self) -> str:
        named = "".join(f", {k}={v!r}" for k, v in self.kwargs.items())
        arguments = ", ".join(f"%{a.number}" if isinstance(a, Value) else repr(a) for a in self.args)
        return f"{', '.join(map(repr, self.results))} = {self.name}({arguments}{named})"


class Program:
    """A graph of `graph.trace`, lowered; see above.

    >>> import flambeau as torch
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> graph, _ = record(lambda x: x.T.exp() + 1, torch.zeros(2, 3))
    >>> Program(graph)
    %0: float32[2, 3]
    %2: float32[3, 2] = exp(%1)
    %3: float32[3, 2] = add(%2, 1)
    return %3
    """

    def __init__(
        self, graph: GraphModule, backward: int | None = None, again: Mapping[int, int] | None = None
    ) -> None:
        """`backward`: the number of the recorded call with which a backward pass begins; `again`: calls of checkpointed regions, each with
        the number of its region.
        """
        self._regions = again or {}
        self._begins, self._inlines = backward, 0
        self._recorded: int | None = None  # the number of the leaf that is lowered
        self._again = False  # whether it is computed again
        self.values: list[Value] = []
        self.inputs: list[Value] = []
        self.calls: list[Call] = []
        self.outputs: Any = None
        self._made: dict[Node, Any] = {}
        self._storages: dict[int, Value] = {}
        self._drawn: Call | None = None  # the last call that has drawn random numbers
        self._writers: dict[Value, list[Call]] = {}
        self._readers: dict[Value, list[Call]] = {}
        for node in graph.graph.nodes:
            self._lower(graph, node)
        del self._made, self._storages

    def region(self, call: Call | None) -> int | None:
        """The checkpointed region that a call of forward is in; None for none."""
        if call is None or call.recorded is None or call.backward:
            return None
        return self._regions.get(call.recorded)

    def constants(self) -> Iterator[Value]:
        """Tensors that the program had before."""
        return (v for v in self.values if v.tensor is not None)

    def results(self) -> list[Value]:
        """The values that it returns, in the order of their structure."""
        result: list[Value] = []
        mapped(self.outputs, Value, result.append)
        return result

    def drop_dead(self, pure: Callable[[Call], bool]) -> None:
        """Leave out calls whose results nobody reads, of those that have no other effect, as `pure` says."""
        needed = {v.root for v in self.results()}
        living: list[Call] = []
        for call in reversed(self.calls):
            if pure(call) and not call.written and not any(v.root in needed for v in call.results):
                continue
            living.append(call)
            needed.update(v.root for v in (*call.values(), *call.written))
        self.calls = living[::-1]
        alive = set(living)
        for call in self.calls:
            call.after &= alive

    def is_current(self, value: Value, reader: Call) -> bool:
        """Whether a call finds in the value's memory what made the value, as nothing wrote to it between."""
        made = -1 if value.call is None else value.call.number
        return not any(made < w.number < reader.number for w in self._writers.get(value.root, ()))

    def is_unwritten(self, value: Value, maker: Call, reader: Call) -> bool:
        """Whether nothing writes to a value's memory from one call to another."""
        return not any(maker.number < w.number <= reader.number for w in self._writers.get(value.root, ()))

    def is_written(self, value: Value) -> bool:
        """Whether something writes to a value's memory after it was made."""
        made = -1 if value.root.call is None else value.root.call.number
        return any(w.number > made for w in self._writers.get(value.root, ()))

    def order(self) -> None:
        """Enter anew what each call has to wait for."""
        self._writers.clear()
        self._readers.clear()
        self._drawn = None
        for call in self.calls:
            call.after.clear()
            self._order(call)

    def may_be_donated(self, value: Value) -> bool:
        """Whether an input may be given up: nothing else lies in its memory, and no result does."""
        shared = [v for v in self.inputs if v.root is value.root]
        return len(shared) == 1 and all(v.root is not value for v in self.results())

    # --- from nodes ---
    def _value(self, place: Place, call: Call | None = None) -> Value:
        value = Value(len(self.values), place, call, self._storages.get(place.storage))
        self._storages.setdefault(place.storage, value)
        self.values.append(value)
        return value

    def _lower(self, graph: GraphModule, node: Node) -> None:
        if node.op == "output":
            self.outputs = mapped(node.args[0], Node, self._made.__getitem__)
        elif (
            node.op == "get_attr" and "places" not in node.meta
        ):  # no tensor: a generator, a node of the tape
            self._made[node] = operator.attrgetter(str(node.target))(graph)
        elif node.op in ("placeholder", "get_attr"):
            value = self._made[node] = self._value(node.meta["places"])
            if node.op == "placeholder":
                self.inputs.append(value)
            else:
                value.tensor = operator.attrgetter(str(node.target))(graph)
        elif node.target is number_of:
            given = self._made[node.args[0]]
            self._made[node] = Number(given.number, given.place, None, given.root)
        elif node.target is operator.getitem and isinstance(self._made[node.args[0]], (tuple, list)):
            self._made[node] = self._made[node.args[0]][node.args[1]]
        else:
            self._enter(node)

    def _enter(self, node: Node) -> None:
        """A call of the program; or none, where it computes nothing."""
        operation: Any = node.target
        args, kwargs = mapped((node.args, node.kwargs), Node, self._made.__getitem__)
        call = Call(len(self.calls), operation, args, kwargs)
        if not self._inlines:
            self._recorded = node.meta.get("call")
        call.recorded = self._recorded  # of the leaf, where this is what a leaf decomposes to
        if self._begins is not None and self._recorded is not None:
            call.backward = self._recorded >= self._begins
        call.again = node.meta.get("again", self._again)
        given = call.values()
        storages = {v.root.place.storage: v.root for v in given}
        places: list[Place] = []
        mapped(node.meta["places"], Place, places.append)
        shared = {storages[p.storage] for p in places if p.storage in storages}
        call.written = _written(operation, args, kwargs)
        if (
            shared and not call.written and all(p.storage in storages for p in places)
        ):  # views, or what was given
            self._made[node] = mapped(node.meta["places"], Place, lambda p: self._view(p, given))
            return
        distinct = list(dict.fromkeys(given))
        inner = None if call.written else decomposed(operation, args, kwargs, distinct, node.meta["places"])
        if inner is not None:
            self._again = call.again
            self._made[node] = self._inline(inner, distinct)
            self._again = False
            return
        results: list[Value] = []

        def made(place: Place) -> Value:
            results.append(self._value(place, call))
            return results[-1]

        self._made[node] = mapped(node.meta["places"], Place, made)
        call.results = tuple(results)
        self._order(call)
        self.calls.append(call)

    def _inline(self, graph: GraphModule, given: Sequence[Value]) -> Any:
        """The calls of a leaf, and its results."""
        arguments, result = iter(given), None
        self._inlines += 1
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                self._made[node] = next(arguments)
            elif node.op == "output":
                result = mapped(node.args[0], Node, self._made.__getitem__)
            else:
                self._lower(graph, node)
        self._inlines -= 1
        return result

    def _view(self, place: Place, given: Sequence[Value]) -> Value:
        """A view is made when what it is a view of is."""
        same = next((v for v in given if v.place == place), None)
        if same is not None:
            return same
        base = next(v for v in given if v.root.place.storage == place.storage)
        return self._value(place, base.call)

    def _order(self, call: Call) -> None:
        for root in {v.root for v in call.values()} | call.written:
            writers, readers = self._writers.setdefault(root, []), self._readers.setdefault(root, [])
            if root.call is not None:
                call.after.add(root.call)
            call.after.update(writers)
            if root in call.written:
                call.after.update(readers)
                writers.append(call)
            else:
                readers.append(call)
        if draws(
            call.operation
        ):  # in the order of the program, each from where the one before has left the generator
            if self._drawn is not None:
                call.after.add(self._drawn)
            self._drawn = call
        call.after.discard(call)

    def __repr__(self) -> str:
        lines = [repr(v) for v in self.inputs]
        lines += [f"{v!r} = constant" for v in self.constants()]
        lines += map(repr, self.calls)
        returned = mapped(self.outputs, Value, lambda v: f"%{v.number}")
        shown = returned if isinstance(returned, str) else repr(returned)
        # results with names are on lines of their own
        return "\n".join([*lines, "return " + shown.replace("(\n", "(").replace("\n", " ")])


def draws(operation: Any) -> bool:
    """Whether a call takes random numbers."""
    entry = getattr(operation, "entry", None)
    return entry is not None and entry.kind == "random" or getattr(operation, "_draws", False)


def _written(operation: Callable, args: tuple, kwargs: dict[str, Any]) -> frozenset[Value]:
    """The roots that a call writes to."""
    return frozenset(v.root for v in written_by(operation, args, kwargs, Value))


def written_by(operation: Any, args: tuple, kwargs: dict[str, Any], kind: type) -> list:
    """What a call writes to, of that class: its first argument, where it is in place, and results that it was given."""
    result: list = []
    if getattr(operation, "writes", False):
        mapped(args[0] if args else next(iter(kwargs.values())), kind, result.append)
    mapped(kwargs.get("out"), kind, result.append)
    return result
