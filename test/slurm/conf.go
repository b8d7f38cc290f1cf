package slurm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Users are who submits jobs: ordinary people. Anna and ben are of the project vision, too.
const (
	Anna = "anna"
	Ben  = "ben"
	Carl = "carl"
)

var uids = map[string]int{Anna: 5001, Ben: 5002, Carl: 5003, "slurm": slurmUID, "root": 0}

const (
	slurmUID = 64030 // as in packages of Debian
	mungeUID = 64031
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

// configure writes what the site has in /etc.
func (c *Cluster) configure() error {
	etc := c.Path(Controller, "/etc")
	hosts := "127.0.0.1 localhost\n"
	for n := range c.o.Nodes + 1 {
		hosts += Address(n) + " " + MachineName(n) + "\n"
	}
	errs := []error{c.people(), c.key(), write(etc+"/hosts", hosts), write(etc+"/slurm/slurm.conf", fmt.Sprintf(base, Address(Controller), c.o.User, c.o.Nodes)+c.o.Conf+"\n")}
	for _, from := range c.o.Etc {
		errs = append(errs, os.CopyFS(etc+"/slurm", from))
	}
	for _, dir := range []string{"/var/lib/slurm", "/var/log/slurm"} {
		errs = append(errs, own(c.Path(Controller, dir), slurmUID))
	}
	return errors.Join(errs...)
}

// people makes the accounts, and homes.
func (c *Cluster) people() error {
	accounts := "root:x:0:0::/root:/bin/bash\nslurm:x:64030:64030::/nonexistent:/usr/sbin/nologin\nmunge:x:64031:64031::/nonexistent:/usr/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
	groups := "root:x:0:\nslurm:x:64030:\nmunge:x:64031:\nnogroup:x:65534:\nvision:x:6001:" + Anna + "," + Ben + "\n"
	var errs []error
	for _, user := range []string{Anna, Ben, Carl} {
		accounts += fmt.Sprintf("%[1]s:x:%[2]d:%[2]d::/home/%[1]s:/bin/bash\n", user, UID(user))
		groups += fmt.Sprintf("%s:x:%d:\n", user, UID(user))
		home := c.Path(Controller, "/home/"+user)
		errs = append(errs, os.Mkdir(home, 0o700), own(home, UID(user)))
	}
	return errors.Join(append(errs, write(c.Path(Controller, "/etc/passwd"), accounts), write(c.Path(Controller, "/etc/group"), groups))...)
}

// key makes that of munge.
func (c *Cluster) key() error {
	key := make([]byte, 128)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	dir, file := c.Path(Controller, "/etc/munge"), c.Path(Controller, "/etc/munge/munge.key")
	return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, key, 0o400), own(file, mungeUID), own(dir, mungeUID), own(c.Path(Controller, "/rig/munge"), mungeUID))
}

// own gives a file or directory to a user.
func own(name string, uid int) error { return os.Chown(name, uid, uid) }

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
