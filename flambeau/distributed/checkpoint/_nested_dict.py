"""State dicts that are nested, as one dictionary of names: `{"a": {"b": 1}}` has the name `a.b`.

Dictionaries are always opened; lists only where there is a tensor or a dictionary in them, so that lists of numbers stay whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..._tensor import Tensor
from .metadata import STATE_DICT_TYPE

OBJ_PATH = tuple[str | int, ...]
FLATTEN_MAPPING = dict[str, OBJ_PATH]


def traverse_state_dict(
    state_dict: STATE_DICT_TYPE,
    visitor: Callable[[OBJ_PATH, Any], None],
    keep_traversing: Callable[[Any], bool] = lambda value: isinstance(value, Tensor),
    *,
    before_2_4: bool = False,
) -> None:
    """Call `visitor(path, value)` for each value that is not opened.

    A list is opened where `keep_traversing` is true of an entry, or an entry is opened.  PyTorch before 2.4 opened dictionaries by the same
    rule (`before_2_4`), so names in its checkpoints end earlier.
    """
    for key, value in state_dict.items():
        for path, leaf in _leaves((str(key),), value, keep_traversing, before_2_4):
            visitor(path, leaf)


def _leaves(
    path: OBJ_PATH, value: Any, wanted: Callable[[Any], bool], before_2_4: bool
) -> Iterator[tuple[OBJ_PATH, Any]]:
    if not _is_opened(value, wanted, before_2_4):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves((*path, str(key)), inner, wanted, before_2_4)
    else:
        for i, inner in enumerate(value):
            yield from _leaves((*path, i), inner, wanted, before_2_4)


def _is_opened(value: Any, wanted: Callable[[Any], bool], before_2_4: bool) -> bool:
    if isinstance(value, Mapping):
        if not before_2_4:
            return True
        entries = list(value.values())
    elif isinstance(value, list):
        entries = value
    else:
        return False
    return any(_is_opened(entry, wanted, before_2_4) or wanted(entry) for entry in entries)


def flatten_state_dict(
    state_dict: STATE_DICT_TYPE, *, before_2_4: bool = False
) -> tuple[STATE_DICT_TYPE, FLATTEN_MAPPING]:
    """The values by their names, and the paths of the names.

    Raises:
        ValueError: two values have one name, as in `{"a.b": 1, "a": {"b": 2}}`
    """
    flat: STATE_DICT_TYPE = {}
    paths: FLATTEN_MAPPING = {}

    def add(path: OBJ_PATH, value: Any) -> None:
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path

    traverse_state_dict(state_dict, add, before_2_4=before_2_4)
    return flat, paths


def unflatten_state_dict(state_dict: STATE_DICT_TYPE, mapping: FLATTEN_MAPPING) -> STATE_DICT_TYPE:
    """The nested state dict again."""
    nested: STATE_DICT_TYPE = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested


_MOST = 1 << 24  # entries of a list that a path in a file may ask for


def set_element(root_dict: STATE_DICT_TYPE, path: OBJ_PATH, value: Any) -> None:
    """Set the value at a path; dictionaries (for names) and lists (for numbers) that are lacking on the way are made.

    Raises:
        ValueError: the path is empty or holds something else than names and small numbers, or leads through what is no container
    """
    if type(path) not in (tuple, list) or not path or not all(type(key) in (str, int) for key in path):
        raise ValueError(f"set_element(): a path is a tuple of names and numbers, got {type(path).__name__}")
    place: Any = root_dict
    for key, following in zip(path, path[1:]):
        key = _own_key(place, key)
        inner = place[key] if isinstance(place, list) else place.get(key)
        if inner is None:
            inner = place[key] = {} if type(following) is str else []
        place = inner
    place[_own_key(place, path[-1])] = value


def _own_key(place: Any, key: Any) -> Any:
    """The key of a container that a path means: names of files are texts, also of `{0: …}`.  A list is made long enough."""
    if isinstance(place, list):
        if type(key) is not int or not 0 <= key < _MOST:
            raise ValueError(f"set_element(): a list has no place {str(key)[:60]!r}")
        place.extend([None] * (key + 1 - len(place)))
    elif not isinstance(place, Mapping):
        raise ValueError(f"set_element(): the path leads through a {type(place).__name__}")
    elif key not in place and type(key) is str and key.isdecimal() and len(key) < 20 and int(key) in place:
        return int(key)
    return key


def get_element(root_dict: STATE_DICT_TYPE, path: OBJ_PATH, default_value: Any = None) -> Any:
    """The value at a path, or `default_value`."""
    place: Any = root_dict
    for key in path:
        if type(key) is int:
            if not isinstance(place, list) or not 0 <= key < len(place):
                return default_value
        elif not isinstance(place, Mapping) or key not in place:
            return default_value
        place = place[key]
    return place
