"""Summaries: what TensorBoard shows, one message each, made of numbers, tensors and arrays."""

from __future__ import annotations

import functools
import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from ..._compat.absent import refusing
from ..._tensor import Tensor
from ...core.base import display
from ...core.base.dtypes import by_name

__all__ = [
    "audio",
    "custom_scalars",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "mesh",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "text",
    "video",
]

# tensorboard's modules of messages, and of what its plug-ins say about themselves.
_MODULES = {
    "attr_value_pb2": "compat.proto.attr_value_pb2",
    "event_pb2": "compat.proto.event_pb2",
    "graph_pb2": "compat.proto.graph_pb2",
    "versions_pb2": "compat.proto.versions_pb2",
    "summary_pb2": "compat.proto.summary_pb2",
    "tensor_pb2": "compat.proto.tensor_pb2",
    "tensor_shape_pb2": "compat.proto.tensor_shape_pb2",
    "api_pb2": "plugins.hparams.api_pb2",
    "layout_pb2": "plugins.custom_scalar.layout_pb2",
    "plugin_data_pb2": "plugins.hparams.plugin_data_pb2",
    "projector_config_pb2": "plugins.projector.projector_config_pb2",
    "custom_scalar": "plugins.custom_scalar.metadata",
    "hparams": "plugins.hparams.metadata",
    "mesh": "plugins.mesh.metadata",
    "pr_curve": "plugins.pr_curve.metadata",
    "scalar": "plugins.scalar.metadata",
    "text": "plugins.text.metadata",
    "event_file_writer": "summary.writer.event_file_writer",
}


@functools.cache
def protos() -> SimpleNamespace:
    """The modules of `_MODULES`.  ImportError where tensorboard is not installed."""
    try:
        modules = {name: import_module(f"tensorboard.{path}") for name, path in _MODULES.items()}
    except ImportError as error:
        raise ImportError(
            f"tensorboard is not installed: pip install tensorboard, or {display.NAME} with the extra 'tensorboard'"
        ) from error
    return SimpleNamespace(**modules)


def as_array(x: Any) -> Any:
    """A NumPy array of a tensor, an array, a number or a list of numbers.  NotImplementedError for anything else.

    float16 and bfloat16 become float32.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> summary.as_array(flambeau.ones(2, dtype=flambeau.bfloat16, requires_grad=True))
    array([1., 1.], dtype=float32)
    >>> summary.as_array(0.5).shape
    ()
    """
    import numpy

    if isinstance(x, Tensor):
        x = x.detach().cpu()
        return (x.float() if x.dtype in (by_name["bfloat16"], by_name["float16"]) else x).numpy()
    if isinstance(x, (bool, int, float, complex, numpy.generic, numpy.ndarray, list, tuple)):
        array = numpy.asarray(x)
        if array.dtype.kind in "biufc":
            return array
    raise NotImplementedError(f"tensorboard: wanted a tensor, an array or a number, got {_what(x)}")


def _what(x: Any) -> str:
    return type(x).__name__ + (f" of {type(x[0]).__name__}" if isinstance(x, (list, tuple)) and x else "")


def _summary(tag: str, metadata: Any = None, **content: Any) -> Any:
    p = protos()
    value = p.summary_pb2.Summary.Value(tag=tag, metadata=metadata, **content)
    return p.summary_pb2.Summary(value=[value])


def _tensor_proto(array: Any, dtype: str) -> Any:
    """An array of numbers or of bytes as a message."""
    p = protos()
    dims = [p.tensor_shape_pb2.TensorShapeProto.Dim(size=n) for n in array.shape]
    shape = p.tensor_shape_pb2.TensorShapeProto(dim=dims)
    if dtype == "DT_STRING":
        return p.tensor_pb2.TensorProto(
            dtype=dtype, tensor_shape=shape, string_val=array.reshape(-1).tolist()
        )
    return p.tensor_pb2.TensorProto(dtype=dtype, tensor_shape=shape, tensor_content=array.tobytes())


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    """One number.  ValueError for a tensor or array of another number of elements than one.

    In float32, or float64 with `double_precision`; `new_style` writes it as a tensor.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> value = summary.scalar("loss", flambeau.tensor(0.5)).value[0]
    >>> value.tag, value.simple_value
    ('loss', 0.5)
    """
    array = as_array(value)
    if array.size != 1:
        raise ValueError(f"tensorboard: the scalar {tag!r} has shape {array.shape}, wanted one element")
    number = float(array.reshape(()))
    if not new_style and not double_precision:
        return _summary(tag, simple_value=number)
    import numpy

    dtype, kind = (numpy.float64, "DT_DOUBLE") if double_precision else (numpy.float32, "DT_FLOAT")
    metadata = protos().scalar.create_summary_metadata("", "")
    return _summary(tag, metadata, tensor=_tensor_proto(numpy.asarray(number, dtype), kind))


def tensor(tag: str, value: Any) -> Any:
    """All elements of a tensor of float32, float64, int32, int64, uint8 or bool.

    Raises ValueError for another dtype.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> value = summary.tensor("weight", flambeau.ones(2, 3)).value[0]
    >>> [dim.size for dim in value.tensor.tensor_shape.dim], len(value.tensor.tensor_content)
    ([2, 3], 24)
    """
    array = as_array(value)
    kinds = {"f4": "FLOAT", "f8": "DOUBLE", "i4": "INT32", "i8": "INT64", "u1": "UINT8", "b1": "BOOL"}
    kind = kinds.get(array.dtype.kind + str(array.dtype.itemsize))
    if kind is None:
        raise ValueError(
            f"tensorboard: the tensor {tag!r} is of {array.dtype}, which is not among {list(kinds)}"
        )
    return _summary(tag, protos().summary_pb2.SummaryMetadata(), tensor=_tensor_proto(array, f"DT_{kind}"))


@functools.cache
def _growing_limits() -> Any:
    """The limits of TensorBoard's own histograms: from 1e-12 on by a tenth, both ways from 0."""
    import numpy

    positive = 1e-12 * 1.1 ** numpy.arange(774)  # until 1e20
    return numpy.concatenate((-positive[::-1], [0.0], positive))


def histogram(tag: str, values: Any, bins: Any = "tensorflow", max_bins: int | None = None) -> Any:
    """How many values lie in each of `bins`: limits, their number, or NumPy's name of a rule; "tensorflow" are
    limits that grow by a tenth.  `max_bins` joins neighbours until there are at most so many.

    Values that are NaN or infinite are in no bin.  ValueError when there are no values.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> histo = summary.histogram("x", flambeau.tensor([0.1, 0.2, 0.9]), bins=[0.0, 0.5, 1.0]).value[0].histo
    >>> histo.bucket_limit, histo.bucket, histo.num
    ([0.0, 0.5, 1.0], [0.0, 2.0, 1.0], 3.0)
    """
    import numpy

    array = as_array(values).reshape(-1).astype(numpy.float64)
    if array.size == 0:
        raise ValueError(f"tensorboard: the histogram {tag!r} has no values")
    finite = array[numpy.isfinite(array)]
    counts, limits = numpy.histogram(finite, _growing_limits() if bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        width = math.ceil(len(counts) / max_bins)
        starts = numpy.arange(0, len(counts), width)
        counts, limits = numpy.add.reduceat(counts, starts), numpy.append(limits[starts], limits[-1])
    filled = numpy.flatnonzero(counts)
    first, last = (int(filled[0]), int(filled[-1]) + 1) if len(filled) else (0, len(counts))
    # A bucket reaches from the limit before it to its own: an empty one says where the first begins.
    return histogram_raw(
        tag,
        array.min(),
        array.max(),
        array.size,
        array.sum(),
        array.dot(array),
        limits[first : last + 1].tolist(),
        [0, *counts[first:last].tolist()],
    )


def histogram_raw(
    tag: str,
    min: Any,
    max: Any,
    num: Any,
    sum: Any,
    sum_squares: Any,
    bucket_limits: Sequence[float],
    bucket_counts: Sequence[float],
) -> Any:
    """A histogram of given counts; bucket k reaches from limit k - 1 to limit k.

    Raises ValueError for unequal lengths.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> histo = summary.histogram_raw("x", 0, 3, 4, 6, 14, [1, 2, 3], [1, 1, 2]).value[0].histo
    >>> list(zip(histo.bucket_limit, histo.bucket))
    [(1.0, 1.0), (2.0, 1.0), (3.0, 2.0)]
    """
    if len(bucket_limits) != len(bucket_counts):
        raise ValueError(
            f"tensorboard: the histogram {tag!r} has {len(bucket_limits)} limits and {len(bucket_counts)} counts, "
            "wanted as many"
        )
    numbers = {"min": min, "max": max, "num": num, "sum": sum, "sum_squares": sum_squares}
    histo = protos().summary_pb2.HistogramProto(
        **{name: float(x) for name, x in numbers.items()},
        bucket_limit=bucket_limits,
        bucket=bucket_counts,
    )
    return _summary(tag, histo=histo)


# --- pictures and sound -----------------------------------------------------------------------------


def to_pixels(image: Any, dataformats: str) -> Any:
    """A uint8 array (height, width, 3) of an image or, with an N in `dataformats`, of a grid of images.

    Floating-point values are in [0, 1], uint8 in [0, 255]; one channel is grey, four have transparency, and those of
    more than 8 images stand in several lines.

    Raises ValueError when the shape does not fit `dataformats`, for other channels, and without images.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> summary.to_pixels(flambeau.tensor([[0.0, 0.5, 1.0]]), "HW")[0, :, 0]
    array([  0, 127, 255], dtype=uint8)
    >>> summary.to_pixels(flambeau.zeros(10, 3, 4, 5), "NCHW").shape  # 8 images and 2 below
    (8, 40, 3)
    """
    import numpy

    array, letters = as_array(image), dataformats.upper()
    if sorted(letters) not in (sorted(x) for x in ("NCHW", "CHW", "HW", "NHW")) or array.ndim != len(letters):
        raise ValueError(
            f"tensorboard: an image of shape {array.shape} does not fit dataformats={dataformats!r}, which are orders of "
            "CHW, HW, NCHW or NHW"
        )
    if array.dtype != numpy.uint8:
        array = (array.astype(numpy.float32) * 255).clip(0, 255).astype(numpy.uint8)
    for letter in "NC":
        if letter not in letters:
            array, letters = array[..., None], letters + letter
    array = array.transpose([letters.index(x) for x in "NHWC"])
    if array.shape[-1] == 1:
        array = array.repeat(3, -1)
    n, height, width, channels = array.shape
    if channels not in (3, 4) or n == 0:
        raise ValueError(
            f"tensorboard: wanted 1, 3 or 4 channels and an image at least, got {channels} and {n}"
        )
    columns = min(n, 8)
    lines = -(-n // columns)
    grid = numpy.zeros((lines * columns, height, width, channels), numpy.uint8)
    grid[:n] = array
    grid = grid.reshape(lines, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
    return grid.reshape(lines * height, columns * width, channels)


def image(
    tag: str, pixels: Any, boxes: Any = None, labels: Sequence[str] | None = None, rescale: float = 1
) -> Any:
    """Pixels (height, width, channels) as PNG, with red frames `boxes` (n, 4): left, top, right, bottom.

    `labels` has one text a frame, and `rescale` is how much larger the picture gets.
    Raises ValueError for another number of labels.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> pixels = summary.to_pixels(flambeau.zeros(3, 20, 30), "CHW")
    >>> made = summary.image("x", pixels, boxes=[[2, 3, 10, 12]], labels=["cat"], rescale=2).value[0].image
    >>> made.height, made.width, made.encoded_image_string[1:4]
    (40, 60, b'PNG')
    """
    from PIL import Image, ImageDraw

    picture = Image.fromarray(pixels)
    if boxes is not None:
        corners = as_array(boxes).reshape(-1, 4)
        if labels is not None and len(labels) != len(corners):
            raise ValueError(f"tensorboard: {len(corners)} boxes of {tag!r} have {len(labels)} labels")
        draw = ImageDraw.Draw(picture)
        for i, (left, top, right, bottom) in enumerate(corners.tolist()):
            draw.rectangle((left, top, right, bottom), outline="red", width=2)
            if labels is not None:
                draw.text((left + 3, top + 2), labels[i], fill="red")
    if rescale != 1:
        picture = picture.resize(
            (max(1, int(picture.width * rescale)), max(1, int(picture.height * rescale)))
        )
    file = io.BytesIO()
    picture.save(file, "PNG")
    return _image(tag, picture.width, picture.height, len(picture.getbands()), file)


def video(tag: str, frames: Any, fps: float = 4) -> Any:
    """Frames (N, T, C, H, W), N videos side by side, as an animated GIF.

    C is 1, 3 or 4.  Raises ValueError for another number of dimensions or channels.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> made = summary.video("x", flambeau.rand(2, 5, 3, 8, 10), fps=10).value[0].image
    >>> made.height, made.width, made.encoded_image_string[:3]
    (8, 20, b'GIF')
    """
    from PIL import Image

    array = as_array(frames)
    if array.ndim != 5:
        raise ValueError(f"tensorboard: the video {tag!r} has shape {array.shape}, wanted (N, T, C, H, W)")
    pictures = [Image.fromarray(to_pixels(array[:, t], "NCHW")) for t in range(array.shape[1])]
    file = io.BytesIO()
    pictures[0].save(
        file, "GIF", save_all=True, append_images=pictures[1:], duration=round(1000 / fps), loop=0
    )
    return _image(tag, pictures[0].width, pictures[0].height, 3, file)


def _image(tag: str, width: int, height: int, channels: int, file: io.BytesIO) -> Any:
    encoded = protos().summary_pb2.Summary.Image(
        width=width, height=height, colorspace=channels, encoded_image_string=file.getvalue()
    )
    return _summary(tag, image=encoded)


def figure_pixels(figures: Any, close: bool) -> Any:
    """What matplotlib draws, (N, height, width, 4); all of one size.

    `figures` is one figure or a list; `close` closes them in pyplot.  Raises ValueError when sizes differ.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> from matplotlib.figure import Figure
    >>> figure = Figure(figsize=(2, 1), dpi=50)
    >>> axes = figure.subplots().plot([1, 2])
    >>> summary.figure_pixels(figure, close=False).shape
    (1, 50, 100, 4)
    """
    import numpy
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn = []
    for figure in figures if isinstance(figures, (list, tuple)) else [figures]:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        drawn.append(numpy.array(canvas.buffer_rgba()))
        if close and "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close(figure)
    return numpy.stack(drawn)


def audio(tag: str, sound: Any, sample_rate: int = 44100) -> Any:
    """Sound of one channel, (L,) or (1, L), in [-1, 1] (what is beyond is cut), as WAV of 16 bits.

    Raises ValueError for another shape.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> sound = flambeau.sin(flambeau.arange(8000) * 0.1)
    >>> made = summary.audio("tone", sound, sample_rate=8000).value[0].audio
    >>> made.length_frames, made.sample_rate, made.content_type
    (8000, 8000.0, 'audio/wav')
    """
    import wave

    import numpy

    array = as_array(sound)
    samples = array.reshape(-1)
    if len(samples) != max(array.shape, default=0):
        raise ValueError(f"tensorboard: the sound {tag!r} has shape {array.shape}, wanted (L,) or (1, L)")
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(sample_rate)
        wav.writeframes((samples.clip(-1, 1) * 32767).astype(numpy.dtype("<i2")).tobytes())
    encoded = protos().summary_pb2.Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=len(samples),
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return _summary(tag, audio=encoded)


# --- what plug-ins of TensorBoard's show ------------------------------------------------------------


def text(tag: str, string: str) -> Any:
    """Text, which is read as Markdown.

    TensorBoard finds it by the tag with `/text_summary` behind it.

    Raises:
        AttributeError: the text is no str

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> value = summary.text("notes", "lr is **0.1**").value[0]
    >>> value.tag, value.tensor.string_val[0]
    ('notes/text_summary', b'lr is **0.1**')
    """
    import numpy

    metadata = protos().text.create_summary_metadata("", "")
    array = numpy.array([string.encode()], dtype=object)
    return _summary(f"{tag}/text_summary", metadata, tensor=_tensor_proto(array, "DT_STRING"))


def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None) -> Any:
    """Precision and recall of `predictions` in [0, 1] for `labels` 0 and 1.

    Thresholds are k / (num_thresholds - 1), at most 127 of them.
    `weights` says how much each prediction counts, by default 1.
    Raises ValueError when the lengths differ or a prediction lies outside of [0, 1].

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> labels, predictions = flambeau.tensor([0, 1, 1]), flambeau.tensor([0.1, 0.4, 0.9])
    >>> made = summary.pr_curve("pr", labels, predictions, num_thresholds=3).value[0].tensor
    >>> [dim.size for dim in made.tensor_shape.dim]  # counts of four kinds, precision and recall
    [6, 3]
    """
    import numpy

    n = min(num_thresholds, 127)
    truth, chances = as_array(labels).reshape(-1).astype(float), as_array(predictions).reshape(-1)
    if len(truth) != len(chances):
        raise ValueError(f"tensorboard: {len(truth)} labels and {len(chances)} predictions of {tag!r}")
    if len(chances) and not (chances.min() >= 0 and chances.max() <= 1):
        raise ValueError(f"tensorboard: predictions of {tag!r} lie outside of [0, 1]")
    weight = numpy.ones(len(truth)) if weights is None else as_array(weights).reshape(-1).astype(float)
    bucket = (chances * (n - 1)).astype(int)
    right = numpy.bincount(bucket, truth * weight, n)[::-1].cumsum()[::-1]  # at or above each threshold
    wrong = numpy.bincount(bucket, (1 - truth) * weight, n)[::-1].cumsum()[::-1]
    missed, refused = right[0] - right, wrong[0] - wrong
    precision = right / numpy.maximum(right + wrong, 1e-7)
    recall = right / numpy.maximum(right + missed, 1e-7)
    return pr_curve_raw(tag, right, wrong, refused, missed, precision, recall, n)


def pr_curve_raw(
    tag: str,
    true_positive: Any,
    false_positive: Any,
    true_negative: Any,
    false_negative: Any,
    precision: Any,
    recall: Any,
    num_thresholds: int = 127,
) -> Any:
    """A curve of given counts and rates, one a threshold.

    Raises ValueError when they are not `num_thresholds` each.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> counts = [2, 1], [2, 0], [0, 2], [0, 1]
    >>> made = summary.pr_curve_raw("pr", *counts, [0.5, 1.0], [1.0, 0.5], num_thresholds=2)
    >>> [dim.size for dim in made.value[0].tensor.tensor_shape.dim]
    [6, 2]
    """
    import numpy

    rows = (true_positive, false_positive, true_negative, false_negative, precision, recall)
    data = numpy.stack([as_array(row).astype(numpy.float32) for row in rows])
    if data.shape != (6, num_thresholds):
        raise ValueError(
            f"tensorboard: the curve {tag!r} has shape {data.shape}, wanted (6, {num_thresholds})"
        )
    metadata = protos().pr_curve.create_summary_metadata("", "", num_thresholds)
    return _summary(tag, metadata, tensor=_tensor_proto(data, "DT_FLOAT"))


def mesh(tag: str, vertices: Any, colors: Any, faces: Any, config: Any) -> Any:
    """Points (B, N, 3), their colours (B, N, 3) in [0, 255], and triangles of them (B, F, 3).

    `colors`, `faces` and `config`, a dict for the viewer, may be None.  Raises ValueError for other shapes.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> corners, triangle = flambeau.eye(3)[None], flambeau.tensor([[[0, 1, 2]]])
    >>> [value.tag for value in summary.mesh("m", corners, None, triangle, None).value]
    ['m_VERTEX', 'm_FACE']
    """
    import numpy

    p = protos()
    kinds = p.mesh.plugin_data_pb2.MeshPluginData
    parts = {kinds.VERTEX: vertices, kinds.FACE: faces, kinds.COLOR: colors}
    arrays = {kind: as_array(part) for kind, part in parts.items() if part is not None}
    for array in arrays.values():
        if array.ndim != 3 or array.shape[2] != 3:
            raise ValueError(
                f"tensorboard: the mesh {tag!r} has a part of shape {array.shape}, wanted (B, N, 3)"
            )
    components = p.mesh.get_components_bitmask(list(arrays))
    values = []
    for kind, array in arrays.items():
        name = p.mesh.get_instance_name(tag, kind)
        metadata = p.mesh.create_summary_metadata(
            tag, "", kind, components, list(array.shape), "", json_config=json.dumps(config or {})
        )
        content = _tensor_proto(array.astype(numpy.float32), "DT_FLOAT")
        values.append(p.summary_pb2.Summary.Value(tag=name, metadata=metadata, tensor=content))
    return p.summary_pb2.Summary(value=values)


def custom_scalars(layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> Any:
    """Charts that hold several scalars: `{category: {title: ["Multiline", tags]}}`.

    A chart with margins is `["Margin", [value, lower, upper]]`.
    Raises ValueError for charts of another kind, and for margins without 3 tags.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> layout = {"losses": {"both": ["Multiline", ["train", "test"]]}}
    >>> summary.custom_scalars(layout).value[0].tag
    'custom_scalars__config__'
    """
    import numpy

    p = protos()
    categories = []
    for category, charts in layout.items():
        made = []
        for title, (kind, tags) in charts.items():
            if kind == "Multiline":
                content = {"multiline": p.layout_pb2.MultilineChartContent(tag=list(tags))}
            elif kind == "Margin" and len(tags) == 3:
                series = p.layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
                content = {"margin": p.layout_pb2.MarginChartContent(series=[series])}
            else:
                raise ValueError(
                    f"tensorboard: the chart {title!r} is {kind!r} with {len(tags)} tags, wanted 'Multiline', or 'Margin' "
                    "with 3 tags"
                )
            made.append(p.layout_pb2.Chart(title=title, **content))
        categories.append(p.layout_pb2.Category(title=category, chart=made))
    data = p.layout_pb2.Layout(category=categories).SerializeToString()
    metadata = p.custom_scalar.create_summary_metadata()
    tag = p.custom_scalar.CONFIG_SUMMARY_TAG
    return _summary(tag, metadata, tensor=_tensor_proto(numpy.array(data, dtype=object), "DT_STRING"))


def hparams(
    values: Mapping[str, Any], metrics: Mapping[str, Any], domains: Mapping[str, Sequence[Any]] | None = None
) -> list[Any]:
    """An experiment, the start of a session with the hyperparameters `values`, and its end: three summaries.

    Values are bool, str, numbers or None; `domains` lists what a value may be.  Raises ValueError for others.

    >>> import flambeau
    >>> from flambeau.utils.tensorboard import summary
    >>> [part.value[0].tag for part in summary.hparams({"lr": 0.1, "name": "a"}, {"loss": 0.5})]
    ['_hparams_/experiment', '_hparams_/session_start_info', '_hparams_/session_end_info']
    """
    p = protos()
    converted = {name: _hparam(name, value) for name, value in values.items()}
    kinds = {bool: "DATA_TYPE_BOOL", str: "DATA_TYPE_STRING", float: "DATA_TYPE_FLOAT64"}
    infos = []
    for name, value in converted.items():
        info = p.api_pb2.HParamInfo(name=name, type=kinds.get(type(value), "DATA_TYPE_UNSET"))
        if domains and name in domains:
            info.domain_discrete.extend(list(domains[name]))
        infos.append(info)
    metric_infos = [p.api_pb2.MetricInfo(name=p.api_pb2.MetricName(tag=name)) for name in metrics]
    start = p.plugin_data_pb2.SessionStartInfo()
    for name, value in converted.items():
        kind = {bool: "bool_value", str: "string_value", float: "number_value"}.get(type(value))
        if kind is not None:
            setattr(start.hparams[name], kind, value)
    parts = {
        p.hparams.EXPERIMENT_TAG: {
            "experiment": p.api_pb2.Experiment(hparam_infos=infos, metric_infos=metric_infos)
        },
        p.hparams.SESSION_START_INFO_TAG: {"session_start_info": start},
        p.hparams.SESSION_END_INFO_TAG: {
            "session_end_info": p.plugin_data_pb2.SessionEndInfo(
                status=p.api_pb2.Status.Value("STATUS_SUCCESS")
            )
        },
    }
    return [
        _summary(
            tag,
            p.hparams.create_summary_metadata(
                p.plugin_data_pb2.HParamsPluginData(version=p.hparams.PLUGIN_DATA_VERSION, **content)
            ),
            tensor=p.hparams.NULL_TENSOR,
        )
        for tag, content in parts.items()
    ]


def _hparam(name: str, value: Any) -> bool | str | float | None:
    if value is None or isinstance(value, (bool, str)):
        return value
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"tensorboard: the hyperparameter {name!r} must be a bool, a str, a number or None, got {type(value).__name__}"
        ) from error


__getattr__ = refusing("utils.tensorboard.summary")
