"""What a class that holds a public function binds: as in PyTorch, whose answers `tools/bound_on_torch.py` has written down."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import pickle
import pkgutil
import types
from pathlib import Path

import pytest
from flambeau.core.call.operation import Form, Op, behind

import flambeau
from flambeau import nn
from flambeau.operations.declare.registry import REGISTRY
from flambeau.overrides import TorchFunctionMode, is_tensor_method_or_property, resolve_name
from flambeau.utils._python_dispatch import TorchDispatchMode

TABLE = dict(line.split() for line in Path(__file__).with_name("bound.txt").read_text().splitlines())
# Settings, streams of numbers and states: they take no tensor, and a method of them would be an error in PyTorch, too.
SETTINGS = {
    *("get_default_device", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_default_device"),
    *("set_default_dtype", "set_rng_state", "native_norm"),
}


def public(dotted):
    found = flambeau
    for part in dotted.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(
    "space", ["", "nn.functional", "linalg", "fft", "special", "functional", "signal.windows", "Tensor"]
)
def test_operations_are_bound_as_in_pytorch(space):
    names = [name for name in TABLE if name.rpartition(".")[0] == space and isinstance(public(name), Op)]
    assert names
    wrong = [name for name in names if hasattr(type(public(name)), "__get__") != (TABLE[name] == "binds")]
    assert wrong == []


def test_other_functions_are_bound_as_in_pytorch():
    binds = {n: hasattr(type(public(n)), "__get__") for n in TABLE}
    wrong = [n for n in TABLE if binds[n] != (TABLE[n] == "binds") and n not in SETTINGS]
    assert [n for n in wrong if "_copy" not in n] == []
    assert not any(binds[n] for n in SETTINGS - {"native_norm"})  # which would be an error as a method


def test_a_class_may_hold_a_setting():
    class Holder:
        enabled = flambeau.is_grad_enabled
        common = flambeau.result_type
        threads = flambeau.get_num_threads
        casts = flambeau.is_autocast_enabled
        watches = flambeau.is_anomaly_enabled

    held = Holder()
    assert held.enabled() and held.threads() >= 1 and not held.casts("cpu") and not held.watches()
    assert held.common(flambeau.ones(2), 1.0) is flambeau.float32
    with flambeau.no_grad():
        assert not held.enabled()
    for function in (flambeau.is_grad_enabled, flambeau.get_autocast_dtype, flambeau.set_num_threads):
        assert pickle.loads(pickle.dumps(function)) is function and copy.deepcopy(function) is function


def test_a_class_may_hold_an_operation():
    class Layer:
        act = flambeau.relu
        product = nn.functional.linear
        joined = flambeau.cat
        made = flambeau.zeros

    Layer.late = flambeau.add
    x = flambeau.tensor([[-1.0, 2.0]])
    assert Layer().act(x).tolist() == [[0.0, 2.0]] and Layer().act is flambeau.relu is Layer.act
    assert Layer().product(x, x).tolist() == [[5.0]] and Layer().joined([x, x]).shape == (2, 2)
    assert Layer().made(2).shape == (2,) and Layer().late(x, 1).tolist() == [[0.0, 3.0]]


def test_functions_of_python_are_methods():
    class Layer:
        act = nn.functional.relu
        joined = flambeau.einsum

    assert inspect.ismethod(Layer().act) and Layer().act.__func__ is nn.functional.relu
    assert Layer().joined.__self__.__class__ is Layer
    with pytest.raises((TypeError, RuntimeError)):
        Layer().act(flambeau.ones(2))


def test_methods_of_tensor_are_methods_wherever_a_class_of_tensors_holds_them():
    class Mine(flambeau.Tensor):
        rectified = flambeau.Tensor.relu

    x = flambeau.tensor([-1.0, 2.0])
    assert x.as_subclass(Mine).rectified().tolist() == [0.0, 2.0]
    held = flambeau.Tensor.add
    try:
        flambeau.Tensor.add = lambda self, other: "mine"
        assert x.add(1) == "mine"
    finally:
        flambeau.Tensor.add = held
    assert x.add(1).tolist() == [0.0, 3.0] and flambeau.Tensor.add is held


def test_no_class_of_tensors_holds_a_bare_operation():
    for module in pkgutil.walk_packages(flambeau.__path__, "flambeau."):
        if ".legacy" not in module.name and not module.name.endswith(("__main__", ".torch")):
            importlib.import_module(module.name)
    classes, todo = set(), [flambeau.Tensor]
    while todo:
        classes.add(cls := todo.pop())
        todo += cls.__subclasses__()
    found = [
        (cls, name)
        for cls in classes
        if cls.__module__.startswith("flambeau")
        for name, value in vars(cls).items()
        if isinstance(value, Op) and not isinstance(value, Form)
    ]
    assert found == []


def test_a_method_is_not_the_function_of_its_name():
    """Handlers of `__torch_function__` tell them apart (MONAI's `MetaTensor` does), as they can in PyTorch."""
    form, op = flambeau.Tensor.exp, flambeau.exp
    assert form is flambeau.Tensor.exp and form == form and form != op and op != form and form not in {op}
    assert behind(form) is op and {op: 1, form: 2}[form] == 2
    assert form.__name__ == "exp" and form.__qualname__ == "Tensor.exp" and form.__doc__ == op.__doc__
    assert inspect.signature(form) == inspect.signature(op) and form.overloadpacket is flambeau.ops.aten.exp
    assert (
        nn.functional.elu.__module__ == "flambeau.nn.functional"
        and behind(nn.functional.tanh) is flambeau.tanh
    )


def test_every_public_operation_pickles_by_its_name():
    for dotted in TABLE:
        function = public(dotted)
        if isinstance(function, Op):
            found = pickle.loads(pickle.dumps(function))
            assert behind(found) is behind(function) and copy.deepcopy(function) is function, dotted
            if isinstance(function, Form) and not dotted.startswith("functional."):
                assert found is function, dotted


def test_upper_modes_and_classes_are_given_what_was_called():
    class Seen(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = flambeau.ones(2, 2)
    for call, wanted in [
        (lambda: x.exp(), flambeau.Tensor.exp),
        (lambda: flambeau.exp(x), flambeau.exp),
        (lambda: x + 1, flambeau.Tensor.add),
        (lambda: x @ x, flambeau.Tensor.matmul),
        (lambda: -x, flambeau.Tensor.neg),
        (lambda: x.clone().__iadd__(1), flambeau.Tensor.add_),
        (lambda: x[0], flambeau.Tensor.__getitem__),
        (lambda: nn.functional.relu(x), nn.functional.relu),
        (lambda: flambeau.einsum("ij->j", x), flambeau.einsum),
        (lambda: nn.functional.linear(x, x), nn.functional.linear),
    ]:
        seen = []
        with Seen():
            call()
        assert seen[-1] is wanted, wanted


def test_lower_modes_are_given_operations():
    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    seen = []
    with Seen():
        flambeau.ones(2).exp()
    assert seen[-1] is flambeau.exp is flambeau.ops.aten.exp.default


def test_names_of_forms():
    assert (
        resolve_name(flambeau.Tensor.exp) == "flambeau.Tensor.exp"
        and resolve_name(flambeau.exp) == "flambeau.exp"
    )
    assert is_tensor_method_or_property(flambeau.Tensor.exp) and not is_tensor_method_or_property(
        flambeau.exp
    )
    assert not is_tensor_method_or_property(nn.functional.relu)


def test_every_operation_of_the_registry_runs_through_its_forms():
    for entry in REGISTRY.values():
        for place in entry.places:
            if (
                place.startswith("Tensor.")
                and not place.rpartition(".")[2].startswith("_")
                and isinstance(entry.function, Op)
            ):
                assert public(place).op is entry.function, place


FUNCTIONS = [
    n for n in TABLE if TABLE[n] == "binds" and not n.startswith("Tensor.") and isinstance(public(n), Form)
]


def test_functions_of_python_have_what_tools_read_of_them():
    x = flambeau.tensor([[0.5, -1.5], [1.0, 2.0]])
    for name in FUNCTIONS:
        function = public(name)
        assert isinstance(function.__code__, types.CodeType) and isinstance(function.__globals__, dict), name
        assert function.__defaults__ is None or isinstance(function.__defaults__, tuple), name
        assert function.__kwdefaults__ is None or isinstance(function.__kwdefaults__, dict), name
        assert function.__closure__ is None or isinstance(function.__closure__, tuple), name
        assert isinstance(function.__annotations__, dict) and function.__code__ is function.__code__, name
        made = types.FunctionType(
            function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
        )
        made.__kwdefaults__ = function.__kwdefaults__
        told, wanted = inspect.signature(made), inspect.signature(function)
        assert [(p.name, p.kind, repr(p.default)) for p in told.parameters.values()] == [
            (p.name, p.kind, repr(p.default)) for p in wanted.parameters.values()
        ], name
        wrapped = functools.wraps(function)(lambda *args, **kwargs: None)
        assert wrapped.__wrapped__ is function and inspect.signature(wrapped) == wanted, name
        if name in (
            "nn.functional.relu",
            "nn.functional.tanh",
            "einsum",
            "nn.functional.softsign",
            "nn.functional.mish",
        ):
            args = ("ij->ji", x) if name == "einsum" else (x,)
            assert made(*args).tolist() == function(*args).tolist(), name
    assert len(FUNCTIONS) > 120
    assert flambeau.meshgrid.__kwdefaults__ == {"indexing": None} and flambeau.einsum.__code__.co_varnames
    assert isinstance(flambeau.Tensor.split.__code__, types.CodeType)


def test_compiled_functions_have_no_code():
    for function in (flambeau.relu, flambeau.Tensor.relu, flambeau.add, nn.functional.gelu):
        assert not hasattr(function, "__defaults__") and not hasattr(function, "__kwdefaults__"), function
