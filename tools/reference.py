"""The reference part of the documentation site: every public name, on pages by group (`reference_groups.py`).

`tools/website.py` calls `pages()`; what stands in them comes from the registry, the modules and their docstrings
(`reference_text.py` makes Markdown of them).
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from reference_groups import FUNCTIONAL, OPERATIONS, OTHERS, OWN, Page
from reference_text import Name, call, docstring, markdown, reach, section

import flambeau
from flambeau.operations.declare.registry import REGISTRY, Entry

# How the library is made, and its second name.
INSIDE = (
    "core",
    "operations",
    "codegen",
    "devices",
    "torch",
    "nested.answers",
    "nested.construction",
    "sparse.methods",
)


class Leaf(NamedTuple):
    """A page of the reference: the public module that it belongs to, its title and its names."""

    module: str
    title: str
    names: list[Name]


_LIMIT = 70_000  # characters of HTML that entries may fill beside 60 KB of every page; tools/website.py measures all


_FROM = ", from "  # of a title of which a page has a part


@cache
def pages() -> dict[str, Leaf]:
    """The pages by file name; those that would be long are several, by initials."""
    gathered: dict[tuple[str, str, str], list[Name]] = defaultdict(list)
    for page, name in [*operations(), *others()]:
        gathered[page].append(name)
    leaves = {}
    for (file, module, title), names in sorted(gathered.items(), key=_rank):
        cuts = _cut(sorted(names, key=_by_name))
        for names in cuts:
            first, last = (n.places[0].rpartition(".")[2] for n in (names[0], names[-1]))
            own = f"{title}{_FROM}{first} to {last}" if len(cuts) > 1 else title
            leaves[file if names is cuts[0] else f"{file}-{first}"] = Leaf(module, own, names)
    return leaves


_FIRST = ("", "Tensor", "nn", "nn.functional", "autograd", "optim", "utils.data")


def _rank(item: tuple[tuple[str, str, str], list[Name]]) -> tuple[bool, int, str, int]:
    """What most programs use first, `legacy` last, pages of a module in the order of the table."""
    file, module, _ = item[0]
    order = [p.file for p in (*OPERATIONS, *OTHERS)]
    place = _FIRST.index(module) if module in _FIRST else len(_FIRST)
    return module.startswith("legacy"), place, module, order.index(file) if file in order else -1


def _by_name(name: Name) -> tuple[str, str]:
    """The order on a page; the Tensor class stands before its methods."""
    if name.thing is flambeau.Tensor:
        return "", ""
    return name.places[0].rpartition(".")[2].lower(), name.places[0]


def _cut(names: list[Name]) -> list[list[Name]]:
    """As few runs of names as the limit allows, of about the same length."""
    sizes = [size(name) for name in names]
    count = -(-sum(sizes) // _LIMIT)
    while True:
        share = sum(sizes) / count
        runs: dict[int, list[Name]] = defaultdict(list)
        filled: dict[int, int] = defaultdict(int)
        for name, more in zip(names, sizes, strict=True):
            run = int((sum(filled.values()) + more / 2) // share)
            runs[run].append(name)
            filled[run] += more
        if all(filled[run] <= _LIMIT or len(runs[run]) == 1 for run in runs):
            return list(runs.values())
        count += 1


def size(name: Name) -> int:
    """About how many characters of HTML an entry takes, as fitted to pages: examples are mostly markup."""
    text = docstring(name)
    code = sum(len(line) for line in text.splitlines() if line.lstrip().startswith((">>>", "...")))
    calls = sum(725 + 170 * call(place, name).count(",") for place in name.places)
    return calls + 2 * len(text) + 6 * code + sum(map(size, name.members))


def count(names: Iterable[Name]) -> int:
    """How many entries there are: each name of a thing, and each member of a class."""
    return sum(len(name.places) + count(name.members) for name in names)


# --- operations ------------------------------
def operations() -> Iterator[tuple[tuple[str, str, str], Name]]:
    """The registry's entries, each with all of its public places."""
    public_modules()  # which may bring more operations
    for entry in [*REGISTRY.values()]:
        places = list(public_places(entry))
        if places and callable(entry.function):
            page = page_of(entry, places)
            if page.module == "nn.functional" or page.file in FUNCTIONAL.values():
                places.sort(key=lambda p: not p.startswith("nn.functional."))
            role = "function" if not inspect.isclass(entry.function) else class_role(entry.function)
            name = Name(tuple(places), entry.function, role)
            yield (page.file, page.module, page.title), with_members(name)


def public_places(entry: Entry) -> Iterator[str]:
    """Where users find an operation and its form in place."""
    own = [p for p in entry.places if not any(part.startswith("_") for part in p.split("."))]
    for place in own:
        yield place
    for place in own:
        if entry.in_place is not None and reach(place + "_") is not None:
            yield place + "_"


def page_of(entry: Entry, places: list[str]) -> Page:
    """By the family that declares it, and the modules where it is public."""
    head = places[0].rpartition(".")[0]
    if head in OWN:
        return Page(head, head, f"flambeau.{head}", "")
    family = entry.module.removeprefix("flambeau.operations.")
    if any(p.startswith("nn.functional.") for p in places) and family in FUNCTIONAL:
        return next(p for p in OPERATIONS if p.file == FUNCTIONAL[family])
    if gives_bool(entry) and f"{family}:test" in _FAMILIES:
        return _FAMILIES[f"{family}:test"]
    return _FAMILIES.get(f"{family}:{entry.kind}") or _FAMILIES[family]


_FAMILIES = {family: page for page in OPERATIONS for family in page.families.split()}


def gives_bool(entry: Entry) -> bool:
    """Whether a pointwise operation answers a question about each element: that is tried, on tensors without data."""
    if entry.kind != "pointwise":
        return False
    empty = flambeau.empty(0, device="meta")
    try:
        return bool(entry.function(*[empty] * len(entry.details["operands"])).dtype is flambeau.bool)
    except (TypeError, RuntimeError, NotImplementedError):  # of integers alone, or with a number besides
        return False


# --- everything else ------------------------------
def others() -> Iterator[tuple[tuple[str, str, str], Name]]:
    """What modules publish besides operations, each thing under its shortest name, and the Tensor class."""
    known = {p for e in REGISTRY.values() for p in public_places(e)}
    seen = {id(e.function) for e in REGISTRY.values()} | {id(e.in_place) for e in REGISTRY.values()}
    for module in sorted(public_modules(), key=lambda m: (m.startswith("flambeau.legacy"), m.count("."), m)):
        short = module.removeprefix("flambeau").lstrip(".")
        for name in members(module):
            if id(name.thing) in seen or name.places[0] in known or name.thing is flambeau.Tensor:
                continue
            seen.add(id(name.thing))
            page = _MODULES.get(family_of(name.thing))
            if page is not None and (page.module == short or not short):
                title = page.title or next(p.title for p in OPERATIONS if p.file == page.file)
                yield (page.file, page.module, title), with_members(name)
            else:
                yield (short or "flambeau.utilities", short, f"flambeau.{short}"), with_members(name)
    for name in tensor_members(known):
        yield ("Tensor", "Tensor", "flambeau.Tensor"), name


_MODULES = {family: page for page in OTHERS for family in page.families.split()}


def family_of(thing: Any) -> str:
    """The module that defines a thing: of classes that are shown in the flat namespace, that of what they derive from."""
    if isinstance(thing, type):
        for kind in (thing, *thing.__mro__[1:-1], type(thing)):
            if kind.__module__ not in ("flambeau", "builtins"):
                return kind.__module__.removeprefix("flambeau.")
        return source_of(thing.__init__) or "core.base.dtypes"
    return source_of(thing)


def source_of(thing: Any) -> str:
    inner = inspect.unwrap(thing) if callable(thing) else thing
    inner = getattr(inner, "function", inner)
    space = getattr(inner, "__globals__", None) or {"__name__": getattr(inner, "__module__", None) or ""}
    return str(space["__name__"]).removeprefix("flambeau.")


@cache
def public_modules() -> list[str]:
    """All modules without an underscore in their path that can be imported here."""
    names = ["flambeau"]
    for module in pkgutil.walk_packages(flambeau.__path__, "flambeau.", onerror=lambda name: None):
        short = module.name.removeprefix("flambeau.")
        if any(p.startswith("_") for p in short.split(".")) or f"{short}.".startswith(
            tuple(f"{inside}." for inside in INSIDE)
        ):
            continue
        try:
            importlib.import_module(module.name)
        except ImportError:  # an optional dependency is not installed
            continue
        names.append(module.name)
    return names


def members(module: str) -> Iterator[Name]:
    """What a module publishes: what can be called of its `__all__`; the flat namespace has all that is not a module."""
    here = importlib.import_module(module)
    short = module.removeprefix("flambeau").lstrip(".")
    for name in sorted(vars(here) if not short else getattr(here, "__all__", ())):
        thing = getattr(here, name, None)
        if not name.startswith("_") and callable(thing) and not is_annotation(thing):
            role = class_role(thing) if inspect.isclass(thing) else "function"
            yield Name((f"{short}.{name}".lstrip("."),), thing, role)


def is_annotation(thing: Any) -> bool:
    """Whether it is a type for annotations, which Python takes for something to call."""
    return isinstance(thing, (types.GenericAlias, types.UnionType)) or type(thing).__module__ == "typing"


# --- classes ------------------------------
@cache
def listed() -> dict[type, str]:
    """The classes that have entries, with their names there."""
    by_type: dict[type, str] = {flambeau.Tensor: "Tensor"}
    for entry in REGISTRY.values():
        if inspect.isclass(entry.function):
            by_type[entry.function] = entry.places[0]
    for module in sorted(public_modules(), key=lambda m: (m.startswith("flambeau.legacy"), m.count("."), m)):
        for name in members(module):
            if inspect.isclass(name.thing):
                by_type.setdefault(name.thing, name.places[0])
    return by_type


def class_role(thing: type) -> str:
    return "exception" if issubclass(thing, BaseException) else "class"


def with_members(name: Name) -> Name:
    """A class with its public methods and properties: its own, and those of bases that have no entry of their own."""
    if not inspect.isclass(name.thing):
        return name
    own: dict[str, Name] = {}
    inherited: dict[str, list[str]] = {}
    known: set[str] = set()
    bases = [kind for kind in name.thing.__mro__[1:] if kind in listed()]
    for kind in name.thing.__mro__:
        base = next((listed()[b] for b in bases if issubclass(b, kind)), None)
        for attribute, thing in vars(kind).items():
            if attribute.startswith("_") or attribute in known or not kind.__module__.startswith("flambeau"):
                continue
            known.add(attribute)
            if base is not None:
                inherited.setdefault(base, []).append(attribute)
            elif (role := member_role(thing)) is not None:
                own[attribute] = Name((f"{name.places[0]}.{attribute}",), thing, role, owner=name.thing)
    return name._replace(
        members=tuple(own[a] for a in sorted(own)),
        inherited=tuple((base, tuple(sorted(names))) for base, names in inherited.items()),
    )


def member_role(thing: Any) -> str | None:
    """How Sphinx's Python domain calls what stands in a class; None for what is neither called nor computed."""
    if isinstance(thing, (property, types.GetSetDescriptorType, types.MemberDescriptorType)) or (
        type(thing).__name__ in ("cached_property", "lazy_property")
    ):
        return "property"
    if isinstance(thing, (staticmethod, classmethod)):
        return type(thing).__name__
    return "method" if callable(thing) and not inspect.isclass(thing) else None


def tensor_members(known: set[str]) -> Iterator[Name]:
    """The class Tensor, and what it has besides operations."""
    yield Name(("Tensor",), flambeau.Tensor, "class")
    for attribute in dir(flambeau.Tensor):
        thing = inspect.getattr_static(flambeau.Tensor, attribute)
        if not attribute.startswith("_") and f"Tensor.{attribute}" not in known:
            yield Name((f"Tensor.{attribute}",), thing, member_role(thing) or "property")


# --- Markdown ------------------------------
def page_text(leaf: Leaf) -> str:
    """A page: what its module says of itself where it has no index, then each name with what is told of it."""
    alone = leaf.module and sum(other.module == leaf.module for other in pages().values()) == 1
    about = introduction(leaf.module) if alone else ""
    return f"# {leaf.title}\n\n{about}" + "\n".join(map(section, leaf.names))


def introduction(module: str) -> str:
    """The docstring of a public module."""
    here = sys.modules.get(f"flambeau.{module}" if module else "flambeau")
    return markdown(inspect.cleandoc(getattr(here, "__doc__", None) or "")) + "\n\n"


def link(place: str, file: str) -> str:
    """To the entry of a name on a page, in HTML: there are hundreds on a page, and Sphinx's own are three times as long."""
    return f'<a href="{file}.html#flambeau.{place}">{place}</a>'


def index() -> dict[str, str]:
    """The pages that list pages, by file name: all of the reference, and each module that has several."""
    modules: dict[str, list[str]] = defaultdict(list)
    for file, leaf in pages().items():
        modules[leaf.module].append(file)
    texts, entries = {}, []
    for module, files in modules.items():
        if module and len(files) == 1:
            entries += files
            continue
        own = f"{module or 'flambeau'}-index"
        entries.append(own)
        texts[own] = f"# {f'flambeau.{module}'.rstrip('.')}\n\n{introduction(module)}"
        groups: dict[str, list[str]] = defaultdict(list)
        for file in files:
            groups[pages()[file].title.partition(_FROM)[0]].append(file)
        for title, parts in groups.items():
            names = ", ".join(link(n.places[0], file) for file in parts for n in pages()[file].names)
            texts[own] += f"## {title}\n\n{names}\n\n"
        if module == "Tensor":
            texts[own] += methods()
        texts[own] += toctree(files, hidden=True)
    texts["index"] = (
        "# Reference\n\nEvery public name with its docstring, by group. Most operations are functions and methods of Tensor, and "
        "have forms in place: an entry shows all names of a thing.\n\n" + toctree(entries)
    )
    return texts


def methods() -> str:
    """What a tensor has of operations, with links to where it is told."""
    page_of = {
        place: file
        for file, leaf in pages().items()
        for name in leaf.names
        for place in name.places
        if place.startswith("Tensor.") and leaf.module != "Tensor"
    }
    listed = ", ".join(link(place, page_of[place]) for place in sorted(page_of))
    return f"## Operations that are methods\n\n{listed}\n\n"


def toctree(files: list[str], hidden: bool = False) -> str:
    return "\n".join(
        ["```{toctree}", *([":hidden:"] if hidden else []), ":maxdepth: 1", "", *files, "```", ""]
    )
