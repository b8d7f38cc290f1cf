// Package convert puts a task into the words of the API and back: what is asked for
// ([Spec], [Request]), how it stands ([Progress]) and how it ended ([Report]).
//
// Everything here is pure. What comes in is somebody's text: names, patterns and
// numbers are checked, and a bad one is a mover.ErrUsage that says which. Whether the
// caller may use a location is for access, opening it for site. TestRoundTrip shows
// that nothing is lost on the way.
package convert
