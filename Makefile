# Everything that this project can do for you: make help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest test-frameworks test-page fuzz soak bench bench-growth bench-peers docs lint format clean

FUZZ_SECONDS ?= 600
SOAK ?= 10

help:  ## list what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-core  ## run the whole path on a sample workspace and print its report
	@$(BIN)/memtally demo

test: $(VENV)/.installed-test  ## run every test
	$(BIN)/python -m pytest --ignore tests/frameworks --ignore tests/page

test-oldest: .venv-oldest/.installed  ## run the tests that touch OpenTelemetry with the oldest supported releases
	.venv-oldest/bin/python -m pytest tests/test_pipeline.py tests/test_decorators.py tests/test_context.py tests/test_example.py

test-frameworks: .venv-frameworks/.installed .venv-adk/.installed  ## run the tests of the frameworks, each with the real package
	.venv-frameworks/bin/python -m pytest tests/frameworks --ignore tests/frameworks/test_adk.py
	.venv-adk/bin/python -m pytest tests/frameworks/test_adk.py

test-page: .venv-page/.installed  ## run the tests of the page in a real browser; pictures of it in tests/page/pictures
	.venv-page/bin/python -m pytest tests/page

fuzz: $(VENV)/.installed-fuzz  ## look for bytes that break the reader, for FUZZ_SECONDS (600)
	$(BIN)/python fuzz/run.py $(FUZZ_SECONDS)

soak: $(VENV)/.installed-test  ## the tests of processes, faults, mutations and the model, SOAK (10) times as long
	MEMTALLY_SOAK=$(SOAK) $(BIN)/python -m pytest --timeout 7200 --durations 0 \
		tests/test_processes.py tests/test_model.py tests/test_mutations.py tests/test_faults.py tests/test_fuzz.py

bench: bench-peers  ## every speed bar beside its peers, some 25 minutes and 6 GB; results in bench/results
	.venv-bench/bin/python -m bench.run $(BENCH)

bench-growth: bench-peers  ## how reports and appends grow with the log; results in bench/results
	.venv-bench/bin/python -m bench.growth $(BENCH)

bench-peers: .venv-bench/.installed  ## the benchmarks' own environment, with the peers that install here

docs: .venv-docs/.installed  ## the documentation as a site, in site/
	.venv-docs/bin/mkdocs build --strict

lint: $(VENV)/.installed-dev  ## style and types
	$(BIN)/ruff check src exporters tests examples fuzz bench
	$(BIN)/ruff format --check src exporters tests examples fuzz bench
	$(BIN)/mypy
	$(BIN)/mypy tests/typing_sample.py
	$(BIN)/pyright --pythonpath $(BIN)/python tests/typing_sample.py

format: $(VENV)/.installed-dev  ## mend the style
	$(BIN)/ruff check --fix src exporters tests examples fuzz bench
	$(BIN)/ruff format src exporters tests examples fuzz bench

clean:  ## remove the environments and caches
	rm -rf $(VENV) .venv-oldest .venv-frameworks .venv-adk .venv-page .venv-bench .venv-docs site tests/page/node_modules tests/page/pictures .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "memtally needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-core: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[tokens,view]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/.installed-core

.venv-bench/.installed: pyproject.toml bench/peers/requirements.txt bench/peers/requirements-tracing.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --disable-pip-version-check -e '.[tokens]' -r bench/peers/requirements.txt
	.venv-bench/bin/pip install --quiet --disable-pip-version-check -e '.[tokens]' -r bench/peers/requirements.txt \
		-r bench/peers/requirements-tracing.txt || echo 'the tracing peers do not install here: reported as absent'
	if command -v cargo >/dev/null; then cargo build --quiet --release --manifest-path bench/peers/rust/Cargo.toml; \
		else echo 'no cargo here: the Rust peer is reported as absent'; fi
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.installed-test $(VENV)/.installed-core

# where atheris does not install, the fuzzer does without
$(VENV)/.installed-fuzz: $(VENV)/.installed-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fuzz]' || \
		echo 'atheris does not install here: Hypothesis searches instead'
	@touch $@

.venv-frameworks/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-frameworks
	.venv-frameworks/bin/python -m pip install --quiet --disable-pip-version-check \
		-e '.[test-core,anthropic,claude-agent-sdk,fastmcp,instrumentation,langgraph,mcp,mem0,openai-agents]'
	@touch $@

# Google's ADK wants an older OpenTelemetry than the others
.venv-adk/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-adk
	.venv-adk/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test-core,adk]'
	@touch $@

.venv-page/.installed: pyproject.toml tests/page/package-lock.json
	tests/page/install-chromium
	cd tests/page && npm ci --silent --no-audit --no-fund --ignore-scripts
	$(PYTHON) -m venv .venv-page
	.venv-page/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test-page]'
	@touch $@

.venv-docs/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

.venv-oldest/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test-core]' \
		'opentelemetry-api==1.39.0' 'opentelemetry-sdk==1.39.0' \
		'opentelemetry-exporter-otlp-proto-grpc==1.39.0' 'opentelemetry-exporter-otlp-proto-http==1.39.0'
	@touch $@
