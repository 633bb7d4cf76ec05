"""The base class of all optimisers: parameter groups, state, checkpoints and hooks.

An optimiser writes `step`; everything else is here.  Those of this package are declarations (`_declared`).
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import Any, TypeAlias

from ..autograd.grad_mode import enable_grad
from ..core.base.dtypes import by_name
from ..core.base.profiling import begin_span, end_span, is_profiling
from ..core.base.tensor import TensorBase
from ..utils.hooks import RemovableHandle
from ._derived import (  # noqa: F401
    _capturable_doc,
    _default_to_fused_or_foreach,
    _device_dtype_check_for_fused,
    _differentiable_doc,
    _disable_dynamo_if_unsupported,
    _foreach_doc,
    _fused_doc,
    _get_capturable_supported_devices,
    _get_scalar_dtype,
    _get_value,
    _group_tensors_by_device_and_dtype,
    _maximize_doc,
    _params_doc,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
)

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook", "required"]

Group: TypeAlias = dict[str, Any]
Params: TypeAlias = Iterable[Any]  # of tensors, of (name, tensor) pairs, or of groups (dicts)
ParamsT = Params  # PyTorch's name of it


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()  # a default of this value must be given by every parameter group

_NO_HOOKS: Mapping[int, Callable] = MappingProxyType({})
_global_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_post_hooks: OrderedDict[int, Callable] = OrderedDict()


def _register(hooks: OrderedDict[int, Callable], hook: Callable, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` before every step of every optimiser.

    The hook may return new `(args, kwargs)`.  The handle's `remove()` undoes the registration.

    Raises:
        RuntimeError: in the step, where the hook returns neither None nor a pair (args, kwargs)

    >>> import flambeau
    >>> seen = []
    >>> handle = flambeau.optim.optimizer.register_optimizer_step_pre_hook(lambda opt, args, kwargs: seen.append("before"))
    >>> flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0).step()
    >>> handle.remove()
    >>> seen
    ['before']
    """
    return _register(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` after every step of every optimiser.

    The handle's `remove()` undoes the registration.

    Raises nothing.

    >>> import flambeau
    >>> seen = []
    >>> handle = flambeau.optim.optimizer.register_optimizer_step_post_hook(lambda opt, args, kwargs: seen.append("after"))
    >>> flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0).step()
    >>> handle.remove()
    >>> seen
    ['after']
    """
    return _register(_global_post_hooks, hook)


def _with_hooks(step: Callable) -> Callable:
    """`step` between the hooks that are registered when it is called."""

    def between(self, args, kwargs):
        for hook in (*_global_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"{type(self).__name__}.step: a pre-hook must return None or a pair (args, kwargs), "
                    f"got {changed!r}"
                )
            args, kwargs = changed
        result = step(self, *args, **kwargs)
        for hook in (*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    @functools.wraps(step)
    def hooked(self, *args, **kwargs):
        self._opt_called = True  # the schedulers warn when they run before the first step
        if is_profiling():
            entry = begin_span(f"Optimizer.step#{type(self).__name__}.step")
            try:
                return between(self, args, kwargs)
            finally:
                end_span(entry)
        own = vars(self).get("_optimizer_step_pre_hooks") or vars(self).get("_optimizer_step_post_hooks")
        if own or _global_pre_hooks or _global_post_hooks:
            return between(self, args, kwargs)
        return step(self, *args, **kwargs)

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


class Optimizer:
    """Base class: `params` to update, in groups, and `defaults` of the options a group does not give.

    `params` is an iterable of tensors, of `(name, tensor)` pairs, or of dicts with a key `"params"` and
    options of their own.  `param_groups` is a list of such dicts, with every option filled in; options may be
    changed at any time. `state[p]` is the dict of what the optimiser remembers about the parameter `p`.

    A subclass defines `step(closure=None)`; hooks are run around it.

    The optimisers of this package share these options, where they have them:
    `lr`: the learning rate, a number or a tensor of one element, as other numbers may be, too.
    `weight_decay`: how much of each parameter is added to its gradient.
    `maximize`: climb instead of descend.
    `differentiable`: record the step, so that it can be differentiated by parameters, gradients and options that
    are tensors.  Parameters must not be leaves that require gradients then.
    `capturable`: keep and read `state[p]["step"]` beside the parameter, on an accelerator, so that nothing waits for
    the host; AssertionError in `step` for parameters on the CPU.
    `foreach`, `fused`: choose among implementations elsewhere.  Here a step is one pass of a fused kernel over all
    parameters, unless it is differentiable or capturable.  `fused=True` refuses other than floating-point
    parameters, and to be combined with `foreach=True` or `differentiable=True`, by RuntimeError.
    Complex parameters are pairs of real ones.  What the state counts, as `state[p]["step"]`, are 0-dim float32 tensors
    (float64 where that is the default dtype).

    Raises TypeError when `params` is a tensor, or holds anything that is not one; ValueError when it is
    empty, a parameter is in two groups, or a parameter is the result of an operation (not a leaf).

    >>> import flambeau
    >>> weight = flambeau.ones(2, requires_grad=True)
    >>> optimizer = flambeau.optim.SGD([weight], lr=0.1)
    >>> (weight * 3).sum().backward()
    >>> optimizer.step()
    >>> weight.tolist() == flambeau.tensor([0.7, 0.7]).tolist()
    True
    """

    _group_tensors_by_device_and_dtype = staticmethod(_group_tensors_by_device_and_dtype)
    _counts: Sequence[str] = ("step",)  # the entries of a state that are numbers, not like the parameter

    # An optimiser gets a dictionary of its own with its first hook of a kind, so that one whose class does not call
    # `super().__init__()`, as of those that wrap another optimiser, needs none.
    _optimizer_step_pre_hooks: Mapping[int, Callable] = _NO_HOOKS
    _optimizer_step_post_hooks: Mapping[int, Callable] = _NO_HOOKS
    _optimizer_state_dict_pre_hooks: Mapping[int, Callable] = _NO_HOOKS
    _optimizer_state_dict_post_hooks: Mapping[int, Callable] = _NO_HOOKS
    _optimizer_load_state_dict_pre_hooks: Mapping[int, Callable] = _NO_HOOKS
    _optimizer_load_state_dict_post_hooks: Mapping[int, Callable] = _NO_HOOKS

    def _add_hook(self, kind: str, hook: Callable, prepend: bool = False) -> RemovableHandle:
        return _register(self.__dict__.setdefault(kind, OrderedDict()), hook, prepend)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not getattr(cls.step, "hooked", False):  # its own, or that of a base which is no optimiser
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, TensorBase):
            raise TypeError(
                f"{type(self).__name__}: params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got one tensor of shape {tuple(params.shape)}"
            )
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        groups = list(params)
        if not groups:
            raise ValueError(f"{type(self).__name__}: optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Takes over the attributes of a copied or unpickled optimiser, or the state and groups of a checkpoint."""
        for name, value in state.items():  # where a class has a property of that name, through it
            setattr(self, name, value)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {i}"] if i else [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates all parameters from their gradients.  `closure`, when given, computes them again and its
        loss is returned."""
        raise NotImplementedError(f"{type(self).__name__} does not define step")

    def _loss(self, closure: Callable[[], Any]) -> Any:
        with enable_grad():
            return closure()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients of all parameters: to None, or to zeros in place when `set_to_none` is False.

        With None, parameters that get no gradient in the next backward pass are left out by the next step.
        """
        if not is_profiling():
            return self._clear_grads(set_to_none)
        entry = begin_span(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad")
        try:
            return self._clear_grads(set_to_none)
        finally:
            end_span(entry)

    def _clear_grads(self, set_to_none: bool) -> None:
        for group in self.param_groups:
            if set_to_none:
                for p in group["params"]:
                    p.grad = None
                continue
            for p in group["params"]:
                if p.grad is not None:
                    if p.grad.grad_fn is not None:
                        p.grad.detach_()
                    else:
                        p.grad.requires_grad_(False)
                    p.grad.zero_()

    def add_param_group(self, param_group: Group) -> None:
        """Adds parameters, with options of their own, to the optimiser.

        Raises TypeError when `param_group` is not a dict or its `"params"` are not tensors in an ordered
        collection, ValueError when an option without default is missing, a parameter is in a group already,
        or is not a leaf.
        """
        where = f"{type(self).__name__}.add_param_group"
        if not isinstance(param_group, dict):
            raise TypeError(f"{where}: param_group must be a dict, got {type(param_group).__name__}")
        params = param_group["params"]
        if isinstance(params, TensorBase):
            params = [params]
        elif isinstance(params, (set, frozenset)):
            raise TypeError(
                f"{where}: optimizer parameters need to be organized in ordered collections such as a list, got a set"
            )
        params = list(params)
        names = [p[0] for p in params if isinstance(p, tuple)]
        if names:
            if len(names) != len(params):
                raise ValueError(
                    f"{where}: all optimizer params should be with/without names. Some param names are missing: got "
                    f"{len(names)} names for {len(params)} parameters"
                )
            params = [p[1] for p in params]
        for i, p in enumerate(params):
            if not isinstance(p, TensorBase):
                raise TypeError(
                    f"{where}: optimizer can only optimize Tensors, but one of the params is {type(p).__name__}: params[{i}]"
                )
            refusal = self._refusal(p)
            if refusal is not None:
                raise ValueError(f"{where}: params[{i}]: {refusal}")
            if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
                raise ValueError(
                    f"{where}: can't optimize a non-leaf Tensor: params[{i}] of shape {tuple(p.shape)} is "
                    "the result of an operation"
                )
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    f"{where}: the option {name!r} has no default and must be given by the group"
                )
        named = bool(names) or "param_names" in param_group
        if self.param_groups and named != ("param_names" in self.param_groups[0]):
            raise ValueError(f"{where}: all optimizer param groups should be with/without names")
        if len(set(params)) != len(params):
            warnings.warn(
                f"{where}: the group contains duplicate parameters, which are updated twice", stacklevel=3
            )
        known = {p for group in self.param_groups for p in group["params"]}
        if not known.isdisjoint(params):
            raise ValueError(f"{where}: some parameters appear in more than one parameter group")

        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for name, default in self.defaults.items():
            param_group.setdefault(name, default)
        self.param_groups.append(param_group)

    def _refusal(self, p: Any) -> str | None:
        """Why a tensor cannot be a parameter of this optimiser, if it cannot."""
        return None

    def _misfit(self, p: Any, state: Any) -> str | None:
        """Why a loaded state cannot be that of the parameter `p`, if it cannot."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """The optimiser's state as plain containers: `{"state": …, "param_groups": …}`.

        Parameters are replaced by their number, counted through all groups.  The tensors are the optimiser's
        own, not copies.
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        number: dict[Any, int] = {}
        for group in self.param_groups:
            for p in group["params"]:
                number.setdefault(p, len(number))
        groups = [{k: v for k, v in g.items() if k != "params"} for g in self.param_groups]
        for group, packed in zip(self.param_groups, groups):
            packed["params"] = [number[p] for p in group["params"]]
        state = {number[k] if isinstance(k, TensorBase) else k: v for k, v in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over the state and the options of `state_dict`, made by `state_dict()` of an optimiser with
        groups of the same sizes.

        State tensors are copied to the device of their parameter and, for floating-point parameters, to its
        dtype. Raises ValueError when the numbers of groups or of parameters in a group differ, or a state is of a
        parameter of another shape; nothing is loaded then.
        """
        where = f"{type(self).__name__}.load_state_dict"
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError(
                f"{where}: loaded state dict has a different number of parameter groups: {len(saved)}, the optimizer "
                f"has {len(self.param_groups)}"
            )
        for i, (group, new) in enumerate(zip(self.param_groups, saved)):
            if len(group["params"]) != len(new["params"]):
                raise ValueError(
                    f"{where}: loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group: group {i} has {len(new['params'])} parameters, wanted {len(group['params'])}"
                )
        owner = {
            index: (p, new)
            for group, new in zip(self.param_groups, saved)
            for index, p in zip(new["params"], group["params"])
        }
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owner:
                p, group = owner[key]
                wrong = self._misfit(p, value)
                if wrong is not None:
                    raise ValueError(f"{where}: state of parameter {key}: {wrong}")
                state[p] = _copy_state(value, p, group, self._counts)
            else:
                state[key] = deepcopy(value)
        for group, new in zip(self.param_groups, saved):
            new["params"] = group["params"]
            if "param_names" in group:
                new.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` before each step; it may return new `(args, kwargs)`."""
        return self._add_hook("_optimizer_step_pre_hooks", hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` after each step."""
        return self._add_hook("_optimizer_step_post_hooks", hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` before `state_dict()`."""
        return self._add_hook("_optimizer_state_dict_pre_hooks", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` after `state_dict()`; it may return another dict in its
        place."""
        return self._add_hook("_optimizer_state_dict_post_hooks", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` before `load_state_dict()`; it may return another dict in its
        place."""
        return self._add_hook("_optimizer_load_state_dict_pre_hooks", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` after `load_state_dict()`."""
        return self._add_hook("_optimizer_load_state_dict_post_hooks", hook, prepend)


def _copy_state(value: Any, p: Any, group: Group, counts: Sequence[str], key: str | None = None) -> Any:
    """A copy of a state entry with its tensors where, and of the dtype, the parameter `p` is.

    Those named in `counts` keep their dtype, and lie beside `p` only where the step runs there.
    """
    if isinstance(value, TensorBase):
        if key not in counts:
            dtype = p.dtype if p.is_floating_point() else value.dtype
            return value.detach().to(device=p.device, dtype=dtype, copy=True)
        if group.get("capturable") or group.get("fused"):
            return value.detach().to(device=p.device, dtype=by_name["float32"], copy=True)
        return value.detach().clone()
    if isinstance(value, dict):
        return {k: _copy_state(v, p, group, counts, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copy_state(v, p, group, counts) for v in value)
    return deepcopy(value)
