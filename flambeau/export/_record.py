"""The recorder: a program's calls of operations become nodes of a graph, ATen's overloads where ATen has them, sizes that may vary symbols.

Each call runs on the example's tensors, and without data in the other worlds (`_symbols.environment`): what it gives there tells the
shapes as expressions, and where it fails what must hold of the sizes.
"""

from __future__ import annotations

import contextlib
import math
import operator
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .._symbols.environment import Again, Known, Symbol, Symbols, expression_of
from .._symbols.expressions import Expr, number
from .._symbols.fitting import fitted
from .._symbols import numbers
from .._symbols.numbers import SymBool, SymFloat, SymInt, SymNumber
from .._symbols.sizes import RECORDING, unwatch_sizes, watch_sizes
from .._symbols.solving import explain
from ..core.base.dtypes import device as Device
from ..core.base.dtypes import dtype as DType
from ..core.base.tensor import TensorBase
from ..core.call.operation import Op, behind
from ..core.tape import is_grad_enabled
from ..amp._state import is_autocast_enabled
from ..autograd.grad_mode import no_grad
from ..fx.graph import Graph
from ..fx.node import Node, map_arg
from ..graph.record import Recording, place, serial
from ..library._operators import OpOverload
from ..library._overloads import of_python
from ..library._targets import own_target, target
from ..library._written import written
from ..operations.declare.registry import REGISTRY
from ..overrides import TorchFunctionMode
from ._branches import record_call
from ._indexing import read, write
from ._lines import stack_trace, user_line
from ._values import TensorValue
from .errors import GuardOnDataDependentSymNode, UserError

_META = Device("meta")
_LARGEST = 1 << 24  # elements of a tensor with data that a world may have


class Traced(NamedTuple):
    """A tensor of the program: its node, what is known of it, and what stands for it in the other worlds."""

    node: Node
    value: TensorValue
    shadows: tuple[Any, ...]


class Lifted(NamedTuple):
    """A tensor that is no input: where the program finds it."""

    kind: str  # "parameter", "buffer", "constant"
    name: str
    tensor: Any
    node: Node


class _Mode(TorchFunctionMode):
    """Hands the program's calls to a recorder; those that a call makes itself come to nobody."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        recorder, op = self.recorder, behind(func)
        if recorder.suspended or RECORDING.tracer is not recorder:
            return func(*args, **kwargs)
        if not isinstance(op, Op):  # a function of Python over operations
            with self:
                return func(*args, **kwargs)
        if op.entry is None and not isinstance(op, OpOverload):
            with self:
                return getattr(op, "function", op)(*args, **kwargs)
        return recorder.call(op, func, args, kwargs)


class Recorder:
    """Within it, what a thread's tensors go through becomes nodes of `graph`.

    `attributes` are the module's tensors by identity: (tensor, kind, name).
    """

    is_jit = False

    def __init__(self, symbols: Symbols, attributes: Mapping[int, tuple[Any, str, str]]) -> None:
        self.symbols, self.attributes = symbols, attributes
        self.graph = Graph()
        self.mode = _Mode(self)
        self.suspended = 0
        self.known: dict[
            int, tuple[Any, Traced]
        ] = {}  # by identity; with the tensors, so that it stays theirs
        self.places: dict[Any, Traced] = {}
        self.lifted: list[Lifted] = []
        self.first: Node | None = (
            None  # the first node of the program's inputs, before which lifted tensors stand
        )
        self.asked_for: dict[tuple[Any, ...], Any] = {}
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
        self.decompositions: Mapping[Any, Callable[..., Any]] = {}  # what runs in the place of overloads
        self.whole = self.graph  # that of the program, while `graph` may be that of a branch
        self.captured: dict[Node, Node] | None = (
            None  # in a branch: nodes outside, and the inputs that stand for them
        )

    def __enter__(self) -> Recorder:
        if RECORDING.tracer is not None:
            raise RuntimeError("export(): this thread records a program already")
        watch_sizes()
        RECORDING.tracer = self
        self.recording.__enter__()
        self.mode.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.mode.__exit__(*exception)
        self.recording.__exit__(*exception)
        RECORDING.tracer = None
        unwatch_sizes()

    @property
    def count(self) -> int:
        """How many worlds there are beside the example's."""
        return len(self.symbols.worlds) - 1

    # --- tensors ------------------------------
    def enter(self, t: Any, found: Traced) -> None:
        """Let what is known stand for a tensor from here on."""
        self.known[id(t)] = t, found
        self.places[place(t)] = found

    def knows(self, t: Any) -> bool:
        """Whether a tensor's sizes may be symbols."""
        return (
            self.count > 0
            and id(t) not in self.attributes
            and (id(t) in self.known or place(t) in self.places)
        )

    def traced(self, t: Any) -> Traced:
        """What is known of a tensor: of one that was there before, or came otherwise, a node that gives it."""
        found = self.known.get(id(t))
        return self._discovered(t) if found is None else found[1]

    def _discovered(self, t: Any) -> Traced:
        if id(t) in self.attributes:
            _, kind, name = self.attributes[id(t)]
            found = self.lift(t, kind, name)
        elif place(t) in self.places:
            before = self.places[place(t)]
            node = self.node(target("aten", "detach"), (before.node,), {})
            found = Traced(node, self._plain(before.value), before.shadows)
            self._describe(found)
        else:
            self._read_recording()
            if serial(t) in self.made:
                raise UserError(
                    f"export(): the program uses a tensor of shape {tuple(t.shape)} that comes of calls which are not recorded, such as "
                    f"those of a backward pass or of `.grad`{user_line()}"
                )
            found = self._lift_constant(t)
        self.enter(t, found)
        return found

    def _lift_constant(self, t: Any) -> Traced:
        k = sum(x.name.startswith("lifted_tensor_") for x in self.lifted)
        return self.lift(t, "constant", f"lifted_tensor_{k}")

    def _plain(self, value: TensorValue) -> TensorValue:
        return TensorValue(
            value.shape, value.dtype, value.strides, value.device, False, value.layout, value.offset
        )

    def _read_recording(self) -> None:
        calls = self.recording.calls()
        for call in calls[self.read_calls :]:
            _storages(call.result, self.made)
        self.read_calls = len(calls)

    def lift(self, t: Any, kind: str, name: str) -> Traced:
        """An input for a tensor that the module holds, or that is there anyway."""
        prefix = {"parameter": "p_", "buffer": "b_", "constant": "c_"}[kind]
        label = prefix + "".join(c if c.isalnum() else "_" for c in name)
        with self._before_inputs():
            node = self.whole.create_node("placeholder", label, name=label)
        node.target = node.name
        self.suspended += 1
        shadow = _shadow(t)
        found = Traced(node, _value_of(t, tuple(t.shape), tuple(t.stride())), (shadow,) * self.count)
        self.suspended -= 1
        self._describe(found)
        self.lifted.append(Lifted(kind, name, t, node))
        self.enter(t, found)
        return found

    def _before_inputs(self) -> Any:
        """Where lifted tensors stand: before the program's inputs, and before anything that is computed."""
        first = self.first or next((n for n in self.whole.nodes if n.op != "placeholder"), None)
        return contextlib.nullcontext() if first is None else self.whole.inserting_before(first)

    def _describe(self, found: Traced) -> None:
        found.node.meta["val"] = found.value

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
        found = self.captured.get(node)
        if found is None:
            last = [n for n in self.graph.nodes if n.op == "placeholder"]
            first = next(iter(self.graph.nodes), None)
            with (
                self.graph.inserting_after(last[-1])
                if last
                else self.graph.inserting_before(first)
                if first is not None
                else contextlib.nullcontext()
            ):
                found = self.captured[node] = self.graph.create_node("placeholder", node.name)
            found.meta.update(node.meta)
        return found

    def has_effect(self, node: Node) -> bool:
        """Whether a call writes to an argument, or only checks."""
        function = node.target
        if bool(getattr(function, "writes", False)):
            return True
        schema = getattr(function, "_schema", None)
        return schema is not None and (schema.is_mutable or not schema.returns)

    def higher_order(self, name: str, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A call of `cond` and its kin, whose functions become graphs."""
        return record_call(self, name, run, *args, **kwargs)

    def like(self, value: TensorValue, t: Any, assigned: Mapping[str, int]) -> Any:
        """A tensor without data for given sizes."""
        self.suspended += 1
        try:
            return _like(value, t, assigned)
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

    # --- sizes ------------------------------
    def is_on(self) -> bool:
        """Whether what this thread does now is recorded."""
        return RECORDING.tracer is self and not self.suspended

    def asked(self, what: str, t: Any, dim: int | None, value: int) -> Any:
        """What a tensor answers of its sizes."""
        found = self.traced(t)
        if what == "numel":
            sizes = [self.asked("size", t, d, n) for d, n in enumerate(TensorBase.shape.__get__(t))]
            return math.prod(sizes)
        if what == "storage_offset":
            return value
        sizes = found.value.shape if what == "size" else found.value.strides
        e = sizes[dim if dim is not None and dim >= 0 else (dim or 0) + len(sizes)]  # type: ignore[index]
        if not isinstance(e, Expr):
            return e
        if self.inside:  # a body of the library, where numbers would come into its caches
            self.sized = True
            return value
        place_ = dim % len(sizes) if dim is not None else 0
        key = (what, found.node, place_)
        if key not in self.asked_for:
            node = self.node(target("aten", f"sym_{what}", "int"), (found.node, place_), {})
            self.asked_for[key] = self._number(e, self._values(e), node)
        return self.asked_for[key]

    def _values(self, e: Expr) -> tuple[int, ...]:
        return tuple(e.value(w) for w in self.symbols.worlds)

    def _number(self, e: Expr | None, values: tuple[Any, ...], node: Node | None) -> Any:
        if e is not None and (c := self.symbols.settled(e).constant()) is not None:
            return c
        kind = {bool: SymBool, int: SymInt}.get(type(values[0]), SymFloat)
        if node is not None:
            node.meta["val"] = e if e is not None else SymbolicValue(type(values[0]).__name__)
        return kind(self, Known(e, values, node), values[0])

    def computed(self, called: str, function: Callable[..., Any], *operands: Any) -> Any:
        """A number that is computed of sizes."""
        if not self.is_on():  # a number that outlives its recording, in somebody's cache
            return function(*(x.value if isinstance(x, SymNumber) else x for x in operands))
        key = (called, *(id(x) if isinstance(x, SymNumber) else (type(x), x) for x in operands))
        if key in self.computed_before:
            return self.computed_before[key][0]
        e = expression_of(called, operands)
        if e is not None and (c := self.symbols.settled(e).constant()) is not None:
            return c
        values = tuple(
            function(*(x.name.values[w] if isinstance(x, SymNumber) else x for x in operands))
            for w in range(self.count + 1)
        )
        node = self.node(call_of(called), tuple(map(self.reference, operands)), {})
        found = self._number(e, values, node)
        self.computed_before[key] = found, operands  # operands stay, and so their identities
        return found

    def compared(self, called: str, function: Callable[..., Any], a: Any, b: Any) -> Any:
        """The outcome of a comparison of sizes, where it is the same for all of them; else what decides when it is asked."""
        x, y = (_expr(n) for n in (a, b))
        if not self.is_on():
            return bool(function(*(n.value if isinstance(n, SymNumber) else n for n in (a, b))))
        if x is not None and y is not None:
            found = self.symbols.known(x - y, called)
            if found is not None:
                return found
        made = self.computed(called, function, a, b)
        if isinstance(made, SymBool):
            made.name = made.name._replace(expr=None)
            self.computed_before.setdefault(("comparison", id(made)), (made, (called, x, y)))
        return made

    def _comparison(self, outcome: SymBool) -> tuple[str, Expr | None, Expr | None]:
        return self.computed_before.get(("comparison", id(outcome)), (None, ("", None, None)))[1]

    def decided(self, outcome: SymBool) -> bool:
        """The bool of a comparison: what is exported holds for sizes of that outcome alone."""
        if not self.is_on():
            return bool(outcome.value)
        self._learn(outcome, bool(outcome.value), f"the program decides by it{user_line()}")
        return bool(outcome.value)

    def _learn(self, outcome: SymBool, wanted: bool, why: str) -> None:
        called, x, y = self._comparison(outcome)
        if x is None or y is None:
            if all(v == outcome.value for v in outcome.name.values) and not self._is_unbacked(outcome):
                return
            if self._is_unbacked(outcome):
                raise GuardOnDataDependentSymNode(
                    f"Could not guard on data-dependent expression{user_line()}: the program's way depends on a value of a tensor. Let "
                    "torch.cond choose between two functions, or compute both and choose by torch.where"
                )
            raise GuardOnDataDependentSymNode(
                f"Could not guard on an expression of sizes that is no comparison of whole numbers{user_line()}: compare sizes themselves"
            )
        relation = called if wanted else _INVERTED[called]
        d = x - y
        if self.symbols.known(d, relation) is True:
            return
        if any(self.symbols.symbols[n].unbacked for n in d.symbols() if n in self.symbols.symbols):
            raise GuardOnDataDependentSymNode(
                f"Could not guard on data-dependent expression {x} {_SIGNS[called]} {y}{user_line()}: the program looks at a value of a "
                f"tensor. Say what holds with torch._check({x} {_SIGNS[called]} {y}) before, or let torch.cond choose"
            )
        self._require(d, relation, why)

    def _is_unbacked(self, n: SymNumber) -> bool:
        return n.name.expr is None and isinstance(n.name.node, Node) and _from_item(n.name.node)

    def _require(self, d: Expr, relation: str, why: str, samples: bool = True) -> None:
        """Learn a fact; samples that it forbids are drawn anew."""
        before = len(self.symbols.replaced)
        holds = all(
            getattr(operator, relation)(d.value(w), 0) for w in self.symbols.worlds if d.symbols() <= w.keys()
        )
        news = self.symbols.learn(d, relation, why)
        if samples and news and (not holds or len(self.symbols.replaced) != before):
            raise Again

    def demanded(self, outcome: SymBool, message: str | None) -> None:
        """What `_check` demands: known from here on, and checked where a program's own values come in."""
        called, x, y = self._comparison(outcome)
        if x is None or y is None:
            self._assert(outcome, message or "Expected cond to be True, but got False.")
            return
        d = x - y
        names = d.symbols() & {n for n, s in self.symbols.symbols.items() if s.unbacked}
        if names:
            self._assert(
                outcome, message or f"Runtime assertion failed for expression {x} {_SIGNS[called]} {y}"
            )
            if not outcome.value:
                raise RuntimeError(
                    message
                    or f"Expected {x} {_SIGNS[called]} {y}, which does not hold for the example{user_line()}"
                )
        elif not outcome.value:
            raise RuntimeError(
                message
                or f"Expected {x} {_SIGNS[called]} {y}, which does not hold for the example{user_line()}"
            )
        shaped = any(
            self.symbols.ranges[n][0] == 0 for n in names
        )  # counts of elements, whose samples are what they are
        self._require(d, called, f"torch._check demands it{user_line()}", not shaped)

    def _assert(self, outcome: SymBool, message: str) -> None:
        if message not in self.asserted:
            self.asserted.add(message)
            self.node(target("aten", "_assert_scalar"), (self.number_node(outcome), message), {})

    def require_equal(self, n: SymNumber) -> None:
        """The program takes a number as that of the example."""
        if not self.is_on():
            return
        if n.name.expr is None:
            if self._is_unbacked(n) or any(v != n.value for v in n.name.values):
                raise GuardOnDataDependentSymNode(
                    f"Could not take a number that depends on sizes or values as a plain Python number{user_line()}: keep to arithmetic "
                    "and torch.sym_int, torch.sym_sqrt and their kin"
                )
            return
        if any(self.symbols.symbols[s].unbacked for s in n.name.expr.symbols()):
            raise GuardOnDataDependentSymNode(
                f"Could not extract specialized integer from data-dependent expression {n.name.expr}{user_line()}: the program takes a "
                "value of a tensor as a plain Python number"
            )
        self._require(
            n.name.expr - n.value, "eq", f"the program takes it as a plain Python number{user_line()}"
        )

    def shown(self, n: SymNumber) -> str:
        """The expression."""
        return str(n.name) if n.name.expr is not None else repr(n.value)

    # --- calls ------------------------------
    def step(self, name: str, overload: str, *args: Any, **kwargs: Any) -> Any:
        """A call of ATen's."""
        function = target("aten", name, overload)
        return self.emit(function, args, kwargs, function, args, kwargs)

    def call(self, op: Op, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operation, and append its node."""
        if is_autocast_enabled("cpu"):
            raise UserError(
                f"export(): {op.__name__}() is called within autocast, which graphs have no steps for{user_line()}"
            )
        if isinstance(op, OpOverload):  # of a program's library, or one of ATen's steps
            if op._opname in ("sym_size", "sym_stride") and op._overloadname == "int":
                return self.asked(
                    op._opname[4:], args[0], args[1], getattr(TensorBase, op._opname[4:])(args[0], args[1])
                )
            return self.emit(op, args, kwargs, func, args, kwargs)
        name = op.entry.name
        if name == "item":
            return self._item(args[0])
        if name == "__getitem__" and (found := read(self, *args)) is not NotImplemented:
            return found
        if name == "__setitem__" and write(self, *args):
            return None
        if op.entry.details.get("of_values"):
            return self._of_values(op, func, args, kwargs)
        out = kwargs.get("out")
        given = {k: v for k, v in kwargs.items() if k != "out"} if isinstance(out, TensorBase) else kwargs
        found = written(op, args, given, named=True)
        if found is not None:
            schema = found.overload.schema
            function = self._target(schema)
            if function is not None:
                plain = tuple(v for n, v in found.values if not n)
                named = {n: v for n, v in found.values if n}
                if isinstance(out, TensorBase):
                    made = self.emit(function, plain, named, func, args, given, item=found.item)
                    out.resize_(made.shape) if tuple(out.shape) != tuple(made.shape) else None
                    return out.copy_(made)
                returns = len(schema.returns)
                listed = returns == 1 and "[]" in schema.returns[0].type.form
                return self.emit(
                    function, plain, named, func, args, kwargs, found.item, None if listed else returns, op
                )
        if op.entry.kind == "conversion" and isinstance(args[0], TensorBase):
            return self._converted(func, args, kwargs)
        return self._other(op, func, args, kwargs)

    def _answer(
        self, function: Any, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any], result: Any
    ) -> Any:
        """What a tensor answers that is no tensor: GuardOnDataDependentSymNode where it follows from elements."""

        def one(x: Any) -> Any:
            return _shadow(x) if isinstance(x, TensorBase) else x.value if isinstance(x, SymNumber) else x

        self.suspended += 1
        try:
            run(*_mapped(args, one), **_mapped(kwargs, one))
        except Exception:  # noqa: BLE001  of whatever class: it has no answer without elements
            raise GuardOnDataDependentSymNode(
                f"export(): {getattr(run, '__name__', function)}() looks at values of a tensor, which are not known before the program runs"
                f"{user_line()}: compute with tensors (torch.where), let torch.cond choose, or take numbers with item() and torch._check"
            ) from None
        finally:
            self.suspended -= 1
        return result

    def _converted(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """`to` and its kin, by what they give: a dtype, and a device where that is another."""
        self.suspended += 1
        try:
            result = func(*_example(args), **_example(kwargs))
        finally:
            self.suspended -= 1
        moved = result.device != args[0].device
        place_ = (result.device,) if moved else ()
        copied = (False, True) if kwargs.get("copy") else ()
        function = target("aten", "to", "device" if moved else "dtype")
        form = {k: v for k, v in kwargs.items() if k == "memory_format" and v is not None}
        given = (args[0], *place_, result.dtype, *copied)
        return self._append(function, given, form, func, args, kwargs, result, None)

    def _target(self, schema: Any) -> Any:
        name, overload = schema.name.removeprefix("aten::"), schema.overload_name or "default"
        try:
            return target("aten", name, of_python(name, overload))
        except AttributeError:
            return None

    def _other(self, op: Op, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What ATen has not: by the operations that it calls, or a node of the operation itself."""
        if op.entry is not None and op.entry.kind == "conversion" and isinstance(args[0], TensorBase):
            return self._conversion(func, args, kwargs)
        if (found := self._composed(op, args, kwargs)) is not NotImplemented:
            return found
        function = own_target(op)
        unfit = next((x for x in _leaves((args, kwargs)) if not _is_held(x)), None)
        if function is None or unfit is not None:
            what = "has no name" if function is None else f"is called with a {type(unfit).__name__}"
            raise UserError(f"export(): {op.__name__}() {what}, which graphs cannot hold{user_line()}")
        return self.emit(function, args, kwargs, func, args, kwargs)

    def _conversion(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A conversion, under whatever name, as the dtype and the device that come out."""
        self.suspended += 1
        try:
            made = func(*_example(args), **_example(kwargs))
        finally:
            self.suspended -= 1
        options = {k: v for k, v in kwargs.items() if k in ("copy", "memory_format", "non_blocking")}
        moved = made.device != args[0].device
        given = (args[0], made.device, made.dtype) if moved else (args[0], made.dtype)
        function = target("aten", "to", "device" if moved else "dtype")
        return self.emit(function, given, options, func, args, kwargs)

    def _composed(self, op: Op, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The result of what ATen has not, by the operations that it calls, where none of these depends on sizes."""
        body = getattr(op, "composite", None)
        if (
            body is None
            or op.writes
            or "out" in kwargs
            or any(isinstance(x, SymNumber) for x in _leaves((args, kwargs)))
        ):
            return NotImplemented
        was_sized, self.sized = self.sized, False
        known, places, asked = dict(self.known), dict(self.places), dict(self.asked_for)
        lifted = list(self.lifted)
        last = next(iter(reversed(self.graph.nodes)), None)
        self.inside += 1
        try:
            with self.mode:
                found = body(*args, **kwargs)
            if not self.sized:
                return found
        except Exception:  # noqa: BLE001  a body that takes no sizes but numbers, or looks at elements; the operation itself is called below
            found = NotImplemented
        finally:
            self.inside -= 1
            self.sized = self.sized or was_sized
        self.known, self.places, self.asked_for = known, places, asked
        self._take_back(last, {x.node for x in lifted})
        self.lifted = lifted
        return NotImplemented

    def _take_back(self, last: Node | None, kept: set[Node]) -> None:
        for node in reversed(list(self.graph.nodes)):
            if node is last:
                break
            if node not in kept:
                self.graph.erase_node(node)
        for node in [n for n in self.graph.nodes if n.op == "placeholder" and not n.users]:
            if any(x.node is node for x in self.lifted) and node not in kept:
                self.graph.erase_node(node)

    def _of_values(self, op: Op, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A tensor that is made of Python's values: a constant of the program, of which each run has a copy."""
        if args and isinstance(args[0], TensorBase):  # `tensor(x)`, `as_tensor(x)`
            named = {k: v for k, v in kwargs.items() if k in ("dtype", "device") and v is not None}
            return args[0].to(**named) if named else args[0].clone().detach()
        sizes = [x for x in _leaves((args, kwargs)) if isinstance(x, SymNumber)]
        if len(args) and isinstance(args[0], SymNumber):
            named = {k: kwargs.get(k) for k in ("dtype", "device") if kwargs.get(k) is not None}
            if "dtype" not in named:
                named["dtype"] = REGISTRY["tensor"].function(args[0].value).dtype
            return self.step("scalar_tensor", "default", args[0], **named)
        if (
            sizes
            and isinstance(args[0], (list, tuple))
            and all(not isinstance(x, (list, tuple)) for x in args[0])
        ):
            parts = [self._of_values(op, func, (x,), kwargs) for x in args[0]]
            return REGISTRY["stack"].function(parts)
        for n in sizes:
            self.require_equal(n)
        if any(isinstance(x, TensorBase) for x in _leaves((args, kwargs))):
            parts = [x if isinstance(x, TensorBase) else func(x) for x in args[0]]
            return REGISTRY["stack"].function(parts).to(**kwargs)
        self.suspended += 1
        try:
            made = func(*_example(args), **_example(kwargs))
            kept = made.detach().clone()
        finally:
            self.suspended -= 1
        lifted = self._lift_constant(kept)
        node = self.node(target("aten", "lift_fresh_copy"), (lifted.node,), {})
        found = Traced(node, lifted.value, lifted.shadows)
        self._describe(found)
        self.enter(made, found)
        return made

    def _item(self, t: Any) -> Any:
        """A number out of a tensor: not known before a program runs."""
        found = self.traced(t)
        self.suspended += 1
        value = TensorBase.item(t) if hasattr(TensorBase, "item") else REGISTRY["item"].function(t)
        self.suspended -= 1
        node = self.node(target("aten", "item"), (found.node,), {})
        if type(value) is not int:
            return self._number(None, (value,) * (self.count + 1), node)
        low, high = self.symbols.drawn.get(f"u{self.unbacked}", (2, 40))
        low = int(min(max(low, 2), high))
        drawn = [random.Random(k).randint(low, int(min(high, low + 40))) for k in range(self.count)]
        e = self._new_symbol(value, "u", [value, *drawn], low=-math.inf)
        return self._number(e, self._values(e) if self.count else (value,), node)

    def _new_symbol(self, hint: int, prefix: str, values: Sequence[int], low: float = 0) -> Expr:
        name = f"{prefix}{self.unbacked}"
        self.unbacked += 1
        e = self.symbols.add_unbacked(Symbol(name, hint, name, low, math.inf, unbacked=True))  # type: ignore[arg-type]
        for world, value in zip(self.symbols.worlds, values):
            world[name] = value
        return e

    # --- worlds ------------------------------
    def emit(
        self,
        function: Any,
        args: tuple,
        kwargs: dict[str, Any],
        run: Callable[..., Any],
        run_args: tuple,
        run_kwargs: dict[str, Any],
        item: int | None = None,
        returns: int | None = None,
        op: Any = None,
    ) -> Any:
        """Append a node of `function`, whose result is what `run` gives; `item` of ATen's results is the call's one."""
        rule = self.decompositions.get(function)
        if rule is not None:
            with self.mode:
                found = rule(*args, **kwargs)
            if found is not NotImplemented:
                return found if item is None else found[item]
        self.suspended += 1
        try:
            result = run(*_example(run_args), **_example(run_kwargs))
        finally:
            self.suspended -= 1
        if (
            result is not None
            and not any(isinstance(x, TensorBase) for x in _leaves(result))
            and not isinstance(result, (tuple, list))
        ):
            return self._answer(function, run, run_args, run_kwargs, result)
        if (
            isinstance(result, list)
            and not any(isinstance(x, TensorBase) for x in _leaves(result))
            and result
        ):
            return self._answer(function, run, run_args, run_kwargs, result)
        if op is not None and item is None and returns is not None and returns != _results_count(result):
            return self._own_after(op, run, run_args, run_kwargs, result)
        return self._append(function, args, kwargs, run, run_args, run_kwargs, result, item)

    def _own_after(self, op: Op, run: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> Any:
        function = own_target(op)
        return self._append(function, args, kwargs, run, args, kwargs, result, None)

    def _append(
        self,
        function: Any,
        args: tuple,
        kwargs: dict[str, Any],
        run: Callable[..., Any],
        run_args: tuple,
        run_kwargs: dict[str, Any],
        result: Any,
        item: int | None,
    ) -> Any:
        node = self.node(
            function, tuple(map(self.reference, args)), {k: self.reference(v) for k, v in kwargs.items()}
        )
        shadows, opaque = self._in_worlds(node, run, run_args, run_kwargs, result)
        if item is not None:
            node = self._item_node(node, item)
        more = self._prober(run, run_args, run_kwargs)
        detached = self.began_with_grad and not is_grad_enabled()
        detached = detached and any(t.requires_grad for t in _tensors((run_args, run_kwargs)))
        self.suspended += 1  # shapes are plain numbers here
        try:
            self._name(
                node, result, shadows, self._sizes_of((run_args, run_kwargs)), more, (), opaque, detached
            )
        finally:
            self.suspended -= 1
        return result

    def _item_node(self, node: Node, k: int) -> Node:
        return self.node(operator.getitem, (node, k), {})

    def _name(
        self,
        node: Node,
        result: Any,
        shadows: Sequence[Any],
        sizes: list[Expr],
        more: Any,
        path: tuple[int, ...],
        opaque: bool,
        detached: bool = False,
    ) -> None:
        """Nodes for what a call gave."""
        if isinstance(result, TensorBase):
            value = self._described(result, shadows, sizes, more, path, opaque)
            found = Traced(node, value, tuple(shadows))
            self._describe(found)
            if detached and id(result) not in self.known:
                found = found._replace(node=self.node(target("aten", "detach"), (node,), {}))
                self._describe(found)
            self.enter(result, found)
        elif isinstance(result, (tuple, list)) and any(isinstance(x, TensorBase) for x in _leaves(result)):
            known: list[Any] = []
            for k, each in enumerate(result):
                if isinstance(each, (TensorBase, tuple, list)):
                    inner = self._item_node(node, k)
                    self._name(
                        inner, each, [s[k] for s in shadows], sizes, more, (*path, k), opaque, detached
                    )
                    known.append(inner.meta.get("val"))
                else:
                    known.append(None)
            node.meta["val"] = tuple(known)

    def _described(
        self,
        t: Any,
        shadows: Sequence[Any],
        sizes: list[Expr],
        more: Any,
        path: tuple[int, ...],
        opaque: bool,
    ) -> TensorValue:
        shape, strides = tuple(t.shape), tuple(t.stride())
        if not shadows:
            return _value_of(t, shape, strides)
        found: list[Any] = []
        for d, n in enumerate(shape):
            values = (n, *(int(s.shape[d]) for s in shadows))
            found.append(self._fitted(values, sizes, more, path, d, opaque))
        return _value_of(t, tuple(found), _strides(t, shadows, found))

    def _fitted(
        self,
        values: tuple[int, ...],
        sizes: list[Expr],
        more: Any,
        path: tuple[int, ...],
        d: int,
        opaque: bool,
    ) -> Any:
        worlds = self.symbols.worlds

        def samples() -> Iterator[tuple[Mapping[str, int], int]]:
            for assigned, result in more():
                for k in path:
                    result = result[k]
                yield assigned, int(result.shape[d])

        if not opaque:
            e = fitted(values, worlds, sizes, samples)
            if e is not None:
                c = e.constant()
                return e if c is None else c
        elif len(set(values)) == 1:
            return values[0]
        elif (e := fitted(values, worlds, sizes, lambda: iter(()))) is not None and opaque:
            return e
        return self._new_symbol(values[0], "u", values)

    def _sizes_of(self, given: Any) -> list[Expr]:
        """The expressions that sizes of results may be made of."""
        found: list[Expr] = []
        tensors = [x for x in _leaves(given) if isinstance(x, TensorBase)]
        shapes = [self.traced(t).value.shape for t in tensors]
        for x in _leaves(given):
            if isinstance(x, SymInt) and x.name.expr is not None:
                found.append(x.name.expr)
        for shape in shapes:
            found += [e for e in shape if isinstance(e, Expr)]
        for shape in shapes:
            for first in range(len(shape)):
                whole: Any = 1
                for k in range(first, len(shape)):
                    whole = shape[k] * whole
                    if k > first and isinstance(whole, Expr):
                        found.append(whole)
        rank = max((len(s) for s in shapes), default=0)
        if len(shapes) > 1:
            for d in range(rank):
                total: Any = sum((s[d] for s in shapes if d < len(s)), number(0))
                if isinstance(total, Expr) and total.symbols():
                    found.append(total)
        roots = sorted(set().union(*(e.symbols() for e in found)))
        found += [Expr({(name,): 1}) for name in roots]
        return list(dict.fromkeys(found))

    def _in_worlds(
        self, node: Node, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any], result: Any
    ) -> tuple[list[Any], bool]:
        """The results in the other worlds, and whether they came of drawn elements."""
        found: list[Any] = []
        self.suspended += 1
        try:
            with no_grad():
                for w in range(1, self.count + 1):
                    given = self._given(args, kwargs, w)
                    try:
                        made = _without_data(run, *given)
                    except Exception as error:  # noqa: BLE001  of whatever class the operation raises
                        return self._failed(node, run, args, kwargs, result, error)
                    if not _alike(made, result):
                        return self._failed(node, run, args, kwargs, result, None)
                    found.append(made)
        finally:
            self.suspended -= 1
        return found, False

    def _given(self, args: Any, kwargs: Any, w: int) -> tuple[Any, Any]:
        def one(x: Any) -> Any:
            if isinstance(x, TensorBase):
                return self.traced(x).shadows[w - 1]
            return x.name.values[w] if isinstance(x, SymNumber) else x

        return _mapped(args, one), _mapped(kwargs, one)

    def _failed(
        self,
        node: Node,
        run: Callable[..., Any],
        args: tuple,
        kwargs: dict[str, Any],
        result: Any,
        error: Exception | None,
    ) -> tuple[list[Any], bool]:
        """Learn what must hold of the sizes; where the call needs elements, its results in the worlds of drawn ones."""
        sizes = self._sizes_of((args, kwargs))

        def works(assigned: Mapping[str, int]) -> bool:
            try:
                return _alike(self._at(run, args, kwargs, assigned), result)
            except Exception:  # noqa: BLE001  of whatever class the operation raises
                return False

        if works(self.symbols.worlds[0]):
            told = (
                f"{str(error).splitlines()[0]}"
                if error is not None and str(error)
                else "its result has other dimensions"
            )
            explain(self.symbols, sizes, works, f"{node.target}: {told}{user_line()}")
            raise Again
        return self._drawn(run, args, kwargs, result), True

    def _drawn(self, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any], result: Any) -> list[Any]:
        """The results of drawn elements in the other worlds; in worlds that are too large for that, those of the example."""
        found = []
        for w in range(1, self.count + 1):

            def one(x: Any, w: int = w) -> Any:
                if isinstance(x, TensorBase):
                    return _filled(self.traced(x).shadows[w - 1], w)
                return x.name.values[w] if isinstance(x, SymNumber) else x

            made: Any = result
            if all(s.numel() <= _LARGEST for s in _tensors(self._given(args, kwargs, w))):
                try:
                    made = run(*_mapped(args, one), **_mapped(kwargs, one))
                except Exception:  # noqa: BLE001  elements that the operation does not take
                    made = result
            found.append(_mapped(made, lambda x: _shadow(x) if isinstance(x, TensorBase) else x))
        return found

    def _at(
        self, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any], assigned: Mapping[str, int]
    ) -> Any:
        """The result for given sizes of symbols, without data."""

        def one(x: Any) -> Any:
            if isinstance(x, TensorBase):
                found = self.traced(x)
                return _like(found.value, x, assigned)
            if isinstance(x, SymNumber):
                return x.name.expr.value(assigned) if x.name.expr is not None else x.value
            return x

        self.suspended += 1
        try:
            with no_grad():
                return _without_data(run, _mapped(args, one), _mapped(kwargs, one))
        finally:
            self.suspended -= 1

    def _prober(self, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        before = list(_tensors((args, kwargs)))
        values = [self.traced(t).value for t in before]

        def more() -> Iterator[tuple[Mapping[str, int], Any]]:
            rng = random.Random(7)
            if any(self.traced(t).value is not v for t, v in zip(before, values)):
                return
            for _ in range(40):
                assigned = self.symbols.sample("drawn", rng)
                if assigned is None:
                    return
                try:
                    yield assigned, self._at(run, args, kwargs, assigned)
                except Exception:  # noqa: BLE001  sizes that the operation does not take
                    continue

        return more


def call_of(name: str) -> Callable[..., Any]:
    """The function that computes with sizes: one of the operator module, or `sym_max` and its kin."""
    return getattr(numbers if name.startswith("sym_") else operator, name)


class SymbolicValue(NamedTuple):
    """What is known of a number that is no expression of sizes: its class."""

    kind: str

    def __str__(self) -> str:
        return self.kind


_INVERTED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _expr(x: Any) -> Expr | None:
    if isinstance(x, SymNumber):
        return x.name.expr
    return number(x) if type(x) is int else None


def _from_item(node: Node) -> bool:
    return str(node.target) == "aten.item.default" or any(map(_from_item, node.all_input_nodes))


# --- tensors without data ------------------------------
def _shadow(t: Any) -> Any:
    with no_grad():
        return t.detach().to(_META)


def _value_of(t: Any, shape: tuple[Any, ...], strides: tuple[Any, ...] | None) -> TensorValue:
    return TensorValue(shape, t.dtype, strides, t.device, bool(t.requires_grad), t.layout, t.storage_offset())


def _like(value: TensorValue, t: Any, assigned: Mapping[str, int]) -> Any:
    """A tensor without data for given sizes, its dimensions in memory in the order of the example's."""
    shape = [n.value(assigned) if isinstance(n, Expr) else n for n in value.shape]
    empty = REGISTRY["empty"].function
    if len(shape) < 2:
        return empty(shape, dtype=t.dtype, device=_META)
    order = sorted(range(len(shape)), key=lambda d: (-TensorBase.stride(t)[d], d))
    made = empty([shape[d] for d in order], dtype=t.dtype, device=_META)
    return made.permute(*[order.index(d) for d in range(len(shape))])


def _filled(shadow: Any, w: int) -> Any:
    """A tensor with small whole numbers as elements, more of them in one world than in the other."""
    made = REGISTRY["randint"].function(0, w + 1, tuple(shadow.shape))
    return made.to(shadow.dtype)


def _strides(t: Any, shadows: Sequence[Any], sizes: Sequence[Any]) -> tuple[Any, ...] | None:
    """The strides, as products of sizes where memory is dense in some order of the dimensions; those of the example otherwise."""
    order = sorted(range(len(sizes)), key=lambda d: (TensorBase.stride(t)[d], -d))
    found: list[Any] = [0] * len(sizes)
    step: Any = 1
    for d in order:
        found[d] = step
        step = step * sizes[d] if not isinstance(sizes[d], Expr) else sizes[d] * step
    worlds = [t, *shadows]
    for world in worlds:
        dense = 1
        for d in order:
            if world.shape[d] > 1 and TensorBase.stride(world)[d] != dense:
                return tuple(TensorBase.stride(t))
            dense *= int(world.shape[d])
    return tuple(found)


def _without_data(run: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result on tensors without data: devices among the arguments are "meta", and what is made is made there."""

    def one(x: Any) -> Any:
        return _META if isinstance(x, Device) else x

    args, kwargs = _mapped(args, one), _mapped(kwargs, one)
    if isinstance(kwargs.get("device"), (str, int)):
        kwargs["device"] = _META
    op = behind(run)
    entry = getattr(op, "entry", None)
    makes = (
        entry is not None
        and entry.kind in ("creation", "random")
        or getattr(run, "_opname", "") in ("full", "scalar_tensor")
    )
    if makes and not list(_tensors((args, kwargs))):
        kwargs["device"] = _META
    found = run(*args, **kwargs)
    return _mapped(found, lambda x: x if not isinstance(x, TensorBase) or x.is_meta else _shadow(x))


def _alike(a: Any, b: Any) -> bool:
    """Whether two results have the same structure, and tensors of the same rank and dtype."""
    if isinstance(b, TensorBase):
        return isinstance(a, TensorBase) and a.dim() == b.dim() and a.dtype == b.dtype
    if isinstance(b, (tuple, list)):
        return isinstance(a, (tuple, list)) and len(a) == len(b) and all(map(_alike, a, b))
    return True


def _is_held(x: Any) -> bool:
    """Whether a graph can hold an argument."""
    kinds = (
        int,
        float,
        bool,
        complex,
        str,
        type(None),
        type(...),
        SymNumber,
        TensorBase,
        Device,
        DType,
        range,
    )
    return isinstance(x, kinds) or type(x).__name__ in ("memory_format", "layout")


# --- structures ------------------------------
def _mapped(x: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(x, dict):
        return {k: _mapped(v, function) for k, v in x.items()}
    if isinstance(x, slice):
        return slice(*(_mapped(v, function) for v in (x.start, x.stop, x.step)))
    if isinstance(x, (list, tuple)):
        items = [_mapped(v, function) for v in x]
        if type(x) is list:
            return items
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    return function(x)


def _example(x: Any) -> Any:
    """A structure with numbers of the example in place of what stands for them."""
    return _mapped(x, lambda v: v.value if isinstance(v, SymNumber) else v)


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, slice):
        x = [x.start, x.stop, x.step]
    if isinstance(x, (list, tuple)):
        for v in x:
            yield from _leaves(v)
    else:
        yield x


def _tensors(x: Any) -> Iterator[Any]:
    return (v for v in _leaves(x) if isinstance(v, TensorBase))


def _results_count(result: Any) -> int:
    if result is None:
        return 0
    return len(result) if isinstance(result, (tuple, list)) else 1


def _storages(result: Any, found: set[int]) -> None:
    """The serial numbers of the storages of what a call gave."""
    if hasattr(result, "storage"):
        found.add(result.storage)
    elif isinstance(result, (list, tuple)):
        for each in result:
            _storages(each, found)
