"""Products of matrices by our own kernels on a device, against NumPy in float64; what they become for processors that are not here."""

from __future__ import annotations

import itertools
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import flambeau
from flambeau.codegen import expr as ex
from flambeau.codegen import schedule_gpu, schedule_gpu_products, schedule_gpu_tile, schedule_gpu_vectors
from flambeau.codegen import target as tg
from flambeau.codegen.schedule_gpu_products import Product
from flambeau.core.loops import launch
from flambeau.operations.moving import device_bodies

sys.path.insert(0, str(Path(__file__).parent.parent / "codegen"))

from ptx import ptxas  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))

from disorder import disturbed  # noqa: E402

TYPE = os.environ.get("FLAMBEAU_TEST_DEVICE", "opencl")
needs_device = pytest.mark.skipif(not getattr(flambeau, TYPE).is_available(), reason=f"no {TYPE} device")
ROUNDING = {"float64": 1e-13, "float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
SIZES = [(1, 1, 1), (3, 5, 7), (64, 32, 64), (65, 33, 67), (130, 100, 200), (200, 1, 3), (1, 300, 65)]
KERNELS = [
    Product(dtype, *flags)
    for dtype in (*ROUNDING, *INTEGERS)
    for flags in itertools.product((False, True), repeat=3)
]


def matrix(generator, dtype, shape, turned):
    if dtype in ROUNDING:
        t = flambeau.tensor(generator.standard_normal(shape)).to(getattr(flambeau, dtype))
    else:
        t = flambeau.tensor(generator.integers(0, 100, shape)).to(getattr(flambeau, dtype))
    numbers = t.double().numpy()
    t = t.to(TYPE)
    return (t.t().contiguous().t() if turned else t), numbers


@needs_device
@pytest.mark.parametrize("dtype", [*ROUNDING, *INTEGERS])
@pytest.mark.parametrize("turned", list(itertools.product((False, True), repeat=2)), ids=str)
def test_each_dtype_and_layout(dtype, turned):
    generator = np.random.default_rng(0)
    for m, k, n in SIZES:
        a, left = matrix(generator, dtype, (m, k), turned[0])
        b, right = matrix(generator, dtype, (k, n), turned[1])
        actual = (a @ b).cpu()
        assert actual.shape == (m, n) and actual.dtype == a.dtype
        if dtype in ROUNDING:
            error = np.abs(actual.double().numpy() - left @ right)
            assert (error <= ROUNDING[dtype] * (np.abs(left) @ np.abs(right))).all(), (m, k, n)
        else:  # modulo the dtype's numbers, as everywhere
            wanted = (left.astype("i8") @ right.astype("i8")).astype(dtype)
            assert np.array_equal(actual.numpy(), wanted), (m, k, n)


@needs_device
def test_stacks_views_and_addends():
    flambeau.manual_seed(0)
    x, y = flambeau.randn(3, 4, 5, 6), flambeau.randn(3, 4, 6, 7)
    cases = [
        (x, y),
        (x, y[0, 0]),
        (x, y[:1]),
        (x[:, 1:3], y[:, ::2]),
        (x.transpose(0, 1), y.transpose(0, 1)),
        (x[..., ::2], y[..., ::2, :]),
        (x[:, :0], y[:, :0]),
        (x[..., :0], y[..., :0, :]),
        (x.expand(2, 3, 4, 5, 6), y),
    ]
    for a, b in cases:
        result = (a.to(TYPE) @ b.to(TYPE)).cpu()
        assert result.shape == (a @ b).shape and np.allclose(result.numpy(), a.numpy() @ b.numpy(), atol=1e-5)
    m, a, b = flambeau.randn(5, 7), x[0, 0], y[0, 0]
    result = flambeau.addmm(m.to(TYPE), a.to(TYPE), b.to(TYPE), beta=0.5, alpha=2).cpu()
    assert np.allclose(result.numpy(), 0.5 * m.numpy() + 2 * a.numpy() @ b.numpy(), atol=1e-5)
    out = flambeau.full((5, 7), float("nan")).to(TYPE)
    assert np.allclose(
        flambeau.mm(a.to(TYPE), b.to(TYPE), out=out).cpu().numpy(), a.numpy() @ b.numpy(), atol=1e-5
    )


@needs_device
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_a_product_with_factors_and_addend_is_one_kernel(dtype, monkeypatch):
    if TYPE != "opencl":
        pytest.skip("CUDA's library may take it")
    generator, launched = np.random.default_rng(0), []

    def noted(kernel, *arguments):
        launched.append(kernel)
        launch.run_blocks(kernel, *arguments)

    monkeypatch.setattr(device_bodies, "run_blocks", noted)
    monkeypatch.setattr(device_bodies, "matrix_product", None)
    alpha, beta = (2.0, 0.5) if dtype in ROUNDING else (2, 3)
    (a, x), (b, y), (m, z) = (matrix(generator, dtype, s, False) for s in ((33, 20), (20, 45), (33, 45)))
    result = flambeau.addmm(m, a, b, alpha=alpha, beta=beta).cpu().double().numpy()
    magnitude = alpha * np.abs(x) @ np.abs(y) + beta * np.abs(z)
    assert (np.abs(result - (alpha * x @ y + beta * z)) <= ROUNDING.get(dtype, 0) * magnitude).all()
    assert len(launched) == 1 and launched[0].adds
    version = m._version
    m.addmm_(a, b)
    assert m._version == version + 1 and len(launched) == 2


@needs_device
def test_nan_stays_in_its_row_and_column():
    a, b = flambeau.ones(70, 40), flambeau.ones(40, 70)
    a[3, 5], b[7, 9] = float("nan"), float("inf")
    result = (a.to(TYPE) @ b.to(TYPE)).cpu().numpy()
    assert np.array_equal(np.isnan(result), np.isnan(a.numpy() @ b.numpy())) and np.isinf(result[0, 9])


def test_narrow_rectangles_have_fewer_sums():
    """As many vectors of columns are multiplied as a rectangle has; what stands behind its last row and column are zeros."""
    kernel = Product("float32", False, False, False, vector=16)
    text = str(kernel.module("spirv"))
    rows, most = schedule_gpu_vectors.ROWS, schedule_gpu_vectors.VECTORS
    assert len(re.findall(r"call <16 x float> @llvm\.fma\.v16f32", text)) == rows * most * (most + 1) // 2
    size = schedule_gpu_vectors.shape_for(kernel)
    for side in (rows, size.lanes):  # rows and columns that are multiplied together
        assert re.search(rf"and i64 %v\d+, {side - 1}\n\s+(?:.*\n)*?.*icmp ne i64 %v\d+, 0", text)


@needs_device
def test_gradients():
    a, b = (flambeau.randn(*s).to(TYPE).requires_grad_() for s in ((33, 20), (20, 45)))
    g = flambeau.randn(33, 45)
    (a @ b).backward(g.to(TYPE))
    assert np.allclose(a.grad.cpu().numpy(), g.numpy() @ b.detach().cpu().numpy().T, atol=1e-4)
    assert np.allclose(b.grad.cpu().numpy(), a.detach().cpu().numpy().T @ g.numpy(), atol=1e-4)


@needs_device
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_vectors_and_threads_give_the_same_bits(dtype):
    if TYPE != "opencl":
        pytest.skip("vectors in threads are for OpenCL's CPU devices")
    generator, number = np.random.default_rng(0), 1.5 if dtype in ROUNDING else 3
    for turned in itertools.product((False, True), repeat=2):
        for m, k, n in [(1, 1, 1), (65, 150, 67), (130, 37, 200), (7, 130, 20), (6, 5, 47)]:
            a, _ = matrix(generator, dtype, (m, k), turned[0])
            b, _ = matrix(generator, dtype, (k, n), turned[1])
            c, _ = matrix(generator, dtype, (m, n), False)
            numbers = (1, m, n, k, 0, *c.stride(), 0, *a.stride(), 0, *b.stride())
            results = []
            for vector in (1, 4, 8, 16):
                result = c.clone()
                kernel = Product(dtype, *turned, True, vector)
                assert kernel.fitted(16) == kernel and kernel.threads == (256 if vector == 1 else 1)
                launch.run_blocks(kernel, (result, a, b), numbers, (number, number))
                results.append(result.cpu())
            for other in results[1:]:
                assert flambeau.equal(results[0], other), (turned, m, k, n)


def of_product(generator, vector):
    """A kernel, the shape of its result, its other tensors and its numbers."""
    m, k, n = 200, 150, 130
    a, b = (matrix(generator, "float32", shape, False)[0] for shape in ((m, k), (k, n)))
    kernel = Product("float32", False, False, False, vector)
    return kernel, (m, n), (a, b), (1, m, n, k, 0, n, 1, 0, k, 1, 0, n, 1)


def of_taps(summed):
    """The same of a convolution of 3 × 3 at stride 2 in groups, or of the gradient of its weight."""

    def made(generator, vector):
        groups, filters, channels = 2, 70, 5
        x, w, y = (
            matrix(generator, "float32", shape, False)[0]
            for shape in ((3, groups * channels, 17, 15), (groups * filters, channels, 3, 3), (3, 140, 9, 8))
        )
        place = {"scale": (2, 2), "tap": (1, 1), "shift": (-1, -1), "places": (9, 8), "taps": (3, 3)}
        image = {"b_image": 2550, "b_channel": 255, "b_step": (15, 1), "size": (17, 15), "b_batch": 5 * 255}
        kernel = Product("float32", False, summed, False, vector, taps=2, summed=summed)
        if summed:
            sizes = {"batch": groups, "m": filters, "n": 45, "k": 3 * 72}
            c = {"c_batch": 70 * 45, "c_row": 45, "c_outer": 9, "c_step": (3, 1)}
            a = {"a_batch": 70 * 72, "a_row": 72, "a_outer": 140 * 72, "a_column": 1, "a_length": 72}
        else:
            sizes = {"batch": groups, "m": filters, "n": 3 * 72, "k": 45}
            c = {"c_batch": 70 * 72, "c_row": 72, "c_outer": 140 * 72, "c_step": (8, 1)}
            a = {"a_batch": 70 * 45, "a_row": 45, "a_outer": 0, "a_column": 1, "a_length": 45}
        numbers = schedule_gpu_tile.numbers(kernel, **sizes, **c, **a, **image, **place)
        return kernel, (140, 5, 3, 3) if summed else (3, 140, 9, 8), (y if summed else w, x), numbers

    return made


@needs_device
@pytest.mark.parametrize("vector", [1, 16])
@pytest.mark.parametrize(
    "made", [of_product, of_taps(False), of_taps(True)], ids=["product", "taps", "summed"]
)
def test_order_of_blocks_and_what_shared_memory_held_do_not_matter(made, vector, monkeypatch):
    if TYPE != "opencl":
        pytest.skip("the order is changed for OpenCL's devices")
    generator = np.random.default_rng(0)
    kernel, shape, operands, numbers = made(generator, vector)
    plain = flambeau.full(shape, float("nan")).to(TYPE)
    launch.run_blocks(kernel, (plain, *operands), numbers, (1.0, 0.0))
    count = kernel.blocks("spirv", numbers).blocks[0]
    assert count > 3 and not plain.isnan().any()
    orders = [f for f in (1, count - 1, 5, 7) if math.gcd(f, count) == 1]
    for factor in orders if made is of_product else orders[1:2]:
        offset = int(generator.integers(count))
        other, poisoned = disturbed(monkeypatch, kernel, count, factor, offset)
        result = flambeau.full(shape, float("nan")).to(TYPE)
        launch.run_blocks(other, (result, *operands), numbers, (1.0, 0.0))
        assert flambeau.equal(result.cpu(), plain.cpu()), (factor, offset)
        assert poisoned == ({"@left", "@right"} if vector == 1 else {"@left", "@right", "@sums"})


@needs_device
@pytest.mark.parametrize("vector", [1, 16])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_stored_is_any_expression_of_the_sum(vector, dtype):
    """Of sums with numbers for rows, and for columns; activations are computed before the one rounding."""
    if TYPE != "opencl":
        pytest.skip("vectors in threads are for OpenCL's CPU devices")
    generator = np.random.default_rng(0)
    m, k, n = 70, 20, 45
    (a, left), (b, right) = (matrix(generator, dtype, s, False) for s in ((m, k), (k, n)))
    sum = ex.input(0, "float32")
    negative = ex.compare("lt", sum, ex.const(0.0, "float32"))
    after = {
        "relu": (ex.where(negative, ex.const(0.0, "float32"), sum), lambda x: np.maximum(x, 0)),
        "silu": (sum / (1 + ex.call("exp", -sum)), lambda x: x / (1 + np.exp(-x))),
        "gelu": (0.5 * sum * (1 + ex.call("erf", sum * math.sqrt(0.5))), lambda x: x * special.ndtr(x)),
    }
    for addend, shape, steps in (("row", (m, 1), (0, 1, 0)), ("matrix", (1, n), (0, 0, 1))):
        d, bias = matrix(generator, dtype, shape, False)
        numbers = (1, m, n, k, 0, n, 1, 0, k, 1, 0, n, 1, *steps)
        for name, (expression, wanted) in after.items():
            kernel = Product(dtype, False, False, True, vector, addend, after=expression)
            result = flambeau.full((m, n), float("nan"), dtype=a.dtype).to(TYPE)
            launch.run_blocks(kernel, (result, a, b, d), numbers, (0.5, 2.0))
            expected = wanted(0.5 * left @ right + 2 * bias)
            error = np.abs(result.cpu().double().numpy() - expected)
            assert (error <= 2 * ROUNDING[dtype] * (1 + np.abs(left) @ np.abs(right))).all(), (addend, name)


@needs_device
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_layer_with_a_bias_is_one_kernel(dtype, monkeypatch):
    """The bias is read where it lies, broadcast; so is every addend."""
    if TYPE != "opencl":
        pytest.skip("CUDA's library may take it")
    generator, launched = np.random.default_rng(0), []

    def noted(kernel, *arguments):
        launched.append(kernel)
        launch.run_blocks(kernel, *arguments)

    monkeypatch.setattr(device_bodies, "run_blocks", noted)
    x, own = matrix(generator, dtype, (3, 5, 20), False)
    w, weight = matrix(generator, dtype, (45, 20), False)
    bias, b = matrix(generator, dtype, (45,), False)
    result = flambeau.nn.functional.linear(x, w, bias).cpu().double().numpy()
    magnitude = np.abs(own) @ np.abs(weight.T) + np.abs(b)
    assert (np.abs(result - (own @ weight.T + b)) <= ROUNDING[dtype] * magnitude).all()
    assert [k.addend for k in launched] == ["matrix"]
    x, w, own, weight = x[0], w[:5].t(), own[0], weight[:5].T
    for shape in ((), (1,), (5, 1), (1, 5), (5, 5)):
        c, numbers = matrix(generator, dtype, shape, False)
        result = flambeau.addmm(c, x, w, beta=0.5, alpha=2).cpu().double().numpy()
        magnitude = 2 * np.abs(own) @ np.abs(weight) + np.abs(numbers)
        assert (np.abs(result - (2 * own @ weight + 0.5 * numbers)) <= ROUNDING[dtype] * magnitude).all()
    assert [k.addend for k in launched[1:]] == ["row", "row", "row", "matrix", "matrix"]
    nothing = flambeau.full((5, 5), float("nan"), dtype=x.dtype).to(TYPE)
    assert not flambeau.addmm(nothing, x, w, beta=0).isnan().any() and launched[-1].addend == ""
    batch, other = x.expand(3, 5, 20), w.expand(3, 20, 5)
    for c in (flambeau.ones(5, 5), flambeau.ones(5)):
        result = flambeau.addbmm(c.to(x.dtype).to(TYPE), batch, other, beta=2).cpu().double().numpy()
        assert np.allclose(result, 3 * own @ weight + 2, atol=0.1 if dtype == "float16" else 1e-4)
        result = flambeau.baddbmm(c.to(x.dtype).to(TYPE), batch, other, beta=2).cpu().double().numpy()
        assert np.allclose(result, own @ weight + 2, atol=0.05 if dtype == "float16" else 1e-4)


def test_the_shape_follows_from_the_devices_vectors():
    kernel = Product("float32", False, False, False)
    assert [kernel.fitted(v).vector for v in (0, 1, 2, 4, 16)] == [1, 1, 1, 4, 16]
    lanes = {
        dtype: schedule_gpu_vectors.shape_for(Product(dtype, False, False, False, 16)).lanes
        for dtype in (*ROUNDING, *INTEGERS)
    }
    assert lanes["float64"] == lanes["int64"] == 8 and all(n in (8, 16) for n in lanes.values())
    shape = schedule_gpu_vectors.shape_for(kernel.fitted(16))
    assert kernel.fitted(16).blocks("spirv", (3, shape.rows + 1, 2 * shape.columns, 5)).blocks[0] == 3 * 2 * 2


def test_blocks_cover_the_result_once():
    for target, shape in schedule_gpu_products.SHAPES.items():
        assert shape.rows % schedule_gpu_products.SIDE == shape.columns % schedule_gpu_products.SIDE == 0
        assert shape.terms % schedule_gpu_products.UNROLLED == 0
        assert (
            shape.rows * shape.terms % schedule_gpu.BLOCK
            == shape.columns * shape.terms % schedule_gpu.BLOCK
            == 0
        )
        numbers = (3, shape.rows + 1, 2 * shape.columns, 5)
        assert (
            KERNELS[0].blocks(target, numbers).blocks[0] == 3 * 2 * 2
            and KERNELS[0].blocks(target, (0, 9, 9, 9)).blocks[0] == 0
        )


def test_spirv_and_amdgcn_are_emitted():
    for kernel in KERNELS[:: len(KERNELS) // 12]:
        assert tg.image(str(schedule_gpu.module_for(kernel, "spirv")), "spirv")[:4] == b"\x03\x02\x23\x07"
        machine = tg.machine("amdgcn")
        text = str(schedule_gpu.module_for(kernel, "amdgcn"))
        assembly = machine.emit_assembly(tg.optimised(text, machine, 3))
        assert "s_barrier" in assembly and "ds_write" in assembly and "scratch_store" not in assembly


def test_ptx_is_accepted_and_spills_no_registers(tmp_path):
    assembler = ptxas()
    if assembler is None:
        pytest.skip("there is no ptxas here")
    for number, kernel in enumerate(k for k in KERNELS if k.dtype in ("float32", "bfloat16", "int32")):
        path = tmp_path / f"{number}.ptx"
        path.write_text(tg.image(str(schedule_gpu.module_for(kernel, "nvptx")), "nvptx"))
        command = [assembler, "-v", "-arch=sm_90", "-o", str(tmp_path / "out.cubin"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr, done.stderr
