"""How tensors look as text: `tensor_repr`, behind `repr(tensor)`, and `set_printoptions`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

from .._tensor import Tensor
from ..core.base.callbacks import set_callback
from ..core.base.dtypes import by_name, get_default_dtype
from ..core.make.create import empty
from ..core.tape import open_levels, unpack_dual
from ..nn.parameter import Parameter

_PROFILES: dict[str, dict[str, float]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


class _Options:
    precision: int = 4  # digits after the point
    threshold: float = 1000  # tensors of more elements are abbreviated
    edgeitems: int = 3  # to so many at each end of a dimension
    linewidth: int = 80
    sci_mode: bool | None = None  # scientific notation: always, never, or (None) as the values demand


options = _Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors are printed from now on; what is None stays, but for `sci_mode`, which goes back to
    automatic.

    `precision` is the number of digits after the point, `threshold` the number of elements from which on a
    tensor is abbreviated, to `edgeitems` elements at each end of a dimension, `linewidth` where lines are
    broken, `sci_mode` whether numbers are in scientific notation.  `profile` is `"default"`, `"short"` or
    `"full"` and sets all but the last, before the other arguments are looked at.

    Raises ValueError for an unknown profile.

    >>> import flambeau
    >>> flambeau.set_printoptions(precision=2)
    >>> flambeau.tensor([1.12345])
    tensor([1.12])
    >>> flambeau.set_printoptions(profile="default")
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(
                f"set_printoptions: profile must be 'default', 'short' or 'full', got {profile!r}"
            )
        vars(options).update(_PROFILES[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    vars(options).update({name: value for name, value in given.items() if value is not None})
    options.sci_mode = sci_mode


def tensor_repr(t: Any, contents: str | None = None) -> str:
    """The text of a tensor: its values (or other `contents`), and what cannot be seen from them, such as an unusual dtype.

    A subclass other than `Parameter` shows its own name.
    """
    plain = type(t) is Tensor or type(t) is Parameter
    prefix = "tensor(" if plain else f"{type(t).__name__}("
    suffixes = _suffixes(t)
    if contents is not None:
        body = contents
    elif t.device.type == "meta":
        body = "..."
    elif t.numel() == 0:
        body = "[]"
    else:
        body = values_text(t.detach(), len(prefix))
    text = with_suffixes(prefix + body, suffixes, len(prefix)) + ")"
    return f"Parameter({text})" if isinstance(t, Parameter) and not plain else text


def _suffixes(t: Any) -> list[str]:
    default = get_default_dtype()
    default_complex = by_name["complex128"] if default == by_name["float64"] else by_name["complex64"]
    meta = t.device.type == "meta"
    suffixes = []
    if t.device.type != "cpu":
        suffixes.append(f"device='{t.device}'")
    if meta or (t.numel() == 0 and t.dim() != 1) or (t.numel() > 0 and not options.edgeitems):
        suffixes.append(f"size={tuple(t.shape)}")
    # Values tell default floating-point numbers, integers and booleans apart; without values only the default
    # goes unsaid.
    wrapped = (
        (default,)
        if meta or t.numel() == 0
        else (default, default_complex, by_name["int64"], by_name["bool"])
    )
    if t.dtype not in wrapped:
        suffixes.append(f"dtype={t.dtype}")
    try:
        history = t.grad_fn
        name = None if history is None else history.name()
    except RuntimeError:  # a view whose history cannot follow what was written
        name = "Invalid"
    if name is not None:
        suffixes.append(f"grad_fn=<{name}>")
    elif t.requires_grad:
        suffixes.append("requires_grad=True")
    levels = open_levels()
    tangent = unpack_dual(t, levels[-1])[1] if levels else None
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    return suffixes


def with_suffixes(text: str, suffixes: list[str], indent: int, newline: bool = False) -> str:
    """The text and what is to be said behind it, in lines of the width that is set; on a new line in any case with `newline`."""
    width = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if newline or width + len(suffix) + 2 > options.linewidth:
            newline = False
            text += ",\n" + " " * indent + suffix
            width = indent + len(suffix)
        else:
            text += ", " + suffix
            width += len(suffix) + 2
    return text


class _Number:
    """Formats numbers of one kind to the width of the widest of them."""

    def __init__(self, values: list[Any], floating: bool) -> None:
        self.floating = floating
        self.scientific: bool | None = False
        self.whole = True
        self.width = 1
        if not floating:
            self.width = max((len(str(v)) for v in values), default=1)
            return
        finite = [v for v in values if v != 0 and math.isfinite(v)]
        if not finite:
            return
        smallest, largest = min(map(abs, finite)), max(map(abs, finite))
        self.whole = all(v == math.floor(v) for v in finite)
        self.scientific = options.sci_mode
        if self.scientific is None:
            self.scientific = largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4
        self.width = max(len(self._text(v)) for v in finite)

    def _text(self, value: Any) -> str:
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{options.precision}e}"
        if self.whole:
            return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"
        return f"{value:.{options.precision}f}"

    def __call__(self, value: Any) -> str:
        return self._text(value).rjust(self.width)


class _Complex:
    """Formats complex numbers, each part to a width of its own."""

    def __init__(self, values: list[complex]) -> None:
        self.real = _Number([v.real for v in values], floating=True)
        self.imaginary = _Number([v.imag for v in values], floating=True)
        self.width = self.real.width + self.imaginary.width + 1

    def __call__(self, value: complex) -> str:
        imaginary = self.imaginary(value.imag).lstrip() + "j"
        return self.real(value.real) + ("" if imaginary[0] in "+-" else "+") + imaginary


def values_text(t: Any, indent: int) -> str:
    """The values of a tensor; those that are shown leave its device."""
    floating = t.dtype.is_floating_point
    if t.dtype.name == "float4_e2m1fn_x2":  # its bytes, as PyTorch shows it
        t = t.view(by_name["uint8"])
    abbreviate = t.numel() > options.threshold
    cut = [abbreviate and size > 2 * options.edgeitems for size in t.shape]
    values = _nested(_shown(t, cut), cut)
    leaves = list(_leaves(values))
    number = _Complex(leaves) if t.dtype.is_complex else _Number(leaves, floating)
    if t.dim() == 0:
        return number(values).lstrip() if t.dtype.is_complex else number(values)
    return _brackets(values, t.dim(), indent, number)


def _shown(t: Any, cut: list[bool]) -> Any:
    """A tensor on the CPU without the middle of the dimensions that are cut."""
    if not any(cut) or t.device.type == "cpu":
        return t.cpu()
    edge = options.edgeitems
    shown = empty([2 * edge if is_cut else size for is_cut, size in zip(cut, t.shape)], dtype=t.dtype)
    ends = [
        [(slice(edge), slice(edge)), (slice(edge, None), slice(size - edge, None))]
        if is_cut
        else [(slice(None),) * 2]
        for is_cut, size in zip(cut, t.shape)
    ]
    for corner in product(*ends):
        to, of = zip(*corner)
        shown[to] = t[of].cpu()
    return shown


def _nested(t: Any, cut: list[bool]) -> Any:
    """The values as nested lists, with `...` in place of the middle of dimensions that are cut."""
    if not any(cut):
        return t.tolist()
    edge, size = options.edgeitems, t.size(0)
    places = [*range(edge), *range(size - edge, size)] if cut[0] else range(size)
    if t.dim() == 1:
        values = [*t[:edge].tolist(), *t[size - edge :].tolist()]
    else:
        values = [_nested(t[i], cut[1:]) for i in places]
    return [*values[:edge], ..., *values[edge:]] if cut[0] else values


def _leaves(values: Any) -> Iterator[Any]:
    if isinstance(values, list):
        for value in values:
            yield from _leaves(value)
    elif values is not ...:
        yield values


def _brackets(values: list[Any], dim: int, indent: int, number: Any) -> str:
    edge = options.edgeitems
    if dim > 1:
        rows = ["..." if v is ... else _brackets(v, dim - 1, indent + 1, number) for v in values]
        return "[" + ("," + "\n" * (dim - 1) + " " * (indent + 1)).join(rows) + "]"
    items = [(" ..." if edge else "...") if v is ... else number(v) for v in values]
    per_line = max(1, (options.linewidth - indent) // (number.width + 2))
    lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


set_callback("repr", tensor_repr)


def _tensor_html(t: Any) -> str:
    from .html import tensor_html

    return tensor_html(t)


def _module_html(module: Any) -> str:
    from .html import module_html

    return module_html(module)


set_callback("tensor_html", _tensor_html)
set_callback("module_html", _module_html)
