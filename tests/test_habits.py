"""What Python lets people do with any class and any function, done with all public ones: they derive from classes, pickle,
copy, hash and wrap things, and ask for signatures.
"""

from __future__ import annotations

import abc
import copy
import enum
import functools
import importlib
import inspect
import pickle
import types
import typing
import weakref
from collections.abc import Iterator

import pytest

import flambeau
from flambeau import nn
from flambeau.operations.declare.results import RESULTS

ROOMS = (
    *(
        "",
        "nn",
        "nn.functional",
        "nn.init",
        "nn.utils",
        "nn.utils.clip_grad",
        "nn.utils.convert_parameters",
        "nn.utils.fusion",
        "nn.utils.init",
        "nn.utils.memory_format",
        "nn.utils.parametrizations",
        "nn.utils.parametrize",
        "nn.utils.prune",
        "nn.utils.rnn",
        "nn.utils.stateless",
        "optim",
        "optim.lr_scheduler",
        "utils.data",
        "utils.hooks",
        "utils.trainer",
        "utils.tensorboard",
    ),
    *(
        "autograd",
        "autograd.functional",
        "autograd.forward_ad",
        "autograd.graph",
        "func",
        "linalg",
        "fft",
        "special",
    ),
    *(
        "signal",
        "signal.windows",
        "masked",
        "nested",
        "cuda",
        "opencl",
        "cpu",
        "return_types",
        "utils.checkpoint",
        "utils.cpp_extension",
        "kernels",
    ),
    *(
        "storage",
        "multiprocessing",
        "multiprocessing.queue",
        "multiprocessing.reductions",
        "multiprocessing.pool",
        "legacy.nn",
        "legacy.nn.utils",
        "legacy.optim",
        "utils.serialization",
    ),
)


def public() -> Iterator[tuple[str, object]]:
    """Every class and function of ours with its dotted name."""
    seen = set()
    for room in ROOMS:
        module = importlib.import_module(f"flambeau.{room}".rstrip("."))
        for name in dir(module):  # what is imported when it is asked for, too
            value = getattr(module, name)
            ours = getattr(value, "__module__", None) or ""
            if (
                callable(value)
                and not name.startswith("_")
                and ours.startswith("flambeau")
                and id(value) not in seen
            ):
                seen.add(id(value))
                yield f"{room}.{name}".lstrip("."), value


PUBLIC = dict(public())
FINAL = (
    "dtype device Size finfo iinfo layout memory_format autograd.Variable".split()
)  # PyTorch's may not be derived from, either
FINAL += [
    name for name in vars(flambeau) if name.endswith("Storage") and hasattr(getattr(flambeau, name), "dtype")
]
FINAL += [name for name, c in PUBLIC.items() if isinstance(c, (type(flambeau.FloatTensor), enum.EnumMeta))]
CLASSES = {name: c for name, c in PUBLIC.items() if isinstance(c, type) and name not in FINAL}
FUNCTIONS = {name: f for name, f in PUBLIC.items() if not isinstance(f, type)}
METHODS = {n: f for n, f in inspect.getmembers(flambeau.Tensor) if callable(f) and not n.startswith("_")}


def test_the_search_finds_much():
    assert len(CLASSES) > 200 and len(FUNCTIONS) > 600 and len(METHODS) > 400
    assert {"nn.Module", "optim.Optimizer", "utils.data.Dataset", "Generator", "return_types.max"} <= set(
        CLASSES
    )


class Meta(type):
    pass


class Mixin:
    def mixed(self):
        return "mixed"


class EmptySlots:
    __slots__ = ()


class Protocol(typing.Protocol):
    def mixed(self): ...


class Abstract(abc.ABC):
    @abc.abstractmethod
    def mixed(self): ...


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_derived_from(name):
    base = CLASSES[name]
    result = issubclass(base, tuple)
    parametric = typing.Generic[typing.TypeVar("S")]
    for mixin in (
        Mixin,
        EmptySlots,
        Abstract,
        Protocol,
        *(() if issubclass(base, typing.Generic) else (parametric,)),
    ):
        for bases in ((base, mixin), (mixin, base)):
            if (
                result and mixin is parametric
            ):  # a parametric class that is a named tuple is the tuple's concern
                continue
            assert issubclass(types.new_class("Derived", bases), base), bases
    for meta in (Meta, abc.ABCMeta):
        if not issubclass(meta, type(base)):  # of abstract classes, one that derives from both
            meta = type(base) if issubclass(type(base), meta) else type("Both", (meta, type(base)), {})
        made = types.new_class("Derived", (base, Mixin), {"metaclass": meta})
        assert type(made) is meta and made.mixed(None) == "mixed"


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_public_is_found_by_name(name):
    thing = PUBLIC[name]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(thing, protocol)) is thing
    assert copy.copy(thing) is thing and copy.deepcopy([thing])[0] is thing


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_wrapped_and_referred_to(name):
    function = FUNCTIONS[name]
    wrapped = functools.wraps(function)(lambda *args: None)
    assert wrapped.__name__ == function.__name__ and wrapped.__module__ == function.__module__
    assert weakref.ref(function)() is function and {function: 1}[function] == 1
    assert functools.partial(function).func is function


def test_methods_are_found_by_name():
    lost = [name for name, f in METHODS.items() if pickle.loads(pickle.dumps(f)) is not f]
    assert not lost


# What has no signature: the factories, whose sizes come in many forms, products and joins, which say it in their first
# line, and classes of C.
UNSIGNED = ("Factory", "FillOp", "JoinOp", "ProductOp")


@pytest.mark.parametrize("name", [n for n, f in FUNCTIONS.items() if type(f).__name__ not in UNSIGNED])
def test_functions_have_signatures(name):
    inspect.signature(FUNCTIONS[name])


def test_methods_have_signatures():
    x = flambeau.ones(1)
    for name, method in METHODS.items():
        if type(method).__name__ not in UNSIGNED:
            whole, bound = inspect.signature(method), inspect.signature(getattr(x, name))
            assert len(bound.parameters) <= len(whole.parameters), name


@pytest.mark.parametrize(
    "name", [n for n, c in CLASSES.items() if c.__init__ is not object.__init__ and "Error" not in n]
)
def test_classes_have_signatures(name):
    if not isinstance(CLASSES[name].__init__, type(object.__init__)):  # of a class of C
        inspect.signature(CLASSES[name])


# ---------------------------------------------------------------- objects


def samples():
    generator = flambeau.Generator().manual_seed(3)
    flambeau.rand(5, generator=generator)
    weight = nn.Parameter(flambeau.ones(2))
    optimizer = flambeau.optim.SGD([weight], lr=0.1)
    return {
        "Generator": generator,
        "Parameter": weight,
        "Buffer": nn.Buffer(flambeau.ones(2)),
        "Tensor": flambeau.ones(2),
        "Storage": flambeau.ones(2).untyped_storage(),
        "Optimizer": optimizer,
        "LRScheduler": flambeau.optim.lr_scheduler.StepLR(optimizer, 1),
        "Dataset": flambeau.utils.data.TensorDataset(flambeau.ones(2)),
        "Sampler": flambeau.utils.data.RandomSampler(range(3), generator=generator),
        "DataLoader": flambeau.utils.data.DataLoader([1, 2]),
        "Module": nn.Linear(1, 1),
        "no_grad": flambeau.no_grad(),
    }


@pytest.mark.parametrize("name", samples())
def test_objects_are_copied_and_pickled(name):
    x = samples()[name]
    assert weakref.ref(x)() is x and hash(x) == hash(x) and isinstance(x, object)
    made = [copy.copy(x), copy.deepcopy(x)]
    made += [pickle.loads(pickle.dumps(x, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    assert {type(m) for m in made} == {type(x)} and all(m is not x for m in made)
    if name == "Generator":
        drawn = [flambeau.rand(3, generator=m).tolist() for m in made]
        assert all(d == drawn[0] for d in drawn)


@pytest.mark.parametrize(
    "x", [flambeau.float32, flambeau.device("cpu"), flambeau.channels_last, flambeau.strided], ids=str
)
def test_constants_stay_what_they_are(x):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        made = pickle.loads(pickle.dumps(x, protocol))
        assert made == x and hash(made) == hash(x)
    assert copy.deepcopy(x) == copy.copy(x) == x and x != "other" and {x: 1}[x] == 1


def test_sizes_are_tuples():
    size = flambeau.Size([2, 3])
    for same in (
        size + (),
        () + size,
        size[:],
        size * 1,
        1 * size,
        copy.deepcopy(size),
        pickle.loads(pickle.dumps(size)),
    ):
        assert type(same) is flambeau.Size and same == (2, 3) and hash(same) == hash((2, 3))
    assert flambeau.Tensor(size).shape == size


def test_results_with_names_are_copied_and_pickled():
    x = flambeau.tensor([[1.0, 2.0], [3.0, 5.0]])
    found = [
        x.max(1),
        x.sort(),
        x.topk(1),
        x.median(0),
        x.mode(),
        x.cummax(0),
        flambeau.linalg.svd(x),
        flambeau.aminmax(x),
    ]
    found += [
        flambeau.frexp(x),
        flambeau.linalg.slogdet(x),
        flambeau.histogram(x, 3),
        x.kthvalue(1),
        flambeau.linalg.lu(x),
    ]
    for result in found:
        for made in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
            assert type(made) is type(result) and [m.tolist() for m in made] == [r.tolist() for r in result]
        assert type(result) is getattr(flambeau.return_types, type(result).__name__)
    assert {vars(flambeau.return_types)[name] for name in flambeau.return_types.__all__} == set(
        RESULTS.values()
    )


class Named(flambeau.Tensor):
    pass


class Mixed(Mixin, flambeau.Tensor):
    pass


class Slotted(flambeau.Tensor):
    __slots__ = ("note",)


class MixedParameter(Mixin, nn.Parameter):
    pass


class LabelledParameter(nn.Parameter):
    def __new__(cls, data=None, requires_grad=True, label="none"):
        made = super().__new__(cls, data, requires_grad)
        made.label = label
        return made


@pytest.mark.parametrize(
    "cls", [Named, Mixed, Slotted, MixedParameter, LabelledParameter], ids=lambda c: c.__name__
)
def test_tensors_of_derived_classes(cls):
    x = cls(flambeau.ones(2))
    x.label = "mine"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        made = pickle.loads(pickle.dumps(x, protocol))
        assert type(made) is cls and made.label == "mine" and made.tolist() == [1.0, 1.0]
        assert made.requires_grad is x.requires_grad
    made = copy.deepcopy(x)
    assert type(made) is cls and isinstance(made, flambeau.Tensor) and made.data_ptr() != x.data_ptr()
    assert type(copy.copy(x)) is cls
    if isinstance(x, nn.Parameter):
        module = nn.Module()
        module.weight = x
        assert [name for name, _ in module.named_parameters()] == ["weight"]


class Base(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class MixedFunction(Mixin, Base):
    pass


class AbstractFunction(Base, abc.ABC):
    pass


@pytest.mark.parametrize("cls", [Base, MixedFunction, AbstractFunction], ids=lambda c: c.__name__)
def test_functions_of_derived_classes(cls):
    x = flambeau.ones(2, requires_grad=True)
    cls.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0] and pickle.loads(pickle.dumps(cls)) is cls


def test_a_module_keeps_the_functions_it_holds():
    module = nn.Linear(1, 1)
    module.many = [
        flambeau.relu,
        nn.functional.gelu,
        nn.functional.conv1d,
        flambeau.Tensor.exp,
        nn.functional.relu_,
    ]
    for made in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert all(a is b for a, b in zip(made.many, module.many, strict=True))
