"""Which results lie otherwise in memory than PyTorch's, which decides what `view` takes and which elements dropout drops.

python tools/layouts_on_torch.py [REGEX]     # beside PyTorch; each line: operation, shape, strides there, strides here

Each sample input of PyTorch's own operator records is laid out transposed, channels last and with gaps.
"""

from __future__ import annotations

import itertools
import re
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

import flambeau

SAMPLES = 12


def laid_out(t: torch.Tensor, layout: str) -> torch.Tensor:
    """The same elements in another order in memory."""
    if t.dim() < 2 or t.numel() == 0:
        return t.detach().clone()
    if layout == "sliced":
        buffer = torch.zeros(*t.shape[:-1], 2 * t.shape[-1], dtype=t.dtype)
        buffer[..., ::2] = t
        return buffer[..., ::2]
    if layout == "channels last" and t.dim() in (4, 5):
        return t.contiguous(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)
    return t.permute(*range(t.dim() - 1, -1, -1)).contiguous().permute(*range(t.dim() - 1, -1, -1))


def here(x, made):
    """An argument of PyTorch's as one of ours; `made` maps tensors."""
    if isinstance(x, torch.Tensor):
        return made(x)
    if isinstance(x, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(flambeau, str(x).removeprefix("torch."))
    if isinstance(x, torch.device):
        return flambeau.device(str(x))
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(here(v, made) for v in x)
    if isinstance(x, dict):
        return {k: here(v, made) for k, v in x.items()}
    return x


def carried(t: torch.Tensor):
    span = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) if t.numel() else 0
    buffer = flambeau.zeros(span, dtype=getattr(flambeau, str(t.dtype).removeprefix("torch.")))
    view = buffer.as_strided(tuple(t.shape), t.stride())
    view.copy_(flambeau.from_numpy(t.contiguous().numpy()))
    return view


def tensors(result, kind) -> list:
    if isinstance(result, kind):
        return [result]
    return [t for r in result for t in tensors(r, kind)] if isinstance(result, (tuple, list)) else []


def order(t) -> tuple:
    return tuple(s if n != 1 else 0 for n, s in zip(t.shape, t.stride(), strict=True)) if t.numel() else ()


def differences(op) -> list[str]:
    """What differs, a line each; a sample that either library refuses is left out."""
    function = flambeau
    for part in op.name.split("."):
        function = getattr(function, part, None)
    if function is None:
        return []
    by_kind: dict[str, str] = {}
    try:
        samples = list(itertools.islice(op.sample_inputs("cpu", torch.float32), SAMPLES))
    except Exception:  # noqa: BLE001 - records of other devices and dtypes
        return []
    for sample in samples:
        for layout in ("transposed", "channels last", "sliced"):

            def of(x, layout=layout):
                return laid_out(x, layout) if isinstance(x, torch.Tensor) else (
                    type(x)(of(v) for v in x) if isinstance(x, (list, tuple)) and not hasattr(x, "_fields") else x)  # fmt: skip

            try:
                args = [of(sample.input), *map(of, sample.args)]
                kwargs = {k: of(v) for k, v in sample.kwargs.items()}
                ours = function(*[here(a, carried) for a in args], **here(kwargs, carried))
                theirs = op.op(*args, **kwargs)
            except Exception:  # noqa: BLE001 - each refuses what it likes; here only layouts count
                continue
            for a, b in zip(tensors(theirs, torch.Tensor), tensors(ours, flambeau.Tensor), strict=False):
                if tuple(a.shape) == tuple(b.shape) and order(a) != order(b):
                    by_kind.setdefault(
                        layout,
                        f"{op.name}: {layout}, {tuple(a.shape)}: {a.stride()} there, {b.stride()} here",
                    )
    return list(by_kind.values())


def main(pattern: str = "") -> None:
    """Print all differences of the operations whose name matches."""
    warnings.simplefilter("ignore")
    for op in op_db:
        if re.search(pattern, op.name):
            for line in differences(op):
                print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
