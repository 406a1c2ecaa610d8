"""``vllm bench serve``, as a process of the engine's environment; its command is not installed with the CPU build.

It loads no tokenizer, hence needs no model: the server counts the tokens. Its data sets would need one, or pandas, so
the requests are handed to it ready-made; they and all that follows are the tool's own.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

from vllm.benchmarks import serve
from vllm.benchmarks.datasets import SampleRequest
from vllm.utils.argparse_utils import FlexibleArgumentParser

from benchmarks.client.driving import PROMPT, Load, Outcome, Seen, cpu_seconds, drive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def run(load: Load) -> Outcome:
    """Run one point."""
    parser = FlexibleArgumentParser()
    serve.add_cli_args(parser)
    readings_s: list[float] = []
    samples = [
        SampleRequest(prompt=PROMPT, prompt_len=128, expected_output_len=load.tokens, request_id=request_id)
        for request_id in load.request_ids()
    ]
    replaced: dict[str, Any] = {
        "get_samples": lambda *_: samples,
        # The point lies between the first call of the one and the first call of the other.
        "get_request": _reading_cpu(serve.get_request, readings_s),
        "calculate_metrics": _reading_cpu(serve.calculate_metrics, readings_s),
    }
    # The tool reports on standard output.
    with mock.patch.multiple(serve, **replaced), contextlib.redirect_stdout(sys.stderr):
        result = serve.main(parser.parse_args(_arguments(load)))
    assert result["failed"] == 0, f"{result['failed']} requests failed: {result['errors']}"
    return Outcome(list(_seen(load, result)), cpu_s=readings_s[1] - readings_s[0])


def _arguments(load: Load) -> list[str]:
    options = {
        "backend": "openai",
        "base-url": load.url,
        "model": "truth",
        "dataset-name": "custom",
        "num-prompts": str(load.count),
        "max-concurrency": str(load.concurrency),
        "temperature": "0",
    }
    flags = ["--skip-tokenizer-init", "--save-detailed"]
    return [part for name, value in options.items() for part in (f"--{name}", value)] + flags


def _reading_cpu(function: Callable[..., Any], readings_s: list[float]) -> Callable[..., Any]:
    def reading(*args: Any, **kwargs: Any) -> Any:
        readings_s.append(cpu_seconds())
        return function(*args, **kwargs)

    return reading


def _seen(load: Load, result: dict[str, Any]) -> Iterator[Seen]:
    columns = (result["start_times"], result["ttfts"], result["latencies"])
    for request_id, sent_s, ttft_s, last_s in zip(load.request_ids(), *columns, strict=True):
        yield Seen(request_id, sent_s=sent_s, ttft_s=ttft_s, last_s=last_s, absolute=True)


if __name__ == "__main__":
    drive(run)
