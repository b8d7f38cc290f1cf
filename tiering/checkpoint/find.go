package checkpoint

import (
	"cmp"
	"slices"
	"strings"
)

// Set is a checkpoint, or what is to become one.
type Set struct {
	Name     string // in the directory
	Dir      bool   // else it is a single file
	Step     int64  // -1 is not known
	Complete bool
	Why      string // it is not complete
	Mark     string // the file in it that is copied last; "" is none
	Print    Print
	Save     Print // the same as long as what is in its files is: which save it is
	Modified int64 // ns, of the youngest in it
}

// View is what a directory has, as its profile sees it.
type View struct {
	Sets     []Set     // the oldest first
	Trackers []Tracker // by name
	Rest     []string  // directly in it, and neither
	Aside    []string  // markers of what is not finished, which say so of this directory alone
}

// Find finds the checkpoints of a profile in a tree.
func Find(p Profile, t Tree) View {
	f, v := forms[p], View{}
	for _, e := range t.top() {
		inside := t.under(e.Name)
		switch {
		case p == NeMo && strings.HasSuffix(e.Name, unfinished):
			v.Aside = append(v.Aside, e.Name)
		case isTracker(f, t, e):
			v.Trackers = append(v.Trackers, trackerOf(p, t, e))
		case incomplete.MatchString(e.Name): // one of ours, in a directory that was brought back
			v.Rest = append(v.Rest, e.Name)
		case e.Kind == Dir && f.holds(e.Name, direct(inside)), e.Kind == File && f.file != nil && f.file(e.Name):
			v.Sets = append(v.Sets, judge(p, t, inside))
		default:
			v.Rest = append(v.Rest, e.Name)
		}
	}
	slices.SortFunc(v.Sets, older)
	return v
}

// Set finds one by its name.
func (v View) Set(name string) (Set, bool) {
	i := slices.IndexFunc(v.Sets, func(s Set) bool { return s.Name == name })
	if i < 0 {
		return Set{}, false
	}
	return v.Sets[i], true
}

// older orders by step, where one is known, and then by time.
func older(a, b Set) int {
	return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Modified, b.Modified), cmp.Compare(a.Name, b.Name))
}

// direct are the names directly in a set.
func direct(inside []Entry) (names []string) {
	for _, e := range inside[1:] {
		if rest := e.Name[len(inside[0].Name)+1:]; !strings.Contains(rest, "/") {
			names = append(names, rest)
		}
	}
	return names
}

// judge says what a set is. inside begins with itself.
func judge(p Profile, t Tree, inside []Entry) Set {
	e := inside[0]
	s := Set{Name: e.Name, Dir: e.Kind == Dir, Step: StepOf(e.Name), Print: printOf(inside, true), Save: printOf(inside, false)}
	for _, e := range inside {
		s.Modified = max(s.Modified, e.Modified)
	}
	s.Mark, s.Why = signs(p, t, inside)
	if s.Why == "" {
		s.Why = against(p, inside, s.Mark)
	}
	s.Complete = s.Why == ""
	return s
}

// signs looks for what says that a set is complete: a file in it, or something beside it. why says what is missing.
func signs(p Profile, t Tree, inside []Entry) (mark, why string) {
	name := inside[0].Name
	first := func(marks ...string) string {
		for _, m := range marks {
			for _, e := range inside[1:] {
				if e.Kind == File && e.Name == name+"/"+m {
					return m
				}
			}
		}
		return ""
	}
	if m := first(Committed); m != "" {
		return m, ""
	}
	missing := func(mark, what string) (string, string) {
		if mark == "" {
			return "", what
		}
		return mark, ""
	}
	switch p {
	case DCP:
		return missing(first(".metadata"), "there is no .metadata in it")
	case Megatron:
		if !megatronPast(t, name) {
			return "", megatronTracker + " does not say so"
		}
		mark := first(".metadata", "metadata.json")
		if mark != ".metadata" && slices.ContainsFunc(direct(inside), shard.MatchString) {
			return "", "there is no .metadata in it"
		}
		return mark, ""
	case DeepSpeed:
		if !deepSpeedPast(t, name) {
			return "", "latest does not say so"
		}
		return "", ""
	case Orbax:
		if strings.Contains(name, ".orbax-checkpoint-tmp") {
			return "", "its name is a temporary one"
		}
		return missing(first("commit_success.txt", "_CHECKPOINT_METADATA", "_METADATA"), "there is no metadata in it")
	case HF:
		if strings.HasPrefix(name, "tmp-") {
			return "", "its name is a temporary one"
		}
		return missing(first("trainer_state.json"), "there is no trainer_state.json in it")
	case NeMo:
		if t.under(nemoMarker(name)) != nil {
			return "", "it is marked as unfinished"
		}
		for _, m := range []string{"weights/.metadata", "model_weights/.metadata", "model/.metadata", ".metadata"} {
			if first(m) != "" {
				return m, ""
			}
		}
		return "", ""
	}
	return missing(first(Marks...), "no mark is in it: "+strings.Join(Marks, ", "))
}

// slack is by how much a file may be younger than the mark: clocks of nodes differ.
const slack = 10e9

// against looks for what speaks against a set that has the signs of one.
func against(p Profile, inside []Entry, mark string) (why string) {
	dir, files := inside[0].Name+"/", 0
	var marked int64
	for _, e := range inside {
		if e.Name == dir+mark {
			marked = e.Modified
		}
	}
	last := mark != "" && (p == DCP || p == Plain || mark == Committed || mark == "commit_success.txt" || strings.HasSuffix(mark, ".metadata"))
	for _, e := range inside {
		name := strings.TrimPrefix(e.Name, dir)
		switch {
		case e.Kind == Other:
			return name + " is no file"
		case e.Kind != File:
			continue
		case strings.HasSuffix(name, ".tmp") || strings.Contains(name, ".orbax-checkpoint-tmp"):
			return name + " is a temporary name"
		case e.Size == 0 && !mayBeEmpty(name):
			return name + " is empty"
		case last && e.Modified > marked+slack:
			return name + " is younger than " + mark + ": it is being written again"
		}
		files++
	}
	if files == 0 {
		return "it is empty"
	}
	if p == HF {
		return lacks(direct(inside))
	}
	return ""
}

// mayBeEmpty says whether a file without content is nothing to worry about: a mark, or one of Python's packages.
func mayBeEmpty(name string) bool {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return slices.Contains(Marks, base) || base == "__init__.py" || base == ".nemo_keep"
}

// lacks looks for shards that the names of others speak of: model-00001-of-00003.safetensors.
func lacks(names []string) (why string) {
	type group struct{ before, of, behind string }
	have := map[group]map[string]bool{}
	for _, name := range names {
		if m := numbered.FindStringSubmatch(name); m != nil {
			g := group{m[1], m[3], m[4]}
			if have[g] == nil {
				have[g] = map[string]bool{}
			}
			have[g][m[2]] = true
		}
	}
	for g, seen := range have {
		if n := number(g.of); int64(len(seen)) != n {
			return g.before + "*-of-" + g.of + g.behind + ": some are missing"
		}
	}
	return ""
}
