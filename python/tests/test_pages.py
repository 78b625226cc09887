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
            yield pytest.param(page, text.split("```")[0], id=f"{page}-{number}")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder for each page: a later block may load what an earlier one has saved."""
    return {page: tmp_path_factory.mktemp("page") for page in PAGES}


@pytest.mark.parametrize("page, block", list(blocks()))
def test_a_block_of_a_page_runs(page, block, folders, monkeypatch):
    monkeypatch.chdir(folders[page])
    exec(compile(block, "page", "exec"), {"__name__": "__main__"})
    if ".save(" in block:
        assert list(folders[page].glob("*.zip"))
