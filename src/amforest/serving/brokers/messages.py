"""Messages of a broker, and what the consumer needs a broker to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from amforest.reading.ndjson_parser import JsonObject, parse_object


class BrokerError(Exception):
    """The broker cannot be reached, or cannot work now: try again later."""


@dataclass(frozen=True)
class Message:
    """A message with one row.

    Attributes
    ----------
    position : int or str
        Where it is in its stream; values of JSON.
    id : str
        Tells it from all others; the same when it is delivered again.
    row : dict or None
        Its values; None if it has no row.
    reason : str
        Why it has no row.
    text : str
        The message as text, for those that are rejected.
    """

    position: Any
    id: str
    row: JsonObject | None
    reason: str = ""
    text: str = ""


@dataclass(frozen=True)
class RejectedMessage:
    """A message that cannot be predicted or learned.

    Attributes
    ----------
    message : Message
    reason : str
    """

    message: Message
    reason: str


class Broker(Protocol):
    """A stream of messages, and places for predictions and rejected messages.

    All methods but `close` raise `BrokerError` if they may be called again later, and ValueError if
    the user must change something.
    """

    name: str  # in messages to the user, without passwords
    source: dict[str, Any]  # what a checkpoint belongs to

    def open(self, position: Any, state: Any) -> None:
        """Start after a position; None is the beginning. `state` is what `state` returned there."""

    def fetch(self, n_messages: int, seconds: float) -> list[Message]:
        """Return the next messages in their order; wait for the first one for some seconds."""

    def publish(
        self, predictions: Sequence[dict[str, Any]], rejects: Sequence[RejectedMessage]
    ) -> None:
        """Write predictions and rejected messages."""

    def flush(self) -> None:
        """Wait until all that was published is with the broker."""

    def state(self) -> Any:
        """Return what a checkpoint must hold beside the position, in values of JSON."""

    def acknowledge(self) -> None:
        """Drop all messages that `fetch` has returned: a checkpoint has them."""

    def close(self) -> None:
        """Close the connection."""


def read_payload(position: Any, id_: str, payload: bytes) -> Message:
    """Return the message of a payload, which should be a JSON object."""
    text = payload.decode(errors="backslashreplace")
    try:
        row = parse_object(payload)
    except UnicodeDecodeError:
        return Message(position, id_, None, "the message is not UTF-8", text)
    except ValueError as error:
        return Message(position, id_, None, str(error), text)
    if row is None:
        return Message(position, id_, None, "the message is empty", text)
    return Message(position, id_, row, text=text)
