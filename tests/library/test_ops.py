"""`ops`: our operations by ATen's names, and what dispatch modes are told of them."""

from __future__ import annotations

import importlib
import pickle

import pytest
from flambeau.core.call.operation import Op, behind

import flambeau
from flambeau.library import _aten
from flambeau.library._overloads import table
from flambeau.utils._python_dispatch import TorchDispatchMode

aten = flambeau.ops.aten


def test_an_operation_of_ours_is_every_overload_of_its_name():
    assert aten.mm.default is flambeau.mm and aten.add.Tensor is aten.add.Scalar is flambeau.add
    assert aten.add_.Tensor is behind(flambeau.Tensor.add_) and aten.linalg_svd.default is flambeau.linalg.svd
    assert aten.add.overloads()[:2] == ["Tensor", "Scalar"] and flambeau.add.overloadpacket is aten.add
    assert aten.add(flambeau.ones(1), 2).item() == 3.0
    assert pickle.loads(pickle.dumps(aten.add)) is aten.add
    assert repr(aten.add) == "<OpOverloadPacket(op='aten.add')>"


@pytest.mark.parametrize("name", sorted(n for n in table() if not n.startswith("_foreach")))
def test_every_name_of_the_table_is_an_operation_and_tells_its_schema(name):
    packet = getattr(aten, name)
    (op,) = {id(op): op for op in packet.op_overloads()}.values()
    assert isinstance(op, Op) and op.namespace == "aten" and op in _aten.names().values()
    schema = op._schema
    assert schema.name.startswith("aten::") and getattr(aten, schema.name[6:]).op_overloads()[0] is op
    assert schema.is_mutable == (schema.name.endswith("_") and not schema.name.endswith("__"))
    assert isinstance(op.tags, list) and op.overloadpacket.overloads()[0] == op._overloadname


def test_functions_of_lists_are_there_without_schemas():
    assert "Tensor" in aten._foreach_add_.overloads() and "Scalar" in aten._foreach_maximum_.overloads()
    x = flambeau.zeros(2)
    aten._foreach_add_.Tensor([x], flambeau.tensor(1.0), alpha=2)
    assert x.tolist() == [2.0, 2.0]


def test_what_is_not_there_is_named():
    with pytest.raises(AttributeError, match="no operation aten::nope is defined.*docs/operations.md"):
        _ = aten.nope
    with pytest.raises(
        AttributeError, match=r"'aten.mm' has no overload name 'Tensor' \(there are: default, out"
    ):
        _ = aten.mm.Tensor
    with pytest.raises(AttributeError, match="no operation nowhere::nothing is defined .in nowhere: none."):
        _ = flambeau.ops.nowhere.nothing
    assert not hasattr(flambeau.ops.nowhere, "__wrapped__") and not hasattr(aten.mm, "_unknown")
    assert not hasattr(flambeau.ops, "__path__")


def test_operations_that_aten_does_not_have_answer_too():
    op = flambeau.tensor
    assert op.namespace == "flambeau" and op._schema.name == "flambeau::tensor" and op.tags == []
    assert (
        op.overloadpacket.default is op
        and op.overloadpacket is op.overloadpacket
        and op._overloadname == "default"
    )


def test_modes_that_compare_with_atens_names():
    class Products(TorchDispatchMode):
        def __init__(self):
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func in (aten.mm.default, aten.bmm.default) or func.overloadpacket is aten.matmul:
                self.names.append(func._schema.name)
            return func(*args, **(kwargs or {}))

    x = flambeau.ones(2, 2)
    with Products() as mode:
        x @ x
        flambeau.mm(x, x)
        x + x
    assert mode.names == ["aten::matmul", "aten::mm"]


def test_pytorchs_modules_of_the_same_names():
    module = importlib.import_module("flambeau._ops")
    assert module.ops is flambeau.ops
    assert isinstance(aten.mm, module.OpOverloadPacket)
    flambeau.library.define("tests_ops::same", "(Tensor x) -> Tensor")
    assert isinstance(flambeau.ops.tests_ops.same.default, module.OpOverload)
    assert isinstance(flambeau.ops.tests_ops, module._OpNamespace)
    assert importlib.import_module("flambeau._custom_ops").get_ctx() is None
    flambeau.ops.import_module("json")


def test_keys():
    keys, key = flambeau._C.DispatchKeySet, flambeau._C.DispatchKey
    both = keys(key.CPU) | keys("AutocastCPU")
    assert both.has(key.CPU) and not both.has("CUDA") and both.remove("CPU") == keys(key.AutocastCPU)
    assert both & keys(key.CPU) == keys(key.CPU) and list(both - keys("CPU")) == [key.AutocastCPU]
    assert repr(keys().add(key.Meta)) == "DispatchKeySet(Meta)" and len({keys("CPU"), keys(key.CPU)}) == 1
