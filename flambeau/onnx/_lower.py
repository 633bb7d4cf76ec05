"""From a recorded graph to ONNX's operators, leaf by leaf, and memory to values.

A leaf is written by the form in its declaration, by the expression that its body was traced to, or by the leaves that it decomposes to.
What is written in place becomes a new value of the memory: a view of it that is read later is taken from that again.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..codegen import expr as ex
from ..codegen.complex import parts_only
from ..codegen.expr import Expr
from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.loops.rows import RowOp
from ..core.views.views import view_as_real
from ..fx import GraphModule, Node
from ..graph import program
from ..graph.decompose import decomposed
from ..graph.expressions import Leaves, Loop, Unfused, element_of, expressions, loop_of, pointwise_of
from ..graph.expressions import broadcast as broadcast_shapes
from ..graph.program import written_by
from ..graph.record import Place
from ..graph.trace import mapped
from ..operations.declare.onnx import entry_of
from . import _geometry as geometry
from ._bodies import Body, Row, reached
from ._flow import controlled
from ._symbolic import registered
from ._writer import DATA_TYPES, PAIRS, Value, Writer
from .errors import OnnxExporterWarning, UnsupportedOperatorError


def floats(place: Place) -> Place:
    """Where the floats lie that a complex tensor's numbers are pairs of; another tensor's own place."""
    part = PAIRS.get(place.dtype.name)
    if part is None:
        return place
    return place._replace(
        offset=2 * place.offset,
        shape=(*place.shape, 2),
        stride=(*(2 * s for s in place.stride), 1),
        dtype=by_name[part],
    )


class Memory:
    """What lies in a storage: its value where the first tensor there lies, and how views of it are made."""

    def __init__(self, base: Place, value: Value, fixed: str | None = None) -> None:
        self.base, self.value, self.fixed = base, value, fixed
        self.version = 0
        self.values: dict[Place, tuple[int, Value]] = {base: (0, value)}
        self.views: dict[Place, Callable[[], Value]] = {}


class _RowLeaves(Leaves):
    """Leaves of a program along rows, whose first elements are leaves of their own."""

    def standing_still(self, e: Expr, dims: frozenset[int]) -> Expr:
        replace = {x: ex.make("first", (), x.dtype, x.value) for x in ex.walk([e]) if x.op == "operand"}
        return ex.substitute([e], replace)[0]


class Lowering:
    """Writes a recorded graph; `inputs` are the values of its placeholders, `lines` the program's line of each recorded call.

    `outer`: what writes the graph around it, where this one is a branch or the body of a loop, which reads what lies there.
    """

    def __init__(
        self,
        g: Writer,
        graph: GraphModule,
        inputs: Sequence[Value],
        lines: Sequence[tuple[str, int]] = (),
        outer: Lowering | None = None,
    ) -> None:
        self.outer = outer
        self.g, self.graph, self.lines = g, graph, lines
        self.memories: dict[int, Memory] = {}
        self.objects: dict[Node, Any] = {}
        self.numbers = 0
        arguments = iter(inputs)
        self.outputs: Any = None
        for node in graph.graph.nodes:
            self.enter(node, arguments)

    def enter(self, node: Node, arguments: Any) -> None:
        if node.op == "placeholder":
            self.input(node.meta["places"], next(arguments))
        elif node.op == "get_attr":
            held = operator.attrgetter(str(node.target))(self.graph)
            if "places" in node.meta:
                self.constant(node.meta["places"], held)
            else:
                self.objects[node] = held
        elif node.op == "output":
            self.outputs = mapped(node.args[0], Node, self.argument)
        elif node.target is operator.getitem and "places" not in node.meta:
            self.objects[node] = self.objects[node.args[0]][node.args[1]]
        elif node.target is not operator.getitem:
            try:
                self.call(node)
            except UnsupportedOperatorError as error:
                raise self.located(node, error) from error.__cause__

    def located(self, node: Node, error: UnsupportedOperatorError) -> UnsupportedOperatorError:
        """The error with the operation and its line in the program."""
        if getattr(error, "is_located", False):
            return error
        located = UnsupportedOperatorError(
            f"onnx.export(): {self.where(node)} has no form in ONNX: {error}. Write it in operations that have one, or leave that part "
            f"out of the exported module (docs/onnx.md)"
        )
        located.is_located = True  # type: ignore[attr-defined]
        return located

    def where(self, node: Node) -> str:
        """An operation and its line in the program."""
        name, number = getattr(node.target, "__name__", str(node.target)), node.meta.get("call", -1)
        if 0 <= number < len(self.lines) and self.lines[number][0]:
            return "{}() at {}:{}".format(name, *self.lines[number])
        return f"{name}()"

    # --- memory ------------------------------
    def sized(self, value: Value, place: Place) -> Value:
        """The value of a tensor that lies there, whose sizes are noted for `_sizes`."""
        self.g.shapes[value.name] = place.shape
        return value.of(place.shape)

    def input(self, place: Place, value: Value) -> None:
        memory = self.memories.get(place.storage)
        if memory is None:
            self.memories[place.storage] = Memory(place, value)
        else:
            memory.values.setdefault(place, (0, value))

    def within(
        self, graph: GraphModule, values: Sequence[Value], lines: Sequence[tuple[str, int]]
    ) -> Lowering:
        """Write a graph that a node of this one holds, where the writer is now."""
        return Lowering(self.g, graph, values, lines, self)

    def memory_of(self, storage: int) -> Memory | None:
        """What lies there in this graph, or in one around it."""
        result = self.memories.get(storage)
        if result is None and self.outer is not None:
            return self.outer.memory_of(storage)
        return result

    def constant(self, place: Place, tensor: Any) -> None:
        """A tensor that the program had before, and that is no parameter; in a branch or a loop one of the graph around it, too."""
        around = None if self.outer is None else self.outer.memory_of(place.storage)
        if around is not None:
            fixed = "a tensor from outside of its branch or loop: return it as a result"
            self.memories[place.storage] = Memory(around.base, around.value, fixed)
            return
        value = held_value(self.g, tensor, None)
        self.memories[place.storage] = Memory(
            floats(place),
            value,
            "a tensor that is no input, parameter or buffer of the model; register it as a buffer",
        )

    def read(self, place: Place) -> Value:
        """What lies there now."""
        if place.dtype.name in PAIRS:
            return self.g.as_complex(self.read(floats(place)), place.dtype.name)
        memory = self.memories[place.storage]
        result = memory.values.get(place)
        if result is not None and result[0] == memory.version:
            return result[1]
        if place == memory.base:
            value = memory.value
        elif place in memory.views:
            value = memory.views[place]()
        else:
            value = geometry.take(self.g, memory.value, memory.base, place)
        value = self.sized(value, place)
        memory.values[place] = memory.version, value
        return value

    def write(self, place: Place, value: Value) -> None:
        memory = self.memories[place.storage]
        if memory.fixed:
            raise UnsupportedOperatorError(f"it writes to {memory.fixed}")
        value = self.g.cast(value, place.dtype.name).of(place.shape)
        if place.dtype.name in PAIRS:
            place, value = floats(place), self.g.as_floats(value)
        value = self.sized(value, place)
        if place == memory.base:
            memory.value = value
        else:
            memory.value = geometry.put(self.g, memory.value, memory.base, place, value)
        memory.version += 1
        memory.values[place] = memory.version, value

    def new(self, place: Place, value: Value) -> None:
        value = self.g.cast(value, place.dtype.name).of(place.shape)
        if place.dtype.name in PAIRS:
            place, value = floats(place), self.g.as_floats(value)
        self.memories[place.storage] = Memory(place, self.sized(value, place))

    def argument(self, node: Node) -> Any:
        """An argument of a call: a place, or an object."""
        return self.objects[node] if node in self.objects else node.meta["places"]

    # --- calls ------------------------------
    def call(self, node: Node) -> None:
        op: Any = node.target
        args, kwargs = mapped((node.args, node.kwargs), Node, self.argument)
        operands: list[Place] = []
        mapped((args, kwargs), Place, operands.append)
        made: list[Place] = []
        mapped(node.meta["places"], Place, made.append)
        written = written_by(op, args, kwargs, Place)
        if not made and not written:
            self.answer(node, operands)
            return
        for p in (*made, *operands):
            if p.device is not None or (p.dtype.name not in DATA_TYPES and p.dtype.name not in PAIRS):
                raise UnsupportedOperatorError(
                    f"a tensor of {p.dtype.name}, which ONNX's runtimes do not take"
                )
        if written:
            self.overwrite(op, node, args, kwargs, written, made)
            return
        storages = {p.storage for p in operands}
        if all(p in operands for p in made):
            return
        if all(p.storage in storages for p in made):
            self.view([floats(p) for p in operands], [floats(p) for p in made])
            return
        result = self.compute(op, node, args, kwargs, made)
        for p, value in zip(made, result, strict=True):
            if p not in operands:
                self.new(p, value)

    def answer(self, node: Node, operands: list[Place]) -> None:
        """A call that gives no tensor: what it gave is fixed, which is said where it depends on elements of inputs."""
        self.objects[node] = node.meta["places"]
        entry = entry_of(node.target)
        if entry is None or entry.batching != "itemless":
            return
        if any(p.dtype.name in DATA_TYPES and self.g.varies(self.read(p)) for p in operands):
            warnings.warn(
                f"onnx.export(): {self.where(node)} looks at values of an input within the library, and chooses by them: the model is "
                "right for inputs for which it would choose the same",
                OnnxExporterWarning,
                stacklevel=2,
            )

    def overwrite(
        self,
        op: Any,
        node: Node,
        args: tuple,
        kwargs: dict[str, Any],
        written: list[Place],
        made: list[Place],
    ) -> None:
        """A call that writes: what it writes to becomes what it computes."""
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        results = made if made and made[0].shape == written[0].shape else written
        result = self.compute(op, node, args, kwargs, results, True)
        for p, to, value in zip(results, written, result, strict=False):
            if p.shape != to.shape:
                raise UnsupportedOperatorError("it resizes the tensor that it writes to")
            self.write(to, value.of(p.shape))

    def view(self, sources: list[Place], made: list[Place]) -> None:
        """Views are made when they are read, of what lies there then."""
        runs: dict[tuple, list[Value]] = {}

        def taken(k: int) -> Callable[[], Value]:
            def make() -> Value:
                state = tuple(self.memories[p.storage].version for p in sources)
                if state not in runs:
                    runs[state] = self.viewed(sources, made)
                return runs[state][k]

            return make

        for k, p in enumerate(made):
            memory = self.memories[p.storage]
            if p != memory.base and p not in sources:
                memory.views.setdefault(p, taken(k))

    def viewed(self, sources: list[Place], made: list[Place]) -> list[Value]:
        """The values of views: as they were made of a tensor, else by where they lie."""
        values = []
        for p in made:
            source = next(s for s in sources if s.storage == p.storage)
            result = geometry.viewed(self.g, self.read(source), source, p)
            if result is None:
                memory = self.memories[p.storage]
                result = geometry.take(self.g, memory.value, memory.base, p)
            values.append(result)
        return values

    # --- what computes ------------------------------
    def compute(
        self,
        op: Any,
        node: Node,
        args: tuple,
        kwargs: dict[str, Any],
        made: Sequence[Place],
        writes: bool = False,
    ) -> list[Value]:
        """The values of a call's results; what it `writes` is in the dtype of the tensor that it is written to."""
        if op is controlled:
            flow, tensors = args
            results = [Value("", p.dtype.name, p.shape) for p in made]
            return flow.written(self, [self.read(p) for p in tensors], results)
        entry = entry_of(op)
        form = registered(op, self.g.opset) if entry is None else entry.details.get("onnx")
        refused: UnsupportedOperatorError | None = None
        operands: list[Place] = []
        mapped((args, kwargs), Place, operands.append)
        pairs = any(p.dtype.name in PAIRS for p in (*operands, *made))
        if form is not None and (not pairs or getattr(form, "pairs", False)):
            result = self.formed(form, args, kwargs, made)
            if result is not None:
                return result
        if entry is not None and entry.kind == "view" and len(made) == 1 and args:  # one that had to copy
            copied = self.g.reshape(self.read(floats(args[0])), floats(made[0]).shape)
            dtype = made[0].dtype.name
            return [self.g.as_complex(copied, dtype) if dtype in PAIRS else copied]
        call, values = self.lowered(op, args, kwargs, made)
        try:
            result = self.expressed(call, values, writes)
            if result is not None:
                return result
            if not values and (entry is None or entry.kind != "random"):
                return self.computed(op, call)
        except UnsupportedOperatorError as error:
            refused = error
        result = self.inlined(op, node, args, kwargs, list(values))
        if result is not None:
            return result
        raise refused or UnsupportedOperatorError(
            "it has no operator there, and is not made of operations that have"
        )

    def computed(self, op: Any, call: program.Call) -> list[Value]:
        """The results of a call without tensors: constants."""
        result: list[Value] = []
        with no_grad():
            made = op(*call.args, **call.kwargs)
        mapped(made, TensorBase, lambda t: result.append(held_value(self.g, t, None)))
        return result

    def formed(
        self, form: Any, args: tuple, kwargs: dict[str, Any], made: Sequence[Place]
    ) -> list[Value] | None:
        """The results by a declared form."""
        g = self.g
        before = g.results
        args, kwargs = mapped((args, kwargs), Place, self.read)
        g.results = [Value("", p.dtype.name, p.shape) for p in made]
        try:
            if isinstance(form, str):
                dtype = g.results[0].dtype
                tensors = [g.cast(x, dtype) if isinstance(x, Value) else g.number(x, dtype) for x in args]
                result: Any = g.op(form, *tensors)
            else:
                result = form(g, *args, **kwargs)
        finally:
            g.results = before
        if result is NotImplemented:
            return None
        return [result] if isinstance(result, Value) else list(result)

    def lowered(
        self, op: Any, args: tuple, kwargs: dict[str, Any], made: Sequence[Place]
    ) -> tuple[program.Call, dict[program.Value, Place]]:
        """The call as programs have it (`graph/program.py`)."""
        of: dict[Place, program.Value] = {}
        values: dict[program.Value, Place] = {}

        def value(place: Place) -> program.Value:
            if place not in of:
                of[place] = program.Value(self.numbers, place)
                self.numbers += 1
                values[of[place]] = place
            return of[place]

        lowered = mapped((args, kwargs), Place, value)
        call = program.Call(0, op, *lowered)
        call.results = tuple(program.Value(-1 - k, p) for k, p in enumerate(made))
        return call, values

    def expressed(
        self, call: program.Call, values: dict[program.Value, Place], writes: bool
    ) -> list[Value] | None:
        """The results by the expressions of the declaration's body; None where there is none."""
        g = self.g
        if len(call.args) == 6 and call.args[1] in ((), []):  # along all dimensions
            call.set_arguments((call.args[0], None, *call.args[2:]), call.kwargs)
        elif (
            isinstance(call.operation, RowOp) and call.args[1:2] in (((),), ([],)) and not call.args[0].shape
        ):
            call.set_arguments((call.args[0], None, *call.args[2:]), call.kwargs)
        loop = loop_of(call)
        if loop is None and (pointwise_of(call) is not None or element_of(call) is not None):
            shapes = [v.shape for v in (*values, *call.results)]
            loop = Loop(max(shapes, key=len), None)
        if loop is None:
            return None
        numbered = {v.number: self.read(p) for v, p in values.items()}
        row = None
        if loop.dims is not None:
            row = Row(
                sorted(loop.dims) if loop.shape else (),
                math.prod(loop.shape[d] for d in loop.dims) if loop.shape else 1,
            )

        def of(value: program.Value) -> Expr:
            return ex.make("operand", (), value.dtype.name, value.number)

        def leaf(e: Expr) -> Value:
            if e.op == "operand":
                return numbered[e.value]
            if e.op == "first" and row is not None:
                result = numbered[e.value]
                for d in row.dims:
                    if result.rank >= -d:
                        result = g.slice(result, d, 0, 1).of(())
                        result = result.of(numbered[e.value].shape or ())
                return result
            raise UnsupportedOperatorError("it reads the number of its element")

        call.written = frozenset(call.results) if writes else frozenset()
        try:
            exprs = expressions(call, of, _RowLeaves(), loop)
        except Unfused as error:
            raise UnsupportedOperatorError(str(error)) from None
        if any(ex.is_complex(e.dtype) for e in ex.walk(exprs)):
            return self.of_pairs(Body(g, leaf, row), parts_only(exprs), call, numbered, loop)
        result = Body(g, leaf, row).write(exprs)
        return [
            self.shaped(e, v, r.shape, numbered, loop)
            for e, v, r in zip(exprs, result, call.results, strict=True)
        ]

    def of_pairs(
        self,
        body: Body,
        exprs: Sequence[Expr],
        call: program.Call,
        numbered: dict[int, Value],
        loop: Loop,
    ) -> list[Value]:
        """The results of expressions of complex numbers, which are written out in real numbers."""
        made = []
        for e, result in zip(exprs, call.results, strict=True):
            parts = [ex.real(e), ex.imag(e)] if ex.is_complex(e.dtype) else [e]
            values = body.write(parts)
            shaped = [
                self.shaped(p, v, result.shape, numbered, loop) for p, v in zip(parts, values, strict=True)
            ]
            made.append(shaped[0] if len(shaped) == 1 else self.g.pair(shaped[0], shaped[1], result.shape))
        return made

    def shaped(
        self, e: Expr, value: Value, shape: tuple[int, ...], numbered: dict[int, Value], loop: Loop
    ) -> Value:
        """The value of an expression in the shape of its result."""
        leaves = reached([e])
        result = broadcast([numbered[x.value].shape or () for x in leaves if x.op == "operand"])
        if loop.dims is None or result == loop.shape:
            return self.g.expand(value.of(result), shape)
        if loop.dims and len(shape) < len(loop.shape):  # one value a row
            return self.g.squeeze(value, sorted(loop.dims))
        reduced_shape = tuple(
            1 if d - len(loop.shape) in (loop.dims or ()) else n for d, n in enumerate(loop.shape)
        )
        return self.g.expand(value.of(reduced_shape), shape)

    def inlined(
        self, op: Any, node: Node, args: tuple, kwargs: dict[str, Any], values: list[program.Value]
    ) -> list[Value] | None:
        """The results by the leaves that the operation decomposes to."""
        call, places = self.lowered(op, args, kwargs, ())
        distinct = list(places)
        inner = decomposed(op, call.args, call.kwargs, distinct, node.meta["places"])
        if inner is None:
            return None
        inputs = [self.read(places[v]) for v in distinct]
        written = Lowering(self.g, inner, inputs)
        result: list[Value] = []
        mapped(written.outputs, Place, lambda p: result.append(written.read(p)))
        return result


def broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return broadcast_shapes([tuple(s) for s in shapes])


def held_value(g: Writer, tensor: Any, name: str | None) -> Value:
    """A tensor as a constant of the graph."""
    dtype = tensor.dtype.name
    if dtype in PAIRS:
        return held_value(g, view_as_real(tensor.detach().resolve_conj()), name)
    if dtype not in DATA_TYPES:
        raise UnsupportedOperatorError(f"a tensor of {dtype}, which ONNX's runtimes do not take")
    if dtype == "bfloat16":
        return g.constant(tensor.detach().view(by_name["int16"]).numpy().view("uint16"), dtype, name)
    return g.constant(tensor.detach().contiguous().numpy(), dtype, name)
