package checkpoint

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// Profiles are all that a person can name, by name.
func Profiles() (all []Profile) {
	for p := range forms {
		if p != Mixed {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// Guess finds out which framework wrote the checkpoints in a folder. It looks at the names in it and, where these say nothing, or speak of files alone, at what is in the newest directory. Plain
// is a folder without a sign of one, and Mixed one with signs of several.
func Guess(ctx context.Context, f Folder) (Profile, error) {
	top, err := f.Top(ctx)
	if err != nil {
		return "", err
	}
	all, directories := guessNames(top)
	if !directories {
		for _, e := range newestFirst(top) {
			if e.Kind != Dir {
				continue
			}
			t, err := f.Deep(ctx, top, e.Name)
			if unseen(err) {
				continue
			}
			if err != nil {
				return "", err
			}
			if p := guessInside(t.under(e.Name)); p != "" {
				all = append(all, p)
				break
			}
		}
	}
	slices.Sort(all)
	switch all = slices.Compact(all); len(all) {
	case 0:
		return Plain, nil
	case 1:
		return all[0], nil
	}
	return Mixed, nil
}

// guessNames are those of which names directly in a folder speak. directories says that some of these are those of directories.
func guessNames(top Tree) (all []Profile, directories bool) {
	for _, e := range top.top() {
		switch {
		case e.Name == megatronTracker, e.Kind == Dir && iteration().MatchString(e.Name):
			all, directories = append(all, Megatron), true
		case e.Kind == Dir && trainer().MatchString(e.Name):
			all, directories = append(all, HF), true
		case strings.HasSuffix(e.Name, unfinished):
			all, directories = append(all, NeMo), true
		case e.Kind == File && nemoFile(e.Name):
			all = append(all, NeMo)
		}
	}
	return all, directories
}

// profileIn is the framework of a set of a folder. inside begins with itself.
func profileIn(p Profile, t Tree, inside []Entry) Profile {
	name := inside[0].Name
	switch {
	case p != Mixed:
		return p
	case inside[0].Kind == File, slices.ContainsFunc(nemoMarkers(name), func(marker string) bool { return t.under(marker) != nil }):
		return NeMo
	case iteration().MatchString(name):
		return Megatron
	case trainer().MatchString(name):
		return HF
	case strings.Contains(name, ".orbax-checkpoint-tmp"):
		return Orbax
	}
	return cmp.Or(guessInside(inside), Plain)
}

// guessInside finds it out by what is in a set; "" is not.
func guessInside(inside []Entry) Profile {
	names := direct(inside)
	switch {
	case slices.ContainsFunc(names, deepShard().MatchString):
		return DeepSpeed
	case slices.Contains(names, orbaxMetadata), slices.Contains(names, "_METADATA"), has(inside, itemMetadata(inside)):
		return Orbax
	case forms[DCP].holds("", names):
		return DCP
	case has(inside, "weights/.metadata"), has(inside, "model_weights/.metadata"):
		return NeMo
	}
	for _, m := range Marks {
		if slices.Contains(names, m) {
			return Plain
		}
	}
	return ""
}
