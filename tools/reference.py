"""The reference part of the documentation site: a page of each kind of operation and of each public module, with every public name.

`tools/website.py` calls `pages()`; what stands in them comes from the registry and from docstrings.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil
import re
import textwrap
import types
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import flambeau
from flambeau.operations.declare.registry import REGISTRY

KINDS = {
    "copy": "Copies",
    "creation": "Creation",
    "hosted": "Operations that NumPy and SciPy compute",
    "indexing": "Reading and writing by index",
    "join": "Joining",
    "lapack": "Decompositions",
    "pointwise": "Pointwise operations",
    "question": "Questions",
    "random": "Random numbers",
    "reduction": "Reductions",
    "row": "Operations on rows",
    "scan": "Scans",
    "search": "Searching",
    "shape": "Shapes",
    "sort": "Sorting",
    "spectral": "Spectra",
    "view": "Views",
    "window": "Windows",
    "library": "Products and other operations of libraries",
    "composite": "Operations made of others",
}


class Name(NamedTuple):
    """What is told of one thing: its names, the first of which is the heading, how it is called, and its docstring."""

    places: tuple[str, ...]
    thing: Any
    role: str  # of Sphinx's Python domain


def pages() -> dict[str, tuple[str, list[Name]]]:
    """Title and names of each page, by file name."""
    found: dict[str, tuple[str, list[Name]]] = {}
    told: set[int] = set()
    places: set[str] = set()  # bound methods are new objects each time: their names tell
    for name in operations():
        entry, head = name.thing, name.places[0].rpartition(".")[0]
        own = head in ("", "Tensor")
        page = f"operations-{entry.kind}" if own else head
        title = KINDS.get(entry.kind, entry.kind.capitalize()) if own else f"flambeau.{head}"
        told.update(map(id, (entry.function, entry.in_place)))
        found.setdefault(page, (title, []))[1].append(name._replace(thing=entry.function))
    for module in sorted(public_modules(), key=lambda m: (m.count("."), m)):
        short = module.removeprefix("flambeau").lstrip(".")
        names = [n for n in members(module) if id(n.thing) not in told and n.places[0] not in places]
        told.update(id(n.thing) for n in names)
        places.update(n.places[0] for n in names)
        if names:
            title, listed = found.setdefault(short or "flambeau", (module, []))
            found[short or "flambeau"] = (title, listed + names)
    methods = [
        Name((f"Tensor.{n}",), thing, "method")
        for n, thing in inspect.getmembers(flambeau.Tensor)
        if not n.startswith("_") and id(thing) not in told and inspect.getdoc(thing)
    ]
    found["Tensor"] = ("Tensor", methods)
    return {page: (title, sorted(names, key=lambda n: n.places[0])) for page, (title, names) in found.items()}


def operations() -> Iterator[Name]:
    """The registry's entries, each with all of its public places."""
    for entry in REGISTRY.values():
        places = [p for p in entry.places if not any(part.startswith("_") for part in p.split("."))]
        if places and callable(entry.function):
            if entry.in_place is not None:
                places += [p + "_" for p in places]
            yield Name(tuple(places), entry, "class" if inspect.isclass(entry.function) else "function")


def public_modules() -> list[str]:
    """All modules without an underscore in their path that can be imported here."""
    found = ["flambeau"]
    for module in pkgutil.walk_packages(flambeau.__path__, "flambeau.", onerror=lambda name: None):
        parts = module.name.split(".")[1:]
        if any(p.startswith("_") for p in parts) or parts[0] in (
            "core",
            "operations",
            "codegen",
            "devices",
            "torch",
        ):
            continue
        try:
            importlib.import_module(module.name)
        except ImportError:  # an optional dependency is not installed
            continue
        found.append(module.name)
    return found


def members(module: str) -> Iterator[Name]:
    """What a module publishes: its `__all__`, else what it defines."""
    here = importlib.import_module(module)
    short = module.removeprefix("flambeau").lstrip(".")
    listed = getattr(here, "__all__", None)
    if listed is None and short.count("."):  # a file of a room, not a place where users look
        return
    for name in sorted({*(listed if listed is not None else vars(here))}):
        thing = getattr(here, name, None)
        if name.startswith("_") or isinstance(thing, types.ModuleType) or not callable(thing):
            continue
        if listed is None and not str(getattr(thing, "__module__", "")).startswith("flambeau"):
            continue
        yield Name((f"{short}.{name}".lstrip("."),), thing, "class" if inspect.isclass(thing) else "function")


def page_text(title: str, names: list[Name]) -> str:
    """A page in Markdown, for MyST."""
    return f"# {title}\n\n" + "\n".join(section(name) for name in names)


def section(name: Name) -> str:
    """One thing: a directive of Sphinx's Python domain, so that the search and other pages find it by name."""
    first, *others = name.places
    lines = ["flambeau." + first + signature(name.thing)]
    lines += ["flambeau." + other for other in others]
    head = ("\n" + " " * (len(name.role) + 8)).join(lines)
    body = markdown(inspect.getdoc(name.thing) or "")
    fence = "`" * 5
    return f"{fence}{{py:{name.role}}} {head}\n\n{body}\n{fence}\n"


def signature(thing: Any) -> str:
    if inspect.isclass(thing) and issubclass(thing, enum.Enum):  # is not made
        return ""
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return "(…)"
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return text.partition(" -> ")[0].replace("\n", " ") if "<" not in text else "(…)"


# --- docstrings ------------------------------
_SECTIONS = {
    "Args:": "Arguments",
    "Arguments:": "Arguments",
    "Raises:": "Errors",
    "Shape:": "Shapes",
    "Returns:": "Result",
}


def markdown(text: str) -> str:
    """A docstring as Markdown: examples in fences, sections in bold, and nothing outside of code read as markup."""
    out: list[str] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.lstrip().startswith(">>>"):
            end = at
            while end < len(lines) and lines[end].strip():
                end += 1
            out += ["```pycon", *textwrap.dedent("\n".join(lines[at:end])).splitlines(), "```", ""]
            at = end
            continue
        if line.strip() in _SECTIONS:
            end = at + 1
            while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" ")):
                end += 1
            out += [f"**{_SECTIONS[line.strip()]}**", "", *items(lines[at + 1 : end]), ""]
            at = end
            continue
        out.append(escaped(line))
        at += 1
    return "\n".join(out)


def items(lines: list[str]) -> list[str]:
    """`name: text` on indented lines, with what continues them, as a list."""
    text = textwrap.dedent("\n".join(lines)).splitlines()
    return [
        f"- {escaped(line)}" if line and not line.startswith(" ") else f"  {escaped(line.strip())}"
        for line in text
        if line.strip()
    ]


def escaped(line: str) -> str:
    """A line of prose, in which only what stands in backticks is markup."""
    parts = re.split(r"(`+[^`]*`+)", line)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*_<>\[\]$|{}#])", r"\\\1", part) for part in parts
    )


def index(found: dict[str, tuple[str, list[Name]]]) -> str:
    """The page that lists the pages."""
    groups: dict[str, list[str]] = defaultdict(list)
    for page in found:
        groups["Operations" if page.startswith("operations-") or page == "Tensor" else "Modules"].append(page)
    lines = [
        "# Reference",
        "",
        "Every public name with its docstring, written from the registry and the sources by `make docs`.",
        "",
    ]
    for group in ("Operations", "Modules"):
        lines += [f"## {group}", "", "```{toctree}", ":maxdepth: 1", "", *sorted(groups[group]), "```", ""]
    return "\n".join(lines)
