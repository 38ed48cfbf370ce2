"""A client for the server: predictions, learning and labels over HTTP."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

try:
    import httpx
except ImportError as missing:
    raise ImportError("amforest.serving.Client needs httpx: pip install 'amforest[client]'") from (
        missing
    )

Row = Mapping[str, Any]


class ServerError(Exception):
    """The server has refused a request.

    Attributes
    ----------
    status : int
        The status code of HTTP.
    field : str or None
        The place in the request, such as ``rows[3].age``.
    problem : dict
        The whole answer, as RFC 9457 defines it.
    """

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(f"{status}: {problem.get('detail', 'no details')}")
        self.status, self.problem = status, problem
        self.field: str | None = problem.get("field")


class Client:
    """A connection to a server, which is kept open; to be closed, or used as a context.

    A request that is refused because the queue is full (429) is sent again when the server says.

    Parameters
    ----------
    url : str
        Such as ``http://127.0.0.1:8000``.
    token : str, default=None
        The token for learning, or the one for predictions only.
    timeout : float, default=60
        Seconds to wait for an answer.
    retry_seconds : float, default=60
        How long to send a request again while the queue is full.
    transport : httpx.BaseTransport, default=None
        Another way to reach the server, such as a proxy or a socket.

    Examples
    --------
    With a server on this machine, started by ``amforest serve --target bought``::

        with Client("http://127.0.0.1:8000") as client:
            client.wait_ready()
            client.learn([{"page": "shoes", "basket": 25.0}], ["yes"])
            answer = client.predict([{"page": "shoes", "basket": 10.0}])
            answer["probabilities"]
            client.label(answer["ids"], ["no"])
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        retry_seconds: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._retry_seconds = retry_seconds
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout, transport=transport
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def predict(self, rows: Sequence[Row] | Any) -> dict[str, Any]:
        """Predict rows.

        Parameters
        ----------
        rows : list of dict, or a table of pyarrow
            Values by the names of columns.

        Returns
        -------
        dict
            `ids` for `label`, `predictions`, and `probabilities` (a dict for each row) or
            `intervals` (lower and upper ends).
        """
        if _is_table(rows):
            return self._send_table("/predict", rows)
        return self._send("/predict", json={"rows": [dict(row) for row in rows]})

    def explain(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Tell what each column contributes to the predictions of rows.

        Parameters
        ----------
        rows : list of dict

        Returns
        -------
        dict
            `unit` ("log-odds", "log-probability", "probability" or "number"), `bases` and
            `contributions`: for each row by class, and then by column; in regression by column.
        """
        return self._send("/explain", json={"rows": list(rows)})

    def learn(
        self, rows: Sequence[Row] | Any, labels: Sequence[Any] | None = None, *, wait: bool = True
    ) -> dict[str, Any]:
        """Learn rows.

        Parameters
        ----------
        rows : list of dict, or a table of pyarrow
            A table has a column of labels.
        labels : list, default=None
            None: they are in the rows, under the name of the target.
        wait : bool, default=True
            Whether to wait until the rows are learned.

        Returns
        -------
        dict
            `learned`, the rows of this request, and `samples`, all that the model has learned; or
            `queued`.
        """
        how = {} if wait else {"wait": "false"}
        if _is_table(rows):
            if labels is not None:
                raise TypeError("labels are given beside a table: make them a column of it")
            return self._send_table("/learn", rows, how)
        body: dict[str, Any] = {"rows": [dict(row) for row in rows]}
        if labels is not None:
            body["labels"] = list(labels)
        return self._send("/learn", json=body, params=how)

    def label(self, ids: str | Sequence[str], labels: Any) -> dict[str, Any]:
        """Learn the labels of rows that were predicted before.

        Parameters
        ----------
        ids : str, or list of str
            What `predict` has returned.
        labels : label, or list of labels
        """
        if isinstance(ids, str):
            return self._send("/label", json={"id": ids, "label": labels})
        return self._send("/label", json={"ids": list(ids), "labels": list(labels)})

    def model(self) -> dict[str, Any]:
        """Return the columns, classes, parameters and counts of the model."""
        described: dict[str, Any] = self._request("GET", "/model").json()
        return described

    def metrics(self) -> str:
        """Return the figures for Prometheus."""
        return self._request("GET", "/metrics").text

    def snapshot(self) -> bytes:
        """Return the model file: `amforest.model_io.from_bytes` restores the model."""
        return self._request("GET", "/snapshot").content

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Wait until the server answers; TimeoutError if it does not."""
        end = time.monotonic() + seconds
        while True:
            try:
                if self._http.get("/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            if time.monotonic() > end:
                raise TimeoutError(f"{self._http.base_url} was not ready within {seconds:g} s")
            time.sleep(0.05)

    def _send(self, path: str, **content: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._request("POST", path, **content).json()
        return answer

    def _send_table(self, path: str, table: Any, params: Any = None) -> dict[str, Any]:
        import pyarrow as pa  # noqa: PLC0415  # only for tables

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write(table)
        headers = {"content-type": "application/vnd.apache.arrow.stream"}
        body = sink.getvalue().to_pybytes()
        return self._send(path, content=body, headers=headers, params=params or {})

    def _request(self, method: str, path: str, **content: Any) -> httpx.Response:
        end = time.monotonic() + self._retry_seconds
        while True:
            answer = self._http.request(method, path, **content)
            if answer.status_code != 429 or time.monotonic() >= end:
                break
            time.sleep(min(_seconds_of(answer), max(end - time.monotonic(), 0)))
        if answer.is_success:
            return answer
        kind = answer.headers.get("content-type", "")
        problem = answer.json() if kind.startswith("application/problem+json") else {}
        raise ServerError(answer.status_code, problem)


def _seconds_of(answer: httpx.Response) -> float:
    given = answer.headers.get("retry-after", "")
    return float(given) if given.isdecimal() else 1.0


def _is_table(rows: Any) -> bool:
    return hasattr(rows, "__arrow_c_stream__") and hasattr(rows, "schema")
