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
#include <registers.h>
#include <user.h>

void nandlab_fp_fetch(unsigned long *fp);
void nandlab_fp_forget(unsigned long *fp);
int nandlab_fp_stays(int pid, unsigned long *fp);
int nandlab_fp_stayed(int pid, unsigned long *fp);

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
