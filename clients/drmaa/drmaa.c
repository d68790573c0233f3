/*
 * drmaa.c is the C binding of DRMAA 1.0 (GFD-R-P.133): templates, vectors of strings, and what the
 * functions ask of the helper. The helper interprets the values of attributes and knows the jobs.
 */
#define _GNU_SOURCE
#include "drmaa.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session.h"

extern char **environ;

/* The attributes that are supported. */
static const char *const scalars[] = {
	DRMAA_REMOTE_COMMAND, DRMAA_JS_STATE, DRMAA_WD, DRMAA_JOB_CATEGORY, DRMAA_NATIVE_SPECIFICATION,
	DRMAA_BLOCK_EMAIL, DRMAA_START_TIME, DRMAA_JOB_NAME, DRMAA_INPUT_PATH, DRMAA_OUTPUT_PATH,
	DRMAA_ERROR_PATH, DRMAA_JOIN_FILES, DRMAA_WCT_HLIMIT, DRMAA_WCT_SLIMIT, DRMAA_DURATION_HLIMIT,
	DRMAA_DURATION_SLIMIT, NULL,
};
static const char *const vectors[] = {DRMAA_V_ARGV, DRMAA_V_ENV, DRMAA_V_EMAIL, NULL};

#define SCALARS (sizeof scalars / sizeof *scalars - 1)
#define VECTORS (sizeof vectors / sizeof *vectors - 1)

/* ---- vectors of strings ---- */

struct strings {
	size_t count, next;
	char **list;
};
struct drmaa_attr_names_s { struct strings of; };
struct drmaa_attr_values_s { struct strings of; };
struct drmaa_job_ids_s { struct strings of; };

static void release(struct strings *s) {
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++)
		free(s->list[i]);
	free(s->list);
	free(s);
}

/* copy_strings makes a vector of the first n strings of a list; NULL if there is no memory. */
static struct strings *copy_strings(const char *const *list, size_t n) {
	struct strings *s = calloc(1, sizeof *s);
	if (!s || !(s->list = calloc(n + 1, sizeof *s->list))) {
		free(s);
		return NULL;
	}
	for (; s->count < n; s->count++)
		if (!(s->list[s->count] = strdup(list[s->count]))) {
			release(s);
			return NULL;
		}
	return s;
}

/* rest_of makes a vector of the strings that a message still has. */
static struct strings *rest_of(struct message *m) {
	size_t n = count_strings(m), i = 0;
	const char **list = calloc(n + 1, sizeof *list);
	if (!list)
		return NULL;
	while (i < n)
		list[i++] = next_string(m);
	struct strings *s = copy_strings(list, n);
	free(list);
	return s;
}

static int next(struct strings *s, char *value, size_t len) {
	if (!s || !value)
		return DRMAA_ERRNO_INVALID_ARGUMENT;
	if (s->next >= s->count)
		return DRMAA_ERRNO_NO_MORE_ELEMENTS;
	copy_text(value, len, s->list[s->next++]);
	return DRMAA_ERRNO_SUCCESS;
}

static int count(const struct strings *s, int *size) {
	if (!s || !size)
		return DRMAA_ERRNO_INVALID_ARGUMENT;
	*size = (int)s->count;
	return DRMAA_ERRNO_SUCCESS;
}

int drmaa_get_next_attr_name(drmaa_attr_names_t *values, char *value, size_t len) { return next((struct strings *)values, value, len); }
int drmaa_get_next_attr_value(drmaa_attr_values_t *values, char *value, size_t len) { return next((struct strings *)values, value, len); }
int drmaa_get_next_job_id(drmaa_job_ids_t *values, char *value, size_t len) { return next((struct strings *)values, value, len); }
int drmaa_get_num_attr_names(drmaa_attr_names_t *values, int *size) { return count((struct strings *)values, size); }
int drmaa_get_num_attr_values(drmaa_attr_values_t *values, int *size) { return count((struct strings *)values, size); }
int drmaa_get_num_job_ids(drmaa_job_ids_t *values, int *size) { return count((struct strings *)values, size); }
void drmaa_release_attr_names(drmaa_attr_names_t *values) { release((struct strings *)values); }
void drmaa_release_attr_values(drmaa_attr_values_t *values) { release((struct strings *)values); }
void drmaa_release_job_ids(drmaa_job_ids_t *values) { release((struct strings *)values); }

/* ---- sessions ---- */

int drmaa_init(const char *contact, char *diag, size_t len) { return open_session(contact, diag, len); }
int drmaa_exit(char *diag, size_t len) { return close_session(diag, len); }

/* enter takes the lock if there is a session; otherwise it returns an error. */
static int enter(char *diag, size_t len) {
	lock_session();
	if (session_active())
		return DRMAA_ERRNO_SUCCESS;
	unlock_session();
	return fail(DRMAA_ERRNO_NO_ACTIVE_SESSION, NULL, diag, len);
}

/* without_session returns the error of a call without a session, whatever its arguments are; else 0. */
static int without_session(char *diag, size_t len) {
	int code = enter(diag, len);
	if (code == DRMAA_ERRNO_SUCCESS)
		unlock_session();
	return code;
}

/* ---- job templates ---- */

/* The lock of the session protects all templates. */
struct drmaa_job_template_s {
	char *values[SCALARS];            /* NULL for one that is not set */
	struct strings *lists[VECTORS]; /* likewise */
	struct drmaa_job_template_s *next;
};

/* All templates. Any other pointer is refused, also that of a deleted template. */
static struct drmaa_job_template_s *templates;

static int known(const drmaa_job_template_t *jt) {
	const struct drmaa_job_template_s *t = templates;
	while (t && t != jt)
		t = t->next;
	return t != NULL;
}

static int find(const char *const *names, const char *name) {
	for (int i = 0; name && names[i]; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

/* enter_template does the same as enter, and checks the template and the name of an attribute. */
static int enter_template(const drmaa_job_template_t *jt, const char *const *names, const char *name, int *at, char *diag,
			  size_t len) {
	int code = enter(diag, len);
	if (code)
		return code;
	const char *why = NULL;
	if (!jt || !known(jt))
		why = "there is no such job template";
	else if (names && (*at = find(names, name)) < 0)
		why = find(names == scalars ? vectors : scalars, name) >= 0 ? "the attribute is of the other kind, scalar or vector" : "unknown or unsupported attribute";
	if (!why)
		return DRMAA_ERRNO_SUCCESS;
	unlock_session();
	if (!name || !jt)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, why, diag, len);
	char text[256];
	snprintf(text, sizeof text, "%.100s: %s", name, why);
	return fail(DRMAA_ERRNO_INVALID_ARGUMENT, text, diag, len);
}

int drmaa_allocate_job_template(drmaa_job_template_t **jt, char *diag, size_t len) {
	int code = enter(diag, len);
	if (code)
		return code;
	drmaa_job_template_t *t = NULL;
	if (!jt)
		code = DRMAA_ERRNO_INVALID_ARGUMENT;
	else if (!(t = calloc(1, sizeof *t)))
		code = DRMAA_ERRNO_NO_MEMORY;
	else {
		t->next = templates;
		templates = *jt = t;
	}
	unlock_session();
	return code ? fail(code, NULL, diag, len) : code;
}

/* A template may be deleted after the end of the session, too: programs clean up in any order. */
int drmaa_delete_job_template(drmaa_job_template_t *jt, char *diag, size_t len) {
	lock_session();
	struct drmaa_job_template_s **p = &templates;
	while (*p && *p != jt)
		p = &(*p)->next;
	if (!jt || !*p) {
		unlock_session();
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, "there is no such job template", diag, len);
	}
	*p = jt->next;
	unlock_session();
	for (size_t i = 0; i < SCALARS; i++)
		free(jt->values[i]);
	for (size_t i = 0; i < VECTORS; i++)
		release(jt->lists[i]);
	free(jt);
	return DRMAA_ERRNO_SUCCESS;
}

/* check has the helper check the value of an attribute. */
static int check(const char *name, const char *const *values, size_t n, char *diag, size_t len) {
	struct message request = {0}, answer;
	add_string(&request, "check");
	add_string(&request, name);
	for (size_t i = 0; i < n; i++)
		add_string(&request, values[i]);
	int code = call(&request, &answer, diag, len);
	free_message(&request);
	free_message(&answer);
	return code;
}

int drmaa_set_attribute(drmaa_job_template_t *jt, const char *name, const char *value, char *diag, size_t len) {
	int at = 0, code = enter_template(jt, scalars, name, &at, diag, len);
	if (code)
		return code;
	unlock_session();
	if (!value)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, "the value is NULL", diag, len);
	if ((code = check(name, &value, 1, diag, len)))
		return code;
	char *copy = strdup(value);
	if (!copy)
		return fail(DRMAA_ERRNO_NO_MEMORY, NULL, diag, len);
	if ((code = enter_template(jt, scalars, name, &at, diag, len))) {
		free(copy);
		return code;
	}
	char *old = jt->values[at];
	jt->values[at] = copy;
	unlock_session();
	free(old);
	return DRMAA_ERRNO_SUCCESS;
}

int drmaa_get_attribute(drmaa_job_template_t *jt, const char *name, char *value, size_t value_len, char *diag, size_t len) {
	int at = 0, code = enter_template(jt, scalars, name, &at, diag, len);
	if (code)
		return code;
	if (!value)
		code = DRMAA_ERRNO_INVALID_ARGUMENT;
	else if (!jt->values[at])
		code = DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE;
	else
		copy_text(value, value_len, jt->values[at]);
	unlock_session();
	if (code == DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE)
		return fail(code, "the attribute is not set", diag, len);
	return code ? fail(code, "the buffer is NULL", diag, len) : code;
}

int drmaa_set_vector_attribute(drmaa_job_template_t *jt, const char *name, const char *value[], char *diag, size_t len) {
	int at = 0, code = enter_template(jt, vectors, name, &at, diag, len);
	if (code)
		return code;
	unlock_session();
	if (!value)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, "the value is NULL", diag, len);
	size_t n = 0;
	while (value[n])
		n++;
	if ((code = check(name, value, n, diag, len)))
		return code;
	struct strings *copy = copy_strings(value, n);
	if (!copy)
		return fail(DRMAA_ERRNO_NO_MEMORY, NULL, diag, len);
	if ((code = enter_template(jt, vectors, name, &at, diag, len))) {
		release(copy);
		return code;
	}
	struct strings *old = jt->lists[at];
	jt->lists[at] = copy;
	unlock_session();
	release(old);
	return DRMAA_ERRNO_SUCCESS;
}

int drmaa_get_vector_attribute(drmaa_job_template_t *jt, const char *name, drmaa_attr_values_t **values, char *diag, size_t len) {
	int at = 0, code = enter_template(jt, vectors, name, &at, diag, len);
	if (code)
		return code;
	struct strings *copy = NULL;
	if (!values)
		code = DRMAA_ERRNO_INVALID_ARGUMENT;
	else if (!jt->lists[at])
		code = DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE;
	else if (!(copy = copy_strings((const char *const *)jt->lists[at]->list, jt->lists[at]->count)))
		code = DRMAA_ERRNO_NO_MEMORY;
	unlock_session();
	if (code)
		return fail(code, code == DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE ? "the attribute is not set" : NULL, diag, len);
	*values = (drmaa_attr_values_t *)copy;
	return DRMAA_ERRNO_SUCCESS;
}

static int attribute_names(const char *const *names, size_t n, drmaa_attr_names_t **values, char *diag, size_t len) {
	int code = without_session(diag, len);
	if (code)
		return code;
	if (!values)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, NULL, diag, len);
	*values = (drmaa_attr_names_t *)copy_strings(names, n);
	return *values ? DRMAA_ERRNO_SUCCESS : fail(DRMAA_ERRNO_NO_MEMORY, NULL, diag, len);
}

int drmaa_get_attribute_names(drmaa_attr_names_t **values, char *diag, size_t len) { return attribute_names(scalars, SCALARS, values, diag, len); }
int drmaa_get_vector_attribute_names(drmaa_attr_names_t **values, char *diag, size_t len) { return attribute_names(vectors, VECTORS, values, diag, len); }

/* ---- submission ---- */

/* submit submits a template: a single job if incr is 0. */
static int submit(const drmaa_job_template_t *jt, long start, long last, long incr, struct message *answer, char *diag, size_t len) {
	struct message request = {0};
	memset(answer, 0, sizeof *answer);
	char *directory = getcwd(NULL, 0);
	add_string(&request, "run");
	add_number(&request, start);
	add_number(&request, last);
	add_number(&request, incr);
	add_string(&request, directory ? directory : "/");
	free(directory);
	int code = enter_template(jt, NULL, NULL, NULL, diag, len);
	if (code) {
		free_message(&request);
		return code;
	}
	for (size_t i = 0; i < SCALARS; i++)
		if (jt->values[i]) {
			add_string(&request, scalars[i]);
			add_number(&request, 1);
			add_string(&request, jt->values[i]);
		}
	for (size_t i = 0; i < VECTORS; i++)
		if (jt->lists[i]) {
			add_string(&request, vectors[i]);
			add_number(&request, (long)jt->lists[i]->count);
			for (size_t j = 0; j < jt->lists[i]->count; j++)
				add_string(&request, jt->lists[i]->list[j]);
		}
	unlock_session();
	add_string(&request, ""); /* no further attributes: the environment follows, for -V and -v NAME */
	for (char **e = environ; e && *e; e++)
		add_string(&request, *e);
	code = call(&request, answer, diag, len);
	free_message(&request);
	return code;
}

int drmaa_run_job(char *job_id, size_t job_id_len, const drmaa_job_template_t *jt, char *diag, size_t len) {
	int code = without_session(diag, len);
	if (code)
		return code;
	if (!job_id)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, "the buffer of the job identifier is NULL", diag, len);
	struct message answer;
	code = submit(jt, 0, 0, 0, &answer, diag, len);
	if (!code) {
		const char *id = next_string(&answer);
		copy_text(job_id, job_id_len, id ? id : "");
	}
	free_message(&answer);
	return code;
}

int drmaa_run_bulk_jobs(drmaa_job_ids_t **jobids, const drmaa_job_template_t *jt, int start, int last, int incr, char *diag, size_t len) {
	int code = without_session(diag, len);
	if (code)
		return code;
	if (!jobids || incr == 0)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, jobids ? "the increment is 0" : NULL, diag, len);
	struct message answer;
	code = submit(jt, start, last, incr, &answer, diag, len);
	if (!code && !(*jobids = (drmaa_job_ids_t *)rest_of(&answer)))
		code = fail(DRMAA_ERRNO_NO_MEMORY, NULL, diag, len);
	free_message(&answer);
	return code;
}

/* ---- control and status ---- */

int drmaa_control(const char *job_id, int action, char *diag, size_t len) {
	int code = without_session(diag, len);
	if (code)
		return code;
	if (!job_id || action < DRMAA_CONTROL_SUSPEND || action > DRMAA_CONTROL_TERMINATE)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, job_id ? "unknown action" : NULL, diag, len);
	struct message request = {0}, answer;
	add_string(&request, "control");
	add_string(&request, job_id);
	add_number(&request, action);
	code = call(&request, &answer, diag, len);
	free_message(&request);
	free_message(&answer);
	return code;
}

int drmaa_job_ps(const char *job_id, int *remote_ps, char *diag, size_t len) {
	int code = without_session(diag, len);
	if (code)
		return code;
	if (!job_id || !remote_ps)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, NULL, diag, len);
	struct message request = {0}, answer;
	add_string(&request, "ps");
	add_string(&request, job_id);
	code = call(&request, &answer, diag, len);
	if (!code) {
		const char *state = next_string(&answer);
		*remote_ps = state ? atoi(state) : DRMAA_PS_UNDETERMINED;
	}
	free_message(&request);
	free_message(&answer);
	return code;
}

int drmaa_synchronize(const char *job_ids[], signed long timeout, int dispose, char *diag, size_t len) {
	int code = without_session(diag, len);
	if (code)
		return code;
	if (!job_ids || timeout < DRMAA_TIMEOUT_WAIT_FOREVER)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, NULL, diag, len);
	struct message request = {0}, answer;
	add_string(&request, "synchronize");
	add_number(&request, timeout);
	add_string(&request, dispose ? "1" : "0");
	for (; *job_ids; job_ids++)
		add_string(&request, *job_ids);
	code = call(&request, &answer, diag, len);
	free_message(&request);
	free_message(&answer);
	return code;
}

int drmaa_wait(const char *job_id, char *job_id_out, size_t job_id_out_len, int *stat, signed long timeout, drmaa_attr_values_t **rusage,
	       char *diag, size_t len) {
	int code = without_session(diag, len);
	if (code)
		return code;
	if (!job_id || timeout < DRMAA_TIMEOUT_WAIT_FOREVER)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, NULL, diag, len);
	struct message request = {0}, answer;
	add_string(&request, "wait");
	add_string(&request, job_id);
	add_number(&request, timeout);
	code = call(&request, &answer, diag, len);
	/* NO_RUSAGE comes with the job identifier, too: the job has finished, but its status is unknown. */
	if (code == DRMAA_ERRNO_SUCCESS || code == DRMAA_ERRNO_NO_RUSAGE) {
		const char *id = next_string(&answer), *status = next_string(&answer);
		copy_text(job_id_out, job_id_out_len, id ? id : "");
		if (stat)
			*stat = status ? atoi(status) : 0;
	}
	if (code == DRMAA_ERRNO_SUCCESS && rusage && !(*rusage = (drmaa_attr_values_t *)rest_of(&answer)))
		code = fail(DRMAA_ERRNO_NO_MEMORY, NULL, diag, len);
	free_message(&request);
	free_message(&answer);
	return code;
}

/* ---- the stat of drmaa_wait ---- */

/* The exit status is in the lowest byte, a signal in the next, and these are above them. */
enum { EXITED = 1 << 16, SIGNALED = 1 << 17, DUMPED = 1 << 18, ABORTED = 1 << 19 };

static int answer_with(int *to, int value, char *diag, size_t len) {
	if (!to)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, NULL, diag, len);
	*to = value;
	return DRMAA_ERRNO_SUCCESS;
}

int drmaa_wifexited(int *exited, int stat, char *diag, size_t len) { return answer_with(exited, (stat & EXITED) != 0, diag, len); }
int drmaa_wexitstatus(int *status, int stat, char *diag, size_t len) { return answer_with(status, stat & EXITED ? stat & 0xff : 0, diag, len); }
int drmaa_wifsignaled(int *signaled, int stat, char *diag, size_t len) { return answer_with(signaled, (stat & SIGNALED) != 0, diag, len); }
int drmaa_wcoredump(int *dumped, int stat, char *diag, size_t len) { return answer_with(dumped, (stat & DUMPED) != 0, diag, len); }
int drmaa_wifaborted(int *aborted, int stat, char *diag, size_t len) { return answer_with(aborted, (stat & ABORTED) != 0, diag, len); }

#define NAME(s) [s] = #s
static const char *const signal_names[] = {
	NAME(SIGHUP), NAME(SIGINT), NAME(SIGQUIT), NAME(SIGILL), NAME(SIGTRAP), NAME(SIGABRT), NAME(SIGBUS), NAME(SIGFPE),
	NAME(SIGKILL), NAME(SIGUSR1), NAME(SIGSEGV), NAME(SIGUSR2), NAME(SIGPIPE), NAME(SIGALRM), NAME(SIGTERM),
	NAME(SIGCHLD), NAME(SIGCONT), NAME(SIGSTOP), NAME(SIGTSTP), NAME(SIGTTIN), NAME(SIGTTOU), NAME(SIGURG),
	NAME(SIGXCPU), NAME(SIGXFSZ), NAME(SIGVTALRM), NAME(SIGPROF), NAME(SIGWINCH), NAME(SIGIO), NAME(SIGPWR), NAME(SIGSYS),
};

/* Some programs call this for jobs that no signal has ended, which is no error in Grid Engine's library. */
int drmaa_wtermsig(char *name, size_t name_len, int stat, char *diag, size_t len) {
	if (!name)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, NULL, diag, len);
	if (!(stat & SIGNALED)) {
		copy_text(name, name_len, "unknown signal");
		return DRMAA_ERRNO_SUCCESS;
	}
	size_t number = stat >> 8 & 0xff;
	char other[16];
	snprintf(other, sizeof other, "SIG%zu", number);
	int named = number < sizeof signal_names / sizeof *signal_names && signal_names[number];
	copy_text(name, name_len, named ? signal_names[number] : other);
	return DRMAA_ERRNO_SUCCESS;
}

/* ---- about the library ---- */

const char *drmaa_strerror(int code) {
	static const char *const texts[] = {
		[DRMAA_ERRNO_SUCCESS] = "success",
		[DRMAA_ERRNO_INTERNAL_ERROR] = "internal error of the DRMAA library, or a failed system call",
		[DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE] = "cannot reach the batch system",
		[DRMAA_ERRNO_AUTH_FAILURE] = "permission denied by the batch system",
		[DRMAA_ERRNO_INVALID_ARGUMENT] = "invalid argument",
		[DRMAA_ERRNO_NO_ACTIVE_SESSION] = "no active session: call drmaa_init first",
		[DRMAA_ERRNO_NO_MEMORY] = "out of memory",
		[DRMAA_ERRNO_INVALID_CONTACT_STRING] = "invalid contact string",
		[DRMAA_ERRNO_DEFAULT_CONTACT_STRING_ERROR] = "cannot reach a batch system by the default contact string",
		[DRMAA_ERRNO_NO_DEFAULT_CONTACT_STRING_SELECTED] = "no contact string is given, and there is no default one",
		[DRMAA_ERRNO_DRMS_INIT_FAILED] = "cannot set up the connection with the batch system",
		[DRMAA_ERRNO_ALREADY_ACTIVE_SESSION] = "there is already an active session",
		[DRMAA_ERRNO_DRMS_EXIT_ERROR] = "cannot disconnect from the batch system",
		[DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT] = "the value of the attribute has an invalid format",
		[DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE] = "invalid value of an attribute",
		[DRMAA_ERRNO_CONFLICTING_ATTRIBUTE_VALUES] = "the value of the attribute contradicts another attribute",
		[DRMAA_ERRNO_TRY_LATER] = "the batch system is too busy for the job: try again later",
		[DRMAA_ERRNO_DENIED_BY_DRM] = "the batch system refuses the job",
		[DRMAA_ERRNO_INVALID_JOB] = "there is no such job",
		[DRMAA_ERRNO_RESUME_INCONSISTENT_STATE] = "the job is not suspended",
		[DRMAA_ERRNO_SUSPEND_INCONSISTENT_STATE] = "the job is not running, or is already suspended",
		[DRMAA_ERRNO_HOLD_INCONSISTENT_STATE] = "the job is not pending, or is already on hold",
		[DRMAA_ERRNO_RELEASE_INCONSISTENT_STATE] = "the job is not on hold",
		[DRMAA_ERRNO_EXIT_TIMEOUT] = "timed out: the job has not finished",
		[DRMAA_ERRNO_NO_RUSAGE] = "the job has finished; its exit status and usage are not known",
		[DRMAA_ERRNO_NO_MORE_ELEMENTS] = "no more elements",
	};
	return code < 0 || code >= DRMAA_NO_ERRNO ? NULL : texts[code];
}

static int text(const char *s, char *to, size_t to_len, char *diag, size_t len) {
	if (!to)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, NULL, diag, len);
	copy_text(to, to_len, s);
	return DRMAA_ERRNO_SUCCESS;
}

int drmaa_get_contact(char *contact, size_t contact_len, char *diag, size_t len) {
	if (!contact)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, NULL, diag, len);
	session_contact(contact, contact_len);
	return DRMAA_ERRNO_SUCCESS;
}

int drmaa_version(unsigned int *major, unsigned int *minor, char *diag, size_t len) {
	if (!major || !minor)
		return fail(DRMAA_ERRNO_INVALID_ARGUMENT, NULL, diag, len);
	*major = 1;
	*minor = 0;
	return DRMAA_ERRNO_SUCCESS;
}

/* Programs look for the name of Grid Engine in it. */
int drmaa_get_DRM_system(char *to, size_t to_len, char *diag, size_t len) { return text("SGE 8.1.9 (execd)", to, to_len, diag, len); }
int drmaa_get_DRMAA_implementation(char *to, size_t to_len, char *diag, size_t len) { return text("DRMAA 1.0 for SGE 8.1.9 (execd)", to, to_len, diag, len); }
