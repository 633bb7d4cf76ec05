"""Kernels for graphics processors: every target takes them, and OpenCL runs them with NumPy's results."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import inspect
import itertools
import os
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from flambeau.core.loops.launch import row_form
from ptx import ptxas

import flambeau as fb
from flambeau.codegen import expr as ex
from flambeau.codegen import kernels as kn
from flambeau.codegen import schedule_cpu as cpu
from flambeau.codegen import schedule_gpu as gpu
from flambeau.codegen import schedule_gpu_threads as gpu_threads
from flambeau.codegen import target as tg
from flambeau.codegen.expr import Expr
from flambeau.codegen.irtext import Value
from flambeau.codegen.kernels import BROADCAST, CONTIGUOUS, STRIDED, Operand, Pointwise, Row
from flambeau.codegen.math import EXPANSIONS
from flambeau.codegen.schedule_gpu_rows import most_held
from flambeau.operations.declare.indexed import scatter
from flambeau.operations.declare.pointwise import CODES
from flambeau.operations.neural.convolution import grid
from flambeau.operations.neural.pooling import pooling

Arrays = tuple[np.ndarray, ...]
BF16 = np.dtype(np.uint16)  # bfloat16 values are carried as their bits


# --- kernels ------------------------------
class Case(NamedTuple):
    """A kernel of contiguous float32 … inputs, and what NumPy says of it."""

    body: Callable[..., tuple[Expr, ...]]
    dtypes: tuple[str, ...]
    reference: Callable[..., tuple[np.ndarray, ...]]
    params: tuple[str, ...] = ()
    scalars: tuple = ()


def leaves(dtypes: tuple[str, ...], params: tuple[str, ...]) -> list[Expr]:
    inputs = [ex.input(k, dtype) for k, dtype in enumerate(dtypes)]
    return inputs + [ex.param(k, dtype) for k, dtype in enumerate(params)]


def pointwise(case: Case, access: str = CONTIGUOUS) -> Pointwise:
    outputs = case.body(*leaves(case.dtypes, case.params))
    inputs = tuple(Operand(dtype, access) for dtype in case.dtypes)
    return Pointwise("k", outputs, (access,) * len(outputs), inputs, case.params)


def row(case: Case, lanes_along: str = "r", access: str = CONTIGUOUS, inputs: str = "") -> Row:
    """`inputs` spells the access of each input where it is not `access` for all."""
    outputs = case.body(*leaves(case.dtypes, case.params))
    operands = tuple(Operand(d, a) for d, a in zip(case.dtypes, inputs or itertools.repeat(access)))
    return Row("k", outputs, (access,) * len(outputs), operands, case.params, lanes_along)


def gelu(x: Expr) -> Expr:
    return x / (1 + ex.call("exp", -1.5957691216057308 * x * (1 + 0.044715 * x * x)))


def integers(a: Expr, b: Expr) -> tuple[Expr, ...]:
    shifted = (a << (b & 31)) ^ (a >> 3)
    return ex.div(a, b), ex.rem(a, b), shifted, ex.minimum(a, b), ex.absolute(a), ~a


def integers_reference(a: np.ndarray, b: np.ndarray) -> Arrays:
    quotient = np.trunc(a / b).astype(a.dtype)
    return quotient, a - quotient * b, (a << (b & 31)) ^ (a >> 3), np.minimum(a, b), np.abs(a), ~a


def rounding(a: Expr, b: Expr) -> tuple[Expr, ...]:
    root = ex.sqrt(ex.absolute(a))
    return ex.floor(a), ex.ceil(a), ex.rint(a), ex.trunc(a), root, ex.copysign(a, b), ex.maximum(a, b)


def rounding_reference(a: np.ndarray, b: np.ndarray) -> Arrays:
    return (
        np.floor(a),
        np.ceil(a),
        np.rint(a),
        np.trunc(a),
        np.sqrt(abs(a)),
        np.copysign(a, b),
        np.maximum(a, b),
    )


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(np.float32)


POINTWISE = {
    "add_scalar": Case(
        lambda x, y, alpha: (x + alpha * y,),
        ("float32", "float32"),
        lambda x, y: (x + np.float32(0.3) * y,),
        ("float32",),
        (0.3,),
    ),
    "contraction": Case(  # rounded twice, and once
        lambda x, y: (x * y + x, ex.fma(x, y, x)),
        ("float32", "float32"),
        lambda x, y: (x * y + x, (x.astype("d") * y + x).astype("f")),
    ),
    "gelu": Case(
        lambda x: (gelu(x),),
        ("float32",),
        lambda x: (
            x / (1 + np.exp(-1.5957691216057308 * x.astype("d") * (1 + 0.044715 * x.astype("d") ** 2))),
        ),
    ),
    "from_float": Case(
        lambda x: tuple(ex.cast(x, d) for d in ("bool", "float16", "bfloat16", "int32", "float64")),
        ("float32",),
        lambda x: (x != 0, x.astype(np.float16), to_bfloat16(x), x.astype(np.int32), x.astype(np.float64)),
    ),
    "to_float": Case(
        lambda a, b, c, d: tuple(ex.cast(x, "float32") for x in (a, b, c, d)),
        ("bool", "float16", "bfloat16", "int8"),
        lambda a, b, c, d: (a.astype("f"), b.astype("f"), from_bfloat16(c), d.astype("f")),
    ),
    "half_product": Case(
        lambda x, a: (ex.cast(ex.cast(x, "float32") * a, "float16"),),
        ("float16",),
        lambda x: ((x.astype("f") * np.float32(1.5)).astype(np.float16),),
        ("float32",),
        (1.5,),
    ),
    "integers": Case(integers, ("int64", "int64"), integers_reference),
    "mulhi": Case(
        lambda a, b: (ex.mulhi(a, b),),
        ("uint32", "uint32"),
        lambda a, b: ((a.astype(np.uint64) * b >> np.uint64(32)).astype(np.uint32),),
    ),
    "rounding": Case(rounding, ("float32", "float32"), rounding_reference),
    "rounding_double": Case(rounding, ("float64", "float64"), rounding_reference),
    "where": Case(
        lambda a, b, flag, c: (ex.where((a < b) & ~flag, a, c * b), a >= b),
        ("float32", "float32", "bool"),
        lambda a, b, flag: (np.where((a < b) & ~flag, a, np.float32(2) * b), a >= b),
        ("float32",),
        (2.0,),
    ),
    "scalars": Case(  # of every kind that is passed by value
        lambda x, a, b, c, d: (ex.where(c, ex.cast(x, "int64") + b, ex.cast(d, "int64")), a),
        ("int32",),
        lambda x: (x + np.int64(1 << 40), np.full(x.shape, 0.1)),
        ("float64", "int64", "bool", "float16"),
        (0.1, 1 << 40, True, 0.5),
    ),
    "index": Case(
        lambda x: (ex.index() + ex.cast(x, "int64"),),
        ("int32",),
        lambda x: (7 + np.arange(x.size).reshape(x.shape) + x,),
    ),
}


def softmax(x: Expr) -> tuple[Expr, ...]:
    e = ex.call("exp", x - kn.max(x))
    return (e / kn.sum(e),)


def layer_norm(x: Expr, weight: Expr, bias: Expr, eps: Expr) -> tuple[Expr, ...]:
    centred = x - kn.mean(x)
    scale = ex.const(1.0, "float32") / ex.sqrt(kn.mean(centred * centred) + eps)
    return centred * scale * weight + bias, scale


def softmax_reference(x: np.ndarray) -> Arrays:
    e = np.exp(x.astype("d") - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True),)


def layer_norm_reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> Arrays:
    x = x.astype("d")
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return (x - x.mean(-1, keepdims=True)) * scale * weight + bias, scale[..., 0]


def best_reference(x: np.ndarray) -> Arrays:
    return x.max(-1), x.argmax(-1), x.min(-1), x.argmin(-1)


ROWS = {
    "sum": Case(lambda x: (kn.sum(x),), ("float32",), lambda x: (x.sum(-1, dtype="d"),)),
    "sum_half": Case(
        lambda x: (ex.cast(kn.sum(ex.cast(x, "float32")), "bfloat16"),),
        ("float16",),
        lambda x: (to_bfloat16(x.sum(-1, dtype="d")),),
    ),
    "best": Case(lambda x: (*kn.max_index(x), *kn.min_index(x)), ("float32",), best_reference),
    "best_integer": Case(lambda x: (*kn.max_index(x), *kn.min_index(x)), ("int8",), best_reference),
    "logic": Case(
        lambda x, y: (kn.any(x), kn.all(y), kn.sum(ex.cast(x, "int64"))),
        ("bool", "bool"),
        lambda x, y: (x.any(-1), y.all(-1), x.sum(-1)),
    ),
    "softmax": Case(softmax, ("float32",), softmax_reference),
    "layer_norm": Case(
        layer_norm, ("float32", "float32", "float32"), layer_norm_reference, ("float32",), (1e-5,)
    ),
    "from_start": Case(  # how far an element is from the first: an index within the row
        lambda x: (x - ex.index(1),), ("int64",), lambda x: (x - np.arange(x.shape[-1]),)
    ),
}


# --- every target takes every kernel ------------------------------
def images(target: str):
    for name, case in POINTWISE.items():
        for form in (gpu.Form(), gpu.Form(dims=3, wide=False)):
            yield name, gpu.module_for(pointwise(case), target, form)
    for name, case in ROWS.items():
        for lanes_along, form in (
            ("r", gpu.Form(width=1)),
            ("r", gpu.Form(width=256)),
            ("r", gpu.Form(2, 2, 32, False)),
            ("r", gpu.Form(width=64, held=4)),
            ("k", gpu.Form(2, 1, 4)),
            ("k", gpu.Form(2, 1, 4, held=2)),
        ):
            yield name, gpu.module_for(row(case, lanes_along), target, form)
    running = row(Case(scanned, ("float32",), scanned_reference))
    for form in (gpu.Form(), gpu.Form(width=256), gpu.Form(width=256, held=2)):
        yield "scan", gpu.module_for(running, target, form)


def math_kernel(name: str, dtype: str) -> Pointwise:
    arguments = [ex.input(k, dtype) for k in range(len(inspect.signature(EXPANSIONS[name]).parameters))]
    operands = (Operand(dtype, CONTIGUOUS),) * len(arguments)
    return Pointwise("m", (ex.call(name, *arguments),), (CONTIGUOUS,), operands, ())


def test_amdgcn_objects_hold_the_kernel():
    for name, module in images("amdgcn"):
        code = tg.image(str(module), "amdgcn")
        assert code[:4] == b"\x7fELF", name
        assert b"\0kernel\0" in code and b"\0kernel.kd\0" in code, name


def test_spirv_is_emitted():
    for name, module in images("spirv"):
        code = tg.image(str(module), "spirv")
        assert code[:4] == b"\x03\x02\x23\x07" and b"kernel\0" in code, name


def test_ptx_is_accepted_by_the_assembler(tmp_path):
    written = []
    functions = itertools.product(EXPANSIONS, ("float32", "float64"))
    of_math = ((name, gpu.module_for(math_kernel(name, dtype), "nvptx")) for name, dtype in functions)
    for number, (name, module) in enumerate(itertools.chain(images("nvptx"), of_math)):
        code = tg.image(str(module), "nvptx")
        assert ".entry kernel(" in code and f".reqntid {gpu.BLOCK}" in code, name
        # One file a kernel: ptxas takes several, and starting it costs more than what it does.
        written.append(tmp_path / f"{number}_{name}.ptx")
        written[-1].write_text(
            code.replace("kernel", f"kernel{number}").replace("shared_", f"shared{number}_")
        )
    assembler = ptxas()
    if assembler is None:
        pytest.skip("PTX is emitted, but there is no ptxas here to check it")
    done = subprocess.run(
        [assembler, "-arch=sm_90", "-c", "-o", str(tmp_path / "all.cubin"), *map(str, written)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_spirv_modules_are_numbered_apart():
    """Many in a row, so that target machines come to lie where earlier ones lay."""
    modules = [str(module) for _, module in itertools.islice(images("spirv"), 12)]
    for text in modules * 3:
        assert tg.labels_apart(tg.image(text, "spirv"))


def test_products_and_sums_are_not_contracted():
    """Rounding is the expression's: an fma where it says so, and nowhere else."""
    ptx = tg.image(str(gpu.module_for(pointwise(POINTWISE["contraction"]), "nvptx")), "nvptx")
    assert ptx.count("fma.rn.f32") == ptx.count("mul.rn.f32") == ptx.count("add.rn.f32") > 0
    machine = tg.machine("amdgcn")
    text = str(gpu.module_for(pointwise(POINTWISE["contraction"]), "amdgcn"))
    gcn = machine.emit_assembly(tg.optimised(text, machine, 3))
    assert gcn.count("v_mul_f32") == gcn.count("v_add_f32") == gcn.count("v_fma") > 0  # v_fma_f32, v_fmac_f32
    assert "v_mad_f32" not in gcn and "v_mac_f32" not in gcn


def test_module_for_rejects_forms_that_no_kernel_takes():
    kernel = row(ROWS["sum"])
    with pytest.raises(ValueError, match="module_for: form.width is 48"):
        gpu.module_for(kernel, "nvptx", gpu.Form(width=48))
    with pytest.raises(ValueError, match="module_for: form.width is 512"):
        gpu.module_for(kernel, "nvptx", gpu.Form(width=512))
    with pytest.raises(ValueError, match="module_for: form.dims is 0"):
        gpu.module_for(kernel, "nvptx", gpu.Form(dims=0))
    with pytest.raises(ValueError, match="module_for: form.held is 3; 0 or a power of two up to 32"):
        gpu.module_for(kernel, "nvptx", gpu.Form(width=8, held=3))


def test_parameters_of_a_row_kernel():
    names = [name for name, _ in gpu.parameters(row(ROWS["layer_norm"]), gpu.Form(dims=2))]
    assert names[:4] == ["data0", "offset0", "data1", "offset1"]
    assert names[10:18] == ["size0", "size1", "size2", "total", "first", "step0", "step1", "stride0_0"]
    assert names[-2:] == ["stride4_2", "scalar0"]


@pytest.mark.parametrize("along", [True, False])
def test_the_form_of_a_row_holds_it_or_leaves_no_thread_without_work(along):
    lengths = (0, 1, 5, 31, 33, 100, 1000, 1024, 1025, 4096, 4097, 10**6)
    for length, rows, lanes, most in itertools.product(lengths, (1, 60, 10**5), (16, 32), (0, 1, 4, 16, 32)):
        width, held = row_form(length, rows, along, lanes, most)
        assert width & (width - 1) == 0 and 1 <= width <= (gpu.BLOCK if along else gpu.BLOCK // 32)
        assert width <= max(8, 2 * length - 1)
        assert held in (0, min(most, 4), min(most, 16), most) and (held == 0 or 0 < length <= width * held)
        if along and 0 < length <= gpu.BLOCK * most:
            assert held
    assert row_form(8192, 4096, True, 32, 32) == (gpu.BLOCK, 32) and row_form(4096, 9, True, 32, 32)[1] == 16
    assert row_form(10**6, 10, True, 32, 16) == (gpu.BLOCK, 0)
    assert row_form(10**6, 10**6, False, 32, 16) == (1, 0)
    assert row_form(1024, 4096, True, 32, 0) == (32, 0)  # a warp a row
    assert row_form(1024, 4096, True, 32, 16) == (64, 16)  # two that hold it
    assert row_form(1024, 8, True, 32, 16) == (gpu.BLOCK, 4)  # few rows: all threads of a block
    assert row_form(10, 10**5, False, 32, 16) == (1, 16)


def test_how_many_elements_are_held():
    """As many as a quarter of the registers takes of what is read more than once; a scan's states lie in shared memory."""
    held = {name: most_held(row(case), "nvptx") for name, case in ROWS.items()}
    assert held == dict.fromkeys(ROWS, 0) | {"softmax": 32, "layer_norm": 32}
    three = Case(lambda x, y, z: ((x * y + z) / kn.sum(x * y * z),), ("float64",) * 3, lambda *arrays: arrays)
    assert most_held(row(three), "nvptx") == 8
    scan = row(Case(scanned, ("float32",), scanned_reference))  # of 8, 4 and 8 bytes
    assert most_held(scan, "nvptx") == 2


def test_groups():
    assert gpu.groups(0) == 1
    assert gpu.groups(257) == 2
    assert gpu.groups(10, width=256) == 10
    assert gpu.groups(10**9, most=64) == 64


# --- SPIR-V runs ------------------------------
@functools.cache
def opencl():
    """Bindings, context and queue of the first OpenCL device that takes SPIR-V; skips where there is none."""
    cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    if "OCL_ICD_VENDORS" not in os.environ:
        try:  # pip's Intel runtime registers itself with a path of the machine where it was packed
            files = importlib.metadata.files("intel-opencl-rt") or []
        except importlib.metadata.PackageNotFoundError:
            files = []
        library = next((f.locate() for f in files if f.name == "libintelocl.so"), None)
        if library is not None:
            folder = tempfile.mkdtemp()
            pathlib.Path(folder, "intel.icd").write_text(str(pathlib.Path(library).resolve()))
            os.environ["OCL_ICD_VENDORS"] = folder
    try:
        platforms = cl.get_platforms()
    except cl.LogicError:
        platforms = []
    for device in itertools.chain.from_iterable(p.get_devices() for p in platforms):
        if "SPIR-V" in getattr(device, "il_version", ""):
            context = cl.Context([device])
            return cl, context, cl.CommandQueue(context)
    pytest.skip("no OpenCL device that takes SPIR-V")


@functools.cache
def built(text: str):
    """The loaded kernel."""
    cl, context, _ = opencl()
    program = cl.Program(context, tg.image(text, "spirv")).build(list(gpu.OPENCL_OPTIONS))
    return cl.Kernel(program, gpu_threads.SYMBOL)


def run(
    kernel: Pointwise | Row,
    form: gpu.Form,
    outputs: Arrays,
    inputs: Arrays,
    *,
    shape: tuple[int, ...],
    scalars: tuple = (),
    groups: int = 2,
    first: int = 0,
    total: int | None = None,
    steps: tuple = (),
) -> None:
    """Launch on views of NumPy arrays, whose strides become the kernel's; the outputs are written to.

    Operands with fewer dimensions than `shape` stay where they are along the last ones.
    """
    cl, context, queue = opencl()
    given: dict[str, object] = {"first": first, "total": shape[-1] if total is None else total}
    given |= {f"size{d}": n for d, n in enumerate(shape)}
    given |= {f"step{d}": steps[d] if steps else 0 for d in range(form.dims)}
    given |= {f"scalar{k}": value for k, value in enumerate(scalars)}
    buffers = []
    for k, array in enumerate((*outputs, *inputs)):
        whole = array if array.base is None else array.base
        while whole.base is not None:
            whole = whole.base
        start = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        strides = [s // array.itemsize for s in array.strides] + [0] * (len(shape) - array.ndim)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers.append(cl.Buffer(context, flags, hostbuf=whole))
        given |= {f"data{k}": buffers[-1], f"offset{k}": start // array.itemsize}
        given |= {f"stride{k}_{d}": s for d, s in enumerate(strides)}
    kind = {"i64": np.int64, "float": np.float32, "double": np.float64}
    arguments = [
        given[n] if t == gpu_threads.POINTER else kind[t](given[n]) for n, t in gpu.parameters(kernel, form)
    ]
    function = built(str(gpu.module_for(kernel, "spirv", form)))
    function.set_args(*arguments)
    cl.enqueue_nd_range_kernel(queue, function, (groups * gpu.BLOCK,), (gpu.BLOCK,))
    for array, buffer in zip(outputs, buffers):
        whole = array if array.base is None else array.base
        cl.enqueue_copy(queue, whole, buffer)


def memory(dtype: str) -> np.dtype:
    return BF16 if dtype == "bfloat16" else np.dtype(dtype)


def sample(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed + len(dtype))
    if dtype == "bool":
        return random.random(shape) < 0.5
    if dtype == "bfloat16":
        return to_bfloat16(random.standard_normal(shape))
    if ex.is_float(dtype):
        return (3 * random.standard_normal(shape)).astype(dtype)
    values = random.integers(-100 if ex.is_signed(dtype) else 0, 100, shape).astype(dtype)
    return np.where(values == 0, 1, values).astype(dtype)


def empty(kernel: Pointwise | Row, shapes: list[tuple[int, ...]]) -> Arrays:
    """Outputs filled with rubbish."""
    return tuple(
        np.full(s, 1, dtype=np.uint8).view(bool) if e.dtype == "bool" else np.full(s, 77, memory(e.dtype))
        for e, s in zip(kernel.outputs, shapes)
    )


def assert_same(got: Arrays, wanted: Arrays, ulps: int = 0) -> None:
    assert len(got) == len(wanted)
    for k, (a, b) in enumerate(zip(got, wanted)):
        b = np.asarray(b).astype(a.dtype)
        if ulps and a.dtype.kind == "f":
            np.testing.assert_allclose(
                a, b, rtol=ulps * np.finfo(a.dtype).eps, atol=1e-5, err_msg=f"output {k}"
            )
        else:
            np.testing.assert_array_equal(a, b, err_msg=f"output {k}")


def layouts(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same values not at the beginning of their buffer: contiguous, and every other element."""
    flat = np.concatenate([np.zeros(3, array.dtype), array.ravel()])[3:]
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
    wide[..., 1::2] = array
    return flat.reshape(array.shape), wide[..., 1::2]


@pytest.mark.parametrize("n", [1, 700, 5000])  # 512 threads: none goes on, some do, all take several at once
@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise_kernels_run(name, n):
    case = POINTWISE[name]
    kernel = pointwise(case)
    inputs = tuple(layouts(sample(dtype, (n,), k))[0] for k, dtype in enumerate(case.dtypes))
    outputs = empty(kernel, [(n,)] * len(kernel.outputs))
    run(kernel, gpu.Form(), outputs, inputs, scalars=case.scalars, shape=(n,), first=7)
    assert_same(outputs, case.reference(*inputs), ulps=8 if name == "gelu" else 0)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("access", [CONTIGUOUS, STRIDED])
def test_pointwise_over_three_dimensions(access, wide):
    case, shape = POINTWISE["where"], (3, 5, 70)
    kernel = pointwise(case, access)
    inputs = tuple(layouts(sample(dtype, shape, k))[access == STRIDED] for k, dtype in enumerate(case.dtypes))
    inputs = (inputs[0], np.broadcast_to(inputs[1][:, :1], shape), inputs[2])  # the same for all rows
    outputs = empty(kernel, [shape] * len(kernel.outputs))
    run(kernel, gpu.Form(3, wide=wide), outputs, inputs, scalars=case.scalars, shape=shape)
    assert_same(outputs, case.reference(*inputs))


def test_pointwise_with_a_broadcast_operand_in_place():
    x = sample("float32", (4, 300))
    per_row = sample("float32", (4, 1), 1)
    a, b = leaves(("float32", "float32"), ())
    kernel = Pointwise(
        "k", (a * b,), (CONTIGUOUS,), (Operand("float32", CONTIGUOUS), Operand("float32", BROADCAST)), ()
    )
    out = np.empty_like(x)
    run(kernel, gpu.Form(2), (out,), (x, np.broadcast_to(per_row, x.shape)), shape=x.shape)
    assert_same((out,), (x * per_row,))


def output_shapes(kernel: Row, shape: tuple[int, ...], dims: int) -> list[tuple[int, ...]]:
    varying = kn.varies(kernel.outputs, [True] * len(kernel.inputs))
    return [shape if varying[id(e)] else shape[:dims] for e in kernel.outputs]


SHAPES = [(3, 1), (5, 37), (40, 8), (2, 3000)]
WIDTHS = [(width, 0) for width in (1, 8, 256)]


@pytest.mark.parametrize(
    "shape, width, held", [(s, *w) for s in SHAPES for w in WIDTHS] + [((5, 37), 8, 8), ((2, 3000), 256, 16)]
)
@pytest.mark.parametrize("name", ROWS)
def test_row_kernels_run(name, width, held, shape):
    case = ROWS[name]
    kernel = row(case)
    inputs = tuple(layouts(sample(dtype, shape, k))[0] for k, dtype in enumerate(case.dtypes))
    if name == "layer_norm":
        inputs = (inputs[0], *(np.broadcast_to(x[:1], shape) for x in inputs[1:]))
    if name == "best" and shape[1] > 1:
        inputs[0][1, 3:5] = np.nan
    if name == "sum_half":
        inputs = (np.rint(inputs[0]),)  # sums of integers are exact, in whatever order
    outputs = empty(kernel, output_shapes(kernel, shape, 1))
    run(kernel, gpu.Form(width=width, held=held), outputs, inputs, scalars=case.scalars, shape=shape)
    assert_same(outputs, case.reference(*inputs), ulps=64)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("width, held", [(1, 0), (4, 0), (256, 0), (8, 4)])
@pytest.mark.parametrize("name", ["sum", "best", "softmax"])
def test_threads_on_neighbouring_rows(name, width, held, wide):
    """Rows that are columns in memory."""
    case, shape = ROWS[name], (70, 23)
    kernel = row(case, "k")
    memory = sample("float32", shape[::-1])
    outputs = empty(kernel, [s[::-1] for s in output_shapes(kernel, shape, 1)])
    views = tuple(out.T for out in outputs)
    run(kernel, gpu.Form(width=width, wide=wide, held=held), views, (memory.T,), shape=shape)
    assert_same(views, case.reference(memory.T), ulps=64)


@pytest.mark.parametrize("wide", [True, False])
def test_rows_and_folds_over_two_dimensions(wide):
    """Sum over dimensions 0 and 2 of four, in one launch."""
    x = sample("float32", (6, 5, 7, 4))
    shape = (5, 4, 6, 7)  # the dimensions that stay, then those that are folded
    kernel = row(ROWS["best"], access=STRIDED)
    outputs = empty(kernel, [shape[:2]] * 4)
    moved = x.transpose(1, 3, 0, 2)
    run(kernel, gpu.Form(2, 2, 16, wide), outputs, (moved,), shape=shape, total=42)
    assert_same(outputs, best_reference(moved.reshape(5, 4, 42)))


def test_rows_with_an_input_of_one_value_a_row():
    x, y = leaves(("float32", "float32"), ())
    operands = (Operand("float32", CONTIGUOUS), Operand("float32", BROADCAST))
    kernel = Row("k", (x * y, y * kn.sum(x * y)), (CONTIGUOUS,) * 2, operands, (), "r")
    a, b = sample("float32", (9, 50)), sample("float32", (9, 1), 1)
    outputs = empty(kernel, [(9, 50), (9,)])
    run(kernel, gpu.Form(width=64), outputs, (a, np.broadcast_to(b, a.shape)), shape=a.shape)
    assert_same(outputs, (a * b, b[:, 0] * (a * b).sum(1)), ulps=64)


@pytest.mark.parametrize("lanes_along", ["r", "k"])
def test_a_row_folded_in_blocks(lanes_along):
    """Two stages, the last block shorter than the others: states of each block, then the states of all."""
    case, rows, length, block = ROWS["best"], 3, 1003, 100
    blocks = -(-length // block)
    x = np.concatenate([sample("float32", (rows, length)).ravel(), np.full(1000, 1e9, np.float32)])
    parts = np.lib.stride_tricks.as_strided(x, (rows, blocks, block), (4 * length, 4 * block, 4))
    stages = kn.stages(case.body(*leaves(case.dtypes, ())))
    first = Row("k", stages.partial, (STRIDED,) * 4, (Operand("float32", STRIDED),), (), lanes_along)
    states = empty(first, [(rows, blocks)] * 4)
    run(first, gpu.Form(2, 1, 16), states, (parts,), shape=parts.shape, total=length, steps=(0, block))
    operands = tuple(Operand(e.dtype, CONTIGUOUS) for e in stages.partial)
    second = Row("k", stages.final, (CONTIGUOUS,) * 4, operands, (), "r")
    outputs = empty(second, [(rows,)] * 4)
    run(second, gpu.Form(width=16), outputs, states, shape=(rows, blocks), total=length)
    assert_same(outputs, best_reference(x[: rows * length].reshape(rows, length)))


def scanned(x: Expr) -> tuple[Expr, ...]:
    value, place = kn.running_max_index(x)
    return kn.running_sum(ex.cast(x, "float64")), value, place


def scanned_reference(x: np.ndarray) -> Arrays:
    best = np.maximum.accumulate(x, 1)
    where = np.maximum.accumulate(np.where(x == best, np.arange(x.shape[1]), 0), 1)
    return x.astype(np.float64).cumsum(1), best, where


@pytest.mark.parametrize("shape", [(3, 1), (5, 37), (4, 256), (2, 3000)])
@pytest.mark.parametrize("lanes_along, width, held", [("r", 1, 0), ("r", 256, 0), ("r", 256, 4), ("k", 1, 0)])
def test_scans_run(lanes_along, width, held, shape):
    """A thread a row, a block a row, and neighbouring threads on neighbouring columns."""
    case = Case(scanned, ("float32",), scanned_reference)
    kernel, x = row(case, lanes_along), np.round(sample("float32", shape) * 4)
    outputs = empty(kernel, [shape] * 3)
    if lanes_along == "k":
        outputs, x = tuple(np.ascontiguousarray(o.T) for o in outputs), np.ascontiguousarray(x.T)
        run(kernel, gpu.Form(width=width), tuple(o.T for o in outputs), (x.T,), shape=shape)
        outputs, x = tuple(o.T for o in outputs), x.T
    else:
        run(kernel, gpu.Form(width=width, held=held), outputs, (x,), shape=shape)
    assert_same(tuple(outputs), scanned_reference(x))


def test_a_scan_takes_one_thread_a_row_or_a_whole_block():
    with pytest.raises(ValueError, match="a scan takes 1 thread a row, or 256"):
        gpu.module_for(row(Case(scanned, ("float32",), scanned_reference)), "nvptx", gpu.Form(width=32))


def spoiled(text: str) -> str:
    """The kernel with all bytes of its shared memory set first."""
    lines = []
    for name, count, kind in re.findall(
        r"(@shared_\w+) = internal addrspace\(3\) global \[(\d+) x (\w+)\]", text
    ):
        size = {"i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8}[kind]
        for k in range(0, int(count) * size, gpu.BLOCK):
            at = f"%spoil{len(lines)}"
            if int(count) * size < gpu.BLOCK:  # all threads that have a byte, others the last
                lines.append(f"  {at}n = call i64 @llvm.umin.i64(i64 %spoiler, i64 {int(count) * size - 1})")
            else:
                lines.append(f"  {at}n = add i64 %spoiler, {min(k, int(count) * size - gpu.BLOCK)}")
            lines.append(f"  {at} = getelementptr i8, ptr addrspace(3) {name}, i64 {at}n")
            lines.append(f"  store i8 -1, ptr addrspace(3) {at}, align 1")
    head = ["  %spoiler = call spir_func i64 @_Z12get_local_idj(i32 0)"]
    tail = ["  call spir_func void @_Z7barrierj(i32 1) convergent"]
    text = text.replace("entry:\n", "\n".join(["entry:", *head, *lines, *tail, ""]), 1)
    return text + "\ndeclare i64 @llvm.umin.i64(i64, i64)\n"


@pytest.mark.parametrize(
    "name, form",
    [
        ("best", gpu.Form(width=256)),
        ("layer_norm", gpu.Form(width=8, held=8)),
        ("scan", gpu.Form(width=256, held=2)),
    ],
)
def test_blocks_in_another_order_with_spoiled_memory(monkeypatch, name, form):
    """The last block takes the place of the first, and so on, and shared memory holds rubbish at first: results have the same bits."""
    case = Case(scanned, ("float32",), scanned_reference) if name == "scan" else ROWS[name]
    kernel, shape = row(case), (21, 60 if form.width == 8 else 700)
    inputs = tuple(sample(dtype, shape, k) for k, dtype in enumerate(case.dtypes))
    found, made, number_of, texts = [], built, gpu_threads.Threads.block, []

    def another(threads):
        f = threads.f
        last = f.add(threads.blocks(), Value("i64", "-1"))
        return f.binary("sub", last, number_of(threads))

    def spoiling(text: str):
        texts.append(text)
        return made(spoiled(text))

    for disturbed in (False, True):
        if disturbed:
            monkeypatch.setattr(gpu_threads.Threads, "block", another)
            monkeypatch.setitem(globals(), "built", spoiling)
        outputs = empty(kernel, output_shapes(kernel, shape, 1))
        run(kernel, form, outputs, inputs, scalars=case.scalars, shape=shape, groups=4)
        found.append(outputs)
    assert "@shared_" in texts[0] and spoiled(texts[0]) != texts[0]
    for a, b in zip(*found):
        np.testing.assert_array_equal(a, b)


def test_sums_do_not_depend_on_the_number_of_blocks():
    kernel, x = row(ROWS["sum"]), sample("float32", (50, 1000))
    results = []
    for groups in (1, 3, 50):
        out = np.empty(50, np.float32)
        run(kernel, gpu.Form(width=32), (out,), (x,), shape=x.shape, groups=groups)
        results.append(out)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_empty_rows_give_the_identity():
    kernel, out = row(ROWS["logic"]), empty(row(ROWS["logic"]), [(4,)] * 3)
    inputs = (np.zeros((4, 1), bool), np.zeros((4, 1), bool))
    run(kernel, gpu.Form(width=8), out, inputs, shape=(4, 0))
    assert_same(out, (np.zeros(4, bool), np.ones(4, bool), np.zeros(4)))


serial = itertools.count()


def on_the_cpu(kernel: Pointwise, out: np.ndarray, inputs: Arrays) -> None:
    """The CPU's code for a kernel of contiguous operands and no scalars."""
    symbol = f"{kernel.name}_{next(serial)}"
    text = str(cpu.module_for(kernel, tg.llvm().get_process_triple())).replace("@kernel", f"@{symbol}")
    address = tg.load(tg.host_object(text), symbol)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(address)
    operands = (out, *inputs)
    data = np.array([a.ctypes.data for a in operands], np.uint64)
    geometry = np.array([out.size, 1, 0, out.size, *[1] * len(operands), *[0] * len(operands)], np.int64)
    function(data.ctypes.data, geometry.ctypes.data, np.zeros(1).ctypes.data)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(EXPANSIONS))
def test_math_functions_give_the_same_bits_as_on_the_cpu(name, dtype):
    """On bit patterns at random, which meet every exponent, on ordinary numbers and on special ones."""
    kernel, random = math_kernel(name, dtype), np.random.default_rng(len(name))
    bits = np.dtype(np.uint32 if dtype == "float32" else np.uint64)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e-40, 1e-310, 1e38]
    inputs = []
    for _ in kernel.inputs:
        patterns = random.integers(0, np.iinfo(bits).max, 3000, dtype=bits).view(dtype)
        ordinary = 3 * random.standard_normal(3000)
        inputs.append(
            random.permutation(np.concatenate([patterns, ordinary.astype(dtype), np.array(special, dtype)]))
        )
    wanted, got = np.empty_like(inputs[0]), np.empty_like(inputs[0])
    on_the_cpu(kernel, wanted, tuple(inputs))
    run(kernel, gpu.Form(), (got,), tuple(inputs), shape=got.shape, groups=4)
    number = ~np.isnan(wanted)  # what bits a NaN has is left open
    np.testing.assert_array_equal(~np.isnan(got), number)
    np.testing.assert_array_equal(got[number].view(bits), wanted[number].view(bits))


# --- indexed kernels ------------------------------
def traced(op, outputs: Arrays, inputs: Arrays, axes: int, serial: int = 0, **params):
    """The kernel that a declared operation makes for these arrays."""
    signature = tuple(CODES[a.dtype.name] | 1 << 5 | a.ndim << 6 for a in (*outputs, *inputs))
    return op.kernel(signature, True, params, len(outputs), axes, serial, False)


def indexed_cases():
    x = np.random.default_rng(3).standard_normal((6, 9, 13)).astype("f")
    index = np.random.default_rng(4).integers(0, 9, 40)
    window = {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}
    yield "maxima", pooling.window_max_only, (np.zeros((6, 5, 11), "f"),), (x,), (6, 5, 11), 0, window
    image, weight = x.reshape(2, 3, 9, 13), sample("float32", (4, 3, 2, 2))
    stride = {"stride": (1, 2), "before": (0, 1), "dilation": (1, 1), "filters": 4}
    yield (
        "convolution",
        grid.direct,
        (np.zeros((2, 4, 8, 7), "f"),),
        (image, weight),
        (2, 4, 8, 7),
        0,
        stride,
    )
    rows = sample("float32", (40, 5))
    yield "scatter", add_rows, (np.zeros((9, 5), "f"),), (index, rows), (5, 40), 1, {}


@scatter()
def add_rows(at, out, index, src):
    column, i = at
    return out.store((at.checked(index[i], out.size(0)), column), src[i, column], "add")


@pytest.mark.parametrize("target", ["nvptx", "amdgcn", "spirv"])
def test_indexed_kernels_are_emitted(target):
    for name, op, outputs, inputs, axes, serial, params in indexed_cases():
        kernel = traced(op, outputs, inputs, len(axes), serial, **params)
        assert len(tg.image(str(gpu.module_for(kernel, target)), target)) > 500, name


@pytest.mark.parametrize("case", list(indexed_cases()), ids=lambda c: c[0])
def test_indexed_kernels_give_what_the_processor_gives(case):
    _, op, outputs, inputs, axes, serial, params = case
    kernel = traced(op, outputs, inputs, len(axes), serial, **params)
    cl, context, queue = opencl()
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    fault, given = np.zeros(1, np.int64), {f"extent{d}": n for d, n in enumerate(axes)}
    given["fault"] = cl.Buffer(context, flags, hostbuf=fault)
    for k, array in enumerate((*outputs, *inputs)):
        given |= {f"data{k}": cl.Buffer(context, flags, hostbuf=array), f"offset{k}": 0}
        given |= {f"size{k}_{d}": n for d, n in enumerate(array.shape)}
        given |= {f"stride{k}_{d}": s // array.itemsize for d, s in enumerate(array.strides)}
    given |= {f"scalar{k}": v for k, v in enumerate(v for n, v in params.items() if n not in op.static)}
    kind = {"i64": np.int64, "double": np.float64}
    arguments = [
        given[n] if t == gpu_threads.POINTER else kind[t](given[n]) for n, t in gpu.parameters(kernel)
    ]
    function = built(str(gpu.module_for(kernel, "spirv")))
    function.set_args(*arguments)
    cl.enqueue_nd_range_kernel(queue, function, (2 * gpu.BLOCK,), (gpu.BLOCK,))
    found = np.empty_like(outputs[0])
    cl.enqueue_copy(queue, found, given["data0"])
    cl.enqueue_copy(queue, fault, given["fault"])
    out = fb.from_numpy(outputs[0].copy())
    op.run((out,), tuple(map(fb.from_numpy, inputs)), axes, serial, True, params)
    np.testing.assert_array_equal(found, out.numpy())
    assert fault[0] == 0
