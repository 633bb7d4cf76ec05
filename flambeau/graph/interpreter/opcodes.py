"""What each instruction of CPython 3.11 to 3.13 does with a frame."""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..sources import Contents, Item, Object
from .code import NULL, Frame, Instruction

if TYPE_CHECKING:
    from .machine import Machine

HANDLERS: dict[str, Callable[[Machine, Frame, Instruction], Any]] = {}
BINARY = "+ & // << @ * % | ** >> - / ^".split()
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
V312, V313 = sys.version_info >= (3, 12), sys.version_info >= (3, 13)
RETURNED, YIELDED = "returned", "yielded"


def opcode(*names: str) -> Callable:
    def enter(function: Callable) -> Callable:
        for name in names or (function.__name__,):
            HANDLERS[name] = function
        return function

    return enter


# --- the stack and locals -----------------------------------------------------------------------------------------------
@opcode(
    "NOP",
    "RESUME",
    "EXTENDED_ARG",
    "PRECALL",
    "NOT_TAKEN",
    "JUMP_BACKWARD_NO_INTERRUPT_",
    "SETUP_ANNOTATIONS",
)
def nothing(m: Machine, f: Frame, i: Instruction) -> None:
    return None


@opcode("POP_TOP", "END_FOR_")
def pop_top(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.pop()


@opcode("END_FOR")
def end_for(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.pop()
    if not V313:
        f.stack.pop()


@opcode("END_SEND")
def end_send(m: Machine, f: Frame, i: Instruction) -> None:
    del f.stack[-2]


@opcode("PUSH_NULL")
def push_null(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(NULL)


@opcode("COPY")
def copy(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(f.stack[-i.arg])


@opcode("SWAP")
def swap(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack[-i.arg], f.stack[-1] = f.stack[-1], f.stack[-i.arg]


@opcode("LOAD_CONST")
def load_const(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(i.value)


def local(f: Frame, name: str) -> Any:
    value = f.locals.get(name, NULL)
    if value is NULL:
        raise UnboundLocalError(
            f"cannot access local variable '{name}' where it is not associated with a value"
        )
    return value


@opcode("LOAD_FAST", "LOAD_CLOSURE", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW")
def load_fast(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(local(f, i.value))


@opcode("LOAD_FAST_LOAD_FAST")
def load_fast_load_fast(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.extend(local(f, name) for name in i.value)


@opcode("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(f.locals.pop(i.value, NULL))


@opcode("STORE_FAST")
def store_fast(m: Machine, f: Frame, i: Instruction) -> None:
    f.locals[i.value] = f.stack.pop()


@opcode("STORE_FAST_STORE_FAST")
def store_fast_store_fast(m: Machine, f: Frame, i: Instruction) -> None:
    for name in i.value:
        f.locals[name] = f.stack.pop()


@opcode("STORE_FAST_LOAD_FAST")
def store_fast_load_fast(m: Machine, f: Frame, i: Instruction) -> None:
    f.locals[i.value[0]] = f.stack.pop()
    f.stack.append(local(f, i.value[1]))


@opcode("DELETE_FAST")
def delete_fast(m: Machine, f: Frame, i: Instruction) -> None:
    local(f, i.value)
    del f.locals[i.value]


# --- cells, globals -----------------------------------------------------------------------------------------------------
@opcode("MAKE_CELL")
def make_cell(m: Machine, f: Frame, i: Instruction) -> None:
    value = f.locals.get(i.value, NULL)
    f.locals[i.value] = types.CellType() if value is NULL else types.CellType(value)


@opcode("COPY_FREE_VARS")
def copy_free_vars(m: Machine, f: Frame, i: Instruction) -> None:
    f.locals.update(zip(f.code.co_freevars, f.function.__closure__))


@opcode("LOAD_DEREF")
def load_deref(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(m.load_cell(f, i.value))


@opcode("STORE_DEREF")
def store_deref(m: Machine, f: Frame, i: Instruction) -> None:
    cell, value = f.locals[i.value], f.stack.pop()
    source = m.reads.source(cell) if m.reads.active else None
    if source is not None:
        m.reads.write(Contents(source), value)
    cell.cell_contents = value


@opcode("DELETE_DEREF")
def delete_deref(m: Machine, f: Frame, i: Instruction) -> None:
    m.load_cell(f, i.value)
    m.changes(f.locals[i.value], f"deletes {i.value!r} of an enclosing function")
    del f.locals[i.value].cell_contents


@opcode("LOAD_GLOBAL")
def load_global(m: Machine, f: Frame, i: Instruction) -> None:
    value = m.load_global(f, i.value)
    if i.arg & 1:
        f.stack.extend((value, NULL) if V313 else (NULL, value))
    else:
        f.stack.append(value)


@opcode("STORE_GLOBAL")
def store_global(m: Machine, f: Frame, i: Instruction) -> None:
    value = f.stack.pop()
    if m.reads.active:
        m.reads.write(Item(Object(f.globals), i.value), value)
    f.globals[i.value] = value


@opcode("DELETE_GLOBAL")
def delete_global(m: Machine, f: Frame, i: Instruction) -> None:
    m.refuse(f"deletes the global {i.value!r}")
    if i.value not in f.globals:
        raise NameError(f"name '{i.value}' is not defined", name=i.value)
    del f.globals[i.value]


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(AssertionError)


@opcode("LOAD_BUILD_CLASS")
def load_build_class(m: Machine, f: Frame, i: Instruction) -> None:
    m.refuse("makes a class")
    f.stack.append(builtins.__build_class__)


@opcode("IMPORT_NAME")
def import_name(m: Machine, f: Frame, i: Instruction) -> None:
    level, names = f.pop(2)
    f.stack.append(m.reads.hold(__import__(i.value, f.globals, None, names, level)))


@opcode("IMPORT_FROM")
def import_from(m: Machine, f: Frame, i: Instruction) -> None:
    try:
        f.stack.append(m.load_attribute(f.stack[-1], i.value))
    except AttributeError:
        result = sys.modules.get(f"{f.stack[-1].__name__}.{i.value}")
        if result is None:
            raise ImportError(f"cannot import name {i.value!r} from {f.stack[-1].__name__!r}") from None
        f.stack.append(m.reads.hold(result))


# --- operators ----------------------------------------------------------------------------------------------------------
@opcode("BINARY_OP")
def binary_op(m: Machine, f: Frame, i: Instruction) -> None:
    a, b = f.pop(2)
    if i.arg == 2 * len(BINARY):  # 3.14 has items here
        f.stack.append(m.item(a, b))
        return
    f.stack.append(m.binary(BINARY[i.arg % len(BINARY)], a, b, i.arg >= len(BINARY)))


@opcode("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT")
def unary(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(m.unary(i.name, f.stack.pop()))


@opcode("UNARY_NOT")
def unary_not(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(not m.truth(f.stack.pop()))


@opcode("TO_BOOL")
def to_bool(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(m.truth(f.stack.pop()))


@opcode("COMPARE_OP")
def compare_op(m: Machine, f: Frame, i: Instruction) -> None:
    a, b = f.pop(2)
    made = m.compare(COMPARISONS[i.arg >> 5 if V313 else i.arg >> 4 if V312 else i.arg], a, b)
    f.stack.append(m.truth(made) if V313 and i.arg & 16 else made)


@opcode("IS_OP")
def is_op(m: Machine, f: Frame, i: Instruction) -> None:
    a, b = f.pop(2)
    f.stack.append(m.identical(a, b) != bool(i.arg))


@opcode("CONTAINS_OP")
def contains_op(m: Machine, f: Frame, i: Instruction) -> None:
    a, b = f.pop(2)
    f.stack.append(m.contains(b, a) != bool(i.arg))


@opcode("BINARY_SUBSCR")
def binary_subscr(m: Machine, f: Frame, i: Instruction) -> None:
    a, b = f.pop(2)
    f.stack.append(m.item(a, b))


@opcode("BINARY_SLICE")
def binary_slice(m: Machine, f: Frame, i: Instruction) -> None:
    a, start, stop = f.pop(3)
    f.stack.append(m.item(a, slice(start, stop)))


@opcode("STORE_SUBSCR")
def store_subscr(m: Machine, f: Frame, i: Instruction) -> None:
    value, of, key = f.pop(3)
    m.store_item(of, key, value)


@opcode("STORE_SLICE")
def store_slice(m: Machine, f: Frame, i: Instruction) -> None:
    value, of, start, stop = f.pop(4)
    m.store_item(of, slice(start, stop), value)


@opcode("DELETE_SUBSCR")
def delete_subscr(m: Machine, f: Frame, i: Instruction) -> None:
    of, key = f.pop(2)
    m.delete_item(of, key)


# --- attributes ---------------------------------------------------------------------------------------------------------
@opcode("LOAD_ATTR")
def load_attr(m: Machine, f: Frame, i: Instruction) -> None:
    value = m.load_attribute(f.stack.pop(), i.value)
    if V312 and i.arg & 1:
        f.stack.extend((value, NULL) if V313 else (NULL, value))
    else:
        f.stack.append(value)


@opcode("LOAD_METHOD")
def load_method(m: Machine, f: Frame, i: Instruction) -> None:
    value = m.load_attribute(f.stack.pop(), i.value)
    f.stack.extend((NULL, value))


@opcode("LOAD_SUPER_ATTR")
def load_super_attr(m: Machine, f: Frame, i: Instruction) -> None:
    kind, cls, of = f.pop(3)
    value = m.load_attribute(m.call(kind, (cls, of), {}), i.value)
    if i.arg & 1:
        f.stack.extend((value, NULL) if V313 else (NULL, value))
    else:
        f.stack.append(value)


@opcode("STORE_ATTR")
def store_attr(m: Machine, f: Frame, i: Instruction) -> None:
    value, of = f.pop(2)
    m.store_attribute(of, i.value, value)


@opcode("DELETE_ATTR")
def delete_attr(m: Machine, f: Frame, i: Instruction) -> None:
    m.delete_attribute(f.stack.pop(), i.value)


# --- containers ---------------------------------------------------------------------------------------------------------
@opcode("BUILD_TUPLE")
def build_tuple(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(tuple(f.pop(i.arg)))


@opcode("BUILD_LIST")
def build_list(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(f.pop(i.arg))


@opcode("BUILD_SET")
def build_set(m: Machine, f: Frame, i: Instruction) -> None:
    items = f.pop(i.arg)
    m.hashes(items)
    f.stack.append(set(items))


@opcode("BUILD_MAP")
def build_map(m: Machine, f: Frame, i: Instruction) -> None:
    items = f.pop(2 * i.arg)
    m.hashes(items[::2])
    f.stack.append(dict(zip(items[::2], items[1::2])))


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(m: Machine, f: Frame, i: Instruction) -> None:
    keys = f.stack.pop()
    f.stack.append(dict(zip(keys, f.pop(i.arg))))


@opcode("BUILD_SLICE")
def build_slice(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(slice(*f.pop(i.arg)))


@opcode("BUILD_STRING")
def build_string(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append("".join(f.pop(i.arg)))


@opcode("LIST_APPEND")
def list_append(m: Machine, f: Frame, i: Instruction) -> None:
    value = f.stack.pop()
    f.stack[-i.arg].append(value)


@opcode("SET_ADD")
def set_add(m: Machine, f: Frame, i: Instruction) -> None:
    value = f.stack.pop()
    m.hashes(value)
    f.stack[-i.arg].add(value)


@opcode("MAP_ADD")
def map_add(m: Machine, f: Frame, i: Instruction) -> None:
    key, value = f.pop(2)
    m.hashes(key)
    f.stack[-i.arg][key] = value


@opcode("LIST_EXTEND")
def list_extend(m: Machine, f: Frame, i: Instruction) -> None:
    value = f.stack.pop()
    f.stack[-i.arg].extend(m.sequence(value))


@opcode("SET_UPDATE")
def set_update(m: Machine, f: Frame, i: Instruction) -> None:
    items = m.sequence(f.stack.pop())
    m.reads.fix(items)
    f.stack[-i.arg].update(items)


@opcode("DICT_UPDATE")
def dict_update(m: Machine, f: Frame, i: Instruction) -> None:
    value = f.stack.pop()
    m.open(value)
    f.stack[-i.arg].update(value)


@opcode("DICT_MERGE")
def dict_merge(m: Machine, f: Frame, i: Instruction) -> None:
    value = f.stack.pop()
    m.open(value)
    into = f.stack[-i.arg]
    if not hasattr(value, "keys"):
        raise TypeError(f"argument after ** must be a mapping, not {type(value).__name__}")
    for key in value.keys():  # noqa: SIM118  a mapping need not iterate over its keys
        if key in into:
            raise TypeError(f"got multiple values for keyword argument '{key}'")
        into[key] = value[key]


@opcode("LIST_TO_TUPLE")
def list_to_tuple(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(tuple(f.stack.pop()))


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(m: Machine, f: Frame, i: Instruction) -> None:
    value = f.stack.pop()
    if type(value) in (list, tuple):
        m.open(value)
        items = list(value)
        few, many = f"expected {i.arg}, got {len(items)}", f"expected {i.arg}"
    else:
        iterator, items = m.iterate(value), []
        for item in m.steps(iterator):
            items.append(item)
            if len(items) > i.arg:
                break
        few, many = f"expected {i.arg}, got {len(items)}", f"expected {i.arg}"
    if len(items) < i.arg:
        raise ValueError(f"not enough values to unpack ({few})")
    if len(items) > i.arg:
        raise ValueError(f"too many values to unpack ({many})")
    f.stack.extend(reversed(items))


@opcode("UNPACK_EX")
def unpack_ex(m: Machine, f: Frame, i: Instruction) -> None:
    before, after = i.arg & 255, i.arg >> 8
    items = m.sequence(f.stack.pop())
    if len(items) < before + after:
        raise ValueError(
            f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
        )
    middle = len(items) - after
    f.stack.extend(reversed([*items[:before], items[before:middle], *items[middle:]]))


# --- strings ------------------------------------------------------------------------------------------------------------
@opcode("FORMAT_VALUE")
def format_value(m: Machine, f: Frame, i: Instruction) -> None:
    spec = f.stack.pop() if i.arg & 4 else ""
    value, change = f.stack.pop(), (None, str, repr, ascii)[i.arg & 3]
    if change is not None:
        value = m.call(change, (value,), {})
    f.stack.append(m.call(format, (value, spec), {}))


@opcode("CONVERT_VALUE")
def convert_value(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(m.call((None, str, repr, ascii)[i.arg], (f.stack.pop(),), {}))


@opcode("FORMAT_SIMPLE")
def format_simple(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(m.call(format, (f.stack.pop(), ""), {}))


@opcode("FORMAT_WITH_SPEC")
def format_with_spec(m: Machine, f: Frame, i: Instruction) -> None:
    value, spec = f.pop(2)
    f.stack.append(m.call(format, (value, spec), {}))


# --- jumps --------------------------------------------------------------------------------------------------------------
@opcode("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(m: Machine, f: Frame, i: Instruction) -> None:
    f.at = i.target


@opcode("POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE", "POP_JUMP_IF_FALSE")
def pop_jump_if_false(m: Machine, f: Frame, i: Instruction) -> None:
    if not m.truth(f.stack.pop()):
        f.at = i.target


@opcode("POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_IF_TRUE")
def pop_jump_if_true(m: Machine, f: Frame, i: Instruction) -> None:
    if m.truth(f.stack.pop()):
        f.at = i.target


@opcode("POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE", "POP_JUMP_IF_NONE")
def pop_jump_if_none(m: Machine, f: Frame, i: Instruction) -> None:
    if f.stack.pop() is None:
        f.at = i.target


@opcode("POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE", "POP_JUMP_IF_NOT_NONE")
def pop_jump_if_not_none(m: Machine, f: Frame, i: Instruction) -> None:
    if f.stack.pop() is not None:
        f.at = i.target


@opcode("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(m: Machine, f: Frame, i: Instruction) -> None:
    if m.truth(f.stack[-1]):
        f.stack.pop()
    else:
        f.at = i.target


@opcode("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(m: Machine, f: Frame, i: Instruction) -> None:
    if m.truth(f.stack[-1]):
        f.at = i.target
    else:
        f.stack.pop()


@opcode("GET_ITER")
def get_iter(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(m.iterate(f.stack.pop()))


@opcode("FOR_ITER")
def for_iter(m: Machine, f: Frame, i: Instruction) -> None:
    value = m.step(f.stack[-1])
    if value is not NULL:
        f.stack.append(value)
        return
    if V312:
        f.stack.append(None)  # which END_FOR removes
    else:
        f.stack.pop()
    f.at = i.target


# --- calls --------------------------------------------------------------------------------------------------------------
@opcode("KW_NAMES")
def kw_names(m: Machine, f: Frame, i: Instruction) -> None:
    f.names = f.code.co_consts[i.arg]


@opcode("CALL", "CALL_KW")
def call(m: Machine, f: Frame, i: Instruction) -> None:
    names = f.stack.pop() if i.name == "CALL_KW" else f.names
    f.names = ()
    args = f.pop(i.arg)
    function, of = f.pop(2)
    if function is NULL:
        function = of
    elif of is not NULL:
        args.insert(0, of)
    first = len(args) - len(names)
    f.stack.append(m.call(function, tuple(args[:first]), dict(zip(names, args[first:]))))


@opcode("CALL_FUNCTION_EX")
def call_function_ex(m: Machine, f: Frame, i: Instruction) -> None:
    kwargs = f.stack.pop() if i.arg & 1 else {}
    args = f.stack.pop()
    function, other = f.stack.pop(), f.stack.pop()
    if function is NULL:
        function = other
    m.open(kwargs)
    f.stack.append(m.call(function, tuple(m.sequence(args)), dict(kwargs)))


@opcode("MAKE_FUNCTION")
def make_function(m: Machine, f: Frame, i: Instruction) -> None:
    code = f.stack.pop()
    cells = tuple(types.CellType() for _ in code.co_freevars)  # which `__closure__` replaces
    made = types.FunctionType(code, f.globals, None, None, cells)
    if not V313:
        for bit, name in (
            (8, "__closure__"),
            (4, "__annotations__"),
            (2, "__kwdefaults__"),
            (1, "__defaults__"),
        ):
            if i.arg & bit:
                made = set_function_attribute_(made, name, f.stack.pop())
    made.__module__ = f.globals.get("__name__")
    f.stack.append(made)


def set_function_attribute_(function: Any, name: str, value: Any) -> Any:
    if name == "__closure__":
        made = types.FunctionType(function.__code__, function.__globals__, None, function.__defaults__, value)
        made.__kwdefaults__, made.__annotations__ = function.__kwdefaults__, function.__annotations__
        return made
    if name == "__annotations__" and isinstance(value, tuple):
        value = dict(zip(value[::2], value[1::2]))
    setattr(function, name, value)
    return function


@opcode("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(m: Machine, f: Frame, i: Instruction) -> None:
    value, function = f.pop(2)
    name = {1: "__defaults__", 2: "__kwdefaults__", 4: "__annotations__", 8: "__closure__"}[i.arg]
    f.stack.append(set_function_attribute_(function, name, value))


@opcode("RETURN_VALUE")
def return_value(m: Machine, f: Frame, i: Instruction) -> str:
    return RETURNED


@opcode("RETURN_CONST")
def return_const(m: Machine, f: Frame, i: Instruction) -> str:
    f.stack.append(i.value)
    return RETURNED


@opcode("CALL_INTRINSIC_1")
def call_intrinsic_1(m: Machine, f: Frame, i: Instruction) -> None:
    value = f.stack.pop()
    if i.arg == 3:  # StopIteration that leaves a generator
        if isinstance(value, StopIteration):
            made = RuntimeError("generator raised StopIteration")
            made.__cause__ = made.__context__ = value
            value = made
    elif i.arg == 5:
        value = m.unary("UNARY_POSITIVE", value)
    elif i.arg == 6:
        value = tuple(value)
    else:
        m.refuse(f"an instruction that is not interpreted (CALL_INTRINSIC_1 {i.arg})")
        raise NotImplementedError(f"CALL_INTRINSIC_1 {i.arg}")
    f.stack.append(value)


# --- generators ---------------------------------------------------------------------------------------------------------
@opcode("RETURN_GENERATOR")
def return_generator(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(None)


@opcode("YIELD_VALUE")
def yield_value(m: Machine, f: Frame, i: Instruction) -> str:
    return YIELDED


@opcode("GET_YIELD_FROM_ITER")
def get_yield_from_iter(m: Machine, f: Frame, i: Instruction) -> None:
    if not isinstance(f.stack[-1], types.GeneratorType):
        f.stack.append(m.iterate(f.stack.pop()))


@opcode("SEND")
def send(m: Machine, f: Frame, i: Instruction) -> None:
    value, receiver = f.stack.pop(), f.stack[-1]
    try:
        if isinstance(receiver, types.GeneratorType):
            made = receiver.send(value)
        elif value is None:
            made = (
                next(receiver)
                if m.in_c(receiver, "__next__")
                else m.call(type(receiver).__next__, (receiver,), {})
            )
        else:
            made = m.call(m.load_attribute(receiver, "send"), (value,), {})
    except StopIteration as end:
        finish_send(f, i, end.value)
        return
    f.stack.append(made)


def finish_send(f: Frame, i: Instruction, value: Any) -> None:
    """What a generator returns is the value of `yield from`."""
    if not V312:
        f.stack.pop()
    f.stack.append(value)
    f.at = i.target


@opcode("CLEANUP_THROW")
def cleanup_throw(m: Machine, f: Frame, i: Instruction) -> None:
    error = f.stack.pop()
    if not isinstance(error, StopIteration):
        raise error
    del f.stack[-2:]
    f.stack.extend((None, error.value))


# --- exceptions ---------------------------------------------------------------------------------------------------------
@opcode("PUSH_EXC_INFO")
def push_exc_info(m: Machine, f: Frame, i: Instruction) -> None:
    error = f.stack.pop()
    f.stack.extend((m.handled, error))
    m.handled = error


@opcode("POP_EXCEPT")
def pop_except(m: Machine, f: Frame, i: Instruction) -> None:
    m.handled = f.stack.pop()


@opcode("CHECK_EXC_MATCH")
def check_exc_match(m: Machine, f: Frame, i: Instruction) -> None:
    kinds = f.stack.pop()
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError("catching classes that do not inherit from BaseException is not allowed")
    f.stack.append(isinstance(f.stack[-1], kinds))


@opcode("RERAISE")
def reraise(m: Machine, f: Frame, i: Instruction) -> None:
    m.reraised = f.stack.pop()
    raise m.reraised


@opcode("RAISE_VARARGS")
def raise_varargs(m: Machine, f: Frame, i: Instruction) -> None:
    if i.arg == 0:
        if m.handled is None:
            raise RuntimeError("No active exception to reraise")
        m.reraised = m.handled
        raise m.handled
    error, *cause = f.pop(i.arg)
    if isinstance(error, type) and issubclass(error, BaseException):
        error = m.call(error, (), {})
    if not isinstance(error, BaseException):
        raise TypeError("exceptions must derive from BaseException")
    if cause:
        by = cause[0]
        if isinstance(by, type) and issubclass(by, BaseException):
            by = m.call(by, (), {})
        error.__cause__ = by
    raise error


@opcode("BEFORE_WITH")
def before_with(m: Machine, f: Frame, i: Instruction) -> None:
    manager = f.stack.pop()
    for name in ("__enter__", "__exit__"):
        if not hasattr(type(manager), name):
            raise TypeError(
                f"'{type(manager).__name__}' object does not support the context manager protocol"
            )
    leave = m.load_special(manager, "__exit__")
    f.stack.append(leave)
    f.stack.append(m.call(m.load_special(manager, "__enter__"), (), {}))


@opcode("WITH_EXCEPT_START")
def with_except_start(m: Machine, f: Frame, i: Instruction) -> None:
    error, leave = f.stack[-1], f.stack[-4]
    f.stack.append(m.call(leave, (type(error), error, error.__traceback__), {}))


# --- match --------------------------------------------------------------------------------------------------------------
@opcode("GET_LEN")
def get_len(m: Machine, f: Frame, i: Instruction) -> None:
    f.stack.append(m.call(len, (f.stack[-1],), {}))


@opcode("MATCH_SEQUENCE")
def match_sequence(m: Machine, f: Frame, i: Instruction) -> None:
    m.reads.classed(f.stack[-1])
    f.stack.append(bool(type(f.stack[-1]).__flags__ & 1 << 5))


@opcode("MATCH_MAPPING")
def match_mapping(m: Machine, f: Frame, i: Instruction) -> None:
    m.reads.classed(f.stack[-1])
    f.stack.append(bool(type(f.stack[-1]).__flags__ & 1 << 6))


@opcode("MATCH_KEYS")
def match_keys(m: Machine, f: Frame, i: Instruction) -> None:
    of, keys = f.stack[-2:]
    m.open(of)
    f.stack.append(tuple(of[k] for k in keys) if all(k in of for k in keys) else None)


@opcode("MATCH_CLASS")
def match_class(m: Machine, f: Frame, i: Instruction) -> None:
    of, kind, names = f.pop(3)
    if not m.call(isinstance, (of, kind), {}):
        f.stack.append(None)
        return
    places = getattr(kind, "__match_args__", ())
    if i.arg and kind in (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple):
        result = [of]
    elif i.arg > len(places):
        raise TypeError(
            f"{kind.__name__}() accepts {len(places)} positional sub-pattern{'s' * (len(places) != 1)} ({i.arg} given)"
        )
    else:
        result = []
        names = (*places[: i.arg], *names)
    try:
        result.extend(m.load_attribute(of, name) for name in names)
    except AttributeError:
        f.stack.append(None)
        return
    f.stack.append(tuple(result))
