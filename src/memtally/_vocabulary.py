"""Where exact token counters come from, without a network.

Looked for in this order: the ``toktok`` package (vocabulary compiled in), tiktoken with a vocabulary
file from its cache or from memtally's, tiktoken with a vocabulary that an installed package carries.
Every file is checked against tiktoken's published SHA-256 before it is believed. Only ``fetch()``,
called on purpose, downloads.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib
import importlib.util
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from memtally._files import read_small
from memtally.errors import InvalidValueError, MemtallyError

__all__ = ["NAMES", "VocabularyMissingError", "fetch", "import_encoder", "load_counter", "vocabulary_bytes"]

NAMES = ("o200k_base", "cl100k_base", "o200k_harmony", "p50k_base", "r50k_base")
"""Encodings that can be asked for: tiktoken's own, as far as they are one vocabulary file."""

Counter = Callable[[str], int]

# Packages on PyPI that carry tiktoken's files byte for byte (checked by hash, never imported).
_CARRIERS = (("bpe_openai", "data", ".tiktoken.gz"), ("tiktoken_ext", "data", ".tiktoken"))


class VocabularyMissingError(MemtallyError):
    """No vocabulary on this machine for an encoding; ``memtally tokens fetch`` gets one."""


def import_encoder() -> None:
    """Import the package that will count; apart from the loading, so that a fork can wait for it."""
    importlib.import_module("toktok" if importlib.util.find_spec("toktok") else "tiktoken")


def load_counter(name: str) -> tuple[Counter, str]:
    """A function from text to its exact token count, and where it came from (``toktok``, ``tiktoken``).

    Takes 0.2 to 0.6 s and 40 to 80 MB: never call it on a read path. Raises
    ``VocabularyMissingError`` when nothing on this machine has the vocabulary.
    """
    if importlib.util.find_spec("toktok") is not None:
        import toktok  # noqa: PLC0415

        def count_with_toktok(text: str) -> int:
            return int(toktok.batch_count([text], name, 1)[0])

        try:
            if count_with_toktok("a b") == 2:
                return count_with_toktok, "toktok"
        except KeyError:
            pass  # an encoding that toktok does not carry: tiktoken may

    import tiktoken  # noqa: PLC0415

    encoding = tiktoken.Encoding(**_definitions(_offline_ranks).ENCODING_CONSTRUCTORS[name]())
    # encode_ordinary: special-token text in a record is plain text, and never an error
    return lambda text: len(encoding.encode_ordinary(text)), "tiktoken"


def fetch(name: str) -> Path:
    """Download the vocabulary of an encoding into memtally's cache and return the file.

    The only place that uses the network. Raises ``InvalidValueError`` for an unknown name and
    ``MemtallyError`` when the download fails or its hash is wrong.
    """
    if name not in NAMES:
        raise InvalidValueError("tokenizer", name, "no such vocabulary", f"use one of {', '.join(NAMES)}")
    url, expected = _published(name)
    from tiktoken.load import read_file  # noqa: PLC0415

    try:
        data = read_file(url)
    except Exception as error:  # requests raises many kinds; each means the same to the user
        reason = type(error).__name__
        raise MemtallyError(
            f"vocabulary {name}: the download failed ({reason}); try again with a network, "
            f"or install memtally[tokens], which needs none"
        ) from error
    if hashlib.sha256(data).hexdigest() != expected:
        raise MemtallyError(f"vocabulary {name}: the download has a wrong hash; try again")
    target = _own_cache() / _cache_key(url)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.{uuid.uuid4()}.tmp")
    temporary.write_bytes(data)
    temporary.replace(target)
    return target


def vocabulary_bytes(name: str) -> tuple[bytes, str]:
    """The vocabulary file of an encoding and where it was found. Raises ``VocabularyMissingError``."""
    return _find(*_published(name))


_MAX_BYTES = 16_777_216  # the largest published one has 3.6 MB


def _find(url: str, expected_hash: str | None) -> tuple[bytes, str]:
    """The first candidate that has the hash tiktoken publishes, and its place."""
    for place, data in _candidates(url):
        if hashlib.sha256(data).hexdigest() == expected_hash:
            return data, place
    raise VocabularyMissingError(
        f"vocabulary {_stem(url)}: not on this machine; "
        f"run memtally tokens fetch, or install memtally[tokens]"
    )


def _stem(url: str) -> str:
    return url.rsplit("/", 1)[-1].removesuffix(".tiktoken")


def _candidates(url: str) -> Iterator[tuple[str, bytes]]:
    key, stem = _cache_key(url), _stem(url)
    places = [_own_cache() / key]
    cache = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if cache is None:
        places.append(Path(tempfile.gettempdir()) / "data-gym-cache" / key)
    elif cache:
        places.append(Path(cache) / key)
    for package, folder, suffix in _CARRIERS:
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec else ():
            places.append(Path(root) / folder / (stem + suffix))
    for place in places:
        try:
            data = read_small(place, _MAX_BYTES)
            yield str(place), gzip.decompress(data) if place.suffix == ".gz" else data
        except (OSError, EOFError, ValueError, gzip.zlib.error):  # type: ignore[attr-defined]
            continue  # absent, unreadable or damaged: the next place may do


def _own_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "memtally" / "vocabulary"


def _cache_key(url: str) -> str:
    """tiktoken's own file name for a vocabulary, so that either cache serves both."""
    return hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()


def _definitions(ranks: Callable[[str, str | None], dict[bytes, int]]) -> ModuleType:
    """tiktoken's table of encodings, in a private copy that loads vocabularies with ``ranks``.

    tiktoken's own loader would download. A copy of the module leaves tiktoken itself as it is.
    """
    spec = importlib.util.find_spec("tiktoken_ext.openai_public")
    if spec is None or spec.loader is None:
        raise VocabularyMissingError("tiktoken: its table of encodings is missing; reinstall tiktoken")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["load_tiktoken_bpe"] = ranks
    return module


def _offline_ranks(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
    data, _ = _find(url, expected_hash)
    lines = (line.split() for line in data.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


class _Published(Exception):
    pass


def _published(name: str) -> tuple[str, str]:
    """Address and SHA-256 of a vocabulary, as the installed tiktoken publishes them."""

    def stop(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
        raise _Published(url, expected_hash)

    try:
        _definitions(stop).ENCODING_CONSTRUCTORS[name]()
    except _Published as answer:
        url, expected = answer.args
        return str(url), str(expected)
    raise VocabularyMissingError(f"vocabulary {name}: tiktoken publishes no single file for it")
