cdef class FrameCaches:
    cdef public object crc_layouts
    cdef public object limits
    cdef public object message_preambles
    cdef public object secure_layouts

cdef class CrcReader:
    cdef public object _layouts
    cdef public object max_frame_bytes
    cdef public object needed

cdef class CrcWriter:
    cdef public object _preambles

cdef class SecureReader:
    cdef public object _head
    cdef public object _layouts
    cdef public object _opened
    cdef public object cipher
    cdef public object max_frame_bytes
    cdef public object needed

cdef class SecureWriter:
    cdef public object _pool
    cdef public object _preambles
    cdef public object cipher
