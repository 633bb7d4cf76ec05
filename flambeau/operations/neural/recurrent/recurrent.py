"""What recurrent layers compute from their gates, as one kernel a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ....codegen import functions as fn
from ....core import tape
from ....core.base.tensor import TensorBase
from ....core.lib.products.products import addmm, linear
from ...declare.flops import Count, Shape
from ...declare.half_types import FLOAT32, HALF_TYPES
from ...declare.pointwise import FLOATING, pointwise
from ...declare.registry import leaf, library
from ...declare.vjp import gradients
from ...moving.joining import cat, stack
from ...pointwise.elementary import tanh
from ..activations import relu
from . import steps, tiles

FEW = 6  # rows, of all steps: fewer do not pay for laying out the weight
TILED = ("float32", "float64", "float16", "bfloat16")


@pointwise(places=("_lstm_state",), dtypes=FLOATING, in_place=False)
def lstm_state(input, forget, candidate, cell):
    """c' = σ(forget)·c + σ(input)·tanh(candidate)."""
    return fn.sigmoid(forget) * cell + fn.sigmoid(input) * fn.tanh(candidate)


@pointwise(places=("_lstm_output",), dtypes=FLOATING, in_place=False)
def lstm_output(output, cell):
    """h' = σ(output)·tanh(c')."""
    return fn.sigmoid(output) * fn.tanh(cell)


@pointwise(places=("_lstm_cell",), results=6, dtypes=FLOATING, in_place=False, differentiable=False)
def lstm_cell(input, forget, candidate, output, cell):
    """h', c' and the gates behind their nonlinearities, for a long short-term memory (Hochreiter and Schmidhuber,
    1997), from the gates before them.
    """
    i, f, g, o = fn.sigmoid(input), fn.sigmoid(forget), fn.tanh(candidate), fn.sigmoid(output)
    new = f * cell + i * g
    return o * fn.tanh(new), new, i, f, g, o


@pointwise(places=("_lstm_cell_gradients",), results=5, dtypes=FLOATING, in_place=False, differentiable=False)
def lstm_cell_gradients(grad_hidden, grad_cell, i, f, g, o, cell, new):
    """The gradients of `lstm_cell`'s operands from those of h' and c'; i, f, g, o and `new` are its results."""
    squashed = fn.tanh(new)
    flow = grad_cell + grad_hidden * o * (1.0 - squashed * squashed)
    return (
        flow * g * i * (1.0 - i),
        flow * cell * f * (1.0 - f),
        flow * i * (1.0 - g * g),
        grad_hidden * squashed * o * (1.0 - o),
        flow * f,
    )


@pointwise(places=("_gru_cell",), results=5, dtypes=FLOATING, in_place=False, differentiable=False)
def gru_cell(x_reset, x_update, x_new, h_reset, h_update, h_new, hidden):
    """h', r, z, n and what r scales, of a gated recurrent unit (Cho et al., 2014), from what the input and the state give to its gates,
    and h.
    """
    r, z = fn.sigmoid(x_reset + h_reset), fn.sigmoid(x_update + h_update)
    n = fn.tanh(x_new + r * h_new)
    return n + z * (hidden - n), r, z, n, h_new


@pointwise(places=("_gru_cell_gradients",), results=7, dtypes=FLOATING, in_place=False, differentiable=False)
def gru_cell_gradients(grad, r, z, n, h_new, hidden, before):
    """The gradients of what the input gives to r, z and n, of what the state gives to them, and of h, added to `before`; from that of h',
    with `gru_cell`'s results.
    """
    of_n = grad * (1.0 - z) * (1.0 - n * n)
    of_r, of_z = of_n * h_new * r * (1.0 - r), grad * (hidden - n) * z * (1.0 - z)
    return of_r, of_z, of_n, of_r, of_z, of_n * r, before + grad * z


@pointwise(places=("_rnn_tanh_gradients",), dtypes=FLOATING, in_place=False, differentiable=False)
def rnn_tanh_gradients(grad, output):
    """The gradient behind h' = tanh(x)."""
    return grad * (1.0 - output * output)


@pointwise(places=("_rnn_relu_gradients",), dtypes=FLOATING, in_place=False, differentiable=False)
def rnn_relu_gradients(grad, output):
    """The gradient behind h' = max(x, 0)."""
    return fn.where(output > 0, grad, fn.like(grad, 0.0))


RNN_CELLS = {"rnn_tanh": (tanh, rnn_tanh_gradients), "rnn_relu": (relu, rnn_relu_gradients)}


def lstm_step(gates: TensorBase, cell: TensorBase) -> tuple[TensorBase, TensorBase]:
    """h' and c' from all gates of a step, (N, 4H), and the cell, (N, H); differentiates any number of times."""
    input, forget, candidate, output = gates.chunk(4, 1)
    cell = lstm_state(input, forget, candidate, cell)
    return lstm_output(output, cell), cell


def _rnn_steps(gates, hidden, weight, sizes, kind):
    step, outputs = tanh if kind == "rnn_tanh" else relu, []
    (shares,) = steps.by_step((gates,), sizes)
    for share in shares:
        hidden = step(addmm(share, hidden[: len(share)], weight.t()))
        outputs.append(hidden)
    return (stack if sizes is None else cat)(outputs)


def _gru_steps(gates, hidden, weight, bias, sizes):
    outputs = []
    (shares,) = steps.by_step((gates,), sizes)
    for share in shares:
        hidden = hidden[: len(share)]
        hidden = gru_step(share, linear(hidden, weight, bias), hidden)
        outputs.append(hidden)
    return (stack if sizes is None else cat)(outputs)


def _lstm_steps(gates, hidden, cell, weight, sizes):
    outputs, ended = [], []
    (shares,) = steps.by_step((gates,), sizes)
    for share in shares:
        if len(share) < len(hidden):
            ended.append(cell[len(share) :])
            hidden, cell = hidden[: len(share)], cell[: len(share)]
        hidden, cell = lstm_step(addmm(share, hidden, weight.t()), cell)
        outputs.append(hidden)
    return (stack if sizes is None else cat)(outputs), cat([cell, *reversed(ended)])


def _whole(*given: TensorBase | None, also: Any = None) -> bool:
    """Whether a layer's sequences are computed whole: on the host, where there are enough rows.  All are of one dtype, or some of the
    dtype `also`.
    """
    gates = given[0]
    return (
        gates.device.type == "cpu"
        and gates.dtype.name in TILED
        and gates.numel() >= FEW * gates.shape[-1]
        and all(x is None or x.dtype is gates.dtype or x.dtype is also for x in given)
    )


def _away(*given: TensorBase | None) -> bool:
    """Whether a layer's sequences are computed step by step behind one node: on devices, for one dtype."""
    gates = given[0]
    return (
        gates.device.type != "cpu"
        and gates.dtype.name in TILED
        and gates.numel() > 0
        and all(x is None or x.dtype is gates.dtype for x in given)
    )


def _check(who: str, many: int, gates, hidden, weight, sizes, cell=None, bias=None) -> None:
    """RuntimeError where a shape does not fit: loops over memory follow."""
    rows, units = hidden.shape
    wanted = {
        "gates": (gates, (*gates.shape[:-1], many * units)),
        "hidden": (hidden, (gates.shape[1] if sizes is None else sizes[0], units)),
        "cell": (cell, (rows, units)),
        "weight": (weight, (many * units, units)),
        "bias": (bias, (many * units,)),
    }
    for name, (x, shape) in wanted.items():
        if x is not None and tuple(x.shape) != tuple(shape):
            raise RuntimeError(f"{who}(): expected {name} to have shape {list(shape)}, got {list(x.shape)}")
    if gates.ndim != (3 if sizes is None else 2) or (
        sizes is not None and (sum(sizes) != len(gates) or any(a < b for a, b in zip(sizes, sizes[1:])))
    ):
        raise RuntimeError(f"{who}(): gates of shape {list(gates.shape)} are no sequences of sizes {sizes}")


def _order(gates: TensorBase, sizes: Any, turned: bool) -> tiles.Order:
    return tiles.Order([gates.shape[1]] * gates.shape[0] if sizes is None else sizes, turned)


def _along(steps: Callable[..., Any], turned: bool) -> Callable[..., Any]:
    """The same function of the gates and others, of sequences that have their first step last where `turned`."""

    def backwards(gates: TensorBase, *others: Any) -> Any:
        result = steps(gates.flip(0), *others)
        return (result[0].flip(0), *result[1:]) if isinstance(result, tuple) else result.flip(0)

    return backwards if turned else steps


def _kept(*inputs: TensorBase | None) -> bool:
    """Whether a layer returns what its derivative reads; one that has not, is run again for it."""
    return tape.tracked(*(x for x in inputs if x is not None))


def _of_state(gates: Shape, weight: Shape) -> Count:
    """The products with the state; the input's share of the gates is a `linear` of its own."""
    return Count("aten.mm", 2 * prod(gates[:-1]) * prod(weight))


def _count_lstm(gates: Shape, hidden: Shape, cell: Shape, weight: Shape, *rest: Any) -> Count:
    return _of_state(gates, weight)


def _count(gates: Shape, hidden: Shape, weight: Shape, *rest: Any) -> Count:
    return _of_state(gates, weight)


def _count_lstm_backward(
    grad: Any, last: Any, gates: Shape, hidden: Shape, cell: Shape, weight: Shape, *rest: Any
) -> Count:
    return Count("aten.mm", 2 * _of_state(gates, weight).flops)


def _count_backward(grad: Any, gates: Shape, hidden: Shape, weight: Shape, *rest: Any) -> Count:
    return Count("aten.mm", 2 * _of_state(gates, weight).flops)


# --- long short-term memory ------------------------------
@library("library", "_lstm_layer", autocast="lower", composite=True)
def lstm_layer(
    gates: TensorBase,
    hidden: TensorBase,
    cell: TensorBase,
    weight: TensorBase,
    sizes: Any = None,
    turned: bool = False,
):
    """Run an LSTM over a sequence: outputs (L, N, H) and the last cell (N, H), from the input's share of the gates
    (L, N, 4H), the state to begin with (N, H) and the state's weight (4H, H).

    Over sequences in packed order, `sizes` lists how many of them have each step, never growing; outputs are then (total, H)
    and gates (total, 4H).  `turned` sequences of one length have their first step last.  All of it is one node on the tape, which
    multiplies out the weight's gradient once, not once a step.
    """
    keep = _kept(gates, hidden, cell, weight)
    return lstm_sequence(gates, hidden, cell, weight, sizes, turned, keep)[:2]


@leaf(
    "library",
    results=("outputs", "last", "cells", "activated"),
    inputs=("gates", "hidden", "cell", "weight"),
    label="LstmLayerBackward0",
    flops=_count_lstm,
)
def lstm_sequence(
    gates: TensorBase,
    hidden: TensorBase,
    cell: TensorBase,
    weight: TensorBase,
    sizes: Sequence[int] | None,
    turned: bool,
    keep: bool,
) -> tuple[TensorBase | None, ...]:
    """`lstm_layer`'s outputs and last cells; with `keep` also all cells and the gates behind their nonlinearities."""
    inputs = (gates, hidden, cell, weight)
    if not _whole(*inputs):
        return steps.lstm(lstm_cell, *inputs, sizes, turned)
    _check("lstm_layer", 4, gates, hidden, weight, sizes, cell)
    outputs, last, cells, activated = tiles.lstm(*inputs, _order(gates, sizes, turned), keep)
    return outputs.to(gates.dtype), last.to(gates.dtype), cells, activated


@lstm_sequence.derivative
def _lstm_gradients(
    grad_outputs, grad_last, gates, hidden, cell, weight, outputs, cells, activated, sizes, turned, needs
) -> tuple:
    inputs = (gates, hidden, cell, weight)
    if activated is None:
        outputs, _, cells, activated = lstm_sequence(*inputs, sizes, turned, True)
    return lstm_sequence_backward(
        grad_outputs, grad_last, *inputs, outputs, cells, activated, sizes, turned, needs
    )


@leaf(
    "library",
    results=("to_gates", "to_hidden", "to_cell", "to_weight"),
    inputs=("grad_outputs", "grad_last", "gates", "hidden", "cell", "weight"),
    batching="sliced",
    flops=_count_lstm_backward,
)
def lstm_sequence_backward(
    grad_outputs: TensorBase | None,
    grad_last: TensorBase | None,
    gates: TensorBase,
    hidden: TensorBase,
    cell: TensorBase,
    weight: TensorBase,
    outputs: TensorBase,
    cells: TensorBase,
    activated: TensorBase,
    sizes: Sequence[int] | None,
    turned: bool,
    wanted: Sequence[bool],
) -> tuple[TensorBase | None, ...]:
    """The gradients of `lstm_sequence`."""
    inputs, whole = (gates, hidden, cell, weight), _whole(gates, hidden, cell, weight)
    to_outputs, to_cell = (
        kept.new_zeros(kept.shape) if grad is None else grad
        for grad, kept in zip((grad_outputs, grad_last), (outputs, cell))
    )
    if not whole:
        return steps.lstm_gradients(
            lstm_cell_gradients,
            to_outputs,
            to_cell,
            hidden,
            cell,
            weight,
            outputs,
            cells,
            activated,
            sizes,
            turned,
        )
    result = tiles.lstm_gradients(
        *(to_outputs, to_cell, hidden, cell, weight, outputs, cells, activated),
        *(_order(gates, sizes, turned), wanted),
    )
    return _cast(result, inputs)


@lstm_sequence_backward.derivative
def _lstm_again(
    grads, grad_outputs, grad_last, gates, hidden, cell, weight, sizes, turned, wanted, needs
) -> tuple:
    def steps(*inputs):
        return _along(_lstm_steps, turned)(*inputs, sizes)

    def first(grad_outputs, grad_last, *inputs):
        return gradients(steps, inputs, (grad_outputs, grad_last), wanted)

    return gradients(first, (grad_outputs, grad_last, gates, hidden, cell, weight), grads, needs)


def _own(result: TensorBase, like: TensorBase, kept: bool) -> TensorBase:
    """What a layer returns: a copy where the node keeps the outputs, for a program may write to those of a GRU or an RNN."""
    return result.clone() if kept and result.dtype is like.dtype else result.to(like.dtype)


def _cast(result, inputs):
    """Gradients in the dtypes of the inputs."""
    return tuple(None if x is None else x.to(like.dtype) for x, like in zip(result, inputs))


# --- gated recurrent units ------------------------------
@library("library", "_gru_layer", autocast="composite", composite=True)
def gru_layer(
    gates: TensorBase,
    hidden: TensorBase,
    weight: TensorBase,
    bias: TensorBase | None = None,
    sizes: Any = None,
    turned: bool = False,
):
    """Run a GRU over a sequence: outputs (L, N, H) from the input's share of the gates (L, N, 3H), the state to begin with
    (N, H), and the state's weight (3H, H) and bias (3H,).  `sizes`, `turned` and the node are as for `lstm_layer`.
    """
    # Autocast leaves the state as it is, and the result is like it.
    also = FLOAT32 if gates.dtype in HALF_TYPES else None
    if not (_whole(gates, hidden, weight, bias, also=also) or _away(gates, hidden, weight, bias)):
        return _along(_gru_steps, turned)(gates, hidden, weight, bias, sizes)
    keep = _kept(gates, hidden, weight, bias)
    return gru_sequence(gates, hidden, weight, bias, sizes, turned, keep)[0]


@leaf(
    "library",
    results=("outputs", "states", "activated"),
    inputs=("gates", "hidden", "weight", "bias"),
    label="GruLayerBackward0",
    flops=_count,
)
def gru_sequence(
    gates: TensorBase,
    hidden: TensorBase,
    weight: TensorBase,
    bias: TensorBase | None,
    sizes: Sequence[int] | None,
    turned: bool,
    keep: bool,
) -> tuple[TensorBase | None, ...]:
    """`gru_layer`'s outputs; with `keep` also all states as they were computed, r, z, n and what r scales."""
    _check("gru_layer", 3, gates, hidden, weight, sizes, bias=bias)
    if _away(gates):
        result, activated = steps.gru(gru_cell, gates, hidden, weight, bias, sizes, turned)
    else:
        result, activated = tiles.gru(gates, hidden, weight, bias, _order(gates, sizes, turned), keep)
    return _own(result, hidden, keep), result if keep else None, activated


@gru_sequence.derivative
def _gru_gradients(grad, gates, hidden, weight, bias, states, activated, sizes, turned, needs) -> tuple:
    inputs = (gates, hidden, weight, bias)
    if states is None:
        _, states, activated = gru_sequence(*inputs, sizes, turned, True)
    return gru_sequence_backward(grad, *inputs, states, activated, sizes, turned, needs)


@leaf(
    "library",
    results=("to_gates", "to_hidden", "to_weight", "to_bias"),
    inputs=("grad_out", "gates", "hidden", "weight", "bias"),
    batching="sliced",
    flops=_count_backward,
)
def gru_sequence_backward(
    grad_out: TensorBase,
    gates: TensorBase,
    hidden: TensorBase,
    weight: TensorBase,
    bias: TensorBase | None,
    states: TensorBase,
    activated: TensorBase,
    sizes: Sequence[int] | None,
    turned: bool,
    wanted: Sequence[bool],
) -> tuple[TensorBase | None, ...]:
    """The gradients of `gru_sequence`."""
    if _away(gates):
        result = steps.gru_gradients(
            gru_cell_gradients, grad_out, hidden, weight, bias, states, activated, sizes, turned
        )
    else:
        order = _order(gates, sizes, turned)
        result = tiles.gru_gradients(grad_out, hidden, weight, states, activated, order, wanted)
    return _cast(result, (gates, hidden, weight, bias))


@gru_sequence_backward.derivative
def _gru_again(grads, grad_out, gates, hidden, weight, bias, sizes, turned, wanted, needs) -> tuple:
    def steps(*inputs):
        return _along(_gru_steps, turned)(*inputs, sizes)

    def first(grad_out, *inputs):
        return gradients(steps, inputs, (grad_out,), wanted)

    return gradients(first, (grad_out, gates, hidden, weight, bias), grads, needs)


# --- Elman's network ------------------------------
@library("library", "_rnn_layer", autocast="lower", composite=True)
def rnn_layer(
    gates: TensorBase,
    hidden: TensorBase,
    weight: TensorBase,
    sizes: Any = None,
    turned: bool = False,
    kind: str = "rnn_tanh",
):
    """Run Elman's network over a sequence: outputs (L, N, H) from the input's share (L, N, H), the state to begin with (N, H)
    and the state's weight (H, H).  `sizes`, `turned` and the node are as for `lstm_layer`; `kind` is rnn_tanh or rnn_relu.
    """
    if not (_whole(gates, hidden, weight) or _away(gates, hidden, weight)):
        return _along(_rnn_steps, turned)(gates, hidden, weight, sizes, kind)
    return rnn_sequence(gates, hidden, weight, sizes, turned, kind, _kept(gates, hidden, weight))[0]


@leaf(
    "library",
    results=("outputs", "states"),
    inputs=("gates", "hidden", "weight"),
    label="RnnLayerBackward0",
    flops=_count,
)
def rnn_sequence(
    gates: TensorBase,
    hidden: TensorBase,
    weight: TensorBase,
    sizes: Sequence[int] | None,
    turned: bool,
    kind: str,
    keep: bool,
) -> tuple[TensorBase, TensorBase | None]:
    """`rnn_layer`'s outputs; with `keep` also all states as they were computed."""
    _check("rnn_layer", 1, gates, hidden, weight, sizes)
    if _away(gates):
        result = steps.rnn(RNN_CELLS[kind][0], gates, hidden, weight, sizes, turned)
    else:
        result = tiles.rnn(gates, hidden, weight, _order(gates, sizes, turned), kind)
    return _own(result, gates, keep), result if keep else None


@rnn_sequence.derivative
def _rnn_gradients(grad, gates, hidden, weight, states, sizes, turned, kind, needs) -> tuple:
    inputs = (gates, hidden, weight)
    if states is None:
        _, states = rnn_sequence(*inputs, sizes, turned, kind, True)
    return rnn_sequence_backward(grad, *inputs, states, sizes, turned, kind, needs)


@leaf(
    "library",
    results=("to_gates", "to_hidden", "to_weight"),
    inputs=("grad_out", "gates", "hidden", "weight"),
    batching="sliced",
    flops=_count_backward,
)
def rnn_sequence_backward(
    grad_out: TensorBase,
    gates: TensorBase,
    hidden: TensorBase,
    weight: TensorBase,
    states: TensorBase,
    sizes: Sequence[int] | None,
    turned: bool,
    kind: str,
    wanted: Sequence[bool],
) -> tuple[TensorBase | None, ...]:
    """The gradients of `rnn_sequence`."""
    if _away(gates):
        result = steps.rnn_gradients(RNN_CELLS[kind][1], grad_out, hidden, weight, states, sizes, turned)
    else:
        order = _order(gates, sizes, turned)
        result = tiles.rnn_gradients(grad_out, hidden, weight, states, order, wanted, kind)
    return _cast(result, (gates, hidden, weight))


@rnn_sequence_backward.derivative
def _rnn_again(grads, grad_out, gates, hidden, weight, sizes, turned, kind, wanted, needs) -> tuple:
    def steps(*inputs):
        return _along(_rnn_steps, turned)(*inputs, sizes, kind)

    def first(grad_out, *inputs):
        return gradients(steps, inputs, (grad_out,), wanted)

    return gradients(first, (grad_out, gates, hidden, weight), grads, needs)


# --- steps ------------------------------
@pointwise(places=("_gru_candidate",), dtypes=FLOATING, in_place=False)
def gru_candidate(x_reset, h_reset, x_new, h_new):
    """n = tanh(x_new + σ(x_reset + h_reset)·h_new)."""
    return fn.tanh(x_new + fn.sigmoid(x_reset + h_reset) * h_new)


@pointwise(places=("_gru_mixture",), dtypes=FLOATING, in_place=False)
def gru_mixture(x_update, h_update, new, hidden):
    """h' = n + σ(x_update + h_update)·(h - n)."""
    return new + fn.sigmoid(x_update + h_update) * (hidden - new)


def gru_step(from_input: TensorBase, from_state: TensorBase, hidden: TensorBase) -> TensorBase:
    """h' of the gated recurrent unit (Cho et al., 2014) from the shares of its gates, (N, 3H), and h, (N, H)."""
    x_reset, x_update, x_new = from_input.chunk(3, 1)
    h_reset, h_update, h_new = from_state.chunk(3, 1)
    new = gru_candidate(x_reset, h_reset, x_new, h_new)
    return gru_mixture(x_update, h_update, new, hidden)
