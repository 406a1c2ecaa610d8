"""The routes of the fake vLLM."""

from __future__ import annotations

import asyncio
import sys
import time
import urllib.parse
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pytest_specgate.testing.chat import ChatRequest, TokenizeChatRequest, has_messages
from pytest_specgate.testing.completions import Completions
from pytest_specgate.testing.configuration import server_information
from pytest_specgate.testing.engine_loop import EngineLoop
from pytest_specgate.testing.exposition import CONTENT_TYPE
from pytest_specgate.testing.fleet import Fleet
from pytest_specgate.testing.http_server import HttpResponse
from pytest_specgate.testing.log_flood import LogFlood
from pytest_specgate.testing.messages import (
    VERSION,
    CompletionRequest,
    DetokenizeRequest,
    RefusedError,
    TokenizeRequest,
    compact,
    parse_body,
)
from pytest_specgate.testing.tokenizer import Tokenizer
from pytest_specgate.testing.truth_log import TruthLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pytest_specgate.testing.arguments import ServerArguments
    from pytest_specgate.testing.http_server import HttpRequest
    from pytest_specgate.testing.messages import AnswerRequest
    from pytest_specgate.testing.truth import FakeTruth

    Route = tuple[str, Callable[[HttpRequest], Awaitable[HttpResponse]]]


class Application:
    """Answers requests out of one or more engines; `run` must be running meanwhile."""

    def __init__(self, arguments: ServerArguments, environment: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._fake = arguments.fake
        self._environment = environment
        self._tokenizer = Tokenizer()
        self._fleet = Fleet(arguments, unix_time=time.time)
        self._engine_loops = [EngineLoop(engine, after_step=self._fleet.after_step) for engine in self._fleet.engines]
        self._truth_log = TruthLog()
        self._completions = Completions(
            arguments,
            tokenizer=self._tokenizer,
            fleet=self._fleet,
            engine_loops=self._engine_loops,
            truth_log=self._truth_log,
        )
        self._flood = LogFlood(sys.stderr.fileno())
        self._started_s = time.monotonic()
        self._routes: dict[str, Route] = {
            "/health": ("GET", self._health),
            "/version": ("GET", self._version),
            "/metrics": ("GET", self._metrics),
            "/v1/models": ("GET", self._models),
            "/v1/completions": ("POST", self._complete),
            "/v1/chat/completions": ("POST", self._chat),
            "/tokenize": ("POST", self._tokenize),
            "/detokenize": ("POST", self._detokenize),
            "/fake/truth": ("GET", self._truth),
        }
        if environment.get("VLLM_SERVER_DEV_MODE") == "1":
            self._routes["/server_info"] = ("GET", self._server_info)

    async def run(self) -> None:
        """Run the engines, and whatever is programmed to happen without a request, until cancelled."""
        self._flood.print(self._fake.log_bytes_at_start)
        async with asyncio.TaskGroup() as group:
            for engine_loop in self._engine_loops:
                group.create_task(engine_loop.run())
            if self._fake.foreign_every_s is not None:
                group.create_task(self._run_foreign(self._fake.foreign_every_s))

    def truth(self, after: int = 0) -> FakeTruth:
        """Return what really happened until now, of requests with a number beyond ``after``."""
        return self._truth_log.truth(self._fleet.engines, clock="monotonic", now_s=time.monotonic(), after=after)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer one request."""
        method, handler = self._routes.get(request.path, (None, None))
        if handler is None:
            return _json({"detail": "Not Found"}, HTTPStatus.NOT_FOUND)
        if request.method != method:
            return _json({"detail": "Method Not Allowed"}, HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            return await handler(request)
        except RefusedError as error:
            return _json(error.body(), error.status)

    async def _run_foreign(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            self._completions.submit_foreign()

    async def _health(self, _: HttpRequest) -> HttpResponse:
        early = time.monotonic() < self._started_s + self._fake.healthy_after_s
        return HttpResponse(b"", status=HTTPStatus.SERVICE_UNAVAILABLE if early else HTTPStatus.OK)

    async def _version(self, _: HttpRequest) -> HttpResponse:
        return _json({"version": VERSION})

    async def _metrics(self, _: HttpRequest) -> HttpResponse:
        return HttpResponse(self._fleet.page(time.monotonic()).encode(), CONTENT_TYPE)

    async def _truth(self, request: HttpRequest) -> HttpResponse:
        text = urllib.parse.parse_qs(request.query).get("after", ["0"])[-1]
        if not text.isdecimal():
            raise RefusedError(f"after={text!r} is no number of a request", parameter="after")
        return HttpResponse(self.truth(int(text)).model_dump_json().encode())

    async def _models(self, _: HttpRequest) -> HttpResponse:
        return _json({"object": "list", "data": [self._model_card(name) for name in self._arguments.served_names]})

    def _model_card(self, name: str) -> dict[str, Any]:
        created_s = int(time.time())
        return {
            "id": name,
            "object": "model",
            "created": created_s,
            "owned_by": "vllm",
            "root": self._arguments.model,
            "parent": None,
            "max_model_len": self._arguments.max_model_len,
            "permission": [_permission(created_s)],
        }

    async def _server_info(self, request: HttpRequest) -> HttpResponse:
        information = server_information(self._arguments, self._environment)
        if "config_format=json" not in request.target:
            information["vllm_config"] = str(information["vllm_config"])
        return _json(information)

    async def _tokenize(self, request: HttpRequest) -> HttpResponse:
        chat = has_messages(request.body)
        body = parse_body(TokenizeChatRequest, request.body) if chat else parse_body(TokenizeRequest, request.body)
        self._check_model(body.model)
        tokens = self._tokenizer.encode(body.prompt)
        strings = [self._tokenizer.piece(token) for token in tokens] if body.return_token_strs else None
        limit = self._arguments.max_model_len
        return _json({"count": len(tokens), "max_model_len": limit, "tokens": tokens, "token_strs": strings})

    async def _detokenize(self, request: HttpRequest) -> HttpResponse:
        body = parse_body(DetokenizeRequest, request.body)
        self._check_model(body.model)
        return _json({"prompt": self._tokenizer.decode(body.tokens)})

    async def _complete(self, request: HttpRequest) -> HttpResponse:
        return await self._answer(CompletionRequest, request)

    async def _chat(self, request: HttpRequest) -> HttpResponse:
        return await self._answer(ChatRequest, request)

    async def _answer(self, kind: type[AnswerRequest], request: HttpRequest) -> HttpResponse:
        if time.monotonic() < self._started_s + self._fake.ready_after_s:
            raise RefusedError(
                "The model is still being loaded; ask again later.",
                status=HTTPStatus.SERVICE_UNAVAILABLE,
                kind="ServiceUnavailableError",
            )
        body = parse_body(kind, request.body)
        self._check_model(body.model)
        completion = self._completions.accept(body, request)
        self._flood.print(self._fake.log_bytes_per_request)
        if body.stream:
            return HttpResponse(self._completions.stream(completion), "text/event-stream; charset=utf-8")
        return _json(await self._completions.whole(completion))

    def _check_model(self, name: str | None) -> None:
        names = self._arguments.served_names
        if name is not None and name not in names:
            raise RefusedError(
                f"The model `{name}` does not exist. Valid aliases: {', '.join(names)}.",
                status=HTTPStatus.NOT_FOUND,
                kind="NotFoundError",
                parameter="model",
            )


def _permission(created_s: int) -> dict[str, Any]:
    return {
        "id": f"modelperm-{uuid.uuid4().hex[:16]}",
        "object": "model_permission",
        "created": created_s,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    return HttpResponse(compact(value), status=status)
