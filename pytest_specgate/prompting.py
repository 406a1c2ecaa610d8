"""Prompts of a window: made once, through the first server's tokenizer, and reused for all arms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.corpus import build_prompts
from pytest_specgate.core.metrics import DEFINITION_VERSION
from pytest_specgate.core.profile import declared_fields, messages_of, sha256_of, sha256_of_text
from pytest_specgate.core.progress import Step
from pytest_specgate.core.prompt_files import PromptFile, token_ids
from pytest_specgate.core.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.corpus import PromptSet
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.ports import Ports, Server
    from pytest_specgate.core.profile import ProfileFields, RequestProfile
    from pytest_specgate.core.prompt_files import Prompt

TOKENIZER_PROBE = 'Straße, naïve café: 12345 tokens — {"key": [1.5, true]}\n\tdef f(x): return x ** 2 # 漢字'
"""A text whose token ids tell tokenizers apart."""

TEMPLATE_PROBE: list[JsonValue] = [
    {"role": "user", "content": TOKENIZER_PROBE},
    {"role": "assistant", "content": "42"},
    {"role": "user", "content": " Why? "},
]
"""A conversation whose token ids tell chat templates apart."""


class Prompter:
    """Makes the requests of a window, and tells what they are.

    Args:
        ports: the outside world.
        profile: the load.
    """

    def __init__(self, ports: Ports, profile: RequestProfile) -> None:
        self._ports = ports
        self.profile = profile
        self._made: PromptSet | None = None

    def requests(self, server: Server) -> PromptSet:
        """Return the requests; the first server that is asked makes them.

        Raises:
            UsageError: they cannot be made as declared.
            ScrapeError: the server does not tokenize.
        """
        if self._made is None:
            self._made = self._make(server)
        return self._made

    def repetitiveness(self, at: Level) -> float | None:
        """Return the repetitiveness of the prompts at a load level; `None` where it is not known."""
        return self._made.repetitiveness.get(at) if self._made else None

    def fields(self, arm: Arm, server: Server) -> ProfileFields:
        """Return the request profile as far as it is known before the first request, without secrets."""
        known: ProfileFields = {
            **declared_fields(self.profile),
            "prompt_source_sha256": self.requests(server).source_sha256,
            "model": arm.model,
            "revision": arm.args.get("revision"),
            "tokenizer_sha256": sha256_of(list(self._ports.pages.tokenize(server, TOKENIZER_PROBE, {}))),
            "chat_template_sha256": self._chat_template_sha256(server),
            "client_version": self._ports.host.client_version(),
            "metric_definition_version": DEFINITION_VERSION,
        }
        return {name: redacted(value, name=name) for name, value in known.items()}

    def _make(self, server: Server) -> PromptSet:
        profile = self.profile
        length = "" if profile.input_tokens is None else f" of {profile.input_tokens} tokens"
        self._ports.progress.step(Step("prompts", words=f"making prompts{length} from {profile.source}"))
        named, prompts = profile.prompts, self._ports.prompts
        source = prompts.file(named.name) if isinstance(named, PromptFile) else prompts.text(named)
        return build_prompts(
            profile,
            source=source,
            source_sha256=sha256_of_text(source),
            model=server.model,
            tokenize=lambda prompt: self._tokenize(server, prompt),
        )

    def _tokenize(self, server: Server, prompt: Prompt) -> Sequence[int]:
        """Return the token ids that the server makes of a prompt."""
        pages, extra = self._ports.pages, self.profile.extra_body
        if self.profile.api == "chat":
            return pages.tokenize_chat(server, messages_of(prompt), extra)
        return pages.tokenize(server, prompt, extra) if isinstance(prompt, str) else token_ids(prompt)

    def _chat_template_sha256(self, server: Server) -> str | None:
        """Return the hash of what the chat template makes of a probe; `None` where no template is used."""
        return sha256_of([*self._tokenize(server, TEMPLATE_PROBE)]) if self.profile.api == "chat" else None
