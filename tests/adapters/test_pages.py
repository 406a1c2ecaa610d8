"""Pages of a server, over real sockets: when they are asked for again, and what is said where they cannot be had."""

from __future__ import annotations

import dataclasses
import json
import threading
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters import scrape
from pytest_specgate.adapters.scrape import HttpPages, parse_page
from pytest_specgate.core import counters
from pytest_specgate.core.errors import ScrapeError, ServerDiedError
from pytest_specgate.testing import fake_vllm

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from pydantic import JsonValue

    from pytest_specgate.core.ports import Server
    from tests.adapters.conftest import Reply, Seen, Stub, Target

TALK: list[JsonValue] = [{"role": "user", "content": "Why?"}]


def generated(tokens: int, *, running: int | None = 0) -> str:
    """Return a page that knows how much was generated and, unless `None`, how much is under way."""
    lines = [(counters.GENERATION_TOKENS, tokens), (counters.RUNNING, running)]
    return "".join(f'{name}{{engine="0",model_name="m"}} {value}.0\n' for name, value in lines if value is not None)


@pytest.fixture
def pages() -> HttpPages:
    """The adapter, with a short wait for counters that never settle."""
    return HttpPages(settle_s=0.05)


@pytest.fixture
def patient() -> HttpPages:
    """The adapter with its usual patience."""
    return HttpPages()


def test_a_page_is_scraped_over_http(stub: Stub, pages: HttpPages) -> None:
    """One scrape is one request for the counters, and one for the version that stands in messages about them."""
    stub.on("/metrics", stub.text(generated(5)))
    stub.on("/version", stub.json({"version": "0.32.0"}))

    assert pages.counters(stub.target) == parse_page(generated(5), version="0.32.0")
    assert [(seen.method, seen.path) for seen in stub.seen] == [("GET", "/version"), ("GET", "/metrics")]


@pytest.mark.parametrize("answer", [None, "<html>", "[]", '{"version": 5}', "{}"])
def test_a_server_that_does_not_tell_its_version_is_scraped_all_the_same(
    stub: Stub, pages: HttpPages, answer: str | None
) -> None:
    """The version is for messages only: a page of a server without one, or with a strange one, is complete."""
    stub.on("/metrics", stub.text(generated(5)))
    if answer is not None:
        stub.on("/version", stub.text(answer))

    assert pages.counters(stub.target) == parse_page(generated(5))


def test_case_63_a_settled_page_keeps_the_version_of_the_one_before(stub: Stub, patient: HttpPages) -> None:
    """Case 63: a missing metric is named with the server's version also after the load, without asking once more."""
    stub.on("/metrics", stub.text(generated(12)))
    page = patient.settled_counters(stub.target, before=parse_page(generated(2), version="0.32.0"), output_tokens=10)

    assert page.version == "0.32.0"
    assert [seen.path for seen in stub.seen] == ["/metrics"]


def test_case_58_requests_that_wait_are_not_settled(stub: Stub, patient: HttpPages) -> None:
    """Case 58: a page on which requests wait is scraped again, although none runs and the tokens agree."""
    waiting = f'{counters.WAITING}{{engine="0",model_name="m"}} 1.0\n'
    stub.on("/metrics", stub.text(generated(12) + waiting), stub.text(generated(12)))
    page = patient.settled_counters(stub.target, before=parse_page(generated(2)), output_tokens=10)

    assert not page.has(counters.WAITING)
    assert len(stub.seen) == 2


def test_case_58_a_page_that_lags_is_scraped_again(stub: Stub, patient: HttpPages) -> None:
    """Case 58: the page is used when nothing runs any more and its tokens agree with the client's."""
    lagging = [(990, 1), (990, 0), (1000, 1)]
    stub.on("/metrics", *(stub.text(generated(70 + new, running=running)) for new, running in [*lagging, (1000, 0)]))
    page = patient.settled_counters(stub.target, before=parse_page(generated(70)), output_tokens=1000)

    assert page.total(counters.GENERATION_TOKENS) == 1070
    assert page.total(counters.RUNNING) == 0
    assert len(stub.seen) == 4


def test_case_58_a_page_that_agrees_at_once_is_scraped_once(stub: Stub, patient: HttpPages) -> None:
    """A page without the gauge of running requests can agree as well."""
    stub.on("/metrics", stub.text(generated(12, running=None)))
    patient.settled_counters(stub.target, before=parse_page(generated(2)), output_tokens=10)

    assert len(stub.seen) == 1


def test_case_58_pages_that_never_agree_end_with_the_last_one(stub: Stub, pages: HttpPages) -> None:
    """Case 58: after a bounded time the last page comes back, so that the judge sees both numbers."""
    stub.on("/metrics", stub.text(generated(990)), stub.text(generated(991)))
    page = pages.settled_counters(stub.target, before=parse_page(generated(0)), output_tokens=1000)

    assert page.total(counters.GENERATION_TOKENS) == 991
    assert len(stub.seen) > 1


def _counters(pages: HttpPages, server: Server) -> object:
    return pages.counters(server)


def _settled(pages: HttpPages, server: Server) -> object:
    return pages.settled_counters(server, before=parse_page(generated(0)), output_tokens=1)


def _config(pages: HttpPages, server: Server) -> object:
    return pages.resolved_config(server)


def _tokenize(pages: HttpPages, server: Server) -> object:
    return pages.tokenize(server, "a text", {})


def _tokenize_chat(pages: HttpPages, server: Server) -> object:
    return pages.tokenize_chat(server, TALK, {})


ASKED = {
    "/metrics": [_counters, _settled],
    "/server_info?config_format=json": [_config],
    "/tokenize": [_tokenize, _tokenize_chat],
}
ALL_ASKED = [pytest.param(path, ask, id=ask.__name__.strip("_")) for path, asks in ASKED.items() for ask in asks]


@pytest.mark.parametrize(("path", "ask"), ALL_ASKED)
def test_a_page_that_is_refused_is_named_with_status_and_words(
    stub: Stub, pages: HttpPages, path: str, ask: Callable[[HttpPages, Server], object]
) -> None:
    """HTTP 404, as for `/server_info` without the developer mode, names the page and repeats the server."""
    stub.on(path, stub.json({"detail": "Not Found"}, status=404))

    with pytest.raises(ScrapeError) as caught:
        ask(pages, stub.target)
    assert str(caught.value) == f'{path} answered HTTP 404: \'{{"detail": "Not Found"}}\''


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (200, 'python_gc_objects_collected_total{generation="0"} 1.0\n', "started without --disable-log-stats?"),
        (200, "", "started without --disable-log-stats?"),
        (404, '{"detail":"Not Found"}', "/metrics answered HTTP 404: "),
    ],
)
def test_case_50_a_page_without_the_engines_series(
    stub: Stub, pages: HttpPages, *, status: int, text: str, words: str
) -> None:
    """Case 50: another program's page, an empty one and none at all are errors with the likely cause, not 0 drafts."""
    stub.on("/metrics", stub.text(text, status=status))

    with pytest.raises(ScrapeError) as caught:
        pages.counters(stub.target)
    assert words in str(caught.value)


@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize(("path", "ask"), ALL_ASKED[2:])
def test_secrets_do_not_get_into_scrape_errors(
    stub: Stub, pages: HttpPages, path: str, ask: Callable[[HttpPages, Server], object], status: int
) -> None:
    """What a page repeats of an access token is in no error, also not a part of it where the text is cut."""
    texts = [f"{lead} bad token hf_abcdefghijklmnopqrstuvwx" for lead in ("x", "x" * 180)]
    stub.on(path, *(stub.text(text, status=status) for text in texts))

    for shown in ("x bad token [redacted]", "x bad token [redacted"):
        with pytest.raises(ScrapeError) as caught:
            ask(pages, stub.target)
        assert str(caught.value).endswith(f"{shown}'")


@pytest.mark.parametrize(("path", "ask"), ALL_ASKED)
def test_a_server_that_is_gone_is_a_scrape_error(
    nobody: Target, pages: HttpPages, path: str, ask: Callable[[HttpPages, Server], object]
) -> None:
    """Connection refused names the page that cannot be had."""
    with pytest.raises(ScrapeError) as caught:
        ask(pages, nobody)

    assert str(caught.value).startswith(f"{path} cannot be had: ConnectionRefusedError ")


@pytest.mark.parametrize(("path", "ask"), [*ALL_ASKED[2:]])
@pytest.mark.parametrize("text", ["", "<html>", "[1, 2]", '"text"', "null"])
def test_a_page_that_is_no_json_object_is_named(
    stub: Stub, pages: HttpPages, path: str, ask: Callable[[HttpPages, Server], object], text: str
) -> None:
    """A page of another kind is an error that shows how it begins."""
    stub.on(path, stub.text(text))

    with pytest.raises(ScrapeError, match=r"did not answer (JSON|a JSON object)") as caught:
        ask(pages, stub.target)
    assert str(caught.value).startswith(path.partition("?")[0])
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("body", [{}, {"vllm_config": "model='a', speculative_config=None"}, {"vllm_config": None}])
def test_an_engine_that_shows_no_configuration_is_too_old(stub: Stub, pages: HttpPages, body: object) -> None:
    """A configuration as text, as older engines give it, proves nothing: it is refused, not searched."""
    stub.on("/server_info?config_format=json", stub.json(body))

    with pytest.raises(ScrapeError, match="no vllm_config: this vLLM is too old"):
        pages.resolved_config(stub.target)


@pytest.mark.parametrize("body", [{}, {"tokens": None}, {"count": 3}, {"tokens": "abc"}])
def test_an_answer_without_tokens_is_an_error(stub: Stub, pages: HttpPages, body: object) -> None:
    """A count alone, or anything but a list, is not what was asked for."""
    stub.on("/tokenize", stub.json(body))

    with pytest.raises(ScrapeError, match="/tokenize answered without tokens"):
        pages.tokenize(stub.target, "a text", {})


def test_the_served_model_tokenizes_a_conversation(stub: Stub, pages: HttpPages) -> None:
    """Messages go out with what steers the template and nothing else of a request; the ids come back in order."""
    stub.on("/tokenize", stub.json({"count": 2, "tokens": [7, 3]}))
    extra: dict[str, JsonValue] = {"chat_template_kwargs": {"thinking": False}, "echo": True, "tools": []}

    assert pages.tokenize_chat(stub.target, TALK, extra) == [7, 3]
    assert json.loads(stub.seen[0].body) == {
        "model": "tiny",
        "messages": TALK,
        "chat_template_kwargs": {"thinking": False},
        "tools": [],
    }


def test_the_served_model_tokenizes(stub: Stub, pages: HttpPages) -> None:
    """The text goes out as it is, with the name of the served model, and the ids come back in order."""
    stub.on("/tokenize", stub.json({"count": 3, "tokens": [7, 3, 5]}))

    assert pages.tokenize(stub.target, "naïve 漢 \n", {}) == [7, 3, 5]
    assert json.loads(stub.seen[0].body) == {"model": "tiny", "prompt": "naïve 漢 \n"}


def test_a_text_is_tokenized_as_its_requests_ask_for(stub: Stub, pages: HttpPages) -> None:
    """A request that wants no special tokens is counted without them; what steers no text stays away."""
    stub.on("/tokenize", stub.json({"count": 1, "tokens": [7]}))
    extra: dict[str, JsonValue] = {"add_special_tokens": False, "echo": True, "chat_template": "x"}

    assert pages.tokenize(stub.target, "a", extra) == [7]
    assert json.loads(stub.seen[0].body) == {"model": "tiny", "prompt": "a", "add_special_tokens": False}


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "http://h:x", "socks5://127.0.0.1:9"])
def test_case_24_proxies_of_the_environment_are_ignored(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    """Case 24: pages are read from the server itself, whatever the environment says."""
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setenv("ALL_PROXY", proxy)
    stub.on("/metrics", stub.text(generated(5)))

    assert HttpPages().counters(stub.target).total(counters.GENERATION_TOKENS) == 5


@pytest.mark.parametrize("end", ["complete", "hangup"])
def test_every_scrape_has_a_connection_of_its_own(
    stub: Stub, pages: HttpPages, end: Literal["complete", "hangup"]
) -> None:
    """A server that drops idle connections, at whatever moment, does not make the next scrape fail."""
    stub.on("/metrics", stub.stream(generated(5).encode(), end=end), stub.text(generated(6)))
    first = pages.counters(stub.target)
    assert all(stub.closed.acquire(timeout=20) for _ in ("/version", "/metrics"))
    second = pages.counters(stub.target)

    assert [page.total(counters.GENERATION_TOKENS) for page in (first, second)] == [5, 6]
    assert stub.connections == len(stub.seen) == 4


def test_a_silent_page_is_given_up(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that never comes is an error after the time-out, not a hanging window."""
    monkeypatch.setattr(scrape, "_TIMEOUT_S", 0.1)
    stub.on("/metrics", stub.stream(end="silence"))
    with pytest.raises(ScrapeError, match=r"^/metrics cannot be had: TimeoutError "):
        HttpPages().counters(stub.target)


@pytest.fixture
def dying(stub: Stub, target_at: type[Target]) -> Target:
    """The stub as a server that dies of its first question to any page; its sockets stay open, in silence."""
    dead = threading.Event()

    class Dying(target_at):  # type: ignore[misc, valid-type]
        def ensure_alive(self, *, wait_s: float = 0.0) -> None:
            del wait_s
            if dead.is_set():
                raise ServerDiedError("its server left with exit code 3")

    def silent(_: Seen) -> Reply:
        dead.set()
        return stub.stream(end="silence")

    for path in ASKED:
        stub.on(path, silent)
    server: Target = Dying(stub.target.url)
    return server


@pytest.mark.parametrize(("path", "ask"), ALL_ASKED)
def test_a_death_that_breaks_no_connection_is_seen(
    stub: Stub, pages: HttpPages, dying: Target, path: str, ask: Callable[[HttpPages, Server], object]
) -> None:
    """Whoever inherited the sockets of a dead server keeps them open, so its process is looked at meanwhile."""
    with pytest.raises(ServerDiedError, match="its server left with exit code 3"):
        ask(pages, dying)

    assert stub.seen[-1].path == path


def test_an_attached_server_is_not_looked_at(pages: HttpPages, dying: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is elsewhere, and a question would be load: it may be silent until the time-out."""
    monkeypatch.setattr(scrape, "_TIMEOUT_S", 0.5)
    with pytest.raises(ScrapeError, match=r"TimeoutError the server was silent for 0\.5 s"):
        _config(pages, dataclasses.replace(dying, attached=True))


def test_secrets_of_a_server_do_not_get_into_scrape_errors(
    stub: Stub, pages: HttpPages, target_at: type[Target]
) -> None:
    """What the server was given is cut as a whole, also where the text that is shown ends in the middle of it."""

    class Given(target_at):  # type: ignore[misc, valid-type]
        def cleaned(self, text: str) -> str:
            return text.replace("open sesame", "[redacted]")

    stub.on("/tokenize", stub.text("x" * 195 + "open sesame", status=401))
    with pytest.raises(ScrapeError) as caught:
        _tokenize(pages, Given(stub.target.url))

    assert str(caught.value).endswith("x[reda'")


def test_the_fake_servers_pages_are_read_alike(pages: HttpPages, target_at: type[Target]) -> None:
    """Against the fake vLLM: counters of every position before traffic, the resolved k, and token ids."""
    config = {"method": "ngram", "num_speculative_tokens": 3}
    with fake_vllm(speculative_config=config, environment={"VLLM_SERVER_DEV_MODE": "1"}) as server:
        target = target_at(server.url, model="fake-model")
        page, resolved = pages.counters(target), pages.resolved_config(target)["speculative_config"]
        tokens, chat = pages.tokenize(target, "two words", {}), pages.tokenize_chat(target, TALK, {})

    assert page.speculation == ("0", "1", "2")
    assert isinstance(resolved, dict)
    assert resolved.items() >= config.items()
    assert len(tokens) == 3
    assert len(chat) > 3
