"""Exported programs that `export.save` writes here, read by PyTorch, and the other way round: the same values?

python tools/exported_on_torch.py [--check]      # needs torch 2.13 beside flambeau
python tools/exported_on_torch.py --operations [--only REGEX] [-v]
python tools/exported_on_torch.py --back [--only REGEX] [-v]

The programs of `exported_of_torch.py` are exported and saved here (`import torch` means flambeau in that process, by `dropin`), loaded by
PyTorch, and run on the same arguments.  With `--check` the exit status is 1 where one differs.  `--operations` does the same with PyTorch's
own samples of every operation (needs `opinfo.py` in the folder PARITY); `--back` has PyTorch export them, and reads its archives here.
"""

from __future__ import annotations

import io
import itertools
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from archives_on_torch import caller, leaves

import flambeau

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = 3  # of each operation


def restored(torch: Any, shape: Any, arrays: Any, k: int, numbers: Any) -> Any:
    """Arguments as the file beside an archive describes them."""
    if shape == "tensor":
        return torch.from_numpy(arrays[f"in{k}.{next(numbers)}"].copy())
    if isinstance(shape, dict):
        return {name: restored(torch, v, arrays, k, numbers) for name, v in shape.items()}
    return tuple(restored(torch, v, arrays, k, numbers) for v in shape) if isinstance(shape, list) else shape


def networks(torch: Any) -> int:
    """Print for each program that is exported here whether PyTorch computes the same of it; how many differ."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, PYTHONPATH=f"{ROOT / 'dropin' / 'src'}{os.pathsep}{ROOT}")
        tool = [
            sys.executable,
            "-W",
            "ignore",
            str(ROOT / "tools" / "exported_of_torch.py"),
            folder,
            "keep going",
        ]
        print(subprocess.run(tool, env=env, text=True, stdout=subprocess.PIPE, check=True).stdout, end="")
        for path in sorted(Path(folder).glob("*.pt2")):
            try:
                with np.load(path.with_suffix(".npz")) as arrays:
                    compare(torch, path, dict(arrays))
                print(f"{path.stem}: PyTorch computes the same")
            except Exception as error:  # noqa: BLE001
                wrong += 1
                print(f"{path.stem}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
    return wrong


def compare(torch: Any, path: Path, arrays: dict[str, Any]) -> None:
    """The results of all calls of a program; an AssertionError where PyTorch's are others."""
    module = torch.export.load(path).module()
    for k in itertools.count():
        if f"given{k}" not in arrays:
            return
        args, kwargs = restored(torch, json.loads(str(arrays[f"given{k}"])), arrays, k, itertools.count())
        with torch.no_grad():
            results = leaves(torch, module(*args, **kwargs))
        for i, t in enumerate(results):
            tolerance = 2e-2 if path.stem in ("half", "bfloat16") else 1e-4
            np.testing.assert_allclose(t.detach().numpy(), arrays[f"out{k}.{i}"], rtol=tolerance, atol=1e-5)


def samples(torch: Any, only: str) -> Any:
    """Operations with samples of their arguments: name, function there and here, arguments and keyword arguments."""
    import opinfo

    for _, op in opinfo.public_ops():
        name = opinfo.label(op)
        floats = torch.float32 in op.supported_dtypes("cpu")
        if not re.search(only, name) or opinfo.VALUES_FREE.match(op.name) or not floats:
            continue
        known = list(op.sample_inputs("cpu", torch.float32))
        adapt = opinfo.ADAPTED.get(name) or opinfo.ADAPTED.get(op.name)
        ours = adapt(flambeau) if adapt else opinfo.resolve(flambeau, op.name)
        yield (
            name,
            op.op,
            ours,
            [((s.input, *s.args), s.kwargs) for s in known[:: max(1, len(known) // SAMPLES)]],
        )


def module_of(torch: Any, function: Callable[..., Any]) -> Any:
    """A module that calls a function."""

    class Calling(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    return Calling()


def operations(torch: Any, only: str, verbose: bool, back: bool) -> None:
    """Print for how many operations the archives of all samples give the same values in the other library."""
    import opinfo

    one, other = (torch, flambeau) if back else (flambeau, torch)
    bridge, whole, tried = opinfo.Bridge(flambeau), 0, 0
    for name, theirs, ours, known in samples(torch, only):
        function = theirs if back else ours
        if function is None:
            continue
        wrong: list[str] = []
        count = 0
        for args, kwargs in known:
            tensors = [t.detach() for t in leaves(torch, (args, kwargs))]
            try:
                mine = tuple(converted(one, t) for t in tensors)
                whose = (args, kwargs) if back else (bridge.there(args), bridge.there(kwargs))
                called = caller(function, *whose, one)
                wanted = leaves(one, called(*[t.clone() for t in mine]))
                program = one.export.export(module_of(one, called), mine)
                file = io.BytesIO()
                one.export.save(program, file)
            except Exception as error:  # noqa: BLE001  PyTorch refuses
                if not back:
                    count += 1
                    wrong.append(f"export: {' '.join(str(error).split())[:200]}")
                continue
            count += 1
            file.seek(0)
            try:
                results = leaves(
                    other, other.export.load(file).module()(*[converted(other, t) for t in tensors])
                )
                assert len(results) == len(wanted), f"{len(results)} tensors, {len(wanted)} there"
                for a, b in zip(results, wanted):
                    x, y = (t.detach().resolve_conj().resolve_neg().numpy() for t in (a, b))
                    assert x.dtype == y.dtype, f"{x.dtype} is not {y.dtype}"
                    np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3, equal_nan=True)
            except Exception as error:  # noqa: BLE001
                wrong.append(" ".join(str(error).split())[-200:])
        tried += count > 0
        whole += count > 0 and not wrong
        if wrong and verbose:
            print(f"{name}: {len(wrong)} of {count}: {wrong[0]}", flush=True)
    print(f"{whole} of {tried} operations: archives of all samples give the same values in the other library")


def converted(lib: Any, t: Any) -> Any:
    """A tensor of PyTorch's as one of a library's."""
    return t.clone() if lib.__name__ == "torch" else flambeau.from_numpy(t.resolve_conj().numpy().copy())


def main() -> int:
    import torch

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    options = sys.argv[1:]
    only = options[options.index("--only") + 1] if "--only" in options else ""
    if "--operations" in options or "--back" in options:
        sys.path.insert(0, os.environ.get("PARITY", "parity"))
        operations(torch, only, "-v" in options, "--back" in options)
        return 0
    wrong = networks(torch)
    print(f"{wrong} differ")
    return int(bool(wrong) and "--check" in options)


if __name__ == "__main__":
    sys.exit(main())
