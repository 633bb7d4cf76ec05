"""`python -m flambeau.codegen [dtype …]` compiles the common kernels ahead; see `warm`."""

import sys

from ..kernels._ahead import main

if __name__ == "__main__":
    main(sys.argv[1:])
