package jobdir

import "github.com/execd-project/execd/job"

// Area is the absolute path of a spool area, which need not exist: it says
// where everything of a job will be.
type Area string

// JobPath returns the path of the directory of a job: SGE_JOB_SPOOL_DIR.
func (a Area) JobPath(id job.ID) string { return string(a) + "/" + dirActiveJobs + "/" + DirName(id) }

// ScriptPath returns the path of the script of a job.
func (a Area) ScriptPath(job int) string { return string(a) + "/" + dirJobScripts + "/" + itoa(job) }

// Check reports what of a description cannot be written to a job directory,
// without making anything.
func Check(d *job.Description) error {
	_, err := contents(d, nil)
	return err
}
