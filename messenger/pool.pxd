cdef class BufferPool:
    cdef public object _buffers
    cdef public object _held_bytes
