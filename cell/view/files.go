package view

import (
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/submit"
)

// outputFiles returns the files for standard output and error of a batch job, as far as that
// follows from its request: the home directory of the owner is written as ~user, the number of an
// array's task as $TASK_ID. Only the execution host knows whether a path of -o or -e is a
// directory. The result contains nothing that qstat -j does not show to every user.
func (v *View) outputFiles(j *cell.Job) []qstat.OutputFile {
	r := j.Request()
	if r.Immediate { // interactive, as a rule
		return nil
	}
	id := job.ID{Job: int(j.ID())}
	vars := submit.PathVars{
		Home: "~" + j.Owner(), User: j.Owner(), JobID: id.Job, JobName: r.Name,
		HomeOf: func(user string) (string, error) { return "~" + user, nil },
	}
	if vars.Host = "$HOSTNAME"; len(v.cell.Cluster().HostNames()) == 1 { // no task can be on another one
		vars.Host = v.cell.Cluster().HostNames()[0]
	}
	if r.Array != nil {
		vars.TaskID = submit.AnyTask
	}
	files, err := r.Files(vars)
	if err != nil {
		return nil // the job cannot start, and its error reason says why
	}
	var list []qstat.OutputFile
	for i, letter := range []string{"o", "e"} {
		if letter == "e" && r.Join {
			break
		}
		name := id.OutputName(r.Name, letter)
		if r.Array != nil {
			name += ".$TASK_ID"
		}
		path := files.Streams[i+1]
		f := qstat.OutputFile{Path: path}
		switch {
		case path == "":
			f.Path = strings.TrimSuffix(files.Dir, "/") + "/" + name
		case strings.HasSuffix(path, "/"):
			f.Path = path + name
		case path != "/dev/null":
			f.Name = name
		}
		list = append(list, f)
	}
	return list
}
