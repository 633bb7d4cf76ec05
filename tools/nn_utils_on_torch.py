"""nn.utils beside PyTorch: each program runs on both, from the same numbers, and what they return or raise is compared.

    python tools/nn_utils_on_torch.py [-v]

Prints each program where values, shapes, dtypes, names or classes of errors differ, with both results (shortened unless -v), and
a count.  Differences that are meant are counted apart.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.utils.prune

import flambeau

# Why a difference is meant, by how the program's name begins.
MEANT = {
    "parametrized spectral norm of lstm": "a step of the power method for each time the weight is asked for, which differs",
    "old spectral norm": "negative dimensions are counted from the end, PyTorch fails",
    "ln structured of conv2 fro": "the Frobenius norm over three dimensions",
    "too long": "lengths beyond the input are refused, PyTorch packs a batch that does not fit its batch_sizes",
    "packed and sorted [4, 2]": "too few lengths are refused, PyTorch drops the last sequences",
    "packed and sorted [[": "a RuntimeError, where PyTorch fails later by an IndexError",
    "packed by hand": "batch_sizes that do not fit the data are refused, PyTorch runs with some",
}
DTYPE = np.float64


def numbers(t: Any, *shape: int, scale: float = 1.0) -> Any:
    return t.tensor(np.random.standard_normal(shape).astype(DTYPE) * scale)


def plain(value: Any) -> Any:
    """Nested lists of arrays and names."""
    if isinstance(value, dict):
        return [plain(list(value)), *(plain(v) for v in value.values())]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value.detach().numpy() if isinstance(value, (torch.Tensor, flambeau.Tensor)) else value


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        fits = isinstance(b, np.ndarray) and (a.shape, a.dtype) == (b.shape, b.dtype)
        return fits and np.allclose(a, b, atol=1e-8, equal_nan=True)
    return bool(a == b)


def outcome(program: Callable, t: Any) -> Any:
    np.random.seed(0)
    try:
        return plain(program(t))
    except Exception as error:
        return type(error).__name__


# ---------------------------------------------------------------- weights that are computed

LAYERS: dict[str, tuple[Callable, tuple[int, ...]]] = {
    "linear": (lambda t: t.nn.Linear(3, 4), (2, 3)),
    "wide": (lambda t: t.nn.Linear(5, 2), (2, 5)),
    "square": (lambda t: t.nn.Linear(3, 3), (2, 3)),
    "conv1": (lambda t: t.nn.Conv1d(2, 4, 3), (2, 2, 6)),
    "conv2": (lambda t: t.nn.Conv2d(2, 4, 3), (2, 2, 6, 6)),
    "transposed": (lambda t: t.nn.ConvTranspose2d(2, 4, 3), (2, 2, 6, 6)),
    "lstm": (lambda t: t.nn.LSTM(3, 4), (5, 2, 3)),
}


def layer(t: Any, kind: str) -> Any:
    module = LAYERS[kind][0](t).double()
    for parameter in module.parameters():
        parameter.data = numbers(t, *parameter.shape)
    return module


def wrapped(kind: str, wrap: Callable, unwrap: Callable | None, train: bool = True) -> Callable:
    """A layer with a computed weight: called, trained a step, evaluated, and made an ordinary one again."""

    def program(t: Any) -> Any:
        module, name = layer(t, kind).train(train), "weight_hh_l0" if kind == "lstm" else "weight"
        wrap(t, module, name)
        results = [{key: value.clone() for key, value in module.state_dict().items()}]
        x = numbers(t, *LAYERS[kind][1])
        call = lambda: (lambda y: y[0] if isinstance(y, tuple) else y)(module(x))
        call().square().sum().backward()
        results += [{key: p.grad for key, p in module.named_parameters()}, call()]
        module.eval()
        results += [call(), getattr(module, name), module.state_dict(), type(module).__name__, repr(module)]
        if unwrap is not None:
            unwrap(t, module, name)
            results += [module.state_dict(), type(module).__name__, call(), len(module._forward_pre_hooks)]
        return results

    return program


def directions(t: Any, u: Any, v: Any) -> None:
    for vector in (u, v):
        vector.copy_(numbers(t, *vector.shape))
        vector.div_(vector.norm())


def new_spectral(dim: int | None, steps: int) -> Callable:
    def wrap(t: Any, module: Any, name: str) -> None:
        t.nn.utils.parametrizations.spectral_norm(module, name, steps, dim=dim)
        part = module.parametrizations[name][0]
        directions(t, part._u, part._v)

    return wrap


def old_spectral(dim: int | None) -> Callable:
    def wrap(t: Any, module: Any, name: str) -> None:
        t.nn.utils.spectral_norm(module, name, dim=dim)
        directions(t, getattr(module, name + "_u"), getattr(module, name + "_v"))

    return wrap


def orthogonal(kind: str | None, trivial: bool) -> Callable:
    def wrap(t: Any, module: Any, name: str) -> None:
        t.nn.utils.parametrizations.orthogonal(module, name, kind, use_trivialization=trivial)
        part = module.parametrizations[name]
        if trivial:
            part[0].base.copy_(
                t.tensor(np.linalg.qr(np.random.standard_normal(tuple(part[0].base.shape)))[0])
            )
        part.original.data.add_(numbers(t, *part.original.shape, scale=0.3).tril(-1))

    return wrap


def weights() -> dict[str, Callable]:
    remove = lambda t, module, name: t.nn.utils.parametrize.remove_parametrizations(module, name)
    leave = lambda t, module, name: t.nn.utils.parametrize.remove_parametrizations(module, name, False)
    programs = {}
    for kind, dim in itertools.product(LAYERS, (None, 0, 1, -1, 2, 4, -2)):
        new = lambda t, m, n, dim=dim: t.nn.utils.parametrizations.weight_norm(m, n, dim)
        old = lambda t, m, n, dim=dim: t.nn.utils.weight_norm(m, n, dim)
        of = f"of {kind} along {dim}"
        programs[f"parametrized weight norm {of}"] = wrapped(kind, new, remove)
        programs[f"parametrized weight norm {of}, left"] = wrapped(kind, new, leave)
        programs[f"old weight norm {of}"] = wrapped(
            kind, old, lambda t, m, n: t.nn.utils.remove_weight_norm(m, n)
        )
        for steps, train in ((1, True), (3, True), (1, False)):
            name = f"parametrized spectral norm {of}, {steps} steps, training {train}"
            programs[name] = wrapped(kind, new_spectral(dim, steps), remove, train)
        for train in (True, False):
            undo = lambda t, m, n: t.nn.utils.remove_spectral_norm(m, n)
            programs[f"old spectral norm {of}, training {train}"] = wrapped(
                kind, old_spectral(dim), undo, train
            )
    for kind, name, trivial in itertools.product(
        LAYERS, (None, "matrix_exp", "cayley", "householder", "qr"), (True, False)
    ):
        programs[f"orthogonal {kind} {name} {trivial}"] = wrapped(kind, orthogonal(name, trivial), remove)
    return programs


# ---------------------------------------------------------------- pruning


def pruned(kind: str, *steps: Callable) -> Callable:
    def program(t: Any) -> Any:
        module = layer(t, kind)
        for step in steps:
            step(t, t.nn.utils.prune, module)
        parts = [key for key, _ in module.named_parameters()]
        return [
            module.state_dict(),
            parts,
            len(module._forward_pre_hooks),
            t.nn.utils.prune.is_pruned(module),
        ]

    return program


def pruning() -> dict[str, Callable]:
    programs = {}
    amounts = (0, 1, 3, 0.0, 0.3, 1.0, 5, 100, -1, 1.5, -0.1, "a")
    for kind, amount in itertools.product(("linear", "conv2", "wide"), amounts):
        l1 = lambda t, p, m, a=amount: p.l1_unstructured(m, "weight", a)
        third = lambda t, p, m: p.l1_unstructured(m, "weight", 0.3)
        rated = lambda t, p, m, a=amount: p.l1_unstructured(m, "weight", a, numbers(t, *m.weight.shape))
        programs[f"l1 of {kind} {amount}"] = pruned(kind, l1)
        programs[f"l1 twice of {kind} {amount}"] = pruned(kind, third, l1)
        programs[f"l1 by importance of {kind} {amount}"] = pruned(kind, rated)
        for dim, p in itertools.product((0, 1, -1, 4, -5), (1, 2, np.inf, -np.inf, "fro")):
            ln = lambda t, q, m, a=amount, p=p, d=dim: q.ln_structured(m, "weight", a, p, d)
            programs[f"ln structured of {kind} {p} {dim} {amount}"] = pruned(kind, ln)
            programs[f"ln structured of {kind} {p} {dim} {amount}, then l1"] = pruned(kind, ln, l1)
            if p != -np.inf:  # pruned elements tie
                programs[f"ln structured of {kind} {p} {dim} {amount}, after l1"] = pruned(kind, third, ln)
    together = lambda t, scores: (
        t.nn.utils.prune.global_unstructured(
            [(m := layer(t, "linear"), "weight"), (m, "bias")],
            t.nn.utils.prune.L1Unstructured,
            importance_scores={(m, "bias"): numbers(t, 4)} if scores else None,
            amount=5,
        )
        or list(m.state_dict().items())
    )
    return programs | {f"global {scores}": lambda t, s=scores: together(t, s) for scores in (False, True)}


# ---------------------------------------------------------------- packed sequences


def recurrent(kind: str, options: dict[str, Any], state: bool, in_order: bool) -> Callable:
    def program(t: Any) -> Any:
        utils, first = t.nn.utils.rnn, options["batch_first"]
        module = getattr(t.nn, kind)(3, 4, **options).double()
        for parameter in module.parameters():
            parameter.data = numbers(t, *parameter.shape, scale=0.5)
        lengths = np.random.randint(1, 7, np.random.randint(1, 6)).tolist()
        lengths = sorted(lengths, reverse=True) if in_order else lengths
        n, steps = len(lengths), max(lengths) + 1
        x = numbers(t, *((n, steps) if first else (steps, n)), 3).requires_grad_()
        places = len(module.all_weights)
        sizes = [options.get("proj_size") or 4, 4][: 1 + (kind == "LSTM")]
        states = [numbers(t, places, n, size).requires_grad_() for size in sizes] if state else []
        packed = utils.pack_padded_sequence(x, lengths, first, in_order)
        output, final = module(packed, None if not state else tuple(states) if kind == "LSTM" else states[0])
        padded, unpacked_lengths = utils.pad_packed_sequence(output, first, 0.5, steps)
        finals = list(final) if kind == "LSTM" else [final]
        ((padded**3).sum() + sum((part**2).sum() for part in finals)).backward()
        grads = [part.grad for part in (x, *states, *module.parameters())]
        return [padded, unpacked_lengths, *finals, *grads, *output, utils.unpack_sequence(output)]

    return program


def sequences() -> dict[str, Callable]:
    programs = {}
    for kind, layers, both, bias, drop, state, in_order, first in itertools.product(
        ("RNN", "LSTM", "GRU"), (1, 2), *[(False, True)] * 6
    ):
        for size in (0, 2) if kind == "LSTM" else (0,):
            options = {"num_layers": layers, "bidirectional": both, "bias": bias, "batch_first": first}
            options |= {"dropout": float(drop and layers > 1)} | ({"proj_size": size} if size else {})
            programs[f"{kind} {options} {state} {in_order}"] = recurrent(kind, options, state, in_order)
    pack = lambda lengths, **options: (
        lambda t: t.nn.utils.rnn.pack_padded_sequence(numbers(t, 4, 3, 2), lengths, **options)
    )
    for lengths in (
        [4, 2, 0],
        [4, 2, -1],
        [4, 2],
        [4, 2, 1, 1],
        [1, 4, 2],
        [[4, 2, 1]],
        None,
        [4.0, 2.5, 1.0],
    ):
        programs[f"packed {lengths}"] = pack(lengths)
        if lengths != [4, 2, 1, 1]:  # where PyTorch's sort of indices fails first
            programs[f"packed and sorted {lengths}"] = pack(lengths, enforce_sorted=False)
    programs["too long"] = pack([5, 2, 1])
    for sizes in ([1, 2], [2, 2], [1, 1], [3, 0]):
        by_hand = lambda t, s=sizes: t.nn.utils.rnn.PackedSequence(numbers(t, 3, 2), t.tensor(s))
        programs[f"packed by hand {sizes}"] = lambda t, made=by_hand: t.nn.utils.rnn.pad_packed_sequence(
            made(t)
        )
    for side, first, value in itertools.product(("left", "right", "up"), (False, True), (0.0, -1.5)):
        pad = lambda t, *more: t.nn.utils.rnn.pad_sequence([numbers(t, n, 2) for n in (2, 5, 1)], *more)
        programs[f"padded {side} {first} {value}"] = lambda t, more=(first, value, side), pad=pad: pad(
            t, *more
        )
    return programs


def main() -> int:
    warnings.simplefilter("ignore")
    limit = None if "-v" in sys.argv[1:] else 300
    counts: Counter[str] = Counter()
    for name, program in (weights() | pruning() | sequences()).items():
        theirs, ours = outcome(program, torch), outcome(program, flambeau)
        counts["programs"] += 1
        if same(theirs, ours):
            continue
        reason = next((why for start, why in MEANT.items() if name.startswith(start)), None)
        counts[reason or "not meant"] += 1
        if reason is None:
            print(f"{name}\n    PyTorch:  {str(theirs)[:limit]}\n    flambeau: {str(ours)[:limit]}")
    for what, count in counts.items():
        print(f"{count:6}  {what}")
    return int(counts["not meant"] > 0)


if __name__ == "__main__":
    sys.exit(main())
