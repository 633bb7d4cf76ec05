"""Vectors for TensorBoard's projector, in files of their own beside the events."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from . import summary


def write_embedding(
    config: Any,
    log_dir: str,
    vectors: Any,
    metadata: Sequence[Any] | None,
    images: Any,
    step: int,
    tag: str,
    header: Sequence[str] | None,
) -> Any:
    """Writes the files, and the projector's list of all of them, `config`; returns the list."""
    from google.protobuf import text_format

    projector = summary.protos().projector_config_pb2
    config = projector.ProjectorConfig() if config is None else config
    rows = summary.as_array(vectors)
    if rows.ndim != 2:
        raise ValueError(f"tensorboard: the embedding {tag!r} has shape {rows.shape}, wanted (N, D)")
    folder = os.path.join(f"{step:05d}", quote(tag, safe=""))
    os.makedirs(os.path.join(log_dir, folder), exist_ok=True)
    info = config.embeddings.add()
    info.tensor_name = f"{tag}:{step:05d}"
    info.tensor_path = os.path.join(folder, "tensors.tsv")
    _write_table(os.path.join(log_dir, info.tensor_path), rows.tolist())
    if metadata is not None:
        if len(metadata) != len(rows):
            raise ValueError(f"tensorboard: {len(rows)} vectors of {tag!r} have {len(metadata)} labels")
        info.metadata_path = os.path.join(folder, "metadata.tsv")
        table = [[x] if header is None else x for x in metadata]
        _write_table(os.path.join(log_dir, info.metadata_path), ([header] if header else []) + table)
    if images is not None:
        sprite, height, width = _sprite(images, len(rows), tag)
        info.sprite.image_path = os.path.join(folder, "sprite.png")
        info.sprite.single_image_dim.extend([width, height])
        sprite.save(os.path.join(log_dir, info.sprite.image_path))
    with open(os.path.join(log_dir, "projector_config.pbtxt"), "w") as file:
        file.write(text_format.MessageToString(config))
    return config


def _write_table(path: str, rows: Sequence[Any]) -> None:
    clean = str.maketrans("\t\n\r", "   ")
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write("\t".join(str(x).translate(clean) for x in row) + "\n")


def _sprite(images: Any, n: int, tag: str) -> tuple[Any, int, int]:
    """All images in one square, line by line, and the size of each."""
    import numpy
    from PIL import Image

    array = summary.as_array(images)
    if array.ndim != 4 or len(array) != n:
        raise ValueError(
            f"tensorboard: images of shape {array.shape} for {n} vectors of {tag!r}, wanted (N, C, H, W)"
        )
    height, width = array.shape[2:]
    side = math.ceil(math.sqrt(n))
    square = numpy.zeros((side * height, side * width, 3), numpy.uint8)
    for k in range(n):
        top, left = k // side * height, k % side * width
        square[top : top + height, left : left + width] = summary.to_pixels(array[k], "CHW")[..., :3]
    return Image.fromarray(square), height, width
