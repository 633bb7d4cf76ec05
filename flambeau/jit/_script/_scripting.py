"""`jit.script`: from a function, a module or a class of Python to one whose code is TorchScript's."""

from __future__ import annotations

import ast
import copy
from types import MethodType
from typing import Any

from ...core.base.callbacks import set_callback
from ...nn.modules.module import Module
from .._interpreter import Program
from .._modules import RecursiveScriptModule, ScriptFunction
from .._objects import Namespace, ScriptClass
from ._boundary import Boundary, public
from ._classes import class_type
from ._modules import ModuleClass
from ._source import Code
from ._unit import Unit


def compile_function(made: ScriptFunction, f: Any, resolve: Any) -> None:
    """Compile a function, and let it run so; an error that points at the line where TorchScript does not have it."""
    unit = Unit()
    code = Code(f, resolve)
    entry = unit.functions[(f, 0)] = unit.signature(code, f)
    name = unit.unique(f.__name__)
    entry.name, entry.py = f"__torch__.{name}", f"_f_{name}"
    unit.compile(entry, code, None)
    holder = unit.unique("PlaceholderModule")
    program = Program(unit.sources(_holder(holder, entry)), ())
    unit.finish(program)
    boundary = Boundary(unit, program)
    kind = program.find(["__torch__", holder])
    assert isinstance(kind, ScriptClass)
    module = RecursiveScriptModule._of(kind, {"training": True, "_is_full_backward_hook": None})
    module.__dict__["_unit"] = unit
    native = unit.globals[entry.py]
    kind.methods["forward"].native = _methodical(native)
    attach(unit, program)
    made._module, made._entry = module, entry
    made._call = public(entry, native, boundary, is_method=False)


def _methodical(native: Any) -> Any:
    return lambda self, *args: native(*args)


def _holder(name: str, entry: Any) -> str:
    """A module whose `forward` is the function."""
    tree = ast.parse(entry.text).body[0]
    assert isinstance(tree, ast.FunctionDef)
    lines = entry.text.split("\n")
    begin = lines.index(next(line for line in lines if line.endswith(":") and ") -> " in line)) + 1
    head = "\n".join(lines[:begin]).replace(
        f"def {tree.name}(", f"def forward(self: __torch__.{name}" + (", " * bool(entry.parameters)), 1
    )
    body = [head, *lines[begin:]]
    text = "\n".join("  " + line if line else line for line in body)
    return (
        f"class {name}(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n  _is_full_backward_hook : Optional[bool]\n"
        f"{text}"
    )


def attach(unit: Unit, program: Namespace) -> None:
    """Let the methods of the program's classes be run by Python."""
    boundary = Boundary(unit, program)
    for owner in (*unit.by_name.values(),):
        kind = program.find(owner.name.split("."))
        if not isinstance(kind, ScriptClass):
            continue
        for entry in owner.entries.values():
            method = kind.methods.get(entry.method_name)
            if method is not None:
                method.native = public(entry, unit.globals[entry.py], boundary, is_method=True)
        for name, value in owner.constants.items():
            kind.constants.setdefault(name, value)
    for name in unit.named_tuples:
        kind = program.find(name.split("."))
        if isinstance(kind, ScriptClass) and kind.tuple_class is not None:
            kind.tuple_class.script_name = name  # type: ignore[attr-defined]


def script_module(
    module: Module, names: tuple[str, ...] = (), preserved: frozenset[str] | None = None
) -> RecursiveScriptModule:
    """A module as one of TorchScript; parameters and buffers are shared with it, other attributes are copied.

    `names` are the methods that are compiled, else `forward` and what is exported.  `preserved` are the attributes of the module that are
    not written into the code as constants; None where none is.
    """
    unit = Unit()
    unit.preserved = preserved
    root = unit.module_class(module)
    if preserved is not None:
        root.compile_all()
    else:
        for kind in list(unit.modules):
            kind.compile_all()
    for name in names:
        root.method(name, None, ast.Pass())
    program = Program(unit.sources(), tuple(unit.constants))
    unit.finish(program)
    attach(unit, program)
    boundary = Boundary(unit, program)
    return built(unit, program, boundary, module, root, {})


def built(
    unit: Unit,
    program: Program,
    boundary: Boundary,
    module: Module,
    kind: ModuleClass,
    memo: dict[int, RecursiveScriptModule],
) -> RecursiveScriptModule:
    """The scripted module of a module."""
    if id(module) in memo:
        return memo[id(module)]
    script_class = program.find(kind.name.split("."))
    assert isinstance(script_class, ScriptClass)
    state: dict[str, Any] = {n: p for n, p in module._parameters.items() if n in kind.parameters}
    state |= {n: b for n, b in module._buffers.items() if n in kind.buffers}
    state["training"] = module.training
    for name, t in kind.attributes.items():
        if name in state or name in module._modules or name in kind.frozen:
            continue
        value = kind.own_value(module, name)
        state[name] = boundary.inwards(copy.copy(value) if isinstance(value, (list, dict)) else value, t)
    made = memo[id(module)] = RecursiveScriptModule._of(script_class, state)
    forward = script_class.methods.get("forward")
    if forward is not None and forward.native is not None:
        made.__dict__["forward"] = MethodType(forward.native, made)
    made.__dict__["_original"] = module
    made.__dict__["_unit"] = unit
    made._non_persistent_buffers_set = set(module._non_persistent_buffers_set)
    for name, child in module._modules.items():
        if child is not None:
            made._modules[name] = built(unit, program, boundary, child, unit.module_class(child), memo)
    return made


def compiled_methods(module: Any) -> None:
    """Let the methods of a module that are marked by `script_method` run as TorchScript."""
    names = [
        n for c in type(module).__mro__ for n, f in vars(c).items() if getattr(f, "_is_script_method", False)
    ]
    if not names:
        return
    made = script_module(module, tuple(dict.fromkeys(names)))
    made._parameters, made._buffers = module._parameters, module._buffers
    module.__dict__["_compiled"] = made
    for name in names:
        module.__dict__[name] = getattr(made, name)


set_callback("script methods", compiled_methods)


def check_class(c: type) -> None:
    """Compile a class by itself, to find what TorchScript lacks."""
    class_type(Unit(), c, None, ast.Pass())


__all__ = ["check_class", "compile_function", "script_module"]
