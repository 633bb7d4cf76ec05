"""`GradScaler`: losses times a number, so that gradients of float16 do not become 0."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

from ..core.base.device import device_count
from ..core.base.dtypes import by_name, device
from ..core.base.parameters import signature
from ..core.base.tensor import TensorBase
from ..core.make.create import full
from ..core.tape.contexts import unrecorded
from ..operations.declare.registry import REGISTRY

__all__ = ["GradScaler", "OptState"]

_FLOAT16, _FLOAT32, _INT32 = by_name["float16"], by_name["float32"], by_name["int32"]
_isfinite, _count_not_finite = REGISTRY["isfinite"].function, REGISTRY["count_not_finite"].function
_view_as_real = REGISTRY["view_as_real"].function
_HINT = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."


class OptState(Enum):
    """How far an optimiser has come in this iteration.

    >>> from flambeau.amp.grad_scaler import OptState
    >>> [state.name for state in OptState]
    ['READY', 'UNSCALED', 'STEPPED']
    """

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class _Copies:
    """A tensor on each device that it is requested on."""

    def __init__(self, master: TensorBase) -> None:
        self.master = master
        self.on: dict[device, TensorBase] = {}

    def get(self, place: device) -> TensorBase:
        if place not in self.on:
            self.on[place] = self.master if place == self.master.device else self.master.to(place)
        return self.on[place]


class GradScaler:
    """Scales losses so that gradients of half types do not vanish, and skips steps whose gradients are not finite.

    `scale(loss).backward()` computes gradients times the scale; `step(optimizer)` divides them again, and steps unless one is
    infinite or NaN; `update()`, once an iteration after all optimisers, multiplies the scale by `backoff_factor` if a step was
    skipped, and by `growth_factor` after `growth_interval` iterations without.  Between `backward` and `step`, `unscale_` gives gradients
    that may be clipped.  With `enabled=False`, or for "cuda" where there is no device (a warning), all of that does nothing but step.

    The scale is a float32 that nothing bounds from below, as in PyTorch: where no step is ever finite (a NaN in the data or
    in the model) it halves until it is 0, after some 165 updates from its start, and is silent about it.  `get_scale()`
    below 1 says that something other than the range of float16 is wrong.

    Raises AssertionError for a growth factor of 1 or less, or a backoff factor of 1 or more.

    >>> import flambeau
    >>> weight = flambeau.ones(2, requires_grad=True)
    >>> optimizer, scaler = flambeau.optim.SGD([weight], lr=0.5), flambeau.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale(weight.sum()).backward()
    >>> weight.grad
    tensor([8., 8.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> weight
    tensor([0.5000, 0.5000], requires_grad=True)
    >>> optimizer.zero_grad()
    >>> scaler.scale(weight.sum() * float("inf")).backward()
    >>> scaler.step(optimizer)  # is skipped
    >>> scaler.update()
    >>> weight.detach(), scaler.get_scale()
    (tensor([0.5000, 0.5000]), 4.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device, self._enabled = device, enabled
        if device == "cuda" and enabled and not device_count("cuda"):
            warnings.warn("GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._scale: TensorBase | None = None  # made with the first output, on its device
        self._growth_tracker: TensorBase | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_refresh_per_optimizer_state)

    def _check_scale_growth_tracker(self, funcname: str) -> tuple[TensorBase, TensorBase]:
        if self._scale is None:
            raise AssertionError(f"Attempted {funcname} but _scale is None.  " + _HINT)
        if self._growth_tracker is None:
            raise AssertionError(f"Attempted {funcname} but _growth_tracker is None.  " + _HINT)
        return self._scale, self._growth_tracker

    def _scale_on(self, place: device) -> TensorBase:
        """The scale, made where the first output is."""
        if self._scale is None:
            self._scale = full((), self._init_scale, dtype=_FLOAT32, device=place)
            self._growth_tracker = full((), self._init_growth_tracker, dtype=_INT32, device=place)
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """Outputs times the scale: a tensor, or lists, tuples and other iterables of outputs, as deep as they are.

        Raises ValueError for what is neither.

        >>> import flambeau
        >>> flambeau.amp.GradScaler("cpu", init_scale=4.0).scale([flambeau.ones(1), flambeau.ones(2)])
        [tensor([4.]), tensor([4., 4.])]
        """
        if not self._enabled:
            return outputs
        copies: list[_Copies] = []

        def scaled(value: Any) -> Any:
            if isinstance(value, TensorBase):
                if not copies:
                    copies.append(_Copies(self._scale_on(value.device)))
                return value * copies[0].get(value.device)
            if isinstance(value, Iterable):
                each = map(scaled, value)
                return type(value)(each) if isinstance(value, (list, tuple)) else each  # type: ignore[call-arg]
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")

        return scaled(outputs)

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: TensorBase, found_inf: TensorBase, allow_fp16: bool
    ) -> dict[device, TensorBase]:
        """Multiply the gradients; for each device, 1 where one of them was not finite, else 0."""
        factors, result = _Copies(inv_scale), _Copies(found_inf)
        unchanged = inv_scale.item() == 1
        grads: list[TensorBase] = []
        for group in optimizer.param_groups:
            for param in group["params"]:
                if not isinstance(param, TensorBase):
                    raise AssertionError(f"expected param to be a Tensor, got {type(param).__name__}")
                grad = param.grad
                if grad is None:
                    continue
                if grad.dtype == _FLOAT16 and not allow_fp16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                if grad.is_sparse:
                    if grad.dtype == _FLOAT16:  # values of one place are added, and may then be infinite
                        grad = param.grad = grad.coalesce()
                    grad = grad._values()
                grads.append(_view_as_real(grad) if grad.is_complex() else grad)
        with unrecorded():
            for grad in grads:
                marked = result.get(grad.device)
                if _count_not_finite(grad).item():
                    marked.fill_(1.0)
                if not unchanged:
                    grad.mul_(factors.get(grad.device))
        return result.on

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimiser's parameters by the scale, in place, and looks whether they are finite.

        Raises RuntimeError where that was done since the last `update`, or the optimiser has stepped since; ValueError for
        gradients of float16 (the parameters should be float32); AssertionError where nothing was scaled yet.

        >>> import flambeau
        >>> weight = flambeau.ones(1, requires_grad=True)
        >>> optimizer, scaler = flambeau.optim.SGD([weight], lr=0.5), flambeau.amp.GradScaler("cpu")
        >>> scaler.scale(weight.sum()).backward()
        >>> scaler.unscale_(optimizer)
        >>> weight.grad
        tensor([1.])
        """
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        with unrecorded():
            inverse = scale.double().reciprocal().float()
        found_inf = full((), 0.0, dtype=_FLOAT32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found_inf, False)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscales the gradients, unless `unscale_` did, and calls `optimizer.step(*args, **kwargs)` if they are finite.

        Returns what that returns, None where the step is skipped.  Raises RuntimeError for a closure, and where the optimiser
        has stepped since the last `update`; AssertionError where nothing was scaled yet, or no parameter has a gradient.

        >>> import flambeau
        >>> weight = flambeau.ones(1, requires_grad=True)
        >>> optimizer, scaler = flambeau.optim.SGD([weight], lr=0.5), flambeau.amp.GradScaler("cpu")
        >>> scaler.scale(weight.sum()).backward()
        >>> scaler.step(optimizer)
        >>> weight.item()
        0.5
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_of_its_own(optimizer, state, args, kwargs)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        returned = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return returned

    def _maybe_opt_step(self, optimizer: Any, optimizer_state: dict, *args: Any, **kwargs: Any) -> Any:
        if any(x.item() for x in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def _step_of_its_own(self, optimizer: Any, state: dict, args: tuple, kwargs: dict) -> Any:
        """The step of an optimiser that unscales and skips by itself: it takes the scaler, or finds `grad_scale` and `found_inf`."""
        takes_scaler = "grad_scaler" in signature(optimizer.step).parameters
        if takes_scaler:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the near future "
                "GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed optimizer and let the "
                "optimizer use them directly.",
                FutureWarning,
                stacklevel=3,
            )
            kwargs = {**kwargs, "grad_scaler": self}
        else:
            if state["stage"] is OptState.READY:
                self._check_inf_per_device(optimizer)
            scale, _ = self._check_scale_growth_tracker("step")
            own = getattr(optimizer, "grad_scale", None)
            if state["stage"] is not OptState.UNSCALED:
                own = scale * (1 if own is None else own)
            optimizer.grad_scale = own
            optimizer.found_inf = sum(
                result.to(scale.device) for result in state["found_inf_per_device"].values()
            )
        returned = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        if not takes_scaler:
            del optimizer.grad_scale, optimizer.found_inf
        return returned

    def update(self, new_scale: float | TensorBase | None = None) -> None:
        """Lowers the scale if a step was skipped, raises it after `growth_interval` iterations in which none was.

        `new_scale`, a float or a tensor of one element on the scaler's type of device without `requires_grad`, is the
        next scale whatever was found.  A scale that growth would make infinite stays.  Raises AssertionError where nothing
        was scaled or stepped, and for other tensors.

        >>> import flambeau
        >>> scaler = flambeau.amp.GradScaler("cpu", init_scale=2.0)
        >>> _ = scaler.scale(flambeau.ones(1))
        >>> scaler.update(64.0)
        >>> scaler.get_scale()
        64.0
        """
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if isinstance(new_scale, TensorBase):
            if new_scale.device.type != self._device or new_scale.numel() != 1 or new_scale.requires_grad:
                raise AssertionError(
                    "new_scale should be a float or a tensor of one element on the scaler's device with requires_grad=False."
                )
            scale.copy_(new_scale.reshape(()))
        elif new_scale is not None:
            scale.fill_(float(new_scale))
        else:
            result = [
                x
                for state in self._per_optimizer_states.values()
                for x in state["found_inf_per_device"].values()
            ]
            if not result:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._update_scale(scale, tracker, any(x.item() for x in result))
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _update_scale(self, scale: TensorBase, tracker: TensorBase, skipped: bool) -> None:
        if skipped:
            scale.mul_(self._backoff_factor)
            tracker.fill_(0)
            return
        steps = tracker.item() + 1
        if steps == self._growth_interval:
            larger = scale * self._growth_factor
            if _isfinite(larger):
                scale.copy_(larger)
            steps = 0
        tracker.fill_(steps)

    def _get_scale_async(self) -> TensorBase | None:
        return self._scale

    def get_scale(self) -> float:
        """The scale; 1.0 where scaling is not enabled.

        >>> import flambeau
        >>> flambeau.amp.GradScaler("cpu").get_scale()
        65536.0
        """
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by when it grows.

        >>> import flambeau
        >>> flambeau.amp.GradScaler("cpu").get_growth_factor()
        2.0
        """
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the scale is multiplied by when it grows.

        >>> import flambeau
        >>> flambeau.amp.GradScaler("cpu").set_growth_factor(4.0)
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by when a step was skipped.

        >>> import flambeau
        >>> flambeau.amp.GradScaler("cpu").get_backoff_factor()
        0.5
        """
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the scale is multiplied by when a step was skipped.

        >>> import flambeau
        >>> flambeau.amp.GradScaler("cpu").set_backoff_factor(0.25)
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many iterations without a skipped step the scale grows.

        >>> import flambeau
        >>> flambeau.amp.GradScaler("cpu").get_growth_interval()
        2000
        """
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many iterations without a skipped step the scale grows.

        >>> import flambeau
        >>> flambeau.amp.GradScaler("cpu").set_growth_interval(100)
        """
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker)

    def is_enabled(self) -> bool:
        """Whether gradients are scaled.

        >>> import flambeau
        >>> flambeau.amp.GradScaler("cpu", enabled=False).is_enabled()
        False
        """
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, both factors, the interval, and how many iterations went without a skipped step; empty where not enabled.

        >>> import flambeau
        >>> sorted(flambeau.amp.GradScaler("cpu").state_dict())
        ['_growth_tracker', 'backoff_factor', 'growth_factor', 'growth_interval', 'scale']
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on with what `state_dict` returned; nothing where not enabled.  Raises RuntimeError for an empty one.

        >>> import flambeau
        >>> scaler = flambeau.amp.GradScaler("cpu")
        >>> scaler.load_state_dict({**scaler.state_dict(), "scale": 2.0})
        >>> scaler.get_scale()
        2.0
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        scale, steps = state_dict["scale"], state_dict["_growth_tracker"]
        growth, backoff, interval = (
            state_dict[name] for name in ("growth_factor", "backoff_factor", "growth_interval")
        )
        self._init_scale, self._init_growth_tracker = scale, steps
        self._growth_factor, self._backoff_factor, self._growth_interval = growth, backoff, interval
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(scale)
            self._growth_tracker.fill_(steps)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                    "scaler.update()."
                )
            state["_init_scale"], state["_scale"] = self.get_scale(), None
            state["_init_growth_tracker"], state["_growth_tracker"] = self._get_growth_tracker(), None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _check_inf_per_device(self, optimizer: Any) -> dict[device, TensorBase]:
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        result = self._unscale_grads_(
            optimizer,
            full((), 1.0, dtype=_FLOAT32, device=scale.device),
            full((), 0.0, dtype=_FLOAT32, device=scale.device),
            True,
        )
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = result
        return result

    def _found_inf_per_device(self, optimizer: Any) -> dict[device, TensorBase]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
