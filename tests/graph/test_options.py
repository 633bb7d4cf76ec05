"""Options of `compile`: which there are, and what they do to plans."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.graph.logs import log
from flambeau.graph.options import ACCEPTED, DEFAULT, Options, list_options, options_of


def steps(function, *tensors, **options):
    compiled = torch.compile(function, options=options)
    compiled(*tensors)
    (entry,) = compiled.entries
    return [step.name for step in entry.launch.report.steps]


def test_an_unknown_option_is_named_with_what_was_meant():
    with pytest.raises(
        RuntimeError, match="Unexpected optimization option eager_numeric, .*did you mean 'eager_numerics'"
    ):
        torch.compile(len, options={"eager_numeric": True})
    with pytest.raises(RuntimeError, match=r"Unexpected optimization option xyz, known options are \['"):
        torch.nn.Linear(1, 1).compile(options={"xyz": 1})


def test_a_value_of_another_class_is_named():
    with pytest.raises(RuntimeError, match="Unexpected type of attr epilogue_fusion, got int should be bool"):
        torch.compile(len, options={"epilogue_fusion": 1})
    with pytest.raises(RuntimeError, match="Unexpected type of attr max_autotune, got str should be bool"):
        torch.compile(len, options={"max_autotune": "yes"})
    with pytest.raises(TypeError, match="options: expected a dict, got list"):
        torch.compile(len, options=["epilogue_fusion"])


def test_what_excludes_each_other_is_refused():
    with pytest.raises(RuntimeError, match="eager_numerics keeps the bits that use_fast_math changes"):
        torch.compile(len, options={"eager_numerics": True, "use_fast_math": True})


def test_all_that_are_listed_are_taken():
    for name in list_options():
        kind = ACCEPTED[name][0] if name in ACCEPTED else bool
        value = {bool: False, str: "", object: len}[kind]
        assert isinstance(options_of({name: value}), Options)
        if name in ACCEPTED:
            assert options_of({name: value}) == DEFAULT
    assert options_of({}) == options_of(None) == DEFAULT


def test_pytorchs_names_of_the_lists():
    assert torch._inductor.list_options() == list_options()
    graphs = {"triton.cudagraphs": True}
    assert torch._inductor.list_mode_options("reduce-overhead") == graphs
    assert torch._inductor.list_mode_options()["default"] == {} and options_of(graphs).cudagraphs
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast, should be one of: default"):
        torch._inductor.list_mode_options("fast")


def test_options_of_a_backend_that_is_a_function_are_its_own():
    seen = []

    def backend(graph, inputs, **given):
        seen.append(given)
        return graph

    torch.compile(lambda x: x + 1, backend=backend, options={"xyz": 3})(torch.ones(2))
    assert seen == [{"options": {"xyz": 3}}]
    assert torch.compile(lambda x: x + 1, backend="eager", options={"xyz": 3})(torch.ones(2)).tolist() == [
        2,
        2,
    ]


def test_products_end_in_what_follows_unless_they_shall_not():
    x, w = torch.ones(64, 16), torch.ones(32, 16)
    function = lambda x, w: torch.nn.functional.linear(x, w).relu()
    assert steps(function, x, w) == ["product: linear relu"]
    apart = ["product: linear", "kernel: relu"]
    assert steps(function, x, w, epilogue_fusion=False) == apart
    assert steps(function, x, w, eager_numerics=True) == apart


def test_plans_of_one_function_differ_by_their_options():
    """A function compiled twice has two plans, whichever is called first, and a compiled one is compiled anew from its function."""

    def normalised(x):
        return torch.nn.functional.gelu((x - x.mean(-1, keepdim=True)) * 0.5)

    x = torch.linspace(-3, 3, 60000).reshape(20, 3000).sin().exp()
    expected = normalised(x)
    plain = torch.compile(normalised)
    exact = torch.compile(plain, options={"eager_numerics": True})
    plain(x), exact(x)  # which are captured, call by call
    for _ in range(2):
        assert not torch.equal(plain(x), expected)  # the sum is taken in other steps
        assert torch.equal(exact(x), expected)
    assert plain.entries[0].launch is not exact.entries[0].launch


def test_modules_take_options():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.LayerNorm(300), torch.nn.GELU())
    x = torch.randn(7, 300)
    compiled = torch.compile(net, options={"eager_numerics": True})
    gradients = []
    for f in (net, compiled):
        y = f(x)
        gradients.append([y, *torch.autograd.grad(y.square().sum(), list(net.parameters()))])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_plans_are_logged_where_a_trace_is_wanted(monkeypatch):
    level, handlers = log.level, list(log.handlers)
    try:
        options_of({"trace.enabled": True})
        assert log.isEnabledFor(10)
    finally:
        log.setLevel(level)
        log.handlers[:] = handlers
