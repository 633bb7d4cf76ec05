"""Who sees the operations of programs: modes, classes of tensors, autocast, the profiler."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import Tensor
from flambeau.library import Library, custom_op
from flambeau.overrides import TorchFunctionMode
from flambeau.utils._python_dispatch import TorchDispatchMode


@custom_op("tests_seen::shifted", mutates_args=())
def shifted(x: Tensor, by: float = 1.0, *, twice: bool = False) -> Tensor:
    return x + (2 * by if twice else by)


shifted.register_autograd(lambda ctx, g: (g, None))


class Functions(TorchFunctionMode):
    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    def __init__(self):
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append((str(func), args[1:], kwargs))
        return func(*args, **(kwargs or {}))


def test_modes_see_one_call_and_nothing_inside():
    x = flambeau.ones(1, requires_grad=True)
    with Functions() as upper:
        y = flambeau.ops.tests_seen.shifted(x)
    assert upper.seen == [shifted]
    with Dispatched() as lower:
        y = shifted(x, twice=True, by=2)
    assert lower.seen == [("tests_seen.shifted.default", (2.0,), {"twice": True})] and y.item() == 5.0
    y.backward()
    assert x.grad.item() == 1.0


def test_a_mode_may_answer():
    class Answer(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {})) if func is not shifted else args[0] * 10

    with Answer():
        assert shifted(flambeau.ones(1)).item() == 10.0


def test_a_composite_may_be_taken_apart():
    lib = Library("tests_seen_parts", "DEF")
    lib.define("both(Tensor x) -> Tensor")
    lib.impl("both", lambda x: shifted(x) * 2)

    class Apart(Dispatched):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = self.decompose(func, args, kwargs or {})
            return (
                super().__torch_dispatch__(func, types, args, kwargs) if result is NotImplemented else result
            )

    x = flambeau.ones(1)
    with Apart() as mode:
        result = flambeau.ops.tests_seen_parts.both(x)
    assert result.item() == 4.0
    assert [name for name, *_ in mode.seen] == ["tests_seen.shifted.default", "<flambeau operation mul>"]


def test_classes_of_tensors_are_asked():
    class Noted(Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    result = shifted(flambeau.ones(1).as_subclass(Noted))
    assert type(result) is Noted and Noted.seen == [shifted]


def test_rules_for_classes_of_modes():
    class Chosen(Dispatched):
        pass

    class Other(Dispatched):
        pass

    @custom_op("tests_seen::ruled", mutates_args=())
    def ruled(x: Tensor) -> Tensor:
        return x + 1

    @flambeau.library.register_torch_dispatch("tests_seen::ruled", Chosen)
    def _(mode, func, types, args, kwargs):
        assert isinstance(mode, Chosen) and func is ruled and kwargs == {}
        return args[0] + 100

    x = flambeau.zeros(1)
    with Chosen() as chosen:
        first = ruled(x)
    with Other() as other:
        second = ruled(x)
    assert (first.item(), second.item(), chosen.seen, len(other.seen)) == (100.0, 1.0, [], 1)

    lib = Library("tests_seen", "IMPL")
    lib._register_torch_dispatch_rule("ruled", Other, lambda mode, func, types, args, kwargs: args[0] + 7)
    with Other():
        assert ruled(flambeau.zeros(1)).item() == 7.0
    lib._destroy()
    with Other():
        assert ruled(flambeau.zeros(1)).item() == 1.0


def test_autocast():
    seen = []

    @custom_op("tests_seen::product", mutates_args=())
    def product(x: Tensor, y: Tensor) -> Tensor:
        seen.append((x.dtype, y.dtype))
        return x @ y

    product.register_autograd(lambda ctx, g: (g, None))
    e = flambeau.eye(2)
    with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
        assert product(e, e).dtype == flambeau.bfloat16  # what it is made of is cast
    flambeau.library.register_autocast("tests_seen::product", "cpu", flambeau.float16)
    with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
        assert product(e, e).dtype == flambeau.float16  # the operands are, and nothing inside
        assert product(e.double(), e.double()).dtype == flambeau.float64
        x = flambeau.eye(2, requires_grad=True)
        product(x, e).sum().backward()
        assert x.grad.dtype == flambeau.float32
    assert product(e, e).dtype == flambeau.float32
    assert seen[:2] == [(flambeau.float32,) * 2, (flambeau.float16,) * 2]
    for device_type, said in (("moon", "does not support autocast"), (3, "of type `str`")):
        with pytest.raises(ValueError, match=said):
            product.register_autocast(device_type, flambeau.float16)


def test_autocast_kernels():
    lib = Library("tests_seen_cast", "DEF")
    lib.define("same(Tensor x) -> Tensor")
    lib.impl("same", lambda x: x.clone(), "CPU")
    keys = flambeau._C.DispatchKeySet(flambeau._C.DispatchKey.AutocastCPU)

    def in_double(x):
        with flambeau._C._ExcludeDispatchKeyGuard(keys):
            assert not flambeau.is_autocast_enabled("cpu")
            return flambeau.ops.tests_seen_cast.same(x.double())

    lib.impl("same", in_double, "AutocastCPU")
    with flambeau.autocast("cpu"):
        assert flambeau.ops.tests_seen_cast.same(flambeau.ones(1)).dtype == flambeau.float64
        assert flambeau.is_autocast_enabled("cpu")
    assert flambeau.ops.tests_seen_cast.same(flambeau.ones(1)).dtype == flambeau.float32


def test_the_profiler_shows_the_name_of_the_program():
    with flambeau.profiler.profile() as seen:
        shifted(flambeau.ones(1))
    assert "tests_seen::shifted" in [e.name for e in seen.events()]
