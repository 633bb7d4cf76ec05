"""`export`: a module's call, recorded as an `ExportedProgram`."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .._symbols.environment import Again, Symbols
from .._symbols.expressions import Expr, number, symbol
from .._symbols.numbers import SymBool, SymFloat, SymInt, SymNumber
from ..core.base.tensor import TensorBase
from ..core.make.random import default_generator
from ..fx.graph import Graph
from ..fx.node import Node
from ..jit._modules import ScriptModule
from ..library._targets import target
from ..nn.modules.module import Module
from ..utils._pytree import (
    MappingKey,
    SequenceKey,
    TreeSpec,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)
from ._numbers import call_of
from ._record import Recorder
from ._shadows import Traced, like, value_of
from .dynamic_shapes import Place, ShapesCollection, check, combined, declare, places, ranges, settle
from .errors import UserError
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)

_ATTEMPTS = 64
_KINDS = {"parameter": InputKind.PARAMETER, "buffer": InputKind.BUFFER, "constant": InputKind.CONSTANT_TENSOR}
_CONSTANTS = (int, float, bool, str, type(None))


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Mapping[str, Any] | tuple[Any, ...] | list[Any] | ShapesCollection | None = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """A module's call as a program: a graph of ATen's operations, for all sizes that `dynamic_shapes` says.

    The module runs once or more on copies of the example's tensors; its own parameters, buffers and random numbers stay as they are.
    Python's decisions are those of the example; where one depends on a size that may vary, the program holds for the sizes of that
    decision, and says so in `range_constraints`.

    Args:
        mod: the module.
        args: an example of its arguments, a tuple.
        kwargs: of its keyword arguments.
        dynamic_shapes: for each argument, by name or in order: for a tensor a dict {dimension: Dim("n"), Dim.AUTO, Dim.DYNAMIC or None},
            or a tuple of these; for lists and dicts of tensors the same structure of such; None where nothing varies.
        strict: taken as in PyTorch; both ways record the same here.
        preserve_module_call_signature: submodules that `unflatten` gives with their own arguments back.
        prefer_deferred_runtime_asserts_over_guards: taken as in PyTorch.

    Raises:
        UserError: arguments or `dynamic_shapes` are not what can be exported
        ConstraintViolationError: a size that was said to vary does not, or not within the range; the lines are named
        GuardOnDataDependentSymNode: the program's way depends on a value of a tensor; the line is named

    >>> import flambeau as torch
    >>> from flambeau.export import Dim, export
    >>> class Rows(torch.nn.Module):
    ...     def forward(self, x, scale):
    ...         return torch.relu(x.reshape(x.shape[0] * 2, -1)) * scale
    >>> program = export(Rows(), (torch.ones(3, 4), torch.ones(2)), dynamic_shapes={"x": {0: Dim("n")}, "scale": None})
    >>> [node.name for node in program.graph.nodes]
    ['x', 'scale', 'sym_size', 'mul', 'reshape', 'relu', 'mul_1', 'output']
    >>> program.module()(torch.ones(5, 4), torch.ones(2)).shape
    flambeau.Size([10, 2])
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if isinstance(mod, ScriptModule):
        raise ValueError(
            "Exporting a ScriptModule is not supported. Maybe try converting your ScriptModule to an ExportedProgram using TS2EPConverter"
            "(mod, args, kwargs).convert() instead."
        )
    if not isinstance(args, tuple):
        raise UserError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    return exported(
        _Call(mod, args, dict(kwargs or {}), dynamic_shapes, tuple(preserve_module_call_signature))
    )


def exported(call: _Call) -> ExportedProgram:
    """The program of a call, recorded as often as there is something new to learn of its sizes."""
    symbols = Symbols()
    declared = declare(symbols, call.leaves)
    for attempt in range(_ATTEMPTS):
        symbols.begin()
        symbols.sample_worlds(attempt)
        try:
            made = call.record(symbols, declared.sizes)
        except Again:
            continue
        check(symbols, declared.constraints)
        return made
    raise UserError(f"export(): what must hold of the sizes was not settled in {_ATTEMPTS} recordings")


class _Call:
    """The call that is exported."""

    def __init__(
        self,
        mod: Module,
        args: tuple,
        kwargs: dict[str, Any],
        dynamic_shapes: Any,
        preserved: tuple[str, ...],
        decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    ) -> None:
        self.mod, self.args, self.decompositions = mod, args, decompositions or {}
        try:
            arguments = combined(mod, args, kwargs)
        except TypeError as error:
            raise UserError(f"export(): the module does not take these arguments: {error}") from None
        self.kwargs = {name: kwargs[name] for name in kwargs}
        if isinstance(dynamic_shapes, ShapesCollection):
            dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
        self.leaves = self._in_order(places(arguments, dynamic_shapes), arguments)
        self.preserved = preserved
        self.flat, self.in_spec = tree_flatten((args, self.kwargs))
        for path in preserved:
            mod.get_submodule(path)  # AttributeError for what is none

    def _in_order(self, leaves: list[Place], arguments: Mapping[str, Any]) -> list[Place]:
        """The leaves as they come in arguments and keyword arguments, which may have another order than the parameters."""
        by_name: dict[str, list[Place]] = {}
        rest = iter(leaves)
        for name, value in arguments.items():
            by_name[name] = [next(rest) for _ in tree_flatten(value)[0]]
        named = [place for name in self.kwargs for place in by_name.get(name, ())]
        positional = [
            place for name, result in by_name.items() if name not in self.kwargs for place in result
        ]
        return positional + named

    def names(self) -> tuple[list[str], list[str]]:
        """Names for the leaves of the arguments, and for the arguments themselves."""
        own = inspect.signature(self.mod.forward).parameters
        positional = [p.name for p in own.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        rest = next((p.name for p in own.values() if p.kind is p.VAR_POSITIONAL), "args")
        heads = [
            positional[k] if k < len(positional) else f"{rest}_{k - len(positional)}"
            for k in range(len(self.args))
        ]
        heads += list(self.kwargs)
        result = []
        for head, value in zip(heads, [*self.args, *self.kwargs.values()]):
            for path, _ in tree_flatten_with_path(value)[0]:
                result.append("_".join([head, *(_word(k) for k in path)]))
        return result, heads

    # --- recording ------------------------------
    def record(self, symbols: Symbols, sizes: Sequence[dict[int, Expr]]) -> ExportedProgram:
        """The program, recorded with what is known of the sizes."""
        state = _State(self.mod)
        generator = default_generator.get_state()
        with state.copied():
            recorder = Recorder(symbols, state.attributes)
            recorder.decompositions = self.decompositions
            for name, (t, kind) in state.tensors.items():
                if kind != "constant":
                    recorder.lift(t, kind, name)
            names, heads = self.names()
            input_leaves, inputs = self._inputs(recorder, names, sizes)
            call_args, call_kwargs = tree_unflatten(input_leaves, self.in_spec)
            calls = _Calls(recorder, self.mod, self.preserved)
            try:
                with recorder, calls.watched():
                    result = self.mod(*call_args, **call_kwargs)
                    state.write_back(recorder)
                    flat, out_spec = tree_flatten(result)
                    outputs = [self._output(recorder, x) for x in flat]
            finally:
                default_generator.set_state(generator)
        _guard(recorder, inputs)
        recorder.graph.output(tuple(value for value, _ in outputs))
        _sweep(recorder)
        return self._program(recorder, state, symbols, inputs, outputs, out_spec, heads, calls)

    def _inputs(
        self, recorder: Recorder, names: Sequence[str], sizes: Sequence[dict[int, Expr]]
    ) -> tuple[list[Any], list[tuple[Node, Any]]]:
        """What the module is called with, and for each leaf its node and what is known of it."""
        input_leaves: list[Any] = []
        inputs: list[tuple[Node, Any]] = []
        symbols = recorder.symbols
        for name, leaf, own in zip(names, self.flat, sizes):
            node = recorder.graph.create_node("placeholder", name, name=name)
            node.target = node.name
            if recorder.first is None:
                recorder.first = node
            if isinstance(leaf, TensorBase):
                shape = tuple(
                    settle(symbols, own[d]) if d in own else int(n) for d, n in enumerate(leaf.shape)
                )
                copied = _copied(leaf)
                strides = None if leaf.is_contiguous() else _dense(leaf, shape)
                value = value_of(leaf, shape, strides)
                shadows = tuple(like(value, leaf, w) for w in symbols.worlds[1:])
                recorder.enter(copied, Traced(node, value, shadows))
                input_leaves.append(copied)
                node.meta["val"] = value
            elif own:
                e = settle(symbols, own[0])
                values = tuple(e.value(w) if isinstance(e, Expr) else e for w in symbols.worlds)
                input_leaves.append(recorder._number(e if isinstance(e, Expr) else number(e), values, node))
                node.meta["val"] = e
            elif isinstance(leaf, _CONSTANTS):
                input_leaves.append(leaf)
                node.meta["val"] = leaf
            else:
                raise UserError(
                    f"Unsupported input type {type(leaf)}. Export only supports pytree containers of basic types (Tensor, int, float, "
                    "...) as input. To register a custom dataclass, use torch.export.register_dataclass. To register a custom container "
                    "type, use torch.utils._pytree.register_pytree_node."
                )
            inputs.append((node, node.meta["val"]))
        return input_leaves, inputs

    def _output(self, recorder: Recorder, x: Any) -> tuple[Any, Any]:
        """A leaf of the result: what the output node returns, and its argument in the signature."""
        if isinstance(x, TensorBase):
            node = recorder.traced(x).node
            return node, TensorArgument(node.name)
        if isinstance(x, SymNumber):
            node = recorder.number_node(x)
            kind = {SymInt: SymIntArgument, SymBool: SymBoolArgument, SymFloat: SymFloatArgument}[type(x)]
            return node, kind(node.name)
        if isinstance(x, _CONSTANTS):
            return x, ConstantArgument("", x)
        raise UserError(
            f"It looks like one of the outputs with type `{type(x)}` is not supported or pytree-flattenable. Exported graphs outputs can "
            "only contain the following types: tensors, int, float, bool, str, None, and pytree containers of these."
        )

    # --- the program ------------------------------
    def _program(
        self,
        recorder: Recorder,
        state: _State,
        symbols: Symbols,
        inputs: Sequence[tuple[Node, Any]],
        outputs: Sequence[tuple[Any, Any]],
        out_spec: TreeSpec,
        heads: list[str],
        calls: _Calls,
    ) -> ExportedProgram:
        specs = []
        constants: dict[str, Any] = {}
        placeholders = {node for node in recorder.graph.nodes if node.op == "placeholder"}
        ordered = {node: k for k, node in enumerate(recorder.graph.nodes)}
        for x in sorted(
            (x for x in recorder.lifted if x.node in placeholders), key=lambda x: ordered[x.node]
        ):
            persistent = None
            if x.kind == "buffer":
                persistent = x.name not in state.non_persistent
            if x.kind == "constant" or persistent is False:
                constants[x.name] = state.original.get(x.name, x.tensor)
            specs.append(InputSpec(_KINDS[x.kind], TensorArgument(x.node.name), x.name, persistent))
        for node, value in inputs:
            specs.append(InputSpec(InputKind.USER_INPUT, _argument(node, value), None))
        signature = ExportGraphSignature(
            specs, [OutputSpec(OutputKind.USER_OUTPUT, arg, None) for _, arg in outputs]
        )
        for node in recorder.graph.nodes:
            if "val" in node.meta:
                node.meta["val"] = _settled(symbols, node.meta["val"])
        own_signature = ModuleCallSignature([], [], self.in_spec, out_spec, heads)
        entries = [ModuleCallEntry("", own_signature)]
        entries += [
            ModuleCallEntry(path, calls.signatures.get(path)) for path, _ in self.mod.named_modules() if path
        ]
        root = Module()
        for name, inner in recorder.submodules.items():
            root.add_module(name, inner)
        return ExportedProgram(
            root,
            recorder.graph,
            signature,
            state.dict(),
            ranges(symbols),
            entries,
            (self.args, self.kwargs),
            constants,
        )


def _word(key: Any) -> str:
    value = (
        key.key
        if isinstance(key, MappingKey)
        else key.idx
        if isinstance(key, SequenceKey)
        else getattr(key, "name", key)
    )
    return "".join(c if c.isalnum() else "_" for c in str(value))


def _copied(leaf: Any) -> Any:
    """A tensor of the program's own, in case it writes to it."""
    made = leaf.detach().clone()
    return made.requires_grad_() if leaf.requires_grad else made


def _dense(t: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """The strides of an input whose dimensions lie in another order; those of the example where they are not dense."""
    order = sorted(range(len(shape)), key=lambda d: (t.stride(d), -d))
    result: list[Any] = [0] * len(shape)
    step: Any = 1
    dense = 1
    for d in order:
        if t.shape[d] > 1 and t.stride(d) != dense:
            return tuple(t.stride())
        result[d] = step
        step, dense = shape[d] * step, dense * int(t.shape[d])
    return tuple(result)


def _settled(symbols: Symbols, value: Any) -> Any:
    if isinstance(value, Expr):
        return settle(symbols, value)
    if hasattr(value, "shape"):
        shape = tuple(settle(symbols, n) for n in value.shape)
        strides = tuple(settle(symbols, n) for n in value.strides)
        return type(value)(
            shape, value.dtype, strides, value.device, value.requires_grad, value.layout, value.offset
        )
    return tuple(_settled(symbols, v) for v in value) if type(value) is tuple else value


def _argument(node: Node, value: Any) -> Any:
    if hasattr(value, "shape"):
        return TensorArgument(node.name)
    return SymIntArgument(node.name) if isinstance(value, Expr) else ConstantArgument(node.name, value)


# --- the module's tensors ------------------------------
class _State:
    """The tensors of a module by name; while it is recorded, its buffers are copies."""

    def __init__(self, mod: Module) -> None:
        self.mod = mod
        self.tensors: dict[str, tuple[Any, str]] = {}
        self.attributes: dict[int, tuple[Any, str, str]] = {}
        self.original: dict[str, Any] = {}
        self.non_persistent: set[str] = set()
        self.owners: list[tuple[Module, str, str]] = []  # of buffers
        self.tensor_attributes: list[tuple[Module, str, Any]] = []  # other attributes that are tensors
        for name, p in mod.named_parameters(remove_duplicate=False):
            self._enter(name, p, "parameter")
        for path, inner in mod.named_modules(remove_duplicate=False):
            for name, b in inner._buffers.items():
                if b is not None:
                    full_name = f"{path}.{name}" if path else name
                    self.owners.append((inner, name, full_name))
                    self.original[full_name] = b
                    if name in inner._non_persistent_buffers_set:
                        self.non_persistent.add(full_name)
            for name, t in vars(inner).items():
                if isinstance(t, TensorBase):
                    full_name = f"{path}.{name}" if path else name
                    self._enter(full_name, t, "constant")
                    self.original[full_name] = t
                    self.tensor_attributes.append((inner, name, t))

    def _enter(self, name: str, t: Any, kind: str) -> None:
        self.tensors[name] = t, kind
        if kind != "constant" or id(t) not in self.attributes:
            self.attributes[id(t)] = t, kind, name

    @contextlib.contextmanager
    def copied(self) -> Iterator[None]:
        """Within it the module's buffers are copies, and afterwards they are what they were."""
        copies: dict[int, Any] = {}
        constants = {n: v for n, v in self.tensors.items() if v[1] == "constant"}
        for n in constants:
            del self.tensors[n]
        for inner, name, full_name in self.owners:
            b = self.original[full_name]
            if id(b) not in copies:
                copies[id(b)] = b.detach().clone().requires_grad_(b.requires_grad)
            inner._buffers[name] = copies[id(b)]
            self._enter(full_name, copies[id(b)], "buffer")
        self.tensors.update(constants)
        self.copies = {full_name: inner._buffers[name] for inner, name, full_name in self.owners}
        try:
            yield
        finally:
            for inner, name, full_name in self.owners:
                inner._buffers[name] = self.original[full_name]
            for inner, name, t in self.tensor_attributes:
                vars(inner)[name] = t

    def write_back(self, recorder: Recorder) -> None:
        """Nodes for buffers that the program set to other tensors; UserError for attributes that are no buffers."""
        for inner, name, full_name in self.owners:
            now = inner._buffers.get(name)
            before = self.copies[full_name]
            if now is not before and isinstance(now, TensorBase):
                recorder.step("copy_", "default", before, now)
        for inner, name, t in self.tensor_attributes:
            if vars(inner).get(name) is not t:
                raise ValueError(
                    f"The tensor attribute self.{name} was assigned during export. Such attributes must be registered as buffers using "
                    "the `register_buffer` API (https://pytorch.org/docs/stable/generated/torch.nn.Module.html"
                    "#torch.nn.Module.register_buffer)."
                )

    def dict(self) -> dict[str, Any]:
        """Parameters and persistent buffers by name: the module's own tensors."""
        result = {n: t for n, (t, kind) in self.tensors.items() if kind == "parameter"}
        return {**result, **{n: self.original[n] for _, _, n in self.owners if n not in self.non_persistent}}


class _Calls:
    """Notes which modules are being called, and the nodes that those take and give whose signatures are kept."""

    def __init__(self, recorder: Recorder, mod: Module, preserved: tuple[str, ...]) -> None:
        self.recorder, self.preserved = recorder, preserved
        self.modules = list(mod.named_modules())
        self.counts: dict[str, int] = {}
        self.begun: dict[str, tuple[list[Any], TreeSpec, list[str]]] = {}
        self.signatures: dict[str, ModuleCallSignature] = {}

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Within it calls of the modules are noted."""
        handles = []
        for path, inner in self.modules:
            handles.append(
                inner.register_forward_pre_hook(self._before(path, inner), prepend=True, with_kwargs=True)
            )
            handles.append(inner.register_forward_hook(self._after(path), with_kwargs=True, always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _before(self, path: str, inner: Module) -> Callable[..., None]:
        kind = f"{type(inner).__module__}.{type(inner).__qualname__}"

        def hook(module: Module, args: tuple, kwargs: dict[str, Any]) -> None:
            count = self.counts[path] = self.counts.get(path, -1) + 1
            self.recorder.modules.append((f"{path}@{count}" if count else path, kind))
            if path in self.preserved and path not in self.signatures:
                flat, spec = tree_flatten((args, kwargs))
                names = [p for p in inspect.signature(module.forward).parameters][: len(args)] + list(kwargs)
                self.begun[path] = [self._spec(x) for x in flat], spec, names

        return hook

    def _after(self, path: str) -> Callable[..., None]:
        def hook(module: Module, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
            if self.recorder.modules:
                self.recorder.modules.pop()
            if path in self.begun:
                inputs, in_spec, names = self.begun.pop(path)
                flat, out_spec = tree_flatten(result)
                outputs = [self._spec(x) for x in flat]
                self.signatures[path] = ModuleCallSignature(inputs, outputs, in_spec, out_spec, names)

        return hook

    def _spec(self, x: Any) -> Any:
        if isinstance(x, TensorBase):
            return TensorArgument(self.recorder.traced(x).node.name)
        if isinstance(x, SymNumber):
            return SymIntArgument(self.recorder.number_node(x).name)
        return ConstantArgument("", x)


# --- the graph ------------------------------
def _guard(recorder: Recorder, inputs: Sequence[tuple[Node, Any]]) -> None:
    """Checks of what no range says: multiples, and comparisons of several sizes, before anything else runs."""
    symbols = recorder.symbols
    guards = [
        g
        for g in symbols.guards
        if not any(symbols.symbols[n].unbacked for n in g.expr.symbols() if n in symbols.symbols)
    ]
    if not guards:
        return
    first = next((n for n in recorder.graph.nodes if n.op != "placeholder"), None)
    with recorder.graph.inserting_before(first) if first is not None else contextlib.nullcontext():
        nodes = _Nodes(recorder.graph, inputs)
        for g in guards:
            if not all(nodes.has(name) for name in g.expr.symbols()):
                continue
            value = nodes.of(g.expr)
            outcome = nodes.call(call_of(g.relation), value, 0)
            message = f"Guard failed: {g} ({g.why})"
            recorder.graph.create_node(
                "call_function", target("aten", "_assert_scalar"), (outcome, message), {}
            )


class _Nodes:
    """Nodes that compute expressions of the inputs' sizes."""

    def __init__(self, graph: Graph, inputs: Sequence[tuple[Node, Any]]) -> None:
        self.graph = graph
        self.places: dict[str, tuple[Node, int | None, Expr]] = {}
        self.made: dict[Any, Any] = {}
        for node, value in inputs:
            sizes = enumerate(value.shape) if hasattr(value, "shape") else [(None, value)]
            for d, e in sizes:
                if isinstance(e, Expr) and len(e.symbols()) == 1:
                    (name,) = e.symbols()
                    is_symbol = e == symbol(name)
                    if e.linear_in(name) is not None and (is_symbol or name not in self.places):
                        self.places[name] = node, d, e

    def has(self, name: str) -> bool:
        """Whether an input tells the symbol."""
        return name in self.places

    def call(self, function: Any, *args: Any) -> Any:
        """A node that calls a function."""
        key = (function, args)
        if key not in self.made:
            name = getattr(function, "_opname", None) or function.__name__
            self.made[key] = self.graph.create_node("call_function", function, args, {}, name=name)
        return self.made[key]

    def symbol(self, name: str) -> Any:
        """The node of a symbol."""
        node, d, e = self.places[name]
        size = node if d is None else self.call(target("aten", "sym_size", "int"), node, d)
        if isinstance(size, Node):
            size.meta["val"] = e
        factor = e.linear_in(name)
        offset = (e - symbol(name) * (factor or 1)).constant()
        if offset:
            size = self.call(call_of("sub"), size, offset)
        return size if factor == 1 else self.call(call_of("floordiv"), size, factor)

    def of(self, e: Expr) -> Any:
        """The node of an expression."""
        total: Any = None
        for product, c in e.terms:
            part: Any = None
            for atom in product:
                if isinstance(atom, str):
                    factor = self.symbol(atom)
                else:
                    name = {"min": "sym_min", "max": "sym_max"}.get(atom.kind, atom.kind)
                    factor = self.call(call_of(name), *map(self.of, atom.args))
                part = factor if part is None else self.call(call_of("mul"), part, factor)
            if part is None:
                part = c
            elif c != 1:
                part = self.call(call_of("mul"), part, c)
            total = part if total is None else self.call(call_of("add"), total, part)
        return 0 if total is None else total


def _sweep(recorder: Recorder) -> None:
    """Take out what nothing uses: calls that write nothing, and constants."""
    constants = {x.node for x in recorder.lifted if x.kind == "constant"}
    for node in reversed(list(recorder.graph.nodes)):
        if node.users or node.op == "output":
            continue
        if node.op == "placeholder":
            if node in constants:
                recorder.graph.erase_node(node)
        elif node.op == "get_attr" or not recorder.has_effect(node):
            recorder.graph.erase_node(node)
