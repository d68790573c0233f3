package jobdir

import "github.com/execd-project/execd/job"

// Area is the absolute path of a spool area, which need not exist. Its methods return the paths of
// a job's files.
type Area string

// JobPath returns the path of a job's directory: SGE_JOB_SPOOL_DIR.
func (a Area) JobPath(id job.ID) string { return string(a) + "/" + dirActiveJobs + "/" + DirName(id) }

// ScriptPath returns the path of a job's script.
func (a Area) ScriptPath(job int) string { return string(a) + "/" + dirJobScripts + "/" + itoa(job) }

// Check reports whether a description can be written to a job directory, without creating anything.
// The error is a *ValueError for a value that cannot be written.
func Check(d *job.Description) error {
	_, err := contents(d, CreateOptions{})
	return err
}
