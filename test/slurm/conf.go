package slurm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Users are who submits jobs: ordinary people. Anna and ben are of the project vision, too.
const (
	Anna = "anna"
	Ben  = "ben"
	Carl = "carl"
)

var uids = map[string]int{Anna: 5001, Ben: 5002, Carl: 5003, "slurm": slurmUID, "root": 0}

const (
	slurmUID  = 64030 // as in packages of Debian
	mungeUID  = 64031
	visionGID = 6001
)

// UID is the number of one of Users, and of its group.
func UID(user string) int {
	uid, known := uids[user]
	if !known {
		panic("no user " + user)
	}
	return uid
}

// base is what each site has: names, places, ports. Everything that is ours comes by Options.
const base = `ClusterName=lab
SlurmctldHost=control(%[1]s)
SlurmUser=%[2]s
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=2,sched_min_interval=0,bf_interval=2
SlurmdParameters=config_overrides
NodeName=node[1-%[3]d] NodeAddr=10.98.0.[1-%[3]d] CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// configure writes /etc of the site.
func (c *Cluster) configure() error {
	etc := c.Path(Controller, "/etc")
	people, group := "root:x:0:0:root:/root:/bin/bash\n", "root:x:0:\nslurm:x:64030:\nmunge:x:64031:\nvision:x:6001:anna,ben\nnogroup:x:65534:\n"
	people += "slurm:x:64030:64030::/nonexistent:/usr/sbin/nologin\nmunge:x:64031:64031::/nonexistent:/usr/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
	errs := []error{}
	for _, user := range []string{Anna, Ben, Carl} {
		people += fmt.Sprintf("%[1]s:x:%[2]d:%[2]d::/home/%[1]s:/bin/bash\n", user, UID(user))
		group += fmt.Sprintf("%s:x:%d:\n", user, UID(user))
		home := c.Path(Controller, "/home/"+user)
		errs = append(errs, os.Mkdir(home, 0o700), os.Chown(home, UID(user), UID(user)))
	}
	hosts := "127.0.0.1 localhost\n"
	for n := range c.o.Nodes + 1 {
		hosts += Address(n) + " " + MachineName(n) + "\n"
	}
	key := make([]byte, 128)
	_, err := rand.Read(key)
	errs = append(errs, err)
	for name, text := range map[string]string{"passwd": people, "group": group, "hosts": hosts,
		"slurm/slurm.conf": fmt.Sprintf(base, Address(Controller), c.o.User, c.o.Nodes) + c.o.Conf + "\n"} {
		errs = append(errs, write(filepath.Join(etc, name), text))
	}
	for _, from := range c.o.Etc {
		errs = append(errs, os.CopyFS(filepath.Join(etc, "slurm"), from))
	}
	for _, dir := range []string{"/var/lib/slurm", "/var/log/slurm"} {
		errs = append(errs, os.Chown(c.Path(Controller, dir), slurmUID, slurmUID))
	}
	for _, dir := range []string{"/etc/munge", "/rig/munge"} {
		errs = append(errs, os.MkdirAll(c.Path(Controller, dir), 0o755), os.Chown(c.Path(Controller, dir), mungeUID, mungeUID))
	}
	file := filepath.Join(etc, "munge/munge.key")
	errs = append(errs, os.RemoveAll(file), os.WriteFile(file, key, 0o400), os.Chown(file, mungeUID, mungeUID))
	return errors.Join(errs...)
}

// write writes a file anew: a link that is there in the site of this machine is not followed.
func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// munge starts the daemon by which all parts know each other.
func (c *Cluster) munge() error {
	ids := fmt.Sprint(mungeUID)
	err := c.daemon(Controller, "munged", "setpriv", "--reuid="+ids, "--regid="+ids, "--clear-groups", "munged", "--foreground",
		"--key-file=/etc/munge/munge.key", "--socket=/rig/munge/munge.socket.2", "--pid-file=/rig/munge/munged.pid", "--seed-file=/rig/munge/munged.seed", "--log-file=/rig/munge/munged.log", "--num-threads=2")
	if err == nil {
		c.Eventually("munged answers", func() error { _, err := c.On(Controller, "munge", "-n"); return err })
	}
	return err
}

// slurmctld starts it, as a unit of systemd would: User= of SlurmUser is left to itself.
func (c *Cluster) slurmctld() error {
	run := c.Path(Controller, "/run/slurm")
	if err := errors.Join(os.MkdirAll(run, 0o755), os.Chown(run, slurmUID, slurmUID)); err != nil {
		return err
	}
	return c.daemon(Controller, "slurmctld", "slurmctld", "-D")
}

func (c *Cluster) slurmd(n int) error {
	if err := os.MkdirAll(c.Path(n, "/run/slurm"), 0o755); err != nil {
		return err
	}
	return c.daemon(n, "slurmd", "slurmd", "-D")
}

// StartController starts slurmctld again.
func (c *Cluster) StartController() {
	c.t.Helper()
	must(c.t, c.slurmctld())
	c.Eventually("slurmctld answers", func() error {
		out, err := c.On(Controller, "scontrol", "ping")
		if err == nil && !strings.Contains(out, "is UP") {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
}

// StopController ends slurmctld as its unit does.
func (c *Cluster) StopController() {
	c.t.Helper()
	must(c.t, c.machines[Controller].daemons["slurmctld"].Stop())
}

// KillController ends slurmctld by SIGKILL. What it has started is left to see that by itself.
func (c *Cluster) KillController() {
	c.t.Helper()
	must(c.t, c.machines[Controller].daemons["slurmctld"].Kill())
}

// KillNode ends all that runs on a node at once, as if power went. Its disks stay: /var, /tmp, /local_nvme.
func (c *Cluster) KillNode(n int) {
	c.t.Helper()
	c.machines[n].off()
	must(c.t, c.machines[Controller].ip("link delete "+c.machines[n].port())) // the kernel would take it away later
}

// StartNode starts a node again, with slurmd alone.
func (c *Cluster) StartNode(n int) {
	c.t.Helper()
	must(c.t, c.machines[n].on(c.machines[Controller], c.o))
	must(c.t, c.slurmd(n))
}

// StopSlurmd ends slurmd of a node as its unit does; jobs go on. StartSlurmd starts it again.
func (c *Cluster) StopSlurmd(n int) { c.t.Helper(); must(c.t, c.machines[n].daemons["slurmd"].Stop()) }

// StartSlurmd starts slurmd of a node that is on.
func (c *Cluster) StartSlurmd(n int) { c.t.Helper(); must(c.t, c.slurmd(n)) }
