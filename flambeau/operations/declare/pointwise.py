"""The declaration of a pointwise operation: a Python function of scalars becomes everything else.

    @pointwise(reference="scipy.special.expit", int_to_float=True)
    def sigmoid(x):
        "Logistic function, 1 / (1 + exp(-x)), element by element."
        return 1 / (1 + exp(-x))

    @sigmoid.derivative                  # optional: without it the expression is differentiated
    def _(grad, out):                    # names say what is read, and so what is saved
        return grad * out * (1 - out)

The body is traced once for each combination of dtypes; the compiler makes a kernel for each way of walking
over memory that occurs; the derivative is a pointwise operation of its own, so it fuses, and differentiates
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...codegen import differentiate
from ...codegen import expr as ex
from ...codegen import kernels as kn
from ...codegen.expr import Expr
from ...core.base import dtypes
from ...core.base.parameters import MISSING, parameters
from ...core.call.derivatives import MOST_OPERANDS, MOST_RESULTS, Derivation
from ...core.call.pointwise import PointwiseOp
from . import machine
from .dtype_groups import (  # noqa: F401  what declares finds them here
    ALL,
    BOOL,
    COMPLEX,
    EVERY,
    FLOATING,
    INTEGRAL,
    NUMBERS,
    NUMERIC,
)
from .registry import register
from .summands import KINDS, leaves_of, place_of, summands

CODES = {name: d.code for name, d in dtypes.by_name.items()}
CODE_NAMES = {code: name for name, code in CODES.items()}
NO_CODE, NUMBER = 15, 3
ACCESS = (kn.CONTIGUOUS, kn.BROADCAST, kn.STRIDED)
# Dtypes whose error is not a plain NotImplementedError: the dtypes, the error's class, its text.
Refused = Sequence[tuple[frozenset[str], type[Exception], str]]


def compute_dtype(dtype: str) -> str:
    """Half types are computed in float32."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


class Pointwise:
    """A declared body and the rules around it; `PointwiseOp` asks it for kernels and derivatives."""

    def __init__(
        self,
        name: str,
        body: Callable,
        operands: Sequence[str],
        params: Sequence[str] = (),
        *,
        results: int = 1,
        int_to_float: bool = False,
        dtypes: frozenset[str] = ALL,
        raw: Sequence[str] = (),
        keeps: Sequence[int | None] | None = None,
        refused: Refused = (),
        rounded: bool = False,
        alike: Sequence[str] = (),
        widens: bool = False,
        pairs: bool = False,
        aten_backward: str | None = None,
    ):
        self.name, self.body = name, body
        self.operands, self.params, self.results = tuple(operands), tuple(params), results
        self.int_to_float, self.dtypes = int_to_float, dtypes
        self.refused, self.rounded, self.alike = refused, rounded, frozenset(alike)
        self.widens, self.pairs = widens, pairs
        self.aten_backward = aten_backward
        self.raw = frozenset(raw)  # operands that take no part in type promotion: a condition, a mask
        self.keeps = keeps  # for each result: the operand whose dtype it has, None for the common one
        self.derivative_body: Callable | None = None
        self.op: PointwiseOp | None = None
        self.codes: dict = {}
        self.shapes: dict = {}

    # --- tracing ---
    def takes(self, name: str) -> bool:
        """Whether operands may be of that dtype, or have an error of their own."""
        return name in self.dtypes or any(name in refused for refused, _, _ in self.refused)

    def common(self, code: int) -> str:
        name = CODE_NAMES[code]
        if self.int_to_float and name not in FLOATING and not name.startswith("complex"):
            name = dtypes.get_default_dtype().name
        if name not in self.dtypes:
            for dtypes_of, error, text in self.refused:
                if name in dtypes_of:
                    raise error(f"{self.name}(): {text}, got {name}")
            raise NotImplementedError(
                f"{self.name}(): \"{self.name}\" not implemented for '{name}'; it takes {sorted(self.dtypes)}"
            )
        return name

    def check_operands(self, inputs: Sequence[tuple[int, int]]) -> None:
        """Errors for dtypes of single operands, which the common dtype does not tell; numbers need not be alike."""
        given = [(n, CODE_NAMES[code], access) for n, (code, access) in zip(self.operands, inputs)]
        for dtypes_of, error, text in self.refused:
            for argument, dtype, _ in given:
                if dtype in dtypes_of and argument not in self.raw:
                    raise error(f"{self.name}(): {text}, got {dtype} for argument '{argument}'")
        tensors = [(n, dtype) for n, dtype, access in given if n in self.alike and access != NUMBER]
        if len({dtype for _, dtype in tensors}) > 1:
            result = " and ".join(f"{dtype} for '{n}'" for n, dtype in tensors)
            raise RuntimeError(f"{self.name}(): expected tensors of one dtype, but got {result}")

    def operand_dtypes(self, inputs: Sequence[tuple[int, int]], common: str) -> list[str]:
        """The dtype that the body sees each operand in."""
        seen = []
        for name, (code, access) in zip(self.operands, inputs):
            raw = name in self.raw and access != NUMBER
            seen.append(compute_dtype(CODE_NAMES[code]) if raw else compute_dtype(common))
        return seen

    def trace(self, operands: Sequence[Expr], params: Sequence[Expr]) -> tuple[Expr, ...]:
        result = self.body(*operands, **dict(zip(self.params, params)))
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)

    def instance(self, inputs: Sequence[tuple[int, int]], code: int):
        """The traced results for operands of these dtypes, and the dtype each result has in memory."""
        if self.alike or self.refused:
            self.check_operands(inputs)
        common = self.common(code)
        given: list[Expr] = []
        scalars: list[str] = []
        tensors: list[kn.Operand] = []
        for dtype, (operand, access) in zip(self.operand_dtypes(inputs, common), inputs):
            if access == NUMBER:
                # the caller packs a number by the operands' common dtype, before `int_to_float`
                if CODE_NAMES[code] in COMPLEX:
                    slots = [ex.part(dtype)] * 2
                    given.append(ex.pair(*(ex.param(len(scalars) + k, s) for k, s in enumerate(slots))))
                else:
                    slots = [dtype if CODE_NAMES[code] in FLOATING else "int64"]
                    given.append(ex.cast(ex.param(len(scalars), slots[0]), dtype))
                scalars += slots
            else:
                memory = CODE_NAMES[operand]
                value = ex.input(len(tensors), memory)
                given.append(ex.cast(value, dtype))
                tensors.append(kn.Operand(memory, ACCESS[access]))
        if self.rounded:
            given = [ex.cast(ex.cast(x, common), x.dtype) for x in given]
        params = [ex.param(len(scalars) + k, "float64") for k in range(len(self.params))]
        scalars += ["float64"] * len(self.params)
        working = compute_dtype(common)
        results = self.trace(given, [ex.cast(p, ex.part(working)) for p in params])
        memory = []
        for k, r in enumerate(results):
            kept = self.keeps[k] if self.keeps else None
            if kept is not None and inputs[kept][1] != NUMBER:
                memory.append(CODE_NAMES[inputs[kept][0]])
            else:
                memory.append(common if r.dtype == working else r.dtype)
        return results, memory, tensors, tuple(scalars)

    def result_codes(self, inputs, outputs, code: int) -> tuple[int, ...]:
        return tuple(CODES[d] for d in self.instance(inputs, code)[1])

    def kernel(self, inputs, outputs, code: int) -> tuple[int, tuple[int, ...]]:
        """Address and result dtypes of the kernel for operands of these dtypes and access patterns."""
        kernel, codes = self.program_for(inputs, outputs, code)
        return machine.address(kernel), codes

    def program_for(self, inputs, outputs, code: int) -> tuple[kn.Pointwise, tuple[int, ...]]:
        """The same kernel before it is compiled for a processor."""
        results, memory, tensors, scalars = self.instance(inputs, code)
        wanted = [m if o == NO_CODE else CODE_NAMES[o] for m, (o, _) in zip(memory, outputs)]
        stored = [ex.cast(ex.cast(r, m), w) for r, m, w in zip(results, memory, wanted)]
        access = tuple(ACCESS[a] for _, a in outputs)
        kernel = kn.Pointwise(self.name, tuple(stored), access, tuple(tensors), scalars)
        return kernel, tuple(CODES[w] for w in wanted)

    # --- derivatives ---
    def derivative(self, body: Callable) -> Callable:
        """Declare how gradients are computed: `body` names what it reads among grad (or grads), the operands,
        out (or outs) and the parameters, and returns a gradient, or None, for each operand.
        """
        self.derivative_body = body
        return body

    def gradients(self, mask: int, grads, operands, outs, params) -> list[Expr | None]:
        """The gradient expression of each operand in `mask` (None for the others), over symbols of one dtype."""
        common = next((x.dtype for x in operands if ex.is_complex(x.dtype)), None)
        seen = [
            x if n in self.raw or common is None else ex.cast(x, common)
            for n, x in zip(self.operands, operands)
        ]
        if self.derivative_body is None:
            wanted = [x for k, x in enumerate(operands) if mask >> k & 1]
            results = self.trace(seen, params)
            parts = iter(differentiate.gradients(results, grads, wanted))
            exprs = [next(parts) if mask >> k & 1 else None for k in range(len(operands))]
            return self.through_outputs(exprs, results, operands, outs)
        turned = [ex.conj(g) for g in grads]  # see differentiate.parts_of
        values = {"grad": turned[0], "grads": tuple(turned), "out": outs[0], "outs": tuple(outs)}
        values.update(zip(self.operands, seen))
        values.update(zip(self.params, params))
        result = self.derivative_body(
            **{n: values[n] for group in parameters(self.derivative_body) for n in group}
        )
        result = list(result) if isinstance(result, (tuple, list)) else [result]
        wanted = [(mask >> k & 1 and g is not None, g, x) for k, (g, x) in enumerate(zip(result, operands))]
        return [_reaching(g, x) if some else None for some, g, x in wanted]

    @staticmethod
    def through_outputs(exprs, results, operands, outs):
        """Where a derivative contains the whole result (exp, tanh …), read the saved result instead of
        computing it.

        A quotient is computed again: its operands are saved for it anyway, as in PyTorch, and then a program may
        write to the result.
        """
        replace = {r: o for r, o in zip(results, outs) if r.args and r.op.startswith(("call:", "sqrt"))}
        some = [e for e in exprs if e is not None]
        if not replace or not some:
            return exprs
        new = iter(ex.substitute(some, replace))
        return [next(new) if e is not None else None for e in exprs]

    def symbols(self, dtypes_of_operands: Sequence[str], dtype: str):
        """Leaves standing for gradients, operands, outputs and parameters; `dtype` is that of real ones."""
        operands = [ex.make("operand", (), d, k) for k, d in enumerate(dtypes_of_operands)]
        results = self.result_dtypes(tuple(dtypes_of_operands), dtype)
        grads = [ex.make("grad", (), d, k) for k, d in enumerate(results)]
        outs = [ex.make("out", (), d, k) for k, d in enumerate(results)]
        params = [ex.make("parameter", (), dtype, k) for k in range(len(self.params))]
        return grads, operands, outs, params

    def result_dtypes(self, operands: tuple[str, ...], dtype: str) -> list[str]:
        """Which results are complex, where not all are of the common dtype `dtype`."""
        known = self.shapes.get((operands, dtype))
        if known is None:
            common = next((d for d in operands if ex.is_complex(d)), dtype)
            given = [
                ex.make("operand", (), d if n in self.raw else common, k)
                for k, (n, d) in enumerate(zip(self.operands, operands))
            ]
            params = [ex.make("parameter", (), dtype, k) for k in range(len(self.params))]
            result = [r.dtype for r in self.trace(given, params)]
            known = self.shapes[operands, dtype] = [d if ex.is_complex(d) else dtype for d in result]
        return known

    def derivation(self, mask: int, complexes: int = 0):
        """How the tape computes the gradients of the operands in `mask`, where those in `complexes` are complex;
        see `Derivation`.
        """
        exprs = self.gradients(mask, *self.symbols(self._shape(complexes), "float32"))
        direct = tuple(-2 if e is None else e.value if e.op == "grad" else -1 for e in exprs)
        computed = _computed(exprs)
        if not computed:
            return Derivation(None, (), (), direct)
        if len(leaves_of(computed)) <= MOST_OPERANDS and len(computed) <= MOST_RESULTS:
            op, sources, params = self._derivative_op(mask, complexes, computed, lambda result: result)
            return Derivation(op, sources, params, direct)
        sources = [place_of(leaf) for leaf in leaves_of(computed)]
        parts = []
        for number, e in enumerate(computed):
            for k, terms in enumerate(summands(e, MOST_OPERANDS)):
                pick = lambda result, number=number, k=k: [summands(result[number], MOST_OPERANDS)[k]]
                op, own, params = self._derivative_op(mask, complexes, [terms], pick)
                parts.append((op, tuple(sources.index(place) for place in own), params, number))
        return Derivation(None, tuple(sources), (), direct, tuple(parts))

    def _shape(self, complexes: int, of_raw=lambda k: "bool", real: str = "float32") -> list[str]:
        """A dtype for each operand."""
        whole = "complex64" if real == "float32" else "complex128"
        return [
            of_raw(k) if n in self.raw else whole if complexes >> k & 1 else real
            for k, n in enumerate(self.operands)
        ]

    def _derivative_op(self, mask: int, complexes: int, exprs: list[Expr], pick: Callable):
        """The operation that computes these of the gradients, which `pick` finds among all, what its operands stand for, and
        which parameters it has.
        """
        sources = [place_of(leaf) for leaf in leaves_of(exprs)]
        used_params = [e.value for e in ex.walk(exprs) if e.op == "parameter"]
        names = [("grad", "x", "out")[kind] + str(k) for kind, k in sources]
        raw = [
            n
            for n, (kind, k) in zip(names, sources)
            if KINDS[kind] == "operand" and self.operands[k] in self.raw
        ]

        def body(*given: Expr, **scalars: Expr):
            dtype = ex.part(next(g.dtype for g, (kind, _) in zip(given, sources) if kind == 0))
            at = dict(zip(sources, given))
            shape = self._shape(complexes, lambda k: at[1, k].dtype if (1, k) in at else "bool", dtype)
            grads, operands, outs, parameters = self.symbols(shape, dtype)
            result = _computed(self.gradients(mask, grads, operands, outs, parameters))
            leaves = {place: (grads, operands, outs)[place[0]][place[1]] for place in at}
            replace = {leaf: ex.cast(at[place], leaf.dtype) for place, leaf in leaves.items()}
            replace.update({parameters[k]: scalars[f"p{k}"] for k in used_params})
            return tuple(ex.substitute(pick(result), replace))

        made = Pointwise(
            f"{self.name}_backward",
            body,
            names,
            [f"p{k}" for k in used_params],
            results=len(exprs),
            raw=raw,
            dtypes=self.dtypes | COMPLEX if self.dtypes & FLOATING else self.dtypes,
        )
        op = made.make_op()
        if self.aten_backward is not None:
            op.aten = self.aten_backward
        return op, tuple(sources), tuple(used_params)

    def tangent(self, mask: int, number: int) -> tuple[PointwiseOp | None, tuple[int, ...]]:
        """The operation that computes the tangent of result `number` from those of the operands in `mask` that have a
        gradient (their numbers are returned), what `derivation` saves, and parameters.

        Element by element the derivative is a number, its own transpose: each operand's gradient formula, read
        with the operand's tangent for that result's incoming gradient and zero for the others, is its part.
        """
        shape = ["bool" if n in self.raw else "float32" for n in self.operands]
        exprs = self.gradients(mask, *self.symbols(shape, "float32"))
        moving = tuple(k for k, e in enumerate(exprs) if e is not None)
        computed = [e for e in exprs if e is not None and e.op != "grad"]
        leaves = [e for e in ex.walk(computed) if e.op in ("operand", "out")]
        used_params = [e.value for e in ex.walk(computed) if e.op == "parameter"]
        names = [f"t{k}" for k in moving] + [
            ("x" if e.op == "operand" else "out") + str(e.value) for e in leaves
        ]
        raw = [f"x{e.value}" for e in leaves if e.op == "operand" and self.operands[e.value] in self.raw]
        if not moving:
            return None, ()

        def body(*given: Expr, **scalars: Expr):
            tangents, rest = given[: len(moving)], given[len(moving) :]
            dtype = tangents[0].dtype
            at = {(e.op, e.value): g for e, g in zip(leaves, rest)}
            shape = [
                at["operand", k].dtype if ("operand", k) in at else ("bool" if n in self.raw else dtype)
                for k, n in enumerate(self.operands)
            ]
            grads, operands, outs, parameters = self.symbols(shape, dtype)
            replace = {{"operand": operands, "out": outs}[op][k]: g for (op, k), g in at.items()}
            replace.update({parameters[k]: scalars[f"p{k}"] for k in used_params})
            result = self.gradients(mask, grads, operands, outs, parameters)
            wanted = [e for e in result if e is not None]
            replace.update({g: ex.const(0.0, dtype) for g in grads})
            parts = [ex.substitute([e], {**replace, grads[number]: t})[0] for e, t in zip(wanted, tangents)]
            return sum(parts[1:], parts[0])

        params = [f"p{k}" for k in used_params]
        made = Pointwise(
            f"{self.name}_tangent{number or ''}", body, names, params, raw=raw, dtypes=self.dtypes
        )
        return made.make_op(), moving

    def make_op(self, defaults: Sequence[float] = (), differentiable: bool = True) -> PointwiseOp:
        raw = sum(1 << k for k, n in enumerate(self.operands) if n in self.raw)
        self.op = PointwiseOp(
            self.name,
            self.operands,
            self.params,
            tuple(defaults),
            self.results,
            self,
            differentiable,
            raw,
            self.widens,
            self.pairs,
        )
        return self.op


def _computed(exprs: list) -> list[Expr]:
    """The gradients that are not just one that arrives."""
    return [e for e in exprs if e is not None and e.op != "grad"]


def _reaching(g: Expr, operand: Expr) -> Expr:
    """A gradient by formula as it reaches the operand: conjugated, and the real part where that is real."""
    return ex.real(ex.conj(g)) if ex.is_float(operand.dtype) else ex.conj(g)


def pointwise(
    *,
    reference: str | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    places: Sequence[str] | None = None,
    also: Sequence[str] = (),
    results: int = 1,
    int_to_float: bool = False,
    dtypes: frozenset[str] = ALL,
    raw: Sequence[str] = (),
    numbers: Sequence[str] = (),
    keeps: Sequence[int | None] | None = None,
    refused: Refused = (),
    rounded: bool = False,
    alike: Sequence[str] = (),
    widens: bool = False,
    pairs: bool = False,
    in_place: bool = True,
    differentiable: bool = True,
    scalar_second: bool = False,
    name: str | None = None,
    aten_backward: str | None = None,
    **details,
) -> Callable[[Callable], PointwiseOp]:
    """Declare a pointwise operation from a function of scalars.

    Positional arguments of the function are operands (tensors or numbers, which take part in type promotion
    unless they are `raw`); keyword-only arguments are scalar parameters.  Only the operands in `numbers` may be
    Python numbers where users call the operation.  `int_to_float`: integer inputs
    become the default dtype.  `rounded`: numbers and tensors of other dtypes are rounded to the common dtype first, so that
    a float16 0.1 equals the number 0.1; else half types are computed in float32 with what was given.  `alike`: operands
    whose dtypes must agree; others are promoted.  `widens`: takes float8, too, computed in float32 and rounded.
    `pairs`: makes complex32 of float16.
    `scalar_second`: calls of before have the parameter after the first operand.  `refused`: dtypes that
    no operand may have, with their errors.  `places` are the dotted public names (default: the flat
    namespace and a method), `also` adds to them.  `aten_backward`: what ATen calls the operation that computes its gradient.
    """

    def make(body: Callable) -> PointwiseOp:
        operands, scalars = parameters(body)
        params = list(scalars)
        defaults = [float(d) for d in scalars.values() if d is not MISSING]
        own = name or body.__name__
        declared = Pointwise(
            own,
            body,
            operands,
            params,
            results=results,
            int_to_float=int_to_float,
            dtypes=dtypes,
            raw=raw,
            keeps=keeps,
            refused=refused,
            rounded=rounded,
            alike=alike,
            widens=widens,
            pairs=pairs,
            aten_backward=aten_backward,
        )
        op = declared.make_op(defaults, differentiable)
        op.__doc__ = body.__doc__
        op.derivative = declared.derivative
        if scalar_second:
            op.old = ((operands[0], *params, *operands[1:]),)
        written = None
        spots = tuple(places) if places is not None else (own, f"Tensor.{own}")
        spots += tuple(also)
        if any(not spot.rpartition(".")[2].startswith("_") for spot in spots):
            op.let_numbers(tuple(numbers))
        if in_place:
            written = op.in_place
            written.__doc__ = (
                f"`{own}` in place: the result is written over the tensor itself, which is returned."
            )
        register(
            own,
            "pointwise",
            op,
            places=spots,
            in_place=written,
            body=body,
            reference=reference,
            domain=domain,
            differentiable=differentiable,
            dtypes=dtypes | {"float16"} if pairs else dtypes,
            gives=f"({', '.join(['Tensor'] * results)})" if results > 1 else None,
            int_to_float=int_to_float,
            operands=tuple(operands),
            raw=tuple(raw),
            **details,
        )
        return op

    return make
