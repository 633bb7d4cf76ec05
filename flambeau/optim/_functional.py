"""Steps of optimisers as functions of lists, as `torch.optim.adam.adam` and its like.

>>> import flambeau
>>> from flambeau.optim.sgd import sgd
>>> weight = flambeau.zeros(2)
>>> sgd([weight], [flambeau.ones(2)], [None], weight_decay=0, momentum=0, lr=0.5, dampening=0, nesterov=False, maximize=False)
>>> weight
tensor([-0.5000, -0.5000])
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from ._declared import Declared

# Options that the functions take as several.
_APART = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
    "eps": ("eps1", "eps2"),
}
# What PyTorch's functions are passed besides, and is seen here.
_SEEN = ("has_complex", "has_sparse_grad", "grad_scale", "found_inf")


def function_of(cls: type[Declared], **lists: str) -> Callable[..., None]:
    """The step of an optimiser as a function of parameters, gradients and the lists of their state, which are written.

    `lists` are the names that PyTorch has for the lists, in its order, each with the entry of the state that it holds.
    All options are given by name; `betas` as `beta1` and `beta2`, and so on.
    """
    names = ("params", "grads", *lists)
    options: dict[str, tuple[str, ...]] = {}  # the parts that an option is given in
    for name, check in cls._checks.items():
        apart = isinstance(check.default, tuple) and name in _APART
        options[name] = _APART[name] if apart else (name,)
    given_apart = {part: name for name, parts in options.items() for part in parts}
    kind = inspect.Parameter
    parameters = [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in names]
    for part, name in given_apart.items():
        default = cls._checks[name].default
        read = name in cls._rule_options or name == "weight_decay"  # else it is of the state's beginning
        optional = name in cls.fixed or not read or isinstance(default, bool)
        parameters.append(kind(part, kind.KEYWORD_ONLY, default=default if optional else kind.empty))
    parameters += [kind(name, kind.KEYWORD_ONLY, default=None) for name in _SEEN]
    signature = inspect.Signature(parameters)

    def function(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if given["grad_scale"] is not None or given["found_inf"] is not None:
            raise NotImplementedError(f"{function.__name__}(): scaled gradients are unscaled before the step")
        group: dict[str, Any] = {}
        for name, parts in options.items():
            group[name] = tuple(given[part] for part in parts) if len(parts) > 1 else given[parts[0]]
        group.update(cls.fixed)
        _step(
            cls, group, given["params"], given["grads"], {entry: given[name] for name, entry in lists.items()}
        )

    function.__name__ = function.__qualname__ = cls.__name__.lower()
    function.__doc__ = _explained(cls, function.__name__, lists, parameters)
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _explained(
    cls: type[Declared], name: str, lists: dict[str, str], parameters: list[inspect.Parameter]
) -> str:
    """The docstring of a step on lists; its example gives all options that have no default."""
    given = [f"{name}=[None]" for name in lists]
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and p.default is p.empty:
            given.append(f"{p.name}={_beginning(cls, p.name)!r}")
    return f"""A step of `{cls.__name__}` on lists: parameters, gradients and their state, written in place.

    `None` in a list of the state stands for a parameter before its first step.

    Shape:
        params, grads: lists of equal length; a gradient has the shape of its parameter

    Raises:
        TypeError: an option without a default is not given
        NotImplementedError: `grad_scale` or `found_inf` is given

    >>> import flambeau
    >>> from flambeau.optim.{name} import {name}
    >>> params, grads = [flambeau.tensor([1.0])], [flambeau.tensor([2.0])]
    >>> {name}(params, grads, {", ".join(given)})
    >>> params[0] < 1
    tensor([True])
    """


def _beginning(cls: type[Declared], part: str) -> Any:
    """What an optimiser has by default for an option, or for a number of a pair."""
    whole = next((n for n, parts in _APART.items() if part in parts and n in cls._checks), part)
    value = cls._checks[whole].default
    return value[_APART[whole].index(part)] if whole != part else value


def _step(
    cls: type[Declared],
    group: dict[str, Any],
    params: Sequence[Any],
    grads: Sequence[Any],
    state: dict[str, Any],
) -> None:
    """A step of a group whose state is in lists; what the step makes new is put into them."""
    optimizer = cls.__new__(cls)
    group["params"] = list(params)
    optimizer.defaults, optimizer.param_groups, optimizer.state = group, [group], defaultdict(dict)
    for k, p in enumerate(params):
        for entry, column in state.items():
            if k < len(column) and column[k] is not None:
                optimizer.state[p][entry] = column[k]
    optimizer._step_group(group, list(params), list(grads))
    for k, p in enumerate(params):
        for entry, column in state.items():
            if k < len(column):
                column[k] = optimizer.state[p].get(entry)
