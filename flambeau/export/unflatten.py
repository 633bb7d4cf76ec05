"""`unflatten`: an exported program as modules again, those that the program was exported from, with the calls that each made."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..core.base import display
from ..fx._code import TreeInfo
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_arg
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ..utils._pytree import SequenceKey, tree_flatten, tree_leaves, tree_leaves_with_path
from ._unlift import WRITTEN, Checked, Keywords, names_of
from .exported_program import ExportedProgram, ModuleCallSignature
from .graph_signature import InputKind

__all__ = ["FlatArgsAdapter", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter:
    """What brings the leaves of other arguments to those that a program takes: subclasses say how.

    NotImplementedError where none does.

    >>> from flambeau.export import FlatArgsAdapter
    >>> class Reversed(FlatArgsAdapter):
    ...     def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
    ...         return list(reversed(input_args))
    >>> Reversed().adapt(None, None, [1, 2])
    [2, 1]
    """

    def adapt(
        self, target_spec: Any, input_spec: Any, input_args: list[Any], metadata: Any = None, obj: Any = None
    ) -> list[Any]:
        """The leaves for arguments of the structure `target_spec`; `get_flat_arg_paths` of the module may tell more.

        Raises NotImplementedError here.
        """
        raise NotImplementedError("FlatArgsAdapter.adapt(): a subclass says how arguments are adapted")


class UnflattenedModule(_LazyGraphModule):
    """The module that `unflatten` gives: submodules stand under their names, and may be replaced by others that take the same.

    RuntimeError where its graph reads what the modules around it do not give.

    >>> import flambeau as torch
    >>> program = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    >>> isinstance(torch.export.unflatten(program), torch.export.UnflattenedModule)
    True
    """

    def process_forward_inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The leaves of a call's arguments, checked."""
        return self._checked.leaves(args, kwargs)


def unflatten(module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """The modules of an exported program: each computes what its module computed when the program was exported.

    A module takes the tensors that its calls read and gives those that others read; with `preserve_module_call_signature` of `export`
    it takes and gives what it did in the program.  A module that was called twice, and did not do the same both times, stands under
    `name` and `name@1`.

    Args:
        flat_args_adapter: brings arguments of another structure to those of the program.

    Raises:
        ValueError: the arguments of a call have another structure than the program's.

    >>> import flambeau as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    >>> again = torch.export.unflatten(torch.export.export(net, (torch.ones(1, 2),)))
    >>> [name for name, _ in again.named_children()], list(again.state_dict())
    (['0', '1'], ['0.weight', '0.bias'])
    >>> setattr(again, "1", torch.nn.Identity())
    >>> torch.equal(again(torch.ones(1, 2)), net[0](torch.ones(1, 2)))
    True
    """
    if not isinstance(module, ExportedProgram):
        raise TypeError(f"unflatten(): expected an ExportedProgram, got {type(module).__name__}")
    made = _Outline(module).build()
    made.__dict__["_checked"] = checked = Checked(module, names_of(module), True)
    if flat_args_adapter is None:
        made.register_forward_pre_hook(checked, with_kwargs=True)
        return made
    adapter, spec = flat_args_adapter, module.call_spec.in_spec
    assert spec is not None

    def adapted(self: Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        leaves, received = tree_flatten((args, kwargs))
        if received != spec:
            leaves = adapter.adapt(spec, received, leaves)
            if len(leaves) != spec.num_leaves:
                raise ValueError(
                    f"FlatArgsAdapter.adapt() gave {len(leaves)} leaves, {spec.num_leaves} are wanted"
                )
        result: tuple[tuple, dict[str, Any]] = spec.unflatten(leaves)
        return checked(self, *result) or result

    made.register_forward_pre_hook(adapted, with_kwargs=True)
    return made


@dataclass
class _Call:
    """A module's call: its nodes and the calls in it, in their order."""

    path: str
    number: int = 0
    parts: list[Node | _Call] = field(default_factory=list)

    def nodes(self) -> Iterable[Node]:
        """All nodes in it."""
        for part in self.parts:
            if isinstance(part, _Call):
                yield from part.nodes()
            else:
                yield part


class _Outline:
    """The program's nodes as calls within calls, and the modules that are made of them."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.paths = {entry.fqn for entry in program.module_call_graph}
        self.signatures = {
            e.fqn: e.signature for e in program.module_call_graph if e.fqn and e.signature is not None
        }
        nodes = list(program.graph.nodes)
        self.inputs = [n for n in nodes if n.op == "placeholder"]
        self.specs = dict(zip(self.inputs, program.graph_signature.input_specs))
        lifted = [n for n in self.inputs if self.specs[n].kind is not InputKind.USER_INPUT]
        self.targets = {n: str(self.specs[n].target) for n in lifted}
        self.named: dict[
            int, list[str]
        ] = {}  # names of a tensor, by which modules of tied weights find theirs
        for name, value in (*program.state_dict.items(), *program.constants.items()):
            self.named.setdefault(id(value), []).append(name)
        self.count: dict[str, int] = {}
        self.made: dict[str, list[tuple[Any, str]]] = {}
        self.outside: dict[Node, set[str]] = {}
        self.top = self._calls([n for n in nodes if n.op not in ("placeholder", "output")])

    # --- calls ------------------------------
    def _stack(self, node: Node) -> list[tuple[str, str]]:
        """Keys and paths of the modules around a node, the outermost left out."""
        result = []
        for key, (path, _) in node.meta.get("nn_module_stack", {}).items():
            bare = path.partition("@")[0]
            if bare in self.paths and bare:
                result.append((key, bare))
        return result

    def _calls(self, nodes: list[Node]) -> _Call:
        top = _Call("")
        open_calls: list[tuple[str, _Call]] = []
        before: list[tuple[str, str]] = []
        for node in nodes:
            if node.op == "get_attr":  # a branch's graph, which stands where it is read
                top.parts.append(node)
                continue
            module_stack = node.meta.get("nn_module_stack")
            stack = (
                self._stack(node)
                if module_stack and any(p == "" or p in self.paths for p, _ in module_stack.values())
                else before
            )
            before = stack
            depth = 0
            while depth < min(len(stack), len(open_calls)) and open_calls[depth][0] == stack[depth][0]:
                depth += 1
            del open_calls[depth:]
            for key, path in stack[depth:]:
                call = _Call(path, self.count.get(path, 0))
                self.count[path] = call.number + 1
                (open_calls[-1][1] if open_calls else top).parts.append(call)
                open_calls.append((key, call))
            (open_calls[-1][1] if open_calls else top).parts.append(node)
        return top

    # --- modules ------------------------------
    def build(self) -> UnflattenedModule:
        """The outermost module."""
        program, graph, values = self.program, Graph(), dict[Any, Any]()
        root = Module()
        for node in self.inputs:
            if self.specs[node].kind is InputKind.USER_INPUT:
                values[node] = graph.node_copy(node)
        self._fill(self.top, graph, values, root, "")
        outputs = map_arg(
            program.graph.output_node().args[0], lambda n: self._value(n, graph, values, root, "")
        )
        returned, after = [], dict[Any, Node]()
        inputs = {n.name: n for n in self.inputs}
        by_target = {target: n for n, target in self.targets.items()}
        for spec, value in zip(program.graph_signature.output_specs, tree_leaves(outputs)):
            if spec.kind in WRITTEN:
                place = by_target.get(str(spec.target)) or inputs[str(spec.target)]
                after[value] = graph.call_method(
                    "copy_", (self._value(place, graph, values, root, ""), value)
                )
            else:
                returned.append(value)
        graph.output(tuple(after.get(v, v) if isinstance(v, Node) else v for v in returned))
        call = program.call_spec
        graph.set_codegen(Keywords(TreeInfo(names_of(program), call.in_spec, call.out_spec)))
        made = UnflattenedModule(root, graph, "UnflattenedModule")
        _adopt(made, root)
        return made

    def _value(self, node: Node, graph: Graph, values: dict[Any, Any], root: Module, path: str) -> Any:
        """What stands for a node in the graph of the module at a path; state is read from the module where it lies in it."""
        if node in values:
            return values[node]
        if node not in self.targets:
            raise RuntimeError(
                f"unflatten(): {node.name} is read in {path or 'the program'} before it is computed"
            )
        target = self._within(node, path)
        assert target is not None
        with graph.inserting_before(_first(graph)):
            result = values[node] = graph.create_node("get_attr", target, name=target.replace(".", "_"))
        self._place(root, target, node)
        return result

    def _within(self, node: Node, path: str) -> str | None:
        """The name of state in the module at a path; None where it lies outside."""
        target = self.targets.get(node)
        if target is None:
            return None
        if not path:
            return target
        value = self.program._lifted(target)
        names = [target, *self.named.get(id(value), ())]
        return next((n.removeprefix(path + ".") for n in names if n.startswith(path + ".")), None)

    def _place(self, root: Module, target: str, node: Node) -> None:
        """Let a module have the state that its graph reads."""
        value, spec = self.program._lifted(self.targets[node]), self.specs[node]
        owner, name = _owner(root, target)
        if name in owner._parameters or name in owner._buffers or name in vars(owner):
            return
        if spec.kind is InputKind.PARAMETER:
            owner.register_parameter(
                name, value if isinstance(value, Parameter) else Parameter(value, value.requires_grad)
            )
        elif spec.kind is InputKind.BUFFER:
            owner.register_buffer(name, value, persistent=spec.persistent is not False)
        else:
            object.__setattr__(owner, name, value)

    def _fill(self, call: _Call, graph: Graph, values: dict[Any, Any], root: Module, path: str) -> None:
        """Append the nodes of a call, and the calls of the modules in it."""
        for part in call.parts:
            if isinstance(part, _Call):
                self._call_module(part, graph, values, root, path)
            elif part.op == "get_attr":
                name = str(part.target)
                _owner(root, name)[0].add_module(name, getattr(self.program.graph_module, name))
                values[part] = graph.create_node("get_attr", name, name=name)
            else:
                values[part] = graph.node_copy(part, lambda n: self._value(n, graph, values, root, path))

    def _call_module(
        self, call: _Call, graph: Graph, values: dict[Any, Any], root: Module, path: str
    ) -> None:
        own = set(call.nodes())
        signature = self.signatures.get(call.path) if call.number == 0 else None
        taken, returned = self._ends(call, own, signature)
        name = call.path.removeprefix(path + ".") if path else call.path
        made = self._module(call, taken, returned, signature)
        target = self._stands(root, name, call, made)
        args: Any = tuple(self._value(n, graph, values, root, path) for n in taken)
        kwargs: dict[str, Any] = {}
        if signature is not None:
            args, kwargs = signature.in_spec.unflatten(list(args))
        result = graph.create_node("call_module", target, tuple(args), kwargs)
        result.meta = {k: v for k, v in next(iter(own)).meta.items() if k in ("nn_module_stack",)}
        if signature is not None:
            for node, keys in zip(returned, _key_paths(signature)):
                values[node] = _reached(graph, result, keys)
        elif len(returned) == 1:
            values[returned[0]] = result
        else:
            for k, node in enumerate(returned):
                values[node] = graph.call_function(operator.getitem, (result, k))

    def _ends(
        self, call: _Call, own: set[Node], signature: ModuleCallSignature | None
    ) -> tuple[list[Node], list[Node]]:
        """The nodes that a call takes, and those that it gives."""
        by_name = {n.name: n for n in self.program.graph.nodes}
        if signature is not None:
            ends = [
                [by_name[a.name] for a in args if a.name in by_name]
                for args in (signature.inputs, signature.outputs)
            ]
            if len(ends[0]) == signature.in_spec.num_leaves and len(ends[1]) == signature.out_spec.num_leaves:
                return ends[0], ends[1]
        taken: dict[Node, None] = {}
        for node in call.nodes():
            for source in node._input_nodes:
                if source not in own and self._within(source, call.path) is None:
                    taken[source] = None
        returned = [n for n in call.nodes() if any(user not in own for user in n.users)]
        return list(taken), returned

    def _module(
        self, call: _Call, taken: list[Node], returned: list[Node], signature: ModuleCallSignature | None
    ) -> GraphModule:
        """The module of one call."""
        graph, values, root = Graph(), dict[Any, Any](), Module()
        for node in taken:
            values[node] = graph.create_node("placeholder", node.name, name=node.name)
        self._fill(call, graph, values, root, call.path)
        results = [self._value(n, graph, values, root, call.path) for n in returned]
        if signature is not None:
            names = [f"arg_{k}" for k in range(signature.in_spec.child(0).num_children)]
            names += list(signature.in_spec.child(1).context)
            graph.output(tuple(results))
            graph.set_codegen(Keywords(TreeInfo(names, signature.in_spec, signature.out_spec)))
        else:
            graph.output(results[0] if len(results) == 1 else tuple(results))
        made: GraphModule = _LazyGraphModule(root, graph, "InterpreterModule")
        _adopt(made, root)
        return made

    def _stands(self, root: Module, name: str, call: _Call, made: GraphModule) -> str:
        """Where the module of a call stands: a call that does what one before did is a call of the same module."""
        modules = self.made.setdefault(call.path, [])
        for other, target in modules:
            if _same(other, made):
                return target
        target = name if not modules else f"{name}@{len(modules)}"
        owner, last = _owner(root, target)
        before = owner._modules.get(last)
        owner.add_module(last, made)
        if before is not None:  # an empty module that held what lies in this one
            _adopt(made, before)
        modules.append((made, target))
        return target


def _first(graph: Graph) -> Node | None:
    return next((n for n in graph.nodes if n.op != "placeholder"), None)


def _owner(root: Module, target: str) -> tuple[Module, str]:
    """The module that a dotted name's last part belongs to, made where there is none."""
    *path, name = target.split(".")
    for part in path:
        inner = root._modules.get(part)
        if inner is None:
            inner = Module()
            root.add_module(part, inner)
        root = inner
    return root, name


def _adopt(made: Module, root: Module) -> None:
    """Let a module have what was made for it: submodules in their order, state, constants."""
    for table in ("_parameters", "_buffers", "_modules"):
        mine, theirs = getattr(made, table), getattr(root, table)
        merged = {**theirs, **{k: v for k, v in mine.items() if k not in theirs}}
        mine.clear()
        mine.update(merged)
    made._non_persistent_buffers_set |= root._non_persistent_buffers_set
    for name, value in vars(root).items():
        if name not in vars(made):  # a constant, which modules of graphs take for a buffer
            made._buffers.pop(name, None)
            object.__setattr__(made, name, value)


def _same(a: GraphModule, b: GraphModule) -> bool:
    """Whether two modules of calls compute the same of the same state."""
    mine, theirs = list(a.graph.nodes), list(b.graph.nodes)
    if len(mine) != len(theirs):
        return False
    other = dict(zip(mine, theirs))
    for x, y in zip(mine, theirs):
        if (x.op, str(x.target) if x.op == "placeholder" else x.target) != (
            y.op,
            str(x.target) if x.op == "placeholder" else y.target,
        ):
            return False
        if map_arg((x.args, x.kwargs), other.__getitem__) != (y.args, y.kwargs):
            return False
        if x.op == "call_module" and a.get_submodule(str(x.target)) is not b.get_submodule(str(y.target)):
            if not _same(a.get_submodule(str(x.target)), b.get_submodule(str(y.target))):  # type: ignore[arg-type]
                return False
    return True


def _key_paths(signature: ModuleCallSignature) -> list[tuple]:
    output = signature.out_spec.unflatten(range(signature.out_spec.num_leaves))
    return [path for path, _ in tree_leaves_with_path(output)]


def _reached(graph: Graph, result: Node, keys: tuple) -> Node:
    """The part of a result at a path of keys."""
    for key in keys:
        at: Callable[..., Any] = operator.getitem
        result = graph.call_function(
            at, (result, key.idx if isinstance(key, SequenceKey) else getattr(key, "key", key))
        )
    return result


UnflattenedModule.__module__ = FlatArgsAdapter.__module__ = display.public("export.unflatten")
