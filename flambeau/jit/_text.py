"""Values as TorchScript's serialised code writes them."""

from __future__ import annotations

import keyword
import math
from typing import Any

from .._symbols.numbers import SymNumber
from ..core.base.dtypes import Size
from ..core.base.dtypes import device as Device
from ..core.base.dtypes import dtype as DType
from ..core.base.formats import layout, memory_format
from ..library._calls import CODES
from ..library._own import FORMATS, OWN
from ..library._schema import SchemaType


class Unwritable(Exception):
    """A value that code has no words for."""


def quoted(text: str) -> str:
    """A text between quotes; what is not ASCII as the octal numbers of its bytes, as PyTorch has it."""
    result = []
    for byte in text.encode("utf-8", "surrogatepass"):
        c = chr(byte)
        if c in '"\\':
            result.append("\\" + c)
        else:
            result.append(c if 32 <= byte < 127 else f"\\{byte:03o}")
    return '"' + "".join(result) + '"'


def number_text(x: Any) -> str:
    """A number of Python."""
    if isinstance(x, float):
        if math.isnan(x):
            return "nan"
        if math.isinf(x):
            return "inf" if x > 0 else "-inf"
        return repr(x)
    if isinstance(x, complex):
        return f"complex({number_text(x.real)}, {number_text(x.imag)})"
    return repr(x)


def constant_text(x: Any) -> str | None:
    """A value that is written the same everywhere; None for any other."""
    if x is None or isinstance(x, bool):
        return repr(x)
    if isinstance(x, SymNumber):
        x.tracer.uses.add(x.name)
        return x.name
    if isinstance(x, (int, float, complex)):
        return number_text(x)
    if isinstance(x, str):
        return quoted(x)
    if isinstance(x, Device):
        return f"torch.device({quoted(str(x))})"
    return None


def aten_text(x: Any, kind: SchemaType, tensor: Any) -> str:
    """A value as an argument of an operation of ATen; `tensor` names tensors."""
    if isinstance(x, (DType, layout, memory_format)):
        return str(CODES[x])
    if isinstance(x, (list, tuple)):
        inner = kind._replace(form=kind.form.removesuffix("?").removesuffix("[]"))
        text = "[" + ", ".join(aten_text(v, inner, tensor) for v in x) + "]"
        listed = kind._replace(form=kind.form.removesuffix("?"))
        return f"annotate({listed}, {text})" if not x or any(v is None for v in x) else text
    result = constant_text(x)
    return tensor(x) if result is None else result


def own_text(x: Any, tensor: Any) -> str:
    """A value as an argument of an operation of ours; Unwritable for one that archives cannot hold."""
    result = constant_text(x)
    if result is not None:
        return result
    if isinstance(x, DType):
        return f"ops.{OWN}.value_dtype({quoted(x.name)})"
    if isinstance(x, (layout, memory_format)):
        name = next((n for n, v in FORMATS.items() if v is x), None)
        if name is None:
            raise Unwritable(f"a format {x}")
        return f"ops.{OWN}.value_format({quoted(name)})"
    if isinstance(x, slice):
        parts = ", ".join(own_text(v, tensor) for v in (x.start, x.stop, x.step))
        return f"ops.{OWN}.value_slice({parts})"
    if x is ...:
        return f"ops.{OWN}.value_ellipsis()"
    if isinstance(x, list):
        return "[" + ", ".join(own_text(v, tensor) for v in x) + "]"
    if isinstance(x, Size) or type(x) is tuple or isinstance(x, tuple):
        return "(" + "".join(own_text(v, tensor) + ", " for v in x) + ")"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{own_text(k, tensor)}: {own_text(v, tensor)}" for k, v in x.items()) + "}"
    return tensor(x)


RESERVED = frozenset(
    "torch ops self CONSTANTS inf nan infj nanj annotate unchecked_cast uninitialized getattr isinstance range print int float bool str "
    "complex Tensor None True False fork len list dict tuple format ord".split()
)


def is_identifier(name: str) -> bool:
    """Whether a name may stand as it is in code."""
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and name not in RESERVED
