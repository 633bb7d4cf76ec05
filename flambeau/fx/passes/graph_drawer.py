"""`FxGraphDrawer`: pictures of graphs, by Graphviz."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from .._names import qualified_name
from ..graph_module import GraphModule
from ..node import Node, _format_arg
from .shape_prop import TensorMetadata

if TYPE_CHECKING:
    import pydot

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": "AliceBlue",
    "output": "PowderBlue",
    "get_attr": "LightGrey",
    "call_function": "PapayaWhip",
    "call_method": "LavenderBlush",
    "call_module": "LemonChiffon1",
}


class FxGraphDrawer:
    """A picture of a GraphModule: a box for each node with its name, kind, target, arguments and shape, an arrow for each use.

    `ignore_getattr` leaves get_attr nodes out, `ignore_parameters_and_buffers` the lists of them, `skip_node_names_in_args` names of
    nodes among arguments; `parse_stack_trace` adds lines of the program; `dot_graph_shape` is the shape of the boxes, by default "record".

    RuntimeError, which names the package, where pydot is not installed.

    >>> from flambeau.fx.passes.graph_drawer import FxGraphDrawer
    >>> FxGraphDrawer.__name__  # FxGraphDrawer(module, "net").get_dot_graph().write_svg("net.svg")
    'FxGraphDrawer'
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        self._name, self.dot_graph_shape = name, dot_graph_shape or "record"
        self._without = ignore_getattr
        self._bare = ignore_parameters_and_buffers
        self._literals = skip_node_names_in_args
        self._traces, self._normalize = parse_stack_trace, normalize_args
        try:
            import pydot  # noqa: F401
        except ImportError:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed: pip install pydot"
            ) from None
        self._dot_graphs = {name: self._drawn(graph_module, name)}
        for node in graph_module.graph.nodes:
            if node.op == "call_module":
                inner = graph_module.get_submodule(str(node.target))
                if isinstance(inner, GraphModule):
                    self._dot_graphs[f"{name}_{node.target}"] = self._drawn(inner, f"{name}_{node.target}")

    def get_dot_graph(self, submod_name: str | None = None) -> pydot.Dot:
        """The picture as a `pydot.Dot`, of the module or of a GraphModule in it."""
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> pydot.Dot:
        """The picture of the module."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> pydot.Dot:
        """That of a GraphModule in it, by its name."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, pydot.Dot]:
        """All of them by their names."""
        return self._dot_graphs

    def _drawn(self, module: GraphModule, name: str) -> Any:
        import pydot

        picture = pydot.Dot(name, rankdir="TB")
        for node in module.graph.nodes:
            if self._without and node.op == "get_attr":
                continue
            style = {
                "shape": self.dot_graph_shape,
                "fillcolor": _COLORS.get(node.op, "white"),
                "style": '"filled,rounded"',
                "fontcolor": "#000000",
            }
            picture.add_node(pydot.Node(node.name, label=self._label(module, node), **style))
            for user in node.users:
                picture.add_edge(pydot.Edge(node.name, user.name))
        return picture

    def _label(self, module: GraphModule, node: Node) -> str:
        rows = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            called = module.get_submodule(str(node.target))
            rows[-1] += f"\\n{type(called).__module__}.{type(called).__name__}"
            shown = () if self._bare else chain(called.named_parameters(), called.named_buffers())
            rows += [f"{name}: {tuple(value.shape)}" for name, value in shown]
            rows += [f"{name}: {getattr(called, name)}" for name in getattr(called, "__constants__", ())]
        else:
            target = node.target if isinstance(node.target, str) else qualified_name(node.target)
            rows.append(f"target={target}")
        args, kwargs = node.args, node.kwargs
        if self._normalize:
            normalized = node.normalized_arguments(module, normalize_to_only_use_kwargs=True)
            args, kwargs = ((), normalized.kwargs) if normalized is not None else (args, kwargs)
        if node.op != "output":
            args = tuple(a for a in args if not (self._literals and isinstance(a, Node)))
            if args:
                rows.append(f"args={_format_arg(args, 8)}")
            if kwargs:
                rows.append(f"kwargs={_format_arg(kwargs, 8)}")
            rows.append(f"num_users={len(node.users)}")
        meta = node.meta.get("tensor_meta")
        for each in (meta,) if isinstance(meta, TensorMetadata) else meta or ():
            if isinstance(each, TensorMetadata):
                rows.append(
                    f"dtype={each.dtype}\\nshape={tuple(each.shape)}\\nrequires_grad={each.requires_grad}"
                )
        if self._traces and node.stack_trace:
            rows.append(node.stack_trace.strip().splitlines()[-1].strip())
        text = "|".join(row.translate(_ESCAPED) for row in rows)
        return f'"{{{text}}}"' if self.dot_graph_shape == "record" else f'"{text}"'


_ESCAPED = str.maketrans({"{": r"\{", "}": r"\}", "<": r"\<", ">": r"\>", '"': r"\"", "|": r"\|"})
