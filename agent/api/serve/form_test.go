package serve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/job"
)

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	api.Error
	text string
}

// post makes a call without the client of package api. header is a list of names, each followed by its value.
func (r *running) post(path, body string, header ...string) answer {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	if m := request.Header.Get("X-Method"); m != "" {
		request.Method = m
	}
	return r.do(request)
}

func (r *running) do(request *http.Request) answer {
	r.t.Helper()
	conn, err := net.Dial("unix", r.socket)
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	go func() { _ = request.Write(conn) }() // the server may refuse a request before it has read all of it
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := answer{status: response.StatusCode, header: response.Header, text: string(text)}
	if a.status != http.StatusOK {
		if err := json.Unmarshal(text, &a.Error); err != nil {
			r.t.Fatalf("status %d: %q: %v", a.status, text, err)
		}
	}
	return a
}

func TestForm(t *testing.T) {
	r := run(t, func(o *Options) { o.Limits.Body = 1000 })
	const version = "/execd.v1.Agent/Version"
	tests := map[string]struct {
		path, body string
		header     []string
		status     int
		code       api.Code
		message    string
	}{
		"an empty message":              {version, `{}`, nil, 200, "", ""},
		"no message":                    {version, ``, nil, 200, "", ""},
		"blanks around it":              {version, " {}\n", nil, 200, "", ""},
		"with a character set":          {version, `{}`, []string{"Content-Type", "application/json; charset=UTF-8"}, 200, "", ""},
		"as Connect does":               {version, `{}`, []string{"Connect-Protocol-Version", "1", "Connect-Timeout-Ms", "60000"}, 200, "", ""},
		"GET":                           {version, ``, []string{"X-Method", "GET"}, 405, api.Unimplemented, "GET, expected POST"},
		"an unknown HTTP method":        {version, ``, []string{"X-Method", "BREW"}, 405, api.Unimplemented, "BREW"},
		"a form":                        {version, `{}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, api.Unimplemented, "expected application/json"},
		"Latin 1":                       {version, `{}`, []string{"Content-Type", "application/json; charset=latin1"}, 415, api.Unimplemented, "latin1"},
		"without a type":                {version, `{}`, []string{"Content-Type", ""}, 415, api.Unimplemented, "Content-Type"},
		"compressed":                    {version, `{}`, []string{"Content-Encoding", "gzip"}, 501, api.Unimplemented, "gzip"},
		"another Connect":               {version, `{}`, []string{"Connect-Protocol-Version", "2"}, 400, api.InvalidArgument, "expected 1"},
		"an invalid timeout":            {version, `{}`, []string{"Connect-Timeout-Ms", "soon"}, 400, api.InvalidArgument, `"soon"`},
		"a timeout that is too long":    {version, `{}`, []string{"Connect-Timeout-Ms", "10000000000"}, 400, api.InvalidArgument, "10 digits"},
		"an invalid epoch":              {version, `{}`, []string{"Execd-Master-Epoch", "-1"}, 400, api.InvalidArgument, `"-1"`},
		"no such method":                {"/execd.v1.Agent/Nothing", `{}`, nil, 501, api.Unimplemented, "Agent/Nothing"},
		"another version":               {"/execd.v2.Agent/Version", `{}`, nil, 501, api.Unimplemented, "execd.v2"},
		"the root":                      {"/", `{}`, nil, 501, api.Unimplemented, `no "/"`},
		"a method below another":        {version + "/", `{}`, nil, 501, api.Unimplemented, "Version/"},
		"a message that is too long":    {version, `{` + strings.Repeat(" ", 1000) + `}`, nil, 429, api.ResourceExhausted, "more than 1000 bytes"},
		"an unknown field":              {version, `{"x":1}`, nil, 400, api.InvalidArgument, `unknown field "x"`},
		"an unknown field deep inside":  {"/execd.v1.Agent/StartBatch", `{"starts":[{"job":1,"grants":[{"host":"h","y":1}]}]}`, nil, 400, api.InvalidArgument, `unknown field "y"`},
		"no JSON":                       {version, `job=7`, nil, 400, api.InvalidArgument, "at byte 1"},
		"half a message":                {version, `{"x`, nil, 400, api.InvalidArgument, "it ends after 3 bytes"},
		"two messages":                  {version, `{} {}`, nil, 400, api.InvalidArgument, "more behind it"},
		"a list":                        {version, `[]`, nil, 400, api.InvalidArgument, "the message is a JSON array, expected an object"},
		"no UTF-8":                      {version, "{\"\xff\":1}", nil, 400, api.InvalidArgument, "no UTF-8"},
		"a text for a number":           {"/execd.v1.Agent/Job", `{"job":"7"}`, nil, 400, api.InvalidArgument, "job is a JSON string, expected a whole number"},
		"a fraction for a whole number": {"/execd.v1.Agent/Job", `{"job":7.5}`, nil, 400, api.InvalidArgument, "job is a JSON number 7.5, expected a whole number"},
		"a negative number":             {"/execd.v1.Agent/Acknowledge", `{"number":-1}`, nil, 400, api.InvalidArgument, "number is a JSON number -1, expected a whole number from 0 on"},
		"a number for a text":           {"/execd.v1.Agent/Drain", `{"reason":1}`, nil, 400, api.InvalidArgument, "reason is a JSON number, expected a string"},
		"a number for yes and no":       {"/execd.v1.Agent/Shutdown", `{"end_jobs":1}`, nil, 400, api.InvalidArgument, "end_jobs is a JSON number, expected true or false"},
		"a text for a list":             {"/execd.v1.Agent/Start", `{"job":1,"command":"x"}`, nil, 400, api.InvalidArgument, "command is a JSON string, expected a list"},
		"a time that is no RFC 3339":    {"/execd.v1.Agent/Start", `{"job":1,"submitted":"today"}`, nil, 400, api.InvalidArgument, "today"},
		"invalid base64":                {"/execd.v1.Agent/Start", `{"job":1,"script_base64":"?"}`, nil, 400, api.InvalidArgument, "base64"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := r.post(test.path, test.body, test.header...)
			if a.status != test.status || a.Code != test.code || !strings.Contains(a.Message, test.message) {
				t.Errorf("status %d, %q; want %d, %s: ...%s...", a.status, a.text, test.status, test.code, test.message)
			}
			if kind := a.header.Get("Content-Type"); kind != "application/json" {
				t.Errorf("Content-Type: %s", kind)
			}
		})
	}
}

// TestMessages checks that the server validates a message before it calls the agent.
func TestMessages(t *testing.T) {
	r := run(t, func(o *Options) { o.Limits.Batch = 2 })
	r.agent.put(agent.JobReport{ID: job.ID{Job: 7}, Owner: "alice"})
	start := func(change func(s *api.Start)) string {
		s := aStart(5)
		change(&s)
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	command := func(words ...string) string { return start(func(s *api.Start) { s.Command = words }) }
	const deep = `{"job":5,"key":"k","owner":"o","command":["x"]`
	tests := map[string]struct{ method, body, message string }{
		"no job":                           {"Start", start(func(s *api.Start) { s.Job = 0 }), "job: 0, expected a number from 1"},
		"a job that is too large":          {"Start", start(func(s *api.Start) { s.Job = 1 << 31 }), "job: 2147483648"},
		"a negative task":                  {"Start", start(func(s *api.Start) { s.Task = -1 }), "task: -1, expected a number from 0"},
		"a key of two lines":               {"Start", start(func(s *api.Start) { s.Key = "a\nb" }), `key: "a\nb", expected one line`},
		"an owner of two lines":            {"Start", start(func(s *api.Start) { s.Owner = "a\nb" }), "owner"},
		"a queue of two lines":             {"Start", start(func(s *api.Start) { s.Grants[0].Queue = "a\nb" }), "grants.queue"},
		"a directory that is relative":     {"Start", start(func(s *api.Start) { s.Directory = "home" }), `directory: "home", expected an absolute path`},
		"a variable without a name":        {"Start", start(func(s *api.Start) { s.Environment[""] = "x" }), "environment"},
		"a variable with a strange name":   {"Start", start(func(s *api.Start) { s.Environment["a=b"] = "x" }), "environment"},
		"a variable with NUL":              {"Start", start(func(s *api.Start) { s.Environment["a"] = "\x00" }), "without NUL"},
		"a variable twice":                 {"Start", start(func(s *api.Start) { s.EnvironmentBase64 = map[string][]byte{"HOME": nil} }), "either there or"},
		"two scripts":                      {"Start", start(func(s *api.Start) { s.ScriptBase64 = []byte("x") }), "script"},
		"two commands":                     {"Start", start(func(s *api.Start) { s.CommandBase64 = [][]byte{{}} }), "either that or command_base64"},
		"a strange restart":                {"Start", start(func(s *api.Start) { s.Restarted = 3 }), "restarted: 3, expected 0, 1 or 2"},
		"negative tickets":                 {"Start", start(func(s *api.Start) { s.Tickets = -1 }), "tickets: -1"},
		"a negative reservation":           {"Start", start(func(s *api.Start) { s.Reservation = -1 }), "reservation: -1"},
		"an unknown option":                {"Start", command("-xyz", "job.sh"), `job 5: command: command line: "-xyz": unknown option`},
		"an option with a wrong value":     {"Start", command("-p", "5000", "job.sh"), `"-p 5000"`},
		"an option in the script":          {"Start", start(func(s *api.Start) { s.Script = "#!/bin/sh\n\n#$ -p x\n" }), `command: job.sh:3: "-p x"`},
		"a word with NUL":                  {"Start", command("job.sh", "\x00"), "without NUL"},
		"help":                             {"Start", command("-help"), "does not start one"},
		"a job that is only described":     {"Start", command("-verify", "job.sh"), "does not start one"},
		"a job that is only validated":     {"Start", command("-w", "v", "job.sh"), "does not start one"},
		"a file of options":                {"Start", command("-@", "options", "job.sh"), `"-@ options": cannot read the file: the agent reads no files of options`},
		"no script":                        {"Start", start(func(s *api.Start) { s.Script = "" }), "the field script is empty"},
		"no script and no name of it":      {"Start", start(func(s *api.Start) { s.Script, s.Command = "", nil }), "the field script is empty"},
		"a script for a binary":            {"Start", command("-b", "y", "/bin/true"), "would not be used"},
		"a task without -t":                {"Start", start(func(s *api.Start) { s.Task = 1 }), "-t is missing"},
		"no task with -t":                  {"Start", command("-t", "1-3", "job.sh"), "-t 1-3:1: 5 is not one of its tasks"},
		"a task between those of -t":       {"Start", start(func(s *api.Start) { s.Task, s.Command = 2, []string{"-t", "1-3:2", "job.sh"} }), "5.2 is not one"},
		"a task behind those of -t":        {"Start", start(func(s *api.Start) { s.Task, s.Command = 5, []string{"-t", "1-3:2", "job.sh"} }), "5.5 is not one"},
		"Admit without -t":                 {"Admit", start(func(s *api.Start) { s.Task = 1 }), "-t is missing"},
		"too many starts":                  {"StartBatch", `{"starts":[{},{},{}]}`, "has 3 starts, at most 2"},
		"a task without a key":             {"StartTask", `{"job":5,"owner":"o","command":["x"]}`, "key is empty"},
		"a task without a command":         {"StartTask", `{"job":5,"key":"k","owner":"o"}`, "command is empty"},
		"a task with an empty command":     {"StartTask", `{"job":5,"key":"k","owner":"o","command":[""]}`, "command is empty"},
		"a task in a relative directory":   {"StartTask", deep + `,"directory":"x"}`, "an absolute path"},
		"a task of no job":                 {"StartTask", `{}`, "job: 0"},
		"an unknown order":                 {"Signal", `{"job":7,"order":"stop"}`, `there is no "stop", expected one of ["kill"`},
		"no order":                         {"Signal", `{"job":7}`, `there is no ""`},
		"an order for a strange task":      {"Signal", `{"job":7,"task":-2,"order":"kill"}`, "task: -2, expected a number from -1"},
		"an order for a task in all tasks": {"Signal", `{"job":7,"task":-1,"pe_task":"1.h","order":"kill"}`, "task: -1"},
		"a task with a strange name":       {"Signal", `{"job":7,"pe_task":"../x","order":"kill"}`, "pe_task"},
		"an order that is not for queues":  {"SignalQueue", `{"queue":"q","order":"kill"}`, `a queue does not have the order "kill"`},
		"a queue of another host":          {"SignalQueue", `{"queue":"q@h","order":"suspend_queue"}`, "the name of a cluster queue"},
		"no queue":                         {"SignalQueue", `{"order":"suspend_queue"}`, "the name of a cluster queue"},
		"tickets for no job":               {"SetTickets", `{"tickets":[{"tickets":1}]}`, "job: 0"},
		"tickets that are negative":        {"SetTickets", `{"tickets":[{"job":1,"tickets":-1}]}`, "-1 tickets"},
		"an acknowledgement of nothing":    {"Acknowledge", `{}`, "number: expected"},
		"an acknowledgement of no job":     {"Acknowledge", `{"number":1,"job":{}}`, "job: 0"},
		"a question for no job":            {"Job", `{}`, "job: 0"},
		"heartbeats that are too frequent": {"Reports", `{"heartbeat":0.001}`, "heartbeat: 0.001, expected 0.1 to 3600 seconds"},
		"heartbeats that are too rare":     {"Reports", `{"heartbeat":1e9}`, "heartbeat"},
		"heartbeats at negative intervals": {"Reports", `{"heartbeat":-1}`, "heartbeat"},
		"a file for an agent without push": {"Configure", `{"files":{"../x":""}}`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r.agent.said()
			a := r.post(api.Path+test.method, test.body)
			code := api.InvalidArgument
			switch test.method {
			case "StartBatch":
				code = api.ResourceExhausted
			case "Configure":
				code = api.Unimplemented
			}
			if a.Code != code || !strings.Contains(a.Message, test.message) {
				t.Errorf("status %d, %q; want %s: ...%s...", a.status, a.text, code, test.message)
			}
			if said := r.agent.said(); len(said) > 0 {
				t.Errorf("the agent was asked: %v", said)
			}
		})
	}
}

// TestAnswersForPeople checks that answers contain characters such as < unescaped.
func TestAnswersForPeople(t *testing.T) {
	r := run(t, nil)
	r.agent.err = errors.New("load <= 1 & slots > 2")
	if a := r.post("/execd.v1.Agent/Resume", ""); a.text != `{"code":"internal","message":"load <= 1 & slots > 2"}`+"\n" {
		t.Errorf("got %q", a.text)
	}
	r.agent.put(agent.JobReport{ID: job.ID{Job: 7}, Name: "<&>"})
	if got := read(t, r.stream(t.Context(), `{"after":1}`), 1); !strings.Contains(got, `"name":"<&>"`) {
		t.Errorf("got %s", got)
	}
}

// TestTimeout checks that a call ends when the timeout that its caller gave has passed.
func TestTimeout(t *testing.T) {
	r := run(t, nil)
	r.agent.gate = make(chan struct{})
	b, err := json.Marshal(aStart(1))
	if err != nil {
		t.Fatal(err)
	}
	a := r.post("/execd.v1.Agent/Start", string(b), "Connect-Timeout-Ms", "1")
	if a.status != http.StatusGatewayTimeout || a.Code != api.DeadlineExceeded {
		t.Errorf("status %d, %s", a.status, a.text)
	}
}

// TestCallEndsWhenCallerDisconnects checks that a call ends when its caller has closed the
// connection.
func TestCallEndsWhenCallerDisconnects(t *testing.T) {
	r := run(t, nil)
	r.agent.gate = make(chan struct{})
	conn, err := net.Dial("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(aStart(1))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPost, "http://localhost/execd.v1.Agent/Start", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if err := request.Write(conn); err != nil {
		t.Fatal(err)
	}
	calls := func() int {
		r.calls.mu.Lock()
		defer r.calls.mu.Unlock()
		return r.calls.total
	}
	if !soon(func() bool { return calls() == 1 }) {
		t.Fatal("the call does not begin")
	}
	conn.Close()
	if !soon(func() bool { return calls() == 0 }) {
		t.Error("the call goes on")
	}
}

// TestIncompleteRequestIsDisconnected checks that the server closes connections of clients that
// send nothing, or only a part of a request.
func TestIncompleteRequestIsDisconnected(t *testing.T) {
	r := run(t, func(o *Options) {
		o.Limits.Header, o.Limits.Read, o.Limits.Idle = 50*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	})
	for name, sent := range map[string]string{
		"nothing":       "",
		"half a header": "POST /execd.v1.Agent/Version HTTP/1.1\r\nHost: x\r\n",
		"half a body":   "POST /execd.v1.Agent/Version HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
		"one request":   "POST /execd.v1.Agent/Version HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
	} {
		conn, err := net.Dial("unix", r.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// On a slow machine the server may close the connection before this is written.
		_, _ = conn.Write([]byte(sent))
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the server does not close the connection", name)
		}
	}
}

// TestSlowAgent checks that the time limit for sending a request does not limit the wait for its
// answer.
func TestSlowAgent(t *testing.T) {
	r := run(t, func(o *Options) { o.Limits.Read = 50 * time.Millisecond })
	r.agent.gate = make(chan struct{})
	late := time.AfterFunc(200*time.Millisecond, func() { close(r.agent.gate) })
	defer late.Stop()
	if _, err := r.client().Start(t.Context(), aStart(1)); err != nil {
		t.Error(err)
	}
}
