"""Captum: all attribution methods over the configurations that it ships for its own tests, and every other part of it on our networks.

Captum's sdist holds no tests, but `captum.testing` holds their table: 78 configurations of models, inputs and methods.  Each pair
of a configuration and a method is a case here.
"""

import copy
import inspect
import tempfile

import numpy as np
import torch
from captum import attr, concept, influence, metrics, robust
from captum.module import BinaryConcreteStochasticGates, GaussianStochasticGates
from harness import Client, draws, fill, integers, normal
from torch import nn

with draws(1234):  # the configurations draw their inputs at import
    from captum.testing.attr.helpers.gen_test_utils import get_target_layer, parse_test_config
    from captum.testing.attr.helpers.test_config import config
    from captum.testing.helpers.basic_models import BasicEmbeddingModel, BasicModel_ConvNet

client = Client("captum")


def configured(settings, method):
    def run():
        _, model, arguments, layer, noise_tunnel, _ = parse_test_config(settings)
        model, arguments = fill(copy.deepcopy(model)), copy.deepcopy(arguments)
        model.eval()
        wants_layer = "layer" in inspect.signature(method.__init__).parameters
        made = method(model, get_target_layer(model, layer)) if wants_layer else method(model)
        if noise_tunnel:
            made = attr.NoiseTunnel(made)
        with draws(7):
            return made.attribute(**arguments)

    return run


for settings in config:
    for method in settings["algorithms"]:
        # sums of thousands of samples, and fits to them, gather rounding
        client.case(tolerance=1e-3, name=f"{settings['name']}-{method.__name__}")(
            configured(settings, method)
        )


# On networks of our own ------------------------------------------------------------------------------------------------------


class Cnn(nn.Module):
    def __init__(self, last=True):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(8, 6, 3)
        self.relu2 = nn.ReLU()
        self.pool2 = nn.AvgPool2d(2)
        self.linear = nn.Linear(6 * 3 * 3, 4)
        self.last = nn.Softmax(1) if last else None

    def forward(self, x):
        x = self.pool1(self.relu1(self.norm(self.conv1(x))))
        x = self.pool2(self.relu2(self.conv2(x)))
        x = self.linear(x.flatten(1))
        return self.last(x) if self.last is not None else x


class Mlp(nn.Sequential):
    def __init__(self, last=True):
        super().__init__(nn.Linear(7, 16), nn.Tanh(), nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 3))
        if last:
            self.append(nn.Sigmoid())


class Text(nn.Module):
    def __init__(self, last=True):
        super().__init__()
        self.embedding = nn.Embedding(30, 6)
        self.lstm = nn.LSTM(6, 5, batch_first=True)
        self.linear = nn.Linear(5, 2)

    def forward(self, tokens):
        return self.linear(torch.relu(self.lstm(self.embedding(tokens))[0].mean(1)))


TARGETS = {"mlp": integers(3, 5), "cnn": integers(4, 5), "text": integers(2, 5)}
INPUTS = {"mlp": normal(5, 7), "cnn": normal(5, 3, 16, 16), "text": integers(30, 5, 8)}
NETWORKS = {"mlp": Mlp, "cnn": Cnn, "text": Text}
LAYERS = {"mlp": "2", "cnn": "relu2", "text": "embedding"}


def network(kind, method=None):
    model = fill(
        NETWORKS[kind](last=not (method and "LRP" in method))
    ).eval()  # those have no rule for the last functions
    return model, INPUTS[kind].clone(), TARGETS[kind]


WHOLE = {
    "Saliency": {},
    "InputXGradient": {},
    "IntegratedGradients": {"return_convergence_delta": True, "method": "gausslegendre"},
    "DeepLift": {"return_convergence_delta": True},
    "DeepLiftShap": {"baselines": 3, "return_convergence_delta": True},
    "GradientShap": {"baselines": 3, "stdevs": 0.1, "return_convergence_delta": True},
    "GuidedBackprop": {},
    "Deconvolution": {},
    "FeatureAblation": {},
    "FeaturePermutation": {},
    "Occlusion": {
        "sliding_window_shapes": {"mlp": (2,), "cnn": (3, 4, 4)},
        "strides": {"mlp": 1, "cnn": (3, 2, 2)},
    },
    "ShapleyValueSampling": {"n_samples": 4},
    "ShapleyValues": {},
    "Lime": {"n_samples": 40},
    "KernelShap": {"n_samples": 40},
    "LRP": {"return_convergence_delta": True},
}


def whole(kind, method, options):
    def run():
        model, inputs, targets = network(kind, method)
        chosen = {name: value[kind] if isinstance(value, dict) else value for name, value in options.items()}
        if "baselines" in chosen:
            chosen["baselines"] = normal(chosen["baselines"], *inputs.shape[1:], seed=2)
        if kind == "cnn" and method in (
            "FeatureAblation",
            "ShapleyValueSampling",
            "ShapleyValues",
            "Lime",
            "KernelShap",
        ):
            rows = torch.arange(16) // 8
            chosen["feature_mask"] = (rows[:, None] * 2 + rows).expand(1, 3, 16, 16).contiguous()
        with draws(3):
            return getattr(attr, method)(model).attribute(inputs, target=targets, **chosen)

    return run


for kind in ("mlp", "cnn"):
    for method, options in WHOLE.items():
        client.case(tolerance=1e-3, name=f"{kind}-{method}")(whole(kind, method, options))


BY_LAYER = {
    "LayerActivation": {},
    "LayerGradientXActivation": {"target": True},
    "LayerConductance": {"target": True, "n_steps": 20},
    "InternalInfluence": {"target": True, "n_steps": 20},
    "LayerIntegratedGradients": {"target": True, "n_steps": 20},
    "LayerGradCam": {"target": True},
    "LayerDeepLift": {"target": True},
    "LayerDeepLiftShap": {"target": True, "baselines": 3},
    "LayerGradientShap": {"target": True, "baselines": 3},
    "LayerFeatureAblation": {"target": True},
    "LayerLRP": {"target": True},
    "NeuronGradient": {"neuron": True},
    "NeuronConductance": {"neuron": True, "target": True, "n_steps": 20},
    "NeuronIntegratedGradients": {"neuron": True, "n_steps": 20},
    "NeuronDeepLift": {"neuron": True},
    "NeuronDeepLiftShap": {"neuron": True, "baselines": 3},
    "NeuronGradientShap": {"neuron": True, "baselines": 3},
    "NeuronFeatureAblation": {"neuron": True},
    "NeuronGuidedBackprop": {"neuron": True},
    "NeuronDeconvolution": {"neuron": True},
}


def by_layer(kind, method, options):
    def run():
        model, inputs, targets = network(kind, method)
        chosen = dict(options)
        if chosen.pop("neuron", False):
            chosen["neuron_selector"] = {"mlp": (1,), "cnn": (0, 2, 2)}[kind]
        if "target" in chosen:
            chosen["target"] = targets
        if "baselines" in chosen:
            chosen["baselines"] = normal(chosen["baselines"], *inputs.shape[1:], seed=2)
        if kind == "cnn" and method == "NeuronFeatureAblation":
            chosen["feature_mask"] = torch.arange(3).reshape(1, 3, 1, 1).expand(1, 3, 16, 16)
        layer = "conv2" if (kind, method) == ("cnn", "LayerLRP") else LAYERS[kind]  # activations have no rule
        with draws(3):
            return getattr(attr, method)(model, model.get_submodule(layer)).attribute(inputs, **chosen)

    return run


for kind in ("mlp", "cnn"):
    for method, options in BY_LAYER.items():
        if (kind, method) != ("mlp", "LayerGradCam"):
            client.case(tolerance=1e-3, name=f"{kind}-{method}")(by_layer(kind, method, options))


@client.case(name="cnn-GuidedGradCam")
def guided_grad_cam():
    model, inputs, targets = network("cnn")
    return attr.GuidedGradCam(model, model.conv2).attribute(
        inputs, target=targets, interpolate_mode="bilinear"
    )


@client.case(name="cnn-LayerAttribution.interpolate")
def interpolated():
    model, inputs, targets = network("cnn")
    made = attr.LayerGradCam(model, model.conv2).attribute(inputs, target=targets, relu_attributions=True)
    return [attr.LayerAttribution.interpolate(made, (16, 16), mode) for mode in ("nearest", "bilinear")]


@client.case(name="mlp-NoiseTunnel")
def noise_tunnels():
    model, inputs, targets = network("mlp")
    made = attr.NoiseTunnel(attr.IntegratedGradients(model))
    with draws(5):
        return [
            made.attribute(inputs, nt_type=kind, nt_samples=6, stdevs=0.2, target=targets)
            for kind in ("smoothgrad", "smoothgrad_sq", "vargrad")
        ]


@client.case(name="mlp-data_parallel")
def data_parallel():
    model, inputs, targets = network("mlp")
    return attr.IntegratedGradients(nn.DataParallel(model)).attribute(inputs, target=targets)


@client.case(name="hooks leave nothing behind")
def hooks():
    model, inputs, targets = network("cnn")
    for method in (attr.DeepLift, attr.GuidedBackprop, attr.Deconvolution, attr.LRP):
        try:
            method(model).attribute(inputs, target=targets)
        except Exception as error:  # noqa: BLE001  softmax has no rule in LRP: what it registered must go, too
            assert method is attr.LRP, error
    left = [
        len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in model.modules()
    ]
    return [left, model(inputs)]


# Texts -----------------------------------------------------------------------------------------------------------------------


@client.case(name="text-LayerIntegratedGradients")
def text():
    model, tokens, targets = network("text")
    reference = (
        attr.TokenReferenceBase(reference_token_idx=0).generate_reference(8, device="cpu").unsqueeze(0)
    )
    made = attr.LayerIntegratedGradients(model, model.embedding)
    return made.attribute(
        tokens, baselines=reference, target=targets, n_steps=30, return_convergence_delta=True
    )


@client.case(name="text-interpretable_embedding")
def interpretable():
    model, tokens, targets = network("text")
    embedding = attr.configure_interpretable_embedding_layer(model, "embedding")
    made = attr.IntegratedGradients(model).attribute(
        embedding.indices_to_embeddings(tokens), target=targets, n_steps=20
    )
    attr.remove_interpretable_embedding_layer(model, embedding)
    return [made, model(tokens)]


@client.case(name="text-methods")
def text_methods():
    model, tokens, targets = network("text")
    with draws(1):
        return [
            attr.FeatureAblation(model).attribute(tokens, target=targets),
            attr.ShapleyValueSampling(model).attribute(tokens, target=targets, n_samples=3),
            attr.LayerGradientXActivation(model, model.embedding).attribute(tokens, target=targets),
        ]


@client.case(name="text-embedding bag")
def embedding_bag():
    model = fill(BasicEmbeddingModel(nested_second_embedding=True))
    first, second = integers(30, 4, 6), integers(30, 4, 6, seed=1)
    made = attr.LayerIntegratedGradients(model, model.embedding1)
    return made.attribute(first, additional_forward_args=(second,), target=0, n_steps=20)


# Metrics, robustness, concepts, influence, gates -----------------------------------------------------------------------------


@client.case(name="metrics", tolerance=1e-3)
def measured():
    model, inputs, targets = network("mlp")
    saliency = attr.Saliency(model)
    with draws(2) as stream:

        def perturb(x):
            noise = torch.from_numpy(stream.normal(0, 0.003, tuple(x.shape)).astype(np.float32))
            return noise, x - noise

        attributions = saliency.attribute(inputs, target=targets)
        fidelity = metrics.infidelity(
            model, perturb, inputs, attributions, target=targets, n_perturb_samples=5
        )

        def shifted(inputs, perturb_radius=0.02):
            inputs = inputs if isinstance(inputs, tuple) else (inputs,)
            return tuple(
                x
                + perturb_radius * torch.from_numpy(stream.uniform(-1, 1, tuple(x.shape)).astype(np.float32))
                for x in inputs
            )

        sensitivity = metrics.sensitivity_max(
            saliency.attribute, inputs, shifted, target=targets, n_perturb_samples=5
        )
    return [fidelity, sensitivity]


@client.case(name="robust")
def attacked():
    model, inputs, targets = network("mlp")
    fast = robust.FGSM(model, lower_bound=-2, upper_bound=2).perturb(inputs, epsilon=0.1, target=targets)
    with draws(4):
        projected = robust.PGD(model).perturb(
            inputs, radius=0.3, step_size=0.1, step_num=4, target=targets, norm="L2"
        )
    least = robust.MinParamPerturbation(
        forward_func=model,
        attack=lambda x, size: x + size,
        arg_name="size",
        arg_min=0.0,
        arg_max=3.0,
        arg_step=0.1,
        mode="linear",
    ).evaluate(inputs[:1], target=int(model(inputs[:1]).argmax()))
    comparer = robust.AttackComparator(
        forward_func=model, metric=lambda out, target: (out.argmax(1) == target).float().mean()
    )
    comparer.add_attack(
        robust.FGSM(model), "fgsm", num_attempts=1, attack_kwargs={"epsilon": 0.5, "target": targets}
    )
    compared = comparer.evaluate(inputs, target=targets)
    return [
        fast,
        projected,
        list(least),
        {k: v._asdict() if hasattr(v, "_asdict") else v for k, v in compared.items()},
    ]


@client.case(name="concepts")
def concepts():
    model, inputs, targets = network("cnn")
    named = [
        concept.Concept(
            i,
            name,
            torch.utils.data.DataLoader(
                [normal(3, 16, 16, seed=10 * i + j) + shift for j in range(8)], batch_size=4
            ),
        )
        for i, (name, shift) in enumerate([("striped", 1.0), ("random", -1.0)])
    ]
    with tempfile.TemporaryDirectory() as folder, draws(0):
        tcav = concept.TCAV(model, ["relu2"], save_path=folder)
        scores = tcav.interpret(inputs, experimental_sets=[named], target=0)
    return {key: {layer: sorted(score) for layer, score in value.items()} for key, value in scores.items()}


class Pairs(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        self.inputs, self.targets = normal(n, 7, seed=seed), integers(3, n, seed=seed)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]


def classifier():
    return fill(nn.Sequential(nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 3)))


@client.case(name="influence of training", tolerance=1e-3)
def traced():
    test = Pairs(4, 9)
    with tempfile.TemporaryDirectory() as folder:
        model = classifier()
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        data, checkpoints = Pairs(20, 8), []
        for step in range(3):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(data.inputs), data.targets).backward()
            optimiser.step()
            checkpoints.append(f"{folder}/{step}.pt")
            torch.save({"model_state_dict": model.state_dict(), "learning_rate": 0.1}, checkpoints[-1])

        def load(model, path):
            checkpoint = torch.load(path)
            model.load_state_dict(checkpoint["model_state_dict"])
            return checkpoint["learning_rate"]

        out = []
        for mean, sample_wise in (("mean", False), ("sum", True)):
            made = influence.TracInCP(
                model,
                data,
                checkpoints,
                load,
                loss_fn=nn.CrossEntropyLoss(reduction=mean if not sample_wise else "sum")
                if sample_wise
                else nn.CrossEntropyLoss(reduction="none"),
                batch_size=6,
                sample_wise_grads_per_batch=sample_wise,
            )
            out.append(made.influence((test.inputs, test.targets)))
            out.append(list(made.influence((test.inputs, test.targets), k=3)))
            out.append(made.self_influence())
        fast = influence.TracInCPFast(
            model,
            list(model.children())[-1],
            data,
            checkpoints,
            load,
            loss_fn=nn.CrossEntropyLoss(reduction="sum"),
            batch_size=6,
        )
        out.append(fast.influence((test.inputs, test.targets)))
        made = influence.NaiveInfluenceFunction(
            model, data, checkpoints[-1], load, loss_fn=nn.CrossEntropyLoss(reduction="none"), batch_size=6
        )
        out.append(made.self_influence())
    return out


@client.case(name="influence by similarity")
def similar():
    model = classifier()
    with tempfile.TemporaryDirectory() as folder:
        made = influence.SimilarityInfluence(
            model,
            ["0", "2"],
            Pairs(12, 8).inputs,
            folder,
            "small",
            batch_size=5,
            similarity_metric=influence._core.similarity_influence.cosine_similarity,
        )
        return {layer: list(result) for layer, result in made.influence(Pairs(3, 9).inputs, top_k=2).items()}


@client.case(name="gates")
def gates():
    out = []
    for kind in (BinaryConcreteStochasticGates, GaussianStochasticGates):
        gate = kind(7)
        gate.load_state_dict({"log_alpha_param" if hasattr(gate, "log_alpha_param") else "mu": normal(7)})
        gate.eval()
        result = gate(normal(5, 7))
        result[1].backward()
        out.append(
            [
                list(result),
                gate.get_gate_values(),
                gate.get_gate_active_probs(),
                [p.grad for p in gate.parameters()],
            ]
        )
    return out


@client.case(name="pictures")
def pictures():
    model, inputs, targets = network("cnn")
    made = attr.Saliency(model).attribute(inputs, target=targets)[0].permute(1, 2, 0).numpy()
    picture = inputs[0].permute(1, 2, 0).numpy()
    figure, axes = attr.visualization.visualize_image_attr_multiple(
        made,
        picture,
        ["original_image", "heat_map", "blended_heat_map"],
        ["all", "absolute_value", "positive"],
        use_pyplot=False,
    )
    return [len(axes), axes[1].images[0].get_array()]


@client.case(name="summaries")
def summaries():
    summarizer = attr.Summarizer(
        [attr.Mean(), attr.StdDev(), attr.MSE(), attr.Var(), attr.Min(), attr.Max(), attr.Sum(), attr.Count()]
    )
    for seed in range(4):
        summarizer.update(normal(3, 4, seed=seed))
    return dict(sorted(summarizer.summary.items()))  # its own order is that of a set of classes


@client.case(name="model with hooks of its own")
def ablated():
    model = fill(BasicModel_ConvNet())
    seen = []
    model.conv1.register_forward_hook(lambda module, inputs, out: seen.append(tuple(out.shape)))
    made = attr.FeatureAblation(model).attribute(normal(2, 1, 10, 10), target=1, perturbations_per_eval=4)
    return [made, len(seen), list(seen[0])]
