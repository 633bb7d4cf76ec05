"""A result is a view exactly where PyTorch documents one, and shares memory with its input only there.

Over every operation, for contiguous, transposed and sliced operands, recorded and not.
"""

from __future__ import annotations

import pytest
from samples import ALL, LAYOUTS, Operands, calls, run

import flambeau
from flambeau import nn
from flambeau.operations.declare.registry import REGISTRY

# https://docs.pytorch.org/docs/stable/tensor_view.html, and the names of the same functions elsewhere.
VIEWS = frozenset("""
    adjoint as_strided chunk detach diagonal dsplit expand expand_as hsplit imag movedim moveaxis narrow permute select
    split split_with_sizes squeeze swapaxes swapdims t tensor_split transpose unbind unfold unflatten unsqueeze view view_as
    view_as_complex view_as_real vsplit atleast_1d atleast_2d atleast_3d broadcast_to broadcast_tensors meshgrid
    linalg_diagonal unsafe_split unsafe_split_with_sizes unsafe_chunk
""".split())  # fmt: skip
# Views, or their input itself, where memory allows it or where there is nothing to do; else copies.
SOMETIMES = frozenset("""
    reshape reshape_as flatten ravel real conj resolve_conj resolve_neg einsum cartesian_prod sum_to_size positive
    dropout_function dropout alpha_dropout flat_feature_dropout
""".split())  # fmt: skip
WRITES = frozenset(
    ("tril_", "triu_", "cumsum_", "cumprod_", "ldexp_in_place", "renorm_in_place", "polygamma_in_place")
)
MODES = pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "unrecorded"])


def called(entry, text, layout, recorded):
    operands = Operands(layout, grad=recorded)
    with flambeau.set_grad_enabled(recorded):
        return run(entry, text, operands), operands


def memory(t) -> int:
    return t.untyped_storage().data_ptr()


def test_every_operation_is_called():
    """`calls` raises KeyError for one that has no sample; what has none by name is nothing public."""
    assert all(calls(entry) or not calls(entry) for entry in REGISTRY.values())
    assert len({entry.name for entry, _ in ALL}) > 450
    assert VIEWS | SOMETIMES | WRITES <= set(REGISTRY)


@pytest.mark.parametrize("layout", LAYOUTS)
@MODES
def test_results_are_views_where_documented(layout, recorded):
    wrong = []
    for entry, text in ALL:
        if entry.name in WRITES:
            continue
        results, operands = called(entry, text, layout, recorded)
        given = {memory(t) for t in operands.values() if isinstance(t, flambeau.Tensor)}
        for k, t in enumerate(results):
            shares = t.numel() > 0 and memory(t) in given
            itself = any(t is o for o in operands.values())
            if entry.name in VIEWS:
                fine = shares and (t._is_view() or itself or entry.name == "detach")
            elif entry.name in SOMETIMES:
                fine = shares or not t._is_view()
            else:
                fine = not shares and not t._is_view() and t._base is None
            if not fine:
                wrong.append(f"{entry.name}({text})[{k}]: view {t._is_view()}, shares memory {shares}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("layout", LAYOUTS)
@MODES
def test_results_may_be_detached_and_overwritten(layout, recorded):
    """Neither is refused, and no operand changes."""
    for entry, text in ALL:
        if entry.name in VIEWS | SOMETIMES | WRITES:
            continue
        results, operands = called(entry, text, layout, recorded)
        before = {n: t.tolist() for n, t in operands.items() if isinstance(t, flambeau.Tensor)}
        for t in results:
            assert t.detach_() is t and not t.requires_grad, f"{entry.name}({text})"
            t.zero_()
        for n, kept in before.items():
            assert operands[n].tolist() == kept, f"{entry.name}({text}) shares memory with {n}"


def gradients(network, x):
    network.zero_grad()
    network(x).square().sum().backward()
    return [p.grad for p in network.parameters()]


@pytest.mark.parametrize(
    "make,shape",
    [
        (lambda: nn.Conv1d(2, 3, 1), (2, 2, 5)),
        (lambda: nn.Conv2d(2, 3, 1), (2, 2, 4, 4)),
        (lambda: nn.Conv2d(2, 3, 1, bias=False, stride=2), (2, 2, 4, 4)),
        (lambda: nn.Conv3d(2, 3, 1), (2, 2, 2, 3, 3)),
        (lambda: nn.ConvTranspose1d(2, 3, 1), (2, 2, 5)),
        (lambda: nn.ConvTranspose2d(2, 3, 1), (2, 2, 4, 4)),
        (lambda: nn.ConvTranspose3d(2, 3, 1, bias=False), (1, 2, 2, 3, 3)),
        (lambda: nn.Sequential(nn.Conv2d(2, 4, 1), nn.GroupNorm(2, 4)), (2, 2, 3, 3)),
        (lambda: nn.Sequential(nn.Conv2d(2, 4, 1), nn.AdaptiveAvgPool2d(1)), (2, 2, 3, 3)),
        (lambda: nn.Sequential(nn.Conv2d(2, 4, 2), nn.MaxPool2d(2)), (2, 2, 5, 5)),
        (lambda: nn.Sequential(nn.Conv2d(2, 4, 1), nn.Unfold(2)), (2, 2, 3, 3)),
    ],
)  # fmt: skip
def test_networks_that_write_in_place_train_alike(make, shape):
    """A layer followed by ReLU(inplace=True) has the gradients that ReLU() gives."""
    flambeau.manual_seed(0)
    layer, x = make().double(), flambeau.randn(*shape, dtype=flambeau.float64)
    expected = gradients(nn.Sequential(layer, nn.ReLU()), x)
    found = gradients(nn.Sequential(layer, nn.ReLU(inplace=True)), x)
    assert any(bool(g.abs().sum() > 0) for g in expected)
    for a, b in zip(found, expected, strict=True):
        assert a is not None and flambeau.equal(a, b)


def test_embeddings_written_in_place():
    table = nn.Embedding(5, 3)
    found = table(flambeau.tensor([[0, 2], [1, 0]]))
    found.mul_(3.0)
    found.sum().backward()
    assert table.weight.grad[:, 0].tolist() == [6.0, 3.0, 3.0, 0.0, 0.0]


def test_views_of_a_result():
    """They are views of it, and what is written to them has its gradient."""
    x = flambeau.ones(1, 2, 2, 2, requires_grad=True)
    found = nn.functional.conv2d(x, flambeau.ones(3, 2, 1, 1))
    row = found[0, 0]
    assert row._base is found
    row.mul_(5)
    found.sum().backward()
    assert x.grad.unique().tolist() == [7.0]


def test_a_function_of_the_user_that_ends_in_a_view():
    """Its result is a tensor of its own, whose history is the function's."""

    class Twice(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (x * 2).view(-1)

        @staticmethod
        def backward(ctx, grad):
            return (grad * 2).view(2, 2)

    x = flambeau.ones(2, 2, requires_grad=True)
    found = Twice.apply(x)
    assert not found._is_view()
    found.mul_(3)
    found.sum().backward()
    assert x.grad.tolist() == [[6.0, 6.0], [6.0, 6.0]]


@pytest.mark.parametrize("make", [
    lambda x: x.repeat(1), lambda x: x.repeat(1, 1), lambda x: x.tile(1), lambda x: x.tile(()), lambda x: x.repeat_interleave(1),
    lambda x: x[0].repeat(2, 2), lambda x: x.reshape(1, 1, 3).repeat_interleave(1, 1),
])  # fmt: skip
def test_repeats_are_copies(make):
    x = flambeau.arange(3.0)
    make(x).fill_(7.0)
    assert x.tolist() == [0.0, 1.0, 2.0]


def test_targets_written_after_the_loss_are_noticed():
    x, labels = flambeau.zeros(2, 3, requires_grad=True), flambeau.tensor([0, 1])
    loss = nn.functional.cross_entropy(x, labels)
    labels.fill_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize(
    "text, shares",
    [(t, True) for t in ("x[0]", "x[...]", "x[None]", "x[:, ::2]", "x[()]", "x.T", "x.mT", "x.H", "x.mH")]
    + [
        (t, False)
        for t in ("x[[0, 1]]", "x[0, [0, 1]]", "x[mask]", "x.clone()", "x.float()", "x * 1", "x**1")
    ]
    + [(f"x[0, 0].{t}", False) for t in ("sum()", "softmax(0)", "cumsum(0)", "sort().values", "flip(())")]
    + [(t, False) for t in ("x[:, ::2].contiguous()", "x[:, :2].reshape(6)", "x[:, 0].ravel()", "x.sum(())")]
    + [("x.to(x.dtype, copy=True)", False)],
)
@MODES
def test_indexing_and_attributes(text, shares, recorded):
    with flambeau.set_grad_enabled(recorded):
        operands = Operands(grad=recorded)
        found = eval(text, {}, operands)
    assert found._is_view() is shares
    assert (memory(found) == memory(operands["x"])) is shares
