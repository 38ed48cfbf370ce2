"""Forests for other programs: ONNX, plain trees as JSON, and trees for the package shap."""

from amforest.export.onnx_model import to_onnx
from amforest.export.tree_json import to_json
from amforest.export.treeshap import to_treeshap

__all__ = ["to_json", "to_onnx", "to_treeshap"]
