"""Sizes, strides, offsets and bytes near the ends of 64 bits: an error or a right answer, in whatever operation they are given.

The searches run the calls of `extreme_calls.py` and all operations of the registry in child processes (`extremes.py`).
`FLAMBEAU_WIDE_SEARCH=1` tries more numbers.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau import cpu
from flambeau.nn import functional as F
from flambeau.operations.declare.registry import REGISTRY


def _load(name: str):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


calls, extremes = _load("extreme_calls"), _load("extremes")

WIDE = "FLAMBEAU_WIDE_SEARCH" in os.environ
VALUES = [1 << 31, (1 << 32) + 1, 1 << 62, (1 << 63) - 1, -(1 << 63)]
if WIDE:
    VALUES += [1 << 32, (1 << 33) + 2, 1 << 40, 1 << 61, (1 << 62) + 1, 1 << 63, 1 << 70]
    VALUES += [-(1 << 31), -(1 << 62), -(1 << 63) - 1]
PARTS = 8


# --- the searches ------------------------------
@pytest.fixture
def child():
    found = extremes.Child(timeout=20)
    yield found
    found.end()


@pytest.mark.parametrize("part", range(PARTS))
def test_numbers_near_the_ends_of_64_bits(child, part):
    """Each number of each call in turn: no crash, no hang, no tensor beyond its storage, no other result than with 1009."""
    wrong, asked = [], 0
    for call in calls.SAMPLES[part::PARTS]:
        assert child.ask(call) == "result", call
        for place in range(calls.places(call)):
            for value in VALUES:
                changed = calls.replaced(call, place, value)
                merely_large = calls.replaced(call, place, 1009 if value > 0 else -1009)
                found = child.ask(changed, None if call in calls.DATA else merely_large)
                asked += 1
                if found.startswith("bad"):
                    wrong.append(f"{changed}: {found}")
    assert not wrong, "\n".join(wrong)
    assert asked > 300


# Operations that read every element and need no memory for it: right, but not in this lifetime.
ENDLESS = frozenset(
    """
    logsumexp masked.logsumexp take take_along_dim histogram histogramdd svd_lowrank nn.functional.hinge_embedding_loss
    nn.functional.adaptive_avg_pool3d conv2d
    nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d
    """.split()
)
FORMS = [
    "({0})",
    "({0}, {0})",
    "({0}, {0}, {0})",
    "({0}, 0)",
    "({0}, 1)",
    "({0}, 2)",
    "({0}, 0, {1})",
    "([{0}, {0}])",
    "({0}, {2})",
]
GIANTS = [
    (("v", "i", "v > 2"), ("giant(2**62)", "giant(2**62, dtype=t.int64)", "giant(2**62, dtype=t.bool)")),
    (
        ("m", "i", "m > 2"),
        ("giant(2**31, 2**31)", "giant(2**31, dtype=t.int64)", "giant(2**31, 2**31, dtype=t.bool)"),
    ),
    (
        ("im", "i", "im > 2"),
        ("giant(2, 1, 2, 2**58)", "giant(2**61, dtype=t.int64)", "giant(2, 1, 2, 2**58, dtype=t.bool)"),
    ),
]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_operation_on_more_elements_than_memory_has(child, part):
    """Expanded tensors of 2^62 elements, in every way in which an operation takes small ones."""
    wrong, asked = [], 0
    places = sorted({e.places[0] for e in REGISTRY.values() if e.places} - ENDLESS)
    for place in places[part::PARTS]:
        for form in FORMS:
            for small, giant in GIANTS if WIDE else GIANTS[:2]:
                if child.ask(f"t.{place}{form.format(*small)}") != "result":
                    continue
                found = child.ask(f"t.{place}{form.format(*giant)}")
                asked += 1
                if found.startswith("bad"):
                    wrong.append(f"{place}{form.format(*giant)}: {found}")
    assert not wrong, "\n".join(wrong)
    assert asked > 50


# --- what is known ------------------------------
BEYOND = """
t.empty(2**62)
t.empty(2**61)
t.full((2**62,), 1.0)
t.randn(2**62)
t.zeros(2**32, 2**32)
t.empty(2**62, 4, 0)
t.empty_strided((2,), (2**62,))
giant(2**62).clone()
giant(2**62) + 1
giant(2**62).sort()
giant(2**62).cumsum(0)
giant(2**62).tolist()
t.outer(giant(2**32), giant(2**32))
t.ones(3).resize_(2**62)
t.eye(2**62)
t.tril_indices(2**32, 2**32)
t.triu_indices(2**62, 2**62, -2**62)
t.bincount(t.tensor([2**62]))
t.ones(2).repeat_interleave(t.tensor([2**40, 1]))
F.pad(t.ones(4), (2**60, 0))
t.combinations(t.ones(100), 50)
t.UntypedStorage(2**62)
giant(2**40).unbind(0)
t.ones(4).tensor_split(2**30 * 2**10)
"""


@pytest.mark.parametrize("call", BEYOND.strip().split("\n"))
def test_memory_that_no_machine_has_is_refused_with_the_bytes(call):
    with pytest.raises(flambeau.OutOfMemoryError, match=r"cannot allocate \d{10,} bytes"):
        eval(call, extremes.names(flambeau))


REFUSED = """
RuntimeError | giant(2**62, 4) | integer multiplication overflow
RuntimeError | v.as_strided((2**62, 4), (0, 0)) | integer multiplication overflow
RuntimeError | t.meshgrid(giant(2**32), giant(2**32), indexing="ij") | integer multiplication overflow
RuntimeError | t.arange(4.0).narrow(0, 1, 2**63 - 1) | exceeds dimension size
RuntimeError | t.ones(4).as_strided((5,), (1,), 2**63 - 1) | out of bounds for storage
RuntimeError | t.ones(4).set_(t.ones(4).untyped_storage(), 2**63 - 1, (5,), (1,)) | out of bounds for storage
RuntimeError | t.as_strided_scatter(t.ones(4), t.ones(5), (5,), (1,), 2**63 - 1) | out of bounds for storage
RuntimeError | t.ones(4).view(2**62 + 1, 4) | invalid for input of size 4
RuntimeError | t.ones(4).unflatten(0, (2**62 + 1, 4)) | don't multiply up
RuntimeError | t.ones(4).unflatten(0, (-2, -2)) | don't multiply up
RuntimeError | t.cat([giant(2**62), giant(2**62)]) | add up to more than 64 bits
RuntimeError | giant(2**63 - 1).unfold(0, 0, 1) | more than 64 bits
RuntimeError | v.view(2**63 - 1, 3) | invalid for input
RuntimeError | t.bincount(t.tensor([2**63 - 1])) | maximum value of input overflowed
RuntimeError | F.conv1d(t.ones(1, 1, 4), t.ones(1, 1, 3), padding=2**62) | at most
RuntimeError | F.adaptive_avg_pool1d(t.ones(1, 1, 5), 2**62) | more than 64 bits
IndexError | t.unique_consecutive(t.ones(2, 2), dim=2**40) | out of range
IndexError | t.ones(4)[(None,) * 64] | at most 64 dimensions
RuntimeError | t.ones([1] * 64).unsqueeze(0) | at most 64 dimensions
RuntimeError | t.ones([1] * 64).unfold(0, 1, 1) | at most 64 dimensions
TypeError | t.empty(2**63) | Overflow when unpacking
TypeError | v.expand(2**63, 4) | Overflow when unpacking
ValueError | v.narrow(0, 1, 2**63) | Overflow when unpacking
ValueError | m.softmax(2**63) | Overflow when unpacking
ValueError | v[2**63] | Overflow when unpacking
"""


@pytest.mark.parametrize("line", REFUSED.strip().split("\n"))
def test_what_64_bits_do_not_count_is_refused(line):
    error, call, message = line.split(" | ")
    with pytest.raises(getattr(builtins, error), match=message):
        eval(call, extremes.names(flambeau))


def test_one_window_needs_no_more_than_itself():
    """A stride beyond the input has one window; its length plays no part."""
    x, w = flambeau.arange(4.0).reshape(1, 1, 4), flambeau.ones(1, 1, 3)
    for stride in (2, 1 << 31, 1 << 40, 1 << 62):
        assert F.conv1d(x, w, stride=stride).tolist() == [[[3.0]]]
        assert F.max_pool1d(x, 3, stride=stride).tolist() == [[[2.0]]]
        assert F.avg_pool1d(x, 3, stride=stride).tolist() == [[[1.0]]]
        assert F.unfold(x.unsqueeze(2), (1, 3), stride=stride).flatten().tolist() == [0.0, 1.0, 2.0]
        assert F.conv_transpose1d(x[:, :, 1:2], w, stride=stride).tolist() == [[[1.0, 1.0, 1.0]]]


def test_gradients_of_one_window():
    x = flambeau.arange(4.0).reshape(1, 1, 4).requires_grad_()
    w = flambeau.ones(1, 1, 3, requires_grad=True)
    (F.conv1d(x, w, stride=1 << 62) + F.max_pool1d(x, 3, stride=1 << 62)).sum().backward()
    assert x.grad.tolist() == [[[1.0, 1.0, 2.0, 0.0]]] and w.grad.tolist() == [[[0.0, 1.0, 2.0]]]


def test_a_grid_of_padding_is_not_made():
    """Two windows, far apart, that reach the input: the answer has two elements, the padded input 2^40."""
    x = flambeau.arange(1.0, 5.0).reshape(1, 1, 4).requires_grad_()
    w = flambeau.tensor([[[1.0, 2.0, 3.0]]], requires_grad=True)
    before = cpu.max_memory_allocated()
    found = F.conv1d(x, w, stride=(1 << 40) + 1, padding=1 << 40)
    assert found.tolist() == [[[0.0, 20.0]]]
    found.sum().backward()
    assert x.grad.tolist() == [[[0.0, 1.0, 2.0, 3.0]]] and w.grad.tolist() == [[[2.0, 3.0, 4.0]]]
    assert cpu.max_memory_allocated() - before < 1 << 20


def test_parts_whose_products_leave_32_bits():
    """Places of adaptive pools are products of two sizes."""
    x = np.random.default_rng(0).normal(size=50_000)
    bounds = [(k * 50_000 // 49_999, -(-(k + 1) * 50_000 // 49_999)) for k in range(49_999)]
    expected = [x[a:b].mean() for a, b in bounds]
    found = F.adaptive_avg_pool1d(flambeau.from_numpy(x).reshape(1, 1, -1), 49_999)
    np.testing.assert_allclose(found.flatten().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("size, parts", [(s, p) for s in range(1, 12) for p in range(1, 12)])
def test_the_longest_part(size, parts):
    from flambeau.operations.neural.pooling.pooling import _longest

    lengths = [-(-(k + 1) * size // parts) - k * size // parts for k in range(parts)]
    assert _longest((size,), (parts,)) == {"longest0": max(lengths)}


@pytest.mark.parametrize("rows, columns", [(0, 3), (3, 0), (2, 5), (5, 2), (4, 4)])
@pytest.mark.parametrize("offset", [*range(-6, 7), 1 << 62, -(1 << 62)])
def test_triangles(rows, columns, offset):
    k = max(-rows - 1, min(offset, columns + 1))
    for ours, theirs in ((flambeau.tril_indices, np.tril_indices), (flambeau.triu_indices, np.triu_indices)):
        assert ours(rows, columns, offset).tolist() == [x.tolist() for x in theirs(rows, k, columns)]


def test_a_triangle_in_few_of_many_rows():
    assert flambeau.tril_indices(1 << 62, 3, 1 - (1 << 62)).tolist() == [[(1 << 62) - 1], [0]]
    assert flambeau.triu_indices(1 << 62, 2, 0).tolist() == [[0, 0, 1], [0, 1, 1]]
    assert flambeau.ones(2, 2).tril(1 << 62).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert flambeau.ones(2, 2).triu(-(1 << 62)).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_empty_tensors_may_have_sizes_that_do_not_multiply():
    x = flambeau.zeros(0).view(0, 1 << 62, 4)
    assert x.numel() == 0 and x.shape == (0, 1 << 62, 4)
    assert x.flatten().shape == (0,) and x.sum().item() == 0
    with pytest.raises(RuntimeError, match="overflow"):
        x.flatten(1)


def test_bytes_of_an_expanded_tensor():
    assert flambeau.ones(1).expand(1 << 62).nbytes == 1 << 64


# --- convolutions of nothing ------------------------------
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_convolutions_of_no_images_and_no_channels(stride, dtype):
    """PyTorch's shapes: the result for no channels has no channels."""
    ones = lambda *shape: flambeau.ones(*shape, dtype=getattr(flambeau, dtype))
    out = (5 - 3) // stride + 1
    assert F.conv2d(ones(0, 2, 5, 5), ones(3, 2, 3, 3), stride=stride).shape == (0, 3, out, out)
    assert F.conv2d(ones(2, 0, 5, 5), ones(4, 0, 3, 3), stride=stride, groups=2).shape == (2, 0, out, out)
    size = 4 * stride + 3
    assert F.conv_transpose2d(ones(0, 2, 5, 5), ones(2, 3, 3, 3), stride=stride).shape == (0, 3, size, size)


@pytest.mark.parametrize("shape, weight", [((0, 2, 5), (3, 2, 3)), ((2, 0, 5), (3, 0, 3))])
def test_gradients_of_convolutions_of_nothing(shape, weight):
    x, w, b = (flambeau.ones(s, requires_grad=True) for s in (shape, weight, (3,)))
    F.conv1d(x, w, b, stride=2).sum().backward()
    assert x.grad.shape == shape and w.grad.abs().sum() == 0 and b.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "shape, weight", [((1, 2, 5), (0, 2, 3)), ((1, 2, 5), (3, 2, 0)), ((1, 2, 0), (3, 2, 1))]
)
def test_convolutions_by_nothing_are_refused(shape, weight):
    with pytest.raises(RuntimeError, match="at least 1|zero batch"):
        F.conv1d(flambeau.ones(shape), flambeau.ones(weight), padding=1)


# --- memory that the system refuses ------------------------------
REFUSED_BY_THE_SYSTEM = [
    "x.sort()",
    "x.argsort()",
    "x.unique()",
    "x.unique_consecutive()",
    "x.median()",
    "x.median(0)",
    "x.topk(x.numel() // 2)",
    "x.kthvalue(x.numel() // 2)",
    "x.mode()",
    "x.quantile(0.5)",
    "t.fft.fft(x)",
    "t.fft.rfft(x)",
    "t.linalg.svd(square)",
    "t.linalg.inv(square)",
    "t.linalg.eigh(square)",
    "x.tolist()",
    "x.clone()",
    "t.special.erfcx(x)",
    "t.randperm(x.numel())",
    "x.repeat_interleave(x.to(t.int64))",
    "x[x > 0.5]",
    "x.nonzero()",
    "x.take(t.zeros(1, dtype=t.int64).expand(x.numel()))",
]
PROGRAM = """
import resource, warnings, flambeau as t
warnings.simplefilter("ignore")
t.set_num_threads(1)
calls = {calls!r}

def run(call, n):
    x = t.ones(n * n)
    square = x.view(n, n)
    return eval(call, {{"t": t, "x": x, "square": square + t.eye(n) if n < 100 else square}})

for call in calls:  # what is imported and compiled is there already when memory runs out
    run(call, 8)
t.cpu.empty_cache()
with open("/proc/self/statm") as f:
    used = int(f.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), used + (100 << 20)))
for call in calls:
    try:
        run(call, 4096)
        print(call, "| no error")
    except BaseException as e:
        print(call, "|", type(e).__name__, "|", e)
    t.cpu.empty_cache()
"""


def test_refusals_of_the_system_have_their_class_and_the_bytes():
    """64 MiB in a process that may take 100: nothing ends in NumPy's or Python's MemoryError, or in a crash."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", OMP_NUM_THREADS="1")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(calls=REFUSED_BY_THE_SYSTEM)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().split("\n")
    assert len(lines) == len(REFUSED_BY_THE_SYSTEM)
    wrong = [x for x in lines if " | OutOfMemoryError | " not in x or not re.search(r"\d{5,} bytes", x)]
    assert not wrong, "\n".join(wrong)
