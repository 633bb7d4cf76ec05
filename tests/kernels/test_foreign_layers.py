"""Layers whose work NumPy, SciPy and Cython do, as `autograd.Function`, without copies; `docs/extending.md` shows them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg

import flambeau as torch
from flambeau import nn
from flambeau.autograd import Function, gradcheck


class RealFFT(Function):
    """NumPy: |FFT| of real rows, as in PyTorch's tutorial of such layers (its gradient is no true one there; here it is)."""

    @staticmethod
    def forward(ctx, x):
        array = x.detach().numpy()
        assert np.shares_memory(array, x.detach().numpy())
        spectrum = np.fft.fft(array)
        size = np.abs(spectrum)
        ctx.direction = spectrum / np.maximum(size, 1e-300)
        result = torch.from_numpy(size.astype(array.dtype, copy=False))
        return result

    @staticmethod
    def backward(ctx, grad):
        turned = np.fft.ifft(grad.numpy() * ctx.direction).real * grad.shape[-1]
        return torch.from_numpy(turned.astype(grad.numpy().dtype))


class Convolve(Function):
    """SciPy: valid cross-correlation of a picture with a filter, and a bias."""

    @staticmethod
    def forward(ctx, picture, weight, bias):
        ctx.save_for_backward(picture, weight)
        result = scipy.signal.correlate2d(picture.detach().numpy(), weight.detach().numpy(), mode="valid")
        result += bias.detach().numpy()
        return torch.from_numpy(result)

    @staticmethod
    def backward(ctx, grad):
        picture, weight = (t.detach().numpy() for t in ctx.saved_tensors)
        grad = grad.numpy()
        to_picture = scipy.signal.convolve2d(grad, weight, mode="full")
        to_weight = scipy.signal.correlate2d(picture, grad, mode="valid")
        return (
            torch.from_numpy(to_picture),
            torch.from_numpy(to_weight),
            torch.from_numpy(grad.sum(keepdims=True)),
        )


class SparseSolve(Function):
    """SciPy: A⁻¹b for a sparse matrix whose LU factors serve both directions."""

    @staticmethod
    def forward(ctx, factors, b):
        ctx.factors = factors
        return torch.from_numpy(factors.solve(b.detach().numpy()))

    @staticmethod
    def backward(ctx, grad):
        return None, SparseSolve.transposed(ctx.factors, grad)

    @staticmethod
    def transposed(factors, grad):
        return torch.from_numpy(factors.solve(grad.numpy(), trans="T"))


def double(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_numpy():
    x = double(3, 8)
    assert gradcheck(RealFFT.apply, (x,))
    assert torch.allclose(RealFFT.apply(x), torch.fft.fft(x).abs())


def test_scipy():
    picture, weight, bias = double(6, 5), double(3, 2), double(1, 1)
    assert gradcheck(Convolve.apply, (picture, weight, bias))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(3, 3)), nn.Parameter(torch.zeros(1, 1))

        def forward(self, x):
            return Convolve.apply(x, self.weight, self.bias)

    layer, x = Layer(), torch.randn(8, 8)
    goal = torch.nn.functional.conv2d(x[None, None], torch.ones(1, 1, 3, 3))[0, 0]
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(300):
        optimiser.zero_grad()
        loss = (layer(x) - goal).square().mean()
        loss.backward()
        optimiser.step()
    assert loss.item() < 1e-3 and torch.allclose(layer.weight, torch.ones(3, 3), atol=0.05)


def test_a_sparse_solver():
    matrix = scipy.sparse.csc_array(np.eye(5) * 4 + np.eye(5, k=1) - 2 * np.eye(5, k=-1))
    factors, b = scipy.sparse.linalg.splu(matrix), double(5)
    assert gradcheck(lambda b: SparseSolve.apply(factors, b), (b,))
    assert np.allclose(matrix @ SparseSolve.apply(factors, b).detach().numpy(), b.detach().numpy())


PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The module that Cython makes."""
    folder = tmp_path_factory.mktemp("cython")
    (text,) = re.findall(r"```cython\n(# leaky.pyx\n.*?)```", PAGE, re.DOTALL)
    (folder / "leaky.pyx").write_text(text)
    command = [sys.executable, "-m", "Cython.Build.Cythonize", "-i", "-q", "leaky.pyx"]
    quickly = {**os.environ, "CFLAGS": "-O0"}
    done = subprocess.run(command, cwd=folder, env=quickly, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (library,) = [p for p in folder.glob("leaky.*") if p.suffix in (".so", ".pyd")]
    spec = importlib.util.spec_from_file_location("leaky", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_cython(compiled):
    class Leaky(Function):
        @staticmethod
        def forward(ctx, x, rate):
            ctx.rate, out = rate, torch.empty_like(x)
            compiled.leaky(x.detach().numpy(), out.numpy(), rate)  # both arrays are the tensors' own memory
            return out

        @staticmethod
        def backward(ctx, grad):
            back = torch.empty_like(grad)
            compiled.leaky(grad.flip(1).contiguous().numpy(), back.numpy(), ctx.rate)
            return back.flip(1), None

    x = double(3, 5)
    assert gradcheck(lambda x: Leaky.apply(x, 0.5), (x,))
    wanted = scipy.signal.lfilter([1.0], [1.0, -0.5], x.detach().numpy())
    assert np.allclose(Leaky.apply(x, 0.5).detach().numpy(), wanted)


def test_nothing_is_copied():
    x = torch.arange(6.0).reshape(2, 3)
    array = x.t().numpy()
    array[1, 0] = 7.0
    assert x[0, 1].item() == 7.0 and torch.from_numpy(array).data_ptr() == x.data_ptr()
