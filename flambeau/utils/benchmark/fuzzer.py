"""Inputs for benchmarks, drawn at random: sizes, layouts, values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ...core.base.dtypes import by_name, dtype
from ...core.make.random import manual_seed
from ...operations.random.random import rand, randint


class ParameterAlias:
    """The value of another parameter, as a value of this one.

    Raises nothing.

    >>> from flambeau.utils.benchmark import ParameterAlias
    >>> ParameterAlias("n")
    ParameterAlias[alias_to: n]
    """

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A number that is drawn: `uniform` or `loguniform` from `minval` to `maxval`, or a value of a dict with its probability.

    A `strict` one is drawn once for each set, and not again when a set is refused.  AssertionError for another distribution, or
    probabilities that are negative or do not sum to 1.

    >>> from flambeau.utils.benchmark import FuzzedParameter
    >>> FuzzedParameter("n", 1, 100, "loguniform").name
    'n'
    """

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        if isinstance(distribution, dict):
            if any(p < 0 for p in distribution.values()):
                raise AssertionError("Probabilities cannot be negative")
            if abs(sum(distribution.values()) - 1) > 1e-5:
                raise AssertionError("Distribution is not normalized")
            if minval is not None or maxval is not None:
                raise AssertionError("When passing a custom distribution, 'minval' and 'maxval' must be None")
        elif distribution not in ("loguniform", "uniform"):
            raise AssertionError(f"Unknown distribution: {distribution}")
        elif minval is None or maxval is None:
            raise AssertionError(f"A {distribution} distribution needs 'minval' and 'maxval'")
        self.name, self.strict = name, strict
        self._least, self._most, self._distribution = minval, maxval, distribution

    def sample(self, state: Any) -> Any:
        """A value, drawn by NumPy's RandomState."""
        if isinstance(self._distribution, dict):
            place = state.choice(len(self._distribution), p=tuple(self._distribution.values()))
            return list(self._distribution)[place]
        low, high = self._least, self._most
        assert low is not None and high is not None
        if self._distribution == "loguniform":
            return min(max(int(2 ** state.uniform(math.log2(low), math.log2(high))), low), high)
        if isinstance(low, int) and isinstance(high, int):
            return int(state.randint(low, high + 1))
        return state.uniform(low, high)


class FuzzedTensor:
    """A tensor of sizes that are numbers or names of parameters.

    `steps` are strides into a larger tensor, `probability_contiguous` is how often its dimensions are not permuted, `min_elements`,
    `max_elements` and `max_allocation_bytes` bound it, `dim_parameter` names how many of its dimensions there are.
    `tensor_constructor(size=, dtype=, **parameters)` makes it, where values matter.

    Raises:
        TypeError: `size` is not given

    >>> from flambeau.utils.benchmark import FuzzedTensor
    >>> FuzzedTensor("x", size=("n", 4)).name
    'x'
    """

    def __init__(
        self,
        name: str,
        size: Sequence[str | int],
        steps: Sequence[str | int] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: dtype = by_name["float32"],
        cuda: bool = False,
        tensor_constructor: Callable[..., Any] | None = None,
    ) -> None:
        self.name = name
        self._size, self._steps, self._dims = tuple(size), tuple(steps or ()), dim_parameter
        self._contiguous, self._least, self._most = probability_contiguous, min_elements, max_elements
        self._most_bytes, self._dtype, self._cuda = max_allocation_bytes, dtype, cuda
        self._make = tensor_constructor or self.default_tensor_constructor

    @staticmethod
    def default_tensor_constructor(size: Sequence[int], dtype: dtype, **kwargs: Any) -> Any:
        """Uniform numbers, or integers from 1 to 126."""
        if dtype.is_floating_point or dtype.is_complex:
            return rand(*size, dtype=dtype, device="cpu")
        return randint(1, 127, tuple(size), dtype=dtype, device="cpu")

    def _geometry(
        self, params: Mapping[str, Any]
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Sizes, steps, and the sizes of what is sliced."""
        dims = len(self._size) if self._dims is None else params[self._dims]

        def resolved(values: tuple) -> tuple[int, ...]:
            result = tuple(params[v] if isinstance(v, str) else v for v in values)[:dims]
            return result + (1,) * (dims - len(result))

        size, steps = resolved(self._size), resolved(self._steps)
        return size, steps, tuple(a * b for a, b in zip(size, steps))

    def satisfies_constraints(self, params: Mapping[str, Any]) -> bool:
        """Whether a tensor of these parameters is within its bounds."""
        size, _, allocated = self._geometry(params)
        n, nbytes = math.prod(size), math.prod(allocated) * self._dtype.itemsize
        return (
            (self._most is None or n <= self._most)
            and (self._least is None or n >= self._least)
            and (self._most_bytes is None or nbytes <= self._most_bytes)
        )

    def _make_tensor(self, params: dict[str, Any], state: Any) -> tuple[Any, dict[str, Any]]:
        size, steps, allocated = self._geometry(params)
        tensor = self._make(size=allocated, dtype=self._dtype, **params)
        if self._cuda:
            tensor = tensor.cuda()
        order = list(range(len(size)))
        if state.rand() > self._contiguous:
            while len(size) > 1 and order == sorted(order):
                order = [int(d) for d in state.permutation(len(size))]
            back = sorted(range(len(order)), key=order.__getitem__)
            tensor = tensor.permute(tuple(order)).contiguous().permute(tuple(back))
        tensor = tensor[tuple(slice(0, n * step, step) for n, step in zip(size, steps))]
        return tensor, {
            "numel": tensor.numel(),
            "order": order,
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }


class Fuzzer:
    """Draws sets of parameters, and tensors of them.

    `constraints` are functions of the parameters, as a dict, that refuse a set by False.  A seed gives the same again.
    ValueError for names that parameters and tensors share.

    Shape:
        tensors: of the sizes that are drawn

    >>> from flambeau.utils.benchmark import FuzzedParameter, FuzzedTensor, Fuzzer
    >>> fuzzer = Fuzzer([FuzzedParameter("n", 2, 2, "uniform")], [FuzzedTensor("x", size=("n", 3))], seed=0)
    >>> for tensors, properties, params in fuzzer.take(1):
    ...     tensors["x"].shape, properties["x"]["numel"], params
    (flambeau.Size([2, 3]), 6, {'n': 2})
    """

    def __init__(
        self,
        parameters: Sequence[FuzzedParameter | Iterable[FuzzedParameter]],
        tensors: Sequence[FuzzedTensor | Iterable[FuzzedTensor]],
        constraints: Sequence[Callable[[dict[str, Any]], bool]] | None = None,
        seed: int | None = None,
    ) -> None:
        import numpy as np

        self._seed = (
            int(np.random.RandomState().randint(0, 2**32 - 1, dtype=np.int64)) if seed is None else seed
        )
        self._parameters: list[FuzzedParameter] = _flat(parameters, FuzzedParameter)
        self._tensors: list[FuzzedTensor] = _flat(tensors, FuzzedTensor)
        self._constraints = tuple(constraints or ())
        shared = {p.name for p in self._parameters} & {t.name for t in self._tensors}
        if shared:
            raise ValueError(f"Duplicate names in parameters and tensors: {shared}")
        self._refused = self._drawn = 0

    @property
    def rejection_rate(self) -> float:
        """What part of the sets drawn so far was refused."""
        return self._refused / self._drawn if self._drawn else 0.0

    def take(self, n: int) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
        """n times tensors by name, what is known of each, and the parameters.  ValueError where 1000 sets in a row were refused."""
        import numpy as np

        state = np.random.RandomState(self._seed)
        manual_seed(int(state.randint(0, 2**63 - 1, dtype=np.int64)))
        for _ in range(n):
            params = self._parameters_for(state)
            made = {t.name: t._make_tensor(params, state) for t in self._tensors}
            yield (
                {name: pair[0] for name, pair in made.items()},
                {name: pair[1] for name, pair in made.items()},
                params,
            )

    def _parameters_for(self, state: Any) -> dict[str, Any]:
        strict = {p.name: p.sample(state) for p in self._parameters if p.strict}
        for _ in range(1000):
            drawn = {p.name: strict[p.name] if p.strict else p.sample(state) for p in self._parameters}
            result = _resolved(drawn)
            self._drawn += 1
            if all(holds(result) for holds in self._constraints) and all(
                t.satisfies_constraints(result) for t in self._tensors
            ):
                return result
            self._refused += 1
        raise ValueError("Failed to generate a set of valid parameters.")


def _flat(values: Sequence[Any], kind: type) -> list[Any]:
    return list(chain.from_iterable([v] if isinstance(v, kind) else v for v in values))


def _resolved(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters with the values that aliases stand for.  ValueError for aliases that lead in a circle."""
    result = dict(params)
    for name in result:
        seen = {name}
        while isinstance(result[name], ParameterAlias):
            other = result[name].alias_to
            if other in seen:
                raise ValueError(f"ParameterAlias cycle detected\n{params}")
            seen.add(other)
            result[name] = result[other]
    return result
