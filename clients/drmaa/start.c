/*
 * start.c starts the helper, `execd drmaa-helper`.
 *
 * The program must not notice the helper: wait(2) must not return an unknown child, no SIGCHLD may
 * come, the helper must not keep files of the program open, and a signal of the program's terminal
 * must not end the helper. posix_spawn(3) and fork(2) do not guarantee that. Therefore clone(2)
 * makes an intermediate process with exit signal 0, which wait(2) returns only with __WCLONE. It
 * shares the memory of the program, as after vfork(2), and has a copy of its file descriptors. It
 * makes a session of its own and starts the helper. When the intermediate process exits, the
 * helper becomes a child of process 1, or of the nearest subreaper.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drmaa.h"
#include "session.h"

extern char **environ;

#define STACK (64 * 1024)
#define CANDIDATES 5

struct start {
	char paths[CANDIDATES][PATH_MAX]; /* where the helper may be */
	int candidates;
	char pid[24]; /* of the program */
	int socket;
	char *stack; /* for both processes, one above the other */
	int error;   /* errno of the last failed step */
};

/* add_candidate adds a path if there is an executable file. */
static void add_candidate(struct start *s, const char *dir, const char *rest) {
	char *path = s->paths[s->candidates];
	int n = snprintf(path, PATH_MAX, "%s%s", dir, rest);
	if (n > 0 && n < PATH_MAX && s->candidates < CANDIDATES && access(path, X_OK) == 0)
		s->candidates++;
}

/*
 * find_helper lists the places of execd: the environment variable EXECD; next to this library, as
 * in a build; in the directory above it, as in PREFIX/lib/execd/lib; the directories of PATH. A
 * set-user-ID program ignores the environment.
 */
static void find_helper(struct start *s) {
	const char *named = secure_getenv("EXECD");
	if (named && *named) {
		add_candidate(s, named, "");
		return;
	}
	Dl_info info;
	char self[PATH_MAX];
	if (dladdr((void *)(uintptr_t)&drmaa_version, &info) && info.dli_fname && realpath(info.dli_fname, self)) {
		*strrchr(self, '/') = 0;
		add_candidate(s, self, "/execd");
		add_candidate(s, self, "/../execd");
		add_candidate(s, self, "/../../../bin/execd");
	}
	const char *path = secure_getenv("PATH");
	while (path && *path && s->candidates < CANDIDATES) {
		size_t n = strcspn(path, ":");
		char dir[PATH_MAX];
		if (*path == '/' && n < sizeof dir) {
			int before = s->candidates;
			memcpy(dir, path, n);
			dir[n] = 0;
			add_candidate(s, dir, "/execd");
			if (s->candidates > before)
				return;
		}
		path += n + (path[n] == ':');
	}
}

/* become_helper runs in the second process, which shares the memory until it executes the helper. */
static int become_helper(void *arg) {
	struct start *s = arg;
	char *argv[] = {"execd", "drmaa-helper", s->pid, NULL};
	for (int i = 0; i < s->candidates; i++) {
		s->error = 0; /* remains 0 if execve succeeds */
		execve(s->paths[i], argv, environ);
		s->error = errno;
	}
	_exit(127);
}

/* default_signals resets all signals; the settings of the program itself do not change. */
static void default_signals(void) {
	struct sigaction by_default = {.sa_handler = SIG_DFL};
	for (int signal = 1; signal < NSIG; signal++)
		sigaction(signal, &by_default, NULL);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* close_from closes all descriptors from first on. */
static void close_from(int first) {
#ifdef SYS_close_range
	if (syscall(SYS_close_range, first, ~0U, 0) == 0)
		return;
#endif
	long most = sysconf(_SC_OPEN_MAX); /* before Linux 5.9 */
	for (int fd = first; fd < (most > 0 && most < 65536 ? most : 65536); fd++)
		close(fd);
}

/* intermediate runs in the first process. */
static int intermediate(void *arg) {
	struct start *s = arg;
	setsid();
	int null;
	if (dup2(s->socket, 3) < 0 || (null = open("/dev/null", O_RDWR)) < 0) {
		s->error = errno;
		_exit(1);
	}
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	fcntl(3, F_SETFD, 0); /* if it was already 3 */
	close_from(4);
	if (chdir("/") != 0) { /* otherwise the helper would keep a file system busy */
		s->error = errno;
		_exit(1);
	}
	default_signals();
	if (clone(become_helper, s->stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, s) < 0)
		s->error = errno;
	_exit(0);
}

int start_helper(int socket) {
	struct start *s = calloc(1, sizeof *s);
	if (!s)
		return ENOMEM;
	find_helper(s);
	if (s->candidates == 0) {
		free(s);
		return ENOENT;
	}
	snprintf(s->pid, sizeof s->pid, "%ld", (long)getpid());
	s->socket = socket;
	s->stack = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (s->stack == MAP_FAILED) {
		free(s);
		return ENOMEM;
	}
	/* Signal handlers of the program must not run in the intermediate process. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = clone(intermediate, s->stack + 2 * STACK, CLONE_VM | CLONE_VFORK, s);
	int error = pid < 0 ? errno : 0;
	while (pid > 0 && waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error)
		error = s->error;
	munmap(s->stack, 2 * STACK);
	free(s);
	return error;
}
