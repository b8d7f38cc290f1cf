// Package budget keeps account of the money that teams spend in a cloud, and says no before it is spent.
//
// # Words
//
// An [Account] is a team and its cap, for each calendar month (UTC) or for good. An [Entry] is a line of the ledger, which only grows: money is reserved for a burst before it begins
// (the total of its estimate), charged as it is used up, released or settled when the burst is over, and adjusted to what AWS's Cost Explorer says of a day. A [Balance] is what a team
// has spent and reserved, and what of its cap is free. All money is price.Money, millionths of a dollar; what things cost says tiering/burst/pricing.
//
// # Promises
//
//   - What is spent and reserved never passes the cap by [Ledger.Reserve]: it refuses with mover.ErrRefused ([CapError]), also when two ledgers on one log are asked at once, and when the cap has been lowered since.
//   - [Ledger.Allow] is asked before bytes are sent, and refuses with mover.ErrRefused what is beyond the reservation of a burst, or the cap of its team. It notes nothing: a stream
//     that asks for a part, sends it, and charges it, before it asks again, is at most that part beyond.
//     An entry is a sync of the disk: a caller that charges by the minute and not by the part asks for what is not charged yet and the next part together.
//   - A bill can not be refused: [Ledger.Charge] notes what was really spent, and says (mover.ErrRefused) what of it was not reserved. More may be spent only after another Reserve.
//   - What is reserved counts against the month in which it is looked at: it is still to be spent.
//   - The same key again, of the same kind and burst, changes nothing, and is told as such ([Outcome.Repeated]): a process that crashes between doing and noting repeats both. Keys are remembered until the
//     burst is settled, and through the month after that.
//   - Time does not go back: an entry is noted with the time of the one before it where the clock says less, so that no clock gives a team a month again. A clock that was years ahead
//     therefore keeps the ledger in that month; that refuses and does not spend.
//   - A warning ([Outcome.Warning]) comes with the one entry that passes four fifths of a cap.
//
// A Ledger may be used by many goroutines, and many ledgers may be on the same log. [State] decides and is pure, for one goroutine. What a State remembers is bounded by the teams,
// the open bursts, and the keys and days of the running month and the one before; older entries are in the log only, and read once, one at a time.
//
// The ledger needs a [Log] of two methods: an entry is appended where the log ends after those that the ledger has seen, and nowhere else, and is on stable storage before anybody is told.
//
// # Left to others
//
// Estimates and what AWS says of costs: tiering/burst. Permissions of a team: the caller. Printing: cmd.
//
// Tests: TestModel compares random histories with a naive count of all entries; TestRace has two ledgers on one log race for one cap. mover/coordinator TestMoneySurvives has one on the state of a coordinator.
package budget
