"""Branches and loops (`cond`, `while_loop`, `scan`, `map`) as `If`, `Loop` and `Scan`, whose bodies are recordings of their own.

A call of one of these is one node of the recording, `controlled`, which runs it as Python.  When that is written, each of its functions is
recorded on the tensors that it was called with; what a function reads from outside is found by where it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .._higher_order_ops._watch import watched
from .._higher_order_ops.cond import cond
from .._higher_order_ops.map import map as mapping
from .._higher_order_ops.scan import scan
from .._higher_order_ops.while_loop import while_loop
from ..core.base.tensor import TensorBase
from ..core.call.leaf import LeafOp
from ..graph.trace import graph_of
from ..utils._trees import tree_flatten, tree_unflatten
from ._running import recorded
from ._writer import Body, Node, Value
from .errors import OnnxExporterError, UnsupportedOperatorError


class Flow:
    """A call of one of these functions: the tensors that go in, and what its results look like."""

    def __init__(self, name: str, call: Callable[[], Any], tensors: Sequence[TensorBase]) -> None:
        self.name, self.call, self.tensors = name, call, list(tensors)
        self.examples: list[TensorBase] = []
        self.form: Any = None

    def run(self) -> list[TensorBase]:
        """The call as Python, once; the results are in memory of their own."""
        self.examples = [t.detach().clone() for t in self.tensors]
        with watched(None):
            leaves, self.form = tree_flatten(self.call())
        return [t.detach().clone() for t in self.tensors_of(leaves)]

    def tensors_of(self, leaves: Sequence[Any]) -> list[TensorBase]:
        for x in leaves:
            if not isinstance(x, TensorBase):
                raise OnnxExporterError(
                    f"onnx.export(): {self.name}() must take and give tensors alone, got {type(x).__name__}"
                )
        return list(leaves)

    def written(self, lowering: Any, values: list[Value], results: Sequence[Value]) -> list[Value]:
        """The results as values of the graph."""
        raise NotImplementedError


def taken(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """The answer to a call of one of these functions while a program is recorded."""
    flow = _KINDS[function](*args, **kwargs)
    result = controlled(flow, flow.tensors)
    return tree_unflatten(list(result), flow.form)


def _run(flow: Any, tensors: list[TensorBase]) -> tuple[TensorBase, ...]:
    return tuple(flow.run())


controlled = LeafOp(_run, "controlled", owns=True)
controlled.describe((), ("tensors",))
controlled.refuse()


# --- what the functions compute ------------------------------
def computed(
    lowering: Any, function: Callable[..., Any], examples: Sequence[TensorBase], values: Sequence[Value]
) -> tuple[list[Value], list[TensorBase]]:
    """The results of a function of tensors, written where the graph is now, and what they are for the examples."""
    fresh = [t.detach().clone() for t in examples]
    result, recording, lines = recorded(lambda: function(*fresh), taken)
    leaves = list(tree_flatten(result)[0])
    for x in leaves:
        if not isinstance(x, TensorBase):
            raise UnsupportedOperatorError(f"a function of it gives a {type(x).__name__}, which is no tensor")
    inner = lowering.within(graph_of(recording, fresh, leaves), values, lines)
    return [inner.read(p).of(p.shape) for p in inner.outputs], leaves


def body(
    lowering: Any, inputs: Sequence[Value], write: Callable[[], Sequence[Value]]
) -> tuple[Body, Sequence[Value]]:
    """A graph within a node, of what `write` writes, whose results are values of its own."""
    g = lowering.g
    outside, g.nodes = g.nodes, []
    try:
        made = [g.op("Identity", v, dtype=v.dtype, shape=v.shape) for v in write()]
        result = Body(g.nodes, [_value_info(g, v) for v in inputs], [_value_info(g, v) for v in made])
    finally:
        g.nodes = outside
    return result, made


def _value_info(g: Any, v: Value) -> Value:
    """A value as a graph within a node says it: without sizes, where these may be others."""
    return Value(v.name, v.dtype, None if g.varying else v.shape)


def node(
    g: Any,
    kind: str,
    inputs: Sequence[str],
    bodies: dict[str, Body],
    results: Sequence[Value],
    **attributes: Any,
) -> list[Value]:
    """A node with graphs, whose results are like those."""
    names = [g.name(kind) for _ in results]
    g.nodes.append(Node(kind, list(inputs), names, attributes, bodies))
    for n, r in zip(names, results):
        g.dtypes[n] = r.dtype
    return [Value(n, r.dtype, r.shape) for n, r in zip(names, results)]


def _new(g: Any, examples: Sequence[TensorBase], hint: str) -> list[Value]:
    """Inputs of a graph within a node, for tensors like those."""
    return [Value(g.name(hint), t.dtype.name, tuple(t.shape)) for t in examples]


def _check(values: Sequence[Value], results: Sequence[Value], what: str) -> None:
    got, wanted = [(v.dtype, v.shape) for v in values], [(r.dtype, r.shape) for r in results]
    if got != wanted:
        raise UnsupportedOperatorError(f"{what} gives {got}, and the other {wanted}")


def _one(g: Any, v: Value) -> Value:
    """A condition as a bool without dimensions."""
    return g.reshape(g.cast(v, "bool"), [])


class Branches(Flow):
    """`cond`: both functions become graphs, which read the operands from outside."""

    def __init__(self, pred: TensorBase, true_fn: Callable, false_fn: Callable, operands: Any) -> None:
        leaves, self.structure = tree_flatten(tuple(operands))
        self.leaves = leaves
        tensors = [x for x in leaves if isinstance(x, TensorBase)]
        super().__init__("cond", lambda: cond(pred, true_fn, false_fn, operands), [pred, *tensors])
        self.functions = {"then_branch": true_fn, "else_branch": false_fn}

    def applied(self, function: Callable) -> Callable:
        """A branch as a function of the tensors among the operands."""

        def call(*tensors: TensorBase) -> Any:
            rest = iter(tensors)
            leaves = [next(rest) if isinstance(x, TensorBase) else x for x in self.leaves]
            return function(*tree_unflatten(leaves, self.structure))

        return call

    def branch(self, lowering: Any, function: Callable, values: Sequence[Value]) -> list[Value]:
        return computed(lowering, self.applied(function), self.examples[1:], values)[0]

    def written(self, lowering: Any, values: list[Value], results: Sequence[Value]) -> list[Value]:
        g = lowering.g
        chosen = _one(g, values[0])
        bodies = {}
        for name, function in self.functions.items():
            write = partial(self.branch, lowering, function, values[1:])
            bodies[name], made = body(lowering, [], write)
            _check(made, results, f"the {name}")
        return node(g, "If", [chosen.name], bodies, results)


class While(Flow):
    """`while_loop`: a turn computes the states, then whether there is another."""

    def __init__(self, cond_fn: Callable, body_fn: Callable, carried: tuple) -> None:
        leaves, self.structure = tree_flatten(tuple(carried))
        super().__init__("while_loop", lambda: while_loop(cond_fn, body_fn, carried), [])
        self.tensors = self.tensors_of(leaves)
        self.cond_fn, self.body_fn = cond_fn, body_fn

    def applied(self, function: Callable) -> Callable:
        return lambda *tensors: function(*tree_unflatten(list(tensors), self.structure))

    def written(self, lowering: Any, values: list[Value], results: Sequence[Value]) -> list[Value]:
        g = lowering.g
        goes_on, turned = self.applied(self.cond_fn), self.applied(self.body_fn)
        begin = _one(g, computed(lowering, goes_on, self.examples, values)[0][0])
        turn, going = Value(g.name("turn"), "int64", ()), Value(g.name("going"), "bool", ())
        states = _new(g, self.examples, "state")

        def write() -> list[Value]:
            after, examples = computed(lowering, turned, self.examples, states)
            again = computed(lowering, goes_on, examples, after)[0][0]
            return [_one(g, again), *after]

        inner, made = body(lowering, [turn, going, *states], write)
        _check(made[1:], results, "the body")
        return node(g, "Loop", ["", begin.name, *(v.name for v in values)], {"body": inner}, results)


class Slices(Flow):
    """`scan` and `map`: a graph over states and slices."""

    def __init__(
        self,
        name: str,
        call: Callable[[], Any],
        function: Callable,
        init: Any,
        xs: Any,
        dim: int,
        reverse: bool,
    ) -> None:
        self.init, self.init_form = tree_flatten(init)
        self.xs, self.xs_form = tree_flatten(xs)
        super().__init__(name, call, [])
        self.tensors = self.tensors_of([*self.init, *self.xs])
        self.function, self.dim, self.reverse = function, dim, reverse

    def written(self, lowering: Any, values: list[Value], results: Sequence[Value]) -> list[Value]:
        g, count, n = lowering.g, len(self.init), len(self.xs)
        slices = [x.select(self.dim, 0) for x in self.examples[count:]]
        examples = [*self.examples[:count], *slices]
        inputs = _new(g, examples, "slice")

        def call(*tensors: TensorBase) -> Any:
            x = tree_unflatten(list(tensors[count:]), self.xs_form)
            return self.function(tree_unflatten(list(tensors[:count]), self.init_form), x)

        inner, made = body(lowering, inputs, lambda: computed(lowering, call, examples, inputs)[0])
        _check(made[:count], results[:count], "the function")
        rest = len(results) - count
        axes = {"scan_input_axes": [self.dim % x.ndim for x in self.examples[count:]]} if self.dim else {}
        turned = {}
        if self.reverse:
            turned = {"scan_input_directions": [1] * n, "scan_output_directions": [1] * rest}
        input_names = [v.name for v in values]
        return node(g, "Scan", input_names, {"body": inner}, results, num_scan_inputs=n, **axes, **turned)


def _scan(combine_fn: Callable, init: Any, xs: Any, dim: int, reverse: bool) -> Flow:
    return Slices(
        "scan",
        lambda: scan(combine_fn, init, xs, dim=dim, reverse=reverse),
        combine_fn,
        init,
        xs,
        dim,
        reverse,
    )


def _map(f: Callable, xs: Any, *args: Any) -> Flow:
    return Slices("map", lambda: mapping(f, xs, *args), lambda _, x: f(x, *args), (), xs, 0, False)


_KINDS: dict[Any, Callable[..., Flow]] = {cond: Branches, while_loop: While, scan: _scan, mapping: _map}
