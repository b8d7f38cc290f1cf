package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"
)

// listFormats are the formats of whatever lists things, the default first.
var listFormats = []format{formatTable, formatJSON, formatJSONL, formatYAML, formatName}

// column is one column of a table.
type column[T any] struct {
	head  string
	width int // at least; less than 0 aligns to the right
	text  func(T) string
}

// listing is how things of one kind are printed.
type listing[T any] struct {
	what    string // in the plural
	none    string // what to say when there are none; "" is "no" and what
	columns []column[T]
	view    func(T) any    // as JSON, with its schema
	name    func(T) string // as -o name has it
	colour  func(T) string // of the line; nil has none
}

// list prints things as they come. What it holds of them does not grow with their
// number.
func list[T any](a *app, f format, l listing[T], items iter.Seq2[T, error]) error {
	p := &printer[T]{listing: l, app: a, out: newLines(a.out), format: f}
	for item, err := range items {
		if err != nil {
			p.batch()
			_ = p.out.Flush() // what was found before is shown; err is what counts
			return err
		}
		p.item(item)
	}
	return p.end()
}

// printer prints the items of one listing.
type printer[T any] struct {
	listing[T]
	app    *app
	out    *lines
	format format
	count  int
	yaml   []any // items that are not yet printed
	err    error // of the YAML
}

// yamlBatch is how many items are made into YAML at once: one by one takes far longer.
const yamlBatch = 200

func (p *printer[T]) item(item T) {
	p.count++
	switch p.format {
	case formatName:
		p.out.Raw(shown(p.name(item)) + "\n")
	case formatJSONL:
		p.out.JSON(p.view(item))
	case formatJSON:
		p.out.Raw(map[bool]string{true: "[", false: ","}[p.count == 1])
		p.out.JSON(p.view(item))
	case formatYAML:
		if p.yaml = append(p.yaml, p.view(item)); len(p.yaml) == yamlBatch {
			p.batch()
		}
	default:
		p.line(item)
	}
}

// batch prints what is waiting: lists, one behind the other, are one list.
func (p *printer[T]) batch() {
	if len(p.yaml) > 0 && p.err == nil {
		p.err = writeObject(p.out, formatYAML, p.yaml)
	}
	p.yaml = p.yaml[:0]
}

// line prints a line of the table, below its head.
func (p *printer[T]) line(item T) {
	if p.count == 1 && !p.app.quiet {
		p.out.Raw(p.row(func(c column[T]) string { return c.head }) + "\n")
	}
	row := p.row(func(c column[T]) string { return shown(c.text(item)) })
	if p.colour != nil {
		row = p.app.coloured(p.colour(item), row)
	}
	p.out.Raw(row + "\n")
}

// end finishes the list.
func (p *printer[T]) end() error {
	p.batch()
	switch {
	case p.format == formatJSON && p.count == 0, p.format == formatYAML && p.count == 0:
		p.out.Raw("[]\n")
	case p.format == formatJSON:
		p.out.Raw("]\n")
	case p.format == formatTable && p.count == 0 && !p.app.quiet:
		fmt.Fprintln(p.app.err, cmp.Or(p.none, "no "+p.what))
	}
	return errors.Join(p.err, p.out.Flush())
}

// row pads the cells of one line.
func (l *listing[T]) row(cell func(column[T]) string) string {
	var b strings.Builder
	for i, c := range l.columns {
		text := cell(c)
		gap := strings.Repeat(" ", max(0, max(c.width, -c.width)-utf8.RuneCountInString(text)))
		switch {
		case c.width < 0:
			b.WriteString(gap + text)
		case i == len(l.columns)-1:
			b.WriteString(text)
		default:
			b.WriteString(text + gap)
		}
		if i < len(l.columns)-1 {
			b.WriteString("  ")
		}
	}
	return b.String()
}

// eachOf calls something for each name, lists what came of it, and returns what
// failed.
func eachOf[T any](names []string, call func(string) (T, error), a *app, f format, l listing[T]) error {
	var failed []error
	err := list(a, f, l, func(yield func(T, error) bool) {
		for _, name := range names {
			item, err := call(name)
			if err != nil {
				failed = append(failed, err)
			} else if !yield(item, nil) {
				return
			}
		}
	})
	return errors.Join(append(failed, err)...)
}

// every yields the items of a list that is there already.
func every[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// writeOne writes one thing: as a line, or as writeObject does.
func writeOne(w io.Writer, f format, v any) error {
	if f != formatJSONL {
		return writeObject(w, f, v)
	}
	out := newLines(w)
	out.JSON(v)
	return out.Flush()
}

// one does something with one item after the other, until there is an error.
func one[T any](items iter.Seq2[T, error], do func(T) error) error {
	for item, err := range items {
		if err == nil {
			err = do(item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
