"""Benchmarks of memtally beside its peers: ``make bench``. Nothing here is a test or asserts a time."""
