qname                 big.q
hostlist              @big node1 node2 node3 node4 node5 node6 node7 node8 \
                      node9 node10 node11 node12 node13 node14 node15 node16 \
                      node17 node18 node19 node20 node21 node22 node23 node24 \
                      node25 node26 node27 node28 node29 node30
seq_no                0
load_thresholds       np_load_avg=1.75,load_avg=2.25,mem_free=1G,swap_free=2G, \
                      mem_used=3G,num_proc=1,swap_used=122G
suspend_thresholds    NONE
nsuspend              1
suspend_interval      00:05:00
priority              0
min_cpu_interval      00:05:00
processors            UNDEFINED
qtype                 BATCH,[node1=NONE],[node2=BATCH INTERACTIVE]
ckpt_list             NONE
pe_list               smp make,[@big=mpi-4 mpi-8 mpi-16],[node30=smp]
rerun                 TRUE
slots                 1,[node1=1],[node2=2],[node3=3],[node4=4],[node5=5], \
                      [node6=6],[node7=7],[node8=8],[node9=9],[node10=10], \
                      [node11=11],[node12=12],[node13=13],[node14=14], \
                      [node15=15],[node16=16],[node17=17],[node18=18], \
                      [node19=19],[node20=20],[node21=21],[node22=22], \
                      [node23=23],[node24=24],[node25=25],[node26=26], \
                      [node27=27],[node28=28],[node29=29],[node30=30]
tmpdir                /tmp
shell                 /bin/sh,[node1=/bin/bash]
prolog                root@/usr/local/bin/prolog  x
epilog                NONE
shell_start_mode      posix_compliant
starter_method        NONE
suspend_method        SIGTSTP
resume_method         NONE
terminate_method      /usr/bin/kill -TERM  $job_pid,[node2=15],[node3=TERM]
notify                90
owner_list            alice bob carol
user_lists            NONE
xuser_lists           NONE
subordinate_list      NONE
complex_values        h_vmem=4G,[node1=h_vmem=5G,num_proc=2]
projects              NONE
xprojects             NONE
calendar              NONE
initial_state         default
s_rt                  1::1
h_rt                  3600
s_cpu                 INFINITY
h_cpu                 INFINITY
s_fsize               INFINITY
h_fsize               INFINITY
s_data                INFINITY
h_data                INFINITY
s_stack               INFINITY
h_stack               INFINITY
s_core                INFINITY
h_core                INFINITY
s_rss                 INFINITY
h_rss                 INFINITY
s_vmem                INFINITY
h_vmem                4g,[node1=infinity]
