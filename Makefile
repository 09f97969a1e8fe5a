# Two commands on a fresh machine with Python 3.11 or newer and a package index:
#   make demo   record to table on real recordings, with SQLite
#   make test   the whole suite, including Postgres
# CI also runs make check and make docs, which builds the documentation site into build/site.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# The oldest and the newest supported Triton. Torch is a CPU build if the package index has one.
TRITONS ?= 3.2.0 3.9.0
TORCH ?= 2.13.0

.PHONY: demo test test-core test-runtime test-trackers check docs bench picture tables clean

# One stamp per set of packages; `pip install --group` needs pip 25.1.
$(VENV)/.base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --editable '.[postgres]'
	@touch $@

$(VENV)/.test: $(VENV)/.base
	$(PIP) install --group test
	@touch $@

$(VENV)/.check: $(VENV)/.test
	$(PIP) install --group check
	@touch $@

demo: $(VENV)/.base
	@mkdir -p build
	DEMO_REPORT=build/report.html PATH="$(abspath $(BIN)):$$PATH" bash examples/demo.sh

test: test-core test-runtime test-trackers

test-core: $(VENV)/.test build/axe.min.js
	$(BIN)/python -m pytest -n auto --ignore tests/runtime --ignore tests/trackers $(ARGS)

# The accessibility rules that tests/browser runs in Chromium. Without npm, those tests are skipped.
AXE ?= 4.10.3
AXE_SHA256 := 880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb

build/axe.min.js:
	@mkdir -p build
	@if ! command -v npm >/dev/null || ! (cd build && npm pack --silent axe-core@$(AXE) >/dev/null); then \
		echo "axe-core could not be fetched with npm: the tests of the page's accessibility are skipped"; \
	else \
		cd build && tar -xzOf axe-core-$(AXE).tgz package/axe.min.js >axe.part && rm axe-core-$(AXE).tgz && \
		echo "$(AXE_SHA256)  axe.part" | sha256sum --check --quiet && mv axe.part axe.min.js; \
	fi

# The documented lines for experiment trackers, with their real clients, offline.
test-trackers: $(VENV)-trackers/.trackers
	$(VENV)-trackers/bin/python -m pytest --confcutdir tests/trackers tests/trackers $(ARGS)

$(VENV)-trackers/.trackers: pyproject.toml
	$(PYTHON) -m venv $(VENV)-trackers
	$(VENV)-trackers/bin/python -m pip --quiet --disable-pip-version-check install --upgrade 'pip>=25.1'
	$(VENV)-trackers/bin/python -m pip --quiet --disable-pip-version-check install --editable .
	$(VENV)-trackers/bin/python -m pip --quiet --disable-pip-version-check install --group trackers-test
	@touch $@

# The runtime half, with Triton's real autotuner: one environment per release, no GPU needed.
test-runtime: $(TRITONS:%=$(VENV)-triton-%/.runtime)
	set -e; for version in $(TRITONS); do \
		$(VENV)-triton-$$version/bin/python -m pytest -n auto --confcutdir tests/runtime tests/runtime $(ARGS); \
	done

$(VENV)-triton-%/.runtime: pyproject.toml
	$(PYTHON) -m venv $(VENV)-triton-$*
	$(VENV)-triton-$*/bin/python -m pip --quiet --disable-pip-version-check install --upgrade 'pip>=25.1'
	$(VENV)-triton-$*/bin/python -m pip --quiet --disable-pip-version-check install --editable . torch==$(TORCH)
	$(VENV)-triton-$*/bin/python -m pip --quiet --disable-pip-version-check install --group runtime-test triton==$*
	@touch $@

check: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)-docs/.docs: pyproject.toml
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip --quiet --disable-pip-version-check install --upgrade 'pip>=25.1'
	$(VENV)-docs/bin/python -m pip --quiet --disable-pip-version-check install --editable . --group docs
	@touch $@

docs: $(VENV)-docs/.docs
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict --quiet

bench: $(VENV)/.test
	$(BIN)/python benchmarks/bench_ingest.py $(ARGS)

# The picture in the README, which needs Chromium.
picture: $(VENV)/.test
	$(BIN)/python docs/_build/picture.py docs/assets/report.png

# The table that ships with the package, made by the pipeline from the recordings in examples/.
tables: $(VENV)/.base
	rm -f build/tables.db && mkdir -p build
	$(BIN)/registry --db build/tables.db ingest examples/h200 --run h200-2026-07 --triton 3.6.0 \
		--package flash-linear-attention=0.6.0 --source 'eight ranks on two NVIDIA H200s'
	$(BIN)/registry --db build/tables.db export --arch sm90 -o tuning_registry/tables/sm90.json

clean:
	rm -rf $(VENV) $(VENV)-docs $(VENV)-trackers $(VENV)-triton-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
