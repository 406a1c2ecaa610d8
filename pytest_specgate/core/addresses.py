"""Addresses of servers that run already, as somebody types them."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST_AND_PORT: Final = re.compile(r"[^/?#]+:[0-9]{1,5}")


def address_problem(address: str, *, whose: str) -> str:
    """Return what is wrong with the base address of a server, in words that repeat none of it; empty if nothing is.

    Args:
        address: as it was typed, without a slash at its end.
        whose: name of the arm.
    """
    wanted = "the base address of a server is wanted, as http://10.0.0.5:8000"
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return wanted
    more = parts.path or "?" in address or "#" in address
    if parts.scheme != "http" or not parts.hostname or more or port == 0:
        return wanted
    user = parts.username or parts.password
    return f"the address of {whose} has a user name, which is not sent: leave it out" if user else ""


def shown_address(address: str) -> str:
    """Return an address for a message: without user name, password, query and fragment, which may be secrets."""
    match = _SCHEME.match(address)
    scheme = match[0] if match else ""
    user, _, rest = address[len(scheme) :].rpartition("@")
    host = re.split("[?#]", rest, maxsplit=1)[0]
    # The @ may be one of a password with a question mark, or one of a query: only a port tells a host from a secret.
    doubtful = re.search("[?#]", user) and not _HOST_AND_PORT.fullmatch(host)
    return scheme if doubtful else f"{scheme}{host}"
