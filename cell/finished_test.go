package cell

import (
	"fmt"
	"strings"
	"testing"

	"github.com/execd-project/execd/submit"
)

func finished(h *harness) string {
	var names []string
	for _, f := range h.Finished() {
		names = append(names, fmt.Sprintf("%d.%s", f.ID(), f.Name()))
	}
	return strings.Join(names, " ")
}

// TestFinished checks that Finished returns at most finished_jobs jobs: those that have left last.
func TestFinished(t *testing.T) {
	h := newHarness(t, small.with(files{"conf/global": "finished_jobs 3"}))
	for i := range 20 {
		h.sub("alice", fmt.Sprintf("-h -N job%d", i+1))
	}
	for i := range 19 {
		h.Delete(h.now, Caller{User: "root"}, DeleteRequest{Jobs: []submit.JobRange{{Job: fmt.Sprint(i + 1)}}})
		if want := min(i+1, 3); len(h.Finished()) != want {
			t.Fatalf("after %d jobs have left there are %q", i+1, finished(h))
		}
	}
	if got := finished(h); got != "17.job17 18.job18 19.job19" {
		t.Errorf("%q", got)
	}
	if len(h.finished) > 6 {
		t.Errorf("%d jobs are kept", len(h.finished))
	}
	h = newHarness(t, small.with(files{"conf/global": "finished_jobs 0"}))
	h.sub("alice", "-h")
	h.Delete(h.now, Caller{User: "root"}, DeleteRequest{Jobs: []submit.JobRange{{Job: "1"}}})
	if got := finished(h); got != "" {
		t.Errorf("with finished_jobs 0 there are %q", got)
	}
}

// TestFinishedKeepsLittle checks that the cell keeps no data of a finished job that Finished does
// not return, such as its environment, which may be large. This includes data that the job shared
// with an existing job.
func TestFinishedKeepsLittle(t *testing.T) {
	c, problems := Restore(start, small.cluster(t), Options{}, func(func(string, []byte) bool) {})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for range 3 {
		for _, binary := range []string{"y", "n"} {
			r, err := submit.Parse(submit.Input{
				Args:   []string{"-h", "-b", binary, "-v", "A=large", "-ac", "B=large", "-l", "lic=1", "-t", "1-3", "-q", "all.q", "a.sh", "large"},
				Master: true, ReadFile: func(string) ([]byte, error) { return []byte("large"), nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Submit(start, Caller{User: "alice"}, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for id := range 4 {
		c.Delete(start, Caller{User: "root"}, DeleteRequest{Jobs: []submit.JobRange{{Job: fmt.Sprint(id + 1)}}})
	}
	if n := len(c.Finished()); n != 4 {
		t.Fatalf("%d jobs", n)
	}
	for _, f := range c.Finished() {
		for _, r := range []*submit.Request{f.asked, f.Request()} {
			if text := fmt.Sprintf("%q", []any{r.Script, r.Env, r.Args, r.Context}); strings.Contains(text, "large") {
				t.Errorf("of job %d there is still %s", f.ID(), text)
			}
		}
		if r := f.Request(); r.Array == nil || len(r.Resources) != 1 || len(r.Queues) != 1 {
			t.Errorf("%+v", r)
		}
	}
	for _, j := range c.Jobs() {
		if r := j.Request(); len(r.Env) != 2 || len(r.Args) != 1 || len(r.Context) != 1 {
			t.Errorf("job %d: %+v", j.ID(), r)
		}
	}
}

// TestUsersMadeForJobs checks that a user object that was created for a job exists while the user
// has jobs, and can be removed afterwards.
func TestUsersMadeForJobs(t *testing.T) {
	h := newHarness(t, small.with(files{
		"conf/global": "enforce_user auto\nauto_user_fshare 7\nauto_user_oticket 3\nauto_user_delete_time 3600", "users/carol": "name carol",
	}))
	h.sub("bob", "-h")
	h.sub("alice", "-h")
	h.sub("carol", "-h")
	users := h.AutomaticUsers()
	if len(users) != 2 || users[0].Name != "alice" || users[1].Name != "bob" {
		t.Fatalf("%+v", users)
	}
	if want := (AutomaticUser{Name: "bob", OverrideTickets: 3, FunctionalShare: 7, Expires: h.now + 3600}); users[1] != want {
		t.Errorf("%+v, want %+v", users[1], want)
	}
	for name, want := range map[string]string{"bob": "has jobs", "carol": "does not exist", "nobody": "does not exist"} {
		if err := h.RemoveAutomaticUser(h.now, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	h.Delete(h.now, Caller{User: "root"}, DeleteRequest{Jobs: []submit.JobRange{{Job: "1"}}})
	if err := h.RemoveAutomaticUser(h.now, "bob"); err != nil {
		t.Error(err)
	}
	if users := h.AutomaticUsers(); len(users) != 1 || users[0].Name != "alice" {
		t.Errorf("%+v", users)
	}
}
