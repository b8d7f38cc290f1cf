package fairshare

// Jain is Jain's index of fairness: 1 when all got the same, 1/n when one of n got
// everything. When all got nothing it is 1.
func Jain(xs []float64) float64 {
	var sum, squares float64
	for _, x := range xs {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(xs)) * squares)
}
