package checkpoint

import (
	"cmp"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// Set is a checkpoint, or what is to become one.
type Set struct {
	Name     string // in the directory
	Dir      bool   // else it is a single file
	Profile  Profile
	Step     int64 // -1 is not known
	Complete bool
	Why      string // it is not complete
	Mark     string // the file in it that is copied last; "" is none
	Sealed   bool   // it is complete, and its mark is what its framework writes when everything else is there
	Print    Print
	Save     Print // the same as long as what is in its files is: which save it is
	Saved    int64 // ns: when it was saved, by its record, or by its files: see savedAt
	Files    int64 // without [Committed]
	Bytes    int64
	Commit   *Commit // what says so, if it is one of ours; nil is none
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
		case (p == NeMo || p == Mixed) && strings.HasSuffix(e.Name, unfinished):
			v.Aside = append(v.Aside, e.Name)
		case isTracker(f, t, e):
			v.Trackers = append(v.Trackers, trackerOf(t, e))
		case incomplete().MatchString(e.Name): // one of ours, in a directory that was brought back
			v.Rest = append(v.Rest, e.Name)
		case e.Kind == Dir && f.holds(e.Name, direct(inside)), e.Kind == File && f.file != nil && f.file(e.Name):
			v.Sets = append(v.Sets, judge(profileIn(p, t, inside), t, inside))
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

// Names says whether a tracker names a set.
func (v View) Names(set string) bool {
	return slices.ContainsFunc(v.Trackers, func(t Tracker) bool { return t.Names == set })
}

// older orders by when sets were saved. A run that was rolled back counts its steps again, so that they order only what was saved at one time.
func older(a, b Set) int {
	return cmp.Or(cmp.Compare(a.Saved, b.Saved), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Name, b.Name))
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

// rewritten ends the reason of a set of which a file is younger than what is written last.
const rewritten = ": it is being written again"

// judge says what a set is. inside begins with itself.
func judge(p Profile, t Tree, inside []Entry) Set {
	e := inside[0]
	s := Set{Name: e.Name, Dir: e.Kind == Dir, Profile: p, Step: StepOf(e.Name), Print: printOf(inside, true), Save: printOf(inside, false)}
	for _, e := range inside {
		if e.Kind == File && e.Name != inside[0].Name+"/"+Committed {
			s.Files, s.Bytes = s.Files+1, s.Bytes+e.Size
		}
	}
	if list, listed := t.Commits[e.Name]; listed && list.Torn == "" {
		s.Mark, s.Why, s.Commit = Committed, list.lacks(inside, t.Loose), &list
	} else {
		s.Mark, s.Why = signs(p, t, inside)
		if s.Why == "" && listed && list.Torn == torn {
			s.Why = torn
		}
		if s.Why == "" {
			s.Why = against(p, t, inside, s.Mark)
		}
	}
	_, s.Saved = savedAt(p, inside, s.Commit)
	s.Complete = s.Why == ""
	s.Sealed = s.Complete && comesLast(p, s.Mark)
	return s
}

// comesLast says whether a mark is written when everything else of its set is.
func comesLast(p Profile, mark string) bool {
	return mark != "" && (p == DCP || p == Plain || mark == Committed || mark == orbaxCommit || strings.HasSuffix(mark, ".metadata"))
}

// signs looks for what says that a set is complete: a file in it, or something beside it. why says what is missing.
func signs(p Profile, t Tree, inside []Entry) (mark, why string) {
	name := inside[0].Name
	first := func(marks ...string) string {
		for _, m := range marks {
			if has(inside, m) {
				return m
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
		if why := passed(p, t, inside, megatronTracker, megatronPast(t, name)); why != "" {
			return "", why
		}
		return first(".metadata", "metadata.json"), megatronLacks(inside)
	case DeepSpeed:
		tracker := "latest"
		if !deepSpeedPast(t, tracker, name) && deepSpeedPast(t, universalTracker, name) {
			tracker = universalTracker
		}
		return "", passed(p, t, inside, tracker, deepSpeedPast(t, tracker, name))
	case Orbax:
		if strings.Contains(name, ".orbax-checkpoint-tmp") {
			return "", "its name is a temporary one"
		}
		if byFile(t) {
			return missing(first(orbaxCommit), "there is no "+orbaxCommit+" in it, and others have one")
		}
		return missing(first(orbaxCommit, orbaxMetadata, "_METADATA", itemMetadata(inside)), "there is no metadata in it")
	case HF:
		if strings.HasPrefix(name, "tmp-") {
			return "", "its name is a temporary one"
		}
		return missing(first("trainer_state.json"), "there is no trainer_state.json in it")
	case NeMo:
		for _, marker := range nemoMarkers(name) {
			if t.under(marker) != nil {
				return "", "it is marked as unfinished"
			}
		}
		if inside[0].Kind == File {
			return "", ""
		}
		return missing(first("weights/.metadata", "model_weights/.metadata", "model/.metadata", ".metadata", "weights/metadata.json", "model_weights/metadata.json", lightningLatest(inside)),
			"nothing in it says that it is complete")
	}
	return missing(first(Marks...), "no mark is in it: "+strings.Join(Marks, ", "))
}

// itemMetadata is the metadata of an item: a checkpoint of before _CHECKPOINT_METADATA has no other (orbax/checkpoint/checkpoint_manager.py, 0.4).
func itemMetadata(inside []Entry) string {
	for _, e := range inside[1:] {
		if dir, base := split(strings.TrimPrefix(e.Name, inside[0].Name+"/")); base == "_METADATA" && dir != "" && !strings.Contains(dir, "/") {
			return dir + "/" + base
		}
	}
	return "_METADATA"
}

// lightningLatest is the mark of a directory of Lightning that DeepSpeed has written (lightning/pytorch/strategies/deepspeed.py, 2.5, save_checkpoint): its tracker, behind its one tag.
func lightningLatest(inside []Entry) string {
	if slices.ContainsFunc(inside, func(e Entry) bool {
		dir, base := split(e.Name)
		return dir != inside[0].Name && deepShard().MatchString(base)
	}) {
		return "latest"
	}
	return Committed
}

// megatronLacks says what is not in a distributed checkpoint of Megatron (megatron/core/dist_checkpointing/serialization.py, Megatron-LM 0032978f, save): common.pt, the shards and
// what says what is in them, and metadata.json.
func megatronLacks(inside []Entry) (why string) {
	dist := []string{".metadata", "common.pt", "metadata.json"}
	if !slices.ContainsFunc(direct(inside), shard().MatchString) && !slices.ContainsFunc(dist, func(file string) bool { return has(inside, file) }) {
		return ""
	}
	zarr := slices.ContainsFunc(inside, func(e Entry) bool { return strings.HasSuffix(e.Name, "/.zarray") }) // of the older format, which has no .metadata
	for _, file := range dist {
		if !has(inside, file) && !(zarr && file == ".metadata") {
			return "there is no " + file + " in it"
		}
	}
	return ""
}

// has says whether a file is in a set.
func has(inside []Entry, file string) bool {
	name := inside[0].Name + "/" + file
	return slices.ContainsFunc(inside[1:], func(e Entry) bool { return e.Kind == File && e.Name == name })
}

// byFile says whether Orbax, which can not rename in all stores, has written a file in some set here that says so instead. Then it does in all of them.
func byFile(t Tree) bool {
	return slices.ContainsFunc(t.Entries, func(e Entry) bool {
		dir, file, _ := strings.Cut(e.Name, "/")
		return file == orbaxCommit && e.Kind == File && orbaxStep().MatchString(dir)
	})
}

// passed says why a set is not one that a tracker has come to. The tracker speaks of the set that it names alone: one that it has passed
// may be what a crash has left, or what is left of one that is being removed, unless it has the same files.
func passed(p Profile, t Tree, inside []Entry, tracker string, past bool) (why string) {
	if !past {
		return tracker + " does not say so"
	}
	at, now := t.tracked(tracker), int64(0)
	for _, e := range t.under(tracker) {
		now = e.Modified
	}
	for _, e := range inside {
		if e.Kind == File && e.Modified > now+slackShards && rankFile(strings.TrimPrefix(e.Name, inside[0].Name+"/")) {
			return strings.TrimPrefix(e.Name, inside[0].Name+"/") + " is younger than " + tracker + rewritten
		}
	}
	if at == inside[0].Name || t.looks {
		return ""
	}
	named := t.under(at)
	if named == nil {
		return at + " is not there, which " + tracker + " names"
	}
	if !slices.Equal(filesOf(named), filesOf(inside)) {
		return "it has other files than " + at + ", which " + tracker + " names"
	}
	return ""
}

// rankFile says whether a file is one that a rank of Megatron or DeepSpeed writes. Others may come at any time.
func rankFile(name string) bool {
	dir, base := split(name)
	return shard().MatchString(base) || deepShard().MatchString(base) || megatronDir().MatchString(dir)
}

// filesOf are the names of all files in a set.
func filesOf(inside []Entry) (names []string) {
	for _, e := range inside[1:] {
		if name := strings.TrimPrefix(e.Name, inside[0].Name+"/"); e.Kind == File && name != Committed {
			names = append(names, name)
		}
	}
	return names
}

// By how much something may be younger than the mark: clocks of nodes differ, from which the shards of a rank and the mark of another one come, and a directory is
// changed by what some frameworks add when all is there.
const (
	slack       = 2e9
	slackShards = 10e9
	slackDir    = 10e9
)

// slackOf is that of files of a set with a mark.
func slackOf(mark string) int64 {
	if strings.HasSuffix(mark, ".metadata") {
		return slackShards
	}
	return slack
}

// additions are, by directory, when something came into it last that the format of the mark does not name: it explains when the directory was changed.
func additions(p Profile, inside []Entry, mark string) map[string]int64 {
	added := map[string]int64{}
	for _, e := range inside[1:] {
		if dir, _ := split(e.Name); e.Kind == Dir || isFree(p, mark, strings.TrimPrefix(e.Name, inside[0].Name+"/")) {
			added[dir] = max(added[dir], e.Modified, e.Changed)
		}
	}
	return added
}

var (
	// ofTrainer are the files that Hugging Face's Trainer writes, and those that it calls do.
	ofTrainer = mover.Pattern(`\.(safetensors|bin|pt|pth|h5|msgpack|distcp|index\.json)$|config\.json$|^trainer_state\.json$|token|vocab|^merges`)
	// ofOrbax are those that Orbax writes directly into a checkpoint, of one item, too.
	ofOrbax = mover.Pattern(`^_|^(commit_success\.txt|checkpoint|aggregate|manifest\.ocdbt)$`)
)

// isFree says whether a file of a set is one that the format of its mark does not name. Such ones may come at any time: what evaluates a checkpoint writes into it.
func isFree(p Profile, mark, name string) bool {
	dir, base := split(name)
	markDir, markBase := split(mark)
	switch p {
	case HF:
		return !ofTrainer().MatchString(base)
	case Orbax:
		return dir == "" && !ofOrbax().MatchString(base)
	case Megatron, DeepSpeed:
		if markBase != ".metadata" {
			return !rankFile(name) && !strings.HasPrefix(name, "zero/")
		}
	}
	return markBase == ".metadata" && (dir != markDir || !shard().MatchString(base))
}

// isLate says whether a file that the format of the mark does not name came after it: such a file may be empty, or half written, in a set that is complete.
func isLate(p Profile, mark string, marked int64, name string, e Entry) bool {
	return mark != "" && e.Modified > marked+slackOf(mark) && isFree(p, mark, name)
}

// lateAfter is the mark of a set, or where a tracker outside of it is that, the file which its save has written last.
func lateAfter(p Profile, inside []Entry, mark string) string {
	if mark != "" || p != Megatron && p != DeepSpeed {
		return mark
	}
	file, _ := savedAt(p, inside, nil)
	if name := strings.TrimPrefix(file, inside[0].Name+"/"); slices.Contains(savedLast[p], name) {
		return name
	}
	return ""
}

// against looks for what speaks against a set that has the signs of one.
func against(p Profile, t Tree, inside []Entry, mark string) (why string) {
	dir, files := inside[0].Name+"/", 0
	var marked, placed int64
	for _, e := range inside {
		if e.Name == dir+mark {
			marked, placed = e.Modified, max(e.Changed, e.Modified)
		}
	}
	added := additions(p, inside, mark)
	last := comesLast(p, mark)
	late := lateAfter(p, inside, mark)
	lateFrom := modifiedOf(inside, dir+late)
	for _, e := range inside {
		name := strings.TrimPrefix(e.Name, dir)
		switch {
		case e.Kind == Other:
			return name + " is no file"
		case e.Kind == Dir && mark != "" && (last || p == HF || p == Orbax) && e.Modified > max(placed, added[e.Name])+slackDir:
			return "something was added or removed after " + mark
		case e.Kind != File:
			continue
		case strings.HasSuffix(name, ".tmp") || strings.Contains(name, ".orbax-checkpoint-tmp"):
			return name + " is a temporary name"
		case isLate(p, late, lateFrom, name, e):
		case e.Size == 0 && !mayBeEmpty(name):
			return name + " is empty"
		case last && e.Modified > marked+slackOf(mark) && !isFree(p, mark, name):
			return name + " is younger than " + mark + rewritten
		}
		files++
	}
	if files == 0 {
		return "it is empty"
	}
	if why := cmp.Or(torsos(inside), unlike(inside)); why != "" && mark != Committed {
		return why
	}
	if p == HF {
		return cmp.Or(lacks(direct(inside)), weightless(filesOf(inside)))
	}
	return ""
}

// torsos looks for directories in a set that have shards of PyTorch and nothing that says what is in them.
func torsos(inside []Entry) (why string) {
	whole := map[string]bool{}
	for _, e := range inside {
		if dir, base := split(e.Name); base == ".metadata" && e.Kind == File {
			whole[dir] = true
		}
	}
	for _, e := range inside[1:] {
		if dir, base := split(e.Name); shard().MatchString(base) && !whole[dir] {
			return "there is no .metadata beside " + strings.TrimPrefix(e.Name, inside[0].Name+"/")
		}
	}
	return ""
}

// unlike looks for parameters of which a universal checkpoint of DeepSpeed has not all files that others have (deepspeed/checkpoint/ds_to_universal.py, b555aa53): zero/PARAMETER/fp32.pt and the states of
// its optimizer.
func unlike(inside []Entry) (why string) {
	states, has := map[string]bool{"fp32.pt": true}, map[string]map[string]bool{}
	for _, e := range inside[1:] {
		dir, base := split(strings.TrimPrefix(e.Name, inside[0].Name+"/"))
		if e.Kind != File || !strings.HasPrefix(dir, "zero/") || !strings.HasSuffix(base, ".pt") {
			continue
		}
		if has[dir] == nil {
			has[dir] = map[string]bool{}
		}
		states[base], has[dir][base] = true, true
	}
	for dir, have := range has {
		for base := range states {
			if !have[base] {
				return "there is no " + base + " in " + dir + ", as in others"
			}
		}
	}
	return ""
}

func split(name string) (dir, base string) {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)], name[i+1:]
}

// mayBeEmpty says whether a file without content is nothing to worry about: a mark, or one of Python's packages.
func mayBeEmpty(name string) bool {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return slices.Contains(Marks, base) || base == "__init__.py" || base == ".nemo_keep"
}

// lacks looks for shards that the names of others speak of, as model-00001-of-00003.safetensors does, and for their index.
func lacks(names []string) (why string) {
	type group struct{ before, of, behind string }
	have := map[group]map[string]bool{}
	for _, name := range names {
		if m := numbered().FindStringSubmatch(name); m != nil {
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
		if index := indexOf(g.before, g.behind); index != "" && !slices.Contains(names, index) {
			return "there is no " + index + " in it, without which its shards are not loaded"
		}
	}
	return ""
}

// indexOf is the file without which shards of weights are not loaded (SAFE_WEIGHTS_INDEX_NAME and WEIGHTS_INDEX_NAME of transformers/utils/__init__.py); "" is none.
func indexOf(before, behind string) string {
	switch name := strings.TrimSuffix(before, "-") + behind; name {
	case "model.safetensors", "pytorch_model.bin":
		return name + ".index.json"
	}
	return ""
}
