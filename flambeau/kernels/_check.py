"""The tests that the library's own operations have, for any operation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.gradcheck import gradcheck, gradgradcheck
from ..core.base.device import device_count
from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.call.copies import to_dtype
from ..core.make.create import empty
from ..core.places.join import stack
from ..func import vmap as mapped_over_slices
from ..testing import assert_close

_DOUBLE = by_name["float64"]
_OTHERS = {"float32": (1e-4, 1e-5), "float16": (1e-2, 1e-3), "bfloat16": (5e-2, 1e-2)}  # relative, absolute


def check(
    op: Callable,
    *samples: Any,
    reference: Callable | None = None,
    gradients: bool = True,
    second_gradients: bool = True,
    vmap: bool = True,
    dtypes: Sequence[str] = tuple(_OTHERS),
    devices: Sequence[str] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> list[str]:
    """Test an operation as the library's own are tested; works for any function of tensors, and is meant for pytest.

    Each sample is a call: a tensor, or a tuple of arguments, the last of which may be a dictionary of keyword arguments.  Small tensors
    of float64 away from the points where the function is not smooth serve best.  Tried are: values against `reference` (a
    function of NumPy arrays); that operands are not written; other dtypes against float64; operands that are transposed or have
    gaps; no elements; `out=`; shapes, dtypes and strides of tensors without data; `vmap`; gradients of first and second order against
    finite differences; other devices, where there are some.

    Args:
        gradients, second_gradients, vmap: False for operations that have none, or no rule for `vmap`, on purpose.
        dtypes: besides float64, by name; those that the operation refuses (NotImplementedError, TypeError) are left out.
        devices: by type, those at hand by default; () for functions that run on the CPU alone.
        rtol, atol: in place of those for each dtype.

    Returns:
        the names of the checks made.

    Raises:
        AssertionError: what differs, in which check and sample.

    >>> import flambeau, numpy
    >>> from flambeau import kernels
    >>> @kernels.pointwise
    ... def softabs(x, *, eps=0.1):
    ...     return kernels.sqrt(x * x + eps)
    >>> kernels.check(softabs, flambeau.randn(3, 4), reference=lambda x: numpy.sqrt(x * x + 0.1), devices=())
    ['values', 'operands', 'dtypes', 'strides', 'no elements', 'out', 'meta', 'vmap', 'gradients', 'second gradients']
    """
    if not samples:
        raise ValueError("check(): at least one sample expected")
    made: dict[str, None] = {}
    for number, sample in enumerate(samples):
        args, named = _split(sample)
        trial = _Trial(op, args, named, f"{getattr(op, '__name__', op)}, sample {number}", made)
        trial.tolerances = {} if rtol is None and atol is None else {"rtol": rtol or 0.0, "atol": atol or 0.0}
        trial.orders = 2 if second_gradients else 1
        trial.run(reference, gradients, vmap, dtypes, devices)
    return list(made)


def _split(sample: Any) -> tuple[tuple, dict[str, Any]]:
    args = tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)
    if args and isinstance(args[-1], dict):
        return args[:-1], args[-1]
    return args, {}


def _smooth(x: Any) -> bool:
    return isinstance(x, TensorBase) and (x.is_floating_point() or x.is_complex())


def _results(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


class _Trial:
    """One sample."""

    tolerances: dict[str, float]
    orders: int

    def __init__(self, op: Callable, args: tuple, named: dict, who: str, made: dict[str, None]):
        self.op, self.args, self.named, self.who, self.made = op, args, named, who, made
        self.args = self.mapped(lambda x: to_dtype(x, _DOUBLE) if _smooth(x) and not x.is_complex() else x)
        self.results = _results(self.call(*self.args))

    def call(self, *args: Any) -> Any:
        return self.op(*args, **self.named)

    def mapped(self, change: Callable) -> tuple:
        """The arguments with each tensor changed."""
        return tuple(change(x.detach()) if isinstance(x, TensorBase) else x for x in self.args)

    def same(self, what: str, result: Any, wanted: Sequence[Any], **tolerances: Any) -> None:
        self.made[what] = None
        result = _results(result)
        if len(result) != len(wanted):
            raise AssertionError(
                f"{self.who}: {what}: {len(result)} results where {len(wanted)} are expected"
            )
        for k, (f, w) in enumerate(zip(result, wanted)):
            try:
                assert_close(f, w, equal_nan=True, **{**tolerances, **self.tolerances})
            except (AssertionError, TypeError, ValueError) as error:
                raise AssertionError(f"{self.who}: {what}: result {k}: {error}") from None

    def run(
        self,
        reference: Any,
        gradients: bool,
        vmap: bool,
        dtypes: Sequence[str],
        devices: Sequence[str] | None,
    ) -> None:
        if reference is not None:
            self.values(reference)
        self.operands()
        self.dtypes(dtypes)
        self.strides()
        self.no_elements()
        self.out()
        self.meta("meta", self.args, self.results)
        if vmap:
            self.slices()
        if gradients and any(_smooth(x) for x in self.args):
            self.gradients()
        for type_ in [d for d in ("opencl", "cuda") if device_count(d)] if devices is None else devices:
            self.device(type_)

    def values(self, reference: Callable) -> None:
        import numpy as np

        from ..core.make.bridge import from_numpy

        host_args = [x.detach().cpu().numpy() if isinstance(x, TensorBase) else x for x in self.args]
        wanted = reference(*host_args, **self.named)
        wanted = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
        arrays = [from_numpy(np.array(w)) for w in wanted]
        self.same(
            "values",
            self.results,
            [to_dtype(w, f.dtype) for w, f in zip(arrays, self.results)],
            rtol=1e-7,
            atol=1e-9,
        )

    def operands(self) -> None:
        before = self.mapped(lambda x: x.clone())
        self.call(*self.args)
        tensors = [(a, b) for a, b in zip(self.args, before) if isinstance(a, TensorBase)]
        self.same("operands", [a for a, _ in tensors], [b for _, b in tensors], rtol=0.0, atol=0.0)

    def dtypes(self, names: Sequence[str]) -> None:
        for name in names:
            kind = by_name[name]
            narrow = self.mapped(lambda x, kind=kind: to_dtype(x, kind) if x.dtype == _DOUBLE else x)
            wide = tuple(
                to_dtype(n, _DOUBLE) if isinstance(n, TensorBase) and n.dtype == kind else n for n in narrow
            )
            try:
                result = _results(self.call(*narrow))
            except (NotImplementedError, TypeError):
                continue
            wanted = [to_dtype(w, f.dtype) for w, f in zip(_results(self.call(*wide)), result)]
            relative, absolute = _OTHERS.get(name, (1e-4, 1e-5))
            self.same("dtypes", result, wanted, rtol=relative, atol=absolute)

    def strides(self) -> None:
        def turned(x: TensorBase) -> TensorBase:
            return x.transpose(0, -1).contiguous().transpose(0, -1) if x.ndim > 1 else x

        def gaps(x: TensorBase) -> TensorBase:
            if not x.ndim:
                return x
            wide = x.new_zeros((*x.shape[:-1], 2 * x.shape[-1]))
            wide[..., ::2] = x
            return wide[..., ::2]

        for change in (turned, gaps):
            self.same("strides", self.call(*self.mapped(change)), self.results)

    def no_elements(self) -> None:
        batch = max((x.ndim for x in self.args if isinstance(x, TensorBase)), default=0)
        if batch < 2:
            return
        none = self.mapped(lambda x: x[:0] if x.ndim == batch else x)
        self.meta("no elements", none, _results(self.call(*none)))

    def out(self) -> None:
        if not hasattr(self.op, "body") or (len(self.results) > 1 and not hasattr(self.op, "declared")):
            return  # no kernel of `flambeau.kernels`, or one of several results that is not pointwise
        empties = tuple(empty((0,), dtype=f.dtype, device=f.device) for f in self.results)
        self.op(*self.args, **self.named, out=empties[0] if len(empties) == 1 else empties)
        self.same("out", empties, self.results, rtol=0.0, atol=0.0)

    def meta(self, what: str, args: tuple, result: Sequence[Any]) -> None:
        """What is known without data is what there is with it."""
        self.made[what] = None
        blank = tuple(x.detach().to("meta") if isinstance(x, TensorBase) else x for x in args)
        for k, (f, m) in enumerate(zip(result, _results(self.call(*blank)))):
            for trait in ("shape", "dtype"):
                if getattr(f, trait) != getattr(m, trait):
                    raise AssertionError(
                        f"{self.who}: {what}: result {k} has the {trait} {getattr(f, trait)} with data and "
                        f"{getattr(m, trait)} without"
                    )
            if f.stride() != m.stride() and f.numel():
                raise AssertionError(
                    f"{self.who}: {what}: result {k} has the strides {f.stride()} with data and {m.stride()} without"
                )

    def slices(self) -> None:
        """All slices at once are what they are one after the other."""
        places = [k for k, x in enumerate(self.args) if _smooth(x)]
        if not places:
            return
        stacks = self.mapped(lambda x: stack([x, x * 0.5]) if _smooth(x) else x)

        def slices(*args: TensorBase) -> Any:
            at = dict(zip(places, args))
            return self.call(*(at.get(k, x) for k, x in enumerate(self.args)))

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")
            result = mapped_over_slices(slices)(*(stacks[k] for k in places))
        each = [_results(slices(*(stacks[k][n] for k in places))) for n in range(2)]
        self.same("vmap", result, [stack(column) for column in zip(*each)])

    def gradients(self) -> None:
        def wanted(x: TensorBase) -> TensorBase:
            return x.clone().requires_grad_() if _smooth(x) else x

        args = self.mapped(wanted)
        places = [k for k, x in enumerate(args) if _smooth(x)]
        results = _results(self.call(*args))
        smooth = [k for k, r in enumerate(results) if _smooth(r)]
        if not any(results[k].requires_grad for k in smooth):
            raise AssertionError(
                f"{self.who}: gradients: no result has one; pass gradients=False where that is meant"
            )

        def function(*varied: Any) -> Any:
            at = dict(zip(places, varied))
            result = _results(self.call(*(at.get(k, x) for k, x in enumerate(args))))
            return tuple(result[k] for k in smooth)

        inputs = tuple(args[k] for k in places)
        for what, test in (("gradients", gradcheck), ("second gradients", gradgradcheck))[: self.orders]:
            self.made[what] = None
            try:
                test(function, inputs)
            except (RuntimeError, AssertionError) as error:
                raise AssertionError(f"{self.who}: {what}: {error}") from error

    def device(self, type_: str) -> None:
        """The same numbers, and the same gradients, in float32."""

        def single(x: TensorBase) -> TensorBase:
            return to_dtype(x, by_name["float32"]) if x.dtype == _DOUBLE else x.clone()

        here = self.mapped(single)
        there = tuple(x.to(type_) if isinstance(x, TensorBase) else x for x in here)
        for args in (here, there):
            for x in args:
                if _smooth(x):
                    x.requires_grad_()
        ours, theirs = _results(self.call(*here)), _results(self.call(*there))
        what = f"device {type_}"
        self.same(what, [t.detach().cpu() for t in theirs], [o.detach() for o in ours], rtol=1e-4, atol=1e-5)
        if any(o.requires_grad for o in ours):
            for result in (ours, theirs):
                sum(f.abs().sum() for f in result if f.requires_grad).backward()
            pairs = [(h.grad, t.grad) for h, t in zip(here, there) if _smooth(h) and h.grad is not None]
            there_too = [t.cpu() for _, t in pairs]  # type: ignore[union-attr]
            self.same(what, there_too, [h for h, _ in pairs], rtol=1e-4, atol=1e-5)
