package main

import (
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
	columns []column[T]
	view    func(T) any    // as JSON, with its schema
	name    func(T) string // as -o name has it
	colour  func(T) string // of the line; nil has none
}

// list prints things as they come. What it holds of them does not grow with their
// number.
func list[T any](a *app, f format, l listing[T], items iter.Seq2[T, error]) error {
	out := newLines(a.out)
	n := 0
	for item, err := range items {
		if err != nil {
			_ = out.Flush() // what was found before is shown; err is what counts
			return err
		}
		if err := l.print(a, out, f, n, item); err != nil {
			return err
		}
		n++
	}
	l.end(a, out, f, n)
	return out.Flush()
}

// print prints the item that has the given number.
func (l *listing[T]) print(a *app, out *lines, f format, n int, item T) error {
	switch f {
	case formatName:
		out.Raw(shown(l.name(item)) + "\n")
	case formatJSONL:
		out.JSON(l.view(item))
	case formatJSON:
		out.Raw(map[bool]string{true: "[", false: ","}[n == 0])
		out.JSON(l.view(item))
	case formatYAML: // lists of one item, one behind the other, are one list
		return writeObject(out.buf, formatYAML, []any{l.view(item)})
	default:
		if n == 0 && !a.quiet {
			out.Raw(l.row(func(c column[T]) string { return c.head }) + "\n")
		}
		row := l.row(func(c column[T]) string { return shown(c.text(item)) })
		if l.colour != nil {
			row = a.coloured(l.colour(item), row)
		}
		out.Raw(row + "\n")
	}
	return nil
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

// end finishes the list.
func (l *listing[T]) end(a *app, out *lines, f format, n int) {
	switch {
	case f == formatJSON && n == 0, f == formatYAML && n == 0:
		out.Raw("[]\n")
	case f == formatJSON:
		out.Raw("]\n")
	case f == formatTable && n == 0 && !a.quiet:
		fmt.Fprintf(a.err, "no %s\n", l.what)
	}
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
