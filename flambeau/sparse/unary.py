"""Functions of each element that make zeros of zeros, and conversions of all elements."""

from __future__ import annotations

import inspect
from typing import Any, cast

from .._wrapper.wrapper_tensor import ALIKE_IN_TYPE, CONVERSIONS
from ..core.base import formats
from ..core.base.tensor import TensorBase
from ..core.call.interceptors import _disabled_torch_function_impl
from ..core.make.create import zeros
from ..operations.declare.registry import published
from .conversion import coalesce
from .making import nothing_like
from .patterns import Coordinates
from .tensors import Answer, SparseTensor, overrides, refusal, sparse, values_of

_methods = published("Tensor.")


def once(x: SparseTensor) -> SparseTensor:
    """The tensor with each place listed once.

    >>> import flambeau
    >>> from flambeau.sparse.unary import once
    >>> once(flambeau.sparse_coo_tensor([[1, 1]], [1.0, 2.0]))._nnz()
    1
    """
    return coalesce(x) if type(x._pattern) is Coordinates else x


_zero_of_zero: dict[tuple[Any, Any], bool] = {}  # by operation and dtype, where nothing else is given


def keeps_zeros(op: Any, dtype: Any, args: tuple, kwargs: dict) -> bool:
    """Whether an operation on each element makes zero of zero.

    >>> import flambeau
    >>> from flambeau.sparse.unary import keeps_zeros
    >>> [keeps_zeros(op, flambeau.float32, (), {}) for op in (flambeau.sin, flambeau.cos)]
    [True, False]
    >>> keeps_zeros(flambeau.clamp, flambeau.float32, (-1.0, 1.0), {}), keeps_zeros(flambeau.clamp, flambeau.float32, (1.0,), {})
    (True, False)
    """
    cached = None if args or kwargs else _zero_of_zero.get((op, dtype))
    if cached is None:
        result = op(zeros((), dtype=dtype), *args, **kwargs)
        cached = isinstance(result, TensorBase) and bool(result == 0)
        if not (args or kwargs):
            _zero_of_zero[op, dtype] = cached
    return cached


def of_each(op: Any, input: Any, *args: Any, **kwargs: Any) -> SparseTensor:
    """An operation on each element, which makes zero of zero: on the values, those at one place added first unless it is additive.

    >>> import flambeau
    >>> from flambeau.sparse.unary import of_each
    >>> of_each(flambeau.square, flambeau.sparse_coo_tensor([[1, 1]], [1.0, 2.0])).to_dense()
    tensor([0., 9.])
    """
    others = (*args, *kwargs.values())
    if not isinstance(input, SparseTensor) or any(isinstance(x, TensorBase) for x in others):
        raise refusal(op.__name__, (input, *others))
    if op.entry.kind == "random" or not keeps_zeros(op, input.dtype, args, kwargs):
        raise refusal(op.__name__, (input,))
    x = input if op.entry.details.get("additive") else once(input)
    if not (op.writes or _inplace(op, args, kwargs)):
        return sparse(x._pattern, op(values_of(x), *args, **kwargs))
    return input._become(sparse(x._pattern, op(values_of(x).clone(), *args, **kwargs)), op.__name__)


def _inplace(op: Any, args: tuple, kwargs: dict) -> bool:
    """Whether the argument `inplace` says that the input is written."""
    if not (args or kwargs):
        return False
    names = list(inspect.signature(op).parameters)[1:]
    return bool({**dict(zip(names, args)), **kwargs}.get("inplace"))


@overrides("pow")
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


@overrides("pow_")
def _pow_(input: SparseTensor, exponent: Any) -> SparseTensor:
    return input._become(_pow(input, exponent), "pow_")


overrides("cube")(lambda input: _pow(input, 3))


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


for _name in CONVERSIONS:
    overrides(_name)(_moved(_name))


@overrides("legacy_type")
def _type(input: SparseTensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    if dtype is None:
        return input._held.type().replace(".", ".sparse.", 1)
    return input.to(dtype)


@overrides("clone")
def _clone(input: SparseTensor, *, memory_format: Any = None) -> SparseTensor:
    return sparse(input._pattern.copied(), values_of(input).clone())


@overrides("detach", "detach_copy", "alias_copy")
def _detach(input: SparseTensor) -> SparseTensor:
    return sparse(input._pattern, input._held)


@overrides("detach_")
def _detach_(input: SparseTensor) -> SparseTensor:
    return _disabled_torch_function_impl(_methods["detach_"], (), (input,))


@overrides("zero_")
def _zero_(input: SparseTensor) -> SparseTensor:
    return input._become(nothing_like(input), "zero_")


@overrides("copy_")
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
    """A dense tensor on the sparse one's device and, unless given otherwise, of its dtype."""

    def answer(input: SparseTensor, *args: Any, **kwargs: Any) -> TensorBase:
        if any(isinstance(x, SparseTensor) for x in args):  # it would come back here
            raise refusal(name, args)
        return getattr(zeros((), dtype=input.dtype, device=input.device), name)(*args, **kwargs)

    return answer


for _name in ALIKE_IN_TYPE:
    overrides(_name)(_like(_name))


@overrides("zeros_like", "empty_like")
def _zeros_like(input: SparseTensor, **options: Any) -> Any:
    layout = options.pop("layout", None)
    options.pop("memory_format", None)
    requires_grad = options.pop("requires_grad", False)
    if layout is formats.strided:
        return zeros(input.shape, dtype=options.pop("dtype", None) or input.dtype, device=input.device)
    result = nothing_like(input).detach().to(**{k: v for k, v in options.items() if v is not None})
    return result.requires_grad_() if requires_grad else result


@overrides("as_tensor")
def _as_tensor(data: SparseTensor, dtype: Any = None, device: Any = None) -> TensorBase:
    return data.to(device=device or data.device, dtype=dtype or data.dtype)


@overrides("is_same_size")
def _is_same_size(input: TensorBase, other: TensorBase) -> bool:
    return input.shape == other.shape


@overrides("is_contiguous", "is_pinned", "is_conj", "is_neg")
def _no(input: SparseTensor, *args: Any, **kwargs: Any) -> bool:
    return False
