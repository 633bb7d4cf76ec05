"""`export.save`: a program as an archive that PyTorch's `export.load` reads, too."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from typing import Any

from ..._files import save as save_file
from ..._files.archive import Writer
from ..._files.replacing import replacing
from ..._files.writing import identity, root_name
from ...core.base import display
from ...utils._pytree import treespec_dumps
from ...version import __version__
from .._guards import Guards, Violation, leaves_of
from .._unlift import names_of, paths
from ..exported_program import ExportedProgram, ModuleCallEntry
from ..graph_signature import InputKind
from . import payload, schema
from .archive import ARCHIVE_VERSION, CONSTANTS, EXTRA, FORMAT, MODELS, SAMPLES, WEIGHTS
from .signature import serialize_argument, serialize_input, serialize_output
from .writer import GraphWriter, SerializeError

OPSET = 10  # of ATen in PyTorch 2.13
ZIP_VERSION = b"6\n"


def write(program: ExportedProgram, f: Any, extra_files: dict[str, Any] | None, protocol: int) -> None:
    """`export.save` to a path or a binary file; all is serialised before the first byte is written."""
    description = json.dumps(_program(program), allow_nan=False).encode()
    samples = io.BytesIO()
    save_file(program.example_inputs, samples, pickle_protocol=protocol)
    for name, content in (extra_files or {}).items():
        if not isinstance(name, str) or not isinstance(content, (str, bytes)):
            raise TypeError(
                f"{display.NAME}.export.save: expected extra_files to be texts by name, got {name!r}: {type(content).__name__}"
            )

    def entries(file: Any, root: str) -> None:
        writer = Writer(file.write)
        names: list[str] = []
        crcs = 0

        def add(name: str, data: Any) -> None:
            nonlocal crcs
            names.append(name)
            crcs ^= writer.add(f"{root}/{name}", data)

        payload.write(add, WEIGHTS, "weight_", "model_weights_config.json", program.state_dict)
        payload.write(add, CONSTANTS, "tensor_", "model_constants_config.json", program.constants)
        add(f"{MODELS}/model.json", description)
        add(f"{SAMPLES}/model.pt", samples.getvalue())
        for name, content in (extra_files or {}).items():
            add(f"{EXTRA}/{name}", content.encode() if isinstance(content, str) else content)
        add("archive_format", FORMAT.encode())
        add("archive_version", str(ARCHIVE_VERSION).encode())
        add(".data/version", ZIP_VERSION)
        add("byteorder", sys.byteorder.encode())
        add(".data/serialization_id", identity(names, crcs))
        writer.close()

    if hasattr(f, "write"):
        entries(f, "archive")
        return
    path = os.fspath(f)
    with replacing(path, False) as file:
        entries(file, root_name(os.fsdecode(path)))


# --- a program ------------------------------
def _program(program: ExportedProgram) -> dict[str, Any]:
    """The program as the schema has it."""
    try:
        graph = GraphWriter(program.graph_module, hints_of(program)).write()
    except SerializeError as error:
        raise SerializeError(f"{display.NAME}.export.save: {error}") from None
    signature = program.graph_signature
    return {
        "graph_module": {
            "graph": graph,
            "signature": {
                "input_specs": [serialize_input(s) for s in signature.input_specs],
                "output_specs": [serialize_output(s) for s in signature.output_specs],
            },
            "module_call_graph": [_call(entry) for entry in program.module_call_graph],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": OPSET},
        "range_constraints": {str(symbol): _range(r) for symbol, r in program.range_constraints.items()},
        "schema_version": {"major": schema.VERSION[0], "minor": schema.VERSION[1]},
        "verifiers": [v.dialect for v in program.verifiers],
        "torch_version": __version__,
        "guards_code": list(program._guards_code),
    }


def _range(result: Any) -> dict[str, Any]:
    return {
        "min_val": None if math.isinf(result.lower) else int(result.lower),
        "max_val": None if math.isinf(result.upper) else int(result.upper),
    }


def _call(entry: ModuleCallEntry) -> dict[str, Any]:
    signature = entry.signature
    if signature is None:
        return {"fqn": entry.fqn, "signature": None}
    return {
        "fqn": entry.fqn,
        "signature": {
            "inputs": [serialize_argument(a) for a in signature.inputs],
            "outputs": [serialize_argument(a) for a in signature.outputs],
            "in_spec": treespec_dumps(signature.in_spec, schema.TREES),
            "out_spec": treespec_dumps(signature.out_spec, schema.TREES),
            "forward_arg_names": signature.forward_arg_names,
        },
    }


def hints_of(program: ExportedProgram) -> dict[str, int]:
    """The numbers of symbols in the example: PyTorch reads symbols with them."""
    result = dict(program._hints)
    spec = program.call_spec.in_spec
    if program.example_inputs is None or spec is None:
        return result
    args, kwargs = program.example_inputs
    specs = program.graph_signature.input_specs
    nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
    examples = [n.meta.get("val") for n, s in zip(nodes, specs) if s.kind is InputKind.USER_INPUT]
    guards = Guards(paths(spec, names_of(program)), examples, program._ranges())
    try:
        return {**result, **guards.check(leaves_of(args, kwargs, spec))}
    except (Violation, ValueError):  # the example is another's: PyTorch's archives may have any
        return result
