/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * load: makes the calls of a load that nandlab generates. It reads them from /dev/nandlab, one line a call, the bytes of a
 * write behind its line, and makes each before it asks for more: nandlab takes the time from one request to the next. The
 * lines are described in nandlab's workload::file::calls.
 *
 * Files are in the current directory. A call that fails ends it, with exit code 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 32

static int input;
static char given[65536];
static size_t at, have;
static int files[SLOTS];
static char *contents;
static size_t room;

static void fail(const char *call, const char *line)
{
	fprintf(stderr, "load: %s: %s: %s\n", line, call, strerror(errno));
	exit(1);
}

static void broken(const char *line)
{
	fprintf(stderr, "load: found the line `%s`, expected a call\n", line);
	exit(1);
}

/* More input; 0 at its end. */
static int more(void)
{
	ssize_t got = read(input, given, sizeof given);

	if (got < 0)
		fail("read", "/dev/nandlab");
	at = 0;
	have = got;
	return got > 0;
}

/* A line without its end; 0 at the end of the input. */
static int line(char *text, size_t length)
{
	size_t used = 0;

	for (;;) {
		if (at == have && !more())
			return 0;
		if (given[at] == '\n')
			break;
		if (used + 1 < length)
			text[used++] = given[at];
		at++;
	}
	at++;
	text[used] = 0;
	return 1;
}

static char *reserved(size_t bytes)
{
	if (bytes > room) {
		contents = realloc(contents, bytes);
		if (!contents)
			fail("realloc", "memory");
		room = bytes;
	}
	return contents;
}

/* The bytes of a write. */
static char *bytes_of(size_t bytes)
{
	char *to = reserved(bytes);
	size_t done = 0;

	while (done < bytes) {
		size_t part;

		if (at == have && !more())
			broken("end of the input in a write");
		part = have - at < bytes - done ? have - at : bytes - done;
		memcpy(to + done, given + at, part);
		at += part;
		done += part;
	}
	return to;
}

static void put(unsigned slot, int file)
{
	if (files[slot] >= 0)
		close(files[slot]);
	files[slot] = file;
}

int main(void)
{
	char text[1024], call[16], name[512], other[512];
	unsigned long long first, second;
	unsigned slot;

	input = open("/dev/nandlab", O_RDONLY);
	if (input < 0)
		fail("open", "/dev/nandlab");
	for (slot = 0; slot < SLOTS; slot++)
		files[slot] = -1;
	while (line(text, sizeof text)) {
		if (sscanf(text, "%15s", call) != 1)
			broken(text);
		if (!strcmp(call, "sync")) {
			sync();
			continue;
		}
		if (!strcmp(call, "sleep") && sscanf(text, "%*s %llu", &first) == 1) {
			struct timespec span = { first / 1000000000, first % 1000000000 };

			nanosleep(&span, NULL);
			continue;
		}
		if (!strcmp(call, "rename") && sscanf(text, "%*s %511s %511s", name, other) == 2) {
			if (rename(name, other))
				fail("rename", text);
			continue;
		}
		if (sscanf(text, "%*s %u", &slot) != 1 || slot >= SLOTS)
			broken(text);
		if (!strcmp(call, "open") || !strcmp(call, "create")) {
			int made = *call == 'c' ? O_CREAT | O_EXCL : 0;

			if (sscanf(text, "%*s %*s %511s", name) != 1)
				broken(text);
			put(slot, -1);
			put(slot, open(name, O_RDWR | made, 0644));
			if (files[slot] < 0)
				fail("open", text);
		} else if (!strcmp(call, "close")) {
			put(slot, -1);
		} else if (!strcmp(call, "truncate") && sscanf(text, "%*s %*s %llu", &first) == 1) {
			if (ftruncate(files[slot], first))
				fail("ftruncate", text);
		} else if (!strcmp(call, "write") && sscanf(text, "%*s %*s %llu %llu", &first, &second) == 2) {
			const char *from = bytes_of(second);

			errno = ENOSPC;
			if (pwrite(files[slot], from, second, first) != (ssize_t)second)
				fail("pwrite", text);
		} else if (!strcmp(call, "read") && sscanf(text, "%*s %*s %llu %llu", &first, &second) == 2) {
			char *to = reserved(second);

			errno = 0;
			if (pread(files[slot], to, second, first) != (ssize_t)second)
				fail("pread", text);
		} else if (!strcmp(call, "fsync")) {
			if (fsync(files[slot]))
				fail("fsync", text);
		} else if (!strcmp(call, "fdatasync")) {
			if (fdatasync(files[slot]))
				fail("fdatasync", text);
		} else {
			broken(text);
		}
	}
	return 0;
}
