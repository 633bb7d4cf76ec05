"""gpytorch: kernels, means, likelihoods and priors one by one, exact and variational models fitted, predictions, samples, files."""

import io
import math
import warnings

import gpytorch
import linear_operator
import torch
from harness import Client, fill, normal
from linear_operator import operators, to_linear_operator

client = Client("gpytorch", "linear_operator", samples=6)
warnings.filterwarnings("ignore")
kernels, likelihoods = gpytorch.kernels, gpytorch.likelihoods


def line(count=12, seed=0):
    """Points on a line and what is measured there."""
    x = torch.linspace(0, 1, count, dtype=torch.float64)
    return x, torch.sin(2 * math.pi * x) + 0.1 * normal(count, seed=seed).double()


def plane(count=10, seed=0):
    x = torch.sigmoid(normal(count, 2, seed=seed).double())
    return x, torch.sin(3 * x[:, 0]) * x[:, 1] + 0.05 * normal(count, seed=seed + 1).double()


def gradients(module):
    return [p.grad for _, p in sorted(module.named_parameters()) if p.grad is not None]


KERNELS = {
    "RBF": lambda: kernels.RBFKernel(ard_num_dims=2),
    "Matern 1/2": lambda: kernels.MaternKernel(0.5),
    "Matern 3/2": lambda: kernels.MaternKernel(1.5, ard_num_dims=2),
    "Matern 5/2": lambda: kernels.MaternKernel(2.5),
    "RQ": lambda: kernels.RQKernel(),
    "periodic": lambda: kernels.PeriodicKernel(ard_num_dims=2),
    "cosine": lambda: kernels.CosineKernel(),
    "linear": lambda: kernels.LinearKernel(),
    "polynomial": lambda: kernels.PolynomialKernel(3),
    "constant": lambda: kernels.ConstantKernel(),
    "arc": lambda: kernels.ArcKernel(kernels.MaternKernel(2.5), ard_num_dims=2),
    "spectral mixture": lambda: kernels.SpectralMixtureKernel(2, ard_num_dims=2),
    "spectral delta": lambda: kernels.SpectralDeltaKernel(2, num_deltas=4),
    "piecewise": lambda: kernels.PiecewisePolynomialKernel(q=2),
    "Hamming": lambda: kernels.HammingIMQKernel(vocab_size=2),
    "cylindrical": lambda: kernels.CylindricalKernel(3, kernels.MaternKernel(2.5)),
    "RBF with gradients": lambda: kernels.RBFKernelGrad(),
    "Matern with gradients": lambda: kernels.Matern52KernelGrad(),
    "polynomial with gradients": lambda: kernels.PolynomialKernelGrad(2),
    "sum": lambda: (
        kernels.RBFKernel(active_dims=0) + kernels.ScaleKernel(kernels.MaternKernel(1.5, active_dims=1))
    ),
    "product": lambda: kernels.RBFKernel() * kernels.LinearKernel(),
    "features": lambda: kernels.RFFKernel(num_samples=6, num_dims=2),
    "index": lambda: kernels.MultitaskKernel(kernels.RBFKernel(), num_tasks=2, rank=1),
    "coregionalisation": lambda: kernels.LCMKernel(
        [kernels.RBFKernel(), kernels.MaternKernel()], num_tasks=2, rank=1
    ),
    "inducing": lambda: kernels.InducingPointKernel(
        kernels.RBFKernel(), normal(3, 2).double(), likelihoods.GaussianLikelihood()
    ),
    "interpolated": lambda: kernels.GridInterpolationKernel(
        kernels.RBFKernel(), grid_size=8, num_dims=2, grid_bounds=[(-0.2, 1.2)] * 2
    ),
    "additive": lambda: kernels.AdditiveStructureKernel(kernels.RBFKernel(), num_dims=2),
    "product structure": lambda: kernels.ProductStructureKernel(kernels.RBFKernel(), num_dims=2),
    "of distributions": lambda: kernels.GaussianSymmetrizedKLKernel(),
}


def kernel(make):
    """The matrix, its diagonal, the cross terms, batches, and gradients to inputs and parameters."""

    def run():
        torch.manual_seed(0)
        k = make().double()
        with torch.no_grad():
            for i, (_, p) in enumerate(sorted(k.named_parameters())):
                p.add_(0.3 * normal(*p.shape, seed=i).double().reshape(p.shape))
        x = 0.4 * torch.sigmoid(normal(5, 2).double()).requires_grad_()
        z = (0.4 * torch.sigmoid(normal(4, 2).double())).requires_grad_()
        k.train(not isinstance(k, kernels.InducingPointKernel))
        if isinstance(k, kernels.HammingIMQKernel):
            x, z = (x > 0.2).double(), (z > 0.2).double()
        own = k(x).to_dense()
        crossed = k(x, z).to_dense()
        diagonal = k(x).diagonal(dim1=-1, dim2=-2)
        batched = k(torch.stack([x, 0.5 * x])).to_dense()
        (own.square().sum() + crossed.sum() + diagonal.sum() + batched.sum()).backward()
        return [own, crossed, diagonal, batched, x.grad, gradients(k), k.has_lengthscale]

    return run


for name, make in KERNELS.items():
    client.case(kernel(make), name=f"kernel {name}")


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, covariance, mean=None):
        super().__init__(x, y, likelihood)
        self.mean_module = mean or gpytorch.means.ConstantMean()
        self.covar_module = covariance

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def fitted(model, likelihood, x, y, optimiser="adam", steps=6):
    """Some steps on the marginal likelihood; the losses."""
    model.train()
    likelihood.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    losses = []
    if optimiser == "adam":
        made = torch.optim.Adam(model.parameters(), lr=0.1)
    else:
        made = torch.optim.LBFGS(model.parameters(), lr=0.2, max_iter=5, line_search_fn="strong_wolfe")

    def closure():
        made.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(steps if optimiser == "adam" else 2):
        made.step(closure)
    return losses


def predicted(model, likelihood, x):
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        latent = model(x)
        seen = likelihood(latent)
        lower, upper = seen.confidence_region()
        torch.manual_seed(4)
        return [
            latent.mean,
            latent.variance,
            seen.covariance_matrix,
            lower,
            upper,
            latent.rsample(torch.Size([2])),
        ]


@client.case
def exact_by_adam():
    x, y = line()
    likelihood = likelihoods.GaussianLikelihood().double()
    model = Exact(x, y, likelihood, kernels.ScaleKernel(kernels.RBFKernel())).double()
    losses = fitted(model, likelihood, x, y)
    state = {name: value for name, value in model.state_dict().items()}
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    again = Exact(x, y, likelihoods.GaussianLikelihood(), kernels.ScaleKernel(kernels.RBFKernel())).double()
    again.load_state_dict(torch.load(file))
    there = torch.linspace(-0.2, 1.2, 7, dtype=torch.float64)
    return [
        losses,
        state,
        predicted(model, likelihood, there),
        predicted(again, again.likelihood, there),
        str(model),
    ]


@client.case
def exact_by_lbfgs():
    x, y = plane()
    likelihood = likelihoods.GaussianLikelihood(noise_prior=gpytorch.priors.GammaPrior(1.1, 0.05)).double()
    covariance = kernels.ScaleKernel(
        kernels.MaternKernel(2.5, ard_num_dims=2, lengthscale_prior=gpytorch.priors.LogNormalPrior(0.0, 1.0)),
        outputscale_prior=gpytorch.priors.HalfCauchyPrior(1.0),
    )
    model = Exact(x, y, likelihood, covariance, gpytorch.means.LinearMean(2)).double()
    losses = fitted(model, likelihood, x, y, "lbfgs")
    return [losses, predicted(model, likelihood, plane(4, 7)[0])]


@client.case
def ways_of_computing():
    """Conjugate gradients, Lanczos variances and skipped covariances instead of Cholesky factors."""
    x, y = line(30)
    there = torch.linspace(0, 1, 5, dtype=torch.float64)
    answers = []
    for ways in (
        (gpytorch.settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False),),
        (
            gpytorch.settings.max_cholesky_size(0),
            gpytorch.settings.cg_tolerance(1e-6),
            gpytorch.settings.num_trace_samples(0),
        ),
        (gpytorch.settings.fast_pred_var(), gpytorch.settings.detach_test_caches(False)),
        (gpytorch.settings.skip_posterior_variances(),),
        (gpytorch.settings.lazily_evaluate_kernels(False),),
    ):
        likelihood = likelihoods.GaussianLikelihood().double()
        model = Exact(x, y, likelihood, kernels.ScaleKernel(kernels.RBFKernel())).double()
        for way in ways:
            way.__enter__()
        try:
            torch.manual_seed(0)
            model.eval(), likelihood.eval()
            result = model(there)
            answers.append([result.mean, result.variance])
        finally:
            for way in reversed(ways):
                way.__exit__(None, None, None)
    return answers


@client.case
def fantasies_and_left_out():
    """A posterior with more data joined to it, and the leave-one-out likelihood."""
    x, y = line()
    likelihood = likelihoods.GaussianLikelihood().double()
    model = Exact(x, y, likelihood, kernels.ScaleKernel(kernels.RBFKernel())).double()
    out = gpytorch.mlls.LeaveOneOutPseudoLikelihood(likelihood, model)(model(x), y)
    out.backward()
    model.eval()
    model(x[:2])
    more = model.get_fantasy_model(torch.tensor([0.33, 0.71]).double(), torch.tensor([0.5, -0.4]).double())
    return [out, gradients(model), predicted(more, more.likelihood, x[::3])]


@client.case
def several_outputs():
    x, _ = line()
    y = torch.stack([torch.sin(6 * x), torch.cos(6 * x)], -1)

    class Tasks(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.MultitaskMean(gpytorch.means.ConstantMean(), num_tasks=2)
            self.covar_module = kernels.MultitaskKernel(kernels.RBFKernel(), num_tasks=2, rank=1)

        def forward(self, x):
            normal = gpytorch.distributions.MultitaskMultivariateNormal
            return normal(self.mean_module(x), self.covar_module(x))

    torch.manual_seed(0)
    likelihood = likelihoods.MultitaskGaussianLikelihood(num_tasks=2, rank=1).double()
    model = Tasks(likelihood).double()
    return [fitted(model, likelihood, x, y, steps=4), predicted(model, likelihood, x[::4])]


@client.case
def batches_and_lists():
    x, y = line()
    likelihood = likelihoods.GaussianLikelihood(batch_shape=torch.Size([2])).double()
    covariance = kernels.ScaleKernel(
        kernels.RBFKernel(batch_shape=torch.Size([2])), batch_shape=torch.Size([2])
    )
    mean = gpytorch.means.ConstantMean(batch_shape=torch.Size([2]))
    x = x.expand(2, -1).unsqueeze(-1)
    model = Exact(x, torch.stack([y, -y]), likelihood, covariance, mean).double()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    loss = objective(model(x), torch.stack([y, -y]))
    loss.sum().backward()
    singles = [
        Exact(x, sign * y, likelihoods.GaussianLikelihood(), kernels.RBFKernel()).double() for sign in (1, -1)
    ]
    listed = gpytorch.models.IndependentModelList(*singles)
    both = gpytorch.likelihoods.LikelihoodList(*(m.likelihood for m in singles))
    summed = gpytorch.mlls.SumMarginalLogLikelihood(both, listed)(
        listed(*listed.train_inputs), listed.train_targets
    )
    return [loss, gradients(model), summed, predicted(model, likelihood, x[:, ::4])]


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, inducing, strategy, distribution):
        made = distribution(inducing.size(-2))
        super().__init__(strategy(self, inducing, made, learn_inducing_locations=True))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = kernels.ScaleKernel(kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


variational = gpytorch.variational
STRATEGIES = {
    "whitened": (variational.VariationalStrategy, variational.CholeskyVariationalDistribution),
    "unwhitened": (variational.UnwhitenedVariationalStrategy, variational.CholeskyVariationalDistribution),
    "mean field": (variational.VariationalStrategy, variational.MeanFieldVariationalDistribution),
    "delta": (variational.VariationalStrategy, variational.DeltaVariationalDistribution),
    "natural": (variational.VariationalStrategy, variational.NaturalVariationalDistribution),
    "triangular natural": (variational.VariationalStrategy, variational.TrilNaturalVariationalDistribution),
    "decoupled": (variational.BatchDecoupledVariationalStrategy, None),
    "CIQ": (variational.CiqVariationalStrategy, variational.CholeskyVariationalDistribution),
}
LIKELIHOODS = {
    "Gaussian": lambda: likelihoods.GaussianLikelihood(),
    "Bernoulli": lambda: likelihoods.BernoulliLikelihood(),
    "Student": lambda: likelihoods.StudentTLikelihood(),
    "Laplace": lambda: likelihoods.LaplaceLikelihood(),
    "beta": lambda: likelihoods.BetaLikelihood(),
    "softmax": lambda: likelihoods.SoftmaxLikelihood(num_features=2, num_classes=3),
}


def trained(strategy="whitened", likelihood="Gaussian", objective=gpytorch.mlls.VariationalELBO):
    def run():
        torch.manual_seed(0)
        x, y = line()
        x = x.unsqueeze(-1)
        way, distribution = STRATEGIES[strategy]
        distribution = distribution or (
            lambda count: variational.CholeskyVariationalDistribution(count, batch_shape=torch.Size([]))
        )
        model = Variational(x[::3].clone(), way, distribution).double()
        observed = LIKELIHOODS[likelihood]().double()
        if likelihood == "Bernoulli":
            y = (y > 0).double()
        elif likelihood == "beta":
            y = torch.sigmoid(y)
        measure = objective(observed, model, num_data=len(y))
        natural = "natural" in strategy
        optimisers = [
            torch.optim.Adam(
                [*(model.hyperparameters() if natural else model.parameters()), *observed.parameters()],
                lr=0.05,
            )
        ]
        if natural:
            optimisers.append(gpytorch.optim.NGD(model.variational_parameters(), num_data=len(y), lr=0.1))
        losses = []
        for _ in range(4):
            for optimiser in optimisers:
                optimiser.zero_grad()
            loss = -measure(model(x), y)
            loss.backward()
            for optimiser in optimisers:
                optimiser.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            result = model(torch.linspace(0, 1, 5, dtype=torch.float64).unsqueeze(-1))
        return [losses, result.mean, result.variance, gradients(model)]

    return run


for name in STRATEGIES:
    client.case(trained(name), name=f"variational {name}")
for name in LIKELIHOODS:
    if name != "softmax":
        client.case(trained(likelihood=name), name=f"likelihood {name}")
client.case(trained(objective=gpytorch.mlls.PredictiveLogLikelihood), name="predictive objective")
client.case(
    trained(objective=lambda *a, **k: gpytorch.mlls.GammaRobustVariationalELBO(*a, gamma=1.03, **k)),
    name="robust objective",
)


@client.case
def several_variational_outputs():
    """Independent and coregionalised outputs, and a softmax likelihood over latent functions."""
    x = line()[0].unsqueeze(-1)
    y = torch.cat([torch.sin(6 * x), torch.cos(6 * x)], -1)
    answers = []

    class Tasks(gpytorch.models.ApproximateGP):
        def __init__(self, wrap, latents):
            made = variational.CholeskyVariationalDistribution(4, batch_shape=torch.Size([latents]))
            inducing = x[::3].expand(latents, 4, 1).clone()
            super().__init__(wrap(variational.VariationalStrategy(self, inducing, made)))
            shape = torch.Size([latents])
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=shape)
            self.covar_module = kernels.ScaleKernel(kernels.RBFKernel(batch_shape=shape), batch_shape=shape)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    for wrap, latents in (
        (lambda s: variational.IndependentMultitaskVariationalStrategy(s, num_tasks=2), 2),
        (lambda s: variational.LMCVariationalStrategy(s, num_tasks=2, num_latents=3, latent_dim=-1), 3),
    ):
        torch.manual_seed(1)
        model = Tasks(wrap, latents).double()
        likelihood = likelihoods.MultitaskGaussianLikelihood(num_tasks=2).double()
        loss = -gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))(model(x), y)
        loss.backward()
        answers.append([loss, gradients(model)])
    torch.manual_seed(1)
    classes = likelihoods.SoftmaxLikelihood(num_features=2, num_classes=3).double()
    with torch.no_grad():
        law = classes(model(x))
    return [answers, law.probs]


@client.case
def deep_kernel():
    """A network's features as the inputs of a Gaussian process on a grid, trained end to end."""
    x, y = plane(16)
    network = fill(
        torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    ).double()

    class Deep(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = kernels.ScaleKernel(kernels.RBFKernel(ard_num_dims=2))
            self.covar_module = kernels.GridInterpolationKernel(base, num_dims=2, grid_size=10)
            self.network = network
            self.scale = gpytorch.utils.grid.ScaleToBounds(-1.0, 1.0)

        def forward(self, x):
            features = self.scale(self.network(x))
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(features), self.covar_module(features)
            )

    likelihood = likelihoods.GaussianLikelihood().double()
    model = Deep(likelihood).double()
    losses = fitted(model, likelihood, x, y, steps=4)
    model.eval(), likelihood.eval()
    with torch.no_grad():
        return [losses, likelihood(model(plane(4, 5)[0])).mean]


@client.case
def deep_process():
    class Layer(gpytorch.models.deep_gps.DeepGPLayer):
        def __init__(self, inputs, outputs):
            shape = torch.Size([] if outputs is None else [outputs])
            inducing = normal(*shape, 5, inputs).double()
            made = variational.CholeskyVariationalDistribution(5, batch_shape=shape)
            super().__init__(variational.VariationalStrategy(self, inducing, made), inputs, outputs)
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=shape)
            self.covar_module = kernels.ScaleKernel(
                kernels.RBFKernel(batch_shape=shape, ard_num_dims=inputs),
                batch_shape=shape,
                ard_num_dims=None,
            )

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    class Deep(gpytorch.models.deep_gps.DeepGP):
        def __init__(self):
            super().__init__()
            self.first, self.last = Layer(2, 2), Layer(2, None)
            self.likelihood = likelihoods.GaussianLikelihood()

        def forward(self, x):
            return self.last(self.first(x))

    x, y = plane(12)
    torch.manual_seed(2)
    model = Deep().double()
    objective = gpytorch.mlls.DeepApproximateMLL(gpytorch.mlls.VariationalELBO(model.likelihood, model, 12))
    with gpytorch.settings.num_likelihood_samples(3):
        loss = -objective(model(x), y)
        loss.backward()
    return [loss, gradients(model)]


@client.case
def means_priors_and_constraints():
    x = plane()[0]
    answers = [fill(mean).double()(x) for mean in (gpytorch.means.ZeroMean(), gpytorch.means.LinearMean(2))]
    priors = gpytorch.priors
    place = torch.tensor([0.3, 1.7])
    for prior in (
        priors.NormalPrior(0.0, 1.0),
        priors.LogNormalPrior(0.0, 1.0),
        priors.GammaPrior(2.0, 1.5),
        priors.HalfCauchyPrior(0.5),
        priors.HalfNormalPrior(0.5),
        priors.UniformPrior(0.0, 2.0),
        priors.HorseshoePrior(0.1),
        priors.SmoothedBoxPrior(0.2, 1.5),
        priors.MultivariateNormalPrior(torch.zeros(2), torch.eye(2)),
    ):
        answers.append([prior.log_prob(place), sorted(prior.state_dict()), prior.transform(place)])
    moved = priors.LogNormalPrior(2.5, 2.1)
    moved.load_state_dict(priors.LogNormalPrior(0.5, 0.1).state_dict())
    answers.append([moved.loc, moved.scale, moved.base_dist.loc])
    correlated = priors.LKJCovariancePrior(2, 0.5, priors.SmoothedBoxPrior(0.1, 2.0))
    answers.append(correlated.log_prob(torch.tensor([[0.5, 0.1], [0.1, 0.7]])))
    constraints = gpytorch.constraints
    for constraint in (
        constraints.Positive(),
        constraints.GreaterThan(1e-3),
        constraints.LessThan(3.0),
        constraints.Interval(0.1, 2.0),
    ):
        raw = constraint.inverse_transform(place)
        answers.append([raw, constraint.transform(raw), constraint.check(place), str(constraint)])
    return answers


@client.case
def operators_of_linear_algebra():
    """Structured matrices: products, solves, determinants, roots, sums, by functions of torch and by methods."""
    a, d = normal(4, 4).double(), normal(4).double().abs() + 0.5
    positive = a @ a.mT + 2 * torch.eye(4, dtype=torch.float64)
    vector = normal(4, 2).double()
    column = torch.tensor([2.0, 0.5, 0.2, 0.1], dtype=torch.float64)
    made = {
        "dense": to_linear_operator(positive),
        "diagonal": operators.DiagLinearOperator(d),
        "identity": operators.IdentityLinearOperator(4, dtype=torch.float64),
        "Toeplitz": operators.ToeplitzLinearOperator(column),
        "root": operators.RootLinearOperator(torch.linalg.cholesky(positive)),
        "low rank and diagonal": operators.LowRankRootLinearOperator(a[:, :2]).add_diagonal(d),
        "triangular": operators.TriangularLinearOperator(torch.linalg.cholesky(positive)),
        "Kronecker": operators.KroneckerProductLinearOperator(
            to_linear_operator(positive[:2, :2]), to_linear_operator(positive[2:, 2:])
        ),
        "constant times": to_linear_operator(positive) * 1.5,
        "sum": to_linear_operator(positive) + operators.DiagLinearOperator(d),
        "product": to_linear_operator(positive) * to_linear_operator(positive),
        "blocks": operators.BlockDiagLinearOperator(
            to_linear_operator(torch.stack([positive[:2, :2], positive[2:, 2:]]))
        ),
        "permuted": operators.PermutationLinearOperator(torch.tensor([2, 0, 3, 1])),
    }
    answers = {}
    for name, operator in made.items():
        results = [
            operator.to_dense(),
            torch.matmul(operator, vector) if name != "permuted" else operator @ vector.float(),
        ]
        if name != "permuted":
            results += [
                operator.mT.to_dense(),
                torch.diagonal(operator, dim1=-1, dim2=-2),
                operator[1:3, :2].to_dense(),
            ]
            results += [
                torch.linalg.solve(operator, vector),
                (2 * operator).to_dense(),
                operator.sum(-1),
                operator[0],
            ]
        if name not in ("permuted", "triangular"):
            quadratic, logdet = operator.inv_quad_logdet(vector, logdet=True)
            results += [quadratic, logdet, torch.linalg.eigvalsh(operator.to_dense())]
            results += [torch.linalg.cholesky(operator).to_dense(), operator.sqrt_inv_matmul(vector).abs()]
            results += [
                operator.root_decomposition().to_dense(),
                torch.add(operator, torch.eye(4).double()).to_dense(),
            ]
        answers[name] = results
    return [answers, linear_operator.settings.cholesky_jitter.value(torch.float64)]
