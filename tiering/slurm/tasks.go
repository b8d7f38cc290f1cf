package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// The variables of a job. Those that end in NAME are one for each thing that is staged, with its name in capitals.
const (
	VarDir  = "DATAMOVE_DIR"   // its own directory on the node
	VarHot  = "DATAMOVE_HOT"   // 1: all that was staged is on the node
	VarIn   = "DATAMOVE_IN_"   // NAME: where it is to be read
	VarWarm = "DATAMOVE_WARM_" // NAME: the same data on a file system of all nodes

	VarCheckpoint   = "DATAMOVE_CHECKPOINT"  // where the job is to write its checkpoints: those of the first request
	VarCheckpointOf = "DATAMOVE_CHECKPOINT_" // NAME: the same, of each request, by the name of the directory
	VarSaved        = "DATAMOVE_SAVED_"      // NAME: where all nodes see those that have left
	VarProfile      = "DATAMOVE_PROFILE_"    // NAME: their profile
	VarResume       = "DATAMOVE_RESUME"      // the newest complete one of the first request; not set when there is none
	VarResumeOf     = "DATAMOVE_RESUME_"     // NAME: the same, of each request

	VarCapacity   = "DATAMOVE_CAPACITY"     // bytes that VarDir is held to; not set is no limit
	VarNoCapacity = "DATAMOVE_CAPACITY_WHY" // why it is not, where the job asks for a limit
)

// Variable is the part of a variable's name that a name in the job's directory gives.
func Variable(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}

// Tasks returns the lines that a task prolog prints: what the tasks of a job find in their environment (slurm.conf, "TaskProlog"). It
// runs as the user of the job, with the environment that the job was given: what the controller has told there is seen through, for this node.
func (s *Site) Tasks(j Job, environ []string) (lines []string) {
	want, warm := map[string]string{}, map[string]string{}
	for _, kv := range environ {
		key, value, _ := strings.Cut(kv, "=")
		if name, ok := strings.CutPrefix(key, VarIn); ok {
			want[name] = value
		}
		if name, ok := strings.CutPrefix(key, VarWarm); ok {
			warm[name] = value
		}
	}
	record, err := s.recall(j)
	whole := map[string]bool{}
	for _, name := range record.names() {
		name := filepath.Join(record.Dir, filepath.FromSlash(name))
		want[Variable(strings.TrimPrefix(name, record.Dir+"/"))], whole[name] = name, true
	}
	hot := err == nil && record.Dir != "" // without a prolog nothing is known to be here
	export := func(name, value string) {
		if value != "" && !strings.ContainsAny(value, "\n\r\x00") {
			lines = append(lines, fmt.Sprintf("export %s=%s", name, value))
		} else {
			lines = append(lines, "unset "+name)
		}
	}
	if record.Dir != "" {
		export(VarDir, record.Dir)
	} else {
		export(VarDir, "")
	}
	for _, v := range record.Capacity.variables() {
		export(v[0], v[1])
	}
	for _, name := range sorted(want) {
		if !validVariable(name) {
			continue
		}
		switch {
		case whole[want[name]] && s.here(want[name]):
			export(VarIn+name, want[name])
		default:
			hot = false
			export(VarIn+name, warm[name])
		}
	}
	if hot {
		export(VarHot, "1")
	} else {
		export(VarHot, "0")
	}
	for _, r := range s.resume(environ) {
		export(r[0], r[1])
	}
	return lines
}

// names are those of all that the prolog has found whole.
func (r Record) names() (names []string) {
	for _, l := range r.Links {
		names = append(names, l.Name)
	}
	return append(names, r.Copies...)
}

// here says whether a path is there and leads to what lies on the node.
func (s *Site) here(path string) bool {
	at, err := filepath.EvalSymlinks(path)
	if err != nil || path == "" {
		return false
	}
	root, err := filepath.EvalSymlinks(s.Scratch)
	if err != nil {
		return false
	}
	_, err = os.Stat(at)
	return err == nil && mover.Within(strings.Trim(at, "/"), strings.Trim(root, "/"))
}

func sorted(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func validVariable(name string) bool { return name != "" && Variable(name) == name }
