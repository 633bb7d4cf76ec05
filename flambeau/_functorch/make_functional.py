"""Modules as functions of their parameters: what `func.functional_call` has replaced."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ..core.places.join import stack
from ..func import functional_call
from ..nn.modules.module import Module

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]


class FunctionalModule(Module):
    """A module that is given its parameters: `function(parameters, *inputs)`."""

    def __init__(self, stateless_model: Module, names: Sequence[str]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.names = tuple(names)

    def forward(self, params: Sequence[Any], *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        return functional_call(self.stateless_model, dict(zip(self.names, params, strict=True)), args, kwargs)


class FunctionalModuleWithBuffers(FunctionalModule):
    """A module that is given its parameters and its buffers: `function(parameters, buffers, *inputs)`."""

    def forward(self, params: Sequence[Any], buffers: Sequence[Any], *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        return super().forward((*params, *buffers), *args, **kwargs)


def _taken(model: Module, disable_autograd_tracking: bool) -> tuple[Module, dict[str, Any]]:
    """A copy without memory, and the parameters."""
    parameters: dict[str, Any] = dict(model.named_parameters())
    if disable_autograd_tracking:
        parameters = {name: p.detach() for name, p in parameters.items()}
    return copy.deepcopy(model).to("meta"), parameters


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, tuple]:
    """A module without buffers as a function, and its parameters.

    >>> import flambeau
    >>> from flambeau._functorch.make_functional import make_functional
    >>> function, parameters = make_functional(flambeau.nn.Linear(2, 1))
    >>> function([flambeau.ones_like(p) for p in parameters], flambeau.ones(2)).tolist()
    [3.0]
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    stateless, parameters = _taken(model, disable_autograd_tracking)
    return FunctionalModule(stateless, list(parameters)), tuple(parameters.values())


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple, tuple]:
    """A module as a function, its parameters, and its buffers."""
    stateless, parameters = _taken(model, disable_autograd_tracking)
    buffers = dict(model.named_buffers())
    return (
        FunctionalModuleWithBuffers(stateless, [*parameters, *buffers]),
        tuple(parameters.values()),
        tuple(buffers.values()),
    )


def combine_state_for_ensemble(models: Sequence[Module]) -> tuple[FunctionalModuleWithBuffers, tuple, tuple]:
    """Modules of one class as one function for `vmap`, with their parameters and buffers stacked."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    functions, parameters, buffers = zip(*map(make_functional_with_buffers, models), strict=True)
    together = [tuple(stack(each) for each in zip(*some, strict=True)) for some in (parameters, buffers)]
    return functions[0], together[0], together[1]
