package qconf

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParallelEnvironments(t *testing.T) {
	for sentence, c := range map[string]struct {
		text string
		want ParallelEnvironment
		errs []string
	}{
		"the template": {"pe_name smp", ParallelEnvironment{
			Name: "smp", AllocationRule: AllocationRule{Name: PESlots}, JobIsFirstTask: true, UrgencySlots: UrgencySlots{Name: UrgencyMin},
		}, nil},
		"all attributes": {`pe_name mpi
slots 9999999
user_lists staff  admins
xuser_lists bad
start_proc_args root@/opt/start $pe_hostfile
stop_proc_args /opt/stop
allocation_rule 16
control_slaves true
job_is_first_task 0
urgency_slots 4
accounting_summary TRUE
qsort_args /lib/q.so fn a
`, ParallelEnvironment{
			Name: "mpi", Slots: 9999999, UserLists: []string{"staff", "admins"}, XUserLists: []string{"bad"},
			Start: "root@/opt/start $pe_hostfile", Stop: "/opt/stop", AllocationRule: AllocationRule{PerHost: 16}, ControlSlaves: true,
			UrgencySlots: UrgencySlots{Fixed: 4}, AcctSummary: true, QsortArgs: "/lib/q.so fn a",
		}, nil},
		"wrong values": {"pe_name a b\nslots -1\nallocation_rule 0\nurgency_slots -2\nstart_proc_args x\nallocation_ruel 3\nstop_proc_args /x $nope", ParallelEnvironment{}, []string{
			`pes/x:6: unknown attribute "allocation_ruel" of a parallel environment, expected one of sge_pe(5), perhaps allocation_rule`,
			`pes/x:1: pe_name: "a b" is not a name: it contains " ", expected printing ASCII without blanks and / : ' \ [ ] { } | ( ) @ % , "`,
			`pes/x:2: slots: "-1" is out of range, expected a number from 0 to 9999999`,
			`pes/x:5: start_proc_args: "x" is not a command, expected NONE or [user@] and an absolute path with arguments`,
			`pes/x:7: stop_proc_args: "/x $nope" has the unknown variable $nope, expected one of $` + strings.Join(peVariables, " $"),
			`pes/x:3: allocation_rule: "0" is not an allocation rule, expected $pe_slots, $fill_up, $round_robin or slots per host from 1 to 9999999`,
			`pes/x:4: urgency_slots: "-2" is unknown, expected min, max, avg or a number of slots`,
		}},
		"a host setting": {"pe_name x\nslots 1,[n1=2]", ParallelEnvironment{}, []string{
			`pes/x:2: slots: "1,[n1=2]" is not a number, expected one from 0 to 9999999`,
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, err := ParsePE("pes/x", []byte(c.text))
			refused(t, err, c.errs...)
			if err == nil {
				if diff := cmp.Diff(c.want, *p, cmpopts.IgnoreFields(ParallelEnvironment{}, "Text")); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestCheckpoints(t *testing.T) {
	for sentence, c := range map[string]struct {
		text string
		want Checkpoint
		errs []string
	}{
		"the template": {"ckpt_name c", Checkpoint{Name: "c", Interface: CkptUserDefined, Dir: "/tmp", When: "xs"}, nil},
		"all attributes": {`ckpt_name c
interface APPLICATION-level
ckpt_command /opt/c $ckpt_dir $job_pid
migr_command /opt/m
restart_command none
clean_command /opt/x
ckpt_dir NONE
signal SIGUSR2
when rm
`, Checkpoint{
			Name: "c", Interface: CkptApplicationLevel, Command: "/opt/c $ckpt_dir $job_pid", MigrationCommand: "/opt/m",
			CleanCommand: "/opt/x", Signal: "SIGUSR2", When: "mr",
		}, nil},
		"never": {"ckpt_name c\nwhen n", Checkpoint{Name: "c", Interface: CkptUserDefined, Dir: "/tmp"}, nil},
		"wrong values": {"ckpt_name c\ninterface foo\nckpt_command x\nckpt_dir rel\nsignal 99\nwhen sz\nclean_command /x $", Checkpoint{}, []string{
			`c:2: interface: "foo" is unknown, expected one of userdefined, transparent, application-level, hibernator, cpr`,
			`c:3: ckpt_command: "x" is not an absolute path, expected one that begins with /`,
			`c:7: clean_command: "/x $" has the unknown variable $, expected one of $` + strings.Join(ckptVariables, " $"),
			`c:4: ckpt_dir: "rel" is not an absolute path, expected one that begins with /`,
			`c:5: signal: "99" is not a signal, expected NONE, a name of kill -l or a number from 1 to 64`,
			`c:6: when: "sz" contains "z", expected letters of s m x r, or NONE`,
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			k, err := ParseCheckpoint("c", []byte(c.text))
			refused(t, err, c.errs...)
			if err == nil {
				if diff := cmp.Diff(c.want, *k, cmpopts.IgnoreFields(Checkpoint{}, "Text")); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestHostGroupsAreResolved(t *testing.T) {
	g := groups(t, "group_name @every\nhostlist @a n9 @b\n", "group_name @a\nhostlist n1 N2.example.org", "group_name @b\nhostlist n2.example.org @c n1", "group_name @c\nhostlist NONE")
	same(t, "names", []string{"@a", "@b", "@c", "@every"}, g.Names())
	same(t, "hosts", []string{"n9", "n1", "N2.example.org"}, g.Hosts("@every"))
	same(t, "empty", []string(nil), g.Hosts("@c"))
	same(t, "list", []string{"x", "n1", "N2.example.org"}, g.Resolve([]string{"x", "@a", "n1"}))
	for host, want := range map[string]bool{
		"n1": true, "N1": true, "n1.example.org": true, "n2": true, "n2.other.org": false, "n3": false, "": false,
	} {
		same(t, host, want, g.Contains("@every", host))
	}
	var none *HostGroups
	if none.Contains("@every", "n1") || none.Hosts("@a") != nil || none.Group("@a") != nil || none.Names() != nil {
		t.Error("no groups have something")
	}
	if g.Contains("@nosuch", "n1") {
		t.Error("a group that does not exist holds a host")
	}
}

func TestHostGroupsAreRefused(t *testing.T) {
	for sentence, c := range map[string]struct {
		files map[string]string
		errs  []string
	}{
		"a circle is named": {map[string]string{"@a": "n1 @b", "@b": "@c", "@c": "n2 @a", "@d": "@a"}, []string{
			"hostgroups/@a:2: hostlist: host groups form a circle: @a -> @b -> @c -> @a",
		}},
		"a group that holds itself": {map[string]string{"@a": "@a"}, []string{
			"hostgroups/@a:2: hostlist: host groups form a circle: @a -> @a",
		}},
		"two circles": {map[string]string{"@a": "@b", "@b": "@a @c", "@c": "@b"}, []string{
			"hostgroups/@a:2: hostlist: host groups form a circle: @a -> @b -> @a",
			"hostgroups/@b:2: hostlist: host groups form a circle: @b -> @c -> @b",
		}},
		"a diamond is no circle": {map[string]string{"@a": "@b @c", "@b": "@d", "@c": "@d", "@d": "n1"}, nil},
		"a member that does not exist": {map[string]string{"@a": "n1 @x"}, []string{
			`hostgroups/@a:2: hostlist: host group "@x" does not exist`,
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			var all []*HostGroup
			for _, name := range sortedKeys(c.files) {
				g, err := ParseHostGroup("hostgroups/"+name, []byte("group_name "+name+"\nhostlist "+c.files[name]))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, g)
			}
			_, err := NewHostGroups(all...)
			refused(t, err, c.errs...)
			if strings.Contains(sentence, "not exist") && !errors.Is(err, ErrNotFound) {
				t.Error("not ErrNotFound")
			}
		})
	}
	_, err := ParseHostGroup("g", []byte("group_name big\nhostlist n1,n2 all"))
	refused(t, err, `g:1: group_name: "big" is not a host group name, expected @ and a name`, `g:2: hostlist: "all" is not a host name: the word is reserved`)
}
