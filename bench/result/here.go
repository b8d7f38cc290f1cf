package result

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Here describes this host.
func Here() Node {
	n := Node{Name: "unknown", CPU: "unknown", Cores: runtime.NumCPU()}
	if name, err := os.Hostname(); err == nil {
		n.Name = name
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		sum := sha256.Sum256(boot)
		n.Host = hex.EncodeToString(sum[:8])
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				n.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		n.MemoryBytes = int64(info.Totalram) * int64(info.Unit)
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		n.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return n
}
