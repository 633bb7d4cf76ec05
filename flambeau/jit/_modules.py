"""Modules and functions whose code is TorchScript's: what `trace` and `load` give."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._tensor import Tensor
from ..core.base import display
from ..core.base.callbacks import callbacks, callbacks_in
from ..nn.modules.module import Module
from ..nn.parameter import Parameter

if TYPE_CHECKING:
    from ._objects import Function, ScriptClass


callbacks_in(f"{__name__.rpartition('.')[0]}._script._scripting", "script methods")


class ScriptModule(Module):
    """A module whose code is TorchScript's; `jit.script`, `jit.trace` and `jit.load` make them.

    A class may derive from it, and mark methods with `@script_method`: its objects are compiled when they are made, and these
    methods run as TorchScript.

    Raises:
        RuntimeError: a method is not of TorchScript; the message has its line

    >>> import flambeau as torch
    >>> isinstance(torch.jit.trace(torch.nn.ReLU(), torch.ones(2)), torch.jit.ScriptModule)
    True
    """

    script_class: ScriptClass

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        made = cls.__dict__.get("__init__")
        if made is None or cls.__name__ == "RecursiveScriptModule":
            return

        @functools.wraps(made)
        def init(self: Any, *args: Any, **call_args: Any) -> None:
            made(self, *args, **call_args)
            if type(self) is cls:
                callbacks["script methods"](self)

        cls.__init__ = init  # type: ignore[method-assign]


class RecursiveScriptModule(ScriptModule):
    """A module out of an archive, of a trace or a script: parameters, buffers, submodules, attributes, and methods in TorchScript's code.

    It is a `Module` in all that modules do: `state_dict`, `to`, `train`, hooks, gradients.  `code` is the text of `forward`, whose
    inputs and results have whatever shapes and dtypes the program takes and gives.

    Raises:
        RuntimeError: it is made by its class

    >>> import flambeau as torch
    >>> traced = torch.jit.trace(torch.nn.Linear(2, 1), torch.ones(3, 2))
    >>> type(traced).__name__, list(traced.state_dict())
    ('RecursiveScriptModule', ['weight', 'bias'])
    >>> print(traced.code)
    def forward(self,
      input: Tensor) -> Tensor:
      weight = self.weight
      bias = self.bias
      _0 = torch.linear(input, weight, bias)
      return _0
    <BLANKLINE>
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        raise RuntimeError(
            f"{name}: modules of TorchScript are made by {display.NAME}.jit.script, {display.NAME}.jit.trace and {display.NAME}.jit.load"
        )

    @classmethod
    def _of(cls, kind: ScriptClass, state: dict[str, Any]) -> RecursiveScriptModule:
        """A module of a class with these attributes."""
        made = cls.__new__(cls)
        Module.__init__(made)
        made.__dict__["script_class"], made.__dict__["_attributes"] = kind, {}
        parameters = kind.lists.get("__parameters__", ())
        buffers = kind.lists.get("__buffers__")
        for name, value in state.items():
            if name == "training":
                made.__dict__["training"] = bool(value)
            elif isinstance(value, Module):
                made._modules[name] = value
            elif isinstance(value, Parameter) and name in parameters:
                made._parameters[name] = value
            elif isinstance(value, Tensor) and (buffers is None or name in buffers):
                made._buffers[name] = value
            else:
                made._attributes[name] = value
        return made

    def script_attribute(self, name: str) -> Any:
        """The attribute of that name, as the module's code sees it; RuntimeError where there is none."""
        own = self.__dict__
        result = own["_parameters"].get(name)  # what code asks for most
        if result is None:
            result = own["_modules"].get(name)
        if result is not None:
            return result
        for place in ("_parameters", "_buffers", "_modules", "_attributes"):
            if name in own[place]:
                return own[place][name]
        if name == "training":
            return own["training"]
        if name in self.script_class.constants:
            return self.script_class.constants[name]
        if name == "_is_full_backward_hook" or name in self.script_class.annotations:
            return None
        raise RuntimeError(f"{self.script_class.name} has no attribute {name!r}")

    def set_script_attribute(self, name: str, value: Any) -> None:
        """Set an attribute that the class declares; RuntimeError for any other."""
        own = self.__dict__
        for place in ("_parameters", "_buffers", "_modules", "_attributes"):
            if name in own[place]:
                own[place][name] = value
                return
        if name == "training":
            own["training"] = value
        elif name in self.script_class.annotations:
            own["_attributes"][name] = value
        else:
            raise RuntimeError(f"{self.script_class.name} has no attribute {name!r}")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the code of `forward` computes; RuntimeError where the module has none."""
        return self._method("forward")(self, *args, **kwargs)

    def _method(self, name: str) -> Function:
        result = self.script_class.methods.get(name)
        if result is None:
            raise RuntimeError(f"{self.script_class.name} has no method {name!r}")
        return result

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name in own.get("_attributes", ()):
            return own["_attributes"][name]
        kind = own.get("script_class")
        if kind is not None and not name.startswith("__"):
            if name in kind.methods:
                return _bound(self, kind.methods[name])
            if name in kind.constants:
                return kind.constants[name]
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_attributes", ()):
            self.__dict__["_attributes"][name] = value
        else:
            super().__setattr__(name, value)

    def __len__(self) -> int:
        return len(self._modules)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Any:
        return iter(self._modules.values())

    def __getitem__(self, key: Any) -> Any:
        return self._modules[key] if isinstance(key, str) else list(self._modules.values())[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._modules

    @property
    def original_name(self) -> str:
        """The name of the class that was traced or scripted."""
        return self.script_class.name.rpartition(".")[2]

    def _get_name(self) -> str:
        return "RecursiveScriptModule"

    def extra_repr(self) -> str:
        """The original name."""
        return f"original_name={self.original_name}"

    @property
    def code(self) -> str:
        """The text of `forward`."""
        return code_of(self._method("forward"))

    @property
    def graph(self) -> Any:
        """The calls of `forward` as nodes: `str` of it is as PyTorch prints graphs, `nodes()` goes over them."""
        from ._graph import Graph

        return Graph(self._method("forward"))

    @property
    def code_with_constants(self) -> tuple[str, Any]:
        """The text of `forward`, and what its CONSTANTS are, by name."""
        constants = {f"c{k}": v for k, v in enumerate(self.script_class.program.constants)}
        return self.code, constants

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write the module to a path or binary file: `jit.save`."""
        from ._writer import save_to

        save_to(self, f, _extra_files or {})

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """The bytes of the file that `save` writes."""
        from io import BytesIO

        file = BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()


def _bound(owner: Any, function: Function) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(owner, *args, **kwargs)

    call.__name__ = call.__qualname__ = function.name
    call.code = code_of(function)  # type: ignore[attr-defined]
    return call


class ScriptFunction:
    """A function whose code is TorchScript's; `jit.trace` makes them of functions.

    Raises:
        RuntimeError: it is made by its class

    >>> import flambeau as torch
    >>> double = torch.jit.trace(lambda x: x * 2, torch.ones(2))
    >>> type(double).__name__, double(torch.ones(3))
    ('ScriptFunction', tensor([2., 2., 2.]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"ScriptFunction: functions of TorchScript are made by {display.NAME}.jit.script and {display.NAME}.jit.trace"
        )

    @classmethod
    def _of(cls, module: RecursiveScriptModule, name: str, wrapped: Any) -> ScriptFunction:
        made = cls._named(name, wrapped)
        made._module, made._entry, made._call = module, None, module.forward
        return made

    @classmethod
    def _named(cls, name: str, wrapped: Any) -> ScriptFunction:
        """One that is not compiled yet."""
        made = cls.__new__(cls)
        made.name = made.__name__ = name
        made.qualified_name, made.__wrapped__ = f"__torch__.{name}", wrapped
        made.__doc__ = getattr(wrapped, "__doc__", None)
        return made

    _call: Callable[..., Any]  # what computes it
    _entry: Any  # of one that was scripted: what it was compiled to
    _module: RecursiveScriptModule
    name: str
    qualified_name: str
    __wrapped__: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        pending = self.__dict__.pop("_pending", None)
        if name in ("_call", "_entry", "_module") and pending is not None:
            pending(self, name == "_call")
            return getattr(self, name)
        if pending is not None:
            self.__dict__["_pending"] = pending
        raise AttributeError(f"'ScriptFunction' object has no attribute {name!r}")

    @property
    def graph(self) -> Any:
        """The calls of the function as nodes."""
        return self._module.graph

    @property
    def code(self) -> str:
        """The text of the function."""
        if self._entry is not None:
            return str(self._entry.text)
        return self._module.code.replace("def forward(self,\n  ", f"def {self.name}(").replace(
            "def forward(self)", f"def {self.name}()"
        )

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write the function to a path or binary file: `jit.save`."""
        self._module.save(f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """The bytes of the file that `save` writes."""
        return self._module.save_to_buffer(_extra_files)


def code_of(function: Function) -> str:
    """The text of a function as its file has it, types of the archive's own for `self` left out."""
    import ast
    import textwrap

    node = function.definition
    lines = function.source.text.splitlines()[node.lineno - 1 : node.end_lineno]
    text = textwrap.dedent("\n".join(lines)) + "\n"
    first = node.args.args[0] if node.args.args else None
    if first is not None and first.annotation is not None and first.arg in ("self", "s"):
        text = text.replace(f"({first.arg}: {ast.unparse(first.annotation)}", "(self", 1)
    return text
