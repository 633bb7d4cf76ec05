"""What programs call of CUDA's runtime library, by its names, on the driver alone, CUDA's or HIP's; and its errors.

The numbers of the driver's errors are the runtime's.
"""

from __future__ import annotations

import ctypes
import enum
import functools
from typing import Any

from ..core.base import device as _devices
from ..devices import cuda_driver as _driver
from ._find import find


class cudaStatus:
    """Two of the runtime's numbers, as PyTorch has them.

    >>> import flambeau
    >>> flambeau.cuda.cudaStatus.SUCCESS
    0
    """

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


class CudaError(RuntimeError):
    """A call of the runtime that failed, by its number.

    >>> import flambeau
    >>> isinstance(flambeau.cuda.CudaError(2), RuntimeError)
    True
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"{_driver.meaning(code)} ({code})")


class DeferredCudaCallError(Exception):
    """PyTorch's error for a call that waited for the first use of a device and failed then; nothing here waits, so that it is never raised.

    >>> import flambeau
    >>> issubclass(flambeau.cuda.DeferredCudaCallError, Exception)
    True
    """


def check_error(res: int) -> None:
    """Raise CudaError unless a call of `cudart()` has succeeded.

    >>> import flambeau
    >>> flambeau.cuda.check_error(0)
    """
    if res != cudaStatus.SUCCESS:
        raise CudaError(int(res))


class cudaError(enum.IntEnum):
    """What calls return."""

    success = 0


class _Runtime:
    """The functions, each of which returns 0 or an error's number."""

    cudaError = cudaError

    def __init__(self) -> None:
        self._library = ctypes.CDLL(_driver.library_path())

    def _call(self, cuda: str, hip: str, *args: Any) -> int:
        """The function of CUDA's driver, or of HIP, which takes the same arguments."""
        find(None).use()  # the driver's calls are about the context of this thread
        status = getattr(self._library, hip if _driver.is_hip() else cuda)(*args)
        return cudaError.success if status == 0 else status

    def cudaGetErrorString(self, error: int) -> str:
        """What an error's number means."""
        return _driver.meaning(int(error))

    def cudaProfilerStart(self) -> int:
        """Let a profiler that watches the process collect from here on."""
        return self._call("cuProfilerStart", "hipProfilerStart")

    def cudaProfilerStop(self) -> int:
        """Let it collect no longer."""
        return self._call("cuProfilerStop", "hipProfilerStop")

    def cudaHostRegister(self, ptr: int, size: int, flags: int) -> int:
        """Lock the pages of `size` bytes of the host from an address on, so that copies run beside the host's work."""
        memory = ctypes.c_void_p(ptr), ctypes.c_size_t(size), ctypes.c_uint(flags)
        return self._call("cuMemHostRegister_v2", "hipHostRegister", *memory)

    def cudaHostUnregister(self, ptr: int) -> int:
        """Unlock what `cudaHostRegister` has locked."""
        return self._call("cuMemHostUnregister", "hipHostUnregister", ctypes.c_void_p(ptr))

    def cudaStreamCreate(self, ptr: int) -> int:
        """Write the handle of a new stream to an address of the host."""
        return self._call(
            "cuStreamCreate", "hipStreamCreateWithFlags", ctypes.c_void_p(ptr), ctypes.c_uint(0)
        )

    def cudaStreamDestroy(self, stream: int) -> int:
        """Destroy a stream that `cudaStreamCreate` has made."""
        return self._call("cuStreamDestroy_v2", "hipStreamDestroy", ctypes.c_void_p(stream))

    def cudaMemGetInfo(self, device: int) -> tuple[int, int]:
        """Bytes that are free on a device, and all there are.  RuntimeError where there is no such device."""
        return find(device).memory_info()


@functools.cache
def _runtime() -> _Runtime:
    return _Runtime()


def cudart() -> Any:
    """What programs call of CUDA's runtime library, under its names: `cudaProfilerStart` and `cudaProfilerStop`, `cudaHostRegister` and
    `cudaHostUnregister`, `cudaStreamCreate` and `cudaStreamDestroy`, `cudaMemGetInfo`, `cudaGetErrorString`, `cudaError`.  Each call is the
    driver's own; the runtime library need not be installed.

    RuntimeError without a device.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     free, total = flambeau.cuda.cudart().cudaMemGetInfo(0)
    ...     assert 0 <= free <= total
    """
    _devices.find_device("cuda", None)
    return _runtime()
