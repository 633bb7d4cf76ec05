"""Linear layers whose weights are integers of eight bits and whose input is rounded to such integers at each call."""

from __future__ import annotations

import copy
import math
from typing import Any

from .._tensor import Tensor
from ..autograd import no_grad
from ..core.base.dtypes import by_name
from ..nn.modules.linear import Linear
from ..nn.modules.module import Module
from ..nn.modules.rnn import GRU, LSTM, GRUCell, LSTMCell, RNNCell
from ..operations.linalg.quantised import _weight_int8pack_mm
from ..operations.neural.quantizing import fake_quantize_per_tensor_affine
from ..operations.rows.reductions import aminmax
from ._dynamic_range import qparams_of
from ._fake_quantize import QConfig, default_dynamic_qconfig
from ._observers import qint8

_RECURRENT = (LSTM, GRU, LSTMCell, RNNCell, GRUCell)


class DynamicQuantizedLinear(Module):
    """A linear layer of float32 by a weight of int8; `quantize_dynamic` makes it of a `Linear`.

    Each call rounds its input to integers from 0 to 127, whose scale and zero point are those of the whole tensor, and multiplies
    these by the codes.  Its `codes`, `scales` (of each row) and `bias` are buffers: it is not trained.

    Args:
        linear: of float32.
        qconfig: whose weight is an observer of qint8 with a symmetric scheme.

    Shape:
        input: (…, in_features); the result is (…, out_features)

    Raises:
        TypeError: another dtype.
        ValueError: another observer.

    >>> import flambeau
    >>> from flambeau.ao.quantization import quantize_dynamic
    >>> layer = quantize_dynamic(flambeau.nn.Sequential(flambeau.nn.Linear(8, 4)))[0]
    >>> layer(flambeau.ones(2, 8)).shape, layer.codes.dtype
    (flambeau.Size([2, 4]), flambeau.int8)
    """

    codes: Tensor
    scales: Tensor

    def __init__(self, linear: Linear, qconfig: QConfig = default_dynamic_qconfig) -> None:
        super().__init__()
        weight = linear.weight.detach()
        if weight.dtype is not by_name["float32"]:
            raise TypeError(f"DynamicQuantizedLinear: expected a float32 weight, got {weight.dtype}")
        self.out_features, self.in_features = weight.shape
        observer = qconfig.weight()
        if observer.dtype is not qint8:
            raise ValueError(
                f"DynamicQuantizedLinear: expected an observer of qint8 for the weight, got {observer.dtype}"
            )
        with no_grad():
            observer(weight)
            scales, zeros = observer.calculate_qparams()
            if bool((zeros != 0).any()):
                raise ValueError("DynamicQuantizedLinear: expected a symmetric scheme for the weight")
            codes = (
                (weight * (1.0 / scales).reshape(-1, 1)).round().clamp(observer.quant_min, observer.quant_max)
            )
        self.qscheme = observer.qscheme
        self.register_buffer("codes", codes.to(by_name["int8"]))
        self.register_buffer("scales", scales.expand(self.out_features).contiguous())
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1:] != (self.in_features,) or x.dtype is not by_name["float32"]:
            raise RuntimeError(
                f"DynamicQuantizedLinear: expected input of shape (…, {self.in_features}) in float32, got {list(x.shape)} in {x.dtype}"
            )
        rows = x.detach().reshape(-1, self.in_features)
        if rows.numel():
            least, most = (t.item() for t in aminmax(rows))
            if not math.isfinite(most - least):
                raise RuntimeError(
                    f"DynamicQuantizedLinear: expected finite input, got numbers from {least} to {most}"
                )
            scale, zero_point = qparams_of(least, most, 0, 127)
            rows = fake_quantize_per_tensor_affine(rows, scale, zero_point, 0, 127)
        result = _weight_int8pack_mm(rows, self.codes, self.scales)
        result = result if self.bias is None else result + self.bias
        return result.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, dtype={qint8}, qscheme={self.qscheme}"


def quantize_dynamic(
    model: Module,
    qconfig_spec: Any = None,
    dtype: Any = qint8,
    mapping: dict | None = None,
    inplace: bool = False,
) -> Module:
    """A copy of `model` whose linear layers multiply integers: weights rounded once, inputs at each call.

    Args:
        qconfig_spec: a set of classes and of dotted names, or a dict from these to `QConfig` or None; what is said of a module holds
            for those below it. By default all linear layers.
        dtype: qint8.
        mapping: None.
        inplace: whether `model` itself is changed.

    Raises:
        NotImplementedError: another dtype, a mapping of one's own, or a recurrent layer that is chosen, as all are by default.
        ValueError: the model itself is a `Linear`, or a configuration that does not fit.

    >>> import flambeau
    >>> from flambeau.ao.quantization import quantize_dynamic
    >>> quantize_dynamic(flambeau.nn.Sequential(flambeau.nn.Linear(8, 4)), {flambeau.nn.Linear})
    Sequential(
      (0): DynamicQuantizedLinear(in_features=8, out_features=4, dtype=flambeau.qint8, qscheme=flambeau.per_tensor_symmetric)
    )
    """
    if mapping is not None:
        raise NotImplementedError("quantize_dynamic(): mapping is not here")
    if dtype is not qint8:
        raise NotImplementedError(f"quantize_dynamic(): dtype must be qint8, got {dtype}")
    if qconfig_spec is None:
        qconfig_spec = {Linear, *_RECURRENT}
    spec = (
        dict(qconfig_spec)
        if isinstance(qconfig_spec, dict)
        else dict.fromkeys(qconfig_spec, default_dynamic_qconfig)
    )
    model = model if inplace else copy.deepcopy(model)
    chosen: dict[Module, DynamicQuantizedLinear] = {}
    places: list[tuple[Module, str, DynamicQuantizedLinear]] = []

    def visit(owner: Module | None, last: str, module: Module, name: str, above: QConfig | None) -> None:
        qconfig = spec.get(name, spec.get(type(module), above))
        if qconfig is not None and type(module) in _RECURRENT:
            raise NotImplementedError(
                f"quantize_dynamic(): {name or 'the model'} is a {type(module).__name__}, whose integer form is not here; qconfig_spec "
                "={nn.Linear} chooses linear layers alone"
            )
        if qconfig is not None and type(module) is Linear:
            if owner is None:
                raise ValueError("quantize_dynamic(): the model itself is a Linear, which cannot be replaced")
            if module not in chosen:
                try:
                    chosen[module] = DynamicQuantizedLinear(module, qconfig).train(module.training)
                except (TypeError, ValueError) as error:
                    raise type(error)(f"quantize_dynamic(): {name}: {error}") from None
            places.append((owner, last, chosen[module]))
        for child, below in module._modules.items():
            if below is not None:
                visit(module, child, below, f"{name}.{child}".lstrip("."), qconfig)

    visit(None, "", model, "", None)
    for owner, last, layer in places:
        setattr(owner, last, layer)
    return model
