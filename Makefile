# All that a contributor types. Python >= 3.11, git and make are enough: each target makes and
# reuses .venv by itself. PYTHON=... names the interpreter, ARGS=... is handed on to the command.

BIN := .venv/bin
RUN := .venv/.ready-run
DEV := .venv/.ready-dev
export PYTHON

# A moved checkout or a removed interpreter leaves a .venv that looks ready and is not.
ifneq ($(shell test -x $(BIN)/python && cat .venv/.home 2>/dev/null),$(CURDIR))
$(shell rm -f $(RUN) $(DEV))
endif

.PHONY: help demo test lint format docs docs-check torture bench wheel-test clean

help:  ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(RUN)  ## break a real HTTP stream and heal it before your eyes; no key needed
	@$(BIN)/midthought demo $(ARGS)

test: $(DEV)  ## run the tests; statemachine/ must be covered to the last branch
	@$(BIN)/pytest --cov $(ARGS)

lint: $(DEV)  ## ruff and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(DEV)  ## let ruff write what `make lint` wants
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

docs: $(DEV)  ## write the generated pages again
	@$(BIN)/python docs/generate.py

docs-check: $(DEV)  ## fail where a generated page or a link in the docs is out of date
	@$(BIN)/python docs/generate.py --check

torture: $(DEV)  ## the long run: every recorded stream cut at every byte
	@$(BIN)/pytest -m torture --hypothesis-profile=torture $(ARGS)

bench: $(DEV)  ## measure, and write benchmarks/results.md
	@$(BIN)/python benchmarks/run.py $(ARGS)

wheel-test: $(DEV)  ## sdist -> wheel -> fresh environment -> the packaging tests and the demo
	@bash .ci/wheel-test

clean:  ## remove .venv, builds and caches
	@rm -rf .venv build dist midthought.egg-info .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN): pyproject.toml src/midthought/_version.py .ci/setup
	@sh .ci/setup run

$(DEV): $(RUN)
	@sh .ci/setup dev
