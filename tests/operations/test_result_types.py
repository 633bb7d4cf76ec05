"""What operations give is what the stubs say they give: over the sample calls of all of them."""

from __future__ import annotations

import ast
import functools
import pathlib

import pytest
import samples

import flambeau

PACKAGE = pathlib.Path(flambeau.__file__).parent
PLAIN = {
    "_bool": bool,
    "_int": int,
    "_float": float,
    "_str": str,
    "_dtype": flambeau.dtype,
    "None": type(None),
}


@functools.cache
def declared(module: str) -> dict[str, list[ast.expr]]:
    """What a stub says that its functions give, one for each overload."""
    path = PACKAGE / (module.replace(".", "/") + ".pyi") if module else PACKAGE / "__init__.pyi"
    path = path if path.exists() else path.with_suffix("") / "__init__.pyi"
    body = ast.parse(path.read_text()).body
    body = next((n.body for n in body if isinstance(n, ast.ClassDef) and n.name == "Tensor"), body)
    found: dict[str, list[ast.expr]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node.returns)
    return found


def fits(kind: ast.expr, found: object) -> bool:
    if isinstance(kind, ast.BinOp):
        return fits(kind.left, found) or fits(kind.right, found)
    if isinstance(kind, ast.Subscript):
        items = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
        if not isinstance(found, (tuple, list)):
            return False
        if isinstance(items[-1], ast.Constant) and items[-1].value is ...:
            return all(fits(items[0], x) for x in found)
        return len(items) == len(found) and all(map(fits, items, found))
    text = ast.unparse(kind)
    if text.startswith("_return_types."):
        return type(found) is getattr(flambeau.return_types, text.partition(".")[2])
    if text in PLAIN:
        return isinstance(found, PLAIN[text])
    return text == "Tensor" and isinstance(found, flambeau.Tensor)


def places(entry) -> list[tuple[str, str]]:
    found = [p.rpartition(".")[::2] for p in entry.places]
    return [
        (head if head != "Tensor" else "_tensor", name) for head, name in found if not name.startswith("_")
    ]


STUBBED = ("", "_tensor", "nn.functional", "linalg", "fft", "special", "masked", "signal.windows")
CALLS = [(e, text) for e, text in samples.ALL if any(p[0] in STUBBED for p in places(e))]


@pytest.mark.parametrize("entry, text", CALLS, ids=[f"{e.name}({text})" for e, text in CALLS])
def test_results(entry, text):
    try:
        found = samples.result(entry, text, samples.Operands())
    except NotImplementedError:
        pytest.skip("not of these operands")
    for module, name in places(entry):
        if module in STUBBED:
            kinds = declared(module)[name]
            assert any(fits(kind, found) for kind in kinds), (module, name, [ast.unparse(k) for k in kinds])


@pytest.mark.parametrize("name", flambeau.return_types.__all__)
def test_results_show_a_field_a_line(name):
    kind = getattr(flambeau.return_types, name)
    values = [flambeau.eye(2) * k for k in range(len(kind._fields))]
    fields = ",\n".join(f"{field}={value!r}" for field, value in zip(kind._fields, values))
    assert repr(kind(*values)) == str(kind(*values)) == f"flambeau.return_types.{name}(\n{fields})"
