"""From a call to the program of which a library is made: its arguments, its results, and the tensors that it keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ...autograd.grad_mode import no_grad
from ...core.base.formats import contiguous_format
from ...core.base.tensor import TensorBase
from ...fx import GraphModule, Node
from ...operations.declare.registry import REGISTRY
from ..capture import capture
from ..program import Program, Value
from ..record import Place
from ..trace import graph_of, mapped
from .tiles import row_major


class Taken(NamedTuple):
    """A program, its inputs in the order of the call's tensors, and the tensor behind each other input."""

    program: Program
    arguments: list[Value | None]  # None where the program does not have it
    given: list[TensorBase]
    weights: dict[Value, TensorBase]
    lines: list[tuple[str, int]]


def taken(who: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Taken:
    """The program of a call, which runs once, without gradients.

    Raises: RuntimeError where a part of the call cannot be captured, or leaves something behind; TypeError for results that are no tensors.
    """
    given: list[TensorBase] = []
    mapped((args, kwargs), TensorBase, given.append)
    for k, t in enumerate(given):
        if t.device.type != "cpu" or t.dtype.is_complex:
            raise RuntimeError(
                f"{who}: argument {k} is a tensor of {t.dtype} on {t.device}: real tensors on the CPU are taken"
            )
        if not t.is_contiguous() or any(t is other for other in given[:k]):
            raise RuntimeError(
                f"{who}: argument {k} must be contiguous, and another tensor than those before"
            )
    with no_grad():
        captured = capture(function, args, kwargs)
    why = captured.unless_guessed()  # checks of arguments within this library are left out
    if why is not None:
        raise RuntimeError(f"{who}: the call cannot be captured: {why}")
    if captured.writes:
        raise RuntimeError(f"{who}: the call sets {captured.writes[0][0]}, which a library cannot")
    made = _results(who, captured.result)
    graph = graph_of(captured.recording, [t for _, t in captured.inputs], tuple(made), captured.numbers)
    give_each_its_memory(graph)
    program = Program(graph)
    there = next((v.device for v in program.values if v.device is not None), None)
    if there is not None:
        raise RuntimeError(f"{who}: the call has a tensor on {there.place}: tensors on the CPU are taken")
    known = {id(t): v for (_, t), v in zip(captured.inputs, program.inputs)}
    arguments = [known.get(id(t)) for t in given]
    weights = {v: t for (_, t), v in zip(captured.inputs, program.inputs) if v not in arguments}
    lines = list(captured.lines)
    refuse_writes(who, program, lines)
    return Taken(program, arguments, given, weights, lines)


def _results(who: str, result: Any) -> list[TensorBase]:
    """The tensors of the result, in the order of its structure."""
    if isinstance(result, TensorBase):
        return [result]
    if isinstance(result, dict):
        result = list(dict.values(result))
    if not isinstance(result, (tuple, list)) or not result:
        raise TypeError(
            f"{who}: the call must return tensors, in tuples, lists and dictionaries; got {type(result).__name__} among them"
        )
    return [t for x in result for t in _results(who, x)]


def give_each_its_memory(graph: GraphModule) -> None:
    """Copy results that are views, inputs, or another result, so that each is contiguous and has memory of its own."""
    (output,) = [n for n in graph.graph.nodes if n.op == "output"]
    met: set[int] = set()
    number = -1
    results: list[Node] = []
    before = {
        n.meta["places"].storage
        for n in graph.graph.nodes
        if n.op in ("placeholder", "get_attr") and "places" in n.meta
    }
    for node in output.args[0]:
        at: Place = node.meta["places"]
        strides = row_major(at.shape)
        dense = at.offset == 0 and all(n == 1 or s == w for n, s, w in zip(at.shape, at.stride, strides))
        if not dense or at.storage in met or at.storage in before:
            with graph.graph.inserting_before(output):
                node = graph.graph.call_function(
                    REGISTRY["clone"].function, (node,), {"memory_format": contiguous_format}
                )
            node.meta["places"] = Place(number, 0, at.shape, strides, at.dtype, at.device)
            number -= 1
        met.add(node.meta["places"].storage)
        results.append(node)
    output.args = (tuple(results),)


def refuse_writes(who: str, program: Program, lines: list[tuple[str, int]]) -> None:
    """RuntimeError for a program that writes to what was there before it."""
    kept = {v.root for v in (*program.inputs, *program.constants())}
    for call in program.calls:
        if any(root in kept for root in call.written):
            raise RuntimeError(
                f"{who}: {call.name}(){where(call, lines)} writes to an argument or to a tensor of the module, which a library cannot: "
                "call eval() on modules first"
            )


def where(call: Any, lines: list[tuple[str, int]]) -> str:
    """` (file:line)` of a call, where it is known."""
    if call.recorded is None or call.recorded >= len(lines) or not lines[call.recorded][1]:
        return ""
    name, line = lines[call.recorded]
    return f" ({Path(name).name}:{line})"
