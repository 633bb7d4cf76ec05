"""Stubs for type checkers: what the registry publishes, with the types that signatures tell.

A parameter's type is its annotation, else what its name stands for everywhere (`TYPES`), else Any.  Modules written in
Python need no stub: their sources are annotated, and `flambeau/py.typed` says so.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from flambeau.core.call.operation import behind

import flambeau
from flambeau.operations.declare.registry import REGISTRY, Entry, published

# Modules made of operations alone, with the depth of their package.
MODULES = ("nn.functional", "linalg", "fft", "special", "masked", "signal.windows", "return_types")
PRIVATE = ("codegen", "core", "devices", "operations")  # rooms that are no part of what users import

ALIASES = {  # written with an underscore, since a stub's own names (`float`, `device`, `range`) would hide them
    **dict.fromkeys(
        ("bool", "bytes", "complex", "float", "int", "list", "object", "str", "tuple"), "builtins"
    ),
    **dict.fromkeys(("Callable", "Iterator", "Sequence"), "collections.abc"),
    "Any": "typing",
    **dict.fromkeys(("Generator", "Size", "device", "dtype", "layout", "memory_format"), "flambeau"),
}
TYPES = {  # what parameters without an annotation are, by their names
    **dict.fromkeys(
        ("input", "self", "tensor", "source", "index", "weight", "target", "mat1", "mat2"), "Tensor"
    ),
    "other": "Tensor | complex",
    "out": "Tensor | tuple[Tensor, ...] | None",
    "dim": "int | Sequence[int] | None",
    **dict.fromkeys(("dim0", "dim1", "start_dim", "end_dim", "chunks", "groups"), "int"),
    **dict.fromkeys(
        ("keepdim", "requires_grad", "inplace", "ceil_mode", "return_indices", "accumulate"), "bool"
    ),
    "dtype": "dtype | None",
    "device": "device | str | int | None",
    "layout": "layout | None",
    "memory_format": "memory_format | None",
    "generator": "Generator | None",
    **dict.fromkeys(("mask", "bias"), "Tensor | None"),
    "reduction": "str",
    "pin_memory": "bool",
    "tensors": "Sequence[Tensor]",
}
OF_VIEWS = {  # where the first operand is cut, and nothing else is a tensor
    **dict.fromkeys(("source", "destination"), "int | Sequence[int]"),
    **dict.fromkeys(("index", "start", "length", "offset", "dim1", "dim2"), "int"),
}
ATTRIBUTES = {
    "shape": "Size",
    "dtype": "dtype",
    "device": "device",
    "layout": "layout",
    "grad": "Tensor | None",
    **dict.fromkeys(("requires_grad", "is_leaf", "is_cpu", "is_cuda", "is_meta", "retains_grad"), "bool"),
    **dict.fromkeys(("ndim", "itemsize", "nbytes", "output_nr"), "int"),
    **dict.fromkeys(("T", "mT", "H", "mH", "real", "imag", "data"), "Tensor"),
}
ONE_TENSOR = frozenset(  # kinds whose functions give one tensor, but for those in NOT_ONE
    "copy creation hosted indexed indexing join library masked pointwise random reduction row scan shape spectral view window".split()
)
NOT_ONE = {
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "tensor_split", "unbind"), "tuple[Tensor, ...]"),
    **dict.fromkeys(("hsplit", "vsplit", "dsplit", "broadcast_tensors", "meshgrid"), "tuple[Tensor, ...]"),
    **dict.fromkeys(
        ("atleast_1d", "atleast_2d", "atleast_3d", "nonzero", "type", "numpy", "__array__"), "Any"
    ),
    **dict.fromkeys(
        ("__array_wrap__", "__dlpack__", "__dlpack_device__", "record_stream", "frexp", "mode"), "Any"
    ),
    **dict.fromkeys(("manual_seed", "default_generator"), "Generator"),
    **dict.fromkeys(("seed", "initial_seed"), "int"),
    **dict.fromkeys(("is_contiguous", "is_pinned"), "bool"),
    "set_rng_state": "None",
}
OPERATORS = re.compile(
    r"__[ri]?(add|sub|mul|truediv|floordiv|mod|pow|matmul|and|or|xor|lshift|rshift)__|__(eq|ne|lt|le|gt|ge)__"
)
SPECIAL = {  # other methods that Python calls
    **dict.fromkeys(("__neg__", "__pos__", "__abs__", "__invert__"), "self) -> Tensor"),
    "__getitem__": "self, index: Any, /) -> Tensor",
    "__setitem__": "self, index: Any, value: Any, /) -> None",
    "__iter__": "self) -> Iterator[Tensor]",
    "__reversed__": "self) -> Tensor",
    "__contains__": "self, element: Any, /) -> bool",
    **{f"__{t}__": f"self) -> {t}" for t in ("bool", "int", "float", "complex")},
    **dict.fromkeys(("__len__", "__index__"), "self) -> int"),
}

OWNERS: dict[int, Entry] = {}
for _entry in REGISTRY.values():
    for _function in (_entry.function, _entry.in_place):
        OWNERS.setdefault(id(_function), _entry)


def usable(name: str) -> bool:
    return not keyword.iskeyword(name) and (not name.startswith("_") or name == "__version__")


# --- types ------------------------------
class _Known(ast.NodeTransformer):
    """An annotation in the names that a stub has; what it cannot name is Any."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in ("TensorBase", "Tensor"):
            return ast.Name("Tensor")
        if node.id == "Tensors":
            return ast.parse("Sequence[Tensor]", mode="eval").body
        return node if node.id in ALIASES else ast.Name("Any")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name("Any")


_used: set[str] = set()  # by the stub that is being written


def aliased(kind: str) -> str:
    """A type in the names that the stub imports."""

    def alias(m: re.Match) -> str:
        _used.add(m[0])
        return "_" + m[0]

    return re.sub(rf"\b({'|'.join(ALIASES)})\b", alias, kind)


def typed(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    found = ast.unparse(_Known().visit(ast.parse(text.strip("'\""), mode="eval")))
    return re.sub(
        r"\b(tuple|list)\b(?!\[)", lambda m: f"{m[0]}[Any{', ...' if m[0] == 'tuple' else ''}]", found
    )


def parameter(p: inspect.Parameter, entry: Entry | None) -> str:
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    if p.annotation is not p.empty:
        kind = typed(p.annotation)
    elif star:
        kind = "Any"
    elif entry is not None and entry.kind == "pointwise" and p.name in entry.details["operands"]:
        kind = "Tensor" if len(entry.details["operands"]) == 1 else "Tensor | complex"
    elif entry is not None and entry.kind == "view" and p.name in OF_VIEWS:
        kind = OF_VIEWS[p.name]
    else:
        kind = TYPES.get(p.name, "Any")
    if p.default is None and kind != "Any" and "None" not in kind:
        kind += " | None"
    return f"{star}{p.name}: {aliased(kind)}" + (" = ..." if p.default is not p.empty else "")


def signature(function: Callable, method: bool) -> str:
    """The parameters with their types; anything where they cannot be told."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return ("self, " if method else "") + aliased("*args: Any, **kwargs: Any")
    parts: list[str] = []
    kind = None
    for k, p in enumerate(found.parameters.values()):
        if p.name == "size" and p.default is None and type(function).__name__ == "Factory":  # or one by one
            p = inspect.Parameter("size", p.VAR_POSITIONAL, annotation="int | Sequence[int]")
        if kind is p.POSITIONAL_ONLY and p.kind is not kind:
            parts.append("/")
        if p.kind is p.KEYWORD_ONLY and kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            parts.append("*")
        kind = p.kind
        parts.append("self" if method and k == 0 else parameter(p, OWNERS.get(id(function))))
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    return ", ".join(parts)


def gives(function: Callable, name: str) -> str:
    return aliased(result(function, name))


def result(function: Callable, name: str) -> str:
    try:
        told = inspect.signature(function).return_annotation
    except (TypeError, ValueError):
        told = inspect.Signature.empty
    if told is not inspect.Signature.empty:
        return "None" if told in (None, "None") else typed(told)
    entry = OWNERS.get(id(function))
    if entry is None:
        return "Any"
    if function is entry.in_place:
        return "Tensor"
    one = entry.kind in ONE_TENSOR and getattr(function, "outputs", 1) == 1
    return NOT_ONE.get(name.rstrip("_") if name[:2] != "__" else name, "Tensor" if one else "Any")


def definition(name: str, function: Callable, method: bool = False) -> str:
    function = behind(function)
    if isinstance(function, type):
        return f"{name}: {aliased('Any')}"
    if name == "default_generator":
        return f"{name}: {aliased(NOT_ONE[name])}"
    return f"def {name}({signature(function, method)}) -> {gives(function, name)}: ..."


# --- files ------------------------------
def whole(lines: list[str], said: str, *first: str) -> str:
    """A stub's text: where it comes from, the types it uses, its lines."""
    imports = [f"from {ALIASES[n]} import {n} as _{n}" for n in sorted(_used, key=lambda n: (ALIASES[n], n))]
    _used.clear()
    return (
        "\n".join([f"# Written by `python tools/interface.py` from {said}.", *imports, *first, "", *lines])
        + "\n"
    )


def any_class() -> list[str]:
    """The inside of a class that is compiled, so that its attributes are not told."""
    return [
        aliased("    def __init__(self, *args: Any, **kwargs: Any) -> None: ..."),
        aliased("    def __getattr__(self, name: str) -> Any: ..."),
    ]


def tensor_stub() -> str:
    cls = flambeau.Tensor
    lines = ["class Tensor:", any_class()[0]]
    methods = published("Tensor.")
    for name in sorted(n for n in dir(cls) if usable(n)):
        found = methods.get(name) or inspect.getattr_static(cls, name)
        if callable(found) and not isinstance(found, (property, staticmethod, classmethod)):
            lines.append("    " + definition(name, found, method=True))
        else:
            lines.append(f"    {name}: {aliased(ATTRIBUTES.get(name, 'Any'))}")
    known = [n for n in dir(cls) if OPERATORS.fullmatch(n) or (n.startswith("__") and n not in dir(object))]
    for name in sorted(n for n in known if n.endswith("__") and callable(getattr(cls, n))):
        if OPERATORS.fullmatch(name):
            wider = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
            lines.append(f"    def {name}(self, other: {aliased('Any')}, /) -> Tensor: ...{wider}")
        else:
            lines.append(f"    def {name}({aliased(SPECIAL.get(name, 'self, *args: Any) -> Any'))}: ...")
    return whole([*lines, "    __hash__ = object.__hash__"], "the registry and the Tensor class")


def written_in(name: str, found: object) -> str | None:
    """The module of flambeau in plain Python that defines a class or function: its types are read there."""
    for module, loaded in sorted(sys.modules.items()):
        path = getattr(loaded, "__file__", None) or ""
        if module.startswith("flambeau.") and path.endswith(".py") and vars(loaded).get(name) is found:
            if re.search(rf"^(class|def) {name}\b", Path(path).read_text(), re.MULTILINE):
                return module.removeprefix("flambeau.")
    return None


def package_stub() -> str:
    functions = published("")
    modules, plain, calls, classes = [], [], [], []
    for name in sorted(n for n in dir(flambeau) if usable(n)):
        found = functions.get(name) or getattr(flambeau, name)
        if isinstance(found, ModuleType):
            if found.__name__ == f"flambeau.{name}" and name not in PRIVATE:
                modules.append(f"from . import {name} as {name}")
        elif name == "Tensor":
            continue
        elif name not in functions and (home := written_in(name, found)):
            modules.append(f"from .{home} import {name} as {name}")
        elif isinstance(found, type):
            base = next((b.__name__ for b in found.__mro__[1:] if b.__module__ == "builtins"), "object")
            base = f"({aliased(base)})" if base not in ("object", "int", "type") else ""
            classes += [f"class {name}{base}:", *any_class(), ""]
        elif callable(found):
            calls.append(definition(name, found))
        else:
            kind = type(found).__name__
            shown = kind if kind in ("dtype", "memory_format", "layout", "float", "str") else "Any"
            plain.append(f"{name}: {aliased(shown)}")
    lines = [*modules, "from ._tensor import Tensor as Tensor", "", *classes, *plain, "", *calls]
    return whole(lines, "the registry and the public namespace")


def module_stub(module: str) -> str:
    if module == "return_types":
        lines = [f"{name}: {aliased('Any')}" for name in flambeau.return_types.__all__]
        return whole(lines, "the registry")
    names, public = published(module + "."), resolve(module)
    lines = [definition(name, names[name]) for name in sorted(names) if usable(name)]
    classes = [getattr(public, n) for n in getattr(public, "__all__", ()) if n not in names]
    homes = [
        f"from {c.__module__} import {c.__name__} as {c.__name__}"
        for c in classes
        if inspect.isclass(c) or inspect.isfunction(c)
    ]
    return whole([*homes, *lines], "the registry", "from flambeau import Tensor as Tensor")


def stubs() -> dict[str, str]:
    """The text of each stub by its path in the package."""
    found = {"__init__.pyi": package_stub(), "_tensor.pyi": tensor_stub()}
    for module in MODULES:
        path = module.replace(".", "/")
        source = f"{path}/__init__.pyi" if hasattr(resolve(module), "__path__") else f"{path}.pyi"
        found[source] = module_stub(module)
    return found


def resolve(module: str) -> ModuleType:
    found = flambeau
    for part in module.split("."):
        found = getattr(found, part)
    return found
