# As qconf -sq prints a queue; what is missing has the default of Grid Engine's
# template. Procedures need absolute paths: demo.sh puts its own in place of
# /opt/demo.
qname                 demo.q
hostlist              NONE
slots                 2
load_thresholds       NONE
shell                 /bin/sh
shell_start_mode      posix_compliant
prolog                /opt/demo/procedures/prolog $job_id $job_owner
epilog                /opt/demo/procedures/epilog $job_id
starter_method        /opt/demo/procedures/starter
h_rt                  1:00:00
