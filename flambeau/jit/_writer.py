"""Archives of programs, written as PyTorch lays them out: code, constants, and the module's attributes as a pickle of few steps."""

from __future__ import annotations

import ast
import os
import struct
import sys
from collections.abc import Callable
from typing import Any

from .._files import names
from .._files.archive import Writer
from .._files.pickling import Storages
from .._files.replacing import replacing
from .._files.writing import host_bytes, root_name
from ..core.base import display
from ..core.base.dtypes import device as Device
from ..core.base.tensor import TensorBase
from ..nn.modules.module import Module
from ._objects import EnumValue, ScriptClass, ScriptObject

_LISTS = {
    "int": "build_intlist",
    "float": "build_doublelist",
    "bool": "build_boollist",
    "Tensor": "build_tensorlist",
}
_INT64 = 1 << 63


class _Pickle:
    """Writes the steps that PyTorch's reader knows."""

    def __init__(self, storages: Storages) -> None:
        self.storages = storages
        self.parts: list[bytes] = [b"\x80\x02"]
        self.memo: dict[Any, int] = {}
        self.held: list[Any] = []  # whose identities are keys of the memo

    def content(self) -> bytes:
        """The pickle."""
        return b"".join([*self.parts, b"."])

    def put(self, *parts: bytes) -> None:
        self.parts.extend(parts)

    def remember(self, key: Any) -> None:
        n = self.memo[key] = len(self.memo)
        self.put(b"q" + bytes([n]) if n < 256 else b"r" + struct.pack("<I", n))

    def memoized(self, key: Any) -> bool:
        """Whether that was written before; it is then written by its number."""
        n = self.memo.get(key)
        if n is None:
            return False
        self.put(b"h" + bytes([n]) if n < 256 else b"j" + struct.pack("<I", n))
        return True

    def name(self, module: str, name: str) -> None:
        if not self.memoized((module, name)):
            self.put(f"c{module}\n{name}\n".encode())
            self.remember((module, name))

    def text(self, text: str) -> None:
        if not self.memoized(("text", text)):
            data = text.encode()
            self.put(b"X" + struct.pack("<I", len(data)), data)
            self.remember(("text", text))

    def value(self, x: Any, kind: ast.expr | None = None) -> None:
        """A value of a declared type."""
        if x is None:
            self.put(b"N")
        elif isinstance(x, bool):
            self.put(b"\x88" if x else b"\x89")
        elif isinstance(x, int):
            self.integer(x)
        elif isinstance(x, float):
            self.put(b"G" + struct.pack(">d", x))
        elif isinstance(x, str):
            self.text(x)
        elif isinstance(x, TensorBase):
            self.tensor(x)
        elif isinstance(x, Module):
            self.object(x, x.script_class, state_of(x))
        elif isinstance(x, ScriptObject):
            self.object(x, x.kind, x.values)
        elif isinstance(x, EnumValue):
            module, _, name = x.kind.name.rpartition(".")
            self.name(module, name)
            self.value(x.value)
            self.put(b"R")
        else:
            self.compound(x, kind)

    def compound(self, x: Any, kind: ast.expr | None) -> None:
        inner = _inner(kind)
        if isinstance(x, tuple):
            self.put(b"(")
            for k, v in enumerate(x):
                self.value(v, inner[k] if k < len(inner) else None)
            self.put(b"t")
        elif isinstance(x, list):
            self.list(x, kind, inner[0] if inner else None)
        elif isinstance(x, dict):
            self.name("torch.jit._pickle", "restore_type_tag")
            self.put(b"(}(")
            for key, v in x.items():
                self.value(key)
                self.value(v, inner[1] if len(inner) > 1 else None)
            self.put(b"u")
            self.text(ast.unparse(kind) if kind is not None else "Dict[str, Tensor]")
            self.put(b"tR")
        elif isinstance(x, Device):
            self.name("torch", "device")
            self.put(b"(")
            self.text(str(x))
            self.put(b"tR")
        else:
            raise RuntimeError(
                f"{display.NAME}.jit.save: an attribute of type {type(x).__name__} cannot be saved"
            )

    def list(self, x: list[Any], kind: ast.expr | None, element: ast.expr | None) -> None:
        special = _LISTS.get(element.id) if isinstance(element, ast.Name) else None
        self.name("torch.jit._pickle", special or "restore_type_tag")
        self.put(b"(](")
        for v in x:
            self.value(v, element)
        self.put(b"e")
        if special is None:
            self.text(ast.unparse(kind) if kind is not None else "List[Any]")
        self.put(b"tR")

    def integer(self, n: int) -> None:
        if 0 <= n < 256:
            self.put(b"K" + bytes([n]))
        elif 0 <= n < 65536:
            self.put(b"M" + struct.pack("<H", n))
        elif -(1 << 31) <= n < 1 << 31:
            self.put(b"J" + struct.pack("<i", n))
        elif -_INT64 <= n < _INT64:
            self.put(b"\x8a\x08" + struct.pack("<q", n))
        else:
            raise RuntimeError(f"{display.NAME}.jit.save: the number {n} has more than 64 bits")

    def tensor(self, t: Any) -> None:
        if self.memoized(id(t)):
            return
        if t.dtype.name not in names.STORAGE_OF:
            raise RuntimeError(f"{display.NAME}.jit.save: archives of programs have no tensors of {t.dtype}")
        storage = t.untyped_storage()
        described = self.storages.describe(storage, t.dtype, None)
        self.name("torch._utils", "_rebuild_tensor_v2")
        self.put(b"((")
        self.text("storage")
        self.name("torch", names.STORAGE_OF[t.dtype.name])
        self.text(described[2])
        self.text(described[3])
        self.integer(storage.nbytes() // t.dtype.itemsize)
        self.put(b"tQ")
        self.integer(t.storage_offset())
        self.value(tuple(t.shape))
        self.value(tuple(t.stride()))
        self.value(bool(t.requires_grad))
        self.name("collections", "OrderedDict")
        self.put(b")RtR")
        self.held.append(t)
        self.remember(id(t))

    def object(self, x: Any, kind: ScriptClass, state: dict[str, Any]) -> None:
        if self.memoized(id(x)):
            return
        module, _, name = kind.name.rpartition(".")
        self.name(module, name)
        self.put(b")\x81}(")
        for attribute, value in state.items():
            self.text(attribute)
            self.value(value, kind.annotations.get(attribute))
        self.put(b"ub")
        self.held.append(x)
        self.remember(id(x))


def _inner(kind: ast.expr | None) -> list[ast.expr]:
    """The types in brackets; those of what is optional."""
    if not isinstance(kind, ast.Subscript):
        return []
    result = list(kind.slice.elts) if isinstance(kind.slice, ast.Tuple) else [kind.slice]
    return _inner(result[0]) if isinstance(kind.value, ast.Name) and kind.value.id == "Optional" else result


def state_of(module: Any) -> dict[str, Any]:
    """The attributes that a module's class declares, in its order."""
    return {
        n: module.script_attribute(n)
        for n in module.script_class.annotations
        if n not in module.script_class.constants
    }


def archive(module: Any, root: str, extra: dict[str, Any]) -> Callable[[Any], None]:
    """What writes the archive of a module to a binary file; everything is checked before."""
    if sys.byteorder != "little":
        raise RuntimeError(f"{display.NAME}.jit.save: files are little-endian, this processor is not")
    program = module.script_class.program
    left = getattr(module.__dict__.get("_unit"), "python_calls", ())
    if left:
        raise RuntimeError(
            f"Could not export Python function call {left[0]!r}. Remove calls to Python functions before export. Did you forget to add "
            "@script or @script_method annotation? If this is a nn.ModuleList, add it to __constants__"
        )
    pickles: dict[str, tuple[bytes, Storages]] = {}
    for what, value in (("data", module), ("constants", tuple(program.constants))):
        storages = Storages(legacy=False)
        pickle = _Pickle(storages)
        pickle.value(value)
        pickles[what] = pickle.content(), storages
    records = {f"extra/{n}": v.encode() if isinstance(v, str) else bytes(v) for n, v in extra.items()}

    def write(file: Any) -> None:
        written = Writer(file.write)

        def add(name: str, data: Any) -> None:
            written.add(f"{root}/{name}", data)

        for name, data in records.items():
            add(name, data)
        data, storages = pickles["data"]
        for k, (storage, _) in enumerate(storages.entries):
            add(f"data/{k}", host_bytes(storage))
        add("data.pkl", data)
        for path, text in program.sources.items():
            add(f"code/{path}", text.encode())
        data, storages = pickles["constants"]
        for k, (storage, _) in enumerate(storages.entries):
            add(f"constants/{k}", host_bytes(storage))
        add("constants.pkl", data)
        add("version", b"3\n")
        add("byteorder", sys.byteorder.encode())
        written.close()

    return write


def save_to(module: Any, f: Any, extra: dict[str, Any]) -> None:
    """Write the archive of a module to a path or binary file; a file at a path is replaced in one go."""
    if hasattr(f, "write"):
        archive(module, "archive", extra)(f)
        if hasattr(f, "flush"):
            f.flush()
        return
    path = os.fsdecode(f)
    write = archive(module, root_name(path), extra)
    with replacing(path, False) as file:
        write(file)
