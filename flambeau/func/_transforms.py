"""Transforms of functions of tensors, and of nested tuples, lists and dictionaries of tensors.

Reverse mode works on a second name of each input (`_tracked`), which keeps the input's own history and tangent:
so an outer transform sees through an inner one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ParamSpec

from ..autograd import forward_ad
from ..autograd import grad as _grad
from ..autograd.grad_mode import enable_grad
from ..core.base.callbacks import callbacks
from ..core.base.tensor import TensorBase
from ..core.call.interceptors import has_interceptors
from ..core.places.join import cat, stack
from ..core.tape import depends_beyond
from ._refusals import NotForAllSlices
from ._vmap import vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp"]

Argnums = int | tuple[int, ...]
P = ParamSpec("P")


class _Running(threading.local):
    depth = 0  # how many functions this thread runs to differentiate them


_running = _Running()


def is_transforming() -> bool:
    """Whether this thread runs a function to differentiate it."""
    return _running.depth > 0


def _run(func: Callable[..., Any], args: tuple) -> Any:
    _running.depth += 1
    try:
        return func(*args)
    finally:
        _running.depth -= 1


# --- nested containers ---
def _leaves(tree: Any) -> list:
    """The tensors (or other things) in nested tuples, lists and dictionaries, in order."""
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in _leaves(value)]
    if isinstance(tree, (tuple, list)):
        return [leaf for value in tree for leaf in _leaves(value)]
    return [] if tree is None else [tree]


def _rebuild(tree: Any, leaves: Any) -> Any:
    """A container like `tree` that holds the next of `leaves`, an iterator."""
    if isinstance(tree, dict):
        return type(tree)((key, _rebuild(value, leaves)) for key, value in tree.items())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_rebuild(value, leaves) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(_rebuild(value, leaves) for value in tree)
    return None if tree is None else next(leaves)


def _like(tree: Any, leaves: Any) -> Any:
    return _rebuild(tree, iter(leaves))


def _tensors(tree: Any, who: str, what: str) -> list[TensorBase]:
    result = _leaves(tree)
    for leaf in result:
        if not isinstance(leaf, TensorBase):
            error = ValueError if what == "the inputs" else RuntimeError  # as PyTorch's
            raise error(f"{who}(): expected {what} to hold Tensors only, got {type(leaf).__name__}")
    return result


def _chosen(args: tuple, argnums: Argnums, who: str) -> Any:
    """The arguments to differentiate with respect to: one, or a tuple."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"{who}(): Got argnum={n}, but only {len(args)} positional inputs")
    if len({n % len(args) for n in numbers}) < len(numbers):
        raise RuntimeError(f"{who}(): argnums elements must be unique, got {numbers}")
    return args[argnums] if isinstance(argnums, int) else tuple(args[n] for n in numbers)


def _placed(args: tuple, argnums: Argnums, new: Any) -> tuple:
    """The arguments with those at argnums replaced."""
    out = list(args)
    if isinstance(argnums, int):
        out[argnums] = new
    else:
        for n, value in zip(argnums, new):
            out[n] = value
    return tuple(out)


# --- reverse mode ---
def _tracked(x: TensorBase) -> TensorBase:
    """x under a second name that requires grad: inside of `vmap`, one for each slice."""
    if has_interceptors():
        x = callbacks["tensor of all slices"](x) if "tensor of all slices" in callbacks else x
    if x.requires_grad:
        return x.view_as(x)
    return forward_ad.leaf_under(x)


def _on_tape(tensors: list[Any]) -> list[TensorBase]:
    """Those that the tape knows: the elements of tensors inside of `vmap`."""
    if not has_interceptors():
        return tensors
    result = [x._elements if x._is_batched else x for x in tensors]
    return _on_tape(result) if any(x._is_batched for x in result) else result


def _released(x: Any, keep: bool) -> Any:
    """A result without the history inside of the transform, unless an outer one needs it."""
    if keep or not isinstance(x, TensorBase) or not x.requires_grad:
        return x
    return forward_ad.renewed(x, lambda primal: primal.detach(), lambda tangent: _released(tangent, False))


def _needed_outside(given: list, inputs: list, outputs: list) -> bool:
    """Whether outputs have a history beyond the transform."""
    return any(x.requires_grad for x in given) or depends_beyond(_on_tape(outputs), _on_tape(inputs))


for _function in (_tracked, _released, _needed_outside):
    vars(_function)["_captured_as_it_is"] = True


class _Pass:
    """One call of a function for reverse mode: its outputs, and gradients of them."""

    def __init__(
        self, func: Callable[..., Any], inputs: Any, has_aux: bool, who: str, kwargs: dict | None = None
    ) -> None:
        given = _tensors(inputs, who, "the inputs")
        with enable_grad():
            self.inputs = [_tracked(x) for x in given]
            self.result = _run(func, (_like(inputs, self.inputs),))
        self.aux = None
        if has_aux:
            if not isinstance(self.result, tuple) or len(self.result) != 2:
                raise RuntimeError(
                    f"{who}(): with has_aux=True the function must return a tuple (output, aux)"
                )
            self.result, self.aux = self.result
        self.outputs = _tensors(self.result, who, "the output of the function")
        self.keep = _needed_outside(given, self.inputs, self.outputs)

    def gradients(self, seeds: list[Any], again: bool, only: int | None = None) -> list[TensorBase]:
        """Of the outputs (or of one of them) weighted by `seeds`; zeros for inputs that they do not depend on."""
        numbered = enumerate(zip(self.outputs, seeds))
        pairs = [(o, s) for k, (o, s) in numbered if o.requires_grad and only in (None, k)]
        result: Any = [None] * len(self.inputs)
        if pairs and self.inputs:
            create = self.keep or any(s is not None and s.requires_grad for _, s in pairs)
            result = _grad(
                [o for o, _ in pairs],
                self.inputs,
                [s for _, s in pairs],
                retain_graph=again or create,
                create_graph=create,
                allow_unused=True,
            )
        return [x.new_zeros(x.shape) if g is None else g for g, x in zip(result, self.inputs)]

    def released(self, tree: Any) -> Any:
        return _like(tree, [_released(leaf, self.keep) for leaf in _leaves(tree)])


def grad_and_value(func: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[P, Any]:
    """A function that returns the gradient of `func`, which has one element, and its value.

    With `has_aux`, `func` returns (value, aux), and the new function (gradient, (value, aux)).

    Raises:
        RuntimeError: `func` returns no tensor of one element, `argnums` are out of range

    >>> import flambeau
    >>> flambeau.func.grad_and_value(lambda t: t * t)(flambeau.tensor(3.))
    (tensor(6.), tensor(9.))
    """

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        inputs = _chosen(args, argnums, "grad")
        call = _Pass(lambda new: func(*_placed(args, argnums, new), **kwargs), inputs, has_aux, "grad")
        out = call.result
        if not isinstance(out, TensorBase) or out.ndim:
            got = f"shape {tuple(out.shape)}" if isinstance(out, TensorBase) else type(out).__name__
            raise RuntimeError(f"grad(): Expected the function to return a scalar tensor, got {got}")
        gradient = _like(inputs, call.gradients([None], False))
        value = call.released(out)
        return gradient, (value, call.released(call.aux)) if has_aux else value

    return differentiated


def grad(func: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[P, Any]:
    """A function that returns the gradient of `func`, which has one element.

    It is taken with respect to the argument (or arguments) `argnums`, tensors or nested containers of them, and has
    their structure.  With `has_aux`, `func` returns (value, aux), and the new function (gradient, aux).

    Raises:
        RuntimeError: `func` returns no tensor of one element, `argnums` are out of range

    >>> import flambeau
    >>> flambeau.func.grad(flambeau.func.grad(lambda t: t ** 3))(flambeau.tensor(2.))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return differentiated


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The output of `func(*primals)`, and a function that gives the product of a vector with the Jacobian.

    Raises:
        RuntimeError: `func` returns what is no tensor; the function that it gives is called with vectors that are not
            built or shaped as the output
        ValueError: a primal is no tensor

    >>> import flambeau
    >>> out, pull = flambeau.func.vjp(lambda t: t * t, flambeau.tensor([1., 2.]))
    >>> pull(flambeau.ones(2))
    (tensor([2., 4.]),)
    """
    call = _Pass(lambda new: func(*new), primals, has_aux, "vjp")

    def pull(cotangents: Any) -> Any:
        """Gradients of the primals, a tuple, from those of the output."""
        seeds = _tensors(cotangents, "vjp", "the cotangents")
        if len(seeds) != len(call.outputs):
            raise RuntimeError(
                "vjp(): Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function: "
                f"got {len(seeds)} tensors for {len(call.outputs)} outputs"
            )
        return _like(primals, call.gradients(seeds, True))

    out = call.released(call.result)
    return (out, pull, call.released(call.aux)) if has_aux else (out, pull)


# --- forward mode ---
def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """The output of `func(*primals)`, and its derivative along `tangents`.

    Raises:
        RuntimeError: `primals` is no tuple, or `tangents` are not built or shaped as it; they hold, or `func` returns, what is
            no tensor

    >>> import flambeau
    >>> flambeau.func.jvp(lambda t: t * t, (flambeau.tensor(3.),), (flambeau.tensor(1.),))
    (tensor(9.), tensor(6.))
    """
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(f"jvp(): Expected {name} to be a tuple, got {type(given).__name__}")
    xs, vs = _tensors(primals, "jvp", "primals"), _tensors(tangents, "jvp", "tangents")
    if [tuple(x.shape) for x in xs] != [tuple(v.shape) for v in vs]:
        raise RuntimeError("jvp(): Expected primals and tangents to have the same structure and shapes")
    result, aux = None, None

    def flat(*new: Any) -> tuple:
        nonlocal result, aux
        result = _run(func, _like(primals, new))
        if has_aux:
            result, aux = result
        return tuple(_tensors(result, "jvp", "the output of the function"))

    with forward_ad.inner_level() as level:
        parts = [
            forward_ad.parts(o, level) for o in flat(*(forward_ad.dual(x, v, level) for x, v in zip(xs, vs)))
        ]
        aux = _like(aux, [_plain(leaf, level) for leaf in _leaves(aux)])
    values, moved = [p[0] for p in parts], [p[1] for p in parts]
    if strict and any(t is None for t in moved):
        raise RuntimeError("jvp(): the output of the function is independent of the primals (strict=True)")
    found = [v.new_zeros(v.shape) if t is None else t for v, t in zip(values, moved)]
    out = _like(result, values), _like(result, found)
    return (*out, aux) if has_aux else out


class _Adjoint:
    """The derivative of a call along directions, by reverse mode twice: gradients are linear in the weights of the outputs, and
    the adjoint of that map is the derivative.
    """

    def __init__(self, call: _Pass) -> None:
        self.call = call
        with enable_grad():
            self.weights = [o.new_zeros(o.shape).requires_grad_() for o in call.outputs]
            moving = [k for k, o in enumerate(call.outputs) if o.requires_grad]
            self.back: Any = [None] * len(call.inputs)
            if moving:
                self.back = _grad(
                    [call.outputs[k] for k in moving],
                    call.inputs,
                    [self.weights[k] for k in moving],
                    create_graph=True,
                    allow_unused=True,
                )

    def along(self, directions: list[Any]) -> list[Any]:
        """The derivative of each output, None where it is constant."""
        pairs = [(g, v) for g, v in zip(self.back, directions) if g is not None and g.requires_grad]
        if not pairs:
            return [None] * len(self.weights)
        starts, seeds = zip(*pairs)
        with enable_grad():
            result = _grad(starts, self.weights, seeds, create_graph=True, allow_unused=True)
        keep = self.call.keep or any(v.requires_grad for v in directions)
        return [_released(t, keep) for t in result]


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The output of `func(*primals)`, and a function that gives the derivative there along any tangents.

    `func` is called once; what its derivative needs is kept as long as that function is. It takes tangents of the structure and
    the shapes of `primals`, RuntimeError for others, and returns them for the output.

    >>> import flambeau
    >>> out, along = flambeau.func.linearize(lambda t: t * t, flambeau.tensor([1., 2.]))
    >>> along(flambeau.ones(2)), along(flambeau.tensor([0., 1.]))
    (tensor([2., 4.]), tensor([0., 4.]))
    """
    call = _Pass(lambda new: func(*new), primals, False, "linearize")
    adjoint = _Adjoint(call)
    out = call.released(call.result)

    def along(*tangents: Any) -> Any:
        given = _tensors(tangents, "linearize", "tangents")
        if [tuple(v.shape) for v in given] != [tuple(x.shape) for x in call.inputs]:
            raise RuntimeError(
                f"linearize(): expected tangents of shapes {[list(x.shape) for x in call.inputs]}, got {[list(v.shape) for v in given]}"
            )
        result = adjoint.along(given)
        zeros = [o.new_zeros(o.shape) if t is None else t for o, t in zip(call.outputs, result)]
        return _like(out, zeros)

    return out, along


def _plain(leaf: Any, level: Any) -> Any:
    return forward_ad.parts(leaf, level)[0] if isinstance(leaf, TensorBase) else leaf


# --- Jacobians ---
def _unit(x: TensorBase, k: int) -> TensorBase:
    seed = x.new_zeros(x.numel())
    seed[k] = 1
    return seed.reshape(x.shape)


FEW_ROWS = 4  # that are sent back one by one: a batched pass costs as much as several plain ones


def _rows(call: _Pass, i: int, chunk_size: int | None) -> list[TensorBase]:
    """For each input, its gradients from all elements of the output `i`: (elements, *input.shape)."""
    out = call.outputs[i]
    n = out.numel()
    if n == 0:
        return [x.new_zeros((0, *x.shape)) for x in call.inputs]

    def row(seed: TensorBase) -> tuple:
        return tuple(call.gradients([seed if j == i else None for j in range(len(call.outputs))], True, i))

    if n <= FEW_ROWS or chunk_size == 1:
        return [stack(list(column)) for column in zip(*(row(_unit(out, k)) for k in range(n)))]
    result = []
    for first in range(0, n, chunk_size or n):
        seeds = out.new_zeros((min(chunk_size or n, n - first), n))
        seeds.diagonal(first).fill_(1)
        result.append(vmap(row, randomness="same")(seeds.reshape(-1, *out.shape)))
    return list(result[0]) if len(result) == 1 else [cat(list(column)) for column in zip(*result)]


def jacrev(
    func: Callable[P, Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[P, Any]:
    """A function that returns the Jacobian of `func`, by rows: a backward pass for all elements of an output together.

    For each output, the structure of the arguments `argnums`, with tensors of shape `output.shape + input.shape`.  `chunk_size`
    elements are sent back together, to bound memory; None for all.

    Raises:
        RuntimeError: `argnums` are out of range

    >>> import flambeau
    >>> flambeau.func.jacrev(flambeau.sin)(flambeau.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        inputs = _chosen(args, argnums, "jacrev")
        call = _Pass(lambda new: func(*_placed(args, argnums, new), **kwargs), inputs, has_aux, "jacrev")
        blocks = []
        for i, out in enumerate(call.outputs):
            rows = zip(_rows(call, i, chunk_size), call.inputs)
            blocks.append(_like(inputs, [r.reshape((*out.shape, *x.shape)) for r, x in rows]))
        result = _like(call.result, blocks)
        return (result, call.released(call.aux)) if has_aux else result

    return differentiated


def jacfwd(
    func: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[P, Any]:
    """A function that returns the Jacobian of `func`, by columns: tangents along all elements of an input together.

    What `func` cannot do for all of them at once (`if x:`, a write to a tensor of its own) makes it run once for each.
    `randomness` is what random operations do where it runs for all together, as in `vmap`.

    Raises:
        RuntimeError: `argnums` are out of range

    >>> import flambeau
    >>> flambeau.func.jacfwd(flambeau.sin)(flambeau.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        inputs = _chosen(args, argnums, "jacfwd")
        xs = _tensors(inputs, "jacfwd", "the inputs")
        seen: list = []  # the function's results, with aux
        untouched = _Untouched(
            (args, kwargs)
        )  # the function may write to its arguments, and runs several times

        def along(j: int, direction: TensorBase) -> tuple:
            tangents = tuple(direction if i == j else y.new_zeros(y.shape) for i, y in enumerate(xs))
            own, named = untouched.arguments()

            def flat(*new: Any) -> Any:
                return func(*_placed(own, argnums, _like(inputs, new)), **named)

            primals = tuple(_tensors(_chosen(own, argnums, "jacfwd"), "jacfwd", "the inputs"))
            values, moved, *aux = jvp(flat, primals, tangents, has_aux=has_aux)
            seen[:] = [moved, *aux]
            return tuple(_leaves(moved))

        columns = [_columns(along, j, x, randomness) for j, x in enumerate(xs)]
        if not seen:
            raise RuntimeError("jacfwd(): the inputs have no elements")
        outs = next(c for c in columns if c is not None)
        blocks = []
        for i, out in enumerate(outs):
            block = [
                x.new_zeros((*out.shape[1:], *x.shape))
                if c is None
                else c[i].movedim(0, -1).reshape((*out.shape[1:], *x.shape))
                for c, x in zip(columns, xs)
            ]
            blocks.append(_like(inputs, block))
        result = _like(seen[0], blocks)
        return (result, _aux_of(along, xs, seen)) if has_aux else result

    return differentiated


class _Untouched:
    """The arguments of a function that runs several times, as they were before it wrote to them."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self.tensors = [x for x in _leaves(given) if isinstance(x, TensorBase)]
        self.copies = [x.clone() for x in self.tensors]
        self.versions = _versions(self.tensors)

    def arguments(self) -> Any:
        """The arguments themselves while nobody has written to them, else copies."""
        if _versions(self.tensors) == self.versions:
            return self.given
        copies = iter(self.copies)
        return _like(
            self.given,
            [next(copies).clone() if isinstance(x, TensorBase) else x for x in _leaves(self.given)],
        )


def _versions(tensors: list[TensorBase]) -> list[int]:
    """How often each has been written to; what a call is captured of compares two such lists, and no more."""
    return [-1 if x.is_inference() else x._version for x in tensors]


vars(_versions)["_captured_as_it_is"] = True


def _aux_of(along: Callable, xs: list, seen: list) -> Any:
    """What the function returned beside its result, outside of `vmap`."""
    if any(getattr(leaf, "_is_batched", False) for leaf in _leaves(seen[1])):
        j = next(j for j, x in enumerate(xs) if x.numel())
        along(j, xs[j].new_zeros(xs[j].shape))
    return seen[1]


def _columns(along: Callable, j: int, x: TensorBase, randomness: str) -> Any:
    """The derivatives of all outputs along each element of an input: (elements, *output.shape); None where there are none."""
    n = x.numel()
    if n == 0:
        return None
    mapped = vmap(lambda direction: along(j, direction), randomness=randomness)
    if n > FEW_ROWS:
        seeds = x.new_zeros((n, n))
        seeds.diagonal().fill_(1)
        try:
            return mapped(seeds.reshape(n, *x.shape))
        except NotForAllSlices:
            pass  # one after the other
    return [stack(list(column)) for column in zip(*(along(j, _unit(x, k)) for k in range(n)))]


def hessian(func: Callable[P, Any], argnums: Argnums = 0) -> Callable[P, Any]:
    """A function that returns the second derivatives of `func`: forward mode over reverse mode.

    Raises:
        RuntimeError: `argnums` are out of range

    >>> import flambeau
    >>> flambeau.func.hessian(lambda t: (t ** 3).sum())(flambeau.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
