"""Views: the compiled functions of `core/views/views.pyx` under public names."""

from __future__ import annotations

from collections.abc import Sequence

from ..._tensor import Tensor
from ...core.base.formats import contiguous_format
from ...core.base.tensor import TensorBase
from ...core.call.function import FunctionOp
from ...core.views import views
from ..declare.dtype_groups import COMPLEX, FLOATING
from ..declare.registry import library, register

_BOTH = """
    reshape flatten ravel unflatten squeeze unsqueeze transpose swapaxes swapdims t permute movedim moveaxis adjoint
    narrow select diagonal as_strided detach
"""
_METHODS = """
    view view_as reshape_as expand expand_as unfold detach_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_
    resize_ resize_as_ set_ is_contiguous
"""
_SET = (
    "(input: Tensor) -> Tensor",
    "(input: Tensor, source: Tensor | UntypedStorage | TypedStorage, storage_offset: int = 0, size: Sequence[int] = (), "
    "stride: Sequence[int] = ()) -> Tensor",
)

# Rules of `vmap`, of those that differ from their kind.
_BATCHING = {
    "adjoint": "leading",
    "detach": "elements",
    "is_contiguous": "outlined",
}
# Rules of distributed tensors, likewise.
_SHARDING = {
    **dict.fromkeys("reshape flatten ravel unflatten reshape_as".split(), "reshape"),
    **dict.fromkeys("view view_as".split(), "viewed"),
    **dict.fromkeys("expand expand_as broadcast_to".split(), "expand"),
    "detach": "unary",
    "as_strided": "none",
    "is_contiguous": "outline",
}
for _name in _BOTH.split():
    register(
        _name,
        "view",
        getattr(views, _name),
        batching=_BATCHING.get(_name),
        moves=_name != "as_strided",
        sharding=_SHARDING.get(_name),
    )
for _name in "split split_with_sizes chunk tensor_split unbind hsplit vsplit dsplit".split():
    register(_name, "view", getattr(views, _name), gives="Tensor(a)[]")
for _name in _METHODS.split():
    flat = [_name] if _name in ("detach_", "as_strided_", "resize_as_") else []
    shown = _SET if _name == "set_" else ()
    register(
        _name,
        "view",
        getattr(views, _name),
        places=(f"Tensor.{_name}", *flat),
        overloads=shown,
        batching=_BATCHING.get(_name),
        moves=_name != "is_contiguous",
        sharding=_SHARDING.get(_name),
    )
atleast_1d, atleast_2d, atleast_3d = (
    register(
        name,
        "view",
        getattr(views, name),
        places=(name,),
        overloads=(
            "(input: Tensor, /) -> Tensor",
            "(first: Tensor, second: Tensor, /, *tensors: Tensor) -> tuple[Tensor, ...]",
            "(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]",
        ),
    )
    for name in ("atleast_1d", "atleast_2d", "atleast_3d")
)
view_as_real = register(
    "view_as_real",
    "view",
    views.view_as_real,
    places=("view_as_real",),
    batching="elements",
    moves=False,
    dtypes=COMPLEX,
    sharding="complex view",
)
view_as_complex = register(
    "view_as_complex",
    "view",
    views.view_as_complex,
    places=("view_as_complex",),
    autocast=("float32", "fallthrough"),
    dtypes=FLOATING - {"bfloat16"},
    batching="elements",
    moves=False,
    sharding="complex view",
)
register("broadcast_to", "view", views.broadcast_to, sharding="expand")

for _name, _aten in (("T", "numpy_T"), ("mT", "mT"), ("H", "matrix_H"), ("mH", "mH")):
    _turned = FunctionOp(getattr(views, f"get_{_name}"), _name, owns=False)
    setattr(Tensor, _name, property(register(_name, "view", _turned, places=(), aten=_aten)))
for _name, _gives in (("item", "Scalar"), ("tolist", "Any")):
    register(
        _name,
        "question",
        FunctionOp(getattr(TensorBase, _name), _name, owns=False),
        places=(f"Tensor.{_name}",),
        batching="itemless",
        gives=_gives,
        sharding="number",
    )


@library("view", "real", batching="pointwise", composite=True, elementwise=True, additive=True)
def real(input: Tensor) -> Tensor:
    """The real part of complex numbers, a view; real numbers themselves.

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.real(flambeau.tensor([1 + 2j]))
    tensor([1.])
    """
    return view_as_real(input).select(-1, 0) if input.is_complex() else input


@library(
    "view", "imag", batching="pointwise", composite=True, elementwise=True, additive=True, dtypes=COMPLEX
)
def imag(input: Tensor) -> Tensor:
    """The imaginary part of complex numbers, a view.  RuntimeError for real dtypes.

    Shape:
        input: any; the result has the same

    >>> import flambeau
    >>> flambeau.imag(flambeau.tensor([1 + 2j]))
    tensor([2.])
    """
    if not input.is_complex():
        raise RuntimeError(f"imag is not implemented for tensors with non-complex dtypes, got {input.dtype}")
    return view_as_real(input).select(-1, 1)


def _part(function) -> property:
    """A part of a complex tensor as an attribute that can be written to."""

    def write(self: Tensor, value: Tensor) -> None:
        function(self).copy_(value)

    return property(function, write, None, function.__doc__)


for _function in (real, imag):
    setattr(Tensor, _function.__name__, _part(_function))


# --- copies of views, and views under older names ------------------------------
@library("composite", "narrow_copy", "Tensor.narrow_copy")
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`narrow`, input[start : start + length] along `dim`, in memory of its own.

    Shape:
        input: (*, n, *); result: (*, length, *)

    Raises:
        RuntimeError: the elements lie outside of the dimension
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.narrow_copy(flambeau.tensor([1, 2, 3, 4]), 0, 1, 2)
    tensor([2, 3])
    """
    return input.narrow(dim, start, length).clone(memory_format=contiguous_format)


@library("composite", "unsafe_split", "Tensor.unsafe_split")
def unsafe_split(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`: pieces of `split_size` along `dim`, of which the last may be shorter.

    Piece i is tensor[i · split_size : (i + 1) · split_size].

    Shape:
        tensor: (*, n, *); results: (*, split_size, *) each

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.unsafe_split(flambeau.tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    return tensor.split(split_size, dim)


@library("composite", "unsafe_split_with_sizes", "Tensor.unsafe_split_with_sizes")
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`: pieces of the given lengths along `dim`, n = Σ split_sizes.

    Shape:
        input: (*, n, *); results: (*, split_sizes[k], *)

    Raises:
        RuntimeError: the lengths do not add up to the size of the dimension

    >>> import flambeau
    >>> flambeau.unsafe_split_with_sizes(flambeau.tensor([1, 2, 3]), [1, 2])
    (tensor([1]), tensor([2, 3]))
    """
    return input.split_with_sizes(split_sizes, dim)


@library("composite", "unsafe_chunk", "Tensor.unsafe_chunk")
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`: at most `chunks` pieces of ⌈n / chunks⌉ elements along `dim`.

    Shape:
        input: (*, n, *); results: (*, ⌈n / chunks⌉, *), the last may be shorter

    Raises:
        RuntimeError: `chunks` is not above 0

    >>> import flambeau
    >>> flambeau.unsafe_chunk(flambeau.tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    return input.chunk(chunks, dim)
