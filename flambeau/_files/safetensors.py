"""Files of the safetensors format: named tensors without a pickle, mapped into memory when they are read.

A file is the length of its header in 8 bytes, the header, a JSON object of `{"name": {"dtype", "shape", "data_offsets"}}`, and the
tensors' bytes one after another without holes.  https://huggingface.co/docs/safetensors has the format; the functions are named as
those of the package `safetensors.torch`, which is not needed.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .._tensor import Tensor
from ..core.base import display
from ..core.base.dtypes import by_name
from ..core.base.dtypes import device as Device
from ..core.base.memory import Storage
from ..core.make.bridge import frombuffer
from ..core.make.create import empty
from .errors import INT64, short
from .replacing import replacing

_NAMES = {
    **{
        "F64": "float64",
        "F32": "float32",
        "F16": "float16",
        "BF16": "bfloat16",
        "F8_E4M3": "float8_e4m3fn",
        "F8_E5M2": "float8_e5m2",
        "F8_E8M0": "float8_e8m0fnu",
        "F8_E4M3FNUZ": "float8_e4m3fnuz",
        "F8_E5M2FNUZ": "float8_e5m2fnuz",
        "C64": "complex64",
        "BOOL": "bool",
    },
    **{
        f"{sign}{bits}": f"{kind}{bits}"
        for sign, kind in (("I", "int"), ("U", "uint"))
        for bits in (8, 16, 32, 64)
    },
}
_DTYPES = {name: by_name[ours] for name, ours in _NAMES.items()}
_CODES = {kind: name for name, kind in _DTYPES.items()}
_HEADER_LIMIT = 100_000_000  # bytes, the format's
_METADATA = "__metadata__"


class SafetensorError(RuntimeError):
    """A file is not of the safetensors format, damaged, or holds what there is not here.

    >>> import flambeau
    >>> from flambeau.utils.safetensors import load, save
    >>> load(save({"weight": flambeau.ones(2)})[:-1])
    Traceback (most recent call last):
        ...
    flambeau._files.safetensors.SafetensorError: the tensors take 8 bytes, and the file has 7
    """


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise SafetensorError(what)


# --- reading ------------------------------


class _Place:
    """Where a tensor lies: dtype, shape, first byte and last."""

    __slots__ = ("begin", "dtype", "end", "shape")

    def __init__(self, name: str, described: Any) -> None:
        _require(type(described) is dict, f"the header describes {name!r} by a {type(described).__name__}")
        wanted = {"dtype", "shape", "data_offsets"}
        _require(set(described) == wanted, f"the header describes {name!r} by {sorted(described)!r}"[:200])
        code, shape, offsets = described["dtype"], described["shape"], described["data_offsets"]
        _require(
            type(code) is str and code in _DTYPES, f"{name!r} is of dtype {short(code)}, which is not read"
        )
        for numbers in (shape, offsets):
            fits = type(numbers) is list and all(type(n) is int and 0 <= n < INT64 for n in numbers)
            _require(fits, f"the shape or place of {name!r} are no numbers of at least 0")
        _require(
            len(offsets) == 2 and len(shape) <= 64, f"the shape or place of {name!r} is of a wrong length"
        )
        self.dtype, self.shape = _DTYPES[code], tuple(shape)
        self.begin, self.end = offsets
        nbytes = math.prod(self.shape) * self.dtype.itemsize
        _require(
            self.end - self.begin == nbytes,
            f"{name!r} of shape {list(shape)} and dtype {code} takes {nbytes} bytes, and is given {self.end - self.begin}"[
                :300
            ],
        )


def _read_header(
    read: Callable[[int, int], bytes], size: int
) -> tuple[dict[str, _Place], dict[str, str], int]:
    """The tensors' places, the metadata, and where the bytes begin, all checked against the file's size."""
    import json

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        _require(len(result) == len(pairs), "the header has two entries of one name")
        return result

    _require(size >= 8, f"a file of {size} bytes has no header")
    (length,) = struct.unpack("<Q", read(0, 8))
    _require(length <= _HEADER_LIMIT, f"a header of {length} bytes is too large")
    _require(length <= size - 8, f"a header of {length} bytes is larger than the file")
    text = read(8, length)
    _require(text[:1] == b"{", "the header does not begin with '{'")
    try:
        header = json.loads(text.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise SafetensorError(f"the header is no JSON: {error}"[:300]) from error
    metadata = header.pop(_METADATA, {})
    plain = type(metadata) is dict and all(type(value) is str for value in metadata.values())
    _require(plain, "the metadata are something else than names and texts")
    places = {name: _Place(name, described) for name, described in header.items()}
    end = 0
    for name, place in sorted(places.items(), key=lambda item: (item[1].begin, item[1].end)):
        _require(
            place.begin == end,
            f"{name!r} begins at byte {place.begin}, and the tensor before it ends at {end}",
        )
        end = place.end
    begin = 8 + length
    _require(end == size - begin, f"the tensors take {end} bytes, and the file has {size - begin}")
    return places, metadata, begin


def _tensor(place: _Place, data: Any, begin: int) -> Tensor:
    """A tensor over bytes in memory; a copy where they are not aligned."""
    if place.end == place.begin:
        return empty(place.shape, dtype=place.dtype, device="cpu")
    part = data[begin + place.begin : begin + place.end]
    if (begin + place.begin) % place.dtype.itemsize:
        storage = Storage(len(part))
        memoryview(storage)[:] = part
        return (
            empty(0, dtype=place.dtype, device="cpu")
            .set_(storage, 0, (math.prod(place.shape),), (1,))
            .view(place.shape)
        )
    return frombuffer(part, dtype=place.dtype).view(place.shape)


class safe_open:
    """A file of tensors, opened: a tensor is read when it is requested.

    Args:
        filename: its path.
        framework: `"pt"`, or `"np"` for NumPy's arrays.
        device: where tensors go.

    Raises:
        SafetensorError: the file is damaged, or not of this format.

    >>> import os, tempfile
    >>> import flambeau
    >>> from flambeau.utils.safetensors import safe_open, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "a.safetensors")
    >>> save_file({"weight": flambeau.ones(2, 3)}, path, {"made": "here"})
    >>> with safe_open(path, framework="pt") as file:
    ...     list(file.keys()), file.metadata(), file.get_slice("weight")[:, 0]
    (['weight'], {'made': 'here'}, tensor([1., 1.]))
    """

    def __init__(
        self, filename: str | os.PathLike, framework: str = "pt", device: Any = "cpu", **backend: Any
    ) -> None:
        import mmap

        if framework not in ("pt", "torch", "pytorch", "flambeau", "np", "numpy"):
            raise SafetensorError(f"framework {framework!r} is invalid: use 'pt' or 'np'")
        self._numpy = framework in ("np", "numpy")
        self._device = Device("cuda", device) if isinstance(device, int) else Device(device)
        self._path = os.fsdecode(os.fspath(filename))
        with open(filename, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            # Private pages: what a program writes into a tensor stays with it.
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if size else b""
        self._data = memoryview(mapped)
        try:
            self._places, self._metadata, self._begin = _read_header(
                lambda start, n: bytes(self._data[start : start + n]), size
            )
        except SafetensorError as error:
            raise SafetensorError(f"{display.NAME}: {self._path!r}: {error}") from error

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *error: object) -> None:
        """Tensors keep what they need of the file."""
        self._data = memoryview(b"")
        self._places = {}

    def keys(self) -> list[str]:
        """The tensors' names, sorted."""
        return sorted(self._places)

    def offset_keys(self) -> list[str]:
        """The tensors' names in the order of their bytes."""
        return sorted(self._places, key=lambda name: (self._places[name].begin, self._places[name].end))

    def metadata(self) -> dict[str, str] | None:
        """What was saved with the tensors."""
        return self._metadata or None

    def get_tensor(self, name: str) -> Any:
        """A tensor by its name; SafetensorError where there is none."""
        _require(name in self._places, f"{display.NAME}: {self._path!r} does not contain tensor {name!r}")
        made = _tensor(self._places[name], self._data, self._begin).to(self._device)
        return made.numpy() if self._numpy else made

    def get_tensors(self) -> dict[str, Any]:
        """All tensors by their names."""
        return {name: self.get_tensor(name) for name in self.offset_keys()}

    def get_slice(self, name: str) -> _Slice:
        """A tensor of which parts are read: `file.get_slice(name)[2:4]`."""
        _require(name in self._places, f"{display.NAME}: {self._path!r} does not contain tensor {name!r}")
        return _Slice(self, name)


class _Slice:
    """A tensor in a file, read by parts."""

    def __init__(self, file: safe_open, name: str) -> None:
        self._file = file
        self._name = name

    def get_shape(self) -> list[int]:
        """The whole tensor's shape."""
        return list(self._file._places[self._name].shape)

    def get_dtype(self) -> str:
        """The dtype as the file names it: `"F32"`."""
        return _CODES[self._file._places[self._name].dtype]

    def __getitem__(self, index: Any) -> Any:
        return self._file.get_tensor(self._name)[index]


def load_file(filename: str | os.PathLike, device: Any = "cpu", **backend: Any) -> dict[str, Tensor]:
    """The tensors of a file by their names.

    On the CPU they lie in the mapped file: data is read when it is used, changes stay private, and no memory is taken up before.
    Map files only that nobody else writes to.

    Shape:
        each: as in the file

    Raises:
        SafetensorError: the file is damaged, or not of this format.

    >>> import os, tempfile
    >>> import flambeau
    >>> from flambeau.utils.safetensors import load_file, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "a.safetensors")
    >>> save_file({"weight": flambeau.ones(2)}, path)
    >>> load_file(path)
    {'weight': tensor([1., 1.])}
    """
    with safe_open(filename, framework="pt", device=device) as file:
        return file.get_tensors()


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file's content by their names, in memory of their own.  SafetensorError as `load_file`.

    Shape:
        each: as in the file

    >>> import flambeau
    >>> from flambeau.utils.safetensors import load, save
    >>> load(save({"weight": flambeau.ones(2)}))
    {'weight': tensor([1., 1.])}
    """
    places, _, begin = _read_header(lambda start, n: bytes(data[start : start + n]), len(data))
    whole = Storage(len(data) - begin)
    memoryview(whole)[:] = data[begin:]
    return {name: _tensor(place, memoryview(whole), 0) for name, place in places.items()}


# --- writing ------------------------------


def save_file(
    tensors: Mapping[str, Tensor], filename: str | os.PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors to a file, which takes the place of an old one in one go.

    Args:
        tensors: by their names; contiguous, of memory of their own each (`save_model` takes modules that share some).
        filename: the path.
        metadata: texts to keep with them.

    Shape:
        each: any

    Raises:
        ValueError: a tensor is not contiguous, or of a dtype that the format has not.
        RuntimeError: tensors share memory.
        TypeError: something else than texts or tensors.

    >>> import os, tempfile
    >>> import flambeau
    >>> from flambeau.utils.safetensors import load_file, save_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.safetensors")
    ...     save_file({"bias": flambeau.zeros(1), "weight": flambeau.ones(1, 2)}, path, {"made": "here"})
    ...     load_file(path)["weight"]
    tensor([[1., 1.]])
    """
    header, ordered = _header(tensors, metadata)
    with replacing(os.fsdecode(os.fspath(filename)), False) as file:
        file.write(header)
        for tensor in ordered:
            file.write(_bytes(tensor))


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """What `save_file` would write.  Errors are those of `save_file`.

    Shape:
        each: any

    Raises:
        ValueError: two tensors share memory, or one is not dense

    >>> import flambeau
    >>> from flambeau.utils.safetensors import save
    >>> data = save({"weight": flambeau.ones(2)})
    >>> len(data), data[8:20]  # the header's length, the header, the elements
    (80, b'{"weight":{"')
    """
    header, ordered = _header(tensors, metadata)
    return b"".join([header, *map(_bytes, ordered)])


def _bytes(tensor: Tensor) -> memoryview:
    host = tensor.detach().cpu()
    begin = host.storage_offset() * host.dtype.itemsize
    return host.untyped_storage()._read_only()[begin : begin + host.numel() * host.dtype.itemsize]


def _header(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> tuple[bytes, list[Tensor]]:
    """The header, and the tensors in the order of their bytes: the widest dtypes first, so that all are aligned."""
    import json

    if not isinstance(tensors, Mapping):
        raise ValueError(f"Expected a dict of [str, Tensor] but received {type(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise TypeError(
                f"Key `{name}` is invalid, expected a str and a Tensor but received {type(tensor)}"
            )
        if tensor.dtype not in _CODES:
            raise ValueError(f"the tensor {name!r} is of {tensor.dtype}, which the format does not have")
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It either means you are trying "
                "to save tensors which are reference of each other in which case it's recommended to save only the full tensors, "
                "and reslice at load time, or simply call `.contiguous()` on your tensor to pack it before saving."
            )
    shared = [names for names in _sharing(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            f"Some tensors share memory, this will lead to duplicate memory on disk and potential differences when loading them "
            f"again: {shared}. A potential way to correctly save your model is to use `save_model`."
        )
    header: dict[str, Any] = {}
    if metadata is not None:
        for key, value in metadata.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError(f"metadata must be texts, got {type(key).__name__}: {type(value).__name__}")
        header[_METADATA] = dict(metadata)
    order = sorted(tensors, key=lambda name: (-_RANK[_CODES[tensors[name].dtype]], name))
    end = 0
    for name in order:
        tensor = tensors[name]
        begin, end = end, end + tensor.numel() * tensor.dtype.itemsize
        header[name] = {
            "dtype": _CODES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, [tensors[name] for name in order]


# The package sorts by these, the last first.
_ORDER = (
    *(
        "BOOL",
        "U8",
        "I8",
        "F8_E5M2",
        "F8_E4M3",
        "F8_E8M0",
        "F8_E4M3FNUZ",
        "F8_E5M2FNUZ",
        "I16",
        "U16",
        "F16",
        "BF16",
    ),
    *("I32", "U32", "F32", "C64", "F64", "I64", "U64"),
)
_RANK = {name: i for i, name in enumerate(_ORDER)}


def _sharing(tensors: Mapping[str, Tensor]) -> Iterator[list[str]]:
    """Names of tensors whose bytes overlap, together."""
    spans = sorted(
        (str(t.device), t._address(), t._address() + t.numel() * t.dtype.itemsize, name)
        for name, t in tensors.items()
        if t.numel() and not t.is_meta
    )
    group: list[str] = []
    place, end = "", 0
    for device, begin, stop, name in spans:
        if group and (device != place or begin >= end):
            yield group
            group, end = [], 0
        group.append(name)
        place, end = device, max(end, stop)
    if group:
        yield group


# --- modules ------------------------------


def save_model(
    model: Any,
    filename: str | os.PathLike,
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Write a module's state; of tensors that are the same, one, and in the metadata which name stands for which.

    RuntimeError where tensors share memory and none covers all of it; others are those of `save_file`.

    >>> import os, tempfile
    >>> import flambeau
    >>> from flambeau.utils.safetensors import load_file, save_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(flambeau.nn.Linear(3, 2), os.path.join(folder, "a.safetensors"))
    ...     sorted(load_file(os.path.join(folder, "a.safetensors")))
    ['bias', 'weight']
    """
    state, kept = model.state_dict(), dict(metadata or {})
    for names in _sharing(state):
        whole = [name for name in names if _is_whole(state[name])]
        if len(names) > 1 and not whole:
            raise RuntimeError(f"none of the tensors {names}, which share memory, covers all of it")
        for name in names:
            if len(names) > 1 and name != whole[0]:
                kept.setdefault(name, whole[0])
                del state[name]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    save_file(state, filename, kept if kept or metadata is not None else None)


def _is_whole(tensor: Tensor) -> bool:
    return tensor.numel() * tensor.dtype.itemsize == tensor.untyped_storage().nbytes()


def load_model(
    model: Any, filename: str | os.PathLike, strict: bool = True, device: Any = "cpu", **backend: Any
) -> tuple[set[str], list[str]]:
    """Read what `save_model` wrote into a module; returns the names that are missing and those too many.

    RuntimeError with these names, where there are any and `strict` is true.

    >>> import os, tempfile
    >>> import flambeau
    >>> from flambeau.utils.safetensors import load_model, save_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.safetensors")
    ...     save_model(flambeau.nn.Linear(3, 2, bias=False), path)
    ...     load_model(flambeau.nn.Linear(3, 2), path, strict=False)
    ({'bias'}, [])
    """
    state = load_file(filename, device=device)
    same = [set(names) for names in _sharing(model.state_dict()) if len(names) > 1]
    result = model.load_state_dict(state, strict=False)
    there = {name for names in same if names & set(state) for name in names}
    missing, unexpected = set(result.missing_keys) - there, list(result.unexpected_keys)
    if strict and (missing or unexpected):
        message = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        message += [f"    Missing key(s) in state_dict: {', '.join(sorted(missing))}"] if missing else []
        message += (
            [f"    Unexpected key(s) in state_dict: {', '.join(sorted(unexpected))}"] if unexpected else []
        )
        raise RuntimeError("\n".join(message))
    return missing, unexpected
