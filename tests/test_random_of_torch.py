"""Random numbers beside those that PyTorch drew: `tools/random_on_torch.py --write` writes the file."""

from __future__ import annotations

import json
import os
import subprocess
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


class Own:
    """A dataset of what its workers draw, which travels to another process."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> float:
        return float(flambeau.rand(()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_draw_the_loaders_stream(method):
    flambeau.manual_seed(5)
    loader = flambeau.utils.data.DataLoader(Own(), num_workers=1, multiprocessing_context=method)
    drawn = [float(x) for x in loader]
    flambeau.manual_seed(5)
    seed = flambeau.empty((), dtype=flambeau.int64).random_().item()
    g = flambeau.Generator().manual_seed(seed)
    assert drawn == [float(flambeau.rand((), generator=g)) for _ in range(4)]


def test_categories_of_nothing():
    chosen = flambeau.distributions.Categorical(flambeau.ones(3))
    assert chosen.sample((0, 2)).shape == (0, 2)
    assert flambeau.distributions.OneHotCategorical(flambeau.ones(2, 3)).sample((0,)).shape == (0, 2, 3)
    assert flambeau.distributions.Multinomial(0, flambeau.ones(3)).sample((2,)).tolist() == [[0, 0, 0]] * 2
    with pytest.raises(RuntimeError, match="no category"):
        flambeau.distributions.Categorical(flambeau.zeros(2, 0), validate_args=False).sample()


DROPIN = """
import torch
torch.manual_seed(0)
print(torch.backends.random.stream, torch.rand(2).tolist(), len(torch.get_rng_state()))
"""


@pytest.mark.parametrize(("chosen", "stream", "bytes_"), [("", "pytorch", 5056), ("philox", "philox", 16)])
def test_import_torch_draws_pytorchs_stream(chosen, stream, bytes_, tmp_path):
    (tmp_path / "program.py").write_text(DROPIN)
    environment = {**os.environ, "FLAMBEAU_RANDOM": chosen}
    command = [sys.executable, "-m", "flambeau.torch", str(tmp_path / "program.py")]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert said.startswith(stream) and said.strip().endswith(str(bytes_))
    assert (said == f"pytorch {[0.49625658988952637, 0.7682217955589294]} 5056\n") == (stream == "pytorch")


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
