cdef class OutQueue:
    cdef public object _by_priority
    cdef public object requeued
    cdef public object sent
    cdef public object unchecked_bytes
