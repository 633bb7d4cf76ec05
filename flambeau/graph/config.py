"""Settings of `compile`, as programs of PyTorch name them (`_dynamo.config`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .._compat.absent import refusing

recompile_limit = cache_size_limit = (
    64  # captures of one function, after which Python runs; the smaller of the two holds
)
fail_on_recompile_limit_hit = False  # FailOnRecompileLimitHit instead
error_on_recompile = False  # RecompileError where a function is captured anew
suppress_errors = False  # of backends: Python runs where one raises
disable = any(
    os.environ.get(name, "") not in ("", "0") for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
)
capture_scalar_outputs = False  # kept as set: a number read from a tensor ends a capture
capture_dynamic_output_shape_ops = False  # so does a shape that depends on values
assume_static_by_default = True
automatic_dynamic_shapes = True
inline_inbuilt_nn_modules = True
verbose = False


@contextmanager
def patch(name: str | Mapping[str, Any] | None = None, value: Any = None, **settings: Any) -> Iterator[None]:
    """A block, or a function that this decorates, in which settings have other values: by name and value, a dict, or keywords.

    AttributeError for a setting that there is not, ValueError where none is given.

    >>> from flambeau._dynamo import config
    >>> with config.patch(recompile_limit=2):
    ...     config.recompile_limit
    2
    >>> config.recompile_limit
    64
    """
    here = globals()
    if name is not None:
        settings = {**(name if isinstance(name, Mapping) else {name: value}), **settings}
    if not settings:
        raise ValueError("patch(): expected the names of settings and their values, got none")
    for each in settings:
        if each.startswith("_") or each not in here or callable(here[each]):
            raise AttributeError(f"patch(): there is no setting {each!r}")
    before = {each: here[each] for each in settings}
    here.update(settings)
    try:
        yield
    finally:
        here.update(before)


__getattr__ = refusing("_dynamo.config")
