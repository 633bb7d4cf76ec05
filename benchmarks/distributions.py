"""Samples and log probabilities of every distribution, side by side with PyTorch.

    python benchmarks/distributions.py                     # all, 1 thread, as a Markdown table
    python benchmarks/distributions.py --threads 2 --cases 'Gamma|Beta' --what log_prob --seconds 0.5
    python benchmarks/distributions.py --batch             # parameters of the size of the values, not numbers

Needs PyTorch.  Sizes are numbers of elements (of vectors and matrices: together).  `sample` and `rsample` draw so many values,
`log_prob` takes so many, arguments validated as by default; `new` makes the distribution and takes the log probability of 10
values.  Rounds of the two libraries alternate; a case's time is the least of them, ratio = PyTorch's time / flambeau's.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import time
import warnings
from collections.abc import Callable
from typing import Any

SIZES = (1, 1000, 1_000_000)
WAYS = ("sample", "rsample", "log_prob", "new")
# Name and parameters of scalar distributions; `n` makes a tensor of the batch's shape that is filled with a number.
SCALARS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "Bernoulli": lambda n: {"probs": n(0.3)},
    "Beta": lambda n: {"concentration1": n(2.0), "concentration0": n(3.0)},
    "Binomial": lambda n: {"total_count": n(40.0), "probs": n(0.3)},
    "Cauchy": lambda n: {"loc": n(0.5), "scale": n(2.0)},
    "Chi2": lambda n: {"df": n(3.0)},
    "ContinuousBernoulli": lambda n: {"probs": n(0.3)},
    "Exponential": lambda n: {"rate": n(2.0)},
    "FisherSnedecor": lambda n: {"df1": n(3.0), "df2": n(5.0)},
    "Gamma": lambda n: {"concentration": n(2.0), "rate": n(3.0)},
    "GeneralizedPareto": lambda n: {"loc": n(0.0), "scale": n(1.0), "concentration": n(0.2)},
    "Geometric": lambda n: {"probs": n(0.3)},
    "Gumbel": lambda n: {"loc": n(0.5), "scale": n(2.0)},
    "HalfCauchy": lambda n: {"scale": n(2.0)},
    "HalfNormal": lambda n: {"scale": n(2.0)},
    "InverseGamma": lambda n: {"concentration": n(2.0), "rate": n(3.0)},
    "Kumaraswamy": lambda n: {"concentration1": n(2.0), "concentration0": n(3.0)},
    "Laplace": lambda n: {"loc": n(0.5), "scale": n(2.0)},
    "LogNormal": lambda n: {"loc": n(0.5), "scale": n(0.5)},
    "NegativeBinomial": lambda n: {"total_count": n(5.0), "probs": n(0.3)},
    "Normal": lambda n: {"loc": n(0.5), "scale": n(2.0)},
    "Pareto": lambda n: {"scale": n(2.0), "alpha": n(3.0)},
    "Poisson": lambda n: {"rate": n(4.0)},
    "RelaxedBernoulli": lambda n: {"temperature": n(0.7), "probs": n(0.3)},
    "StudentT": lambda n: {"df": n(5.0), "loc": n(0.5), "scale": n(2.0)},
    "Uniform": lambda n: {"low": n(-1.0), "high": n(2.0)},
    "VonMises": lambda n: {"loc": n(0.5), "concentration": n(2.0)},
    "Weibull": lambda n: {"scale": n(2.0), "concentration": n(3.0)},
}
# How many numbers a value has, and the distribution of a batch of that shape.
MADE: dict[str, tuple[int, Callable[[Any, tuple[int, ...]], Any]]] = {
    "Categorical": (1, lambda lib, s: lib.distributions.Categorical(probs=_weights(lib, s))),
    "Dirichlet": (4, lambda lib, s: lib.distributions.Dirichlet(_row(lib, s, (0.5, 1.0, 2.0, 3.0)))),
    "Independent": (
        4,
        lambda lib, s: lib.distributions.Independent(
            lib.distributions.Normal(lib.zeros(*s, 4), lib.ones(*s, 4)), 1
        ),
    ),
    "LKJCholesky": (9, lambda lib, s: lib.distributions.LKJCholesky(3, lib.full(s, 1.5))),
    "LogisticNormal": (4, lambda lib, s: lib.distributions.LogisticNormal(lib.zeros(*s, 3), lib.ones(*s, 3))),
    "LowRankMultivariateNormal": (
        4,
        lambda lib, s: lib.distributions.LowRankMultivariateNormal(
            lib.zeros(*s, 4), lib.ones(4, 1) * 0.5, lib.ones(4)
        ),
    ),
    "MixtureSameFamily": (
        1,
        lambda lib, s: lib.distributions.MixtureSameFamily(
            lib.distributions.Categorical(probs=_weights(lib, s)),
            lib.distributions.Normal(lib.ones(*s, 4), lib.ones(*s, 4)),
        ),
    ),
    "Multinomial": (4, lambda lib, s: lib.distributions.Multinomial(10, probs=_weights(lib, s))),
    "MultivariateNormal": (
        4,
        lambda lib, s: lib.distributions.MultivariateNormal(lib.zeros(*s, 4), scale_tril=_factor(lib, 4)),
    ),
    "OneHotCategorical": (4, lambda lib, s: lib.distributions.OneHotCategorical(probs=_weights(lib, s))),
    "OneHotCategoricalStraightThrough": (
        4,
        lambda lib, s: lib.distributions.OneHotCategoricalStraightThrough(probs=_weights(lib, s)),
    ),
    "RelaxedOneHotCategorical": (
        4,
        lambda lib, s: lib.distributions.RelaxedOneHotCategorical(lib.tensor(0.7), probs=_weights(lib, s)),
    ),
    "TransformedDistribution": (
        1,
        lambda lib, s: lib.distributions.TransformedDistribution(
            lib.distributions.Uniform(lib.zeros(s), lib.ones(s)),
            [
                lib.distributions.SigmoidTransform().inv,
                lib.distributions.AffineTransform(lib.full(s, 0.5), lib.full(s, 2.0)),
            ],
        ),
    ),
    "Wishart": (9, lambda lib, s: lib.distributions.Wishart(lib.full(s, 5.0), scale_tril=_factor(lib, 3))),
}


def _row(lib: Any, shape: tuple[int, ...], values: tuple[float, ...]) -> Any:
    return lib.tensor(values).expand(*shape, len(values)).contiguous()


def _weights(lib: Any, shape: tuple[int, ...]) -> Any:
    return _row(lib, shape, (0.1, 0.2, 0.3, 0.4))


def _factor(lib: Any, n: int) -> Any:
    return lib.ones(n, n).tril() * 0.3 + lib.eye(n)


def maker(lib: Any, name: str, shape: tuple[int, ...]) -> Callable[[], Any]:
    """Makes the distribution anew of parameters that are there."""
    if name in MADE:
        return lambda: MADE[name][1](lib, shape)
    parameters = SCALARS[name](lambda x: lib.full(shape, x))
    kind = getattr(lib.distributions, name)
    return lambda: kind(**parameters)


def call_of(lib: Any, name: str, way: str, size: int, batch: bool) -> Callable[[], Any] | None:
    """What is timed; None where there is no such method."""
    lib.manual_seed(0)
    count = max(1, size // MADE[name][0]) if name in MADE else size
    alone = count == 1 or not batch
    make = maker(lib, name, () if alone else (count,))
    distribution = make()
    drawn = () if count == 1 or not alone else (count,)
    if way == "sample":
        return lambda: distribution.sample(drawn)
    if way == "rsample":
        return (lambda: distribution.rsample(drawn)) if distribution.has_rsample else None
    if way == "log_prob":
        value = distribution.sample(drawn)
        return lambda: distribution.log_prob(value)
    value = distribution.sample((10,))
    return lambda: make().log_prob(value)


def timed(call: Callable[[], Any], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def compare(torch: Any, lib: Any, name: str, way: str, size: int, options: Any) -> tuple[float, float] | None:
    calls = [call_of(library, name, way, size, options.batch) for library in (lib, torch)]
    if None in calls:
        return None
    times = []
    for call in calls:
        timed(call, 2)  # compiles, and warms up
        times.append(max(1, int(options.seconds / options.rounds / 2 / max(timed(call, 1), 1e-7))))
    samples = [[timed(call, n) for call, n in zip(calls, times)] for _ in range(options.rounds)]
    ours, theirs = map(min, zip(*samples))
    return ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", default="", help="a regular expression for the names")
    parser.add_argument("--what", default="", help="a regular expression for sample, rsample, log_prob, new")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--batch", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each case")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch, lib = importlib.import_module("torch"), importlib.import_module("flambeau")
    importlib.import_module("torch.distributions")
    for library in (torch, lib):
        library.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    print(
        "| distribution | what | elements | flambeau, µs | PyTorch, µs | ratio |\n|---|---|---|---|---|---|"
    )
    ratios: dict[str, list[float]] = {}
    for name in filter(re.compile(options.cases).search, sorted((*SCALARS, *MADE))):
        for way in filter(re.compile(f"^({options.what or '.*'})$").match, WAYS):
            for size in options.sizes[:1] if way == "new" else options.sizes:
                pair = compare(torch, lib, name, way, size, options)
                if pair is None:
                    continue
                ours, theirs = pair
                ratios.setdefault(way, []).append(theirs / ours)
                print(
                    f"| {name} | {way} | {size} | {ours * 1e6:.1f} | {theirs * 1e6:.1f} | {theirs / ours:.2f} |",
                    flush=True,
                )
    print("\n| what | cases | geometric mean | least | below 1 |\n|---|---|---|---|---|")
    every = [r for group in ratios.values() for r in group]
    for way, group in {**ratios, "all": every}.items():
        mean = math.exp(sum(map(math.log, group)) / len(group))
        print(f"| {way} | {len(group)} | {mean:.2f} | {min(group):.2f} | {sum(r < 1 for r in group)} |")


if __name__ == "__main__":
    main()
