package lustre

import (
	"os"
	"strconv"
)

// Where names an open file for people: names are anybody's, and one with what a
// terminal does not show as it is comes as a Go string.
func Where(fd int) string {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "descriptor " + strconv.Itoa(fd)
	}
	return printable(name)
}

func printable(name string) string {
	if quoted := strconv.Quote(name); quoted[1:len(quoted)-1] != name {
		return quoted
	}
	return name
}
