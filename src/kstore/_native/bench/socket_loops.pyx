"""Minimal C loops that send a file to a socket: the ceilings of the benchmarks."""

from libc.stdint cimport int64_t, uint8_t

from kstore._native.format.argument cimport HeldBytes, hold_bytes, hold_writable_bytes

import os

cdef extern from "bench/socket_loops.h" nogil:
    int limits_sendfile(int out, int file, int64_t size, int64_t chunk) noexcept
    int limits_read_send(
        int out, int file, uint8_t* buffer, int64_t size, int64_t chunk
    ) noexcept
    int limits_memory_send(
        int out, const uint8_t* data, int64_t size, int64_t chunk, int64_t step
    ) noexcept
    int limits_splice(int out, int file, const int* ends, int64_t size, int64_t chunk) noexcept
    int limits_zerocopy_send(
        int out, const uint8_t* data, int64_t size, int64_t chunk, int64_t* sends, int64_t* copied
    ) noexcept
    int limits_receive(
        int file, uint8_t* buffer, size_t room, int drop, int64_t* received
    ) noexcept


cdef int _raise(int number) except -1:
    if number:
        raise OSError(number, os.strerror(number))
    return 0


cdef int _check(int64_t size, int64_t chunk) except -1:
    if size < 1 or chunk < 1:
        raise ValueError(f"size {size} and chunk {chunk} are at least 1")
    return 0


def send_file(int out, int file, int64_t size, int64_t chunk):
    cdef int number
    _check(size, chunk)
    with nogil:
        number = limits_sendfile(out, file, size, chunk)
    _raise(number)


def read_and_send(int out, int file, buffer, int64_t size, int64_t chunk):
    cdef HeldBytes held = hold_writable_bytes(buffer)
    cdef int number
    _check(size, chunk)
    if held.size < chunk:
        raise ValueError("the buffer is smaller than a chunk")
    with nogil:
        number = limits_read_send(out, file, held.data, size, chunk)
    _raise(number)


def send_memory(int out, data, int64_t size, int64_t chunk, *, bint repeated=False):
    cdef HeldBytes held = hold_bytes(data)
    cdef int number
    _check(size, chunk)
    if held.size < (chunk if repeated else size):
        raise ValueError("size exceeds the data")
    with nogil:
        number = limits_memory_send(
            out, held.data, size, chunk, 0 if repeated else 1
        )
    _raise(number)


def splice_file(int out, int file, int pipe_out, int pipe_in, int64_t size, int64_t chunk):
    cdef int[2] ends = [pipe_out, pipe_in]
    cdef int number
    _check(size, chunk)
    with nogil:
        number = limits_splice(out, file, ends, size, chunk)
    _raise(number)


def send_zerocopy(int out, data, int64_t size, int64_t chunk):
    cdef HeldBytes held = hold_bytes(data)
    cdef int64_t sends = 0, copied = 0
    cdef int number
    _check(size, chunk)
    if held.size < size:
        raise ValueError("size exceeds the data")
    with nogil:
        number = limits_zerocopy_send(
            out, held.data, size, chunk, &sends, &copied
        )
    _raise(number)
    return sends, copied


def receive(int file, buffer, *, bint drop=False):
    cdef HeldBytes held = hold_writable_bytes(buffer)
    cdef int64_t received = 0
    cdef int number
    if held.size < 1:
        raise ValueError("the buffer is empty")
    with nogil:
        number = limits_receive(
            file, held.data, held.size, drop, &received
        )
    _raise(number)
    return received
