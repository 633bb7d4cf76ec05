"""Draws of random numbers that run on this library and on PyTorch alike: `t` is either.

Each is a function of the library and a dtype.  `exact` ones give the same bits wherever they run; others those of the C library's
logarithms and sines, or, where they are `computed` with, what sums of other orders leave of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

FLOATS = ("float32", "float64", "float16", "bfloat16")
WIDE = ("float32", "float64")
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
ALL = FLOATS + INTEGERS
SEED = 2**33 + 7
# What is not PyTorch's, and why; the states are where they do not stand here.
OTHERS = {
    "multinomial without|bfloat16": "the order among equal quotients, of which bfloat16 has many, is its sorting's",
    "distributions.LKJCholesky|float32": "it draws rows from other beta distributions than its density says",
    "distributions.LKJCholesky|float64": "as for float32",
    "distributions.Wishart|float32": "it draws again what is not singular",
    "distributions.Wishart|float64": "as for float32",
}
OTHER_STATES = ("distributions.Wishart|float32", "distributions.Wishart|float64")


class Draw(NamedTuple):
    name: str
    dtypes: tuple[str, ...]
    call: Callable[[Any, Any], Any]
    exact: bool = True
    computed: bool = False


DRAWS: list[Draw] = []


def draw(name: str, dtypes: tuple[str, ...], exact: bool = True, computed: bool = False) -> Callable:
    def entered(call: Callable) -> Callable:
        DRAWS.append(Draw(name, dtypes, call, exact, computed))
        return call

    return entered


def highest(dtype: str) -> int:
    return {"bool": 2, "uint8": 200, "int8": 100, "float16": 2000, "bfloat16": 200}.get(dtype, 20000)


def named(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


# --- uniform numbers and integers ------------------------------------------------------------------------------------
draw("rand", FLOATS)(lambda t, d: t.rand(3, 17, dtype=d))
draw("rand complex", ("complex64", "complex128"))(lambda t, d: t.rand(11, dtype=d))
draw("rand_like", FLOATS)(lambda t, d: t.rand_like(t.zeros(2, 3, 4, 5, dtype=d)))
draw("rand_like channels_last", FLOATS)(
    lambda t, d: t.rand_like(t.zeros(2, 3, 4, 5, dtype=d).to(memory_format=t.channels_last))
)
draw("rand, randint into a transpose", ("float32",))(
    lambda t, d: t.cat(
        [
            t.rand(4, 5, out=t.empty(5, 4, dtype=d).t()),
            t.randint(0, 9, (4, 5), out=t.empty(5, 4, dtype=d).t()),
        ]
    )
)
draw("uniform_(-.37, 1.79)", FLOATS)(lambda t, d: t.empty(700, dtype=d).uniform_(-0.37, 1.79))
draw("uniform_ apart", FLOATS)(lambda t, d: t.zeros(6, 20, dtype=d)[:, ::2].uniform_(2, 3))
draw("uniform_ turned", FLOATS)(lambda t, d: t.zeros(3, 4, 5, dtype=d).permute(2, 0, 1).uniform_())
for span in (1, 3, 1000, 2**24 + 7, 2**28 - 1, 2**28, 2**31 + 5, 2**40, 2**63 - 1):
    draw(f"randint({span})", ("int64",))(lambda t, d, n=span: t.randint(0, n, (60,), dtype=d))
draw("randint", ALL)(lambda t, d: t.randint(0, highest(named(d)), (60,), dtype=d))
draw("random_(300, 400)", FLOATS)(lambda t, d: t.empty(60, dtype=d).random_(300, 400))
draw("random_(2**25 + 1, 2**26 + 3)", ("float32", "float64"))(
    lambda t, d: t.empty(60, dtype=d).random_(2**25 + 1, 2**26 + 3)
)
draw("randint_like", INTEGERS[1:])(lambda t, d: t.randint_like(t.zeros(4, 5, dtype=d), 3, 50))
draw("random_()", ALL)(lambda t, d: t.empty(60, dtype=d).random_())
draw("random_(1, None)", ALL)(lambda t, d: t.empty(60, dtype=d).random_(1, None))
draw("random_(-2**63, None)", ("int64", "float64"))(lambda t, d: t.empty(9, dtype=d).random_(-(2**63), None))
draw("randperm", ("int64", "int32", "int16", "float32", "float64", "float16"))(
    lambda t, d: t.randperm(200, dtype=d)
)
draw("randperm(0), (1), (2)", ("int64",))(lambda t, d: t.cat([t.randperm(n, dtype=d) for n in (0, 1, 2)]))

# --- normal numbers --------------------------------------------------------------------------------------------------
for size in (1, 15, 16, 17, 31, 32, 640, 1033):
    draw(f"randn({size})", FLOATS, False)(lambda t, d, n=size: t.randn(n, dtype=d))
draw("randn 3, randn 4", FLOATS, False)(lambda t, d: t.cat([t.randn(3, dtype=d), t.randn(4, dtype=d)]))
draw("randn complex", ("complex64", "complex128"), False)(lambda t, d: t.randn(11, dtype=d))
draw("randn_like channels_last", FLOATS, False)(
    lambda t, d: t.randn_like(t.zeros(2, 3, 4, 5, dtype=d).to(memory_format=t.channels_last))
)
draw("normal_(.3, 1.7)", FLOATS, False)(lambda t, d: t.empty(200, dtype=d).normal_(0.3, 1.7))
draw("normal_ apart", FLOATS, False)(lambda t, d: t.zeros(6, 20, dtype=d)[:, ::2].normal_(0.3, 1.7))
draw("normal(tensor, tensor)", FLOATS, False)(
    lambda t, d: t.normal(t.arange(20, dtype=t.float32).to(d), t.arange(1, 21, dtype=t.float32).to(d))
)
draw("normal(tensor, number)", FLOATS, False)(lambda t, d: t.normal(t.arange(20, dtype=t.float32).to(d), 0.7))
draw("normal(number, tensor)", FLOATS, False)(
    lambda t, d: t.normal(0.7, t.arange(1, 21, dtype=t.float32).to(d))
)
draw("normal(number, number)", FLOATS, False)(lambda t, d: t.normal(0.7, 2.0, (20,), dtype=d))
draw("log_normal_", FLOATS, False)(lambda t, d: t.empty(60, dtype=d).log_normal_(0.3, 0.7))

# --- trials and others -----------------------------------------------------------------------------------------------
draw("bernoulli_(.3)", ALL)(lambda t, d: t.empty(100, dtype=d).bernoulli_(0.3))
draw("bernoulli_(0), (1)", ALL)(
    lambda t, d: t.cat([t.empty(5, dtype=d).bernoulli_(0.0), t.empty(5, dtype=d).bernoulli_(1.0)])
)
draw("bernoulli_ turned", ALL)(lambda t, d: t.zeros(6, 7, dtype=d).t().bernoulli_(0.6))
draw("bernoulli(tensor)", FLOATS)(lambda t, d: t.bernoulli(t.linspace(0, 1, 90).to(d)))
draw("bernoulli_(tensor)", ALL)(lambda t, d: t.zeros(6, 9, dtype=d).bernoulli_(t.linspace(0, 1, 9)))
draw("bernoulli_(float64)", ALL)(
    lambda t, d: t.zeros(9, 6, dtype=d).t().bernoulli_(t.linspace(0, 1, 9, dtype=t.float64))
)
draw("exponential_", FLOATS, False)(lambda t, d: t.empty(60, dtype=d).exponential_(1.7))
draw("geometric_", FLOATS + INTEGERS[1:], False)(lambda t, d: t.empty(60, dtype=d).geometric_(0.3))
draw("cauchy_", FLOATS, False)(lambda t, d: t.empty(60, dtype=d).cauchy_(0.3, 1.7))
draw("multinomial with replacement", FLOATS)(
    lambda t, d: t.multinomial(t.arange(12, dtype=t.float32).to(d).view(3, 4), 50, True)
)
draw("multinomial without", FLOATS, False)(
    lambda t, d: t.multinomial(t.arange(60, dtype=t.float32).to(d).view(3, 20), 15)
)
draw("multinomial of one", FLOATS, False)(
    lambda t, d: t.multinomial(t.arange(60, dtype=t.float32).to(d).view(3, 20), 1, True)
)
draw("Dirichlet of small concentrations", WIDE, False, True)(
    lambda t, d: t.distributions.Dirichlet(t.tensor([1e-3, 1e-3, 1e-9], dtype=d)).sample((9,))
)
draw("poisson", FLOATS, False)(lambda t, d: t.poisson(t.linspace(0, 60, 90).to(d)))
draw("binomial", WIDE, False)(
    lambda t, d: t.binomial(t.full((90,), 40.0, dtype=d), t.linspace(0, 1, 90, dtype=d))
)

# --- layers ----------------------------------------------------------------------------------------------------------
for name in ("dropout", "alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d"):
    rank = {"dropout1d": 3, "dropout2d": 4, "dropout3d": 5}.get(name, 3)
    draw(name, WIDE)(
        lambda t, d, n=name, r=rank: getattr(t.nn.functional, n)(
            t.ones((3, 8, 4, 5, 2)[:r], dtype=d), 0.3, training=True
        )
    )
draw("dropout bfloat16", ("bfloat16",))(lambda t, d: t.nn.functional.dropout(t.ones(50, dtype=d), 0.3))
draw("dropout channels_last", WIDE)(
    lambda t, d: t.nn.functional.dropout(t.ones(2, 3, 4, 5, dtype=d).to(memory_format=t.channels_last), 0.3)
)
draw("dropout of a transpose", WIDE)(lambda t, d: t.nn.functional.dropout(t.ones(7, 5, dtype=d).t(), 0.3))
draw("rrelu", WIDE, False)(lambda t, d: t.nn.functional.rrelu(t.arange(-25, 25, dtype=d), training=True))
draw("gumbel_softmax", WIDE, False, True)(
    lambda t, d: t.nn.functional.gumbel_softmax(t.zeros(4, 5, dtype=d), hard=True)
)


def attention(t: Any, d: Any) -> Any:
    q, k, v = (t.linspace(-1, 1, 2 * 3 * 4 * 5, dtype=d).view(2, 3, 4, 5) * s for s in (1, 2, 3))
    return t.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.4)


draw("attention with dropout", WIDE, False, True)(attention)


def encoder(t: Any, d: Any, batch_first: bool = False) -> Any:
    layer = t.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, dtype=d, batch_first=batch_first)
    return layer(t.linspace(-1, 1, 80, dtype=d).view(5, 2, 8)).detach()


draw("TransformerEncoderLayer", WIDE, False, True)(encoder)
draw("TransformerEncoderLayer(batch_first)", WIDE, False, True)(lambda t, d: encoder(t, d, True))


def recurrent(t: Any, d: Any, kind: str) -> Any:
    layer = getattr(t.nn, kind)(4, 6, num_layers=3, dropout=0.4, bidirectional=True, dtype=d)
    return layer(t.linspace(-1, 1, 40, dtype=d).view(5, 2, 4))[0].detach()


for name in ("RNN", "LSTM", "GRU"):
    draw(name, WIDE, False, True)(lambda t, d, n=name: recurrent(t, d, n))


def start(kind: str, *arguments: Any) -> Callable:
    def call(t: Any, d: Any) -> Any:
        module = getattr(t.nn, kind)(*arguments)
        return t.cat([p.detach().reshape(-1) for p in module.parameters()]).to(d)

    return call


for name, arguments in (
    ("Linear", (7, 5)), ("Bilinear", (3, 4, 5)), ("Conv2d", (3, 4, 3)), ("ConvTranspose2d", (3, 4, 3)), ("Embedding", (9, 4)),
    ("EmbeddingBag", (9, 4)), ("MultiheadAttention", (8, 2)), ("LSTMCell", (3, 4)), ("Transformer", (8, 2, 1, 1, 16)),
):  # fmt: skip
    draw(f"{name}.__init__", ("float32",), False)(start(name, *arguments))
for name, arguments in {
    "uniform_": (), "normal_": (), "trunc_normal_": (0.0, 1.0, -1.0, 1.5), "xavier_uniform_": (), "xavier_normal_": (),
    "kaiming_uniform_": (), "kaiming_normal_": (), "orthogonal_": (), "sparse_": (0.5,),
}.items():  # fmt: skip
    exact = name in ("uniform_", "xavier_uniform_", "kaiming_uniform_")
    draw(f"init.{name}", WIDE, exact, name == "orthogonal_")(
        lambda t, d, n=name, a=arguments: getattr(t.nn.init, n)(t.zeros(9, 8, dtype=d), *a)
    )


# --- loading ---------------------------------------------------------------------------------------------------------
def loaded(t: Any, d: Any, **options: Any) -> Any:
    loader = t.utils.data.DataLoader(range(37), batch_size=5, **options)
    passes = [*itertools.chain.from_iterable(loader), *itertools.chain.from_iterable(loader)]
    return t.tensor([int(x) for x in passes] + [int(t.randint(1000, ()))])


draw("DataLoader(shuffle)", ("int64",))(lambda t, d: loaded(t, d, shuffle=True))
draw("DataLoader(shuffle, generator)", ("int64",))(
    lambda t, d: loaded(t, d, shuffle=True, generator=t.Generator().manual_seed(4))
)
draw("DataLoader without workers draws a seed", ("int64",))(lambda t, d: loaded(t, d))
draw("random_split", ("int64",))(
    lambda t, d: t.tensor([i for part in t.utils.data.random_split(range(30), [7, 23]) for i in part.indices])
)
draw("RandomSampler with replacement", ("int64",))(
    lambda t, d: t.tensor([*t.utils.data.RandomSampler(range(30), True, 70), int(t.randint(99, ()))])
)
draw("SubsetRandomSampler", ("int64",))(lambda t, d: t.tensor([*t.utils.data.SubsetRandomSampler(range(30))]))
draw("WeightedRandomSampler", ("int64",))(
    lambda t, d: t.tensor([*t.utils.data.WeightedRandomSampler(range(30), 70), int(t.randint(99, ()))])
)
draw("DistributedSampler", ("int64",))(
    lambda t, d: t.tensor([*t.utils.data.distributed.DistributedSampler(range(30), 2, 1, seed=4)])
)


class Drawn:
    """A dataset of what its workers draw."""

    def __init__(self, t: Any) -> None:
        self.t = t

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> tuple:
        import random

        import numpy

        return float(self.t.rand(())), random.random(), float(numpy.random.rand())


def workers(t: Any, d: Any, **options: Any) -> Any:
    loader = t.utils.data.DataLoader(Drawn(t), batch_size=2, num_workers=2, shuffle=True, **options)
    drawn = [x for _ in range(2) for batch in loader for x in batch]
    return t.cat([x.double() for x in drawn] + [t.rand(2, dtype=t.float64)])


draw("workers", ("float64",))(workers)
draw("persistent workers", ("float64",))(lambda t, d: workers(t, d, persistent_workers=True))


# --- distributions ---------------------------------------------------------------------------------------------------
def sampled(kind: str, *arguments: Any) -> Callable:
    def call(t: Any, d: Any) -> Any:
        given = [t.tensor(a, dtype=d) if isinstance(a, (float, list)) else a for a in arguments]
        return getattr(t.distributions, kind)(*given).sample((7,))

    return call


for name, *given in (
    ("Bernoulli", [0.3, 0.8]), ("Beta", [0.7, 3.0], [2.0, 0.4]), ("Binomial", 30, [0.1, 0.6]), ("Categorical", [0.1, 0.5, 0.4]),
    ("Cauchy", 1.0, 2.0), ("Chi2", [2.5, 3.0]), ("ContinuousBernoulli", [0.3, 0.8]), ("Dirichlet", [0.7, 2.0, 3.0]),
    ("Exponential", [0.5, 2.0]), ("FisherSnedecor", 3.0, 5.0), ("Gamma", [0.5, 2.0], [1.0, 3.0]), ("GeneralizedPareto", 0.5, 2.0, 0.2),
    ("Geometric", [0.3, 0.8]),
    ("Gumbel", 1.0, 2.0), ("HalfCauchy", 2.0), ("HalfNormal", [2.0, 3.0]), ("InverseGamma", 3.0, 2.0),
    ("Kumaraswamy", 2.0, 3.0), ("Laplace", 1.0, 2.0), ("LKJCholesky", 3, 1.5), ("LogNormal", 0.5, 0.7),
    ("LogisticNormal", [0.5, 0.7], [1.0, 2.0]), ("Multinomial", 20, [0.1, 0.5, 0.4]), ("NegativeBinomial", 5.0, [0.3, 0.6]),
    ("Normal", [0.5, 1.0], [1.0, 3.0]), ("OneHotCategorical", [0.1, 0.5, 0.4]), ("Pareto", 1.0, 2.0), ("Poisson", [0.5, 30.0]),
    ("RelaxedBernoulli", 0.7, [0.3, 0.8]), ("RelaxedOneHotCategorical", 0.7, [0.1, 0.5, 0.4]), ("StudentT", [3.0, 5.0]),
    ("Uniform", [0.5, 1.0], [1.0, 3.0]), ("VonMises", [0.5, 1.0], [1.0, 3.0]), ("Weibull", 2.0, 3.0),
    ("MultivariateNormal", [0.5, 1.0], [[2.0, 0.5], [0.5, 1.0]]), ("Wishart", 4.0, [[2.0, 0.5], [0.5, 1.0]]),
):  # fmt: skip
    draw(f"distributions.{name}", WIDE, False, True)(sampled(name, *given))
