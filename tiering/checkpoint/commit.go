package checkpoint

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"datamove.dev/mover"
)

// Commit is what [Committed] says: these are the files of the set, and all of them are there. It is written last: by the trainer that saves, with "datamove
// checkpoint commit", and by the copy of the set, with the level at which the copy was checked.
type Commit struct {
	Created time.Time
	Save    string        // which save of the set it is of, where it was copied from; "" is this one
	Level   mover.Level   // at which a copy was checked; Unchecked is no copy, or one that is damaged
	Checked time.Time     // when it was read again since, and was as it was; zero is never
	From    string        // where it was copied from; "" is none
	Tags    []string      // for which retention keeps it
	Took    time.Duration // that the copy took
	Files   []Committing  // by name
	// Torn says why what is there says nothing: another program wrote it, or it is damaged. "" is nothing of that. It is not written.
	Torn string
}

// RecordOf is where the Commit of a set is: in its directory, or beside its only file.
func RecordOf(set string, dir bool) string {
	if dir {
		return set + "/" + Committed
	}
	return set + besideIt
}

// besideIt ends the name of a record that is beside a file.
const besideIt = "." + Committed

// Committing is a file of a set.
type Committing struct {
	Name     string // in the set
	Size     int64
	Modified int64  // ns; 0 is not known
	CRC      uint64 // CRC-64/NVME of its content
	HasCRC   bool
}

const (
	commitFormat  = "datamove-commit"
	commitVersion = 1
	commitMost    = 32 << 20 // bytes that are read of one
	tagsMost      = 16
	saveMost      = 64
	torn          = Committed + " is damaged"
)

// written is a Commit in JSON.
type written struct {
	Format  string          `json:"format"`
	Version int             `json:"version"`
	Created time.Time       `json:"created"`
	Save    string          `json:"save,omitempty"`
	Level   string          `json:"level,omitempty"`
	Checked time.Time       `json:"checked,omitzero"`
	From    string          `json:"from,omitempty"`
	Tags    []string        `json:"tags,omitempty"`
	Took    float64         `json:"took_seconds,omitempty"`
	Files   json.RawMessage `json:"files"`
	Digest  string          `json:"digest"` // SHA-256 of files, without white space
}

type writtenFile struct {
	Name   string `json:"name"`
	Name64 []byte `json:"name64,omitempty"` // where it is no UTF-8
	Size   int64  `json:"size"`
	Mtime  int64  `json:"mtime_ns,omitempty"`
	CRC    string `json:"crc64nvme,omitempty"`
}

// Encode is what stands in the file.
func (c Commit) Encode() ([]byte, error) {
	all := make([]writtenFile, 0, len(c.Files))
	for _, f := range c.Files {
		w := writtenFile{Name: f.Name, Size: f.Size, Mtime: f.Modified}
		if !utf8.ValidString(f.Name) {
			w.Name, w.Name64 = strings.ToValidUTF8(f.Name, "\uFFFD"), []byte(f.Name)
		}
		if f.HasCRC {
			w.CRC = fmt.Sprintf("%016x", f.CRC)
		}
		all = append(all, w)
	}
	files, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	w := written{Format: commitFormat, Version: commitVersion, Created: c.Created.UTC(), Save: c.Save, Checked: c.Checked.UTC(), From: c.From, Tags: c.Tags, Took: c.Took.Seconds(), Files: files, Digest: digestOf(files)}
	if c.Level != mover.Unchecked {
		w.Level = c.Level.String()
	}
	text, err := json.Marshal(w)
	if err == nil && len(text) >= commitMost {
		err = fmt.Errorf("%w: the checkpoint has more files than its commit can name", mover.ErrRefused)
	}
	return append(text, '\n'), err
}

func digestOf(files []byte) string {
	sum := sha256.Sum256(files)
	return hex.EncodeToString(sum[:])
}

// ParseCommit reads what stands in the file. The text of another program, or a damaged one, says in Torn what it is.
func ParseCommit(text []byte) Commit {
	var w written
	if !bytes.Contains(text[:min(len(text), 256)], []byte(commitFormat)) {
		return Commit{Torn: Committed + " is not one of datamove"}
	}
	damaged := Commit{Torn: torn}
	if len(text) >= commitMost || json.Unmarshal(text, &w) != nil || w.Format != commitFormat || w.Version != commitVersion {
		return damaged
	}
	var compact bytes.Buffer
	if json.Compact(&compact, w.Files) != nil || digestOf(compact.Bytes()) != w.Digest {
		return damaged
	}
	c := Commit{Created: w.Created, Save: w.Save, Level: levelNamed(w.Level), Checked: w.Checked, From: w.From, Took: time.Duration(w.Took * 1e9)}
	c.Tags = slices.DeleteFunc(w.Tags[:min(len(w.Tags), tagsMost)], func(t string) bool { return !ValidTag(t) })
	var files []writtenFile
	if json.Unmarshal(w.Files, &files) != nil || len(files) > entriesMost {
		return damaged
	}
	for _, f := range files {
		one := Committing{Name: f.Name, Size: f.Size, Modified: f.Mtime}
		if f.Name64 != nil {
			one.Name = string(f.Name64)
		}
		if f.CRC != "" {
			if _, err := fmt.Sscanf(f.CRC, "%016x", &one.CRC); err != nil {
				return damaged
			}
			one.HasCRC = true
		}
		if one.Name == "" || !mover.ValidName(one.Name) || one.Size < 0 {
			return damaged
		}
		c.Files = append(c.Files, one)
	}
	if !slices.IsSortedFunc(c.Files, byName) || len(c.Save) > saveMost || !Speakable(c.Save) {
		return damaged
	}
	return c
}

func byName(a, b Committing) int { return cmp.Compare(a.Name, b.Name) }

// levelNamed is the level of a name; Unchecked is an unknown one.
func levelNamed(name string) mover.Level {
	for l := mover.Unchecked; l <= mover.Read; l++ {
		if l.String() == name {
			return l
		}
	}
	return mover.Unchecked
}

// ValidTag says whether a word can be a tag.
func ValidTag(tag string) bool {
	return tag != "" && len(tag) <= 64 && strings.Trim(tag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// Verified says whether the copy was checked by the store, or by reading it.
func (c Commit) Verified() bool { return c.Level == mover.Server || c.Level == mover.Read }

// Summed says whether the checksum of each file is known from when the set was committed.
func (c Commit) Summed() bool {
	return len(c.Files) > 0 && !slices.ContainsFunc(c.Files, func(f Committing) bool { return !f.HasCRC })
}

// ReadWithin says whether the set was read less than some time ago, and was as it was: when it came, if it is a copy, or since. Clocks differ: one that says that it will be is held to the same.
func (c Commit) ReadWithin(d time.Duration, now time.Time) bool {
	return c.Verified() && now.Sub(c.Created).Abs() < d || now.Sub(c.Checked).Abs() < d
}

// lacks says what of a set is not as it was when it was committed. What was added does not count.
func (c Commit) lacks(inside []Entry, loose bool) (why string) {
	have := make(map[string]Entry, len(inside))
	for _, e := range inside {
		have[strings.TrimPrefix(e.Name, inside[0].Name+"/")] = e
	}
	if len(c.Files) == 0 {
		return "it was committed without a file in it"
	}
	for _, f := range c.Files {
		e, there := have[f.Name]
		switch {
		case !there:
			return f.Name + " is not there, and was when it was committed"
		case e.Kind != File || e.Size != f.Size:
			return f.Name + " has another size than when it was committed"
		case !loose && f.Modified != 0 && !SameTime(e.Modified, f.Modified):
			return f.Name + " was written again after it was committed"
		}
	}
	return ""
}

// SameTime compares times of which one may be kept in seconds, or in microseconds.
func SameTime(a, b int64) bool {
	if a%1e9 == 0 || b%1e9 == 0 {
		return a/1e9 == b/1e9
	}
	return a/1e3 == b/1e3
}

// CommitOf is the commit of a set as it looks, without checksums.
func CommitOf(t Tree, set string) Commit {
	c := Commit{}
	for _, e := range t.under(set) {
		name := strings.TrimPrefix(e.Name, set+"/")
		if e.Kind != File || name == Committed {
			continue
		}
		f := Committing{Name: name, Size: e.Size, Modified: e.Modified}
		if t.Loose {
			f.Modified = 0
		}
		c.Files = append(c.Files, f)
	}
	return c
}
