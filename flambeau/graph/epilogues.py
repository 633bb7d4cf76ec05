"""Products that end in what follows them: a pointwise group whose one large operand is a product becomes that product's epilogue.

The tile then computes the group's expression from the sums in its registers: the product is neither stored nor read again, and a launch is
saved.  That needs a product that nobody else reads, one result, and operands with one element a column, a row or a place
(`codegen/tiles/epilogues.py`).  Sums of tiles are taken in another order than BLAS takes them.
"""

from __future__ import annotations

import math

from ..codegen import expr as ex
from ..codegen.expr import Expr
from ..codegen.tiles.epilogues import MOST, Epilogue
from ..core.base.tensor import TensorBase
from ..core.lib.products.product_plan import ProductPlan
from ..core.make.create import empty_strided
from .convolutions import Convolution, Images, images_of, prepared
from .device_products import ended
from .expressions import Leaves, Reader, Unfused, expressions
from .groups import Group, in_order, wait
from .products import Operands, Product, example, operands_of
from .program import Call, Program, Value

# Measured on a Zen 5 core, a product and then a pass beside one tile, with vectors of 64 bytes and of 32:
#   relu of 512 × 32 × 512 1.12, 1.08;  128 × 64 × 512 1.07, 1.02;  128 × 512 × 512 1.01, 0.98;  8 × 64 × 64 1.10, 1.28
#   gelu of 512 × 32 × 512 1.00, 0.95;  128 × 64 × 512 0.98, 0.96;  128 × 512 × 512 0.98, 0.95;  8 × 64 × 64 0.93, 1.17
FEW_TERMS = 128
SMALL = 1 << 11  # multiplications of one row or column, beside which a launch is long


class ProductGroup(Group):
    """A product and the pointwise calls that its tiles end in."""

    def __init__(self, product: Call, rest: Group) -> None:
        super().__init__(rest.loop)
        self.product, self.rest = product, rest
        self.calls = [product, *rest.calls]
        self.made = rest.made | set(product.results)
        self.before = rest.before


def with_epilogues(program: Program, groups: list[Group]) -> list[Group]:
    """The groups, products joined with what follows them where that wins.

    >>> import flambeau as torch
    >>> from flambeau.graph.epilogues import with_epilogues
    >>> from flambeau.graph.groups import groups_of
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> graph, _ = record(lambda x, w, b: torch.nn.functional.linear(x, w, b).relu(), *map(torch.ones, ((2, 3), (4, 3), 4)))
    >>> program = Program(graph)
    >>> with_epilogues(program, groups_of(program))
    [Group(linear_relu: Loop(shape=(2, 4), dims=None, device=None))]
    """
    groups = list(groups)
    home = {c: g for g in groups for c in g.calls}
    readers: dict[Value, set[Group]] = {}
    for call in program.calls:
        for v in (*call.values(), *call.written):
            readers.setdefault(v.root, set()).add(home[call])
    returned = {v.root for v in program.results()}
    for group in list(groups):
        if (
            group.loop is not None and group.loop.dims is None and not any(c.written for c in group.calls)
        ):  # tiles write to new memory alone: others of the product may still read the old
            result = _product_before(program, group, home, readers, returned)
            if result is not None:
                _join(groups, home[result], group, ProductGroup(result, group), readers)
    return in_order(groups)


def _product_before(
    program: Program,
    group: Group,
    home: dict[Call, Group],
    readers: dict[Value, set[Group]],
    returned: set[Value],
) -> Call | None:
    """The product that a group may become the epilogue of: the largest of those that only the group reads."""
    assert group.loop is not None
    count = math.prod(group.loop.shape)
    best: Call | None = None
    most = 0.0
    for value in dict.fromkeys(v for c in group.calls for v in c.values()):
        call = value.call
        if (
            call is None
            or value.root in returned
            or readers[value.root] != {group}
            or value.root.call is not call
        ):
            continue
        if (
            call in group.calls
            or len(home[call].calls) != 1
            or math.prod(value.shape) != count
            or value.span != value.root.span
        ):
            continue
        terms = _terms(call)
        if terms is None or program.is_written(value) or not _between(home[call], group):
            continue
        work = float(count) * terms
        if work > most:
            best, most = call, work
    return best


def _terms(call: Call) -> int | None:
    """How many products each sum of a call has; None for a call that tiles do not compute."""
    operands = operands_of(call)
    if operands is not None:
        return operands.left.shape[-1]
    images = images_of(call)
    return None if images is None else math.prod(images.weight.shape[1:])


def _between(product: Group, group: Group) -> bool:
    """Whether no other group has to run after the product and before the group."""
    return not any(product in g.before for g in group.before)


def _join(
    groups: list[Group], product: Group, rest: Group, joined: ProductGroup, readers: dict[Value, set[Group]]
) -> None:
    joined.before = (rest.before | product.before) - {product, rest}
    groups[groups.index(rest)] = joined
    groups.remove(product)
    for g in groups:
        if product in g.before or rest in g.before:
            g.before = g.before - {product, rest} | {joined}
    wait(groups, joined, set(joined.before))
    for result in readers.values():
        if product in result or rest in result:
            result -= {product, rest}
            result.add(joined)


def product_with(group: ProductGroup, wanted: set[Value]) -> Product | Convolution | Call | None:
    """The product prepared with its epilogue; None where the group is no epilogue of it, or where that loses.

    `wanted`: roots that others read from memory.
    """
    try:
        result, root, leaves = _expression(group, wanted)
        images, operands = images_of(group.product), operands_of(group.product)
        if images is not None:
            return _of_images(group, images, result, root, leaves)
        if operands is not None and result.device is not None:
            return _on_device(group, operands, result, root, leaves)
        return None if operands is None else _of_matrices(group, operands, result, root, leaves)
    except (Unfused, NotImplementedError, ValueError, TypeError):
        return None


def _of_matrices(
    group: ProductGroup, operands: Operands, result: Value, root: Expr, leaves: Leaves
) -> Product | None:
    ending = _Ending(group.product.results[0])
    epilogue = ending.epilogue(group, root, leaves, _scaled(ending, operands))
    plan = ProductPlan(example(operands.left), example(operands.right), *ending.examples, epilogue=epilogue)
    if not _wins(plan, operands):
        return None
    return Product(plan, (result, operands.left, operands.right, *ending.values))


def _on_device(group: ProductGroup, operands: Operands, result: Value, root: Expr, leaves: Leaves) -> Call:
    (sums,) = group.product.results
    ending = _Ending(sums)
    epilogue = ending.epilogue(group, root, leaves, ex.input(0, sums.dtype.name))
    others = list(zip(ending.values, ending.reads, ending.examples, strict=True))
    return ended(group.product.number, result, operands, sums, epilogue.root, others)


def _of_images(
    group: ProductGroup, images: Images, result: Value, root: Expr, leaves: Leaves
) -> Convolution | None:
    ending = _Channels(group.product.results[0])
    epilogue = ending.epilogue(group, root, leaves, _biased(ending, images))
    return None if epilogue.long() else prepared(images, result, tuple(ending.values), epilogue)


def _expression(group: ProductGroup, wanted: set[Value]) -> tuple[Value, Expr, Leaves]:
    """The one result of the calls after the product, and its expression over leaves; Unfused where it does not lie as the sums do."""
    assert group.loop is not None
    (sums,) = group.product.results
    leaves, known = Leaves(), dict[Value, Expr]()
    of = Reader(known, leaves, group.loop)

    outputs: list[Value] = []
    for call in group.rest.calls:
        known.update(zip(call.results, expressions(call, of, leaves, group.loop), strict=True))
        outputs += [v for v in call.results if v.root in wanted]
    if len(outputs) != 1 or not _like(outputs[0], sums):
        raise Unfused(f"{group.name}: results {outputs} of a product {sums}")
    return outputs[0], known[outputs[0]], leaves


def _like(value: Value, sums: Value) -> bool:
    """Whether a value's elements lie in the order of the sums."""
    if value.dtype != sums.dtype or math.prod(value.shape) != math.prod(sums.shape):
        return False
    return value.contiguous and sums.contiguous or value.shape == sums.shape and value.strides == sums.strides


def _wins(plan: ProductPlan, operands: Operands) -> bool:
    """Whether tiles that end so take less time than what computes the product alone, and a pass over its result.

    Long expressions are written once for all rows of a tile, with their lanes half used: a pass of their own is faster.  Products that
    BLAS computes are left to it where the sums are long, beside which a pass is little.
    """
    if plan.epilogue is None or plan.epilogue.long():
        return False
    (rows, terms), columns = operands.left.shape[-2:], operands.right.shape[-1]
    if (
        plan.way == "dots"
        or terms <= FEW_TERMS
        and (min(rows, columns) > 1 or terms * max(rows, columns) <= SMALL)
    ):
        return True
    alone = ProductPlan(example(operands.left), example(operands.right))
    return alone.way != "BLAS"


class _Ending:
    """The operands of an epilogue as they are found: how each is read, and a tensor of the geometry that a plan wants."""

    def __init__(self, sums: Value) -> None:
        self.sums = sums
        self.values: list[Value] = []
        self.reads: list[str] = []
        self.examples: list[TensorBase] = []
        self.exprs: dict[tuple[int, str], Expr] = {}

    def epilogue(self, group: ProductGroup, root: Expr, leaves: Leaves, total: Expr) -> Epilogue:
        """The group's expression, where `total` is what the product itself makes of the sums."""
        assert group.loop is not None
        replace = {}
        for e in ex.walk([root]):
            if e.op == "input":
                value, strides = leaves.read[e.value]
                replace[e] = self.leaf(value, strides, group.loop.shape, total)
        return Epilogue(ex.substitute([root], replace)[0], tuple(self.reads))

    def leaf(self, value: Value, strides: tuple[int, ...], shape: tuple[int, ...], total: Expr) -> Expr:
        """What a leaf of loops over `shape` is in the epilogue: an operand, or `total`, made of the sums."""
        if value.root is not self.sums.root:
            return self.read(value, strides, shape)
        if not _like(value, self.sums):
            raise Unfused(f"{value} is another view of the sums")
        return total

    def read(self, value: Value, strides: tuple[int, ...], shape: tuple[int, ...]) -> Expr:
        """An operand of loops over `shape` as an input of the epilogue; Unfused where tiles cannot read it so."""
        whole = self.sums.shape
        if value.dtype != self.sums.dtype:
            raise Unfused(f"an operand of {value.dtype.name} beside sums of {self.sums.dtype.name}")
        columns = shape[-1:] == whole[-1:]
        if strides == dense(shape):
            how, sizes, steps = "both", whole, row_major(whole)
        elif columns and strides == (1,):
            how, sizes, steps = "columns", whole[-1:], (1,)
        elif columns and strides and strides[-1] == 0 and strides[:-1] == dense(shape[:-1]):
            how, sizes, steps = "rows", whole[:-1], row_major(whole[:-1])
        elif columns and len(strides) == 2 == len(whole) and strides[1] == 1 and strides[0] >= whole[1]:
            how, sizes, steps = "both", whole, strides
        else:
            raise Unfused(f"an operand of strides {strides} beside a product of shape {list(whole)}")
        return self.enter(value, how, sizes, steps)

    def enter(self, value: Value, how: str, sizes: tuple[int, ...], steps: tuple[int, ...]) -> Expr:
        key = value.number, how
        if key not in self.exprs:
            if len(self.values) == MOST:
                raise Unfused(f"more than {MOST} operands")
            self.values.append(value)
            self.reads.append(how)
            self.examples.append(empty_strided(sizes, steps, dtype=value.dtype, device="cpu"))
            self.exprs[key] = ex.input(len(self.values), value.dtype.name)
        return self.exprs[key]


class _Channels(_Ending):
    """Those of a convolution, which have one element a filter."""

    def read(self, value: Value, strides: tuple[int, ...], shape: tuple[int, ...]) -> Expr:
        whole = self.sums.shape
        if value.dtype != self.sums.dtype:
            raise Unfused(f"an operand of {value.dtype.name} beside sums of {self.sums.dtype.name}")
        if shape != whole or strides != (1, 0, 0):
            raise Unfused(f"an operand of strides {strides} beside a convolution of shape {list(whole)}")
        return self.enter(value, "columns", whole[1:2], (1,))


def _biased(ending: _Ending, images: Images) -> Expr:
    """sum + bias."""
    total = ex.input(0, ending.sums.dtype.name)
    if images.bias is None:
        return total
    return total + ending.enter(images.bias, "columns", ending.sums.shape[1:2], (1,))


def _scaled(ending: _Ending, operands: Operands) -> Expr:
    """alpha * sum + beta * addend, as an epilogue reads them."""
    dtype = ending.sums.dtype.name
    total = ex.input(0, dtype)
    if operands.alpha != 1:
        total = total * ex.const(operands.alpha, dtype)
    if operands.addend is None or operands.beta == 0:
        return total
    own = moving(operands.addend.shape, operands.addend.strides)
    addend = ending.read(operands.addend, own, ending.sums.shape)
    return total + (addend if operands.beta == 1 else addend * ex.const(operands.beta, dtype))


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of what lies without gaps."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def moving(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides as `Leaves` has them: 0 where nothing moves, and none ahead of the first that does."""
    own = [0 if n == 1 else s for n, s in zip(shape, strides)]
    return tuple(own[next((k for k, s in enumerate(own) if s), len(own)) :])


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return moving(shape, row_major(shape))
