"""Philox and its generators."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections import Counter

import numpy as np
import pytest

import flambeau
from flambeau.core.make import random


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [  # the known answers of Random123 (Salmon et al., SC 2011) for philox4x32 10, file kat_vectors
        (0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (2**64 - 1, 2**128 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            0x299F31D0A4093822,
            0x0370734413198A2E85A308D3243F6A88,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(key, counter, words):
    assert random._philox(key, counter) == words


def test_reserving_and_host_words():
    g = flambeau.Generator().manual_seed(7)
    assert random._reserve(g, 5) == (7, 0)
    assert random._reserve(g, 1) == (7, 5)
    assert random._host_uint32(g, 6) == [*random._philox(7, 6), *random._philox(7, 7)[:2]]
    assert random._reserve(g, 0) == (7, 8)  # whole counters are used up


def test_seeds():
    g = flambeau.Generator()
    assert g.manual_seed(3) is g and g.initial_seed() == 3
    assert g.manual_seed(-1).initial_seed() == 2**64 - 1
    assert g.manual_seed(np.int64(5)).initial_seed() == 5
    assert g.seed() == g.initial_seed() != 5
    for wrong in (2**64, -(2**63) - 1):
        with pytest.raises(RuntimeError, match="a seed must lie in"):
            g.manual_seed(wrong)
    assert flambeau.manual_seed(11) is flambeau.default_generator
    assert flambeau.initial_seed() == 11
    assert str(g.device) == "cpu"


def test_states():
    g = flambeau.Generator().manual_seed(2**63 + 9)
    flambeau.randperm(100, generator=g)
    state = g.get_state()
    assert state.dtype is flambeau.uint8 and state.shape == (16,)
    first = flambeau.randperm(50, generator=g).tolist()
    for twin in (flambeau.Generator().set_state(state), g.set_state(state).clone_state()):
        assert flambeau.randperm(50, generator=twin).tolist() == first
    g.set_state(state)
    assert flambeau.randperm(50, generator=pickle.loads(pickle.dumps(g))).tolist() == first
    assert flambeau.randperm(50, generator=copy.deepcopy(g)).tolist() == first
    with pytest.raises(TypeError, match="must be a uint8 Tensor"):
        g.set_state(flambeau.zeros(16))
    with pytest.raises(RuntimeError, match=r"shape \[16\]"):
        g.set_state(flambeau.zeros(3, dtype=flambeau.uint8))


def test_the_default_generator_has_a_state():
    flambeau.manual_seed(1)
    state = flambeau.get_rng_state()
    first = flambeau.randperm(20).tolist()
    flambeau.set_rng_state(state)
    assert flambeau.randperm(20).tolist() == first
    assert flambeau.randperm(20).tolist() != first


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
)
def test_randperm_permutes(dtype):
    for n in (0, 1, 2, 17, 128):
        t = flambeau.randperm(n, dtype=getattr(flambeau, dtype))
        assert t.dtype is getattr(flambeau, dtype)
        np.testing.assert_array_equal(np.sort(t.numpy()), np.arange(n, dtype=dtype))


def test_randperm_is_the_same_in_every_dtype():
    orders = [
        flambeau.randperm(
            90, generator=flambeau.Generator().manual_seed(4), dtype=getattr(flambeau, d)
        ).tolist()
        for d in ("int8", "int32", "int64", "float64")
    ]
    assert all(order == orders[0] for order in orders)


def test_randperm_gives_each_order_alike():
    g = flambeau.Generator().manual_seed(0)
    n = 24000
    seen = Counter(tuple(flambeau.randperm(4, generator=g).tolist()) for _ in range(n))
    assert set(seen) == set(itertools.permutations(range(4)))
    chi = sum((count - n / 24) ** 2 / (n / 24) for count in seen.values())
    assert chi < 49.7  # 23 degrees of freedom, one in a thousand


@pytest.mark.parametrize(
    ("args", "options", "error"),
    [
        ((-1,), {}, RuntimeError),
        ((2.0,), {}, TypeError),
        ((257,), {"dtype": "uint8"}, RuntimeError),
        ((129,), {"dtype": "int8"}, RuntimeError),
        ((2050,), {"dtype": "float16"}, RuntimeError),
        ((2,), {"dtype": "bool"}, NotImplementedError),
        ((2,), {"generator": 3}, TypeError),
        ((2**40,), {}, RuntimeError),
    ],
)
def test_randperm_refuses(args, options, error):
    if "dtype" in options:
        options = {"dtype": getattr(flambeau, options["dtype"])}
    with pytest.raises(error, match="randperm"):
        flambeau.randperm(*args, **options)


def test_randperm_into_out():
    out = flambeau.empty(0, dtype=flambeau.int32)
    assert flambeau.randperm(8, out=out) is out and sorted(out.tolist()) == list(range(8))
