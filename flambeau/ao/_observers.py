"""Observers: modules that watch tensors and tell the scale and zero point by which integers would hold them (Jacob et al. 2018)."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import by_name, without_tensors
from ..core.base.formats import qscheme as schemes
from ..core.make.create import zeros
from ..core.make.literal import tensor
from ..nn.modules.module import Module
from ..operations.pointwise.arithmetic import maximum, minimum, where
from ..operations.rows.reductions import aminmax

per_tensor_affine, per_tensor_symmetric = schemes.per_tensor_affine, schemes.per_tensor_symmetric
per_channel_affine, per_channel_symmetric = schemes.per_channel_affine, schemes.per_channel_symmetric
per_channel_affine_float_qparams = schemes.per_channel_affine_float_qparams
EPSILON = 2.0**-23  # of float32
PER_TENSOR = (per_tensor_affine, per_tensor_symmetric)
PER_CHANNEL = (per_channel_affine, per_channel_symmetric, per_channel_affine_float_qparams)
SYMMETRIC = (per_tensor_symmetric, per_channel_symmetric)
qint8, quint8, qint32 = (without_tensors[name] for name in ("qint8", "quint8", "qint32"))
_LIMITS = {  # of the integers that a dtype stands for
    "qint8": (-128, 127), "int8": (-128, 127), "quint8": (0, 255), "uint8": (0, 255), "quint4x2": (0, 15),
    "qint32": (-(2**31), 2**31 - 1), "int32": (-(2**31), 2**31 - 1), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1),
}  # fmt: skip


def limits(dtype: Any) -> tuple[int, int]:
    """The least and the largest integer that a dtype holds, also a quantised one."""
    return _LIMITS[dtype.name]


class Partial:
    """A constructor with some of its arguments: `with_args` adds others."""

    def __init__(self, p: partial) -> None:
        self.p = p

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.p(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self.p)

    def with_args(self, **kwargs: Any) -> Partial:
        """The same with more arguments."""
        return Partial(partial(self.p, **kwargs))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partial):
            return NotImplemented
        return (self.p.func, self.p.args, self.p.keywords) == (other.p.func, other.p.args, other.p.keywords)

    def __hash__(self) -> int:
        return hash((self.p.func, self.p.args, tuple(sorted(self.p.keywords))))


class Constructible(Module):
    """A module whose class makes constructors with some arguments."""

    @classmethod
    def with_args(cls, **kwargs: Any) -> Partial:
        """A constructor that is called with these arguments, and those of the call."""
        return Partial(partial(cls, **kwargs))


class ObserverBase(Constructible):
    """What all observers have: `dtype`, of the integers, `is_dynamic`, and `calculate_qparams`.

    Shape:
        input: any; the result is the input

    Raises:
        NotImplementedError: `forward` or `calculate_qparams` of this class itself.

    >>> from flambeau.ao.quantization import MinMaxObserver, ObserverBase
    >>> issubclass(MinMaxObserver, ObserverBase)
    True
    """

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say what it observes")

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Scale and zero point."""
        raise NotImplementedError(f"{type(self).__name__} has no scale")


class PlaceholderObserver(ObserverBase):
    """Watches nothing: says the dtype by which a tensor is to be held, where its scale is computed at each call.

    Shape:
        input: any; the result is the input

    Raises:
        Exception: `calculate_qparams`, which it has not.

    >>> import flambeau
    >>> from flambeau.ao.quantization import PlaceholderObserver
    >>> PlaceholderObserver(flambeau.float16)
    PlaceholderObserver(dtype=flambeau.float16, is_dynamic=False)
    """

    def __init__(
        self,
        dtype: Any = by_name["float32"],
        custom_op_name: str = "",
        compute_dtype: Any = None,
        quant_min: int | None = None,
        quant_max: int | None = None,
        qscheme: Any = None,
        eps: float | None = None,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype, is_dynamic or compute_dtype is not None)
        self.custom_op, self.quant_min, self.quant_max = custom_op_name, quant_min, quant_max
        self.qscheme = per_tensor_affine if qscheme is None else qscheme
        self.eps = EPSILON if eps is None else eps

    def forward(self, x: Tensor) -> Tensor:
        return x

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """An Exception: nothing is watched."""
        raise Exception("calculate_qparams should not be called for PlaceholderObserver")  # noqa: TRY002


class UniformQuantizationObserverBase(ObserverBase):
    """What observers of a least and a largest number have: integers from `quant_min` to `quant_max`, evenly apart.

    Args:
        dtype: quint8, qint8, quint4x2, qint32, or an integer dtype.
        qscheme: whether zero lies in the middle, and whether each channel has its own scale.
        reduce_range: integers of one bit less.
        quant_min, quant_max: the integers, both or neither.
        eps: the least scale.

    Shape:
        input: any; the result is the input

    Raises:
        AssertionError: a dtype or a scheme that has no such integers, or a range that is empty or without zero.
        NotImplementedError: `reduce_range` of a symmetric quint8.

    >>> import flambeau
    >>> from flambeau.ao.quantization import MinMaxObserver
    >>> MinMaxObserver(dtype=flambeau.qint8).quant_min
    -128
    """

    min_val: Tensor
    max_val: Tensor
    eps: Tensor

    def __init__(
        self,
        dtype: Any = quint8,
        qscheme: Any = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict | None = None,
        eps: float = EPSILON,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype, is_dynamic, **kwargs)
        name = type(self).__name__
        if dtype.name not in _LIMITS:
            raise AssertionError(f"{name}: dtype must be one of {', '.join(_LIMITS)}, got {dtype}")
        if qscheme not in (*PER_TENSOR, *PER_CHANNEL):
            raise AssertionError(f"{name}: qscheme must be per tensor or per channel, got {qscheme}")
        if reduce_range:
            warnings.warn(
                "Please use quant_min and quant_max to specify the range for observers. reduce_range will be deprecated in a future "
                "release of PyTorch.",
                stacklevel=3,
            )
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        low, high = limits(dtype)
        if quant_min is not None and quant_max is not None:
            if not quant_min <= 0 <= quant_max or quant_min >= quant_max:
                raise AssertionError(
                    f"{name}: quant_min and quant_max must hold 0 and another integer, got {quant_min} and {quant_max}"
                )
            if dtype.name in ("qint8", "int8") and quant_max - quant_min > 255:
                raise AssertionError(
                    f"{name}: quantization range must not exceed 256, got {quant_max - quant_min + 1}"
                )
            low, high = quant_min, quant_max
        halved = reduce_range and (
            self.has_customized_qrange or dtype.name.removeprefix("q") in ("int8", "uint8")
        )
        self.quant_min, self.quant_max = (low // 2, high // 2) if halved else (low, high)
        self.register_buffer("eps", tensor([eps], **(factory_kwargs or {})))

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Scale, float32, and zero point, of one element or one for each channel."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def _calculate_qparams(self, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        if not least.numel() or (least.numel() == 1 and least == float("inf") and most == -float("inf")):
            warnings.warn(
                "must run observer before calling calculate_qparams. Returning default values.", stacklevel=3
            )
            return tensor([1.0], device=least.device), tensor([0], device=least.device)
        if bool((least > most).any()):
            raise AssertionError(f"min {least} should be less than max {most}")
        steps = float(self.quant_max - self.quant_min)
        low, high = (
            minimum(least, zeros((), device=least.device)),
            maximum(most, zeros((), device=most.device)),
        )
        if self.qscheme is per_channel_affine_float_qparams:
            scale = (most - least) / steps
            scale = where(scale > self.eps, scale, scale.new_ones(scale.shape))
            return scale, -1 * least / scale
        if self.qscheme in SYMMETRIC:
            scale = maximum(maximum(-low, high) / (steps / 2), self.eps)
            return scale, scale.new_full(scale.shape, self._middle(), dtype=by_name["int64"])
        scale = maximum((high - low) / steps, self.eps)
        zero_point = self.quant_min - (low / scale).round().to(by_name["int32"])
        return scale, zero_point.clamp(self.quant_min, self.quant_max)

    def _middle(self) -> int:
        """The zero point of a symmetric scheme."""
        if self.dtype.name in ("quint8", "uint8"):
            return (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128
        return 2**15 if self.dtype.name == "uint16" else 0

    def _extremes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the largest number of x, or of each channel."""
        raise NotImplementedError

    def _with(self, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        """What is known with these."""
        return minimum(least, self.min_val), maximum(most, self.max_val)

    def _unknown(self) -> bool:
        """Whether nothing was watched yet."""
        return not self.min_val.numel() or not self.max_val.numel()

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            least, most = self._extremes(x_orig.detach().to(self.min_val.dtype))
            if not self._unknown():
                least, most = self._with(least, most)
            for buffer, new in ((self.min_val, least), (self.max_val, most)):
                buffer.resize_(new.shape).copy_(new)
        return x_orig

    def reset_min_max_vals(self) -> None:
        """Forget what was watched."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"min_val={_shown(self.min_val)}, max_val={_shown(self.max_val)}"

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *rest: Any) -> None:
        for name in ("min_val", "max_val"):
            if (given := state_dict.get(prefix + name)) is not None:
                getattr(self, name).resize_(given.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _shown(t: Tensor) -> Any:
    return t.item() if t.ndim == 0 else t


def _check_reduced(dtype: Any, qscheme: Any, reduce_range: bool) -> None:
    """NotImplementedError for what observers of least and largest numbers refuse; one of histograms takes it."""
    if reduce_range and qscheme in SYMMETRIC and dtype is quint8:
        raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")


class MinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest number of all tensors that went through.

    Args:
        as of `UniformQuantizationObserverBase`; `qscheme` is per tensor.

    Shape:
        input: any; the result is the input

    Raises:
        NotImplementedError: a scheme per channel, or `reduce_range` of a symmetric quint8.

    >>> import flambeau
    >>> from flambeau.ao.quantization import MinMaxObserver
    >>> observer = MinMaxObserver()
    >>> _ = observer(flambeau.tensor([-1.0, 0.5, 4.1]))
    >>> observer.calculate_qparams()
    (tensor([0.0200]), tensor([50], dtype=flambeau.int32))
    """

    def __init__(
        self,
        dtype: Any = quint8,
        qscheme: Any = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict | None = None,
        eps: float = EPSILON,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        name = type(self).__name__
        if qscheme not in PER_TENSOR:
            raise NotImplementedError(f"{name}: qscheme must be per tensor, got {qscheme}")
        _check_reduced(dtype, qscheme, reduce_range)
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs
        )
        self.register_buffer("min_val", tensor(float("inf"), **(factory_kwargs or {})))
        self.register_buffer("max_val", tensor(-float("inf"), **(factory_kwargs or {})))

    def _extremes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return aminmax(x)

    def reset_min_max_vals(self) -> None:
        """Forget what was watched."""
        self.min_val.fill_(float("inf"))
        self.max_val.fill_(-float("inf"))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Averages of the least and the largest numbers: each is moved by `averaging_constant` of its distance to the new one.

    Args:
        averaging_constant: from 0 to 1; the rest as of `MinMaxObserver`.

    Shape:
        input: any; the result is the input

    Raises:
        NotImplementedError: a scheme per channel, or `is_dynamic` with another constant than 1.

    >>> import flambeau
    >>> from flambeau.ao.quantization import MovingAverageMinMaxObserver
    >>> observer = MovingAverageMinMaxObserver(averaging_constant=0.5)
    >>> for top in (1.0, 2.0):
    ...     _ = observer(flambeau.tensor([0.0, top]))
    >>> observer
    MovingAverageMinMaxObserver(min_val=0.0, max_val=1.5)
    """

    def __init__(
        self,
        averaging_constant: float = 0.01,
        dtype: Any = quint8,
        qscheme: Any = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPSILON,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError(
                f"{type(self).__name__}: is_dynamic needs an averaging_constant of 1, got {averaging_constant}"
            )
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs
        )
        self.averaging_constant = averaging_constant

    def _unknown(self) -> bool:
        return bool(self.min_val == float("inf")) and bool(self.max_val == -float("inf"))

    def _with(self, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        return _moved(self, least, most)


def _moved(self: Any, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
    part = self.averaging_constant
    return self.min_val + part * (least - self.min_val), self.max_val + part * (most - self.max_val)


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest number of each channel, which is an index of dimension `ch_axis`.

    Args:
        ch_axis: the dimension; the rest as of `UniformQuantizationObserverBase`, with a scheme per channel.

    Shape:
        input: any; the result is the input

    Raises:
        NotImplementedError: a scheme per tensor, or `is_dynamic`.

    >>> import flambeau
    >>> from flambeau.ao.quantization import PerChannelMinMaxObserver
    >>> observer = PerChannelMinMaxObserver(qscheme=flambeau.per_channel_symmetric, dtype=flambeau.qint8)
    >>> _ = observer(flambeau.tensor([[1.0, -2.0], [0.0, 0.5]]))
    >>> observer.calculate_qparams()
    (tensor([0.0157, 0.0039]), tensor([0, 0]))
    """

    def __init__(
        self,
        ch_axis: int = 0,
        dtype: Any = quint8,
        qscheme: Any = per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict | None = None,
        eps: float = EPSILON,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        name = type(self).__name__
        if qscheme not in PER_CHANNEL:
            raise NotImplementedError(f"{name}: qscheme must be per channel, got {qscheme}")
        if is_dynamic:
            raise NotImplementedError(f"{name} doesn't support dynamic quantization")
        _check_reduced(dtype, qscheme, reduce_range)
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs
        )
        self.ch_axis = ch_axis
        self.register_buffer("min_val", tensor([], **(factory_kwargs or {})))
        self.register_buffer("max_val", tensor([], **(factory_kwargs or {})))

    def _extremes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return aminmax(x.movedim(self.ch_axis, 0).flatten(1) if x.ndim > 1 else x.unsqueeze(1), dim=1)

    def reset_min_max_vals(self) -> None:
        """Forget what was watched."""
        self.min_val, self.max_val = (t.new_empty((0,)) for t in (self.min_val, self.max_val))


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Averages of the least and the largest numbers of each channel, as of `MovingAverageMinMaxObserver`.

    Args:
        averaging_constant: from 0 to 1; the rest as of `PerChannelMinMaxObserver`.

    Shape:
        input: any; the result is the input

    Raises:
        NotImplementedError: a scheme per tensor, or `is_dynamic`.

    >>> import flambeau
    >>> from flambeau.ao.quantization import MovingAveragePerChannelMinMaxObserver
    >>> observer = MovingAveragePerChannelMinMaxObserver(averaging_constant=0.5)
    >>> for top in (1.0, 2.0):
    ...     _ = observer(flambeau.tensor([[0.0, top]]))
    >>> observer.max_val
    tensor([1.5000])
    """

    def __init__(
        self,
        averaging_constant: float = 0.01,
        ch_axis: int = 0,
        dtype: Any = quint8,
        qscheme: Any = per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPSILON,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            ch_axis,
            dtype,
            qscheme,
            reduce_range,
            quant_min,
            quant_max,
            eps=eps,
            is_dynamic=is_dynamic,
            **kwargs,
        )
        self.averaging_constant = averaging_constant

    def _with(self, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        return _moved(self, least, most)


class NoopObserver(ObserverBase):
    """Watches nothing, and has no scale.

    Args:
        dtype: by which a tensor is to be held.

    Shape:
        input: any; the result is the input

    Raises:
        Exception: `calculate_qparams`, which it has not.

    >>> import flambeau
    >>> from flambeau.ao.quantization import NoopObserver
    >>> NoopObserver().dtype
    flambeau.float16
    """

    def __init__(self, dtype: Any = by_name["float16"], custom_op_name: str = "") -> None:
        super().__init__(dtype)
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """An Exception: nothing is watched."""
        raise Exception("calculate_qparams should not be called for NoopObserver")  # noqa: TRY002


class ReuseInputObserver(ObserverBase):
    """Stands for the observer of an operation's input, which a graph gives the result too; see `quantize_fx`.

    Shape:
        input: any; the result is the input

    Raises:
        Exception: `calculate_qparams`, which it has not.

    >>> from flambeau.ao.quantization import ReuseInputObserver
    >>> ReuseInputObserver().dtype
    flambeau.quint8
    """

    def __init__(self) -> None:
        super().__init__(quint8)

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """An Exception: it stands for another."""
        raise Exception("calculate_qparams should not be called for ReuseInputObserver")  # noqa: TRY002


class FixedQParamsObserver(ObserverBase):
    """Watches nothing: a scale and a zero point that are given, for what lies in a known range.

    Args:
        scale, zero_point: numbers, which become buffers of one element.

    Shape:
        input: any; the result is the input

    Raises:
        NotImplementedError: `is_dynamic`.

    >>> from flambeau.ao.quantization import FixedQParamsObserver
    >>> FixedQParamsObserver(0.5, 3).calculate_qparams()
    (tensor([0.5000]), tensor([3], dtype=flambeau.int32))
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        scale: float,
        zero_point: int,
        dtype: Any = quint8,
        qscheme: Any = per_tensor_affine,
        quant_min: int = 0,
        quant_max: int = 255,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype, **kwargs)
        self.qscheme, self.quant_min, self.quant_max = qscheme, quant_min, quant_max
        self.register_buffer("scale", tensor([scale], dtype=by_name["float32"]))
        self.register_buffer("zero_point", tensor([zero_point], dtype=by_name["int32"]))

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """What was given."""
        return self.scale, self.zero_point


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_weight_observer = MinMaxObserver.with_args(dtype=qint8, qscheme=per_tensor_symmetric)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_placeholder_observer = PlaceholderObserver
default_reuse_input_observer = ReuseInputObserver
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=quint8, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=without_tensors["quint4x2"], qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=quint8, quant_min=0, quant_max=255
)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=qint8, qscheme=per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
