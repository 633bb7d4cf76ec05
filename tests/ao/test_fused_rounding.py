"""What training rounds to: half-way cases beside every zero point, and the scales of PyTorch's fused kernel."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.ao import quantization as q

f4 = np.float32


@pytest.mark.parametrize("zero_point", (0, 1, 2, 127, 128, 255))
@pytest.mark.parametrize("scale", (0.25, 1.0, 0.1))
def test_halves_are_rounded_before_the_zero_point_is_added(zero_point, scale):
    x = (np.arange(-600, 600) / 2 * f4(scale)).astype("f4")
    codes = np.clip(np.rint(x * (f4(1) / f4(scale))) + zero_point, 0, 255)
    wanted = ((codes - zero_point) * f4(scale)).astype("f4")
    given = flambeau.tensor(x)
    zero = flambeau.tensor([zero_point], dtype=flambeau.int32)
    of_numbers = flambeau.fake_quantize_per_tensor_affine(given, scale, zero_point, 0, 255)
    of_tensors = flambeau.fake_quantize_per_tensor_affine(given, flambeau.tensor([scale]), zero, 0, 255)
    channels = flambeau.fake_quantize_per_channel_affine(
        given[None], flambeau.tensor([scale]), zero, 0, 0, 255
    )
    for found in (of_numbers, of_tensors, channels[0]):
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_zero_points_that_are_no_integers_are_added_first():
    x = flambeau.tensor([[0.25, 0.5, 1.0, 1.25]])
    found = flambeau.fake_quantize_per_channel_affine(
        x, flambeau.tensor([1.0]), flambeau.tensor([0.25]), 0, 0, 15
    )
    assert found.tolist() == [[-0.25, 0.75, 0.75, 1.75]]


def chosen(least, most, low, high, symmetric):
    """FBGEMM's rule, in the words of its C++: numbers of 32 bits, quotients of 64."""
    least, most = min(f4(least), f4(0)), max(f4(most), f4(0))
    balanced = symmetric and least < 0 < most
    if balanced:
        under, over = -((high - low) // 2 + 1), (high - low) // 2
        largest = float(max(abs(least / f4(under)), abs(most / f4(over))))
        least, most = f4(largest * under), f4(largest * over)
    scale = (float(most) - float(least)) / (high - low)
    if f4(scale) == 0 or f4(scale) < 2.0**-128:
        scale = 0.1
    if scale < f4(6.1e-5):
        widened = float(f4(6.1e-5)) / scale
        least, most, scale = f4(least * widened), f4(most * widened), float(f4(6.1e-5))
    scale = float(f4(scale))
    from_least, from_most = low - float(least) / scale, high - float(most) / scale
    nearer = abs(low) - abs(float(least) / scale) < abs(high) - abs(float(most) / scale)
    place = (low + high) / 2 if balanced else from_least if nearer else from_most
    return f4(scale), int(np.rint(min(max(place, low), high)))


KINDS = {
    "default_fused_act_fake_quant": (0, 255, False),
    "default_fused_wt_fake_quant": (-128, 127, True),
    "default_fused_per_channel_wt_fake_quant": (-128, 127, True),
}


@pytest.mark.parametrize("name", KINDS)
def test_scales_and_zero_points(name):
    rng = np.random.default_rng(0)
    low, high, symmetric = KINDS[name]
    for k in range(60):
        x = (
            rng.standard_normal((2, 4)) * 10.0 ** rng.integers(-8, 4)
            if k % 3
            else rng.integers(-4, 5, (2, 4)) / 8
        )
        x = (np.abs(x) * (-1) ** k if k % 5 == 0 else x).astype("f4")
        rounding = getattr(q, name)()
        for factor in (1.0, 1.5, 0.3):
            found = rounding(flambeau.tensor(x * f4(factor)))
        watched = rounding.activation_post_process
        pairs = zip(watched.min_val.reshape(-1).tolist(), watched.max_val.reshape(-1).tolist())
        wanted = [chosen(least, most, low, high, symmetric) for least, most in pairs]
        np.testing.assert_array_equal(rounding.scale.numpy(), [scale for scale, _ in wanted])
        assert rounding.zero_point.tolist() == [zero for _, zero in wanted]
        axis = rounding.ch_axis if rounding.is_per_channel else 0
        parts = zip(
            np.split(x * f4(0.3), len(wanted), axis), np.split(found.numpy(), len(wanted), axis), wanted
        )
        for given, rounded, (scale, zero) in parts:
            codes = np.clip(np.rint(given * (f4(1) / scale)) + zero, low, high)
            np.testing.assert_array_equal(rounded, ((codes - zero) * scale).astype("f4"))


def test_numbers_that_pytorch_gives():
    """Symmetric ranges of activations fall half-way between 127 and 128: the rounded scale decides."""
    rounding = q.default_fused_act_fake_quant()
    rounding(flambeau.tensor([-1.0, 1.0]))
    found = rounding(flambeau.tensor([-1.5, 1.5]))
    assert rounding.zero_point.tolist() == [127] and rounding.scale.item() == pytest.approx(
        0.0078824, rel=1e-4
    )
    np.testing.assert_allclose(found.numpy(), [-1.00106, 1.00894], atol=1e-5)


def test_what_switches_do():
    rounding = q.default_fused_act_fake_quant()
    rounding.apply(q.disable_fake_quant)
    x = flambeau.tensor([0.0, 3.0])
    assert rounding(x) is x and rounding.scale.tolist() == [1.0]
    rounding.apply(q.enable_fake_quant)
    rounding.apply(q.disable_observer)
    rounding(flambeau.tensor([0.0, 300.0]))
    assert rounding.scale.item() == pytest.approx(3 / 255)
    never = q.default_fused_act_fake_quant()
    never.apply(q.disable_observer)
    assert never(flambeau.ones(2)).tolist() == [1.0, 1.0]


def test_reduced_symmetric_ranges_of_bytes():
    """Histograms take what observers of least and largest numbers refuse."""
    given = {"dtype": flambeau.quint8, "qscheme": flambeau.per_tensor_symmetric, "reduce_range": True}
    observer = q.HistogramObserver(**given)
    observer(flambeau.tensor([-1.0, 0.0, 1.0, 2.5]))
    scale, zero_point = observer.calculate_qparams()
    assert scale.item() == pytest.approx(0.039343, rel=1e-4) and zero_point.tolist() == [128]
    for kind in (q.MinMaxObserver, q.MovingAverageMinMaxObserver):
        with pytest.raises(NotImplementedError, match="Cannot reduce range"):
            kind(**given)
    with pytest.raises(NotImplementedError, match="Cannot reduce range"):
        q.PerChannelMinMaxObserver(**{**given, "qscheme": flambeau.per_channel_symmetric})
