package auditlog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"datamove.dev/mover"
)

// reader reads the lines of one file, in a memory of one line.
type reader struct {
	in      *bufio.Reader
	first   uint64 // the sequence that the file is named for
	line    int64  // of the last one that was asked for
	end     int64  // of the last one that continued the chain, in bytes
	unended bool   // the file ended without a newline
}

func newReader(in io.Reader, first uint64) *reader {
	return &reader{in: bufio.NewReaderSize(in, maxLine), first: first}
}

func (r *reader) broken(format string, args ...any) error {
	return &Break{fileName(r.first), r.line, fmt.Sprintf(format, args...)}
}

// next reads a line and returns how many bytes it has. It says io.EOF at a clean end.
func (r *reader) next() (e Entry, bytes int64, err error) {
	r.line++
	text, err := r.in.ReadSlice('\n')
	switch {
	case err == io.EOF && r.line == 1 && len(text) == 0:
		return e, 0, r.broken("the file is empty")
	case err == io.EOF && len(text) == 0:
		return e, 0, io.EOF
	case err == io.EOF:
		r.unended = true
		return e, 0, r.broken("the line has no end: the file was cut off here, or a kill has interrupted its writing")
	case errors.Is(err, bufio.ErrBufferFull):
		return e, 0, r.broken("the line is longer than %d bytes", maxLine)
	case err != nil:
		return e, 0, err
	}
	e, err = decode(text[:len(text)-1])
	switch {
	case errors.Is(err, mover.ErrUnsupported):
		return e, 0, err
	case err != nil:
		return e, 0, r.broken("%v", err)
	}
	return e, int64(len(text)), nil
}

// follow reads the file to its end, as long as it continues c, and shows each line.
func (r *reader) follow(ctx context.Context, c *chain, show func(*Entry) error) error {
	for {
		e, n, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if why := r.misplaced(&e); why != "" {
			return r.broken("%s", why)
		}
		if why := c.follow(&e); why != "" {
			return r.broken("%s", why)
		}
		if err := show(&e); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.end += n
	}
}

// misplaced looks whether e may stand on its line of this file.
func (r *reader) misplaced(e *Entry) string {
	switch {
	case (e.Kind == Header) != (r.line == 1):
		return "a file begins with a header, and has no other one"
	case r.line == 1 && e.Sequence != r.first:
		return fmt.Sprintf("the file has the name of record %d and begins with %d", r.first, e.Sequence)
	}
	return ""
}
