"""The command line of the fake vLLM: the flags of vLLM that mean something here, and all others."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from pytest_specgate.testing.request_metrics import REFUSED, Level
from pytest_specgate.testing.settings import FakeSettings, SpeculativeConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Model = TypeVar("Model", bound=BaseModel)

# A negative number is a value, not a flag.
_FLAG: Final = re.compile(r"--?[A-Za-z]")


@dataclasses.dataclass(frozen=True, slots=True)
class ServerArguments:
    """A parsed command line.

    Attributes:
        model: name or path of the model.
        served_names: names under which the model is served, the main one first.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        max_model_len: limit of prompt and output tokens of a request, together.
        max_num_seqs: limit of sequences that run at the same time, in each engine.
        block_size: tokens of a block of the prefix cache.
        data_parallel_size: number of engines.
        speculation: the speculative configuration, `None` when speculation is off.
        request_metrics: how much each answer tells of its own speculation.
        fake: the programmed behaviour.
        other: all further flags by their Python name, for what shows the configuration.
    """

    model: str = "fake-model"
    served_names: tuple[str, ...] = ("fake-model",)
    host: str = "127.0.0.1"
    port: int = 8000
    max_model_len: int = 2048
    max_num_seqs: int = 128
    block_size: int = 16
    data_parallel_size: int = 1
    speculation: SpeculativeConfig | None = None
    request_metrics: Level = "none"
    fake: FakeSettings = dataclasses.field(default_factory=FakeSettings)
    other: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def served_name(self) -> str:
        """The name that metrics and answers carry."""
        return self.served_names[0]

    @property
    def draft_tokens(self) -> int:
        """Number of tokens a draft proposes; 0 when speculation is off."""
        return self.speculation.num_speculative_tokens if self.speculation is not None else 0

    @property
    def prefix_caching(self) -> bool:
        """Whether prompts share cached blocks: as the flag says, and without one as the settings say."""
        return self.other.get("enable_prefix_caching", self.fake.prefix_caching) is True


def parse_arguments(argv: Iterable[str]) -> ServerArguments:
    """Read a command line of vLLM.

    Raises:
        SystemExit: a known flag has a bad value, or needs another one; the reason is on stderr.
    """
    parser = _parser()
    known, unknown = parser.parse_known_args([_dashed(word) for word in argv])
    if known.per_request_spec_decode_metrics != "none" and known.speculative_config is None:
        parser.exit(1, f"{REFUSED}\n")
    return ServerArguments(
        model=known.model,
        served_names=tuple(known.served_model_name or (known.model,)),
        host=known.host,
        port=known.port,
        max_model_len=known.max_model_len,
        max_num_seqs=known.max_num_seqs,
        block_size=known.block_size,
        data_parallel_size=known.data_parallel_size,
        speculation=known.speculative_config,
        request_metrics=known.per_request_spec_decode_metrics,
        fake=known.fake,
        other=_other_flags(unknown),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_specgate.testing.fake_vllm",
        description="A fake vLLM: real HTTP, real events, real metrics, no model. Other flags of vLLM are ignored.",
        allow_abbrev=False,
    )
    default = ServerArguments()
    parser.add_argument("--model", default=default.model)
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--host", default=default.host)
    parser.add_argument("--port", type=int, default=default.port)
    parser.add_argument("--max-model-len", type=int, default=default.max_model_len)
    parser.add_argument("--max-num-seqs", type=_positive, default=default.max_num_seqs)
    parser.add_argument("--block-size", type=_positive, default=default.block_size)
    parser.add_argument("--data-parallel-size", "-dp", type=_positive, default=default.data_parallel_size)
    parser.add_argument("--speculative-config", type=_json_of(SpeculativeConfig), metavar="JSON")
    parser.add_argument("--per-request-spec-decode-metrics", choices=get_args(Level), default=default.request_metrics)
    parser.add_argument("--fake", type=_json_of(FakeSettings), default=default.fake, metavar="JSON")
    return parser


def _json_of(model: type[Model]) -> Callable[[str], Model]:
    def read(text: str) -> Model:
        try:
            return model.model_validate_json(text)
        except ValidationError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


def _dashed(word: str) -> str:
    """Spell a flag with dashes, as vLLM does: it takes ``--max_model_len``, too."""
    if not word.startswith("--"):
        return word
    flag, equals, value = word.partition("=")
    return flag.replace("_", "-") + equals + value


def _other_flags(words: list[str]) -> dict[str, Any]:
    """Collect flags nobody claimed: ``--x v``, ``--x=v``, ``--x`` and ``--no-x``; short flags are dropped."""
    flags: dict[str, Any] = {}
    name = None
    for word in words:
        if _FLAG.match(word):
            flag, equals, value = word.removeprefix("--").partition("=")
            name = flag.removeprefix("no-").replace("-", "_") if word.startswith("--") else None
            if name is not None:
                flags[name] = _value(value) if equals else not flag.startswith("no-")
        elif name is not None:
            flags[name] = _value(word)
            name = None
    return flags


def _value(text: str) -> Any:
    """Read a flag's value as JSON where it is JSON, so that numbers show as numbers."""
    try:
        return json.loads(text)
    except ValueError:
        return text
