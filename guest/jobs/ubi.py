"""What Linux's UBI does with a flash: a job for a guest whose mtd0 is that flash.

    ubi.py write clean|idle       makes volumes with contents; `clean` detaches at the end, `idle` leaves it attached
    ubi.py turn SCRIPT clean|idle|torn
                                  attaches mtd0, carries out each line of SCRIPT, and leaves it in that state: detached,
                                  attached, or, where power is cut, as `clean`
    ubi.py attach BASE PATCHES PEB UNIT
                                  attaches mtd0 as it is in the file BASE with each line of PATCHES applied:
                                  NAME PEB:OFFSET:HEX[,PEB:OFFSET:HEX...]; a PEB has PEB bytes and is programmed
                                  in units of UNIT bytes

`attach` prints a line for each, with tabs between: the name; `fastmap`, `scan`, `fell-back` (a fastmap was there and
was not used) or `refused`; `rw` or `ro`; erase counters `max`; each volume; and the kernel's first error or warning. A
volume is NUMBER:NAME:TYPE:RESERVED:BYTES:CONTENTS, where the contents are a CRC-32 or the error of reading them.
`turn` prints the same line, named `found`, and after the script the line `left` with the volumes and what the kernel
said meanwhile. A line of SCRIPT is an operation with numbers; contents are `lines(TAG, BYTES)`:

    create ID NAME dynamic|static LEBS ALIGNMENT SKIP-CHECK       remove ID       resize ID LEBS       rename ID NAME ...
    update ID TAG BYTES       change ID LEB TAG BYTES       write ID LEB OFFSET TAG BYTES       map ID LEB       unmap ID LEB
    settle: waits for UBI's thread
"""

import errno
import fcntl
import glob
import os
import re
import struct
import subprocess
import sys
import time
import zlib


def iow(kind, number, size):
    return 1 << 30 | size << 16 | ord(kind) << 8 | number


MEMERASE = iow("M", 2, 8)
ATTACH, DETACH = iow("o", 64, 24), iow("o", 65, 4)
MAKE_VOLUME, REMOVE_VOLUME = iow("o", 0, 152), iow("o", 1, 4)
RESIZE_VOLUME, RENAME_VOLUMES = iow("o", 2, 12), iow("o", 3, 4368)
UPDATE, LEB_CHANGE, LEB_MAP, LEB_UNMAP = iow("O", 0, 8), iow("O", 2, 4), iow("O", 3, 8), iow("O", 4, 4)
SET_PROPERTY = iow("O", 6, 16)
SYS = "/sys/class/ubi/ubi0/"


def value(path):
    with open(path, encoding="ascii", errors="backslashreplace") as file:
        return file.read().strip()


def attach():
    """Attaches mtd0 as ubi0. Errors: OSError."""
    with open("/dev/ubi_ctrl", "rb") as control:
        fcntl.ioctl(control, ATTACH, struct.pack("iiihbb8x", 0, 0, 0, 0, 0, 0))


def detach():
    with open("/dev/ubi_ctrl", "rb") as control:
        fcntl.ioctl(control, DETACH, struct.pack("i", 0))


def text(number, length):
    """Contents that compress well and differ from LEB to LEB."""
    line = b"volume %d, line %%d\n" % number
    return b"".join(line % i for i in range(length // len(line) + 1))[:length]


def make(number, name, lebs, contents, *options):
    """Makes a volume and writes its contents, a number of LEBs, at once."""
    subprocess.run(["ubimkvol", "/dev/ubi0", "-n", str(number), "-N", name, "-S", str(lebs), *options],
                   check=True, stdout=subprocess.DEVNULL)
    usable = int(value(f"/sys/class/ubi/ubi0_{number}/usable_eb_size"))
    with open("/tmp/contents", "wb") as file:
        file.write(text(number, int(contents * usable)))
    subprocess.run(["ubiupdatevol", f"/dev/ubi0_{number}", "/tmp/contents"], check=True)


def change(number, lnum, data):
    """Changes a LEB atomically."""
    with open(f"/dev/ubi0_{number}", "r+b", buffering=0) as volume:
        fcntl.ioctl(volume, LEB_CHANGE, struct.pack("iib7x", lnum, len(data), 3))
        volume.write(data)


def write(end):
    attach()
    page = int(value(SYS + "min_io_size"))
    make(0, "plain", 8, 3, "-t", "dynamic")
    make(1, "fixed", 6, 2.5, "-t", "static")
    make(2, "gone", 3, 1, "-t", "dynamic")
    make(3, "unchecked", 4, 1.5, "-t", "static", "-k")
    make(4, "aligned", 6, 2, "-t", "dynamic", "-a", str(4 * page if page > 1 else 1000))
    subprocess.run(["ubirmvol", "/dev/ubi0", "-n", "2"], check=True)
    for i in range(12):
        change(0, i % 4, text(100 + i, 3 * max(page, 64)))
    if end == "clean":
        detach()
        attach()
        change(0, 1, text(200, 2 * max(page, 64)))
        detach()
    else:
        change(0, 5, text(201, 2 * max(page, 64)))
    os.sync()


class Flash:
    """mtd0, brought to given contents by erasing and programming only the PEBs that differ."""

    def __init__(self, peb, unit):
        self.peb, self.unit = peb, max(unit, 64)
        self.file = open("/dev/mtd0", "r+b", buffering=0)

    def put(self, wanted):
        for at in range(0, len(wanted), self.peb):
            new = wanted[at:at + self.peb]
            if os.pread(self.file.fileno(), self.peb, at) == new:
                continue
            fcntl.ioctl(self.file, MEMERASE, struct.pack("II", at, self.peb))
            for begin in range(0, self.peb, self.unit):
                piece = new[begin:begin + self.unit]
                if piece.count(0xff) != len(piece):
                    os.pwrite(self.file.fileno(), piece, at + begin)


def contents(number):
    try:
        with open(f"/dev/ubi0_{number}", "rb") as volume:
            return f"{zlib.crc32(volume.read()):08x}"
    except OSError as error:
        return errno.errorcode[error.errno]


def volumes():
    found = []
    for path in glob.glob("/sys/class/ubi/ubi0_*"):
        number = int(path.rsplit("_", 1)[1])
        name, kind, reserved, size = (
            value(f"{path}/{key}") for key in ("name", "type", "reserved_ebs", "data_bytes"))
        corrupted = "!" if value(f"{path}/corrupted") != "0" else ""
        found.append((number, f"{number}:{name}:{kind}{corrupted}:{reserved}:{size}:{contents(number)}"))
    return " ".join(volume for _, volume in sorted(found))


class Log:
    """The kernel's messages."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)

    def new(self):
        lines = []
        while True:
            try:
                lines.append(os.read(self.fd, 8192).decode(errors="replace").split(";", 1)[1].split("\n")[0])
            except BlockingIOError:
                return lines
            except BrokenPipeError:
                pass


def complaints(said):
    told = [line for line in said if re.match(r"ubi0 (error|warning)|UBI assert|WARNING", line)]
    return [re.sub(r"^ubi0 | \(pid \d+\)", "", line) for line in told]


def find(name, log):
    """Attaches mtd0. Returns the columns that describe what was found, and whether it is attached."""
    log.new()
    try:
        attach()
        refused = None
    except OSError as error:
        refused = errno.errorcode[error.errno]
    said = log.new()
    first = (complaints(said) or ["-"])[0]
    if refused:
        return [name, "refused", "-", "-", "-", first], False
    fell_back = any("Attach by fastmap failed" in line for line in said)
    how = "fastmap" if any("attached by fastmap" in line for line in said) else "fell-back" if fell_back else "scan"
    access = "ro" if value(SYS + "ro_mode") != "0" else "rw"
    return [name, how, access, value(SYS + "max_ec"), volumes(), first], True


def try_one(name, log):
    print("try", name, flush=True)
    row, attached = find(name, log)
    if attached:
        detach()
    print("\t".join(row), flush=True)


def operate(word, *given):
    """Carries out a line of a script. Errors: OSError."""
    if word == "settle":
        time.sleep(3)
        return
    names = given[1::2] if word == "rename" else given[1:3] if word == "create" else ()
    numbers = [int(text) for text in given if text not in names]
    volume = f"/dev/ubi0_{numbers[0]}"
    if word in ("create", "remove", "resize", "rename"):
        with open("/dev/ubi0", "rb") as device:
            if word == "create":
                number, lebs, alignment, skip_check = numbers
                leb = int(value(SYS + "eraseblock_size"))
                name, kind = given[1].encode(), 3 if given[2] == "dynamic" else 4
                fcntl.ioctl(device, MAKE_VOLUME, struct.pack(
                    "=iiqbBh4x128s", number, alignment, lebs * (leb - leb % alignment), kind, skip_check, len(name), name))
            elif word == "remove":
                fcntl.ioctl(device, REMOVE_VOLUME, struct.pack("i", numbers[0]))
            elif word == "resize":
                usable = int(value(f"/sys/class/ubi/ubi0_{numbers[0]}/usable_eb_size"))
                fcntl.ioctl(device, RESIZE_VOLUME, struct.pack("=qi", numbers[1] * usable, numbers[0]))
            else:
                pairs = b"".join(struct.pack("=ih2x128s", number, len(name), name.encode())
                                 for number, name in zip(numbers, names))
                # Only a buffer that can be written may be so long.
                request = bytearray((struct.pack("=i12x", len(names)) + pairs).ljust(4368, b"\0"))
                fcntl.ioctl(device, RENAME_VOLUMES, request)
        return
    with open(volume, "r+b", buffering=0) as file:
        if word == "update":
            fcntl.ioctl(file, UPDATE, struct.pack("q", numbers[2]))
            put(file, lines(*numbers[1:]))
        elif word == "change":
            fcntl.ioctl(file, LEB_CHANGE, struct.pack("iib7x", numbers[1], numbers[3], 3))
            put(file, lines(*numbers[2:]))
        elif word == "write":
            fcntl.ioctl(file, SET_PROPERTY, struct.pack("B7xQ", 1, 1))
            usable = int(value(f"/sys/class/ubi/ubi0_{numbers[0]}/usable_eb_size"))
            file.seek(numbers[1] * usable + numbers[2])
            put(file, lines(*numbers[3:]))
        elif word == "map":
            fcntl.ioctl(file, LEB_MAP, struct.pack("ib3x", numbers[1], 3))
        elif word == "unmap":
            fcntl.ioctl(file, LEB_UNMAP, struct.pack("i", numbers[1]))
        else:
            raise ValueError(word)


def lines(tag, length):
    """Contents of a script: as `text` in `lab/cli/tests/guest/kernel_ubi`."""
    found, number = b"", 0
    while len(found) < length:
        found += b"volume %d, line %d\n" % (tag, number)
        number += 1
    return found[:length]


def put(file, data):
    while data:
        data = data[file.write(data):]


def turn(script, end):
    log = Log()
    row, attached = find("found", log)
    print("\t".join(row), flush=True)
    if not attached:
        return
    log.new()
    with open(script, encoding="ascii") as file:
        for line in file:
            try:
                operate(*line.split())
            except OSError as error:
                raise SystemExit(f"{line.strip()}: {error}; {log.new()}") from error
    left = volumes() if end != "torn" else "-"
    if end != "idle":
        detach()
    print("\t".join(["left", left, " | ".join(complaints(log.new())) or "-"]), flush=True)


def attach_each(base, patches, peb, unit):
    with open(base, "rb") as file:
        whole = file.read()
    flash, log = Flash(peb, unit), Log()
    with open(patches) as file:
        lines = file.read().split("\n")
    for line in lines:
        if not line:
            continue
        name, _, places = line.partition(" ")
        image = bytearray(whole)
        for place in filter(None, places.split(",")):
            peb, offset, new = place.split(":")
            at, new = int(peb) * flash.peb + int(offset), bytes.fromhex(new)
            image[at:at + len(new)] = new
        flash.put(bytes(image))
        try_one(name, log)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2])
    elif sys.argv[1] == "turn":
        turn(sys.argv[2], sys.argv[3])
    else:
        attach_each(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
