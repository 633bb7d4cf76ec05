"""Calls: of operations, of what Python has, of functions and classes of the program, of modules."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Sequence
from typing import Any

from ..._symbols.numbers import sym_float
from ...core.call.operation import Op, behind
from ...nn.modules.module import Module
from ._hosts import schemas
from ._making import Making
from ._marks import mark_of
from ._operators import _described, aten_call, host_call, matched, op_text, own_text
from ._source import MISSING
from ._types import (
    INT,
    TENSOR,
    List,
    NoType,
    Type,
)
from ._values import Host, Iteration, Method, ModuleRef, Several, Simple, Super, Value

_LOOPED = (range, zip, enumerate, reversed)
_AS_HOSTS = (
    len, abs, sum, all, any, sorted, round, divmod, ord, chr, hex, oct, bin, hash, id,
)  # fmt: skip
_LOOKS = ("numpy", "tolist")  # what gives no tensors
_CONTAINER_KINDS = {list: "List", tuple: "Tuple", dict: "Dict"}
_REFUSED_CALLS = (
    "eval exec open input globals locals vars type map filter iter next set frozenset setattr delattr dir callable issubclass bytes "
    "memoryview object slice repr compile"
).split()


class Calls(Making):
    """The part of a function's compiler that reads calls."""

    condition: Any
    formatted: Any
    list_of: Any
    operator: Any
    loop_over: Any

    # --- arguments ------------------------------
    def arguments(
        self, node: ast.Call, hints: Sequence[Type | None] = ()
    ) -> tuple[list[Value], dict[str, Value]]:
        """What a call is given, by position and by name."""
        makers: list[Any] = []
        starred: list[int] = []
        for k, part in enumerate(node.args):
            if isinstance(part, ast.Starred):
                starred.append(k)
                makers.append(lambda e=part.value: self.expression(e))
            else:
                hint = hints[k] if k < len(hints) else None
                makers.append(lambda e=part, h=hint: self.expression(e, h))
        for keyword in node.keywords:
            if keyword.arg is None:
                self.code.not_supported("keyword-arg expansion is not supported", node)
            makers.append(lambda e=keyword.value: self.expression(e))
        result = self.evaluated(makers)
        args: list[Value] = []
        for k, value in enumerate(result[: len(node.args)]):
            args += self.starred_items(value, node) if k in starred else [value]
        names = [k.arg for k in node.keywords if k.arg is not None]
        return args, dict(zip(names, result[len(node.args) :]))

    def starred_items(self, value: Value, node: ast.AST) -> list[Value]:
        """The items of `*values`."""
        if isinstance(value, Several):
            return value.items
        result = self.as_simple(value, node)
        if result.items is not None:
            return list(result.items)
        if result.type.kind == "Tuple":
            held = self.held(result)
            return [self.item_of(held, k) for k in range(len(result.type.inner))]
        return self.refuse("cannot statically infer the expected size of a list in this context", node)

    def all_simple(
        self, args: list[Value], kwargs: dict[str, Value], node: ast.AST
    ) -> tuple[list[Simple], dict[str, Simple]]:
        """Arguments as values with types."""
        return [self.as_simple(a, node) for a in args], {
            k: self.as_simple(v, node) for k, v in kwargs.items()
        }

    # --- calls ------------------------------
    def call(self, node: ast.Call, hint: Type | None = None) -> Value:
        special = self.special_call(node)
        if special is not None:
            return special.value
        callee = self.expression(node.func)
        if isinstance(callee, Host):
            return self.host(callee.value, node, hint)
        if isinstance(callee, Method) and isinstance(callee.owner, Simple) and not callee.owner.stable:
            mark = len(self.lines)
            args, kwargs = self.arguments(node, self.hints_of(callee))
            if len(self.lines) > mark:
                later = self.lines[mark:]
                del self.lines[mark:]
                callee = Method(self.held(callee.owner), callee.name)
                self.lines += later
            return self.invoke(callee, args, kwargs, node)
        if isinstance(callee, Method):
            args, kwargs = self.arguments(node, self.hints_of(callee))
            return self.invoke(callee, args, kwargs, node)
        if isinstance(callee, ModuleRef):
            args, kwargs = self.arguments(node)
            return self.module_call(callee, "forward", args, kwargs, node)
        if isinstance(callee, Simple) and callee.type.kind == "class":
            args, kwargs = self.arguments(node)
            return self.invoke(Method(callee, "__call__"), args, kwargs, node)
        return self.refuse(f"{callee.shown()} is not callable", node)

    def hints_of(self, method: Method) -> list[Type | None]:
        """The types that a method of a container wants, for empty lists given to it."""
        if isinstance(method.owner, Simple) and method.owner.type.kind == "List" and method.name == "append":
            return [method.owner.type.inner[0]]
        return []

    def invoke(self, method: Method, args: list[Any], kwargs: dict[str, Any], node: ast.AST) -> Value:
        """A call of a method."""
        owner, name = method.owner, method.name
        if isinstance(owner, ModuleRef):
            return self.module_call(owner, name, args, kwargs, node)
        if isinstance(owner, Super):
            return self.super_call(owner, name, args, kwargs, node)
        if isinstance(owner, Several):
            assert owner.keys is not None
            pairs: list[Value] = [Several([self.literal(k), v]) for k, v in zip(owner.keys, owner.items)]
            keys: list[Value] = [self.literal(k) for k in owner.keys]
            return Several({"items": pairs, "keys": keys, "values": owner.items}[name])
        assert isinstance(owner, Simple)
        simple, named = self.all_simple(args, kwargs, node)
        if owner.type == TENSOR:
            return self.tensor_method(owner, name, simple, named, node)
        if owner.type.kind in ("class", "interface"):
            return self.object_method(owner, name, simple, named, node)
        if owner.type.kind == "str" and name == "format":
            return self.formatted(owner, simple)
        if owner.type.kind == "Future" and name == "value":
            name = "wait"
        return self.of_hosts(name, [owner, *simple], named, node)

    def object_method(
        self, owner: Simple, name: str, args: list[Simple], kwargs: dict[str, Simple], node: ast.AST
    ) -> Simple:
        if owner.type.kind == "interface":
            entry = self.unit.interfaces[owner.type.name][name]
            bound, text = self.matched_call(entry, args, kwargs, node, f"{owner.type}.{name}")
            call = ", ".join([repr(name), *(v.py for v in bound)])
            return Simple(
                f"({owner.text}).{name}({text})", f"_g_interface({owner.py}, {call})", entry.returns
            )
        kind = self.unit.class_of(owner.type)
        if not kind.has(name):
            return self.refuse(
                f"Tried to access nonexistent attribute or method '{name}' of type '{owner.type}'", node
            )
        entry = kind.method(name, self, node)
        bound, text = self.matched_call(entry, args, kwargs, node, name)
        py = ", ".join(v.py for v in (owner, *bound))
        return Simple(f"({owner.text}).{name}({text})", f"{entry.py}({py})", entry.returns)

    def matched_call(
        self, entry: Any, args: list[Simple], kwargs: dict[str, Simple], node: ast.AST, shown: str
    ) -> tuple[list[Simple], str]:
        """The arguments of a function of the program: all of them for Python, those that were given as code."""
        why = ""
        for loosely in (False, True):
            result = matched(shown, entry.parameters, (), args, kwargs, loosely)
            if isinstance(result, str):
                why = why or result
                continue
            placed, named, _ = result
            bound = []
            for k, p in enumerate(entry.parameters):
                value = placed[k] if k < len(placed) else named.get(p.name)
                bound.append(
                    value if value is not None else Simple("", self.unit.bind(p.default, p.name), p.type)
                )
            text = "".join(
                [
                    *(v.text + ", " for v in placed),
                    *(f"{self.code_name(entry, k)}={v.text}, " for k, v in named.items()),
                ]
            )
            return bound, text
        return self.refuse(f"{entry.declaration(shown)}:\n{why}", node)

    @staticmethod
    def code_name(entry: Any, name: str) -> str:
        """What a parameter is called in code."""
        return entry.text_names.get(name, name)

    # --- operations ------------------------------
    def of_hosts(self, name: str, args: list[Simple], kwargs: dict[str, Simple], node: ast.AST) -> Simple:
        """A call of an operation without tensors; of lists of tensors one of ATen."""
        result = host_call(name, args, kwargs)
        if isinstance(result, list):
            return self.refuse(_described(result) if result else f"Unknown builtin op: aten::{name}", node)
        schema, call = result
        bound = [
            call.args[k] if k < len(call.args) else call.kwargs.get(p.name)
            for k, p in enumerate(schema.parameters)
        ]
        used = [v if v is not None else self.literal(p.default) for v, p in zip(bound, schema.parameters)]
        texts = [v.text for v in call.args] + [f"{k}={v.text}" for k, v in call.kwargs.items()]
        text = f"torch.{name}({', '.join(texts)})"
        small = name in ("len", "dim", "numel", "size", "stride")
        if schema.python:
            template = schema.python
            if template.startswith("wrapped(") and all(v.small for v in used) and name in ("add", "sub"):
                template = template[len("wrapped") :]
            if template.startswith("wrapped("):  # 64 bits, looked at where it stands
                inner = template[len("wrapped(") : -1]
                template = f"(_w if {-(1 << 63)} <= (_w := {inner}) <= {(1 << 63) - 1} else wrapped(_w))"
            py = template.format(*(v.shape or v.py if name == "len" else v.py for v in used))
        else:
            py = f"_host_{name}({', '.join([v.py for v in call.args] + [f'{k}={v.py}' for k, v in call.kwargs.items()])})"
        return Simple(text, py, call.result, small=small)

    def aten(self, name: str, args: list[Simple], kwargs: dict[str, Simple], node: ast.AST) -> Simple:
        """A call of an operation of ATen, as code."""
        result = aten_call(name, args, kwargs)
        if isinstance(result, list):
            return self.refuse(_described(result) if result else f"Unknown builtin op: aten::{name}", node)
        texts = [v.text for v in result.args] + [f"{k}={v.text}" for k, v in result.kwargs.items()]
        return Simple(f"torch.{result.name}({', '.join(texts)})", "", result.result)

    def operation(
        self, op: Op, public: str, py: str, args: list[Simple], kwargs: dict[str, Simple], node: ast.AST
    ) -> Simple:
        """A call of an operation of this library: in ATen's words, else in our own."""
        arguments = ", ".join(
            [(v.shape or v.py) for v in args] + [f"{k}={v.shape or v.py}" for k, v in kwargs.items()]
        )
        python = f"{py}({arguments})"
        result = aten_call(public, args, kwargs) if public else []
        if not isinstance(result, list):
            text = ", ".join(
                [v.text for v in result.args] + [f"{k}={v.text}" for k, v in result.kwargs.items()]
            )
            t = result.result
            if (
                any(a is not b for a, b in zip(args, result.args))
                and len(result.args) == len(args)
                and not kwargs
            ):
                python = f"{py}({', '.join(v.shape or v.py for v in result.args)})"
            return Simple(f"torch.{result.name}({text})", self.as_list(python, t), t)
        other = op_text(op, args, kwargs)
        if other is not None:
            return Simple(other[0], self.as_list(python, other[1]), other[1])
        own = "" if result or op.entry.name in _LOOKS else own_text(op, args, kwargs)
        if isinstance(own, str):
            if op.entry.name in _LOOKS:
                return self.refuse(f"Tensor.{op.entry.name}() gives no value of TorchScript", node)
            tried = result or [(op._schema, own)]
            return self.refuse(_described(tried), node)
        return Simple(own[0], self.as_list(python, own[1]), own[1])

    @staticmethod
    def as_list(python: str, t: Type) -> str:
        """Results that are lists in a program and tuples in Python."""
        return f"list({python})" if t.kind == "List" else python

    def tensor_method(
        self, owner: Simple, name: str, args: list[Simple], kwargs: dict[str, Simple], node: ast.AST
    ) -> Simple:
        if name == "tolist":
            return self.refuse(
                "Expected type hint for result of tolist(): write `x: List[int] = t.tolist()`", node
            )
        if name in schemas():
            result = host_call(name, [owner, *args], kwargs)
            if not isinstance(result, list) and result[0].parameters[0].type == TENSOR:
                if name == "size" and not args and not kwargs:
                    return Simple(
                        f"torch.size({owner.text})",
                        f"list({owner.py}.shape)",
                        List(INT),
                        shape=f"{owner.py}.shape",
                    )
                return self.of_hosts(name, [owner, *args], kwargs, node)
        from ..._tensor import Tensor

        op = behind(getattr(Tensor, name))
        if isinstance(op, Op):
            made = self.operation(op, name, "", [owner, *args], kwargs, node)
        else:
            made = self.aten(name, [owner, *args], kwargs, node)
        shown = ", ".join(
            [v.shape or v.py for v in args] + [f"{k}={v.shape or v.py}" for k, v in kwargs.items()]
        )
        return Simple(made.text, self.as_list(f"{owner.py}.{name}({shown})", made.type), made.type)

    # --- functions of Python ------------------------------
    def host(self, f: Any, node: ast.Call, hint: Type | None) -> Any:
        """A call of something that Python has."""
        name = getattr(f, "__name__", "")
        special = self.unit.special.get(f) if getattr(f, "__hash__", None) is not None else None
        if special is not None:
            return special(self, node, hint)
        if f in _LOOPED if isinstance(f, type) else False:
            return Iteration(f.__name__, [self.expression(a) for a in node.args], node)
        op = behind(f)
        if isinstance(op, Op):
            args, kwargs = self.all_simple(*self.arguments(node), node)
            return self.operation(op, self.public(f, op), self.unit.bind(f, op.__name__), args, kwargs, node)
        if any(f is function for function in _AS_HOSTS):
            return self.python_builtin(name, *self.arguments(node), node)
        if getattr(math, name, None) is f:
            args, kwargs = self.all_simple(*self.arguments(node), node)
            return self.of_hosts(name, args, kwargs, node)
        if f is sym_float:  # a float of a number that a recorder may see
            return self.construct(float, node)
        if isinstance(f, type):
            return self.construct(f, node)
        if getattr(builtins, name, None) is f and name in _REFUSED_CALLS:
            return self.refuse(
                f"Python builtin <built-in function {name}> is currently not supported in Torchscript",
                node,
            )
        return self.function_call(f, node)

    @staticmethod
    def public(f: Any, op: Op) -> str:
        """The name that ATen may know a function of the flat namespace by."""
        entry = op.entry
        if entry is None:
            return str(getattr(f, "__name__", ""))
        flat = next((p for p in entry.places if "." not in p), "")
        method = next((p.partition(".")[2] for p in entry.places if p.startswith("Tensor.")), "")
        namespaced = next(
            (p.replace(".", "_") for p in entry.places if p.startswith(("linalg.", "fft.", "special."))), ""
        )
        return flat or method or namespaced

    def python_builtin(self, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Simple:
        first = args[0] if args else None
        if name == "len" and isinstance(first, (Several, ModuleRef)):
            items = first if isinstance(first, Several) else first.kind.items(first)
            if items is not None:
                return self.literal(len(items.items))
            assert isinstance(first, ModuleRef)
            result = self.module_call(first, "__len__", [], {}, node)
            return self.as_simple(result, node)
        simple, named = self.all_simple(args, kwargs, node)
        if simple and simple[0].type.kind == "class":
            result = self.invoke(Method(simple[0], f"__{name}__"), simple[1:], named, node)
            return self.as_simple(result, node)
        if name == "len" and simple[0].type.kind == "Tuple":
            return self.literal(len(simple[0].type.inner))
        if name != "len" and simple and simple[0].type == TENSOR:
            result = self.aten(name, simple, named, node)
            return Simple(
                result.text,
                f"{name}({simple[0].py})" if name == "abs" else f"{simple[0].py}.{name}()",
                result.type,
            )
        if name == "abs":
            result = self.of_hosts(name, simple, named, node)
            return Simple(f"ops.prim.abs({simple[0].text})", result.py, result.type)
        return self.of_hosts(name, simple, named, node)

    def function_call(self, f: Any, node: ast.Call) -> Value:
        """A call of a function of Python: compiled, too, unless it is marked."""
        if isinstance(f, Module):
            return self.refuse(
                "a module that is no attribute of the compiled one cannot be called: make it an attribute",
                node,
            )
        mark = mark_of(f)
        if mark is not None:
            return self.marked_call(f, mark, node)
        inner = getattr(f, "__wrapped__", None) if self.unit.is_script_function(f) else None
        f = inner if inner is not None else f
        if inspect.ismethod(f) and isinstance(f.__self__, type):
            return self.refuse(
                "class methods of Python are not compiled: use a function or a static method", node
            )
        if not inspect.isfunction(f):
            shown = getattr(f, "__qualname__", None) or repr(f)
            return self.refuse(f"Python builtin {shown} is currently not supported in Torchscript", node)
        overloads = self.unit.overloads_of(f)
        args, kwargs = self.arguments(node)
        if overloads:
            return self.overloaded(f, overloads, args, kwargs, node)
        entry = self.unit.function(f, self, node)
        return self.entry_call(entry, args, kwargs, node)

    def overloaded(
        self, f: Any, overloads: list[Any], args: list[Value], kwargs: dict[str, Value], node: ast.AST
    ) -> Simple:
        """A call of a function with several signatures: the first that takes the arguments."""
        simple, named = self.all_simple(args, kwargs, node)
        for k, signature in enumerate(overloads):
            entry = self.unit.function(f, self, node, signature, k)
            for loosely in (False, True):
                if not isinstance(matched(f.__name__, entry.parameters, (), simple, named, loosely), str):
                    return self.entry_call(entry, args, kwargs, node)
        return self.refuse(f"no overload of {f.__name__} takes these arguments", node)

    def entry_call(self, entry: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Simple:
        """A call of a compiled function."""
        simple, named = self.all_simple(args, kwargs, node)
        bound, text = self.matched_call(entry, simple, named, node, entry.shown)
        return Simple(f"{entry.name}({text})", f"{entry.py}({', '.join(v.py for v in bound)})", entry.returns)

    def marked_call(self, f: Any, mark: str, node: ast.AST) -> Simple:
        """A call of what is marked: `ignore` leaves it to Python, `unused` raises where it is reached."""
        entry = self.unit.declared(f, self, node)
        assert isinstance(node, ast.Call)
        simple, named = self.all_simple(*self.arguments(node), node)
        bound, text = self.matched_call(entry, simple, named, node, entry.shown)
        if mark == "unused":
            why = f"{entry.shown} is marked `unused`: scripts must not call it"
            self.add(f"ops.prim.RaiseException({self.literal(why).text})", f"_g_raise({why!r}, None)")
            return Simple(f"uninitialized({entry.returns.text})", "None", entry.returns)
        self.unit.python_calls.append(entry.shown)
        py = f"{self.unit.bind(f, 'python')}({', '.join(v.py for v in bound)})"
        return Simple(f"ops.python.{entry.shown}({text})", py, entry.returns)

    # --- modules ------------------------------
    def module_call(
        self, owner: ModuleRef, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """A call of a method of a module."""
        special = owner.kind.items(owner) if name in ("items", "keys", "values") else None
        if special is not None and special.keys is not None:
            return self.invoke(Method(special, name), args, kwargs, node)
        function = owner.kind.python_method(name)
        if function is None:
            return self.refuse(f"Module '{owner.kind.shown}' has no attribute '{name}'", node)
        mark = mark_of(function)
        if mark is not None:
            return self.marked_method(owner, function, name, mark, args, kwargs, node)
        if any(not isinstance(a, Simple) for a in (*args, *kwargs.values())):
            specialised = owner.kind.specialised(name, args, kwargs, self, node)
            if specialised is not None:
                return specialised
        entry = owner.kind.method(name, self, node)
        simple, named = self.all_simple(args, kwargs, node)
        bound, text = self.matched_call(entry, simple, named, node, name)
        py = ", ".join([owner.py, *(v.py for v in bound)])
        text_owner = owner.text if owner.text == "self" else f"({owner.text})"
        return Simple(f"{text_owner}.{entry.method_name}({text})", f"{entry.py}({py})", entry.returns)

    def marked_method(
        self,
        owner: ModuleRef,
        function: Any,
        name: str,
        mark: str,
        args: list[Value],
        kwargs: dict[str, Value],
        node: ast.AST,
    ) -> Simple:
        entry = self.unit.declared(function, self, node, is_method=True)
        simple, named = self.all_simple(args, kwargs, node)
        bound, text = self.matched_call(entry, simple, named, node, name)
        if mark == "unused":
            why = f"{name} is marked `unused`: scripts must not call it"
            self.add(f"ops.prim.RaiseException({self.literal(why).text})", f"_g_raise({why!r}, None)")
            return Simple(f"uninitialized({entry.returns.text})", "None", entry.returns)
        self.unit.python_calls.append(name)
        function = self.unit.bind(function, "python")
        py = f"{function}({', '.join([f'_g_original({owner.py})', *(v.py for v in bound)])})"
        return Simple(f"ops.python.{name}({text})", py, entry.returns)

    def super_call(
        self, owner: Super, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        kind = owner.owner.kind
        entry = kind.super_method(owner.after, name, self, node)
        if entry is None:
            return self.refuse(f"super() has no method '{name}'", node)
        simple, named = self.all_simple(args, kwargs, node)
        bound, text = self.matched_call(entry, simple, named, node, name)
        return Simple(
            f"self.{entry.method_name}({text})",
            f"{entry.py}({', '.join(['self', *(v.py for v in bound)])})",
            entry.returns,
        )

    # --- isinstance and kin ------------------------------
    def special_call(self, node: ast.Call) -> Any:
        """A call that asks while the program is compiled, such as `isinstance`; None for any other."""
        f = self.host_of(node.func)
        if f is MISSING:
            return None
        maker = self.unit.questions.get(f) if getattr(f, "__hash__", None) is not None else None
        return None if maker is None else maker(self, node)

    def host_of(self, node: ast.expr) -> Any:
        """The object of Python that `a.b` is; MISSING for what the function itself defines."""
        if isinstance(node, ast.Name):
            return MISSING if self.look_up(node.id) is not None else self.code.resolve(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.host_of(node.value)
            if owner is MISSING or not inspect.ismodule(owner):
                return MISSING
            return getattr(owner, node.attr, MISSING)
        return MISSING

    def types_of(self, node: ast.expr) -> list[Any]:
        """The types that `isinstance` asks for; "List" for any list."""
        nodes = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
        result: list[Any] = []
        for part in nodes:
            kind = self.host_of(part)
            if isinstance(kind, tuple):
                result += [_CONTAINER_KINDS.get(k) or self.annotation(k, part) for k in kind]
            elif isinstance(kind, type) and kind in _CONTAINER_KINDS:
                result.append(_CONTAINER_KINDS[kind])
            else:
                result.append(self.annotation_of(part))
        return result

    def annotation_of(self, node: ast.expr) -> Type:
        """A type that stands in the program's text."""
        try:
            value = self.unit.evaluate(self, node)
        except Exception as error:  # noqa: BLE001  whatever the annotation raises
            return self.refuse(f"Unknown type name '{ast.unparse(node)}' ({error})", node)
        return self.annotation(value, node)

    def annotation(self, value: Any, node: ast.AST) -> Type:
        """What an annotation means."""
        try:
            return self.unit.annotation(value, self, node)
        except NoType as error:
            return self.refuse(str(error), node)
