# make demo, make test: each makes what it needs, once, and is quick the second time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test check format docs bench clean

demo: $(READY)
	@$(BIN)/checkback demo

test: $(READY)
	@$(BIN)/python -m pytest -q --durations=5

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
