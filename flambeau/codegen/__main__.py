"""`python -m flambeau.codegen [dtype …]` compiles the common kernels ahead; see `warm`."""

import sys

from .ahead import main

main(sys.argv[1:])
