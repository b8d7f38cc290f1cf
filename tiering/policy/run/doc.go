// Package run is policies at work: what a plan lists, as a file, and how a run of it goes on.
//
// Its words: a plan is a list of items in the order in which things are done, a rule after the other; its digest names it. A run does what a plan lists, part by
// part: a part is some items of one rule in one tree, which one task does. What a run takes away it may keep for a while, so that it can
// be undone.
//
// A plan file is written once, and is whole when it has its name. A record of a run says all that is needed to go on with it: what is next, and which
// parts are under way. [Over] and [Part.Takes] decide, and do nothing. The service executes plans and keeps records. TestPlanFile, TestOver and TestPart show it.
package run
