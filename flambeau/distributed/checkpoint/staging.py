"""Copies of state dicts on the host, from which `async_save` writes while training goes on."""

from __future__ import annotations

import copy
import io
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ..._tensor import Tensor
from .metadata import STATE_DICT_TYPE
from .planner_helpers import _piece, _with_piece

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


@runtime_checkable
class AsyncStager(Protocol):
    """What `async_save` takes copies with.

    `stage` returns a copy, or a Future of one, that later changes of the original do not reach.  Where
    `should_synchronize_after_execute` is true, `synchronize_staging` is called before `async_save` returns.

    Raises nothing.

    >>> from flambeau.distributed.checkpoint.staging import AsyncStager, BlockingAsyncStager
    >>> isinstance(BlockingAsyncStager(), AsyncStager)
    True
    """

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `async_save` waits for the copy."""
        return self._synchronize_after_execute

    def stage(self, state_dict: STATE_DICT_TYPE) -> Future[STATE_DICT_TYPE] | STATE_DICT_TYPE:
        """A copy."""
        raise NotImplementedError(f"{type(self).__name__} must implement stage method")

    def synchronize_staging(self) -> None:
        """Wait until the copy is made."""
        return

    def close(self) -> None:
        """Give up what the copies take."""
        return


@dataclass
class StagingOptions:
    """How copies are made: in memory that a device reads directly, that processes share, by another thread, without waiting for the device.

    Raises nothing.

    >>> from flambeau.distributed.checkpoint.staging import StagingOptions
    >>> StagingOptions(use_non_blocking_copy=False).use_async_staging
    True
    """

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Copies as `StagingOptions` say.

    Raises:
        AssertionError: pinned memory or copies without waiting are wanted, and there is no accelerator

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.staging import DefaultStager, StagingOptions
    >>> stager = DefaultStager(StagingOptions(False, False, True, False))
    >>> stager.stage({"x": flambeau.ones(2)}).result()
    {'x': tensor([1., 1.])}
    >>> stager.close()
    """

    def __init__(self, config: StagingOptions | None = None) -> None:
        from ...accelerator import is_available

        config = StagingOptions() if config is None else config
        if (config.use_non_blocking_copy or config.use_pinned_memory) and not is_available():
            raise AssertionError(
                "DefaultStager: use_pinned_memory and use_non_blocking_copy need an accelerator; "
                "StagingOptions(use_pinned_memory=False, use_non_blocking_copy=False) does without"
            )
        self._config = config
        self._executor = ThreadPoolExecutor(1, "stager") if config.use_async_staging else None
        self._staging_future: Future[STATE_DICT_TYPE] | None = None

    def stage(self, state_dict: STATE_DICT_TYPE, **kwargs: Any) -> STATE_DICT_TYPE | Future[STATE_DICT_TYPE]:
        """A copy; with `use_async_staging` a Future of it, until which the original must not change."""
        if self._executor is None:
            return self._stage(state_dict)
        self._staging_future = self._executor.submit(self._stage, state_dict)
        return self._staging_future

    def _stage(self, state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        staged = copied(state_dict)
        if self._config.use_shared_memory:
            staged = _mapped(staged, lambda tensor: tensor.share_memory_())
        if self._config.use_pinned_memory:
            staged = _mapped(staged, lambda tensor: tensor.pin_memory())
        return staged

    def synchronize_staging(self) -> None:
        """Wait until the last copy is made."""
        if self._staging_future is not None:
            self._staging_future.result()

    def close(self) -> None:
        """End the thread."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)


class BlockingAsyncStager(AsyncStager):
    """Copies that are made before `stage` returns.

    Args:
        cache_staged_state_dict: copy into the memory of the last copy, which a save must not use any more.
        type_check: AssertionError where the state dict has other values than the last one.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.staging import BlockingAsyncStager
    >>> x = flambeau.ones(2)
    >>> staged = BlockingAsyncStager().stage({"x": x})
    >>> x.zero_(), staged
    (tensor([0., 0.]), {'x': tensor([1., 1.])})
    """

    _synchronize_after_execute: bool = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict = cache_staged_state_dict
        self.type_check = type_check
        self.state_dict_cache: STATE_DICT_TYPE | None = None

    def stage(self, state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        """A copy on the host."""
        if not self.cache_staged_state_dict:
            return copied(state_dict)
        self.state_dict_cache = copied(state_dict, self.state_dict_cache, self.type_check)
        return self.state_dict_cache


def copied(value: Any, into: Any = None, strict: bool = False) -> Any:
    """A copy on the host, of tensors into those of an earlier copy where they are alike.

    AssertionError where they are not, and `strict` is true.
    """
    if isinstance(value, dict):
        old_values = into if isinstance(into, dict) else {}
        return {key: copied(inner, old_values.get(key), strict) for key, inner in value.items()}
    if type(value) in (list, tuple):
        before = into if type(into) is type(value) and len(into) == len(value) else [None] * len(value)
        return type(value)(copied(inner, old, strict) for inner, old in zip(value, before))
    if isinstance(value, Tensor):
        if hasattr(value, "device_mesh"):
            old = _piece(into) if hasattr(into, "device_mesh") else None
            return _with_piece(value, copied(_piece(value), old, strict))
        alike = isinstance(into, Tensor) and into.shape == value.shape and into.dtype is value.dtype
        if alike:
            return into.copy_(value.detach())
        if strict and into is not None:
            raise AssertionError(f"a tensor of {value.dtype}{list(value.shape)} is not like its last copy")
        return value.detach().cpu().clone()
    if isinstance(value, io.BytesIO):
        return io.BytesIO(value.getvalue())
    return copy.deepcopy(value)


def _mapped(value: Any, function: Any) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(inner, function) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(inner, function) for inner in value)
    if hasattr(value, "device_mesh"):
        return _with_piece(value, function(_piece(value)))
    return function(value) if isinstance(value, Tensor) else value
