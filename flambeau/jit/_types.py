"""Types as serialised code writes them: `Optional[List[int]]`, `__torch__.Foo`; whether a value is of one."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import device as Device
from ._host import number
from ._parser import dotted

Check = Callable[[Any], bool]
_CHECKS: dict[str, Check] = {
    "Tensor": lambda x: isinstance(x, Tensor),
    "int": lambda x: type(x) is int,
    "float": lambda x: type(x) is float,
    "bool": lambda x: type(x) is bool,
    "str": lambda x: type(x) is str,
    "complex": lambda x: type(x) is complex,
    "number": lambda x: type(x) in (int, float, complex),
    "Scalar": lambda x: type(x) in (int, float, complex),
    "NoneType": lambda x: x is None,
    "None": lambda x: x is None,
    "Device": lambda x: isinstance(x, Device),
    "Any": lambda x: True,
    "list": lambda x: isinstance(x, list),
    "tuple": lambda x: isinstance(x, tuple),
    "AnyListType": lambda x: isinstance(x, list),
    "AnyTupleType": lambda x: isinstance(x, tuple),
}
_NUMBERS = {"int": int, "float": float, "number": None, "Scalar": None, "complex": complex}


def check_of(node: ast.expr, class_check: Callable[[list[str]], Check | None]) -> Check | None:
    """Whether values are of a type; None for a type that is not known.  `class_check` says so of classes in the archive."""
    if isinstance(node, ast.Constant) and node.value is None:
        return _CHECKS["None"]
    if isinstance(node, ast.Tuple):
        return _any([check_of(e, class_check) for e in node.elts])
    names = dotted(node)
    if names is not None:
        return _CHECKS.get(names[0]) if len(names) == 1 else class_check(names)
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return _compound(node.value.id, [check_of(e, class_check) for e in inner])


def _any(checks: list[Check | None]) -> Check | None:
    present = [c for c in checks if c is not None]
    return (lambda x: any(c(x) for c in present)) if len(present) == len(checks) else None


def _compound(name: str, checks: list[Check | None]) -> Check | None:
    if None in checks:
        return None
    present = [c for c in checks if c is not None]
    if name == "List":
        return lambda x: isinstance(x, list) and all(present[0](v) for v in x)
    if name == "Optional":
        return lambda x: x is None or present[0](x)
    if name == "Union":
        return _any(checks)
    if name == "Final" or name == "Future":
        return present[0]
    if name == "Tuple":
        return lambda x: (
            isinstance(x, tuple) and len(x) == len(present) and all(c(v) for c, v in zip(present, x))
        )
    if name == "Dict" and len(present) == 2:
        return lambda x: isinstance(x, dict) and all(present[0](k) and present[1](v) for k, v in x.items())
    return None


def annotated(node: ast.expr, value: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """`annotate(type, value)`: a tensor of one element is a number where the type is one; anything else stays as it is."""
    if not isinstance(node, ast.Name) or node.id not in _NUMBERS:
        return value
    kind = _NUMBERS[node.id]

    def convert(frame: list[Any]) -> Any:
        result = value(frame)
        if isinstance(result, Tensor):
            return result.item() if kind is None else number(kind, result)
        return result

    return convert
