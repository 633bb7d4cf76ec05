"""Objects with `__torch_function__` that are no tensors are asked wherever a tensor may stand: PyTorch's page "Extending PyTorch"."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from flambeau.core.call.operation import Form
from samples import ALL, Operands

import flambeau
from flambeau import nn

ANSWER = object()


class Asked:
    """Notes what it is asked."""

    def __init__(self):
        self.seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        flat = [
            y
            for x in (*args, *(kwargs or {}).values())
            for y in (x if isinstance(x, (list, tuple)) else (x,))
        ]
        next(x for x in flat if isinstance(x, cls)).seen.append((func, types))
        return ANSWER


class Numbered(Asked):
    """Has all that a number or an array has."""

    dtype, ndim, shape = flambeau.float32, 0, ()

    def __float__(self):
        raise AssertionError("it was taken for a number")

    __index__ = __bool__ = __len__ = __iter__ = __array__ = item = __float__


def arguments(text):
    """What stands in a sample call."""
    return eval(f"function({text})", {"function": lambda *args, **kwargs: (list(args), kwargs)}, Operands())


def replaced(args, kwargs, made):
    """The call with one tensor after the other, also in a list, replaced."""
    for k, x in enumerate(args):
        if isinstance(x, flambeau.Tensor):
            yield [*args[:k], made(), *args[k + 1 :]], kwargs
        elif isinstance(x, (list, tuple)) and any(isinstance(y, flambeau.Tensor) for y in x):
            yield [*args[:k], [made(), *x[1:]], *args[k + 1 :]], kwargs
    for key, x in kwargs.items():
        if isinstance(x, flambeau.Tensor):
            yield args, {**kwargs, key: made()}


@pytest.mark.parametrize("cls", [Asked, Numbered])
def test_every_operation_asks_an_object_in_the_place_of_a_tensor(cls):
    wrong, tried = [], 0
    for entry, text in ALL:
        for args, kwargs in (
            replaced(*arguments(text), lambda: made.append(cls()) or made[-1])
            if (made := []) is not None
            else ()
        ):
            tried += 1
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = entry.function(*args, **kwargs)
            except Exception as error:
                found = error
            if found is not ANSWER or made[-1].seen != [(entry.function, (cls,))]:
                wrong.append((entry.name, text, len(made), repr(found)[:80], made[-1].seen))
    assert tried > 1000 and wrong == []


def test_methods_and_operators_ask_it():
    x = flambeau.ones(2)
    for call, wanted in [
        (lambda o: x.add(o), flambeau.Tensor.add),
        (lambda o: x + o, flambeau.Tensor.add),
        (lambda o: o + x, flambeau.Tensor.add),
        (lambda o: x - o, flambeau.Tensor.sub),
        (lambda o: o - x, flambeau.rsub),
        (lambda o: x * o, flambeau.Tensor.mul),
        (lambda o: x / o, flambeau.Tensor.div),
        (lambda o: o / x, flambeau.Tensor.div),
        (lambda o: x @ o, flambeau.Tensor.matmul),
        (lambda o: x == o, flambeau.Tensor.eq),
        (lambda o: x < o, flambeau.Tensor.lt),
        (lambda o: x & o, flambeau.Tensor.bitwise_and),
        (lambda o: x.where(o, x), flambeau.Tensor.where),
        (lambda o: x[o], flambeau.Tensor.__getitem__),
        (lambda o: x.__iadd__(o), flambeau.Tensor.add_),
        (lambda o: flambeau.numel(o), flambeau.numel),
        (lambda o: nn.functional.linear(x, weight=o), nn.functional.linear),
        (lambda o: flambeau.add(x, x, out=o), flambeau.add),
    ]:
        asked = Asked()
        assert call(asked) is ANSWER, wanted
        assert len(asked.seen) == 1 and asked.seen[0][0].__name__ == wanted.__name__
        if isinstance(wanted, Form) and wanted.__name__ in ("add", "where", "__getitem__", "eq"):
            assert asked.seen[0][0] is wanted


def test_more_specific_classes_are_asked_first_and_not_implemented_goes_on():
    order = []

    class First:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            order.append((cls, set(types)))
            return NotImplemented

    class Derived(First):
        pass

    with pytest.raises(
        TypeError, match="no implementation found for 'add' on types that implement __torch_function__"
    ):
        flambeau.add(First(), Derived())
    assert [cls for cls, _ in order] == [Derived, First] and order[0][1] == {First, Derived}
    order.clear()

    class Other(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "other", set(types)

    assert flambeau.add(First(), flambeau.ones(1).as_subclass(Other)) == ("other", {First, Other})


def test_an_error_of_its_own_goes_through_once():
    calls = []

    class Raises:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func)
            raise KeyError("mine")

    for call in (
        lambda: flambeau.add(Raises(), 1),
        lambda: nn.functional.relu(Raises()),
        lambda: flambeau.cat([Raises()]),
    ):
        calls.clear()
        with pytest.raises(KeyError, match="mine") as raised:
            call()
        assert len(calls) == 1 and raised.value.__context__ is None


def test_it_is_not_asked_where_that_is_switched_off():
    with flambeau._C.DisableTorchFunctionSubclass(), pytest.raises(TypeError):
        flambeau.add(Asked(), 1)
    assert flambeau.add(flambeau.ones(1), 1).item() == 2.0


def test_under_modes():
    from flambeau.overrides import TorchFunctionMode
    from flambeau.utils._python_dispatch import TorchDispatchMode

    class Upper(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((func, types))
            return func(*args, **(kwargs or {}))

    class Lower(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    seen = []
    with Upper():
        assert flambeau.exp(Asked()) is ANSWER
    assert seen == [(flambeau.exp, (Asked,))]
    with Lower():
        assert flambeau.exp(Asked()) is ANSWER
    with flambeau.autocast("cpu"):
        assert flambeau.mm(Asked(), flambeau.ones(2, 2)) is ANSWER


class ScalarTensor:
    """PyTorch's first example: N × N, the same number everywhere on the diagonal."""

    handled = {}

    def __init__(self, n, value):
        self._n, self._value = n, value

    def tensor(self):
        return self._value * flambeau.eye(self._n)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in cls.handled or not all(issubclass(t, (flambeau.Tensor, ScalarTensor)) for t in types):
            args = [a.tensor() if hasattr(a, "tensor") else a for a in args]
            return func(*args, **(kwargs or {}))
        return cls.handled[func](*args, **(kwargs or {}))


def test_the_page_s_scalar_tensor():
    ScalarTensor.handled = {
        flambeau.mean: lambda x: float(x._value) / x._n,
        flambeau.add: lambda x, y: ScalarTensor(x._n, x._value + y._value),
    }
    d = ScalarTensor(5, 2)
    assert flambeau.mean(d) == 0.4
    added = flambeau.add(d, ScalarTensor(5, 3))
    assert isinstance(added, ScalarTensor) and added._value == 5
    np.testing.assert_array_equal(flambeau.mul(d, flambeau.ones(5, 5)).numpy(), 2 * np.eye(5))
    assert nn.functional.softmax(d, 0).shape == (5, 5)


class MetadataTensor:
    """PyTorch's second: a tensor and words about it."""

    def __init__(self, data, metadata=None):
        self._t, self._metadata = flambeau.as_tensor(data), metadata

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        metadatas = tuple(a._metadata for a in args if hasattr(a, "_metadata"))
        args = [getattr(a, "_t", a) for a in args]
        return MetadataTensor(func(*args, **(kwargs or {})), metadata=metadatas[0])


def test_the_page_s_metadata_tensor():
    m = MetadataTensor([[1.0, 2.0], [3.0, 4.0]], "meters")
    for found in (
        flambeau.add(flambeau.ones(2, 2), m),
        flambeau.mul(m, 2),
        flambeau.ones(2, 2) + m,
        nn.functional.softmax(m, 1),
        nn.functional.linear(m, flambeau.ones(3, 2)),
        nn.Linear(2, 2)(m),
        flambeau.einsum("ij->ji", m),
        flambeau.linalg.inv(m),
        flambeau.sum(m),
    ):
        assert (
            isinstance(found, MetadataTensor)
            and found._metadata == "meters"
            and isinstance(found._t, flambeau.Tensor)
        )
