package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"datamove.dev/mover"
)

// confirm wants a yes from a person before something goes at place.
func (a *app) confirm(question, place string, yes bool) error {
	if yes {
		return nil
	}
	if _, ok := a.terminal(a.in); !ok {
		return advise(mover.Misusef("nobody is there to ask: there is no terminal"), "--yes")
	}
	fmt.Fprintf(a.err, "%s? [y/N] ", question)
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && err != io.EOF { // the end of the input is no yes
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return &mover.Error{Op: "remove", Place: place, Err: fmt.Errorf("%w: the answer was not yes", mover.ErrRefused)}
	}
	return nil
}
