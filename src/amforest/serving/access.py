"""Who may do what: tokens for learning and predicting, and the names of the host."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from amforest.serving.problems import Problem

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_TOKEN = re.compile(r"[\x21-\x7e]{1,1000}")
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="amforest"'}


@dataclass(frozen=True, repr=False)
class Access:
    """What the server requires of a request before it reads its body.

    Attributes
    ----------
    token : str or None
        Permits everything. None: everybody may do everything.
    predict_token : str or None
        Permits everything but learning and downloading the model.
    hosts : tuple of str or None
        The names in the header Host; None means any. A page of another site could otherwise reach
        a server on this machine under a name of its own.
    """

    token: str | None = None
    predict_token: str | None = None
    hosts: tuple[str, ...] | None = None

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Refuse a host of another name."""
        if self.hosts is None:
            return
        host = headers.get("host", "")
        if re.sub(r":\d*$", "", host).lower() not in self.hosts:
            raise Problem(
                421,
                f"Host is {host[:100]!r}; this server answers to {', '.join(self.hosts)}: use one "
                "of them, or start it with --allowed-host",
                field="Host",
            )

    def check_token(self, headers: Mapping[str, str], *, may_only_predict: bool) -> None:
        """Refuse a request without the token that it needs."""
        if self.token is None:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not given:
            raise Problem(
                401,
                "a token is needed: send the header Authorization: Bearer TOKEN",
                field="Authorization",
                headers=_CHALLENGE,
            )
        if _is_same(given.strip(), self.token):
            return
        if self.predict_token is None or not _is_same(given.strip(), self.predict_token):
            raise Problem(401, "the token is not valid", field="Authorization", headers=_CHALLENGE)
        if not may_only_predict:
            raise Problem(
                403,
                "this token permits predictions only: learning and snapshots need the other one",
                field="Authorization",
            )


def read_token(given: str | None, option: str) -> str | None:
    """Return a token; ``@FILE`` means the content of a file.

    Raises
    ------
    ValueError
        If it is empty, too long, or holds blanks or characters beyond ASCII.
    """
    if given is None:
        return None
    token = Path(given[1:]).read_text(encoding="utf-8").strip() if given[:1] == "@" else given
    if not _TOKEN.fullmatch(token):
        raise ValueError(
            f"{option} must have 1 to 1,000 visible characters of ASCII and no blanks, such as "
            "those of: openssl rand -hex 32"
        )
    return token


def _is_same(given: str, token: str) -> bool:
    """Compare in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode(errors="surrogateescape"), token.encode())
