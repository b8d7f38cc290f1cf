package slurmconf

import (
	"fmt"
	"strings"
)

// Degree says how a thing is.
type Degree int

// The degrees.
const (
	Good   Degree = iota
	Advice        // the hooks work, and not as well as they could
	Fault         // jobs will not get what they ask for, or nodes will be drained
)

// Finding is what is to be said of one thing.
type Finding struct {
	Subject string // the file
	Check   string // the key, or what was looked at
	Degree  Degree
	Detail  string
	Mend    string // "" when nothing is to be done
}

func good(subject, check, detail string) Finding {
	return Finding{Subject: subject, Check: check, Detail: detail}
}

func advice(subject, check, detail, mend string) Finding {
	return Finding{subject, check, Advice, detail, mend}
}

func fault(subject, check, detail, mend string) Finding {
	return Finding{subject, check, Fault, detail, mend}
}

// at is where a setting stands; without a line it is the file where it should.
func (f Facts) at(s Setting) string {
	if s.File == "" {
		return f.File
	}
	return fmt.Sprintf("%s:%d", s.File, s.Line)
}

// single are keys of which there is one value.
var single = []string{"PrologFlags", "Prolog", "Epilog", "TaskProlog", "PrologSlurmctld", "EpilogSlurmctld", "BatchStartTimeout", "PrologEpilogTimeout", "BurstBufferType", "JobSubmitPlugins", "SlurmUser"}

// written finds what Slurm does not take, or takes otherwise than it was meant.
func (f Facts) written() (found []Finding) {
	for _, of := range []struct {
		conf Conf
		keys []string
	}{{f.Conf, single}, {f.Burst, []string{"Directive", "Flags", "OtherTimeout", "StageInTimeout", "StageOutTimeout"}}} {
		for _, key := range of.keys {
			all := of.conf.all(key)
			for _, s := range all {
				switch {
				case s.Rest != "":
					found = append(found, fault(f.at(s), key, "Slurm does not start: behind the value comes "+shown(s.Rest), "name one program, without arguments: "+key+"="+s.Value))
				case s.Value == "":
					found = append(found, fault(f.at(s), key, "Slurm does not start: there is no value", "remove the line, or complete it"))
				}
			}
			if len(all) > 1 {
				last := all[len(all)-1]
				found = append(found, advice(f.at(last), key, fmt.Sprintf("it is set at %s, too; Slurm takes this one alone", f.at(all[0])), "keep one line; docs/guides/slurm.md says how two hooks run"))
			}
		}
	}
	return found
}

// shown is a word of a file as it may stand in a message.
func shown(s string) string {
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}
