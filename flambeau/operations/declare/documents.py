"""What follows from the declaration of an operation for its docstring: shapes, dtypes, errors.

`__doc__` of an operation is put together when it is read (`core/call/operation.pyx:Document`): what the declaration says, then the
sections Args, Shape and Raises that are made here, then its examples.  A section that the declaration has itself is left as it is.
`facts` gives what the sections state; `tests/operations/test_documents.py` holds it against calls.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ...core.base import dtypes
from ...core.call.function import FunctionOp
from ...core.call.operation import Form, Op
from ...core.call.pointwise import InPlaceOp, PointwiseOp
from ...core.loops.rows import RowOp
from .registry import REGISTRY, Entry

# The dtypes that stand for groups, and what the groups are called.
GROUPS = {
    "bool": {"bool"},
    "integers": {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "floats": {"float16", "bfloat16", "float32", "float64"},
    "complex": {"complex64", "complex128"},
}
EXAMPLES = {"bool": "bool", "int32": "integers", "float32": "floats", "complex64": "complex"}
SECTION = re.compile(r"^(Args|Arguments|Shape|Raises|Returns):$", re.M)


class Facts(NamedTuple):
    """What a declaration says of calls.

    `shape` is "broadcast", "same" (as the first operand), "reduced" or "" (not known); `results` has the dtype of the result for
    examples of dtypes; `errors` the class and the reason of each error, by what causes it.
    """

    shape: str
    operands: tuple[str, ...]
    taken: frozenset[str]
    results: dict[str, str]
    errors: dict[str, tuple[type[Exception], str]]


# --- facts ------------------------------
def facts(entry: Entry) -> Facts | None:
    """What is known of the calls of an operation; None where its declaration is a function that says nothing of itself."""
    op = entry.details.get("computed_by", entry.function)  # a pointwise operation, behind checks
    if isinstance(op, PointwiseOp):
        return _of_pointwise(op, inspect.signature(entry.function))
    if isinstance(op, RowOp):
        return _of_rows(entry)
    function = inspect.unwrap(op.function) if isinstance(op, FunctionOp) else None
    if hasattr(function, "floating") and hasattr(function, "operands"):
        return _of_fallback(function)
    return None


def _of_pointwise(op: PointwiseOp, signature: inspect.Signature) -> Facts:
    declared = op.declaration
    errors = {
        "kind": (TypeError, _kinds(op)),
        "dtype": (NotImplementedError, f"the operands' common dtype is none of {words(declared.dtypes)}"),
    }
    for number, (refused, error, text) in enumerate(declared.refused):
        errors[f"refused {number}"] = error, f"of {words(refused)}: {text}"
    if not _missing(declared.dtypes, declared.refused):
        del errors["dtype"]
    if declared.alike:
        errors["alike"] = RuntimeError, f"the dtypes of {_listed(sorted(declared.alike))} differ"
    if "alpha" in declared.params:
        errors["alpha"] = RuntimeError, "`alpha` is a float, and the operands are integers or bool"
    if len(declared.operands) > 1:
        errors["broadcast"] = RuntimeError, "the shapes do not broadcast"
    if "out" in signature.parameters:
        errors["out"] = RuntimeError, "the result's dtype cannot be cast to that of `out`"
    shape = "same" if len(declared.operands) == 1 else "broadcast"
    return Facts(shape, declared.operands, declared.dtypes, _traced(declared), errors)


def _missing(taken: frozenset[str], refused: Any = ()) -> set[str]:
    """The example dtypes that an operation neither takes nor has an error of its own for."""
    return {d for d in EXAMPLES if d not in taken and not any(d in some for some, _, _ in refused)}


def _traced(declared: Any) -> dict[str, str]:
    """The result's dtype for operands of each example dtype, by tracing the body."""
    result = {}
    for name in EXAMPLES:
        integral = declared.int_to_float and name in ("bool", "int32")
        if (
            name not in declared.dtypes
            and not integral
            or any(name in some for some, _, _ in declared.refused)
        ):
            continue
        code = dtypes.by_name[name].code
        inputs = [(dtypes.by_name["bool"].code if n in declared.raw else code, 0) for n in declared.operands]
        result[name] = declared.instance(inputs, code)[1][0]
    return result


def _of_rows(entry: Entry) -> Facts:
    op, declared = entry.function, entry.function.declaration
    errors = {
        "kind": (TypeError, _kinds(op)),
        "dim": (IndexError, "`dim` is out of range"),
        "dtype": (NotImplementedError, f"the dtype is none of {words(declared.dtypes)}"),
    }
    if declared.name == "mean":
        errors["dtype"] = RuntimeError, f"the dtype is none of {words(declared.dtypes)}"
    if not _missing(declared.dtypes):
        del errors["dtype"]
    if declared.empty is not None:
        errors["empty"] = IndexError, "a row has no elements (RuntimeError where all dimensions are reduced)"
    results = {
        d: declared.program(declared.example(declared.accumulate(d)), declared.accumulate(d))[1][0]
        for d in EXAMPLES
        if d in declared.dtypes
    }
    return Facts(
        "reduced" if entry.kind == "reduction" else "same", ("input",), declared.dtypes, results, errors
    )


def _of_fallback(function: Any) -> Facts:
    floating = frozenset(GROUPS["floats"])
    taken = (
        floating | GROUPS["bool"] | GROUPS["integers"] if function.floating else frozenset(GROUPS["integers"])
    )
    operands = tuple(function.operands.parameters)
    kinds = "an argument is no Tensor" + (" (all but one may be numbers)" if function.numbers else "")
    errors: dict[str, tuple[type[Exception], str]] = {
        "kind": (TypeError, kinds),
        "dtype": (NotImplementedError, f"the operands' common dtype is none of {words(taken)}"),
    }
    if len(operands) > 1:
        errors["broadcast"] = RuntimeError, "the shapes do not broadcast"
    default = dtypes.get_default_dtype().name
    results = {
        d: d if d not in ("bool", "int32") or not function.floating else default
        for d in EXAMPLES
        if d in taken
    }
    return Facts("same" if len(operands) == 1 else "broadcast", operands, taken, results, errors)


def _kinds(op: Op) -> str:
    """What the arguments have to be, where the signature checks it; nothing where it checks none."""
    try:
        parameters = inspect.signature(op).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return ""
    named: dict[str, list[str]] = {}
    for p in parameters:
        kind = p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, "__name__", "")
        kind = " or ".join(
            "number" if k == "complex" else k for k in kind.replace("TensorBase", "Tensor").split(" | ")
        )
        if kind in _CHECKED or all(k in _CHECKED for k in kind.split(" or ")):
            named.setdefault(kind, []).append(p.name)
    description = [f"{_listed(names)} (to be {kind})" for kind, names in named.items()]
    return f"an argument is of another kind: {', '.join(description)}" if description else ""


_CHECKED = ("Tensor", "None", "int", "float", "bool", "str", "number", "dtype")


# --- text ------------------------------
def words(taken: frozenset[str]) -> str:
    """Dtypes in words, where there are words for them."""
    known = [word for word, group in GROUPS.items() if group <= taken]
    covered = set().union(*(GROUPS[w] for w in known)) if known else set()
    return _listed(known + sorted(taken - covered), "", "or")


def _listed(names: Any, quote: str = "`", last: str = "and") -> str:
    quoted = [f"{quote}{n}{quote}" for n in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


def sections(entry: Entry) -> Iterator[tuple[str, list[str]]]:
    """The sections that follow from the declaration: title and lines."""
    known = facts(entry)
    if known is None:
        lines = list(_of_function(entry.function))
        if lines:
            yield "Raises", lines
        return
    operands = ", ".join(known.operands)
    smooth = "" if entry.differentiable else ", without a derivative"
    yield (
        "Args",
        [f"{operands}: {words(known.taken)}{_other_dtypes(known)}; the result is {_result(known)}{smooth}"],
    )
    if known.shape == "broadcast":
        yield "Shape", [f"{operands}: any shapes that broadcast", "result: the shape they broadcast to"]
    elif known.shape == "same":
        yield "Shape", [f"{known.operands[0]}: any; a result has the same"]
    elif known.shape == "reduced":
        yield (
            "Shape",
            [
                f"{known.operands[0]}: any",
                "result: without `dim` (all by default), or with size 1 there under `keepdim`",
            ],
        )
    yield "Raises", [f"{error.__name__}: {text}" for error, text in known.errors.values() if text]


def _other_dtypes(known: Facts) -> str:
    more = [EXAMPLES[d] for d in known.results if d not in known.taken]
    return f", and {_listed(more, '')} by way of floats" if more else ""


def _result(known: Facts) -> str:
    """The dtype of the result."""
    description: dict[str, list[str]] = {}
    for given, result in known.results.items():
        if given == result:
            verdict = "of the operands' dtype" if len(known.operands) == 1 else "of their common dtype"
        elif given in ("bool", "int32") and given not in known.taken:
            verdict = "of the default dtype"
        elif result == "float32":
            verdict = "real" if given == "complex64" else "of the default dtype"
        else:
            verdict = result
        description.setdefault(verdict, []).append(EXAMPLES[given])
    if set(known.results.values()) == {"bool"}:
        return "bool"
    if len(description) == 1:
        return next(iter(description))
    return ", ".join(f"{verdict} for {_listed(groups, '')}" for verdict, groups in description.items())


def _of_function(op: Any) -> Iterator[str]:
    kinds = _kinds(op) if isinstance(op, Op) else ""
    if kinds:
        yield f"TypeError: {kinds}"


# --- the docstring ------------------------------
@functools.lru_cache(1)
def _entries(count: int) -> dict[int, Entry]:
    """The first `count` entries, which are all, by the identity of their operations."""
    written = {id(e.in_place): e for e in REGISTRY.values() if e.in_place is not None}
    return written | {id(e.function): e for e in REGISTRY.values()}


def entry_of(op: Op) -> Entry | None:
    """The entry that an operation, its form in place or a form that classes bind stands in."""
    return _entries(len(REGISTRY)).get(id(op.op if isinstance(op, Form) else op))


def declared(op: Op) -> str | None:
    """What the declaration itself says."""
    own = vars(op).get("__doc__")
    return declared(op.op) if own is None and isinstance(op, Form) else own


def document(op: Op) -> str | None:
    """The docstring of an operation."""
    own, entry = declared(op), entry_of(op)
    if not own or entry is None:
        return own
    text = inspect.cleandoc(own)
    if isinstance(op.op if isinstance(op, Form) else op, InPlaceOp):
        return "\n\n".join([text, *_titled(_in_place(entry))])
    there = {"Args" if title == "Arguments" else title for title in SECTION.findall(text)}
    added = _titled((title, lines) for title, lines in sections(entry) if title not in there)
    prose, mark, examples = text.partition("\n>>> ")
    if entry.by_host is not None:
        added.insert(0, f"Tensors of accelerators are taken to the CPU and back: {entry.by_host}.")
    return "\n\n".join([prose.strip(), *added, *([">>> " + examples] if mark else [])])


def _titled(parts: Iterable[tuple[str, list[str]]]) -> list[str]:
    return ["\n".join([f"{title}:", *(f"    {line}" for line in lines)]) for title, lines in parts]


def _in_place(entry: Entry) -> Iterator[tuple[str, list[str]]]:
    """The sections of a pointwise operation whose result is written over its first operand."""
    known = _of_pointwise(entry.function, inspect.signature(entry.function))
    first, *others = known.operands
    yield "Args", [f"{', '.join(known.operands)}: {words(known.taken)}{_other_dtypes(known)}"]
    more = f"; {_listed(others)} broadcast to it" if others else ""
    yield "Shape", [f"{first}: any, which stays{more}"]
    yield (
        "Raises",
        [
            f"{error.__name__}: {text.replace('of `out`', f'of `{first}`')}"
            for error, text in known.errors.values()
            if text
        ],
    )
