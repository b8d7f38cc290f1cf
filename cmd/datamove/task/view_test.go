package task

import (
	"encoding/json"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
)

// TestShowOptions: options are shown by the names that they have on the command line, and each that the API has is shown.
func TestShowOptions(t *testing.T) {
	for name, row := range map[string]struct {
		options *pb.Options
		want    string
	}{
		"no options":   {nil, `null`},
		"none is set":  {&pb.Options{}, `{}`},
		"a sync":       {&pb.Options{RemoveExtra: true, RemoveFirst: true, BackupDir: "/old", MaxDelete: &pb.MaxDelete{Bound: &pb.MaxDelete_Percent{Percent: 5}}}, `{"backup_dir":"/old","delete":true,"delete_before":true,"max_delete_percent":5}`},
		"no removals":  {&pb.Options{MaxDelete: &pb.MaxDelete{Bound: &pb.MaxDelete_Entries{}}}, `{"max_delete":0}`},
		"names, rules": {&pb.Options{Names: []string{"x", "y"}, Rules: []*pb.Rule{{Exclude: true, Pattern: "*.tmp"}, {Pattern: "*"}}}, `{"names":2,"rules":["exclude *.tmp","include *"]}`},
		"words":        {&pb.Options{Verify: pb.Level_LEVEL_READ, Released: pb.Released_RELEASED_SKIP, Preserve: []string{"mode", "mtime"}}, `{"preserve":["mode","mtime"],"released":"skip","verify":"read"}`},
		"figures":      {&pb.Options{Jobs: 3, BytesPerSecond: 1 << 30, MemoryBytes: 1 << 40}, `{"bytes_per_second":1073741824,"jobs":3,"memory_bytes":1099511627776}`},
		"what is on":   {&pb.Options{Again: true, Checksum: true, SizeOnly: true, FailWhenFull: true, NoReflink: true, SourceMayBeAbsent: true, Follow: true}, `{"again":true,"checksum":true,"fail_when_full":true,"follow":true,"no_reflink":true,"size_only":true,"source_may_be_absent":true}`},
	} {
		if got := string(must.Get(json.Marshal(viewOptions(row.options)))(t)); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}
