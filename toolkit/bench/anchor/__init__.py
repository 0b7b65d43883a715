"""Other implementations beside ours, in turns; and Ceph's own C++ messenger as such a program."""
