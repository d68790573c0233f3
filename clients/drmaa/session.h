/* session.h: the session of this process, and calls of its helper. */
#ifndef EXECD_SESSION_H
#define EXECD_SESSION_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A message is a list of strings: a number of bytes in four bytes of this machine's order, then the
 * strings, each with its 0. A request begins with the name of the call, an answer with a number of
 * DRMAA_ERRNO_* and a sentence.
 */
struct message {
	char *data; /* begins with the four bytes */
	size_t len, room;
	size_t next; /* where next_string goes on */
	int failed;  /* no memory */
};

void add_string(struct message *m, const char *s);
void add_number(struct message *m, long n);
/* next_string returns the next string of a message, or NULL at its end. */
const char *next_string(struct message *m);
/* count_strings returns how many strings next_string still has. */
size_t count_strings(const struct message *m);
void free_message(struct message *m);

/* The lock of the session and of all templates. No thread makes a blocking system call while it holds it. */
void lock_session(void);
void unlock_session(void);
/* session_active returns whether there is a session. The caller holds the lock. */
int session_active(void);

/*
 * call sends a request to the helper and waits for the answer, without the lock. It returns a
 * DRMAA_ERRNO_*, and writes a sentence into diag if that is not 0. The further strings of the answer
 * remain in answer, which the caller always frees.
 */
int call(struct message *request, struct message *answer, char *diag, size_t diag_len);

/* open_session starts a helper and has it open a session; close_session ends both. */
int open_session(const char *contact, char *diag, size_t diag_len);
int close_session(char *diag, size_t diag_len);
/* session_contact copies the contact string of the session, an empty one without a session. */
void session_contact(char *to, size_t len);

/* copy_text copies as much of a text as fits, and a 0. */
void copy_text(char *to, size_t len, const char *text);
/* fail writes why into diag, or the text of drmaa_strerror if why is NULL, and returns code. */
int fail(int code, const char *why, char *diag, size_t diag_len);

/* start_helper starts the helper with one end of a socket; it returns 0 or an errno. */
int start_helper(int socket);

#endif
