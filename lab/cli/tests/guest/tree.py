"""Prints every file below a directory: path, type and mode, links, owner, size, time, contents, device, attributes.

    tree.py DIRECTORY [plain]

One line a file, with a hash of what is too long to read. `plain` leaves out what takes privileges to restore: owners,
devices, and attributes other than `user.`.
"""
import hashlib
import os
import stat
import sys

top = os.fsencode(sys.argv[1]).rstrip(b"/")
plain = "plain" in sys.argv[2:]


def attributes(path):
    try:
        names = sorted(os.listxattr(path, follow_symlinks=False))
    except OSError:
        return []
    wanted = [name for name in names if not plain or name.startswith("user.")]
    return [(os.fsencode(name), os.getxattr(path, name, follow_symlinks=False)) for name in wanted]


def line(path):
    found = os.lstat(path)
    kind = stat.S_IFMT(found.st_mode)
    is_device = kind in (stat.S_IFBLK, stat.S_IFCHR)
    if is_device and plain:
        return
    is_dir, is_file = kind == stat.S_IFDIR, kind == stat.S_IFREG
    contents = b""
    if is_file:
        with open(path, "rb") as file:
            contents = hashlib.sha1(file.read()).hexdigest().encode()
    elif kind == stat.S_IFLNK:
        contents = os.readlink(path)
    elif is_device:
        contents = b"%d:%d" % (os.major(found.st_rdev), os.minor(found.st_rdev))
    about = (
        path[len(top):] or b"/",
        oct(found.st_mode),
        0 if is_dir else found.st_nlink,
        found.st_size if is_file else 0,
        found.st_mtime_ns,
        (0, 0) if plain else (found.st_uid, found.st_gid),
        contents,
        attributes(path),
    )
    print(repr(about[:5])[:90], hashlib.sha1(repr(about).encode()).hexdigest()[:16])


def walk(directory):
    line(directory)
    for name in sorted(os.listdir(directory)):
        path = directory + b"/" + name
        if stat.S_ISDIR(os.lstat(path).st_mode):
            walk(path)
        else:
            line(path)


walk(top)
