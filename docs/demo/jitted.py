"""What the demo compiles: a user's own loops over the bytes of a scan.

Numba compiles each once and keeps the result beside this file for the next run.
"""

from numba import njit

QUOTE, SPACE, ZERO, NINE = 34, 32, 48, 57


@njit(cache=True, nogil=True)
def number_at(data, position, end):
    """The decimal number at a position and the position after it; -1 if there is none."""
    value = -1
    while position < end and ZERO <= data[position] <= NINE:
        value = max(value, 0) * 10 + (data[position] - ZERO)
        position += 1
    return value, position


@njit(cache=True, nogil=True)
def status_and_size(data, positions, lengths, status, size):
    """Fill in the HTTP status and the bytes served of each line in Apache's combined format.

    ``... "GET / HTTP/1.1" 200 203023 "referrer" ...``: the first number after the closing quote
    of the request, and the number after that (a dash where nothing was served).
    """
    for row in range(len(positions)):
        position = positions[row]
        end = position + lengths[row]
        quotes = 0
        while position < end and quotes < 2:
            quotes += data[position] == QUOTE
            position += 1
        status[row], position = number_at(data, position + 1, end)
        size[row], position = number_at(data, position + 1, end)
        size[row] = max(size[row], 0)
