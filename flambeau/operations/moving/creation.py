"""Creating tensors, and NumPy and other libraries' arrays: compiled functions under their public names; and what
Python adds to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.base.dtypes import dtype, get_default_dtype
from ...core.base.tensor import TensorBase
from ...core.make import arrow, bridge, create, elements, interchange, literal
from ..declare.dtype_groups import ALL, EVERY, LONG, NUMBERS, NUMERIC
from ..declare.registry import REGISTRY, library, register
from ..declare.results import into


def _nought(*args: Any, **kwargs: Any) -> int:
    """Each element of `zeros` and kin."""
    return 0


def _one(*args: Any, **kwargs: Any) -> int:
    """Each element of `ones` and kin."""
    return 1


def _of_full(size: Any, fill_value: Any, **kwargs: Any) -> Any:
    return fill_value


def _of_full_like(input: Any, fill_value: Any, **kwargs: Any) -> Any:
    return fill_value


def _of_new_full(self: Any, size: Any, fill_value: Any, **kwargs: Any) -> Any:
    return fill_value


def _of_fill(input: Any, value: Any) -> Any:
    return value


_OF_VALUES = (literal.tensor, literal.as_tensor, literal.asarray, bridge.from_numpy, bridge.frombuffer)
# Sizes and steps are numbers, the same in all slices of `vmap`; what is written or read is not.
for _function, _dtypes, _batching, _element in (
    (create.empty, EVERY, "itemless", None),
    (create.zeros, EVERY, "itemless", _nought),
    (create.ones, EVERY, "itemless", _one),
    (create.full, EVERY, None, _of_full),
    (create.eye, EVERY, "itemless", None),
    (create.empty_strided, EVERY, None, None),
    (create.scalar_tensor, EVERY, "itemless", None),
    (create.arange, NUMERIC, "itemless", None),
    (create.linspace, NUMBERS, "looped", None),
    (create.logspace, NUMBERS, "looped", None),
    (create.tril_indices, LONG | {"int32"}, "itemless", None),
    (create.triu_indices, LONG | {"int32"}, "itemless", None),
    (literal.tensor, EVERY, None, None),
    (literal.as_tensor, EVERY, None, None),
    (literal.asarray, EVERY, None, None),
    (bridge.from_numpy, EVERY, None, None),
    (bridge.frombuffer, EVERY, None, None),
):
    register(
        _function.__name__,
        "creation",
        _function,
        places=(_function.__name__,),
        differentiable=False,
        batching=_batching,
        dtypes=_dtypes,
        element=_element,
        of_values=_function in _OF_VALUES,
    )
register(
    "from_dlpack",
    "creation",
    interchange.from_dlpack,
    places=("from_dlpack",),
    differentiable=False,
    reads_tensors=True,
)
for _function, _element in (
    (create.zeros_like, _nought),
    (create.ones_like, _one),
    (create.empty_like, None),
    (create.full_like, _of_full_like),
):
    register(
        _function.__name__,
        "creation",
        _function,
        places=(_function.__name__,),
        differentiable=False,
        like=True,
        element=_element,
    )
for _function, _element in (
    (create.new_empty, None),
    (create.new_zeros, _nought),
    (create.new_ones, _one),
    (create.new_full, _of_new_full),
    (create.new_empty_strided, None),
):
    register(
        _function.__name__,
        "creation",
        _function,
        places=(f"Tensor.{_function.__name__}",),
        differentiable=False,
        like="type",
        element=_element,
    )
for _module, _name, _dtypes, _batching in (
    (bridge, "numpy", EVERY - {"bfloat16"}, "itemless"),
    (bridge, "__array__", EVERY - {"bfloat16"}, "itemless"),
    (bridge, "__array_wrap__", EVERY - {"bfloat16"}, None),
    (interchange, "__dlpack__", EVERY, "itemless"),
    (interchange, "__dlpack_device__", EVERY, None),
    (arrow, "__arrow_c_array__", ALL - {"bfloat16"}, None),
):
    register(
        _name,
        "creation",
        getattr(_module, _name),
        places=(f"Tensor.{_name}",),
        differentiable=False,
        batching=_batching,
        dtypes=_dtypes,
    )
for _function, _batching, _element in (
    (elements.fill_, "filled", _of_fill),
    (elements.zero_, "elements", _nought),
):
    register(
        _function.__name__,
        "creation",
        _function,
        places=(f"Tensor.{_function.__name__}", _function.__name__),
        differentiable=False,
        batching=_batching,
        elementwise=True,
        element=_element,
    )
register(
    "new_tensor",
    "creation",
    literal.new_tensor_,
    places=("Tensor.new_tensor",),
    differentiable=False,
    like="type",
)
arange, empty, zeros, from_numpy = (REGISTRY[n].function for n in ("arange", "empty", "zeros", "from_numpy"))


@library("creation", "empty_permuted", differentiable=False)
def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> TensorBase:
    """An uninitialised tensor of shape `size` whose dimensions lie in memory in the order `physical_layout`, outermost first.

    RuntimeError unless that lists each dimension once.

    >>> import flambeau
    >>> flambeau.empty_permuted((2, 3, 4), (1, 0, 2)).stride()
    (4, 8, 1)
    """
    size, order = tuple(size), tuple(physical_layout)
    if len(order) != len(size):
        raise RuntimeError(
            "empty_permuted(): Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(size)} is not equal to len(physical_layout) = {len(order)}"
        )
    for k, d in enumerate(order):
        if not 0 <= d < len(size):
            raise RuntimeError(
                f"empty_permuted(): Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {d} at index {k})"
            )
    if len(set(order)) != len(order):
        raise RuntimeError(f"empty_permuted(): Duplicate dim not allowed, got physical_layout {order}")
    made = create.empty(
        [size[d] for d in order],
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
        pin_memory=pin_memory,
    )
    return made.as_strided(size, [made.stride(order.index(d)) for d in range(len(size))])


@library("composite", "fill_diagonal_", "Tensor.fill_diagonal_")
def fill_diagonal_(self: TensorBase, fill_value: complex, wrap: bool = False) -> TensorBase:
    """The main diagonal set to a number, in place; `wrap` starts it again below the square part of a tall matrix.

    self[i, …, i] = fill_value.

    RuntimeError for a vector, and for more than two dimensions unless all are of one size.

    Shape:
        self: (m, n), or (n, …, n)

    Raises:
        RuntimeError: the tensor is a vector

    >>> import flambeau
    >>> flambeau.zeros(2, 3).fill_diagonal_(5)
    tensor([[5., 0., 0.],
            [0., 5., 0.]])
    """
    if self.ndim < 2:
        raise RuntimeError(f"fill_diagonal_(): dimensions must larger than 1, got {self.ndim}")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError(
            f"fill_diagonal_(): all dimensions of input must be of equal length, got {list(self.shape)}"
        )
    if self.ndim > 2:
        place = create.arange(self.shape[0], device=self.device)
        self[(place,) * self.ndim] = fill_value
        return self
    rows, columns = self.shape
    self.diagonal().fill_(fill_value)
    if wrap:
        for start in range(columns + 1, rows, columns + 1):
            self[start:].diagonal().fill_(fill_value)
    return self


@library("creation", "range", name="closed_range", differentiable=False, dtypes=NUMERIC)
def closed_range(
    start: float,
    end: float,
    step: float = 1,
    *,
    out: TensorBase | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> TensorBase:
    """start + k · step for k = 0, …, ⌊(end - start) / step⌋, both ends included.
    They are floating-point numbers; `arange` leaves out the end.

    Shape:
        result: (⌊(end - start) / step⌋ + 1,)

    Raises:
        RuntimeError: `step` is 0

    >>> import flambeau
    >>> flambeau.range(1, 4)
    tensor([1., 2., 3., 4.])
    """
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(
            f"range(): upper bound and lower bound inconsistent with step sign: {start} to {end} by {step}"
        )
    count = math.floor((end - start) / step) + 1
    result = (
        create.arange(count, dtype=dtype or get_default_dtype(), layout=layout, device=device) * step + start
    )
    return into(out, result, "range").requires_grad_(requires_grad)
