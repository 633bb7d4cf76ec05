"""What the flat namespace calls functions of layers: other orders of arguments, numbers for modes, more results.

PyTorch's own layers call these, and so do programs that were exported or copied from it. Each hands on to the operation
that stands under `nn.functional`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.make.create import empty, full
from ..declare import checks
from ..declare.dtype_groups import ALL, COMPLEX, EVERY, FLOATING, WIDE
from ..declare.examples import of_call
from ..declare.registry import REGISTRY, library
from ..random import dropout as dropouts
from ..rows.moments import var_mean
from .embedding import bags
from .embedding import embedding as tables
from .losses import ctc, losses
from .normalization import normalization as norms
from .resampling import resizing

_REDUCTIONS = ("none", "mean", "sum")
_BAGS = ("sum", "mean", "max")


def _named(who: str, argument: str, given: Any, names: Sequence[str]) -> str:
    """The name that a number stands for."""
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < len(names):
        listed = ", ".join(f"{k} ({name})" for k, name in enumerate(names))
        raise ValueError(f"{who}(): argument '{argument}' must be one of {listed}, got {given!r}")
    return names[given]


# --- tables ------------------------------
@library("composite", "embedding", name="flat_embedding")
def embedding(
    weight: TensorBase,
    indices: TensorBase,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> TensorBase:
    """weight[indices]: `nn.functional.embedding` with the table first, rows of `weight` (V, D) at the
    places `indices` (*): (*, D).

    A negative `padding_idx` means none.

    Raises:
        IndexError: a place lies outside of the table

    >>> import flambeau
    >>> flambeau.embedding(flambeau.tensor([[1.0, 2.0], [3.0, 4.0]]), flambeau.tensor([1, 0]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    chosen = None if padding_idx < 0 else padding_idx
    return tables.embedding(indices, weight, chosen, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


@library("composite", "embedding_renorm_", differentiable=False, batching="looped", dtypes=FLOATING | COMPLEX)
def embedding_renorm_(
    input: TensorBase, indices: TensorBase, max_norm: float, norm_type: float
) -> TensorBase:
    """row · min(1, max_norm / ‖row‖ₚ) for the rows of a table (V, D) at `indices`, in place.
    p is `norm_type`.

    Raises:
        RuntimeError: the table has not two dimensions

    >>> import flambeau
    >>> flambeau.embedding_renorm_(flambeau.tensor([[3.0, 4.0], [6.0, 8.0]]), flambeau.tensor([0]), 1.0, 2.0)
    tensor([[0.6000, 0.8000],
            [6.0000, 8.0000]])
    """
    checks.rank("embedding_renorm_", "input", input, 2)
    checks.dtypes("embedding_renorm_", FLOATING | COMPLEX, RuntimeError, input=input)
    checks.dtypes("embedding_renorm_", ("int32", "int64"), RuntimeError, indices=indices)
    tables.shorten(input, indices, max_norm, norm_type)
    return input


@library("composite", "embedding_bag", name="flat_embedding_bag", batching="looped")
def embedding_bag(
    weight: TensorBase,
    indices: TensorBase,
    offsets: TensorBase,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: TensorBase | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[TensorBase, TensorBase, TensorBase, TensorBase]:
    """Σ weight[indices] over bags (`mode` 0), means (1) or maxima (2) of rows of `weight` (V, D).
    The bags start at `offsets` (B); the result is (B, D).

    Also the bag of each index, the number of indices in each bag, and for maxima where they stand, else an empty tensor.

    Raises:
        ValueError: the table has not two dimensions

    >>> import flambeau
    >>> table = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> flambeau.embedding_bag(table, flambeau.tensor([0, 1, 1]), flambeau.tensor([0, 2]))[0]
    tensor([[4., 6.],
            [3., 4.]])
    """
    kind = _named("embedding_bag", "mode", mode, _BAGS)
    result = bags.embedding_bag(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, kind, sparse, per_sample_weights,
        include_last_offset, padding_idx,
    )  # fmt: skip
    return result, *bags.bag_places(indices, weight, offsets, kind, include_last_offset, padding_idx)


# --- products ------------------------------
@library("composite", "convolution", name="flat_convolution")
def convolution(
    input: TensorBase,
    weight: TensorBase,
    bias: TensorBase | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> TensorBase:
    """`nn.functional.conv1d` and its kin: Σ input[at · stride + k · dilation - padding] · weight[k] in 1
    to 3 dimensions, or the transposed one, distinguished by the weight.

    Shape:
        input: (N, C, *); weight: (O, C / groups, *), transposed (C, O / groups, *); bias: (O,); result: (N,
            O, *)

    Raises:
        RuntimeError: the shapes do not fit

    >>> import flambeau
    >>> input, weight = flambeau.tensor([[[1.0, 2.0, 4.0]]]), flambeau.ones(1, 1, 2)
    >>> flambeau.convolution(input, weight, None, [1], [0], [1], False, [0], 1)
    tensor([[[3., 6.]]])
    """
    n = weight.ndim - 2
    if not 1 <= n <= 3:
        raise RuntimeError(f"convolution(): expected a weight of 3 to 5 dimensions, got {list(weight.shape)}")
    # A list of one number stands for all dimensions.
    stride, padding, dilation, output_padding = (
        tuple(x) * n if isinstance(x, (tuple, list)) and len(x) == 1 else x
        for x in (stride, padding, dilation, output_padding)
    )
    if transposed:
        run = REGISTRY[f"conv_transpose{n}d"].function
        return run(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return REGISTRY[f"conv{n}d"].function(input, weight, bias, stride, padding, dilation, groups)


# --- losses ------------------------------
@library("composite", "ctc_loss", name="flat_ctc_loss", batching="looped", dtypes=WIDE)
def ctc_loss(
    log_probs: TensorBase,
    targets: TensorBase,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> TensorBase:
    """`nn.functional.ctc_loss` with a number for the reduction: 0 none, 1 mean, 2 sum.

    Shape:
        log_probs: (T, N, C) or (T, C); targets: (N, S) or (Σ lengths,); lengths: (N,) or (); result: () or,
            for reduction 0, (N,) or ()

    Raises:
        RuntimeError: the blank is no class

    >>> import flambeau
    >>> logs = flambeau.full((2, 1, 2), 0.5).log()
    >>> flambeau.ctc_loss(logs, flambeau.tensor([[1]]), [2], [1], reduction=2).neg().exp()
    tensor(0.7500)
    """
    kind = _named("ctc_loss", "reduction", reduction, _REDUCTIONS)
    return ctc.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, kind, zero_infinity)


@library("composite", "kl_div", name="flat_kl_div", dtypes=FLOATING)
def kl_div(
    input: TensorBase, target: TensorBase, reduction: int = 1, *, log_target: bool = False
) -> TensorBase:
    """`nn.functional.kl_div`, target · (log target - input), with a number for the reduction: 0 none, 1
    mean, 2 sum.

    Shape:
        input, target: shapes that broadcast; result: () or, for reduction 0, the shape they broadcast to

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.kl_div(flambeau.tensor([0.5, 0.5]).log(), flambeau.tensor([1.0, 0.0]), 2)
    tensor(0.6931)
    """
    return losses.kl_div(
        input, target, reduction=_named("kl_div", "reduction", reduction, _REDUCTIONS), log_target=log_target
    )


@library(
    "composite",
    "binary_cross_entropy_with_logits",
    name="flat_binary_cross_entropy_with_logits",
    dtypes=FLOATING,
)
def binary_cross_entropy_with_logits(
    input: TensorBase,
    target: TensorBase,
    weight: TensorBase | None = None,
    pos_weight: TensorBase | None = None,
    reduction: int = 1,
) -> TensorBase:
    """`nn.functional.binary_cross_entropy_with_logits`, -(y log σ(x) + (1 - y) log(1 - σ(x))), with a
    number for the reduction: 0 none, 1 mean, 2 sum.

    Shape:
        input, target: one shape; result: () or, for reduction 0, that shape

    Raises:
        ValueError: the shapes differ

    >>> import flambeau
    >>> flambeau.binary_cross_entropy_with_logits(flambeau.tensor([0.0]), flambeau.tensor([1.0]))
    tensor(0.6931)
    """
    kind = _named("binary_cross_entropy_with_logits", "reduction", reduction, _REDUCTIONS)
    return losses.binary_cross_entropy_with_logits(
        input, target, weight, reduction=kind, pos_weight=pos_weight
    )


# --- images ------------------------------
@library(
    "composite", "adaptive_max_pool1d", name="flat_adaptive_max_pool1d", batching="images 1d", dtypes=FLOATING
)
def adaptive_max_pool1d(input: TensorBase, output_size: Any) -> tuple[TensorBase, TensorBase]:
    """max(input[⌊i n / size⌋ : ⌈(i + 1) n / size⌉]) for each of `output_size` parts, and its place.
    The input is (N, C, L) or (C, L).

    Raises:
        RuntimeError: there are neither two nor three dimensions

    >>> import flambeau
    >>> flambeau.adaptive_max_pool1d(flambeau.tensor([[1.0, 5.0, 2.0, 3.0]]), 2)
    (tensor([[5., 3.]]), tensor([[1, 3]]))
    """
    return REGISTRY["adaptive_max_pool1d"].function(input, output_size, True)


@library("composite", "affine_grid_generator", dtypes=FLOATING)
def affine_grid_generator(theta: TensorBase, size: Sequence[int], align_corners: bool) -> TensorBase:
    """`nn.functional.affine_grid`, theta · (x, y, 1): the places to which affine maps, (N, 2, 3) or (N,
    3, 4), take those of an image.

    Raises:
        ValueError: the shapes do not fit

    >>> import flambeau
    >>> theta = flambeau.tensor([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]])
    >>> flambeau.affine_grid_generator(theta, [1, 1, 1, 2], True)
    tensor([[[[-0.5000,  0.0000],
              [ 1.5000,  0.0000]]]])
    """
    return resizing.affine_grid(theta, size, align_corners)


@library("composite", "grid_sampler", batching="images", dtypes=ALL)
def grid_sampler(
    input: TensorBase, grid: TensorBase, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> TensorBase:
    """`nn.functional.grid_sample`, Σ wₖ · input[k], with numbers: 0 bilinear, 1 nearest, 2 bicubic; 0
    zeros, 1 border, 2 reflection.

    Shape:
        input: (N, C, H, W) or (N, C, D, H, W); grid: (N, …, 2) or (N, …, 3); result: (N, C, …)

    Raises:
        RuntimeError: the shapes do not fit

    >>> import flambeau
    >>> flambeau.grid_sampler(flambeau.tensor([[[[1.0, 3.0]]]]), flambeau.zeros(1, 1, 1, 2), 0, 0, True).item()
    2.0
    """
    mode = _named(
        "grid_sampler", "interpolation_mode", interpolation_mode, ("bilinear", "nearest", "bicubic")
    )
    padding = _named("grid_sampler", "padding_mode", padding_mode, ("zeros", "border", "reflection"))
    return resizing.grid_sample(input, grid, mode, padding, align_corners)


# --- dropout ------------------------------
def _dropping(name: str, source: Any, what: str) -> None:
    def flat(input: TensorBase, p: float, train: bool) -> TensorBase:
        checks.probability(name, "p", p, RuntimeError)
        return source(input, p, train)

    def flat_(input: TensorBase, p: float, train: bool) -> TensorBase:
        checks.probability(f"{name}_", "p", p, RuntimeError)
        return source(input, p, train, True)

    flat.__name__, flat_.__name__ = name, f"{name}_"
    shapes = "\n\nShape:\n    input: any; the result has the same\n\nRaises:\n    RuntimeError: `p` lies outside [0, 1]"
    flat.__doc__ = f"{what}, each with chance `p`, where `train`; else the input itself.{shapes}" + of_call(
        f"{name}(flambeau.ones(1, 2), 0.5, False)", "tensor([[1., 1.]])"
    )
    flat_.__doc__ = f"{what} in place, each with chance `p`, where `train`.{shapes}" + of_call(
        f"{name}_(flambeau.ones(1, 2), 0.5, False)", "tensor([[1., 1.]])"
    )
    if name != "dropout":  # which stands beside `nn.functional.dropout`
        library("random", name, name=f"flat_{name}", composite=True, dtypes=EVERY)(flat)
    library("random", f"{name}_", name=f"flat_{name}_", composite=True, dtypes=EVERY)(flat_)


_dropping("dropout", dropouts.dropout, "Zero elements and scale the others by 1 / (1 - p)")
_dropping("feature_dropout", dropouts.channels, "Zero channels and scale the others by 1 / (1 - p)")
_dropping(
    "alpha_dropout",
    dropouts.alpha_dropout,
    "a · (mask · x + (1 - mask) · α′) + b: drop elements so that mean and variance stay",
)
_dropping(
    "feature_alpha_dropout",
    dropouts.feature_alpha_dropout,
    "a · (mask · x + (1 - mask) · α′) + b: drop channels so that mean and variance stay",
)


@library("random", "native_dropout", composite=True, dtypes=EVERY)
def native_dropout(input: TensorBase, p: float, train: bool | None) -> tuple[TensorBase, TensorBase]:
    """Elements zeroed with chance `p`, the others scaled by 1 / (1 - p); and a bool tensor of those that are kept.

    Unless `train` is False; then all of them are kept.

    Shape:
        input: any; the results have the same

    Raises:
        RuntimeError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> flambeau.native_dropout(flambeau.ones(2), 0.5, False)
    (tensor([1., 1.]), tensor([True, True]))
    """
    checks.probability("native_dropout", "p", p, RuntimeError)
    if train is False:
        return input.clone(), full(input.shape, True, dtype=by_name["bool"], device=input.device)
    kept = empty(input.shape, dtype=by_name["bool"], device=input.device).bernoulli_(1.0 - p)
    return input * kept * (0.0 if p == 1.0 else 1.0 / (1.0 - p)), kept


# --- normalisation ------------------------------
def _moments(
    input: TensorBase, dims: tuple[int, ...], eps: float, keepdim: bool
) -> tuple[TensorBase, TensorBase]:
    """Means and 1 / √(variance + eps) over some dimensions, off the tape; half types are computed in float32."""
    x = input.detach()
    var, mean = var_mean(x, dims, correction=0, keepdim=keepdim)
    return mean, (var + eps).rsqrt()


@library("composite", "native_layer_norm", dtypes=FLOATING)
def native_layer_norm(
    input: TensorBase,
    normalized_shape: Any,
    weight: TensorBase | None,
    bias: TensorBase | None,
    eps: float,
) -> tuple[TensorBase, TensorBase, TensorBase]:
    """`nn.functional.layer_norm`, and the means and 1 / √(variance + eps), which have no gradients.

    Shape:
        input: (*, *normalized_shape); results: that, and (*, 1, …) twice

    Raises:
        RuntimeError: the last dimensions are not `normalized_shape`

    >>> import flambeau
    >>> flambeau.native_layer_norm(flambeau.tensor([[1.0, 3.0]]), [2], None, None, 0.0)[:2]
    (tensor([[-1.,  1.]]), tensor([[2.]]))
    """
    result = norms.layer_norm(input, normalized_shape, weight, bias, eps)
    rank = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    return result, *_moments(input, tuple(range(input.ndim - rank, input.ndim)), eps, True)


@library("composite", "native_group_norm", dtypes=FLOATING)
def native_group_norm(
    input: TensorBase,
    weight: TensorBase | None,
    bias: TensorBase | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[TensorBase, TensorBase, TensorBase]:
    """`nn.functional.group_norm`, and the means and 1 / √(variance + eps), (N, group), which have no gradients.

    `N`, `C` and `HxW` are the input's batch, channels and places; RuntimeError where they are not.

    >>> import flambeau
    >>> x = flambeau.tensor([[1.0, 3.0, 10.0, 30.0]]).reshape(1, 4, 1)
    >>> flambeau.native_group_norm(x, None, None, 1, 4, 1, 2, 0.0)[1]
    tensor([[ 2., 20.]])
    """
    if input.shape[:2] != (N, C) or input.numel() != N * C * HxW:
        raise RuntimeError(
            f"native_group_norm(): an input of {N} examples, {C} channels and {HxW} places expected, got {list(input.shape)}"
        )
    result = norms.group_norm(input, group, weight, bias, eps)
    return result, *_moments(input.reshape(N, group, C // group * HxW), (2,), eps, False)


@library("composite", "native_batch_norm", dtypes=FLOATING)
def native_batch_norm(
    input: TensorBase,
    weight: TensorBase | None,
    bias: TensorBase | None,
    running_mean: TensorBase | None,
    running_var: TensorBase | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[TensorBase, TensorBase, TensorBase]:
    """`nn.functional.batch_norm`, and the batch's means and 1 / √(variance + eps), (C,), which have no gradients.

    Outside of training these are empty.

    Shape:
        input: (N, C, *); results: that, and (C,) twice

    Raises:
        RuntimeError: there are no running moments outside of training

    >>> import flambeau
    >>> x = flambeau.tensor([[1.0, 10.0], [3.0, 30.0]])
    >>> flambeau.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[1]
    tensor([ 2., 20.])
    """
    result = norms.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return result, input.new_empty(0), input.new_empty(0)
    return result, *_moments(input, (0, *range(2, input.ndim)), eps, False)


@library("composite", "norm_except_dim", dtypes=FLOATING | COMPLEX)
def norm_except_dim(v: TensorBase, pow: int = 2, dim: int = 0) -> TensorBase:
    """(Σ |v|^p)^(1/p), p = `pow`, over all dimensions but `dim`, which keep size 1.
    Where `dim` is -1 it is over all of them.

    Shape:
        v: (n₁, …); result: 1 everywhere but for `dim`

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.norm_except_dim(flambeau.tensor([[3.0, 4.0], [6.0, 8.0]]))
    tensor([[ 5.],
            [10.]])
    """
    from ..rows.norms import vector_norm

    if dim == -1:
        return vector_norm(v, pow)
    if not 0 <= dim < v.ndim:
        raise IndexError(f"norm_except_dim(): argument 'dim' must be -1 or in [0, {v.ndim - 1}], got {dim}")
    over = [d for d in range(v.ndim) if d != dim]
    return vector_norm(v, pow, over, True) if over else v.abs()
