// Package report is what runs of the load generator say together: as a table for a terminal, as CSV and JSON for programs, and as one page that needs nothing else.
//
// [Sum] makes a [Report] of runs. Phases that are the same work are repeats of each other: one [Phase], with the median of its rates and where that is likely to be. Phases of more and more
// nodes are a [Scaling]; those of the suite io500 a score in the style of IO500; and beside a baseline, each phase is a [Change], and some of them regressions.
//
// What is in a run comes from anybody: names are shown with what is hidden in them made visible, a cell of a spreadsheet is no formula, and the page has no script and asks for nothing. A
// Report is not changed once it is made.
//
// Package record reads runs, statistic has the arithmetic. FuzzReport writes whatever can be read; TestReport of test/system/browser reads the page in Chromium.
package report
