package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"datamove.dev/mover"
)

// maxAccount is the longest name that Linux lets a person or a group have.
const maxAccount = 256

// account checks the name of a person or a group. Names of directories of a site
// may have dots, signs and spaces in them, but nothing that parts fields of NSS,
// begins an option, or stands for many.
func account(s string) error {
	switch {
	case s == "" || len(s) > maxAccount || !utf8.ValidString(s):
		return fmt.Errorf("must be a name of 1 to %d bytes", maxAccount)
	case s != strings.TrimSpace(s) || strings.ContainsAny(s, ":/,*") || strings.ContainsFunc(s, unprintable):
		return fmt.Errorf("is %q; a name has no colon, comma, slash or star, no control letters, and no space at its ends", s)
	case s[0] == '-' || s[0] == '@' || strings.Trim(s, "0123456789") == "":
		return fmt.Errorf("is %q; a name begins with a letter or a sign, and is no number", s)
	}
	return nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// member checks NAME or @GROUP.
func member(s string) error {
	return account(strings.TrimPrefix(s, "@"))
}

func commonName(s string) error {
	if s == "" || len(s) > 64 || s != strings.TrimSpace(s) || strings.ContainsFunc(s, unprintable) {
		return errors.New("must be the common name of a client certificate, of 1 to 64 letters")
	}
	return nil
}

var actions = mover.Pattern(`^(\*|[a-z_]+(\.[a-z_]+)*(\.\*)?)$`)

// action checks the form of an action of a role. Which actions there are is known
// to access, which refuses one that is nothing.
func action(s string) error {
	if len(s) > 64 || !actions().MatchString(s) {
		return fmt.Errorf("is %q; must be an action like task.submit, a family like task.*, or *", s)
	}
	return nil
}
