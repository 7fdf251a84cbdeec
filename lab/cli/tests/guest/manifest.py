"""Prints what a directory holds, a line for each file: type, mode, owner, links, size, time, device, target, contents, attributes.

The size of a directory is by the rule of UBIFS: 160 bytes, and for each entry 57 and the name, rounded up to 8. On
UBIFS (`--found`) it is that found.
"""

import hashlib
import os
import stat
import sys


def describe(path, found):
    about = os.lstat(path)
    kind = stat.S_IFMT(about.st_mode)
    size, content = about.st_size, "-"
    if kind == stat.S_IFDIR:
        names = os.listdir(path)
        rule = 160 + sum((57 + len(name) + 7) // 8 * 8 for name in names)
        size = size if found else rule
    elif kind == stat.S_IFREG:
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "md5").hexdigest()
    elif kind == stat.S_IFLNK:
        content = os.fsencode(os.readlink(path)).hex()
    elif kind in (stat.S_IFCHR, stat.S_IFBLK):
        content = f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}"
    names = sorted(os.listxattr(path, follow_symlinks=False))
    values = [os.getxattr(path, name, follow_symlinks=False) for name in names]
    xattrs = [f"{name}={len(value)}:{hashlib.md5(value).hexdigest()}" for name, value in zip(names, values)]
    fields = [f"{about.st_mode:o}", f"{about.st_uid}:{about.st_gid}", about.st_nlink, size, about.st_mtime_ns, content]
    return " ".join(map(str, fields + xattrs))


def main(top, found):
    top = os.fsencode(top)
    paths = [b"."]
    for dir_path, dirs, files in os.walk(top):
        paths += [os.path.relpath(os.path.join(dir_path, name), top) for name in dirs + files]
    for path in sorted(paths):
        print(path.hex() if path != b"." else ".", describe(os.path.join(top, path), found))


main(sys.argv[1], "--found" in sys.argv)
