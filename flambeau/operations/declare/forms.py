"""Which public operations a class that holds them binds: methods of Tensor, and what PyTorch has as functions of Python.

PyTorch's built-in functions are no methods (`class Layer: act = torch.relu` and `Layer().act(x)`), its functions of Python are.  The
lists are those of PyTorch; `tools/bound_on_torch.py` compares them with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ...core.base.callbacks import set_callback
from ...core.base.parameters import signature
from ...core.call.operation import Form, Op

if TYPE_CHECKING:
    import inspect

# Functions of Python in the flat namespace.
_FLAT = frozenset(
    """
    atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul einsum from_dlpack
    lobpcg lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive unravel_index
    """.split()
)
# Built-in functions in `nn.functional`, where the others are of Python.
_BUILT_IN = frozenset(
    """
    adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d conv_transpose3d cosine_similarity elu_ gelu hardshrink hardtanh_ leaky_relu_ linear logsigmoid
    native_channel_shuffle one_hot pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_
    scaled_dot_product_attention selu_ softplus softshrink threshold_
    """.split()
)
# Methods of Tensor that PyTorch has written in Python.
_METHODS = frozenset("dim_order istft lu norm split stft unflatten unique unique_consecutive".split())
_forms: dict[str, Form] = {}
_functions: dict[str, FunctionType] = {}


def is_bound(home: str, name: str) -> bool:
    """Whether a class binds what is public under that name there ("" the flat namespace, "Tensor", "nn.functional" …)."""
    if home in ("Tensor", "signal.windows", "masked", "nn.grad"):
        return True
    return name in _FLAT if not home else home == "nn.functional" and name not in _BUILT_IN


def form_at(op: Any, place: str) -> Callable[..., Any]:
    """What is public there of an operation: itself, or its form that a class binds; what is no operation stays as it is."""
    home, _, name = place.rpartition(".")
    if not isinstance(op, Op) or isinstance(op, Form) or not is_bound(home, name):
        return op
    result = _forms.get(place)
    if result is None or result.op is not op:
        result = _forms[place] = Form(op, place)
        if home == "Tensor" and op.method is None:
            op.method = result
    return result


def function_of(form: Form) -> FunctionType:
    """What `inspect`, decorators and tracers read of what is a function of Python in PyTorch: the function here, or one that calls the
    form with its parameters; AttributeError for methods that PyTorch has compiled.
    """
    home, _, name = form.place.rpartition(".")
    if home == "Tensor" and name not in _METHODS:
        raise AttributeError(f"the method {name} of Tensor is compiled: it has no code")
    result = _functions.get(form.place)
    if result is None:
        own, shown = getattr(form.op, "function", None), signature(form)
        if (
            isinstance(own, FunctionType)
            and not hasattr(own, "__wrapped__")
            and not hasattr(own, "describe_parameters")  # its code has other parameters
            and signature(own) == shown
        ):
            result = own
        else:
            result = _calling(form, name, shown)
        _functions[form.place] = result
    return result


def _calling(form: Form, name: str, shown: inspect.Signature) -> FunctionType:
    """A function with those parameters, which finds the form by its name in its module."""
    from inspect import Parameter as kinds

    parameters = shown.parameters.values()
    stars = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}
    given = [
        stars[p.kind] + p.name
        if p.kind in stars
        else f"{p.name}={p.name}"
        if p.kind is kinds.KEYWORD_ONLY
        else p.name
        for p in parameters
    ]
    bare = shown.replace(
        parameters=[
            p.replace(default=p.empty if p.default is p.empty else None, annotation=p.empty)
            for p in parameters
        ],
        return_annotation=shown.empty,
    )
    target = f"Tensor.{name}" if form.place.startswith("Tensor.") else name
    made: dict[str, Any] = {}
    text = f"def {name}{bare}:\n    return {target}({', '.join(given)})\n"
    exec(compile(text, f"<{form.__module__}.{name}>", "exec"), {}, made)
    code = made[name].__code__
    values = [p.default for p in parameters if p.default is not p.empty and p.kind is not kinds.KEYWORD_ONLY]
    named = {
        p.name: p.default for p in parameters if p.default is not p.empty and p.kind is kinds.KEYWORD_ONLY
    }
    result = FunctionType(code, vars(sys.modules[form.__module__]), name, tuple(values) or None)
    result.__kwdefaults__ = named or None
    result.__annotations__ = {p.name: p.annotation for p in parameters if p.annotation is not p.empty}
    result.__doc__, result.__module__ = form.__doc__, form.__module__
    return result


set_callback("function of a form", function_of)
