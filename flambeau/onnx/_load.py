"""`onnx.load_model`: a file of ONNX as a module, whose graph calls what its operators are declared to mean (`_operators/`)."""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Sequence
from typing import Any

from ._loaded import LoadedModel
from ._messages import ModelMessage, model_of
from ._operators import read_declarations
from ._reading import Reader
from ._tensors import Folder
from .errors import OnnxFormatError, OnnxLoadError

LEAST_OPSET, LARGEST_OPSET = 1, 28


def load_model(f: Any, *, parameters: Collection[str] | None = None) -> LoadedModel:
    """The model of an ONNX file as a module, which runs, trains, compiles, and is saved as others are.

    Initializers of floats that have dimensions are parameters under their names, others and running statistics are buffers.  The inputs
    of the graph are the arguments of `forward`, in their order; it gives a tensor, or a tuple where the graph has several outputs.
    Nothing of the model is run.  The package onnx is not needed.

    Args:
        f: a path, the bytes of a file, or a file that is open for reading bytes.  Weights that lie in files of their own are found
            where a path is given, and in its folder alone.
        parameters: names of the initializers that are parameters, where not all such floats are.

    Raises:
        OnnxFormatError: the file is no model of ONNX, or is damaged
        OnnxLoadError: an operator, or an older version of it, has no meaning here; its name and node are said
        FileNotFoundError: there is no such file
        TypeError: `f` is none of these

    >>> import flambeau as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(-1))
    >>> x = torch.randn(2, 4)
    >>> data = torch.onnx.export(net, (x,)).model_proto.SerializeToString()
    >>> model = torch.onnx.load_model(data)
    >>> torch.allclose(model(x), net(x), atol=1e-6), sorted(model.state_dict())
    (True, ['0.bias', '0.weight'])
    >>> torch.onnx.load_model(data[:-20])
    Traceback (most recent call last):
        ...
    flambeau.onnx.errors.OnnxFormatError: load_model(): field 7 takes 287 bytes, and 273 are left
    """
    read_declarations()
    data, folder = _bytes_of(f)
    try:
        return _module(model_of(data), folder, parameters)
    except OnnxLoadError as error:
        raise type(error)(f"load_model(): {error}") from error.__cause__


def _bytes_of(f: Any) -> tuple[Any, Folder]:
    """The bytes of a file, and the folder that it lies in."""
    if isinstance(f, (bytes, bytearray, memoryview)):
        return f, Folder(None)
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise OnnxFormatError(f"load_model(): the file {path} is empty")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), Folder(
                os.path.dirname(os.path.abspath(path))
            )
    if hasattr(f, "read"):
        data = f.read()
        if not isinstance(data, (bytes, bytearray)):
            raise TypeError(
                f"load_model(): the file gives {type(data).__name__}, not bytes: open it with 'rb'"
            )
        return data, Folder(None)
    raise TypeError(f"load_model(): f must be a path, bytes or a file, got {type(f).__name__}")


def _module(model: ModelMessage, folder: Folder, parameters: Collection[str] | None) -> LoadedModel:
    if model.graph is None:
        raise OnnxFormatError("the model has no graph")
    opsets = versions_of(model.opset_import)
    version = opsets.get("")
    if version is not None and not LEAST_OPSET <= version <= LARGEST_OPSET:
        raise OnnxLoadError(f"opset {version} is not read: those of {LEAST_OPSET} to {LARGEST_OPSET} are")
    functions = {}
    for function in model.functions:
        key = function.domain, function.name, function.overload
        if key in functions:
            raise OnnxFormatError(f"the function {function.name} is defined twice")
        functions[key] = function
    return Reader(folder, functions, parameters).module(model.graph, opsets)


def versions_of(imports: Sequence[Any]) -> dict[str, int]:
    """The version of each domain's operators."""
    return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in imports}
