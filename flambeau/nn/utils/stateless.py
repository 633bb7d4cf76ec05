"""The old place of `func.functional_call`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

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
    """`func.functional_call`, which programs call instead, with one dictionary of tensors; a FutureWarning says so."""
    warnings.warn(
        "`nn.utils.stateless.functional_call` is deprecated. Please use `func.functional_call` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
