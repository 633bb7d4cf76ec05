"""What PyTorch's files call the classes and functions that we have: one table, read in both directions.

A name in a file is that of a module and of something in it.  Where modules and names agree, `torch.nn.modules.linear.Linear` is
`flambeau.nn.modules.linear.Linear`; where they do not, the table says so.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..core.base import display

_PACKAGE = __name__.partition(".")[0]

# What stands under another name there: the name in files (module, name), and where ours is.  The first line of an object is
# what is written.
_TABLE: tuple[tuple[str, str, str, str], ...] = (
    ("torch", "Tensor", "_tensor", "Tensor"),
    ("torch._tensor", "Tensor", "_tensor", "Tensor"),
    ("torch.tensor", "Tensor", "_tensor", "Tensor"),
    ("torch", "Size", "core.base.dtypes", "Size"),
    ("torch", "device", "core.base.dtypes", "device"),
    ("torch.storage", "UntypedStorage", "core.base.memory", "Storage"),
    ("torch", "UntypedStorage", "core.base.memory", "Storage"),
    ("torch.serialization", "_get_layout", "_files.rebuilding", "_get_layout"),
    ("torch._utils", "_rebuild_tensor", "_files.rebuilding", "_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2", "_files.rebuilding", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_tensor_v3", "_files.rebuilding", "_rebuild_tensor_v3"),
    ("torch._utils", "_rebuild_sparse_tensor", "_files.rebuilding", "_rebuild_sparse_tensor"),
    ("torch._utils", "_rebuild_qtensor", "_files.rebuilding", "_rebuild_qtensor"),
    ("torch._utils", "_rebuild_nested_tensor", "_files.rebuilding", "_rebuild_nested_tensor"),
    ("torch.nested._internal.nested_tensor", "_rebuild_njt", "_files.rebuilding", "_rebuild_njt"),
    ("torch.nested._internal.nested_tensor", "NestedTensor", "_files.rebuilding", "JaggedClass"),
    ("torch.masked", "_rebuild_masked_tensor", "_files.rebuilding", "_rebuild_masked_tensor"),
    ("torch._dynamo.decorators", "_DimRange", "_files.rebuilding", "_DimRange"),
    ("torch._utils", "_rebuild_parameter", "_files.rebuilding", "_rebuild_parameter"),
    ("torch._utils", "_rebuild_parameter_with_state", "_files.rebuilding", "_rebuild_parameter_with_state"),
    (
        "torch._utils",
        "_rebuild_meta_tensor_no_storage",
        "_files.rebuilding",
        "_rebuild_meta_tensor_no_storage",
    ),
    (
        "torch._utils",
        "_rebuild_device_tensor_from_cpu_tensor",
        "_files.rebuilding",
        "_rebuild_device_tensor_from_cpu_tensor",
    ),
    ("torch._tensor", "_rebuild_from_type_v2", "_files.rebuilding", "_rebuild_from_type_v2"),
    ("torch._tensor", "_rebuild_from_type", "_files.rebuilding", "_rebuild_from_type"),
    ("torch.tensor", "_rebuild_from_type", "_files.rebuilding", "_rebuild_from_type"),
)

# Classes of nn that PyTorch keeps in another file than we do.
_HOMES = {
    **dict.fromkeys(
        ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"), "torch.nn.modules.batchnorm"
    ),
    **dict.fromkeys(("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"), "torch.nn.modules.instancenorm"),
    "ChannelShuffle": "torch.nn.modules.channelshuffle",
    "MultiheadAttention": "torch.nn.modules.activation",
}

# What files may hold that we do not have, by the beginning of its name, and what it is.
_LACKING = {
    "torch._utils._rebuild_sparse_csr_tensor": "a sparse tensor",
    "torch._utils._rebuild_wrapper_subclass": "a tensor subclass without data of its own",
    "torch._utils._rebuild_device_tensor_from_numpy": "a tensor kept as a NumPy array",
    "torch._utils._rebuild_xla_tensor": "a tensor kept as a NumPy array",
    "torch.distributed._shard.": "a sharded tensor of before DTensor",
    "torch.distributed._mesh_layout.": "a mesh as PyTorch's pickle has it",
    "torch.jit.": "a TorchScript object",
}
_FILES_TO_OURS = {(module, name): (ours, own) for module, name, ours, own in _TABLE}
_OURS_TO_FILES = {(ours, own): (module, name) for module, name, ours, own in reversed(_TABLE)}

# What the classes of storages say about the elements.
STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64",
    "UntypedStorage": "uint8",
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
    "QUInt4x2Storage": "quint4x2",
}
STORAGE_OF = {dtype: name for name, dtype in reversed(STORAGES.items())}
_LACKING_STORAGES = ("QUInt2x4Storage",)
_LACKING_DTYPES = (
    "quint2x4",
    *("bit", "bits8", "bits16", "bits1x8", "bits2x4", "bits4x2"),
    *(f"{sign}int{n}" for sign in ("", "u") for n in range(1, 8)),
)


def lacking(module: str, name: str) -> str | None:
    """What a name of PyTorch stands for that we do not have, or None."""
    full = f"{module}.{name}"
    if module == "torch" and name in _LACKING_DTYPES:
        return f"the dtype {full}"
    if name in _LACKING_STORAGES:
        return "a tensor of quint2x4"
    return next((what for begin, what in _LACKING.items() if full.startswith(begin)), None)


def find(module: str, name: str) -> Any:
    """What we have of a name of PyTorch's; AttributeError where we have none."""
    if (module, name) in _FILES_TO_OURS:
        ours, own = _FILES_TO_OURS[module, name]
        return getattr(importlib.import_module(f"{_PACKAGE}.{ours}"), own)
    if (module, name) == ("torch._C", "_VariableFunctionsClass"):  # of which `torch.tanh` … are attributes
        return importlib.import_module(_PACKAGE)
    what = lacking(module, name)
    if what is not None:
        raise AttributeError(f"the file holds {what} ({module}.{name}), which {display.NAME} does not have")
    parts = module.split(".")
    parts[0] = _PACKAGE
    while parts:  # in the module of the same name, else in one around it
        result: Any = None
        try:
            result = importlib.import_module(".".join(parts))
            for part in name.split("."):
                result = getattr(result, part)
            return result
        except (ImportError, AttributeError):
            parts.pop()
    raise AttributeError(f"the file names {module}.{name}, which {display.NAME} does not have")


def in_files(module: str | None, name: str) -> tuple[str, str] | None:
    """The name in files of what lies at `name` in a module of ours; None for what PyTorch has no like of."""
    package, _, inner = (module or "").partition(".")
    if package not in (_PACKAGE, display.NAME):  # the name that is shown may be another
        return None
    if not inner:
        return _OURS_TO_FILES.get(("_tensor", name)) or ("torch", name)
    if (inner, name) in _OURS_TO_FILES:
        return _OURS_TO_FILES[inner, name]
    if inner.startswith("nn.") and name in _HOMES:
        return _HOMES[name], name
    if inner == "optim._lr_base" or inner == "optim._lr_cycles":
        return "torch.optim.lr_scheduler", name
    parts = inner.split(".")
    if parts[0] in ("core", "operations", "devices", "codegen") or any(
        part.startswith("_") for part in parts
    ):
        return None
    return f"torch.{inner}", name
