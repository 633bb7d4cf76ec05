"""Machine code from LLVM IR: for this processor in memory, for others as assembly or object code.

llvmlite is imported at the first kernel that is not in memory yet, never at `import flambeau`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import struct
from typing import NamedTuple

from ..core.base import forks


class Target(NamedTuple):
    """A family of processors that kernels are compiled for without running them here.

    `lanes`: neighbouring threads that read memory together, at least.  `shuffles`: whether threads of 32 read each other's registers.
    `registers`: 32-bit words that a thread of a block of 256 may have.
    """

    triple: str
    convention: str
    level: int = 3
    lanes: int = 32
    shuffles: bool = True
    registers: int = 255


TARGETS = {
    "nvptx": Target("nvptx64-nvidia-cuda", "ptx_kernel "),
    # Waves have 32 or 64 threads; `ds_swizzle` reaches the 32 around a thread in both.
    "amdgcn": Target("amdgcn-amd-amdhsa", "amdgpu_kernel ", registers=256),
    # Drivers optimise SPIR-V themselves.  LLVM must not: from `x & 15` in a loop it makes a 4-bit integer,
    # which its SPIR-V back end takes for one of 8 bits.
    # How many threads run together is the driver's to choose: 8, 16 or 32.
    "spirv": Target(
        "spirv64-unknown-unknown", "spir_kernel ", level=0, lanes=16, shuffles=False, registers=128
    ),
}

# The processors of each target that code is made for, oldest first.  One whose name ends in "a" runs on no later one.
PROCESSORS = {
    "nvptx": ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100"),
    "amdgcn": ("gfx90a", "gfx942", "gfx1100"),
    "spirv": ("",),
}

# The version of AMD's code objects, as a flag of the module.  ROCm 6 and later load the fifth; LLVM's default is newer.
CODE_OBJECT = """
!llvm.module.flags = !{!990}
!990 = !{i32 1, !"amdhsa_code_object_version", i32 500}
"""


def nearest(capability: tuple[int, int]) -> str | None:
    """The newest of NVIDIA's processors that a card of that capability runs the code of; None for a card older than all.

    >>> nearest((9, 0)), nearest((8, 7)), nearest((12, 0)), nearest((6, 1))
    ('sm_90a', 'sm_86', 'sm_100', None)
    """
    own = capability[0] * 10 + capability[1]
    result = None
    for name in PROCESSORS["nvptx"]:
        number = int(name.removeprefix("sm_").removesuffix("a"))
        if number == own or (number < own and not name.endswith("a")):
            result = name
    return result


@functools.cache
def _binding():
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    forks.hold(binding.ffi.lib._lock)  # every call of LLVM takes it
    return binding


def llvm():
    with forks.making:
        return _binding()


ATTEMPTS = 40  # to emit a SPIR-V module; the fourth has always been right


@functools.cache
def processor() -> tuple[str, str]:
    """This CPU's name and features, as LLVM spells them; 512-bit vectors are wanted where they exist.

    FLAMBEAU_CPU_CAPABILITY=avx2 holds kernels to what an x86 processor with AVX2 has, as ATEN_CPU_CAPABILITY does for PyTorch's.
    """
    binding = llvm()
    wanted = os.environ.get("FLAMBEAU_CPU_CAPABILITY", "").lower()
    if wanted not in ("", "avx2"):
        raise ValueError(f"FLAMBEAU_CPU_CAPABILITY: expected avx2 or nothing, got {wanted!r}")
    features, triple = [binding.get_host_cpu_features().flatten()], binding.get_process_triple()
    if triple.startswith("x86_64"):
        features.append("-prefer-256-bit")
    elif triple.startswith(("aarch64", "arm64")):  # each has NEON, though not every /proc/cpuinfo says so
        features.append("+neon")
    if wanted and triple.startswith("x86_64"):
        wider = re.sub(r"\+(?=avx512|avx10|avxvnni|avxifma|avxneconvert|amx|prefer)", "-", ",".join(features))
        return "x86-64-v3", wider
    return binding.get_host_cpu_name(), ",".join(filter(None, features))


def has(feature: str) -> bool:
    """Whether this CPU has a feature, in LLVM's spelling."""
    return f"+{feature}" in processor()[1].split(",")


@functools.cache
def host_machine(reloc: str = "static", codemodel: str = "large"):
    """For code whose constants may lie anywhere: those of the small code model are to be found within 2 GB of the code, and
    where large tensors leave no room there the loader ends the process.
    """
    binding = llvm()
    cpu, features = processor()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=2, reloc=reloc, codemodel=codemodel
    )


@functools.cache
def _engine():
    """Lives as long as the process: threads may still run kernels while the interpreter ends."""
    binding = llvm()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), host_machine())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
    return engine


def machine(name: str, processor: str | None = None):
    """A new target machine of an accelerator, for one of its PROCESSORS: the oldest unless it is given.  For one module only:
    LLVM's SPIR-V back end keeps in it what it knows of the last one, and crashes on the next.
    """
    binding = llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target, known = TARGETS[name], PROCESSORS[name]
    if processor is not None and processor not in known:
        raise ValueError(f"{name}: processor is {processor!r}; one of {', '.join(map(repr, known))} expected")
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=known[0] if processor is None else processor, opt=target.level, reloc="default"
    )


def optimised(text: str, machine, level: int = 2):
    """The verified, optimised module.  Kernels are written as vectors already: the loop vectoriser stays off."""
    binding = llvm()
    module = binding.parse_assembly(text)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def host_object(text: str, shared: bool = False, settled: bool = False) -> bytes:
    """Object code for this processor, for `load`; `shared`, for the linker of shared libraries; `settled` where no loop of the
    text computes what does not change in it.
    """
    with forks.making:
        machine = host_machine("pic", "default") if shared else host_machine()
        return machine.emit_object(simplified(text, machine) if settled else optimised(text, machine))


def simplified(text: str, machine):
    """The verified module, its instructions simplified.  Kernels of elements and rows are written as LLVM would leave them but for
    products with known strides and the like, and the rest of its passes take most of the time that a kernel compiles.
    """
    binding = llvm()
    module = binding.parse_assembly(text)
    module.verify()
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=2))
    passes = binding.create_new_module_pass_manager()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_loop_rotate_pass()  # or what loops carry is copied from register to register
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return module


def load(code: bytes, symbol: str) -> int:
    """Place object code in memory for good; the address of `symbol`."""
    with forks.making:
        engine = _engine()
        engine.add_object_file(llvm().ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = engine.get_function_address(symbol)
    if not address:
        raise RuntimeError(f"flambeau.codegen: the object code has no function {symbol}")
    return address


def image(text: str, name: str, processor: str | None = None) -> str | bytes:
    """What the driver of an accelerator loads: PTX text, an AMDGCN object, SPIR-V; for one of PROCESSORS, the oldest by default."""
    if (
        name == "spirv"
    ):  # which has no integers of 128 bits; numbers of 16 bytes are moved and taken in halves only
        text = re.sub(r"(?<!%)\bi128\b", "<2 x i64>", text)
    if name == "amdgcn":
        text += CODE_OBJECT
    with forks.making:
        failed: list = []  # kept until the end, so that the next attempt lies elsewhere in memory
        for _ in range(ATTEMPTS if name == "spirv" else 1):
            fresh = machine(name, processor)
            module = optimised(text, fresh, TARGETS[name].level)
            result = fresh.emit_assembly(module) if name == "nvptx" else fresh.emit_object(module)
            if name != "spirv" or labels_apart(result):
                return result
            failed.append((fresh, module))
    raise RuntimeError(f"flambeau.codegen: LLVM numbered a SPIR-V module wrongly {ATTEMPTS} times in a row")


def labels_apart(spirv: bytes) -> bool:
    """Whether no block of a SPIR-V module has the number of a type.  LLVM 22 numbers types as if there were no blocks
    where a target machine lies at the address of an earlier one, and a driver crashes on that.
    """
    words = struct.unpack(f"<{len(spirv) // 4}I", spirv)
    labels, types, at = set(), set(), 5
    while at < len(words):
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        if opcode == 248:  # OpLabel
            labels.add(words[at + 1])
        elif 19 <= opcode <= 39:  # OpTypeVoid …
            types.add(words[at + 1])
        at += length
    return not labels & types
