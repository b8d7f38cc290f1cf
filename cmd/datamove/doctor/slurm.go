package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/tiering/slurm/slurmconf"
)

// Slurm looks at how Slurm is configured on this machine, for the hooks of datamove. The file is a slurm.conf; "" is where SLURM_CONF
// says, or where there is one. No program of Slurm is called. Without a configuration of ours c is nil.
func Slurm(file string, getenv func(string) string, c *config.Config) []Finding {
	if c == nil {
		c = &config.Config{}
	}
	if file = cmp.Or(file, slurmconf.Find(os.DirFS("/"), getenv)); file == "" {
		return []Finding{fail("slurm.conf", "file", "there is none in /etc/slurm, and SLURM_CONF is not set", "name it: datamove doctor --slurm-conf FILE")}
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return []Finding{fail(file, "file", why(err), "name it by its whole path")}
	}
	host, err := os.Hostname()
	if err != nil {
		return []Finding{fail("this machine", "machine", why(err), "give it a name: hostnamectl set-hostname")}
	}
	facts := slurmconf.Read(file, slurmconf.Options{Files: os.DirFS("/"), Host: host, Records: cmp.Or(c.Slurm.Records, config.DefaultSlurmRecords), Lookup: account})
	found := []Finding{scratch(c), readable(c)}
	if facts.Controller && facts.UserID != 0 && (c.Service == "" || strings.HasPrefix(c.Service, "unix:")) {
		found = append(found, acts(c, facts.User))
	}
	for _, f := range slurmconf.Judge(facts, slurmconf.Limits{Deadline: cmp.Or(c.Slurm.Deadline, config.DefaultDeadline), Ready: cmp.Or(c.Slurm.Ready, config.DefaultReady)}) {
		found = append(found, Finding{f.Subject, f.Check, degrees[f.Degree], f.Detail, f.Mend})
	}
	return found
}

var degrees = map[slurmconf.Degree]Status{slurmconf.Good: Pass, slurmconf.Advice: Warn, slurmconf.Fault: Fail}

// scratch tells whether jobs have a tier for their directories.
func scratch(c *config.Config) Finding {
	const check = "slurm.scratch"
	subject := cmp.Or(c.File, "configuration")
	name, err := c.ScratchTier()
	if err != nil {
		return fail(subject, check, err.Error(), "write such a tier: scratch: {level: hot, path: /local_nvme, ephemeral: true, node_local: true}")
	}
	return pass(subject, check, name+" has the directories of jobs")
}

// readable tells whether hooks can read the configuration that we have read: on the controller they are SlurmUser, and in tasks anybody.
func readable(c *config.Config) Finding {
	const check = "configuration"
	if c.File == "" {
		return fail("/etc/datamove/config.yaml", check, "there is none, and hooks have no other", "write it, with the tiers that jobs use")
	}
	info, err := os.Stat(c.File)
	switch {
	case err != nil:
		return fail(c.File, check, why(err), "make it readable")
	case info.Mode()&0o004 == 0:
		return fail(c.File, check, fmt.Sprintf("with mode %04o hooks can not read it that run as SlurmUser, or as users", info.Mode().Perm()), "chmod 644 "+mover.Printable(c.File)+"; there are no secrets in it")
	}
	return pass(c.File, check, "hooks can read it, as any account")
}

// acts tells whether SlurmUser may ask the service of this machine for the owners of jobs.
func acts(c *config.Config, user string) Finding {
	subject := cmp.Or(c.File, "/etc/datamove/config.yaml")
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		r := c.Roles[name]
		byGroup := slices.ContainsFunc(r.Members, func(m string) bool { return strings.HasPrefix(m, "@") })
		if slices.Contains(r.May, "person.act") && (byGroup || slices.Contains(r.Members, user)) {
			return pass(subject, "roles", fmt.Sprintf("%s may ask for the owners of jobs, as %s", user, name))
		}
	}
	return fail(subject, "roles", user+" may not ask for the owners of jobs, so nothing is staged for them", fmt.Sprintf("write roles: slurm: {members: [%s], may: [person.act]}", user))
}

// account finds a user of this machine.
func account(name string) (uid uint32, has bool) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	return uint32(n), err == nil
}
