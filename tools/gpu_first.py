"""The first minute on an NVIDIA device: the driver, a copy, a kernel, a product, and which of NVIDIA's libraries are there."""

from __future__ import annotations

import time

from flambeau.core.base.device import find_device

import flambeau
from flambeau.devices import cublas, cublaslt, cuda_driver, cusolver, nccl


def main() -> None:
    assert flambeau.cuda.is_available(), "FAULT there is no device, or no driver that this process may use"
    for k in range(flambeau.cuda.device_count()):
        print(flambeau.cuda.get_device_properties(k), "kernels for", find_device("cuda", k).processor)
    print("driver", cuda_driver.driver_version())
    a = flambeau.arange(10, dtype=flambeau.float32, device="cuda")
    assert a.tolist() == list(range(10)), "FAULT a copy to the host"
    start = time.perf_counter()
    assert (a * 2 + 1).tolist() == [2 * k + 1 for k in range(10)], "FAULT a kernel"
    print(f"the first kernel, with its translation by the driver: {time.perf_counter() - start:.3f} s")
    b = flambeau.ones(64, 64, device="cuda")
    assert (b @ b).eq(64).all(), "FAULT a product"
    for name, module in (("cuBLAS", cublas), ("cuBLASLt", cublaslt)):
        print(f"{name}: {'none' if module.find_library() is None else 'found'} of {module.candidates()}")
    print("cuSOLVER:", "none" if cusolver._library() is None else "found")
    print("NCCL:", "found" if nccl.is_available() else "none")


if __name__ == "__main__":
    main()
