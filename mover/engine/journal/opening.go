package journal

import (
	"fmt"
	"os"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
)

// patience is how many openings in a row may be interrupted. A few can be kills:
// a task that is killed twice in its first milliseconds must not lose its
// journal. Six in a row are the fault of what is in the journal.
const patience = 6

// opening notes that the store is about to be opened.
func opening(l *kvstore.Lock) error {
	unended, err := l.Opening()
	if err == nil && unended >= patience {
		return fmt.Errorf("%w: the last %d openings ended this program", mover.ErrCorrupt, unended)
	}
	return err
}

// since names the time in which nothing that was written can have been lost: this boot, and
// this mount of the target. "" is not known.
func since(mount uint64) string {
	boot := bootID()
	if boot == "" {
		return ""
	}
	return fmt.Sprint(boot, " ", mount)
}

// bootID names this boot of the kernel; see random(4).
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
