"""The call of a module that has hooks, and the hooks that concern every module.

A module without hooks never comes here: `Module.__call__` goes straight to `forward`.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..._tensor import Tensor
from ...autograd.function import Function
from ...autograd.grad_mode import is_grad_enabled
from ...core.make.create import zeros_like
from ...utils.hooks import RemovableHandle

if TYPE_CHECKING:
    from .module import Module

__all__ = [
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]


class _GlobalHooks:
    """Hooks called for every module, under the names they have on a single one."""

    def __init__(self) -> None:
        self._forward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
        self._forward_pre_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
        self._forward_hooks: OrderedDict[int, Callable] = OrderedDict()
        self._forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
        self._forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
        self._backward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
        self._backward_hooks: OrderedDict[int, Callable] = OrderedDict()


_everywhere = _GlobalHooks()


def add_hook(hooks: OrderedDict, hook: Callable, prepend: bool = False, **flags: Any) -> RemovableHandle:
    """File `hook` under a new id; each `flags` pair (dictionary, value) notes that id in the dictionary if
    value is true.
    """
    handle = RemovableHandle(hooks, extra_dict=[marks for marks, _ in flags.values()])
    hooks[handle.id] = hook
    for marks, value in flags.values():
        if value:
            marks[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def call_with_hooks(module: Module, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`module.forward(*args, **kwargs)` between its hooks; those of every module come before its own."""
    called: set[int] = set()
    result = None
    try:
        args, kwargs = _run_forward_pre_hooks(module, args, kwargs)
        backward = _BackwardHooks.of(module)
        if backward is not None:
            args = backward.watch_inputs(args)
        result = module.forward(*args, **kwargs)
        for owner, key, hook in _forward_hooks(module):
            called.add(key)
            replaced = _run_forward_hook(owner, key, hook, module, args, kwargs, result)
            if replaced is not None:
                result = replaced
        return result if backward is None else backward.watch_outputs(result)
    except Exception:
        for owner, key, hook in _forward_hooks(module):
            if key in owner._forward_hooks_always_called and key not in called:
                try:
                    replaced = _run_forward_hook(owner, key, hook, module, args, kwargs, result)
                    if replaced is not None:
                        result = replaced
                except Exception as error:
                    warnings.warn(
                        "module forward hook with ``always_call=True`` raised an exception "
                        f"that was silenced as another error was raised in forward: {error}",
                        stacklevel=3,
                    )
        raise


def _forward_hooks(module: Module) -> list[tuple[Module | _GlobalHooks, int, Callable]]:
    """The forward hooks that apply now, as a list, since a hook may remove itself."""
    return [
        (owner, key, hook) for owner in (_everywhere, module) for key, hook in owner._forward_hooks.items()
    ]


def _run_forward_pre_hooks(
    module: Module, args: tuple, kwargs: dict[str, Any]
) -> tuple[tuple, dict[str, Any]]:
    for owner in (_everywhere, module):
        for key, hook in list(owner._forward_pre_hooks.items()):
            if key in owner._forward_pre_hooks_with_kwargs:
                replaced = hook(module, args, kwargs)
                if replaced is not None:
                    if not (isinstance(replaced, tuple) and len(replaced) == 2):
                        raise RuntimeError(
                            "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                            f"but got {replaced}."
                        )
                    args, kwargs = replaced
            else:
                replaced = hook(module, args)
                if replaced is not None:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
    return args, kwargs


def _run_forward_hook(
    owner: Module | _GlobalHooks,
    key: int,
    hook: Callable,
    module: Module,
    args: tuple,
    kwargs: dict,
    result: Any,
) -> Any:
    if key in owner._forward_hooks_with_kwargs:
        return hook(module, args, kwargs, result)
    return hook(module, args, result)


class _BackwardHooks:
    """The backward hooks of one call of a module.

    Its inputs and its outputs each pass through an identity node of the graph, so that the gradients of all
    outputs, and later those of all inputs, are met together, each at one place.
    """

    def __init__(self, module: Module, pre_hooks: list[Callable], hooks: list[Callable]) -> None:
        self.module = module
        self.pre_hooks = pre_hooks
        self.hooks = hooks
        self.inputs: tuple = ()
        self.watched_inputs: list[int] = []
        self.watched_outputs: list[int] = []
        self.n_outputs = 0
        self.grad_output: tuple | None = None

    @classmethod
    def of(cls, module: Module) -> _BackwardHooks | None:
        """The hooks that apply to `module` at this moment, or None where there are none."""
        pre_hooks = [*_everywhere._backward_pre_hooks.values(), *module._backward_pre_hooks.values()]
        hooks = [*_everywhere._backward_hooks.values(), *module._backward_hooks.values()]
        return cls(module, pre_hooks, hooks) if pre_hooks or hooks else None

    def watch_inputs(self, args: tuple) -> tuple:
        watched, self.watched_inputs = _watch(args, self._on_input_grads)
        # Only the shapes of tensors that need no gradient are wanted later: their "gradient" is zeros.
        self.inputs = tuple(a if isinstance(a, Tensor) else None for a in args)
        return watched

    def watch_outputs(self, result: Any) -> Any:
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                f"but received {type(result)}",
                stacklevel=4,
            )
        outputs = result if isinstance(result, tuple) else (result,)
        self.n_outputs = len(outputs)
        outputs, self.watched_outputs = _watch(outputs, self._on_output_grads)
        return outputs if isinstance(result, tuple) else outputs[0]

    def _on_output_grads(self, grads: tuple) -> tuple:
        grad_output: tuple = _spread(grads, self.watched_outputs, [None] * self.n_outputs)
        for hook in self.pre_hooks:
            replaced = hook(self.module, grad_output)
            if replaced is not None:
                replaced = replaced if isinstance(replaced, (tuple, list)) else (replaced,)
                if len(replaced) != len(grad_output):
                    raise RuntimeError(
                        "Backward pre hook returned an invalid number of grad_output, "
                        f"got {len(replaced)}, but expected {len(grad_output)}"
                    )
                grad_output = tuple(replaced)
        if self.watched_inputs:
            self.grad_output = grad_output
        elif self.hooks:
            self._call_without_input_grads(grad_output)
        return tuple(grad_output[i] for i in self.watched_outputs)

    def _call_without_input_grads(self, grad_output: tuple) -> None:
        """No input needs a gradient, so the gradients of the outputs are the only occasion to call the
        hooks.
        """
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs "
            "since no inputs require gradients.",
            stacklevel=2,
        )
        grad_input = (None,) * len(self.inputs)
        for hook in self.hooks:
            replaced = hook(self.module, grad_input, grad_output)
            if replaced is not None and any(g is not None for g in replaced):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient "
                    "should always return None or None for all gradients."
                )

    def _on_input_grads(self, grads: tuple) -> tuple:
        if self.grad_output is None:  # reached other than through the outputs, as in a double backward
            return grads
        # Like PyTorch, every tensor among the inputs gets a gradient, be it zeros; what is no tensor gets
        # None.
        grad_input = _spread(grads, self.watched_inputs, [None] * len(self.inputs))
        grad_input = tuple(
            zeros_like(tensor) if grad is None and tensor is not None else grad
            for grad, tensor in zip(grad_input, self.inputs, strict=True)
        )
        for hook in self.hooks:
            replaced = hook(self.module, grad_input, self.grad_output)
            if replaced is not None:
                replaced = replaced if isinstance(replaced, (tuple, list)) else (replaced,)
                if len(replaced) != len(grad_input):
                    raise RuntimeError(
                        "Backward hook returned an invalid number of grad_input, "
                        f"got {len(replaced)}, but expected {len(grad_input)}"
                    )
                grad_input = tuple(replaced)
        self.grad_output = None
        return tuple(grad_input[i] for i in self.watched_inputs)


def _watch(values: tuple, on_grads: Callable[[tuple], tuple]) -> tuple[tuple, list[int]]:
    """`values` with the tensors that need a gradient led through one identity node, and where those stand."""
    if not is_grad_enabled():
        return values, []
    where = [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]
    if not where:
        return values, []
    watched = _identity().apply(on_grads, *(values[i] for i in where))
    spread = _spread(watched, where, list(values))
    # A named tuple is built from its fields, not from one iterable.
    return spread if type(values) is tuple else type(values)(*spread), where


def _spread(values: tuple, where: list[int], into: list) -> tuple:
    for i, value in zip(where, values, strict=True):
        into[i] = value
    return tuple(into)


_Identity: Any = None


def _identity() -> Any:
    """The autograd function that hands its gradients to a callback; made on first use, as most programs need
    none.
    """
    global _Identity
    if _Identity is None:

        class Identity(Function):
            @staticmethod
            def forward(ctx: Any, on_grads: Callable[[tuple], tuple], *tensors: Tensor) -> tuple[Tensor, ...]:
                ctx.set_materialize_grads(False)
                ctx.on_grads = on_grads
                return tuple(tensor.view_as(tensor) for tensor in tensors)

            @staticmethod
            def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
                return None, *ctx.on_grads(grads)

        _Identity = Identity
    return _Identity


def _switch_on() -> None:
    from .module import Module

    Module._hooked = True


def register_module_forward_pre_hook(hook: Callable[[Module, tuple], Any]) -> RemovableHandle:
    """Call `hook(module, args)` before the forward of every module; it may return new arguments.

    Such hooks come before the module's own ones.
    """
    _switch_on()
    return add_hook(_everywhere._forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the forward of every module; it may return a new output.

    With `with_kwargs` the hook is called as `hook(module, args, kwargs, output)`, with `always_call` also
    when the forward raises. Such hooks come before the module's own ones.
    """
    _switch_on()
    return add_hook(
        _everywhere._forward_hooks,
        hook,
        with_kwargs=(_everywhere._forward_hooks_with_kwargs, with_kwargs),
        always_call=(_everywhere._forward_hooks_always_called, always_call),
    )


def register_module_full_backward_pre_hook(hook: Callable[[Module, tuple], Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` when the gradients of any module's outputs are known; see the Module's
    method.
    """
    _switch_on()
    return add_hook(_everywhere._backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[[Module, tuple, tuple], Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` when the gradients of any module's inputs are known.

    See `Module.register_full_backward_hook`.
    """
    _switch_on()
    return add_hook(_everywhere._backward_hooks, hook)
