"""What recurrent layers compute from their gates, as one kernel a step."""

from __future__ import annotations

from ..compiler import functions as fn
from .declare import FLOATING, pointwise


@pointwise(places=("_lstm_cell",), results=2, dtypes=FLOATING, in_place=False)
def lstm_cell(input, forget, candidate, output, cell):
    """h' and c' of the long short-term memory (Hochreiter and Schmidhuber, 1997), from the gates before their
    nonlinearities: c' = σ(forget)·c + σ(input)·tanh(candidate), h' = σ(output)·tanh(c').
    """
    new = fn.sigmoid(forget) * cell + fn.sigmoid(input) * fn.tanh(candidate)
    return fn.sigmoid(output) * fn.tanh(new), new


@lstm_cell.derivative
def _(grads, input, forget, candidate, output, cell, outs):
    i, f, g, o = fn.sigmoid(input), fn.sigmoid(forget), fn.tanh(candidate), fn.sigmoid(output)
    squashed = fn.tanh(outs[1])
    new = grads[1] + grads[0] * o * (1.0 - squashed * squashed)
    return (
        new * g * i * (1.0 - i),
        new * cell * f * (1.0 - f),
        new * i * (1.0 - g * g),
        grads[0] * squashed * o * (1.0 - o),
        new * f,
    )


@pointwise(places=("_gru_cell",), dtypes=FLOATING, in_place=False)
def gru_cell(x_reset, x_update, x_new, h_reset, h_update, h_new, hidden):
    """h' of the gated recurrent unit (Cho et al., 2014), from the input's and the state's shares of the gates:
    n = tanh(x_new + σ(x_reset + h_reset)·h_new), h' = n + σ(x_update + h_update)·(h - n).
    """
    new = fn.tanh(x_new + fn.sigmoid(x_reset + h_reset) * h_new)
    return new + fn.sigmoid(x_update + h_update) * (hidden - new)
