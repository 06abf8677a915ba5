"""The disk: every system call, every file name, and what guards files that change.

Modules:

- descriptor_limit: File descriptors, of which a process has a limited number (``ulimit -n``)
- directory_watch: Waits for changes of files that another process writes: by inotify, or by
  polling without it
- failure_detector: Detects I/O failures of a disk and takes its log directory offline, while
  others continue
- file_lock: Locks on files and on ranges of their bytes, which all processes of the machine see
- filenames: Names of everything in a log directory: formats and parses them, and no other module
  does
- files: Every system call of kstore that accesses a disk
- lock_holders: Finds the processes that hold a lock of a file, for error messages
- map_budget: Limits how many segments are mapped at once, for address space and descriptors
- marker_file: Marker files for the state of a partition's folder, with the content ``{"format":1}``
- memory_file: A file in memory, for libraries that read a secret only from a path
- modification_time: Whether a directory's modification time shows every change since it was read
- open_file: A file that is open within a ``with`` block
- process_lifetime: Open objects of this process: closed at exit, disabled in a forked child
- publish_barrier: The barrier of a publication: readers show nothing behind it until all of it is
  published
- returned_error: The error of a system call as a value, where several calls fail each for itself
- stable_listing: Lists a directory that its owner may rename, empty and replace meanwhile
- staging_area: Files prepared beside a log, under names that are not part of it, until they are
  renamed
"""
