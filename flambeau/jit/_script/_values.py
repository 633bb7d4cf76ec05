"""What expressions of a program are while it is compiled: values with a type, and what exists then alone, such as modules and functions."""

from __future__ import annotations

from typing import Any, NamedTuple

from ._types import NONE, Type

NOTHING = object()


class Value:
    """Anything that an expression is."""

    what = "a value"

    def shown(self) -> str:
        """What it is, for errors."""
        return self.what


class Simple(Value):
    """A value with a type: its text in code and in Python.

    `constant` is the value where it is known; `stable` says that evaluating it later gives the same; `items` are those of a literal;
    `shape` is Python for it as a tuple, where it is the sizes of a tensor; `small` says that no sum of two overflows.
    """

    __slots__ = ("constant", "inferred", "items", "py", "shape", "small", "stable", "text", "type")

    def __init__(
        self,
        text: str,
        py: str,
        type: Type,
        constant: Any = NOTHING,
        stable: bool = False,
        items: list[Simple] | None = None,
        shape: str = "",
        small: bool = False,
    ) -> None:
        self.text, self.py, self.type, self.constant = text, py, type, constant
        self.stable, self.items, self.shape, self.small = (
            stable or constant is not NOTHING,
            items,
            shape,
            small,
        )

    @property
    def is_constant(self) -> bool:
        """Whether the value is known."""
        return self.constant is not NOTHING

    def typed(self, t: Type) -> Simple:
        """The same value, as of another type."""
        return Simple(self.text, self.py, t, self.constant, self.stable, self.items, self.shape, self.small)

    def shown(self) -> str:
        return f"a value of type '{self.type}'"


class Host(Value):
    """An object of Python: a module, a function, a class, an operation."""

    def __init__(self, value: Any, name: str = "") -> None:
        self.value, self.name = value, name

    def shown(self) -> str:
        return f"python value of type '{type(self.value).__name__}'"


class ModuleRef(Value):
    """A module: the class that it is compiled to, the module of Python, and where it is."""

    def __init__(self, kind: Any, text: str, py: str) -> None:
        self.kind, self.text, self.py = kind, text, py

    def shown(self) -> str:
        return f"module '{self.kind.name}'"


class Method(Value):
    """A method of a value, bound to it."""

    def __init__(self, owner: Value, name: str) -> None:
        self.owner, self.name = owner, name

    def shown(self) -> str:
        return f"method '{self.name}'"


class Several(Value):
    """Values that are there while the program is compiled, as the modules of a list: loops over them are unrolled."""

    def __init__(self, items: list[Value], keys: list[str] | None = None, what: str = "tuple") -> None:
        self.items, self.keys, self.what = items, keys, what


class Iteration(Value):
    """`range`, `zip`, `enumerate` and what is like them: what a loop goes over."""

    def __init__(self, kind: str, parts: list[Value], node: Any = None) -> None:
        self.kind, self.parts, self.node = kind, parts, node

    def shown(self) -> str:
        return self.kind


class Super(Value):
    """`super()` in a method of a module."""

    def __init__(self, owner: ModuleRef, after: type) -> None:
        self.owner, self.after = owner, after


class Condition(NamedTuple):
    """A condition: its value, what it is where that is known, and what is known of variables where it holds and where it does not."""

    value: Simple
    static: bool | None = None
    then: dict[str, Type] = {}
    other: dict[str, Type] = {}


NONE_VALUE = Simple("None", "None", NONE, None)
