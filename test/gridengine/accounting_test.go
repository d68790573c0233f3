package gridengine

import "testing"

func TestParseRecord(t *testing.T) {
	const head = "all.q:h:g:alice:name:7:sge:0:1:2:3:26:137:0:0.5:0.25:4980.000000:0:0:0:0:633:1:0:248.000000:16:0:0:0:15:12:NONE:dep:smp:2:3:0.75:0.000028:0.000001:"
	const tail = ":0.000000:NONE:3211264.000000:0:0"
	for name, category := range map[string]string{
		"a plain category":     "-q all.q",
		"an empty category":    "",
		"a category with time": "-l h_rt=0:10:0 -q all.q",
	} {
		t.Run(name, func(t *testing.T) {
			r, err := parseRecord(head + category + tail + "\n")
			if err != nil {
				t.Fatal(err)
			}
			if r.Job() != 7 || r.Task() != 3 || r["failed"] != "26" || r["exit_status"] != "137" || r["cpu"] != "0.75" ||
				r["category"] != category || r["maxvmem"] != "3211264.000000" || r["ar_sub_time"] != "0" {
				t.Errorf("got %v", r)
			}
		})
	}
	if r, err := parseRecord("all.q:h:g"); err == nil {
		t.Errorf("parseRecord accepted a short line: %v", r)
	}
}

func TestParseJSONRecord(t *testing.T) {
	const line = `{"job_number":7,"task_number":3,"start_time":1700000001500000,"end_time":1700000002000000,"owner":"alice","submission_time":1700000000000000,` +
		`"job_name":"s.sh","failed":100,"exit_status":137,"deleted_by":"alice","usage":{"rusage":{"ru_utime":0.25},"eusage":{"wallclock":0.5,"cpu":0.75,"maxrss":4096.0}}}`
	records, err := parseRecords(line + "\n" + line)
	if err != nil || len(records) != 1 {
		t.Fatalf("parseRecords = %v, %v, want one record", records, err)
	}
	r := records[0]
	if r.Job() != 7 || r.Task() != 3 {
		t.Errorf("it is of job %d, task %d", r.Job(), r.Task())
	}
	for name, want := range map[string]string{
		"qsub_time": "1700000000", "start_time": "1700000001", "jobname": "s.sh", "failed": "100", "deleted_by": "alice",
		"ru_utime": "0.25", "cpu": "0.75", "maxrss": "4096.0", "granted_pe": "NONE", "arid": "0",
	} {
		if r[name] != want {
			t.Errorf("%s is %q, want %q", name, r[name], want)
		}
	}
}

func TestParseRecordsLeavesOutWhatIsBeingWritten(t *testing.T) {
	if got, err := parseRecords("# Version\nall.q:h:g:ali"); err != nil || len(got) != 0 {
		t.Errorf("parseRecords = %v, %v", got, err)
	}
}

func TestEdit(t *testing.T) {
	got := edit("# comment\nslots   1\nqname all.q\n", map[string]string{"slots": "20", "new": "x y"})
	if want := "slots 20\nqname all.q\nnew x y\n"; got != want {
		t.Errorf("edit = %q, want %q", got, want)
	}
}
