"""Token estimates: exact where a vocabulary is, within a factor of two elsewhere, harmless always."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from memtally import _vocabulary, tokens
from memtally.errors import InvalidValueError, MemtallyError
from memtally.records import Measure
from memtally.tokens import SCRIPT_ESTIMATE, TokenEstimator, script_estimate

# tiktoken's published SHA-256 of o200k_base, as its own source has it.
PUBLISHED = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

PROSE = {
    "english": "All human beings are born free and equal in dignity and rights. They are endowed with reason.",
    "german": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft begabt.",
    "vietnamese": "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.",
    "polish": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "russian": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "greek": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "hebrew": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "arabic": "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.",
    "hindi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "tamil": "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "thai": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "georgian": "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.",
    "amharic": "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
    "burmese": "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း",
    "chinese": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。",
    "chinese, repeated": "你好世界" * 25,
    "japanese": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "korean": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "emoji": "🎉🚀👍😀🔥" * 10,
    "python": Path(os.__file__).read_text("utf-8")[:6_000],
    "c": "int main(int argc, char **argv) {\n    for (int i = 0; i < argc; i++) {\n        puts(argv[i]);\n    }\n}\n"
    * 8,
    "json": '{"id":"019e1729-5daf-7580-b765-095156c4009a","records":[{"kind":"decision","file_bytes":2381}]}\n'
    * 8,
    "yaml": "key:\n  - name: foo\n    value: bar\n    list:\n      - 1\n      - 2\n" * 20,
    "markdown table": "| a | b | c |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n" * 20,
}


_CARRIER = importlib.util.find_spec("bpe_openai")


def carried_vocabulary() -> bytes:
    """The vocabulary that the test extra's package carries."""
    assert _CARRIER is not None
    assert _CARRIER.origin is not None
    return gzip.decompress((Path(_CARRIER.origin).parent / "data" / "o200k_base.tiktoken.gz").read_bytes())


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to connect fails the test."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a token estimate tried to use the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Hides packages and the default caches, as if this machine had none of them."""

    def hide(*names: str) -> None:
        real = importlib.util.find_spec
        monkeypatch.setattr(
            _vocabulary.importlib.util,
            "find_spec",
            lambda name, *a: None if name in names else real(name, *a),
        )
        monkeypatch.setattr(_vocabulary.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))

    return hide


def test_the_vocabulary_is_tiktokens_own(no_network: None) -> None:
    """The carried file has tiktoken's published hash, and is found without a network."""
    assert hashlib.sha256(carried_vocabulary()).hexdigest() == PUBLISHED
    data, place = _vocabulary.vocabulary_bytes("o200k_base")
    assert hashlib.sha256(data).hexdigest() == PUBLISHED
    assert "bpe_openai" in place


def test_exact_counts_by_either_encoder(no_network: None, without: Callable[..., None]) -> None:
    """toktok and tiktoken give the ids' true number, known for these texts from tiktoken's own documents."""
    with_toktok, origin = _vocabulary.load_counter("o200k_base")
    assert origin == "toktok"
    without("toktok")
    with_tiktoken, origin = _vocabulary.load_counter("o200k_base")
    assert origin == "tiktoken"
    # "tiktoken is great!" is the example of OpenAI's cookbook: 6 tokens in cl100k_base and o200k_base
    assert with_toktok("tiktoken is great!") == with_tiktoken("tiktoken is great!") == 6
    for name, text in PROSE.items():
        assert with_toktok(text) == with_tiktoken(text), name


def test_special_tokens_are_plain_text(no_network: None, without: Callable[..., None]) -> None:
    """A record that spells special tokens is counted, letter by letter, and raises nothing."""
    text = "<|endoftext|><|fim_prefix|><|endofprompt|><|start|>"
    first, _ = _vocabulary.load_counter("o200k_base")
    without("toktok")
    second, _ = _vocabulary.load_counter("o200k_base")
    assert first(text) == second(text) > 20


@pytest.mark.parametrize("name", PROSE)
def test_the_formula_is_within_a_factor_of_two(name: str) -> None:
    """Prose and code in any script: the estimate is between half and twice the exact count."""
    exact, _ = _vocabulary.load_counter("o200k_base")
    assert 0.5 <= script_estimate(PROSE[name]) / exact(PROSE[name]) <= 2.0


def test_the_formula_holds_for_long_texts_by_sampling() -> None:
    """A text beyond the sample is estimated from parts of it, within the same bound."""
    exact, _ = _vocabulary.load_counter("o200k_base")
    text = "\n".join(PROSE.values()) * 4
    assert len(text) > 40_000
    assert 0.5 <= script_estimate(text) / exact(text) <= 2.0


def test_latin1_and_utf16_bytes_are_measured(no_network: None) -> None:
    """Bytes that are no UTF-8 have their true size, and an estimate within a factor of two."""
    exact, _ = _vocabulary.load_counter("o200k_base")
    for encoding in ("latin-1", "utf-16", "utf-16-le", "utf-16-be"):
        text = PROSE["german"]
        data = text.encode(encoding)
        size, count = Measure()(data)
        assert size == len(data)
        assert count is not None
        assert 0.5 <= count / exact(text) <= 2.0


def test_estimates_before_and_after_loading() -> None:
    """Until the vocabulary is there the figure is marked as the formula's, afterwards it is exact."""
    estimator = TokenEstimator("o200k_base")
    assert estimator.estimate("hello world") == (script_estimate("hello world"), SCRIPT_ESTIMATE)
    estimator.load_in_background()
    assert estimator.wait(30)
    assert estimator.estimate("hello world") == (2, "o200k_base")


def test_an_unchanged_text_is_counted_once() -> None:
    """The cache answers for a text that was counted before, whichever object holds it."""
    calls: list[str] = []
    estimator = TokenEstimator("o200k_base")
    estimator._counter = lambda text: calls.append(text) or 7  # type: ignore[func-returns-value]
    for _ in range(5):
        assert estimator.estimate("".join(["same ", "text"])) == (7, "o200k_base")
    assert len(calls) == 1


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old texts are forgotten, not kept for ever."""
    monkeypatch.setattr(tokens, "_CACHE_SIZE", 10)
    estimator = TokenEstimator("bytes/4")
    for number in range(50):
        estimator.estimate(str(number))
    assert len(estimator._cache) == 10


def test_a_panic_costs_precision_and_nothing_else() -> None:
    """A Rust panic is no Exception; it must not get out of an estimate."""

    class PanicException(BaseException):  # pyo3's is a BaseException too
        pass

    def panics(_: str) -> int:
        raise PanicException("index out of bounds")

    estimator = TokenEstimator("o200k_base")
    estimator._counter = panics
    assert estimator.estimate("hello world") == (script_estimate("hello world"), SCRIPT_ESTIMATE)

    def interrupted(_: str) -> int:
        raise KeyboardInterrupt

    estimator._counter = interrupted
    with pytest.raises(KeyboardInterrupt):
        estimator.estimate("something else")


def test_lone_surrogates_are_estimated() -> None:
    """A text that UTF-8 cannot carry is measured by both ways of counting."""
    assert script_estimate("\ud800x") >= 1
    estimator = TokenEstimator("o200k_base")
    estimator.load()
    assert estimator.estimate("\ud800x")[0] >= 1
    assert Measure()("\ud800x") == (4, estimator.estimate("\ud800x")[0])


def test_bytes_quarter() -> None:
    """The plainest estimator: a quarter of the bytes, rounded up."""
    estimator = TokenEstimator("bytes/4")
    assert [estimator.estimate(t)[0] for t in ("", "a", "abcd", "abcde", "\u3042")] == [0, 1, 1, 2, 1]


def test_very_long_texts_are_estimated_not_counted() -> None:
    """A read of a huge text does not wait for an exact count; the figure is marked."""
    estimator = TokenEstimator("o200k_base")
    estimator.load()
    assert estimator.estimate("word " * 20_000)[1] == SCRIPT_ESTIMATE


@pytest.mark.parametrize("state", ["truncated", "misnamed", "empty", "not there", "a folder"])
def test_a_bad_cache_leaves_the_formula(
    state: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    without: Callable[..., None],
    no_network: None,
) -> None:
    """A truncated, misnamed or missing vocabulary file is not believed, not deleted and not fetched again."""
    without("toktok", "bpe_openai")
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(cache))
    name = _vocabulary._cache_key(_vocabulary._published("o200k_base")[0])
    if state == "truncated":
        (cache / name).write_bytes(carried_vocabulary()[:100_000])
    elif state == "misnamed":
        (cache / "o200k_base.tiktoken").write_bytes(carried_vocabulary())
    elif state == "empty":
        (cache / name).touch()
    elif state == "a folder":
        (cache / name).mkdir()
    before = sorted(p.name for p in cache.iterdir())
    estimator = TokenEstimator("o200k_base")
    estimator.load()
    assert estimator.state == "missing"
    assert estimator.estimate("hello world")[1] == SCRIPT_ESTIMATE
    assert sorted(p.name for p in cache.iterdir()) == before


@pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", "XDG_CACHE_HOME"])
def test_vocabulary_from_a_cache(
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    without: Callable[..., None],
    no_network: None,
) -> None:
    """tiktoken's own cache and memtally's serve alike."""
    without("toktok", "bpe_openai")
    folder = tmp_path / "memtally" / "vocabulary" if variable == "XDG_CACHE_HOME" else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv(variable, str(tmp_path))
    name = _vocabulary._cache_key(_vocabulary._published("o200k_base")[0])
    (folder / name).write_bytes(carried_vocabulary())
    estimator = TokenEstimator("o200k_base")
    estimator.load()
    assert estimator.estimate("tiktoken is great!") == (6, "o200k_base")


def test_fetch_checks_what_it_downloads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, without: Callable[..., None]
) -> None:
    """A download goes into memtally's cache only when its hash is right; failures are one line."""
    import tiktoken.load

    without("toktok", "bpe_openai")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tiktoken.load, "read_file", lambda _: b"not it")
    with pytest.raises(MemtallyError, match="wrong hash"):
        _vocabulary.fetch("o200k_base")
    assert not (tmp_path / "cache").exists()

    def offline(_: str) -> bytes:
        raise OSError("no route")

    monkeypatch.setattr(tiktoken.load, "read_file", offline)
    with pytest.raises(MemtallyError, match=r"download failed.*memtally\[tokens\]"):
        _vocabulary.fetch("o200k_base")
    monkeypatch.setattr(tiktoken.load, "read_file", lambda _: carried_vocabulary())
    assert hashlib.sha256(_vocabulary.fetch("o200k_base").read_bytes()).hexdigest() == PUBLISHED
    assert _vocabulary.load_counter("o200k_base")[0]("tiktoken is great!") == 6
    with pytest.raises(InvalidValueError, match="tokenizer"):
        _vocabulary.fetch("nonesuch")


def test_tiktoken_itself_is_left_alone(without: Callable[..., None], no_network: None) -> None:
    """Loading offline changes nothing in tiktoken's own modules."""
    import tiktoken.load
    import tiktoken.registry
    import tiktoken_ext.openai_public as public

    loader, constructors = public.load_tiktoken_bpe, tiktoken.registry.ENCODING_CONSTRUCTORS
    without("toktok")
    _vocabulary.load_counter("o200k_base")
    assert public.load_tiktoken_bpe is loader is tiktoken.load.load_tiktoken_bpe
    assert tiktoken.registry.ENCODING_CONSTRUCTORS is constructors


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_during_the_first_load() -> None:
    """A child forked while the vocabulary loads counts at once by the formula, and later exactly."""
    code = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from memtally import tokens
tokens.preload()
pid = os.fork()
if pid == 0:
    made = tokens.estimate("hello world")  # which also begins to load anew: the loading thread is not here
    exact = tokens.estimator().wait(30) and tokens.estimate("hello world") == (2, "o200k_base")
    os._exit(0 if made[0] >= 1 and exact else 3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0\n", done.stderr


def test_choosing_a_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """By argument, else by environment; a name that none has is refused where it is given."""
    tokens.preload("bytes/4")
    assert tokens.estimate("abcde") == (2, "bytes/4")
    monkeypatch.setenv("MEMTALLY_TOKENIZER", "script-estimate")
    tokens.preload()
    assert tokens.estimate("abcde")[1] == "script-estimate"
    with pytest.raises(InvalidValueError, match=r"gpt-9.*o200k_base"):
        tokens.preload("gpt-9")
    monkeypatch.setenv("MEMTALLY_TOKENIZER", "gpt-9")
    with pytest.raises(InvalidValueError, match="gpt-9"):
        tokens.preload()
    monkeypatch.setattr(tokens, "_estimator", None)
    assert tokens.estimate("abc")[1] == "script-estimate"  # on a read path it is no error


def test_threads_may_estimate_at_once() -> None:
    """Many threads on a small cache: every figure right, no error."""
    estimator = TokenEstimator("bytes/4")
    wrong: list[int] = []

    def work() -> None:
        for size in range(400):
            if estimator.estimate("x" * size)[0] != (size + 3) // 4:
                wrong.append(size)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []


def test_a_slow_import_and_a_fork_do_not_spoil_the_load() -> None:
    """A fork that gives up waiting for an import leaves that import's lock to the importer."""
    code = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from memtally import tokens
real = tokens.import_encoder
def slow():
    time.sleep(1.6)
    real()
tokens.import_encoder = slow
tokens.preload()
time.sleep(0.1)
if os.fork() == 0:
    os._exit(0)
os.wait()
print(tokens.estimator().wait(30), tokens.estimator().state)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True exact\n", done.stderr


def test_a_wrong_file_in_tiktokens_cache_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, without: Callable[..., None], no_network: None
) -> None:
    """A vocabulary that reads well but is another one counts nothing."""
    without("toktok", "bpe_openai")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    name = _vocabulary._cache_key(_vocabulary._published("o200k_base")[0])
    lines = carried_vocabulary().splitlines(keepends=True)
    (tmp_path / name).write_bytes(b"".join(lines[:-1]))
    estimator = TokenEstimator("o200k_base")
    estimator.load()
    assert estimator.state == "missing"


def test_an_unchanged_record_too_makes_a_child_load_its_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork in the middle of loading: the first read in the child begins it anew, whatever text it reads."""
    from memtally import MemoryRecord
    from memtally.records import snapshots

    estimator = TokenEstimator("o200k_base")
    begun: list[bool] = []
    monkeypatch.setattr(tokens, "_estimator", estimator)
    monkeypatch.setattr(estimator, "load_in_background", lambda: begun.append(True))
    record = MemoryRecord("decision", "a", "a text that is read again")
    assert snapshots([record])[1] == "script-estimate"
    estimator.state = "loading"
    estimator._after_fork_in_child()
    assert snapshots([record])[1] == "script-estimate"
    assert begun == [True]
