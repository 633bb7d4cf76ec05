"""Pyro: distributions, traces and handlers, variational inference with several guides and objectives, Hamiltonian Monte Carlo, files.

Random numbers are PyTorch's own (`FLAMBEAU_RANDOM=pytorch`).
"""

import tempfile
import warnings

import pyro
import pyro.distributions as dist
import pyro.infer.reparam
import torch
from harness import Client, integers, normal
from pyro import infer, poutine
from pyro.infer import autoguide
from torch.distributions import constraints

client = Client("pyro-ppl", samples=6)
warnings.filterwarnings("ignore")
DATA = normal(20) * 0.5 + 1.0


def mean_and_scale(data=None):
    mean = pyro.sample("mean", dist.Normal(0.0, 2.0))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 0.5))
    with pyro.plate("data", 20):
        return pyro.sample("seen", dist.Normal(mean, scale), obs=data)


def store():
    return {name: value.detach() for name, value in sorted(pyro.get_param_store().items())}


def fitted(model, guide, objective=None, optimiser=None, steps=8, data=DATA):
    pyro.clear_param_store()
    pyro.set_rng_seed(1)
    svi = infer.SVI(model, guide, optimiser or pyro.optim.Adam({"lr": 0.05}), objective or infer.Trace_ELBO())
    losses = [svi.step(data) for _ in range(steps)]
    return [losses, svi.evaluate_loss(data), store()]


GUIDES = {
    "delta": autoguide.AutoDelta,
    "normal": autoguide.AutoNormal,
    "diagonal": autoguide.AutoDiagonalNormal,
    "multivariate": autoguide.AutoMultivariateNormal,
    "low rank": lambda m: autoguide.AutoLowRankMultivariateNormal(m, rank=1),
    "IAF": autoguide.AutoIAFNormal,
    "Laplace": autoguide.AutoLaplaceApproximation,
    "structured": autoguide.AutoStructured,
}
OBJECTIVES = {
    "of several particles": lambda: infer.Trace_ELBO(
        num_particles=3, vectorize_particles=True, max_plate_nesting=1
    ),
    "graph": lambda: infer.TraceGraph_ELBO(),
    "mean field": lambda: infer.TraceMeanField_ELBO(),
    "Renyi": lambda: infer.RenyiELBO(alpha=0.5, num_particles=2),
}
OPTIMISERS = {
    "clipped": lambda: pyro.optim.ClippedAdam({"lr": 0.05, "clip_norm": 1.0, "lrd": 0.99}),
    "Adagrad": lambda: pyro.optim.AdagradRMSProp({"eta": 0.1}),
    "SGD": lambda: pyro.optim.SGD({"lr": 0.001, "momentum": 0.9}),
    "scheduled": lambda: pyro.optim.ExponentialLR(
        {"optimizer": torch.optim.Adam, "optim_args": {"lr": 0.05}, "gamma": 0.9}
    ),
}
for name, make in GUIDES.items():
    client.case(lambda make=make: fitted(mean_and_scale, make(mean_and_scale)), name=f"guide {name}")
for name, make in OBJECTIVES.items():
    client.case(
        lambda make=make: fitted(mean_and_scale, autoguide.AutoNormal(mean_and_scale), make()),
        name=f"objective {name}",
    )
for name, make in OPTIMISERS.items():
    client.case(
        lambda make=make: fitted(mean_and_scale, autoguide.AutoNormal(mean_and_scale), optimiser=make()),
        name=f"optimiser {name}",
    )


@client.case
def guide_by_hand():
    """Parameters with constraints, a module of the network kind inside of the guide, and the store written and read."""
    network = torch.nn.Linear(20, 2)
    with torch.no_grad():
        network.weight.copy_(0.1 * normal(2, 20)), network.bias.zero_()

    def guide(data):
        pyro.module("network", network)
        place = network(data)
        width = pyro.param("width", torch.tensor(0.5), constraint=constraints.positive)
        pyro.sample("mean", dist.Normal(place[0], width))
        pyro.sample("scale", dist.LogNormal(place[1], 0.1))

    answer = fitted(mean_and_scale, guide)
    with tempfile.TemporaryDirectory() as folder:
        pyro.get_param_store().save(folder + "/store")
        before = store()
        pyro.clear_param_store()
        pyro.get_param_store().load(folder + "/store")
        return [answer, store(), list(before)]


@infer.config_enumerate
def mixture(data=None):
    weights = pyro.sample("weights", dist.Dirichlet(torch.ones(2)))
    with pyro.plate("kinds", 2):
        places = pyro.sample("places", dist.Normal(0.0, 3.0))
    with pyro.plate("data", 20):
        kind = pyro.sample("kind", dist.Categorical(weights))
        pyro.sample("seen", dist.Normal(places[kind], 0.5), obs=data)


@client.case
def enumerated():
    """Discrete latent variables summed out, in parallel; the most likely ones; marginals."""
    guide = autoguide.AutoDelta(
        poutine.block(mixture, expose=["weights", "places"]),
        init_loc_fn=lambda site: (
            torch.tensor([0.4, 0.6]) if site["name"] == "weights" else torch.tensor([0.0, 1.0])
        ),
    )
    answer = fitted(mixture, guide, infer.TraceEnum_ELBO(max_plate_nesting=1))
    pyro.set_rng_seed(2)
    trained = poutine.replay(mixture, trace=poutine.trace(guide).get_trace(DATA))
    best = poutine.trace(infer.infer_discrete(trained, temperature=0, first_available_dim=-2)).get_trace(DATA)
    marginals = infer.TraceEnum_ELBO(max_plate_nesting=1).compute_marginals(mixture, guide, DATA)
    return [answer, best.nodes["kind"]["value"], {k: v.probs for k, v in marginals.items()}]


@infer.config_enumerate
def chain(data):
    moves = pyro.param("moves", torch.tensor([[0.7, 0.3], [0.2, 0.8]]), constraint=constraints.simplex)
    state = 0
    for i in pyro.markov(range(6)):
        state = pyro.sample(f"state {i}", dist.Categorical(moves[state]))
        pyro.sample(f"seen {i}", dist.Normal(state * 1.0, 0.5), obs=data[i])


@client.case
def hidden_states():
    return fitted(chain, lambda data: None, infer.TraceEnum_ELBO(max_plate_nesting=0), data=DATA[:6])


@client.case
def monte_carlo():
    """NUTS and HMC: the potential and its gradient, a short chain, its summary, and what the posterior predicts."""
    answers = []
    pyro.clear_param_store()
    for kernel in (
        infer.NUTS(mean_and_scale, step_size=0.1, adapt_step_size=False, max_tree_depth=3),
        infer.HMC(
            mean_and_scale, step_size=0.05, num_steps=4, adapt_step_size=False, adapt_mass_matrix=False
        ),
    ):
        pyro.set_rng_seed(3)
        run = infer.MCMC(kernel, num_samples=4, warmup_steps=2, disable_progbar=True)
        run.run(DATA)
        result = run.get_samples()
        predictive = infer.Predictive(mean_and_scale, result)
        pyro.set_rng_seed(4)
        answers.append([dict(sorted(result.items())), predictive()["seen"]])
    _, potential, transforms, _ = infer.mcmc.util.initialize_model(mean_and_scale, (DATA,))
    z = {"mean": torch.tensor(0.5, requires_grad=True), "scale": torch.tensor(-0.3, requires_grad=True)}
    value = potential(z)
    return [answers, value, list(torch.autograd.grad(value, [z["mean"], z["scale"]])), sorted(transforms)]


@client.case
def handlers():
    """What handlers make of a model: traces, conditions, replays, masks, scales, lifted parameters, interventions."""
    pyro.clear_param_store()
    answers = []
    for wrapped in (
        lambda: mean_and_scale,
        lambda: poutine.condition(mean_and_scale, {"mean": torch.tensor(0.3)}),
        lambda: poutine.do(mean_and_scale, {"mean": torch.tensor(0.3)}),
        lambda: poutine.mask(mean_and_scale, torch.tensor(False)),
        lambda: poutine.scale(mean_and_scale, 0.5),
        lambda: poutine.uncondition(poutine.condition(mean_and_scale, {"seen": DATA})),
        lambda: poutine.block(mean_and_scale, hide=["mean"]),
        lambda: poutine.reparam(mean_and_scale, {"mean": pyro.infer.reparam.LocScaleReparam(0.5)}),
    ):
        pyro.set_rng_seed(5)
        trace = poutine.trace(wrapped()).get_trace(DATA if len(answers) != 5 else None)
        trace.compute_log_prob()
        named = [n for n in trace.nodes if trace.nodes[n]["type"] == "sample" and n != "data"]
        answers.append([named, trace.log_prob_sum(), [trace.nodes[n]["value"] for n in named]])
    return [answers, poutine.trace(mean_and_scale).get_trace(DATA).format_shapes()]


@client.case
def distributions():
    """Pyro's own distributions and forms: densities, with gradients, at given places."""
    x = normal(4)
    made = {
        "expanded": (dist.Normal(0.0, torch.ones(3)).expand([4, 3]).to_event(1), normal(4, 3)),
        "mask": (dist.Normal(0.0, 1.0).mask(x > 0), x),
        "delta": (dist.Delta(x, log_density=0.5), x),
        "zero inflated": (
            dist.ZeroInflatedPoisson(torch.tensor(2.0), gate=torch.tensor(0.3)),
            integers(4, 4).float(),
        ),
        "beta binomial": (dist.BetaBinomial(2.0, 3.0, 5), integers(5, 4).float()),
        "gamma Poisson": (dist.GammaPoisson(2.0, 0.5), integers(5, 4).float()),
        "Dirichlet multinomial": (
            dist.DirichletMultinomial(torch.ones(3), 4),
            torch.tensor([[1.0, 2, 1], [0, 0, 4]]),
        ),
        "inverse gamma": (dist.InverseGamma(2.0, 1.0), x.abs() + 0.1),
        "mixture": (dist.MaskedMixture(x > 0, dist.Normal(0.0, 1.0), dist.Laplace(0.0, 1.0)), x),
        "asymmetric": (dist.AsymmetricLaplace(0.0, 1.0, 0.7), x),
        "soft": (dist.SoftLaplace(0.0, 1.0), x),
        "skew": (dist.SkewLogistic(0.0, 1.0, 0.6), x),
        "stable": (dist.StableWithLogProb(1.5, 0.1), x),
        "LKJ": (dist.LKJ(3, 1.5), torch.eye(3)),
        "multivariate t": (
            dist.MultivariateStudentT(torch.tensor(4.0), torch.zeros(3), torch.eye(3)),
            normal(4, 3),
        ),
        "projected": (
            dist.ProjectedNormal(torch.tensor([1.0, 0.5])),
            torch.nn.functional.normalize(normal(4, 2), dim=-1),
        ),
        "von Mises": (
            dist.VonMises3D(torch.tensor([1.0, 0.5, 0.2])),
            torch.nn.functional.normalize(normal(4, 3), dim=-1),
        ),
        "ordered": (dist.OrderedLogistic(x, torch.tensor([-1.0, 0.5])), integers(3, 4)),
        "truncated": (dist.TruncatedPolyaGamma(torch.tensor(1.0)), x.abs() + 0.1),
        "folded": (dist.FoldedDistribution(dist.Normal(0.5, 1.0)), x.abs()),
        "rejector": (
            dist.LogNormalNegativeBinomial(torch.tensor(3.0), torch.tensor(0.2), torch.tensor(0.5)),
            integers(4, 4).float(),
        ),
        "Gaussian chain": (
            dist.GaussianHMM(
                dist.MultivariateNormal(torch.zeros(2), torch.eye(2)),
                0.9 * torch.eye(2),
                dist.MultivariateNormal(torch.zeros(2), 0.1 * torch.eye(2)),
                torch.eye(2),
                dist.MultivariateNormal(torch.zeros(2), 0.2 * torch.eye(2)),
                duration=5,
            ),
            normal(5, 2),
        ),
        "discrete chain": (
            dist.DiscreteHMM(
                torch.zeros(2),
                torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log(),
                dist.Normal(torch.tensor([0.0, 1.0]), 0.5),
                duration=6,
            ),
            normal(6),
        ),
    }
    answers = {}
    for name, (law, value) in made.items():
        results = [law.log_prob(value), list(law.batch_shape), list(law.event_shape)]
        if value.is_floating_point() and name not in (
            "zero inflated",
            "beta binomial",
            "gamma Poisson",
            "delta",
            "LKJ",
            "rejector",
            "Dirichlet multinomial",
        ):
            at = value.clone().requires_grad_()
            results.append(torch.autograd.grad(law.log_prob(at).sum(), at)[0])
        answers[name] = results
    return answers


@client.case
def flows():
    """Transforms with parameters: forward, back, and their determinants."""
    answers = {}
    for name, make in {
        "affine coupling": lambda: dist.transforms.affine_coupling(4, [8]),
        "autoregressive": lambda: dist.transforms.affine_autoregressive(4, [8]),
        "spline": lambda: dist.transforms.spline(4, count_bins=4),
        "spline coupling": lambda: dist.transforms.spline_coupling(4, hidden_dims=[8], count_bins=4),
        "planar": lambda: dist.transforms.planar(4),
        "radial": lambda: dist.transforms.radial(4),
        "householder": lambda: dist.transforms.householder(4, 2),
        "sylvester": lambda: dist.transforms.sylvester(4),
        "matrix": lambda: dist.transforms.generalized_channel_permute(channels=3),
        "polynomial": lambda: dist.transforms.polynomial(4, [8]),
        "batchnorm": lambda: dist.transforms.batchnorm(4),
        "neural": lambda: dist.transforms.neural_autoregressive(4, [8]),
    }.items():
        pyro.set_rng_seed(6)
        flow = make()
        if (
            name == "matrix"
        ):  # orthogonal as it is made: its determinant's logarithm would be what rounding leaves
            flow.LU.data.mul_(1.3)
        x = normal(2, 3, 5, 5) if name == "matrix" else normal(3, 4)
        y = flow(x)
        answers[name] = [y, flow.log_abs_det_jacobian(x, y), [p.detach().norm() for p in flow.parameters()]]
    return answers


@client.case
def modules():
    """PyroModule: priors over a network's weights, samples and attributes, fitted; a Gaussian process of Pyro's own."""
    pyro.clear_param_store()
    pyro.set_rng_seed(7)

    class Regression(pyro.nn.PyroModule):
        def __init__(self):
            super().__init__()
            self.line = pyro.nn.PyroModule[torch.nn.Linear](2, 1)
            self.line.weight = pyro.nn.PyroSample(dist.Normal(0.0, 1.0).expand([1, 2]).to_event(2))
            self.line.bias = pyro.nn.PyroSample(dist.Normal(0.0, 1.0).expand([1]).to_event(1))
            self.width = pyro.nn.PyroParam(torch.tensor(0.5), constraint=constraints.positive)

        def forward(self, data):
            mean = self.line(data).squeeze(-1)
            with pyro.plate("data", len(data)):
                pyro.sample("seen", dist.Normal(mean, self.width), obs=data.sum(-1))
            return mean

    model = Regression()
    fit = fitted(model, autoguide.AutoDiagonalNormal(model), data=normal(9, 2))
    from pyro.contrib import gp

    x = torch.linspace(0, 1, 8)
    pyro.clear_param_store()
    process = gp.models.GPRegression(x, torch.sin(6 * x), gp.kernels.RBF(1), noise=torch.tensor(0.1))
    losses = gp.util.train(process, num_steps=4)
    return [fit, losses, list(process(torch.linspace(0, 1, 3), full_cov=False))]
