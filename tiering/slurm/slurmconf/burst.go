package slurmconf

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// patience is the least that Slurm should give to what is staged in and out: a large dataset takes hours.
const patience = time.Hour

// burst judges all that burst buffers need.
func (f Facts) burst(l Limits) (found []Finding) {
	const key = "BurstBufferType"
	s, has := f.Conf.last(key)
	switch {
	case !has || strings.EqualFold(s.Value, "burst_buffer/none"):
		return []Finding{fault(f.at(s), key, "nothing is staged before a job begins: #DATAMOVE lines are comments", "write BurstBufferType=burst_buffer/lua")}
	case !strings.EqualFold(s.Value, "burst_buffer/lua"):
		return []Finding{fault(f.at(s), key, shown(s.Value)+" is in the place of datamove's", "write BurstBufferType=burst_buffer/lua; #DW lines of jobs are understood, too")}
	}
	found = append(found, good(f.at(s), key, s.Value))
	if !f.Controller && f.BurstFile == "" {
		return found // it is needed there alone
	}
	if f.BurstFile == "" {
		found = append(found, fault(path.Join(path.Dir(f.File), "burst_buffer.conf"), "file", "it is not there", "install it from deploy/slurm"))
	} else {
		found = append(found, f.directive(), f.teardown())
		found = append(found, f.phases(l)...)
	}
	if f.Controller {
		found = append(found, f.lua())
	}
	return found
}

// atBurst is where a setting of burst_buffer.conf stands, or should.
func (f Facts) atBurst(s Setting) string {
	if s.File == "" {
		return f.BurstFile
	}
	return f.at(s)
}

// directive judges which lines of a script Slurm shows us.
func (f Facts) directive() Finding {
	s, _ := f.Burst.last("Directive")
	if s.Value != "DATAMOVE" {
		return fault(f.atBurst(s), "Directive", fmt.Sprintf("%q is not DATAMOVE: requests are not seen", shown(s.Value)), "write Directive=DATAMOVE; #DW lines are seen by job_submit.lua")
	}
	return good(f.atBurst(s), "Directive", s.Value)
}

// teardown judges what becomes of a job that can not leave.
func (f Facts) teardown() Finding {
	s, _ := f.Burst.last("Flags")
	if !slices.Contains(f.Burst.flags("Flags"), "teardownfailure") {
		return fault(f.atBurst(s), "Flags", "a job whose results can not be brought away stays in STAGE_OUT for ever, and one that is held for its data does not stage again when it is released", "write Flags=TeardownFailure")
	}
	return good(f.atBurst(s), "Flags", shown(s.Value))
}

// phases judges for how long Slurm waits.
func (f Facts) phases(l Limits) (found []Finding) {
	for _, t := range []struct {
		key, otherwise string
		least          time.Duration
		equal          bool // that is enough
		degree         Degree
		why, mend      string
	}{
		{"OtherTimeout", "300", l.Ready, false, Fault, "is not more than slurm.ready, " + l.Ready.String() + ": Slurm kills what brings data onto the nodes, and may then start the job without", "write OtherTimeout=%d, or shorten slurm.ready"},
		{"StageInTimeout", "86400", patience, true, Advice, "is short: data that takes longer is not staged, and the job is held", "write StageInTimeout=86400"},
		{"StageOutTimeout", "86400", patience, true, Advice, "is short: results that take longer are left behind", "write StageOutTimeout=86400"},
	} {
		s, _ := f.Burst.last(t.key)
		limit, err := seconds(f.Burst.value(t.key, t.otherwise))
		mend := t.mend
		if strings.Contains(mend, "%d") {
			mend = fmt.Sprintf(mend, int((t.least+time.Minute)/time.Second))
		}
		switch {
		case err != nil:
			found = append(found, fault(f.atBurst(s), t.key, fmt.Sprintf("%s is no number of seconds", shown(s.Value)), mend))
		case limit < t.least || limit == t.least && !t.equal:
			found = append(found, Finding{f.atBurst(s), t.key, t.degree, fmt.Sprintf("%v %s", limit, t.why), mend})
		default:
			found = append(found, good(f.atBurst(s), t.key, spoken(limit)))
		}
	}
	return found
}

// lua judges burst_buffer.lua.
func (f Facts) lua() Finding {
	const check = "script"
	s := f.Lua
	switch {
	case errors.Is(s.Err, fs.ErrNotExist):
		return fault(s.File, check, "it is not there", "install it from deploy/slurm")
	case s.Err != nil:
		return fault(s.File, check, reason(s.Err), "make it readable")
	case s.Version == "":
		return fault(s.File, check, "it is not datamove's", "install it from deploy/slurm; there is one such script")
	}
	return f.ours(s, check)
}

// ours judges a script that is datamove's.
func (f Facts) ours(s Script, check string) Finding {
	switch {
	case s.Version != Version:
		return fault(s.File, check, fmt.Sprintf("it is of version %s, and this datamove goes with %s", s.Version, Version), "install it from deploy/slurm of this version")
	case s.Loose != "":
		return fault(s.File, check, s.Loose+", and so could have something else run by "+f.User, "give it to root, with mode 0644")
	case s.Called == nil:
		return fault(s.File, check, "it does not say where datamove is", `write local datamove = "/usr/local/bin/datamove" there`)
	}
	if said, mend := runs(*s.Called, f.User); said != "" {
		return fault(s.File, check, said, mend)
	}
	return good(s.File, check, "version "+s.Version+", runs "+s.Called.Path)
}

// submit judges job_submit.lua, which a site may leave out.
func (f Facts) submit() Finding {
	const key = "JobSubmitPlugins"
	s, _ := f.Conf.last(key)
	loaded := slices.Contains(f.Conf.flags(key), "lua")
	without := "sbatch does not look for #DW lines, --comment=datamove:... and the variable DATAMOVE, and tells nothing of quotas"
	j := f.Submit
	switch {
	case !f.Controller:
		return good(f.at(s), key, "the controller knows")
	case loaded && errors.Is(j.Err, fs.ErrNotExist):
		return fault(j.File, "script", "it is not there, and JobSubmitPlugins has lua: no job is taken", "install it from deploy/slurm, or remove lua from JobSubmitPlugins")
	case errors.Is(j.Err, fs.ErrNotExist):
		return good(f.at(s), key, without+": job_submit.lua is not installed")
	case j.Err != nil:
		return fault(j.File, "script", reason(j.Err), "make it readable")
	case j.Version == "" && j.Mentions:
		return good(j.File, "script", "the site's own, with datamove in it")
	case j.Version == "":
		return good(j.File, "script", "the site's own: "+without)
	case !loaded:
		return fault(f.at(s), key, "job_submit.lua is not loaded: "+without, "write JobSubmitPlugins=lua, after what is there with a comma")
	}
	return f.ours(j, "script")
}

// records judges the directory where the controller's hooks keep what they know of jobs.
func (f Facts) records() Finding {
	const check = "records"
	d := f.Records
	mend := fmt.Sprintf("install -d -o %s -m 0700 %s", f.User, d.Path)
	switch {
	case errors.Is(d.Err, fs.ErrNotExist):
		return fault(d.Path, check, "it is not there: no job that asks for something is taken", mend)
	case d.Err != nil:
		return fault(d.Path, check, reason(d.Err), mend)
	case d.Shut != "":
		return fault(d.Path, check, fmt.Sprintf("%s does not get through %s", f.User, d.Shut), "chmod o+x "+d.Shut)
	case f.UserKnown && d.Owner != f.UserID:
		return fault(d.Path, check, fmt.Sprintf("it belongs to uid %d, and hooks on the controller run as %s", d.Owner, f.User), fmt.Sprintf("chown %s %s", f.User, d.Path))
	case d.Mode.Perm()&0o700 != 0o700:
		return fault(d.Path, check, fmt.Sprintf("with mode %04o its owner can not write there", d.Mode.Perm()), "chmod 700 "+d.Path)
	case d.Mode.Perm()&0o077 != 0:
		return fault(d.Path, check, fmt.Sprintf("with mode %04o others can look at what jobs asked for, or change it", d.Mode.Perm()), "chmod 700 "+d.Path)
	}
	return good(d.Path, check, "of "+f.User+" alone")
}
