"""``amforest serve``: the settings of a server from the options of the command."""

from __future__ import annotations

from typing import Any

from amforest.cli.console import CommandError
from amforest.cli.settings import ADAPTIVE
from amforest.reading import parse_types


def serve(
    *,
    model: str | None,
    target: str | None,
    task: str | None,
    family: str | None,
    types: str | None,
    parameters: dict[str, Any],
    token: str | None,
    predict_token: str | None,
    limits: dict[str, Any],
    **options: Any,
) -> None:
    """Serve until a signal comes."""
    try:
        from amforest.serving.access import read_token  # noqa: PLC0415  # an extra
        from amforest.serving.first_rows import NewModel  # noqa: PLC0415
        from amforest.serving.limits import Limits  # noqa: PLC0415
        from amforest.serving.server import ServerSettings  # noqa: PLC0415
        from amforest.serving.server import serve as run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise CommandError(f"{error.name} is missing: pip install 'amforest[serve]'") from error

    given = {name: value for name, value in parameters.items() if value is not None}
    run(
        ServerSettings(
            model=model,
            target=target,
            new_model=NewModel(
                target=target or "",
                task=task,
                family=family or ADAPTIVE,
                options=given,
                types=parse_types(types) if types else {},
            ),
            token=read_token(token, "--token"),
            predict_token=read_token(predict_token, "--predict-token"),
            limits=Limits(**limits),
            **options,
        )
    )
