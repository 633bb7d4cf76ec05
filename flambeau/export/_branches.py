"""Control flow that depends on values, recorded: each function of `cond`, `while_loop`, `map` and `scan` becomes a graph of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._higher_order_ops.cond import cond
from .._higher_order_ops.map import map as mapping
from .._higher_order_ops.scan import scan
from .._higher_order_ops.while_loop import while_loop
from .._symbols.environment import Known
from .._symbols.numbers import SymBool, SymNumber
from ..core.base.tensor import TensorBase
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..library._higher_order import higher_order
from ..nn.modules.module import Module
from ..utils._pytree import tree_flatten, tree_unflatten
from ._lines import user_line
from ._values import TensorValue
from .errors import UserError

if TYPE_CHECKING:
    from ._record import Recorder
    from ._shadows import Traced


class Branch(NamedTuple):
    """A recorded function: its graph, what it gave, and the structure of that."""

    graph: Graph
    results: list[Any]
    traced: list[Any]  # of tensors what is known of them, of others None
    form: Any
    captured: list[Node]  # nodes outside that it reads beside its operands


def record_call(recorder: Recorder, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A call of a function of `_higher_order_ops` as a node; its result is the function's own for the example."""
    return _RECORDED[function](recorder, function, *args, **kwargs)


# --- functions as graphs ------------------------------
def _branch(
    recorder: Recorder,
    function: Callable[..., Any],
    flat: Sequence[Any],
    form: Any,
    outer_nodes: Sequence[Node],
) -> Branch:
    """A function recorded on operands, `outer_nodes` being nodes outside that it may read."""
    graph = Graph()
    with _within(recorder, graph) as captured:
        operands = []
        for k, x in enumerate(flat):
            node = graph.create_node("placeholder", f"arg{k}_1")
            if isinstance(x, TensorBase):
                outer = recorder.traced(x)
                own = _copied(recorder, x)  # the function may read what it was given from outside, too
                recorder.enter(own, outer._replace(node=node))
                node.meta["val"] = outer.value
                operands.append(own)
            elif isinstance(x, SymNumber):
                node.meta["val"] = x.name.expr
                operands.append(type(x)(recorder, Known(x.name.expr, x.name.values, node), x.value))
            else:
                operands.append(x)
        for node in outer_nodes:
            captured[node] = graph.create_node("placeholder", node.name)
            captured[node].meta.update(node.meta)
        before = set(captured)
        result = function(*tree_unflatten(operands, form))
        leaves, out_form = tree_flatten(result)
        graph.output(
            tuple(recorder.inner(recorder.reference(x)) if not _is_constant(x) else x for x in leaves)
        )
        traced = [recorder.traced(x) if isinstance(x, TensorBase) else None for x in leaves]
        new_captured = [n for n in captured if n not in before]
    return Branch(graph, leaves, traced, out_form, new_captured)


def _copied(recorder: Recorder, x: Any) -> Any:
    recorder.suspended += 1
    try:
        return x.clone()
    finally:
        recorder.suspended -= 1


def _is_constant(x: Any) -> bool:
    return not isinstance(x, (TensorBase, SymNumber))


@contextlib.contextmanager
def _within(recorder: Recorder, graph: Graph) -> Iterator[dict[Node, Node]]:
    """Within it nodes come into another graph, where nodes outside are read as inputs: those that it gives."""
    saved = (
        recorder.graph,
        recorder.captured,
        recorder.entries,
        recorder.places,
        recorder.requested,
        recorder.computed_before,
    )
    recorder.graph, recorder.captured = graph, {}
    recorder.entries, recorder.places = dict(recorder.entries), dict(recorder.places)
    recorder.requested, recorder.computed_before = dict(recorder.requested), dict(recorder.computed_before)
    try:
        yield recorder.captured
    finally:
        lifted = {
            id(x.tensor): recorder.entries[id(x.tensor)]
            for x in recorder.lifted
            if id(x.tensor) in recorder.entries
        }
        graph_, captured, entries, places, requested, computed = saved
        recorder.graph, recorder.captured = graph_, captured
        recorder.entries, recorder.places = {**entries, **lifted}, places
        recorder.requested, recorder.computed_before = requested, computed


def _branches(
    recorder: Recorder, functions: Sequence[tuple[Callable, Sequence[Any], Any]]
) -> tuple[list[Branch], list[Node]]:
    """Functions as graphs, which all take the same nodes from outside after their operands."""
    captured: list[Node] = []
    while True:
        made = [_branch(recorder, f, flat, form, captured) for f, flat, form in functions]
        more = list(dict.fromkeys(n for b in made for n in b.captured))
        if not more:
            return made, captured
        captured += more


def _attribute(recorder: Recorder, name: str, branch: Branch) -> Node:
    """The graph as an attribute of the program, and the node that reads it."""
    for node in reversed(list(branch.graph.nodes)):
        if node.op == "call_function" and not node.users and not recorder.has_effect(node):
            branch.graph.erase_node(node)
    root = Module()
    own = {
        n: recorder.submodules[n]
        for n in recorder.submodules
        if any(str(x.target) == n for x in branch.graph.nodes)
    }
    for inner_name, inner in own.items():
        root.add_module(inner_name, inner)
        del recorder.submodules[inner_name]
    k = recorder.branches = recorder.branches + 1
    label = f"{name}_{k - 1}"
    recorder.submodules[label] = GraphModule(root, branch.graph)
    return recorder.graph.create_node("get_attr", label, name=label)


def _flat(name: str, operands: Any) -> tuple[list[Any], Any]:
    leaves, form = tree_flatten(operands)
    for x in leaves:
        if not isinstance(x, (TensorBase, SymNumber, int, float, bool)):
            raise UserError(
                f"{name}(): expected operands to be tensors and numbers, got {type(x).__name__}{user_line()}"
            )
    return leaves, form


def _call(
    recorder: Recorder, name: str, args: tuple, results: Sequence[Any], traced: Sequence[Traced], form: Any
) -> Any:
    """The node of the step, and its results: tensors of the example with what is known of them."""
    node = recorder.node(higher_order(name), args, {})
    for k, (x, result) in enumerate(zip(results, traced)):
        if isinstance(x, TensorBase):
            item = recorder._item_node(node, k)
            entered = result._replace(node=item)
            recorder._describe(entered)
            recorder.enter(x, entered)
    return tree_unflatten(list(results), form)


def _fresh(x: Any) -> Any:
    """A tensor of its own, since one that a branch gives may be an operand."""
    return x.detach().clone() if isinstance(x, TensorBase) else x


def _own(recorder: Recorder, results: Sequence[Any]) -> list[Any]:
    recorder.suspended += 1
    try:
        return [_fresh(x) for x in results]
    finally:
        recorder.suspended -= 1


# --- the four ------------------------------
def _cond(
    recorder: Recorder,
    run: Callable[..., Any],
    pred: Any,
    true_fn: Callable,
    false_fn: Callable,
    operands: Any = (),
) -> Any:
    if not isinstance(pred, (TensorBase, SymBool)):
        return (true_fn if pred else false_fn)(*operands)
    flat, form = _flat("cond", tuple(operands))
    made, captured = _branches(recorder, [(true_fn, flat, form), (false_fn, flat, form)])
    yes, no = made
    if yes.form != no.form or len(yes.results) != len(no.results):
        raise UserError(
            f"cond(): both functions must give the same structure, got {yes.form} and {no.form}{user_line()}"
        )
    for k, (a, b) in enumerate(zip(yes.traced, no.traced)):
        if (
            (a is None) != (b is None)
            or a is not None
            and (a.value.shape, a.value.dtype) != (b.value.shape, b.value.dtype)
        ):
            texts = [str(x.value) if x is not None else "a number" for x in (a, b)]
            raise UserError(
                f"cond(): both functions must give the same shapes and dtypes, result {k} is {texts[0]} and {texts[1]}{user_line()}"
            )
    graphs = [_attribute(recorder, "true_graph", yes), _attribute(recorder, "false_graph", no)]
    args = (
        recorder.inner(recorder.reference(pred)),
        *graphs,
        (*map(recorder.reference, flat), *map(recorder.inner, captured)),
    )
    recorder.suspended += 1
    chosen = yes if bool(pred.value if isinstance(pred, SymBool) else pred) else no
    recorder.suspended -= 1
    return _call(recorder, "cond", args, _own(recorder, chosen.results), yes.traced, yes.form)


def _while_loop(
    recorder: Recorder, run: Callable[..., Any], cond_fn: Callable, body_fn: Callable, carried: Any
) -> Any:
    flat, form = _flat("while_loop", tuple(carried))
    if any(_is_constant(x) for x in flat):
        raise UserError(
            f"while_loop(): what is carried must be tensors while a program is exported{user_line()}"
        )

    def body(*xs: Any) -> Any:
        after = body_fn(*xs)
        return tuple(after) if isinstance(after, (tuple, list)) else (after,)

    made, captured = _branches(recorder, [(cond_fn, flat, form), (body, flat, form)])
    graphs = [
        _attribute(recorder, "while_loop_cond_graph", made[0]),
        _attribute(recorder, "while_loop_body_graph", made[1]),
    ]
    for k, (x, after) in enumerate(zip(flat, made[1].traced)):
        before = recorder.traced(x).value
        if after is None or (before.shape, before.dtype) != (after.value.shape, after.value.dtype):
            raise UserError(
                f"while_loop(): body_fn must keep shapes and dtypes, {before} becomes {after and after.value} at {k}{user_line()}"
            )
    args = (*graphs, tuple(map(recorder.reference, flat)), tuple(map(recorder.inner, captured)))
    recorder.suspended += 1
    try:
        results = tree_flatten(tuple(run(cond_fn, body_fn, carried)))[0]
    finally:
        recorder.suspended -= 1
    return _call(
        recorder, "while_loop", args, _own(recorder, results), [recorder.traced(x) for x in flat], form
    )


def _slices(recorder: Recorder, xs: Sequence[Any], dim: int = 0) -> list[Any]:
    return [recorder.step("select", "int", x, dim, 0) for x in xs]


def _stacked(recorder: Recorder, size: Any, inner: Traced, result: Any) -> Traced:
    """What is known of slices that are stacked along a new first dimension of that size."""
    shape = (size, *inner.value.shape)
    value = TensorValue(shape, inner.value.dtype, None, inner.value.device, bool(result.requires_grad))
    shadows = tuple(recorder.like(value, result, w) for w in recorder.symbols.worlds[1:])
    return inner._replace(value=value, shadows=shadows)


def _map(recorder: Recorder, run: Callable[..., Any], f: Callable, xs: Any, *more: Any) -> Any:
    flat, form = _flat("map", xs)
    rest, rest_form = _flat("map", tuple(more))
    firsts = _slices(recorder, flat)

    def one(*captured: Any) -> Any:
        return f(
            tree_unflatten(list(captured[: len(flat)]), form),
            *tree_unflatten(list(captured[len(flat) :]), rest_form),
        )

    operands, spec = tree_flatten((*firsts, *rest))
    (made,), captured = _branches(recorder, [(one, operands, spec)])
    graph = _attribute(recorder, "body_graph", made)
    args = (
        graph,
        tuple(map(recorder.reference, flat)),
        (*map(recorder.reference, rest), *map(recorder.inner, captured)),
    )
    recorder.suspended += 1
    try:
        results, out_form = tree_flatten(run(f, xs, *more))
    finally:
        recorder.suspended -= 1
    size = recorder.traced(flat[0]).value.shape[0]
    traced = [_stacked(recorder, size, inner, x) for inner, x in zip(made.traced, results)]
    return _call(recorder, "map_impl", args, _own(recorder, results), traced, out_form)


def _scan(
    recorder: Recorder,
    run: Callable[..., Any],
    combine_fn: Callable,
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> Any:
    start, start_form = _flat("scan", init)
    flat, form = _flat("scan", xs)
    moved = [x.movedim(dim, 0) for x in flat] if dim else list(flat)
    moved = [x.flip(0) for x in moved] if reverse else moved
    firsts = _slices(recorder, moved)
    count: list[Any] = []

    def one(*captured: Any) -> Any:
        pair = combine_fn(
            tree_unflatten(list(captured[: len(start)]), start_form),
            tree_unflatten(list(captured[len(start) :]), form),
        )
        carry, y = pair
        count[:] = [tree_flatten(y)[1]]
        return (*tree_flatten(carry)[0], *tree_flatten(y)[0])

    operands, spec = tree_flatten((*start, *firsts))
    (made,), captured = _branches(recorder, [(one, operands, spec)])
    graph = _attribute(recorder, "scan_combine_graph", made)
    args = (
        graph,
        tuple(map(recorder.reference, start)),
        tuple(map(recorder.reference, moved)),
        tuple(map(recorder.inner, captured)),
    )
    recorder.suspended += 1
    try:
        carry, ys = run(combine_fn, init, xs, dim=dim, reverse=False if reverse else reverse)
        results = [*tree_flatten(carry)[0], *tree_flatten(ys)[0]]
    finally:
        recorder.suspended -= 1
    size = recorder.traced(moved[0]).value.shape[0]
    traced = [
        inner if k < len(start) else _stacked(recorder, size, inner, x)
        for k, (inner, x) in enumerate(zip(made.traced, results))
    ]
    owned = _own(recorder, results)
    flat_form = tree_flatten(tuple(owned))[1]
    result = _call(recorder, "scan", args, owned, traced, flat_form)
    carry = tree_unflatten(list(result[: len(start)]), start_form)
    ys_flat = [y.flip(0) if reverse else y for y in result[len(start) :]]
    return carry, tree_unflatten(ys_flat, count[0])


_RECORDED: dict[Any, Callable[..., Any]] = {cond: _cond, while_loop: _while_loop, mapping: _map, scan: _scan}
