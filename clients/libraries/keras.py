"""Keras 3 on its torch backend: layers of all kinds, models of all three styles trained, losses, metrics, optimisers, operations, files."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import tempfile
import warnings

import keras
import numpy as np
import torch
from harness import Client, integers, normal
from keras import layers, ops

client = Client("keras", samples=6)
warnings.filterwarnings("ignore")
keras.utils.disable_interactive_logging()


def given(model, seed=0):
    """Weights from NumPy, the same in both libraries."""
    for i, variable in enumerate(model.variables):
        if "seed" in variable.path or variable.dtype.startswith(("int", "uint")):
            continue
        stream = np.random.default_rng([seed, i])
        numbers = stream.standard_normal(tuple(variable.shape)) / max(
            1.0, np.sqrt(variable.shape[0] if variable.shape else 1)
        )
        variable.assign(np.abs(numbers) + 0.5 if "variance" in variable.path else 0.5 * numbers)
    return model


IMAGE, SEQUENCE, VECTOR, VOLUME = (2, 8, 8, 3), (2, 6, 4), (3, 5), (2, 4, 4, 4, 2)
LAYERS = {
    "Dense": (lambda: layers.Dense(4, "gelu"), VECTOR),
    "EinsumDense": (lambda: layers.EinsumDense("abc,cd->abd", (None, 5), bias_axes="d"), SEQUENCE),
    "Conv1D": (lambda: layers.Conv1D(5, 3, padding="causal", dilation_rate=2), SEQUENCE),
    "Conv2D": (lambda: layers.Conv2D(4, 3, strides=2, padding="same", activation="relu"), IMAGE),
    "Conv2D of groups": (lambda: layers.Conv2D(6, 3, groups=3), IMAGE),
    "Conv3D": (lambda: layers.Conv3D(3, 2, padding="same"), VOLUME),
    "Conv1DTranspose": (lambda: layers.Conv1DTranspose(3, 3, strides=2, padding="same"), SEQUENCE),
    "Conv2DTranspose": (lambda: layers.Conv2DTranspose(3, 3, strides=2, padding="valid"), IMAGE),
    "Conv3DTranspose": (lambda: layers.Conv3DTranspose(2, 2, strides=2), VOLUME),
    "DepthwiseConv1D": (lambda: layers.DepthwiseConv1D(3, depth_multiplier=2), SEQUENCE),
    "DepthwiseConv2D": (lambda: layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same"), IMAGE),
    "SeparableConv1D": (lambda: layers.SeparableConv1D(5, 3), SEQUENCE),
    "SeparableConv2D": (lambda: layers.SeparableConv2D(5, 3, strides=2), IMAGE),
    "MaxPooling1D": (lambda: layers.MaxPooling1D(2, padding="same"), SEQUENCE),
    "MaxPooling2D": (lambda: layers.MaxPooling2D(3, 2, padding="same"), IMAGE),
    "MaxPooling3D": (lambda: layers.MaxPooling3D(2), VOLUME),
    "AveragePooling1D": (lambda: layers.AveragePooling1D(3, 1, padding="same"), SEQUENCE),
    "AveragePooling2D": (lambda: layers.AveragePooling2D(3, 2, padding="same"), IMAGE),
    "AveragePooling3D": (lambda: layers.AveragePooling3D(2), VOLUME),
    "GlobalMaxPooling2D": (lambda: layers.GlobalMaxPooling2D(), IMAGE),
    "GlobalAveragePooling1D": (lambda: layers.GlobalAveragePooling1D(), SEQUENCE),
    "AdaptiveAveragePooling2D": (lambda: layers.AdaptiveAveragePooling2D(3), IMAGE),
    "AdaptiveMaxPooling2D": (lambda: layers.AdaptiveMaxPooling2D(3), IMAGE),
    "BatchNormalization": (lambda: layers.BatchNormalization(), IMAGE),
    "LayerNormalization": (lambda: layers.LayerNormalization(), SEQUENCE),
    "RMSNormalization": (lambda: layers.RMSNormalization(), SEQUENCE),
    "GroupNormalization": (lambda: layers.GroupNormalization(3), IMAGE),
    "UnitNormalization": (lambda: layers.UnitNormalization(), SEQUENCE),
    "SpectralNormalization": (lambda: layers.SpectralNormalization(layers.Dense(4)), VECTOR),
    "LSTM": (lambda: layers.LSTM(5, return_sequences=True), SEQUENCE),
    "LSTM backwards": (lambda: layers.LSTM(5, go_backwards=True, unroll=True), SEQUENCE),
    "GRU": (lambda: layers.GRU(5, return_sequences=True, reset_after=False), SEQUENCE),
    "GRU reset after": (lambda: layers.GRU(5), SEQUENCE),
    "SimpleRNN": (lambda: layers.SimpleRNN(5), SEQUENCE),
    "Bidirectional": (lambda: layers.Bidirectional(layers.LSTM(3, return_sequences=True)), SEQUENCE),
    "ConvLSTM1D": (lambda: layers.ConvLSTM1D(3, 2), (2, 4, 6, 2)),
    "ConvLSTM2D": (lambda: layers.ConvLSTM2D(3, 2), (2, 3, 5, 5, 2)),
    "RNN of cells": (lambda: layers.RNN([layers.GRUCell(4), layers.LSTMCell(3)]), SEQUENCE),
    "TimeDistributed": (lambda: layers.TimeDistributed(layers.Dense(3)), SEQUENCE),
    "Attention": (lambda: Twice(layers.Attention(use_scale=True)), SEQUENCE),
    "AdditiveAttention": (lambda: Twice(layers.AdditiveAttention()), SEQUENCE),
    "MultiHeadAttention": (lambda: Twice(layers.MultiHeadAttention(2, 3)), SEQUENCE),
    "MultiHeadAttention causal": (
        lambda: Twice(layers.MultiHeadAttention(2, 3, output_shape=5), use_causal_mask=True),
        SEQUENCE,
    ),
    "GroupQueryAttention": (lambda: Twice(layers.GroupQueryAttention(4, 4, 2)), SEQUENCE),
    "PReLU": (lambda: layers.PReLU(), SEQUENCE),
    "LeakyReLU": (lambda: layers.LeakyReLU(0.2), VECTOR),
    "ELU": (lambda: layers.ELU(0.7), VECTOR),
    "Softmax": (lambda: layers.Softmax(), VECTOR),
    "ReLU": (lambda: layers.ReLU(1.0, 0.1, 0.2), VECTOR),
    "Flatten": (lambda: layers.Flatten(), IMAGE),
    "Reshape": (lambda: layers.Reshape((-1, 6)), IMAGE),
    "Permute": (lambda: layers.Permute((2, 1)), SEQUENCE),
    "RepeatVector": (lambda: layers.RepeatVector(3), VECTOR),
    "Cropping2D": (lambda: layers.Cropping2D(((1, 2), (0, 3))), IMAGE),
    "ZeroPadding2D": (lambda: layers.ZeroPadding2D(((1, 2), (0, 3))), IMAGE),
    "UpSampling2D": (lambda: layers.UpSampling2D(2, interpolation="bilinear"), IMAGE),
    "UpSampling2D nearest": (lambda: layers.UpSampling2D((2, 3)), IMAGE),
    "UpSampling3D": (lambda: layers.UpSampling3D(2), VOLUME),
    "Rescaling": (lambda: layers.Rescaling(0.5, 1.0), IMAGE),
    "Resizing": (lambda: layers.Resizing(5, 6), IMAGE),
    "CenterCrop": (lambda: layers.CenterCrop(4, 5), IMAGE),
    "Normalization": (lambda: layers.Normalization(mean=[0.1, 0.2, 0.3], variance=[1.0, 2.0, 0.5]), IMAGE),
    "ActivityRegularization": (lambda: layers.ActivityRegularization(0.1, 0.2), VECTOR),
    "Masking": (lambda: layers.Masking(), SEQUENCE),
    "Lambda": (lambda: layers.Lambda(lambda x: ops.sin(x) * 2), VECTOR),
}


class Twice(layers.Layer):
    """Attention of a sequence to itself."""

    def __init__(self, inner, **options):
        super().__init__()
        self.inner, self.options = inner, options

    def call(self, x):
        if type(self.inner) in (layers.Attention, layers.AdditiveAttention):
            return self.inner([x, x * 0.5], **self.options)
        return self.inner(x, x * 0.5, **self.options)


def layer(name):
    """A layer in evaluation and in training, gradients to input and weights, and the layer made again from its configuration."""
    make, shape = LAYERS[name]

    def run():
        made = make()
        x = normal(*shape).requires_grad_()
        made(x)
        given(made)
        plain = made(x, training=False) if "training" in made._call_signature.parameters else made(x)
        trained = made(x, training=True) if "training" in made._call_signature.parameters else plain
        (trained * normal(*trained.shape, seed=3)).sum().backward()
        weights = [w.value.grad for w in made.trainable_variables]
        answer = [
            plain,
            trained,
            x.grad,
            weights,
            [tuple(w.shape) for w in made.weights],
            made.count_params(),
        ]
        if not isinstance(made, (Twice, layers.Lambda)):
            again = type(made).from_config(made.get_config())
            again.build(shape)
            answer.append([tuple(w.shape) for w in again.weights])
        return answer

    return run


for name in LAYERS:
    client.case(layer(name), name=f"layer {name}")


@client.case
def joined():
    """Layers of two inputs, embeddings, category encodings and discretisations."""
    a, b = normal(2, 3, 4), normal(2, 3, 4, seed=1)
    answers = [
        kind()([a, b])
        for kind in (
            layers.Add,
            layers.Subtract,
            layers.Multiply,
            layers.Average,
            layers.Maximum,
            layers.Minimum,
            layers.Concatenate,
        )
    ]
    answers.append(layers.Dot(-1, normalize=True)([a, b]))
    embedding = layers.Embedding(10, 4, mask_zero=True)
    embedding.build()
    given(embedding)
    answers += [embedding(integers(10, 2, 5)), embedding.compute_mask(integers(10, 2, 5))]
    answers.append(layers.CategoryEncoding(6, output_mode="multi_hot")(integers(6, 2, 3)))
    answers.append(layers.Discretization([-0.5, 0.0, 0.7])(a))
    return answers


def convolutional():
    return keras.Sequential(
        [
            layers.Input((12, 12, 1)),
            layers.Conv2D(6, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(4, activation="softmax"),
        ]
    )


def residual():
    inputs = layers.Input((6, 4))
    x = layers.LSTM(8, return_sequences=True)(inputs)
    x = layers.Add()([x, layers.Dense(8)(inputs)])
    x = layers.LayerNormalization()(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(
        inputs, {"classes": layers.Dense(3, name="classes")(x), "number": layers.Dense(1, name="number")(x)}
    )


@client.case
def sequential_model():
    """Trained, evaluated and asked, with callbacks; then written in both formats and read."""
    model = given(convolutional())
    model.compile(
        "adam",
        "sparse_categorical_crossentropy",
        metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2)],
    )
    x, y = normal(24, 12, 12, 1).numpy(), integers(4, 24).numpy()
    stop = keras.callbacks.EarlyStopping(patience=1, restore_best_weights=True)
    slow = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9)
    history = model.fit(
        x, y, batch_size=8, epochs=4, shuffle=False, validation_split=0.25, callbacks=[stop, slow], verbose=0
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder + "/model.keras")
        model.save_weights(folder + "/model.weights.h5")
        again = keras.models.load_model(folder + "/model.keras")
        weighed = convolutional()
        weighed.load_weights(folder + "/model.weights.h5")
        onward = again.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0).history
    return [
        history.history,
        model.evaluate(x, y, verbose=0),
        model.predict(x[:3], verbose=0),
        weighed.predict(x[:3], verbose=0),
        onward,
        model.train_on_batch(x[:8], y[:8]),
        model.test_on_batch(x[:8], y[:8]),
        model.count_params(),
        model.to_json()[:60],
    ]


@client.case
def functional_model():
    """Two outputs with losses of their own, weights of samples and classes, and gradients clipped."""
    model = given(residual())
    model.compile(
        keras.optimizers.AdamW(
            keras.optimizers.schedules.CosineDecay(0.01, 20), weight_decay=0.01, clipnorm=1.0
        ),
        loss={"classes": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "number": "mse"},
        loss_weights={"classes": 1.0, "number": 0.5},
        metrics={"classes": ["accuracy"], "number": ["mae"]},
    )
    x = normal(20, 6, 4).numpy()
    y = {"classes": integers(3, 20).numpy(), "number": normal(20, 1).numpy()}
    weights = {"classes": np.linspace(0.5, 1.5, 20), "number": np.ones(20)}
    history = model.fit(x, y, sample_weight=weights, batch_size=10, epochs=3, shuffle=False, verbose=0)
    inner = keras.Model(model.inputs, model.layers[-3].output)
    return [
        history.history,
        model.predict(x[:4], verbose=0),
        inner.predict(x[:2], verbose=0),
        model.output_shape,
    ]


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = layers.Dense(8, "tanh"), layers.Dropout(0.0), layers.Dense(1)
        self.seen = keras.metrics.Mean(name="loss")

    def call(self, x, training=False):
        return self.last(self.drop(self.first(x), training=training))

    def train_step(self, data):
        x, y = data
        self.zero_grad()
        loss = ops.mean((self(x, training=True) - y) ** 2) + sum(self.losses)
        loss.backward()
        with torch.no_grad():
            self.optimizer.apply([v.value.grad for v in self.trainable_weights], self.trainable_weights)
        self.seen.update_state(loss)
        return {"loss": self.seen.result()}


@client.case
def own_training_step():
    """A subclass as a torch module: state dictionaries, parameters, a loop with torch's own optimiser, a DataLoader."""
    model = Own()
    model(normal(1, 3))
    given(model)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True))
    x, y = normal(16, 3), normal(16, 1)
    history = model.fit(x, y, batch_size=4, epochs=3, shuffle=False, verbose=0).history
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
    more = model.fit(data, epochs=1, verbose=0).history
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
    for a, b in data:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    names = sorted(model.state_dict())
    wrapped = layers.TorchModuleWrapper(torch.nn.Linear(3, 2))
    both = keras.Sequential([wrapped, layers.Dense(1)])
    return [history, more, losses, len(names), both(x).shape]


OPTIMIZERS = "SGD Adam AdamW Adamax Adagrad Adadelta Nadam RMSprop Ftrl Lion Lamb Adafactor LossScaleOptimizer Muon".split()


@client.case
def optimizers():
    answers = {}
    for name in OPTIMIZERS:
        if not hasattr(keras.optimizers, name):
            continue
        if name == "LossScaleOptimizer":
            made = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01))
        elif name == "Muon":
            made = keras.optimizers.Muon(0.01)
        else:
            made = getattr(keras.optimizers, name)(0.01)
        model = given(keras.Sequential([layers.Input((4,)), layers.Dense(5, "relu"), layers.Dense(1)]))
        model.compile(made, "mse")
        losses = model.fit(normal(8, 4), normal(8, 1), batch_size=4, epochs=3, shuffle=False, verbose=0)
        answers[name] = [
            losses.history["loss"],
            [float(ops.norm(v.value)) for v in made.variables if v.dtype == "float32"],
        ]
    return answers


def classes_of(module, base):
    return sorted(
        name
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, base) and kind is not base and name[0].isupper()
    )


@client.case
def losses():
    results = {}
    truth, guess = ops.sigmoid(normal(4, 5)), ops.sigmoid(normal(4, 5, seed=1))
    whole, kinds = ops.softmax(normal(4, 5)), integers(5, 4)
    for name in classes_of(keras.losses, keras.losses.Loss):
        x = guess.detach().clone().requires_grad_()
        if name in ("CTC", "Circle", "CategoricalGeneralizedCrossEntropy"):
            continue
        first = kinds if name.startswith("Sparse") else whole if "Categorical" in name else truth
        if name in (
            "Hinge",
            "SquaredHinge",
            "BinaryCrossentropy",
            "BinaryFocalCrossentropy",
            "Dice",
            "Tversky",
        ):
            first = ops.cast(truth > 0.5, "float32")
        second = ops.softmax(x) if "Categorical" in name else x
        loss = getattr(keras.losses, name)()(first, second)
        loss.backward()
        results[name] = [loss, x.grad]
    return results


@client.case
def metrics():
    results = {}
    truth, guess = (normal(8, 4) > 0).float(), ops.sigmoid(normal(8, 4, seed=1))
    for name in classes_of(keras.metrics, keras.metrics.Metric):
        kind = getattr(keras.metrics, name)
        try:
            metric = kind()
        except TypeError:  # of those that want an argument
            continue
        if name.startswith("Sparse") and "TopK" not in name:
            batches = [(integers(4, 8), guess)]
        elif "TopK" in name:
            batches = (
                [(integers(6, 8), normal(8, 6).softmax(-1))]
                if name.startswith("Sparse")
                else [(normal(8, 6).softmax(-1), normal(8, 6, seed=1))]
            )
        elif name in ("Mean", "Sum"):
            batches = [(guess,), (truth,)]
        elif name == "R2Score":
            batches = [(normal(8, 4), guess)]
        else:
            batches = [(truth, guess), (1 - truth, guess)]
        for batch in batches:
            metric.update_state(*batch)
        results[name] = metric.result()
    return results


@client.case
def operations():
    """Functions of `keras.ops`, of arrays, of neural networks, of linear algebra, of images, with gradients."""
    x, y = normal(4, 5), normal(4, 5, seed=1)
    square = normal(4, 4) @ normal(4, 4).T + 4 * torch.eye(4)
    image = normal(*IMAGE)
    answers = {}
    for name in (
        "abs all any argmax argmin argsort ceil cos cumprod cumsum diff exp expm1 flip floor isfinite log1p logsumexp max mean median "
        "min nonzero norm prod ravel relu relu6 selu sigmoid sign silu sin softmax softplus softsign sort sqrt square std sum tanh "
        "tril triu var hard_sigmoid gelu elu log_softmax celu mish sparsemax squareplus hard_tanh erf rsqrt digamma sinc"
    ).split():
        if hasattr(ops, name):
            answers[name] = getattr(ops, name)(
                x.abs() if name in ("sqrt", "rsqrt", "log1p", "digamma") else x
            )
    for name in "add arctan2 dot equal greater hypot logaddexp matmul maximum minimum multiply power subtract where cross".split():
        if name in ("dot", "matmul"):
            answers[name] = getattr(ops, name)(x, y.T)
        elif name == "where":
            answers[name] = ops.where(x > 0, x, y)
        elif name == "cross":
            answers[name] = ops.cross(x[:, :3], y[:, :3])
        else:
            answers[name] = getattr(ops, name)(x.abs() if name == "power" else x, y)
    for name in "cholesky det inv eigh qr svd solve lu_factor slogdet".split():
        if name == "solve":
            result = ops.solve(square, x)
        elif name == "slogdet":
            result = ops.slogdet(square)
        elif name in ("eigh", "svd"):
            result = ops.eigh(square)[0] if name == "eigh" else ops.svd(square, compute_uv=False)
        elif name == "qr":
            result = [abs(part) for part in ops.qr(square)]
        else:
            result = getattr(ops, name)(square)
        answers[name] = list(result) if isinstance(result, (tuple, list)) else result
    answers |= {
        "einsum": ops.einsum("ij,kj->ik", x, y),
        "resize": ops.image.resize(image, (5, 7), "bicubic"),
        "affine": ops.image.affine_transform(image, np.array([[1.0, 0.1, 0.5, 0.0, 0.9, 0.2, 0.0, 0.0]] * 2)),
        "patches": ops.image.extract_patches(image, 3, 2),
        "map_coordinates": ops.image.map_coordinates(image[0, ..., 0], normal(2, 6) + 3, 1),
        "gray": ops.image.rgb_to_grayscale(image),
        "blur": ops.image.gaussian_blur(image, (3, 3), (1.0, 1.0)),
        "scatter": ops.scatter(integers(4, 3, 1), normal(3, 2), (4, 2)),
        "update": ops.scatter_update(x, np.array([[0, 1], [2, 2]]), np.array([9.0, 8.0], np.float32)),
        "slice": ops.slice_update(x, [1, 1], ops.ones((2, 2))),
        "segments": ops.segment_sum(x, np.array([0, 0, 1, 2])),
        "segments max": ops.segment_max(x, np.array([0, 0, 1, 2])),
        "top": list(ops.top_k(x, 2)),
        "in top": ops.in_top_k(integers(5, 4), x, 2),
        "fft": list(ops.rfft(x)),
        "stft": list(ops.stft(normal(2, 32), 8, 4, 8)),
        "one hot": ops.one_hot(integers(5, 4), 5),
        "multi hot": ops.multi_hot(integers(5, 4, 2), 5),
        "ctc": ops.ctc_loss(integers(4, 2, 3) + 1, normal(2, 6, 6), np.array([3, 2]), np.array([6, 5])),
        "scan": list(ops.scan(lambda c, v: (c + v, c * v), ops.zeros(5), x)),
        "associative": ops.associative_scan(lambda a, b: a * b, x),
        "while": ops.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + i), (0, 0.0))[1],
        "cond": ops.cond(ops.sum(x) > 0, lambda: x + 1, lambda: x - 1),
        "fori": ops.fori_loop(0, 3, lambda i, s: s * 2 + i, x),
        "vectorized": ops.vectorized_map(lambda v: ops.sum(v) * v, x),
        "unstack": ops.unstack(x),
        "pad": ops.pad(x, ((1, 0), (2, 1)), "reflect"),
        "tensordot": ops.tensordot(x, y, 2),
        "quantile": ops.quantile(x, 0.3, axis=1),
        "digitize": ops.digitize(x, np.array([-1.0, 0.0, 1.0])),
        "searchsorted": ops.searchsorted(np.array([-1.0, 0.0, 1.0], np.float32), x[0]),
        "take_along": ops.take_along_axis(x, integers(5, 4, 2), 1),
        "roll": ops.roll(x, 2, 1),
        "meshgrid": list(ops.meshgrid(np.arange(2.0), np.arange(3.0))),
        "bincount": ops.bincount(integers(5, 9), minlength=6),
        "histogram": list(ops.histogram(x[0], 4)),
        "moments": list(ops.moments(x, 0)),
        "attention": ops.dot_product_attention(
            normal(2, 3, 2, 4), normal(2, 5, 2, 4), normal(2, 5, 2, 4), is_causal=False
        ),
        "normalize": ops.normalize(x, order=2),
        "cast": ops.cast(x, "bfloat16"),
        "shape": ops.shape(x),
        "stop": ops.stop_gradient(x),
        "vector": ops.vectorize(lambda a: a * 2)(x),
    }
    return answers


@client.case
def random_layers_in_evaluation():
    """Layers that draw do nothing in evaluation; seeds and shapes of what they draw in training."""
    image = normal(*IMAGE)
    answers = []
    for make in (
        lambda: layers.Dropout(0.5, seed=1),
        lambda: layers.SpatialDropout2D(0.5, seed=1),
        lambda: layers.GaussianNoise(0.1, seed=1),
        lambda: layers.GaussianDropout(0.3, seed=1),
        lambda: layers.AlphaDropout(0.3, seed=1),
        lambda: layers.RandomFlip(seed=1),
        lambda: layers.RandomRotation(0.1, seed=1),
        lambda: layers.RandomZoom(0.1, seed=1),
        lambda: layers.RandomTranslation(0.1, 0.1, seed=1),
        lambda: layers.RandomContrast(0.1, seed=1),
        lambda: layers.RandomBrightness(0.1, seed=1),
        lambda: layers.RandomCrop(4, 4, seed=1),
    ):
        made = make()
        answers += [made(image, training=False), list(made(image, training=True).shape)]
    return answers


@client.case
def mixed_precision():
    """bfloat16 in computations, float32 in variables; quantised weights."""
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = given(
            keras.Sequential([layers.Input((4,)), layers.Dense(5, "relu"), layers.Dense(2, dtype="float32")])
        )
        model.compile("sgd", "mse")
        model.fit(normal(8, 4), normal(8, 2), epochs=2, shuffle=False, verbose=0)
        kinds = [str(model.layers[0].compute_dtype), str(model.layers[0].variable_dtype)]
        result = model(normal(2, 4)).detach().float()
    finally:
        keras.mixed_precision.set_global_policy("float32")
    small = given(keras.Sequential([layers.Input((8,)), layers.Dense(6)]))
    small.quantize("int8")
    return [kinds, result.shape, small(normal(3, 8))]


@client.case
def applications():
    """Whole networks of the library with given weights, in evaluation."""
    answers = []
    for make in (
        lambda: keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, classes=5),
        lambda: keras.applications.EfficientNetV2B0(input_shape=(32, 32, 3), weights=None, classes=5),
        lambda: keras.applications.ResNet50V2(input_shape=(32, 32, 3), weights=None, classes=5),
    ):
        model = given(make())
        answers.append([model(normal(2, 32, 32, 3), training=False), model.count_params()])
    return answers
