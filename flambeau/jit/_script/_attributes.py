"""Attributes and items: `x.shape`, `self.layer`, `torch.float32`, `x[1:, None]`."""

from __future__ import annotations

import ast
import enum
import types
from typing import Any

from ..._tensor import Tensor
from ._hosts import METHODS, schemas
from ._lines import Lines
from ._operators import fit
from ._source import MISSING
from ._types import BOOL, DEVICE, INT, NONE, STR, TENSOR, List, Optional, Tuple, Type
from ._values import Host, Iteration, Method, ModuleRef, Several, Simple, Super, Value

# Attributes of tensors: code, Python, type.
_OF_TENSORS: dict[str, tuple[str, str, Type]] = {
    "dtype": ("ops.prim.dtype({})", "{}.dtype", INT),
    "device": ("ops.prim.device({})", "{}.device", DEVICE),
    "layout": ("ops.prim.layout({})", "{}.layout", INT),
    "requires_grad": ("ops.prim.requires_grad({})", "{}.requires_grad", BOOL),
    "is_cuda": ("ops.prim.is_cuda({})", "{}.is_cuda", BOOL),
    "is_cpu": ("ops.prim.is_cpu({})", "({}.device.type == 'cpu')", BOOL),
    "is_sparse": ("ops.prim.is_sparse({})", "{}.is_sparse", BOOL),
    "is_meta": ("ops.prim.is_meta({})", "{}.is_meta", BOOL),
    "is_quantized": ("ops.prim.is_quantized({})", "{}.is_quantized", BOOL),
    "is_nested": ("ops.prim.is_nested({})", "{}.is_nested", BOOL),
    "data": ("ops.prim.data({})", "{}.data", TENSOR),
    "grad": ("ops.prim.grad({})", "{}.grad", Optional(TENSOR)),
    "itemsize": ("ops.prim.itemsize({})", "{}.itemsize", INT),
    "ndim": ("torch.dim({})", "{}.ndim", INT),
    "T": ("torch.numpy_T({})", "{}.T", TENSOR),
    "mT": ("torch.mT({})", "{}.mT", TENSOR),
    "H": ("torch.matrix_H({})", "{}.H", TENSOR),
    "mH": ("torch.mH({})", "{}.mH", TENSOR),
    "real": ("torch.real({})", "{}.real", TENSOR),
    "imag": ("torch.imag({})", "{}.imag", TENSOR),
}
_SMALL = ("dim", "size", "numel", "len")


class Attributes(Lines):
    """The part of a function's compiler that reads attributes and items."""

    simple: Any
    simples: Any
    expression: Any
    as_simple: Any
    literal: Any
    evaluated: Any
    item_of: Any
    tuple_of: Any
    of_hosts: Any
    invoke: Any
    aten: Any

    # --- what Python's names are ------------------------------
    def outer(self, name: str, node: ast.AST) -> Value:
        """What a name outside of the function stands for."""
        result = self.code.resolve(name)
        if result is MISSING:
            return self.refuse(f"undefined value {name}", node)
        return self.of_python(result, node, name)

    def of_python(self, x: Any, node: ast.AST, name: str = "", is_constant: bool = False) -> Value:
        """What an object of Python is in a program; numbers and texts are values where a module has them."""
        if is_constant and type(x) in (int, float, bool, str, complex, type(None)):
            return self.literal(x)
        if is_constant and isinstance(x, tuple) and not hasattr(type(x), "_fields"):
            return Several([self.of_python(v, node, is_constant=True) for v in x])
        is_simple = type(x) in (int, float, bool, str, complex, type(None), list, tuple)
        constant = None if is_simple and not is_constant else self.unit.constant(x)
        return Host(x, name) if constant is None else constant

    # --- attributes ------------------------------
    def attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        """`owner.name`."""
        if isinstance(owner, Host):
            return self.host_attribute(owner, name, node)
        if isinstance(owner, ModuleRef):
            return self.module_attribute(owner, name, node)
        if isinstance(owner, Several):
            if name in ("items", "keys", "values") and owner.keys is not None:
                return Method(owner, name)
            return self.refuse(f"a {owner.what} has no attribute '{name}'", node)
        if isinstance(owner, Super):
            return Method(owner, name)
        if not isinstance(owner, Simple):
            return self.refuse(f"{owner.shown()} has no attribute '{name}'", node)
        return self.value_attribute(owner, name, node)

    def host_attribute(self, owner: Host, name: str, node: ast.AST) -> Value:
        result = getattr(owner.value, name, MISSING)
        if result is MISSING:
            kind = "module" if isinstance(owner.value, types.ModuleType) else type(owner.value).__name__
            return self.refuse(
                f"{kind} '{getattr(owner.value, '__name__', owner.name)}' has no attribute '{name}'", node
            )
        if isinstance(owner.value, type) and isinstance(result, enum.Enum):
            return self.unit.enum_member(result, self, node)
        return self.of_python(result, node, name, is_constant=True)

    def module_attribute(self, owner: ModuleRef, name: str, node: ast.AST) -> Value:
        result = owner.kind.attribute(owner, name)
        if isinstance(result, str):
            return self.refuse(result, node)
        if isinstance(result, Host):
            return self.of_python(result.value, node, name, is_constant=True)
        if isinstance(result, Method) and result.name.startswith("@"):  # a property
            return self.invoke(Method(owner, result.name[1:]), [], {}, node)
        return result

    def value_attribute(self, owner: Simple, name: str, node: ast.AST) -> Value:
        t = owner.type
        if t == TENSOR:
            return self.tensor_attribute(owner, name, node)
        if t.kind == "class":
            return self.object_attribute(owner, name, node)
        if t.kind == "interface":
            if name in self.unit.interfaces[t.name]:
                return Method(owner, name)
        elif t.kind == "enum" and name in ("name", "value"):
            return self.unit.enum_part(owner, name)
        elif t.kind == "Tuple" and name in t.fields:
            k = t.fields.index(name)
            if t.name:
                return Simple(f"({owner.text}).{name}", f"{owner.py}[{k}]", t.inner[k])
            return self.item_of(owner, k)
        elif t == DEVICE and name in ("type", "index"):
            return Simple(
                f"ops.prim.{name}({owner.text})",
                f"{owner.py}.{name}",
                STR if name == "type" else Optional(INT),
            )
        elif t.kind == "Future" and name in ("wait", "done", "value"):
            return Method(owner, name)
        elif t.kind in METHODS and name in METHODS[t.kind] and (name in schemas() or name == "format"):
            return Method(owner, name)
        return self.refuse(f"'{t}' object has no attribute or method '{name}'.", node)

    def tensor_attribute(self, owner: Simple, name: str, node: ast.AST) -> Value:
        if name == "shape":
            return Simple(
                f"torch.size({owner.text})", f"list({owner.py}.shape)", List(INT), shape=f"{owner.py}.shape"
            )
        if name in _OF_TENSORS:
            text, py, t = _OF_TENSORS[name]
            return Simple(text.format(owner.text), py.format(owner.py), t, small=t == INT)
        if not name.startswith("__") and (callable(getattr(Tensor, name, None)) or name in schemas()):
            return Method(owner, name)
        shown = "Tensor (inferred)" if getattr(owner, "inferred", False) else "Tensor"
        return self.refuse(f"'{shown}' object has no attribute or method '{name}'.", node)

    def object_attribute(self, owner: Simple, name: str, node: ast.AST) -> Value:
        kind = self.unit.class_of(owner.type)
        if name in kind.attributes:
            t = kind.attributes[name]
            return Simple(f"({owner.text}).{name}", f"{owner.py}.values[{name!r}]", t)
        if kind.has(name):
            if kind.is_property(name):
                return self.invoke(Method(owner, name), [], {}, node)
            return Method(owner, name)
        result = getattr(kind.python, name, MISSING)
        if result is not MISSING and not callable(result):
            return self.of_python(result, node, name, is_constant=True)
        return self.refuse(
            f"Tried to access nonexistent attribute or method '{name}' of type '{owner.type}'", node
        )

    # --- items ------------------------------
    def subscript(self, node: ast.Subscript) -> Value:
        owner = self.expression(node.value)
        if isinstance(owner, Host):
            return self.refuse(f"{owner.shown()} is not subscriptable", node)
        if isinstance(owner, (Several, ModuleRef)):
            return self.static_item(owner, node)
        if isinstance(owner, Iteration):
            owner = self.as_simple(owner, node)
        assert isinstance(owner, Simple)
        kind = owner.type.kind
        if kind == "Tensor":
            return self.tensor_item(owner, node.slice, node)
        if isinstance(node.slice, ast.Slice):
            return self.slice_of(owner, node.slice, node)
        if kind == "Tuple":
            return self.tuple_item(owner, node)
        if kind not in ("List", "Dict", "str", "class"):
            return self.refuse(f"'{owner.type}' object is not subscriptable", node)
        result = self.evaluated([lambda: owner, lambda: self.simple(node.slice)])
        owner, index = (v for v in result if isinstance(v, Simple))
        if kind == "class":
            return self.invoke(Method(owner, "__getitem__"), [index], {}, node)
        wanted = owner.type.inner[0] if kind == "Dict" else INT
        fitted = fit(index, wanted, {}, None, True)
        if fitted is None:
            what = "a key" if kind == "Dict" else "an index"
            return self.refuse(
                f"{what} of a {owner.type} is a {wanted}, got a value of type {index.type}", node
            )
        index = fitted
        t = STR if kind == "str" else owner.type.inner[-1]
        return Simple(f"({owner.text})[{index.text}]" if not owner.stable else f"{owner.text}[{index.text}]",
                      f"{owner.shape or owner.py}[{index.py}]", t, small=bool(owner.shape))  # fmt: skip

    def static_item(self, owner: Value, node: ast.Subscript) -> Value:
        """An item of what is there while the program is compiled: a list of modules, a tuple of them."""
        if isinstance(owner, ModuleRef):
            result = owner.kind.items(owner)
            if result is None:
                method = owner.kind.method_of("__getitem__")
                if method is not None:
                    return self.invoke(Method(owner, "__getitem__"), [self.simple(node.slice)], {}, node)
                return self.refuse(f"{owner.shown()} is not subscriptable", node)
            owner = result
        assert isinstance(owner, Several)
        if isinstance(node.slice, ast.Slice):
            start, stop, step = (
                None if part is None else self.fixed(part, node)
                for part in (node.slice.lower, node.slice.upper, node.slice.step)
            )
            return Several(owner.items[start:stop:step], None, owner.what)
        key = self.fixed(node.slice, node)
        if owner.keys is not None and isinstance(key, str):
            if key not in owner.keys:
                return self.refuse(f"Key Error, {key}", node)
            return owner.items[owner.keys.index(key)]
        if not isinstance(key, int) or not -len(owner.items) <= key < len(owner.items):
            return self.refuse(f"Tuple/list index {key!r} out of range of {len(owner.items)} items", node)
        return owner.items[key]

    def fixed(self, node: ast.expr, at: ast.AST) -> Any:
        """A value that must be known while the program is compiled."""
        result = self.simple(node)
        if not result.is_constant:
            return self.refuse(
                "Unable to extract a known value: the index of a list of modules or of a tuple must be a literal, such as "
                "`self.layers[0]`; or use a "
                "loop over it (enumerate)",
                at,
            )
        return result.constant

    def tuple_item(self, owner: Simple, node: ast.Subscript) -> Simple:
        key = self.simple(node.slice)
        size = len(owner.type.inner)
        if not key.is_constant or type(key.constant) is not int:
            types_ = set(owner.type.inner)
            if key.type == INT and len(types_) == 1:
                held = owner if owner.items is not None else self.held(owner)
                text = ", ".join(self.item_of(held, k).text for k in range(size))
                return Simple(f"([{text}])[{key.text}]", f"{held.py}[{key.py}]", owner.type.inner[0])
            return self.refuse("tuple index must be a compile time constant", node)
        k = key.constant
        if not -size <= k < size:
            return self.refuse("Tuple index out of range", node)
        return self.item_of(owner, k % size)

    def bounds(self, part: ast.Slice) -> list[Simple]:
        """The bounds of a slice; None for those left out."""
        nodes = (part.lower, part.upper, part.step)
        makers = [lambda n=n: self.literal(None) if n is None else self.simple(n) for n in nodes]
        result = [v for v in self.evaluated(makers) if isinstance(v, Simple)]
        for value in result:
            if value.type not in (INT, NONE, Optional(INT), TENSOR):
                return self.refuse(f"a bound of a slice is an int, got a value of type {value.type}", part)
        return result

    def slice_of(self, owner: Simple, part: ast.Slice, node: ast.AST) -> Simple:
        """`x[a:b:c]` of a list, a text or a tuple."""
        if owner.type.kind not in ("List", "str", "Tuple"):
            return self.refuse(f"'{owner.type}' object cannot be sliced", node)
        values = self.evaluated([lambda: owner, *[lambda v=v: v for v in self.bounds(part)]])
        result, *limits = (v for v in values if isinstance(v, Simple))
        if owner.type.kind == "Tuple":
            if not all(v.is_constant for v in limits):
                return self.refuse("tuple slice must be a compile time constant", node)
            held = owner if owner.items is not None else self.held(owner)
            items = [self.item_of(held, k) for k in range(len(owner.type.inner))]
            return self.tuple_of(items[slice(*(v.constant for v in limits))])
        start, stop, step = limits
        stepping = "1" if step.type == NONE else step.text
        shown = ":".join("" if v.type == NONE else v.py for v in limits)
        return Simple(
            f"torch.slice({result.text}, {start.text}, {stop.text}, {stepping})",
            f"{result.py}[{shown}]",
            owner.type,
        )

    # --- items of tensors ------------------------------
    def tensor_item(self, owner: Simple, index: ast.expr, node: ast.AST) -> Simple:
        """`x[i, 1:, None]` as selections, cuts and look-ups."""
        parts, values = self.index_parts(owner, index)
        text, looked = self.steps(values[0].text, parts, values[1:], node)
        py = f"{values[0].py}[{self.index_python(parts, values[1:])}]"
        if looked:
            text = f"torch.index({text}, {looked})"
        return Simple(text if text != values[0].text else f"torch.alias({text})", py, TENSOR)

    def index_parts(self, owner: Simple, index: ast.expr) -> tuple[list[Any], list[Simple]]:
        """The parts of an index, each with how many of the values it takes; the values follow the indexed one."""
        nodes = list(index.elts) if isinstance(index, ast.Tuple) else [index]
        makers: list[Any] = [lambda: owner]
        parts: list[Any] = []
        for part in nodes:
            if isinstance(part, ast.Slice):
                three = [part.lower, part.upper, part.step]
                parts.append(("slice", part))
                makers += [lambda n=n: self.literal(None) if n is None else self.simple(n) for n in three]
            elif isinstance(part, ast.Constant) and part.value is Ellipsis:
                parts.append(("...", part))
            else:
                parts.append(("value", part))
                makers.append(lambda n=part: self.simple(n))
        result = [v for v in self.evaluated(makers) if isinstance(v, Simple)]
        if len(nodes) == 1 and parts[0][0] == "value" and result[1].type.kind == "Tuple":  # x[pair]
            items = [self.item_of(self.held(result[1]), k) for k in range(len(result[1].type.inner))]
            return [("value", index)] * len(items), [result[0], *items]
        return parts, result

    def index_python(self, parts: list[Any], values: list[Simple]) -> str:
        remaining = iter(values)
        shown = []
        for kind, _ in parts:
            if kind == "slice":
                three = [next(remaining) for _ in range(3)]
                shown.append(
                    "slice(" + ", ".join(v.py for v in three) + ")"
                    if any(v.type != NONE for v in three)
                    else ":"
                )
            else:
                shown.append("..." if kind == "..." else next(remaining).py)
        return ", ".join(shown)

    def steps(self, text: str, parts: list[Any], values: list[Simple], node: ast.AST) -> tuple[str, str]:
        """The tensor that the plain parts choose, and the list of those that look up ("" for none)."""
        remaining, dim, looked = iter(values), 0, list[str | None]()
        for k, (kind, part) in enumerate(parts):
            if kind == "...":
                rest = sum(self._consumes(p, v) for p, v in self._paired(parts[k + 1 :], values))
                if any(t is not None for t in looked) and any(v.type == TENSOR for v in values):
                    return self.refuse(
                        "an ellipsis between tensors in an index is not compiled: write the dimensions out",
                        part,
                    )
                dim = -rest if rest else dim
                if not rest:
                    break
                continue
            if kind == "slice":
                three = [next(remaining) for _ in range(3)]
                if any(v.type != NONE for v in three):
                    step = "1" if three[2].type == NONE else three[2].text
                    text = f"torch.slice({text}, {dim}, {three[0].text}, {three[1].text}, {step})"
                looked.append(None)
                dim += 1
                continue
            value = next(remaining)
            index_type = value.type
            if index_type == INT:
                text = f"torch.select({text}, {dim}, {value.text})"
                if dim < 0:
                    dim += 1
            elif index_type == NONE:
                text = f"torch.unsqueeze({text}, {dim - (dim < 0)})"
                looked.append(None)
                dim += dim >= 0
            elif index_type in (TENSOR, Optional(TENSOR)):
                looked.append(value.text)
                dim += 1
            elif index_type == List(INT) or index_type == List(BOOL):
                looked.append(f"torch.tensor({value.text})")
                dim += 1
            else:
                return self.refuse(
                    f"Unsupported operation: indexing tensor with unsupported index type '{index_type}'. Only ints, slices, lists and "
                    "tensors are supported",
                    part,
                )
        while looked and looked[-1] is None:
            looked.pop()
        if not looked:
            return text, ""
        if any(kind == "..." for kind, _ in parts):
            return self.refuse(
                "an ellipsis beside tensors in an index is not compiled: write the dimensions out", node
            )
        items = ", ".join("None" if t is None else t for t in looked)
        return text, f"annotate(List[Optional[Tensor]], [{items}])"

    def _paired(self, parts: list[Any], values: list[Simple]) -> list[tuple[Any, Simple | None]]:
        """The last parts of an index with their values."""
        result: list[tuple[Any, Simple | None]] = []
        at = len(values)
        for kind, _ in reversed(parts):
            at -= 3 if kind == "slice" else 1
            result.append((kind, None if kind == "slice" else values[at]))
        return result

    @staticmethod
    def _consumes(kind: Any, value: Simple | None) -> int:
        return 0 if value is not None and value.type == NONE else 1


__all__ = ["Attributes", "Tuple"]
