# Two commands matter: `make run` and `make test`. Each does all the set-up that it needs.
SHELL := /bin/sh
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
SETUP = @$(PYTHON) scripts/setup_env.py --env $(VENV)
# Containers often set it. What runs here is dozens of processes: each would compile Airflow again, seconds of work.
unexport PYTHONDONTWRITEBYTECODE
FILE ?= configs/submissions/quickstart.yaml

.DEFAULT_GOAL := help
.PHONY: help run test test-long setup all dev lint types unit env images docs hashes sbom clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: setup ## set up and run the quick start (FILE=x.yaml for another submission)
	@$(BIN)/inferbench run $(FILE)

test: dev ## set up everything; lint, types and the whole test suite
	@sh scripts/test.sh $(BIN)

test-long: dev ## what `make test` leaves out: before a release, and after a change of what it tests
	@sh scripts/test.sh $(BIN) long

setup: ## the lean environment: what the quick start needs
	$(SETUP)

all: ## everything optional too: torch, TensorFlow, Celery, ...
	$(SETUP) --all

dev: ## everything, with the developers' tools
	$(SETUP) --all --extra dev

lint: dev ## ruff, the floors of the package, its import graph, pins against advisories
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports && $(BIN)/python -m benchmarks.structure && $(BIN)/python scripts/check_advisories.py

types: dev ## mypy, strict
	@$(BIN)/mypy

unit: dev ## the fast tests only
	@$(BIN)/pytest tests/unit -n 2

env: ## random secrets into .env, for docker-compose.yaml
	@$(PYTHON) scripts/make_env.py

images: ## stand-ins for the deployment's images, where none can be pulled (root, debootstrap, a Docker engine)
	@sh docker/local/images.sh

docs: dev ## the documentation as a web site, in site/
	@$(BIN)/mkdocs build --strict --quiet

hashes: export INFERBENCH_REQUIRE_HASHES = 0 # a pin that is new has no hash yet
hashes: dev ## constraints.hashes.txt and the locks again, after a pin has changed
	@$(BIN)/python scripts/hash_pins.py

sbom: dev ## what the environment is made of, with licences: build/sbom.json (CycloneDX)
	@mkdir -p build && $(PYTHON) -m venv build/sbom-env
	@build/sbom-env/bin/pip install --quiet --no-deps --require-hashes --requirement scripts/sbom.lock.txt
	@build/sbom-env/bin/cyclonedx-py environment --output-reproducible --of JSON -o build/sbom.json $(BIN)/python
	@echo build/sbom.json

clean: ## the environment and all caches of tools
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build dist
