# The two commands are `make up` and `make test`; both prepare .venv by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
NODES  ?= 3
PORT   ?= 9092

.DEFAULT_GOAL := help
.PHONY: help up down test containers spark check bench soak rows setup stubs docs wheel clean

help:            ## Show this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.all: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[spark,dev]'
	@touch $@ $(VENV)/.run

setup: $(VENV)/.all   ## Prepare .venv with the package and all extras

up: $(VENV)/.run      ## Start a cluster of three nodes on 127.0.0.1:9092
	@$(BIN)/rookery up --detach --nodes $(NODES) --port $(PORT)

down:            ## Stop it
	@$(BIN)/rookery down

test: $(VENV)/.all    ## Run the whole suite
	$(BIN)/python -m tests $(ARGS)

containers: $(VENV)/.all   ## Run the tests in containers, on an engine of their own if none runs
	.ci/docker-engine
	$(BIN)/python -m pytest -q tests/containers

spark: $(VENV)/.all   ## Run the tests with Spark
	$(BIN)/python -m pytest -q tests/spark

check: $(VENV)/.all   ## Lint and type-check
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/basedpyright

bench: $(VENV)/.all   ## Measure; NAMES="wire log" picks some
	$(BIN)/python -m tests.bench $(NAMES)

soak: $(VENV)/.all    ## Search long; SECONDS=600 for each, NAMES picks some
	$(BIN)/python -m tests.soak --seconds $(or $(SECONDS),600) $(NAMES)

rows: $(VENV)/.all    ## Count product rows and invariants that have a passing test
	@$(BIN)/python -m tests.rows

stubs: $(VENV)/.all   ## Write the protobuf stubs again
	$(BIN)/python -m tests.tidy.stubs

docs: $(VENV)/.all    ## Write the generated pages again
	$(BIN)/python -m tests.tidy.pages

wheel: $(VENV)/.all   ## Build the wheel into dist/
	$(BIN)/python -m build --wheel

clean:           ## Remove .venv and everything built
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info
