package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

const site = `tiers:
  scratch: {level: hot,  path: /local_nvme, ephemeral: true}
  project: {level: warm, path: /lustre/project}
  archive: {level: cold, s3: {endpoint: "https://s3.site:9000", bucket: archive, credentials: "file:/etc/datamove/archive.env"}}
  cloud:
    level: cold
    s3:
      bucket: team-burst
      region: us-east-1
      path_style: false
service: unix:///run/datamove/datamoved.sock
`

func none(string) string { return "" }

func env(pairs ...string) func(string) string {
	return func(key string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == key {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestTheFileOfTheDesign(t *testing.T) {
	c := must.Get(Parse("site.yaml", []byte(site), none))(t)
	if tier := c.Tiers["scratch"]; tier.Level != "hot" || tier.Path != "/local_nvme" || !tier.Ephemeral || tier.S3 != nil {
		t.Errorf("scratch = %+v", tier)
	}
	if s := c.Tiers["archive"].S3; s == nil || s.Endpoint != "https://s3.site:9000" || s.Bucket != "archive" ||
		s.Credentials != "file:/etc/datamove/archive.env" || s.PathStyle != nil {
		t.Errorf("archive = %+v", s)
	}
	if s := c.Tiers["cloud"].S3; s == nil || s.Region != "us-east-1" || s.PathStyle == nil || *s.PathStyle {
		t.Errorf("cloud = %+v", s)
	}
	if len(c.Tiers) != 4 || c.Service != "unix:///run/datamove/datamoved.sock" {
		t.Errorf("tiers %d, service %q", len(c.Tiers), c.Service)
	}
}

func TestSettingsSayWhereTheyComeFrom(t *testing.T) {
	c := must.Get(Parse("site.yaml", []byte(site), env("DATAMOVE_SERVICE", "tcp://mover:7070")))(t)
	want := map[string]Setting{
		"service":                 {"service", "tcp://mover:7070", "environment DATAMOVE_SERVICE"},
		"tiers.project.path":      {"tiers.project.path", "/lustre/project", "site.yaml:3"},
		"tiers.cloud.s3.region":   {"tiers.cloud.s3.region", "us-east-1", "site.yaml:9"},
		"tiers.scratch.ephemeral": {"tiers.scratch.ephemeral", "true", "site.yaml:2"},
	}
	for _, s := range c.Settings() {
		if w, ok := want[s.Key]; ok && s != w {
			t.Errorf("%+v, want %+v", s, w)
		}
		delete(want, s.Key)
	}
	if len(want) > 0 {
		t.Errorf("not shown: %v", want)
	}
}

func TestEveryMistakeHasALine(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"broken YAML", "tiers:\n  a: [\n", "c.yaml:2: is not valid YAML"},
		{"tab", "tiers:\n\tscratch: {}\n", "c.yaml:2: is not valid YAML"},
		{"unknown key on top", "tires: {}\n", "c.yaml:1: tires: unknown key (did you mean tiers?)"},
		{"unknown key in a tier", "tiers:\n  sc:\n    pth: /y\n    path: /x\n    level: hot\n", "c.yaml:3: tiers.sc.pth: unknown key (did you mean path?)"},
		{"unknown key, nothing near", "tiers:\n  sc: {level: hot, path: /x, colour: red}\n", "c.yaml:2: tiers.sc.colour: unknown key (known keys: cache, checkpoints, ephemeral, feed, keep_free, kind, level, node_local, path, queue, reader, s3, scan, verify)"},
		{"level missing", "tiers:\n  sc:\n    path: /x\n", "c.yaml:3: tiers.sc: has no level (add a line level: …)"},
		{"level wrong", "tiers:\n  sc: {level: lukewarm, path: /x}\n", `c.yaml:2: tiers.sc.level: is "lukewarm"; must be one of hot, warm, cold`},
		{"relative path", "tiers:\n  sc: {level: hot, path: x/y}\n", `c.yaml:2: tiers.sc.path: is "x/y"; must be an absolute path`},
		{"path and bucket", "tiers:\n  sc: {level: hot, path: /x, s3: {bucket: abc}}\n", "c.yaml:2: tiers.sc: has both path and s3: a tier is one of them"},
		{"neither", "tiers:\n  sc: {level: hot}\n", "c.yaml:2: tiers.sc: has neither path nor s3: say where the tier is"},
		{"bucket missing", "tiers:\n  ar:\n    level: cold\n    s3: {region: eu}\n", "c.yaml:4: tiers.ar.s3: has no bucket"},
		{"bucket is a number", "tiers:\n  ar:\n    level: cold\n    s3:\n      bucket: 12345\n", "c.yaml:5: tiers.ar.s3.bucket: must be text (put quotes around it)"},
		{"truth is text", "tiers:\n  sc: {level: hot, path: /x, ephemeral: sometimes}\n", "c.yaml:2: tiers.sc.ephemeral: must be true or false"},
		{"list instead of a table", "tiers:\n  - scratch\n", "c.yaml:2: tiers: must be a table of keys and values"},
		{"table instead of text", "service: {unix: /x}\n", "c.yaml:1: service: must be a single value"},
		{"no value", "tiers:\n  sc:\n    level:\n    path: /x\n", "c.yaml:3: tiers.sc.level: has no value"},
		{"twice", "tiers:\n  sc:\n    level: hot\n    level: warm\n    path: /x\n", "c.yaml:4: tiers.sc.level: stands here twice, first in line 3"},
		{"encryption of no store", "tiers:\n  ar: {level: cold, s3: {bucket: abc, encryption: kms}}\n", "c.yaml:2: tiers.ar.s3.encryption: is \"kms\"; must be one of aws:kms, aws:kms:dsse, AES256"},
		{"key without encryption", "tiers:\n  ar: {level: cold, s3: {bucket: abc, kms_key: alias/a}}\n", "c.yaml:2: tiers.ar.s3: has a kms_key: that is for encryption: aws:kms or aws:kms:dsse"},
		{"key of the store's own", "tiers:\n  ar: {level: cold, s3: {bucket: abc, encryption: AES256, kms_key: alias/a}}\n", "c.yaml:2: tiers.ar.s3: has a kms_key"},
		{"key that is none", "tiers:\n  ar: {level: cold, s3: {bucket: abc, encryption: aws:kms, kms_key: 'a b'}}\n", "c.yaml:2: tiers.ar.s3.kms_key: must be the ARN"},
		{"two regions", "tiers:\n  ar: {level: cold, s3: {bucket: abc, region: eu-central-1, require_region: us-east-1}}\n", "c.yaml:2: tiers.ar.s3: has a region, and require_region is another"},
		{"reserved tier", "tiers:\n  s3: {level: hot, path: /x}\n", "c.yaml:2: tiers.s3: \"s3\" is not for tiers"},
		{"mistakes below a bad name", "tiers:\n  c: {levl: hot, path: /x}\n", "c.yaml:2: tiers.c.levl: unknown key"},
		{"drive letter", "tiers:\n  c: {level: hot, path: /x}\n", "tier names have 2 to 63 letters"},
		{"endpoint without scheme", "tiers:\n  ar: {level: cold, s3: {bucket: abc, endpoint: 's3.site:9000'}}\n", "tiers.ar.s3.endpoint: must be a URL like https://"},
		{"alias", "tiers:\n  aa: &x {level: hot, path: /x}\n  bb: *x\n", "c.yaml:2: tiers.aa: uses a YAML anchor or alias"},
		{"two documents", "service: unix:///x\n---\nservice: unix:///y\n", "has more than one YAML document"},
		{"service", "service: http://x\n", "c.yaml:1: service: must be unix:///path or tcp://host:port"},
	} {
		_, err := Parse("c.yaml", []byte(row.text), none)
		if err == nil || !strings.Contains(err.Error(), row.want) || !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %v\nwant %s", row.name, err, row.want)
		}
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	_, err := Parse("c.yaml", []byte("tiers:\n  sc: {level: tepid, path: x}\nservice: 7\n"), none)
	var p Problems
	if !errors.As(err, &p) || len(p) != 3 || p[0].Line != 2 || p[2].Line != 3 {
		t.Errorf("%d problems: %v", len(p), err)
	}
}

func TestASecretIsNeverQuoted(t *testing.T) {
	for _, text := range []string{
		"tiers:\n  ar: {level: cold, s3: {bucket: abc, credentials: 'AKIA:hunter2'}}\n",
		"tiers:\n  ar: {level: cold, s3: {bucket: abc, endpoint: 'https://me:hunter2@s3.site'}}\n",
		"tiers:\n  ar: {level: cold, s3: {bucket: abc, secret_key: hunter2}}\n",
		"service: tcp://me:hunter2@host:1\n",
	} {
		if _, err := Parse("c.yaml", []byte(text), none); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWhichFileIsRead(t *testing.T) {
	home, named := t.TempDir(), filepath.Join(t.TempDir(), "named.yaml")
	if c, err := Load(env("HOME", home)); err != nil || len(c.Tiers) != 0 {
		t.Fatalf("no file: %+v, %v", c, err)
	}
	if _, err := Load(env("HOME", home, "DATAMOVE_CONFIG", named)); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("a named file that is missing: %v", err)
	}
	file, err := Init(env("HOME", home), false)
	if err != nil || file != filepath.Join(home, ".config/datamove/config.yaml") {
		t.Fatalf("init: %s, %v", file, err)
	}
	if c, err := Load(env("HOME", home)); err != nil || c.File != file {
		t.Errorf("after init: %+v, %v", c, err)
	}
	if _, err := Init(env("DATAMOVE_CONFIG", named), false); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(env("HOME", home, "DATAMOVE_CONFIG", named)); err != nil || c.File != named {
		t.Errorf("named: %+v, %v", c, err)
	}
}

func TestInitKeepsWhatIsThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	where := env("DATAMOVE_CONFIG", file)
	must.Do(t, os.WriteFile(file, []byte(site), 0o600))
	if _, err := Init(where, false); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("a second init: %v", err)
	}
	if c, err := Load(where); err != nil || len(c.Tiers) != 4 {
		t.Errorf("the file was touched: %+v, %v", c, err)
	}
	if _, err := Init(where, true); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".config-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestTemplateIsValid reads the template, as it is and with its examples uncommented.
func TestTemplateIsValid(t *testing.T) {
	if _, err := Parse("template", []byte(Template), none); err != nil {
		t.Error(err)
	}
	c, err := Parse("template", []byte(examples.ReplaceAllString(Template, "$1")), none)
	if err != nil || len(c.Tiers) != 3 || c.Tiers["archive"].S3.Client != "auto" || c.Tiers["archive"].S3.Encryption != "aws:kms" ||
		c.Tiers["archive"].S3.KMSKey != "alias/archive" || c.Tiers["archive"].S3.RequireRegion != "us-east-1" || !c.Tiers["archive"].S3.Trusted {
		t.Fatalf("examples: %+v, %v", c, err)
	}
	for key := range schema.keys {
		if !slices.ContainsFunc(c.Settings(), func(s Setting) bool { return strings.HasPrefix(s.Key, key) }) {
			t.Errorf("the template has no example of %s", key)
		}
	}
}

// examples are the lines of the template that could be uncommented; text begins
// with a space behind the sign.
var examples = regexp.MustCompile(`(?m)^#([a-z]|  )`)

func TestCredentialsThatOthersCanRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "archive.env")
	must.Do(t, os.WriteFile(file, []byte("AWS_ACCESS_KEY_ID=a\n"), 0o600))
	c := must.Get(Parse("c", []byte("tiers:\n  ar: {level: cold, s3: {bucket: abc, credentials: 'file:"+file+"'}}\n"), none))(t)
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("0600: %v", w)
	}
	must.Do(t, os.Chmod(file, 0o644))
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0].Mend, "chmod 600") {
		t.Errorf("0644: %v", w)
	}
	hook := must.Get(Parse("c", []byte("webhooks: {ops: {file: "+file+"}}\n"), none))(t)
	if w := hook.Warnings(); len(w) != 1 || w[0].Key != "webhooks.ops.file" || !strings.Contains(w[0].Mend, "chmod 600") {
		t.Errorf("a webhook: %v", w)
	}
	if of, others := c.TierWarnings("ar"), c.TierWarnings("a"); len(of) != 1 || len(others) != 0 {
		t.Errorf("of the tier: %v, of another one: %v", of, others)
	}
	for _, row := range []struct {
		mode   fs.FileMode
		reader int
		want   bool
	}{
		{0o400, os.Geteuid(), false}, {0o440, os.Geteuid(), true}, {0o444, os.Geteuid(), true},
		{0o440, 64643, false}, {0o444, 64643, true}, {0o460, 64643, true}, // by the group of a pod
		{0o440, 0, true},
	} {
		must.Do(t, os.Chmod(file, row.mode))
		info := must.Get(os.Stat(file))(t)
		if got := OthersMayRead(info, row.reader); got != row.want {
			t.Errorf("%04o, read by %d: %v", row.mode, row.reader, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(site))
	f.Add([]byte(cluster))
	f.Add([]byte(Template))
	f.Add([]byte(examples.ReplaceAllString(Template, "$1")))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("c", text, none)
		if err != nil {
			if !errors.Is(err, mover.ErrUsage) {
				t.Errorf("%v is not a usage error", err)
			}
			return
		}
		for name, tier := range c.Tiers {
			if tierName(name) != nil || (tier.Path == "") == (tier.S3 == nil) || tier.Level == "" {
				t.Errorf("accepted %q: %+v", name, tier)
			}
		}
		for name, p := range c.Projects {
			if len(p.Roots) == 0 || len(p.Members) == 0 || p.Weight < 0 {
				t.Errorf("accepted %q: %+v", name, p)
			}
		}
		for _, l := range c.Limits {
			if l.Endpoint == "" || l.Rate <= 0 && l.Ops <= 0 {
				t.Errorf("accepted %+v", l)
			}
		}
		if keys := Changed(c, c); len(keys) > 0 {
			t.Errorf("differs from itself in %q", keys)
		}
	})
}
