package mover

// Tally hears what was done with contents and drafts. Many may tell it at the same time.
type Tally interface {
	// Content adds contents that were opened, ranges that were read from them, checks,
	// and bytes that came out of ranges.
	Content(opens, ranges, checks, bytes int64)
	// Draft adds parts that were written, and bytes that were taken from feeds.
	Draft(parts, bytes int64)
	// Copied counts a content that a draft took over by itself, or failed to.
	Copied(err error)
	// Failed is told of every error of a call of a content or a draft.
	Failed(err error)
}

// Teller is a backend that adds to a Tally what was done with its contents and drafts.
// To wrap each of them costs a small file a tenth of what it takes to move it.
type Teller interface {
	// Tell is called before anything else is asked of the place.
	Tell(Tally)
}
