"""Masks of functions, and the blocks that they leave out, against NumPy."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from materialised import places

import flambeau
from flambeau.nn.attention.flex_attention import (
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)

CAUSAL = lambda b, h, q, k: q >= k
WINDOW = lambda b, h, q, k: abs(q - k) < 20
BY_HEAD = lambda b, h, q, k: k < 30 * h + 10 * b
MASKS = {"causal": CAUSAL, "window": WINDOW, "by head": BY_HEAD}


def in_blocks(mask, rows, columns):
    """Which blocks have something allowed, and which all: of blocks that reach over the edge none has."""
    B, H, L, S = mask.shape
    padded = np.zeros((B, H, -(-L // rows) * rows, -(-S // columns) * columns), bool)
    padded[:, :, :L, :S] = mask
    cut = padded.reshape(B, H, -1, rows, padded.shape[3] // columns, columns)
    return cut.any((3, 5)), cut.all((3, 5))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("block", [16, (8, 32), (100, 128)])
@pytest.mark.parametrize("separate", [True, False])
def test_lists(name, block, separate):
    made = create_block_mask(MASKS[name], 2, 3, 90, 70, BLOCK_SIZE=block, separate_full_blocks=separate)
    dense = np.broadcast_to(MASKS[name](*places((2, 3, 90, 70))), (2, 3, 90, 70))
    rows, columns = (block, block) if isinstance(block, int) else block
    some, every = in_blocks(dense, rows, columns)
    partial = some & ~every if separate else some
    pairs = [
        (made.kv_num_blocks, made.kv_indices, partial),
        (made.q_num_blocks, made.q_indices, partial.swapaxes(2, 3)),
    ]
    if separate:
        pairs.append((made.full_kv_num_blocks, made.full_kv_indices, every))
        pairs.append((made.full_q_num_blocks, made.full_q_indices, every.swapaxes(2, 3)))
    else:
        assert made.full_kv_num_blocks is None and made.full_q_indices is None
    for count, numbers, wanted in pairs:
        assert count.dtype is numbers.dtype is flambeau.int32
        np.testing.assert_array_equal(count.numpy(), wanted.sum(-1))
        for at in np.ndindex(wanted.shape[:3]):
            listed = numbers[at].tolist()
            assert listed[: wanted[at].sum()] == np.flatnonzero(wanted[at]).tolist()
            assert sorted(listed) == list(range(wanted.shape[3]))
    np.testing.assert_array_equal(made.to_dense().numpy(), some)
    assert made.shape == (2, 3, 90, 70) and made.numel() == 2 * 3 * 90 * 70
    assert made.sparsity() == pytest.approx(100 * (1 - some.sum() * rows * columns / made.numel()))


@pytest.mark.parametrize("name", MASKS)
def test_whole_masks(name):
    found = create_mask(MASKS[name], 2, 3, 9, 70)
    np.testing.assert_array_equal(
        found.numpy(), np.broadcast_to(MASKS[name](*places((2, 3, 9, 70))), found.shape)
    )


def test_a_score_as_a_mask():
    score = lambda s, b, h, q, k: flambeau.where(q >= k, s, -float("inf"))
    assert create_mask(score, None, None, 5, 7).equal(create_mask(CAUSAL, None, None, 5, 7))


def test_captured_tensors_make_masks():
    documents = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    held = flambeau.tensor(documents)
    mask = lambda b, h, q, k: held[q] == held[k]
    np.testing.assert_array_equal(
        create_mask(mask, 1, 1, 8, 8)[0, 0].numpy(), documents[:, None] == documents
    )
    dense = create_block_mask(mask, 1, 1, 8, 8, BLOCK_SIZE=2).to_dense()
    np.testing.assert_array_equal(
        dense.numpy(), in_blocks((documents[:, None] == documents)[None, None], 2, 2)[0]
    )
    with pytest.raises(IndexError, match="index 8 is out of bounds"):
        create_mask(mask, 1, 1, 9, 8)


def test_joined_masks():
    joined = create_mask(and_masks(CAUSAL, WINDOW), 1, 1, 50, 50)
    assert joined.equal(create_mask(CAUSAL, 1, 1, 50, 50) & create_mask(WINDOW, 1, 1, 50, 50))
    joined = create_mask(or_masks(CAUSAL, WINDOW), 1, 1, 50, 50)
    assert joined.equal(create_mask(CAUSAL, 1, 1, 50, 50) | create_mask(WINDOW, 1, 1, 50, 50))
    assert bool(create_mask(noop_mask, 1, 1, 3, 3).all())
    assert bool(create_mask(and_masks(), 1, 1, 3, 3).all()) and not bool(
        create_mask(or_masks(), 1, 1, 3, 3).any()
    )
    for join in (and_masks, or_masks):
        with pytest.raises(RuntimeError, match="callable mask_mods"):
            join(CAUSAL, 3)


def test_no_mask_is_made_whole():
    flambeau.cpu.reset_peak_memory_stats()
    before = flambeau.cpu.memory_allocated()
    create_block_mask(CAUSAL, None, None, 4096, 4096)
    assert flambeau.cpu.max_memory_allocated() - before < 4096 * 4096 / 100


def test_indexing_keeps_dimensions_and_drops_the_function():
    made = create_block_mask(BY_HEAD, 2, 3, 64, 64, BLOCK_SIZE=16)
    for index, shape in ((0, (1, 3, 4)), ((0, -1), (1, 1, 4)), ((slice(0, 2), 1, slice(1, 3)), (2, 1, 2))):
        cut = made[index]
        assert tuple(cut.kv_num_blocks.shape) == shape
    assert made[1, 2].kv_num_blocks.equal(made.kv_num_blocks[1:2, 2:3])
    assert made[1, 2].full_kv_indices.equal(made.full_kv_indices[1:2, 2:3])
    with pytest.raises(RuntimeError, match="sliced BlockMask"):
        create_mask(made[0].mask_mod, 1, 1, 4, 4)


@pytest.mark.parametrize("mask", [CAUSAL, WINDOW, lambda b, h, q, k: (k >= 96) | (k < 16)])
def test_adjusted_masks(mask):
    made = create_block_mask(mask, 1, 1, 128, 128, BLOCK_SIZE=16)._adjust(50, 70)
    assert made.shape == (1, 1, 50, 70) and made.mask_mod is mask
    fresh = create_block_mask(mask, 1, 1, 50, 70, BLOCK_SIZE=16)
    assert made.to_dense().equal(fresh.to_dense())
    x = flambeau.randn(1, 1, 70, 4)
    found, wanted = (flex_attention(x[:, :, :50], x, x, block_mask=m) for m in (made, fresh))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=1e-6)


def test_lists_given_by_hand():
    """Without a function, listed blocks are allowed whole."""
    count = flambeau.tensor([[[1, 2]]], dtype=flambeau.int32)
    numbers = flambeau.tensor([[[[1, 0], [0, 1]]]], dtype=flambeau.int32)
    made = BlockMask.from_kv_blocks(count, numbers, BLOCK_SIZE=4)
    assert made.seq_lengths == (8, 8) and made.BLOCK_SIZE == (4, 4) and made.mask_mod is noop_mask
    assert made.q_num_blocks.tolist() == [[[1, 2]]]
    x = flambeau.randn(1, 1, 8, 4)
    found = flex_attention(x, x, x, block_mask=made)
    first = flex_attention(x[:, :, :4], x[:, :, 4:], x[:, :, 4:])
    np.testing.assert_allclose(found[:, :, :4].numpy(), first.numpy(), atol=1e-6)
    assert made.as_tuple()[:2] == (8, 8) and len(made.as_tuple()) == 17
    assert made.as_tuple(flatten=False)[0] == (8, 8) and len(made.as_tuple(flatten=False)) == 15


def test_text():
    made = create_block_mask(CAUSAL, 1, 1, 48, 48, BLOCK_SIZE=16)
    assert str(made) == (
        "BlockMask(shape=(1, 1, 48, 48), sparsity=33.33%, \n(0, 0)\n██    \n████  \n██████\n)"
    )
    assert "kv_indices=flambeau.Size([1, 1, 3, 3])" in repr(made) and "mask_mod=<lambda>" in repr(made)
    many = create_block_mask(BY_HEAD, 2, 3, 64, 64, BLOCK_SIZE=16)
    assert "limit=N" in many.to_string(limit=2) and "limit=N" not in many.to_string(limit=6)
    assert "░░" in create_block_mask(CAUSAL, 1, 1, 64, 64, BLOCK_SIZE=2).to_string(grid_size=5)
    assert create_block_mask(CAUSAL, 1, 1, 64, 64, BLOCK_SIZE=2).to_string(grid_size=-1).count("\n") == 33


def test_copies_and_moves():
    made = create_block_mask(CAUSAL, 1, 1, 48, 48, BLOCK_SIZE=16)
    for other in (copy.deepcopy(made), made.to("cpu")):
        assert other.to_dense().equal(made.to_dense()) and other.mask_mod is CAUSAL
    assert made.to("meta").kv_indices.is_meta


ERRORS = {
    "one of a pair": (
        AssertionError,
        lambda x: BlockMask.from_kv_blocks(x[0], x, x[0]),
        "full_kv_num_blocks and full_kv_indices",
    ),
    "one dimension": (RuntimeError, lambda x: BlockMask.from_kv_blocks(x[0, 0, 0], x[0, 0, 0]), "at least 2"),
    "block size": (
        ValueError,
        lambda x: create_block_mask(CAUSAL, 1, 1, 4, 4, BLOCK_SIZE=0),
        "BLOCK_SIZE.*0",
    ),
    "no bools": (
        RuntimeError,
        lambda x: create_block_mask(lambda b, h, q, k: q - k, 1, 1, 4, 4),
        "mask_mod returned flambeau.int32: expected a tensor of dtype bool",
    ),
    "no function": (TypeError, lambda x: create_mask(3, 1, 1, 4, 4), "got int"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    error, call, text = ERRORS[case]
    with pytest.raises(error, match=text):
        call(flambeau.zeros(1, 1, 2, 2, dtype=flambeau.int32))
