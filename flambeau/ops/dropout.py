"""Dropout and embedding: random masks and rows looked up."""

from __future__ import annotations

from ..core.tensor import TensorBase
from .registry import library, register


def _check(name: str, p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"{name}(): dropout probability has to be between 0 and 1, but got {p}")


def _dropped(input: TensorBase, p: float, training: bool, inplace: bool, shape=None) -> TensorBase:
    """Elements (or whole slices of `shape`) zeroed with chance p, the others scaled by 1 / (1 - p)."""
    if not training or p == 0.0 or input.numel() == 0:
        return input
    if p == 1.0:
        found = input * 0.0
    else:
        mask = input.new_empty(input.shape if shape is None else shape).bernoulli_(1.0 - p)
        found = input * mask.mul_(1.0 / (1.0 - p))
    return input.copy_(found) if inplace else found


def dropout(input: TensorBase, p: float = 0.5, training: bool = True, inplace: bool = False) -> TensorBase:
    """Zero elements with chance p and scale the others by 1 / (1 - p) (Srivastava et al. 2014); identity unless training."""
    _check("dropout", p)
    return _dropped(input, p, training, inplace)


def _flat_dropout(input: TensorBase, p: float, train: bool) -> TensorBase:
    """`flambeau.dropout(input, p, train)`."""
    return dropout(input, p, train)


register("dropout_function", "random", dropout, places=("nn.functional.dropout",))
register("dropout", "random", _flat_dropout, places=("dropout",))


def _channels(name: str, ranks: tuple[int, ...]):
    def function(
        input: TensorBase, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> TensorBase:
        _check(name, p)
        if input.ndim not in ranks:
            raise RuntimeError(f"{name}(): an input with {ranks} dimensions expected, got {input.ndim}")
        batched = input.ndim == ranks[-1]
        keep = 2 if batched else 1
        shape = [s if d < keep else 1 for d, s in enumerate(input.shape)]
        return _dropped(input, p, training, inplace, shape)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        "Zero whole channels with chance p and scale the others by 1 / (1 - p) (Tompson et al. 2014)."
    )
    register(name, "random", function, places=(f"nn.functional.{name}",))


_channels("dropout1d", (2, 3))
_channels("dropout2d", (3, 4))
_channels("dropout3d", (4, 5))


def _alpha(input: TensorBase, p: float, training: bool, inplace: bool, shape=None) -> TensorBase:
    """Self-normalising dropout: dropped elements become -α'; mean and variance stay (Klambauer et al. 2017)."""
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input.mul_(0.0) if inplace else input * 0.0
    low = -1.7580993408473766
    scale = (1.0 / ((1.0 - p) * (1.0 + p * low * low))) ** 0.5
    mask = input.new_empty(input.shape if shape is None else shape).bernoulli_(1.0 - p)
    found = input * (mask * scale) + ((1.0 - mask) * (low * scale) - scale * low * p)
    return input.copy_(found) if inplace else found


@library("random", "nn.functional.alpha_dropout")
def alpha_dropout(
    input: TensorBase, p: float = 0.5, training: bool = False, inplace: bool = False
) -> TensorBase:
    """Dropout that keeps mean and variance of self-normalising networks (Klambauer et al. 2017)."""
    _check("alpha_dropout", p)
    return _alpha(input, p, training, inplace)


@library("random", "nn.functional.feature_alpha_dropout")
def feature_alpha_dropout(
    input: TensorBase, p: float = 0.5, training: bool = False, inplace: bool = False
) -> TensorBase:
    """`alpha_dropout` of whole channels."""
    _check("feature_alpha_dropout", p)
    return _alpha(input, p, training, inplace, [s if d < 2 else 1 for d, s in enumerate(input.shape)])


@library("composite", "nn.functional.embedding")
def embedding(
    input: TensorBase,
    weight: TensorBase,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> TensorBase:
    """Rows of `weight` (V, D) at the places `input` (integers of any shape): (*, D).

    The row `padding_idx` gets no gradient; rows longer than `max_norm` are shortened in place.  IndexError for a number
    outside the table.
    """
    if input.is_floating_point():
        raise RuntimeError(
            f"embedding(): Expected tensor for argument 'indices' to have an integer dtype, got {input.dtype}"
        )
    if sparse or scale_grad_by_freq:
        raise ValueError("embedding(): sparse gradients and scale_grad_by_freq are not available")
    if padding_idx is not None:
        if not -weight.shape[0] <= padding_idx < weight.shape[0]:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= weight.shape[0]
    if max_norm is not None:
        _shorten(weight, input, max_norm, norm_type)
    flat = input.reshape(-1)
    found = weight.index_select(0, flat)
    if padding_idx is not None and weight.requires_grad:
        hidden = (flat == padding_idx).unsqueeze(1)
        found = found.detach().masked_fill(~hidden, 0.0) + found.masked_fill(hidden, 0.0)
    return found.reshape([*input.shape, weight.shape[1]])


def _shorten(weight, input, max_norm: float, norm_type: float) -> None:
    from ..autograd.grad_mode import no_grad
    from .reduced import vector_norm

    with no_grad():
        used = input.reshape(-1).unique()
        rows = weight.index_select(0, used)
        lengths = vector_norm(rows, norm_type, 1, True)
        weight.index_copy_(0, used, rows * (max_norm / (lengths + 1e-7)).clamp(max=1.0))


@library("composite", "nn.functional.one_hot")
def one_hot(input: TensorBase, num_classes: int = -1) -> TensorBase:
    """int64 tensor (*, num_classes): 1 at each element's class, else 0."""
    if input.dtype.name != "int64":
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type LongTensor, got {input.dtype}"
        )
    if input.numel() and input.min().item() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        if input.numel() == 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(input.max().item()) + 1
    elif input.numel() and input.max().item() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    from ..core.create import arange

    return (input.unsqueeze(-1) == arange(num_classes)).to(input.dtype)
