"""What verbose code says of a node beside its statement: where it came from, its dtype and shape."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..core.base import display
from .node import Node

_FRAME = re.compile(r'^\s*File "(.+)", line (\d+), in (.+)\n\s*(.+)$', re.MULTILINE)
_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c", "bool": "b"}


def comments_of() -> Callable[[Node], list[str]]:
    """A function of nodes in their order: the comment that begins the steps of another line of the program."""
    last = ""

    def comments(node: Node) -> list[str]:
        nonlocal last
        if node.op in ("placeholder", "output"):
            return []
        result = _FRAME.findall(node.stack_trace or "")
        if result:
            path, line, function, code = result[-1]
            description = f"# File: {path}:{line} in {function}, code: {code}"
        else:
            description = "# No stacktrace found for following nodes"
        if description == last:
            return []
        last = description
        return [description]

    return comments


def describer(
    include_stride: bool = False, include_device: bool = False, **others: bool
) -> Callable[[Node], str]:
    """A function of nodes: dtype and shape of a tensor as "f32[2, 3]", empty where they are not known."""

    def described(node: Node) -> str:
        value: Any = node.meta.get("val", node.meta.get("tensor_meta"))
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if shape is None or dtype is None:
            return f"Sym({value})" if hasattr(value, "symbols") else ""
        word = re.fullmatch(r"([a-z]+)(.*)", str(dtype).removeprefix(f"{display.NAME}."))
        short = f"{_SHORT.get(word[1], word[1])}{word[2] or '8'}" if word else str(dtype)
        text = f"{short}[{', '.join(map(str, shape))}]"
        if include_stride:
            stride = value.stride
            text += f"[{', '.join(map(str, stride() if callable(stride) else stride))}]"
        if include_device and (device := getattr(value, "device", None)) is not None:
            text += f"{device}"
        return text

    return described
