"""Functions of each element that make zeros of zeros, and conversions of all elements."""

from __future__ import annotations

from typing import Any, cast

from ..core.base import formats
from ..core.base.tensor import TensorBase
from ..core.call.watching import _disabled_torch_function_impl
from ..core.make.create import zeros
from ..nn import functional
from ..operations.declare.registry import published
from .conversion import coalesce
from .making import nothing_like
from .patterns import Coordinates
from .tensors import Answer, SparseTensor, answers, refusal, sparse, values_of

_methods, _operations = published("Tensor."), published("")

# Sums of these are the functions of sums: values at one place need not be added first.
LINEAR = ("neg", "positive", "deg2rad", "rad2deg", "conj", "real", "imag", "conj_physical", "resolve_conj")
ZERO_PRESERVING = (
    *("abs", "asin", "asinh", "atan", "atanh", "ceil", "erf", "erfinv", "expm1", "floor", "frac", "log1p"),
    *(
        "nan_to_num",
        "relu",
        "round",
        "sgn",
        "sign",
        "signbit",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "tan",
        "tanh",
    ),
    *("trunc", "isinf", "isnan", "isneginf", "isposinf", "angle", "resolve_neg"),
)


def once(x: SparseTensor) -> SparseTensor:
    """The tensor with each place listed once.

    >>> import flambeau
    >>> from flambeau.sparse.unary import once
    >>> once(flambeau.sparse_coo_tensor([[1, 1]], [1.0, 2.0]))._nnz()
    1
    """
    return coalesce(x) if type(x._pattern) is Coordinates else x


def _function(name: str) -> Any:
    return _methods.get(name) or _operations.get(name) or getattr(functional, name)


def _of_values(name: str, linear: bool) -> Answer:
    run = _function(name)

    def answer(input: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        x = input if linear else once(input)
        return sparse(x._pattern, run(values_of(x), *args, **kwargs))

    return answer


def in_place(name: str, answer: Answer) -> Answer:
    """The same written into the first argument.

    >>> import flambeau
    >>> x = flambeau.eye(2).to_sparse()
    >>> x.neg_() is x
    True
    """
    return lambda input, *args, **kwargs: input._become(answer(input, *args, **kwargs), name)


for _name in (*LINEAR, *ZERO_PRESERVING):
    _answer = _of_values(_name, _name in LINEAR)
    answers(_name)(_answer)
    answers(_name + "_")(in_place(_name + "_", _answer))


@answers("pow")
def _pow(input: SparseTensor, exponent: Any) -> SparseTensor:
    if isinstance(input, SparseTensor) and isinstance(exponent, TensorBase) and exponent.ndim == 0:
        exponent = exponent.item()
    if not isinstance(input, SparseTensor) or isinstance(exponent, TensorBase):
        raise refusal("pow", (input, exponent))
    if exponent == 0:
        raise RuntimeError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense"
        )
    x = once(input)
    return sparse(x._pattern, values_of(x) ** exponent)


answers("pow_")(in_place("pow_", _pow))
answers("cube")(lambda input: _pow(input, 3))


# --- the same elements ------------------------------
def _moved(name: str) -> Answer:
    """A conversion of values and, where the device changes, places."""

    def answer(input: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(input, SparseTensor):  # another tensor is to be as a sparse one is
            return input.to(args[0].device, args[0].dtype, *args[1:], **kwargs)
        args = tuple(
            zeros((), dtype=a.dtype, device=a.device) if isinstance(a, SparseTensor) else a for a in args
        )
        kwargs.pop("memory_format", None)
        before = values_of(input)
        values = getattr(before, name)(*args, **kwargs)
        return input if values is before else sparse(input._pattern.moved(values.device), values)

    return answer


for _name in (
    *("to", "float", "double", "half", "bfloat16", "int", "long", "short", "char", "byte", "bool"),
    *("cfloat", "cdouble", "chalf", "cpu", "cuda"),
):
    answers(_name)(_moved(_name))


@answers("legacy_type")
def _type(input: SparseTensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    if dtype is None:
        return input._held.type().replace(".", ".sparse.", 1)
    return input.to(dtype)


@answers("clone")
def _clone(input: SparseTensor, *, memory_format: Any = None) -> SparseTensor:
    return sparse(input._pattern.copied(), values_of(input).clone())


@answers("detach", "detach_copy", "alias_copy")
def _detach(input: SparseTensor) -> SparseTensor:
    return sparse(input._pattern, input._held)


@answers("detach_")
def _detach_(input: SparseTensor) -> SparseTensor:
    return _disabled_torch_function_impl(_methods["detach_"], (), (input,))


@answers("zero_")
def _zero_(input: SparseTensor) -> SparseTensor:
    return input._become(nothing_like(input), "zero_")


@answers("copy_")
def _copy_(input: Any, src: Any, non_blocking: bool = False) -> Any:
    if not isinstance(input, SparseTensor):
        return input.copy_(src.to_dense())
    if not isinstance(src, SparseTensor) or src.layout is not input.layout:
        raise refusal("copy_", (input, src))
    if input.shape != src.shape:
        raise RuntimeError(
            f"copy_(): expected tensors of the same size where one is sparse, got {tuple(input.shape)} and "
            f"{tuple(src.shape)}"
        )
    return input._become(cast(SparseTensor, src.clone().to(input.dtype)), "copy_")


def _like(name: str) -> Answer:
    """A dense tensor on the sparse one's device and, unless told otherwise, of its dtype."""

    def answer(input: SparseTensor, *args: Any, **kwargs: Any) -> TensorBase:
        if any(isinstance(x, SparseTensor) for x in args):  # it would come back here
            raise refusal(name, args)
        return getattr(zeros((), dtype=input.dtype, device=input.device), name)(*args, **kwargs)

    return answer


for _name in ("new_zeros", "new_empty", "new_ones", "new_full", "new_tensor"):
    answers(_name)(_like(_name))


@answers("zeros_like", "empty_like")
def _zeros_like(input: SparseTensor, **options: Any) -> Any:
    layout = options.pop("layout", None)
    options.pop("memory_format", None)
    requires_grad = options.pop("requires_grad", False)
    if layout is formats.strided:
        return zeros(input.shape, dtype=options.pop("dtype", None) or input.dtype, device=input.device)
    found = nothing_like(input).detach().to(**{k: v for k, v in options.items() if v is not None})
    return found.requires_grad_() if requires_grad else found


@answers("as_tensor")
def _as_tensor(data: SparseTensor, dtype: Any = None, device: Any = None) -> TensorBase:
    return data.to(device=device or data.device, dtype=dtype or data.dtype)


@answers("is_same_size")
def _is_same_size(input: TensorBase, other: TensorBase) -> bool:
    return input.shape == other.shape


@answers("is_contiguous", "is_pinned", "is_conj", "is_neg")
def _no(input: SparseTensor, *args: Any, **kwargs: Any) -> bool:
    return False
