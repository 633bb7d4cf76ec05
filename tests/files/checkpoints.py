"""What is kept in the files under tests/data/torch, made of either library's own objects: `CONTENTS[name](torch)`.

`tools/checkpoints_of_torch.py` wrote them with PyTorch; the tests compare what flambeau reads with what it makes itself.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "data" / "torch"
DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
NEW_DTYPES = "uint16 uint32 uint64 complex32 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu".split()
OLD_DTYPES = "uint8 int8 int16 int32 int64 float32 float64".split()  # of the time of tar archives


def tensors(torch: Any) -> dict[str, Any]:
    made = {name: torch.tensor([[0, 1, 2], [1, 0, 5]]).to(getattr(torch, name)) for name in DTYPES}
    whole = torch.arange(12.0).reshape(3, 4)
    made |= {
        "whole": whole,
        "row": whole[1],
        "column": whole[:, 2],
        "turned": whole.t(),
        "steps": whole[::2, 1::2],
    }
    made |= {
        "same": whole,
        "number": torch.tensor(2.5),
        "empty": torch.empty(0, 3),
        "wide": torch.ones(1).expand(50, 60),
    }
    made |= {"leaf": torch.ones(2, requires_grad=True), "special": torch.tensor([math.inf, -0.0])}
    return made


def dtypes(torch: Any) -> dict[str, Any]:
    """Those that have no class of storages."""
    made = {name: torch.tensor([[0.5, 1, 2], [1, 4, 8]]).to(getattr(torch, name)) for name in NEW_DTYPES}
    return made | {"part": made["uint16"][1], "pair": torch.nn.Parameter(made["complex32"])}


def old_tensors(torch: Any) -> dict[str, Any]:
    made = {name: torch.tensor([[0, 1, 2], [1, 0, 5]]).to(getattr(torch, name)) for name in OLD_DTYPES}
    whole = torch.arange(12.0).reshape(3, 4)
    return made | {"whole": whole, "row": whole[1], "turned": whole.t(), "same": whole}


def parameters(torch: Any) -> list[Any]:
    marked, labelled = torch.nn.Parameter(torch.ones(1)), torch.arange(3)
    marked.note, labelled.label = ["mine", 1], "x"
    frozen = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
    return [
        torch.nn.Parameter(torch.ones(2, 3).t()),
        frozen,
        marked,
        labelled,
        torch.nn.Buffer(torch.arange(4.0)),
    ]


def containers(torch: Any) -> dict[Any, Any]:
    ordered = OrderedDict([("b", 1), ("a", (2, [3]))])
    ordered.note = {"version": 1}  # type: ignore[attr-defined]
    return {
        "plain": [None, True, -5, 2**40, 2**100, 2.5, "é", "x" * 300, b"\x00\xff", bytearray(b"ab"), 3 - 4j],
        ("a", 1): {"set": {1, 2}, "ordered": ordered, "counts": Counter("aab"), "long": list(range(300))},
        "torch": [
            torch.float16,
            torch.Size([2, 3]),
            torch.device("cpu"),
            torch.device("cuda", 1),
            torch.strided,
        ],
    }


def sparse(torch: Any) -> list[Any]:
    made = torch.sparse_coo_tensor(
        torch.tensor([[0, 2, 0], [1, 0, 1]]), torch.tensor([3.0, 4.0, 5.0]), (3, 2)
    )
    sorted_ones = torch.tensor([[0, 2], [1, 0]]), torch.tensor([8.0, 4.0])
    return [made, torch.sparse_coo_tensor(*sorted_ones, (3, 2), is_coalesced=True)]


def compressed(torch: Any) -> list[Any]:
    x = torch.tensor([[1.0, 0.0, 0.0, 2.0], [0.0, 0.0, 0.0, 3.0]])
    return [x.to_sparse_csr(), x.to_sparse_csc(), x.to_sparse_bsr((1, 2)), x.to_sparse_bsc((2, 2))]


def nested(torch: Any) -> list[Any]:
    parts = [torch.arange(6.0).reshape(2, 3), torch.zeros(0, 3), torch.ones(1, 3)]
    base, places = torch.arange(12.0).reshape(3, 4), (torch.tensor([0, 1, 2]), torch.tensor([2, 2, 1]))
    return [
        torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True),
        torch.nested.narrow(base, 1, *places, layout=torch.jagged),
        torch.nested.nested_tensor(parts),
    ]


def lazy(torch: Any) -> list[Any]:
    """What PyTorch writes as marks on other tensors, which are computed when they are read."""
    x = torch.tensor([[1 + 2j, -3.5j], [0.25, 7 - 1j]])
    return [x.conj(), x.t().conj(), getattr(torch, "_neg_view", torch.neg)(torch.tensor([[1.0, 2], [3, -4]]))]


def filled(torch: Any, module: Any) -> Any:
    """A module whose parameters are the same in both libraries."""
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_((torch.arange(float(parameter.numel())) % 7 + i).reshape(parameter.shape) / 8)
    return module


def model(torch: Any) -> Any:
    nn = torch.nn
    return filled(
        torch,
        nn.Sequential(
            OrderedDict(
                conv=nn.Conv2d(1, 2, 3, padding=1), norm=nn.BatchNorm2d(2), act=nn.ReLU(), flat=nn.Flatten()
            ),
        ).append(nn.Linear(8, 3)),
    )


def training(torch: Any) -> dict[str, Any]:
    network = model(torch)
    found: dict[str, Any] = {"model": network.state_dict(), "epoch": 3}
    for name, options in {"SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}, "AdamW": {}}.items():
        optimiser = getattr(torch.optim, name)(network.parameters(), lr=0.0, **options)
        for parameter in network.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimiser.step()
        found[name] = {
            "state": optimiser.state_dict()["state"],
            "lr": optimiser.state_dict()["param_groups"][0]["lr"],
        }
    return found


def quantised(torch: Any) -> dict[str, Any]:
    x = torch.arange(15.0).reshape(3, 5) / 10
    scales, zeros = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2])
    whole = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    return {
        "whole": whole,
        "view": whole[:, 1:],
        "signed": torch.quantize_per_tensor(x, 0.1, 3, torch.qint8),
        "wide": torch.quantize_per_tensor(x, 0.1, 3, torch.qint32),
        "channels": torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8),
        "floats": torch.quantize_per_channel(x, scales, zeros.float(), 0, torch.quint8),
        "bits": torch.quantize_per_channel(x[:, :4].clone(), scales, zeros.float(), 0, torch.quint4x2),
        "dtype": torch.quint8,
    }


CONTENTS = {
    f.__name__: f
    for f in (
        tensors,
        dtypes,
        parameters,
        containers,
        training,
        model,
        sparse,
        compressed,
        nested,
        lazy,
        quantised,
    )
}


def same(a: Any, b: Any, place: str = "obj") -> None:
    """AssertionError with the place where two objects, of one library, differ."""
    assert type(a) is type(b), (place, type(a), type(b))
    if hasattr(a, "state_dict"):
        same(a.state_dict(), b.state_dict(), place)
        assert repr(a) == repr(b), place
    elif getattr(a, "is_quantized", False):
        by = "q_per_channel_scales q_per_channel_zero_points q_per_channel_axis".split()
        by = ["q_scale", "q_zero_point"] if str(a.qscheme()).endswith("per_tensor_affine") else by
        parts = [[str(x.qscheme()), x.stride(), x.int_repr(), *(getattr(x, n)() for n in by)] for x in (a, b)]
        assert a.dtype == b.dtype, place
        same(*parts, place)
    elif getattr(a, "is_sparse", False):
        parts = [[x._indices(), x._values(), tuple(x.shape), x.is_coalesced(), x.dtype] for x in (a, b)]
        same(*parts, place)
    elif str(getattr(a, "layout", "")).rpartition(".")[2] in (
        "sparse_csr",
        "sparse_csc",
        "sparse_bsr",
        "sparse_bsc",
    ):
        names = "crow_indices", "col_indices"
        if str(a.layout)[-3:] in ("csc", "bsc"):
            names = "ccol_indices", "row_indices"
        parts = [
            [*(getattr(x, n)() for n in names), x.values(), tuple(x.shape), str(x.layout)] for x in (a, b)
        ]
        same(*parts, place)
    elif getattr(a, "is_nested", False):
        assert (a.layout, a.requires_grad, len(a.unbind())) == (b.layout, b.requires_grad, len(b.unbind())), (
            place
        )
        for x, y in zip(a.detach().unbind(), b.detach().unbind()):
            assert (x.dtype, x.shape, x.tolist()) == (y.dtype, y.shape, y.tolist()), place
    elif hasattr(a, "untyped_storage"):
        assert (a.dtype, a.shape, a.stride(), a.storage_offset()) == (
            b.dtype,
            b.shape,
            b.stride(),
            b.storage_offset(),
        ), place
        assert a.requires_grad == b.requires_grad and a.device == b.device, place
        assert a.detach().tolist() == b.detach().tolist(), place
        same(dict(vars(a)), dict(vars(b)), f"{place}.__dict__")
    elif isinstance(a, dict):
        assert list(a) == list(b), (place, list(a), list(b))
        for key in a:
            same(a[key], b[key], f"{place}[{key!r}]")
        if isinstance(a, OrderedDict):
            same(dict(vars(a)), dict(vars(b)), f"{place}.__dict__")
    elif type(a) in (list, tuple):
        assert len(a) == len(b), place
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{place}[{i}]")
    else:
        assert a == b, (place, a, b)


def shares(found: dict[str, Any]) -> None:
    """AssertionError where the views of `tensors` do not lie over one storage."""
    views = {"whole", "row", "column", "turned", "steps", "same"} & set(found)
    assert len({found[name].untyped_storage().data_ptr() for name in views}) == 1
    assert found["same"] is found["whole"]
