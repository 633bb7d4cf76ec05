"""Distributions, mixed precision, random numbers."""

from __future__ import annotations

import flambeau as torch
from flambeau import Tensor, nn, optim
from flambeau.amp import GradScaler, autocast
from flambeau.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    Distribution,
    Gamma,
    Independent,
    MultivariateNormal,
    Normal,
    TransformedDistribution,
    kl_divergence,
    transforms,
)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Linear(4, 2)
        self.scale = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Normal:
        return Normal(self.mean(x), nn.functional.softplus(self.scale(x)))


def elbo(encoder: Encoder, x: Tensor) -> Tensor:
    posterior = encoder(x)
    z = posterior.rsample()
    prior = Normal(torch.zeros(2), torch.ones(2))
    return (
        kl_divergence(posterior, prior).sum(-1).mean() - posterior.log_prob(z).mean() + posterior.mean.mean()
    )


def policy(logits: Tensor) -> Tensor:
    chosen = Categorical(logits=logits)
    action = chosen.sample()
    return chosen.log_prob(action).sum() + chosen.entropy().mean() + action.sum()


def several() -> list[Tensor]:
    found: list[Distribution] = [
        Bernoulli(probs=torch.tensor(0.3)),
        Beta(2.0, 3.0),
        Gamma(torch.tensor(2.0), rate=1.0),
        Independent(Normal(torch.zeros(3), 1.0), 1),
        MultivariateNormal(torch.zeros(2), covariance_matrix=torch.eye(2)),
        TransformedDistribution(Normal(0.0, 1.0), [transforms.ExpTransform()]),
    ]
    values = [d.log_prob(d.sample((3,))).sum() for d in found]
    shape: torch.Size = found[3].event_shape + found[3].batch_shape
    return [*values, torch.tensor(float(shape.numel()))]


def mixed(x: Tensor) -> float:
    net = nn.Linear(4, 1)
    optimiser = optim.SGD(net.parameters(), lr=0.1)
    scaler = GradScaler("cpu", enabled=True)
    with autocast("cpu", dtype=torch.bfloat16):
        loss = net(x).square().mean()
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=False):
        loss = loss.float() + net(x).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    scaler.step(optimiser)
    scaler.update()
    scale: float = scaler.get_scale()
    return scale


def main() -> None:
    generator = torch.Generator(device="cpu")
    generator.manual_seed(3)
    state: Tensor = generator.get_state()
    a = torch.randn(3, generator=generator)
    generator.set_state(state)
    assert torch.equal(a, torch.randn(3, generator=generator)) and torch.initial_seed() >= 0
    x = torch.randn(5, 4)
    elbo(Encoder(), x).backward()
    assert policy(torch.randn(5, 3)).isfinite() and all(v.isfinite() for v in several())
    assert mixed(x) > 0
    drawn = torch.multinomial(torch.tensor([0.2, 0.8]), num_samples=3, replacement=True)
    assert drawn.shape == (3,) and torch.bernoulli(torch.full((2,), 0.5)).sum() <= 2
    assert torch.normal(0.0, 1.0, size=(2, 2)).shape == torch.normal(torch.zeros(2, 2), 1.0).shape


main()
