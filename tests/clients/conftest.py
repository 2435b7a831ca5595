"""What every suite shares: the broker's address, and names that no other run uses."""

import itertools
import os
import uuid

import pytest

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def bootstrap():
    address = os.environ.get("MAINSTEM_BOOTSTRAP")
    if not address:
        pytest.exit("MAINSTEM_BOOTSTRAP is not set; run `cargo xtask test clients`", returncode=2)
    return address


@pytest.fixture
def fresh_name(request):
    """A function that gives a name for a topic or a group, new at every call."""
    test = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60]
    return lambda kind: f"{kind}-{test}-{next(_numbers)}-{uuid.uuid4().hex[:8]}"
