package gridengine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A Record is one line of the accounting(5) file, under the names that `qacct -j` of 8.1.9 prints.
// The values are those of the file, without qacct's rounding and units; times are seconds since
// 1970. Open Cluster Scheduler has additional fields: wallclock, ioops, maxrss, deleted_by.
type Record map[string]string

// recordFields lists the fields of a line in their order.
var recordFields = []string{
	"qname", "hostname", "group", "owner", "jobname", "jobnumber", "account", "priority",
	"qsub_time", "start_time", "end_time", "failed", "exit_status", "ru_wallclock",
	"ru_utime", "ru_stime", "ru_maxrss", "ru_ixrss", "ru_ismrss", "ru_idrss", "ru_isrss",
	"ru_minflt", "ru_majflt", "ru_nswap", "ru_inblock", "ru_oublock", "ru_msgsnd", "ru_msgrcv",
	"ru_nsignals", "ru_nvcsw", "ru_nivcsw", "project", "department", "granted_pe", "slots",
	"taskid", "cpu", "mem", "io", "category", "iow", "pe_taskid", "maxvmem", "arid", "ar_sub_time",
}

// Job returns the job number.
func (r Record) Job() int { return r.int("jobnumber") }

// Task returns the task number, 0 for a job that is not an array.
func (r Record) Task() int { return r.int("taskid") }

func (r Record) int(name string) int {
	n, _ := strconv.Atoi(r[name])
	return n
}

// parseRecord reads a line. The category may contain colons (times, in requests), so the fields
// after it are counted from the end.
func parseRecord(line string) (Record, error) {
	const category = 39
	values := strings.Split(strings.TrimSuffix(line, "\n"), ":")
	extra := len(values) - len(recordFields)
	if extra < 0 {
		return nil, fmt.Errorf("cannot read accounting line %q: %d fields, want %d", line, len(values), len(recordFields))
	}
	r := Record{}
	for i, name := range recordFields {
		switch {
		case i < category:
			r[name] = values[i]
		case i == category:
			r[name] = strings.Join(values[i:i+extra+1], ":")
		default:
			r[name] = values[i+extra]
		}
	}
	return r, nil
}

// parseRecords reads an accounting file. It omits a last line without a newline, which is still
// being written.
func parseRecords(text string) ([]Record, error) {
	var records []Record
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") || !strings.HasSuffix(line, "\n") {
			continue
		}
		parse := parseRecord
		if strings.HasPrefix(line, "{") {
			parse = parseJSONRecord
		}
		r, err := parse(line)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

// jsonNames maps fields to the names that Open Cluster Scheduler uses instead.
var jsonNames = map[string]string{
	"job_number": "jobnumber", "task_number": "taskid", "job_name": "jobname", "submission_time": "qsub_time", "ar_submission_time": "ar_sub_time",
}

// parseJSONRecord reads a line of accounting.jsonl of Open Cluster Scheduler.
func parseJSONRecord(line string) (Record, error) {
	var fields map[string]any
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("cannot read accounting line %q: %w", line, err)
	}
	r := Record{"arid": "0", "ar_sub_time": "0", "project": "NONE", "granted_pe": "NONE", "pe_taskid": "NONE"}
	var add func(fields map[string]any) error
	add = func(fields map[string]any) error {
		for name, value := range fields {
			if group, ok := value.(map[string]any); ok {
				if err := add(group); err != nil {
					return err
				}
				continue
			}
			text := fmt.Sprint(value)
			switch name {
			case "submission_time", "start_time", "end_time", "ar_submission_time":
				micros, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					return fmt.Errorf("cannot read accounting line %q: %s: %w", line, name, err)
				}
				text = strconv.FormatInt(micros/1e6, 10)
			}
			r[cmp.Or(jsonNames[name], name)] = text
		}
		return nil
	}
	return r, add(fields)
}

// AccountingFile returns the path of the accounting file, as the test sees it. The first record
// creates the file. It contains only records and comments.
func (c *Cell) AccountingFile() string {
	name := "accounting"
	if c.install.root != "" {
		name += ".jsonl"
	}
	return filepath.Join(c.dir, "root/default/common", name)
}

// Records returns all records of the accounting file. There is a record for each end of each task,
// so a job that was requeued has several.
func (c *Cell) Records() ([]Record, error) {
	text, err := os.ReadFile(c.AccountingFile())
	if os.IsNotExist(err) {
		return nil, nil // the first record creates the file
	}
	if err != nil {
		return nil, err
	}
	return parseRecords(string(text))
}

// Accounting returns the records of a job's task, in the order in which they
// were written. task is 0 for a job that is not an array.
func (c *Cell) Accounting(job, task int) ([]Record, error) {
	all, err := c.Records()
	var records []Record
	for _, r := range all {
		if r.Job() == job && r.Task() == task {
			records = append(records, r)
		}
	}
	return records, err
}
