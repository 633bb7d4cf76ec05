"""Settings of `compile`, as programs of PyTorch name them (`_dynamo.config`)."""

from __future__ import annotations

import os

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

__getattr__ = refusing("_dynamo.config")
