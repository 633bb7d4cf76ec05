# `make demo` trains a network on real digits; `make test` runs every check; `make examples` writes docs/gallery.md.  Each has its own environment.
PYTHON ?= python3

.PHONY: demo test examples lint clean

demo: .venv-demo/ready
	.venv-demo/bin/python examples/digits/main.py --picture digits.png

test: .venv-test/ready
	.venv-test/bin/ruff check .
	.venv-test/bin/mypy
	PYTHONSAFEPATH=1 .venv-test/bin/pytest -n 2  # the installed package, not the sources beside us

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
	rm -rf .venv-demo .venv-test .venv-examples build digits.png
