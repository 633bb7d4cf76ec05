"""A call run once and planned, to look at the plan."""

from __future__ import annotations

import linecache
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.base.tensor import TensorBase
from ..fx import GraphModule
from .capture import capture
from .entries import Unplanned, graph_of_capture
from .lines import Lines
from .lower import plan
from .program import Program
from .record import Recording
from .report import Report
from .sources import Guard
from .trace import graph_of, mapped


def report(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Report:
    """Run a call once, and say how it is planned, with the lines of the program.

    As `trace.record`: leaves of everything that the call does, as control flow went this time.

    >>> import flambeau as torch
    >>> from flambeau.graph.explain import report
    >>> report(lambda x: (x * 2).exp(), torch.zeros(3)).home
    {%1: float32[3] = mul(%0, 2): kernel 0, %2: float32[3] = exp(%1): kernel 0}
    """
    inputs: list[Any] = []
    mapped((args, kwargs), TensorBase, inputs.append)
    with Recording() as recording, Lines(recording) as lines:
        result = function(*args, **kwargs)
    made: Report = plan(Program(graph_of(recording, inputs, result))).report
    made.lines = lines.of_calls()
    return made


@dataclass
class GraphCompileReason:
    """Why a call is not captured whole, and where in the program that is."""

    reason: str
    user_stack: list[traceback.FrameSummary]
    graph_break: bool = True


@dataclass
class ExplainOutput:
    """What a call was captured as: one graph, or none and the reason.

    Raises nothing; as text it is what PyTorch's own shows.
    """

    graphs: list[GraphModule]
    graph_count: int
    graph_break_count: int
    break_reasons: list[GraphCompileReason]
    op_count: int
    ops_per_graph: list[list[Any]]
    out_guards: list[Guard]
    compile_times: str

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for k, why in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {k}:", f"    Reason: {why.reason}", "    User Stack:"]
            lines += [f"      {frame}" for frame in why.user_stack]
        lines.append("Ops per Graph:")
        for k, ops in enumerate(self.ops_per_graph, 1):
            lines += [f"  Ops {k}:", *(f"    {op}" for op in ops)]
        lines.append("Out Guards:")
        for k, guard in enumerate(self.out_guards, 1):
            lines += [f"  Guard {k}:", f"    {guard}"]
        return "\n".join([*lines, f"Compile Times: {self.compile_times}", ""])


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """A function that calls `f` once and says what it is captured as: graphs, guards, and why not more, as an `ExplainOutput`.

    TypeError where `f` cannot be called; what `f` raises.

    >>> import flambeau as torch
    >>> found = torch._dynamo.explain(lambda x: (x * 2).exp())(torch.ones(2))
    >>> found.graph_count, found.graph_break_count, found.op_count
    (1, 0, 2)
    >>> torch._dynamo.explain(lambda x: x.exp() if x.sum() > 0 else x)(torch.ones(2)).break_reasons[0].reason
    'looks at a value of a tensor (item)'
    """
    if not callable(f):
        raise TypeError(f"explain(): expected something that can be called, got {type(f).__name__}")

    def explained(*args: Any, **kwargs: Any) -> ExplainOutput:
        begun = time.perf_counter()
        result = capture(getattr(f, "_orig_mod", f), args, kwargs)
        reasons, graphs = [], []
        why = result.unless_guessed()
        if why is not None:
            line = linecache.getline(why.filename, why.line).strip()
            frames = [traceback.FrameSummary(why.filename, why.line, "", line=line)] if why.line else []
            reasons.append(GraphCompileReason(why.why, frames))
        else:
            made: list[TensorBase] = []
            mapped(result.result, TensorBase, made.append)
            try:
                graphs.append(graph_of_capture(result, made))
            except Unplanned as error:
                reasons.append(GraphCompileReason(str(error), []))
        ops = [[n.target for n in g.graph.nodes if n.op == "call_function"] for g in graphs]
        seconds = time.perf_counter() - begun
        return ExplainOutput(
            graphs,
            len(graphs),
            len(reasons),
            reasons,
            sum(map(len, ops)),
            ops,
            result.guards,
            f"capture {seconds:.4f} s",
        )

    return explained(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else explained
