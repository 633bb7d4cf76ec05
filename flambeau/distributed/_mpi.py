"""MPI as mpi4py has it: found and started once, its types for our dtypes, memory of tensors as its buffers.

MPI is optional.  Whoever needs it calls `library()`, which says what to install where it is missing.
"""

from __future__ import annotations

import ctypes
import functools
import os
from importlib.util import find_spec
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import by_name
from .polling import Poller

CHUNK = 1 << 26  # elements, or bytes, of one call: counts of 31 bits are all that every MPI takes
_THREAD_MULTIPLE = 3

# What reductions of a dtype compute in: halves are added in float32 and rounded once.
_NAMES = {
    by_name["float32"]: "FLOAT",
    by_name["float64"]: "DOUBLE",
    by_name["complex64"]: "C_FLOAT_COMPLEX",
    by_name["complex128"]: "C_DOUBLE_COMPLEX",
    by_name["int8"]: "INT8_T",
    by_name["int16"]: "INT16_T",
    by_name["int32"]: "INT32_T",
    by_name["int64"]: "INT64_T",
    by_name["uint8"]: "UINT8_T",
    by_name["uint16"]: "UINT16_T",
    by_name["uint32"]: "UINT32_T",
    by_name["uint64"]: "UINT64_T",
    by_name["bool"]: "C_BOOL",
}


def installed() -> bool:
    """Whether there is an mpi4py to import."""
    return find_spec("mpi4py") is not None


class Library:
    """mpi4py's `MPI` (`api`), and functions of the MPI library that it has loaded, by their addresses."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self._loaded = ctypes.CDLL(api.__file__)  # whose dependency is the library itself
        self.poller = Poller(ctypes.cast(self._loaded.MPI_Test, ctypes.c_void_p).value)
        self.is_mpich = "MPICH" in api.Get_library_version()

    def start(self) -> Any:
        """Initialise MPI for any number of threads; the communicator of all processes.

        Python's lock is free meanwhile: others of its threads may be who we wait for.
        """
        if not self.api.Is_initialized():
            provided = ctypes.c_int()
            code = self._loaded.MPI_Init_thread(None, None, _THREAD_MULTIPLE, ctypes.byref(provided))
            if code != 0:
                raise RuntimeError(f"MPI_Init_thread failed with code {code}")
        if self.api.Query_thread() < self.api.THREAD_MULTIPLE:
            raise RuntimeError(
                "init_process_group(): MPI was initialised without THREAD_MULTIPLE; let init_process_group() initialise it"
            )
        for communicator in (self.api.COMM_WORLD, self.api.COMM_SELF):
            communicator.Set_errhandler(self.api.ERRORS_RETURN)
        return self.api.COMM_WORLD

    def is_alone(self) -> bool:
        """Whether MPI has been initialised (and maybe finalised) for this process alone, as an import of mpi4py.MPI does."""
        api = self.api
        return api.Is_initialized() and (api.Is_finalized() or api.COMM_WORLD.Get_size() == 1)

    def start_again(self) -> Any:
        """The communicator of all processes where MPI has been initialised in some of them alone; MPICH only, and all call it.

        MPI_Init may be called once in the life of a process, but a session of MPI 4 starts the library anew where nothing else
        holds it: the world of one is finalised first.  mpi4py's `COMM_WORLD` and `COMM_SELF` are this process alone from then on, so
        that a program reads there what it has read before; its communicators, windows and files are gone.
        """
        api = self.api
        if api.Is_initialized() and not api.Is_finalized():
            api.Finalize()
        session, requested = api.Session(), api.Info.Create()
        requested.Set("thread_level", "MPI_THREAD_MULTIPLE")
        os.environ["MPIR_CVAR_NOLOCAL"] = "1"  # MPICH's segments would have the size of the first start
        try:
            info, errors = (
                ctypes.c_int.from_address(api._addressof(o)) for o in (requested, api.ERRORS_RETURN)
            )
            code = self._loaded.MPI_Session_init(info, errors, ctypes.c_void_p(api._addressof(session)))
        finally:
            del os.environ["MPIR_CVAR_NOLOCAL"]
        if code != 0:
            raise RuntimeError(f"MPI_Session_init failed with code {code}")
        result, alone = (
            api.Intracomm.Create_from_group(session.Create_group(name), errhandler=api.ERRORS_RETURN)
            for name in ("mpi://WORLD", "mpi://SELF")
        )
        for communicator in (api.COMM_WORLD, api.COMM_SELF):
            ctypes.memmove(api._addressof(communicator), api._addressof(alone), api._sizeof(alone))
        return result


@functools.cache
def library() -> Library:
    """The library; RuntimeError, which says what to install, where there is none."""
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        mpi4py.rc.finalize = False  # it would wait for processes that died, and run in forked ones
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            'Distributed package doesn\'t have MPI built in: `pip install "flambeau[mpi]"` installs mpi4py and MPICH, through which '
            f'processes talk; backend "fake" needs none ({error})'
        ) from None
    return Library(MPI)


@functools.cache
def type_of(dtype: Any) -> Any:
    """MPI's type for a dtype that it can reduce; None for one that is computed in float32."""
    name = _NAMES.get(dtype)
    return None if name is None else getattr(library().api, name)


def pieces(tensor: Tensor, kind: Any = None, most: int | None = None) -> list[list[Any]]:
    """The memory of a contiguous tensor as MPI's buffers of `most` (or `CHUNK`) elements of a type, or bytes; at least one."""
    most = CHUNK if most is None else most
    api = library().api
    itemsize = 1 if kind is None else tensor.element_size()
    kind = api.BYTE if kind is None else kind
    count = tensor.numel() * tensor.element_size() // itemsize
    start, result = tensor.data_ptr() if count else 0, []
    for begin in range(0, max(count, 1), most):
        n = min(most, count - begin)
        result.append([api.memory.fromaddress(start + begin * itemsize, n * itemsize), n, kind])
    return result
