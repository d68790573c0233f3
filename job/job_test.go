package job

import (
	"syscall"
	"testing"
)

func TestFailuresAreOrderedAndComplete(t *testing.T) {
	last := Failed(-1)
	for _, f := range failures {
		if f.Code <= last {
			t.Errorf("code %d stands after %d", f.Code, last)
		}
		last = f.Code
		if f.Text == "" && f.Code != 0 {
			t.Errorf("code %d has no text", f.Code)
		}
		// A job enters the error state if and only if the failure is the job's.
		if (f.Class == ClassJob) != (f.Effect == ErrorState) {
			t.Errorf("code %d: class %v with effect %v", f.Code, f.Class, f.Effect)
		}
	}
	if f := FailureOf(99); f.Effect != Finished || f.Text != "invalid execution state 99" {
		t.Errorf("unlisted code gives %+v", f)
	}
}

func TestClassDependsOnWhoChoseTheShell(t *testing.T) {
	for name, c := range map[string]struct {
		code Failed
		req  ShellRequest
		want Class
	}{
		"the queue's shell is missing":        {FailedShell, ShellRequest{StartMode: PosixCompliant}, ClassQueue},
		"too many arguments":                  {FailedShell, ShellRequest{StartMode: PosixCompliant, OwnersCause: true}, ClassJob},
		"the shell of -S is missing":          {FailedShell, ShellRequest{StartMode: PosixCompliant, OwnShell: true}, ClassJob},
		"the script's interpreter is missing": {FailedShell, ShellRequest{StartMode: UnixBehavior}, ClassJob},
		"-b y -shell n of a missing file":     {FailedShell, ShellRequest{StartMode: PosixCompliant, Binary: true, NoShell: true}, ClassJob},
		"-b y with the queue's missing shell": {FailedShell, ShellRequest{StartMode: PosixCompliant, Binary: true}, ClassQueue},
		"child fails, command is not a file":  {FailedInJobChild, ShellRequest{Binary: true, FileMissing: true}, ClassJob},
		"child fails otherwise":               {FailedInJobChild, ShellRequest{Binary: true}, ClassQueue},
		"cwd does not depend on the shell":    {FailedCwd, ShellRequest{}, ClassJob},
	} {
		if got := ClassOf(c.code, c.req).Class; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestParseSignal(t *testing.T) {
	for in, want := range map[string]syscall.Signal{
		"SIGTERM": syscall.SIGTERM, "term": syscall.SIGTERM, "15": syscall.SIGTERM, "IOT": syscall.SIGABRT, "64": 64,
	} {
		if got, ok := ParseSignal(in); !ok || got != want {
			t.Errorf("ParseSignal(%q) = %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "0", "-9", "65", "FOO", "SIG", "SIGSIGTERM", "/bin/kill"} {
		if got, ok := ParseSignal(in); ok {
			t.Errorf("ParseSignal(%q) = %d, want none", in, got)
		}
	}
	if SignalName(syscall.SIGABRT) != "ABRT" || SignalName(40) != "40" {
		t.Error("SignalName gives an alias or loses a number")
	}
}

func TestResourceNamed(t *testing.T) {
	for r := range NumResources {
		for _, hard := range []bool{false, true} {
			name := map[bool]string{false: "s_", true: "h_"}[hard] + r.String()
			if got, h, ok := ResourceNamed(name); !ok || got != r || h != hard {
				t.Errorf("ResourceNamed(%q) = %v, %v, %v", name, got, h, ok)
			}
		}
	}
	for _, name := range []string{"", "h_", "x_rt", "hrt", "h_rt2", "mem_free"} {
		if _, _, ok := ResourceNamed(name); ok {
			t.Errorf("ResourceNamed(%q) found something", name)
		}
	}
}
