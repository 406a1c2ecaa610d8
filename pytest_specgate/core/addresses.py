"""Addresses of servers that run already, as somebody types them."""

from __future__ import annotations

from urllib.parse import urlsplit


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
    if parts.scheme != "http" or not parts.hostname or parts.path or parts.query or port == 0:
        return wanted
    user = parts.username or parts.password
    return f"the address of {whose} has a user name, which is not sent: leave it out" if user else ""


def shown_address(address: str) -> str:
    """Return an address for a message: without a user name, a password or a query, which may be secrets."""
    scheme, separator, rest = address.partition("?")[0].rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
