package record

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// add lists the kinds of objects in an order in which most references are to what
// is there already. new is qconf's option for an object that is not, change that
// for one that is.
var add = []struct{ folder, new, change string }{
	{"usersets", "-Au", "-Mu"},
	{"projects", "-Aprj", "-Mprj"},
	{"users", "-Auser", "-Muser"},
	{"hosts", "-Ae", "-Me"},
	{"hostgroups", "-Ahgrp", "-Mhgrp"},
	{"calendars", "-Acal", "-Mcal"},
	{"pes", "-Ap", "-Mp"},
	{"queues", "-Aq", "-Mq"},
}

// addAll hands each file to qconf. Objects refer to each other (queues to their
// subordinates, groups to groups), so what is refused is tried again while
// something else was taken. What is left over is printed with the refusal.
const addAll = `
new=$1 change=$2
shift 2
while :; do
	left= before=$#
	for file; do
		shift
		case $(qconf "$new" "$file" 2>&1) in
		*' added '*|*' added'|*'has been added'*|*modified*|*changed*) continue;;
		esac
		case $(qconf "$change" "$file" 2>&1) in
		*modified*|*changed*) continue;;
		esac
		set -- "$@" "$file"
	done
	[ $# -gt 0 ] || exit 0
	[ $# -lt $before ] || break
done
for file; do
	qconf "$new" "$file"
	qconf "$change" "$file"
	cat "$file"
done
exit 1`

// configure gives the cell what stands in the folder input of the case.
func (r *recorder) configure() error {
	if err := r.file("complexes", "-Mc"); err != nil {
		return err
	}
	for _, kind := range add {
		names, err := filepath.Glob(filepath.Join(r.dir, "input", kind.folder, "*"))
		if err != nil || len(names) == 0 {
			continue
		}
		command := []string{"sh", "-c", addAll, "sh", kind.new, kind.change}
		if kind.folder == "pes" {
			if names, err = r.byMention(names); err != nil {
				return err
			}
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			path := "/home/cell/etc/" + kind.folder + "/" + filepath.Base(name)
			if err := r.cell.AddFile(path, string(text), 0o644); err != nil {
				return err
			}
			command = append(command, path)
		}
		if out, err := r.cell.Root(command...); err != nil {
			return fmt.Errorf("qconf refuses %s: %w\n%s", kind.folder, err, out)
		}
	}
	if err := errors.Join(r.file("rqs", "-Mrqs"), r.file("sharetree", "-Astree")); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "input/sched_conf"))
	if err != nil {
		return err
	}
	attributes := map[string]string{"params": "none"}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			attributes[name] = strings.TrimSpace(value)
		}
	}
	if p := attributes["params"]; strings.EqualFold(p, "none") {
		attributes["params"] = "PROFILE=1"
	} else {
		attributes["params"] = p + ",PROFILE=1"
	}
	if err := r.cell.SetSchedulerConf(attributes); err != nil {
		return err
	}
	if r.load, err = readLoad(filepath.Join(r.dir, "input/load_values")); err != nil {
		return err
	}
	return r.reportLoad()
}

// byMention sorts the files of parallel environments as the queues mention them. Of
// several that a pattern of -pe means the oldest is taken, and no file of a case says which
// that is: "execd simulate" takes them for made in this order. All other objects are made in
// the order of their names.
func (r *recorder) byMention(environments []string) ([]string, error) {
	queues, err := filepath.Glob(filepath.Join(r.dir, "input/queues/*"))
	if err != nil {
		return nil, err
	}
	var mentioned []string
	for _, name := range queues {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if list, ok := strings.CutPrefix(line, "pe_list "); ok {
				mentioned = append(mentioned, strings.FieldsFunc(list, func(c rune) bool { return strings.ContainsRune(" ,[]=\n", c) })...)
			}
		}
	}
	place := func(path string) int {
		if i := slices.Index(mentioned, filepath.Base(path)); i >= 0 {
			return i
		}
		return len(mentioned)
	}
	return slices.SortedStableFunc(slices.Values(environments), func(a, b string) int {
		return cmp.Compare(place(a), place(b))
	}), nil
}

// file hands a single file of the case, if it has it, to qconf.
func (r *recorder) file(name, option string) error {
	text, err := os.ReadFile(filepath.Join(r.dir, "input", name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.cell.Configure(option, name, string(text))
}
