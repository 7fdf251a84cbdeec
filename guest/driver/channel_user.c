// SPDX-License-Identifier: MIT OR GPL-2.0
/* The part of the channel that calls the host: compiled against the host's headers. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "channel.h"

/* Maps the memory of the channel. Returns NULL if it is none of this version. */
struct nl_shared *nl_map(int memory)
{
	struct nl_shared *head;
	unsigned long long bytes;

	head = mmap(NULL, sizeof(*head), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (head == MAP_FAILED)
		return NULL;
	if (head->magic != NL_MAGIC || head->version != NL_VERSION)
		return NULL;
	bytes = head->bytes;
	munmap(head, sizeof(*head));
	head = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	return head == MAP_FAILED ? NULL : head;
}

/*
 * Hands a call over and waits for the reply. Returns 0, or -1 if nandlab is gone.
 *
 * Both live on one processor, so nandlab has mostly replied by the time the write returns: then nobody sleeps, and nobody
 * is woken up.
 */
int nl_ring(struct nl_shared *nl, int to, int from)
{
	unsigned long long one = 1;
	unsigned int turn = NL_CALLED;
	char byte;
	ssize_t done;

	__atomic_store_n(&nl->turn, NL_CALLED, __ATOMIC_RELEASE);
	do
		done = write(to, &one, sizeof(one));
	while (done < 0 && errno == EINTR);
	if (done != sizeof(one))
		return -1;
	if (!__atomic_compare_exchange_n(&nl->turn, &turn, NL_ASLEEP, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return 0;
	do
		done = read(from, &byte, 1);
	while (done < 0 && errno == EINTR);
	return done == 1 ? 0 : -1;
}

/*
 * Random bytes for the guest: a function of the experiment's seed, so that runs repeat (SplitMix64). UUIDs, hash seeds
 * and the layout of address spaces follow from it.
 */
long nandlab_random(void *buffer, unsigned long length)
{
	static unsigned long long state;
	static int seeded;
	unsigned char *bytes = buffer;
	unsigned long at;

	if (!seeded) {
		const char *seed = getenv("NANDLAB_SEED");

		state = seed ? strtoull(seed, NULL, 10) : 0;
		seeded = 1;
	}
	for (at = 0; at < length; at++) {
		unsigned long long mixed;

		state += 0x9e3779b97f4a7c15ull;
		mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
		mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
		bytes[at] = (unsigned char)(mixed >> 56);
	}
	return length;
}
