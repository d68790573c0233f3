#!/bin/sh
# A JSV that accepts every job, to begin with. Copy it, change jsv_on_verify, and name the copy:
# qsub -jsv FILE for one job, jsv_url of qconf -mconf for all.

jsv_on_start() {
	# jsv_send_env  # the functions for variables of the job need it
	return
}

jsv_on_verify() {
	# if [ "$(jsv_get_param b)" = y ]; then
	#	jsv_reject "Submit a script: programs are not accepted."
	#	return
	# fi
	jsv_accept "accepted"
}

. "${SGE_ROOT:?is not set}/util/resources/jsv/jsv_include.sh"
jsv_main
