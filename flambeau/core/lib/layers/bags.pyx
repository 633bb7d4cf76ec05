# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Bags of rows of a table (see `codegen/tiles/bags.py`): where they begin, and kernels over ranges of bags or columns."""
from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t
from ...base.dtypes cimport I32, I64
from ...base.tensor cimport TensorBase, new_tensor, pointer
from ...base.parallel cimport parallel_interruptible

cdef enum: NANOSECONDS_A_TASK = 20000    # below which a task is not worth a thread


cdef void part(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Work* w = <Work*>context
    cdef int64_t geometry[MAX_NUMBERS + 2]
    cdef int k
    geometry[0], geometry[1] = begin, end
    for k in range(w.count):
        geometry[2 + k] = w.numbers[k]
    w.run(w.data, geometry, NULL)


cdef int run_work(Work* w, int64_t tasks, double nanoseconds) except -1 nogil:
    """Tasks that take about so long each, on several threads."""
    return parallel_interruptible(part, w, tasks, <int64_t>(NANOSECONDS_A_TASK / max(nanoseconds, 1)) + 1, nanoseconds)


def run(int64_t address, tuple tensors not None, tuple numbers not None, int64_t tasks, double nanoseconds) -> bool:
    """Run a kernel over the range of tasks, each of which takes about so long: its data are the tensors, or nothing for None, and
    a word; its geometry a part of the range and the numbers.  Returns whether the kernel wrote to the word.
    """
    cdef Work w
    cdef int64_t word = 0
    cdef int k
    if len(tensors) >= MAX_DATA or len(numbers) > MAX_NUMBERS:
        raise ValueError("bags: too many tensors or numbers")
    w.run = <kernel_t><void*><uintptr_t>address
    for k in range(len(tensors)):
        w.data[k] = NULL if tensors[k] is None else pointer(<TensorBase?>tensors[k])
    w.data[len(tensors)] = <char*>&word
    w.count = len(numbers)
    for k in range(w.count):
        w.numbers[k] = numbers[k]
    with nogil:
        run_work(&w, tasks, nanoseconds)
    return word != 0


def even_starts(int64_t bags, int64_t length) -> TensorBase:
    """Where bags of so many numbers begin and the last one ends, (bags + 1,) of int64."""
    cdef int64_t size = bags + 1, k
    cdef TensorBase result = new_tensor(1, &size, I64)
    for k in range(size):
        (<int64_t*>pointer(result))[k] = k * length
    return result


def starts(TensorBase offsets not None, int64_t count, bint last_included) -> TensorBase:
    """Where each bag begins and the last one ends, (bags + 1,) of int64: at `offsets`, (bags,) of int32 or int64 and contiguous, or
    (bags + 1,) where the last one's end is included; else that is `count`.

    Raises RuntimeError where the first is not 0, one is smaller than the one before, or above `count`.
    """
    cdef TensorBase result
    cdef int64_t bags, k, value, place, before = 0
    cdef int64_t* to
    bags = offsets.count - last_included
    if bags < 0:
        raise RuntimeError("embedding_bag(): include_last_offset: number of offsets should be at least 1")
    cdef int64_t size = bags + 1
    result = new_tensor(1, &size, I64)
    to = <int64_t*>pointer(result)
    for k in range(offsets.count):
        value = (<int64_t*>pointer(offsets))[k] if offsets.code == I64 else (<int32_t*>pointer(offsets))[k]
        if k == 0 and value != 0:
            raise RuntimeError("embedding_bag(): offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                               f"position 0. However, got {value}")
        if value < before:
            raise RuntimeError(f"embedding_bag(): offsets must not decrease, got {value} after {before}")
        if value > count:
            place = -1 if k == offsets.count - 1 else k
            raise RuntimeError(f"embedding_bag(): offsets[{place}] can not be greater than input's length {count} but got offsets[{place}] "
                               f"of {value}")
        to[k] = before = value
    if not last_included:
        to[bags] = count
    return result
