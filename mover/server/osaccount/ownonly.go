package osaccount

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

// OwnOnly is a listener on loopback that lets processes of the account of this process in, and
// closes all other connections: a port of this machine is open to every account on it.
type OwnOnly struct{ net.Listener }

// Accept implements net.Listener.
func (l OwnOnly) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if uid, known := peerUID(conn); known && uid == os.Geteuid() {
			return conn, nil
		}
		_ = conn.Close() // of another account
	}
}

// peerUID is the account that connected from this machine. The kernel lists its
// sockets, each with both of its ends and its owner; see proc_net(5).
func peerUID(conn net.Conn) (uid int, known bool) {
	from, ours := kernelAddress(conn.RemoteAddr()), kernelAddress(conn.LocalAddr())
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		if uid, known := ownerOf(table, from, ours); known {
			return uid, true
		}
	}
	return 0, false
}

// established is the state of a socket that both sides hold. One that is closed is listed
// as root's for a while.
const established = "01"

// ownerOf looks a socket up by its ends.
func ownerOf(table, local, remote string) (uid int, known bool) {
	f, err := os.Open(table)
	if err != nil || local == "" || remote == "" {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid ...
		fields := strings.Fields(lines.Text())
		if len(fields) > 7 && strings.HasSuffix(fields[1], local) && strings.HasSuffix(fields[2], remote) && fields[3] == established {
			uid, err := strconv.Atoi(fields[7])
			return uid, err == nil
		}
	}
	return 0, false
}

// kernelAddress is an address of IPv4 as the kernel lists it: in hexadecimal, its bytes
// in the order of the processor, which is little-endian wherever we run. One that was
// made for IPv6 ends with the same.
func kernelAddress(a net.Addr) string {
	tcp, is := a.(*net.TCPAddr)
	if !is || tcp.IP.To4() == nil {
		return ""
	}
	ip := slices.Clone(tcp.IP.To4())
	slices.Reverse(ip)
	return fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(ip)), tcp.Port)
}
