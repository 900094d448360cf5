# Each target sets up .venv by itself; the set-up is skipped when it is current.

PYTHON ?= python3
PY := .venv/bin/python
PROMPT := a big red ball moves quickly left over the sand
SEED := 7
BENCHES := estimates overhead attention drift_meter
JOBS ?= 3

.PHONY: help setup demo test check bench gpu readme

help:
	@echo "make demo    a clip from the bundled toy model: an mp4 and a contact sheet in out/"
	@echo "make test    the tests, in three processes (JOBS=4: four), with a list of what was skipped and why"
	@echo "make check   style, types, and the direction of imports"
	@echo "make bench   the benchmarks that a CPU can run"
	@echo "make gpu     the benchmarks that need an NVIDIA GPU"

setup:
	@$(PYTHON) scripts/setup.py

demo: setup
	@mkdir -p out
	@.venv/bin/vidgen generate "$(PROMPT)" --seed $(SEED) --out out/demo.mp4 --sheet out/demo.png
	@echo "prompt:        $(PROMPT)"
	@echo "clip:          $(CURDIR)/out/demo.mp4"
	@echo "contact sheet: $(CURDIR)/out/demo.png"

test: setup
	@OMP_NUM_THREADS=1 $(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

readme: setup
	@$(PY) -m scripts.readme

check: setup
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy
	@.venv/bin/lint-imports
	@$(PY) -m scripts.readme --check

bench: setup
	@set -e; for name in $(BENCHES); do echo "== $$name"; $(PY) -m benchmarks.$$name; done

gpu: setup
	@$(PY) -m benchmarks.gpu
