"""Waiting for conditions, with generous limits: a slow machine makes a test slow, never red."""

import time

LIMIT_SECONDS = 60


def wait_until(condition, what, limit_seconds=LIMIT_SECONDS, pause_seconds=0.05):
    """Calls `condition` until it returns something true, and returns that."""
    end = time.monotonic() + limit_seconds
    while True:
        outcome = condition()
        if outcome:
            return outcome
        if time.monotonic() > end:
            raise AssertionError(f"within {limit_seconds} s it did not happen: {what}")
        time.sleep(pause_seconds)
