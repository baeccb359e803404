"""Token estimates: cached, never from the network, never worth an exception.

``estimate()`` answers at once: from the cache, by the exact encoder if one is loaded, else by a
script-aware formula. ``preload()`` loads the encoder in the background. The second value of an
estimate names its maker: an encoding (``o200k_base``) is exact for that encoding, ``script-estimate``
is the formula, within a factor of two of ``o200k_base`` for prose and code in any script.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable

from memtally import faults
from memtally._script_estimate import script_estimate
from memtally._vocabulary import NAMES, import_encoder, load_counter
from memtally.errors import InvalidValueError

__all__ = [
    "BYTES_QUARTER",
    "DEFAULT_TOKENIZER",
    "SCRIPT_ESTIMATE",
    "TokenEstimator",
    "check_tokenizer",
    "estimate",
    "estimator",
    "preload",
    "preload_default",
    "script_estimate",
]

DEFAULT_TOKENIZER = "o200k_base"
SCRIPT_ESTIMATE = "script-estimate"
BYTES_QUARTER = "bytes/4"

EXACT_LIMIT = 65_536
"""Longest text, in characters, that is counted exactly on a read path (about 6 ms by tiktoken)."""

_CACHE_SIZE = 8_192


def check_tokenizer(name: object) -> str:
    """The tokenizer's name, or ``InvalidValueError`` when there is none of that name."""
    if isinstance(name, str) and name in (*NAMES, SCRIPT_ESTIMATE, BYTES_QUARTER):
        return name
    choices = ", ".join((*NAMES, SCRIPT_ESTIMATE, BYTES_QUARTER))
    raise InvalidValueError("tokenizer", name, "no such tokenizer", f"use one of {choices}")


class TokenEstimator:
    """Estimates for one tokenizer, with a bounded cache keyed by hash and length of the text."""

    def __init__(self, name: str = DEFAULT_TOKENIZER) -> None:
        self.name = check_tokenizer(name)
        self.state = "formula" if name in (SCRIPT_ESTIMATE, BYTES_QUARTER) else "idle"
        self.origin = ""
        self._counter: Callable[[str], int] | None = None
        self._cache: OrderedDict[tuple[int, int], tuple[int, str]] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._load_again = False

    def estimate(self, text: str) -> tuple[int, str]:
        """Estimated tokens of a text, and the name of the tokenizer that made the figure."""
        self.resume_loading()
        key = (hash(text), len(text))
        found = self._cache.get(key)
        if found is not None and self.holds(found[1], len(text)):
            return found
        made = self._make(text)
        self._cache[key] = made
        if len(self._cache) > _CACHE_SIZE:
            try:
                self._cache.popitem(last=False)
            except KeyError:  # another thread emptied it meanwhile
                pass
        return made

    def resume_loading(self) -> None:
        """Begin anew what a fork has interrupted: the thread that was loading is not in the child."""
        if self._load_again:
            self._load_again = False
            self.load_in_background()

    def holds(self, made_by: str, length: int) -> bool:
        """Whether an estimate stands: one by formula is made again once the exact encoder is there."""
        return made_by == self.name or self._counter is None or length > EXACT_LIMIT

    def _make(self, text: str) -> tuple[int, str]:
        if self.name == BYTES_QUARTER:
            return (len(text.encode("utf-8", "replace")) + 3) // 4, BYTES_QUARTER
        exact = self.count_exactly(text) if len(text) <= EXACT_LIMIT else None
        return (script_estimate(text), SCRIPT_ESTIMATE) if exact is None else (exact, self.name)

    def count_exactly(self, text: str) -> int | None:
        """The count by the loaded encoder, however long that takes; ``None`` where there is none."""
        if self._counter is None:
            return None
        try:
            return self._counter(text)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException:  # a Rust panic is a BaseException; it costs precision and nothing else
            return None

    def load(self) -> None:
        """Load the exact encoder, here and now. Failure leaves the formula in place; see ``state``."""
        if self._counter is not None or self.state == "formula":
            return
        self.state = "loading"
        try:
            with _import_gate:
                import_encoder()
            self._counter, self.origin = load_counter(self.name)
            self.state = "exact"
        except (KeyboardInterrupt, SystemExit):
            self.state = "idle"
            raise
        except BaseException as error:  # missing vocabulary, broken package, Rust panic
            self.state = "missing"
            self.origin = type(error).__name__

    def load_in_background(self) -> None:
        """Start loading in a daemon thread, once. Estimates are by formula until it is done."""
        if self.state != "idle":
            return
        self.state = "loading"
        self._thread = threading.Thread(target=self.load, name="memtally-vocabulary", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter is shutting down
            self.state = "idle"

    def wait(self, timeout: float) -> bool:
        """Wait until loading ends, at most ``timeout`` seconds; whether counts are exact now."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self.state == "exact"

    def _after_fork_in_child(self) -> None:
        if self.state == "loading":  # the thread that loads is not in the child: begin again when needed
            self.state = "idle"
            self._thread = None
            self._load_again = True


_import_gate = threading.Lock()
"""Held while an encoder package is imported, and taken by fork: a child forked in the middle of an
import would find the module's lock held for ever."""

_estimator: TokenEstimator | None = None


def estimator() -> TokenEstimator:
    """The process's estimator: ``configure(tokenizer=)``, else ``MEMTALLY_TOKENIZER``, else o200k_base."""
    global _estimator
    if _estimator is None:
        name = os.environ.get("MEMTALLY_TOKENIZER") or DEFAULT_TOKENIZER
        try:
            _estimator = TokenEstimator(name)
        except InvalidValueError:
            # met on a read path: configure() is where the programmer is told
            _estimator = TokenEstimator(SCRIPT_ESTIMATE)
    return _estimator


def preload(name: str | None = None) -> None:
    """Choose the process's tokenizer and load its vocabulary in the background.

    Raises ``InvalidValueError`` for a name that no tokenizer has, from the argument or from
    ``MEMTALLY_TOKENIZER``.
    """
    global _estimator
    wanted = check_tokenizer(name or os.environ.get("MEMTALLY_TOKENIZER") or DEFAULT_TOKENIZER)
    if _estimator is None or _estimator.name != wanted:
        _estimator = TokenEstimator(wanted)
    _estimator.load_in_background()


def preload_default() -> None:
    """Load the vocabulary that the environment names, unless a tokenizer has been chosen already.

    For exporters that are loaded by name: a wrong name is a fault there, not an error.
    """
    if _estimator is None:
        try:
            preload()
        except InvalidValueError as error:
            faults.note("wrong_tokenizer", f"{error}; tokens are estimated by formula", error)


def estimate(text: str) -> tuple[int, str]:
    """Estimated tokens of a text by the process's estimator, and the tokenizer's name."""
    return estimator().estimate(text)


_gate_held_for_fork = False


def _before_fork() -> None:
    global _gate_held_for_fork
    _gate_held_for_fork = _import_gate.acquire(timeout=1.0)


def _after_fork_in_parent() -> None:
    if _gate_held_for_fork:  # and not the loader's own hold, where the import took longer than that
        _import_gate.release()


def _after_fork_in_child() -> None:
    global _import_gate
    _import_gate = threading.Lock()
    if _estimator is not None:
        _estimator._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
