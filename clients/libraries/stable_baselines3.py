"""stable-baselines3: its six algorithms learn some steps from one seed, policies of all kinds with given weights, buffers, files.

Runs are compared number by number: random numbers are PyTorch's own (`FLAMBEAU_RANDOM=pytorch`), environments draw NumPy's.
"""

import copy
import os
import tempfile
import warnings

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from harness import Client, fill, normal
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3, HerReplayBuffer
from stable_baselines3.common import buffers, distributions, envs, noise, policies, torch_layers, utils
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback, StopTrainingOnMaxEpisodes
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize

client = Client("stable-baselines3", "gymnasium", samples=6)
warnings.filterwarnings("ignore")
torch.set_num_threads(1)


class Track(gymnasium.Env):
    """A point on a line is pushed to the middle; `kind` says what it sees and what it may do."""

    def __init__(self, kind="vector", actions="discrete"):
        box = spaces.Box(-3.0, 3.0, (2,), np.float32)
        picture = spaces.Box(0, 255, (1, 36, 36), np.uint8)
        self.kind = kind
        self.observation_space = {
            "vector": box,
            "picture": picture,
            "dictionary": spaces.Dict({"vector": box, "picture": picture, "step": spaces.Discrete(20)}),
            "number": spaces.Discrete(7),
            "numbers": spaces.MultiDiscrete([7, 3]),
            "bits": spaces.MultiBinary(4),
        }[kind]
        self.action_space = {
            "discrete": spaces.Discrete(3),
            "continuous": spaces.Box(-1.0, 1.0, (1,), np.float32),
            "several": spaces.MultiDiscrete([3, 2]),
            "bits": spaces.MultiBinary(2),
        }[actions]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = float(self.np_random.uniform(-2, 2))
        self.speed, self.steps = 0.0, 0
        return self.seen(), {}

    def step(self, action):
        if isinstance(self.action_space, spaces.Discrete):
            push = float(action) - 1.0
        elif isinstance(self.action_space, spaces.Box):
            push = float(np.asarray(action).reshape(-1)[0])
        else:
            push = float(np.sum(action)) - 1.0
        self.speed = float(np.clip(0.9 * self.speed + 0.2 * push, -3, 3))
        self.place = float(np.clip(self.place + self.speed, -3, 3))
        self.steps += 1
        return self.seen(), -abs(self.place), abs(self.place) < 0.05, self.steps >= 19, {}

    def seen(self):
        cell = int(np.clip(round(self.place) + 3, 0, 6))
        vector = np.array([self.place, self.speed], np.float32)
        picture = np.zeros((1, 36, 36), np.uint8)
        picture[0, :, cell * 5 : cell * 5 + 5] = 255
        return {
            "vector": vector,
            "picture": picture,
            "dictionary": {"vector": vector, "picture": picture, "step": self.steps},
            "number": cell,
            "numbers": np.array([cell, self.steps % 3]),
            "bits": np.array([cell >> i & 1 for i in range(4)], np.int8),
        }[self.kind]


SHORT = {"seed": 3, "device": "cpu"}
SMALL = {"net_arch": [16, 16]}
ON_POLICY = {"n_steps": 32, "policy_kwargs": SMALL, **SHORT}
OFF_POLICY = {"learning_starts": 20, "batch_size": 16, "buffer_size": 200, "policy_kwargs": SMALL, **SHORT}


def learnt(model, steps=96, observations=None):
    """What a model knows after some steps: its weights' norms, the last losses, and what it does."""
    model.learn(steps)
    model.policy.set_training_mode(False)
    logged = sorted((k, float(v)) for k, v in model.logger.name_to_value.items() if k.startswith("train/"))
    losses = [
        [name for name, _ in logged],
        [value for _, value in logged],
    ]  # some are means of numbers around 0
    seen = model.env.reset() if observations is None else observations
    actions = [model.predict(seen, deterministic=sure)[0] for sure in (True, False)]
    norms = torch.stack([p.detach().double().norm() for p in model.policy.parameters()])
    return [norms, losses, actions, model.num_timesteps]


def case(name, kind, make, base, policy="MlpPolicy", steps=96, **options):
    client.case(lambda: learnt(kind(policy, make(), **copy.deepcopy({**base, **options})), steps), name=name)


for actions in ("discrete", "continuous", "several", "bits"):
    case(
        f"PPO {actions}",
        PPO,
        lambda actions=actions: Track(actions=actions),
        ON_POLICY,
        batch_size=16,
        n_epochs=2,
    )
    case(f"A2C {actions}", A2C, lambda actions=actions: Track(actions=actions), ON_POLICY)
for kind in ("number", "numbers", "bits"):
    case(f"PPO sees {kind}", PPO, lambda kind=kind: Track(kind), ON_POLICY, batch_size=16, n_epochs=2)
case(
    "PPO with all options",
    PPO,
    lambda: Track(actions="continuous"),
    ON_POLICY,
    batch_size=16,
    n_epochs=3,
    clip_range_vf=0.2,
    target_kl=0.05,
    ent_coef=0.01,
    normalize_advantage=True,
    use_sde=True,
    sde_sample_freq=4,
    learning_rate=utils.LinearSchedule(1e-3, 1e-4, 1.0),
    policy_kwargs={
        "net_arch": {"pi": [16], "vf": [16, 8]},
        "activation_fn": torch.nn.ELU,
        "ortho_init": True,
        "optimizer_class": torch.optim.AdamW,
        "share_features_extractor": False,
    },
)
case(
    "A2C by RMSprop of TensorFlow",
    A2C,
    lambda: Track(),
    ON_POLICY,
    use_rms_prop=True,
    normalize_advantage=True,
)
case("A2C squashed", A2C, lambda: Track(actions="continuous"), ON_POLICY, use_sde=True)
PICTURES = {"features_extractor_kwargs": {"features_dim": 16}, "net_arch": []}
case(
    "PPO sees pictures",
    PPO,
    lambda: Track("picture"),
    ON_POLICY,
    "CnnPolicy",
    64,
    batch_size=16,
    n_epochs=1,
    policy_kwargs=PICTURES,
)
case(
    "PPO sees dictionaries",
    PPO,
    lambda: Track("dictionary"),
    ON_POLICY,
    "MultiInputPolicy",
    64,
    batch_size=16,
    n_epochs=1,
    policy_kwargs={"features_extractor_kwargs": {"cnn_output_dim": 16}, "net_arch": [8]},
)
DQN_OPTIONS = {**OFF_POLICY, "target_update_interval": 20, "train_freq": 4}
case("DQN", DQN, lambda: Track(), DQN_OPTIONS)
case("DQN sees pictures", DQN, lambda: Track("picture"), DQN_OPTIONS, "CnnPolicy", 40, policy_kwargs=PICTURES)
case("DQN n steps", DQN, lambda: Track(), DQN_OPTIONS, n_steps=3, max_grad_norm=1.0)
case("SAC", SAC, lambda: Track(actions="continuous"), OFF_POLICY)
case("SAC with exploration", SAC, lambda: Track(actions="continuous"), OFF_POLICY, use_sde=True, ent_coef=0.1)
case(
    "SAC with two critics and steps",
    SAC,
    lambda: Track(actions="continuous"),
    OFF_POLICY,
    gradient_steps=2,
    n_steps=2,
)
case("TD3", TD3, lambda: Track(actions="continuous"), OFF_POLICY)
case(
    "DDPG",
    DDPG,
    lambda: Track(actions="continuous"),
    OFF_POLICY,
    action_noise=noise.NormalActionNoise(np.zeros(1), 0.1 * np.ones(1)),
)
case(
    "TD3 with noise in time",
    TD3,
    lambda: Track(actions="continuous"),
    OFF_POLICY,
    action_noise=noise.OrnsteinUhlenbeckActionNoise(np.zeros(1), 0.1 * np.ones(1)),
    train_freq=(1, "episode"),
)
case("PPO on CartPole", PPO, lambda: gymnasium.make("CartPole-v1"), ON_POLICY, batch_size=16, n_epochs=2)
case("SAC on Pendulum", SAC, lambda: gymnasium.make("Pendulum-v1"), OFF_POLICY, steps=60)


@client.case
def goals():
    """Hindsight: a goal-conditioned environment of the library with bits, by DQN and SAC."""
    answers = []
    for kind, continuous in ((DQN, False), (SAC, True)):
        env = envs.BitFlippingEnv(n_bits=4, continuous=continuous, max_steps=4)
        env.action_space.seed(0)
        env.observation_space.seed(0)
        made = kind(
            "MultiInputPolicy",
            env,
            replay_buffer_class=HerReplayBuffer,
            replay_buffer_kwargs={"n_sampled_goal": 2, "goal_selection_strategy": "future"},
            **copy.deepcopy(OFF_POLICY),
        )
        made.learn(48)
        answers.append([p.detach().double().norm() for p in made.policy.parameters()])
    return answers


@client.case
def several_environments():
    """Four at once, normalised and stacked, evaluated by a callback, with checkpoints, and stopped after some episodes."""
    with tempfile.TemporaryDirectory() as folder:

        def several():
            return VecFrameStack(VecNormalize(DummyVecEnv([Track] * 4), gamma=0.95), 2)

        made = PPO(
            "MlpPolicy", several(), batch_size=32, n_epochs=2, **copy.deepcopy({**ON_POLICY, "n_steps": 16})
        )
        watched = several()
        watched.seed(5)
        callbacks = [
            EvalCallback(watched, n_eval_episodes=3, eval_freq=20, log_path=folder, verbose=0),
            CheckpointCallback(30, folder, name_prefix="kept"),
            StopTrainingOnMaxEpisodes(40),
        ]
        made.learn(256, callback=callbacks)
        with np.load(os.path.join(folder, "evaluations.npz")) as file:
            evaluated = {name: file[name] for name in sorted(file.files)}
        norms = [p.detach().double().norm() for p in made.policy.parameters()]
        return [norms, evaluated, sorted(os.listdir(folder)), made.num_timesteps]


@client.case
def policies_with_given_weights():
    """What policies compute: values, log-probabilities, entropies, features, with gradients."""
    answers = []
    for actions in ("discrete", "continuous", "several", "bits"):
        track = Track(actions=actions)
        policy = fill(
            policies.ActorCriticPolicy(
                track.observation_space, track.action_space, lambda _: 1e-3, net_arch=[8]
            )
        )
        seen = normal(5, 2)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            chosen, values, log_prob = policy(seen)
            sure = policy(seen, deterministic=True)
        value, likely, entropy = policy.evaluate_actions(seen, chosen)
        (value.sum() + likely.sum() + entropy.sum()).backward()
        gradients = [p.grad.norm() if p.grad is not None else None for p in policy.parameters()]
        answers.append([chosen, values, log_prob, sure, value, likely, entropy, gradients, str(policy)])
    return answers


@client.case
def features():
    track = Track("dictionary")
    seen = {"vector": normal(3, 2), "picture": normal(3, 1, 36, 36).abs(), "step": torch.eye(20)[:3]}
    combined = fill(torch_layers.CombinedExtractor(track.observation_space, cnn_output_dim=8))
    nature = fill(torch_layers.NatureCNN(Track("picture").observation_space, 8))
    mixed = fill(
        torch.nn.Sequential(*torch_layers.create_mlp(4, 2, [8, 8], torch.nn.ReLU, squash_output=True))
    )
    return [
        combined(seen),
        nature(seen["picture"]),
        mixed(normal(3, 4)),
        torch_layers.get_actor_critic_arch([4]),
    ]


@client.case
def distributions_of_actions():
    answers = []
    torch.manual_seed(2)
    for kind, arguments, width in (
        (distributions.DiagGaussianDistribution, (3,), 3),
        (distributions.SquashedDiagGaussianDistribution, (3,), 3),
    ):
        law = kind(*arguments).proba_distribution(normal(4, width), normal(width))
        drawn = law.sample()
        answers.append([drawn, law.log_prob(drawn), law.entropy(), law.mode()])
    for kind, arguments, width in (
        (distributions.CategoricalDistribution, (3,), 3),
        (distributions.MultiCategoricalDistribution, ([3, 2],), 5),
        (distributions.BernoulliDistribution, (3,), 3),
    ):
        law = kind(*arguments).proba_distribution(normal(4, width))
        drawn = law.sample()
        answers.append([drawn, law.log_prob(drawn), law.entropy(), law.mode()])
    free = distributions.StateDependentNoiseDistribution(2, squash_output=True)
    layer, scale = free.proba_distribution_net(latent_dim=4, latent_sde_dim=4)
    free.sample_weights(scale, 4)
    latent = normal(4, 4)
    law = free.proba_distribution(fill(layer)(latent), scale, latent)
    answers.append([law.sample(), law.mode(), law.log_prob(law.mode())])
    one = distributions.DiagGaussianDistribution(2).proba_distribution(normal(4, 2), normal(2))
    two = distributions.DiagGaussianDistribution(2).proba_distribution(
        normal(4, 2, seed=1), normal(2, seed=1)
    )
    return [answers, distributions.kl_divergence(one, two)]


@client.case
def buffers_of_steps():
    track = Track(actions="continuous")
    space = track.observation_space, track.action_space
    rolled = buffers.RolloutBuffer(6, *space, gae_lambda=0.9, gamma=0.95, n_envs=2)
    for i in range(6):
        rolled.add(
            normal(2, 2, seed=i).numpy(),
            normal(2, 1, seed=i).numpy(),
            np.array([0.5, -i]),
            np.array([i == 3, i == 0]),
            normal(2, seed=i),
            normal(2, seed=i + 9),
        )
    rolled.compute_returns_and_advantage(normal(2), np.array([False, True]))
    np.random.seed(0)
    whole = list(rolled.get(4))
    replay = buffers.ReplayBuffer(8, *space, n_envs=1)
    for i in range(11):
        replay.add(
            normal(1, 2, seed=i).numpy(),
            normal(1, 2, seed=i + 1).numpy(),
            normal(1, 1, seed=i).numpy(),
            np.array([1.0 * i]),
            np.array([i % 4 == 3]),
            [{}],
        )
    mean = RunningMeanStd(shape=(2,))
    mean.update(normal(9, 2).numpy())
    return [[list(part) for part in whole], list(replay.sample(5))[:5], mean.mean, mean.var]


@client.case
def files():
    """A model, its buffer and its weights are written and read; parameters are set by name; training goes on."""
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, actions, base in (
            (PPO, "discrete", ON_POLICY),
            (SAC, "continuous", OFF_POLICY),
            (DQN, "discrete", DQN_OPTIONS),
        ):
            made = kind("MlpPolicy", Track(actions=actions), **copy.deepcopy(base)).learn(40)
            made.save(folder + "/model")
            again = kind.load(folder + "/model", env=Track(actions=actions), device="cpu")
            seen = normal(4, 2).numpy()
            same = np.array_equal(
                made.predict(seen, deterministic=True)[0], again.predict(seen, deterministic=True)[0]
            )
            if hasattr(made, "replay_buffer"):
                made.save_replay_buffer(folder + "/buffer")
                again.load_replay_buffer(folder + "/buffer")
            named = made.get_parameters()
            again.set_parameters(named)
            made.policy.save(folder + "/policy")
            policy = type(made.policy).load(folder + "/policy")
            np.random.seed(7)
            again.set_random_seed(7)
            again.learn(40, reset_num_timesteps=False)
            weights = [p.detach().double().norm() for p in again.policy.parameters()]
            answers.append(
                [
                    same,
                    sorted(named),
                    policy.predict(seen, deterministic=True)[0],
                    weights,
                    again.num_timesteps,
                ]
            )
    return answers


@client.case
def judged():
    """The evaluation of a policy, and small tools: Polyak averages, explained variance, schedules, seeds."""
    made = PPO("MlpPolicy", Track(), **copy.deepcopy(ON_POLICY))
    fill(made.policy)
    track = DummyVecEnv([Track])
    track.seed(1)
    rewards = evaluate_policy(made, track, 4, return_episode_rewards=True)
    a, b = fill(torch.nn.Linear(3, 2)), fill(torch.nn.Linear(3, 2), seed=1)
    utils.polyak_update(a.parameters(), b.parameters(), 0.25)
    observed, vectorized = utils.obs_as_tensor(np.eye(2), torch.device("cpu")), str(utils.get_device("auto"))
    return [
        list(rewards),
        list(b.parameters()),
        utils.explained_variance(np.arange(4.0), np.ones(4)),
        observed,
        vectorized,
    ]
