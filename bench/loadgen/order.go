package loadgen

// shuffle is a permutation of 0 to n-1 that needs no memory: a Feistel network over the smallest square of a power of two that holds n, walked until it is inside.
type shuffle struct {
	n    uint64
	half uint // bits of each half
	keys [4]uint64
}

func newShuffle(n int64, seed uint64) shuffle {
	s := shuffle{n: uint64(n), half: 1}
	for uint64(1)<<(2*s.half) < s.n {
		s.half++
	}
	for i := range s.keys {
		seed = mix(seed + 0x9e3779b97f4a7c15)
		s.keys[i] = seed
	}
	return s
}

// at is where i is. It is inside of 0 to n-1 as i is.
func (s shuffle) at(i int64) int64 {
	x := uint64(i)
	for {
		left, right := x>>s.half, x&(1<<s.half-1)
		for _, k := range s.keys {
			left, right = right, left^mix(right^k)&(1<<s.half-1)
		}
		if x = left<<s.half | right; x < s.n {
			return int64(x)
		}
	}
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
