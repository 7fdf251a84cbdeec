#!/usr/bin/env python3
"""Records what PostMark, sysbench or fio does to its files, for the tests beside this file.

    record.py postmark 'set ...;set ...' > postmark.txt
    record.py sysbench SYSBENCH_OPTION... > sysbench.txt    after `prepare` where the mode needs it
    record.py fio FIO_OPTION... >> fio.txt                  one job with one process

They are run in an empty directory under strace. A line for each operation on a file: what, number of the file, and of
PostMark bytes and calls, of sysbench and fio offset and bytes, where fio lays out a file bytes and calls. At the end what
PostMark reports.
"""

import os
import re
import subprocess
import sys
import tempfile

program, *arguments = sys.argv[1:]
with tempfile.TemporaryDirectory() as top:
    log = os.path.join(top, "log")
    calls = "openat,open,creat,read,write,pread64,pwrite64,fsync,fdatasync,ftruncate,close,unlink,mkdir,rmdir"
    trace = ["strace", "-f", "-e", f"trace={calls}", "-o", log]
    files = os.path.join(top, "files")
    os.mkdir(files)
    if program == "postmark":
        commands = "\n".join(arguments[0].split(";") + ["run", "quit", ""])
        done = subprocess.run([*trace, program], cwd=files, input=commands, capture_output=True, text=True, check=True)
        print("#", arguments[0])
    elif program == "fio":
        job = ["--name=job", "--ioengine=psync", "--thread", "--fallocate=none", *arguments]
        subprocess.run([*trace, program, *job], cwd=files, capture_output=True, check=True)
        print("#", *arguments)
    else:
        sysbench = [program, "fileio", "--threads=1", *arguments]
        subprocess.run([*sysbench, "prepare"], cwd=files, capture_output=True, check=True)
        done = subprocess.run([*trace, *sysbench, "run"], cwd=files, capture_output=True, text=True, check=True)
        print("#", *arguments)
    name = {"postmark": r"(?:s\d+/)?(\d+)", "sysbench": r"test_file\.(\d+)", "fio": r"job\.(\d+)\.0"}[program]
    opened = {}
    for line in open(log):
        line = re.sub(r"^\d+ +", "", line)
        if match := re.match(rf'(?:openat\(AT_FDCWD, |open\(|creat\()"{name}", ([^)]*)\) += (\d+)', line):
            number, flags, descriptor = match.groups()
            op = "append" if "O_APPEND" in flags else "create" if "O_CREAT" in flags else "read"
            opened[descriptor] = [op, number, 0, 0]
        elif match := re.match(r"(p?)(read|write)(?:64)?\((\d+), .*?(?:, (\d+))?\) += (\d+)$", line.strip()):
            positioned, op, descriptor, offset, count = match.groups()
            if descriptor in opened and positioned:
                print(op, opened[descriptor][1], offset, count)
            elif descriptor in opened and int(count):
                opened[descriptor][2] += int(count)
                opened[descriptor][3] += 1
        elif match := re.match(r"(fsync|fdatasync)\((\d+)\) += 0", line):
            print(match[1] if program == "fio" else "fsync", opened[match[2]][1])
        elif match := re.match(r"close\((\d+)\) += 0", line):
            file = opened.pop(match[1], None)
            if file and program == "postmark":
                print(*file)
            elif file and program == "fio" and file[2]:
                print("layout", *file[1:])
        elif match := re.match(rf'unlink\("{name}"\) += 0', line):
            print("remove", match[1])
        elif match := re.match(r'(mkdir|rmdir)\("s(\d+)"', line):
            print(match[1], match[2])
    if program == "postmark":
        words = "created|read|appended|deleted|written"
        for line in done.stdout.splitlines():
            if match := re.match(rf"\t([\d.]+(?: \w+)? (?:{words}))\b", line):
                print("#", match[1])
