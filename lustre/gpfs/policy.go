package gpfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Scan is how mmapplypolicy looks at files.
type Scan struct {
	// Where is a file system, by its name, or a directory of one, by its path.
	Where string
	// Nodes scan in parallel: names of nodes or of a class; none is this node alone.
	Nodes []string
	// Shared is a directory on a file system that all nodes share, for their work; "" is none.
	Shared string
	// Threads is how many work on each node; 0 is the default of GPFS.
	Threads int
	// Inside keeps the scan to the fileset of a directory.
	Inside bool
	// Scratch is a directory for the rules and the lists, which can be large; "" is that of the system.
	Scratch string
}

func (s Scan) arguments() ([]string, error) {
	if strings.HasPrefix(s.Where, "/") {
		if err := checkPath("directory", s.Where); err != nil {
			return nil, err
		}
	} else if err := checkName("file system", s.Where); err != nil {
		return nil, err
	}
	arguments := []string{s.Where}
	for _, node := range s.Nodes {
		if err := checkName("node", node); err != nil {
			return nil, err
		}
	}
	if len(s.Nodes) > 0 {
		arguments = append(arguments, "-N", strings.Join(s.Nodes, ","))
	}
	if s.Shared != "" {
		if err := checkPath("shared directory", s.Shared); err != nil {
			return nil, err
		}
		arguments = append(arguments, "-g", s.Shared)
	}
	if s.Threads > 0 {
		arguments = append(arguments, "-a", strconv.Itoa(min(s.Threads, 1024)))
	}
	if s.Inside {
		arguments = append(arguments, "--scope", "fileset")
	}
	return append(arguments, "-L", "1"), nil
}

// Lists are what a scan found, one list for each rule. They are files until Close.
type Lists struct {
	// Skipped is how many files and directories the scan passed by, with or without an
	// error: the lists may lack them. It is -1 where the command did not say.
	Skipped int64

	dir   string
	names map[string]bool
}

// Find runs mmapplypolicy with rules that list, and returns their lists. It takes as long
// as the scan does; the caller's context ends it.
func (c *Commands) Find(ctx context.Context, s Scan, rules []Rule) (*Lists, error) {
	names := map[string]bool{}
	for _, r := range rules {
		if r.Verb != List {
			return nil, fmt.Errorf("rule %q: %w: only lists are found", r.Name, ErrName)
		}
		names[r.Name] = true
	}
	dir, said, err := c.apply(ctx, s, rules, "defer")
	if err != nil {
		return nil, err
	}
	return &Lists{Skipped: skipped(said), dir: dir, names: names}, nil
}

// What a scan says of itself at its end, once for directories and once for inodes. Source:
// "mmapplypolicy -L 5", IBM Storage Scale 5.2.3.
var scanLine = regexp.MustCompile(`(?m)^\[I\] \w+ scan: .*\b(\d+) 'skipped' files and/or errors`)

func skipped(said string) int64 {
	lines := scanLine.FindAllStringSubmatch(said, -1)
	if len(lines) == 0 {
		return -1
	}
	var all int64
	for _, line := range lines {
		n, err := strconv.ParseInt(line[1], 10, 64)
		if err != nil {
			return -1
		}
		all += min(n, math.MaxInt64-all)
	}
	return all
}

// Move runs mmapplypolicy with rules that migrate, and waits until the files are moved.
// try only looks whether GPFS takes the rules and what they would find.
func (c *Commands) Move(ctx context.Context, s Scan, rules []Rule, try bool) error {
	for _, r := range rules {
		if r.Verb != Migrate {
			return fmt.Errorf("rule %q: %w: only migrations are done", r.Name, ErrName)
		}
	}
	how := "yes"
	if try {
		how = "test"
	}
	dir, _, err := c.apply(ctx, s, rules, how)
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// apply writes the rules into a directory that only we can read, runs them there, and
// returns what was printed. The directory is the caller's when there is no error.
func (c *Commands) apply(ctx context.Context, s Scan, rules []Rule, how string) (dir, said string, err error) {
	text, err := WriteRules(rules)
	if err != nil {
		return "", "", err
	}
	arguments, err := s.arguments()
	if err != nil {
		return "", "", err
	}
	dir, err = os.MkdirTemp(s.Scratch, ".datamove-policy-*")
	if err != nil {
		return "", "", err
	}
	policy := filepath.Join(dir, "rules")
	err = os.WriteFile(policy, []byte(text), 0o600)
	if err == nil {
		arguments = append(arguments, "-P", policy, "-I", how, "-f", filepath.Join(dir, "found"))
		said, err = c.runLong(ctx, "mmapplypolicy", arguments...)
	}
	if err != nil {
		return "", "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, said, nil
}

// Read yields the list of a rule. A rule that found nothing has no file, and no entries.
func (l *Lists) Read(rule string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		if !l.names[rule] {
			yield(Listed{}, fmt.Errorf("list %q: %w: no rule has that name", rule, ErrName))
			return
		}
		f, err := os.Open(filepath.Join(l.dir, "found.list."+rule))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Listed{}, err)
			return
		}
		defer f.Close()
		for entry, err := range ReadList(f) {
			if !yield(entry, err) {
				return
			}
		}
	}
}

// Close removes the lists.
func (l *Lists) Close() error { return os.RemoveAll(l.dir) }
