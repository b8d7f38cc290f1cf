package osaccount

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"datamove.dev/mover"
)

const (
	patience   = 5 * time.Second // with a directory service that does not answer
	maxAnswer  = 1 << 20         // bytes of an answer that are kept
	noKey      = 2               // getent's way to say that something is not there
	maxComment = 200             // bytes of an error's text
)

// errNoKey is when the database has no such line.
var errNoKey = errors.New("not in the database")

// run starts a tool and returns the first fields of each line that it prints.
func run(ctx context.Context, fields int, tool string, args ...string) ([]byte, error) {
	bounded, stop := context.WithTimeout(ctx, patience)
	defer stop()
	cmd := exec.CommandContext(bounded, tool, args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}, "/", time.Second
	answer, comment := &head{fields: fields, most: maxAnswer}, &head{fields: 1 << 30, most: maxComment}
	answer.full = stop
	cmd.Stdout, cmd.Stderr = answer, comment
	err := cmd.Run()
	name := filepath.Base(tool) + " " + args[0]
	var exit *exec.ExitError
	switch {
	case answer.over:
		return nil, fmt.Errorf("%s: %w: it says more than %d bytes", name, mover.ErrTransient, maxAnswer)
	case err == nil:
		return answer.kept, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case bounded.Err() != nil:
		return nil, fmt.Errorf("%s: %w: NSS did not answer in %v; look at the directory service of this node", name, mover.ErrTimeout, patience)
	case errors.As(err, &exit) && exit.ExitCode() == noKey:
		return answer.kept, errNoKey
	}
	return nil, fmt.Errorf("%s: %w: %w %s", name, mover.ErrTransient, err, mover.Printable(string(comment.kept)))
}

// head is a writer that keeps the first fields of each line, and not too much of
// them: the members of a group may be many.
type head struct {
	fields int
	most   int
	full   func() // called when there is more; nil drops it
	kept   []byte
	colons int  // in this line
	over   bool // there was more
}

func (h *head) Write(p []byte) (int, error) {
	for _, c := range p {
		switch c {
		case '\n':
			h.colons = 0
		case ':':
			h.colons++
		}
		if h.colons >= h.fields {
			continue
		}
		if len(h.kept) == h.most {
			h.over = true
			if h.full != nil {
				h.full()
			}
			return len(p), nil
		}
		h.kept = append(h.kept, c)
	}
	return len(p), nil
}
