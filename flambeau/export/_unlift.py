"""A module of an exported program: its graph with parameters, buffers and constants as attributes, and what is written back written."""

from __future__ import annotations

import keyword
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._tensor import Tensor
from ..core.make.create import empty
from ..fx._code import TreeInfo, _PyTreeCodeGen
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_arg
from ..library._targets import Target
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ..utils._pytree import TreeSpec, tree_is_leaf, tree_leaves
from ._guards import Guards, Violation, is_flat, leaves_of
from ._values import is_tensor
from .graph_signature import InputKind, OutputKind

if TYPE_CHECKING:
    from .exported_program import ExportedProgram

_TENSOR = empty(0)
WRITTEN = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)
_LIFTED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ)


def unlifted(program: ExportedProgram, check_guards: bool) -> GraphModule:
    """`ExportedProgram.module()`."""
    call = program.call_spec
    if call.in_spec is None:
        raise AssertionError("ExportedProgram.module(): the program does not say which arguments it takes")
    graph = _graph(program)
    names = names_of(program)
    graph.set_codegen(Keywords(TreeInfo(names, call.in_spec, call.out_spec)))
    module: GraphModule = _LazyGraphModule(_root(program, graph), graph, "GraphModule")
    _set_kinds(program, module)
    module.meta.update(program.graph_module.meta)
    module.register_forward_pre_hook(Checked(program, names, check_guards), with_kwargs=True)
    module.train = types.MethodType(_no_train, module)  # type: ignore[method-assign]
    module.eval = types.MethodType(_no_eval, module)  # type: ignore[method-assign]
    return module


def _no_train(self: Module, mode: bool = True) -> Module:
    raise NotImplementedError("Calling train() is not supported yet.")


def _no_eval(self: Module) -> Module:
    raise NotImplementedError("Calling eval() is not supported yet.")


# --- the graph ------------------------------
def _graph(program: ExportedProgram) -> Graph:
    """The graph with attributes for what was lifted, and with what is written back written."""
    graph = Graph()
    made: dict[Node, Node] = {}
    attributes: dict[str, Node] = {}
    inputs: dict[str, Node] = {}
    nodes = list(program.graph.nodes)
    placeholders = [n for n in nodes if n.op == "placeholder"]
    lifted = dict(zip(placeholders, program.graph_signature.input_specs))
    for node in placeholders:  # what the caller gives comes first, as parameters of the code
        if lifted[node].kind not in _LIFTED:
            made[node] = inputs[node.name] = graph.node_copy(node)
    for node in placeholders:
        spec = lifted[node]
        if spec.kind in _LIFTED:
            copied = graph.create_node("get_attr", str(spec.target), name=str(spec.target).replace(".", "_"))
            copied.meta = dict(node.meta)
            made[node] = attributes[str(spec.target)] = copied
    for node in nodes:
        if node.op not in ("placeholder", "output"):
            made[node] = graph.node_copy(node, made.__getitem__)
            made[node].target = direct(node)
    returned = map_arg(program.graph.output_node().args[0], made.__getitem__)
    graph.output(_written_back(program, graph, tree_leaves(returned), attributes, inputs))
    return graph


def _written_back(
    program: ExportedProgram,
    graph: Graph,
    outputs: list[Any],
    attributes: dict[str, Node],
    inputs: dict[str, Node],
) -> tuple:
    """The outputs that the caller gets, after the others were written to where they belong."""
    after: dict[Any, Node] = {}
    values = []
    for spec, value in zip(program.graph_signature.output_specs, outputs):
        if spec.kind in WRITTEN:
            of_input = spec.kind is OutputKind.USER_INPUT_MUTATION
            place = (inputs if of_input else attributes)[str(spec.target)]
            if spec.kind is OutputKind.PARAMETER_MUTATION:  # written within `no_grad`, as a leaf has to be
                graph.call_method("copy_", (graph.call_method("detach", (place,)), value))
                after[value] = place
            else:
                after[value] = graph.call_method("copy_", (place, value))
        elif spec.kind is not OutputKind.TOKEN:
            values.append(value)
    return tuple(after.get(v, v) if isinstance(v, Node) else v for v in values)


def direct(node: Node) -> Any:
    """The operation that a call of ATen's is, where the arguments are those that it takes; else what the node calls."""
    if not isinstance(node.target, Target) or node.kwargs or node.op != "call_function":
        return node.target
    return node.target.direct(map_arg(node.args, _stand_in)) or node.target


def _stand_in(node: Node) -> Any:
    value = node.meta.get("val")
    return _TENSOR if is_tensor(value) else value if isinstance(value, (int, float)) else 2


# --- its attributes ------------------------------
def _root(program: ExportedProgram, graph: Graph) -> dict[str, Any]:
    """What the graph's attributes are; those that the program's own graph had are graphs of branches."""
    result: dict[str, Any] = {}
    for node in graph.nodes:
        if node.op == "get_attr":
            value: Any = program._lifted(str(node.target))
            if value is None:
                value = program.graph_module
                for part in str(node.target).split("."):
                    value = getattr(value, part)
            result[str(node.target)] = value
    for target in program.graph_signature.parameters:
        if not isinstance(result[target], Parameter):
            result[target] = Parameter(result[target], result[target].requires_grad)
    return result


def _set_kinds(program: ExportedProgram, module: GraphModule) -> None:
    """Let buffers that no state dict has, and constants, be such."""
    signature = program.graph_signature
    for target in signature.non_persistent_buffers:
        owner, name = _owner(module, target)
        if name in owner._buffers:
            owner._non_persistent_buffers_set.add(name)
    for target in signature.lifted_tensor_constants:
        owner, name = _owner(module, target)
        if name in owner._buffers:
            constant = owner._buffers.pop(name)
            object.__setattr__(owner, name, constant.detach() if isinstance(constant, Tensor) else constant)


def _owner(module: Module, target: str) -> tuple[Module, str]:
    path, _, name = target.rpartition(".")
    return (module.get_submodule(path) if path else module), name


# --- its arguments ------------------------------
class Keywords(_PyTreeCodeGen):
    """Code that takes positional arguments, then those that the program was exported with by name."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        names, spec = list(self.pytree_info.orig_args), self.pytree_info.in_spec
        head = super(_PyTreeCodeGen, self).gen_fn_def(names, maybe_return_annotation)
        if not free_vars:
            return head
        variables = [v.partition("=")[0].partition(":")[0].strip() for v in free_vars]
        if is_flat(spec):
            renamed = [(a, b) for a, b in zip(variables, names) if a != b]
            if not renamed:
                return head
            return f"{head}\n    {', '.join(a for a, _ in renamed)} = {', '.join(b for _, b in renamed)}"
        count = spec.child(0).num_children
        by_name = ", ".join(f"{key!r}: {name}" for key, name in zip(spec.child(1).context, names[count:]))
        arguments = f"(({''.join(f'{name}, ' for name in names[:count])}), {{{by_name}}})"
        return (
            f"{head}\n    {', '.join(variables)}, = fx_pytree.tree_flatten_spec({arguments}, self._in_spec)"
        )

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr) -> str:
        spec = self.pytree_info.out_spec
        if spec is not None and spec.is_leaf():
            return f"return {repr_fn(output_args[0])}"
        if spec is not None and spec.type is tuple and all(c.is_leaf() for c in spec.children()):
            return f"return {repr_fn(output_args)}"
        return super().generate_output(output_args, repr_fn=repr_fn)


def names_of(program: ExportedProgram) -> list[str]:
    """The names of the code's parameters; ValueError where those of keyword arguments are none."""
    call = program.module_call_graph[0].signature
    spec = program._in_spec()
    count, keywords = spec.child(0).num_children, list(spec.child(1).context)
    arg_names = list(call.forward_arg_names or ()) if call is not None else []
    positional = arg_names[:count] if len(arg_names) >= count else [f"arg_{k}" for k in range(count)]
    if not all(map(_is_parameter, positional)) or len({*positional, *keywords}) < count + len(keywords):
        positional = [f"arg_{k}" for k in range(count)]
    wrong = [name for name in keywords if not isinstance(name, str) or not _is_parameter(name)]
    if wrong or set(positional) & set(keywords):
        raise ValueError(f"an exported program has keyword arguments that are no names: {keywords!r:.200}")
    return [*positional, *keywords]


def _is_parameter(name: str) -> bool:
    return (
        name.isidentifier() and not keyword.iskeyword(name) and name != "self" and not name.startswith("__")
    )


def leaves_of_pair(spec: TreeSpec) -> None:
    """ValueError unless a structure is that of positional arguments and of those by name."""
    if (
        spec.type is not tuple
        or spec.num_children != 2
        or spec.child(0).type is not tuple
        or spec.child(1).type is not dict
    ):
        raise ValueError(f"an exported program takes a tuple and a dictionary, its structure is {spec}")


class Checked:
    """The hook that checks a call's arguments before anything of the program runs."""

    def __init__(self, program: ExportedProgram, names: list[str], as_guards: bool) -> None:
        self.in_spec, self.as_guards = program._in_spec(), as_guards
        specs = program.graph_signature.input_specs
        nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
        user_inputs = [n for n, s in zip(nodes, specs) if s.kind is InputKind.USER_INPUT]
        self.guards = Guards(
            paths(self.in_spec, names), [n.meta.get("val") for n in user_inputs], program._ranges()
        )
        self.is_flat = is_flat(self.in_spec)
        self.count, self.keywords = self.in_spec.child(0).num_children, self.in_spec.child(1).context

    def __call__(
        self, module: Module, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[tuple, dict[str, Any]] | None:
        self.leaves(args, kwargs)
        return None

    def leaves(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of a call's arguments, checked."""
        if self.is_flat and len(args) == self.count and len(kwargs) == len(self.keywords) == 0:
            leaves = list(args)
            if not all(type(x) is Tensor or tree_is_leaf(x) for x in leaves):
                leaves = leaves_of(args, kwargs, self.in_spec)
        else:
            leaves = leaves_of(args, kwargs, self.in_spec)
        try:
            self.guards.check(leaves)
        except Violation as violation:
            result = violation
        else:
            return leaves
        if self.as_guards:
            raise AssertionError(f"Guard failed: {result.guard} ({result.path})")
        raise RuntimeError(result.path)


def paths(in_spec: TreeSpec, names: list[str]) -> list[str]:
    """How each leaf of the arguments is reached from the code's parameters: `x`, `y['a'][0]`."""
    result: list[str] = []

    def walk(spec: TreeSpec, path: str) -> None:
        if spec.is_leaf():
            result.append(path)
            return
        keys = spec.context if spec.type is dict else range(spec.num_children)
        for key, inner in zip(keys, spec.children()):
            walk(inner, f"{path}[{key!r}]")

    for name, spec in zip(names, [*in_spec.child(0).children(), *in_spec.child(1).children()]):
        walk(spec, name)
    return result
