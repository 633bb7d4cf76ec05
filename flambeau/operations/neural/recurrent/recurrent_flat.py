"""Recurrent layers and cells as functions of their weights: `flambeau.lstm`, `flambeau.gru_cell` and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.base.tensor import TensorBase as Tensor
from ...declare.dtype_groups import COMPLEX, FLOATING, NUMBERS, NUMERIC
from ...declare.examples import of_call
from ...declare.registry import library
from .sequences import EVEN, MODES, Layout, State, Weights, run_layers, step_once

_ARGUMENTS = """

    Two forms, distinguished by the second argument:

    - `{name}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)` takes a padded batch,
      (L, N, I), or (N, L, I) with `batch_first`, and gives outputs of that kind;
    - `{name}(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)` takes a packed batch,
      (total, I), whose steps have `batch_sizes` rows, an int64 tensor on the CPU that never grows, and gives (total, O).

    {state} `params` are, layer after layer, and forwards before backwards in each, the input's weight, the state's weight, and
    with `has_biases` their biases{more}. After each layer but the last `dropout` is applied where `train`.
    RuntimeError for shapes, or a number of weights, that do not fit."""


def _weights(
    name: str, params: Sequence[Tensor], biases: bool, places: int, projected: bool
) -> list[Weights]:
    """The weights of each layer and direction from one list of all."""
    each = 2 + 2 * biases + projected
    if len(params) != each * places:
        raise RuntimeError(
            f"{name}(): expected {each * places} tensors in params, {each} for each of {places} layers and directions, "
            f"got {len(params)}"
        )
    result = []
    for first in range(0, len(params), each):
        given = list(params[first : first + each])
        projection = given.pop() if projected else None
        of_input, of_state, *added = given
        input_bias, state_bias = added if biases else (None, None)
        result.append(Weights(of_input, of_state, input_bias, state_bias, projection))
    return result


def _check(
    name: str, mode: str, sequence: Tensor, batch: int, state: State, weights: list[Weights], directions: int
):
    """RuntimeError where a weight's or the state's shape does not fit."""
    size = sequence.shape[-1]
    for place, w in enumerate(weights):
        hidden = w.of_state.shape[0] // MODES[mode].gates if w.of_state.ndim == 2 else -1
        output = hidden if w.projection is None else w.projection.shape[0]
        gates = MODES[mode].gates * hidden
        wanted = {"of_input": (gates, size), "of_state": (gates, output), "projection": (output, hidden),
                  "input_bias": (gates,), "state_bias": (gates,)}  # fmt: skip
        for what, given in w._asdict().items():
            if given is not None and tuple(given.shape) != wanted[what]:
                raise RuntimeError(
                    f"{name}(): expected the weight '{what}' of layer {place // directions} to have shape {list(wanted[what])} "
                    f"for an input of size {size}, got {list(given.shape)}"
                )
        if place % directions == directions - 1:
            size = output * directions
    for k, part in enumerate(state):
        wide = output if k == 0 else hidden
        if tuple(part.shape) != (len(weights), batch, wide):
            raise RuntimeError(
                f"{name}(): expected the state hx to have shape {[len(weights), batch, wide]}, got {list(part.shape)}"
            )


def _run(name: str, mode: str, arguments: tuple) -> tuple[Tensor, State]:
    """Outputs and final state from the arguments of either form; see `_ARGUMENTS`."""
    pair = mode == "LSTM"
    input, second, third, *_ = arguments
    packed = isinstance(second if pair else third, Tensor)
    if packed:
        _, batch_sizes, hx, params, biases, layers, dropout, train, bidirectional = arguments
        batch_first = False
    else:
        _, hx, params, biases, layers, dropout, train, bidirectional, batch_first = arguments
    if pair and (not isinstance(hx, (tuple, list)) or len(hx) != 2):
        raise RuntimeError(f"{name}(): expects two hidden states, a pair (h, c)")
    state = tuple(hx) if pair else (hx,)
    if input.ndim != (2 if packed else 3):
        raise RuntimeError(
            f"{name}(): expected {'the data of a packed batch with 2' if packed else 'an input with 3'} dimensions, got "
            f"{list(input.shape)}"
        )
    sequence = input.transpose(0, 1) if batch_first else input
    directions = 2 if bidirectional else 1
    if layers < 1:
        raise RuntimeError(f"{name}(): expected num_layers to be at least 1, got {layers}")
    if not packed and sequence.shape[0] == 0:
        raise RuntimeError(f"{name}(): expected a sequence of at least one step")
    layout = Layout(name, batch_sizes, input.shape[0]) if packed else EVEN
    projected = pair and state[0].shape[-1] != state[1].shape[-1]
    weights = _weights(name, params, biases, layers * directions, projected)
    batch = layout.batch if packed else sequence.shape[1]
    _check(name, mode, sequence, batch, state, weights, directions)
    output, state = run_layers(mode, sequence, layout, state, weights, bidirectional, dropout, train)
    return output.transpose(0, 1) if batch_first else output, state


def _declare(
    name: str,
    mode: str,
    what: str,
    formula: str,
    fill: str,
    state: str,
    outputs: str,
    *dtypes: frozenset[str],
) -> None:
    def layers(
        input: Tensor, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    ) -> tuple[Tensor, ...]:
        given = (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        output, state = _run(name, mode, given)
        return output, *state

    def cell(
        input: Tensor,
        hx: Any,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Any:
        state = tuple(hx) if mode == "LSTM" else (hx,)
        weights = Weights(w_ih, w_hh, b_ih, b_hh)
        if input.ndim != 2 or any(part.ndim != 2 for part in state):
            raise RuntimeError(
                f"{name}_cell(): expected a batch (N, I) and states (N, H), got {list(input.shape)} and "
                f"{[list(part.shape) for part in state]}"
            )
        _check(
            f"{name}_cell",
            mode,
            input,
            input.shape[0],
            tuple(part.unsqueeze(0) for part in state),
            [weights],
            1,
        )
        result = step_once(mode, input, state, weights)
        return result if mode == "LSTM" else result[0]

    layers.__name__ = layers.__qualname__ = name
    cell.__name__ = cell.__qualname__ = f"{name}_cell"
    pair = mode == "LSTM"
    first = "(flambeau.zeros({0}), flambeau.ones({0}))" if pair else "flambeau.ones({0})"
    ones = f"flambeau.{fill}({MODES[mode].gates}, 2), flambeau.{fill}({MODES[mode].gates}, 1)"
    layers.__doc__ = (
        f"Layers of {what}: the last one's outputs and the state{'s h and c' if pair else ''} at the end.\n\n"
        f"    {formula}."
        + _ARGUMENTS.format(
            name=name,
            state=("`hx` is the pair (h, c)" if pair else "`hx` is the state") + " to begin with, (layers · directions, N, H) each.",
            more=", and where h is smaller than c the weight that projects it" if pair else "",
        )
        + f"\n\n    >>> import flambeau\n    >>> hx = {first.format('1, 1, 1')}\n    >>> weights = [{ones}]\n"
        f"    >>> out = flambeau.{name}(flambeau.ones(2, 1, 2), hx, weights, False, 1, 0.0, False, False, False)[0]\n"
        f"    >>> out.flatten()\n    {outputs}\n    "
    )  # fmt: skip
    cell.__doc__ = (
        f"The next {'pair (h, c)' if pair else 'state'}, (N, H), of {what}.\n\n{formula}.\n\n"
        f"Shape:\n    input: (N, I); hx: {'a pair of ' if pair else ''}(N, H); w_ih: (G, I); w_hh: (G, H); b_ih, b_hh: (G,), where G is "
        f"{MODES[mode].gates} H\n\nRaises:\n    RuntimeError: the shapes do not fit"
        + of_call(f"{name}_cell(flambeau.ones(1, 2), {first.format('1, 1')}, {ones})", state)
    )
    library(
        "composite",
        name,
        name=f"flat_{name}",
        dtypes=dtypes[0],
        gives=f"(Tensor, Tensor{', Tensor' if pair else ''})",
    )(layers)
    state, result = ("Sequence[Tensor]", "tuple[Tensor, Tensor]") if mode == "LSTM" else ("Tensor", "Tensor")
    weights = "w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None"
    overloads = (f"(input: Tensor, hx: {state}, {weights}) -> {result}",)
    library("composite", f"{name}_cell", name=f"flat_{name}_cell", overloads=overloads, dtypes=dtypes[1])(
        cell
    )


# What stands behind the source are a formula and an example: how the weights are filled, and what a cell and a layer make of them.
_SUMS = "W_ih x + b_ih + W_hh h + b_hh"
_declare(
    "lstm",
    "LSTM",
    "long short-term memory (Hochreiter and Schmidhuber 1997)",
    f"c' = σ(f) · c + σ(i) · tanh(g) and h' = σ(o) · tanh(c'), of (i, f, g, o) = {_SUMS}",
    "zeros",
    "(tensor([[0.2311]]), tensor([[0.5000]]))",
    "tensor([0.2311, 0.1225])",
    FLOATING,
    FLOATING,
)
_declare(
    "gru",
    "GRU",
    "gated recurrent units (Cho et al. 2014)",
    "h' = (1 - z) · n + z · h, of z = σ(W_iz x + b_iz + W_hz h + b_hz), r the same, and n = tanh(W_in x + b_in + r · (W_hn h + b_hn))",
    "zeros",
    "tensor([[0.5000]])",
    "tensor([0.5000, 0.2500])",
    FLOATING,
    FLOATING,
)
_declare(
    "rnn_tanh",
    "RNN_TANH",
    "Elman's recurrent network (1990) with tanh",
    f"h' = tanh({_SUMS})",
    "ones",
    "tensor([[0.9951]])",
    "tensor([0.9951, 0.9950])",
    FLOATING | COMPLEX,
    NUMBERS,
)
_declare(
    "rnn_relu",
    "RNN_RELU",
    "Elman's recurrent network (1990) with max(0, x)",
    f"h' = max(0, {_SUMS})",
    "ones",
    "tensor([[3.]])",
    "tensor([3., 5.])",
    NUMERIC,
    NUMERIC,
)
