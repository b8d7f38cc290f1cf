package uapi

// IocDataVersion is LL_IOC_DATA_VERSION: a number that changes whenever the content of an
// open file does (struct ioc_data_version).
const IocDataVersion = 0x801066da

// What is written back before the answer, on all clients (LL_DV_*). Without one of the two,
// what a client has written and still keeps to itself is not counted.
const (
	FlushWrites = 1 // LL_DV_RD_FLUSH: dirty pages are written
	FlushAll    = 2 // LL_DV_WR_FLUSH: and every client forgets what it has cached
)

const dataVersionSize = 16

// EncodeDataVersion asks for the version.
func EncodeDataVersion(flush uint32) []byte {
	b := make([]byte, dataVersionSize)
	le.PutUint32(b[12:], flush)
	return b
}

// DecodeDataVersion is the answer.
func DecodeDataVersion(b []byte) (content uint64, layout uint32, err error) {
	if len(b) < dataVersionSize {
		return 0, 0, short("a data version", len(b), dataVersionSize)
	}
	return le.Uint64(b), le.Uint32(b[8:]), nil
}
