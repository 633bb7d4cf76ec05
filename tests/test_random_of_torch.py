"""Random numbers beside those that PyTorch drew: `tools/random_on_torch.py --write` writes the file."""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau import backends

sys.path.insert(0, str(Path(__file__).parent / "core"))

from random_draws import DRAWS, OTHER_STATES, OTHERS, SEED  # noqa: E402

TOLERANCES = {
    "float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6, "float64": 1e-13, "complex64": 2e-6, "complex128": 1e-13,
}  # fmt: skip


@pytest.fixture(scope="module")
def kept():
    with np.load(Path(__file__).parent / "data" / "random_of_torch.npz") as file:
        index, values = json.loads(file["index"].tobytes()), file["values"].tobytes()
    found, at = {}, 0
    for name, kind, count, place in index:
        size = np.dtype(kind).itemsize * count
        found[name] = np.frombuffer(values[at : at + size], kind), place
        at += size
    return found


@pytest.fixture(autouse=True)
def pytorch_stream():
    before = backends.random.stream
    backends.random.stream = "pytorch"
    yield
    backends.random.stream = before


def array(made) -> np.ndarray:
    made = made.detach().contiguous()
    return (made.float() if made.dtype is flambeau.bfloat16 else made).numpy().reshape(-1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("draw", DRAWS, ids=lambda d: d.name)
def test_pytorchs_numbers(draw, kept):
    for dtype in draw.dtypes:
        name = f"{draw.name}|{dtype}"
        if name not in kept:  # PyTorch refuses
            continue
        wanted, place = kept[name]
        flambeau.manual_seed(SEED)
        made = array(draw.call(flambeau, getattr(flambeau, dtype)))[: len(wanted)]
        if name not in OTHER_STATES:
            assert zlib.crc32(flambeau.get_rng_state().numpy().tobytes()) == place, name
        assert made.dtype == wanted.dtype, name
        if name in OTHERS:
            continue
        if draw.exact or made.dtype.kind not in "fc":
            np.testing.assert_array_equal(made, wanted, err_msg=name)
        else:
            error = TOLERANCES[dtype] * (100 if draw.computed else 1)
            np.testing.assert_allclose(
                made, wanted, rtol=error, atol=error * np.abs(wanted).max(), err_msg=name
            )
