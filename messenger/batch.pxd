from messenger.messages.message cimport Message
