# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A convolution as a step of a plan."""
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
from .runner cimport PreparedStep
from ..core.base.tensor cimport TensorBase
from ..core.lib.convolution.driver cimport Driver
from ..core.lib.convolution.images cimport Image, lines, read_image


cdef class ConvolutionStep(PreparedStep):
    """A `graph.convolutions.Convolution`: the result, images, a weight, then operands of what is made of the sums, each an element a
    filter.
    """

    cdef readonly object plan
    cdef Driver driver
    cdef Image x
    cdef Image y
    cdef int64_t own, wide        # bytes of an operand, and with zeros up to whole vectors where the driver reads them so

    def __init__(self, prepared, places):
        cdef int operands = self.count - 3
        cdef TensorBase x = prepared.images, y = prepared.result
        plan = prepared.plan
        self.plan, self.driver = plan, plan.driver
        read_image(&self.x, x)
        read_image(&self.y, y)
        self.own, self.wide = plan.weight[0] * x.width, plan.terms_width() * x.width
        self.workspace = lines(max(operands, 1) * self.wide)
        self.work = <double>y.count * plan.weight[1] * plan.weight[2] * plan.weight[3] / 8     # several multiplications an instruction

    cdef int launch(self, char** data, char* workspace) except -1 nogil:
        cdef Image x = self.x, y = self.y
        cdef const char* terms = workspace
        cdef int operands = self.count - 3, k
        x.data, y.data = data[1], data[0]
        if operands == 1 and self.own == self.wide:
            terms = data[3]
        else:
            memset(workspace, 0, max(operands, 1) * self.wide)
            for k in range(operands):
                memcpy(workspace + k * self.wide, data[3 + k], self.own)
        with gil:
            self.driver.compute(&x, &y, data[2], terms)
        return 0

    def __repr__(self):
        return repr(self.plan)
