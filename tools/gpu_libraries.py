"""NVIDIA's libraries against the host: products by cuBLAS and by cuBLASLt, decompositions by cuSOLVER, each in every dtype it takes.

A fault is a line that begins with FAULT; the exit status is 1 where there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import flambeau
from flambeau.core.base.tensor import TensorBase
from flambeau.devices import cublaslt, cusolver

linalg, functional = flambeau.linalg, flambeau.nn.functional
BOUNDS = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 1e-3,
    "complex64": 1e-3,
    "float16": 3e-2,
    "bfloat16": 2e-1,
}
faults: list[str] = []


def check(name: str, ours: Callable[[], TensorBase], right: TensorBase, bound: float) -> None:
    """Compare a result of the device with one of the host, by the largest difference over the largest element."""
    try:
        got = ours().cpu()
        wide = flambeau.complex128 if right.is_complex() else flambeau.float64
        error = (
            (got.to(wide) - right.to(wide)).abs().max() / right.to(wide).abs().max().clamp(min=1e-30)
        ).item()
    except Exception as problem:  # every fault is reported, and the rest goes on
        faults.append(f"{name}: {type(problem).__name__}: {problem}")
    else:
        print(f"{name:48} {error:.1e}")
        if not error <= bound:
            faults.append(f"{name}: {error:.1e}, more than {bound:.0e}")


def products(n: int) -> None:
    """Products, with a bias and without one, by each library."""
    for library in ("cublas", "cublaslt", "default"):
        flambeau.backends.cuda.preferred_blas_library(library)
        for name, bound in BOUNDS.items():
            dtype: Any = getattr(flambeau, name)
            a, w, bias = (flambeau.randn(*shape).to(dtype) for shape in ((n, n + 8), (n, n + 8), (n,)))
            wide = flambeau.complex128 if dtype.is_complex else flambeau.float64
            x, y, z = a.to(wide), w.to(wide), bias.to(wide)
            linear = partial(functional.linear, a.cuda(), w.cuda(), bias.cuda())
            for trial in ("first", "second"):  # the first may be a measurement
                check(f"linear {name} {library} {trial}", linear, x @ y.mT + z, bound)
            check(
                f"matmul {name} {library}", partial(flambeau.matmul, a.cuda().mT, w.cuda()), x.mT @ y, bound
            )
    flambeau.backends.cuda.preferred_blas_library("default")


def eigen(g: TensorBase) -> TensorBase:
    values, vectors = linalg.eigh(g)
    return vectors @ values.to(vectors.dtype).diag() @ vectors.mH


def singular(d: TensorBase) -> TensorBase:
    U, S, Vh = linalg.svd(d)
    return U @ S.to(U.dtype).diag() @ Vh


def factor(g: TensorBase) -> TensorBase:
    L = linalg.cholesky(g)
    return L @ L.mH


def solved(d: TensorBase) -> TensorBase:
    return d @ linalg.solve(d, d[:, :3].contiguous())


def lower_upper(d: TensorBase) -> TensorBase:
    P, L, U = linalg.lu(d)
    return P @ L @ U


def orthogonal(d: TensorBase) -> TensorBase:
    Q, R = linalg.qr(d)
    return Q @ R


def decompositions(n: int) -> None:
    """What cuSOLVER computes, put together again."""
    flambeau.backends.cuda.preferred_linalg_library("cusolver")
    for name in ("float32", "float64", "complex64", "complex128"):
        dtype: Any = getattr(flambeau, name)
        a = flambeau.randn(n, n).to(dtype) + n**0.5 * flambeau.eye(n, dtype=dtype)
        h = a @ a.mH + flambeau.eye(n, dtype=dtype)
        for what, together, matrix, wanted in (
            ("cholesky", factor, h, h),
            ("solve", solved, a, a[:, :3]),
            ("lu", lower_upper, a, a),
            ("qr", orthogonal, a, a),
            ("eigh", eigen, h, h),
            ("svd", singular, a, a),
        ):
            check(f"{what} {name}", partial(together, matrix.cuda()), wanted, BOUNDS[name] * 10)
    flambeau.backends.cuda.preferred_linalg_library("default")


def main() -> int:
    flambeau.manual_seed(0)
    large = flambeau.cuda.get_device_properties().total_memory > 16 << 30
    print(
        "cuBLASLt:",
        "none" if cublaslt.find_library() is None else "found",
        "cuSOLVER:",
        "none" if cusolver._library() is None else "found",
    )
    products(512 if large else 16)
    decompositions(256 if large else 8)
    for fault in faults:
        print("FAULT", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
