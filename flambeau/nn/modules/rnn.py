"""Recurrent layers and their cells: their parameters and checks; `operations.neural.recurrent.sequences` computes them."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ..._tensor import Tensor
from ...core.call.casting import is_anywhere_on
from ...core.make.create import empty, zeros
from ...operations.neural.recurrent.sequences import (
    EVEN,
    MODES,
    Layout,
    State,
    Weights,
    run_layers,
    step_once,
)
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

# Where a layer's parameters stand among its `Weights`.
_FIELDS = {
    "weight_ih": "of_input",
    "weight_hh": "of_state",
    "bias_ih": "input_bias",
    "bias_hh": "state_bias",
    "weight_hr": "projection",
}


def _reset_uniform(module: Any) -> None:
    bound = 1.0 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


def _check_options(
    input_size: int,
    hidden_size: int,
    num_layers: int,
    bias: bool,
    batch_first: bool,
    dropout: float,
    proj_size: int,
) -> None:
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability "
            "of an element being zeroed"
        )
    for name, flag in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if not isinstance(size, int):
            raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


def _no_projection(proj_size: Any) -> None:
    if proj_size is not None:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNNBase(Module):
    """What RNN, LSTM and GRU share; `mode` is 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'.

    Shape:
        input: (L, N, I) or (L, I), or (N, L, I) under `batch_first`; results: outputs (L, N, O) and the state
            at the end

    Raises:
        ValueError: `mode` is unknown

    >>> import flambeau
    >>> flambeau.nn.RNNBase("GRU", 2, 3).weight_ih_l0.shape
    flambeau.Size([9, 2])
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if mode not in MODES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        _check_options(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size

        gates = MODES[mode].gates * hidden_size
        output_size = proj_size or hidden_size
        directions = ("", "_reverse") if bidirectional else ("",)
        self._all_weights: list[list[str]] = []  # the names for each layer and direction
        for layer in range(num_layers):
            layer_input = input_size if layer == 0 else output_size * len(directions)
            for suffix in directions:
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (gates, layer_input),
                    "weight_hh": (gates, output_size),
                }
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    value = Parameter(empty(shape, device=device, dtype=dtype))
                    self.register_parameter(f"{name}_l{layer}{suffix}", value)
                self._all_weights.append([f"{name}_l{layer}{suffix}" for name in shapes])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters from U(-b, b), b = 1/sqrt(hidden_size)."""
        _reset_uniform(self)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        """The names of all parameters in one list; programs that drop or prune weights read it."""
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def flatten_parameters(self) -> None:
        """Do nothing: the weights need no special layout. Programs written for PyTorch may call it."""

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if not self.bias:
            text += f", bias={self.bias}"
        if self.batch_first:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional:
            text += f", bidirectional={self.bidirectional}"
        return text

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state of the batch in another order: `permutation` tells which of its places stands at each; None for none."""
        if permutation is None:
            return hx
        if isinstance(hx, tuple):
            return tuple(part.index_select(1, permutation) for part in hx)
        return hx.index_select(1, permutation)

    # The state of an LSTM is a pair of tensors; that of the others, one.

    def _run(self, input: Any, state: State | None) -> tuple[Any, State]:
        """The outputs and the final state for a sequence, batched or not, or a packed batch; and for a state."""
        if not isinstance(input, Tensor):
            return self._run_packed(input, state)
        kind = type(self).__name__
        if input.dim() not in (2, 3):
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        if state is not None and any(part.dim() != input.dim() for part in state):
            what = "hx and cx" if self.mode == "LSTM" else "hx"
            form = "batched 3-D" if batched else "unbatched 2-D"
            got = ", ".join(f"{part.dim()}-D" for part in state)
            raise RuntimeError(
                f"For {form} input, {what} should also be {input.dim()}-D but got {got} tensors"
            )
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
            state = None if state is None else tuple(part.unsqueeze(1) for part in state)
        sequence = input.transpose(0, 1) if self.batch_first else input
        state = self._check(sequence, sequence.size(1), state)
        if sequence.size(0) == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")

        output, state = self._layers(sequence, EVEN, state)
        if self.batch_first:
            output = output.transpose(0, 1)
        if not batched:
            return output.squeeze(batch_dim), tuple(part.squeeze(1) for part in state)
        return output, state

    def _run_packed(self, packed: Any, state: State | None) -> tuple[Any, State]:
        """The same for a packed batch, whose state stands in the order in which the sequences were packed."""
        from ..utils.rnn import PackedSequence

        kind = type(self).__name__
        if not isinstance(packed, PackedSequence):
            raise AttributeError(
                f"{kind}: Expected input to be a Tensor or a PackedSequence, got {type(packed).__name__}"
            )
        rows, batch_sizes, order, back = packed
        if rows.dim() != 2:
            raise RuntimeError(f"{kind}: the data of a packed batch must have 2 dimensions, got {rows.dim()}")
        layout = Layout(kind, batch_sizes, rows.size(0))
        state = self.permute_hidden(self._check(rows, layout.batch, state), order)
        rows, state = self._layers(rows, layout, state)
        return PackedSequence(rows, batch_sizes, order, back), self.permute_hidden(state, back)

    def _layers(self, sequence: Tensor, layout: Any, state: State) -> tuple[Tensor, State]:
        """All layers of sequences that lie as `layout` says."""
        weights = [
            Weights(**{_FIELDS[name.split("_l")[0]]: getattr(self, name) for name in names})
            for names in self._all_weights
        ]
        return run_layers(
            self.mode, sequence, layout, state, weights, self.bidirectional, self.dropout, self.training
        )

    def _check(self, sequence: Tensor, batch: int, state: State | None) -> State:
        """The state to begin with, zeros if none is given, of shape (layers · directions, batch, size)."""
        weight = self.weight_ih_l0
        if sequence.dtype != weight.dtype and not is_anywhere_on():  # autocast makes them alike
            raise ValueError(
                f"RNN input dtype ({sequence.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({sequence.dtype})"
            )
        if sequence.size(-1) != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {sequence.size(-1)}"
            )
        leading = (len(self._all_weights), batch)
        sizes = [(*leading, self.proj_size or self.hidden_size)]
        if self.mode == "LSTM":
            sizes.append((*leading, self.hidden_size))
        if state is None:
            return tuple(zeros(size, dtype=sequence.dtype, device=sequence.device) for size in sizes)
        for i, (part, size) in enumerate(zip(state, sizes, strict=True)):
            if tuple(part.shape) != size:
                what = f"hidden[{i}]" if self.mode == "LSTM" else "hidden"
                raise RuntimeError(f"Expected {what} size {size}, got {list(part.shape)}")
        return state


class RNN(RNNBase):
    """Elman's recurrent network: h' = tanh(W_ih·x + b_ih + W_hh·h + b_hh), layer over layer (Elman, 1990).

    `forward(input, hx=None)` takes (L, N, input_size), or (N, L, input_size) if `batch_first`, or (L,
    input_size), and the state (layers · directions, N, hidden_size), zeros by default. It returns the last
    layer's outputs, (L, N, directions · hidden_size), and the state at the end.

    Args:
        input_size, hidden_size: the sizes of an input and of a state.
        num_layers: how many layers are stacked.
        nonlinearity: 'tanh' or 'relu'.
        bias: whether there are `bias_ih` and `bias_hh`.
        batch_first: whether the batch is the first dimension of input and output (not of the state).
        dropout: the probability of dropout after each layer but the last.
        bidirectional: whether a second set of weights, named `_reverse`, runs from the end to the beginning.
        proj_size: an error, as only an `LSTM` has projections.

    Raises:
        ValueError: an option, the input's number of dimensions, or its dtype is wrong.
        RuntimeError: the sizes of the input or of the state are wrong.

    >>> import flambeau
    >>> from flambeau import nn
    >>> output, state = nn.RNN(10, 20, num_layers=2)(flambeau.zeros(5, 3, 10))
    >>> output.shape == (5, 3, 20), state.shape == (2, 3, 20)
    (True, True)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        proj_size: Any = None,
    ) -> None:
        _no_projection(proj_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            f"RNN_{nonlinearity.upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, (hidden,) = self._run(input, None if hx is None else (hx,))
        return output, hidden


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), projected if wanted (Sak et al., 2014).

    i, f, g, o = the four parts of W_ih·x + b_ih + W_hh·h + b_hh; c' = sigmoid(f)·c + sigmoid(i)·tanh(g);
    h' = sigmoid(o)·tanh(c'), times W_hr if `proj_size`. Shapes and other arguments are those of `RNN`; the
    state is a pair of h, of size `proj_size or hidden_size`, and c, of size `hidden_size`.

    Raises:
        RuntimeError: the last size is not `input_size`
        ValueError: `hidden_size` is not above 0

    >>> import flambeau
    >>> from flambeau import nn
    >>> output, (h, c) = nn.LSTM(10, 20, bidirectional=True)(flambeau.zeros(5, 3, 10))
    >>> output.shape == (5, 3, 40), c.shape == (2, 3, 20)
    (True, True)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        output, (hidden, cell) = self._run(input, None if hx is None else tuple(hx))
        return output, (hidden, cell)


class GRU(RNNBase):
    """The gated recurrent unit (Cho et al., 2014).

    r = sigmoid(x_r + h_r), z = sigmoid(x_z + h_z), n = tanh(x_n + r·h_n), h' = (1 - z)·n + z·h, where the x
    are the parts of W_ih·x + b_ih and the h those of W_hh·h + b_hh. Shapes and other arguments are those of
    `RNN`.

    Raises:
        RuntimeError: the last size is not `input_size`
        ValueError: `hidden_size` is not above 0

    >>> import flambeau
    >>> from flambeau import nn
    >>> output, state = nn.GRU(10, 20, batch_first=True)(flambeau.zeros(3, 5, 10))
    >>> output.shape == (3, 5, 20), state.shape == (1, 3, 20)
    (True, True)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        proj_size: Any = None,
    ) -> None:
        _no_projection(proj_size)
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, (hidden,) = self._run(input, None if hx is None else (hx,))
        return output, hidden


class RNNCellBase(Module):
    """What RNNCell, LSTMCell and GRUCell share; `num_chunks` is how many gates there are.

    Shape:
        weights: (num_chunks · hidden_size, input_size) and (num_chunks · hidden_size, hidden_size)

    Raises:
        TypeError: a size is no int

    >>> import flambeau
    >>> flambeau.nn.RNNCellBase(2, 3, True, 4).weight_ih.shape
    flambeau.Size([12, 2])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih = Parameter(empty((gates, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(empty((gates, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            value = Parameter(empty(gates, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters from U(-b, b), b = 1/sqrt(hidden_size)."""
        _reset_uniform(self)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            text += f", bias={self.bias}"
        return text

    def _step(self, mode: str, input: Tensor, state: State | None) -> State:
        """One step of a batch (N, input_size) or of a single input (input_size)."""
        kind = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{kind}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for i, part in enumerate(state or ()):
            if part.dim() not in (1, 2):
                what = f"hx[{i}]" if mode == "LSTM" else "hidden"
                raise ValueError(f"{kind}: Expected {what} to be 1D or 2D, got {part.dim()}D instead")
        single = input.dim() == 1
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"{kind}: input has inconsistent input_size: got {input.size(-1)} expected {self.input_size}"
            )
        x = input.unsqueeze(0) if single else input
        if state is None:
            start = zeros(x.size(0), self.hidden_size, dtype=x.dtype, device=x.device)
            state = (start, start) if mode == "LSTM" else (start,)
        elif single:
            state = tuple(part.unsqueeze(0) for part in state)
        for i, part in enumerate(state):
            if part.size(0) != x.size(0) or part.dim() != 2:
                raise RuntimeError(
                    f"{kind}: Input batch size {x.size(0)} doesn't match hidden{i} batch size {part.size(0)}"
                )
            if part.size(1) != self.hidden_size:
                raise RuntimeError(
                    f"{kind}: hidden{i} has inconsistent hidden_size: got {part.size(1)}, expected {self.hidden_size}"
                )
        weights = Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        state = step_once(mode, x, state, weights)
        return tuple(part.squeeze(0) for part in state) if single else state


class RNNCell(RNNCellBase):
    """One step of an `RNN`: `cell(x, h=None)` for x of shape (N, input_size) or (input_size) is the next h.

    Raises:
        RuntimeError: `nonlinearity` is neither 'tanh' nor 'relu'.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.RNNCell(10, 20)(flambeau.zeros(3, 10)).shape == (3, 20)
    True
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {nonlinearity}")
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(f"RNN_{self.nonlinearity.upper()}", input, None if hx is None else (hx,))[0]

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"


class LSTMCell(RNNCellBase):
    """One step of an `LSTM`: `cell(x, (h, c)=None)` is the next pair (h, c).

    Raises:
        RuntimeError: the last size is not `input_size`

    >>> import flambeau
    >>> from flambeau import nn
    >>> h, c = nn.LSTMCell(10, 20)(flambeau.zeros(3, 10))
    >>> h.shape == c.shape == (3, 20)
    True
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        hidden, cell = self._step("LSTM", input, None if hx is None else tuple(hx))
        return hidden, cell


class GRUCell(RNNCellBase):
    """One step of a `GRU`: `cell(x, h=None)` is the next h.

    Raises:
        RuntimeError: the last size is not `input_size`

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.GRUCell(10, 20)(flambeau.zeros(10)).shape == (20,)
    True
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("GRU", input, None if hx is None else (hx,))[0]
