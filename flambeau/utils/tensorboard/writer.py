"""SummaryWriter: event files, which TensorBoard reads while they grow."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..._compat import absent
from . import summary

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Events into one new file of a folder, written in the background.

    `max_queue` events wait at most, and `flush_secs` seconds; `filename_suffix` ends the file's name.
    Raises ImportError without tensorboard.

    >>> import os, tempfile
    >>> from flambeau.utils.tensorboard import FileWriter, summary
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = FileWriter(folder, filename_suffix=".mine")
    ...     writer.add_summary(summary.scalar("loss", 0.5), 1)
    ...     writer.close()
    ...     print([os.path.splitext(name)[1] for name in os.listdir(folder)])
    ['.mine']
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        self._protos = summary.protos()
        self.event_writer = self._protos.event_file_writer.EventFileWriter(
            os.fspath(log_dir), max_queue, flush_secs, filename_suffix
        )

    def get_logdir(self) -> str:
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Writes an `Event` message, with `step` and the time in seconds since 1970, by default now."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Writes a `Summary` message."""
        self.add_event(self._protos.event_pb2.Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Returns when everything is in the file."""
        self.event_writer.flush()

    def close(self) -> None:
        """Flushes and closes the file."""
        self.event_writer.close()


class SummaryWriter:
    """Writes what TensorBoard shows into `log_dir`, by default `runs/<date and time>_<host><comment>`.

    `global_step` in each method is the place on the time axis, `walltime` the time in seconds since 1970, by default
    now.  With `purge_step` everything that earlier files of the folder hold from this step on is not shown: it is for a
    run that goes on from a checkpoint.  `max_queue`, `flush_secs` and `filename_suffix` are as `FileWriter`'s.
    Tensors may be on any device, and require gradients; arrays and numbers do as well.

    After `close()` the next thing added opens another file.  Graphs of models are not there: `add_graph` says so.
    Raises ImportError without tensorboard, which the extra `tensorboard` installs.

    >>> import tempfile
    >>> from flambeau.utils.tensorboard import SummaryWriter
    >>> folder = tempfile.TemporaryDirectory()
    >>> with SummaryWriter(folder.name) as writer:
    ...     for step in range(3):
    ...         writer.add_scalar("loss", 1 / (step + 1), step)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            import socket

            now = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step = purge_step
        self._options = (max_queue, flush_secs, filename_suffix)
        self._writers: dict[str, FileWriter] = {}
        self._embeddings: Any = None
        self._writer()

    def _writer(self, log_dir: str | None = None) -> FileWriter:
        """The writer of a folder, by default the run's, opened where it is not."""
        folder = self.log_dir if log_dir is None else log_dir
        if folder not in self._writers:
            self._writers[folder] = writer = FileWriter(folder, *self._options)
            if self.purge_step is not None:
                p = summary.protos()
                start = p.event_pb2.SessionLog(status=p.event_pb2.SessionLog.START)
                writer.add_event(p.event_pb2.Event(session_log=start), self.purge_step)
        return self._writers[folder]

    def _get_file_writer(self) -> FileWriter:
        """The writer of the folder itself, to which loggers of other libraries write events of their own."""
        return self._writer()

    def _add(self, made: Any, step: int | None, walltime: float | None) -> None:
        self._writer().add_summary(made, step, walltime)

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number, in float32, or float64 with `double_precision`; `new_style` writes it as a tensor.

        Raises ValueError when it has not one element.
        """
        self._add(summary.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Several curves of one chart: each is a run of its own, in the folder `<log_dir>/<main_tag>_<tag>`."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            self._writer(folder).add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """All elements of a tensor.  ValueError for a dtype that event files do not have."""
        self._add(summary.tensor(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How many values lie in each of `bins`: limits, their number, or a rule of `numpy.histogram_bin_edges`, by default
        limits that grow by a tenth.  What is not finite lies in none.  ValueError when there are no values.
        """
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[float],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A histogram of given counts, of which number k reaches from limit k - 1 to limit k."""
        made = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(made, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """An image of 1, 3 or 4 channels, floating-point in [0, 1] or uint8; `dataformats` names its dimensions in order,
        height, width, channels and, for a grid of images, N.  ValueError where they do not fit.
        """
        self._add(summary.image(tag, summary.to_pixels(img_tensor, dataformats)), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """A grid of images, 8 in a line."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Sequence[str] | str | None = None,
    ) -> None:
        """An image with red frames (n, 4): left, top, right and bottom in pixels, and a label each."""
        pixels = summary.to_pixels(img_tensor, dataformats)
        labels = [labels] if isinstance(labels, str) else labels
        self._add(summary.image(tag, pixels, box_tensor, labels, rescale), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib's, or a list of figures of one size, drawn; `close` closes them in pyplot."""
        pixels = summary.figure_pixels(figure, close)
        self.add_image(tag, pixels, global_step, walltime, "NHWC")

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Videos (N, T, C, H, W) beside each other, `fps` frames a second, as a GIF."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Sound of one channel, (L,) or (1, L), in [-1, 1]; what is beyond is cut."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Text in Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Vectors (N, D) for the projector, with a label (or, with a header, several) and an image (N, C, H, W) each.

        Raises ValueError when the numbers differ.
        """
        from ._embedding import write_embedding

        self._embeddings = write_embedding(
            self._embeddings, self.log_dir, mat, metadata, label_img, global_step or 0, tag, metadata_header
        )

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision over recall, of predictions in [0, 1] for labels 0 and 1, at thresholds evenly between 0 and 1."""
        made = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """A curve of given counts and rates, one each a threshold.  `weights` is not used, as the counts hold them."""
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        made = summary.pr_curve_raw(tag, *counts, precision, recall, num_thresholds)
        self._add(made, global_step, walltime)

    def add_graph(self, model: Any, input_to_model: Any = None, **options: Any) -> None:
        """NotImplementedError: there are no graphs of models yet."""
        raise NotImplementedError(
            f"SummaryWriter.add_graph is not here: there are no graphs of models yet ({absent.PAGE})"
        )

    def add_onnx_graph(self, prototxt: Any) -> None:
        """NotImplementedError: there are no graphs of models yet."""
        raise NotImplementedError(absent.message("onnx.export", "SummaryWriter.add_onnx_graph"))

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Charts of several scalars, `{category: {title: ["Multiline", tags]}}`, or with margins
        `["Margin", [value, lower, upper]]`.  The last layout given is the one shown.
        """
        self._add(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart with several curves."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of a curve between two others: `tags` are value, lower and upper."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Points (B, N, 3), with colours (B, N, 3) in [0, 255], and triangles of their numbers (B, F, 3); `config_dict` is for
        the viewer.
        """
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Hyperparameters (bool, str, number or None) and what came of them, to compare runs: a run of its own in the folder
        `<log_dir>/<run_name>`, by default the time.
        """
        if not isinstance(hparam_dict, Mapping) or not isinstance(metric_dict, Mapping):
            raise TypeError("SummaryWriter.add_hparams: hparam_dict and metric_dict must be dicts")
        made = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        made += [summary.scalar(tag, value) for tag, value in metric_dict.items()]
        writer = FileWriter(os.path.join(self.log_dir, run_name or str(time.time())), *self._options)
        for part in made:
            writer.add_summary(part, global_step)
        writer.close()

    def flush(self) -> None:
        """Returns when everything is in the files."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Flushes and closes the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}
        self.purge_step = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
