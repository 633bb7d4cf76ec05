"""All modules of PyTorch's database, scripted: the same results, kept and read again, and by PyTorch.

PARITY=folder python tools/scripts_of_samples.py [--only REGEX] [--all]      # needs torch 2.13 beside flambeau

The folder has `opinfo.py` and `modules.py`.  Each module is scripted, saved and loaded; the results of the script and of what was
loaded are compared with those of the module, in eval mode by their values, else by their shapes and dtypes.  PyTorch loads the archive
and runs it.
"""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from typing import Any

import archives_on_torch as archives
from traces_of_samples import alike

import flambeau


def leaves(x: Any) -> list[Any]:
    """The tensors of a structure."""
    return archives.leaves(flambeau, x)


def check(net: Any, args: Any, kwargs: Any, training: bool) -> bytes:
    """Script, save and load a module; AssertionError where results differ.  The archive."""
    scripted = flambeau.jit.script(net)
    data = scripted.save_to_buffer()
    loaded = flambeau.jit.load(io.BytesIO(data)).train(training)
    wanted = leaves(net(*args, **kwargs))
    for what, program in (("the script", scripted), ("what is loaded", loaded)):
        results = leaves(program(*args, **kwargs))
        if training:
            same = [(t.shape, t.dtype) for t in results] == [(t.shape, t.dtype) for t in wanted]
        else:
            same = alike(results, wanted)
        assert same, f"{what} gives something else"
    return data


def main(torch: Any, only: str) -> int:
    """Print which modules are not scripted, or differ; how many."""
    import modules as database

    bridge = database.Arguments(flambeau)
    database.Arguments.remember(torch)
    whole = read = tried = 0
    for _, info in database.records():
        ours = getattr(flambeau.nn, info.module_cls.__name__, None)
        if (
            ours is None
            or torch.float32 not in info.supported_dtypes("cpu")
            or not re.search(only, info.name)
        ):
            continue
        wrong: list[str] = []
        refused: list[str] = []
        cases = 0
        for training in (True, False) if info.train_and_eval_differ else (True,):
            torch.manual_seed(0)
            options = dict(device="cpu", dtype=torch.float32, requires_grad=False, training=training)
            for case in info.module_inputs_func(info, **options)[:6]:
                c, f = case.constructor_input, case.forward_input
                try:
                    net = ours(*bridge.there(c.args), **bridge.there(c.kwargs)).train(training)
                    args, kwargs = bridge.there(f.args), bridge.there(f.kwargs)
                    net(*args, **kwargs)
                except Exception:  # noqa: BLE001  error inputs, and what PyTorch's modules alone take
                    continue
                cases += 1
                try:
                    data = check(net, args, kwargs, training and info.train_and_eval_differ)
                except Exception as error:  # noqa: BLE001  whatever goes wrong is what is counted
                    wrong.append(f"{type(error).__name__}: {error}")
                    continue
                try:
                    torch.jit.load(io.BytesIO(data))(*f.args, **f.kwargs)
                except Exception as error:  # noqa: BLE001
                    refused.append(str(error).strip().split("\n")[0])
        tried += cases > 0
        whole += cases > 0 and not wrong
        read += cases > 0 and not wrong and not refused
        for what, causes in (("differs", wrong), ("PyTorch does not run it", refused)):
            if causes:
                shown = causes[0] if "-v" in sys.argv else " ".join(causes[0].split())[:230]
                print(f"{info.name}: {what} in {len(causes)} of {cases} cases: {shown}", flush=True)
    print(
        f"{whole} of {tried} modules scripted, saved and loaded with the same results; {read} are run by PyTorch"
    )
    return tried - whole


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.path.insert(0, os.environ["PARITY"])
    import torch as oracle

    at = sys.argv.index("--only") if "--only" in sys.argv else 0
    sys.exit(bool(main(oracle, sys.argv[at + 1] if at else "")))
