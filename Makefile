# make demo, make test: each makes what it needs, once, and is quick the second time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test check format docs bench clean

demo: $(READY)
	@$(BIN)/checkback demo

# These need no Spark session in their own process: both halves run at the same time.
APART := tests/faults tests/checkback

test: $(READY)
	@log=$$(mktemp); \
	$(BIN)/python -m pytest -q --durations=5 -p no:cacheprovider $(APART) >$$log 2>&1 & apart=$$!; \
	$(BIN)/python -m pytest -q --durations=15 $(addprefix --ignore=,$(APART)); status=$$?; \
	wait $$apart || status=$$?; \
	cat $$log; rm -f $$log; exit $$status

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(READY)
	@$(BIN)/python -m docs.semantics

bench: $(READY)
	@$(BIN)/checkback bench throughput

clean:
	rm -rf $(VENV) .cache build dist

$(READY): pyproject.toml constraints.txt deploy/environment.py
	@$(PYTHON) deploy/environment.py $(VENV)
	@touch $(READY)
