"""The types that signatures tell: annotations, what names of parameters stand for everywhere, and defaults."""

from __future__ import annotations

import ast
import inspect
import re
import types
from math import isfinite

from flambeau.operations.declare.registry import Entry

ALIASES = {  # written with an underscore, since a stub's own names (`float`, `device`, `range`) would hide them
    **dict.fromkeys("bool bytes complex dict float int list object slice str tuple type".split(), "builtins"),
    **dict.fromkeys(("Callable", "Iterable", "Iterator", "Sequence"), "collections.abc"),
    **dict.fromkeys("Any Literal NamedTuple Self SupportsIndex TypeVar overload".split(), "typing"),
    **dict.fromkeys(
        "Generator Size UntypedStorage device dtype layout memory_format qscheme return_types".split(),
        "flambeau",
    ),
    "TypedStorage": "flambeau.storage",
    "RemovableHandle": "flambeau.utils.hooks",
    "numpy": "",
}
VARIABLES = {"F": "Callable[..., Any]", "T": "Tensor"}  # of types, with their bounds
SIZES = "int | Sequence[int]"
NAMED = {  # what parameters without an annotation are, by their names
    **dict.fromkeys(
        """input self tensor source index weight target mat1 mat2 tensors others input1 input2 x1 x2 anchor positive negative
        condition log_probs targets""".split(),
        "Tensor",
    ),
    **dict.fromkeys("other x src value exponent min max fill_value mean std var".split(), "Tensor | complex"),
    "out": "Tensor | tuple[Tensor, ...] | None",
    "dim": "int | Sequence[int] | None",
    **dict.fromkeys(
        """dim0 dim1 start_dim end_dim chunks groups axis0 axis1 window_length M sections dimension steps
        row col blank""".split(),
        "int",
    ),
    **dict.fromkeys(
        """kernel_size stride dilation output_padding size sizes dims dims_ shape_ shifts split_sizes split_size repeats_
        split_size_or_sections normalized_shape s""".split(),
        SIZES,
    ),
    "shape": f"{SIZES} | dtype",  # `view` takes a dtype, too
    "padding": f"{SIZES} | str",
    "output_size": "int | None | Sequence[int | None]",
    **dict.fromkeys(("scale_factor", "output_ratio"), "float | Sequence[float] | None"),
    **dict.fromkeys(("storage_offset", "divisor_override"), "int | None"),
    **dict.fromkeys(
        """keepdim requires_grad inplace ceil_mode return_indices accumulate sym pin_memory full swap train
        bidirectional batch_first has_biases""".split(),
        "bool",
    ),
    **dict.fromkeys(("alpha", "beta"), "complex"),
    **dict.fromkeys(("rtol", "atol", "lambd", "maxnorm"), "float"),
    **dict.fromkeys(("correction", "eps", "nan", "posinf", "neginf"), "float | None"),
    **dict.fromkeys(("p", "ord", "norm_type"), "float | str | None"),
    "n": "Tensor | int",
    **dict.fromkeys(("start", "end"), "Tensor | complex"),
    "step": "float",
    "q": "Tensor | float",
    "repeats": "Tensor | int",
    **dict.fromkeys(
        ("indices", "indices_or_sections", "input_lengths", "target_lengths"), f"Tensor | {SIZES}"
    ),
    **dict.fromkeys(("norm", "rounding_mode"), "str | None"),
    "size_average": "bool | None",
    "reduce": "str | bool | None",
    "pos_weight": "Tensor | None",
    "distance_function": "Callable[[Tensor, Tensor], Tensor] | None",
    "dtype": "dtype | None",
    "device": "device | str | int | None",
    "layout": "layout | None",
    "memory_format": "memory_format | None",
    "generator": "Generator | None",
    **dict.fromkeys(("mask", "bias", "_random_samples"), "Tensor | None"),
    "reduction": "str",
}
LISTED = ("tensors",)  # a sequence of such where it is one argument
OF_VIEWS = {  # where the first operand is cut, and nothing else is a tensor
    **dict.fromkeys(("source", "destination"), SIZES),
    **dict.fromkeys(("index", "start", "length", "offset", "dim1", "dim2"), "int"),
}

ANYTHING = {"tuple": "Any, ...", "list": "Any", "Callable": "..., Any"}  # what a bare one holds

used: set[str] = set()  # by the stub that is being written


class _StubNames(ast.NodeTransformer):
    """An annotation in the names that a stub has; what it cannot name is Any."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in ("TensorBase", "Tensor"):
            return ast.Name("Tensor")
        if node.id == "Tensors":
            return ast.parse("Sequence[Tensor]", mode="eval").body
        return node if node.id in ALIASES or node.id in VARIABLES else ast.Name("Any")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return node if ast.unparse(node.value) in ("numpy", "return_types") else ast.Name("Any")


def aliased(kind: str) -> str:
    """A type in the names that the stub imports."""

    def alias(m: re.Match) -> str:
        used.add(m[0])
        return "_" + m[0]

    return re.sub(rf"(?<!\.)\b({'|'.join((*ALIASES, *VARIABLES))})\b", alias, kind)


def typed(annotation: object) -> str:
    if isinstance(annotation, types.UnionType):  # of a module whose annotations are evaluated
        annotation = str(annotation)
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    new_text = ast.unparse(_StubNames().visit(ast.parse(text.strip("'\""), mode="eval")))
    return re.sub(r"\b(tuple|list|Callable)\b(?!\[)", lambda m: f"{m[0]}[{ANYTHING[m[0]]}]", new_text)


def _by_name(p: inspect.Parameter, entry: Entry | None) -> str:
    """The type of a parameter without an annotation, or with one that says nothing."""
    if entry is not None and entry.kind == "pointwise" and p.name in entry.details["operands"]:
        return "Tensor" if len(entry.details["operands"]) == 1 else "Tensor | complex"
    if entry is not None and entry.kind == "view" and p.name in OF_VIEWS:
        return OF_VIEWS[p.name]
    if p.name in NAMED:
        listed = p.name in LISTED and p.kind is not p.VAR_POSITIONAL
        return f"Sequence[{NAMED[p.name]}]" if listed else NAMED[p.name]
    if isinstance(p.default, (bool, str)):
        return type(p.default).__name__
    return "float" if isinstance(p.default, (int, float)) else "Any"


def parameter(p: inspect.Parameter, entry: Entry | None) -> str:
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    kind = "Any" if p.annotation is p.empty else typed(p.annotation)
    if re.search(r"\bAny\b", kind):
        by_name = _by_name(p, entry)
        kind = kind if by_name == "Any" else by_name
    if p.default is None and kind != "Any" and "None" not in kind:
        kind += " | None"
    return f"{star}{p.name}: {aliased(kind)}" + ("" if p.default is p.empty else f" = {shown(p.default)}")


def shown(default: object) -> str:
    """A default as readers of the stub see it; `...` for what has no literal."""
    items = default if type(default) is tuple else (default,)
    plain = all(x is None or type(x) in (bool, int, str) or type(x) is float and isfinite(x) for x in items)
    return repr(default) if plain else "..."


def by_ones(function: object, p: inspect.Parameter) -> bool:
    """Whether sizes may stand one by one in place of this parameter."""
    return p.name == "size" and p.default is None and type(function).__name__ == "Factory"


def parameters(function: object) -> list[inspect.Parameter] | None:
    """The parameters of a function, None where they are not known."""
    try:
        return list(inspect.signature(function).parameters.values())  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def signature(function: object, entry: Entry | None, method: bool, whole: bool = False) -> str:
    """The parameters with their types; anything where they cannot be told.  A size comes one by one or as a `whole`."""
    known = parameters(function)
    if known is None:
        return ("self, " if method else "") + aliased("*args: Any, **kwargs: Any")
    texts: list[str] = []
    kind = None
    for k, p in enumerate(known):
        if by_ones(function, p):
            star = p.POSITIONAL_OR_KEYWORD if whole else p.VAR_POSITIONAL
            p = inspect.Parameter("size", star, annotation="Sequence[int]" if whole else SIZES)
        if kind is p.POSITIONAL_ONLY and p.kind is not kind:
            texts.append("/")
        if p.kind is p.KEYWORD_ONLY and kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            texts.append("*")
        kind = p.kind
        texts.append("self" if method and k == 0 else parameter(p, entry))
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        texts.append("/")
    return ", ".join(texts)


def head(text: str, name: str, method: bool = False) -> str:
    """The line that begins a function, from a signature as declarations and `compiled.pyi` write it."""
    node = ast.parse(f"def {name}{text}: ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    args = node.args
    for a in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if a is not None and a.annotation is not None:
            a.annotation = ast.Name(aliased(typed(ast.unparse(a.annotation))))
    if method:
        first = (args.posonlyargs or args.args)[0]
        first.arg, first.annotation = "self", None
    gives = "Any" if node.returns is None else typed(ast.unparse(node.returns))
    return f"def {name}({ast.unparse(args)}) -> {aliased(gives)}:"
