// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Floating-point registers of the guest's processes stay in their host processes while nobody else needs them.
 *
 * User-mode Linux reads them when a process stops, and writes them back before it goes on, at each system call and page
 * fault. The host allocates and frees memory for such a write. But the kernel uses them only where it delivers a signal or
 * returns from one, forks, executes and traces, and threads of a process share one host process; there they are read, and
 * only then written back. In the kernel's service meanwhile the host process itself does not touch them.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <linux/elf.h>
#include <sysdep/ptrace_user.h>
#include <registers.h>
#include <user.h>

int nandlab_fp_get(int pid, unsigned long *fp);
int nandlab_fp_put(int pid, unsigned long *fp);
void nandlab_fp_fetch(unsigned long *fp);
void nandlab_fp_forget(unsigned long *fp);
int nandlab_fp_stays(int pid, unsigned long *fp);
int nandlab_fp_stayed(int pid, unsigned long *fp);

/*
 * The registers of a host process as the host has them: with AMX they are 11,008 bytes, and the kernel has room for
 * FP_BYTES. It takes them all or none, so those of AMX, which no process of the guest uses, are set to their first state.
 */
#define FP_BYTES (FP_SIZE * sizeof(unsigned long))
static unsigned char whole[65536] __attribute__((aligned(64)));
static size_t whole_bytes;
/* Where the header has a bit for each component that is not in its first state, and the first one of AMX. */
#define COMPONENTS_AT 512
#define FIRST_OF_AMX 17

/* Reads the registers of a host process. Returns 0, or a negative error. */
int nandlab_fp_get(int pid, unsigned long *fp)
{
	struct iovec all = { whole, sizeof(whole) };

	if (ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &all) < 0)
		return -errno;
	whole_bytes = all.iov_len;
	memcpy(fp, whole, FP_BYTES);
	return 0;
}

/* Sets the registers of a host process. Returns 0, or a negative error. */
int nandlab_fp_put(int pid, unsigned long *fp)
{
	unsigned long long components;
	struct iovec all = { fp, FP_BYTES };

	if (!whole_bytes) {
		struct iovec any = { whole, sizeof(whole) };

		if (ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &any) < 0)
			return -errno;
		whole_bytes = any.iov_len;
	}
	if (whole_bytes > FP_BYTES) {
		memcpy(whole, fp, FP_BYTES);
		memset(whole + FP_BYTES, 0, whole_bytes - FP_BYTES);
		memcpy(&components, whole + COMPONENTS_AT, sizeof(components));
		components &= (1ULL << FIRST_OF_AMX) - 1;
		memcpy(whole + COMPONENTS_AT, &components, sizeof(components));
		all = (struct iovec){ whole, whole_bytes };
	}
	if (ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &all) < 0)
		return -errno;
	return 0;
}

/* Registers that are in host process `holder` and belong to `fp`; NULL: a free place. A holder has one place at most. */
struct away {
	unsigned long *fp;
	int holder;
};

#define PLACES 32
static struct away places[PLACES];
/* The place that was used last, and the one that is to be used again when none is free. */
static struct away *last = places;
static unsigned int next;

static void fetch(struct away *place)
{
	int error = get_fp_registers(place->holder, place->fp);

	/* A host process that has ended: the kernel ends it before it leaves its process for the last time. */
	if (error && error != -ESRCH)
		panic("nandlab: cannot read the floating-point registers: error %d", -error);
	place->fp = NULL;
}

/* Host process `pid` stopped; its registers belong to `fp`. Returns 0: no error. */
int nandlab_fp_stays(int pid, unsigned long *fp)
{
	struct away *found = NULL;
	unsigned int at;

	if (last->fp == fp && last->holder == pid)
		return 0;
	for (at = 0; at < PLACES; at++)
		if (places[at].fp == fp || (!places[at].fp && !found))
			found = &places[at];
	if (!found) {
		found = &places[next++ % PLACES];
		fetch(found);
	}
	*found = (struct away){ fp, pid };
	last = found;
	return 0;
}

/* Whether host process `pid` has the registers of `fp`. If it has those of another thread, they are read: it is needed. */
int nandlab_fp_stayed(int pid, unsigned long *fp)
{
	unsigned int at;

	if (last->fp == fp && last->holder == pid)
		return 1;
	for (at = 0; at < PLACES; at++) {
		if (!places[at].fp || places[at].holder != pid)
			continue;
		if (places[at].fp == fp)
			return 1;
		fetch(&places[at]);
	}
	return 0;
}

/* The kernel needs the registers in `fp`, or sets them there. */
void nandlab_fp_fetch(unsigned long *fp)
{
	unsigned int at;

	for (at = 0; at < PLACES; at++)
		if (places[at].fp == fp)
			fetch(&places[at]);
}

/* The process of `fp` is gone. */
void nandlab_fp_forget(unsigned long *fp)
{
	unsigned int at;

	for (at = 0; at < PLACES; at++)
		if (places[at].fp == fp)
			places[at].fp = NULL;
}
