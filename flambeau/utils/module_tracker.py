"""Which modules a program is in, forward and backward, as `torch.utils.module_tracker`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from .._tensor import Tensor
from ..autograd.graph import register_multi_grad_hook
from ..core.tape.engine import current_pass
from ..nn.modules._hooks import register_module_forward_hook, register_module_forward_pre_hook
from ._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Knows, in its block, the modules whose forward or backward runs: `parents`, a set of names that always has "Global".

    A module that nobody else contains is called by its class, those in it as in its `state_dict`: `Sequential.0`.  In a backward
    pass a module is entered when gradients of its results arrive, and left when those of its arguments do; one whose arguments
    want no gradients is left at the end of the pass.  `is_bw` tells whether a backward pass runs.

    >>> import flambeau
    >>> from flambeau.utils.module_tracker import ModuleTracker
    >>> class Shown(flambeau.nn.Module):
    ...     def forward(self, x):
    ...         print(sorted(tracker.parents), tracker.is_bw)
    ...         return x
    >>> with ModuleTracker() as tracker:
    ...     x = flambeau.nn.Sequential(Shown())(flambeau.ones(1))
    ['Global', 'Sequential', 'Sequential.0'] False
    """

    def __init__(self) -> None:
        self._parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._pass: int | None = None  # the backward pass that has changed `parents`
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass runs in this thread."""
        return current_pass() is not None

    @property
    def parents(self) -> set[str]:
        """The names of the modules that run, and "Global"."""
        if self._pass is not None and current_pass() != self._pass:
            self._parents, self._pass = {"Global"}, None
        return self._parents

    def _name(self, module: Any) -> str:
        name = self._names.get(module)
        if name is None:
            name = type(module).__name__
            for path, inner in module.named_modules():
                self._names.setdefault(inner, f"{name}.{path}" if path else name)
        return name

    def _enter(self, name: str, backward: bool) -> None:
        if backward:
            _ = self.parents  # those of an earlier pass are left
            self._pass = current_pass()
        self.parents.add(name)

    def _leave(self, name: str) -> None:
        self.parents.discard(name)

    def _on_gradients(self, values: Any, call: Callable[[], None]) -> None:
        """Call when the gradients of the tensors in these values have arrived."""
        tensors = [x for x in tree_leaves(values) if isinstance(x, Tensor) and x.requires_grad]
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, lambda grads: call()))

    def _before(self, module: Any, args: Any) -> None:
        name = self._name(module)
        self._enter(name, False)
        self._on_gradients(args, lambda: self._leave(name))

    def _after(self, module: Any, args: Any, output: Any) -> None:
        name = self._name(module)
        self._leave(name)
        self._on_gradients(output, lambda: self._enter(name, True))

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after),
        ]
        return self

    def __exit__(self, *exception: Any) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._parents, self._pass = {"Global"}, None
