package submit

// Task is the request of qrsh -inherit: a task of the parallel job that it is called in. Of its
// other options only -v, -V and -nostdin count (sge_submit(1), -inherit).
type Task struct {
	Host string   // "" where none is named
	Args []string // the command
	Env  []Variable
	// NoStdin is -nostdin.
	NoStdin bool
}

// ParseTask reads a command line of qrsh; ok is false where it has no -inherit.
func ParseTask(args, env []string) (t Task, ok bool, err error) {
	in := Input{Args: args, Env: env, Master: true, Command: Qrsh}
	p := parser{in: &in, command: Qrsh}
	line, err := p.commandLine()
	if err != nil {
		return Task{}, false, err
	}
	b := builder{in: &in, alteration: &Alteration{}} // which has no variables of its own
	for _, s := range line.settings {
		switch s.option.Name {
		case "-inherit":
			ok = true
		case "-v", "-V", "-nostdin":
			if err := b.apply(s); err != nil {
				return Task{}, false, err
			}
		}
	}
	return Task{Host: line.command, Args: line.args, Env: b.environment(), NoStdin: b.manner.NoStdin}, ok, nil
}
