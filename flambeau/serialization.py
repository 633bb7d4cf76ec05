"""What goes with `flambeau.save` and `flambeau.load`: what may be loaded, where storages go, byte order, mapping, checksums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from . import storage
from ._files import load, save
from .core.base.dtypes import device
from .core.base.lazily import lazily
from .utils.serialization import config

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "StorageType",
    "add_safe_globals",
    "check_module_version_greater_or_equal",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "mkdtemp",
    "normalize_storage_type",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "storage_to_tensor_type",
    "validate_cuda_device",
]

# What `load` takes for `map_location`.
MAP_LOCATION = (
    Callable[[storage.UntypedStorage, str], storage.UntypedStorage] | device | str | dict[str, str] | None
)

DEFAULT_PROTOCOL = 2

__getattr__, __dir__ = lazily(
    __name__,
    names={
        **dict.fromkeys(
            ("StorageType", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals"),
            "._files.allowed",
        ),
        **dict.fromkeys(
            ("default_restore_location", "location_tag", "register_package"), "._files.locations"
        ),
        "check_module_version_greater_or_equal": "._files._versions",
        "skip_data": "._files.state",
        "MAGIC_NUMBER": "._files.legacy",
        "PROTOCOL_VERSION": "._files.legacy",
    },
)


class SourceChangeWarning(Warning):
    """PyTorch's, of files of before 1.6 whose classes have changed; `load` does not compare sources, and never gives it.

    Programs that filter it run as they are.

    >>> import warnings
    >>> import flambeau
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", flambeau.serialization.SourceChangeWarning)
    >>> issubclass(flambeau.serialization.SourceChangeWarning, Warning)
    True
    """


class LoadEndianness(Enum):
    """The byte order of files that do not say theirs; see `set_default_load_endianness`.

    >>> import flambeau
    >>> [order.name for order in flambeau.serialization.LoadEndianness]
    ['NATIVE', 'LITTLE', 'BIG']
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order in which files are read that do not say theirs; None is little.

    >>> import flambeau
    >>> print(flambeau.serialization.get_default_load_endianness())
    None
    """
    return config.load.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order in which files are read that do not say theirs.  TypeError for anything but a LoadEndianness or None.

    >>> import flambeau
    >>> flambeau.serialization.set_default_load_endianness(flambeau.serialization.LoadEndianness.BIG)
    >>> flambeau.serialization.get_default_load_endianness()
    <LoadEndianness.BIG: 3>
    >>> flambeau.serialization.set_default_load_endianness(None)
    """
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    config.load.endianness = endianness


def get_crc32_options() -> bool:
    """Whether `save` computes checksums.

    >>> import flambeau
    >>> flambeau.serialization.get_crc32_options()
    True
    """
    return config.save.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Say whether `save` computes checksums.  Without them `load` reads the files, other programs may not.

    Raises nothing.

    >>> import io
    >>> import flambeau
    >>> file = io.BytesIO()
    >>> flambeau.serialization.set_crc32_options(False)
    >>> flambeau.save(flambeau.ones(2), file)
    >>> flambeau.serialization.set_crc32_options(True)
    >>> _ = file.seek(0)
    >>> flambeau.load(file)
    tensor([1., 1.])
    """
    config.save.compute_crc32 = bool(compute_crc32)


def get_default_mmap_options() -> int | None:
    """How `load(…, mmap=True)` maps files: `mmap.MAP_PRIVATE` (the default) or `mmap.MAP_SHARED`.

    >>> import mmap
    >>> import flambeau
    >>> flambeau.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    True
    """
    return config.load.mmap_flags


class set_default_mmap_options:
    """Set how `load(…, mmap=True)` maps files, until changed, or within a `with` block.

    Args:
        flags: `mmap.MAP_PRIVATE`: changes of tensors stay in this process; or `mmap.MAP_SHARED`: they go to the file, which must
            be writable.  ValueError for others.

    >>> import mmap
    >>> import flambeau
    >>> with flambeau.serialization.set_default_mmap_options(mmap.MAP_SHARED):
    ...     flambeau.serialization.get_default_mmap_options() == mmap.MAP_SHARED
    True
    """

    def __init__(self, flags: int) -> None:
        from mmap import MAP_PRIVATE, MAP_SHARED

        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, but "
                f"got {flags}"
            )
        self.prev = config.load.mmap_flags
        config.load.mmap_flags = int(flags)

    def __enter__(self) -> None:
        """The options hold already."""

    def __exit__(self, *error: object) -> None:
        config.load.mmap_flags = self.prev


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The full names in a zip file's pickle that `load` does not allow with `weights_only=True`.  Nothing of it is run.

    ValueError for other kinds of files.

    >>> import io
    >>> import flambeau
    >>> file = io.BytesIO()
    >>> flambeau.save(flambeau.nn.Identity(), file)
    >>> flambeau.serialization.get_unsafe_globals_in_checkpoint(file)
    ['torch.nn.modules.linear.Identity']
    """
    import os

    from ._files import _named
    from ._files.allowed import ALLOWED, user_allowed
    from ._files.archive import Archive, Source
    from ._files.reading import root_of
    from ._files.unpickling import names_in

    if not hasattr(f, "read"):
        with open(os.fspath(f), "rb") as file:
            return get_unsafe_globals_in_checkpoint(file)
    f.seek(0)
    with _named(getattr(f, "name", None), True):
        source = Source(f)
        if source.read(0, min(4, source.size)) != b"PK\3\4":
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        archive = Archive(source)
        root = root_of(archive)
        if root is None or f"{root}/constants.pkl" in archive.entries:
            raise ValueError(
                "Expected input to be a checkpoint returned by torch.save but got a torchscript checkpoint"
            )
        return sorted(names_in(archive.read(f"{root}/data.pkl")) - set(ALLOWED) - set(user_allowed()))


@contextmanager
def mkdtemp() -> Iterator[str]:
    """A folder for the length of the block.

    >>> import os
    >>> import flambeau
    >>> with flambeau.serialization.mkdtemp() as folder:
    ...     flambeau.save(flambeau.ones(2), os.path.join(folder, "x.pt"))
    ...     os.listdir(folder)
    ['x.pt']
    >>> os.path.exists(folder)
    False
    """
    import tempfile

    with tempfile.TemporaryDirectory() as path:
        yield path


def validate_cuda_device(location: str) -> int:
    """The number of the CUDA device that files call `location`; RuntimeError where there is none.

    >>> import flambeau
    >>> flambeau.serialization.validate_cuda_device("cuda:99")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    RuntimeError: Attempting to deserialize object on CUDA device 99 but there are ...
    """
    from . import cuda
    from .core.base.dtypes import device

    index = device(location).index or 0
    if not cuda.is_available() or index >= cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but there are {cuda.device_count()} of them. Please use "
            "load with map_location to map your storages to an existing device."
        )
    return index


def normalize_storage_type(storage_type: type) -> Any:
    """The public class of storages that is named as `storage_type`; KeyError where none is.

    >>> import flambeau
    >>> flambeau.serialization.normalize_storage_type(type("LongStorage", (), {}))
    <class 'flambeau.LongStorage'>
    """
    return (
        storage.UntypedStorage
        if storage_type is storage.UntypedStorage
        else storage.LEGACY[storage_type.__name__]
    )


def storage_to_tensor_type(storage: Any) -> str:
    """The name of the tensors that PyTorch's first releases had over such storages: `FloatStorage` gives `FloatTensor`.

    Raises:
        AttributeError: the argument is no storage

    >>> import flambeau
    >>> flambeau.serialization.storage_to_tensor_type(flambeau.HalfStorage(2))
    'HalfTensor'
    """
    return storage.pickle_storage_type().replace("Storage", "Tensor")
