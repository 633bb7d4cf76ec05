# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Tensors over one storage: whether they share bytes."""
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from ..base.tensor cimport MAX_DIMS, TensorBase
from .kernels cimport Operand


cdef bint same_steps(TensorBase a, TensorBase b) noexcept nogil:
    cdef int d
    for d in range(a.rank):
        if a.sizes[d] != b.sizes[d] or (a.strides[d] != b.strides[d] and a.sizes[d] > 1):
            return False
    return True


cdef bint shares(TensorBase out, Operand* operands, int n) noexcept:
    """Whether another tensor among the operands lies in the same storage."""
    cdef int k
    for k in range(n):
        if operands[k].tensor != NULL and operands[k].tensor != <PyObject*>out and (
                (<TensorBase>operands[k].tensor).storage is out.storage):
            return True
    return False


cdef bint each_apart(TensorBase t) noexcept nogil:
    """Whether each stride steps over all that the smaller ones reach, so that no two elements lie in one place."""
    cdef int64_t reach = 0, step
    cdef int d, result, left = 0
    cdef uint64_t used = 0
    if t.contiguous:
        return True
    for d in range(t.rank):
        left += t.sizes[d] > 1
    while left:
        result = -1
        for d in range(t.rank):
            if t.sizes[d] > 1 and not used >> d & 1 and (result < 0 or t.strides[d] < t.strides[result]):
                result = d
        if t.strides[result] <= reach:
            return False
        reach += (t.sizes[result] - 1) * t.strides[result]
        used |= <uint64_t>1 << result
        left -= 1
    return True


cdef bint meet(TensorBase a, TensorBase b) noexcept nogil:
    """Whether two tensors over one storage share bytes; True also where that would take long to find out."""
    cdef int64_t steps[2 * MAX_DIMS + 2]
    cdef int64_t counts[2 * MAX_DIMS + 2]
    cdef int64_t distance = b.offset * b.width - a.offset * a.width, step, count
    cdef int n = 0, d, i, budget = 4096
    if a.count == 0 or b.count == 0:
        return False
    steps[0], counts[0], steps[1], counts[1] = 1, a.width - 1, 1, b.width - 1
    n = 2
    distance += b.width - 1  # b is walked through from its last byte down, so that all steps are counted upwards
    for d in range(a.rank):
        if a.strides[d] and a.sizes[d] > 1:
            steps[n], counts[n] = a.strides[d] * a.width, a.sizes[d] - 1
            n += 1
    for d in range(b.rank):
        if b.strides[d] and b.sizes[d] > 1:
            steps[n], counts[n] = b.strides[d] * b.width, b.sizes[d] - 1
            distance += steps[n] * counts[n]
            n += 1
    for i in range(1, n):  # the largest steps first
        step, count = steps[i], counts[i]
        d = i
        while d > 0 and steps[d - 1] < step:
            steps[d], counts[d] = steps[d - 1], counts[d - 1]
            d -= 1
        steps[d], counts[d] = step, count
    return reaches(distance, steps, counts, n, &budget)


cdef bint reaches(int64_t distance, const int64_t* steps, const int64_t* counts, int n, int* budget) noexcept nogil:
    """Whether distance is a sum of steps, each taken at most so many times."""
    cdef int64_t rest = 0, k, least, most
    cdef int i
    if n == 0 or distance <= 0:
        return distance == 0
    budget[0] -= 1
    if budget[0] < 0:
        return True
    for i in range(1, n):
        rest += steps[i] * counts[i]
    most = min(distance // steps[0], counts[0])
    least = 0 if distance <= rest else (distance - rest + steps[0] - 1) // steps[0]
    for k in range(most, least - 1, -1):
        if reaches(distance - k * steps[0], steps + 1, counts + 1, n - 1, budget):
            return True
    return False
