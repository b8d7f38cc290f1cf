package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

const cluster = `listen: [unix:///run/datamove/datamoved.sock, "tcp://0.0.0.0:7643"]
metrics: 127.0.0.1:7644
data: /var/lib/datamove
node: n17
tiers:
  scratch: {level: hot, path: /local_nvme, ephemeral: true, node_local: true, cache: {high: 85%, low: 70%}, keep_free: 10%, scan: 24h, verify: 720h, feed: inotify, checkpoints: {folders: ["*/ckpt"], quiet: 1m}}
  project: {level: warm, path: /lustre/project}
  archive: {level: cold, s3: {bucket: archive}}
projects:
  vision:
    roots: ["project:vision", "archive:vision", "/lustre/vision", "s3://team/vision"]
    reads: ["archive:"]
    members: [alice, "@vision"]
    weight: 2
    s3: {credentials: file:/etc/datamove/vision.env}
roles:
  operator: {members: ["@storage", root], may: [task.*, dataset.*, agent.drain]}
  admin: {members: [root], may: ["*"]}
limits:
  - {endpoint: archive, direction: read, rate: 20GB/s, ops: 5000, windows: ["Mon-Fri 08:00-18:00"], zone: Europe/Berlin}
  - {endpoint: s3://team, ops: 10}
audit: {dir: /var/lib/datamove/audit, sync: true}
leases: {lead: 45s}
agent: {spares: 0}
peers: {listen: "10.0.0.17:7645", host: n17.site}
slurm: {cluster: lab, scratch: scratch, state: /run/hooks, deadline: 4s, warm: lustre, records: /var/jobs, ready: 10m, most: 2TiB, quiet: 90s, project_ids: 1000-1999}
trace: {endpoint: "http://127.0.0.1:4317"}
mail: {server: "mail.site:25", from: datamove@site.example, domain: people.example}
webhooks: {ops: {file: /etc/datamove/ops.url, format: slack}}
gpfs:
  fs1: {url: "https://gui.site:443", credentials: /etc/datamove/scale.env, ca: /etc/datamove/ca.pem, as: gpfs0}
  fs2: {commands: /opt/wrappers}
hsm:
  - {mount: /lustre, archive: 1, to: "archive:hsm/one", jobs: 8}
  - {mount: /lustre, archive: 2, to: archive}
users:
  alice: {certificate: "alice"}
  bob.smith: {certificate: "bob"}
`

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c := must.Get(Parse("c.yaml", []byte(text), none))(t)
	return c
}

func TestTheFileOfAService(t *testing.T) {
	c := parse(t, cluster)
	for _, row := range []struct{ what, got, want any }{
		{"listen", c.Listen, []string{"unix:///run/datamove/datamoved.sock", "tcp://0.0.0.0:7643"}},
		{"metrics", c.Metrics, "127.0.0.1:7644"},
		{"data", c.Data, "/var/lib/datamove"},
		{"node", c.Node, "n17"},
		{"gpfs", c.GPFS, map[string]GPFS{
			"fs1": {URL: "https://gui.site:443", Credentials: "/etc/datamove/scale.env", CA: "/etc/datamove/ca.pem", As: "gpfs0"},
			"fs2": {Commands: "/opt/wrappers"}}},
		{"hsm", c.HSM, []HSM{{"/lustre", 1, "archive:hsm/one", 8}, {"/lustre", 2, "archive", 0}}},
		{"scratch", c.Tiers["scratch"], Tier{Level: "hot", Path: "/local_nvme", Ephemeral: true, NodeLocal: true, Scan: 24 * time.Hour, Verify: 720 * time.Hour, Feed: "inotify", Cache: &Cache{High: 85, Low: 70}, KeepFree: 10, Checkpoints: &Checkpoints{[]string{"*/ckpt"}, time.Minute}}},
		{"projects", c.Projects, map[string]Project{"vision": {
			Roots: []string{"project:vision", "archive:vision", "/lustre/vision", "s3://team/vision"}, Reads: []string{"archive:"},
			Members: []string{"alice", "@vision"}, Weight: 2, S3: &ProjectS3{Credentials: "file:/etc/datamove/vision.env"}}}},
		{"roles", c.Roles, map[string]Role{
			"operator": {Members: []string{"@storage", "root"}, May: []string{"task.*", "dataset.*", "agent.drain"}},
			"admin":    {Members: []string{"root"}, May: []string{"*"}}}},
		{"limits", c.Limits, []Limit{
			{Endpoint: "archive", Direction: "read", Rate: 20e9, Ops: 5000, Zone: "Europe/Berlin",
				Windows: []string{"Mon-Fri 08:00-18:00"}},
			{Endpoint: "s3://team", Ops: 10}}},
		{"audit", c.Audit, Audit{Dir: "/var/lib/datamove/audit", Sync: true}},
		{"leases", c.Leases, Leases{Lead: 45 * time.Second}},
		{"agent", *c.Agent.Spares, 0},
		{"slurm", c.Slurm, Slurm{"scratch", "/run/hooks", 4 * time.Second, "lustre", "/var/jobs", 10 * time.Minute, 2 << 40, 90 * time.Second, "lab", "1000-1999"}},
		{"peers", c.Peers, Peers{Listen: "10.0.0.17:7645", Host: "n17.site"}},
		{"mail", c.Mail, Mail{"mail.site:25", "datamove@site.example", "people.example"}},
		{"webhooks", c.Webhooks, map[string]Webhook{"ops": {"/etc/datamove/ops.url", "slack"}}},
		{"trace", c.Trace, Trace{Endpoint: "http://127.0.0.1:4317"}},
		{"users", c.Users, map[string]User{"alice": {Certificate: "alice"}, "bob.smith": {Certificate: "bob"}}},
	} {
		if !reflect.DeepEqual(row.got, row.want) {
			t.Errorf("%s = %+v\nwant %+v", row.what, row.got, row.want)
		}
	}
	if i := slices.IndexFunc(c.Settings(), func(s Setting) bool { return s.Key == "projects.vision.members[1]" }); i < 0 ||
		c.Settings()[i] != (Setting{"projects.vision.members[1]", "@vision", "c.yaml:13"}) {
		t.Errorf("settings: %v", c.Settings())
	}
}

func TestServiceMistakesHaveALine(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, row := range []struct{ text, want string }{
		{"listen: unix:///x", "c.yaml:1: listen: must be a list (write it as [a, b]"},
		{"listen: []", "c.yaml:1: listen: is an empty list"},
		{"listen:\n  - unix:///x\n  - tcp://h", "c.yaml:3: listen[1]: must be unix:///path or tcp://host:port"},
		{"listen: ['unix:///" + long + "']", "listen[0]: must be the path of a socket: at most 107 bytes"},
		{"listen: ['tcp://h:https']", "listen[0]: must be unix:///path or tcp://host:port"},
		{"listen: ['tcp://h:70000']", "listen[0]: must end in a port"},
		{"listen: ['tcp://h:1/x']", "listen[0]: must end in a port"},
		{"listen: [" + strings.Repeat("unix:///x,", 17) + "]", "listen: has 17 items; there may be 16"},
		{"metrics: 0.0.0.0:7644", "metrics: must be an address of this machine alone"},
		{"metrics: localhost:1", "metrics: must be an address of this machine alone"},
		{"data: lib", `data: is "lib"; must be an absolute path`},
		{"data: /" + strings.Repeat("x", 4096), "data: has 4097 bytes; a value has at most 4096"},
		{"node: a/b", "node: is \"a/b\"; must be letters, digits"},
		{"node: -x", "node: is \"-x\"; must be letters, digits"},
		{"node: 17", "node: must be text (put quotes around it)"},
		{"tiers:\n  sc: {level: hot, path: /x, cache: {high: 85%}}", "c.yaml:2: tiers.sc.cache: has no low"},
		{"tiers:\n  sc: {level: hot, path: /x, cache: {high: 60%, low: 70%}}", "tiers.sc.cache: evicts above high until low"},
		{"tiers:\n  sc: {level: hot, path: /x, cache: {high: 0.8, low: 101%}}", "tiers.sc.cache.low: must be a percentage like 85%"},
		{"tiers:\n  sc: {level: hot, path: /x, cache: {high: 90, low: 80%}}", "tiers.sc.cache.high: must be a percentage like 85%"},
		{"tiers:\n  sc: {level: hot, path: /x, keep_free: 10}", "tiers.sc.keep_free: must be a percentage like 85%"},
		{"tiers:\n  sc: {level: cold, keep_free: 10%, s3: {bucket: archive}}", "cache and keep_free are for tiers with a path"},
		{"tiers:\n  sc: {level: hot, path: /x, feed: changelog}", "tiers.sc: feed: changelog and reader go together"},
		{"tiers:\n  sc: {level: cold, feed: inotify, s3: {bucket: archive}}", "tiers.sc: feed is events of a bucket, and inotify or changelog of a path"},
		{"tiers:\n  sc: {level: hot, path: /x, queue: \"https://sqs.eu-central-1.amazonaws.com/1/q\"}", "tiers.sc: has a queue: that is for feed: events of a bucket"},
		{"tiers:\n  sc: {level: cold, feed: events, queue: arn:aws:sqs:q, s3: {bucket: archive}}", "tiers.sc.queue: "},
		{"tiers:\n  sc: {level: hot, path: /x, feed: events}", "tiers.sc: feed is events of a bucket"},
		{"tiers:\n  sc: {level: hot, path: /x, feed: fanotify}", "tiers.sc.feed: "},
		{"tiers:\n  sc: {level: hot, path: /x, checkpoints: {quiet: 30s}}", "tiers.sc.checkpoints: has no folders"},
		{"tiers:\n  sc: {level: hot, path: /x, checkpoints: {folders: [../x]}}", "tiers.sc.checkpoints.folders[0]: must be a pattern like"},
		{"tiers:\n  sc: {level: hot, path: /x, checkpoints: {folders: [\"a[\"]}}", "tiers.sc.checkpoints.folders[0]: must be a pattern like"},
		{"tiers:\n  sc: {level: hot, path: /x, checkpoints: {folders: [a], quiet: 1ms}}", "tiers.sc.checkpoints.quiet: must be a time like 30s"},
		{"tiers:\n  sc: {level: hot, path: /x, scan: 5s}", "tiers.sc.scan: must be a time like 24h, from 1m to 8784h"},
		{"tiers:\n  sc: {level: hot, path: /x, verify: 5m}", "tiers.sc.verify: must be a time like 720h, from 1h to 8784h"},
		{"tiers:\n  sc: {level: cold, kind: ext4, s3: {bucket: abc}}", "tiers.sc: is a bucket: kind, node_local, cache and keep_free are for tiers with a path"},
		{"tiers:\n  sc: {level: hot, path: /x, kind: lutsre}", "tiers.sc.kind: is \"lutsre\"; must be one of beegfs, btrfs, cephfs, ext4, fuse, gpfs, lustre, nfs, tmpfs, xfs, zfs"},
		{"tiers:\n  sc: {level: cold, node_local: true, s3: {bucket: abc}}", "tiers.sc: is a bucket: kind, node_local, cache and keep_free are for tiers with a path"},
		{"projects:\n  p: {members: [a]}", "c.yaml:2: projects.p: has no roots"},
		{"projects:\n  p: {roots: [/x]}", "projects.p: has no members"},
		{"projects:\n  p/q: {roots: [/x], members: [aa]}", "projects.p/q: is \"p/q\"; must be letters"},
		{"projects:\n  p: {roots: [/x/../y], members: [aa]}", "projects.p.roots[0]: is \"/x/../y\"; must be a path without"},
		{"projects:\n  p: {roots: [/x//y], members: [aa]}", "projects.p.roots[0]: is"},
		{"projects:\n  p: {roots: [x], members: [aa]}", "projects.p.roots[0]: must be TIER:path, /path or s3://bucket/prefix"},
		{"projects:\n  p: {roots: ['dataset:x'], members: [aa]}", "projects.p.roots[0]: must be TIER:path"},
		{"projects:\n  p: {roots: ['sc:../x'], members: [aa]}\ntiers: {sc: {level: hot, path: /x}}", "projects.p.roots[0]: must be TIER:path"},
		{"projects:\n  p: {roots: ['s3://bucket//x'], members: [aa]}", "projects.p.roots[0]: must be s3://bucket"},
		{"projects:\n  p: {roots: ['s3:bucket'], members: [aa]}", "projects.p.roots[0]: must be s3://bucket"},
		{"projects:\n  p:\n    members: [aa]\n    roots:\n      - archvie:x\ntiers: {archive: {level: hot, path: /x}}",
			`c.yaml:5: projects.p.roots[0]: there is no tier "archvie" in this file (did you mean archive?)`},
		{"projects:\n  p: {roots: ['sc:'], members: [aa]}", `there is no tier "sc" in this file (there are no tiers)`},
		{"projects:\n  p: {roots: [/x], members: ['*']}", "projects.p.members[0]: is \"*\"; a name has no"},
		{"projects:\n  p: {roots: [/x], members: ['@']}", "projects.p.members[0]: must be a name"},
		{"projects:\n  p: {roots: [/x], members: ['@@x']}", "projects.p.members[0]: is \"@x\""},
		{"projects:\n  p: {roots: [/x], members: ['-rf']}", "projects.p.members[0]: is \"-rf\""},
		{"projects:\n  p: {roots: [/x], members: ['0']}", "projects.p.members[0]: is \"0\"; a name begins"},
		{"projects:\n  p: {roots: [/x], members: [\"a\\nb\"]}", "projects.p.members[0]: is \"a\\nb\""},
		{"projects:\n  p: {roots: [/x], members: [aa], weight: 0}", "projects.p.weight: must be a whole number from 1 to 1000"},
		{"projects:\n  p: {roots: [/x], members: [aa], weight: 1.5}", "projects.p.weight: must be a whole number"},
		{"projects:\n  p: {roots: [/x], members: [aa], weight: '2'}", "projects.p.weight: must be a whole number"},
		{"projects:\n  p: {roots: [/x], members: [aa], s3: {credentials: hunter2}}", "projects.p.s3.credentials: must be env"},
		{"projects:\n  1e3: {roots: [/x], members: [aa]}", "projects.1e3: a name must be text"},
		{"roles:\n  r: {members: [aa]}", "roles.r: has no may"},
		{"roles:\n  r: {members: [aa], may: ['task*']}", "roles.r.may[0]: is \"task*\"; must be an action"},
		{"roles:\n  r: {members: [aa], may: ['*.read']}", "roles.r.may[0]: is \"*.read\""},
		{"gpfs:\n  fs1: {url: 'http://gui.site'}", "gpfs.fs1.url: must be a URL like https://gui.site:443"},
		{"gpfs:\n  fs1: {url: 'https://me:secret@gui.site'}", "gpfs.fs1.url: must not hold a user or password"},
		{"gpfs:\n  fs1: {url: 'https://gui.site/scalemgmt/v2', credentials: /x}", "gpfs.fs1.url: must end after the host and port: /scalemgmt/v2"},
		{"gpfs:\n  fs1: {credentials: scale.env}", "gpfs.fs1.credentials: is \"scale.env\"; must be an absolute path"},
		{"gpfs:\n  fs1: {password: x}", "gpfs.fs1.password"},
		{"gpfs:\n  fs1: {url: 'https://gui.site', ca: /etc/ca.pem}", "gpfs.fs1: has a url and no credentials"},
		{"gpfs:\n  fs1: {credentials: /etc/scale.env}", "gpfs.fs1: has no url"},
		{"gpfs:\n  fs1: {ca: /etc/ca.pem, as: gpfs0}", "gpfs.fs1: has no url"},
		{"hsm:\n  - {mount: lustre, archive: 0, to: s3://b/x}", "c.yaml:2: hsm[0].mount: is \"lustre\"; must be an absolute path"},
		{"hsm:\n  - {mount: /l, archive: 0, to: tape}", "c.yaml:2: hsm[0].archive: must be a whole number from 1 to"},
		{"hsm:\n  - {mount: /l, archive: 1, to: tape}", "c.yaml:2: hsm[0].to: there is no tier \"tape\""},
		{"hsm:\n  - {mount: /l, archive: 1, to: \"/tape\"}", "c.yaml:2: hsm[0].to: must be TIER or TIER:path"},
		{"hsm:\n  - {mount: /l, archive: 1, to: \"tape:../x\"}", "c.yaml:2: hsm[0].to: must be TIER or TIER:path"},
		{"hsm:\n  - {mount: /l, to: tape}", "c.yaml:2: hsm[0]: has no archive"},
		{"limits:\n  - {endpoint: sc, rate: 1GB/s}", "c.yaml:2: limits[0].endpoint: there is no tier \"sc\""},
		{"limits:\n  - {endpoint: 's3://x', rate: 1GB/s}", "limits[0].endpoint: must be a tier, or s3://bucket"},
		{"limits:\n  - {endpoint: 's3://abc'}", "limits[0]: limits nothing"},
		{"limits:\n  - {endpoint: 's3://abc', rate: 20}", "limits[0].rate: must be a rate like"},
		{"limits:\n  - {endpoint: 's3://abc', rate: 20GB}", "limits[0].rate: must be a rate like 20GB/s"},
		{"limits:\n  - {endpoint: 's3://abc', rate: 0B/s}", "limits[0].rate: must be a rate"},
		{"limits:\n  - {endpoint: 's3://abc', ops: -1}", "limits[0].ops: must be a whole number"},
		{"limits:\n  - {endpoint: 's3://abc', ops: 1, direction: both}", "limits[0].direction: is \"both\"; must be one of read, write"},
		{"limits:\n  - {endpoint: 's3://abc', ops: 1, windows: [always]}", "limits[0].windows[0]: must be days, hours or both"},
		{"limits:\n  - {endpoint: 's3://abc', ops: 1, zone: UTC}", "limits[0]: has a zone and no windows"},
		{"limits:\n  - {endpoint: 's3://abc', ops: 1, zone: Mars, windows: ['08:00-09:00']}", "limits[0].zone: must be a time zone"},
		{"limits: {endpoint: x}", "limits: must be a list"},
		{"audit: {dir: x}", "audit.dir: is \"x\"; must be an absolute path"},
		{"audit: {sync: always}", "audit.sync: must be true or false"},
		{"leases: {lead: 30}", "leases.lead: must be a time like 30s"},
		{"leases: {lead: 2h}", "leases.lead: must be a time like 30s, from 1s to 1h"},
		{"agent: {spares: -1}", "agent.spares: must be a whole number from 0 to 64"},
		{"agent: {spares: 65}", "agent.spares: must be a whole number from 0 to 64"},
		{"quotas: {default: {tasks: 0}}", "quotas.default.tasks: must be a whole number from 1 to"},
		{"quotas: {default: {slots: 12}}", "quotas.default.slots: must be a percentage like 85%"},
		{"quotas: {users: {alice: {specs: much}}}", "quotas.users.alice.specs: must be a size like"},
		{"quotas: {groups: {vision: {slots: 10%}}}", "quotas.groups.vision.slots: unknown key"},
		{"quotas: {user: {alice: {}}}", "quotas.user: unknown key (did you mean users?)"},
		{"agent: {journals: tmp}", "agent.journals: is \"tmp\"; must be an absolute path"},
		{"agent: {spares: no}", "agent.spares: must be a whole number from 0 to 64"},
		{"slurm: {deadline: 100ms}", "slurm.deadline: must be a time like 5s, from 1s to 1m"},
		{"slurm: {ready: 25h}", "slurm.ready: must be a time like 4m, from 1s to 24h"},
		{"slurm: {quiet: 2h}", "slurm.quiet: must be a time like 30s, from 1s to 1h"},
		{"slurm: {project_ids: 0-9}", "slurm.project_ids: must be a range of project IDs like 1000000-1999999"},
		{"slurm: {most: 0}", "slurm.most: must be a size like 500GB or 20TiB"},
		{"slurm: {state: run}", "slurm.state: is \"run\"; must be an absolute path"},
		{"peers: {listen: no}", "peers.listen: must be host:port, as 0.0.0.0:7645, or off"},
		{"peers: {listen: ':7645'}", "peers.listen: must be host:port, as 0.0.0.0:7645, or off"},
		{"trace: {endpoint: 'http://me:hunter2@x'}", "trace.endpoint: must not hold a user or password"},
		{"trace: {}", "trace: has no endpoint"},
		{"mail: {server: mail.site, from: a@b}", "mail.server: must be HOST:PORT"},
		{"mail: {server: 'mail.site:25', from: a}", "mail.from: must be an address"},
		{"mail: {from: a@b}", "mail: has no server"},
		{"webhooks: {ops: {}}", "webhooks.ops: has no file"},
		{"webhooks: {ops: {file: x}}", "webhooks.ops.file: is \"x\"; must be an absolute path"},
		{"webhooks: {ops: {file: /x, format: irc}}", "webhooks.ops.format: is \"irc\"; must be one of json, slack, mattermost"},
		{"users: {alice: {}}", "users.alice: has no certificate"},
		{"users: {'a:b': {certificate: x}}", "users.a:b: is \"a:b\"; a name has no colon"},
		{"users: {alice: {certificate: ''}}", "users.alice.certificate: must be the common name"},
		{"users:\n  alice: {certificate: x}\n  bob: {certificate: x}", `"alice" and "bob" have the same certificate`},
		{"projekts: {}", "c.yaml:1: projekts: unknown key (did you mean projects?)"},
	} {
		_, err := Parse("c.yaml", []byte(row.text), none)
		if err == nil || !strings.Contains(err.Error(), row.want) || !errors.Is(err, mover.ErrUsage) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s\n%v\nwant %s", row.text, err, row.want)
		}
	}
}

func TestQuotaOf(t *testing.T) {
	c := parse(t, "quotas:\n  default: {tasks: 100}\n  users: {alice: {leases: 7}, root: {slots: 10%}}\n  groups: {vision: {tasks: 500, leases: 20}, ml: {tasks: 900}}\n  roles: {operator: {tasks: 600}}")
	for _, row := range []struct {
		user          string
		groups, roles []string
		tasks, leases int64
	}{
		{"bob", nil, nil, 100, DefaultQuota.Leases},
		{"bob", []string{"vision", "ml", "other"}, nil, 900, 20},
		{"bob", []string{"vision"}, []string{"operator"}, 600, 20},
		{"alice", []string{"vision"}, nil, 500, 7},
	} {
		got := c.Quotas.Of(row.user, row.groups, row.roles)
		if got.Tasks != row.tasks || got.Leases != row.leases || got.Specs != DefaultQuota.Specs {
			t.Errorf("%s in %v, %v: %+v", row.user, row.groups, row.roles, got)
		}
	}
}

// An account has as much for its journals as the file says, or a part of a small disk; root has a quota only where it is named.
func TestQuotaOfJournals(t *testing.T) {
	const tib = 1 << 40
	for _, row := range []struct {
		text, user string
		uid        uint32
		disk, want int64
	}{
		{"", "alice", 1001, tib, 4 << 30},
		{"", "alice", 1001, 10 << 30, 1 << 30},
		{"", "root", 0, tib, 0},
		{"quotas: {default: {journals: 2GiB}}", "alice", 1001, 10 << 30, 2 << 30},
		{"quotas: {default: {journals: 2GiB}, users: {alice: {journals: 1TiB}}}", "alice", 1001, 10 << 30, tib},
		{"quotas: {users: {root: {tasks: 5}}}", "root", 0, tib, 4 << 30},
	} {
		c := &Config{}
		if row.text != "" {
			c = parse(t, row.text)
		}
		if got := c.Quotas.OfJournals(row.user, row.uid, row.disk); got != row.want {
			t.Errorf("%q: %s has %d, want %d", row.text, row.user, got, row.want)
		}
	}
	c := &Config{}
	if c.Quotas.Binds("datamove", uint32(os.Geteuid())) {
		t.Error("the account of the service has quotas")
	}
}

// TestNumberedNamesAreText reads a name that YAML could read as a number.
func TestNumberedNamesAreText(t *testing.T) {
	c := parse(t, "projects: {'1e3': {roots: [/x], members: [aa]}}")
	if _, ok := c.Projects["1e3"]; !ok || len(c.Projects) != 1 {
		t.Errorf("%+v", c.Projects)
	}
}

func TestRates(t *testing.T) {
	for text, want := range map[string]Rate{"20GB/s": 20e9, "1.5 GiB/s": 3 << 29, "10Gbit/s": 125e7, "500kB/s": 500e3, "1B/s": 1} {
		var got Rate
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "/s", "GB/s", "1/s", "1e9B/s", "-1GB/s", "0x1GB/s", "1.2.3GB/s", "1gb/s", "NaNB/s", "InfGB/s", "99999999TB/s", "0.1B/s"} {
		var got Rate
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestWindows(t *testing.T) {
	for _, text := range []string{"Mon-Fri 08:00-18:00", "Fri-Mon 22:00-06:00", "Sat,Sun 00:00-24:00", "Mon,Wed-Thu", "Sun", "22:00-06:00"} {
		if err := window(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", " ", "always", "mon", "Mon 8:00-9:00", "Mon 08:00", "Mon-", "Mon 24:00-08:00", "Mon 08:60-09:00",
		"Mon  08:00-09:00", "Mon 08:00-09:00 ", "08:00-08:00", "Mon 08:00-08:00", "08:00-09:00 Mon", "Mon Tue", strings.Repeat("Mon,", 30) + "Mon"} {
		if window(text) == nil {
			t.Errorf("%q passed", text)
		}
	}
}

func TestChanged(t *testing.T) {
	from := parse(t, cluster)
	change := func(old, replacement string) string {
		if !strings.Contains(cluster, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(cluster, old, replacement, 1)
	}
	for _, row := range []struct {
		text    string
		keys    string
		restart bool
	}{
		{cluster, "[]", false},
		{"# a comment\n" + cluster, "[]", false},
		{change("weight: 2", "weight: 3"), "[projects.vision.weight]", false},
		{change(`"@vision"]`, `"@vision", bob]`), "[projects.vision.members]", false},
		{change(`[alice, "@vision"]`, `["@vision", alice]`), "[projects.vision.members]", false},
		{change("    weight: 2\n", ""), "[projects.vision.weight]", false},
		{change("node: n17", "node: n18"), "[node]", true},
		{change(`, "tcp://0.0.0.0:7643"]`, "]"), "[listen]", true},
		{change("lead: 45s", "lead: 20s"), "[leases.lead]", true},
		{change("spares: 0", "spares: 2"), "[agent.spares]", false},
		{change("rate: 20GB/s", "rate: 10GB/s"), "[limits]", false},
		{change("ops: 5000, ", ""), "[limits]", false},
		{cluster + "  eve: {certificate: eve}\nservice: unix:///x\n", "[service users.eve.certificate]", false},
	} {
		keys := Changed(from, parse(t, row.text))
		if fmt.Sprint(keys) != row.keys || slices.ContainsFunc(keys, NeedsRestart) != row.restart {
			t.Errorf("%v, restart %v; want %s, %v", keys, slices.ContainsFunc(keys, NeedsRestart), row.keys, row.restart)
		}
		if back := Changed(parse(t, row.text), from); !slices.Equal(back, keys) {
			t.Errorf("%v one way, %v the other", keys, back)
		}
	}
}

// Every key that asks for a restart is one of the schema.
func TestRestartKeysAreKeys(t *testing.T) {
	for key := range restart {
		if _, ok := schema.keys[key]; !ok {
			t.Errorf("%s is no key", key)
		}
	}
}
