cimport cython

from messenger.v2.onwire cimport StreamCipher

cdef int _COMPLETE
cdef int _MESSAGE_HEADER_SIZE
cdef unsigned int _EMPTY_CRC
cdef Py_ssize_t _COPY_BELOW_BYTES
cdef Py_ssize_t _CRC_EPILOGUE_SIZE
cdef Py_ssize_t _CRC_HEAD_SIZE
cdef Py_ssize_t _INLINE_BYTES
cdef Py_ssize_t _PREAMBLE_BYTES
cdef Py_ssize_t _SECURE_EPILOGUE_SIZE
cdef Py_ssize_t _SECURE_HEAD_BYTES
cdef Py_ssize_t _SMALL_FRAME_BYTES
cdef Py_ssize_t _TAG_BYTES

cdef class FrameCaches:
    cdef public object crc_layouts
    cdef public object limits
    cdef public object message_frames
    cdef public object secure_layouts

cdef class CrcReader:
    cdef public object _frames
    cdef public object _layouts
    cdef public Py_ssize_t _small_bytes
    cdef public bytes _small_preamble
    cdef public int _small_segments
    cdef public object _small_unpack
    cdef public object max_frame_bytes
    cdef public object needed

    @cython.locals(
        small=Py_ssize_t, preamble=bytes, s0=bytes, s1=bytes, s2=bytes, s3=bytes, status=int,
        crc0=cython.uint, crc1=cython.uint, crc2=cython.uint, crc3=cython.uint, crc=cython.uint,
    )
    cpdef object next_frame(self, memoryview view, Py_ssize_t start, Py_ssize_t end, bint owned)

    @cython.locals(
        body=Py_ssize_t, stop=Py_ssize_t, tag=int, segments=int, total=Py_ssize_t,
        l0=Py_ssize_t, l1=Py_ssize_t, l2=Py_ssize_t, l3=Py_ssize_t,
        status=int, crc0=cython.uint, crc1=cython.uint, crc2=cython.uint, crc3=cython.uint, crc=cython.uint,
    )
    cpdef object _any_frame(self, memoryview view, Py_ssize_t start, Py_ssize_t end, bint owned)

cdef class CrcWriter:
    cdef public object _frames

cdef class SecureReader:
    cdef public bytes _head
    cdef public object _layouts
    cdef public bint _opened
    cdef public StreamCipher cipher
    cdef public object max_frame_bytes
    cdef public object needed

    @cython.locals(
        body=Py_ssize_t, stop=Py_ssize_t, rest=Py_ssize_t, tag=int, segments=int, total=Py_ssize_t,
        l0=Py_ssize_t, l1=Py_ssize_t, l2=Py_ssize_t, l3=Py_ssize_t, at2=Py_ssize_t, at3=Py_ssize_t,
        status=int, head=bytes, plain=bytes,
    )
    cpdef object next_frame(self, memoryview view, Py_ssize_t start, Py_ssize_t end, bint owned)
    @cython.locals(body=Py_ssize_t)
    cpdef bint _open_head(self, memoryview view, Py_ssize_t start, Py_ssize_t end)

cdef class SecureWriter:
    cdef public object _frames
    cdef public object _pool
    cdef public StreamCipher cipher
