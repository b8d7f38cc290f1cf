package pricing

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/must"
)

// story is one of testdata/stories.txt.
type story struct {
	name   string
	before map[string]Amount
	uses   []Usage
	costs  []Money // by hand, of each use
	total  Money
}

// TestStories bills the stories as they were worked out by hand, to a millionth of a dollar.
func TestStories(t *testing.T) {
	b := opened(t, "testdata/golden.yaml")
	stories := told(t)
	if len(stories) < 6 {
		t.Fatalf("only %d stories", len(stories))
	}
	for _, s := range stories {
		bill, err := b.Bill(s.uses, s.before, b.Date.Begin())
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		for i, line := range bill.Lines {
			if line.Cost != s.costs[i] {
				t.Errorf("%s: %s costs %d, by hand %d millionths\n%s", s.name, line.Rate, line.Cost, s.costs[i], line.Basis)
			}
		}
		if bill.Total != s.total || len(bill.Lines) != len(s.uses) || len(bill.Warnings) != 0 {
			t.Errorf("%s: %d lines, %v, by hand %v; warnings %q", s.name, len(bill.Lines), bill.Total, s.total, bill.Warnings)
		}
	}
}

// TestSecondCalculator has testdata/calculator.py reckon the same, with the book of the stories and with those that we ship: to the cent.
func TestSecondCalculator(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	for _, file := range []string{"testdata/golden.yaml", "../../../deploy/prices/us-east-1.yaml", "../../../deploy/prices/us-west-2.yaml"} {
		out, err := exec.Command(python, "testdata/calculator.py", file, "testdata/stories.txt").CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, out)
		}
		theirs, b := bytes.Fields(out), opened(t, file)
		for i, s := range told(t) {
			bill, err := b.Bill(s.uses, s.before, b.Date.Begin())
			if err != nil {
				t.Fatalf("%s: %s: %v", file, s.name, err)
			}
			if len(theirs) < 2+len(bill.Lines) || string(theirs[1]) != strconv.Itoa(i+1) {
				t.Fatalf("%s: the calculator does not speak of story %d:\n%s", file, i+1, out)
			}
			for n, line := range bill.Lines {
				their, err := ParseMoney(string(theirs[2+n]))
				if err != nil || line.Cost-their > Cent/2 || their-line.Cost > Cent/2 {
					t.Errorf("%s: %s: %s costs %v, says the calculator %v (%v)", file, s.name, line.Rate, line.Cost, their, err)
				}
			}
			theirs = theirs[2+len(bill.Lines):]
		}
		if len(theirs) > 0 {
			t.Errorf("%s: the calculator has more: %s", file, theirs)
		}
	}
}

func opened(t *testing.T, file string) *Book {
	t.Helper()
	b := must.Get(Open(file))(t)
	return b
}

// told reads the stories.
func told(t *testing.T) (all []*story) {
	t.Helper()
	f := must.Get(os.Open("testdata/stories.txt"))(t)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		left, right, _ := strings.Cut(lines.Text(), "=")
		words := strings.Fields(left)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if words[0] == "story" {
			all = append(all, &story{name: strings.Join(words[1:], " "), before: map[string]Amount{}})
			continue
		}
		s := all[len(all)-1]
		switch words[0] {
		case "before":
			s.before[words[1]] = counted(t, words[2:])
		case "use":
			s.uses = append(s.uses, Usage{words[1], counted(t, words[2:]), s.name})
			s.costs = append(s.costs, dollars(t, right))
		case "total":
			s.total = dollars(t, words[1])
		default:
			t.Fatalf("unknown line %q", lines.Text())
		}
	}
	return all
}

func dollars(t *testing.T, s string) Money {
	t.Helper()
	m := must.Get(ParseMoney(s))(t)
	return m
}

// counted reads an amount: "stored BYTES FROM HOURS".
func counted(t *testing.T, words []string) Amount {
	t.Helper()
	var n, hours int64
	from := time.Time{}
	var err error
	_, err = fmt.Sscan(words[1], &n)
	if err == nil && len(words) > 2 {
		_, err = fmt.Sscan(words[len(words)-1], &hours)
	}
	if err == nil && len(words) > 3 {
		from, err = time.Parse(time.RFC3339, words[2])
	}
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	d := time.Duration(hours) * time.Hour
	switch words[0] {
	case "bytes":
		return Bytes(n)
	case "requests":
		return Requests(n)
	case "hours":
		return Hours(n, d)
	case "stored":
		return Stored(n, from, d)
	case "iops":
		return IOPS(n, from, d)
	}
	t.Fatalf("unknown kind %q", words)
	return Amount{}
}
