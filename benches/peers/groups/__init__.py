"""A module a group: `rows(harness)` yields its problems."""
