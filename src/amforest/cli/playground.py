"""``amforest playground``: a page to learn the method by points in the plane."""

from __future__ import annotations

from amforest.cli.console import CommandError


def playground(port: int) -> None:
    """Serve the page until a signal comes."""
    try:
        from amforest.serving.playground import play  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise CommandError(f"{error.name} is missing: pip install 'amforest[serve]'") from error
    play(port)
