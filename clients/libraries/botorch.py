"""botorch: models fitted by L-BFGS, acquisition functions with given samples, their optimisation, test functions, sampling."""

import warnings

import botorch
import torch
from botorch import acquisition, models, optim, test_functions
from botorch.acquisition import multi_objective
from botorch.models import transforms
from botorch.sampling import IIDNormalSampler, SobolQMCNormalSampler
from botorch.utils import multi_objective as fronts
from gpytorch.mlls import ExactMarginalLogLikelihood, SumMarginalLogLikelihood, VariationalELBO
from harness import Client, normal

client = Client("botorch", "gpytorch", samples=6)
warnings.filterwarnings("ignore")


def points(count=8, dims=2, seed=0):
    return torch.sigmoid(1.5 * normal(count, dims, seed=seed).double())


def seen(count=8, outputs=1):
    x = points(count)
    y = [torch.sin(4 * x[:, :1]) + x[:, 1:] ** 2, torch.cos(3 * x[:, :1]) * x[:, 1:]]
    return x, torch.cat(y[:outputs], -1)


def single(outputs=1, **options):
    torch.manual_seed(0)
    return models.SingleTaskGP(*seen(outputs=outputs), **options)


def posterior(model, x=None):
    with torch.no_grad():
        result = model.posterior(points(4, seed=5) if x is None else x)
        return [result.mean, result.variance]


def sampler(count=16):
    return SobolQMCNormalSampler(torch.Size([count]), seed=7)


@client.case
def fitted():
    """Marginal likelihoods fitted by SciPy's L-BFGS and by Adam, with the library's priors and transforms."""
    model = single(outcome_transform=transforms.Standardize(1), input_transform=transforms.Normalize(2))
    objective = ExactMarginalLogLikelihood(model.likelihood, model)
    botorch.fit_gpytorch_mll(objective)
    other = single()
    slow = ExactMarginalLogLikelihood(other.likelihood, other)
    optim.fit.fit_gpytorch_mll_torch(slow, step_limit=8)
    with torch.no_grad():
        value = objective(model(*model.train_inputs), model.train_targets)
    return [value, posterior(model), [p for p in other.parameters()], posterior(other)]


@client.case
def kinds_of_models():
    x, y = seen()
    torch.manual_seed(0)
    made = {
        "two outputs": models.SingleTaskGP(*seen(outputs=2)),
        "given noise": models.SingleTaskGP(x, y, 0.01 * torch.ones_like(y)),
        "mixed": models.MixedSingleTaskGP(torch.cat([x, (x[:, :1] > 0.5).double()], -1), y, cat_dims=[2]),
        "tasks": models.MultiTaskGP(torch.cat([x, (x[:, :1] > 0.5).double()], -1), y, task_feature=-1),
        "fidelities": models.SingleTaskMultiFidelityGP(torch.cat([x, x[:, :1]], -1), y, data_fidelities=[2]),
        "higher order": models.HigherOrderGP(x, torch.stack([y, y**2], 1)),
        "Kronecker": models.KroneckerMultiTaskGP(*seen(outputs=2)),
        "list": models.ModelListGP(single(), single()),
        "variational": models.SingleTaskVariationalGP(x, y, inducing_points=4),
    }
    answers = {}
    for name, model in made.items():
        wide = name in ("mixed", "fidelities")
        torch.manual_seed(1)
        answers[name] = posterior(
            model.eval(), torch.cat([points(4, seed=5), torch.ones(4, 1)], -1) if wide else None
        )
    variational = models.SingleTaskVariationalGP(x, y, inducing_points=4)
    measure = VariationalELBO(variational.likelihood, variational.model, 8)
    measure(variational.model(x), y[:, 0]).backward()
    return answers


ANALYTIC = {
    "expected improvement": lambda m: acquisition.ExpectedImprovement(m, 0.8),
    "log expected improvement": lambda m: acquisition.LogExpectedImprovement(m, 0.8),
    "probability of improvement": lambda m: acquisition.ProbabilityOfImprovement(m, 0.8),
    "log probability": lambda m: acquisition.analytic.LogProbabilityOfImprovement(m, 0.8),
    "upper confidence bound": lambda m: acquisition.UpperConfidenceBound(m, 0.2),
    "posterior mean": lambda m: acquisition.PosteriorMean(m),
    "standard deviation": lambda m: acquisition.PosteriorStandardDeviation(m),
    "noisy": lambda m: acquisition.LogNoisyExpectedImprovement(
        models.SingleTaskGP(*seen(), 0.01 * torch.ones(8, 1).double()), points(3), num_fantasies=4
    ),
}
SAMPLED = {
    "q expected improvement": lambda m: acquisition.qExpectedImprovement(m, 0.8, sampler=sampler()),
    "q log expected improvement": lambda m: acquisition.qLogExpectedImprovement(m, 0.8, sampler=sampler()),
    "q noisy": lambda m: acquisition.qNoisyExpectedImprovement(
        m, points(3), sampler=sampler(), prune_baseline=False
    ),
    "q log noisy": lambda m: acquisition.qLogNoisyExpectedImprovement(
        m, points(3), sampler=sampler(), prune_baseline=False
    ),
    "q probability": lambda m: acquisition.qProbabilityOfImprovement(m, 0.8, sampler=sampler()),
    "q upper confidence bound": lambda m: acquisition.qUpperConfidenceBound(m, 0.2, sampler=sampler()),
    "q simple regret": lambda m: acquisition.qSimpleRegret(m, sampler=sampler()),
    "q negative integrated variance": lambda m: acquisition.qNegIntegratedPosteriorVariance(
        m, points(5, seed=8)
    ),
    "max value entropy": lambda m: acquisition.qLowerBoundMaxValueEntropy(m, points(20, seed=2)),
}


def valued(make, q):
    def run():
        model = single()
        torch.manual_seed(3)
        function = make(model)
        x = points(3 * q, seed=4).reshape(3, q, 2).requires_grad_()
        value = function(x)
        (gradient,) = torch.autograd.grad(value.sum(), x)
        return [value, gradient]

    return run


for name, make in ANALYTIC.items():
    client.case(valued(make, 1), name=name)
for name, make in SAMPLED.items():
    client.case(valued(make, 1 if name == "max value entropy" else 2), name=name)


@client.case
def knowledge_gradient_and_fantasies():
    model = single()
    function = acquisition.qKnowledgeGradient(model, num_fantasies=3, sampler=sampler(3))
    x = points(4, seed=4).unsqueeze(0).requires_grad_()
    value = function(x)
    value.sum().backward()
    fantasies = model.fantasize(points(2, seed=6), sampler(3))
    return [
        value,
        x.grad,
        posterior(fantasies),
        posterior(model.condition_on_observations(points(2), seen(2)[1])),
    ]


BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


@client.case
def optimised():
    """The best point of an acquisition function, from starts that are given; in sequence; with constraints; on discrete points."""
    model = single()
    function = acquisition.LogExpectedImprovement(model, 0.8)
    starts = points(3, seed=9).unsqueeze(1)
    options = {"num_restarts": 3, "batch_initial_conditions": starts, "options": {"maxiter": 40}}
    one = optim.optimize_acqf(function, BOUNDS, q=1, **options)
    line = [(torch.tensor([0, 1]), torch.tensor([-1.0, -1.0]).double(), -1.2)]
    bound = optim.optimize_acqf(
        function,
        BOUNDS,
        q=1,
        inequality_constraints=line,
        **{**options, "batch_initial_conditions": 0.5 * starts},
    )
    several = acquisition.qLogExpectedImprovement(model, 0.8, sampler=sampler())
    pairs = optim.optimize_acqf(
        several,
        BOUNDS,
        q=2,
        num_restarts=2,
        batch_initial_conditions=points(4, seed=3).reshape(2, 2, 2),
        options={"maxiter": 30},
    )
    discrete = optim.optimize_acqf_discrete(function, 1, points(12, seed=2))
    by_torch = botorch.generation.gen.gen_candidates_torch(
        starts, function, torch.zeros(2).double(), torch.ones(2).double(), options={"maxiter": 5}
    )
    return [list(one), list(bound), pairs[1], list(discrete), list(by_torch)]


@client.case
def several_objectives():
    model = models.ModelListGP(
        *(models.SingleTaskGP(seen()[0], seen(outputs=2)[1][:, i : i + 1]) for i in (0, 1))
    )
    reference = torch.tensor([-1.0, -1.0], dtype=torch.float64)
    y = seen(outputs=2)[1]
    best = y[fronts.pareto.is_non_dominated(y)]
    split = fronts.box_decompositions.NondominatedPartitioning(reference, best)
    x = points(4, seed=4).reshape(2, 2, 2).requires_grad_()
    answers = [best, fronts.hypervolume.Hypervolume(reference).compute(best), split.compute_hypervolume()]
    for function in (
        multi_objective.qExpectedHypervolumeImprovement(model, reference, split, sampler=sampler()),
        multi_objective.qLogExpectedHypervolumeImprovement(model, reference, split, sampler=sampler()),
        multi_objective.qLogNoisyExpectedHypervolumeImprovement(
            model, reference.tolist(), points(3), sampler=sampler(), prune_baseline=False
        ),
        multi_objective.ExpectedHypervolumeImprovement(model, reference.tolist(), split),
    ):
        analytic = isinstance(function, multi_objective.ExpectedHypervolumeImprovement)
        value = function(x[:, :1] if analytic else x)
        answers.append([value, torch.autograd.grad(value.sum(), x)[0]])
    return answers


@client.case
def functions_to_test_with():
    answers = {}
    for name in (
        "Ackley Branin Hartmann Rosenbrock Levy Griewank Rastrigin SixHumpCamel StyblinskiTang Beale".split()
    ):
        function = getattr(test_functions, name)().to(torch.float64)
        x = points(3, function.dim) * 2
        answers[name] = function(x, noise=False) if name != "Hartmann" else function(x / 2, noise=False)
    for name in "BraninCurrin DTLZ2 ZDT1 C2DTLZ2 ConstrainedBraninCurrin".split():
        kind = getattr(test_functions.multi_objective, name)
        function = kind(dim=4, num_objectives=2) if "TLZ2" in name or "ZDT" in name else kind()
        answers[name] = function.to(torch.float64)(points(3, function.dim), noise=False)
    return answers


@client.case
def samples():
    """Sobol points, normal samples from them, a posterior's draws, Thompson sampling's paths, and a polytope's points."""
    draws = botorch.utils.draw_sobol_samples(BOUNDS, 4, 2, seed=1)
    normals = botorch.utils.sampling.draw_sobol_normal_samples(3, 5, seed=2)
    model = single()
    held = model.posterior(points(3, seed=5))
    torch.manual_seed(0)
    independent = IIDNormalSampler(torch.Size([4]), seed=3)(held)
    return [
        draws,
        normals,
        sampler(4)(held),
        independent,
        botorch.utils.sampling.sample_simplex(3, 4, qmc=True, seed=1),
    ]


@client.case(tolerance=1e-3)
def loop():
    """Four rounds of Bayesian optimisation: fit, optimise, evaluate, join."""
    function = test_functions.Branin(negate=True).to(torch.float64)
    lower, upper = function.bounds
    x = points(6)
    y = function(lower + x * (upper - lower)).unsqueeze(-1)
    for i in range(4):
        model = models.SingleTaskGP(x, y, outcome_transform=transforms.Standardize(1))
        objective = ExactMarginalLogLikelihood(model.likelihood, model)
        botorch.fit_gpytorch_mll(objective, optimizer_kwargs={"options": {"maxiter": 15}})
        value = acquisition.UpperConfidenceBound(model, 1.0)
        more, _ = optim.optimize_acqf(
            value,
            BOUNDS,
            1,
            2,
            batch_initial_conditions=points(2, seed=20 + i).unsqueeze(1),
            options={"maxiter": 15},
        )
        x = torch.cat([x, more])
        y = torch.cat([y, function(lower + more * (upper - lower)).unsqueeze(-1)])
    both = SumMarginalLogLikelihood(models.ModelListGP(model).likelihood, models.ModelListGP(model))
    return [x[6:], y[6:], type(both).__name__]
