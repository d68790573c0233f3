# As qconf -sq prints a queue; what is missing has the default of Grid Engine's template.
qname                 short.q
hostlist              @nodes
seq_no                0
slots                 4
pe_list               mpi smp
h_rt                  1:0:0
