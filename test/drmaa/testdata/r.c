/*
 * r.c calls libdrmaa for programs in R. The functions have the form that R's .C calls: all arguments
 * are pointers, strings are in vectors, and the error code is the last argument.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <drmaa.h>

#define FOREVER DRMAA_TIMEOUT_WAIT_FOREVER

static char diag[DRMAA_ERROR_STRING_BUFFER];
#define D diag, sizeof diag

void r_init(int *code) { *code = drmaa_init(NULL, D); }
void r_exit(int *code) { *code = drmaa_exit(D); }

/* r_run submits a script, as a bulk job if tasks is not 0. ids has one element for each job or task. */
void r_run(char **script, int *tasks, char **ids, int *code) {
	static char names[100][64];
	const char *argv[] = {"-c", *script, NULL};
	char dir[1024];
	drmaa_job_template_t *jt;
	drmaa_job_ids_t *list;
	*code = DRMAA_ERRNO_INTERNAL_ERROR;
	if (!getcwd(dir, sizeof dir) || *tasks > 100 || (*code = drmaa_allocate_job_template(&jt, D)))
		return;
	if (!(*code = drmaa_set_attribute(jt, DRMAA_WD, dir, D)) && !(*code = drmaa_set_attribute(jt, DRMAA_REMOTE_COMMAND, "/bin/sh", D)) &&
	    !(*code = drmaa_set_vector_attribute(jt, DRMAA_V_ARGV, argv, D)) && !(*code = drmaa_set_attribute(jt, DRMAA_OUTPUT_PATH, ":/dev/null", D)) &&
	    !(*code = drmaa_set_attribute(jt, DRMAA_JOIN_FILES, "y", D))) {
		if (!*tasks) {
			*code = drmaa_run_job(names[0], sizeof names[0], jt, D);
			ids[0] = names[0];
		} else if (!(*code = drmaa_run_bulk_jobs(&list, jt, 1, *tasks, 1, D))) {
			for (int i = 0; i < *tasks && !*code; i++) {
				*code = drmaa_get_next_job_id(list, names[i], sizeof names[i]);
				ids[i] = names[i];
			}
			drmaa_release_job_ids(list);
		}
	}
	drmaa_delete_job_template(jt, NULL, 0);
}

/* r_wait sets signaled, and status to the exit status or -1. */
void r_wait(char **id, int *signaled, int *status, int *code) {
	int stat, exited = 0;
	*status = -1;
	if ((*code = drmaa_wait(*id, NULL, 0, &stat, FOREVER, NULL, D)) || (*code = drmaa_wifsignaled(signaled, stat, D)) ||
	    (*code = drmaa_wifexited(&exited, stat, D)))
		return;
	if (exited)
		*code = drmaa_wexitstatus(status, stat, D);
}

void r_job_ps(char **id, int *state, int *code) { *code = drmaa_job_ps(*id, state, D); }
void r_terminate(char **id, int *code) { *code = drmaa_control(*id, DRMAA_CONTROL_TERMINATE, D); }
