"""How tensors, modules and profiles look in notebooks: what `_repr_html_` returns.

The ordinary text stands in every one of them, so nothing is lost.  Everything that comes from a program is escaped.
"""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy

from ..autograd.grad_mode import no_grad
from ..core.base.dtypes import by_name
from ..core.base.formats import strided
from ..core.call.wrapping import is_wrapping
from ..nn.parameter import is_lazy

COUNTED = 1 << 24  # elements; of larger tensors nothing is computed
SIDE = 64  # rows and columns of a picture at most
PIXELS = 192  # of the picture's longer side, on the screen
ROWS = 300  # of a table of modules

_BOX = 'style="font-family: monospace; font-size: 90%; max-width: 100%; overflow-x: auto"'
_TABLE = 'style="white-space: nowrap"'
_LEFT, _RIGHT = (f'style="text-align:{side}"' for side in ("left", "right"))
# Red, green and blue from the least value over 0 to the greatest; of values of one sign the half of it.
_BLUE, _WHITE, _RED = numpy.array([[33, 102, 172], [247, 247, 247], [178, 24, 43]], dtype=numpy.float64)
_NAN, _PLUS, _MINUS = (255, 0, 255), (255, 200, 0), (0, 200, 200)


def escape(value: Any) -> str:
    """A value's text as HTML shows it.

    >>> from flambeau._compat.html import escape
    >>> escape("<b>")
    '&lt;b&gt;'
    """
    return html.escape(str(value))


def table(
    headings: Sequence[str], rows: Iterable[Sequence[Any]], left: int = 1, last: Sequence[Any] = ()
) -> str:
    """A table; the first `left` columns are text, the others numbers; `last` is the row below all.

    >>> from flambeau._compat.html import table
    >>> table(["name", "n"], [["<a>", 2]]).count("&lt;a&gt;")
    1
    """

    def row(kind: str, cells: Sequence[Any]) -> str:
        sides = [_LEFT if k < left else _RIGHT for k in range(len(cells))]
        return (
            "<tr>"
            + "".join(f"<{kind} {side}>{escape(cell)}</{kind}>" for cell, side in zip(cells, sides))
            + "</tr>"
        )

    body = "".join(row("td", cells) for cells in rows)
    foot = f"<tfoot>{row('th', last)}</tfoot>" if last else ""
    return f"<table {_TABLE}><thead>{row('th', headings)}</thead><tbody>{body}</tbody>{foot}</table>"


def folded(summary: str, body: str, opened: bool = False) -> str:
    """What a click shows or hides; both are HTML.

    >>> from flambeau._compat.html import folded
    >>> folded("more", "all of it")
    '<details><summary>more</summary>all of it</details>'
    """
    return f"<details{' open' if opened else ''}><summary>{summary}</summary>{body}</details>"


def text(value: str) -> str:
    """Text in lines of its own; many lines are scrolled.

    >>> from flambeau._compat.html import text
    >>> text("a < b").partition(">")[2]
    'a &lt; b</pre>'
    """
    return f'<pre style="max-height: 30em; overflow-y: auto">{escape(value)}</pre>'


def tensor_html(t: Any) -> str:
    """The tensor's text, what it is, the least, mean and greatest of its elements, and a picture of them.

    Nothing is recorded on the tape.  Figures are computed where the tensor lies, and only those and the elements of the picture,
    at most 64 × 64, leave its device; the text takes the elements that it shows.  A tensor without elements of its own (on
    `meta`, sparse, nested, masked, inside `vmap`) has neither figures nor a picture, one of more than 2²⁴ elements a picture only.

    >>> import flambeau
    >>> from flambeau._compat.html import tensor_html
    >>> page = tensor_html(flambeau.tensor([0.0, 1.0]))
    >>> "tensor([0., 1.])</pre>" in page, "mean 0.5" in page
    (True, True)
    """
    facts, picture = [_what(t)], ""
    if _has_elements(t):
        with no_grad():
            plain = _numbers(t)
            facts += _figures(plain)
            picture = _picture(plain)
    return f"<div {_BOX}>{folded(escape(' · '.join(facts)), text(repr(t)), True)}{picture}</div>"


def _what(t: Any) -> str:
    if is_lazy(t):
        shape = "of a shape that is not known yet"
    elif t.is_nested:
        shape = f"{t.size(0)} tensors"
    else:
        shape = " × ".join(map(str, t.shape)) if t.dim() else "a number"
    words = [type(t).__name__, shape, str(t.dtype).rpartition(".")[2], str(t.device)]
    if t.layout is not strided:
        words.append(str(t.layout).rpartition(".")[2])
    if t.requires_grad:
        words.append("requires_grad")
    return ", ".join(words)


def _has_elements(t: Any) -> bool:
    if is_lazy(t) or is_wrapping(t) or t._is_wrapper or t._is_batched or t.layout is not strided:
        return False
    return not t.is_meta and t.numel() > 0 and t.dtype.name != "float4_e2m1fn_x2"


def _numbers(t: Any) -> Any:
    """The elements of a strided tensor as one of real numbers that lies where it lies; of complex numbers the absolute values."""
    t = t.detach()
    if t.dtype.is_complex:
        t = (t if t.dtype.name != "complex32" else t.to(by_name["complex64"])).abs()
    return t if t.dtype.name in ("float32", "float64") else t.to(by_name["float32"])


def _figures(x: Any) -> list[str]:
    """What is said of the elements of a tensor of real numbers, where there are several."""
    n = x.numel()
    if n == 1:
        return []
    if n > COUNTED:
        return [f"{n:,} elements, of which no figures are computed"]
    finite = x.isfinite()
    regular = int(finite.sum())
    said = []
    if regular:
        if regular < n:
            least, greatest = x.where(finite, math.inf).min(), x.where(finite, -math.inf).max()
            mean = x.where(finite, 0.0).sum() / regular
        else:
            least, greatest, mean = x.min(), x.max(), x.mean()
        said.append(f"min {least.item():.6g}, mean {mean.item():.6g}, max {greatest.item():.6g}")
    if regular < n:
        nans = int(x.isnan().sum())
        counts = ((nans, "NaN"), (n - regular - nans, "infinite"))
        said.append(", ".join(f"{count:,} {what}" for count, what in counts if count))
    return said


def _picture(x: Any) -> str:
    """The elements of the last two dimensions, at the first place of all others, as colours."""
    if x.numel() == 1:
        return ""
    said = []
    if x.dim() > 2:
        said.append(f"[{', '.join(['0'] * (x.dim() - 2))}, :, :]")
    while x.dim() > 2:
        x = x[0]
    if x.dim() == 1:
        x = x.unsqueeze(0)
    steps = [math.ceil(size / SIDE) for size in x.shape]
    said += [f"1 {what} of {step}" for step, what in zip(steps, ("row", "column")) if step > 1]
    values = x[:: steps[0], :: steps[1]].contiguous().cpu().to(by_name["float64"]).numpy()
    finite = values[numpy.isfinite(values)]
    least, greatest = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    if least < 0 < greatest:
        most = max(-least, greatest)
        share = numpy.clip(numpy.nan_to_num(values / most), -1, 1)
        said.append(f"blue {-most:.3g}, white 0, red {most:.3g}")
    else:
        share = numpy.clip(numpy.nan_to_num((values - least) / ((greatest - least) or 1.0)), 0, 1)
        said.append(f"white {least:.3g}, red {greatest:.3g}")
    end = numpy.where(share[..., None] < 0, _BLUE, _RED)
    colours = (_WHITE + numpy.abs(share)[..., None] * (end - _WHITE)).round().astype(numpy.uint8)
    for result, colour, name in (
        (numpy.isnan(values), _NAN, "magenta NaN"),
        (values == math.inf, _PLUS, "yellow inf"),
        (values == -math.inf, _MINUS, "cyan -inf"),
    ):
        if result.any():
            colours[result] = colour
            said.append(name)
    rows, columns = values.shape
    scale = max(1, PIXELS // max(rows, columns))
    source = base64.b64encode(_png(colours)).decode()
    return (
        f'<div><img alt="the values as colours" width="{columns * scale}" height="{max(rows * scale, 8)}" '
        f'style="image-rendering: pixelated; vertical-align: top; border: 1px solid #888" src="data:image/png;base64,{source}"> '
        f"<small>{escape('; '.join(said))}</small></div>"
    )


def _png(colours: numpy.ndarray) -> bytes:
    """A picture of bytes (rows, columns, 3) as a PNG file (ISO 15948): rows without filters."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows, columns, _ = colours.shape
    lines = b"".join(b"\0" + row.tobytes() for row in colours)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def module_html(module: Any) -> str:
    """A table of a module and those inside of it, a row each: name, class, shapes and number of its own parameters, how many of them
    are trained.  A parameter that several modules share counts once in the sum below.  The text of the module is folded.

    >>> import flambeau
    >>> from flambeau._compat.html import module_html
    >>> "8 × 4" in module_html(flambeau.nn.Linear(4, 8))
    True
    """
    rows = []
    for k, (path, inner) in enumerate(module.named_modules()):
        if k == ROWS:
            further = sum(1 for _ in module.modules()) - ROWS
            rows.append((f"… {further:,} more", "", "", "", ""))
            break
        own = {name: p for name, p in inner._parameters.items() if p is not None}
        shapes = ", ".join(f"{name} {_shape(p)}" for name, p in own.items())
        name = "\u2003" * (path.count(".") + 1) + path.rpartition(".")[2] if path else ""
        extra = inner.extra_repr().replace("\n", ", ")
        kind = f"{inner._get_name()}({extra})"
        rows.append((name, kind, shapes, *_numbers_of(own.values())))
    every = list(module.parameters())
    total, trained = _numbers_of(every)
    nbytes = sum(p.nbytes for p in every if not is_lazy(p))
    summary = f"<b>{escape(module._get_name())}</b>: {total or 0} parameters, {trained or 0} trained, {nbytes:,} bytes"
    headings = ("name", "class", "shapes of parameters", "parameters", "trained")
    whole = table(headings, rows, 3, ("all", "", "", total, trained))
    return f"<div {_BOX}>{folded(summary, whole, True)}{folded('text', text(repr(module)))}</div>"


def _shape(p: Any) -> str:
    return "?" if is_lazy(p) else " × ".join(map(str, p.shape)) or "()"


def _numbers_of(parameters: Iterable[Any]) -> tuple[str, str]:
    """How many elements these have, and those of them that are trained; nothing where there are none."""
    given = list(parameters)
    known = [p for p in given if not is_lazy(p)]
    if not given:
        return "", ""
    mark = "" if len(known) == len(given) else " + ?"
    counts = sum(p.numel() for p in known), sum(p.numel() for p in known if p.requires_grad)
    return f"{counts[0]:,}{mark}", f"{counts[1]:,}{mark}"
