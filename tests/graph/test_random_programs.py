"""Random programs give the numbers of eager calls when planned; `random_programs.py` tries more of them."""

from __future__ import annotations

import pytest
from random_programs import difference


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_fused(first):
    assert [d for seed in range(first, first + 10) if (d := difference(seed, True))] == []


@pytest.mark.parametrize("first", range(1000, 1100, 20))
def test_each_call_by_itself_has_the_bits_of_eager(first):
    assert [d for seed in range(first, first + 20) if (d := difference(seed, False))] == []
