package volume

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

const key = "0123456789abcdef0123456789abcdef"

//safety:6 with csi TestTenants
func TestIDs(t *testing.T) {
	inline := "csi-" + key + key
	for _, row := range []struct{ text, refused string }{
		{"v1:project:lustre1:" + key, ""},
		{"v1:scratch:nvme:" + key, ""},
		{"v1:snapshot:nvme:" + key, ""},
		{"v1:static:lustre1:team-vision.home", ""},
		{"v1:dataset::imagenet", ""},
		{inline, ""},
		{"", "none of this driver"},
		{"csi-" + key, "none of this driver"},
		{"v2:project:lustre1:" + key, "none of this driver"},
		{"v1:project:lustre1:" + key + ":x", "none of this driver"},
		{"v1:inline:lustre1:" + inline, "snapshots"},
		{"v1:project::" + key, "file system"},
		{"v1:project:../../etc:" + key, "file system"},
		{"v1:project:lustre1:../../../etc", "hexadecimal"},
		{"v1:project:lustre1:" + strings.ToUpper(key), "hexadecimal"},
		{"v1:static:lustre1:..", "its key"},
		{"v1:static:lustre1:a/b", "its key"},
		{"v1:static:lustre1:" + strings.Repeat("x", 64), "its key"},
		{"v1:dataset:lustre1:imagenet", "no file system"},
		{"v1:project:lustre1\n:" + key, "file system"},
	} {
		id, err := ParseID(row.text)
		if row.refused == "" {
			if err != nil || id.String() != row.text {
				t.Errorf("%q: %v, %v", row.text, id, err)
			}
			continue
		}
		if !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.refused) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, which does not say %q", row.text, err, row.refused)
		}
	}
}

func TestKeysAreOfNameKindAndFileSystem(t *testing.T) {
	first := KeyOf("a", Project, "pvc-1")
	if first != KeyOf("a", Project, "pvc-1") {
		t.Error("the same name has another key")
	}
	for _, other := range []string{KeyOf("b", Project, "pvc-1"), KeyOf("a", Snapshot, "pvc-1"), KeyOf("a", Project, "pvc-2")} {
		if first == other {
			t.Error("another name has the same key")
		}
	}
	if _, err := ParseID(ID{Project, "lustre1", first}.String()); err != nil {
		t.Error(err)
	}
}

//safety:6 with csi TestTenants
func FuzzID(f *testing.F) {
	f.Add("v1:project:lustre1:" + key)
	f.Add("v1:dataset::imagenet")
	f.Add("v1:static:a:../b")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			return
		}
		if id.String() != s {
			t.Errorf("%q prints as %q", s, id.String())
		}
		if strings.ContainsAny(s, "/\x00\n") || len(s) > 128 {
			t.Errorf("%q was taken", s)
		}
	})
}

func TestParameters(t *testing.T) {
	project := func(more ...string) map[string]string { return given("project", more...) }
	for _, row := range []struct {
		what    string
		given   map[string]string
		refused string
	}{
		{"nothing", nil, "type"},
		{"a type that is none", given("nfs"), "type"},
		{"the least", project(), ""},
		{"everything of a project", project("fileSystem", "lustre1", "mode", "2775", "uid", "1000", "gid", "100", "files", "1000000", "softPercent", "90",
			"layout", "checkpoint", "stripeCount", "-1", "stripeSize", "4Mi", "ostPool", "flash", "onDelete", "archive", "archiveTo", "archive:gone", "trash", "0s",
			"csi.storage.k8s.io/pvc/name", "home", "csi.storage.k8s.io/pvc/namespace", "vision", "csi.storage.k8s.io/pv/name", "pvc-1"), ""},
		{"a name that nobody knows", project("subDir", "x"), `"subDir"`},
		{"one of another type", given("scratch", "layout", "checkpoint"), `"layout"`},
		{"a file system with a path", project("fileSystem", "../x"), "name of a file system"},
		{"a mode with set-user-ID", project("mode", "4755"), "octal"},
		{"an ID that is none", project("uid", "4294967295"), "ID"},
		{"an odd stripe", project("stripeSize", "3Ki"), "64Ki"},
		{"stripes without an end", project("stripeCount", "0"), "-1 for all"},
		{"a pool with a slash", project("ostPool", "a/b"), "pool"},
		{"an archive that is nowhere", project("onDelete", "archive"), "archiveTo"},
		{"an archive on this machine", project("onDelete", "archive", "archiveTo", "/tmp"), "TIER:path"},
		{"an archive outside of its tier", project("onDelete", "archive", "archiveTo", "cold:../x"), "leads out"},
		{"an archive that is not used", project("archiveTo", "cold:x"), "onDelete"},
		{"a dataset", given("dataset", "dataset", "imagenet"), ""},
		{"a dataset with a deadline", given("dataset", "dataset", "imagenet", "deadline", "2h", "tier", "scratch"), ""},
		{"a dataset of nothing", given("dataset"), "needs dataset"},
		{"a dataset of two things", given("dataset", "dataset", "imagenet", "source", "s3://bucket/x"), "both"},
		{"a source", given("dataset", "source", "s3://bucket/x"), ""},
		{"a path of the node", given("dataset", "source", "/etc"), "path of the machine"},
		{"a path of the node as a URL", given("dataset", "source", "file:///etc"), "path of the machine"},
		{"no time at all", given("dataset", "dataset", "imagenet", "deadline", "0s"), "time"},
	} {
		_, err := ParseParameters(row.given)
		switch {
		case row.refused == "" && err != nil:
			t.Errorf("%s: %v", row.what, err)
		case row.refused != "" && (!errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.refused)):
			t.Errorf("%s: %v, which does not say %q", row.what, err, row.refused)
		}
	}
}

// given is parameters of a type, and names and values by turns.
func given(kind string, more ...string) map[string]string {
	all := map[string]string{"type": kind}
	for pair := range slices.Chunk(more, 2) {
		all[pair[0]] = pair[1]
	}
	return all
}

func TestModified(t *testing.T) {
	p, err := ParseParameters(given("project", "stripeCount", "4"))
	must.Do(t, err)
	got, err := p.Modified(map[string]string{"stripeCount": "8", "softPercent": "80"})
	if err != nil || got.Place.StripeCount != 8 || got.Quota.SoftPercent != 80 || p.Place.StripeCount != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, name := range []string{"uid", "type", "onDelete", "nonsense"} {
		if _, err := p.Modified(map[string]string{name: "1"}); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), "softPercent") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryParameter: each row has a setter, is known to a type, and has words for the documentation.
func TestEveryParameter(t *testing.T) {
	for _, row := range table {
		if row.set == nil && row.Name != "type" || len(row.Kinds) == 0 {
			t.Errorf("%s can not be set", row.Name)
		}
		if row.Help == "" != strings.HasPrefix(row.Name, prefix) || row.Default == "" != (row.Help == "") {
			t.Errorf("%s has no words", row.Name)
		}
	}
}

func TestAttributes(t *testing.T) {
	ephemeral := map[string]string{"csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/serviceAccount.tokens": "secret"}
	with := func(base map[string]string, more ...string) map[string]string {
		all := given("", more...)
		delete(all, "type")
		maps.Copy(all, base)
		return all
	}
	for _, row := range []struct {
		what    string
		kind    Kind
		given   map[string]string
		refused string
	}{
		{"a project has nothing", Project, with(nil, "csi.storage.k8s.io/pod.name", "p", "storage.kubernetes.io/csiProvisionerIdentity", "x"), ""},
		{"nor can it have a path", Project, with(nil, "path", "x"), `"path"`},
		{"a static one needs a path", Static, nil, "path"},
		{"it is there", Static, with(nil, "path", "team/vision"), ""},
		{"it is the root", Static, with(nil, "path", ""), ""},
		{"it is outside", Static, with(nil, "path", "team/../../x"), "relative"},
		{"it is absolute", Static, with(nil, "path", "/etc"), "relative"},
		{"a dataset", Dataset, with(nil, "dataset", "imagenet"), ""},
		{"an inline dataset", Inline, with(ephemeral, "type", "dataset", "dataset", "imagenet"), ""},
		{"an inline project", Inline, with(ephemeral, "type", "project"), "type dataset"},
		{"an inline directory", Inline, with(ephemeral, "dataset", "imagenet", "path", "x"), `"path"`},
		{"an inline volume that is none", Inline, with(nil, "dataset", "imagenet"), "ephemeral"},
		{"a scratch described in a pod", Scratch, ephemeral, "generic ephemeral"},
	} {
		a, err := ParseAttributes(row.kind, row.given)
		switch {
		case row.refused == "" && err != nil:
			t.Errorf("%s: %v", row.what, err)
		case row.refused != "" && (!errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.refused)):
			t.Errorf("%s: %v, which does not say %q", row.what, err, row.refused)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: a token is told: %v", row.what, err)
		case row.kind == Dataset && a.Deadline != DefaultDeadline:
			t.Errorf("%s: %+v", row.what, a)
		}
	}
}

// TestContext: what the driver writes about a dataset is what it reads.
func TestContext(t *testing.T) {
	for _, source := range [][]string{{"dataset", "imagenet"}, {"source", "s3://bucket/x"}, {"dataset", "imagenet@" + key + key, "tier", "hot", "deadline", "2h"}} {
		p, err := ParseParameters(given("dataset", source...))
		must.Do(t, err)
		a, err := ParseAttributes(Dataset, p.Context())
		if err != nil || a.Source != p.Source || a.Deadline != p.Deadline {
			t.Errorf("%v: %+v, %v", source, a, err)
		}
	}
}

//safety:7 with csi TestTenants
func TestGrants(t *testing.T) {
	grants := Grants{
		{Namespaces: []string{"vision"}, Directories: []Directory{{"lustre1", "team/vision", false}, {"lustre1", "shared", true}}, Sources: []string{"dataset:image*", "s3://public/open"}},
		{Namespaces: []string{"vision"}, ServiceAccounts: []string{"curator"}, Directories: []Directory{{"lustre1", "shared", false}}},
		{Namespaces: []string{"guest-*"}, Sources: []string{"dataset:*", "archive:guests"}},
		{Namespaces: []string{"*"}, Sources: []string{"dataset:open"}},
	}
	for i := range grants {
		must.Tell(t, grants[i].Validate())
	}
	vision, curator, guest := Pod{Namespace: "vision", ServiceAccount: "default"}, Pod{Namespace: "vision", ServiceAccount: "curator"}, Pod{Namespace: "guest-7"}
	for _, row := range []struct {
		pod      Pod
		at, path string
		want     string
	}{
		{vision, "lustre1", "team/vision", "rw"},
		{vision, "lustre1", "team/vision/deep/er", "rw"},
		{vision, "lustre1", "team", "denied"},
		{vision, "lustre1", "team/vision2", "denied"},
		{vision, "lustre2", "team/vision", "denied"},
		{vision, "lustre1", "shared", "ro"},
		{curator, "lustre1", "shared", "rw"},
		{guest, "lustre1", "shared", "denied"},
		{Pod{}, "lustre1", "shared", "denied"},
	} {
		readOnly, err := grants.Directory(row.pod, row.at, row.path)
		got := map[bool]string{true: "ro", false: "rw"}[readOnly]
		if err != nil {
			got = "denied"
		}
		if got != row.want || err != nil && !errors.Is(err, mover.ErrPermission) {
			t.Errorf("%v, %s:%s: %s (%v), not %s", row.pod, row.at, row.path, got, err, row.want)
		}
	}
	for _, row := range []struct {
		pod    Pod
		source string
		may    bool
	}{
		{vision, "dataset:imagenet", true},
		{vision, "dataset:imagenet@" + key + key, true},
		{vision, "dataset:secret", false},
		{vision, "s3://public/open/x", true},
		{vision, "s3://public/opener", false},
		{vision, "s3://private/open", false},
		{vision, "archive:guests/x", false},
		{guest, "archive:guests/x", true},
		{guest, "archive:guests", true},
		{guest, "archive:", false},
		{guest, "dataset:secret", true},
		{Pod{}, "dataset:imagenet", false},
		{Pod{}, "dataset:open", true},
		{vision, "dataset:open", true},
	} {
		if err := grants.Source(row.pod, row.source); (err == nil) != row.may {
			t.Errorf("%v, %s: %v", row.pod, row.source, err)
		}
	}
	unchecked := Grants{{Namespaces: []string{"*"}, Sources: []string{"/etc"}}}
	if err := unchecked.Source(vision, "/etc/shadow"); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("a path of the machine is given by a grant that was not validated: %v", err)
	}
	for _, bad := range []Grant{{}, {Namespaces: []string{"x"}, Sources: []string{"/etc"}}, {Namespaces: []string{"x"}, Sources: []string{"s3://public/open*"}},
		{Namespaces: []string{"x"}, Directories: []Directory{{"lustre1", "../x", false}}}} {
		if err := bad.Validate(); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%+v was taken: %v", bad, err)
		}
	}
}

// FuzzGrants: nothing above or beside what is granted is given.
//
//safety:7 with csi TestTenants
func FuzzGrants(f *testing.F) {
	f.Add("team/vision/..", "s3://public/open/../x")
	f.Add("team/vision/x", "s3://public/open/x")
	grants := Grants{{Namespaces: []string{"*"}, Directories: []Directory{{"lustre1", "team/vision", false}}, Sources: []string{"s3://public/open"}}}
	f.Fuzz(func(t *testing.T, path, source string) {
		pod := Pod{Namespace: "x"}
		a, err := ParseAttributes(Static, map[string]string{"path": path})
		if err == nil {
			if _, err := grants.Directory(pod, "lustre1", a.Path); err == nil && a.Path != "team/vision" && !strings.HasPrefix(a.Path, "team/vision/") {
				t.Errorf("%q was given", path)
			}
		}
		if err := grants.Source(pod, source); err == nil && (!strings.HasPrefix(source, "s3://public/open") || strings.Contains(source, "/../")) {
			t.Errorf("%q was given", source)
		}
	})
}

//safety:6 with csi/mount TestBindRefuses
func TestMounting(t *testing.T) {
	m, err := ParseMounting([]string{"ro,noexec", "noatime", `context="system_u:object_r:container_file_t:s0:c1,c2"`})
	if err != nil || !m.ReadOnly || !m.NoExec || !m.NoAtime || m.SELinuxLabel != "system_u:object_r:container_file_t:s0:c1,c2" {
		t.Errorf("%+v, %v", m, err)
	}
	for _, hostile := range []string{"suid", "dev", "exec", "bind", "remount", "user_xattr", "ro,suid", "", "loop=/dev/sda", "fscontext=x"} {
		if _, err := ParseMounting([]string{hostile}); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%q: %v", hostile, err)
		}
	}
}

func TestDurationsAreRead(t *testing.T) {
	p, err := ParseParameters(given("project", "trash", "72h"))
	if err != nil || p.Trash != 72*time.Hour || p.Mode != DefaultMode || p.OnDelete != Remove {
		t.Errorf("%+v, %v", p, err)
	}
}
