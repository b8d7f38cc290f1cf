package slurmconf

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits are the times that datamove itself keeps to, of its configuration.
type Limits struct {
	Deadline time.Duration // of a hook on a node: slurm.deadline
	Ready    time.Duration // of pre_run on the controller: slurm.ready
}

// Judge says what is to be changed for datamove's hooks to work, and what is as it should be.
func Judge(f Facts, l Limits) []Finding {
	found := slices.Clone(f.Unread)
	found = append(found, f.written()...)
	found = append(found, f.machine()...)
	found = append(found, f.flags())
	for _, h := range Hooks {
		found = append(found, f.hook(h.Key, h.Hook, h.Controller))
	}
	found = append(found, f.longEnough(l)...)
	found = append(found, f.burst(l)...)
	found = append(found, f.submit())
	if f.Controller {
		found = append(found, f.records())
	}
	return found
}

// machine says what is looked at here.
func (f Facts) machine() (found []Finding) {
	what := map[[2]bool]string{{true, false}: "a controller", {false, true}: "a node", {true, true}: "a controller and a node"}[[2]bool{f.Controller, f.Node}]
	if what == "" {
		found = append(found, advice(f.File, "machine", "this is neither a controller (SlurmctldHost) nor a node (NodeName) of it: programs and scripts are not looked at", "run datamove doctor --slurm on the controller, and on a node"))
	} else {
		found = append(found, good(f.File, "machine", "this is "+what))
	}
	if !f.UserKnown {
		found = append(found, advice(f.File, "SlurmUser", f.User+" is not in /etc/passwd here, so its files are taken for those of another account", "look at what is said of its files with that in mind"))
	}
	return found
}

// flags judges when a Prolog runs.
func (f Facts) flags() Finding {
	const key = "PrologFlags"
	s, _ := f.Conf.last(key)
	flags := f.Conf.flags(key)
	has := func(word string) bool { return slices.Contains(flags, word) }
	switch {
	case !has("alloc") && !has("contain") && !has("x11"): // each of these means the first
		return fault(f.at(s), key, "a Prolog runs only where and when a first step does: a job's other nodes have none of its data", "write PrologFlags=Alloc,Contain")
	case !has("contain") && !has("x11"):
		return advice(f.at(s), key, "on a node without a step nothing shows that its job lives, when datamoved starts anew there", "write PrologFlags=Alloc,Contain")
	}
	return good(f.at(s), key, shown(s.Value))
}

// hook judges a setting that names programs.
func (f Facts) hook(key, hook string, controller bool) Finding {
	s, has := f.Conf.last(key)
	if !has {
		return fault(f.File, key, map[string]string{
			"Prolog":          "jobs get no directory on their nodes",
			"Epilog":          "what jobs leave on their nodes stays there, until datamoved takes it away some minutes later",
			"TaskProlog":      "tasks have no DATAMOVE_ variables that are true on their node",
			"PrologSlurmctld": "datamove is not told on which nodes a job runs: its data does not come there, and its results stay there",
			"EpilogSlurmctld": "datamove is not told how a job has ended: when=success holds for all",
		}[key], fmt.Sprintf("write %s=/etc/slurm/datamove/%s, a program of deploy/slurm", key, hook))
	}
	programs := f.Programs[key]
	mine := f.Node
	if controller {
		mine = f.Controller
	}
	if !mine {
		return good(f.at(s), key, shown(s.Value))
	}
	at := slices.IndexFunc(programs, func(p Program) bool { return p.Called != nil })
	if at < 0 {
		return f.notOurs(s, key, hook, programs)
	}
	for _, p := range []Program{programs[at], *programs[at].Called} {
		as := map[bool]string{true: f.User, false: "root"}[controller]
		if key == "TaskProlog" {
			as = "every user"
		}
		if said, mend := runs(p, as); said != "" {
			return fault(f.at(s), key, said, mend)
		}
	}
	return good(f.at(s), key, programs[at].Path+" runs datamove hook "+hook)
}

// notOurs judges programs of which none is seen to run a hook.
func (f Facts) notOurs(s Setting, key, hook string, programs []Program) Finding {
	for _, p := range programs {
		if p.Err != nil {
			harm := "the node is drained by its first job"
			if strings.HasSuffix(key, "Slurmctld") {
				harm = "Slurm runs nothing"
			}
			return fault(f.at(s), key, fmt.Sprintf("%s: %v; %s", shown(p.Path), p.Err, harm), "install it from deploy/slurm/datamove; it is one program without arguments")
		}
	}
	return fault(f.at(s), key, fmt.Sprintf("%s is not seen to run datamove hook %s", shown(s.Value), hook), fmt.Sprintf("have it run /usr/local/bin/datamove hook %s at its end, or name a program of deploy/slurm", hook))
}

// runs says why Slurm can not run a program as a user, or should not.
func runs(p Program, as string) (said, mend string) {
	needed := fs.FileMode(0o111)
	if as == "root" {
		needed = 0o100
	}
	switch {
	case p.Err != nil:
		return fmt.Sprintf("%s: %v", shown(p.Path), p.Err), "install it, with mode 0755"
	case p.Mode&needed != needed:
		return fmt.Sprintf("with mode %04o %s can not be run by %s", p.Mode.Perm(), shown(p.Path), as), "chmod 755 " + shown(p.Path)
	case p.Loose != "":
		return fmt.Sprintf("%s, and so could have something else run by %s", p.Loose, as), "give it to root, with mode 0755"
	}
	return "", ""
}

// longEnough judges times that have to be longer than those of hooks on a node.
func (f Facts) longEnough(l Limits) (found []Finding) {
	for _, t := range []struct{ key, otherwise, harm string }{
		{"BatchStartTimeout", "10", "a batch job may be taken for one that did not start"},
		{"PrologEpilogTimeout", never, "a hook is killed before its deadline, and its node drained"},
	} {
		s, _ := f.Conf.last(t.key)
		limit, err := seconds(f.Conf.value(t.key, t.otherwise))
		switch {
		case err != nil:
			found = append(found, fault(f.at(s), t.key, fmt.Sprintf("%s is no number of seconds", shown(s.Value)), "write "+t.key+"=60"))
		case limit <= l.Deadline:
			found = append(found, fault(f.at(s), t.key, fmt.Sprintf("%v is not more than slurm.deadline, %v: %s", limit, l.Deadline, t.harm), fmt.Sprintf("write %s=%d, or shorten slurm.deadline", t.key, int(2*l.Deadline/time.Second))))
		default:
			found = append(found, good(f.at(s), t.key, spoken(limit)+", more than slurm.deadline, "+l.Deadline.String()))
		}
	}
	return found
}

// never is a time that does not end.
const never = "INFINITE"

const endless = time.Duration(1<<63 - 1)

func spoken(d time.Duration) string {
	if d == endless {
		return "without end"
	}
	return d.String()
}

// seconds reads a time as Slurm does.
func seconds(text string) (time.Duration, error) {
	if strings.EqualFold(text, never) || strings.EqualFold(text, "unlimited") {
		return endless, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	switch {
	case err != nil:
		return 0, errors.New("no number")
	case n == 65534 || n == 65535 || n >= 1<<32-2: // Slurm's words for none
		return endless, nil
	}
	return time.Duration(n) * time.Second, nil
}
