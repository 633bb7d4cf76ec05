"""What operations give is what their schemas say: over the sample calls of all of them."""

from __future__ import annotations

import pytest
import samples
from flambeau.core.call.operation import Op

import flambeau
from flambeau.core.call.types import SchemaType, annotated, described

KINDS = {"bool": bool, "int": int, "float": float, "str": str, "number": (int, float, complex)}


def fits(kind: SchemaType, found: object) -> bool:
    text = str(kind)
    if text.startswith("Optional["):
        return found is None or fits(kind._replace(form=kind.form[:-1]), found)
    if text.startswith("List["):
        return isinstance(found, (tuple, list)) and all(
            fits(kind._replace(form=kind.form[:-2]), x) for x in found
        )
    return kind.base == "Any" or isinstance(found, flambeau.Tensor if text == "Tensor" else KINDS[text])


def one_form(entry) -> bool:
    """Whether all calls of an operation give the same kind of thing."""
    return (
        isinstance(entry.function, Op)
        and len({o.rpartition("->")[2] for o in entry.details.get("overloads") or ()}) < 2
    )


CASES = [(entry, text) for entry, text in samples.ALL if one_form(entry)]


@pytest.mark.parametrize("entry, text", CASES, ids=[f"{e.name}({text})" for e, text in CASES])
def test_results_are_what_the_schema_says(entry, text):
    try:
        found = samples.result(entry, text, samples.Operands())
    except NotImplementedError:
        pytest.skip("not of these operands")
    told = entry.function._schema.returns
    if len(told) == 1:
        assert fits(told[0].type, found), str(entry.function._schema)
        return
    assert isinstance(found, tuple) and len(found) == len(told), str(entry.function._schema)
    assert all(fits(r.type, x) for r, x in zip(told, found))
    if any(r.name for r in told):
        assert found._fields == tuple(r.name for r in told)


def test_types_of_annotations():
    for annotation, default, written in (
        ("Tensor", None, "Tensor"),
        ("TensorBase | None", (None,), "Tensor?"),
        ("int | Sequence[int] | None", (None,), "SymInt[]?"),
        ("Tensor | complex", None, "Tensor"),
        ("Sequence[Tensor | None]", None, "Tensor?[]"),
        ("tuple[int, ...]", None, "SymInt[]"),
        ("Callable", None, "Any"),
        ("", (False,), "bool"),
        ("", (1.5,), "float"),
        ("", (None,), "Any?"),
    ):
        assert annotated(annotation, default).written() == written
    assert described(flambeau.sort.__signature__).parameters[1].written() == "SymInt"


@pytest.mark.parametrize(
    "name, written",
    [
        ("sort", "(Tensor values, Tensor indices)"),
        ("linalg_svd", "(Tensor U, Tensor S, Tensor Vh)"),
        ("equal", "bool"),
        ("chunk", "Tensor(a)[]"),
        ("meshgrid", "Tensor[]"),
        ("add_", "Tensor(a!)"),
        ("transpose", "Tensor(a)"),
        ("native_layer_norm", "(Tensor, Tensor, Tensor)"),
        ("exp", "Tensor"),
    ],
)
def test_schemas_end_in_their_results(name, written):
    (op,) = set(getattr(flambeau.ops.aten, name).op_overloads())
    assert str(op._schema).rpartition("-> ")[2] == written
