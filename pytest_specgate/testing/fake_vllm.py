"""Entry of the fake vLLM: ``python -m pytest_specgate.testing.fake_vllm --model NAME [flags of vLLM] [--fake JSON]``.

Not to be imported: the package has a context manager of the same name.
"""

from __future__ import annotations

from pytest_specgate.testing.main import main

if __name__ == "__main__":
    raise SystemExit(main())
