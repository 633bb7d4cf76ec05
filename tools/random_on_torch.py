"""Random numbers beside PyTorch's, element by element: a table of draws and dtypes, and `tests/data/random_of_torch.npz`.

python tools/random_on_torch.py [--only REGEX] [--write]     # needs PyTorch beside flambeau

Each draw of `tests/core/random_draws.py` runs twice from one seed: equal, how many units in the last place apart (of the largest
element where numbers were computed with), or "not"; and whether the generators stand at the same place afterwards.  `--write` writes
PyTorch's results, which the repository's tests compare with.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import zlib
from pathlib import Path

os.environ["FLAMBEAU_RANDOM"] = "pytorch"
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "core")]

import numpy as np  # noqa: E402
import random_draws  # noqa: E402
import torch  # noqa: E402

import flambeau  # noqa: E402

OTHERS = random_draws.OTHERS
LEADING = 40  # elements of each result that are written; the state afterwards tells of the others
TABLE = ROOT / "tests" / "data" / "random_of_torch.npz"


def plain(t) -> np.ndarray:
    """As NumPy's array; bfloat16 as float32."""
    t = t.detach().contiguous()
    if str(t.dtype).endswith("bfloat16"):
        return t.float().numpy()
    return t.numpy()


def run(library, draw, dtype: str):
    library.manual_seed(random_draws.SEED)
    made = plain(draw.call(library, getattr(library, dtype)))
    return made, library.get_rng_state().numpy().tobytes()


def exchanged(here: bytes, there: bytes) -> bool:
    """Whether each library continues from the other's state as that one does: a waiting normal number, then words."""
    drawn = []
    for library, state in ((torch, here), (flambeau, here), (flambeau, there), (torch, there)):
        library.set_rng_state(library.tensor(list(state), dtype=library.uint8))
        drawn.append([*library.randn(3).tolist(), *library.rand(700).tolist()])
    return drawn[0] == drawn[1] and drawn[2] == drawn[3]


def distance(a: np.ndarray, b: np.ndarray, dtype: str, computed: bool) -> float:
    """Units in the last place between elements, 0 for equal ones; inf where they are of other numbers."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.inf
    if a.dtype.kind not in "fc":
        return 0.0 if np.array_equal(a, b) else np.inf
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    step = 2.0**-7 if dtype == "bfloat16" else np.finfo(a.dtype).eps
    size = np.abs(b).max() if computed else np.maximum(np.abs(a), np.abs(b))[~same].astype(np.float64)
    unit = step * 2.0 ** np.floor(np.log2(size))
    return float((np.abs(a.astype(np.complex128) - b)[~same] / unit).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    results: list[tuple[str, str, int, int]] = []
    values: list[bytes] = []
    counts = {"equal": 0, "close": 0, "not": 0, "states": 0, "exchanged": 0, "all": 0}
    for draw in random_draws.DRAWS:
        if not re.search(options.only, draw.name):
            continue
        row = []
        for dtype in draw.dtypes:
            try:
                theirs, place = run(torch, draw, dtype)
            except (RuntimeError, NotImplementedError) as error:
                row.append(f"{dtype}: PyTorch refuses ({str(error).splitlines()[0][:50]})")
                continue
            try:
                ours, here = run(flambeau, draw, dtype)
            except Exception as error:
                row.append(f"{dtype}: not, {type(error).__name__}: {str(error).splitlines()[0][:60]}")
                counts["not"] += 1
                counts["all"] += 1
                continue
            apart = distance(ours, theirs, dtype, draw.computed)
            said = "equal" if apart == 0 else f"{apart:.1f} ulp" if apart < 1000 else "not"
            said += f" ({OTHERS[key]})" if said == "not" and (key := f"{draw.name}|{dtype}") in OTHERS else ""
            counts["equal" if apart == 0 else "close" if apart < 1000 else "not"] += 1
            counts["states"] += here == place
            counts["exchanged"] += exchanged(here, place)
            counts["all"] += 1
            row.append(f"{dtype}: {said}" + ("" if here == place else ", another state"))
            leading = theirs.reshape(-1)[:LEADING]
            results.append((f"{draw.name}|{dtype}", leading.dtype.str, len(leading), zlib.crc32(place)))
            values.append(leading.tobytes())
        print(f"{draw.name:34} {'; '.join(row)}", flush=True)
    print(counts)
    if options.write:
        index = json.dumps(results).encode()
        np.savez_compressed(
            TABLE, index=np.frombuffer(index, np.uint8), values=np.frombuffer(b"".join(values), np.uint8)
        )


if __name__ == "__main__":
    main()
