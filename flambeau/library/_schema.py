"""Schemas: what an operation takes and returns, in PyTorch's notation, read and written.

    name.overload(Tensor x, int[] sizes=[1, 2], *, Tensor(a!) out) -> (Tensor, Tensor(a!))

An error points at the place that it speaks of.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.call.signature import Signature
from ..core.call.types import BASES, AliasInfo, Result, SchemaType, Types

CONSTANTS = {"True": True, "False": False, "None": None, "Mean": 1, "Sum": 2}
NUMBERS = {"inf": float("inf"), "nan": float("nan")}
NAMES_OF_DTYPES = frozenset(
    """uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool bfloat16 float8_e5m2 float8_e4m3fn
    uint16 uint32 uint64 byte char short int long half float double cfloat cdouble""".split()
)
NAMES_OF_FORMATS = frozenset(("contiguous_format", "preserve_format", "channels_last", "strided"))


class Argument(NamedTuple):
    """An argument, or a result, of an operation."""

    name: str
    type: SchemaType
    default_value: Any = None
    defaulted: bool = False
    kwarg_only: bool = False
    alias_info: AliasInfo | None = None

    @property
    def N(self) -> int | None:
        """How many elements a number stands for."""
        return self.type.length

    @property
    def real_type(self) -> SchemaType:
        """The type as the schema names it."""
        return self.type

    @property
    def is_write(self) -> bool:
        """Whether the operation writes to it."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """Whether it is written to and given by name alone."""
        return self.is_write and self.kwarg_only

    def has_default_value(self) -> bool:
        """Whether it may be left out."""
        return self.defaulted

    def __str__(self) -> str:
        text = self.type.written(self.alias_info) + (f" {self.name}" if self.name else "")
        return f"{text}={_default(self)}" if self.defaulted else text


def quoted(text: str) -> str:
    """A text as a schema writes it.

    >>> from flambeau.library._schema import quoted
    >>> print(quoted('a "b"'))
    "a \\"b\\""
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _default(argument: Argument) -> str:
    value = argument.default_value
    if argument.type.length is not None and isinstance(value, list) and len(set(value)) == 1:
        value = value[0]
    if isinstance(value, str) and argument.type.base == "str":
        return quoted(value)
    if isinstance(value, float) and value == int(value if abs(value) < 1e15 else 0):
        return f"{int(value)}."
    return str(value)


class FunctionSchema:
    """A signature under a name, as PyTorch's programs read it.

    >>> from flambeau.library._schema import parse_schema
    >>> schema = parse_schema("mylib::scale(Tensor x, float by=2) -> Tensor")
    >>> schema.name, [a.name for a in schema.arguments], schema.arguments[1].default_value
    ('mylib::scale', ['x', 'by'], 2.0)
    >>> print(schema)
    mylib::scale(Tensor x, float by=2.) -> Tensor
    """

    def __init__(self, name: str, overload_name: str, signature: Signature) -> None:
        self.name, self.overload_name, self.signature = name, overload_name, signature

    @functools.cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The parameters of the signature."""
        declared, defaults = self.signature.types(), self.signature.defaults
        return tuple(
            Argument(name, kind, defaults.get(name), name in defaults, k >= self.signature.by_position, alias)
            for k, (name, kind, alias) in enumerate(
                zip(self.signature.names, declared.parameters, declared.aliases)
            )
        )

    @functools.cached_property
    def returns(self) -> tuple[Argument, ...]:
        """The results, named or not."""
        return tuple(Argument(r.name, r.type, alias_info=r.alias) for r in self.signature.types().results)

    @property
    def is_vararg(self) -> bool:
        """Whether it takes more arguments than are named."""
        return self.signature.takes_more

    @property
    def is_varret(self) -> bool:
        """Whether it returns more than the schema says."""
        return self.signature.types().varied

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def is_mutable(self) -> bool:
        """Whether the operation writes to an argument."""
        return any(a.is_write for a in self.arguments)

    def _is_view_op(self) -> bool:
        """Whether results share memory with arguments that are not written to."""
        aliases = [a.alias_info for a in self.arguments if a.alias_info is not None]
        return bool(aliases) and not all(k.is_write for k in aliases)

    def __str__(self) -> str:
        words: list[str] = []
        for k, argument in enumerate(self.arguments):
            if argument.kwarg_only and (k == 0 or not self.arguments[k - 1].kwarg_only):
                words.append("*")
            words.append(str(argument))
        words += ["..."] * self.is_vararg
        name = f"{self.name}.{self.overload_name}" if self.overload_name else self.name
        results = ", ".join([str(r) for r in self.returns] + ["..."] * self.is_varret)
        alone = len(self.returns) == 1 and not self.returns[0].name and self.returns[0].type.base != "("
        return f"{name}({', '.join(words)}) -> {results if alone and not self.is_varret else f'({results})'}"


def signature_of(
    arguments: Sequence[Argument], results: Sequence[Result], more: bool = False, varied: bool = False
) -> Signature:
    """The signature of these parameters; `more`: it takes others, too, `varied`: it returns others, too."""
    types = Types(
        tuple(a.type for a in arguments), tuple(a.alias_info for a in arguments), tuple(results), varied
    )
    return Signature(
        tuple(a.name for a in arguments),
        sum(not a.kwarg_only for a in arguments),
        next((k for k, a in enumerate(arguments) if a.defaulted), len(arguments)),
        open=more,
        defaults={a.name: a.default_value for a in arguments if a.defaulted},
        whole=types,
    )


# --- reading ------------------------------
class _Token(NamedTuple):
    kind: str  # "ident", "number", "string", "arrow", "newline", "eof", or the sign itself
    text: str
    at: int


_TOKENS = re.compile(
    r"""(?P<space>[ \t]+) | (?P<arrow>->) | (?P<dots>\.\.\.) | (?P<ident>[A-Za-z_][A-Za-z_0-9]*)
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?j?) | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    | (?P<newline>\n) | (?P<scope>::) | (?P<sign>.)""",
    re.VERBOSE,
)


def _tokens(text: str) -> list[_Token]:
    result = []
    for match in _TOKENS.finditer(text):
        kind = match.lastgroup or ""
        if kind == "space":
            continue
        result.append(
            _Token(match[0] if kind in ("sign", "dots", "scope") else kind, match[0], match.start())
        )
    result.append(_Token("eof", "", len(text)))
    return result


class _Reader:
    """Reads one schema from the left to the right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.next = 0

    # --- tokens ---
    def is_at(self, *kinds: str) -> bool:
        return self.tokens[self.next].kind in kinds

    def take(self) -> _Token:
        token = self.tokens[self.next]
        self.next = min(self.next + 1, len(self.tokens) - 1)
        return token

    def passed(self, kind: str) -> bool:
        if self.is_at(kind):
            self.take()
            return True
        return False

    def need(self, kind: str) -> _Token:
        if not self.is_at(kind):
            got = self.tokens[self.next]
            raise self.wrong(f"expected {kind} but found '{got.kind}' here:", got)
        return self.take()

    def wrong(self, why: str, token: _Token) -> RuntimeError:
        """The error that points at a token."""
        if token.kind == "eof":
            return RuntimeError(f"{why}\n{self.text}")
        line = self.text.count("\n", 0, token.at)
        column = token.at - (self.text.rfind("\n", 0, token.at) + 1)
        lines = self.text.split("\n")
        lines.insert(line + 1, " " * column + "~" * max(len(token.text.strip("\n")), 1) + " <--- HERE")
        return RuntimeError(why + "\n" + "\n".join(lines) + "\n")

    # --- the grammar ---
    def schema(self) -> FunctionSchema:
        name = self.need("ident").text
        while self.is_at("::"):
            self.take()
            name += "::" + self.need("ident").text
        overload = self.need("ident").text if self.passed(".") else ""
        if overload and self.is_at("::"):
            got = self.tokens[self.next]
            raise self.wrong(f"expected ( but found '{got.kind}' here:", got)
        if self.is_at("eof"):
            raise RuntimeError("Tried to parse a function schema but only the operator name was given")
        if not self.is_at("("):
            got = self.tokens[self.next]
            raise self.wrong(f"expected eof but found '{got.kind}' here:", got)
        arguments, vararg = self.arguments()
        self.need("arrow")
        returns, varret = self.returns()
        if not self.is_at("eof"):
            got = self.tokens[self.next]
            raise self.wrong(f"expected eof but found '{got.kind}' here:", got)
        return FunctionSchema(name, overload, signature_of(arguments, returns, vararg, varret))

    def arguments(self) -> tuple[list[Argument], bool]:
        result: list[Argument] = []
        by_name = vararg = False
        self.need("(")
        while not self.is_at(")") or result or by_name:
            if self.passed("*"):
                by_name = True
            elif self.passed("..."):
                vararg = True
            else:
                at = self.tokens[self.next]
                argument = self.argument(by_name)
                if not argument.defaulted and not by_name and any(a.defaulted for a in result):
                    raise self.wrong(
                        f"Non-default positional argument follows default argument. Parameter {argument.name}:",
                        at,
                    )
                result.append(argument)
            if not self.passed(","):
                break
        self.need(")")
        return result, vararg

    def argument(self, by_name: bool) -> Argument:
        kind, alias = self.type_()
        name = self.need("ident").text
        if not self.passed("="):
            return Argument(name, kind, kwarg_only=by_name, alias_info=alias)
        return Argument(name, kind, self.default(kind), True, by_name, alias)

    def returns(self) -> tuple[list[Result], bool]:
        if self.passed("..."):
            return [], True
        if not self.is_at("("):
            kind, alias = self.type_()
            return [Result("", kind, alias)], False
        result: list[Result] = []
        varret = False
        self.take()
        while not self.is_at(")") or result:
            if self.passed("..."):
                varret = True
            else:
                kind, alias = self.type_()
                name = self.take().text if self.is_at("ident") else ""
                result.append(Result(name, kind, alias))
            if not self.passed(","):
                break
        self.need(")")
        return result, varret

    def type_(self) -> tuple[SchemaType, AliasInfo | None]:
        members: list[SchemaType] = []
        alias = None
        if self.passed("("):
            base = "("
            members = self.members()
        else:
            token = self.need("ident")
            base = token.text
            if base in ("Dict", "Future", "Await", "RRef", "Tuple", "Union") and self.passed("("):
                members = self.members()
            elif base not in BASES and not base[0].islower():
                raise self.wrong(
                    "\nunknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, Scalar; the full "
                    f"list: {', '.join(BASES)} :",
                    token,
                )
            elif base not in BASES and len(base) > 1:
                raise self.wrong(
                    f"\nunknown type specifier. Valid schema types are {', '.join(BASES)} :", token
                )
        if base == "Tensor" and self.is_at("("):
            alias = self.alias()
        form, length = "", None
        while self.is_at("[", "?"):
            if self.take().kind == "?":
                form += "?"
                continue
            if not self.is_at("]"):
                length = int(self.need("number").text)
            self.need("]")
            form += "[]"
            if base != "Tensor" and self.is_at("("):
                alias = self.alias()
        return SchemaType(base, form, length, tuple(members)), alias

    def members(self) -> list[SchemaType]:
        result = [self.type_()[0]]
        while self.passed(","):
            result.append(self.type_()[0])
        self.need(")")
        return result

    def alias(self) -> AliasInfo:
        self.need("(")
        before = self.sets()
        write = self.passed("!")
        after = self.sets() if self.passed("arrow") else before
        self.need(")")
        return AliasInfo(before, after, write)

    def sets(self) -> frozenset[str]:
        if self.passed("*"):
            return frozenset("*")
        result = [self.need("ident").text]
        while self.passed("|"):
            result.append(self.need("ident").text)
        return frozenset(result)

    def default(self, kind: SchemaType) -> Any:
        token = self.tokens[self.next]
        value = self.value(kind)
        if kind.base == "Tensor" and not kind.form and value is not None:
            raise self.wrong(f"expected None but found '{token.kind}' here:", token)
        if kind.base in ("float", "double") and type(value) is int:
            value = float(value)
        if "[" in kind.form and kind.length is not None and not isinstance(value, list | None):
            value = [value] * kind.length
        return value

    def value(self, kind: SchemaType) -> Any:
        token = self.take()
        if token.kind == "[":
            result: list[Any] = []
            while not self.is_at("]") or result:
                result.append(self.value(kind))
                if not self.passed(","):
                    break
            self.need("]")
            return result
        if token.kind == "-":
            return -self.value(kind)
        if token.kind == "number":
            if token.text.isdigit():
                return int(token.text)
            return complex(token.text) if token.text.endswith("j") else float(token.text)
        if token.kind == "string":
            try:
                return ast.literal_eval(token.text)
            except (SyntaxError, ValueError):
                raise self.wrong("invalid string:", token) from None
        if token.kind == "ident":
            if token.text in CONSTANTS:
                return CONSTANTS[token.text]
            if token.text in NUMBERS and kind.base in ("float", "double", "Scalar", "complex"):
                return NUMBERS[token.text]
            if token.text in NAMES_OF_DTYPES and kind.base in ("ScalarType", "int"):
                return token.text
            if token.text in NAMES_OF_FORMATS and kind.base in ("MemoryFormat", "Layout", "int"):
                return token.text
        raise self.wrong("\ninvalid numeric default value:", token)


def parse_schema(schema: str) -> FunctionSchema:
    """The schema that a text says; RuntimeError, which points at the place, where it says none.

    >>> from flambeau.library._schema import parse_schema
    >>> parse_schema("f(Tensor x -> Tensor")
    Traceback (most recent call last):
    RuntimeError: expected ) but found 'arrow' here:
    f(Tensor x -> Tensor
               ~~ <--- HERE
    <BLANKLINE>
    """
    if not isinstance(schema, str):
        raise TypeError(
            f"parse_schema(): argument 'schema' (position 1) must be str, not {type(schema).__name__}"
        )
    return _Reader(schema).schema()


def mutated(schema: FunctionSchema) -> tuple[list[int], list[str]]:
    """Which arguments the operation writes to: the places of those given by position, and the names of the others."""
    places = [k for k, a in enumerate(schema.arguments) if a.is_write and not a.kwarg_only]
    return places, [a.name for a in schema.arguments if a.is_write and a.kwarg_only]


def is_functional(schema: FunctionSchema, valid_views: bool = False) -> bool:
    """Whether the operation only makes new results (or, where allowed, one view of its one tensor)."""
    if schema.is_mutable or not schema.returns:
        return False
    if any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns):
        tensors: Sequence[list[Argument]] = (
            [a for a in schema.arguments if a.type == SchemaType("Tensor")],
            [r for r in schema.returns if r.type == SchemaType("Tensor")],
        )
        return valid_views and [len(t) for t in tensors] == [1, 1]
    return True


def has_named_tensors(schema: FunctionSchema) -> bool:
    """Whether a tensor is given by name alone."""
    return any(a.kwarg_only and a.type.base == "Tensor" for a in schema.arguments)
