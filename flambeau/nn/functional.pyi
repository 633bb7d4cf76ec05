# Written by `python tools/interface.py` from the registry.
from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from builtins import tuple as _tuple
from collections.abc import Callable as _Callable
from collections.abc import Sequence as _Sequence
from flambeau import dtype as _dtype
from typing import Any as _Any
from typing import Literal as _Literal
from typing import overload as _overload
from flambeau import Tensor as Tensor

from flambeau.operations.linalg.scaled import ScalingType as ScalingType
from flambeau.operations.linalg.scaled import SwizzleType as SwizzleType
def adaptive_avg_pool1d(input: Tensor, output_size: _int | None | _Sequence[_int | None]) -> Tensor:
    """The means of `output_size` equal parts of an input (N, C, L) or (C, L)."""
def adaptive_avg_pool2d(input: Tensor, output_size: _int | None | _Sequence[_int | None]) -> Tensor:
    """The means of `output_size` equal parts of an input (N, C, *) or (C, *)."""
def adaptive_avg_pool3d(input: Tensor, output_size: _int | None | _Sequence[_int | None]) -> Tensor:
    """The means of `output_size` equal parts of an input (N, C, *) or (C, *)."""
@_overload
def adaptive_max_pool1d(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _Literal[False]=...) -> Tensor:
    """The largest element of each of `output_size` equal parts of an input (N, C, L) or (C, L)."""
@_overload
def adaptive_max_pool1d(input: Tensor, output_size: _int | None | _Sequence[_int | None], *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` equal parts of an input (N, C, L) or (C, L)."""
@_overload
def adaptive_max_pool1d(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _bool=...) -> Tensor | _tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` equal parts of an input (N, C, L) or (C, L)."""
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _bool = ...) -> _tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` equal parts and its flat place of an input (N, C, L) or (C, L)."""
@_overload
def adaptive_max_pool2d(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _Literal[False]=...) -> Tensor:
    """The largest element of each of `output_size` equal parts of an input (N, C, *) or (C, *)."""
@_overload
def adaptive_max_pool2d(input: Tensor, output_size: _int | None | _Sequence[_int | None], *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` equal parts of an input (N, C, *) or (C, *)."""
@_overload
def adaptive_max_pool2d(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _bool=...) -> Tensor | _tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` equal parts of an input (N, C, *) or (C, *)."""
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _bool = ...) -> _tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` equal parts and its flat place of an input (N, C, *) or (C, *)."""
@_overload
def adaptive_max_pool3d(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _Literal[False]=...) -> Tensor:
    """The largest element of each of `output_size` equal parts of an input (N, C, *) or (C, *)."""
@_overload
def adaptive_max_pool3d(input: Tensor, output_size: _int | None | _Sequence[_int | None], *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` equal parts of an input (N, C, *) or (C, *)."""
@_overload
def adaptive_max_pool3d(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _bool=...) -> Tensor | _tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` equal parts of an input (N, C, *) or (C, *)."""
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _bool = ...) -> _tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` equal parts and its flat place of an input (N, C, *) or (C, *)."""
def affine_grid(theta: Tensor, size: _Sequence[_int], align_corners: _bool | None = ...) -> Tensor:
    """Places for `grid_sample`, (N, H, W, 2) or (N, D, H, W, 3), moved by the affine maps `theta`, (N, 2, 3) or (N, 3, 4) (Jaderberg et al. 2015)."""
def alpha_dropout(input: Tensor, p: _float = ..., training: _bool = ..., inplace: _bool = ...) -> Tensor:
    """Dropout that keeps mean and variance of self-normalising networks (Klambauer et al. 2017)."""
def avg_pool1d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = ..., padding: _int | _Sequence[_int] | _str = ..., ceil_mode: _bool = ..., count_include_pad: _bool = ..., divisor_override: _int | None = ...) -> Tensor:
    """The mean of each window of an input (N, C, L) or (C, L)."""
def avg_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = ..., padding: _int | _Sequence[_int] | _str = ..., ceil_mode: _bool = ..., count_include_pad: _bool = ..., divisor_override: _int | None = ...) -> Tensor:
    """The mean of each window of an input (N, C, *) or (C, *)."""
def avg_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = ..., padding: _int | _Sequence[_int] | _str = ..., ceil_mode: _bool = ..., count_include_pad: _bool = ..., divisor_override: _int | None = ...) -> Tensor:
    """The mean of each window of an input (N, C, *) or (C, *)."""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = ..., bias: Tensor | None = ..., training: _bool = ..., momentum: _float = ..., eps: _float = ..., cudnn_enabled: _bool = ...) -> Tensor:
    """Each channel (dimension 1) to mean 0 and variance 1, then weight and bias (Ioffe and Szegedy 2015)."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = ...) -> Tensor:
    """`y[..., n] = input1[..., :] @ weight[n] @ input2[..., :] + bias[n]`."""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = ..., size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ...) -> Tensor:
    """-(y log x + (1 - y) log(1 - x)) for probabilities x; logarithms are at least -100."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = ..., size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ..., pos_weight: Tensor | None = ...) -> Tensor:
    """Binary cross-entropy of sigmoid(input), without overflow, in the target's dtype."""
def celu(input: Tensor, alpha: _complex = ..., inplace: _bool = ...) -> Tensor: ...
def celu_(input: Tensor, alpha: _complex = ...) -> Tensor:
    """`x.op_(…)`: the same operation, its result written over the first operand."""
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """(N, C, *) with the channels of `groups` groups dealt out in turn (Zhang et al. 2018)."""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: _int | _Sequence[_int] = ..., padding: _int | _Sequence[_int] | _str = ..., dilation: _int | _Sequence[_int] = ..., groups: _int = ...) -> Tensor:
    """Cross-correlation of an input (N, C, *) with a weight (O, C / groups, *), with stride, padding, dilation and groups."""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: _int | _Sequence[_int] = ..., padding: _int | _Sequence[_int] | _str = ..., dilation: _int | _Sequence[_int] = ..., groups: _int = ...) -> Tensor:
    """Cross-correlation of an input (N, C, *) with a weight (O, C / groups, *), with stride, padding, dilation and groups."""
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: _int | _Sequence[_int] = ..., padding: _int | _Sequence[_int] | _str = ..., dilation: _int | _Sequence[_int] = ..., groups: _int = ...) -> Tensor:
    """Cross-correlation of an input (N, C, *) with a weight (O, C / groups, *), with stride, padding, dilation and groups."""
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = ...) -> Tensor:
    """Cross-correlation of an input (T, N, C) with a weight (K, C, O) along time, with `pad` zeros at both ends."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: _int | _Sequence[_int] = ..., padding: _int | _Sequence[_int] | _str = ..., output_padding: _int | _Sequence[_int] = ..., groups: _int = ..., dilation: _int | _Sequence[_int] = ...) -> Tensor:
    """The adjoint of a convolution, for a weight (C, O / groups, *), with stride, padding, dilation and groups."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: _int | _Sequence[_int] = ..., padding: _int | _Sequence[_int] | _str = ..., output_padding: _int | _Sequence[_int] = ..., groups: _int = ..., dilation: _int | _Sequence[_int] = ...) -> Tensor:
    """The adjoint of a convolution, for a weight (C, O / groups, *), with stride, padding, dilation and groups."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: _int | _Sequence[_int] = ..., padding: _int | _Sequence[_int] | _str = ..., output_padding: _int | _Sequence[_int] = ..., groups: _int = ..., dilation: _int | _Sequence[_int] = ...) -> Tensor:
    """The adjoint of a convolution, for a weight (C, O / groups, *), with stride, padding, dilation and groups."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = ..., size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ...) -> Tensor:
    """1 - cos for targets of 1, max(0, cos - margin) for targets of -1; inputs (N, D) or (D,)."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = ..., eps: _float = ...) -> Tensor:
    """x1·x2 / (max(‖x1‖, eps) · max(‖x2‖, eps)) along `dim`."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = ..., size_average: _bool | None = ..., ignore_index: _int = ..., reduce: _str | _bool | None = ..., reduction: _str = ..., label_smoothing: _float = ...) -> Tensor:
    """Cross-entropy of unnormalised scores and classes: -log softmax(input)[target]."""
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | _int | _Sequence[_int], target_lengths: Tensor | _int | _Sequence[_int], blank: _int = ..., reduction: _str = ..., zero_infinity: _bool = ...) -> Tensor:
    """-log of the probability of `targets` over all alignments (Graves et al. 2006, section 4.1)."""
def dropout(input: Tensor, p: _float = ..., training: _bool = ..., inplace: _bool = ...) -> Tensor:
    """Zero elements with chance p and scale the others by 1 / (1 - p) (Srivastava et al. 2014); identity unless training."""
def dropout1d(input: Tensor, p: _float = ..., training: _bool = ..., inplace: _bool = ...) -> Tensor:
    """Zero whole channels of (N, C, L) or (C, L) with chance p and scale the others by 1 / (1 - p) (Tompson et al. 2014)."""
def dropout2d(input: Tensor, p: _float = ..., training: _bool = ..., inplace: _bool = ...) -> Tensor:
    """Zero whole channels of (N, C, H, W) with chance p and scale the others by 1 / (1 - p) (Tompson et al. 2014)."""
def dropout3d(input: Tensor, p: _float = ..., training: _bool = ..., inplace: _bool = ...) -> Tensor:
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W) with chance p and scale the others by 1 / (1 - p)."""
def elu(input: Tensor, alpha: _complex = ..., inplace: _bool = ...) -> Tensor: ...
def elu_(input: Tensor | _complex, alpha: _complex = ...) -> Tensor:
    """`x.op_(…)`: the same operation, its result written over the first operand."""
def embedding(input: Tensor, weight: Tensor, padding_idx: _int | None = ..., max_norm: _float | None = ..., norm_type: _float = ..., scale_grad_by_freq: _bool = ..., sparse: _bool = ...) -> Tensor:
    """Rows of `weight` (V, D) at the places `input` (integers of any shape): (*, D)."""
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = ..., max_norm: _float | None = ..., norm_type: _float = ..., scale_grad_by_freq: _bool = ..., mode: _str = ..., sparse: _bool = ..., per_sample_weights: Tensor | None = ..., include_last_offset: _bool = ..., padding_idx: _int | None = ...) -> Tensor:
    """Sums, means or maxima of bags of rows of `weight` (V, D): (B, D)."""
def feature_alpha_dropout(input: Tensor, p: _float = ..., training: _bool = ..., inplace: _bool = ...) -> Tensor:
    """`alpha_dropout` of whole channels."""
def fold(input: Tensor, output_size: _int | None | _Sequence[_int | None], kernel_size: _int | _Sequence[_int], dilation: _int | _Sequence[_int] = ..., padding: _int | _Sequence[_int] | _str = ..., stride: _int | _Sequence[_int] = ...) -> Tensor:
    """Columns (N, C · block, places) added up to an image (N, C, *output_size): the adjoint of `unfold`."""
@_overload
def fractional_max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | _Sequence[_int] | None=..., output_ratio: _float | _Sequence[_float] | None=..., return_indices: _Literal[False]=..., _random_samples: Tensor | None=...) -> Tensor:
    """Maxima of windows whose places are drawn, so that the output has any size (B. Graham, Fractional max-pooling, 2014)."""
@_overload
def fractional_max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | _Sequence[_int] | None=..., output_ratio: _float | _Sequence[_float] | None=..., *, return_indices: _Literal[True], _random_samples: Tensor | None=...) -> _tuple[Tensor, Tensor]:
    """Maxima of windows whose places are drawn, so that the output has any size (B. Graham, Fractional max-pooling, 2014)."""
@_overload
def fractional_max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | _Sequence[_int] | None=..., output_ratio: _float | _Sequence[_float] | None=..., return_indices: _bool=..., _random_samples: Tensor | None=...) -> Tensor | _tuple[Tensor, Tensor]:
    """Maxima of windows whose places are drawn, so that the output has any size (B. Graham, Fractional max-pooling, 2014)."""
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | None | _Sequence[_int | None] = ..., output_ratio: _float | _Sequence[_float] | None = ..., return_indices: _bool = ..., _random_samples: Tensor | None = ...) -> _tuple[Tensor, Tensor]:
    """`fractional_max_pool2d` and the flat places of the maxima."""
@_overload
def fractional_max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | _Sequence[_int] | None=..., output_ratio: _float | _Sequence[_float] | None=..., return_indices: _Literal[False]=..., _random_samples: Tensor | None=...) -> Tensor:
    """Maxima of windows whose places are drawn, so that the output has any size (B. Graham, Fractional max-pooling, 2014)."""
@_overload
def fractional_max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | _Sequence[_int] | None=..., output_ratio: _float | _Sequence[_float] | None=..., *, return_indices: _Literal[True], _random_samples: Tensor | None=...) -> _tuple[Tensor, Tensor]:
    """Maxima of windows whose places are drawn, so that the output has any size (B. Graham, Fractional max-pooling, 2014)."""
@_overload
def fractional_max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | _Sequence[_int] | None=..., output_ratio: _float | _Sequence[_float] | None=..., return_indices: _bool=..., _random_samples: Tensor | None=...) -> Tensor | _tuple[Tensor, Tensor]:
    """Maxima of windows whose places are drawn, so that the output has any size (B. Graham, Fractional max-pooling, 2014)."""
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | None | _Sequence[_int | None] = ..., output_ratio: _float | _Sequence[_float] | None = ..., return_indices: _bool = ..., _random_samples: Tensor | None = ...) -> _tuple[Tensor, Tensor]:
    """`fractional_max_pool3d` and the flat places of the maxima."""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | _complex, full: _bool = ..., eps: _float | None = ..., reduction: _str = ...) -> Tensor:
    """(log var + (x - y)² / var) / 2 with var at least eps (Nix and Weigend 1994); `full` adds log(2π) / 2."""
def gelu(input: Tensor, approximate: _str = ...) -> Tensor:
    """x · Φ(x), by erf or, with approximate="tanh", by tanh (Hendrycks and Gimpel 2016)."""
def glu(input: Tensor, dim: _int = ...) -> Tensor:
    """First half times the sigmoid of the second, along `dim` (Dauphin et al. 2016)."""
def grid_sample(input: Tensor, grid: Tensor, mode: _str = ..., padding_mode: _str = ..., align_corners: _bool | None = ...) -> Tensor:
    """`input`, (N, C, H, W) or (N, C, D, H, W), at the places `grid`, (N, …, 2) or (N, …, 3) with x first, in [-1, 1] (Jaderberg et al. 2015)."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = ..., bias: Tensor | None = ..., eps: _float = ..., cudnn_enabled: _bool = ...) -> Tensor:
    """Channels in `num_groups` groups, each of each example to mean 0 and variance 1 (Wu and He 2018)."""
def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = ..., bias: Tensor | None = ..., out_dtype: _Any = ...) -> Tensor:
    """Products of groups of matrices: stacks of them, or parts of one matrix whose ends are in `offs` (int32)."""
def gumbel_softmax(logits: Tensor, tau: _float = ..., hard: _bool = ..., eps: _float = ..., dim: _int = ...) -> Tensor:
    """A sample of the Gumbel-softmax distribution along `dim` (Jang et al. 2017); `hard` gives one-hot vectors, with the gradient of the soft ones. `eps` changes nothing."""
def hardshrink(input: Tensor, lambd: _float = ..., *, out: Tensor | _tuple[Tensor, ...] | None = ...) -> Tensor:
    """x, or 0 within lambd of 0."""
def hardsigmoid(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def hardswish(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def hardtanh(input: Tensor, min_val: _float = ..., max_val: _float = ..., inplace: _bool = ...) -> Tensor: ...
def hardtanh_(input: Tensor | _complex, min_val: _float = ..., max_val: _float = ...) -> Tensor:
    """`x.op_(…)`: the same operation, its result written over the first operand."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = ..., size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ...) -> Tensor:
    """x where the target is 1, max(0, margin - x) where it is -1."""
def huber_loss(input: Tensor, target: Tensor, reduction: _str = ..., delta: _float = ..., weight: Tensor | None = ...) -> Tensor:
    """Squared below `delta`, linear above it (Huber 1964)."""
def instance_norm(input: Tensor, running_mean: Tensor | None = ..., running_var: Tensor | None = ..., weight: Tensor | None = ..., bias: Tensor | None = ..., use_input_stats: _bool = ..., momentum: _float = ..., eps: _float = ..., cudnn_enabled: _bool = ...) -> Tensor:
    """Each channel of each example to mean 0 and variance 1, then weight and bias (Ulyanov et al. 2016)."""
def interpolate(input: Tensor, size: _int | _Sequence[_int] | None = ..., scale_factor: _float | _Sequence[_float] | None = ..., mode: _str = ..., align_corners: _bool | None = ..., recompute_scale_factor: _bool | None = ..., antialias: _bool = ...) -> Tensor:
    """Resize (N, C, d1, …) to `size`, or by `scale_factor`."""
def kl_div(input: Tensor, target: Tensor, size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ..., log_target: _bool = ...) -> Tensor:
    """Kullback-Leibler divergence of `target` from the log-probabilities `input`; "batchmean" divides by the rows."""
def l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ..., weight: Tensor | None = ...) -> Tensor:
    """Mean of absolute differences."""
def layer_norm(input: Tensor, normalized_shape: _int | _Sequence[_int], weight: Tensor | None = ..., bias: Tensor | None = ..., eps: _float = ..., cudnn_enable: _bool = ...) -> Tensor:
    """Each slice of the last dimensions, `normalized_shape`, to mean 0 and variance 1, then weight and bias (Ba et al. 2016)."""
def leaky_relu(input: Tensor, negative_slope: _float = ..., inplace: _bool = ...) -> Tensor: ...
def leaky_relu_(input: Tensor | _complex, negative_slope: _float = ...) -> Tensor:
    """`x.op_(…)`: the same operation, its result written over the first operand."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = ...) -> Tensor:
    """`input @ weight.T + bias`: input (..., k), weight (n, k), bias (n) give (..., n). A weight with one dimension gives (...). RuntimeError where the shapes do not fit or the dtypes differ."""
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = ..., weight: Tensor | None = ..., reduction: _str = ..., ignore_index: _int | None = ..., label_smoothing: _float = ..., options: _Any = ...) -> Tensor:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target, …)`."""
def local_response_norm(input: Tensor, size: _int, alpha: _float = ..., beta: _float = ..., k: _float = ...) -> Tensor:
    """x / (k + alpha · mean of squares over `size` neighbouring channels)^beta (Krizhevsky et al. 2012)."""
def log_softmax(input: Tensor, dim: _int | None = ..., _stacklevel: _int = ..., dtype: _dtype | None = ...) -> Tensor:
    """Logarithm of the softmax along `dim`, without overflow."""
def logsigmoid(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = ...) -> Tensor:
    """log(sigmoid(x)) without overflow."""
def lp_pool1d(input: Tensor, norm_type: _float | _str | None, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = ..., ceil_mode: _bool = ...) -> Tensor:
    """The p-th root of the sum of p-th powers of each window of an input (N, C, L) or (C, L)."""
def lp_pool2d(input: Tensor, norm_type: _float | _str | None, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = ..., ceil_mode: _bool = ...) -> Tensor:
    """The p-th root of the sum of p-th powers of each window of an input (N, C, *) or (C, *)."""
def lp_pool3d(input: Tensor, norm_type: _float | _str | None, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = ..., ceil_mode: _bool = ...) -> Tensor:
    """The p-th root of the sum of p-th powers of each window of an input (N, C, *) or (C, *)."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = ..., size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ...) -> Tensor:
    """max(0, -y (x1 - x2) + margin)."""
@_overload
def max_pool1d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=..., padding: _int | _Sequence[_int]=..., dilation: _int | _Sequence[_int]=..., ceil_mode: _bool=..., return_indices: _Literal[False]=...) -> Tensor:
    """The largest element of each window of an input (N, C, L) or (C, L)."""
@_overload
def max_pool1d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=..., padding: _int | _Sequence[_int]=..., dilation: _int | _Sequence[_int]=..., ceil_mode: _bool=..., *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """The largest element of each window of an input (N, C, L) or (C, L)."""
@_overload
def max_pool1d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=..., padding: _int | _Sequence[_int]=..., dilation: _int | _Sequence[_int]=..., ceil_mode: _bool=..., return_indices: _bool=...) -> Tensor | _tuple[Tensor, Tensor]:
    """The largest element of each window of an input (N, C, L) or (C, L)."""
def max_pool1d_with_indices(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = ..., padding: _int | _Sequence[_int] | _str = ..., dilation: _int | _Sequence[_int] = ..., ceil_mode: _bool = ..., return_indices: _bool = ...) -> _tuple[Tensor, Tensor]:
    """The largest element of each window and its flat place of an input (N, C, L) or (C, L)."""
@_overload
def max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=..., padding: _int | _Sequence[_int]=..., dilation: _int | _Sequence[_int]=..., ceil_mode: _bool=..., return_indices: _Literal[False]=...) -> Tensor:
    """The largest element of each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=..., padding: _int | _Sequence[_int]=..., dilation: _int | _Sequence[_int]=..., ceil_mode: _bool=..., *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """The largest element of each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=..., padding: _int | _Sequence[_int]=..., dilation: _int | _Sequence[_int]=..., ceil_mode: _bool=..., return_indices: _bool=...) -> Tensor | _tuple[Tensor, Tensor]:
    """The largest element of each window of an input (N, C, *) or (C, *)."""
def max_pool2d_with_indices(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = ..., padding: _int | _Sequence[_int] | _str = ..., dilation: _int | _Sequence[_int] = ..., ceil_mode: _bool = ..., return_indices: _bool = ...) -> _tuple[Tensor, Tensor]:
    """The largest element of each window and its flat place of an input (N, C, *) or (C, *)."""
@_overload
def max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=..., padding: _int | _Sequence[_int]=..., dilation: _int | _Sequence[_int]=..., ceil_mode: _bool=..., return_indices: _Literal[False]=...) -> Tensor:
    """The largest element of each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=..., padding: _int | _Sequence[_int]=..., dilation: _int | _Sequence[_int]=..., ceil_mode: _bool=..., *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """The largest element of each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=..., padding: _int | _Sequence[_int]=..., dilation: _int | _Sequence[_int]=..., ceil_mode: _bool=..., return_indices: _bool=...) -> Tensor | _tuple[Tensor, Tensor]:
    """The largest element of each window of an input (N, C, *) or (C, *)."""
def max_pool3d_with_indices(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = ..., padding: _int | _Sequence[_int] | _str = ..., dilation: _int | _Sequence[_int] = ..., ceil_mode: _bool = ..., return_indices: _bool = ...) -> _tuple[Tensor, Tensor]:
    """The largest element of each window and its flat place of an input (N, C, *) or (C, *)."""
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = ..., padding: _int | _Sequence[_int] | _str = ..., output_size: _int | None | _Sequence[_int | None] = ...) -> Tensor:
    """The values of `max_pool1d` at the places it gave as `indices`, zeros elsewhere."""
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = ..., padding: _int | _Sequence[_int] | _str = ..., output_size: _int | None | _Sequence[_int | None] = ...) -> Tensor:
    """The values of `max_pool2d` at the places it gave as `indices`, zeros elsewhere."""
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = ..., padding: _int | _Sequence[_int] | _str = ..., output_size: _int | None | _Sequence[_int | None] = ...) -> Tensor:
    """The values of `max_pool3d` at the places it gave as `indices`, zeros elsewhere."""
def mish(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def mse_loss(input: Tensor, target: Tensor, size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ..., weight: Tensor | None = ...) -> Tensor:
    """Mean of squared differences."""
def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: _int, num_heads: _int, in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: _bool, dropout_p: _float, out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: _bool = ..., key_padding_mask: Tensor | None = ..., need_weights: _bool = ..., attn_mask: Tensor | None = ..., use_separate_proj_weight: _bool = ..., q_proj_weight: Tensor | None = ..., k_proj_weight: Tensor | None = ..., v_proj_weight: Tensor | None = ..., static_k: Tensor | None = ..., static_v: Tensor | None = ..., average_attn_weights: _bool = ..., is_causal: _bool = ...) -> _tuple[Tensor, Tensor | None]:
    """Multi-head attention with its projections: query (L, N, E), key and value (S, N, E), or all without N."""
def multi_margin_loss(input: Tensor, target: Tensor, p: _float | _str | None = ..., margin: _float = ..., weight: Tensor | None = ..., size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ...) -> Tensor:
    """Σ over the other classes of max(0, margin - x[y] + x[k])^p / C for scores (N, C) or (C,)."""
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ...) -> Tensor:
    """Σ over a row's classes y and all others k of max(0, 1 - x[y] + x[k]) / C, for scores (N, C) or (C,)."""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = ..., size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ...) -> Tensor:
    """Mean over classes of the binary cross-entropy of sigmoid(x) with 0/1 targets."""
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """(N, C, *) with the channels of `groups` groups dealt out in turn (Zhang et al. 2018)."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = ..., size_average: _bool | None = ..., ignore_index: _int = ..., reduce: _str | _bool | None = ..., reduction: _str = ...) -> Tensor:
    """The negative of input[target] for log-probabilities (N, C), (C,) or (N, C, d1, …) and class numbers."""
def normalize(input: Tensor, p: _float = ..., dim: _int = ..., eps: _float = ..., out: Tensor | _tuple[Tensor, ...] | None = ...) -> Tensor:
    """input / max(‖input‖ₚ, eps) along `dim`."""
def one_hot(input: Tensor, num_classes: _int = ...) -> Tensor:
    """int64 tensor (*, num_classes): 1 at each element's class, else 0."""
def pad(input: Tensor, pad: _Sequence[_int], mode: _str = ..., value: _complex | None = ...) -> Tensor:
    """The tensor with `pad` = (left, right, top, bottom, …) elements added around, from the last dimension on."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float | _str | None = ..., eps: _float | None = ..., keepdim: _bool = ...) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension."""
def pdist(input: Tensor, p: _float = ...) -> Tensor:
    """The p-norm of the differences of all pairs of rows of a matrix, in the order of the upper triangle's elements."""
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """(*, C r², H, W) to (*, C, H r, W r) (Shi et al. 2016)."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """(*, C, H r, W r) to (*, C r², H, W), the inverse of `pixel_shuffle`."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool = ..., full: _bool = ..., size_average: _bool | None = ..., eps: _float | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ...) -> Tensor:
    """exp(x) - y x (or x - y log x); `full` adds Stirling's approximation of log y! for y > 1."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input above 0, weight · input elsewhere; `weight` has one element or one a channel (dimension 1)."""
def relu(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def relu6(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def relu_(input: Tensor) -> Tensor:
    """`x.op_(…)`: the same operation, its result written over the first operand."""
def rms_norm(input: Tensor, normalized_shape: _int | _Sequence[_int], weight: Tensor | None = ..., eps: _float | None = ...) -> Tensor:
    """input / √(mean of squares + eps) over the last dimensions, times weight (Zhang and Sennrich 2019)."""
def rrelu(input: Tensor, lower: _float = ..., upper: _float = ..., training: _bool = ..., inplace: _bool = ...) -> Tensor:
    """x above 0, else x times a random slope in [lower, upper]; outside training the mean slope (Xu et al. 2015)."""
def rrelu_(input: Tensor, lower: _float = ..., upper: _float = ..., training: _bool = ...) -> Tensor:
    """`rrelu`, written over the input."""
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = ..., dropout_p: _float = ..., is_causal: _bool = ..., scale: _float | None = ..., enable_gqa: _bool = ...) -> Tensor:
    """softmax(query · keyᵀ · scale + mask) · value: (*, L, E), (*, S, E) and (*, S, V) give (*, L, V)."""
def scaled_grouped_mm(mat_a: Tensor, mat_b: Tensor, scale_a: _Any, scale_recipe_a: _Any, scale_b: _Any, scale_recipe_b: _Any, swizzle_a: _Any = ..., swizzle_b: _Any = ..., bias: Tensor | None = ..., offs: Tensor | None = ..., output_dtype: _Any = ..., contraction_dim: _Sequence[_int] = ..., use_fast_accum: _bool = ...) -> Tensor:
    """`grouped_mm` of float8 matrices times one scale (float32) a row of `mat_a` and a column of `mat_b`; sums are made in float32."""
def scaled_mm(mat_a: Tensor, mat_b: Tensor, scale_a: _Any, scale_recipe_a: _Any, scale_b: _Any, scale_recipe_b: _Any, swizzle_a: _Any = ..., swizzle_b: _Any = ..., bias: Tensor | None = ..., output_dtype: _Any = ..., contraction_dim: _Sequence[_int] = ..., use_fast_accum: _bool = ...) -> Tensor:
    """`mat_a @ mat_b` of float8 matrices times their scales, plus `bias`, in `output_dtype`; sums are made in float32."""
def selu(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def selu_(input: Tensor) -> Tensor:
    """`x.op_(…)`: the same operation, its result written over the first operand."""
def sigmoid(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = ...) -> Tensor:
    """Logistic function, 1 / (1 + exp(-input)), element by element; integers become the default dtype."""
def sigmoid_(input: Tensor) -> Tensor:
    """`sigmoid` in place: the result is written over the tensor itself, which is returned."""
def silu(input: Tensor, inplace: _bool = ...) -> Tensor: ...
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ..., beta: _complex = ...) -> Tensor:
    """Squared below `beta`, linear above it (Girshick 2015)."""
def soft_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ...) -> Tensor:
    """log(1 + exp(-y x)) for targets y of -1 or 1."""
def softmax(input: Tensor, dim: _int | None = ..., _stacklevel: _int = ..., dtype: _dtype | None = ...) -> Tensor:
    """Exponentials divided by their sum along `dim`; see `flambeau.softmax`."""
def softmin(input: Tensor, dim: _int | None = ..., _stacklevel: _int = ..., dtype: _dtype | None = ...) -> Tensor:
    """softmax(-input) along `dim`."""
def softplus(input: Tensor, beta: _complex = ..., threshold: _float = ..., *, out: Tensor | _tuple[Tensor, ...] | None = ...) -> Tensor:
    """log(1 + exp(beta · x)) / beta; x itself where beta · x exceeds the threshold."""
def softshrink(input: Tensor, lambd: _float = ...) -> Tensor:
    """x moved by `lambd` towards 0, where it stays; `lambd` is at least 0 and finite."""
def softsign(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = ...) -> Tensor:
    """x / (1 + |x|)."""
def tanh(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = ...) -> Tensor:
    """Hyperbolic tangent, element by element; integers become the default dtype."""
def tanhshrink(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = ...) -> Tensor:
    """x - tanh(x)."""
def threshold(input: Tensor, threshold: _float, value: _float, inplace: _bool = ...) -> Tensor:
    """x where it exceeds the threshold, else `value`."""
def threshold_(input: Tensor, threshold: _float, value: _float) -> Tensor:
    """`threshold` in place."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = ..., p: _float | _str | None = ..., eps: _float | None = ..., swap: _bool = ..., size_average: _bool | None = ..., reduce: _str | _bool | None = ..., reduction: _str = ...) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin); `swap` takes the nearer pair (Balntas et al. 2016)."""
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: _Callable[[Tensor, Tensor], Tensor] | None = ..., margin: _float = ..., swap: _bool = ..., reduction: _str = ...) -> Tensor:
    """The triplet loss for any distance of two tensors."""
def unfold(input: Tensor, kernel_size: _int | _Sequence[_int], dilation: _int | _Sequence[_int] = ..., padding: _int | _Sequence[_int] | _str = ..., stride: _int | _Sequence[_int] = ...) -> Tensor:
    """The blocks of (N, C, H, W) as columns: (N, C · block, places). RuntimeError where no block fits."""
def upsample(input: Tensor, size: _int | _Sequence[_int] | None = ..., scale_factor: _float | _Sequence[_float] | None = ..., mode: _str = ..., align_corners: _Any = ...) -> Tensor:
    """`interpolate` under its old name."""
def upsample_bilinear(input: Tensor, size: _int | _Sequence[_int] | None = ..., scale_factor: _float | _Sequence[_float] | None = ...) -> Tensor:
    """Bilinear `interpolate` with aligned corners."""
def upsample_nearest(input: Tensor, size: _int | _Sequence[_int] | None = ..., scale_factor: _float | _Sequence[_float] | None = ...) -> Tensor:
    """`interpolate` to the nearest elements."""
