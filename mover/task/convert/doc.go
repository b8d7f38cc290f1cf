// Package convert puts a task into the words of the API and back: what is asked for
// ([Spec], [Request]), how it stands ([Progress]) and how it ended ([Report]).
//
// Everything here is pure. What comes in is not trusted: names, patterns and
// numbers are checked, and a bad one is a mover.ErrUsage that says which. Whether the
// caller may use a location is for authz, opening it for backend. TestRoundTrip shows
// that nothing is lost on the way.
package convert
