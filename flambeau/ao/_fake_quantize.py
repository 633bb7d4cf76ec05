"""Training with rounded numbers: modules that round as integers would, by what an observer has seen (Jacob et al. 2018, section 3)."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import by_name, without_tensors
from ..core.make.literal import tensor
from ..nn.modules.module import Module
from ..operations.neural.quantizing import fake_quantize_per_channel_affine, fake_quantize_per_tensor_affine
from ._observers import (
    PER_CHANNEL,
    Constructible,
    FixedQParamsObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    limits,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    qint8,
    quint8,
)


class FakeQuantizeBase(Constructible):
    """What all have: switches of one element, `fake_quant_enabled` and `observer_enabled`, which are saved.

    Shape:
        input: any; the result has the same

    Raises:
        NotImplementedError: `forward` and `calculate_qparams` of this class itself.

    >>> from flambeau.ao.quantization import FakeQuantize, FakeQuantizeBase
    >>> issubclass(FakeQuantize, FakeQuantizeBase)
    True
    """

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("fake_quant_enabled", "observer_enabled"):
            self.register_buffer(name, tensor([1], dtype=by_name["uint8"]))

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say how it rounds")

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Scale and zero point."""
        raise NotImplementedError(f"{type(self).__name__} has no scale")

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Round from now on, or not."""
        self.fake_quant_enabled[0] = int(enabled)

    def disable_fake_quant(self) -> None:
        """Do not round from now on."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Observe from now on, or not."""
        self.observer_enabled[0] = int(enabled)

    def disable_observer(self) -> None:
        """Do not observe from now on."""
        self.enable_observer(False)


class FakeQuantize(FakeQuantizeBase):
    """Rounds a tensor to what integers of a scale and a zero point mean, which an observer finds; the gradient goes through where
    nothing is clamped.

    Args:
        observer: the class of the observer, or a constructor of one.
        quant_min, quant_max: the integers.
        is_dynamic: whether the scale is that of each tensor alone.
        observer_kwargs: the observer's other arguments.

    Shape:
        input: any; the result has the same

    Raises:
        AssertionError: a range that is empty or that the dtype does not hold.

    >>> import flambeau
    >>> from flambeau.ao.quantization import FakeQuantize
    >>> FakeQuantize(quant_min=0, quant_max=3)(flambeau.tensor([0.0, 1.2, 3.0]))
    tensor([0., 1., 3.])
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError("quant_min must be less than or equal to quant_max")
            said = getattr(getattr(observer, "p", None), "keywords", {})
            low, high = limits(said.get("dtype", observer_kwargs.get("dtype", quint8)))
            if quant_min < low or quant_max > high:
                raise AssertionError(f"quant_min and quant_max out of bound: expected {low} to {high}")
            observer_kwargs |= {"quant_min": quant_min, "quant_max": quant_max}
        self.activation_post_process = observer(is_dynamic=is_dynamic, **observer_kwargs)
        watched = self.activation_post_process
        self.quant_min, self.quant_max, self.is_dynamic = (
            watched.quant_min,
            watched.quant_max,
            watched.is_dynamic,
        )
        self.dtype, self.qscheme, self.ch_axis = (
            watched.dtype,
            watched.qscheme,
            getattr(watched, "ch_axis", -1),
        )
        self.is_per_channel = watched.qscheme in PER_CHANNEL
        whole = watched.qscheme is not per_channel_affine_float_qparams
        self.register_buffer("scale", tensor([1.0]))
        self.register_buffer("zero_point", tensor([0], dtype=by_name["int32" if whole else "float32"]))

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """The observer's scale and zero point."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Tensor) -> Tensor:
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            for buffer, new in zip((self.scale, self.zero_point), self.calculate_qparams()):
                buffer.resize_(new.shape).copy_(new)
        if self.fake_quant_enabled[0] == 1:
            low, high = self.activation_post_process.quant_min, self.activation_post_process.quant_max
            if self.is_per_channel:
                return fake_quantize_per_channel_affine(
                    X, self.scale, self.zero_point, self.ch_axis, low, high
                )
            return fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, low, high)
        return X

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, ch_axis={self.ch_axis}, scale={self.scale}, "
            f"zero_point={self.zero_point}"
        )

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *rest: Any) -> None:
        for name in ("scale", "zero_point"):  # of one element until something was observed
            if (given := state_dict.get(prefix + name)) is not None:
                getattr(self, name).resize_(given.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _switch(name: str) -> Any:
    def switch(mod: Module) -> None:
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, name)()

    switch.__name__ = switch.__qualname__ = name
    switch.__doc__ = f"""`{name}` of a module that rounds; nothing for another: for `Module.apply`.

    Raises nothing.

    >>> from flambeau.ao.quantization import FakeQuantize, {name}
    >>> _ = FakeQuantize().apply({name})
    """
    return switch


enable_fake_quant, disable_fake_quant, enable_observer, disable_observer = map(
    _switch, ("enable_fake_quant", "disable_fake_quant", "enable_observer", "disable_observer")
)

default_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver,
    quant_min=0,
    quant_max=255,
    dtype=quint8,
    qscheme=per_tensor_affine,
    reduce_range=True,
)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver,
    quant_min=-128,
    quant_max=127,
    dtype=qint8,
    qscheme=per_tensor_symmetric,
    reduce_range=False,
)
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver,
    quant_min=-128,
    quant_max=127,
    dtype=qint8,
    qscheme=per_channel_symmetric,
    reduce_range=False,
    ch_axis=0,
)
default_dynamic_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver,
    quant_min=0,
    quant_max=255,
    is_dynamic=True,
    dtype=quint8,
    averaging_constant=1,
)
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver,
    qscheme=per_channel_affine_float_qparams,
    dtype=quint8,
    quant_min=0,
    quant_max=255,
    ch_axis=0,
    averaging_constant=1,
)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver,
    qscheme=per_channel_affine_float_qparams,
    ch_axis=0,
    dtype=without_tensors["quint4x2"],
    averaging_constant=1,
)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds to the integers of a scale and a zero point that are given.

    Args:
        observer: a constructor of a `FixedQParamsObserver`.

    Shape:
        input: any; the result has the same

    Raises:
        AssertionError: another observer.

    >>> import flambeau
    >>> from flambeau.ao.quantization import FixedQParamsFakeQuantize, FixedQParamsObserver
    >>> FixedQParamsFakeQuantize(FixedQParamsObserver.with_args(scale=0.5, zero_point=0))(flambeau.tensor([0.2, 0.4]))
    tensor([0.0000, 0.5000])
    """

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        watched = self.activation_post_process
        if type(watched) is not FixedQParamsObserver:
            raise AssertionError("FixedQParamsFakeQuantize's observer must be a FixedQParamsObserver")
        self.scale, self.zero_point = watched.scale, watched.zero_point


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """`FakeQuantize` with an observer of moving averages, whose scale and zero point are chosen as by PyTorch's fused kernel.

    It differs from the observer's rule, which `convert` uses there and here, for symmetric weights (the scale is the larger of |min| / 128
    and |max| / 127; what lies on one side of 0 alone is not taken as symmetric), for scales below 6.1e-5 and in how a zero point half-way
    between integers is rounded.  They are chosen while `fake_quant_enabled`.

    Shape:
        input: any; the result has the same

    Raises:
        AssertionError: an observer without averages, or a range that is empty or that the dtype does not hold.

    >>> import flambeau
    >>> from flambeau.ao.quantization import FusedMovingAvgObsFakeQuantize
    >>> FusedMovingAvgObsFakeQuantize(quant_min=0, quant_max=3)(flambeau.tensor([0.0, 1.2, 3.0]))
    tensor([0., 1., 3.])
    """

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int = 0,
        quant_max: int = 255,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        averages = (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)
        if not isinstance(self.activation_post_process, averages):
            raise AssertionError(
                "Fused observer+fake_quant module only works with MovingAverageMinMaxObserver"
            )

    def forward(self, X: Tensor) -> Tensor:
        watched = self.activation_post_process
        if self.observer_enabled[0] == 1:
            watched(X.detach())
        if self.fake_quant_enabled[0] != 1:
            return X
        low, high = watched.quant_min, watched.quant_max
        symmetric = self.qscheme in (per_tensor_symmetric, per_channel_symmetric)
        chosen = _chosen(watched.min_val, watched.max_val, low, high, symmetric)
        for buffer, new in zip((self.scale, self.zero_point), chosen):
            buffer.resize_(new.reshape(-1).shape).copy_(new.reshape(-1))
        if self.is_per_channel:
            return fake_quantize_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis, low, high)
        return fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, low, high)


_SMALLEST_SCALE = 6.0999998822808266e-05  # 6.1e-5 in float32


def _chosen(least: Tensor, most: Tensor, low: int, high: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    """The scale and the zero point for numbers from `least` to `most`, by the rule of FBGEMM: the zero point is that of the end whose
    rounding moves 0 less; those of what was never observed are those of zeros.
    """
    least, most = least.float().clamp(max=0.0), most.float().clamp(min=0.0)
    steps, balanced = high - low, (least < 0) & (most > 0)
    if symmetric:
        under, over = -(steps // 2 + 1), steps // 2
        largest = (least / under).abs().maximum((most / over).abs()).double()
        least = (largest * under).float().where(balanced, least)
        most = (largest * over).float().where(balanced, most)
    least, most = least.double(), most.double()
    scale = (most - least) / steps
    nothing = (scale.float() == 0) | scale.float().reciprocal().isinf()
    scale = scale.masked_fill(nothing, 0.1)
    small = scale < _SMALLEST_SCALE
    larger = _SMALLEST_SCALE / scale  # a range that is as much wider has that scale
    least, most = ((end * larger).float().double().where(small, end) for end in (least, most))
    scale = scale.masked_fill(small, _SMALLEST_SCALE).float().double()
    below, above = low - least / scale, high - most / scale
    nearer = abs(low) - (least / scale).abs() < abs(high) - (most / scale).abs()
    zero_point = below.where(nearer, above)
    if symmetric:
        zero_point = zero_point.masked_fill(balanced, (low + high) / 2)
    return scale.float(), zero_point.clamp(low, high).round().to(by_name["int32"])


default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=quint8
)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver,
    quant_min=-128,
    quant_max=127,
    dtype=qint8,
    qscheme=per_tensor_symmetric,
)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver,
    quant_min=-128,
    quant_max=127,
    dtype=qint8,
    qscheme=per_channel_symmetric,
)
