package launcher

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/topology"
)

// harmless are the fields of a plan, and what they contain, that the front may choose, with the reason. The launcher
// refuses any other value of all other fields than the one that the submission of the owner leads to.
var harmless = map[string]string{
	"Description.Project":            accounts,
	"Description.SubmissionTime":     accounts,
	"Record":                         "the launcher keeps this line for the front, and no other process reads it",
	"Description.PE.Qsort":           "nothing on an execution host uses it",
	"Description.Ckpt.OSJobID":       "nothing on an execution host uses it",
	"Description.MailList":           "the front sends the mail of jobs",
	"Description.MailOptions":        "the front sends the mail of jobs",
	"Description.ForbidReschedule":   "the front decides what becomes of a job that has ended",
	"Description.ForbidAppError":     "the front decides what becomes of a job that has ended",
	"Description.MinUID":             replaced,
	"Description.MinGID":             replaced,
	"Description.AddGroupKill":       replaced,
	"Description.SkipGroupLimit":     replaced,
	"Description.Trusted":            replaced,
	"Description.PrivateTmp":         "the front may give a job private files; TestForgedSubmissions sees to it that it cannot take them",
	"Description.PrivateTmpShare":    replaced,
	"Description.UserProcesses":      replaced,
	"ScratchLimit":                   replaced,
	"Scratch":                        shares,
	"GroupIDs":                       replaced,
	"Processes":                      replaced,
	"GPUs":                           shares,
	"Cores":                          shares,
	"Hosts.first.Slots":              shares,
	"Hosts.first.Queue":              shares,
	"Hosts.first.Processors":         shares,
	"Description.HostSlots":          shares,
	"Description.Processors":         shares,
	"Description.Nice":               shares,
	"Description.VmemLimit":          shares,
	"Description.VmemComplex":        "it appears only in reports about a limit",
	"Description.Limits":             shares + "; checkLimits sees to what the user has asked for",
	"Description.ProcedureLimits":    shares,
	"Description.QsubGID":            "the supervisor takes it only if the owner is in the group, and it is not below min_gid",
	"Description.Command.LoginShell": "the shell that the user has asked for reads the files of the same user",
	"Description.PTY":                "the same program of the same user runs, with a pseudo terminal or without",
	"Description.SuspendMethod":      signals,
	"Description.ResumeMethod":       signals,
	"Description.TerminateMethod":    signals,
	"Description.NotifyKill":         signals,
	"Description.NotifySusp":         signals,
	"Description.Ckpt.Signal":        signals,
	"Description.Ckpt.Interface":     signals,
	"Description.Ckpt.When":          signals,
	"Description.Ckpt.Interval":      signals,
	"Description.Ckpt.PID":           "it is a number among the arguments of a command of root's configuration, which runs as the owner",
	"Description.ScriptTimeout":      replaced,
	"Description.Notify":             times,
	"Description.LimitGrace":         times,
	"Description.SoftRTWarns":        times,
	"Description.UsageInterval":      times,
}

const (
	accounts = "it appears only in accounting, which the front writes"
	replaced = "the launcher replaces it with its own"
	shares   = "the front shares out the host among jobs"
	signals  = "the front may send the processes of jobs these signals at any time"
	times    = "the front may end and suspend jobs at any time"
)

// TestFieldsOfPlans checks that the launcher checks each field of a plan, at every depth, or that this test has a
// reason why that is not needed. So a new field cannot reach a job unchecked.
func TestFieldsOfPlans(t *testing.T) {
	w, s := newStrictWorld(t)
	n := 0
	honest := func() *order {
		n++
		o := w.order(s, fmt.Sprintf("key%d", n), job.ID{Job: 7})
		w.says(o, "SGE_CKPT_ENV=c")
		w.parallel(o, func(*job.ParallelEnvironment) {})
		o.plan.Description.Ckpt = &job.Checkpoint{Name: "c", Interface: "userdefined"}
		return o
	}
	// accepted reports whether the launcher does not refuse an order, even if it cannot carry it out then.
	accepted := func(o *order) bool {
		id := o.plan.Description.ID
		err := w.prepare(o)
		if err != nil && err.Code == codeRefused {
			return false
		}
		if removed := w.ask(kindRemove, &removeBody{ID: id}); err == nil && removed != nil {
			t.Fatal(removed)
		}
		if err := w.ask(kindRemoveScript, &scriptBody{id.Job}); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if !accepted(honest()) {
		t.Fatal("a plan as it should be is refused")
	}
	used := map[string]bool{}
	for _, path := range fieldsOf(reflect.ValueOf(honest().plan).Elem(), "") {
		for _, value := range forgeries {
			o := honest()
			forge(t, reflect.ValueOf(o.plan).Elem(), strings.Split(path, "."), value)
			if !accepted(o) {
				continue
			}
			reason := ""
			for name, text := range harmless {
				if path == name || strings.HasPrefix(path, name+".") {
					reason = text
					used[name] = true
				}
			}
			if reason == "" {
				t.Errorf("the launcher accepts another value of %s: check it, or say why that is harmless", path)
			}
		}
	}
	for name := range harmless {
		if !used[name] {
			t.Errorf("%s is said to be harmless, and no other value of it is accepted", name)
		}
	}
}

// fieldsOf are the paths of the fields of a value that have no fields themselves. Lists are such a field, and so
// is their first element; of an array the last element stands for all.
func fieldsOf(v reflect.Value, path string) (list []string) {
	below := func(v reflect.Value, name string) {
		list = append(list, fieldsOf(v, strings.TrimPrefix(path+"."+name, "."))...)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(v.Type().Elem())
		}
		return fieldsOf(v.Elem(), path)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.IsExported() {
				below(v.FieldByIndex(f.Index), f.Name)
			}
		}
		if len(list) > 0 {
			return list
		}
	case reflect.Array:
		below(v.Index(v.Len()-1), "last")
		return list
	case reflect.Slice:
		if v.Len() > 0 {
			below(v.Index(0), "first")
		}
	default:
	}
	return append(list, path)
}

// forgeries are values that may stand for a name, a path or a signal. A number is one more or one less with them.
var forgeries = []string{"forged", "/tmp/forged"}

// forge changes what is at a path.
func forge(t *testing.T, v reflect.Value, path []string, value string) {
	t.Helper()
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		forge(t, v.Elem(), path, value)
		return
	}
	if len(path) > 0 {
		switch name := path[0]; {
		case v.Kind() == reflect.Array:
			v = v.Index(v.Len() - 1)
		case v.Kind() == reflect.Slice:
			v = v.Index(0)
		default:
			v = v.FieldByName(name)
		}
		forge(t, v, path[1:], value)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(value)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		if value == forgeries[0] {
			v.SetInt(v.Int() + 1)
		} else {
			v.SetInt(v.Int() - 1)
		}
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(value + "\n"))
			return
		}
		element := reflect.New(v.Type().Elem()).Elem()
		for _, path := range fieldsOf(element, "") {
			forge(t, element, strings.FieldsFunc(path, func(r rune) bool { return r == '.' }), value)
		}
		v.Set(reflect.Append(v, element))
	case reflect.Struct:
		switch v.Interface().(type) {
		case time.Time:
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
		case topology.CPUSet:
			v.Set(reflect.ValueOf(topology.Of(0)))
		default:
			t.Fatalf("this test cannot change a %v", v.Type())
		}
	default:
		t.Fatalf("this test cannot change a %v", v.Type())
	}
}
