"""From a program to a plan: a kernel for each group, calls for the rest, and a place for each value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..codegen import expr as ex
from ..codegen import kernels as kn
from ..core.loops.planning import loop_plan, row_plan
from ..core.loops.plans import Geometry, LoopPlan
from .assemble import assemble
from .convolutions import convolution_of
from .epilogues import ProductGroup, product_with, with_epilogues
from .expressions import Leaves, Reader, Unfused, broadcast, by_value, expressions, loop_of
from .groups import Group, groups_of
from .logs import log
from .options import DEFAULT, Options
from .orders import Orders, OutOfOrder
from .passes.algebra import EXACT, FAST, simplified, simplify
from .passes.common import share
from .passes.constants import fold
from .passes.recompute import recompute
from .passes.rematerialize import rematerialize
from .products import product_of
from .program import Call, Program, Value
from .report import Report
from .runner import Runner
from .schedule import Part, scheduled
from .trace import mapped


def plan(
    program: Program, fused: bool = True, donated: Iterable[int] = (), options: Options = DEFAULT
) -> Runner:
    """What runs the program on other tensors of the same geometry; with `fused` false each call by itself.

    Inputs whose numbers are `donated` are not read any more once the program has run: their memory is written over as soon as the
    program does not read it.

    >>> import flambeau as torch
    >>> from flambeau.graph.lower import plan
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> graph, _ = record(lambda x: (x * x + 1).sqrt().sum(), torch.zeros(3))
    >>> runner = plan(Program(graph))
    >>> runner
    Runner(1 kernel, 0 products, 0 calls, 0 bytes)
    >>> runner(torch.ones(3))
    tensor(4.2426)
    """
    given = frozenset(donated)
    made = _Plan(program, fused, given, options)
    runner = assemble(program, made.steps, given)
    made.report.memory = runner.memory
    runner.describe(made.report, [step.name for step in made.report.steps])
    log.debug("planned:\n%s", made.report)
    return runner


def planned_steps(program: Program, options: Options) -> _Plan:
    """The steps of the program without places, and the kernels of loops among them, for who lays them out otherwise."""
    return _Plan(program, True, (), options)


class _Plan:
    def __init__(self, program: Program, fused: bool, donated: Iterable[int], options: Options) -> None:
        self.program = program
        self.formulas = FAST if options.use_fast_math else EXACT
        self.orders = Orders() if fused and options.eager_numerics else None
        self.steps: list[tuple[Any, list[Value]]] = []  # a step, and the values that it touches
        self.kernels: dict[LoopPlan, tuple[Any, ...]] = {}  # two of rows in blocks
        self.report = Report(program)
        program.drop_dead(_is_pure)
        if fused:
            if options.joint_graph_constant_folding:
                fold(program, _is_pure)
            simplify(program, self.formulas, _is_pure)
            share(program, _is_pure)
            rematerialize(program)
            recompute(program)
        groups = groups_of(program, fused) if self.orders is None else self._groups_in_order()
        if fused and options.epilogue_fusion and not options.eager_numerics:
            groups = with_epilogues(program, groups)
        self.wanted = self._read_from_memory(groups)
        parts: list[Part] = []
        for group in groups:
            self.steps = []
            self._enter(group)
            parts.append(Part(group, self.steps))
        if fused:
            parts = scheduled(program, parts, donated)
        self.steps = [step for part in parts for step in part.steps]
        for part in parts:
            self.report.enter(part.group.calls, part.steps)

    def _groups_in_order(self) -> list[Group]:
        """Groups whose kernels fold in the order of eager calls: calls for which that cannot be so are groups of their own."""
        apart = set[Call]()
        while True:
            groups = groups_of(self.program, True, apart)
            self.wanted = self._read_from_memory(groups)
            result = set[Call]()
            for group in groups:
                if group.loop is not None and group.loop.dims is not None and len(group.calls) > 1:
                    try:
                        self._kernel(group)
                    except OutOfOrder as error:
                        result.update(error.calls)
                    except (Unfused, NotImplementedError):  # each call by itself
                        continue
            self.steps.clear()
            if not result:
                return groups
            apart |= result

    def _read_from_memory(self, groups: list[Group]) -> set[Value]:
        """Roots that others than the group that makes them read or write, or that the program is given or returns."""
        home = {c: g for g in groups for c in g.calls}
        wanted = {v.root for v in (*self.program.results(), *self.program.inputs, *self.program.constants())}
        for call in self.program.calls:
            for v in (*call.values(), *call.written):
                if v.root.call is not None and home[v.root.call] is not home[call]:
                    wanted.add(v.root)
        return wanted

    def _enter(self, group: Group) -> None:
        if isinstance(group, ProductGroup):
            product = product_with(group, self.wanted)
            if isinstance(product, Call):
                self.steps.append((product, [*product.arguments(), *product.results]))
                return
            if product is not None:
                self.steps.append((product, list(product.values)))
                return
            self.wanted.add(group.product.results[0].root)
            self._call(group.product)
            group = group.rest
        if group.loop is not None:
            try:
                self._kernel(group)
                return
            except (Unfused, NotImplementedError) as error:
                self.report.reasons.update((call, str(error)) for call in group.calls)
                if len(group.calls) > 1:  # each by itself
                    for call in group.calls:
                        alone = Group(None)
                        alone.calls.append(call)
                        self.wanted.update(v.root for v in (*call.values(), *call.results))
                        self._enter(alone)
                    return
        self._call(group.calls[0])

    def _kernel(self, group: Group) -> None:
        """The one kernel of a group."""
        loop = group.loop
        assert loop is not None
        leaves, known = Leaves(), dict[Value, ex.Expr]()
        of = Reader(known, leaves, loop)

        latest: dict[Value, Value] = {}  # what a memory holds in the end, where others look
        for call in group.calls:
            for value, e in zip(call.results, expressions(call, of, leaves, loop), strict=True):
                known[value] = e
                if value.root in self.wanted:
                    latest[value.root] = value
        if not latest:
            return
        outputs, device = list(latest.values()), loop.device
        exprs = [known[v] for v in outputs]
        if device is not None:
            exprs = by_value(exprs, leaves)
        fused = kn.fused(group.name, simplified(exprs, self.formulas))
        inputs = [leaves.read[k] for k in fused.inputs]
        rank, dims = len(loop.shape), loop.dims or frozenset()
        geometry = [Geometry(v.dtype, *_along(v, loop.shape, dims)) for v in outputs]
        geometry += [Geometry(v.dtype, *_sized(strides, loop.shape)) for v, strides in inputs]
        touched = [*outputs, *(v for v, _ in inputs), *(leaves.read[k][0] for k in fused.params)]
        scalars = (0,) * len(fused.params)  # a run gives those that it finds
        if isinstance(fused.kernel, kn.Row):
            if not inputs:
                raise Unfused(f"{group.name}: rows of no tensor")
            strides = [strides for _, strides in inputs]
            order = None if self.orders is None else self.orders.settle(group.calls, strides, loop)
            kernels: list[Any] = []

            def settle(rows: LoopPlan, result: tuple[Any, ...]) -> list[Any]:
                kernels[:] = result if order is None else order(rows, result)
                return kernels

            along = sorted(d + rank for d in dims)
            made = row_plan(fused.kernel, loop.shape, along, geometry, scalars, settle, device)
            self.kernels[made] = tuple(kernels)
        else:
            shape = loop.shape
            if dims:  # nothing is folded, as nobody reads that: what has one value a row is written once
                sizes = [_along(v, shape, dims)[0] for v in outputs]
                shape = broadcast([*sizes, *(_sized(strides, shape)[0] for _, strides in inputs)])
                if any(own != shape for own in sizes):
                    raise Unfused(f"{group.name}: results of several shapes, and no fold")
            made = loop_plan(fused.kernel, shape, geometry, scalars, device)
            self.kernels[made] = (fused.kernel.walking(made.accesses()),)
        self.steps.append((made, touched))

    def _call(self, call: Call) -> None:
        product = product_of(call) or convolution_of(call)
        if product is not None:
            self.steps.append((product, list(product.values)))
            return
        if any(v.reads is not None for v in call.arguments()):  # no kernel computes them here
            made = dict[Value, Value]()
            call.set_arguments(*mapped((call.args, call.kwargs), Value, lambda v: self._in_memory(v, made)))
        self.steps.append((call, [*call.arguments(), *call.results]))

    def _in_memory(self, value: Value, made: dict[Value, Value]) -> Value:
        """What a reader of a value that is computed again finds in memory.

        That is new memory: the value's own may hold by now what was written to it, since nobody waits for such a reader.
        """
        if value.reads is None:
            return value
        maker, root = value.call, value.root
        assert maker is not None
        if root not in made:
            again = Call(maker.number, maker.operation, maker.args, maker.kwargs)
            made[root] = Value(root.number, root.place, again)
            again.results = (made[root],)
            self.program.values.append(made[root])
            self.wanted.add(made[root])
            group = Group(loop_of(again))
            group.calls.append(again)
            self._enter(group)
        result = made[root]
        return result if value.place == root.place else Value(value.number, value.place, result.call, result)


def _is_pure(call: Call) -> bool:
    """Whether a call does nothing but make its results: loops, and what views tell of geometry (`is_contiguous`)."""
    entry = getattr(call.operation, "entry", None)
    return loop_of(call) is not None or (entry is not None and entry.kind == "view")


def _along(
    value: Value, shape: tuple[int, ...], dims: frozenset[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and strides of a result along the loops, where dimensions that were dropped have size 1."""
    if len(value.shape) == len(shape):
        return value.shape, value.strides
    if len(value.shape) == len(shape) - len(dims):
        own = iter(zip(value.shape, value.strides))
        pairs = [(1, 0) if d - len(shape) in dims else next(own) for d in range(len(shape))]
        return tuple(n for n, _ in pairs), tuple(s for _, s in pairs)
    return value.shape, value.strides


def _sized(strides: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of a leaf: size 1 where it does not move."""
    own = shape[len(shape) - len(strides) :]
    return tuple(n if s else 1 for n, s in zip(own, strides)), strides
