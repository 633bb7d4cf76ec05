"""What `test_cuda_host.py` runs in a process of its own, on the fake driver: mixed precision by its old names."""

from __future__ import annotations

import fake_cuda
import pytest

import flambeau

fake = fake_cuda.install()
cuda = flambeau.cuda
amp = cuda.amp


def test_autocast_is_the_one_of_the_device():
    x = flambeau.ones(3, 3, device="cuda")
    with pytest.warns(FutureWarning, match=r"cuda.amp.autocast\(args...\)` is deprecated"):
        context = amp.autocast(dtype=flambeau.bfloat16)
    for _ in range(2):
        with context:
            assert (x @ x).dtype == flambeau.bfloat16 and flambeau.is_autocast_enabled("cuda")
        assert (x @ x).dtype == flambeau.float32
    with pytest.warns(FutureWarning), amp.autocast(enabled=False):
        assert (x @ x).dtype == flambeau.float32
    with pytest.warns(FutureWarning), amp.autocast():
        assert (x @ x).dtype == flambeau.float16


def test_functions_of_ones_own():
    with pytest.warns(FutureWarning, match="custom_fwd"):
        halves = amp.custom_fwd(cast_inputs=flambeau.float16)
    seen = []

    def twice(ctx, grad):
        seen.append((grad.dtype, flambeau.is_autocast_enabled("cuda")))
        return grad * 2

    with pytest.warns(FutureWarning, match="custom_bwd"):
        same = amp.custom_bwd(twice)

    class Double(flambeau.autograd.Function):
        @staticmethod
        @halves
        def forward(ctx, x):
            seen.append((x.dtype, flambeau.is_autocast_enabled("cuda")))
            return x * 2

        backward = staticmethod(same)

    x = flambeau.ones(3, device="cuda", requires_grad=True)
    with flambeau.autocast("cuda"):
        y = Double.apply(x)
    y.sum().backward()
    assert y.dtype == flambeau.float16 and x.grad.tolist() == [2.0] * 3
    assert seen == [(flambeau.float16, False), (flambeau.float16, False)]
    Double.apply(x)
    assert seen[-1] == (flambeau.float32, False)


def test_the_scaler_skips_steps_that_overflow():
    with pytest.warns(FutureWarning, match=r"cuda.amp.GradScaler\(args...\)` is deprecated"):
        scaler = amp.GradScaler(init_scale=4.0, growth_interval=2)
    w = flambeau.ones(2, device="cuda", requires_grad=True)
    sgd = flambeau.optim.SGD([w], lr=1.0)
    for gradient, after, scale in (
        (0.5, 0.5, 4.0),
        (float("inf"), 0.5, 2.0),
        (0.25, 0.25, 2.0),
        (0.25, 0.0, 4.0),
    ):
        sgd.zero_grad()
        scaler.scale((w * gradient).sum()).backward()
        scaler.step(sgd)
        scaler.update()
        assert w.tolist() == [after] * 2 and scaler.get_scale() == scale
    assert not amp.amp_definitely_not_available()


def test_values_are_cast():
    x = flambeau.ones(2, device="cuda")
    with pytest.warns(FutureWarning, match="_cast"):
        result = amp.autocast_mode._cast({"x": [x, flambeau.ones(2)], "n": 3}, flambeau.float16)
    assert result["x"][0].dtype == flambeau.float16 and result["x"][1].dtype == flambeau.float32
    assert result["n"] == 3
