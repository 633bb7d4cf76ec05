"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.base import display
from ..core.base.callbacks import callbacks
from ..core.base.tensor import TensorBase
from ..core.places.join import stack

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]

_MISSING: Any = object()


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with other tensors in the place of some of its parameters and buffers, which it has back afterwards,
    also where the call raises.

    A parameter that the module rebinds meanwhile (`self.steps = self.steps + 1`) is rebound in the dictionary instead.

    Args:
        module: any module.
        parameter_and_buffer_dicts: tensors by dotted name, or several such dictionaries.  The name of a parametrised tensor
            assigns to it, as `module.weight = …` does; that of its `original` leaves the parametrisation at work.
        args: a tuple of positional arguments, or a single one.
        kwargs: keyword arguments.
        tie_weights: whether a tensor that the module holds under several names is replaced under all of them.
        strict: whether to ask for all names, and no others.

    Raises:
        ValueError: a name in two dictionaries, different tensors for names that are tied, or no dictionaries.
        RuntimeError: names that `strict` misses or does not know.
        AttributeError: a part of a dotted name does not exist.
        TypeError: what is given for a name, or stands there, is no tensor.

    >>> import flambeau
    >>> layer = flambeau.nn.Linear(2, 1, bias=False)
    >>> flambeau.func.functional_call(layer, {"weight": flambeau.ones(1, 2)}, flambeau.tensor([1., 2.]))
    tensor([3.])
    """
    with reparametrized(module, _checked_dicts(parameter_and_buffer_dicts), tie_weights, strict):
        arguments = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*arguments, **(kwargs or {}))


def _checked_dicts(dicts: Any) -> list[Mapping[str, Any]]:
    if isinstance(dicts, Mapping):
        return [dicts]
    if not isinstance(dicts, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    if not all(isinstance(d, Mapping) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for d in dicts for name in d]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(dicts) > 1 else []
    if twice:
        raise ValueError(
            f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous"
        )
    return list(dicts)


@contextmanager
def reparametrized(
    module: Any, dicts: Sequence[Mapping[str, Any]], tie_weights: bool, strict: bool
) -> Iterator[None]:
    """`module` with the tensors of `dicts`, while the context is open."""
    given = {name: tensor for d in dicts for name, tensor in d.items()}
    own = dict(module.named_parameters(remove_duplicate=False))
    own.update(module.named_buffers(remove_duplicate=False))
    wanted = _with_tied_names(own, given) if tie_weights else given
    if strict:
        _check_all_names(module, own, wanted)
    places: list[tuple[str, Any, str, Any]] = []
    try:
        for path, tensor in wanted.items():
            prefix, _, name = path.rpartition(".")
            owner = _submodule(module, prefix)
            places.append((path, owner, name, _swapped(owner, name, tensor)))
        yield
    finally:
        result = {path: _swapped(owner, name, before) for path, owner, name, before in reversed(places)}
        for d in dicts:
            for path in d.keys() & result.keys():
                if (
                    result[path] is not d[path]
                    and result[path] is not _MISSING
                    and isinstance(d, MutableMapping)
                ):
                    d[path] = result[path]


def _with_tied_names(own: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """`given`, and each of its tensors also under the other names of the tensor that it replaces."""
    names: dict[int, list[str]] = {}
    for name, tensor in own.items():
        names.setdefault(id(tensor), []).append(name)
    wanted = dict(given)
    for name in given:
        tied = names[id(own[name])] if name in own else []
        if len({id(given[other]) for other in tied if other in given}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied)}, which are tied. "
                "Consider using tie_weights=False"
            )
        wanted.update(dict.fromkeys(tied, given[name]))
    return wanted


vars(_with_tied_names)["_captured_as_it_is"] = True


def _check_all_names(module: Any, own: dict[str, Any], given: dict[str, Any]) -> None:
    problems = [
        f"{what} key(s): {', '.join(map(repr, names))}."
        for what, names in (
            ("Unexpected", [name for name in given if name not in own]),
            ("Missing", [name for name in own if name not in given]),
        )
        if names
    ]
    if problems:
        lines = "\n\t".join(problems)
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{lines}")


def _submodule(module: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        try:
            child = getattr(module, name)
        except AttributeError:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`") from None
        if not hasattr(child, "_parameters"):
            raise TypeError(
                f"submodule `{path}`: {child} is not an instance of {display.public('nn.Module')}"
            )
        module = child
    return module


def _swapped(owner: Any, name: str, tensor: Any) -> Any:
    """Put `tensor` at the attribute; return what was there, or _MISSING, which removes the attribute."""
    if not _may_stand(tensor):
        raise TypeError(f"{tensor} is not an instance of {display.public('Tensor')}")
    for table in (owner._parameters, owner._buffers):
        if name in table:
            before = table[name]
            if tensor is _MISSING:
                del table[name]
            else:
                table[name] = tensor
            return before
    before = getattr(owner, name, _MISSING)
    if not _may_stand(before):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of {display.public('Tensor')}")
    if tensor is not _MISSING:
        setattr(owner, name, tensor)
    elif before is not _MISSING:
        delattr(owner, name)
    return before


def _may_stand(value: Any) -> bool:
    return isinstance(value, TensorBase) or value is None or value is _MISSING


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several modules of one kind, those of each name stacked along a new first dimension.

    The stacked parameters are leaves, which require gradients where those of the modules do.

    Args:
        models: modules of one class and one mode (training or not), with parameters of the same shapes.

    Raises:
        RuntimeError: no modules, several classes, modes or shapes, or gradients wanted in some of them only.

    >>> import flambeau
    >>> from flambeau import nn
    >>> parameters, buffers = flambeau.func.stack_module_state([nn.Linear(3, 2) for _ in range(5)])
    >>> parameters["weight"].shape
    flambeau.Size([5, 2, 3])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return _stacked(parameters), _stacked(buffers)


def _stacked(members: list[dict[str, Any]]) -> dict[str, Any]:
    result = {}
    for name, first in members[0].items():
        tensors = [member[name] for member in members]
        if any(tensor.requires_grad is not first.requires_grad for tensor in tensors):
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        result[name] = stack(tensors).detach().requires_grad_(first.requires_grad)
    return result


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let all batch normalisations in `root`, itself included, use the batch's moments and keep no running ones; in place.

    Running statistics are written in `forward`, which functions of functions cannot do.

    Raises:
        AttributeError: the argument is no module

    >>> from flambeau import func, nn
    >>> net = func.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(3)))
    >>> net[0].running_mean is None, net[0].track_running_stats
    (True, False)
    """
    for module in root.modules():
        callbacks["without running statistics"](module)
    return root
