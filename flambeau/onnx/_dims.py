"""Sizes that may be others where a model runs: which dimensions of which inputs, by the names that the program gives them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..core.base.tensor import TensorBase
from ..nn import Module


class Axes(NamedTuple):
    """`dims`: by name, the (input, dimension) pairs of that size; `named`: names for dimensions of outputs; `bounds`: least and most."""

    dims: dict[str, list[tuple[int, int]]]
    named: dict[tuple[str, int], str]
    bounds: dict[str, tuple[int, int | None]]

    def sizes(self, tensors: Sequence[TensorBase], assignment: Mapping[str, int]) -> list[list[int]]:
        """The shapes of the inputs with those sizes."""
        result = [list(t.shape) for t in tensors]
        for name, places in self.dims.items():
            for k, d in places:
                result[k][d] = assignment[name]
        return result

    def own(self, tensors: Sequence[TensorBase]) -> dict[str, int]:
        """The sizes that the tensors have."""
        return {name: int(tensors[k].shape[d]) for name, ((k, d), *_) in self.dims.items()}


def axes_of(
    tensors: Sequence[TensorBase],
    names: Sequence[str],
    args: tuple,
    kwargs: Mapping[str, Any],
    dynamic_axes: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    model: Any,
) -> Axes:
    """What `dynamic_axes` and `dynamic_shapes` say.

    ValueError for a dimension that is not there, and for one name of two sizes.
    """
    if dynamic_axes and dynamic_shapes:
        raise ValueError("onnx.export(): give dynamic_axes or dynamic_shapes, not both")
    result = Axes({}, {}, {})
    for name, said in (dynamic_axes or {}).items():
        listed = said.items() if isinstance(said, Mapping) else enumerate(said)
        for key, what in listed:
            axis, label = (
                (key, what) if isinstance(said, Mapping) else (what, f"{name}_dynamic_axes_{key + 1}")
            )
            if name in names:
                _enter(result, tensors, names.index(name), axis, str(label), name)
            else:
                result.named[name, axis] = str(label)
    if dynamic_shapes:
        _of_shapes(result, tensors, names, args, kwargs, dynamic_shapes, model)
    own = result.own(tensors)
    for label, places in result.dims.items():
        for k, d in places:
            if tensors[k].shape[d] != own[label]:
                raise ValueError(
                    f"onnx.export(): the size '{label}' is {own[label]} and, in dimension {d} of '{names[k]}', {tensors[k].shape[d]}"
                )
    return result


def _enter(
    axes: Axes, tensors: Sequence[TensorBase], k: int, axis: Any, label: str, name: str, bounds: Any = None
) -> None:
    rank = tensors[k].ndim
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise ValueError(f"onnx.export(): '{name}' has {rank} dimensions, and no dimension {axis!r}")
    places = axes.dims.setdefault(label, [])
    if (k, axis % rank) not in places:
        places.append((k, axis % rank))
    if bounds is not None:
        axes.bounds[label] = bounds


def _of_shapes(
    axes: Axes,
    tensors: Sequence[TensorBase],
    names: Sequence[str],
    args: tuple,
    kwargs: Mapping[str, Any],
    said: Any,
    model: Any,
) -> None:
    """`dynamic_shapes`: a description for each argument, in their order or by parameter."""
    by_name = _parameters(model, args, kwargs)
    if isinstance(said, Mapping):
        unknown = [key for key in said if key not in by_name]
        if unknown:
            raise ValueError(
                f"onnx.export(): dynamic_shapes names {unknown[0]!r}, which is no argument: {list(by_name)}"
            )
        pairs = [(by_name[key], said.get(key)) for key in by_name]
    else:
        values = [*args, *kwargs.values()]
        if len(said) != len(values):
            raise ValueError(
                f"onnx.export(): {len(said)} descriptions in dynamic_shapes for {len(values)} arguments"
            )
        pairs = list(zip(values, said))
    specs: list[Any] = []
    for value, spec in pairs:
        _collect(value, spec, specs)
    for k, spec in enumerate(specs):
        if spec is None:
            continue
        items = spec.items() if isinstance(spec, Mapping) else enumerate(spec)
        for axis, what in items:
            if what is None or isinstance(what, int) or getattr(what, "name", None) == "STATIC":
                continue
            label, bounds = _label(what, f"{names[k]}_dim_{axis}")
            _enter(axes, tensors, k, axis, label, names[k], bounds)


def _parameters(model: Any, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by parameter; those of `*args` together."""
    forward = model.forward if isinstance(model, Module) else model
    return dict(inspect.signature(forward).bind(*args, **kwargs).arguments)


def _collect(value: Any, spec: Any, result: list[Any]) -> None:
    """The description of each tensor in an argument, in order."""
    if isinstance(value, TensorBase):
        result.append(spec)
    elif isinstance(value, Mapping):
        for key, x in value.items():
            _collect(x, None if spec is None else spec.get(key), result)
    elif isinstance(value, (list, tuple)):
        for k, x in enumerate(value):
            _collect(x, None if spec is None else spec[k], result)


def _label(what: Any, default: str) -> tuple[str, Any]:
    if isinstance(what, str):
        return what, None
    name = getattr(what, "__name__", None)
    if name is None:
        return default, None  # AUTO, DYNAMIC
    return name, (getattr(what, "min", 1) or 1, getattr(what, "max", None))
