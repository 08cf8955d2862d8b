"""Names: each check against its table, at the borders of what is allowed."""

from __future__ import annotations

import pytest

from allocator.values.names import (
    LABEL_KEY_LENGTH_MAX,
    is_c_identifier,
    is_dns_subdomain,
    is_label_key,
    is_label_value,
)

LONGEST_SUBDOMAIN = f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}"


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        (
            is_dns_subdomain,
            ["a", "a.b-c.0", LONGEST_SUBDOMAIN],
            ["", f"{LONGEST_SUBDOMAIN}x", "a..b", "a_b", ".a", "A"],
        ),
        (
            is_label_key,
            ["gpu", "A_b.c-D", "example.com/gpu", f"{LONGEST_SUBDOMAIN}/{'x' * 63}"],
            ["", "/gpu", "a/", "a/b/c", "Example.com/gpu", "x" * 64, f"{LONGEST_SUBDOMAIN}x/x", "-a"],
        ),
        (is_label_value, ["", "a", "A_b.c-D", "x" * 63], ["x" * 64, "-a", "a-", "a b", "a/b", "é"]),
        (is_c_identifier, ["a", "_", "A_1", "a" * 300], ["", "1a", "a-b", "a.b", "é", "a\n"]),
    ],
    ids=["dns-subdomain", "label-key", "label-value", "c-identifier"],
)
def test_names(check, right, wrong) -> None:
    assert [text for text in right if not check(text)] == []
    assert [text for text in wrong if check(text)] == []


def test_the_longest_key_is_as_long_as_the_limit_says() -> None:
    assert len(f"{LONGEST_SUBDOMAIN}/{'x' * 63}") == LABEL_KEY_LENGTH_MAX
    assert not is_label_key("x" * (LABEL_KEY_LENGTH_MAX + 1))
