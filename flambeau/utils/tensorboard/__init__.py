"""Event files for TensorBoard, by its own writer (the extra `tensorboard`); it runs without TensorFlow."""

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
