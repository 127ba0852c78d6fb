# make demo, make test: each makes what it needs, once, and is quick the second time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-rest test-all coverage test-fast test-lab test-wheels check format docs bench guard clean

demo: $(READY)
	@$(BIN)/checkback demo

# make test has each promise once on the real thing, make test-rest what tests/rest.py names, and make test-all both.
#
# Four parts run at the same time, since each of them waits more than it computes: the browser, fault runs, clusters and wheels;
# tests that start whole jobs; consumers, check services, commands and examples, most of which need a broker alone; and all
# others, which share one Spark session. tests/checkback is last: the job that its cluster starts runs until the end, and
# keeps a third of a core busy. Chromium is driven with greenlets: while they run, Python 3.11 fails to report a failure under
# coverage, and it is in a part that is never measured.
#
# make coverage runs all, and fails if too few lines were reached. It is a target of its own, since to measure takes four
# fifths more CPU before Python 3.12.
UNMEASURED := tests/faults tests/cluster tests/packaging tests/state/test_model.py tests/status_page/test_in_chromium.py
PROGRAMS := tests/end_to_end tests/wire tests/answering tests/sql tests/operations tests/local tests/hostile tests/fuzz tests/checkback
CLIENTS := tests/network tests/gateway tests/consumer tests/checkers tests/checkback_cli tests/kafka tests/producing tests/examples tests/access
PYTEST := $(BIN)/python -m pytest -q -rs -p no:cacheprovider
DURATIONS := --durations=15
RUNS := test test-rest test-all coverage

# A Java that lives for a minute is to be compiled quickly, not well: two fifths less CPU for each Kafka and each job. With
# its classes in an archive a Kafka needs half of the rest. A Java that the archive does not fit passes over it.
ARCHIVE := $(CURDIR)/$(VENV)/kafka.jsa
$(RUNS): export JDK_JAVA_OPTIONS := -XX:TieredStopAtLevel=1 -XX:SharedArchiveFile=$(ARCHIVE) -Xlog:cds=off -Xlog:cds+dynamic=off
$(RUNS): CHOSEN := -m "not lab"
test: CHOSEN := -m "not lab and not rest"
test-rest: CHOSEN := -m "not lab and rest"
coverage: MEASURED := --cov --cov-report= --cov-fail-under=0
coverage: REPORT = export COVERAGE_FILE=$$logs/all.coverage; \
	$(BIN)/coverage combine -q $$logs/*.coverage && $(BIN)/coverage report || status=$$?;
# The jobs' archive of classes comes first: made while all else runs it takes five minutes, and every job waits for it. Java
# makes none while it uses another one.
$(RUNS): $(READY) $(ARCHIVE)
	-@JDK_JAVA_OPTIONS=-XX:TieredStopAtLevel=1 $(BIN)/python -c 'from streaming.class_archive import make_archive; make_archive()'
	@logs=$$(mktemp -d); status=0; \
	$(PYTEST) $(CHOSEN) $(DURATIONS) $(UNMEASURED) >$$logs/unmeasured 2>&1 & unmeasured=$$!; \
	COVERAGE_FILE=$$logs/programs.coverage $(PYTEST) $(CHOSEN) $(DURATIONS) $(MEASURED) $(PROGRAMS) >$$logs/programs 2>&1 & programs=$$!; \
	COVERAGE_FILE=$$logs/clients.coverage $(PYTEST) $(CHOSEN) $(DURATIONS) $(MEASURED) $(CLIENTS) >$$logs/clients 2>&1 & clients=$$!; \
	COVERAGE_FILE=$$logs/others.coverage $(PYTEST) $(CHOSEN) $(DURATIONS) $(MEASURED) \
		$(addprefix --ignore=,$(UNMEASURED) $(PROGRAMS) $(CLIENTS)) || status=$$?; \
	wait $$clients || status=$$?; cat $$logs/clients; \
	wait $$programs || status=$$?; cat $$logs/programs; \
	wait $$unmeasured || status=$$?; cat $$logs/unmeasured; \
	$(REPORT) rm -rf $$logs; exit $$status

# The pure tier: what needs no Kafka, no Spark, no PostgreSQL and no program of its own. Two processes.
FAST := $(PYTEST) -m "not service and not lab" --timeout=30
test-fast: $(READY)
	@$(FAST) tests/state tests/conf tests/kafka tests/checkers --ignore=tests/state/test_model.py & first=$$!; status=0; \
	$(FAST) tests/consumer tests/test_rooms.py tests/test_style.py tests/test_semantics.py tests/test_security_page.py || status=$$?; \
	wait $$first || status=$$?; exit $$status

# Measurements and fault runs that take minutes, each once and small: not what CI is to wait for.
test-lab: $(READY)
	@$(PYTEST) -m lab tests

# The wheels in dist, on $(PYTHON), away from the source tree: what they say of themselves, and the state machine's tests.
test-wheels:
	@folder=$$(mktemp -d) && $(PYTHON) -m venv $$folder/env && \
	$$folder/env/bin/pip install --quiet --constraint constraints.txt dist/*.whl \
		hypothesis httpx pytest pytest-cov pytest-timeout && $$folder/env/bin/pip check && \
	cp -R tests pyproject.toml $$folder && cd $$folder && env/bin/checkback --version && \
	env/bin/python -m pytest -q -p no:cacheprovider -m "not service" tests/state --ignore=tests/state/test_model.py

$(ARCHIVE): $(READY)
	-@JDK_JAVA_OPTIONS=-XX:TieredStopAtLevel=1 $(BIN)/python -m tests.kafka_archive $@

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(READY)
	@$(BIN)/python -m docs.semantics
	@$(BIN)/python -m docs.security
	@$(BIN)/python -m docs.metrics
	@$(BIN)/python -m deploy.grafana.dashboard
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(READY)
	@$(BIN)/checkback bench throughput

# In a repository with all its commits.
guard: $(READY)
	@$(BIN)/checkback bench guard "$$(cat bench/cost/baseline.txt)" --short

clean:
	rm -rf $(VENV) .cache build dist

$(READY): pyproject.toml deploy/job/pyproject.toml deploy/lab/pyproject.toml deploy/gateway/pyproject.toml constraints.txt deploy/environment.py
	@$(PYTHON) deploy/environment.py $(VENV)
	@touch $(READY)
