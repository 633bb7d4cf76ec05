"""Products of bfloat16: sums in float32 over all of the depth, one rounding, the same bits for any number of threads.

On processors with AVX512_BF16 they are generated tiles, elsewhere BLAS's in float32: what is tested holds for both.
"""

from __future__ import annotations

import itertools
import math

import pytest
from flambeau.core.base.parallel import get_num_threads, set_num_threads

import flambeau
from flambeau.codegen import tiles
from flambeau.nn import functional as F

BF16 = flambeau.bfloat16
# Around the six rows and the groups of 16 columns of a tile, the matrix unit's 16 and 32, odd depths, and more than the sums are held for.
ROWS = (1, 5, 6, 7, 13, 16, 17, 33, 200, 290)
COLUMNS = (1, 15, 16, 17, 63, 64, 65, 130)
DEPTHS = (1, 2, 3, 31, 32, 33, 64, 1030)


def drawn(*shape):
    return flambeau.randn(*shape).to(BF16)


def assert_rounded_once(found, a, b):
    """Half a unit of bfloat16 in the last place, and what summing in float32 may lose."""
    exact, sizes = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    bound = exact.abs() * 2.0**-8 + sizes * (a.shape[-1] * 2.0**-24) + 1e-38
    assert found.dtype == BF16 and found.shape == exact.shape
    assert ((found.double() - exact).abs() <= bound).all()


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rows", ROWS)
def test_every_shape_and_layout(rows, columns):
    flambeau.manual_seed(0)
    for depth in DEPTHS:
        a, b = drawn(rows, depth), drawn(depth, columns)
        wide = flambeau.cat([b, b], 1)[:, :columns]
        for left, right in itertools.product((a, a.t().contiguous().t()), (b, b.t().contiguous().t(), wide)):
            assert_rounded_once(left @ right, a, b)


@pytest.mark.parametrize(
    "rows,columns,depth", [(8300, 70, 37), (8193, 130, 64), (300, 2100, 33), (513, 2049, 70)]
)
def test_long_operands_are_laid_out_where_they_are_used(rows, columns, depth):
    """Rows, or columns, for so many tasks that each takes all of the other side."""
    flambeau.manual_seed(0)
    a, b, before = drawn(rows, depth), drawn(depth, columns), get_num_threads()
    for left, right in itertools.product((a, a.t().contiguous().t()), (b, b.t().contiguous().t())):
        found = left @ right
        assert_rounded_once(found, a, b)
        set_num_threads(1 if before > 1 else 3)
        try:
            assert found.equal(left @ right)
        finally:
            set_num_threads(before)


def test_no_number_beyond_an_operand_is_read():
    """A row's end meets zeros, not the next row's NaN."""
    for depth in (1, 5, 33, 40):
        a = flambeau.full((40, 48), float("nan"), dtype=BF16)
        a[:, :depth] = 1.0
        b = flambeau.ones(depth, 20, dtype=BF16)
        assert (a[:, :depth] @ b == depth).all()
        assert (flambeau.full((48, 40), float("nan"), dtype=BF16)[:depth].fill_(1.0).t() @ b == depth).all()


def test_one_right_matrix_for_a_stack():
    flambeau.manual_seed(0)
    b = drawn(70, 33)
    for rows in (5, 40, 300):
        a = drawn(3, rows, 70)
        assert_rounded_once(a.transpose(1, 2).contiguous().transpose(1, 2) @ b.expand(3, 70, 33), a, b)
        windows = drawn(rows, 100).as_strided((3, rows, 70), (7, 100, 1))
        assert_rounded_once(windows @ b.expand(3, 70, 33), windows, b)


def test_stacks_broadcast():
    flambeau.manual_seed(0)
    for left, right in (
        (drawn(5, 13, 9), drawn(5, 9, 70)),
        (drawn(5, 13, 9), drawn(9, 70)),
        (drawn(13, 9), drawn(5, 9, 70)),
        (drawn(2, 1, 7, 8), drawn(3, 8, 20)),
        (drawn(4, 2, 7, 8).transpose(0, 1), drawn(2, 4, 20, 8).transpose(2, 3)),
        (drawn(3, 8, 7).mT, drawn(3, 8, 7)),
    ):
        assert_rounded_once(left @ right, left, right)


def test_addends_and_factors():
    flambeau.manual_seed(0)
    c, a, b = drawn(13, 70), drawn(13, 9), drawn(9, 70)
    exact = 2 * c.double() + 3 * (a.double() @ b.double())
    out = flambeau.empty(13, 70, dtype=BF16)
    for found in (
        flambeau.addmm(c, a, b, beta=2, alpha=3),
        c.clone().addmm_(a, b, beta=2, alpha=3),
        flambeau.addmm(c, a, b, beta=2, alpha=3, out=out),
    ):
        assert ((found.double() - exact).abs() <= exact.abs() * 2.0**-8 + 1e-5).all()
    turned = flambeau.empty(70, 13, dtype=BF16).t()
    assert flambeau.equal(flambeau.mm(a, b, out=turned), a @ b) and turned.stride() == (1, 13)
    x, w, bias = drawn(4, 3, 9), drawn(70, 9), drawn(70)
    exact = x.double() @ w.double().T + bias.double()
    assert ((F.linear(x, w, bias).double() - exact).abs() <= exact.abs() * 2.0**-8 + 1e-5).all()
    # What beta = 0 leaves out is not read.
    assert flambeau.addmm(flambeau.full((13, 70), math.nan, dtype=BF16), a, b, beta=0).isfinite().all()


def test_a_sum_over_a_stack_is_rounded_once():
    """256 products of 1, then one of 2⁻⁸·256: their sum in bfloat16, one after the other, would stay at 256."""
    a, b = flambeau.ones(300, 1, 2, dtype=BF16), flambeau.full((300, 2, 1), 0.5, dtype=BF16)
    found = flambeau.addbmm(flambeau.zeros(1, 1, dtype=BF16), a, b)
    assert found.item() == 300.0


@pytest.mark.parametrize("batches,rows,depth,columns", [(5, 7, 33, 20), (16, 40, 35, 64), (3, 1, 5, 300)])
def test_gradients_of_a_weight_from_rows_that_lie_apart(batches, rows, depth, columns):
    """A sum over two dimensions of operands that lie in another order, as of a recurrent layer whose batches come first."""
    flambeau.manual_seed(0)
    apart = lambda *size: drawn(*size).transpose(0, 1)
    weight = drawn(columns, depth).requires_grad_()
    for x in (
        apart(rows, batches, depth),
        drawn(batches, rows, depth),
        drawn(rows, depth).expand(batches, rows, depth),
    ):
        for grad in (drawn(batches, rows, columns), apart(rows, batches, columns)):
            (found,) = flambeau.autograd.grad(F.linear(x, weight), weight, grad)
            left, right = grad.reshape(-1, columns).t(), x.reshape(-1, depth)
            assert_rounded_once(found, left, right)


def test_bits_do_not_depend_on_threads():
    flambeau.manual_seed(0)
    before = get_num_threads()
    cases = [(drawn(390, 300), drawn(300, 200)), (drawn(9, 70, 40), drawn(9, 40, 70))]
    try:
        found = []
        for threads in (1, 2, 3):
            set_num_threads(threads)
            found.append([a @ b for a, b in cases])
    finally:
        set_num_threads(before)
    assert all(flambeau.equal(x, y) for other in found[1:] for x, y in zip(found[0], other))


def test_what_is_not_finite_stays_in_its_row_and_column():
    for m, n, k in ((7, 17, 5), (3, 3, 4)):
        a, b = flambeau.ones(m, k, dtype=BF16), flambeau.ones(k, n, dtype=BF16)
        a[m - 1, k - 1] = math.inf
        b[0, n - 1] = math.nan
        found = a @ b
        assert found[m - 1, : n - 1].isinf().all() and found[:, n - 1].isnan().all()
        assert (found[: m - 1, : n - 1] == k).all()


def test_nothing_to_sum():
    assert (drawn(3, 0) @ drawn(0, 4)).tolist() == [[0.0] * 4] * 3
    assert (drawn(0, 3) @ drawn(3, 4)).shape == (0, 4) and (drawn(2, 3) @ drawn(3, 0)).shape == (2, 0)
    c = flambeau.ones(3, 4, dtype=BF16)
    assert flambeau.equal(flambeau.addmm(c, drawn(3, 0), drawn(0, 4)), c)


def test_a_long_vector_takes_no_room_many_times_its_size():
    """A column laid out as 16 would take 32 times its bytes."""
    a, b = flambeau.ones(1, 1 << 20, dtype=BF16), flambeau.full((1 << 20, 1), 2.0**-20, dtype=BF16)
    flambeau.cpu.reset_peak_memory_stats()
    before = flambeau.cpu.memory_allocated()
    assert (a @ b).item() == 1.0
    assert flambeau.cpu.max_memory_allocated() - before < 6 * (a.nbytes + b.nbytes)


def test_gradients():
    flambeau.manual_seed(0)
    a, b = (drawn(7, 33).requires_grad_(), drawn(33, 18).requires_grad_())
    g = drawn(7, 18)
    found = flambeau.autograd.grad(a @ b, (a, b), g)
    assert_rounded_once(found[0], g, b.detach().T)
    assert_rounded_once(found[1], a.detach().T, g)


def test_the_instruction_is_used_where_it_is():
    """The functions are compiled in this process, or found on disk, for every number of groups."""
    if not tiles.possible():
        assert "dpbf16ps" in tiles.text("tile", 4)
        return
    assert len({tiles.address(v) for v in range(1, tiles.VECTORS + 1)}) == tiles.VECTORS
