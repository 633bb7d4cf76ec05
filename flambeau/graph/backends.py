"""What a compiled function does with a call that it has no capture for: whether it captures, and who makes a launch of it."""

from __future__ import annotations

import operator
import sys
import threading
import weakref
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from types import MethodType
from typing import Any

from ..core.base.display import NAME
from ..core.base.tensor import TensorBase
from ..core.call.casting import is_cache_enabled, set_cache_enabled
from ..core.call.module import call_itself
from ..core.tape.functions import FunctionNode
from ..fx import GraphModule
from ..fx.node import map_arg
from ..nn import Module
from . import config
from .compiled import Compiled, Entry
from .compiled import is_capturing as is_capturing  # `compiler` reaches the engine by this module
from .compiled import switch_off as switch_off
from .entries import Launch, Unplanned, entry_of, graph_of_capture, log, planned, refuse_blank
from .errors import BackendCompilerFailed, FailOnRecompileLimitHit, RecompileError, Unsupported
from .guards import Guards
from .options import DEFAULT, Options
from .record import Place
from .region import Spent, history, node_of
from .sources import Arguments, Capture, Equals, Item, Keywords, Length, Made, Refusal, Source

LIBRARY = str(Path(__file__).parents[1])  # where the library's own files lie
SAME_NUMBER = 8  # captures for other values of one number, after which Python runs
REFUSALS = 8  # calls that were not captured whole, after which Python runs
SAME_REFUSAL = 3  # the same for calls that were all refused at one place of the program

_compiled: weakref.WeakSet[Compiled] = weakref.WeakSet()
stance = threading.local()  # .name: what `set_stance` says in this thread


class Backend:
    """What `compile` was given beside the function.

    `run` is a backend's function, None for the library's own compiler, whose options are `own`; `remake` compiles a function in the
    same way.
    """

    def __init__(
        self,
        run: Callable[..., Any] | None,
        fullgraph: bool,
        options: dict[str, Any],
        remake: Callable[..., Any],
        dynamic: bool | None = None,
        own: Options = DEFAULT,
    ) -> None:
        self.run, self.fullgraph, self.options, self.remake = run, fullgraph, options, remake
        self.dynamic, self.own = dynamic, own

    def compiled(self, function: Callable[..., Any]) -> Compiled:
        made = Compiled(
            function, self, MethodType(call_itself, function) if isinstance(function, Module) else None
        )
        _compiled.add(made)
        return made

    def inner(self, module: Module) -> Compiled | None:
        """What is compiled of a module that a refused function calls; None for one of the library's without others in it."""
        own = vars(module)
        made = own.get("_compiled_inner")
        if made is not None and made.backend is self:
            return made
        if not module._modules and _is_library(type(module).forward):
            return None
        own["_compiled_inner"] = made = self.compiled(module)
        return made

    def may_capture(self, compiled: Compiled, reasons: list[tuple[Any, str]]) -> bool:
        """Whether a call is captured that none of the entries is right for, each for its reason."""
        name = _name(compiled.function)
        if reasons and (config.error_on_recompile or getattr(stance, "name", "") == "fail_on_recompile"):
            raise RecompileError(f"{NAME}.compile: {name} would be captured anew: {reasons[0][1]}")
        if reasons and getattr(stance, "name", "") == "eager_on_recompile":
            return False
        if getattr(stance, "name", "") == "eager_then_compile" and not vars(compiled).get("_called"):
            vars(compiled)["_called"] = True
            return False
        why = ""
        if len(reasons) >= min(config.recompile_limit, config.cache_size_limit):
            if config.fail_on_recompile_limit_hit or self.fullgraph:
                raise FailOnRecompileLimitHit(
                    f"{NAME}.compile: {name} has {len(reasons)} captures (config.recompile_limit), and none is right here: "
                    f"{reasons[0][1]}"
                )
            why = f"it has {len(reasons)} captures (config.recompile_limit)"
        elif _often_refused(compiled.entries):
            refused = [entry for entry in compiled.entries if entry.launch is None]
            why = f"{len(refused)} calls were not captured whole"
            compiled.closed = True
            compiled.as_python = len(refused) == len(compiled.entries)
        elif (
            reasons
            and isinstance(reasons[0][0], (Equals, Length))
            and compiled.misses_of(reasons[0][0].source) > SAME_NUMBER
        ):
            number = "number" if isinstance(reasons[0][0], Equals) else "length"
            why = f"{reasons[0][0].source} is another {number} at every call"
        if why and not vars(compiled).get("_said"):
            log.warning("%s: runs as Python says: %s (%s)", name, why, reasons[0][1] if reasons else "")
            vars(compiled)["_said"] = True
        return not why

    def variable(self, compiled: Compiled) -> Container[Source]:
        """The sources of numbers that a capture is to be right for whatever they are."""
        if self.dynamic is False or self.run is not None:
            return frozenset()
        return _Arguments(compiled.varying()) if self.dynamic else compiled.varying()

    def capture(self, compiled: Compiled, args: tuple, kwargs: dict[str, Any]) -> Capture:
        from .capture import capture

        cached = is_cache_enabled()
        set_cache_enabled(False)  # a cast that autocast has kept is a tensor that no argument leads to
        try:
            return capture(compiled.function, args, kwargs, self.variable(compiled))
        finally:
            set_cache_enabled(cached)

    def entry(self, compiled: Compiled, capture: Capture, reasons: list[tuple[Any, str]]) -> Entry | None:
        """The entry of a capture; None where nothing is to be made of it."""
        name = _name(compiled.function)
        if self.fullgraph or getattr(stance, "whole", False):
            capture.refusal = capture.unless_guessed()
        elif (
            self.run is not None and capture.looks
        ):  # a backend's function gives the results, and no values to look at
            capture.refusal = capture.looks[0].refusal
        try:
            entry = entry_of(capture, self._launch)
        except (BackendCompilerFailed, Unsupported):
            raise
        except Exception as error:  # a mistake of this compiler costs speed, and no more
            log.warning(
                "%s: captured, but not planned: %s: %s", name, type(error).__name__, error, exc_info=True
            )
            return Entry(Guards(capture.guards), None, None, why=Refusal(f"{type(error).__name__}: {error}"))
        if entry.why is not None:
            whole = self.fullgraph or getattr(stance, "whole", False)
            if whole and entry.why.derivative:
                log.warning("%s: captured whole, but runs as Python says: %s", name, entry.why)
            elif whole:
                raise Unsupported(
                    f"{NAME}.compile(fullgraph=True): {name} is not captured whole: {entry.why}"
                )
            else:
                log.info("%s: not captured whole: %s", name, entry.why)
        elif reasons:
            log.info("%s: captured anew: %s", name, reasons[0][1])
        else:
            log.info("%s: captured, %d calls", name, len(capture.recording))
        return entry

    def _launch(self, capture: Capture, made: list[TensorBase]) -> Launch:
        if self.run is not None:
            return self._foreign(capture, made)
        on_tape = [k for k, t in enumerate(made) if t.requires_grad]
        if not on_tape:
            return planned(capture, made, self.own)
        if capture.freed:
            freed = set(map(id, capture.freed))
            if any(id(node_of(made[k])) not in freed for k in on_tape):
                raise Unplanned("a result is on the tape beside the backward pass that runs within it")
            return Spent(planned(capture, made, self.own), tuple(on_tape))
        from .partition import region_of

        refuse_blank(capture)
        inputs = [t for _, t in capture.inputs]
        for t in _left(capture):
            if any(
                node_of(t) in history([u], inputs)[0]
                for u in made
                if u is not t and node_of(u) is not node_of(t)
            ):
                raise Unplanned(
                    "it leaves a tensor in an object that was there before, and a result is computed of that"
                )
        if self.own.cudagraphs:
            log.info("not replayed as a graph of the device: forward and backward are two plans")
        result = region_of(capture.recording, inputs, made, capture.numbers, self.own, capture.again)
        if isinstance(result, Refusal):
            raise Unplanned(str(result), result.derivative)
        return result

    def _foreign(self, capture: Capture, made: list[TensorBase]) -> Launch:
        """What a backend that is a function makes of the graph."""
        assert self.run is not None
        why = _derivative_in_python(capture, made)
        if why is not None:
            raise Unplanned(why, derivative=True)
        graph = graph_of_capture(capture, made)
        if not _same_tape(graph, capture, made):
            raise Unplanned(
                "parts of it are off the tape, which the graph that a backend is given does not tell",
                derivative=True,
            )
        try:
            launch = self.run(graph, [t for _, t in capture.inputs], **self.options)
        except Exception as error:
            if config.suppress_errors:
                raise Unplanned(f"the backend raised {type(error).__name__}: {error}") from error
            raise BackendCompilerFailed(self.run, error) from error
        if not callable(launch):
            raise BackendCompilerFailed(
                self.run, TypeError(f"it returned {type(launch).__name__}, wanted a function of the inputs")
            )
        return _Foreign(launch, [t.requires_grad for t in made])

    def pickled(self, compiled: Compiled) -> Any:
        """As a global name where the compiled function is what stands under its name, else as what it was made of."""
        function = compiled.function
        module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
        result: Any = sys.modules.get(module) if module else None
        for part in name.split("."):
            result = getattr(result, part, None)
        return name if result is compiled else (self.remake, (function,))


def _is_library(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(LIBRARY)


class _Arguments(frozenset[Source]):
    """These sources, and all arguments."""

    def __bool__(self) -> bool:
        return True

    def __contains__(self, source: object) -> bool:
        direct = isinstance(source, Item) and isinstance(source.of, (Arguments, Keywords))
        return direct or super().__contains__(source)


def _derivative_in_python(capture: Capture, made: list[TensorBase]) -> str | None:
    """Which part of the derivative of the results is a function in Python, of which a graph holds the calls alone; None where none is."""
    seen: set[Any] = {t.grad_fn for _, t in capture.inputs}
    todo = [t.grad_fn for t in made]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, FunctionNode):
            return f"the derivative of {node.name()} is Python's"
        todo.extend(other for other, _ in node.next_functions)
    return None


def _same_tape(graph: GraphModule, capture: Capture, made: list[TensorBase]) -> bool:
    """Whether the graph's calls would be on the tape just where those of the captured call were: each has one node there, with as many
    edges to others, and gradients go to inputs alone.

    Under `no_grad` fewer nodes were, and fewer edges to what was detached; calls in place may have others.
    """
    from .program import draws

    inputs = [t for _, t in capture.inputs]
    recorded: set[Any] = set()
    edges = 0
    before = {t.grad_fn for t in inputs}
    todo = [t.grad_fn for t in made if t.grad_fn is not None]
    while todo:
        node = todo.pop()
        if node in before or node in recorded:  # of what was on the tape before the call
            continue
        if node.next_functions:
            recorded.add(node)
            others = [other for other, _ in node.next_functions if other is not None]
            edges += len(others)
            todo.extend(others)
        elif all(getattr(node, "variable", None) is not t for t in inputs):
            return False
    given = dict(zip((n for n in graph.graph.nodes if n.op == "placeholder"), inputs))
    on_tape: set[Any] = {n for n, t in given.items() if t.requires_grad}
    for n in graph.graph.nodes:
        at = n.meta.get("places")
        off = isinstance(at, Place) and not (at.dtype.is_floating_point or at.dtype.is_complex)
        if (
            n.op == "call_function"
            and not (off or draws(n.target))
            and any(m in on_tape for m in n.all_input_nodes)
        ):
            on_tape.add(n)
    (results,) = graph.graph.output_node().args
    wanted: set[Any] = set()
    todo = [n for n, t in zip(results, made) if t.requires_grad]
    while todo:
        n = todo.pop()
        if n in on_tape and n not in wanted:
            wanted.add(n)
            todo.extend(n.all_input_nodes)
    calls = [n for n in wanted if n.op == "call_function" and n.target is not operator.getitem]
    read: list[Any] = []
    for n in calls:
        map_arg((n.args, n.kwargs), read.append)
    return len(calls) == len(recorded) and sum(m in on_tape for m in read) == edges


class _Foreign:
    """A backend's function: what it returns as a tuple, off the tape where the captured call's was."""

    def __init__(self, launch: Callable[..., Any], requires: list[bool]) -> None:
        self.launch, self.requires = launch, requires

    def __call__(self, *inputs: TensorBase) -> tuple[TensorBase, ...]:
        made = self.launch(*inputs)
        made = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        return tuple(
            t if wanted or not t.requires_grad else t.detach()
            for t, wanted in zip(made, self.requires, strict=True)
        )


def _left(capture: Capture) -> Iterator[TensorBase]:
    """The tensors on the tape that a call leaves in objects that were there before it: programs differentiate with respect to them."""
    todo = [value for _, value in capture.writes]
    while todo:
        value = todo.pop()
        if isinstance(value, TensorBase) and value.requires_grad and node_of(value) is not None:
            yield value
        elif isinstance(value, Made):
            todo += [*value.items, *(value.state or {}).values()]
        elif isinstance(value, (list, tuple)):  # a key and its value
            todo += value


def _often_refused(entries: Sequence[Entry]) -> bool:
    """Whether captures of a function are given up: many were refused, or the first few all at one place."""
    refusals = [entry.why for entry in entries if entry.launch is None]
    same = len(refusals) == len(entries) >= SAME_REFUSAL and len(set(map(str, refusals))) == 1
    return same or len(refusals) >= REFUSALS


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__


def reset() -> None:
    """Forget what was captured, of all functions."""
    for compiled in list(_compiled):
        compiled.forget()
        vars(compiled).pop("_said", None)
        vars(compiled).pop("_called", None)
