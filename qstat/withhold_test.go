package qstat

import (
	"strings"
	"testing"
)

// TestOtherUsersSeeNoPrivateFields shows jobs to users who are neither their owner nor managers.
func TestOtherUsersSeeNoPrivateFields(t *testing.T) {
	for sentence, c := range map[string]struct {
		job  JobDetail
		want string // the lines that are about what is withheld
	}{
		"names stay": {
			JobDetail{Environment: []string{"A=secret", "B", "C="}, Context: []string{"d=secret=secret"}, Script: "job.sh"},
			"env_list:                   A=,B=,C=\nscript_file:                job.sh\ncontext:                    d=\n" +
				"withheld:                   values of env_list, values of context (for the owner and managers)\n",
		},
		"arguments go": {
			JobDetail{Script: "/bin/program", Type: "binary", Arguments: []string{"secret"}},
			"script_file:                /bin/program\nwithheld:                   job_args (for the owner and managers)\n",
		},
		"a line for a shell loses all but its program": {
			JobDetail{Script: "/bin/program --password=secret", Type: "binary,immediate"},
			"script_file:                /bin/program\nwithheld:                   the rest of script_file (for the owner and managers)\n",
		},
		"a line may begin with an assignment": {
			JobDetail{Script: "PASSWORD=secret program", Type: "binary"},
			"script_file:                PASSWORD\nwithheld:                   the rest of script_file (for the owner and managers)\n",
		},
		"the path of a script is no line for a shell": {JobDetail{Script: "my job.sh"}, "script_file:                my job.sh\n"},
		"nothing to withhold":                         {JobDetail{Script: "j"}, "script_file:                j\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			j := c.job
			j.Withhold()
			var got strings.Builder
			for l := range strings.Lines(string(AppendDetails(nil, []JobDetail{j}, DetailOptions{}))) {
				switch name, _, _ := strings.Cut(l, ":"); name {
				case "env_list", "job_args", "script_file", "context", "withheld":
					got.WriteString(l)
				}
			}
			if got.String() != c.want {
				t.Errorf("it shows\n%swant\n%s", &got, c.want)
			}
			xml := string(AppendDetailsXML(nil, []JobDetail{j}, DetailOptions{}))
			if strings.Contains(xml, "secret") {
				t.Errorf("XML shows\n%s", xml)
			}
		})
	}
}
