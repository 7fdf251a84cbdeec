/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* What the parts of the driver share inside the guest. */
#ifndef NANDLAB_DEVICE_H
#define NANDLAB_DEVICE_H

#include <linux/types.h>
#include "channel.h"

/* The channel; NULL if the guest was started without one. */
extern struct nl_shared *nl;

/* The clock of the guest, in nanoseconds since it started: arch/um/kernel/time.c */
extern unsigned long long time_travel_time;

/* Makes the call that is described in `nl`. Interrupts are off. The guest ends if nandlab is gone. */
void nl_call(unsigned int op);

/* Waits for the channel, to describe a call in it from a process; and leaves it. */
unsigned long nl_enter(void);
void nl_leave(unsigned long flags);

/* Sleeps until the virtual time `at`, if it is in the future. */
void nl_sleep_until(unsigned long long at);

/* Books the processor time of a request. */
void nl_charge(unsigned long long ns);

/* Reads the floating-point registers of a process into `fp`, where they belong, if its host process still has them. */
void nandlab_fp_fetch(unsigned long *fp);

/* Runs the block device, before the clock moves to `limit`. Returns whether it added an event. */
bool nl_block_passes(unsigned long long limit);

#endif
