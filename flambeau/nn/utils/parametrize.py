"""Tensors of a module that are functions of others: `module.weight` is then what a chain of modules makes of
`module.parametrizations.weight.original`.

A module with parametrised tensors is of a class derived from its own, which has a property for each of them.  That class is
made from its base and the names alone, so that modules with the same ones share it, and none is changed when another module
changes.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from threading import local
from typing import Any, NoReturn
from weakref import WeakKeyDictionary, WeakValueDictionary

from ..._tensor import Tensor
from ...autograd.grad_mode import is_grad_enabled, no_grad
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


# ---------------------------------------------------------------- the cache


class _Cache(local):
    """Of one thread: how many `cached()` are open, and the value of each `ParametrizationList` that was computed, with and
    without gradients; the list is kept beside, so that its id stays its own.
    """

    depth = 0

    def __init__(self) -> None:
        self.values: dict[tuple[int, bool], tuple[ParametrizationList, Any]] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrised tensor at most once in this thread while the context is open.

    For a forward pass that asks for one several times: a recurrent layer, or tied weights.  Assigning to a parametrised
    tensor drops its value; writing to its `original` in place does not.

    >>> from flambeau import nn
    >>> from flambeau.nn.utils import parametrizations, parametrize
    >>> layer = parametrizations.orthogonal(nn.Linear(3, 3))
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values.clear()


def _value(parametrization: Any) -> Any:
    if not _cache.depth:
        return parametrization()
    key = (id(parametrization), is_grad_enabled())
    if key not in _cache.values:
        _cache.values[key] = (parametrization, parametrization())
    return _cache.values[key][1]


# ---------------------------------------------------------------- the originals


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _kind(value: object) -> str:
    return type(value).__name__


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the tensors it is made of.

    These are `original`, or `original0`, `original1`, … where the first parametrization's `right_inverse`
    returns several. `register_parametrization` makes the list; a program does not.

    Args:
        modules: the parametrizations, at least one.
        original: the tensor that they parametrise.
        unsafe: whether they may change its shape and dtype.

    Raises:
        ValueError: no parametrizations, one that returns no tensor, or, unless `unsafe`, another shape or
            dtype; a `right_inverse` that returns neither a tensor nor a sequence of them, or another dtype or
            device.

    >>> from flambeau import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> made_of = layer.parametrizations.weight
    >>> type(made_of).__name__, len(made_of), [name for name, _ in made_of.named_parameters()]
    ('ParametrizationList', 1, ['original0', 'original1'])
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                try:
                    new = module.right_inverse(new) if hasattr(module, "right_inverse") else new
                except NotImplementedError:  # as if it had none: then it is the identity
                    continue
        tensor, sequence = isinstance(new, Tensor), isinstance(new, Sequence)
        if not (tensor or sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {_kind(new)}"
            )
        self.is_tensor = tensor
        self.ntensors = 1 if tensor else len(new)
        if tensor:
            for what in ("dtype", "device"):
                if getattr(original, what) != getattr(new, what):
                    raise ValueError(
                        f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                        f"original.{what}: {getattr(original, what)}\n"
                        f"right_inverse(original).{what}: {getattr(new, what)}"
                    )
            with no_grad():  # the same object, so that an optimiser that has it need not hear of this
                original.set_(new)
            _register(self, "original", original)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                        f"Got element {i} of the sequence with type {_kind(part)}."
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                _register(self, f"original{i}", part.requires_grad_(original.requires_grad))
        if not unsafe:
            result = self()
            if not isinstance(result, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {_kind(result)}.")
            for what, before, now in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
                if before != now:
                    raise ValueError(
                        f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag "
                        f"is enabled.\nunparametrized {what}: {before}\nparametrized {what}: {now}"
                    )

    def _originals(self) -> list[Any]:
        return (
            [self.original]
            if self.is_tensor
            else [getattr(self, f"original{i}") for i in range(self.ntensors)]
        )

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrised tensor is `value`, by the `right_inverse` of each parametrization, the
        last one first.

        Raises:
            RuntimeError: a parametrization has none.
            ValueError: what they return is not what the originals are: a tensor, or so many of them, of these dtypes.
        """
        result: Any = value
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {_kind(module)} does not implement right_inverse.")
                result = module.right_inverse(result)
            if self.is_tensor:
                if not isinstance(result, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {_kind(result)}")
                if result.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {result.dtype} "
                        f"while `original` has dtype {self.original.dtype}"
                    )
                parts = [result]
            else:
                if not isinstance(result, Sequence):
                    raise ValueError(
                        f"'right_inverse' must return a sequence of tensors. Got {_kind(result)}."
                    )
                if len(result) != self.ntensors:
                    raise ValueError(
                        f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                        f"Got a sequence of length {len(result)}."
                    )
                parts = list(result)
                for i, (part, original) in enumerate(zip(parts, self._originals(), strict=True)):
                    if not isinstance(part, Tensor):
                        raise ValueError(
                            f"'right_inverse' must return a sequence of tensors. Got element {i} of type {_kind(part)}."
                        )
                    if part.dtype != original.dtype:
                        raise ValueError(
                            f"Tensor {i} returned by `right_inverse` has dtype {part.dtype} "
                            f"while `original{i}` has dtype {original.dtype}"
                        )
            for original, part in zip(self._originals(), parts, strict=True):
                original.set_(part)
        for grad in (False, True):
            _cache.values.pop((id(self), grad), None)

    def forward(self) -> Any:
        first, *rest = self._modules.values()
        x = first(*self._originals())
        for module in rest:
            x = module(x)
        return x


# ---------------------------------------------------------------- the classes


def _refuse_pickling(self: Module) -> NoReturn:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(): save that, and load it into a "
        "module that was parametrized in the same way."
    )


def _deepcopy(self: Module, memo: dict[int, Any]) -> Any:
    """What `copy.deepcopy` does by itself for a class without `__deepcopy__` and `__getstate__`."""
    replica = type(self).__new__(type(self))
    memo[id(self)] = replica
    replica.__dict__.update(deepcopy(self.__dict__, memo))
    for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
        if hasattr(self, slot):
            setattr(replica, slot, deepcopy(getattr(self, slot), memo))
    return replica


def _property(name: str) -> property:
    def get(self: Module) -> Any:
        return _value(self.parametrizations[name])

    def assign(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, assign)


# By base and names, as long as a module is of that class.
_classes: WeakKeyDictionary[type, WeakValueDictionary[frozenset[str], type]] = WeakKeyDictionary()


def _parametrized_class(base: type, names: frozenset[str]) -> type:
    """The class of a `base` whose tensors `names` are parametrised; `base` itself where none is."""
    if not names:
        return base
    known = _classes.setdefault(base, WeakValueDictionary())
    made = known.get(names)
    if made is None:
        members: dict[str, Any] = {name: _property(name) for name in names}
        members["__getstate__"] = _refuse_pickling
        if not hasattr(base, "__deepcopy__"):
            members["__deepcopy__"] = _deepcopy
        made = known[names] = type(f"Parametrized{base.__name__}", (base,), members)
    return made


def _update_class(module: Module, base: type) -> None:
    module.__class__ = _parametrized_class(base, frozenset(module.parametrizations))


# ---------------------------------------------------------------- what programs call


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make `module.tensor_name` what `parametrization` makes of it; return `module`.

    The tensor moves to `module.parametrizations.tensor_name.original`, with its gradients, and is computed anew whenever the
    attribute is requested (but see `cached`).  Further parametrizations of the same tensor apply one after another.

    A parametrization may have a method `right_inverse(tensor)`, which gives the `original` to begin with, and whenever a
    value is assigned to the attribute.  Of the first parametrization it may return several tensors: these become `original0`,
    `original1`, …, new parameters, and the arguments of its `forward`.

    Args:
        module: any module.
        tensor_name: the name of one of its own parameters or buffers.
        parametrization: a module that makes a tensor from a tensor; it takes over the mode (training or not) of `module`.
        unsafe: whether it may change the shape and dtype; else both are tried once, here.

    Raises:
        ValueError: the module has no such tensor; the parametrization, or its `right_inverse`, returns something else than a
            tensor, or of another shape or dtype (unless `unsafe`).

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.nn.utils import parametrize
    >>> class Symmetric(nn.Module):
    ...     def forward(self, X):
    ...         return X.triu() + X.triu(1).T
    ...     def right_inverse(self, A):
    ...         return A.triu()
    >>> layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    >>> layer.weight = flambeau.eye(3)
    >>> layer.weight.diagonal()
    tensor([1., 1., 1.], grad_fn=<DiagonalBackward0>)
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_another(module, tensor_name, parametrization)
        parametrizations: Any = module.parametrizations[tensor_name]
        parametrizations.append(parametrization)
        parametrizations.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        base = type_before_parametrizations(module)
        if not is_parametrized(module):
            module.parametrizations = ModuleDict()
        module.parametrizations[tensor_name] = parametrizations
        _update_class(module, base)
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a "
            f"parametrized element with name '{tensor_name}'"
        )
    return module


def _check_another(module: Module, name: str, parametrization: Any) -> None:
    """Try a parametrization on a tensor that has one already."""
    before = getattr(module, name)
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {_kind(after)}.")
    for what in ("dtype", "shape"):
        if getattr(after, what) != getattr(before, what):
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is "
                f"enabled.\nmodule.{name}.{what}: {getattr(before, what)}\n"
                f"parametrization(module.{name}).{what}: {getattr(after, what)}"
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {_kind(back)}")
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(before, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, unless "
                f"the `unsafe` flag is enabled.\nmodule.{name}.{what}: {getattr(before, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the tensor of that name, or any, of the module itself (not of its submodules) is parametrised.

    Raises nothing.

    >>> from flambeau import nn
    >>> nn.utils.parametrize.is_parametrized(nn.Linear(2, 2), "weight")
    False
    """
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrised tensor a parameter or buffer again; return `module`.

    Args:
        module: a module with parametrizations on that tensor.
        tensor_name: its name.
        leave_parametrized: whether it keeps the value that it has now; else it gets that of its `original`.

    Raises:
        ValueError: the tensor is not parametrised, or is made of several and is not to keep its value.

    >>> from flambeau import nn
    >>> from flambeau.nn.utils import parametrizations, parametrize
    >>> layer = parametrize.remove_parametrizations(parametrizations.weight_norm(nn.Linear(3, 2)), "weight")
    >>> type(layer) is nn.Linear, [name for name, _ in layer.named_parameters()]
    (True, ['bias', 'weight'])
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations: Any = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():  # the same object, so that an optimiser that has it need not hear of this
                original.set_(getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)  # with its history, which tells whether it is trained
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor "
            "that is parametrized in terms of a sequence of tensors."
        )
    base = type_before_parametrizations(module)
    del module.parametrizations[tensor_name]
    _update_class(module, base)
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of a module as it was before its tensors were parametrised.

    Raises nothing.

    >>> from flambeau import nn
    >>> nn.utils.parametrize.type_before_parametrizations(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)))
    <class 'flambeau.nn.modules.linear.Linear'>
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Register the parametrizations of one module on another, too, and share their originals.

    Args:
        from_module: where they are; if it has none, nothing happens.
        to_module: where they come; a tensor that it does not have is made from the value that there is.
        tensor_name: the name of one parametrised tensor; all of them by default.

    Returns:
        `to_module`.

    Raises:
        KeyError: `from_module` has parametrised tensors, but none of that name.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.nn.utils import parametrizations, parametrize
    >>> first, second = parametrizations.weight_norm(nn.Linear(3, 2)), nn.Linear(3, 2)
    >>> second = parametrize.transfer_parametrizations_and_params(first, second)
    >>> flambeau.equal(first.weight, second.weight)
    True
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        source: Any = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=source.unsafe)
        target = to_module.parametrizations[name]
        for i, original in enumerate(source._originals()):
            setattr(target, "original" if source.is_tensor else f"original{i}", original)
    return to_module
