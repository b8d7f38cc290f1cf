package uapi

// IocSwapLayouts is LL_IOC_LOV_SWAP_LAYOUTS: on one file that is open for writing, with
// struct lustre_swap_layouts, it exchanges the contents and layouts of two.
const IocSwapLayouts = 0x402066db

// What a swap does beside (SWAP_LAYOUTS_*).
const (
	SwapCheckFirst  = 1 // refuse when the content of the first is not of version First; says nothing of what is cached
	SwapCheckSecond = 2
	SwapClose       = 16 // give the write lease up in the same step: refused (ESTALE) when it was broken
)

const swapSize = 32

// Swap is a request to exchange the content of a file with that of another.
type Swap struct {
	Flags         uint64 // Swap*
	Other         int    // descriptor
	Group         uint32 // group lock that the caller holds
	First, Second uint64 // data versions
}

// EncodeSwap writes struct lustre_swap_layouts.
func EncodeSwap(s Swap) []byte {
	b := make([]byte, swapSize)
	le.PutUint64(b, s.Flags)
	le.PutUint32(b[8:], uint32(s.Other))
	le.PutUint32(b[12:], s.Group)
	le.PutUint64(b[16:], s.First)
	le.PutUint64(b[24:], s.Second)
	return b
}

// DecodeSwap is the inverse of EncodeSwap.
func DecodeSwap(b []byte) (Swap, error) {
	if len(b) < swapSize {
		return Swap{}, short("a swap of layouts", len(b), swapSize)
	}
	return Swap{
		Flags: le.Uint64(b), Other: int(int32(le.Uint32(b[8:]))), Group: le.Uint32(b[12:]),
		First: le.Uint64(b[16:]), Second: le.Uint64(b[24:]),
	}, nil
}
