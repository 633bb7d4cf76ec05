"""`autograd.Function`: operations that users differentiate by hand."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

from ..core.base.callbacks import callbacks
from ..core.base.tensor import TensorBase
from ..core.call.interceptors import has_interceptors
from ..core.tape import _set_grad_enabled, _set_tracking, record_function, tracked

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]


def _variables(who: str, given: tuple) -> tuple:
    """What may be marked; RuntimeError for what is no tensor."""
    for t in given:
        if not isinstance(t, TensorBase):
            raise RuntimeError(f"{who} only accepts variable arguments, but got {type(t).__name__}")
    return given


def _implemented_twice(*args: Any) -> Any:
    raise RuntimeError(
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of them."
    )


class FunctionCtx:
    """What `forward` leaves for `backward`: tensors by `save_for_backward`, anything else as an attribute.

    >>> import flambeau
    >>> class Scale(flambeau.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x, factor):
    ...         ctx.factor = factor
    ...         return x * factor
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         print(type(ctx).__name__, ctx.needs_input_grad)
    ...         return grad * ctx.factor, None
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> Scale.apply(x, 3.0).sum().backward()
    FunctionCtx (True, False)
    >>> x.grad
    tensor([3., 3.])
    """

    def __init__(self) -> None:
        self._to_save: tuple = ()
        self._forward: tuple = ()
        self._node: Any = None
        self._dirty: tuple = ()
        self._constant: tuple = ()
        self._materialize = True
        self.needs_input_grad: tuple[bool, ...] = ()

    if TYPE_CHECKING:  # whatever `forward` leaves

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def save_for_backward(self, *tensors: TensorBase | None) -> None:
        """Keep inputs or outputs; `saved_tensors` gives them back and notices if they were changed."""
        for t in tensors:
            if t is not None and not isinstance(t, TensorBase):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type {type(t).__name__}"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: TensorBase | None) -> None:
        """Keep tensors for `jvp`, where `saved_tensors` gives them back."""
        self._forward = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` (in `jvp`: `save_for_forward`) kept; RuntimeError after the graph was
        freed.
        """
        return (self._forward or self._to_save) if self._node is None else self._node.saved()

    @property
    def saved_variables(self) -> tuple:
        """`saved_tensors` under its name of before 0.4, with a DeprecationWarning."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    def mark_shared_storage(self, *pairs: tuple) -> None:
        """Nothing is left to do, as the FutureWarning says: tensors know what they share."""
        warnings.warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. Note "
            "that calls to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def mark_dirty(self, *tensors: TensorBase) -> None:
        """Say which inputs `forward` has overwritten."""
        self._dirty = _variables("mark_dirty", tensors)

    def mark_non_differentiable(self, *tensors: TensorBase) -> None:
        """Say which outputs have no gradient."""
        self._constant = _variables("mark_non_differentiable", tensors)

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients that did not arrive come as zeros (the default) or as None."""
        self._materialize = value


class Function:
    """An operation with its own derivative: subclass with static methods `forward(ctx, …)` and `backward(ctx,
    *grads)`, which may be called `vjp`, and call `apply`.

    With a static `setup_context(ctx, inputs, output)`, `forward` takes no ctx.

    Raises:
        RuntimeError: an object of the class is called, of which there is to be none; both `backward` and `vjp` are there

    >>> import flambeau
    >>> class Cube(flambeau.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         x, = ctx.saved_tensors
    ...         return grad * 3 * x * x
    >>> x = flambeau.tensor(2., requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on "
            "the class itself. Instantiating an autograd function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with "
            "static forward method."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        """The gradients of the arguments of `forward`, from `ctx` and those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward "
            "mode AD."
        )

    vjp = backward  # its other name: a class has one of them
    generate_vmap_rule = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "vjp" in cls.__dict__:
            own = cls.__dict__["vjp"]
            cls.backward = staticmethod(_implemented_twice) if "backward" in cls.__dict__ else own  # type: ignore[method-assign]

    @staticmethod
    def jvp(*args: Any, **kwargs: Any) -> Any:
        """The tangents of the outputs, from `ctx` and those of the arguments (None for what is no tensor)."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` unrecorded and put one node on the tape."""
        if has_interceptors():
            if any(getattr(a, "_is_batched", False) for a in args):
                return callbacks["function of slices"](cls, args, kwargs)
            if any(getattr(a, "_is_wrapper", False) and a.requires_grad for a in args):
                raise NotImplementedError(
                    f"{cls.__name__}.apply(): not available for masked and nested tensors that require grad; apply it to their "
                    "elements (get_data(), values())"
                )
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(a, TensorBase) and a.requires_grad for a in args)
        recorded = tracked(*args)
        before = _set_tracking(0)
        try:
            if "setup_context" in cls.__dict__ or hasattr(cls, "setup_context"):
                result = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args, **kwargs)
        finally:
            _set_tracking(before)
        if not recorded:
            return result
        many = isinstance(result, (tuple, list))
        outputs = tuple(result) if many else (result,)
        outputs = record_function(cls, ctx, args, outputs)
        return type(result)(outputs) if many and type(result) is list else outputs if many else outputs[0]


class InplaceFunction(Function):
    """A `Function` that notes whether it works in place, of the time when functions were objects.

    `FunctionCtx.mark_dirty` is what tells the tape of a change in place.

    Raises:
        NotImplementedError: `apply` is called of a class without a static `forward`

    >>> from flambeau.autograd.function import Function, InplaceFunction
    >>> issubclass(InplaceFunction, Function), InplaceFunction(inplace=True).inplace
    (True, True)
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class _OnceOnly(Function):
    """Hands on what was computed from other tensors by a way whose derivative nobody wrote: the first `n` of those given."""

    @staticmethod
    def forward(ctx: Any, n: int, *tensors: TensorBase) -> tuple:
        return tuple(t.detach() for t in tensors[:n])

    @staticmethod
    def backward(ctx: Any, *again: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


def once_differentiable(fn: Any) -> Any:
    """Decorate a `backward` that is not differentiable itself: it runs unrecorded, and to differentiate its results is a
    RuntimeError.

    >>> import flambeau
    >>> from flambeau.autograd.function import once_differentiable
    >>> class Doubled(flambeau.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> Doubled.apply(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        before = _set_grad_enabled(False)
        try:
            result = fn(ctx, *args)
        finally:
            _set_grad_enabled(before)
        if not tracked(*args):
            return result
        results = list(result) if isinstance(result, tuple) else [result]
        known = [i for i, r in enumerate(results) if isinstance(r, TensorBase)]
        seen = _OnceOnly.apply(len(known), *(results[i] for i in known), *args)
        for i, r in zip(known, seen, strict=True):
            results[i] = r
        return tuple(results) if isinstance(result, tuple) else results[0]

    return wrapper
