// SPDX-License-Identifier: MIT OR GPL-2.0
/* UBI's calls, where the experiment wants them: drivers/mtd/ubi/eba.c calls this at the begin of each. */
#include <linux/moduleparam.h>
#include "device.h"

/* Difference of erase counters at which UBI moves data, instead of its CONFIG_MTD_UBI_WL_THRESHOLD. */
int nandlab_wl_threshold = CONFIG_MTD_UBI_WL_THRESHOLD;
module_param_named(wl_threshold, nandlab_wl_threshold, int, 0444);

/* Returns 0, so that a declaration can call it. */
int nandlab_ubi(int call, int volume, int leb, int offset, int length);
int nandlab_ubi(int call, int volume, int leb, int offset, int length)
{
	unsigned long flags;

	if (!nl || !nl->log_ubi)
		return 0;
	flags = nl_enter();
	nl->count = call == NL_UBI_WRITE && !length ? NL_UBI_MAP : call;
	nl->oob_length = volume;
	nl->address = leb;
	nl->oob_at = offset;
	nl->length = length;
	nl_call(NL_UBI);
	nl_leave(flags);
	return 0;
}
