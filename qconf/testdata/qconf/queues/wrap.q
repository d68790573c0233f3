qname                 wrap.q
hostlist              ge-node
seq_no                0
load_thresholds       NONE
suspend_thresholds    NONE
nsuspend              1
suspend_interval      00:05:00
priority              0
min_cpu_interval      00:05:00
processors            UNDEFINED
qtype                 BATCH INTERACTIVE,[node1=BATCH],[node2=INTERACTIVE], \
                      [node3=NONE],[node4=BATCH INTERACTIVE]
ckpt_list             NONE
pe_list               NONE
rerun                 FALSE
slots                 64
tmpdir                /tmp
shell                 /bin/sh
prolog                root@/usr/local/bin/prolog \
                      /an/argument-number-1;with;commas \
                      /an/argument-number-2;with;commas \
                      /an/argument-number-3;with;commas \
                      /an/argument-number-4;with;commas \
                      /an/argument-number-5;with;commas \
                      /an/argument-number-6;with;commas \
                      /an/argument-number-7;with;commas \
                      /an/argument-number-8;with;commas \
                      /an/argument-number-9;with;commas \
                      /an/argument-number-10;with;commas \
                      /an/argument-number-11;with;commas \
                      /an/argument-number-12;with;commas \
                      /an/argument-number-13;with;commas \
                      /an/argument-number-14;with;commas \
                      /an/argument-number-15;with;commas \
                      /an/argument-number-16;with;commas \
                      /an/argument-number-17;with;commas \
                      /an/argument-number-18;with;commas \
                      /an/argument-number-19;with;commas \
                      /an/argument-number-20;with;commas \
                      /an/argument-number-21;with;commas \
                      /an/argument-number-22;with;commas \
                      /an/argument-number-23;with;commas \
                      /an/argument-number-24;with;commas \
                      /an/argument-number-25;with;commas \
                      /an/argument-number-26;with;commas \
                      /an/argument-number-27;with;commas \
                      /an/argument-number-28;with;commas \
                      /an/argument-number-29;with;commas \
                      /an/argument-number-30;with;commas \
                      /an/argument-number-31;with;commas \
                      /an/argument-number-32;with;commas \
                      /an/argument-number-33;with;commas \
                      /an/argument-number-34;with;commas \
                      /an/argument-number-35;with;commas \
                      /an/argument-number-36;with;commas \
                      /an/argument-number-37;with;commas \
                      /an/argument-number-38;with;commas \
                      /an/argument-number-39;with;commas \
                      /an/argument-number-40;with;commas \
                      /an/argument-number-41;with;commas \
                      /an/argument-number-42;with;commas \
                      /an/argument-number-43;with;commas \
                      /an/argument-number-44;with;commas \
                      /an/argument-number-45;with;commas \
                      /an/argument-number-46;with;commas \
                      /an/argument-number-47;with;commas \
                      /an/argument-number-48;with;commas \
                      /an/argument-number-49;with;commas \
                      /an/argument-number-50;with;commas \
                      /an/argument-number-51;with;commas \
                      /an/argument-number-52;with;commas \
                      /an/argument-number-53;with;commas \
                      /an/argument-number-54;with;commas \
                      /an/argument-number-55;with;commas \
                      /an/argument-number-56;with;commas \
                      /an/argument-number-57;with;commas \
                      /an/argument-number-58;with;commas \
                      /an/argument-number-59;with;commas \
                      /an/argument-number-60;with;commas
epilog                /usr/local/bin/epilog \
                      --a-very-long-option-without-any-blank-at-all=value-which-goes-beyond-the-width-of-a-line \
                      --other
shell_start_mode      unix_behavior
starter_method        NONE
suspend_method        NONE
resume_method         NONE
terminate_method      /usr/bin/kill -TERM  $job_pid, \
                      [node2=/usr/local/lib/gridengine/methods/terminate-with-a-long-name \
                      $job_id $queue],[node3=TERM]
notify                00:00:05
owner_list            user1 user2 user3 user4 user5 user6 user7 user8 user9 \
                      user10 user11 user12 user13 user14 user15 user16 user17 \
                      user18 user19 user20 user21 user22 user23 user24 user25 \
                      user26 user27 user28 user29 user30 user31 user32 user33 \
                      user34 user35 user36 user37 user38 user39 user40
user_lists            NONE,[@big=deadlineusers],[node1=arusers deadlineusers], \
                      [node2=arusers deadlineusers]
xuser_lists           NONE
subordinate_list      slots=4(big.q:1:sr, all.q:2:lr)
complex_values        NONE,[@big=num_proc=3,mem_total=4G,mem_free=5G, \
                      swap_total=6G,swap_free=7G,virtual_total=8G], \
                      [node1=num_proc=4]
projects              NONE
xprojects             NONE
calendar              NONE
initial_state         default
s_rt                  1:0:0,[@big=24:00:00],[node1=100:00:00], \
                      [node2=200:00:00],[node3=300:00:00]
h_rt                  INFINITY
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
h_vmem                INFINITY
