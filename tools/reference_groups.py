"""On which page of the reference a name stands: by the family that declares an operation, or the module that defines the rest.

A family is a file of `flambeau/operations`, with `:kind` where the kinds in a file belong to different groups.  A family that is
missing here is an error of `tools/reference.py`, and so of the tests.
"""

from __future__ import annotations

from typing import NamedTuple


class Page(NamedTuple):
    """A page: its file, the public module whose index lists it, its title, and where its names are declared."""

    file: str
    module: str
    title: str
    families: str


# --- operations, by family ------------------------------
OPERATIONS = [
    Page("flambeau.creation", "", "Creation", "moving.creation"),
    Page("flambeau.views", "", "Indexing, slicing, joining: views", "moving.viewing:view"),
    Page(
        "flambeau.indexing",
        "",
        "Indexing, slicing, joining, mutating",
        "moving.viewing:indexing moving.viewing:composite moving.viewing:question moving.indexing moving.joining moving.searching:indexing "
        "moving.padding",
    ),
    Page("flambeau.view_copies", "", "Copies of views", "moving.view_copies"),
    Page("flambeau.random", "", "Random sampling", "random.random random.sampled"),
    Page("flambeau.arithmetic", "", "Pointwise: arithmetic, rounding, bits and logic", "pointwise.arithmetic"),
    Page(
        "flambeau.elementary",
        "",
        "Pointwise: elementary and special functions",
        "pointwise.elementary pointwise.cpu_fallback pointwise.special pointwise.integers pointwise.composites pointwise.complex_numbers",
    ),
    Page("flambeau.casts", "", "Casts, copies and moves to devices", "pointwise.copying"),
    Page(
        "flambeau.reduction",
        "",
        "Reduction",
        "rows.reductions rows.moments rows.norms rows.segments rows.softmax rows.masked",
    ),
    Page("flambeau.comparison", "", "Comparison and sorting", "pointwise.arithmetic:test moving.sorting"),
    Page("flambeau.spectral", "", "Spectral", "signal.spectral signal.windows"),
    Page(
        "flambeau.other",
        "",
        "Other operations",
        "moving.shaping moving.searching rows.scans rows.histograms linalg.distances",
    ),
    Page(
        "flambeau.blas",
        "",
        "BLAS and LAPACK",
        "linalg.products linalg.einsum linalg.matrices linalg.decompositions linalg.determinants linalg.exponential linalg.lapack "
        "linalg.lobpcg linalg.reflections",
    ),
    Page("flambeau.properties", "", "Tensors and what they are", "moving.questions"),
    Page("nn.functional.convolution", "nn.functional", "Convolution", "neural.convolution.convolution neural.convolution.unfolding"),
    Page(
        "nn.functional.pooling",
        "nn.functional",
        "Pooling",
        "neural.pooling.pooling neural.pooling.fractional_pooling neural.pooling.unpooling",
    ),
    Page("nn.functional.attention", "nn.functional", "Attention", "neural.attention.attention"),
    Page("nn.functional.activations", "nn.functional", "Non-linear activations", "neural.activations"),
    Page("nn.functional.normalization", "nn.functional", "Normalization", "neural.normalization.normalization"),
    Page("nn.functional.linear", "nn.functional", "Linear functions", "linalg.scaled"),
    Page("nn.functional.dropout", "nn.functional", "Dropout", "random.dropout"),
    Page("nn.functional.sparse", "nn.functional", "Embeddings", "neural.embedding.embedding neural.embedding.bags"),
    Page(
        "nn.functional.loss",
        "nn.functional",
        "Losses and distances",
        "neural.losses.losses neural.losses.linear_losses neural.losses.ctc",
    ),
    Page("nn.functional.vision", "nn.functional", "Vision", "neural.resampling.resizing moving.pixels"),
    Page(
        "flambeau.flat",
        "",
        "Layers as functions of the flat namespace",
        "neural.flat neural.recurrent.recurrent_flat neural.quantizing",
    ),
]  # fmt: skip
# What of a family is public in `nn.functional`, and belongs to other groups there.
FUNCTIONAL = {
    "linalg.products": "nn.functional.linear",
    "linalg.einsum": "nn.functional.linear",
    "linalg.distances": "nn.functional.loss",
    "rows.norms": "nn.functional.normalization",
    "rows.softmax": "nn.functional.activations",
    "pointwise.elementary": "nn.functional.activations",
    "moving.padding": "nn.functional.vision",
}
# Modules whose operations stand on pages of their own, whatever the family.
OWN = ("fft", "linalg", "masked", "signal.windows", "special")

# --- classes and functions, by the module that defines them ------------------------------
OTHERS = [
    Page("flambeau.properties", "", "", "_compat.queries core.base.typeinfo core.base.dtypes core.call.operands _compat.printing"),
    Page("flambeau.other", "", "", "core.views.views func._vmap"),
    Page("flambeau.random", "", "", "random"),
    Page("flambeau.serialization", "", "Serialization", "_files _files.records serialization"),
    Page("flambeau.parallelism", "", "Parallelism", "core.base.parallel"),
    Page(
        "flambeau.gradients",
        "",
        "Gradients switched on and off",
        "autograd.grad_mode core.tape.contexts core.tape.modes core.base.memory",
    ),
    Page(
        "flambeau.utilities",
        "",
        "Utilities and settings",
        "_compat.switches _compat.as_torch _compat.tags accelerator core.base.device core.base.once devices.streams "
        "compiler graph.lazy _higher_order_ops.cond futures jit jit._modules "
        "core.base.formats operations.neural.quantizing",
    ),
    Page("flambeau.symbolic", "", "Symbolic numbers", "_symbols.numbers"),
    Page("flambeau.absent", "", "Classes without instances", "_compat.absent"),
    Page("flambeau.storage", "", "Storages and tensors by type", "storage _compat.typed"),
    Page("sparse", "sparse", "flambeau.sparse", "sparse"),
    Page("fx", "fx", "flambeau.fx", "fx"),
    Page("amp", "amp", "flambeau.amp", "amp._state amp.autocast_mode amp.grad_scaler"),
    Page("nn.module", "nn", "Module and Parameter", "nn.modules.module nn.parameter"),
    Page("nn.containers", "nn", "Containers", "nn.modules.container"),
    Page("nn.convolution", "nn", "Convolution layers", "nn.modules.conv nn.modules.fold"),
    Page("nn.pooling", "nn", "Pooling layers", "nn.modules.pooling"),
    Page("nn.padding", "nn", "Padding layers", "nn.modules.padding"),
    Page("nn.activations", "nn", "Non-linear activations", "nn.modules.activation nn.modules.attention nn.modules.adaptive"),
    Page("nn.normalization", "nn", "Normalization layers", "nn.modules.normalization nn.modules.batchnorm nn.modules.instancenorm"),
    Page("nn.recurrent", "nn", "Recurrent layers", "nn.modules.rnn"),
    Page("nn.transformer", "nn", "Transformer layers", "nn.modules.transformer"),
    Page("nn.linear", "nn", "Linear layers", "nn.modules.linear"),
    Page("nn.dropout", "nn", "Dropout layers", "nn.modules.dropout"),
    Page("nn.sparse", "nn", "Embeddings", "nn.modules.sparse"),
    Page("nn.distance", "nn", "Distances", "nn.modules.distance"),
    Page("nn.loss", "nn", "Losses", "nn.modules.loss nn.modules.linear_cross_entropy"),
    Page("nn.vision", "nn", "Vision and shuffle layers", "nn.modules.pixelshuffle nn.modules.upsampling"),
    Page("nn.flatten", "nn", "Flatten", "nn.modules.flatten"),
    Page("nn.lazy", "nn", "Lazy layers", "nn.modules.lazy"),
    Page("nn.data_parallel", "nn", "Data parallel layers", "nn.parallel.data_parallel"),
    Page("distributions.transforms", "distributions", "Transforms", "distributions.transforms distributions.constraint_registry"),
    Page("distributions.kl", "distributions", "Kullback-Leibler divergences", "distributions.kl"),
]  # fmt: skip
