"""How tensors are written, where PyTorch keeps it: for libraries that write their own classes of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._compat.printing import options as PRINT_OPTS
from ._compat.printing import set_printoptions, tensor_repr, values_text, with_suffixes

__all__ = ["get_printoptions", "printoptions", "set_printoptions"]

_NAMES = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")


def get_printoptions() -> dict[str, Any]:
    """What `set_printoptions` has set.

    >>> from flambeau._tensor_str import get_printoptions
    >>> get_printoptions()["precision"]
    4
    """
    return {name: getattr(PRINT_OPTS, name) for name in _NAMES}


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """`set_printoptions` inside a `with` statement.

    >>> import flambeau
    >>> from flambeau._tensor_str import printoptions
    >>> with printoptions(precision=1):
    ...     print(flambeau.tensor(0.25))
    tensor(0.2)
    """
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        vars(PRINT_OPTS).update(before)


def _tensor_str(self: Any, indent: int) -> str:
    """A tensor's values, in lines that begin after `indent` places."""
    return values_text(self.detach().cpu(), indent) if self.numel() else "[]"


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """The text, what is said behind it, and the bracket that ends it."""
    return with_suffixes(tensor_str, suffixes, indent, force_newline) + ")"


def _str_intern(inp: Any, *, tensor_contents: str | None = None) -> str:
    """A tensor's text, with other text in place of its values where that is given."""
    return tensor_repr(inp, tensor_contents)


_str = _str_intern
