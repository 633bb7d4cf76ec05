"""Convolutions by tensor cores: their PTX, interpreted thread by thread on what the operations launch, against sums in float64."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.codegen import target as tg
from flambeau.codegen.schedule_gpu_products import Product
from flambeau.codegen.schedule_gpu_tensor_cores import TensorCoreProduct
from flambeau.operations.neural.convolution import implicit
from flambeau.operations.neural.convolution.grid import Geometry

sys.path.insert(0, str(Path(__file__).parent))
from ptx import ptxas  # noqa: E402
from ptx_machine import Machine  # noqa: E402

STEP = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
# Image, weight, stride, padding, dilation, groups: more terms than stages take, borders on all sides; groups; a line; a volume.
CASES = {
    "plane": ((2, 17, 7, 9), (9, 17, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "groups": ((1, 6, 11, 9), (10, 3, 3, 2), (3, 2), (2, 2), (2, 3), 2),
    "points": ((3, 72, 8, 8), (8, 72, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "line": ((2, 4, 50), (8, 4, 5), (2,), (2,), (2,), 1),
    "volume": ((1, 2, 5, 4, 6), (8, 2, 3, 2, 3), (1, 2, 1), (1, 1, 1), (1, 1, 2), 1),
}


@functools.cache
def ptx(kernel: TensorCoreProduct) -> str:
    return tg.image(str(kernel.module("nvptx")), "nvptx", kernel.processor)


def bits_of(tensor) -> np.ndarray:
    """The memory of a tensor's storage, which both share."""
    whole = flambeau.empty(0, dtype=flambeau.int16).set_(
        tensor.view(flambeau.int16).untyped_storage(), 0, (tensor.untyped_storage().nbytes() // 2,), (1,)
    )
    return whole.numpy()


@pytest.fixture
def launched(monkeypatch):
    """Launches go to the interpreter, as those of the processor named by the test."""
    kernels = []

    def interpret(kernel, tensors, numbers, scalars):
        fitted = kernel.fitted(1, kernels[0])
        assert isinstance(fitted, TensorCoreProduct)
        kernels.append(fitted)
        machine, memories = Machine(ptx(fitted), len(kernels)), {}
        addresses = []
        for t in tensors:
            begin = t.untyped_storage().data_ptr()
            if begin not in memories:
                memories[begin] = machine.place(bits_of(t))
            addresses.append(memories[begin] + 2 * t.storage_offset())
        launch = fitted.blocks("nvptx", numbers)
        machine.run(launch.blocks[0], launch.threads[0], launch.shared, *addresses, *numbers, *scalars)

    monkeypatch.setattr(implicit, "run_blocks", interpret)
    return kernels


def operands(case, dtype, channels_last=False):
    shape, weight, stride, padding, dilation, groups = CASES[case]
    random = np.random.default_rng(len(case))
    x, w, bias = (
        flambeau.tensor(random.standard_normal(s)).to(getattr(flambeau, dtype))
        for s in (shape, weight, weight[:1])
    )
    if channels_last:
        x, w = (t.movedim(1, -1).contiguous().movedim(-1, 1) for t in (x, w))
    return x, w, bias, Geometry(stride, padding, dilation, groups)


def reference(x, w, bias, g, grad):
    """The convolution and both gradients in float64, and the same of magnitudes."""
    result = []
    for numbers in ((x, w, bias, grad), (x.abs(), w.abs(), bias.abs(), grad.abs())):
        x, w, bias, grad = (t.double() for t in numbers)
        x, w = x.requires_grad_(), w.requires_grad_()
        convolve = getattr(F, f"conv{x.ndim - 2}d")
        y = convolve(x, w, bias, g.stride, g.before, g.dilation, g.groups)
        result.append((y.detach(), *flambeau.autograd.grad(y, (x, w), grad)))
    return result


@pytest.mark.parametrize(
    ("processor", "dtype", "case", "channels_last"),
    [
        ("sm_90a", "bfloat16", "plane", False),
        ("sm_80", "float16", "plane", True),
        ("sm_86", "bfloat16", "groups", False),
        ("sm_80", "bfloat16", "points", False),
        ("sm_90a", "float16", "line", False),
        ("sm_86", "float16", "volume", True),
    ],
)
def test_values_and_gradients(processor, dtype, case, channels_last, launched):
    launched.append(processor)
    x, w, bias, g = operands(case, dtype, channels_last)
    convolve = getattr(F, f"conv{x.ndim - 2}d")
    y = convolve(x, w, bias, g.stride, g.before, g.dilation, g.groups)
    grad = flambeau.randn(y.shape, generator=flambeau.Generator().manual_seed(0)).to(x.dtype)
    wanted, magnitude = reference(x, w, bias, g, grad)
    found = (
        implicit.forward(x, w, bias, g, flambeau.full_like(y, 7)),
        implicit.input_gradient(grad, w, None, g, flambeau.full_like(x, 7)),
        implicit.weight_gradient(grad, x, g, flambeau.full_like(w, 7)),
    )
    for what, a, b, size in zip(("values", "input's", "weight's"), found, wanted, magnitude):
        error = (a.double() - b).abs()
        assert (error <= STEP[dtype] * b.abs() + 1e-5 * size).all(), what
    assert len(launched) >= 4


def test_the_processor_chooses():
    kernel = Product("float16", False, False, True, addend="row", taps=2)
    for processor in tg.PROCESSORS["nvptx"]:
        fitted = kernel.fitted(1, processor)
        assert isinstance(fitted, Product if processor in ("sm_70", "sm_75") else TensorCoreProduct)
        assert fitted.taps == 2 and fitted.name == "convolution"


@pytest.mark.parametrize("summed", (False, True))
@pytest.mark.parametrize("processor", ("sm_80", "sm_86", "sm_90a"))
def test_the_assembler_takes_it_without_spills(processor, summed, tmp_path):
    assembler = ptxas()
    if assembler is None:
        pytest.skip("there is no ptxas here")
    kernel = Product("bfloat16", False, summed, False, taps=2, summed=summed).fitted(1, processor)
    path = tmp_path / "kernel.ptx"
    path.write_text(ptx(kernel))
    command = [assembler, "-v", f"-arch={processor}", "-o", str(tmp_path / "out.cubin"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "0 bytes spill stores, 0 bytes spill loads" in done.stderr, done.stderr
    assert "serialized" not in done.stderr, done.stderr
