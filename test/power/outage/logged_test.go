package outage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"datamove.dev/test/must"
	"datamove.dev/test/power/work"
)

// TestLogged copies to a disk that was never mounted, and notes every write to it on another
// disk. Marks in the log say when the copy begins, and how many lines it has printed: what they
// promise has to be on the disk by then.
func TestLogged(t *testing.T) {
	w, d := trees(), theDisk(t)
	m := mapDisk(t, "logged", d.Device, "log-writes", d.Device, os.Getenv(log))
	d.Device = m.device
	mount(t, d)
	defer unmount(t, d.Mount)
	w.Prepare(t, d.Mount)
	must.Do(t, m.message("mark begin"))
	run(t, w, d.Mount, &marker{m: m})
	must.Do(t, m.message("mark end"))
}

func theDisk(t *testing.T) (d work.Disk) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(os.Getenv(disk)), &d))
	return d
}

// marker prints, and then marks how many lines were printed.
type marker struct {
	m     *mapped
	lines int
}

func (k *marker) Write(p []byte) (int, error) {
	n, err := os.Stdout.Write(p)
	k.lines += bytes.Count(p[:n], []byte{'\n'})
	return n, errors.Join(err, k.m.message(fmt.Sprint("mark ", k.lines)))
}
