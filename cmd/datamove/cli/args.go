package cli

import (
	"github.com/spf13/cobra"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Exactly is the check of a command's arguments.
func Exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return mover.Misusef("want %s; found %s", what, units.Plural(int64(len(args)), "argument", "arguments"))
		}
		return nil
	}
}

// AtLeastOne is the check of a command that takes one thing or more.
func AtLeastOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return mover.Misusef("want %s", what)
		}
		return nil
	}
}
