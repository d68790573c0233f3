/*
 * conformance.c checks libdrmaa against DRMAA 1.0 (GFD-R-P.133 and its C binding). Its argument is
 * the name of a group of checks. It prints the checks that fail and exits with 1, otherwise with 0.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <drmaa.h>

#define FOREVER DRMAA_TIMEOUT_WAIT_FOREVER

static char diag[DRMAA_ERROR_STRING_BUFFER];
#define D diag, sizeof diag

static int failures;

static void expect(int line, const char *what, int got, int want) {
	if (got == want)
		return;
	printf("line %d: %s is %d, expected %d: %s\n", line, what, got, want, diag);
	failures++;
}
static void same(int line, const char *what, const char *got, const char *want) {
	if (strcmp(got, want) == 0)
		return;
	printf("line %d: %s is \"%s\", expected \"%s\"\n", line, what, got, want);
	failures++;
}
#define IS(call, want) expect(__LINE__, #call, call, want)
#define OK(call) IS(call, DRMAA_ERRNO_SUCCESS)
#define TEXT(got, want) same(__LINE__, #got, got, want)

static drmaa_job_template_t *template(const char *script) {
	drmaa_job_template_t *jt = NULL;
	const char *argv[] = {"-c", script, NULL};
	char dir[1024];
	if (!getcwd(dir, sizeof dir))
		abort();
	OK(drmaa_allocate_job_template(&jt, D));
	OK(drmaa_set_attribute(jt, DRMAA_WD, dir, D)); /* the user may have no home directory */
	OK(drmaa_set_attribute(jt, DRMAA_REMOTE_COMMAND, "/bin/sh", D));
	OK(drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, argv, D));
	OK(drmaa_set_attribute(jt, DRMAA_OUTPUT_PATH, ":/dev/null", D));
	OK(drmaa_set_attribute(jt, DRMAA_JOIN_FILES, "y", D));
	return jt;
}

/* submit submits a script; the identifier is in a buffer of the caller. */
static void submit(const char *script, char *id, size_t len) {
	drmaa_job_template_t *jt = template(script);
	OK(drmaa_run_job(id, len, jt, D));
	OK(drmaa_delete_job_template(jt, D));
}

/* until_state waits until a job is in a state. */
static void until_state(int line, const char *id, int want) {
	int state = -1;
	for (int i = 0; i < 1200; i++) {
		expect(line, "drmaa_job_ps", drmaa_job_ps(id, &state, D), DRMAA_ERRNO_SUCCESS);
		if (state == want)
			return;
		usleep(100000);
	}
	expect(line, "the state", state, want);
}
#define UNTIL(id, want) until_state(__LINE__, id, want)

static void read_file(const char *path, char *to, size_t len) {
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(to, 1, len - 1, f) : 0;
	to[n] = 0;
	if (f)
		fclose(f);
	else
		printf("%s: %s\n", path, strerror(errno)), failures++;
}

/* ---- groups ---- */

static void without_session(void) {
	char text[1024];
	int n;
	unsigned major = 0, minor = 9;
	drmaa_job_template_t *jt = NULL;
	drmaa_attr_names_t *names;
	drmaa_attr_values_t *values;
	drmaa_job_ids_t *ids;
	const char *all[] = {DRMAA_JOB_IDS_SESSION_ALL, NULL};
	const int none = DRMAA_ERRNO_NO_ACTIVE_SESSION;
	IS(drmaa_exit(D), none);
	IS(drmaa_allocate_job_template(&jt, D), none);
	IS(drmaa_set_attribute(jt, DRMAA_WD, "/", D), none);
	IS(drmaa_get_attribute(jt, DRMAA_WD, text, sizeof text, D), none);
	IS(drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, all, D), none);
	IS(drmaa_get_vector_attribute(jt, DRMAA_V_ARGV, &values, D), none);
	IS(drmaa_get_attribute_names(&names, D), none);
	IS(drmaa_get_vector_attribute_names(&names, D), none);
	IS(drmaa_run_job(text, sizeof text, jt, D), none);
	IS(drmaa_run_bulk_jobs(&ids, jt, 1, 2, 1, D), none);
	IS(drmaa_control("1", DRMAA_CONTROL_HOLD, D), none);
	IS(drmaa_job_ps("1", &n, D), none);
	IS(drmaa_synchronize(all, 0, 1, D), none);
	IS(drmaa_wait("1", NULL, 0, &n, 0, NULL, D), none);
	OK(drmaa_version(&major, &minor, D));
	IS(major, 1);
	IS(minor, 0);
	OK(drmaa_get_DRM_system(text, sizeof text, D));
	OK(drmaa_get_DRMAA_implementation(text, sizeof text, D));
	OK(drmaa_get_contact(text, sizeof text, D));
	IS(drmaa_strerror(DRMAA_ERRNO_INVALID_JOB) != NULL, 1);
	IS(drmaa_strerror(DRMAA_NO_ERRNO) == NULL, 1);
	IS(drmaa_strerror(-1) == NULL, 1);
}

static void sessions(void) {
	char text[DRMAA_CONTACT_BUFFER];
	IS(drmaa_init("nonsense", D), DRMAA_ERRNO_INVALID_CONTACT_STRING);
	IS(drmaa_init("session=1", D), DRMAA_ERRNO_INVALID_CONTACT_STRING);
	OK(drmaa_init("", D));
	IS(drmaa_init(NULL, D), DRMAA_ERRNO_ALREADY_ACTIVE_SESSION);
	OK(drmaa_exit(D));
	IS(drmaa_exit(D), DRMAA_ERRNO_NO_ACTIVE_SESSION);
	snprintf(text, sizeof text, "socket=%s", getenv("EXECD_SOCKET"));
	unsetenv("EXECD_SOCKET");
	OK(drmaa_init(text, D));
	char contact[DRMAA_CONTACT_BUFFER];
	OK(drmaa_get_contact(contact, sizeof contact, D));
	TEXT(contact, text);
	OK(drmaa_get_contact(contact, 4, D));
	TEXT(contact, "soc");
	OK(drmaa_exit(D));
	setenv("EXECD", "/nowhere", 1);
	IS(drmaa_init(text, D), DRMAA_ERRNO_DRMS_INIT_FAILED);
}

static void attributes(void) {
	char name[DRMAA_ATTR_BUFFER];
	int n = 0, found = 0;
	drmaa_attr_names_t *names;
	drmaa_attr_values_t *values;
	drmaa_job_template_t *jt;
	OK(drmaa_get_attribute_names(&names, D));
	OK(drmaa_get_num_attr_names(names, &n));
	while (drmaa_get_next_attr_name(names, name, sizeof name) == DRMAA_ERRNO_SUCCESS) {
		static const char *const mandatory[] = {
			DRMAA_REMOTE_COMMAND, DRMAA_JS_STATE, DRMAA_WD, DRMAA_JOB_CATEGORY, DRMAA_NATIVE_SPECIFICATION, DRMAA_BLOCK_EMAIL,
			DRMAA_START_TIME, DRMAA_JOB_NAME, DRMAA_INPUT_PATH, DRMAA_OUTPUT_PATH, DRMAA_ERROR_PATH, DRMAA_JOIN_FILES};
		for (size_t i = 0; i < sizeof mandatory / sizeof *mandatory; i++)
			found += strcmp(mandatory[i], name) == 0;
		n--;
	}
	IS(n, 0);
	IS(found, 12);
	IS(drmaa_get_next_attr_name(names, name, sizeof name), DRMAA_ERRNO_NO_MORE_ELEMENTS);
	drmaa_release_attr_names(names);
	OK(drmaa_get_vector_attribute_names(&names, D));
	OK(drmaa_get_num_attr_names(names, &n));
	IS(n, 3);
	drmaa_release_attr_names(names);
	IS(drmaa_get_attribute_names(NULL, D), DRMAA_ERRNO_INVALID_ARGUMENT);

	IS(drmaa_allocate_job_template(NULL, D), DRMAA_ERRNO_INVALID_ARGUMENT);
	OK(drmaa_allocate_job_template(&jt, D));
	static const struct { const char *name, *value; int code; } cases[] = {
		{"drmaa_nonsense", "x", DRMAA_ERRNO_INVALID_ARGUMENT},
		{DRMAA_V_ARGV, "x", DRMAA_ERRNO_INVALID_ARGUMENT},
		{DRMAA_TRANSFER_FILES, "ioe", DRMAA_ERRNO_INVALID_ARGUMENT},
		{DRMAA_DEADLINE_TIME, "10:00", DRMAA_ERRNO_INVALID_ARGUMENT},
		{NULL, "x", DRMAA_ERRNO_INVALID_ARGUMENT},
		{DRMAA_WD, NULL, DRMAA_ERRNO_INVALID_ARGUMENT},
		{DRMAA_JS_STATE, "drmaa_hold", 0},
		{DRMAA_JS_STATE, "drmaa_active", 0},
		{DRMAA_JS_STATE, "hold", DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE},
		{DRMAA_BLOCK_EMAIL, "0", 0},
		{DRMAA_BLOCK_EMAIL, "y", DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE},
		{DRMAA_JOIN_FILES, "n", 0},
		{DRMAA_JOIN_FILES, "1", DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE},
		{DRMAA_START_TIME, "2037/12/24 12:00:00 +01:00", 0},
		{DRMAA_START_TIME, "12:00", 0},
		{DRMAA_START_TIME, "1:00", 0},
		{DRMAA_START_TIME, "24:00", DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT},
		{DRMAA_START_TIME, "tomorrow", DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT},
		{DRMAA_INPUT_PATH, ":/dev/null", 0},
		{DRMAA_INPUT_PATH, "host:/dev/null", 0},
		{DRMAA_INPUT_PATH, "/dev/null", DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT},
		{DRMAA_WCT_HLIMIT, "1:00:00", 0},
		{DRMAA_WCT_HLIMIT, "30", 0},
		{DRMAA_WCT_HLIMIT, "1h", DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT},
		{DRMAA_DURATION_SLIMIT, "-1", DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT},
		{DRMAA_JOB_NAME, "a name", 0},
		{DRMAA_JOB_NAME, "", DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE},
		{DRMAA_REMOTE_COMMAND, "", DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int code = drmaa_set_attribute(jt, cases[i].name, cases[i].value, D);
		if (code != cases[i].code)
			printf("%s=%s: ", cases[i].name, cases[i].value);
		IS(code, cases[i].code);
	}
	IS(drmaa_set_attribute(NULL, DRMAA_WD, "/", D), DRMAA_ERRNO_INVALID_ARGUMENT);
	OK(drmaa_get_attribute(jt, DRMAA_JS_STATE, name, sizeof name, D));
	TEXT(name, "drmaa_active"); /* what was refused has changed nothing */
	OK(drmaa_get_attribute(jt, DRMAA_JOB_NAME, name, 5, D));
	TEXT(name, "a na");
	IS(drmaa_get_attribute(jt, DRMAA_WD, name, sizeof name, D), DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE);
	IS(drmaa_get_attribute(jt, "drmaa_nonsense", name, sizeof name, D), DRMAA_ERRNO_INVALID_ARGUMENT);

	const char *argv[] = {"a b", "", "c", NULL}, *env[] = {"A=1", "B", NULL}, *nothing[] = {NULL};
	OK(drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, argv, D));
	IS(drmaa_set_vector_attribute(jt, DRMAA_V_ENV, env, D), DRMAA_ERRNO_INVALID_ATTRIBUTE_FORMAT);
	IS(drmaa_set_vector_attribute(jt, DRMAA_WD, argv, D), DRMAA_ERRNO_INVALID_ARGUMENT);
	IS(drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, NULL, D), DRMAA_ERRNO_INVALID_ARGUMENT);
	OK(drmaa_get_vector_attribute(jt, DRMAA_V_ARGV, &values, D));
	OK(drmaa_get_num_attr_values(values, &n));
	IS(n, 3);
	for (int i = 0; i < 3; i++) {
		OK(drmaa_get_next_attr_value(values, name, sizeof name));
		TEXT(name, argv[i]);
	}
	IS(drmaa_get_next_attr_value(values, name, sizeof name), DRMAA_ERRNO_NO_MORE_ELEMENTS);
	drmaa_release_attr_values(values);
	IS(drmaa_get_vector_attribute(jt, DRMAA_V_ENV, &values, D), DRMAA_ERRNO_INVALID_ATTRIBUTE_VALUE);
	OK(drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, nothing, D));
	OK(drmaa_get_vector_attribute(jt, DRMAA_V_ARGV, &values, D));
	OK(drmaa_get_num_attr_values(values, &n));
	IS(n, 0);
	drmaa_release_attr_values(values);
	OK(drmaa_delete_job_template(jt, D));
	IS(drmaa_delete_job_template(jt, D), DRMAA_ERRNO_INVALID_ARGUMENT);
	IS(drmaa_set_attribute(jt, DRMAA_WD, "/", D), DRMAA_ERRNO_INVALID_ARGUMENT);
}

static void empty(void) {
	const char *all[] = {DRMAA_JOB_IDS_SESSION_ALL, NULL}, *other[] = {"4000000", NULL};
	int n;
	IS(drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, NULL, 0, &n, FOREVER, NULL, D), DRMAA_ERRNO_INVALID_JOB);
	IS(drmaa_wait("4000000", NULL, 0, &n, FOREVER, NULL, D), DRMAA_ERRNO_INVALID_JOB);
	IS(drmaa_wait("nonsense", NULL, 0, &n, FOREVER, NULL, D), DRMAA_ERRNO_INVALID_JOB);
	OK(drmaa_synchronize(all, FOREVER, 1, D));
	OK(drmaa_synchronize(all, FOREVER, 0, D));
	IS(drmaa_synchronize(other, FOREVER, 0, D), DRMAA_ERRNO_INVALID_JOB);
	for (int action = DRMAA_CONTROL_SUSPEND; action <= DRMAA_CONTROL_TERMINATE; action++) {
		OK(drmaa_control(DRMAA_JOB_IDS_SESSION_ALL, action, D));
		IS(drmaa_control("4000000", action, D), DRMAA_ERRNO_INVALID_JOB);
	}
	IS(drmaa_control("1", 99, D), DRMAA_ERRNO_INVALID_ARGUMENT);
	IS(drmaa_control(NULL, DRMAA_CONTROL_HOLD, D), DRMAA_ERRNO_INVALID_ARGUMENT);
	IS(drmaa_job_ps("4000000", &n, D), DRMAA_ERRNO_INVALID_JOB);
	IS(drmaa_job_ps("1", NULL, D), DRMAA_ERRNO_INVALID_ARGUMENT);
	IS(drmaa_wait("1", NULL, 0, NULL, -2, NULL, D), DRMAA_ERRNO_INVALID_ARGUMENT);
}

static void waiting(void) {
	char id[64], out[64], text[64], signal[DRMAA_SIGNAL_BUFFER];
	int stat, v;
	drmaa_attr_values_t *usage = NULL;
	submit("exit 7", id, sizeof id);
	UNTIL(id, DRMAA_PS_DONE); /* whatever its exit status, as in Grid Engine */
	OK(drmaa_wait(id, out, sizeof out, &stat, FOREVER, &usage, D));
	TEXT(out, id);
	OK(drmaa_wifexited(&v, stat, D));
	IS(v, 1);
	OK(drmaa_wexitstatus(&v, stat, D));
	IS(v, 7);
	OK(drmaa_wifsignaled(&v, stat, D));
	IS(v, 0);
	OK(drmaa_wifaborted(&v, stat, D));
	IS(v, 0);
	OK(drmaa_wtermsig(signal, sizeof signal, stat, D)); /* some programs call all functions for every stat */
	TEXT(signal, "unknown signal");
	int found = 0;
	while (drmaa_get_next_attr_value(usage, text, sizeof text) == DRMAA_ERRNO_SUCCESS)
		found += strncmp(text, "ru_wallclock=", 13) == 0 || strncmp(text, "exit_status=7.", 14) == 0;
	IS(found, 2);
	drmaa_release_attr_values(usage);
	IS(drmaa_wait(id, out, sizeof out, &stat, FOREVER, NULL, D), DRMAA_ERRNO_INVALID_JOB);
	IS(drmaa_job_ps(id, &v, D), DRMAA_ERRNO_INVALID_JOB);
	/* It has finished: there is nothing to wait for. */
	const char *reaped[] = {id, NULL}, *other[] = {id, "4000000", NULL}, *twice[] = {id, id, NULL};
	OK(drmaa_synchronize(reaped, DRMAA_TIMEOUT_NO_WAIT, 0, D));
	OK(drmaa_synchronize(twice, FOREVER, 1, D));
	IS(drmaa_synchronize(other, DRMAA_TIMEOUT_NO_WAIT, 0, D), DRMAA_ERRNO_INVALID_JOB);

	submit("kill -9 $$", id, sizeof id);
	UNTIL(id, DRMAA_PS_FAILED);
	OK(drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, out, sizeof out, &stat, FOREVER, NULL, D));
	TEXT(out, id);
	OK(drmaa_wifsignaled(&v, stat, D));
	IS(v, 1);
	OK(drmaa_wtermsig(signal, sizeof signal, stat, D));
	TEXT(signal, "SIGKILL");
	OK(drmaa_wifexited(&v, stat, D));
	IS(v, 0);
	OK(drmaa_wcoredump(&v, stat, D));
	IS(v, 0);

	submit("sleep 30", id, sizeof id);
	IS(drmaa_wait(id, NULL, 0, NULL, DRMAA_TIMEOUT_NO_WAIT, NULL, D), DRMAA_ERRNO_EXIT_TIMEOUT);
	time_t before = time(NULL);
	IS(drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, NULL, 0, NULL, 2, NULL, D), DRMAA_ERRNO_EXIT_TIMEOUT);
	IS(time(NULL) - before >= 1, 1);
	const char *list[] = {id, NULL};
	IS(drmaa_synchronize(list, 1, 1, D), DRMAA_ERRNO_EXIT_TIMEOUT);
	OK(drmaa_control(id, DRMAA_CONTROL_TERMINATE, D));
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
	OK(drmaa_wifexited(&v, stat, D));
	IS(v, 0);
}

static void bulk(void) {
	char id[64], path[512], text[64], dir[256];
	int n = 0, stat;
	drmaa_job_ids_t *ids;
	drmaa_job_template_t *jt = template("echo $SGE_TASK_ID; pwd >&2; test $SGE_TASK_ID = undefined || exit $SGE_TASK_ID");
	if (!getcwd(dir, sizeof dir))
		abort();
	IS(drmaa_run_bulk_jobs(&ids, jt, 0, 2, 1, D), DRMAA_ERRNO_INVALID_ARGUMENT);
	IS(drmaa_run_bulk_jobs(&ids, jt, 1, 2, 0, D), DRMAA_ERRNO_INVALID_ARGUMENT);
	IS(drmaa_run_bulk_jobs(&ids, jt, 2, 1, 1, D), DRMAA_ERRNO_INVALID_ARGUMENT);
	snprintf(path, sizeof path, ":%s/bulk." DRMAA_PLACEHOLDER_INCR ".out", dir);
	OK(drmaa_set_attribute(jt, DRMAA_JOIN_FILES, "n", D));
	OK(drmaa_set_attribute(jt, DRMAA_ERROR_PATH, ":/dev/null", D));
	OK(drmaa_set_attribute(jt, DRMAA_OUTPUT_PATH, path, D));
	OK(drmaa_run_bulk_jobs(&ids, jt, 2, 6, 2, D));
	OK(drmaa_get_num_job_ids(ids, &n));
	IS(n, 3);
	for (int i = 2; i <= 6; i += 2) {
		OK(drmaa_get_next_job_id(ids, id, sizeof id));
		OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
		OK(drmaa_wexitstatus(&n, stat, D));
		IS(n, i);
		snprintf(path, sizeof path, "%s/bulk.%d.out", dir, i);
		read_file(path, text, sizeof text);
		IS(atoi(text), i);
	}
	IS(drmaa_get_next_job_id(ids, id, sizeof id), DRMAA_ERRNO_NO_MORE_ELEMENTS);
	drmaa_release_job_ids(ids);

	/* An increment below 0, and the index in the working directory. */
	snprintf(path, sizeof path, "%s/wd" DRMAA_PLACEHOLDER_INCR, dir);
	OK(drmaa_set_attribute(jt, DRMAA_WD, path, D));
	OK(drmaa_set_attribute(jt, DRMAA_OUTPUT_PATH, ":/dev/null", D));
	OK(drmaa_set_attribute(jt, DRMAA_ERROR_PATH, ":" DRMAA_PLACEHOLDER_WD "/err", D));
	OK(drmaa_run_bulk_jobs(&ids, jt, 2, 1, -1, D));
	OK(drmaa_get_num_job_ids(ids, &n));
	IS(n, 2);
	drmaa_release_job_ids(ids);
	const char *all[] = {DRMAA_JOB_IDS_SESSION_ALL, NULL};
	OK(drmaa_synchronize(all, FOREVER, 1, D));
	for (int i = 1; i <= 2; i++) {
		char want[512], got[512];
		snprintf(path, sizeof path, "%s/wd%d/err", dir, i);
		snprintf(want, sizeof want, "%s/wd%d\n", dir, i);
		read_file(path, got, sizeof got);
		TEXT(got, want);
	}
	OK(drmaa_delete_job_template(jt, D));
}

static void control(void) {
	char id[64];
	int stat, v;
	drmaa_job_template_t *jt = template("sleep 100");
	OK(drmaa_set_attribute(jt, DRMAA_JS_STATE, DRMAA_SUBMISSION_STATE_HOLD, D));
	OK(drmaa_run_job(id, sizeof id, jt, D));
	UNTIL(id, DRMAA_PS_USER_ON_HOLD);
	IS(drmaa_control(id, DRMAA_CONTROL_HOLD, D), DRMAA_ERRNO_HOLD_INCONSISTENT_STATE);
	IS(drmaa_control(id, DRMAA_CONTROL_SUSPEND, D), DRMAA_ERRNO_SUSPEND_INCONSISTENT_STATE);
	IS(drmaa_control(id, DRMAA_CONTROL_RESUME, D), DRMAA_ERRNO_RESUME_INCONSISTENT_STATE);
	OK(drmaa_control(id, DRMAA_CONTROL_RELEASE, D));
	UNTIL(id, DRMAA_PS_RUNNING);
	IS(drmaa_control(id, DRMAA_CONTROL_RELEASE, D), DRMAA_ERRNO_RELEASE_INCONSISTENT_STATE);
	IS(drmaa_control(id, DRMAA_CONTROL_HOLD, D), DRMAA_ERRNO_HOLD_INCONSISTENT_STATE);
	OK(drmaa_control(id, DRMAA_CONTROL_SUSPEND, D));
	UNTIL(id, DRMAA_PS_USER_SUSPENDED);
	IS(drmaa_control(id, DRMAA_CONTROL_SUSPEND, D), DRMAA_ERRNO_SUSPEND_INCONSISTENT_STATE);
	OK(drmaa_control(DRMAA_JOB_IDS_SESSION_ALL, DRMAA_CONTROL_RESUME, D));
	UNTIL(id, DRMAA_PS_RUNNING);
	OK(drmaa_control(id, DRMAA_CONTROL_TERMINATE, D));
	UNTIL(id, DRMAA_PS_FAILED);
	IS(drmaa_control(id, DRMAA_CONTROL_TERMINATE, D), DRMAA_ERRNO_INVALID_JOB);
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
	OK(drmaa_wifsignaled(&v, stat, D));
	IS(v, 1);

	/* Deleted before they ran: a job, and tasks of an array job. */
	drmaa_job_ids_t *ids;
	OK(drmaa_run_job(id, sizeof id, jt, D));
	OK(drmaa_control(id, DRMAA_CONTROL_TERMINATE, D));
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
	OK(drmaa_wifaborted(&v, stat, D));
	IS(v, 1);
	OK(drmaa_wifexited(&v, stat, D));
	IS(v, 0);
	OK(drmaa_run_bulk_jobs(&ids, jt, 1, 3, 1, D));
	OK(drmaa_get_next_job_id(ids, id, sizeof id));
	OK(drmaa_control(id, DRMAA_CONTROL_TERMINATE, D));
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
	OK(drmaa_wifaborted(&v, stat, D));
	IS(v, 1);
	OK(drmaa_get_next_job_id(ids, id, sizeof id));
	UNTIL(id, DRMAA_PS_USER_ON_HOLD);
	/* The number of an array job stands for its remaining tasks, but only here. */
	char array[64];
	snprintf(array, sizeof array, "%d", atoi(id));
	IS(drmaa_control(array, DRMAA_CONTROL_SUSPEND, D), DRMAA_ERRNO_SUSPEND_INCONSISTENT_STATE);
	OK(drmaa_control(array, DRMAA_CONTROL_RELEASE, D));
	IS(drmaa_job_ps(array, &v, D), DRMAA_ERRNO_INVALID_JOB);
	IS(drmaa_wait(array, NULL, 0, NULL, FOREVER, NULL, D), DRMAA_ERRNO_INVALID_JOB);
	UNTIL(id, DRMAA_PS_RUNNING);
	OK(drmaa_control(array, DRMAA_CONTROL_TERMINATE, D));
	UNTIL(id, DRMAA_PS_FAILED);
	const char *all[] = {DRMAA_JOB_IDS_SESSION_ALL, NULL};
	OK(drmaa_synchronize(all, FOREVER, 0, D));
	OK(drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, NULL, 0, &stat, FOREVER, NULL, D));
	OK(drmaa_synchronize(all, FOREVER, 1, D));
	IS(drmaa_control(array, DRMAA_CONTROL_TERMINATE, D), DRMAA_ERRNO_INVALID_JOB);
	IS(drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, NULL, 0, &stat, FOREVER, NULL, D), DRMAA_ERRNO_INVALID_JOB);
	drmaa_release_job_ids(ids);
	OK(drmaa_delete_job_template(jt, D));
}

static void failing(void) {
	char id[64];
	int stat, v;
	drmaa_job_template_t *jt = template("true");
	OK(drmaa_set_attribute(jt, DRMAA_INPUT_PATH, ":/nowhere/input", D));
	OK(drmaa_run_job(id, sizeof id, jt, D));
	UNTIL(id, DRMAA_PS_FAILED);
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
	OK(drmaa_wifaborted(&v, stat, D));
	IS(v, 1);
	OK(drmaa_delete_job_template(jt, D));

	OK(drmaa_allocate_job_template(&jt, D));
	IS(drmaa_run_job(id, sizeof id, jt, D), DRMAA_ERRNO_DENIED_BY_DRM);
	OK(drmaa_set_attribute(jt, DRMAA_REMOTE_COMMAND, "/nowhere/program", D));
	OK(drmaa_set_attribute(jt, DRMAA_NATIVE_SPECIFICATION, "-q nosuch.q", D));
	IS(drmaa_run_job(id, sizeof id, jt, D), DRMAA_ERRNO_DENIED_BY_DRM);
	OK(drmaa_set_attribute(jt, DRMAA_NATIVE_SPECIFICATION, "-l nosuch=1", D));
	IS(drmaa_run_job(id, sizeof id, jt, D), DRMAA_ERRNO_DENIED_BY_DRM);
	OK(drmaa_set_attribute(jt, DRMAA_NATIVE_SPECIFICATION, "-r n other.sh", D));
	IS(drmaa_run_job(id, sizeof id, jt, D), DRMAA_ERRNO_DENIED_BY_DRM);
	OK(drmaa_set_attribute(jt, DRMAA_NATIVE_SPECIFICATION, "-o /dev/null -j y -t 1-5 -sync y -cwd", D));
	OK(drmaa_run_job(id, sizeof id, jt, D));
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
	OK(drmaa_wifaborted(&v, stat, D));
	IS(v, 1);
	OK(drmaa_delete_job_template(jt, D));

	jt = template("sleep 100");
	OK(drmaa_set_attribute(jt, DRMAA_WCT_HLIMIT, "1", D));
	OK(drmaa_run_job(id, sizeof id, jt, D));
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
	OK(drmaa_wifsignaled(&v, stat, D));
	IS(v, 1);
	OK(drmaa_delete_job_template(jt, D));
}

static void surroundings(void) {
	char id[64], got[1024], want[1024], path[512], dir[256];
	int stat;
	if (!getcwd(dir, sizeof dir))
		abort();
	drmaa_job_template_t *jt = template("echo \"$A|$B|$JOB_NAME|$2\"; pwd; cat");
	const char *env[] = {"A=1,2 \"x\" 'y'", "B=plain", NULL};
	const char *argv[] = {"-c", "echo \"$A|$B|$JOB_NAME|$0|$1\"; pwd; cat", "a, b", "", NULL};
	setenv("HOME", dir, 1);
	read_file("/dev/null", got, sizeof got);
	OK(drmaa_set_vector_attribute(jt, DRMAA_V_ENV, env, D));
	OK(drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, argv, D));
	OK(drmaa_set_attribute(jt, DRMAA_JOB_NAME, "named", D));
	OK(drmaa_set_attribute(jt, DRMAA_WD, DRMAA_PLACEHOLDER_HD "/wd1", D));
	OK(drmaa_set_attribute(jt, DRMAA_INPUT_PATH, ":" DRMAA_PLACEHOLDER_HD "/input", D));
	OK(drmaa_set_attribute(jt, DRMAA_OUTPUT_PATH, ":" DRMAA_PLACEHOLDER_WD "/out", D));
	OK(drmaa_set_attribute(jt, DRMAA_START_TIME, "2001/01/01 00:00", D));
	OK(drmaa_set_attribute(jt, DRMAA_BLOCK_EMAIL, "1", D));
	OK(drmaa_run_job(id, sizeof id, jt, D));
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
	snprintf(path, sizeof path, "%s/wd1/out", dir);
	read_file(path, got, sizeof got);
	snprintf(want, sizeof want, "1,2 \"x\" 'y'|plain|named|a, b|\n%s/wd1\nthe input\n", dir);
	TEXT(got, want);

	/* An empty directory is the home directory. A file is on this host, whatever its host is called. */
	OK(drmaa_set_attribute(jt, DRMAA_WD, "", D));
	OK(drmaa_set_attribute(jt, DRMAA_OUTPUT_PATH, "no.such.host:" DRMAA_PLACEHOLDER_HD "/hosted", D));
	OK(drmaa_run_job(id, sizeof id, jt, D));
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
	snprintf(path, sizeof path, "%s/hosted", dir);
	read_file(path, got, sizeof got);
	snprintf(want, sizeof want, "1,2 \"x\" 'y'|plain|named|a, b|\n%s\nthe input\n", dir);
	TEXT(got, want);

	/* A single job has no index. */
	OK(drmaa_set_attribute(jt, DRMAA_OUTPUT_PATH, ":" DRMAA_PLACEHOLDER_HD "/" DRMAA_PLACEHOLDER_INCR, D));
	IS(drmaa_run_job(id, sizeof id, jt, D), DRMAA_ERRNO_DENIED_BY_DRM);
	OK(drmaa_set_attribute(jt, DRMAA_OUTPUT_PATH, ":/dev/null", D));
	OK(drmaa_set_attribute(jt, DRMAA_WD, "/tmp/" DRMAA_PLACEHOLDER_INCR, D));
	IS(drmaa_run_job(id, sizeof id, jt, D), DRMAA_ERRNO_DENIED_BY_DRM);
	OK(drmaa_set_attribute(jt, DRMAA_WD, DRMAA_PLACEHOLDER_HD, D));

	/* A category with options, one without, and one that nobody knows. */
	FILE *f = fopen(".qtask", "w");
	fputs("# comment\nheld.cat -h -N of_category\nempty.cat\n", f);
	fclose(f);
	OK(drmaa_set_attribute(jt, DRMAA_JOB_CATEGORY, "unknown.cat", D));
	IS(drmaa_run_job(id, sizeof id, jt, D), DRMAA_ERRNO_DENIED_BY_DRM);
	OK(drmaa_set_attribute(jt, DRMAA_JOB_CATEGORY, "held.cat", D));
	OK(drmaa_run_job(id, sizeof id, jt, D));
	UNTIL(id, DRMAA_PS_USER_ON_HOLD);
	OK(drmaa_control(id, DRMAA_CONTROL_TERMINATE, D));
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));

	/* A time that is to come. */
	OK(drmaa_set_attribute(jt, DRMAA_JOB_CATEGORY, "empty.cat", D));
	OK(drmaa_set_attribute(jt, DRMAA_START_TIME, "2037/01/01 00:00", D));
	OK(drmaa_run_job(id, sizeof id, jt, D));
	UNTIL(id, DRMAA_PS_SYSTEM_ON_HOLD);
	IS(drmaa_control(id, DRMAA_CONTROL_RELEASE, D), DRMAA_ERRNO_RELEASE_INCONSISTENT_STATE);
	OK(drmaa_control(id, DRMAA_CONTROL_HOLD, D));
	UNTIL(id, DRMAA_PS_USER_SYSTEM_ON_HOLD);
	OK(drmaa_control(id, DRMAA_CONTROL_TERMINATE, D));
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
	OK(drmaa_delete_job_template(jt, D));
}

static volatile sig_atomic_t alarms, children;
static void on_alarm(int signal) { (void)signal; alarms++; }
static void on_child(int signal) { (void)signal; children++; }

/* A program with handlers of its own, and with a loop that waits for all children. */
static void signals(void) {
	char id[64];
	int stat, v;
	struct sigaction alarm = {.sa_handler = on_alarm}, child = {.sa_handler = on_child};
	sigaction(SIGALRM, &alarm, NULL); /* system calls are interrupted */
	sigaction(SIGCHLD, &child, NULL);
	struct itimerval often = {{0, 20000}, {0, 20000}};
	setitimer(ITIMER_REAL, &often, NULL);
	OK(drmaa_init(NULL, D));
	submit("sleep 1; exit 5", id, sizeof id);
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
	OK(drmaa_wexitstatus(&v, stat, D));
	IS(v, 5);
	struct sigaction now;
	sigaction(SIGALRM, NULL, &now);
	IS(now.sa_handler == on_alarm, 1);
	IS(alarms > 10, 1);
	IS(children, 0);
	while ((v = wait(NULL)) < 0 && errno == EINTR)
		;
	IS(v, -1);
	IS(errno, ECHILD);
	OK(drmaa_exit(D));
	IS(children, 0);
}

struct waiter { const char *id; int code, status; };

static void *wait_in_thread(void *arg) {
	struct waiter *w = arg;
	int stat = 0;
	w->code = drmaa_wait(w->id, NULL, 0, &stat, FOREVER, NULL, NULL, 0);
	if (w->code == 0)
		drmaa_wexitstatus(&w->status, stat, NULL, 0);
	return NULL;
}

static void threads(void) {
	enum { N = 12 };
	pthread_t t[N];
	struct waiter w[N];
	char ids[N][64];
	/* Several threads wait for any job: each gets one. */
	for (int i = 0; i < N; i++)
		submit("exit 0", ids[i], sizeof ids[i]);
	for (int i = 0; i < N; i++) {
		w[i] = (struct waiter){DRMAA_JOB_IDS_SESSION_ANY, -1, -1};
		pthread_create(&t[i], NULL, wait_in_thread, &w[i]);
	}
	for (int i = 0; i < N; i++) {
		pthread_join(t[i], NULL);
		IS(w[i].code, 0);
	}
	/* Two threads wait for one job: one of them gets it. */
	submit("sleep 1", ids[0], sizeof ids[0]);
	for (int i = 0; i < 2; i++) {
		w[i] = (struct waiter){ids[0], -1, -1};
		pthread_create(&t[i], NULL, wait_in_thread, &w[i]);
	}
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	IS(w[0].code + w[1].code, DRMAA_ERRNO_INVALID_JOB);
	/* The session ends while a thread waits. */
	submit("sleep 100", ids[0], sizeof ids[0]);
	w[0] = (struct waiter){ids[0], -1, -1};
	pthread_create(&t[0], NULL, wait_in_thread, &w[0]);
	usleep(300000);
	OK(drmaa_exit(D));
	pthread_join(t[0], NULL);
	IS(w[0].code, DRMAA_ERRNO_NO_ACTIVE_SESSION);
	/* The next session does not have the job, and may control it all the same. */
	OK(drmaa_init(NULL, D));
	IS(drmaa_wait(ids[0], NULL, 0, NULL, FOREVER, NULL, D), DRMAA_ERRNO_INVALID_JOB);
	UNTIL(ids[0], DRMAA_PS_RUNNING);
	OK(drmaa_control(ids[0], DRMAA_CONTROL_TERMINATE, D));
}

/* kill_helpers kills the helpers of this process, and returns their number. */
static int kill_helpers(void) {
	char want[64], got[64], path[300];
	int n = 0, len = snprintf(want, sizeof want, "execd%cdrmaa-helper%c%d", 0, 0, (int)getpid()) + 1;
	DIR *proc = opendir("/proc");
	for (struct dirent *e; proc && (e = readdir(proc));) {
		memset(got, 0, sizeof got);
		snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
		FILE *f = atoi(e->d_name) > 0 ? fopen(path, "r") : NULL;
		if (!f)
			continue;
		if (fread(got, 1, sizeof got, f) == (size_t)len && memcmp(got, want, len) == 0)
			n += kill(atoi(e->d_name), SIGKILL) == 0;
		fclose(f);
	}
	if (proc)
		closedir(proc);
	return n;
}

/* The helper is killed: calls fail, and a new session works. */
static void helper_killed(void) {
	char id[64];
	int stat, code;
	submit("true", id, sizeof id);
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
	IS(kill_helpers(), 1);
	/* Its sockets close some time after the signal. */
	while ((code = drmaa_job_ps("4000000", &stat, D)) == DRMAA_ERRNO_INVALID_JOB)
		usleep(10000);
	IS(code, DRMAA_ERRNO_DRM_COMMUNICATION_FAILURE);
	OK(drmaa_exit(D));
	OK(drmaa_init(NULL, D));
	submit("true", id, sizeof id);
	OK(drmaa_wait(id, NULL, 0, &stat, FOREVER, NULL, D));
}

/* Many jobs, as the second argument says, of which some fail. */
static void many(int n) {
	int stat, status, sum = 0, want = 0;
	char id[64];
	drmaa_job_template_t *jt[3] = {template("exit 0"), template("exit 1"), template("exit 2")};
	for (int i = 0; i < n; i++) {
		OK(drmaa_run_job(id, sizeof id, jt[i % 3], D));
		want += i % 3;
	}
	printf("submitted\n");
	fflush(stdout);
	for (int i = 0; i < n; i++) {
		OK(drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, id, sizeof id, &stat, FOREVER, NULL, D));
		OK(drmaa_wexitstatus(&status, stat, D));
		sum += status;
		if (failures > 20)
			return;
	}
	IS(sum, want);
	IS(drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, id, sizeof id, &stat, FOREVER, NULL, D), DRMAA_ERRNO_INVALID_JOB);
	for (int i = 0; i < 3; i++)
		OK(drmaa_delete_job_template(jt[i], D));
}

/* Makes a call again and again, until it is killed. The jobs that it submits do not start. */
static void again(const char *call) {
	const char *held[] = {DRMAA_JOB_IDS_SESSION_ALL, NULL};
	char id[64], other[64];
	int n;
	drmaa_job_ids_t *ids;
	drmaa_job_template_t *jt = template("true"), *more;
	OK(drmaa_set_attribute(jt, DRMAA_JS_STATE, DRMAA_SUBMISSION_STATE_HOLD, D));
	OK(drmaa_set_attribute(jt, DRMAA_START_TIME, "2037/01/01 00:00", D)); /* for those that it releases */
	OK(drmaa_set_attribute(jt, DRMAA_JOB_NAME, "dies", D));
	OK(drmaa_run_job(id, sizeof id, jt, D));
	printf("begins\n");
	fflush(stdout);
	while (!failures)
		if (!strcmp(call, "init")) {
			OK(drmaa_exit(D));
			OK(drmaa_init(NULL, D));
		} else if (!strcmp(call, "template")) {
			more = template("true");
			OK(drmaa_get_attribute(more, DRMAA_JOIN_FILES, other, sizeof other, D));
			OK(drmaa_delete_job_template(more, D));
		} else if (!strcmp(call, "run_job")) {
			OK(drmaa_run_job(other, sizeof other, jt, D));
		} else if (!strcmp(call, "run_bulk_jobs")) {
			OK(drmaa_run_bulk_jobs(&ids, jt, 1, 3, 1, D));
			drmaa_release_job_ids(ids);
		} else if (!strcmp(call, "control")) {
			OK(drmaa_control(id, DRMAA_CONTROL_RELEASE, D));
			OK(drmaa_control(id, DRMAA_CONTROL_HOLD, D));
		} else if (!strcmp(call, "job_ps")) {
			OK(drmaa_job_ps(id, &n, D));
		} else if (!strcmp(call, "synchronize")) {
			IS(drmaa_synchronize(held, 1, 0, D), DRMAA_ERRNO_EXIT_TIMEOUT);
		} else if (!strcmp(call, "wait")) {
			IS(drmaa_wait(DRMAA_JOB_IDS_SESSION_ANY, NULL, 0, &n, 1, NULL, D), DRMAA_ERRNO_EXIT_TIMEOUT);
		} else {
			printf("unknown call\n");
			failures++;
		}
}

int main(int argc, char **argv) {
	const struct { const char *name; void (*run)(void); int without; } groups[] = {
		{"without session", without_session, 1}, {"sessions", sessions, 1}, {"attributes", attributes, 0}, {"empty session", empty, 0},
		{"wait", waiting, 0}, {"bulk jobs", bulk, 0}, {"control", control, 0}, {"failing jobs", failing, 0},
		{"surroundings", surroundings, 0}, {"signals", signals, 1}, {"threads", threads, 0}, {"killed helper", helper_killed, 0},
	};
	if (argc == 3 && strcmp(argv[1], "many") == 0) {
		OK(drmaa_init(NULL, D));
		many(atoi(argv[2]));
		OK(drmaa_exit(D));
		return failures != 0;
	}
	if (argc == 3 && strcmp(argv[1], "again") == 0) {
		OK(drmaa_init(NULL, D));
		again(argv[2]);
		return 1;
	}
	for (size_t i = 0; argc == 2 && i < sizeof groups / sizeof *groups; i++)
		if (strcmp(argv[1], groups[i].name) == 0) {
			if (!groups[i].without)
				OK(drmaa_init(NULL, D));
			groups[i].run();
			if (!groups[i].without)
				OK(drmaa_exit(D));
			return failures != 0;
		}
	printf("unknown group\n");
	return 2;
}
