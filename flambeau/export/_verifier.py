"""What an exported program must be: its graph calls functions only, and its signature names what the graph and the state have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.base import display
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..nn.modules.module import Module
from ..utils._pytree import tree_leaves
from .graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument, TokenArgument

if TYPE_CHECKING:
    from .exported_program import ExportedProgram


class SpecViolationError(Exception):
    """A graph or a signature that is not what exported programs have.

    >>> from flambeau.export._verifier import SpecViolationError
    >>> issubclass(SpecViolationError, Exception)
    True
    """


class Verifier:
    """The checks of a program; its `dialect` is how PyTorch calls the level of the graph.

    >>> from flambeau.export._verifier import Verifier
    >>> Verifier.dialect
    'ATEN'
    """

    dialect = "ATEN"

    def check(self, program: ExportedProgram) -> None:
        """SpecViolationError where the program is not what it must be."""
        self._check_graph_module(program.graph_module)
        _check_calls(program)
        _check_inputs(program)
        _check_outputs(program)

    def _check_graph_module(self, module: GraphModule) -> None:
        for inner in module.modules():
            if isinstance(inner, GraphModule):
                inner.graph.lint()
                for node in inner.graph.nodes:
                    self._check_node(node, inner, inner is module)

    def _check_node(self, node: Node, module: GraphModule, outermost: bool) -> None:
        if node.op in ("call_module", "call_method"):
            raise SpecViolationError(
                f"{node.name}: an exported graph calls functions, got a {node.op} of {node.target!r}"
            )
        if node.op == "get_attr":
            result: Any = module
            for part in str(node.target).split("."):
                result = getattr(result, part, None)
            if result is None:
                raise SpecViolationError(f"{node.name}: the graph's module has no attribute {node.target!r}")
            if outermost and not isinstance(result, Module):
                raise SpecViolationError(
                    f"{node.name}: expected {node.target!r} to be the graph of a branch, got {type(result).__name__}; parameters, "
                    "buffers and constants are inputs of an exported graph"
                )


class TrainingIRVerifier(Verifier):
    """That of graphs whose calls may write to their arguments, as `export` gives them.

    >>> from flambeau.export._verifier import TrainingIRVerifier
    >>> TrainingIRVerifier.dialect
    'TRAINING'
    """

    dialect = "TRAINING"


VERIFIERS: dict[str, type[Verifier]] = {v.dialect: v for v in (Verifier, TrainingIRVerifier)}


def _check_calls(program: ExportedProgram) -> None:
    names = {node.name for node in program.graph.nodes}
    for entry in program.module_call_graph:
        if entry.signature is None:
            continue
        for what, args in (("Input", entry.signature.inputs), ("Output", entry.signature.outputs)):
            for arg in args:
                if arg.name and arg.name not in names:
                    raise SpecViolationError(f"{what} {arg.name} does not exist in the graph.")


def _check_inputs(program: ExportedProgram) -> None:
    signature = program.graph_signature
    nodes = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    if len(nodes) != len(signature.input_specs):
        raise SpecViolationError(
            f"Number of graph inputs ({len(nodes)}) does not match number of inputs in the graph signature "
            f"({len(signature.input_specs)})"
        )
    for spec, name in zip(signature.input_specs, nodes):
        if not isinstance(spec.arg, (ConstantArgument, TokenArgument)) and spec.arg.name != name:
            raise SpecViolationError(f"Input spec name {spec.arg.name} does not match node name {name}")
        if spec.kind in (InputKind.USER_INPUT, InputKind.TOKEN):
            continue
        if not isinstance(spec.target, str):
            raise SpecViolationError(
                f"InputSpec of {name}: expected the name of a {spec.kind.name}, got {spec.target!r}"
            )
        if spec.kind is InputKind.CUSTOM_OBJ:
            targets: Any = program.constants
        elif not isinstance(spec.arg, TensorArgument):
            raise SpecViolationError(
                f"{spec.kind.name} {name} is not a tensor argument. Found {spec.arg} instead."
            )
        elif spec.kind is InputKind.CONSTANT_TENSOR or spec.persistent is False:
            targets = program.constants
        else:
            targets = program.state_dict
        if spec.target not in targets:
            where = "constants" if targets is program.constants else "state dict"
            raise SpecViolationError(f"{spec.kind.name} {spec.target} is not in the {where}.")


_WRITTEN = {
    OutputKind.BUFFER_MUTATION: "buffers",
    OutputKind.PARAMETER_MUTATION: "parameters",
    OutputKind.GRADIENT_TO_PARAMETER: "parameters",
}


def _check_outputs(program: ExportedProgram) -> None:
    signature = program.graph_signature
    returned = program.graph.output_node().args[0]
    outputs = [node.name if isinstance(node, Node) else None for node in tree_leaves(returned)]
    if len(outputs) != len(signature.output_specs):
        raise SpecViolationError(
            f"Number of output nodes {len(outputs)} is different from the number of outputs in the graph signature "
            f"({len(signature.output_specs)})"
        )
    inputs = set(signature.user_inputs)
    for spec, name in zip(signature.output_specs, outputs):
        if not isinstance(spec.arg, (ConstantArgument, TokenArgument)) and spec.arg.name != name:
            raise SpecViolationError(f"Output spec name {spec.arg.name} does not match node name {name}")
        if spec.kind in _WRITTEN:
            targets: Any = getattr(signature, _WRITTEN[spec.kind])
        elif spec.kind in (OutputKind.USER_INPUT_MUTATION, OutputKind.GRADIENT_TO_USER_INPUT):
            targets = inputs
        else:
            continue
        if spec.target not in targets:
            raise SpecViolationError(
                f"{spec.kind.name} output {name} has no target {spec.target!r} in the signature's inputs"
            )


for _class in (SpecViolationError, Verifier, TrainingIRVerifier):
    _class.__module__ = display.public("_export.verifier")
