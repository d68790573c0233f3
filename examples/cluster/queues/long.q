qname                 long.q
hostlist              @nodes
seq_no                1
slots                 2
pe_list               mpi smp
