"""What tests of tensors need: `assert_close`, and `make_tensor` for random operands of every dtype."""

from ._comparison import assert_close
from ._creation import make_tensor

__all__ = ["assert_close", "make_tensor"]
