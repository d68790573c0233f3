package submit

import (
	"errors"
	"strconv"
	"strings"
)

// Variable is a name with a value: an environment variable, or a variable of the job context.
type Variable struct {
	Name, Value string
}

// String returns NAME=value.
func (v Variable) String() string { return v.Name + "=" + v.Value }

// ParseVariables reads the value of -v: NAME[=value] separated by commas. A value may contain "=";
// quotes protect commas and stay part of the value. A name without "=" takes its value from env, a
// list of NAME=value, and is empty if env does not contain it. The last occurrence of a name
// counts.
func ParseVariables(s string, env []string) ([]Variable, error) {
	return parseVariables(s, &environment{list: env})
}

func parseVariables(s string, env *environment) ([]Variable, error) {
	var vars variables
	for _, item := range splitList(s, ",") {
		name, value, given := strings.Cut(item, "=")
		if err := checkVariable(name); err != nil {
			return nil, err
		}
		if !given {
			value = env.lookup(name)
		}
		v := Variable{name, value}
		if len(v.String()) > maxString {
			return nil, errors.New("the variable " + name + " is longer than " + strconv.Itoa(maxString) + " bytes")
		}
		vars.set(name, v)
	}
	list := vars.all()
	if len(list) == 0 {
		return nil, errors.New("no variable is named, expected NAME or NAME=value separated by commas")
	}
	return list, nil
}

func checkVariable(name string) error {
	if name == "" {
		return errors.New("a variable has no name")
	}
	// Shells export functions under names with % and (). A line break or another control character
	// is always an attempt to add a line to a file with one variable per line.
	if hasControl(name) {
		return errors.New("the name " + strconv.Quote(name) + " has a control character")
	}
	return nil
}

// lookupEnv finds a variable in a list of NAME=value. As with getenv(3), the first occurrence
// counts.
func lookupEnv(env []string, name string) (string, bool) {
	for _, e := range env {
		if n, v, ok := strings.Cut(e, "="); ok && n == name {
			return v, true
		}
	}
	return "", false
}

// wholeEnvironment returns the variables that -V passes on: every variable with a valid name.
func wholeEnvironment(env []string) []Variable {
	vars := make([]Variable, 0, len(env))
	seen := make(map[string]bool, len(env))
	for _, e := range env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || seen[name] || checkVariable(name) != nil {
			continue
		}
		seen[name] = true
		vars = append(vars, Variable{name, value})
	}
	return vars
}

// submitVariables are the variables that the submit client passes on under
// SGE_O_NAME (sge_submit(1), ENVIRONMENT VARIABLES). The manual also lists
// TERM; 8.1.9 does not pass it on (tested).
var submitVariables = []string{"HOME", "LOGNAME", "PATH", "SHELL", "TZ", "MAIL"}

// Origin returns the variables of env that SubmitEnvironment uses, to be stored with a submission.
func Origin(env []string) []string {
	var kept []string
	for _, name := range append([]string{"HOST"}, submitVariables...) {
		if v, ok := lookupEnv(env, name); ok {
			kept = append(kept, name+"="+v)
		}
	}
	return kept
}

// SubmitEnvironment returns the variables that describe the submission: SGE_O_HOME, SGE_O_LOGNAME,
// SGE_O_PATH, SGE_O_SHELL, SGE_O_TZ and SGE_O_MAIL, each only if env contains its source,
// SGE_O_HOST, which is HOST of env or else host, and SGE_O_WORKDIR. They replace variables of the
// same names that -v or -V gave (tested).
func SubmitEnvironment(env []string, host, workdir string) []Variable {
	var vars []Variable
	for _, name := range submitVariables {
		if v, ok := lookupEnv(env, name); ok {
			vars = append(vars, Variable{"SGE_O_" + name, v})
		}
	}
	if v, ok := lookupEnv(env, "HOST"); ok {
		host = v
	}
	if host != "" {
		vars = append(vars, Variable{"SGE_O_HOST", host})
	}
	if workdir != "" {
		vars = append(vars, Variable{"SGE_O_WORKDIR", workdir})
	}
	return vars
}
