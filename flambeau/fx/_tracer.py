"""`Tracer`: runs a module's `forward` or a function on proxies, and hands back the graph of what it did."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

from .._tensor import Tensor
from ..core.base import display
from ..core.call.module import quicken
from ..nn.modules.container import Sequential
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ..utils import _pytree as pytree
from ._code import TreeInfo, _PyTreeCodeGen
from ._names import OWN
from .graph import Graph
from .node import Node, map_aggregate
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase

_call, _getattr = Module.__call__, Module.__getattr__
_tracing = 0  # how many tracers are at work

# What `wrap` was given: names in the globals of modules, and methods of classes.
wrapped_functions: dict[tuple[int, str], dict[str, Any]] = {}
wrapped_methods: list[tuple[type, str]] = []


def is_tracing() -> bool:
    """Whether a tracer is at work."""
    return _tracing > 0


class PHBase:
    """In `concrete_args`: a leaf that stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """The same, whose node has the attributes of this object in its `meta`."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


def find_proxy(*values: Any) -> Proxy | None:
    """A proxy among arguments, None where there is none."""
    result: list[Proxy] = []

    def look(x: Any) -> Any:
        if isinstance(x, Proxy):
            result.append(x)
        return x

    map_aggregate(values, look)
    return result[0] if result else None


def leaf_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which becomes one node where a proxy is among the arguments."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    call._fx_leaf = True  # type: ignore[attr-defined]
    return call


def _leaf_method(cls: type, name: str) -> Callable[..., Any]:
    original = getattr(cls, name)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return original(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return call


class _Patches:
    """Changes of modules' globals and of classes, which are taken back at the end."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []
        self.seen: set[int] = set()

    def item(self, table: dict[str, Any], name: str, value: Any) -> None:
        """Set a global of a module."""
        if name in table:
            self.undo.append(functools.partial(table.__setitem__, name, table[name]))
        else:
            self.undo.append(functools.partial(table.pop, name, None))
        table[name] = value

    def attribute(self, cls: type, name: str, value: Any) -> None:
        """Set an attribute of a class."""
        if name in vars(cls):
            self.undo.append(functools.partial(setattr, cls, name, vars(cls)[name]))
        else:
            self.undo.append(functools.partial(delattr, cls, name))
        setattr(cls, name, value)

    def first_time(self, table: dict[str, Any]) -> bool:
        """Whether a module's globals come here for the first time."""
        is_seen = id(table) in self.seen
        self.seen.add(id(table))
        return not is_seen

    def revert(self) -> None:
        """Take all changes back, the last first."""
        while self.undo:
            self.undo.pop()()


def _below(cls: type) -> Iterator[type]:
    each: type
    for each in cls.__subclasses__():
        yield each
        yield from _below(each)


@contextmanager
def _patched() -> Iterator[_Patches]:
    """Patches that end here; modules are quick to call again after them."""
    global _tracing
    patches = _Patches()
    _tracing += 1
    try:
        yield patches
    finally:
        _tracing -= 1
        patches.revert()
        if not _tracing:
            for cls in {Module, *_below(Module)}:
                quicken(cls, Module)


class Tracer(TracerBase):
    """Traces modules and functions; subclasses say what stays whole.

    `autowrap_modules` are modules whose functions become one node each where they are called with a proxy, `autowrap_functions` further
    functions; both are looked for among the globals of what is traced.  `param_shapes_constant` lets shapes of parameters be numbers.

    `trace` raises TraceError where control flow hangs on an input.

    >>> import flambeau as torch
    >>> class Deep(torch.fx.Tracer):
    ...     def is_leaf_module(self, m, qualified_name):
    ...         return False
    >>> graph = Deep().trace(torch.nn.Sequential(torch.nn.ReLU()))
    >>> [n.op for n in graph.nodes]
    ['placeholder', 'call_function', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrapped = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(function) for function in autowrap_functions}
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root: Module = Module()
        self.tensor_attrs: dict[Any, str] = {}
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = {}
        self.node_name_to_scope = {}
        self._qualname_counter: dict[str, int] = defaultdict(int)

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that begins like this and that the root has no attribute of."""
        while hasattr(self.root, name := f"{prefix}{self._qualname_counter[prefix]}"):
            self._qualname_counter[prefix] += 1
        self._qualname_counter[prefix] += 1
        return name

    def create_arg(self, a: Any) -> Any:
        """An argument as graphs hold it; parameters, buffers and tensors become attributes of the root.

        NameError for a parameter that is none of the root's.
        """
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            if a not in self.tensor_attrs:
                raise NameError("parameter is not a member of this module")
        elif isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, Tensor):
            if (attribute := self.tensor_attrs.get(a)) is None:
                attribute = self.tensor_attrs[a] = self.get_fresh_qualname("_tensor_constant")
                setattr(self.root, attribute, a)
            return self.create_node("get_attr", attribute, (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a submodule stays one node: those of `nn` do, but for Sequential."""
        home = type(m).__module__
        return home.startswith((f"{OWN}.nn", f"{display.NAME}.nn")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The dotted name of a submodule of the root; NameError where it is none."""
        if self.submodule_paths:
            if (path := self.submodule_paths.get(mod)) is not None:
                return path
        else:
            for path, each in self.root.named_modules():
                if mod is each:
                    return path
        raise NameError(
            f"module {type(mod).__name__} is not installed as a submodule of {type(self.root).__name__}"
        )

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """What a call of a submodule is: a node for a leaf, else what its `forward` does."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):  # type: ignore[arg-type]
            stack = self.module_stack
            key = path if path not in stack else f"{path}@{len(stack)}"  # type: ignore[arg-type,operator]
            stack[key] = path, type(m)  # type: ignore[index]
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                del stack[key]  # type: ignore[union-attr]

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What a module's attribute is while `forward` is traced: a proxy for a parameter, and for a buffer if wanted."""
        if isinstance(attr_val, Parameter):
            members: Iterator = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            members = self.root.named_buffers()
        else:
            return attr_val
        name = next((n for n, value in members if attr_val is value), None)
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:

            def with_shape(node: Node) -> Proxy:
                return ParameterProxy(self, node, name, attr_val)

            has_constant_shape = self.param_shapes_constant and isinstance(attr_val, Parameter)
            parameter_proxy_cache[name] = self.create_proxy(
                "get_attr", name, (), {}, proxy_factory_fn=with_shape if has_constant_shape else None
            )
        return parameter_proxy_cache[name]

    # --- the arguments of what is traced -------------------------------------------------

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The function that is run, and its arguments: a proxy for each parameter that `concrete_args` does not settle.

        RuntimeError where a module's `forward` has no parameter, or `concrete_args` does not fit.
        """
        unwrapped = inspect.unwrap(root_fn)
        code = unwrapped.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames[:count])
        signature = inspect.signature(unwrapped)
        args: list[Any] = [self.root] if is_module else []
        if is_module:
            if not names:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            names = names[1:]
        positional = code.co_argcount - (1 if is_module else 0)
        if isinstance(concrete_args, tuple):
            if len(concrete_args) != len(names):
                raise RuntimeError(
                    f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(names, concrete_args, strict=True))
        inputs = [self._input(name, signature, unwrapped.__globals__, concrete_args) for name in names]
        by_name = names[positional:]
        variable = [
            f"{'*' * stars}{code.co_varnames[at]}"
            for stars, flag, at in (
                (1, inspect.CO_VARARGS, count),
                (2, inspect.CO_VARKEYWORDS, count + bool(code.co_flags & inspect.CO_VARARGS)),
            )
            if code.co_flags & flag
        ]
        if concrete_args is not None:
            leaves, in_spec = pytree.tree_flatten([*args, *inputs])
            if any(not child.is_leaf() for child in in_spec.children()):
                return self._flattened(unwrapped, names, by_name, leaves, in_spec, is_module)
        extra = [self._proxy("placeholder", name, ()) for name in variable]
        function = root_fn
        if variable:
            function = _all_positional(root_fn)
        elif by_name:
            function = functools.partial(_by_position, root_fn, len(args) + positional, by_name)
        return function, [*args, *inputs, *extra]

    def _proxy(self, kind: str, name: str, default: tuple, type_expr: Any = None) -> Any:
        return self.create_proxy(kind, name, default, {}, type_expr=type_expr)

    def _input(
        self, name: str, signature: inspect.Signature, table: dict[str, Any], concrete: dict[str, Any] | None
    ) -> Any:
        """The value of a parameter while its function is traced."""
        parameter = signature.parameters[name]
        kind = None if parameter.annotation is parameter.empty else _annotation(parameter.annotation, table)
        default = () if parameter.default is parameter.empty else (parameter.default,)
        if concrete is None or name not in concrete:
            return self._proxy("placeholder", name, default, kind)
        count = 0

        def leaf(x: Any) -> Any:
            nonlocal count
            count += 1
            proxy = self._proxy("placeholder", f"{name}_{count}", default)
            if isinstance(x, PHBase):
                if x is not PH:
                    proxy.node.meta.update(vars(x))
                return proxy
            self._pin(proxy, name, x)
            return x

        return pytree.tree_map(leaf, concrete[name])

    def _pin(self, proxy: Any, name: str, value: Any) -> None:
        """Let the graph check that an input which was given a value has it."""
        check = sys.modules[OWN]._assert  # type: ignore[attr-defined]
        text = f"{name} has been specialized to have value {value} but got another value"
        if value is None:
            self.create_proxy("call_function", assert_is_none, (proxy, text), {})
        elif isinstance(value, bool | int | float | str) and not isinstance(value, Tensor):
            check(proxy == value, text)

    def _flattened(
        self,
        function: Callable[..., Any],
        names: list[str],
        by_name: list[str],
        leaves: list[Any],
        in_spec: Any,
        is_module: bool,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The function of leaves, for arguments that are structures; the graph's code takes them apart."""
        own = pytree.tree_flatten(pytree.tree_unflatten(leaves, in_spec)[1 if is_module else 0 :])[1]
        codegen = _PyTreeCodeGen(TreeInfo(["self", *names], own, None))
        self.graph.set_codegen(codegen)

        def run(*values: Any) -> Any:
            args = pytree.tree_unflatten(list(values), in_spec)
            split = len(args) - len(by_name)
            out = function(*args[:split], **dict(zip(by_name, args[split:], strict=True)))
            flat, out_spec = pytree.tree_flatten(out)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return flat

        return run, leaves

    # --- tracing -------------------------------------------------

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple | None = None
    ) -> Graph:
        """The graph of a module or function.

        `concrete_args` gives parameters values, so that conditions on them can be decided; in structures `fx.PH` stands for leaves that
        stay inputs.  TraceError where control flow hangs on a value that is an input.

        >>> import flambeau as torch
        >>> def f(x, twice):
        ...     return x * 2 if twice else x
        >>> [n.name for n in torch.fx.Tracer().trace(f, {"twice": False}).nodes if n.op == "placeholder"]
        ['x', 'twice_1']
        """
        function: Any
        if isinstance(root, Module):
            self.root = root
            function = getattr(type(root), self.traced_func_name, None)
            if function is None:
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}"
                )
            self.root_module_name = root._get_name()
            self.submodule_paths = {mod: name for name, mod in root.named_modules()}
        else:
            if not callable(root):
                raise TypeError(
                    f"trace(): argument 'root' must be a Module or a function, not {type(root).__name__}"
                )
            self.root = Module()
            function = root
            self.submodule_paths = None
        cls = type(self)
        self.graph = Graph(tracer_cls=cls if "<locals>" not in cls.__qualname__ else Tracer)
        self.tensor_attrs = _Attributes()
        for prefix, each in self.root.named_modules():
            for name, value in vars(each).items():
                if isinstance(value, Tensor):
                    self.tensor_attrs[value] = f"{prefix}.{name}" if prefix else name
        run, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        cache: dict[str, Any] = {}

        def read(mod: Module, name: str) -> Any:
            return self.getattr(name, _getattr(mod, name), cache)

        def call(mod: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return _call(mod, *args, **kwargs)

            self._wrap_in(patches, getattr(getattr(mod, "forward", mod), "__globals__", {}))
            return self.call_module(mod, forward, args, kwargs)

        with _patched() as patches:
            patches.attribute(Module, "__getattr__", read)
            patches.attribute(Module, "__call__", call)
            for (_, name), table in list(wrapped_functions.items()):
                original = table.get(name, vars(builtins).get(name))
                if original is not None:
                    patches.item(table, name, leaf_call(original))
            for cls, name in wrapped_methods:
                patches.attribute(cls, name, _leaf_method(cls, name))
            self._wrap_in(patches, getattr(inspect.unwrap(function), "__globals__", {}))
            for searched in self._autowrap_search:
                self._wrap_in(patches, vars(searched))
            result = run(*args)
            annotation = getattr(function, "__annotations__", {}).get("return")
            kind = _annotation(annotation, getattr(inspect.unwrap(function), "__globals__", {}))
            self.create_node("output", "output", (self.create_arg(result),), {}, None, kind)
        self.submodule_paths = None
        return self.graph

    def _wrap_in(self, patches: _Patches, table: dict[str, Any]) -> None:
        """Let the functions of autowrapped modules that a module has among its globals stay whole."""
        if not self._autowrapped or not patches.first_time(table):
            return
        for name, value in list(table.items()):
            if not name.startswith("_") and callable(value) and id(value) in self._autowrapped:
                patches.item(table, name, leaf_call(value))


def _annotation(annotation: Any, table: dict[str, Any]) -> Any:
    """An annotation, one that was put off as a text looked up; None for one that says nothing."""
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, table)  # as `typing.get_type_hints` does
        except Exception:
            return annotation  # what only type checkers know
    return None if annotation is Any else annotation


def assert_is_none(value: Any, msg: str) -> None:
    """AssertionError with a text where the value is not None."""
    if value is not None:
        raise AssertionError(msg)


def _by_position(function: Callable[..., Any], positional: int, by_name: list[str], *args: Any) -> Any:
    """Call a function with values for all of its parameters, the keyword-only ones too."""
    return function(*args[:positional], **dict(zip(by_name, args[positional:], strict=True)))


def _all_positional(function: Callable[..., Any]) -> Callable[..., Any]:
    """A Python function whose `*args` and `**kwargs` are parameters like the others, so that proxies stand for them."""
    unwrapped = inspect.unwrap(function)
    code = unwrapped.__code__
    starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    changed = code.replace(
        co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
        co_argcount=code.co_argcount + code.co_kwonlyargcount + starred,
        co_kwonlyargcount=0,
        co_posonlyargcount=0,
    )
    return FunctionType(changed, unwrapped.__globals__, unwrapped.__name__, None, unwrapped.__closure__)


class _Attributes(dict):
    """Names of tensors, by which tensor it is: tensors compare element by element."""

    def __init__(self) -> None:
        super().__init__()
        self._tensors: list[Any] = []  # as long as they are known by their addresses

    def __setitem__(self, tensor: Any, name: str) -> None:
        self._tensors.append(tensor)
        super().__setitem__(id(tensor), name)

    def __contains__(self, tensor: object) -> bool:
        return super().__contains__(id(tensor))

    def get(self, tensor: Any, default: Any = None) -> Any:
        return super().get(id(tensor), default)
