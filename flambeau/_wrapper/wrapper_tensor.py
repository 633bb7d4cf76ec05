"""Tensors that are made of others: masked and nested ones.

Such a class is a tensor without data, on `meta`, so that no operation finds elements where there are none, with a table of the
operations that it overrides and a refusal that names all others.  Its elements lie in one tensor, `_elements`, which has the tape's
side: whatever asks the whole for a gradient, a device or a version asks the elements.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

from .._tensor import Tensor
from ..core.base.dtypes import dtype
from ..core.base.typeinfo import iinfo
from ..core.call.interceptors import in_current_order
from ..core.call.operation import Op, behind
from ..core.call.pointwise import PointwiseOp
from ..operations.declare.registry import REGISTRY, Entry

OTHER_SPELLINGS = {
    "axis": "dim",
    "keepdims": "keepdim",
    "self": "input",
    "x": "input",
    "x1": "input",
    "x2": "other",
}


def operations(holds: Callable[[Entry], Any]) -> frozenset[str]:
    """The names of the operations of whose entries something holds."""
    return frozenset(e.function.__name__ for e in REGISTRY.values() if holds(e))


ALIKE = operations(lambda e: getattr(e.function, "like", False) is True)
ALIKE_IN_TYPE = operations(lambda e: getattr(e.function, "like", False) == "type")
CONVERSIONS = operations(lambda e: e.kind == "conversion")  # from one dtype or device to another


def elementwise() -> frozenset[str]:
    """The names of all public operations that work on each element, and on those at the same place of their other operands.

    >>> from flambeau._wrapper.wrapper_tensor import elementwise
    >>> {"add", "add_", "relu", "clamp", "where", "masked_fill_"} <= elementwise(), "matmul" in elementwise()
    (True, False)
    """
    ops = (op for entry in REGISTRY.values() for op in (entry.function, entry.in_place))
    return frozenset(op.__name__ for op in ops if op is not None and getattr(op, "elementwise", False))


def moving() -> frozenset[str]:
    """The names of all operations whose results are elements of their arguments, chosen without looking at them.

    >>> from flambeau._wrapper.wrapper_tensor import moving
    >>> {"cat", "t", "roll", "gather"} <= moving(), "as_strided" in moving(), "t_" in moving()
    (True, False, False)
    """
    by_kind = ("view", "join")
    return operations(lambda e: e.details.get("moves", e.kind in by_kind) and not e.function.writes)  # type: ignore[attr-defined]


def _reduces(entry: Entry) -> bool:
    by_dims = "identity" in entry.details and "keepdim" in inspect.signature(entry.function).parameters
    public = any("._" not in f".{place}" for place in entry.places)
    return public and (entry.kind == "reduction" or by_dims)


def reductions() -> frozenset[str]:
    """The names of all public operations that make a number of the elements along some dimensions, or of all.

    >>> from flambeau._wrapper.wrapper_tensor import reductions
    >>> {"sum", "amax", "logsumexp", "nanmean"} <= reductions(), "softmax" in reductions()
    (True, False)
    """
    return operations(_reduces)


def along_rows() -> frozenset[str]:
    """The names of all public operations that make a row of a row.

    >>> from flambeau._wrapper.wrapper_tensor import along_rows
    >>> {"softmax", "softmin", "cumsum", "cummax"} <= along_rows(), "sum" in along_rows()
    (True, False)
    """
    return operations(lambda e: "identity" in e.details and not _reduces(e))


def losses() -> frozenset[str]:
    """The names of all losses of an input and a target that are made of a number for each element.

    >>> from flambeau._wrapper.wrapper_tensor import losses
    >>> "mse_loss" in losses(), "cross_entropy" in losses()
    (True, False)
    """
    return operations(lambda e: e.details.get("loss_of_each"))


def identity(op: Op, kind: dtype) -> Any:
    """What changes nothing in a reduction or a scan of elements of that dtype.

    >>> import flambeau
    >>> from flambeau._wrapper.wrapper_tensor import identity
    >>> identity(flambeau.amax, flambeau.float32), identity(flambeau.min, flambeau.int8), identity(flambeau.sum, flambeau.int8)
    (-inf, 127, 0)
    """
    value = op.entry.details["identity"]
    if kind.is_floating_point or kind.is_complex:
        return value
    if value != value:
        return 0
    if math.isinf(value):
        return value > 0 if kind.name == "bool" else iinfo(kind).max if value > 0 else iinfo(kind).min
    return bool(value) if kind.name == "bool" else value


class Overrides(dict[str, Callable[..., Any]]):
    """What stands in for operations, by their names: functions of the operation and its arguments.

    >>> import flambeau
    >>> from flambeau._wrapper.wrapper_tensor import Overrides
    >>> overrides = Overrides()
    >>> @overrides(flambeau.t)
    ... def turned(func, input): ...
    >>> overrides["t"] is turned
    True
    """

    def __call__(self, *operations: Callable) -> Callable:
        """A decorator: the function stands in for these operations."""

        def enter(handler: Callable) -> Callable:
            self.update((operation.__name__, handler) for operation in operations)
            return handler

        return enter

    def group(self, names: Iterable[str], handler: Callable) -> None:
        """The function stands in for all of these that have none of their own."""
        for name in names:
            self.setdefault(name, handler)


class WrapperTensor(Tensor):
    """A tensor that stands for others.  A class of them has `_overrides`, by the names of operations: functions of
    the operation and its arguments.
    """

    _is_wrapper = True
    _overrides_while_alive = True
    _overrides: ClassVar[Overrides] = Overrides()
    _elements: Any

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        func, (args, kwargs) = behind(func), in_current_order(func, args, kwargs or {})
        override = cls._overrides.get(func.__name__)
        if kwargs and isinstance(func, PointwiseOp) and isinstance(kwargs.get("out"), tuple):
            return _step(func, args, kwargs)
        if override is None:
            raise cls._refusal(func.__name__)
        if not kwargs:
            return override(func, *args)
        return override(func, *args, **{OTHER_SPELLINGS.get(n, n): v for n, v in kwargs.items()})

    @classmethod
    def _refusal(cls, name: str) -> NotImplementedError:
        """The error for an operation without an answer."""
        raise NotImplementedError

    def _with(self, elements: Any) -> Self:
        """The same structure over other elements."""
        raise NotImplementedError

    # --- the tape ---
    @property
    def requires_grad(self) -> bool:  # type: ignore[override]
        """Whether gradients of the elements are wanted."""
        return self._elements.requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self._elements.requires_grad = flag

    def requires_grad_(self, requires_grad: bool = True) -> Self:  # type: ignore[override]
        """Say whether gradients are wanted, in place."""
        self._elements.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> Any:  # type: ignore[override]
        """The gradient of the elements, in the same structure, or None."""
        result = self._elements.grad
        return None if result is None else self._with(result)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._elements.grad = value._elements if isinstance(value, WrapperTensor) else value

    @grad.deleter
    def grad(self) -> None:
        self._elements.grad = None

    def backward(self, gradient: Any = None, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Add gradients to leaves, from a gradient of the same structure; see `Tensor.backward`."""
        if isinstance(gradient, WrapperTensor):
            gradient = gradient._elements
        self._elements.backward(gradient, *args, **kwargs)

    def register_hook(self, hook: Callable) -> Any:
        """`hook(grad)` runs when the gradient is computed, and is given it in the same structure."""

        def whole(grad: Any) -> Any:
            result = hook(self._with(grad))
            return result._elements if isinstance(result, WrapperTensor) else result

        return self._elements.register_hook(whole)

    def register_post_accumulate_grad_hook(self, hook: Callable) -> Any:
        """`hook(tensor)` runs after a gradient was added to this leaf."""
        return self._elements.register_post_accumulate_grad_hook(lambda _: hook(self))

    @property
    def data(self) -> Any:  # type: ignore[override]
        """The same elements outside the tape."""
        return self._with(self._elements.data)

    @data.setter
    def data(self, value: Any) -> None:
        raise NotImplementedError(
            f"{self._is}: its data cannot be set; write to its elements, or make another tensor"
        )

    def _everywhere(self) -> bool:
        """Whether a condition holds for all elements."""
        return bool(self.all())

    _is: ClassVar[str] = "a tensor made of others"

    # --- memory ---
    def _no_memory(self, *args: Any, **kwargs: Any) -> Any:
        """NotImplementedError: it has no memory of its own."""
        raise NotImplementedError(f"{self._is} has no storage of its own; ask the tensors that it is made of")

    untyped_storage = storage = _typed_storage = data_ptr = storage_offset = storage_type = _no_memory
    apply_ = _no_memory

    @property
    def _no_interface(self) -> Any:
        """AttributeError: other libraries find no elements to read, and do not take it for one of their arrays."""
        raise AttributeError(f"{self._is} has no memory of its own that other libraries could read")

    __array_namespace__ = __cuda_array_interface__ = _no_interface

    def is_shared(self) -> bool:
        """Whether other processes can see the memory of the elements."""
        return self._elements.is_shared()

    def share_memory_(self) -> Self:  # type: ignore[override]
        """Move the elements to shared memory, in place."""
        self._elements.share_memory_()
        return self

    def as_subclass(self, cls: type) -> Any:
        """TypeError: its elements are of no other class; itself where it is of that class."""
        if isinstance(self, cls):
            return self
        raise TypeError(f"as_subclass(): {self._is} cannot be a {cls.__name__}")

    # --- Python ---
    def _one(self, what: str) -> Any:
        raise TypeError(f"{self._is} cannot be converted to {what}")

    def __bool__(self) -> bool:
        raise RuntimeError(f"Boolean value of {self._is} is ambiguous")

    def __int__(self) -> int:
        return self._one("an int")

    def __float__(self) -> float:
        return self._one("a float")

    def __complex__(self) -> complex:
        return self._one("a complex")

    def __index__(self) -> int:
        return self._one("an index")

    def __bytes__(self) -> bytes:
        return self._one("bytes")

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __contains__(self, element: Any) -> bool:
        return bool((self == element).any())

    def __reversed__(self) -> Any:
        return self._one("its reverse")

    __hash__ = Tensor.__hash__

    def __deepcopy__(self, memo: dict) -> Any:
        if not self._elements.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol"
            )
        if id(self) not in memo:
            memo[id(self)] = self._with(self._elements.__deepcopy__(memo))
        return memo[id(self)]


def _step(func: Any, args: tuple, kwargs: dict) -> Any:
    """One of many of a kind, as optimisers and `clip_grad_norm_` take them: operands and results have one structure."""

    def inner(x: Any) -> Any:
        if isinstance(x, (tuple, list)):
            return type(x)(inner(y) for y in x)
        return x._elements if isinstance(x, WrapperTensor) else x

    func(*inner(args), **{name: inner(x) for name, x in kwargs.items()})
    return kwargs["out"]


def _property(name: str) -> property:
    """What is queried of the elements."""
    return property(lambda self: getattr(self._elements, name), doc=f"`{name}` of the elements.")


def _called(name: str) -> Callable[..., Any]:
    def call(self: WrapperTensor, *args: Any) -> Any:
        return getattr(self._elements, name)(*args)

    call.__name__, call.__doc__ = name, f"`{name}` of the elements."
    return call


def _refused(name: str) -> Callable[..., Any]:
    def refuse(self: WrapperTensor, *args: Any, **kwargs: Any) -> Any:
        raise self._refusal(name)

    refuse.__name__, refuse.__doc__ = name, "NotImplementedError, which names it."
    return refuse


_OF_THE_ELEMENTS = frozenset(
    (
        "device grad_fn output_nr _version get_device element_size retain_grad retains_grad _retains_grad_flag is_complex "
        "is_floating_point is_signed is_conj is_neg is_quantized is_leaf is_inference is_distributed"
    ).split()
)
# What a tensor of this shape and dtype says itself, though it has no data; a class with another shape says more.
OF_THE_SHAPE = frozenset(
    "_is_batched dtype itemsize nbytes shape size dim ndim ndimension numel nelement layout _wrapped_layout is_nested is_sparse "
    "is_sparse_csr".split()
)


# Properties that call operations, and what says nothing of data.
THROUGH_OPERATIONS = frozenset("T mT H mH real imag _base _is_view _make_subclass _take _repr_html_".split())


def _close() -> None:
    """Nothing else that a tensor has is taken from the one without data: questions of the device go to the elements, methods that
    are no operations are refused.
    """
    for name in dir(Tensor):
        result = getattr(Tensor, name)
        own = name in vars(WrapperTensor) or name in OF_THE_SHAPE or isinstance(result, Op)
        if own or name.startswith("__") or name in THROUGH_OPERATIONS:
            continue
        if name in _OF_THE_ELEMENTS or name.startswith("is_"):
            setattr(WrapperTensor, name, _called(name) if callable(result) else _property(name))
        else:
            setattr(WrapperTensor, name, _refused(name) if callable(result) else property(_refused(name)))


_close()
