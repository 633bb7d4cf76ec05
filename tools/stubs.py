"""Stubs for type checkers and editors: what the registry publishes, with the types that signatures tell (`stub_types.py`).

A declaration whose results follow from its arguments says so (`overloads`); which named tuple a result is, a sample call shows.
What is compiled and shows no signature stands in `compiled.pyi`.  The first paragraph of each docstring goes along, for editors
show it.  Modules written in Python need no stub: their sources are annotated, and `flambeau/py.typed` says so.
"""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import keyword
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import stub_types
from flambeau.core.call.operation import behind
from stub_types import ALIASES, VARIABLES, aliased, by_ones, head, parameters, shown, signature, typed

import flambeau
from flambeau.operations.declare.registry import REGISTRY, Entry, published
from flambeau.operations.declare.results import RESULTS
from flambeau.optim._declared import Declared

# Modules made of operations alone, with the depth of their package.
MODULES = ("nn.functional", "linalg", "fft", "special", "masked", "signal.windows")
PRIVATE = ("codegen", "core", "devices", "operations")  # rooms that are no part of what users import

COMPILED_CLASSES = {  # compiled modules whose classes stand in annotations, and what they are to checkers
    "core/base/tensor": "Tensor as TensorBase",
    "core/base/dtypes": "Size, device, dtype",
    "core/make/random": "Generator",
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
    (
        "conversion copy creation fallback indexed indexing join library masked pointwise random reduction row scan shape spectral view "
        "window"
    ).split()
)
NOT_ONE = {
    **dict.fromkeys(
        """split split_with_sizes chunk tensor_split unbind hsplit vsplit dsplit broadcast_tensors meshgrid
        split_copy split_with_sizes_copy unbind_copy""".split(),
        "tuple[Tensor, ...]",
    ),
    **dict.fromkeys(("__dlpack__", "__arrow_c_array__"), "Any"),
    **dict.fromkeys(("manual_seed", "default_generator"), "Generator"),
    **dict.fromkeys(("seed", "initial_seed"), "int"),
    **dict.fromkeys(("is_contiguous", "is_pinned"), "bool"),
    "set_rng_state": "None",
}
OPERATORS = re.compile(
    r"__[ri]?(add|sub|mul|truediv|floordiv|mod|pow|matmul|and|or|xor|lshift|rshift)__|__(eq|ne|lt|le|gt|ge)__"
)
WIDER = ("__eq__", "__ne__")  # than those of `object`

OWNERS: dict[int, Entry] = {}
for _entry in REGISTRY.values():
    for _function in (_entry.function, _entry.in_place):
        OWNERS.setdefault(id(_function), _entry)


def usable(name: str) -> bool:
    return not keyword.iskeyword(name) and (not name.startswith("_") or name == "__version__")


# --- functions ------------------------------
@functools.cache
def sampled(name: str) -> str | None:
    """The named tuple that an operation gives, if that is what a sample call gives."""
    import samples  # beside the tests, where `interface.py` finds it

    entry = REGISTRY[name]
    for text in samples.calls(entry) or ():
        try:
            cls = type(samples.result(entry, text, samples.Operands()))
        except NotImplementedError:
            continue
        if cls in RESULTS.values():
            return f"return_types.{cls.__name__}"
    return None


def declared(function: Callable) -> object:
    """The annotation of the result, on the operation or on the function that it calls."""
    for f in (function, getattr(function, "function", None)):
        try:
            annotation = inspect.signature(f).return_annotation  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        if annotation is not inspect.Signature.empty:
            return annotation
    return inspect.Signature.empty


def result(function: Callable, name: str) -> str:
    entry, annotation = OWNERS.get(id(function)), declared(function)
    if entry is not None and function is entry.function and (named := sampled(entry.name)):
        return named
    if annotation is not inspect.Signature.empty:
        return "None" if annotation in (None, "None") else typed(annotation)
    if entry is None:
        return "Any"
    if function is entry.in_place:
        return "Tensor"
    one = entry.kind in ONE_TENSOR and getattr(function, "outputs", 1) == 1
    return NOT_ONE.get(name.rstrip("_") if name[:2] != "__" else name, "Tensor" if one else "Any")


def paragraph(function: object, name: str) -> str:
    """The first paragraph of a docstring, without the signature that compiled functions begin with."""
    text = inspect.cleandoc(getattr(function, "__doc__", None) or "").partition(">>>")[0]
    line, _, rest = text.partition("\n")
    if line.startswith(f"{name}(") and " -> " in line:
        gives = line.partition(" -> ")[2]
        text = gives if gives.endswith(".") else rest
    first = " ".join(text.strip().partition("\n\n")[0].split())
    return first.replace("\\", "\\\\").replace('"""', "'''")


def documented(line: str, text: str, indent: str) -> str:
    end = " " if text.endswith('"') else ""
    return f'{indent}{line}\n{indent}    """{text}{end}"""' if text else f"{indent}{line} ..."


def definition(name: str, function: Callable, method: bool = False) -> str:
    function = behind(function)
    entry, indent = OWNERS.get(id(function)), "    " if method else ""
    if isinstance(function, type):
        return f"{indent}{name}: {aliased('Any')}"
    overloads = entry.details.get("overloads") if entry is not None and function is entry.function else None
    if overloads:
        lines = [head(text, name, method) for text in overloads]
    else:
        gives = aliased(result(function, name))
        several = any(by_ones(function, p) for p in parameters(function) or ())
        ways = (False, True) if several else (False,)
        lines = [f"def {name}({signature(function, entry, method, way)}) -> {gives}:" for way in ways]
    mark = f"{indent}@{aliased('overload')}\n" if len(lines) > 1 else ""
    return "\n".join(mark + documented(line, paragraph(function, name), indent) for line in lines)


# --- what is compiled ------------------------------
COMPILED = ast.parse((Path(__file__).parent / "compiled.pyi").read_text(), type_comments=True)
IGNORED = {mark.lineno: mark.tag for mark in COMPILED.type_ignores}
CLASSES = {node.name: node for node in COMPILED.body if isinstance(node, ast.ClassDef)}


def stated(scope: ast.ClassDef | ast.Module, name: str, own: object, indent: str) -> list[str]:
    """The lines that `compiled.pyi` has for a name, in the names of the stub."""
    return [line(n, own, indent) for n in scope.body if name == _named(n)]


def _named(node: ast.stmt) -> str:
    target = node.target if isinstance(node, ast.AnnAssign) else node
    return getattr(target, "name", None) or getattr(target, "id", "")


def line(node: ast.stmt, own: object, indent: str) -> str:
    if isinstance(node, ast.AnnAssign):
        return f"{indent}{_named(node)}: {aliased(typed(ast.unparse(node.annotation)))}"
    assert isinstance(node, ast.FunctionDef)
    marks = "".join(f"{indent}@{aliased(ast.unparse(d))}\n" for d in node.decorator_list)
    gives = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    text = head(f"({ast.unparse(node.args)}){gives}", node.name)
    if node.lineno in IGNORED:
        return f"{marks}{indent}{text} ...  # type: ignore{IGNORED[node.lineno]}"
    return marks + documented(text, "" if node.name[:2] == "__" else paragraph(own, node.name), indent)


def compiled_class(name: str) -> list[str]:
    """A class that `compiled.pyi` has in full."""
    node, cls = CLASSES[name], getattr(flambeau, name)
    bases = ", ".join(aliased(ast.unparse(b)) for b in node.bases)
    lines = [f"class {name}({bases}):" if bases else f"class {name}:", f'    """{ast.get_docstring(node)}"""']
    members = [n for n in node.body if isinstance(n, (ast.AnnAssign, ast.FunctionDef))]
    return [*lines, *(line(n, getattr(cls, _named(n), None), "    ") for n in members), ""]


# --- files ------------------------------
def whole(lines: list[str], said: str, *first: str) -> str:
    """A stub's text: where it comes from, the types it uses, its lines."""
    variables = [
        f"_{name} = {aliased('TypeVar')}({f'_{name}'!r}, bound={bound if bound == 'Tensor' else aliased(bound)})"
        for name, bound in VARIABLES.items()
        if name in stub_types.used
    ]
    names = sorted((n for n in stub_types.used if n in ALIASES and ALIASES[n]), key=lambda n: (ALIASES[n], n))
    imports = [f"from {ALIASES[n]} import {n} as _{n}" for n in names]
    imports += ["import numpy as _numpy"] if "numpy" in stub_types.used else []
    stub_types.used.clear()
    start = f"# Written by `python tools/interface.py` from {said}."
    return "\n".join([start, *imports, *first, *variables, "", *lines]) + "\n"


def any_class(name: str, of: type) -> list[str]:
    """A class whose attributes nobody looks up: PyTorch's types of scripts, and the old classes of tensors and storages."""
    bases = [b for b in of.__mro__[1:-1] if b.__module__ == "builtins" and b not in (int, type)]
    base = f"({aliased(bases[0].__name__) if bases[0] is tuple else bases[0].__name__})" if bases else ""
    return [
        f"class {name}{base}:",
        aliased("    def __init__(self, *args: Any, **kwargs: Any) -> None: ..."),
        aliased("    def __getattr__(self, name: str) -> Any: ..."),
        "",
    ]


def operator(name: str, own: object) -> str:
    if name in WIDER:
        return f"    def {name}(self, other: {aliased('object')}, /) -> Tensor: ...  # type: ignore[override]"
    return f"    def {name}(self, other: {aliased('Any')}, /) -> Tensor: ..."


def tensor_stub() -> str:
    cls, scope = flambeau.Tensor, CLASSES["Tensor"]
    lines = [
        "class Tensor:",
        f'    """{paragraph(cls, "Tensor")}"""',
        aliased("    def __init__(self, *args: Any, **kwargs: Any) -> None: ..."),
    ]
    methods = published("Tensor.")
    special = [
        n for n in dir(cls) if n[:2] == n[-2:] == "__" and n not in dir(object) or OPERATORS.fullmatch(n)
    ]
    for name in [*sorted(n for n in dir(cls) if usable(n)), *sorted(special)]:
        member = methods.get(name) or inspect.getattr_static(cls, name)
        if OPERATORS.fullmatch(name):
            lines.append(operator(name, member))
        elif stub := stated(scope, name, member, "    "):
            lines += stub
        elif callable(member) and not isinstance(member, (property, staticmethod, classmethod)):
            lines.append(definition(name, member, method=True))
        elif usable(name):
            lines.append(f"    {name}: {aliased(ATTRIBUTES.get(name, 'Any'))}")
    return whole([*lines, "    __hash__ = object.__hash__"], "the registry and the Tensor class")


def written_in(name: str, thing: object) -> str | None:
    """The module of flambeau in plain Python that defines a class or function: its types are read there."""
    for module, loaded in sorted(sys.modules.items()):
        path = getattr(loaded, "__file__", None) or ""
        if module.startswith("flambeau.") and path.endswith(".py") and vars(loaded).get(name) is thing:
            if re.search(rf"^(class|def) {name}\b", Path(path).read_text(), re.MULTILINE):
                return module.removeprefix("flambeau.")
    return None


def package_stub() -> str:
    functions = published("")
    modules, plain, calls, classes = [], [], [], []
    for name in sorted(n for n in dir(flambeau) if usable(n)):
        value = functions.get(name) or getattr(flambeau, name)
        kind = type(value)
        if isinstance(value, ModuleType):
            if value.__name__ == f"flambeau.{name}" and name not in PRIVATE and hasattr(value, "__file__"):
                modules.append(f"from . import {name} as {name}")
        elif name == "Tensor" or kind is __future__._Feature:
            continue
        elif name in CLASSES:
            classes += compiled_class(name)
        elif name not in functions and (home := written_in(name, value)):
            modules.append(f"from .{home} import {name} as {name}")
        elif isinstance(value, type):
            classes += any_class(name, value)
        elif stub := stated(COMPILED, name, value, ""):
            calls += stub
        elif callable(value) and kind is not flambeau.Generator:
            calls.append(definition(name, value))
        else:
            shown = "str" if isinstance(value, str) else "None" if value is None else kind.__name__
            plain.append(f"{name}: {aliased(shown if shown == 'None' or shown in ALIASES else 'Any')}")
    lines = [*modules, "from ._tensor import Tensor as Tensor", "", *classes, *plain, "", *calls]
    return whole(lines, "the registry and the public namespace")


def return_types_stub() -> str:
    """The named tuples, with a field that holds several tensors where a sample has one."""
    lines: list[str] = []
    for name in flambeau.return_types.__all__:
        lines += [f"class {name}({aliased('NamedTuple')}):"]
        lines += [f"    {field}: {aliased(kind)}" for field, kind in fields(name)] + [""]
    old = [
        f"{name} = {kind.__name__}"
        for name, kind in vars(flambeau.return_types).items()
        if renamed(name, kind)
    ]
    return whole([*lines, *old], "the registry", "from flambeau import Tensor as Tensor")


def renamed(name: str, kind: object) -> bool:
    return isinstance(kind, type) and kind in RESULTS.values() and kind.__name__ != name


def fields(name: str) -> list[tuple[str, str]]:
    import samples

    several: set[str] = set()
    for entry in REGISTRY.values():
        if sampled(entry.name) == f"return_types.{name}":
            result = samples.result(entry, samples.calls(entry)[0], samples.Operands())
            several |= {
                f
                for f in getattr(result, "_fields", ())
                if not isinstance(getattr(result, f), flambeau.Tensor)
            }
    return [(f, "tuple[Tensor, ...]" if f in several else "Tensor") for f in RESULTS[name]._fields]


def module_stub(module: str) -> str:
    names, public = published(module + "."), resolve(module)
    lines = [definition(name, names[name]) for name in sorted(names) if usable(name)]
    classes = [getattr(public, n) for n in getattr(public, "__all__", ()) if n not in names]
    homes = [
        f"from {c.__module__} import {c.__name__} as {c.__name__}"
        for c in classes
        if inspect.isclass(c) or inspect.isfunction(c)
    ]
    return whole([*homes, *lines], "the registry", "from flambeau import Tensor as Tensor")


def class_stub(path: str, names: str) -> str:
    """A compiled module's classes, which have their types elsewhere; its other names are anything."""
    known = dict(
        reversed(name.split(" as ")) if " as " in name else (name, name) for name in names.split(", ")
    )
    others = [n for n in vars(resolve(path.replace("/", "."))) if n not in known and not n.startswith("__")]
    lines = [f"from flambeau import {real} as {real}" for real in known.values()]
    lines += [f"{name} = {real}" for name, real in known.items() if name != real]
    return whole([*lines, "", *(f"{n}: {aliased('Any')}" for n in sorted(others))], "the compiled module")


def option(p: inspect.Parameter) -> str:
    """An option of an optimiser, by its default; numbers may stand in tensors, which steps read."""
    if p.name == "params":
        return "params: Params"
    number = "float | Tensor"
    kind = number
    if isinstance(p.default, tuple):
        kind = f"tuple[{', '.join(number + ' | None' * (x is None) for x in p.default)}]"
    if isinstance(p.default, bool) or p.default is None:
        kind = "bool" if isinstance(p.default, bool) else "bool | None"
    return f"{p.name}: {aliased(kind)} = {shown(p.default)}"


def optimiser_stub(module: str) -> str:
    """A module of optimisers whose constructors follow from declared options; the functions beside them take anything."""
    public = {n: f for n, f in vars(sys.modules[module]).items() if getattr(f, "__module__", None) == module}
    lines = []
    for name, cls in sorted((n, c) for n, c in public.items() if isinstance(c, type)):
        taken = inspect.signature(cls).parameters.values()
        keyword = next((k for k, p in enumerate(taken) if p.kind is p.KEYWORD_ONLY), len(taken))
        texts = [option(p) for p in taken]
        texts[keyword:keyword] = ["*"] if keyword < len(taken) else []
        lines += [f"class {name}(Declared):", documented("", paragraph(cls, name), "")[1:]]
        lines += [f"    def __init__(self, {', '.join(texts)}) -> None: ...", ""]
    lines.append(aliased("def __getattr__(name: str) -> Any: ..."))
    first = (
        "from flambeau import Tensor as Tensor",
        "from ._declared import Declared",
        "from .optimizer import Params",
    )
    return whole(lines, "the declared options", *first)


def stubs() -> dict[str, str]:
    """The text of each stub by its path in the package."""
    texts = {
        "__init__.pyi": package_stub(),
        "_tensor.pyi": tensor_stub(),
        "return_types.pyi": return_types_stub(),
        **{f"{path}.pyi": class_stub(path, names) for path, names in COMPILED_CLASSES.items()},
    }
    for module in MODULES:
        path = module.replace(".", "/")
        source = f"{path}/__init__.pyi" if hasattr(resolve(module), "__path__") else f"{path}.pyi"
        texts[source] = module_stub(module)
    for module in sorted(
        {c.__module__ for c in Declared.__subclasses__() if c.__module__.startswith("flambeau.optim.")}
    ):
        texts[module.partition(".")[2].replace(".", "/") + ".pyi"] = optimiser_stub(module)
    return texts


def resolve(module: str) -> ModuleType:
    resolved = flambeau
    for part in module.split("."):
        resolved = getattr(resolved, part)
    return resolved
