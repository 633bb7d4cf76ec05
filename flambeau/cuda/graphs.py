"""Graphs: work that is captured once and launched again as one.

What a stream is given while it is captured does not run: the driver writes it down.  A replay runs it on the same memory, so
that new inputs are copied into the tensors that were there in the capture, and results are read from those it made.  That
memory belongs to a pool of the graph's, which no other tensor is given while the graph is there.
"""

from __future__ import annotations

import functools
import gc
import itertools
import warnings
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from ..core.base.callbacks import set_callback
from ..core.base.device import current_device, set_device
from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.make import random as _random
from ..core.make.create import empty
from ..devices.cuda_graphs import Graph
from ._find import find
from .streams import Stream, StreamContext, is_current_stream_capturing

__all__ = [
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
_handles = itertools.count(1)


def graph_pool_handle() -> tuple[int, int]:
    """A name for a pool of memory that several captures share; graphs of one pool must be replayed in the order of their captures.

    >>> import flambeau
    >>> flambeau.cuda.graph_pool_handle() != flambeau.cuda.graph_pool_handle()
    True
    """
    return (0, next(_handles))


class CUDAGraph:
    """Work of a device that is captured between `capture_begin` and `capture_end`, and launched by `replay`.

    The current stream, which is not the default one, is captured, and those that wait for it.  What the host would wait for
    cannot be captured (a copy to the host, `synchronize`): RuntimeError.

    Random numbers that are drawn in the capture are other ones in each replay: those that the same calls would draw then.  Their
    generator is the device's own, or one that was given to `register_generator_state` before.

    >>> import flambeau
    >>> made = flambeau.cuda.CUDAGraph()
    >>> made.replay()
    Traceback (most recent call last):
        ...
    RuntimeError: Called CUDAGraph::replay without a preceding successful capture.
    """

    def __init__(self, keep_graph: bool = False):
        if keep_graph:
            raise NotImplementedError(
                "CUDAGraph(): keep_graph=True is not supported: a graph is made ready by capture_end()"
            )
        self._graph: Graph | None = None
        self._captured = self._debug = False
        self._handle: Any = None
        self._registered: list[Any] = []  # generators, besides the device's own
        self._drawing: list[Any] = []  # those that the capture under way may draw from
        self._drawn: list[
            tuple[Any, TensorBase, int]
        ] = []  # a generator, its state there, counters of a replay

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Capture what the current stream is given from now on, with memory of `pool` (what `graph_pool_handle` or another
        graph's `pool()` returned; by default one of its own).

        Raises:
            RuntimeError: the current stream is the default one, the graph has captured before, or another capture is under way
        """
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        if self._graph is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        device = find(None)
        if device.current_stream() == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on "
                "the default stream.)"
            )
        handle = graph_pool_handle() if pool is None else pool
        made = Graph(device, handle)
        generators = {id(g): g for g in (_random.default_of_device(device.place), *self._registered)}
        made.begin(_MODES[capture_error_mode])
        self._graph, self._handle = made, handle
        try:
            for g in generators.values():  # in memory that nothing else of this capture has had
                _random.begin_capture(g, empty(2, dtype=by_name["int64"], device=device.place))
                self._drawing.append(g)
        except RuntimeError:  # no memory, or another capture draws from it
            self._end_draws()
            made.end()
            self.reset()
            raise

    def capture_end(self) -> None:
        """Stop capturing, on the stream that it began on, and make the graph ready.

        Raises:
            RuntimeError: no capture is under way, the current stream is another, or a call in the capture has spoilt it
        """
        if self._graph is None or self._captured:
            raise RuntimeError("Called CUDAGraph::capture_end without a preceding capture_begin.")
        try:
            self._graph.end()
        except RuntimeError:
            if not self._graph.on.is_into():
                self._end_draws()
                self.reset()
            raise
        self._end_draws()
        self._captured = True
        if self._graph.nodes == 0:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or stream.",
                stacklevel=2,
            )

    def replay(self) -> None:
        """Queue all that was captured on the current stream.  RuntimeError before a capture has ended."""
        made = self._ready("replay")
        for generator, state, counters in self._drawn:
            made.put_state(state.data_ptr(), *_random.advance(generator, counters))
        made.replay()

    def reset(self) -> None:
        """Forget what was captured; its memory is given back by `empty_cache`, once no tensor holds it."""
        if self._graph is not None:
            self._graph.discard()
        self._graph, self._captured, self._handle, self._drawn = None, False, None, []

    def pool(self) -> Any:
        """A name for the memory of this graph, for further captures.  RuntimeError before a capture has ended."""
        self._ready("pool()")
        return self._handle

    def enable_debug_mode(self) -> None:
        """Let `debug_dump` write."""
        self._debug = True

    def debug_dump(self, debug_path: str) -> None:
        """Write the graph to a file in the DOT language, after `enable_debug_mode`; else a warning."""
        if not self._debug:
            warnings.warn("CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()", stacklevel=2)
            return
        self._ready("debug_dump").write(debug_path)

    def register_generator_state(self, generator: Any) -> None:
        """Let the capture that begins next hold draws of the generator, too.

        Raises:
            TypeError: the argument is no generator
            RuntimeError: it is none of a CUDA device, or the capture has begun
        """
        if not isinstance(generator, _random.Generator):
            raise TypeError(
                f"CUDAGraph.register_generator_state(): generator must be a Generator, not {type(generator).__name__}"
            )
        if generator.device.type != "cuda":
            raise RuntimeError(
                f"CUDAGraph.register_generator_state(): generator must be one of a CUDA device, got {generator.device}"
            )
        if self._graph is not None:
            raise RuntimeError(
                "CUDAGraph.register_generator_state(): must be called before the capture begins"
            )
        self._registered.append(generator)

    def _end_draws(self) -> None:
        ended = [(g, *_random.end_capture(g)) for g in self._drawing]
        self._drawing = []
        self._drawn = [(g, state, counters) for g, state, counters in ended if counters]

    def _ready(self, who: str) -> Graph:
        if self._graph is None or not self._captured:
            raise RuntimeError(f"Called CUDAGraph::{who} without a preceding successful capture.")
        return self._graph


class graph:
    """Context whose work is captured in a graph, on `stream` (by default one stream for all captures that name none).

    Raises:
        RuntimeError: there is no device; and what `CUDAGraph.capture_begin` and `capture_end` raise

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     x, captured = flambeau.ones(3, device="cuda"), flambeau.cuda.CUDAGraph()
    ...     with flambeau.cuda.graph(captured):
    ...         y = x + 1
    ...     captured.replay()
    ...     assert y.tolist() == [2.0, 2.0, 2.0]
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ):
        if stream is None:
            default = graph.default_capture_stream
            if default is None or default.device != find(None).place:
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        assert stream is not None
        self.capture_stream = stream
        self.cuda_graph, self.pool, self.capture_error_mode = cuda_graph, pool, capture_error_mode

    def __enter__(self) -> None:
        on = self.capture_stream._on
        on.synchronize()
        gc.collect()
        on.empty_cache()
        self.stream_ctx = StreamContext(self.capture_stream)
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(kind, error, trace)


def _captured(place: Any, work: Callable[[], Any]) -> tuple[CUDAGraph, int, Any]:
    """The work of a function on a device as a graph, how many launches, copies and fills are in it, and what the function returned."""
    made, before = CUDAGraph(), current_device("cuda")
    set_device("cuda", place.index)
    try:
        with graph(made):
            result = work()
    finally:
        set_device("cuda", before)
    return made, made._ready("nodes").nodes, result


set_callback("device.captured", _captured)


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Functions or modules whose forward and backward passes are replays of graphs.

    Of one callable, or of a tuple of them that are called in that order; `sample_args` is the tuple of its arguments, or a tuple of such
    tuples: tensors, or lists, tuples, dicts … of tensors.  Later arguments must be of the same structure, with tensors of the same
    shapes, dtypes and devices; results have the structure of what the callable returns.  A module is given back with its `forward`
    replaced, which is used while it is in the mode (training or not) that it was captured in.

    Raises:
        TypeError: an argument holds something else than tensors, or what a callable returns does
        RuntimeError: a module has hooks or buffers that require grad, autocast keeps its casts; and what a capture raises

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     x = flambeau.ones(3, device="cuda", requires_grad=True)
    ...     double = flambeau.cuda.make_graphed_callables(lambda x: 2 * x, (x,))
    ...     assert double(x).tolist() == [2.0, 2.0, 2.0]
    """
    from ..amp._state import is_autocast_cache_enabled, is_autocast_enabled

    if is_autocast_enabled("cuda") and is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`."
        )
    alone = not isinstance(callables, tuple)
    functions = (callables,) if alone else callables
    samples = (sample_args,) if alone else sample_args
    if len(functions) != len(samples):
        raise TypeError(
            f"make_graphed_callables(): {len(functions)} callables and sample_args for {len(samples)} of them"
        )
    handle = graph_pool_handle() if pool is None else pool
    made = [_Captured(f, tuple(args), allow_unused_input) for f, args in zip(functions, samples)]
    side = Stream()
    side._on.synchronize()
    with StreamContext(side):
        for each in made:
            for _ in range(num_warmup_iters):
                each.warm_up()
    side._on.synchronize()
    for each in made:
        each.capture_forward(handle)
    for each in reversed(made):
        each.capture_backward(handle)
    results = tuple(each.replacement() for each in made)
    return results[0] if alone else results


class _Captured:
    """A callable, the tensors that its graphs read and write, and the graphs."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], allow_unused: bool):
        from ..nn import Module
        from ..utils._pytree import tree_flatten, tree_leaves

        for k, a in enumerate(args):
            for leaf in tree_leaves(a):
                if not isinstance(leaf, TensorBase):
                    wanted = "be a Tensor, not" if leaf is a else "hold nothing but Tensors, not"
                    raise TypeError(
                        f"make_graphed_callables(): sample_args[{k}] must {wanted} {type(leaf).__name__}"
                    )
        self.function, self.sample_args, self.allow_unused = function, tuple(args), allow_unused
        self.args, self.structure = tree_flatten(self.sample_args)
        self.module = function if isinstance(function, Module) else None
        if self.module is not None:
            if self.module._forward_hooks or self.module._forward_pre_hooks or self.module._backward_hooks:
                raise RuntimeError(
                    "Modules must not have hooks registered at the time they are passed. However, registering hooks "
                    "on modules after passing them through make_graphed_callables is allowed."
                )
            if any(b.requires_grad for b in self.module.buffers()):
                raise RuntimeError(
                    "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only parameters may be "
                    "trainable. All buffers must have ``requires_grad=False``."
                )
            self.training = self.module.training
        parameters = () if self.module is None else tuple(self.module.parameters())
        self.inputs = (*self.args, *parameters)
        self.wanted = [k for k, x in enumerate(self.inputs) if x.requires_grad]

    def call(self) -> tuple[Any, ...]:
        """The tensors of what the callable returns, whose structure is kept."""
        from ..utils._pytree import tree_flatten

        outputs, self.returned = tree_flatten(self.function(*self.sample_args))
        for o in outputs:
            if not isinstance(o, TensorBase):
                raise TypeError(
                    "make_graphed_callables(): a callable must return a Tensor or a container of Tensors, not "
                    f"{type(o).__name__}"
                )
        return tuple(outputs)

    def gradients(self, outputs: Sequence[Any], seeds: Sequence[Any]) -> tuple[Any, ...]:
        from ..autograd import grad

        differentiable = [o for o in outputs if o.requires_grad]
        if not differentiable or not self.wanted:
            return (None,) * len(self.wanted)
        wanted = [self.inputs[k] for k in self.wanted]
        return grad(differentiable, wanted, list(seeds), allow_unused=self.allow_unused)

    def warm_up(self) -> None:
        outputs = self.call()
        self.gradients(outputs, [o.new_empty(o.shape) for o in outputs if o.requires_grad])

    def capture_forward(self, handle: Any) -> None:
        self.forward_graph = CUDAGraph()
        with graph(self.forward_graph, pool=handle):
            self.outputs = self.call()

    def capture_backward(self, handle: Any) -> None:
        self.seeds = [o.new_empty(o.shape) if o.requires_grad else None for o in self.outputs]
        self.backward_graph = CUDAGraph()
        if not self.wanted or not any(o.requires_grad for o in self.outputs):
            self.grads: tuple[Any, ...] = (None,) * len(self.wanted)
            return
        with graph(self.backward_graph, pool=handle):
            self.grads = self.gradients(self.outputs, [s for s in self.seeds if s is not None])

    def replacement(self) -> Callable[..., Any]:
        from ..autograd import Function
        from ..utils._pytree import tree_flatten, tree_unflatten

        own = self

        class Graphed(Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                for static, new in zip(own.args, inputs):
                    if static.data_ptr() != new.data_ptr():
                        static.detach().copy_(new)
                own.forward_graph.replay()
                return tuple(o.detach() for o in own.outputs)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                for static, new in zip(own.seeds, grads):
                    if static is not None and static.data_ptr() != new.data_ptr():
                        static.copy_(new)
                if own.backward_graph._captured:
                    own.backward_graph.replay()
                result: list[Any] = [None] * len(own.inputs)
                for k, g in zip(own.wanted, own.grads):
                    result[k] = None if g is None else g.detach()
                return tuple(result)

        def graphed(*args: Any) -> Any:
            leaves, structure = tree_flatten(args)
            if structure != own.structure:
                raise RuntimeError(
                    f"a graphed callable's arguments must have the structure {own.structure}, got {structure}"
                )
            for k, (static, new) in enumerate(zip(own.args, leaves, strict=True)):
                if static.shape != new.shape or static.dtype != new.dtype or static.device != new.device:
                    raise RuntimeError(
                        f"a graphed callable's argument {k} must be {static.dtype} of shape {tuple(static.shape)} on "
                        f"{static.device}, got {new.dtype} of shape {tuple(new.shape)} on {new.device}"
                    )
            outputs = Graphed.apply(*leaves, *own.inputs[len(own.args) :])
            return tree_unflatten(list(outputs), own.returned)

        if self.module is None:
            return functools.wraps(self.function)(graphed)
        module, eager = self.module, self.module.forward

        def forward(*args: Any) -> Any:
            return graphed(*args) if module.training == own.training else eager(*args)

        module.forward = forward  # type: ignore[method-assign]
        return module
