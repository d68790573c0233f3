package standalone

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// twoNVIDIA lists GPUs of a host, in the order of their numbers.
var twoNVIDIA = []testenv.GPU{
	{Vendor: "nvidia", Address: "0000:41:00.0", Model: "NVIDIA H100 80GB HBM3", UUID: "GPU-11111111-aaaa-bbbb-cccc-000000000001", Minor: 0},
	{Vendor: "nvidia", Address: "0000:61:00.0", Model: "NVIDIA A40", UUID: "GPU-11111111-aaaa-bbbb-cccc-000000000002", Minor: 1},
}

// withGPUs returns a host on which a daemon without a configuration of its own finds GPUs.
func withGPUs(t *testing.T, gpus ...testenv.GPU) *machine {
	t.Helper()
	m := newMachine(t, 4)
	m.write("conf/conf/global", groupIDs()+"min_uid 1\nmin_gid 1\nload_report_time 0:0:1\n")
	testenv.GPUs(t, m.gpuRoot(), gpus...)
	testenv.Reply(t, m.gpuRoot(), "echo '00000000:41:00.0, GPU-11111111-aaaa-bbbb-cccc-000000000001, 81559'",
		"echo '00000000:61:00.0, GPU-11111111-aaaa-bbbb-cccc-000000000002, 46068'")
	m.args = []string{"--gpu-root", m.gpuRoot()}
	return m
}

func (m *machine) gpuRoot() string { return filepath.Join(m.dir, "gpus") }

// variables matches the variables of a job about its GPUs.
var variables = regexp.MustCompile(`(?m)^(SGE_HGR|CUDA|NVIDIA|ROCR|HIP|ZE)_?[A-Z_]*=.*$|^SGE_HGR_[a-z_]*=.*$`)

func seen(text string) []string {
	list := variables.FindAllString(text, -1)
	slices.Sort(list)
	return list
}

// TestGPU starts a daemon that offers the GPUs that it finds: a job gets as many as it requests,
// finds them in its environment and in its prolog, and cannot open others.
func TestGPU(t *testing.T) { gpusOfJobs(t) }

// TestFrontGPU does so with a daemon of two processes.
func TestFrontGPU(t *testing.T) { gpusOfJobs(t, "--front-user", frontUser) }

func gpusOfJobs(t *testing.T, options ...string) {
	t.Helper()
	testenv.Require(t, testenv.Root)
	testenv.Require(t, testenv.Cgroup)
	m := withGPUs(t, twoNVIDIA...)
	m.args = append(m.args, options...)
	for _, node := range []struct {
		name         string
		major, minor int
	}{{"nvidia0", 195, 0}, {"nvidia1", 195, 1}, {"nvidiactl", 195, 255}, {"nvidia-uvm", 511, 0}} {
		testenv.Node(t, filepath.Join(m.gpuRoot(), "dev", node.name), node.major, node.minor)
	}
	alice := someUsers(t, 1)[0]
	out := m.open("out")
	m.write("prolog", "#!/bin/sh\nenv >"+out+"/prolog.$JOB_ID\n")
	if err := os.Chmod(filepath.Join(m.dir, "prolog"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.write("conf/queues/all.q", "qname all.q\nhostlist "+hostName+"\nslots 4\nshell /bin/sh\nload_thresholds NONE\nprolog "+m.dir+"/prolog\ntmpdir "+m.open("tmp")+"\n")
	m.start()
	if text := m.root("qconf", "-se", hostName).stdout; !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(text, "\\", "")), " "), "gpu=2(0[gpu_type=NVIDIA-H100-80GB-HBM3;gpu_mem=81559M] 1[gpu_type=NVIDIA-A40;gpu_mem=46068M])") {
		t.Fatalf("the host does not offer its GPUs:\n%s", text)
	}
	// What a device without a driver answers is ENXIO, and what the filter answers is EPERM.
	m.write("job.sh", "#!/bin/sh\nunset CUDA_VISIBLE_DEVICES\nenv >"+out+"/env.$JOB_ID\nfor d in nvidia0 nvidia1 nvidiactl nvidia-uvm; do\n"+
		"  case $(LC_ALL=C cat "+m.gpuRoot()+"/dev/$d 2>&1) in *\"not permitted\"*) echo $d no;; *\"No such device\"*) echo $d yes;; *) echo $d odd;; esac\ndone >"+out+"/opened.$JOB_ID\nsleep ${1:-0}\n")
	script := filepath.Join(m.dir, "job.sh")
	for _, c := range []struct {
		args   []string
		vars   []string
		opened string
	}{
		{
			[]string{"-l", "gpu=1", "-v", "CUDA_VISIBLE_DEVICES=1,SGE_HGR_gpu=1"},
			[]string{
				"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + twoNVIDIA[0].UUID, "NVIDIA_VISIBLE_DEVICES=" + twoNVIDIA[0].UUID, "SGE_HGR_gpu=0",
			},
			"nvidia0 yes\nnvidia1 no\nnvidiactl yes\nnvidia-uvm yes\n",
		},
		{
			[]string{"-l", "gpu=2"},
			[]string{
				"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + twoNVIDIA[0].UUID + "," + twoNVIDIA[1].UUID,
				"NVIDIA_VISIBLE_DEVICES=" + twoNVIDIA[0].UUID + "," + twoNVIDIA[1].UUID, "SGE_HGR_gpu=0 1",
			},
			"nvidia0 yes\nnvidia1 yes\nnvidiactl yes\nnvidia-uvm yes\n",
		},
		{
			nil,
			[]string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=-1", "NVIDIA_VISIBLE_DEVICES=void"},
			"nvidia0 no\nnvidia1 no\nnvidiactl no\nnvidia-uvm no\n",
		},
	} {
		id := m.submitted(m.as(alice, "qsub", append(append([]string{"-terse", "-wd", "/", "-o", "/dev/null", "-e", "/dev/null"}, c.args...), script)...))
		m.until("job "+id+" has left", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
		for _, from := range []string{"env.", "prolog."} {
			text, err := os.ReadFile(filepath.Join(out, from+id))
			want := c.vars
			if from == "env." { // the script has unset it
				want = slices.DeleteFunc(slices.Clone(want), func(s string) bool { return strings.HasPrefix(s, "CUDA_VISIBLE") })
			}
			if got := seen(string(text)); err != nil || !slices.Equal(got, want) {
				t.Errorf("qsub %q: %s has %q, want %q (%v)", c.args, from, got, want, err)
			}
		}
		if opened, err := os.ReadFile(filepath.Join(out, "opened."+id)); err != nil || string(opened) != c.opened {
			t.Errorf("qsub %q opens\n%swant\n%s(%v)", c.args, opened, c.opened, err)
		}
	}
	if text := m.root("qacct", "-j", "2").stdout; !regexp.MustCompile(`(?m)^gpu +gpus=2, time=00:00:0[0-9], utilisation=N/A, maxmem=N/A$`).MatchString(text) {
		t.Errorf("the record of a job with two GPUs, which were not measured:\n%s", text)
	}
	if text := m.as(alice, "../execd", "seff", "2").stdout; !strings.Contains(text, " on 2 GPUs, use not measured\n") {
		t.Errorf("seff shows\n%s", text)
	}
	id := m.submitted(m.as(alice, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-e", "/dev/null", "-l", "gpu=1", script, "1000"))
	m.until("qstat -j shows the usage of the GPU", func() bool {
		return strings.Contains(m.as(alice, "qstat", "-j", id).stdout, "gpu usage     1:            gpus=1, time=")
	})
	if text := m.as(alice, "qstat", "-j", id).stdout; !strings.Contains(text, "resource map  1:            gpu="+hostName+"(0)\n") {
		t.Errorf("qstat -j does not name the GPU of the job:\n%s", text)
	}
	if r := m.as(alice, "qdel", id); r.status != 0 {
		t.Errorf("%+v", r)
	}
	for _, request := range []string{"gpu=2,gpu_type=*H100*", "gpu=1,gpu_mem=100G", "gpu=1,gpu_type=*A40*,gpu_mem=64G"} {
		r := m.as(alice, "qsub", "-wd", "/", "-l", request, "-b", "y", "true")
		if r.status == 0 || !strings.Contains(r.stderr, "gpu_type=NVIDIA-A40") || !strings.Contains(r.stderr, "gpu_type=NVIDIA-H100-80GB-HBM3") {
			t.Errorf("-l %s, which no GPU satisfies: %+v", request, r)
		}
	}
}

// TestGPUsOfOneRoot checks that jobs get GPUs of one PCIe root, which the daemon reads from the host
// and reports as a load value.
func TestGPUsOfOneRoot(t *testing.T) {
	var gpus []testenv.GPU
	for i, root := range []string{"pci0000:00", "pci0000:00", "pci0000:40", "pci0000:40"} {
		gpus = append(gpus, testenv.GPU{
			Vendor: "amd", Address: fmt.Sprintf("0000:%d1:00.0", i+1), Model: "gfx942", Unique: uint64(i + 1), Memory: 1 << 30, Minor: 128 + i, NUMA: -1, Root: root,
		})
	}
	m := withGPUs(t, gpus...)
	alice := someUsers(t, 1)[0]
	m.start()
	for _, c := range []struct{ request, want string }{{"1", "0"}, {"2", "2 3"}, {"1", "1"}} {
		out := m.open("out" + strings.ReplaceAll(c.want, " ", ""))
		r := m.as(alice, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-e", "/dev/null", "-l", "gpu="+c.request, "-N", "gpus", "-b", "y", "-shell", "y",
			"echo $SGE_HGR_gpu >"+out+"/new; mv "+out+"/new "+out+"/gpus; sleep 1000")
		m.submitted(r)
		m.until("a job with gpu="+c.request+" runs", func() bool {
			text, err := os.ReadFile(filepath.Join(out, "gpus"))
			if err == nil && strings.TrimSpace(string(text)) != c.want {
				t.Errorf("gpu=%s gets %q, want %q", c.request, text, c.want)
			}
			return err == nil
		})
	}
}

// submitted returns the number of a job submitted by qsub -terse.
func (m *machine) submitted(r result) string {
	m.Helper()
	if r.status != 0 {
		m.Fatalf("%+v", r)
	}
	return strings.TrimSpace(r.stdout)
}

// TestGPUDisappears takes a GPU out of a host: it is offered no more, the other one keeps its number,
// and status and doctor say so, also after a restart.
func TestGPUDisappears(t *testing.T) {
	m := withGPUs(t, twoNVIDIA...)
	m.start()
	m.until("the status lists both", func() bool {
		text := m.root("../execd", "status").stdout
		return strings.Contains(text, "gpu            0: NVIDIA H100 80GB HBM3, 0000:41:00.0, 81559 MiB\n") &&
			strings.Contains(text, "gpu            1: NVIDIA A40, 0000:61:00.0, 46068 MiB\n")
	})
	for _, dir := range []string{"proc/driver/nvidia/gpus", "sys/bus/pci/devices"} {
		if err := os.RemoveAll(filepath.Join(m.gpuRoot(), dir, twoNVIDIA[0].Address)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Kill(m.daemon.Pid(), unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			m.daemon.Kill()
			m.start()
		}
		m.until("the host offers one", func() bool {
			return strings.Contains(m.root("qconf", "-se", hostName).stdout, "gpu=1(1[")
		})
		if text := m.root("../execd", "status"); !strings.Contains(text.stdout, "trouble        GPU 0, which was at 0000:41:00.0, has disappeared: it is no longer offered\n") || text.status == 0 {
			t.Errorf("restarted %t: the status is\n%+v", restarted, text)
		}
		if r := m.root("qsub", "-w", "e", "-l", "gpu=2", "-b", "y", "true"); r.status == 0 {
			t.Errorf("a job that needs both is taken: %+v", r)
		}
	}
	if r := m.root("../execd", "doctor", "--gpu-root", m.gpuRoot()); !strings.Contains(r.stdout, "0000:61:00.0 NVIDIA A40") {
		t.Errorf("the doctor says\n%s", r.stdout)
	}
}

// TestGPUReturns takes a GPU out of a host while its job runs, and puts it back with another device
// number: no other job gets it before its job has finished, and no job that was started before can
// open the new device, except for its own job.
func TestGPUReturns(t *testing.T) {
	testenv.Require(t, testenv.Root)
	testenv.Require(t, testenv.Cgroup)
	m := withGPUs(t, twoNVIDIA...)
	for name, minor := range map[string]int{"nvidia0": 0, "nvidia1": 1, "nvidia7": 7} {
		testenv.Node(t, filepath.Join(m.gpuRoot(), "dev", name), 195, minor)
	}
	alice := someUsers(t, 1)[0]
	out := m.open("out")
	// A job shows its GPU, and which devices it can open whenever it is asked.
	m.write("job.sh", `#!/bin/sh
echo "gpu $SGE_HGR_gpu" >`+out+`/$1.new; mv `+out+`/$1.new `+out+`/$1
while :; do
	if [ -e `+out+`/$1.look ]; then
		for d in nvidia0 nvidia1 nvidia7; do
			LC_ALL=C cat `+m.gpuRoot()+`/dev/$d 2>&1 | grep -q 'No such device' && echo $d
		done >`+out+`/$1.new; mv `+out+`/$1.new `+out+`/$1.can; rm `+out+`/$1.look
	fi
	[ ! -e `+out+`/$1.end ] || exit 0
	sleep 0.05
done
`)
	m.start()
	submit := func(name, gpus string) {
		m.submitted(m.as(alice, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-e", "/dev/null", "-l", "gpu="+gpus, "-N", name, filepath.Join(m.dir, "job.sh"), name))
	}
	wrote := func(file, want string) {
		t.Helper()
		m.until(file+" has "+want, func() bool {
			text, err := os.ReadFile(filepath.Join(out, file))
			return err == nil && strings.TrimSpace(string(text)) == want
		})
	}
	order := func(file string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(out, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	changed := func(offer string) {
		t.Helper()
		if err := unix.Kill(m.daemon.Pid(), unix.SIGHUP); err != nil {
			t.Fatal(err)
		}
		m.until("the host offers "+offer, func() bool { return strings.Contains(m.root("qconf", "-se", hostName).stdout, offer) })
	}
	if err := os.Chmod(out, 0o777); err != nil {
		t.Fatal(err)
	}
	submit("first", "1")
	wrote("first", "gpu 0")
	submit("without", "0")
	wrote("without", "gpu")
	for _, dir := range []string{"proc/driver/nvidia/gpus", "sys/bus/pci/devices"} {
		if err := os.RemoveAll(filepath.Join(m.gpuRoot(), dir, twoNVIDIA[0].Address)); err != nil {
			t.Fatal(err)
		}
	}
	changed("gpu=1(1[")
	if r := m.root("../execd", "status"); !strings.Contains(r.stdout, "GPU 0, which was at 0000:41:00.0, has disappeared") || !strings.Contains(r.stdout, "job 1 has GPU 0, which is missing") {
		t.Errorf("the status is\n%s", r.stdout)
	}
	submit("second", "1")
	wrote("second", "gpu 1")
	submit("third", "1")
	again := twoNVIDIA[0]
	again.Minor = 7
	testenv.GPUs(t, m.gpuRoot(), again)
	changed("gpu=2(0[")
	// nvidia0 is the device of no GPU since the second job was started.
	for name, want := range map[string]string{"without": "", "second": "nvidia0\nnvidia1", "first": "nvidia0\nnvidia7"} {
		order(name + ".look")
		wrote(name+".can", want)
	}
	if _, err := os.Stat(filepath.Join(out, "third")); err == nil {
		t.Error("the third job has got a GPU, and both are in use")
	}
	order("first.end")
	wrote("third", "gpu 0")
	for _, name := range []string{"without", "second", "third"} {
		order(name + ".end")
	}
}

// TestGPUsOfKilledDaemon kills the daemon while it grants GPUs to jobs, at several steps, and starts
// another one: no two jobs ever run with the same GPU, and all jobs run. A daemon with another spool
// directory, which is started while the jobs run, offers no GPU.
func TestGPUsOfKilledDaemon(t *testing.T) {
	m := withGPUs(t, twoNVIDIA...)
	mortal := t.TempDir()
	if err := testenv.Build(mortal, "failpoint"); err != nil {
		t.Fatal(err)
	}
	testenv.LetIn(t, mortal)
	out := m.open("out")
	// A job takes a lock for its GPU, and says so if another job has it.
	m.write("job.sh", "#!/bin/sh\nmkdir "+out+"/$SGE_HGR_gpu || echo $JOB_ID $SGE_HGR_gpu >>"+out+"/shared\necho $JOB_ID >>"+out+
		"/ran\nwhile [ -e "+out+"/wait ]; do sleep 0.05; done\nrmdir "+out+"/$SGE_HGR_gpu\n")
	usual, alice := m.bin, someUsers(t, 1)[0]
	submitted := 0
	submit := func() {
		r := m.as(alice, "qsub", "-terse", "-r", "n", "-wd", "/", "-o", "/dev/null", "-j", "y", "-l", "gpu=1", filepath.Join(m.dir, "job.sh"))
		m.submitted(r)
		submitted++
	}
	for _, point := range []string{"standalone-committed:4", "launch-own:2", "agent-starting:2", "agent-launched"} {
		m.bin, m.env = mortal, []string{"EXECD_FAILPOINT=" + point}
		m.start()
		m.bin, m.env = usual, nil
		_, gone := m.daemon.Process()
		restarted := make(chan struct{})
		go func() {
			defer close(restarted)
			<-gone
			m.start()
		}()
		for range 3 {
			submit() // qsub asks the next daemon if this one is killed
		}
		<-restarted
		m.until(point+": all have run", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
		m.daemon.Kill()
	}
	if err := os.WriteFile(filepath.Join(out, "wait"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	m.start()
	submit()
	m.until("the last one runs", func() bool { return len(lines(t, filepath.Join(out, "ran"))) == submitted })
	m.daemon.Kill()
	other := &machine{TB: t, bin: m.bin, dir: t.TempDir(), args: m.args}
	testenv.LetIn(t, other.dir)
	other.write("conf/conf/global", groupIDs()+"min_uid 1\nmin_gid 1\n")
	other.start()
	defer other.end()
	other.until("it says why it has no GPUs", func() bool {
		return strings.Contains(other.root("../execd", "status").stdout, "jobs of the daemon with the spool directory "+filepath.Join(m.dir, "spool")+" still have GPU 0")
	})
	if r := other.as(alice, "qsub", "-wd", "/", "-w", "e", "-l", "gpu=1", "-b", "y", "true"); r.status == 0 {
		t.Errorf("it takes a job with a GPU: %+v", r)
	}
	m.start()
	if err := os.Remove(filepath.Join(out, "wait")); err != nil {
		t.Fatal(err)
	}
	m.until("the last one has finished", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
	if text, err := os.ReadFile(filepath.Join(out, "shared")); err == nil {
		t.Errorf("jobs have run with a GPU that another job had:\n%s", text)
	}
	if ran := lines(t, filepath.Join(out, "ran")); len(ran) != submitted {
		t.Errorf("%d jobs have run, %d were submitted: %q", len(ran), submitted, ran)
	}
}

// TestIdleGPUIsReported leaves a GPU of a job idle. When that has lasted for ten minutes, qstat -j, a mail and the metrics
// say so. The test ends the daemon, and sets the time since which the GPU is idle back in the record of the job.
func TestIdleGPUIsReported(t *testing.T) {
	m := withGPUs(t, twoNVIDIA...)
	testenv.Reply(t, m.gpuRoot(), "case $* in *utilization*) used=', 0, 100';; *) used=', 81559';; esac",
		"case $* in *uuid*) first=', "+twoNVIDIA[0].UUID+"' second=', "+twoNVIDIA[1].UUID+"';; esac",
		"echo 00000000:41:00.0$first$used; echo 00000000:61:00.0$second$used")
	mails := filepath.Join(m.open("out"), "mails")
	m.write("mailer", "#!/bin/sh\n{ echo \"$*\"; cat; } >>"+mails+"\n")
	if err := os.Chmod(filepath.Join(m.dir, "mailer"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.write("conf/conf/global", groupIDs()+"min_uid 1\nmin_gid 1\nload_report_time 0:0:1\nmailer "+m.dir+"/mailer\n")
	address := freePort(t)
	m.args = append(m.args, "--metrics", address)
	alice := someUsers(t, 1)[0]
	m.start()
	id := m.submitted(m.as(alice, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-e", "/dev/null", "-m", "a", "-l", "gpu=2", "-b", "y", "/bin/sleep", "1000"))
	m.until("the job runs", func() bool { return strings.Contains(m.root("qstat", "-u", "*").stdout, " r ") })
	m.daemon.Kill()
	const form = `{"Measured":700,"Busy":350,"MaxMemory":1,"At":%q,"Idle":{"1":%q}}` + "\n"
	now := time.Now()
	m.write("spool/active_jobs/"+id+".1/gpu_usage", fmt.Sprintf(form, now.Format(time.RFC3339Nano), now.Add(-11*time.Minute).Format(time.RFC3339Nano)))
	m.start()
	m.until("qstat -j says so", func() bool {
		text := m.as(alice, "qstat", "-j", id).stdout
		return strings.Contains(text, "it has not used GPU 1 for ten minutes or longer")
	})
	m.until("a mail says so", func() bool {
		text, err := os.ReadFile(mails)
		return err == nil && strings.Contains(string(text), "Idle GPU") && strings.Contains(string(text), "The job has not used GPU 1 for 10 minutes.")
	})
	m.until("the metrics count it", func() bool {
		r, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		return err == nil && strings.Contains(string(text), `execd_job_gpus_idle{job_id="`+id+`",owner="`+alice.Username+`",pe_task="",task=""} 1`)
	})
	if text, err := os.ReadFile(mails); err != nil || strings.Count(string(text), "The job has not used") != 1 {
		t.Errorf("the mails are %q (%v), want one", text, err)
	}
}

// freePort returns an address of this host that nothing listens to.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
