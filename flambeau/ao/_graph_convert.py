"""An observed graph becomes one over quantised tensors.

Each value of the graph has up to two forms, codes and floats.  An operation that has a form over codes, whose inputs are codes and whose
result was observed, takes codes; every other takes floats.  `dequantize` stands where codes meet such an operation, once for each value.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Any

from ..core.base.dtypes import by_name
from ..core.call.operation import behind
from ..core.make.literal import tensor
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_arg
from ..operations.declare.registry import published
from ..operations.neural.quantizing import dequantize, quantize_per_tensor
from . import _mappings as mappings
from . import _quantized_arithmetic as arithmetic
from ._graph_configs import ConvertCustomConfig, QuantType
from ._graph_prepare import KEY, configured, is_dynamic, is_static, supported
from ._graph_roles import BINARY, LAYERS, WEIGHTED, Match, Role, Roles, arguments, name_of
from ._graph_trace import finished, keep_attributes
from ._prepare import _forget, swap_module
from ._qconfig import QConfig
from ._qconfig_mapping import QConfigMapping
from ._quantized_operations import needs_scale

_LINEAR = behind(published("nn.functional.")["linear"])


class _Conversion:
    """Writes the graph of one model anew."""

    def __init__(
        self, model: GraphModule, custom: ConvertCustomConfig, mapping: QConfigMapping | None
    ) -> None:
        self.model, self.old, self.new = model, model.graph, Graph()
        self.facts = model.meta[KEY]
        self.kinds = custom.observed_to_quantized_mapping.get(QuantType.STATIC, {})
        self.roles = Roles(
            self.old,
            dict(model.named_modules(remove_duplicate=False)),
            {*self.facts["custom"].values(), *self.kinds},
        )
        self.left = self._left(mapping)
        self.firsts = {m.first: m for m in self.roles.matches.values() if m.first is not m.last}
        self.floats: dict[Node, Node] = {}
        self.codes: dict[Node, Node] = {}
        self.scales: dict[Node, str] = {}  # of observers: what the names of their buffers begin and end with
        self.layers: dict[Any, Any] = {}  # made of which

    def _left(self, mapping: QConfigMapping | None) -> set[Node]:
        """Operations that a mapping leaves in floats."""
        if mapping is None:
            return set()
        scopes = {name: (path, None) for name, path in self.facts["scopes"].items()}
        return {
            n for n, qconfig in configured(self.old, self.roles, mapping, scopes).items() if qconfig is None
        }

    def run(self) -> GraphModule:
        self._name_scales()
        inputs = 0
        for node in self.old.nodes:
            if node.op == "placeholder":
                forms = self.codes if inputs in self.facts["inputs"] else self.floats
                forms[node] = self.new.node_copy(node)
                inputs += 1
            elif node.op == "output":
                form = self._either if self.facts["outputs"] else self._float
                self.new.node_copy(node, form)
            elif self.roles.observer(node) is not None:
                self._observer(node)
            elif node not in self.firsts:
                match = self.roles.matches.get(node)
                if (
                    match is None
                    or match.first in self.left
                    or match.last in self.left
                    or not self._lowered(match)
                ):
                    self._kept(match, node)
        for node in list(self.new.nodes):
            if node.op == "get_attr" and not node.users:  # weights that are in layers now
                self.new.erase_node(node)
        made = GraphModule(self.model, self.new, type(self.model).__name__)
        return finished(made.train(self.model.training))

    # --- forms of values -------------------------------------------------

    def _float(self, node: Node) -> Node:
        if node not in self.floats:
            match = self.roles.matches.get(node)
            several = match is not None and match.role is Role.MOVED  # which may be a tuple
            if several:
                self.floats[node] = self.new.call_function(dequantize, (self.codes[node],))
            else:
                self.floats[node] = self.new.call_method("dequantize", (self.codes[node],))
        return self.floats[node]

    def _either(self, node: Node) -> Node:
        return self.codes.get(node) or self.floats[node]

    def _kept(self, match: Match | None, node: Node) -> None:
        """An operation over floats, as it was."""
        for each in (node,) if match is None else match.nodes():
            self.floats[each] = self.new.node_copy(each, self._float)

    # --- observers -------------------------------------------------

    def _name_scales(self) -> None:
        """Name the scale of each observer by where it stands, as PyTorch does, so that states have the same keys."""
        count: dict[str, int] = defaultdict(int)
        for node in self.old.nodes:
            if not is_static(self.roles.observer(node)):
                continue
            source = node.args[0]
            of_input = source.name in self.facts["scopes"] and source.name not in self.facts["configured"]
            if of_input:
                linear = (n for n in node.users if n.op == "call_function" and behind(n.target) is _LINEAR)
                source = next(linear, next(iter(node.users), source))
            path = self.facts["scopes"].get(source.name, "").replace(".", "_") + "_input" * of_input
            self.scales[node] = f"{path}_scale_{count[path]}"
            count[path] += 1

    def _scale(self, node: Node) -> tuple[Node, Node]:
        """Nodes that read the scale and the zero point of an observer, which become buffers."""
        observer = self.roles.observer(node)
        values = observer.calculate_qparams()
        begin, _, end = self.scales[node].rpartition("_scale_")
        result = []
        for name, value, kind, dtype in zip(
            (self.scales[node], f"{begin}_zero_point_{end}"), values, (float, int), ("float32", "int64")
        ):
            if not hasattr(self.model, name):
                self.model.register_buffer(name, tensor(kind(value), dtype=by_name[dtype]))
            result.append(self.new.get_attr(name))
        return result[0], result[1]

    def _observer(self, node: Node) -> None:
        """Codes of what is observed: those that there are, or new ones."""
        observer, source = self.roles.observer(node), node.args[0]
        if source in self.codes:
            self.codes[node] = self.codes[source]
            if source in self.floats:
                self.floats[node] = self.floats[source]
            return
        self.floats[node] = self.floats[source]
        if not is_static(observer) or self._is_weight(node) or not self._wanted(node):
            return
        given = (self.floats[source], *self._scale(node), observer.dtype)
        self.codes[node] = self.new.call_function(quantize_per_tensor, given)
        del self.floats[node]

    def _is_weight(self, node: Node) -> bool:
        functions = [m.first for m in self.roles.matches.values() if m.role is Role.LAYER]
        return any(arguments(n).get("weight") is node for n in functions if n.op == "call_function")

    def _wanted(self, node: Node) -> bool:
        """Whether an operation beside an observer is to be quantised."""
        beside = (node.args[0], *node.users)
        return not self.left or any(
            n not in self.left and n.op not in ("placeholder", "output") for n in beside
        )

    def _of_result(self, match: Match) -> Any:
        """The node that observes an operation's result, or None."""
        return next((n for n in match.last.users if is_static(self.roles.observer(n))), None)

    # --- operations -------------------------------------------------

    def _lowered(self, match: Match) -> bool:
        """Write an operation over codes; False where it is not to be, or cannot be."""
        node, role = match.first, match.role
        module: Any = self.roles.modules[str(node.target)] if node.op == "call_module" else None
        if role is Role.TABLE or role is Role.RECURRENT or self._rounds_itself(node):
            return self._float_layer(match, module)
        if role is Role.BINARY:
            given = [a for a in node.args if a in self.roles.tensors]
        else:
            first = arguments(node)["input"] if role is Role.LAYER and module is None else self._first(node)
            given = list(first) if isinstance(first, (list, tuple)) else [first]
        if not given or any(n not in self.codes for n in given):
            return False
        result, last = self._of_result(match), match.last
        if role in (Role.SHARED, Role.MOVED):
            self._over_codes(node)
        elif result is None or (role is Role.CUSTOM and type(module) not in self.kinds):
            return False
        elif role is Role.BINARY:
            self._binary(match, given, result)
        elif role is Role.LAYER and module is None:
            self._function_layer(match, given[0], result)
        elif role is Role.CUSTOM:
            module.activation_post_process = self.roles.observer(result)
            self._call(match, self._made(module, lambda: self.kinds[type(module)].from_observed(module)))
        elif module is not None and type(module) in LAYERS:
            module.activation_post_process = self.roles.observer(result)
            self._call(match, self._made(module, lambda: swap_module(module, LAYERS)))
        elif module is None and needs_scale(name_of(node)):
            self._with_scale(match, result)
        else:
            self._over_codes(node)
        return last in self.codes

    def _first(self, node: Node) -> Any:
        return node.args[0] if node.args else next(iter(node.kwargs.values()), None)

    def _over_codes(self, node: Node) -> None:
        """The same operation: its first argument in codes, others, which are indices and sizes, as they are."""
        first = self._first(node)

        def form(n: Node) -> Node:
            inside = n is first or (isinstance(first, (list, tuple)) and n in first)
            return self.codes[n] if inside else self._float(n)

        self.codes[node] = self.new.node_copy(node, form)

    def _binary(self, match: Match, given: list[Node], result: Node) -> None:
        forms = BINARY[behind(match.first.target)]
        function = forms.plain if match.first is match.last else forms.relu
        if len(given) == 2:
            args = (*(self.codes[n] for n in given), *self._scale(result))
        else:
            number = next(a for a in match.first.args if a is not given[0])
            args = (self.codes[given[0]], map_arg(number, self._float))
        self.codes[match.last] = self.new.call_function(function, args)

    def _with_scale(self, match: Match, result: Node) -> None:
        node = match.first
        args = map_arg(node.args, self._either)
        scale, zero_point = self._scale(result)
        kwargs = {
            **map_arg(node.kwargs, self._either),
            "output_scale": scale,
            "output_zero_point": zero_point,
        }
        self.codes[node] = self.new.call_function(arithmetic.OPERATIONS[name_of(node)], args, kwargs)

    # --- layers -------------------------------------------------

    def _made(self, module: Any, make: Any) -> Any:
        """The layer that a module becomes, once for all places that it is used at."""
        if module not in self.layers:
            self.layers[module] = make().train(module.training)
        return self.layers[module]

    def _call(self, match: Match, made: Any, in_codes: bool = True) -> None:
        node = match.first
        self.model.add_submodule(str(node.target), made)
        if in_codes:
            self._over_codes(node)
        else:
            self.floats[node] = self.new.node_copy(node, self._float)

    def _rounds_itself(self, node: Node) -> bool:
        given = arguments(node).get("input") if node.op == "call_function" else self._first(node)
        return is_dynamic(self.roles.observer(given))

    def _float_layer(self, match: Match, module: Any) -> bool:
        """A layer that takes floats and gives floats: a table, or one that rounds its input at each call."""
        if module is None:
            self._function_layer(match, arguments(match.first)["input"], None)
            return True
        if not supported(match, module, getattr(module, "qconfig", None)):
            return False
        if match.role is Role.TABLE:
            made = self._made(module, lambda: swap_module(module, LAYERS))
        elif hasattr(module, "_parts"):  # a ReLU behind a layer stays
            module[0].qconfig = module.qconfig
            module[0] = self._made(module[0], lambda: swap_module(module[0], mappings.DYNAMIC))
            made = module
        else:
            made = self._made(module, lambda: swap_module(module, mappings.DYNAMIC))
        self._call(match, made, False)
        return True

    def _function_layer(self, match: Match, input: Node, result: Node | None) -> None:
        """A layer over integers in place of a function whose weight is the model's own; without `result`, one that takes floats."""
        given = arguments(match.first)
        observer = self.roles.observer(given["weight"])
        weight, bias = (
            None if given.get(n) is None else self._tensor(self.roles.observed(given[n]))
            for n in ("weight", "bias")
        )
        plain, with_relu = WEIGHTED[behind(match.first.target)]
        layer = _layer(plain, weight, bias, given)
        layer.qconfig = QConfig(lambda: None, lambda: observer)
        fused = match.first is not match.last
        if result is None:
            made = mappings.DYNAMIC[plain].from_float(layer)
        else:
            whole = with_relu(layer, mappings.nn.ReLU()) if fused else layer
            whole.qconfig = layer.qconfig
            whole.activation_post_process = self.roles.observer(result)
            made = LAYERS[type(whole)].from_float(whole)
        name = f"{match.first.name}_layer"
        while hasattr(self.model, name):
            name += "_"
        self.model.add_submodule(name, made.train(self.model.training))
        forms = self.floats if result is None else self.codes
        source = self._float(input) if result is None else self.codes[input]
        forms[match.first] = self.new.call_module(name, (source,))
        if result is None and fused:
            self.floats[match.last] = self.new.node_copy(match.last, self._float)
        else:
            forms[match.last] = forms[match.first]

    def _tensor(self, node: Node) -> Any:
        value: Any = self.model
        for part in str(node.target).split("."):
            value = getattr(value, part)
        return value


def _layer(kind: Any, weight: Any, bias: Any, given: dict[str, Any]) -> Any:
    """A float layer with a function's weight, bias and geometry."""
    if weight.ndim == 2:
        made = kind(weight.shape[1], weight.shape[0], bias is not None)
    else:
        groups = given.get("groups", 1)
        options = {n: given[n] for n in ("stride", "padding", "dilation", "groups") if n in given}
        size = weight.shape[1] * groups, weight.shape[0], tuple(weight.shape[2:])
        made = kind(*size, bias=bias is not None, **options)
    made.weight.data = weight.detach().clone()
    if bias is not None:
        made.bias.data = bias.detach().clone()
    return made


def converted(
    model: Any, custom: ConvertCustomConfig, mapping: QConfigMapping | None, remove_qconfig: bool
) -> GraphModule:
    """A copy of an observed graph that computes with integers; ValueError for a module that `prepare_fx` did not make."""
    if not isinstance(model, GraphModule) or KEY not in model.meta:
        raise ValueError(
            f"convert_fx(): expected what prepare_fx or prepare_qat_fx made, got a {type(model).__name__}"
        )
    made = _Conversion(copy.deepcopy(model), custom, mapping).run()
    made.meta.pop(KEY, None)
    keep_attributes(model, made, custom.preserved_attributes)
    if remove_qconfig:
        _forget(made)
    return made
