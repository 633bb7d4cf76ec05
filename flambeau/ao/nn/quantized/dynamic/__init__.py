"""Layers of float32 by weights of int8, which round their input at each call (`ao.quantization.quantize_dynamic`)."""

from ._linear import Linear
from ._rnn import GRU, LSTM, GRUCell, LSTMCell, RNNCell

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "Linear", "RNNCell"]
