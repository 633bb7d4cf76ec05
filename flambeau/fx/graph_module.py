"""`GraphModule`: a module whose `forward` is the code of a graph."""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .._compat.absent import refusing
from .._tensor import Tensor
from ..core.base import display
from ..nn.modules.module import Module
from ._code import PythonCode, _PyTreeCodeGen, import_line
from ._tracer import Tracer
from .graph import Graph

__all__ = ["GraphModule", "reduce_graph_module"]

_numbers = itertools.count()


def _compiled(cls: type | None, src: str, values: dict[str, Any]) -> Callable[..., Any]:
    """The function `forward` of a text, whose lines tracebacks show as long as `cls` is there."""
    key = f"<eval_with_key>.{next(_numbers)}"
    while _forgotten:
        linecache.cache.pop(_forgotten.pop(), None)
    linecache.cache[key] = len(src), None, src.splitlines(keepends=True), key
    if cls is not None:
        former = cls.__dict__.get("_source_key")
        if former is not None:
            _forgotten.append(former)
        else:
            weakref.finalize(cls, _forget, cls.__dict__["_source_keys"])
        cls._source_key = key  # type: ignore[attr-defined]
        cls.__dict__["_source_keys"][:] = [key]
    exec(compile(src, key, "exec", dont_inherit=True), values)
    return values["forward"]


def _forget(keys: list[str]) -> None:
    """Let lines go when the next are entered: a module may be collected while `linecache` walks over its entries."""
    _forgotten.extend(keys)


_forgotten: list[str] = []


def _get_attr(model: Module, attr_name: str) -> Any:
    value: Any = model
    for part in attr_name.split("."):
        value = getattr(value, part)
    return value


def _has_attr(model: Module, attr_name: str) -> bool:
    value: Any = model
    for part in attr_name.split("."):
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Set an attribute by its dotted name, making empty modules on the way; a tensor that is no parameter becomes a buffer."""
    *path, name = target.split(".")
    for part in path:
        inner = getattr(to_module, part, None)
        if not isinstance(inner, Module):
            inner = Module()
            setattr(to_module, part, inner)
        to_module = inner
    if (
        isinstance(from_obj, Tensor)
        and name not in to_module._parameters
        and not hasattr(from_obj, "_is_param")
    ):
        from ..nn.parameter import Parameter

        if not isinstance(from_obj, Parameter):
            to_module.register_buffer(name, from_obj)
            return
    setattr(to_module, name, from_obj)


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Let one module have what another has under a dotted name; nothing where it is there already."""
    *path, name = target.split(".")
    for part in path:
        inner = getattr(from_module, part)
        there = getattr(to_module, part, None)
        if there is inner:
            return
        if there is None:
            there = Module()
            setattr(to_module, part, there)
        from_module, to_module = inner, there
    value = getattr(from_module, name)
    if isinstance(value, Tensor) and name not in from_module._parameters:
        to_module.register_buffer(name, value, name not in from_module._non_persistent_buffers_set)
    else:
        setattr(to_module, name, value)


class _CodeOnlyModule(Module):
    """The attributes of a pickled GraphModule, on which its code is traced."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(body)


def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """A pickled GraphModule: its code is run by Python and traced into a graph again, so trust it as you trust a program.

    `load` with `weights_only=True`, the default, refuses it.  SyntaxError for code that is none.

    >>> import pickle
    >>> import flambeau as torch
    >>> module = torch.fx.symbolic_trace(torch.nn.ReLU())
    >>> module.__reduce__()[0].__name__, pickle.loads(pickle.dumps(module))(torch.ones(1))
    ('reduce_graph_module', tensor([1.]))
    """
    source = body.get("_code") or body["code"]
    forward = _compiled(None, f"{import_block}{source}", {})
    return _from_code(forward, body)


def _from_code(forward: Callable[..., Any], body: dict[str, Any]) -> Module:
    tracer_cls = body.get("_tracer_cls") or Tracer
    name = body.get("_graphmodule_cls_name", "GraphModule")
    body = {k: v for k, v in body.items() if k != "_graphmodule_cls_name"}
    held = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})(body)

    class LeafTracer(tracer_cls):  # type: ignore[misc,valid-type]
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    graph = LeafTracer().trace(held)
    graph._tracer_cls = body.get("_tracer_cls")
    if "_in_spec" in body:  # the code takes structures apart itself
        held.__dict__.update(body)
    made = GraphModule(held, graph, class_name=name)
    for key, value in body.items():
        if key not in made.__dict__ or key in ("_parameters", "_buffers", "_modules", "training", "meta"):
            made.__dict__[key] = value
    return made


class GraphModule(Module):
    """A module made of a graph: `graph` can be changed and assigned, `code` is what runs; call `recompile` after changes.

    `root` is a module whose parameters, buffers and submodules the graph names, or a dictionary of them.  It is copied with `copy.deepcopy`
    and pickled; a pickle holds the code, which is run and traced anew when it is loaded.

    RuntimeError where `root` is a dictionary that lacks what a node names, AttributeError where it is a module that does.

    >>> import flambeau as torch
    >>> module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    >>> print(module.code.strip())
    def forward(self, input):
        input_1 = input
        _0 = getattr(self, "0")(input_1);  input_1 = None
        return _0
    """

    _generated = False  # whether the class is one that holds the code of a single module

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        base = next(c for c in cls.__mro__ if not c.__dict__.get("_generated", False))
        own = type("GraphModuleImpl", (base,), {"_generated": True, "_source_keys": []})
        own.__module__ = base.__module__
        return super().__new__(own)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        named = [n for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for node in named:
                _copy_attr(root, self, str(node.target))
        elif isinstance(root, dict):
            targets = dict.fromkeys(str(n.target) for n in named)
            for node in named:
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for target in sorted(targets, key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {type(root).__name__} passed for root!")
        self._tracer_cls = graph._tracer_cls
        self._tracer_extras: dict[str, Any] = graph._tracer_extras or {}
        self.meta: dict[str, Any] = dict(root.meta) if isinstance(getattr(root, "meta", None), dict) else {}  # type: ignore[union-attr]
        self._replace_hooks: list[Callable[..., Any]] = []
        self.graph = graph

    # `forward` is the class's, whose only instance this is
    @property
    def graph(self) -> Graph:
        """The graph; assigning another compiles its code."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g).__name__}")
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "graph":
            type(self).graph.fset(self, value)  # type: ignore[attr-defined]
        else:
            super().__setattr__(name, value)

    @property
    def code(self) -> str:
        """The Python code of `forward`.

        >>> import flambeau as torch
        >>> "relu" in torch.fx.symbolic_trace(lambda x: x.relu()).code
        True
        """
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self) -> PythonCode:
        """Write the code of the graph and let it be `forward`, after changes of the graph; returns it with its globals.

        SyntaxError where the graph's names are not what Python takes.

        >>> import flambeau as torch
        >>> module = torch.fx.symbolic_trace(lambda x: x.relu())
        >>> next(n for n in module.graph.nodes if n.target == "relu").target = "neg"
        >>> _ = module.recompile()
        >>> module(torch.ones(1))
        tensor([-1.])
        """
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        python_code = self._graph.python_code(root_module="self")
        self.__dict__["_code"] = python_code.src
        self.__dict__["_lineno_map"] = python_code._lineno_map
        cls = type(self)
        cls.forward = _compiled(cls, python_code.src, dict(python_code.globals))  # type: ignore[method-assign]
        return python_code

    def real_recompile(self) -> PythonCode:
        """`recompile`, at once in modules that put it off, too."""
        return GraphModule.recompile(self)

    # --- submodules -------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module under a dotted name, making empty modules on the way; False where a name on the way is no module.

        >>> import flambeau as torch
        >>> module = torch.fx.symbolic_trace(torch.nn.ReLU())
        >>> module.add_submodule("deep.layer", torch.nn.ReLU()), module.deep.layer
        (True, ReLU())
        """
        *path, name = target.split(".")
        at: Module = self
        for part in path:
            inner = getattr(at, part, None)
            if inner is None:
                inner = Module()
                setattr(at, part, inner)
            if not isinstance(inner, Module):
                return False
            at = inner
        at.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the submodule of a dotted name; False where there is none.

        >>> import flambeau as torch
        >>> torch.fx.symbolic_trace(torch.nn.ReLU()).delete_submodule("nothing")
        False
        """
        *path, name = target.split(".")
        at: Any = self
        for part in path:
            at = getattr(at, part, None)
            if not isinstance(at, Module):
                return False
        if not isinstance(getattr(at, name, None), Module):
            return False
        delattr(at, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the submodules that no node calls or reads from.

        >>> import flambeau as torch
        >>> module = torch.fx.symbolic_trace(torch.nn.ReLU())
        >>> _ = module.add_submodule("spare", torch.nn.ReLU())
        >>> module.delete_all_unused_submodules()
        >>> hasattr(module, "spare")
        False
        """
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = str(node.target).split(".")
                used |= {".".join(parts[: k + 1]) for k in range(len(parts))}
                if node.op == "call_module" and _has_attr(self, str(node.target)):
                    called = self.get_submodule(str(node.target))
                    inside = called.named_modules(remove_duplicate=False)
                    used |= {f"{node.target}.{name}" for name, _ in inside if name}
        for name, _ in list(self.named_modules(remove_duplicate=False)):
            if name and name not in used:
                self.delete_submodule(name)

    # --- copies -------------------------------------------------

    def __deepcopy__(self, memo: dict) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        type(made).__name__ = type(self).__name__
        state = {k: v for k, v in self.__dict__.items() if k != "_graph"}
        made.__dict__.update(copy.deepcopy(state, memo))
        made.graph = copy.deepcopy(self._graph, memo)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)
        made.meta = dict(self.meta)
        return made

    def __reduce__(self) -> tuple:
        body = self.__dict__.copy()
        del body["_graph"]
        body["_graphmodule_cls_name"] = type(self).__name__
        python_code = self.real_recompile()
        body["_code"] = python_code.src
        return reduce_graph_module, (body, _imports(python_code))

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return self.__reduce__()

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write a Python package whose class `module_name` is this module, with its weights beside it.

        >>> import tempfile
        >>> import flambeau as torch
        >>> torch.fx.symbolic_trace(torch.nn.ReLU()).to_folder(tempfile.mkdtemp())
        """
        from pathlib import Path

        from .._compat.absent import OWN
        from ..core.base.callbacks import callbacks  # noqa: F401

        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        import sys

        save = sys.modules[OWN].save  # type: ignore[attr-defined]
        python_code = self.real_recompile()
        save(self.state_dict(), place / "state_dict.pt")
        lines = [_imports(python_code), f"import {display.NAME}", f"from {display.NAME} import nn", "", ""]
        lines += [f"class {module_name}(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        here = f"os.path.join(os.path.dirname(__file__), {{!r}})"  # noqa: F541
        for name, module in self.named_children():
            save(module, place / f"{name}.pt")
            read = f"{display.NAME}.load({here.format(f'{name}.pt')}, weights_only=False)"
            lines.append(f"        self.add_module({name!r}, {read})")
        for name, value in self._parameters.items():
            if value is not None:
                save(value, place / f"{name}.pt")
                read = f"{display.NAME}.load({here.format(f'{name}.pt')}, weights_only=False)"
                lines.append(f"        self.register_parameter({name!r}, {read})")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                save(buffer, place / f"{name}.pt")
                read = f"{display.NAME}.load({here.format(f'{name}.pt')}, weights_only=False)"
                lines.append(f"        self.register_buffer({name!r}, {read})")
        lines += ["", *(f"    {line}" for line in self._code.strip().split("\n"))]
        (place / "module.py").write_text("import os\n" + "\n".join(lines).rstrip() + "\n")
        (place / "__init__.py").write_text(f"from .module import {module_name}\n")

    # --- text -------------------------------------------------

    def __str__(self) -> str:
        return "\n".join(
            [
                super().__str__(),
                self._code,
                "# To see more debug info, please use `graph_module.print_readable()`",
            ]
        )

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> str:
        """The code of this module and of the GraphModules in it, with shapes and the program's lines if known; returns the text.

        `colored` is taken and changes nothing.

        >>> import flambeau as torch
        >>> text = torch.fx.symbolic_trace(torch.nn.ReLU()).print_readable(print_output=False)
        >>> text.splitlines()[1].strip()
        'def forward(self, input : flambeau.Tensor) -> flambeau.Tensor:'
        """
        text = _readable(
            self, type(self).__name__, include_stride=include_stride, include_device=include_device
        )
        if print_output:
            print(text)
        return text

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Iterator[None]:
        self._replace_hooks.append(f)
        try:
            yield
        finally:
            self._replace_hooks.remove(f)


def _imports(python_code: PythonCode) -> str:
    """The statements that give the code its globals."""
    lines = [
        import_line(name, value) for name, value in python_code.globals.items() if name in python_code.src
    ]
    return "\n".join([*dict.fromkeys(lines), ""])


def _readable(module: Module, name: str, **options: bool) -> str:
    graph = getattr(module, "graph", None)
    if not isinstance(graph, Graph):
        raise AssertionError("print_readable must be used on a module with a graph")
    code = graph.python_code("self", verbose=True, **options).src.strip("\n").rstrip()
    lines = [f"class {name}({display.NAME}.nn.Module):", *(f"    {line}" for line in code.split("\n"))]
    for child_name, child in module.named_children():
        if hasattr(child, "graph"):
            lines += ["", *(f"    {line}" for line in _readable(child, child_name, **options).split("\n"))]
    return "\n".join(line.rstrip() for line in lines) + "\n"


__getattr__ = refusing("fx.graph_module")
