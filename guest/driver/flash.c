// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * mtd0: nandlab's raw flash, NAND or NOR.
 *
 * An operation is one call: nandlab does it and answers with the virtual time at which it ends; the process sleeps until
 * then, and others run meanwhile. Operations that meet on the flash wait for each other in nandlab, as on a bus.
 */
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mtd/mtd.h>
#include "device.h"

static struct mtd_info flash;

static char *data(void)
{
	return (char *)nl + nl->data_at;
}

static int error_of(unsigned int status)
{
	switch (status) {
	case NL_OK:
		return 0;
	case NL_UNCORRECTABLE:
		return -EBADMSG;
	default:
		return -EIO;
	}
}


/*
 * Reads or programs up to an eraseblock's bytes, and OOB bytes of the first page. Returns corrected bits, or an error; a
 * read that fails to correct still has its bytes.
 */
static int operate(unsigned int op, loff_t address, size_t length, u8 *bytes, unsigned int oob_at,
		   unsigned int oob_length, u8 *oob)
{
	unsigned long long at;
	unsigned int status, bits;
	unsigned long flags;

	flags = nl_enter();
	nl->address = address;
	nl->length = length;
	nl->oob_at = oob_at;
	nl->oob_length = oob_length;
	if (op == NL_PROGRAM) {
		if (length)
			memcpy(data(), bytes, length);
		if (oob_length)
			memcpy(data() + nl->peb_bytes, oob, oob_length);
	}
	nl_charge(nl->request_ns);
	nl_call(op);
	status = nl->status;
	bits = nl->done;
	nl->done = 0;
	at = nl->at;
	if (op == NL_READ) {
		if (length)
			memcpy(bytes, data(), length);
		if (oob_length)
			memcpy(oob, data() + nl->peb_bytes, oob_length);
	}
	nl_leave(flags);
	nl_sleep_until(at);
	return status == NL_OK ? bits : error_of(status);
}

/* Counts what ECC did. `result` is corrected bits or an error. */
static void count(int result)
{
	if (result == -EBADMSG)
		flash.ecc_stats.failed++;
	else if (result > 0)
		flash.ecc_stats.corrected += result;
}

static int read_bytes(struct mtd_info *mtd, loff_t from, size_t length, size_t *done, u_char *bytes)
{
	int worst = 0, error = 0;

	*done = 0;
	while (length) {
		u32 inside = mtd_mod_by_eb(from, mtd);
		size_t part = min_t(size_t, length, mtd->erasesize - inside);
		int result = operate(NL_READ, from, part, bytes, 0, 0, NULL);

		count(result);
		if (result < 0 && result != -EBADMSG)
			return result;
		if (result < 0)
			error = result;
		else
			worst = max(worst, result);
		*done += part;
		bytes += part;
		from += part;
		length -= part;
	}
	return error ? error : worst;
}

static int write_bytes(struct mtd_info *mtd, loff_t to, size_t length, size_t *done, const u_char *bytes)
{
	*done = 0;
	while (length) {
		u32 inside = mtd_mod_by_eb(to, mtd);
		size_t part = min_t(size_t, length, mtd->erasesize - inside);
		int result = operate(NL_PROGRAM, to, part, (u8 *)bytes, 0, 0, NULL);

		if (result < 0)
			return result;
		*done += part;
		bytes += part;
		to += part;
		length -= part;
	}
	return 0;
}

/* Data and OOB, page by page; data without OOB in larger pieces. */
static int transfer(struct mtd_info *mtd, loff_t at, struct mtd_oob_ops *ops, unsigned int op)
{
	size_t left = ops->len, oob_left = ops->ooblen;
	unsigned int oob_offset = ops->ooboffs;
	unsigned int room = ops->mode == MTD_OPS_AUTO_OOB ? mtd->oobavail : mtd->oobsize;
	unsigned int base = ops->mode == MTD_OPS_AUTO_OOB ? mtd->oobsize - mtd->oobavail : 0;
	u8 *bytes = ops->datbuf, *oob = ops->oobbuf;
	int worst = 0, error = 0;

	ops->retlen = ops->oobretlen = 0;
	if (!bytes)
		left = 0;
	if (!oob)
		oob_left = 0;
	if (!oob_left) {
		if (op == NL_READ)
			return read_bytes(mtd, at, left, &ops->retlen, bytes);
		return write_bytes(mtd, at, left, &ops->retlen, bytes);
	}
	while (left || oob_left) {
		u32 inside = mtd_mod_by_ws(at, mtd);
		size_t part = min_t(size_t, left, mtd->writesize - inside);
		unsigned int oob_part = min_t(size_t, oob_left, room - oob_offset);
		int result = operate(op, at, part, bytes, base + oob_offset, oob_part, oob);

		if (op == NL_READ)
			count(result);
		if (result < 0 && result != -EBADMSG)
			return result;
		if (result < 0)
			error = result;
		else
			worst = max(worst, result);
		ops->retlen += part;
		ops->oobretlen += oob_part;
		if (bytes)
			bytes += part;
		left -= part;
		oob += oob_part;
		oob_left -= oob_part;
		oob_offset = 0;
		at += mtd->writesize - inside;
	}
	if (op != NL_READ)
		return 0;
	return error ? error : worst;
}

static int read_oob(struct mtd_info *mtd, loff_t from, struct mtd_oob_ops *ops)
{
	return transfer(mtd, from, ops, NL_READ);
}

static int write_oob(struct mtd_info *mtd, loff_t to, struct mtd_oob_ops *ops)
{
	return transfer(mtd, to, ops, NL_PROGRAM);
}

static int erase(struct mtd_info *mtd, struct erase_info *asked)
{
	u64 address = asked->addr, left = asked->len;

	while (left) {
		int result = operate(NL_ERASE, address, 0, NULL, 0, 0, NULL);

		if (result < 0) {
			asked->fail_addr = address;
			return result;
		}
		address += mtd->erasesize;
		left -= mtd->erasesize;
	}
	return 0;
}

static int is_bad(struct mtd_info *mtd, loff_t address)
{
	unsigned long flags = nl_enter();
	int bad;

	nl->address = address;
	nl_call(NL_IS_BAD);
	bad = nl->done;
	nl->done = 0;
	nl_leave(flags);
	return bad;
}

static int mark_bad(struct mtd_info *mtd, loff_t address)
{
	return operate(NL_MARK_BAD, address, 0, NULL, 0, 0, NULL);
}

/* The first two OOB bytes hold the factory's marker; the rest is the user's, ECC being beside the page. */
static int layout_ecc(struct mtd_info *mtd, int section, struct mtd_oob_region *region)
{
	return -ERANGE;
}

static int layout_free(struct mtd_info *mtd, int section, struct mtd_oob_region *region)
{
	if (section)
		return -ERANGE;
	region->offset = 2;
	region->length = mtd->oobsize - 2;
	return 0;
}

static const struct mtd_ooblayout_ops layout = { .ecc = layout_ecc, .free = layout_free };

static int __init nl_flash_start(void)
{
	if (!nl || !nl->pebs)
		return 0;
	flash.name = "nandlab";
	flash.owner = THIS_MODULE;
	flash.size = (u64)nl->pebs * nl->peb_bytes;
	flash.erasesize = nl->peb_bytes;
	flash.writesize = nl->page_bytes;
	flash.writebufsize = nl->page_bytes;
	flash._erase = erase;
	if (nl->is_nor) {
		flash.type = MTD_NORFLASH;
		flash.flags = MTD_CAP_NORFLASH;
		flash._read = read_bytes;
		flash._write = write_bytes;
	} else {
		flash.type = MTD_NANDFLASH;
		flash.flags = MTD_CAP_NANDFLASH;
		flash.subpage_sft = ilog2(nl->page_bytes / nl->subpage_bytes);
		flash.ecc_strength = nl->ecc_bits;
		flash.ecc_step_size = nl->ecc_step_bytes;
		flash.bitflip_threshold = nl->bitflip_threshold;
		flash.oobsize = nl->oob_bytes;
		flash._block_isbad = is_bad;
		flash._block_markbad = mark_bad;
		if (nl->oob_bytes > 2) {
			flash._read_oob = read_oob;
			flash._write_oob = write_oob;
			flash.oobavail = nl->oob_bytes - 2;
			mtd_set_ooblayout(&flash, &layout);
		} else {
			flash._read = read_bytes;
			flash._write = write_bytes;
		}
	}
	return mtd_device_register(&flash, NULL, 0);
}
/* After the MTD layer, which 6.1 starts among the devices, and before UBI: the driver is linked first. */
late_initcall(nl_flash_start);
