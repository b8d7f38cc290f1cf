package convert

// exits are the exit codes of DESIGN, "Words on the command line", by the names of the
// kinds of errors. A grave one decides also when it is that of a single item.
var exits = map[string]struct {
	code  int
	grave bool
}{
	"CORRUPT": {9, true}, "FULL": {7, true}, "REFUSED": {7, true}, "HELD": {5, true}, "CHANGED": {5, true}, "CONFLICT": {5, true},
	"PERMISSION": {4, true}, "USAGE": {2, false}, "NOT_EXIST": {3, false}, "TIMEOUT": {10, false}, "UNREACHABLE": {8, false},
	"TRANSIENT": {8, false}, "RELEASED": {1, false}, "UNSUPPORTED": {1, false},
}

const (
	exitOther   = 1
	exitPartial = 6
)

// ExitCode is the exit code of a command with a task that failed with an error of that kind,
// and with so many failed items.
func ExitCode(kind string, failed int64) int {
	e, ok := exits[kind]
	switch {
	case ok && (e.grave || failed == 0):
		return e.code
	case failed > 0:
		return exitPartial
	}
	return exitOther
}
