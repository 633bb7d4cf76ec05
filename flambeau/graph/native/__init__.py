"""Plans as shared objects: a program captured once, its kernels and the launches between them as machine code that needs no Python."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .linking import Library


def export_library(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    path: str | os.PathLike[str],
    kwargs: dict[str, Any] | None = None,
) -> Library:
    """Write what `function(*args, **kwargs)` computes as a shared object, which a program in C calls without Python.

    `path` is that of the shared object, such as `"made/net.so"`; beside it stand the header (`net.h`), which tells the rest, and,
    where the program has parameters or other tensors of its own, a file with these (`net.safetensors`).  Its name is that of the
    functions in C.  Tensors among the arguments are the inputs, of these shapes and dtypes; other arguments are as here for ever.

    The call is run once, without gradients, and captured as by `compile(fullgraph=True)`.  Every step of its plan must have a generated
    kernel: loops over elements and rows, products, convolutions of one and two dimensions, gathers, pooling, copies; `docs/native.md`
    has the list.  The library is for processors that have what this one has.

    Raises:
        TypeError: `function` cannot be called, `args` is no tuple, or a result is no tensor
        ValueError: the name of the file is no name in C
        NotImplementedError: a step has no generated kernel; it is named with its place in the program
        RuntimeError: the call is not captured whole, writes to what it is given, or no linker is found

    >>> import tempfile
    >>> import flambeau as torch
    >>> net = torch.nn.Linear(3, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = torch.compiler.export_library(net, (torch.ones(4, 3),), folder + "/net.so")
    ...     print(made.header.name, made.weights.name, "net_run" in made.header.read_text())
    net.h net.safetensors True
    """
    from .library import exported

    return exported(function, args, path, kwargs or {})
