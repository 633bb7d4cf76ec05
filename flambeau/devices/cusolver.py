"""Decompositions of large matrices by cuSOLVER, opened at the first that a CUDA device is given.

FLAMBEAU_LIBCUSOLVER names the library; else it is the system's, else that of the wheel nvidia-cusolver.  Its functions are called through
ctypes: a decomposition is much dearer than that.  Signatures are those of cusolverDn.h's 64-bit interface, of CUDA 12 and 13.

cuSOLVER stores matrices by columns, tensors by rows: what is a matrix to us is its transpose to it.  Where that is no use, a copy is turned
before and turned back after.  Functions take stacks of matrices and compute one after another on the current stream.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from ctypes import c_byte, c_int, c_int64, c_size_t, c_void_p
from typing import Any

from ..core.base.device import find_device
from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.make.create import empty
from .cuda_driver import is_hip, library_files, load_typed

FROM = 64  # columns from which a decomposition is cuSOLVER's
TYPES = {"float32": 0, "float64": 1, "complex64": 4, "complex128": 5}  # of library_types.h
LOWER, UPPER = 0, 1
NO_VECTORS, VECTORS = 0, 1
AS_STORED = 0
ALL, SOME, NONE = b"A", b"S", b"N"
INT32, INT64, UINT8 = by_name["int32"], by_name["int64"], by_name["uint8"]
STATUS = {
    1: "NOT_INITIALIZED",
    2: "ALLOC_FAILED",
    3: "INVALID_VALUE",
    4: "ARCH_MISMATCH",
    6: "EXECUTION_FAILED",
    7: "INTERNAL_ERROR",
    9: "NOT_SUPPORTED",
}

_MATRIX = [c_int, c_void_p, c_int64]  # dtype, address, elements from one column to the next
_SIZES = [c_void_p, c_void_p]  # where the bytes of the workspaces on device and host are written
_WORKSPACES = [
    c_void_p,
    c_size_t,
    c_void_p,
    c_size_t,
    c_void_p,
]  # the workspaces, and where the verdict is written
_FIRST = [c_void_p, c_void_p]  # handle, parameters
_ARGUMENTS = {
    "Xpotrf": [*_FIRST, c_int, c_int64, *_MATRIX, c_int],
    "Xgeqrf": [*_FIRST, c_int64, c_int64, *_MATRIX, c_int, c_void_p, c_int],
    "Xsyevd": [*_FIRST, c_int, c_int, c_int64, *_MATRIX, c_int, c_void_p, c_int],
    "Xgesvd": [
        *_FIRST,
        c_byte,
        c_byte,
        c_int64,
        c_int64,
        *_MATRIX,
        c_int,
        c_void_p,
        *_MATRIX,
        *_MATRIX,
        c_int,
    ],
}
_SIGNATURES: dict[str, list[Any]] = {
    "cusolverDnCreate": [c_void_p],
    "cusolverDnCreateParams": [c_void_p],
    "cusolverDnSetStream": [c_void_p, c_void_p],
    **{f"cusolverDn{name}": [*args, *_WORKSPACES] for name, args in _ARGUMENTS.items()},
    **{f"cusolverDn{name}_bufferSize": [*args, *_SIZES] for name, args in _ARGUMENTS.items()},
    "cusolverDnXgetrf": [*_FIRST, c_int64, c_int64, *_MATRIX, c_void_p, c_int, *_WORKSPACES],
    "cusolverDnXgetrf_bufferSize": [*_FIRST, c_int64, c_int64, *_MATRIX, c_int, *_SIZES],
    "cusolverDnXgetrs": [*_FIRST, c_int, c_int64, c_int64, *_MATRIX, c_void_p, *_MATRIX, c_void_p],
}

preferred = {"linalg": 0}  # of backends.cuda.preferred_linalg_library: 0 whichever is faster, 1 cuSOLVER


@functools.cache
def _library() -> Any:
    """The library with the types of its functions, None where it is not installed.  RuntimeError for one without them."""
    for path in library_files("FLAMBEAU_LIBCUSOLVER", ["libcusolver.so.12", "libcusolver.so.11"]):
        try:
            return load_typed(path, _SIGNATURES, "cuSOLVER of CUDA 12 or 13")
        except OSError:
            continue
    return None


def solver_for(a: TensorBase) -> Solver | None:
    """What decomposes a stack of matrices of a device: None where cuSOLVER is not installed, where it is slower (few columns, or more
    matrices than those), and in a capture, which its waits would spoil.
    """
    if not a.is_cuda or a.dtype.name not in TYPES or not a.numel():
        return None
    m, n = a.shape[-2:]
    if not preferred["linalg"] and (min(m, n) < FROM or a.numel() // (m * n) > min(m, n)):
        return None
    on = find_device("cuda", a.get_device())
    return None if on.capturing() else _solver(on)


@functools.cache
def _solver(on: Any) -> Solver | None:
    return None if is_hip() or _library() is None else Solver(on)  # AMD's devices are "cuda", too


class Solver:
    """cuSOLVER on one device."""

    def __init__(self, on: Any) -> None:
        self.on = on
        on.use()
        handle, parameters = c_void_p(), c_void_p()
        self.call("cusolverDnCreate", ctypes.byref(handle))
        self.call("cusolverDnCreateParams", ctypes.byref(parameters))
        self.first = handle, parameters

    def call(self, name: str, *args: Any) -> None:
        """A function of the library; RuntimeError where it fails."""
        status = getattr(_library(), name)(*args)
        if status:
            raise RuntimeError(
                f"CUDA error: {name}: CUSOLVER_STATUS_{STATUS.get(status, 'UNKNOWN')} ({status})"
            )

    def begin(self) -> None:
        """Let what is called next run on this thread's current stream."""
        self.on.use()
        self.call("cusolverDnSetStream", self.first[0], self.on.current_stream())

    def run(self, name: str, args: tuple, info: int, sized: tuple | None = None) -> None:
        """A decomposition in the workspace that it wants; `sized` are the arguments of that question where they are others."""
        on_device, on_host = c_size_t(), c_size_t()
        wanted = args if sized is None else sized
        self.call(
            f"cusolverDn{name}_bufferSize",
            *self.first,
            *wanted,
            ctypes.byref(on_device),
            ctypes.byref(on_host),
        )
        workspace = empty(max(on_device.value, 1), dtype=UINT8, device=self.on.place)
        host = ctypes.create_string_buffer(max(on_host.value, 1))
        self.call(
            f"cusolverDn{name}",
            *self.first,
            *args,
            workspace.data_ptr(),
            on_device.value,
            host,
            on_host.value,
            info,
        )

    # what `operations/on_device` computes by kernels of our own: the same results, conventions and verdicts
    def cholesky(self, a: TensorBase) -> tuple[TensorBase, TensorBase]:
        """The lower factor, and for each matrix 0 or the order of the first minor that is not positive."""
        result = a.tril().contiguous()
        kind, n = TYPES[a.dtype.name], a.shape[-1]
        info = a.new_zeros(a.shape[:-2], dtype=INT32)
        self.begin()
        for place, verdict in zip(_places(result), _places(info, 0), strict=True):
            # by columns the lower triangle is the upper one of the conjugate, whose factor is conjugated likewise
            self.run("Xpotrf", (UPPER, n, kind, place, n, kind), verdict)
        return result.tril(), info

    def lu(self, a: TensorBase) -> tuple[TensorBase, TensorBase, TensorBase]:
        """L and U in one matrix, the rows exchanged at each step (from 1, int32), and 0 or the first zero pivot's number."""
        columns, pivots, info = self._lu(a)
        return columns.mT.contiguous(), pivots.to(INT32), info

    def _lu(self, a: TensorBase) -> tuple[TensorBase, TensorBase, TensorBase]:
        columns = _turned(a)
        kind, (m, n) = TYPES[a.dtype.name], a.shape[-2:]
        pivots = a.new_zeros((*a.shape[:-2], min(m, n)), dtype=INT64)
        info = a.new_zeros(a.shape[:-2], dtype=INT32)
        self.begin()
        for place, exchanged, verdict in zip(
            _places(columns), _places(pivots, 1), _places(info, 0), strict=True
        ):
            shape = (m, n, kind, place, m)
            self.run("Xgetrf", (*shape, exchanged, kind), verdict, (*shape, kind))
        return columns, pivots, info

    def solve(self, a: TensorBase, b: TensorBase) -> tuple[TensorBase, TensorBase]:
        """The solution, and for each matrix 0 or the number of the first pivot that is 0."""
        columns, pivots, info = self._lu(a)
        x = _turned(b)
        kind, n, count = TYPES[a.dtype.name], a.shape[-1], b.shape[-1]
        wrong = a.new_zeros((), dtype=INT32)  # of arguments: they are right
        if count:
            for place, exchanged, right in zip(_places(columns), _places(pivots, 1), _places(x), strict=True):
                args = (AS_STORED, n, count, kind, place, n, exchanged, kind, right, n, wrong.data_ptr())
                self.call("cusolverDnXgetrs", *self.first, *args)
        return x.mT.contiguous(), info

    def qr(self, a: TensorBase) -> tuple[TensorBase, TensorBase]:
        """R with the reflections' vectors below it, and their scales: LAPACK's geqrf."""
        columns = _turned(a)
        kind, (m, n) = TYPES[a.dtype.name], a.shape[-2:]
        scales = a.new_zeros((*a.shape[:-2], min(m, n)))
        info = a.new_zeros(a.shape[:-2], dtype=INT32)
        self.begin()
        for place, scale, verdict in zip(_places(columns), _places(scales, 1), _places(info, 0), strict=True):
            self.run("Xgeqrf", (m, n, kind, place, m, kind, scale, kind), verdict)
        return columns.mT.contiguous(), scales

    def hermitian(
        self, a: TensorBase, lower: bool, vectors: bool = True
    ) -> tuple[TensorBase, Any, TensorBase]:
        """The eigenvalues in ascending order, the vectors as columns (None unless wanted), and for each matrix 0 where it converged."""
        result = a.clone().contiguous()
        kind, n = TYPES[a.dtype.name], a.shape[-1]
        real = a.dtype.to_real()
        values = a.new_zeros(a.shape[:-1], dtype=real)
        info = a.new_zeros(a.shape[:-2], dtype=INT32)
        job = VECTORS if vectors else NO_VECTORS
        triangle = UPPER if lower else LOWER  # by columns it is the other one, of the conjugate
        self.begin()
        for place, value, verdict in zip(_places(result), _places(values, 1), _places(info, 0), strict=True):
            self.run("Xsyevd", (job, triangle, n, kind, place, n, TYPES[real.name], value, kind), verdict)
        # a row is a vector of the conjugate
        return values, result.conj().resolve_conj().mT.contiguous() if vectors else None, info

    def singular(self, a: TensorBase, full: bool, wanted: bool) -> tuple[Any, TensorBase, Any, TensorBase]:
        """U, the singular values in descending order, V's Hermitian transpose (None unless wanted), and 0 where it converged."""
        m, n = a.shape[-2:]
        if m > n:  # the library takes no matrix with fewer rows than columns, as it sees them
            left, values, right, info = self.singular(a.mT, full, wanted)
            return (
                (right.mT.contiguous(), values, left.mT.contiguous(), info)
                if wanted
                else (None, values, None, info)
            )
        copy = a.clone().contiguous()
        kind, real = TYPES[a.dtype.name], a.dtype.to_real()
        batch = a.shape[:-2]
        rows = n if full else m
        values = a.new_zeros((*batch, m), dtype=real)
        info = a.new_zeros(batch, dtype=INT32)
        left = a.new_zeros((*batch, m, m) if wanted else (*batch, 1, 1))
        right = a.new_zeros((*batch, rows, n) if wanted else (*batch, 1, 1))
        job = ord((ALL if full else SOME) if wanted else NONE)
        self.begin()
        # by columns the matrix is its transpose, n by m: its right vectors are our left ones
        for place, value, u, vh, verdict in zip(
            _places(copy), _places(values, 1), _places(left), _places(right), _places(info, 0), strict=True
        ):
            outer = (kind, vh, n, kind, u, m, kind)
            self.run("Xgesvd", (job, job, n, m, kind, place, n, TYPES[real.name], value, *outer), verdict)
        return (left, values, right, info) if wanted else (None, values, None, info)


def _turned(a: TensorBase) -> TensorBase:
    """A copy whose rows are the matrices' columns."""
    turned = a.mT
    return turned.clone() if turned.is_contiguous() else turned.contiguous()


def _places(x: TensorBase, dims: int = 2) -> Iterator[int]:
    """The addresses of the matrices of a contiguous stack, or of its vectors or numbers."""
    size = x.element_size()
    count = 1
    for d in x.shape[: x.ndim - dims]:
        count *= d
    step = size * (x.numel() // count if count else 0)
    start = x.data_ptr()
    return iter([start + k * step for k in range(count)])


def handle_of(on: Any) -> int:
    """The library's handle for a device, made now if this is its first use; 0 where it is not installed."""
    solver = _solver(on)
    return 0 if solver is None else int(solver.first[0].value or 0)
