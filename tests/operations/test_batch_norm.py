"""Batch norm: one node either way, sums in one walk; layer norm over a dimension that does not lie in one piece."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch

F = torch.nn.functional


def inputs(shape=(4, 3, 5, 2)):
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    moments = torch.randn(shape[1], dtype=torch.float64), torch.rand(shape[1], dtype=torch.float64) + 0.5
    affine = [torch.randn(shape[1], dtype=torch.float64, requires_grad=True) for _ in range(2)]
    return x, *moments, *affine


@pytest.mark.parametrize("training", [False, True])
def test_derivatives_of_first_and_second_order(training):
    x, mean, var, weight, bias = inputs()

    def normed(x, weight, bias):
        return F.batch_norm(x, mean.clone(), var.clone(), weight, bias, training)

    assert torch.autograd.gradcheck(normed, (x, weight, bias))
    assert torch.autograd.gradgradcheck(normed, (x, weight, bias))
    assert torch.autograd.gradcheck(lambda x: normed(x, None, None), (x,))
    assert torch.autograd.gradgradcheck(lambda x: normed(x, None, None), (x,))


@pytest.mark.parametrize("shape", [(6, 3), (2, 3, 4), (3, 2, 5, 4), (2, 2, 2, 2, 2)])
@pytest.mark.parametrize("layout", [False, True])
def test_gradients_are_the_formulas(shape, layout):
    x, mean, var, weight, bias = inputs(shape)
    if layout:  # channels last
        x = x.detach().movedim(1, -1).contiguous().movedim(-1, 1).requires_grad_()
    grad = torch.randn(shape, dtype=torch.float64)
    found = F.batch_norm(x, mean, var, weight, bias, False, 0.1, 1e-5)
    assert found.grad_fn.name() == "NativeBatchNormBackward0"
    found.backward(grad)
    each = (1, -1) + (1,) * (len(shape) - 2)
    over = tuple(d for d in range(len(shape)) if d != 1)
    inverse = 1 / np.sqrt(var.numpy() + 1e-5)
    y = (x.detach().numpy() - mean.numpy().reshape(each)) * inverse.reshape(each)
    np.testing.assert_allclose(
        x.grad.numpy(), grad.numpy() * (inverse * weight.detach().numpy()).reshape(each)
    )
    np.testing.assert_allclose(weight.grad.numpy(), (grad.numpy() * y).sum(over))
    np.testing.assert_allclose(bias.grad.numpy(), grad.numpy().sum(over))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("parameters", ["float32", "own"])
@pytest.mark.parametrize("kind", ["training", "running", "group", "instance", "rms"])
def test_halves_are_rounded_once(kind, parameters, dtype):
    """Results and gradients of halves beside those of the same numbers in float64, with parameters and moments of either dtype."""
    half, unit = getattr(torch, dtype), {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    like = torch.float32 if parameters == "float32" else half
    torch.manual_seed(3)
    x, grad = (torch.randn(4, 6, 5, 6).to(half) for _ in range(2))
    given = [torch.randn(6).to(like), torch.randn(6).to(like)]
    moments = torch.randn(6).to(like), (torch.rand(6) + 0.5).to(like)

    def run(*dtypes):
        own = [t.to(d).requires_grad_() for t, d in zip((x, *given), dtypes)]
        running = [t.to(dtypes[1], copy=True) for t in moments]
        result = {
            "training": lambda x, w, b: F.batch_norm(x, *running, w, b, True),
            "running": lambda x, w, b: F.batch_norm(x, *running, w, b),
            "group": lambda x, w, b: F.group_norm(x, 3, w, b),
            "instance": lambda x, w, b: F.instance_norm(x, *running, w, b),
            "rms": lambda x, w, b: F.rms_norm(x, (6,), w, 1e-6) + 0 * b.sum(),
        }[kind](*own)
        return result, *torch.autograd.grad(result, own, grad.to(result.dtype)), *running

    found = run(half, like, like)
    wanted = run(*[torch.float64] * 3)
    assert [t.dtype for t in found[1:]] == [half, like, like, like, like]
    assert kind == "rms" or found[0].dtype == half
    for got, true in zip(found, wanted):
        error = (got.double() - true).abs().max().item()
        assert error <= 2 * unit * true.abs().max().item() + 1e-6


def test_frozen_weights_have_no_gradients():
    x, mean, var, weight, bias = inputs()
    weight.requires_grad_(False), bias.requires_grad_(False)
    F.batch_norm(x, mean, var, weight, bias).sum().backward()
    expected = (weight / (var + 1e-5).sqrt()).view(1, 3, 1, 1).expand(x.shape)
    torch.testing.assert_close(x.grad, expected)
    assert weight.grad is None and bias.grad is None


def test_moments_that_were_written_since_are_seen():
    x, mean, var, weight, bias = inputs()
    found = F.batch_norm(x, mean, var, weight, bias)
    mean.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.sum().backward()


def test_the_sums_walk_once_and_write_no_temporary():
    torch.manual_seed(0)
    layer, x = torch.nn.BatchNorm2d(8), torch.randn(4, 8, 16, 16, requires_grad=True)
    found = layer(x)
    with torch.profiler.profile() as p:
        found.backward(torch.ones_like(found))
    names = [e.name for e in p.events()]
    assert "flambeau::batch_sums" in names and "aten::sub" not in names


def test_float32_sums_are_near_those_of_float64():
    torch.manual_seed(0)
    x = torch.randn(16, 4, 32, 32) + 3
    grad, layer = torch.randn(16, 4, 32, 32), torch.nn.BatchNorm2d(4)
    wide = torch.nn.BatchNorm2d(4).double()
    a, b = x.clone().requires_grad_(), x.double().requires_grad_()
    layer(a).backward(grad)
    wide(b).backward(grad.double())
    for ours, judge in (
        (a.grad, b.grad),
        (layer.weight.grad, wide.weight.grad),
        (layer.bias.grad, wide.bias.grad),
    ):
        assert ((ours.double() - judge).abs().max() / judge.square().mean().sqrt()).item() < 1e-5


def test_layer_norm_of_a_turned_tensor_lies_in_one_piece():
    x = torch.randn(2, 6, 3, 5).permute(0, 2, 3, 1)
    weight, bias = torch.randn(6), torch.randn(6)
    for affine in ((weight, bias), (None, None)):
        found = F.layer_norm(x, (6,), *affine)
        assert found.is_contiguous()
        torch.testing.assert_close(found, F.layer_norm(x.contiguous(), (6,), *affine), rtol=0, atol=0)
