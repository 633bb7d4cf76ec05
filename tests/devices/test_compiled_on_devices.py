"""Compiled functions of tensors on an accelerator: the numbers of eager calls, in fewer launches, and nothing by way of the host."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.profiler import profile

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "devices"), str(TESTS / "graph"), str(TESTS / "operations")]

import random_programs  # noqa: E402
import samples  # noqa: E402
from accelerator import DEVICE, driver  # noqa: E402


def there(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(DEVICE)


def launches(function, *args):
    """The kernels that a call runs on the device."""
    with profile() as seen:
        function(*args)
    events = [e for e in seen.events() if e.device_type.name == DEVICE.type.upper()]
    return [e.name for e in events if not e.name.startswith("Mem")]


def planned(compiled):
    """The plan of the one capture of a compiled function; the reason where there is none fails."""
    (entry,) = compiled.entries
    assert entry.why is None, entry.why
    return entry.launch


def steps(compiled):
    return [step.name for step in planned(compiled).report.steps]


def check(function, *inputs, exact=True, **options):
    """Run a function compiled twice beside eager calls, and return what is compiled."""
    compiled = torch.compile(function, **options)
    for _ in range(3):
        expected, actual = function(*inputs), compiled(*inputs)
        expected, actual = (r if isinstance(r, (tuple, list)) else (r,) for r in (expected, actual))
        for a, b in zip(actual, expected, strict=True):
            assert a.device == b.device and a.stride() == b.stride()
            if exact:
                assert a.dtype == b.dtype and torch.equal(a.cpu(), b.cpu())
            else:
                torch.testing.assert_close(a, b, rtol=2e-5, atol=1e-5, equal_nan=True)
    planned(compiled)
    return compiled


def test_a_chain_is_one_launch_with_eagers_bits():
    function = lambda x, y: ((x * 2 + y).tanh() * y - x.sigmoid()).exp()
    x, y = there(33, 17), there(17, seed=1)
    compiled = check(function, x, y)
    assert steps(compiled) == ["kernel: mul add tanh mul sigmoid sub exp"]
    assert len(launches(compiled, x, y)) == 1 < len(launches(function, x, y))


def test_rows_take_what_stands_around_them():
    function = lambda x, w: F.layer_norm(F.gelu(x + 1), (65,), w).softmax(-1) * 2
    x, w = there(40, 65), there(65, seed=1)
    compiled = check(function, x, w, exact=False)
    assert len(launches(compiled, x, w)) == 1


@pytest.mark.parametrize("function", [lambda x: (x * x).sum() * 2, lambda x: (x - x.mean()).abs().amax(0)])
@pytest.mark.parametrize("shape", [(7, 9), (3, 40000), (0, 5), (20000, 3)])
def test_reductions(function, shape):
    if 0 in shape:
        function = lambda x: (x * x).sum(0) + 1
    check(function, there(*shape), exact=False)


def test_products_and_sorts_are_the_devices_own():
    def function(x, w):
        y = (x @ w).relu() * 2
        return y.sort(-1).values + 1, F.conv2d(y[None, None], w[None, None, :3, :3]).tanh()

    compiled = check(function, there(9, 8), there(8, 8, seed=1))
    assert steps(compiled)[0] == "product: matmul relu mul" and "call: sort" in steps(compiled)


ENDINGS = {  # what follows a product, of its result, a row, a column and a matrix
    "a bias": lambda y, row, column, whole: (y + row).relu(),
    "a column": lambda y, row, column, whole: (column + y).abs() * 2,
    "a residual": lambda y, row, column, whole: (whole - 0.5 * y).clamp(max=1),
    "nothing added": lambda y, row, column, whole: y.square() + 1,
    "a branch for each element": lambda y, row, column, whole: (y + row).tanh(),
    "factors": lambda y, row, column, whole: y * row,
    "two operands": lambda y, row, column, whole: (y + row).relu() + whole,
    "itself again": lambda y, row, column, whole: (y + row) * y,
    "a factor of 0": lambda y, row, column, whole: (
        torch.add(y, whole, alpha=0).abs() + torch.add(whole, y, alpha=0)
    ),
    "two factors": lambda y, row, column, whole: (y * 1e30 * 1e30 + row).relu(),
    "turned": lambda y, row, column, whole: (y.mT + whole.mT).neg(),
}
ENDED = ["a bias", "a column", "a residual", "nothing added"]  # by one kernel, whatever the device
SIZES = [(33, 20, 17), (1, 5, 1), (6, 0, 3), (0, 4, 5), (7, 6, 3), (64, 64, 64)]  # with 7 rows two matrices


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("ending", ENDINGS)
def test_products_end_in_what_follows_them(ending, dtype):
    """In one launch where one operand is added at most; with the numbers of eager calls, however operands lie."""
    for m, k, n in SIZES:
        stack = () if m != 7 else (2,)
        x, w = there(*stack, m, k, dtype=dtype), there(n, k, seed=1, dtype=dtype).mT
        others = (
            there(n, seed=2, dtype=dtype),
            there(m, 1, seed=3, dtype=dtype),
            there(m, 2 * n, seed=4, dtype=dtype)[:, :n],
        )
        for t in others:
            if t.numel():
                t[(0,) * t.ndim] = torch.inf  # 0 times that is NaN
        function = lambda x, w, *others: ENDINGS[ending](x @ w, *others)
        compiled = check(function, x, w, *others, exact=False)
        if (
            ending in ENDED
            and dtype != torch.float16
            and k * m * n > 5
            and not (stack and ending in ("a column", "a residual"))
        ):
            assert [s.split(":")[0] for s in steps(compiled)] == ["product"], steps(compiled)
            assert len(launches(compiled, x, w, *others)) == 1
        check(function, x.mT.contiguous().mT, w.contiguous(), *others, exact=False)


def test_stacks_with_gaps_end_too():
    x, w, bias, whole = (
        there(3, 4, 5, 6)[:, :2],
        there(6, 7, seed=1),
        there(7, seed=2),
        there(3, 4, 5, 7, seed=3),
    )
    for function in (lambda x, w, b, c: (x @ w + b).relu(), lambda x, w, b, c: (x @ w + c[:, 1:3]).abs()):
        check(function, x, w, bias, whole, exact=False)
    weights = there(3, 4, 6, 7, seed=1)[:, 1:3]
    compiled = check(lambda x, w, b, c: (x @ w + b).relu(), x, weights, bias, whole, exact=False)
    assert steps(compiled) == ["product: matmul add relu"]


def test_scaled_products_that_end():
    function = lambda a, x, w: torch.addmm(a, x, w, beta=0.5, alpha=-2).relu()
    a, x, w = there(9, 7), there(9, 4, seed=1), there(4, 7, seed=2)
    a[0, 0] = torch.nan
    assert steps(check(function, a, x, w, exact=False)) == ["product: addmm relu"]
    ignored = lambda a, x, w: torch.addmm(a, x, w, beta=0).relu()
    assert steps(check(ignored, a, x, w)) == ["product: addmm relu"]
    assert not ignored(a, x, w).isnan().any()


def test_gradients_through_products_that_end():
    net = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.ReLU(), torch.nn.Linear(9, 2)).to(DEVICE)
    x, results = there(5, 6), []
    for run in (net, torch.compile(net)):
        for _ in range(2):
            net.zero_grad()
            run(x).square().sum().backward()
        results.append([p.grad.cpu() for p in net.parameters()])
    torch.testing.assert_close(*results)


def test_nothing_goes_by_the_host():
    function = lambda x: ((x * 2).softmax(-1) @ x.mT + 1).tanh()
    x = there(16, 16)
    compiled = torch.compile(function)
    compiled(x)
    before = driver().copies_out if hasattr(driver(), "copies_out") else None
    compiled(x)
    assert planned(compiled).report.home and (before is None or driver().copies_out == before)


def test_numbers_of_the_host_are_passed_by_value():
    def function(x, scale, shift, flag):
        return torch.where(flag, x * scale + shift, x).clamp(max=scale * 2)

    compiled = torch.compile(function)
    for k in range(4):
        x = there(5, 3, seed=k)
        given = torch.tensor(k / 3), torch.tensor(k, dtype=torch.int64), torch.tensor(k % 2 == 0)
        assert torch.equal(compiled(x, *given).cpu(), function(x, *given).cpu())
    assert len(compiled.entries) == 1 and steps(compiled)[-1].startswith("kernel")


def test_a_half_of_the_host_is_left_to_the_call():
    half = torch.tensor(1.5, dtype=torch.float16)
    compiled = check(lambda x, h: (x * h).exp() + h.double(), there(5), half)
    assert "call: mul" in steps(compiled)


def test_numbers_that_vary():
    compiled = torch.compile(lambda x, k: (x * k + 1).exp())
    x = there(6)
    for k in (0.5, 1.5, -2.0, 3.25):
        assert torch.equal(compiled(x, k).cpu(), (x * k + 1).exp().cpu())
    assert len(compiled.entries) == 2


def test_other_shapes_and_devices_are_captures_of_their_own():
    compiled = torch.compile(lambda x: (x + 1).sum(-1))
    for x in (there(3, 4), there(3, 4).cpu(), there(5), there(3, 4, dtype=torch.float64), there(4, 3).T):
        for _ in range(2):
            torch.testing.assert_close(compiled(x), (x + 1).sum(-1))
    assert len(compiled.entries) == 5 and all(e.why is None and e.hits == 1 for e in compiled.entries)


def test_tensors_of_the_host_beside():
    def function(x, table):
        table.mul_(2)
        return x * 2 + table.to(DEVICE), table.sum(), (x + 1).cpu() * table

    x, table, other = there(4), torch.arange(4.0), torch.arange(4.0)
    compiled = torch.compile(function)
    for _ in range(3):
        for a, b in zip(compiled(x, table), function(x, other), strict=True):
            assert a.device == b.device and torch.equal(a.cpu(), b.cpu())
        assert torch.equal(table, other)
    planned(compiled)


def test_writes_and_views():
    def function(x, y):
        y[1:].mul_(2)
        z = x.T.exp()
        z[0] = 5.0
        x.add_(y)
        return z + x.T, z[1:].T, x.view(-1)[::2] * 3

    compiled = torch.compile(function)
    mine, others = [[there(3, 4, seed=k), there(3, 4, seed=k + 9)] for k in (1, 1)]
    for _ in range(3):
        for a, b in zip((*compiled(*mine), *mine), (*function(*others), *others), strict=True):
            assert a.stride() == b.stride() and torch.equal(a.cpu(), b.cpu())
    planned(compiled)


def test_inputs_that_share_memory():
    function = lambda x, y: (x.mul_(2) + y).exp()
    compiled = torch.compile(function)
    for _ in range(3):
        a, b = there(8), there(8)
        assert torch.equal(
            compiled(a, a[::2].repeat_interleave(2)).cpu(), function(b, b[::2].repeat_interleave(2)).cpu()
        )
    whole, other = there(8), there(8)
    assert torch.equal(compiled(whole[:4], whole[2:6]).cpu(), function(other[:4], other[2:6]).cpu())
    assert torch.equal(compiled(whole[:4], whole[2:6]).cpu(), function(other[:4], other[2:6]).cpu())


def test_random_numbers_are_eagers():
    def function(x):
        return F.dropout(x * 2, 0.5) + torch.rand_like(x), torch.randn(3, device=DEVICE)

    x, compiled = there(40, 7), torch.compile(function)
    for seed in range(3):
        torch.manual_seed(seed)
        expected = [t.cpu() for _ in range(2) for t in function(x)]
        torch.manual_seed(seed)
        results = [t.cpu() for _ in range(2) for t in compiled(x)]
        assert all(map(torch.equal, results, expected))
    planned(compiled)


def test_the_dtypes_of_kernels():
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        check(lambda x: (x * 3 + 1).exp() * x.cos(), there(9, 5, dtype=dtype))
    numbers = (there(50) * 9).to(torch.int32)
    check(lambda n: ((n * 3) // 2 % 5 == 1) & (n > -4), numbers)
    z = torch.complex(there(4), there(4, seed=1))
    check(lambda z: (z * z + 1).real * 2, z, exact=False)


def test_eager_numerics_keep_the_order_of_sums():
    function = lambda x: ((x * 2).sum(-1, keepdim=True) + x).softmax(-1).mean(0)
    for shape in ((40, 70), (3, 9000)):
        check(function, there(*shape), options={"eager_numerics": True})


def test_autocast_on_the_device():
    w = there(8, 8, seed=1)
    compiled = torch.compile(lambda x: (x @ w).softmax(-1) * 2)
    plain = lambda x: (x @ w).softmax(-1) * 2
    x = there(4, 8)
    for dtype in (torch.float16, torch.bfloat16, None, torch.float16):
        with torch.autocast(DEVICE.type, dtype=dtype or torch.float16, enabled=dtype is not None):
            actual, expected = compiled(x), plain(x)
            assert actual.dtype == expected.dtype
            torch.testing.assert_close(actual, expected)
    assert [e.hits for e in compiled.entries] == [1, 0, 0]


def test_the_default_device_is_part_of_a_capture():
    compiled = torch.compile(lambda n: torch.arange(n) * 2 + torch.ones(()))
    for where in ("cpu", DEVICE, "cpu", DEVICE):
        with torch.device(where):
            result = compiled(5)
        assert result.device == torch.device(where) and result.tolist() == [1, 3, 5, 7, 9]
    assert [e.hits for e in compiled.entries] == [1, 1]


def test_more_operands_than_a_launch_takes():
    def function(*tensors):
        result = tensors[0]
        for t in tensors[1:]:
            result = result * 0.5 + t
        return result

    tensors = [there(3, 5, 7, seed=k)[:, ::2, ::3] for k in range(70)]
    compiled = check(function, *tensors)
    assert any("more than one launch" in why for why in planned(compiled).report.apart())


def test_guessed_branches():
    compiled = torch.compile(lambda x: x + 1 if x.sum() > 0 else -x)
    for sign in (1.0, -1.0, 1.0, -1.0):
        x = there(5).abs() * sign
        assert torch.equal(compiled(x).cpu(), (x + 1 if sign > 0 else -x).cpu())
    assert compiled.captures == 2


def test_memory_is_the_devices_and_given_back():
    function = lambda x: ((x * 2).sort(-1).values + 1).cumsum(-1).exp().sort(-1).values * 2
    x = there(64, 64)
    compiled = torch.compile(function)
    for _ in range(3):
        compiled(x)
    gc.collect()
    held = driver().memory_stats()["allocated_bytes"]
    for _ in range(3):
        compiled(x)
    assert driver().memory_stats()["allocated_bytes"] == held


def test_what_has_no_elements_runs_as_python_and_says_so():
    compiled = torch.compile(lambda x: x * 2)
    assert compiled(torch.ones(2, device="meta")).is_meta
    (entry,) = compiled.entries
    assert "'meta', which have no elements" in str(entry.why)


def test_a_tensor_of_another_device_is_refused():
    compiled = torch.compile(lambda x: x * 2)
    compiled(there(3))
    with pytest.raises(TypeError, match=f"a {DEVICE} tensor of .* got .* on cpu"):
        planned(compiled)(torch.ones(3))


def test_a_library_takes_no_tensors_of_devices(tmp_path):
    with pytest.raises(RuntimeError, match=f"has a tensor on {DEVICE}"):
        torch.compiler.export_library(
            lambda x: x + torch.ones(2, device=DEVICE).cpu(), (torch.ones(2),), tmp_path / "made.so"
        )


def tensors_to(operands):
    return {name: x.to(DEVICE) if isinstance(x, torch.Tensor) else x for name, x in operands.items()}


@pytest.mark.filterwarnings("ignore:.*the CPU computes it")
@pytest.mark.parametrize("entry,text", samples.ALL[5::25], ids=lambda x: x if isinstance(x, str) else x.name)
def test_operations_of_the_registry(entry, text):
    """Results and gradients of a call inside of a compiled function."""
    operands = samples.Operands()
    samples.result(entry, text, operands)
    given = tensors_to(operands)
    names = [n for n, x in given.items() if isinstance(x, torch.Tensor)]
    rest = {n: x for n, x in given.items() if n not in names} | {"function": entry.function}
    scope: dict = dict(rest)
    exec(f"def call({', '.join(names)}): return function({text})", scope)
    compiled = torch.compile(scope["call"])

    def run(function):
        torch.manual_seed(0)
        tensors = [given[n].detach().clone().requires_grad_(given[n].is_floating_point()) for n in names]
        made = samples.tensors_in(function(*tensors))
        on_tape = [t for t in made if t.requires_grad]
        wanted = [t for t in tensors if t.requires_grad]
        grads = (
            torch.autograd.grad(on_tape, wanted, [torch.ones_like(t) for t in on_tape], allow_unused=True)
            if on_tape
            else ()
        )
        return [t.detach().cpu() for t in (*made, *grads) if t is not None]

    expected = run(scope["call"])
    for _ in range(2):
        for a, b in zip(run(compiled), expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("first", range(0, 24, 12))
def test_random_programs(first):
    wrong = [random_programs.difference(seed, True, device=str(DEVICE)) for seed in range(first, first + 12)]
    assert [d for d in wrong if d] == []
