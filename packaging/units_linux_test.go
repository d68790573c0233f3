package packaging

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"

	_ "embed"
)

var (
	//go:embed execd-user.service
	userUnit string
	//go:embed execd-front.service
	frontUnit string
	//go:embed execd-launcher.service
	launcherUnit string
)

// TestSystemdStartsBatchSystemUnits makes systemd start the units of batch systems: the one for all
// users of the host, the two of a daemon of two processes, also for an agent, and the one for a
// single user. Each runs a job.
func TestSystemdStartsBatchSystemUnits(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Systemd, testenv.Guest)
	h := install(t)
	h.check(os.Chmod("/", 0o755)) // the guest's is writable for everybody, which a daemon of root refuses
	h.check(os.WriteFile("/etc/default/execd", nil, 0o644))
	h.check(os.WriteFile("/etc/systemd/system/execd-standalone.service", []byte(standaloneUnit()), 0o644))
	h.check(os.WriteFile("/etc/systemd/system/execd-front.service", []byte(frontUnit), 0o644))
	h.check(os.WriteFile("/etc/systemd/system/execd-launcher.service", []byte(launcherUnit), 0o644))
	h.check(os.MkdirAll("/etc/systemd/user", 0o755))
	h.check(os.WriteFile("/etc/systemd/user/execd.service", []byte(userUnit), 0o644))
	h.systemctl("daemon-reload")
	alice, err := user.Lookup("alice")
	h.check(err)
	uid, err := strconv.Atoi(alice.Uid)
	h.check(err)
	gid, err := strconv.Atoi(alice.Gid)
	h.check(err)
	home, runtime := t.TempDir(), "/run/user/"+alice.Uid
	for _, dir := range []string{home, runtime} {
		h.check(os.MkdirAll(dir, 0o700))
		h.check(os.Chmod(dir, 0o700))
		h.check(os.Chown(dir, uid, gid))
	}
	asAlice := func(name string, args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		c.Dir, c.Env = home, []string{"HOME=" + home, "XDG_RUNTIME_DIR=" + runtime, "PATH=" + os.Getenv("PATH")}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	runsJobs := func(systemctl func(...string)) {
		t.Helper()
		systemctl("start") // returns when it is ready
		asAlice("/usr/bin/execd", "qsub", "-sync", "y", "-o", "/dev/null", "-j", "y", "-b", "y", "true")
		systemctl("stop")
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := exec.Command("journalctl", "-b", "--no-pager", "-n", "100").CombinedOutput()
			t.Logf("the journal has\n%s", out)
		}
		_ = exec.Command("systemctl", "stop", "alice-manager", "execd-standalone", "execd-front", "execd-launcher").Run()
	})
	runsJobs(func(args ...string) { h.systemctl(append(args, "execd-standalone")...) })

	users, err := os.OpenFile("/etc/passwd", os.O_APPEND|os.O_WRONLY, 0)
	h.check(err)
	_, err = users.WriteString("execd:x:990:990:execd front:/:/usr/sbin/nologin\n")
	h.check(errors.Join(err, users.Close()))
	groups, err := os.OpenFile("/etc/group", os.O_APPEND|os.O_WRONLY, 0)
	h.check(err)
	_, err = groups.WriteString("execd:x:990:\n")
	h.check(errors.Join(err, groups.Close()))
	// Now there is a user for the front, so that a new spool directory gets two processes, in one unit.
	h.check(os.WriteFile("/etc/default/execd", []byte("EXECD_OPTS=--spool /var/spool/execd/two\n"), 0o644))
	runsJobs(func(args ...string) {
		h.systemctl(append(args, "execd-standalone")...)
		if args[0] == "stop" {
			return
		}
		main := func() string {
			return strings.TrimSpace(output(t, "systemctl", "show", "--value", "--property=MainPID", "execd-standalone"))
		}
		before := main()
		if info, err := os.Stat("/var/spool/execd/two/front"); err != nil || info.Sys().(*syscall.Stat_t).Uid != 990 {
			t.Errorf("the directory of the front: %v %v", info, err)
		}
		if status, err := os.ReadFile("/proc/" + before + "/comm"); string(status) != "execd-launcher\n" {
			t.Errorf("the main process is %s (%v)", status, err)
		}
		// The launcher starts again as the same process, and systemd learns that the next front is ready.
		text := strings.ReplaceAll(output(t, "/usr/bin/execd", "qconf", "-sconf", "global"), "#global:\n", "")
		text = regexp.MustCompile(`(?m)^(min_gid +).*`).ReplaceAllString(text, "${1}1")
		h.check(os.WriteFile("/root/global", []byte(text), 0o600))
		output(t, "/usr/bin/execd", "qconf", "-Mconf", "/root/global")
		asAlice("/usr/bin/execd", "qsub", "-sync", "y", "-o", "/dev/null", "-j", "y", "-b", "y", "true")
		if after := main(); after != before {
			t.Errorf("the main process is %s, and was %s", after, before)
		}
		h.until("systemd knows the status of the daemon", func() bool {
			return strings.Contains(output(t, "systemctl", "show", "--value", "--property=StatusText", "execd-standalone"), "slots in use")
		})
		// systemd starts the launcher again, and the front continues.
		h.systemctl("kill", "--signal=KILL", "--kill-whom=main", "execd-standalone")
		asAlice("/usr/bin/execd", "qsub", "-sync", "y", "-o", "/dev/null", "-j", "y", "-b", "y", "true")
	})
	h.check(os.WriteFile("/etc/default/execd", nil, 0o644))

	runsJobs(func(args ...string) {
		h.systemctl(append(args, "execd-front")...)
		if args[0] == "stop" {
			h.until("the launcher has ended, too", func() bool { return exec.Command("systemctl", "is-active", "execd-launcher").Run() != nil })
			return
		}
		for _, which := range []string{"execd-launcher", "execd-front"} {
			h.systemctl("kill", "--signal=KILL", "--kill-whom=main", which)
			asAlice("/usr/bin/execd", "qsub", "-sync", "y", "-o", "/dev/null", "-j", "y", "-b", "y", "true")
		}
		status, err := os.ReadFile("/proc/" + strings.TrimSpace(output(t, "systemctl", "show", "--value", "--property=MainPID", "execd-front")) + "/status")
		if err != nil || !strings.Contains(string(status), "\nUid:\t990\t") || !strings.Contains(string(status), "\nCapBnd:\t0000000000000000\n") {
			t.Errorf("the status of the front is\n%s (%v)", status, err)
		}
		asAlice("/usr/bin/execd", "qsub", "-sync", "y", "-o", "/dev/null", "-j", "y", "-b", "y", "grep", "-q", "NoNewPrivs:.0", "/proc/self/status")
		said, _ := exec.Command("/usr/bin/execd", "doctor").CombinedOutput() // its status is about the host
		if !strings.Contains(string(said), " runs as execd, without capabilities") || !strings.Contains(string(said), " runs as root, with capabilities") {
			t.Errorf("the doctor says\n%s", said)
		}
	})

	// The same units with an agent.
	h.check(os.WriteFile("/etc/default/execd", []byte("EXECD_COMMAND=agent\nEXECD_OPTS=--host guesthost\n"), 0o644))
	h.systemctl("start", "execd-front")
	out := home + "/said"
	runsInAgent(t, 3, api.Start{
		Job: 1, Owner: "alice", Script: "#!/bin/sh\nid -un\nexit 3\n", Grants: []api.Grant{{Queue: "all.q", Host: "guesthost", Slots: 1}},
		Command: []string{"-S", "/bin/sh", "-wd", "/", "-o", out, "-j", "y", "job.sh"},
	})
	if said, err := os.ReadFile(out); string(said) != "alice\n" {
		t.Errorf("the job of the agent said %q (%v)", said, err)
	}
	h.systemctl("stop", "execd-front")
	h.check(os.WriteFile("/etc/default/execd", nil, 0o644))

	// The manager of alice's units, as logind starts it.
	output(t, "systemd-run", "--quiet", "--unit=alice-manager", "--uid=alice", "--service-type=notify", "--property=Delegate=yes",
		"--setenv=HOME="+home, "--setenv=XDG_RUNTIME_DIR="+runtime, "/lib/systemd/systemd", "--user")
	runsJobs(func(args ...string) { asAlice("systemctl", append([]string{"--user"}, append(args, "execd")...)...) })
}

// runsInAgent starts a job in the agent of this host, and waits for its exit status.
func runsInAgent(t *testing.T, status int, s api.Start) {
	t.Helper()
	client, err := api.Dial(api.Options{Socket: api.DefaultSocket})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	ended := errors.New("the job has ended")
	err = client.Reports(t.Context(), 0, func(r api.Report) error {
		if r.Job == nil || r.Job.Outcome == nil || r.Job.Job != s.Job {
			return nil
		}
		if o := r.Job.Outcome; o.ExitStatus != status || o.Failed != 0 {
			t.Errorf("the job ended with %+v, want the exit status %d", o, status)
		}
		return errors.Join(ended, client.AcknowledgeJob(t.Context(), r.Job.ID, r.Number))
	})
	if !errors.Is(err, ended) {
		t.Fatalf("waiting for the job: %v", err)
	}
}
