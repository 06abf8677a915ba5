"""System calls on open files.

Modules:

- file_map: a mapped file, and sendfile(2) from it
- inode_and_size: inode and size of a file, without a look at its times
- inotify: events of directories, by inotify(7), which Python lacks
- owned_descriptor: a file descriptor that is closed with its last reference
- page_cache: starts reads and writes of pages in the background
- resident_pages: whether bytes are in memory
- sync_together: fdatasync of many files at the same time
- write_all: write(2) and pwrite(2) until all bytes are written
"""
