# Written by `python tools/interface.py` from the registry.
from builtins import tuple as _tuple
from typing import NamedTuple as _NamedTuple
from flambeau import Tensor as Tensor

class aminmax(_NamedTuple):
    min: Tensor
    max: Tensor

class cummax(_NamedTuple):
    values: Tensor
    indices: Tensor

class cummin(_NamedTuple):
    values: Tensor
    indices: Tensor

class frexp(_NamedTuple):
    mantissa: Tensor
    exponent: Tensor

class geqrf(_NamedTuple):
    a: Tensor
    tau: Tensor

class histogram(_NamedTuple):
    hist: Tensor
    bin_edges: Tensor

class histogramdd(_NamedTuple):
    hist: Tensor
    bin_edges: _tuple[Tensor, ...]

class kthvalue(_NamedTuple):
    values: Tensor
    indices: Tensor

class linalg_cholesky_ex(_NamedTuple):
    L: Tensor
    info: Tensor

class linalg_eig(_NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class linalg_eigh(_NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class linalg_inv_ex(_NamedTuple):
    inverse: Tensor
    info: Tensor

class linalg_ldl_factor(_NamedTuple):
    LD: Tensor
    pivots: Tensor

class linalg_ldl_factor_ex(_NamedTuple):
    LD: Tensor
    pivots: Tensor
    info: Tensor

class linalg_lstsq(_NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor

class linalg_lu(_NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor

class linalg_lu_factor(_NamedTuple):
    LU: Tensor
    pivots: Tensor

class linalg_lu_factor_ex(_NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor

class linalg_qr(_NamedTuple):
    Q: Tensor
    R: Tensor

class linalg_slogdet(_NamedTuple):
    sign: Tensor
    logabsdet: Tensor

class linalg_solve_ex(_NamedTuple):
    result: Tensor
    info: Tensor

class linalg_svd(_NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor

class lu_unpack(_NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor

class max(_NamedTuple):
    values: Tensor
    indices: Tensor

class median(_NamedTuple):
    values: Tensor
    indices: Tensor

class min(_NamedTuple):
    values: Tensor
    indices: Tensor

class mode(_NamedTuple):
    values: Tensor
    indices: Tensor

class nanmedian(_NamedTuple):
    values: Tensor
    indices: Tensor

class sort(_NamedTuple):
    values: Tensor
    indices: Tensor

class svd(_NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor

class topk(_NamedTuple):
    values: Tensor
    indices: Tensor

class triangular_solve(_NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor

linalg_cholesky_ex_out = linalg_cholesky_ex
linalg_inv_ex_out = linalg_inv_ex
linalg_solve_ex_out = linalg_solve_ex
linalg_qr_out = linalg_qr
geqrf_out = geqrf
linalg_eigh_out = linalg_eigh
linalg_eig_out = linalg_eig
linalg_svd_out = linalg_svd
linalg_lu_out = linalg_lu
linalg_lu_factor_out = linalg_lu_factor
linalg_lu_factor_ex_out = linalg_lu_factor_ex
linalg_ldl_factor_out = linalg_ldl_factor
linalg_ldl_factor_ex_out = linalg_ldl_factor_ex
linalg_slogdet_out = linalg_slogdet
max_out = max
min_out = min
aminmax_out = aminmax
linalg_lstsq_out = linalg_lstsq
triangular_solve_out = triangular_solve
svd_out = svd
lu_unpack_out = lu_unpack
sort_out = sort
topk_out = topk
kthvalue_out = kthvalue
median_out = median
nanmedian_out = nanmedian
mode_out = mode
frexp_out = frexp
histogram_out = histogram
histogramdd_out = histogramdd
cummax_out = cummax
cummin_out = cummin
qr = linalg_qr
slogdet = linalg_slogdet
qr_out = linalg_qr
slogdet_out = linalg_slogdet
