package mover

// As finds the first T in a chain of wrappers: x itself, or what x.Unwrap()
// gives, and so on. Places, contents and drafts that wrap another one have a
// method Unwrap() any for it.
//
// It is how optional interfaces and a place's own types are found behind
// wrappers: As[Cloner](draft), or a place's own content type in Cloner.Clone. What is found
// bypasses the wrappers around it, so a wrapper that has something to add to an
// optional interface implements it.
func As[T any](x any) (T, bool) {
	for x != nil {
		if t, ok := x.(T); ok {
			return t, true
		}
		w, ok := x.(interface{ Unwrap() any })
		if !ok {
			break
		}
		x = w.Unwrap()
	}
	var none T
	return none, false
}
