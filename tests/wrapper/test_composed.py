"""Tensors that are made of others: whatever a tensor can be asked, each of these classes answers or refuses by name."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
from flambeau.core.call.operation import Op

import flambeau
from flambeau._wrapper.wrapper_tensor import (
    OF_THE_SHAPE,
    THROUGH_OPERATIONS,
    along_rows,
    elementwise,
    losses,
    moving,
    reductions,
)
from flambeau.masked import masked_tensor
from flambeau.nested import nested_tensor
from flambeau.operations.declare.registry import REGISTRY

# What is asked of the tensor on `meta` that each of them is, and is right there; or asks through operations.
HARMLESS = (
    OF_THE_SHAPE
    | THROUGH_OPERATIONS
    | set(
        """__array_priority__ __class__ __delattr__ __delitem__ __dict__ __dir__ __doc__ __getattribute__ __getstate__ __init__
    __init_subclass__ __module__ __new__ __pyx_vtable__ __reduce__ __setattr__ __setstate__ __sizeof__ __str__ __subclasshook__
    __weakref__ __slotnames__ __getitem__ __setitem__ __torch_function__ __len__ __iter__""".split()
    )
)


def masked(**kwargs):
    return masked_tensor(
        flambeau.tensor([[1.0, float("nan")], [3.0, 4.0]]),
        flambeau.tensor([[True, False], [True, True]]),
        **kwargs,
    )


def jagged(**kwargs):
    return nested_tensor([[1.0, 2.0], [3.0]], layout=flambeau.jagged, **kwargs)


def parts(**kwargs):
    return nested_tensor([[1.0, 2.0], [3.0]], **kwargs)


KINDS = (masked, jagged, parts)


@pytest.mark.parametrize("make", KINDS)
def test_nothing_of_the_tensor_without_data_shows(make):
    cls = type(make())
    operators = {n for n in dir(flambeau.Tensor) if isinstance(getattr(flambeau.Tensor, n), Op)}
    own = {n for c in cls.__mro__ if c not in flambeau.Tensor.__mro__ for n in vars(c)}
    binary = {n for n in vars(flambeau.Tensor.__mro__[1]) if n.startswith("__") and n not in HARMLESS}
    bare = {n for n in dir(flambeau.Tensor) if n not in operators | own | HARMLESS | binary}
    assert not bare, f"{cls.__name__} takes {sorted(bare)} from a tensor without data"


@pytest.mark.parametrize("make", KINDS)
def test_what_tensors_have_beside_operations(make):
    """Questions of the device are the elements', the methods of other layouts are refused by name."""
    x = make()
    assert x.is_cpu and not x.is_cuda and not x.is_mps and not x.is_sparse and not x.is_quantized
    for name in ("sparse_dim", "to_sparse_csr", "coalesce", "set_data" if hasattr(x, "set_data") else "new"):
        with pytest.raises(NotImplementedError, match=rf"^{name}\(\): not available"):
            getattr(x, name)()


@pytest.mark.parametrize("make", KINDS)
def test_every_operation_answers_or_refuses_by_name(make):
    x = make()
    cls, refused = type(x), 0
    for entry in REGISTRY.values():
        for op in (entry.function, entry.in_place):
            if not isinstance(op, Op) or op.__name__ in cls._overrides or not entry.places:
                continue
            if entry.kind == "masked":
                continue  # told apart by what they are, not by name: test_functions_of_masked_tensors
            refused += 1
            with pytest.raises(
                NotImplementedError, match=rf"^{op.__name__}\(\): not available for (nested|masked) tensors"
            ):
                op(x)
    assert refused > 300


@pytest.mark.parametrize("make", KINDS)
def test_conversions_of_one_element_and_memory(make):
    x = make()
    for ask in (x.untyped_storage, x.data_ptr, x.storage_offset, x.to_sparse):
        with pytest.raises(NotImplementedError):
            ask()
    with pytest.raises((RuntimeError, TypeError)):
        bool(x)
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        float(x)
    with pytest.raises(TypeError, match="cannot be a"):
        x.as_subclass(flambeau.nn.Parameter)
    with pytest.raises(NotImplementedError):
        np.asarray(x)
    assert x.device == flambeau.device("cpu") and x.is_cpu and not x.is_meta
    assert x.dtype == flambeau.float32 and x.is_floating_point() and x.element_size() == 4
    assert x.is_leaf and x.grad_fn is None and x.grad is None and hash(x) == hash(x)


@pytest.mark.parametrize("make", KINDS)
def test_the_tape_s_side(make):
    x = make(requires_grad=True)
    assert x.requires_grad and x.is_leaf and not make().requires_grad
    seen = []
    x.register_hook(lambda g: seen.append(type(g)))
    y = x * 3
    assert not y.is_leaf and y.grad_fn is not None
    (g,) = flambeau.autograd.grad(y, x, flambeau.ones_like(x), retain_graph=True)
    assert type(g) is type(x) and g.tolist() == (flambeau.ones_like(x) * 3).tolist()
    y.backward(flambeau.ones_like(x))
    assert x.grad.tolist() == g.tolist() and seen == [type(x)] * 2
    x.grad = None
    assert x.grad is None
    assert not x.detach().requires_grad and x.requires_grad

    class Twice(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(NotImplementedError, match=r"Twice.apply\(\): not available"):
        Twice.apply(x)
    assert Twice.apply(x.detach()).tolist() == (x.detach() * 2).tolist()


@pytest.mark.parametrize("make", KINDS)
def test_copies(make):
    x = make(requires_grad=True)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert (
            type(y) is type(x)
            and y.requires_grad
            and repr(y.detach()).count("(") == repr(x.detach()).count("(")
        )
        assert y.tolist() == x.tolist()
        with flambeau.no_grad():
            y.mul_(2)
        assert y.tolist() != x.tolist()
    assert copy.copy(x).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="leaves|leaf"):
        copy.deepcopy(x * 2)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop"])
@pytest.mark.parametrize("make", KINDS)
def test_an_optimiser_steps_the_elements(make, kind):
    x = make(requires_grad=True)
    plain = x.detach()._elements.clone().requires_grad_()
    for tensor in (x, plain):
        step = getattr(flambeau.optim, kind)([tensor], lr=0.5)
        for _ in range(3):
            (tensor * tensor).backward(flambeau.ones_like(tensor))
            step.step()
            step.zero_grad()
    assert x.grad is None
    assert x.tolist() == x._with(plain).tolist() != make().tolist()


@pytest.mark.parametrize("order", [2.0, 1.0, float("inf")])
@pytest.mark.parametrize("make", KINDS)
def test_gradients_are_clipped(make, order):
    x = make(requires_grad=True)
    (x * 2).backward(flambeau.ones_like(x))
    there = 3 ** (1 / order)
    total = flambeau.nn.utils.clip_grad_norm_([x], 1.0, order)
    assert float(total) == pytest.approx(2 * there)
    found = [n for row in x.grad.tolist() for n in row if n is not None]
    assert found == pytest.approx([1 / there] * 3, rel=1e-4)


@pytest.mark.parametrize("make", KINDS)
def test_writes_in_place(make):
    x = make()
    y = x.add_(1).mul_(2)
    assert y is x and x.tolist() == ((make() + 1) * 2).tolist()
    x.zero_()
    assert x.tolist() == flambeau.zeros_like(x).tolist()
    x.copy_(x + 1)
    assert x.tolist() == flambeau.ones_like(x).tolist()
    leaf = make(requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.add_(1)
    z = leaf * 1
    z.mul_(3)
    z.backward(flambeau.ones_like(z))
    assert leaf.grad.tolist() == (flambeau.ones_like(leaf) * 3).tolist()


@pytest.mark.parametrize("make", KINDS)
def test_no_parameters_nor_buffers(make):
    for kind in (flambeau.nn.Parameter, flambeau.nn.Buffer):
        with pytest.raises(TypeError, match=f"{kind.__name__}.*masked, nested and sparse tensors"):
            kind(make())


@pytest.mark.parametrize("weights_only", [False, True])
@pytest.mark.parametrize("make", KINDS)
def test_files(make, weights_only):
    file = io.BytesIO()
    x = make(requires_grad=make is not masked)
    flambeau.save({"x": x, "elements": x._elements.detach()}, file)
    file.seek(0)
    found = flambeau.load(file, weights_only=weights_only)
    y = found["x"]
    assert type(y) is type(x) and y.tolist() == x.tolist() and y.requires_grad == x.requires_grad
    assert y._elements.data_ptr() == found["elements"].data_ptr()  # what shared memory does again
    assert (y * 2).tolist() == (x * 2).tolist()


@pytest.mark.parametrize("make", KINDS)
def test_assert_close(make):
    x = make(requires_grad=True)
    flambeau.testing.assert_close(x, make())
    flambeau.testing.assert_close({"x": [x]}, {"x": [x * 1]})
    for wrong in (make() + 1, make().double()):
        with pytest.raises(AssertionError):
            flambeau.testing.assert_close(x, wrong)
    with pytest.raises(TypeError, match="No comparison pair"):
        flambeau.testing.assert_close(x, flambeau.ones(2, 2))
    other = (
        nested_tensor([[1.0, 2.0], [3.0], [4.0]], layout=x.layout)
        if x.is_nested
        else masked_tensor(x._elements.detach().nan_to_num(), flambeau.ones(2, 2).bool())
    )
    with pytest.raises(AssertionError):
        flambeau.testing.assert_close(x, other)


PARTS_THAT_DO_NOT_FIT = {
    "jagged": lambda x: x._elements.resize_(1),
    "offsets": lambda x: x.offsets().copy_(flambeau.tensor([0, 9, 3])),
}


@pytest.mark.parametrize("spoil", PARTS_THAT_DO_NOT_FIT.values(), ids=PARTS_THAT_DO_NOT_FIT)
def test_hostile_files(spoil):
    x = jagged()
    spoil(x)
    file = io.BytesIO()
    flambeau.save(x, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="a nested tensor's parts do not fit"):
        flambeau.load(file)


def test_hostile_files_of_parts_and_masks():
    for x, name, wrong, match in (
        (parts(), "_sizes", ((2,), (5,)), "reaches to byte"),
        (masked(), "_mask", flambeau.tensor([True]), "a masked tensor's parts do not fit"),
    ):
        setattr(x, name, wrong)
        file = io.BytesIO()
        flambeau.save(x, file)
        file.seek(0)
        with pytest.raises(RuntimeError, match=match):
            flambeau.load(file)


def test_a_file_is_read_where_no_nested_tensor_was_made(tmp_path):
    """The classes come with the first one, which a file may hold."""
    flambeau.save([jagged(), parts(), masked()], tmp_path / "x.pt")
    pickled = tmp_path / "x.pickle"
    pickled.write_bytes(pickle.dumps([jagged(), parts(), masked()]))
    program = (
        "import flambeau, pickle, sys\n"
        f"for found in (flambeau.load({str(tmp_path / 'x.pt')!r}), pickle.load(open({str(pickled)!r}, 'rb'))):\n"
        "    print([x.add(1).tolist() for x in found])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == [str([[[2.0, 3.0], [4.0]]] * 2 + [[[2.0, None], [4.0, 5.0]]])] * 2, (
        done.stderr
    )


def test_the_classes_come_with_the_first():
    """`import flambeau` watches no class: that would cost every operation."""
    program = (
        "import flambeau; from flambeau.core.call.interceptors import has_interceptors; assert not has_interceptors(); "
        "flambeau.nested, flambeau.masked.sum, flambeau.ones(2, requires_grad=True).sum().backward(); assert not has_interceptors(); "
        "flambeau.nested.nested_tensor([[1.0]]); assert has_interceptors()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _unary():
    """Elementwise operations of one operand that numbers in their domain can be given to."""
    for entry in REGISTRY.values():
        if entry.kind == "pointwise" and entry.places and entry.function.__name__ in elementwise():
            signature = str(getattr(entry.function, "__signature__", ""))
            if signature.count("input") == 1 and "other" not in signature:
                yield entry


UNARY = [e for e in _unary() if e.places[0] not in ("nn.functional.threshold",)]


def test_there_are_operations_to_try():
    assert len(UNARY) > 50


@pytest.mark.parametrize("entry", UNARY, ids=lambda e: e.name)
def test_elementwise_operations_are_those_of_the_elements(entry):
    """Values and gradients of each, with NaN where nothing is; the same numbers in a plain tensor are the reference."""
    low, high = entry.domain
    numbers = flambeau.linspace(low + 0.1 * (high - low), high - 0.1 * (high - low), 5)
    plain = numbers.clone().requires_grad_()
    try:
        wanted = entry.function(plain)
    except (TypeError, RuntimeError, NotImplementedError):
        return  # of integers, or of more operands
    if not isinstance(wanted, flambeau.Tensor) or wanted.shape != plain.shape:
        return
    nan = float("nan")
    data = flambeau.full((7,), nan)
    data[1:6] = numbers
    there = ~data.isnan()
    x = masked_tensor(data, there, requires_grad=True)
    y = flambeau.nested.nested_tensor_from_jagged(
        numbers.clone().requires_grad_(), flambeau.tensor([0, 2, 2, 5])
    )
    z = nested_tensor([numbers[:2], numbers[2:2], numbers[2:]], requires_grad=True)
    for whole, some in (
        (x, lambda t: t.get_data()[there]),
        (y, lambda t: t.values()),
        (z, lambda t: t.values()),
    ):
        found = entry.function(whole)
        assert type(found) is type(whole)
        np.testing.assert_array_equal(some(found).detach().numpy(), wanted.detach().numpy())
        assert found.requires_grad == wanted.requires_grad
        if wanted.requires_grad:
            ones = flambeau.ones_like(found)
            (g,) = flambeau.autograd.grad(found, whole, ones)
            (expected,) = flambeau.autograd.grad(wanted, plain, flambeau.ones_like(wanted), retain_graph=True)
            np.testing.assert_array_equal(some(g).numpy(), expected.numpy())
    if wanted.requires_grad:
        (g,) = flambeau.autograd.grad(entry.function(x), x, flambeau.ones_like(entry.function(x)))
        assert g._elements[~there].tolist() == [0.0, 0.0]


# --- what follows from declarations ------------------------------
ROWS = [[3.0, 1.0, 2.0], [0.5], [4.0, 0.0, 0.25, 7.0]]


def plain(x):
    """Numbers, of several results a list of each."""
    return [plain(y) for y in x] if isinstance(x, tuple) else x.tolist()


@pytest.mark.parametrize("name", sorted(reductions()))
@pytest.mark.parametrize("layout", [flambeau.jagged, flambeau.strided])
@pytest.mark.parametrize("width", [1, 600], ids=["padded", "one by one"])
def test_reductions_are_those_of_the_parts(name, layout, width):
    dense = [flambeau.tensor(row).repeat_interleave(width) for row in ROWS]
    x = nested_tensor(dense, layout=layout)
    op = getattr(flambeau, name)
    expected = [op(row, 0) for row in dense]
    found = op(x, 1)
    if isinstance(expected[0], tuple):
        assert [flambeau.stack(list(f.unbind())).tolist() for f in found] == [
            [e[k].item() for e in expected] for k in range(2)
        ]
    else:
        found = flambeau.stack(list(found.unbind()))
        assert flambeau.allclose(found, flambeau.stack(expected), rtol=1e-5)
    if name != "logsumexp":
        whole = flambeau.cat(dense)
        assert flambeau.allclose(op(x), op(whole), rtol=1e-5)


@pytest.mark.parametrize("name", sorted(along_rows()))
@pytest.mark.parametrize("layout", [flambeau.jagged, flambeau.strided])
def test_rows_are_those_of_the_parts(name, layout):
    dense = [flambeau.tensor(row) for row in ROWS]
    op = getattr(flambeau, name, None) or getattr(flambeau.nn.functional, name)
    found, expected = op(nested_tensor(dense, layout=layout), 1), [op(row, 0) for row in dense]
    if isinstance(expected[0], tuple):
        assert [plain(f.unbind()) for f in found] == [[e[k].tolist() for e in expected] for k in range(2)]
    else:
        for f, e in zip(found.unbind(), expected, strict=True):
            assert flambeau.allclose(f, e, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(reductions()))
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions_of_masked_tensors_take_what_is_there(name, keepdim):
    data = flambeau.tensor([[1.0, 5.0, float("nan")], [3.0, 0.0, float("inf")]])
    mask = flambeau.tensor([[True, True, False], [True, True, False]])
    op = getattr(flambeau, name)
    kept = {"keepdim": True} if keepdim and name != "count_nonzero" else {}
    found = op(masked_tensor(data, mask), 1, **kept)
    expected = [op(row[m], 0, **kept) for row, m in zip(data, mask)]
    for k, f in enumerate(found if isinstance(found, tuple) else [found]):
        assert f.get_mask().all() and f.shape == ((2, 1) if kept else (2,))
        values = [e[k] if isinstance(found, tuple) else e for e in expected]
        assert f.get_data().flatten().tolist() == pytest.approx([v.item() for v in values])


@pytest.mark.parametrize("name", sorted(losses()))
def test_losses_of_jagged_tensors_are_those_of_their_elements(name):
    loss = getattr(flambeau.nn.functional, name)
    x = nested_tensor([[0.25, 0.5], [0.75]], layout=flambeau.jagged, requires_grad=True)
    y = flambeau.nested.nested_tensor_from_jagged(flambeau.tensor([1.0, 0.0, 1.0]), x.offsets())
    values = x.values().detach().requires_grad_()
    for how in ("mean", "sum"):
        found, expected = loss(x, y, reduction=how), loss(values, y.values(), reduction=how)
        assert found.tolist() == expected.tolist()
    found.backward()
    expected.backward()
    assert x.grad.values().tolist() == values.grad.tolist()
    assert (
        loss(x, y, reduction="none").values().tolist() == loss(values, y.values(), reduction="none").tolist()
    )


def test_moves_of_masked_tensors_take_the_mask_along():
    x = masked_tensor(
        flambeau.arange(6.0).reshape(2, 3), flambeau.tensor([[True, False, True], [False, True, True]])
    )
    for move in (
        lambda x: x.take(flambeau.tensor([5, 0, 1])),
        lambda x: x.masked_select(flambeau.tensor([True, True, False])),
        lambda x: x.hsplit([1])[1],
        lambda x: x.adjoint(),
        lambda x: flambeau.column_stack([x, x]),
        lambda x: x.rot90(),
    ):
        found = move(x)
        assert found.get_data().tolist() == move(x.get_data()).tolist()
        assert found.get_mask().tolist() == move(x.get_mask()).tolist()
    with pytest.raises(NotImplementedError, match="as_strided"):
        x.as_strided((2,), (1,))
    assert {"as_strided", "view_as_real", "is_contiguous", "squeeze_"}.isdisjoint(moving())
