cdef class ReceiveBuffer:
    cdef public object _filled
    cdef public object _most_bytes
    cdef public object _own
    cdef public object _pool
    cdef public object _rest
    cdef public object _scratch
    cdef public object _start
