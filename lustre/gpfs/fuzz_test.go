package gpfs

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func FuzzTable(f *testing.F) {
	for _, name := range []string{"mmlsfs", "mmlsfileset", "mmlsquota", "mmdf", "mmlspool", "mmlsattr"} {
		f.Add(name, fixture(f, "commands/"+name+".txt"))
	}
	f.Fuzz(func(t *testing.T, command, output string) {
		pools, ok := parsePools(output)
		for _, p := range pools {
			if checkName("pool", p.Name) != nil || p.TotalBytes < 0 || p.FreeBytes < 0 {
				t.Errorf("%+v, %v", p, ok)
			}
		}
		if a, err := parseAttributes("/gpfs/fs1/vision/part-0007", output); err == nil && (a.Pool == "" || a.Fileset == "" || a.Copies < 1) {
			t.Errorf("%+v of %q", a, output)
		}
		tables, err := parseTables(command, output)
		if err != nil {
			return
		}
		for _, table := range tables {
			for column := range table.columns {
				values := 0
				err := table.read(func(w row) {
					values++
					if text := w.text(column); w.r.err == nil && strings.IndexByte(text, 0) >= 0 {
						t.Errorf("%q has a NUL", text)
					}
					_ = count(w, column)
				})
				if err == nil && values != len(table.rows) {
					t.Errorf("%d of %d lines", values, len(table.rows))
				}
			}
		}
	})
}

func FuzzReply(f *testing.F) {
	for _, name := range []string{"filesets", "quotas", "filesystem", "pools", "failed", "accepted"} {
		f.Add([]byte(fixture(f, "rest/"+name+".json")))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := parseReply(body)
		if err != nil {
			if !errors.Is(err, ErrReply) {
				t.Errorf("%v is no ErrReply", err)
			}
			return
		}
		for _, take := range []func(object){
			func(o object) { readFileset(o.text("filesetName"), o.object("config")) },
			func(o object) {
				if q := entryOf(o, "objectName", "objectId").quota(time.Now()); o.r.err == nil && (q.UsedBytes < 0 || q.HardBytes < 0 || q.SoftBytes < 0 || q.UsedFiles < 0) {
					t.Errorf("a negative quota: %+v", q)
				}
			},
		} {
			for _, list := range []string{"filesets", "quotas"} {
				fresh, _ := parseReply(body)
				for _, entry := range fresh.objects(list) {
					take(entry)
				}
			}
		}
		position(o)
		theJob(o)
	})
}
