"""An unpickler that builds tensors, containers and what the user names, and runs nothing else.

A pickle is a program for a machine with a stack.  Here a name stands for something only if it is in a table, a call is made only of
what is in a table, and what a call may take is bounded by the length of the pickle.
"""

from __future__ import annotations

import struct
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError, decode_long
from typing import Any

from .._tensor import Tensor
from ..core.base import display
from ..core.base.dtypes import Size
from ..core.base.memory import Storage
from ..nn.parameter import Parameter
from . import names, rebuilding
from .allowed import ALLOWED, MAKERS, StorageType, hashable, user_allowed
from .errors import Damaged, short

_MEMO_LIMIT = 1 << 31
_KEY_PARTS = 1000  # most parts of a tuple that is a key, for the sake of its hash
_BLOCKED = ("sys", "os", "posix", "nt")  # whatever users say
# What the machine's own steps raise where a pickle is damaged.
_ERRORS = (LookupError, ValueError, TypeError, AttributeError, OverflowError, struct.error, RecursionError)

# --- the machine ------------------------------


class Unpickler:
    """Reads one pickle from `data` (bytes, or a mapped file) at `position`, which then stands behind it.

    `persistent_load` makes storages of what describes them.  `encoding` is that of Python 2's strings; "bytes" leaves them.
    """

    def __init__(
        self,
        data: Any,
        position: int = 0,
        *,
        encoding: str = "utf-8",
        persistent_load: Callable | None = None,
    ) -> None:
        self.data = data
        self.position = position
        self.encoding = encoding
        self.persistent_load = persistent_load
        self.memo: dict[int, Any] = {}
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.remaining = 16 * (len(data) - position) + (1 << 16)
        self.copies = self.loaded = 0  # bytes that lazy views cost, and of the storages
        self.storages: dict[int, Any] = {}
        self.outside = False  # in a function that users gave
        self.users = user_allowed()
        self.users_ids = {id(item) for item in self.users.values()}
        # Set where names and storages are looked at and nothing is called.
        self.wanted: set[str] | None = None

    def load(self) -> Any:
        """The object.  UnpicklingError says what was found that is damaged or not allowed."""
        try:
            return self._run()
        except (UnpicklingError, Damaged):
            raise
        except _ERRORS as error:
            if self.outside:
                raise
            if type(error) is IndexError:
                raise UnpicklingError("pickle data was truncated, or takes from an empty stack") from error
            if type(error) is KeyError:
                raise UnpicklingError(
                    f"a value is used that was not stored: {short(error.args[0])}"
                ) from error
            raise UnpicklingError(f"{type(error).__name__}: {error}") from error

    def foreign(self, function: Callable, *args: Any) -> Any:
        """Call what is not ours, whose errors are its own."""
        self.outside = True
        made = function(*args)
        self.outside = False
        return made

    def _run(self) -> Any:
        data, steps, end = self.data, _STEPS, len(self.data)
        while self.position < end:
            code = data[self.position]
            self.position += 1
            if code == 0x2E:  # STOP
                if self.marks or not self.stack:
                    raise UnpicklingError("a pickle ends in the middle of something")
                return self.stack.pop()
            step = steps.get(code)
            if step is None:
                raise UnpicklingError(f"Unsupported operand {code} at byte {self.position - 1}")
            step(self)
        raise UnpicklingError("pickle data was truncated")

    # what the steps use
    def read(self, n: int) -> bytes:
        begin = self.position
        if n > len(self.data) - begin:
            raise UnpicklingError(
                f"pickle data was truncated: {n} bytes wanted, {len(self.data) - begin} left"
            )
        self.position = begin + n
        return self.data[begin : begin + n]

    def number(self, form: struct.Struct) -> Any:
        return form.unpack(self.read(form.size))[0]

    def line(self) -> str:
        end = self.data.find(b"\n", self.position, self.position + 4096)
        if end < 0:
            raise UnpicklingError("pickle data was truncated: a line does not end")
        text = self.data[self.position : end].decode()
        self.position = end + 1
        return text

    def pop_mark(self) -> list[Any]:
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def charge(self, x: Any) -> None:
        """Count what a call copies, so that a few bytes of the pickle cannot ask for the same large thing often."""
        if isinstance(x, (str, bytes, bytearray, list, tuple, set, frozenset, dict)):
            self.remaining -= len(x)
            if self.remaining < 0:
                raise UnpicklingError("a pickle copies its parts more often than its length explains")

    def charge_copy(self, storage: Any) -> None:
        self.copies += _nbytes(getattr(storage, "_untyped_storage", storage))
        if self.copies > 8 * self.loaded:
            raise UnpicklingError("a pickle asks for many copies of one storage")

    def is_users(self, x: Any) -> bool:
        return id(x) in self.users_ids

    def check_key(self, key: Any, parts: int = 0) -> int:
        """UnpicklingError for a tuple whose hash would take forever; a tuple of tuples is a small pickle of any depth."""
        if type(key) in (tuple, frozenset, Size):
            for part in key:
                parts = self.check_key(part, parts + 1)
        if parts > _KEY_PARTS:
            raise UnpicklingError(f"a key of more than {_KEY_PARTS} parts")
        return parts

    def push_global(self, module: str, name: str) -> None:
        if (module, name) in NAME_MAPPING:  # what Python 2 called it, as pickles of protocol 2 do
            module, name = NAME_MAPPING[module, name]
        else:
            module = IMPORT_MAPPING.get(module, module)
        if self.wanted is not None:
            self.wanted.add(f"{module}.{name}")
            known = ALLOWED.get(f"{module}.{name}")
            self.stack.append(known if isinstance(known, StorageType) or known is Storage else None)
        else:
            self.stack.append(self.find(module, name))

    def find(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if module.partition(".")[0] in _BLOCKED:
            raise UnpicklingError(
                f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked."
            )
        if full in ALLOWED:
            return ALLOWED[full]
        if full in self.users:
            return self.users[full]
        what = names.lacking(module, name)
        if what is not None:
            raise Damaged(f"the file holds {what} ({full}), which {display.NAME} does not have")
        shown = full.removeprefix("builtins.")
        raise UnpicklingError(
            f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
            f"`{display.NAME}.serialization.add_safe_globals([{shown}])` or the "
            f"`{display.NAME}.serialization.safe_globals([{shown}])` context manager to allowlist this global if you trust "
            "this class/function."
        )

    def new(self, cls: Any, args: Any, keywords: Any) -> Any:
        """An object of a class, without its state; archives of programs have classes of their own."""
        return _made(self, cls, args, keywords)

    def build(self, made: Any, state: Any) -> Any:
        """An object with its state."""
        _set_state_of(self, made, state)
        return made

    def call(self, function: Any, args: Any) -> Any:
        if self.wanted is not None:
            return None
        if type(args) is not tuple:
            raise UnpicklingError(f"a call with a {type(args).__name__} in place of arguments")
        make = MAKERS.get(id(function))
        if make is not None:
            for arg in args:
                self.charge(arg)
            return make(self, *args)
        if self.is_users(function) and callable(function):
            return self.foreign(function, *args)
        raise UnpicklingError(f"Trying to call reduce for unrecognized function {_shown(function)}")


def _nbytes(storage: Any) -> int:
    return storage.nbytes() if isinstance(storage, Storage) else 0


def _shown(x: Any) -> str:
    name = getattr(x, "__qualname__", None) if isinstance(x, type) or callable(x) else None
    return name if type(name) is str else short(x)


def names_in(data: Any, position: int = 0) -> set[str]:
    """The full names of everything that a pickle names; nothing is called."""
    machine = Unpickler(data, position, persistent_load=lambda described: None)
    machine.wanted = set()
    machine.load()
    return machine.wanted


# --- the steps, by their bytes ------------------------------

_U2, _U4, _U8 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")
_I4, _F8 = struct.Struct("<i"), struct.Struct(">d")
_STEPS: dict[int, Callable[[Unpickler], None]] = {}


def _step(code: bytes) -> Callable:
    def declare(step: Callable[[Unpickler], None]) -> Callable[[Unpickler], None]:
        _STEPS[code[0]] = step
        return step

    return declare


def _push(code: bytes, make: Callable[[Unpickler], Any]) -> None:
    def step(m: Unpickler) -> None:
        value = make(m)  # which may leave another stack
        m.stack.append(value)

    _STEPS[code[0]] = step


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _old_text(m: Unpickler, data: bytes) -> Any:
    return data if m.encoding == "bytes" else data.decode(m.encoding)


_push(b"N", lambda m: None)
_push(b"\x88", lambda m: True)
_push(b"\x89", lambda m: False)
_push(b")", lambda m: ())
_push(b"]", lambda m: [])
_push(b"}", lambda m: {})
_push(b"\x8f", lambda m: set())
_push(b"J", lambda m: m.number(_I4))
_push(b"K", lambda m: m.read(1)[0])
_push(b"M", lambda m: m.number(_U2))
_push(b"G", lambda m: m.number(_F8))
_push(b"\x8a", lambda m: decode_long(m.read(m.read(1)[0])))
_push(b"\x8b", lambda m: decode_long(m.read(m.number(_U4))))
_push(b"X", lambda m: _text(m.read(m.number(_U4))))
_push(b"\x8c", lambda m: _text(m.read(m.read(1)[0])))
_push(b"\x8d", lambda m: _text(m.read(m.number(_U8))))
_push(b"U", lambda m: _old_text(m, m.read(m.read(1)[0])))
_push(b"T", lambda m: _old_text(m, m.read(m.number(_U4))))
_push(b"C", lambda m: m.read(m.read(1)[0]))
_push(b"B", lambda m: m.read(m.number(_U4)))
_push(b"\x8e", lambda m: m.read(m.number(_U8)))
_push(b"\x96", lambda m: bytearray(m.read(m.number(_U8))))
_push(b"h", lambda m: m.memo[m.read(1)[0]])
_push(b"j", lambda m: m.memo[m.number(_U4)])
_push(b"t", lambda m: tuple(m.pop_mark()))
_push(b"l", lambda m: m.pop_mark())


@_step(b"\x80")
def _proto(m: Unpickler) -> None:
    version = m.read(1)[0]
    if version > 5:
        raise UnpicklingError(f"unsupported pickle protocol: {version}")


@_step(b"\x95")
def _frame(m: Unpickler) -> None:
    m.number(_U8)  # how much one may read ahead; all of it is here already


@_step(b"(")
def _mark(m: Unpickler) -> None:
    m.marks.append(m.stack)
    m.stack = []


@_step(b"0")
def _pop(m: Unpickler) -> None:
    if m.stack:
        m.stack.pop()
    else:
        m.pop_mark()


@_step(b"1")
def _pop_to_mark(m: Unpickler) -> None:
    m.pop_mark()


@_step(b"2")
def _again(m: Unpickler) -> None:
    m.stack.append(m.stack[-1])


@_step(b"\x85")
def _tuple1(m: Unpickler) -> None:
    m.stack[-1] = (m.stack[-1],)


@_step(b"\x86")
def _tuple2(m: Unpickler) -> None:
    last = m.stack.pop()
    m.stack[-1] = (m.stack[-1], last)


@_step(b"\x87")
def _tuple3(m: Unpickler) -> None:
    last, middle = m.stack.pop(), m.stack.pop()
    m.stack[-1] = (m.stack[-1], middle, last)


def _remember(m: Unpickler, i: int) -> None:
    if i >= _MEMO_LIMIT:
        raise UnpicklingError(f"a value is stored under the number {i}")
    m.memo[i] = m.stack[-1]


@_step(b"q")
def _put1(m: Unpickler) -> None:
    m.memo[m.read(1)[0]] = m.stack[-1]


@_step(b"r")
def _put4(m: Unpickler) -> None:
    _remember(m, m.number(_U4))


@_step(b"\x94")
def _put_next(m: Unpickler) -> None:
    _remember(m, len(m.memo))


@_step(b"a")
def _append(m: Unpickler) -> None:
    _extend(m, [m.stack.pop()])


@_step(b"e")
def _appends(m: Unpickler) -> None:
    _extend(m, m.pop_mark())


def _extend(m: Unpickler, items: list[Any]) -> None:
    target = m.stack[-1]
    if m.wanted is not None:
        return
    if type(target) is list:
        target.extend(items)
    elif m.is_users(type(target)) and hasattr(target, "append"):
        for item in items:
            target.append(item)
    else:
        raise UnpicklingError(f"Can only append to lists, but got {type(target).__name__}")


@_step(b"\x90")
def _add_items(m: Unpickler) -> None:
    items, target = m.pop_mark(), m.stack[-1]
    if m.wanted is not None:
        return
    if type(target) is not set:
        raise UnpicklingError(f"Can only add to sets, but got {type(target).__name__}")
    target.update(hashable(m, items))


@_step(b"\x91")
def _frozen(m: Unpickler) -> None:
    items = m.pop_mark()
    m.stack.append(None if m.wanted is not None else frozenset(hashable(m, items)))


@_step(b"s")
def _set_item(m: Unpickler) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    _update(m, [key, value])


@_step(b"u")
def _set_items(m: Unpickler) -> None:
    _update(m, m.pop_mark())


@_step(b"d")
def _dict(m: Unpickler) -> None:
    items = m.pop_mark()
    m.stack.append({})
    _update(m, items)


def _update(m: Unpickler, items: list[Any]) -> None:
    target = m.stack[-1]
    if m.wanted is not None:
        return
    if type(target) not in (dict, OrderedDict, Counter) and not (
        m.is_users(type(target)) and hasattr(target, "__setitem__")
    ):
        raise UnpicklingError(
            "Can only SETITEM for dict, collections.OrderedDict, collections.Counter, but got "
            f"{type(target).__name__}"
        )
    if len(items) % 2:
        raise UnpicklingError("a dict is given a key without a value")
    for i in range(0, len(items), 2):
        key = items[i]
        if type(key) is not str:
            m.check_key(key)
        target[key] = items[i + 1]


@_step(b"c")
def _global(m: Unpickler) -> None:
    module = m.line()
    m.push_global(module, m.line())


@_step(b"\x93")
def _stack_global(m: Unpickler) -> None:
    name, module = m.stack.pop(), m.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise UnpicklingError("a name is no str")
    m.push_global(module, name)


@_step(b"R")
def _reduce(m: Unpickler) -> None:
    args = m.stack.pop()
    m.stack[-1] = m.call(m.stack[-1], args)


@_step(b"\x81")
def _new(m: Unpickler) -> None:
    args, cls = m.stack.pop(), m.stack.pop()
    m.stack.append(m.new(cls, args, {}))


@_step(b"\x92")
def _new_with_keywords(m: Unpickler) -> None:
    keywords, args, cls = m.stack.pop(), m.stack.pop(), m.stack.pop()
    m.stack.append(m.new(cls, args, keywords))


def _made(m: Unpickler, cls: Any, args: Any, keywords: Any) -> Any:
    if m.wanted is not None:
        return None
    if type(args) is not tuple or type(keywords) is not dict:
        raise UnpicklingError("an object is made of something else than arguments")
    if isinstance(cls, type) and m.is_users(cls):
        return m.foreign(lambda: cls.__new__(cls, *args, **keywords))  # type: ignore[call-overload]
    if isinstance(cls, type) and id(cls) in MAKERS and not keywords:
        return m.call(cls, args)
    raise UnpicklingError(
        "Can only create new object for nn.Parameter or classes allowlisted via `add_safe_globals` but got "
        f"{_shown(cls)}"
    )


@_step(b"b")
def _build(m: Unpickler) -> None:
    state, made = m.stack.pop(), m.stack[-1]
    if m.wanted is None:
        m.stack[-1] = m.build(made, state)


def _set_state_of(m: Unpickler, made: Any, state: Any) -> None:
    m.charge(state)
    if m.is_users(type(made)):
        m.foreign(_set_state, made, state)
    elif type(made) in (Tensor, Parameter):
        rebuilding.set_legacy_state(made, state)
    elif type(made) is rebuilding._DimRange:
        made.__setstate__(state)
    elif type(made) in (OrderedDict, Counter):
        if type(state) is not dict or any(type(k) is not str or k.startswith("__") for k in state):
            raise UnpicklingError(f"the attributes of an {type(made).__name__} are no dict of names")
        made.__dict__.update(state)
    else:
        raise UnpicklingError(
            "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got "
            f"{type(made).__name__}"
        )


def _set_state(made: Any, state: Any) -> None:
    """As pickle gives an object its state."""
    own = getattr(made, "__setstate__", None)
    if own is not None:
        own(state)
        return
    slots = None
    if type(state) is tuple and len(state) == 2:
        state, slots = state
    if state:
        made.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(made, name, value)


@_step(b"Q")
def _persistent(m: Unpickler) -> None:
    described = m.stack.pop()
    if m.persistent_load is None:
        raise UnpicklingError("unsupported persistent id encountered")
    if type(described) not in (tuple, int, str):
        raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(described).__name__}")
    storage = m.foreign(m.persistent_load, described)  # it checks all that it is given
    untyped = getattr(storage, "_untyped_storage", storage)
    if id(untyped) not in m.storages:  # each once, however often it is named
        m.storages[id(untyped)] = untyped
        m.loaded += _nbytes(untyped)
    m.stack.append(storage)


@_step(b"I")
def _old_int(m: Unpickler) -> None:
    text = m.line()
    m.stack.append({"00": False, "01": True}[text] if text in ("00", "01") else int(text))


@_step(b"L")
def _old_long(m: Unpickler) -> None:
    m.stack.append(int(m.line().removesuffix("L")))
