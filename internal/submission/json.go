package submission

import (
	"encoding/json"
	"strconv"
)

// appendJSON appends the same text as json.Marshal. The launcher and the command compute a digest of it for each job, and
// with dozens of variables package json takes many times as long.
func (s *Submission) appendJSON(b []byte) ([]byte, error) {
	w := &writer{b: append(b, '{')}
	w.text("command", s.Command)
	if s.Script != "" {
		w.value("script", s.Script) // it is no Text: its other bytes are replaced
	}
	w.texts("args", s.Args)
	w.flag("binary", s.Binary)
	w.flag("no_shell", s.NoShell)
	w.flag("login", s.Login)
	w.pairs("shell", s.Shell)
	w.text("name", s.Name)
	if s.Account != "" {
		w.text("account", s.Account)
	}
	w.pairs("input", s.Input)
	w.pairs("output", s.Output)
	w.pairs("error", s.Error)
	w.flag("join", s.Join)
	if s.WorkingDir != "" {
		w.text("working_dir", s.WorkingDir)
	}
	w.pairs("env", s.Env)
	if s.Array != nil {
		w.value("array", s.Array)
	}
	if len(s.Limits) > 0 {
		w.value("limits", s.Limits)
	}
	w.flag("private_tmp", s.PrivateTmp)
	w.flag("interactive", s.Interactive)
	w.text("directory", s.Directory)
	w.texts("origin", s.Origin)
	return append(w.b, '}'), w.err
}

// writer writes the fields of an object in JSON. Except texts, it leaves out fields that are empty.
type writer struct {
	b   []byte
	err error
}

func (w *writer) field(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), `":`...)
}

func (w *writer) flag(name string, set bool) {
	if set {
		w.field(name)
		w.b = strconv.AppendBool(w.b, set)
	}
}

func (w *writer) text(name string, t Text) {
	w.field(name)
	w.element(t)
}

func (w *writer) texts(name string, list []Text) {
	if len(list) == 0 {
		return
	}
	w.field(name)
	w.list(list)
}

func (w *writer) pairs(name string, list []Pair) {
	if len(list) == 0 {
		return
	}
	w.field(name)
	for i := range list {
		w.b = append(w.b, "[,"[min(i, 1)])
		w.list(list[i][:])
	}
	w.b = append(w.b, ']')
}

func (w *writer) list(list []Text) {
	for i, t := range list {
		w.b = append(w.b, "[,"[min(i, 1)])
		w.element(t)
	}
	w.b = append(w.b, ']')
}

// element writes a text. Most have no character that package json would escape.
func (w *writer) element(t Text) {
	for i := range len(t) {
		switch c := t[i]; {
		case c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&':
			w.append(t)
			return
		}
	}
	w.b = append(append(append(w.b, '"'), t...), '"')
}

// value writes a value as package json does.
func (w *writer) value(name string, v any) {
	w.field(name)
	w.append(v)
}

func (w *writer) append(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		w.err = err
	}
	w.b = append(w.b, b...)
}
