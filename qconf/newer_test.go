package qconf

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestNewerAttributes checks that attributes of Open Cluster Scheduler are kept, and that the
// warnings about values other than their defaults name the release.
func TestNewerAttributes(t *testing.T) {
	files := fstest.MapFS{
		"conf/global": {Data: []byte("mail_tag [lab]\nport_range 5000-6000\nbinding_params enabled=true,implicit=false,mode=default,default_unit=C,on_any_host=false,filter=NONE\n" +
			"jsv_params NONE\nexecd_params ENABLE_SYSTEMD=true,ENABLE_MEM_DETAILS=true,USAGE_COLLECTION=false\nreporting_params accounting=true old_accounting=true\n")},
		"conf/n1": {Data: []byte("topology_file /etc/topology\n")},
		"pes/mpi": {Data: []byte("pe_name mpi\nslots 4\nign_sreq_on_mhost FALSE\nmaster_forks_slaves TRUE\n")},
	}
	found := Check(files, Options{})
	if len(found.Errors)+len(found.Missing) > 0 {
		t.Fatalf("%v %v", found.Errors, found.Missing)
	}
	var got []string
	for _, w := range found.Warnings {
		got = append(got, w.File+": "+w.Attribute+": "+w.Problem)
	}
	slices.Sort(got)
	want := []string{
		`conf/global: execd_params: "ENABLE_SYSTEMD=true" has no effect: Open Cluster Scheduler 9.1 has introduced it`,
		`conf/global: port_range: "5000-6000" has no effect: Open Cluster Scheduler 9.1 has introduced it`,
		`conf/global: reporting_params: "old_accounting=true" has no effect: Open Cluster Scheduler 9.0 has introduced it`,
		`conf/n1: topology_file: "/etc/topology" has no effect: Open Cluster Scheduler 9.1 has introduced it`,
		`pes/mpi: master_forks_slaves: "TRUE" has no effect: Open Cluster Scheduler 9.0 has introduced it`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the warnings are\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	c := found.Sound
	if c.Global().MailTag != "[lab]" || !c.Global().ExecdParams.EnableMemDetails {
		t.Errorf("mail_tag is %q, ENABLE_MEM_DETAILS %v", c.Global().MailTag, c.Global().ExecdParams.EnableMemDetails)
	}
	pe, err := c.PE("mpi")
	if err != nil {
		t.Fatal(err)
	}
	if text := pe.Format(SingleLine); !strings.Contains(text, "master_forks_slaves TRUE") || strings.Contains(text, "daemon_forks_slaves") {
		t.Errorf("attributes were lost or added:\n%s", text)
	}
	if def, err := ParsePE("", []byte("pe_name x\n")); err != nil || strings.Contains(def.Format(SingleLine), "forks") {
		t.Errorf("a parallel environment of 8.1.9 gets attributes: %v %s", err, def.Format(SingleLine))
	}
}
