"""Recurrent layers on devices, and wherever tiles do not compute whole sequences: two launches a step, the product with the
state and one kernel for all that follows; backwards likewise.  The product with the input is one for all steps, and so is that of
the weight's gradient.

Sequences are (L, N, …), or (total, …) in packed order, with `sizes`; `kernel` is the cell, or its derivative.  Nothing here is on the
tape, and shapes have been checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.base.formats import contiguous_format
from ....core.base.tensor import TensorBase
from ....core.lib.products.products import addmm, matmul
from ...moving.joining import cat


# --- the order of steps ------------------------------
def by_step(tensors: Sequence[TensorBase], sizes: Any) -> list[Sequence[TensorBase]]:
    """Each of them step by step: of a sequence (L, N, …), or of `sizes` rows each of sequences in packed order, (total, …)."""
    return [x.unbind(0) for x in tensors] if sizes is None else [x.split(sizes) for x in tensors]


def _in_order(tensors: Sequence[TensorBase], sizes: Any, turned: bool) -> list[list[TensorBase]]:
    """The same, the first step first also where it stands last."""
    return [list(reversed(x)) if turned else list(x) for x in by_step(tensors, sizes)]


def _run(kernel: Any, operands: Sequence[TensorBase], results: Sequence[TensorBase]) -> None:
    kernel.foreach([[x] for x in operands], out=[[x] for x in results])


def _weight_gradient(
    flow: TensorBase, hidden: TensorBase, outputs: TensorBase, sizes: Any, turned: bool
) -> TensorBase:
    """The sum over all rows of flow times the state that the step began with: one step before it."""
    if sizes is None:
        others = outputs.narrow(0, int(turned), len(outputs) - 1)
        first = hidden.unsqueeze(0)
        befores = cat([others, first] if turned else [first, others]).flatten(0, 1)
    else:
        befores = cat([hidden, *(step[:n] for step, n in zip(outputs.split(sizes), sizes[1:]))])
    return matmul(flow.flatten(0, -2).t(), befores)


# --- long short-term memory ------------------------------
def lstm(kernel, gates, hidden, cell, weight, sizes, turned: bool) -> tuple[TensorBase, ...]:
    """All outputs, the last cell of each sequence, all cells and activated gates."""
    activated, ended = gates.new_empty(gates.shape), []
    shape = (*gates.shape[:-1], cell.shape[1])
    outputs, cells = gates.new_empty(shape), gates.new_empty(shape)
    weight = weight.t().contiguous()
    parts = (gates, activated, outputs, cells, *activated.chunk(4, -1))
    for share, gate, output, new, *four in zip(*_in_order(parts, sizes, turned)):
        if sizes is not None and len(share) < len(hidden):
            ended.append(cell[len(share) :])
            hidden, cell = hidden[: len(share)], cell[: len(share)]
        addmm(share, hidden, weight, out=gate)
        _run(kernel, [*four, cell], [output, new, *four])
        hidden, cell = output, new
    return outputs, cat([cell, *reversed(ended)]) if ended else cell.clone(), cells, activated


def lstm_gradients(
    kernel, grad_outputs, grad_last, hidden, cell, weight, outputs, cells, activated, sizes, turned: bool
) -> tuple[TensorBase, ...]:
    """The gradients of gates, hidden, cell and weight."""
    # What reaches each output from outside; what reaches it through the next step is added on the way.
    to_outputs, to_cell = (g.clone(memory_format=contiguous_format) for g in (grad_outputs, grad_last))
    flow = activated.new_empty(activated.shape)
    parts = (to_outputs, cells, flow, *activated.chunk(4, -1), *flow.chunk(4, -1))
    to_steps, news, flows, *chunks = _in_order(parts, sizes, turned)
    for t in reversed(range(len(news))):
        carried, before, earlier = to_cell, news[t - 1] if t else cell, to_steps[t - 1]
        if sizes is not None:  # the first of them alone have this step
            carried, before, earlier = (x[: sizes[t]] for x in (carried, before, earlier))
        four, to_four = [x[t] for x in chunks[:4]], [x[t] for x in chunks[4:]]
        _run(kernel, [to_steps[t], carried, *four, before, news[t]], [*to_four, carried])
        if t:
            addmm(earlier, flows[t], weight, out=earlier)
    to_weight = _weight_gradient(flow, hidden, outputs, sizes, turned)
    return flow, matmul(flows[0], weight), to_cell, to_weight


# --- gated recurrent units ------------------------------
def gru(kernel, gates, hidden, weight, bias, sizes, turned: bool) -> tuple[TensorBase, TensorBase]:
    """All outputs; r, z, n and what r scales."""
    units = hidden.shape[1]
    outputs = gates.new_empty((*gates.shape[:-1], units))
    activated = gates.new_empty((*gates.shape[:-1], 4 * units))
    weight, of_state = weight.t().contiguous(), gates.new_empty((len(hidden), 3 * units))
    parts = (outputs, *gates.chunk(3, -1), *activated.chunk(4, -1))
    for output, *others in zip(*_in_order(parts, sizes, turned)):
        rows = len(output)
        hidden, product = hidden[:rows], of_state[:rows]
        if bias is None:
            matmul(hidden, weight, out=product)
        else:
            addmm(bias, hidden, weight, out=product)
        shares, kept = others[:3], others[3:]
        _run(kernel, [*shares, *product.chunk(3, 1), hidden], [output, *kept])
        hidden = output
    return outputs, activated


def gru_gradients(
    kernel, grad_outputs, hidden, weight, bias, outputs, activated, sizes, turned: bool
) -> tuple[TensorBase | None, ...]:
    """The gradients of gates, hidden, weight and bias."""
    to_outputs = grad_outputs.clone(memory_format=contiguous_format)
    to_hidden, units = hidden.new_zeros(hidden.shape), hidden.shape[1]
    to_gates, flow = (activated.new_empty((*activated.shape[:-1], 3 * units)) for _ in range(2))
    parts = (to_outputs, outputs, flow, *activated.chunk(4, -1), *to_gates.chunk(3, -1), *flow.chunk(3, -1))
    to_steps, news, flows, *chunks = _in_order(parts, sizes, turned)
    for t in reversed(range(len(news))):
        before, earlier = (news[t - 1], to_steps[t - 1]) if t else (hidden, to_hidden)
        if sizes is not None:  # the first of them alone have this step
            before, earlier = before[: sizes[t]], earlier[: sizes[t]]
        four, six = [x[t] for x in chunks[:4]], [x[t] for x in chunks[4:]]
        _run(kernel, [to_steps[t], *four, before, earlier], [*six, earlier])
        addmm(earlier, flows[t], weight, out=earlier)
    to_weight = _weight_gradient(flow, hidden, outputs, sizes, turned)
    return to_gates, to_hidden, to_weight, None if bias is None else flow.flatten(0, -2).sum(0)


# --- Elman's network ------------------------------
def rnn(kernel, gates, hidden, weight, sizes, turned: bool) -> TensorBase:
    """All outputs."""
    outputs, weight = gates.new_empty(gates.shape), weight.t().contiguous()
    products = gates.new_empty(hidden.shape)  # apart from the outputs, one of which is multiplied
    for share, output in zip(*_in_order((gates, outputs), sizes, turned)):
        rows = len(share)
        addmm(share, hidden[:rows], weight, out=products[:rows])
        _run(kernel, [products[:rows]], [output])
        hidden = output
    return outputs


def rnn_gradients(
    kernel, grad_outputs, hidden, weight, outputs, sizes, turned: bool
) -> tuple[TensorBase, ...]:
    """The gradients of gates, hidden and weight."""
    to_outputs, flow = grad_outputs.clone(memory_format=contiguous_format), outputs.new_empty(outputs.shape)
    to_steps, news, flows = _in_order((to_outputs, outputs, flow), sizes, turned)
    for t in reversed(range(len(news))):
        _run(kernel, [to_steps[t], news[t]], [flows[t]])
        if t:
            earlier = to_steps[t - 1][: len(flows[t])]
            addmm(earlier, flows[t], weight, out=earlier)
    to_weight = _weight_gradient(flow, hidden, outputs, sizes, turned)
    return flow, matmul(flows[0], weight), to_weight
