"""Functions with derivatives of one's own, gradients of functions, hooks, modes."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.autograd import Function
from flambeau.autograd.function import FunctionCtx
from flambeau.func import functional_call, grad, grad_and_value, hessian, jacrev, jvp, vjp, vmap


class Cube(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x**3

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return 3 * ctx.scale * x**2 * grad_output, None


@torch.no_grad()
def ratio(x: Tensor, y: float = 1.0) -> Tensor:
    return x / y


@torch.inference_mode()
def asked(net: nn.Module, x: Tensor) -> int:
    return int(net(x).argmax())


@torch.enable_grad()
def counted(x: Tensor) -> int:
    return x.numel()


def energy(x: Tensor) -> Tensor:
    return (x**2).sum()


def functions(x: Tensor) -> Tensor:
    slope: Tensor = grad(energy)(x)
    _both = grad_and_value(energy)(x)
    rows = vmap(energy)(torch.stack([x, x]))
    pairs = vmap(torch.dot, in_dims=(0, None))(torch.stack([x, x]), x)
    curve = hessian(energy)(x)
    jacobian = jacrev(torch.sin)(x)
    value, pull = vjp(energy, x)
    (cotangent,) = pull(torch.ones_like(value))
    out, tangent = jvp(energy, (x,), (torch.ones_like(x),))
    total: Tensor = slope + curve.sum() + jacobian.sum() + cotangent + out + tangent
    return total + rows.sum() + pairs.sum()


def hooks(net: nn.Sequential) -> list[str]:
    seen: list[str] = []

    def after(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        seen.append(type(module).__name__)

    def before(module: nn.Module, args: tuple[Any, ...]) -> None:
        seen.append("before")

    def backward(module: nn.Module, grad_input: Any, grad_output: Any) -> None:
        seen.append("backward")

    handles = [net.register_forward_hook(after), net[0].register_forward_pre_hook(before)]
    handles.append(net.register_full_backward_hook(backward))
    x = torch.randn(2, 3, requires_grad=True)
    handle = x.register_hook(lambda g: g * 2)
    net(x).sum().backward()
    handle.remove()
    for found in handles:
        found.remove()
    return seen


def main() -> None:
    torch.manual_seed(0)
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y: Tensor = Cube.apply(x, 2.0)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    first.sum().backward(retain_graph=True)
    assert x.grad is not None
    assert not ratio(x, y=2.0).requires_grad and counted(x) == 3
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    assert asked(net, x.detach()) in (0, 1, 2)
    with torch.no_grad(), torch.autograd.set_detect_anomaly(False):
        x += 1
    with torch.set_grad_enabled(True):
        assert torch.is_grad_enabled()
    assert functions(x.detach()).shape == (3,)
    assert hooks(net) == ["before", "Sequential", "backward"]
    state = {name: p.detach() for name, p in net.named_parameters()}
    assert functional_call(net, state, (torch.ones(1, 3),)).shape == (1, 2)
    jacobian = torch.autograd.functional.jacobian(energy, x.detach())
    assert jacobian.shape == (3,) and x.grad_fn is None and y.grad_fn is not None
    assert torch.autograd.gradcheck(torch.sin, (torch.rand(2, dtype=torch.float64, requires_grad=True),))


main()
