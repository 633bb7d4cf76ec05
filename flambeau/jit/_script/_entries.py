"""Functions that are compiled: their signatures, their code, and what computes them."""

from __future__ import annotations

from typing import Any

from ._hosts import Parameter
from ._types import NONE, Type


class Entry:
    """A function or a method that is compiled: its signature, its code, and what computes it."""

    def __init__(
        self, shown: str, name: str, py: str, parameters: list[Parameter], returns: Type | None
    ) -> None:
        self.shown, self.name, self.py = shown, name, py
        self.parameters = parameters
        self.declared = returns  # None where nothing is said of it
        self.returns: Type = returns or NONE
        self.method_name = shown
        self.text_names: dict[str, str] = {}
        self.text = ""
        self.owner = ""  # the class of a method
        self.is_done = False
        self.python: Any = None  # the function of Python that it is of

    def declaration(self, shown: str) -> str:
        """The signature, as errors show it."""
        parameters = ", ".join(
            f"{p.type} {p.name}" + (f"={p.default!r}" if p.defaulted else "") for p in self.parameters
        )
        return f"{shown}({parameters}) -> {self.returns}"
