"""Which modules `FullyShardedDataParallel` wraps: policies, and what applies them from the leaves up."""

from __future__ import annotations

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...nn.modules.activation import MultiheadAttention
from ...nn.modules.container import ModuleDict, ModuleList
from ...nn.modules.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


def _or_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, policies: Iterable[Callable[..., bool]]
) -> bool:
    """Whether one of several policies would wrap a module."""
    return any(
        policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies
    )


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Wrap every module: True.

    Raises nothing.

    >>> from flambeau.distributed.fsdp.wrap import always_wrap_policy
    >>> always_wrap_policy()
    True
    """
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Wrap the modules for which `lambda_fn(module)` is true.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.distributed.fsdp.wrap import lambda_auto_wrap_policy
    >>> lambda_auto_wrap_policy(nn.ReLU(), False, 0, lambda module: isinstance(module, nn.Linear))
    False
    """
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Iterable[type[Module]]
) -> bool:
    """Wrap the modules of some classes.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.distributed.fsdp.wrap import transformer_auto_wrap_policy
    >>> transformer_auto_wrap_policy(nn.Linear(2, 2), False, 6, {nn.Linear})
    True
    """
    return True if recurse else isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Wrap a module that has `min_num_params` elements of parameters that no module in it was wrapped with.

    Args:
        force_leaf_modules: classes whose modules are not looked into, by default `nn.MultiheadAttention`.
        exclude_wrap_modules: classes whose modules are not wrapped, by default `nn.ModuleList` and `nn.ModuleDict`.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.distributed.fsdp.wrap import size_based_auto_wrap_policy
    >>> size_based_auto_wrap_policy(nn.Linear(9, 9), False, 90, min_num_params=50)
    True
    """
    defaults = size_based_auto_wrap_policy
    leaves = defaults.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules  # type: ignore[attr-defined]
    excluded = (
        defaults.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules  # type: ignore[attr-defined]
    )
    return nonwrapped_numel >= min_num_params and not isinstance(
        module, tuple(leaves if recurse else excluded)
    )


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}  # type: ignore[attr-defined]


class _Policy(ABC):
    """Which modules in a module are wrapped, and with which arguments."""

    @abstractmethod
    def _run_policy(
        self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]
    ) -> dict[Module, dict[str, Any]]:
        """The modules, each with its arguments."""


class ModuleWrapPolicy(_Policy):
    """Wraps the modules of some classes.

    Args:
        module_classes: the classes.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy
    >>> ModuleWrapPolicy({nn.Linear})(nn.ReLU(), recurse=False)
    False
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def _run_policy(
        self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]
    ) -> dict[Module, dict[str, Any]]:
        classes = tuple(self._module_classes)
        return {
            module: copy.copy(root_kwargs)
            for module in root_module.modules()
            if module not in ignored_modules and isinstance(module, classes)
        }

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return True if recurse else isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"{super().__repr__()}({self._module_classes})"


class CustomPolicy(_Policy):
    """Wraps the modules for which a function returns True, or a dictionary of arguments that go before those of the outermost one.

    Args:
        lambda_fn: called with each module; False, or an empty dictionary, leaves it as it is.

    Raises ValueError, when it is applied, for results that are neither.

    >>> from flambeau import nn
    >>> from flambeau.distributed.fsdp.wrap import CustomPolicy
    >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> len(CustomPolicy(lambda module: isinstance(module, nn.ReLU))._run_policy(net, set(), {}))
    1
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def _run_policy(
        self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]
    ) -> dict[Module, dict[str, Any]]:
        wrapped = {}
        for module in root_module.modules():
            if module in ignored_modules:
                continue
            result = self._lambda_fn(module)
            if not isinstance(result, (dict, bool)):
                raise ValueError(
                    f"The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but it returned {result}"
                )
            if result:
                wrapped[module] = {**root_kwargs, **(result if isinstance(result, dict) else {})}
        return wrapped


class _Context:
    """What `enable_wrap` was given, while its block runs."""

    wrapper_cls: Any = None
    kwargs: dict[str, Any] = {}


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Inside, `wrap(module)` is `wrapper_cls(module, **wrapper_kwargs)`.  NotImplementedError inside of another one.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.distributed.fsdp.wrap import enable_wrap, wrap
    >>> with enable_wrap(wrapper_cls=nn.Sequential):
    ...     type(wrap(nn.ReLU())).__name__
    'Sequential'
    """
    if _Context.wrapper_cls is not None:
        raise NotImplementedError(
            "You are already within an autowrap context and we currently do not supported nested autowrap."
        )
    _Context.wrapper_cls, _Context.kwargs = wrapper_cls, wrapper_kwargs
    try:
        yield
    finally:
        _Context.wrapper_cls, _Context.kwargs = None, {}


def wrap(module: Module, **wrap_overrides: Any) -> Any:
    """The module in the wrapper of the `enable_wrap` around; the module itself outside of one.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.distributed.fsdp.wrap import wrap
    >>> type(wrap(nn.ReLU())).__name__
    'ReLU'
    """
    if _Context.wrapper_cls is None:
        return module
    return _wrapped(module, _Context.wrapper_cls, {**_Context.kwargs, **wrap_overrides})


def _wrapped(module: Module, wrapper_cls: Any, kwargs: dict[str, Any]) -> Any:
    return wrapper_cls(module, **{**kwargs, **getattr(module, "_wrap_overrides", {})})


def _recursive_wrap(
    module: Module,
    auto_wrap_policy: Callable[..., bool],
    wrapper_cls: Any,
    ignored_modules: set[Module],
    ignored_params: set[Any],
    only_wrap_children: bool = False,
    **kwargs: Any,
) -> tuple[Any, int]:
    """Wrap what a policy function says, from the leaves up; the module, and how many elements were wrapped in it."""
    if isinstance(wrapper_cls, type):
        for child in module.modules():
            if child not in ignored_modules and isinstance(child, wrapper_cls):
                raise AssertionError(f"Child module {child} is already wrapped by {wrapper_cls}")
    numel = sum(p.numel() for p in module.parameters() if p not in ignored_params)
    if not auto_wrap_policy(module=module, recurse=True, nonwrapped_numel=numel):
        return module, 0
    wrapped = 0
    for name, child in module.named_children():
        if child in ignored_modules:
            continue
        made, count = _recursive_wrap(
            child, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, **kwargs
        )
        setattr(module, name, made)
        wrapped += count
    if not only_wrap_children and auto_wrap_policy(
        module=module, recurse=False, nonwrapped_numel=numel - wrapped
    ):
        return _wrapped(module, wrapper_cls, kwargs), numel
    return module, wrapped


def _wrap_each(root: Module, targets: dict[Module, dict[str, Any]], wrapper_cls: Any) -> None:
    """Wrap the modules of a policy's result, but for the outermost one, from the leaves up."""
    seen = {root}

    def visit(module: Module, name: str, parent: Module | None) -> None:
        for child_name, child in module.named_children():
            if child not in seen:
                seen.add(child)
                visit(child, child_name, module)
        if parent is not None and module in targets:
            setattr(parent, name, wrapper_cls(module, **targets[module]))

    visit(root, "", None)
