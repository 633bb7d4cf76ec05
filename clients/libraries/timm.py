"""timm: models of thirty-seven families with the same weights, its optimisers and PyTorch's, schedules, losses, averages, files."""

import os
import random
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import timm
import timm.data
import timm.loss
import timm.optim
import timm.scheduler
import timm.utils
import torch
from harness import Client, draws, fill, integers, normal

client = Client("timm")

SIDE = 64
AT = {"img_size": SIDE}
# Models, and what they are made with so that images of 64 by 64 pass.
MODELS = {
    "resnet18": {},
    "resnet26d": {},
    "seresnext26d_32x4d": {},
    "res2net50_26w_4s": {},
    "resnetv2_18": {},
    "vgg11_bn": {},
    "densenet121": {},
    "dla34": {},
    "dpn48b": {},
    "hrnet_w18_small": {},
    "regnety_002": {},
    "repvgg_a0": {},
    "efficientnet_b0": {},
    "tf_efficientnetv2_b0": {},
    "mobilenetv3_small_050": {},
    "mobilenetv4_conv_small_050": {},
    "ghostnet_050": {},
    "mnasnet_small": {},
    "mobileone_s0": {},
    "convnext_atto": {},
    "convnextv2_atto": {},
    "edgenext_xx_small": {},
    "mobilevit_xxs": {},
    "fastvit_t8": {},
    "poolformer_s12": {},
    "nf_regnet_b0": {},
    "vit_tiny_patch16_224": AT,
    "deit_tiny_distilled_patch16_224": AT,
    "beitv2_base_patch16_224": {**AT, "embed_dim": 48, "depth": 3, "num_heads": 3},
    "eva02_tiny_patch14_224": {"img_size": 56, "depth": 4},
    "cait_xxs24_224": {**AT, "depth": 4},
    "xcit_nano_12_p16_224": AT,
    "pvt_v2_b0": {},
    "swin_tiny_patch4_window7_224": {
        **AT,
        "window_size": 4,
        "embed_dim": 24,
        "depths": (1, 1, 1, 1),
        "drop_path_rate": 0.0,
    },
    "mixer_s32_224": AT,
    "resmlp_12_224": AT,
    "gmlp_ti16_224": AT,
}


def build(name, **options):
    return fill(timm.create_model(name, num_classes=10, **{"drop_rate": 0.0, **MODELS[name], **options}))


def images(name, count=2):
    return normal(count, 3, *(MODELS[name].get("img_size", SIDE),) * 2)


def numbers(name):
    """What comes out; and in float64, as two images normalised together magnify what is rounded: gradients, running statistics."""
    model = build(name)
    x, labels = images(name), integers(10, 2)
    out = model.eval()(x)
    model, x = model.double(), x.double()
    loss = torch.nn.functional.cross_entropy(model.train()(x), labels)
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return {
        "out": out,
        "features": model.eval().forward_features(x),
        "loss": loss,
        "gradients": np.array([float(g.norm()) for g in gradients]),
        "first": gradients[0],
        "buffers": np.array([float(b.double().sum()) for b in model.buffers()]),
    }


for name in MODELS:
    client.case(lambda name=name: numbers(name), name=name)


@client.case
def training():
    """In float64, eight steps of resnet18 and of vit_tiny, by AdamW with layer decay, clipped."""
    results = {}
    for name in ("resnet18", "vit_tiny_patch16_224"):
        model = build(name).double().train()
        optimizer = timm.optim.create_optimizer_v2(
            model, opt="adamw", lr=1e-3, weight_decay=0.05, layer_decay=0.75
        )
        x, labels = images(name, 4).double(), integers(10, 4)
        losses = []
        for _ in range(8):
            loss = timm.loss.LabelSmoothingCrossEntropy(0.1)(model(x), labels)
            optimizer.zero_grad()
            loss.backward()
            timm.utils.dispatch_clip_grad(model.parameters(), 1.0, mode="norm")
            optimizer.step()
            losses.append(loss.item())
        results[name] = {
            "losses": np.array(losses),
            "groups": [group["lr"] for group in optimizer.param_groups],
        }
    return results


def steps_of(name):
    """Five steps on a small network, and what a saved and loaded state goes on to."""
    torch.manual_seed(0)
    model = fill(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)))
    optimizer = timm.optim.create_optimizer_v2(model, opt=name, lr=1e-2, weight_decay=1e-2)
    x, labels = normal(10, 6), integers(3, 10)
    losses = []
    for step in range(5):

        def closure():
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), labels)
            loss.backward(create_graph=getattr(optimizer, "is_second_order", False))
            return loss

        with draws(step):
            loss = optimizer.step(closure) if name == "lbfgs" else closure()
            if name != "lbfgs":
                optimizer.step()
        losses.append(float(loss))
        if step == 2:
            saved = optimizer.state_dict()
            optimizer.load_state_dict(saved)
    return {"losses": np.array(losses), "weights": torch.cat([p.flatten() for p in model.parameters()])}


for name in timm.optim.list_optimizers():
    if not name.startswith(
        ("fused", "bnb", "kron")
    ):  # those need other packages; Kron draws within a compiled function
        client.case(lambda name=name: steps_of(name), name=f"optimiser {name}", tolerance=1e-3)


@client.case
def schedules():
    results = {}
    for name in ("cosine", "tanh", "step", "multistep", "poly", "plateau"):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        options = {"decay_milestones": [3, 6]} if name == "multistep" else {}
        schedule, epochs = timm.scheduler.create_scheduler_v2(
            optimizer,
            sched=name,
            num_epochs=12,
            warmup_epochs=2,
            warmup_lr=1e-3,
            min_lr=1e-4,
            decay_epochs=4,
            **options,
        )
        rates = []
        for epoch in range(12):
            schedule.step(epoch, metric=1 / (1 + min(epoch, 3)))
            rates.append(optimizer.param_groups[0]["lr"])
        results[name] = [np.array(rates), epochs]
    return results


@client.case
def losses():
    x, hard, soft = normal(6, 5), integers(5, 6), normal(6, 5).softmax(1)
    several = (normal(6, 5) > 0).float()
    made = {
        "smoothed": (timm.loss.LabelSmoothingCrossEntropy(0.1), x, hard),
        "soft": (timm.loss.SoftTargetCrossEntropy(), x, soft),
        "binary": (timm.loss.BinaryCrossEntropy(smoothing=0.1), x, hard),
        "divergence": (timm.loss.JsdCrossEntropy(num_splits=3), x, hard[:2]),
        "asymmetric": (timm.loss.AsymmetricLossMultiLabel(), x, several),
        "single": (timm.loss.AsymmetricLossSingleLabel(), x, hard),
    }
    results = {}
    for name, (loss, scores, wanted) in made.items():
        scores = scores.clone().requires_grad_()
        value = loss(scores, wanted)
        value.backward()
        results[name] = [value, scores.grad]
    return results


@client.case
def averages():
    """In float64, averaged weights, of both kinds, that follow three steps."""
    model, x = build("resnet18").double().train(), images("resnet18").double()
    kinds = [
        timm.utils.ModelEmaV2(model, decay=0.9),
        timm.utils.ModelEmaV3(model, decay=0.9, use_warmup=True, foreach=True),
    ]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        kinds[0].update(model)
        kinds[1].update(model, step=step)
    return [kind.module.eval()(x) for kind in kinds]


@client.case
def features():
    """Maps of every stage, of chosen ones, other heads, tokens between blocks."""
    x = images("resnet18")
    maps = fill(timm.create_model("resnet18", features_only=True, out_indices=(1, 3))).eval()
    vit = build("vit_tiny_patch16_224").eval()
    last, between = vit.forward_intermediates(x, indices=3)
    headless = build("convnext_atto").eval()
    headless.reset_classifier(0)
    return {
        "maps": maps(x),
        "channels": maps.feature_info.channels(),
        "last": last,
        "between": between,
        "pooled": headless(x),
        "pooling": [build("resnet18", global_pool=kind).eval()(x) for kind in ("max", "catavgmax")],
    }


@client.case
def files():
    """Checkpoints of both formats, also into another number of classes and another side."""
    from safetensors.torch import save_file

    model = build("vit_tiny_patch16_224").eval()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        save_file(model.state_dict(), folder + "/model.safetensors")
        torch.save({"state_dict": model.state_dict()}, folder + "/model.pth")
        for file in ("model.safetensors", "model.pth"):
            again = timm.create_model(
                "vit_tiny_patch16_224", num_classes=10, img_size=SIDE, checkpoint_path=f"{folder}/{file}"
            )
            results[file] = again.eval()(images("vit_tiny_patch16_224"))
        larger = timm.create_model("vit_tiny_patch16_224", num_classes=10, img_size=96)
        timm.models.load_checkpoint(
            larger, folder + "/model.pth", filter_fn=timm.models.vision_transformer.checkpoint_filter_fn
        )
        results["larger"] = larger.eval()(normal(2, 3, 96, 96))
        saver = timm.utils.CheckpointSaver(
            model, torch.optim.SGD(model.parameters(), lr=0.1), checkpoint_dir=folder, recovery_dir=folder
        )
        results["best"] = [
            saver.save_checkpoint(epoch, metric=metric) for epoch, metric in enumerate((0.3, 0.9, 0.5))
        ]
        results["kept"] = sorted(
            name for name in os.listdir(folder) if name.startswith(("checkpoint", "last", "model_best"))
        )
    return results


@client.case
def mixing():
    """Mixed and cut images and labels, accuracies, meters."""
    np.random.seed(0)
    random.seed(0)
    mixup = timm.data.Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=5, label_smoothing=0.1)
    rounds = [mixup(normal(4, 3, 16, 16), integers(5, 4)) for _ in range(4)]
    top1, top5 = timm.utils.accuracy(normal(8, 10), integers(10, 8), topk=(1, 5))
    meter = timm.utils.AverageMeter()
    meter.update(top1.item(), 8)
    return [rounds, top1, top5, meter.avg]


@client.case
def pictures():
    """Pictures of noise, made ready for evaluation and loaded in batches."""
    from PIL import Image

    class Noise(torch.utils.data.Dataset):
        transform = None

        def __len__(self):
            return 6

        def __getitem__(self, index):
            pixels = np.random.default_rng(index).integers(0, 256, (80, 70, 3), dtype=np.uint8)
            return self.transform(Image.fromarray(pixels)), index

    loader = timm.data.create_loader(
        Noise(),
        (3, 48, 48),
        4,
        is_training=False,
        num_workers=0,
        use_prefetcher=False,
        device=torch.device("cpu"),
    )
    return [list(batch) for batch in loader]


@client.case(tolerance=2e-3)
def recomputed():
    """Gradients with blocks recomputed in backward, as without."""
    results = []
    for again in (False, True):
        model = build("vit_tiny_patch16_224").train()
        model.set_grad_checkpointing(again)
        model(images("vit_tiny_patch16_224")).square().mean().backward()
        results.append(model.blocks[0].attn.qkv.weight.grad)
    return results
