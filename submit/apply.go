package submit

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// builder collects settings into a request.
type builder struct {
	req Request
	in  *Input
	// -v takes precedence over -V in any order, so they are stored separately.
	wholeEnv []string // of -V
	env      variables
	known    [2]*environment // in.Env and in.TextEnv; nil until -v needs it
	verify   bool            // -verify

	manner     Manner
	display    string // -display
	hasDisplay bool

	units     bindingUnits
	context   variables
	resources ordered[resourceKey, ResourceRequest]
	mail      byHost[string]
	paths     map[string]*byHost[HostPath] // of -e, -i, -o and -S

	// Values of qalter and qrsub that the request has no fields for.
	alteration  *Alteration
	reservation *Reservation
}

// The functions of the table. A problem that they return becomes an Error with the place and the
// values.

func (s setting) value() string { return s.values[0] }

func ignore(*builder, setting) error { return nil }

func setHelp(*builder, setting) error {
	// Parse has already checked the command line.
	return errors.New("it is only allowed on the command line")
}

func setVerify(b *builder, _ setting) error { b.verify = true; return nil }
func setTerse(b *builder, _ setting) error  { b.req.Terse = true; return nil }
func setNotify(b *builder, _ setting) error { b.req.Notify = true; return nil }

func setNoStdin(b *builder, _ setting) error { b.manner.NoStdin = true; return nil }
func setVerbose(b *builder, _ setting) error { b.manner.Verbose = true; return nil }
func setDisplay(b *builder, s setting) error { b.display, b.hasDisplay = s.value(), true; return nil }

func setBinary(b *builder, s setting) (err error) {
	b.req.Binary, err = yesNo(s.value())
	return err
}

func setJoin(b *builder, s setting) (err error) {
	b.req.Join, err = yesNo(s.value())
	return err
}

func setNoShell(b *builder, s setting) error {
	shell, err := yesNo(s.value())
	b.req.NoShell = !shell
	return err
}

func setWithoutShell(b *builder, _ setting) error { b.req.NoShell = true; return nil }

func setRerun(b *builder, s setting) (err error) {
	b.req.Rerun, err = tristate(s.value())
	return err
}

func setPTY(b *builder, s setting) (err error) {
	b.req.PTY, err = tristate(s.value())
	return err
}

// yesNo reads y[es]|n[o], in any case (tested).
func yesNo(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "y", "yes":
		return true, nil
	case "n", "no":
		return false, nil
	}
	return false, errors.New(strconv.Quote(s) + " is neither y[es] nor n[o]")
}

func isNo(values []string) bool {
	yes, err := yesNo(values[0])
	return err == nil && !yes
}

func tristate(s string) (job.Tristate, error) {
	yes, err := yesNo(s)
	if yes {
		return job.Yes, err
	}
	return job.No, err
}

func setName(b *builder, s setting) error {
	if s.value() == "" && (b.alteration != nil || b.reservation != nil) {
		return nil // no effect (tested)
	}
	b.req.Name = s.value()
	return checkJobName(s.value())
}

func setAccount(b *builder, s setting) error {
	b.req.Account = s.value()
	return b.nameOrNone(s.value(), checkName)
}

func setProject(b *builder, s setting) error {
	b.req.Project = s.value()
	if s.value() == "" && b.alteration != nil {
		return nil // qalter -P '' removes the project (tested)
	}
	return b.nameOrNone(s.value(), checkObject)
}

func setCheckpoint(b *builder, s setting) error {
	b.req.Checkpoint = s.value()
	if s.value() == "" && b.alteration != nil {
		return nil // qalter -ckpt '' removes the checkpoint object (tested)
	}
	return b.nameOrNone(s.value(), checkObject)
}

// nameOrNone checks a name. For a master an empty name cancels the option of a request file.
func (b *builder) nameOrNone(name string, check func(string) error) error {
	if name == "" && b.in.Master && b.alteration == nil {
		return nil
	}
	return check(name)
}

func setPriority(b *builder, s setting) error {
	n, err := strconv.Atoi(strings.TrimSpace(s.value()))
	if err != nil || n < -1023 || n > 1024 {
		return errors.New("invalid priority " + strconv.Quote(s.value()) + ".  Must be an integer from -1023 to 1024")
	}
	b.req.Priority = n
	return nil
}

func setPaths(b *builder, s setting) error {
	list, err := ParsePaths(s.value())
	if err != nil {
		return err
	}
	b.addPaths(s.option.Name, list)
	return nil
}

func (b *builder) addPaths(option string, list []HostPath) {
	if b.paths == nil {
		b.paths = map[string]*byHost[HostPath]{}
	}
	if b.paths[option] == nil {
		b.paths[option] = &byHost[HostPath]{}
	}
	b.paths[option].add(list, func(p HostPath) string { return p.Host })
}

// collectByHost stores the lists with entries per host in the request.
func (b *builder) collectByHost() {
	b.req.Mail = b.mail.all()
	for option, to := range b.req.pathLists() {
		*to = nil
		if l := b.paths[option]; l != nil {
			*to = l.all()
		}
	}
}

// pathLists returns the path lists by their options.
func (r *Request) pathLists() map[string]*[]HostPath {
	return map[string]*[]HostPath{"-i": &r.Input, "-o": &r.Output, "-e": &r.Error, "-S": &r.Shell}
}

func setCwd(b *builder, _ setting) error {
	if !strings.HasPrefix(b.in.Cwd, "/") {
		return errors.New("the current directory is not known")
	}
	// The directory is literal, not a pattern.
	b.req.WorkingDir = strings.ReplaceAll(b.in.Cwd, "$", "$$")
	return nil
}

func setWorkingDir(b *builder, s setting) error {
	dir := s.value()
	if dir == "" || !strings.ContainsRune("/~$", rune(dir[0])) {
		// 8.1.9 accepts a relative path, and the job then fails at its start (tested).
		return errors.New("the working directory is not absolute")
	}
	if len(dir) > maxPath {
		return errors.New("the path has " + strconv.Itoa(len(dir)) + " bytes, at most " + strconv.Itoa(maxPath) + " are possible")
	}
	b.req.WorkingDir = dir
	return nil
}

func setEnvironment(b *builder, s setting) error {
	i := 0
	if s.text {
		i = 1
	}
	if b.known[i] == nil {
		b.known[i] = &environment{list: b.environmentFor(s)}
	}
	vars, err := parseVariables(s.value(), b.known[i])
	for _, v := range vars {
		b.env.set(v.Name, v)
	}
	return err
}

// setWholeEnvironment reads -V. If -V occurs several times, the largest environment counts: that of
// the command line.
func setWholeEnvironment(b *builder, s setting) error {
	if env := b.environmentFor(s); len(env) >= len(b.wholeEnv) {
		b.wholeEnv = env
	}
	return nil
}

// environmentFor returns the environment that an option may pass on.
func (b *builder) environmentFor(s setting) []string {
	if s.text && b.in.TextEnv != nil {
		return b.in.TextEnv
	}
	return b.in.Env
}

// environment combines -V and -v.
//
// In 8.1.9, -V takes precedence over -v for variables that exist in the environment, in either
// order (tested). So -V -v NAME=value has no effect, which can only be an error in its list
// handling: a user who names a variable wants its value.
func (b *builder) environment() []Variable {
	var vars variables
	if b.alteration == nil {
		vars.set("TERM", Variable{Name: "TERM"})
	}
	for _, v := range wholeEnvironment(b.wholeEnv) {
		vars.set(v.Name, v)
	}
	for _, v := range b.env.all() {
		vars.set(v.Name, v)
	}
	if b.in.Command == Qrsh {
		b.setDisplay(&vars)
	}
	return vars.all()
}

// setDisplay sets DISPLAY for a command of qrsh: to the value of -display, otherwise to the
// submitting user's display. -display takes precedence over -v and -V (sge_submit(1); tested).
func (b *builder) setDisplay(vars *variables) {
	const name = "DISPLAY"
	if b.hasDisplay {
		vars.set(name, Variable{name, b.display})
		return
	}
	if _, known := vars.at[name]; known || b.req.Login {
		return
	}
	if display, ok := lookupEnv(b.in.Env, name); ok {
		vars.set(name, Variable{name, display})
	}
}

// setContext applies -ac (add), -dc (delete) and -sc (set) in their order.
func setContext(b *builder, s setting) error {
	items := splitList(s.value(), ",")
	if len(items) == 0 {
		return errors.New("no variable is named")
	}
	c := contextChange{option: s.option.Name}
	for _, item := range items {
		name, value, _ := strings.Cut(item, "=")
		if err := checkVariable(name); err != nil {
			return err
		}
		c.variables = append(c.variables, Variable{name, value})
	}
	if b.alteration != nil {
		b.alteration.contexts = append(b.alteration.contexts, c)
	}
	c.change(&b.context)
	return nil
}

func setArray(b *builder, s setting) error {
	a, err := ParseArray(s.value())
	b.req.Array = &a
	return err
}

func setPE(b *builder, s setting) error {
	if err := checkPattern(s.values[0]); err != nil {
		return errors.New("parallel environment: " + err.Error())
	}
	ranges, err := parseSlots(s.values[1], b.in.Master)
	b.req.PE = &ParallelRequest{Name: s.values[0], Ranges: ranges}
	return err
}

func setBinding(b *builder, s setting) error {
	binding, err := ParseBinding(strings.Join(s.values, " "))
	b.req.Binding = &binding
	return err
}

// setCheckpointWhen reads an occasion_specifier. Letters and an interval are stored separately,
// since two options can set both (tested).
func setCheckpointWhen(b *builder, s setting) error {
	v := s.value()
	if v != "" && (v[0] >= '0' && v[0] <= '9' || v[0] == ':') {
		seconds, err := quantity.Time(v)
		if err != nil {
			return err
		}
		if seconds == 0 || seconds > uint64(maxTask) {
			return errors.New("the interval is not between 1 and " + strconv.Itoa(maxTask) + " seconds")
		}
		b.req.CheckpointInterval = time.Duration(seconds) * time.Second
		return nil
	}
	if v == "" || strings.Trim(v, "nsmxr") != "" {
		return errors.New("expected letters of n, s, m, x and r, or an interval of seconds or hours:minutes:seconds")
	}
	b.req.CheckpointWhen = ""
	for _, letter := range []string{"n", "m", "s", "x", "r"} {
		if strings.Contains(v, letter) {
			b.req.CheckpointWhen += letter
		}
	}
	return nil
}

// setMailOptions reads the letters of -m, with or without commas. The manual has commas, 8.1.9
// refuses them (tested). n clears the letters before it; no mail is the default, so n needs no bit
// of its own.
func setMailOptions(b *builder, s setting) error {
	bits := map[rune]job.MailOptions{
		'b': job.MailAtBegin, 'e': job.MailAtEnd, 'a': job.MailAtAbort, 's': job.MailAtSuspend, 'n': job.MailNever,
	}
	var set job.MailOptions
	for _, letter := range strings.ReplaceAll(s.value(), ",", "") {
		bit, ok := bits[letter]
		if !ok {
			return errors.New(strconv.QuoteRune(letter) + " is not one of b, e, a, s and n")
		}
		set |= bit
	}
	switch {
	case set == 0:
		return errors.New("expected letters of b, e, a, s and n")
	case set&job.MailNever != 0:
		b.req.MailOptions = 0
	default:
		b.req.MailOptions |= set
	}
	return nil
}

// setMail reads -M. An address replaces earlier ones at the same host. The original does the same
// for a single address per host only (tested).
func setMail(b *builder, s setting) error {
	later := splitList(s.value(), ",")
	if len(later) == 0 {
		return errors.New("no address is named")
	}
	for _, address := range later {
		user, _, _ := strings.Cut(address, "@")
		if user == "" || hasControl(address) || strings.Contains(address, " ") || address[0] == '-' {
			// An address becomes an argument of the mail program.
			return errors.New(strconv.Quote(address) + " is not a mail address")
		}
	}
	b.mail.add(later, mailHost)
	return nil
}

func mailHost(address string) string {
	_, host, _ := strings.Cut(address, "@")
	return host
}

func setResources(b *builder, s setting) error {
	if s.value() == "" && b.in.Master && b.reservation == nil {
		return nil // no request; for qalter this removes all hard requests
	}
	list, err := parseResources(s.value(), s.soft, b.in.Master)
	for _, r := range list {
		addResource(&b.resources, r)
	}
	return err
}

// setVerifier does not check the path: the program that runs the verifier reports errors.
func setVerifier(b *builder, s setting) error {
	if b.in.Master {
		return nil
	}
	return checkList(b, s)
}

func checkList(_ *builder, s setting) error {
	if len(splitList(s.value(), ",")) == 0 {
		return errors.New("the list is empty")
	}
	return nil
}
