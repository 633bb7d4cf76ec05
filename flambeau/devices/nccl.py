"""NCCL, NVIDIA's library for collectives between devices, or RCCL, AMD's with the same functions, opened at its first use.

FLAMBEAU_LIBNCCL names the library; else it is the system's, else that of the wheel nvidia-nccl-cu12 or -cu13.  Where the driver is
AMD's it is the system's librccl.so, or ROCm's.  Its functions
are called through ctypes: a launch of a collective is much dearer than that.

Constants and signatures are those of nccl.h, whose functions keep their meaning from one version to the next; 2.11 is the oldest
that has all of them, except those that `Library` says are missing.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from . import cuda_driver

OLDEST = (2, 11, 4)
NON_BLOCKING = (2, 14, 0)  # from which a communicator can be made without blocking
SUCCESS, IN_PROGRESS = 0, 7
ID_BYTES = 128
_MAGIC = 0xCAFEBEEF
TYPES = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "uint32": 3,
    "int64": 4,
    "uint64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
    "float8_e4m3fn": 10,
    "float8_e5m2": 11,
}
BYTE = TYPES["uint8"]
_SINCE = {"float8_e4m3fn": (2, 24, 0), "float8_e5m2": (2, 24, 0)}
OPS = {"SUM": 0, "PRODUCT": 1, "MAX": 2, "MIN": 3, "AVG": 4}
_ON_DEVICE, _ON_HOST = 0, 1  # where the factor of a premultiplied sum is


class NCCLError(RuntimeError):
    """What a function of NCCL returns in place of success."""


class _UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * ID_BYTES)]


class _Config(ctypes.Structure):
    """ncclConfig_t as 2.14 has it; later versions fill in what they have added."""

    _fields_ = [("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("blocking", c_int)]


_COUNTED = [c_void_p, c_void_p, c_size_t, c_int]  # from, to, elements, type
_SIGNATURES: dict[str, list[Any]] = {
    "ncclGetVersion": [POINTER(c_int)],
    "ncclGetUniqueId": [POINTER(_UniqueId)],
    "ncclCommInitRank": [POINTER(c_void_p), c_int, _UniqueId, c_int],
    "ncclCommAbort": [c_void_p],
    "ncclCommDestroy": [c_void_p],
    "ncclCommGetAsyncError": [c_void_p, POINTER(c_int)],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclAllReduce": [*_COUNTED, c_int, c_void_p, c_void_p],
    "ncclReduce": [*_COUNTED, c_int, c_int, c_void_p, c_void_p],
    "ncclBroadcast": [*_COUNTED, c_int, c_void_p, c_void_p],
    "ncclAllGather": [*_COUNTED, c_void_p, c_void_p],
    "ncclReduceScatter": [*_COUNTED, c_int, c_void_p, c_void_p],
    "ncclSend": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclRecv": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclRedOpCreatePreMulSum": [POINTER(c_int), c_void_p, c_int, c_int, c_void_p],
    "ncclRedOpDestroy": [c_int, c_void_p],
}
_LATER: dict[str, list[Any]] = {
    "ncclCommInitRankConfig": [POINTER(c_void_p), c_int, _UniqueId, c_int, POINTER(_Config)]
}


def candidates() -> list[str]:
    """Where the library may be, best first."""
    if cuda_driver.is_hip():
        return cuda_driver.library_files("FLAMBEAU_LIBNCCL", ["librccl.so.1", "librccl.so"], amd=True)
    return cuda_driver.library_files("FLAMBEAU_LIBNCCL", ["libnccl.so.2"])


class Library:
    """The functions of an opened library.  Handles are addresses; an error of a function raises NCCLError, which names it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._loaded = cuda_driver.load_typed(
            path, _SIGNATURES, f"NCCL {_dotted(OLDEST)} or later", NCCLError
        )
        self._loaded.ncclGetErrorString.restype = c_char_p
        number = c_int()
        self._check("ncclGetVersion", self._loaded.ncclGetVersion(byref(number)))
        self.version = _version(number.value)
        if self.version < OLDEST:
            raise NCCLError(f"{path} is NCCL {_dotted(self.version)}: {_dotted(OLDEST)} or later is wanted")
        self.is_non_blocking = self.version >= NON_BLOCKING
        if self.is_non_blocking:
            for name, arguments in _LATER.items():
                getattr(self._loaded, name).argtypes = arguments

    def describe(self, status: int) -> str:
        """What a status means."""
        return f"{self._loaded.ncclGetErrorString(status).decode()} ({status}, NCCL {_dotted(self.version)})"

    def _check(self, name: str, status: int) -> None:
        if status not in (SUCCESS, IN_PROGRESS):
            raise NCCLError(f"NCCL error: {name}: {self.describe(status)}")

    def type_of(self, dtype: str) -> int | None:
        """NCCL's number of a dtype, by its name; None where this version does not have it."""
        return TYPES.get(dtype) if self.version >= _SINCE.get(dtype, OLDEST) else None

    # Communicators ---------------------------------------------------------------------------------------------------------------
    def unique_id(self) -> bytes:
        """What all processes of a communicator are to know."""
        made = _UniqueId()
        self._check("ncclGetUniqueId", self._loaded.ncclGetUniqueId(byref(made)))
        return bytes(memoryview(made))

    def start_communicator(self, key: bytes, size: int, rank: int) -> int:
        """A communicator of the current device; `error_of` says when it can be used.  It blocks before 2.14."""
        made, shared = c_void_p(), _UniqueId.from_buffer_copy(key)
        if self.is_non_blocking:
            config = _Config(ctypes.sizeof(_Config), _MAGIC, _number(NON_BLOCKING), 0)
            status = self._loaded.ncclCommInitRankConfig(byref(made), size, shared, rank, byref(config))
        else:
            status = self._loaded.ncclCommInitRank(byref(made), size, shared, rank)
        self._check("ncclCommInitRank", status)
        assert made.value is not None
        return made.value

    def error_of(self, communicator: int) -> int:
        """The status of a communicator: SUCCESS, IN_PROGRESS, or the error of what it has done on the device."""
        result = c_int()
        self._check("ncclCommGetAsyncError", self._loaded.ncclCommGetAsyncError(communicator, byref(result)))
        return result.value

    def abort(self, communicator: int) -> None:
        """End what the communicator does, and the communicator; waits for no other process."""
        self._check("ncclCommAbort", self._loaded.ncclCommAbort(communicator))

    def destroy(self, communicator: int) -> None:
        """Give back a communicator whose work is done."""
        self._check("ncclCommDestroy", self._loaded.ncclCommDestroy(communicator))

    def group_start(self) -> None:
        """What this thread calls from now on is begun together."""
        self._check("ncclGroupStart", self._loaded.ncclGroupStart())

    def group_end(self) -> None:
        """Begin what was called since `group_start`."""
        self._check("ncclGroupEnd", self._loaded.ncclGroupEnd())

    # Collectives: addresses, elements, NCCL's numbers of type and operation, communicator, stream ------------------------------------
    def all_reduce(
        self, sent: int, received: int, count: int, kind: int, op: int, comm: int, stream: int
    ) -> None:
        """Reduce, for all."""
        self._check(
            "ncclAllReduce", self._loaded.ncclAllReduce(sent, received, count, kind, op, comm, stream)
        )

    def reduce(
        self, sent: int, received: int, count: int, kind: int, op: int, root: int, comm: int, stream: int
    ) -> None:
        """Reduce, for `root`."""
        self._check(
            "ncclReduce", self._loaded.ncclReduce(sent, received, count, kind, op, root, comm, stream)
        )

    def broadcast(
        self, sent: int, received: int, count: int, kind: int, root: int, comm: int, stream: int
    ) -> None:
        """From `root` to all."""
        self._check(
            "ncclBroadcast", self._loaded.ncclBroadcast(sent, received, count, kind, root, comm, stream)
        )

    def all_gather(self, sent: int, received: int, count: int, kind: int, comm: int, stream: int) -> None:
        """`count` elements of each process, for all."""
        self._check("ncclAllGather", self._loaded.ncclAllGather(sent, received, count, kind, comm, stream))

    def reduce_scatter(
        self, sent: int, received: int, count: int, kind: int, op: int, comm: int, stream: int
    ) -> None:
        """Reduce, and `count` elements for each process."""
        status = self._loaded.ncclReduceScatter(sent, received, count, kind, op, comm, stream)
        self._check("ncclReduceScatter", status)

    def send(self, sent: int, count: int, kind: int, peer: int, comm: int, stream: int) -> None:
        """To one process."""
        self._check("ncclSend", self._loaded.ncclSend(sent, count, kind, peer, comm, stream))

    def receive(self, received: int, count: int, kind: int, peer: int, comm: int, stream: int) -> None:
        """From one process."""
        self._check("ncclRecv", self._loaded.ncclRecv(received, count, kind, peer, comm, stream))

    def premultiplied_sum(self, factor: ctypes.Array | int, kind: int, comm: int) -> int:
        """The sum of each process's elements times its factor, which is in memory of the host, or at an address of the device."""
        made, on_device = c_int(), isinstance(factor, int)
        place = c_void_p(factor) if isinstance(factor, int) else factor
        where = _ON_DEVICE if on_device else _ON_HOST
        status = self._loaded.ncclRedOpCreatePreMulSum(byref(made), place, kind, where, comm)
        self._check("ncclRedOpCreatePreMulSum", status)
        return made.value

    def forget_op(self, op: int, comm: int) -> None:
        """Give back a premultiplied sum, once it is posted."""
        self._check("ncclRedOpDestroy", self._loaded.ncclRedOpDestroy(op, comm))


def _number(version: tuple[int, ...]) -> int:
    return version[0] * 10000 + version[1] * 100 + version[2]


def _version(number: int) -> tuple[int, int, int]:
    thousands = 1000 if number < 10000 else 10000  # up to 2.8 the major version counts thousands
    return number // thousands, number % thousands // 100, number % 100


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@functools.cache
def _opened() -> Library | str:
    tried = []
    for path in candidates():
        try:
            return Library(path)
        except (OSError, NCCLError) as error:
            tried.append(str(error))
    return "; ".join(tried)


def library() -> Library:
    """The library; RuntimeError, which says what to install, where there is none that can be used."""
    result = _opened()
    if isinstance(result, str):
        raise RuntimeError(
            "Distributed package doesn't have NCCL built in: `pip install nvidia-nccl-cu12` installs the library that talks between "
            f"CUDA devices, and FLAMBEAU_LIBNCCL names another ({result})"
        )
    return result


def is_available() -> bool:
    """Whether there is a library that can be used."""
    return isinstance(_opened(), Library)
