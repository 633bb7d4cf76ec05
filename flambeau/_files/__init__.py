"""Files of tensors, modules and plain Python objects: `save` and `load`.

Files are PyTorch's: either reads what the other wrote.  `archive` is the zip container, `pickling` writes the pickle inside and
`unpickling` reads it, by the names of `names` and the functions of `rebuilding`; `reading` and `legacy` put together what the
formats hold; `first_format` reads what flambeau wrote at first.  All of it is imported when it is first used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, cast

from ..core.base import display
from ..core.base.tracebacks import shorten


def save(
    obj: Any,
    f: str | os.PathLike[str] | BinaryIO,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
    *,
    fsync: bool = False,
) -> None:
    """Write `obj` to the path or binary file `f`, for `load`, here or in PyTorch.

    `obj` is anything that pickle takes: tensors of any shape and dtype, modules, optimisers, state dicts, containers, numbers,
    strings.  Tensors that share memory share it again after loading, for which all of the shared memory is written; one tensor
    that occurs twice is one again.  Of tensors the layout, `requires_grad` and attributes are kept, gradients and hooks are not.

    Everything is pickled before the first byte is written, and a file at a path is replaced in one go when it
    is complete: whoever reads it sees the old one or the new one.  The new one has the old one's mode, group and owner
    (as far as the system lets us give files away); through a symbolic link, what it points to is replaced.
    A process that is killed leaves nothing behind where the file system has files without names (ext4, XFS, Btrfs,
    tmpfs), save for the instant in which an old file is replaced; elsewhere, as on NFS, a file `<name>.<8 digits>.tmp`.
    With `fsync=True` the file has reached the disk when `save` returns, and survives a failure of the machine.

    Args:
        pickle_module: whose `Pickler` is used, such as that of dill; by default pickle's.  With another one, tensors bear our
            own names, so that only `load` with the same module reads the file.
        pickle_protocol: PyTorch reads 2 with `weights_only=True`; `load` reads 1 to 5.
        _use_new_zipfile_serialization: False writes the format of PyTorch before 1.6.

    Raises:
        TypeError, AttributeError, pickle.PicklingError: for what cannot be pickled, with its place in `obj`.
        RecursionError: `obj` is nested too deep, some 300 levels.
        ValueError: `fsync=True` with a file that has no descriptor.

    >>> import io
    >>> import flambeau
    >>> file = io.BytesIO()
    >>> flambeau.save({"weight": flambeau.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> flambeau.load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    >>> flambeau.save({"weights": [iter("ab")]}, file)
    >>> flambeau.save({"lock": __import__("threading").Lock()}, file)
    Traceback (most recent call last):
        ...
    TypeError: flambeau.save: obj['lock'] is of type lock, which cannot be saved: cannot pickle '_thread.lock' object
    """
    import pickle

    from . import writing
    from .replacing import replacing

    module = pickle if pickle_module is None else pickle_module
    _check_dill(module)
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )
    path = None if hasattr(f, "write") else os.fsdecode(cast(str, f))
    if _use_new_zipfile_serialization:
        write = writing.zip_file(obj, path, module, pickle_protocol, not _disable_byteorder_record)
    else:
        write = writing.stream(obj, module, pickle_protocol)
    if path is not None:
        with replacing(path, fsync) as file:
            write(file)
        return
    file = cast(BinaryIO, f)
    descriptor = _descriptor(file) if fsync else None
    write(file)
    if hasattr(file, "flush"):
        file.flush()
    if descriptor is not None:
        os.fsync(descriptor)


class Options(NamedTuple):
    """How the pickles of a file are read."""

    weights_only: bool
    pickle_module: Any
    pickle_args: dict[str, Any]


def load(
    f: str | os.PathLike[str] | BinaryIO,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read the object that `save`, here or in PyTorch, wrote to the path or seekable binary file `f`.

    Read are PyTorch's zip files, of 1.6 and later, those of before (a stream of pickles; a tar archive), files of
    `safetensors` (by their ending), and flambeau's first format.

    By default no code is run by loading, whatever the file holds: tensors, parameters, containers, numbers, strings, dtypes and
    devices are made, and what `flambeau.serialization.add_safe_globals` allows.  Every number in the file is checked against the
    sizes of what it refers to before memory is requested.  `weights_only=False` runs the file's pickle, which whole modules
    need: only for files from people you trust.

    Args:
        map_location: where tensors go: a device, a dict from saved to wanted devices, or a function of a storage on the CPU and
            the name of its saved device that returns the storage to use, or None for the saved device.
        pickle_module: with `weights_only=False`, whose `Unpickler` is used.
        weights_only: True by default, or False where `pickle_module` is given.
        mmap: True, for paths of zip files only, maps the file into memory: data is read when it is used, and changes stay
            private (`serialization.set_default_mmap_options`).  That every storage lies within the file is checked when it is
            opened; what cannot be checked is that the file stays as it is.  Checksums are not verified, so damaged data goes
            unnoticed; a file that is written to shows in the tensors; and where it is cut short, the first touch of what is gone
            ends the process (SIGBUS).  Map files only that nobody else can write.  `save` never does any of this: it replaces
            files, and the old one lives as long as it is mapped.
        pickle_load_args: for the `Unpickler`, such as `encoding`.

    Raises:
        RuntimeError: the file is damaged, or holds what there is not here, such as TorchScript's objects.
        pickle.UnpicklingError: its pickle is damaged, or names what is not allowed.
        EOFError: the file is empty.

    >>> import io
    >>> import flambeau
    >>> file = io.BytesIO()
    >>> flambeau.save(flambeau.nn.Linear(2, 1), file)
    >>> _ = file.seek(0)
    >>> flambeau.load(file, weights_only=False)
    Linear(in_features=2, out_features=1, bias=True)
    """
    from ..utils.serialization import config

    options = _options(pickle_module, weights_only, pickle_load_args)
    if mmap is None:
        mmap = config.load.mmap
    if hasattr(f, "read"):
        if mmap:
            raise ValueError(
                f"{display.NAME}.load: mmap=True needs a path: f must be a file path in order to use the mmap argument"
            )
        _check_seekable(f)
        with _named(getattr(f, "name", None), options.weights_only):
            return _load(f, map_location, options, None)
    path = os.fspath(cast(str, f))
    if os.fsdecode(path).endswith(".safetensors"):
        return _safetensors(path, map_location)
    shared = mmap and config.load.mmap_flags != 2
    with open(path, "r+b" if shared else "rb") as file, _named(path, options.weights_only):
        return _load(file, map_location, options, path if mmap else None)


def _load(file: Any, map_location: Any, options: Options, mapped_path: Any) -> Any:
    from . import archive, first_format, legacy, reading
    from .errors import Damaged

    source = archive.Source(file)
    if source.size == 0:
        raise EOFError("Ran out of input")
    start = source.read(0, min(source.size, 262))
    if start[:4] == b"PK\3\4":
        mapped = reading.map_file(file) if mapped_path is not None else None
        entries = archive.Archive(source)
        root = reading.root_of(entries)
        if root is not None:
            return reading.pickled(entries, root, map_location, mapped, options)
        if first_format.STRUCTURE in entries.entries:
            return first_format.read(entries, map_location, mapped)
        raise Damaged(
            "a zip archive with neither a data.pkl nor a structure.json: neither PyTorch nor flambeau wrote it"
        )
    if mapped_path is not None:
        raise Damaged(
            f"mmap can only be used with files saved with `{display.NAME}.save(…, _use_new_zipfile_serialization=True)`, "
            "please save your checkpoint with this option in order to use mmap"
        )
    source.rewind()
    if start[257:262] == b"ustar":
        return legacy.read_tar(file, map_location, options)
    data = _whole(file, source)
    return legacy.read_stream(data, source, map_location, options)


def _whole(file: Any, source: Any) -> Any:
    """All bytes of a file: mapped, where it is one of the system's."""
    import mmap
    from io import UnsupportedOperation

    try:
        if file.tell() == 0 and type(file).__module__ in ("_io", "io") and file.fileno() >= 0:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (UnsupportedOperation, AttributeError, ValueError):
        return source.read(0, source.size)
    return source.read(0, source.size)


def _options(pickle_module: Any, weights_only: bool | None, arguments: dict[str, Any]) -> Options:
    """What the arguments and PyTorch's two environment variables say together."""
    import warnings

    def forced(name: str) -> bool:
        return os.getenv(name, "0").lower() in ("1", "y", "yes", "true")

    only, never = forced("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), forced("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    if only and never:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but both were set."
        )
    if only:
        weights_only = True
    elif weights_only is None:
        weights_only = pickle_module is None and not never
        if never:
            warnings.warn(
                "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the `weights_only` argument was not "
                f"explicitly passed to `{display.NAME}.load`, forcing weights_only=False.",
                UserWarning,
                stacklevel=3,
            )
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if weights_only and arguments:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=3)
    if pickle_module is None:
        import pickle as pickle_module
    _check_dill(pickle_module)
    return Options(bool(weights_only), pickle_module, {"encoding": "utf-8", **arguments})


@contextmanager
def _named(path: Any, weights_only: bool) -> Iterator[None]:
    """Put the file's name before what is wrong with it."""
    import struct
    import tarfile
    from pickle import UnpicklingError

    from .errors import Damaged

    who = f"{display.NAME}.load: " + (
        f"{os.fsdecode(path)!r}: " if isinstance(path, (str, bytes, os.PathLike)) else ""
    )
    try:
        yield
    except RuntimeError as error:
        if type(error) not in (Damaged, RuntimeError):
            raise
        raise RuntimeError(f"{who}{error}") from _cause(error)
    except (tarfile.TarError, struct.error) as error:
        raise RuntimeError(f"{who}{type(error).__name__}: {error}") from _cause(error)
    except UnpicklingError as error:
        message = f"{who}{error}"
        if weights_only:
            # The first words are those that programs look for.
            message = (
                f"{who}Weights only load failed. {error}\n"
                "Only where you trust whoever wrote the file, `weights_only=False` runs all that it says."
            )
        raise UnpicklingError(message) from _cause(error)
    except EOFError as error:
        raise EOFError(f"{who}{error}") from _cause(error)


def _cause(error: Exception) -> Exception | None:
    """An error that a program's function has part in, without our own frames; None for one whose text the new error has."""
    shorten(error)
    return error if error.__traceback__ is not None else None


def _safetensors(path: Any, map_location: Any) -> Any:
    from ..core.base.dtypes import device as Device
    from .safetensors import load_file

    if map_location is not None and not isinstance(map_location, (str, bytes, Device)):
        raise RuntimeError(
            f"Loading safetensors file with {'dict' if isinstance(map_location, dict) else 'callable'} map_location is not "
            f"supported. Use a device string or {display.NAME}.device instead."
        )
    if isinstance(map_location, bytes):
        map_location = map_location.decode()
    return load_file(path, device="cpu" if map_location is None else map_location)


def _check_seekable(f: Any) -> None:
    from io import UnsupportedOperation

    try:
        f.seek(f.tell())
    except (UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only load from a file that is seekable. Please pre-load the data into a buffer like io.BytesIO "
            "and try to load from it instead."
        ) from error


def _check_dill(module: Any) -> None:
    if getattr(module, "__name__", "") == "dill":
        from ._versions import check_module_version_greater_or_equal

        if not check_module_version_greater_or_equal(module, (0, 3, 1), False):
            raise ValueError(
                f"{display.NAME!r} supports dill >= (0, 3, 1), but you have dill {module.__version__}. Please upgrade dill or "
                "switch to 'pickle'"
            )


def _descriptor(f: Any) -> int:
    try:
        return f.fileno()
    except (AttributeError, OSError) as error:
        raise ValueError(
            f"{display.NAME}.save: fsync=True needs a path, or a file with a descriptor"
        ) from error
