"""Addresses of servers that run already: which can be asked, and what of them may be repeated."""

from __future__ import annotations

import pytest

from pytest_specgate.core.addresses import address_problem, shown_address

WANTED = "the base address of a server is wanted, as http://10.0.0.5:8000"


@pytest.mark.parametrize(
    ("address", "problem", "shown"),
    [
        ("http://10.0.0.5:8000", "", "http://10.0.0.5:8000"),
        ("http://[::1]:8000", "", "http://[::1]:8000"),
        ("http://[::1", WANTED, "http://[::1"),
        ("http://h:x", WANTED, "http://h:x"),
        ("http://h:0", WANTED, "http://h:0"),
        ("https://h", WANTED, "https://h"),
        ("http://h/v1?key=word", WANTED, "http://h/v1"),
        ("me:word@h:8000", WANTED, "h:8000"),
        ("foo", WANTED, "foo"),
        ("http://h:8000?", WANTED, "http://h:8000"),
        ("http://h:8000#token=abc", WANTED, "http://h:8000"),
        ("http://h:8000#", WANTED, "http://h:8000"),
        ("http://h:8000#token=abc@def", WANTED, "http://"),
        ("http://h:8000?token=abc@def", WANTED, "http://"),
        ("http://h:8000?next=http://me:word@i", WANTED, "http://"),
        ("http://h:8000?next=https://i/word", WANTED, "http://h:8000"),
        ("http://bob:hunter2?x@127.0.0.1:9", WANTED, "http://127.0.0.1:9"),
        ("http://bob:hunter2#x@127.0.0.1:9?key=word#word", WANTED, "http://127.0.0.1:9"),
        ("http://bob:hun@ter2?x@[::1]:9", WANTED, "http://[::1]:9"),
        ("me:wo://rd@h:8000", WANTED, "h:8000"),
        ("http://me:word@h", "the address of k4 has a user name, which is not sent: leave it out", "http://h"),
    ],
)
def test_an_address_is_a_scheme_a_host_and_a_port(address: str, problem: str, shown: str) -> None:
    """All else is refused in words that repeat none of it, and what is shown of it holds no password."""
    assert (address_problem(address, whose="k4"), shown_address(address)) == (problem, shown)
