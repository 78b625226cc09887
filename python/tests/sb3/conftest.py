"""Scripts as the documentation of Stable-Baselines3 has them, written anew, with fewer steps."""

import os

import pytest


@pytest.fixture
def steps():
    """Shortens a number of steps. With `PAVLOV_WHOLE_BLOCKS` set the scripts run as long as they say."""
    whole = bool(os.environ.get("PAVLOV_WHOLE_BLOCKS"))
    return lambda number: number if whole else max(min(number // 50, 600), 128)


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
