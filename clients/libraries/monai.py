"""MONAI: networks for volumes with gradients, losses, metrics, transforms of arrays and dictionaries, inference by windows, training."""

import warnings

import monai
import numpy as np
import torch
from harness import Client, fill, integers, normal
from monai import losses, metrics, transforms
from monai.data import CacheDataset, DataLoader, Dataset, MetaTensor, decollate_batch
from monai.inferers import SimpleInferer, SlidingWindowInferer, sliding_window_inference
from monai.networks import blocks, layers, nets

client = Client("monai", samples=8)
warnings.filterwarnings("ignore")


def seeded(seed=0):
    monai.utils.set_determinism(seed)


def learnt(module, out, *inputs):
    """What came out, the norms of the parameters' gradients as one array, and those of the inputs."""
    first = out[0] if isinstance(out, (tuple, list)) else out
    first.square().mean().backward()
    norms = [p.grad.norm() if p.grad is not None else torch.zeros(()) for p in module.parameters()]
    return [out, torch.stack(norms) if norms else None, [x.grad.norm() for x in inputs]]


NETS = {
    "UNet": (lambda: nets.UNet(2, 1, 2, (4, 8, 16), (2, 2), num_res_units=1), (1, 1, 16, 16)),
    "UNet of volumes": (
        lambda: nets.UNet(3, 1, 2, (4, 8), (2,), num_res_units=2, norm="batch", act="gelu"),
        (1, 1, 8, 8, 8),
    ),
    "BasicUNet": (lambda: nets.BasicUNet(2, 1, 2, (4, 4, 8, 8, 16, 4)), (1, 1, 32, 32)),
    "BasicUNetPlusPlus": (lambda: nets.BasicUNetPlusPlus(2, 1, 2, (4, 4, 8, 8, 16, 4)), (1, 1, 32, 32)),
    "SegResNet": (
        lambda: nets.SegResNet(
            3, 4, 1, 2, blocks_down=(1, 1), blocks_up=(1,), norm=("GROUP", {"num_groups": 2})
        ),
        (1, 1, 8, 8, 8),
    ),
    "SegResNetVAE": (
        lambda: nets.SegResNetVAE(
            (16, 16),
            vae_estimate_std=False,
            spatial_dims=2,
            init_filters=4,
            blocks_down=(1, 1),
            blocks_up=(1,),
            norm=("GROUP", {"num_groups": 2}),
        ),
        (1, 1, 16, 16),
    ),
    "DynUNet": (
        lambda: nets.DynUNet(2, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2], filters=[4, 8, 16], res_block=True),
        (1, 1, 16, 16),
    ),
    "DenseNet121": (
        lambda: nets.DenseNet(2, 1, 3, init_features=8, growth_rate=4, block_config=(2, 2), bn_size=2),
        (2, 1, 32, 32),
    ),
    "ResNet": (
        lambda: nets.ResNet(
            "basic", [1, 1, 1, 1], [4, 8, 8, 16], spatial_dims=3, n_input_channels=1, num_classes=3
        ),
        (2, 1, 32, 32, 32),
    ),
    "SENet": (
        lambda: nets.SENet(
            2, 1, "se_resnet_bottleneck", [1, 1, 1, 1], 1, 4, inplanes=8, num_classes=3, dropout_prob=None
        ),
        (2, 1, 64, 64),
    ),
    "EfficientNet": (
        lambda: nets.EfficientNet(
            blocks_args_str=["r1_k3_s11_e1_i32_o16_se0.25", "r1_k3_s22_e6_i16_o24_se0.25"],
            width_coefficient=1.0,
            depth_coefficient=1.0,
            spatial_dims=2,
            in_channels=1,
            num_classes=3,
            drop_connect_rate=0.0,
            dropout_rate=0.0,
        ),
        (2, 1, 32, 32),
    ),
    "ViT": (
        lambda: nets.ViT(
            1, (16, 16), (8, 8), 24, 48, 2, 3, classification=True, num_classes=3, spatial_dims=2
        ),
        (2, 1, 16, 16),
    ),
    "ViT of volumes": (lambda: nets.ViT(1, (8, 8, 8), (4, 4, 4), 24, 48, 2, 3), (1, 1, 8, 8, 8)),
    "ViTAutoEnc": (
        lambda: nets.ViTAutoEnc(1, (16, 16), (4, 4), 1, 4, 24, 48, 2, 3, spatial_dims=2),
        (1, 1, 16, 16),
    ),
    "UNETR": (
        lambda: nets.UNETR(1, 2, (16, 16), 4, 24, 48, 3, norm_name="instance", spatial_dims=2),
        (1, 1, 16, 16),
    ),
    "SwinUNETR": (
        lambda: nets.SwinUNETR(
            1,
            2,
            patch_size=2,
            depths=(1, 1, 1, 1),
            num_heads=(1, 2, 2, 2),
            window_size=4,
            feature_size=12,
            spatial_dims=2,
        ),
        (1, 1, 64, 64),
    ),
    "AttentionUnet": (lambda: nets.AttentionUnet(2, 1, 2, (4, 8, 16), (2, 2)), (1, 1, 16, 16)),
    "AHNet": (lambda: nets.AHNet((1, 1, 1, 1), spatial_dims=2, psp_block_num=1), (2, 1, 64, 64)),
    "HighResNet": (lambda: nets.HighResNet(2, 1, 2, dropout_prob=0.0), (1, 1, 12, 12)),
    "RegUNet": (
        lambda: nets.RegUNet(spatial_dims=2, in_channels=1, num_channel_initial=4, depth=2, out_channels=2),
        (1, 1, 16, 16),
    ),
    "AutoEncoder": (lambda: nets.AutoEncoder(2, 1, 1, (4, 8), (2, 2), num_res_units=1), (1, 1, 16, 16)),
    "Classifier": (lambda: nets.Classifier((1, 16, 16), 3, (4, 8), (2, 2)), (2, 1, 16, 16)),
    "Discriminator": (lambda: nets.Discriminator((1, 16, 16), (4, 8), (2, 2)), (2, 1, 16, 16)),
    "Critic": (lambda: nets.Critic((1, 16, 16), (4, 8), (2, 2)), (2, 1, 16, 16)),
    "Regressor": (lambda: nets.Regressor((1, 16, 16), (2,), (4, 8), (2, 2)), (2, 1, 16, 16)),
    "Generator": (lambda: nets.Generator((8,), (8, 4, 4), (8, 4), (2, 1)), (2, 8)),
    "PatchDiscriminator": (
        lambda: nets.PatchDiscriminator(2, 4, 1, num_layers_d=2, norm="INSTANCE"),
        (2, 1, 32, 32),
    ),
    "MedNeXt": (
        lambda: nets.MedNeXt(2, 4, 1, 2, blocks_down=(1, 1), blocks_bottleneck=1, blocks_up=(1, 1)),
        (1, 1, 16, 16),
    ),
    "FullyConnectedNet": (lambda: nets.FullyConnectedNet(8, 3, (6, 5), dropout=0.0), (2, 8)),
    "AutoencoderKL": (
        lambda: nets.AutoencoderKL(
            2, 1, 1, (1, 1), (4, 8), (False, True), latent_channels=2, norm_num_groups=2
        ).eval(),
        (1, 1, 16, 16),
    ),
}


def network(make, shape):
    def run():
        seeded()
        net, x = fill(make()), normal(*shape).requires_grad_()
        torch.manual_seed(1)
        trained = learnt(net, net(x), x)
        with torch.no_grad():
            torch.manual_seed(1)
            return [trained, net.eval()(x)]

    return run


for name, (make, shape) in NETS.items():
    client.case(network(make, shape), tolerance=5e-4, name=f"net: {name}")


@client.case
def own_networks():
    """Networks whose inputs are more than an image: diffusion, codebooks, styles, masks, registration, whole slides."""
    seeded()
    x, result = normal(1, 1, 16, 16), {}
    diffusion = fill(
        nets.DiffusionModelUNet(
            2,
            1,
            1,
            (1, 1),
            (4, 8),
            (False, True),
            norm_num_groups=2,
            num_head_channels=4,
            with_conditioning=True,
            cross_attention_dim=6,
        )
    )
    given = x.clone().requires_grad_()
    out = diffusion(given, torch.tensor([7]), context=normal(1, 2, 6))
    result["diffusion"] = learnt(diffusion, out, given)
    kl = fill(
        nets.AutoencoderKL(2, 1, 1, (1, 1), (4, 8), (False, False), latent_channels=2, norm_num_groups=2)
    )
    mean, deviation = kl.encode(x)
    result["latent"] = [mean, deviation, kl.decode(mean)]
    masked = fill(
        nets.MaskedAutoEncoderViT(
            1,
            16,
            8,
            24,
            48,
            1,
            3,
            decoder_hidden_size=12,
            decoder_mlp_dim=24,
            decoder_num_layers=1,
            decoder_num_heads=2,
            spatial_dims=2,
        )
    )
    torch.manual_seed(2)
    result["masked"] = masked(x)
    variational = fill(nets.VarAutoEncoder(2, (1, 16, 16), 1, 3, (4, 8), (2, 2)))
    torch.manual_seed(3)
    result["variational"] = variational(x)
    transformer = fill(nets.DecoderOnlyTransformer(10, 8, 12, 2, 2))
    result["language"] = transformer(integers(10, 2, 7))
    return result


@client.case
def parts_of_networks():
    seeded()
    x, result = normal(2, 4, 8, 8), {}
    for name, block in {
        "convolution": blocks.Convolution(
            2, 4, 6, act="prelu", norm="instance", adn_ordering="NDA", dropout=0.0
        ),
        "residual": blocks.ResidualUnit(2, 4, 6, strides=2, subunits=2),
        "squeeze": blocks.ChannelSELayer(2, 4),
        "aspp": blocks.SimpleASPP(2, 4, 4),
        "upsampled": blocks.UpSample(2, 4, 4, 2, mode="pixelshuffle"),
        "upsampled plainly": blocks.UpSample(2, 4, 6, 2, mode="nontrainable"),
        "subpixel": blocks.SubpixelUpsample(2, 4, 4, 2),
        "downsampled": blocks.MaxAvgPool(2, 2),
        "dynamic": blocks.UnetResBlock(2, 4, 6, 3, 2, "instance"),
        "gaussian": layers.GaussianFilter(2, 1.2, approx="erf"),
        "gaussian trained": layers.GaussianFilter(2, [1.0, 0.7], approx="scalespace", requires_grad=True),
        "savitzky": layers.SavitzkyGolayFilter(5, 2),
        "median": layers.MedianFilter(1, spatial_dims=2),
        "mean": layers.MeanFilter(2, 3),
        "laplace": layers.LaplaceFilter(2, 3),
        "flat": layers.Flatten(),
        "mlp": blocks.MLPBlock(8, 12, dropout_rate=0.0),
        "patches": blocks.PatchEmbeddingBlock(4, (8, 8), (4, 4), 12, 3, spatial_dims=2),
        "downsampled with convolution": blocks.SpatialAttentionBlock(2, 4, 2),
    }.items():
        given = x.clone().requires_grad_()
        result[name] = learnt(fill(block), block(given), given)
    attention = fill(blocks.SABlock(12, 3, qkv_bias=True))
    tokens = normal(2, 5, 12).requires_grad_()
    result["attention"] = learnt(attention, attention(tokens), tokens)
    crossed = fill(blocks.CrossAttentionBlock(12, 3))
    result["crossed"] = learnt(crossed, crossed(tokens, normal(2, 7, 12)))
    warp = blocks.Warp("bilinear", "border")
    field = (normal(2, 2, 8, 8) * 0.7).requires_grad_()
    result["warped"] = learnt(warp, warp(x, field), field)
    result["integrated"] = blocks.DVF2DDF(num_steps=3)(field.detach() * 0.3)
    result["moved"] = layers.AffineTransform((8, 8))(x, torch.tensor([[0.9, 0.1, 0.2], [-0.1, 1.1, 0.0]]))
    result["pulled"] = layers.gaussian_1d(torch.tensor(1.3), 3.0, "sampled")
    return result


# Losses and metrics -----------------------------------------------------------------------------------------------------------

LOSSES = {
    "dice": lambda: losses.DiceLoss(sigmoid=True),
    "dice softmax": lambda: losses.DiceLoss(softmax=True, to_onehot_y=True, include_background=False),
    "dice squared": lambda: losses.DiceLoss(softmax=True, to_onehot_y=True, squared_pred=True, jaccard=True),
    "dice batch": lambda: losses.DiceLoss(softmax=True, to_onehot_y=True, batch=True, reduction="sum"),
    "generalized": lambda: losses.GeneralizedDiceLoss(softmax=True, to_onehot_y=True),
    "wasserstein": lambda: losses.GeneralizedWassersteinDiceLoss(1.0 - np.eye(3)),
    "dice and entropy": lambda: losses.DiceCELoss(
        softmax=True, to_onehot_y=True, weight=torch.tensor([1.0, 2, 3])
    ),
    "dice and focal": lambda: losses.DiceFocalLoss(softmax=True, to_onehot_y=True, lambda_focal=0.5),
    "generalized and focal": lambda: losses.GeneralizedDiceFocalLoss(softmax=True, to_onehot_y=True),
    "focal": lambda: losses.FocalLoss(to_onehot_y=True, gamma=2.0, alpha=0.3),
    "focal softmax": lambda: losses.FocalLoss(to_onehot_y=True, use_softmax=True, weight=[0.2, 0.3, 0.5]),
    "tversky": lambda: losses.TverskyLoss(softmax=True, to_onehot_y=True, alpha=0.3, beta=0.7),
    "hausdorff": lambda: losses.HausdorffDTLoss(softmax=True, to_onehot_y=True),
    "hausdorff logs": lambda: losses.LogHausdorffDTLoss(softmax=True, to_onehot_y=True),
    "unified": lambda: losses.AsymmetricUnifiedFocalLoss(num_classes=3, to_onehot_y=True),
    "centre lines": lambda: losses.SoftclDiceLoss(iter_=2),
    "dice of centre lines": lambda: losses.SoftDiceclDiceLoss(iter_=2),
    "masked": lambda: losses.MaskedDiceLoss(softmax=True, to_onehot_y=True),
    "nacl": lambda: losses.NACLLoss(3, 2),
}


@client.case
def losses_of_segments():
    labels, result = integers(3, 2, 1, 8, 9), {}
    for name, make in LOSSES.items():
        x, y, loss, more = normal(2, 3, 8, 9).requires_grad_(), labels, make(), {}
        given = x
        if name == "unified":
            given = x.softmax(1)
        if "centre" in name:
            given, y = x.softmax(1), monai.networks.one_hot(labels, 3)
        if name == "dice":
            y = monai.networks.one_hot(labels, 3)
        if name == "masked":
            more = {"mask": integers(2, 2, 1, 8, 9, seed=4).float()}
        if name == "nacl":
            y = labels[:, 0]
        value = loss(given, y, **more)
        value.backward()
        result[name] = [value, x.grad]
    return result


@client.case
def losses_of_images():
    seeded()
    a, b, result = normal(2, 1, 16, 16).sigmoid(), normal(2, 1, 16, 16, seed=1).sigmoid(), {}
    for name, loss in {
        "ssim": losses.SSIMLoss(2, win_size=7),
        "local correlation": losses.LocalNormalizedCrossCorrelationLoss(2, 5),
        "local correlation gaussian": losses.LocalNormalizedCrossCorrelationLoss(2, 5, "gaussian"),
        "information": losses.GlobalMutualInformationLoss(num_bins=8),
        "information of splines": losses.GlobalMutualInformationLoss("b-spline", num_bins=8),
        "scales": losses.MultiScaleLoss(losses.SSIMLoss(2, win_size=3), scales=[0, 1]),
        "spectrum": losses.JukeboxLoss(2),
        "patches": losses.PatchAdversarialLoss(),
    }.items():
        x = a.clone().requires_grad_()
        value = loss(x, True, for_discriminator=False) if name == "patches" else loss(x, b)
        value.backward()
        result[name] = [value, x.grad]
    for name, loss in {
        "bending": losses.BendingEnergyLoss(normalize=True),
        "diffusion": losses.DiffusionLoss(),
    }.items():
        field = normal(2, 2, 10, 10).requires_grad_()
        value = loss(field)
        value.backward()
        result[name] = [value, field.grad]
    for name, loss in {
        "contrastive": losses.ContrastiveLoss(0.5),
        "twins": losses.BarlowTwinsLoss(0.01),
    }.items():
        z = normal(4, 6).requires_grad_()
        value = loss(z, normal(4, 6, seed=2))
        value.backward()
        result[name] = [value, z.grad]
    boxes = torch.tensor([[1.0, 2, 6, 8], [0, 0, 3, 3]], requires_grad=True)
    value = losses.BoxGIoULoss()(boxes, torch.tensor([[2.0, 2, 7, 7], [1, 1, 4, 5]]))
    value.backward()
    result["boxes"] = [value, boxes.grad]
    return result


def segmented(shape=(2, 3, 10, 12)):
    """Two segmentations of the same picture, one-hot."""
    results = []
    for seed in range(2):
        smooth = torch.nn.functional.avg_pool2d(
            normal(*shape, seed=9) + 0.4 * normal(*shape, seed=seed), 3, 1, 1
        )
        results.append(monai.networks.one_hot(smooth.argmax(1, keepdim=True), shape[1]))
    return results


METRICS = {
    "dice": lambda: metrics.DiceMetric(include_background=False),
    "dice by class": lambda: metrics.DiceMetric(reduction="mean_batch", get_not_nans=True),
    "generalized": lambda: metrics.GeneralizedDiceScore(),
    "iou": lambda: metrics.MeanIoU(),
    "hausdorff": lambda: metrics.HausdorffDistanceMetric(include_background=True),
    "hausdorff 95": lambda: metrics.HausdorffDistanceMetric(percentile=95, directed=True),
    "surface": lambda: metrics.SurfaceDistanceMetric(symmetric=True, include_background=True),
    "surface dice": lambda: metrics.SurfaceDiceMetric([1.0, 1.0]),
    "confusion": lambda: metrics.ConfusionMatrixMetric(
        metric_name=["sensitivity", "precision", "f1 score", "matthews correlation coefficient"]
    ),
    "f beta": lambda: metrics.FBetaScore(beta=2.0),
    "loss": lambda: metrics.LossMetric(losses.DiceLoss()),
}


@client.case
def metrics_of_segments():
    results = {}
    for name, make in METRICS.items():
        metric = make()
        a, b = segmented()
        metric(a, b)
        metric(y_pred=b.flip(-1), y=b)
        results[name] = [metric.aggregate(), metric.get_buffer()]
    return results


@client.case
def metrics_of_images_and_classes():
    a, b = normal(3, 1, 16, 16).sigmoid(), normal(3, 1, 16, 16, seed=1).sigmoid()
    results = {}
    for name, metric in {
        "mse": metrics.MSEMetric(),
        "mae": metrics.MAEMetric(),
        "rmse": metrics.RMSEMetric(),
        "psnr": metrics.PSNRMetric(max_val=1.0),
        "ssim": metrics.SSIMMetric(2, win_size=7),
        "multi-scale ssim": metrics.MultiScaleSSIMMetric(2, kernel_size=3, weights=(0.5, 0.5)),
    }.items():
        metric(a, b)
        results[name] = metric.aggregate()
    scores, classes = normal(12, 3).softmax(-1), torch.nn.functional.one_hot(integers(3, 12), 3)
    for name, metric in {
        "roc": metrics.ROCAUCMetric(),
        "precision": metrics.AveragePrecisionMetric(),
    }.items():
        metric(list(scores), list(classes))
        results[name] = metric.aggregate()
    results["mmd"] = 1 + metrics.MMDMetric()(a, b)
    results["fid"] = metrics.FIDMetric()(normal(20, 4).double(), normal(20, 4, seed=1).double())
    results["variance"] = metrics.VarianceMetric()(normal(4, 3, 5, 5))
    sums = metrics.CumulativeAverage()
    for k in range(3):
        sums.append(torch.tensor([1.0 + k, 2.0]), count=2)
    results["average"] = sums.aggregate()
    edges = metrics.utils.get_mask_edges(segmented()[0][0, 1], segmented()[1][0, 1])
    results["edges"] = [np.asarray(e).sum() for e in edges]
    return results


# Transforms -------------------------------------------------------------------------------------------------------------------


def volume(seed=0):
    affine = torch.diag(torch.tensor([1.5, 2.0, 1.0, 1.0], dtype=torch.float64))
    affine[:3, 3] = torch.tensor([-4.0, 3.0, 1.0])
    return MetaTensor(normal(1, 9, 10, 8, seed=seed) + 1.0, affine=affine)


def described(x):
    """A transform's result: numbers, and where they lie."""
    if isinstance(x, MetaTensor):
        return [type(x).__name__, x.as_tensor(), x.affine]
    if isinstance(x, dict):
        return {str(key): described(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [described(value) for value in x]
    return x


T = transforms
SPATIAL = {
    "Spacing": lambda: T.Spacing((1.0, 1.0, 2.0)),
    "Spacing nearest": lambda: T.Spacing((2.1, 2.6, 1.0), mode="nearest", diagonal=True),
    "Spacing spline": lambda: T.Spacing((1.2, 1.5, 1.0), mode=3, padding_mode="mirror"),
    "SpatialResample": lambda: T.SpatialResample(),
    "Flip": lambda: T.Flip((0, 2)),
    "Rotate": lambda: T.Rotate((0.2, -0.1, 0.3), keep_size=True),
    "Rotate larger": lambda: T.Rotate((0.4, 0.0, 0.0), keep_size=False, padding_mode="zeros"),
    "Rotate90": lambda: T.Rotate90(k=1, spatial_axes=(0, 2)),
    "Zoom": lambda: T.Zoom(1.3, mode="trilinear", align_corners=True),
    "Zoom smaller": lambda: T.Zoom(0.6, mode="area"),
    "Resize": lambda: T.Resize((5, 12, 8), mode="trilinear", anti_aliasing=True),
    "Resize nearest": lambda: T.Resize((6, 6, 6), mode="nearest-exact"),
    "Affine": lambda: T.Affine(
        rotate_params=(0.1, 0.2, 0.0),
        scale_params=(1.1, 0.9, 1.0),
        translate_params=(1, 0.5, 0),
        image_only=True,
    ),
    "GridDistortion": lambda: T.GridDistortion(3, [[0.1, -0.2, 0.1, 0.0]] * 3),
    "SpatialPad": lambda: T.SpatialPad((12, 12, 12), mode="reflect"),
    "BorderPad": lambda: T.BorderPad([1, 2, 0], mode="edge"),
    "DivisiblePad": lambda: T.DivisiblePad(4, constant_values=2.0),
    "CenterSpatialCrop": lambda: T.CenterSpatialCrop((4, 5, 6)),
    "SpatialCrop": lambda: T.SpatialCrop(roi_center=(4, 5, 4), roi_size=(4, 4, 4)),
    "CropForeground": lambda: T.CropForeground(select_fn=lambda x: x > 2.5, margin=1),
    "ResizeWithPadOrCrop": lambda: T.ResizeWithPadOrCrop((6, 12, 8)),
    "CenterScaleCrop": lambda: T.CenterScaleCrop(0.6),
    "GridPatch": lambda: T.GridPatch((4, 4, 4), pad_mode="constant"),
    "Transpose": lambda: T.Transpose((0, 2, 1, 3)),
}
INTENSITY = {
    "ScaleIntensity": lambda: T.ScaleIntensity(-1.0, 1.0),
    "ScaleIntensity by channel": lambda: T.ScaleIntensity(channel_wise=True),
    "ScaleIntensityRange": lambda: T.ScaleIntensityRange(0.0, 2.0, 0.0, 1.0, clip=True),
    "ScaleIntensityRangePercentiles": lambda: T.ScaleIntensityRangePercentiles(5, 95, 0.0, 1.0, clip=True),
    "NormalizeIntensity": lambda: T.NormalizeIntensity(nonzero=True, channel_wise=True),
    "ShiftIntensity": lambda: T.ShiftIntensity(0.7),
    "StdShiftIntensity": lambda: T.StdShiftIntensity(1.5),
    "ThresholdIntensity": lambda: T.ThresholdIntensity(0.5, above=False, cval=0.5),
    "ClipIntensityPercentiles": lambda: T.ClipIntensityPercentiles(10, 90),
    "AdjustContrast": lambda: T.AdjustContrast(1.7),
    "GaussianSmooth": lambda: T.GaussianSmooth((1.0, 0.5, 0.7)),
    "GaussianSharpen": lambda: T.GaussianSharpen(),
    "MedianSmooth": lambda: T.MedianSmooth(1),
    "SavitzkyGolaySmooth": lambda: T.SavitzkyGolaySmooth(5, 2, axis=2),
    "HistogramNormalize": lambda: T.HistogramNormalize(num_bins=16),
    "GibbsNoise": lambda: T.GibbsNoise(0.6),
    "KSpaceSpikeNoise": lambda: T.KSpaceSpikeNoise((0, 3, 4, 2), 8.0),
    "DetectEnvelope": lambda: T.DetectEnvelope(2),
    "ForegroundMask": lambda: T.ForegroundMask(threshold=0.9),
    "SobelGradients": lambda: T.SobelGradients(3, spatial_axes=(0, 1)),
}
RANDOM = {
    "RandFlip": lambda: T.RandFlip(0.9, 1),
    "RandAxisFlip": lambda: T.RandAxisFlip(0.9),
    "RandRotate90": lambda: T.RandRotate90(0.9, 3, (0, 1)),
    "RandRotate": lambda: T.RandRotate(0.4, 0.2, 0.1, prob=1.0, padding_mode="zeros"),
    "RandZoom": lambda: T.RandZoom(1.0, 0.8, 1.3),
    "RandAffine": lambda: T.RandAffine(
        1.0, (0.2, 0.1, 0.1), (0.1, 0, 0), (1.0, 1.0, 0), (0.1, 0.1, 0.1), padding_mode="border"
    ),
    "Rand3DElastic": lambda: T.Rand3DElastic((1, 2), (0.5, 1.0), 1.0, (0.1, 0.1, 0.1), padding_mode="zeros"),
    "RandGridDistortion": lambda: T.RandGridDistortion(3, 1.0),
    "RandSpatialCrop": lambda: T.RandSpatialCrop((4, 4, 4), random_size=False),
    "RandSpatialCropSamples": lambda: T.RandSpatialCropSamples((4, 4, 4), 3, random_size=False),
    "RandScaleCrop": lambda: T.RandScaleCrop(0.5, random_size=True),
    "RandGaussianNoise": lambda: T.RandGaussianNoise(1.0, 0.1, 0.3),
    "RandRicianNoise": lambda: T.RandRicianNoise(1.0, 0.1, 0.3),
    "RandShiftIntensity": lambda: T.RandShiftIntensity(0.4, prob=1.0),
    "RandScaleIntensity": lambda: T.RandScaleIntensity(0.4, prob=1.0),
    "RandBiasField": lambda: T.RandBiasField(2, (0.0, 0.3), prob=1.0),
    "RandAdjustContrast": lambda: T.RandAdjustContrast(1.0, (0.5, 2.0)),
    "RandGaussianSmooth": lambda: T.RandGaussianSmooth(prob=1.0),
    "RandGaussianSharpen": lambda: T.RandGaussianSharpen(prob=1.0),
    "RandHistogramShift": lambda: T.RandHistogramShift(6, 1.0),
    "RandGibbsNoise": lambda: T.RandGibbsNoise(1.0),
    "RandCoarseDropout": lambda: T.RandCoarseDropout(2, (3, 3, 3), fill_value=0.0, prob=1.0),
    "RandCoarseShuffle": lambda: T.RandCoarseShuffle(2, (3, 3, 3), prob=1.0),
    "RandStdShiftIntensity": lambda: T.RandStdShiftIntensity(0.5, 1.0),
    "RandKSpaceSpikeNoise": lambda: T.RandKSpaceSpikeNoise(1.0, (5.0, 8.0)),
    "RandSimulateLowResolution": lambda: T.RandSimulateLowResolution(1.0),
    "RandSmoothFieldAdjustContrast": lambda: T.RandSmoothFieldAdjustContrast((9, 10, 8), (3, 3, 3), prob=1.0),
    "RandGridPatch": lambda: T.RandGridPatch((4, 4, 4), num_patches=2),
}


def transformed(make):
    def run():
        seeded(3)
        transform = make()
        if isinstance(transform, T.Randomizable):
            transform.set_random_state(seed=5)
        result = transform(volume())
        undone = None
        if isinstance(transform, T.InvertibleTransform) and isinstance(result, MetaTensor):
            undone = transform.inverse(result)
        plain = make()
        if isinstance(plain, T.Randomizable):
            plain.set_random_state(seed=6)
        return [described(result), described(undone), described(plain(np.asarray(normal(1, 9, 10, 8))))]

    return run


for table in (SPATIAL, INTENSITY, RANDOM):
    for name, make in table.items():
        client.case(transformed(make), name=f"transform: {name}")


@client.case
def transforms_of_labels():
    seeded()
    a, _ = segmented((1, 3, 10, 12))
    scores, label = normal(3, 10, 12), a[0].argmax(0, keepdim=True)
    results = {
        "discrete": [T.AsDiscrete(argmax=True, to_onehot=3)(scores), T.AsDiscrete(threshold=0.2)(scores)],
        "activations": [T.Activations(softmax=True)(scores), T.Activations(sigmoid=True)(scores)],
        "filled": T.FillHoles()(label),
        "filtered": T.LabelFilter([1])(label),
        "contour": T.LabelToContour()(label.float()),
        "mean ensemble": T.MeanEnsemble([0.3, 0.7])([scores, scores.flip(0)]),
        "votes": T.VoteEnsemble(num_classes=3)([label, label.flip(-1), label]),
        "suppressed": T.ProbNMS(prob_threshold=0.6, box_size=3)(scores[0].sigmoid()),
        "mask": T.MaskIntensity()(scores, label > 0),
        "mapped": T.MapLabelValue([0, 1], [5, 7])(label),
        "to mask": T.LabelToMask([1, 2])(label),
        "classes": T.ConvertToMultiChannelBasedOnBratsClasses()(integers(5, 4, 5, 6)),
        "distances": T.utils.distance_transform_edt(label.float()),
        "shown": T.FgBgToIndices()(label),
        "joined": T.ConcatItemsd(["a", "b"], "c")({"a": scores, "b": label.float()})["c"],
        "stacked": T.SplitDim(0)(scores),
        "cast": [T.CastToType(torch.int32)(scores), T.ToNumpy()(scores), T.EnsureType()(np.ones((2, 2)))],
        "channels": [T.EnsureChannelFirst(channel_dim=-1)(normal(4, 5, 2)), T.RepeatChannel(2)(scores[:1])],
        "statistics": T.IntensityStats(["mean", "std", "max"], "all")(scores)[1],
    }
    return described(results)


@client.case
def transforms_of_dictionaries():
    seeded()
    data = {"image": volume(), "label": (volume(1) > 1.2).float()}
    both = ["image", "label"]
    chain = T.Compose(
        [
            T.Spacingd(both, (1.4, 1.7, 1.2), mode=("bilinear", "nearest")),
            T.ScaleIntensityRanged("image", 0.0, 2.0, 0.0, 1.0, clip=True),
            T.CropForegroundd(both, "label", allow_smaller=True),
            T.SpatialPadd(both, (8, 8, 8)),
            T.RandCropByPosNegLabeld(both, "label", (6, 6, 6), 1, 1, 2),
            T.RandFlipd(both, 0.5, 0),
            T.RandRotate90d(both, 0.5, 2, (0, 1)),
            T.RandAffined(both, prob=0.7, rotate_range=(0.2, 0.1, 0.1), mode=("bilinear", "nearest")),
            T.RandShiftIntensityd("image", 0.1, prob=0.5),
            T.EnsureTyped(both),
        ]
    ).set_random_state(seed=7)
    samples = chain(data)
    lazy = T.Compose(
        [
            T.Spacingd(both, (1.1, 1.3, 0.9), mode=("bilinear", "nearest")),
            T.Rotate90d(both, 1, (0, 1)),
            T.Zoomd(both, 1.2),
            T.CenterSpatialCropd(both, (6, 6, 6)),
        ],
        lazy=True,
    )
    together = lazy({"image": volume(), "label": volume(1)})
    chosen = T.OneOf(
        [T.ScaleIntensity(), T.ShiftIntensity(2.0), T.Flip(0)], [0.2, 0.5, 0.3]
    ).set_random_state(1)
    shuffled = T.RandomOrder([T.ScaleIntensity(), T.ShiftIntensity(2.0)]).set_random_state(2)
    invertible = T.Compose(
        [T.Spacingd("image", (1.0, 1.0, 1.0)), T.Flipd("image", 1), T.Rotated("image", 0.2)]
    )
    there = invertible({"image": volume()})
    back = invertible.inverse(there)
    return [
        [{key: described(sample[key]) for key in both} for sample in samples],
        {key: described(together[key]) for key in both},
        [described(chosen(volume())) for _ in range(3)],
        described(shuffled(volume())),
        described(there["image"]),
        described(back["image"]),
    ]


@client.case
def meta_tensors():
    """Tensors that know where they lie, through indexing, functions, batches and pickles."""
    import copy
    import pickle

    x = volume()
    y = x + 1
    batch = next(iter(DataLoader(Dataset([volume(k) for k in range(3)]), batch_size=3)))
    parts = decollate_batch(batch)
    again = pickle.loads(pickle.dumps(x))
    deep = copy.deepcopy(x)
    moved = x.new_empty((2, 2))
    stacked = torch.stack([x, volume(1)])
    return [
        described([x, y, x[0], x[:, 2:5], x.mean(), torch.cat([x, y]), again, deep]),
        [type(moved).__name__, type(x.numpy()).__name__, type(x > 1).__name__, type(stacked).__name__],
        [batch.shape, batch.affine, len(batch.applied_operations), batch.is_batch],
        described(parts),
        [x.pixdim, x.peek_pending_shape(), x.meta["space"] if "space" in x.meta else None],
        described([x.as_dict("im")["im"], x.clone().requires_grad_().sigmoid()]),
        [isinstance(torch.nn.Conv3d(1, 1, 1)(x[None]), MetaTensor), repr(x.astype(np.float64).dtype)],
        [type(a).__name__ for a in x.unbind(1)[:2]],
        described(batch[1]),
        described([a for a in batch][0]),
    ]


# Inference, data, training ----------------------------------------------------------------------------------------------------


@client.case
def windows():
    """Volumes predicted by overlapping windows, with constant and Gaussian weights, several outputs, and sizes that do not fit."""
    seeded()
    net = fill(nets.UNet(2, 1, 2, (4, 8), (2,), num_res_units=1)).eval()
    x = normal(1, 1, 37, 29)
    with torch.no_grad():
        results = [
            sliding_window_inference(x, (16, 16), 3, net, overlap=overlap, mode=mode, padding_mode=pad)
            for overlap, mode, pad in (
                (0.25, "constant", "constant"),
                (0.5, "gaussian", "reflect"),
                ((0.1, 0.6), "gaussian", "replicate"),
            )
        ]
        several = sliding_window_inference(
            x, (16, 20), 2, lambda w: {"a": net(w), "b": torch.nn.functional.avg_pool2d(w, 2)}, 0.3
        )
        results += [
            several["a"],
            several["b"],
            SlidingWindowInferer((24, 24), 2, 0.4, progress=False)(x, net),
        ]
        results.append(SimpleInferer()(x[..., :16, :16], net))
        buffered = SlidingWindowInferer((16, 16), 4, 0.5, buffer_steps=1, buffer_dim=-1)
        results.append(buffered(normal(1, 1, 32, 32), net))
    return results


@client.case
def datasets_and_loaders():
    seeded()
    items = [{"image": np.asarray(normal(1, 6, 6, seed=k)), "label": k % 2} for k in range(6)]
    chain = T.Compose(
        [T.ScaleIntensityd("image"), T.RandFlipd("image", 0.5, 0), T.RandGaussianNoised("image", 1.0)]
    )
    cached = CacheDataset(items, chain, cache_rate=0.5, progress=False)
    results = []
    for batch in DataLoader(cached, batch_size=4, shuffle=True):
        results.append([batch["image"], batch["label"], type(batch["image"]).__name__])
    smart = monai.data.SmartCacheDataset(
        items, chain, replace_rate=0.5, cache_num=4, progress=False, shuffle=False
    )
    results.append([smart[k]["label"] for k in range(len(smart))])
    patches = monai.data.GridPatchDataset(
        [np.asarray(normal(1, 8, 8, seed=k)) for k in range(2)],
        monai.data.PatchIter((4, 4), (0, 0)),
        with_coordinates=False,
    )
    results += [batch for batch in DataLoader(patches, batch_size=3)]
    parts = monai.data.partition_dataset(list(range(10)), ratios=[6, 4], shuffle=True, seed=1)
    results += [np.array(part) for part in parts]
    results.append(monai.data.utils.compute_importance_map((5, 6), "gaussian", 0.2))
    picture, label = monai.data.create_test_image_2d(
        24, 24, 3, 7, 3, num_seg_classes=2, random_state=np.random.RandomState(0)
    )
    results += [picture, label]
    tiles = monai.data.utils.iter_patch_slices((9, 9), (4, 4), overlap=0.5)
    results.append([[s.start for s in tile] for tile in tiles])
    return results


@client.case
def optimizers_and_engines():
    seeded()
    net = fill(nets.FullyConnectedNet(4, 2, (6,), dropout=0.0))
    groups = monai.optimizers.generate_param_groups(net, [lambda n: n.output], ["select"], [0.1])
    results = [[len(list(g["params"])) for g in groups]]
    for optimizer in (monai.optimizers.Novograd(net.parameters(), lr=0.01, weight_decay=0.01, amsgrad=True),):
        losses_seen = []
        for k in range(5):
            optimizer.zero_grad()
            loss = net(normal(8, 4, seed=k)).square().mean()
            loss.backward()
            optimizer.step()
            losses_seen.append(loss.item())
        results.append(losses_seen)
    schedule = monai.optimizers.WarmupCosineSchedule(torch.optim.SGD(net.parameters(), 0.1), 3, 10)
    rates = []
    for _ in range(10):
        schedule.optimizer.step()
        schedule.step()
        rates.append(schedule.get_last_lr()[0])
    results.append(rates)
    averaged = monai.networks.utils.copy_model_state(nets.FullyConnectedNet(4, 2, (6,)), net)[0]
    results.append({key: averaged[key] for key in sorted(averaged)})
    maps = monai.visualize.GradCAM(fill(nets.DenseNet(2, 1, 3, 8, 4, (2, 2), 2)), "class_layers.relu")(
        normal(1, 1, 32, 32)
    )
    results.append(maps)
    results.append(monai.networks.utils.predict_segmentation(normal(2, 3, 4, 4), mutually_exclusive=True))
    return results


@client.case
def schedules_of_noise():
    from monai.networks.schedulers import DDIMScheduler, DDPMScheduler, PNDMScheduler

    seeded()
    result, x, noise = [], normal(1, 1, 8, 8), normal(1, 1, 8, 8, seed=1)
    for make in (DDPMScheduler, DDIMScheduler, PNDMScheduler):
        scheduler = make(num_train_timesteps=50, schedule="scaled_linear_beta")
        scheduler.set_timesteps(10)
        result.append(scheduler.add_noise(x, noise, torch.tensor([20])))
        state = noise
        torch.manual_seed(0)
        for step in scheduler.timesteps[:4]:
            state = scheduler.step(0.3 * state, int(step), state)[0]
        result.append(state)
    return result


@client.case
def training():
    """A UNet that learns discs from cached patches with Dice and cross entropy, validated by windows."""
    seeded()
    items = []
    for k in range(4):
        picture, label = monai.data.create_test_image_2d(
            32, 32, 4, 8, num_seg_classes=1, random_state=np.random.RandomState(k)
        )
        items.append({"image": picture[None].astype(np.float32), "label": label[None].astype(np.float32)})
    chain = T.Compose(
        [
            T.ScaleIntensityd("image"),
            T.RandCropByPosNegLabeld(["image", "label"], "label", (16, 16), 1, 1, 2),
            T.RandRotate90d(["image", "label"], 0.5),
            T.EnsureTyped(["image", "label"]),
        ]
    ).set_random_state(0)
    loader = DataLoader(CacheDataset(items, chain, progress=False), batch_size=2, shuffle=True)
    net = nets.UNet(2, 1, 2, (4, 8, 16), (2, 2), num_res_units=1)
    loss_of, seen = losses.DiceCELoss(softmax=True, to_onehot_y=True), []
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(3):
        for batch in loader:
            optimizer.zero_grad()
            loss = loss_of(net(batch["image"]), batch["label"])
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
    dice = metrics.DiceMetric(include_background=False)
    discrete = T.AsDiscrete(argmax=True, to_onehot=2)
    net.eval()
    with torch.no_grad():
        for item in items[:2]:
            x = torch.as_tensor(item["image"])[None]
            out = sliding_window_inference(x, (16, 16), 4, net)
            dice([discrete(o) for o in out], [T.AsDiscrete(to_onehot=2)(torch.as_tensor(item["label"]))])
    return [seen, out, dice.aggregate()]
