cimport cython

from messenger.messages.message cimport Message

@cython.locals(message=Message)
cdef Message _message(header, front, middle, data, Py_ssize_t size_bytes)
