"""The recorder: a program's calls of operations become nodes of a graph, ATen's overloads where ATen has them, sizes that may vary symbols.

Each call runs on the example's tensors, and without data in the other worlds (`_symbols.environment`): what it gives there tells the
shapes as expressions, and where it fails what must hold of the sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .._higher_order_ops._watch import watched
from .._symbols.environment import Symbols
from .._symbols.numbers import SymNumber
from .._symbols.sizes import RECORDING, unwatch_sizes, watch_sizes
from ..amp._state import is_autocast_enabled
from ..core.base.dtypes import device as Device
from ..core.base.dtypes import dtype as DType
from ..core.base.tensor import TensorBase
from ..core.call.operation import Op, behind
from ..fx.node import Node
from ..library._operators import OpOverload
from ..library._overloads import of_python
from ..library._targets import own_target, target
from ..library._written import written
from ..operations.declare.registry import REGISTRY
from ..overrides import TorchFunctionMode
from ._branches import record_call
from ._indexing import read, write
from ._lines import user_line
from ._shadows import Traced, example_of, leaves_of
from ._worlds import Worlds
from .errors import UserError


class _Mode(TorchFunctionMode):
    """Hands the program's calls to a recorder; those that a call makes itself come to nobody."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        recorder, op = self.recorder, behind(func)
        if recorder.suspended or RECORDING.tracer is not recorder:
            return func(*args, **kwargs)
        if not isinstance(op, Op):  # a function of Python over operations
            with self:
                return func(*args, **kwargs)
        if op.entry is None and not isinstance(op, OpOverload):
            with self:
                return getattr(op, "function", op)(*args, **kwargs)
        return recorder.call(op, func, args, kwargs)


class Recorder(Worlds):
    """Within it, what a thread's tensors go through becomes nodes of `graph`.

    `attributes` are the module's tensors by identity: (tensor, kind, name).
    """

    def __init__(self, symbols: Symbols, attributes: Mapping[int, tuple[Any, str, str]]) -> None:
        super().__init__(symbols, attributes)
        self.mode, self.watching = _Mode(self), watched(self.control_flow)

    def __enter__(self) -> Recorder:
        if RECORDING.tracer is not None:
            raise RuntimeError("export(): this thread records a program already")
        watch_sizes()
        RECORDING.tracer = self
        self.recording.__enter__()
        self.mode.__enter__()
        self.watching.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.watching.__exit__(*exception)
        self.mode.__exit__(*exception)
        self.recording.__exit__(*exception)
        RECORDING.tracer = None
        unwatch_sizes()

    def control_flow(self, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call of `cond` and its kin, whose functions become graphs."""
        if self.is_on():
            return record_call(self, function, *args, **kwargs)
        with watched(None):
            return function(*args, **kwargs)

    # --- calls ------------------------------
    def step(self, name: str, overload: str, *args: Any, **kwargs: Any) -> Any:
        """A call of ATen's."""
        function = target("aten", name, overload)
        return self.emit(function, args, kwargs, function, args, kwargs)

    def call(self, op: Op, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operation, and append its node."""
        if is_autocast_enabled("cpu"):
            raise UserError(
                f"export(): {op.__name__}() is called within autocast, which graphs have no steps for{user_line()}"
            )
        if isinstance(op, OpOverload):  # of a program's library, or one of ATen's steps
            if op._opname in ("sym_size", "sym_stride") and op._overloadname == "int":
                return self.trace_size(
                    op._opname[4:], args[0], args[1], getattr(TensorBase, op._opname[4:])(args[0], args[1])
                )
            return self.emit(op, args, kwargs, func, args, kwargs)
        name = op.entry.name
        if name == "item":
            return self._item(args[0])
        if name == "__getitem__" and (result := read(self, *args)) is not NotImplemented:
            return result
        if name == "__setitem__" and write(self, *args):
            return None
        if op.entry.details.get("of_values"):
            return self._of_values(op, func, args, kwargs)
        out = kwargs.get("out")
        without_out = (
            {k: v for k, v in kwargs.items() if k != "out"} if isinstance(out, TensorBase) else kwargs
        )
        result = written(op, args, without_out, named=True)
        if result is not None:
            schema = result.overload.schema
            function = self._target(schema)
            if function is not None:
                positional = tuple(v for n, v in result.values if not n)
                named = {n: v for n, v in result.values if n}
                if isinstance(out, TensorBase):
                    made = self.emit(function, positional, named, func, args, without_out, item=result.item)
                    out.resize_(made.shape) if tuple(out.shape) != tuple(made.shape) else None
                    return out.copy_(made)
                returns = len(schema.returns)
                listed = returns == 1 and "[]" in schema.returns[0].type.form
                return self.emit(
                    function,
                    positional,
                    named,
                    func,
                    args,
                    kwargs,
                    result.item,
                    None if listed else returns,
                    op,
                )
        return self._other(op, func, args, kwargs)

    def _target(self, schema: Any) -> Any:
        name, overload = schema.name.removeprefix("aten::"), schema.overload_name or "default"
        try:
            return target("aten", name, of_python(name, overload))
        except AttributeError:
            return None

    def _other(self, op: Op, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What ATen has not: by the operations that it calls, or a node of the operation itself."""
        if op.entry is not None and op.entry.kind == "conversion" and isinstance(args[0], TensorBase):
            return self._conversion(func, args, kwargs)
        if (result := self._composed(op, args, kwargs)) is not NotImplemented:
            return result
        function = own_target(op)
        unfit = next((x for x in leaves_of((args, kwargs)) if not _is_held(x)), None)
        if function is None or unfit is not None:
            what = "has no name" if function is None else f"is called with a {type(unfit).__name__}"
            raise UserError(f"export(): {op.__name__}() {what}, which graphs cannot hold{user_line()}")
        return self.emit(function, args, kwargs, func, args, kwargs)

    def _conversion(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A conversion, under whatever name, as the dtype and the device that come out."""
        self.suspended += 1
        try:
            made = func(*example_of(args), **example_of(kwargs))
        finally:
            self.suspended -= 1
        options = {k: v for k, v in kwargs.items() if k in ("copy", "memory_format", "non_blocking")}
        moved = made.device != args[0].device
        arguments = (args[0], made.device, made.dtype) if moved else (args[0], made.dtype)
        function = target("aten", "to", "device" if moved else "dtype")
        return self.emit(function, arguments, options, func, args, kwargs)

    def _composed(self, op: Op, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The result of what ATen has not, by the operations that it calls, where none of these depends on sizes."""
        body = getattr(op, "composite", None)
        if (
            body is None
            or op.writes
            or "out" in kwargs
            or any(isinstance(x, SymNumber) for x in leaves_of((args, kwargs)))
        ):
            return NotImplemented
        was_sized, self.sized = self.sized, False
        entries, places, requested = dict(self.entries), dict(self.places), dict(self.requested)
        lifted = list(self.lifted)
        last = next(iter(reversed(self.graph.nodes)), None)
        self.inside += 1
        try:
            with self.mode:
                result = body(*args, **kwargs)
            if not self.sized:
                return result
        except Exception:  # noqa: BLE001  a body that takes no sizes but numbers, or looks at elements; the operation itself is called below
            result = NotImplemented
        finally:
            self.inside -= 1
            self.sized = self.sized or was_sized
        self.entries, self.places, self.requested = entries, places, requested
        self._take_back(last, {x.node for x in lifted})
        self.lifted = lifted
        return NotImplemented

    def _take_back(self, last: Node | None, retained: set[Node]) -> None:
        for node in reversed(list(self.graph.nodes)):
            if node is last:
                break
            if node not in retained:
                self.graph.erase_node(node)
        for node in [n for n in self.graph.nodes if n.op == "placeholder" and not n.users]:
            if any(x.node is node for x in self.lifted) and node not in retained:
                self.graph.erase_node(node)

    def _of_values(self, op: Op, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A tensor that is made of Python's values: a constant of the program, of which each run has a copy."""
        if args and isinstance(args[0], TensorBase):  # `tensor(x)`, `as_tensor(x)`
            named = {k: v for k, v in kwargs.items() if k in ("dtype", "device") and v is not None}
            return args[0].to(**named) if named else args[0].clone().detach()
        sizes = [x for x in leaves_of((args, kwargs)) if isinstance(x, SymNumber)]
        if len(args) and isinstance(args[0], SymNumber):
            named = {k: kwargs.get(k) for k in ("dtype", "device") if kwargs.get(k) is not None}
            if "dtype" not in named:
                named["dtype"] = REGISTRY["tensor"].function(args[0].value).dtype
            return self.step("scalar_tensor", "default", args[0], **named)
        if (
            sizes
            and isinstance(args[0], (list, tuple))
            and all(not isinstance(x, (list, tuple)) for x in args[0])
        ):
            parts = [self._of_values(op, func, (x,), kwargs) for x in args[0]]
            return REGISTRY["stack"].function(parts)
        for n in sizes:
            self.require_equal(n)
        if any(isinstance(x, TensorBase) for x in leaves_of((args, kwargs))):
            parts = [x if isinstance(x, TensorBase) else func(x) for x in args[0]]
            return REGISTRY["stack"].function(parts).to(**kwargs)
        self.suspended += 1
        try:
            made = func(*example_of(args), **example_of(kwargs))
            constant = made.detach().clone()
        finally:
            self.suspended -= 1
        lifted = self._lift_constant(constant)
        node = self.node(target("aten", "lift_fresh_copy"), (lifted.node,), {})
        result = Traced(node, lifted.value, lifted.shadows)
        self._describe(result)
        self.enter(made, result)
        return made


def _is_held(x: Any) -> bool:
    """Whether a graph can hold an argument."""
    kinds = (
        int,
        float,
        bool,
        complex,
        str,
        type(None),
        type(...),
        SymNumber,
        TensorBase,
        Device,
        DType,
        range,
    )
    return isinstance(x, kinds) or type(x).__name__ in ("memory_format", "layout")
