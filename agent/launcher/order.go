package launcher

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/host/servicemanager"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/job"
)

// Version is the version of the protocol. Front and launcher are of one package and have the same version.
const Version = 2

// Limits of a message. A content that does not fit into a message is sent as a file in memory.
const (
	mostMessage = 64 << 10 // of the message itself
	mostContent = 16 << 20 // of a content in memory
	mostScript  = 64 << 20
	mostRecord  = 1 << 20
	mostNote    = 1 << 20
)

// kind is the kind of an order.
type kind string

// compactKinds are the kinds of orders whose messages and answers have the compact form, with their codes there. Messages
// of all other kinds are JSON.
var compactKinds = map[kind]byte{
	kindPrepare: 1, kindPrepareTask: 2, kindOpen: 3, kindLaunch: 4, kindWait: 5, kindSignal: 6, kindNote: 7, kindCollect: 8,
	kindRemove: 9, kindDiscard: 10, kindRemoveScript: 11, kindTerminal: 12,
}

// kindOfCode is the reverse of compactKinds.
var kindOfCode = func() (kinds [256]kind) {
	for k, code := range compactKinds {
		kinds[code] = k
	}
	return kinds
}()

const (
	kindHello        kind = "hello"
	kindJobs         kind = "jobs"
	kindPrepare      kind = "prepare"
	kindPrepareTask  kind = "prepare-task"
	kindOpen         kind = "open"
	kindLaunch       kind = "launch"
	kindWait         kind = "wait"
	kindSignal       kind = "signal"
	kindNote         kind = "note"
	kindCollect      kind = "collect"
	kindRemove       kind = "remove"
	kindDiscard      kind = "discard"
	kindRemoveScript kind = "remove-script"
	kindTry          kind = "try"
	kindSweep        kind = "sweep"
	kindKeep         kind = "keep"
	kindTerminal     kind = "terminal"
	kindPrioritise   kind = "prioritise"
	kindGPUs         kind = "gpus"
	kindVerify       kind = "verify"
	kindConfigure    kind = "configure"
	kindMail         kind = "mail"
	kindNotify       kind = "notify"
)

// envelope is a message of the front.
type envelope struct {
	Version int             `json:"version"`
	Number  uint64          `json:"number"` // of the order; its answer has the same
	Order   kind            `json:"order"`
	Body    json.RawMessage `json:"body,omitempty"`
	// Memory says that the body is in the first descriptor.
	Memory bool `json:"memory,omitempty"`

	compact bool // the message and its body have the compact form
	wait    bool // flagWait
}

// answer is a message of the launcher.
type answer struct {
	Version int             `json:"version"`
	Number  uint64          `json:"number"`
	Error   *Error          `json:"error,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
	Memory  bool            `json:"memory,omitempty"`

	compact bool // as in envelope
	more    bool // flagWait
}

// The bodies of orders. Orders about a job contain its ID.
type (
	empty       struct{}
	ofJob       struct{ ID job.ID }
	prepareBody struct {
		Plan   *launch.Plan
		Script bool // it is the last descriptor
		// Submitted is the submission of the owner; nil if a master orders the job.
		Submitted *submitted
	}
	// taskBody describes a task of a parallel job: see launch.PrepareTask.
	taskBody struct {
		ID      job.ID // with the name of the task
		Command []string
		Dir     string
		Env     []string
		Record  []byte
	}
	signalBody struct {
		ID     job.ID
		Signal launch.Signal
	}
	noteBody struct {
		ID   job.ID
		Note *launch.Note
	}
	removeBody struct {
		ID   job.ID
		Keep bool
	}
	scriptBody struct{ Job int }
	// removeAnswer says whether the script of the job was removed, too: it is, with the last task.
	removeAnswer struct{ Script bool }
	// verifyBody asks for the verification of a submission by the verifier of the site.
	verifyBody struct {
		UID          uint32                   `json:"uid"` // of the submitting user
		Key          string                   `json:"key"`
		Job          int                      `json:"job"` // the number that the job gets
		Verification *submission.Verification `json:"verification"`
	}
	gpusBody struct {
		Ask bool `json:"ask"` // nvidia-smi for missing data
	}
	prioritiseBody struct {
		Jobs []sharer `json:"jobs"`
	}
	// sharer is a running job and its priority: see ptf.Priority.
	sharer struct {
		ID     job.ID `json:"id"`
		Nice   int    `json:"nice"`
		Weight uint64 `json:"weight"`
	}
	// keepBody has the keys of all submissions that are still of use.
	keepBody struct {
		Keys []string `json:"keys"`
	}
)

// The bodies of answers.
type (
	helloAnswer struct {
		Area     string   `json:"area"`
		Settings settings `json:"settings"`
		// Program and Args are those of the fronts that the launcher starts: see ClientOptions.
		Program string   `json:"program,omitempty"`
		Args    []string `json:"args,omitempty"`
		// SGERoot and SGECell are the variables of jobs with these names.
		SGERoot string `json:"sge_root,omitempty"`
		SGECell string `json:"sge_cell,omitempty"`
	}
	// verifyAnswer has the changes of the verifier, and the digest of the submission with these changes; or why the
	// job is not submitted.
	verifyAnswer struct {
		Corrections []correction `json:"corrections,omitempty"`
		Digest      string       `json:"digest,omitempty"`
		Rejected    string       `json:"rejected,omitempty"`
	}
	// correction is a submit.Correction.
	correction struct {
		Name     submission.Text `json:"name"`
		Value    submission.Text `json:"value"`
		Variable bool            `json:"variable,omitempty"`
		Remove   bool            `json:"remove,omitempty"`
	}
	// gpusAnswer is empty if the launcher does not look after GPUs.
	gpusAnswer struct {
		Inventory *gpu.Inventory `json:"inventory,omitempty"`
		Numbers   []string       `json:"numbers,omitempty"` // gpu.Register.Numbers
	}
	prioritiseAnswer struct {
		Results []sharing `json:"results"` // in the order of the jobs
	}
	// sharing is a ptf.Result.
	sharing struct {
		Weighted  bool   `json:"weighted,omitempty"`
		Processes int    `json:"processes,omitempty"`
		Error     *Error `json:"error,omitempty"`
	}
	jobsAnswer struct {
		Jobs    []job.ID `json:"jobs"`
		Scripts []int    `json:"scripts"`
	}
	// jobAnswer comes with the descriptor of the directory. It has the description, or what the launcher has changed in that
	// of the order. An answer to prepare has no record in its state: the front has sent it.
	jobAnswer struct {
		Description *job.Description
		Changes     []byte // see changesOf
		State       launch.State
	}
	launchAnswer struct{ PID int }
	// waitAnswer has the outcome, too, if the job has nothing that may go on without its supervisor.
	waitAnswer struct {
		Status  uint32
		Outcome *job.Outcome
	}
	collectAnswer struct{ Outcome *job.Outcome }
)

// decode reads one JSON value. Unknown fields and data after the value are errors.
func decode(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is other data after the value")
	}
	return nil
}

// bodyField begins the body of a message, as withBody writes it. In a string its quotes would be escaped.
const bodyField = `,"body":`

// withBody returns a message with a body, of which head has all other fields. Package json would read the whole body again
// to copy it.
func withBody(head, body []byte) []byte {
	if len(body) == 0 {
		return head
	}
	text := make([]byte, 0, len(head)+len(bodyField)+len(body))
	text = append(text, head[:len(head)-1]...)
	text = append(text, bodyField...)
	return append(append(text, body...), '}')
}

// splitBody is the reverse of withBody. It is false for messages of another form, which decode reads as well. What it takes
// for the body may be no JSON: decodeBody sees that.
func splitBody(text []byte) (head, body []byte, ok bool) {
	i := bytes.Index(text, []byte(bodyField))
	if i < 0 || !bytes.HasSuffix(text, []byte("}}")) {
		return nil, nil, false
	}
	head = append(slices.Clone(text[:i]), '}')
	return head, slices.Clone(text[i+len(bodyField) : len(text)-1]), true
}

// decodeMessage reads a message, without its body, into v, and returns the body if it is apart.
func decodeMessage(text []byte, v any) (body []byte, err error) {
	if head, body, ok := splitBody(text); ok {
		return body, decode(head, v)
	}
	return nil, decode(text, v)
}

// decodeEnvelope reads a message of the front. With an error the number is that of the order, as far
// as it could be read.
func decodeEnvelope(text []byte) (*envelope, error) {
	e := &envelope{}
	if isCompact(text) {
		if err := readCompactOrder(text, e); err != nil {
			return e, fmt.Errorf("it is not an order: %w", err)
		}
		if e.Version != Version {
			return e, fmt.Errorf("version %d, expected %d", e.Version, Version)
		}
		return e, nil
	}
	body, err := decodeMessage(text, e)
	if err != nil {
		return e, fmt.Errorf("it is not an order: %w", err)
	}
	if body != nil {
		e.Body = body
	}
	switch {
	case e.Version != Version:
		return e, fmt.Errorf("version %d, expected %d", e.Version, Version)
	case e.Memory && len(e.Body) > 0:
		return e, errors.New("it has two bodies")
	}
	return e, nil
}

// decodeBody reads the body of an order, in the form of its kind. A kind of order that does not exist is an error.
func decodeBody(k kind, text []byte) (any, error) {
	var body any
	switch k {
	case kindHello, kindJobs, kindTry, kindSweep:
		body = &empty{}
	case kindOpen, kindLaunch, kindWait, kindCollect, kindDiscard, kindTerminal:
		body = &ofJob{}
	case kindPrepare:
		body = &prepareBody{}
	case kindPrepareTask:
		body = &taskBody{}
	case kindSignal:
		body = &signalBody{}
	case kindNote:
		body = &noteBody{}
	case kindRemove:
		body = &removeBody{}
	case kindRemoveScript:
		body = &scriptBody{}
	case kindKeep:
		body = &keepBody{}
	case kindGPUs:
		body = &gpusBody{}
	case kindVerify:
		body = &verifyBody{}
	case kindConfigure:
		body = &configureBody{}
	case kindMail:
		body = &mailBody{}
	case kindNotify:
		body = &servicemanager.State{}
	case kindPrioritise:
		body = &prioritiseBody{}
	default:
		return nil, fmt.Errorf("unknown order %q", string(k))
	}
	read := decode
	if compactKinds[k] != 0 {
		read = fromCompact
	}
	if err := read(text, body); err != nil {
		return nil, fmt.Errorf("the body of %s: %w", k, err)
	}
	return body, nil
}
