"""Exported programs as packages of machine code: what a fresh process runs without a graph, and without compiling anything."""

from __future__ import annotations

import ctypes
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from ..codegen import target
from ..core.base import display
from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.make.create import empty
from ..utils._pytree import tree_flatten, tree_leaves, tree_unflatten, treespec_dumps, treespec_loads
from .exported_program import ExportedProgram

VERSION = 1
LARGEST = 1 << 24  # bytes of the description
MEMBERS = ("model.so", "model.safetensors", "model.json")
_ALIGNED = 64  # bytes of the workspace's address


def aoti_compile_and_package(
    exported_program: ExportedProgram,
    *,
    package_path: str | os.PathLike[str] | IO[bytes] | None = None,
    inductor_configs: dict[str, Any] | None = None,
) -> Any:
    """Compile an exported program to machine code, and write it with its weights as one file; where that is.

    The package is for processors that have what this one has, and for the shapes of the example that the program was exported with.  It is
    a zip archive of a shared object (as `compiler.export_library` makes it), the weights as safetensors, and a description as JSON.

    Args:
        exported_program: what `export.export` gives, without sizes that vary.
        package_path: of the file, which ends with `.pt2`, or a binary file; None: `model.pt2` in the working directory.
        inductor_configs: must be empty: nothing is chosen here.

    Raises:
        TypeError: it is no ExportedProgram
        ValueError: the path does not end with `.pt2`, or options are given
        NotImplementedError: a size varies, or a step has no generated kernel; it is named
        RuntimeError: the program writes to its inputs or buffers, or no linker is found

    >>> import flambeau as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    >>> x = torch.ones(4, 3)
    >>> path = torch._inductor.aoti_compile_and_package(torch.export.export(net, (x,)), package_path="net.pt2")
    >>> torch.allclose(torch._inductor.aoti_load_package(path)(x), net(x))
    True
    """
    who = "aoti_compile_and_package()"
    if not isinstance(exported_program, ExportedProgram):
        raise TypeError(f"{who}: expected an ExportedProgram, got {type(exported_program).__name__}")
    if inductor_configs:
        raise ValueError(f"{who}: there is nothing to choose; got {sorted(inductor_configs)}")
    if exported_program.range_constraints:
        varies = ", ".join(map(str, exported_program.range_constraints))
        raise NotImplementedError(f"{who}: packages have fixed sizes, and {varies} of this program varies")
    file: Any = "model.pt2" if package_path is None else package_path
    if not hasattr(file, "write") and not os.fspath(file).endswith(".pt2"):
        raise ValueError(f"{who}: expected a path that ends with .pt2, got {os.fspath(file)!r}")
    args, kwargs = exported_program.example_inputs or ((), {})
    data = _packed(exported_program, tuple(args), dict(kwargs))
    if hasattr(file, "write"):
        file.write(data)
    else:
        path = Path(file)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            made.write_bytes(data)
            os.replace(made, path)
    return file


def _packed(program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """The package's bytes."""
    from ..graph.native import export_library

    leaves, in_spec = tree_flatten((args, kwargs))
    results, out_spec = tree_flatten(program.module()(*args, **kwargs))
    described = {
        "version": VERSION,
        "processor": target.processor()[0],
        "in_spec": treespec_dumps(in_spec),
        "out_spec": treespec_dumps(out_spec),
        "inputs": [_described(x) for x in leaves],
        "outputs": [_described(x) for x in results],
    }
    with tempfile.TemporaryDirectory() as folder:
        made = export_library(_tensors_of(program), args, Path(folder) / "model.so", kwargs)
        described["workspace"], described["weights"] = made.workspace, made.weights is not None
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("model.so", made.library.read_bytes())
            if made.weights is not None:
                archive.writestr("model.safetensors", made.weights.read_bytes())
            archive.writestr("model.json", json.dumps(described))
    return file.getvalue()


def _tensors_of(program: ExportedProgram) -> Callable[..., Any]:
    """The program as a function that gives the tensors among its results."""
    signature = program.graph_signature
    changed = {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}
    if changed:
        raise RuntimeError(f"aoti_compile_and_package(): the program writes to {', '.join(changed.values())}")
    module = program.module()
    return lambda *args, **kwargs: tuple([x for x in tree_leaves(module(*args, **kwargs)) if x is not None])


def _described(x: Any) -> Any:
    if isinstance(x, TensorBase):
        return {"dtype": x.dtype.name, "shape": list(x.shape)}
    if x is None or isinstance(x, (bool, int, float, str)):
        return {"value": x}
    raise TypeError(f"aoti_compile_and_package(): a leaf of the arguments is a {type(x).__name__}")


def aoti_load_package(path: str | os.PathLike[str] | IO[bytes], model_name: str = "model") -> CompiledModel:
    """The program of a package that `aoti_compile_and_package` wrote, as a function.

    Machine code is loaded and run: load packages only of those whom you would let run programs.

    Raises:
        RuntimeError: the file is no package, damaged, or for another processor
        ValueError: a package has one model, named "model"
    """
    who = "aoti_load_package()"
    if model_name != "model":
        raise ValueError(f"{who}: expected model_name 'model', the only one of a package, got {model_name!r}")
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo("model.json")
            if info.file_size > LARGEST or not set(archive.namelist()) <= set(MEMBERS):
                raise ValueError("members of other names or sizes than a package has")
            described = _checked(json.loads(archive.read(info)))
            if described["processor"] != target.processor()[0]:
                raise RuntimeError(
                    f"{who}: the package is for the processor {described['processor']}, and this one is {target.processor()[0]}"
                )
            with tempfile.TemporaryDirectory() as folder:
                for name in MEMBERS[: 2 if described["weights"] else 1]:
                    archive.extract(name, folder)
                return CompiledModel(described, Path(folder))
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, OSError, EOFError, RecursionError) as error:
        raise RuntimeError(f"{who}: this is no whole package: {error}") from error


def _checked(described: Any) -> dict[str, Any]:
    """A description whose items are of the classes that they have to be; ValueError."""
    kinds = {
        "version": int,
        "processor": str,
        "in_spec": str,
        "out_spec": str,
        "inputs": list,
        "outputs": list,
    }
    kinds |= {"workspace": int, "weights": bool}
    if not isinstance(described, dict) or set(described) != set(kinds):
        raise ValueError("a description with other keys")
    for name, kind in kinds.items():
        if type(described[name]) is not kind:
            raise ValueError(f"{name} is a {type(described[name]).__name__}")
    if described["version"] != VERSION or not 0 <= described["workspace"] < 1 << 48:
        raise ValueError("another version, or an absurd workspace")
    for leaf in (*described["inputs"], *described["outputs"]):
        if not isinstance(leaf, dict) or set(leaf) not in ({"value"}, {"dtype", "shape"}):
            raise ValueError("a leaf that is neither a tensor nor a value")
        if "dtype" in leaf and (
            leaf["dtype"] not in by_name
            or not isinstance(leaf["shape"], list)
            or any(type(n) is not int or not 0 <= n < 1 << 48 for n in leaf["shape"])
        ):
            raise ValueError("a tensor of no dtype or shape")
    return described


class CompiledModel:
    """A package that is loaded.  Calls take what the exported module took; any number of threads may call it."""

    def __init__(self, described: dict[str, Any], folder: Path) -> None:
        self._inputs, self._outputs = described["inputs"], described["outputs"]
        self._in_spec = treespec_loads(described["in_spec"])
        self._out_spec = treespec_loads(described["out_spec"])
        self._workspace = described["workspace"]
        self._library = ctypes.CDLL(str(folder / "model.so"))
        self._library.model_message.restype = ctypes.c_char_p
        if described["weights"]:  # mapped, so that the file need not stay
            self._check(self._library.model_load(os.fsencode(folder / "model.safetensors")))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the exported module gives, without gradients.

        Raises: TypeError for arguments in another structure; ValueError for another dtype or shape, or another constant; RuntimeError.
        """
        leaves, spec = tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise TypeError(f"{self}: expected arguments of the structure {self._in_spec}, got {spec}")
        inputs = [
            t for k, (x, d) in enumerate(zip(leaves, self._inputs)) if (t := self._taken(k, x, d)) is not None
        ]
        results = [
            empty(d["shape"], dtype=by_name[d["dtype"]]) if "dtype" in d else d["value"]
            for d in self._outputs
        ]
        made = [t for t in results if isinstance(t, TensorBase)]
        workspace = empty((self._workspace + _ALIGNED,), dtype=by_name["uint8"])
        place = -(-workspace.data_ptr() // _ALIGNED) * _ALIGNED
        self._check(self._library.model_run(_addresses(inputs), _addresses(made), ctypes.c_void_p(place)))
        return tree_unflatten(results, self._out_spec)

    def _taken(self, k: int, x: Any, wanted: dict[str, Any]) -> TensorBase | None:
        """An argument as a contiguous tensor; None for a constant."""
        if "value" in wanted:
            if type(x) is not type(wanted["value"]) or x != wanted["value"]:
                raise ValueError(f"{self}: argument {k} is the constant {wanted['value']!r}, got {x!r}")
            return None
        if not isinstance(x, TensorBase):
            raise TypeError(f"{self}: argument {k} must be a tensor, got {type(x).__name__}")
        if (
            x.dtype is not by_name[wanted["dtype"]]
            or list(x.shape) != wanted["shape"]
            or x.device.type != "cpu"
        ):
            raise ValueError(
                f"{self}: argument {k} must be {wanted['dtype']} {wanted['shape']} on cpu, got {x.dtype.name} {list(x.shape)} on {x.device}"
            )
        own: Any = x.detach()
        return own.contiguous()

    def _check(self, code: int) -> None:
        if code:
            raise RuntimeError(f"{self}: {self._library.model_message(code).decode()}")

    def __repr__(self) -> str:
        return f"{display.public('_inductor')}.CompiledModel"


def _addresses(tensors: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * max(1, len(tensors)))(*[t.data_ptr() for t in tensors])
