"""`compile`, and what programs say to it and want to know of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .core.base.callbacks import set_callback
from .core.base.spelling import hint
from .graph import backends, config
from .graph.native import export_library
from .graph.options import list_mode_options, options_of
from .nn.modules.module import Module

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "export_library",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "load_cache_artifacts",
    "reset",
    "save_cache_artifacts",
    "set_default_backend",
    "set_stance",
    "wrap_numpy",
]

F = TypeVar("F", bound=Callable)


def is_compiling() -> bool:
    """Whether a call is being captured or exported in this thread.

    >>> is_compiling()
    False
    """
    return backends.is_capturing()


def is_dynamo_compiling() -> bool:
    """Whether a call is being captured in this thread.

    >>> is_dynamo_compiling()
    False
    """
    return backends.is_capturing()


def is_exporting() -> bool:
    """Whether a graph is being exported: False.

    >>> is_exporting()
    False
    """
    return False


# --- backends ------------------------------
_OWN = ("inductor", "cudagraphs")  # the library's compiler under PyTorch's names
_AS_PYTHON = (
    "eager",
    "eager_noexcept",
    "aot_eager",
)  # backends whose meaning is to run what was captured as it stands
_registered: dict[str, Callable[..., Any]] = {}
_default: Any = "inductor"


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of backends, without those for debugging unless `exclude_tags` is empty.

    Raises nothing.

    >>> list_backends()
    ['cudagraphs', 'inductor']
    """
    names = {*_OWN, *_registered, *(() if exclude_tags and "debug" in exclude_tags else _AS_PYTHON)}
    return sorted(names)


def register_backend(
    compiler_fn: Callable[..., Any] | None = None, name: str | None = None, tags: Any = ()
) -> Any:
    """Give a backend a name; without a function, a decorator. ValueError for a name that is taken.

    >>> from flambeau.compiler import list_backends, register_backend
    >>> @register_backend
    ... def as_it_is(graph, inputs):
    ...     return graph
    >>> 'as_it_is' in list_backends()
    True
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    name = name or compiler_fn.__name__
    if name in (*_OWN, *_AS_PYTHON, *_registered):
        raise ValueError(f"register_backend(): {name!r} is taken")
    _registered[name] = compiler_fn
    return compiler_fn


def lookup_backend(compiler_fn: Any) -> Callable[..., Any]:
    """The function of a backend that was registered; a function as it is. ValueError for an unknown name.

    >>> from flambeau.compiler import lookup_backend
    >>> lookup_backend(len) is len
    True
    """
    if callable(compiler_fn):
        return compiler_fn
    if compiler_fn not in _registered:
        from .graph.errors import InvalidBackend

        raise InvalidBackend(f"lookup_backend(): no function is registered as {compiler_fn!r}")
    return _registered[compiler_fn]


def set_default_backend(backend: Any) -> None:
    """What `compile` takes where it is given no backend: a name or a function. ValueError for an unknown name.

    >>> from flambeau.compiler import get_default_backend, set_default_backend
    >>> set_default_backend("eager")
    >>> get_default_backend()
    'eager'
    >>> set_default_backend("inductor")
    """
    global _default
    _check_backend("set_default_backend", backend)
    _default = backend


def get_default_backend() -> Any:
    """What `compile` takes where it is given no backend.

    >>> get_default_backend()
    'inductor'
    """
    return _default


def _check_backend(who: str, backend: Any) -> None:
    known = (*_OWN, *_AS_PYTHON, *_registered)
    if not callable(backend) and backend not in known:
        from .graph.errors import InvalidBackend

        raise InvalidBackend(
            f"{who}(): Invalid backend: {backend!r}, wanted one of {', '.join(known)}{hint(str(backend), known)}"
        )


# --- what is left as it is ------------------------------
def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keep a function, class or module from being compiled. Without `fn`, a decorator.

    Whoever compiles a function that calls it runs as Python says. With `recursive`, what it calls is not compiled either. A class is
    returned as it is, its `__call__` changed where it has one; a module in an `OptimizedModule`.

    TypeError where `fn` cannot be called.

    >>> @disable
    ... def double(x):
    ...     return 2 * x
    >>> double(2)
    4
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    _callable("disable", fn)
    if isinstance(fn, type):
        if "__call__" in vars(fn):
            fn.__call__ = disable(fn.__call__, recursive, reason=reason)  # type: ignore[method-assign, operator]
        return fn
    if isinstance(fn, OptimizedModule):
        fn = fn._orig_mod
    if isinstance(fn, backends.Compiled):
        fn = fn.function
    if isinstance(fn, Module):
        return OptimizedModule(fn, lambda module: disable(module.__call__, recursive, reason=reason))

    @functools.wraps(fn, updated=("__dict__",) if hasattr(fn, "__dict__") else ())
    def uncompiled(*args: Any, **kwargs: Any) -> Any:
        if not recursive:
            return fn(*args, **kwargs)
        backends.switch_off(1)
        try:
            return fn(*args, **kwargs)
        finally:
            backends.switch_off(-1)

    uncompiled._torchdynamo_disable = True  # type: ignore[attr-defined]
    uncompiled._torchdynamo_disable_msg = reason  # type: ignore[attr-defined]
    uncompiled._torchdynamo_orig_callable = fn  # type: ignore[attr-defined]
    return uncompiled


class set_stance:
    """How compiled functions run in this thread from now on, or in a `with` block, or in a function that this decorates.

    "default"; "force_eager": as Python; "eager_on_recompile": as Python where they would be captured anew;
    "fail_on_recompile": a RecompileError there; "eager_then_compile": as Python at a function's first call. `skip_guard_eval_unsafe` is
    refused: guards are always looked at; so is `force_backend`.

    RuntimeError for another word.

    >>> import flambeau as torch
    >>> with torch.compiler.set_stance("force_eager"):
    ...     torch.compile(lambda x: x + 1)(torch.ones(1))
    tensor([2.])
    """

    _words = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile")

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> None:
        if force_backend is not None or skip_guard_eval_unsafe:
            what = "skip_guard_eval_unsafe" if skip_guard_eval_unsafe else "force_backend"
            raise NotImplementedError(f"set_stance(): {what} is not here")
        if stance not in self._words:
            raise RuntimeError(
                f"set_stance(): invalid stance {stance!r}, wanted one of {', '.join(self._words)}"
            )
        self.stance, self.before = stance, getattr(backends.stance, "name", "default")
        self._enter()

    def _enter(self) -> None:
        self._switch(getattr(backends.stance, "name", "default"), self.stance)

    @staticmethod
    def _switch(before: str, now: str) -> None:
        backends.switch_off((now == "force_eager") - (before == "force_eager"))
        backends.stance.name = now

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *exception: Any) -> None:
        self._switch(self.stance, self.before)

    def __call__(self, fn: F) -> F:
        self._switch(self.stance, self.before)

        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return run  # type: ignore[return-value]


def allow_in_graph(fn: Any) -> Any:
    """Let a function, or each of a list, stand in graphs unseen: returned as it is, for what it calls is captured.

    Raises:
        TypeError: the argument cannot be called

    >>> allow_in_graph(len) is len
    True
    """
    if isinstance(fn, (list, tuple)):
        return [_callable("allow_in_graph", f) for f in fn]
    return _callable("allow_in_graph", fn)


def assume_constant_result(fn: F) -> F:
    """Let a compiler take a function's result for constant: returned as it is, and captured as every function.

    Raises:
        TypeError: the argument cannot be called

    >>> assume_constant_result(len) is len
    True
    """
    return _callable("assume_constant_result", fn)


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's arrays as one of tensors: arguments become arrays, results that are arrays become tensors.

    TypeError where `fn` cannot be called.

    >>> import flambeau as torch
    >>> torch.compiler.wrap_numpy(lambda a: a * 2)(torch.ones(2))
    tensor([2., 2.])
    """
    from .core.base.tensor import TensorBase
    from .core.make.bridge import from_numpy
    from .graph.trace import mapped

    _callable("wrap_numpy", fn)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        import numpy as np

        args, kwargs = mapped((args, kwargs), TensorBase, lambda t: t.numpy())
        return mapped(fn(*args, **kwargs), np.ndarray, from_numpy)

    return wrapped


def _callable(name: str, fn: Any) -> Any:
    if not callable(fn):
        raise TypeError(f"{name}(): expected something that can be called, got {type(fn).__name__}")
    return fn


def reset() -> None:
    """Forget what was captured, of all functions. Kernels stay: they are right for any program.

    >>> reset()
    """
    backends.reset()


class CacheInfo:
    """What was saved or loaded: the names of the artifacts by their kind, of which there is one, "kernel".

    >>> from flambeau.compiler import CacheInfo
    >>> CacheInfo().empty()
    True
    """

    def __init__(self, artifacts: dict[str, list[str]] | None = None) -> None:
        self.artifacts = {} if artifacts is None else artifacts

    def __repr__(self) -> str:
        return f"CacheInfo(artifacts={self.artifacts!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CacheInfo) and self.artifacts == other.artifacts

    __hash__ = None  # type: ignore[assignment]

    def empty(self) -> bool:
        """Whether there are none."""
        return not self.artifacts


def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """The kernels that this process has used, as bytes for `load_cache_artifacts`, and their names; None where there are none.

    Captures and plans are not among them: a call is captured by running it, and planned in milliseconds.  Kernels are taken from the cache
    on the disk; where that cannot be written there are none.

    >>> import flambeau as torch
    >>> _ = torch.compile(lambda x: x * 2 + 1)(torch.ones(2))
    >>> artifacts, info = torch.compiler.save_cache_artifacts()
    >>> torch.compiler.load_cache_artifacts(artifacts) == info
    True
    """
    from .codegen.artifacts import packed

    data, names = packed()
    return (data, CacheInfo({"kernel": names})) if names else None


def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo | None:
    """Store kernels that another process has saved in the cache on the disk: calls that need them compile nothing. What they are.

    None, and a warning in the log, for bytes that are damaged or of another version. Kernels of another processor or version of the
    library are stored and never used. They are machine code: load only what you, or whom you trust, have saved.

    Raises:
        TypeError: the argument is not bytes

    >>> load_cache_artifacts(b"something else") is None
    True
    """
    import logging

    from .codegen.artifacts import unpack

    if not isinstance(serialized_artifacts, bytes):
        raise TypeError(f"load_cache_artifacts(): expected bytes, got {type(serialized_artifacts).__name__}")
    try:
        return CacheInfo({"kernel": unpack(serialized_artifacts)})
    except ValueError as error:
        logging.getLogger("flambeau.graph").warning("load_cache_artifacts(): nothing is loaded: %s", error)
        return None


def cudagraph_mark_step_begin() -> None:
    """Tell that a new step begins: nothing here needs to know it, for every call has memory of its own.

    >>> cudagraph_mark_step_begin()
    """


@contextmanager
def error_on_graph_break(error: bool = True) -> Iterator[None]:
    """A block in which a call that is not captured whole raises, as with `fullgraph=True`.

    >>> from flambeau.compiler import error_on_graph_break
    >>> with error_on_graph_break():
    ...     pass
    """
    before = getattr(backends.stance, "whole", False)
    backends.stance.whole = error
    try:
        yield
    finally:
        backends.stance.whole = before


# --- compile ------------------------------


class OptimizedModule(Module):
    """What `compile` returns for a module: another module around it, `_orig_mod`, with its attributes and its call.

    Shape:
        as of the module

    Raises:
        AttributeError: the argument is no module

    >>> import flambeau as torch
    >>> inner = torch.nn.Linear(2, 2)
    >>> outer = torch.compile(inner, backend="eager")
    >>> outer._orig_mod is inner, outer.weight is inner.weight, list(outer.state_dict())
    (True, True, ['_orig_mod.weight', '_orig_mod.bias'])
    """

    def __init__(self, mod: Module, dynamo_ctx: Callable[[Module], Callable[..., Any]]) -> None:
        super().__init__()
        self._orig_mod = mod
        self.__dict__["dynamo_ctx"] = dynamo_ctx
        self.training = mod.training  # of the others each has its own

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        run = self.__dict__.get("_run")
        if run is None:
            run = self.__dict__["_run"] = self.dynamo_ctx(self._orig_mod)
        return run(*args, **kwargs)

    def __getstate__(self) -> Any:
        state = dict(self.__dict__)
        state.pop("_run", None)  # of the module that is copied or pickled, made when it is called
        return state

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A function that is captured when it is called, and runs as a plan of fused kernels where a call is like one that was captured; a
    module in an `OptimizedModule` that is called so.

    A call is captured by running it once, in Python, while the operations that it calls are recorded. What it read (arguments, globals,
    attributes of modules) is guarded: a call for which all of that is the same, with other numbers in its tensors, runs the plan.
    Others are captured anew, up to `compiler.config.recompile_limit` times. What cannot be captured whole (control flow by values, side
    effects) runs as Python says, and the modules that it calls are compiled one by one; with `fullgraph`, `_dynamo.exc.Unsupported`
    names its line. `FLAMBEAU_LOG=graph` tells why.

    A `backend` that is a function is given the graph, an `fx.GraphModule` whose call returns a tuple, and the tensors that the call was
    captured with, and returns what is called with such tensors and returns such a tuple. "eager", "eager_noexcept" and "aot_eager"
    run as Python. `mode="reduce-overhead"` and "max-autotune" set "triton.cudagraphs"; else a mode changes nothing for the library's own
    compiler.

    `options` of the library's own compiler:

    - "eager_numerics" (False): results have the bits of the calls one by one. Sums are then taken in the order in which an eager call
      takes them, and products end in nothing else.
    - "use_fast_math" (False): formulas that hold for numbers but change bits, such as x / c = x · (1 / c) and exp(log x) = x.
    - "epilogue_fusion" (True): products end in the elementwise operations that alone read them.
    - "joint_graph_constant_folding" (True): what follows from literals alone is computed once.
    - "triton.cudagraphs" (False): on a CUDA device a run that needs no gradients is captured, and replayed as one launch. Calls that
      the host waits for, and tensors on the CPU, leave it step by step; `FLAMBEAU_LOG=graph` tells why.

    Others that PyTorch documents are known, and change nothing (`graph/options.py` says why). A function that is a backend is given
    `options` as they are.

    Numbers that the call reads are guarded too, until one is another: then the call is captured anew, and the number is read at each
    call from its place where operations on tensors take it. With `dynamic` numbers among the arguments are so at once, without
    (`dynamic=False`) never.

    Without `model`, a decorator. With `disable`, or TORCH_COMPILE_DISABLE=1 in the environment, what was given. RuntimeError for an unknown
    `mode` or option, for both `mode` and `options`, and for what is neither a function nor a module; InvalidBackend, a ValueError, for an
    unknown name of a backend; BackendCompilerFailed at the first call where a backend raises.

    >>> import flambeau as torch
    >>> @torch.compile
    ... def double(x):
    ...     return 2 * x
    >>> double(torch.ones(2))
    tensor([2., 2.])
    >>> normalised = lambda x: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True) + 1e-5)
    >>> x = torch.linspace(0, 1, 3000).reshape(3, 1000)
    >>> torch.equal(torch.compile(normalised, options={"eager_numerics": True})(x), normalised(x))
    True
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    chosen = options if mode is None else list_mode_options(mode)
    backend = _default if backend is None else backend
    _check_backend("compile", backend)
    own = options_of(chosen if backend in _OWN else None)
    again = functools.partial(
        compile,
        fullgraph=fullgraph,
        dynamic=dynamic,
        backend=backend,
        mode=mode,
        options=options,
        disable=disable,
    )
    if model is None:
        return again
    if not callable(model):
        raise RuntimeError(f"compile(): expected a function or a Module, got {type(model).__name__}")
    if disable or config.disable:
        return model
    run = _registered.get(backend) if isinstance(backend, str) else backend
    made = backends.Backend(
        run, fullgraph, {} if options is None or run is None else {"options": options}, again, dynamic, own
    )
    if isinstance(model, OptimizedModule):
        model = model._orig_mod
    if isinstance(model, Module):
        return OptimizedModule(model, _OfModule(again, made, backend))
    if isinstance(model, backends.Compiled):
        model = model.function
    return _wrapped(model, made, backend)


class _OfModule:
    """Compiles the call of a module; pickled as what `compile` was given."""

    def __init__(self, again: Callable[..., Any], made: backends.Backend, backend: Any) -> None:
        self.again, self.made, self.backend = again, made, backend

    def __call__(self, module: Module) -> backends.Compiled:
        return _wrapped(module, self.made, self.backend)

    def __reduce__(self) -> Any:
        return _of_module, (self.again,)


def _of_module(again: Callable[..., Any]) -> Any:
    return again(Module()).dynamo_ctx


def _wrapped(function: Callable[..., Any], made: backends.Backend, backend: Any) -> backends.Compiled:
    """The compiled function with the name and the text of the other."""
    compiled = made.compiled(function)
    compiled.as_python = backend in _AS_PYTHON if isinstance(backend, str) else False
    if not isinstance(function, Module):
        functools.update_wrapper(
            compiled, function, updated=("__dict__",) if hasattr(function, "__dict__") else ()
        )
    compiled._torchdynamo_orig_callable = function  # type: ignore[attr-defined]
    return compiled


def _compiled_module(module: Module, *args: Any, **kwargs: Any) -> None:
    """What `Module.compile` does."""
    made = compile(module._call_impl, *args, **kwargs)
    if isinstance(made, backends.Compiled):
        module.__dict__["_compiled_call_impl"] = made
        module.__dict__["_hooked"] = True  # calls have to look


set_callback("compiled module", _compiled_module)
