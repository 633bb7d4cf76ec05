"""Every optimiser with its keywords, groups of parameters, schedules, averages of weights."""

from __future__ import annotations

import flambeau as torch
from flambeau import Tensor, nn, optim
from flambeau.optim import lr_scheduler
from flambeau.optim.swa_utils import SWALR, AveragedModel


def all_of(net: nn.Module) -> list[optim.Optimizer]:
    p = list(net.parameters())
    return [
        optim.SGD(p, lr=0.1, momentum=0.9, dampening=0, weight_decay=1e-4, nesterov=True),
        optim.Adam(p, lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0, amsgrad=True, foreach=None),
        optim.AdamW(net.parameters(), 1e-3, maximize=False, fused=True),
        optim.Adagrad(p, lr=0.01, lr_decay=0.1, initial_accumulator_value=0.1),
        optim.Adadelta(p, lr=1.0, rho=0.9),
        optim.Adamax(p, lr=2e-3, betas=(0.9, 0.999)),
        optim.NAdam(p, momentum_decay=4e-3, decoupled_weight_decay=True),
        optim.RAdam(p, lr=torch.tensor(1e-3)),
        optim.RMSprop(p, alpha=0.9, centered=True, momentum=0.1),
        optim.Rprop(p, etas=(0.5, 1.2), step_sizes=(1e-6, 50)),
        optim.ASGD(p, lambd=1e-4, t0=10.0),
        optim.Adafactor(p, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0),
        optim.Muon([w for w in p if w.dim() == 2], lr=1e-3, momentum=0.95, ns_steps=5),
        optim.LBFGS(p, lr=1, max_iter=2, history_size=5, line_search_fn="strong_wolfe"),
    ]


def groups(net: nn.Module) -> optim.Optimizer:
    decayed = [p for name, p in net.named_parameters() if not name.endswith("bias")]
    plain = [p for name, p in net.named_parameters() if name.endswith("bias")]
    optimiser = optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "lr": 1e-2}], lr=1e-3
    )
    optimiser.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    for group in optimiser.param_groups:
        group["lr"] *= 0.5
    rate: float = optimiser.param_groups[0]["lr"]
    assert rate > 0 and optim.SGD(dict(net.named_parameters()).items(), lr=0.1)
    return optimiser


def schedules(optimiser: optim.Optimizer) -> None:
    found: list[lr_scheduler.LRScheduler] = [
        lr_scheduler.StepLR(optimiser, step_size=2, gamma=0.1),
        lr_scheduler.MultiStepLR(optimiser, milestones=[1, 3], gamma=0.5),
        lr_scheduler.ExponentialLR(optimiser, 0.9),
        lr_scheduler.CosineAnnealingLR(optimiser, T_max=5, eta_min=1e-5),
        lr_scheduler.CosineAnnealingWarmRestarts(optimiser, T_0=2, T_mult=1),
        lr_scheduler.LambdaLR(optimiser, lr_lambda=lambda step: 0.95**step),
        lr_scheduler.LinearLR(optimiser, start_factor=0.5, total_iters=4),
        lr_scheduler.PolynomialLR(optimiser, total_iters=3, power=2.0),
        lr_scheduler.OneCycleLR(optimiser, max_lr=0.1, total_steps=10, pct_start=0.3),
        lr_scheduler.CyclicLR(optimiser, base_lr=0.01, max_lr=0.1, cycle_momentum=False),
    ]
    warm = lr_scheduler.LinearLR(optimiser, 0.1, 1.0, 2)
    found.append(
        lr_scheduler.SequentialLR(optimiser, [warm, lr_scheduler.ConstantLR(optimiser)], milestones=[2])
    )
    for schedule in found:
        optimiser.step()
        schedule.step()
        rates: list[float] = [float(x) for x in schedule.get_last_lr()]
        assert rates and schedule.state_dict()
    plateau = lr_scheduler.ReduceLROnPlateau(optimiser, mode="min", factor=0.5, patience=1)
    plateau.step(1.0)


def main() -> None:
    torch.manual_seed(0)
    net = nn.Linear(3, 2)
    x = torch.randn(5, 3)
    for optimiser in all_of(net):

        def closure(optimiser: optim.Optimizer = optimiser) -> Tensor:
            optimiser.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            return loss

        found = optimiser.step(closure)
        assert found is not None and float(found) >= 0
        optimiser.load_state_dict(optimiser.state_dict())
    optimiser = groups(net)
    schedules(optimiser)
    averaged = AveragedModel(net, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9))
    averaged.update_parameters(net)
    SWALR(optimiser, swa_lr=0.05).step()
    y: Tensor = averaged(x)
    assert y.shape == (5, 2)


main()
