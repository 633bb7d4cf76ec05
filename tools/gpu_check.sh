#!/bin/sh
# Everything that wants an NVIDIA device, in at most 25 minutes, on a machine that has one.  Needs python3 with Cython, meson, ninja, NumPy,
# SciPy, pytest, llvmlite and scipy-openblas32, a C compiler, and no network.  Reports go to $OUT (default: build/gpu).
#
#     OUT=/tmp/gpu WHEELS=wheels sh tools/gpu_check.sh         # what the steps are: python3 tools/gpu_plan.py --list
#     sh tools/gpu_check.sh --dry                              # here, without a device, on the tests' fake driver
#     sh tools/gpu_check.sh --collect wheels                   # fetch what WHEELS is to hold, on a machine with a network
#
# WHEELS: a folder of wheels for what is not installed there (default: wheels/ beside tools/, if it is there); PYTHON: another interpreter;
# BUDGET: seconds in all; STEPS: names of some steps.  The exit status is 0 only where every step has passed.
cd "$(dirname "$0")/.." || exit 1
PYTHON=${PYTHON:-python3}
if [ "$1" = --collect ]; then
    exec "$PYTHON" -m pip download -q --only-binary :all: --dest "${2:?a folder}" cython meson ninja numpy scipy pytest llvmlite scipy-openblas32
fi
WHEELS=${WHEELS:-wheels}
if [ -d "$WHEELS" ]; then
    SITE=$(mktemp -d)
    trap 'rm -rf "$SITE"' EXIT
    "$PYTHON" -m pip install -q --no-index --no-deps --no-cache-dir --upgrade --target "$SITE" "$WHEELS"/*.whl || exit 1
    export PYTHONPATH=$SITE${PYTHONPATH:+:$PYTHONPATH} PATH=$SITE/bin:$PATH
fi
"$PYTHON" tools/gpu_plan.py --out "${OUT:-build/gpu}" ${BUDGET:+--budget "$BUDGET"} ${STEPS:+--steps "$STEPS"} "$@"
