"""Modules that hold modules or parameters: Sequential, ModuleList, ModuleDict, ParameterList,
ParameterDict.
"""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

from ..._tensor import Tensor
from ..parameter import Parameter
from .module import Module, _addindent

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _position(index: int, size: int) -> int:
    """`index` counted from the front; IndexError outside of the `size` places."""
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range")
    return index % size


class Container(Module):
    """A Module made of the named modules, of the time before every Module could hold others.

    It warns when it is made: subclass `Module`, or use `ModuleDict`, instead.

    Raises:
        FutureWarning: one is made

    >>> import warnings
    >>> from flambeau import nn
    >>> with warnings.catch_warnings(action="ignore"):
    ...     net = nn.Container(first=nn.Linear(2, 3), last=nn.ReLU())
    >>> [name for name, _ in net.named_children()], net.first.out_features
    (['first', 'last'], 3)
    """

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class _ModuleSequence(Module):
    """What Sequential and ModuleList share: children by position, under their positions as names."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __getitem__(self, idx: int | slice) -> Any:
        raise NotImplementedError

    def _key(self, idx: int) -> str:
        return list(self._modules)[_position(idx, len(self))]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._key(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        for key in list(self._modules)[idx] if isinstance(idx, slice) else [self._key(idx)]:
            delattr(self, key)
        self._renumber(self._modules.values())

    def _renumber(self, modules: Iterable[Module]) -> None:
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def append(self, module: Module) -> Self:
        """Add a module at the end; return the container."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before that place; those behind it move up by one.

        Raises:
            AssertionError: `module` is not a Module.
            IndexError: there is no such place.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove and return the module at that place."""
        module = self[key]
        del self[key]
        return module


class Sequential(_ModuleSequence):
    """A chain of modules, each called with the output of the one before.

    Args:
        args: the modules, named "0", "1" ...; or one OrderedDict of named modules.

    Shape:
        input: what the first module takes; result: what the last one gives

    Raises:
        TypeError: an argument is no module

    >>> import flambeau
    >>> from flambeau import nn
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    >>> model(flambeau.zeros(2, 4)).shape == (2, 3)
    True
    >>> model[1]
    ReLU()
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0]
        else:
            named = OrderedDict((str(i), module) for i, module in enumerate(args))
        for name, module in named.items():
            self.add_module(name, module)

    def forward(self, input: Any) -> Tensor:
        """What the last module gives: a tensor, unless that one gives something else."""
        for module in self._modules.values():
            input = module(input)
        return input

    del forward.__annotations__[
        "return"
    ]  # for type checkers alone: graphs of fx write annotations that are there into their code

    @overload
    def __getitem__(self, idx: int) -> Module: ...

    @overload
    def __getitem__(self, idx: slice) -> Self: ...

    def __getitem__(self, idx: int | slice) -> Module:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._key(idx)]

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add all modules of an iterable at the end; return the container."""
        for module in sequential:
            self.append(module)
        return self

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *_sequential(other))

    def __iadd__(self, other: Sequential) -> Self:
        return self.extend(list(_sequential(other)))

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*list(self) * self._times(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        return self.extend(list(self) * (self._times(other) - 1))

    def _times(self, factor: int) -> int:
        if not isinstance(factor, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(factor)}")
        if factor <= 0:
            raise ValueError(f"Non-positive multiplication factor {factor} for {type(self)}")
        return factor


def _sequential(other: object) -> Sequential:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )
    return other


class ModuleList(_ModuleSequence):
    """A list of modules whose parameters are those of the module that holds it. It has no `forward`.

    Raises:
        IndexError: there is no such place
        TypeError: an element is no module

    >>> from flambeau import nn
    >>> nn.ModuleList([nn.Tanh(), nn.Tanh(), nn.ReLU()])
    ModuleList(
      (0-1): 2 x Tanh()
      (2): ReLU()
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, idx: int) -> Module: ...

    @overload
    def __getitem__(self, idx: slice) -> Self: ...

    def __getitem__(self, idx: int | slice) -> Module:
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return self._modules[self._key(idx)]

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add all modules of an iterable at the end; return the list.

        Raises:
            TypeError: `modules` is not iterable.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __repr__(self) -> str:
        runs: list[list] = []  # [first place, last place, repr] of equal neighbours
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            _addindent(
                f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            )
            for first, last, text in runs
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


def _check_pairs(name: str, pairs: Any) -> Iterator[tuple[str, Any]]:
    """The key/value pairs of a mapping or of an iterable of pairs, checked one after the other."""
    if isinstance(pairs, (Mapping, ModuleDict, ParameterDict)):
        yield from pairs.items()
        return
    if not isinstance(pairs, Iterable):
        raise TypeError(
            f"{name}.update should be called with an iterable of key/value pairs, "
            f"but got {type(pairs).__name__}"
        )
    for i, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{name} update sequence element #{i} should be Iterable; is {type(pair).__name__}"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(f"{name} update sequence element #{i} has length {len(pair)}; 2 is required")
        yield pair


class ModuleDict(Module):
    """A dictionary of modules, in the order of insertion. It has no `forward`.

    Args:
        modules: a mapping of names to modules, or an iterable of such pairs.

    Raises:
        KeyError: there is no such name
        TypeError: a value is no module

    >>> from flambeau import nn
    >>> heads = nn.ModuleDict({"mean": nn.Linear(3, 1), "scale": nn.Softplus()})
    >>> list(heads)
    ['mean', 'scale']
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return the module of that name; KeyError where there is none."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """The pairs of name and module."""
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace the modules of a mapping or of an iterable of pairs.

        Raises:
            TypeError: it is neither, or holds something else than modules.
            ValueError: an element of the iterable is no pair.
        """
        for key, module in _check_pairs("ModuleDict", modules):
            self[key] = module


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(name: object, value: Any, kind: str) -> str:
    """One line of the repr of a collection of parameters."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(map(str, value.shape))
    device = "" if value.device.type == "cpu" else f" ({value.device})"
    return f"  ({name}): {what} containing: [{kind} of size {size}{device}]"


class ParameterList(Module):
    """A list of parameters; tensors put into it become Parameters, other values are kept as they are.

    Raises:
        IndexError: there is no such place

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.ParameterList([flambeau.ones(2, 3)])
    ParameterList(  (0): Parameter containing: [flambeau.float32 of size 2x3])
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    @overload
    def __getitem__(self, idx: int) -> Module: ...

    @overload
    def __getitem__(self, idx: slice) -> Self: ...

    def __getitem__(self, idx: int | slice) -> Module:
        if isinstance(idx, slice):
            return type(self)(self[i] for i in range(*idx.indices(len(self))))
        return getattr(self, str(_position(idx, len(self))))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(_position(idx, len(self))), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def append(self, value: Any) -> Self:
        """Add a value at the end; return the list."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add all values of an iterable at the end; return the list.

        Raises:
            TypeError: `values` is not iterable, or is a tensor.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            _describe(i, value, str(getattr(value, "dtype", ""))) for i, value in enumerate(self)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters; tensors put into it become Parameters, other values are kept as they are.

    Args:
        parameters: a mapping of names to values, or an iterable of such pairs. Like in PyTorch a plain `dict`
            is taken in the order of its sorted keys, an OrderedDict or a ParameterDict in its own.

    Raises:
        AttributeError: there is no such name

    >>> import flambeau
    >>> from flambeau import nn
    >>> scales = nn.ParameterDict({"left": flambeau.ones(2), "right": flambeau.ones(2)})
    >>> [name for name, _ in scales.named_parameters()]
    ['left', 'right']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _check_key(key: str) -> None:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}')."
            )

    def __getitem__(self, key: str) -> Any:
        self._check_key(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._check_key(key)
        setattr(self, key, _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new ParameterDict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of `key`, which is `default` from now on if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return the value of `key`; AttributeError where there is none."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the pair added last; KeyError if there is none."""
        if not self._keys:
            raise KeyError("popitem(): ParameterDict is empty")
        key = next(reversed(self))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new ParameterDict that maps every key to `default`."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        """The pairs of key and value."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterator[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add or replace the values of a mapping or of an iterable of pairs; see the class about their order.

        Raises:
            TypeError: it is neither, or a key is no string.
            ValueError: an element of the iterable is no pair.
        """
        pairs = _check_pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = iter(sorted(pairs, key=operator.itemgetter(0)))
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(
            _describe(key, value, value.type() if isinstance(value, Tensor) else "")
            for key, value in self.items()
        )

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: Any) -> ParameterDict:
        copy = self.copy()
        copy.update(other)
        return copy

    def __ror__(self, other: Any) -> Any:
        copy = other.copy()
        copy.update(self)
        return copy

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self
