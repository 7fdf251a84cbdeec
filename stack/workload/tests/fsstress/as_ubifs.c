/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lets a program on tmpfs see the answers of UBIFS, by LD_PRELOAD: no direct I/O, no fallocate, no requests by ioctl.
 *
 *     cc -shared -fPIC -o as_ubifs.so as_ubifs.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>

static int refuse(int error)
{
	errno = error;
	return -1;
}

int fallocate(int file, int mode, off_t offset, off_t length)
{
	return refuse(length > 0 ? EOPNOTSUPP : EINVAL);
}

int fallocate64(int file, int mode, off64_t offset, off64_t length)
{
	return refuse(length > 0 ? EOPNOTSUPP : EINVAL);
}

int ioctl(int file, unsigned long request, ...)
{
	return refuse(EOPNOTSUPP);
}

static int opened(const char *name, const char *path, int flags, mode_t mode)
{
	int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, name);

	return flags & O_DIRECT ? refuse(EINVAL) : real(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list rest;
	mode_t mode;

	va_start(rest, flags);
	mode = va_arg(rest, mode_t);
	va_end(rest);
	return opened("open", path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list rest;
	mode_t mode;

	va_start(rest, flags);
	mode = va_arg(rest, mode_t);
	va_end(rest);
	return opened("open64", path, flags, mode);
}
