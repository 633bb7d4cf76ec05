"""What is not here, said by name: the namespaces of PyTorch that are missing or only answer queries, and why.

A namespace that programs look into before they work is a module with true answers ("is it available", "is a graph being traced"). Its
other names say why they are absent: by an AttributeError, a ModuleNotFoundError, or an ImportError where they are imported.
What libraries only mention while they are imported (annotations, base classes, `isinstance`) stands in `absent_names.NAMES` and is
made when it is looked up: classes without instances, enumerations, errors, and functions whose call is a NotImplementedError.
`docs/coverage.md` is written from the same tables.
"""

from __future__ import annotations

import builtins
import enum
import functools
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..core.base import display
from ..core.base.callbacks import set_callback
from ..core.base.lazily import functions_first, when_loaded
from .absent_names import NAMES
from .absent_reasons import ABSENT

OWN = __name__.partition(".")[0]
PAGE = "docs/coverage.md lists what is here"

# Namespaces, and why they are absent; `distributed`, `export`, `jit`, `ao` and `_dynamo` answer queries.
NAMESPACES = {
    "ao": "models are quantised in eager and in graph mode; what PyTorch has for exported programs and pruning is not here",
    "quantization": "`ao.quantization` has what is here",
    "contrib": "PyTorch's experiments are not carried over",
    "nn.intrinsic": "`ao.nn.intrinsic` has the fused layers that are here",
    "nn.qat": "`ao.nn.qat` has the layers that train with rounded weights",
    "nn.quantizable": "recurrent and attention layers have no form over quantised tensors; `quantize_dynamic` takes the former",
    "nn.quantized": "`ao.nn.quantized` has the layers over integers that are here",
    "nn.cpp": "it holds modules written in C++ with LibTorch, which is not here",
    "utils.data.datapipes": "PyTorch deprecated it",
    "utils.hipify": "it rewrites CUDA sources, and no CUDA sources are compiled here",
    "utils.jit": "it serves PyTorch's own compiler",
    "utils.bundled_inputs": "it serves TorchScript",
    "utils.mobile_optimizer": "it serves TorchScript",
    "utils.model_dump": "it serves TorchScript",
    "utils.mkldnn": "there is no layout of oneDNN",
    "utils.backend_registration": "devices outside of the library are not open yet",
    "utils.throughput_benchmark": "it serves TorchScript",
    "cuda.tunable": "products are the vendor's libraries'",
    "classes": "classes of C++ need LibTorch, which is not here",
    "cuda.gds": "files are not read by the GPU",
    "multiprocessing.reductions": "tensors travel by `multiprocessing/_channels.py`, not by PyTorch's reductions",
    "distributed": "of it what programs call is here; this serves PyTorch's own backends, agents and internals",
    "export": "programs that are exported here have no use for it",
    "fx.experimental": "sizes are numbers here; of PyTorch's experiments with graphs, `proxy_tensor.make_fx` is here",
    "fx.tensor_type": "sizes are numbers, and types of graphs are not checked",
    "fx.annotate": "TorchScript's types of values",
    "jit": "programs are compiled from functions and modules, by `jit.script`",
    "nativert": "it runs exported graphs in C++",
    "package": "it runs code when an archive is loaded; `save` keeps state, Python's own tools keep code",
    "_C": "it is PyTorch's compiled module, of which only what programs take from it has a place here",
    "_dynamo": "of PyTorch's compiler only what programs set, ask and catch has a place here",
    "_inductor": "it is PyTorch's generator of kernels; `codegen` is the one that is here",
    "_export": "a part of PyTorch's own exporter",
    "_functorch": "`func` has what is public of it",
    "_subclasses": "there are no fake tensors; device 'meta' knows shapes and dtypes",
    "_prims": "operations are declared otherwise here",
    "_prims_common": "operations are declared otherwise here",
    "_decomp": "operations are declared otherwise here, and not made of others",
    "_jit_internal": "what PyTorch's compiler of TorchScript keeps for itself; `jit.script` is the one that is here",
    "_ops.HigherOrderOperator": "there are no graphs in which an operation could take functions",
    "profiler._memory_profiler": "memory is not listed by what it is used for",
    "_guards": "there are no graphs yet",
    "_weights_only_unpickler": "files are read by `_files/unpickling.py`, not by PyTorch's reader",
    "autograd.profiler_legacy": "PyTorch deprecated it",
    "backends.xnnpack": "there are no kernels of XNNPACK",
    "cuda._memory_viz": "memory is not drawn",
    "cuda.sparse": "typed tensors of devices are deprecated in PyTorch",
    "nn.utils._per_sample_grad": "`func.vmap` of `func.grad` does that",
    "numa": "processes are not bound to memory",
    "utils.deterministic": "memory that is made without values is never filled",
    "utils._sympy": "there are no graphs yet, and sizes are numbers",
    "utils.data.IterDataPipe": "PyTorch deprecated it",
    "utils.data.MapDataPipe": "PyTorch deprecated it",
    "utils.data.functional_datapipe": "PyTorch deprecated it",
    "utils.data.graph_settings": "PyTorch deprecated it",
    "utils.data.dataloader._sharding_worker_init_fn": "PyTorch deprecated the data pipes that it cuts",
}
# Types of TorchScript and its dispatcher, which nothing has: for `isinstance` and annotations.
TYPES = (
    "Any Await Bool Class Complex DeviceObj Dict Enum Float Future Inferred Int Interface List None Number Optional PyObject RRef "
    "StreamObj String SymBool SymInt Tensor Tuple Union"
)
# PyTorch's two exporters in pieces: what is here writes models by one way (`onnx.export`).
EXPORTERS = (
    "_internal _type_utils ops testing utils verification symbolic_helper ExportableModule InputObserver "
    "JitScalarType producer_name producer_version select_model_mode_for_export",
    *(f"symbolic_opset{version}" for version in range(7, 21)),
)
NAMESPACES |= dict.fromkeys(
    (f"onnx.{name}" for names in EXPORTERS for name in names.split()),
    "a part of PyTorch's own exporters; `onnx.export` writes models here",
)
NAMESPACES |= dict.fromkeys((f"{kind}Type" for kind in TYPES.split()), NAMESPACES["jit"])
# Passes over graphs that PyTorch has for compilers, accelerators and debuggers of its own.
PASSES = (
    "annotate_getitem_nodes backends dialect fake_tensor_prop graph_transform_observer infra.partitioner net_min_base operator_support "
    "param_fetch pass_manager regional_inductor regional_inductor_invoke_subgraph reinplace runtime_assert splitter_base tests "
    "tools_common utils.common utils.fuser_utils utils.matcher_with_name_node_map_utils utils.source_matcher_utils"
)
NAMESPACES |= dict.fromkeys(
    (f"fx.passes.{name}" for name in PASSES.split()), "a pass for compilers of PyTorch's own"
)


def why(module: str) -> str | None:
    """The reason for which a module or a name such as "fx.passes" is absent; None for one that no table holds."""
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        if (reason := NAMESPACES.get(".".join(parts[:count]))) is not None:
            return reason
    return _listed().get(module)


@functools.cache
def _listed() -> dict[str, str]:
    """Why single public names of modules that are here are absent."""
    return {
        f"{module}.{name}".lstrip("."): reason
        for module, groups in ABSENT.items()
        for reason, names in groups.items()
        for name in names.split()
    }


def message(name: str, called: str | None = None) -> str:
    """What is said of an absent name such as "jit.freeze"; `called` is another name for what needs it.

    >>> from flambeau._compat.absent import message
    >>> message("package.PackageExporter").partition(";")[0]
    'flambeau.package.PackageExporter is not here: it runs code when an archive is loaded'
    """
    return f"{called or display.public(name)} is not here: {why(name)} ({PAGE})"


def refusing(namespace: str) -> Callable[[str], Any]:
    """`__getattr__` of a module: what `absent_names` has of it, else an error with the reason."""

    def absent(name: str) -> Any:
        dotted = f"{namespace}.{name}"
        if is_module(dotted):
            return import_module(f"{OWN}.{dotted}")
        if (word := _words(namespace).get(name)) is not None:
            value = vars(sys.modules[f"{OWN}.{namespace}"])[name] = _made(namespace, word)
            return value
        if (
            name.startswith("__") or why(dotted) is None
        ):  # what Python asks of any module, and what PyTorch has not
            text = f"module {display.public(namespace)!r} has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=sys.modules.get(f"{OWN}.{namespace}"))
        asking = sys._getframe(1)
        while asking.f_code.co_filename in _THROUGH:
            asking = asking.f_back  # type: ignore[assignment]
        from opcode import opmap

        if asking.f_code.co_code[asking.f_lasti] == opmap["IMPORT_FROM"]:  # which would drop the reason
            raise ImportError(
                f"cannot import name {name!r} from {display.public(namespace)!r}: {message(dotted)}"
            )
        raise AttributeError(message(dotted))

    return absent


def _absent_of(package: str, name: str) -> Any:
    """The same for a package whose names are imported when they are first looked up."""
    return refusing(package.partition(".")[2])(name)


set_callback("absent", _absent_of)


def attach() -> None:
    """Put the table's modules into the package."""
    for name in sorted(_modules()):
        if "." in name or name in vars(sys.modules[OWN]):
            continue
        if not os.path.exists(os.path.join(*sys.modules[OWN].__path__, f"{name}.py")):
            import_module(f"{OWN}.{name}")


def _explained(module: ModuleType) -> None:
    """Let a module say why it lacks public names of PyTorch's.

    Not the package itself and `nn.functional`, in which calls look their functions up: Python is slower in modules that have a
    `__getattr__`.
    """
    name = module.__name__.partition(".")[2]
    if name in ABSENT and name != "nn.functional" and not hasattr(module, "__getattr__"):
        module.__getattr__ = refusing(name)  # type: ignore[method-assign]


when_loaded((f"{OWN}.{name}" for name in ABSENT), _explained)


_THROUGH = (__file__, when_loaded.__code__.co_filename)


def unmakeable(name: str, bases: tuple[type, ...] = ()) -> type:
    """A class such as "fx.GraphModule", which nothing is an instance of: for `isinstance`, annotations and as a base.

    To make one is a NotImplementedError with the reason.
    """

    def refuse(self: Any, *args: Any, **options: Any) -> None:
        raise NotImplementedError(message(name))

    module, _, short = name.rpartition(".")
    document = f"""For `isinstance`, annotations and as a base class; to make one is a NotImplementedError: {why(name)}.

    >>> import {display.NAME}
    >>> isinstance(1, {display.public(name)})
    False
    """
    place = display.public(module) if module else display.NAME
    return type(short, bases, {"__init__": refuse, "__module__": place, "__doc__": document})


def _uncallable(name: str) -> Callable[..., Any]:
    """A function such as "fx.symbolic_trace", which libraries import: to call it is a NotImplementedError with the reason."""

    def refuse(*args: Any, **options: Any) -> Any:
        raise NotImplementedError(message(name))

    module, _, refuse.__name__ = name.rpartition(".")
    refuse.__qualname__, refuse.__module__ = refuse.__name__, display.public(module)
    refuse.__doc__ = f"To call it is a NotImplementedError: {why(name)}."
    return refuse


# --- names that are only mentioned ------------------------------
_WORD = re.compile(r"(\w+)(?:\((.*)\)|\[(.*)\]|=(.*))?")


@functools.cache
def _words(namespace: str) -> dict[str, str]:
    """The words of `absent_names` for a module, by the names that they define."""
    return {_WORD.match(word)[1]: word for word in NAMES.get(namespace, "").split()}  # type: ignore[index]


def _made(namespace: str, word: str) -> Any:
    """What a word of the table stands for."""
    name, base, members, elsewhere = _WORD.fullmatch(word).groups()  # type: ignore[union-attr]
    dotted = f"{namespace}.{name}"
    if elsewhere is not None:
        return _reach(elsewhere)
    if members is not None:
        import ast

        values = [(n, ast.literal_eval(v)) for n, _, v in (m.partition("=") for m in members.split(","))]
        return enum.Enum(name, values, module=display.public(namespace))
    if base is None:
        return _uncallable(dotted)
    kind = (getattr(builtins, base, None) or _reach(base)) if base else object
    if issubclass(kind, BaseException):
        return type(
            name, (kind,), {"__module__": display.public(namespace), "__doc__": f"PyTorch's error {name}."}
        )
    return unmakeable(dotted, (kind,) if base else ())


def _reach(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    return getattr(import_module(f"{OWN}.{module}".rstrip(".")), name)


# --- modules that are only mentioned ------------------------------
@functools.cache
def _modules() -> frozenset[str]:
    """The modules that `absent_names` has words of, and the packages that they stand in."""
    parts = [name.split(".") for name in NAMES]
    return frozenset(".".join(each[:k]) for each in parts for k in range(1, len(each) + 1))


def is_module(name: str) -> bool:
    """Whether a module such as "distributed.fsdp" is made from the table."""
    return name in _modules()


def spec_of(name: str) -> ModuleSpec | None:
    """How a module of the table is loaded, by its whole name; None for another."""
    rest = name.partition(".")[2]
    return ModuleSpec(name, _Maker(rest), is_package=True) if is_module(rest) else None  # type: ignore[arg-type]


class _Finder:
    """The last that Python's import asks: makes modules of the table, and says why others are absent."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, rest = name.partition(".")
        if top != OWN or not rest:
            return None
        if (result := spec_of(name)) is None:
            refuse_import(name, rest)
        return result


class _Maker:
    """Loads a module of the table."""

    def __init__(self, namespace: str) -> None:
        self.namespace = self.name = namespace

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = f"Names that libraries mention: {why(self.namespace)}."
        module.__getattr__ = refusing(self.namespace)  # type: ignore[method-assign]
        module.__dir__ = lambda: sorted({*vars(module), *_words(self.namespace)})  # type: ignore[method-assign]
        package, _, last = module.__name__.rpartition(".")
        if last in _words(self.namespace):  # as `ao.quantization.quantize`
            functions_first(package)
            getattr(module, last)


def refuse_import(name: str, rest: str) -> None:
    """The error for the import of a module that is absent, or of an absent name of a package; nothing where none is imported.

    `importlib.util.find_spec` only asks, and gets None.
    """
    reason, frame = why(rest), sys._getframe(1)
    if reason is None:
        return
    importing, named = False, False
    while frame is not None and frame.f_code.co_filename.startswith(
        ("<frozen importlib", __file__, _AS_TORCH)
    ):
        importing |= frame.f_code.co_name == "_find_and_load_unlocked"
        named |= frame.f_code.co_name == "_handle_fromlist"
        frame = frame.f_back  # type: ignore[assignment]
    if not importing:
        return
    package, _, last = name.rpartition(".")
    if (
        named and rest == last
    ):  # `from torch import X`: the package itself has no `__getattr__` that would say it
        raise ImportError(f"cannot import name {last!r} from {package!r}: {message(rest)}", name=package)
    raise ModuleNotFoundError(f"No module named {name!r}: {reason} ({PAGE})", name=name)


_AS_TORCH = __file__.replace("absent.py", "as_torch.py")


def take_imports() -> None:
    """Let imports of absent modules come here, after everything else was tried."""
    sys.meta_path.append(_Finder())  # type: ignore[arg-type]
