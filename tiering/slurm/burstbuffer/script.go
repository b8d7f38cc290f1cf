package burstbuffer

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"datamove.dev/tiering/slurm/directive"
)

// fileScripts is the directory in which slurmctld has the scripts of jobs (StateSaveLocation), as job_process has seen it. It is of no job.
const fileScripts = "scripts"

// scriptOf is where slurmctld has the script of a job, as TestDeploy of test/slurm shows.
var scriptOf = regexp.MustCompile(`^(/.+)/hash\.[0-9]/job\.[0-9]+/script$`)

// Saw remembers where a script was that slurmctld has shown. Later it shows one in which it has replaced patterns.
func (c *Controller) Saw(script string) error {
	m := scriptOf.FindStringSubmatch(script)
	var known string
	if m == nil || c.records().read(0, fileScripts, &known) == nil && known == m[1] {
		return nil
	}
	return c.records().write(0, fileScripts, m[1])
}

// script is where slurmctld has the script of a job; an error is that its directory is not known.
func (c *Controller) script(job uint32) (name string, err error) {
	var dir string
	err = c.records().read(0, fileScripts, &dir)
	return filepath.Join(dir, fmt.Sprintf("hash.%d", job%10), fmt.Sprintf("job.%d", job), "script"), err
}

// submitted is the beginning of the script of a job as it was submitted; an error is that it is not found.
func (c *Controller) submitted(job uint32) (script string, err error) {
	name, err := c.script(job)
	if err != nil {
		return "", err
	}
	return ReadScript(name)
}

// ReadScript reads the beginning of a job's script, which Slurm ends with a zero byte.
func ReadScript(name string) (script string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, directive.ScriptMost+1))
	return strings.TrimRight(string(b), "\x00"), err
}
