"""What `test_cuda_host.py` runs in a process of its own, on the fake driver: decompositions by cuSOLVER, whose place SciPy's LAPACK takes.

The fake driver's memory is the host's, so that a fake library can be a few functions of Python behind C's signatures.
"""

from __future__ import annotations

import ctypes
from ctypes import c_byte, c_int, c_int64, c_size_t, c_void_p
from types import SimpleNamespace

import fake_cuda
import numpy as np
import pytest
from scipy.linalg import lapack

import flambeau
from flambeau.devices import cusolver

fake = fake_cuda.install()
cuda, linalg = flambeau.cuda, flambeau.linalg
prefer = flambeau.backends.cuda.preferred_linalg_library
KINDS = {0: np.float32, 1: np.float64, 4: np.complex64, 5: np.complex128}
ROOM = 24  # bytes of workspace that every function wants
calls: list[str] = []

MATRIX = [c_int, c_void_p, c_int64]
TYPES = {
    "Create": [ctypes.POINTER(c_void_p)],
    "CreateParams": [ctypes.POINTER(c_void_p)],
    "SetStream": [c_void_p, c_void_p],
    "Xgetrs": [c_void_p, c_void_p, c_int, c_int64, c_int64, *MATRIX, c_void_p, *MATRIX, c_void_p],
}
GIVEN = {
    "Xpotrf": [c_int, c_int64, *MATRIX, c_int],
    "Xgetrf": [c_int64, c_int64, *MATRIX, c_void_p, c_int],
    "Xgeqrf": [c_int64, c_int64, *MATRIX, c_int, c_void_p, c_int],
    "Xsyevd": [c_int, c_int, c_int64, *MATRIX, c_int, c_void_p, c_int],
    "Xgesvd": [c_byte, c_byte, c_int64, c_int64, *MATRIX, c_int, c_void_p, *MATRIX, *MATRIX, c_int],
}
for _name, _types in GIVEN.items():
    TYPES[_name] = [c_void_p, c_void_p, *_types, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p]
    _asked = [t for k, t in enumerate(_types) if (_name, k) != ("Xgetrf", 5)]
    sizes = [ctypes.POINTER(c_size_t)] * 2
    TYPES[_name + "_bufferSize"] = [c_void_p, c_void_p, *_asked, *sizes]


def array(place, shape, kind):
    """The device's memory there, stored by columns."""
    nbytes = int(np.prod(shape)) * np.dtype(kind).itemsize
    memory = (ctypes.c_char * nbytes).from_address(place)
    return np.frombuffer(memory, kind).reshape(shape, order="F")


def number(place, kind=np.int32):
    return array(place, (1,), kind)


def routine(name, kind):
    return lapack.get_lapack_funcs(name, dtype=kind)


def potrf(upper, n, kind, a, lda, compute):
    assert lda == n and compute == kind
    x = array(a, (n, n), KINDS[kind])
    x[:], info = routine("potrf", KINDS[kind])(x, lower=not upper, clean=False)
    return info


def getrf(m, n, kind, a, lda, pivots, compute):
    assert lda == m and compute == kind
    x = array(a, (m, n), KINDS[kind])
    x[:], exchanged, info = routine("getrf", KINDS[kind])(x)
    array(pivots, (min(m, n),), np.int64)[:] = exchanged + 1
    return info


def geqrf(m, n, kind, a, lda, tau_kind, tau, compute):
    assert lda == m and tau_kind == compute == kind
    x = array(a, (m, n), KINDS[kind])
    x[:], scales, _, info = routine("geqrf", KINDS[kind])(x)
    array(tau, (min(m, n),), KINDS[kind])[:] = scales
    return info


def syevd(vectors, upper, n, kind, a, lda, real, w, compute):
    assert lda == n and np.finfo(KINDS[kind]).dtype == KINDS[real]
    x = array(a, (n, n), KINDS[kind])
    name = "heevd" if kind > 1 else "syevd"
    values, v, info = routine(name, KINDS[kind])(x, compute_v=vectors, lower=not upper)
    array(w, (n,), KINDS[real])[:] = values
    x[:] = v if vectors else 17
    return info


def gesvd(u_job, v_job, m, n, kind, a, lda, real, s, u_kind, u, ldu, v_kind, v, ldv, compute):
    assert m >= n and lda == m and u_kind == v_kind == compute == kind and u_job == v_job
    x = array(a, (m, n), KINDS[kind])
    full = u_job == ord("A")
    left, values, right, info = routine("gesvd", KINDS[kind])(x, full_matrices=full)
    array(s, (n,), KINDS[real])[:] = values
    x[:] = 17  # it is not kept
    if u_job != ord("N"):
        assert (ldu, ldv) == (m, n)
        array(u, (m, m if full else n), KINDS[kind])[:] = left
        array(v, (n, n), KINDS[kind])[:] = right
    return info


def getrs(handle, params, trans, n, count, kind, a, lda, pivots, b_kind, b, ldb, info):
    assert trans == 0 and lda == ldb == n and b_kind == kind
    cuda.synchronize()
    calls.append("Xgetrs")
    factors, x = array(a, (n, n), KINDS[kind]), array(b, (n, count), KINDS[kind])
    exchanged = array(pivots, (n,), np.int64) - 1
    x[:], number(info)[0] = routine("getrs", KINDS[kind])(factors, exchanged.astype(np.int32), x)
    return 0


def factor(name, compute):
    def run(handle, params, *args):
        *given, room, nbytes, host, host_bytes, info = args
        assert nbytes == ROOM and host_bytes == ROOM + 1 and fake.library.fake_count(1) >= ROOM
        cuda.synchronize()
        calls.append(name)
        ctypes.memset(room, 0x55, nbytes), ctypes.memset(host, 0x55, host_bytes)
        number(info)[0] = compute(*given)
        return 0

    return run


def asked(*args):
    args[-2][0], args[-1][0] = ROOM, ROOM + 1
    return 0


def made(out):
    out[0] = 0x1234
    return 0


@pytest.fixture(autouse=True)
def library(monkeypatch):
    computed = {"Xpotrf": potrf, "Xgetrf": getrf, "Xgeqrf": geqrf, "Xsyevd": syevd, "Xgesvd": gesvd}
    functions = {"Create": made, "CreateParams": made, "SetStream": lambda handle, stream: 0, "Xgetrs": getrs}
    for name, compute in computed.items():
        functions |= {name: factor(name, compute), name + "_bufferSize": asked}
    result = SimpleNamespace()
    for name, function in functions.items():
        given = ctypes.cast(ctypes.CFUNCTYPE(c_int, *TYPES[name])(function), c_void_p)
        result.__dict__.setdefault("kept", []).append(given)
        called = ctypes.CFUNCTYPE(c_int, *cusolver._SIGNATURES[f"cusolverDn{name}"])(given.value)
        setattr(result, f"cusolverDn{name}", called)
    monkeypatch.setattr(cusolver, "_library", lambda: result)
    cusolver._solver.cache_clear()
    prefer("cusolver")
    calls.clear()
    yield result
    prefer("default")
    cusolver._solver.cache_clear()


def draws(*shape, dtype="float64", seed=0):
    generator = np.random.default_rng([seed, *shape])
    x = generator.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * generator.standard_normal(shape)
    return flambeau.tensor(x, dtype=getattr(flambeau, dtype)), x


DTYPES = ["float32", "float64", "complex64", "complex128"]


def close(ours, theirs):
    single = ours.dtype in (flambeau.float32, flambeau.complex64)
    np.testing.assert_allclose(ours.cpu().resolve_conj().numpy(), theirs, atol=1e-4 if single else 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_cholesky(dtype, batch):
    x, y = draws(*batch, 5, 5, dtype=dtype)
    a = x @ x.mH + flambeau.eye(5, dtype=x.dtype)
    b = y @ np.conj(np.swapaxes(y, -1, -2)) + np.eye(5)
    close(linalg.cholesky(a.cuda()), np.linalg.cholesky(b))
    assert calls == ["Xpotrf"] * int(np.prod(batch))
    close(linalg.cholesky(a.cuda(), upper=True), np.conj(np.swapaxes(np.linalg.cholesky(b), -1, -2)))
    a[..., 3, 3] = -1
    L, info = linalg.cholesky_ex(a.cuda())
    assert info.flatten().tolist() == [4] * int(np.prod(batch)) and L.is_cuda
    with pytest.raises(linalg.LinAlgError, match="minor of order 4 is not positive"):
        linalg.cholesky(a.cuda())


@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions_and_what_follows(dtype):
    (a, x), (b, y) = draws(2, 5, 5, dtype=dtype), draws(2, 5, 3, dtype=dtype, seed=1)
    close(linalg.solve(a.cuda(), b.cuda()), np.linalg.solve(x, y))
    assert calls == ["Xgetrf", "Xgetrf", "Xgetrs", "Xgetrs"]
    close(linalg.inv(a.cuda()), np.linalg.inv(x))
    close(linalg.det(a.cuda()), np.linalg.det(x))
    assert linalg.solve(a.cuda(), b.cuda()[..., :0]).shape == (2, 5, 0)
    with pytest.raises(linalg.LinAlgError, match="singular"):
        linalg.solve(flambeau.zeros_like(a).cuda(), b.cuda())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 5), (3, 5), (2, 5, 3)])
def test_lu_and_qr(dtype, shape):
    a, x = draws(*shape, dtype=dtype)
    P, L, U = linalg.lu(a.cuda())
    close(P @ L @ U, x)
    LU, pivots = linalg.lu_factor(a.cuda())
    assert pivots.dtype is flambeau.int32 and pivots.tolist() == linalg.lu_factor(a)[1].tolist()
    assert set(calls) == {"Xgetrf"}
    Q, R = linalg.qr(a.cuda())
    close(Q @ R, x)
    close(Q.mH @ Q, np.broadcast_to(np.eye(Q.shape[-1]), Q.mH.shape[:-1] + Q.shape[-1:]))
    assert calls[-1] == "Xgeqrf" and flambeau.equal(R.tril(-1), flambeau.zeros_like(R))
    compact, tau = flambeau.geqrf(a.cuda())
    here = flambeau.geqrf(a)
    close(compact, here[0].numpy()), close(tau, here[1].numpy())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigenvalues(dtype, triangle):
    x, y = draws(2, 5, 5, dtype=dtype)
    a, b = x + x.mH, y + np.conj(np.swapaxes(y, -1, -2))
    spoilt = a.tril() if triangle == "L" else a.triu()  # the other triangle is not read
    values, V = linalg.eigh(spoilt.cuda(), triangle)
    close(values, np.linalg.eigvalsh(b))
    close(V @ values.to(V.dtype).diag_embed() @ V.mH, b)
    close(linalg.eigvalsh(spoilt.cuda(), triangle), np.linalg.eigvalsh(b))
    assert calls == ["Xsyevd"] * 4


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (2, 5, 3)])
def test_singular_values(dtype, full, shape):
    a, x = draws(*shape, dtype=dtype)
    U, S, Vh = linalg.svd(a.cuda(), full)
    wanted = np.linalg.svd(x, full_matrices=full)
    assert [t.shape for t in (U, S, Vh)] == [t.shape for t in wanted] and set(calls) == {"Xgesvd"}
    close(S, wanted[1])
    k = S.shape[-1]
    close(U[..., :k] @ S.to(U.dtype).diag_embed() @ Vh[..., :k, :], x)
    close(U.mH @ U, np.broadcast_to(np.eye(U.shape[-1]), U.mH.shape[:-1] + U.shape[-1:]))
    close(linalg.svdvals(a.cuda()), wanted[1])


def test_gradients():
    x, _ = draws(5, 5)
    a = (x @ x.mT + flambeau.eye(5, dtype=x.dtype)).cuda().requires_grad_()
    assert flambeau.autograd.gradcheck(lambda a: linalg.cholesky((a + a.mT) / 2).sum(), (a,))
    assert flambeau.autograd.gradcheck(lambda a: linalg.solve(a, a[:, :2]).square().sum(), (a,))


def test_which_are_its(monkeypatch):
    prefer("default")
    small, large, many = (
        flambeau.eye(n, device="cuda").expand(k, n, n) for n, k in ((8, 1), (80, 2), (64, 65))
    )
    for a, count in ((small, 0), (large, 2), (many, 0)):
        calls.clear()
        assert cusolver.solver_for(a) is None if not count else flambeau.equal(linalg.cholesky(a), a)
        assert len(calls) == count
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):  # its own kernels are captured, the library waits
        assert cusolver.solver_for(large) is None
        large + 1
    prefer("cusolver")
    assert cusolver.solver_for(flambeau.eye(3, device="cuda")[:, :0]) is None
    assert cusolver.solver_for(flambeau.eye(3, dtype=flambeau.float16, device="cuda")) is None
    monkeypatch.setattr(cusolver, "_library", lambda: None)
    cusolver._solver.cache_clear()
    assert cusolver.solver_for(large) is None
    with pytest.raises(RuntimeError, match=r"current_solver_handle\(\): cuSOLVER is not installed"):
        cuda.current_solver_handle()


def test_errors_of_the_library(library, monkeypatch):
    assert cuda.current_solver_handle() == 0x1234
    monkeypatch.setattr(library, "cusolverDnXpotrf", lambda *args: 6)
    with pytest.raises(
        RuntimeError, match=r"CUDA error: cusolverDnXpotrf: CUSOLVER_STATUS_EXECUTION_FAILED \(6\)"
    ):
        linalg.cholesky(flambeau.eye(3, device="cuda"))
    monkeypatch.setattr(library, "cusolverDnXsyevd", factor("Xsyevd", lambda *given: 2))
    with pytest.raises(linalg.LinAlgError, match="converge"):
        linalg.eigh(flambeau.eye(3, device="cuda"))


def test_a_library_that_is_something_else(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("FLAMBEAU_LIBCUSOLVER", "libc.so.6")
    cusolver._library.cache_clear()
    with pytest.raises(
        RuntimeError, match="libc.so.6 has no cusolverDnCreate: cuSOLVER of CUDA 12 or 13 is wanted"
    ):
        cusolver._library()
    monkeypatch.setenv("FLAMBEAU_LIBCUSOLVER", "no_such_library.so")
    assert cusolver._library() is None
    cusolver._library.cache_clear()


def test_the_switch():
    kind = type(prefer())
    assert [each.name for each in kind] == ["Default", "Cusolver", "Magma"] and prefer() is kind.Cusolver
    assert prefer("default") is kind.Default and prefer(kind.Cusolver) is kind.Cusolver
    with pytest.raises(RuntimeError, match="Unknown input value. Choose from: default, cusolver, magma."):
        prefer("lapack")
    with pytest.raises(RuntimeError, match="MAGMA is not here"):
        prefer("magma")
