"""Tensors some of whose elements do not count."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any, Self

from .._wrapper.wrapper_tensor import (
    ALIKE,
    ALIKE_IN_TYPE,
    CONVERSIONS,
    Overrides,
    WrapperTensor,
    along_rows,
    elementwise,
    identity,
    moving,
    reductions,
)
from ..core import tape
from ..core.base.formats import strided
from ..core.base.tensor import TensorBase
from ..core.make.create import empty
from ..operations.declare.registry import published
from ..operations.rows.norms import norm2

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

_ops, _masked = published(""), published("masked.")
_methods = SimpleNamespace(**published("Tensor."))
overrides = Overrides()


class MaskedTensor(WrapperTensor):
    """A tensor with a mask of its shape, bool: elements where it is False are not there.

    What they are never reaches another element or a gradient, not even as NaN.  Operations on elements keep the mask; of two masked
    tensors they want equal masks.  Reductions take what is there: their result is masked out where nothing is.  Views and cuts take the
    mask along.  `get_data()`, `get_mask()` and `to_tensor(value)` lead out.  Operations stand in `_overrides`; all others are refused
    by NotImplementedError.  The constructor copies `data`, without its history (see `as_masked_tensor`), and the mask.

    TypeError for what is no tensor, for sparse ones and for a mask that is not bool, ValueError for another shape.

    >>> import flambeau
    >>> from flambeau.masked import masked_tensor
    >>> x = masked_tensor(flambeau.tensor([1., 2., 0.]), flambeau.tensor([True, True, False]), requires_grad=True)
    >>> y = x.log()
    >>> y
    MaskedTensor(
      [  0.0000,   0.6931,       --]
    )
    >>> y.sum().backward()
    >>> x.grad
    MaskedTensor(
      [  1.0000,   0.5000,       --]
    )
    """

    _overrides = overrides
    _is = "a masked tensor"
    _mask: Any

    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> Self:
        _check(data, mask)
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, you can use "
                "data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        made = _made(data.detach().clone(), mask.detach().clone(), cls)
        if requires_grad:
            made._elements.requires_grad_()
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func in _MASKED:
            return _masked_function(func, *args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    @classmethod
    def _refusal(cls, name: str) -> NotImplementedError:
        return NotImplementedError(
            f"{name}(): not available for masked tensors; apply it to get_data(), or to to_tensor(value) with a value that does no harm"
        )

    def _with(self, elements: Any) -> MaskedTensor:
        return _made(elements, self._mask)

    def get_data(self) -> TensorBase:
        """The elements, those that are not there among them; no gradient reaches these."""
        return _gated(self)

    def get_mask(self) -> TensorBase:
        """Where elements are: bool."""
        return self._mask

    def to_tensor(self, value: Any) -> TensorBase:
        """A dense tensor with `value` where elements are not."""
        return self._elements.masked_fill(~self._mask, value)

    def to_dense(self, *args: Any, **kwargs: Any) -> MaskedTensor:
        """Itself: its layout is strided."""
        return self

    def to_sparse(self, *args: Any, **kwargs: Any) -> Any:
        """NotImplementedError: masked tensors are strided."""
        raise NotImplementedError(
            "to_sparse(): masked tensors of layout flambeau.sparse_coo are not available"
        )

    def is_sparse_coo(self) -> bool:
        """False: masked tensors are strided."""
        return False

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """False: masked tensors are strided."""
        return False

    def stride(self, dim: Any = None) -> Any:
        """The strides of the elements."""
        return self._elements.stride() if dim is None else self._elements.stride(dim)

    def __bool__(self) -> bool:
        return bool(_item(None, self))

    def __float__(self) -> float:
        return float(_item(None, self))

    def __int__(self) -> int:
        return int(_item(None, self))

    def __complex__(self) -> complex:
        return complex(_item(None, self))

    def __contains__(self, element: Any) -> bool:
        return bool(((self._elements == element) & self._mask).any())

    def __reversed__(self) -> Any:
        return self.flip(0) if self.ndim else self

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = self._elements.tolist(), self._mask.tolist()
        if self.ndim == 0:
            return f"MaskedTensor({_formatted(data) if mask else '--'}, {mask})"
        return f"MaskedTensor(\n{_indented(_lines(data, mask, self.ndim))}\n)"

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) not in memo:
            copied = super().__deepcopy__(memo)
            copied._mask = self._mask.__deepcopy__(memo)
            memo[id(self)] = copied
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return rebuilt, (self._elements, self._mask)


# --- how they are made and shown ------------------------------
def _check(data: Any, mask: Any) -> None:
    for label, given in (("data", data), ("mask", mask)):
        if not isinstance(given, TensorBase) or isinstance(given, MaskedTensor):
            raise TypeError(f"{label} must be a Tensor, got {type(given).__name__}")
        if given.layout is not strided or getattr(given, "is_nested", False):
            raise TypeError(f"{label} layout of {given.layout} is not supported.")
    if mask.dtype.name != "bool":
        raise TypeError(f"mask must have dtype bool, got {mask.dtype}")
    if data.ndim != mask.ndim:
        raise ValueError(f"data.dim() must equal mask.dim(), got {data.ndim} and {mask.ndim}")
    if data.shape != mask.shape:
        raise ValueError(
            f"data.size() must equal mask.size(), got {tuple(data.shape)} and {tuple(mask.shape)}"
        )
    if data.device != mask.device:
        raise ValueError(f"data and mask must be on one device, got {data.device} and {mask.device}")


def _made(data: TensorBase, mask: TensorBase, cls: type = MaskedTensor) -> Any:
    """A masked tensor of parts that fit."""
    made = cls._make_subclass(cls, empty(data.shape, dtype=data.dtype, device="meta"))  # type: ignore[attr-defined]
    made._elements, made._mask = data, mask
    return made


def rebuilt(data: TensorBase, mask: TensorBase) -> MaskedTensor:
    """A masked tensor over these parts, which are checked and not copied.

    >>> import flambeau
    >>> from flambeau.masked.maskedtensor import rebuilt
    >>> rebuilt(flambeau.ones(1), flambeau.tensor([False]))
    MaskedTensor(
      [      --]
    )
    """
    _check(data, mask)
    return _made(data, mask)


def _formatted(x: Any) -> str:
    return f"{x:8.4f}" if isinstance(x, float) else str(x)


def _indented(lines: str) -> str:
    return "\n".join("  " + line for line in lines.split("\n"))


def _lines(data: list, mask: list, dims: int) -> str:
    if dims > 1:
        inside = ",\n".join(_indented(_lines(d, m, dims - 1)) for d, m in zip(data, mask))
        return f"[\n{inside}\n]"
    shown = [_formatted(x) for x in data]
    width = max((len(s) if there else 8 for s, there in zip(shown, mask)), default=8)
    return f"[{', '.join(s if there else '--'.rjust(width) for s, there in zip(shown, mask))}]"


def masked_tensor(data: TensorBase, mask: TensorBase, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor of copies of `data` and `mask` (bool, of its shape): a leaf, without the history of `data`.

    Raises:
        TypeError: `data` or `mask` is no tensor
        ValueError: their shapes differ

    >>> import flambeau
    >>> from flambeau.masked import masked_tensor
    >>> masked_tensor(flambeau.tensor([[1, 2], [3, 4]]), flambeau.tensor([[True, False], [True, True]])).sum(0)
    MaskedTensor(
      [4, 4]
    )
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: TensorBase, mask: TensorBase) -> MaskedTensor:
    """A masked tensor of copies of `data` and `mask` (bool, of its shape), with the history of `data`.

    Raises:
        TypeError: `data` or `mask` is no tensor
        ValueError: their shapes differ

    >>> import flambeau
    >>> from flambeau.masked import as_masked_tensor
    >>> x = flambeau.tensor([0., 4.], requires_grad=True)
    >>> as_masked_tensor(x, x.detach() > 0).sqrt().sum().backward()
    >>> x.grad
    tensor([0.0000, 0.2500])
    """
    _check(data, mask)
    return _made(data.clone(), mask.detach().clone())


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether it is a `MaskedTensor`.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.masked.is_masked_tensor(flambeau.ones(2))
    False
    """
    return isinstance(obj, MaskedTensor)


# --- operations ------------------------------
def _gated(x: MaskedTensor) -> TensorBase:
    """The elements, whose gradient is 0 where they are not there, whatever arrives."""
    if tape.tracked(x._elements):
        return _ops["where"](x._mask, x._elements, x._elements.detach())
    return x._elements


def _keep_zeros(result: Any, operand: TensorBase) -> None:
    """Where no gradient arrives at the result, as behind the other branch of a `where`, none goes on to the operand: not 0 · ∞."""
    if not isinstance(result, TensorBase) or not result.requires_grad or result.shape != operand.shape:
        return
    none: list[TensorBase] = []

    def arrived(grad: TensorBase) -> None:
        none[:] = [grad.detach() == 0]

    result.register_hook(arrived)
    operand.register_hook(lambda grad: grad.masked_fill(none[0], 0))


def _common(given: list[MaskedTensor], name: str) -> TensorBase:
    """The mask of all operands; ValueError where they differ."""
    mask = given[0]._mask
    for x in given[1:]:
        if x._mask is not mask and not (x._mask.shape == mask.shape and bool((x._mask == mask).all())):
            raise ValueError(
                f"{name}(): Input masks must match, got {tuple(mask.shape)} with {int(mask.sum())} and {tuple(x._mask.shape)} with "
                f"{int(x._mask.sum())} elements that are there"
            )
    return mask


def _wrap(result: Any, mask: TensorBase) -> Any:
    if isinstance(result, TensorBase):
        return _made(result, mask if mask.shape == result.shape else mask.expand(result.shape))
    if isinstance(result, (tuple, list)):
        parts = [_wrap(x, mask) for x in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


def _pointwise(func: Any, *args: Any, **kwargs: Any) -> Any:
    """On elements; masked tensors among the operands have equal masks."""
    name = func.__name__
    if "out" in kwargs:
        raise NotImplementedError(f"{name}(): out= is not available for masked tensors")
    mask = _common([x for x in (*args, *kwargs.values()) if isinstance(x, MaskedTensor)], name)
    taken = [_gated(x) if isinstance(x, MaskedTensor) else x for x in args]
    named = {n: _gated(x) if isinstance(x, MaskedTensor) else x for n, x in kwargs.items()}
    if not func.writes:
        result = func(*taken, **named)
        for x, gate in zip(args, taken):
            if isinstance(x, MaskedTensor) and gate is not x._elements:
                _keep_zeros(result, gate)
        return _wrap(result, mask)
    written = args[0]
    if not isinstance(written, MaskedTensor):
        raise TypeError(f"{name}(): the result is masked and cannot be written to a dense tensor")
    old = written._elements
    if taken[0] is old or old.is_leaf:
        func(old, *taken[1:], **named)
    else:
        written._elements = func(taken[0].clone(), *taken[1:], **named)
    return written


@overrides(_methods.detach, _methods.is_pinned, _methods.record_stream)
def _of_data(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Conversions and tensors alike: the mask stays, and follows to another device."""
    if not isinstance(input, MaskedTensor):
        raise MaskedTensor._refusal(func.__name__)
    args = tuple(x._elements if isinstance(x, MaskedTensor) else x for x in args)
    result = func(input._elements, *args, **kwargs)
    if result is input._elements:
        return input
    return _made(result, input._mask.to(result.device))


@overrides(_ops["where"], _methods.where)
def _where(func: Any, condition: Any, input: Any, other: Any) -> MaskedTensor:
    """The elements, and the mask, of one or the other."""
    if func.__name__ == "where_method" or isinstance(condition, MaskedTensor):
        raise TypeError(
            "where(): the condition must be a tensor that is not masked; where(condition, input, other) takes one, e.g. to_tensor(False)"
        )
    data = [_gated(x) if isinstance(x, MaskedTensor) else x for x in (input, other)]
    masks = [x._mask if isinstance(x, MaskedTensor) else True for x in (input, other)]
    result = func(condition, *data)
    return _made(result, func(condition, *masks).expand(result.shape))


def _passed(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Views, cuts and joins, of the elements and of the mask."""
    name = func.__name__

    def taken(x: Any, of: Any) -> Any:
        if isinstance(x, MaskedTensor):
            return of(x)
        if isinstance(x, (tuple, list)) and any(isinstance(y, MaskedTensor) for y in x):
            for k, y in enumerate(x):
                if not isinstance(y, MaskedTensor):
                    raise TypeError(
                        f"{name}(): expected all tensors masked, got {type(y).__name__} at place {k}"
                    )
            return type(x)(of(y) for y in x)
        return x

    data = func(
        *(taken(x, lambda y: y._elements) for x in args),
        **{n: taken(x, lambda y: y._elements) for n, x in kwargs.items()},
    )
    mask = func(
        *(taken(x, lambda y: y._mask) for x in args),
        **{n: taken(x, lambda y: y._mask) for n, x in kwargs.items()},
    )
    return _paired(data, mask, name)


def _paired(data: Any, mask: Any, name: str) -> Any:
    if isinstance(data, TensorBase):
        if data.shape != mask.shape:
            raise RuntimeError(f"{name}(): not available for masked tensors where elements change their size")
        return _made(data, mask)
    parts = [_paired(d, m, name) for d, m in zip(data, mask)]
    return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)


def _there(mask: TensorBase, dim: Any, keepdim: bool) -> TensorBase:
    """Where a reduction has something to reduce."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return mask.any().reshape((1,) * mask.ndim) if keepdim else mask.any()
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    for d in sorted((d % mask.ndim if mask.ndim else 0 for d in dims), reverse=True):
        mask = mask.any(d, keepdim) if mask.ndim else mask
    return mask


@overrides(_methods.var, _methods.std)
def _spread(
    func: Any, input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, **kwargs: Any
) -> MaskedTensor:
    """`var` and `std`, whose second or third argument by position says whether one is taken from the count."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        kwargs["unbiased"] = unbiased
    return _reduce(func, input, dim, keepdim, **kwargs)


def _reduce(func: Any, input: Any, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> MaskedTensor:
    """Of the elements that are there; masked out where there are none."""
    name = func.__name__
    if isinstance(dim, TensorBase):  # `max` and `min` of two tensors
        return _pointwise(func, input, dim, **kwargs)
    if not isinstance(input, MaskedTensor):
        raise MaskedTensor._refusal(name)
    if "out" in kwargs:
        raise NotImplementedError(f"{name}(): out= is not available for masked tensors")
    data, mask = input._elements, input._mask
    if name in _masked:
        result = _masked[name](data, dim, keepdim=keepdim, mask=mask, **kwargs)
    else:
        filled = data.masked_fill(~mask, identity(func, data.dtype))
        dims = () if dim is None else (dim, keepdim) if keepdim else (dim,)
        result = func(filled, *dims, **kwargs)
    return _wrap(result, _there(mask, dim, keepdim))


@overrides(_ops["norm"], _methods.norm, published("linalg.")["vector_norm"])
def _norm(
    func: Any, input: Any, p: Any = 2.0, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    order = 2.0 if p in (None, "fro") else p
    if not isinstance(order, (int, float)):
        raise NotImplementedError(f"norm(): the order {p!r} is not available for masked tensors")
    result = _masked["norm"](input._elements, order, dim, keepdim=keepdim, dtype=dtype, mask=input._mask)
    return _made(result, _there(input._mask, dim, keepdim))


@overrides(norm2)
def _norm_inside(func: Any, tensors: tuple, *rest: Any) -> TensorBase:
    """The norm as other functions of the library call it."""
    return _norm(func, tensors[0]).to_tensor(0)


def _along(
    func: Any, input: MaskedTensor, dim: Any, *args: Any, dtype: Any = None, **kwargs: Any
) -> MaskedTensor:
    """`softmax`, `cumsum` and kin along the elements that are there."""
    if "out" in kwargs:
        raise NotImplementedError(f"{func.__name__}(): out= is not available for masked tensors")
    result = _masked[func.__name__](input._elements, dim, dtype=dtype, mask=input._mask)
    return _made(result, input._mask)


def _masked_function(func: Any, input: Any, *args: Any, mask: Any = None, **kwargs: Any) -> TensorBase:
    """A function of `flambeau.masked`, which gives a dense tensor: its mask and the tensor's together."""
    if func.__name__ in ("logaddexp", "normalize") or any(isinstance(x, MaskedTensor) for x in args):
        raise MaskedTensor._refusal(f"masked.{func.__name__}")
    if not isinstance(input, MaskedTensor):
        raise TypeError(f"masked.{func.__name__}(): mask must be a bool tensor that is not masked")
    both = input._mask if mask is None else input._mask & mask
    return func(input._elements, *args, mask=both, **kwargs)


@overrides(_methods.copy_)
def _copy(func: Any, input: Any, src: Any, non_blocking: bool = False) -> Any:
    if not isinstance(input, MaskedTensor) or not isinstance(src, MaskedTensor):
        raise TypeError("copy_(): expected two masked tensors; a dense one is got by to_tensor(value)")
    _common([input, src], "copy_")
    input._elements.copy_(src._elements)
    return input


@overrides(_methods.item)
def _item(func: Any, input: MaskedTensor) -> Any:
    if input.numel() == 1 and not input._mask.item():
        raise ValueError("item(): the element is masked out, there is no number")
    return input._elements.item()


@overrides(_methods.detach_)
def _detach_in_place(func: Any, input: MaskedTensor) -> MaskedTensor:
    input._elements.detach_()
    return input


@overrides(_methods.contiguous)
def _contiguous(func: Any, input: MaskedTensor, **kwargs: Any) -> MaskedTensor:
    data, mask = input._elements.contiguous(**kwargs), input._mask.contiguous(**kwargs)
    return input if data is input._elements and mask is input._mask else _made(data, mask)


@overrides(_methods.clone)
def _clone(func: Any, input: MaskedTensor, **kwargs: Any) -> MaskedTensor:
    return _made(func(input._elements, **kwargs), input._mask.clone())


@overrides(_methods.is_contiguous)
def _is_contiguous(func: Any, input: MaskedTensor, **kwargs: Any) -> bool:
    return input._elements.is_contiguous(**kwargs)


@overrides(_methods.is_same_size)
def _is_same_size(func: Any, input: TensorBase, other: TensorBase) -> bool:
    return input.shape == other.shape


@overrides(_methods.tolist)
def _to_list(func: Any, input: MaskedTensor) -> Any:
    """Numbers, None where none are."""

    def one(data: Any, mask: Any) -> Any:
        if isinstance(mask, list):
            return [one(d, m) for d, m in zip(data, mask)]
        return data if mask else None

    return one(input._elements.tolist(), input._mask.tolist())


def _like(func: Any, input: MaskedTensor, *args: Any, **kwargs: Any) -> TensorBase:
    return getattr(input._elements.detach(), func.__name__)(*args, **kwargs)


_MASKED = frozenset(_masked.values())
overrides.group(elementwise(), _pointwise)
overrides.group(ALIKE | CONVERSIONS, _of_data)
overrides.group(ALIKE_IN_TYPE, _like)
overrides.group(reductions(), _reduce)
overrides.group(along_rows() & {*_masked}, _along)
overrides.group(moving(), _passed)
