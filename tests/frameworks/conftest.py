"""What the tests of the frameworks share: the real packages, in environments of their own (make test-frameworks)."""
