"""Operators that are not read, and why."""

from __future__ import annotations

from .declare import refuse

refuse(
    "there are no tensors of strings here",
    "StringConcat",
    "StringSplit",
    "RegexFullMatch",
    "StringNormalizer",
    "TfIdfVectorizer",
)
refuse("files of images are read before the model", "ImageDecoder")
refuse("write Resize, which took its place in opset 10", "Upsample")
refuse("regions are read by RoiAlign", "MaxRoiPool")
refuse(
    "optimisers are modules of optim here",
    "Adagrad",
    "Adam",
    "Momentum",
    "Gradient",
    domain="ai.onnx.preview.training",
)
for _name in (
    "Binarizer",
    "ArrayFeatureExtractor",
    "LabelEncoder",
    "TreeEnsemble",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
):
    refuse(
        "trees, tables and kernels of classical learning are no operators of tensors",
        _name,
        domain="ai.onnx.ml",
    )
