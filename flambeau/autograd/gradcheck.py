"""Derivatives against finite differences, in double precision."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..core.base.formats import strided
from ..core.base.tensor import TensorBase
from ..core.places.join import stack
from . import forward_ad as fwAD
from .grad_mode import enable_grad, no_grad
from .gradients import grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """The derivative that the tape computes differs from the finite difference."""


def _tensors(given: Any) -> list[TensorBase]:
    return [t for t in (given if isinstance(given, (tuple, list)) else (given,)) if isinstance(t, TensorBase)]


def _flat(t: TensorBase) -> list:
    return t.detach().reshape(-1).tolist()


def _units(t: TensorBase) -> tuple[complex | float, ...]:
    """The directions in which an element moves: along the real line, and for complex numbers across it."""
    return (1.0, 1j) if t.is_complex() else (1.0,)


def _real(a: Any, b: Any) -> float:
    """The inner product of two numbers as points of the plane."""
    return (
        (complex(a).conjugate() * complex(b)).real
        if isinstance(a, complex) or isinstance(b, complex)
        else a * b
    )


def _put(data: TensorBase, place: Any, before: Any, direction: Any, by: float) -> None:
    data[place] = before + by * direction


class _Check:
    """One function at one point."""

    def __init__(self, func: Callable, inputs: tuple, eps: float, atol: float, rtol: float) -> None:
        self.func, self.inputs = func, inputs
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.wanted = [x for x in inputs if isinstance(x, TensorBase) and x.requires_grad]
        result = _tensors(func(*inputs))
        self.outputs = [o for o in result if o.requires_grad]
        self.places = [k for k, o in enumerate(result) if o.requires_grad]
        self.constant = [k for k, o in enumerate(result) if o.is_floating_point() or o.is_complex()]

    def values(self) -> list[list]:
        """The outputs that have a derivative, as lists."""
        result = _tensors(self.func(*self.inputs))
        return [_flat(result[k]) for k in self.places]

    def difference(self, moves: Callable[[float], None]) -> list[list]:
        """The derivative of every output as the input moves: `moves(eps)` puts it there."""
        with no_grad():
            moves(self.eps)
            above = self.values()
            moves(-self.eps)
            below = self.values()
            moves(0.0)
        return [[(a - b) / (2 * self.eps) for a, b in zip(*pair)] for pair in zip(above, below)]

    def columns(self, x: TensorBase) -> Iterator[tuple[int, complex | float, list[list]]]:
        """For each element of x and direction: its number, the direction, the derivative of every output."""
        data = x.data
        for k, place in enumerate(itertools.product(*map(range, x.shape))):
            before = data[place].item()
            for unit in _units(x):
                yield k, unit, self.difference(partial(_put, data, place, before, unit))

    def backward(self, output: int, seed: TensorBase) -> list[TensorBase]:
        result = grad([self.outputs[output]], self.wanted, [seed], retain_graph=True, allow_unused=True)
        return [x.new_zeros(x.shape) if g is None else g for g, x in zip(result, self.wanted)]

    def forward(self, i: int, direction: TensorBase) -> list[TensorBase]:
        """The tangents of the outputs as input i moves."""
        x = self.wanted[i]
        with fwAD.dual_level():
            given = [fwAD.make_dual(x.detach(), direction) if y is x else y for y in self.inputs]
            result = _tensors(self.func(*given))
            parts = [fwAD.unpack_dual(result[k]) for k in self.places]
        return [p.primal.new_zeros(p.primal.shape) if p.tangent is None else p.tangent for p in parts]

    def no_slopes(self) -> None:
        """That the outputs, none of which has a history, do not move with the inputs."""
        self.places = self.constant
        for x in self.wanted:
            for _, _, derivatives in self.columns(x):
                if any(d != 0 for derivative in derivatives for d in derivative):
                    raise GradcheckError("Numerical gradient for function expected to be zero")

    def compare(self, got: float, expected: float, what: str) -> None:
        off = abs(got - expected)
        if off > self.atol + self.rtol * abs(expected) or math.isnan(got) != math.isnan(expected):
            raise GradcheckError(
                f"Jacobian mismatch for {what} is {got} on the tape and {expected} by finite differences"
            )

    # --- every element ---
    def all_backward(self, columns: list[list]) -> None:
        for o, out in enumerate(self.outputs):
            for j, unit in itertools.product(range(out.numel()), _units(out)):
                rows = [_flat(g) for g in self.backward(o, _one(out, j, unit))]
                for i, row in enumerate(rows):
                    for k, direction, derivatives in columns[i]:
                        what = f"output {o} with respect to input {i}: element {j} by element {k}"
                        self.compare(_real(row[k], direction), _real(unit, derivatives[o][j]), what)

    def all_forward(self, columns: list[list]) -> None:
        for i, x in enumerate(self.wanted):
            for k, unit, derivatives in columns[i]:
                for o, t in enumerate(self.forward(i, _one(x, k, unit))):
                    for j, (got, expected) in enumerate(zip(_flat(t), derivatives[o])):
                        what = f"output {o} with respect to input {i}, forward: element {j} by element {k}"
                        for part in _units(t):
                            self.compare(_real(part, got), _real(part, expected), what)

    # --- one direction ---
    def along_ramps(self, back: bool, forward: bool) -> None:
        """u'Jv for one u and v a pair, which takes a few calls whatever the sizes."""
        for i, x in enumerate(self.wanted):
            v, data, before = _ramp(x), x.data, x.detach().clone()
            derivatives = self.difference(partial(_put, data, ..., before, v))
            tangents = self.forward(i, v) if forward else []
            for o, out in enumerate(self.outputs):
                u = _ramp(out)
                expected = sum(_real(a, b) for a, b in zip(_flat(u), derivatives[o]))
                what = f"output {o} with respect to input {i} along one direction:"
                if back:
                    got = sum(_real(a, b) for a, b in zip(_flat(self.backward(o, u)[i]), _flat(v)))
                    self.compare(got, expected, what + " the gradient")
                if forward:
                    got = sum(_real(a, b) for a, b in zip(_flat(u), _flat(tangents[o])))
                    self.compare(got, expected, what + " the tangent")

    # --- what a gradient should be besides right ---
    def same_twice(self, tol: float) -> None:
        for o, out in enumerate(self.outputs):
            u = _ramp(out)
            for first, second in zip(self.backward(o, u), self.backward(o, u)):
                worst = max((abs(a - b) for a, b in zip(_flat(first), _flat(second))), default=0.0)
                if worst > tol:
                    raise GradcheckError(
                        "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                        f"gives different values: they differ by {worst}, the tolerance (nondet_tol) is {tol}"
                    )

    def batched(self) -> None:
        """That several gradients that are sent back at once give what each gives."""
        for o, out in enumerate(self.outputs):
            seeds = [_ramp(out), _ramp(out) * -0.5]
            together = grad(
                [out],
                self.wanted,
                [stack(seeds)],
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=True,
            )
            for k, seed in enumerate(seeds):
                for i, (all_of_them, one) in enumerate(zip(together, self.backward(o, seed))):
                    part = one.new_zeros(one.shape) if all_of_them is None else all_of_them[k]
                    for a, b in zip(_flat(part), _flat(one)):
                        self.compare(
                            abs(a - b), 0.0, f"output {o} with respect to input {i}: batched less single"
                        )

    def dtypes(self) -> None:
        for o, out in enumerate(self.outputs):
            for i, (g, x) in enumerate(zip(self.backward(o, _ramp(out)), self.wanted)):
                if g.dtype != x.dtype:
                    raise GradcheckError(
                        f"the gradient of output {o} with respect to input {i} has dtype {g.dtype}, the input {x.dtype}"
                    )


def _one(t: TensorBase, k: int, value: complex | float) -> TensorBase:
    """Zeros with one element set."""
    seed = t.new_zeros(t.numel())
    seed[k] = value
    return seed.detach().reshape(t.shape)


def _ramp(t: TensorBase) -> TensorBase:
    """Fixed, uneven weights of t's shape, of about unit size."""
    values: list = [math.sin(1.0 + 1.7 * k) for k in range(t.numel())]
    if t.is_complex():
        values = [complex(v, math.cos(0.3 + 2.3 * k)) for k, v in enumerate(values)]
    return t.new_tensor(values).detach().reshape(t.shape)


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    check_batched_grad: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the derivatives of `func` at `inputs` (float64 or complex128) with central differences.

    Every element of every Jacobian, in reverse mode and with `check_forward_ad` in forward mode; with `fast_mode`
    one product u'Jv for each pair of an input and an output.  Complex numbers are taken as points of the plane.
    True where |tape - difference| <= atol + rtol · |difference| everywhere and two backward passes differ by no
    more than `nondet_tol`; else GradcheckError, or False with `raise_exception=False`.  Outputs are always checked one
    at a time, the others without a gradient, which is what `check_undefined_grad` asks for.  Where no output has a
    history, its differences are to be 0.  `check_batched_grad` sends several gradients back at once, too.

    Raises:
        ValueError: no input requires grad
        RuntimeError: an input has a dimension with stride 0, whose elements do not move alone
        NotImplementedError: `masked` is given, and an input is sparse

    A UserWarning says that an input is not of double precision, which wants a larger `eps` and tolerances.

    >>> import flambeau
    >>> x = flambeau.tensor([0.5, 2.], dtype=flambeau.float64, requires_grad=True)
    >>> flambeau.autograd.gradcheck(flambeau.exp, (x,), check_forward_ad=True)
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise ValueError(
            "gradcheck(): Expected at least one of check_forward_ad and check_backward_ad to be True"
        )
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    check = _Check(func, inputs, eps, atol, rtol)
    if not check.wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for k, x in enumerate(inputs):
        if not (isinstance(x, TensorBase) and x.requires_grad):
            continue
        if x.dtype.name not in ("float64", "complex128"):
            warnings.warn(
                f"Input #{k} requires gradient and is not a double precision floating point or complex. This check will likely fail "
                "if all the inputs are not of double precision floating point or complex.",
                stacklevel=2,
            )
        if x.layout is not strided:
            if masked is not None:
                raise NotImplementedError(
                    f"gradcheck(): masked={masked} is not available for inputs of layout {x.layout}"
                )
        elif any(step == 0 and size > 1 for size, step in zip(x.shape, x.stride())):
            raise RuntimeError(
                f"The {k}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be able to "
                "compute the numerical gradients correctly. You should call .contiguous on the input before passing it to gradcheck."
            )
    try:
        if not check.outputs:
            check.no_slopes()
            return True
        if fast_mode:
            check.along_ramps(check_backward_ad, check_forward_ad)
        else:
            columns = [list(check.columns(x)) for x in check.wanted]
            if check_backward_ad:
                check.all_backward(columns)
            if check_forward_ad:
                check.all_forward(columns)
        if check_backward_ad:
            check.same_twice(nondet_tol)
            if check_batched_grad:
                check.batched()
            if check_grad_dtypes:
                check.dtypes()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    gen_non_contig_grad_outputs: bool = False,
    check_batched_grad: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare second derivatives: gradcheck of the gradients as a function of inputs and incoming gradients.

    `grad_outputs` defaults to fixed, uneven weights, with gaps between them in memory under `gen_non_contig_grad_outputs`;
    `check_fwd_over_rev` checks them in forward mode.

    Raises:
        GradcheckError: derivatives disagree, with `raise_exception`
        ValueError: no input requires a gradient

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, 2.0], dtype=flambeau.float64, requires_grad=True)
    >>> flambeau.autograd.gradgradcheck(lambda t: t**3, (x,))
    True
    """
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outputs = [o for o in _tensors(func(*inputs)) if o.requires_grad]
    places = [k for k, o in enumerate(_tensors(func(*inputs))) if o.requires_grad]
    given = [_ramp(o) for o in outputs] if grad_outputs is None else _tensors(grad_outputs)
    if grad_outputs is None and gen_non_contig_grad_outputs:
        given = [stack([s, s], -1)[..., 0] for s in given]
    seeds = [s.detach().requires_grad_() for s in given] if grad_outputs is None else given
    count = len(seeds)
    wanted = [k for k, x in enumerate(inputs) if isinstance(x, TensorBase) and x.requires_grad]

    def gradients(*everything: Any) -> tuple:
        xs, gs = list(everything[: len(everything) - count]), everything[len(everything) - count :]
        with enable_grad():  # the differences are taken without a tape, but this function needs one inside
            for k in wanted:
                xs[k] = _restarted(xs[k])
            result = _tensors(func(*xs))
            outs = [result[k] for k in places]
            back = grad(outs, [xs[k] for k in wanted], list(gs), create_graph=True, allow_unused=True)
        return tuple(g for g in back if g is not None and g.requires_grad)

    return gradcheck(
        gradients,
        (*inputs, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        check_batched_grad=check_batched_grad,
        masked=masked,
    )


def _restarted(x: TensorBase) -> TensorBase:
    """x as it is where it requires grad; a dual tensor that does not gets a leaf under it."""
    if x.requires_grad:
        return x
    return fwAD.leaf_under(x)
