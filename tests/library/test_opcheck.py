"""`opcheck` finds what does not fit together."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import Tensor
from flambeau.library import Library, custom_op, opcheck
from flambeau.library._checking import OpCheckError

ALL = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_static",
    "test_aot_dispatch_dynamic",
)


@custom_op("tests_check::sine", mutates_args=())
def sine(x: Tensor, by: float = 1.0) -> Tensor:
    return flambeau.from_numpy(np.sin(x.numpy()) * by)


sine.register_fake(lambda x, by=1.0: flambeau.empty_like(x))
sine.register_autograd(
    lambda ctx, g: (ctx.saved_tensors[0].cos() * g * ctx.by, None),
    setup_context=lambda ctx, inputs, output: (
        ctx.save_for_backward(inputs[0]),
        setattr(ctx, "by", inputs[1]),
    ),
)


@pytest.mark.parametrize("x", [flambeau.ones(2), flambeau.ones(2, 3, requires_grad=True), flambeau.ones(0)])
def test_what_fits_succeeds(x):
    assert opcheck(sine, (x, 2.0), test_utils="ALL") == dict.fromkeys(ALL, "SUCCESS")
    assert opcheck(flambeau.ops.tests_check.sine, (x,), {"by": 3.0}, rtol=1e-6, atol=0.0) == dict.fromkeys(
        [t for t in ALL if t != "test_aot_dispatch_static"], "SUCCESS"
    )
    assert x.grad is None


def test_our_own_operations_are_checked_too():
    assert opcheck(
        flambeau.ops.aten.sin.default, (flambeau.ones(2, requires_grad=True),), test_utils="ALL"
    ) == dict.fromkeys(ALL, "SUCCESS")


def made(name, function, schema, fake=None, backward=None, setup=None):
    op = custom_op(f"tests_check::{name}", function, mutates_args=(), schema=schema)
    if fake is not None:
        op.register_fake(fake)
    op.unverified = False  # the comparison that every operation makes once comes before
    if backward is not None:
        op.register_autograd(backward, setup_context=setup)
        op.unverified = False
    return op


def writing(x):
    x.numpy()[...] += 1
    return x.clone()


@pytest.mark.parametrize(
    "test, op, said",
    [
        (
            "test_schema",
            made("writes", writing, "(Tensor x) -> Tensor"),
            "x is not defined as mutable but was mutated",
        ),
        (
            "test_faketensor",
            made("no_fake", lambda x: x + 1, "(Tensor x) -> Tensor"),
            "no fake impl registered",
        ),
        (
            "test_faketensor",
            made("shape", lambda x: x + 1, "(Tensor x) -> Tensor", lambda x: x.new_empty(5)),
            r"its shape is \[2, 3\], and the fake implementation says \[5\]",
        ),
        (
            "test_faketensor",
            made("rank", lambda x: x.sum(0), "(Tensor x) -> Tensor", lambda x: x.new_empty(1, 3)),
            r"its shape is \[3\], and the fake implementation says \[1, 3\]",
        ),
        (
            "test_faketensor",
            made("dtype", lambda x: x + 1, "(Tensor x) -> Tensor", lambda x: x.new_empty(2, 3).double()),
            "its dtype is flambeau.float32",
        ),
        (
            "test_faketensor",
            made("strides", lambda x: x + 1, "(Tensor x) -> Tensor", lambda x: x.new_empty(3, 2).T),
            r"its strides are \(3, 1\), and the fake implementation says \(1, 2\)",
        ),
        (
            "test_faketensor",
            made("count", lambda x: [x + 1], "(Tensor x) -> Tensor[]", lambda x: [x.new_empty(2, 3)] * 2),
            "returned 1 results, and the fake implementation says 2",
        ),
        (
            "test_aot_dispatch_dynamic",
            made(
                "gradient",
                lambda x: x + 1,
                "(Tensor x) -> Tensor",
                flambeau.empty_like,
                lambda ctx, g: g.cpu().numpy(),
            ),
            r"expected Variable or None \(got ndarray\)",
        ),
        (
            "test_aot_dispatch_dynamic",
            made("random", lambda x: flambeau.rand(2, 3), "(Tensor x) -> Tensor", flambeau.empty_like),
            "not close",
        ),
    ],
)
def test_what_does_not_fit_is_named(test, op, said):
    x = flambeau.ones(2, 3, requires_grad="Variable" in said)
    with pytest.raises(OpCheckError, match=f"{test} failed with (.|\n)*{said}") as error:
        opcheck(op, (x,), test_utils=test)
    assert error.value.__cause__ is not None
    result = opcheck(op, (x,), test_utils=[test], raise_exception=False)
    assert isinstance(result[test], Exception)


def test_libraries_whose_results_are_arguments_or_want_gradients():
    lib = Library("tests_check_lib", "DEF")
    lib.define("same(Tensor x) -> Tensor")
    lib.impl("same", lambda x: x, "CPU")
    lib.define("view(Tensor x) -> Tensor")
    lib.impl("view", lambda x: x.view(-1), "CPU")
    lib.define("allowed(Tensor(a) x) -> Tensor(a)")
    lib.impl("allowed", lambda x: x.view(-1), "CPU")
    lib.define("pair(Tensor x) -> (Tensor, Tensor)")
    lib.impl("pair", lambda x: (x.clone(),) * 2, "CPU")
    lib.define("plain(Tensor x) -> Tensor")
    lib.impl("plain", lambda x: x * 2, "CPU")
    ops, x = flambeau.ops.tests_check_lib, flambeau.ones(2)
    for op, said in (
        (ops.same, r"not allowed to directly return inputs(.|\n)*outputs\[0\] is x"),
        (ops.view, "x is not defined to alias output but was aliasing"),
        (ops.pair, "Outputs 0 and 1 alias unexpectedly"),
    ):
        with pytest.raises(OpCheckError, match=said):
            opcheck(op, (x,), test_utils="test_schema")
    assert opcheck(ops.allowed, (x,), test_utils="test_schema") == {"test_schema": "SUCCESS"}
    with pytest.raises(OpCheckError, match="does not have an autograd kernel"):
        opcheck(ops.plain, (flambeau.ones(2, requires_grad=True),), test_utils="test_autograd_registration")
    assert opcheck(ops.plain, (x,), test_utils="test_autograd_registration")


def test_writes_that_are_declared():
    @custom_op("tests_check::add_to", mutates_args={"x"})
    def add_to(x: Tensor, y: Tensor) -> None:
        x.numpy()[...] += y.numpy()

    x = flambeau.zeros(2)
    assert set(opcheck(add_to, (x, flambeau.ones(2))).values()) == {"SUCCESS"}
    assert x.tolist() == [0.0, 0.0]  # copies were written to


@pytest.mark.parametrize(
    "given, error, said",
    [
        ((3, ()), ValueError, "must be instance of torch._ops.OpOverload"),
        ((sine, (), None, "tests"), ValueError, "to be subset of"),
        ((flambeau.ops.aten.add, ()), RuntimeError, "without overloads. Got the following"),
    ],
)
def test_what_cannot_be_checked(given, error, said):
    op, args, *rest = given
    with pytest.raises(error, match=said):
        opcheck(op, args, *rest[:1], **({"test_utils": rest[1]} if len(rest) > 1 else {}))
    with pytest.raises(ValueError, match="you must specify both"):
        opcheck(sine, (), rtol=1.0)
