"""Plans on an OpenCL device: the same kernels in another form, launched as often."""

from __future__ import annotations

import pytest
from flambeau.core.loops.planning import loop_plan, plan_of, row_plan

import flambeau
from flambeau.codegen import expr as ex
from flambeau.codegen import kernels as kn

if not flambeau.opencl.is_available():
    pytest.skip(
        "no OpenCL device; `pip install intel-opencl-rt intel-cmplr-lib-rt` makes one",
        allow_module_level=True,
    )


def there(*shape):
    return flambeau.randn(*shape).to("opencl")


def test_operations_kept():
    x, y, long = there(6, 8), there(6, 8), there(50000)
    for plan, given, expected in (
        (plan_of(flambeau.mul, x, x.t().contiguous().t()), [y, y.t().contiguous().t()], y * y),
        (plan_of(flambeau.add, x, 2.0), [y], y + 2.0),
        (plan_of(flambeau.sum, x, 1, True), [y], y.sum(1, True)),
        (plan_of(flambeau.sum, long), [long], long.sum()),
        (plan_of(flambeau.sum, x, 0), [y], y.sum(0)),
    ):
        assert plan.launch(given).cpu().tolist() == expected.cpu().tolist()


def test_fused_kernels():
    x, row = there(6, 8), there(8)
    a, b = ex.input(0, "float32"), ex.input(1, "float32")
    fused = kn.fused("scaled", [a * b + 1.0])
    result = loop_plan(fused.kernel, (6, 8), [x, x, row]).launch([x, row])
    flambeau.testing.assert_close(result.cpu(), x.cpu() * row.cpu() + 1.0)
    total = row_plan(kn.fused("total", [kn.sum(a * b)]).kernel, (6, 8), 1, [there(6, 1), x, row])
    flambeau.testing.assert_close(total.launch([x, row]).cpu(), (x.cpu() * row.cpu()).sum(1, True))
    long = there(1, 50000)
    most = row_plan(kn.fused("most", [kn.max(a)]).kernel, (1, 50000), 1, [there(1, 1), long])
    assert most.launch([long]).item() == long.cpu().max().item()
    with pytest.raises(ValueError, match="planned on opencl:0, got one on cpu"):
        most.launch([long.cpu()])
