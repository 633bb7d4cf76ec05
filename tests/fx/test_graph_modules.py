"""`fx.GraphModule`, interpreters and transformers."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import linecache
import pickle
import sys

import pytest

import flambeau as torch
from flambeau import fx, nn
from flambeau.fx._lazy_graph_module import _LazyGraphModule


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.deep = nn.Sequential(nn.ReLU(), nn.Linear(3, 2))
        self.register_buffer("shift", torch.arange(3.0))

    def forward(self, x, k=2):
        return {"out": self.deep(torch.tanh(self.layer(x) + self.shift) * k), "size": x.size(0)}


@pytest.fixture
def traced():
    torch.manual_seed(0)
    return fx.symbolic_trace(Net())


def test_code_is_readable(traced):
    assert traced.code.strip() == (
        "def forward(self, x, k = 2):\n"
        "    layer = self.layer(x)\n"
        "    shift = self.shift\n"
        "    add = layer + shift;  layer = shift = None\n"
        "    tanh = flambeau.tanh(add);  add = None\n"
        "    mul = tanh * k;  tanh = k = None\n"
        '    deep_0 = getattr(self.deep, "0")(mul);  mul = None\n'
        '    deep_1 = getattr(self.deep, "1")(deep_0);  deep_0 = None\n'
        "    size = x.size(0);  x = None\n"
        "    return {'out': deep_1, 'size': size}"
    )
    assert str(traced).endswith("print_readable()`") and type(traced).__name__ == "Net"


def same(a, b):
    x = torch.randn(4, 3)
    want, got = a(x), b(x)
    assert torch.equal(want["out"], got["out"]) and want["size"] == got["size"]


def test_changes_take_effect_when_it_is_compiled_again(traced):
    before = traced(torch.ones(1, 3))["out"]
    for node in traced.graph.nodes:
        if node.target is torch.tanh:
            node.target = torch.sigmoid
    assert torch.equal(traced(torch.ones(1, 3))["out"], before)
    assert "sigmoid" in traced.recompile().src and not torch.equal(traced(torch.ones(1, 3))["out"], before)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"]
)
def test_copies_have_weights_and_graphs_of_their_own(traced, copied):
    traced.eval()
    traced.note = {"a": [1]}
    made = copied(traced)
    same(traced, made)
    assert (
        made.layer.weight is not traced.layer.weight and made.graph is not traced.graph and not made.training
    )
    assert made.code == traced.code and str(made.graph) == str(traced.graph) and type(made).__name__ == "Net"
    assert isinstance(made, fx.GraphModule) and made.note == {"a": [1]} and type(made) is not type(traced)
    made.graph.lint()
    assert made.graph.owning_module is made


def test_structures_survive_a_pickle():
    module = fx.symbolic_trace(
        lambda x: {"k": x["a"] + x["b"]}, concrete_args={"x": {"a": fx.PH, "b": fx.PH}}
    )
    for made in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert made({"a": 1, "b": 2}) == {"k": 3}


def test_files_hold_modules_that_only_trust_opens(traced):
    file = io.BytesIO()
    torch.save(traced, file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="reduce_graph_module"):
        torch.load(file)
    file.seek(0)
    same(traced, torch.load(file, weights_only=False))


def test_what_no_import_finds_is_not_pickled():
    module = fx.symbolic_trace(lambda x: x)
    with module.graph.inserting_before(module.graph.output_node()):
        node = module.graph.call_function(lambda x: x, (next(iter(module.graph.nodes)),))
    module.graph.output_node().args = (node,)
    module.recompile()
    assert module(3) == 3
    with pytest.raises(pickle.PicklingError, match="no module has under its own name"):
        pickle.dumps(module)


def test_tracebacks_show_the_generated_line():
    module = fx.symbolic_trace(lambda x: torch.matmul(x, x))
    key = type(module)._source_key
    assert "matmul" in linecache.getline(key, 5)
    with pytest.raises(RuntimeError) as caught:
        module(torch.ones(2, 3))
    assert any(key == str(f.path) or key in str(f.frame.code.raw.co_filename) for f in caught.traceback)
    module.recompile()
    former, key = key, type(module)._source_key
    del module, caught
    gc.collect()
    fx.symbolic_trace(lambda x: x + 1)  # lines go when others come
    assert former not in linecache.cache and key not in linecache.cache


def test_roots_that_lack_something():
    graph = fx.Graph()
    graph.output(graph.call_module("layer.0", (graph.placeholder("x"),)))
    with pytest.raises(AttributeError):
        fx.GraphModule(nn.Module(), graph)
    with pytest.raises(
        RuntimeError, match="Node layer_0 referenced target layer.0 but that target was not provided"
    ):
        fx.GraphModule({}, graph)
    with pytest.raises(RuntimeError, match="Unsupported type int"):
        fx.GraphModule(3, graph)
    made = fx.GraphModule({"layer.0": nn.ReLU()}, graph, "Mine")
    assert made(torch.tensor([-1.0, 2.0])).tolist() == [0, 2] and type(made).__name__ == "Mine"
    with pytest.raises(AssertionError, match="Expected a Graph"):
        made.graph = 3


def test_submodules_come_and_go(traced):
    assert traced.add_submodule("a.b", nn.ReLU()) and isinstance(traced.a.b, nn.ReLU)
    assert not traced.add_submodule("shift.b", nn.ReLU())
    assert (
        traced.delete_submodule("a.b")
        and not traced.delete_submodule("a.b")
        and not traced.delete_submodule("z.b")
    )
    traced.add_submodule("spare", nn.Linear(1, 1))
    traced.delete_all_unused_submodules()
    assert [name for name, _ in traced.named_modules()] == ["", "layer", "deep", "deep.0", "deep.1"]


def test_a_folder_is_a_package(traced, tmp_path, monkeypatch):
    traced.to_folder(tmp_path / "saved_net", "SavedNet")
    monkeypatch.syspath_prepend(tmp_path)
    from saved_net import SavedNet

    made = SavedNet()
    made.load_state_dict(torch.load(tmp_path / "saved_net" / "state_dict.pt"))
    same(traced, made)
    sys.modules.pop("saved_net")


def test_classes_of_programs_stay(traced):
    class Mine(fx.GraphModule):
        def extra(self):
            return 3

    made = Mine(traced, traced.graph)
    assert isinstance(made, Mine) and copy.deepcopy(made).extra() == 3
    same(traced, made)


class Swap(fx.Interpreter):
    def call_function(self, target, args, kwargs):
        return super().call_function(torch.sigmoid if target is torch.tanh else target, args, kwargs)


def test_interpreters(traced):
    x = torch.randn(2, 3)
    want = fx.Interpreter(traced).run(x)
    assert torch.equal(want["out"], traced(x)["out"])
    assert not torch.equal(Swap(traced).run(x)["out"], want["out"])
    interpreter = fx.Interpreter(traced, garbage_collect_values=False)
    interpreter.run(x)
    assert {n.name for n in interpreter.env} == {n.name for n in traced.graph.nodes}
    shift = next(n for n in traced.graph.nodes if n.name == "shift")
    given = fx.Interpreter(traced).run(x, initial_env={shift: torch.zeros(3)})
    assert not torch.equal(given["out"], want["out"])
    values = [x, 2]
    assert torch.equal(fx.Interpreter(traced).boxed_run(values)["out"], want["out"]) and not values


def test_errors_of_interpreters_say_which_node(traced):
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        fx.Interpreter(traced).run()
    with pytest.raises(RuntimeError, match=r"While executing %layer : .*call_module\[target=layer\]"):
        fx.Interpreter(traced).run(torch.ones(2, 4))
    with pytest.raises(RuntimeError, match="nonexistent target nothing"):
        fx.Interpreter(traced).fetch_attr("nothing")


class Other(fx.Transformer):
    def call_function(self, target, args, kwargs):
        return super().call_function(torch.sin if target is torch.tanh else target, args, kwargs)

    def call_module(self, target, args, kwargs):
        return args[0] if target == "deep.0" else super().call_module(target, args, kwargs)


def test_transformers_make_another_graph(traced):
    made = Other(traced).transform()
    assert (
        "sin" in made.code and "tanh" not in made.code and "deep_0" not in made.code and "tanh" in traced.code
    )
    x = torch.randn(2, 3)
    want = getattr(traced.deep, "1")(torch.sin(traced.layer(x) + traced.shift) * 2)
    assert torch.equal(made(x)["out"], want)
    same(traced, fx.Transformer(traced).transform())


def test_meta_goes_from_node_to_node(traced):
    next(n for n in traced.graph.nodes if n.name == "tanh").meta["mark"] = 1
    made = fx.Transformer(traced).transform()
    assert [n.name for n in made.graph.nodes if n.meta.get("mark")] == ["tanh"]


def test_annotations_are_written():
    def f(x: torch.Tensor, y: list[int], z: dict[str, torch.Tensor] | None = None) -> torch.Tensor:
        return x

    module = fx.symbolic_trace(f)
    head = module.code.strip().splitlines()[0]
    assert head == (
        "def forward(self, x : flambeau.Tensor, y : list[int], z : dict[str, flambeau.Tensor] | None = None) -> flambeau.Tensor:"
    )
    assert pickle.loads(pickle.dumps(module))(3, []) == 3


LAYERS = {
    nn.Linear: (4, 2), nn.Conv1d: (4, 2, 1), nn.LayerNorm: (4,), nn.RMSNorm: (4,), nn.GroupNorm: (2, 4),
    nn.BatchNorm1d: (4,), nn.InstanceNorm1d: (4,), nn.Flatten: (), nn.Unflatten: (1, (2, 2)), nn.PReLU: (), nn.Softmax: (1,),
    nn.LogSoftmax: (1,), nn.Hardtanh: (), nn.GLU: (), nn.Identity: (), nn.Dropout: (0.5,), nn.Threshold: (0.1, 2.0),
    nn.MaxPool1d: (2,), nn.AvgPool1d: (2,), nn.AdaptiveAvgPool1d: (2,), nn.Upsample: (None, 2), nn.ConstantPad1d: (1, 0.5),
}  # fmt: skip
ACTIVATIONS = [
    c
    for c in vars(nn.modules.activation).values()
    if isinstance(c, type) and issubclass(c, nn.Module) and c.__name__[0] != "_"
]


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x + 1)


@pytest.mark.parametrize(
    "layer",
    [
        *LAYERS,
        *(
            c
            for c in ACTIVATIONS
            if c not in LAYERS and c not in (nn.MultiheadAttention, nn.Module, nn.Threshold)
        ),
    ],
    ids=lambda c: c.__name__,
)
def test_layers_are_traced(layer):
    torch.manual_seed(0)
    net = Around(layer(*LAYERS.get(layer, ()))).eval()
    shaped = {
        nn.Conv1d,
        nn.InstanceNorm1d,
        nn.MaxPool1d,
        nn.AvgPool1d,
        nn.AdaptiveAvgPool1d,
        nn.Upsample,
        nn.ConstantPad1d,
        nn.Softmax2d,
    }
    x = torch.randn(3, 4, 4) if layer in shaped else torch.randn(3, 4)
    module = fx.symbolic_trace(net)
    assert [n.op for n in module.graph.nodes] == ["placeholder", "call_function", "call_module", "output"]
    want = net(x)
    for made in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(made(x), want)

    class Inside(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False

    try:
        graph = Inside().trace(net)
    except fx.proxy.TraceError:  # it looks at shapes
        return
    graph.lint()
    assert torch.equal(fx.GraphModule(net, graph)(x), want)


def lazy():
    traced = torch.fx.symbolic_trace(lambda x: x.relu() + 1)
    return _LazyGraphModule(traced, traced.graph)


def test_code_that_is_put_off_is_there_for_whoever_looks():
    looks = [
        lambda m: m(torch.tensor([-1.0])).tolist() == [1.0],
        lambda m: "relu" in m.code,
        lambda m: "relu" in str(m),
        lambda m: list(inspect.signature(m.forward).parameters) == ["x"],
        lambda m: type(m).forward(m, torch.tensor([2.0])).tolist() == [3.0],
        lambda m: pickle.loads(pickle.dumps(m))(torch.tensor([2.0])).tolist() == [3.0],
        lambda m: copy.deepcopy(m)(torch.tensor([2.0])).tolist() == [3.0],
        lambda m: "relu" in m.print_readable(print_output=False),
        lambda m: m._lineno_map is None or isinstance(m._lineno_map, dict),
    ]
    for look in looks:
        module = lazy()
        assert "_code" not in vars(module)
        assert look(module)


def test_code_that_is_put_off_is_that_of_the_graph_as_it_is_then():
    module = lazy()
    assert module(torch.tensor([-1.0])).tolist() == [1.0]
    next(n for n in module.graph.nodes if n.target == "relu").target = "neg"
    module.recompile()
    assert module(torch.tensor([-1.0])).tolist() == [2.0]
    assert "x.neg()" in module.code


def test_an_unknown_attribute_of_a_module_that_puts_off_its_code_is_an_error():
    with pytest.raises(AttributeError, match="nothing"):
        lazy().nothing  # noqa: B018
