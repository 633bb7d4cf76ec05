"""What a launch of a plan costs beside its kernel: nanoseconds of one launch, of one call of the kernel itself, and what is between.

    python tools/launch_cost.py

Builds a loop in Cython against the .pxd files beside this folder (which must be built), in a temporary folder.  Least times of many
repeats, one thread, float32.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

LOOP = """
    # cython: language_level=3, boundscheck=False, wraparound=False
    from time import perf_counter
    from flambeau.core.base.tensor cimport TensorBase, pointer
    from flambeau.core.loops.plans cimport LoopPlan

    def nanoseconds(LoopPlan plan, list tensors, int times, bint bare):
        cdef char* data[64]
        cdef int k
        for k in range(len(tensors)):
            data[k] = pointer(<TensorBase>tensors[k])
        if bare and plan.geometry == NULL:
            raise ValueError(f"{plan} takes several calls of its kernel")
        begin = perf_counter()
        with nogil:
            if bare:
                for k in range(times):
                    plan.run(data, plan.geometry, plan.scalars)
            else:
                for k in range(times):
                    plan.launch_at(data)
        return (perf_counter() - begin) / times * 1e9
"""
BUILD = """
    import sys
    from Cython.Build import cythonize
    from setuptools import Extension, setup

    folder, roots = sys.argv[1:3]
    sys.argv = ["launch_cost", "-q", "build_ext", "--build-lib", folder, "--build-temp", folder]
    source = Extension("launch_cost_loop", [folder + "/launch_cost_loop.pyx"], extra_compile_args=["-O2"])
    setup(name="launch_cost_loop", ext_modules=cythonize([source], include_path=[roots], build_dir=folder, quiet=True))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "launch_cost_loop.pyx").write_text(textwrap.dedent(LOOP))
        roots = Path(__file__).resolve().parents[1]
        command = [sys.executable, "-c", textwrap.dedent(BUILD), folder, str(roots)]
        subprocess.run(command, check=True, cwd=folder)
        sys.path[:0] = [folder, str(roots)]
        report(importlib.import_module("launch_cost_loop").nanoseconds)


def report(nanoseconds) -> None:
    from flambeau.core.loops.planning import plan_of

    import flambeau

    def least(plan, tensors, times, bare):
        return min(nanoseconds(plan, tensors, times, bare) for _ in range(50))

    flambeau.set_num_threads(1)
    print(f"{'plan':24}{'launch':>9}{'kernel':>9}{'between':>9}   ns")
    for size in (4, 64, 4096):
        x = flambeau.rand(size)
        for name, op, arguments in (
            ("add", flambeau.add, (x, x)),
            ("exp", flambeau.exp, (x,)),
            ("sum", flambeau.sum, (x,)),
        ):
            plan = plan_of(op, *arguments)
            out = plan.launch(arguments)
            tensors, times = [out, *arguments], max(20000 // size, 100)
            launch, kernel = least(plan, tensors, times, False), least(plan, tensors, times, True)
            print(f"{name + ' of ' + str(size):24}{launch:9.1f}{kernel:9.1f}{launch - kernel:9.1f}")


if __name__ == "__main__":
    main()
