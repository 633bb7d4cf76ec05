"""Names: of functions as they stand in code, and of values, each of which is a valid identifier and is given once."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Callable
from typing import Any

from ..core.base import display
from ..core.call.operation import Form, Op, behind

OWN = __name__.partition(".")[0]
_BAD = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.*)_(\d+)$")


def reached(dotted: str) -> Any:
    """What stands under a dotted name whose module is loaded; None where nothing does."""
    parts = dotted.split(".")
    for count in range(len(parts) - 1, 0, -1):
        value: Any = sys.modules.get(".".join(parts[:count]))
        if value is not None:
            for part in parts[count:]:
                value = getattr(value, part, None)
            return value
    return None


def is_reached(dotted: str, value: Any) -> bool:
    """Whether a dotted name leads to a function or class, or to a form of an operation."""
    result = reached(dotted)
    return result is value or (isinstance(result, Op) and behind(result) is value)


def is_ours(func: Any) -> bool:
    """Whether a function or class is defined by this library, under its own name or the one that is shown."""
    if isinstance(func, Op):
        return True
    home = (getattr(func, "__module__", None) or "").partition(".")[0]
    return home in (OWN, display.NAME)


def is_method(func: Any) -> bool:
    """Whether an operation was called as a method of Tensor, or is public as one alone."""
    if isinstance(func, Form):
        return func.place.startswith("Tensor.")
    places = _places(func)
    return bool(places) and all(p.startswith("Tensor.") for p in places)


def method_name(func: Any) -> str:
    """The name of the method of Tensor that an operation is."""
    if isinstance(func, Form):
        return func.place.rpartition(".")[2]
    entry = getattr(func, "entry", None)
    names = [p.rpartition(".")[2] for p in _places(func) if p.startswith("Tensor.")]
    name = names[0] if names else func.__name__
    return f"{name}_" if entry is not None and func is entry.in_place else name


def _places(op: Any) -> tuple[str, ...]:
    entry = getattr(op, "entry", None)
    return entry.places if entry is not None else ()


def _operation_name(op: Op) -> str:
    """The shortest dotted name under which an operation is public."""
    if isinstance(op, Form):
        return op.place
    entry = getattr(op, "entry", None)
    tail = "_" if entry is not None and op is entry.in_place else ""
    places = [p + tail for p in _places(op)]
    places.sort(key=lambda p: (p.startswith("Tensor."), p.count(".")))
    for place in places:
        if is_reached(f"{OWN}.{place}", op):
            return place
    if op.namespace == "aten":
        return f"ops.aten.{op.overloadpacket.__name__}.{op.overload}"
    return places[0] if places else op.__name__


def qualified_name(func: Callable[..., Any]) -> str:
    """The dotted name of a function or class, as a program writes it: "operator.add", "flambeau.nn.functional.relu".

    >>> import operator
    >>> import flambeau
    >>> from flambeau.fx._names import qualified_name
    >>> qualified_name(operator.add), qualified_name(flambeau.nn.functional.relu)
    ('operator.add', 'flambeau.nn.functional.relu')
    """
    if isinstance(path := getattr(func, "code_path", None), str):
        return f"{display.NAME}.{path}"
    if isinstance(func, Op):
        return f"{display.NAME}.{_operation_name(func)}"
    name = getattr(func, "__name__", type(func).__name__)
    if getattr(builtins, name, None) is func:
        return name
    module = getattr(func, "__module__", None) or type(func).__module__
    if module == "_operator":
        return f"operator.{name}"
    if is_ours(func):
        name = getattr(func, "__qualname__", name)
        if getattr(sys.modules[OWN], name, None) is func:
            return f"{display.NAME}.{name}"
        return f"{display.NAME}{module[module.find('.') :] if '.' in module else ''}.{name}"
    return f"{module}.{name}"


def typename(kind: Any) -> str:
    """The name of a class or annotation as code writes it.

    >>> from flambeau.fx._names import typename
    >>> typename(int), typename(...)
    ('int', '...')
    """
    if isinstance(kind, type) and not hasattr(kind, "__origin__"):
        return kind.__qualname__ if kind.__module__ == "builtins" else qualified_name(kind)
    if kind is ...:
        return "..."
    return repr(kind)


class Namespace:
    """Identifiers that are in use; `create_name` gives one that is not, nor a keyword, nor the name of another builtin.

    >>> from flambeau.fx._names import Namespace
    >>> names = Namespace()
    >>> [names.create_name(n, None) for n in ("relu", "relu", "class", "a.b", "3x", "max")]
    ['relu', 'relu_1', 'class_1', 'a_b', '_3x', 'max_1']
    """

    # what generated code means by these names (`_code.BUILTINS`)
    reserved: dict[str, Any] = {}

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._last: dict[str, int] = {}
        self._of: dict[int, str] = {}

    def create_name(self, candidate: str, obj: Any) -> str:
        """A free name like `candidate`; the same object gets the same name again."""
        if obj is not None and (entry := self._of.get(id(obj))) is not None:
            return entry
        name = candidate
        if not name.isidentifier() or not name.isascii():
            name = _BAD.sub("_", candidate) or "_unnamed"
            if name[0].isdigit():
                name = f"_{name}"
        if name in self._used or self._means_another(name, obj):
            base, number = name, None
            if name[-1].isdigit() and (match := _NUMBERED.match(name)) is not None:
                base, number = match[1], int(match[2])
            count = max(self._last.get(base, 0), number or 0)
            while name in self._used or self._means_another(name, obj):
                count += 1
                name = f"{base}_{count}"
            self._last[base] = count
        self._used.add(name)
        if obj is not None:
            self._of[id(obj)] = name
        return name

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Let an object have this name, which is in use from here on."""
        self._used.add(name)
        self._of[id(obj)] = name

    def _means_another(self, name: str, obj: Any) -> bool:
        if keyword.iskeyword(name):
            return True
        if name in self.reserved:
            return self.reserved[name] is not obj
        return name in vars(builtins) and vars(builtins)[name] is not obj
