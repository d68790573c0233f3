package submit

// Task is the request of qrsh -inherit: a task of the parallel job in which it is called. Only its
// options -v, -V and -nostdin have an effect (sge_submit(1), -inherit).
type Task struct {
	Host string   // "" if none is given
	Args []string // the command
	Env  []Variable
	// NoStdin is set by -nostdin.
	NoStdin bool
}

// ParseTask reads a command line of qrsh; ok is false without -inherit.
func ParseTask(args, env []string) (t Task, ok bool, err error) {
	in := Input{Args: args, Env: env, Master: true, Command: Qrsh}
	p := parser{in: &in, command: Qrsh}
	line, err := p.commandLine()
	if err != nil {
		return Task{}, false, err
	}
	b := builder{in: &in, alteration: &Alteration{}} // a task has no default variables
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
