package volume

import (
	"fmt"
	"strings"

	"datamove.dev/mover"
)

// Mounting is how a volume is mounted into a pod. Set-user-ID programs and
// devices are never honoured there (nosuid, nodev), whatever is asked for.
type Mounting struct {
	ReadOnly     bool
	NoExec       bool
	NoAtime      bool
	NoSymFollow  bool
	SELinuxLabel string // context= of a file system that is mounted for this volume alone
}

// mountings are the options that a StorageClass or a PersistentVolume may ask for.
var mountings = map[string]func(*Mounting){
	"ro":          func(m *Mounting) { m.ReadOnly = true },
	"rw":          func(*Mounting) {},
	"noexec":      func(m *Mounting) { m.NoExec = true },
	"noatime":     func(m *Mounting) { m.NoAtime = true },
	"relatime":    func(*Mounting) {},
	"nosymfollow": func(m *Mounting) { m.NoSymFollow = true },
	"nosuid":      func(*Mounting) {},
	"nodev":       func(*Mounting) {},
}

// ParseMounting reads mount options, each of which may be several with commas between.
func ParseMounting(options []string) (Mounting, error) {
	var m Mounting
	for _, option := range options {
		if label, ok := strings.CutPrefix(option, "context="); ok { // the kubelet's, with seLinuxMount; a label has commas
			m.SELinuxLabel = strings.TrimSuffix(strings.TrimPrefix(label, `"`), `"`)
			continue
		}
		for one := range strings.SplitSeq(option, ",") {
			set, known := mountings[one]
			if !known {
				return Mounting{}, fmt.Errorf("%w: mount option %s: a volume takes ro, noexec, noatime, relatime and nosymfollow, and always has nosuid and nodev", mover.ErrUsage, quoted(one))
			}
			set(&m)
		}
	}
	return m, nil
}
