"""From a body to an operation: the list of all operations, and the declarations of each kind."""

from ...core.base.lazily import waiting as _waiting

_waiting(__name__, "fallbacks")  # imported for the first operation that goes by the host
