"""`unflatten`: the modules of exported programs, by what they compute, hold, and let be replaced."""

from __future__ import annotations

import io

import pytest
from test_pt2_archives import ARCHIVES, Expected

import flambeau
from flambeau import export, nn


@pytest.mark.parametrize("name", [p.stem for p in ARCHIVES])
def test_programs_of_pytorch(name):
    expected = Expected(name)
    module = export.unflatten(expected.program)
    expected.check(module, module.named_buffers())
    assert set(module.state_dict()) <= set(expected.program.state_dict)
    wanted = [k for k in expected.program.graph_signature.parameters]
    assert {n for n, _ in module.named_parameters(remove_duplicate=False)} >= set(wanted)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 3)

    def forward(self, x, scale=1.0):
        return {"out": self.line(x) * scale, "in": (x + 1, [x])}


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.layers = Inner(), nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])
        self.register_buffer("shift", flambeau.ones(3))

    def forward(self, x):
        result = self.inner(x, scale=self.shift)
        y = self.layers[1](self.layers[0](result["out"] + result["in"][0]))
        return y + self.shift, result["in"][1][0]


class Twice(nn.Module):
    """A module that is called twice, the same way and another."""

    def __init__(self):
        super().__init__()
        self.same, self.other = nn.Linear(3, 3), Turning()

    def forward(self, x):
        return self.other(self.same(self.same(x)), True) + self.other(x, False)


class Turning(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.full((3,), 2.0))

    def forward(self, x, up: bool):
        return x * self.weight if up else x - self.weight


def exported(module, *args, **options):
    return export.export(module.eval(), args, **options)


def test_the_tree_of_modules():
    net = Outer()
    module = export.unflatten(exported(net, flambeau.ones(2, 3)))
    assert isinstance(module, export.UnflattenedModule)
    names = [n for n, _ in module.named_modules() if n]
    assert set(names) == {"inner", "inner.line", "layers", "layers.0", "layers.1"}
    assert set(module.state_dict()) == set(net.state_dict())
    x = flambeau.randn(2, 3)
    for a, b in zip(module(x), net(x)):
        assert flambeau.equal(a, b)
    assert flambeau.equal(module.layers.get_submodule("0")(x), net.layers[0](x))


def test_a_module_is_replaced():
    net = Outer()
    module = export.unflatten(exported(net, flambeau.ones(2, 3)))
    x = flambeau.randn(2, 3)
    module.layers.add_module("1", nn.Tanh())
    net.layers[1] = nn.Tanh()
    assert flambeau.equal(module(x)[0], net(x)[0])


def test_signatures_that_are_preserved():
    net = Outer()
    program = exported(net, flambeau.ones(2, 3), preserve_module_call_signature=("inner",))
    for known in (program, again(program)):
        module = export.unflatten(known)
        x = flambeau.randn(2, 3)
        assert flambeau.equal(module(x)[0], net(x)[0])
        own, other = module.inner(x, scale=flambeau.ones(3)), net.inner(x, scale=flambeau.ones(3))
        assert own.keys() == other.keys() and flambeau.equal(own["out"], other["out"])
        module.inner = Inner()
        wanted = Outer()
        wanted.load_state_dict(net.state_dict())
        wanted.inner = module.inner
        assert flambeau.equal(module(x)[0], wanted(x)[0])


def again(program):
    file = io.BytesIO()
    export.save(program, file)
    file.seek(0)
    return export.load(file)


def test_modules_that_are_called_twice():
    net = Twice()
    for program in (exported(net, flambeau.ones(2, 3)), again(exported(net, flambeau.ones(2, 3)))):
        module = export.unflatten(program)
        names = [n for n, _ in module.named_children()]
        assert names.count("same") == 1 and "same@1" not in names
        assert {"other", "other@1"} <= set(names)
        assert module.get_submodule("other").weight is module.get_submodule("other@1").weight
        x = flambeau.randn(2, 3)
        assert flambeau.equal(module(x), net(x))
        assert [n.target for n in module.graph.nodes if n.op == "call_module"].count("same") == 2


def test_training():
    net = Outer()
    module = export.unflatten(exported(net, flambeau.ones(2, 3)))
    x = flambeau.randn(4, 3)[:2]
    for made in (module, net):
        made.zero_grad()
        made(x)[0].sum().backward()
    for name, p in net.named_parameters():
        assert flambeau.equal(dict(module.named_parameters())[name].grad, p.grad)


def test_arguments_are_checked_and_adapted():
    program = exported(Outer(), flambeau.ones(2, 3))
    with pytest.raises(AssertionError, match=r"x\.size\(\)\[1\] == 3"):
        export.unflatten(program)(flambeau.ones(2, 4))
    with pytest.raises(ValueError, match="input tree spec"):
        export.unflatten(program)([flambeau.ones(2, 3)])

    class First(export.FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return input_args[:1]

    x = flambeau.ones(2, 3)
    module = export.unflatten(program, First())
    assert flambeau.equal(module([x, x])[0], program.module()(x)[0])
    assert flambeau.equal(module(x)[0], program.module()(x)[0])
    with pytest.raises(NotImplementedError):
        export.FlatArgsAdapter().adapt(None, None, [])
    with pytest.raises(TypeError, match="expected an ExportedProgram, got Outer"):
        export.unflatten(Outer())  # type: ignore[arg-type]
