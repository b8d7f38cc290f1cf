package compare

import (
	"os"
	"os/exec"
	"runtime"
	"strings"

	"datamove.dev/bench/result"
)

// Machine is what a figure was measured on, without what would name it.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memoryBytes"`
	Kernel string `json:"kernel"`
	System string `json:"system"`
	Go     string `json:"go"`
	Disk   string `json:"disk"` // the file system of the disk scenarios
}

// ThisMachine describes where we run; disk is a folder on the disk that is measured.
func ThisMachine(disk string) Machine {
	here := result.Here()
	m := Machine{CPU: here.CPU, Cores: here.Cores, Memory: here.MemoryBytes, Kernel: here.Kernel, System: "unknown", Go: runtime.Version()}
	if b, err := os.ReadFile("/etc/os-release"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, is := strings.CutPrefix(line, "PRETTY_NAME="); is {
				m.System = strings.Trim(strings.TrimSpace(name), `"`)
			}
		}
	}
	if out, err := exec.Command("findmnt", "-n", "-o", "FSTYPE", "-T", disk).Output(); err == nil {
		m.Disk = strings.TrimSpace(string(out))
	}
	return m
}
