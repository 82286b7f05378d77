# `make run` and `make test` set everything up on first use; afterwards the stamp makes that free.
# All that is needed beforehand is Python 3.11+ and make.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV_VERSION := 0.13.9
CLIENTS := @anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0 @google/gemini-cli@0.61.0
# The plugins with an own pane need a newer client than the oldest one that the other tests run.
CLIENT_WITH_MODS := @anthropic-ai/claude-code@2.1.332

# Where Python may not write bytecode, each process of a test compiles anew, and pytest rewrites all tests in each run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test pytest lint docs bench bench-peers deep portable torture clients test-clients clean

run: $(READY)
	@$(BIN)/foldmark demo --chat

# mypy takes a minute of one processor where it has no cache: the tests begin meanwhile.
test: $(READY)
	@$(MAKE) --no-print-directory -j 2 lint pytest

# Each worker takes tests that stand beside each other, so that it imports and starts what they share and little else.
# The sources are compiled once, and not by each worker. Real agents have their own target: beside others they are slow.
pytest: $(READY)
	@$(BIN)/python -m compileall -q src
	@FOLDMARK_CLIENTS=$${FOLDMARK_CLIENTS:-none} $(BIN)/pytest -n auto --dist worksteal --durations=10

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# All tests with 3,000 new examples of each random one, and with every step of those of which a sample runs otherwise:
# an hour or two instead of minutes.
deep: $(READY)
	@FOLDMARK_DEEP=1 $(BIN)/pytest --timeout 0 -n auto --dist worksteal
	@$(MAKE) --no-print-directory torture

# The tests as on other people's machines: locale, time zone, proxies, kernels, processors, other Pythons. Half an hour.
portable: $(READY)
	@$(BIN)/python tests/portable.py

# Kills 500 writers of each store, and more; writes docs/development/reliability.md with what was found. Takes about half an hour.
torture: $(READY)
	@$(BIN)/python tests/torture/run.py

# The pages of docs/ that are made from the code.
docs: $(READY)
	@$(BIN)/python docs/generate.py

bench: $(READY)
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --quiet --frozen --inexact --group bench
	@for each in benchmarks/*.py; do echo "== $$each"; $(BIN)/python $$each || exit 1; done

# Foldmark beside other programs; writes docs/benchmarks.md and a table of README.md. Installing the peers needs the
# registries, once; the run needs none. DATA names a folder of recorded sessions, as benchmarks/README.md says.
bench-peers: $(READY)
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --quiet --frozen --inexact --group bench
	@cd benchmarks && ../$(BIN)/python -m peers $(if $(DATA),--data $(abspath $(DATA))) $(PEERS_OPTIONS)

# The agents that tests run, from npm: 1 GB, in ignored folders. Tests skip what is not there.
NPM := npm install --no-audit --no-fund --no-save --loglevel=error --prefix
clients:
	@$(NPM) .clients $(CLIENTS)
	@node .clients/node_modules/@anthropic-ai/claude-code/install.cjs
	@$(NPM) .clients/mods $(CLIENT_WITH_MODS)
	@node .clients/mods/node_modules/@anthropic-ai/claude-code/install.cjs

# The tests with real agents, one after the other. They run in real terminals on their own clocks, so one that fails is
# run once more.
CLIENT_TESTS := $(addprefix tests/live/test_,clients.py codex.py gemini_cli.py interactive.py long_gemini.py long_session.py \
  mcp_in_clients.py random_session.py random_others.py) tests/sessions/test_as_resumed.py tests/sessions/install/test_install_clients.py
MOD_TESTS := tests/mod/test_in_claude_code.py tests/mod/test_picture.py tests/live/test_mcp_in_clients.py tests/sessions/install/test_install_clients.py
TEST_CLIENTS := $(BIN)/pytest -n 0 --timeout 900 --durations=10
test-clients: $(READY) clients
	@$(TEST_CLIENTS) $(CLIENT_TESTS) || $(TEST_CLIENTS) --last-failed $(CLIENT_TESTS)
	@export FOLDMARK_CLIENTS=$(CURDIR)/.clients/mods; \
	  $(TEST_CLIENTS) $(MOD_TESTS) || $(TEST_CLIENTS) --last-failed $(MOD_TESTS)

$(READY): pyproject.toml uv.lock
	@echo "Setting up $(VENV) (once) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Foldmark needs Python 3.11 or newer, this is " + sys.version)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@UV_PROJECT_ENVIRONMENT=$(VENV) UV_COMPILE_BYTECODE=1 $(BIN)/uv sync --quiet --frozen --inexact
	@touch $(READY)

clean:
	rm -rf $(VENV) .hypothesis .mypy_cache .pytest_cache .ruff_cache
