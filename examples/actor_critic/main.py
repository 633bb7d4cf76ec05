"""An actor and its critic learn to balance a pole.

World: CartPole-v1 of gymnasium, at most 500 steps an episode; 16 carts at once.  Advantage actor-critic (Mnih et al., 2016) with
generalised advantages (Schulman et al., 2016).

Figure: mean return of 100 new episodes, the actor taking its likeliest action.  To reach: 475, where gymnasium calls the
task solved.  To compare: acting at random, and pushing the cart to the side to which the pole leans.

    python examples/actor_critic/main.py --picture actor_critic.png
"""

from __future__ import annotations

import argparse
import sys

try:
    import gymnasium
    import matplotlib.pyplot as plt
    import numpy as np
    from gymnasium.vector import AutoresetMode
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[examples]'")

import flambeau as torch
from flambeau import nn
from flambeau.distributions import Categorical

CARTS, STEPS, DISCOUNT, TRACE = 16, 16, 0.99, 0.95


class ActorCritic(nn.Module):
    """From what is seen (position, velocity, angle, its velocity): logits of the actions, and what is to be hoped for."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.actor = nn.Sequential(
            nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2)
        )
        self.critic = nn.Sequential(
            nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def value(self, seen):
        return self.critic(seen).squeeze(-1)


def play(policy, episodes: int, seed: int) -> np.ndarray:
    """Returns of whole episodes, played side by side."""
    carts = gymnasium.make_vec("CartPole-v1", episodes, "sync")
    seen, _ = carts.reset(seed=seed)
    returns, alive = np.zeros(episodes), np.ones(episodes, bool)
    while alive.any():
        seen, _, fallen, late, _ = carts.step(policy(seen))
        returns += alive
        alive &= ~(fallen | late)
    return returns


def advantages_of(values, ended):
    """Σ (γλ)^k δ of each step, where δ is how much better the step went than the critic hoped; each step's reward is 1."""
    advantages, ahead = torch.empty(STEPS, CARTS), torch.zeros(CARTS)
    for t in reversed(range(STEPS)):
        goes_on = 1.0 - ended[t]
        surprise = 1.0 + DISCOUNT * goes_on * values[t + 1] - values[t]
        advantages[t] = ahead = surprise + DISCOUNT * TRACE * goes_on * ahead
    return advantages


def draw(path: str, net: ActorCritic, curve: list, policy, title: str) -> None:
    """The learning curve, and what the actor does by the angle and its velocity, with the way of one episode."""
    figure, (learning, plane) = plt.subplots(1, 2, figsize=(13, 4.6), layout="constrained")
    figure.suptitle(title)
    learning.plot(curve, color="tab:blue")
    learning.axhline(475, color="0.6", linestyle=":")
    learning.set(
        xlabel="update", ylabel="mean length of the last 50 episodes", title="while learning (actions drawn)"
    )
    angle, speed = torch.linspace(-0.1, 0.1, 80), torch.linspace(-0.8, 0.8, 80)
    grid = torch.stack(torch.meshgrid(angle, speed, indexing="xy"), -1)
    with torch.no_grad():
        to_the_right = net.actor(torch.cat([torch.zeros(80, 80, 2), grid], 2)).softmax(2)[..., 1]
    field = plane.pcolormesh(angle, speed, to_the_right, cmap="coolwarm", vmin=0, vmax=1, shading="gouraud")
    figure.colorbar(field, ax=plane, label="chance that the actor pushes right")
    cart, way = gymnasium.make("CartPole-v1"), []
    state, _ = cart.reset(seed=7)
    for _ in range(120):
        way.append(state)
        state, *_ = cart.step(int(policy(state[None])[0]))
    way = np.array(way)
    plane.plot(
        way[:, 2],
        way[:, 3],
        ".-",
        color="black",
        linewidth=0.7,
        markersize=3,
        label="120 steps of an episode",
    )
    plane.set(xlabel="angle of the pole", ylabel="its velocity", title="the cart at rest in the middle")
    plane.legend(loc="upper right")
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="few updates, and an easy figure")
    options.add_argument("--picture", default="actor_critic.png")
    args = options.parse_args()
    torch.manual_seed(0)
    updates, episodes = (60, 10) if args.quick else (800, 100)

    net = ActorCritic()
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3, eps=1e-5)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, updates)
    carts = gymnasium.make_vec(
        "CartPole-v1", CARTS, "sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}
    )
    seen = torch.from_numpy(carts.reset(seed=0)[0])
    lengths, running, curve = [], np.zeros(CARTS), []
    for _ in (bar := tqdm(range(updates), disable=None)):
        was_seen, actions, ended = [], [], []
        for _ in range(STEPS):
            with torch.no_grad():
                action = Categorical(logits=net.actor(seen)).sample()
            was_seen.append(seen)
            actions.append(action)
            after, _, fallen, late, _ = carts.step(action.numpy())
            seen, over = torch.from_numpy(after), fallen | late
            ended.append(torch.from_numpy(over).float())
            running += 1
            lengths += running[over].tolist()
            running[over] = 0
        was_seen, actions = torch.stack(was_seen), torch.stack(actions)
        chances, values = Categorical(logits=net.actor(was_seen)), net.value(was_seen)
        with torch.no_grad():
            advantages = advantages_of(torch.cat([values, net.value(seen)[None]]), torch.stack(ended))
        surprise = (values - values.detach() - advantages).square().mean()
        weights = (advantages - advantages.mean()) / (advantages.std() + 1e-6)
        gain = (chances.log_prob(actions) * weights).mean()
        loss = 0.5 * surprise - gain - 0.01 * chances.entropy().mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimiser.step()
        schedule.step()
        curve.append(np.mean(lengths[-50:] or [0]))
        bar.set_postfix(length=curve[-1])

    def likeliest(seen):
        return net.actor(torch.from_numpy(seen)).argmax(1).numpy()

    dice = np.random.default_rng(0)
    returned = play(likeliest, episodes, seed=1).mean()
    leaning = play(lambda seen: (seen[:, 2] > 0).astype(int), episodes, seed=1).mean()
    at_random = play(lambda seen: dice.integers(0, 2, len(seen)), episodes, seed=1).mean()
    bar = 30 if args.quick else 475
    figure = f"mean return {returned:.1f} of 500; to reach {bar}; towards where it leans {leaning:.1f}, at random {at_random:.1f}"
    draw(args.picture, net, curve, likeliest, figure)
    print(figure)
    if not returned >= bar:
        sys.exit("missed")


if __name__ == "__main__":
    main()
