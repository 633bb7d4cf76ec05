"""Wrapper subclasses: tensors of a class with `__torch_dispatch__` that stand for others (`Tensor._make_wrapper_subclass`)."""

from __future__ import annotations

import copy
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from flambeau.utils._pytree import tree_map

sys.path.insert(0, str(Path(__file__).parent.parent / "operations"))

from samples import ALL, Operands, tensors_in

make = flambeau.Tensor._make_wrapper_subclass
LOG = []


class Logging(flambeau.Tensor):
    """PyTorch's LoggingTensor: every operation is that of the tensor inside."""

    __slots__ = ("elem",)

    @staticmethod
    def __new__(cls, elem, requires_grad=False):
        made = make(
            cls,
            elem.size(),
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            layout=elem.layout,
            device=elem.device,
            requires_grad=requires_grad,
        )
        made.elem = elem.detach()
        return made

    def __repr__(self):
        return super().__repr__(tensor_contents=f"{self.elem}")

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrap(x):
            return x.elem if isinstance(x, Logging) else x

        def wrap(x):
            return Logging(x) if isinstance(x, flambeau.Tensor) else x

        LOG.append(func.__name__)
        return tree_map(wrap, func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))


class Two(flambeau.Tensor):
    """PyTorch's TwoTensor: the operation on both."""

    @staticmethod
    def __new__(cls, a, b, outer_size=None, outer_stride=None):
        return make(
            cls,
            a.size() if outer_size is None else outer_size,
            strides=a.stride() if outer_stride is None else outer_stride,
            dtype=a.dtype,
            device=a.device,
            requires_grad=a.requires_grad,
        )

    def __init__(self, a, b, outer_size=None, outer_stride=None):
        self.a, self.b = a.detach(), b.detach()

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, outer_size, outer_stride):
        return Two(inner["a"], inner["b"], outer_size, outer_stride)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def of(name):
            return lambda x: getattr(x, name) if isinstance(x, Two) else x

        a, b = (func(*tree_map(of(n), args), **tree_map(of(n), kwargs or {})) for n in "ab")
        if isinstance(a, flambeau.Tensor):
            return Two(a, b)
        return tuple(map(Two, a, b)) if isinstance(a, tuple) and isinstance(a[0], flambeau.Tensor) else a


class Quantized(flambeau.Tensor):
    """A weight of int8 with a scale for each row, of which only some operations are known."""

    @staticmethod
    def __new__(cls, whole, scale, dtype=flambeau.float32):
        return make(cls, whole.shape, dtype=dtype, device=whole.device)

    def __init__(self, whole, scale, dtype=flambeau.float32):
        self.whole, self.scale = whole, scale

    @classmethod
    def of(cls, x):
        scale = x.abs().amax(1, keepdim=True) / 127
        return cls((x / scale).round().to(flambeau.int8), scale)

    def dequantize(self):
        return self.whole.to(self.dtype) * self.scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (flambeau.ops.aten.detach.default, flambeau.ops.aten.clone.default):
            return cls(*(getattr(flambeau, func.__name__)(x) for x in (args[0].whole, args[0].scale)))
        if func == flambeau.ops.aten.t.default:
            return args[0].dequantize().t()
        if func in (flambeau.ops.aten.mm.default, flambeau.ops.aten.addmm.default):
            return func(*(x.dequantize() if isinstance(x, cls) else x for x in args), **(kwargs or {}))
        raise NotImplementedError(f"{cls.__name__} dispatch: {func}")


def test_a_wrapper_is_what_it_was_given():
    x = make(Logging, (2, 3), strides=(1, 2), storage_offset=4, dtype=flambeau.float64, requires_grad=True)
    assert type(x) is Logging and x.shape == (2, 3) and x.stride() == (1, 2) and x.storage_offset() == 4
    assert x.dtype == flambeau.float64 and x.requires_grad and x.is_leaf and x.layout is flambeau.strided
    assert (
        x.device == flambeau.device("cpu")
        and x.is_cpu
        and not x.is_meta
        and not x.is_cuda
        and x.get_device() == -1
    )
    assert make(Logging, (2, 3)).dtype == flambeau.float32 and make(Logging, (2, 3)).stride() == (3, 1)
    y = make(Logging, (2, 3, 4, 5), memory_format=flambeau.channels_last)
    assert y.stride() == flambeau.empty(2, 3, 4, 5, memory_format=flambeau.channels_last).stride()
    z = make(Logging, [0, 3], device="cuda:1", dtype=flambeau.int8, layout=flambeau.sparse_coo)
    assert (
        z.device == flambeau.device("cuda:1")
        and z.is_cuda
        and not z.is_cpu
        and z.layout is flambeau.sparse_coo
    )
    assert (
        make(Logging, (2,), storage_size=64).untyped_storage().nbytes() == 64
        and make(Logging, ()).numel() == 1
    )
    assert make(Logging, (2,), device="meta").is_meta


def test_what_is_refused_says_so():
    class Plain(flambeau.Tensor):
        pass

    for cls in (Plain, flambeau.Tensor):
        with pytest.raises(TypeError, match=f"{cls.__name__} must define __torch_dispatch__"):
            make(cls, (2,))
    with pytest.raises(ValueError, match="Unknown sizes_strides_policy: bad"):
        make(Logging, (2,), dispatch_sizes_strides_policy="bad")
    with pytest.raises(NotImplementedError, match="dispatch_sizes_strides_policy"):
        make(Logging, (2,), dispatch_sizes_strides_policy="sizes")
    with pytest.raises(RuntimeError, match="more elements than 64 bits"):
        make(Logging, (1 << 40, 1 << 40))
    x = Logging(flambeau.ones(2))
    for call, name in ((x.numpy, "numpy"), (x.tolist, "tolist")):
        with pytest.raises(RuntimeError, match=rf"\.{name}\(\) is not supported for tensor subclasses"):
            call()
    with pytest.raises((RuntimeError, NotImplementedError, BufferError)):
        memoryview(x)

    class Nothing(Plain):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="Multiple dispatch failed for 'exp'"):
        make(Nothing, (2,)).exp()


def test_operations_come_to_the_class_below_the_tape():
    x = Logging(flambeau.tensor([[1.0, -2.0], [3.0, 4.0]]), requires_grad=True)
    LOG.clear()
    y = (x * 2).relu()
    assert (
        LOG == ["mul", "relu"]
        and type(y) is Logging
        and y.requires_grad
        and y.grad_fn.name() == "ReluBackward0"
    )
    y.sum().backward()
    assert type(x.grad) is Logging and x.grad.elem.tolist() == [[2.0, 0.0], [2.0, 2.0]]
    y = (x * 3).sum()
    y.backward()
    assert x.grad.elem.tolist() == [[5.0, 3.0], [5.0, 5.0]]
    with flambeau.no_grad():
        assert not (x * 2).requires_grad


def numbers(t):
    return t.detach().elem.numpy() if isinstance(t, Logging) else t.detach().numpy()


def of_samples():
    """Calls of differentiable operations with float operands, and their arguments twice."""
    for entry, text in ALL:
        if not entry.differentiable or entry.kind in (
            "random",
            "creation",
            "question",
            "error",
            "copy",
            "computed",
        ):
            continue
        yield entry, text


def arguments(text, wrap):
    operands, wrapped = Operands(), []

    def made(x):
        if not isinstance(x, flambeau.Tensor):
            return x
        if x.is_floating_point() and x.dtype.itemsize >= 4:
            x = wrap(x.detach().clone())
            wrapped.append(x)
        return x

    args, kwargs = eval(f"function({text})", {"function": lambda *args, **kwargs: (args, kwargs)}, operands)
    return tree_map(made, list(args)), tree_map(made, kwargs), wrapped


def test_every_operation_gives_the_values_and_gradients_of_what_is_inside():
    wrong, gave, tried = [], 0, 0
    for entry, text in of_samples():
        results = []
        for wrap in (lambda x: x.requires_grad_(), lambda x: Logging(x, requires_grad=True)):
            args, kwargs, all_wrapped = arguments(text, wrap)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    flambeau.manual_seed(0)
                    collected = [t for t in tensors_in(entry.function(*args, **kwargs))]
                    values = [numbers(t) for t in collected]
                    total = sum(
                        t.abs().sum() if t.is_complex() else t.sum() for t in collected if t.requires_grad
                    )
                    if isinstance(total, flambeau.Tensor):
                        total.backward()
                    results.append(
                        (values, [None if t.grad is None else numbers(t.grad) for t in all_wrapped])
                    )
            except Exception as error:
                results.append(error)
        (plain, wrapped) = results
        if isinstance(plain, Exception):
            continue
        tried += 1
        if isinstance(wrapped, NotImplementedError):
            gave += 1  # says by name that it is not for wrappers
            continue
        try:
            assert not isinstance(wrapped, Exception), repr(wrapped)
            for one, two in zip(plain, wrapped, strict=True):
                for a, b in zip(one, two, strict=True):
                    assert (a is None) == (b is None)
                    if a is not None:
                        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-7)
        except AssertionError as error:
            wrong.append((entry.name, text, str(error)[:200]))
    assert wrong == []
    assert tried > 700 and gave < tried // 8


def test_second_derivatives():
    x = flambeau.tensor([0.5, 1.5])
    w = Logging(x, requires_grad=True)
    (g,) = flambeau.autograd.grad((w**3).sum(), w, create_graph=True)
    (h,) = flambeau.autograd.grad(g.sum(), w)
    np.testing.assert_allclose(g.elem.numpy(), 3 * np.array([0.25, 2.25]), rtol=1e-6)
    np.testing.assert_allclose(h.elem.numpy(), 6 * np.array([0.5, 1.5]), rtol=1e-6)


def test_writes_in_place():
    x = Logging(flambeau.ones(3), requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x.add_(1)
    y = x * 2
    same = y
    assert y.mul_(3) is same and y.elem.tolist() == [6.0] * 3
    y.sum().backward()
    assert x.grad.elem.tolist() == [6.0] * 3
    y = x.exp()
    z = y * 1
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    with flambeau.no_grad():
        x.sub_(1)
        x[0] = 5.0
    assert x.elem.tolist() == [5.0, 0.0, 0.0]


def test_wrappers_beside_plain_tensors():
    plain = flambeau.tensor([1.0, 2.0], requires_grad=True)
    w = Logging(flambeau.tensor([3.0, 4.0]), requires_grad=True)
    (plain * w).sum().backward()
    assert type(plain.grad) is Logging or type(plain.grad) is flambeau.Tensor
    assert numbers(plain.grad).tolist() == [3.0, 4.0] and w.grad.elem.tolist() == [1.0, 2.0]


def test_two_tensors_train_a_layer():
    flambeau.manual_seed(0)
    a, b = flambeau.randn(4, 3), flambeau.randn(4, 3)
    layer = nn.Linear(3, 2)
    result = layer(Two(a, b))
    assert type(result) is Two
    np.testing.assert_allclose(result.a.detach().numpy(), layer(a).detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(result.b.detach().numpy(), layer(b).detach().numpy(), rtol=1e-6)
    assert is_traceable_wrapper_subclass(result)
    names, meta = result.__tensor_flatten__()
    back = Two.__tensor_unflatten__(
        {n: getattr(result, n) for n in names}, meta, result.shape, result.stride()
    )
    assert back.shape == result.shape and back.a is not None
    x, y = Two(a, b).requires_grad_(), (a.clone().requires_grad_(), b.clone().requires_grad_())
    flambeau.softmax(x @ flambeau.ones(3, 2), 1)[:, 0].log().sum().backward()
    for t, part in zip(y, "ab"):
        flambeau.softmax(t @ flambeau.ones(3, 2), 1)[:, 0].log().sum().backward()
        np.testing.assert_allclose(getattr(x.grad, part).numpy(), t.grad.numpy(), rtol=1e-5, atol=1e-7)


def test_a_quantized_weight_in_a_layer():
    flambeau.manual_seed(0)
    layer = nn.Linear(5, 4)
    weight = Quantized.of(layer.weight.detach())
    wanted = nn.functional.linear(flambeau.ones(2, 5), weight.dequantize(), layer.bias)
    layer.weight = nn.Parameter(weight, requires_grad=False)
    assert (
        type(layer.weight) is Quantized
        and isinstance(layer.weight, nn.Parameter)
        and "weight" in dict(layer.named_parameters())
    )
    x = flambeau.ones(2, 5, requires_grad=True)
    actual = layer(x)
    np.testing.assert_allclose(actual.detach().numpy(), wanted.detach().numpy(), rtol=1e-6)
    actual.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), weight.dequantize().sum(0).expand(2, 5).numpy(), rtol=1e-5)
    with pytest.raises(NotImplementedError, match="Quantized dispatch"):
        weight.exp()


def test_copies_pickles_and_texts():
    x = Logging(flambeau.tensor([1.0, 2.0]), requires_grad=True)
    assert repr(x) == "Logging(tensor([1., 2.]), requires_grad=True)"
    assert repr(x * 2) == "Logging(tensor([2., 4.]), grad_fn=<MulBackward0>)"
    copied = copy.deepcopy(x)
    assert type(copied) is Logging and copied.requires_grad and copied.elem.tolist() == [1.0, 2.0]
    assert copied.elem is not x.elem
    again = pickle.loads(pickle.dumps(Two(flambeau.ones(2), flambeau.zeros(2))))
    assert type(again) is Two and again.a.tolist() == [1.0, 1.0] and again.b.tolist() == [0.0, 0.0]
    assert pickle.loads(pickle.dumps(x)).elem.tolist() == [1.0, 2.0]
    assert type(x.detach()) is type(x.data) is Logging and not x.data.requires_grad
    assert bool(Logging(flambeau.tensor(True))) and float(Logging(flambeau.tensor(2.5))) == 2.5
    assert Logging(flambeau.tensor([1.0, 2.0])).sum().item() == 3.0


def test_a_dispatch_mode_is_asked_first():
    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append("mode")
            return func(*args, **(kwargs or {}))

    x = Logging(flambeau.ones(2))
    order = []
    LOG.clear()
    with Seen():
        y = x.exp()
    assert order[0] == "mode" and LOG[0] == "exp" and type(y) is Logging


def test_a_list_that_holds_itself_while_there_are_wrappers():
    wrapper = Logging(flambeau.ones(2))  # while it lives, arguments are looked at
    endless: list = []
    endless.append(endless)
    with pytest.raises(ValueError, match="too many dimensions"):
        flambeau.tensor(endless)
    assert wrapper.elem.numel() == 2


def test_gradients_of_medians_do_not_depend_on_what_is_predicted_without_data():
    """A wrapper's results are predicted without data, where nobody knows whether there is a NaN."""
    for values in ([1.0, 2, 3, 5, 5, 0, 9], [1.0, float("nan"), 3, 0, 5]):
        for name in ("median", "nanmedian"):
            gradients = []
            for wrap in (lambda x: x.requires_grad_(), lambda x: Logging(x, requires_grad=True)):
                x = wrap(flambeau.tensor(values))
                getattr(flambeau, name)(x).backward()
                gradients.append(numbers(x.grad))
            np.testing.assert_array_equal(*gradients)
            assert gradients[0].sum() == 1
