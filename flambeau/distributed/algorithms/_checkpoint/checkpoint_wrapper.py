"""Modules that trade time for memory: their activations are computed again in backward, or kept on the host."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

from ....autograd.graph import save_on_cpu
from ....nn.modules.module import Module
from ....utils.checkpoint import checkpoint

__all__ = [
    "ActivationWrapper",
    "CheckpointImpl",
    "CheckpointWrapper",
    "OffloadWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
    "offload_wrapper",
]
_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """Which variant of `utils.checkpoint.checkpoint` runs.

    >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl
    >>> CheckpointImpl.NO_REENTRANT.name
    'NO_REENTRANT'
    """

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Module):
    """A module around another one, whose names its state and its parameters keep."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _CHECKPOINT_WRAPPED_MODULE:
                raise
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Those of the module in it, by their names there."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter


def _renamed(state: Any, before: str, after: str) -> None:
    for key in [key for key in state if key.startswith(before)]:
        state[after + key[len(before) :]] = state.pop(key)


def _without_prefix(module: Any, state: Any, prefix: str, *rest: Any) -> Any:
    _renamed(state, f"{prefix}{_CHECKPOINT_PREFIX}", prefix)
    return state


def _with_prefix(module: Any, state: Any, prefix: str, *rest: Any) -> None:
    _renamed(state, prefix, f"{prefix}{_CHECKPOINT_PREFIX}")


class OffloadWrapper(ActivationWrapper):
    """Keeps what backward needs of a module on the host.

    >>> import flambeau
    >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import offload_wrapper
    >>> offload_wrapper(flambeau.nn.Linear(2, 1))(flambeau.ones(3, 2)).shape
    flambeau.Size([3, 1])
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module in it returns."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """Computes a module once more in backward, rather than to keep what it computes.

    Args:
        mod: the module.
        checkpoint_impl: the variant.
        checkpoint_fn: in place of `utils.checkpoint.checkpoint`; further arguments go to it.

    >>> import flambeau
    >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    >>> layer = checkpoint_wrapper(flambeau.nn.Linear(2, 1))
    >>> layer(flambeau.ones(3, 2)).sum().backward()
    >>> layer.weight.grad
    tensor([[3., 3.]])
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn_kwargs["use_reentrant"] = checkpoint_impl is CheckpointImpl.REENTRANT
        self.checkpoint_fn = functools.partial(
            checkpoint if checkpoint_fn is None else checkpoint_fn, **checkpoint_fn_kwargs
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module in it returns."""
        inner = self._checkpoint_wrapped_module
        if self.checkpoint_impl is not CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(inner, *args, **kwargs)
        names, count = list(kwargs), len(args)  # that variant takes positional arguments alone

        def call(*values: Any) -> Any:
            return inner(*values[:count], **dict(zip(names, values[count:], strict=True)))

        return self.checkpoint_fn(call, *args, *kwargs.values())


def offload_wrapper(module: Module) -> Module:
    """The module in an `OffloadWrapper`.

    >>> import flambeau
    >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import offload_wrapper
    >>> type(offload_wrapper(flambeau.nn.ReLU())).__name__
    'OffloadWrapper'
    """
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """The module in a `CheckpointWrapper`.

    >>> import flambeau
    >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    >>> list(checkpoint_wrapper(flambeau.nn.Linear(2, 1)).state_dict())
    ['weight', 'bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[..., Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Any = None,
) -> None:
    """Put modules in a model, in place, in what `checkpoint_wrapper_fn` makes of them; the model itself stays.

    Args:
        check_fn: for which modules.
        auto_wrap_policy: a policy of `fsdp.wrap`, which goes before `check_fn`.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
    >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> apply_activation_checkpointing(net, check_fn=lambda module: isinstance(module, nn.Linear))
    >>> [type(module).__name__ for module in net]
    ['CheckpointWrapper', 'ReLU']
    """
    from ...fsdp.wrap import _Policy, _recursive_wrap, _wrap_each, lambda_auto_wrap_policy

    if isinstance(auto_wrap_policy, _Policy):
        _wrap_each(model, auto_wrap_policy._run_policy(model, set(), {}), checkpoint_wrapper_fn)
        return
    policy = auto_wrap_policy or functools.partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    _recursive_wrap(model, policy, checkpoint_wrapper_fn, set(), set(), only_wrap_children=True)
