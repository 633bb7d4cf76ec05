"""The old classes of tensors, and the old constructors."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import flambeau
from flambeau import nn

KINDS = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8",
    "CharTensor": "int8",
    "ShortTensor": "int16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "BoolTensor": "bool",
}


@pytest.mark.parametrize("name", KINDS)
def test_classes(name):
    kind, made = getattr(flambeau, KINDS[name]), getattr(flambeau, name)
    assert (
        made.dtype == kind and made.__name__ == name and made.layout is flambeau.strided and not made.is_cuda
    )
    assert made().shape == (0,) and made(2, 3).shape == (2, 3) and made(flambeau.Size([2])).dtype == kind
    x = made([1, 0])
    assert x.dtype == kind and x.tolist() == [1, 0] and type(x) is flambeau.Tensor
    assert isinstance(x, made) and isinstance(nn.Parameter(x, False), made)
    assert not any(isinstance(x, getattr(flambeau, other)) for other in KINDS if other != name)
    assert not isinstance(x, getattr(flambeau.cuda, name)) and not isinstance(1, made)
    assert x.type() == f"flambeau.{name}" and flambeau.ones(2).type(made).dtype == kind
    assert (
        flambeau.ones(2).type(f"torch.{name}").dtype
        == flambeau.ones(2).type(f"flambeau.{name}").dtype
        == kind
    )
    assert pickle.loads(pickle.dumps(made)) is made and copy.deepcopy(made) is made
    assert getattr(flambeau.cuda, name).dtype == kind and getattr(flambeau.cuda, name).is_cuda
    with pytest.raises(TypeError, match=f"flambeau.{name}' is not an acceptable base type"):
        type("Derived", (made,), {})
    assert not issubclass(flambeau.Tensor, made) and not issubclass(made, flambeau.Tensor)


def test_what_constructors_take():
    made = flambeau.FloatTensor
    array = np.ones(2, np.float32)
    made(array)[0] = 5
    assert array[0] == 5 and made(np.arange(3)).tolist() == [
        0,
        1,
        2,
    ]  # its own dtype is shared, another converted
    x = flambeau.ones(2)
    assert (
        made(x).data_ptr()
        == x.data_ptr()
        == made(x.untyped_storage()).data_ptr()
        == made(x.storage()).data_ptr()
    )
    assert (
        made(range(2)).tolist() == [0, 1]
        and made((1, 2)).tolist() == [1, 2]
        and made([x[0], x[1]]).tolist() == [1, 1]
    )
    assert (
        made(np.int64(3), 2).shape == (3, 2)
        and made(size=(2,)).shape == (2,)
        and made(2, device="cpu").shape == (2,)
    )
    assert flambeau.LongTensor([1.5]).tolist() == [1]
    for given, error, text in (
        ((3.0,), TypeError, "data must be a sequence"),
        ((True,), TypeError, "data must be a sequence"),
        ((None,), TypeError, "data must be a sequence"),
        ((iter([1]),), TypeError, "data must be a sequence"),
        (("x",), TypeError, "invalid data type 'str'"),
        ((2, 3.0), TypeError, "argument 'size' failed to unpack the object at pos 2"),
        ((-1,), RuntimeError, "negative dimension"),
        (([[1], [2, 3]],), ValueError, "expected sequence of length"),
        ((flambeau.tensor([1]),), TypeError, "expected a tensor of flambeau.float32"),
        ((flambeau.DoubleStorage([1.0]),), RuntimeError, "Expected a Storage of type"),
    ):
        with pytest.raises(error, match=text):
            made(*given)
    with pytest.raises(
        RuntimeError, match="legacy constructor expects device type: cpu but device type: meta"
    ):
        made(2, device="meta")
    with pytest.raises(TypeError, match="invalid combination of arguments.*dtype"):
        made([1], dtype=flambeau.float32)
    with pytest.raises(RuntimeError, match="overflow"):
        flambeau.ByteTensor([300])


def test_tensor_and_new():
    assert flambeau.Tensor([1, 2]).dtype == flambeau.float32 and flambeau.Tensor(2, 3).shape == (2, 3)
    whole = flambeau.tensor([1, 2])
    assert flambeau.Tensor(whole).dtype == flambeau.int64
    assert flambeau.Tensor(flambeau.FloatStorage([1.0])).tolist() == [1.0]
    with pytest.raises(TypeError, match="data must be a sequence"):
        flambeau.Tensor(3.5)
    assert (
        whole.new([1.5]).tolist() == [1]
        and whole.new(2, 3).dtype == flambeau.int64
        and whole.new().shape == (0,)
    )
    assert (
        whole.new(np.array([1.0])).dtype == flambeau.int64
        and nn.Parameter(flambeau.ones(1)).new([1]).dtype == flambeau.float32
    )
    assert whole.to("meta").new(2).device.type == "meta"
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        whole.new([1], requires_grad=True)


def test_type_names_dtype_and_device():
    assert flambeau.ones(2, device="meta").type() == "flambeau.meta.FloatTensor"
    assert flambeau.zeros(1, dtype=flambeau.uint16).type() == "flambeau.UInt16Tensor"
    assert flambeau.zeros(1, dtype=flambeau.float8_e4m3fn).type() == "flambeau.Float8_e4m3fnTensor"
    assert (
        flambeau.zeros(1, dtype=flambeau.complex32).type("torch.ComplexDoubleTensor").dtype
        == flambeau.complex128
    )
    assert flambeau.ones(1).type(flambeau.Tensor).dtype == flambeau.float32
    for strange in ("LongTensor", "torch.Long", "x", "torch.a.b.LongTensor", int):
        with pytest.raises(ValueError, match="invalid type"):
            flambeau.ones(1).type(strange)
    with pytest.raises(TypeError, match="dtype must be a type, str, or dtype object"):
        flambeau.ones(1).type(3)


def test_set_default_tensor_type():
    try:
        flambeau.set_default_tensor_type(flambeau.DoubleTensor)
        assert flambeau.tensor(1.0).dtype == flambeau.float64 == flambeau.Tensor([1]).dtype
        flambeau.set_default_tensor_type("torch.HalfTensor")
        assert flambeau.get_default_dtype() == flambeau.float16
    finally:
        flambeau.set_default_tensor_type(flambeau.FloatTensor)
    for strange in (flambeau.LongTensor, "x", None, flambeau.float32, flambeau.Tensor):
        with pytest.raises(TypeError, match="only floating-point types are supported"):
            flambeau.set_default_tensor_type(strange)
    assert flambeau.get_default_dtype() == flambeau.float32


def test_types_are_names_for_annotations():
    from flambeau import types

    assert (
        isinstance(1.5, types.Number)
        and isinstance("cpu", types.Device)
        and isinstance(flambeau.Size([1]), flambeau.Size)
    )
    assert (
        types._dtype is flambeau.dtype
        and types._int is int
        and isinstance(flambeau.ones(1).untyped_storage(), types.Storage)
    )
    assert isinstance("file", types.FileLike.__args__[0])
    found = subprocess.run(
        [sys.executable, "-c", "import flambeau.types; print('ok')"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "ok\n"


def test_return_types_have_both_names():
    found = flambeau.return_types
    assert found.max_out is found.max and found.qr is found.linalg_qr and found.sort in found.all_return_types
