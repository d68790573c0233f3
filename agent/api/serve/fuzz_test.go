package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/job"
)

// decoders holds, by method, a function that reads the message of a request and returns it in a form that
// can be compared.
var decoders = map[string]func([]byte) (any, *api.Error){
	"Start":       anyOf[api.Start],
	"StartBatch":  anyOf[api.BatchRequest],
	"StartTask":   anyOf[api.TaskStart],
	"Signal":      anyOf[api.SignalRequest],
	"SignalQueue": anyOf[api.SignalQueueRequest],
	"SetTickets":  anyOf[api.TicketsRequest],
	"Configure":   anyOf[api.ConfigureRequest],
	"Acknowledge": anyOf[api.AcknowledgeRequest],
	"Job":         anyOf[api.JobRequest],
	"Drain":       anyOf[api.DrainRequest],
	"Shutdown":    anyOf[api.ShutdownRequest],
	"Reports":     anyOf[api.ReportsRequest],
	"Health":      anyOf[api.Empty],
}

func anyOf[T any](b []byte) (any, *api.Error) {
	m, err := decode[T](b)
	if err != nil {
		return nil, err
	}
	return m, nil
}

var seeds = []string{
	``, `{}`, `{"job":7,"task":-1,"pe_task":"1.n1","order":"kill"}`, `{"number":3,"job":{"job":7,"task":0}}`, `{"queue":"all.q","order":"suspend_queue"}`,
	`{"tickets":[{"job":7,"task":0,"tickets":1e3}]}`, `{"files":{"queues/all.q":"qname all.q\n","x":""}}`, `{"after":1,"acknowledge":2,"heartbeat":0.5}`,
	`{"reason":"x"}`, `{"end_jobs":true}`, `[]`, `null`, `{"job":null}`, `{"x":1}`, `{"job":1e400}`, `{"job":7}{`, "{\"reason\":\"\xff\"}", `{"reason":"\ud800"}`,
	`{"job":7,"key":"k","owner":"alice","command":["/bin/x"],"environment":{"A":"1"},"directory":"/x"}`,
	`{"job":7,"task":1,"key":"k","owner":"alice","group":"g","department":"d","command":["-t","1-3","-N","x","-l","h_rt=60","job.sh","arg"],` +
		`"script":"#!/bin/sh\n#$ -j y\n","environment":{"HOME":"/h"},"environment_base64":{"B":"/w=="},"directory":"/home/alice","submitted":"2026-03-04T05:06:07.5Z",` +
		`"restarted":1,"grants":[{"queue":"all.q","host":"n1","slots":2,"names":{"gpu":["g0"]}}],"pe":"smp","slave":true,"tickets":1.5,"reservation":3,"interactive":{"rows":24,"cols":80,"term":"vt100","login":true}}`,
	`{"starts":[{"job":7,"grants":[]},{"job":8,"command_base64":["/w=="],"script_base64":"/w=="}]}`,
}

// FuzzDecode checks that a message that can be read stays the same when it is written and read
// again, and that an error has a code.
func FuzzDecode(f *testing.F) {
	for name := range decoders {
		for _, s := range seeds {
			f.Add(name, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		read := decoders[name]
		if read == nil {
			return
		}
		m, refused := read(body)
		if refused != nil {
			if refused.Code != api.InvalidArgument || refused.Message == "" || !utf8.ValidString(refused.Message) {
				t.Errorf("refused with %+q", refused)
			}
			return
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		again, refused := read(text)
		if refused != nil {
			t.Fatalf("%s\nis refused: %v", text, refused)
		}
		b, err := json.Marshal(again)
		if err != nil || !bytes.Equal(b, text) {
			t.Errorf("%s\nbecomes\n%s, %v", text, b, err)
		}
	})
}

// careful is an agent that checks the arguments of its calls.
type careful struct {
	*fake
	t *testing.T
}

func (c careful) Start(ctx context.Context, s *agent.Start) (agent.JobReport, error) {
	c.check(s.ID, 0)
	if s.Request == nil || s.Request.Help || s.Request.DryRun || s.Request.Binary != (s.Request.Script == nil) {
		c.t.Errorf("the request is %+v", s.Request)
	}
	if len(s.Grants) == 0 {
		return agent.JobReport{}, &agent.Error{Code: agent.InvalidArgument, Err: http.ErrNotSupported}
	}
	for _, text := range []string{s.Key, s.Owner, s.Group, s.Department, s.PE, s.Grants[0].Queue, s.Grants[0].Host} {
		if strings.ContainsAny(text, "\x00\n") {
			c.t.Errorf("%q has several lines", text)
		}
	}
	if s.SubmitDir != "" && s.SubmitDir[0] != '/' || s.Tickets < 0 || s.Restarted < job.FirstRun || s.Restarted > job.RestartedFromCkpt {
		c.t.Errorf("the start is %+v", s)
	}
	for _, v := range s.SubmitEnv {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.ContainsRune(v, 0) {
			c.t.Errorf("variable %q", v)
		}
	}
	return c.fake.Start(ctx, s)
}

func (c careful) check(id job.ID, least int) {
	if id.Job < 1 || id.Task < least || strings.ContainsAny(id.PETask, "/\n\x00") {
		c.t.Errorf("job %+v", id)
	}
}

func (c careful) Admit(ctx context.Context, s *agent.Start) error {
	_, err := c.Start(ctx, s)
	return err
}

func (c careful) StartTask(ctx context.Context, s *agent.TaskStart) (agent.JobReport, error) {
	c.check(s.Job, 0)
	if s.Key == "" || len(s.Command) == 0 || s.Dir != "" && s.Dir[0] != '/' {
		c.t.Errorf("the task is %+v", s)
	}
	return c.fake.StartTask(ctx, s)
}

func (c careful) Signal(ctx context.Context, id job.ID, o agent.Order) error {
	c.check(id, -1)
	if _, ok := orders[o]; !ok {
		c.t.Errorf("order %q", o)
	}
	return c.fake.Signal(ctx, id, o)
}

func (c careful) SetTickets(list []agent.Tickets) {
	for _, t := range list {
		if c.check(t.ID, 0); t.Tickets < 0 {
			c.t.Errorf("tickets %v", t)
		}
	}
}

// FuzzCalls checks that the answer to any request is a JSON object with a suitable status, and that
// the agent gets no call with an invalid form.
func FuzzCalls(f *testing.F) {
	for name := range decoders {
		for _, s := range seeds {
			f.Add(name, []byte(s), "", "")
		}
	}
	f.Add("Version", []byte("{}"), "3", "100")
	f.Fuzz(func(t *testing.T, name string, body []byte, epoch, timeout string) {
		s := &Server{
			options: Options{Limits: Limits{Body: 1 << 16}.withDefaults(), Install: func(_ context.Context, files map[string]string) error {
				for name := range files {
					if strings.HasPrefix(name, "/") || strings.Contains(name, "..") && strings.Contains("/"+name+"/", "/../") {
						t.Errorf("file %q", name)
					}
				}
				return nil
			}},
			methods: table(), calls: newCounter(1, 1), commands: careful{newFake(), t}, stopping: make(chan struct{}),
		}
		s.options.Notify = func(err error) { t.Error(err) }
		if name == "Reports" { // it has no end
			return
		}
		r, err := http.NewRequest(http.MethodPost, "http://x/", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Path = api.Path + name
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(api.EpochHeader, epoch)
		r.Header.Set("Connect-Timeout-Ms", timeout)
		c := &connection{peerConn: &peerConn{uid: 0}}
		w := &recorder{httptest.NewRecorder()}
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, c)))
		var answer map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("status %d, %q: %v", w.Code, w.Body, err)
		}
		code, failed := answer["code"].(string)
		if failed == (w.Code == http.StatusOK) || failed && api.Code(code).Status() != w.Code || code == string(api.Internal) {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
	})
}

// recorder is a response recorder that accepts deadlines, as a connection does.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetReadDeadline(time.Time) error  { return nil }
func (recorder) SetWriteDeadline(time.Time) error { return nil }

// TestDecodersAreComplete checks that the decoders above cover all methods.
func TestDecodersAreComplete(t *testing.T) {
	for name := range table() {
		switch name {
		case api.MethodAdmit, api.MethodAttach, api.MethodFullReport, api.MethodJobs, api.MethodResume, api.MethodVersion:
			continue // they take the message of another method
		}
		if decoders[string(name)] == nil {
			t.Errorf("FuzzDecode leaves out %s", name)
		}
	}
}

// TestTranslationsAreComplete checks that the translation of a job preserves all values of its
// fields.
func TestTranslationsAreComplete(t *testing.T) {
	for _, pair := range []struct {
		from, to reflect.Type
		besides  int // number of fields that have no counterpart in the message
	}{
		{reflect.TypeFor[agent.JobReport](), reflect.TypeFor[api.Job](), 1}, // Used only selects the message
		{reflect.TypeFor[agent.Health](), reflect.TypeFor[api.Health](), 0},
		{reflect.TypeFor[job.Usage](), reflect.TypeFor[api.Usage](), 0},
		{reflect.TypeFor[agent.Grant](), reflect.TypeFor[api.Grant](), 0},
		{reflect.TypeFor[job.GPUUsage](), reflect.TypeFor[api.GPUUsage](), -1}, // Idle is only in the message
	} {
		if diff := cmp.Diff(pair.from.NumField()-pair.besides, pair.to.NumField()); diff != "" {
			t.Errorf("%v and %v have different numbers of fields: is one of them not translated?\n%s", pair.from, pair.to, diff)
		}
	}
}
