package starter

import (
	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/job"
)

const nullDevice = "/dev/null"

// output is the destination of standard output or standard error: path, or fallback in that
// directory if path is a directory.
type output struct{ path, fallback string }

// files are the standard streams of one step.
type files struct {
	stdin   string
	out     [2]output // standard output and error
	inherit [3]bool
	pipe    [3]int // replaces a file of out, see outlet; 0 for none
	script  bool   // standard input is the script; stdin is ignored
	merge   bool   // standard error goes to the same file as standard output
}

// jobFiles returns the streams of the job, its prolog and its epilog. If a path is a directory, or
// absent, which stands for the working directory, the file in it is NAME.oJOB[.TASK]
// (sge_submit(1), -o and -e).
func jobFiles(d *job.Description) files {
	f := files{stdin: orWord(d.Streams[0].Path, nullDevice), merge: d.MergeError}
	for i, letter := range []string{"o", "e"} {
		f.out[i] = outputAt(orWord(d.Streams[i+1].Path, d.Cwd), letter, d)
	}
	for i := range f.inherit {
		f.inherit[i] = d.Streams[i].Inherit
	}
	return f
}

// procedureFiles returns the streams of the site's procedures. Prolog and epilog write to the
// output of the job. Those of a PE write to NAME.poJOB and NAME.peJOB in the directory of that
// output, or to the output itself if it is a file. None of them reads the job's input (sge_conf(5),
// prolog).
func procedureFiles(d *job.Description, pe bool) files {
	f := jobFiles(d)
	if pe {
		for i, path := range []string{d.PE.StdoutPath, d.PE.StderrPath} {
			f.out[i] = outputAt(orWord(path, orWord(d.Streams[i+1].Path, d.Cwd)), []string{"po", "pe"}[i], d)
		}
	}
	f.stdin, f.inherit[0] = nullDevice, false
	return f
}

func outputAt(path, letter string, d *job.Description) output {
	return output{path, path + "/" + d.ID.OutputName(d.Name, letter)}
}

// open makes the child open the streams and enter the working directory, with the identity that it
// has at that point, and adds the variables that name the streams to the environment. The child
// finds out with the rights of the user whether a path is a directory, and corrects the variables
// of standard output and error.
func (f files) open(p *spawn.Program, e *environment, cwd string) {
	e.set("SGE_CWD_PATH", cwd)
	e.set("SGE_STDIN_PATH", f.path(0))
	indexOut := []int{e.set("SGE_STDOUT_PATH", f.path(1))}
	indexErr := []int{e.set("SGE_STDERR_PATH", f.path(2))}
	if f.merge {
		indexOut = append(indexOut, indexErr...)
	}
	p.Environment(e.list)
	if !f.inherit[0] {
		p.OpenRead(spawn.StageStdin, 0, f.stdin)
	}
	p.Chdir(cwd)
	f.openOutput(p, spawn.StageStdout, 1, indexOut, e)
	if f.merge {
		p.Dup(spawn.StageStderr, 1, 2)
	} else {
		f.openOutput(p, spawn.StageStderr, 2, indexErr, e)
	}
}

func (f files) openOutput(p *spawn.Program, stage spawn.Stage, fd int, index []int, e *environment) {
	if f.inherit[fd] {
		return
	}
	if f.pipe[fd] != 0 {
		p.Dup(stage, f.pipe[fd], fd)
		return
	}
	o := f.out[fd-1]
	var patched []string
	for _, i := range index {
		name := e.list[i][:len(e.list[i])-len(o.path)-1]
		patched = append(patched, name+"="+o.fallback)
	}
	p.OpenAppend(stage, fd, o.path, o.fallback, index, patched)
}

// path returns the path of stream i as far as it is known before the child opens it.
func (f files) path(i int) string {
	if f.merge && i == 2 {
		i = 1
	}
	switch {
	case f.inherit[i] && (i != 0 || !f.script):
		return "/dev/" + []string{"stdin", "stdout", "stderr"}[i]
	case i == 0:
		return f.stdin
	default:
		return f.out[i-1].path
	}
}
