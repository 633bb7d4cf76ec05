"""Handles that take a registered hook back."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any

__all__ = ["RemovableHandle"]


class RemovableHandle:
    """What a `register_*_hook` function returns: the way to remove that hook again.

    The handle is also a context manager that removes the hook on leaving. It holds no reference to the object
    the hook belongs to, and removing twice does nothing.

    Args:
        hooks_dict: the dictionary of hooks, keyed by `handle.id`; it must take weak references (an
            `OrderedDict`).
        extra_dict: one more dictionary, or a list of them, from which the same key is removed.

    Raises:
        TypeError: there can be no weak reference to `hooks_dict`, as to a plain dict

    >>> import flambeau
    >>> layer = flambeau.nn.Identity()
    >>> handle = layer.register_forward_hook(lambda module, args, output: output + 1)
    >>> layer(1)
    2
    >>> handle.remove()
    >>> layer(1)
    1
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        if extra_dict is None:
            extra_dict = []
        elif not isinstance(extra_dict, list):
            extra_dict = [extra_dict]
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self) -> None:
        """Remove the hook; do nothing if it is gone already."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple:
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state: tuple) -> None:
        hooks_dict, self.id, extra = state
        # A dictionary that was dead when pickled comes back as a reference to one that dies at once.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks_dict is None else hooks_dict)
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if d is None else d) for d in extra)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()
