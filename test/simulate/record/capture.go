package record

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// printAll prints the state to the files of a step, one after the other. Users are
// the arguments.
const printAll = `
[ -z "$CLOCK" ] || qconf -sstree >/dev/null 2>&1 || date +%s >epoch-at-capture.txt
qstat -u '*' >qstat.txt
qstat -ext -u '*' >qstat-ext.txt
qstat -urg -u '*' >qstat-urg.txt
qstat -pri -u '*' >qstat-pri.txt
qstat -g t -u '*' >qstat-gt.txt
qstat -f -explain aA -u '*' >qstat-f.txt
qstat -f -u '*' | awk '$1 ~ /@/ { print $1, $3 }' >slots-used.txt
qstat -s p -u '*' | awk '$1 ~ /^[0-9]+$/ && !seen[$1]++ { print $1 }' >pending
while read -r job; do
	echo "== job $job"
	qstat -j "$job" | sed -n '/^scheduling info/,$p'
done <pending >schedinfo.txt
rm pending
qrstat -u '*' >qrstat.txt
[ -z "$RUNS" ] || [ ! -s $SGE_ROOT/default/common/accounting ] ||
	awk -F: '$6 ~ /^[0-9]+$/ { print "job_number:", $6; print "submission_time:", $9; print "end_time:", $11 }' $SGE_ROOT/default/common/accounting >times.txt
[ ! -s $SGE_ROOT/default/common/schedule ] || tail -n 200 $SGE_ROOT/default/common/schedule >schedule-last.txt
! qconf -sstree >/dev/null 2>&1 || sge_share_mon -c 1 -h >sge_share_mon.txt
[ -n "$(qconf -srqsl 2>/dev/null)" ] || exit 0
qquota -u '*' >qquota.txt
for user; do
	echo "### qquota -u $user"
	qquota -u "$user"
done >qquota-per-user.txt`

// flag returns a word that the shell script tests with [ -z ]: empty for false.
func flag(set bool) string {
	if set {
		return "yes"
	}
	return ""
}

// capture prints the state to the folder of a step.
func (r *recorder) capture(step string) error {
	dir := "/tmp/capture/" + step
	if err := os.MkdirAll(r.cell.Path(dir), 0o755); err != nil {
		return err
	}
	command := append([]string{"env", "TZ=UTC", "CLOCK=" + flag(r.clock), "RUNS=" + flag(r.runs), "sh", "-c", "cd " + dir + " && {" + printAll + "\n}", "sh"}, Users...)
	if out, err := r.cell.Root(command...); err != nil {
		return fmt.Errorf("cannot print the state: %w\n%s", err, out)
	}
	from, to := r.cell.Path(dir), filepath.Join(r.out, step)
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if r.runs && d.Name() == "qstat-f.txt" {
			return nil // real hosts report the load of this machine
		}
		text, err := os.ReadFile(path)
		// A file in which nothing stands says that there is nothing of the kind.
		if err != nil || strings.TrimSpace(string(text)) == "" && d.Name() != "schedinfo.txt" && d.Name() != "qstat.txt" {
			return err
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, d.Name()), text, 0o644)
	})
}
