"""Other people's libraries on flambeau, under the drop-in, beside PyTorch: transformers, timm, skorch, and a program's start.

    python benchmarks/clients.py --pytorch /path/to/torch          # all, 1 thread, as a Markdown table
    python benchmarks/clients.py --pytorch /path/to/torch --threads 2 --cases gpt2 --rounds 9

Runs with an interpreter that has the libraries and neither PyTorch nor flambeau: `--pytorch` names the folder that PyTorch was
installed into (`pip install --target`), `--also` further folders for both.  A case runs in two processes, one a library, with the same
weights, whose rounds alternate; its time is the least round's, ratio = PyTorch's time / flambeau's.  The losses are those after the
last round.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CHILD = "--child"


# --- what runs in a child; each case gives a function that makes one step and returns a number ---------------------------------
def filled(module: Any) -> Any:
    sys.path.append(str(ROOT / "clients"))
    from harness import fill

    return fill(module)


def numbers(*shape: int) -> Any:
    import numpy as np
    import torch

    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def words(high: int, *shape: int) -> Any:
    import numpy as np
    import torch

    return torch.from_numpy(np.random.default_rng(0).integers(0, high, shape))


def gpt2(**sizes: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        **sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=None
    )
    return filled(GPT2LMHeadModel(config))


SMALL = {"vocab_size": 96, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
LARGE = {"vocab_size": 8192, "n_embd": 384, "n_layer": 6, "n_head": 6, "n_positions": 256}


def generate(sizes: dict[str, int], prompt: int, count: int) -> Callable[[], float]:
    model, start = gpt2(**sizes).eval(), words(sizes["vocab_size"], 1, prompt)

    def step() -> float:
        out = model.generate(
            start, max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0
        )
        return float(out.double().mean())

    return step


def train_words(sizes: dict[str, int], batch: int, length: int) -> Callable[[], float]:
    import torch

    model, batch_of = gpt2(**sizes).train(), words(sizes["vocab_size"], batch, length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> float:
        loss = model(input_ids=batch_of, labels=batch_of).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss)

    return step


def train_images(name: str, batch: int, side: int, **options: Any) -> Callable[[], float]:
    import timm.optim
    import torch

    model = filled(timm.create_model(name, num_classes=10, **options)).train()
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-4)
    images, labels = numbers(batch, 3, side, side), words(10, batch)

    def step() -> float:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss)

    return step


def fit() -> Callable[[], float]:
    import numpy as np
    import torch
    from sklearn.datasets import load_digits
    from skorch import NeuralNetClassifier

    x, y = load_digits(return_X_y=True)
    x, y = (x / 16).astype(np.float32), y.astype(np.int64)

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = filled(
                torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
            )

        def forward(self, x: Any) -> Any:
            return self.layers(x)

    def step() -> float:
        net = NeuralNetClassifier(
            Network,
            criterion=torch.nn.CrossEntropyLoss,
            optimizer=torch.optim.Adam,
            max_epochs=3,
            batch_size=64,
            iterator_train__shuffle=False,
            train_split=None,
            verbose=0,
        )
        net.fit(x, y)
        return float(net.history[-1, "train_loss"])

    return step


CASES: dict[str, Callable[[], Callable[[], float]]] = {
    "transformers, GPT-2 of 2 layers of 64: 20 words written after 8": lambda: generate(SMALL, 8, 20),
    "transformers, GPT-2 of 6 layers of 384: 20 words written after 32": lambda: generate(LARGE, 32, 20),
    "transformers, GPT-2 of 2 layers of 64: a step on 4 × 32 words": lambda: train_words(SMALL, 4, 32),
    "transformers, GPT-2 of 6 layers of 384: a step on 4 × 64 words": lambda: train_words(LARGE, 4, 64),
    "timm, vit_tiny: a step on 4 images of 224 × 224": lambda: train_images("vit_tiny_patch16_224", 4, 224),
    "timm, vit_tiny: a step on 8 images of 64 × 64": lambda: train_images(
        "vit_tiny_patch16_224", 8, 64, img_size=64
    ),
    "timm, resnet18: a step on 4 images of 224 × 224": lambda: train_images("resnet18", 4, 224),
    "timm, resnet18: a step on 8 images of 64 × 64": lambda: train_images("resnet18", 8, 64),
    "skorch, three epochs of scikit-learn's digits": fit,
}
START = "import torch; torch.ones(3).sum()"


def child(name: str) -> None:
    """Answers each line of its input with the seconds and the number of one step, as JSON."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    answers, sys.stdout = sys.stdout, sys.stderr
    import torch

    torch.manual_seed(0)
    step = CASES[name]()
    for _ in sys.stdin:
        began = time.perf_counter()
        number = step()
        print(json.dumps([time.perf_counter() - began, number]), file=answers, flush=True)


# --- the parent -------------------------------------------------------------------------------------------------------------
def environment(paths: list[str], threads: int) -> dict[str, str]:
    count = str(threads)
    return dict(
        os.environ, PYTHONPATH=os.pathsep.join(paths), OMP_NUM_THREADS=count, FLAMBEAU_NUM_THREADS=count
    )


def measure(name: str, sides: list[dict[str, str]], rounds: int) -> list[tuple[float, float]]:
    """Least seconds and last number on each side."""
    running = [
        subprocess.Popen(
            [sys.executable, __file__, CHILD, name],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for env in sides
    ]
    samples: list[list[tuple[float, float]]] = [[] for _ in sides]
    for _ in range(rounds + 2):  # two to warm up
        for process, runs in zip(running, samples):
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"{name}: a process ended with {process.wait()}")
            runs.append(tuple(json.loads(line)))
    for process in running:
        process.communicate()
    return [(min(seconds for seconds, _ in runs[2:]), runs[-1][1]) for runs in samples]


def start(sides: list[dict[str, str]], rounds: int) -> list[float]:
    """Least seconds of a process that imports the library and adds three numbers."""
    samples: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds + 1):
        for env, runs in zip(sides, samples):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", START], env=env, check=True)
            runs.append(time.perf_counter() - began)
    return [min(runs[1:]) for runs in samples]


def main() -> None:
    if sys.argv[1:2] == [CHILD]:
        child(sys.argv[2])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pytorch", required=True, help="the folder that PyTorch was installed into")
    parser.add_argument("--also", action="append", default=[], help="a folder of modules for both")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cases", default="", help="a pattern of names")
    options = parser.parse_args()
    ours = [str(ROOT / "dropin" / "src"), str(ROOT)]
    sides = [environment([*paths, *options.also], options.threads) for paths in ([options.pytorch], ours)]
    print("| case | PyTorch, ms | flambeau, ms | ratio | PyTorch's loss | flambeau's |")
    print("|---|---|---|---|---|---|")
    for name in CASES:
        if re.search(options.cases, name):
            (theirs, there), (mine, here) = measure(name, sides, options.rounds)
            print(
                f"| {name} | {1e3 * theirs:.1f} | {1e3 * mine:.1f} | {theirs / mine:.2f} | {there:.6g} | {here:.6g} |",
                flush=True,
            )
    if re.search(options.cases, START):
        theirs, mine = start(sides, options.rounds)
        print(f"| `{START}` | {1e3 * theirs:.0f} | {1e3 * mine:.0f} | {theirs / mine:.2f} | | |")


if __name__ == "__main__":
    main()
