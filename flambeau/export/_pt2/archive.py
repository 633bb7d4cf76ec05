"""Archives of exported programs: what `export.load` reads and `export.save` writes, as PyTorch 2.13 does."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pickle import UnpicklingError
from typing import Any

from ..._files import load as load_file
from ..._files.archive import Archive, Source
from ..._files.errors import Damaged, require, short
from ...core.base import display
from .._ranges import ValueRanges
from .._verifier import VERIFIERS, SpecViolationError
from ..exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from ..graph_signature import ExportGraphSignature
from . import payload, schema
from .reader import MOST_NODES, GraphReader, check_name
from .signature import argument_spec, input_spec, output_spec
from .texts import UnparsedExpr, parsed

FORMAT, ARCHIVE_VERSION = "pt2", 0
WEIGHTS, CONSTANTS, MODELS, SAMPLES, EXTRA = (
    "data/weights",
    "data/constants",
    "models",
    "data/sample_inputs",
    "extra",
)
MOST_NAMES = 1 << 16


@contextmanager
def named(f: Any, who: str) -> Iterator[None]:
    """Put the function's name and the file's before what is wrong with it."""
    where = f"{display.NAME}.{who}: " + (
        "" if hasattr(f, "read") or hasattr(f, "write") else f"{os.fspath(f)!r}: "
    )
    try:
        yield
    except Damaged as error:
        raise RuntimeError(f"{where}{error}") from None
    except (UnpicklingError, SpecViolationError) as error:
        raise RuntimeError(f"{where}{error}") from None
    except RecursionError:
        raise RuntimeError(f"{where}graphs, arguments or structures lie in each other too deep") from None
    except EOFError as error:
        raise EOFError(f"{where}{error}") from None


def read(f: Any, extra_files: dict[str, Any] | None = None, map_location: Any = None) -> ExportedProgram:
    """`export.load` of a path or a binary file."""
    with named(f, "export.load"):
        if hasattr(f, "read"):
            return _read(f, extra_files, map_location)
        with open(f, "rb") as file:
            return _read(file, extra_files, map_location)


def _read(file: Any, extra_files: dict[str, Any] | None, map_location: Any) -> ExportedProgram:
    archive, root = opened(file)
    result = [n for n in archive.entries if n.startswith(f"{root}/{MODELS}/") and n.endswith(".json")]
    named_so = [n for n in result if n == f"{root}/{MODELS}/model.json"] or result
    if len(named_so) != 1:
        raise Damaged(f"the archive has {len(result)} programs, and none is called 'model'")
    program = _program(archive, root, named_so[0].rpartition("/")[2].removesuffix(".json"), map_location)
    for name in extra_files or ():
        if f"{root}/{EXTRA}/{name}" in archive.entries and extra_files is not None:
            extra_files[name] = _text(archive, f"{root}/{EXTRA}/{name}")
    return program


def opened(file: Any) -> tuple[Archive, str]:
    """The archive in a file, and the folder that everything in it is in; Damaged where it is none of `export.save`."""
    source = Source(file)
    if source.size == 0:
        raise EOFError("Ran out of input")
    require(
        source.read(0, min(4, source.size)) == b"PK\3\4",
        "this is no zip archive, so no program that export.save wrote",
    )
    archive = Archive(source, inflating=True)
    roots = [
        n.partition("/")[0] for n in archive.entries if n.endswith("/archive_format") and n.count("/") == 1
    ]
    if len(roots) != 1:
        old = any(n.startswith("serialized_exported_program.json") for n in archive.entries)
        raise Damaged(
            "the archive is of PyTorch before 2.8, whose programs are not read"
            if old
            else "the archive has no archive_format: it is no program that export.save wrote (load reads what save wrote)"
        )
    result = _text(archive, f"{roots[0]}/archive_format")
    require(result == FORMAT, f"the archive's format is {short(result)}, not {FORMAT!r}")
    if f"{roots[0]}/archive_version" in archive.entries:
        version = _text(archive, f"{roots[0]}/archive_version").strip()
        is_supported = version.isdigit() and len(version) < 9 and int(version) <= ARCHIVE_VERSION
        require(is_supported, f"the archive's version is {short(version)}; {ARCHIVE_VERSION} is read")
    return archive, roots[0]


def _text(archive: Archive, name: str) -> str:
    require(archive.entries[name].size <= schema.MOST_BYTES, f"{short(name)} has too many bytes")
    try:
        return archive.read(name).decode()
    except UnicodeDecodeError as error:
        raise Damaged(f"{short(name)} is no text: {error}") from None


# --- a program ------------------------------
def _program(archive: Archive, root: str, name: str, map_location: Any) -> ExportedProgram:
    entry = archive.entries[f"{root}/{MODELS}/{name}.json"]
    require(entry.size <= schema.MOST_BYTES, f"the program has {entry.size} bytes")
    data = schema.parsed(archive.read(entry.name), "ExportedProgram", f"{name}.json")
    version = data["schema_version"]
    if version["major"] != schema.VERSION[0]:
        raise Damaged(
            f"the program is of version {version['major']}.{version['minor']} of the schema; {schema.VERSION[0]} is read"
        )
    module = data["graph_module"]
    _check_namedtuples(module)
    signature = ExportGraphSignature(
        [input_spec(s) for s in module["signature"]["input_specs"]],
        [output_spec(s) for s in module["signature"]["output_specs"]],
    )
    require(len(signature.input_specs) <= MOST_NAMES, f"{len(signature.input_specs)} inputs")
    for spec in signature.input_specs:
        if spec.target is not None:
            check_name(spec.target, spec.kind.name.lower())
    reader = GraphReader(module["graph"], [MOST_NODES])
    made = reader.read([s.arg.name for s in signature.input_specs])
    _rename(signature, reader)
    state = payload.read(archive, root, WEIGHTS, f"{name}_weights_config.json", map_location)
    constants = payload.read(archive, root, CONSTANTS, f"{name}_constants_config.json", map_location)
    ranges = dict(_range(size, r) for size, r in data["range_constraints"].items())
    dialects = data.get("verifiers") or ["TRAINING"]
    unknown = [d for d in dialects if d not in VERIFIERS]
    require(not unknown, f"the graph is of the unknown dialect {short(unknown[:1] and unknown[0])}")
    program = ExportedProgram(
        made,
        made.graph,
        signature,
        state,
        ranges,
        [_call(entry, reader) for entry in module["module_call_graph"]],
        None,
        constants,
        verifiers=[VERIFIERS[d] for d in dialects],
    )
    program._hints = reader.hints
    program._guards_code = data.get("guards_code") or []
    _check_called(program)
    program._example_inputs = _samples(archive, f"{root}/{SAMPLES}/{name}.pt", program, map_location)
    return program


def _rename(signature: ExportGraphSignature, reader: GraphReader) -> None:
    """Let the signature have the names that the nodes have here."""
    nodes = {name: node.name for name, node in reader.nodes.items()}
    for spec in (*signature.input_specs, *signature.output_specs):
        spec.arg.name = nodes.get(spec.arg.name, spec.arg.name)
    outputs = {s.target for s in signature.output_specs if s.target is not None}
    renamed = {old: new for old, new in nodes.items() if old != new and old in outputs}
    for spec in signature.output_specs:
        if spec.kind.name.endswith("USER_INPUT_MUTATION") or spec.kind.name == "GRADIENT_TO_USER_INPUT":
            spec.target = renamed.get(str(spec.target), spec.target)


def _range(text: str, data: Any) -> tuple[Any, ValueRanges]:
    """A symbol, or an expression of one, with the numbers that it may stand for."""
    size = parsed(text)
    low, high = data.get("min_val"), data.get("max_val")
    low, high = float("-inf") if low is None else low, float("inf") if high is None else high
    require(low <= high, f"the size {str(size)[:80]} is at least {low} and at most {high}")
    return size, ValueRanges(low, high)


def _call(data: Any, reader: GraphReader) -> ModuleCallEntry:
    signature = data.get("signature")
    if signature is None:
        return ModuleCallEntry(data["fqn"])
    return ModuleCallEntry(
        data["fqn"],
        ModuleCallSignature(
            [argument_spec(a) for a in signature["inputs"]],
            [argument_spec(a) for a in signature["outputs"]],
            _structure(signature["in_spec"]),
            _structure(signature["out_spec"]),
            signature.get("forward_arg_names"),
        ),
    )


def _structure(text: str) -> Any:
    from ...utils._pytree import treespec_loads

    try:
        result = treespec_loads(text)
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError) as error:
        raise Damaged(f"a structure of arguments is damaged: {str(error)[:200]}") from None
    except NotImplementedError as error:
        raise Damaged(
            f"a structure of arguments is of a class that is not registered: {str(error)[:200]}"
        ) from None
    require(result.num_nodes <= MOST_NAMES, f"a structure of {result.num_nodes} parts")
    return result


def _check_namedtuples(module: Any) -> None:
    for name, data in (module.get("treespec_namedtuple_fields") or {}).items():
        require(
            all(f.isidentifier() for f in data["field_names"]), f"the fields of the named tuple {short(name)}"
        )


def _check_called(program: ExportedProgram) -> None:
    """That the program's arguments and result fit its structures."""
    from .._unlift import names_of

    try:
        call = program.call_spec
        require(
            call.in_spec is not None and call.out_spec is not None, "it is not said which arguments it takes"
        )
        names_of(program)
    except (ValueError, AssertionError) as error:
        raise Damaged(str(error)[:300]) from None
    signature = program.graph_signature
    taken, returned = call.in_spec.num_leaves, call.out_spec.num_leaves  # type: ignore[union-attr]
    inputs, outputs = len(signature.user_inputs), len(signature.user_outputs)
    require(taken == inputs, f"the arguments have {taken} leaves, and the graph takes {inputs}")
    require(returned == outputs, f"the result has {returned} leaves, and the graph gives {outputs}")
    for node in program.graph.nodes:
        if node.op == "placeholder" and "val" not in node.meta:
            raise Damaged(f"there is no description of the input {short(node.name)}")
        for size in getattr(node.meta.get("val"), "shape", ()) if node.op == "placeholder" else ():
            if isinstance(size, UnparsedExpr):
                raise Damaged(f"the input {node.name} has a size that is not computed here: {size.text[:80]}")


def _samples(archive: Archive, name: str, program: ExportedProgram, map_location: Any) -> Any:
    """The arguments that the program was exported with; None, with a warning, where they are objects that are not made here."""
    if name not in archive.entries:
        return None
    data = archive.read(name)
    if not data:
        return None
    require(data[:4] == b"PK\3\4", "the sample inputs are nothing that save wrote")
    try:
        result = load_file(io.BytesIO(data), map_location, weights_only=True)
    except UnpicklingError as error:
        warnings.warn(
            f"{display.NAME}.export.load: the program's sample inputs are left out: {str(error)[:200]}",
            stacklevel=5,
        )
        return None
    except RuntimeError as error:
        raise Damaged(f"sample inputs: {str(error)[:300]}") from None
    if result is None or result == {}:
        return None
    pair = type(result) is tuple and len(result) == 2
    require(
        pair and type(result[0]) is tuple and type(result[1]) is dict, "the sample inputs are no arguments"
    )
    return result
