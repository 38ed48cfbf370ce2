"""The report of a run: one self-contained page of HTML.

`sections.py` builds its sections, `figures.py` draws, `markup.py` converts values and names to
HTML, and `page.html` is the frame, with all styles.
"""

from __future__ import annotations

import errno
import os
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template

from amforest.cli.console import CommandError
from amforest.cli.run import Outcome
from amforest.model_io import atomic_write

PAGE, READABLE_BY_ALL = "index.html", 0o644


def prepare_report(folder: Path) -> None:
    """Create the folder, and check that matplotlib is installed, before a run that takes hours.

    Raises
    ------
    CommandError
        If matplotlib is not installed.
    OSError
        If the folder cannot be created or written to.
    """
    if find_spec("matplotlib") is None:
        raise CommandError("--report needs matplotlib: pip install 'amforest[cli,plot]'")
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def write_report(outcome: Outcome, folder: Path) -> Path:
    """Write the result of a run as a page of HTML.

    Parameters
    ----------
    outcome : Outcome
    folder : Path
        Created if it does not exist. A report in it is replaced.

    Returns
    -------
    Path
        The page: ``index.html`` in the folder, readable by all.

    Raises
    ------
    CommandError
        If matplotlib is not installed.
    OSError
        If it cannot be written; an older report is unchanged.
    """
    prepare_report(folder)
    from amforest.cli.report.sections import build_content  # noqa: PLC0415  # needs matplotlib

    frame = Template(files(__name__).joinpath("page.html").read_text(encoding="utf-8"))
    path = folder / PAGE
    atomic_write.write_atomically(path, [frame.substitute(build_content(outcome, folder)).encode()])
    path.chmod(READABLE_BY_ALL)
    return path
