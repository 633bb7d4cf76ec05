"""Functions in C and C++ as operations: compiled when they are new, or bound to a library that was built before.

`load_inline` has an example; `flambeau/extension.h`, one page, is what sources include.  There is no binary interface but DLPack's
structures, so a library serves every version.
"""

from ...core.base.lazily import lazily as _lazily

_PUBLIC = (
    *(
        "CUDA_HOME",
        "ROCM_HOME",
        "SYCL_HOME",
        "bind",
        "check_compiler_is_gcc",
        "check_compiler_ok_for_platform",
    ),
    *(
        "get_compiler_abi_compatibility_and_version",
        "get_cxx_compiler",
        "get_default_build_root",
        "include_paths",
    ),
    *("is_ninja_available", "library_paths", "load", "load_inline", "verify_ninja_availability"),
)
_BUILDING = ("BuildExtension", "CUDAExtension", "CppExtension", "SyclExtension")

__all__ = sorted((*_PUBLIC, *_BUILDING))
__getattr__, __dir__ = _lazily(
    __name__,
    names={
        "_get_build_directory": "._build",
        **dict.fromkeys(_PUBLIC, "._public"),
        **dict.fromkeys(_BUILDING, "._setuptools"),
    },
)
