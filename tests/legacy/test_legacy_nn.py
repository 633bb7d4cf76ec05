"""Every module and criterion: its output beside a formula of its own, its gradients beside finite differences."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import lua_modules
import numpy as np
import pytest
from lua_criterions import CRITERIONS
from lua_modules import MODULES, numbers, planes, x34, y34

import flambeau as torch
from flambeau.legacy import nn

STEP = 1e-6


def tensors(table):
    return [x for part in table for x in tensors(part)] if isinstance(table, (list, tuple)) else [table]


def flat(table):
    return np.concatenate([x.detach().numpy().ravel() for x in tensors(table)])


def made(case):
    torch.manual_seed(0)
    module = case.make().double()
    if not case.name.startswith(("LookupTable", "Copy", "PReLU")) and module.parameters():
        module.zeroGradParameters()
    return module


def is_close(a, b, tolerance=1e-9):
    a, b = tensors(a), tensors(b)
    assert [x.shape for x in a] == [x.shape for x in b]
    for x, y in zip(a, b):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=tolerance, atol=tolerance)


def differences(f, x):
    """How the numbers f() gives change with each element of x, which is changed in place."""
    rows = []
    for i in range(x.numel()):
        place = np.unravel_index(i, tuple(x.shape))
        old = x[place].item()
        ends = []
        for value in (old + STEP, old - STEP):
            x[place] = value
            ends.append(flat(f()))
        x[place] = old
        rows.append((ends[0] - ends[1]) / (2 * STEP))
    return np.stack(rows) if rows else np.zeros((0, 0))


def gradient_table(output, seed=3):
    if isinstance(output, list):
        return [gradient_table(x, seed + i) for i, x in enumerate(output)]
    return torch.tensor(np.random.RandomState(seed).standard_normal(tuple(output.shape)))


def run(module, x):
    torch.manual_seed(7)  # the same noise again
    return module.forward(x)


def everything():
    skipped = {"utils", "Module", "Container", "Criterion"}
    return {n for n in nn.__all__ if n not in skipped}


def classes_of(value):
    results = {type(value).__name__}
    for part in getattr(value, "modules", []) + getattr(value, "criterions", []):
        results |= classes_of(part)
    return results


def test_the_cases_are_of_every_module():
    tried = set().union(
        *(classes_of(case.make()) for case in MODULES), *(classes_of(c[0]()) for c in CRITERIONS)
    )
    assert everything() - tried == {
        "CriterionTable",
        "GradientReversal",
        "L1Penalty",
    }  # which have tests of their own


@pytest.mark.parametrize("case", [c for c in MODULES if c.formula], ids=repr)
def test_outputs(case):
    module = made(case)
    result = run(module, case.input)
    is_close(result, case.formula(case.input, module))
    assert result is module.output


@pytest.mark.parametrize("train", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("case", MODULES, ids=repr)
def test_gradients(case, train):
    module = made(case)
    x = copy.deepcopy(case.input)
    run(module, x)
    if not train:
        module.evaluate()
    gradient = gradient_table(run(module, x))
    actual = module.backward(x, gradient)
    assert actual is module.gradInput
    weights = flat(gradient)
    for x_, g in zip(tensors(x), tensors(actual), strict=True):
        assert g.shape == x_.shape and g.dtype == x_.dtype
        if x_.is_floating_point() and x_.numel() * weights.size < 60_000:
            expected = differences(lambda: run(module, x), x_) @ weights
            np.testing.assert_allclose(flat(g), expected, rtol=1e-5, atol=1e-6)
    parameters, gradients = module.parameters() or ([], [])
    saved = [g.clone() for g in gradients]
    for p, g in zip(parameters, saved):
        expected = differences(lambda: run(module, x), p) @ weights
        np.testing.assert_allclose(flat(g), expected, rtol=1e-5, atol=1e-6)
    run(module, x)
    module.accGradParameters(x, gradient, 0.5)  # adds
    for g, old in zip(gradients, saved):
        np.testing.assert_allclose(flat(g), 1.5 * flat(old), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", [c for c in MODULES if c.make().parameters()], ids=repr)
def test_a_step_without_gradients_kept(case):
    """`backwardUpdate` is `backward` and `updateParameters`."""
    one = made(case)
    two = one.clone()
    gradient = gradient_table(run(one, case.input))
    is_close(run(two, case.input), one.output)
    one.zeroGradParameters()
    one.backward(case.input, gradient)
    one.updateParameters(0.1)
    two.zeroGradParameters()
    two.backwardUpdate(case.input, gradient, 0.1)
    for a, b in zip(one.parameters()[0], two.parameters()[0]):
        is_close(a, b)
    assert all((g == 0).all() for g in two.parameters()[1])


@pytest.mark.parametrize("case", MODULES, ids=repr)
def test_modules_are_copied_pickled_shown_and_cleared(case):
    module = made(case)
    result = run(module, case.input)
    module.backward(case.input, gradient_table(result))
    for other in (module.clone(), pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        is_close(run(other, case.input), result)
        assert repr(other) == repr(module) and repr(other).startswith(f"nn.{type(module).__name__}")
    cleared = module.clearState()
    assert cleared is module and tensors(module.output)[:1] in ([], [module.output])
    is_close(run(module, case.input), result)
    single = module.clone().float()
    assert all(p.dtype == torch.float32 for p in (single.parameters() or ([], []))[0])
    assert single.type() == torch.zeros(1).type() and single.double().type() == torch.zeros(1).double().type()


@pytest.mark.parametrize("case", MODULES, ids=repr)
def test_nothing_is_recorded_without_gradients(case):
    module = made(case)
    with torch.no_grad():
        result = run(module, case.input)
        assert all(not x.requires_grad for x in tensors(result))
        assert all(getattr(m, "_recording", None) is None for m in module.listModules())
    gradient = gradient_table(result)
    late = module.backward(case.input, gradient)
    is_close(late, module.updateGradInput(case.input, gradient))


INPLACE = [
    lambda **k: nn.AddConstant(3.5, **k),
    lambda **k: nn.MulConstant(4, **k),
    nn.ReLU,
    nn.ReLU6,
    lambda **k: nn.Threshold(1, 2, **k),
    nn.HardTanh,
    nn.ELU,
    nn.LeakyReLU,
    nn.RReLU,
    nn.Dropout,
]


@pytest.mark.parametrize("make", INPLACE)
def test_in_place(make):
    plain, over = make().double(), make(inplace=True).double()
    x, y = x34.clone(), x34.clone()
    expected = run(plain, x)
    assert run(over, y) is y
    is_close(y, expected)
    is_close(over.backward(y, y34.clone()), plain.backward(x, y34))


def test_sums_in_place():
    m, terms = nn.CAddTable(True), [x34.clone(), y34.clone()]
    assert m.forward(terms) is terms[0]
    is_close(terms[0], x34 + y34)
    is_close(m.backward(terms, y34), [y34, y34])


# ---------------------------------------------------------------- criterions


@pytest.mark.parametrize(
    ("make", "x", "y", "loss"), CRITERIONS, ids=[type(c[0]()).__name__ for c in CRITERIONS]
)
def test_criterions(make, x, y, loss):
    c, x = make().double(), copy.deepcopy(x)
    actual = c.forward(x, y)
    assert type(actual) is float and actual == c.output
    np.testing.assert_allclose(actual, loss(x, y, c), rtol=1e-9)
    gradient = c.backward(x, y)
    for x_, g in zip(tensors(x), tensors(gradient), strict=True):
        expected = differences(lambda: torch.tensor(c.clone().forward(x, y), dtype=torch.float64), x_)
        np.testing.assert_allclose(flat(g), expected[:, 0], rtol=1e-5, atol=1e-6)
    assert repr(pickle.loads(pickle.dumps(c))) == f"nn.{type(c).__name__}"


def test_a_criterion_sees_what_was_written_since():
    c, x, y = nn.MSECriterion(), torch.ones(2), torch.zeros(2)
    c.forward(x, y)
    y.fill_(1)
    assert c.backward(x, y).tolist() == [0.0, 0.0]
    x.fill_(3)
    assert c.backward(x, y).tolist() == [2.0, 2.0]


def test_a_module_sees_what_was_written_since():
    m, x = nn.Square(), torch.ones(2)
    m.forward(x)
    x.fill_(3)
    assert m.backward(x, torch.ones(2)).tolist() == [6.0, 6.0]
    net = nn.Linear(2, 1)
    net.forward(x)
    net.weight.fill_(5)
    assert net.updateGradInput(x, torch.ones(1)).tolist() == [5.0, 5.0]


# ---------------------------------------------------------------- single modules


def test_gradient_reversal_and_penalty():
    m = nn.GradientReversal(0.5)
    is_close(m.forward(x34), x34)
    is_close(m.backward(x34, y34), -0.5 * y34)
    m = nn.L1Penalty(2, True, False)
    m.forward(x34)
    assert m.loss == pytest.approx(2 * x34.abs().mean().item())
    is_close(m.backward(x34, y34), 2 * x34.sign() / 12)


def test_criterion_table():
    m = nn.CriterionTable(nn.MSECriterion())
    assert m.forward([x34, y34]) == pytest.approx(((x34 - y34) ** 2).mean().item())
    is_close(m.updateGradInput([x34, y34]), [(x34 - y34) / 6])


def test_batch_normalization_gathers_statistics():
    m = nn.BatchNormalization(4, momentum=0.3).double()
    m.forward(x34)
    m.backward(x34, y34)  # which does not count again
    is_close(m.running_mean, 0.3 * x34.mean(0))
    is_close(m.running_var, 0.7 + 0.3 * x34.var(0))
    m.evaluate()
    expected = (x34 - m.running_mean) / (m.running_var + m.eps).sqrt() * m.weight + m.bias
    is_close(m.forward(x34), expected)
    with pytest.raises(RuntimeError, match="only mini-batch supported"):
        m.forward(x34[0])
    with pytest.raises(RuntimeError, match="expected 4"):
        m.forward(x34.T)


def test_dropout_draws_anew_and_keeps_its_noise():
    m, x = nn.Dropout(0.4), torch.ones(1000)
    first = m.forward(x).clone()
    assert m.backward(x, x).tolist() == first.tolist() and abs(first.mean().item() - 1) < 0.1
    assert m.forward(x).tolist() != first.tolist()
    m.evaluate()
    assert m.forward(x).tolist() == x.tolist()


def test_windows_of_fractional_pooling():
    m = nn.SpatialFractionalMaxPooling(2, 2, 4, 3)
    places = {tuple(m.forward(planes).flatten().tolist()) for _ in range(20)}
    assert len(places) > 1 and m.output.shape == (2, 3, 3, 4)
    m.fixPoolingRegions()
    assert len({tuple(m.forward(planes).flatten().tolist()) for _ in range(5)}) == 1


def test_lookup_table():
    m = nn.LookupTable(5, 3, paddingValue=1, maxNorm=1.0)
    m.weight.fill_(2)
    m.zeroGradParameters()
    x = torch.tensor([1, 3, 3])
    out = m.forward(x)
    np.testing.assert_allclose(out.norm(2, 1).numpy(), 1, rtol=1e-5)
    assert m.weight[0].tolist() == [2, 2, 2] and m.weight[3].norm().item() == pytest.approx(1)
    assert m.backward(x, torch.ones(3, 3)).tolist() == [0, 0, 0]
    assert m.gradWeight[:, 0].tolist() == [0, 0, 0, 2, 0]
    m = nn.LookupTable(5, 3).scaleGradByFreq()
    m.forward(x)
    m.backward(x, torch.ones(3, 3))
    assert m.gradWeight[:, 0].tolist() == [0, 1, 0, 1, 0]


def test_copy_changes_the_type():
    c = nn.Copy(torch.DoubleTensor, torch.FloatTensor, dontCast=True)
    assert c.forward(x34).dtype == torch.float32 and c.backward(x34, y34.float()).dtype == torch.float64
    assert c.double() is c and c.forward(x34).dtype == torch.float32


def test_tables_of_connections():
    table = lua_modules.maps("random", 4, 6, 2)
    assert table.shape == (12, 2) and table[:, 1].tolist() == [i // 2 for i in range(12)]
    inputs = table[:, 0].view(-1, 2)
    assert all(a != b for a, b in inputs.tolist()) and sorted(inputs[:2].flatten().tolist()) == [0, 1, 2, 3]


# ---------------------------------------------------------------- whole networks


def network():
    return (
        nn.Sequential()
        .add(nn.Concat(1).add(nn.Linear(4, 5)).add(nn.Linear(4, 5)))
        .add(nn.ReLU())
        .add(nn.Linear(10, 2))
    )


def test_parameters_in_one_vector():
    net = network().double()
    result = net.forward(x34).clone()
    parameters, gradients = net.parameters()
    assert len(parameters) == len(gradients) == 6
    x, g = net.flattenParameters()
    assert x.numel() == sum(p.numel() for p in parameters) == 72 and g.numel() == 72
    is_close(net.forward(x34), result)
    g.zero_()
    net.backward(x34, numbers(3, 2))
    is_close(torch.cat([p.flatten() for p in net.parameters()[1]]), g)
    x.zero_()
    assert all((p == 0).all() for p in net.parameters()[0])
    again, _ = net.getParameters()
    assert again.tolist() == x.tolist() and nn.Tanh().flattenParameters() is None


def test_shared_parameters_stand_once_in_the_vector():
    one = nn.Linear(4, 4)
    two = one.clone("weight", "bias", "gradWeight", "gradBias")
    net = nn.Sequential().add(one).add(two)
    assert one.weight.data_ptr() == two.weight.data_ptr()
    x, g = net.flattenParameters()
    assert x.numel() == 20 and one.weight.data_ptr() == two.weight.data_ptr()
    one.weight.fill_(3)
    assert (two.weight == 3).all() and (x[:16] == 3).all()
    part = nn.Linear(2, 2)  # parameters that are pieces of more memory
    whole = torch.arange(10.0)
    part.weight, part.bias = whole[4:8].view(2, 2), whole[9:]
    part.gradWeight, part.gradBias = torch.zeros(4).view(2, 2), torch.zeros(1)
    assert part.flattenParameters()[0].tolist() == [4, 5, 6, 7, 9]
    with pytest.raises(ValueError, match="holes"):
        part.weight = torch.zeros(4, 4)[::2, ::2]
        part.flattenParameters()


def test_types_keep_what_is_shared():
    one = nn.Linear(4, 4)
    two = one.clone("weight")
    nn.Sequential().add(one).add(two).double()
    assert one.weight.dtype == torch.float64 and one.weight.data_ptr() == two.weight.data_ptr()
    cache = {}
    a, b = nn.Linear(2, 2), None
    b = a.clone("weight")
    a.type("torch.DoubleTensor", cache)
    b.type(torch.float64, cache)
    assert a.weight.data_ptr() == b.weight.data_ptr() and a.bias.data_ptr() != b.bias.data_ptr()


def test_modules_are_found_and_replaced():
    net = network()
    result, holders = net.findModules(nn.Linear)
    assert result == [net.get(0).get(0), net.get(0).get(1), net.get(2)] and holders == [
        net.get(0),
        net.get(0),
        net,
    ]
    assert net.findModules("nn.ReLU")[0] == [net.get(1)] and len(net.listModules()) == 6
    seen = []
    net.apply(seen.append)
    assert seen == net.listModules()
    net.replace(lambda m: nn.Tanh() if isinstance(m, nn.ReLU) else m)
    assert isinstance(net.get(1), nn.Tanh)
    net.evaluate()
    assert not any(m.train for m in net.listModules())
    net.training()
    assert all(m.train for m in net.listModules())
    net.remove(1)
    net.insert(nn.Sigmoid(), 1)
    assert len(net) == 3 and isinstance(net.get(1), nn.Sigmoid)


def test_networks_are_shown():
    assert repr(network()).splitlines() == [
        "nn.Sequential {",
        "  [input -> (0) -> (1) -> (2) -> output]",
        "  (0): nn.Concat {",
        "    input",
        "    |`-> (0): nn.Linear(4 -> 5)",
        "    |`-> (1): nn.Linear(4 -> 5)",
        "  }",
        "  (1): nn.ReLU",
        "  (2): nn.Linear(10 -> 2)",
        "}",
    ]


def test_a_table_of_variable_length():
    net = nn.ConcatTable().add(nn.Identity()).add(nn.Identity())
    for n in (2, 1, 3):
        x = [torch.rand(5) for _ in range(n)]
        assert len(net.forward(x)) == 2 and len(net.backward(x, [x, x])) == n
    shared = nn.MapTable(nn.Linear(5, 2))
    for n in (3, 1, 2):
        x = [torch.rand(5) for _ in range(n)]
        shared.zeroGradParameters()
        y = shared.forward(x)
        assert len(shared.backward(x, y)) == n and len(shared.parameters()[0]) == 2
        is_close(shared.parameters()[1][1], sum(y), 1e-5)
    flat, _ = shared.flattenParameters()
    flat.zero_()
    assert all((part == 0).all() for part in shared.forward(x))


def test_the_network_is_that_of_today():
    """The same numbers as `flambeau.nn` with the tape."""
    net = network()
    today = torch.nn.Sequential(torch.nn.Linear(4, 10), torch.nn.ReLU(), torch.nn.Linear(10, 2))
    with torch.no_grad():
        today[0].weight.copy_(torch.cat([m.weight for m in net.get(0).modules]))
        today[0].bias.copy_(torch.cat([m.bias for m in net.get(0).modules]))
        today[2].weight.copy_(net.get(2).weight)
        today[2].bias.copy_(net.get(2).bias)
    x, y = x34.float(), torch.tensor([1, 0, 1])
    criterion = nn.CrossEntropyCriterion()
    net.zeroGradParameters()
    loss = criterion.forward(net.forward(x), y)
    net.backward(x, criterion.backward(net.output, y))
    tape = torch.nn.functional.cross_entropy(today(x), y)
    tape.backward()
    assert loss == pytest.approx(tape.item())
    is_close(net.get(2).gradWeight, today[2].weight.grad, 1e-6)
    is_close(torch.cat([m.gradWeight for m in net.get(0).modules]), today[0].weight.grad, 1e-6)


def test_what_does_not_fit_is_said():
    with pytest.raises(ValueError, match="tables of different forms"):
        m = nn.SplitTable(0)
        m.forward(x34)
        m.backward(x34, [y34[0]])
    with pytest.raises(NotImplementedError, match="no formula"):
        type("Mine", (type(nn.Abs()).__mro__[2],), {})().forward(x34)
    for wrong, match in (
        (lambda: nn.SpatialConvolutionLocal(1, 1, 3, 3, 4, 4), "do not fit"),
        (lambda: nn.SpatialFullConvolution(1, 1, 2, 2, 2, 2, adjW=2), "adjW"),
        (lambda: nn.SpatialMaxUnpooling(nn.SpatialMaxPooling(3, 3, 2, 2)), "overlap"),
        (lambda: nn.SpatialDivisiveNormalization(1, torch.ones(2)), "ODD"),
        (lambda: nn.SpatialFractionalMaxPooling(2, 2, 3, 0.5), "two sizes or two ratios"),
        (lambda: nn.MultiMarginCriterion(3), "only p == 1 and p == 2"),
        (lambda: nn.RReLU(0.5, 0.1), "lower"),
        (lambda: nn.HardTanh(1, 1), "max_value"),
    ):
        with pytest.raises(ValueError, match=match):
            wrong()
    with pytest.raises(RuntimeError, match="expected"):
        nn.SpatialConvolutionLocal(1, 1, 3, 3, 2, 2).forward(torch.ones(1, 1, 4, 4))
    with pytest.raises(RuntimeError, match="gates"):
        nn.MixtureTable().forward([torch.ones(1, 3), [torch.ones(1, 2)] * 2])


def test_gradients_of_ones_own_are_used():
    class Twice(nn.Linear):
        def updateGradInput(self, input, gradOutput):
            self.gradInput = 2 * super().updateGradInput(input, gradOutput)
            return self.gradInput

    x, g = numbers(3, 4), numbers(3, 2)
    plain, other = nn.Linear(4, 2).double(), Twice(4, 2).double()
    other.share(plain, "weight", "bias")
    plain.forward(x), other.forward(x)
    is_close(other.backward(x, g), 2 * plain.backward(x, g))
    is_close(other.gradWeight, plain.gradWeight)
    plain.accGradParameters = lambda *args: None  # as one freezes a layer
    before = plain.gradWeight.clone()
    plain.backward(x, g)
    is_close(plain.gradWeight, before)
    with pytest.raises(RuntimeError):
        plain.backward(x, numbers(3, 3))


def test_importing_the_library_does_not_import_this():
    program = """if True:
        import sys, flambeau
        names = "flambeau.legacy", "flambeau.utils.serialization.read_lua_file"
        loaded = [n for n in sys.modules if n.startswith(names)]
        assert not loaded, loaded
        from flambeau.legacy import nn
        assert nn is flambeau.legacy.nn is sys.modules["flambeau.legacy.nn"]
    """
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
