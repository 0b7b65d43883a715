from libc.stdint cimport uint32_t, uint64_t

cdef uint64_t _COUNTER_MASK

cdef class StreamCipher:
    cdef public object _aes
    cdef public uint64_t _counter
    cdef public uint32_t _fixed
    cdef public uint64_t _initial_counter
    cdef public object _key
    cdef public bint _started

    cpdef bytes _next_nonce(self)
    cpdef bytes encrypt(self, bytes plain)
    cpdef bytes decrypt(self, memoryview sealed)
