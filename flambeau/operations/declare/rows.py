"""The declaration of reductions and row programs: one row, written as maps and folds.

    @row()
    def softmax(x):
        "Exponentials of a row, divided by their sum."
        e = exp(x - kn.max(x))
        return e / kn.sum(e)

    @reduction()
    def sum(x):
        return kn.sum(x)

A body sees one element of each input and folds over the row (`kernels.sum`, `max`, `fold` …).  Results that
still vary along the row are as long as the row, others are one value a row.  The last input of a reduction may be the
row's first element (`origin="its name"`), which callers do not give.  A reduction whose folds are
independent of each other is cut into blocks by `core/loops/rows.pyx`; the two kernels for that come from the same
body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...codegen import expr as ex
from ...codegen import kernels as kn
from ...core.base.parameters import parameters
from ...core.loops import rows as core_rows
from . import machine
from .pointwise import ACCESS, ALL, CODE_NAMES, CODES, COMPLEX, FLOATING, NO_CODE, compute_dtype
from .registry import register
from .results import named_result

WHOLE, PARTIAL, FINAL = 0, 1, 2


class Rows:
    """A declared body and the rules around it; `rows.RowOp` asks it for kernels."""

    def __init__(
        self,
        name: str,
        body: Callable,
        inputs: Sequence[str],
        params: Sequence[str],
        *,
        dtypes: frozenset[str],
        accumulate: Callable[[str], str],
        empty: str | None,
        raw: frozenset[str] = frozenset(),
    ):
        self.name, self.body, self.inputs, self.params = name, body, tuple(inputs), tuple(params)
        self.dtypes, self.accumulate, self.empty, self.raw = dtypes, accumulate, empty, raw
        self.known: dict = {}
        self.full: tuple[bool, ...] = ()  # which results are as long as the row; empty where none is
        self.per_row: frozenset[str] = frozenset()  # inputs with one value a row
        self.exact = False  # results with one value a row have the dtype that is computed in

    def takes(self, name: str) -> bool:
        """Whether inputs may be of that dtype."""
        return name in self.dtypes

    def working(self, common: int, wanted: int) -> str:
        """The dtype of the result before a body changes it: the one requested, else the rule's."""
        name = CODE_NAMES[common] if wanted == NO_CODE else CODE_NAMES[wanted]
        if name not in self.dtypes:
            if self.name == "mean":
                raise RuntimeError(
                    "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
                    f"Got: {name}"
                )
            raise NotImplementedError(
                f"{self.name}(): \"{self.name}\" not implemented for '{name}'; it takes {sorted(self.dtypes)}"
            )
        return name if wanted != NO_CODE else self.accumulate(name)

    def check_empty(self, all_dims: bool) -> None:
        """Raise where a row without elements has no result: IndexError, or RuntimeError where all dimensions are reduced."""
        if self.empty is not None:
            raise (RuntimeError if all_dims else IndexError)(f"{self.name}(): {self.empty}")

    def example(self, working: str) -> list[str]:
        """Dtypes of inputs, for tracing where they do not matter; raw inputs are integers."""
        return ["int64" if name in self.raw else working for name in self.inputs]

    def program(self, inputs: Sequence[str], working: str):
        """The traced results, and the dtype each has in memory."""
        compute = compute_dtype(working)
        given = [
            ex.cast(ex.input(k, d), compute_dtype(d) if name in self.raw else compute)
            for k, (name, d) in enumerate(zip(self.inputs, inputs))
        ]
        params = {n: ex.cast(ex.param(k, "float64"), ex.part(compute)) for k, n in enumerate(self.params)}
        result = self.body(*given, **params)
        results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        rounded = [full or not self.exact for full in self.full] or [True] * len(results)
        memory = [working if r.dtype == compute and some else r.dtype for r, some in zip(results, rounded)]
        return results, memory

    def split(self, results: Sequence[ex.Expr]) -> kn.Stages:
        """The two stages of a reduction that `core/loops/rows.pyx` may cut."""
        result = kn.stages(results)
        if result is None:
            raise RuntimeError(f"{self.name}: a reduction with folds over folds cannot be cut")
        return result

    def two_stage_codes(self, common: int, wanted: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Dtypes of the results, and of the states that blocks leave."""
        result = self.known.get((common, wanted))
        if result is None:
            working = self.working(common, wanted)
            results, memory = self.program(self.example(working), working)
            states = self.split(results).partial
            result = tuple(CODES[m] for m in memory), tuple(CODES[s.dtype] for s in states)
            self.known[common, wanted] = result
        return result

    def kernel(self, stage: int, along: bool, inputs, outputs, common: int, wanted: int):
        """Address and result dtypes of the kernel for these dtypes, access patterns and stage."""
        kernel, codes = self.program_for(stage, along, inputs, outputs, common, wanted)
        return machine.address(kernel), codes

    def program_for(self, stage: int, along: bool, inputs, outputs, common: int, wanted: int):
        """The same kernel before it is compiled for a processor."""
        working = self.working(common, wanted)
        operands = tuple(kn.Operand(CODE_NAMES[code], ACCESS[access]) for code, access in inputs)
        access = tuple(ACCESS[a] for a in outputs)
        seen = [o.dtype for o in operands] if stage != FINAL else self.example(working)
        results, memory = self.program(seen, working)
        if stage == PARTIAL:
            results = self.split(results).partial
            memory = [r.dtype for r in results]
        elif stage == FINAL:
            results = self.split(results).final
        if along and self.full:
            operands = self.varying(results, operands)
        stored = tuple(ex.cast(r, m) for r, m in zip(results, memory))
        params = ("float64",) * len(self.params)
        kernel = kn.Row(self.name, stored, access, operands, params, "r" if along else "k")
        return kernel, tuple(CODES[m] for m in memory)

    def varying(self, results: Sequence[ex.Expr], operands: tuple[kn.Operand, ...]) -> tuple[kn.Operand, ...]:
        """Where a result as long as the row comes from broadcast operands alone, these are read as if they had strides:
        else it would be stored once a row.
        """
        varies = kn.varies(results, [o.access != kn.BROADCAST for o in operands])
        if all(varies[id(r)] for r, full in zip(results, self.full) if full):
            return operands
        return tuple(
            kn.Operand(o.dtype, kn.STRIDED) if o.access == kn.BROADCAST and n not in self.per_row else o
            for n, o in zip(self.inputs, operands)
        )

    def derivative_of(self, op: core_rows.RowOp) -> Callable[[Callable], Callable]:
        """A decorator: the function names what it reads among grad(s), inputs, out(s), sizes, dims, keepdim
        and parameters, and returns a gradient for each input.
        """

        def declare(formula: Callable) -> Callable:
            wanted = [n for group in parameters(formula) for n in group]
            kinds = {n: (1, k) for k, n in enumerate(self.inputs)} | {"out": (2, 0)}
            kinds |= {f"out{k}": (2, k) for k in range(4)}
            saved = tuple(kinds[n] for n in wanted if n in kinds)
            names = ["grad", *[n for n in wanted if n in kinds], "sizes", "dims", "keepdim", *self.params]
            places = [names.index("grad" if n == "grads" else n) for n in wanted]

            def call(*values):
                return formula(*[values[p] for p in places])

            op.reads = frozenset(wanted)
            op.set_formula(saved, formula if wanted == names else call)
            return formula

        return declare


def same(name: str) -> str:
    return name


def widened(name: str) -> str:
    """Sums of integers and bools are int64."""
    return name if name in FLOATING | COMPLEX else "int64"


def _declare(
    body: Callable,
    reduces: bool,
    kind: str,
    *,
    dtypes,
    places=None,
    also=(),
    accumulate=same,
    empty=None,
    reference=None,
    domain=(-3.0, 3.0),
    fields=None,
    name=None,
    registered=None,
    method=True,
    raw=(),
    per_row=(),
    literal_dims=False,
    listed_dims=False,
    origin=None,
    exact=False,
    **details,
):
    inputs, params = parameters(body)
    own = name or body.__name__
    declared = Rows(
        own,
        body,
        inputs,
        list(params),
        dtypes=dtypes,
        accumulate=accumulate,
        empty=empty,
        raw=frozenset(raw),
    )
    example = "float32" if "float32" in dtypes else sorted(dtypes)[0]
    results, _ = declared.program(declared.example(example), accumulate(example))
    varies = kn.varies(results, [n not in per_row for n in inputs])  # the others have one value a row
    full = tuple(varies[id(r)] for r in results)
    declared.full, declared.per_row = full if any(full) else (), frozenset(per_row)
    declared.exact = exact
    ordered = any(e.op == "index" for e in ex.walk(results))
    splits = not any(full) and kn.stages(results) is not None
    names = named_result(own, *fields) if fields else None
    op = core_rows.RowOp(
        own,
        len(inputs) - (origin is not None),
        len(results),
        full,
        tuple(map(float, params.values())),
        declared,
        reduces,
        ordered,
        splits,
        (),
        None,
        names,
        sum(1 << k for k, n in enumerate(inputs) if n in raw),
        literal_dims,
        origin is not None,
        listed_dims,
    )
    op.__doc__ = body.__doc__
    op.derivative = declared.derivative_of(op)
    spots = places if places is not None else (own, *((f"Tensor.{own}",) if method else ()))
    register(
        registered or own,
        kind,
        op,
        places=tuple(spots) + tuple(also),
        body=body,
        reference=reference,
        domain=domain,
        dtypes=dtypes,
        gives=names,
        differentiable=True,
        **details,
    )
    return op


def reduction(*, dtypes=ALL, **details):
    """Declare a reduction, called as `op(input, dim=None, keepdim=False, *, dtype=None, out=None)`.

    With `dim` an empty list it reduces all dimensions, as with None, unless `literal_dims`: then none.
    With `listed_dims` they may also be given one by one.  `_declare` has the other options.
    """
    return lambda body: _declare(body, True, "reduction", dtypes=dtypes, **details)


def row(*, dtypes=FLOATING, **details):
    """Declare a row function, called as `op(input, dim, *, dtype=None)`; `_declare` has the options."""
    return lambda body: _declare(body, False, "row", dtypes=dtypes, **details)
