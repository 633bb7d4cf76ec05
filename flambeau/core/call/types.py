"""Types of parameters and results, in the notation of PyTorch's schemas: `Tensor?`, `int[2]`, `Tensor(a!)`.

`Types` is what a signature knows of them.  A schema says them; of a function its annotations and defaults do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import inspect

# What a type is called in a schema -> how PyTorch calls the values that arrive.
BASES = {
    "Tensor": "Tensor",
    "int": "int",
    "SymInt": "int",
    "float": "float",
    "double": "float",
    "complex": "complex",
    "bool": "bool",
    "SymBool": "bool",
    "str": "str",
    "Scalar": "number",
    "number": "number",
    "ScalarType": "int",
    "Device": "Device",
    "Layout": "int",
    "MemoryFormat": "int",
    "Generator": "Generator",
    "Storage": "Storage",
    "Stream": "Stream",
    "QScheme": "QScheme",
    "AnyEnumType": "AnyEnumType",
    "NoneType": "NoneType",
    "Any": "Any",
}
# What annotations call them.
_WORDS = {
    "Tensor": "Tensor",
    "TensorBase": "Tensor",
    "int": "SymInt",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "complex": "Scalar",
    "Number": "Scalar",
    "dtype": "ScalarType",
    "device": "Device",
    "layout": "Layout",
    "memory_format": "MemoryFormat",
    "Generator": "Generator",
    "Size": "SymInt[]",
    "Tensors": "Tensor[]",
}
_LISTS = ("Sequence", "list", "Iterable")


class SchemaType(NamedTuple):
    """The type of an argument or a result."""

    base: str  # as in the schema: "Tensor", "SymInt"; with members "(", "Dict", "Future"
    form: str = ""  # "", "[]", "?", "[]?", "?[]" …, the innermost first
    length: int | None = None  # "int[2]"
    members: tuple[SchemaType, ...] = ()

    @property
    def is_tensor(self) -> bool:
        """Whether it is a Tensor, an optional one included."""
        return self.base == "Tensor" and "[" not in self.form

    @property
    def is_tensors(self) -> bool:
        """Whether it is a list of Tensors."""
        return self.base == "Tensor" and "[" in self.form

    def kind(self) -> str:
        """PyTorch's name of the kind of type."""
        if self.form.endswith("?"):
            return "OptionalType"
        if self.form:
            return "ListType"
        names = {"str": "StringType", "number": "NumberType", "Device": "DeviceObjType", "bool": "BoolType"}
        description = BASES.get(self.base, self.base)
        return (
            "TupleType"
            if self.base == "("
            else names.get(description, description[:1].upper() + description[1:] + "Type")
        )

    def __str__(self) -> str:
        """As PyTorch prints types: Optional[Tensor], List[int]."""
        if self.members:
            inner = ", ".join(map(str, self.members))
            text = f"{'Tuple' if self.base == '(' else self.base}[{inner}]"
        else:
            text = BASES.get(self.base, self.base)
        for form in self.form.replace("[]", "["):
            text = f"List[{text}]" if form == "[" else f"Optional[{text}]"
        return text

    @property
    def annotation_str(self) -> str:
        """As PyTorch prints it."""
        return str(self)

    def written(self, alias: AliasInfo | None = None) -> str:
        """As a schema writes it."""
        if self.members:
            inner = ", ".join(m.written() for m in self.members)
            text = f"({inner})" if self.base == "(" else f"{self.base}({inner})"
        else:
            text = self.base
        form = self.form
        if self.length is not None:
            form = form.replace("[]", f"[{self.length}]", 1)
        return text + ("" if alias is None else str(alias)) + form


class AliasInfo(NamedTuple):
    """What a result may share memory with, and whether the memory is written to: `(a!)`."""

    before_set: frozenset[str]
    after_set: frozenset[str]
    is_write: bool

    def __str__(self) -> str:
        text = "|".join(sorted(self.before_set)) + ("!" if self.is_write else "")
        if self.before_set == self.after_set:
            return f"({text})"
        return f"({text} -> {'|'.join(sorted(self.after_set))})"


class Result(NamedTuple):
    """A result: its name, "" for none, its type, and what it may share memory with."""

    name: str
    type: SchemaType
    alias: AliasInfo | None = None


class Types:
    """The types of the parameters of a signature, what they may share memory with, and the results; `varied`: there may be more."""

    __slots__ = ("aliases", "parameters", "results", "varied")

    def __init__(
        self,
        parameters: tuple[SchemaType, ...],
        aliases: tuple[AliasInfo | None, ...] = (),
        results: tuple[Result, ...] = (),
        varied: bool = False,
    ) -> None:
        self.parameters, self.results, self.varied = parameters, results, varied
        self.aliases = aliases or (None,) * len(parameters)


TENSOR, ANYTHING = SchemaType("Tensor"), SchemaType("Any")


def described(signature: inspect.Signature) -> Types:
    """What the annotations and defaults of a function tell; what they do not is `Any`.

    >>> import inspect
    >>> from flambeau.core.call.types import described
    >>> def f(x: "Tensor", dim: "int | Sequence[int] | None" = None, keepdim=False) -> "tuple[Tensor, Tensor]": ...
    >>> [t.written() for t in described(inspect.signature(f)).parameters]
    ['Tensor', 'SymInt[]?', 'bool']
    >>> [r.type.written() for r in described(inspect.signature(f)).results]
    ['Tensor', 'Tensor']
    """
    named = [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return Types(
        tuple(
            annotated(
                "" if p.annotation is p.empty else p.annotation,
                None if p.default is p.empty else (p.default,),
            )
            for p in named
        ),
        results=results(
            "" if signature.return_annotation is signature.empty else signature.return_annotation
        ),
    )


def annotated(annotation: Any, default: tuple[Any] | None = None) -> SchemaType:
    """The type that an annotation, or without one a default, tells: of several the widest, a Tensor before numbers, lists before one."""
    words = _split(_text(annotation), "|")
    result = [t for t in map(_one, words) if t is not None]
    if len(result) < sum(w not in ("", "None") for w in words):
        result = [t for t in result if t.is_tensor] or [ANYTHING]
    if not result and default is not None:
        result = [_WORDS_OF_DEFAULTS[type(default[0])]] if type(default[0]) in _WORDS_OF_DEFAULTS else []
    best = max(result, key=lambda t: (t.is_tensor, "[" in t.form, t.base == "float"), default=ANYTHING)
    optional = "None" in words or (default is not None and default[0] is None)
    return best._replace(form=best.form + "?") if optional else best


_WORDS_OF_DEFAULTS = {
    bool: SchemaType("bool"),
    int: SchemaType("SymInt"),
    float: SchemaType("float"),
    str: SchemaType("str"),
}


def results(annotation: Any) -> tuple[Result, ...]:
    """The results that an annotation tells: one Tensor where there is none."""
    fields = getattr(annotation, "_fields", None)
    if fields is not None:  # a named tuple of tensors
        return tuple(Result(name, TENSOR) for name in fields)
    text = _text(annotation)
    if text == "None":
        return ()
    head, _, inner = text.partition("[")
    if head == "tuple" and inner and not inner.endswith("...]"):
        return tuple(Result("", annotated(part)) for part in _split(inner[:-1], ","))
    return (Result("", annotated(text) if text else TENSOR),)


def _text(annotation: Any) -> str:
    if annotation is None:
        return "None"
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.strip().strip("'\"")


def _split(text: str, sign: str) -> list[str]:
    """The pieces of a text between signs that stand in no brackets."""
    depth, result = 0, [""]
    for c in text:
        depth += (c == "[") - (c == "]")
        if c == sign and not depth:
            result.append("")
        else:
            result[-1] += c
    return [piece.strip() for piece in result]


def _one(word: str) -> SchemaType | None:
    """The type of one word of an annotation; None for one that no schema knows."""
    head, _, inner = word.partition("[")
    if inner and (head in _LISTS or (head == "tuple" and inner.endswith(", ...]"))):
        element = annotated(inner[:-1].removesuffix(", ..."))
        return None if element.base == "Any" else element._replace(form=element.form + "[]")
    base, listed, _ = _WORDS.get(word, "").partition("[]")
    return SchemaType(base, listed) if base else None
