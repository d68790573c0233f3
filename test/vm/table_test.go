package main

import (
	"time"

	"github.com/execd-project/execd/test/vm/guest"
)

// machine is a guest with its tests.
type machine struct {
	guest.Machine
	soak  bool // takes long: runs in make soak only
	waits bool // its tests wait more than they compute
	cut   bool // it has a disk, and is started again with it after its first step has asked to cut the power
	steps []step
}

// step is a run of the tests of one package. It fails if there are none, or if one skips.
type step struct {
	pkg        string   // its directory in this module
	run, skip  string   // as go test has them; of skip "TEST|/SUBTEST", in this order
	user       string   // user of the tests, in a delegated control group; "" is root
	programs   bool     // execd and sge_shepherd-go are in the folder testenv.ProgramsEnv
	failpoints bool     // the tests are built with failpoints (internal/failpoint)
	gridEngine bool     // the real Grid Engine is available, if this machine has it
	env        []string // more environment
	properties []string // of the unit in which systemd runs them: "MemoryMax=1G"
}

// The names of users in guests.
const alice = "alice"

// patience is long enough for a busy machine that has to emulate processors. A guest usually needs a
// fraction of it.
const patience = 10 * time.Minute

// The tests that need no special kernel: they run once, outside of guests.
const (
	pureOfGroup  = "^Test(PathsRoundTrip|Parse.*|Value|MemoryStat|MemoryLimitNames|BusyErrorSaysWho)$|^Fuzz"
	pureOfCgroup = "^Test(Survey|Name|NoCgroups)$|^Fuzz"
)

// executables matches some tests of cmd/execd, which show that jobs run.
const executables = "^TestScripts$/./^plain$|^Test(JobAgainstItsShepherd|PlantedTmpdir|GroupIDOfAStranger)$"

// groupsOfJobs are the tests of agent/launch, and of cmd/execd, about the control
// groups of jobs.
const (
	groupsOfJobs    = "Group|Left|Limits|Devices|Told"
	groupsInCommand = "^Test(JobsAreInAGroup|TasksHaveGroups.*|NextRunCleansUpAfterKilledSupervisor|DeniedDevices|Doctor|JobsOutliveRestart)$"
)

// cores matches the tests that need two sockets.
const cores = "^Test(CoresOf|ProcessorsOfAQueueOnTwoSockets|AffinityInAGroup)"

// gpusOfRun matches the test that a job of execd run can open its GPU and no other.
const gpusOfRun = "^TestGPUsOfRootsRun$"

// directoriesOfJobs are the tests of agent/launch about the directories of jobs: their own /tmp, and
// the size of TMPDIR.
const directoriesOfJobs = "PrivateTmp|Scratch"

// directoriesInShort are those of them that do not run outside of guests, and one that does.
const directoriesInShort = "^Test(ScratchQuota|ScratchAttacks|PrivateTmp|PrivateTmpBesideAHungServer|PrivateTmpWithLinkedVarTmp)$"

// fileSystems are the kernel modules for these tests.
var fileSystems = []string{"loop", "quota_v2", "xfs", "fuse"}

// fileSystemTools are the programs for these tests.
var fileSystemTools = map[string]string{
	"/usr/sbin/mkfs.ext4": "/usr/sbin/mkfs.ext4", "/usr/sbin/mkfs.xfs": "/usr/sbin/mkfs.xfs",
	"/usr/sbin/xfs_io": "/usr/sbin/xfs_io", "/usr/bin/chattr": "/usr/bin/chattr",
}

// machines are the guests that make test-vm starts, by the name of the subtest.
//
// To run a test in a guest, add a step to an existing guest, because each boot takes seconds. The
// programs are built once for all guests. Tests check their needs with testenv, as everywhere. In
// guests, EXECD_TEST_REQUIRE contains cgroup and guest, and systemd where the guest has it.
// testing.Short is true, because everything takes ten times as long. Tests for make soak have
// separate guests.
var machines = map[string]machine{
	"v2": {
		Machine: guest.Machine{Sockets: 2, Cores: 2, Threads: 2, Nodes: 2, Timeout: patience},
		steps: []step{
			{pkg: "limits/cgroup", skip: pureOfCgroup},
			{pkg: "limits/group", skip: pureOfGroup + "|/with_v1_alone"},
			{pkg: "limits/topology", run: "^TestThisMachineCanBeRead$"},
			{pkg: "agent/ptf", run: "^Test(Weights|Nice)"},
			{pkg: "agent/launch", run: "Core|ProcessorsOfAQueue|" + groupsOfJobs},
			{pkg: "agent/scope", run: "^TestWithoutSystemd"},
			{pkg: "cmd/execd", programs: true, run: cores + "|" + gpusOfRun},
		},
	},
	"v1": {
		Machine: guest.Machine{Sockets: 2, Cores: 2, Threads: 2, Nodes: 2, Cgroup: guest.V1, Timeout: patience},
		steps: []step{
			{pkg: "limits/cgroup", skip: pureOfCgroup + "|^TestDelegatedSubtree$"},
			{pkg: "limits/group", skip: pureOfGroup + "|^TestEmptiedIsAnEvent$|/with_v1_alone"},
			{pkg: "agent/launch", run: groupsOfJobs},
			{pkg: "cmd/execd", programs: true, run: cores + "|" + gpusOfRun},
		},
	},
	// Limits of memory and swap space together, on a machine with swap space.
	"hybrid": {
		Machine: guest.Machine{Cores: 2, Cgroup: guest.Hybrid, Swap: 256, Timeout: patience, Modules: fileSystems, Files: fileSystemTools},
		steps: []step{
			{pkg: "internal/host/scratch"},
			{pkg: "agent/launch", programs: true, run: directoriesInShort},
			{pkg: "limits/cgroup", skip: pureOfCgroup},
			{pkg: "limits/group", run: "Freeze|OutOfMemory|TestMemory|Signal", skip: "/h_rss|/with_v1_alone"},
		},
	},
	// The rights of an ordinary user in a delegated group of v2.
	"user": {
		Machine: guest.Machine{Cores: 2, Swap: 256, Memory: 2048, Timeout: patience},
		steps: []step{
			// As root, with no more processors than the host has: with more, the clocks of the
			// guest's processes would stop for seconds. The guest has swap, so h_rss is not
			// tested. In a container root often may not raise limits; here it may.
			{pkg: "test/shepherd", programs: true, run: "^TestWholeJobLimits$/with_a_group$|^Test(LimitThatCannotBeRaised|ProtectionOfTheDaemon)$", skip: "/h_rss"},
			{pkg: "limits/cgroup", user: alice, skip: pureOfCgroup + "|^Test(Many)?DeniedDevices?$|^TestDelegatedSubtree$"},
			{pkg: "limits/group", user: alice, skip: pureOfGroup + "|/h_rss|/with_v1_alone"},
			{pkg: "test/standalone", programs: true, run: instances},
		},
	},
	"systemd": {
		Machine: guest.Machine{Cores: 2, Systemd: true, Timeout: patience},
		steps: []step{
			{pkg: "limits/cgroup", skip: pureOfCgroup},
			{pkg: "limits/cgroup", user: alice, skip: pureOfCgroup + "|^Test(Many)?DeniedDevices?$|^TestDelegatedSubtree$"},
			{pkg: "agent/scope", skip: "^TestWithoutSystemd"},
			{pkg: "internal/spawn", skip: "^(TestManyStartsUnderLoad|TestDenyAttributes)$"},
			{pkg: "agent/launch", run: groupsOfJobs},
			{pkg: "cmd/execd", programs: true, run: executables + "|" + groupsInCommand},
			{pkg: "packaging", programs: true, run: "^TestService$"},
		},
	},
	// The unit as execution daemon of a real sge_qmaster, which takes minutes in an emulated guest.
	"cell": {
		soak: true,
		Machine: guest.Machine{
			Cores: 2, Systemd: true, Timeout: patience,
			Files: map[string]string{home + "/packaging/execd.service": moduleRoot + "/packaging/execd.service"},
		},
		steps: []step{
			{pkg: "test/cluster", programs: true, gridEngine: true, run: "^TestUnit$"},
		},
	},
	// The units of batch systems, in a guest where no test has installed execd.
	"units": {
		soak:    true,
		Machine: guest.Machine{Cores: 2, Systemd: true, Timeout: patience},
		steps: []step{
			{pkg: "packaging", programs: true, run: "^TestSystemdStartsBatchSystemUnits$"},
		},
	},
	// Faults of a machine while jobs run: its clock, its user database.
	"disorder": {
		waits:   true,
		Machine: guest.Machine{Cores: 2, Timeout: patience},
		steps: []step{
			{pkg: "test/agent", programs: true, run: "^Test(ClockIsSet|UserDatabaseHangs)$"},
		},
	},
	// The files of jobs on a host that loses power.
	"power": {
		cut:     true,
		Machine: guest.Machine{Cores: 3, Cgroup: guest.Hybrid, Timeout: patience / 3, Modules: fileSystems, Files: fileSystemTools},
		steps: []step{
			{pkg: "test/standalone", programs: true, run: "^TestPowerLoss$"},
		},
	},
	// The directories of jobs with each version of control groups.
	"directories":        directoriesWith(guest.V2),
	"directories-v1":     directoriesWith(guest.V1),
	"directories-hybrid": directoriesWith(guest.Hybrid),
	// GPUs, their filter and the memory pool with each version of control groups.
	"gpus":        gpusWith(guest.V2),
	"gpus-v1":     gpusWith(guest.V1),
	"gpus-hybrid": gpusWith(guest.Hybrid),
	"systemd-all": {
		soak:    true,
		Machine: guest.Machine{Cores: 2, Systemd: true, Timeout: 3 * patience},
		steps: []step{
			// The skipped tests need two sockets, read sources, or need the speed of a machine
			// that is not emulated.
			{pkg: "cmd/execd", programs: true, skip: cores + "|^TestGuideExamplesOfExecdRun$|TestScripts/./^(limits|usage)$"},
		},
	},
	"v2-all": {
		soak:    true,
		Machine: guest.Machine{Sockets: 2, Cores: 2, Threads: 2, Nodes: 2, Timeout: 3 * patience},
		steps: []step{
			{pkg: "limits/group", skip: pureOfGroup + "|/with_v1_alone"},
		},
	},
}

// instances matches the test that jobs cannot open the devices of other jobs' GPUs and MIG instances.
const instances = "^TestMIG$"

// resourcesOfJobs matches the tests of batch systems whose jobs have GPUs, or more memory than they have booked.
const resourcesOfJobs = "^Test(MIG|GPU|GPUDisappears|GPUReturns|MemoryPool)$"

// gpusWith returns a guest for these tests, and for those of the list of GPUs.
func gpusWith(cgroup string) machine {
	return machine{
		soak:    true,
		Machine: guest.Machine{Cores: 2, Cgroup: cgroup, Memory: 2048, Timeout: patience},
		steps: []step{
			{pkg: "internal/host/gpu"},
			{pkg: "test/standalone", programs: true, run: resourcesOfJobs},
		},
	}
}

// directoriesWith returns a guest for all tests of the directories of jobs.
func directoriesWith(cgroup string) machine {
	return machine{
		soak:    true,
		Machine: guest.Machine{Cores: 2, Cgroup: cgroup, Timeout: patience, Modules: fileSystems, Files: fileSystemTools},
		steps: []step{
			{pkg: "internal/host/scratch"},
			{pkg: "agent/launch", programs: true, failpoints: true, run: directoriesOfJobs},
		},
	}
}
