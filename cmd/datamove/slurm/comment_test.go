package slurm

import (
	"errors"
	"strings"
	"testing"

	"datamove.dev/mover"
)

// TestCommented: what others have written stays, and a comment has an end.
func TestCommented(t *testing.T) {
	for _, row := range []struct{ was, want string }{
		{"", "x"}, {"  \n", "x"}, {"(null)", "x"}, {"N/A", "x"}, {"an operator's   \n", "an operator's; x"}, {"two\nlines", "two\nlines; x"}, {strings.Repeat("a", commentMost-1), strings.Repeat("a", commentMost-1) + "; x"},
	} {
		if got, err := commented(row.was, "x"); got != row.want || err != nil {
			t.Errorf("%q: %q, %v", row.was, got, err)
		}
	}
	if got, err := commented(strings.Repeat("a", commentMost), "x"); got != "" || !errors.Is(err, mover.ErrFull) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestAccounts: only slurmdbd has jobs that can be changed.
func TestAccounts(t *testing.T) {
	for conf, want := range map[string]bool{
		"Configuration data as of 2026-01-01\nAccountingStorageTRES   = cpu\nAccountingStorageType   = accounting_storage/slurmdbd\n": true,
		"AccountingStorageType   = accounting_storage/none\n":                                                                         false, "": false,
	} {
		if accounts(conf) != want {
			t.Errorf("%q", conf)
		}
	}
}
