"""What is not captured whole runs as Python, and the modules that it calls are compiled one by one."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref

import pytest

import flambeau as torch
from flambeau import nn

F = nn.functional


class Block(nn.Module):
    def __init__(self, n=6):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(n, n), nn.Linear(n, n), nn.LayerNorm(n)
        self.scale = 1.0

    def forward(self, x):
        return x + self.second(F.gelu(self.first(self.norm(x)))) * self.scale


class Looks(nn.Module):
    """Looks at a value between its blocks, so that no call of it is captured whole."""

    def __init__(self, blocks=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(6, 2)
        self.limit = 1e9

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            if x.sum().item() > self.limit:
                return x
        return self.head(x)


def compiled_in(net):
    return [vars(m)["_compiled_inner"] for m in net.modules() if "_compiled_inner" in vars(m)]


def gradients(net, run, x):
    net.zero_grad()
    made = run(x)
    made.square().sum().backward()
    return made.detach(), *(p.grad.clone() for p in net.parameters() if p.grad is not None)


def test_values_and_gradients_are_those_of_eager_calls():
    net, x = Looks(), torch.randn(4, 6)
    run = torch.compile(net)
    for k in range(4):
        want = gradients(net, net, x + k)
        for got, value in zip(gradients(net, run, x + k), want, strict=True):
            torch.testing.assert_close(got, value, rtol=1e-5, atol=1e-6)
    assert [c.captures for c in compiled_in(net)] == [1, 1, 1]  # the blocks; not the head, which is one call
    assert all(entry.launch is not None and entry.hits for c in compiled_in(net) for entry in c.entries)


def test_the_module_itself_and_those_of_the_library_without_others_are_not_compiled():
    net = Looks()
    run = torch.compile(net)
    for _ in range(3):
        run(torch.ones(2, 6))
    assert {type(c.function) for c in compiled_in(net)} == {Block}


def test_modules_that_a_function_calls():
    block, linear = Block(), nn.Linear(6, 6)

    def f(x):
        y = block(linear(x))
        return y * 2 if y.mean().item() > -1e9 else y

    run = torch.compile(f)
    x = torch.randn(3, 6)
    for _ in range(3):
        torch.testing.assert_close(run(x), f(x), rtol=1e-5, atol=1e-6)
    assert [c.captures for c in (vars(block)["_compiled_inner"],)] == [1] and not compiled_in(linear)


def test_modules_within_modules_that_are_refused():
    outer = nn.Sequential(Looks(2), nn.Linear(2, 2))
    run = torch.compile(outer)
    x = torch.randn(3, 6)
    for _ in range(4):
        torch.testing.assert_close(run(x), outer(x), rtol=1e-5, atol=1e-6)
    assert {type(c.function) for c in compiled_in(outer)} == {Looks, Block}  # `Looks` is refused in its turn

    def f(x):
        return outer(x) if x.sum().item() < 1e9 else x

    run = torch.compile(f)
    for _ in range(4):
        torch.testing.assert_close(run(x), f(x), rtol=1e-5, atol=1e-6)
    assert {type(c.function) for c in compiled_in(outer)} == {nn.Sequential, Looks, Block}


def test_what_a_module_reads_is_guarded():
    net = Looks(1)
    run = torch.compile(net)
    x = torch.randn(2, 6)
    for _ in range(3):
        run(x)
    net.blocks[0].scale = 3.0
    torch.testing.assert_close(run(x), net(x), rtol=1e-5, atol=1e-6)
    net.blocks[0].first = nn.Linear(6, 6)
    torch.testing.assert_close(run(x), net(x), rtol=1e-5, atol=1e-6)
    seen = []
    net.blocks[0].register_forward_hook(lambda module, args, made: seen.append(1) or made + 1)
    want = net(x)
    seen.clear()
    torch.testing.assert_close(run(x), want, rtol=1e-5, atol=1e-6)
    assert seen == [1]


def test_copies_are_not_compiled():
    net, x = Looks(), torch.randn(2, 6)
    run = torch.compile(net)
    for _ in range(3):
        run(x)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), copy.copy(net.blocks[0])):
        assert "_compiled_inner" not in vars(twin) and not [
            c for c in compiled_in(twin) if twin is not net.blocks[0]
        ]
    replica = net.blocks[0]._replicate_for_data_parallel()
    assert "_compiled_inner" not in vars(replica)


def test_an_error_leaves_other_calls_as_they_are():
    class Fails(nn.Module):
        def forward(self, x):
            if x.sum().item() > 0:
                raise ValueError("positive")
            return x

    fails, block = Fails(), Block()
    run = torch.compile(lambda x: block(fails(x)))
    x = -torch.ones(2, 6)
    for _ in range(2):
        run(x)
    with pytest.raises(ValueError, match="positive"):
        run(-x)
    before = vars(block)["_compiled_inner"].captures
    block(torch.ones(5, 6))  # called by nobody who is compiled
    assert vars(block)["_compiled_inner"].captures == before
    torch.testing.assert_close(run(x), block(x), rtol=1e-5, atol=1e-6)


def test_disabled_functions_and_other_threads_run_as_python():
    block, other = Block(), Block()

    @torch.compiler.disable
    def plain(x):
        return other(x)

    found = []

    def f(x):
        thread = threading.Thread(target=lambda: found.append(other(x.detach())))
        thread.start()
        thread.join()
        return plain(block(x)) if x.sum().item() < 1e9 else x

    run = torch.compile(f)
    x = torch.randn(2, 6)
    for _ in range(3):
        torch.testing.assert_close(run(x), other(block(x)), rtol=1e-5, atol=1e-6)
    assert not any(entry.launch for c in compiled_in(other) for entry in c.entries)
    assert len(found) == 3 and compiled_in(block)


def test_a_backend_is_given_the_graph_of_each_module():
    graphs = []

    def backend(graph, inputs):
        graphs.append([n.target.__name__ for n in graph.graph.nodes if n.op == "call_function"])
        return graph

    net, x = Looks(2), torch.randn(2, 6)
    run = torch.compile(net, backend=backend)
    for _ in range(3):
        torch.testing.assert_close(run(x), net(x))
    assert len(graphs) == 2 and all("gelu" in graph for graph in graphs)


def test_fullgraph_still_raises():
    with pytest.raises(RuntimeError, match="looks at a value of a tensor"):
        torch.compile(Looks(), fullgraph=True)(torch.ones(2, 6))


def test_modules_are_freed():
    def run_once():
        net = Looks(1)
        run = torch.compile(net)
        for _ in range(3):
            run(torch.ones(2, 6)).sum().backward()
        return weakref.ref(net.blocks[0])

    gone = run_once()
    gc.collect()
    assert gone() is None
