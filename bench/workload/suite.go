package workload

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"datamove.dev/bench/loadgen"
	"datamove.dev/mover"
	"datamove.dev/mover/config/spelling"
)

// Sizes are those of what is measured. The zero value of each field is as Filled makes it.
type Sizes struct {
	Nodes     []int // that take part, by turns: 1, 2, 4 of 4
	Ranks     int   // of each node
	Repeats   int
	Bytes     int64 // of each rank: of large and shared files
	Block     int64 // of one read or write of them
	Files     int   // of each rank: of small and empty files
	FileBytes int64 // of a small file
	Dirs      int   // of each rank: of small and empty files
	Sample    int64 // bytes that a data loader reads at once
	Limit     time.Duration
	Cache     loadgen.Cache
	Model     string   // of the checkpoint that is written
	Scale     float64  // of it
	Bucket    bool     // targets are buckets
	Phases    []string // only these of each suite; none is all
}

// partBytes is that of a multipart upload: S3 takes no parts of less than 5 MiB.
const partBytes = 8 << 20

// Filled has the usual sizes where none is said.
func (s Sizes) Filled() Sizes {
	fill(&s.Ranks, 8)
	fill(&s.Repeats, 1)
	fill(&s.Bytes, 1<<30)
	fill(&s.Block, 4<<20)
	fill(&s.Files, 1000)
	fill(&s.FileBytes, 16<<10)
	fill(&s.Dirs, 10)
	fill(&s.Sample, 150_000)
	fill(&s.Cache, loadgen.Direct)
	fill(&s.Model, "405b")
	fill(&s.Scale, 0.0001)
	if len(s.Nodes) == 0 {
		s.Nodes = []int{1}
	}
	if s.Bucket {
		s.Block = max(s.Block, partBytes)
	}
	return s
}

func fill[T comparable](field *T, usual T) {
	var zero T
	if *field == zero {
		*field = usual
	}
}

// Suite is one.
type Suite struct {
	Name   string
	What   string // for people
	Bucket bool   // it can be done on buckets
	Posix  bool   // it can be done on directories
	works  func(*maker)
}

// All are all suites.
func All() []Suite {
	return []Suite{
		{"large", "a large file of each rank: write, read, verify, unlink", true, true, (*maker).large},
		{"shared", "one file of all ranks with alternating blocks: write, read, verify", false, true, (*maker).shared},
		{"small", "small files in directories of each rank: mkdir, write, stat, read, verify, rename, unlink", false, true, (*maker).small},
		{"metadata", "empty files in directories of each rank: mkdir, create, stat, rename, list, unlink", false, true, (*maker).metadata},
		{"storm", "empty files of all ranks in one directory: create, stat, rename, list, unlink", false, true, (*maker).storm},
		{"checkpoint", "a burst: every rank of a model's training writes its shard at once, and another one reads it", true, true, (*maker).checkpoint},
		{"dataloader", "samples of the files of all ranks, each once, by chance", true, true, (*maker).dataloader},
		{"s3", "objects: put, stat, list, get, verify, delete; and in parts: multipart, range-get", true, false, (*maker).s3},
		{"io500", "as IO500 does it: ior and mdtest, easy and hard, and find", false, true, (*maker).io500},
	}
}

// Works are the phases of some suites. An empty list is those that are usual: large and small, or s3.
func Works(names []string, s Sizes) ([]loadgen.Work, error) {
	s = s.Filled()
	chosen, err := choose(names, s.Bucket)
	if err != nil {
		return nil, err
	}
	if _, ok := models[s.Model]; !ok {
		return nil, fmt.Errorf("%w: %q is no model%s; want %s", mover.ErrUsage, s.Model, meant(s.Model, modelNames()), strings.Join(modelNames(), ", "))
	}
	if s.Scale <= 0 || s.Scale > 1 {
		return nil, fmt.Errorf("%w: a checkpoint at %g of its size; want a part of it", mover.ErrUsage, s.Scale)
	}
	m := &maker{Sizes: s}
	for m.repeat = 1; m.repeat <= s.Repeats; m.repeat++ {
		for _, m.nodes = range s.Nodes {
			for _, one := range chosen {
				m.suite = one.Name
				one.works(m)
			}
		}
	}
	return only(m.works, s.Phases)
}

// only leaves those of some names. A tree is forgotten after the last that is left of it, and nothing is done to a tree that no remaining work makes.
func only(works []loadgen.Work, names []string) (left []loadgen.Work, err error) {
	if len(names) == 0 {
		return works, nil
	}
	var known []string
	made := map[string]bool{} // trees that are
	for i, w := range works {
		known = append(known, w.Name)
		if !slices.Contains(names, w.Name) {
			if last := len(left) - 1; w.Last && last >= 0 && left[last].Tree.Name == w.Tree.Name {
				left[last].Last = true
			}
			made[w.Tree.Name] = made[w.Tree.Name] && !w.Last
			continue
		}
		if made[w.Tree.Name] = made[w.Tree.Name] || w.Do == loadgen.Write || w.Do == loadgen.Create; !made[w.Tree.Name] && w.Do != loadgen.Mkdir {
			return nil, fmt.Errorf("%w: %s of %s needs what another phase makes: name that one, too", mover.ErrUsage, w.Name, w.Suite)
		}
		made[w.Tree.Name] = made[w.Tree.Name] && !w.Last
		left = append(left, works[i])
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%w: %q is no phase of these suites%s; they have %s", mover.ErrUsage, name, meant(name, known), strings.Join(slices.Compact(slices.Sorted(slices.Values(known))), ", "))
		}
	}
	return left, nil
}

func choose(names []string, bucket bool) (chosen []Suite, err error) {
	if len(names) == 0 {
		names = []string{"large", "small"}
		if bucket {
			names = []string{"s3"}
		}
	}
	all := All()
	if slices.Equal(names, []string{"all"}) {
		return slices.DeleteFunc(all, func(s Suite) bool { return bucket && !s.Bucket || !bucket && !s.Posix }), nil
	}
	var known []string
	for _, s := range all {
		known = append(known, s.Name)
	}
	for _, name := range names {
		i := slices.Index(known, name)
		switch {
		case i < 0:
			return nil, fmt.Errorf("%w: %q is no suite%s; want all, or some of %s", mover.ErrUsage, name, meant(name, known), strings.Join(known, ", "))
		case bucket && !all[i].Bucket:
			return nil, fmt.Errorf("%w: %s is done on directories, and not on buckets", mover.ErrUsage, name)
		case !bucket && !all[i].Posix:
			return nil, fmt.Errorf("%w: %s is done on buckets, and not on directories", mover.ErrUsage, name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// meant is which word it may have been.
func meant(word string, known []string) string {
	if question := spelling.Question(word, known); question != "" {
		return " (" + question + ")"
	}
	return ""
}
