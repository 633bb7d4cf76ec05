"""Sizes as symbols: one exported program for all sizes of its range, which says what it assumed, with models that people export."""

from __future__ import annotations

import itertools

import pytest

import flambeau
from flambeau import nn
from flambeau.export import Dim, ShapesCollection, dims, export
from flambeau.export.errors import ConstraintViolationError, GuardOnDataDependentSymNode, UserError
from flambeau.utils import _pytree as pytree

F = nn.functional
AUTO = Dim.AUTO


def module(function):
    """A module whose forward is a function of its arguments."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    scope = {"function": function}
    exec(f"def forward(self, {', '.join(names)}):\n    return function({', '.join(names)})", scope)
    return type("Made", (nn.Module,), {"forward": scope["forward"]})()


def same(a, b):
    for x, y in zip(pytree.tree_leaves(a), pytree.tree_leaves(b), strict=True):
        if isinstance(y, flambeau.Tensor):
            assert x.shape == y.shape and flambeau.equal(x, y)
        else:
            assert x == y


def shape_of(program, name="output"):
    """The shape that is known of a result."""
    returned = program.graph.output_node().args[0][0]
    return str([*map(str, returned.meta["val"].shape)]).replace("'", "")


# --- what a size is of others ------------------------------
@pytest.mark.parametrize(
    "function, shape",
    [
        (lambda x: x * 2, "[s0, s1]"),
        (lambda x: x.T, "[s1, s0]"),
        (lambda x: x.sum(0), "[s1]"),
        (lambda x: x.flatten(), "[s0*s1]"),
        (lambda x: x.reshape(x.shape[1], -1), "[s1, s0]"),
        (lambda x: flambeau.cat([x, x[1:]], 0), "[2*s0 - 1, s1]"),
        (lambda x: flambeau.stack([x, x]), "[2, s0, s1]"),
        (lambda x: x[:, ::2], "[s0, ((s1 + 1)//2)]"),
        (lambda x: x[1:-1], "[s0 - 2, s1]"),
        (lambda x: F.pad(x, (1, 2)), "[s0, s1 + 3]"),
        (lambda x: x.repeat(2, 3), "[2*s0, 3*s1]"),
        (lambda x: x.unfold(1, 3, 2), "[s0, ((s1 - 1)//2), 3]"),
        (
            lambda x: F.conv1d(x[:, None], flambeau.ones(4, 1, 3), stride=2, padding=1),
            "[s0, 4, ((s1 + 1)//2)]",
        ),
        (lambda x: F.max_pool1d(x[None], 3), "[1, s0, (s1//3)]"),
        (lambda x: F.conv_transpose1d(x[:, None], flambeau.ones(1, 2, 4), stride=3), "[s0, 2, 3*s1 + 1]"),
        (lambda x: F.interpolate(x[None], scale_factor=1.5), "[1, s0, ((3*s1)//2)]"),
        (lambda x: x @ x.T, "[s0, s0]"),
        (lambda x: flambeau.einsum("ij,kl->ikl", x, x), "[s0, s0, s1]"),
        (lambda x: x.chunk(2, 1)[0], "[s0, ((s1 + 1)//2)]"),
        (lambda x: x.new_zeros(x.shape[0] // 2 + x.shape[1] % 3), "[((s0//2)) + ((s1 % 3))]"),
        (lambda x: flambeau.arange(x.shape[0] * x.shape[1]).view(x.shape), "[s0, s1]"),
        (lambda x: x.unsqueeze(1).expand(-1, x.shape[0], -1), "[s0, s0, s1]"),
        (lambda x: x[:, : flambeau.sym_min(x.shape[1], 5)], "[s0, Min(5, s1)]"),
        (lambda x: F.one_hot(x.long() * 0, 3), "[s0, s1, 3]"),
        (lambda x: x.to(flambeau.float64).cumsum(1), "[s0, s1]"),
    ],
)
def test_shapes_are_expressions_that_hold_for_all_sizes(function, shape):
    program = export(module(function), (flambeau.rand(6, 9),), dynamic_shapes=({0: AUTO, 1: AUTO},))
    assert shape_of(program) == shape
    run = program.module()
    low = [r.lower for r in program.range_constraints.values()]
    for a, b in itertools.product((max(low[0], 2), 7, 20), (max(low[1], 3), 8, 31)):
        x = flambeau.rand(a, b)
        result = run(x)
        same(result, function(x))
        value = program.graph.output_node().args[0][0].meta["val"]
        assert [n if isinstance(n, int) else n.value({"s0": a, "s1": b}) for n in value.shape] == list(
            result.shape
        )


def test_names_tie_dimensions_and_follow_from_each_other():
    n = Dim("n", min=2, max=30)
    made = module(lambda x, y, z: x + y[1:] + z.view(2, -1, 4)[0])
    given = flambeau.rand(5, 4), flambeau.rand(6, 4), flambeau.rand(10, 4)
    program = export(made, given, dynamic_shapes=({0: n}, {0: n + 1}, {0: 2 * n}))
    assert str(program.range_constraints) == "{s0: VR[2, 30]}"
    run = program.module()
    for k in (2, 9, 30):
        same(
            run(flambeau.rand(k, 4) * 0, flambeau.ones(k + 1, 4), flambeau.ones(2 * k, 4)),
            flambeau.full((k, 4), 2.0),
        )
    for sizes in ((5, 7, 10), (5, 6, 11), (31, 32, 62)):
        with pytest.raises(AssertionError, match=r"size\(\)\[0\]"):
            run(*[flambeau.rand(k, 4) for k in sizes])


def test_auto_finds_equal_sizes_and_sizes_that_are_fixed():
    made = module(lambda x, y, w: (x + y) @ w)
    given = flambeau.rand(5, 4), flambeau.rand(5, 4), flambeau.rand(4, 5)
    program = export(made, given, dynamic_shapes=[{0: AUTO, 1: AUTO}] * 3)
    x, y, w = (n.meta["val"].shape for n in program.graph.nodes if n.op == "placeholder")
    assert x == y and str(w[0]) == str(x[1]) and len({str(n) for n in (*x, *w)}) == 3
    run = program.module()
    x, y, w = flambeau.rand(3, 7), flambeau.rand(3, 7), flambeau.rand(7, 2)
    same(run(x, y, w), (x + y) @ w)
    with pytest.raises(AssertionError, match="Guard failed"):
        run(x, flambeau.rand(2, 7), w)
    fixed = export(nn.Linear(4, 2), (flambeau.rand(3, 4),), dynamic_shapes=({0: AUTO, 1: AUTO},))
    assert [str(n) for n in list(fixed.graph.nodes)[2].meta["val"].shape] == ["s0", "4"]


def test_three_sizes_that_must_be_equal():
    made = module(lambda x, y, z: flambeau.stack([x, y, z]))
    given = [flambeau.rand(5)] * 3
    program = export(made, tuple(given), dynamic_shapes=[{0: AUTO}] * 3)
    assert len(program.range_constraints) == 1
    same(program.module()(*[flambeau.ones(9)] * 3), flambeau.ones(3, 9))


# --- what the program decides ------------------------------
def test_a_branch_narrows_the_range():
    made = module(lambda x: x * 2 if x.shape[0] > 5 else x)
    program = export(made, (flambeau.ones(8),), dynamic_shapes=({0: AUTO},))
    assert str(program.range_constraints) == "{s0: VR[6, int_oo]}"
    run = program.module()
    same(run(flambeau.ones(6)), flambeau.full((6,), 2.0))
    with pytest.raises(AssertionError, match=">= 6"):
        run(flambeau.ones(5))
    other = export(made, (flambeau.ones(4),), dynamic_shapes=({0: AUTO},))
    assert str(other.range_constraints) == "{s0: VR[2, 5]}"


def test_multiples_are_checked_when_the_program_runs():
    made = module(lambda x: x.view(-1, 3).sum(1))
    program = export(made, (flambeau.ones(9),), dynamic_shapes=({0: AUTO},))
    run = program.module()
    same(run(flambeau.ones(12)), flambeau.full((4,), 3.0))
    with pytest.raises(RuntimeError, match=r"s0 % 3.*view"):
        run(flambeau.ones(13))


def test_comparisons_of_two_sizes_are_checked_when_the_program_runs():
    made = module(lambda x, y: x.sum() + y.sum() if x.shape[0] < y.shape[0] else x.sum())
    given = flambeau.ones(3), flambeau.ones(7)
    run = export(made, given, dynamic_shapes=[{0: AUTO}] * 2).module()
    same(run(flambeau.ones(4), flambeau.ones(9)), flambeau.tensor(13.0))
    with pytest.raises(RuntimeError, match="Guard failed"):
        run(flambeau.ones(9), flambeau.ones(4))


def test_loops_over_sizes_that_vary_fix_them():
    made = module(lambda x: sum(x[k] for k in range(x.shape[0])))
    program = export(made, (flambeau.ones(3, 2),), dynamic_shapes=({0: AUTO, 1: AUTO},))
    assert [str(n) for n in next(iter(program.graph.nodes)).meta["val"].shape] == ["3", "s1"]
    with pytest.raises(
        ConstraintViolationError, match=r"n.*constant \(3\).*plain Python number.*test_export_symbols.py"
    ):
        export(made, (flambeau.ones(3, 2),), dynamic_shapes=({0: Dim("n")},))


def test_checks_that_a_program_writes():
    def function(x):
        flambeau._check(x.shape[0] >= 3)
        flambeau._check(x.shape[0] < 100)
        return x[:3]

    program = export(module(function), (flambeau.ones(8),), dynamic_shapes=({0: AUTO},))
    assert str(program.range_constraints) == "{s0: VR[3, 99]}" and shape_of(program) == "[3]"


@pytest.mark.parametrize(
    "function, spec, told",
    [
        (
            lambda x: x @ flambeau.ones(4, 2),
            {1: Dim("k")},
            r"\(k\)!.*specialized it to be a constant \(4\).*k = 4",
        ),
        (
            lambda x: x @ flambeau.ones(4, 2),
            {1: Dim.DYNAMIC},
            r"L\['x'\]\.size\(\)\[1\] as dynamic.*constant \(4\)",
        ),
        (lambda x: x * 2 if x.shape[0] > 5 else x, {0: Dim("n")}, r"6 <= L\['x'\].*n = Dim\('n', min=6\)"),
        (lambda x: x * 2 if x.shape[0] < 9 else x, {0: Dim("n", min=3)}, r"n = Dim\('n', min=3, max=8\)"),
        (lambda x: x.view(-1, 3, 4), {0: Dim("n")}, r"\(s0 % 3\) == 0.*n = 3\*_n"),
        (lambda x: x * int(x.shape[0]), {0: Dim("n")}, r"n = 6"),
        (lambda x: x + flambeau.ones(6, 1), {0: Dim("n")}, r"n = 6"),
    ],
)
def test_a_size_that_does_not_vary_as_was_said_is_an_error_with_the_line(function, spec, told):
    with pytest.raises(ConstraintViolationError, match=rf"(?s){told}") as caught:
        export(module(function), (flambeau.rand(6, 4),), dynamic_shapes=(spec,))
    assert "test_export_symbols.py, line" in str(caught.value)


def test_two_names_for_sizes_that_must_be_equal():
    made = module(lambda x, y: x + y)
    with pytest.raises(
        ConstraintViolationError, match=r"(?s)b = L\['y'\].*and a must always be equal.*b = a"
    ):
        export(made, (flambeau.ones(6), flambeau.ones(6)), dynamic_shapes=({0: Dim("a")}, {0: Dim("b")}))
    with pytest.raises(ConstraintViolationError, match="must always be equal, and are 6 and 5"):
        export(made, (flambeau.ones(5), flambeau.ones(6)), dynamic_shapes=({0: Dim("a")}, {0: Dim("a")}))


def test_sizes_of_0_and_1_are_programs_of_their_own():
    made = module(lambda x: x * 2)
    one = export(made, (flambeau.ones(1, 4),), dynamic_shapes=({0: AUTO, 1: AUTO},))
    assert [str(n) for n in next(iter(one.graph.nodes)).meta["val"].shape] == ["1", "s0"]
    with pytest.raises(ConstraintViolationError, match=r"constant \(1\)"):
        export(made, (flambeau.ones(1, 4),), dynamic_shapes=({0: Dim("n")},))
    with pytest.raises(ValueError, match="0/1 specialized due to hint of 0"):
        export(made, (flambeau.ones(0, 4),), dynamic_shapes=({0: Dim.DYNAMIC},))
    run = export(made, (flambeau.ones(3, 4),), dynamic_shapes=({0: Dim("n")},)).module()
    same(
        run(flambeau.ones(1, 4)), flambeau.full((1, 4), 2.0)
    )  # as in PyTorch, whose least size is 0 unless it is said


@pytest.mark.parametrize(
    "spec, told",
    [
        ({"z": None}, r"top-level keys must be the arg names \['x'\]"),
        (({5: Dim("n")},), "dimension 5 of a tensor"),
        (({0: "n"},), "Unexpected dimension 'n'"),
        (({0: 7},), "is 6, and `dynamic_shapes` says that it is 7"),
        ((None, None), "1 items"),
        (((Dim("n"),),), "same length as the actual tensor"),
        (({0: Dim("n", max=4)},), r"is 6, not in the range \[0, 4\]"),
        ((3,), "Unexpected input tensor shape 3"),
    ],
)
def test_what_dynamic_shapes_cannot_say(spec, told):
    with pytest.raises(UserError, match=told):
        export(module(lambda x: x), (flambeau.ones(6, 4),), dynamic_shapes=spec)


def test_dims():
    n = Dim("n", min=2, max=9)
    assert (2 * n + 1).__name__ == "2*n + 1" and ((2 * n + 1).min, (2 * n + 1).max) == (5, 19)
    assert [d.__name__ for d in dims("a", "b", max=4)] == ["a", "b"]
    for bad in (lambda: -1 * n, lambda: n * 1.5, lambda: 3 - n):
        with pytest.raises(NotImplementedError):
            bad()
    for bad in (lambda: Dim("1n"), lambda: Dim("n", min=4, max=2)):
        with pytest.raises(AssertionError):
            bad()
    assert repr(Dim.AUTO(min=2, max=5)) == "DimHint(AUTO, min=2, max=5)"
    program = export(module(lambda x: x), (flambeau.ones(3),), dynamic_shapes=({0: AUTO(max=5)},))
    assert str(program.range_constraints) == "{s0: VR[2, 5]}"


def test_collections_of_shapes_and_structures():
    x = flambeau.ones(4, 2)
    made = module(lambda d, ys: d["x"].sum(0) + ys[0] + ys[1])
    args = {"x": x}, [flambeau.ones(2), flambeau.ones(2)]
    shapes = ShapesCollection()
    shapes[x] = {0: Dim("n")}
    said = shapes.dynamic_shapes(made, args)
    assert said == {"d": {"x": {0: shapes[x][0]}}, "ys": [None, None]}
    for given in (said, shapes):
        run = export(made, args, dynamic_shapes=given).module()
        same(run({"x": flambeau.ones(7, 2)}, [flambeau.ones(2)] * 2), flambeau.full((2,), 9.0))


def test_integers_as_arguments():
    made = module(lambda x, n: x.new_ones(n) * n + x.shape[0])
    run = export(made, (flambeau.ones(4), 3), dynamic_shapes=({0: AUTO}, Dim.DYNAMIC)).module()
    same(run(flambeau.ones(6), 5), flambeau.full((5,), 11.0))


# --- values of tensors ------------------------------
@pytest.mark.parametrize(
    "function, told",
    [
        (lambda x: x * 2 if x.sum() > 0 else x, "data-dependent expression.*torch.cond"),
        (lambda x: x * 2 if flambeau.equal(x, x) else x, r"equal\(\) looks at values"),
        (lambda x: x.tolist(), r"tolist\(\) looks at values"),
        (lambda x: x.numpy(), r"numpy\(\) looks at values"),
        (lambda x: x * float(x[0]), "plain Python number"),
        (lambda x: [x] * int(x.long()[0]), "plain Python number"),
        (
            lambda x: x if x.nonzero().shape[0] > 2 else x + 1,
            r"data-dependent expression u0 > 2.*torch._check",
        ),
    ],
)
def test_ways_that_depend_on_values_are_errors_with_the_line(function, told):
    with pytest.raises(GuardOnDataDependentSymNode, match=told) as caught:
        export(module(function), (flambeau.ones(4),))
    assert "test_export_symbols.py, line" in str(caught.value)


def test_results_whose_sizes_depend_on_values():
    made = module(lambda x: (x[x > 0].reshape(-1, 1) * 2, (x > 0).nonzero().shape[0], x.unique()))
    program = export(made, (flambeau.tensor([1.0, -1.0, 2.0]),), dynamic_shapes=({0: Dim("n")},))
    run = program.module()
    for values in ([1.0, -1.0, 2.0], [-1.0, -2.0], [3.0] * 5):
        x = flambeau.tensor(values)
        same(run(x), made(x))
    assert [str(s) for s in program.range_constraints] == ["s0", "u0", "u1", "u2"]


def test_numbers_out_of_tensors():
    def function(x):
        n = (x > 0).sum().item()
        flambeau._check(n >= 0)
        flambeau._check(n < 5)
        return x.new_zeros(n + 1) + n

    run = export(module(function), (flambeau.tensor([1.0, -1.0, 2.0]),)).module()
    same(run(flambeau.tensor([1.0, 1.0, 2.0])), flambeau.full((4,), 3.0))
    many = export(module(function), (flambeau.ones(4),), dynamic_shapes=({0: AUTO},)).module()
    with pytest.raises(RuntimeError, match="u0 < 5"):
        many(flambeau.ones(9))


# --- models ------------------------------
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (
            p.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for p in self.qkv(self.before(x)).split(c, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(b, t, c)
        x = x + self.out(y)
        return x + self.mlp(self.between(x))


class Causal(nn.Module):
    """A transformer that says what comes next, as GPT-2 is built."""

    def __init__(self, words=30, width=16, longest=64):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList([Block(width, 2) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        self.longest = longest

    def forward(self, ids):
        _, length = ids.size()
        assert length <= self.longest
        x = self.words(ids) + self.places(flambeau.arange(0, length, device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Masked(nn.Module):
    """An encoder with a mask of words, as BERT is built."""

    def __init__(self, width=16, heads=2, longest=64):
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(30, width), nn.Embedding(longest, width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.register_buffer("ids", flambeau.arange(longest).expand((1, -1)), persistent=False)

    def split(self, x):
        return x.view(*x.size()[:-1], self.heads, x.size(-1) // self.heads).permute(0, 2, 1, 3)

    def forward(self, ids, mask):
        x = self.words(ids) + self.places(self.ids[:, : ids.shape[1]])
        hidden = (1.0 - mask[:, None, None, :].to(x.dtype)) * flambeau.finfo(x.dtype).min
        scores = self.split(self.q(x)) @ self.split(self.k(x)).transpose(-1, -2) + hidden
        y = (scores.softmax(-1) @ self.split(self.v(x))).permute(0, 2, 1, 3).contiguous()
        return y.view(y.size()[:-2] + (16,)), y[:, 0].tanh()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.out = nn.LSTM(4, 8, 2, batch_first=True, bidirectional=True), nn.Linear(16, 3)

    def forward(self, x):
        y, (h, _) = self.layers(x)
        return self.out(y[:, -1]), h


class Basic(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.norm2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.shorter = (
            None
            if stride == 1
            else nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        )

    def forward(self, x):
        y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        y += x if self.shorter is None else self.shorter(x)
        return self.relu(y)


def residual():
    """ResNet-18 with fewer channels."""
    widths = (8, 8, 16, 32, 64)
    blocks = [
        Basic(a if k == 0 else b, b, 2 if k == 0 and a != b else 1)
        for a, b in itertools.pairwise(widths)
        for k in (0, 1)
    ]
    head = [
        nn.Conv2d(3, 8, 7, 2, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    return nn.Sequential(*head, *blocks, nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(64, 5))


def words(*sizes):
    return flambeau.randint(0, 30, sizes)


BATCH, LENGTH = Dim("batch"), Dim("length", max=64)
MODELS = {
    "causal": (Causal, (words,), ((3, 10),), [((2, 17),), ((1, 64),)], ({0: BATCH, 1: LENGTH},)),
    "masked": (
        Masked,
        (words, flambeau.ones),
        ((3, 10), (3, 10)),
        [((5, 3), (5, 3)), ((2, 64), (2, 64))],
        ({0: BATCH, 1: LENGTH}, {0: BATCH, 1: LENGTH}),
    ),
    "recurrent": (
        Recurrent,
        (flambeau.rand,),
        ((3, 5, 4),),
        [((7, 2, 4),), ((2, 30, 4),)],
        ({0: BATCH, 1: Dim("steps")},),
    ),
    "residual": (
        residual,
        (flambeau.rand,),
        ((2, 3, 64, 48),),
        [((3, 3, 64, 48),), ((2, 3, 33, 70),)],
        ({0: BATCH, 2: AUTO, 3: AUTO},),
    ),
    "encoder": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2
        ),
        (flambeau.rand,),
        ((3, 7, 16),),
        [((5, 9, 16),)],
        ({0: BATCH, 1: Dim("steps")},),
    ),
    "both": (
        lambda: nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True),
        (flambeau.rand, flambeau.rand),
        ((3, 7, 16), (3, 5, 16)),
        [((2, 4, 16), (2, 9, 16))],
        ({0: BATCH, 1: Dim("steps")}, {0: BATCH, 1: Dim("more")}),
    ),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_models_run_for_other_batches_and_lengths(name, training):
    make, draws, sizes, others, shapes = MODELS[name]
    model = make().train(training)
    given = tuple(draw(*size) for draw, size in zip(draws, sizes))
    program = export(model, given, dynamic_shapes=shapes)
    run = program.module()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    for size in (sizes, *others):
        x = tuple(draw(*s) for draw, s in zip(draws, size))
        model.load_state_dict(before)
        wanted = model(*x)
        after = {k: v.clone() for k, v in model.state_dict().items()}
        model.load_state_dict(before)
        same(run(*x), wanted)
        same(dict(model.state_dict()), after)  # the program's state is the model's
    assert {str(n) for n in program.range_constraints} >= {"s0"}
