"""Classes derived from `Module` in every way that Python has: metaclasses, mixins on either side, slots, patches."""

from __future__ import annotations

import abc
import copy
import dataclasses
import inspect
import pickle
import types
import typing
import weakref
from collections import OrderedDict
from unittest import mock

import pytest

import flambeau
from flambeau import nn


class Counting(type):
    made = 0

    def __call__(cls, *args, **kwargs):
        Counting.made += 1
        return super().__call__(*args, **kwargs)


class Prepared(type):
    @classmethod
    def __prepare__(cls, name, bases, **options):
        return OrderedDict()

    def __new__(cls, name, bases, namespace, **options):
        return super().__new__(cls, name, bases, dict(namespace))

    def __init__(cls, name, bases, namespace, **options):
        super().__init__(name, bases, namespace)


class Speaks(typing.Protocol):
    def speak(self) -> str: ...


class Plain:
    pass


class WithInit:
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.mixed = 1


class Slotted:
    __slots__ = ("note",)


class EmptySlots:
    __slots__ = ()


class WithGetattr:
    def __getattr__(self, name):
        if name == "magic":
            return 42
        return super().__getattr__(name)


class WithSetattr:
    def __setattr__(self, name, value):
        super().__setattr__(name, value)


class WithGetattribute:
    def __getattribute__(self, name):
        return super().__getattribute__(name)


class WithCall:
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)


class WithNew:
    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)


class WithState:
    def __getstate__(self):
        return self.__dict__.copy()

    def __setstate__(self, state):
        self.__dict__.update(state)


class WithInitSubclass:
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)


class Deaf:
    def __init_subclass__(cls, **kwargs):  # tells nobody
        pass


class Abstract(abc.ABC):
    @abc.abstractmethod
    def speak(self): ...


class Parametric(typing.Generic[typing.TypeVar("T")]):
    pass


class Counted(metaclass=Counting):
    pass


MIXINS = [
    *(
        Plain,
        WithInit,
        Slotted,
        EmptySlots,
        WithGetattr,
        WithSetattr,
        WithGetattribute,
        WithCall,
        WithNew,
        WithState,
    ),
    *(WithInitSubclass, Deaf, Abstract, Parametric, Counted, Speaks, dict),
]


def derive(name, bases):
    def fill(namespace):
        def __init__(self):
            nn.Module.__init__(self)
            self.inner = nn.Linear(2, 3)
            self.scale = nn.Parameter(flambeau.ones(3))
            self.register_buffer("shift", flambeau.zeros(3))

        namespace.update(
            __init__=__init__,
            forward=lambda self, x: self.inner(x) * self.scale + self.shift,
            speak=lambda self: "yes",
            __hash__=object.__hash__,
            __module__=__name__,
            __qualname__=name,
        )

    made = types.new_class(name, bases, {}, fill)
    globals()[name] = made  # where pickle looks
    return made


DERIVED = [
    derive(f"{mixin.__name__}{order}", (mixin, nn.Module) if order == "First" else (nn.Module, mixin))
    for mixin in MIXINS
    for order in ("First", "Last")
]


def assert_same(model, made):
    x = flambeau.ones(2)
    assert type(made) is type(model) and made is not model
    assert (
        list(made.state_dict())
        == list(model.state_dict())
        == ["scale", "shift", "inner.weight", "inner.bias"]
    )
    assert made(x).tolist() == model(x).tolist() and made.training is model.training
    assert set(vars(made)) - {"_hooked"} == set(vars(model)) - {"_hooked"}


WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{
        f"pickle{p}": lambda m, p=p: pickle.loads(pickle.dumps(m, p))
        for p in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}


@pytest.mark.parametrize("cls", DERIVED, ids=lambda c: c.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_a_mixin_on_either_side(cls, way):
    model = cls().eval()
    assert_same(model, WAYS[way](model))


@pytest.mark.parametrize("cls", DERIVED, ids=lambda c: c.__name__)
def test_attributes_calls_and_hooks_of_a_mixin(cls):
    model = cls()
    assert [name for name, _ in model.named_parameters()] == ["scale", "inner.weight", "inner.bias"]
    assert weakref.ref(model)() is model
    with pytest.raises(AttributeError, match="'missing'"):
        _ = model.missing
    seen = []
    with model.register_forward_hook(lambda *call: seen.append(call)):
        model(flambeau.ones(2))
        model(x=flambeau.ones(2))
    assert len(seen) == 2
    assert list(inspect.signature(model).parameters) == ["args", "kwargs"]
    loaded = cls()
    loaded.load_state_dict(model.state_dict())
    assert_same(model, loaded)


@pytest.mark.parametrize("way", WAYS)
def test_slots_are_copied(way):
    for cls in (globals()["SlottedFirst"], globals()["SlottedLast"]):
        model = cls()
        model.note = "kept"
        made = WAYS[way](model)
        assert made.note == "kept" and "note" not in vars(made)
        assert_same(model, made)


@pytest.mark.parametrize(
    "meta", [abc.ABCMeta, Counting, Prepared, type(Speaks), type], ids=lambda m: m.__name__
)
@pytest.mark.parametrize(
    "base", [nn.Module, nn.Linear, nn.Sequential, nn.ModuleDict], ids=lambda b: b.__name__
)
def test_any_metaclass(meta, base):
    cls = types.new_class("Made", (base,), {"metaclass": meta})
    assert type(cls) is meta and issubclass(cls, nn.Module)
    made = cls(2, 2) if base is nn.Linear else cls()
    made.own = nn.Parameter(flambeau.ones(1))
    assert made.own is dict(made.named_parameters())["own"]


def test_module_is_an_ordinary_class():
    assert type(nn.Module) is type and nn.Module.__mro__[-1] is object
    assert all(
        c.__flags__ & (1 << 9) for c in nn.Module.__mro__[:-1]
    )  # Py_TPFLAGS_HEAPTYPE: no class of C among them


def test_abstract_methods_are_asked_for():
    class Model(nn.Module, abc.ABC):
        @abc.abstractmethod
        def encode(self, x): ...

    class Whole(Model):
        def encode(self, x):
            return x

        def forward(self, x):
            return self.encode(x)

    with pytest.raises(TypeError, match="encode"):
        Model()
    assert Whole()(3) == 3


def test_several_classes_of_modules():
    class Left(nn.Module):
        def __init__(self):
            super().__init__()
            self.left = nn.Parameter(flambeau.ones(1))

    class Right(nn.Linear):
        def __init__(self):
            super().__init__()
            self.right = nn.Parameter(flambeau.ones(1))

    class Both(Left, Right):
        def __init__(self):
            nn.Linear.__init__(self, 2, 2)
            self.both = nn.Parameter(flambeau.ones(1))

    assert [name for name, _ in Both().named_parameters()] == ["weight", "bias", "both"]
    assert Both()(flambeau.ones(2)).shape == (2,)


def test_a_dataclass():
    @dataclasses.dataclass(eq=False)
    class Model(nn.Module):
        width: int
        rate: float = 0.5

        def __post_init__(self):
            super().__init__()
            self.layer = nn.Linear(self.width, 1)

        def forward(self, x):
            return self.layer(x) * self.rate

    assert Model(3)(flambeau.ones(3)).shape == (1,) and len(list(Model(3).parameters())) == 2


# ---------------------------------------------------------------- what is patched while it is used


def test_methods_patched_on_a_class_or_an_instance():
    layer, x = nn.Linear(2, 2), flambeau.ones(2)
    patches = [
        (layer, "forward", lambda x: 7),
        (nn.Linear, "forward", lambda self, x: 7),
        (nn.Linear, "__call__", lambda self, x: 7),
        (nn.Module, "__call__", lambda self, x: 7),
        (nn.functional, "linear", lambda *args: 7),
    ]
    for owner, name, other in patches:
        with mock.patch.object(owner, name, other):
            assert layer(x) == 7, (owner, name)
        assert layer(x).shape == (2,), (owner, name)
    with mock.patch.object(layer, "forward", wraps=layer.forward) as spy:
        layer(x)
    spy.assert_called_once_with(x)


def test_attribute_lookup_patched_on_a_class():
    layer = nn.Linear(2, 2)
    for owner in (nn.Linear, nn.Module):
        with mock.patch.object(owner, "__getattr__", lambda self, name: name.upper()):
            assert layer.weight == "WEIGHT" and layer.in_features == 2
        assert layer.weight.shape == (2, 2)
        with mock.patch.object(owner, "__getattribute__", lambda self, name: 5):
            assert layer.weight == 5 and layer.in_features == 5
        assert layer.weight.shape == (2, 2)


def test_a_property_that_lacks_an_attribute_says_so():
    class Model(nn.Module):
        @property
        def broken(self):
            return self.nowhere

    with pytest.raises(AttributeError, match="'broken'|'nowhere'"):
        _ = Model().broken


def test_signatures():
    assert str(
        inspect.signature(nn.Linear.forward).replace(return_annotation=inspect.Signature.empty)
    ).startswith("(self, input")
    assert list(inspect.signature(nn.Linear).parameters)[:3] == ["in_features", "out_features", "bias"]
    public = [c for c in vars(nn).values() if isinstance(c, type) and issubclass(c, nn.Module)]
    assert len(public) > 100
    for cls in public:
        inspect.signature(cls), inspect.signature(cls.forward), inspect.signature(cls.__call__)
        typing.get_type_hints(cls.__call__)


# ---------------------------------------------------------------- states of other versions

NEWER = [
    *(
        "_forward_pre_hooks",
        "_forward_pre_hooks_with_kwargs",
        "_forward_hooks_with_kwargs",
        "_state_dict_hooks",
    ),
    *(
        "_forward_hooks_always_called",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_backward_pre_hooks",
    ),
    *("_load_state_dict_post_hooks", "_non_persistent_buffers_set", "_forward_hooks", "_backward_hooks"),
]


def test_a_state_without_newer_members():
    whole = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    for module in whole.modules():
        state = {name: value for name, value in vars(module).items() if name not in NEWER}
        state["_is_full_backward_hook"] = None  # of PyTorch
        module.__dict__.clear()
        module.__setstate__(state)
        assert set(NEWER) <= set(vars(module))
    seen = []
    whole.register_forward_hook(lambda *call: seen.append(1))
    whole[0].register_full_backward_hook(lambda *call: seen.append(2))
    whole[1].register_load_state_dict_post_hook(lambda *call: seen.append(3))
    whole(flambeau.ones(3, 2)).sum().backward()
    whole.load_state_dict(copy.deepcopy(whole).state_dict())
    assert sorted(seen) == [1, 2, 3]
    assert_empty = nn.Module.__new__(nn.Module)
    assert_empty.__setstate__({})
    assert list(assert_empty.parameters()) == []


def test_hooks_in_a_state_are_called():
    layer, seen = nn.Identity(), []
    state = {name: value for name, value in vars(layer).items() if name != "_hooked"}
    state["_forward_hooks"] = OrderedDict({3: lambda *call: seen.append(call)})
    made = nn.Identity.__new__(nn.Identity)
    made.__setstate__(state)
    made(1)
    assert len(seen) == 1


def test_a_state_may_be_changed_before_it_is_pickled():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.cache = nn.Linear(1, 1), object()

        def __getstate__(self):
            state = super().__getstate__()
            del state["cache"]
            return state

    model = Model()
    assert not hasattr(copy.deepcopy(model), "cache") and hasattr(model, "cache")


class Tagged(flambeau.Tensor):
    """A class of a user's, with a method that operations go through."""

    seen = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen += 1
        return super().__torch_function__(func, types, args, kwargs)


@pytest.mark.parametrize(
    "made", [lambda x: x.as_subclass(Tagged), Tagged], ids=["as_subclass", "constructor"]
)
def test_a_parameter_keeps_its_class(made):
    """What trains, converts, copies and restores a module finds it, and leaves its class alone."""
    given = made(flambeau.ones(2, 2))
    weight = nn.Parameter(given)
    assert type(weight) is Tagged and isinstance(weight, nn.Parameter) and not isinstance(given, nn.Parameter)
    assert (
        weight.is_leaf
        and weight.requires_grad
        and weight.data_ptr() == given.data_ptr()
        and not given.requires_grad
    )
    layer = nn.Linear(2, 2)
    layer.weight = weight
    assert [type(p) for p in layer.parameters()] == [Tagged, nn.Parameter]
    before = Tagged.seen
    result = layer(flambeau.ones(1, 2))
    assert type(result) is Tagged and Tagged.seen > before
    result.sum().backward()
    flambeau.optim.SGD(layer.parameters(), 0.5, momentum=0.9).step()
    assert layer.weight is weight and weight.detach().tolist() == [[0.5, 0.5], [0.5, 0.5]]
    for other in (
        copy.deepcopy(layer),
        copy.deepcopy(layer).double(),
        nn.Sequential(copy.deepcopy(layer)).half()[0],
    ):
        assert type(other.weight) is Tagged and isinstance(other.weight, nn.Parameter)
        assert other.weight.tolist() == weight.tolist() and len(list(other.parameters())) == 2
    layer.load_state_dict({"weight": flambeau.zeros(2, 2), "bias": flambeau.zeros(2)})
    assert layer.weight is weight and not weight.any()
    assert not nn.Parameter(given, requires_grad=False).requires_grad


def test_a_class_that_detaches_to_another_is_no_parameter():
    class Plain(flambeau.Tensor):
        __torch_function__ = flambeau._C._disabled_torch_function_impl

    with pytest.raises(RuntimeError, match="requires that detach\\(\\) returns an instance of the same type"):
        nn.Parameter(flambeau.ones(2).as_subclass(Plain))
