"""What features contribute to predictions, with the attributes of `shap.Explanation`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amforest._forest.inputs import Given

_AXES = ("rows", "features", "classes")


class RowExplanation(NamedTuple):
    """What features contribute to the prediction of one row, for river.

    Attributes
    ----------
    base : float or dict
        The base value; where several classes have values, one for each.
    contributions : dict
        The contribution of each feature, by its name; where several classes have values, such a
        dict for each.
    """

    base: Any
    contributions: dict[Any, Any]


@dataclass(frozen=True, eq=False)
class Explanation:
    """What features contribute to predictions: with the base values they add up to these.

    It has the attributes of `shap.Explanation`, and is sliced as that is: by rows, features and
    classes; features also by name, classes by label.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features) or (n_rows, n_features, n_classes)
        The contributions.
    base_values : ndarray of shape (n_rows,) or (n_rows, n_classes)
        What the roots of the trees predict, which know no feature.
    data : ndarray of shape (n_rows, n_features)
        The values of the features as they were given, of dates the parts.
    feature_names : list of str, or None
        The names of the features, if they have names.
    output_names : list, class, or None
        The classes, where each has values; the second class, where the values are those of its
        log-odds.
    unit : str
        What base value and contributions add up to: "probability", "log-odds", "score" (of which
        softmax makes probabilities) or "prediction".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from amforest import AMFClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> forest = AMFClassifier(random_state=0).fit(X, y)
    >>> explanation = forest.explain(X)
    >>> explanation.shape
    (150, 4, 3)
    >>> one = explanation[0, "petal length (cm)", 2]
    >>> bool(one.values < 0)
    True
    """

    values: Any
    base_values: Any
    data: Any
    feature_names: Any = None
    output_names: Any = None
    unit: str = "prediction"
    backend: str | None = field(default=None, repr=False)  # the library of X, if it was a frame
    index: Any = field(default=None, repr=False)  # of a frame of pandas
    axes: tuple[str, ...] = field(default=_AXES, repr=False)  # of `values`; a number drops one

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `values`."""
        return tuple(np.shape(self.values))

    def __getitem__(self, key: Any) -> Explanation:
        """Return some of the rows, features and classes."""
        result = self
        for axis, item in self._items(key):
            result = result._select(axis, item)
        return result

    def to_frame(self, backend: str | None = None) -> Any:
        """Return the contributions as a data frame with a column for each feature.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default=None
            The library of the frame. None means that of X, if X was a frame.

        Returns
        -------
        frame, or dict of frames
            One for each class, where each has values. Features without a name are x0, x1, …
        """
        if self.axes[:2] != _AXES[:2]:
            raise ValueError(
                "this is a part of an explanation that has no rows or no features: slice the whole "
                "one with lists, as in explanation[[0]]"
            )
        if "classes" in self.axes:
            return {
                label: self[:, :, k].to_frame(backend) for k, label in enumerate(self.output_names)
            }
        import narwhals.stable.v2 as nw  # noqa: PLC0415  # not needed for arrays

        library: Any = backend or self.backend
        if library is None:
            raise ValueError(
                "backend is None, and X was not a data frame: name a library, as in "
                "to_frame('pandas')"
            )
        names = self.feature_names or [f"x{j}" for j in range(self.values.shape[1])]
        columns = {name: self.values[:, j] for j, name in enumerate(names)}
        frame: Any = nw.from_dict(columns, backend=library).to_native()
        if self.index is not None and hasattr(frame, "index"):
            frame.index = self.index
        return frame

    def to_shap(self) -> Any:
        """Return a `shap.Explanation`, which the plots of the package shap need.

        Returns
        -------
        shap.Explanation
        """
        try:
            import shap  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise ImportError("to_shap needs shap: pip install 'amforest[shap]'") from error
        return shap.Explanation(
            values=self.values,
            base_values=self.base_values,
            data=self.data,
            feature_names=self.feature_names,
            output_names=self.output_names,
        )

    def _items(self, key: Any) -> Iterator[tuple[str, Any]]:
        """Return what is selected of each axis."""
        items = list(key) if isinstance(key, tuple) else [key]
        if len(rest := [k for k, item in enumerate(items) if item is Ellipsis]) == 1:
            missing = len(self.axes) - len(items) + 1
            items[rest[0] : rest[0] + 1] = [slice(None)] * missing
        if len(items) > len(self.axes):
            raise IndexError(
                f"this explanation has the axes {', '.join(self.axes)}; {len(items)} indices were "
                "given"
            )
        return zip(self.axes, items, strict=False)

    def _select(self, axis: str, item: Any) -> Explanation:
        place = self.axes.index(axis)
        if axis != "rows":
            names = self.feature_names if axis == "features" else self.output_names
            item = _position(item, names, axis)
        by_place = (slice(None),) * place
        changes: dict[str, Any] = {"values": self.values[(*by_place, item)]}
        if isinstance(item, Integral):
            changes["axes"] = tuple(other for other in self.axes if other != axis)
        if axis == "rows":
            changes |= {"data": self.data[item], "base_values": self.base_values[item]}
            is_one = self.index is None or isinstance(item, Integral)
            changes["index"] = None if is_one else self.index[item]
        elif axis == "features":
            changes["data"] = self.data[(*by_place, item)]
            changes["feature_names"] = _names_at(self.feature_names, item)
        else:
            of_rows = (slice(None),) * ("rows" in self.axes)
            changes["base_values"] = self.base_values[(*of_rows, item)]
            changes["output_names"] = _names_at(self.output_names, item)
        return replace(self, **changes)


def _position(item: Any, names: Any, axis: str) -> Any:
    """Return the position of a name, or of each of a list; else what is given."""
    if isinstance(item, list) and any(isinstance(one, str) for one in item):
        return [_position(one, names, axis) for one in item]
    if not isinstance(item, str):
        return item
    if names is None or item not in names:
        raise KeyError(f"{item!r} is none of the {axis}, which are {names}")
    return names.index(item)


def _names_at(names: Any, item: Any) -> Any:
    if names is None:
        return None
    if isinstance(item, Integral):
        return names[int(item)]
    return [names[k] for k in np.arange(len(names))[item].tolist()]


def explanation_of(
    terms: NDArray[Any],
    columns: NDArray[np.intp],
    given: Given,
    names: list[str] | None,
    classes: Any,
    *,
    unit: str,
) -> Explanation:
    """Return the explanation that a core's terms make: base values, then a term for each column.

    Parameters
    ----------
    terms : ndarray of shape (n_rows, 1 + n_columns) or (n_rows, 1 + n_columns, n_classes)
    columns : ndarray of shape (n_features,)
        The column of each feature.
    given : Given
        X as it was given.
    names : list of str, or None
    classes : list, class, or None
    unit : str
    """
    values = terms[:, 1:]
    if not np.array_equal(columns, np.arange(values.shape[1])):
        values = values[:, columns]
    return Explanation(
        values=values,
        base_values=terms[:, 0],
        data=given.values,
        feature_names=names,
        output_names=classes,
        unit=unit,
        backend=given.backend,
        index=given.index,
        axes=_AXES[: terms.ndim],
    )
