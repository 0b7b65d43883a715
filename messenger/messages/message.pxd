cdef class Message:
    cdef public object compat_version
    cdef public object data
    cdef public object data_off
    cdef public object encoded
    cdef public object flags
    cdef public object front
    cdef public object held_bytes
    cdef public object middle
    cdef public object payload
    cdef public object priority
    cdef public object seq
    cdef public object tid
    cdef public object type
    cdef public object version
