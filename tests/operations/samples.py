"""A call or a few of every public operation, as text: names stand for operands, which are made anew for each call.

`calls(entry)` gives the texts of an operation, `Operands` what they mean.  `test_viewness.py` and `test_saved.py` go over
all of them.
"""

from __future__ import annotations

import warnings

import numpy as np

import flambeau
from flambeau.operations.declare.registry import REGISTRY

_SHAPES = {
    (3, 4): "x y left loss",
    (4,): "v u out_b row",
    (): "s",
    (1,): "one",
    (2, 3, 4): "b",
    (2, 4, 3): "c",
    (3, 3): "sq spd low",
    (2, 3, 3): "batch",
    (3, 2): "rhs pairs slice state3",
    (1, 2, 6): "line",
    (1, 4, 4, 4): "image",
    (1, 2, 4, 4, 4): "volume",
    (2, 2, 1): "w1",
    (3, 4, 1, 1): "w2",
    (3, 4, 2, 2): "w22",
    (3, 2, 1, 1, 1): "w3",
    (2, 3, 1): "t1",
    (4, 3, 1, 1): "t2",
    (2, 3, 1, 1, 1): "t3",
    (3,): "bias tau src",
    (2,): "two flat",
    (1, 3, 3, 2): "grid",
    (1, 2, 2, 2, 3): "grid3",
    (1, 2, 3): "theta",
    (1, 2, 3, 4): "q k",
    (5, 4): "table",
    (4, 2, 3): "logp",
    (3, 5): "right",
    (2, 4, 5): "weight",
    (3, 1, 4): "seq",
    (1, 1, 2): "state1",
    (12, 4): "in_w",
    (12,): "in_b",
    (4, 4): "out_w",
    (16,): "wave",
    (1, 16, 9): "columns",
    (2, 3, 6): "tensor6 inv4",
    (2, 3): "rhs6",
    (2, 2): "kronl",
    (1, 1, 2, 2): "pool",
}
SHAPES = {name: shape for shape, names in _SHAPES.items() for name in names.split()}
WHOLE = {
    "i": [[0, 1, 2, 0], [2, 1, 0, 1], [1, 1, 0, 2]],
    "j": [[4, 1, 2, 3], [2, 1, 5, 1], [1, 1, 7, 2]],
    "index": [0, 2],
    "labels": [1, 0, 3],
    "signs": [1, -1, 1],
    "words": [[0, 2], [4, 1]],
    "bag": [[0, 2], [4, 1]],
    "places": [[[[0, 3], [9, 10]]]],
    "places1": [[[0, 3], [2, 3]]],
    "multi": [[3, 0, -1, 1], [0, 1, 2, -1], [1, -1, 0, 0]],
    "targets": [[1, 2], [2, 1]],
    "counted": [0, 1, 1, 3],
    "pivots": [1, 2, 3],
    "times": [1, 2, 0, 3],
    "at": [1, 5],
    "spot": 0,
}
CONDITIONS = {"mask": [[True, False, True, True], [False, True, True, False], [True, True, False, True]]}
LAYOUTS = ("contiguous", "transposed", "sliced")


def values(name: str) -> np.ndarray:
    """Distinct numbers in (0.1, 0.9), the same at every call; matrices are regular."""
    shape = SHAPES[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    found = rng.permutation(int(np.prod(shape))).reshape(shape) / (2.0 * max(np.prod(shape), 1)) + 0.2
    if name in ("sq", "batch", "low", "tensor6", "inv4"):
        n = int(np.sqrt(np.prod(shape[-2:]))) if name in ("sq", "batch", "low") else 6
        found = found.reshape(-1, n, n) + 2 * np.eye(n)
        return (np.tril(found) if name == "low" else found).reshape(shape)
    if name == "spd":
        return found @ found.T + 3 * np.eye(3)
    return found


class Operands(dict):
    """What the names in a call mean; those that were used remain in it."""

    def __init__(self, layout: str = "contiguous", grad: bool = False):
        self.layout, self.grad, self.leaves = layout, grad, []

    def __missing__(self, name: str) -> flambeau.Tensor:
        self[name] = made = self.make(name)
        return made

    def make(self, name: str) -> flambeau.Tensor:
        if name in WHOLE or name in CONDITIONS:
            return flambeau.tensor(WHOLE.get(name, CONDITIONS.get(name)))
        if name in ("eight", "eights"):  # float8 numbers, as scaled products take them
            return flambeau.from_numpy(values("sq" if name == "eight" else "b")).to(flambeau.float8_e4m3fn)
        if name in ("z", "zs"):
            found = (
                flambeau.complex(self.floats("x"), self.floats("y")) if name == "z" else self.complex_square()
            )
        else:
            found = self.floats(name)
        if self.grad:
            self.leaves.append(found.requires_grad_())
            with flambeau.enable_grad():
                found = found.mul(1)  # an operand may be written to
        return found if name == "pairs" else laid_out(found, self.layout)  # view_as_complex takes no other

    def floats(self, name: str) -> flambeau.Tensor:
        return flambeau.from_numpy(np.array(values(name)))

    def complex_square(self) -> flambeau.Tensor:
        return flambeau.complex(self.floats("sq"), self.floats("low"))


def laid_out(x: flambeau.Tensor, layout: str) -> flambeau.Tensor:
    """The same elements, with history, in memory of their own with other strides."""
    if layout == "transposed" and x.ndim > 1:
        return x.transpose(0, -1).clone(memory_format=flambeau.contiguous_format).transpose(0, -1)
    if layout == "sliced" and x.ndim:
        return flambeau.stack([x, x], -1)[..., 0]
    if layout == "last" and x.ndim > 2:
        return x.movedim(1, -1).clone(memory_format=flambeau.contiguous_format).movedim(-1, 1)
    if layout == "expanded" and x.ndim:  # the same elements again and again
        wide = max(range(x.ndim), key=lambda d: (x.shape[d] > 1, -d))
        return x.narrow(wide, 0, 1).expand(x.shape)
    return x


# --- calls: `name: call | call` ---
_CALLS = {
    "Linear algebra": """
        solve_triangular: sq, rhs, upper=True
        solve: sq, rhs | sq, bias
        inv: sq | batch
        inv_ex: sq
        solve_ex: sq, rhs
        det: sq | batch
        slogdet: sq
        logdet: sq
        cholesky_ex: spd | spd, upper=True
        cholesky: spd | spd, upper=True
        qr: sq
        geqrf: x.mT | sq
        lu_factor_ex: sq
        lu_factor: sq
        lu: sq
        lu_solve: sq.detach().lu()[0], pivots.int(), rhs
        eigh: spd
        eigvalsh: spd
        eig: sq
        eigvals: sq
        svd: sq
        svdvals: sq
        ldl_factor_ex: spd.detach()
        ldl_factor: spd.detach()
        ldl_solve: spd.detach(), pivots.int(), rhs.detach()
        matrix_exp: sq
        linalg_cross: sq, batch[0]
        vecdot: x, y
        linalg_vander: v
        linalg_diagonal: sq
        matrix_norm: sq | sq, 'nuc' | sq, 1 | sq, 2
        linalg_norm: v | x, 1 | x, 2, 1 | v, 3
        linalg_cond: sq
        cond: sq | sq, 1
        matrix_rank: sq
        pinv: x | spd, hermitian=True
        lstsq: x.mT, v
        matrix_power: sq, 2 | sq, 1 | sq, -1
        householder_product: x.mT.detach(), tau.detach()
        tensorinv: inv4, 2
        tensorsolve: tensor6, rhs6
        old_cholesky: spd | spd, True
        cholesky_solve: rhs, low
        cholesky_inverse: low
        triangular_solve: rhs, low, False
        old_qr: sq
        old_svd: sq
        old_lu: sq
        old_lu_solve: rhs, sq.detach(), pivots.int()
        lu_unpack: sq, pivots.int()
        pinverse: x
        svd_lowrank: x, 2
        pca_lowrank: x, 2
        multi_dot: [x, c[0], x]
        chain_matmul: x, c[0] | x
        ormqr: sq.detach(), tau.detach(), sq | sq.detach(), tau.detach(), x, True, True | sq.detach(), tau.detach(), sq, False
        lobpcg: spd.detach(), 1, X=src.unsqueeze(1)
    """,
    "Layers": """
        max_pool1d: line, 2 | line[0], 2 | line, 6
        max_pool1d_with_indices: line, 2
        adaptive_max_pool1d: line, 2 | line, 3, True
        avg_pool1d: line, 2 | line[0], 2
        adaptive_avg_pool1d: line, 2
        lp_pool1d: line, 2, 2
        max_pool2d: image, 2 | image[0], 2 | image, 2, return_indices=True | image, 3, 1, 1
        max_pool2d_with_indices: image, 2
        adaptive_max_pool2d: image, 2 | image, 1 | image, 3, True
        adaptive_max_pool1d_with_indices: line, 2
        adaptive_max_pool2d_with_indices: image, 2
        adaptive_max_pool3d_with_indices: volume, 2
        avg_pool2d: image, 2 | image[0], 2 | image, 3, 1, 1
        adaptive_avg_pool2d: image, 2 | image, 1 | image, 3
        lp_pool2d: image, 2, 2
        max_pool3d: volume, 2
        max_pool3d_with_indices: volume, 2
        adaptive_max_pool3d: volume, 2
        avg_pool3d: volume, 2
        adaptive_avg_pool3d: volume, 2 | volume, 3
        lp_pool3d: volume, 2, 2
        conv1d: line, w1 | line[0], w1
        conv_tbc: b, c, bias, 1
        conv_transpose1d: line, t1
        conv2d: image, w2 | image, w2, bias | image, w22 | image[0], w2 | image, w2, stride=2
        conv_transpose2d: image, t2 | image, t2, bias | image[0], t2
        conv3d: volume, w3
        conv_transpose3d: volume, t3
        layer_norm: x, (4,) | x, (4,), v, u
        rms_norm: x, (4,), v
        batch_norm: x, None, None, training=True | x, v.detach(), u.detach() | x, None, None, v, u, training=True
        instance_norm: image
        group_norm: image, 2 | image, 2, v, u
        local_response_norm: image, 3
        pixel_shuffle: image, 2 | image, 1
        pixel_unshuffle: image, 2 | image, 1
        interpolate: image, 2, mode='area' | image, 3 | image, 8, mode='bilinear'
        upsample: image, 8
        upsample_nearest: image, 8
        upsample_bilinear: image, 8
        channel_shuffle: image, 2 | image, 1
        affine_grid: theta, (1, 1, 3, 3)
        grid_sample: image, grid | image, grid, mode='nearest' | volume, grid3
        grid_sampler_2d: image, grid, 0, 0, False
        grid_sampler_3d: volume, grid3, 0, 0, False
        max_unpool1d: line[:, :, :2], places1, 2
        max_unpool2d: pool, places, 2
        max_unpool3d: pool.unsqueeze(2), places.unsqueeze(2), (1, 2, 2)
        fractional_max_pool2d: image, 2, output_size=2 | image, 2, output_size=2, return_indices=True
        fractional_max_pool3d: volume, 2, output_size=2
        fractional_max_pool2d_with_indices: image, 2, output_size=2
        fractional_max_pool3d_with_indices: volume, 2, output_size=2
        embedding: words, table | index, table | spot, table
        embedding_bag: bag, table
        one_hot: labels, 5
        bilinear: left, right, weight
        scaled_dot_product_attention: q, k, k
        im2col: image, 2 | image[0], 2
        col2im: columns, 4, 2 | columns[0], 4, 2
        multi_head_attention_forward: seq, seq, seq, 4, 2, in_w, in_b, None, None, False, 0.0, out_w, out_b
        normalize: x | x, 1.0 | x, 3.0, 0
        cosine_similarity: x, y
        softmax_function: x, 1
        log_softmax_function: x, 1
        softmin: x, 1
        glu: x
        threshold: x, 0.4, 0.0
        prelu: x, v | x, one
        gelu: x | x, 'tanh'
        gumbel_softmax: x
        dropout_function: x | x, 0.5, False
        dropout: x, 0.5, True | x, 0.5, False
        dropout1d: line
        dropout2d: image
        dropout3d: volume
        alpha_dropout: x | x, 0.5, True
        feature_alpha_dropout: image, 0.5, True
        rrelu: x | x, training=True
        pad: image, (1, 1) | image, (1, 1, 1, 1), 'reflect' | image, (0, 0)
        constant_pad_nd: x, (1, 0)
        lstm_layer:
        flat_lstm: seq, (state1, state1), [in_w[:8], in_w[:8, :2], in_b[:8], in_b[:8]], True, 1, 0.0, False, False, False
        flat_gru: seq, state1, [in_w[:6], in_w[:6, :2], in_b[:6], in_b[:6]], True, 1, 0.0, False, False, False
        flat_rnn_tanh: seq, state1, [in_w[:2], in_w[:2, :2]], False, 1, 0.0, False, False, False
        flat_rnn_relu: seq, state1, [in_w[:2], in_w[:2, :2]], False, 1, 0.0, False, False, False
        flat_lstm_cell: x, (state3, state3), in_w[:8], in_w[:8, :2], in_b[:8], in_b[:8]
        flat_gru_cell: x, state3, in_w[:6], in_w[:6, :2], in_b[:6], in_b[:6]
        flat_rnn_tanh_cell: x, state3, in_w[:2], in_w[:2, :2]
        flat_rnn_relu_cell: x, state3, in_w[:2], in_w[:2, :2], in_b[:2], in_b[:2]
        flat_embedding: table, words | table, words, 1
        embedding_renorm_: table.mul(1), words, 0.5, 2.0
        flat_embedding_bag: table, bag.reshape(-1), index | table, bag.reshape(-1), index, False, 2
        flat_convolution: image, w22, bias, [1], [0], [1], False, [0], 1 | image, t2, None, [1], [0], [1], True, [0], 1
        flat_adaptive_max_pool1d: line, 2 | line, 3
        affine_grid_generator: theta, (1, 1, 3, 3), False
        grid_sampler: image, grid, 0, 0, False | image, grid, 1, 1, True
        flat_dropout_: x.mul(1), 0.5, True
        flat_feature_dropout: image, 0.5, True | image, 0.5, False
        flat_feature_dropout_: image.mul(1), 0.5, True
        flat_alpha_dropout: x, 0.5, True
        flat_alpha_dropout_: x.mul(1), 0.5, True
        flat_feature_alpha_dropout: image, 0.5, True
        flat_feature_alpha_dropout_: image.mul(1), 0.5, True
        native_dropout: x, 0.5, True | x, 0.5, False
        native_layer_norm: x, (4,), v, u, 1e-5
        native_group_norm: image, v, u, 1, 4, 16, 2, 1e-5
        native_batch_norm: x, v, u, None, None, True, 0.1, 1e-5
        norm_except_dim: x, 2, 1 | x, 2, -1
        fake_quantize_per_tensor_affine: x, 0.1, 2, 0, 6
        fake_quantize_per_channel_affine: x, v.detach(), counted.int(), 1, 0, 6
    """,
    "Losses and distances": """
        cross_entropy: x, labels | x, labels, reduction='none' | x, labels, reduction='sum' | x, labels, v.detach() | x, y
        linear_cross_entropy: x, out_w, labels | x, out_w, labels, linear_bias=v, reduction='sum' | x, out_w, y
        nll_loss: x, labels | x, labels, reduction='none'
        mse_loss: x, y | x, y, reduction='none'
        l1_loss: x, y | x, y, reduction='none'
        smooth_l1_loss: x, y | x, y, beta=0.0 | x, y, reduction='none'
        huber_loss: x, y
        binary_cross_entropy: x, y.detach()
        binary_cross_entropy_with_logits: x, y
        kl_div: x, y
        soft_margin_loss: x, y
        hinge_embedding_loss: v, u
        margin_ranking_loss: x, y, loss.detach()
        cosine_embedding_loss: x, y, signs
        pairwise_distance: x, y | x, y, 1.0
        triplet_margin_loss: x, y, loss
        triplet_margin_with_distance_loss: x, y, loss
        multi_margin_loss: x, labels | x, labels, reduction='none'
        multilabel_margin_loss: x, multi
        multilabel_soft_margin_loss: x, mask.double()
        poisson_nll_loss: x, y
        gaussian_nll_loss: x, y, loss
        ctc_loss: logp, targets, (4, 4), (2, 2) | logp, targets, (4, 4), (2, 2), reduction='none'
        flat_ctc_loss: logp, targets, (4, 4), (2, 2) | logp, targets, (4, 4), (2, 2), reduction=0
        flat_kl_div: x, y | x, y, 2, log_target=True
        flat_binary_cross_entropy_with_logits: x, y | x, y, None, v, 0
        dist: x, y
        cdist: x, y | x, y, 1.0
        pdist: x
    """,
    "Rearranging, choosing, sorting, scans": """
        flip: x, 0 | x, (0, 1)
        fliplr: x
        flipud: x
        roll: x, 1 | x, 1, 0 | x, 0 | b, (1, 1), (0, 2)
        rot90: x | x, 2 | x, 4
        repeat: x, 1, 1 | x, 2, 2 | s, 2, 3 | x, 0, 1 | x, 1, 1, 1
        tile: x, (1,) | x, (2, 2) | x, () | s, (2,)
        repeat_interleave: x, 1 | x, 2, 1 | s, 2 | v, times
        tril: x
        triu: x
        tril_: x.mul(1)
        triu_: x.mul(1)
        diag_embed: v
        diag: v | x
        diagflat: v
        trace: x
        diagonal_scatter: sq, src
        select_scatter: x, row, 0, 1
        slice_scatter: x, slice, 1, 1, 3
        as_strided_scatter: x, flat, (2,), (1,), 1
        unravel_index: at, (3, 4)
        broadcast_tensors: x, v
        meshgrid: v, u | v, u, indexing='xy'
        cartesian_prod: v, u | v
        combinations: v | v, 1
        kron: x, kronl
        cross: sq, batch[0], 1
        vander: v
        cat: [x, y] | [x]
        stack: [x, y] | [x]
        hstack: [x, y] | [x] | [s]
        vstack: [x, y] | [v]
        dstack: [x, y] | [v]
        column_stack: [v, u] | [x]
        block_diag: x, v | x
        narrow_copy: x, 1, 1, 2
        unsafe_split: x, 2, 1
        unsafe_split_with_sizes: x, [1, 2]
        unsafe_chunk: x, 2, 1
        diff: x | x, n=2 | x, n=0
        trapezoid: x
        cumulative_trapezoid: x
        gradient: v | x
        cov: x | v
        corrcoef: x | v
        einsum: 'ij->ji', x | 'ij,kj->ik', x, y | 'ii->i', sq | 'ij->', x | 'i,i->', v, u
        tensordot: x, y, ([0, 1], [0, 1]) | x, v, 1
        index_select: x, 0, index | s, 0, spot
        index_put: x, (index,), row
        masked_select: x, mask
        nonzero: x
        index_add: x, 0, index, y[:2]
        index_copy: x, 0, index, y[:2]
        index_fill: x, 0, index, 1.0
        take: x, at | x, spot
        masked_scatter: x, mask, y
        argwhere: x
        nonzero_static: x, size=3 | labels, size=9, fill_value=0
        put: x, at, two
        gather: x, 0, i | s, 0, spot
        take_along_dim: x, i, 0 | x, at
        scatter: x, 0, i, y | x, 0, i, 1.0
        scatter_add: x, 0, i, y
        scatter_reduce: x, 0, i, y, 'sum' | x, 0, i, y, 'amax' | x, 0, i, y, 'prod' | x, 0, i, y, 'mean', include_self=False
        index_reduce: x, 0, index, y[:2], 'prod' | x, 0, index, y[:2], 'amin' | x, 0, index, y[:2], 'amax', include_self=False
        sort: x | s
        argsort: x
        msort: x
        topk: x, 2
        kthvalue: x, 2 | x, 2, 1, True | v, 1
        median: x | x, 1 | v, 0
        nanmedian: x | x, 1
        mode: x | v
        quantile: x, 0.5 | x, 0.5, 1 | v, two.detach()
        nanquantile: x, 0.5 | x, 0.5, 1
        unique: x
        unique_consecutive: x
        bincount: counted
        histc: x
        histogram: x, 3
        histogramdd: pairs, (2, 2)
        segment_reduce: x, 'sum', offsets=index | x, 'prod', offsets=index | x, 'min', offsets=index
        searchsorted: v, x
        bucketize: x, v
        isin: x, y
        cumsum: x, 1 | s, 0
        cumprod: x, 1 | s, 0
        logcumsumexp: x, 1 | s, 0
        cummax: x, 1
        cummin: x, 1
        cumsum_: x, 1
        cumprod_: x, 1
    """,
    "Reductions and arithmetic": """
        sum_to_size: x, (3, 1) | x, (1,) | x, (3, 4)
        max_of: x | x, 1 | x, y
        min_of: x | x, 1 | x, y
        aminmax: x | x, dim=1
        var: x | x, 1
        std: x | x, 1
        var_mean: x | x, 1
        std_mean: x | x, 1
        logsumexp: x, 1 | s, 0
        prod: x | x, 1 | s
        norm: x | x, 1 | x, 3 | x, 2, 1
        vector_norm: x | x, 1 | x, 3, 1 | s
        nansum: x
        nanmean: x
        nan_to_num: x
        logit: x | x, 0.3
        float_power: x, 2 | x, y
        renorm: x, 2, 0, 0.5
        renorm_in_place: x, 2, 0, 0.5
        frobenius_norm: x, 1
        nuclear_norm: x
        round: x | x, decimals=1
        positive: x
        floor_divide: x, y
        remainder: x, y
        fmod: x, y
        div: x, y | x, 2.0 | x, s | 1.0, x | x, y, rounding_mode='floor'
        pow: x, 2 | x, y | 2.0, x | x, 0.5 | x, 3
        clamp: x, 0.3, 0.6 | x, y | x, None, 0.5
        where: mask, x, y | mask, x, 1.0
        where_method: x, mask, y
        masked_fill: x, mask, 1.0 | x, mask, s
        isclose: x, y
        allclose: x, y
        equal: x, y
        __rdiv__: x, 2.0
        ldexp: x, i | x, y
        ldexp_in_place: x, i
        mvlgamma: x + 2, 2
        frexp: x
        gcd: i, j
        lcm: i, j
        polygamma: 0, x | 1, x | 2, x
        polygamma_method: x, 1
        polygamma_in_place: x, 1
        zeta: 2.5, x
        igamma: x.detach(), y
        igammac: x.detach(), y
        count_nonzero: x | x, 1
        norm2:
        any: x | x, 1
        all: x | x, 1
        conj: x | z
        resolve_conj: x
        resolve_neg: x
        mean: x | x, 1 | s
        sum: x | x, 1 | s
    """,
    "Products": """
        matmul: x, c[0] | x, v | b, c | v, u | b, v
        mm: x, c[0]
        bmm: b, c
        mv: x, v
        dot: v, u
        vdot: v, u
        inner: x, y | v, u
        outer: v, u
        ger: v, u
        addmm: sq, x, c[0]
        addmv: bias, x, v
        addbmm: sq, b, c
        baddbmm: batch, b, c
        addr: x, bias, v
        linear: x, y | b, y | x, y, bias | v, y
        grouped_mm: b, c
        scaled_mm: eight, eight.mT, one.detach().float(), 0, one.detach().float(), 0
        scaled_grouped_mm: eights, eights.mT, b.detach().float()[..., 0], 1, b.detach().float()[..., 0], 1
        linalg.matmul: x, c[0]
    """,
    "Spectra": """
        fft.fft: x
        fft.fft2: x
        fft.fftn: x
        fft.ifft: x
        fft.ifft2: x
        fft.ifftn: x
        fft.rfft: x
        fft.rfft2: x
        fft.rfftn: x
        fft.ihfft: x
        fft.ihfft2: x
        fft.ihfftn: x
        fft.irfft: z
        fft.irfft2: z
        fft.irfftn: z
        fft.hfft: z
        fft.hfft2: z
        fft.hfftn: z
        fftfreq: 4
        rfftfreq: 4
        fftshift: x
        ifftshift: x
        stft: wave, 8, return_complex=True | wave, 8, return_complex=False
        istft: wave.stft(8, return_complex=True), 8
    """,
    "Masked": """
        masked.sum: x, mask=mask | x, 1, mask=mask | x
        masked.prod: x, mask=mask | x, 1, mask=mask | x
        masked.amax: x, mask=mask | x, 1, mask=mask | x
        masked.amin: x, mask=mask | x, 1, mask=mask | x
        masked.argmax: x, mask=mask | x, 1, mask=mask | x
        masked.argmin: x, mask=mask | x, 1, mask=mask | x
        masked.mean: x, mask=mask | x, 1, mask=mask | x
        masked.var: x, mask=mask | x, 1, mask=mask | x
        masked.std: x, mask=mask | x, 1, mask=mask | x
        masked.cumsum: x, 1, mask=mask | x, 1
        masked.cumprod: x, 1, mask=mask | x, 1
        masked.median: x, 1, mask=mask | x, 1
        masked.logsumexp: x, 1, mask=mask | x, 1
        masked.softmax: x, 1, mask=mask | x, 1
        masked.log_softmax: x, 1, mask=mask | x, 1
        masked.softmin: x, 1, mask=mask | x, 1
        masked.norm: x, 2.0, 1, mask=mask
        masked.normalize: x, 2.0, 1, mask=mask
        masked.logaddexp: x, y, input_mask=mask, other_mask=mask
    """,
    "Views": """
        reshape: x, 12 | x, (3, 4)
        permute: x, (1, 0)
        view: x, 3, 4 | x, 3, 2, 2
        expand: v, 3, 4
        flatten: b | v
        ravel: x | v
        unflatten: x, 1, (2, 2)
        squeeze: line | line, 0 | v
        unsqueeze: x, 0
        transpose: x, 0, 1
        swapaxes: x, 0, 1
        swapdims: x, 0, 1
        t: x | v
        movedim: x, 0, 1
        moveaxis: x, 0, 1
        adjoint: x
        narrow: x, 1, 1, 2
        select: x, 0, 1
        diagonal: sq
        as_strided: x, (2,), (1,)
        detach: x
        split: x, 2, 1
        split_with_sizes: x, (1, 3), 1
        chunk: x, 2, 1 | x, 1
        tensor_split: x, 2, 1
        unbind: x | x, 1
        hsplit: x, 2
        vsplit: x, 3
        dsplit: b, 2
        view_as: x, y
        reshape_as: x, y
        expand_as: v, x
        unfold: v, 0, 2, 1
        atleast_1d: s | x
        atleast_2d: v | x
        atleast_3d: v | b
        view_as_real: z
        view_as_complex: pairs
        broadcast_to: v, (3, 4)
        real: z | x
        imag: z
    """,
    "Copies of views": """
        alias_copy: x
        as_strided_copy: x, (2,), (1,)
        detach_copy: x
        diagonal_copy: sq
        expand_copy: v, (3, 4)
        permute_copy: x, (1, 0)
        select_copy: x, 0, 1
        slice_copy: x, 1, 1, 3 | x, 0, None, None, 2 | x
        split_copy: x, 2, 1
        split_with_sizes_copy: x, (1, 3), 1
        squeeze_copy: line | line, 0 | v
        t_copy: x | v
        transpose_copy: x, 0, 1
        unbind_copy: x | x, 1
        unfold_copy: v, 0, 2, 1
        unsqueeze_copy: x, 0
        view_as_complex_copy: pairs
        view_as_real_copy: z
        view_copy: x, (3, 2, 2)
    """,
}
CALLS = {}
for _line in "\n".join(_CALLS.values()).splitlines():
    _name, _, _texts = _line.strip().partition(":")
    if _name:
        CALLS[_name] = [t.strip() for t in _texts.split("|") if t.strip()]
# Operations that make tensors of no others or answer questions, write to their first argument, or hold no tensor of the caller's.
OTHERS = frozenset(("creation", "question", "error", "window", "copy", "conversion"))
IN_PLACE = frozenset("""
    detach_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_ resize_ resize_as_ set_ is_contiguous
    round_ nan_to_num_ logit_ float_power_ mvlgamma_ fill_diagonal_ map_ map2_ uniform_ normal_ exponential_ geometric_ cauchy_
    log_normal_ random_ bernoulli_ rand randn randint rand_like randn_like randint_like normal bernoulli poisson binomial multinomial
    broadcast_shapes randperm
""".split())  # fmt: skip


def calls(entry) -> list[str] | None:
    """Calls of an operation as text; None for one that takes part in no test over all."""
    if entry.name in CALLS:
        return CALLS[entry.name]
    public = [p for p in entry.places if not p.rpartition(".")[2].startswith("_")]
    if not public or entry.kind in OTHERS or entry.name in IN_PLACE:
        return None
    if entry.kind in ("reduction", "row"):
        return ["x, 1"] if entry.kind == "row" else ["x", "x, 1"]
    if entry.kind == "pointwise":
        floats = iter(("x", "y", "loss"))
        raw = {"mask": "mask", "condition": "mask"}
        whole = not any(d.startswith("float") for d in entry.dtypes)
        operands = [raw.get(n) or ("i" if whole else next(floats)) for n in entry.details["operands"]]
        return [", ".join(operands)]
    if entry.kind == "fallback":
        return ["x, y"] if entry.name in ("nextafter",) or "polynomial" in entry.name else ["x"]
    if entry.name.endswith("_function"):
        return ["x"]
    raise KeyError(
        f"no calls of the operation {entry.name} ({entry.kind}) stand in tests/operations/samples.py"
    )


ALL = [(entry, text) for entry in REGISTRY.values() for text in calls(entry) or ()]


def result(entry, text: str, operands: Operands):
    """What a call gives."""
    flambeau.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of functions that have a newer name
        return eval(f"function({text})", {"function": entry.function}, operands)


def run(entry, text: str, operands: Operands):
    """Results of a call, tensors alone, in a list."""
    return tensors_in(result(entry, text, operands))


def tensors_in(found) -> list:
    if isinstance(found, flambeau.Tensor):
        return [found]
    return [t for f in found for t in tensors_in(f)] if isinstance(found, (tuple, list)) else []
