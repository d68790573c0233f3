package shepherd

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
)

// TestUntrustedProcedures checks that a program that runs as a user other than the owner of the job
// cannot be changed or chosen by anyone except root and that user.
func TestUntrustedProcedures(t *testing.T) {
	for name, c := range map[string]struct {
		// arrange puts the program, which is root's at first, where the case has it, and
		// returns the command; dir is a directory of root's.
		arrange func(dir, program string) (command string, err error)
		as      string
		says    string // "" if it runs
	}{
		"root's own program": {
			func(_, program string) (string, error) { return program, nil }, "root", "",
		},
		"a program of the owner of the job, as root": {
			func(_, program string) (string, error) { return program, os.Chown(program, alice, alice) },
			"root", "belongs to alice, expected root (owner alice, group alice, mode 0755)",
		},
		"a program of the user that it runs as": {
			func(_, program string) (string, error) { return program, os.Chown(program, site, site) }, "site", "",
		},
		"a program of the owner of the job, as a third user": {
			func(_, program string) (string, error) { return program, os.Chown(program, alice, alice) },
			"site", "belongs to alice, expected root or site",
		},
		"a program that everybody may write": {
			func(_, program string) (string, error) { return program, os.Chmod(program, 0o777) }, "root", "may be written by everybody",
		},
		"a program that a group may write": {
			func(_, program string) (string, error) {
				return program, errors.Join(os.Chown(program, 0, staff), os.Chmod(program, 0o775))
			}, "root", "may be written by group staff",
		},
		"a directory of the owner of the job": {
			func(dir, program string) (string, error) {
				return dir + "/program", errors.Join(os.Rename(program, dir+"/program"), os.Chown(dir, alice, alice))
			}, "root", "belongs to alice",
		},
		"a link into a directory of the owner of the job": {
			func(dir, program string) (string, error) {
				return dir + "/link", errors.Join(os.Mkdir(dir+"/home", 0o755), os.Chown(dir+"/home", alice, alice),
					os.Rename(program, dir+"/home/program"), os.Symlink("home/program", dir+"/link"))
			}, "root", "belongs to alice",
		},
		"a link of the owner of the job": {
			func(dir, program string) (string, error) {
				return dir + "/link", errors.Join(os.Symlink(program, dir+"/link"), os.Lchown(dir+"/link", alice, alice))
			}, "root", "belongs to alice",
		},
		"an interpreter of the owner of the job": {
			func(dir, program string) (string, error) {
				return dir + "/script", errors.Join(os.Chown(program, alice, alice), os.WriteFile(dir+"/script", []byte("#!"+program+"\n"), 0o755))
			}, "root", "belongs to alice",
		},
		"an interpreter in the working directory": {
			func(dir, _ string) (string, error) {
				return dir + "/script", os.WriteFile(dir+"/script", []byte("#!sh\necho procedure $(/usr/bin/id -u) >>"+dir+"/../log\n"), 0o755)
			}, "root", "not an absolute path",
		},
		"a name without a path": {
			func(_, _ string) (string, error) { return "true", nil }, "root", "absolute path",
		},
		"a path that the name of the job completes": {
			func(dir, program string) (string, error) {
				return dir + "/$job_name", os.Rename(program, dir+"/name")
			}, "root", "$job_name, which the user of the job chooses",
		},
		"a path that the job's output path completes": {
			func(_, _ string) (string, error) { return "$stdout_path", nil }, "root", "$stdout_path, which the user of the job chooses",
		},
		"a path that the name of the queue completes": {
			func(dir, program string) (string, error) {
				return dir + "/$queue", os.Rename(program, dir+"/all.q")
			}, "root", "",
		},
	} {
		for step, code := range map[string]job.Failed{"prolog": job.FailedProlog, "pe_start": job.FailedBeforePEStart, "pe_stop": job.FailedBeforePEStop, "epilog": job.FailedBeforeEpilog} {
			for _, m := range []mode{asRoot, asAdmin} {
				t.Run(name+"/"+step+" "+string(m), func(t *testing.T) {
					needRoot(t)
					t.Parallel()
					j := newJob(t, m, "")
					j.d.Command = job.Command{File: "/bin/true", Binary: true, NoShell: true, StartMode: job.UnixBehavior}
					j.d.PE = &job.ParallelEnvironment{Name: "pe", Slots: 1, StdoutPath: j.work, StderrPath: j.work}
					dir := j.top + "/site"
					j.check(os.Mkdir(dir, 0o755))
					command, err := c.arrange(dir, j.script("program", "echo procedure $(id -u) >>"+j.log))
					j.check(err)
					*map[string]*string{"prolog": &j.d.Prolog, "pe_start": &j.d.PE.Start, "pe_stop": &j.d.PE.Stop, "epilog": &j.d.Epilog}[step] = c.as + "@" + command
					j.run()
					ran := slices.ContainsFunc(j.logged(), func(s string) bool { return strings.HasPrefix(s, "procedure") })
					if c.says == "" {
						j.expect(0)
					} else {
						j.expect(code)
						j.expectError(c.says)
					}
					if ran != (c.says == "") {
						t.Errorf("it has run: %t", ran)
					}
				})
			}
		}
	}
}

// TestAdminUserOwnsProcedures checks that, under sge_execd, programs of the cell's admin user are
// trusted as with the original.
func TestAdminUserOwnsProcedures(t *testing.T) {
	for owner, want := range map[int]job.Failed{admin: 0, bob: job.FailedProlog} {
		needRoot(t)
		j := newJob(t, asAdmin, "echo job >>$LOG")
		program := j.script("program", "echo procedure $(id -u) >>"+j.log)
		j.check(os.Chown(program, owner, owner))
		j.d.AdminUser, j.d.Prolog = "sgeadmin", "root@"+program
		j.run()
		j.expect(want)
	}
}
