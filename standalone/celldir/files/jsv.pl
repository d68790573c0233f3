#!/usr/bin/perl
# A JSV that accepts every job, to begin with. Copy it, change the function of jsv_on_verify, and
# name the copy: qsub -jsv FILE for one job, jsv_url of qconf -mconf for all.
use strict;
use warnings;

use lib "$ENV{SGE_ROOT}/util/resources/jsv";
use JSV;

jsv_on_start(sub {
	# jsv_send_env();  # the functions for variables of the job need it
});

jsv_on_verify(sub {
	# if (jsv_get_param('b') eq 'y') {
	#	jsv_reject('Submit a script: programs are not accepted.');
	#	return;
	# }
	jsv_accept('accepted');
});

jsv_main();
