package slurm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// clientSeconds is how long a client may take: those of Slurm wait for minutes when nobody answers.
const clientSeconds = 30

// On runs a program as root on machine n, and returns what it prints.
func (c *Cluster) On(n int, program ...string) (string, error) {
	return c.As("root", n, "", program...)
}

// As runs a program as a user on machine n, in their home, with a text to read.
func (c *Cluster) As(user string, n int, stdin string, program ...string) (string, error) {
	uid, home := strconv.Itoa(UID(user)), "/home/"+user
	args := []string{"timeout", "--kill-after=5", strconv.Itoa(clientSeconds)}
	if user == "root" {
		home = "/root"
	} else {
		args = append(args, "setpriv", "--reuid="+uid, "--regid="+uid, "--init-groups", "--")
	}
	args = append(args, "env", "--chdir="+home)
	cmd, err := c.machines[n].enter(append(args, program...)...)
	if err != nil {
		return "", err
	}
	cmd.Env = append(cmd.Env, "HOME="+home, "USER="+user, "LOGNAME="+user, "SHELL=/bin/bash")
	cmd.Stdin = strings.NewReader(stdin)
	return run(cmd)
}

// run returns what a program prints, and with an error all that it says.
func run(cmd *exec.Cmd) (string, error) {
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = 2 * clientSeconds * time.Second // for one that timeout does not end
	p, err := begin(cmd)
	if err != nil {
		return "", err
	}
	<-p.ended
	if !cmd.ProcessState.Success() {
		return out.String(), fmt.Errorf("%s: %v: %s", strings.Join(cmd.Args, " "), cmd.ProcessState, strings.TrimSpace(complaint.String()+out.String()))
	}
	return out.String(), nil
}

// Submit has a user submit a batch script: arguments are those of sbatch. It returns the job's id, all that sbatch says, and
// an error when that refuses. The output of the job is in /home/USER/slurm-ID.out.
func (c *Cluster) Submit(user, script string, args ...string) (id, said string, err error) {
	said, err = c.As(user, Controller, script, append([]string{"sh", "-c", `exec sbatch "$@" 2>&1`, "sbatch"}, args...)...)
	if _, after, found := strings.Cut(said, "Submitted batch job "); found && err == nil {
		id, _, _ = strings.Cut(after, "\n")
	} else if err == nil {
		err = errors.New("sbatch names no job")
	}
	return id, said, err
}

// MustSubmit is Submit of what may not be refused.
func (c *Cluster) MustSubmit(user, script string, args ...string) string {
	c.t.Helper()
	id, said, err := c.Submit(user, script, args...)
	if err != nil {
		c.t.Fatalf("sbatch: %v\n%s", err, said)
	}
	return id
}

// Output is what a batch job of a user has printed.
func (c *Cluster) Output(user, id string) string {
	text, err := os.ReadFile(c.Path(Controller, "/home/"+user+"/slurm-"+id+".out"))
	if err != nil {
		return ""
	}
	return string(text)
}

// Job is what Slurm says of a job. A task of an array has the id that Slurm has given it, or ARRAY_INDEX.
func (c *Cluster) Job(id string) (Job, error) {
	out, err := c.asks("show job " + id)
	if err != nil {
		return Job{}, err
	}
	return parseJob(out)
}

// Nodes is what Slurm says of all nodes; none, when nobody answers.
func (c *Cluster) Nodes() []Node {
	out, err := c.asks("show node")
	if err != nil {
		return nil
	}
	return parseNodes(strings.ReplaceAll(out, "\n   ", " "))
}

// Until waits until a job is as a test wants it, and returns it. What says what that is.
func (c *Cluster) Until(id, what string, is func(Job) bool) Job {
	c.t.Helper()
	var j Job
	c.Eventually("job "+id+": "+what, func() (err error) {
		if j, err = c.Job(id); err == nil && !is(j) {
			err = fmt.Errorf("it is %+v", j)
		}
		return err
	})
	return j
}

// UntilState waits until a job is in one of some states, as COMPLETED.
func (c *Cluster) UntilState(id string, states ...string) Job {
	c.t.Helper()
	return c.Until(id, strings.Join(states, " or "), func(j Job) bool {
		for _, s := range states {
			if j.State == s {
				return true
			}
		}
		return false
	})
}

// Eventually calls until there is no error, or in vain.
func (c *Cluster) Eventually(what string, call func() error) {
	c.t.Helper()
	var err error
	done := patience.While(patience.New(nil), func() bool {
		if err = call(); err == nil {
			return true
		}
		select {
		case <-c.machines[Controller].one.ended:
			c.t.Fatalf("%s: the cluster has ended: %v", what, err)
		default:
		}
		return false
	})
	if !done {
		c.t.Fatalf("%s: it is waited for in vain: %v", what, err)
	}
}

// Scontrol runs scontrol as root, which has to succeed.
func (c *Cluster) Scontrol(args ...string) string {
	c.t.Helper()
	out := must.Get(c.On(Controller, append([]string{"scontrol"}, args...)...))(c.t)
	return out
}

// Requeue has a job begin anew.
func (c *Cluster) Requeue(id string) { c.t.Helper(); c.Scontrol("requeue", id) }

// BeginAgain has a job that was requeued, and waits for its time, wait no longer for that. The
// second in which its node has ended it is over then: slurmd takes a credential of the same
// second for the one that was revoked, and the job fails ("already killed, do not launch").
func (c *Cluster) BeginAgain(id string) {
	c.t.Helper()
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	c.Scontrol("update", "jobid="+id, "starttime=now")
}

// Release has a job that is held wait no longer for that.
func (c *Cluster) Release(id string) { c.t.Helper(); c.Scontrol("release", id) }

// Scancel cancels a job.
func (c *Cluster) Scancel(id string) {
	c.t.Helper()
	_, err := c.On(Controller, "scancel", id)
	must.Do(c.t, err)
}
