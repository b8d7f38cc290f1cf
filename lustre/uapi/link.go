package uapi

import (
	"encoding/binary"
	"fmt"
	"math"

	"datamove.dev/lustre"
)

// LinkName is the attribute in which an MDT keeps where a file is: struct link_ea_header
// and its entries. Only root can read it.
const LinkName = "trusted.link"

// be is the order of the numbers in an entry.
var be = binary.BigEndian

const (
	linkMagic      = 0x11eaf1df // LINK_EA_MAGIC
	linkHeaderSize = 24         // sizeof(struct link_ea_header)
	linkEntrySize  = 18         // sizeof(struct link_ea_entry), without the name
)

// Link is one name of a file.
type Link struct {
	Parent lustre.FID
	Name   string
}

var errLinkEntry = malformed("an entry that ends outside of them")

// DecodeLinks reads all names of a file. whole is false when there are more of them than
// had room: then the attribute knows only some.
func DecodeLinks(b []byte) (links []Link, whole bool, err error) {
	if len(b) < linkHeaderSize {
		return nil, false, short("links", len(b), linkHeaderSize)
	}
	if magic := le.Uint32(b); magic != linkMagic {
		return nil, false, malformed("links with the magic %#x: it is %#x", magic, linkMagic)
	}
	count, size := le.Uint32(b[4:]), le.Uint64(b[8:])
	if size < linkHeaderSize || size > uint64(len(b)) {
		return nil, false, malformed("links of %d bytes that say they have %d", len(b), size)
	}
	whole = le.Uint32(b[16:]) == 0 // leh_overflow_time
	for b = b[linkHeaderSize:size]; count > 0; count-- {
		link, n, err := linkEntry(b)
		if err != nil {
			return nil, false, fmt.Errorf("links: %w", err)
		}
		links, b = append(links, link), b[n:]
	}
	return links, whole, nil
}

// EncodeLinks is the inverse of DecodeLinks, of links that are all there is.
func EncodeLinks(links []Link) ([]byte, error) {
	b := make([]byte, linkHeaderSize)
	le.PutUint32(b, linkMagic)
	le.PutUint32(b[4:], uint32(len(links)))
	for _, l := range links {
		size := linkEntrySize + len(l.Name)
		if size > math.MaxUint16 {
			return nil, errRange("a name with a length", int64(len(l.Name)))
		}
		b = be.AppendUint16(b, uint16(size))
		b = be.AppendUint64(b, l.Parent.Seq)
		b = be.AppendUint32(b, l.Parent.OID)
		b = be.AppendUint32(b, l.Parent.Ver)
		b = append(b, l.Name...)
	}
	le.PutUint64(b[8:], uint64(len(b)))
	return b, nil
}

// linkEntry reads one entry. Its numbers are big-endian, other than everywhere else.
func linkEntry(b []byte) (link Link, size int, err error) {
	if len(b) < linkEntrySize {
		return Link{}, 0, errLinkEntry
	}
	size = int(be.Uint16(b))
	if size < linkEntrySize || size > len(b) {
		return Link{}, 0, errLinkEntry
	}
	parent := lustre.FID{Seq: be.Uint64(b[2:]), OID: be.Uint32(b[10:]), Ver: be.Uint32(b[14:])}
	return Link{Parent: parent, Name: string(b[linkEntrySize:size])}, size, nil
}
