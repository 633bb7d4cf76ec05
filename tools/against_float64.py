"""How far float32 results are from float64 ones, flambeau's beside PyTorch's, where `parity_operations.py` finds them different.

    python tools/against_float64.py

For `matrix_exp` the largest error of the result, for `ctc_loss` that of the gradient, over PyTorch's own samples.  Needs
PyTorch, expecttest and SciPy.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch
from torch.testing._internal.common_methods_invocations import op_db

import flambeau


def samples(name: str) -> list:
    op = next(op for op in op_db if op.name == name)
    return list(op.sample_inputs("cpu", torch.float32))


def matrix_exp() -> tuple[float, float]:
    errors = []
    for sample in samples("matrix_exp"):
        x = sample.input.numpy()
        true = scipy.linalg.expm(x.astype(np.float64))
        results = flambeau.matrix_exp(flambeau.from_numpy(x)), torch.matrix_exp(sample.input)
        errors.append([np.abs(f.numpy() - true).max() for f in results])
    return tuple(np.max(errors, 0))


def ctc_loss() -> tuple[float, float]:
    errors = []
    for sample in samples("nn.functional.ctc_loss"):
        x = sample.input.detach()
        leaves = [
            flambeau.from_numpy(x.numpy()).requires_grad_(),
            x.clone().requires_grad_(),
            x.double().requires_grad_(),
        ]
        for module, leaf in zip((flambeau, torch, torch), leaves):
            rest = [
                flambeau.from_numpy(a.numpy()) if module is flambeau and isinstance(a, torch.Tensor) else a
                for a in sample.args
            ]
            module.nn.functional.ctc_loss(leaf, *rest, **sample.kwargs).sum().backward()
        ours, theirs, true = [leaf.grad.numpy().astype(np.float64) for leaf in leaves]
        errors.append([np.abs(loss - true).max() for loss in (ours, theirs)])
    return tuple(np.max(errors, 0))


def main() -> None:
    print("| operation | flambeau | PyTorch | PyTorch / flambeau |\n|---|---|---|---|")
    for measure in (matrix_exp, ctc_loss):
        ours, theirs = measure()
        print(f"| {measure.__name__} | {ours:.2g} | {theirs:.2g} | {theirs / ours:.1f} |")


if __name__ == "__main__":
    main()
