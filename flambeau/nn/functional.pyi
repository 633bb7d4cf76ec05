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
    """Σ part / size: the means of `output_size` equal parts of an input (N, C, L) or (C, L)."""
def adaptive_avg_pool2d(input: Tensor, output_size: _int | None | _Sequence[_int | None]) -> Tensor:
    """Σ part / size: the means of `output_size` equal parts of an input (N, C, *) or (C, *)."""
def adaptive_avg_pool3d(input: Tensor, output_size: _int | None | _Sequence[_int | None]) -> Tensor:
    """Σ part / size: the means of `output_size` equal parts of an input (N, C, *) or (C, *)."""
@_overload
def adaptive_max_pool1d(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _Literal[False]=False) -> Tensor:
    """max(part) for each of `output_size` equal parts of an input (N, C, L) or (C, L)."""
@_overload
def adaptive_max_pool1d(input: Tensor, output_size: _int | None | _Sequence[_int | None], *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """max(part) for each of `output_size` equal parts of an input (N, C, L) or (C, L)."""
@_overload
def adaptive_max_pool1d(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _bool=False) -> Tensor | _tuple[Tensor, Tensor]:
    """max(part) for each of `output_size` equal parts of an input (N, C, L) or (C, L)."""
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _bool = False) -> _tuple[Tensor, Tensor]:
    """max(part) for each of `output_size` equal parts and its flat place of an input (N, C, L) or (C, L)."""
@_overload
def adaptive_max_pool2d(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _Literal[False]=False) -> Tensor:
    """max(part) for each of `output_size` equal parts of an input (N, C, *) or (C, *)."""
@_overload
def adaptive_max_pool2d(input: Tensor, output_size: _int | None | _Sequence[_int | None], *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """max(part) for each of `output_size` equal parts of an input (N, C, *) or (C, *)."""
@_overload
def adaptive_max_pool2d(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _bool=False) -> Tensor | _tuple[Tensor, Tensor]:
    """max(part) for each of `output_size` equal parts of an input (N, C, *) or (C, *)."""
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _bool = False) -> _tuple[Tensor, Tensor]:
    """max(part) for each of `output_size` equal parts and its flat place of an input (N, C, *) or (C, *)."""
@_overload
def adaptive_max_pool3d(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _Literal[False]=False) -> Tensor:
    """max(part) for each of `output_size` equal parts of an input (N, C, *) or (C, *)."""
@_overload
def adaptive_max_pool3d(input: Tensor, output_size: _int | None | _Sequence[_int | None], *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """max(part) for each of `output_size` equal parts of an input (N, C, *) or (C, *)."""
@_overload
def adaptive_max_pool3d(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _bool=False) -> Tensor | _tuple[Tensor, Tensor]:
    """max(part) for each of `output_size` equal parts of an input (N, C, *) or (C, *)."""
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: _int | None | _Sequence[_int | None], return_indices: _bool = False) -> _tuple[Tensor, Tensor]:
    """max(part) for each of `output_size` equal parts and its flat place of an input (N, C, *) or (C, *)."""
def affine_grid(theta: Tensor, size: _Sequence[_int], align_corners: _bool | None = None) -> Tensor:
    """theta · (x, y, 1) for all places of an image: what `grid_sample` takes. It is (N, H, W, 2) or (N, D, H, W, 3), for affine maps `theta`, (N, 2, 3) or (N, 3, 4) (Jaderberg et al. 2015)."""
def alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False) -> Tensor:
    """a · (mask · x + (1 - mask) · α′) + b, which keeps the mean and the variance. It is the dropout of self-normalising networks (Klambauer et al. 2017)."""
def avg_pool1d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, padding: _int | _Sequence[_int] | _str = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None) -> Tensor:
    """Σ window / size: the mean of each window of an input (N, C, L) or (C, L)."""
def avg_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, padding: _int | _Sequence[_int] | _str = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None) -> Tensor:
    """Σ window / size: the mean of each window of an input (N, C, *) or (C, *)."""
def avg_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, padding: _int | _Sequence[_int] | _str = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None) -> Tensor:
    """Σ window / size: the mean of each window of an input (N, C, *) or (C, *)."""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None, training: _bool = False, momentum: _float = 0.1, eps: _float = 1e-05, cudnn_enabled: _bool = True) -> Tensor:
    """(x - mean) / √(variance + eps) · weight + bias for each channel (Ioffe and Szegedy 2015). The channel is dimension 1."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`y[..., n] = input1[..., :] @ weight[n] @ input2[..., :] + bias[n]`."""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """-(y log x + (1 - y) log(1 - x)) for probabilities x; logarithms are at least -100."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean', pos_weight: Tensor | None = None) -> Tensor:
    """-(pos_weight · y log σ(x) + (1 - y) log(1 - σ(x))), σ the sigmoid, without overflow. It is computed in the target's dtype; `pos_weight` weights the positive examples."""
def celu(input: Tensor, alpha: _complex = 1.0, inplace: _bool = False) -> Tensor:
    """max(0, x) + min(0, alpha · (exp(x / alpha) - 1)) (Barron 2017)."""
def celu_(input: Tensor, alpha: _complex = 1.0) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """result[:, k · groups + g] = input[:, g · C / groups + k] (Zhang et al. 2018). The channels of `groups` groups of (N, C, *) are dealt out in turn."""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, dilation: _int | _Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Σ input[k · stride + j · dilation - padding] · weight[j] + bias: cross-correlation."""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, dilation: _int | _Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Σ input[k · stride + j · dilation - padding] · weight[j] + bias: cross-correlation."""
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, dilation: _int | _Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Σ input[k · stride + j · dilation - padding] · weight[j] + bias: cross-correlation."""
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor:
    """result[t, n, o] = bias[o] + Σ input[t + k - pad, n, c] · weight[k, c, o]. It is the cross-correlation of an input (T, N, C) with a weight (K, C, O) along time, with `pad` zeros at both ends."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, output_padding: _int | _Sequence[_int] = 0, groups: _int = 1, dilation: _int | _Sequence[_int] = 1) -> Tensor:
    """Each input[k] · weight[j] added at k · stride + j · dilation - padding: a convolution's adjoint."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, output_padding: _int | _Sequence[_int] = 0, groups: _int = 1, dilation: _int | _Sequence[_int] = 1) -> Tensor:
    """Each input[k] · weight[j] added at k · stride + j · dilation - padding: a convolution's adjoint."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, output_padding: _int | _Sequence[_int] = 0, groups: _int = 1, dilation: _int | _Sequence[_int] = 1) -> Tensor:
    """Each input[k] · weight[j] added at k · stride + j · dilation - padding: a convolution's adjoint."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """1 - cos for targets of 1, max(0, cos - margin) for targets of -1; inputs (N, D) or (D,)."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor:
    """x1·x2 / (max(‖x1‖, eps) · max(‖x2‖, eps)) along `dim`."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _str | _bool | None = None, reduction: _str = 'mean', label_smoothing: _float = 0.0) -> Tensor:
    """Cross-entropy of unnormalised scores and classes: -log softmax(input)[target]."""
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | _int | _Sequence[_int], target_lengths: Tensor | _int | _Sequence[_int], blank: _int = 0, reduction: _str = 'mean', zero_infinity: _bool = False) -> Tensor:
    """-log of the probability of `targets` over all alignments (Graves et al. 2006, section 4.1)."""
def dropout(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Zero elements with chance p and scale the others by 1 / (1 - p) (Srivastava et al. 2014); identity unless training."""
def dropout1d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Zero whole channels of (N, C, L) or (C, L) with chance p and scale the others by 1 / (1 - p) (Tompson et al. 2014)."""
def dropout2d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Zero whole channels of (N, C, H, W) with chance p and scale the others by 1 / (1 - p) (Tompson et al. 2014)."""
def dropout3d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W) with chance p and scale the others by 1 / (1 - p)."""
def elu(input: Tensor, alpha: _complex = 1.0, inplace: _bool = False) -> Tensor:
    """input above 0, alpha · (exp(input) - 1) elsewhere (Clevert et al. 2015)."""
def elu_(input: Tensor | _complex, alpha: _complex = 1.0) -> Tensor: ...
def embedding(input: Tensor, weight: Tensor, padding_idx: _int | None = None, max_norm: _float | None = None, norm_type: _float = 2.0, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> Tensor:
    """weight[input]: rows of `weight` (V, D) at the places `input` (integers of any shape): (*, D)."""
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: _float | None = None, norm_type: _float = 2, scale_grad_by_freq: _bool = False, mode: _str = 'mean', sparse: _bool = False, per_sample_weights: Tensor | None = None, include_last_offset: _bool = False, padding_idx: _int | None = None) -> Tensor:
    """Σ weight[input] over each bag, or the mean or maximum: bags of rows of `weight` (V, D), (B, D)."""
def feature_alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False) -> Tensor:
    """`alpha_dropout` of whole channels: a · (mask · x + (1 - mask) · α′) + b with one mask for each."""
def fold(input: Tensor, output_size: _int | None | _Sequence[_int | None], kernel_size: _int | _Sequence[_int], dilation: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, stride: _int | _Sequence[_int] = 1) -> Tensor:
    """Columns (N, C · block, places) added up to an image (N, C, *output_size): the adjoint of `unfold`."""
@_overload
def fractional_max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | _Sequence[_int] | None=None, output_ratio: _float | _Sequence[_float] | None=None, return_indices: _Literal[False]=False, _random_samples: Tensor | None=None) -> Tensor:
    """max(window) of windows whose places are drawn, so that the output has any size (Graham 2014)."""
@_overload
def fractional_max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | _Sequence[_int] | None=None, output_ratio: _float | _Sequence[_float] | None=None, *, return_indices: _Literal[True], _random_samples: Tensor | None=None) -> _tuple[Tensor, Tensor]:
    """max(window) of windows whose places are drawn, so that the output has any size (Graham 2014)."""
@_overload
def fractional_max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | _Sequence[_int] | None=None, output_ratio: _float | _Sequence[_float] | None=None, return_indices: _bool=False, _random_samples: Tensor | None=None) -> Tensor | _tuple[Tensor, Tensor]:
    """max(window) of windows whose places are drawn, so that the output has any size (Graham 2014)."""
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | None | _Sequence[_int | None] = None, output_ratio: _float | _Sequence[_float] | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None) -> _tuple[Tensor, Tensor]:
    """`fractional_max_pool2d`, max(window) of windows whose places are drawn, and the flat places of the maxima."""
@_overload
def fractional_max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | _Sequence[_int] | None=None, output_ratio: _float | _Sequence[_float] | None=None, return_indices: _Literal[False]=False, _random_samples: Tensor | None=None) -> Tensor:
    """max(window) of windows whose places are drawn, so that the output has any size (Graham 2014)."""
@_overload
def fractional_max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | _Sequence[_int] | None=None, output_ratio: _float | _Sequence[_float] | None=None, *, return_indices: _Literal[True], _random_samples: Tensor | None=None) -> _tuple[Tensor, Tensor]:
    """max(window) of windows whose places are drawn, so that the output has any size (Graham 2014)."""
@_overload
def fractional_max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | _Sequence[_int] | None=None, output_ratio: _float | _Sequence[_float] | None=None, return_indices: _bool=False, _random_samples: Tensor | None=None) -> Tensor | _tuple[Tensor, Tensor]:
    """max(window) of windows whose places are drawn, so that the output has any size (Graham 2014)."""
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: _int | _Sequence[_int], output_size: _int | None | _Sequence[_int | None] = None, output_ratio: _float | _Sequence[_float] | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None) -> _tuple[Tensor, Tensor]:
    """`fractional_max_pool3d`, max(window) of windows whose places are drawn, and the flat places of the maxima."""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | _complex, full: _bool = False, eps: _float | None = 1e-06, reduction: _str = 'mean') -> Tensor:
    """(log var + (x - y)² / var) / 2 with var at least eps (Nix and Weigend 1994); `full` adds log(2π) / 2."""
def gelu(input: Tensor, approximate: _str = 'none') -> Tensor:
    """x · Φ(x), by erf or, with approximate="tanh", by tanh (Hendrycks and Gimpel 2016)."""
def glu(input: Tensor, dim: _int = -1) -> Tensor:
    """a · sigmoid(b) for the halves a and b of the input along `dim` (Dauphin et al. 2016)."""
def grid_sample(input: Tensor, grid: Tensor, mode: _str = 'bilinear', padding_mode: _str = 'zeros', align_corners: _bool | None = None) -> Tensor:
    """Σ wₖ · input[k] over the elements around each place of the grid. The input is (N, C, H, W) or (N, C, D, H, W), the grid (N, …, 2) or (N, …, 3) with x first, in [-1, 1] (Jaderberg et al. 2015)."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05, cudnn_enabled: _bool = True) -> Tensor:
    """(x - mean) / √(variance + eps) · weight + bias for each group of each example (Wu and He 2018). The channels, dimension 1, are in `num_groups` groups."""
def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: _Any = None) -> Tensor:
    """Products of groups of matrices: stacks of them, or parts of one matrix whose ends are in `offs` (int32)."""
def gumbel_softmax(logits: Tensor, tau: _float = 1.0, hard: _bool = False, eps: _float = 1e-10, dim: _int = -1) -> Tensor:
    """softmax((logits + g) / tau) along `dim`, g = -log(-log u) for uniform u. It is a sample of the Gumbel-softmax distribution (Jang et al. 2017); `hard` gives one-hot vectors, with the gradient of the soft ones. `eps` changes nothing."""
def hardshrink(input: Tensor, lambd: _float = 0.5, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input where |input| > lambd, else 0."""
def hardsigmoid(input: Tensor, inplace: _bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6."""
def hardswish(input: Tensor, inplace: _bool = False) -> Tensor:
    """x · hardsigmoid(x) (Howard et al. 2019)."""
def hardtanh(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0, inplace: _bool = False) -> Tensor:
    """input, kept between min_val and max_val."""
def hardtanh_(input: Tensor | _complex, min_val: _float = -1.0, max_val: _float = 1.0) -> Tensor: ...
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = 1.0, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """x where the target is 1, max(0, margin - x) where it is -1."""
def huber_loss(input: Tensor, target: Tensor, reduction: _str = 'mean', delta: _float = 1.0, weight: Tensor | None = None) -> Tensor:
    """d² / 2 for |d| < delta, else delta · (|d| - delta / 2), of d = input - target (Huber 1964)."""
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: _bool = True, momentum: _float = 0.1, eps: _float = 1e-05, cudnn_enabled: _bool = True) -> Tensor:
    """(x - mean) / √(variance + eps) · weight + bias for each channel of each example (Ulyanov et al. 2016)."""
def interpolate(input: Tensor, size: _int | _Sequence[_int] | None = None, scale_factor: _float | _Sequence[_float] | None = None, mode: _str = 'nearest', align_corners: _bool | None = None, recompute_scale_factor: _bool | None = None, antialias: _bool = False) -> Tensor:
    """Resize (N, C, d1, …) to `size`, or by `scale_factor`."""
def kl_div(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean', log_target: _bool = False) -> Tensor:
    """target · (log target - input): Kullback-Leibler divergence from the log-probabilities `input`. "batchmean" divides by the rows."""
def l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean', weight: Tensor | None = None) -> Tensor:
    """|input - target|, or the mean or the sum of that."""
def layer_norm(input: Tensor, normalized_shape: _int | _Sequence[_int], weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05, cudnn_enable: _bool = True) -> Tensor:
    """(x - mean) / √(variance + eps) · weight + bias over the last dimensions (Ba et al. 2016). These have the sizes `normalized_shape`."""
def leaky_relu(input: Tensor, negative_slope: _float = 0.01, inplace: _bool = False) -> Tensor:
    """input above 0, negative_slope · input elsewhere."""
def leaky_relu_(input: Tensor | _complex, negative_slope: _float = 0.01) -> Tensor: ...
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input @ weight.T + bias`: input (..., k), weight (n, k), bias (n) give (..., n). A weight with one dimension gives (...). RuntimeError where the shapes do not fit or the dtypes differ."""
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None, reduction: _str = 'mean', ignore_index: _int | None = None, label_smoothing: _float = 0.0, options: _Any = None) -> Tensor:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target, …)`."""
def local_response_norm(input: Tensor, size: _int, alpha: _float = 0.0001, beta: _float = 0.75, k: _float = 1.0) -> Tensor:
    """x / (k + alpha · mean of squares over `size` neighbouring channels)^beta (Krizhevsky et al. 2012)."""
def log_softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None) -> Tensor:
    """input - log Σ exp(input): the logarithm of the softmax along `dim`, without overflow."""
def logsigmoid(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log(sigmoid(x)) without overflow."""
def lp_pool1d(input: Tensor, norm_type: _float | _str | None, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """(Σ window^p)^(1/p) for each window of an input (N, C, L) or (C, L)."""
def lp_pool2d(input: Tensor, norm_type: _float | _str | None, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """(Σ window^p)^(1/p) for each window of an input (N, C, *) or (C, *)."""
def lp_pool3d(input: Tensor, norm_type: _float | _str | None, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """(Σ window^p)^(1/p) for each window of an input (N, C, *) or (C, *)."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """max(0, -y (x1 - x2) + margin)."""
@_overload
def max_pool1d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, return_indices: _Literal[False]=False) -> Tensor:
    """max(window) for each window of an input (N, C, L) or (C, L)."""
@_overload
def max_pool1d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """max(window) for each window of an input (N, C, L) or (C, L)."""
@_overload
def max_pool1d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, return_indices: _bool=False) -> Tensor | _tuple[Tensor, Tensor]:
    """max(window) for each window of an input (N, C, L) or (C, L)."""
def max_pool1d_with_indices(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, padding: _int | _Sequence[_int] | _str = 0, dilation: _int | _Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = True) -> _tuple[Tensor, Tensor]:
    """max(window) for each window and its flat place of an input (N, C, L) or (C, L)."""
@_overload
def max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, return_indices: _Literal[False]=False) -> Tensor:
    """max(window) for each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """max(window) for each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, return_indices: _bool=False) -> Tensor | _tuple[Tensor, Tensor]:
    """max(window) for each window of an input (N, C, *) or (C, *)."""
def max_pool2d_with_indices(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, padding: _int | _Sequence[_int] | _str = 0, dilation: _int | _Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = True) -> _tuple[Tensor, Tensor]:
    """max(window) for each window and its flat place of an input (N, C, *) or (C, *)."""
@_overload
def max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, return_indices: _Literal[False]=False) -> Tensor:
    """max(window) for each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """max(window) for each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, return_indices: _bool=False) -> Tensor | _tuple[Tensor, Tensor]:
    """max(window) for each window of an input (N, C, *) or (C, *)."""
def max_pool3d_with_indices(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, padding: _int | _Sequence[_int] | _str = 0, dilation: _int | _Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = True) -> _tuple[Tensor, Tensor]:
    """max(window) for each window and its flat place of an input (N, C, *) or (C, *)."""
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, padding: _int | _Sequence[_int] | _str = 0, output_size: _int | None | _Sequence[_int | None] = None) -> Tensor:
    """The values of `max_pool1d` at the places it gave as `indices`, zeros elsewhere."""
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, padding: _int | _Sequence[_int] | _str = 0, output_size: _int | None | _Sequence[_int | None] = None) -> Tensor:
    """The values of `max_pool2d` at the places it gave as `indices`, zeros elsewhere."""
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, padding: _int | _Sequence[_int] | _str = 0, output_size: _int | None | _Sequence[_int | None] = None) -> Tensor:
    """The values of `max_pool3d` at the places it gave as `indices`, zeros elsewhere."""
def mish(input: Tensor, inplace: _bool = False) -> Tensor:
    """x · tanh(softplus(x)) (Misra 2019)."""
def mse_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean', weight: Tensor | None = None) -> Tensor:
    """(input - target)², or the mean or the sum of that."""
def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: _int, num_heads: _int, in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: _bool, dropout_p: _float, out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: _bool = True, key_padding_mask: Tensor | None = None, need_weights: _bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: _bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: _bool = True, is_causal: _bool = False) -> _tuple[Tensor, Tensor | None]:
    """softmax(Q Kᵀ / √E + mask) V for each head, with its projections. Query is (L, N, E), key and value (S, N, E), or all without N."""
def multi_margin_loss(input: Tensor, target: Tensor, p: _float | _str | None = 1, margin: _float = 1.0, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Σ over the other classes of max(0, margin - x[y] + x[k])^p / C for scores (N, C) or (C,)."""
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Σ over a row's classes y and all others k of max(0, 1 - x[y] + x[k]) / C, for scores (N, C) or (C,)."""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """-Σ (y log σ(x) + (1 - y) log(1 - σ(x))) / C over C classes, with 0/1 targets y. It is the mean of the binary cross-entropies of sigmoid(x)."""
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """result[:, k · groups + g] = input[:, g · C / groups + k] (Zhang et al. 2018). The channels of `groups` groups of (N, C, *) are dealt out in turn."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """-weight[target] · input[target] for log-probabilities (N, C), (C,) or (N, C, d1, …). The target holds class numbers."""
def normalize(input: Tensor, p: _float = 2.0, dim: _int = 1, eps: _float = 1e-12, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input / max(‖input‖ₚ, eps) along `dim`."""
def one_hot(input: Tensor, num_classes: _int = -1) -> Tensor:
    """result[…, k] = (input = k): an int64 tensor (*, num_classes), 1 at each element's class, else 0."""
def pad(input: Tensor, pad: _Sequence[_int], mode: _str = 'constant', value: _complex | None = None) -> Tensor:
    """The tensor with `pad` = (left, right, top, bottom, …) elements added around, from the last dimension on."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float | _str | None = 2.0, eps: _float | None = 1e-06, keepdim: _bool = False) -> Tensor:
    """(Σ |x1 - x2 + eps|^p)^(1/p) over the last dimension."""
def pdist(input: Tensor, p: _float = 2.0) -> Tensor:
    """‖inputᵢ - inputⱼ‖ₚ for all i < j, the rows of a matrix, in the order of the upper triangle's elements."""
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """(*, C r², H, W) to (*, C, H r, W r): result[c, h r + i, w r + j] = input[c r² + i r + j, h, w]. The source is Shi et al. (2016)."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """(*, C, H r, W r) to (*, C r², H, W): result[c r² + i r + j, h, w] = input[c, h r + i, w r + j]. It is the inverse of `pixel_shuffle`."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool = True, full: _bool = False, size_average: _bool | None = None, eps: _float | None = 1e-08, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """exp(x) - y x (or x - y log x); `full` adds Stirling's approximation of log y! for y > 1."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """max(0, input) + weight · min(0, input); `weight` has one element or one a channel (dimension 1)."""
def relu(input: Tensor, inplace: _bool = False) -> Tensor:
    """max(input, 0), element by element; the derivative at 0 is 0."""
def relu6(input: Tensor, inplace: _bool = False) -> Tensor:
    """min(max(input, 0), 6)."""
def relu_(input: Tensor) -> Tensor: ...
def rms_norm(input: Tensor, normalized_shape: _int | _Sequence[_int], weight: Tensor | None = None, eps: _float | None = None) -> Tensor:
    """input / √(mean of squares + eps) over the last dimensions, times weight (Zhang and Sennrich 2019)."""
def rrelu(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False) -> Tensor:
    """x above 0, else x times a random slope in [lower, upper]; outside training the mean slope (Xu et al. 2015)."""
def rrelu_(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False) -> Tensor:
    """`rrelu`, written over the input."""
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: _float = 0.0, is_causal: _bool = False, scale: _float | None = None, enable_gqa: _bool = False) -> Tensor:
    """softmax(query · keyᵀ · scale + mask) · value: (*, L, E), (*, S, E) and (*, S, V) give (*, L, V)."""
def scaled_grouped_mm(mat_a: Tensor, mat_b: Tensor, scale_a: _Any, scale_recipe_a: _Any, scale_b: _Any, scale_recipe_b: _Any, swizzle_a: _Any = None, swizzle_b: _Any = None, bias: Tensor | None = None, offs: Tensor | None = None, output_dtype: _Any = ..., contraction_dim: _Sequence[_int] = (), use_fast_accum: _bool = False) -> Tensor:
    """`grouped_mm` of float8 matrices times one scale (float32) a row of `mat_a` and a column of `mat_b`; sums are made in float32."""
def scaled_mm(mat_a: Tensor, mat_b: Tensor, scale_a: _Any, scale_recipe_a: _Any, scale_b: _Any, scale_recipe_b: _Any, swizzle_a: _Any = None, swizzle_b: _Any = None, bias: Tensor | None = None, output_dtype: _Any = ..., contraction_dim: _Sequence[_int] = (), use_fast_accum: _bool = False) -> Tensor:
    """`mat_a @ mat_b` of float8 matrices times their scales, plus `bias`, in `output_dtype`; sums are made in float32."""
def selu(input: Tensor, inplace: _bool = False) -> Tensor:
    """scale · (max(0, x) + min(0, α · (exp(x) - 1))): a scaled elu whose activations keep mean 0 and variance 1 (Klambauer et al. 2017)."""
def selu_(input: Tensor) -> Tensor: ...
def sigmoid(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Logistic function, 1 / (1 + exp(-input)), element by element; integers become the default dtype."""
def sigmoid_(input: Tensor) -> Tensor:
    """`sigmoid` in place: the result is written over the tensor itself, which is returned."""
def silu(input: Tensor, inplace: _bool = False) -> Tensor:
    """x · sigmoid(x)."""
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean', beta: _complex = 1.0) -> Tensor:
    """d² / (2 beta) for |d| < beta, else |d| - beta / 2, of d = input - target (Girshick 2015)."""
def soft_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """log(1 + exp(-y x)) for targets y of -1 or 1."""
def softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None) -> Tensor:
    """exp(input) / Σ exp(input) along `dim`; see `flambeau.softmax`."""
def softmin(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None) -> Tensor:
    """exp(-input) / Σ exp(-input): softmax(-input) along `dim`."""
def softplus(input: Tensor, beta: _complex = 1.0, threshold: _float = 20.0, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log(1 + exp(beta · x)) / beta; x itself where beta · x exceeds the threshold."""
def softshrink(input: Tensor, lambd: _float = 0.5) -> Tensor:
    """sign(x) · max(|x| - lambd, 0): x moved by `lambd` towards 0, where it stays; `lambd` is at least 0 and finite."""
def softsign(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """x / (1 + |x|)."""
def tanh(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """sinh(input) / cosh(input), the hyperbolic tangent, element by element; integers become the default dtype."""
def tanhshrink(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """x - tanh(x)."""
def threshold(input: Tensor, threshold: _float, value: _float, inplace: _bool = False) -> Tensor:
    """input where input > threshold, else `value`."""
def threshold_(input: Tensor, threshold: _float, value: _float) -> Tensor:
    """`threshold` in place."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = 1.0, p: _float | _str | None = 2.0, eps: _float | None = 1e-06, swap: _bool = False, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin); `swap` takes the nearer pair (Balntas et al. 2016)."""
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: _Callable[[Tensor, Tensor], Tensor] | None = None, margin: _float = 1.0, swap: _bool = False, reduction: _str = 'mean') -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) for any distance d of two tensors."""
def unfold(input: Tensor, kernel_size: _int | _Sequence[_int], dilation: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, stride: _int | _Sequence[_int] = 1) -> Tensor:
    """The blocks of (N, C, H, W) as columns: (N, C · block, places). RuntimeError where no block fits."""
def upsample(input: Tensor, size: _int | _Sequence[_int] | None = None, scale_factor: _float | _Sequence[_float] | None = None, mode: _str = 'nearest', align_corners: _Any = None) -> Tensor:
    """`interpolate` under its old name: result[i] from input at i · n / size."""
def upsample_bilinear(input: Tensor, size: _int | _Sequence[_int] | None = None, scale_factor: _float | _Sequence[_float] | None = None) -> Tensor:
    """Bilinear `interpolate` with aligned corners: place i · (n - 1) / (size - 1) of n elements."""
def upsample_nearest(input: Tensor, size: _int | _Sequence[_int] | None = None, scale_factor: _float | _Sequence[_float] | None = None) -> Tensor:
    """`interpolate` to the nearest elements: result[i] = input[⌊i · n / size⌋]."""
