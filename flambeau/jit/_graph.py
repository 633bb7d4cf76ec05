"""`.graph`: the calls of a function's code as nodes, printed as PyTorch prints its graphs, without the types of what they give."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ._objects import Function
from ._parser import dotted


class Value:
    """What a node gives, or an input."""

    def __init__(self, name: str, node: Node | None) -> None:
        self._name, self._node = name, node

    def debugName(self) -> str:
        """Its name."""
        return self._name

    def node(self) -> Node | None:
        """The node that gives it; None for an input."""
        return self._node

    def __repr__(self) -> str:
        return f"%{self._name}"


class Node:
    """A call, a constant, or a branch or a loop with blocks of nodes."""

    def __init__(self, kind: str, inputs: list[Value], shown: str = "") -> None:
        self._kind, self._inputs, self._shown = kind, inputs, shown
        self._outputs: list[Value] = []
        self._blocks: list[list[Node]] = []

    def kind(self) -> str:
        """`aten::add`, `prim::If`."""
        return self._kind

    def inputs(self) -> Iterator[Value]:
        """What it takes."""
        return iter(self._inputs)

    def outputs(self) -> Iterator[Value]:
        """What it gives."""
        return iter(self._outputs)

    def output(self) -> Value:
        """What it gives, where that is one value."""
        return self._outputs[0]

    def blocks(self) -> list[list[Node]]:
        """The nodes of its branches, or of what it repeats."""
        return self._blocks

    def lines(self, before: str) -> list[str]:
        """The node as text."""
        gives = f"{', '.join(map(repr, self._outputs))} = " if self._outputs else ""
        result = [f"{before}{gives}{self._kind}{self._shown}({', '.join(map(repr, self._inputs))})"]
        for k, block in enumerate(self._blocks):
            result.append(f"{before}  block{k}():")
            result += [line for node in block for line in node.lines(before + "    ")]
        return result

    def __repr__(self) -> str:
        return "\n".join(self.lines(""))


class Graph:
    """The nodes of a function, in the order in which its code has them."""

    def __init__(self, function: Function) -> None:
        self.counter = 0
        definition = function.definition
        self._inputs = [Value(a.arg, None) for a in definition.args.args]
        self.names = {v.debugName(): v for v in self._inputs}
        self._nodes = self.block(definition.body)

    def nodes(self) -> Iterator[Node]:
        """The nodes; those within branches and loops are in their `blocks`."""
        return iter(self._nodes)

    def inputs(self) -> Iterator[Value]:
        """The parameters."""
        return iter(self._inputs)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """The nodes of a kind, those in blocks too."""

        def among(nodes: list[Node]) -> Iterator[Node]:
            for node in nodes:
                if node.kind() == kind:
                    yield node
                for block in node.blocks() if recurse else ():
                    yield from among(block)

        return list(among(self._nodes))

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind; None where there is none."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def __str__(self) -> str:
        inputs = ",\n      ".join(map(repr, self._inputs))
        return "\n".join([f"graph({inputs}):", *(line for n in self._nodes for line in n.lines("  "))]) + "\n"

    __repr__ = __str__

    # --- from code ------------------------------
    def block(self, statements: list[ast.stmt]) -> list[Node]:
        """The nodes of statements."""
        result: list[Node] = []
        for statement in statements:
            self.statement(statement, result)
        return result

    def statement(self, node: ast.stmt, result: list[Node]) -> None:
        if isinstance(node, ast.Assign):
            value, target = self.expression(node.value, result), node.targets[0]
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            if len(names) > 1:
                value = self.add("prim::TupleUnpack", [value], result, len(names))
                outputs = list(value.node()._outputs) if value.node() is not None else [value]  # type: ignore[union-attr]
            else:
                outputs = [value]
            for name, each in zip(names, outputs):
                if isinstance(name, ast.Name):
                    self.names[name.id] = each
                elif isinstance(name, ast.Attribute):
                    owner = self.expression(name.value, result)
                    self.add("prim::SetAttr", [owner, each], result, 0, f'[name="{name.attr}"]')
        elif isinstance(node, ast.Expr):
            self.expression(node.value, result)
        elif isinstance(node, ast.Return):
            values = [] if node.value is None else [self.expression(node.value, result)]
            self.add("prim::Return", values, result, 0)
        elif isinstance(node, (ast.If, ast.While)):
            test = self.expression(node.test, result)
            self.add("prim::If" if isinstance(node, ast.If) else "prim::Loop", [test], result, 0)
            made = result[-1]
            made._blocks = [self.block(part) for part in (node.body, node.orelse) if part]
        elif isinstance(node, ast.For):
            assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
            count = self.expression(node.iter.args[0], result)
            self.add("prim::Loop", [count], result, 0)
            made = result[-1]
            self.names[node.target.id] = Value(node.target.id, made)
            made._blocks = [self.block(node.body)]
        elif isinstance(node, ast.With):
            self.add("prim::Enter", [], result, 0)
            result[-1]._blocks = [self.block(node.body)]
        elif isinstance(node, (ast.Break, ast.Continue)):
            self.add(f"prim::{type(node).__name__}Stmt", [], result, 0)

    def add(
        self, kind: str, inputs: list[Value], result: list[Node], count: int = 1, shown: str = ""
    ) -> Value:
        """Append a node; the first of what it gives."""
        made = Node(kind, inputs, shown)
        for _ in range(count):
            self.counter += 1
            made._outputs.append(Value(str(self.counter), made))
        result.append(made)
        return made._outputs[0] if made._outputs else Value("", made)

    def expression(self, node: ast.expr, result: list[Node]) -> Value:
        """What an expression gives; its calls are appended."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id) or self.add("prim::Constant", [], result, 1, f"[value={node.id}]")
        if isinstance(node, ast.Constant):
            return self.add("prim::Constant", [], result, 1, f"[value={node.value!r}]")
        if isinstance(node, ast.Call):
            return self.call(node, result)
        if isinstance(node, ast.Attribute):
            names = dotted(node)
            if names is not None and names[0] not in self.names:
                return self.add("prim::Constant", [], result, 1, f"[value={'.'.join(names)}]")
            return self.add(
                "prim::GetAttr", [self.expression(node.value, result)], result, 1, f'[name="{node.attr}"]'
            )
        kinds: dict[type, str] = {ast.List: "prim::ListConstruct", ast.Tuple: "prim::TupleConstruct"}
        if isinstance(node, (ast.List, ast.Tuple)):
            return self.add(kinds[type(node)], [self.expression(e, result) for e in node.elts], result)
        if isinstance(node, ast.Dict):
            parts = [p for pair in zip(node.keys, node.values) for p in pair if p is not None]
            return self.add("prim::DictConstruct", [self.expression(p, result) for p in parts], result)
        if isinstance(node, ast.Subscript):
            parts = [node.value, node.slice]
            return self.add("aten::__getitem__", [self.expression(p, result) for p in parts], result)
        assert isinstance(node, ast.UnaryOp)
        return self.add("aten::neg", [self.expression(node.operand, result)], result)

    def call(self, node: ast.Call, result: list[Node]) -> Value:
        names = dotted(node.func)
        args = [*node.args, *(k.value for k in node.keywords)]
        if (
            names is not None
            and len(names) == 1
            and names[0] in ("annotate", "unchecked_cast", "uninitialized", "isinstance")
        ):
            values = [
                self.expression(v, result)
                for v in args
                if v is not args[-1 if names[0] == "isinstance" else 0]
            ]
            return self.add(f"prim::{names[0]}", values, result)
        inputs = [self.expression(v, result) for v in args]
        if names is None or names[0] in self.names:
            assert isinstance(node.func, ast.Attribute)
            owner = self.expression(node.func.value, result)
            return self.add("prim::CallMethod", [owner, *inputs], result, 1, f'[name="{node.func.attr}"]')
        if names[0] == "__torch__":
            return self.add("prim::CallFunction", inputs, result, 1, f'[name="{".".join(names)}"]')
        kind = "::".join(names[1:]) if names[0] == "ops" else f"aten::{names[-1]}"
        return self.add(kind, inputs, result)
