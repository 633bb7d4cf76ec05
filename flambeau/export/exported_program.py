"""`ExportedProgram`: a graph, what its inputs and outputs are, and the state that it reads."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .._tensor import Tensor
from ..core.base import display
from ..core.base.callbacks import callbacks
from ..fx._code import CodeGen
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..nn.modules.module import Module
from ..utils._pytree import TreeSpec
from ._guards import Guards, Violation, leaves_of
from ._unlift import leaves_of_pair, paths, unlifted
from ._verifier import TrainingIRVerifier, Verifier
from .graph_signature import ArgumentSpec, ExportGraphSignature, InputKind

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature"]


@dataclass
class ModuleCallSignature:
    """Which nodes a call of a module took and gave, in which structures.

    Raises nothing.

    >>> from flambeau.export.exported_program import ModuleCallSignature
    >>> from flambeau.utils._pytree import tree_structure
    >>> signature = ModuleCallSignature([], [], tree_structure(((1,), {})), tree_structure(1))
    >>> signature.forward_arg_names is None
    True
    """

    inputs: list[ArgumentSpec]
    outputs: list[ArgumentSpec]
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original_node: Any, new_node: Any) -> None:
        """Name a node by another wherever the call has it."""
        for arg in (*self.inputs, *self.outputs):
            if arg.name == original_node.name:
                arg.name = new_node.name


@dataclass
class ModuleCallEntry:
    """A module of the program that was exported, by its dotted name, and its call where that was preserved.

    Raises nothing.

    >>> from flambeau.export.exported_program import ModuleCallEntry
    >>> ModuleCallEntry("layers.0")
    ModuleCallEntry(fqn='layers.0', signature=None)
    """

    fqn: str
    signature: ModuleCallSignature | None = field(default=None)


class CallSpec(NamedTuple):
    """The structures of a program's arguments and of its result."""

    in_spec: TreeSpec | None
    out_spec: TreeSpec | None


class ExportedProgram:
    """A program that `export` has taken from a module, or `export.load` from a file.

    `graph` calls functions and reads nothing but its inputs: parameters, buffers and constants come before what the caller gives.
    `graph_signature` says which input is what, and which outputs are written back.  `module()` is the module that runs.

    Raises:
        SpecViolationError: the graph, the signature and the state do not fit.

    >>> import flambeau as torch
    >>> from flambeau.export.graph_signature import *
    >>> from flambeau.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
    >>> from flambeau.utils._pytree import tree_structure
    >>> graph = torch.fx.Graph()
    >>> w, x = graph.placeholder("p_w"), graph.placeholder("x")
    >>> y = graph.call_function(torch.mul, (x, w))
    >>> _ = graph.output((y,))
    >>> signature = ExportGraphSignature(
    ...     [
    ...         InputSpec(InputKind.PARAMETER, TensorArgument("p_w"), "w"),
    ...         InputSpec(InputKind.USER_INPUT, TensorArgument("x"), None),
    ...     ],
    ...     [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument("mul"), None)],
    ... )
    >>> x.meta["val"] = torch.empty(2, device="meta")
    >>> call = ModuleCallSignature([], [], tree_structure(((1,), {})), tree_structure(1), ["x"])
    >>> state = {"w": torch.nn.Parameter(torch.full((2,), 3.0))}
    >>> program = ExportedProgram(torch.nn.Module(), graph, signature, state, {}, [ModuleCallEntry("", call)])
    >>> program.module()(torch.ones(2))
    tensor([3., 3.], grad_fn=<MulBackward0>)
    >>> try:
    ...     program.module()(torch.ones(3))
    ... except AssertionError as error:
    ...     print(error)
    Guard failed: x.size()[0] == 2 (Expected input at x.shape[0] to be equal to 2, but got 3)
    """

    def __init__(
        self,
        root: Module | dict[str, Any],
        graph: Graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Any],
        range_constraints: Mapping[Any, Any],
        module_call_graph: list[ModuleCallEntry],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
        constants: dict[str, Any] | None = None,
        *,
        verifiers: list[type[Verifier]] | None = None,
    ) -> None:
        if module_call_graph is None:
            raise AssertionError("ExportedProgram(): module_call_graph must not be None")
        graph.set_codegen(CodeGen())  # arguments one by one
        self._graph_module: GraphModule = _LazyGraphModule(root, graph, "GraphModule")
        self._graph_signature = graph_signature
        self._state_dict = state_dict
        self._range_constraints = dict(range_constraints)
        self._module_call_graph = module_call_graph
        self._example_inputs = example_inputs
        self._constants = constants or {}
        self._verifiers = verifiers or [TrainingIRVerifier]
        if not all(isinstance(v, type) and issubclass(v, Verifier) for v in self._verifiers):
            raise AssertionError(f"ExportedProgram(): expected subclasses of Verifier, got {verifiers}")
        self._guards_code: list[str] = []  # what PyTorch checks beside ranges, as texts
        self._hints: dict[str, int] = {}  # the numbers of symbols in the example
        self.validate()

    # --- parts ------------------------------
    @property
    def graph_module(self) -> GraphModule:
        """The module that holds the graph, whose `forward` takes all inputs one by one."""
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What inputs and outputs of the graph are."""
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and persistent buffers by name."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Any]:
        """Tensors that are neither parameters nor buffers, buffers that no state dict has, and objects, by name."""
        return self._constants

    tensor_constants = constants

    @property
    def range_constraints(self) -> dict[Any, Any]:
        """The smallest and the largest number that each symbol of a size may stand for."""
        return self._range_constraints

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The modules that the program was exported from, the outermost first."""
        return self._module_call_graph

    @property
    def call_spec(self) -> CallSpec:
        """The structures of arguments and result; None where nothing is known of them."""
        if not self._module_call_graph:
            return CallSpec(None, None)
        first = self._module_call_graph[0]
        if first.fqn != "" or first.signature is None:
            raise AssertionError(
                f"ExportedProgram: expected the first call to be the outermost module's, got {first.fqn!r}"
            )
        return CallSpec(first.signature.in_spec, first.signature.out_spec)

    @property
    def verifiers(self) -> list[type[Verifier]]:
        """The classes that check the program."""
        return self._verifiers

    @property
    def verifier(self) -> type[Verifier]:
        """The first of them."""
        return self._verifiers[0]

    @property
    def dialect(self) -> str:
        """How PyTorch calls the level of the graph."""
        return self._verifiers[0].dialect

    @property
    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Arguments and keyword arguments that the program was exported with; others may be set."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value: Any) -> None:
        if value is not None:
            pair = isinstance(value, tuple) and len(value) == 2
            if not (pair and isinstance(value[0], tuple) and isinstance(value[1], dict)):
                raise ValueError(
                    "Example inputs should be a tuple containing example arguments (as a tuple), and example kwargs (as a dictionary)."
                )
            leaves_of(value[0], value[1], self._in_spec())
        self._example_inputs = value

    # --- state ------------------------------
    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """The parameters with their names."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def parameters(self) -> Iterator[Any]:
        """The parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their names."""
        non_persistent = set(self.graph_signature.non_persistent_buffers)
        for name in self.graph_signature.buffers:
            yield name, (self.constants if name in non_persistent else self.state_dict)[name]

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        for _, buffer in self.named_buffers():
            yield buffer

    def _lifted(self, target: str) -> Any:
        """What stands under a name of the signature; None for another name."""
        for spec in self.graph_signature.input_specs:
            if spec.target == target:
                non_persistent = spec.persistent is False or spec.kind not in (
                    InputKind.PARAMETER,
                    InputKind.BUFFER,
                )
                return (self.constants if non_persistent else self.state_dict)[target]
        return None

    def _in_spec(self) -> TreeSpec:
        spec = self.call_spec.in_spec
        if spec is None:
            raise AssertionError("ExportedProgram: nothing is known of its arguments")
        leaves_of_pair(spec)
        return spec

    def _ranges(self) -> dict[str, tuple[Any, Any]]:
        """The ranges of symbols by name."""
        return {str(symbol): (r.lower, r.upper) for symbol, r in self._range_constraints.items()}

    # --- runs ------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def module(self, check_guards: bool = True) -> GraphModule:
        """A module that runs the program: its parameters, buffers and constants are attributes, and what it writes is written.

        Arguments are checked before anything runs: their structure (ValueError), and shapes, dtypes and numbers that the program was
        exported for: AssertionError, or RuntimeError with `check_guards=False`.  `train()` and `eval()` raise NotImplementedError.

        >>> import flambeau as torch
        >>> from flambeau.export.exported_program import ExportedProgram
        >>> ExportedProgram.module.__name__
        'module'
        """
        return unlifted(self, check_guards)

    def run_decompositions(self, decomp_table: Mapping[Any, Any] | None = None) -> ExportedProgram:
        """The program in other steps, which write to none of its inputs: what is written to buffers and inputs are outputs.

        `decomp_table` has functions by overloads, which run in their place; `default_decompositions()` where none is given.

        >>> import flambeau as torch
        >>> program = torch.export.export(torch.nn.BatchNorm1d(2), (torch.ones(3, 2),))
        >>> [str(s) for s in program.run_decompositions().graph_signature.output_specs][:2]
        ["getitem_3: BUFFER_MUTATION target='running_mean'", "getitem_4: BUFFER_MUTATION target='running_var'"]
        """
        return callbacks["run_decompositions"](self, decomp_table)

    def _get_flat_args_with_check(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, TreeSpec]:
        """The leaves of a call's arguments, checked, and their structure."""
        spec = self._in_spec()
        leaves = leaves_of(args, kwargs, spec)
        examples = [
            node.meta.get("val")
            for node, s in zip(self._placeholders(), self.graph_signature.input_specs)
            if s.kind is InputKind.USER_INPUT
        ]
        names = [f"args[{k}]" for k in range(spec.child(0).num_children)]
        names += [f"kwargs[{k!r}]" for k in spec.child(1).context]
        try:
            Guards(paths(spec, names), examples, self._ranges()).check(leaves)
        except Violation as violation:
            raise RuntimeError(violation.path) from None
        return tuple(leaves), spec

    def _graph_module_flat_inputs(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """All inputs of `graph_module` for the arguments of a call."""
        leaves, _ = self._get_flat_args_with_check(args, kwargs)
        specs = self.graph_signature.input_specs
        lifted = [self._lifted(str(s.target)) for s in specs if s.kind is not InputKind.USER_INPUT]
        return (*lifted, *leaves)

    def _placeholders(self) -> list[Any]:
        return [node for node in self.graph.nodes if node.op == "placeholder"]

    # --- checks and copies ------------------------------
    def validate(self) -> None:
        """SpecViolationError where graph, signature and state do not fit."""
        for verifier in self._verifiers:
            verifier().check(self)

    def _update(
        self,
        graph_module: GraphModule,
        graph_signature: ExportGraphSignature,
        *,
        state_dict: dict[str, Any] | None = None,
        constants: dict[str, Any] | None = None,
        verifiers: list[type[Verifier]] | None = None,
    ) -> ExportedProgram:
        """A program of another graph with the rest of this one."""
        return ExportedProgram(
            graph_module,
            graph_module.graph,
            graph_signature,
            self.state_dict if state_dict is None else state_dict,
            dict(self.range_constraints),
            copy.deepcopy(self._module_call_graph),
            self.example_inputs,
            self.constants if constants is None else constants,
            verifiers=self.verifiers if verifiers is None else verifiers,
        )

    def __str__(self) -> str:
        code = self.graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        signature = str(self.graph_signature).replace("\n", "\n    ")
        return f"ExportedProgram:\n    {code}\nGraph signature: {signature}\nRange constraints: {self.range_constraints}\n"


for _class in (ExportedProgram, ModuleCallEntry, ModuleCallSignature):
    _class.__module__ = display.public("export.exported_program")
