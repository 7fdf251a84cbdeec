/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The operation mix of xfstests' fsstress (ltp/fsstress.c at 0049872c), written anew from its table of weights and the
 * bounds of its lengths and offsets.
 *
 *     fsstress [-p PROCESSES] [-n OPERATIONS] [-l LOOPS] [-s SEED] [DIRECTORY]
 *
 * Process p works in the directory p<p>, with the seed SEED + p. After OPERATIONS operations it begins again with the same
 * seed and the files that are there, LOOPS times; 0: for ever. An operation that fails counts: on a full file system most do.
 * What a file system does not have (clones, holes by fallocate, XFS's reservations) fails at once, as it does there.
 * At the end it prints how many bytes the processes wrote into files: by writes, mappings, copies and splices that
 * succeeded.
 *
 * What differs: io_uring and asynchronous I/O are done by plain calls of the same length and place; operations of btrfs
 * alone are left out, as fsstress does elsewhere.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <linux/fiemap.h>
#include <linux/fs.h>

enum { LONGEST = 32 * 4096, BEYOND = 1 << 20, PAGE = 4096, MOST_IOVS = 64 };

/* What a name stands for. */
enum kind { DIRECTORY = 1, REGULAR = 2, SYMLINK = 4, NODE = 8 };
enum { ANY = DIRECTORY | REGULAR | SYMLINK | NODE, NO_DIRECTORY = ANY & ~DIRECTORY };

struct name {
	unsigned number, parent; /* Place of the parent among the names + 1; 0: the process's own directory. */
	enum kind kind;
};

static struct name *names;
static unsigned count, room, next_number;
static char *buffer;

/* Bytes that all processes have written into files, in memory that they share. */
static unsigned long long *written;

/* Counts what a call has written; a negative number is its failure. */
static void wrote(ssize_t bytes)
{
	if (bytes < 0)
		errno = 0;
	else
		__atomic_fetch_add(written, bytes, __ATOMIC_RELAXED);
}

static unsigned long draw(void)
{
	return (unsigned long)random() << 31 ^ (unsigned long)random();
}

static unsigned long below(unsigned long limit)
{
	return draw() % limit;
}

/* The path of a name. */
static void path_of(unsigned parent, unsigned number, enum kind kind, char *path, size_t size)
{
	char tail[PATH_MAX] = "", part[PATH_MAX];
	char letter = kind == DIRECTORY ? 'd' : kind == REGULAR ? 'f' : kind == SYMLINK ? 'l' : 'c';

	snprintf(tail, sizeof tail, "%c%x", letter, number);
	while (parent) {
		const struct name *up = &names[parent - 1];

		snprintf(part, sizeof part, "d%x/%.3000s", up->number, tail);
		strcpy(tail, part);
		parent = up->parent;
	}
	snprintf(path, size, "%s", tail);
}

/* Draws a name of these kinds; -1 where there is none. */
static int pick(unsigned kinds, char *path)
{
	unsigned found = 0, at;

	for (at = 0; at < count; at++)
		found += (names[at].kind & kinds) != 0;
	if (!found)
		return -1;
	found = below(found);
	for (at = 0;; at++)
		if (names[at].kind & kinds && !found--)
			break;
	path_of(names[at].parent, names[at].number, names[at].kind, path, PATH_MAX);
	return at;
}

/* Draws the directory of a new name, and makes that name's path. */
static struct name fresh(enum kind kind, char *path)
{
	struct name made = { .number = next_number++, .kind = kind };
	char unused[PATH_MAX];
	int up = below(2) ? pick(DIRECTORY, unused) : -1;

	made.parent = up + 1;
	path_of(made.parent, made.number, kind, path, PATH_MAX);
	return made;
}

static void keep(struct name made)
{
	if (count == room) {
		room = room ? 2 * room : 1024;
		names = realloc(names, room * sizeof *names);
		if (!names)
			exit(1);
	}
	names[count++] = made;
}

/* Forgets a name; the last one takes its place. */
static void forget(unsigned at)
{
	unsigned other;

	count--;
	for (other = 0; other < count; other++)
		if (names[other].parent == count + 1)
			names[other].parent = at + 1;
	names[at] = names[count];
}

/* Opens a regular file, and tells its size. */
static int opened(int flags, off_t *size)
{
	char path[PATH_MAX];
	struct stat found;
	int file;

	if (pick(REGULAR, path) < 0)
		return -1;
	file = open(path, flags);
	if (file >= 0 && (fstat(file, &found) || !S_ISREG(found.st_mode))) {
		close(file);
		return -1;
	}
	if (file >= 0)
		*size = found.st_size;
	return file;
}

static off_t place(off_t size)
{
	return below(size + BEYOND);
}

static void write_at(int flags, int aligned, int vectors)
{
	struct iovec iov[MOST_IOVS];
	size_t length = below(LONGEST) + 1, unit;
	off_t size, at;
	int file = opened(O_WRONLY | flags, &size), i;

	if (file < 0)
		return;
	at = place(size);
	if (aligned) {
		at -= at % PAGE;
		length = length < PAGE ? PAGE : length - length % PAGE;
	}
	memset(buffer, at & 0xff, length);
	if (vectors) {
		vectors = below(MOST_IOVS) + 1;
		unit = (length + vectors - 1) / vectors;
		for (i = 0; i < vectors; i++)
			iov[i] = (struct iovec){ buffer + i * unit, unit };
		lseek(file, at, SEEK_SET);
		wrote(writev(file, iov, vectors));
	} else {
		wrote(pwrite(file, buffer, length, at));
	}
	close(file);
}

static void read_at(int flags, int aligned, int vectors)
{
	struct iovec iov = { buffer, below(LONGEST) + 1 };
	off_t size, at;
	int file = opened(O_RDONLY | flags, &size);

	if (file < 0)
		return;
	at = size ? below(size) : 0;
	if (aligned) {
		at -= at % PAGE;
		iov.iov_len = iov.iov_len < PAGE ? PAGE : iov.iov_len - iov.iov_len % PAGE;
	}
	if ((vectors ? preadv(file, &iov, 1, at) : pread(file, buffer, iov.iov_len, at)) < 0)
		errno = 0;
	close(file);
}

static void op_write(void) { write_at(0, 0, 0); }
static void op_writev(void) { write_at(0, 0, 1); }
static void op_dwrite(void) { write_at(O_DIRECT, 1, 0); }
static void op_read(void) { read_at(0, 0, 0); }
static void op_readv(void) { read_at(0, 0, 1); }
static void op_dread(void) { read_at(O_DIRECT, 1, 0); }

static void mapped(int writes)
{
	size_t length = below(LONGEST) + 1;
	off_t size, at;
	int file = opened(writes ? O_RDWR : O_RDONLY, &size);
	char *map;

	if (file < 0)
		return;
	if (size) {
		at = below(size);
		at -= at % PAGE;
		if ((off_t)length > size - at)
			length = size - at;
		map = mmap(NULL, length, writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, at);
		if (map != MAP_FAILED) {
			/* A page that the full file system cannot hold ends in SIGBUS: the kernel copies, and fails instead. */
			struct iovec iov = { map, length };
			int pipes[2], null = open(writes ? "/dev/zero" : "/dev/null", O_RDWR);

			if (writes)
				wrote(readv(null, &iov, 1));
			else if (writev(null, &iov, 1) < 0)
				errno = 0;
			(void)pipes;
			close(null);
			munmap(map, length);
		}
	}
	close(file);
}

static void op_mwrite(void) { mapped(1); }
static void op_mread(void) { mapped(0); }

static void reserve(int mode, int within)
{
	off_t size, at;
	int file = opened(O_RDWR, &size);

	if (file < 0)
		return;
	at = within ? (off_t)below(size + 1) : place(size);
	if (fallocate(file, mode, at - at % PAGE, below(BEYOND) + 1) < 0)
		errno = 0;
	close(file);
}

static void op_fallocate(void) { reserve(below(2) ? FALLOC_FL_KEEP_SIZE : 0, 0); }
static void op_punch(void) { reserve(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0); }
static void op_zero(void) { reserve(FALLOC_FL_ZERO_RANGE, 0); }
static void op_collapse(void) { reserve(FALLOC_FL_COLLAPSE_RANGE, 1); }
static void op_insert(void) { reserve(FALLOC_FL_INSERT_RANGE, 1); }

/* Control codes of XFS, which others refuse. */
static void op_xfs(void)
{
	off_t size;
	int file = opened(O_RDWR, &size);

	if (file < 0)
		return;
	if (ioctl(file, _IOW('X', 40, char[48]), buffer) < 0)
		errno = 0;
	close(file);
}

static void between(int way)
{
	size_t length = below(LONGEST) + 1;
	off_t size, to_size, at, to_at;
	int file = opened(O_RDONLY, &size), to = opened(O_RDWR, &to_size), pipes[2];

	if (file >= 0 && to >= 0 && size) {
		at = below(size);
		to_at = place(to_size);
		if (way == 0) {
			struct file_clone_range range = { file, at - at % PAGE, PAGE, to_at - to_at % PAGE };

			if (ioctl(to, FICLONERANGE, &range) < 0)
				errno = 0;
		} else if (way == 1) {
			while (length) {
				ssize_t done = copy_file_range(file, &at, to, &to_at, length, 0);

				if (done <= 0)
					break;
				wrote(done);
				length -= done;
			}
		} else if (!pipe(pipes)) {
			while (length) {
				ssize_t in = splice(file, &at, pipes[1], NULL, length, 0), out;

				if (in <= 0)
					break;
				length -= in;
				for (out = 1; in > 0 && out > 0; in -= out) {
					out = splice(pipes[0], NULL, to, &to_at, in, 0);
					wrote(out);
				}
				if (out <= 0)
					break;
			}
			close(pipes[0]);
			close(pipes[1]);
		}
	}
	if (file >= 0)
		close(file);
	if (to >= 0)
		close(to);
}

static void op_clonerange(void) { between(0); }
static void op_copyrange(void) { between(1); }
static void op_splice(void) { between(2); }

static void op_creat(void)
{
	char path[PATH_MAX];
	struct name made = fresh(REGULAR, path);
	int file = creat(path, 0666);

	if (file >= 0) {
		close(file);
		keep(made);
	}
}

static void op_mkdir(void)
{
	char path[PATH_MAX];
	struct name made = fresh(DIRECTORY, path);

	if (!mkdir(path, 0777))
		keep(made);
}

static void op_mknod(void)
{
	char path[PATH_MAX];
	struct name made = fresh(NODE, path);

	if (!mknod(path, S_IFCHR | 0444, makedev(1, 3)))
		keep(made);
}

static void op_symlink(void)
{
	char path[PATH_MAX], target[PATH_MAX];
	struct name made = fresh(SYMLINK, path);
	size_t length = below(PATH_MAX - 1) + 1;

	memset(target, 'x', length);
	target[length] = 0;
	if (!symlink(target, path))
		keep(made);
}

static void op_link(void)
{
	char from[PATH_MAX], path[PATH_MAX];
	int at = pick(NO_DIRECTORY, from);
	struct name made;

	if (at < 0)
		return;
	made = fresh(names[at].kind, path);
	if (!link(from, path))
		keep(made);
}

static void op_unlink(void)
{
	char path[PATH_MAX];
	int at = pick(NO_DIRECTORY, path);

	if (at >= 0 && !unlink(path))
		forget(at);
}

static void op_rmdir(void)
{
	char path[PATH_MAX];
	int at = pick(DIRECTORY, path);

	if (at >= 0 && !rmdir(path))
		forget(at);
}

static void renamed(unsigned flags)
{
	char from[PATH_MAX], path[PATH_MAX];
	int at = pick(ANY, from), other;
	struct name made;

	if (at < 0)
		return;
	if (flags & RENAME_EXCHANGE) {
		other = pick(names[at].kind, path);
		/* Two of a kind: the names stay, what is behind them changes places. */
		if (names[at].kind != DIRECTORY && other >= 0 && renameat2(AT_FDCWD, from, AT_FDCWD, path, flags) < 0)
			errno = 0;
		return;
	}
	made = fresh(names[at].kind, path);
	/* The new parent may be below the directory itself, which is refused. */
	if (!renameat2(AT_FDCWD, from, AT_FDCWD, path, flags)) {
		if (flags & RENAME_WHITEOUT && names[at].kind == NODE) {
			keep(made);
		} else {
			names[at].number = made.number;
			names[at].parent = made.parent;
			if (flags & RENAME_WHITEOUT)
				unlink(from);
		}
	}
}

static void op_rename(void) { renamed(0); }
static void op_rnoreplace(void) { renamed(RENAME_NOREPLACE); }
static void op_rexchange(void) { renamed(RENAME_EXCHANGE); }
static void op_rwhiteout(void) { renamed(RENAME_WHITEOUT); }

static void op_chown(void)
{
	char path[PATH_MAX];

	if (pick(ANY, path) >= 0 && lchown(path, below(1 << below(32)), below(1 << below(32))) < 0)
		errno = 0;
}

static void op_truncate(void)
{
	off_t size;
	int file = opened(O_RDWR, &size);

	if (file < 0)
		return;
	if (ftruncate(file, place(size)) < 0)
		errno = 0;
	close(file);
}

static void synced(int data)
{
	off_t size;
	int file = opened(O_WRONLY, &size);

	if (file < 0)
		return;
	if (data ? fdatasync(file) : fsync(file))
		errno = 0;
	close(file);
}

static void op_fsync(void) { synced(0); }
static void op_fdatasync(void) { synced(1); }
static void op_sync(void) { sync(); }

static void op_stat(void)
{
	char path[PATH_MAX];
	struct stat found;

	if (pick(ANY, path) >= 0 && lstat(path, &found))
		errno = 0;
}

static void op_getdents(void)
{
	char path[PATH_MAX];
	DIR *dir = opendir(pick(DIRECTORY, path) < 0 ? "." : path);

	if (!dir)
		return;
	while (readdir(dir))
		;
	closedir(dir);
}

static void op_readlink(void)
{
	char path[PATH_MAX], target[PATH_MAX];

	if (pick(SYMLINK, path) >= 0 && readlink(path, target, sizeof target) < 0)
		errno = 0;
}

static void op_fiemap(void)
{
	struct fiemap map = { .fm_length = ~0ULL };
	off_t size;
	int file = opened(O_RDWR, &size);

	if (file < 0)
		return;
	if (ioctl(file, FS_IOC_FIEMAP, &map) < 0)
		errno = 0;
	close(file);
}

/* Attributes of a file have one of a few names, so that one set before is found. */
static int attribute(char *path, char *name)
{
	snprintf(name, 32, "user.%lx", below(8));
	return pick(DIRECTORY | REGULAR, path);
}

static void op_setfattr(void)
{
	char path[PATH_MAX], name[32];

	if (attribute(path, name) >= 0 && setxattr(path, name, buffer, below(101), 0) < 0)
		errno = 0;
}

static void op_getfattr(void)
{
	char path[PATH_MAX], name[32], value[128];

	if (attribute(path, name) >= 0 && getxattr(path, name, value, sizeof value) < 0)
		errno = 0;
}

static void op_listfattr(void)
{
	char path[PATH_MAX], name[32], value[1024];

	if (attribute(path, name) >= 0 && listxattr(path, value, sizeof value) < 0)
		errno = 0;
}

static void op_removefattr(void)
{
	char path[PATH_MAX], name[32];

	if (attribute(path, name) >= 0 && removexattr(path, name) < 0)
		errno = 0;
}

/* The operations that fsstress has with a weight above 0 off btrfs, and its weights. */
static const struct {
	void (*run)(void);
	unsigned weight;
} mix[] = {
	{ op_xfs, 1 },         /* allocsp */
	{ op_dread, 1 },       /* aread */
	{ op_dwrite, 1 },      /* awrite */
	{ op_xfs, 1 },         /* bulkstat */
	{ op_xfs, 1 },         /* bulkstat1 */
	{ op_chown, 3 },
	{ op_clonerange, 4 },
	{ op_copyrange, 4 },
	{ op_creat, 4 },
	{ op_clonerange, 4 },  /* deduperange: refused alike */
	{ op_dread, 4 },
	{ op_dwrite, 4 },
	{ op_fallocate, 1 },
	{ op_fdatasync, 1 },
	{ op_fiemap, 1 },
	{ op_xfs, 1 },         /* freesp */
	{ op_fsync, 1 },
	{ op_stat, 1 },        /* getattr */
	{ op_getdents, 1 },
	{ op_getfattr, 1 },
	{ op_link, 1 },
	{ op_listfattr, 1 },
	{ op_mkdir, 2 },
	{ op_mknod, 2 },
	{ op_mread, 2 },
	{ op_mwrite, 2 },
	{ op_punch, 1 },
	{ op_zero, 1 },
	{ op_collapse, 1 },
	{ op_insert, 1 },
	{ op_read, 1 },
	{ op_readlink, 1 },
	{ op_readv, 1 },
	{ op_removefattr, 1 },
	{ op_rename, 2 },
	{ op_rnoreplace, 2 },
	{ op_rexchange, 2 },
	{ op_rwhiteout, 2 },
	{ op_xfs, 1 },         /* resvsp */
	{ op_rmdir, 1 },
	{ op_setfattr, 2 },
	{ op_xfs, 1 },         /* setxattr: XFS's project number */
	{ op_splice, 1 },
	{ op_stat, 1 },
	{ op_symlink, 2 },
	{ op_sync, 1 },
	{ op_truncate, 2 },
	{ op_unlink, 1 },
	{ op_xfs, 1 },         /* unresvsp */
	{ op_read, 1 },        /* uring_read */
	{ op_write, 1 },       /* uring_write */
	{ op_write, 4 },
	{ op_writev, 4 },
};

static void work(unsigned process, unsigned long operations, unsigned long loops, unsigned seed)
{
	char own[16];
	unsigned total = 0, at, number;
	unsigned long done, loop;

	for (at = 0; at < sizeof mix / sizeof *mix; at++)
		total += mix[at].weight;
	snprintf(own, sizeof own, "p%x", process);
	if ((mkdir(own, 0777) && errno != EEXIST) || chdir(own)) {
		perror(own);
		exit(1);
	}
	for (loop = 0; !loops || loop < loops; loop++) {
		srandom(seed + process);
		for (done = 0; done < operations; done++) {
			number = random() % total;
			for (at = 0; number >= mix[at].weight; at++)
				number -= mix[at].weight;
			mix[at].run();
		}
	}
	exit(0);
}

int main(int argc, char **argv)
{
	unsigned long operations = 1, loops = 1;
	unsigned processes = 1, seed = 1, i;
	int option, status, failed = 0;

	while ((option = getopt(argc, argv, "p:n:l:s:")) != -1) {
		switch (option) {
		case 'p':
			processes = strtoul(optarg, NULL, 10);
			break;
		case 'n':
			operations = strtoul(optarg, NULL, 10);
			break;
		case 'l':
			loops = strtoul(optarg, NULL, 10);
			break;
		case 's':
			seed = strtoul(optarg, NULL, 10);
			break;
		default:
			fprintf(stderr, "usage: fsstress [-p PROCESSES] [-n OPERATIONS] [-l LOOPS] [-s SEED] [DIRECTORY]\n");
			return 2;
		}
	}
	if (optind < argc && chdir(argv[optind])) {
		perror(argv[optind]);
		return 2;
	}
	if (posix_memalign((void **)&buffer, PAGE, LONGEST + PAGE * MOST_IOVS))
		return 1;
	written = mmap(NULL, sizeof *written, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (written == MAP_FAILED)
		return 1;
	for (i = 0; i < processes; i++)
		if (!fork())
			work(i, operations, loops, seed);
	while (wait(&status) > 0)
		failed |= status;
	printf("%llu bytes written\n", *written);
	return failed != 0;
}
