"""What a process of `elastic_launch` does: it calls the function that stands in a file, and writes down what it returns."""

from __future__ import annotations

import multiprocessing.spawn
import os
import pickle
import sys

from ..elastic.multiprocessing.errors import record


@record
def main(folder: str) -> None:
    """Call the function."""
    with open(os.path.join(folder, "call"), "rb") as file:
        multiprocessing.spawn.prepare(
            pickle.load(file)
        )  # the main module, as for processes of multiprocessing
        function, args = pickle.load(file)
    result = function(*args)
    place = os.path.join(folder, f"result_{os.environ['RANK']}")
    with open(place + ".part", "wb") as file:
        pickle.dump(result, file)
    os.replace(place + ".part", place)


if __name__ == "__main__":
    main(sys.argv[1])
