"""PyTorch's own sample inputs, carried to the library under test and back, and what of the results is compared.

PyTorch ships the inputs that it tests its operations with (`op_db`, about 700 records).  The records here are those of public operations.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from _parity_children import Differ, must, one_line, require_torch

# Private, experimental or GPU-only records that no user of the public API would miss.
LEFT_OUT = re.compile(
    r"^(jiterator_.*|torch\..*|_(?!_).*|hash_tensor|addr_alias|sparse\..*|to_sparse|.*_copy|"
    r"native_.*|max_pool2d_with_indices_backward|nn\.functional\.linear_cross_entropy|"
    r"nonzero_static|empty_permuted|geqrf|ormqr|unsafe_(split|chunk)|chalf|slice)$"
)
INCLUDED = {"index_copy"}  # although `LEFT_OUT` matches
# Results that are random or uninitialised: shape, dtype and device only.
WITHOUT_VALUES = re.compile(
    r"^(empty.*|new_empty.*|rand.*|bernoulli|cauchy|exponential|geometric|log_normal|multinomial|normal|uniform|"
    r"nn\.functional\.(.*dropout.*|rrelu|fractional_max_pool\dd)|pca_lowrank|svd_lowrank|resize_|resize_as_)$"
)
TOLERANCES = {  # dtype: relative, absolute; exact where a dtype is not here
    "float16": (5e-3, 5e-3),
    "bfloat16": (2e-2, 2e-2),
    "float32": (2e-4, 2e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (3e-4, 3e-5),
    "complex128": (1e-7, 1e-7),
}


class Skip(Exception):
    """A sample that cannot be compared: PyTorch refuses it, or it cannot be carried over."""


def is_public(op: Any) -> bool:
    return op.name in INCLUDED or not LEFT_OUT.match(op.name)


def records() -> list[tuple[int, Any]]:
    """All records of PyTorch's operations with their numbers."""
    require_torch()
    from torch.testing._internal.common_methods_invocations import op_db

    return list(enumerate(op_db))


def public_records() -> list[tuple[int, Any]]:
    return [(number, op) for number, op in records() if is_public(op)]


def label(op: Any) -> str:
    return f"{op.name}/{op.variant_test_name}" if op.variant_test_name else op.name


class Bridge:
    """Carries tensors, dtypes, devices and structures of them from PyTorch to the candidate and back."""

    def __init__(self, candidate: Any) -> None:
        self.torch, self.lib = require_torch(), candidate

    def dtype(self, dtype: Any) -> Any:
        return getattr(self.lib, str(dtype).removeprefix("torch."))

    def there(self, x: Any) -> Any:
        """What the candidate takes in place of `x`; Skip for a tensor that is not strided."""
        torch, lib = self.torch, self.lib
        if isinstance(x, torch.Tensor):
            return self.tensor_there(x)
        if isinstance(x, (torch.dtype, torch.memory_format, torch.layout)):
            return getattr(lib, str(x).removeprefix("torch."))
        if isinstance(x, torch.device):
            return lib.device(str(x))
        if isinstance(x, torch.Generator):
            return lib.Generator()
        if isinstance(x, torch.Size):
            return tuple(x)
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return type(x)(*[self.there(v) for v in x])
        if isinstance(x, (list, tuple)):
            return type(x)(self.there(v) for v in x)
        if isinstance(x, dict):
            return {k: self.there(v) for k, v in x.items()}
        return x

    def tensor_there(self, t: Any) -> Any:
        """A copy with the same strides where they are not too wide."""
        torch, lib = self.torch, self.lib
        if lib is torch:
            return t.detach().clone().requires_grad_(t.requires_grad)
        if t.layout is not torch.strided:
            raise Skip("not a strided tensor")
        dense = t.detach().resolve_conj().resolve_neg().contiguous()
        if t.dtype == torch.bfloat16:
            ours = lib.tensor(dense.float().numpy()).to(lib.bfloat16)
        else:
            ours = lib.tensor(dense.numpy().copy())
        same = tuple(ours.shape) == tuple(t.shape) and str(ours.dtype).split(".")[-1] == str(t.dtype)[6:]
        assert same, f"carrying in: {tuple(ours.shape)} {ours.dtype} for {tuple(t.shape)} {t.dtype}"
        if not t.is_contiguous() and t.numel() > 0 and 0 not in t.stride():
            span = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
            if span <= 16 * t.numel() + 64:
                memory = lib.zeros(span, dtype=self.dtype(t.dtype))
                view = memory.as_strided(tuple(t.shape), tuple(t.stride()))
                view.copy_(ours)
                ours = view
        return ours.requires_grad_(True) if t.requires_grad else ours

    def back(self, x: Any) -> Any:
        """PyTorch's copy of a result of the candidate's."""
        torch, lib = self.torch, self.lib
        if lib is torch:
            return x
        if isinstance(x, lib.Tensor):
            values = x.detach()
            name = str(values.dtype).split(".")[-1]
            if name == "bfloat16":
                return torch.from_numpy(values.to(lib.float32).numpy().copy()).to(torch.bfloat16)
            array = values.numpy().copy()
            if array.shape:
                return torch.from_numpy(array)
            number = bool(array) if array.dtype.kind == "b" else array[()]
            return torch.tensor(number, dtype=getattr(torch, name))
        if isinstance(x, lib.dtype):
            return getattr(torch, str(x).split(".")[-1])
        if isinstance(x, (list, tuple)):
            return tuple(self.back(v) for v in x)
        return x


def _in_place(method: str) -> Callable:
    return lambda lib: lambda x, *a, **k: getattr(x.clone(), method)(*a, **k)


# Records whose sample inputs stand in another order than the function's own.
ADAPTED: dict[str, Callable] = {
    "einsum": lambda lib: lambda tensors, equation: lib.einsum(equation, *tensors),
    "polygamma": lambda lib: lambda x, n, **k: lib.polygamma(n, x, **k),
    "special.polygamma": lambda lib: lambda x, n, **k: lib.special.polygamma(n, x, **k),
    "where": lambda lib: lambda x, condition, other, **k: lib.where(condition, x, other, **k),
    "nn.functional.embedding": lambda lib: (
        lambda weight, idx, **k: lib.nn.functional.embedding(idx, weight, **k)
    ),
    "svd_lowrank": lambda lib: lambda a, b, **k: lib.svd_lowrank(a @ b.mT, **k),
    "pca_lowrank": lambda lib: lambda a, b, **k: lib.pca_lowrank(a @ b.mT, **k),
    "linalg.lstsq/grad_oriented": lambda lib: (
        lambda a, b, driver=None: lib.linalg.lstsq(a, b, driver=driver)[:2]
    ),
    "linalg.pinv/singular": lambda lib: lambda a, b: lib.linalg.pinv(a @ b.mT),
    "zero_": _in_place("zero_"),
    "normal/in_place": _in_place("normal_"),
    **{
        name: _in_place(name + "_")
        for name in ("cauchy", "exponential", "geometric", "log_normal", "uniform")
    },
}


def resolve(lib: Any, name: str) -> Callable | None:
    """The candidate's function of that dotted name, else the Tensor method or attribute, else None."""
    here = lib
    for part in name.split("."):
        here = getattr(here, part, None)
        if here is None:
            break
    if callable(here):
        return here
    member = getattr(lib.Tensor, name, None)
    if member is None or callable(member):
        return member
    return lambda x, *a, **k: getattr(x, name)


def function_of(lib: Any, op: Any) -> Callable | None:
    """The candidate's function for a record, in the order of its samples; None where there is none."""
    adapt = ADAPTED.get(label(op)) or ADAPTED.get(op.name)
    return adapt(lib) if adapt else resolve(lib, op.name)


def leaves(kind: type, x: Any) -> list:
    """The tensors of class `kind` in lists, tuples and dictionaries, in order."""
    if isinstance(x, kind):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, (list, tuple)):
        return [t for v in x for t in leaves(kind, v)]
    return []


def mapped(kind: type, function: Callable, x: Any) -> Any:
    """`x` with `function` of each tensor in its place; other classes of sequences pass as they are."""
    if isinstance(x, kind):
        return function(x)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*[mapped(kind, function, v) for v in x])
    if type(x) in (list, tuple):
        return type(x)(mapped(kind, function, v) for v in x)
    if isinstance(x, dict):
        return {k: mapped(kind, function, v) for k, v in x.items()}
    return x


def copied(torch: Any, t: Any) -> Any:
    """PyTorch's own copy of an input, with its strides."""
    plain = t.detach()
    if t.layout is torch.strided and not plain.is_conj() and plain.numel() and 0 not in plain.stride():
        made = torch.empty_strided(plain.shape, plain.stride(), dtype=plain.dtype).copy_(plain)
    else:
        made = plain.clone()
    return made.requires_grad_(t.requires_grad)


def clone(torch: Any, x: Any) -> Any:
    return mapped(torch.Tensor, lambda t: copied(torch, t), x)


def detach(torch: Any, x: Any) -> Any:
    """Detached results; any sequence becomes a tuple."""
    if isinstance(x, torch.Tensor):
        return x.detach()
    if isinstance(x, (list, tuple)):
        return tuple(detach(torch, v) for v in x)
    return x


def rebuild(torch: Any, x: Any, tensors: Iterator) -> Any:
    """`x` with the next of `tensors` in the place of each of its own; PyTorch's named results become tuples."""
    if isinstance(x, torch.Tensor):
        return next(tensors)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*[rebuild(torch, v, tensors) for v in x])
    if isinstance(x, (list, tuple)):
        made = [rebuild(torch, v, tensors) for v in x]
        return made if type(x) is list else tuple(made)
    return x


def unseeded(torch: Any, function: Callable, args: tuple, kwargs: dict) -> Any:
    """One more call, with the records' own seeding switched off."""
    seed, torch.manual_seed = torch.manual_seed, lambda s: None
    try:
        return function(*args, **kwargs)
    finally:
        torch.manual_seed = seed


def same(torch: Any, a: Any, b: Any) -> bool:
    """Whether two results of PyTorch's have equal numbers, NaN apart."""

    def numbers(t: Any) -> Any:
        return t.nan_to_num() if t.is_floating_point() else t

    pairs = zip(leaves(torch.Tensor, a), leaves(torch.Tensor, b))
    return all(torch.equal(numbers(x), numbers(y)) for x, y in pairs if x.layout is torch.strided)


def close(torch: Any, ours: Any, theirs: Any, values: bool) -> None:
    """AssertionError where structure, shape, dtype or, with `values`, numbers differ by more than `TOLERANCES`."""
    if isinstance(theirs, (tuple, list)):
        ok = isinstance(ours, (tuple, list)) and len(ours) == len(theirs)
        assert ok, f"{len(theirs)} results expected, got {type(ours).__name__}"
        for a, b in zip(ours, theirs):
            close(torch, a, b, values)
        return
    if not isinstance(theirs, torch.Tensor):
        assert type(ours) is type(theirs) or ours == theirs, f"{ours!r} is not {theirs!r}"
        if isinstance(theirs, (int, bool, str, torch.Size)):
            assert ours == theirs, f"{ours!r} is not {theirs!r}"
        return
    assert isinstance(ours, torch.Tensor), f"a tensor expected, got {type(ours).__name__}"
    assert tuple(ours.shape) == tuple(theirs.shape), f"shape {tuple(ours.shape)} is not {tuple(theirs.shape)}"
    assert ours.dtype == theirs.dtype, f"dtype {ours.dtype} is not {theirs.dtype}"
    if values:
        rtol, atol = TOLERANCES.get(str(theirs.dtype)[6:], (0, 0))
        plain = theirs.resolve_conj().resolve_neg()
        torch.testing.assert_close(ours, plain, rtol=rtol, atol=atol, equal_nan=True)


def near(torch: Any, ours: Any, theirs: Any, what: str, tolerance: tuple[float, float]) -> None:
    """Differ, naming `what`, where two tensors of PyTorch's differ in shape, dtype or, by more than (relative, absolute), numbers."""
    shapes = [f"{t.dtype}{tuple(t.shape)}" for t in (ours, theirs)]
    must(shapes[0] == shapes[1], f"{what}: {shapes[0]} is not {shapes[1]}")
    rtol, atol = tolerance if theirs.is_floating_point() or theirs.is_complex() else (0, 0)
    try:
        torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        raise Differ(f"{what}: {one_line(error, 160)}") from None


def quietly(call: Callable, *args: Any, **kwargs: Any) -> Any:
    """The call without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **kwargs)


def brief(torch: Any, x: Any) -> str:
    """Dtype, shape and strides of tensors, other values as they are."""
    if isinstance(x, torch.Tensor):
        extra = "" if x.is_contiguous() else f",strides={tuple(x.stride())}"
        return f"{str(x.dtype)[6:]}{list(x.shape)}{extra}"
    if isinstance(x, (list, tuple)):
        return "(" + ", ".join(brief(torch, v) for v in x) + ")"
    return repr(x)


def brief_call(torch: Any, args: tuple, kwargs: dict) -> str:
    return f"{brief(torch, args)} " + " ".join(f"{k}={brief(torch, v)}" for k, v in kwargs.items())
