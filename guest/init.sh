#!/bin/sh
# The guest's first program. Its root is the host's tree, read-only; a layer in memory above it makes it writable. Then
# it runs the job, which it reads from /dev/nandlab, and reports the exit code.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb
fail() { echo "nandlab: $*"; exit 1; }
mount -t tmpfs -o mode=755 tmpfs /tmp || fail "no memory file system"
mkdir /tmp/upper /tmp/work /tmp/root
mount -t overlay overlay -o lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work /tmp/root || fail "no writable layer"
cd /tmp/root || fail "no root"
mount -t proc proc proc && mount -t sysfs sysfs sys && mount -t devtmpfs dev dev || fail "no proc, sys or dev"
mount -t tmpfs tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p dev/shm && mount -t tmpfs -o mode=1777 tmpfs dev/shm
cat dev/nandlab >run/job
cd /
chroot /tmp/root /bin/sh /run/job </dev/null >/tmp/root/dev/nandlab 2>&1
echo "exit $?" >/tmp/root/dev/nandlab-mark
fail "the run went on after its end"
