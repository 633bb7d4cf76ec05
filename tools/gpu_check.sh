#!/bin/sh
# Everything that wants an NVIDIA device, on a machine that has one: build in place, test on `cuda`, time against
# PyTorch.  Needs python3 with Cython, meson, ninja, NumPy, SciPy, pytest, llvmlite and scipy-openblas32, a C
# compiler, and no network.  Reports go to $OUT (default: build/gpu).
#
#     OUT=/tmp/gpu WHEELS=wheels sh tools/gpu_check.sh
#
# WHEELS: a folder of wheels for what is not installed there; PYTHON: another interpreter; JOBS: processes for the
# tests (pytest-xdist); TESTS: a -k expression, to run some of them; SMALL: anything, for tiny timings without PyTorch.
# Every part runs, also after one has failed; the exit status is that of the worst.
cd "$(dirname "$0")/.." || exit 1
PYTHON=${PYTHON:-python3}
OUT=${OUT:-$PWD/build/gpu}
BUILD=$PWD/build/gpu-$($PYTHON -c 'import sys; print(sys.implementation.cache_tag)')
mkdir -p "$OUT"
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 MESONPY_EDITABLE_SKIP=$BUILD${MESONPY_EDITABLE_SKIP:+:$MESONPY_EDITABLE_SKIP}
worst=0

part() { # name, command: its output to a file of that name, its end to the terminal
    name=$1
    shift
    echo "== $name: $*"
    start=$(date +%s)
    "$@" > "$OUT/$name.txt" 2>&1
    status=$?
    tail -n 25 "$OUT/$name.txt"
    echo "== $name: status $status after $(($(date +%s) - start)) s"
    [ $status -eq 0 ] || worst=1
    return $status
}

if [ -n "$WHEELS" ]; then
    SITE=$(mktemp -d)
    "$PYTHON" -m pip install -q --no-index --no-deps --no-cache-dir --upgrade --target "$SITE" "$WHEELS"/*.whl || exit 1
    PYTHONPATH=$SITE:$PYTHONPATH
fi

part build "$PYTHON" tools/develop.py "$BUILD" || exit 1

part device "$PYTHON" -c '
import flambeau
from flambeau.devices import cublas, cuda
assert flambeau.cuda.is_available(), "no device"
print(flambeau.cuda.get_device_properties(), "driver", cuda.driver_version())
a = flambeau.ones(10, 10, device="cuda")
print((a @ a + 1).cpu())
print("cuBLAS:", "none" if cublas.find_library() is None else "found", cublas.candidates())
' || exit 1
part tests env FLAMBEAU_TEST_DEVICE=cuda "$PYTHON" -m pytest -p no:cacheprovider ${JOBS:+-n "$JOBS"} ${TESTS:+-k "$TESTS"} \
    tests/devices/test_opencl.py tests/devices/test_by_host.py tests/devices/test_device_*.py
part nccl "$PYTHON" tools/nccl_check.py
part fake "$PYTHON" -m pytest -p no:cacheprovider tests/devices/test_cuda_host.py tests/distributed/test_dist_nccl.py
part speed "$PYTHON" tools/gpu_versus.py ${SMALL:+--small --alone}
cp "$OUT/speed.txt" "$OUT/speed.md"
exit $worst
