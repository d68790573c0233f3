/*
 * session.c holds the session of this process and talks to its helper.
 *
 * For each call the library makes a pair of sockets and sends one of them to the helper. The
 * request and the answer go over this pair alone. So threads do not wait for each other, and the
 * library needs no thread of its own.
 *
 * A child of fork(2) has no session. It may open one of its own; the session of its parent goes on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "drmaa.h"
#include "session.h"

/* one_call is a call that is under way, on the stack of the thread that makes it. */
struct one_call {
	int socket;
	struct one_call *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The session. The lock protects all of it. */
static struct {
	enum { closed, opening, active } state;
	pid_t pid;           /* of the process whose session it is */
	unsigned generation; /* counts sessions, so that a call notices the end of its session */
	int control;         /* the helper ends when this is closed; -1 without one */
	int theirs;          /* the other end until the helper has it, else -1 */
	struct one_call *calls;
	char contact[DRMAA_CONTACT_BUFFER];
} session = {.control = -1, .theirs = -1};

void lock_session(void) { pthread_mutex_lock(&lock); }
void unlock_session(void) { pthread_mutex_unlock(&lock); }

/* A process made without fork(2), by clone(2), has the memory of its parent but not its session. */
int session_active(void) { return session.state == active && session.pid == getpid(); }

void copy_text(char *to, size_t len, const char *text) {
	if (!to || len == 0)
		return;
	size_t n = strnlen(text, len - 1);
	memcpy(to, text, n);
	to[n] = 0;
}

int fail(int code, const char *why, char *diag, size_t diag_len) {
	if (!why || !*why)
		why = drmaa_strerror(code);
	copy_text(diag, diag_len, why ? why : "");
	return code;
}

/* ---- forks ---- */

/* forget closes the sockets of the parent's session. It may call only async-signal-safe functions. */
static void forget(void) {
	if (session.control >= 0)
		close(session.control);
	if (session.theirs >= 0)
		close(session.theirs);
	for (struct one_call *c = session.calls; c; c = c->next)
		close(c->socket);
	session.control = session.theirs = -1;
	session.calls = NULL;
	session.state = closed;
	session.generation++;
	session.contact[0] = 0;
}

static void after_fork_in_child(void) {
	forget();
	unlock_session();
}

__attribute__((constructor)) static void watch_forks(void) {
	pthread_atfork(lock_session, unlock_session, after_fork_in_child);
}

/* ---- messages ---- */

static void add_bytes(struct message *m, const void *bytes, size_t n) {
	if (m->failed)
		return;
	if (n > m->room - m->len) {
		size_t room = m->room * 2 + n + 256;
		char *data = room > m->room ? realloc(m->data, room) : NULL;
		if (!data) {
			m->failed = 1;
			return;
		}
		m->data = data;
		m->room = room;
	}
	memcpy(m->data + m->len, bytes, n);
	m->len += n;
}

void add_string(struct message *m, const char *s) {
	const uint32_t none = 0;
	if (m->len == 0)
		add_bytes(m, &none, sizeof none); /* the length, which call fills in */
	add_bytes(m, s, strlen(s) + 1);
}

void add_number(struct message *m, long n) {
	char text[24];
	snprintf(text, sizeof text, "%ld", n);
	add_string(m, text);
}

const char *next_string(struct message *m) {
	if (m->next >= m->len)
		return NULL;
	const char *s = m->data + m->next;
	m->next += strlen(s) + 1; /* the last byte of a message is a 0 */
	return s;
}

size_t count_strings(const struct message *m) {
	size_t n = 0;
	for (size_t at = m->next; at < m->len; at++)
		n += m->data[at] == 0;
	return n;
}

void free_message(struct message *m) {
	free(m->data);
	memset(m, 0, sizeof *m);
}

/* transfer reads or writes n bytes; it returns whether they were all transferred. */
static int transfer(int fd, char *bytes, size_t n, int writes) {
	while (n > 0) {
		ssize_t done = writes ? send(fd, bytes, n, MSG_NOSIGNAL) : recv(fd, bytes, n, 0);
		if (done < 0 && errno == EINTR)
			continue; /* a handler of the program has run */
		if (done <= 0)
			return 0;
		bytes += done;
		n -= done;
	}
	return 1;
}

/* receive reads an answer: a length, and strings of which the last one ends with a 0. */
static int receive(int fd, struct message *m) {
	uint32_t n;
	if (!transfer(fd, (char *)&n, sizeof n, 0) || n == 0)
		return DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE;
	if (!(m->data = malloc(n)))
		return DRMAA_ERRNO_NO_MEMORY;
	if (!transfer(fd, m->data, n, 0) || m->data[n - 1] != 0)
		return DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE;
	m->len = n;
	return DRMAA_ERRNO_SUCCESS;
}

/* ---- calls ---- */

/* pass sends the socket of a call to the helper. */
static int pass(int control, int fd) {
	char byte = 0;
	struct iovec data = {&byte, 1};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} rights;
	memset(&rights, 0, sizeof rights);
	struct msghdr m = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = rights.room, .msg_controllen = sizeof rights.room};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	/* It does not wait, because the caller holds the lock. */
	return sendmsg(control, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/*
 * begin enters a call in the list and sends its socket to the helper. wanted is the required state of
 * the session. If the helper cannot keep up, begin waits until it can.
 */
static int begin(struct one_call *c, int wanted, unsigned *generation) {
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return DRMAA_ERRNO_INTERNAL_ERROR;
	c->socket = pair[0];
	int code;
	for (;;) {
		lock_session();
		code = DRMAA_ERRNO_NO_ACTIVE_SESSION;
		if (session.state != (unsigned)wanted || session.pid != getpid())
			break;
		*generation = session.generation;
		code = DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE;
		if (pass(session.control, pair[1])) {
			c->next = session.calls;
			session.calls = c;
			code = DRMAA_ERRNO_SUCCESS;
			break;
		}
		if (errno != EAGAIN && errno != EINTR && errno != ETOOMANYREFS && errno != ENOBUFS)
			break;
		unlock_session();
		poll(NULL, 0, 1);
	}
	unlock_session();
	close(pair[1]);
	if (code)
		close(pair[0]);
	return code;
}

/* end removes a call from the list, and returns whether the session is still the same. */
static int end(struct one_call *c, unsigned generation) {
	lock_session();
	struct one_call **p = &session.calls;
	while (*p && *p != c)
		p = &(*p)->next;
	if (*p)
		*p = c->next;
	int same = session.generation == generation;
	unlock_session();
	close(c->socket);
	return same;
}

static int call_in(int wanted, struct message *request, struct message *answer, char *diag, size_t diag_len) {
	memset(answer, 0, sizeof *answer);
	if (request->failed)
		return fail(DRMAA_ERRNO_NO_MEMORY, NULL, diag, diag_len);
	uint32_t n = request->len - sizeof n;
	if (request->len - sizeof n > INT32_MAX)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, "the request has more than 2 GiB", diag, diag_len);
	memcpy(request->data, &n, sizeof n);
	/* A thread that is canceled here would leave its call in the list. */
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	struct one_call c;
	unsigned generation = 0;
	const char *lost = NULL;
	int code = begin(&c, wanted, &generation);
	if (code == DRMAA_ERRNO_SUCCESS) {
		code = DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE;
		if (transfer(c.socket, request->data, request->len, 1))
			code = receive(c.socket, answer);
		if (!end(&c, generation)) {
			free_message(answer);
			code = DRMAA_ERRNO_NO_ACTIVE_SESSION;
		}
	}
	if (code == DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE)
		lost = "the helper of the session (execd drmaa-helper) has exited: call drmaa_exit and drmaa_init";
	pthread_setcancelstate(cancel, NULL);
	if (code == DRMAA_ERRNO_SUCCESS) {
		const char *number = next_string(answer), *why = next_string(answer);
		code = number ? atoi(number) : DRMAA_ERRNO_INTERNAL_ERROR;
		lost = why;
	}
	return code ? fail(code, lost, diag, diag_len) : code;
}

int call(struct message *request, struct message *answer, char *diag, size_t diag_len) {
	return call_in(active, request, answer, diag, diag_len);
}

/* ---- sessions ---- */

/* drop ends the session of this process. The caller holds the lock. The helper notices it. */
static void drop(void) {
	if (session.control >= 0)
		close(session.control);
	session.control = -1;
	session.state = closed;
	session.generation++;
	session.contact[0] = 0;
	/* The calls of other threads return NO_ACTIVE_SESSION, because generation has changed. */
	for (struct one_call *c = session.calls; c; c = c->next)
		shutdown(c->socket, SHUT_RDWR);
}

static int opened(const char *contact, char *diag, size_t diag_len) {
	int pair[2];
	lock_session();
	if (session.state != closed && session.pid != getpid())
		forget();
	if (session.state != closed) {
		unlock_session();
		return fail(DRMAA_ERRNO_ALREADY_ACTIVE_SESSION, NULL, diag, diag_len);
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
		unlock_session();
		return fail(DRMAA_ERRNO_INTERNAL_ERROR, "cannot make a socket", diag, diag_len);
	}
	session.state = opening;
	session.pid = getpid();
	session.control = pair[0];
	session.theirs = pair[1];
	unlock_session();

	int error = start_helper(pair[1]);
	lock_session();
	close(session.theirs);
	session.theirs = -1;
	unlock_session();

	int code;
	if (error) {
		char why[256], reason[128] = "";
		const char *text = strerror_r(error, reason, sizeof reason);
		snprintf(why, sizeof why, "cannot start execd drmaa-helper: %s; set the environment variable EXECD to the path of execd", text);
		code = fail(DRMAA_ERRNO_DRMS_INIT_FAILED, why, diag, diag_len);
	} else {
		struct message request = {0}, answer;
		add_string(&request, "open");
		add_string(&request, contact ? contact : "");
		code = call_in(opening, &request, &answer, diag, diag_len);
		lock_session();
		const char *own = code ? NULL : next_string(&answer);
		copy_text(session.contact, sizeof session.contact, own ? own : "");
		unlock_session();
		free_message(&request);
		free_message(&answer);
	}
	lock_session();
	if (code)
		drop();
	else
		session.state = active;
	unlock_session();
	return code;
}

int open_session(const char *contact, char *diag, size_t diag_len) {
	/* A thread that is cancelled here would keep the lock, or unwind its stack in the process that starts the helper. */
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	int code = opened(contact, diag, diag_len);
	pthread_setcancelstate(cancel, NULL);
	return code;
}

int close_session(char *diag, size_t diag_len) {
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	lock_session();
	int there = session_active();
	if (there)
		drop();
	unlock_session();
	pthread_setcancelstate(cancel, NULL);
	return there ? DRMAA_ERRNO_SUCCESS : fail(DRMAA_ERRNO_NO_ACTIVE_SESSION, NULL, diag, diag_len);
}

void session_contact(char *to, size_t len) {
	lock_session();
	copy_text(to, len, session_active() ? session.contact : "");
	unlock_session();
}
