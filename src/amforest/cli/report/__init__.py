"""The report of a run: one page of HTML that needs nothing else.

`sections.py` says what is on it, and `quality.py` how good the forecasts were; `figures.py` draws,
`markup.py` makes HTML of values and names, and `page.html` is the frame, with all styles.
"""

from __future__ import annotations

import errno
import os
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template

from amforest.cli.errors import CommandError
from amforest.cli.run import Outcome
from amforest.model_io import atomic_write

PAGE, READABLE_BY_ALL = "index.html", 0o644


def prepare_report(folder: Path) -> None:
    """Make the folder, and see to it that there is what draws: before a run that takes hours.

    Raises
    ------
    CommandError
        If matplotlib is not installed.
    OSError
        If the folder can neither be made nor be written to.
    """
    if find_spec("matplotlib") is None:
        raise CommandError("--report needs matplotlib: pip install 'amforest[cli,plot]'")
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def write_report(outcome: Outcome, folder: Path) -> Path:
    """Write what a run has come to as a page of HTML.

    Parameters
    ----------
    outcome : Outcome
    folder : Path
        Is made if it is missing. A report that is there is replaced.

    Returns
    -------
    Path
        The page: ``index.html`` in the folder. All may read it.

    Raises
    ------
    CommandError
        If matplotlib is not installed.
    OSError
        If it cannot be written; what was there is as it was.
    """
    prepare_report(folder)
    from amforest.cli.report.sections import content  # noqa: PLC0415  # needs matplotlib

    frame = Template(files(__name__).joinpath("page.html").read_text(encoding="utf-8"))
    path = folder / PAGE
    atomic_write.write_atomically(path, [frame.substitute(content(outcome, folder)).encode()])
    path.chmod(READABLE_BY_ALL)
    return path
