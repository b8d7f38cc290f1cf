package slurm

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Live returns the jobs that have a process of Slurm on this node. Each step of a job has a slurmstepd, with the command line
// "slurmstepd: [JOB.STEP]" (slurmstepd sets its title; heterogeneous jobs have [JOB+OFFSET.STEP] there). True are those with a step
// that lasts as long as the job: that of the batch script, or the extern step of PrologFlags=Contain. proc is "/proc".
func Live(proc string) (map[uint32]bool, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	live := map[uint32]bool{}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil || !ours(filepath.Join(proc, e.Name())) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if id, step, ok := stepOf(string(bytes.TrimRight(line, "\x00"))); ok {
			live[id] = live[id] || step == "batch" || step == "extern"
		}
	}
	return live, nil
}

// ours says whether a process has our user: slurmstepd is root, and any user's process can have a title like its.
func ours(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && st.Uid == uint32(unix.Geteuid())
}

// stepOf reads the title of a slurmstepd.
func stepOf(title string) (job uint32, step string, ok bool) {
	rest, ok := strings.CutPrefix(title, "slurmstepd: [")
	if !ok {
		return 0, "", false
	}
	text, _, _ := strings.Cut(rest, "]")
	text, step, _ = strings.Cut(text, ".")
	text, _, _ = strings.Cut(text, "+")
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), step, err == nil && n > 0
}
