"""Tensors whose rows, along the last dimension, are codes of eight bits with a scale each: a cache of keys and values.

PyTorch's quantised tensors have a scale for a whole tensor or for a channel; in a cache every token brings rows of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from .._wrapper.wrapper_tensor import Overrides, WrapperTensor
from ..autograd import no_grad
from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.call.operation import behind
from ..core.make.create import empty
from ..core.places.join import cat
from ..core.tape.modes import is_grad_enabled
from ..operations.declare.registry import published
from ..operations.neural.attention import quantised
from ..operations.neural.attention.attention import scaled_dot_product_attention
from ._configurations import LARGEST, encoded_rows

overrides = Overrides()
_float = by_name["float32"]
_FLOATS = tuple(by_name[name] for name in quantised.FLOATS)
_methods = published("Tensor.")
LEAST_ROWS = 64  # allocated for rows that come; an eighth of those that are there, if that is more


class _Buffer:
    """Memory for rows that come: codes (…, most, E) and scales (…, most)."""

    def __init__(self, codes: Any, scales: Any, filled: int) -> None:
        self.codes, self.scales = codes, scales
        self._next = {filled}  # the first row that nobody has; a set, from which one thread alone removes it

    def takes(self, begin: int, end: int) -> bool:
        """Take the rows [begin, end), if they are the next ones."""
        if end > self.codes.shape[-2]:
            return False
        try:
            self._next.remove(begin)
        except KeyError:
            return False
        self._next.add(end)
        return True


class RowQuantizedTensor(WrapperTensor):
    """A tensor of floats as codes of eight bits: code · scale, with one scale for each row along the last dimension.

    `quantize_per_row` makes one; `codes` and `scales` are what it is made of.  `cat` along a dimension before the last rounds tensors
    of floats beside it, and, where no gradients are recorded, writes rows behind those that are there without copying these, if nobody
    has done so before.  Views and choices along dimensions before the last are of the same kind.  `scaled_dot_product_attention` reads
    the codes.  All other operations see the floats, `dequantize()`; writes to it are refused by NotImplementedError.  It has no gradient.

    >>> import flambeau
    >>> from flambeau.ao.quantization import quantize_per_row
    >>> x = quantize_per_row(flambeau.tensor([[127.0, -3.2], [0.0, 0.5]]))
    >>> x.codes, x.scales
    (tensor([[127,  -3],
            [  0, 127]], dtype=flambeau.int8), tensor([1.0000, 0.0039]))
    >>> flambeau.cat([x, flambeau.ones(1, 2)]).shape, (x + 1).dtype, x.nbytes
    (flambeau.Size([3, 2]), flambeau.float32, 12)
    """

    _overrides = overrides
    _is = "a tensor quantised by rows"
    _scales: Any
    _dtype: Any
    _buffer: _Buffer | None

    @classmethod
    def _refusal(cls, name: str) -> NotImplementedError:
        return NotImplementedError(
            f"{name}(): not available for tensors quantised by rows; apply it to dequantize(), codes or scales"
        )

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        op = behind(func)
        if op.__name__ in cls._overrides:
            return super().__torch_function__(func, types, args, kwargs)
        written = args[:1] if getattr(op, "writes", False) else ()
        if any(isinstance(t, RowQuantizedTensor) for t in (*written, kwargs.get("out"))):
            raise cls._refusal(op.__name__)
        return func(*_floats(args), **{n: _floats(v) for n, v in kwargs.items()})

    def _with(self, elements: Any) -> Self:
        return over(elements, self._scales, self._dtype)  # type: ignore[return-value]

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        """The dtype of the floats."""
        return self._dtype

    @property
    def codes(self) -> Any:
        """The codes, of int8, float8_e4m3fn or float8_e5m2, in the tensor's shape; not a copy."""
        return self._elements

    @property
    def scales(self) -> Any:
        """The scales of the rows, in float32 and the shape without the last dimension; not a copy."""
        return self._scales

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of codes and scales."""
        return self._elements.nbytes + self._scales.nbytes

    def dequantize(self) -> TensorBase:
        """The floats."""
        return quantised.dequantised(self._elements, self._scales, self._dtype)

    def is_floating_point(self) -> bool:
        """True: codes stand for floats."""
        return True

    def is_contiguous(self, memory_format: Any = None) -> bool:  # type: ignore[override]
        """Whether codes and scales lie in order."""
        return self._elements.is_contiguous() and self._scales.is_contiguous()

    @property
    def requires_grad(self) -> bool:  # type: ignore[override]
        """False: codes have no gradient."""
        return False

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, requires_grad: bool = True) -> Self:  # type: ignore[override]
        """RuntimeError where a gradient is wanted."""
        if requires_grad:
            raise RuntimeError("requires_grad_(): a tensor quantised by rows has no gradient")
        return self

    def item(self) -> float:
        """The number of one element."""
        return self.dequantize().item()

    def tolist(self) -> Any:
        """The floats as lists."""
        return self.dequantize().tolist()

    def numpy(self, *, force: bool = False) -> Any:  # type: ignore[override]
        """The floats as an array of NumPy's."""
        return self.dequantize().numpy(force=force)

    __float__ = item

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Any:
        return iter(self[i] for i in range(len(self)))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"RowQuantizedTensor(shape={tuple(self.shape)}, dtype={self.dtype}, codes={self.codes.dtype})"

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) not in memo:
            codes, scales = (t.__deepcopy__(memo) for t in (self._elements, self._scales))
            memo[id(self)] = over(codes, scales, self._dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return over, (self._elements, self._scales, self._dtype)


def over(codes: Any, scales: Any, dtype: Any, buffer: _Buffer | None = None) -> RowQuantizedTensor:
    """A tensor of these codes and scales, which are not copied."""
    made = RowQuantizedTensor._make_subclass(  # type: ignore[attr-defined]
        RowQuantizedTensor, empty(codes.shape, dtype=dtype, device="meta")
    )
    made._elements, made._scales, made._dtype, made._buffer = codes, scales, dtype, buffer
    return made


def quantize_per_row(input: Any, dtype: Any = by_name["int8"]) -> RowQuantizedTensor:
    """Rows along the last dimension as codes of eight bits, each with a scale by which its largest magnitude becomes the largest code.

    An element of int8 is within 1/254 of its row's largest magnitude; of float8_e4m3fn within 1/16 of itself, of float8_e5m2 within 1/8,
    where it is not among the smallest.  A row that holds NaN or an infinite number becomes NaN.

    Args:
        input: of float32, bfloat16 or float16, (…, E) with one dimension at least.
        dtype: of the codes, int8, float8_e4m3fn or float8_e5m2.

    Raises:
        TypeError: the input is no tensor of these dtypes, or `dtype` is another.
        ValueError: no dimension.

    >>> import flambeau
    >>> from flambeau.ao.quantization import quantize_per_row
    >>> keys = quantize_per_row(flambeau.ones(1, 2, 5, 64))
    >>> keys.nbytes, keys.dequantize().nbytes
    (680, 2560)
    """
    if not isinstance(input, TensorBase) or input.dtype not in _FLOATS:
        got = input.dtype if isinstance(input, TensorBase) else type(input).__name__
        raise TypeError(
            f"quantize_per_row(): argument 'input': expected a float32, bfloat16 or float16 tensor, got {got}"
        )
    if dtype not in LARGEST:
        raise TypeError(
            f"quantize_per_row(): argument 'dtype': expected int8, float8_e4m3fn or float8_e5m2, got {dtype}"
        )
    if not input.ndim:
        raise ValueError(
            "quantize_per_row(): argument 'input': expected one dimension at least, got a scalar"
        )
    return over(*_encoded(input, dtype), input.dtype)


def _encoded(input: Any, dtype: Any) -> tuple[Any, Any]:
    """Codes and scales of floats, or of a tensor that is quantised already."""
    if isinstance(input, RowQuantizedTensor) and input.codes.dtype is dtype:
        return input.codes, input.scales
    floats = _floats(input)
    with no_grad():
        return encoded_rows(floats.detach().to(_float), dtype)


def _floats(x: Any) -> Any:
    """What arguments mean in floats."""
    if isinstance(x, (tuple, list)):
        return type(x)(*map(_floats, x)) if hasattr(x, "_fields") else type(x)(map(_floats, x))
    return x.dequantize() if isinstance(x, RowQuantizedTensor) else x


def _both(input: RowQuantizedTensor, function: Any) -> Any:
    """The same of codes and of scales."""
    codes, scales = function(input.codes), function(input.scales)
    if isinstance(codes, (tuple, list)):
        return type(codes)(over(c, s, input.dtype) for c, s in zip(codes, scales))
    return over(codes, scales, input.dtype)


# --- along one dimension before the last ------------------------------
def _before_last(input: RowQuantizedTensor, dim: Any) -> int | None:
    """The dimension, counted from the first, if it is one before the last."""
    if isinstance(dim, int) and -input.ndim <= dim < input.ndim and dim % input.ndim != input.ndim - 1:
        return dim % input.ndim
    return None


@overrides(_methods["index_select"], _methods["narrow"], _methods["select"])
def _along(func: Any, input: Any, dim: Any, *args: Any, **kwargs: Any) -> Any:
    at = _before_last(input, dim) if isinstance(input, RowQuantizedTensor) else None
    if at is None or not all(isinstance(x, (int, TensorBase)) for x in (*args, *kwargs.values())):
        return func(_floats(input), dim, *_floats(args), **{n: _floats(v) for n, v in kwargs.items()})
    return _both(input, lambda t: func(t, at, *args, **kwargs))


@overrides(_methods["split"], _methods["chunk"], _methods["repeat_interleave"])
def _cut(func: Any, input: Any, size: Any, dim: Any = 0, **kwargs: Any) -> Any:
    at = _before_last(input, dim) if isinstance(input, RowQuantizedTensor) else None
    if at is None:
        return func(_floats(input), _floats(size), dim, **kwargs)
    return _both(input, lambda t: func(t, size, at, **kwargs))


@overrides(_methods["clone"], _methods["contiguous"], _methods["detach"])
def _whole(func: Any, input: Any, **kwargs: Any) -> Any:
    return _both(input, lambda t: func(t, **kwargs))


@overrides(_methods["transpose"])
def _transpose(func: Any, input: Any, dim0: Any, dim1: Any) -> Any:
    first, second = (_before_last(input, d) for d in (dim0, dim1))
    if first is None or second is None:
        return func(_floats(input), dim0, dim1)
    return _both(input, lambda t: func(t, first, second))


@overrides(_methods["__getitem__"])
def _item(func: Any, input: Any, index: Any) -> Any:
    if not isinstance(input, RowQuantizedTensor):
        return func(input, _floats(index))
    wanted = index if isinstance(index, tuple) else (index,)
    found = [k for k, i in enumerate(wanted) if i is Ellipsis]
    simple = all(i is Ellipsis or isinstance(i, (int, slice)) or _is_list(i) for i in wanted)
    if simple and len(found) <= 1 and sum(map(_is_list, wanted)) <= 1:
        at = found[0] if found else len(wanted)
        filled = [slice(None)] * (input.ndim - len(wanted) + len(found))
        whole = (*wanted[:at], *filled, *wanted[at + 1 :])
        if len(whole) == input.ndim and isinstance(whole[-1], slice) and whole[-1] == slice(None):
            return over(func(input.codes, whole), func(input.scales, whole[:-1]), input.dtype)
    return func(_floats(input), _floats(index))


def _is_list(index: Any) -> bool:
    return isinstance(index, TensorBase) and index.ndim == 1 and index.dtype.name in ("int64", "int32")


@overrides(_methods["expand"], _methods["reshape"])
def _sizes(func: Any, input: Any, *sizes: Any) -> Any:
    shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
    width = input.shape[-1]
    if width and len(shape) > 1 and (shape[-1] == width or shape[-1] == -1 and func.__name__ == "expand"):
        return over(
            func(input.codes, (*shape[:-1], width)), func(input.scales, tuple(shape[:-1])), input.dtype
        )
    return func(_floats(input), shape)


# --- growing ------------------------------
@overrides(cat)
def _cat(func: Any, tensors: Any, dim: Any = 0, **kwargs: Any) -> Any:
    first = next(t for t in tensors if isinstance(t, RowQuantizedTensor))
    parts = [t for t in tensors if not (isinstance(t, TensorBase) and t.shape == (0,))]
    at = _before_last(first, dim)
    if at is None or kwargs or any(not isinstance(t, TensorBase) or t.ndim != first.ndim for t in parts):
        return func(_floats(tensors), dim, **kwargs)
    if at == first.ndim - 2 and parts[0] is first and not is_grad_enabled():
        return _grown(first, [_encoded(t, first.codes.dtype) for t in parts[1:]])
    codes, scales = zip(*(_encoded(t, first.codes.dtype) for t in parts))
    return over(func(codes, at), func(scales, at), first.dtype)


def _grown(first: RowQuantizedTensor, others: list[tuple[Any, Any]]) -> RowQuantizedTensor:
    """The rows of a tensor, and others behind them."""
    begin = first.shape[-2]
    for codes, _ in others:
        if codes.shape[:-2] != first.shape[:-2] or codes.shape[-1] != first.shape[-1]:
            raise RuntimeError(
                f"cat(): Sizes of tensors must match except in dimension {first.ndim - 2}, got {list(first.shape)} and "
                f"{list(codes.shape)}"
            )
    end = begin + sum(codes.shape[-2] for codes, _ in others)
    buffer = first._buffer
    if buffer is None or not buffer.takes(begin, end):
        most = end + max(LEAST_ROWS, end // 8)
        codes = first.codes.new_empty((*first.shape[:-2], most, first.shape[-1]))
        buffer = _Buffer(codes, first.scales.new_empty(codes.shape[:-1]), end)
        others = [(first.codes, first.scales), *others]
        begin = 0
    for codes, scales in others:
        count = codes.shape[-2]
        buffer.codes.narrow(-2, begin, count).copy_(codes)
        buffer.scales.narrow(-1, begin, count).copy_(scales)
        begin += count
    return over(buffer.codes.narrow(-2, 0, end), buffer.scales.narrow(-1, 0, end), first.dtype, buffer)


# --- attention ------------------------------
@overrides(scaled_dot_product_attention)
def _attention(
    func: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    rows = isinstance(key, RowQuantizedTensor) and isinstance(value, RowQuantizedTensor)
    if (
        rows
        and not dropout_p
        and not isinstance(query, RowQuantizedTensor)
        and quantised.takes(query, key, value)
    ):
        if _fits(query, key, attn_mask, is_causal, enable_gqa):
            factor = query.shape[-1] ** -0.5 if scale is None else scale
            diagonal = 0 if is_causal else None
            return quantised.row_quantized_attention(
                query, key.codes, key.scales, value.codes, value.scales, attn_mask, diagonal, factor
            )
    query, key, value, attn_mask = (_floats(x) for x in (query, key, value, attn_mask))
    return func(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _fits(query: Any, key: Any, mask: Any, is_causal: bool, enable_gqa: bool) -> bool:
    """Whether the codes are read: else what floats do, errors included, is done."""
    if query.dtype is not key.dtype or (query.shape[1] != key.shape[1] and not enable_gqa):
        return False
    if mask is None:
        return True
    if is_causal or hasattr(mask, "diagonal_of") or isinstance(mask, WrapperTensor) or mask.requires_grad:
        return False
    wanted = (*query.shape[:3], key.shape[2])
    sizes = (*[1] * (4 - mask.ndim), *mask.shape)
    return (
        mask.is_cpu
        and (mask.dtype.name == "bool" or mask.dtype is query.dtype)
        and len(sizes) == 4
        and all(n in (1, m) for n, m in zip(sizes, wanted))
    )
