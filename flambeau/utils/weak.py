"""Dictionaries whose keys are objects themselves, not what they equal, and do not keep them alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that equals those to the same object.

    Raises:
        TypeError: there can be no weak reference to the key, as to an int

    >>> import flambeau
    >>> from flambeau.utils.weak import WeakIdRef
    >>> x = flambeau.ones(2)
    >>> WeakIdRef(x) == WeakIdRef(x), WeakIdRef(x) == WeakIdRef(flambeau.ones(2))
    (True, False)
    """

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __call__(self) -> Any:
        """The object; None where it is gone."""
        return super().__call__()

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: Any) -> bool:
        mine, theirs = self(), other()
        return self is other if mine is None or theirs is None else mine is theirs


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary by identity that forgets keys with their last user.

    Raises:
        KeyError: a key is read that is not there

    >>> import flambeau
    >>> from flambeau.utils.weak import WeakIdKeyDictionary
    >>> x = flambeau.ones(2)
    >>> names = WeakIdKeyDictionary({x: "x"})
    >>> names[x], x.clone() in names
    ('x', False)
    >>> del x
    >>> len(names)
    0
    """

    def __init__(self, dict: Any = None, ref_type: type = WeakIdRef) -> None:
        self.data: dict[Any, Any] = {}
        self.ref_type = ref_type
        if dict is not None:
            self.update(dict)

    def _reference(self, key: Any) -> Any:
        data = self.data
        return self.ref_type(key, lambda gone: data.pop(gone, None))

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self._reference(key)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            if (key := reference()) is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def __contains__(self, key: Any) -> bool:
        return self.ref_type(key) in self.data

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def copy(self) -> WeakIdKeyDictionary:
        """Another dictionary of the same keys and values."""
        return type(self)(self, self.ref_type)

    __copy__ = copy

    def keyrefs(self) -> list[Any]:
        """The references to the keys."""
        return list(self.data)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, MutableMapping):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor.

    Raises:
        TypeError: there can be no weak reference to the argument, as to an int

    >>> import flambeau
    >>> from flambeau.utils.weak import TensorWeakRef
    >>> x = flambeau.ones(2)
    >>> TensorWeakRef(x)() is x
    True
    """

    def __init__(self, tensor: Any) -> None:
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        """The tensor; None where it is gone."""
        return self.ref()
