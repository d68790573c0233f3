package qclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/standalone/verifier"
	"github.com/execd-project/execd/submit"
)

// exitVerifier is the exit status if the program is not a verifier, as in the original (tested).
const exitVerifier = 3

// checkVerifiers refuses verifiers that neither the user nor root has named. The front of a daemon of two processes has not the
// rights of this user: it could otherwise have any program run in the name of the user. A daemon of root, or of this user,
// knows the default options of all users itself.
func (c *Command) checkVerifiers(ctx context.Context, d *api.Client, in *command.Input, a *api.CommandAnswer) error {
	want := api.Texts(command.Verifiers(in))
	if !d.Stranger() || len(want) > 0 && slices.Equal(want, a.Verify.Programs) {
		return nil
	}
	if a.Confirm != "" {
		typed, err := withDefaults(ctx, in, string(a.Confirm))
		if err != nil {
			return err
		}
		if want = api.Texts(command.Verifiers(typed)); len(want) > 0 && slices.Equal(want, a.Verify.Programs) {
			return nil
		}
	}
	return fmt.Errorf("the daemon requests the verifiers %q, expected %q as in the command", a.Verify.Programs, want)
}

// withDefaults returns a command line with the default options of all users that the launcher has read.
func withDefaults(ctx context.Context, in *command.Input, socket string) (*command.Input, error) {
	launcher, err := claim.Dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer launcher.Close()
	return typedWith(in, launcher), nil
}

// verify runs verifiers on a job, one after another: each sees the changes of the previous ones.
func (c *Command) verify(ctx context.Context, v *api.Verify) ([]api.Correction, error) {
	paths := make([]string, len(v.Programs))
	for i, url := range v.Programs {
		path, err := verifier.Path(string(url))
		if err == nil && os.Geteuid() == 0 {
			// A script that root submits, or only looks at with -verify, names programs, too.
			if e := (trust.Users{}).Program(path); e != nil {
				err = fmt.Errorf("JSV %q is not run as root: %w", path, e)
			}
		}
		if err != nil {
			return nil, err
		}
		paths[i] = path
	}
	var parameters []submit.Parameter
	for _, p := range v.Parameters {
		parameters = append(parameters, submit.Parameter{Name: string(p.Name), Value: string(p.Value)})
	}
	var environment []submit.Variable
	for _, p := range v.Environment {
		environment = append(environment, submit.Variable{Name: string(p.Name), Value: string(p.Value)})
	}
	all := []api.Correction{}
	for _, path := range paths {
		changes, err := verifier.Run(ctx, path, parameters, environment, func(_, text string) { printer.Fprintf(c.Stdout, "%s\n", text) }, verifierPatience())
		if err != nil {
			return nil, err
		}
		for _, x := range changes {
			all = append(all, api.Correction{Name: api.Text(x.Name), Value: api.Text(x.Value), Variable: x.Variable, Remove: x.Remove})
			if x.Variable {
				environment = slices.DeleteFunc(environment, func(v submit.Variable) bool { return v.Name == x.Name })
				if !x.Remove {
					environment = append(environment, submit.Variable{Name: x.Name, Value: x.Value})
				}
				continue
			}
			parameters = slices.DeleteFunc(parameters, func(p submit.Parameter) bool { return p.Name == x.Name })
			if x.Value != "" {
				parameters = append(parameters, x.Parameter)
			}
		}
	}
	return all, nil
}

// verifierPatience returns the timeout for each answer of a verifier: SGE_JSV_TIMEOUT in seconds
// (sge_submit(1), ENVIRONMENT VARIABLES). An invalid value is ignored.
func verifierPatience() time.Duration {
	const most = 24 * 60 * 60
	n, err := strconv.Atoi(os.Getenv("SGE_JSV_TIMEOUT"))
	if err != nil || n <= 0 || n > most {
		return verifier.Patience
	}
	return time.Duration(n) * time.Second
}

// unverified prints why a job is not submitted, and returns the exit status.
func (c *Command) unverified(err error) (int, error) {
	if _, ok := errors.AsType[*verifier.URLError](err); ok {
		return exitVerifier, err
	}
	if e, ok := errors.AsType[*verifier.ComplaintError](err); ok {
		printer.Fprintf(c.Stderr, "error: %s\n", e.Line())
	}
	printer.Fprintf(c.Stderr, "Unable to run job: %v\nExiting.\n", err)
	return exitFailed, nil
}
