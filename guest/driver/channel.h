/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The channel between a guest and nandlab: one page-aligned memory that both map, an eventfd that wakes nandlab up for a
 * call, and a pipe whose byte wakes the guest up for the reply, if it sleeps by then. A call is synchronous: the guest
 * stands still until the reply, so that nothing of the host's time enters the guest. `guest/src/protocol.rs` states the
 * same layout; a test compares the two.
 *
 * Only fixed-size types, no kernel types: the file is compiled against the host's headers too.
 */
#ifndef NANDLAB_CHANNEL_H
#define NANDLAB_CHANNEL_H

#define NL_MAGIC 0x424c444eu /* "NDLB" */
#define NL_VERSION 3u

/* Times are virtual nanoseconds since the guest started. */
#define NL_FOREVER 0x7fffffffffffffffull

/* Most requests of a block device that are outstanding at a time. */
#define NL_MOST_TAGS 1024u

/* What a call asks for. */
enum {
	NL_RUN = 1,	/* block: `count` new requests; run the device up to `limit` or its next completion */
	NL_READ = 2,	/* flash: `length` bytes of page data at `address`, and `oob_length` OOB bytes at `oob_at` of its page */
	NL_PROGRAM = 3,	/* flash: the same, programmed; without OOB if `oob_length` is 0 */
	NL_ERASE = 4,	/* flash: the eraseblock at `address` */
	NL_IS_BAD = 5,	/* flash: whether the eraseblock at `address` is marked bad */
	NL_MARK_BAD = 6,/* flash: marks it */
	NL_OUTPUT = 7,	/* job: `length` bytes of output */
	NL_INPUT = 8,	/* job: up to `length` bytes of input; 0 bytes at its end */
	NL_MARK = 9,	/* job: a mark of `length` bytes */
	NL_UBI = 10,	/* UBI: call `count` for LEB `address` of volume `oob_length`: `length` bytes at `oob_at` */
};

/* What UBI is asked for. */
enum {
	NL_UBI_MAP = 1,		/* map a LEB to a PEB without writing to it */
	NL_UBI_UNMAP = 2,
	NL_UBI_WRITE = 3,
	NL_UBI_WRITE_STATIC = 4,/* write a LEB of a static volume */
	NL_UBI_CHANGE = 5,	/* atomic LEB change */
	NL_UBI_MOVE = 6,	/* copy a LEB to another PEB: wear levelling and scrubbing */
};

/* Whose turn it is. */
enum {
	NL_CALLED = 0,	/* nandlab's; the guest looks here before it sleeps */
	NL_ASLEEP = 1,	/* nandlab's; the guest sleeps until the pipe has a byte */
	NL_REPLIED = 2,	/* the guest's */
};

/* Status of a reply or of a completed request. */
enum {
	NL_OK = 0,
	NL_ERROR = 1,		/* the device failed or refused the operation */
	NL_UNCORRECTABLE = 2,	/* more wrong bits than ECC corrects */
	NL_BAD_BLOCK = 3,	/* the eraseblock is marked bad */
};

/* Operation of a block request. */
enum { NL_BLK_READ = 0, NL_BLK_WRITE = 1, NL_BLK_FLUSH = 2, NL_BLK_TRIM = 3, NL_BLK_ZEROES = 4 };

#define NL_FUA 1u

/* Features of a block device. */
#define NL_HAS_CACHE 1u
#define NL_HAS_FUA 2u
#define NL_HAS_TRIM 4u

struct nl_request {
	unsigned long long at;		/* virtual time of submission */
	unsigned long long sector;	/* first sector of 512 bytes */
	unsigned int sectors;
	unsigned short tag;
	unsigned char op;
	unsigned char flags;
	unsigned int pid;		/* process that submitted it; 0 if none did */
	unsigned int reserved;
	char comm[16];			/* its name, ended by a zero byte */
};

struct nl_done {
	unsigned int tag;
	unsigned int status;
};

struct nl_shared {
	/* Written by nandlab before the guest starts. */
	unsigned int magic, version;
	unsigned long long bytes;	/* length of the whole memory */
	unsigned long long seed;
	unsigned long long syscall_ns;	/* processor time of a system call */
	unsigned long long request_ns;	/* and of a request to a device */
	unsigned int job_at, job_bytes;	/* place of the job's data in the memory */
	unsigned int data_at;		/* place of the first request's data */
	unsigned int tag_bytes;		/* room for the data of a request, or of a flash operation with its OOB */
	/* The block device; no sectors: there is none. */
	unsigned long long sectors;
	unsigned int logical_bytes, physical_bytes;
	unsigned int depth, features;
	/* The raw flash; no eraseblocks: there is none. */
	unsigned int pebs, peb_bytes, page_bytes, subpage_bytes;
	unsigned int oob_bytes, is_nor;
	unsigned int ecc_bits;		/* bits that ECC corrects in a step */
	unsigned int ecc_step_bytes;
	unsigned int bitflip_threshold;	/* corrected bits from which on a read reports them */
	unsigned int log_ubi;		/* whether UBI's calls are wanted */

	/* The call. */
	unsigned int op, count;
	unsigned long long now, limit;
	unsigned long long address;
	unsigned int length, oob_at, oob_length;
	unsigned int pid;		/* flash and UBI: process that calls; kernel threads have their own */
	char comm[16];			/* its name, ended by a zero byte */

	/* The reply. */
	unsigned long long at;		/* time of the completions, or at which the flash operation ends */
	unsigned int status, done;	/* `done`: completions, corrected bits, or bytes of input */
	unsigned int turn, reserved;

	struct nl_request requests[NL_MOST_TAGS];
	struct nl_done dones[NL_MOST_TAGS];
};

/* channel_user.c, on the host's side */
struct nl_shared *nl_map(int memory);
int nl_ring(struct nl_shared *nl, int to, int from);
long nandlab_random(void *buffer, unsigned long length);

#endif
