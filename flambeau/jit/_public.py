"""`jit.trace`, `jit.save`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, BinaryIO

from ..core.base.tensor import TensorBase
from ..nn.modules.module import Module
from ._modules import RecursiveScriptModule, ScriptFunction
from ._program import Call, TracingCheckError, as_before, cloned, difference, function_of, traced
from ._trace import TracerWarning


def _as_args(inputs: Any) -> tuple[Any, ...]:
    """Example inputs as a tuple: one tensor, or one dictionary, stands for itself."""
    if isinstance(inputs, (TensorBase, dict)):
        return (inputs,)
    return tuple(inputs)


def trace(
    func: Callable[..., Any],
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """What `func`, a function or a module, does with example inputs, as a program that runs without it: a ScriptFunction or a ScriptModule.

    The call is run once, and the operations that it calls are written down with what they are given.  Tensors, lists, tuples and
    dictionaries of tensors are inputs and results; parameters and buffers of a module stay its own, other tensors are copied.  Sizes
    that the program reads are read again at each run.  What is Python's own is as it was for the example: branches, loops, numbers.  A
    number that the program took out of a tensor is a constant, and a TracerWarning names the line; where Python decides by a size, runs
    check that it is the same, and raise `jit.Error` where it is not.

    Args:
        func: a function of tensors, a module, or a method of one.
        example_inputs: a tuple of tensors, or one tensor.
        check_trace: run the program and the traced one again and compare; differences are a TracerWarning.
        check_inputs: tuples of other inputs, for which differences are a TracingCheckError.
        check_tolerance: relative and absolute, of the comparison.
        strict: results are tensors or tuples of them; False takes lists and dictionaries, too.
        example_kwarg_inputs: inputs by name.

    Raises:
        RuntimeError: an input or a result is no structure of tensors, a tensor that requires a gradient is none of the module's, an
            argument of a call cannot be kept, or this thread traces already.
        NotImplementedError: autocast is on.
        TracingCheckError: of `check_inputs`.

    >>> import flambeau as torch
    >>> @torch.no_grad()
    ... def rows(x):
    ...     return x.reshape(x.shape[0], -1).sum(1)
    >>> traced = torch.jit.trace(rows, torch.ones(2, 3))
    >>> traced(torch.ones(4, 2, 2))
    tensor([4., 4., 4., 4.])
    >>> torch.jit.trace(rows, 3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    TypeError: trace(): argument 'example_inputs' must be a tensor or a tuple of tensors, got int
    """
    if isinstance(func, (RecursiveScriptModule, ScriptFunction)):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is.",
            stacklevel=2,
        )
        return func
    if not callable(func):
        raise TypeError(f"trace(): argument 'func' must be a function or a Module, got {type(func).__name__}")
    named = dict(example_kwarg_inputs or {})
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("example_kwarg_inputs should be a dict")
    if not isinstance(example_inputs, (TensorBase, dict, tuple, list, type(None))):
        raise TypeError(
            f"trace(): argument 'example_inputs' must be a tensor or a tuple of tensors, got {type(example_inputs).__name__}"
        )
    inputs = () if example_inputs is None else _as_args(example_inputs)
    owner = getattr(func, "__self__", None)
    root = func if isinstance(func, Module) else owner if isinstance(owner, Module) else Module()
    call = Call("forward", func, inputs, named)
    made = _traced(root, [call], strict, "jit.trace()")
    others = [] if check_inputs is None else [_as_args(i) for i in check_inputs]
    if check_trace:
        _check(made, call, root, others, check_tolerance)
    return made if isinstance(func, Module) else _function(made, func, root)


def _function(made: RecursiveScriptModule, func: Any, root: Module) -> Any:
    return function_of(made, func)


def trace_module(
    mod: Module,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> RecursiveScriptModule:
    """A module with several of its methods traced; `inputs` has the example inputs of each by its name.  Else as `trace`.

    Raises:
        AttributeError: the first argument is no module, or the inputs are no dictionary
        RuntimeError: as `trace`

    >>> import flambeau as torch
    >>> class Both(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x + 1
    ...     def twice(self, x):
    ...         return 2 * x
    >>> made = torch.jit.trace_module(Both(), {"forward": torch.ones(1), "twice": torch.ones(1)})
    >>> made(torch.ones(2)), made.twice(torch.ones(2))
    (tensor([2., 2.]), tensor([2., 2.]))
    """
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    calls = []
    for name, example in inputs.items():
        function = mod if name == "forward" else getattr(mod, name)
        named = dict(example) if example_inputs_is_kwarg else {}
        calls.append(Call(name, function, () if example_inputs_is_kwarg else _as_args(example), named))
    made = _traced(mod, calls, strict, "jit.trace_module()")
    if check_trace:
        for call in calls:
            others = [_as_args(i[call.name]) for i in check_inputs or () if call.name in i]
            _check(made, call, mod, others, check_tolerance)
    return made


def _traced(root: Module, calls: list[Call], strict: bool, who: str) -> RecursiveScriptModule:
    from ..amp import is_autocast_available
    from ..amp.autocast_mode import is_autocast_enabled

    if any(is_autocast_enabled(d) for d in ("cpu", "cuda") if is_autocast_available(d)):
        raise NotImplementedError(
            f"{who}: autocast is on, and its casts would not be kept: trace outside of it"
        )
    return traced(root, calls, strict, who)


def _check(
    made: RecursiveScriptModule, call: Call, root: Module, others: list[tuple[Any, ...]], tolerance: float
) -> None:
    """Compare the traced program with the one that was traced, on the example and on other inputs."""
    method = made if call.name == "forward" else getattr(made, call.name)
    for k, inputs in enumerate([call.inputs, *others]):
        named = call.named if k == 0 else {}
        with as_before(root), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = call.function(*cloned(inputs), **cloned(named))
        try:
            with as_before(root):
                result = method(*cloned(inputs), **cloned(named))
            wrong = difference(result, wanted, tolerance)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError) as error:
            wrong = (
                f"Encountered an exception while running the trace with test inputs.\nException:\n\t{error}"
            )
        if wrong is None:
            continue
        if k == 0:
            warnings.warn(
                f"Trace had nondeterministic nodes, or depends on the data: {wrong}",
                TracerWarning,
                stacklevel=3,
            )
        else:
            raise TracingCheckError(
                f"Tracing failed sanity checks!\nFor check_inputs[{k - 1}]: {wrong}\nThe program decides by values or sizes in Python, "
                "which a trace does not keep"
            )


def save(m: Any, f: str | os.PathLike[str] | BinaryIO, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a traced or loaded program to the path or binary file `f`, for `load`, here or in PyTorch.

    Code, parameters, buffers, attributes and constants are written.  Operations that ATen does not have stand in the code under
    `ops.flambeau`, which PyTorch's `load` refuses by name.  `_extra_files` has texts or bytes by name, which `load` gives back.

    Raises:
        AttributeError: the argument is no program of TorchScript, such as a plain module
        RuntimeError: an attribute cannot be saved

    >>> import flambeau as torch
    >>> torch.jit.save(torch.nn.ReLU(), "model.pt")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AttributeError: jit.save(): expected a program of jit.script, jit.trace or jit.load, got ReLU...
    """
    module = m._module if isinstance(m, ScriptFunction) else m
    if not isinstance(module, RecursiveScriptModule):
        raise AttributeError(
            f"jit.save(): expected a program of jit.script, jit.trace or jit.load, got {type(m).__name__}: trace it first"
        )
    module.save(f, _extra_files)
