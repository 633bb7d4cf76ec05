"""Launches of three dimensions whose blocks share memory of a size that the launch says, on the accelerator of the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from flambeau.core.loops.launch import run_blocks

import flambeau

sys.path.insert(0, str(Path(__file__).parent))

from accelerator import DEVICE, TYPE  # noqa: E402
from grids import SIDE, Turned  # noqa: E402


@pytest.mark.parametrize("shape", [(1, SIDE, SIDE), (5, 3 * SIDE, 7 * SIDE), (2, 16 * SIDE, SIDE)])
def test_tiles_are_turned(shape):
    numbers = np.random.default_rng(0).integers(-(2**31), 2**31, shape, dtype=np.int32)
    given = flambeau.from_numpy(numbers).to(DEVICE)
    out = flambeau.zeros(shape[0], shape[2], shape[1], dtype=flambeau.int32, device=DEVICE)
    run_blocks(Turned(), (out, given), (shape[1], shape[2], shape[0]), ())
    np.testing.assert_array_equal(out.cpu().numpy(), numbers.transpose(0, 2, 1))


def test_nothing_is_launched_for_an_empty_batch():
    out = flambeau.full((1, SIDE, SIDE), 7, dtype=flambeau.int32, device=DEVICE)
    run_blocks(Turned(), (out, out), (SIDE, SIDE, 0), ())
    assert (out.cpu() == 7).all()


def test_a_grid_that_is_too_large_is_refused_before_it_is_launched():
    out = flambeau.full((1, SIDE, SIDE), 7, dtype=flambeau.int32, device=DEVICE)
    shape = (SIDE, SIDE, 1)
    wrong = Turned(threads=(1 << 20, 1, 1)), Turned(spare=1 << 40)
    messages = r"threads .* expected", r"a block shares \d+ bytes; at most \d+ expected"
    for kernel, message in zip(wrong, messages, strict=True):
        with pytest.raises(ValueError, match=message):
            run_blocks(kernel, (out, out), shape, ())
    if TYPE == "cuda":  # along y and z a grid has 65535 blocks, and a number of 64 bits is not cut
        for batch in (1 << 16, 1 << 32):
            with pytest.raises(ValueError, match=f"{batch} blocks of 2 threads along z; 1 to 65535 blocks"):
                run_blocks(Turned(), (out, out), (SIDE, SIDE, batch), ())
    assert (out.cpu() == 7).all()
