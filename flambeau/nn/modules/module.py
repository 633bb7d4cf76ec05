"""`Module`, the base of everything in `flambeau.nn`: parameters, buffers, submodules and hooks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from ..._tensor import Tensor
from ...core.base.callbacks import callbacks
from ...core.call.module import call, quicken
from ..parameter import Buffer, Parameter
from ._convert import ConversionMixin
from ._hooks import (
    HooksMixin,
    call_with_hooks,
    everywhere,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ._state import (  # noqa: F401  found here by other people
    _EXTRA_STATE_KEY_SUFFIX,
    StateDictMixin,
    _IncompatibleKeys,
)

if TYPE_CHECKING:
    from typing import Self

    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)

    class _Forward(Protocol[P, R]):
        """A module, for type checkers: a call takes and gives what its `forward` does."""

        def forward(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


def _typename(value: object) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _addindent(s_: str, numSpaces: int = 2) -> str:  # noqa: N803  called so in the reprs of other people's modules
    return s_.replace("\n", "\n" + " " * numSpaces)


def _described(argument: object) -> str:
    if isinstance(argument, Tensor):
        return f"a tensor of shape {tuple(argument.shape)}"
    return type(argument).__name__


def _members() -> dict[str, Any]:
    """What every module has, empty."""
    return {
        "_parameters": {},
        "_buffers": {},
        "_non_persistent_buffers_set": set(),
        "_modules": {},
        "_backward_pre_hooks": OrderedDict(),
        "_backward_hooks": OrderedDict(),
        "_is_full_backward_hook": None,
        "_forward_hooks": OrderedDict(),
        "_forward_hooks_with_kwargs": OrderedDict(),
        "_forward_hooks_always_called": OrderedDict(),
        "_forward_pre_hooks": OrderedDict(),
        "_forward_pre_hooks_with_kwargs": OrderedDict(),
        "_state_dict_hooks": OrderedDict(),
        "_state_dict_pre_hooks": OrderedDict(),
        "_load_state_dict_pre_hooks": OrderedDict(),
        "_load_state_dict_post_hooks": OrderedDict(),
    }


class Module(StateDictMixin, ConversionMixin, HooksMixin):
    """A piece of a network: its parameters, its buffers, the modules it is made of, and a `forward`.

    A subclass calls `super().__init__()`, assigns `Parameter`s, `Buffer`s and other modules as attributes,
    which registers them, and defines `forward`. Calling the module runs its hooks and `forward`. They lie in
    the dictionaries `_parameters`, `_buffers` and `_modules`, in the order of assignment.

    Raises:
        TypeError: an argument is given
        NotImplementedError: it is called, and the class has no `forward`
        AttributeError: an attribute is read that is not there; a module or parameter is assigned before
            `super().__init__()`

    >>> import flambeau
    >>> from flambeau import nn
    >>> class Affine(nn.Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.scale = nn.Parameter(flambeau.ones(size))
    ...         self.inner = nn.Linear(size, size)
    ...     def forward(self, x):
    ...         return self.inner(x * self.scale)
    >>> model = Affine(3)
    >>> [name for name, _ in model.named_parameters()]
    ['scale', 'inner.weight', 'inner.bias']
    >>> model(flambeau.zeros(2, 3)).shape == (2, 3)
    True
    """

    training: bool
    # Whether a call has to look at hooks at all. Set on an instance by its first hook, on this class by a
    # global one.
    _hooked: bool = False
    # A class that shares `__init__` with another base by multiple inheritance sets this to have that one
    # called too.
    call_super_init: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            name = type(self).__name__
            if kwargs:
                raise TypeError(
                    f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            raise TypeError(f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        # Straight into the dictionary: none of these can be a parameter, a buffer or a module.
        self.__dict__.update(training=True, **_members())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __getstate__(self) -> Any:
        """What is copied or pickled: a new dict of the attributes, or a pair of it and of what `__slots__` hold."""
        state = object.__getstate__(self)
        if isinstance(state, tuple):
            return state
        state = dict(self.__dict__)
        state.pop("_compiled_call_impl", None)  # of this module, and not of a copy
        state.pop("_compiled_inner", None)
        return state

    def __setstate__(self, state: Any) -> None:
        """Take over the attributes of a copied or unpickled module.

        Members that versions of before did not have, or that PyTorch does not have, are made anew.
        """
        state, slots = state if isinstance(state, tuple) else (state, None)
        self.__dict__.update(state or {})
        for name, value in (slots or {}).items():
            object.__setattr__(self, name, value)
        for name, made in _members().items():
            self.__dict__.setdefault(name, made)
        self._look_for_hooks()

    # ------------------------------------------------------------------ the call

    if TYPE_CHECKING:

        def __call__(self: _Forward[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:
        __call__ = call

    def _call_with_hooks(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return call_with_hooks(self, args, kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """The call of a module that is compiled in its place, as it is without that."""
        if Module._hooked or self._has_hooks():
            return call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    _compiled_call_impl: Callable[..., Any] | None = None  # runs the calls after `compile`

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """`flambeau.compile` for this module in its place: its calls are captured, and its class and attributes stay what they are.

        Arguments and errors are those of `flambeau.compile`.  Copies of the module, and what is pickled, are not compiled.

        >>> import flambeau
        >>> layer = flambeau.nn.Linear(2, 1)
        >>> layer.compile(backend="eager")
        >>> layer(flambeau.ones(3, 2)).shape
        flambeau.Size([3, 1])
        """
        callbacks["compiled module"](self, *args, **kwargs)

    def _note_failure(self, args: tuple, error: Exception) -> None:
        """Add to an error of the call which module it came from, by its name in the modules around it, and for what input."""
        failed = getattr(error, "_failed_in", None)
        if failed is None:
            given = ", ".join(map(_described, args)) or "no positional arguments"
            text = f"{self._get_name()}({self.extra_repr()}), called with {given}"
            # Not the module itself, which would be pickled with an error that goes to another process.
            error._failed_in = id(self), text  # type: ignore[attr-defined]
            error.add_note(f"in {text}")
            return
        inner, text = failed
        path = next((name for name, module in self.named_modules() if id(module) == inner), None)
        notes = [note for note in error.__notes__ if not note.endswith(text)]
        if path is not None:
            error.__notes__ = [*notes, f"in {path}: {text}"]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        quicken(cls, Module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; every subclass defines it. Call the module instead, so that hooks run.

        Raises:
            NotImplementedError: the class has no `forward` of its own.
        """
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # ------------------------------------------------------------------ attributes

    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            members = attributes.get(kind)
            if members is not None and name in members:
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        if "_parameters" not in attributes:  # before __init__
            for cls, kind in ((Parameter, "parameters"), (Module, "module"), (Buffer, "buffer")):
                if isinstance(value, cls):
                    raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
            object.__setattr__(self, name, value)
        elif isinstance(value, Parameter):
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
        elif name in self._parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as parameter '{name}' "
                    "(flambeau.nn.Parameter or None expected)"
                )
            self._parameters[name] = None
        elif isinstance(value, Module):
            self._forget(name, keep="_modules")
            self._modules[name] = everywhere.registered("module", self, name, value)
        elif name in self._modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as child module '{name}' "
                    "(flambeau.nn.Module or None expected)"
                )
            self._modules[name] = everywhere.registered("module", self, name, None)
        elif isinstance(value, Buffer):
            self.register_buffer(name, value, value.persistent)
        elif name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as buffer '{name}' "
                    "(flambeau.nn.Buffer, flambeau.Tensor or None expected)"
                )
            self._buffers[name] = everywhere.registered("buffer", self, name, value)
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name: str, keep: str) -> None:
        """Remove the attribute `name` of whatever kind, other than from the dictionary `keep`."""
        self.__dict__.pop(name, None)
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind != keep:
                self.__dict__[kind].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for members in (self._parameters, self._buffers, self._modules):
            if name in members:
                del members[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[0].isdigit())

    # ------------------------------------------------------------------ registration

    def _check_new_name(self, kind: str, name: str, members: str) -> None:
        if members not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[members]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, also reachable as the attribute `name`.

        Args:
            name: a non-empty string without a dot that names no other attribute.
            param: a leaf; None keeps the place free: it is shown in no `state_dict`.

        Raises:
            AttributeError: before `Module.__init__`.
            KeyError: an empty name, one with a dot, or one that is taken.
            TypeError: `name` is no string, or `param` neither a Parameter nor None.
            ValueError: `param` is not a leaf of the graph.
        """
        self._check_new_name("parameter", name, "_parameters")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{_typename(param)}' object to parameter '{name}' "
                    "(flambeau.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                    "the forward() method."
                )
            param = everywhere.registered("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not trained, such as running statistics, also reachable as an
        attribute.

        Args:
            name: as in `register_parameter`.
            tensor: of any shape and dtype; it moves and changes dtype with the module. None keeps the place
                free.
            persistent: whether it is part of the `state_dict`.

        Raises:
            AttributeError, KeyError, TypeError: as in `register_parameter`.
        """
        self._check_new_name("buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' "
                "(flambeau.Tensor or None required)"
            )
        self._buffers[name] = everywhere.registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module, also reachable as the attribute `name`; None keeps the place free.

        Raises:
            AttributeError, KeyError: as in `register_parameter`.
            TypeError: `name` is no string, or `module` neither a Module nor None.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_new_name("module", name, "_modules")
        self._modules[name] = everywhere.registered("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    # ------------------------------------------------------------------ members by dotted name

    def get_submodule(self, target: str) -> Module:
        """The submodule of that dotted name, such as `"encoder.0.linear"`; the module itself for `""`.

        Raises:
            AttributeError: a part of the name does not exist, or is not a Module.
        """
        module = self
        for part in target.split(".") if target else ():
            module = module._member(part, Module, "an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at that dotted name, in place of the submodule there if there is one.

        Args:
            target: the dotted name; all but its last part must exist.
            module: the new submodule.
            strict: demand that there be a submodule to replace.

        Raises:
            ValueError: an empty name, or `module` is not a Module.
            AttributeError: a part of the name does not exist, or is not a Module.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            parent._member(name, Module, "an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of that dotted name; AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        return self.get_submodule(path)._member(name, Parameter, "an nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of that dotted name; AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        buffer = module._member(name, object, "a buffer")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    def _member(self, name: str, cls: type, wanted: str) -> Any:
        if not hasattr(self, name):
            raise AttributeError(f"{self._get_name()} has no attribute `{name}`")
        member = getattr(self, name)
        if not isinstance(member, cls):
            raise AttributeError(f"`{name}` is not {wanted}")
        return member

    # ------------------------------------------------------------------ iteration

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once, in the order of registration; only the module's own with
        `recurse=False`.
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their dotted names.

        Args:
            prefix: put before every name, with a dot.
            recurse: whether to go into submodules.
            remove_duplicate: whether a parameter registered in several places is given once only.

        >>> from flambeau import nn
        >>> [name for name, _ in nn.Sequential(nn.Linear(2, 2, bias=False)).named_parameters()]
        ['0.weight']
        """
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once, in the order of registration; only the module's own with
        `recurse=False`.
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their dotted names; the arguments are those of `named_parameters`."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def children(self) -> Iterator[Module]:
        """The immediate submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The immediate submodules with their names, each once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """The module itself and all modules below it, each once, parents before children."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """The module itself, under the name `prefix`, and all modules below it with their dotted names.

        Args:
            memo: modules already seen, which are left out; it is added to.
            prefix: put before every name.
            remove_duplicate: whether a module reached in several ways is given once only.
        """
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(
                    memo, f"{prefix}.{name}" if prefix else name, remove_duplicate
                )

    # ------------------------------------------------------------------ changing all of it

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` with every submodule, children before parents, and last with the module itself; return
        it.
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set `training` here and in all submodules; it matters to Dropout, BatchNorm and their like.

        Raises:
            ValueError: `mode` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, got {type(mode).__name__}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether the parameters want gradients; return the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros if `set_to_none` is false."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    # ------------------------------------------------------------------ copies
    def _replicate_for_data_parallel(self) -> Self:
        """A copy for another device, to be filled: it has this module's attributes and buffers, and no parameters."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__.pop("_compiled_inner", None)  # of this module, and not of a copy
        copy.__dict__.update(
            _parameters={}, _buffers=dict(self._buffers), _modules=dict(self._modules), _is_replica=True
        )
        return copy

    # ------------------------------------------------------------------ repr

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the parentheses of the module's repr before its children; a subclass defines
        it.
        """
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        lines += [f"({name}): {_addindent(repr(module))}" for name, module in self._modules.items()]
        if len(lines) == 1 and extra:
            return f"{self._get_name()}({lines[0]})"
        body = "\n  " + "\n  ".join(lines) + "\n" if lines else ""
        return f"{self._get_name()}({body})"

    def _repr_html_(self) -> str:
        """What notebooks show: a table of the modules inside."""
        return callbacks["module_html"](self)


quicken(Module, Module)
