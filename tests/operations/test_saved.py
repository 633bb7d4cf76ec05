"""Operations save for backward what PyTorch saves, so that a program may write in place where it may there.

Over every operation: its result, or an operand, is overwritten before backward; then backward gives the gradient that it
would have given, or raises.  The lists say where it raises.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from samples import ALL, Operands, run

import flambeau
from flambeau.operations.declare.registry import REGISTRY

# Derivatives that read the result: those of PyTorch's derivatives.yaml that read `result`, and what is made of them.
SAVES_RESULT = frozenset("""
    relu exp exp2 expm1 tan tanh sigmoid hypot amax amin softmax log_softmax relu_function tanh_function softmax_function
    log_softmax_function softmin gumbel_softmax reciprocal sqrt rsqrt copysign pow pairwise_distance solve_triangular solve inv
    inv_ex solve_ex det slogdet cholesky_ex cholesky qr lu_factor_ex lu_factor lu_solve lstsq eigh eig eigvals svd max_of
    min_of aminmax std std_mean logsumexp norm vector_norm dist float_power cumprod logcumsumexp cdist pdist matrix_norm
    linalg_norm pinv matrix_power tensorinv tensorsolve old_cholesky cholesky_solve cholesky_inverse triangular_solve old_qr old_svd
    old_lu old_lu_solve pinverse svd_lowrank pca_lowrank masked.cumprod masked.amax masked.amin masked.logsumexp masked.norm
    masked.std masked.softmax masked.log_softmax masked.softmin i0e i1 i1e erfcx ndtri frobenius_norm norm_except_dim flat_lstm
    flat_lstm_cell flat_rnn_tanh_cell flat_rnn_relu_cell scatter_reduce index_reduce segment_reduce median nanmedian
""".split())  # fmt: skip
# Functions that PyTorch does not differentiate at all.
ONLY_HERE = frozenset("""
    bessel_j1 bessel_y1 modified_bessel_i1 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0
""".split())  # fmt: skip
# Derivatives that read no operand (the result, or shapes alone): operands may be overwritten.
READS_NO_OPERAND = frozenset("""
    relu exp exp2 expm1 tan tanh sigmoid deg2rad rad2deg sum mean softmax log_softmax relu_function tanh_function softmax_function
    log_softmax_function softmin gumbel_softmax add sub rsub neg sign reciprocal sqrt rsqrt floor ceil trunc round frac cat stack
    hstack vstack dstack column_stack block_diag l1_loss hinge_embedding_loss margin_ranking_loss pairwise_distance
    triplet_margin_loss triplet_margin_with_distance_loss gaussian_nll_loss dropout1d dropout2d dropout3d feature_alpha_dropout inv
    inv_ex cholesky_ex cholesky qr lu_factor_ex lu_factor lu lu_solve eigh eigvals svd cumsum diff trapezoid
    cumulative_trapezoid gradient fliplr flipud roll rot90 repeat tile repeat_interleave tril triu diag_embed diag diagflat trace
    diagonal_scatter select_scatter slice_scatter as_strided_scatter cov corrcoef frexp tensorinv old_cholesky old_qr old_svd old_lu
    lu_unpack pca_lowrank pixel_shuffle pixel_unshuffle upsample upsample_nearest upsample_bilinear channel_shuffle affine_grid ndtri
    mvlgamma narrow_copy sort msort topk kthvalue mode quantile nanquantile fft.fft2 fft.fftn fft.ifft2 fft.ifftn
    fftshift ifftshift im2col col2im constant_pad_nd
""".split())  # fmt: skip
# Where PyTorch lets an operand be overwritten and we do not, and why.
READS_OPERAND_ALL_THE_SAME = {
    "__rdiv__": "c / x is one quotient that saves x; PyTorch multiplies c by 1 / x, and holds that as well as the result",
    "tanhshrink": "x - tanh(x) is one kernel that saves x; PyTorch holds tanh(x) as well as the result",
    "ndtr": "erfc(-x / √2) / 2 is one kernel that saves x; PyTorch holds -x / √2 as well as the result",
    "polar": "the result has lost the angle where the length is 0; PyTorch's gradient is 0 there",
    "svdvals": "values alone are computed, and vectors in backward; PyTorch computes vectors wherever a gradient is wanted",
    "eigvalsh": "the same",
    "nuclear_norm": "the sum of `svdvals`",
    "kron": "PyTorch overlooks the write, and gives a wrong gradient",
    "cross_entropy": "one kernel saves the scores; PyTorch holds their log_softmax, as large, as well",
}
MODIFIED = "modified by an inplace operation"


def loss(results):
    parts = [r for r in results if r.requires_grad]
    parts = [r.real + r.imag * 0.5 if r.is_complex() else r for r in parts]
    return sum(
        (r * flambeau.linspace(0.5, 1.5, r.numel(), dtype=r.dtype).reshape(r.shape)).sum() for r in parts
    )


def gradients(results, operands):
    return flambeau.autograd.grad(loss(results), operands.leaves, allow_unused=True)


def agree(found, expected):
    for a, b in zip(found, expected, strict=True):
        a, b = (np.zeros(()) if g is None else g.numpy() for g in (a, b))
        np.testing.assert_allclose(*np.broadcast_arrays(a, b), rtol=1e-9, atol=1e-9)


def called(entry, text):
    operands = Operands(grad=True)
    return run(entry, text, operands), operands


def refused(results, operands) -> bool:
    """Whether backward says that something was overwritten."""
    try:
        gradients(results, operands)
    except RuntimeError as error:
        if MODIFIED not in str(error):
            raise
        return True
    return False


DIFFERENTIABLE = []
for _entry, _text in ALL:
    if _entry.differentiable:
        DIFFERENTIABLE.append((_entry, _text))


def of_its_own(t, results) -> bool:
    """Whether a result has a gradient, and memory that no operand and no other result shares."""
    place = t.untyped_storage().data_ptr()
    alone = sum(place == r.untyped_storage().data_ptr() for r in results) == 1
    return t.requires_grad and alone and not t._is_view()


def test_results_may_be_overwritten_where_pytorch_saves_operands():
    saving = set()
    for entry, text in DIFFERENTIABLE:
        results, _ = called(entry, text)
        for k in [k for k, t in enumerate(results) if of_its_own(t, results)]:
            results, operands = called(entry, text)
            results[k].mul_(2)
            if refused(results, operands):
                saving.add(entry.name)
                continue
            results, operands = called(entry, text)
            written = results[k].mul_(2)
            found = gradients(results, operands)
            results, operands = called(entry, text)
            results[k] = results[k] * 2
            np.testing.assert_array_equal(written.detach(), results[k].detach(), f"{entry.name}({text})")
            agree(found, gradients(results, operands))
    assert saving == SAVES_RESULT | ONLY_HERE


def test_operands_may_be_overwritten_where_pytorch_saves_results():
    reading = set()
    for entry, text in DIFFERENTIABLE:
        results, operands = called(entry, text)
        if entry.name in ("cumprod_", "cumsum_", "tril_", "triu_") or not any(
            r.requires_grad for r in results
        ):
            continue
        expected = gradients(results, operands)
        for name in [n for n, t in operands.items() if isinstance(t, flambeau.Tensor)]:
            results, operands = called(entry, text)
            place = operands[name].untyped_storage().data_ptr()
            if any(place == r.untyped_storage().data_ptr() for r in results):
                continue
            with flambeau.no_grad():
                operands[name].fill_(1)
            if refused(results, operands):
                reading.add(entry.name)
                continue
            results, operands = called(entry, text)
            with flambeau.no_grad():
                operands[name].fill_(1)
            agree(gradients(results, operands), expected)
    assert not reading & READS_NO_OPERAND
    assert set(READS_OPERAND_ALL_THE_SAME) <= reading
    assert not READS_NO_OPERAND & set(READS_OPERAND_ALL_THE_SAME)


@pytest.mark.parametrize("program", [
    lambda x: (x / (x + 1)).relu_(), lambda x: (1 / (x * x)).mul_(3), lambda x: flambeau.nn.functional.normalize(x, dim=1).mul_(2),
    lambda x: flambeau.nn.functional.local_response_norm(x[None, None], 1).add_(1), lambda x: x.div(2.5).sigmoid_(),
    lambda x: flambeau.nn.functional.lp_pool2d(x[None, None], 2, 2).neg_(), lambda x: (x**0.5).mul_(2), lambda x: (x**-1).mul_(2),
    lambda x: (x**-0.5).mul_(2), lambda x: x.erfinv().mul_(2), lambda x: flambeau.nn.functional.softsign(x).mul_(2),
    lambda x: flambeau.special.i0(x).mul_(2), lambda x: flambeau.polygamma(2, x).mul_(2), lambda x: (x * 1).div_(x + 1).add_(1),
    lambda x: (x / x.sum(1, keepdim=True)).clamp_(0.1, 0.6), lambda x: flambeau.corrcoef(x).mul_(2),
])  # fmt: skip
def test_programs_that_write_over_a_result(program):
    x = flambeau.from_numpy(np.random.default_rng(0).uniform(0.2, 0.8, (4, 4))).requires_grad_()
    assert flambeau.autograd.gradcheck(program, (x,))


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_gradient_of_a_quotient(kind):
    """g / b and -g a / b², at sizes near the ends of the range too, and a second derivative."""
    kind = getattr(flambeau, kind)
    a = flambeau.tensor([3.0, 1e15, 1e-15, 0.0], dtype=kind, requires_grad=True)
    b = flambeau.tensor([2.0, 1e15, 1e-15, 4.0], dtype=kind, requires_grad=True)
    to_a, to_b = flambeau.autograd.grad((a / b).sum(), (a, b), create_graph=True)
    np.testing.assert_allclose(to_a.detach().numpy(), [0.5, 1e-15, 1e15, 0.25], rtol=1e-6)
    np.testing.assert_allclose(to_b.detach().numpy(), [-0.75, -1e-15, -1e15, 0.0], rtol=1e-6)
    twice = flambeau.autograd.grad(to_b.sum(), b)[0]
    np.testing.assert_allclose(twice.numpy()[[0, 3]], [0.75, 0.0], rtol=1e-6)


INPLACE = frozenset("""
    relu_function relu6_function leaky_relu_function elu_function celu_function selu_function silu_function mish_function
    hardtanh_function hardsigmoid_function hardswish_function threshold rrelu dropout_function alpha_dropout
""".split())  # fmt: skip


def in_place_forms():
    """Functions whose result stands in their first argument, with the function that they are the form of."""
    for entry, text in ALL:
        if entry.in_place is not None and text.startswith("x"):
            yield entry, text, entry.in_place
        if entry.name in INPLACE:
            yield entry, text, functools.partial(entry.function, inplace=True)
    for name in ("cumprod", "cumsum"):
        yield REGISTRY[name], "x, 1", getattr(flambeau.Tensor, name + "_")


def test_gradients_of_operations_in_place():
    """What they overwrite, their derivatives still read."""
    seen = 0
    for entry, text, written in in_place_forms():
        found = []
        for function in (entry.function, written):
            operands = Operands(grad=True)
            flambeau.manual_seed(0)
            result = eval(f"function({text})", {"function": function}, operands)
            if not result.requires_grad:
                break
            found.append(gradients([result], operands))
        else:
            agree(*found)
            seen += 1
    assert seen > 80
