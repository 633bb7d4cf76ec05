"""Random programs as libraries, on other numbers than recorded.

python tests/graph/native/test_random_libraries.py [--programs N] [--seed N]
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.graph.native.capturing import Taken, give_each_its_memory, refuse_writes
from flambeau.graph.native.library import Export
from flambeau.graph.program import Program
from flambeau.graph.trace import record

sys.path.insert(0, str(Path(__file__).parents[1]))
from random_programs import LARGER, SHAPES, Body, alike


def made_of(seed: int, shapes: Any, folder: Path) -> tuple[Any, Body] | None:
    """The library of a program; None for one that no library is made of, since it writes to an argument or has another step."""
    body = Body(seed, shapes)
    inputs = body.inputs(seed)
    with torch.no_grad():
        graph, _ = record(body, *inputs)
    give_each_its_memory(graph)
    program = Program(graph)
    try:
        refuse_writes("a test", program, [])
        taken = Taken(program, list(program.inputs), inputs, {}, [])
        return Export("net", taken).written(folder / f"net{seed}.so"), body
    except NotImplementedError:
        return None
    except RuntimeError as error:
        if "writes to" not in str(error):
            raise
        return None


def pointers(tensors: list[Any]) -> Any:
    return (ctypes.c_void_p * max(len(tensors), 1))(*[t.data_ptr() for t in tensors])


def difference(seed: int, shapes: Any, folder: Path) -> str | None:
    """What is wrong with one program's library; None for nothing, "none" where there is none."""
    found = made_of(seed, shapes, folder)
    if found is None:
        return "none"
    made, body = found
    library = ctypes.CDLL(str(made.library))
    if made.weights is not None:
        assert library.net_load(str(made.weights).encode()) == 0
    given = [t.contiguous() for t in body.inputs(seed + 1)]
    with torch.no_grad():
        wanted = body(*[t.clone() for t in given])
    results = [torch.full(t.shape, 7, dtype=t.dtype) for t in wanted]
    held = torch.full((made.workspace + 64,), 0xA5, dtype=torch.uint8)
    room = ctypes.c_void_p((held.data_ptr() + 63) // 64 * 64)
    code = library.net_run(pointers(given), pointers(results), room)
    wrong = [k for k, (a, b) in enumerate(zip(results, wanted, strict=True)) if not alike(a, b, False)]
    return f"seed {seed}: code {code}, results {wrong}" if code or wrong else None


@pytest.mark.parametrize("shapes", [SHAPES, LARGER], ids=["small", "larger"])
def test_random_programs(shapes, tmp_path):
    seeds = np.random.default_rng(4).integers(0, 1 << 20, 24)
    found = [difference(int(seed), shapes, tmp_path) for seed in seeds]
    assert [d for d in found if d not in (None, "none")] == []
    assert found.count(None) >= 6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    libraries = 0
    for seed in range(arguments.seed, arguments.seed + arguments.programs):
        for shapes in (SHAPES, LARGER):
            with tempfile.TemporaryDirectory() as folder:
                found = difference(seed, shapes, Path(folder))
            libraries += found is None
            if found not in (None, "none"):
                print(found, flush=True)
    print(f"{libraries} libraries")


if __name__ == "__main__":
    main()
