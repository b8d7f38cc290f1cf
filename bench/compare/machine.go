package compare

import (
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
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
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version()}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = after(string(b), "model name", ":")
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		kib, _ := field(string(b), "MemTotal:")
		m.Memory = kib << 10
	}
	if b, err := os.ReadFile("/etc/os-release"); err == nil {
		m.System = strings.Trim(after(string(b), "PRETTY_NAME", "="), `"`)
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if out, err := exec.Command("findmnt", "-n", "-o", "FSTYPE", "-T", disk).Output(); err == nil {
		m.Disk = strings.TrimSpace(string(out))
	}
	return m
}

// after returns what follows name and separator in the first line that has them.
func after(text, name, separator string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, separator); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
