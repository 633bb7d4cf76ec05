"""What the reference tells of one name: how it is called and its docstring, as Markdown for MyST with Sphinx's Python domain."""

from __future__ import annotations

import enum
import inspect
import re
import textwrap
from typing import Any, NamedTuple

import flambeau


class Name(NamedTuple):
    """What is told of one thing: its names, the first of which is the heading, and for a class its members."""

    places: tuple[str, ...]
    thing: Any
    role: str  # of Sphinx's Python domain
    members: tuple[Name, ...] = ()
    # Classes with entries, and what this one has of them.
    inherited: tuple[tuple[str, tuple[str, ...]], ...] = ()
    owner: type | None = None  # the class that a member is shown with


_OPTIONS = {"classmethod": ("method", ":classmethod:"), "staticmethod": ("method", ":staticmethod:")}
_MANY = 24  # inherited names: where there are more, the link to their class says enough


def section(name: Name, inside: bool = False) -> str:
    """One thing: a directive of the Python domain, so that index, search and other pages have it by each of its names."""
    role, option = _OPTIONS.get(name.role, (name.role, ""))
    if inside:
        heads = [name.places[0].rpartition(".")[2] + call(name.places[0], name)]
    else:
        heads = [f"flambeau.{place}{call(place, name)}" for place in name.places]
    body = [markdown(docstring(name))]
    for base, names in name.inherited:
        shown = ": " + ", ".join(f"`{n}`" for n in names) if len(names) <= _MANY else ""
        body.append(f"Inherited from {{py:obj}}`flambeau.{base}`{shown}.\n")
    body += [section(member, inside=True) for member in name.members]
    fence = "`" * (7 if name.members else 6 if not inside else 5)
    if heads[1:]:  # docs/site/conf.py
        option = ":also: " + " ;; ".join(heads[1:])
    options = f"{option}\n" if option else ""
    return f"{fence}{{py:{role}}} {heads[0]}\n{options}\n" + "\n".join(body) + f"\n{fence}\n"


def docstring(name: Name) -> str:
    """Its own, without the call that compiled functions begin with; of a method without one, the first line of what it overrides."""
    text = _own(name.thing)
    short = name.places[0].rpartition(".")[2]
    if not text and name.owner is not None:
        for kind in name.owner.__mro__:
            if text := _own(vars(kind).get(short)).partition("\n\n")[0]:
                break
    first, _, rest = text.partition("\n")
    return rest.strip() if re.match(rf"(\w+\.)*{re.escape(short)}\(.*\)( -> .*)?$", first) else text


def _own(thing: Any) -> str:
    thing = thing.__func__ if isinstance(thing, (staticmethod, classmethod)) else thing
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "") if thing is not None else ""


# --- how it is called ------------------------------
def reach(place: str) -> Any:
    """What stands at a dotted public name, or None."""
    resolved: Any = flambeau
    for part in place.split("."):
        resolved = getattr(resolved, part, None)
    return resolved


def call(place: str, name: Name) -> str:
    """The signature of a function where it stands; nothing for a property."""
    if name.role == "property":
        return ""
    if name.role in ("method", "classmethod", "staticmethod") or place.startswith("Tensor."):
        thing = name.thing.__func__ if isinstance(name.thing, (staticmethod, classmethod)) else name.thing
        return signature(reach(place) or thing, first=name.role == "staticmethod")
    return signature(reach(place) or name.thing)


def signature(thing: Any, first: bool = True) -> str:
    """`(x, y=1)` without types; what a method binds is left out where `first` is False."""
    if inspect.isclass(thing) and issubclass(thing, enum.Enum):  # is not made
        return ""
    try:
        sig = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(...)"
    parameters = list(sig.parameters.values())
    if not first and not inspect.ismethod(thing) and parameters:
        if parameters[0].kind in (parameters[0].POSITIONAL_ONLY, parameters[0].POSITIONAL_OR_KEYWORD):
            del parameters[0]
    plain = [p.replace(annotation=p.empty, default=_shown(p.default)) for p in parameters]
    return str(sig.replace(parameters=plain, return_annotation=sig.empty)).replace("\n", " ")


class _Words:
    """A default whose repr is the words themselves."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __repr__(self) -> str:
        return self.words


def _shown(default: Any) -> Any:
    """A default as a program would write it: a function or class by its name, an object without any as `...`."""
    if default is inspect.Parameter.empty or not repr(default).startswith("<"):
        return default
    return _Words(getattr(default, "__qualname__", None) or "...")


# --- docstrings ------------------------------
_SECTIONS = {
    "Args:": "Arguments",
    "Arguments:": "Arguments",
    "Attributes:": "Attributes",
    "Raises:": "Errors",
    "Shape:": "Shapes",
    "Shapes:": "Shapes",
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
