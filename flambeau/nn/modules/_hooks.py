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
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
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
        self._is_full_backward_hook: bool | None = None
        self.registration: dict[str, OrderedDict[int, Callable]] = {
            "parameter": OrderedDict(),
            "buffer": OrderedDict(),
            "module": OrderedDict(),
        }

    def registered(self, kind: str, module: Any, name: str, value: Any) -> Any:
        """What hooks make of a parameter, buffer or child that a module is about to register under a name."""
        for hook in self.registration[kind].values():
            replaced = hook(module, name, value)
            if replaced is not None:
                value = replaced
        return value


everywhere = _GlobalHooks()


def _choose_kind(owner: Any, full: bool, where: str) -> None:
    """All backward hooks are of one kind: of the module's own gradients (full), or of its last operation's."""
    if owner._backward_hooks and owner._is_full_backward_hook is not full:
        raise RuntimeError(
            f"Cannot use both regular backward hooks and full backward hooks {where}. Please use only one of them."
        )
    owner._is_full_backward_hook = full


def add_hook(
    hooks: OrderedDict,
    hook: Callable[..., Any],
    prepend: bool = False,
    handles: type[RemovableHandle] = RemovableHandle,
    **flags: Any,
) -> RemovableHandle:
    """File `hook` under a new id; each `flags` pair (dictionary, value) notes that id in the dictionary if
    value is true.
    """
    handle = handles(hooks, extra_dict=[marks for marks, _ in flags.values()])
    hooks[handle.id] = hook
    for marks, value in flags.values():
        if value:
            marks[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class HooksMixin:
    """The part of `Module` that takes hooks around its call."""

    _hooked: bool
    _compiled_call_impl: Callable[..., Any] | None
    _is_full_backward_hook: bool | None
    _forward_pre_hooks: OrderedDict[int, Callable]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks: OrderedDict[int, Callable]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _backward_pre_hooks: OrderedDict[int, Callable]
    _backward_hooks: OrderedDict[int, Callable]

    def _look_for_hooks(self) -> None:
        """Have calls look at hooks from now on if there are any, and else not."""
        self.__dict__.pop("_hooked", None)
        if self._has_hooks() or self._compiled_call_impl is not None:
            self._hooked = True

    def _has_hooks(self) -> bool:
        return bool(
            self._forward_pre_hooks or self._forward_hooks or self._backward_pre_hooks or self._backward_hooks
        )

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before every `forward`; it may return new arguments.

        Args:
            hook: returns None, or the new positional arguments: a tuple, or one value that is no tuple. With
                `with_kwargs` it is called as `hook(module, args, kwargs)` and returns None or a pair of both.
            prepend: whether it comes before the hooks registered so far, not after them.
            with_kwargs: whether it is given the keyword arguments.
        """
        self._hooked = True
        with_kwargs_flag = (self._forward_pre_hooks_with_kwargs, with_kwargs)
        return add_hook(self._forward_pre_hooks, hook, prepend, with_kwargs=with_kwargs_flag)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after every `forward`; it may return a new output.

        Args:
            hook: returns None, or what replaces the output. With `with_kwargs` it is called as
                `hook(module, args, kwargs, output)`.
            prepend: whether it comes before the hooks registered so far, not after them.
            with_kwargs: whether it is given the keyword arguments.
            always_call: whether it is called, with the output None, even if `forward` or a hook raises.
        """
        self._hooked = True
        return add_hook(
            self._forward_hooks,
            hook,
            prepend,
            with_kwargs=(self._forward_hooks_with_kwargs, with_kwargs),
            always_call=(self._forward_hooks_always_called, always_call),
        )

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the module's inputs are
        computed.

        `grad_input` has an entry for each positional argument, `grad_output` for each output: a tensor, or
        None for what is no tensor (and for outputs without a gradient). If no input needs a gradient the hook
        is called with those of the outputs, and all of `grad_input` is None. Inputs and outputs must not be
        changed in place.

        Args:
            hook: returns None, or a tuple that replaces `grad_input`.
            prepend: whether it comes before the hooks registered so far, not after them.
        """
        _choose_kind(self, True, "on a single Module")
        self._hooked = True
        return add_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the last operation of `forward` is differentiated; deprecated.

        `grad_input` are the gradients of what that one operation read, which need not be the module's inputs. Use
        `register_full_backward_hook`.

        Args:
            hook: returns None, or a tuple that replaces `grad_input`.

        Raises:
            RuntimeError: the module has a full backward hook.
        """
        _choose_kind(self, False, "on a single Module")
        self._hooked = True
        return add_hook(self._backward_hooks, hook)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradients of the module's outputs are known.

        Args:
            hook: returns None, or a tuple that replaces `grad_output`.
            prepend: whether it comes before the hooks registered so far, not after them.
        """
        self._hooked = True
        return add_hook(self._backward_pre_hooks, hook, prepend)


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
        if backward is not None:
            result = backward.watch_outputs(result)
        old = _backward_hooks(module, full=False)
        if old:
            _watch_last_operation(module, old, args, result)
        return result
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
        (owner, key, hook) for owner in (everywhere, module) for key, hook in owner._forward_hooks.items()
    ]


def _run_forward_pre_hooks(
    module: Module, args: tuple, kwargs: dict[str, Any]
) -> tuple[tuple, dict[str, Any]]:
    for owner in (everywhere, module):
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
    hook: Callable[..., Any],
    module: Module,
    args: tuple,
    kwargs: dict,
    result: Any,
) -> Any:
    if key in owner._forward_hooks_with_kwargs:
        return hook(module, args, kwargs, result)
    return hook(module, args, result)


def _backward_hooks(module: Module, full: bool) -> list[Callable]:
    """The backward hooks of that kind that apply now."""
    return [
        hook
        for owner in (everywhere, module)
        if owner._is_full_backward_hook is full
        for hook in owner._backward_hooks.values()
    ]


def _watch_last_operation(module: Module, hooks: list[Callable], args: tuple, result: Any) -> None:
    """Have old backward hooks called with the gradients of the operation that made the (first) output."""
    first = result
    while not isinstance(first, Tensor):
        if isinstance(first, dict):
            first = next(value for value in first.values() if isinstance(value, Tensor))
        else:
            first = first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(BoundHook(hook, module))
    why = _what_is_missed(args, result, node)
    if why is not None:
        warnings.warn(
            f"Using a non-full backward hook when {why} is deprecated and will be removed in future versions. This hook "
            "will be missing some gradients. Please use register_full_backward_hook to get the documented behavior.",
            FutureWarning,
            stacklevel=4,
        )


def _what_is_missed(args: tuple, result: Any, node: Any) -> str | None:
    """Why the gradients of the last operation are not those of the module, or None where they are."""
    results = (result,) if isinstance(result, Tensor) else result
    if not (isinstance(results, tuple) and all(isinstance(r, Tensor) for r in results)):
        return "a Module does not return a single Tensor or a tuple of Tensors"
    if not all(isinstance(a, Tensor) for a in args):
        return "a Module does not take as input a single Tensor or a tuple of Tensors"
    nodes = {r.grad_fn for r in results if r.grad_fn is not None}
    if nodes != {node}:
        return "outputs are generated by different autograd Nodes"
    if {a.grad_fn for a in args if a.grad_fn is not None} != {n for n, _ in node.next_functions}:
        return "the forward contains multiple autograd Nodes"
    return None


class BoundHook:
    """A hook called with its module first; unlike a `partial`, it is copied and pickled along with the module."""

    def __init__(self, hook: Callable[..., Any], module: object) -> None:
        self.hook, self.module = hook, module

    def __call__(self, *args: Any) -> Any:
        return self.hook(self.module, *args)


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
        pre_hooks = [*everywhere._backward_pre_hooks.values(), *module._backward_pre_hooks.values()]
        hooks = _backward_hooks(module, full=True)
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


class _HandleOfEveryModule(RemovableHandle):
    """With the last hook for every module, calls of modules go the short way again."""

    def remove(self) -> None:
        from .module import Module

        super().remove()
        if not any(hooks for name, hooks in vars(everywhere).items() if name.endswith("_hooks")):
            Module._hooked = False


def _add_everywhere(hooks: OrderedDict, hook: Callable[..., Any], **flags: Any) -> RemovableHandle:
    from .module import Module

    Module._hooked = True
    return add_hook(hooks, hook, handles=_HandleOfEveryModule, **flags)


def register_module_forward_pre_hook(hook: Callable[[Module, tuple], Any]) -> RemovableHandle:
    """Call `hook(module, args)` before the forward of every module; it may return new arguments.

    Such hooks come before the module's own ones.

    Raises:
        TypeError: there is no hook

    >>> import flambeau
    >>> from flambeau.nn.modules.module import register_module_forward_pre_hook
    >>> handle = register_module_forward_pre_hook(lambda module, args: print(args))
    >>> _ = flambeau.nn.ReLU()(flambeau.zeros(1))
    (tensor([0.]),)
    >>> handle.remove()
    """
    return _add_everywhere(everywhere._forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the forward of every module; it may return a new output.

    With `with_kwargs` the hook is called as `hook(module, args, kwargs, output)`, with `always_call` also
    when the forward raises. Such hooks come before the module's own ones.

    Raises:
        TypeError: there is no hook

    >>> import flambeau
    >>> from flambeau.nn.modules.module import register_module_forward_hook
    >>> handle = register_module_forward_hook(lambda module, args, output: print(type(module).__name__))
    >>> _ = flambeau.nn.ReLU()(flambeau.zeros(1))
    ReLU
    >>> handle.remove()
    """
    return _add_everywhere(
        everywhere._forward_hooks,
        hook,
        with_kwargs=(everywhere._forward_hooks_with_kwargs, with_kwargs),
        always_call=(everywhere._forward_hooks_always_called, always_call),
    )


def register_module_full_backward_pre_hook(hook: Callable[[Module, tuple], Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` when the gradients of any module's outputs are known; see the Module's
    method.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.nn.modules.module import register_module_full_backward_pre_hook
    >>> handle = register_module_full_backward_pre_hook(lambda module, grad_out: print(grad_out))
    >>> flambeau.nn.ReLU()(flambeau.ones(1, requires_grad=True)).backward()
    (tensor([1.]),)
    >>> handle.remove()
    """
    return _add_everywhere(everywhere._backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[[Module, tuple, tuple], Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` when the gradients of any module's inputs are known.

    See `Module.register_full_backward_hook`.

    Raises:
        RuntimeError: there is a hook of `register_module_backward_hook`.

    >>> import flambeau
    >>> from flambeau.nn.modules.module import register_module_full_backward_hook
    >>> handle = register_module_full_backward_hook(lambda module, grad_in, grad_out: print(grad_out))
    >>> flambeau.nn.ReLU()(flambeau.ones(1, requires_grad=True)).backward()
    (tensor([1.]),)
    >>> handle.remove()
    """
    _choose_kind(everywhere, True, "as a global Module hook")
    return _add_everywhere(everywhere._backward_hooks, hook)


def register_module_backward_hook(hook: Callable[[Module, tuple, tuple], Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` when the last operation of any module's forward is differentiated.

    Deprecated; see `Module.register_backward_hook`.

    Raises:
        RuntimeError: there is a hook of `register_module_full_backward_hook`.

    >>> import flambeau
    >>> from flambeau.nn.modules.module import register_module_backward_hook
    >>> seen = []
    >>> handle = register_module_backward_hook(lambda module, before, after: seen.append(type(module).__name__))
    >>> flambeau.nn.ReLU()(flambeau.ones(2, requires_grad=True)).sum().backward()
    >>> handle.remove()
    >>> seen
    ['ReLU']
    """
    _choose_kind(everywhere, False, "as a global Module hook")
    return _add_everywhere(everywhere._backward_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[[Module, str, Any], Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` before any module registers a parameter; it may return another one.

    Raises:
        TypeError: there is no hook

    >>> import flambeau
    >>> from flambeau.nn.modules.module import register_module_parameter_registration_hook
    >>> handle = register_module_parameter_registration_hook(lambda module, name, parameter: print(name))
    >>> _ = flambeau.nn.Linear(1, 1)
    weight
    bias
    >>> handle.remove()
    """
    return add_hook(everywhere.registration["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable[[Module, str, Any], Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` before any module registers a buffer; it may return another one.

    Raises:
        TypeError: there is no hook

    >>> import flambeau
    >>> from flambeau.nn.modules.module import register_module_buffer_registration_hook
    >>> handle = register_module_buffer_registration_hook(lambda module, name, buffer: print(name))
    >>> flambeau.nn.Module().register_buffer("mean", flambeau.zeros(1))
    mean
    >>> handle.remove()
    """
    return add_hook(everywhere.registration["buffer"], hook)


def register_module_module_registration_hook(hook: Callable[[Module, str, Any], Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` before any module registers a submodule; it may return another one.

    Raises:
        TypeError: there is no hook

    >>> import flambeau
    >>> from flambeau.nn.modules.module import register_module_module_registration_hook
    >>> handle = register_module_module_registration_hook(lambda module, name, child: print(name))
    >>> _ = flambeau.nn.Sequential(flambeau.nn.ReLU())
    0
    >>> handle.remove()
    """
    return add_hook(everywhere.registration["module"], hook)
