"""LAPACK, and many small matrices."""

from ...base.lazily import lazily as _lazily

# Each is imported for the first operation that needs it.
__getattr__, __dir__ = _lazily(
    __name__, ("cholesky", "eigenvalues", "factors", "jobs", "reflections", "small", "solves")
)
