package auditlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// files are the lines of a log, by the number of its file: 1, 2, 3.
type files map[int][]string

// model makes a log of three files, of a header and three decisions each.
func model(t testing.TB, o Options) (files, Head) {
	dir := t.TempDir()
	l := opened(t, dir, o)
	for n := range 9 {
		if n%3 == 0 {
			must.Do(t, l.Rotate())
		}
		appended(t, l, fmt.Sprintf("decision %d", n))
	}
	must.Do(t, l.Close())
	return readFiles(t, dir), l.Head()
}

// position is the first sequence of file n of model.
func position(n int) uint64 { return uint64(4*n - 3) }

func readFiles(t testing.TB, dir string) files {
	f := files{}
	for n := 1; n <= 3; n++ {
		text := must.Get(os.ReadFile(filepath.Join(dir, fileName(position(n)))))(t)
		f[n] = strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
		f[n][len(f[n])-1] += "\n"
	}
	return f
}

func (f files) write(t testing.TB) (dir string) {
	dir = t.TempDir()
	for n, lines := range f {
		must.Do(t, os.WriteFile(filepath.Join(dir, fileName(position(n))), []byte(strings.Join(lines, "")), 0o600))
	}
	return dir
}

func (f files) clone() files {
	c := files{}
	for n, lines := range f {
		c[n] = slices.Clone(lines)
	}
	return c
}

// reseal gives a line the hash of its text, as the package comment says it.
func reseal(line string) string {
	object, _, _ := strings.Cut(line, `,"hash":"`)
	sum := sha256.Sum256([]byte(object + "}"))
	return object + `,"hash":"` + hex.EncodeToString(sum[:]) + "\"}\n"
}

// rechain writes all lines from line i of file n on anew, so that they continue
// what stands before them.
func (f files) rechain(n, i int) {
	previous := ""
	for _, file := range slices.Sorted(maps.Keys(f)) {
		for k, line := range f[file] {
			if previous != "" && (file > n || file == n && k >= i) {
				before, rest, _ := strings.Cut(line, `"previous":"`)
				f[file][k] = reseal(before + `"previous":"` + previous + rest[2*sha256.Size:])
			}
			_, end, _ := strings.Cut(f[file][k], `,"hash":"`)
			previous = end[:2*sha256.Size]
		}
	}
}

// tampering is what somebody does to a log, and where it is found.
type tampering struct {
	name string
	do   func(f files)
	file int // 0: nobody can tell without a head
	line int64
	why  string
}

func edit(n, i int, old, with string) func(files) {
	return func(f files) { f[n][i] = strings.Replace(f[n][i], old, with, 1) }
}

var tamperings = []tampering{
	{"a byte", edit(2, 2, "decision 4", "decision 5"), 2, 3, "was changed"},
	{"a digit of a hash", func(f files) { f[2][2] = f[2][2][:len(f[2][2])-4] + "x\"}\n" }, 2, 3, "was changed"},
	{"a verdict", edit(3, 1, "allow", "deny"), 3, 2, "was changed"},
	{"a space", edit(1, 1, ",", ", "), 1, 2, "was changed"},
	{"the end of a line", edit(1, 1, "\n", "\r\n"), 1, 2, "no record"},
	{"a header", edit(2, 0, "2026", "2025"), 2, 1, "was changed"},
	{"a verdict, with a new hash", func(f files) { f[2][2] = reseal(strings.Replace(f[2][2], "allow", "deny", 1)) }, 2, 4, "does not continue"},
	{"the last verdict of a file, with a new hash", func(f files) { f[1][3] = reseal(strings.Replace(f[1][3], "allow", "deny", 1)) }, 2, 1, "does not continue"},
	{"the last verdict of all, with a new hash", func(f files) { f[3][3] = reseal(strings.Replace(f[3][3], "allow", "deny", 1)) }, 0, 4, "known with another hash"},
	{"another form, with a new hash", func(f files) { f[2][2] = reseal(strings.Replace(f[2][2], `"uid":1000`, `"uid": 1000`, 1)) }, 2, 3, "not as a record is written"},
	{"a field twice, with a new hash", func(f files) {
		f[2][2] = reseal(strings.Replace(f[2][2], `,"decision"`, `,"decision":"deny","decision"`, 1))
	}, 2, 3, "not as a record is written"},
	{"a field of nobody, with a new hash", func(f files) { f[2][2] = reseal(strings.Replace(f[2][2], `,"decision"`, `,"x":1,"decision"`, 1)) }, 2, 3, "not as a record is written"},
	{"a kind of nobody, with a new hash", func(f files) {
		before, _, _ := strings.Cut(f[2][2], `,"uid"`)
		f[2][2] = reseal(strings.Replace(before, `"decision"`, `"remark"`, 1))
	}, 2, 3, "not as a record is written"},
	{"a header of no log, with a new hash", func(f files) {
		before, _, _ := strings.Cut(f[1][0], `,"chain"`)
		f[1][0] = reseal(before)
	}, 1, 1, "not as a record is written"},
	{"a sequence, with a new hash", func(f files) { f[2][2] = reseal(strings.Replace(f[2][2], `"sequence":7`, `"sequence":8`, 1)) }, 2, 3, "record 8 stands where 7 belongs"},

	{"a line is removed", func(f files) { f[2] = slices.Delete(f[2], 2, 3) }, 2, 3, "record 8 stands where 7 belongs: records were removed"},
	{"a line is removed, the next ones have its number", func(f files) {
		f[3] = f[3][:3]
		f[3][2] = reseal(strings.Replace(f[3][2], `"sequence":11`, `"sequence":10`, 1))
		f[3] = slices.Delete(f[3], 1, 2)
	}, 3, 2, "does not continue"},
	{"a line is there twice", func(f files) { f[2] = slices.Insert(f[2], 2, f[2][1]) }, 2, 3, "record 6 stands where 7 belongs: it was inserted"},
	{"a forged line is inserted", func(f files) {
		f[2] = slices.Insert(f[2], 2, f[2][2])
		f[2][2] = reseal(strings.Replace(f[2][2], "decision 4", "forged", 1))
	}, 2, 4, "record 7 stands where 8 belongs: it was inserted"},
	{"a line of nothing is inserted", func(f files) { f[2] = slices.Insert(f[2], 2, "\n") }, 2, 3, "no record"},
	{"a line of noise is inserted", func(f files) { f[2] = slices.Insert(f[2], 2, "\x00\xff{[\n") }, 2, 3, "no record"},
	{"a long line is inserted", func(f files) { f[2] = slices.Insert(f[2], 2, strings.Repeat("x", 1<<20)+"\n") }, 2, 3, "longer than 131072 bytes"},
	{"lines are swapped", func(f files) { f[2][1], f[2][2] = f[2][2], f[2][1] }, 2, 2, "record 7 stands where 6 belongs"},
	{"a line is cut short", func(f files) { f[2][2] = f[2][2][:100] + "\n" }, 2, 3, "no record"},
	{"two lines are made one", edit(2, 2, "\n", ""), 2, 3, "was changed"},

	{"the end of a file is removed", func(f files) { f[1] = f[1][:3] }, 2, 1, "records 4 to 4 are missing before it"},
	{"a file ends in the middle of a line", func(f files) { f[1][3] = f[1][3][:50] }, 1, 4, "has no end"},
	{"a file ends without a newline", func(f files) { f[1][3] = strings.TrimSuffix(f[1][3], "\n") }, 1, 4, "has no end"},
	{"a file is emptied", func(f files) { f[2] = nil }, 2, 1, "is empty"},
	{"a file is removed", func(f files) { delete(f, 2) }, 3, 1, "records 5 to 8 are missing before it: a file was removed"},
	{"the first file is removed", func(f files) { delete(f, 1) }, 2, 1, "records 1 to 4 are missing before it"},
	{"files are swapped", func(f files) { f[2], f[3] = f[3], f[2] }, 2, 1, "has the name of record 5 and begins with 9"},
	{"a file is there twice", func(f files) { f[3] = f[2] }, 3, 1, "has the name of record 9 and begins with 5"},
	{"a header is removed", func(f files) { f[2] = f[2][1:] }, 2, 1, "begins with a header"},
	{"a header is there twice", func(f files) { f[2] = slices.Insert(f[2], 1, f[2][0]) }, 2, 2, "has no other one"},
	{"two files are made one", func(f files) { f[2] = slices.Concat(f[2], f[3]); delete(f, 3) }, 2, 5, "has no other one"},

	{"the last line is removed", func(f files) { f[3] = f[3][:3] }, 0, 4, "record 12 is known, and the log ends before it"},
	{"the last file is removed", func(f files) { delete(f, 3) }, 0, 5, "record 12 is known, and the log ends before it"},
	{"the last line is half there", func(f files) { f[3][3] = f[3][3][:50] }, 3, 4, "has no end"},
	{"all is written anew", func(f files) { f[2][2] = strings.Replace(f[2][2], "allow", "deny", 1); f.rechain(1, 1) }, 0, 4, "record 12 is known with another hash"},
}

// TestTampering changes a log in each way, and looks where that is found: without a
// head, and with one that is known from elsewhere.
//
//safety:7 an audit log that is changed in any way is found out
func TestTampering(t *testing.T) {
	good, head := model(t, Options{now: clock()})
	for _, row := range tamperings {
		f := good.clone()
		row.do(f)
		dir := f.write(t)
		_, err := Verify(t.Context(), dir)
		if row.file == 0 {
			must.Do(t, err)
			row.file = slices.Max(slices.Collect(maps.Keys(f)))
		} else {
			found(t, row, err)
		}
		_, err = Verify(t.Context(), dir, head)
		found(t, row, err)
	}
}

func found(t *testing.T, row tampering, err error) {
	t.Helper()
	var b *Break
	if !errors.As(err, &b) || !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("%s: %v", row.name, err)
		return
	}
	if b.File != fileName(position(row.file)) || b.Line != row.line || !strings.Contains(b.Why, row.why) {
		t.Errorf("%s: %v; want file %d, line %d, %s", row.name, err, row.file, row.line, row.why)
	}
}

func TestFileOfAnotherLog(t *testing.T) {
	f, _ := model(t, Options{now: clock()})
	other, _ := model(t, Options{now: clock()})
	f[3] = other[3]
	_, err := Verify(t.Context(), f.write(t))
	found(t, tampering{"a file of another log", nil, 3, 1, "belongs to another log"}, err)
}

// TestFilesMovedAway verifies what is left of a log from a head that is known.
func TestFilesMovedAway(t *testing.T) {
	f, head := model(t, Options{now: clock()})
	older := heads(t, f)
	delete(f, 1)
	dir := f.write(t)
	s := whole(t, dir, older[2], older[4], older[7], head) // 2 is covered by 4
	if s.First != 5 || s.Decisions != 6 || s.Head != head {
		t.Errorf("%+v", s)
	}
	_, err := Verify(t.Context(), dir, older[2], head)
	found(t, tampering{"nothing tells what stood before", nil, 2, 1, "records 1 to 4 are missing"}, err)
	wrong := older[4]
	wrong.Hash[0]++
	_, err = Verify(t.Context(), dir, wrong, head)
	found(t, tampering{"something else stood before", nil, 2, 1, "does not continue"}, err)
}

// heads returns the heads of a log by their sequences.
func heads(t *testing.T, f files) map[uint64]Head {
	all := map[uint64]Head{}
	for e, err := range Entries(t.Context(), f.write(t)) {
		must.Do(t, err)
		all[e.Sequence] = Head{e.Sequence, e.Hash}
	}
	return all
}

// TestBeingWritten reads a log while its last line is being written.
func TestBeingWritten(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, Options{})
	appended(t, l, "a")
	head := l.Head()
	f, err := os.OpenFile(filepath.Join(dir, fileName(1)), os.O_WRONLY|os.O_APPEND, 0)
	must.Do(t, err)
	_, err = f.WriteString(`{"sequence":3,"kind":"dec`)
	must.Do(t, errors.Join(err, f.Close()))
	if s := whole(t, dir, head); s.Head != head || !s.InUse {
		t.Errorf("%+v", s)
	}
	must.Do(t, l.Close())
	_, err = Verify(t.Context(), dir, head)
	found(t, tampering{"nobody writes", nil, 1, 3, "has no end"}, err)
}

func TestLaterVersion(t *testing.T) {
	f, _ := model(t, Options{now: clock()})
	f[1][0] = reseal(strings.Replace(f[1][0], `"version":1`, `"version":2`, 1))
	if _, err := Verify(t.Context(), f.write(t)); !errors.Is(err, mover.ErrUnsupported) || !strings.Contains(err.Error(), "version 2") {
		t.Error(err)
	}
}

// TestOddFiles puts other things in the place of a file.
func TestOddFiles(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a symlink": func(path string) error { return os.Symlink(filepath.Base(path)+"-", path) },
		"a FIFO":    func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a folder":  func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		f, _ := model(t, Options{now: clock()})
		dir := f.write(t)
		path := filepath.Join(dir, fileName(position(2)))
		must.Do(t, os.Rename(path, path+"-"))
		must.Do(t, make(path))
		_, err := Verify(t.Context(), dir)
		found(t, tampering{name, nil, 2, 1, "no plain file"}, err)
	}
}

// FuzzTamper replaces bytes of a log by others: with a known head that is found,
// unless the log is the same as before.
func FuzzTamper(f *testing.F) {
	good, head := model(f, Options{now: clock()})
	f.Add(uint8(1), uint16(0), uint16(0), []byte("x"))
	f.Add(uint8(3), uint16(100), uint16(60_000), []byte{})
	f.Add(uint8(2), uint16(500), uint16(1), []byte{0, '\n'})
	f.Add(uint8(2), uint16(900), uint16(700), []byte(good[2][2]))
	dir := good.write(f)
	f.Fuzz(func(t *testing.T, file uint8, off, length uint16, with []byte) {
		n := 1 + int(file)%3
		text := strings.Join(good[n], "")
		start := min(int(off), len(text))
		end := min(start+int(length), len(text))
		changed := text[:start] + string(with) + text[end:]
		path := filepath.Join(dir, fileName(position(n)))
		must.Do(t, os.WriteFile(path, []byte(changed), 0o600))
		_, err := Verify(context.Background(), dir, head)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		if (err == nil) != (changed == text) {
			t.Errorf("file %d, %d to %d became %q: %v", n, start, end, with, err)
		}
	})
}

// FuzzReader reads anything as the last file of a log: Verify ends, and so does Open,
// which makes a good log of what it takes.
func FuzzReader(f *testing.F) {
	good, _ := model(f, Options{now: clock()})
	text := strings.Join(good[1], "")
	f.Add([]byte(text))
	f.Add([]byte(text + "\x00\x00\n"))
	f.Add([]byte(text[:len(text)-9]))
	f.Add(bytes.Repeat([]byte("x"), maxLine+1))
	f.Add([]byte(reseal(`{"sequence":1,"kind":"header","version":9,"format":"datamove-audit"}`)))
	f.Fuzz(func(t *testing.T, file []byte) {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, fileName(1)), file, 0o600))
		_, before := Verify(context.Background(), dir)
		l, err := Open(dir, Options{NoSync: true})
		if err != nil {
			if before == nil {
				t.Errorf("whole, but %v", err)
			}
			return
		}
		appended(t, l, "more")
		must.Do(t, l.Close())
		whole(t, dir, l.Head())
	})
}
