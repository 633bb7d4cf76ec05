"""Functions of Python that mean something of their own in a program: `isinstance`, `print`, `annotate`, `min`, `fork` …"""

from __future__ import annotations

import ast
import typing
import warnings
from typing import Any

from .. import _intrinsics as intrinsics
from .._state import is_tracing
from ._types import (
    ANY,
    BOOL,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    Type,
    Union,
    is_subtype,
    members_of,
)
from ._values import Condition, Host, ModuleRef, Several, Simple, Super, Value


# --- what is answered while a program is compiled ------------------------------
def _isinstance(c: Any, node: ast.Call) -> Any:
    """`isinstance(x, T)`: known from the type of x, or checked of the value, whose type is then known."""
    if len(node.args) != 2:
        return c.refuse("isinstance takes two arguments", node)
    value = c.expression(node.args[0])
    if isinstance(value, ModuleRef):
        kind = c.host_of(node.args[1])
        is_instance = isinstance(value.kind.module, kind)
        return Condition(c.literal(is_instance), is_instance)
    wanted = c.types_of(node.args[1])
    if not isinstance(value, Simple):
        is_instance = isinstance(value, Several) and any(w in ("Tuple", "List") for w in wanted)
        return Condition(c.literal(is_instance), is_instance)

    def fits(t: Type) -> bool:
        return any(
            t.kind == w if isinstance(w, str) else t == w or (w != ANY and is_subtype(t, w)) for w in wanted
        )

    members = members_of(value.type)
    if value.type != ANY:
        yes = [m for m in members if fits(m)]
        no = [m for m in members if not fits(m)]
        if not yes or not no:
            return Condition(c.literal(not no), not no)
        then, other = Union(*yes), Union(*no)
    else:
        types = [w for w in wanted if not isinstance(w, str)]
        if len(types) < len(wanted):
            return c.refuse("isinstance of Any needs types with what is inside, such as List[int]", node)
        then, other = Union(*types), ANY
    shown = [t.text for t in members_of(then)]
    text = shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
    named = isinstance(node.args[0], ast.Name)
    name = node.args[0].id if isinstance(node.args[0], ast.Name) else ""
    result = Simple(f"isinstance({value.text}, {text})", f"{check(c.unit, then)}({value.py})", BOOL)
    return Condition(
        result, None, {name: then} if named else {}, {name: other} if named and other != ANY else {}
    )


def check(unit: Any, t: Type) -> str:
    """The name of what tells whether a value of Python is of a type."""
    from ._boundary import Check

    made = Check(unit, t)
    return str(unit.bind(made, "is"))


def _hasattr(c: Any, node: ast.Call) -> Any:
    value, name = c.expression(node.args[0]), node.args[1]
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        return c.refuse("hasattr's second argument must be a string literal", node)
    if isinstance(value, ModuleRef):
        result = not isinstance(value.kind.attribute(value, name.value), str)
    elif isinstance(value, Host):
        result = hasattr(value.value, name.value)
    elif isinstance(value, Simple) and value.type.kind == "class":
        kind = c.unit.class_of(value.type)
        result = name.value in kind.attributes or kind.has(name.value)
    elif isinstance(value, Simple) and value.type.kind == "Tuple":
        result = name.value in value.type.fields
    else:
        return c.refuse(
            f"hasattr's first argument must be an object or NamedTuple, got {value.shown()}", node
        )
    return Condition(c.literal(result), result)


def _constant(value: bool) -> Any:
    def ask(c: Any, node: ast.Call) -> Any:
        return Condition(c.literal(value), value)

    return ask


def _questions() -> dict[Any, Any]:
    return {
        isinstance: _isinstance,
        intrinsics.isinstance: _isinstance,
        hasattr: _hasattr,
        intrinsics.is_scripting: _constant(True),
        is_tracing: _constant(False),
    }


# --- calls ------------------------------
def _print(c: Any, node: ast.Call, hint: Any) -> Value:
    if node.keywords:
        c.refuse("print takes no keyword arguments in scripts", node)
    values = c.simples(node.args)
    text = ", ".join(v.text for v in values)
    py = ", ".join(f"shown({v.py})" for v in values)
    c.add(f"print({text})", f"print({py})")
    return Simple("None", "None", NONE, None)


def _annotate(c: Any, node: ast.Call, hint: Any) -> Value:
    if len(node.args) != 2:
        return c.refuse("expected exactly two arguments to annotate", node)
    t = c.annotation_of(node.args[0])
    value = c.tolist(node.args[1], t) or c.simple(node.args[1], t)
    from ._operators import fit

    result = fit(value, t, {}, None, True)
    if result is None:
        return c.refuse(f"expected an expression of type {t} but found {value.type}", node)
    if result.text.startswith("annotate(") and result.type == t:
        return result
    return Simple(f"annotate({t.text}, {result.text})", result.py, t, stable=result.stable)


def _super(c: Any, node: ast.Call, hint: Any) -> Value:
    owner = getattr(c, "enclosing", None)
    if owner is None or not hasattr(owner, "super_method"):
        return c.refuse("super() is of methods of modules alone", node)
    after = owner.python
    if node.args:
        result = c.host_of(node.args[0])
        after = result if isinstance(result, type) else after
    else:
        after = _defining(owner.python, c.code.owner)
    return Super(owner.self_value(), after)


def _defining(kind: type, function: Any) -> type:
    """The class that a method stands in."""
    for base in kind.__mro__:
        if any(getattr(v, "__code__", None) is function.__code__ for v in vars(base).values()):
            return base
    return kind


def _extreme(name: str) -> Any:
    def call(c: Any, node: ast.Call, hint: Any) -> Value:
        args, kwargs = c.all_simple(*c.arguments(node), node)
        if any(a.type == TENSOR for a in args):
            result = c.aten(name, args, kwargs, node)
            from ...operations.declare.registry import REGISTRY

            op = c.unit.bind(REGISTRY[name].function, name)
            return Simple(result.text, f"{op}({', '.join(a.py for a in args)})", result.type)
        py = f"{name}({', '.join(a.py for a in args)})"
        if len(args) == 1 and args[0].type.kind == "List" and args[0].type.inner[0] in (INT, FLOAT, BOOL):
            return Simple(f"ops.prim.{name}({args[0].text})", py, args[0].type.inner[0])
        kinds = {a.type for a in args}
        if len(args) == 2 and kinds <= {INT, FLOAT, NUMBER}:
            t = INT if kinds == {INT} else FLOAT
            return Simple(
                f"ops.prim.{name}({args[0].text}, {args[1].text})", py if t == INT else f"float({py})", t
            )
        got = ", ".join(str(a.type) for a in args)
        return c.refuse(f"{name}() takes two numbers, or a list of them, in scripts: got ({got})", node)

    return call


def _getattr(c: Any, node: ast.Call, hint: Any) -> Value:
    name = node.args[1]
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        return c.refuse("getattr's second argument must be a string literal", node)
    value = c.expression(node.args[0])
    if (
        len(node.args) == 3
        and isinstance(value, ModuleRef)
        and isinstance(value.kind.attribute(value, name.value), str)
    ):
        return c.expression(node.args[2])
    return c.attribute(value, name.value, node)


def _device(c: Any, node: ast.Call, hint: Any) -> Value:
    args, kwargs = c.all_simple(*c.arguments(node), node)
    args = [*args, *kwargs.values()]
    if args and args[0].type == DEVICE:
        return args[0]
    text, py = (", ".join(getattr(a, part) for a in args) for part in ("text", "py"))
    if not args or args[0].type != STR or any(a.type != INT for a in args[1:]):
        return c.refuse(
            f"torch.device takes a text and an int, got ({', '.join(str(a.type) for a in args)})", node
        )
    return Simple(f"torch.device({text})", f"device({py})", DEVICE)


def _tensor(c: Any, node: ast.Call, hint: Any) -> Value:
    """`torch.tensor(x, dtype=…)`."""
    args, kwargs = c.all_simple(*c.arguments(node), node)
    value = args[0] if args else kwargs.pop("data", None)
    if value is None or len(args) > 1 or set(kwargs) - {"dtype", "device", "requires_grad"}:
        return c.refuse("torch.tensor takes one value, dtype, device and requires_grad", node)
    element = value.type
    while element.kind == "List":
        element = element.inner[0]
    if value.type.kind == "Tuple" or element not in (INT, FLOAT, BOOL, NUMBER, TENSOR, Type("complex")):
        return c.refuse(f"Input must be of ints, floats, or bools, got {value.type}", node)
    named = "".join(f", {k}={v.text}" for k, v in kwargs.items())
    named_py = "".join(f", {k}={v.py}" for k, v in kwargs.items())
    from ...operations.declare.registry import REGISTRY

    op = c.unit.bind(REGISTRY["tensor"].function, "tensor")
    text = f"torch.tensor({value.text}{named})"
    if element == TENSOR:
        text = f"torch.tensor({value.text}{named})" if value.type == TENSOR else text
    return Simple(text, f"{op}({value.py}{named_py})", TENSOR)


def _fork(c: Any, node: ast.Call, hint: Any) -> Value:
    """`fork(f, x)`: the call, whose result a future holds."""
    if not node.args:
        return c.refuse("fork takes a function and its arguments", node)
    inner = ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node)
    value = c.as_simple(c.call(inner), node)
    return Simple(
        f"ops.flambeau.value_future({value.text})", f"_g_future({value.py})", Type("Future", (value.type,))
    )


def _wait(c: Any, node: ast.Call, hint: Any) -> Value:
    value = c.simple(node.args[0])
    if value.type.kind != "Future":
        return c.refuse(f"wait takes a Future, got a value of type {value.type}", node)
    return c.of_hosts("wait", [value], {}, node)


def _warn(c: Any, node: ast.Call, hint: Any) -> Value:
    args = c.simples(node.args[:1])
    text = args[0] if args[0].type == STR else Simple(f"str({args[0].text})", f"shown({args[0].py})", STR)
    name = c.unit.bind(warnings.warn, "warn")
    c.add(f"torch.warn({text.text})", f"{name}({text.py}, stacklevel=2)")
    return Simple("None", "None", NONE, None)


def _pow(c: Any, node: ast.Call, hint: Any) -> Value:
    a, b = c.simples(node.args)
    return c.operator("pow", "**", a, b, node)


def _of_host(name: str) -> Any:
    def call(c: Any, node: ast.Call, hint: Any) -> Value:
        args, kwargs = c.all_simple(*c.arguments(node), node)
        return c.of_hosts(name, args, kwargs, node)

    return call


def _is_tensor(c: Any, node: ast.Call, hint: Any) -> Value:
    value = c.expression(node.args[0])
    return c.literal(isinstance(value, Simple) and value.type == TENSOR)


def _assert(c: Any, node: ast.Call, hint: Any) -> Value:
    made = ast.copy_location(ast.Assert(node.args[0], node.args[1] if len(node.args) > 1 else None), node)
    c.on_Assert(made)
    return Simple("None", "None", NONE, None)


def _refused(message: str) -> Any:
    def call(c: Any, node: ast.Call, hint: Any) -> Value:
        return c.refuse(message, node)

    return call


class _Lazily(dict[Any, Any]):
    """A table that is filled when it is first read: it names what imports this package."""

    def __init__(self, fill: Any) -> None:
        super().__init__()
        self.fill = fill

    def get(self, key: Any, default: Any = None) -> Any:
        if self.fill is not None:
            fill, self.fill = self.fill, None
            self.update(fill())
        try:
            return super().get(key, default)
        except TypeError:
            return default


def _table() -> dict[Any, Any]:
    from ...core.base.dtypes import device as Device
    from ...core.tape import is_grad_enabled
    from ...operations.declare.registry import REGISTRY
    from ...random import manual_seed

    result = {
        print: _print,
        intrinsics.annotate: _annotate,
        typing.cast: _refused("typing.cast is not of TorchScript: use annotate, or isinstance"),
        super: _super,
        min: _extreme("min"),
        max: _extreme("max"),
        getattr: _getattr,
        Device: _device,
        warnings.warn: _warn,
        pow: _pow,
        manual_seed: _of_host("manual_seed"),
        is_grad_enabled: _of_host("is_grad_enabled"),
        REGISTRY["tensor"].function: _tensor,
        intrinsics.fork: _fork,
        intrinsics.wait: _wait,
    }
    return result


def grad_modes() -> dict[Any, tuple[str, str]]:
    """Contexts that set whether gradients are recorded, as code and as Python."""
    from ...autograd.grad_mode import enable_grad, no_grad

    return {
        no_grad: ("ops.flambeau.value_no_grad()", "_g_no_grad()"),
        enable_grad: ("ops.flambeau.value_enable_grad()", "_g_enable_grad()"),
    }


QUESTIONS, SPECIAL = _Lazily(_questions), _Lazily(_table)
__all__ = ["QUESTIONS", "SPECIAL", "check", "grad_modes"]
