"""`save` and `load`."""

from __future__ import annotations

import os
from typing import IO, Any

from ..core.base import display
from .exported_program import ExportedProgram


def save(
    ep: ExportedProgram,
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write an exported program to a path or binary file, as PyTorch 2.13's `.pt2` archive, which `torch.export.load` reads, too.

    The archive holds the graph in ATen's operations, parameters, buffers and constants (each storage once), and the arguments that the
    program was exported with.  Everything is serialised before the first byte is written; a file at a path is replaced in one go.

    Args:
        extra_files: texts by name that are kept beside the program.
        opset_version: None; the archive says that of PyTorch 2.13.

    Raises:
        TypeError: `ep` is no ExportedProgram, or an extra file no text.
        ValueError: an `opset_version` is requested.
        RuntimeError: a node calls what archives do not know: its name is in the message.

    >>> import io
    >>> import flambeau as torch
    >>> program = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    >>> file = io.BytesIO()
    >>> torch.export.save(program, file, extra_files={"note": "the first"})
    >>> _ = file.seek(0)
    >>> note = {"note": ""}
    >>> again = torch.export.load(file, extra_files=note)
    >>> torch.equal(again.module()(torch.ones(3, 2)), program.module()(torch.ones(3, 2))), note
    (True, {'note': 'the first'})
    """
    from ._pt2.saving import write

    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    if opset_version is not None:
        raise ValueError(
            f"{display.NAME}.export.save: other versions of the operations than ours are not written"
        )
    write(ep, f, extra_files, pickle_protocol)


def load(
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Read an exported program that `save`, here or in PyTorch 2.8 to 2.13, wrote to a path or seekable binary file.

    Nothing of the file is run by loading: its graph is checked JSON, its expressions of sizes are parsed by a parser that calls nothing,
    its sample inputs are unpickled as `load(…, weights_only=True)` does.  Every number is checked against the sizes of what it refers
    to before memory is requested.  What the program may call is what stands in `docs/export.md`; its custom operations must be defined.

    Args:
        extra_files: a dictionary whose values are filled with the texts that are kept under its keys.
        expected_opset_version: taken, and not compared, as in PyTorch.

    Raises:
        RuntimeError: the file is damaged, or calls what there is not here; the message names the node.
        EOFError: the file is empty.

    >>> import io
    >>> import flambeau as torch
    >>> try:
    ...     torch.export.load(io.BytesIO(b"no archive"))
    ... except RuntimeError as error:
    ...     print(error)
    flambeau.export.load: this is no zip archive, so no program that export.save wrote
    """
    from ._pt2.archive import read

    return read(f, extra_files)
