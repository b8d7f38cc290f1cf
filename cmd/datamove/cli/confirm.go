package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"datamove.dev/mover"
)

// Confirm wants a yes from a person before something goes at place.
func (a *App) Confirm(question, place string, yes bool) error {
	if yes {
		return nil
	}
	if _, ok := a.Terminal(a.In); !ok {
		return Advise(mover.Misusef("there is no terminal to ask on"), "--yes")
	}
	fmt.Fprintf(a.Err, "%s? [y/N] ", question)
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil && err != io.EOF { // the end of the input is no yes
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return &mover.Error{Op: "remove", Location: place, Err: fmt.Errorf("%w: the answer was not yes", mover.ErrRefused)}
	}
	return nil
}
