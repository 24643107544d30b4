# The two main commands are `make chaos` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
RESULTS ?= allure-results
TEST_PARTS := install lint types imports unit docs planted parts go integration

unexport PYTHONDONTWRITEBYTECODE  # some images set it, and hundreds of processes import the same modules

.DEFAULT_GOAL := help
.PHONY: help chaos chaos-all chaos-containers image check test list-test install parts lint types imports unit unit-nightly docs planted planted-nightly integration integration-nightly go fuzz mutants reference report changelog supported lock clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 22

chaos: install parts  ## break a real Kafka + Spark pipeline (the smoke scenarios), and judge it
	$(BIN)/pytest -m "chaos and smoke" --chaos-html=runs/report.html --alluredir=allure-results --clean-alluredir

chaos-all: install parts  ## every scenario
	$(BIN)/pytest -m chaos --chaos-html=runs/report.html --alluredir=allure-results --clean-alluredir

chaos-containers: install parts image  ## the smoke scenarios in containers, and the faults that need containers (needs Docker)
	$(BIN)/chaos doctor --containers
	$(BIN)/pytest -m "chaos and smoke" --chaos-runtime containers --chaos-html=runs/report.html --alluredir=allure-results-containers --clean-alluredir
	$(BIN)/pytest -m containers --chaos-runtime containers tests/integration

image:  ## build the image of all containers: on a public image, or with debootstrap if no registry can be reached
	@containers/make-image

check: lint types imports unit  ## the quick answer, in minutes: all checks without Kafka, Spark and their parts

test: $(TEST_PARTS)  ## everything that checks this project itself

list-test:
	@echo $(TEST_PARTS)

install: $(STAMP)  ## set up the Python environment, pinned by hash

$(STAMP): pyproject.toml requirements/build.lock requirements/requirements.lock
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"Python 3.11 or newer is needed, {sys.executable} is {v[0]}.{v[1]}: make PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the Python packages (about 600 MB, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/build.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation -r requirements/requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

parts: install  ## get Kafka's and Spark's jars, Toxiproxy and class archives: fetched once, checked by SHA-256
	@$(BIN)/chaos parts

lint: install  ## ruff and codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	git ls-files -z | xargs -0 $(BIN)/codespell

types: install  ## mypy, strict
	$(BIN)/mypy

imports: install  ## which package may import which (ARCHITECTURE.md)
	$(BIN)/lint-imports

unit: install  ## the unit tests: they start no Kafka and no Spark
	$(BIN)/pytest -n logical --maxprocesses 4 --dist worksteal -m "not nightly" tests/unit

unit-nightly: install  ## the slow unit tests: further bad inputs, each through the installed command
	$(BIN)/pytest -n logical --maxprocesses 4 --dist worksteal -m nightly tests/unit

DOCS := .venv-docs
docs: $(DOCS)/.installed  ## build the site of all pages, site/index.html; a dead link is an error
	@rm -rf site
	$(DOCS)/bin/sphinx-build -q -E -n -W --keep-going -b html -c docs -d $(DOCS)/doctrees . site

$(DOCS)/.installed: requirements/docs.lock
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.lock
	@touch $@

planted: install  ## every verifier must find the planted anomalies (Spark, no Kafka)
	$(BIN)/pytest -n logical --maxprocesses 4 --dist worksteal -m "$(PLANTED)" --durations 20 --durations-min 5 tests/planted

PLANTED ?= not nightly
planted-nightly: install  ## all planted tests: pairs and other sizes, and a hundred random logs for each random test
	PLANTED_EXAMPLES=100 $(MAKE) --no-print-directory planted PLANTED="nightly or not nightly"

SYSTEMS ?= 1
WORKERS := $(if $(filter-out 1,$(SYSTEMS)),-n $(SYSTEMS) --dist loadfile)
integration: install parts  ## every fault on the real system, and the mutants of the sink (SYSTEMS=2: two systems at a time)
	$(BIN)/pytest $(WORKERS) -m "integration and not containers and not nightly" --durations 20 --durations-min 10 tests/integration

integration-nightly: install parts  ## the slow integration tests: whole runs, and tests that resemble one of `make integration`
	$(BIN)/pytest -m "integration and nightly" tests/integration

go: install  ## the Go tests of the Toxiproxy server
	$(BIN)/chaos parts --go-test

fuzz: install  ## the Go fuzz tests, a minute each: arbitrary bytes reach the toxic of Kafka's protocol
	$(BIN)/chaos parts --go-fuzz 60

reference: install  ## make docs/reference.md from the classes of the grammar, of faults and of verifiers
	$(BIN)/chaos reference > docs/reference.md.new
	@mv docs/reference.md.new docs/reference.md

BUDGET ?= 0
mutants: install  ## change the verifiers in every small way and see a planted test fail each time (hours; BUDGET=25 seconds each)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/mutants.lock
	$(BIN)/python tests/mutants.py --reach --shard 0/2 & $(BIN)/python tests/mutants.py --reach --shard 1/2; wait
	$(BIN)/python tests/mutants.py --budget $(BUDGET) --shard 0/2 & $(BIN)/python tests/mutants.py --budget $(BUDGET) --shard 1/2; wait

report:  ## render the last Allure results, or RESULTS=allure-results-containers, with their history (needs Node.js)
	@rm -rf allure-report  # Allure adds files and overwrites none
	npx --yes allure@3.18.0 generate --config allurerc.json $(RESULTS) --output allure-report

supported:  ## install the wheel beside other versions, and run one scenario (PYTHON=python3.12 PYSPARK=4.0.0 PYTEST=8)
	$(PYTHON) tests/supported.py --python $(PYTHON) $(addprefix --pyspark ,$(PYSPARK)) $(addprefix --pytest ,$(PYTEST)) \
	  $(addprefix --wheel ,$(WHEEL)) $(addprefix --keep ,$(KEEP))

changelog: install  ## collect the fragments of changelog.d/ into the section of the version in pyproject.toml
	$(BIN)/towncrier build --yes --version "$$($(BIN)/python -c 'from chaos.common.version import version; print(version())')"

UV_LOCK := uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

lock: install  ## resolve requirements/*.lock again
	$(BIN)/python -m pip install --quiet uv
	for name in build go docs release; do $(BIN)/$(UV_LOCK) requirements/$$name.in -o requirements/$$name.lock; done
	$(BIN)/$(UV_LOCK) --group dev pyproject.toml -o requirements/requirements.lock
	$(BIN)/$(UV_LOCK) requirements/mutants.in -o requirements/mutants.lock

clean:  ## remove the files of runs from this folder, but not the cache of parts
	rm -rf runs mutants site allure-results allure-results-containers allure-report allure-history.jsonl .pytest_cache .mypy_cache .ruff_cache
