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

// ListFormats are the formats of whatever lists things, the default first.
var ListFormats = []Format{FormatTable, FormatJSON, FormatJSONL, FormatYAML, FormatName}

// Column is one column of a table.
type Column[T any] struct {
	Head  string
	Width int // at least; less than 0 aligns to the right
	Text  func(T) string
}

// Listing is how things of one kind are printed.
type Listing[T any] struct {
	What    string // in the plural
	None    string // what to say when there are none; "" is "no" and what
	Columns []Column[T]
	View    func(T) any    // as JSON, with its schema
	Name    func(T) string // as -o name has it
	Colour  func(T) string // of the line; nil has none
}

// List prints things as they come. What it holds of them does not grow with their
// number.
func List[T any](a *App, f Format, l Listing[T], items iter.Seq2[T, error]) error {
	p := &printer[T]{Listing: l, app: a, out: NewLines(a.Out), format: f}
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
	Listing[T]
	app    *App
	out    *Lines
	format Format
	count  int
	yaml   []any // items that are not yet printed
	err    error // of the YAML
}

// yamlBatch is how many items are made into YAML at once: one by one takes far longer.
const yamlBatch = 200

func (p *printer[T]) item(item T) {
	p.count++
	switch p.format {
	case FormatName:
		p.out.Raw(Shown(p.Name(item)) + "\n")
	case FormatJSONL:
		p.out.JSON(p.View(item))
	case FormatJSON:
		p.out.Raw(map[bool]string{true: "[", false: ","}[p.count == 1])
		p.out.JSON(p.View(item))
	case FormatYAML:
		if p.yaml = append(p.yaml, p.View(item)); len(p.yaml) == yamlBatch {
			p.batch()
		}
	default:
		p.line(item)
	}
}

// batch prints what is waiting: lists, one behind the other, are one list.
func (p *printer[T]) batch() {
	if len(p.yaml) > 0 && p.err == nil {
		p.err = WriteObject(p.out, FormatYAML, p.yaml)
	}
	p.yaml = p.yaml[:0]
}

// line prints a line of the table, below its head.
func (p *printer[T]) line(item T) {
	if p.count == 1 && !p.app.Quiet {
		p.out.Raw(p.row(func(c Column[T]) string { return c.Head }) + "\n")
	}
	row := p.row(func(c Column[T]) string { return Shown(c.Text(item)) })
	if p.Colour != nil {
		row = p.app.Coloured(p.Colour(item), row)
	}
	p.out.Raw(row + "\n")
}

// end finishes the list.
func (p *printer[T]) end() error {
	p.batch()
	switch {
	case p.format == FormatJSON && p.count == 0, p.format == FormatYAML && p.count == 0:
		p.out.Raw("[]\n")
	case p.format == FormatJSON:
		p.out.Raw("]\n")
	case p.format == FormatTable && p.count == 0 && !p.app.Quiet:
		fmt.Fprintln(p.app.Err, cmp.Or(p.None, "no "+p.What))
	}
	return errors.Join(p.err, p.out.Flush())
}

// row pads the cells of one line.
func (l *Listing[T]) row(cell func(Column[T]) string) string {
	var b strings.Builder
	for i, c := range l.Columns {
		text := cell(c)
		gap := strings.Repeat(" ", max(0, max(c.Width, -c.Width)-utf8.RuneCountInString(text)))
		switch {
		case c.Width < 0:
			b.WriteString(gap + text)
		case i == len(l.Columns)-1:
			b.WriteString(text)
		default:
			b.WriteString(text + gap)
		}
		if i < len(l.Columns)-1 {
			b.WriteString("  ")
		}
	}
	return b.String()
}

// EachOf calls something for each name, lists what came of it, and returns what
// failed.
func EachOf[T any](names []string, call func(string) (T, error), a *App, f Format, l Listing[T]) error {
	var failed []error
	err := List(a, f, l, func(yield func(T, error) bool) {
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

// Every yields the items of a list that is there already.
func Every[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// WriteOne writes one thing: as a line, or as writeObject does.
func WriteOne(w io.Writer, f Format, v any) error {
	if f != FormatJSONL {
		return WriteObject(w, f, v)
	}
	out := NewLines(w)
	out.JSON(v)
	return out.Flush()
}

// ForEach does something with one item after the other, until there is an error.
func ForEach[T any](items iter.Seq2[T, error], do func(T) error) error {
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
