#!/usr/bin/env python3
"""Records what fsstress of xfstests does, for the test beside this file.

    record.py FSSTRESS AS_UBIFS_SO EMPTY_DIRECTORY FSSTRESS_OPTION... > real.txt

FSSTRESS is `ltp/fsstress.c` of xfstests at 0049872c, built with `lib/random.c`, AIO, io_uring and copy_file_range, and
run on tmpfs by root. Of each operation there is a line: the number of the process, of the operation, the names it was
about, and the numbers that it printed. Then the tree, a line for each path: type, mode, owner, group, links, size (of
files and links), CRC-32.
"""

import os
import re
import subprocess
import sys
import tempfile
import zlib

program, shim, top, *options = sys.argv[1:]
with tempfile.TemporaryDirectory() as logs:
    log = os.path.join(logs, "log")
    environment = {**os.environ, "LD_PRELOAD": os.path.abspath(shim)}
    command = [os.path.abspath(program), "-d", top, "-v", "-o", log, *options]
    subprocess.run(command, check=True, env=environment)
    print("#", *options)
    process = 0
    while os.path.exists(f"{log}.{process}"):
        for line in open(f"{log}.{process}"):
            match = re.match(r"\d+/(\d+): (.*)", line)
            if not match or re.search(r" (add|entry:|source entry:|del entry:|target entry:) ?id=", line):
                continue
            number, text = match.groups()
            text = re.sub(r"\[\d+( \d+){5}\]t?", " ", text)
            path = r"(?<![\w./])[dflc][0-9a-f]+(?:/[dflc][0-9a-f]+)*(?![\w.(])"
            label, _, rest = text.partition(" ")
            names = [found.split("/")[-1] for found in re.findall(path, rest)]
            rest = re.sub(path, " ", rest)
            rest = re.sub(r"\([^)]*\)|x:0", " ", rest)
            numbers = re.findall(r"-?\d+", rest)
            if label in ("writev", "readv") and len(numbers) == 4:
                numbers = [numbers[0], str(int(numbers[1]) * int(numbers[2])), numbers[3]]
            print(process, number, label.split("(")[0], *names, *numbers)
        process += 1

rows = []
for directory, directories, files in os.walk(top):
    for name in directories + files:
        path = os.path.join(directory, name)
        stat = os.lstat(path)
        kind = {0o4: "d", 0o10: "f", 0o12: "l", 0o2: "c"}[stat.st_mode >> 12]
        crc = zlib.crc32(open(path, "rb").read()) if kind == "f" else 0
        size = stat.st_size if kind in "fl" else 0
        mode = oct(stat.st_mode & 0o7777)[2:]
        rows.append(
            f"/{os.path.relpath(path, top)} {kind} {mode} {stat.st_uid}:{stat.st_gid} {stat.st_nlink} {size} {crc:08x}"
        )
print("\n".join(sorted(rows)))
