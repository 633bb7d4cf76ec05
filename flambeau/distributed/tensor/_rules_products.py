"""Sharding rules of matrix products, by the labels of their dimensions: a label that the result lacks is added up."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from ...func._rules_products import _COLUMN, _ROW, _SCALAR, _TRANSPOSED
from ._call import Call, Choice
from ._rules import ADDED, NAMED, replicated
from .placement_types import Partial, Placement, Replicate, Shard

Labels = Sequence[Hashable]


def labelled(
    call: Call,
    operands: Sequence[Labels | None],
    results: Sequence[Labels | None],
    summed: Sequence[Hashable] = (),
    addends: Sequence[int] = (),
) -> Iterator[Choice]:
    """Cut along the dimensions of one label.

    operands, results: the labels of their dimensions; None for what stays whole.
    summed: labels that may be cut though results lack them: these are to be added up then, and so are the operands `addends`.
    """
    sizes: dict[Hashable, int] = {}
    for x, labels in zip(call.operands, operands):
        for label, size in zip(labels or (), x.shape):
            sizes[label] = max(sizes.get(label, 1), size) if size != 1 else sizes.get(label, 1)
    for label, size in sizes.items():
        outs: list[Placement] = []
        for labels, made in zip(results, call.results):
            if labels is not None and label in labels and made.shape[list(labels).index(label)] == size:
                outs.append(Shard(list(labels).index(label)))
            elif label in summed:
                outs.append(Partial())
            else:
                break
        if len(outs) < len(results):
            continue
        adds = any(isinstance(p, Partial) for p in outs)
        ins: list[Placement] = []
        for k, (x, labels) in enumerate(zip(call.operands, operands)):
            at = list(labels).index(label) if labels is not None and label in labels else -1
            if at >= 0 and x.shape[at] == size:
                ins.append(Shard(at))
            else:
                ins.append(Partial() if adds and k in addends else Replicate())
        yield Choice(tuple(ins), tuple(outs))


def _bilinear(call: Call, a: int, b: int, addends: Sequence[int] = ()) -> Iterator[Choice]:
    """One factor is still to be added up."""
    for how in ADDED:
        for k in (a, b):
            result: list[Placement] = [Replicate()] * len(call.operands)
            result[k] = Partial(how)
            for addend in addends:
                result[addend] = Partial(how)
            yield Choice(tuple(result), (Partial(how),))


def _matrix(x: Any, form: int, rows: Hashable, columns: Hashable) -> list[Hashable]:
    """The labels of a tensor that is read as matrices: dimensions in front are counted from the right."""
    inner: list[Hashable] = {
        _TRANSPOSED: [columns, rows],
        _ROW: [columns],
        _COLUMN: [rows],
        _SCALAR: [],
    }.get(form, [rows, columns])
    ahead = x.dim() - len(inner)
    return [("batch", ahead - d) for d in range(ahead)] + inner


def product(call: Call) -> Iterator[Choice]:
    """`matmul` and its kin, with an addend or without."""
    yield replicated(call)
    added = len(call.operands) - 2
    a, b = call.operands[added], call.operands[added + 1]
    left = _matrix(a, _ROW if a.dim() == 1 else 0, "m", "k")
    right = _matrix(b, _COLUMN if b.dim() == 1 else 0, "k", "n")
    ahead = max(left[:-2], right[:-2], key=len)
    out: list[Hashable] = [*ahead, *(["m"] if "m" in left else []), *(["n"] if "n" in right else [])]
    summed: list[Hashable] = ["k"]
    if call.op.entry.name == "addbmm":
        summed += ahead
        out = ["m", "n"]
    operands: list[Labels | None] = [left, right]
    if added:
        operands.insert(0, out[len(out) - call.operands[0].dim() :])
    if call.op.writes and added == 0:
        return
    addends = (0,) if added else ()
    yield from labelled(call, operands, [out], summed, addends)
    yield from _bilinear(call, added, added + 1, addends)


def gradient(call: Call) -> Iterator[Choice]:
    """`product_as`: dimensions in front that the result lacks are added up."""
    yield replicated(call)
    a, b = call.operands
    left = _matrix(a, call.bound["a_form"], "m", "k")
    right = _matrix(b, call.bound["b_form"], "k", "n")
    out = _matrix(call.results[0], call.bound["form"], "m", "n")

    def adjust(local: dict[str, Any], specs: Sequence[Any]) -> dict[str, Any]:
        return {**local, "sizes": specs[0].local_shape}

    call.adjust = adjust
    present = {label for label, size in zip(out, call.results[0].shape) if size != 1}
    summed = [label for label in (*left, *right) if label not in present]
    yield from labelled(call, [left, right], [out], summed)
    yield from _bilinear(call, 0, 1)


def columns_summed(call: Call) -> Iterator[Choice]:
    """The sum over all dimensions but the last."""
    yield replicated(call)
    labels = list(range(call.operands[0].dim()))
    yield from labelled(call, [labels], [labels[-1:]], labels[:-1])
    for how in ADDED:
        yield Choice((Partial(how),), (Partial(how),))


NAMED.update({"product": product, "gradient of product": gradient, "columns": columns_summed})
