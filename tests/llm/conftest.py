"""One real model for the whole session."""

from collections.abc import Iterator

import pytest

from midthought.testing import LocalModel, local_model_missing


@pytest.fixture(scope="session")
def model() -> Iterator[LocalModel]:
    """A llama-server that reads a prompt in the same steps as it writes a reply."""
    missing = local_model_missing()
    if missing is not None:
        pytest.skip(missing)
    with LocalModel(batch_tokens=1) as running:
        yield running
