"""Operations of programs on the tape."""

from __future__ import annotations

import gc
import warnings
import weakref

import numpy as np
import pytest

import flambeau
from flambeau import Tensor
from flambeau.library import custom_op


@custom_op("tests_tape::cube", mutates_args=())
def cube(x: Tensor) -> Tensor:
    return flambeau.from_numpy(x.numpy() ** 3)


def _keep_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


cube.register_autograd(lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g, setup_context=_keep_inputs)


@custom_op("tests_tape::weighted", mutates_args=())
def weighted(xs: list[Tensor], w: Tensor | None = None, n: int = 2) -> tuple[Tensor, list[Tensor], int]:
    factor = n if w is None else n * w.item()
    return sum(xs) * factor, [x * factor for x in xs], n


NEEDED = []


def _weights(ctx, inputs, output):
    xs, w, n = inputs
    ctx.factor = n if w is None else n * w.item()
    NEEDED.append(ctx.needs_input_grad)


def _weighted_backward(ctx, total, each, count):
    assert count is None
    NEEDED.append(ctx.needs_input_grad)
    return [(total + g) * ctx.factor for g in each], None, None


weighted.register_autograd(_weighted_backward, setup_context=_weights)


def test_gradients_of_any_order():
    x = flambeau.tensor([0.5, -2.0], dtype=flambeau.float64, requires_grad=True)
    assert flambeau.autograd.gradcheck(cube, (x,)) and flambeau.autograd.gradgradcheck(cube, (x,))
    (g,) = flambeau.autograd.grad(cube(x).sum(), x, create_graph=True)
    (h,) = flambeau.autograd.grad(g.sum(), x)
    assert h.tolist() == [3.0, -12.0]
    assert flambeau.func.grad(lambda t: cube(t).sum())(flambeau.tensor([2.0])).tolist() == [12.0]


def test_the_node_has_the_name_that_pytorch_gives_it():
    y = cube(flambeau.ones(1, requires_grad=True))
    assert y.grad_fn.name() == "GeneratedBackwardFor_tests_tape_cube_defaultBackward"
    assert y.grad_fn.saved_tensors[0].item() == 1.0


def test_nothing_is_recorded_where_nothing_asks():
    with flambeau.no_grad():
        assert not cube(flambeau.ones(1, requires_grad=True)).requires_grad
    with flambeau.inference_mode():
        assert not cube(flambeau.ones(1)).requires_grad
    weight = flambeau.ones(1, requires_grad=True)

    @custom_op("tests_tape::around", mutates_args=())
    def around(x: Tensor) -> Tensor:
        return x * weight

    assert not around(flambeau.ones(1)).requires_grad  # what a kernel finds around it is not recorded


def test_lists_have_lists_of_gradients():
    NEEDED.clear()
    a, b = flambeau.ones(2, requires_grad=True), flambeau.ones(2)
    total, each, count = weighted([a, b], flambeau.tensor(3.0), n=2)
    assert count == 2 and all(t.requires_grad for t in (total, *each))
    (total.sum() + each[0].sum()).backward()
    assert a.grad.tolist() == [12.0, 12.0] and b.grad is None
    assert NEEDED == [([True, False], False, False)] * 2


def test_missing_gradients_come_as_zeros_or_as_none():
    seen = []

    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(len(seen) == 0)

    @custom_op("tests_tape::two", mutates_args=())
    def two(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, y + 1

    two.register_autograd(lambda ctx, *gs: (seen.append(gs), (gs[0], None))[1], setup_context=setup_context)
    for _ in range(2):
        x, y = flambeau.ones(1, requires_grad=True), flambeau.ones(1, requires_grad=True)
        two(x, y)[0].backward()
        assert x.grad.item() == 1.0 and y.grad is None
    assert seen[0][1].tolist() == [0.0] and seen[1][1] is None


def test_outputs_may_be_saved_and_integers_have_no_gradient():
    @custom_op("tests_tape::exp_and_order", mutates_args=())
    def exp_and_order(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.exp(), x.argsort()

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output[0])
        ctx.mark_non_differentiable(output[1])

    exp_and_order.register_autograd(lambda ctx, g, _: g * ctx.saved_tensors[0], setup_context=setup_context)
    x = flambeau.zeros(2, requires_grad=True)
    result, order = exp_and_order(x)
    assert not order.requires_grad
    result.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    alive = weakref.ref(result)
    del result, order
    gc.collect()
    assert alive() is None  # what is saved is no circle


def test_a_saved_tensor_that_was_written_to_is_refused():
    x = flambeau.ones(1, requires_grad=True)
    y = cube(x)
    with flambeau.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_keywords_come_beside_the_inputs():
    @custom_op("tests_tape::times", mutates_args=())
    def times(x: Tensor, *, by: float, plus: int = 1) -> Tensor:
        return x * by + plus

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        assert len(inputs) == 1 and keyword_only_inputs == {"by": 3.0, "plus": 1}
        ctx.by = keyword_only_inputs["by"]

    times.register_autograd(lambda ctx, g: g * ctx.by, setup_context=setup_context)
    x = flambeau.ones(1, requires_grad=True)
    times(x, by=3).backward()
    assert x.grad.item() == 3.0


@pytest.mark.parametrize(
    "backward, said",
    [
        (
            None,
            "Trying to backward through tests_tape.product.default but no autograd formula was registered",
        ),
        (lambda ctx, g: g, r"incorrect number of gradients \(expected 2, got 1\)"),
        (lambda ctx, g: (g, g, g), r"incorrect number of gradients \(expected 2, got 3\)"),
        (lambda ctx, g: (g.new_ones(5), None), r"got \[5\] but expected shape compatible with \[2\]"),
        (lambda ctx, g: (3, None), r"expected Variable or None \(got int\)"),
    ],
)
def test_wrong_derivatives_name_the_operation(backward, said):
    @custom_op("tests_tape::product", mutates_args=())
    def product(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    if backward is not None:
        product.register_autograd(backward)
    result = product(flambeau.ones(2, requires_grad=True), flambeau.ones(2))
    with pytest.raises(RuntimeError, match=said) as error:
        result.sum().backward()
    assert "tests_tape" in str(error.value)


def test_lists_of_another_form_are_refused():
    @custom_op("tests_tape::summed", mutates_args=())
    def summed(xs: list[Tensor]) -> Tensor:
        return sum(xs) * 1

    a = flambeau.ones(2, requires_grad=True)
    for answer in (lambda ctx, g: g, lambda ctx, g: ([g],)):
        summed.register_autograd(answer)
        with pytest.raises(RuntimeError, match="of the same structure as the inputs.*a list of 2"):
            summed([a, a]).sum().backward()
    summed.register_autograd(lambda ctx, g: ([g, None],))
    summed([a, a]).sum().backward()
    assert a.grad.tolist() == [1.0, 1.0]


def test_what_a_backward_raises_names_function_and_file():
    def failing(ctx, g):
        raise KeyError("lost")

    @custom_op("tests_tape::failing", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return x + 1

    op.register_autograd(failing)
    with pytest.raises(KeyError) as error:
        op(flambeau.ones(1, requires_grad=True)).backward()
    assert any(
        "failing` in " + __file__ in note and "the backward of tests_tape::failing" in note
        for note in error.value.__notes__
    )
    op.register_autograd(lambda ctx, g: g, setup_context=lambda ctx, inputs, output: inputs[3])
    with pytest.raises(IndexError) as error:
        op(flambeau.ones(1, requires_grad=True))
    assert any("the setup_context of tests_tape::failing" in note for note in error.value.__notes__)


def test_forward_mode_is_refused_where_pytorch_gives_zeros():
    with pytest.raises(NotImplementedError, match="tests_tape::cube.*forward mode"):
        flambeau.func.jvp(cube, (flambeau.ones(1),), (flambeau.ones(1),))


def test_kernels_without_derivative_are_differentiated_with_a_warning():
    lib = flambeau.library.Library("tests_tape_open", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x * 2, "CPU")
    lib.define("host(Tensor x) -> Tensor")
    lib.impl("host", lambda x: flambeau.from_numpy(x.detach().numpy() * 2), "CPU")
    for op, gradient in (
        (flambeau.ops.tests_tape_open.twice, [2.0]),
        (flambeau.ops.tests_tape_open.host, None),
    ):
        x = flambeau.ones(1, requires_grad=True)
        y = op(x)
        assert y.requires_grad
        with pytest.warns(UserWarning, match="an autograd kernel was not registered"):
            y.backward()
        assert (x.grad if gradient is None else x.grad.tolist()) == gradient
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lib.register = flambeau.library.register_autograd(
            "tests_tape_open::host", lambda ctx, g: 2 * g, lib=lib
        )
        x = flambeau.ones(1, requires_grad=True)
        flambeau.ops.tests_tape_open.host(x).backward()
        assert x.grad.item() == 2.0


def test_a_function_of_other_operations_is_recorded_by_them():
    lib = flambeau.library.Library("tests_tape_parts", "DEF")
    lib.define("square(Tensor x) -> Tensor")
    lib.impl("square", lambda x: x * x)
    y = flambeau.ops.tests_tape_parts.square(flambeau.ones(1, requires_grad=True))
    assert y.grad_fn.name() == "MulBackward0"
    assert flambeau.ops.tests_tape_parts.square(flambeau.ones(2, device="meta")).shape == (2,)


def test_autograd_kernels_stand_around_the_others():
    lib = flambeau.library.Library("tests_tape_around", "DEF")
    lib.define("sine(Tensor x) -> Tensor")
    lib.impl("sine", lambda x: flambeau.from_numpy(np.sin(x.numpy())), "CPU")
    op = flambeau.ops.tests_tape_around.sine.default

    class Sine(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            with flambeau._C._AutoDispatchBelowAutograd():
                return op(x)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos()

    lib.impl("sine", Sine.apply, "AutogradCPU")
    x = flambeau.zeros(1, requires_grad=True)
    op(x).backward()
    assert x.grad.item() == 1.0
    lib.impl("sine", lambda x: Sine.apply(x) * 2, "Autograd")
    assert op(flambeau.ones(1)).item() == pytest.approx(np.sin(1.0))  # the key of the device comes first
    lib.define("other(Tensor x) -> Tensor")
    lib.impl("other", lambda x: x * 2)
    lib.impl("other", lambda x: x, "AutogradCUDA")  # not that of the arguments: as if it were not there
    x = flambeau.ones(1, requires_grad=True)
    flambeau.ops.tests_tape_around.other(x).backward()
    assert x.grad.item() == 2.0
    with pytest.raises(RuntimeError, match="could not parse dispatch key: AutogradMoon"):
        lib.impl("sine", Sine.apply, "AutogradMoon")


def test_checkpoints_run_it_again():
    from flambeau.utils.checkpoint import checkpoint

    x = flambeau.tensor([2.0], requires_grad=True)
    checkpoint(cube, x, use_reentrant=False).backward()
    assert x.grad.item() == 12.0
