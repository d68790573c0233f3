package standalone

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// slurmLanguage holds the commands of Slurm.
var slurmLanguage = language{
	job: sbatch + "/tmp/slurm/true", tasks: sbatch + "--array=1-%d /tmp/slurm/true", script: "sbatch --parsable -D / -o /dev/null -n1 %s",
	list: "squeue", listAll: "squeue -h",
	remove: "scancel -Q -u $(id -un)",
	close:  "scontrol update PartitionName=all State=DOWN", open: "scontrol update PartitionName=all State=UP",
	number: "SLURM_JOB_ID",
}

const sbatch = "sbatch -Q -D / -o /dev/null -n1 "

// slurmConf describes a host with 512 simulated processors. Jobs are scheduled as soon as Slurm
// allows, and monitored once a second as with Grid Engine.
const slurmConf = `ClusterName=beside
SlurmctldHost=%[1]s
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/tmp/slurm/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdSpoolDir=/tmp/slurm/spool
StateSaveLocation=/tmp/slurm/state
SlurmctldPidFile=/tmp/slurm/slurmctld.pid
SlurmdPidFile=/tmp/slurm/slurmd.pid
SlurmctldLogFile=/tmp/slurm/slurmctld.log
SlurmdLogFile=/tmp/slurm/slurmd.log
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=default_queue_depth=100000,sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=5,bf_max_job_test=5000
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobCompType=jobcomp/filetxt
JobCompLoc=/tmp/slurm/jobcomp
MaxJobCount=200000
MaxArraySize=100001
MinJobAge=2
NodeName=%[1]s NodeAddr=10.77.7.1 CPUs=512 RealMemory=2000 State=UNKNOWN
PartitionName=all Nodes=%[1]s Default=YES MaxTime=INFINITE State=UP
`

// slurm starts Slurm, in namespaces like those of a Grid Engine cell; nil if it is not installed.
func slurm(b *testing.B) *system {
	for _, program := range []string{"slurmctld", "slurmd", "sbatch", "munged"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Logf("without Slurm: %v", err)
			return nil
		}
	}
	c := gridengine.Start(b, gridengine.Config{Bare: true})
	const dir = "/tmp/slurm/"
	testenv.WriteFile(b, c.Path(dir+"slurm.conf"), fmt.Sprintf(slurmConf, c.Host))
	l := slurmLanguage
	s := inside(c, system{TB: b, language: l, name: "Slurm", accounting: c.Path(dir + "jobcomp")})
	for _, run := range []*func(string) (string, error){&s.user, &s.root} {
		command := *run
		*run = func(script string) (string, error) {
			return command("export SLURM_CONF=" + dir + "slurm.conf; " + script)
		}
	}
	s.as(s.root, `cd /tmp/slurm && mkdir spool state && printf '#!/bin/true\n' >true && chmod 755 true
umask 077 && head -c 1024 /dev/urandom >key && umask 022
munged --force --socket=$PWD/munge --key-file=$PWD/key --pid-file=$PWD/munged.pid --log-file=$PWD/munged.log --seed-file=$PWD/seed 2>munged.err
slurmctld >/dev/null 2>&1 </dev/null && slurmd >/dev/null 2>&1 </dev/null`)
	s.until("the host takes jobs", func() bool {
		out, err := s.root("sinfo -h -t idle")
		return err == nil && out != ""
	})
	return s
}
