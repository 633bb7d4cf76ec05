"""Weights and constants of an archive: raw bytes of storages, and which tensors lie in them, both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..._files import load as load_file
from ..._files import save as save_file
from ..._files.archive import Archive
from ..._files.errors import Damaged, require, short
from ..._files.reading import Zip
from ..._files.rebuilding import placed
from ..._files.writing import host_bytes
from ..._tensor import Tensor
from ...nn.parameter import Parameter
from . import schema

CONFIG = "{}_config.json"


def read(archive: Archive, root: str, folder: str, config: str, map_location: Any) -> dict[str, Any]:
    """The tensors by name that a configuration tells of, in the entries of a folder."""
    name = f"{root}/{folder}/{config}"
    if name not in archive.entries:
        raise Damaged(f"the archive has no entry {folder}/{config}")
    data = schema.parsed(archive.read(name), "PayloadConfig", config)["config"]
    return _Reader(archive, root, folder, map_location).tensors(data)


class _Reader:
    def __init__(self, archive: Archive, root: str, folder: str, map_location: Any) -> None:
        self.archive, self.where = archive, f"{root}/{folder}"
        self.zip = Zip(archive, root, map_location, None, folder)
        self.map_location = map_location
        self.storages: dict[str, Any] = {}
        self.made: dict[Any, Any] = {}

    def tensors(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.tensor(name, meta) for name, meta in data.items()}

    def tensor(self, name: str, payload: Any) -> Any:
        """The tensor of one name; the same where two names tell of the same, as of weights that are tied."""
        path, meta = payload["path_name"], payload["tensor_meta"]
        entry = self.archive.entries.get(f"{self.where}/{path}")
        if entry is None:
            raise Damaged(f"{short(name)}: the archive has no entry {short(path)}")
        if payload["use_pickle"]:
            return self._pickled(name, f"{self.where}/{path}")
        require(meta is not None, f"{short(name)}: there is no description of the tensor")
        kind, layout = schema.DTYPES[meta["dtype"]], schema.LAYOUTS[meta["layout"]]
        require(str(layout).endswith("strided"), f"{short(name)}: a tensor of layout {layout} as raw bytes")
        sizes, strides, offset = (
            [_number(name, n) for n in meta["sizes"]],
            [_number(name, n) for n in meta["strides"]],
            _number(name, meta["storage_offset"]),
        )
        key = (path, kind, *sizes, *strides, offset, payload["is_param"], meta["requires_grad"])
        if key not in self.made:
            storage = self.storages.get(path)
            if storage is None:
                try:
                    storage = self.storages[path] = self.zip.load(entry, kind, place(meta["device"]))
                except RuntimeError as error:  # of a device that is not here, or no device
                    raise Damaged(f"{short(name)}: {error}") from None
            made = placed(storage, kind, offset, sizes, strides)
            wanted = meta["requires_grad"] and (kind.is_floating_point or kind.is_complex)
            self.made[key] = Parameter(made, wanted) if payload["is_param"] else made
        return self.made[key]

    def _pickled(self, name: str, entry: str) -> Any:
        """A tensor that `save` wrote; objects of other classes are not made."""
        import io

        data = self.archive.read(entry)
        require(data[:4] == b"PK\3\4", f"{short(name)} is no tensor that save wrote")
        result = load_file(io.BytesIO(data), self.map_location, weights_only=True)
        require(isinstance(result, Tensor), f"{short(name)} is a {type(result).__name__}, not a tensor")
        return result


def _number(name: str, size: Any) -> int:
    require("as_int" in size, f"{short(name)}: a weight with a size that is an expression")
    return size["as_int"]


def place(device: Any) -> str:
    """A device of the schema as text."""
    index = device.get("index")
    return device["type"] if index is None else f"{device['type']}:{index}"


# --- writing ------------------------------
def write(
    add: Callable[[str, Any], Any], folder: str, prefix: str, config: str, tensors: Mapping[str, Any]
) -> None:
    """Add the storages of tensors, each once, and the configuration that tells of them."""
    data: dict[str, Any] = {}
    paths: dict[Any, str] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise RuntimeError(f"export.save(): {name} is a {type(tensor).__name__}, which no archive holds")
        is_strided = type(tensor) in (Tensor, Parameter) and str(tensor.layout).endswith("strided")
        storage = tensor.untyped_storage() if is_strided else None
        key = id(tensor) if storage is None else (str(tensor.device), storage._address(), storage.nbytes())
        path = paths.get(key)
        if path is None:
            path = paths[key] = f"{prefix}{len(paths)}"
            add(f"{folder}/{path}", _saved(tensor) if storage is None else host_bytes(storage))
        data[name] = {
            "path_name": path,
            "is_param": isinstance(tensor, Parameter),
            "use_pickle": storage is None,
            "tensor_meta": tensor_meta(tensor),
        }
    add(f"{folder}/{config}", _json({"config": data}))


def _json(value: Any) -> bytes:
    import json

    return json.dumps(value).encode()


def _saved(tensor: Tensor) -> bytes:
    import io

    file = io.BytesIO()
    save_file(tensor, file)
    return file.getvalue()


def tensor_meta(tensor: Any, size: Callable[[Any], Any] = lambda n: {"as_int": n}) -> dict[str, Any]:
    """What the schema tells of a tensor; `size` writes each of its sizes."""
    if tensor.dtype not in schema.CODES:
        raise RuntimeError(f"export.save(): PyTorch's archives have no dtype {tensor.dtype}")
    strided = str(tensor.layout).endswith("strided")
    return {
        "dtype": schema.CODES[tensor.dtype],
        "sizes": [size(n) for n in tensor.shape],
        "requires_grad": bool(tensor.requires_grad),
        "device": {"type": tensor.device.type, "index": tensor.device.index},
        "strides": [size(n) for n in tensor.stride()] if strided else [],
        "storage_offset": size(tensor.storage_offset()) if strided else {"as_int": 0},
        "layout": schema.CODES[tensor.layout],
    }
