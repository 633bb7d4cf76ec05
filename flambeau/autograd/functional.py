"""Jacobians, Hessians and their products with vectors, of functions of tensors.

`inputs` is a tensor or a tuple of tensors; results have the structure of outputs and inputs.  With
`create_graph`, results can be differentiated again; with `strict`, RuntimeError is raised where an output does not
depend on an input (otherwise that derivative is zero).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.base.tensor import TensorBase
from ..core.places.join import stack
from . import forward_ad
from .grad_mode import enable_grad
from .gradients import grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _tuple(given: Any, who: str, what: str) -> tuple[bool, tuple]:
    """Whether it was a tuple, and it as one; TypeError for anything but tensors."""
    many = isinstance(given, (tuple, list))
    result = tuple(given) if many else (given,)
    for k, t in enumerate(result):
        if not isinstance(t, TensorBase):
            raise TypeError(
                f"{who}(): The {what} must be either a Tensor or a tuple of Tensors, but the value at position {k} is a "
                f"{type(t).__name__}"
            )
    return many, result


def _tracked(inputs: tuple, create_graph: bool) -> tuple:
    """The inputs as tensors to differentiate with respect to; with create_graph they keep their history."""
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs
    )


def _zeros_where_none(result: tuple, like: tuple, strict: bool, who: str, i: int = 0) -> tuple:
    if strict and any(g is None for g in result):
        j = [g is None for g in result].index(True)
        raise RuntimeError(
            f"{who}(): Output {i} of the user-provided function is independent of input {j}. This is not allowed in strict "
            "mode."
        )
    return tuple(x.new_zeros(x.shape) if g is None else g for g, x in zip(result, like))


def _gradients(outputs: tuple, inputs: tuple, v: tuple | None, create_graph: bool) -> tuple:
    """Gradients of those outputs that have a history; None for every input without one."""
    weights = v if v is not None else (None,) * len(outputs)
    pairs = [(o, w) for o, w in zip(outputs, weights) if o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [o for o, _ in pairs],
        inputs,
        [w for _, w in pairs],
        create_graph=create_graph,
        retain_graph=True,
        allow_unused=True,
    )


def _vector(v: Any, like: tuple, who: str, what: str) -> tuple:
    """v as a tuple of the shapes of `like`; without v, ones for a single element."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"{who}(): The vector v can only be None if the {what} is a single Tensor with a single element."
            )
        return (like[0].new_ones(like[0].shape),)
    result = _tuple(v, who, "vector v")[1]
    shapes = [tuple(t.shape) for t in like]
    if [tuple(t.shape) for t in result] != shapes:
        raise RuntimeError(
            f"{who}(): v has invalid size: should be {shapes} but got {[tuple(t.shape) for t in result]}"
        )
    return result


def _finish(result: tuple, many: bool, create_graph: bool) -> Any:
    result = result if create_graph else tuple(t.detach() for t in result)
    return result if many else result[0]


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs, and the product of v with the Jacobian (shaped as the inputs).

    Raises:
        RuntimeError: `v` is missing where the outputs have several elements, or has another shape; with
            `strict`, an output does not depend on an input
        TypeError: an input or an output is no tensor

    >>> import flambeau
    >>> x = flambeau.tensor([1., 2.])
    >>> flambeau.autograd.functional.vjp(lambda t: t * t, x, flambeau.ones(2))[1]
    tensor([2., 4.])
    """
    with enable_grad():
        many, given = _tuple(inputs, "vjp", "inputs")
        xs = _tracked(given, create_graph)
        several, outputs = _tuple(func(*xs), "vjp", "outputs of the user-provided function")
        weights = _vector(v, outputs, "vjp", "user-provided function's output")
        result = _gradients(outputs, xs, weights, create_graph)
        result = _zeros_where_none(result, xs, strict, "vjp")
    return _finish(outputs, several, create_graph), _finish(result, many, create_graph)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs, and the product of the Jacobian with v (shaped as the outputs): the adjoint of `vjp`.

    Raises:
        RuntimeError: `v` is missing where the inputs have several elements, or has another shape; with
            `strict`, an output does not depend on an input
        TypeError: an input or an output is no tensor

    >>> import flambeau
    >>> x = flambeau.tensor([1., 2.])
    >>> flambeau.autograd.functional.jvp(lambda t: t * t, x, flambeau.ones(2))[1]
    tensor([2., 4.])
    """
    with enable_grad():
        _, given = _tuple(inputs, "jvp", "inputs")
        xs = _tracked(given, create_graph)
        directions = _vector(v, xs, "jvp", "input")
        several, outputs = _tuple(func(*xs), "jvp", "outputs of the user-provided function")
        weights = tuple(o.new_zeros(o.shape).requires_grad_() for o in outputs)
        back = _gradients(outputs, xs, weights, True)
        _zeros_where_none(back, xs, strict, "jvp")
        pairs = [(g, d) for g, d in zip(back, directions) if g is not None and g.requires_grad]
        result: tuple = (None,) * len(outputs)
        if pairs:
            result = _gradients(tuple(g for g, _ in pairs), weights, tuple(d for _, d in pairs), create_graph)
        result = _zeros_where_none(result, outputs, False, "jvp")
    return _finish(outputs, several, create_graph), _finish(result, several, create_graph)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """For each output and input, the tensor of all partial derivatives, of shape `output.shape + input.shape`.

    By rows, or with `strategy="forward-mode"` by columns; `vectorize` changes nothing here: they are computed one
    after the other.

    Raises:
        TypeError: an input or an output is no tensor
        RuntimeError: with `strict`, an output does not depend on an input
        ValueError: `strategy` is neither "reverse-mode" nor "forward-mode"

    >>> import flambeau
    >>> flambeau.autograd.functional.jacobian(lambda t: t * t, flambeau.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f"jacobian(): strategy must be 'reverse-mode' or 'forward-mode', got {strategy!r}")
    many, given = _tuple(inputs, "jacobian", "inputs")
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError("jacobian(): create_graph=True with strategy='forward-mode'")
        several, rows = _columns(func, given)
    else:
        with enable_grad():
            xs = _tracked(given, create_graph)
            several, outputs = _tuple(func(*xs), "jacobian", "outputs of the user-provided function")
            rows = tuple(_rows(o, xs, create_graph, strict, i) for i, o in enumerate(outputs))
    shaped = tuple(_finish(r, many, create_graph) for r in rows)
    return shaped if several else shaped[0]


def _rows(output: TensorBase, xs: tuple, create_graph: bool, strict: bool, i: int) -> tuple:
    """The Jacobian of one output: one backward pass for each of its elements."""
    result = []
    for k in range(output.numel()):
        seed = output.new_zeros(output.numel())
        seed[k] = 1
        back = _gradients((output,), xs, (seed.reshape(output.shape),), create_graph)
        result.append(_zeros_where_none(back, xs, strict, "jacobian", i))
    if not result:
        return tuple(x.new_zeros((*output.shape, *x.shape)) for x in xs)
    return tuple(
        stack(list(column)).reshape((*output.shape, *x.shape)) for column, x in zip(zip(*result), xs)
    )


def _columns(func: Callable[..., Any], xs: tuple) -> tuple[bool, tuple]:
    """The Jacobians of all outputs: one forward pass for each element of the inputs."""
    blocks: list = []
    several = False
    outputs: tuple[TensorBase, ...] = ()
    for j, x in enumerate(xs):
        columns = []
        for k in range(x.numel()):
            direction = x.new_zeros(x.numel())
            direction[k] = 1
            with forward_ad.inner_level():
                given = list(xs)
                given[j] = forward_ad.make_dual(x, direction.reshape(x.shape))
                several, outputs = _tuple(func(*given), "jacobian", "outputs of the user-provided function")
                tangents = [forward_ad.unpack_dual(o).tangent for o in outputs]
            columns.append([o.new_zeros(o.shape) if t is None else t for o, t in zip(outputs, tangents)])
        if not columns:
            several, outputs = _tuple(func(*xs), "jacobian", "outputs of the user-provided function")
            blocks.append([o.new_zeros((*o.shape, *x.shape)) for o in outputs])
            continue
        blocks.append([stack(list(c), -1).reshape((*c[0].shape, *x.shape)) for c in zip(*columns)])
    return several, tuple(tuple(b[i] for b in blocks) for i in range(len(outputs)))


def _scalar(func: Callable[..., Any], who: str) -> Callable:
    """func, checked to have a single output of one element."""

    def checked(*xs: Any) -> Any:
        out = func(*xs)
        if not isinstance(out, TensorBase):
            raise RuntimeError(f"{who}(): The function given should return a single Tensor")
        if out.numel() != 1:
            raise RuntimeError(
                f"{who}(): The Tensor returned by the function given should contain a single element, got shape "
                f"{tuple(out.shape)}"
            )
        return out.reshape(())

    return checked


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one element: for each pair of inputs, a tensor of shape
    `first.shape + second.shape`.

    Raises:
        TypeError: an input is no tensor
        RuntimeError: the output is not one tensor of one element; with `strict`, it does not depend on an
            input

    >>> import flambeau
    >>> flambeau.autograd.functional.hessian(lambda t: (t ** 3).sum(), flambeau.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    many, given = _tuple(inputs, "hessian", "inputs")
    scalar = _scalar(func, "hessian")

    def first(*xs: Any) -> tuple:
        return tuple(
            jacobian(
                scalar, tuple(x if x.requires_grad else x.detach().requires_grad_() for x in xs), True, strict
            )
        )

    if outer_jacobian_strategy == "forward-mode":
        first = _forward_safe_gradient(scalar)
    result = jacobian(first, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return result if many else result[0][0]


def _forward_safe_gradient(scalar: Callable) -> Callable:
    """The gradient with respect to inputs that may be dual."""

    def gradient(*xs: Any) -> tuple:
        with enable_grad():
            leaves = tuple(forward_ad.leaf_under(x) for x in xs)
            result = _gradients((scalar(*leaves),), leaves, None, False)
        return _zeros_where_none(result, leaves, False, "hessian")

    return gradient


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a function with one element, and the product of v with its Hessian.

    Raises:
        RuntimeError: the output is not one tensor of one element; `v` is missing where the inputs have
            several, or has another shape
        TypeError: an input is no tensor

    >>> import flambeau
    >>> x = flambeau.tensor([1., 2.])
    >>> flambeau.autograd.functional.vhp(lambda t: (t ** 3).sum(), x, flambeau.ones(2))[1]
    tensor([ 6., 12.])
    """
    with enable_grad():
        many, given = _tuple(inputs, "vhp", "inputs")
        xs = _tracked(given, create_graph)
        direction = _vector(v, xs, "vhp", "input")
        output = _scalar(func, "vhp")(*xs)
        first = _zeros_where_none(_gradients((output,), xs, None, True), xs, strict, "vhp")
        second = _gradients(first, xs, direction, create_graph)
        second = _zeros_where_none(second, xs, strict, "vhp")
    return _finish((output,), False, create_graph), _finish(second, many, create_graph)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a function with one element, and the product of its Hessian with v.

    The Hessian is symmetric where the function has continuous second derivatives: this is `vhp`'s product by
    another way, the adjoint of the gradient's gradient.

    Raises:
        RuntimeError: the output is not one tensor of one element; `v` is missing where the inputs have
            several, or has another shape
        TypeError: an input is no tensor

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, 2.0])
    >>> flambeau.autograd.functional.hvp(lambda t: (t**3).sum(), x, flambeau.ones(2))[1]
    tensor([ 6., 12.])
    """
    many, given = _tuple(inputs, "hvp", "inputs")
    direction = _vector(v, given, "hvp", "input")
    scalar = _scalar(func, "hvp")
    with enable_grad():
        value: Any = None

        def gradient(*xs: Any) -> tuple:
            nonlocal value
            value = scalar(*xs)
            return _zeros_where_none(_gradients((value,), xs, None, True), xs, strict, "hvp")

        product = jvp(gradient, given, direction, create_graph, strict)[1]
    return _finish((value,), False, create_graph), product if many else product[0]


# PyTorch's names of steps, which libraries import
def _as_tuple(inp: Any, arg_name: str | None = None, fn_name: str | None = None) -> tuple[bool, tuple]:
    """Whether it is a tuple, and it as one; what is inside is looked at where a function's name is given."""
    if arg_name is not None or fn_name is not None:
        many, result = _tuple(inp, fn_name or "", arg_name or "")
        return many, result
    return isinstance(inp, tuple), inp if isinstance(inp, tuple) else (inp,)


def _tuple_postprocess(res: Any, to_unpack: bool | tuple[bool, bool]) -> Any:
    """The reverse of `_as_tuple`, for results of one level or of two."""
    outer, inner = to_unpack if isinstance(to_unpack, tuple) else (to_unpack, True)
    if not inner:
        res = tuple(each[0] for each in res)
    return res if outer else res[0]


def _grad_postprocess(inputs: Any, create_graph: bool) -> tuple:
    """Tensors, in tuples of any depth, without history unless `create_graph`."""
    if isinstance(inputs[0], TensorBase):
        return inputs if create_graph else tuple(x.detach() for x in inputs)
    return tuple(_grad_postprocess(each, create_graph) for each in inputs)


def _construct_standard_basis_for(tensors: tuple, tensor_numels: tuple) -> tuple:
    """The unit vectors of all tensors' elements in a row, cut by tensor: (all elements, its own elements) each."""
    total, start, result = sum(tensor_numels), 0, []
    for x, count in zip(tensors, tensor_numels, strict=True):
        rows = x.new_zeros((total, count))
        rows.diagonal(-start).fill_(1)
        result.append(rows)
        start += count
    return tuple(result)
