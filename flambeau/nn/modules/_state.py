"""The state of a module: `state_dict` and `load_state_dict`, and their hooks."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ... import __future__
from ..._tensor import Tensor
from ...autograd.grad_mode import no_grad
from ...utils._swap import swap_tensors
from ...utils.hooks import RemovableHandle
from ..parameter import Parameter, is_lazy
from ._hooks import BoundHook, add_hook

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """What `load_state_dict` returns: the keys it looked for in vain, and those it had no use for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class StateDictMixin:
    """The part of `Module` that saves and loads its tensors."""

    _version: int = 1
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, Callable]
    _state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_post_hooks: OrderedDict[int, Callable]

    def get_extra_state(self) -> Any:
        """Anything picklable to store in the `state_dict` besides tensors; a subclass defines it with its
        counterpart.

        Raises:
            RuntimeError: the class does not define it.
        """
        raise RuntimeError(f"{type(self).__name__} defines no get_extra_state()")

    def set_extra_state(self, state: Any) -> None:
        """Take over what `get_extra_state` returned; called by `load_state_dict`.

        Raises:
            RuntimeError: the class does not define it.
        """
        raise RuntimeError(f"{type(self).__name__} defines no set_extra_state()")

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers by dotted name, in a new OrderedDict.

        The tensors share memory with the module's. Its attribute `_metadata` maps a module's dotted name to
        the version of its format.

        Args:
            destination: a mapping to add to, and to return, in place of a new one.
            prefix: put before every key.
            keep_vars: whether to give the parameters themselves, not detached tensors.

        >>> from flambeau import nn
        >>> list(nn.Linear(2, 1).state_dict(prefix="head."))
        ['head.weight', 'head.bias']
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead.", FutureWarning, stacklevel=2
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination", destination)
            prefix = given.get("prefix", prefix)
            keep_vars = given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata

        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, local_metadata)
            if replaced is not None:
                if getattr(hook, "_from_public_api", False):
                    raise RuntimeError("state_dict post-hook must return None")
                destination = replaced
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Add the module's own entries, not its children's; a class that stores something else overrides
        this.
        """
        for name, tensor in self._persistent_tensors():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if type(self).get_extra_state is not StateDictMixin.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def _persistent_tensors(self) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self._parameters.items():
            if parameter is not None:
                yield name, parameter
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                yield name, buffer

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy the tensors of a `state_dict` into the module's parameters and buffers.

        Args:
            state_dict: tensors by dotted name; it is not changed.
            strict: whether missing and unexpected keys are an error.
            assign: whether to put the given tensors in place of the module's, rather than copy their values.
                The dtype and device are then theirs; `requires_grad` stays that of the module's parameter.

        Returns:
            The named tuple `(missing_keys, unexpected_keys)`.

        Raises:
            TypeError: `state_dict` is not a mapping.
            RuntimeError: keys do not match, if `strict`, or shapes do not; it names all of them.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        # A copy, since hooks and _load_from_state_dict may change it.
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata  # type: ignore[attr-defined]

        def load(module: StateDictMixin, state: Mapping[str, Any], prefix: str) -> None:
            local_metadata = dict((metadata or {}).get(prefix[:-1], {}))
            if assign:
                local_metadata["assign_to_params_buffers"] = True
            # Always collected as if strict; whether the keys matter is decided below, after the hooks.
            module._load_from_state_dict(state, prefix, local_metadata, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, {key: value for key, value in state.items() if key.startswith(below)}, below)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                        "return new values, if incompatible_keys need to be modified, it should be done "
                        "inplace."
                    )

        load(self, state_dict, "")
        if strict:
            for what, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    quoted = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{what} key(s) in state_dict: {quoted}. ")
        if errors:
            lines = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}")
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load the module's own entries, not its children's; a class that reads an older format overrides
        this.

        Args:
            state_dict: the entries whose keys begin with `prefix`; it may be changed.
            local_metadata: what the saved `_metadata` says about this module, and `assign_to_params_buffers`.
            strict: whether to add to `missing_keys` and `unexpected_keys`.
            missing_keys, unexpected_keys, error_msgs: lists to add to; `load_state_dict` raises for all at
                once.
        """
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

        assign = local_metadata.get("assign_to_params_buffers", False)
        own = dict(self._persistent_tensors())
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                error = self._load_tensor(name, tensor, key, state_dict[key], assign)
                if error is not None:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)

        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not StateDictMixin.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)

        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    head, dot, _ = key[len(prefix) :].partition(".")
                    if head not in (self._modules if dot else own):
                        unexpected_keys.append(key)

    def _load_tensor(self, name: str, tensor: Tensor, key: str, value: Any, assign: bool) -> str | None:
        """Load `value` into the parameter or buffer `name`; what is wrong with it, or None."""
        if not isinstance(value, Tensor):
            return (
                f'While copying the parameter named "{key}", expected flambeau.Tensor or Tensor-like object '
                f"from checkpoint but received {type(value)}"
            )
        if is_lazy(value):
            if is_lazy(tensor):
                return None  # there is nothing to copy yet
            return (
                f"{key} is an uninitialized parameter in the checkpoint: call the lazy module that was saved once before "
                f"saving it; the shape in current model is {tensor.shape}."
            )
        if is_lazy(tensor):  # this gives it its shape
            tensor.materialize(value.shape)  # type: ignore[attr-defined]
        if tensor.dim() == 0 and tuple(value.shape) == (1,):  # how old checkpoints hold a scalar
            value = value[0]
        if value.shape != tensor.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {tensor.shape}."
            )
        if tensor.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
                "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
                "corresponding key in the module instead of copying them in place?)",
                stacklevel=4,
            )
        try:
            with no_grad():
                if __future__.get_swap_module_params_on_conversion():
                    loaded = tensor.module_load(value, assign=assign)
                    if loaded is tensor or loaded is value:
                        raise RuntimeError(
                            "module_load returned one of self or other, please .detach() the result if returning one of the "
                            "inputs in module_load"
                        )
                    if isinstance(tensor, Parameter):
                        loaded = Parameter(loaded, tensor.requires_grad)
                    swap_tensors(tensor, loaded)
                elif not assign:
                    tensor.copy_(value)
                elif isinstance(tensor, Parameter):
                    if isinstance(value, Parameter):
                        value.requires_grad_(tensor.requires_grad)
                    else:
                        value = Parameter(value, tensor.requires_grad)
                    setattr(self, name, value)
                else:
                    setattr(self, name, value)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{tensor.size()} and whose dimensions in the checkpoint are {value.size()}, "
                f"an exception occurred : {error.args}."
            )
        return None

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before the module's entries are collected by
        `state_dict`.
        """
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict`; it may change that in
        place.
        """
        hook._from_public_api = True  # type: ignore[attr-defined]
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """Like `register_state_dict_post_hook`, but what the hook of the root module returns replaces the
        result.
        """
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)` before the module's entries are loaded; it may change `state_dict` and the lists in
        place."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable, with_module: bool = False
    ) -> RemovableHandle:
        return add_hook(self._load_state_dict_pre_hooks, BoundHook(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after the module is loaded; it may change the two lists in
        place.
        """
        return add_hook(self._load_state_dict_post_hooks, hook)
