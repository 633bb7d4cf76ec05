"""Observers come into a graph: at the inputs of operations that will be quantised, and at their results.

What is inserted is what PyTorch's graph mode inserts, so that models see the same numbers; the operations are those of `_graph_roles`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..core.call.operation import behind
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_arg
from . import _mappings as mappings
from ._graph_configs import PrepareCustomConfig, QuantType
from ._graph_roles import WEIGHTED, Match, Role, Roles, arguments
from ._graph_trace import finished
from ._observers import FixedQParamsObserver, ReuseInputObserver
from ._prepare import _device_of, swap_module
from ._qconfig import QConfig, default_qconfig
from ._qconfig_mapping import QConfigMapping

KEY = "quantization"  # in the `meta` of a graph that is observed
CODES = ("quint8", "qint8")  # what results are held as


def dtype_name(observer: Any) -> str:
    """The dtype by which an observer says that a tensor is held, "" where it says none."""
    return getattr(getattr(observer, "dtype", None), "name", "")


def is_static(observer: Any) -> bool:
    """Whether what is observed becomes codes by one scale."""
    return dtype_name(observer) in CODES and not getattr(observer, "is_dynamic", False)


def is_dynamic(observer: Any) -> bool:
    """Whether a layer rounds what is observed at each call."""
    return dtype_name(observer) in CODES and bool(getattr(observer, "is_dynamic", False))


def supported(match: Match, module: Any, qconfig: QConfig | None) -> bool:
    """Whether there is a form of an operation over what its configuration asks for."""
    if qconfig is None:
        return False
    activation, weight, role = qconfig.activation(), qconfig.weight(), match.role
    if role is Role.TABLE:
        return dtype_name(activation) == "float32" and dtype_name(weight) in ("quint8", "quint4x2")
    if is_dynamic(activation):
        kinds = kinds_of(module) if module is not None else WEIGHTED.get(behind(match.first.target), ())
        weighted = any(kind in mappings.DYNAMIC for kind in kinds)
        return role in (Role.LAYER, Role.RECURRENT) and weighted and dtype_name(weight) == "qint8"
    if role is Role.RECURRENT or not is_static(activation):
        return False
    if role is Role.LAYER and (module is None or hasattr(module, "weight") or hasattr(module, "_parts")):
        return dtype_name(weight) == "qint8"
    if role is Role.FIXED:
        fixed = getattr(activation, "activation_post_process", activation)
        return isinstance(fixed, FixedQParamsObserver)
    return True


def kinds_of(module: Any) -> tuple[type, ...]:
    """The class of a layer, the float one that it was made of, and the first of those that were fused in it."""
    made_of = (type(module), *getattr(module, "_FLOAT_MODULE", ())[:1])
    return (*made_of, *getattr(made_of[-1], "_parts", ())[:1])


def configured(
    graph: Any, roles: Roles, mapping: QConfigMapping, scopes: dict[str, tuple]
) -> dict[Node, QConfig | None]:
    """The configuration of each node by a mapping."""
    seen: Counter = Counter()
    result: dict[Node, QConfig | None] = {}
    for node in graph.nodes:
        path, around = scopes.get(node.name, ("", None))
        if node.op == "get_attr":
            owner = str(node.target).rpartition(".")[0]
            result[node] = mapping.of_module(type(roles.modules.get(owner)), owner, mapping.global_qconfig)
        elif node.op == "call_module" and roles.observer(node) is None:
            name, kinds = str(node.target), kinds_of(roles.modules[str(node.target)])
            given = mapping.global_qconfig
            for kind in reversed(kinds):
                given = mapping.of_object(kind, given)
            given = mapping.of_module(None, name, given)
            owner = name.rpartition(".")[0]
            result[node] = mapping.of_place(owner, around, seen[owner, around], given)
            seen[owner, around] += 1
        elif node.op in ("call_function", "call_method"):
            given = mapping.of_object(node.target, mapping.global_qconfig)
            given = mapping.of_module(around, path, given)
            if node.op == "call_function":
                given = mapping.of_place(path, node.target, seen[path, node.target], given)
                seen[path, node.target] += 1
            result[node] = given
        else:
            result[node] = None
    return result


class _Preparation:
    """Inserts observers into one graph."""

    def __init__(
        self,
        model: GraphModule,
        roles: Roles,
        qconfigs: dict[Node, QConfig | None],
        custom: PrepareCustomConfig,
    ) -> None:
        self.model, self.graph, self.roles = model, model.graph, roles
        self.qconfigs, self.custom = qconfigs, custom
        self.device, self.count = _device_of(model), 0
        self.codes: set[Node] = set()  # nodes that will give codes: inputs that do, and observers of results

    def run(self) -> None:
        inputs = [n for n in self.graph.nodes if n.op == "placeholder"]
        for k in self.custom.input_quantized_indexes:
            if not 0 <= k < len(inputs):
                raise IndexError(f"input_quantized_indexes must be in [0, {len(inputs) - 1}], got {k}")
            self.codes.add(inputs[k])
        for match in list(self.roles.matches.values()):
            module = self._module(match.first)
            qconfig = self.qconfigs[match.last]
            if not supported(match, module, qconfig) or match.role is Role.TABLE:
                continue
            assert qconfig is not None
            if match.role is Role.MOVED:
                if self._first(match.first) in self.codes:
                    self.codes.add(match.last)
                continue
            observer = qconfig.activation()
            if not isinstance(observer, ReuseInputObserver):
                self._observe_inputs(match, qconfig)
            if not is_dynamic(observer):
                self._observe_result(match, observer)
            if match.role is Role.CUSTOM:
                self._swap(match.first)
        output = next(n for n in self.graph.nodes if n.op == "output")
        if self.custom.output_quantized_indexes:
            output.args = (map_arg(output.args[0], self._in_codes),)

    def _module(self, node: Node) -> Any:
        return self.roles.modules[str(node.target)] if node.op == "call_module" else None

    def _insert(self, node: Node, observer: Any) -> Node:
        """A call of an observer after a node."""
        name = f"activation_post_process_{self.count}"
        while hasattr(self.model, name):
            self.count += 1
            name = f"activation_post_process_{self.count}"
        observer = observer if self.device is None else observer.to(self.device)
        observer.train(self.model.training)
        self.model.add_module(name, observer)
        self.roles.modules[name] = observer
        with self.graph.inserting_after(node):
            return self.graph.create_node("call_module", name, (node,), {})

    def _observed(self, node: Node, observer: Any) -> Node:
        """A node's observer of that kind, inserted where there is none."""
        for user in node.users:
            known = self.roles.observer(user)
            if type(known) is type(observer) and known.dtype is observer.dtype:
                return user
        return self._insert(node, observer)

    def _in_codes(self, node: Node) -> Node:
        if node in self.codes or node not in self.roles.tensors:
            return node
        return self._observed(node, (self.qconfigs.get(node) or default_qconfig).activation())

    # --- inputs -------------------------------------------------

    def _first(self, node: Node) -> Any:
        first = node.args[0] if node.args else next(iter(node.kwargs.values()), None)
        return first[0] if isinstance(first, (list, tuple)) and first else first

    def _observe_inputs(self, match: Match, qconfig: QConfig) -> None:
        node, observer = match.first, qconfig.activation()

        def through(x: Any) -> Any:
            if isinstance(x, (list, tuple)):
                return type(x)(map(through, x))
            if x not in self.roles.tensors or x in self.codes:
                return x
            return self._observed(x, observer if is_dynamic(observer) else qconfig.activation())

        if match.role is Role.LAYER and node.op == "call_function":
            given = arguments(node)
            given["input"] = through(given["input"])
            given["weight"] = self._observed(given["weight"], qconfig.weight())
            names = list(given)[: len(node.args)]
            node.args = tuple(given.pop(name) for name in names)
            node.kwargs = given
        elif match.role is Role.BINARY:
            node.args = tuple(map(through, node.args))
        elif node.args:  # the first argument alone: others are indices, hidden states, shapes
            node.args = (through(node.args[0]), *node.args[1:])
        else:
            name = next(iter(node.kwargs))
            node.kwargs = {**node.kwargs, name: through(node.kwargs[name])}

    # --- results -------------------------------------------------

    def _observe_result(self, match: Match, observer: Any) -> None:
        node = match.last
        numbers = match.role is Role.BINARY and sum(a in self.roles.tensors for a in match.first.args) == 1
        shares = match.role is Role.SHARED or numbers or isinstance(observer, ReuseInputObserver)
        given = (
            [a for a in match.first.args if a in self.roles.tensors]
            if numbers
            else [self._first(match.first)]
        )
        source = self._origin(given[0]) if shares else None
        if shares and source is None:
            return
        users = list(node.users)
        observed = self._insert(node, observer)
        self.codes.add(observed)
        for user in users:
            user.replace_input_with(node, observed)
        if shares:
            self._share(match, observed, source)

    def _origin(self, node: Any) -> Node | None:
        """The observer that a tensor comes from."""
        while isinstance(node, Node) and self.roles.observer(node) is None:
            node = self._first(node)
        return node if isinstance(node, Node) else None

    def _share(self, match: Match, observed: Node, source: Any) -> None:
        """Let the result, and all that is joined, have the observer of the first input."""
        one = self.roles.observer(source)
        joined = match.first.args[0] if match.first.args else None
        others = [self._origin(n) for n in joined[1:]] if isinstance(joined, (list, tuple)) else []
        for node in (*(n for n in others if n is not None), observed):
            self.model._modules[str(node.target)] = one
            self.roles.modules[str(node.target)] = one

    def _swap(self, node: Node) -> None:
        """Put the program's own observed module in place of its float one."""
        module = self._module(node)
        kinds = self.custom.float_to_observed_mapping[QuantType.STATIC]
        if type(module) in kinds:
            made = kinds[type(module)].from_float(module)
            made.qconfig = module.qconfig
            self.model.add_submodule(str(node.target), made)
            self.roles.modules[str(node.target)] = made


def _train(model: GraphModule, roles: Roles, qconfigs: dict[Node, QConfig | None]) -> None:
    """Put layers that round their weights in place of those that will be quantised."""
    layers = mappings.get_embedding_qat_module_mappings()
    for match in roles.matches.values():
        name = str(match.first.target)
        module = roles.modules[name] if match.first.op == "call_module" else None
        if type(module) in layers and supported(match, module, qconfigs[match.last]):
            made = swap_module(module, layers)
            for other, known in list(roles.modules.items()):
                if known is module and model.add_submodule(other, made):
                    roles.modules[other] = made


def prepared(
    model: GraphModule,
    scopes: dict[str, tuple],
    mapping: QConfigMapping,
    custom: PrepareCustomConfig,
    training: bool,
) -> GraphModule:
    """A traced and fused graph with observers; `model` is changed."""
    own = custom.float_to_observed_mapping.get(QuantType.STATIC, {})
    roles = Roles(model.graph, dict(model.named_modules(remove_duplicate=False)), own)
    qconfigs = configured(model.graph, roles, mapping, scopes)
    for node, qconfig in qconfigs.items():
        if node.op == "call_module":
            module = roles.modules[str(node.target)]
            for each in (module, *module.children()) if hasattr(module, "_parts") else (module,):
                each.qconfig = qconfig
    if training:
        _train(model, roles, qconfigs)
    _Preparation(model, roles, qconfigs, custom).run()
    made = finished(model)
    made.meta[KEY] = {
        "scopes": {name: path for name, (path, _) in scopes.items()},
        "configured": {node.name for node, qconfig in qconfigs.items() if qconfig is not None},
        "inputs": tuple(custom.input_quantized_indexes),
        "outputs": tuple(custom.output_quantized_indexes),
        "custom": dict(own),
    }
    return made
