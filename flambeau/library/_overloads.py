"""The overloads that ATen has of the operations declared here, as `tools/aten_of_torch.py` found them in PyTorch 2.13."""

from __future__ import annotations

import functools

# Overloads: operations.
_TABLE = """
Scalar List List_out ScalarAndTensor ScalarList ScalarList_out Scalar_out: _foreach_pow

Scalar List List_out ScalarList ScalarList_out Scalar_out: _foreach_clamp_max _foreach_clamp_min _foreach_lerp
    _foreach_maximum _foreach_minimum _foreach_sub

Scalar List ScalarList: _foreach_clamp_max_ _foreach_clamp_min_ _foreach_lerp_ _foreach_maximum_ _foreach_minimum_
    _foreach_pow_ _foreach_sub_

Scalar Scalar_out: _foreach_norm _foreach_powsum

Scalar Scalar_out Tensor_Scalar Tensor_Scalar_out Tensor_Tensor Tensor_Tensor_out: float_power pow

Scalar out ScalarOpt_dim ScalarOpt_dim_dtype ScalarOpt_dtype ScalarOpt_dtype_out Scalar_out dtype_out: norm

Scalar_Tensor Scalar_Tensor_out Tensor_Scalar Tensor_Scalar_out Tensor_Tensor Tensor_Tensor_out: isin

Tensor IntList: ctc_loss

Tensor OutScalar_Other OutScalar_Self OutTensor Scalar_Other Scalar_Self: xlogy

Tensor Scalar: add_ bitwise_and_ bitwise_or_ bitwise_xor_ copysign_ eq_ fill_ float_power_ floor_divide_ fmod_ ge_
    greater_ greater_equal_ gt_ le_ lerp_ less_ less_equal_ lt_ masked_fill_ mul_ multiply_ ne_ not_equal_ pow_
    remainder_ sub_ subtract_ true_divide_

Tensor Scalar List List_out ScalarList ScalarList_out Scalar_out Tensor_out: _foreach_add _foreach_div _foreach_mul

Tensor Scalar List ScalarList: _foreach_add_ _foreach_div_ _foreach_mul_

Tensor Scalar ScalarList: _foreach_addcdiv_ _foreach_addcmul_

Tensor Scalar ScalarList ScalarList_out Scalar_out Tensor_out: _foreach_addcdiv _foreach_addcmul

Tensor Scalar Scalar_Tensor Scalar_Tensor_out Scalar_out Tensor_out: bitwise_and bitwise_or bitwise_xor remainder

Tensor Scalar Scalar_mode Tensor_mode: div_ divide_

Tensor Scalar Scalar_out Tensor_out: bucketize eq fill fmod ge greater greater_equal gt le lerp less less_equal lt
    masked_fill ne not_equal rsub searchsorted

Tensor Scalar out: multiply subtract true_divide

Tensor Scalar out Scalar_mode Scalar_mode_out Scalar_out Tensor_mode out_mode: div

Tensor Scalar out Scalar_mode Tensor_mode out_mode: divide

Tensor Scalar out Scalar_out: add copysign mul sub

Tensor Scalar_Other: xlogy_

Tensor Scalar_Tensor Scalar_Tensor_out Tensor_Scalar Tensor_Scalar_out Tensor_out: bitwise_left_shift
    bitwise_right_shift

Tensor Tensor_Scalar: bitwise_left_shift_ bitwise_right_shift_

Tensor Tensor_out: frexp slice_copy split_copy unsafe_split

Tensor Tensor_out self_Tensor self_int: repeat_interleave

Tensor float: bernoulli_

Tensor out: ldexp

Tensor sizes: split

array int: dsplit hsplit vsplit

array scalararray scalarint scalarrayarray scalarrayint tensorarray tensorarrayint: gradient

bin_ct bin_ct_out bins_tensor bins_tensor_out: histogram

data input: gru lstm rnn_relu rnn_tanh

default: _convert_weight_to_int4pack_for_cpu _foreach_abs_ _foreach_acos_ _foreach_asin_ _foreach_atan_ _foreach_ceil_
    _foreach_copy_ _foreach_cos_ _foreach_cosh_ _foreach_erf_ _foreach_erfc_ _foreach_exp_ _foreach_expm1_
    _foreach_floor_ _foreach_frac_ _foreach_lgamma_ _foreach_log10_ _foreach_log1p_ _foreach_log2_ _foreach_log_
    _foreach_mm _foreach_neg_ _foreach_reciprocal_ _foreach_round_ _foreach_rsqrt_ _foreach_sigmoid_ _foreach_sign_
    _foreach_sin_ _foreach_sinh_ _foreach_sqrt_ _foreach_tan_ _foreach_tanh_ _foreach_trunc_ _foreach_zero_
    _weight_int4pack_mm_for_cpu _weight_int8pack_mm abs_ absolute_ acos_ acosh_ adaptive_max_pool1d addbmm_ addcdiv_
    addcmul_ addmm_ addmv_ addr_ adjoint allclose alpha_dropout alpha_dropout_ arccos_ arccosh_ arcsin_ arcsinh_
    arctan2_ arctan_ arctanh_ argwhere as_strided as_strided_ asin_ asinh_ atan2_ atan_ atanh_ baddbmm_ batch_norm
    bilinear bitwise_not_ broadcast_tensors broadcast_to cartesian_prod cauchy_ cdist ceil_ celu_ chalf chunk
    combinations conj conj_physical_ contiguous conv_transpose1d copy_ corrcoef cos_ cosh_ cosine_embedding_loss
    cosine_similarity cov cross_entropy_loss cumprod_ cumsum_ deg2rad_ det detach detach_ diagflat diagonal digamma_
    dropout dropout_ einsum elu_ embedding_renorm_ equal erf_ erfc_ erfinv_ exp2_ exp_ expand expand_as expm1_
    exponential_ fake_quantize_per_channel_affine feature_alpha_dropout feature_alpha_dropout_ feature_dropout
    feature_dropout_ fft_fftshift fft_ifftshift fill_diagonal_ fix_ fliplr flipud floor_ frac_ gcd_ geometric_
    grid_sampler group_norm gru_cell hardtanh_ heaviside_ hinge_embedding_loss hypot_ i0_ igamma_ igammac_ imag
    index_add_ index_copy_ index_put_ index_reduce_ instance_norm is_nonzero is_pinned is_same_size is_set_to
    is_signed isclose isfinite isreal istft item kl_div l1_loss layer_norm lcm_ ldexp_ leaky_relu_ lgamma_
    linalg_diagonal linalg_vander log10_ log1p_ log2_ log_ log_normal_ logdet logical_and_ logical_not_ logical_or_
    logical_xor_ logit_ lstm_cell margin_ranking_loss masked_scatter_ matrix_exp max_pool1d max_pool1d_with_indices
    max_pool2d max_pool3d mvlgamma_ nan_to_num_ native_channel_shuffle neg_ negative_ nextafter_ nll_loss_nd
    norm_except_dim normal_ one_hot pad pairwise_distance pdist permute pin_memory pinverse poisson_nll_loss
    polygamma_ positive prelu put_ rad2deg_ ravel real reciprocal_ record_stream relu6 relu_ renorm_ reshape
    reshape_as resize_ resize_as_ resolve_conj resolve_neg rms_norm rnn_relu_cell rnn_tanh_cell rrelu rrelu_ rsqrt_
    scaled_dot_product_attention scatter_add_ selu selu_ sgn_ sigmoid_ sign_ sin_ sinc_ sinh_ special_log_softmax
    special_softmax split_with_sizes sqrt_ square_ sum_to_size swapaxes swapaxes_ swapdims swapdims_ t t_ tan_ tanh_
    threshold_ tile transpose_ tril_ triplet_margin_loss triu_ trunc_ type_as unfold uniform_ unsafe_chunk unsqueeze
    unsqueeze_ vander view_as view_as_complex view_as_real zero_

default L: linalg_cholesky_ex

default Q: qr

default Scalar ScalarOther ScalarSelf self self_out: where

default Scalar out Scalar_out: floor_divide

default Sequence: atleast_1d atleast_2d atleast_3d

default Tensor: clamp_ clamp_max_ clamp_min_ clip_ narrow

default Tensor out Tensor_generator Tensor_generator_out Tensor_out generator generator_out low_dtype low_dtype_out
    low_generator_dtype low_generator_dtype_out: randint_like

default Tensor out Tensor_out: clamp clamp_max clamp_min clip

default Tensor out Tensor_out float_out p: bernoulli

default TensorList_bins int_bins: histogramdd

default U: linalg_svd svd

default X: triangular_solve

default a: geqrf

default center: stft

default correction correction_out dim: std_mean var_mean

default decimals: round_

default dim dims: squeeze squeeze_

default dtype: view

default eigvals: linalg_eigh

default from to: random_

default indexing: meshgrid

default inverse: linalg_inv_ex

default memory_format: is_contiguous

default out: _foreach_abs _foreach_acos _foreach_asin _foreach_atan _foreach_ceil _foreach_clone _foreach_cos
    _foreach_cosh _foreach_erf _foreach_erfc _foreach_exp _foreach_expm1 _foreach_floor _foreach_frac _foreach_lgamma
    _foreach_log _foreach_log10 _foreach_log1p _foreach_log2 _foreach_max _foreach_neg _foreach_reciprocal
    _foreach_round _foreach_rsqrt _foreach_sigmoid _foreach_sign _foreach_sin _foreach_sinh _foreach_sqrt _foreach_tan
    _foreach_tanh _foreach_trunc abs absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool2d adaptive_max_pool3d addbmm addcdiv addcmul addmv addr affine_grid_generator alias_copy amax
    amin aminmax angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin as_strided_copy
    as_strided_scatter asin asinh atan atan2 atanh avg_pool1d avg_pool2d avg_pool3d binary_cross_entropy
    binary_cross_entropy_with_logits bincount binomial bitwise_not block_diag cat ceil celu chain_matmul
    channel_shuffle cholesky cholesky_inverse cholesky_solve clone col2im column_stack complex concat concatenate
    conj_physical constant_pad_nd conv_tbc convolution cos cosh cross cummax cummin cumprod cumsum deg2rad detach_copy
    diag diag_embed diagonal_copy diagonal_scatter diff digamma dist dot dstack elu embedding empty_like
    empty_permuted empty_strided erf erfc erfinv exp exp2 expand_copy expm1 fft_fft fft_fft2 fft_fftfreq fft_fftn
    fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2
    fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn fix flip floor fmax fmin frac full full_like gather gcd gelu
    ger glu grid_sampler_2d grid_sampler_3d hardshrink hardsigmoid hardswish hardtanh heaviside histc hstack
    huber_loss hypot i0 igamma igammac im2col index_add index_copy index_put index_reduce index_select inner inverse
    isinf isnan isneginf isposinf kron lcm leaky_relu lgamma linalg_cholesky linalg_cross linalg_det linalg_eig
    linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv linalg_ldl_factor linalg_ldl_factor_ex
    linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_matmul
    linalg_matrix_exp linalg_matrix_power linalg_multi_dot linalg_qr linalg_slogdet linalg_solve linalg_solve_ex
    linalg_solve_triangular linalg_svdvals linalg_tensorinv linalg_tensorsolve linalg_vecdot linalg_vector_norm linear
    log log10 log1p log2 log_sigmoid logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor
    logit logsumexp lu_solve lu_unpack masked_scatter masked_select matmul matrix_power max_pool2d_with_indices
    max_pool3d_with_indices max_unpool2d max_unpool3d maximum minimum mish mse_loss msort multi_margin_loss
    multilabel_margin_loss multinomial mv mvlgamma nan_to_num nanmean nansum narrow_copy native_batch_norm
    native_dropout native_group_norm native_layer_norm neg negative new_empty new_empty_strided new_full new_ones
    new_zeros nextafter nll_loss nonzero nonzero_static ones ones_like orgqr ormqr outer permute_copy pixel_shuffle
    pixel_unshuffle poisson polar polygamma put rad2deg reciprocal relu renorm repeat roll rot90 row_stack rsqrt
    scalar_tensor scatter_add segment_reduce select_scatter sgn sigmoid sign signbit silu sin sinc sinh slice_scatter
    slogdet smooth_l1_loss soft_margin_loss softplus softshrink special_airy_ai special_bessel_j0 special_bessel_j1
    special_bessel_y0 special_bessel_y1 special_digamma special_entr special_erf special_erfc special_erfcx
    special_erfinv special_exp2 special_expit special_expm1 special_gammainc special_gammaincc special_gammaln
    special_i0 special_i0e special_i1 special_i1e special_log1p special_log_ndtr special_logit special_logsumexp
    special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1
    special_multigammaln special_ndtr special_ndtri special_polygamma special_psi special_round
    special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_sinc special_spherical_bessel_j0
    split_with_sizes_copy sqrt square stack t_copy take take_along_dim tan tanh tensordot threshold trace tril
    tril_indices triu triu_indices trunc unfold_copy unique_consecutive unsafe_split_with_sizes unsqueeze_copy vdot
    view_as_complex_copy view_as_real_copy vstack zeros zeros_like

default out IntList_out dim_IntList: sum

default out Scalar_Tensor Scalar_Tensor_out Tensor_Scalar Tensor_Scalar_out Tensor_Tensor Tensor_Tensor_out: linspace
    logspace

default out all_out dim dims dims_out: all any

default out atol_rtol_float atol_rtol_float_out atol_rtol_tensor atol_rtol_tensor_out out_rcond_tensor rcond_tensor:
    linalg_pinv

default out atol_rtol_float atol_rtol_float_out atol_rtol_tensor atol_rtol_tensor_out out_tol_tensor tol_tensor:
    linalg_matrix_rank

default out beta beta_out periodic periodic_out: kaiser_window

default out correction correction_out dim: std var

default out decimals decimals_out: round

default out dim dim_max other unary_out: max

default out dim dim_min other unary_out: min

default out dim dim_out: nuclear_norm

default out dim dim_out dims dims_out: squeeze_copy

default out dim dim_values: median nanmedian

default out dim dtype_out: mean

default out dim_IntList dim_IntList_out: count_nonzero

default out dim_int int_out: prod

default out dtype dtype_out: addmm baddbmm bmm mm view_copy

default out generator generator_out: rand rand_like randn randn_like randperm

default out generator generator_out low low_generator low_generator_out low_out: randint

default out m m_out: eye

default out n_scalar n_scalar_out x_scalar x_scalar_out: special_chebyshev_polynomial_t special_chebyshev_polynomial_u
    special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_hermite_polynomial_h
    special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p
    special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
    special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w

default out ord_str ord_str_out: linalg_norm

default out other_scalar other_scalar_out self_scalar self_scalar_out: special_xlog1py special_xlogy special_zeta

default out out_ step: range

default out p_str p_str_out: linalg_cond

default out periodic periodic_alpha periodic_alpha_beta periodic_alpha_beta_out periodic_alpha_out periodic_out:
    hamming_window

default out periodic periodic_out: bartlett_window blackman_window hann_window

default out scalar scalar_out: nanquantile quantile

default out start start_out start_step: arange

default out str_ord str_ord_out: linalg_matrix_norm

default output: fractional_max_pool2d fractional_max_pool3d

default padding: conv1d conv2d conv3d

default padding_idx: embedding_bag

default source_Storage source_Storage_storage_offset source_Tensor source_Tensor_storage_offset: set_

default stable stable_out: argsort

default stable values values_stable: sort

default tensor_qparams: fake_quantize_per_tensor_affine

default values: kthvalue mode topk

device dtype dtype_layout other: to

dx x: cumulative_trapezoid trapezoid trapz

indices sections tensor_indices_or_sections: tensor_split

input: conv_transpose2d conv_transpose3d

int: select transpose unbind unflatten

int int_out: log_softmax select_copy softmax transpose_copy unbind_copy

int intlist: moveaxis movedim

int_Scalar int_Scalar_out int_Tensor int_Tensor_out: index_fill

int_Scalar int_Tensor: index_fill_

out Tensor_Tensor Tensor_Tensor_out Tensor_float Tensor_float_out float_Tensor float_Tensor_out float_float
    float_float_out: normal

out dim: frobenius_norm

out memory_format: empty

reduce reduce_out src src_out value value_out value_reduce value_reduce_out: scatter

reduce src value value_reduce: scatter_

two: scatter_reduce_

two two_out: scatter_reduce

using_ints: flatten
"""


# Overloads that no program of Python calls there: a number is a tensor without dimensions to the other one.
_NOT_OF_PYTHON = """
    add.Scalar add_.Scalar div.Scalar div_.Scalar div.Scalar_mode div_.Scalar_mode
    mul.Scalar mul_.Scalar sub.Scalar sub_.Scalar
"""


def of_python(name: str, overload: str) -> str:
    """The overload that PyTorch's Python calls in the place of one.

    >>> from flambeau.library._overloads import of_python
    >>> of_python("add", "Scalar"), of_python("gt", "Scalar")
    ('Tensor', 'Scalar')
    """
    return (
        overload.replace("Scalar", "Tensor") if f"{name}.{overload}" in _NOT_OF_PYTHON.split() else overload
    )


@functools.cache
def table() -> dict[str, tuple[str, ...]]:
    """ATen's name -> its overloads.

    >>> from flambeau.library._overloads import table
    >>> table()["mul"]
    ('Tensor', 'Scalar', 'out', 'Scalar_out')
    """
    result: dict[str, tuple[str, ...]] = {}
    for block in _TABLE.strip().split("\n\n"):
        overloads, _, names = block.partition(":")
        result.update(dict.fromkeys(names.split(), tuple(overloads.split())))
    return result
