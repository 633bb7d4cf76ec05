"""Archives that `jit.save` writes here, read by PyTorch: the same values?

python tools/archives_on_torch.py [--check]      # needs torch 2.13 beside flambeau
python tools/archives_on_torch.py --operations [--only REGEX] [-v]
python tools/archives_on_torch.py --back [--only REGEX] [-v]

Networks are traced here on examples, saved, loaded by PyTorch, and run on inputs of other sizes.  With `--check` the exit status is 1
where one differs.  `--operations` does the same with PyTorch's own samples of every operation (needs `opinfo.py` in the folder PARITY), and
prints how many archives PyTorch reads with the same values; `--back` has PyTorch trace the samples, and reads its archives here.  What ATen
does not have stands in an archive under `ops.flambeau`, which PyTorch refuses by that name.
"""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau
from flambeau import nn

F = nn.functional


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(3, 4)

    def forward(self, x):
        out, last = self.rnn(x)
        return out.relu(), last


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.bag = nn.Embedding(7, 4), nn.EmbeddingBag(7, 4, mode="mean")

    def forward(self, x):
        return self.table(x).sum(1) + self.bag(x.flatten(), flambeau.arange(x.shape[0]) * 3)


class Pieces(nn.Module):
    """Sizes that are read, indices, lists and dictionaries."""

    def forward(self, x, extra):
        n, c = x.shape[0], x.size(1)
        y = x.reshape(n, c // 2, 2, -1).transpose(1, 2).reshape(n, -1) + torch_arange(n)[:, None]
        y[:, 0] = extra["bias"]
        first, second = x.chunk(2, 1)
        return {"y": y[..., 1:], "sum": first + second}, [x[x.shape[0] - 1], x.new_zeros(n, 2)]


def torch_arange(n: Any) -> Any:
    return flambeau.arange(n)


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight
        self.register_buffer("steps", flambeau.ones(3))

    def forward(self, x):
        return self.b(self.a(x).sin()) + self.steps * x.mean()


Case = tuple[Callable[[], Any], Callable[[int], Any]]


def cases() -> dict[str, Case]:
    """A network, and inputs for a number that sets their sizes."""
    r = flambeau.randn
    conv = lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 3),
        nn.LogSoftmax(1),
    )
    return {
        "mlp": (
            lambda: nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 2)).eval(),
            lambda n: (r(n, 3),),
        ),
        "convolutions": (lambda: conv().eval(), lambda n: (r(n, 1, 4, 4),)),
        "training": (conv, lambda n: (r(n, 1, 4, 4),)),
        "lstm": (Lstm, lambda n: (r(n, 5, 3),)),
        "gru": (Gru, lambda n: (r(5, n, 3),)),
        "words": (Words, lambda n: (flambeau.randint(0, 7, (n, 3)),)),
        "pieces": (Pieces, lambda n: (r(n, 4, 3), {"bias": r(n)})),
        "shared": (Shared, lambda n: (r(n, 3),)),
        "encoder": (
            lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(),
            lambda n: (r(n, 3, 8),),
        ),
        "attention": (
            lambda: nn.MultiheadAttention(8, 2, batch_first=True),
            lambda n: (r(n, 3, 8), r(n, 4, 8), r(n, 4, 8)),
        ),
        "transposed": (
            lambda: nn.Sequential(nn.ConvTranspose2d(2, 3, 2), nn.PReLU(), nn.AvgPool2d(2)),
            lambda n: (r(n, 2, 3, 3),),
        ),
        "norms": (
            lambda: nn.Sequential(nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.Softplus()),
            lambda n: (r(n, 4, 4),),
        ),
        "half": (lambda: nn.Linear(3, 2).half(), lambda n: (r(n, 3).half(),)),
        "bfloat16": (lambda: nn.Linear(3, 2).bfloat16(), lambda n: (r(n, 3).bfloat16(),)),
    }


def leaves(lib: Any, x: Any) -> list[Any]:
    """The tensors of a structure, in order."""
    if isinstance(x, lib.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for v in x for t in leaves(lib, v)] if isinstance(x, (list, tuple)) else []


def there(torch: Any, x: Any) -> Any:
    """A structure with PyTorch's tensors."""
    if isinstance(x, flambeau.Tensor):
        if x.dtype == flambeau.bfloat16:
            return torch.from_numpy(x.float().numpy().copy()).bfloat16()
        return torch.from_numpy(x.detach().numpy().copy())
    if isinstance(x, dict):
        return {k: there(torch, v) for k, v in x.items()}
    return type(x)(there(torch, v) for v in x) if isinstance(x, (list, tuple)) else x


def compare(torch: Any, program: Any, inputs: tuple[Any, ...], tolerance: float) -> None:
    """AssertionError where PyTorch's run of an archive gives other values; RuntimeError where it does not read it."""
    file = io.BytesIO(program.save_to_buffer())
    loaded = torch.jit.load(file)
    args = there(torch, inputs)
    loaded_leaves, wanted = leaves(torch, loaded(*args)), leaves(flambeau, program(*inputs))
    assert len(loaded_leaves) == len(wanted), f"{len(loaded_leaves)} tensors, {len(wanted)} here"
    for a, b in zip(loaded_leaves, wanted):
        assert str(a.dtype).rpartition(".")[2] == b.dtype.name, f"{a.dtype} is not {b.dtype}"
        a = a.detach().float() if a.dtype == torch.bfloat16 else a.detach()
        b = b.detach().float() if b.dtype == flambeau.bfloat16 else b.detach()
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance, equal_nan=True)


def networks(torch: Any) -> int:
    """Print each network; how many differ."""
    wrong = 0
    for name, (make, inputs) in cases().items():
        flambeau.manual_seed(0)
        try:
            net = make()
            traced = flambeau.jit.trace(net, inputs(2), strict=False)
            for n in (2, 3, 5):
                compare(torch, traced, inputs(n), 1e-2 if name in ("half", "bfloat16") else 1e-4)
        except (AssertionError, RuntimeError) as error:
            wrong += 1
            print(f"{name}: {' '.join(str(error).split())[:300]}")
        else:
            print(f"{name}: the same")
    print(f"{len(cases()) - wrong} of {len(cases())} networks")
    return wrong


def back(torch: Any, only: str, verbose: bool) -> None:
    """Print for how many operations the archives that PyTorch traced of all samples give the same values here."""
    sys.path.insert(0, os.environ.get("PARITY", "parity"))
    import opinfo

    whole = tried = 0
    for _, op in opinfo.public_ops():
        name = opinfo.label(op)
        if (
            not re.search(only, name)
            or opinfo.VALUES_FREE.match(op.name)
            or torch.float32 not in op.supported_dtypes("cpu")
        ):
            continue
        samples = list(op.sample_inputs("cpu", torch.float32))
        wrong: list[str] = []
        count = 0
        for sample in samples[:: max(1, len(samples) // 4)]:
            args, kwargs = (sample.input, *sample.args), sample.kwargs
            tensors = tuple(t.detach() for t in leaves(torch, (args, kwargs)))
            file = io.BytesIO()
            try:
                traced = torch.jit.trace(caller(op.op, args, kwargs, torch), tensors, check_trace=False)
                torch.jit.save(traced, file)
                wanted = leaves(torch, traced(*[t.clone() for t in tensors]))
            except Exception:  # noqa: BLE001  PyTorch refuses
                continue
            count += 1
            file.seek(0)
            try:
                arguments = [flambeau.from_numpy(t.resolve_conj().numpy().copy()) for t in tensors]
                results = leaves(flambeau, flambeau.jit.load(file)(*arguments))
                assert len(results) == len(wanted), f"{len(results)} tensors, {len(wanted)} there"
                for a, b in zip(results, wanted):
                    assert str(b.dtype).rpartition(".")[2] == a.dtype.name, f"{a.dtype} is not {b.dtype}"
                    np.testing.assert_allclose(
                        a.numpy(),
                        b.resolve_conj().resolve_neg().numpy(),
                        rtol=1e-3,
                        atol=1e-3,
                        equal_nan=True,
                    )
            except Exception as error:  # noqa: BLE001
                wrong.append(" ".join(str(error).split())[:200])
        tried += count > 0
        whole += count > 0 and not wrong
        if wrong and verbose:
            print(f"{name}: {len(wrong)} of {count}: {wrong[0]}")
    print(f"{whole} of {tried} operations: PyTorch's archives of all samples give the same values here")


def operations(torch: Any, only: str, verbose: bool) -> None:
    """Print for how many operations PyTorch reads the archives of all samples with the same values."""
    sys.path.insert(0, os.environ.get("PARITY", "parity"))
    import opinfo

    bridge, whole, tried = opinfo.Bridge(flambeau), 0, 0
    for _, op in opinfo.public_ops():
        name = opinfo.label(op)
        adapt = opinfo.ADAPTED.get(name) or opinfo.ADAPTED.get(op.name)
        f = adapt(flambeau) if adapt else opinfo.resolve(flambeau, op.name)
        if (
            f is None
            or not re.search(only, name)
            or opinfo.VALUES_FREE.match(op.name)
            or torch.float32 not in op.supported_dtypes("cpu")
        ):
            continue
        samples = list(op.sample_inputs("cpu", torch.float32))
        wrong: list[str] = []
        count = 0
        for sample in samples[:: max(1, len(samples) // 4)]:
            try:
                args, kwargs = bridge.there((sample.input, *sample.args)), bridge.there(sample.kwargs)
                tensors = [t.detach() for t in leaves(flambeau, (args, kwargs))]
                call = caller(f, args, kwargs)
                program = flambeau.jit.trace(call, tuple(tensors), check_trace=False)
            except Exception:  # noqa: BLE001  `ways.py` speaks of these
                continue
            count += 1
            try:
                compare(torch, program, tuple(tensors), 1e-3)
            except Exception as error:  # noqa: BLE001
                wrong.append(" ".join(str(error).split())[:200])
        tried += count > 0
        whole += count > 0 and not wrong
        if wrong and verbose:
            print(f"{name}: {len(wrong)} of {count}: {wrong[0]}")
    print(f"{whole} of {tried} operations: PyTorch reads the archives of all samples, with the same values")


def caller(f: Any, args: Any, kwargs: Any, lib: Any = flambeau) -> Callable[..., Any]:
    """A function of the tensors of a call, in their order."""

    def put(x: Any, remaining: Any) -> Any:
        if isinstance(x, lib.Tensor):
            return next(remaining)
        if isinstance(x, dict):
            return {k: put(v, remaining) for k, v in x.items()}
        return type(x)(put(v, remaining) for v in x) if type(x) in (list, tuple) else x

    def call(*tensors: Any) -> Any:
        remaining = iter(tensors)
        a = put(args, remaining)
        return tuple(leaves(lib, f(*a, **put(kwargs, remaining))))

    return call


def main() -> int:
    """What the arguments ask for; the exit status."""
    import torch

    warnings.simplefilter("ignore")
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    for flag, compare_all in (("--operations", operations), ("--back", back)):
        if flag in sys.argv:
            compare_all(torch, only, "-v" in sys.argv)
            return 0
    return int(networks(torch) > 0 and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
