"""Schemas: read, written, inferred; errors that point at their place."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Optional

import pytest

import flambeau
from flambeau import Tensor
from flambeau.library import infer_schema
from flambeau.library._schema import parse_schema

EVERYTHING = (
    'm::f.ov(Tensor(a!) x, Tensor? y=None, int[] s=[1, 2], int[2] k=3, *, float z=0.001, str q="abc", ScalarType? d=None, '
    "Device dev=cpu, bool b=True, Tensor[] ts, Tensor?[] ots, Scalar sc=2, Tensor(b)[] bb, MemoryFormat? mf=None, Generator? g=None, "
    'Layout l, SymInt si=0, complex c, (int, Tensor) tup, Dict(str, Tensor) dct, Future(int) fu, str? os="x", float[]? of=None) -> '
    "(Tensor(a!), Tensor out2, int[])"
)


def test_what_is_written_reads_the_same():
    written = EVERYTHING.replace("dev=cpu", 'dev="cpu"')
    schema = parse_schema(written)
    assert str(schema) == EVERYTHING  # PyTorch writes devices without quotes
    assert (schema.name, schema.overload_name, schema.is_mutable, schema._is_view_op()) == (
        "m::f",
        "ov",
        True,
        True,
    )
    by_name = {a.name: a for a in schema.arguments}
    assert by_name["x"].alias_info.before_set == {"a"} and by_name["x"].is_write and not by_name["x"].is_out
    assert by_name["k"].default_value == [3, 3] and by_name["k"].N == 2
    assert str(by_name["y"].type) == "Optional[Tensor]" and by_name["y"].type.kind() == "OptionalType"
    assert (
        str(by_name["ots"].type) == "List[Optional[Tensor]]"
        and str(by_name["of"].type) == "Optional[List[float]]"
    )
    assert [r.name for r in schema.returns] == ["", "out2", ""]


@pytest.mark.parametrize(
    "text",
    ["f(Tensor x) -> ()", "f() -> ()", "f(Tensor x, ...) -> Tensor", "f(Tensor x) -> Tensor[]", "f(int x=-3) -> int?",
     "f(Tensor(a) x) -> Tensor(a)", "f(Tensor(a -> *) x) -> ()", "f(float x=1.) -> ()", 'f(str x="a\\"b\\n") -> ()'],
)  # fmt: skip
def test_others_that_are_written_as_they_were(text):
    assert str(parse_schema(text)) == text


@pytest.mark.parametrize(
    "text, said, under",
    [
        ("b(Tensor x -> Tensor", "expected ) but found 'arrow'", "->"),
        ("b(Tensr x) -> Tensor", "unknown type specifier", "Tensr"),
        ("b(tensor x) -> Tensor", "unknown type specifier", "tensor"),
        ("b(Tensor x) -> Foo", "unknown type specifier", "Foo"),
        ("b(Tensor) -> Tensor", "expected ident but found ')'", ")"),
        ("b(Tensor x,) -> Tensor", "expected ident but found ')'", ")"),
        ("b(int x=a) -> Tensor", "invalid numeric default", "a"),
        ("b(str x=abc) -> Tensor", "invalid numeric default", "abc"),
        ("b(Tensor x=3) -> Tensor", "expected None but found 'number'", "3"),
        ("b(int[ x) -> ()", "expected number but found 'ident'", "x"),
        ("b(int[] x=[1, 2) -> ()", "expected ] but found ')'", ")"),
        ("b(Tensor(a x) -> Tensor", "expected ) but found 'ident'", "x"),
        ("b b(Tensor x) -> Tensor", "expected eof but found 'ident'", "b"),
        ("b(Tensor x) -> Tensor junk", "expected eof but found 'ident'", "junk"),
        ("b.(int x) -> int", "expected ident but found '('", "("),
        (".b(int x) -> int", "expected ident but found '.'", "."),
        ("b(@int x) -> ()", "expected ident but found '@'", "@"),
        ("b(int x=1, int y) -> int", "Non-default positional argument follows", "int"),
    ],
)
def test_errors_point_at_their_place(text, said, under):
    with pytest.raises(RuntimeError) as error:
        parse_schema(text)
    message, shown, pointer, *_ = str(error.value).lstrip("\n").split("\n")
    assert said in message and shown == text
    start, length = pointer.index("~"), pointer.count("~")
    assert text[start : start + length] == under and pointer.endswith("<--- HERE")


@pytest.mark.parametrize(
    "text",
    ["", "f", "f(", "f(int", "f(int x)", "f(int x) ->", "f(int x) -> (", "f::", "f(Tensor x) -> Tensor("],
)
def test_what_ends_too_early_says_so(text):
    with pytest.raises(RuntimeError, match="eof|only the operator name"):
        parse_schema(text)


def test_no_prefix_or_spoiled_schema_crashes():
    for k in range(len(EVERYTHING)):
        for text in (
            EVERYTHING[:k],
            EVERYTHING[:k] + "\x00" + EVERYTHING[k:],
            EVERYTHING[:k] + EVERYTHING[k + 1 :],
        ):
            try:
                parse_schema(text)
            except RuntimeError as error:
                assert text in str(error) or "HERE" in str(error) or "only the operator name" in str(error)


def annotated(annotations, returns=Tensor):
    names = ", ".join(annotations)
    scope: dict = {}
    exec(f"def function({names}): pass", scope)
    function = scope["function"]
    function.__annotations__ = {**annotations, "return": returns}
    return function


@pytest.mark.parametrize(
    "annotation, told",
    [
        (Tensor, "Tensor x"),
        (Optional[Tensor], "Tensor? x"),  # noqa: UP045
        (Tensor | None, "Tensor? x"),
        (list[Tensor], "Tensor[] x"),
        (typing.List[Tensor], "Tensor[] x"),  # noqa: UP006
        (Sequence[Tensor], "Tensor[] x"),
        (list[Tensor | None], "Tensor?[] x"),
        (int, "SymInt x"),
        (list[int], "SymInt[] x"),
        (Optional[list[int]], "SymInt[]? x"),  # noqa: UP045
        (Optional[Sequence[float]], "float[]? x"),  # noqa: UP045
        (bool, "bool x"),
        (str, "str x"),
        (flambeau.types.Number, "Scalar x"),
        (flambeau.dtype, "ScalarType x"),
        (Optional[flambeau.device], "Device? x"),  # noqa: UP045
        ("Tensor", "Tensor x"),
    ],
)
def test_annotations(annotation, told):
    function = annotated({"x": annotation})
    function.__globals__["Tensor"] = Tensor
    assert infer_schema(function, mutates_args=()) == f"({told}) -> Tensor"


@pytest.mark.parametrize(
    "returns, told",
    [
        (None, "()"),
        (int, "SymInt"),
        (list[Tensor], "Tensor[]"),
        (tuple[Tensor, int], "(Tensor, SymInt)"),
        (tuple[Tensor], "((Tensor))"),
    ],
)
def test_results(returns, told):
    assert (
        infer_schema(annotated({"x": Tensor}, returns), op_name="f", mutates_args="unknown")
        == f"f(Tensor(a0!) x) -> {told}"
    )


@pytest.mark.parametrize(
    "annotations, returns, options, said",
    [
        ({"x": dict}, Tensor, {}, "Parameter x has unsupported type <class 'dict'>"),
        ({"x": tuple[int, int]}, Tensor, {}, r"try to use List instead. For example, list\[int\]"),
        ({"x": tuple}, Tensor, {}, "Parameter x has unsupported type"),
        ({"x": "Missing"}, Tensor, {}, "Unsupported type annotation Missing. It is not a type"),
        ({"x": int}, dict, {}, "Return has unsupported type <class 'dict'>"),
        ({"x": int}, tuple[dict], {}, "Return has unsupported type"),
        (
            {"x": int},
            Tensor,
            {"mutates_args": {"x"}},
            "only Tensors or collections of Tensors can be mutated",
        ),
        ({"x": int}, Tensor, {"mutates_args": {"y"}}, "were not found in the custom op's signature"),
        ({"x": Tensor}, Tensor, {"tags": flambeau.Tag.inplace}, "exactly the first positional argument"),
        ({"x": Tensor}, Tensor, {"tags": [flambeau.Tag.out]}, "at least one mutable keyword-only"),
        (
            {"x": Tensor},
            Tensor,
            {"tags": flambeau.Tag.out, "mutates_args": ["x"]},
            "arguments to be keyword-only",
        ),
        (
            {"x": Tensor},
            None,
            {"tags": flambeau.Tag.inplace, "mutates_args": ["x"]},
            "return annotation to be torch.Tensor",
        ),
    ],
)
def test_annotations_that_say_nothing(annotations, returns, options, said):
    with pytest.raises(ValueError, match=said):
        infer_schema(annotated(annotations, returns), **{"mutates_args": (), **options})


def test_functions_that_say_nothing():
    def many(*x: int) -> Tensor: ...
    def bare(x) -> Tensor: ...
    def silent(x: int): ...
    def odd(x: int = {}) -> Tensor: ...  # noqa: B006

    for function, said in (
        (many, "positional-only args, varargs"),
        (bare, "x must have a type annotation"),
        (silent, "No return type annotation"),
        (odd, "unsupported default value type <class 'dict'>"),
    ):
        with pytest.raises(ValueError, match=said):
            infer_schema(function, mutates_args=())
    with pytest.raises(AssertionError, match="mutually exclusive"):
        infer_schema(many, mutates_args=(), tags=[flambeau.Tag.inplace, flambeau.Tag.out])
