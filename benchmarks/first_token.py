"""From a file of safetensors to the first token, beside PyTorch: whole processes, the page cache warm.

    python benchmarks/first_token.py [--gigabytes 4] [--rounds 3] [--folder /dev/shm]     # a Markdown table

The file holds the weights of a decoder in the shape of Llama (`quantised.py`), in float32, with as many words as the size wants.  A
process makes the decoder on the meta device, loads the file with `assign=True` and computes the logits of one token; another way copies
into a decoder that has weights already.  Timed is what follows the import; `resident` is the process's peak of memory that is its own
(neither shared nor of the file).  PyTorch reads by the `safetensors` package, flambeau by itself.  The figures are the least of the
rounds, which take the libraries in turn.  Needs PyTorch and safetensors.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import quantised

WAYS = ("assigned", "copied")


def shape_of(gigabytes: float) -> quantised.Shape:
    """Llama's shape of a billion weights, its words so many that the file has that size."""
    base = quantised.SHAPES["llama"]
    block = 2 * base.dim**2 + 2 * base.dim * base.pairs * (base.dim // base.heads) + 3 * base.dim * base.inner
    fixed = 4 * base.blocks * block
    blocks = base.blocks if gigabytes * 1e9 > 1.05 * fixed else max(1, int(gigabytes * 0.7e9 / (4 * block)))
    words = int((gigabytes * 1e9 - 4 * blocks * block) / (8 * base.dim))
    return base._replace(blocks=blocks, words=words)


def files(name: str) -> Any:
    """The module that reads and writes safetensors for a library."""
    return importlib.import_module(
        "flambeau.utils.safetensors" if name == "flambeau" else "safetensors.torch"
    )


def own_peak() -> float:
    """Anonymous memory of this process now, in gigabytes; pages of files are not in it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1e6


def worker(name: str, way: str, path: str, shape: quantised.Shape) -> None:
    """Print the seconds from the file to the token, its logits' sum, and the memory that was needed."""
    t = importlib.import_module(name)
    reader = files(name)
    t.set_num_threads(1)
    with t.no_grad():
        if way == "copied":
            net = quantised.empty_decoder(t, shape, "cpu")
            began = time.perf_counter()
            net.load_state_dict(reader.load_file(path))
        else:
            began = time.perf_counter()
            net = quantised.empty_decoder(t, shape, "meta")
            net.load_state_dict(reader.load_file(path), assign=True)
        logits = net(t.tensor([[7]]))
        total = logits.double().sum().item()
        seconds = time.perf_counter() - began
    print(json.dumps([seconds, total, own_peak()]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    shape = shape_of(arguments.gigabytes)
    if arguments.worker:
        name, way, path = arguments.worker
        worker(name, way, path, shape)
        return
    import flambeau

    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = f"{folder}/weights.safetensors"
        files("flambeau").save_file(quantised.decoder(flambeau, shape).state_dict(), path)
        size = Path(path).stat().st_size
        best: dict[tuple[str, str], list[float]] = {}
        for _ in range(arguments.rounds):
            for way in WAYS:
                for name in ("flambeau", "torch"):
                    command = [sys.executable, __file__, "--gigabytes", str(arguments.gigabytes)]
                    said = subprocess.run(
                        [*command, "--worker", name, way, path], stdout=subprocess.PIPE, check=True
                    )
                    measured = json.loads(said.stdout)
                    known = best.setdefault((way, name), measured)
                    best[way, name] = min(known, measured)
    print(f"{size / 1e9:.2f} GB, one thread\n")
    print(
        "| weights | flambeau, s | PyTorch, s | ratio | flambeau, own GB | PyTorch, own GB |\n|---|---|---|---|---|---|"
    )
    for way in WAYS:
        ours, theirs = best[way, "flambeau"], best[way, "torch"]
        assert abs(ours[1] - theirs[1]) < 1e-2 * max(1.0, abs(ours[1])), "the logits differ"
        print(
            f"| {way} | {ours[0]:.3f} | {theirs[0]:.3f} | {theirs[0] / ours[0]:.2f} | {ours[2]:.2f} | {theirs[2]:.2f} |"
        )


if __name__ == "__main__":
    main()
