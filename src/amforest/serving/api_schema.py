"""OpenAPI: what the requests and the answers look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amforest._forest.limits import LARGEST_FEATURE

Schema = dict[str, Any]

_ROW: Schema = {
    "type": "object",
    "description": "Values by the names of columns. Others than the model's are ignored, absent "
    "ones are missing values.",
}
_LABEL: Schema = {
    "description": "A class, or a number in regression.",
    "oneOf": [
        {"type": "number"},
        {"type": "boolean"},
        {"type": "string", "minLength": 1, "maxLength": 1000},
    ],
}
_REFERENCE: Schema = {"$ref": "#/components/schemas/Row"}
_ROWS: Schema = {"type": "array", "items": _REFERENCE, "minItems": 1}
_LABELLED: Schema = {
    "type": "array",
    "items": {"$ref": "#/components/schemas/LabelledRow"},
    "minItems": 1,
}
_EXAMPLE = {"page": "shoes", "device": "phone", "basket": 25.0}
_MISSING = r"\?|NA|N/A|n/a|NaN|nan|null|NULL|None|<NA>|"
_DIGITS = r"[+-]?([0-9]{1,15}(\.[0-9]{0,15})?)([eE][+-]?[0-9])?"
_KINDS: dict[str, Schema] = {
    "number": {
        "anyOf": [
            {"type": "number", "minimum": -LARGEST_FEATURE, "maximum": LARGEST_FEATURE},
            {"type": "string", "pattern": rf"^({_DIGITS}|{_MISSING})$"},
        ]
    },
    "category": {
        "anyOf": [
            {"type": "string", "maxLength": 1000},
            {"type": "number"},
            {"type": "boolean"},
        ]
    },
    "bool": {
        "anyOf": [
            {"type": "boolean"},
            {"type": "string", "pattern": rf"^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|{_MISSING})$"},
        ]
    },
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
}


def describe_rows(kinds: Mapping[str, str], target: str) -> Schema:
    """Return the schemas of rows, as far as the columns are known: by their kinds."""
    columns = {
        name: {**_KINDS[kind], "nullable": True} for name, kind in kinds.items() if name != target
    }
    row = {**_ROW, "properties": columns}
    labelled = {**_ROW, "properties": {**columns, target: _LABEL}, "required": [target]}
    return {"Row": row, "LabelledRow": labelled, "Problem": PROBLEM}


def _object(properties: Schema, *required: str, example: Any = None) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    if example is not None:
        schema["example"] = example
    return schema


def _body(schema: Schema, *, has_formats: bool) -> Schema:
    content: Schema = {"application/json": {"schema": schema}}
    if has_formats:
        content["application/x-ndjson"] = {
            "schema": {"type": "string", "description": "A row of JSON in each line."}
        }
        content["application/vnd.apache.arrow.stream"] = {
            "schema": {"type": "string", "format": "binary"}
        }
    return {"required": True, "content": content}


def _answer(text: str, schema: Schema) -> Schema:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


PROBLEM: Schema = _object(
    {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string"},
        "errors": {
            "type": "array",
            "items": _object(
                {"field": {"type": "string"}, "detail": {"type": "string"}}, "field", "detail"
            ),
        },
    },
    "type",
    "title",
    "status",
    "detail",
)
_PROBLEMS = {
    400: "The body cannot be parsed.",
    401: "There is no token, or it is not valid.",
    403: "The token does not permit this.",
    404: "There is nothing with this id or path.",
    405: "The method is another one.",
    408: "The body came too slowly.",
    409: "The model has learned nothing yet.",
    413: "The body or its number of rows is too large.",
    415: "The content type is another one.",
    421: "The server does not answer to this host.",
    422: "Values do not fit the model.",
    429: "The queue is full: see Retry-After.",
    500: "An error of the server.",
    503: "The server is starting or shutting down.",
    507: "The disk is full.",
}


def problems(*statuses: int) -> Schema:
    """Return the answers to requests that are refused."""
    schema = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        str(status): {"description": _PROBLEMS[status], "content": schema}
        for status in (*statuses, 401, 421, 500)
    }


_ONE = _object({"row": _REFERENCE}, "row", example={"row": _EXAMPLE})
_MANY = _object({"rows": _ROWS}, "rows", example={"rows": [_EXAMPLE]})
_LEARN_ONE = _object({"row": _REFERENCE, "label": _LABEL}, "row", "label")
_LEARN_MANY = _object(
    {"rows": _ROWS, "labels": {"type": "array", "items": _LABEL, "minItems": 1}}, "rows", "labels"
)
_LEARN_ROWS = _object({"rows": _LABELLED}, "rows")
_ONE["additionalProperties"] = _MANY["additionalProperties"] = False
_LEARN_ROWS["additionalProperties"] = False
_LEARN_ONE["additionalProperties"] = _LEARN_MANY["additionalProperties"] = False
_LEARN_MANY["example"] = {"rows": [_EXAMPLE], "labels": ["yes"]}

PREDICT_BODY = _body({"oneOf": [_MANY, _ONE, _ROWS]}, has_formats=True)
LEARN_BODY = _body({"oneOf": [_LEARN_MANY, _LEARN_ROWS, _LEARN_ONE, _LABELLED]}, has_formats=True)
_LABEL_ONE = _object({"id": {"type": "string"}, "label": _LABEL}, "id", "label")
_LABEL_MANY = _object(
    {
        "ids": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "labels": {"type": "array", "items": _LABEL, "minItems": 1},
    },
    "ids",
    "labels",
)
_LABEL_ONE["additionalProperties"] = _LABEL_MANY["additionalProperties"] = False
LABEL_BODY = _body({"oneOf": [_LABEL_ONE, _LABEL_MANY]}, has_formats=False)

PREDICTED = _answer(
    "The predictions, each with an id for its label.",
    _object(
        {
            "ids": {"type": "array", "items": {"type": "string"}},
            "predictions": {"type": "array", "items": _LABEL},
            "probabilities": {
                "type": "array",
                "items": {"type": "object", "additionalProperties": {"type": "number"}},
                "description": "Of each class; in classification.",
            },
            "intervals": {
                "type": "array",
                "items": {
                    "type": "array",
                    "items": {"type": "number"},
                    "minItems": 2,
                    "maxItems": 2,
                },
                "description": "Lower and upper ends that hold 90 % of the labels; in regression.",
            },
        },
        "ids",
        "predictions",
    ),
)
EXPLAINED = _answer(
    "What each column contributes: base values and contributions add up to the prediction.",
    _object(
        {
            "unit": {
                "type": "string",
                "enum": ["log-odds", "log-probability", "probability", "number"],
                "description": "What they add up to: log-odds are those of the only class in the "
                "answer; log-probabilities lack what makes the probabilities add up to 1.",
            },
            "bases": {
                "type": "array",
                "items": {},
                "description": "By class; in regression a number.",
            },
            "contributions": {
                "type": "array",
                "items": {"type": "object"},
                "description": "By class, then by column; in regression by column.",
            },
        },
        "unit",
        "bases",
        "contributions",
    ),
)
LEARNED = _answer(
    "The rows are learned.",
    _object(
        {
            "learned": {"type": "integer", "description": "Rows of this request."},
            "samples": {"type": "integer", "description": "Rows that the model has learned."},
        },
        "learned",
        "samples",
    ),
)
QUEUED = _answer("The rows will be learned.", _object({"queued": {"type": "integer"}}, "queued"))
MODEL = _answer("The model.", {"type": "object"})
HEALTH = _answer("The server runs.", _object({"status": {"type": "string"}}, "status"))
READY = _answer(
    "The server learns, and predicts if `can_predict`.",
    _object({"status": {"type": "string"}, "can_predict": {"type": "boolean"}}, "status"),
)
FIGURES: Schema = {
    "description": "Figures as Prometheus reads them.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}
SNAPSHOT: Schema = {
    "description": "The model file: `amforest predict` and `amforest serve` read it.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
WAIT: Schema = {
    "name": "wait",
    "in": "query",
    "required": False,
    "description": "false: answer 202 before the rows are learned, but with --durable after they "
    "are on the disk.",
    "schema": {"type": "string", "enum": ["true", "false"], "default": "true"},
}
