"""The namespace of the array API standard, version 2024.12 (https://data-apis.org/array-api/2024.12/), over ordinary tensors.

`x.__array_namespace__()` returns this module, which is imported when first requested.  Its functions take and return tensors;
they differ from those of the flat namespace where PyTorch's names, arguments or results differ from the standard's.

>>> import flambeau
>>> xp = flambeau.tensor([1, 2]).__array_namespace__(api_version="2024.12")
>>> xp.mean(xp.astype(xp.asarray([1, 2]), xp.float64))
tensor(1.5000, dtype=flambeau.float64)
"""

from __future__ import annotations

from math import e, inf, nan, pi  # noqa: F401

from ..core.base.dtypes import by_name
from . import _creation, _dtypes, _elementwise, _manipulation, _searching, _statistics, fft, linalg  # noqa: F401
from ._creation import *  # noqa: F403
from ._dtypes import *  # noqa: F403
from ._elementwise import *  # noqa: F403
from ._info import *  # noqa: F403
from ._manipulation import *  # noqa: F403
from ._searching import *  # noqa: F403
from ._statistics import *  # noqa: F403
from .linalg import matmul, matrix_transpose, tensordot, vecdot  # noqa: F401

__array_api_version__ = "2024.12"
newaxis = None
globals().update({name: by_name[name] for name in ("bool", *_dtypes.KINDS["numeric"])})

__all__ = [
    *(
        "__array_api_version__",
        "__array_namespace_info__",
        "e",
        "inf",
        "nan",
        "newaxis",
        "pi",
        "fft",
        "linalg",
    ),
    *("bool", *_dtypes.KINDS["numeric"], "matmul", "matrix_transpose", "tensordot", "vecdot"),
    *_creation.__all__,
    *_dtypes.__all__,
    *_elementwise.__all__,
    *_manipulation.__all__,
    *_searching.__all__,
    *_statistics.__all__,
]
