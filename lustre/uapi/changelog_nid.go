package uapi

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Networks of LNet (lnet/nidstr.h) by their number in a NID. The addresses of tcp and o2ib
// are of IP, those of the others are numbers.
var networks = map[uint16]string{2: "tcp", 5: "o2ib", 9: "lo", 13: "gni", 14: "kfi"}

// nidText is what struct changelog_ext_nid says, as Lustre writes it: 10.0.0.7@o2ib3. It
// is "" for a change that no client asked for.
//
// The old form is a number: type << 48 | net << 32 | address. The big one (struct
// lnet_nid) has the bytes {size of the address - 4, type, net, address}, big-endian; with
// an address of four bytes it is the old one in that order.
func nidText(b []byte, big bool) string {
	nid := le.Uint64(b)
	if big {
		if more := int(b[0]); more > 0 {
			return longNID(b, more)
		}
		nid = be.Uint64(b)
	}
	if nid == 0 {
		return ""
	}
	kind, net, number := uint16(nid>>48), uint16(nid>>32), uint32(nid)
	address := strconv.FormatUint(uint64(number), 10)
	if kind == 2 || kind == 5 {
		address = netip.AddrFrom4([4]byte{byte(number >> 24), byte(number >> 16), byte(number >> 8), byte(number)}).String()
	}
	return address + "@" + network(kind, net)
}

func longNID(b []byte, more int) string {
	net := network(uint16(b[1]), be.Uint16(b[2:]))
	if more == 12 {
		return netip.AddrFrom16([16]byte(b[4:20])).String() + "@" + net
	}
	return fmt.Sprintf("%x@%s", b[4:min(8+more, 20)], net)
}

func network(kind, net uint16) string {
	name, ok := networks[kind]
	switch {
	case !ok:
		return fmt.Sprintf("<%d:%d>", kind, net)
	case net == 0:
		return name
	}
	return name + strconv.Itoa(int(net))
}

// nidBytes is the inverse of nidText. What it can not read becomes no client at all.
func nidBytes(nid string, big bool) []byte {
	b := make([]byte, nidSize)
	address, net, _ := strings.Cut(nid, "@")
	kind, number, ok := parseNetwork(net)
	ip, err := netip.ParseAddr(address)
	switch n, notNumber := strconv.ParseUint(address, 10, 32); {
	case !ok:
	case err == nil && ip.Is6() && big:
		b[0], b[1] = 12, byte(kind)
		be.PutUint16(b[2:], number)
		copy(b[4:], ip.AsSlice())
	case err == nil && ip.Is4():
		putNID(b, kind, number, be.Uint32(ip.AsSlice()), big)
	case notNumber == nil:
		putNID(b, kind, number, uint32(n), big)
	}
	return b
}

func putNID(b []byte, kind, net uint16, address uint32, big bool) {
	nid := uint64(kind)<<48 | uint64(net)<<32 | uint64(address)
	if big {
		be.PutUint64(b, nid)
	} else {
		le.PutUint64(b, nid)
	}
}

func parseNetwork(s string) (kind, net uint16, ok bool) {
	if n, err := fmt.Sscanf(s, "<%d:%d>", &kind, &net); err == nil && n == 2 {
		return kind, net, true
	}
	for kind, name := range networks {
		digits, is := strings.CutPrefix(s, name)
		if !is {
			continue
		}
		if digits == "" {
			return kind, 0, true
		}
		if n, err := strconv.ParseUint(digits, 10, 16); err == nil {
			return kind, uint16(n), true
		}
	}
	return 0, 0, false
}
