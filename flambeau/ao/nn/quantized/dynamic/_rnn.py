"""Recurrent layers by weights of int8.

The products by the input of a layer are made for the whole sequence at once, which is rounded by one scale; those by the state at
each step, by the state's own scale.  Both are PyTorch's choices, and so the numbers are.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .....core.base.dtypes import by_name
from .....core.make.create import zeros
from .....core.places.join import cat, stack
from .....nn.modules import rnn as floats
from .....nn.modules.module import Module
from .....nn.utils.rnn import PackedSequence
from .....operations.declare.registry import published
from ...._integers import LinearParams
from ...quantized._linear import blank
from ._linear import coded

_float = by_name["float32"]
_dropout = published("nn.functional")["dropout"]


# --- one step: gates by the input, a product by the state, and the state ------------------------------
def _lstm(given: Any, params: LinearParams, state: tuple) -> tuple:
    h, c = state
    i, f, g, o = (given + params.run_dynamic(h)).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(given: Any, params: LinearParams, state: tuple) -> tuple:
    (h,) = state
    x, y = given.chunk(3, 1), params.run_dynamic(h).chunk(3, 1)
    reset, update = (x[0] + y[0]).sigmoid(), (x[1] + y[1]).sigmoid()
    new = (x[2] + reset * y[2]).tanh()
    return ((h - new) * update + new,)


def _tanh(given: Any, params: LinearParams, state: tuple) -> tuple:
    return ((given + params.run_dynamic(state[0])).tanh(),)


def _relu(given: Any, params: LinearParams, state: tuple) -> tuple:
    return ((given + params.run_dynamic(state[0])).relu(),)


class _Coded(Module):
    """A module of weights in codes, by the names that the float layer has for them; its state holds them under these."""

    _gates: ClassVar[int]
    _step: ClassVar[Any]
    _states: ClassVar[int] = 1  # tensors of a state

    def __init__(self) -> None:
        super().__init__()
        self._params: dict[str, LinearParams] = {}

    def _blank(self, name: str, rows: int, columns: int, bias: bool) -> None:
        self._params[name] = LinearParams(blank((rows, columns)), zeros(rows) if bias else None)

    def _take(self, mod: Any) -> None:
        """The weights of a float layer with a configuration."""
        for name in self._params:
            weight = coded(self._get_name(), getattr(mod, f"weight_{name}"), mod.qconfig)
            self._params[name] = LinearParams(weight, getattr(mod, f"bias_{name}") if mod.bias else None)

    def get_weight(self) -> dict[str, Any]:
        """The weights, quantised, by name."""
        return {f"weight_{name}": p.weight for name, p in self._params.items()}

    def get_bias(self) -> dict[str, Any]:
        """The biases in float32, by name."""
        return {f"bias_{name}": p.bias for name, p in self._params.items()}

    def set_weight_bias(self, weight_bias_dict: dict[str, Any]) -> None:
        """Take weights of qint8 and biases, by name."""
        self._params = {
            name: LinearParams(weight_bias_dict[f"weight_{name}"], weight_bias_dict[f"bias_{name}"])
            for name in self._params
        }

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, t in {**self.get_weight(), **self.get_bias()}.items():
            destination[prefix + name] = t

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        metadata: Any,
        strict: bool,
        missing: list,
        unexpected: list,
        errors: list,
    ) -> None:
        wanted = [f"{what}_{name}" for name in self._params for what in ("weight", "bias")]
        lacking = [name for name in wanted if prefix + name not in state_dict]
        if not lacking:
            self.set_weight_bias({name: state_dict.pop(prefix + name) for name in wanted})
        elif strict:
            missing.extend(prefix + name for name in lacking)
        super()._load_from_state_dict(state_dict, prefix, metadata, False, missing, unexpected, errors)

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"

    def _checked(self, input: Any, dims: tuple[int, ...]) -> None:
        if input.dtype is not _float or input.ndim not in dims or input.shape[-1] != self.input_size:  # type: ignore[attr-defined]
            raise RuntimeError(
                f"{self._get_name()}: expected input of {' or '.join(map(str, dims))} dimensions, the last of {self.input_size}, in "
                f"float32, got {list(input.shape)} in {input.dtype}"
            )


class _RNNBase(_Coded):
    """Layers over sequences."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers, self.bias = (
            input_size,
            hidden_size,
            num_layers,
            bias,
        )
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        rows = self._gates * hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * (2 if bidirectional else 1)
            for end in ("", "_reverse")[: 1 + bidirectional]:
                self._blank(f"ih_l{layer}{end}", rows, width, bias)
                self._blank(f"hh_l{layer}{end}", rows, hidden_size, bias)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0.0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            data, sizes, order, back = input
            self._checked(data, (2,))
            result, state = self._layers(data, sizes.tolist(), self._start(hx, int(sizes[0]), order, False))
            state = tuple(s if back is None else s.index_select(1, back) for s in state)
            return PackedSequence(result, sizes, order, back), self._given_back(state, False)
        self._checked(input, (2, 3))
        alone = input.ndim == 2
        x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
        steps, batch = x.shape[:2]
        start = self._start(hx, batch, None, alone)
        result, state = self._layers(x.reshape(-1, x.shape[2]), [batch] * steps, start)
        result = result.reshape(steps, batch, result.shape[1])
        result = result.squeeze(1) if alone else result.transpose(0, 1) if self.batch_first else result
        return result, self._given_back(state, alone)

    def _start(self, hx: Any, batch: int, order: Any, alone: bool) -> list[Any]:
        """The tensors of the state at the start, each (layers · directions, batch, hidden_size)."""
        size = (self.num_layers * (1 + self.bidirectional), batch, self.hidden_size)
        if hx is None:
            return [zeros(size) for _ in range(self._states)]
        given = list(hx) if self._states > 1 else [hx]
        given = [h.unsqueeze(1) if alone else h for h in given]
        for h in given:
            if tuple(h.shape) != size:
                raise RuntimeError(f"Expected hidden size {size}, got {list(h.shape)}")
        return [h if order is None else h.index_select(1, order) for h in given]

    def _given_back(self, state: tuple, alone: bool) -> Any:
        state = tuple(s.squeeze(1) for s in state) if alone else state
        return state if self._states > 1 else state[0]

    def _layers(self, x: Any, sizes: list[int], start: list[Any]) -> tuple[Any, tuple]:
        """The results of all steps, one batch after the other, and the tensors of the state at the end."""
        ends, at = [], 0
        for layer in range(self.num_layers):
            results = []
            for end in ("", "_reverse")[: 1 + self.bidirectional]:
                state = tuple(s[at] for s in start)
                result, last = self._direction(x, sizes, state, f"l{layer}{end}", bool(end))
                results.append(result)
                ends.append(last)
                at += 1
            x = results[0] if len(results) == 1 else cat(results, 1)
            if self.dropout and self.training and layer + 1 < self.num_layers:
                x = _dropout(x, self.dropout, True)
        return x, tuple(stack(parts) for parts in zip(*ends))

    def _direction(
        self, x: Any, sizes: list[int], state: tuple, name: str, reverse: bool
    ) -> tuple[Any, tuple]:
        """One layer in one direction; batches are of falling sizes, sequences that are over keep their last state."""
        given = self._params[f"ih_{name}"].run_dynamic(x).split(sizes) if sizes else ()
        params, step = self._params[f"hh_{name}"], type(self)._step
        results: list[Any] = [None] * len(sizes)
        for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
            n = sizes[t]
            new = step(given[t], params, tuple(s[:n] for s in state))
            state = tuple(cat([a, s[n:]]) if n < s.shape[0] else a for a, s in zip(new, state))
            results[t] = new[0]
        return (cat(results) if results else x.new_empty((0, self.hidden_size))), state

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer of one with a configuration; TypeError, ValueError and NotImplementedError for what does not fit."""
        if getattr(mod, "proj_size", 0):
            raise NotImplementedError(
                f"DynamicQuantized{cls.__name__}: proj_size must be 0, got {mod.proj_size}"
            )
        made = cls(
            mod.input_size,
            mod.hidden_size,
            mod.num_layers,
            mod.bias,
            mod.batch_first,
            mod.dropout,
            mod.bidirectional,
        )
        made._take(mod)
        return made


class LSTM(_RNNBase):
    """`nn.LSTM` of float32 by weights of int8; `ao.quantization.quantize_dynamic` makes it of an `LSTM`.

    It is not trained, and has no gradient.  The state holds weights in codes under the names of `nn.LSTM`; PyTorch's own files of this
    layer hold objects of its compiled classes, which are not read.

    Args:
        as of `nn.LSTM`, without `proj_size`.

    Shape:
        input and results: as of `nn.LSTM`

    Raises:
        RuntimeError: an input or a state of another dtype or shape, or one that is not finite

    >>> import flambeau
    >>> from flambeau.ao.quantization import quantize_dynamic
    >>> layer = quantize_dynamic(flambeau.nn.Sequential(flambeau.nn.LSTM(8, 4)))[0]
    >>> layer, layer(flambeau.ones(5, 2, 8))[0].shape
    (DynamicQuantizedLSTM(8, 4), flambeau.Size([5, 2, 4]))
    """

    _gates, _states, _step = 4, 2, staticmethod(_lstm)


class GRU(_RNNBase):
    """`nn.GRU` of float32 by weights of int8; see `LSTM`.

    Args:
        as of `nn.GRU`.

    Shape:
        input and results: as of `nn.GRU`

    Raises:
        RuntimeError: an input or a state of another dtype or shape, or one that is not finite

    >>> import flambeau
    >>> from flambeau.ao.quantization import quantize_dynamic
    >>> layer = quantize_dynamic(flambeau.nn.Sequential(flambeau.nn.GRU(8, 4)))[0]
    >>> layer, layer(flambeau.ones(5, 2, 8))[0].shape
    (DynamicQuantizedGRU(8, 4), flambeau.Size([5, 2, 4]))
    """

    _gates, _step = 3, staticmethod(_gru)


class _Cell(_Coded):
    """One step."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self._blank("ih", self._gates * hidden_size, input_size, bias)
        self._blank("hh", self._gates * hidden_size, hidden_size, bias)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")

    def forward(self, input: Any, hx: Any = None) -> Any:
        self._checked(input, (1, 2))
        x = input.reshape(-1, self.input_size)
        size = (*input.shape[:-1], self.hidden_size)
        given = [zeros(size)] * self._states if hx is None else list(hx) if self._states > 1 else [hx]
        for h in given:
            if tuple(h.shape) != size:
                raise RuntimeError(
                    f"{self._get_name()}: expected a state of shape {list(size)}, got {list(h.shape)}"
                )
        rows = tuple(h.reshape(-1, self.hidden_size) for h in given)
        new = tuple(
            s.reshape(size) for s in self._step(self._params["ih"].run_dynamic(x), self._params["hh"], rows)
        )
        return new if self._states > 1 else new[0]

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The cell of one with a configuration; TypeError and ValueError for what does not fit."""
        given = (mod.input_size, mod.hidden_size, mod.bias)
        made = cls(*given, mod.nonlinearity) if isinstance(mod, floats.RNNCell) else cls(*given)  # type: ignore[call-arg]
        made._take(mod)
        return made


class LSTMCell(_Cell):
    """`nn.LSTMCell` of float32 by weights of int8; see `LSTM`.

    Args:
        as of `nn.LSTMCell`.

    Shape:
        input and results: as of `nn.LSTMCell`

    Raises:
        RuntimeError: an input or a state of another dtype or shape, or one that is not finite

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized.dynamic import LSTMCell
    >>> h, c = LSTMCell(8, 4)(flambeau.ones(2, 8))
    >>> h.shape
    flambeau.Size([2, 4])
    """

    _gates, _states, _step = 4, 2, staticmethod(_lstm)


class GRUCell(_Cell):
    """`nn.GRUCell` of float32 by weights of int8; see `LSTM`.

    Args:
        as of `nn.GRUCell`.

    Shape:
        input and result: as of `nn.GRUCell`

    Raises:
        RuntimeError: an input or a state of another dtype or shape, or one that is not finite

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized.dynamic import GRUCell
    >>> GRUCell(8, 4)(flambeau.ones(2, 8)).shape
    flambeau.Size([2, 4])
    """

    _gates, _step = 3, staticmethod(_gru)


class RNNCell(_Cell):
    """`nn.RNNCell` of float32 by weights of int8; see `LSTM`.

    Args:
        as of `nn.RNNCell`.

    Shape:
        input and result: as of `nn.RNNCell`

    Raises:
        ValueError: another nonlinearity than "tanh" and "relu"
        RuntimeError: an input or a state of another dtype or shape, or one that is not finite

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized.dynamic import RNNCell
    >>> RNNCell(8, 4)(flambeau.ones(2, 8)).shape
    flambeau.Size([2, 4])
    """

    _gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh"
    ) -> None:
        super().__init__(input_size, hidden_size, bias)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNNCell: nonlinearity must be tanh or relu, got {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    @property
    def _step(self) -> Any:  # type: ignore[override]
        return _tanh if self.nonlinearity == "tanh" else _relu
