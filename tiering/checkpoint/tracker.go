package checkpoint

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"datamove.dev/mover"
)

// Tracker says beside the sets which is the newest.
type Tracker struct {
	Name  string
	Names string // the set that it names; "" is none that it may name
	Print Print
}

// isTracker says whether something directly in the tree is one: by its name, or a link to a set.
func isTracker(f form, t Tree, e Entry) bool {
	switch e.Kind {
	case File:
		return slices.Contains(f.trackers, e.Name)
	case Link:
		to := t.under(named(t.Texts[e.Name]))
		return slices.Contains(f.trackers, e.Name) || len(to) > 0 && to[0].Kind != Link
	}
	return false
}

func trackerOf(t Tree, e Entry) Tracker {
	x := Tracker{Name: e.Name, Print: printOf([]Entry{e}, true)}
	x.Names = t.tracked(e.Name)
	return x
}

// named is the set that the text of a tracker names, or a link leads to: one name, in the same directory.
func named(text string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), "./"), "/")
	if name == "" || name == "." || name == ".." || len(name) > 255 || strings.Contains(name, "/") || !Speakable(name) {
		return ""
	}
	return name
}

// Speakable says whether a name can be told, and asked for: it is UTF-8, and has no control characters.
func Speakable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// iterationNamed is the set that Megatron's tracker names.
func iterationNamed(text string) string {
	text = strings.TrimSpace(text)
	if text == "release" {
		return text
	}
	if n := number(text); n >= 0 {
		return fmt.Sprintf("iter_%07d", n)
	}
	return ""
}

// megatronPast says whether Megatron's tracker has come to a set.
func megatronPast(t Tree, set string) bool {
	at := iterationNamed(t.Texts[megatronTracker])
	if at == "release" || set == "release" {
		return at == set
	}
	return at != "" && StepOf(at) >= StepOf(set)
}

// deepSpeedPast says whether a tracker of DeepSpeed names a tag, or has named it before: tags have their step in the name.
func deepSpeedPast(t Tree, tracker, tag string) bool {
	at := named(t.Texts[tracker])
	if at == "" || at == tag {
		return at == tag
	}
	return withoutStep(at) == withoutStep(tag) && StepOf(tag) >= 0 && StepOf(at) > StepOf(tag)
}

// tracked is the set that a tracker names; "" is none.
func (t Tree) tracked(tracker string) string {
	if tracker == megatronTracker {
		return iterationNamed(t.Texts[tracker])
	}
	return named(t.Texts[tracker])
}

// nemoMarkers are the names of the file that marks a set of NeMo as not finished. NeMo takes the suffixes away, of which the weights' mean has one
// of its own; programs with other rules leave some of them.
func nemoMarkers(name string) []string {
	bare := strings.TrimSuffix(strings.TrimSuffix(name, ".nemo"), ".ckpt")
	all := []string{name + unfinished, bare + unfinished}
	for _, suffix := range []string{"-EMA", "-last"} {
		all = append(all, strings.TrimSuffix(bare, suffix)+unfinished)
	}
	return all
}

var (
	stepWord  = mover.Pattern(`(?i)(?:step|iter|iteration|checkpoint|ckpt)s?[-_=]?(\d+)`)
	epochWord = mover.Pattern(`(?i)epoch[-_=]?(\d+)`)
	decimal   = mover.Pattern(`\d+\.\d+`) // a loss, an accuracy: "val_loss=0.90"
	digits    = mover.Pattern(`\d+`)
)

// StepOf is the step that a name speaks of, or else its epoch; -1 is none. "epoch=3-step=1000" is 1000.
func StepOf(name string) int64 {
	if !strings.ContainsAny(name, "0123456789") {
		return -1 // most names that are compared, and an expression is dear
	}
	for _, word := range []*regexp.Regexp{stepWord(), epochWord()} {
		if m := word.FindStringSubmatch(name); m != nil {
			return number(m[1])
		}
	}
	if strings.Contains(name, ".") {
		name = decimal().ReplaceAllString(name, "")
	}
	name = name[:strings.LastIndexAny(name, "0123456789")+1]
	return number(name[len(strings.TrimRight(name, "0123456789")):])
}

func withoutStep(name string) string { return digits().ReplaceAllString(name, "#") }

// number reads digits; -1 is what is none, or too large for a step.
func number(text string) int64 {
	if text == "" || len(text) > 18 || strings.Trim(text, "0123456789") != "" {
		return -1
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// TrackerFor is the tracker without which a framework does not find a set, and what has to stand in it; "" is none.
func TrackerFor(p Profile, set string) (tracker, text string) {
	switch {
	case p == DeepSpeed:
		return "latest", set
	case p == Megatron && set == "release":
		return megatronTracker, set
	case p == Megatron:
		return megatronTracker, strconv.FormatInt(StepOf(set), 10)
	}
	return "", ""
}
