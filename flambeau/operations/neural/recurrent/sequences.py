"""Recurrent layers over sequences: how the steps lie, a step of each kind, and the layers one over the other.

A step is a function of the input's share of the gates, already multiplied by its weights for all steps at once, and of the
state, a tuple of tensors whose first is the output. How the steps lie is a layout's concern: those of one padded batch one
behind the other, or the steps of sequences of several lengths in packed order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase as Tensor
from ....core.lib.products.products import addmm, linear
from ....core.make.create import arange
from ...moving.joining import cat, stack
from ...pointwise.elementary import tanh
from ...random.dropout import dropout as dropped
from ..activations import relu
from .recurrent import gru_layer, gru_step, lstm_layer, lstm_step, rnn_layer

_INT64 = by_name["int64"]

State = tuple[Tensor, ...]


def _tanh_step(x: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    return (tanh(addmm(x, state[0], weight.t())),)


def _relu_step(x: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    return (relu(addmm(x, state[0], weight.t())),)


def _lstm_step(x: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    hidden, cell = state
    return lstm_step(addmm(x, hidden, weight.t()), cell)


def _gru_step(x: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    (hidden,) = state
    return (gru_step(x, linear(hidden, weight, bias), hidden),)


def biases(
    mode: str, of_input: Tensor | None, of_state: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """What is added to the input's share of the gates and what to the state's: all to the first, but for the
    GRU, whose reset gate scales the state's share.
    """
    if of_input is None or of_state is None or mode == "GRU":
        return of_input, of_state
    return of_input + of_state, None


class Weights(NamedTuple):
    """The weights of one layer in one direction; `projection` is that of an LSTM's outputs."""

    of_input: Tensor
    of_state: Tensor
    input_bias: Tensor | None = None
    state_bias: Tensor | None = None
    projection: Tensor | None = None


class Mode(NamedTuple):
    """A kind of recurrent layer: how many times `hidden_size` its gates are, and its step."""

    gates: int
    step: Callable[..., State]


MODES = {
    "RNN_TANH": Mode(1, _tanh_step),
    "RNN_RELU": Mode(1, _relu_step),
    "LSTM": Mode(4, _lstm_step),
    "GRU": Mode(3, _gru_step),
}


class Even:
    """Sequences of one length, (steps, batch, size).  `Layout` is the same for those in packed order."""

    sizes = None

    def steps(self, x: Tensor, backwards: bool) -> Iterable[Tensor]:
        """The steps of `x`, the last one first if `backwards`."""
        steps = x.unbind(0)
        return reversed(steps) if backwards else steps

    def results(self, states: list[State], backwards: bool) -> tuple[Tensor, State]:
        """The outputs, in the order of time, and the final state, from the states in the order of computation."""
        outputs = [state[0] for state in states]
        return stack(outputs[::-1] if backwards else outputs), states[-1]

    def turned(self, x: Tensor) -> Tensor:
        """`x` with every sequence from its end to its beginning."""
        return x.flip(0)

    def last(self, x: Tensor) -> Tensor:
        """The last step of each sequence."""
        return x[x.size(0) - 1]


EVEN = Even()


class Layout:
    """Where the steps of sequences lie in packed order: a row for each step of each sequence.

    `batch_sizes` are checked here: a 1-D int64 tensor on the CPU, whose entries are positive, never grow, and sum up to the
    number of rows.
    """

    def __init__(self, who: str, batch_sizes: Tensor, rows: Any) -> None:
        check_host_integers("batch_sizes", batch_sizes)
        self.sizes: list[Any] = batch_sizes.tolist()
        if not self.sizes:
            raise RuntimeError(f"{who}: batch_sizes can not be empty")
        if self.sizes[-1] <= 0 or any(map(_grows, self.sizes, self.sizes[1:])):
            raise RuntimeError(
                f"{who}: batch_sizes must be positive and must not grow, but got {_shown(self.sizes)}"
            )
        if sum(self.sizes) != rows:
            raise RuntimeError(
                f"{who}: batch_sizes must sum up to the number of rows of data, {rows}, but their sum is {sum(self.sizes)}"
            )
        self.batch: Any = self.sizes[0]
        # Which sequences are inside at each step, (steps, batch).
        self.inside = arange(self.batch, device="cpu") < batch_sizes.unsqueeze(1)
        self.lengths = self.inside.sum(0)
        self._batch_sizes = batch_sizes

    @cached_property
    def _begins(self) -> Tensor:
        """The row of each step's first sequence."""
        return self._batch_sizes.cumsum(0) - self._batch_sizes

    @cached_property
    def _ends(self) -> Tensor:
        """The row of each sequence's last step."""
        return self._begins[self.lengths - 1] + arange(self.batch, device="cpu")

    @cached_property
    def _mirrored(self) -> Tensor:
        """The row that each row changes places with where every sequence is turned round."""
        times = arange(len(self.sizes), device="cpu").unsqueeze(1)
        opposite = (self.lengths - 1 - times).clamp(min=0)
        return (self._begins[opposite] + arange(self.batch, device="cpu"))[self.inside]

    def steps(self, rows: Tensor, backwards: bool) -> Iterable[Tensor]:
        """The rows of each step, of sequences that are turned round if `backwards`."""
        return (self.turned(rows) if backwards else rows).split(self.sizes)

    def results(self, states: list[tuple[Tensor, ...]], backwards: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The outputs, (total, *), and the final state, (batch, *), from the states after each step."""
        joined = [cat(parts) for parts in zip(*states, strict=True)]
        output = self.turned(joined[0]) if backwards else joined[0]
        return output, tuple(self.last(rows) for rows in joined)

    def last(self, rows: Tensor) -> Tensor:
        """The last step of each sequence, (batch, *)."""
        return rows.index_select(0, self._ends.to(rows.device))

    def turned(self, rows: Tensor) -> Tensor:
        """The rows where every sequence runs from its end to its beginning."""
        return rows.index_select(0, self._mirrored.to(rows.device))


def _grows(before: Any, after: Any) -> bool:
    return after > before


def _shown(numbers: list) -> str:
    return str(numbers) if len(numbers) <= 10 else f"[{', '.join(map(str, numbers[:10]))}, ...]"


def check_host_integers(name: str, tensor: Tensor) -> None:
    if tensor.dim() != 1 or tensor.device.type != "cpu" or tensor.dtype is not _INT64:
        raise RuntimeError(
            f"'{name}' argument should be a 1D CPU int64 tensor, but got {tensor.dim()}D {tensor.device.type} "
            f"{tensor.dtype} tensor"
        )


def run_layers(
    mode: str,
    sequence: Tensor,
    layout: Any,
    state: State,
    weights: Sequence[Weights],
    bidirectional: bool,
    dropout: float,
    training: bool,
) -> tuple[Tensor, State]:
    """All layers of sequences that lie as `layout` says: the last one's outputs, and the states at the end.

    `weights` are those of the first layer, forwards and, if `bidirectional`, backwards, then of the next; the parts of
    `state` are (layers · directions, batch, size). After each layer but the last `dropout` is applied where `training`.
    """
    directions = 2 if bidirectional else 1
    finals: list[State] = []
    for first in range(0, len(weights), directions):
        outputs = []
        for place in range(first, first + directions):
            begin = tuple(part[place] for part in state)
            output, final = _run_layer(mode, sequence, layout, begin, weights[place], place != first)
            outputs.append(output)
            finals.append(final)
        sequence = outputs[0] if directions == 1 else cat(outputs, -1)
        if dropout and first + directions < len(weights):
            sequence = dropped(sequence, dropout, training)
    return sequence, tuple(stack(parts) for parts in zip(*finals, strict=True))


def _run_layer(
    mode: str, sequence: Tensor, layout: Any, state: State, weights: Weights, backwards: bool
) -> tuple[Tensor, State]:
    """One layer in one direction."""
    first, bias = biases(mode, weights.input_bias, weights.state_bias)
    if weights.projection is not None:
        return _run_steps(mode, linear(sequence, weights.of_input, first), layout, state, weights, backwards)
    turned = (
        backwards and layout.sizes is not None
    )  # packed sequences are turned round; those of one length, run through so
    sequence = layout.turned(sequence) if turned else sequence
    gates, last = linear(sequence, weights.of_input, first), ()
    way = (layout.sizes, backwards and not turned)
    if mode == "LSTM":
        output, *last = lstm_layer(gates, *state, weights.of_state, *way)
    elif mode == "GRU":
        output = gru_layer(gates, *state, weights.of_state, bias, *way)
    else:
        output = rnn_layer(gates, *state, weights.of_state, *way, mode.lower())
    if turned:
        return layout.turned(output), (layout.last(output), *last)
    return output, (output[0] if backwards else layout.last(output), *last)


def _run_steps(
    mode: str, gates: Tensor, layout: Any, state: State, weights: Weights, backwards: bool
) -> tuple[Tensor, State]:
    """One layer, step by step, whose output is projected before the next one."""
    states: list[State] = []
    for x in layout.steps(gates, backwards):
        if layout.sizes is not None and len(x) < len(state[0]):  # the last of them have ended
            state = tuple(part[: len(x)] for part in state)
        state = MODES[mode].step(x, state, weights.of_state, None)
        state = (linear(state[0], weights.projection), *state[1:])
        states.append(state)
    return layout.results(states, backwards)


def step_once(mode: str, x: Tensor, state: State, weights: Weights) -> State:
    """The next state of a batch, (N, size)."""
    first, bias = biases(mode, weights.input_bias, weights.state_bias)
    return MODES[mode].step(linear(x, weights.of_input, first), state, weights.of_state, bias)
