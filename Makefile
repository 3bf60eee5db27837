# Every target installs what it needs: python3, make and git are enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
READY  := $(VENV)/.ready
# Containers often set this. Each of the hundreds of processes of the tests would then recompile all libraries.
unexport PYTHONDONTWRITEBYTECODE

# $(call test_end,PYTHON,LIBRARIES): run the tests with these versions, in a separate environment.
define test_end
	$(BIN)/uv venv --quiet --clear --no-python-downloads --python $(1) build/ends/$(1)
	$(BIN)/uv pip install --quiet --python build/ends/$(1) $(2) $(END_TOOLS) .
	build/ends/$(1)/bin/python -m pytest -q --numprocesses 3 --dist loadfile --no-loadscope-reorder tests
endef
END_TOOLS := axe-playwright-python dask[array,dataframe,distributed] 'dp-accounting>=0.6' hypothesis ipykernel joblib matplotlib 'numba>=0.60' mpmath nbclient opendp pandas pexpect polars pyarrow pyspark pytest pytest-timeout pytest-xdist ruff z3-solver

.PHONY: demo test quick core lint prove readability check coverage mutants mutants-ties format wheel docs bench bench-kmeans bench-mixture bench-speed \
  bench-mixture-paper bench-missing bench-latent bench-synthetic bench-fa bench-fa-speed bench-fa-peers reproduce reproduce-quick experiment-generalisation experiment-factor experiment-kmeans experiment-mixed experiment-mixture experiment-weak test-gpu bench-gpu bench-scale bench-threads bench-growth audit fuzz picture ends lock clean help

help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(READY): requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes --requirement requirements-dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: $(READY)   ## plan, fit, sample and report on a generated table of patients, in build/demo
	rm -rf build/demo
	$(BIN)/dpem demo build/demo

test: $(READY)   ## all checks that a change must pass: lint, types, tests, docs and wheel
	$(MAKE) --jobs 2 check lint docs wheel

# Each test file stays in one process, which shares a cluster, a browser or a fit. Tests wait a lot, hence one
# process more than cores.
check: $(READY)  ## only the tests
	$(BIN)/python -m pytest --numprocesses $$(($$($(PYTHON) -c 'import os; print(os.cpu_count())') + 1)) \
	  --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# The privacy core, all property and statistical tests, and every estimator with every row source: a tenth of the
# time of all tests. Add the tests of a change with PYTEST_ARGS.
CORE := tests/privacy tests/proofs tests/property tests/statistical tests/row_statistics tests/fitting tests/gate/test_gate.py \
  tests/gate/test_interrupts.py tests/engines/test_conformance.py tests/estimator/test_kept_files.py \
  tests/estimator/test_persons.py tests/plugin/test_memory.py tests/planner tests/test_api.py \
  tests/test_architecture.py tests/test_figures.py tests/test_files.py src/dpem/privacy README.md
quick: $(READY)  ## lint and a core of the tests in a minute and a half (PYTEST_ARGS=tests/models adds tests)
	$(MAKE) --jobs 2 lint core

core: $(READY)
	$(BIN)/python -m pytest -q --numprocesses 2 --dist loadfile --no-loadscope-reorder $(CORE) $(PYTEST_ARGS)

# Coverage cannot see into compiled kernels: their tests also run as plain Python.
coverage: $(READY)  ## test coverage of src by file; fails below 95 % (an hour)
	mkdir -p build/coverage && $(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q --hypothesis-profile measured $(PYTEST_ARGS)
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -q tests/row_statistics tests/models -k "test_gaussian or infinite_epsilon"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report > build/coverage/lines.txt; result=$$?; cat build/coverage/lines.txt; exit $$result

lint: $(READY)   ## check format, code, types, imports, prose and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/prose.py
	git ls-files -z ":!*.ipynb" ":!*.lock" ":!*.svg" | xargs -0 $(BIN)/codespell

format: $(READY) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY)   ## build the documentation (a warning is an error) and test the site in a browser
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python -m pytest -q -m site tests/docs

prove:           ## check the proofs in proofs/ with Coq, which apt installs if it is missing (4 minutes), and write their table
	$(PYTHON) tools/proofs.py $(ARGS)

readability:     ## the reading ease of every page of the documentation
	$(PYTHON) tools/prose.py --readability

wheel: $(READY)  ## build the wheel, install it in a clean environment and smoke-test it
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m build --no-isolation --outdir build/wheel
	! find build/wheel -name '*.whl' -size +2000k | grep .  # keep it small
	$(PYTHON) -m venv --without-pip build/wheel/venv
	$(BIN)/python -m pip --python build/wheel/venv install --quiet --no-compile build/wheel/*.whl
	cd build/wheel && venv/bin/dpem demo demo --rows 2000 --json > /dev/null && echo "wheel: smoke test passed"

# Installed in a separate folder; libraries of the development environment take precedence.
build/cosmic-ray/.ready: $(READY)
	$(BIN)/python -m pip install --quiet --target build/cosmic-ray 'cosmic-ray==8.7.0'
	touch $@

mutants: build/cosmic-ray/.ready  ## list changes of the privacy core that no test notices (hours; an interrupted run continues)
	$(BIN)/python benchmarks/mutants/run.py $(BENCH_ARGS)

mutants-ties: $(READY)  ## list changes of the integer core that the ties of its proofs notice (20 minutes)
	$(BIN)/python benchmarks/mutants/ties.py $(BENCH_ARGS)

bench: $(READY)  ## speed of the noise, compared with numpy and OpenDP
	$(BIN)/python benchmarks/noise.py

bench-kmeans: $(READY) build/diffprivlib/.ready  ## k-means, compared with scikit-learn, the paper and diffprivlib (20 minutes)
	$(BIN)/python benchmarks/kmeans.py $(BENCH_ARGS)

bench-mixture: $(READY) build/d3p/.ready  ## mixtures, compared with the paper's method, d3p and plain EM (an hour)
	$(BIN)/python benchmarks/mixture.py $(BENCH_ARGS)

# d3p does not work with a current jax and needs a separate environment.
build/d3p/.ready: $(READY)
	$(PYTHON) -m venv build/d3p
	build/d3p/bin/python -m pip install --quiet 'd3p==0.2.0' 'jax==0.4.30' 'jaxlib==0.4.30' 'numpyro==0.15.3' 'numpy<2'
	touch $@

bench-speed: $(READY)  ## speed of every path, compared with scikit-learn and with the floor of this machine (20 minutes)
	$(BIN)/python benchmarks/speed.py $(BENCH_ARGS)

bench-mixture-paper: $(READY)  ## the paper's mixture, compared with its formulas in floating point
	$(BIN)/python benchmarks/mixture_paper.py $(BENCH_ARGS)

bench-missing: $(READY)  ## mixtures with missing cells (3 minutes)
	$(BIN)/python benchmarks/missing.py $(BENCH_ARGS)

bench-latent: $(READY)  ## recovery of known latent classes and counts (5 minutes)
	$(BIN)/python benchmarks/latent_classes.py

bench-synthetic: $(READY)  ## synthetic tables, compared with independent columns and DP-EM (20 minutes; with MST and AIM by BENCH_ARGS=--peers: hours)
	$(BIN)/python benchmarks/synthetic.py $(BENCH_ARGS)

# dpmm needs older libraries, hence a separate environment. Build it before using BENCH_ARGS=--peers.
build/dpmm/.ready: $(READY)
	$(PYTHON) -m venv build/dpmm
	build/dpmm/bin/python -m pip install --quiet 'dpmm==0.1.9'
	touch $@

bench-fa: $(READY)  ## factor analysis, compared with the paper's text and non-private fits (half an hour)
	$(BIN)/python benchmarks/factor.py $(BENCH_ARGS)

bench-fa-peers: $(READY) build/diffprivlib/.ready build/opendp/.ready  ## subspaces of factor analysis, compared with diffprivlib and OpenDP
	$(BIN)/python benchmarks/factor_peers.py $(BENCH_ARGS)

# The development environment lacks libraries that OpenDP's PCA needs.
build/opendp/.ready: $(READY)
	$(PYTHON) -m venv build/opendp
	build/opendp/bin/python -m pip install --quiet 'opendp[numpy,scikit-learn]==0.16.0'
	touch $@

# diffprivlib does not work with a current scikit-learn and needs a separate environment.
build/diffprivlib/.ready: $(READY)
	$(PYTHON) -m venv build/diffprivlib
	build/diffprivlib/bin/python -m pip install --quiet 'diffprivlib==0.6.6' 'scikit-learn==1.6.*'
	touch $@

bench-fa-speed: $(READY)  ## speed and memory of factor analysis, compared with scikit-learn
	$(BIN)/python benchmarks/factor_speed.py

reproduce: $(READY)  ## reproduce every figure of the paper in docs/paper (hours; DPEM_DATA names the real data, otherwise stand-ins)
	$(BIN)/dpem reproduce all --output docs/paper --jobs 2

reproduce-quick: $(READY)  ## the same with fewer folds and rows, in build/reproduction (minutes)
	$(BIN)/dpem reproduce all --quick --output build/reproduction --jobs 2

experiment-generalisation: $(READY)  ## choose constants on one group of data sets, report them on another (20 minutes)
	$(BIN)/python experiments/generalisation.py

experiment-factor: $(READY)  ## how the constants of factor analysis were chosen, on generated data
	$(BIN)/python experiments/factor_constants.py

experiment-kmeans: $(READY)  ## how the constants of k-means were chosen, on generated data
	$(BIN)/python experiments/kmeans_constants.py

experiment-mixture: $(READY)  ## how the constants of the mixture were chosen, on generated data
	$(BIN)/python experiments/mixture_constants.py $(ARGS)

experiment-weak: $(READY)  ## how the constants of the warnings about weak synthetic tables were chosen
	$(BIN)/python experiments/weak_tables.py

experiment-mixed: $(READY)  ## how the constants of synthetic tables were chosen, on generated tables
	$(BIN)/python experiments/mixed_constants.py

# torch has a separate environment, since its usual wheels take gigabytes. On a machine with a GPU, set TORCH.
TORCH ?= torch==2.13.0
build/gpu/.ready: $(READY)
	$(PYTHON) -m venv build/gpu
	build/gpu/bin/python -m pip install --quiet $(TORCH) hypothesis numba pandas polars pyarrow pytest pytest-timeout --editable .
	touch $@

test-gpu: build/gpu/.ready  ## the tests of tensors, on a GPU if there is one
	DPEM_GPU=1 build/gpu/bin/python -m pytest tests/gpu tests/proofs/test_statements.py

bench-threads: $(READY)  ## seconds of whole fits on 1 to 16 threads (10 minutes on 16 cores)
	$(BIN)/python benchmarks/threads.py $(BENCH_ARGS)

bench-growth: $(READY)  ## time and memory against rows, columns and components (half an hour on 16 cores)
	$(BIN)/python benchmarks/growth.py $(BENCH_ARGS)
	$(BIN)/python benchmarks/growth.py --results

bench-scale: $(READY)  ## speed from memory, files, Dask and Spark, and a table larger than memory (half an hour)
	$(BIN)/python benchmarks/scale.py $(BENCH_ARGS)

bench-gpu: build/gpu/.ready  ## speed of one EM step on a GPU, compared with its matrix products
	build/gpu/bin/python benchmarks/gpu.py

audit: $(READY)  ## attack every model (half an hour); writes benchmarks/results/audit.md
	$(BIN)/python -m pytest -m audit tests
	$(BIN)/dpem audit --output benchmarks/results/audit.md --jobs 2

picture: $(READY)  ## draw the picture of the README
	$(BIN)/python benchmarks/picture.py

fuzz: $(READY)   ## feed a million generated inputs to all parsers (an hour; ARGS="--part 0.02" for a short run)
	$(BIN)/python -m fuzz.run $(ARGS)

ends: $(READY)   ## run the tests with the oldest and newest supported versions
	$(call test_end,3.11,'numpy==1.26.*' 'scipy==1.11.*' 'scikit-learn==1.6.*' 'pandas==2.2.*' 'pyarrow==17.*' 'lazy-loader==0.4' 'narwhals==2.0.*' 'typer==0.15.*' 'rich==13.7.*' 'jinja2==3.1.*')
	$(call test_end,3.12,numpy scipy scikit-learn)
	$(call test_end,3.13,numpy scipy scikit-learn)

lock: $(READY)   ## update the lock file of the development environment
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --output-file requirements-dev.lock

clean:           ## remove build outputs and the environment
	rm -rf $(VENV) build dist docs/_build docs/auto_examples
