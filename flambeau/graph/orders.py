"""In which order a kernel's folds take their elements, and how a fused kernel keeps that of the operations' own kernels.

The order of a sum decides its last bits.  It follows from whether lanes run along the row or across rows, from how many elements a step
has, from the loops that a row is walked over in, and from the blocks that a long row is cut into.  A fused kernel reads other operands
than an operation's own, so it may find other loops good.  `Orders.settle` gives it the steps of the operation's own kernel, and refuses
where its loops are others: `OutOfOrder` names the calls that are then to be kernels of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ..codegen import kernels as kn
from ..codegen.passes import rounds
from ..codegen.schedule_cpu_rows import lanes_of
from ..core.loops.planning import plan_of
from ..core.loops.plans import RowLoopPlan
from ..operations.declare.pointwise import ACCESS, CODES, NO_CODE
from ..operations.declare.rows import FINAL, PARTIAL, WHOLE
from .expressions import Along, Loop, Unfused, along_of, loop_of
from .products import example
from .program import Call, Value

BROADCAST = ACCESS.index(kn.BROADCAST)
CONTIGUOUS = ACCESS.index(kn.CONTIGUOUS)


class OutOfOrder(Unfused):
    """A kernel would fold in another order than these calls do each by itself."""

    def __init__(self, calls: Collection[Call]) -> None:
        super().__init__(
            f"{', '.join(c.name for c in calls)}: sums would be taken in another order than eager calls take them in"
        )
        self.calls = calls


class Order(NamedTuple):
    """The order of a kernel's folds; `lanes` are elements a step of each of its kernels (one, or two where a row is cut into blocks), none
    where lanes run across rows: each row is then walked over element by element.
    """

    along: bool
    sizes: tuple[int, ...]
    block: int
    lanes: tuple[int, ...]
    mixed: bool  # folds that cascade beside others in one walk over the row, which then do, too


class Orders:
    """Orders of operations' own kernels, each found once.

    >>> import flambeau as torch
    >>> from flambeau.graph.orders import Orders
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> (call,) = Program(record(lambda x: x.sum(-1), torch.zeros(3, 100))[0]).calls
    >>> order = Orders().of(call)
    >>> order.along, order.sizes, order.block
    (True, (1, 100), 0)
    """

    def __init__(self) -> None:
        self.known: dict[Call, Order | None] = {}

    def of(self, call: Call) -> Order | None:
        """The order of a row operation's own kernel; None where it has none that a fused kernel could have."""
        if call not in self.known:
            self.known[call] = _own_order(call)
        return self.known[call]

    def settle(
        self, calls: Sequence[Call], strides: Sequence[tuple[int, ...]], loop: Loop
    ) -> Callable[[RowLoopPlan, tuple[kn.Row, ...]], tuple[kn.Row, ...]]:
        """What `row_plan` asks before it compiles a kernel of these calls, whose operands have such strides along its loops."""
        rows = [
            c
            for c in calls
            if along_of(c) is not None and any(_rounded(v) for v in (*c.values(), *c.results))
        ]
        natural = _natural(strides, loop)

        def settle(plan: RowLoopPlan, kernels: tuple[kn.Row, ...]) -> tuple[kn.Row, ...]:
            if not rows:
                return kernels
            if not natural:
                raise OutOfOrder(rows)
            orders = {c: self.of(c) for c in rows}
            loops = plan.along, plan.loop_sizes()[-2:], plan.block
            wrong = [c for c, o in orders.items() if o is None or (o.along, o.sizes, o.block) != loops]
            if wrong:
                raise OutOfOrder(wrong)
            result = [o for o in orders.values() if o is not None]
            if len(result) > 1 and (any(o.mixed for o in result) or any(map(_mixed, kernels))):
                raise OutOfOrder(rows[1:])
            lanes = max(dict.fromkeys(o.lanes for o in result), key=[o.lanes for o in result].count)
            wrong = [c for c, o in orders.items() if o is not None and o.lanes != lanes]
            if wrong:
                raise OutOfOrder(wrong)
            return tuple(k._replace(lanes=n) for k, n in zip(kernels, lanes)) if lanes else kernels

        return settle


def _own_order(call: Call) -> Order | None:
    along = along_of(call)
    if along is None:
        return None
    loop = loop_of(call)
    if (
        loop is not None and loop.device is not None
    ):  # where the form of a kernel, and so the order, depends on what else it computes
        return None
    if loop is None or not _natural([v.strides for v in along.tensors], loop):
        return None
    try:
        plan = plan_of(
            along.operation,
            tuple(map(example, along.tensors)),
            along.dim,
            dtype=along.dtype,
            params=along.params,
        )
    except NotImplementedError:  # rows that an eager call gathers first
        return None
    kernels = _own_kernels(along, plan)
    lanes = tuple(map(lanes_of, kernels)) if plan.along else ()
    return Order(plan.along, plan.loop_sizes()[-2:], plan.block, lanes, any(map(_mixed, kernels)))


def _own_kernels(along: Along, plan: RowLoopPlan) -> list[kn.Row]:
    """The kernels of an eager call with that plan."""
    declaration = along.operation.declaration
    codes = [CODES[v.dtype.name] for v in along.tensors]
    access = [ACCESS.index(a) for a in plan.accesses()]
    results, own = access[: plan.outputs], access[plan.outputs :]
    common = next(c for c, n in zip(codes, declaration.inputs) if n not in declaration.raw)
    wanted = NO_CODE if along.dtype is None else CODES[along.dtype.name]
    if len(declaration.inputs) > len(codes):  # the row's first element
        codes, own = [*codes, codes[0]], [*own, BROADCAST if plan.along else own[0]]
    inputs = list(zip(codes, own))

    def kernel(stage: int, inputs: list[tuple[int, int]], results: list[int]) -> kn.Row:
        return declaration.program_for(stage, plan.along, inputs, results, common, wanted)[0]

    if not plan.block:
        return [kernel(WHOLE, inputs, results)]
    states = declaration.two_stage_codes(common, wanted)[1]
    beside = [BROADCAST if plan.along else CONTIGUOUS] * len(states)
    return [kernel(PARTIAL, inputs, beside), kernel(FINAL, [(c, CONTIGUOUS) for c in states], results)]


def _mixed(kernel: kn.Row) -> bool:
    """Whether one walk over the row has sums, which cascade, beside folds that do not."""
    return any(
        len({rounds(own[0].value) for own in level}) > 1 for level in kn.folds_by_depth(kernel.outputs)
    )


def _natural(strides: Sequence[tuple[int, ...]], loop: Loop) -> bool:
    """Whether rows of several dimensions are walked over in the order of these, whichever operand the loops go by."""
    wide = [d for d in sorted(loop.dims or ()) if loop.shape[d] != 1]
    for own in strides:
        along = [own[d] if -d <= len(own) else 0 for d in wide]
        if len(wide) > 1 and any(along) and (0 in along or any(a <= b for a, b in zip(along, along[1:]))):
            return False
    return True


def _rounded(value: Value) -> bool:
    """Whether it matters in which order such numbers are combined."""
    return value.dtype.is_floating_point
