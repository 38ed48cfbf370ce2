"""``amforest consume``: learn from a message broker, with the progress on the console."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rich.console import Console

from amforest.cli.console import CommandError, Notes, Status, choose_view, print_line
from amforest.cli.model_choice import build_model
from amforest.cli.run import size_of
from amforest.cli.saved_model import load_with_scheme
from amforest.cli.settings import ADAPTIVE, AMF, Settings
from amforest.reading import Batch, Scheme, parse_types
from amforest.serving.brokers.consumer import Consumer, ConsumerOptions
from amforest.serving.brokers.row_learner import RowLearner, RowOptions

if TYPE_CHECKING:
    from amforest.serving.brokers.messages import Broker

SECONDS_BETWEEN_STATS = 2.0
REDIS, MQTT = ("redis", "rediss", "unix"), ("mqtt", "mqtts")


@dataclass(frozen=True)
class Places:
    """Where messages come from, and where predictions go."""

    url: str
    stream: str | None = None
    group: str = "amforest"
    topic: str | None = None
    name: str = "amforest"
    output: str | None = None
    rejects: str | None = None
    json_field: str | None = None


def consume(
    places: Places,
    options: ConsumerOptions,
    settings: Settings,
    *,
    id_field: str | None,
    first: int,
    pending: int,
    remember: int,
    console: Console,
) -> int:
    """Consume until a signal comes; return the exit status."""
    notes = Notes(console)
    if settings.target is None:
        raise CommandError("--target is missing: name the field to predict")
    learner = RowLearner(
        RowOptions(
            settings.target,
            id_field=id_field,
            use=settings.use,
            drop=settings.drop,
            types=parse_types(settings.types) if settings.types else {},
            first=first,
            most_pending=pending,
            most_remembered=remember,
        ),
        lambda batch, kinds: _build(settings, batch, kinds),
        lambda text: notes.show([text]),
    )
    model = settings.model
    if model not in (None, ADAPTIVE, AMF):
        loaded, _, scheme = load_with_scheme(str(model))
        loaded.n_jobs = settings.threads
        learner.attach(loaded, scheme)
    broker = open_broker(places, Path(options.folder))
    with choose_view(console, f"Consuming {broker.name}", quiet=settings.quiet) as view:
        progress = _Progress(learner)
        consumer = Consumer(
            broker,
            learner,
            options,
            after_block=lambda: view.show(progress.status()),
            note=lambda text: _print(console, text, quiet=settings.quiet),
        )
        return consumer.run()


def open_broker(places: Places, folder: Path) -> Broker:
    """Return the broker of a URL, which is not connected yet."""
    scheme = urlsplit(places.url).scheme
    if scheme not in REDIS + MQTT:
        shown = places.url.rpartition("@")[2]
        raise CommandError(f"the broker is {shown!r}; expected redis://… or mqtt://…")
    is_redis = scheme in REDIS
    option, value = ("--stream", places.stream) if is_redis else ("--topic", places.topic)
    if value is None:
        raise CommandError(f"{option} is missing: name where the rows are")
    _refuse_others(places, is_redis=is_redis)
    rejects = places.rejects
    if rejects is None and places.output is not None:
        rejects = places.output + ("-rejects" if is_redis else "/rejects")
    try:
        if is_redis:
            from amforest.serving.brokers.redis_broker import RedisBroker  # noqa: PLC0415  # extra

            return RedisBroker(
                places.url,
                stream=value,
                group=places.group,
                consumer=places.name,
                output=places.output,
                rejects=rejects,
                json_field=places.json_field,
            )
        from amforest.serving.brokers.mqtt_broker import MqttBroker  # noqa: PLC0415  # an extra

        return MqttBroker(
            places.url,
            topic=value,
            client_id=places.name,
            output=places.output,
            rejects=rejects,
            folder=folder,
        )
    except ModuleNotFoundError as error:
        extra = "redis" if is_redis else "mqtt"
        raise CommandError(f"{error.name} is missing: pip install 'amforest[{extra}]'") from error


def _refuse_others(places: Places, *, is_redis: bool) -> None:
    given = {"--topic": places.topic} if is_redis else {
        "--stream": places.stream,
        "--json-field": places.json_field,
    }  # fmt: skip
    for option, value in given.items():
        if value is not None:
            kind = "MQTT" if is_redis else "Redis"
            raise CommandError(f"{option} is given, but is for {kind}: drop it")


def _build(settings: Settings, batch: Batch, kinds: dict[str, str]) -> tuple[Any, Scheme]:
    model, state = build_model(settings, [batch], kinds)
    return model, Scheme.from_json(state["scheme"])


def _print(console: Console, text: str, *, quiet: bool) -> None:
    if not quiet:
        line = text[:1].upper() + text[1:]
        print_line(console, line)


class _Progress:
    """The status of a consumer, whose size is computed at intervals only."""

    def __init__(self, learner: RowLearner) -> None:
        self._learner, self._began = learner, time.monotonic()
        self._size: dict[str, int] = {}
        self._size_at = -SECONDS_BETWEEN_STATS
        self._n_before: int | None = None  # rows of earlier runs

    def status(self) -> Status:
        learner, now = self._learner, time.monotonic()
        if self._n_before is None:
            self._n_before = learner.n_rows
        if learner.model is None:
            return Status()
        if now - self._size_at >= SECONDS_BETWEEN_STATS and learner.evaluator.n_rows:
            self._size, self._size_at = size_of(learner.model), now
        return Status(
            rows=learner.n_rows,
            rows_per_second=(learner.n_rows - self._n_before) / max(now - self._began, 1e-9),
            rejected=learner.n_rejected,
            overall=learner.evaluator.metrics,
            recent=learner.evaluator.window,
            window=learner.evaluator.window_size,
            **self._size,
        )
