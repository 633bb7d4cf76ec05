"""Convolutions as implicit products on a device, and their gradients, against sums of shifted images in NumPy."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.codegen import schedule_gpu, schedule_gpu_tile
from flambeau.codegen import target as tg
from flambeau.codegen.schedule_gpu_products import Product
from flambeau.operations.neural.convolution import grid, implicit
from flambeau.operations.neural.convolution.grid import Geometry

sys.path.insert(0, str(Path(__file__).parent.parent / "codegen"))
sys.path.insert(0, str(Path(__file__).parent.parent / "operations"))

import samples  # noqa: E402
from ptx import ptxas  # noqa: E402

TYPE = os.environ.get("FLAMBEAU_TEST_DEVICE", "opencl")
needs_device = pytest.mark.skipif(not getattr(flambeau, TYPE).is_available(), reason=f"no {TYPE} device")
ROUNDING = {"float64": 1e-13, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.fixture
def launched(monkeypatch):
    """The kernels of implicit products, which take groups of however few filters here."""
    kernels = []

    def noted(kernel, *arguments):
        kernels.append(kernel)
        run(kernel, *arguments)

    run = implicit.run_blocks
    monkeypatch.setattr(implicit, "run_blocks", noted)
    monkeypatch.setattr(implicit, "FEWEST_ROWS", 1)
    return kernels


def forbid_the_other_way(monkeypatch):
    for name in ("direct", "direct_input", "direct_weight"):
        monkeypatch.setattr(grid, name, None)


# --- the reference ------------------------------
def shifted(g: Geometry, out, tap):
    """The part of a padded image that a tap reads."""
    return (
        ...,
        *(slice(k * d, k * d + (o - 1) * s + 1, s) for k, d, o, s in zip(tap, g.dilation, out, g.stride)),
    )


def reference(x, w, y, g: Geometry):
    """The convolution of x by w, and the gradients in x and w for a gradient y."""
    out, kernel, groups = y.shape[2:], w.shape[2:], g.groups
    behind = [
        max((o - 1) * s + (k - 1) * d + 1 - n - b, 0)
        for o, s, k, d, n, b in zip(out, g.stride, kernel, g.dilation, x.shape[2:], g.before)
    ]
    padded = np.pad(x, [(0, 0), (0, 0), *zip(g.before, behind)])
    own = padded.reshape(x.shape[0], groups, -1, *padded.shape[2:])
    w, y = (
        t.reshape(*shape) for t, shape in ((w, (groups, -1, *w.shape[1:])), (y, (len(y), groups, -1, *out)))
    )
    result, to_x, to_w = np.zeros_like(y), np.zeros_like(own), np.zeros_like(w)
    for tap in itertools.product(*map(range, kernel)):
        place = shifted(g, out, tap)
        result += np.einsum("goc,ngc...->ngo...", w[(..., *tap)], own[place])
        to_x[place] += np.einsum("goc,ngo...->ngc...", w[(..., *tap)], y)
        to_w[(..., *tap)] = np.einsum(
            "ngop,ngcp->goc", *(t.reshape(*t.shape[:3], -1) for t in (y, own[place]))
        )
    inner = (..., *(slice(b, b + n) for b, n in zip(g.before, x.shape[2:])))
    return (
        result.reshape(len(x), -1, *out),
        to_x.reshape(padded.shape)[inner],
        to_w.reshape(-1, *w.shape[2:]),
    )


# --- values and gradients ------------------------------
# The image, the weight, stride, padding, dilation, groups.
CASES = {
    "line": ((3, 4, 50), (8, 4, 5), (3,), (2,), (2,), 1),
    "plane": ((2, 3, 9, 11), (8, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "wide": ((1, 70, 9, 70), (130, 70, 3, 3), (1, 1), (1, 2), (1, 1), 1),
    "points": ((3, 70, 9, 11), (66, 70, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "whole planes": ((2, 12, 13, 11), (9, 12, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "points apart": ((2, 5, 9, 11), (8, 5, 1, 1), (2, 3), (0, 1), (1, 1), 1),
    "groups": ((2, 4, 19, 13), (6, 2, 3, 3), (3, 2), (2, 2), (2, 3), 2),
    "patches": ((2, 4, 16, 17), (5, 4, 4, 4), (4, 4), (0, 0), (1, 1), 1),
    "gaps": ((2, 3, 17, 16), (5, 3, 2, 2), (5, 4), (1, 0), (1, 1), 1),
    "padding": ((1, 2, 3, 4), (3, 2, 2, 3), (2, 1), (7, 20), (1, 4), 1),
    "volume": ((2, 4, 7, 8, 9), (8, 2, 3, 2, 3), (1, 2, 1), (1, 1, 1), (1, 1, 2), 2),
}


def operands(case, dtype, view):
    shape, weight, *numbers, groups = CASES[case]
    generator = np.random.default_rng(0)
    out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(shape[2:], weight[2:], *numbers)]
    sizes = shape, weight, (shape[0], weight[0], *out)
    return [laid(generator, getattr(flambeau, dtype), s, view) for s in sizes], Geometry(*numbers, groups)


def laid(generator, dtype, shape, view):
    if view == "steps":
        return (
            flambeau.tensor(generator.standard_normal((*shape[:-1], 2 * shape[-1])))
            .to(dtype)
            .to(TYPE)[..., ::2]
        )
    t = flambeau.tensor(generator.standard_normal(shape)).to(dtype).to(TYPE)
    if view == "channels last":
        return t.movedim(1, -1).contiguous().movedim(-1, 1)
    return t[:1].expand(shape) if view == "repeated" else t


def check(actual, wanted, magnitude, dtype):
    actual = actual.detach().cpu().double().numpy()
    assert actual.shape == wanted.shape
    assert (np.abs(actual - wanted) <= ROUNDING[dtype] * (1e-3 + magnitude)).all()


LAYOUTS = ("", "steps", "channels last", "repeated")
CALLS = [
    *((case, "float32", "") for case in CASES),
    *(("groups", dtype, "") for dtype in ROUNDING if dtype != "float32"),
    *((case, "float32", view) for case in ("plane", "volume", "whole planes") for view in LAYOUTS[1:]),
]


@needs_device
@pytest.mark.parametrize(("case", "dtype", "view"), CALLS)
def test_values_and_gradients(case, dtype, view, launched, monkeypatch):
    forbid_the_other_way(monkeypatch)
    (x, w, y), g = operands(case, dtype, view)
    n, bias = x.ndim - 2, laid(np.random.default_rng(1), x.dtype, (w.shape[0],), "")
    numbers = [t.cpu().double().numpy() for t in (x, w, y)]
    wanted, magnitude = reference(*numbers, g), reference(*map(np.abs, numbers), g)
    places, b = (slice(None), *[None] * n), bias.cpu().double().numpy()
    x, w, bias = (t.detach().requires_grad_() for t in (x, w, bias))
    result = getattr(F, f"conv{n}d")(x, w, bias, g.stride, g.before, g.dilation, g.groups)
    check(result, wanted[0] + b[places], magnitude[0] + np.abs(b[places]), dtype)
    assert len(launched) == 1 and launched[0].dtype == dtype and launched[0].addend == "row"
    result.backward(y)
    check(x.grad, wanted[1], magnitude[1], dtype)
    check(w.grad, wanted[2], magnitude[2], dtype)
    check(bias.grad, y.cpu().double().numpy().sum((0, *range(2, n + 2))), magnitude[0].max(), dtype)
    assert launched[-1].summed and not any(k.summed for k in launched[:-1])


@needs_device
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", ["plane", "groups", "volume"])
def test_transposed(case, dtype, launched, monkeypatch):
    """The adjoint and its own gradients; a bias is added before the one rounding."""
    forbid_the_other_way(monkeypatch)
    (x, w, y), g = operands(case, dtype, "")
    n, bias = x.ndim - 2, laid(np.random.default_rng(1), x.dtype, (x.shape[1],), "")
    numbers = [t.cpu().double().numpy() for t in (x, w, y)]
    wanted, magnitude = reference(*numbers, g), reference(*map(np.abs, numbers), g)
    extra = [
        size - ((o - 1) * s - 2 * p + d * (k - 1) + 1)
        for size, o, s, p, d, k in zip(x.shape[2:], y.shape[2:], g.stride, g.before, g.dilation, w.shape[2:])
    ]
    b, (y, w, bias) = bias.cpu().double().numpy(), (t.detach().requires_grad_() for t in (y, w, bias))
    result = getattr(F, f"conv_transpose{n}d")(y, w, bias, g.stride, g.before, extra, g.groups, g.dilation)
    places = (slice(None), *[None] * n)
    check(result, wanted[1] + b[places], magnitude[1] + np.abs(b[places]), dtype)
    assert all(k.addend == "row" for k in launched)
    result.backward(x)
    check(y.grad, wanted[0], magnitude[0], dtype)
    check(w.grad, wanted[2], magnitude[2], dtype)


@needs_device
def test_gradients_of_gradients(launched, monkeypatch):
    forbid_the_other_way(monkeypatch)
    shapes, result = ((2, 3, 7, 8), (4, 3, 3, 2)), []
    generator = np.random.default_rng(0)
    tensors = [flambeau.tensor(generator.standard_normal(s)) for s in shapes]
    for device in ("cpu", TYPE):
        x, w = (t.to(device).requires_grad_() for t in tensors)
        first = flambeau.autograd.grad(
            F.conv2d(x, w, stride=2, padding=1).pow(3).sum(), (x, w), create_graph=True
        )
        again = flambeau.autograd.grad(sum((t * t).sum() for t in first), (x, w))
        result.append([t.cpu().numpy() for t in again])
    for a, b in zip(*result):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-8)


@needs_device
def test_samples_of_the_registry_as_on_the_cpu(launched):
    """Those that all operations are tested with, plain and transposed."""
    calls = [
        (e, text) for e, text in samples.ALL if e.name.startswith(("conv1d", "conv2d", "conv3d", "conv_t"))
    ]
    assert len(calls) > 10
    for entry, text in calls:
        wanted = samples.run(entry, text, samples.Operands())
        actual = samples.run(entry, text, Moved())
        for a, b in zip(actual, wanted, strict=True):
            assert a.device.type == TYPE and a.shape == b.shape
            np.testing.assert_allclose(a.detach().cpu(), b.detach(), rtol=1e-4, atol=1e-5)
    assert len(launched) >= len(calls)


class Moved(samples.Operands):
    """Operands on the device."""

    def make(self, name):
        return super().make(name).to(TYPE)


@needs_device
def test_nothing_to_compute(launched):
    w = flambeau.ones(8, 3, 3, 3).to(TYPE).requires_grad_()
    x = flambeau.ones(0, 3, 9, 9).to(TYPE).requires_grad_()
    y = F.conv2d(x, w)
    y.sum().backward()
    assert y.shape == (0, 8, 7, 7) and x.grad.shape == x.shape and not w.grad.any()
    taken = F.conv_transpose2d(flambeau.ones(1, 8, 2, 2).to(TYPE), w, flambeau.ones(3).to(TYPE), stride=7)
    assert taken.shape == (1, 3, 10, 10) and flambeau.equal(taken[0, 0, 3:7, 0].cpu(), flambeau.ones(4))


@needs_device
def test_nan_reaches_the_windows_that_hold_it():
    x, w = flambeau.ones(1, 8, 9, 9), flambeau.ones(8, 8, 3, 3)
    x[0, 3, 4, 5] = float("nan")
    actual = F.conv2d(x.to(TYPE), w.to(TYPE), padding=1).isnan().cpu().numpy()
    wanted = np.zeros((9, 9), bool)
    wanted[3:6, 4:7] = True
    assert (actual == wanted).all()


@needs_device
def test_layout_of_the_result():
    x = flambeau.randn(2, 8, 5, 6).to(memory_format=flambeau.channels_last)
    w = flambeau.randn(8, 8, 3, 3)
    actual, wanted = F.conv2d(x.to(TYPE), w.to(TYPE)), F.conv2d(x, w)
    assert actual.stride() == wanted.stride()
    np.testing.assert_allclose(actual.cpu(), wanted, rtol=1e-4, atol=1e-4)


@needs_device
@pytest.mark.parametrize(
    ("shape", "view", "images"),
    [
        ((2, 8, 13, 11), "", 2),
        ((2, 8, 13, 11), "channels last", 1),
        ((1, 8, 3, 5), "", 1),
        ((2, 8, 3, 5), "", None),
        ((2, 8, 13, 11), "steps", 2),
    ],
)
def test_one_tap_is_a_product(shape, view, images, monkeypatch):
    """Whose operands are not gathered: of each image, or of all where places of one follow those of another."""
    seen = []
    monkeypatch.setattr(
        implicit, "run_blocks", lambda kernel, tensors, numbers, _: seen.append((kernel, numbers))
    )
    x, w = (
        laid(np.random.default_rng(0), flambeau.float32, s, v) for s, v in ((shape, view), ((8, 8, 1, 1), ""))
    )
    result = laid(np.random.default_rng(0), flambeau.float32, shape, view if view != "steps" else "")
    implicit.forward(x, w, None, Geometry((1, 1), (0, 0), (1, 1), 1), result)
    ((kernel, numbers),) = seen
    assert kernel.taps == (2 if images is None else 0)
    assert images is None or numbers[0] == images and numbers[0] * numbers[2] == x.numel() // 8
    assert images is None or kernel.b_turned == (view == "channels last")


@needs_device
def test_few_filters_go_an_element_at_a_time(monkeypatch):
    x, w = flambeau.randn(2, 6, 7, 8), flambeau.randn(6, 1, 3, 3)
    monkeypatch.setattr(implicit, "run_blocks", None)
    result = F.conv2d(x.to(TYPE), w.to(TYPE), padding=1, groups=6).cpu()
    np.testing.assert_allclose(result, F.conv2d(x, w, padding=1, groups=6), rtol=1e-4, atol=1e-5)


def test_what_does_not_fit():
    fits, one = implicit._fits, Geometry((1, 1), (0, 0), (1, 1), 1)
    assert fits((2, 8, 9, 9), (8, 8, 3, 3), one, (7, 7), False)
    assert not fits((1 << 12, 8, 1 << 10, 1 << 10), (8, 8, 1, 1), one, (1 << 10, 1 << 10), False)
    assert not fits((2, 8, 9, 9), (1 << 15, 1 << 15, 1, 1), one, (9, 9), False)
    far = Geometry((1, 1), (1 << 30, 0), (1, 1), 1)
    assert not fits((2, 8, 9, 9), (8, 8, 1, 1), far, (9, 9), False)
    apart = Geometry((64, 64), (0, 0), (1, 1), 1)
    assert not fits((2, 8, 9, 9), (8, 8, 64, 64), apart, (576, 576), True)
    assert fits((2, 8, 576, 576), (8, 8, 64, 64), apart, (9, 9), False)


# --- code ------------------------------
def test_division_by_a_number_known_at_launch():
    generator = np.random.default_rng(0)
    most = schedule_gpu_tile.MOST
    numbers = [*range(1, 300), *(int(n) for n in generator.integers(1, most + 1, 3000))]
    numbers += [max((1 << k) + d, 1) for k in range(31) for d in (-1, 0, 1)] + [most]
    for n in numbers:
        divisor = schedule_gpu_tile.divisor(n)
        factor, shift = divisor & 0xFFFFFFFF, divisor >> 32
        assert 0 < divisor < 1 << 63 and factor * most < 1 << 63
        last = most // n * n
        for x in (0, 1, n - 1, n, n + 1, last - 1, last, most, int(generator.integers(most))):
            if 0 <= x <= most:
                assert x * factor >> shift == x // n, (x, n)


KERNELS = [
    *(
        Product("float32", False, summed, not summed, addend="" if summed else "row", taps=n, summed=summed)
        for n in (1, 2, 3)
        for summed in (False, True)
    ),
    Product("bfloat16", False, False, True, addend="row", taps=2),
    Product("float64", False, True, False, taps=3, summed=True),
    Product("float32", False, True, True, addend="matrix"),
]


def test_amdgcn_keeps_its_sums_in_registers():
    for kernel in KERNELS[2:5]:
        machine = tg.machine("amdgcn")
        assembly = machine.emit_assembly(
            tg.optimised(str(schedule_gpu.module_for(kernel, "amdgcn")), machine, 3)
        )
        assert "s_barrier" in assembly and "ds_write" in assembly and "scratch_store" not in assembly


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.dtype}-{k.taps}-{k.summed}")
def test_ptx_is_accepted_and_spills_no_registers(kernel, tmp_path):
    assembler = ptxas()
    if assembler is None:
        pytest.skip("there is no ptxas here")
    path = tmp_path / "kernel.ptx"
    path.write_text(tg.image(str(schedule_gpu.module_for(kernel, "nvptx")), "nvptx"))
    command = [assembler, "-v", "-arch=sm_90", "-o", str(tmp_path / "out.cubin"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr, done.stderr
