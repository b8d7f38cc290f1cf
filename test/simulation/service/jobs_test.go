package service

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover/location"
	"datamove.dev/test/must"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/checkpoint/replicate"
)

// jobDeeds are what a job does with its checkpoints.
var jobDeeds = []deed{{"save", 8}, {"half", 2}, {"whole", 2}, {"over", 2}, {"room", 1}}

// job is a training run.
type job struct {
	t      *testing.T
	rng    *rand.Rand
	folder string // below the root of its tier
	tier   string
	node   string // "" is the shared tier
	dir    string
	steps  int
	sets   map[string]*set
	ranks  int
	writes int // files
}

// set is a checkpoint as its job wrote it.
type set struct {
	files map[string]uint64   // as they are now
	whole []map[string]uint64 // saves that were complete once
	is    bool                // the last one is what is there now
	gone  bool                // the job has removed it
}

func newJob(t *testing.T, rng *rand.Rand, ranks int) *job {
	return &job{t: t, rng: rng, ranks: ranks, sets: map[string]*set{}}
}

// does is one of jobDeeds.
func (j *job) does(s step) {
	switch s.do {
	case "save", "half":
		j.steps++
		name := fmt.Sprint("step_", j.steps)
		j.shards(name)
		if s.do == "save" {
			j.seal(name)
			if s.b%4 > 0 {
				j.names(name)
			}
		}
	case "whole":
		if name := j.one(s.b, func(x *set) bool { return !x.is && !x.gone }); name != "" {
			j.seal(name)
			j.names(name)
		}
	case "over":
		if name := j.one(s.b, func(x *set) bool { return x.is && !x.gone }); name != "" && j.there(name) {
			must.Do(j.t, os.Remove(filepath.Join(j.dir, name, ".metadata")))
			j.sets[name].is = false
			j.shards(name)
			j.seal(name)
			j.names(name)
		}
	case "room":
		if name := j.one(s.b, func(x *set) bool { return !x.gone }); name != "" {
			j.removes(name)
		}
	}
}

// one is a checkpoint of some, or "".
func (j *job) one(n int, is func(*set) bool) string {
	var names []string
	for name, x := range j.sets {
		if is(x) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return names[n%len(names)]
}

// there reports whether a checkpoint is where its job saved it.
func (j *job) there(name string) bool {
	synctest.Wait()
	_, err := os.Stat(filepath.Join(j.dir, name, ".metadata"))
	return err == nil
}

// shards writes the files of a checkpoint but the last, as many as ranks the job has.
func (j *job) shards(name string) {
	x := j.sets[name]
	if x == nil {
		x = &set{files: map[string]uint64{}}
		j.sets[name] = x
	}
	for i := range j.ranks {
		j.write(x, name, fmt.Sprintf("__%d_0.distcp", i), 1+j.rng.IntN(120_000))
	}
}

// seal writes the file that makes it complete.
func (j *job) seal(name string) {
	x := j.sets[name]
	text := fmt.Appendf(nil, "of %s, save %d", name, len(x.whole))
	j.put(filepath.Join(name, ".metadata"), text)
	x.files[".metadata"] = sumOf(text)
	x.is, x.whole = true, append(x.whole, maps.Clone(x.files))
}

func (j *job) write(x *set, name, file string, size int) {
	data := make([]byte, size+7)
	for i := 0; i < size; i += 8 {
		binary.LittleEndian.PutUint64(data[i:], j.rng.Uint64())
	}
	j.put(filepath.Join(name, file), data[:size])
	x.files[file] = sumOf(data[:size])
}

// put writes a file whole, with a time that no other one of the job has.
func (j *job) put(name string, data []byte) {
	at := filepath.Join(j.dir, name)
	must.Do(j.t, os.MkdirAll(filepath.Dir(at), 0o755))
	must.Do(j.t, os.WriteFile(at+".tmp", data, 0o644))
	j.writes++
	when := time.Now().Add(time.Duration(j.writes) * time.Microsecond)
	must.Do(j.t, os.Chtimes(at+".tmp", when, when))
	must.Do(j.t, os.Rename(at+".tmp", at))
}

// names has the tracker name a checkpoint.
func (j *job) names(name string) { j.put("latest", []byte(name)) }

// removes has a job remove one that its tracker does not name.
func (j *job) removes(name string) {
	text, _ := os.ReadFile(filepath.Join(j.dir, "latest")) // there may be none yet
	if string(text) == name {
		return
	}
	j.sets[name].gone, j.sets[name].is = true, false
	must.Do(j.t, os.RemoveAll(filepath.Join(j.dir, name)))
}

// look is what a place has: its whole checkpoints, of which the copies that were checked, and why others are not, and what its tracker names.
func look(t *testing.T, dir string) (whole, checked map[string]bool, why map[string]string, named string) {
	why = map[string]string{}
	whole, checked = map[string]bool{}, map[string]bool{}
	if _, err := os.Stat(dir); err != nil {
		return whole, checked, why, ""
	}
	site := &replicate.Site{}
	f, err := site.Folder(context.Background(), location.Location{Scheme: location.POSIX, Path: dir}, checkpoint.DCP, false)
	if err != nil {
		t.Errorf("%s: %v", dir, err)
		return whole, checked, why, ""
	}
	defer f.Close()
	for found, err := range checkpoint.Each(context.Background(), f, checkpoint.DCP) {
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			break
		}
		if why[found.Name] = found.Why; found.Complete {
			whole[found.Name] = true
			checked[found.Name] = found.Commit != nil && found.Commit.Verified()
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, "latest")) // there may be none
	return whole, checked, why, string(text)
}

// remaining are the whole saves of the last check, by where they are.
type remaining map[string][]string

// few checks that what has gone from a place since the last check, but by its job, has left as many as have to stay.
func (h remaining) few(t *testing.T, at string, now []string, own func(name string) bool) {
	var left, gone []string
	for _, name := range h[at] {
		switch {
		case slices.Contains(now, name):
			left = append(left, name)
		case own == nil || !own(name):
			gone = append(gone, name)
		default:
			left = append(left, name) // it may have been there when others went
		}
	}
	for _, name := range now {
		if !slices.Contains(left, name) {
			left = append(left, name)
		}
	}
	h[at] = now
	if len(gone) > 0 && len(left) < checkpoint.Fewest {
		t.Errorf("%v has gone from %q, and there is %v", gone, at, left)
	}
}
