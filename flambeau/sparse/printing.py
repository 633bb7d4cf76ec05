"""The text of sparse tensors."""

from __future__ import annotations

from typing import Any

from ..core.base.dtypes import by_name, get_default_dtype
from .patterns import COLUMN_LAYOUTS, Coordinates

WIDTH = 80


def text(x: Any) -> str:
    """A sparse tensor's parts, size and kind, as PyTorch prints them.

    >>> import flambeau
    >>> from flambeau.sparse.printing import text
    >>> print(text(flambeau.eye(2).to_sparse_csr()))
    tensor(crow_indices=tensor([0, 1, 2]),
           col_indices=tensor([0, 1]),
           values=tensor([1., 1.]), size=(2, 2), nnz=2,
           layout=flambeau.sparse_csr)
    """
    pattern = x._pattern
    in_coordinates = type(pattern) is Coordinates
    if in_coordinates:
        names: tuple[str, ...] = ("indices",)
    elif pattern.layout in COLUMN_LAYOUTS:
        names = "ccol_indices", "row_indices"
    else:
        names = "crow_indices", "col_indices"
    lines = [_part(name, part) for name, part in zip(names, pattern.parts())]
    lines.append(_part("values", x._held.detach()))
    description = [f"size={tuple(x.shape)}", f"nnz={x._nnz()}"]
    if x.device.type != "cpu":
        description.append(f"device='{x.device}'")
    expected = (get_default_dtype(), by_name["int64"], by_name["bool"])
    if x.dtype not in expected or (not x._nnz() and x.dtype != get_default_dtype()):
        description.append(f"dtype={x.dtype}")
    description.append(f"layout={pattern.layout}")
    if x.grad_fn is not None:
        description.append(f"grad_fn=<{x.grad_fn.name()}>")
    elif x.requires_grad:
        description.append("requires_grad=True")
    if in_coordinates:
        return f"tensor({(',' + chr(10) + ' ' * 7).join([*lines, ', '.join(description)])})"
    shown = f"tensor({(',' + chr(10) + ' ' * 7).join(lines)}"
    column = len(shown) - shown.rfind("\n") + 1
    for word in description:
        if column + len(word) + 2 > WIDTH:
            shown, column = f"{shown},\n{' ' * 7}{word}", 7 + len(word)
        else:
            shown, column = f"{shown}, {word}", column + len(word) + 2
    return shown + ")"


def _part(name: str, part: Any) -> str:
    """A part, whose dtype is printed with the whole tensor's."""
    if not part.numel():
        return f"{name}=tensor([], size={tuple(part.shape)})"
    words = repr(part).replace(f", dtype={part.dtype}", "").replace(f",\n       dtype={part.dtype}", "")
    first, *rest = words.split("\n")
    return "\n".join([f"{name}={first}", *(" " * (len(name) + 8) + line if line else "" for line in rest)])
