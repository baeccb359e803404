"""Hosts and frameworks: one module each.

A module says what a host's event is by the rules of counting, and records it.

Nothing is loaded here: a module of a framework is imported by who uses that framework.
"""
