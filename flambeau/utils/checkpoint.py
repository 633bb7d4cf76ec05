"""Trading time for memory: a part of the network is computed again in backward, instead of being saved."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ..amp._state import Carried
from ..autograd import Function, backward, enable_grad, no_grad
from ..autograd.graph import saved_tensors_hooks
from ..core.base.device import device_count
from ..core.base.dtypes import device as Device
from ..core.base.tensor import TensorBase
from ..core.make.random import generator_on
from ..core.tape import current_pass, is_forward_open, is_grad_enabled
from ._python_dispatch import TorchDispatchMode
from ._selective import (  # noqa: F401
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    _CachedTorchDispatchMode,
    _CachingTorchDispatchMode,
    create_selective_checkpoint_contexts,
    current,
    random_states,
    set_random_states,
)
from ._trees import tree_leaves

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class CheckpointError(RuntimeError):
    """The second computation did not save the same tensors as the first."""


def noop_context_fn() -> tuple[Any, Any]:
    """Contexts for the first and the second computation that do nothing.

    >>> from flambeau.utils.checkpoint import noop_context_fn
    >>> first, second = noop_context_fn()
    >>> with first:
    ...     pass
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


_early_stop: bool | None = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside, whether the second computation stops at the last tensor that is needed, whatever `checkpoint`
    was told.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.utils.checkpoint import checkpoint, set_checkpoint_early_stop
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with set_checkpoint_early_stop(False):
    ...     checkpoint(flambeau.exp, x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


_debug: bool | None = None


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Inside, whether a CheckpointError lists operations, whatever `checkpoint` was given; None leaves it to `checkpoint`.

    >>> from flambeau.utils.checkpoint import set_checkpoint_debug_enabled
    >>> with set_checkpoint_debug_enabled(True):
    ...     pass
    """
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


_group: GraphExecGroup | None = None


class GraphExecGroup:
    """Inside, several backward passes compute a checkpointed region again at most once.

    They must not need the same part of the graph.  RuntimeError inside of another one.

    >>> from flambeau.utils.checkpoint import GraphExecGroup
    >>> with GraphExecGroup() as group:
    ...     pass
    """

    def __enter__(self) -> GraphExecGroup:
        global _group
        if _group is not None:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Already inside group {_group}")
        _group = self
        return self

    def __exit__(self, *error: object) -> None:
        global _group
        _group = None


class DefaultDeviceType:
    """Of what type the device is whose generators count where arguments tell none: an accelerator's, where there is one.

    >>> from flambeau.utils.checkpoint import DefaultDeviceType
    >>> before = DefaultDeviceType.get_device_type()
    >>> DefaultDeviceType.set_device_type("cpu")
    >>> DefaultDeviceType.get_device_type()
    'cpu'
    >>> DefaultDeviceType.set_device_type(before)
    """

    _default_device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """From now on it is this one."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Which it is."""
        if DefaultDeviceType._default_device_type is None:
            DefaultDeviceType._default_device_type = "cuda" if device_count("cuda") else "cpu"
        return DefaultDeviceType._default_device_type


def get_device_states(*args: Any) -> tuple[list[int], list[TensorBase]]:
    """The numbers of the devices where the tensors among the arguments are, the host and `meta` left out, and the states of their
    generators.

    Shape:
        a state: (16,)

    Raises nothing.

    >>> import flambeau
    >>> flambeau.utils.checkpoint.get_device_states(flambeau.ones(2), 3)
    ([], [])
    """
    devices = [
        x.device
        for x in tree_leaves(args)
        if isinstance(x, TensorBase) and x.device.type not in ("cpu", "meta")
    ]
    return [d.index or 0 for d in devices], [
        generator_on(None, d, "get_device_states").get_state() for d in devices
    ]


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Put the generators of the devices with these numbers where they were.

    Raises:
        RuntimeError: there is no such device

    >>> import flambeau
    >>> flambeau.utils.checkpoint.set_device_states([], [])
    """
    kind = DefaultDeviceType.get_device_type() if device_type is None else device_type
    if kind == "meta":
        return
    for number, state in zip(devices, states):
        generator_on(None, Device(kind, number), "set_device_states").set_state(state)


def detach_variable(inputs: tuple) -> tuple:
    """The arguments without their histories: tensors that need a gradient are leaves that do.  RuntimeError for no tuple.

    >>> import flambeau
    >>> flambeau.utils.checkpoint.detach_variable((flambeau.ones(1, requires_grad=True) * 2, 3))
    (tensor([2.], requires_grad=True), 3)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}"
        )
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, TensorBase) else x for x in inputs
    )


def check_backward_validity(inputs: Any) -> None:
    """UserWarning where no tensor among them requires a gradient.

    >>> import flambeau
    >>> flambeau.utils.checkpoint.check_backward_validity([flambeau.ones(1, requires_grad=True)])
    """
    if not any(x.requires_grad for x in inputs if isinstance(x, TensorBase)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


class _Random:
    """The states of the default generators, the host's and the devices', to come back to for the length of a block."""

    def __init__(self, preserve: bool) -> None:
        self.states = random_states() if preserve else None

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        if self.states is None:
            yield
            return
        now = random_states()
        set_random_states(self.states)
        try:
            yield
        finally:
            set_random_states(now)


class _Stop(Exception):
    """Everything that backward needs was computed again."""


def _described(t: TensorBase) -> tuple:
    return tuple(t.shape), t.dtype, t.device


class _Holder:
    """Stands on the tape for a tensor that was not saved."""

    def __init__(self, region: _Region, number: int) -> None:
        self.region, self.number = region, number


class _Region:
    """One checkpointed call: how to compute it again, and what the tape wanted to save."""

    def __init__(self, function: Callable, args: tuple, kwargs: dict, **options: Any) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.early_stop, self.check, self.context = (
            options["early_stop"],
            options["check"],
            options["context"],
        )
        self.debug, self.trace = options["debug"], _Operations()
        self.random, self.autocast = _Random(options["preserve"]), Carried()
        self.versions = [_version(a) for a in args]
        self.expected: list[tuple] = []
        self.holders: list[weakref.ref[_Holder]] = []
        self.values: dict[int, TensorBase] = {}
        self.computed_in: Any = None
        self.watching: list[TensorBase] | None = (
            None  # gets what the tape saves of the operation that runs now
        )
        self.keep: Callable[[TensorBase], None] | None = None  # while it is computed again

    def note(self, t: TensorBase) -> None:
        """The tape would save this tensor of an operation that does not run, for its result is known."""
        if self.keep is None:
            self.pack(t)
        else:
            self.keep(t)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Inside, this is the region that is computed in this thread."""
        before, current.region = current.region, self
        try:
            yield
        finally:
            current.region = before

    def pack(self, t: TensorBase) -> _Holder:
        holder = _Holder(self, len(self.expected))
        self.expected.append(_described(t))
        self.holders.append(weakref.ref(holder))
        if self.watching is not None:
            self.watching.append(t)
        return holder

    def unpack(self, holder: _Holder) -> TensorBase:
        now = current_pass() if _group is None else _group
        if self.computed_in != now or holder.number not in self.values:
            self.recompute()
            self.computed_in = now
        return self.values.pop(holder.number)

    def recompute(self) -> None:
        for k, (a, version) in enumerate(zip(self.args, self.versions)):
            if _version(a) != version:
                raise RuntimeError(
                    f"checkpoint(): argument {k} has been modified by an inplace operation since the forward call: it is at "
                    f"version {_version(a)}, expected version {version}"
                )
        self.values = {}
        count = 0

        def keep(t: TensorBase) -> None:
            nonlocal count
            if self.check and count < len(self.expected) and _described(t) != self.expected[count]:
                raise CheckpointError(
                    f"checkpoint(): Recomputed values for the following tensors have different metadata than during the "
                    f"forward pass: tensor {count} was {self.expected[count]}, is {_described(t)}"
                )
            if count < len(self.holders) and self.holders[count]() is not None:
                self.values[count] = t
            count += 1
            if self.early_stop and count == len(self.expected):
                raise _Stop

        def refuse(_: Any) -> TensorBase:
            raise CheckpointError(
                "checkpoint(): backward inside of a checkpointed function that is computed again"
            )

        trace = _Operations() if self.debug else contextlib.nullcontext()
        try:
            self.keep = keep
            with (
                self.random.again(),
                enable_grad(),
                self.autocast.again(),
                self.at_work(),
                self.context,
                saved_tensors_hooks(keep, refuse),
                trace,
            ):
                try:
                    self.function(*self.args, **self.kwargs)
                except _Stop:
                    return
            if count != len(self.expected):
                raise CheckpointError(
                    f"checkpoint(): A different number of tensors was saved during the original forward and recomputation: "
                    f"{len(self.expected)}, then {count}"
                )
        except CheckpointError as error:
            if not self.debug:
                raise
            raise CheckpointError(f"{error}\n{self.report(trace)}") from error
        finally:
            self.keep = None  # which refers to this region

    def report(self, trace: Any) -> str:
        """The operations of both computations."""
        first, second = "\n".join(self.trace.lines), "\n".join(trace.lines)
        return f"Operations of the forward computation:\n{first}\n\nOperations of the computation in backward:\n{second}"


class _Operations(TorchDispatchMode):
    """The operations that run, a line for each."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        shapes = [list(x.shape) for x in tree_leaves((args, kwargs or {})) if isinstance(x, TensorBase)]
        self.lines.append(f"    {func.__name__}({', '.join(map(str, shapes))})")
        return func(*args, **(kwargs or {}))


def _version(value: Any) -> int | None:
    return value._version if isinstance(value, TensorBase) and not value.is_inference() else None


class CheckpointFunction(Function):
    """The re-entrant variant: forward records nothing, backward runs a backward pass of its own.

    Raises:
        RuntimeError: an object of the class is called

    >>> import flambeau
    >>> from flambeau.utils.checkpoint import checkpoint
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> y = checkpoint(flambeau.exp, x, use_reentrant=True)
    >>> y.grad_fn.name()
    'CheckpointFunctionBackward'
    """

    @staticmethod
    def forward(ctx: Any, function: Callable, preserve: bool, *args: Any) -> Any:
        ctx.function, ctx.random, ctx.autocast = function, _Random(preserve), Carried()
        ctx.args = [None if isinstance(a, TensorBase) else a for a in args]
        ctx.places = [k for k, a in enumerate(args) if isinstance(a, TensorBase)]
        ctx.save_for_backward(*(args[k] for k in ctx.places))
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        args = list(ctx.args)
        for k, t in zip(ctx.places, ctx.saved_tensors):
            args[k] = t.detach().requires_grad_(t.requires_grad)
        with ctx.random.again(), enable_grad(), ctx.autocast.again():
            outputs = ctx.function(*args)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        wanted = [
            (o, g)
            for o, g in zip(outputs, grads)
            if isinstance(o, TensorBase) and o.requires_grad and g is not None
        ]
        if not wanted:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([o for o, _ in wanted], [g for _, g in wanted])
        return None, None, *(a.grad if isinstance(a, TensorBase) else None for a in args)


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, of which backward only keeps the arguments: it computes the rest again.

    Random numbers are the same both times unless `preserve_rng_state=False`; so is what autocast does.  `use_reentrant=False` (advised)
    lets `autograd.grad`, keyword arguments and nesting work; True runs a backward pass within backward, and
    gives gradients only where an argument requires them.  `context_fn` makes two contexts, for the first and
    the second computation.  CheckpointError where the second computation saves tensors of other shapes
    (`determinism_check="none"` looks only at their number); with `debug` it lists the operations of both.
    `create_selective_checkpoint_contexts` makes contexts by which some operations are not computed again.

    >>> import flambeau
    >>> x = flambeau.tensor([1., 2.], requires_grad=True)
    >>> y = flambeau.utils.checkpoint.checkpoint(lambda t: t.exp() * t, x, use_reentrant=False)
    >>> y.sum().backward()
    >>> x.grad
    tensor([ 5.4366, 22.1672])
    """
    use_reentrant = _checked(use_reentrant, determinism_check, context_fn, debug, args, kwargs)
    if use_reentrant:
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    first, second = context_fn()
    if not is_grad_enabled() or is_forward_open():  # tangents are computed now, from what is there
        with first:
            return function(*args, **kwargs)
    region = _Region(
        function,
        args,
        kwargs,
        early_stop=early_stop if _early_stop is None else _early_stop,
        check=determinism_check == "default",
        context=second,
        preserve=preserve_rng_state,
        debug=debug if _debug is None else _debug,
    )
    trace = region.trace if region.debug else contextlib.nullcontext()
    with first, region.at_work(), saved_tensors_hooks(region.pack, region.unpack), trace:
        return function(*args, **kwargs)


def _checked(
    use_reentrant: bool | None, check: str, context_fn: Callable, debug: bool, args: tuple, kwargs: dict
) -> bool:
    """Which variant is asked for; ValueError for arguments that it does not take."""
    if use_reentrant is None:
        warnings.warn(
            "checkpoint(): the use_reentrant parameter should be passed explicitly; use_reentrant=False is recommended. "
            "True is taken, as PyTorch does.",
            stacklevel=3,
        )
        use_reentrant = True
    if check not in ("default", "none"):
        raise ValueError(f"checkpoint(): determinism_check must be 'default' or 'none', got {check!r}")
    if use_reentrant:
        if kwargs:
            raise ValueError(f"checkpoint(): Unexpected keyword arguments: {','.join(kwargs)}")
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "checkpoint(): passing context_fn or debug is only supported when use_reentrant=False"
            )
        if is_grad_enabled() and not any(isinstance(a, TensorBase) and a.requires_grad for a in args):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)
    return bool(use_reentrant)


def _in_one(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """What is captured of `checkpoint` in a compiled function: the call alone.  Its plan computes again what lies between the first
    operations and the results, all but random numbers.  Of a selective region it decides as of what is not checkpointed.
    """
    use_reentrant = _checked(use_reentrant, determinism_check, context_fn, debug, args, kwargs)
    if use_reentrant and not any(isinstance(a, TensorBase) and a.requires_grad for a in args):
        with no_grad():
            return function(*args)
    first, _ = context_fn()
    if isinstance(first, _CachingTorchDispatchMode):
        return function(*args, **kwargs)
    with first:
        return _region(function, args, kwargs)


def _region(function: Callable, args: tuple, kwargs: dict) -> Any:
    return function(*args, **kwargs)


vars(checkpoint)["_captured_as"] = _in_one
vars(_region)["_computed_again"] = True


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """A Sequential (or a list of functions, each of one argument) in `segments` parts, of which all but the
    last are checkpointed.

    Raises:
        ZeroDivisionError: `segments` is 0

    >>> import flambeau
    >>> layers = flambeau.nn.Sequential(flambeau.nn.Tanh(), flambeau.nn.Tanh(), flambeau.nn.Tanh())
    >>> x = flambeau.zeros(1, requires_grad=True)
    >>> flambeau.utils.checkpoint.checkpoint_sequential(layers, 3, x, use_reentrant=False).backward()
    >>> x.grad
    tensor([1.])
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"checkpoint_sequential(): Unexpected keyword arguments: {','.join(kwargs)}")
    if use_reentrant is None:
        warnings.warn(
            "checkpoint_sequential(): the use_reentrant parameter should be passed explicitly; use_reentrant=False is "
            "recommended. True is taken, as PyTorch does.",
            stacklevel=2,
        )
        use_reentrant = True
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def through(part: list) -> Callable:
        def run(value: Any) -> Any:
            for step in part:
                value = step(value)
            return value

        return run

    length = len(steps) // segments
    for k in range(segments - 1):
        part = steps[k * length : (k + 1) * length]
        input = checkpoint(through(part), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return through(steps[(segments - 1) * length :])(input)
