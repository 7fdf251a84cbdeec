// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * The guest's end of the channel, and what the kernel calls of it: before the clock moves, around a system call.
 *
 * Runs on one processor with interrupts off around a call, so a call is never interrupted by another.
 */
#include <linux/completion.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/irqflags.h>
#include <linux/time-internal.h>
#include <asm/unistd.h>
#include <os.h>
#include "device.h"

struct nl_shared *nl;
static int memory_fd = -1, to_fd = -1, from_fd = -1;
static unsigned long long debt;

/* nandlab=MEMORY,TO,FROM: file descriptors that nandlab left open */
static int __init nl_setup(char *text)
{
	return sscanf(text, "%d,%d,%d", &memory_fd, &to_fd, &from_fd) == 3;
}
__setup("nandlab=", nl_setup);

void nl_call(unsigned int op)
{
	nl->op = op;
	nl->now = time_travel_time;
	nl->pid = current->pid;
	memcpy(nl->comm, current->comm, sizeof(nl->comm));
	if (nl_ring(nl, to_fd, from_fd) < 0)
		os_kill_process(os_getpid(), 0);
}

unsigned long nl_enter(void)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}

void nl_leave(unsigned long flags)
{
	local_irq_restore(flags);
}

struct nl_sleeper {
	struct time_travel_event event;
	struct completion over;
};

static void nl_wake(struct time_travel_event *event)
{
	complete(&container_of(event, struct nl_sleeper, event)->over);
}

void nl_sleep_until(unsigned long long at)
{
	struct nl_sleeper sleeper = { };
	unsigned long flags;

	if (at <= time_travel_time)
		return;
	init_completion(&sleeper.over);
	time_travel_set_event_fn(&sleeper.event, nl_wake);
	local_irq_save(flags);
	time_travel_add_event_rel(&sleeper.event, at - time_travel_time);
	local_irq_restore(flags);
	wait_for_completion(&sleeper.over);
}

void nl_charge(unsigned long long ns)
{
	debt += ns;
}

/* Called by arch/um before the clock moves to `limit`. */
bool nandlab_passes(unsigned long long limit);
bool nandlab_passes(unsigned long long limit)
{
	return nl && nl_block_passes(limit);
}

/* Called by arch/um before each system call: those that copy, replace or set floating-point registers need them here. */
void nandlab_syscall_begins(long number);
void nandlab_syscall_begins(long number)
{
	switch (number) {
	case __NR_clone:
	case __NR_clone3:
	case __NR_fork:
	case __NR_vfork:
	case __NR_execve:
	case __NR_execveat:
	case __NR_rt_sigreturn:
	case __NR_ptrace:
		nandlab_fp_fetch(current_pt_regs()->regs.fp);
	}
}

/* Called by arch/um after each system call: the processor's time, where the experiment states one. */
void nandlab_syscall(void);
void nandlab_syscall(void)
{
	unsigned long long ns;

	if (!nl)
		return;
	ns = nl->syscall_ns + debt;
	if (!ns)
		return;
	debt = 0;
	time_travel_ndelay(ns);
}

static int __init nl_start(void)
{
	if (memory_fd < 0)
		return 0;
	nl = nl_map(memory_fd);
	if (!nl)
		panic("nandlab: the channel does not speak version %u", NL_VERSION);
	return 0;
}
/* Before the devices. */
subsys_initcall(nl_start);
