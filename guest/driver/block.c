// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * /dev/nandlab0: nandlab's block device.
 *
 * A request is noted in the channel when Linux submits it. nandlab learns of it before the guest's clock next moves, and
 * answers with the next completion up to where the clock wants to go: while requests are outstanding, the clock never
 * passes a completion. So a request costs one call where the guest waits for it.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/version.h>
#include <linux/time-internal.h>
#include "device.h"

struct nl_command {
	blk_status_t status;
};

static struct gendisk *disk;
static struct blk_mq_tag_set tags;
/* Requests that are submitted and not completed; those of them whose completions `completion` waits to hand over. */
static unsigned int outstanding, arrived;
static struct time_travel_event completion;

static void *slot(unsigned int tag)
{
	return (char *)nl + nl->data_at + (unsigned long)tag * nl->tag_bytes;
}

static void copy(struct request *rq, bool to_slot)
{
	struct req_iterator at;
	struct bio_vec part;
	char *data = slot(rq->tag);

	rq_for_each_segment(part, rq, at) {
		if (to_slot)
			memcpy_from_bvec(data, &part);
		else
			memcpy_to_bvec(&part, data);
		data += part.bv_len;
	}
}

static blk_status_t queue_request(struct blk_mq_hw_ctx *queue, const struct blk_mq_queue_data *queued)
{
	struct request *rq = queued->rq;
	struct nl_request *note;
	unsigned long flags;
	unsigned char op;

	switch (req_op(rq)) {
	case REQ_OP_READ:
		op = NL_BLK_READ;
		break;
	case REQ_OP_WRITE:
		op = NL_BLK_WRITE;
		break;
	case REQ_OP_FLUSH:
		op = NL_BLK_FLUSH;
		break;
	case REQ_OP_DISCARD:
		op = NL_BLK_TRIM;
		break;
	case REQ_OP_WRITE_ZEROES:
		op = NL_BLK_ZEROES;
		break;
	default:
		return BLK_STS_NOTSUPP;
	}
	blk_mq_start_request(rq);
	if (op == NL_BLK_WRITE)
		copy(rq, true);
	flags = nl_enter();
	note = &nl->requests[nl->count++];
	note->at = time_travel_time;
	note->sector = op == NL_BLK_FLUSH ? 0 : blk_rq_pos(rq);
	note->sectors = op == NL_BLK_FLUSH ? 0 : blk_rq_sectors(rq);
	note->tag = rq->tag;
	note->op = op;
	note->flags = rq->cmd_flags & REQ_FUA ? NL_FUA : 0;
	note->pid = current->pid;
	memcpy(note->comm, current->comm, sizeof(note->comm));
	outstanding++;
	nl_charge(nl->request_ns);
	nl_leave(flags);
	return BLK_STS_OK;
}

static void finish(struct request *rq)
{
	struct nl_command *command = blk_mq_rq_to_pdu(rq);

	blk_mq_end_request(rq, command->status);
}

static blk_status_t status_of(unsigned int status)
{
	switch (status) {
	case NL_OK:
		return BLK_STS_OK;
	case NL_UNCORRECTABLE:
		return BLK_STS_MEDIUM;
	default:
		return BLK_STS_IOERR;
	}
}

/* The time of the completions in `nl->dones` has come. */
static void complete_requests(struct time_travel_event *event)
{
	unsigned int at;

	for (at = 0; at < arrived; at++) {
		struct request *rq = blk_mq_tag_to_rq(tags.tags[0], nl->dones[at].tag);
		struct nl_command *command;

		if (WARN_ON(!rq))
			continue;
		command = blk_mq_rq_to_pdu(rq);
		command->status = status_of(nl->dones[at].status);
		if (req_op(rq) == REQ_OP_READ && command->status == BLK_STS_OK)
			copy(rq, false);
		outstanding--;
		blk_mq_complete_request(rq);
	}
}

bool nl_block_passes(unsigned long long limit)
{
	unsigned long long at;
	unsigned long flags;
	bool added = false;

	if (!outstanding || completion.pending)
		return false;
	flags = nl_enter();
	nl->limit = limit;
	nl_call(NL_RUN);
	nl->count = 0;
	arrived = nl->done;
	if (arrived) {
		at = nl->at;
		time_travel_add_event_rel(&completion, at > time_travel_time ? at - time_travel_time : 0);
		added = true;
	}
	nl_leave(flags);
	return added;
}

static const struct blk_mq_ops operations = { .queue_rq = queue_request, .complete = finish };
static const struct block_device_operations disk_operations = { .owner = THIS_MODULE };

static struct gendisk *new_disk(void)
{
	unsigned int sectors = nl->tag_bytes >> SECTOR_SHIFT;
	unsigned int most = UINT_MAX >> SECTOR_SHIFT;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
	struct queue_limits limits = {
		.logical_block_size = nl->logical_bytes,
		.physical_block_size = nl->physical_bytes,
		.io_min = nl->physical_bytes,
		.max_hw_sectors = sectors,
		.max_segments = USHRT_MAX,
		.max_segment_size = UINT_MAX,
		.max_write_zeroes_sectors = sectors,
	};

	if (nl->features & NL_HAS_CACHE)
		limits.features |= BLK_FEAT_WRITE_CACHE;
	if (nl->features & NL_HAS_FUA)
		limits.features |= BLK_FEAT_FUA;
	if (nl->features & NL_HAS_TRIM) {
		limits.max_hw_discard_sectors = most;
		limits.max_discard_segments = 1;
		limits.discard_granularity = nl->logical_bytes;
	}
	return blk_mq_alloc_disk(&tags, &limits, NULL);
#else
	struct gendisk *made = blk_mq_alloc_disk(&tags, NULL);
	struct request_queue *queue;

	if (IS_ERR(made))
		return made;
	queue = made->queue;
	blk_queue_logical_block_size(queue, nl->logical_bytes);
	blk_queue_physical_block_size(queue, nl->physical_bytes);
	blk_queue_io_min(queue, nl->physical_bytes);
	blk_queue_max_hw_sectors(queue, sectors);
	blk_queue_max_segments(queue, USHRT_MAX);
	blk_queue_max_segment_size(queue, UINT_MAX);
	blk_queue_max_write_zeroes_sectors(queue, sectors);
	blk_queue_write_cache(queue, nl->features & NL_HAS_CACHE, nl->features & NL_HAS_FUA);
	blk_queue_flag_set(QUEUE_FLAG_NONROT, queue);
	blk_queue_flag_clear(QUEUE_FLAG_ADD_RANDOM, queue);
	if (nl->features & NL_HAS_TRIM) {
		queue->limits.discard_granularity = nl->logical_bytes;
		blk_queue_max_discard_sectors(queue, most);
		blk_queue_max_discard_segments(queue, 1);
	}
	return made;
#endif
}

static int __init nl_block_start(void)
{
	int error;

	if (!nl || !nl->sectors)
		return 0;
	time_travel_set_event_fn(&completion, complete_requests);
	tags.ops = &operations;
	tags.nr_hw_queues = 1;
	tags.queue_depth = nl->depth;
	tags.numa_node = NUMA_NO_NODE;
	tags.cmd_size = sizeof(struct nl_command);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
	tags.flags = BLK_MQ_F_SHOULD_MERGE;
#endif
	error = blk_mq_alloc_tag_set(&tags);
	if (error)
		return error;
	disk = new_disk();
	if (IS_ERR(disk))
		return PTR_ERR(disk);
	strcpy(disk->disk_name, "nandlab0");
	disk->fops = &disk_operations;
	set_capacity(disk, nl->sectors);
	return add_disk(disk);
}
device_initcall(nl_block_start);
