"""Operations made of functions: calls, kernels, results, writes."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import flambeau
from flambeau import Tensor
from flambeau.library import custom_op

CPU = flambeau.device("cpu")


@custom_op("tests::scaled", mutates_args=())
def scaled(x: Tensor, by: float = 2.0, *, plus: int = 0) -> Tensor:
    return flambeau.from_numpy(x.numpy() * by + plus)


@custom_op("tests::add_to", mutates_args={"x"})
def add_to(x: Tensor, y: Tensor) -> None:
    x.numpy()[...] += y.numpy()


@custom_op("tests::parts", mutates_args=())
def parts(xs: list[Tensor], counts: list[int]) -> tuple[Tensor, list[Tensor], int]:
    return sum(xs) * 1, [x * n for x, n in zip(xs, counts)], len(xs)


def test_every_way_of_calling_is_one_call():
    x = flambeau.tensor([1.0, 2.0])
    for call in (
        scaled,
        flambeau.ops.tests.scaled,
        flambeau.ops.tests.scaled.default,
        scaled._opoverload,
    ):
        assert call(x).tolist() == [2.0, 4.0]
        assert call(x, 3.0).tolist() == call(x=x, by=3).tolist() == [3.0, 6.0]
        assert call(x, plus=1).tolist() == [3.0, 5.0]


def test_the_operation_is_one_object():
    op = flambeau.ops.tests.scaled.default
    assert op is scaled and flambeau.ops.tests.scaled is flambeau.ops.tests.scaled
    assert str(op) == "tests.scaled.default" and op.name() == "tests::scaled" and op.namespace == "tests"
    assert op.__name__ == "scaled.default" and op.overloadpacket is flambeau.ops.tests.scaled
    assert str(op._schema) == "tests::scaled(Tensor x, float by=2., *, SymInt plus=0) -> Tensor"
    assert copy.deepcopy(op) is op and pickle.loads(pickle.dumps(op)) is op
    packet = flambeau.ops.tests.scaled
    assert pickle.loads(pickle.dumps(packet)) is packet and list(packet) == ["default"]
    assert "scaled" in dir(flambeau.ops.tests)


def test_it_is_no_method():
    class Holder(flambeau.nn.Module):
        op = scaled

        def forward(self, x):
            return self.op(x)

    assert Holder()(flambeau.ones(1)).tolist() == [2.0]


@pytest.mark.parametrize(
    "given, said",
    [
        (((3,), {}), "value of type 'Tensor' for argument 'x' but instead found type 'int'"),
        (((), {}), "is missing value for argument 'x'"),
        (((flambeau.ones(1), 1.0, 2), {}), r"takes 2 positional argument\(s\) but 3"),
        (((flambeau.ones(1),), {"q": 1}), "Unknown keyword argument 'q'"),
        (((flambeau.ones(1),), {"x": flambeau.ones(1)}), "'x' specified both as positional and keyword"),
        (((flambeau.ones(1), "a"), {}), "'float' for argument 'by' but instead found type 'str'"),
        (((flambeau.ones(1),), {"plus": 1.5}), "'int' for argument 'plus' but instead found type 'float'"),
        (((flambeau.ones(1),), {"plus": 1 << 63}), "'int' for argument 'plus'"),
        ((([flambeau.ones(1)],), {}), "'Tensor' for argument 'x' but instead found type 'list'"),
        (((flambeau.ones(1), 1j), {}), "'float' for argument 'by'"),
    ],
)
def test_arguments_that_do_not_fit(given, said):
    args, kwargs = given
    with pytest.raises(RuntimeError, match=said) as error:
        scaled(*args, **kwargs)
    assert "tests::scaled" in str(error.value)


def test_numbers_of_other_libraries_are_taken():
    seen = []

    @custom_op("tests::numbers", mutates_args=())
    def numbers(n: int, f: float, b: bool, s: flambeau.types.Number, many: list[int] | None = None) -> Tensor:
        seen.append((n, f, b, s, many))
        return flambeau.zeros(1)

    numbers(np.int64(3), np.float32(0.5), np.bool_(True), np.float64(2), (1, np.int8(2)))
    numbers(flambeau.tensor(4), 1, 1, 2.5, [3])
    numbers(True, flambeau.tensor(1.5), False, 1j)
    assert seen == [(3, 0.5, True, 2.0, [1, 2]), (4, 1.0, True, 2.5, [3]), (1, 1.5, False, 1j, None)]
    assert [[type(v) for v in row[:3]] for row in seen] == [[int, float, bool]] * 3
    with pytest.raises(RuntimeError, match="'number' for argument 's' but instead found type 'Tensor'"):
        numbers(1, 1.0, True, flambeau.tensor(1.0))


def test_defaults_of_every_kind_arrive():
    seen = []

    @custom_op("tests::defaults", mutates_args=())
    def defaults(
        x: Tensor,
        y: Tensor | None = None,
        kind: flambeau.dtype = flambeau.float64,
        place: flambeau.device = CPU,
        text: str = 'a"b',
        sizes: list[int] | None = None,
        small: float = 1e-20,
    ) -> Tensor:
        return x.to(kind)

    def setup_context(ctx, inputs, output):
        seen.append(inputs[1:])

    defaults.register_autograd(lambda ctx, g: (g.float(),), setup_context=setup_context)
    defaults(flambeau.ones(1, requires_grad=True)).backward()
    assert seen == [(None, flambeau.float64, flambeau.device("cpu"), 'a"b', None, 1e-20)]


def test_lists_and_several_results():
    total, each, count = parts([flambeau.ones(2), flambeau.ones(2)], (2, 3))
    assert (
        total.tolist() == [2.0, 2.0] and [e.tolist() for e in each] == [[2.0, 2.0], [3.0, 3.0]] and count == 2
    )
    with pytest.raises(RuntimeError, match=r"'List\[Tensor\]' for argument 'xs'"):
        parts(flambeau.ones(2), [1])
    with pytest.raises(RuntimeError, match=r"'List\[Tensor\]' for argument 'xs'"):
        parts([flambeau.ones(2), 3], [1])


def returning(name, annotation, value):
    def function(x: Tensor):
        return value(x)

    function.__annotations__["return"] = annotation
    return custom_op(f"tests::returns_{name}", function, mutates_args=())


@pytest.mark.parametrize(
    "name, annotation, value, error, said",
    [
        (
            "number",
            Tensor,
            lambda x: 3,
            RuntimeError,
            "value of type 'int' where the schema .* says 'Tensor'",
        ),
        ("pair", Tensor, lambda x: (x + 1, x + 2), RuntimeError, "'tuple of Tensor, Tensor' where"),
        ("one", tuple[Tensor, Tensor], lambda x: x + 1, TypeError, "not an instance of 'sequence'"),
        ("three", tuple[Tensor, Tensor], lambda x: [x + 1] * 3, RuntimeError, "returned 3 values"),
        ("no_list", list[Tensor], lambda x: x + 1, RuntimeError, r"says 'List\[Tensor\]'"),
        ("float", int, lambda x: 2.5, RuntimeError, "'float' where the schema .* says 'int'"),
        ("same", Tensor, lambda x: x, RuntimeError, "may not alias any inputs"),
        ("view", Tensor, lambda x: x[:1], RuntimeError, "may not alias any inputs"),
        ("twice", tuple[Tensor, Tensor], lambda x: (x.clone(),) * 2, RuntimeError, "or other returns"),
        (
            "in_list",
            list[Tensor],
            lambda x: [x.clone(), x.view(-1)],
            RuntimeError,
            "may not alias any inputs",
        ),
    ],
)
def test_results_that_are_not_as_declared_name_function_and_file(name, annotation, value, error, said):
    op = returning(name, annotation, value)
    with pytest.raises(error, match=said) as caught:
        op(flambeau.ones(2))
    assert "`returning.<locals>.function` in" in str(caught.value) and __file__ in str(caught.value)


def test_what_a_kernel_raises_names_function_and_file():
    @custom_op("tests::raising", mutates_args=())
    def raising(x: Tensor) -> Tensor:
        raise ValueError("no good")

    with pytest.raises(ValueError, match="^no good") as caught:
        raising(flambeau.ones(1))
    (note,) = caught.value.__notes__
    assert "raising` in " + __file__ in note and "tests::raising" in note


@pytest.mark.parametrize(
    "made, said",
    [
        (lambda x: x.new_ones(3), r"its shape is \[3\], and the fake implementation says \[2\]"),
        (
            lambda x: x.double(),
            "its dtype is flambeau.float64, and the fake implementation says flambeau.float32",
        ),
        (lambda x: x.to("meta"), "it is on meta, and the arguments are on cpu"),
    ],
)
def test_the_first_result_is_compared_with_the_fake(made, said):
    op = custom_op("tests::promised", lambda x: made(x), mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_fake(lambda x: x.new_empty(2))
    for _ in range(2):  # it stays an error
        with pytest.raises(RuntimeError, match=said) as caught:
            op(flambeau.ones(2))
        assert __file__ in str(caught.value) and "tests::promised" in str(caught.value)


def test_sizes_that_depend_on_data_are_not_compared():
    @custom_op("tests::chosen", mutates_args=())
    def chosen(x: Tensor) -> Tensor:
        return x[x > 0].clone()

    @chosen.register_fake
    def _(x):
        return x.new_empty(2 * flambeau.library.get_ctx().new_dynamic_size())

    assert chosen(flambeau.tensor([1.0, -1.0, 2.0])).tolist() == [1.0, 2.0]
    assert flambeau.library.get_ctx() is None
    with pytest.raises(RuntimeError, match="data-dependent shape"):
        chosen(flambeau.ones(2, device="meta"))


def test_a_fake_that_raises_is_not_held_against_the_kernel():
    @custom_op("tests::asking", mutates_args=())
    def asking(x: Tensor) -> Tensor:
        return x + 1

    @asking.register_fake
    def _(x):
        assert x.device.type == "cpu"
        return x.new_empty(x.shape)

    assert asking(flambeau.ones(1)).item() == asking(flambeau.ones(1)).item() == 2.0
    result = flambeau.library.opcheck(
        asking, (flambeau.ones(1),), test_utils="test_faketensor", raise_exception=False
    )
    assert isinstance(result["test_faketensor"], AssertionError)


def test_tensors_without_data_go_to_the_fake():
    with pytest.raises(RuntimeError, match=r"no fake impl registered for <CustomOpDef\(tests::parts\)>"):
        parts([flambeau.ones(2, device="meta")], [1])
    assert (
        add_to(flambeau.ones(2, device="meta"), flambeau.ones(2)) is None
    )  # it only writes: nothing to tell

    @custom_op("tests::outlined", mutates_args=())
    def outlined(x: Tensor) -> Tensor:
        return x.clone()

    outlined.register_fake(lambda x: x.new_empty(x.shape))
    result = outlined(flambeau.ones(2, 1 << 40, device="meta", requires_grad=True))
    assert result.shape == (2, 1 << 40) and result.requires_grad


def test_writes_are_counted_through_views():
    x = flambeau.zeros(2, 3)
    view, version = x[0], x._version
    add_to(view, flambeau.ones(3))
    assert x.tolist() == [[1.0] * 3, [0.0] * 3] and x._version == view._version == version + 1
    leaf = flambeau.ones(3, requires_grad=True)
    product = leaf * leaf
    add_to(leaf.detach(), flambeau.ones(3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_lists_that_are_written_to_are_counted():
    @custom_op("tests::fill_all", mutates_args="unknown")
    def fill_all(xs: list[Tensor], by: float) -> None:
        for x in xs:
            x.numpy()[...] = by

    a, b = flambeau.zeros(1), flambeau.zeros(1)
    fill_all([a, b], 2.0)
    assert (a.item(), b.item(), a._version, b._version) == (2.0, 2.0, 1, 1)


def test_a_mutating_operation_has_no_derivative():
    with pytest.raises(RuntimeError, match="non-functional operator"):
        add_to.register_autograd(lambda ctx: None)
    x = flambeau.ones(2, requires_grad=True)
    add_to(x, flambeau.ones(2))  # as in PyTorch: below the tape
    assert x.tolist() == [2.0, 2.0] and x.is_leaf


def test_in_place_and_out_forms():
    @custom_op("tests::sin_", mutates_args={"x"}, tags=flambeau.Tag.inplace)
    def sin_(x: Tensor) -> Tensor:
        np.sin(x.numpy(), out=x.numpy())
        return x

    @custom_op("tests::sin_out", mutates_args={"out"}, tags=flambeau.Tag.out)
    def sin_out(x: Tensor, *, out: Tensor) -> Tensor:
        np.sin(x.numpy(), out=out.numpy())
        return out

    x, out = flambeau.ones(2), flambeau.empty(2)
    assert sin_out(x, out=out) is out and sin_(x) is x and flambeau.equal(x, out) and x._version == 1
    assert sin_(flambeau.ones(3, device="meta")).shape == (3,)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        sin_out(flambeau.ones(2, requires_grad=True), out=out)
    with pytest.raises(RuntimeError, match="torch.Tag.out"):
        sin_out.register_autograd(lambda ctx, g: g)

    @custom_op("tests::copy_", mutates_args={"x"}, tags=flambeau.Tag.inplace)
    def copy_(x: Tensor) -> Tensor:
        return x.clone()

    with pytest.raises(RuntimeError, match="must return its first argument"):
        copy_(x)


def test_kernels_by_type_of_device():
    @custom_op("tests::placed", mutates_args=(), device_types="cuda")
    def placed(x: Tensor) -> Tensor:
        return x + 100

    with pytest.raises(NotImplementedError, match=r"'CPU' backend. 'tests::placed' is only .*\[CUDA\]"):
        placed(flambeau.ones(1))
    placed.register_kernel("cpu", lambda x: x + 1)
    assert placed(flambeau.ones(1)).item() == 2.0
    placed.register_kernel(["cpu", "opencl"])(lambda x: x + 2)
    assert placed(flambeau.ones(1)).item() == 3.0
    with placed.set_kernel_enabled("cpu", enabled=False):
        assert placed(flambeau.ones(1)).item() == 101.0
        with placed.set_kernel_enabled("cpu"):
            assert placed(flambeau.ones(1)).item() == 3.0
        assert placed(flambeau.ones(1)).item() == 101.0
    assert placed(flambeau.ones(1)).item() == 3.0
    with pytest.raises(RuntimeError, match="device type at start of device string: moon"):
        placed.register_kernel("moon", lambda x: x)


def test_operations_without_tensors():
    @custom_op("tests::made", mutates_args=(), device_types="cpu")
    def made(n: int, device: flambeau.device) -> Tensor:
        assert isinstance(device, flambeau.device)
        return flambeau.ones(n, device=device)

    assert made(2, "cpu").shape == made(n=2, device=flambeau.device("cpu")).shape == (2,)
    with pytest.raises(RuntimeError, match="made does not have a kernel registered for cuda"):
        made(2, "cuda")

    def nowhere(n: int) -> Tensor:
        return flambeau.ones(n)

    with pytest.raises(ValueError, match="required to have a `device: torch.device` argument"):
        custom_op("tests::nowhere", nowhere, mutates_args=(), device_types="cpu")
    assert custom_op("tests::anywhere", nowhere, mutates_args=())(3).shape == (3,)


def test_a_name_defined_again_is_the_new_operation():
    def version(k):
        @custom_op("tests::again", mutates_args=())
        def again(x: Tensor) -> Tensor:
            return x + k

        return again

    first, second = version(1), version(2)
    assert (
        flambeau.ops.tests.again.default is second
        and flambeau.ops.tests.again(flambeau.zeros(1)).item() == 2.0
    )
    assert first(flambeau.zeros(1)).item() == 1.0


@pytest.mark.parametrize(
    "name, options, error, said",
    [
        ("noname", {}, ValueError, 'of the form "namespace::name"'),
        ("a.b::c", {}, RuntimeError, "HERE"),
        ("a::b::c", {}, ValueError, "of the form"),
        ("tests::bad", {"mutates_args": "x"}, ValueError, "the string 'unknown'"),
        ("tests::bad", {"mutates_args": {"q"}}, ValueError, "were not found in the custom op's signature"),
        ("tests::bad", {"schema": "(Tensor(a!) x) -> Tensor"}, ValueError, "suggests that the op mutates"),
        ("tests::bad", {"schema": "(Tensor x -> Tensor"}, RuntimeError, "<--- HERE"),
        ("tests::bad", {"schema": "(*, Tensor x) -> Tensor"}, NotImplementedError, "kwarg-only Tensor"),
        ("tests::bad", {"device_types": "moon"}, RuntimeError, "moon"),
    ],
)
def test_definitions_that_are_refused(name, options, error, said):
    def function(x: Tensor) -> Tensor:
        return x.clone()

    with pytest.raises(error, match=said):
        custom_op(name, function, **{"mutates_args": (), **options})


def test_threads_call_it_at_once():
    answers = []

    def work(k):
        answers.extend(scaled(flambeau.tensor([float(k)])).item() == 2.0 * k for _ in range(200))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 800


def test_it_may_call_itself():
    @custom_op("tests::countdown", mutates_args=())
    def countdown(x: Tensor, n: int) -> Tensor:
        return countdown(x, n - 1) + 1 if n else x.clone()

    x = flambeau.zeros(1, requires_grad=True)
    assert countdown(x, 5).item() == 5.0 and flambeau.is_grad_enabled()


def test_empty_operands_and_views():
    assert scaled(flambeau.ones(0, 3)).shape == (0, 3)
    assert scaled(flambeau.ones(3, 2).T).tolist() == [[2.0] * 3] * 2
