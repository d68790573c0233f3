package verifier

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/submit"
)

const (
	// mostOfLine bounds a line of a verifier.
	mostOfLine = 1 << 20
	// mostOfAnswer is the maximum size of its answer about a job, and mostLogged of the logged part
	// of that, both in bytes.
	mostOfAnswer = 16 << 20
	mostLogged   = 1000
)

// Log receives the log messages of a verifier. level is the verifier's word: INFO, WARNING or
// ERROR.
type Log func(level, text string)

// conversation is the dialogue with a verifier (jsv_script_interface(3)).
type conversation struct {
	*process
	path     string
	lines    chan string
	over     chan struct{} // closed when the dialogue has ended
	log      Log
	patience time.Duration
	said     int  // the size of its answer about this job so far, in bytes
	logs     int  // how many lines for the log
	started  bool // it has answered to START
}

// talkTo starts a verifier.
func talkTo(path string, as whom, log Log, patience time.Duration) (*conversation, error) {
	p, err := spawn(path, as)
	if err != nil {
		return nil, err
	}
	c := &conversation{process: p, path: path, lines: make(chan string), over: make(chan struct{}), log: log, patience: patience}
	go c.read()
	return c, nil
}

func (c *conversation) read() {
	defer close(c.lines)
	scanner := bufio.NewScanner(c.out)
	scanner.Buffer(nil, mostOfLine)
	for scanner.Scan() {
		select {
		case c.lines <- scanner.Text():
		case <-c.over:
			return
		}
	}
}

// quit tells the verifier to quit, and kills it if it does not.
func (c *conversation) quit(inWords bool) {
	stop := time.AfterFunc(farewell, c.end)
	if inWords {
		_ = c.say("QUIT") // it may have ended already
	}
	_ = c.in.Close()
	close(c.over)
	for range c.lines { // its remaining output
	}
	select {
	case <-c.program.Done():
	case <-time.After(2 * farewell): // it hangs in the kernel
	}
	stop.Stop()
	c.end()
}

// say waits until the line is taken, as long as for an answer.
func (c *conversation) say(line string) error {
	_ = c.in.SetWriteDeadline(time.Now().Add(c.patience))
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		return c.silent()
	}
	return nil
}

// silent returns the error for a verifier that stopped answering.
func (c *conversation) silent() error {
	if err := c.complained(); err != nil {
		return err
	}
	return errors.New("got no response from JSV script " + strconv.Quote(c.path))
}

// complained returns the error for a job whose verifier has written to its standard error, in the
// words of Grid Engine (tested).
func (c *conversation) complained() error {
	line, _, _ := strings.Cut(strings.TrimSpace(c.complaint()), "\n")
	if line == "" {
		return nil
	}
	return &ComplaintError{line}
}

// ComplaintError is the refusal of a job whose verifier has written to standard error.
type ComplaintError struct {
	line string
}

// Error returns the lines that the original prints.
func (e *ComplaintError) Error() string { return e.Line() + "\nJSV stderr is - " + e.line }

// Line returns the first of them.
func (e *ComplaintError) Line() string { return "JSV stderr: " + e.line }

// next returns the next line that is not empty.
func (c *conversation) next() (word, rest string, err error) {
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				return "", "", c.silent()
			}
			if c.said += len(line) + 1; c.said > mostOfAnswer {
				return "", "", errors.New("too long a response from JSV script " + strconv.Quote(c.path))
			}
			if line = strings.TrimRight(line, " \r"); line != "" {
				word, rest, _ = strings.Cut(line, " ")
				return word, rest, nil
			}
		case <-timer.C:
			return "", "", c.silent()
		}
	}
}

// verify asks the verifier about a job.
func (c *conversation) verify(parameters []submit.Parameter, environment []submit.Variable) ([]submit.Correction, error) {
	c.said, c.logs, c.started = 0, 0, false
	if err := c.say("START"); err != nil {
		return nil, err
	}
	wantsEnvironment, err := c.begin()
	if err != nil {
		return nil, err
	}
	c.started = true
	var lines []string
	for _, p := range parameters {
		lines = append(lines, "PARAM "+p.Name+" "+p.Value)
	}
	if wantsEnvironment {
		for _, v := range environment {
			lines = append(lines, "ENV ADD "+v.Name+" "+v.Value)
		}
	}
	for _, l := range lines {
		// A value of several lines would be commands of their own.
		if err := c.say(strings.ReplaceAll(l, "\n", "\\n")); err != nil {
			return nil, err
		}
	}
	if err := c.say("BEGIN"); err != nil {
		return nil, err
	}
	changes, err := c.verdict()
	if e := c.complained(); e != nil {
		return nil, e
	}
	return changes, err
}

// begin waits for the answer to START, and reports whether the verifier asks for the environment.
func (c *conversation) begin() (environment bool, err error) {
	for {
		word, rest, err := c.next()
		switch {
		case err != nil:
			return false, err
		case word == "STARTED":
			return environment, nil
		case word == "SEND" && rest == "ENV":
			environment = true
		case word == "LOG":
			c.logged(rest)
		default:
			return false, unknown(word)
		}
	}
}

func unknown(word string) error {
	return errors.New("master got unknown command from JSV: " + strconv.Quote(word))
}

func (c *conversation) logged(rest string) {
	if c.logs++; c.logs > mostLogged {
		return
	}
	level, text, _ := strings.Cut(rest, " ")
	c.log(level, text)
}

func (c *conversation) verdict() (changes []submit.Correction, err error) {
	for {
		word, rest, err := c.next()
		if err != nil {
			return nil, err
		}
		switch word {
		case "PARAM":
			name, value, _ := strings.Cut(rest, " ")
			changes = append(changes, submit.Correction{Parameter: submit.Parameter{Name: name, Value: value}})
		case "ENV":
			action, rest, _ := strings.Cut(rest, " ")
			name, value, _ := strings.Cut(rest, " ")
			if action != "ADD" && action != "MOD" && action != "DEL" {
				return nil, unknown(word + " " + action)
			}
			changes = append(changes, submit.Correction{Parameter: submit.Parameter{Name: name, Value: value}, Variable: true, Remove: action == "DEL"})
		case "LOG":
			c.logged(rest)
		case "SEND":
			// It comes too late for this job; the environment is no longer sent (tested).
			if rest != "ENV" {
				return nil, errors.New("got " + strconv.Quote(rest) + " as object for SEND command")
			}
		case "RESULT":
			return result(rest, changes)
		default:
			return nil, unknown(word)
		}
	}
}

// result reads "STATE verdict message".
func result(rest string, changes []submit.Correction) ([]submit.Correction, error) {
	_, rest, _ = strings.Cut(rest, " ")
	state, message, _ := strings.Cut(rest, " ")
	switch state {
	case "ACCEPT", "CORRECT": // 8.1.9 makes the changes in both cases (tested)
		return changes, nil
	case "REJECT":
		if message == "" {
			message = "JSV rejected job"
		}
		return nil, &RejectedError{message}
	case "REJECT_WAIT":
		if message == "" {
			message = "JSV temporarily rejected job"
		}
		return nil, &RejectedError{message}
	}
	return nil, errors.New("JSV sent unknown result " + strconv.Quote(state))
}
