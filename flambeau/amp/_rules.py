"""The table of autocast: which dtype an operation computes in, on the CPU and on accelerators.

Names are those of the registry.  The lists are PyTorch's ('Autocast Op Reference'; what its CPU and CUDA lists do to each call of
`tests/operations/samples.py` stands in `tests/data/autocast.tsv`).  An operation that stands in no list computes in the
dtypes that it is given, and so does what it is made of.  `parts` are those that are made of others for PyTorch, too: what
they call is cast as if the program had called it.
"""

from __future__ import annotations

from typing import Any

from ..core.base import display
from ..core.call import casting
from ..core.call.operation import Op
from ..operations.declare.registry import REGISTRY

ON_HOST = {
    "lower": """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc bmm mm matmul linalg.matmul linear
        addmm addbmm baddbmm vecdot prelu scaled_dot_product_attention lstm_layer rnn_layer affine_grid""",
    "float32": """avg_pool3d adaptive_avg_pool3d max_pool3d adaptive_max_pool3d
        adaptive_max_pool3d_with_indices max_unpool2d max_unpool3d fractional_max_pool2d fractional_max_pool2d_with_indices
        fractional_max_pool3d fractional_max_pool3d_with_indices grid_sample grid_sampler_2d grid_sampler_3d
        lp_pool3d max_unpool1d view_as_complex_copy masked.prod old_lu polar prod quantile nanquantile stft cdist trace view_as_complex
        binary_cross_entropy binary_cross_entropy_with_logits mse_loss cosine_embedding_loss nll_loss hinge_embedding_loss
        poisson_nll_loss smooth_l1_loss cross_entropy l1_loss huber_loss margin_ranking_loss soft_margin_loss
        triplet_margin_loss multi_margin_loss multilabel_margin_loss ctc_loss kl_div
        fft.fft fft.fft2 fft.fftn fft.ifft fft.ifft2 fft.ifftn fft.rfft fft.rfft2 fft.rfftn fft.irfft fft.irfft2 fft.irfftn
        fft.hfft fft.ihfft
        cholesky cholesky_ex old_cholesky cholesky_inverse cholesky_solve inv inv_ex pinverse geqrf householder_product lu_solve
        old_lu_solve qr old_qr svd old_svd svdvals eig eigvals eigh eigvalsh cond matrix_rank lstsq solve tensorinv
        tensorsolve triangular_solve""",
    "widest": "cat stack index_copy",
}
ELSEWHERE = {
    "lower": """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc bmm mm mv matmul linalg.matmul linear
        addmm addmv addr addbmm baddbmm vecdot einsum chain_matmul multi_dot prelu scaled_dot_product_attention lstm_layer rnn_layer""",
    "float32": """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal __rdiv__ rsqrt sinh tan pow softplus
        layer_norm rms_norm group_norm frobenius_norm nuclear_norm cosine_similarity cosine_embedding_loss
        cross_entropy poisson_nll_loss nll_loss hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss
        margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
        binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp normalize pairwise_distance
        upsample_nearest upsample_bilinear square lp_pool1d lp_pool2d lp_pool3d masked.prod
        trapezoid cumulative_trapezoid""",
    "float32 unless told": """prod softmax softmax_function log_softmax log_softmax_function cumsum cumprod
        vector_norm matrix_norm linalg_norm sum
        norm""",
    "widest": """addcdiv addcmul atan2 bilinear cross linalg_cross dot vdot grid_sample index_put
        scatter_add""",
    "refused": "binary_cross_entropy",
}
PARTS = """multi_head_attention_forward gru_layer einsum chain_matmul multi_dot cov corrcoef matrix_power pinv svd_lowrank
    pca_lowrank softmin linear_cross_entropy gumbel_softmax triplet_margin_with_distance_loss multilabel_soft_margin_loss gaussian_nll_loss
    hstack vstack dstack column_stack block_diag combinations cartesian_prod pinverse upsample sum_to_size"""


def _padding(on_host: bool, input: Any, pad: Any, mode: str = "constant", value: Any = None) -> str:
    """PyTorch's CPU list has the modes but one."""
    listed = mode == "replicate" or (mode == "reflect" and len(pad) <= 4)
    return "float32" if on_host and listed else "whole"


def _resizing(
    on_host: bool,
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    *_: Any,
    **__: Any,
) -> str:
    """The lists for accelerators have all modes but one, which is a pooling."""
    return "whole" if on_host or mode == "area" else "float32"


def _inner(on_host: bool, input: Any, other: Any, **_: Any) -> str:
    """A product of matrices, or `dot`, which is in one list alone; the dtypes are compared before."""
    if not on_host:
        return "widest"
    return "lower" if input.dtype == other.dtype and max(input.ndim, other.ndim) > 1 else "whole"


def _tensordot(on_host: bool, a: Any, b: Any, dims: Any = 2, **_: Any) -> str:
    """A product of matrices, or a sum over everything."""
    if not on_host:
        return "widest"
    both = dims if isinstance(dims, int) else len(dims[0]) if isinstance(dims[0], (list, tuple)) else 1
    return "whole" if both == a.ndim == b.ndim else "parts"


def _response(on_host: bool, input: Any, *_: Any, **__: Any) -> str:
    """A power, and on the CPU a mean over three dimensions where there are as many."""
    return "whole" if on_host and input.ndim == 3 else "float32"


CHOSEN = {
    "pad": _padding,
    "interpolate": _resizing,
    "inner": _inner,
    "tensordot": _tensordot,
    "local_response_norm": _response,
}

_UNSAFE = (
    "{name}.nn.functional.binary_cross_entropy and {name}.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using {name}.nn.functional.binary_cross_entropy_with_logits\n"
    "or {name}.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)


def apply() -> None:
    """Write the rules on the operations."""
    for name in PARTS.split():
        _operation(name).on_host = _operation(name).elsewhere = casting.RULES["parts"]
    for attribute, rules in (("on_host", ON_HOST), ("elsewhere", ELSEWHERE)):
        for rule, names in rules.items():
            for name in names.split():
                setattr(_operation(name), attribute, casting.RULES[rule])
    for name, choice in CHOSEN.items():
        _operation(name).on_host = _operation(name).elsewhere = casting.RULES["chosen"]
        casting.choose(_operation(name), choice)
    casting.refuse(_operation("binary_cross_entropy"), _UNSAFE.format(name=display.NAME))


def _operation(name: str) -> Op:
    function = REGISTRY[name].function
    assert isinstance(function, Op), name
    return function
