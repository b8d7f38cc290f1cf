package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover/config"
	"datamove.dev/test/must"
)

var slurmFaults = []fault{
	{"a slurm.conf that is named and not there", func(t *testing.T) []Finding {
		return Slurm(filepath.Join(t.TempDir(), "slurm.conf"), os.Getenv, nil)
	}, Fail, "file", "is not there", "make the file readable"},
	{"a slurm.conf of the environment", func(t *testing.T) []Finding {
		conf := file(t, "PrologFlags=Serial\n", 0o644)
		return Slurm("", func(name string) string { return map[string]string{"SLURM_CONF": conf}[name] }, nil)
	}, Fail, "PrologFlags", "first step", "PrologFlags=Alloc,Contain"},
	{"times that are shorter than the deadline of the configuration", func(t *testing.T) []Finding {
		c := must.Get(config.Parse("", []byte("slurm: {deadline: 20s}\n"), func(string) string { return "" }))(t)
		return Slurm(file(t, "", 0o644), os.Getenv, c)
	}, Fail, "BatchStartTimeout", "10s is not more than slurm.deadline, 20s", "write BatchStartTimeout=40"},
	{"a configuration that SlurmUser can not read", func(t *testing.T) []Finding {
		text := "tiers: {nvme: {level: hot, path: /nvme, ephemeral: true, node_local: true}}\n"
		c := must.Get(config.Parse(file(t, text, 0o640), []byte(text), func(string) string { return "" }))(t)
		return Slurm(file(t, "", 0o644), os.Getenv, c)
	}, Fail, "configuration", "mode 0640", "chmod 644"},
	{"a SlurmUser who may not ask for others", onController("roles: {slurm: {members: [ops], may: [person.act]}, ops: {members: [nobody], may: [task.*]}}\n"),
		Fail, "roles", "nobody may not ask for the owners of jobs", "write roles: slurm: {members: [nobody], may: [person.act]}"},
	{"a SlurmUser who may", onController("roles: {slurm: {members: [nobody], may: [person.act]}}\n"), Pass, "roles", "as slurm", ""},
	{"no configuration", func(t *testing.T) []Finding {
		return Slurm(file(t, "", 0o644), os.Getenv, nil)
	}, Fail, "configuration", "hooks have no other", "with the tiers"},
	{"no tier for the directories of jobs", func(t *testing.T) []Finding {
		return Slurm(file(t, "", 0o644), os.Getenv, nil)
	}, Fail, "slurm.scratch", "no tier has a path", "node_local: true"},
}

// onController looks at a configuration on a machine where Slurm's controller runs, as nobody.
func onController(text string) func(*testing.T) []Finding {
	return func(t *testing.T) []Finding {
		c := must.Get(config.Parse(file(t, text, 0o644), []byte(text), func(string) string { return "" }))(t)
		host := must.Get(os.Hostname())(t)
		return Slurm(file(t, "SlurmUser=nobody\nSlurmctldHost="+host+"\n", 0o644), os.Getenv, c)
	}
}
