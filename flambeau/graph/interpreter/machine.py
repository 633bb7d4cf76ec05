"""The interpreter: runs a call once, on real values, and notes what it read from outside.

It computes what CPython computes.  What it cannot follow runs as it is, and the first such place is the refusal; from there on
functions that are called run in CPython.
"""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Container, Iterator
from typing import Any

from ..sources import Contents, Item, Lacks, Namespace, Object, Refusal, Source
from .attributes import Attributes
from .calls import Calls
from .code import ASYNCHRONOUS, GENERATOR, NULL, Frame, bind, decode
from .numbers import Numbers
from .opcodes import HANDLERS, RETURNED, finish_send
from .operators import Operators
from .policy import Policy
from .reads import Reads
from .tracebacks import Trail

DICTS = (dict, OrderedDict, defaultdict)
DEPTH = 200  # of calls: CPython's own stack holds several frames for each


class Machine(Attributes, Calls, Operators, Numbers):
    """Runs functions; `reads` has what they read, `refusal` why that is not all that they depend on.

    Raises: what a function raises that it runs.

    >>> from flambeau.graph.interpreter import Machine
    >>> machine = Machine()
    >>> machine.call(lambda a, b=2: [a + b, print("added")], (1,), {})
    added
    [3, None]
    >>> machine.refusal.why
    'calls builtins.print, of which nothing is known'
    """

    def __init__(self, policy: Policy | None = None, variable: Container[Source] = ()) -> None:
        self.policy = policy or Policy()
        self.refusal: Refusal | None = None
        self.reads = Reads(self.policy, self.refuse, variable)
        self.frame: Frame | None = None
        self.depth = 0
        self.trail = Trail()
        self.handled: BaseException | None = None  # the exception that is handled now
        self.reraised: BaseException | None = None
        self.observe: Callable[[], None] | None = None  # called after each instruction
        self.library = "\0"  # the folder of files whose lines are not the program's own

    def refuse(self, why: str) -> None:
        """Note that the call depends on, or changes, more than can be guarded or done again."""
        if self.refusal is None:
            self.refusal = Refusal(why, *self.where())
            self.reads.active = False

    def where(self) -> tuple[str, int]:
        """File and line of the program that runs."""
        frame = innermost = self.frame
        while frame is not None and frame.code.co_filename.startswith(self.library):
            frame = frame.caller
        frame = frame or innermost
        return (frame.code.co_filename, frame.line) if frame else ("", 0)

    def changes(self, value: Any, why: str) -> None:
        """The program writes to an object; it may to those that it made itself."""
        if self.reads.active and self.reads.is_outside(value):
            self.refuse(why)

    def writes_item(self, of: Any, key: Any, value: Any, why: str) -> None:
        """The program puts a value under a key of a dict or list; refused where that cannot be done again."""
        source = self.reads.source(of) if self.reads.active else None
        if source is None:
            self.changes(of, why)
            return
        if type(of) in DICTS and (self.reads.constant(key) or self.reads.source(key) is not None):
            if key not in of:
                self.reads.extend(source, of)
            self.reads.pin(key)
            self.reads.write(Item(source, key), value)
        elif type(of) is list and type(key) is int and -len(of) <= key < len(of):
            self.reads.sized(of)
            ends = self.reads.ends(source)
            place = key % len(of) - (len(of) - len(ends))
            self.reads.write(Item(source, key % len(of)) if place < 0 else ends[place], value)
        else:
            self.refuse(why)

    def appends(self, of: Any, value: Any) -> bool:
        """Append to a list that was there before; whether it is one."""
        source = self.reads.classed(of) if self.reads.active and type(of) is list else None
        if source is None:
            return False
        self.reads.append(source, value)
        of.append(value)
        return True

    def pops(self, of: Any) -> bool:
        """Whether the last item of a list that was there before is one that the program has appended, which it now takes off again."""
        source = self.reads.source(of) if self.reads.active and type(of) is list else None
        if source is None or not self.reads.ends(source):
            return False
        self.reads.pop(source)
        return True

    def open(self, value: Any, deep: bool = False) -> None:
        self.reads.open(value, deep)

    # --- functions ------------------------------------------------------------------------------------------------------
    def call_function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function in Python, interpreted."""
        code = function.__code__
        result = bind(function, args, kwargs)
        if result is None:
            return function(*args, **kwargs)  # which says what is wrong with the arguments
        why = self.obstacle(code)
        if why is not None:
            self.refuse(why)
            return function(*args, **kwargs)
        frame = Frame(function, code, decode(code, HANDLERS))
        frame.locals = result
        if self.reads.source(function) is not None:
            for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
                self.reads.hold(value)
            for cell in function.__closure__ or ():
                self.reads.hold(cell)
        if code.co_flags & GENERATOR:
            made = self.generator(frame)
            made.__name__, made.__qualname__ = function.__name__, function.__qualname__
            return made
        return self.run(frame)[1]

    def obstacle(self, code: types.CodeType) -> str | None:
        """Why a code object is not interpreted."""
        if code.co_flags & ASYNCHRONOUS:
            return f"{code.co_name} is a coroutine"
        if self.depth > DEPTH:
            return f"more than {DEPTH} calls inside each other"
        for i in decode(code, HANDLERS):
            if i.run is None:
                return f"an instruction that is not interpreted ({i.name})"
        return None

    def run(self, frame: Frame) -> tuple[str, Any]:
        """Interpret until the frame returns or yields: which of both, and the value."""
        frame.caller, self.frame = self.frame, frame
        self.depth += 1
        handled, instructions, stack = self.handled, frame.instructions, frame.stack
        try:
            while True:
                i = instructions[frame.at]
                frame.at += 1
                try:
                    ended = i.run(self, frame, i)  # type: ignore[misc]
                except BaseException as error:
                    self.unwind(frame, error)
                    continue
                if self.observe is not None:
                    self.observe()
                if ended is not None:
                    return ended, stack.pop()
        finally:
            self.depth -= 1
            self.handled = handled
            self.frame, frame.caller = frame.caller, None

    def unwind(self, frame: Frame, error: BaseException) -> None:
        """Go on where the exception is handled; raise it where that is not in this frame."""
        i = frame.instructions[frame.at - 1]
        if error is not self.reraised and error is not self.handled and error.__context__ is None:
            error.__context__ = self.handled
        again = error is self.reraised and (i.name == "RERAISE" or i.name == "RAISE_VARARGS" and not i.arg)
        self.reraised = None
        if not again:  # which would have this function twice in the traceback
            self.trail.leave(error, frame.code, i.line, frame.globals)
        if i.guarded is None:
            self.reraised = error
            raise error
        self.trail.mend(error, handled=True)  # whoever handles it may look
        target, depth, pushed = i.guarded
        del frame.stack[depth:]
        if pushed:
            frame.stack.append(i.offset // 2)
        frame.stack.append(error)
        frame.at = target

    def generator(self, frame: Frame) -> Any:
        """A generator that interprets the frame."""
        thrown: BaseException | None = None
        value: Any = None
        started = False
        while True:
            if thrown is not None:
                ended, value = self.throw(frame, thrown)
            else:
                if started:
                    frame.stack.append(value)
                started = True
                ended, value = self.run(frame)
            if ended == RETURNED:
                return value
            thrown = None
            try:
                value = yield value
            except BaseException as error:
                thrown = error

    def throw(self, frame: Frame, error: BaseException) -> tuple[str, Any]:
        """Go on in a generator with an exception; one that waits for another generator throws it there."""
        waits = frame.instructions[frame.at - 2]
        if waits.name == "SEND" and not isinstance(error, GeneratorExit):
            throw = getattr(frame.stack[-1], "throw", None)
            if throw is not None:
                try:
                    return "yielded", throw(error)
                except StopIteration as end:
                    finish_send(frame, waits, end.value)
                    return self.run(frame)
                except BaseException as other:
                    error = other
        elif waits.name == "SEND" and hasattr(frame.stack[-1], "close"):
            frame.stack[-1].close()
        saved, self.frame = self.frame, frame
        try:
            self.unwind(frame, error)
        finally:
            self.frame = saved
        return self.run(frame)

    # --- names ----------------------------------------------------------------------------------------------------------
    def load_global(self, frame: Frame, name: str) -> Any:
        space = frame.globals
        if space.get("__package__") == __package__ and name in space:
            return self.reads.hold(space[name])
        if name in space:
            return self.reads.take(space[name], Item(Object(space), name))
        built = space.get("__builtins__", {})
        built = built if isinstance(built, dict) else vars(built)
        if name not in built:
            raise NameError(f"name '{name}' is not defined", name=name)
        if self.reads.active:
            self.reads.guard(Lacks(Object(space), name), name)
        return self.reads.read(built[name], Item(Object(built), name))

    def load_cell(self, frame: Frame, name: str) -> Any:
        cell = frame.locals[name]
        try:
            value = cell.cell_contents
        except ValueError:
            if name in frame.code.co_freevars:
                raise NameError(
                    f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope",
                    name=name,
                ) from None
            raise UnboundLocalError(
                f"cannot access local variable '{name}' where it is not associated with a value"
            ) from None
        source = self.reads.source(cell)
        return value if source is None else self.reads.take(value, Contents(source))

    def namespace(self, value: Any) -> dict[str, Any] | None:
        """An instance's `__dict__`."""
        try:
            result = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return None
        return result if isinstance(result, dict) else None

    def local_names(self) -> dict[str, Any]:
        """What `locals()` gives in the frame that runs."""
        frame = self.frame
        assert frame is not None
        result = {}
        hidden = (*frame.code.co_cellvars, *frame.code.co_freevars)
        for name, value in frame.locals.items():
            if name in hidden and isinstance(value, types.CellType):
                try:
                    result[name] = self.load_cell(frame, name)
                except NameError:
                    continue
            elif value is not NULL:
                result[name] = value
        return result

    def steps(self, iterator: Any) -> Iterator[Any]:
        """What an iterator gives."""
        while (value := self.step(iterator)) is not NULL:
            yield value

    def read_members(self, value: Any, name: str) -> Any:
        """An attribute in one of the dicts that the policy names; NULL where it is in none."""
        space = self.namespace(value)
        source = self.reads.source(value)
        for member in self.policy.members(value) if space is not None else ():
            result = space.get(member)  # type: ignore[union-attr]
            if type(result) is dict and name in result:
                if source is None:
                    return result[name]
                return self.reads.read(result[name], Item(Item(Namespace(source), member), name))
        return NULL
