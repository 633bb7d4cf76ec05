"""The tracer: calls of operations become lines of TorchScript's code, tensors names, sizes calls, and what was looked at a constant."""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._symbols.numbers import SymFloat, SymInt, SymNumber, plain
from .._symbols.sizes import RECORDING, unwatch_sizes, watch_sizes
from ..core.base.tensor import TensorBase
from ..core.call.operation import Op, behind
from ..core.tape import is_grad_enabled
from ..graph.record import Recording, place, serial
from ..library._calls import CODES
from ..library._own import OWN, own_name
from ..library._written import written
from ..overrides import TorchFunctionMode
from ._indexing import read, write
from ._text import Unwritable, aten_text, is_identifier, own_text, quoted

_PACKAGE = str(Path(__file__).resolve().parents[1])


class TracerWarning(Warning):
    """What a trace does not keep: a value of a tensor that the program looked at.

    Raises nothing.

    >>> import flambeau as torch
    >>> issubclass(torch.jit.TracerWarning, Warning)
    True
    """

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing is to be ignored: warnings name the line of the program."""


class Line(NamedTuple):
    """A statement of the traced code."""

    text: str
    gives: tuple[str, ...]
    uses: frozenset[str]
    pure: bool  # it may be left out where nothing uses what it gives


class _Mode(TorchFunctionMode):
    """Hands the program's calls to a tracer; those that a call makes itself come to nobody."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self.tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tracer, op = self.tracer, behind(func)
        if tracer.suspended or RECORDING.tracer is not tracer:
            return func(*args, **kwargs)
        if not isinstance(op, Op):  # a function of Python over operations
            with self:
                return func(*args, **kwargs)
        if op.entry is None:
            with self:
                return getattr(op, "function", op)(*args, **kwargs)
        return tracer.call(op, func, args, kwargs)


class Tracer:
    """Within it, what a thread's tensors go through becomes code; `attributes` are a module's tensors by identity, with their paths."""

    is_jit = True

    def __init__(
        self, who: str, attributes: dict[int, tuple[Any, tuple[str, ...]]], taken: Sequence[str]
    ) -> None:
        self.mode = _Mode(self)
        self.who, self.attributes = who, attributes
        self.suspended = 0
        self.lines: list[Line] = []
        self.constants: list[Any] = []
        self.names: dict[int, tuple[Any, str]] = {}  # by identity; with the tensors, so that it stays theirs
        self.places: dict[Any, str] = {}
        self.taken = set(taken)
        self.counter = 0
        self.checked: set[str] = set()
        self.requested: dict[tuple[Any, ...], SymInt] = {}
        self.uses: set[str] = set()  # of the line that is being written
        self.recording = Recording()
        self.read_calls = 0
        self.made: set[int] = set()  # storages of what leaves gave
        self.count: int | None = None  # of the results that ATen's call has, which is being written
        self.listed = False  # they are one list
        self.inside = 0  # bodies of composites that are being traced
        self.sized = False  # one of them has read a size
        self.is_own = False  # the call that is being written is none of ATen's
        self.began_with_grad = is_grad_enabled()

    def __enter__(self) -> Tracer:
        if RECORDING.tracer is not None:
            raise RuntimeError(f"{self.who}: this thread traces already")
        watch_sizes()
        RECORDING.tracer = self
        self.recording.__enter__()
        self.mode.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.mode.__exit__(*exception)
        self.recording.__exit__(*exception)
        RECORDING.tracer = None
        unwatch_sizes()

    # --- names ------------------------------
    def fresh(self) -> str:
        """A name that no variable has."""
        self.counter += 1
        return f"_{self.counter - 1}"

    def named(self, wish: str) -> str:
        """A variable's name that is like `wish`."""
        base = (
            wish
            if is_identifier(wish)
            else f"_{''.join(c if c.isalnum() and c.isascii() else '_' for c in wish)}"
        )
        name, k = base, 0
        while name in self.taken or name[:1] == "_" and name[1:].isdecimal():
            name, k = f"{base}{k}", k + 1
        self.taken.add(name)
        return name

    def enter(self, t: Any, name: str) -> None:
        """Let a name stand for a tensor from here on."""
        self.names[id(t)] = t, name
        self.places[place(t)] = name

    def knows(self, t: Any) -> bool:
        """Whether a tensor's sizes follow from the inputs."""
        entry = self.names.get(id(t))
        if entry is not None:
            return id(t) not in self.attributes
        return place(t) in self.places and id(t) not in self.attributes

    def reference(self, t: Any) -> str:
        """The variable that holds a tensor."""
        if not isinstance(t, TensorBase):
            raise Unwritable(f"a value of type {type(t).__name__}")
        entry = self.names.get(id(t))
        name = entry[1] if entry is not None else self._discovered(t)
        self.uses.add(name)
        return name

    def _discovered(self, t: Any) -> str:
        outer, self.uses = self.uses, set()
        try:
            if id(t) in self.attributes:
                path = self.attributes[id(t)][1]
                name = self.named(path[-1])
                self.add(f"{name} = {path_text(path)}", (name,), pure=True)
            elif place(t) in self.places:
                name = self.fresh()
                self.uses.add(self.places[place(t)])
                self.add(f"{name} = torch.detach({self.places[place(t)]})", (name,), pure=True)
            else:
                name = self._constant(t)
            self.enter(t, name)
            return name
        finally:
            self.uses = outer

    def _constant(self, t: Any) -> str:
        self._read_recording()
        if serial(t) in self.made:
            raise RuntimeError(
                f"{self.who}: the program uses a tensor of shape {tuple(plain(n) for n in t.shape)} that comes of calls which are not "
                f"traced, such as those of a backward pass or of `.grad`{_at_line()}"
            )
        if t.requires_grad:
            raise RuntimeError(
                "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, or detaching the "
                f"gradient\nTensor of shape {tuple(t.shape)}{_at_line()}"
            )
        self.suspended += 1
        self.constants.append(t.detach().clone())
        self.suspended -= 1
        name = self.fresh()
        self.add(f"{name} = CONSTANTS.c{len(self.constants) - 1}", (name,), pure=True)
        return name

    def _read_recording(self) -> None:
        calls = self.recording.calls()
        for call in calls[self.read_calls :]:
            _storages(call.result, self.made)
        self.read_calls = len(calls)

    # --- lines ------------------------------
    def add(self, text: str, gives: tuple[str, ...] = (), pure: bool = False) -> None:
        """Append a statement; what it uses was noted by `reference`."""
        self.lines.append(Line(text, gives, frozenset(self.uses), pure))
        self.uses = set()

    def body(self, results: set[str]) -> list[str]:
        """The statements, those left out that give what nothing uses; `results` are used."""
        wanted, live = set(results), []
        for line in reversed(self.lines):
            if not line.pure or wanted.intersection(line.gives):
                live.append(line.text)
                wanted |= line.uses
        return live[::-1]

    # --- sizes ------------------------------
    def is_on(self) -> bool:
        """Whether what this thread does now is written down."""
        return RECORDING.tracer is self and not self.suspended

    def _note(self, x: Any) -> str:
        if isinstance(x, SymNumber):
            self.uses.add(x.name)
            return x.name
        return repr(x)

    def trace_size(self, what: str, t: Any, dim: int | None, value: int) -> Any:
        """What a tensor answers of its sizes."""
        if self.inside:  # a body of the library, where numbers would come into its caches
            self.sized = True
            return value
        key = (what, id(t), dim, value)
        if key not in self.requested:
            outer, self.uses = self.uses, set()
            name, of = self.fresh(), self.reference(t)
            self.add(f"{name} = torch.{what}({of}{'' if dim is None else f', {dim}'})", (name,), pure=True)
            self.uses = outer
            self.requested[key] = SymInt(self, name, value)
        return self.requested[key]

    def computed(self, called: str, function: Callable[..., Any], *operands: Any) -> Any:
        """A number that is computed of sizes."""
        value = function(*map(plain, operands))
        if not self.is_on():  # a number that outlives its trace, in somebody's cache
            return value
        outer, self.uses = self.uses, set()
        name = self.fresh()
        called = _PRIMITIVES.get(called, f"torch.{called}")
        self.add(f"{name} = {called}({', '.join(map(self._note, operands))})", (name,), pure=True)
        self.uses = outer
        return SymInt(self, name, value) if type(value) is int else SymFloat(self, name, value)

    def compared(self, called: str, function: Callable[[Any, Any], bool], a: Any, b: Any) -> bool:
        """The outcome of a comparison of sizes, which runs check from here on."""
        result = bool(function(plain(a), plain(b)))
        if not self.is_on():
            return result
        outer, self.uses = self.uses, set()
        test = f"torch.{called}({self._note(a)}, {self._note(b)})"
        if test not in self.checked and not (
            isinstance(a, SymNumber) and isinstance(b, SymNumber) and a.name == b.name
        ):
            self.checked.add(test)
            why = quoted(
                f"the program was traced where a size of {plain(a)} {'is' if result else 'is not'} {called} {plain(b)}{_at_line()}, "
                "which does not hold for these inputs: trace it again for their sizes"
            )
            fails = f"ops.prim.RaiseException({why})"
            yes, no = ("pass", fails) if result else (fails, "pass")
            self.add(f"if {test}:\n  {yes}\nelse:\n  {no}")
        self.uses = outer
        return result

    def decided(self, outcome: Any) -> bool:
        """The outcome of a comparison: it was decided when it was made."""
        return bool(outcome.value)

    def demanded(self, outcome: Any, message: str | None) -> None:
        """Nothing: comparisons are decided, and checked, when they are made."""

    def shown(self, number: SymNumber) -> str:
        """The number of the example."""
        return repr(number.value)

    def require_equal(self, number: SymNumber) -> None:
        """Runs check from here on that a number is that of the example."""
        self.compared("eq", operator.eq, number, number.value)

    # --- calls ------------------------------
    def call(self, op: Op, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operation, and write it down."""
        self.uses = set()
        try:
            text = self.written(op, args, kwargs)
        except Unwritable as error:
            raise RuntimeError(
                f"{self.who}: {op.__name__}() is called with {error}, which archives cannot hold{_at_line()}"
            ) from None
        if self.is_own and (composed := self._composed(op, args, kwargs)) is not _NOTHING:
            return composed
        uses, self.uses = self.uses, set()
        inputs = {id(t) for t in _tensors((args, kwargs))}
        self.suspended += 1
        try:
            result = func(*_plainly(args), **_plainly(kwargs))
        finally:
            self.suspended -= 1
        self.uses = uses
        if isinstance(result, (bool, int, float, complex)) or op.entry.name in _LOOKS:
            self._look(op, result)
        elif (
            text is not None and self.count is not None and self.count != _count(result, is_list=self.listed)
        ):
            self.uses = set()
            self._results(self._own(op, args, kwargs), result, inputs if op.writes else set(), False)
        elif text is None:
            self._literal_values(op, args, result)
        else:
            in_place = bool(op.writes) or "out" in kwargs
            self._results(
                text, result, inputs if in_place else set(), not in_place and op.entry.kind in _PURE
            )
        return result

    def _composed(self, op: Op, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The result of what ATen has not, by the operations that it calls: where all of these are ATen's, and none depends on sizes."""
        body = getattr(op, "composite", None)
        if body is None or op.writes or "out" in kwargs or self._touches_buffers((args, kwargs)):
            return _NOTHING
        if _numbers((*args, *kwargs.values())):
            return _NOTHING
        was_sized, self.sized = self.sized, False
        self.inside += 1
        tables = (self.names, self.places, self.requested)
        before = (
            [dict(t) for t in tables],
            set(self.taken),
            set(self.checked),
            list(self.constants),
            len(self.lines),
        )
        outer, self.uses = self.uses, set()
        try:
            with self.mode:
                result = body(*args, **kwargs)
            made = self.lines[before[4] :]
            all_named = all(id(t) in self.names for t in _tensors(result))
            if all_named and not self.sized and not any(map(_is_particular, made)):
                return result
        except Exception:  # noqa: BLE001  a body that takes no sizes but numbers; the operation itself is called below
            result = _NOTHING
        finally:
            self.inside -= 1
            self.sized = self.sized or was_sized
        self.uses = outer
        for table, entries in zip(tables, before[0]):
            table.clear()
            table.update(entries)
        self.taken, self.checked = before[1], before[2]
        self.constants[:] = before[3]
        del self.lines[before[4] :]
        return _NOTHING

    def _touches_buffers(self, args: Any) -> bool:
        from ..nn.parameter import Parameter

        return any(id(t) in self.attributes and not isinstance(t, Parameter) for t in _tensors(args))

    def written(self, op: Op, args: tuple, kwargs: dict[str, Any]) -> str | None:
        """The call as code; None for one that makes a tensor of Python's values."""
        self.count, self.is_own = None, False
        name = op.entry.name
        if name == "__getitem__":
            return read(self, *args) or self._own(op, args, kwargs)
        if name == "__setitem__":
            return write(self, *args) or self._own(op, args, kwargs)
        if op.entry.details.get("of_values"):
            return None
        out = kwargs.get("out")
        if isinstance(out, TensorBase):
            result = written(op, args, {k: v for k, v in kwargs.items() if k != "out"})
            ending = f", out={self.reference(out)}"
        else:
            result, ending = (None if out is not None else written(op, args, kwargs)), ""
        if result is not None:
            arguments = result.overload.names
            parts = []
            for k, (label, value) in enumerate(result.values):
                kind = result.overload.arguments[arguments[label] if label else k].type
                parts.append((f"{label}=" if label else "") + aten_text(value, kind, self.reference))
            returns = result.overload.schema.returns
            self.count = len(returns) if result.item is None else 1
            self.listed = len(returns) == 1 and "[]" in returns[0].type.form
            text = f"torch.{result.overload.schema.name.removeprefix('aten::')}({', '.join(parts)}{ending})"
            return text if result.item is None else f"({text})[{result.item}]"
        return self._own(op, args, kwargs)

    def _own(self, op: Op, args: tuple, kwargs: dict[str, Any]) -> str:
        self.is_own = True
        name = own_name(op)
        if name is None:
            raise Unwritable("arguments of its own")
        parts = [own_text(a, self.reference) for a in args]
        parts += [f"{k}={own_text(v, self.reference)}" for k, v in kwargs.items()]
        if op.entry.kind == "conversion" and isinstance(args[0], TensorBase):
            return f"torch.to({parts[0]}, @)"  # completed when the result is known
        return f"ops.{OWN}.{name}({', '.join(parts)})"

    def _results(self, text: str, result: Any, written: set[int], pure: bool) -> None:
        """Names for what a call gave; tensors that it wrote to keep theirs."""
        if isinstance(result, TensorBase):
            if text.endswith("@)"):
                text = text.replace("@", _conversion(result))
            name = self.fresh()
            self.add(f"{name} = {text}", (name,), pure)
            self._result(result, name, written)
        elif isinstance(result, (tuple, list)) and _tensors(result):
            names = [self.fresh() for _ in result]
            self.add(f"{''.join(n + ', ' for n in names)}= {text}", tuple(names), pure)
            for name, each in zip(names, result):
                if isinstance(each, TensorBase):
                    self._result(each, name, written)
                elif _tensors(each):
                    self.uses.add(name)
                    self._results(name, each, written, True)
        else:
            self.add(text, (), pure)

    def _result(self, t: Any, name: str, written: set[int]) -> None:
        if id(t) in written:
            return
        if self.began_with_grad and not is_grad_enabled() and (t.is_floating_point() or t.is_complex()):
            detached = self.fresh()
            self.uses.add(name)
            self.add(f"{detached} = torch.detach({name})", (detached,), pure=True)
            name = detached
        self.enter(t, name)

    def _look(self, op: Op, result: Any) -> None:
        """A value that the program took out of tensors: a constant from here on."""
        kind = {bool: "boolean", int: "integer", float: "float"}.get(type(result), type(result).__name__)
        _warn(
            f"Converting a tensor to a Python {kind} might cause the trace to be incorrect. We can't record the data flow of Python "
            "values, so this value will be treated as a constant in the future. This means that the trace might not generalize to "
            "other inputs!"
        )

    def _literal_values(self, op: Op, args: tuple, result: Any) -> None:
        """A tensor that was made of Python's values: a constant, or what a size is."""
        if len(args) == 1 and isinstance(args[0], SymNumber):
            self._results(
                f"torch.to(ops.prim.NumToTensor({self._note(args[0])}), {CODES[result.dtype]})",
                result,
                set(),
                True,
            )
            return
        if args and isinstance(args[0], TensorBase):  # `tensor(x)`, `as_tensor(x)`
            text = f"torch.to({self.reference(args[0])}, {_conversion(result)})"
            shared = result.untyped_storage() is args[0].untyped_storage()
            self._results(text if shared else f"torch.clone(torch.detach({text}))", result, set(), False)
            return
        for number in _numbers(args):
            self.require_equal(number)
        if _tensors(args):
            self._look(op, result)
        self.enter(result, self._constant_of(result))

    def _constant_of(self, t: Any) -> str:
        self.suspended += 1
        self.constants.append(t.detach().clone())
        self.suspended -= 1
        name, copied = self.fresh(), self.fresh()
        self.add(f"{name} = CONSTANTS.c{len(self.constants) - 1}", (name,), pure=True)
        self.uses.add(name)
        self.add(
            f"{copied} = torch.clone({name})", (copied,), pure=True
        )  # each run has its own, as in the program
        return copied


def _count(result: Any, is_list: bool) -> int:
    """How many results a call gave; a list of tensors is one."""
    if result is None:
        return 0
    return len(result) if isinstance(result, (tuple, list)) and not is_list else 1


def _is_particular(line: Line) -> bool:
    """Whether a line is read here alone, or holds for the example's sizes alone."""
    return f"ops.{OWN}." in line.text or line.text.startswith("if ")


_PRIMITIVES = {  # of numbers, by the names that Python has for them
    "truediv": "torch.div",
    "mod": "torch.remainder",
    "sym_max": "ops.prim.max",
    "sym_min": "ops.prim.min",
    "sym_int": "torch.Int",
    "sym_float": "torch.Float",
    "sym_sqrt": "torch.sqrt",
}
_NOTHING = object()
_LOOKS = ("numpy", "tolist")
_PURE = ("pointwise", "view", "shape", "copy", "conversion", "reduction", "row", "creation")


def _conversion(result: Any) -> str:
    """The arguments of `to` that give a dtype, and a device where it is no CPU."""
    code = str(CODES[result.dtype])
    return code if result.device.type == "cpu" else f"torch.device({quoted(str(result.device))}), {code}"


def _tensors(x: Any) -> list[Any]:
    """The tensors in a structure."""
    if isinstance(x, TensorBase):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, slice):
        x = [x.start, x.stop, x.step]
    return [t for v in x for t in _tensors(v)] if isinstance(x, (list, tuple)) else []


def _numbers(x: Any) -> list[SymNumber]:
    if isinstance(x, SymNumber):
        return [x]
    return [n for v in x for n in _numbers(v)] if isinstance(x, (list, tuple)) else []


def _plainly(x: Any) -> Any:
    """A structure with numbers in place of what stands for them."""
    if isinstance(x, SymNumber):
        return x.value
    if isinstance(x, slice):
        return slice(*[_plainly(v) for v in (x.start, x.stop, x.step)])
    if isinstance(x, dict):
        return {k: _plainly(v) for k, v in x.items()}
    if type(x) in (list, tuple):
        return type(x)(_plainly(v) for v in x)
    if isinstance(x, tuple) and _numbers(x):
        return tuple(_plainly(v) for v in x)
    return x


def _storages(result: Any, storages: set[int]) -> None:
    """The serial numbers of the storages of what a call gave."""
    if hasattr(result, "storage"):
        storages.add(result.storage)
    elif isinstance(result, (list, tuple)):
        for each in result:
            _storages(each, storages)


def path_text(path: tuple[str, ...]) -> str:
    """`self.a.b` in code."""
    text = "self"
    for name in path:
        text = f"{text}.{name}" if is_identifier(name) else f"getattr({text}, {quoted(name)})"
    return text


def _caller() -> tuple[str, int]:
    """File and line of the program: the nearest that is not of this package."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _at_line() -> str:
    file, line = _caller()
    return f" ({Path(file).name}, line {line})"


def _warn(text: str) -> None:
    warnings.warn_explicit(text, TracerWarning, *_caller())
