"""What tests of tensors need: `assert_close`, and `make_tensor` for random operands of every dtype."""

from ..core.base.lazily import lazily as _lazily

__all__ = ["assert_allclose", "assert_close", "make_tensor"]  # noqa: F822

__getattr__, __dir__ = _lazily(
    __name__,
    names={"assert_allclose": "._comparison", "assert_close": "._comparison", "make_tensor": "._creation"},
)
