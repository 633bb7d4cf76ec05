"""`opcheck`: whether what was registered for an operation fits together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..autograd.grad_mode import enable_grad, no_grad
from ..autograd.gradients import grad
from ..core.base.tensor import TensorBase
from ..core.call.operation import Op
from ..testing import assert_close
from ..utils._python_dispatch import TorchDispatchMode
from ._fakes import check_result, on_meta, predicted
from ._keys import PARTS
from ._operators import OpOverload
from ._packets import OpOverloadPacket

DEFAULT = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """A test of `opcheck` has failed; its cause is what the test raised."""


def tensors_in(x: Any) -> Iterator[TensorBase]:
    """The tensors in lists, tuples and dictionaries."""
    if isinstance(x, TensorBase):
        yield x
    elif isinstance(x, list | tuple):
        for y in x:
            yield from tensors_in(y)
    elif isinstance(x, dict):
        yield from tensors_in(list(x.values()))


def copied(x: Any) -> Any:
    """The same with tensors of their own, leaves that want gradients where those did."""
    if isinstance(x, TensorBase):
        return x.detach().clone().requires_grad_(x.requires_grad)
    if isinstance(x, dict):
        return {k: copied(v) for k, v in x.items()}
    return type(x)(map(copied, x)) if type(x) in (list, tuple) else x


def _shares(a: Any, b: Any) -> bool:
    storages = {t.untyped_storage()._address() for t in tensors_in(a) if t.numel()}
    return any(t.untyped_storage()._address() in storages for t in tensors_in(b) if t.numel())


def _same(a: TensorBase, b: TensorBase) -> bool:
    return a.shape == b.shape and a.stride() == b.stride() and bool(((a == b) | ((a != a) & (b != b))).all())


class _Case:
    """One operation with one set of arguments."""

    def __init__(self, op: Any, args: tuple, kwargs: dict, tolerances: dict[str, float]) -> None:
        self.op, self.args, self.kwargs, self.tolerances = op, args, kwargs, tolerances

    @property
    def differentiable(self) -> bool:
        return any(t.requires_grad for t in tensors_in([self.args, self.kwargs]))

    def arguments(self, args: tuple, kwargs: dict) -> list[tuple[str, Any, bool, bool]]:
        """(name, value, whether it may be written to, whether results may share its memory)"""
        if not isinstance(self.op, OpOverload):
            writes = self.op.writes
            named = [(f"{k}", x, writes and k == 0, True) for k, x in enumerate(args)]
            return named + [(n, x, n == "out", True) for n, x in kwargs.items()]
        positional_args, by_name = self.op._bind(args, kwargs)
        positional = [a for a in self.op._schema.arguments if not a.kwarg_only]
        result = [
            (a.name, x, a.is_write, a.alias_info is not None) for a, x in zip(positional, positional_args)
        ]
        info = {a.name: a for a in self.op._schema.arguments}
        return result + [
            (n, x, info[n].is_write, info[n].alias_info is not None) for n, x in (by_name or {}).items()
        ]

    def schema(self) -> None:
        args, kwargs = copied((self.args, self.kwargs))
        with no_grad():
            before = [(copied(x), x) for _, x, _, _ in self.arguments(args, kwargs)]
            returned = self.op(*args, **kwargs)
        results = returned if isinstance(returned, tuple) else (returned,)
        for (name, value, written, shared), (old, _) in zip(self.arguments(args, kwargs), before):
            for k, result in enumerate(results):
                if isinstance(result, TensorBase) and result is value and not written:
                    raise RuntimeError(
                        "Dispatcher operators below autograd are not allowed to directly return inputs.\n"
                        f"However, we found that `outputs[{k}] is {name}"
                    )
                if _shares(result, value) and not shared:
                    raise RuntimeError(f"Argument {name} is not defined to alias output but was aliasing")
            changed = not all(_same(a, b) for a, b in zip(tensors_in(old), tensors_in(value)))
            if changed and not written:
                raise RuntimeError(f"Argument {name} is not defined as mutable but was mutated")
        for k in range(len(results)):
            for j in range(k):
                if isinstance(self.op, OpOverload) and _shares(results[k], results[j]):
                    raise RuntimeError(f"Outputs {j} and {k} alias unexpectedly")

    def autograd_registration(self) -> None:
        op = self.op
        if not self.differentiable or not isinstance(op, OpOverload):
            return
        if op.taped or op.over is not None or op._entry.kernel(PARTS) is not None:
            return
        args, kwargs = copied((self.args, self.kwargs))
        with enable_grad():
            result = op._compute(*op._bind(args, kwargs), True)
        input_ids = set(map(id, tensors_in([args, kwargs])))
        if any(t.requires_grad and id(t) not in input_ids for t in tensors_in(result)):
            raise AssertionError(
                f"{op._qualname}: at least one output of this operator has requires_grad=True but the operator does not have an autograd "
                "kernel defined at an autograd key (e.g. DispatchKey::Autograd). This could mean that you have incorrectly registered "
                "an autograd kernel to a non-Autograd DispatchKey, which may lead to silently incorrect results. If your operator "
                "consists of regular PyTorch operations, consider not using an operator at all or registering your operator as "
                "CompositeImplicitAutograd. If you have an autograd.Function registered to a backend (CPU/CUDA/XPU) key, the correct "
                "location for it is the Autograd key."
            )

    def fake(self) -> Callable:
        """What makes the results without data; RuntimeError where nothing does."""
        op = self.op
        if not isinstance(op, OpOverload):
            return op
        if op._entry.fakes:
            return op._entry.fakes[-1].function
        return op._choose("meta")

    def faketensor(self) -> None:
        args, kwargs = copied((self.args, self.kwargs))
        fake = self.fake()
        declared = args, kwargs
        if isinstance(self.op, OpOverload):
            declared = self.op._bind(args, kwargs)  # type: ignore[assignment]
        with no_grad():
            result = self.op(*args, **kwargs)
            name = getattr(self.op, "_qualname", self.op.__name__)
            kernel = self._kernel(args, kwargs)
            check_result(name, kernel, fake, predicted(fake, *declared), result, *declared, strides=True)

    def _kernel(self, args: tuple, kwargs: dict) -> Callable:
        """The kernel that runs, for messages."""
        op = self.op
        if not isinstance(op, OpOverload) or op.whole is not None:
            return getattr(op, "whole", None) or op
        places = [t.device.type for t in tensors_in([args, kwargs])]
        return op._choose(
            max(places, key=lambda p: p != "cpu") if places else op._place(*op._bind(args, kwargs))
        )

    def dispatched(self) -> None:
        """The results, and the gradients, are the same under a mode; without data, gradients are of the arguments' form."""
        first, again = self._run(), self._run(_Through())
        assert_close(again, first, equal_nan=True, **self.tolerances)
        fake = self.fake()
        if not isinstance(self.op, OpOverload):
            return
        declared = self.op._bind(self.args, self.kwargs)
        said, other = predicted(fake, declared[0], declared[1])
        if self.differentiable and self.op.taped and not _by_data(said, other):
            self._backward_without_data(on_meta(self.op._qualname, fake, ""))

    def _run(self, mode: Any = None) -> list[TensorBase]:
        args, kwargs = copied((self.args, self.kwargs))
        if mode is None:
            result = self.op(*args, **kwargs)
        else:
            with mode:
                result = self.op(*args, **kwargs)
        return [t.detach() for t in tensors_in(result)] + self._gradients(result, args, kwargs)

    def _gradients(self, result: Any, args: tuple, kwargs: dict) -> list[TensorBase]:
        wanted = [t for t in tensors_in([args, kwargs]) if t.requires_grad]
        results = [t for t in tensors_in(result) if t.requires_grad]
        if not wanted or not results:
            return []
        total = sum(t.sum().abs() for t in results)
        return [g for g in grad(total, wanted, allow_unused=True) if g is not None]

    def _backward_without_data(self, fake: Callable) -> None:
        args, kwargs = [_on_meta(x) for x in self.args], {n: _on_meta(x) for n, x in self.kwargs.items()}
        result = self.op(*args, **kwargs)
        wanted = [t for t in tensors_in([args, kwargs]) if t.requires_grad]
        results = [t for t in tensors_in(result) if t.requires_grad]
        if not results:
            return
        for argument, gradient in zip(
            wanted, grad(results, wanted, [r.new_ones(r.shape) for r in results], allow_unused=True)
        ):
            if gradient is not None and (
                gradient.shape != argument.shape or gradient.dtype != argument.dtype
            ):
                raise RuntimeError(
                    f"{self.op._qualname}: without data, the backward makes a gradient of shape {list(gradient.shape)} and dtype "
                    f"{gradient.dtype} for an argument of shape {list(argument.shape)} and dtype {argument.dtype}"
                )


def _by_data(said: Any, other: Any) -> bool:
    return any(a.shape != b.shape for a, b in zip(tensors_in(said), tensors_in(other)))


def _on_meta(x: Any) -> Any:
    if isinstance(x, TensorBase):
        return x.detach().to("meta").requires_grad_(x.requires_grad)
    return [_on_meta(y) for y in x] if isinstance(x, list | tuple) else x


class _Through(TorchDispatchMode):
    """Hands every call on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


TESTS: dict[str, Callable[[_Case], None]] = {
    "test_schema": _Case.schema,
    "test_autograd_registration": _Case.autograd_registration,
    "test_faketensor": _Case.faketensor,
    "test_aot_dispatch_static": _Case.dispatched,
    "test_aot_dispatch_dynamic": _Case.dispatched,
}


def opcheck(
    op: Any,
    args: tuple,
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = DEFAULT,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Whether what was registered for an operation fits together, tried on one set of arguments: a test's name -> "SUCCESS", or
    what it raised; with `raise_exception`, the first failure is an OpCheckError.

    - test_schema: it writes to what the schema says, and its results share memory with what the schema says
    - test_autograd_registration: a kernel without registered derivative makes no results that want gradients
    - test_faketensor: the fake implementation tells the shapes, strides, dtypes and devices of the results
    - test_aot_dispatch_dynamic: results and gradients are the same under a dispatch mode, and the derivative runs on tensors without
      data.  Nothing is compiled: PyTorch's test of that name traces a graph, too.

    Arguments on `meta` are not tried.  Whether gradients are right is for `autograd.gradcheck`.

    >>> import flambeau
    >>> @flambeau.library.custom_op("documented::checked", mutates_args=())
    ... def checked(x: flambeau.Tensor) -> flambeau.Tensor:
    ...     return x + 1
    >>> @checked.register_fake
    ... def _(x):
    ...     return x.new_empty(x.shape)
    >>> sorted(set(flambeau.library.opcheck(checked, (flambeau.ones(2),)).values()))
    ['SUCCESS']
    """
    if (rtol is None) != (atol is None):
        raise ValueError("opcheck(op, ...): if you specify one of rtol/atol, you must specify both")
    if isinstance(op, OpOverloadPacket):
        overloads = op.op_overloads()
        if len(overloads) != 1:
            raise RuntimeError(
                "opcheck can only test operators without overloads. Got the following overloads for "
                f"{op._qualified_op_name}: {op.overloads()}"
            )
        op = overloads[0]
    if not isinstance(op, Op):
        raise ValueError(
            f"opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. torch.ops.aten.sin.default, got {type(op)}"
        )
    tests = (
        tuple(TESTS) if test_utils == "ALL" else (test_utils,) if isinstance(test_utils, str) else test_utils
    )
    if not isinstance(tests, tuple | list) or not set(tests) <= set(TESTS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={test_utils}), expected test_utils to be subset of {tuple(TESTS)} but it was not"
        )
    case = _Case(op, args, kwargs or {}, {} if rtol is None or atol is None else {"rtol": rtol, "atol": atol})
    results: dict[str, Any] = {}
    without_data = any(t.is_meta for t in tensors_in([args, kwargs or {}]))
    for name in tests:
        try:
            if not without_data:
                TESTS[name](case)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
            results[name] = error
    return results
