package gpfs

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of what a command prints with -Y.
const (
	maxTableRows    = 1 << 20
	maxTableColumns = 1024
)

// table is one section of -Y output. Its lines are fields between colons: the command, the
// section (often ""), HEADER or 0, a version, two reserved ones, then names or values, in
// which what is special is written %XX. Columns come and go with releases, so they are
// found by their names.
type table struct {
	command string
	columns map[string]int // -1 of a name that is there twice
	width   int
	rows    []string // lines: their fields together are ten times as large
}

const tablePrefix = 6 // fields before the first name or value

// row is one line of values.
type row struct {
	t      *table
	fields []string
	r      *reading
}

// parseTables reads -Y output into its sections. Lines that are not of the command (titles,
// notes of other parts) are left out. A section without a header is an error; one
// without rows is not.
func parseTables(command, output string) (map[string]*table, error) {
	tables := map[string]*table{}
	rows := 0
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		fields := fieldsOf(line)
		if len(fields) <= tablePrefix || !isLine(command, fields) {
			continue
		}
		if len(fields) > tablePrefix+maxTableColumns {
			return nil, fmt.Errorf("%w: a line of %d fields", ErrReply, len(fields))
		}
		section, fields := fields[1], withoutEnd(fields)
		if fields[2] == "HEADER" {
			if err := addHeader(tables, command, section, fields[tablePrefix:]); err != nil {
				return nil, err
			}
			continue
		}
		t := tables[section]
		if t == nil {
			return nil, fmt.Errorf("%w: section %q begins without a header", ErrReply, cut(section))
		}
		if rows++; rows > maxTableRows {
			return nil, fmt.Errorf("%w: more than %d lines", ErrReply, maxTableRows)
		}
		// What has more values than names is shifted.
		if len(fields)-tablePrefix > t.width {
			return nil, fmt.Errorf("%w: a line of section %q has %d values for %d columns", ErrReply, cut(section), len(fields)-tablePrefix, t.width)
		}
		t.rows = append(t.rows, line)
	}
	if len(tables) == 0 {
		return nil, fmt.Errorf("%w: %s printed no -Y output; it begins %q", ErrReply, command, cut(output))
	}
	return tables, nil
}

// fieldsOf splits a line, and into one field too many at the most.
func fieldsOf(line string) []string {
	return strings.SplitN(line, ":", tablePrefix+maxTableColumns+1)
}

func isLine(command string, fields []string) bool {
	return fields[0] == command && (fields[2] == "HEADER" || fields[2] == "0")
}

// withoutEnd leaves out what stands behind the colon at the end of a line, which some
// releases write in one of the two kinds of lines only.
func withoutEnd(fields []string) []string {
	if fields[len(fields)-1] == "" {
		return fields[:len(fields)-1]
	}
	return fields
}

// addHeader begins a section. A command that reports on several things repeats its
// header, and says the same.
func addHeader(tables map[string]*table, command, section string, names []string) error {
	t := &table{command: command, columns: map[string]int{}, width: len(names)}
	for i, name := range names {
		if _, twice := t.columns[name]; twice {
			i = -1
		}
		t.columns[name] = i
	}
	old := tables[section]
	if old == nil {
		tables[section] = t
		return nil
	}
	if old.width != t.width {
		return fmt.Errorf("%w: section %q has two headers that differ", ErrReply, cut(section))
	}
	for name, at := range t.columns {
		if was, ok := old.columns[name]; !ok || was != at {
			return fmt.Errorf("%w: section %q has two headers that differ", ErrReply, cut(section))
		}
	}
	return nil
}

// read gives the rows of a section to take, and returns the first error of their fields.
func (t *table) read(take func(row)) error {
	for _, line := range t.rows {
		r := &reading{}
		take(row{t: t, fields: withoutEnd(fieldsOf(line))[tablePrefix:], r: r})
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// text is a column's value, decoded. A column that is missing, or there twice, is an error.
func (w row) text(column string) string {
	at, ok := w.t.columns[column]
	switch {
	case !ok:
		w.fail(column, "is no column of "+w.t.command)
	case at < 0:
		w.fail(column, "is a column of "+w.t.command+" twice")
	case at >= len(w.fields):
		w.fail(column, "is missing: the line was cut off")
	default:
		value, err := percentDecode(w.fields[at])
		if err != nil && w.r.err == nil {
			w.r.err = fmt.Errorf("%s: %w", column, err)
		}
		return value
	}
	return ""
}

func (w row) number(column string) int64 {
	text := w.text(column)
	if w.r.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text[0] == '+' {
		w.fail(column, fmt.Sprintf("is %q, and not a whole number", cut(text)))
		return 0
	}
	return n
}

func (w row) truth(column string) bool {
	text := w.text(column)
	if text != "0" && text != "1" {
		w.fail(column, fmt.Sprintf("is %q, and neither 0 nor 1", cut(text)))
	}
	return text == "1"
}

func (w row) fail(column, why string) { w.r.fail(column, why) }
