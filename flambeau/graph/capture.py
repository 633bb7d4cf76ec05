"""Capture: a call runs once, by the interpreter of its bytecode, beside a recording; what it read from outside becomes guards.

>>> import flambeau as torch
>>> from flambeau.graph.capture import capture
>>> scale = 2.0
>>> captured = capture(lambda x: (x * scale).exp(), (torch.zeros(2),), {})
>>> captured.result
tensor([1., 1.])
>>> [call.operation.__name__ for call in captured.recording.calls()]
['mul', 'exp']
>>> [type(guard).__name__ for guard in captured.guards]
['Length', 'Keys', 'TensorLike', 'Equals']
"""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from .._tensor import Tensor
from ..amp.autocast_mode import autocast
from ..autograd import grad
from ..core.base.device import get_default_device
from ..core.base.dtypes import Size, by_name, device, dtype, get_default_dtype
from ..core.base.memory import _set_inference, is_inference_mode_enabled
from ..core.base.profiling import is_profiling
from ..core.base.tensor import TensorBase
from ..core.call.casting import thread_state
from ..core.call.interceptors import has_interceptors, has_recorder, modes_on, overrides_disabled
from ..core.call.module import call as call_module
from ..core.call.operation import Op
from ..core.call.pointwise import InPlaceOp, PointwiseOp
from ..core.make import mt19937
from ..core.make.create import ones_like, scalar_tensor
from ..core.tape import (
    _set_grad_enabled,
    _set_tracking,
    close_forward_level,
    is_grad_enabled,
    make_dual,
    open_forward_level,
    open_levels,
    record_function,
    unpack_dual,
)
from ..core.tape.engine import run_backward
from ..core.tape.modes import is_forward_open, tracked
from ..fx._lazy_graph_module import _Unwritten
from ..nn import Module
from ..nn.parameter import Buffer, Parameter
from ..operations.declare.registry import REGISTRY
from .compiled import Compiled, is_capturing
from .interpreter import Machine, Policy
from .interpreter.code import Frame
from .interpreter.reads import varies
from .measured import Measured, is_exact
from .program import draws, written_by
from .record import Place, Recording, place, stand_in
from .region import history
from .sources import (
    Arguments,
    Attribute,
    Capture,
    Guard,
    Item,
    Keys,
    Keywords,
    Length,
    Look,
    Made,
    Number,
    NumberLike,
    Refusal,
    Source,
    TensorLike,
    is_item,
)
from .trace import mapped

MOST_LOOKS = 16  # values of tensors that a capture may depend on
LIBRARY = str(Path(__file__).parents[1])  # where the library's own files lie
TENSORS = (Tensor, Parameter, Buffer)  # classes without methods of the program's

# What can be read of a tensor and is not guarded.
_STATE = ("grad_fn", "_version", "_base", "_cdata", "__cuda_array_interface__", "output_nr", "retains_grad")
_UNSAFE = (
    "data_ptr",
    "untyped_storage",
    "requires_grad_",
    "__reduce__",
    "__getstate__",
    "__setstate__",
    "__delattr__",
    "__setattr__",
)
backward = Tensor.backward
GRADIENT = getattr(Tensor, "grad")  # noqa: B009  the descriptor
LOOKS = {id(getattr(Tensor, n)): n for n in (*_STATE, *_UNSAFE)}


def capture(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    variable: Container[Source] = (),
) -> Capture:
    """`function(*args, **kwargs)`, run once, and what it takes to run it again without Python.

    Numbers from the sources in `variable` are inputs where the program hands them to operations on tensors, and guarded elsewhere.

    The call happens exactly once, with its side effects and exceptions, whether it can be captured or not.

    Raises: what the function raises; RuntimeError where this thread records already.
    """
    captures = _Captures(function, args, kwargs, variable)
    try:
        return captures.capture()
    finally:
        captures.close()


class _Captures(Policy):
    """One capture; what the interpreter has to know of this library."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        variable: Container[Source],
    ) -> None:
        self.call = function, args, kwargs
        self.inputs: list[tuple[Source, TensorBase]] = []
        self.before: list[tuple[Any, ...]] = []  # of the inputs: what calls must leave as it is
        self.recording, self.measured = Recording(), Measured()
        self.recording.measured = self.measured
        self.lines: list[tuple[str, int]] = []
        self.within: set[int] = set()  # calls that this library's functions in Python make
        self.again: dict[int, int] = {}  # those in checkpointed regions, and in which
        self.regions: list[Frame] = []
        self.looks: list[Look] = []
        self.ahead: int | None = None  # calls before the first backward pass
        self.freed: list[Any] = []  # nodes of the tape that backward passes of the call have run through
        self.machine = Machine(self, variable)
        self.numbers: dict[Source, float] = {}  # that operations were given
        self.machine.observe = self.observe

    def capture(self) -> Capture:
        function, args, kwargs = self.call
        m, state = self.machine, _state()
        m.library = LIBRARY
        m.reads.guard(Length(Arguments(), len(args)))
        m.reads.guard(Keys(Keywords(), tuple(kwargs)))
        args = tuple(m.reads.take(value, Item(Arguments(), k)) for k, value in enumerate(args))
        kwargs = {name: m.reads.take(value, Item(Keywords(), name)) for name, value in kwargs.items()}
        with self.recording:
            m.reads.hold(function)
            try:
                result = m.call(function, args, kwargs)
            except BaseException as error:
                m.trail.mend(error)
                raise
        made = Capture(result, self.recording, m.reads.guards, self.inputs, m.refusal)
        if m.refusal is None:
            made.refusal = self.check(state) or None
            made.lines, made.looks, made.again = self.lines, self.looks, self.again
            if made.refusal is None:
                outputs = _Outputs(self)
                made.output = outputs.of(result)
                made.writes = [(place, outputs.of(value)) for place, value in m.reads.written.items()]
                made.freed, made.ahead = self.freed, self.ahead
                made.cleared = frozenset(m.reads.cleared)
                made.refusal = m.refusal
        if made.refusal is None:
            self.enter_numbers(made)
        return made

    def close(self) -> None:
        """Let go of the call's objects: the interpreter and what asks it hold each other."""
        self.machine.reads.close()
        self.machine.observe = None
        self.call = type(self), (), {}
        self.inputs, self.before, self.freed, self.regions = [], [], [], []
        self.recording = Recording()

    def enter_numbers(self, made: Capture) -> None:
        """Let the numbers that operations were given be the last inputs."""
        for source, number in self.numbers.items():
            made.numbers.append((number, len(made.inputs)))
            made.guards.append(NumberLike(source, type(number), len(made.inputs)))
            wide = by_name["float64" if type(number) is float else "int64"]
            made.inputs.append((source, scalar_tensor(number, dtype=wide, device="cpu")))

    def observe(self) -> None:
        """Note the program's line for the leaves that ran since the last instruction."""
        if len(self.recording) > len(self.lines):
            frame = self.machine.frame
            if frame is not None and frame.code.co_filename.startswith(LIBRARY):
                self.within.update(range(len(self.lines), len(self.recording)))
            region = self.region()
            if region is not None:
                self.again.update(dict.fromkeys(range(len(self.lines), len(self.recording)), region))
            self.lines.extend([self.machine.where()] * (len(self.recording) - len(self.lines)))

    def region(self) -> int | None:
        """The number of the checkpointed region that runs, the outermost; None where none does."""
        frame, outermost = self.machine.frame, None
        while frame is not None:
            if "_computed_again" in vars(frame.function):
                outermost = frame
            frame = frame.caller
        if outermost is None:
            return None
        if not self.regions or self.regions[-1] is not outermost:
            self.regions.append(outermost)
        return len(self.regions) - 1

    def check(self, state: tuple[Any, ...]) -> Refusal | None:
        """What refuses a call as a whole."""
        if _state() != state:
            return Refusal(
                "changes the state of the thread: gradients, inference, autocast, the default dtype or device"
            )
        serials = {place(tensor).storage for _, tensor in self.inputs}
        calls = self.recording.calls()
        for number, (call, line) in enumerate(zip(calls, self.lines)):
            entry = getattr(call.operation, "entry", None)
            name = getattr(call.operation, "__name__", str(call.operation))
            if number in self.measured.read:
                continue
            if entry is REGISTRY["item"] and type(call.result) is bool:
                refusal = Refusal(f"looks at a value of a tensor ({name})", *line)
                if not self.may_guess(calls, number):
                    return refusal
                own = number not in self.within
                self.looks.append(Look(stand_in(call.args[0]), call.result, refusal, own))
                continue
            of_shapes = entry is not None and entry.kind == "shape" and not _places(call)
            if not _has_place(call.result) and not (
                of_shapes or (entry is not None and entry.kind == "view")
            ):
                return Refusal(f"looks at a value of a tensor ({name})", *line)
            if entry is not None and _shaped_by_values(entry, call):
                return Refusal(f"a shape depends on values ({name})", *line)
        for tensor in self.recording.inputs:
            if place(tensor).storage not in serials:
                return Refusal(
                    f"a tensor of shape {tuple(tensor.shape)} that was there before was read where no guard sees it"
                )
        for before, (source, tensor) in zip(self.before, self.inputs):
            if _described(tensor) != before:
                return Refusal(f"changes shape, strides, dtype or place on the tape of {source}")
        return None

    def may_guess(self, calls: list[Any], number: int) -> bool:
        """Whether a call of this function may guess what that look will find, and be made again where the guess was wrong: nothing that was
        there before has been written to, and no random number drawn.
        """
        at = calls[number].args[0]
        if not isinstance(at, Place) or self.ahead is not None or len(self.looks) >= MOST_LOOKS:
            return False
        before = {place(tensor).storage for _, tensor in self.inputs}
        for k, call in enumerate(calls):
            written = {p.storage for p in written_by(call.operation, call.args, call.kwargs, Place)}
            if draws(call.operation) or written & before or (k > number and at.storage in written):
                return False
        return True

    # --- what the interpreter asks --------------------------------------------------------------------------------------
    def is_constant(self, value: Any) -> bool:
        return isinstance(value, (dtype, device)) or (type(value) is Size)

    def is_pinned(self, value: Any) -> bool:
        return isinstance(value, (Op, Compiled)) or type(value) is type(call_module)

    def is_input(self, value: Any) -> bool:
        return type(value) in TENSORS

    def input(self, value: Any, source: Source) -> Guard | None:
        if not isinstance(value, TensorBase):
            return None
        if type(value) not in TENSORS:
            self.machine.refuse(
                f"reads a {type(value).__qualname__}, a class of tensors that is not captured"
            )
            return None
        self.inputs.append((source, value))
        self.before.append(_described(value))
        return TensorLike(source, value, len(self.inputs) - 1)

    def is_native(self, value: Any) -> bool:
        if type(value) is types.FunctionType and "_captured_as_it_is" in vars(value):
            return True  # by its own account: it reads its arguments alone
        return isinstance(value, Op) or value in NATIVE if isinstance(value, HASHED) else False

    def is_native_object(self, value: Any) -> bool:
        return isinstance(value, NATIVE_OBJECTS)

    def is_variable(self, result: Any) -> bool:
        return result is GRADIENT

    def may_write(self, value: Any, name: str) -> bool:
        return name == "requires_grad" and self.is_made(value)

    def members(self, value: Any) -> tuple[str, ...]:
        result = isinstance(value, Module) and type(value).__getattr__ is Module.__getattr__
        return ("_parameters", "_buffers", "_modules") if result else ()

    def call_with_numbers(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: list[float]
    ) -> tuple[Any, bool]:
        before, begin = len(self.recording), self.recording.end
        made = self.run(function, args, kwargs)
        if len(self.recording) != before + 1:
            return made, False
        (call,) = self.recording.calls(begin)
        places: list[Place] = []
        mapped((call.args, call.kwargs), Place, places.append)
        given = {id(x) for x in (*call.args, *call.kwargs.values())}
        taken = (
            isinstance(call.operation, (PointwiseOp, InPlaceOp))
            and all(id(x) in given for x in numbers)
            and isinstance(made, TensorBase)
            and not made.requires_grad
            and all(p.dtype.is_floating_point or p.dtype in _WIDE for p in places)
        )
        for x in numbers if taken else ():
            source = self.machine.operand(x)
            if is_item(source):
                self.measured.take(x, source)
            else:
                self.numbers[source] = x
        return made, taken

    def is_made(self, value: Any) -> bool:
        """Whether a tensor is an object of this call: none that a source leads to, nor one that a leaf was given from elsewhere."""
        if not isinstance(value, TensorBase):
            return False
        return all(value is not t for t in (*(t for _, t in self.inputs), *self.recording.inputs))

    def replaced(self, function: Any) -> Any:
        if type(function) is Compiled:
            return function.function
        if function is call_module:
            return _call_module
        return vars(function).get("_captured_as") if type(function) is types.FunctionType else None

    def run(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A native call.  A backward pass reads and writes `grad` of the leaves that it leads to."""
        if function is not backward and function is not run_backward:
            count, begin = len(self.recording), self.recording.end
            result = function(*args, **kwargs)
            one = len(self.recording) == count + 1 and self.machine.reads.active
            if one and type(result) in (float, int):
                return self.item(result, self.recording.calls(begin)[0], count)
            return result
        given = inspect.signature(function).bind(*args, **kwargs)
        given.apply_defaults()
        options, reads = given.arguments, self.machine.reads
        if function is run_backward and not options["accumulate"]:
            return function(*args, **kwargs)
        roots = options["roots"] if function is run_backward else [args[0]]
        nodes, leaves, why = history(roots, [t for _, t in self.inputs])
        if options["create_graph"]:
            why = "a backward pass within it is recorded (create_graph)"
        if why is not None:
            self.machine.refuse(why)
        before = []
        for leaf in leaves:
            source = reads.source(leaf)
            if source is not None:
                reads.read(leaf.grad, Attribute(source, "grad"))
            elif not self.is_made(leaf):
                self.machine.refuse(
                    "a backward pass within it leads to a tensor that nothing it read leads to"
                )
            before.append((leaf, source, leaf.grad))
        if function is backward and options["gradient"] is None and args[0].numel() == 1:
            options["gradient"] = ones_like(args[0])  # by a call that is recorded
        if self.ahead is None:
            self.ahead = len(self.recording)
        result = function(*given.args, **given.kwargs)
        for leaf, source, old in before:
            if source is not None and leaf.grad is not old:
                reads.write(Attribute(source, "grad"), leaf.grad)
        if not options.get("retain", options.get("retain_graph")):
            self.freed += nodes
        return result

    def item(self, value: Any, call: Any, number: int) -> Any:
        """A number that a native call has given, as one that is found in each run where it is what `item` reads of a tensor of the host."""
        reads = getattr(call.operation, "entry", None) is REGISTRY["item"] and call.result is value
        if not (reads and len(call.args) == 1 and isinstance(call.args[0], Place) and varies(value)):
            return value
        if call.args[0].device is not None or call.args[0].dtype not in _READ:
            return value
        return self.machine.reads.number(value, self.measured.item(number, value))

    def is_exact(self, function: Any, args: tuple[float, ...]) -> bool:
        return is_exact(function, args)

    def unseen(self, call: Callable[[], Any]) -> tuple[Any, bool]:
        before = len(self.recording)
        return call(), len(self.recording) == before

    def refuses(self, function: Any, args: tuple[Any, ...]) -> str | None:
        name = LOOKS.get(id(function))
        if (
            name is None
            and getattr(function, "__name__", None) in _UNSAFE
            and isinstance(getattr(function, "__self__", None), TensorBase)
        ):
            name = function.__name__
        if name == "requires_grad_" and self.is_made(
            getattr(function, "__self__", args[0] if args else None)
        ):
            return None
        return None if name is None else f"looks at, or changes, {name} of a tensor"


boolean = by_name["bool"]
_WIDE = (
    boolean,
    by_name["int64"],
)  # dtypes that are no narrower than Python's numbers of 64 bits, or any number widens
_READ = frozenset(
    by_name[name] for name in "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8".split()
)
NATIVE_OBJECTS = (TensorBase, Op, dtype, device, Size)
HASHED = (Op, type, types.FunctionType, types.BuiltinFunctionType, type(call_module))
NATIVE = frozenset(
    (
        grad,
        backward,
        run_backward,
        is_capturing,
        is_profiling,
        has_recorder,
        has_interceptors,
        modes_on,
        overrides_disabled,
        device,
        dtype,
        Size,
        Size.numel,
        get_default_device,
        is_grad_enabled,
        is_forward_open,
        open_levels,
        open_forward_level,
        close_forward_level,
        make_dual,
        unpack_dual,
        tracked,
        get_default_dtype,
        _set_grad_enabled,
        _set_tracking,
        record_function,
        _set_inference,
        is_inference_mode_enabled,
        mt19937.source,
        autocast.__init__,
        autocast.__enter__,
        autocast.__exit__,
        _Unwritten.__get__,  # writes code that was not looked at before
    )
)


def _call_module(module: Any, *args: Any, **kwargs: Any) -> Any:
    """What calling a module does (`core/call/module.pyx`), interpreted."""
    try:
        if module._hooked:
            return module._call_with_hooks(args, kwargs)
        return module.forward(*args, **kwargs)
    except Exception as error:
        with contextlib.suppress(Exception):  # what goes wrong in the note is not to hide the error
            module._note_failure(args, error)
        raise


def _state() -> tuple[Any, ...]:
    """What operations depend on beside their arguments."""
    return (
        is_grad_enabled(),
        is_inference_mode_enabled(),
        is_forward_open(),
        thread_state(),
        get_default_dtype(),
        get_default_device(),
    )


def _described(tensor: TensorBase) -> tuple[Any, ...]:
    return place(tensor), tensor.requires_grad, tensor.grad_fn


def _has_place(result: Any) -> bool:
    """Whether a call gave tensors, or nothing."""
    if isinstance(result, (list, tuple)) and not isinstance(result, Place):
        return any(map(_has_place, result)) or not result
    if isinstance(result, dict):
        return any(map(_has_place, result.values()))
    return result is None or isinstance(result, Place)


def _places(call: Any) -> list[Place]:
    """The tensors among a call's arguments."""
    result: list[Place] = []
    mapped((call.args, call.kwargs), Place, result.append)
    return result


def _shaped_by_values(entry: Any, call: Any) -> bool:
    """Whether the shape of a call's result depends on values of its arguments."""
    if entry.batching == "shapeless":
        return True
    places = _places(call)
    if entry.batching == "itemless":  # what is made of no tensor: a tensor among its arguments is a size
        return bool(places)
    if entry is REGISTRY["__getitem__"]:
        return any(p.dtype is boolean for p in places[1:])
    return entry is REGISTRY["repeat_interleave"] and len(places) > 1


class _Outputs:
    """A result as what has to be made anew and what was there before."""

    def __init__(self, captures: _Captures) -> None:
        self.captures, self.reads = captures, captures.machine.reads
        self.made: dict[int, Made] = {}

    def of(self, value: Any) -> Any:
        number = self.reads.number_source(value)
        if number is not None and is_item(number):
            return Number(stand_in(self.captures.measured.place_of(number)))
        if number is not None:
            return number
        if (
            isinstance(value, NATIVE_OBJECTS)
            and not isinstance(value, TensorBase)
            or type(value) is range
            or (self.reads.constant(value) and not self.holds_number(value))
        ):
            return value
        source = self.reads.source(value)
        if source is not None:
            return source
        if isinstance(value, TensorBase):
            if type(value) not in TENSORS:
                return self.refuse(value)
            return value
        if id(value) not in self.made:
            self.made[id(value)] = self.build(value)
        return self.made[id(value)]

    def holds_number(self, value: Any) -> bool:
        """Whether a number that may be another is in a tuple."""
        return type(value) is tuple and any(
            self.reads.number_source(x) is not None or self.holds_number(x) for x in value
        )

    def build(self, value: Any) -> Any:
        kind = type(value)
        state = getattr(value, "__dict__", None)
        items: tuple[Any, ...] = ()
        if isinstance(value, dict):
            items = tuple((self.of(k), self.of(v)) for k, v in dict.items(value))
        elif isinstance(value, (list, tuple, set, frozenset)):
            items = tuple(map(self.of, value))
        elif state is None or kind.__flags__ & 1 << 9 == 0 or isinstance(value, BaseException):
            return self.refuse(value)
        if any(
            "__slots__" in vars(base) and vars(base)["__slots__"]
            for base in kind.__mro__
            if base.__flags__ & 1 << 9
        ):
            return self.refuse(value)
        return Made(
            kind, items, {k: self.of(v) for k, v in state.items()} if isinstance(state, dict) else None
        )

    def refuse(self, value: Any) -> None:
        if self.captures.machine.refusal is None:
            self.captures.machine.refusal = Refusal(f"returns a {type(value).__qualname__} that it made")
