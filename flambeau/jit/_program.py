"""From a traced call to a module: the classes that its code declares, and the check that it computes what the program does."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .._symbols.numbers import SymNumber
from .._tensor import Tensor
from ..core.base.tensor import TensorBase
from ..nn.modules.module import Module
from ._interpreter import Program
from ._modules import RecursiveScriptModule, ScriptFunction
from ._objects import ScriptClass
from ._text import is_identifier, quoted
from ._trace import Tracer, TracerWarning

_NOT_TRACEABLE = "Only Tensors and (possibly nested) Lists, Dicts, and Tuples of Tensors can be traced"


# --- structures of tensors ------------------------------
def type_of(x: Any, what: str) -> str:
    """The type of a structure of tensors, as code writes it; RuntimeError for what is none."""
    if isinstance(x, (TensorBase, SymNumber)):
        return "Tensor"
    if isinstance(x, tuple):
        return f"Tuple[{', '.join(type_of(v, what) for v in x) if x else '()'}]"
    if isinstance(x, list):
        kinds = {type_of(v, what) for v in x} or {"Tensor"}
        if len(kinds) > 1:
            raise RuntimeError(
                f"jit.trace(): {what} is a list of several types ({', '.join(sorted(kinds))}): use a tuple"
            )
        return f"List[{kinds.pop()}]"
    if isinstance(x, dict):
        kinds = {type_of(v, what) for v in x.values()} or {"Tensor"}
        if len(kinds) > 1 or any(not isinstance(k, str) for k in x):
            raise RuntimeError(
                f"jit.trace(): {what} is a dictionary of several types, or its keys are no texts"
            )
        return f"Dict[str, {kinds.pop()}]"
    raise RuntimeError(f"Type '{type(x).__name__}' cannot be traced. {_NOT_TRACEABLE}: {what} is one")


def _take(tracer: Tracer, x: Any, text: str) -> None:
    """Let the tensors of an input be what the code calls them."""
    if isinstance(x, TensorBase):
        tracer.enter(x, text)
        return
    keys: Sequence[Any] = list(x) if isinstance(x, dict) else range(len(x))
    if isinstance(x, tuple) and x:
        names = [tracer.fresh() for _ in x]
        tracer.uses.add(text)
        tracer.add(f"{''.join(n + ', ' for n in names)}= {text}", tuple(names), pure=True)
        for name, value in zip(names, x):
            _take(tracer, value, name)
        return
    for key in keys:
        name = tracer.fresh()
        tracer.uses.add(text)
        tracer.add(f"{name} = {text}[{quoted(key) if isinstance(key, str) else key}]", (name,), pure=True)
        _take(tracer, x[key], name)


def _give(tracer: Tracer, x: Any) -> str:
    """A result as code."""
    if isinstance(x, SymNumber):
        tracer.uses.add(x.name)
        return f"ops.prim.NumToTensor({x.name})"
    if isinstance(x, TensorBase):
        return tracer.reference(x)
    if isinstance(x, tuple):
        return "(" + "".join(_give(tracer, v) + ", " for v in x) + ")"
    if isinstance(x, list):
        return "[" + ", ".join(_give(tracer, v) for v in x) + "]" if x else "annotate(List[Tensor], [])"
    return "{" + ", ".join(f"{quoted(k)}: {_give(tracer, v)}" for k, v in x.items()) + "}"


def cloned(x: Any) -> Any:
    """A structure with copies of its tensors."""
    if isinstance(x, TensorBase):
        made = x.detach().clone()
        return made.requires_grad_(True) if x.requires_grad else made
    if isinstance(x, tuple):
        items = [cloned(v) for v in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    if isinstance(x, list):
        return [cloned(v) for v in x]
    return {k: cloned(v) for k, v in x.items()} if isinstance(x, dict) else x


def leaves(x: Any) -> list[Any]:
    """The tensors of a structure, in order."""
    if isinstance(x, (TensorBase, SymNumber)):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for v in x for t in leaves(v)] if isinstance(x, (list, tuple)) else []


# --- classes ------------------------------
class Declarations:
    """The classes of a tree of modules: their text, and the state of each module's object."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.classes: dict[int, str] = {}  # by module
        self.taken: set[str] = set()
        self.attributes: dict[int, tuple[Any, tuple[str, ...]]] = {}

    def enter(self, module: Module, path: tuple[str, ...] = ()) -> str:
        """The class of a module and those of its submodules; its name."""
        if id(module) in self.classes:
            return self.classes[id(module)]
        for name, value in (*module._parameters.items(), *module._buffers.items()):
            if value is not None:
                self.attributes.setdefault(id(value), (value, (*path, name)))
        name = self.classes[id(module)] = self._class_name(module)
        children = {n: m for n, m in module._modules.items() if m is not None}
        named = {n: self.enter(m, (*path, n)) for n, m in children.items()}
        self.texts.append(_class_text(name, module, named))
        return name

    def _class_name(self, module: Module) -> str:
        wish = getattr(module, "original_name", None) or type(module).__name__
        wish = wish if is_identifier(wish) else "Traced"
        name, k = wish, 0
        while name in self.taken:
            name, k = f"{wish}_{k}", k + 1
        self.taken.add(name)
        return name


def _listed(names: Sequence[str]) -> str:
    return "[" + "".join(f"{quoted(n)}, " for n in names) + "]"


def _class_text(name: str, module: Module, children: Mapping[str, str]) -> str:
    parameters = [n for n, p in module._parameters.items() if p is not None]
    buffers = [n for n, b in module._buffers.items() if b is not None]
    lines = [
        f"class {name}(Module):",
        f"  __parameters__ = {_listed(parameters)}",
        f"  __buffers__ = {_listed(buffers)}",
    ]
    kinds = dict.fromkeys((*parameters, *buffers), "Tensor") | {
        "training": "bool",
        "_is_full_backward_hook": "Optional[bool]",
    }
    kinds |= {n: f"__torch__.{c}" for n, c in children.items()}
    for attribute, kind in kinds.items():
        is_name = is_identifier(attribute)
        lines.append(
            f"  {attribute} : {kind}" if is_name else f"  __annotations__[{quoted(attribute)}] = {kind}"
        )
    return "\n".join(lines) + "\n"


def built(
    declared: Declarations, program: Program, module: Module, memo: dict[int, RecursiveScriptModule]
) -> RecursiveScriptModule:
    """The traced module of a module: it shares its parameters and buffers."""
    if id(module) in memo:
        return memo[id(module)]
    kind = program.find(["__torch__", declared.classes[id(module)]])
    assert isinstance(kind, ScriptClass)
    state: dict[str, Any] = {
        n: v for n, v in (*module._parameters.items(), *module._buffers.items()) if v is not None
    }
    state |= {"training": module.training, "_is_full_backward_hook": None}
    made = memo[id(module)] = RecursiveScriptModule._of(kind, state)
    for name, child in module._modules.items():
        if child is not None:
            made._modules[name] = built(declared, program, child, memo)
    return made


# --- a traced call ------------------------------
class Call:
    """A call that is traced: a function of example inputs, as the method of a name."""

    def __init__(
        self, name: str, function: Callable[..., Any], inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        self.name, self.function = name, function
        self.inputs, self.named = inputs, named
        self.parameters = _parameter_names(function, len(inputs), named)

    def text(self, tracer: Tracer, owner: str, strict: bool) -> str:
        """The method's code."""
        values = [*self.inputs, *self.named.values()]
        kinds = [type_of(v, f"input {p!r}") for p, v in zip(self.parameters, values)]
        inputs, named = cloned(self.inputs), cloned(self.named)
        for name, value in zip(self.parameters, [*inputs, *named.values()]):
            _take(tracer, value, name)
        with tracer:
            output = self.function(*inputs, **named)
        if strict and (container := _container(output)):
            message = (
                f"Encountering a {container} at the output of the tracer might cause the trace to be incorrect, this is only valid if "
                "the container structure does not change based on the module's inputs. Consider using a constant container instead "
                "(e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If you absolutely need this and know "
                "the side effects, pass strict=False to trace() to allow this behavior."
            )
            if container == "dict":
                raise RuntimeError(message)
            warnings.warn(message, TracerWarning, stacklevel=2)
        result = type_of(output, "the output")
        tracer.uses = set()
        returned = _give(tracer, output)
        lines = [*tracer.body(set(tracer.uses)), f"return {returned}"]
        head = ",\n    ".join(
            [f"self: __torch__.{owner}", *(f"{p}: {k}" for p, k in zip(self.parameters, kinds))]
        )
        body = "\n".join("    " + part for line in lines for part in line.split("\n"))
        return f"  def {self.name}({head}) -> {result}:\n{body}\n"


def _container(x: Any) -> str | None:
    """The kind of a container of another length at another call: "dict" before "list"."""
    if isinstance(x, dict):
        return "dict"
    if not isinstance(x, (tuple, list)):
        return None
    names = {"list"} if isinstance(x, list) else set()
    names.update(filter(None, map(_container, x)))
    return min(names, default=None)


def _parameter_names(function: Any, count: int, named: dict[str, Any]) -> list[str]:
    """The names of the parameters that inputs are given for."""
    own = function.forward if isinstance(function, Module) else function
    try:
        result = [
            p.name
            for p in inspect.signature(own).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        result = []
    names = [
        n if is_identifier(n) and n != "self" else f"argument_{k + 1}" for k, n in enumerate(result[:count])
    ]
    names += [f"argument_{k + 1}" for k in range(len(names), count)]
    return names + list(named)


def traced(root: Module, calls: Sequence[Call], strict: bool, who: str) -> RecursiveScriptModule:
    """A module with the calls as its methods."""
    declared = Declarations()
    owner = declared.enter(root)
    constants: list[Any] = []
    methods = []
    for call in calls:
        tracer = Tracer(who, declared.attributes, call.parameters)
        tracer.constants = constants
        methods.append(call.text(tracer, owner, strict))
    text = "".join(declared.texts) + "".join(methods)  # the root's class is the last
    program = Program({"__torch__.py": text}, tuple(constants))
    module = built(declared, program, root, {})
    for method in module.script_class.methods.values():
        method.compile()
    return module


# --- checks ------------------------------
class TracingCheckError(Exception):
    """A traced program that computes something else than the program that was traced.

    Raises nothing.

    >>> import flambeau as torch
    >>> issubclass(torch.jit.TracingCheckError, Exception)
    True
    """


@contextlib.contextmanager
def as_before(module: Module | None) -> Iterator[None]:
    """Within it, a module's buffers and the random numbers go on from where they are, and are set back afterwards."""
    from ..random import get_rng_state, set_rng_state

    buffers = [(b, b.detach().clone()) for b in module.buffers()] if module is not None else []
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
        for buffer, before in buffers:
            buffer.detach().copy_(before)


def difference(result: Any, wanted: Any, tolerance: float) -> str | None:
    """How the results of two runs differ; None where they do not."""
    from ..testing import assert_close

    a, b = leaves(result), leaves(wanted)
    if len(a) != len(b):
        return f"{len(a)} tensors, and the Python function gives {len(b)}"
    for k, (x, y) in enumerate(zip(a, b)):
        if not isinstance(x, Tensor) or not isinstance(y, Tensor):
            continue
        try:
            assert_close(x.detach(), y.detach(), rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            return (
                f"output nr {k + 1}. of the traced function does not match the corresponding output of the Python function. "
                f"Detailed error:\n{error}"
            )
    return None


def function_of(module: RecursiveScriptModule, function: Any) -> ScriptFunction:
    """A traced function, whose code is a method of a module without attributes."""
    name = getattr(function, "__name__", type(function).__name__)
    return ScriptFunction._of(module, name if is_identifier(name) else "traced", function)
