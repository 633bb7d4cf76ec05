# ruff: noqa: B023  (functions in loops run at once)
"""Distributions beside PyTorch: every method of every distribution, all divergences, constraints and their transforms.

    python tools/distributions_of_torch.py [--only REGEX] [--seeds N] [-v]

Both libraries get the same random parameters and values, in float64 and float32, and the edges of supports, infinities and
NaN without validation.  Compared are values, shapes, dtypes, gradients, reprs, classes and first words of errors, and samples by a
test of fit.  One line for each distribution or group tells how many comparisons agreed; -v shows those that did not.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from scipy import stats

import flambeau

rng = np.random.default_rng(0)


def real(*shape: int) -> np.ndarray:
    return rng.normal(size=shape)


def positive(*shape: int) -> np.ndarray:
    return rng.gamma(2.0, 0.7, shape) + 0.05


def unit(*shape: int) -> np.ndarray:
    return rng.uniform(0.05, 0.95, shape)


def weights(*shape: int) -> np.ndarray:
    return rng.dirichlet(np.ones(shape[-1]) * 2, shape[:-1])


def factor(*shape: int) -> np.ndarray:
    """Lower-triangular with positive diagonal."""
    made = np.tril(rng.normal(size=shape) * 0.5)
    n = shape[-1]
    made[..., range(n), range(n)] = positive(*shape[:-1])
    return made


def definite(*shape: int) -> np.ndarray:
    f = factor(*shape)
    return f @ f.swapaxes(-1, -2)


B = (4,)
# What makes each distribution, by name: from the module of a library and a function that makes its tensors.
TABLE: dict[str, Callable[[], dict[str, Any]]] = {
    "Bernoulli": lambda: {"probs": unit(*B)},
    "Bernoulli logits": lambda: {"logits": real(*B)},
    "Beta": lambda: {"concentration1": positive(*B), "concentration0": positive(*B)},
    "Binomial": lambda: {"total_count": 7, "probs": unit(*B)},
    "Binomial logits": lambda: {"total_count": rng.integers(1, 9, B).astype(float), "logits": real(*B)},
    "Categorical": lambda: {"probs": weights(4, 3)},
    "Categorical logits": lambda: {"logits": real(4, 3)},
    "Cauchy": lambda: {"loc": real(*B), "scale": positive(*B)},
    "Chi2": lambda: {"df": positive(*B) * 3},
    "ContinuousBernoulli": lambda: {"probs": np.append(unit(3), 0.5)},
    "ContinuousBernoulli logits": lambda: {"logits": real(*B)},
    "Dirichlet": lambda: {"concentration": positive(4, 3)},
    "ExpRelaxedCategorical": lambda: {"temperature": np.array(0.7), "probs": weights(4, 3)},
    "Exponential": lambda: {"rate": positive(*B)},
    "FisherSnedecor": lambda: {"df1": positive(*B) * 4 + 4, "df2": positive(*B) * 4 + 4},
    "Gamma": lambda: {"concentration": positive(*B), "rate": positive(*B)},
    "GeneralizedPareto": lambda: {
        "loc": real(*B),
        "scale": positive(*B),
        "concentration": np.append(real(3) * 0.4, 0.0),
    },
    "Geometric": lambda: {"probs": unit(*B)},
    "Geometric logits": lambda: {"logits": real(*B)},
    "Gumbel": lambda: {"loc": real(*B), "scale": positive(*B)},
    "HalfCauchy": lambda: {"scale": positive(*B)},
    "HalfNormal": lambda: {"scale": positive(*B)},
    "InverseGamma": lambda: {"concentration": positive(*B) + 2.5, "rate": positive(*B)},
    "Kumaraswamy": lambda: {"concentration1": positive(*B) + 1, "concentration0": positive(*B) + 1},
    "LKJCholesky": lambda: {"dim": 3, "concentration": positive(*B)},
    "Laplace": lambda: {"loc": real(*B), "scale": positive(*B)},
    "LogNormal": lambda: {"loc": real(*B), "scale": positive(*B)},
    "LogisticNormal": lambda: {"loc": real(4, 3), "scale": positive(4, 3)},
    "LogitRelaxedBernoulli": lambda: {"temperature": np.array(0.7), "probs": unit(*B)},
    "LowRankMultivariateNormal": lambda: {
        "loc": real(4, 3),
        "cov_factor": real(4, 3, 2),
        "cov_diag": positive(4, 3),
    },
    "Multinomial": lambda: {"total_count": 6, "probs": weights(4, 3)},
    "Multinomial logits": lambda: {"total_count": 6, "logits": real(4, 3)},
    "MultivariateNormal": lambda: {"loc": real(4, 3), "covariance_matrix": definite(4, 3, 3)},
    "MultivariateNormal precision": lambda: {"loc": real(4, 3), "precision_matrix": definite(4, 3, 3)},
    "MultivariateNormal factor": lambda: {"loc": real(4, 3), "scale_tril": factor(4, 3, 3)},
    "NegativeBinomial": lambda: {"total_count": positive(*B) * 4, "probs": unit(*B)},
    "NegativeBinomial logits": lambda: {"total_count": positive(*B) * 4, "logits": real(*B)},
    "Normal": lambda: {"loc": real(*B), "scale": positive(*B)},
    "OneHotCategorical": lambda: {"probs": weights(4, 3)},
    "OneHotCategoricalStraightThrough": lambda: {"logits": real(4, 3)},
    "Pareto": lambda: {"scale": positive(*B), "alpha": positive(*B) + 0.5},
    "Poisson": lambda: {"rate": positive(*B) * 3},
    "RelaxedBernoulli": lambda: {"temperature": np.array(0.7), "probs": unit(*B)},
    "RelaxedOneHotCategorical": lambda: {"temperature": np.array(0.7), "probs": weights(4, 3)},
    "StudentT": lambda: {"df": positive(*B) * 3 + 2.1, "loc": real(*B), "scale": positive(*B)},
    "Uniform": lambda: (lambda low: {"low": low, "high": low + positive(*B)})(real(*B)),
    "VonMises": lambda: {"loc": real(*B), "concentration": positive(*B)},
    "Weibull": lambda: {"scale": positive(*B), "concentration": positive(*B) + 0.5},
    "Wishart": lambda: {"df": positive(*B) * 2 + 3, "covariance_matrix": definite(4, 3, 3)},
}
# Why a difference is meant, by a pattern for "distribution: method".
MEANT = {
    r"(Categorical|Multinomial|OneHot).*: r?sample\(0": "no samples, where PyTorch's multinomial wants at least one",
    r"GeneralizedPareto.*: .*(log_prob|cdf).*(float64|validated)": "PyTorch's compares with a float32 number, and fails",
    r"Gumbel: (cdf\(.*True|icdf)": "0 and 1 at the ends, where PyTorch's base stops before them, or refuses",
    r"(Half\w+|LogNormal|Beta): (repr|expand)": "names the parameters",
    r"Kumaraswamy: .*mode": "PyTorch takes logarithms of negative numbers",
    r"Kumaraswamy: (log_prob|cdf)|Weibull: (log_prob|cdf\(-inf)": "limits, where PyTorch gives NaN; what is outside is refused",
    r"InverseGamma: log_prob\((-inf|-0.0)": "outside of the support, without validation",
    r"LKJCholesky: fit": "correlations of the density's spread, which PyTorch's samples have not",
    r"LogitRelaxedBernoulli: has_rsample": "it has, which PyTorch's does not say",
    r"RelaxedBernoulli: log_prob(\(nan| of)": "without validation the base has none, either",
    r"OneHot.*: log_prob of \(3, 2\)": "without validation, the error for shapes that do not broadcast",
    r"(Pareto|Beta|FisherSnedecor|LowRankMultivariateNormal): with ": "names the parameter that was given",
    r"(ContinuousBernoulli|GeneralizedPareto).*: (gradients of|icdf|mean gradient)": "right where the closed form ends",
    r"ContinuousBernoulli: with probs": "refused, where PyTorch clamps before it checks",
    r"ContinuousBernoulli Uniform$|Uniform ContinuousBernoulli$": "PyTorch calls it infinite at the very ends of the interval",
    r"divergences: gradients: Uniform (Beta|Chi2|Gamma)": "none where the divergence is infinite, where PyTorch gives NaN",
    r"divergences: .*: Wishart Wishart": "of each element; PyTorch's mixes the elements of a batch",
    r"constraints: .* of value 14": "empty matrices are triangular, where PyTorch fails",
}
BAD = {  # a parameter outside of its support
    "probs": (-0.1, 1.1, np.nan), "logits": (np.nan,), "loc": (np.nan,), "scale": (0.0, -1.0, np.nan),
    "rate": (-1.0, np.nan), "concentration": (np.nan, -1.0), "concentration1": (0.0,), "concentration0": (0.0,),
    "df": (-1.0,), "df1": (0.0,), "df2": (0.0,), "alpha": (0.0,), "low": (99.0,), "total_count": (-1.0,), "cov_diag": (0.0,),
}  # fmt: skip
EDGES = np.array([-np.inf, -1.5, -1.0, -0.0, 0.5, 1.0, 2.0, 3.0, np.inf, np.nan])
PROPERTIES = ("mean", "mode", "variance", "stddev")


def tensors(t: Any, parameters: dict[str, Any], dtype: str, grad: bool = False) -> dict[str, Any]:
    made = {}
    for name, value in parameters.items():
        if isinstance(value, np.ndarray):
            value = t.tensor(value, dtype=getattr(t, dtype))
            value.requires_grad_(grad)
        made[name] = value
    return made


def build(
    t: Any, name: str, parameters: dict[str, Any], dtype: str, grad: bool = False, **options: Any
) -> Any:
    made = tensors(t, parameters, dtype, grad)
    return class_named(t, name)(**made, **options), made


def class_named(t: Any, name: str) -> Any:
    """The class, also of those that only their modules name."""
    for place in (t.distributions, t.distributions.relaxed_bernoulli, t.distributions.relaxed_categorical):
        if hasattr(place, name.split()[0]):
            return getattr(place, name.split()[0])
    return None


def plain(value: Any) -> Any:
    """A result as arrays, names and lists of them."""
    if isinstance(value, (torch.Tensor, flambeau.Tensor)):
        return value.detach().numpy()
    if isinstance(value, (torch.Size, flambeau.Size)):
        return tuple(value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (bool, int, float, type(None))):
        return value
    return re.sub(r"\b(torch|flambeau)\b", "T", repr(value) if not isinstance(value, str) else value)


def same(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(same(x, y, tolerance) for x, y in zip(a, b))
    if isinstance(a, np.ndarray):
        if not isinstance(b, np.ndarray) or (a.shape, a.dtype) != (b.shape, b.dtype):
            return False
        return np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    return type(a) is type(b) and a == b


def outcome(program: Callable, *args: Any) -> Any:
    """What the program returns, or the class of its error and how its message begins."""
    try:
        return plain(program(*args))
    except Exception as e:
        text = plain(re.sub(r"\(Tensor of shape .*?\)\)", "", str(e))).split(" of distribution ")[0][:40]
        return [type(e).__name__, text if isinstance(e, ValueError) else ""]


def gradients(program: Callable, d: Any, made: dict[str, Any], *more: Any) -> Any:
    """The program's result, and the gradients of its finite part by the parameters and by further arguments."""
    output = program(d, *more)
    leaves = [v for v in (*made.values(), *more) if hasattr(v, "requires_grad") and v.requires_grad]
    if not output.requires_grad:
        return [output, "no gradient"]
    output[output.isfinite()].sum().backward()
    return [output, *[leaf.grad for leaf in leaves]]


class Report:
    def __init__(self, verbose: bool) -> None:
        self.verbose, self.counts, self.meant = verbose, {}, {}

    def compare(self, group: str, what: str, theirs: Any, ours: Any, tolerance: float) -> None:
        agrees = same(theirs, ours, tolerance)
        good, bad, meant = self.counts.get(group, (0, 0, 0))
        excused = not agrees and any(re.search(p, f"{group}: {what}") for p in MEANT)
        self.counts[group] = good + agrees, bad + (not agrees and not excused), meant + excused
        if self.verbose and not agrees and not excused:
            shown = [" ".join(f"{x!r:.600}".split())[:400] for x in (theirs, ours)]
            print(f"  {group}: {what}\n    PyTorch  {shown[0]}\n    flambeau {shown[1]}")

    def show(self) -> int:
        for group, (good, bad, meant) in self.counts.items():
            print(f"{group:42s} {good:6d} agree {bad:4d} differ {meant:3d} meant")
        totals = [sum(c[k] for c in self.counts.values()) for k in range(3)]
        print(f"{'all':42s} {totals[0]:6d} agree {totals[1]:4d} differ {totals[2]:3d} meant")
        return totals[1]


def both(report: Report, group: str, what: str, program: Callable, sides: Any, tolerance: float) -> None:
    report.compare(group, what, *(outcome(program, *side) for side in sides), tolerance)


def distribution(report: Report, name: str, dtype: str) -> None:
    parameters = TABLE[name]()
    tolerance = 1e-7 if dtype == "float64" else 3e-4
    sides = [(t, *build(t, name, parameters, dtype)) for t in (torch, flambeau)]
    theirs = sides[0][1]
    pair = [(d,) for _, d, _ in sides]

    def ask(what: str, program: Callable) -> None:
        both(report, name, f"{what} {dtype}", program, pair, tolerance)

    ask("repr", repr)
    for what in ("batch_shape", "event_shape", "has_rsample", "has_enumerate_support", "support"):
        ask(what, lambda d: getattr(d, what))
    ask("constraints", lambda d: sorted(f"{k} {v}" for k, v in d.arg_constraints.items()))
    for what in PROPERTIES:
        ask(what, lambda d: getattr(d, what))
    for what in ("entropy", "perplexity", "enumerate_support"):
        ask(what, lambda d: getattr(d, what)())
    ask("enumerate_support(False)", lambda d: d.enumerate_support(False))
    for shape in ((), (2,), (3, 1), (0,)):
        ask(f"sample{shape}", lambda d: [d.sample(shape).shape, str(d.sample(shape).dtype)])
        ask(f"rsample{shape}", lambda d: [d.rsample(shape).shape, str(d.rsample(shape).dtype)])
    wide = (3, *theirs.batch_shape)
    ask("expand", lambda d: [d.expand(wide), d.expand(wide).mean])
    torch.manual_seed(0)
    value = theirs.sample((5,)).numpy()
    for grad in (False, True):
        for what in ("log_prob", "cdf"):
            if grad:
                made = [build(t, name, parameters, dtype, grad=True) for t in (torch, flambeau)]
                args = [
                    (*m, t.tensor(value, requires_grad=value.dtype.kind == "f"))
                    for m, t in zip(made, (torch, flambeau))
                ]
                program = lambda d, m, v: gradients(lambda d, v: getattr(d, what)(v), d, m, v)
                both(report, name, f"gradients of {what} {dtype}", program, args, tolerance * 30)
            else:
                args = [(d, t.tensor(value)) for t, d, _ in sides]
                both(report, name, f"{what} {dtype}", lambda d, v: getattr(d, what)(v), args, tolerance)
                wider = lambda d, v: getattr(d.expand(wide), what)(v[:1])
                both(report, name, f"{what} of expanded {dtype}", wider, args, tolerance)
    for what in PROPERTIES:
        args = [build(t, name, parameters, dtype, grad=True) for t in (torch, flambeau)]
        both(report, name, f"gradients of {what} {dtype}",
             lambda d, m: gradients(lambda d: getattr(d, what), d, m), args, tolerance * 30)  # fmt: skip
    args = [build(t, name, parameters, dtype, grad=True) for t in (torch, flambeau)]
    if "entropy" in type(theirs).__dict__:  # the base's cuts the gradient off
        both(report, name, f"gradients of entropy {dtype}",
             lambda d, m: gradients(lambda d: d.entropy(), d, m), args, tolerance * 30)  # fmt: skip
    u = unit(5, *theirs.batch_shape)
    args = [(*build(t, name, parameters, dtype, grad=True), t.tensor(u, dtype=getattr(t, dtype), requires_grad=True))
            for t in (torch, flambeau)]  # fmt: skip
    both(report, name, f"icdf {dtype}",
         lambda d, m, v: gradients(lambda d, v: d.icdf(v), d, m, v), args, tolerance * 30)  # fmt: skip


def edges(report: Report, name: str) -> None:
    """Values outside the support: refused with validation; without it, the same numbers."""
    parameters = TABLE[name]()
    for check in (True, False):
        sides = [
            (t, build(t, name, parameters, "float64", validate_args=check)[0]) for t in (torch, flambeau)
        ]
        event = sides[0][1].event_shape
        values = EDGES if not event else [EDGES[2:5], EDGES[3:6], EDGES[-3:]] if len(event) == 1 else []
        for value in values:
            for what in ("log_prob", "cdf"):
                args = [(d, t.tensor(value)) for t, d in sides]
                both(report, name, f"{what}({value}), validated: {check}",
                     lambda d, v: getattr(d, what)(v), args, 1e-7)  # fmt: skip
        if not event and not check:
            for value in (0.0, 1.0, 0.5, -0.5, np.nan):
                args = [(d, t.tensor(value, dtype=t.float64)) for t, d in sides]
                both(report, name, f"icdf({value})", lambda d, v: d.icdf(v), args, 1e-7)
    for bad_shape in ((7,), (3, 2)):
        args = [(d, t.zeros(bad_shape)) for t, d in sides]
        both(report, name, f"log_prob of {bad_shape}", lambda d, v: d.log_prob(v), args, 1e-6)
    for parameter, values in BAD.items():
        if not isinstance(parameters.get(parameter), np.ndarray):
            continue
        for value in values:
            worse = {**parameters, parameter: parameters[parameter].copy()}
            worse[parameter].flat[0] = value
            both(report, name, f"with {parameter} {value}",
                 lambda t, w=worse: build(t, name, w, "float64")[0], [(torch,), (flambeau,)], 0)  # fmt: skip
    for lacking in ({}, {**parameters, "probs": unit(4, 3), "logits": real(4, 3)}):
        if "probs" in parameters or "logits" in parameters:
            different = {k: v for k, v in lacking.items()} or {
                k: v for k, v in parameters.items() if k not in ("probs", "logits")
            }
            both(report, name, f"given {sorted(different)}",
                 lambda t, w=different: build(t, name, w, "float64")[0], [(torch,), (flambeau,)], 0)  # fmt: skip


def fit(report: Report, name: str, n: int = 20000) -> None:
    """Samples of both, by a Kolmogorov-Smirnov test of the first coordinate of each batch element, and of a mixture of all."""
    parameters = TABLE[name]()
    drawn = []
    for t in (torch, flambeau):
        t.manual_seed(1)
        d = build(t, name, parameters, "float64")[0]
        drawn.append(d.sample((n,)).numpy().reshape(n, -1).astype(float))
    mix = rng.normal(size=drawn[0].shape[1])
    mixed = tuple((x @ mix).round(9) for x in drawn)  # so that ties stay ties
    columns = [*((a, b) for a, b in zip(drawn[0].T, drawn[1].T)), mixed]
    for k, (a, b) in enumerate(columns):
        p = stats.ks_2samp(a, b).pvalue
        report.compare(name, f"fit of column {k}, p = {p:.1e}", True, bool(p > 1e-5), 0)


def rsample_gradients(report: Report, name: str, n: int = 40000) -> None:
    """The mean gradient of a smooth function of samples by the parameters, which does not depend on how samples are made."""
    parameters = TABLE[name]()
    grads = []
    for t in (torch, flambeau):
        t.manual_seed(2)
        d, made = build(t, name, parameters, "float64", grad=True)
        if not d.has_rsample:
            return
        try:
            sample = d.rsample((n,))
            score = (sample.tanh() * t.arange(1, sample.shape[-1] + 1, dtype=t.float64)).mean(0).sum()
            score.backward()
        except (NotImplementedError, RuntimeError):  # PyTorch's Wishart and von Mises have no gradient
            return
        grads.append([m.grad.numpy() for m in made.values() if hasattr(m, "grad") and m.grad is not None])
    for k, (a, b) in enumerate(zip(*grads, strict=True)):
        close = np.abs(a - b) <= 0.06 * (1 + np.abs(a))
        report.compare(name, f"mean gradient {k} of samples: {a} and {b}"[:200], True, bool(close.all()), 0)


def divergences(report: Report, names: list[str]) -> None:
    for p in names:
        for q in names:
            both = TABLE[p](), TABLE[q]()
            if p == "Binomial logits":
                both[0]["total_count"] = both[1]["total_count"] = np.full(B, 5.0) if q == p else 5

            def program(t: Any) -> Any:
                one, made = build(t, p, both[0], "float64", grad=True)
                other, more = build(t, q, both[1], "float64", grad=True)
                divergence = t.distributions.kl_divergence(one, other)
                made = {**{f"p {k}": v for k, v in made.items()}, **{f"q {k}": v for k, v in more.items()}}
                return (
                    gradients(lambda d: divergence, one, made) if divergence.requires_grad else [divergence]
                )

            first = outcome(lambda: program(torch)), outcome(lambda: program(flambeau))
            if all(isinstance(x[0], str) and x[0] == "NotImplementedError" for x in first):
                report.compare("divergences that neither has", f"{p} {q}", 0, 0, 0)
                continue
            for part, what in ((0, "value"), (1, "gradients")):
                cut = [x[:1] if part == 0 and isinstance(x, list) else x for x in first]
                cut = [clean(x) for x in cut] if part else cut
                report.compare(f"divergences: {what}", f"{p} {q}", *cut, 1e-6)


def clean(stored: Any) -> Any:
    """Gradients: absent ones and zeros are alike."""
    if not isinstance(stored, list):
        return stored
    return [None if isinstance(x, np.ndarray) and not x.any() else x for x in stored[1:]]


def checks(report: Report) -> None:
    bank = [real(3), real(3, 3), np.array([0.0, 1.0, 0.0]), np.eye(3), weights(2, 3), definite(2, 3, 3), factor(2, 3, 3),
            np.array([0.0, 1.0, 2.0, -1.0, 0.5, np.inf, -np.inf, np.nan]), np.array([1, 0, 3, -2]), np.array([True, False]),
            real(2, 3), np.array(0.5), np.array(2), np.linalg.cholesky(np.array([[1, 0.5], [0.5, 1]])), np.zeros((0, 3))]  # fmt: skip
    makers: dict[str, Callable] = {
        n: (lambda c, n=n: getattr(c, n))
        for n in (
            "boolean corr_cholesky dependent lower_cholesky lower_triangular nonnegative nonnegative_integer"
            " one_hot positive positive_definite positive_integer positive_semidefinite real real_vector simplex"
            " square symmetric unit_interval"
        ).split()  # fmt: skip
    }
    makers |= {
        "greater_than": lambda c: c.greater_than(0.5),
        "greater_than_eq": lambda c: c.greater_than_eq(-1),
        "less_than": lambda c: c.less_than(0.5),
        "interval": lambda c: c.interval(-1, 2),
        "half_open_interval": lambda c: c.half_open_interval(-1, 2.0),
        "integer_interval": lambda c: c.integer_interval(0, 2),
        "multinomial": lambda c: c.multinomial(3),
        "independent": lambda c: c.independent(c.positive, 1),
        "cat": lambda c: c.cat([c.positive, c.real], 0, [1, 2]),
        "stack": lambda c: c.stack([c.positive, c.real, c.unit_interval], -1),
        "mixture": lambda c: c.MixtureSameFamilyConstraint(c.positive),
    }
    for name, make in makers.items():
        sides = [(t, make(t.distributions.constraints)) for t in (torch, flambeau)]
        pair = [(c,) for _, c in sides]
        for what in ("is_discrete", "event_dim"):
            both(report, "constraints", f"{name} {what}", lambda c: getattr(c, what), pair, 0)
        both(report, "constraints", f"{name} repr", lambda c: re.sub(r"0x\w+", "", repr(c)), pair, 0)
        for k, value in enumerate(bank):
            args = [(c, t.tensor(value)) for t, c in sides]
            both(report, "constraints", f"{name} of value {k}", lambda c, v: c.check(v), args, 0)
        for registry in ("biject_to", "transform_to"):
            for k, value in enumerate(bank[:3]):
                both(report, "constraint registries", f"{registry} {name} of value {k}",
                     lambda t, c, v, r=registry: through(getattr(t.distributions, r)(c), v),
                     [(t, c, t.tensor(value)) for t, c in sides], 1e-7)  # fmt: skip


def through(transform: Any, x: Any) -> Any:
    y = transform(x)
    return [type(transform).__name__, y, transform.inv(y), transform.log_abs_det_jacobian(x, y)]


def names_of(pattern: str) -> Iterator[str]:
    for name in TABLE:
        if re.search(pattern, name) and class_named(flambeau, name) is not None:
            yield name


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", default="", help="a regular expression for names of distributions")
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("-v", action="store_true", dest="verbose")
    args = options.parse_args()
    report = Report(args.verbose)
    warnings.simplefilter("ignore")
    absent = [n for n in torch.distributions.__all__ if n not in flambeau.distributions.__all__]
    print("not here:", ", ".join(absent) or "nothing")
    for seed in range(args.seeds):
        global rng
        rng = np.random.default_rng(seed)
        for name in names_of(args.only):
            for dtype in ("float64", "float32"):
                distribution(report, name, dtype)
            edges(report, name)
            fit(report, name)
            rsample_gradients(report, name)
        divergences(report, list(names_of(args.only)))
        if not args.only:
            checks(report)
    raise SystemExit(report.show() > 0)


if __name__ == "__main__":
    main()
