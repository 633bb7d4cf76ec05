# Written by `python tools/interface.py` from the registry.
from typing import Any as _Any

aminmax: _Any
cummax: _Any
cummin: _Any
frexp: _Any
geqrf: _Any
histogram: _Any
histogramdd: _Any
kthvalue: _Any
linalg_cholesky_ex: _Any
linalg_eig: _Any
linalg_eigh: _Any
linalg_inv_ex: _Any
linalg_ldl_factor: _Any
linalg_ldl_factor_ex: _Any
linalg_lstsq: _Any
linalg_lu: _Any
linalg_lu_factor: _Any
linalg_lu_factor_ex: _Any
linalg_qr: _Any
linalg_slogdet: _Any
linalg_solve_ex: _Any
linalg_svd: _Any
lu_unpack: _Any
max: _Any
median: _Any
min: _Any
mode: _Any
nanmedian: _Any
sort: _Any
svd: _Any
topk: _Any
triangular_solve: _Any
