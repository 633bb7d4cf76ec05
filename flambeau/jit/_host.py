"""What `torch.name` is in serialised code where no tensor is given: numbers, texts, lists, dictionaries; and `ops.prim`.

Python's own operators and functions have the names that ATen gives them, so most are taken as they are; what differs is written below.
"""

from __future__ import annotations

import math
import operator
import re
import warnings
from collections.abc import Callable
from typing import Any

from .._tensor import Tensor
from ..core.base import display
from ..core.tape import is_grad_enabled
from ..library._calls import CODES, DTYPES

HOST: dict[str, Callable[..., Any]] = {}  # of values that are no tensors
TENSORS: dict[str, Callable[..., Any]] = {}  # what a tensor is queried for that is no tensor
PRIMITIVES: dict[str, Callable[..., Any]] = {}  # `ops.prim.name`
_HALF = 1 << 63
_MODULUS = 1 << 64


class Error(RuntimeError):
    """What a program raises while it runs: PyTorch's `torch.jit.Error`.

    Raises nothing.

    >>> import flambeau as torch
    >>> issubclass(torch.jit.Error, RuntimeError)
    True
    """


def wrapped(n: Any) -> Any:
    """An integer as 64 bits hold it; any other value as it is."""
    if type(n) is int and not -_HALF <= n < _HALF:
        return (n + _HALF) % _MODULUS - _HALF
    return n


def _exact(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: wrapped(function(*args))


_LEFT_OUT = ("call", "mod", "pow", "lshift")  # not ATen's, or bounded below
for _name in dir(operator):  # add, sub, lt …, by ATen's names
    if not _name.startswith(("_", "i")) and _name not in _LEFT_OUT:
        if not isinstance(getattr(operator, _name), type):
            HOST[_name] = _exact(getattr(operator, _name))
for _name in [n for n in dir(math) if not n.startswith("_")]:
    if callable(getattr(math, _name)):
        HOST[_name] = getattr(math, _name)
_WIDE = (
    "format",
    "format_map",
    "encode",
    "translate",
    "maketrans",
)  # they reach attributes, or are of no TorchScript
TEXTS = {n: getattr(str, n) for n in dir(str) if not n.startswith("_") and n not in _WIDE}


def host(
    *names: str, of: dict[str, Callable[..., Any]] = HOST
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function under ATen's names."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        of.update(dict.fromkeys(names, function))
        return function

    return enter


# --- numbers ------------------------------
host("div")(lambda a, b: a / b)
host("remainder")(lambda a, b: a % b)
host("pow")(lambda a, b: a**b if isinstance(a, complex) or isinstance(b, complex) else math.pow(a, b))
host("__and__")(lambda a, b: a and b if type(a) is bool else a & b)
host("__or__")(lambda a, b: a or b if type(a) is bool else a | b)
host("__xor__")(lambda a, b: a != b if type(a) is bool else a ^ b)
host("__not__", "__not")(lambda a: not a)
host("__is__")(lambda a, b: a is b)
host("__isnot__")(lambda a, b: a is not b)
host("__lshift__")(lambda a, b: wrapped(a << b) if 0 <= b < 64 else 0)
host("__rshift__")(lambda a, b: a >> b)
host("__contains__")(lambda items, x: x in items)
host("__getitem__")(lambda items, k: items[k])
host("floordiv")(lambda a, b: wrapped(a // b))
host("neg")(lambda a: wrapped(-a))
host("abs", of=PRIMITIVES)(abs)
host("abs")(abs)
host("round")(lambda a: float(round(a)) if type(a) is float else a)
host("__range_length")(lambda start, stop, step: len(range(start, stop, step)))
host("__derive_index")(lambda k, start, step: start + k * step)
host("wait")(lambda future: future.wait())
host("done")(lambda future: future.done())
host("bitwise_not")(lambda a: ~a)
host("sum")(lambda items: wrapped(sum(items)))
host("all")(lambda items: all(items))
host("any")(lambda items: any(items))
host("max", of=PRIMITIVES)(lambda *a: max(*a))
host("min", of=PRIMITIVES)(lambda *a: min(*a))
host("divmod")(divmod)
host("Int")(lambda a: number(int, a))
host("Float")(lambda a: number(float, a))
host("Complex")(lambda *a: complex(*a))
host("Bool")(bool)


def number(kind: type, value: Any) -> Any:
    """`int(x)`, `float(x)`: of a tensor its one element."""
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise RuntimeError("only one element tensors can be converted to Python scalars")
        value = value.item()
    elif type(value) is str and len(value) > 4300:
        raise RuntimeError(f"a text of {len(value)} characters is no number")
    return wrapped(kind(value))


def _refused(name: str) -> Any:
    raise NotImplementedError(f"aten::{name} is not run: it changes more than the program's own values")


# --- texts ------------------------------
@host("format")
def formatted(text: str, *values: Any) -> str:
    """A text with each `{}` replaced by a value; nothing else stands for anything, as in PyTorch."""
    parts = text.split("{}")
    if len(parts) - 1 > len(values):
        raise RuntimeError(f"Too few arguments for format string: {text}")
    result = [parts[0]]
    for part, value in zip(parts[1:], values):
        result += [shown(value), part]
    return "".join(result)


@host("percentFormat")
def percent_formatted(text: str, *values: Any) -> str:
    """`text % values`, for the conversions of TorchScript."""
    remaining = iter(values)

    def one(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        value = next(remaining, None)
        return shown(value) if match[1] == "s" else f"%{match[1]}" % value

    return re.sub(r"%([sdifgeExXc%])", one, text)


def shown(value: Any) -> str:
    """A value as TorchScript prints it."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        is_integral = abs(value) < 1e10 and value.is_integer()
        return f"{value:.0f}." if is_integral else f"{value:.17g}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_inner(v) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_inner(k)}: {_inner(v)}" for k, v in value.items()) + "}"
    return str(value)


def _inner(value: Any) -> str:
    return repr(value) if isinstance(value, str) else shown(value)


host("str")(shown)
host("ord")(ord)
host("chr")(chr)
host("hex")(hex)
host("oct")(oct)
host("bin")(bin)
host("hash")(lambda a: hash(a))
host("warn")(lambda text, stacklevel=2: warnings.warn(text, stacklevel=2))
host("len")(len)
host("is_autocast_enabled", "is_autocast_cpu_enabled", "is_scripting")(lambda *device: False)
host("is_grad_enabled")(is_grad_enabled)
host("manual_seed")(lambda *seed: _refused("manual_seed"))


@host("slice")
def sliced(items: Any, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """`items[start:end:step]`."""
    return items[start:end:step]


# --- lists and dictionaries ------------------------------
host("append")(lambda items, x: (items.append(x), items)[1])
host("extend")(lambda items, more: items.extend(more))
host("insert")(lambda items, k, x: items.insert(k, x))
host("reverse")(lambda items: items.reverse())
host("clear")(lambda items: items.clear())
host("copy")(lambda items: items.copy())
host("remove")(lambda items, x: items.remove(x))
host("list")(list)
host("sort")(lambda items, reverse=False: items.sort(reverse=reverse))
host("sorted")(lambda items, reverse=False: sorted(items, reverse=reverse))
host("index")(lambda items, x, *at: items.index(x, *at))
host("count")(lambda items, x, *at: items.count(x, *at))
host("_set_item")(lambda items, k, x: operator.setitem(items, k, x))
host("Delete")(lambda items, k: operator.delitem(items, k))
host("keys")(lambda d: list(d.keys()))
host("values")(lambda d: list(d.values()))
host("items")(lambda d: list(d.items()))
host("update")(lambda d, more: d.update(more))
host("setdefault")(lambda d, k, v: d.setdefault(k, v))
host("popitem")(lambda d: d.popitem())
host("pop")(lambda items, *a: items.pop(*a))
host("get")(lambda d, k, default=None: d.get(k, default))
host("dict")(lambda *pairs: dict(*pairs))
host("select")(lambda items, k: items[k])
host("mul")(lambda a, b: wrapped(a * b))


@host("add_", "mul_")
def _in_place(items: list[Any], other: Any) -> list[Any]:
    if isinstance(other, int):
        items *= other
    else:
        items += other
    return items


# --- tensors ------------------------------
def _tensor_function(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return host(name, of=TENSORS)


_tensor_function("size")(lambda x, dim=None: list(x.shape) if dim is None else x.size(dim))
_tensor_function("sym_size")(lambda x, dim=None: list(x.shape) if dim is None else x.size(dim))
_tensor_function("stride")(lambda x, dim=None: list(x.stride()) if dim is None else x.stride(dim))
_tensor_function("dim")(lambda x: x.dim())
_tensor_function("len")(lambda x: x.shape[0])
_tensor_function("numel")(lambda x: x.numel())
_tensor_function("item")(lambda x: x.item())
_tensor_function("storage_offset")(lambda x: x.storage_offset())
_tensor_function("is_contiguous")(lambda x, **options: x.is_contiguous(**options))
_tensor_function("is_floating_point")(lambda x: x.is_floating_point())
_tensor_function("is_complex")(lambda x: x.is_complex())
_tensor_function("is_signed")(lambda x: x.is_signed())
_tensor_function("is_nonzero")(lambda x: bool(x))
_tensor_function("requires_grad_")(lambda x, wanted=True: x.requires_grad_(wanted))
_tensor_function("_size_if_not_equal")(lambda a, b: None if a == b else list(a))
_tensor_function("get_device")(lambda x: x.get_device())
_tensor_function("Int")(lambda x: number(int, x))
_tensor_function("Float")(lambda x: number(float, x))
_tensor_function("Bool")(bool)
_tensor_function("__not__")(lambda a: not a)
_tensor_function("format")(formatted)
_tensor_function("str")(shown)
_tensor_function("__getitem__")(lambda x, k: x[k])
_tensor_function("tensor")(
    lambda x, *, dtype=None, device=None, requires_grad=False: _tensor(x.item(), dtype=dtype, device=device)
)


# --- ops.prim ------------------------------
def primitive(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function of `ops.prim`."""
    return host(name, of=PRIMITIVES)


@primitive("RaiseException")
def raise_exception(text: str, kind: str | None = None) -> None:
    """What `raise` of a program does."""
    name = (kind or "builtins.RuntimeError").removeprefix("builtins.")
    raise Error(f"The following operation failed in the TorchScript interpreter.\n{name}: {text}")


primitive("device")(lambda x: x.device)
primitive("dtype")(lambda x: CODES[x.dtype])
primitive("layout")(lambda x: CODES[x.layout])
primitive("data")(lambda x: x.data)
primitive("grad")(lambda x: x.grad)
primitive("requires_grad")(lambda x: x.requires_grad)
primitive("is_cuda")(lambda x: x.is_cuda)
primitive("is_sparse")(lambda x: x.is_sparse)
primitive("is_quantized")(lambda x: False)
primitive("is_meta")(lambda x: x.is_meta)
primitive("is_cpu")(lambda x: x.device.type == "cpu")
primitive("itemsize")(lambda x: x.itemsize)
primitive("is_nested")(lambda x: x.is_nested)
primitive("type")(lambda d: d.type)
primitive("index")(lambda d: d.index)
primitive("unchecked_unwrap_optional")(lambda x: x)
primitive("name")(lambda e: e.name)
primitive("value")(lambda e: e.value)
primitive("id")(id)
primitive("rangelist")(lambda n: list(range(n)))
primitive("Print")(lambda *a: print(*map(shown, a)))
primitive("tolist")(lambda x, *kind: x.tolist())
primitive("AutogradAllZero")(lambda *a: False)


@primitive("NumToTensor")
def _as_tensor(value: Any) -> Tensor:
    return _tensor(value)


def _tensor(value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    from ..operations.declare.registry import REGISTRY

    kind = DTYPES[dtype] if type(dtype) is int else dtype
    made = REGISTRY["tensor"].function(value, dtype=kind, device=device)
    return made.requires_grad_() if requires_grad else made


host("tensor", "as_tensor")(_tensor)


@primitive("TupleIndex")
def _tuple_index(items: Any, k: int) -> Any:
    return items[k]


def device_of(*args: Any) -> Any:
    """`torch.device("cpu")` of the code."""
    from ..core.base.dtypes import device

    if not args or type(args[0]) is not str:
        raise RuntimeError(f"{display.NAME}.jit: a device is made of {args}")
    return device(*args)
