"""The old place of `func.functional_call`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ..._compat.absent import refusing
from ...func import functional_call as _functional_call
from ..modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Any],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`func.functional_call`, with one dictionary of tensors, under its old name; a FutureWarning says so.

    >>> import warnings
    >>> import flambeau
    >>> from flambeau.nn.utils import stateless
    >>> layer, ones = flambeau.nn.Linear(2, 1, bias=False), {"weight": flambeau.ones(1, 2)}
    >>> with warnings.catch_warnings(action="ignore"):
    ...     stateless.functional_call(layer, ones, flambeau.tensor([3.0, 4.0]))
    tensor([7.])
    """
    warnings.warn(
        "`nn.utils.stateless.functional_call` is deprecated. Please use `func.functional_call` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


__getattr__ = refusing("nn.utils.stateless")
