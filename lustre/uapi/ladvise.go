package uapi

// IocLadvise is LL_IOC_LADVISE: tells the servers of an open file what will be done with it.
const IocLadvise = 0x802066fa

const (
	ladviseMagic  = 0x1adf1ce0 // LADVISE_MAGIC
	ladviseHeader = 32         // sizeof(struct llapi_ladvise_hdr)
	ladviseSize   = 32         // sizeof(struct llapi_lu_ladvise)
	ladviseAsync  = 1          // LF_ASYNC: do not wait until it is done
	maxAdvices    = 1024       // LAH_COUNT_MAX
)

// Advices (enum lu_ladvise_type).
const (
	WillRead = 1 // fetch it into the memory of the servers
	DontNeed = 2
)

// Advice is what will be done with a range of a file.
type Advice struct {
	Kind       uint16
	Start, End int64 // bytes; End is exclusive
}

// EncodeAdvice writes a header and the advices.
func EncodeAdvice(async bool, advices ...Advice) []byte {
	b := make([]byte, ladviseHeader, ladviseHeader+len(advices)*ladviseSize)
	le.PutUint32(b, ladviseMagic)
	le.PutUint32(b[4:], uint32(len(advices)))
	if async {
		le.PutUint64(b[8:], ladviseAsync)
	}
	for _, a := range advices {
		b = le.AppendUint64(b, uint64(a.Kind))
		b = le.AppendUint64(b, uint64(a.Start))
		b = le.AppendUint64(b, uint64(a.End))
		b = le.AppendUint64(b, 0)
	}
	return b
}

// DecodeAdvice is the inverse of EncodeAdvice.
func DecodeAdvice(b []byte) (async bool, advices []Advice, err error) {
	if len(b) < ladviseHeader {
		return false, nil, short("an advice", len(b), ladviseHeader)
	}
	count := le.Uint32(b[4:])
	if magic := le.Uint32(b); magic != ladviseMagic || count > maxAdvices {
		return false, nil, malformed("%d advices with the magic %#x: there are up to %d, with %#x", count, magic, maxAdvices, ladviseMagic)
	}
	if want := ladviseHeader + int(count)*ladviseSize; len(b) < want {
		return false, nil, short("advices", len(b), want)
	}
	for i := range int(count) {
		a := b[ladviseHeader+i*ladviseSize:]
		advices = append(advices, Advice{le.Uint16(a), int64(le.Uint64(a[8:])), int64(le.Uint64(a[16:]))})
	}
	return le.Uint64(b[8:])&ladviseAsync != 0, advices, nil
}
