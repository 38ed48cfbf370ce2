"""A graph of ONNX, built node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise ImportError("to_onnx needs onnx: pip install 'amforest[onnx]'") from error

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
ML = "ai.onnx.ml"
Value = str  # the name of a tensor

_TYPES = {
    "float": TensorProto.FLOAT,
    "double": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
}


class Graph:
    """Collects nodes, constants, inputs and outputs; each call returns the name of its result."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, kind: str, width: int) -> Value:
        """Add an input of shape (rows, width)."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], [None, width]))
        return name

    def output(self, value: Value, name: str, kind: str, shape: list[int | None]) -> None:
        """Give a result a name of its own, as an output."""
        self._nodes.append(helper.make_node("Identity", [value], [name], name=name))
        self._outputs.append(helper.make_tensor_value_info(name, _TYPES[kind], shape))

    def constant(self, values: Any, dtype: Any = None) -> Value:
        """Add a constant tensor."""
        array = np.asarray(values, dtype=dtype)
        name = f"constant_{len(self._constants)}"
        if array.dtype.kind in "UO":
            texts: Any = [str(text) for text in array.ravel().tolist()]
            tensor = helper.make_tensor(name, TensorProto.STRING, list(array.shape), texts)
        else:
            tensor = numpy_helper.from_array(np.array(array, order="C"), name)
        self._constants.append(tensor)
        return name

    def add(self, operator: str, *inputs: Value, domain: str = "", **attributes: Any) -> Value:
        """Add a node with one output."""
        name = f"{operator}_{len(self._nodes)}"
        node = helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes)
        self._nodes.append(node)
        return name

    def cast(self, value: Value, kind: str) -> Value:
        """Convert a tensor to another type."""
        return self.add("Cast", value, to=_TYPES[kind])

    def columns(self, value: Value, which: NDArray[np.int64]) -> Value:
        """Select columns of a matrix."""
        return self.add("Gather", value, self.constant(which, np.int64), axis=1)

    def concat(self, values: list[Value]) -> Value:
        """Put matrices side by side."""
        return values[0] if len(values) == 1 else self.add("Concat", *values, axis=1)

    def to_model(self, name: str, metadata: dict[str, str]) -> Any:
        """Return the checked model."""
        graph = helper.make_graph(
            self._nodes, name, self._inputs, self._outputs, initializer=self._constants
        )
        model = helper.make_model(
            graph,
            producer_name="amforest",
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)],
        )
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model)
        return model
