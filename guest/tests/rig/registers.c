/*
 * Fills the vector registers, enters the kernel in one way or another, and counts registers that came back changed.
 * Prints a line for each way; the exit code says whether all were as they should be.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define REGISTERS 16
#define EACH(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11) do(12) do(13) do(14) do(15)
#define LOAD(i) "movdqu " #i "*16(%%r12), %%xmm" #i "\n"
#define STORE(i) "movdqu %%xmm" #i ", " #i "*16(%%r13)\n"
#define NAME(i) "xmm" #i,

struct registers {
	unsigned long low, high;
};

static char page_of_its_own[4096];

/*
 * Fills the registers with values that follow from `seed`, writes to `touched`, which may fault, and makes a system call.
 * Leaves what the registers hold then in `after`.
 */
static long call(long number, long a, long b, unsigned long seed, char *touched, struct registers *after)
{
	struct registers before[REGISTERS];
	long result = number;
	int at;

	for (at = 0; at < REGISTERS; at++)
		before[at] = (struct registers){ seed * 1000 + at, ~(seed * 1000 + at) };
	register struct registers *in asm("r12") = before;
	register struct registers *out asm("r13") = after;
	asm volatile(EACH(LOAD)
		"movb $1, (%[touched])\n"
		"syscall\n"
		EACH(STORE)
		: "+a"(result)
		: "D"(a), "S"(b), "r"(in), "r"(out), [touched] "r"(touched)
		: EACH(NAME) "rcx", "r11", "memory");
	return result;
}

/* Registers of `found` that do not have the values of `seed`. */
static int changed(const struct registers *found, unsigned long seed)
{
	int at, count = 0;

	for (at = 0; at < REGISTERS; at++)
		count += found[at].low != seed * 1000 + at || found[at].high != ~(seed * 1000 + at);
	return count;
}

static int wrong;

static void report(const char *way, int count)
{
	printf("%s: %d\n", way, count);
	wrong |= count;
}

static void *yields(void *seed)
{
	struct registers after[REGISTERS];
	long count = 0;
	int turn;

	for (turn = 0; turn < 100; turn++) {
		call(SYS_sched_yield, 0, 0, (unsigned long)seed + turn, page_of_its_own, after);
		count += changed(after, (unsigned long)seed + turn);
	}
	return (void *)count;
}

/* Changes every register, and of what the interrupted program gets back the low half of the fourth. */
static void on_signal(int number, siginfo_t *info, void *context)
{
	struct registers after[REGISTERS];

	call(SYS_getpid, 0, 0, 999, page_of_its_own, after);
	memset(&((ucontext_t *)context)->uc_mcontext.fpregs->_xmm[3], 7, 8);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	struct registers after[REGISTERS];
	void *counts[3];
	pthread_t threads[3];
	int turn, count, status;
	char *pages;
	long child;

	call(SYS_getpid, 0, 0, 1, page_of_its_own, after);
	report("a system call", changed(after, 1));

	pages = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (turn = count = 0; turn < 64; turn++) {
		call(SYS_getpid, 0, 0, 100 + turn, pages + 4096 * turn, after);
		count += changed(after, 100 + turn);
	}
	report("page faults", count);

	child = call(SYS_fork, 0, 0, 2, page_of_its_own, after);
	if (!child)
		_exit(changed(after, 2));
	count = changed(after, 2);
	waitpid(child, &status, 0);
	report("fork, the parent", count);
	report("fork, the child", status);

	child = fork();
	if (!child)
		_exit(yields((void *)3000) != NULL);
	count = (long)yields((void *)4000);
	waitpid(child, &status, 0);
	report("two processes by turns", count + status);

	for (turn = 0; turn < 3; turn++)
		pthread_create(&threads[turn], NULL, yields, (void *)(5000l + 200 * turn));
	for (turn = count = 0; turn < 3; turn++) {
		pthread_join(threads[turn], &counts[turn]);
		count += (long)counts[turn];
	}
	report("three threads by turns", count);

	sigaction(SIGUSR1, &action, NULL);
	call(SYS_kill, getpid(), SIGUSR1, 6, page_of_its_own, after);
	report("the register that a signal's handler sets", after[3].low != 0x0707070707070707ul);
	after[3].low = 6003;
	report("a signal", changed(after, 6));
	return wrong != 0;
}
