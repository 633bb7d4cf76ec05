"""A module as a function of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["functional_call"]


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with other tensors in the place of some of its parameters and buffers.

    With `tie_weights`, a tensor that the module holds under several names is replaced under all of them.
    `strict` asks for all names and no others.  ValueError for a name in two dictionaries, RuntimeError for names
    that `strict` misses or does not know.

    >>> import flambeau
    >>> layer = flambeau.nn.Linear(2, 1, bias=False)
    >>> flambeau.func.functional_call(layer, {"weight": flambeau.ones(1, 2)}, flambeau.tensor([1., 2.]))
    tensor([3.])
    """
    dicts = parameter_and_buffer_dicts
    given: dict[str, Any] = {}
    for d in (dicts,) if isinstance(dicts, Mapping) else dicts:
        twice = given.keys() & d.keys()
        if twice:
            raise ValueError(f"functional_call(): {sorted(twice)} appeared in multiple dictionaries")
        given.update(d)
    owners = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for table in (owner._parameters, owner._buffers):
            for name, value in table.items():
                owners[f"{path}.{name}" if path else name] = (table, name, value)
    unknown = sorted(given.keys() - owners.keys())
    missing = sorted(n for n in owners.keys() - given.keys() if owners[n][2] is not None)
    if strict and (unknown or missing):
        raise RuntimeError(f"functional_call(): Unexpected key(s): {unknown}; Missing key(s): {missing}")
    replaced = {n: t for n, t in given.items() if n in owners}
    if tie_weights:
        by_tensor = {id(owners[n][2]): t for n, t in replaced.items() if owners[n][2] is not None}
        for name, (_, _, value) in owners.items():
            if name not in replaced and value is not None and id(value) in by_tensor:
                replaced[name] = by_tensor[id(value)]
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        for name, tensor in replaced.items():
            table, own, _ = owners[name]
            table[own] = tensor
        return module(*arguments, **(kwargs or {}))
    finally:
        for name in replaced:
            table, own, value = owners[name]
            table[own] = value
