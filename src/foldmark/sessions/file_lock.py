"""Lock files until the process that holds the lock ends. Standard library only, because hooks use it, too."""

import errno
import os
import sys

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)


def locked(descriptor: int, without_locks: bool = True) -> bool:
    """Lock an open file until this descriptor is closed. Return False if another descriptor holds the lock.

    Return `without_locks` if the file system has no locks.
    """
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, 1 << 40, os.SEEK_SET)  # far beyond all data, because locked bytes cannot be read
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return without_locks and error.errno not in _BUSY
    return True
