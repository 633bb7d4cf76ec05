"""`ExportedProgram.run_decompositions`: a program whose graph writes to none of its inputs, with other functions in the place of steps.

The program is exported anew, its own module being the module.  What it writes to buffers and inputs becomes outputs: a step that writes
to a value which nothing else shares becomes one that gives a new value, and where views share it, the writes go to a copy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .._symbols.expressions import Expr
from ..core.base.callbacks import set_callback
from ..fx.graph import Graph
from ..fx.node import Node
from ..library._targets import target
from ..operations.declare.registry import REGISTRY
from ..utils._pytree import tree_unflatten
from ._export import _Call, exported
from ._verifier import Verifier
from .dynamic_shapes import Dim
from .errors import UserError
from .exported_program import ExportedProgram
from .graph_signature import ExportGraphSignature, InputKind, OutputKind, OutputSpec, TensorArgument

DECOMPOSITIONS: dict[str, Callable[..., Any]] = {}  # by overloads


def decomposition(*overloads: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What an overload is made of, in ATen's smaller operations; NotImplemented where it stays."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        DECOMPOSITIONS.update(dict.fromkeys(overloads, function))
        return function

    return declare


@decomposition("linear.default")
def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    turned = weight.permute(1, 0)
    if x.dim() != 2:
        return NotImplemented
    return x.mm(turned) if bias is None else REGISTRY["addmm"].function(bias, x, turned)


@decomposition("batch_norm.default")
def _batch_norm(
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn: bool = False,
) -> Any:
    if mean is None or var is None:
        return NotImplemented
    if not training:
        return target("aten", "_native_batch_norm_legit_no_training")(
            x, weight, bias, mean, var, momentum, eps
        )[0]
    step = target("aten", "_native_batch_norm_legit_functional")
    result = step(x, weight, bias, mean, var, training, momentum, eps)
    mean.copy_(result[3])
    var.copy_(result[4])
    return result[0]


def _in_training(x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, *rest: Any) -> Any:
    return _batch_norm(x, weight, bias, mean, var, training, *rest) if training else NotImplemented


@decomposition("t.default")
def _turned(x: Any) -> Any:
    return x.permute(*reversed(range(x.dim())))


@decomposition("transpose.int")
def _transposed(x: Any, dim0: int, dim1: int) -> Any:
    order = list(range(x.dim()))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return x.permute(*order)


def default_decompositions() -> dict[Any, Callable[..., Any]]:
    """Functions by overloads: what `run_decompositions()` puts in the place of steps; entries may be taken out and put in.

    >>> import flambeau as torch
    >>> table = torch.export.default_decompositions()
    >>> torch.ops.aten.linear.default in table
    True
    """
    result = {}
    for name, function in DECOMPOSITIONS.items():
        op, _, overload = name.partition(".")
        result[target("aten", op, overload)] = function
    return result


def run_decompositions(
    program: ExportedProgram, decomp_table: Mapping[Any, Callable[..., Any]] | None
) -> ExportedProgram:
    """`ExportedProgram.run_decompositions`."""
    table = default_decompositions() if decomp_table is None else dict(decomp_table)
    table.setdefault(
        target("aten", "batch_norm"), _in_training
    )  # it writes to buffers, of which its schema tells nothing
    args, kwargs, shapes = _example(program)
    run = program.module(check_guards=False)
    run._forward_pre_hooks.clear()
    run._forward_pre_hooks_with_kwargs.clear()
    call = _Call(run, args, kwargs, shapes, (), table)
    made = exported(call)
    _keep(program, made)
    signature = _without_writes(made)
    result = made._update(
        made.graph_module,
        signature,
        state_dict=program.state_dict,
        constants={**made.constants},
        verifiers=[Verifier],
    )
    result._module_call_graph = program.module_call_graph
    result._example_inputs = program.example_inputs
    return result


def _example(program: ExportedProgram) -> tuple[tuple, dict[str, Any], Any]:
    """Arguments that the program takes, and which of their sizes vary."""
    spec = program._in_spec()
    nodes = [
        n
        for n, s in zip(program._placeholders(), program.graph_signature.input_specs)
        if s.kind is InputKind.USER_INPUT
    ]
    values = [n.meta.get("val") for n in nodes]
    ranges = program._ranges()
    labels = {
        name: Dim(f"d_{name}", min=max(int(low), 0), max=_end(high)) for name, (low, high) in ranges.items()
    }
    inputs = program.example_inputs
    leaves: list[Any] = []
    if inputs is not None:
        leaves = program._get_flat_args_with_check(*inputs)[0]  # type: ignore[assignment]
    else:
        sizes = {name: int(max(low, 2)) + k for k, (name, (low, _)) in enumerate(ranges.items())}
        leaves = [_made(v, sizes) for v in values]
    dynamic = [_spec(v, labels) for v in values]
    args, kwargs = tree_unflatten(list(leaves), spec)
    shaped, named = tree_unflatten(dynamic, spec)
    parameters = [p.name for p in inspect.signature(program.module().forward).parameters.values()]
    return args, kwargs, {**dict(zip(parameters, shaped)), **named}


def _end(high: float) -> int | None:
    return None if high == float("inf") else int(high)


def _made(value: Any, sizes: Mapping[str, int]) -> Any:
    if hasattr(value, "shape"):
        shape = [n.value(sizes) if hasattr(n, "symbols") else n for n in value.shape]
        return REGISTRY["zeros"].function(shape, dtype=value.dtype, device=value.device)
    return value.value(sizes) if hasattr(value, "symbols") else value


def _spec(value: Any, labels: Mapping[str, Dim]) -> Any:
    """What `dynamic_shapes` says of an input that is known so."""
    if not hasattr(value, "shape"):
        return _dim(value, labels) if hasattr(value, "symbols") else None
    return {d: _dim(n, labels) for d, n in enumerate(value.shape) if hasattr(n, "symbols")}


def _dim(e: Any, labels: Mapping[str, Dim]) -> Any:
    names = sorted(e.symbols())
    if len(names) == 1 and isinstance(e, Expr) and (c := e.linear_in(names[0])) is not None and c > 0:
        rest = (e - Expr({(names[0],): c})).constant()
        if rest is not None:
            label = labels[names[0]]
            made = label if c == 1 else label * c
            return made if rest == 0 else made + rest
    raise UserError(
        f"run_decompositions(): an input's size {e} is no multiple of one symbol and a number more"
    )


def _keep(program: ExportedProgram, made: ExportedProgram) -> None:
    """Let the kinds and names of inputs be those of the program."""
    before = {str(s.target): s for s in program.graph_signature.input_specs if s.target is not None}
    for spec in made.graph_signature.input_specs:
        previous = before.get(str(spec.target))
        if previous is not None:
            spec.kind, spec.persistent = previous.kind, previous.persistent
            if previous.kind is InputKind.CONSTANT_TENSOR or previous.persistent is False:
                made.constants[str(spec.target)] = program.constants[str(spec.target)]


# --- writes as outputs ------------------------------
def _without_writes(program: ExportedProgram) -> ExportGraphSignature:
    """Rewrite the graph so that it writes to none of its inputs; the signature that says what is written back."""
    graph = program.graph
    specs = dict(zip([n.name for n in program._placeholders()], program.graph_signature.input_specs))
    kinds = {InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION}
    written: list[tuple[Node, Node]] = []
    for node in program._placeholders():
        if not _is_written(node):
            continue
        if specs[node.name].kind is InputKind.CONSTANT_TENSOR:
            raise UserError(
                f"run_decompositions(): the program writes to the constant {specs[node.name].target!r}"
            )
        written.append((node, _functional(graph, node)))
    outputs = graph.output_node()
    count = len(written)
    outputs.args = ((*(value for _, value in written), *outputs.args[0]),)
    for node in list(graph.nodes):
        if (
            node.op == "call_function"
            and _writes(node)
            and isinstance(node.args[0], Node)
            and _fresh(node.args[0])
        ):
            if _pure_target(node) is not None:
                _step(graph, node, node.args[0])
    _sweep(graph)
    new, returned = outputs.args[0][:count], outputs.args[0][count:]
    mutations = []
    for (node, _), value in zip(written, new):
        spec = specs[node.name]
        kind = kinds.get(spec.kind, OutputKind.USER_INPUT_MUTATION)
        mutations.append(OutputSpec(kind, TensorArgument(value.name), spec.target or node.name))
    graph.lint()
    program.graph_module.recompile()
    users = []
    for spec, value in zip(program.graph_signature.output_specs, returned):
        if isinstance(value, Node) and isinstance(spec.arg, TensorArgument):
            spec.arg.name = value.name
        users.append(spec)
    return ExportGraphSignature(program.graph_signature.input_specs, [*mutations, *users])


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _arguments(node: Node) -> list[tuple[Any, Any]]:
    """The arguments of a call's schema with their values."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return []
    pairs = [
        (a, node.args[k] if k < len(node.args) else node.kwargs.get(a.name))
        for k, a in enumerate(schema.arguments)
    ]
    return [
        (a, each) for a, value in pairs for each in (value if isinstance(value, (list, tuple)) else [value])
    ]


def _written_args(node: Node) -> list[Node]:
    """The arguments that a call writes to."""
    return [value for a, value in _arguments(node) if isinstance(value, Node) and a.is_write]


def _shares(node: Node, with_: Node | None = None) -> bool:
    """Whether a call's result may share memory with an argument, or with this one."""
    if getattr(node.target, "_schema", None) is None:
        return getattr(node.target, "__name__", "") == "getitem"
    return any(
        a.alias_info is not None and (with_ is None or value is with_) for a, value in _arguments(node)
    )


def _aliases(node: Node) -> list[Node]:
    """The nodes whose values may share memory with this one, itself first."""
    result = [node]
    for each in result:
        for user in each.users:
            if user not in result and user.op == "call_function" and _shares(user, each):
                result.append(user)
    return result


def _is_written(node: Node) -> bool:
    return any(
        _writes(user) and each in _written_args(user) for each in _aliases(node) for user in each.users
    )


def _functional(graph: Graph, node: Node) -> Node:
    """The value that an input has in the end, in a graph that does not write to it."""
    aliases = _aliases(node)
    only_writes = all(a is node or (_writes(a) and a.args[0] in aliases) for a in aliases)
    value = node
    if only_writes and all(_pure_target(a) is not None for a in aliases[1:]):
        for each in list(graph.nodes):
            if each in aliases[1:]:
                value = _step(graph, each, value)
        return value
    first = next(n for n in graph.nodes if n.op != "placeholder")
    with graph.inserting_before(first):
        copied = graph.call_function(target("aten", "clone"), (node,))
    copied.meta.update({k: v for k, v in node.meta.items() if k == "val"})
    node.replace_all_uses_with(copied)
    copied.args = (node,)
    return copied


def _fresh(node: Node) -> bool:
    """Whether a value is a call's own, and nothing else shares its memory."""
    return node.op == "call_function" and not _shares(node) and len(_aliases(node)) == 2


def _sweep(graph: Graph) -> None:
    """Take out what nothing uses and what writes nothing."""
    for node in reversed(list(graph.nodes)):
        schema = getattr(node.target, "_schema", None)
        has_effects = schema is not None and (schema.is_mutable or not schema.returns)
        if node.op in ("call_function", "get_attr") and not node.users and not has_effects:
            graph.erase_node(node)


def _pure_target(node: Node) -> Any:
    """The overload that gives a new value in the place of one that writes; None where there is none."""
    name, overload = node.target._opname, node.target._overloadname  # type: ignore[union-attr]
    if not name.endswith("_") or name.startswith("_") or len(_written_args(node)) != 1:
        return None
    try:
        return target("aten", name[:-1], overload)
    except AttributeError:
        return None


def _alike(a: Any, b: Any) -> bool:
    """Whether two values have one shape and dtype."""
    x, y = (n.meta.get("val") if isinstance(n, Node) else None for n in (a, b))
    return x is not None and y is not None and (tuple(x.shape), x.dtype) == (tuple(y.shape), y.dtype)


def _step(graph: Graph, node: Node, before: Node) -> Node:
    """A new value in the place of a write: who read the one or the other afterwards reads the new one."""
    later = {n for n in graph.nodes if n > node}
    args = node.args
    if node.target._opname == "copy_" and _alike(args[0], args[1]):  # type: ignore[union-attr]
        made: Any = args[1]
    else:
        with graph.inserting_before(node):
            made = graph.call_function(_pure_target(node), (before, *args[1:]), dict(node.kwargs))
        made.meta.update(node.meta)
    before.replace_all_uses_with(made, lambda user: user in later and user is not made)
    node.replace_all_uses_with(made)
    graph.erase_node(node)
    return made


set_callback("run_decompositions", run_decompositions)
