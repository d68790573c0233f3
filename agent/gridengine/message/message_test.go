package message_test

import (
	"encoding/hex"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/internal/capture"
	"github.com/execd-project/execd/agent/gridengine/message"
)

// TestWaitStatus encodes wait statuses and compares them with values that unmodified daemons have
// sent.
func TestWaitStatus(t *testing.T) {
	for name, c := range map[string]struct{ got, want uint32 }{
		"exit status 0":      {message.WaitStatus(0, 0, false, true), 0x1},
		"exit status 99":     {message.WaitStatus(99, 0, false, true), 0x631},
		"killed":             {message.WaitStatus(137, message.SignalNumber(syscall.SIGKILL), false, true), 0x38e002},
		"killed with a core": {message.WaitStatus(139, message.SignalNumber(syscall.SIGSEGV), true, true), 912<<12 | 6},
		"never ran":          {message.WaitStatus(0, 0, false, false), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %#x, want %#x", name, c.got, c.want)
		}
	}
}

// TestReportOfExceededLimit checks the field failed of a job that its daemon ended because of a
// limit: 37 in 8.1.9, 100 in 9.0 and 9.1.
func TestReportOfExceededLimit(t *testing.T) {
	for _, p := range message.Protocols {
		c := message.Codec{Protocol: p}
		sent := []message.JobReport{{Job: 1, Task: 1, Failed: 37}, {Job: 2, Task: 1, Failed: 8}}
		r, err := c.DecodeReport(c.EncodeReport(&message.Report{Host: "h", Jobs: sent}))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]uint32{"8.1.9": 37, "9.0": 100, "9.1": 100}[p.Name]
		if r.Jobs[0].Failed != want || r.Jobs[1].Failed != 8 || sent[0].Failed != 37 {
			t.Errorf("%s: failures %d and %d, want %d and 8", p.Name, r.Jobs[0].Failed, r.Jobs[1].Failed, want)
		}
	}
}

// TestReportOfMissingProcedure checks the object to which the failure of a job is attributed whose stop procedure
// (12) or epilog (14) could not be started: none in 8.1.9, the queue in 9.0 and 9.1, which run the job again.
func TestReportOfMissingProcedure(t *testing.T) {
	for _, p := range message.Protocols {
		c := message.Codec{Protocol: p}
		sent := []message.JobReport{
			{Job: 1, Task: 1, Failed: 12},
			{Job: 2, Task: 1, Failed: 14},
			{Job: 3, Task: 1, Failed: 14, GeneralFailure: message.FailureJob},
			{Job: 4, Task: 1, Failed: 7},
			{Job: 5, Task: 1, Failed: 12, GeneralFailure: message.FailureByOwner},
			{Job: 6, Task: 1, Failed: 14, GeneralFailure: message.FailureByOwner},
		}
		r, err := c.DecodeReport(c.EncodeReport(&message.Report{Host: "h", Jobs: sent}))
		if err != nil {
			t.Fatal(err)
		}
		missing := message.FailureQueue
		if p == message.GridEngine81 {
			missing = message.FailureNone
		}
		for i, want := range []uint32{missing, missing, message.FailureJob, message.FailureNone, message.FailureNone, message.FailureNone} {
			if got := r.Jobs[i].GeneralFailure; got != want {
				t.Errorf("%s: failure %d of %+v, want %d", p.Name, got, sent[i], want)
			}
		}
	}
}

func TestDecodeJobWithAllOptions(t *testing.T) {
	found := false
	captured(t, func(s *capture.Stream, from commlib.Endpoint, m *commlib.Message) {
		if s.Session != "job-options" || message.Tag(m.Tag) != message.TagJobExecution {
			return
		}
		found = true
		j, err := codecOf(s, m.Payload).DecodeDelivery(m.Payload, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(j.Tasks) != 1 || len(j.Tasks[0].Granted) != 1 || j.Tasks[0].Granted[0].Settings == nil {
			t.Fatalf("the job has no queue: %+v", j)
		}
		q := j.Tasks[0].Granted[0].Settings
		if j.Owner != "alice" || j.Ckpt == nil || j.Ckpt.Name == "" || len(j.Stdout) == 0 || len(j.Mail) == 0 || !j.Notify ||
			len(j.Environment) == 0 || len(j.PathAliases) == 0 || len(j.Soft) == 0 || q.Name == "" || q.HardVmem != "INFINITY" || q.Tmpdir != "/tmp" {
			t.Errorf("got %+v\nqueue %+v", j, q)
		}
	})
	if !found {
		t.Error("there is no such job")
	}
}

func TestAnotherVersionIsNamed(t *testing.T) {
	_, err := (&message.Codec{Protocol: message.GridEngine81}).DecodeNumber([]byte{0, 0, 0, 0, 0x10, 1, 0, 0, 0, 0, 0, 1})
	if err == nil || !strings.Contains(err.Error(), "0x10010000, expected 0x10020000") {
		t.Errorf("got %v", err)
	}
}

func FuzzMessages(f *testing.F) {
	captured(f, func(s *capture.Stream, from commlib.Endpoint, m *commlib.Message) {
		c := codecOf(s, m.Payload)
		tag, _ := c.Tag(m.Tag)
		f.Add(slices.Index(message.Protocols, c.Protocol), uint32(tag), from.Component == commlib.Qmaster, m.Payload)
	})
	f.Fuzz(func(t *testing.T, protocol int, tag uint32, fromQmaster bool, payload []byte) {
		if protocol < 0 || protocol >= len(message.Protocols) {
			return
		}
		c := &message.Codec{Protocol: message.Protocols[protocol]}
		_, _, _ = decode(c, message.Tag(tag), fromQmaster, payload) // errors are fine, panics are not
	})
}

// clearErrorHex is the recorded message of qmod -cq all.q@cellhost.
const clearErrorHex = "00000000100200000000000500000004100030010000000100000001000000000100000005000224d400000008000224d500000009000224" +
	"d600000003000224d700000003000224d800000009000000020000000500616c6c2e714063656c6c686f7374000000000040004000000000" +
	"00000000000000000000000000000000006e6f6e653a30203020726f6f7420726f6f7400000000010000000100000000"

func TestClearErrorRequest(t *testing.T) {
	c := &message.Codec{Protocol: message.GridEngine81, Identity: message.Identity{User: "root", Group: "root"}}
	got := hex.EncodeToString(c.EncodeRequest(c.ClearErrorRequest([]string{"all.q@cellhost"}, 1)))
	if got != clearErrorHex {
		t.Errorf("it is\n%s, want\n%s", got, clearErrorHex)
	}
}
