"""Which public names of PyTorch are here, and why the others are not.

    python tools/coverage.py            # writes docs/coverage.md; needs torch 2.13 beside flambeau
    python tools/coverage.py --check    # exit 1 where it is not current

A name is public where it stands in `__all__` of a module of PyTorch without an underscore in its path, or, in modules that have
none, where the module defines it; and where it is an attribute of `Tensor`.  Each absent one must match a line of REASONS: the tool
stops at the first that does not.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pathlib
import pkgutil
import re
import sys
import textwrap
import types
import warnings

from flambeau._compat.absent import NAMESPACES

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "coverage.md"

HEAD = """# Names of PyTorch 2.13

`python tools/coverage.py` writes this page, in an environment with PyTorch; `tests/test_coverage.py` holds it to what is here.
A name is counted where it stands in `__all__` of a public module, or, in modules without one, where the module defines it; `Tensor`
counts attributes.  That a name is here says nothing of what it does: `docs/parity.md` has that.
"""

# Rooms that answer for their absent names with one reason, and whose names are counted all the same.
COUNTED = ("distributed", "export", "jit")

# Why single names are absent: the first expression that matches the whole dotted name.
REASONS: list[tuple[str, str]] = []


def reason(text: str, *patterns: str) -> None:
    REASONS.extend((pattern, text) for pattern in patterns)


reason(
    "not part of this compiler of graphs", r"compile", r"compiler\..*", r"vmap", r"func\.(vmap|functionalize|debug_unwrap|rearrange)",
    r"sym_fresh_size", r"sym_constrain_range.*",
)  # fmt: skip
reason(
    "work on several devices or in other processes that is not here yet",
    r"nn\.parallel\..*",
    r"RRefType",
    r"fork",
    r"wait",
)
reason(
    "processes are started by `distributed.run`, which is not made of PyTorch's agents, rendezvous handlers and timers",
    r"distributed\.(elastic|launch|run|argparse_util|rendezvous)\..*",
)
reason("records of calls are written and read otherwise", r"distributed\.(flight_recorder|debug)\..*")
reason("internals of PyTorch's calls in other processes", r"distributed\.(rpc|nn\.jit)\..*")
reason(
    "TorchScript's and the dispatcher's types, under the names of the C++ bindings",
    r"(Any|Await|Bool|Class|Complex|DeviceObj|Dict|Enum|Float|Future|Inferred|Int|Interface|List|None|Number|Optional|PyObject|"
    r"RRef|StreamObj|String|SymBool|SymInt|Tensor|Tuple|Union)Type", r"Script.*", r"(Concrete)?Module(Type|Dict).*", r"Graph.*",
    r"(Alias|Argument|Block|CallStack|Code|Compil|Complete|Concrete|Deserial|Serial|Error|Execution|File|Function|Gradient|IODesc|"
    r"JIT|Lite|Node|Operator|Static|Tag|Tracing|Type|Use|Value|Capsule|Aggregation|Benchmark|Dispatch|Disable|Exclude|Fatal|"
    r"Locking|Noop|Throughput|DeepCopy|BufferDict|ParameterDict).*",
    r"AVG|SUM|PyTorchFile.*|import_ir.*|merge_type.*|parse_.*|unify_type_list",
)  # fmt: skip
reason(
    "kernels of quantised operations by their names", r"(fbgemm|choose_qparams|fused_moving_avg|quantized_).*"
)  # fmt: skip
reason(
    "numbers of some bits are not computed with", r"(bits|bit|int[1-7]|uint[1-7])(\d.*)?",
)  # fmt: skip
reason("kernels of one vendor's library by its name", r"(cudnn|miopen|mkldnn)_.*")
reason("steps of SyncBatchNorm between processes", r"batch_norm_.*")
reason("internals of views and of old norms", r"(Tensor\.)?(slice_inverse|native_norm)")
reason(
    "parts of PyTorch's own packages, compilers and splitters",
    r"fx\.graph_module\.reduce_package.*", r"fx\.traceback\.get_graph_prov.*", r"fx\.proxy\.MetaProxy",
    r"fx\.passes\.split_(module\.(Partition|split_module_simple)|utils\.move_non.*)", r"fx\.traceback\.NodeSource.*",
    r"fx\.experimental.*",
)  # fmt: skip
reason("removed from PyTorch, where they only raise", r"Tensor\.(eig|lstsq|solve|symeig|reinforce)")
reason("deprecated in PyTorch", r"Tensor\.(resize|resize_as|volatile|name)")
reason("autocast for devices that are not here", r".*_autocast_(ipu|xla)_.*")
reason("layers without a form over integers", r"nn\.quantized\..*")
reason(
    "devices that are not here",
    r"(xpu|mtia|mps)\..*",
    r"Tensor\.(ipu|mtia|xpu|to_mkldnn)",
    r"serialization\.validate_hpu_device",
)
reason(
    "graphs of a device's work are not captured",
    r"(cuda|accelerator)(\.graphs?)?\..*[gG]raph.*",
    r"autograd\.graph\.set_override_stale.*",
)
reason(
    "steps of a device's own libraries that nothing here calls", r"cuda\.(comm|gds|sparse|green_contexts|nccl)\..*",
    r"backends\.cuda\..*(cufft|cuFFT|cuBLAS|cublas|preferred|workspace).*", r"backends\.(xeon|mkl)\..*",
    r"cuda\.(Green|check|cuda|Deferred|Cuda).*",
)  # fmt: skip
reason(
    "memory of devices comes from our own allocator alone", r"cuda\.(memory\.)?(.*Pool|use_mem_pool|.*Allocator|.*allocator|.*_snapshot|"
    r"host_memory_.*|reset_.*host_.*|caching_allocator_(enable|disabled)|list_gpu_processes)",
)  # fmt: skip
reason(
    "deprecated in PyTorch",
    r"utils\.data\..*",
    r"autograd\..*(nvprof|NestedIO|profiler_legacy).*",
    r"utils\.hooks\..*",
)
reason("ranges around every operation for other profilers", r"autograd\.profiler\.emit_nvtx")
reason("typed storages of devices are deprecated in PyTorch", r"cuda\.\w+Storage")
reason(
    "PyTorch registers named results as trees with it; here all of them are",
    r"return_types\.pytree_register_structseq",
)
reason(
    "old products and sizes of sparse tensors: functions, or methods of their class",
    r"Tensor\.(smm|sspaddmm|sparse_resize.*|resize_as_sparse_)",
)
reason("handles of a library whose functions are not called", r"cuda\.current_solver_handle")
reason("warnings of PyTorch's own changes", r"utils\.backcompat\..*")
reason(
    "the header of extensions is one page, which nobody compiles beforehand",
    r"utils\.cpp_extension\.remove_extension_h_.*",
)
reason("Intel's tracing library", r"(profiler|autograd)\..*itt.*")
reason("traces for replay by other tools", r"profiler\..*ExecutionTraceObserver")
reason(
    "parts of the profiler's own making",
    r"autograd\.profiler(_util)?\.(EnforceUnique|Kineto.*|Mem.*|EventMetadata|StringTable)",
)
reason("parts of PyTorch's own making", r"utils\.(benchmark|collect_env|tensorboard|weak|show_pickle|file_baton|debug_log|cpp_backtrace|"
       r"dlpack|set_module|swap_tensors)(\..*)?", r"autograd\.(function\.(Backward|Function)|gradcheck\.get_|graph\.set_warn).*",
       r"overrides\..*", r"optim\.swap_in.*", r"nn\.(factory_kwargs|functional\.assert_.*)", r"Tensor\.(index|module_load)",
       r"multiprocessing\.pool\.clean_worker", r"torch_version\..*", r"fft\.Tensor")  # fmt: skip
reason(
    "not there yet",
    r"((Tensor\.)?hash_tensor|AcceleratorError|Tensor\.grad_dtype|.*enforce_grad_layout_policy|.*activation_memory_budget|numa\..*)",
)
reason("kernels of attention by other names cannot be registered", r"nn\.attention\..*")
reason(
    "semi-structured sparsity: NVIDIA's tensor cores alone have it",
    r"sparse\..*[sS]emi.*",
    r"sparse\.as_sparse_gradcheck",
)


def public(name: str, module: types.ModuleType) -> list[str]:
    """The public names of a module, or of the class Tensor."""
    if inspect.isclass(module):
        return sorted(n for n in dir(module) if not n.startswith("_") and n not in dir(object))
    listed = getattr(module, "__all__", None)
    if listed is not None:
        names = [n for n in listed if not n.startswith("_")]
    else:
        names = [
            n
            for n, value in vars(module).items()
            if not n.startswith("_")
            and (inspect.isclass(value) or inspect.isfunction(value))
            and value.__module__ == module.__name__
        ]
    return sorted(
        {n for n in names if hasattr(module, n) and not isinstance(getattr(module, n), types.ModuleType)}
    )


def modules(torch: types.ModuleType) -> dict[str, object]:
    """The public modules of PyTorch by their dotted names behind `torch.`, and "Tensor"."""
    by_name: dict[str, object] = {"": torch, "Tensor": torch.Tensor}
    for each in pkgutil.walk_packages(torch.__path__, "torch."):
        name = each.name.removeprefix("torch.")
        parts = name.split(".")
        above = {".".join(parts[: k + 1]) for k in range(len(parts))}
        if any(part.startswith("_") for part in parts) or above & (NAMESPACES.keys() - set(COUNTED)):
            continue
        try:
            by_name[name] = importlib.import_module(each.name)
        except Exception:  # what it needs is not installed, or it is a program
            continue
    return by_name


def ours(name: str) -> object | None:
    """The module or class of the same name here."""
    if name == "Tensor":
        return importlib.import_module("flambeau").Tensor
    try:
        return importlib.import_module("flambeau" + (f".{name}" if name else ""))
    except ImportError:
        return None


def why(dotted: str) -> str | None:
    """The reason for an absent name; what stands nearer to the root here is absent from PyTorch's own file alone."""
    *path, name = dotted.split(".")
    for k in range(len(path)):
        place = ours(".".join(path[:k]))
        if k and place is not None and hasattr(place, name):
            return f"PyTorch's own file; it stands in {'.'.join(path[:k])} here"
    reason = next((text for pattern, text in REASONS if re.fullmatch(pattern, dotted)), None)
    return reason or (NAMESPACES[path[0]] if path and path[0] in COUNTED else None)


def listed(names: list[str]) -> str:
    return textwrap.fill(
        " ".join(f"`{n}`" for n in names), 140, break_long_words=False, break_on_hyphens=False
    )


def gathered() -> dict[str, tuple[list[str], dict[str, list[str]]]]:
    """By public module of PyTorch: the names that are here, and those that are not by the reason why."""
    import torch

    by_module, unexplained = {}, []
    for name, module in sorted(modules(torch).items()):
        names = public(name, module)  # type: ignore[arg-type]
        place = ours(name)
        here = [n for n in names if place is not None and hasattr(place, n)]
        groups: dict[str, list[str]] = {}
        for n in names:
            if n in here:
                continue
            dotted = f"{name}.{n}" if name else n
            text = why(dotted)
            if text is None:
                unexplained.append(dotted)
            else:
                groups.setdefault(text, []).append(n)
        if names:
            by_module[name] = here, groups
    if unexplained:
        raise SystemExit("no reason is given for\n" + "\n".join(unexplained))
    return by_module


def page() -> str:
    parts, total, here_total = [], 0, 0
    rows = []
    for name, (here, groups) in gathered().items():
        absent = sum(map(len, groups.values()))
        total, here_total = total + len(here) + absent, here_total + len(here)
        label = f"torch.{name}" if name else "torch"
        rows.append(f"| [`{label}`](#{label.replace('.', '').lower()}) | {len(here)} | {absent} |")
        part = f"## {label}\n\n"
        if here:
            part += f"Here: {listed(here)}\n\n"
        for text, group in groups.items():
            part += f"Absent ({text}): {listed(group)}\n\n"
        parts.append(part)
    summary = f"{here_total} of {total} names are here, besides these namespaces, absent or here in parts that are not counted:\n\n"
    summary += "| namespace | why |\n|---|---|\n" + "".join(
        f"| `torch.{n}` | {text} |\n"
        for n, text in NAMESPACES.items()
        if not n.startswith("_") and n not in COUNTED
    )
    table = "| module | here | absent |\n|---|---|---|\n" + "\n".join(rows)
    return f"{HEAD}\n{summary}\n{table}\n\n" + "".join(parts).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 where the page is not current"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    text = page()
    if arguments.check:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == text else "docs/coverage.md is not current")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
