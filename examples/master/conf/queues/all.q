# As qconf -sq prints a queue; what is missing has the default of Grid Engine's template.
qname                 all.q
hostlist              node1
slots                 4
pe_list               smp
shell                 /bin/sh
load_thresholds       NONE
