"""The other public operations: activations, special functions, views, copies, random numbers, masked folds …  See `fuzz_cases`.

What no case names by hand is called with arguments drawn by the names of its parameters, so that an operation is tried from the day it is
declared.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import scipy.special as sp
from fuzz_cases import CASES, both, case, draw_along, like, matrices, square
from fuzz_draw import FLOATS, INTEGERS, Draw

import flambeau
from flambeau.operations.declare.registry import REGISTRY

F = "nn.functional."


def one(low: float = -3.0, high: float = 3.0, dtypes: tuple = FLOATS) -> Any:
    """One tensor of any shape."""
    return lambda d: (d.tensor(d.shape(), d.one_of(*dtypes), low, high),)


def two(low: float = -3.0, high: float = 3.0, dtypes: tuple = FLOATS) -> Any:
    """Two tensors that broadcast."""
    return lambda d: (
        d.tensor(s := d.shape(), t := d.one_of(*dtypes), low, high),
        d.tensor(d.broadcastable(s), t, low, high),
    )


WIDE = ("float32", "float64")
sigmoid = sp.expit

# --- activations, arithmetic ------------------------------
for _names, _f in {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "silu": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "gelu": lambda x: x * sp.ndtr(x),
    "tanh": np.tanh,
}.items():
    case(F + _names, one(-6, 6), _f, 8)
case("threshold", lambda d: (*one()(d), 0.5, 7.0), lambda x, t, v: np.where(x > t, x, v))
case(both("round") + " round_", one(), np.round)
case(
    both("floor_divide"),
    lambda d: (d.tensor(s := d.shape(), "float64"), d.tensor(d.broadcastable(s), "float64", 0.5, 3)),
    np.floor_divide,
)
case(
    both("remainder"),
    lambda d: (d.tensor(s := d.shape(), "float64"), d.tensor(d.broadcastable(s), "float64", 0.5, 3)),
    np.remainder,
    8,
)
case(
    both("fmod"),
    lambda d: (d.tensor(s := d.shape(), "float64"), d.tensor(d.broadcastable(s), "float64", 0.5, 3)),
    np.fmod,
    8,
)
case(
    both("div") + " Tensor.div_",
    lambda d: (d.tensor(s := d.shape(), "float64"), d.tensor(s, "float64", 0.5, 3)),
    np.divide,
)
case(
    both("pow"),
    lambda d: (d.tensor(s := d.shape(), t := d.one_of(*FLOATS), 0.2, 2), d.tensor(d.broadcastable(s), t)),
    np.power,
    30,
)
case(both("pow"), lambda d: (d.tensor(d.shape(), d.one_of(*FLOATS)), d.int(0, 4)), np.power, 30)
case(both("clamp"), lambda d: (*one(dtypes=(*FLOATS, *INTEGERS))(d), 1, 2), np.clip)
case(
    both("clamp"),
    lambda d: (
        d.tensor(s := d.shape(), "float64"),
        d.tensor(d.broadcastable(s), "float64", -3, 0),
        d.tensor(d.broadcastable(s), "float64", 0, 3),
    ),
    np.clip,
)
case("positive", one(dtypes=(*FLOATS, *INTEGERS)), np.positive)
case(both("isclose"), two(dtypes=WIDE), lambda x, y: np.isclose(x, y, 1e-5, 1e-8))
case("allclose equal", lambda d: (x := d.tensor(d.shape(), "float64"), like(d, x, tuple(x.tensor.shape))))
case(
    "Tensor.where",
    lambda d: (
        d.tensor(s := d.shape(), "float64"),
        d.tensor(s, "bool"),
        d.tensor(d.broadcastable(s), "float64"),
    ),
    lambda x, c, y: np.where(c, x, y),
)
case("Tensor.__rdiv__", lambda d: (d.tensor(d.shape(), "float64", 0.5, 3), 2.0), lambda x, y: y / x)
case("nan_to_num nan_to_num_", lambda d: (d.tensor(d.shape(), "float64", special=0.5),), np.nan_to_num)
case("logit logit_", one(0.01, 0.99, WIDE), sp.logit, 100)
case("float_power", lambda d: (d.tensor(d.shape(), "float64", 0.2, 2), 1.5), np.float_power, 8)
case(
    "mvlgamma", lambda d: (d.tensor(d.shape(), "float64", 2.0, 5), 2), lambda x, p: sp.multigammaln(x, p), 30
)
case(
    "ldexp",
    lambda d: (d.tensor(s := d.shape(), "float64"), d.tensor(s, "int64", -4, 4)),
    lambda x, n: x * 2.0**n,
)
case("conj resolve_conj resolve_neg", one(dtypes=("complex64", "float32")), None)
case("gcd", two(-30, 30, INTEGERS), np.gcd)
case("lcm", two(1, 9, ("int32", "int64")), np.lcm)
case("nextafter", two(dtypes=("float64",)), np.nextafter)
case("frexp", one(dtypes=WIDE), np.frexp)
case("igamma", two(0.3, 4, WIDE), sp.gammainc, 2000)
case("igammac", two(0.3, 4, WIDE), sp.gammaincc, 2000)
case("polygamma", lambda d: (d.int(1, 3), d.tensor(d.shape(), "float64", 0.5, 4)), sp.polygamma, 200)
for _theirs, _ours in {
    "i0": sp.i0, "i0e": sp.i0e, "i1": sp.i1, "i1e": sp.i1e, "bessel_j0": sp.j0, "bessel_j1": sp.j1, "modified_bessel_i0": sp.i0,
    "modified_bessel_i1": sp.i1, "erfcx": sp.erfcx, "log_ndtr": sp.log_ndtr, "airy_ai": lambda x: sp.airy(x)[0],
    "spherical_bessel_j0": lambda x: sp.spherical_jn(0, x),
}.items():  # fmt: skip
    case(f"special.{_theirs}", one(dtypes=WIDE), _ours, 50)
for _theirs, _ours in {
    "bessel_y0": sp.y0, "bessel_y1": sp.y1, "modified_bessel_k0": sp.k0, "modified_bessel_k1": sp.k1,
    "scaled_modified_bessel_k0": sp.k0e, "scaled_modified_bessel_k1": sp.k1e,
}.items():  # fmt: skip
    case(f"special.{_theirs}", one(0.3, 4, WIDE), _ours, 200)
case("special.ndtri", one(0.05, 0.95, WIDE), sp.ndtri, 50)
case("special.zeta", two(1.5, 4, WIDE), sp.zeta, 200)
for _theirs, _ours in {
    "chebyshev_polynomial_t": sp.eval_chebyt, "chebyshev_polynomial_u": sp.eval_chebyu, "hermite_polynomial_h": sp.eval_hermite,
    "hermite_polynomial_he": sp.eval_hermitenorm, "laguerre_polynomial_l": sp.eval_laguerre, "legendre_polynomial_p": sp.eval_legendre,
    "shifted_chebyshev_polynomial_t": sp.eval_sh_chebyt, "shifted_chebyshev_polynomial_u": sp.eval_sh_chebyu,
}.items():  # fmt: skip
    case(
        f"special.{_theirs}",
        lambda d: (d.tensor(d.shape(), "float64", -1, 1), d.int(0, 6)),
        lambda x, n, f=_ours: f(n, x),
        1e4,
        "endless",
    )

# --- sums and distances ------------------------------
case(
    "dist",
    lambda d: (d.tensor(s := d.shape(), "float64"), d.tensor(s, "float64"), d.one_of(1.0, 2.0, 3.0)),
    lambda x, y, p: np.linalg.norm((x - y).ravel(), p) if x.size else 0.0,
    50,
)
case("pdist", lambda d: (d.tensor((d.int(0, 6), 3), "float64"), d.one_of(1.0, 2.0, 3.0)))
case("renorm", lambda d: (d.tensor(d.shape(2, 3, 1), "float64"), 2.0, 0, 1.5))
case(F + "pairwise_distance", lambda d: matrices(d, s := d.shape(2, 2, 1), s, dtypes=WIDE))
case("cov", lambda d: (d.tensor((3, d.size(2)), "float64"),), np.cov, 200)
case("corrcoef", lambda d: (d.tensor((3, d.size(2)), "float64"),), None, 200)  # rows may be constant: 0 / 0
case("cumulative_trapezoid", lambda d: (d.tensor(d.shape(1, 2, 2), "float64"),))
case("gradient", lambda d: (d.tensor((d.size(3),), "float64"),), np.gradient, 8)
case(
    "linalg.multi_dot",
    lambda d: (list(matrices(d, (3, k := d.size(1)), (k, 4), (4, 2), dtypes=("float64",))),),
    np.linalg.multi_dot,
    100,
)
case(
    "linalg.vecdot",
    lambda d: matrices(d, s := d.shape(1, 3), s, dtypes=("float64", "complex128")),
    lambda x, y: np.sum(x.conj() * y, -1),
    50,
)
case(
    "linalg.norm linalg.matrix_norm",
    lambda d: (
        d.tensor((d.int(1, 5), d.int(1, 5)), "float64"),
        d.one_of("fro", "nuc", 1, -1, 2, -2, float("inf")),
    ),
    np.linalg.norm,
    1e3,
)
case("linalg.lstsq", lambda d: (d.tensor((5, 3), "float64"), d.tensor((5, 2), "float64")), None, 1e3)
case("linalg.householder_product", lambda d: (d.tensor((4, 3), "float64"), d.tensor((3,), "float64")))
case("linalg.tensorinv", lambda d: (d.hold(d.array((6, 2, 3), "float64"), "float64"), {"ind": 1}), None, 1e4)
case(
    "linalg.solve_triangular",
    lambda d: (a := square(d), like(d, a, (*a.tensor.shape[:-1], 2)), {"upper": d.chance(0.5)}),
    None,
    1e3,
)
case(
    "linalg.inv_ex linalg.cholesky_ex linalg.lu_factor linalg.lu_factor_ex linalg.ldl_factor linalg.ldl_factor_ex "
    "lu qr svd cholesky pinverse",
    lambda d: (square(d, True),),
    None,
    1e4,
    "difference",
)
case("linalg.solve_ex", lambda d: (a := square(d), like(d, a, (*a.tensor.shape[:-1], 2))), None, 1e3)
case(
    "cholesky_solve triangular_solve",
    lambda d: (
        d.tensor((3, 2), "float64"),
        d.hold(np.tril(d.array((3, 3), "float64")) + 4 * np.eye(3), "float64"),
    ),
    None,
    1e3,
    "difference",
)
for _name in (
    "sum",
    "prod",
    "amax",
    "amin",
    "mean",
    "logsumexp",
    "var",
    "std",
    "cumsum",
    "cumprod",
    "softmax",
    "log_softmax",
    "softmin",
    "argmax",
    "argmin",
):
    case(
        f"masked.{_name}",
        lambda d: (
            x := d.tensor(d.shape(1, 3, 2), d.one_of("float32", "float64")),
            d.dim(x.tensor.dim()),
            {"mask": d.tensor(tuple(x.tensor.shape), "bool")},
        ),
        None,
        100,
    )
case(
    "masked.norm masked.normalize",
    lambda d: (x := d.tensor(d.shape(1, 3, 2), "float64"), 2.0, d.dim(x.tensor.dim())),
    None,
    50,
)
case(
    "nanquantile",
    lambda d: (x := d.tensor(d.shape(1, 3, 1), "float64"), d.float(0, 1), d.dim(x.tensor.dim())),
    lambda x, q, dim: np.nanquantile(x, q, axis=dim),
    8,
)
case("histogram", lambda d: (d.tensor(d.shape(1, 2), "float64"), d.int(1, 6)))
case("Tensor.cumsum_ Tensor.cumprod_", draw_along(dtypes=WIDE), None, 100)

# --- losses ------------------------------
case(
    F + "hinge_embedding_loss",
    lambda d: (d.tensor((4,), "float64"), d.hold(np.array([1.0, -1, 1, -1]), "float64")),
)
case(
    F + "margin_ranking_loss",
    lambda d: (
        d.tensor((4,), "float64"),
        d.tensor((4,), "float64"),
        d.hold(np.array([1.0, -1, 1, -1]), "float64"),
    ),
)
case(
    F + "multilabel_margin_loss",
    lambda d: (d.tensor((2, 4), "float64"), d.hold(np.array([[0, 2, -1, 1], [3, -1, 0, 0]]), "int64")),
)
case(
    F + "multilabel_soft_margin_loss",
    lambda d: (d.tensor((2, 4), "float64"), d.tensor((2, 4), "float64", 0, 1)),
)
case(
    F + "gaussian_nll_loss",
    lambda d: (d.tensor((2, 4), "float64"), d.tensor((2, 4), "float64"), d.tensor((2, 4), "float64", 0.5, 2)),
)
case(
    F + "ctc_loss",
    lambda d: (d.tensor((8, 2, 5), "float64"), d.hold(d.rng.integers(1, 5, (2, 3)), "int64"), (8, 8), (3, 2)),
    but="difference",  # the gradient is that of the logits that the log-probabilities come from
)
case(F + "triplet_margin_with_distance_loss", lambda d: tuple(d.tensor((4, 5), "float64") for _ in range(3)))

# --- windows ------------------------------
for _n in (1, 2, 3):
    case(
        f"{F}max_pool{_n}d_with_indices", lambda d, n=_n: (d.tensor((1, 2, *[d.int(3, 7)] * n), "float64"), 2)
    )
case(F + "lp_pool3d", lambda d: (d.tensor((1, 2, 4, 4, 4), "float64"), 2.0, 2))
case(
    f"{F}upsample_nearest {F}upsample",
    lambda d: (d.tensor((1, 2, d.int(1, 5), 3), "float64"), {"scale_factor": 2}),
)
case(F + "upsample_bilinear", lambda d: (d.tensor((1, 2, d.int(1, 5), 3), "float64"), {"scale_factor": 2}))
case(F + "channel_shuffle", lambda d: (d.tensor((2, 6, d.size()), d.one_of(*FLOATS)), 3))
case(
    "constant_pad_nd",
    lambda d: (d.tensor(d.shape(2, 3), "float64"), (1, 2), 0.5),
    lambda x, p, v: np.pad(x, [(0, 0)] * (x.ndim - 1) + [p], constant_values=v),
)
case("stft", lambda d: (d.tensor((d.int(32, 64),), "float64"), 16, {"return_complex": True}), None, 100)

# --- views and copies ------------------------------
case("unflatten", lambda d: (d.numbers(1, 1, least=1), 0, (-1, 1)), lambda x, dim, s: x.reshape(s))
case("t", lambda d: (d.numbers(0, 2),), np.transpose)
case("adjoint", lambda d: (d.numbers(2, 3),), lambda x: np.swapaxes(x, -1, -2).conj())
case(
    "detach clone Tensor.contiguous Tensor.cpu Tensor.is_contiguous is_signed",
    lambda d: (d.numbers(),),
)
case("hsplit", lambda d: (d.tensor((2, 4, 2), "float64"), 2), np.hsplit)
case("vsplit", lambda d: (d.tensor((4, d.size()), "float64"), 2), np.vsplit)
case("dsplit", lambda d: (d.tensor((2, d.size(), 4), "float64"), 2), np.dsplit)
case(
    "Tensor.view_as Tensor.reshape_as",
    lambda d: (d.hold(d.array((2, 6), "float64"), "float64"), d.tensor((3, 4), "float64")),
    None,
    1,
    "layout",
)
case(
    "Tensor.expand_as",
    lambda d: (d.tensor((1, 3), "float64"), d.tensor((2, 3), "float64")),
    lambda x, y: np.broadcast_to(x, y.shape),
)
case("broadcast_to", lambda d: (x := d.numbers(0, 3), (2, *x.tensor.shape)), np.broadcast_to)
case("view_as_complex", lambda d: (d.hold(d.array((3, 2), "float64"), "float64"),), None, 1, "layout")
case("view_as_real real imag", one(dtypes=("complex64", "complex128")))
case("Tensor.squeeze_ Tensor.t_", lambda d: (d.numbers(0, 2),))
case(
    "Tensor.unsqueeze_",
    lambda d: (x := d.numbers(0, 3), d.int(-x.tensor.dim() - 1, x.tensor.dim())),
    np.expand_dims,
)
case(
    "Tensor.transpose_ Tensor.swapaxes_ Tensor.swapdims_",
    lambda d: (x := d.numbers(1, 4), d.dim(x.tensor.dim()), d.dim(x.tensor.dim())),
    np.swapaxes,
)
for _name in (
    "float",
    "double",
    "half",
    "bfloat16",
    "int",
    "long",
    "short",
    "char",
    "byte",
    "bool",
    "cfloat",
    "cdouble",
):
    case(f"Tensor.{_name}", one(0, 9, (*FLOATS, *INTEGERS, "bool")))
case("Tensor.to", lambda d: (d.numbers(), getattr(flambeau, d.one_of("float32", "complex64", "bfloat16"))))
case(
    "Tensor.copy_",
    lambda d: (
        x := d.tensor(d.shape(), d.one_of(*FLOATS)),
        d.tensor(d.broadcastable(tuple(x.tensor.shape)), d.one_of(*FLOATS)),
    ),
    lambda x, y: np.broadcast_to(y, x.shape) + 0 * x,
    1e5,
)
case("fill Tensor.fill_", lambda d: (d.numbers(), 3), lambda x, v: np.full_like(x, v))
case("Tensor.zero_", lambda d: (d.numbers(),), np.zeros_like)
case("fill_diagonal_", lambda d: (d.tensor((d.int(2, 5), d.int(2, 5)), "float64"), 1.5))
case("narrow_copy", lambda d: (x := d.numbers(1, 3), 0, 0, x.tensor.shape[0]), lambda x, dim, a, n: x)
case("unsafe_split unsafe_chunk", lambda d: (d.numbers(1, 3, least=1), 2))
case("diagflat", lambda d: (d.numbers(0, 2), d.int(-2, 2)), np.diagflat)
case(
    "column_stack",
    lambda d: ([d.tensor((n := d.size(),), "float64"), d.tensor((n, 2), "float64")],),
    np.column_stack,
)
case("diagonal_scatter", lambda d: (d.tensor((3, 4), "float64"), d.tensor((3,), "float64")))
case("select_scatter", lambda d: (d.tensor((3, n := d.size()), "float64"), d.tensor((n,), "float64"), 0, 1))
case(
    "slice_scatter", lambda d: (d.tensor((4, n := d.size()), "float64"), d.tensor((2, n), "float64"), 0, 1, 3)
)
case("unravel_index", lambda d: (d.index(d.shape(0, 2), 12), (3, 4)), np.unravel_index)
case("moveaxis", lambda d: (x := d.numbers(1, 4), d.dim(x.tensor.dim()), d.dim(x.tensor.dim())), np.moveaxis)

# --- indexing ------------------------------
case(
    "index_put Tensor.index_put_",
    lambda d: (
        x := d.tensor((5, d.size(1)), "float64"),
        (d.index((3,), 5),),
        like(d, x, (3, x.tensor.shape[1])),
        {"accumulate": True},
    ),
)
case(
    "index_copy Tensor.index_copy_",
    lambda d: (
        x := d.tensor((5, d.size()), "float64"),
        0,
        d.hold(d.rng.permutation(5)[:3], "int64"),
        like(d, x, (3, x.tensor.shape[1])),
    ),
    but="difference",
)
case(
    "index_reduce",
    lambda d: (
        x := d.tensor((5, d.size()), "float64"),
        0,
        d.index((3,), 5),
        like(d, x, (3, x.tensor.shape[1])),
        d.one_of("prod", "mean", "amax", "amin"),
    ),
)
case(
    "masked_scatter Tensor.masked_scatter_",
    lambda d: (x := d.numbers(), d.tensor(tuple(x.tensor.shape), "bool"), like(d, x, tuple(x.tensor.shape))),
)
case(
    "put",
    lambda d: (
        x := d.numbers(1, 2, least=1),
        i := d.index(d.shape(0, 2), x.tensor.numel(), True),
        like(d, x, i.array.shape),
        {"accumulate": True},
    ),
)

# --- creation, random numbers: shapes and determinism ------------------------------
case("rand randn", lambda d: (d.shape(),))
case("randint", lambda d: (0, d.int(1, 9), d.shape()))
case("rand_like randn_like zeros_like ones_like", one(dtypes=WIDE))
case("bernoulli", one(0, 1, WIDE), None, 1, "layout")
case("poisson", one(0, 4, WIDE), None, 1, "layout")
case(
    "binomial",
    lambda d: (lambda s: (d.tensor(s, "float64", 0, 30), d.tensor(s, "float64", 0, 1)))(d.shape()),
    None,
    1,
    "layout",
)
case("multinomial", lambda d: (d.tensor((3, d.int(2, 6)), "float64", 0.1, 1), 2), None, 1, "layout")
case("normal", lambda d: (0.0, 1.0, d.shape()))
case("randperm", lambda d: (d.size(),))
case(
    "Tensor.uniform_ Tensor.normal_ Tensor.exponential_ Tensor.bernoulli_ Tensor.cauchy_ Tensor.log_normal_",
    lambda d: (d.tensor(d.shape(), d.one_of(*FLOATS)),),
    None,
    1,
    "layout",
)
case(
    f"{F}dropout {F}alpha_dropout {F}rrelu {F}gumbel_softmax",
    lambda d: (d.tensor(d.shape(1, 3, 1), "float64"),),
    None,
    1,
    "layout",
)
case(
    "logspace",
    lambda d: (d.float(), d.float(), d.size(), {"dtype": "float64"}),
    lambda a, b, n, dtype: np.logspace(a, b, n),
    100,
)
case("scalar_tensor", lambda d: (d.float(),))
case(
    "tensor as_tensor asarray",
    lambda d: (d.array(d.shape(), d.one_of(*FLOATS[:2], *INTEGERS)).tolist(),),
    lambda x: np.asarray(x, "float32" if np.asarray(x).dtype.kind == "f" else None),
)
case("Tensor.new_zeros Tensor.new_ones", lambda d: (d.numbers(), d.shape()))
case("Tensor.new_full", lambda d: (d.numbers(), d.shape(), 3), lambda x, s, v: np.full(s, v))
for _name in ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall"):
    case(f"signal.windows.{_name}", lambda d: (d.size(1),))
case("fft.fftfreq", lambda d: (d.size(1),), np.fft.fftfreq)
case("fft.rfftfreq", lambda d: (d.size(1),), np.fft.rfftfreq)
case(
    "fft.rfft2 fft.rfftn fft.ihfft2 fft.ihfftn",
    lambda d: (d.tensor(d.shape(2, 3, 2), d.one_of(*WIDE)),),
    None,
    100,
)
case(
    "fft.irfft2 fft.irfftn fft.hfft2 fft.hfftn",
    lambda d: (d.tensor(d.shape(2, 3, 2), "complex128"),),
    None,
    100,
    "difference",
)

# --- everything else ------------------------------
_BY_NAME = {
    "dim": lambda d, x: d.dim(x.tensor.dim()), "dims": lambda d, x: d.dims(x.tensor.dim()), "keepdim": lambda d, x: d.chance(0.5),
    "n": lambda d, x: d.int(0, 3), "p": lambda d, x: d.float(0.5, 3), "k": lambda d, x: d.int(0, 3), "size": lambda d, x: d.shape(),
    "index": lambda d, x: d.index((2,), 2), "indices": lambda d, x: d.index((2,), 2),
    "mask": lambda d, x: d.tensor(tuple(x.tensor.shape), "bool"), "kernel_size": lambda d, x: d.int(1, 3),
    "output_size": lambda d, x: d.int(1, 3),
    "bins": lambda d, x: d.int(1, 4), "offset": lambda d, x: d.int(-1, 1), "dim0": lambda d, x: 0, "dim1": lambda d, x: 0,
    "window_length": lambda d, x: d.size(), "M": lambda d, x: d.size(), "tensors": lambda d, x: [x, x],
    "callable": lambda d, x: (lambda *numbers: numbers[0]), "dtype": lambda d, x: flambeau.float64,
}  # fmt: skip
# Not calls of an operation: state of the process, other devices, users' memory.
NOT_CALLED = {
    "Tensor.numpy", "Tensor.is_pinned",
    "Generator", "default_generator", "linalg.LinAlgError", "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state",
    "Tensor.cuda", "Tensor.opencl", "Tensor.record_stream", "Tensor.__dlpack__", "from_dlpack", "from_numpy", "frombuffer",
    "Tensor.set_", "Tensor.__array_wrap__", "empty_like", "empty_strided", "Tensor.new_empty", "Tensor.new_empty_strided", "Tensor.resize_",
    "Tensor.resize_as_", "Tensor.pin_memory",
}  # fmt: skip


def _by_names(function: Any) -> Any:
    """Arguments for the parameters without a default, and for some of the others."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return lambda d: (d.floats(),)
    wanted = [
        p
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]

    def draw(d: Draw) -> tuple:
        x = d.tensor(d.shape(1, 3, 1), d.one_of("float32", "float64", "int64"))
        return tuple(_BY_NAME.get(p.name, lambda d, x: x)(d, x) for p in wanted)

    return draw


_named = {c.place for c in CASES}
for _entry in REGISTRY.values():
    for _place in _entry.places:
        _last = _place.rpartition(".")[2]
        if _place in _named | NOT_CALLED or _last.startswith("_"):
            continue
        case(
            _place,
            _by_names(_entry.function),
            None,
            1e4,
            "layout endless" if "polynomial" in _place else "layout",
        )
