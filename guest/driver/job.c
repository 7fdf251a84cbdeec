// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * /dev/nandlab: the job. What is read from it is the job's script, what is written to it its output.
 * /dev/nandlab-mark: each write is a mark in the run, as `begin`, `end` or `exit 0`.
 *
 * The guest stands still while nandlab waits for input: no virtual time passes at a prompt.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "device.h"

static DEFINE_MUTEX(alone);
static char *buffer;

static ssize_t send(const char __user *from, size_t length, unsigned int op)
{
	unsigned long flags;
	ssize_t sent = -EFAULT;

	if (!length)
		return 0;
	length = min_t(size_t, length, nl->job_bytes);
	mutex_lock(&alone);
	if (!copy_from_user(buffer, from, length)) {
		flags = nl_enter();
		memcpy((char *)nl + nl->job_at, buffer, length);
		nl->length = length;
		nl_call(op);
		nl_leave(flags);
		sent = length;
	}
	mutex_unlock(&alone);
	return sent;
}

static ssize_t write_output(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	return send(from, length, NL_OUTPUT);
}

static ssize_t write_mark(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	return send(from, length, NL_MARK);
}

static ssize_t read_input(struct file *file, char __user *to, size_t length, loff_t *at)
{
	unsigned long flags;
	ssize_t got;

	length = min_t(size_t, length, nl->job_bytes);
	mutex_lock(&alone);
	flags = nl_enter();
	nl->length = length;
	nl_call(NL_INPUT);
	got = min_t(size_t, nl->done, length);
	nl->done = 0;
	memcpy(buffer, (char *)nl + nl->job_at, got);
	nl_leave(flags);
	if (copy_to_user(to, buffer, got))
		got = -EFAULT;
	mutex_unlock(&alone);
	return got;
}

static const struct file_operations job_operations = {
	.owner = THIS_MODULE, .read = read_input, .write = write_output, .llseek = noop_llseek,
};
static const struct file_operations mark_operations = {
	.owner = THIS_MODULE, .write = write_mark, .llseek = noop_llseek,
};
static struct miscdevice job = { .minor = MISC_DYNAMIC_MINOR, .name = "nandlab", .fops = &job_operations };
static struct miscdevice mark = { .minor = MISC_DYNAMIC_MINOR, .name = "nandlab-mark", .fops = &mark_operations };

static int __init nl_job_start(void)
{
	int error;

	if (!nl)
		return 0;
	buffer = kmalloc(nl->job_bytes, GFP_KERNEL);
	if (!buffer)
		return -ENOMEM;
	error = misc_register(&job);
	return error ? error : misc_register(&mark);
}
device_initcall(nl_job_start);
