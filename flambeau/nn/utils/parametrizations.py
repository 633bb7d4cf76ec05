"""Parametrisations of weights: orthogonal matrices, weight norm, spectral norm."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from ..._tensor import Tensor
from ...autograd.grad_mode import no_grad
from ...core.base.typeinfo import finfo
from ...core.make.create import eye
from ...core.places.join import cat
from ...operations.linalg.decompositions import geqrf, qr
from ...operations.linalg.exponential import matrix_exp
from ...operations.linalg.lapack import solve
from ...operations.linalg.reflections import householder_product
from .. import functional as F
from ..modules.module import Module
from . import parametrize
from ._directions import as_matrix, directed, norm_except, output_dim, random_direction

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor_of(module: Module, name: str) -> Tensor:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


# ---------------------------------------------------------------- orthogonal matrices


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _is_orthogonal(Q: Tensor) -> bool:
    n, k = Q.shape[-2:]
    identity = eye(k, dtype=Q.dtype, device=Q.device)
    return (Q.mH @ Q - identity).abs().le(10.0 * n * finfo(Q.dtype).eps + 1e-5 * identity.abs()).all().item()


def _made_orthogonal(A: Tensor) -> Tensor:
    """The Q of A = Q R where the diagonal of R is not negative, for a tall or square A."""
    Q, R = qr(A)
    return Q * R.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        # Reflectors alone do not tell a complex product: the scales would be parameters, too, not all of them allowed.
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.size(-2) < X.size(-1)
        tall = X.mT if wide else X
        Q = self._reflected(tall) if self.orthogonal_map is _OrthMaps.householder else self._rotated(tall)
        if "base" in self._buffers:
            Q = self.base @ Q
        return Q.mT if wide else Q

    def _rotated(self, X: Tensor) -> Tensor:
        """The exponential, or Cayley's map, of the antisymmetric matrix with the lower triangle of X."""
        n, k = X.shape[-2:]
        X = X.tril()
        if n != k:
            X = cat([X, X.new_zeros(n, n - k).expand(*X.shape[:-2], n, n - k)], -1)
        A = X - X.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            Q = matrix_exp(A)
        else:
            identity = eye(n, dtype=A.dtype, device=A.device)
            Q = solve(identity - 0.5 * A, identity + 0.5 * A)
        return Q[..., :k]

    def _reflected(self, X: Tensor) -> Tensor:
        """The product of the reflections whose vectors stand below the diagonal of X; the diagonal holds signs."""
        A = X.tril(-1)
        tau = 2.0 / (1.0 + (A * A).sum(-2))
        signs = X.detach().diagonal(dim1=-2, dim2=-1).trunc()
        return householder_product(A, tau) * signs.unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        wide = Q.size(-2) < Q.size(-1)
        tall = Q.mT if wide else Q
        if "base" not in self._buffers:
            return self._reflectors(tall, wide)
        n, k = tall.shape[-2:]
        if n == k:
            self.base = tall.clone() if _is_orthogonal(tall) else _made_orthogonal(tall)
        else:  # completed to a square one
            rest = tall.new_empty(*tall.shape[:-2], n, n - k).normal_()
            self.base = _made_orthogonal(cat([tall, rest], -1))
        # All three maps send this to the identity: its lower triangle is 0, and Householder's signs are the diagonal's.
        origin = Q.new_zeros(Q.shape)
        origin.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return origin

    def _reflectors(self, Q: Tensor, wide: bool) -> Tensor:
        if self.orthogonal_map is not _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential "
                "or the Cayley parametrizations when use_trivialization=False."
            )
        A, tau = geqrf(Q)
        signs = A.diagonal(dim1=-2, dim2=-1).sign()
        # Where LAPACK reflects nothing (it says exactly 0), `forward` does: with a vector of no other elements.
        A.diagonal(dim1=-2, dim2=-1).copy_(signs.where(tau != 0.0, -signs))
        return A.mT if wide else A


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Parametrise a matrix, or a batch of matrices (…, m, n), so that it is orthogonal, or unitary; return `module`.

    Its columns are orthonormal where m ≥ n, its rows elsewhere.

    Args:
        module: the module that has the tensor.
        name: its name.
        orthogonal_map: "matrix_exp" and "cayley" make the matrix of an antisymmetric one, by exp(A) and by
            (1 + A/2)(1 - A/2)⁻¹; "householder" is a product of reflections, and not for complex numbers.  By default the
            first for square or complex matrices, the last for others.
        use_trivialization: whether the maps apply around a fixed matrix, `parametrizations.weight[0].base` (M. Lezcano-Casado,
            "Trivializations for gradient-based optimization on manifolds", 2019), so that any matrix can be assigned: it
            is made orthogonal by QR if it is not.

    Raises:
        ValueError: there is no such tensor, it has fewer than two dimensions, an unknown map, or "householder" of complex
            numbers.

    >>> import flambeau
    >>> from flambeau import nn
    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 5))
    >>> bool(flambeau.allclose(layer.weight.T @ layer.weight, flambeau.eye(3), atol=1e-6))
    True
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _OrthMaps.__members__:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, _OrthMaps[orthogonal_map], use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)


# ---------------------------------------------------------------- weight norm


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return directed(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except(weight, self.dim), weight


class _ReadOldKeys:
    """Hands the `weight_g` and `weight_v` of the older `nn.utils.weight_norm` on under the names they have now."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, state_dict: Any, prefix: str, *_: Any) -> None:
        old = [f"{prefix}{self.name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{self.name}.original{i}"] = state_dict.pop(key)


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrise a tensor by its length and its direction: w = g · v / |v| (T. Salimans and D. Kingma, 2016); return `module`.

    g is `parametrizations.weight.original0`, v `parametrizations.weight.original1`.  Files saved with the older
    `nn.utils.weight_norm` can be loaded.

    Args:
        module: the module that has the tensor.
        name: its name.
        dim: the dimension along which each part has a length of its own; None for one length.

    Raises:
        ValueError: the module has no tensor of that name

    >>> from flambeau import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.shape, layer.parametrizations.weight.original1.shape
    (flambeau.Size([40, 1]), flambeau.Size([40, 20]))
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_ReadOldKeys(name))
    return module


# ---------------------------------------------------------------- spectral norm


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            self.register_buffer("_u", random_direction(weight, matrix.size(0), eps))
            self.register_buffer("_v", random_direction(weight, matrix.size(1), eps))
            self._iterate(matrix, 15)

    @no_grad()
    def _iterate(self, matrix: Tensor, times: int) -> None:
        """The power method, in place, so that copies of the module that share its buffers see it."""
        for _ in range(times):
            F.normalize(matrix.mv(self._v), dim=0, eps=self.eps, out=self._u)
            F.normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies: the next call writes over these, and backward of this one needs them.
        u, v = self._u.clone(), self._v.clone()
        return weight / u.vdot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Parametrise a tensor by w / σ(w), σ the largest singular value of w as a matrix (T. Miyato et al., 2018); return `module`.

    σ is found by the power method, which goes on by `n_power_iterations` whenever the tensor is requested in training.  Of a
    vector, σ is the norm.

    Args:
        module: the module that has the tensor.
        name: its name.
        n_power_iterations: at least 1.
        eps: what norms are at least, where vectors are divided by them.
        dim: the dimension that makes the matrix's rows; by default 0, and 1 for transposed convolutions.

    Raises:
        ValueError: there is no such tensor, or `n_power_iterations` is below 1.
        IndexError: `dim` is out of range.

    >>> import flambeau
    >>> from flambeau import nn
    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(20, 40), n_power_iterations=100)
    >>> abs(float(flambeau.linalg.matrix_norm(layer.weight, 2)) - 1) < 1e-3
    True
    """
    weight = _tensor_of(module, name)
    parametrization = _SpectralNorm(weight, n_power_iterations, output_dim(module, dim), eps)
    return parametrize.register_parametrization(module, name, parametrization)
