"""Lists and dictionaries that cannot be changed, which the arguments of nodes are made of."""

from __future__ import annotations

from typing import Any, NoReturn

from ..utils._trees import register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"'{type(self).__name__}' object does not support mutation: a graph knows the users of each node from the arguments. "
        "Assign changed copies to node.args or node.kwargs"
    )


class immutable_list(list):
    """A list of arguments: read, compared and hashed, and never changed (TypeError).

    >>> from flambeau.fx.immutable_collections import immutable_list
    >>> immutable_list([1, 2]) == [1, 2]
    True
    """

    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple:
        return immutable_list, (tuple(self),)


class immutable_dict(dict):
    """A dictionary of arguments: read, compared and hashed, and never changed (TypeError).

    >>> from flambeau.fx.immutable_collections import immutable_dict
    >>> immutable_dict(dim=1)["dim"]
    1
    """

    clear = pop = popitem = setdefault = update = _refuse
    __delitem__ = __ior__ = __setitem__ = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple:
        return immutable_dict, (tuple(self.items()),)


register_pytree_node(
    immutable_list,
    lambda values: (list(values), None),
    lambda values, context: immutable_list(values),
    serialized_type_name="fx.immutable_collections.immutable_list",
)
register_pytree_node(
    immutable_dict,
    lambda named: (list(named.values()), list(named)),
    lambda values, context: immutable_dict(zip(context, values, strict=True)),
    serialized_type_name="fx.immutable_collections.immutable_dict",
)
