"""The Python blocks of the pages run."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/start.md", "python/README.md"]


def blocks():
    """Every Python block, with its page and its number there."""
    for page in PAGES:
        texts = (ROOT / page).read_text().split("```python\n")[1:]
        for number, text in enumerate(texts):
            yield pytest.param(text.split("```")[0], id=f"{page}-{number}")


@pytest.mark.parametrize("block", list(blocks()))
def test_a_block_of_a_page_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "page", "exec"), {"__name__": "__main__"})
    if ".save(" in block:
        assert list(tmp_path.glob("*.zip"))
