"""RNN, GRU and LSTM: one layer in one direction or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._tensor import Tensor
from .declare import fl, nn, operator

# Functions of gates by ONNX's names, and how many of alpha and beta they read with which defaults.
_FUNCTIONS: dict[str, tuple[Callable[..., Tensor], tuple[float, ...]]] = {
    "Relu": (lambda x: fl.relu(x), ()),
    "Tanh": (lambda x: fl.tanh(x), ()),
    "Sigmoid": (lambda x: fl.sigmoid(x), ()),
    "Softsign": (lambda x: nn.softsign(x), ()),
    "Softplus": (lambda x: nn.softplus(x), ()),
    "Affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "ScaledTanh": (lambda x, a, b: a * fl.tanh(b * x), (1.0, 1.0)),
    "HardSigmoid": (lambda x, a, b: fl.clamp(a * x + b, 0, 1), (0.2, 0.5)),
    "LeakyRelu": (lambda x, a: nn.leaky_relu(x, a), (0.01,)),
    "ThresholdedRelu": (lambda x, a: fl.where(x >= a, x, fl.zeros_like(x)), (1.0,)),
    "Elu": (lambda x, a: nn.elu(x, a), (1.0,)),
}

_BY_NAME = {name.lower(): function for name, function in _FUNCTIONS.items()}


def _functions(
    names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None, clip: float | None
) -> list[Callable[[Tensor], Tensor]]:
    """The functions of gates with their numbers, which are given in the order of those that read them."""
    left, right = list(alphas or ()), list(betas or ())
    result = []
    for name in names:
        if name.lower() not in _BY_NAME:
            raise ValueError(f"there is no activation '{name}' in recurrent layers")
        function, defaults = _BY_NAME[name.lower()]
        numbers = [(line.pop(0) if line else d) for line, d in zip((left, right), defaults)]
        result.append(_clipped(function, numbers, clip))
    return result


def _clipped(
    function: Callable[..., Tensor], numbers: list[float], clip: float | None
) -> Callable[[Tensor], Tensor]:
    if clip is None:
        return lambda x: function(x, *numbers)
    return lambda x: function(fl.clamp(x, -clip, clip), *numbers)


class _Layer:
    """What the kinds of layers share: directions, layouts, sequences of several lengths.

    A step is `(projected input, states) → states`.
    """

    def __init__(
        self,
        x: Tensor,
        w: Tensor,
        r: Tensor,
        b: Tensor | None,
        lengths: Tensor | None,
        direction: str,
        layout: int,
    ) -> None:
        self.x = fl.transpose(x, 0, 1) if layout else x
        self.w, self.r, self.layout = w, r, layout
        self.size = r.shape[-1]
        self.lengths = lengths
        directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
        if direction not in directions or w.shape[0] != len(directions[direction]):
            raise ValueError(f"the direction '{direction}' does not fit weights for {w.shape[0]} directions")
        self.turned = directions[direction]
        gates = w.shape[1]
        if b is None:
            b = fl.zeros([w.shape[0], 2 * gates], dtype=w.dtype)
        self.wb, self.rb = b[:, :gates], b[:, gates:]

    def begin(self, state: Tensor | None) -> Tensor:
        """The first states, (directions, batch, size)."""
        if state is None:
            return fl.zeros([len(self.turned), self.x.shape[1], self.size], dtype=self.x.dtype)
        return fl.transpose(state, 0, 1) if self.layout else state

    def run(
        self, states: Sequence[Tensor], step: Callable[[int, Tensor, list[Tensor]], list[Tensor]]
    ) -> tuple[Tensor, ...]:
        """All outputs, and the last states."""
        outputs, last = [], []
        for d, turned in enumerate(self.turned):
            result, end = self.one(d, turned, [s[d] for s in states], step)
            outputs.append(result)
            last.append(end)
        return self.outputs_of(fl.stack(outputs, 1), [fl.stack(parts) for parts in zip(*last)])

    def one(self, d: int, turned: bool, carried: list[Tensor], step: Any) -> tuple[Tensor, list[Tensor]]:
        projected = fl.matmul(self.x, self.w[d].mT) + self.wb[d]
        rows: list[Tensor] = []
        count = self.x.shape[0]
        for t in reversed(range(count)) if turned else range(count):
            after = step(d, projected[t], carried)
            row = after[0]
            if self.lengths is not None:
                going = (self.lengths > t)[:, None]
                row = fl.where(going, row, fl.zeros_like(row))
                after = [fl.where(going, new, old) for new, old in zip(after, carried)]
            carried = after
            rows.append(row)
        return fl.stack(rows[::-1] if turned else rows), carried

    def outputs_of(self, outputs: Tensor, last: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Results in the layout of the input: outputs of (length, directions, batch, size), states of (directions, batch, size)."""
        if self.layout:
            return fl.permute(outputs, [2, 0, 1, 3]), *(fl.transpose(s, 0, 1) for s in last)
        return outputs, *last

    def by_library(self, kind: Any, order: Sequence[int], states: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """All of it by the library's own layer, whose gates stand in another order."""
        weights = []
        for d in range(len(self.turned)):
            weights += [_turned(v, order) for v in (self.w[d], self.r[d], self.wb[d], self.rb[d])]
        x = fl.flip(self.x, [0]) if self.turned == [True] else self.x
        hx = tuple(states) if len(states) > 1 else states[0]
        outputs, *last = kind(x, hx, weights, True, 1, 0.0, False, len(self.turned) == 2, False)
        if self.turned == [True]:
            outputs = fl.flip(outputs, [0])
        count, batch = self.x.shape[:2]
        split = fl.transpose(outputs.reshape([count, batch, len(self.turned), self.size]), 1, 2)
        return self.outputs_of(split, last)


def _turned(v: Tensor, order: Sequence[int]) -> Tensor:
    """Blocks of rows in another order."""
    parts = fl.chunk(v, len(order), 0)
    return fl.cat([parts[k] for k in order], 0)


def _is_default(activations: list[str] | None, defaults: list[str], count: int, clip: float | None) -> bool:
    names = [a.lower() for a in activations or ()]
    return clip is None and names in ([], [d.lower() for d in defaults] * count)


@operator("RNN", since=7)
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> tuple[Tensor, Tensor]:
    layer = _Layer(x, w, r, b, sequence_lens, direction, layout)
    hidden = layer.begin(initial_h)
    count = len(layer.turned)
    for kind, function in (("Tanh", fl.rnn_tanh), ("Relu", fl.rnn_relu)):
        named = activations is not None or kind == "Tanh"
        if named and sequence_lens is None and _is_default(activations, [kind], count, clip) and x.shape[0]:
            return layer.by_library(function, (0,), [hidden])  # type: ignore[return-value]
    functions = _functions(activations or ["Tanh"] * count, activation_alpha, activation_beta, clip)

    def step(d: int, x_gates: Tensor, states: list[Tensor]) -> list[Tensor]:
        return [functions[d](x_gates + fl.matmul(states[0], r[d].mT) + layer.rb[d])]

    return layer.run([hidden], step)  # type: ignore[return-value]


@operator("GRU", since=7)
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Tensor, Tensor]:
    """Gates update, reset, new; the reset gate acts before the product with the states, or with linear_before_reset behind it."""
    layer = _Layer(x, w, r, b, sequence_lens, direction, layout)
    hidden = layer.begin(initial_h)
    count = len(layer.turned)
    if (
        linear_before_reset
        and sequence_lens is None
        and _is_default(activations, ["Sigmoid", "Tanh"], count, clip)
    ):
        return layer.by_library(fl.gru, (1, 0, 2), [hidden])  # type: ignore[return-value]
    functions = _functions(
        activations or ["Sigmoid", "Tanh"] * count, activation_alpha, activation_beta, clip
    )

    def step(d: int, x_gates: Tensor, states: list[Tensor]) -> list[Tensor]:
        (h,) = states
        f, g = functions[2 * d : 2 * d + 2]
        xz, xr, xn = fl.chunk(x_gates, 3, -1)
        rz, rr, rn = fl.chunk(r[d], 3, 0)
        bz, br, bn = fl.chunk(layer.rb[d], 3, 0)
        z = f(xz + fl.matmul(h, rz.mT) + bz)
        reset = f(xr + fl.matmul(h, rr.mT) + br)
        if linear_before_reset:
            new = g(xn + reset * (fl.matmul(h, rn.mT) + bn))
        else:
            new = g(xn + fl.matmul(reset * h, rn.mT) + bn)
        return [(1 - z) * new + z * h]

    return layer.run([hidden], step)  # type: ignore[return-value]


@operator("LSTM", since=7)
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gates input, output, forget, cell; `p` are weights by which the cell acts on the first three."""
    layer = _Layer(x, w, r, b, sequence_lens, direction, layout)
    begin = [layer.begin(initial_h), layer.begin(initial_c)]
    count = len(layer.turned)
    is_standard = p is None and not input_forget and sequence_lens is None
    if is_standard and _is_default(activations, ["Sigmoid", "Tanh", "Tanh"], count, clip):
        return layer.by_library(fl.lstm, (0, 2, 3, 1), begin)  # type: ignore[return-value]
    names = activations or ["Sigmoid", "Tanh", "Tanh"] * count
    functions = _functions(names, activation_alpha, activation_beta, clip)

    def step(d: int, x_gates: Tensor, states: list[Tensor]) -> list[Tensor]:
        h, c = states
        f, g, k = functions[3 * d : 3 * d + 3]
        gi, go, gf, gc = fl.chunk(x_gates + fl.matmul(h, r[d].mT) + layer.rb[d], 4, -1)
        pi, po, pf = (0, 0, 0) if p is None else fl.chunk(p[d], 3, 0)
        i = f(gi + pi * c)
        forget = 1 - i if input_forget else f(gf + pf * c)
        cell = forget * c + i * g(gc)
        out = f(go + po * cell)
        return [out * k(cell), cell]

    return layer.run(begin, step)  # type: ignore[return-value]
