"""What passes are: classes, results, managers."""

from ...._compat.absent import refusing as _refusing

__getattr__ = _refusing("fx.passes.infra")
