cimport cython

cdef int _COMPLETE
cdef unsigned int _EMPTY_CRC
cdef Py_ssize_t _COPIED_BYTES
cdef Py_ssize_t _EPILOGUE_SIZE
cdef Py_ssize_t _HEAD_SIZE
cdef Py_ssize_t _TYPE_AT
cdef Py_ssize_t _TYPE_END

@cython.locals(
    end=Py_ssize_t, last=Py_ssize_t, preamble=bytes, header=bytes, crc=cython.uint, found=cython.uint,
    segments=int, front_size=Py_ssize_t, middle_size=Py_ssize_t, data_size=Py_ssize_t, total=Py_ssize_t,
    stop=Py_ssize_t, at=Py_ssize_t, epilogue=Py_ssize_t,
    status=int, front_crc=cython.uint, middle_crc=cython.uint, data_crc=cython.uint,
)
cpdef Py_ssize_t pass_messages(
    object plans, memoryview view, Py_ssize_t start, Py_ssize_t limit_bytes, object special,
    object stops,
)
