package directive

import (
	"errors"
	"strings"
	"testing"

	"datamove.dev/mover"
)

// expect parses lines and looks for a mistake; "" is none.
func expect(t *testing.T, name, want string, lines ...string) {
	t.Helper()
	for i := range lines {
		if !strings.HasPrefix(lines[i], "#") {
			lines[i] = ours + " " + lines[i]
		}
	}
	job, err := Parse(script(lines...), site)
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %q: %v", name, lines, err)
	case want != "" && (!errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %q is read as %q, %v; want %s", name, lines, printed(job), err, want)
	}
}

// TestPlaces takes data from everywhere to everywhere.
func TestPlaces(t *testing.T) {
	for _, row := range []struct{ name, line, want string }{
		{"in from a common path in no tier", "stage-in=/home/me", ""},
		{"in from the job's directory", "stage-in=scratch:x to=project:y", "column 11: stage-in: the job's own directory is empty before the job starts"},
		{"in from the cache of some node", "stage-in=cache:x", "the source lies on a node's own disk"},
		{"in from a path on a tier of the node", "stage-in=/local_nvme/jobs/7/x", "the source lies on a node's own disk"},
		{"in from the usual disk", "stage-in=/tmp/x to=scratch:x", "the source lies on a node's own disk"},
		{"in from a disk that the site has", "stage-in=/nvme2/x", "the source lies on a node's own disk"},
		{"in from a path that only begins alike", "stage-in=/tmpfiles/x", ""},
		{"in to a dataset", "stage-in=project:x to=dataset:x", "column 30: to: a dataset is no target"},
		{"in to a bucket", "stage-in=project:x to=archive:x", "a job reads files, and this is a bucket"},
		{"in to a bucket by its name", "stage-in=project:x to=s3://other/x", "a job reads files, and this is a bucket"},
		{"in to a path on the disk", "stage-in=project:x to=/local_nvme/x", "which other jobs use, too"},
		{"in to a path in the memory", "stage-in=project:x to=/dev/shm/x", "which other jobs use, too"},
		{"in to a slower tier", "stage-in=project:x to=tape:x", "the tier tape is slower than project"},
		{"in to a slower tier by its path", "stage-in=/lustre/project/x to=/tape/x", "the tier tape is slower than project"},
		{"in to an equal tier", "stage-in=project:x to=fast:x", ""},
		{"shared, and no dataset", "stage-in=project:x to=scratch:x shared", "column 43: shared: only a dataset can be shared"},
		{"shared on all nodes", "stage-in=dataset:x to=project:x shared", "elsewhere others find the target anyhow"},
		{"in to itself", "stage-in=project:x to=project:x", "the target is the source, or one lies in the other"},
		{"in below itself, by its path", "stage-in=project:x to=/lustre/project/x/y", "the target is the source, or one lies in the other"},

		{"out of a common path", "stage-out=/home/me/out to=archive:out", ""},
		{"out of another tier", "stage-out=fast:out to=project:out", ""},
		{"out of a dataset", "stage-out=dataset:x to=project:x", "a dataset does not change"},
		{"out of a bucket", "stage-out=archive:x to=project:x", "a job writes files, and this is a bucket"},
		{"out of another job's directory", "stage-out=/local_nvme/jobs/7/x to=project:x", "it is out of the job's reach"},
		{"out of the cache", "stage-out=cache:x to=project:x", "it is out of the job's reach"},
		{"out of the disk", "stage-out=/tmp/x to=project:x", "it is out of the job's reach"},
		{"out to a dataset", "stage-out=scratch:x to=dataset:x", "a dataset is no target (copy to a directory"},
		{"out to the job's directory", "stage-out=project:x to=scratch:x", "is gone when the job has ended"},
		{"out to the disk", "stage-out=scratch:x to=/tmp/x", "would be seen there only"},
		{"out to the cache", "stage-out=scratch:x to=cache:x", "would be seen there only"},
		{"out to a bucket", "stage-out=scratch:x to=s3://other/x", ""},
		{"out to a bucket of a tier, in itself", "checkpoint=project:x to=archive:x,s3://archive/site/x/y", "two targets are the same"},
		{"checkpoints below themselves", "checkpoint=project:x to=project:x/copies", "the target is the source"},
		{"checkpoints to the disk", "checkpoint=scratch:x to=project:x,/var/x", "would be seen there only"},
	} {
		expect(t, row.name, row.want, row.line)
	}
}

func TestTargetsMeet(t *testing.T) {
	for _, row := range []struct{ name, a, b, want string }{
		{"in and in", "stage-in=project:a to=scratch:x", "stage-in=project:b to=scratch:x", "script line 3, column 30: to: the target is that of another request"},
		{"in and below", "stage-in=project:a to=scratch:x", "stage-in=project:b to=scratch:x/y", "or one lies in the other"},
		{"in and above", "stage-in=project:a to=scratch:x/y", "stage-in=project:b to=scratch:", "or one lies in the other"},
		{"in and beside", "stage-in=project:a to=scratch:x", "stage-in=project:b to=scratch:xy", ""},
		{"in, and on another tier", "stage-in=project:a to=scratch:x", "stage-in=project:b to=cache:x", ""},
		{"out and out", "stage-out=scratch:a to=project:x", "stage-out=scratch:b to=/lustre/project/x/", "or one lies in the other"},
		{"out and checkpoint", "stage-out=scratch:a to=archive:x", "checkpoint=scratch:b to=project:x,s3://archive/site/x/y", "or one lies in the other"},
		{"out and out, by pattern", "stage-out=scratch:a to=project:%j/a", "stage-out=scratch:b to=project:%j/b", ""},
		{"in and out again", "stage-in=archive:a to=project:a", "stage-out=scratch:a to=project:a", ""},
		{"the same with another end", "stage-out=scratch:a to=project:a", "stage-out=scratch:a to=project:a when=success", "the target is that of another request"},
		{"the same", "stage-out=scratch:a to=project:a", "stage-out=scratch:a to=project:a", ""},
	} {
		expect(t, row.name, row.want, row.a, row.b)
	}
}

// TestPurge removes only what is meant to go.
//
//safety:5/jobs a job's request to purge what is not ephemeral, or may be a result
func TestPurge(t *testing.T) {
	for _, row := range []struct{ name, lines, want string }{
		{"of the job", "purge=scratch:x", ""},
		{"of the job, if it succeeds", "purge=scratch:x when=success", "when: the job's own directory goes at its end, however it ends"},
		{"of an ephemeral tier", "purge=fast:me/tmp", ""},
		{"of a tier that stays", "purge=project:x", "the tier project is not ephemeral: what is there is kept (write purge=fast:tmp)"},
		{"of the cache", "purge=cache:x", "the tier cache is not ephemeral"},
		{"of a bucket", "purge=archive:x", "the tier archive is not ephemeral"},
		{"by path", "purge=/lustre/fast/x", "only what lies in a tier is purged (write purge=fast:name)"},
		{"by path in no tier", "purge=/home/me", "only what lies in a tier is purged"},
		{"of a dataset", "purge=dataset:x", "only what lies in a tier is purged"},
		{"the whole tier", "purge=fast:", "this is the whole tier"},
		{"of a tier in it that stays", "purge=fast:kept/x", "the tier kept is not ephemeral"},
		{"what is called like that one", "purge=fast:%x", "it may meet the tier kept, which is not ephemeral"},
		{"below what is called like that one", "purge=fast:%x/tmp", "it may meet the tier kept, which is not ephemeral"},
		{"what is never called like that one", "purge=fast:x%x", ""},
		{"twice", "purge=fast:a\npurge=fast:a/b", "line 3, column 11: purge: it is purged twice"},
		{"what was brought out", "stage-out=scratch:x to=fast:a/x\npurge=fast:a", "line 3, column 11: purge: what the stage-out brings to its target may be purged"},
		{"what was brought out, told before", "purge=fast:a\nstage-out=scratch:x to=fast:a/x", "line 3, column 31: to: what the stage-out"},
		{"what was brought out, if the name says so", "checkpoint=scratch:x to=project:x,fast:a/x\npurge=fast:a/%x", "what the checkpoint brings"},
		{"by another pattern", "stage-out=scratch:x to=fast:out-%j\npurge=fast:out-%x", "may be purged"},
		{"by a pattern that differs", "stage-out=scratch:x to=fast:out-%j\npurge=fast:tmp-%j", ""},
		{"where it came from", "stage-in=fast:a\npurge=fast:a", ""},
		{"what it came to", "stage-in=archive:a to=fast:a\npurge=fast:a", ""},
	} {
		expect(t, row.name, row.want, strings.Split(row.lines, "\n")...)
	}
	twins := Tiers{Named: map[string]Tier{"a": {Path: "/p", Ephemeral: true}, "b": {Path: "/p"}}}
	if _, err := Parse(script("#DATAMOVE purge=a:x"), twins); err == nil || !strings.Contains(err.Error(), "it may meet the tier b, which is not ephemeral") {
		t.Errorf("two names of one place: %v", err)
	}
	none := Tiers{Named: map[string]Tier{"project": {Path: "/p"}}}
	if _, err := Parse(script("#DATAMOVE purge=project:x"), none); err == nil || !strings.Contains(err.Error(), "remove it yourself") {
		t.Errorf("no ephemeral tier: %v", err)
	}
}
