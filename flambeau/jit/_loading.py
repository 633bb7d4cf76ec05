"""`jit.load`: apart from tracing, which a process that runs a kept program never needs."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from ._archive import load_from
from ._modules import RecursiveScriptModule


def load(
    f: str | os.PathLike[str] | BinaryIO,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> RecursiveScriptModule:
    """The program of an archive that `save` wrote, here or in PyTorch (1.5 and later), traced or scripted: a module.

    Nothing of the file is run: its code is read into a tree of the few kinds of statements that TorchScript has, and calls of it reach
    operations of this library alone.  Every number in the file is checked.  An operation that is not here is an error that names it,
    where the code reaches it.

    Args:
        map_location: where tensors go, as of `flambeau.load`.
        _extra_files: names, whose values are replaced by what `save` was given under them.

    Raises:
        RuntimeError: the file is damaged, is no archive of a program, or has code that is not TorchScript's; file and line are named.
        EOFError: the file is empty.

    >>> import io
    >>> import flambeau as torch
    >>> torch.jit.load(io.BytesIO(b"print('never run')"))
    Traceback (most recent call last):
    RuntimeError: flambeau.jit.load: this is no zip archive, so no program that jit.save wrote
    """
    if not hasattr(f, "read") and not os.path.exists(f):
        raise ValueError(f"The provided filename {os.fspath(f)} does not exist")
    if not hasattr(f, "read") and os.path.isdir(f):
        raise ValueError(f"The provided filename {os.fspath(f)} is a directory")
    return load_from(f, map_location, _extra_files)
