// Package pricing says what a use of AWS costs, from a book of prices that is a file and never code.
//
// # Words
//
// A [Book] has the prices of one region: its rates by name ("egress.internet"), each with a unit, a price or tiers of prices, the date that they are of and where they
// were read. A [Usage] is an [Amount] of one rate, and why. A [Bill] has a line for each, with what it counted and by which price, and a total. [Money] is exact:
// millionths of a dollar in an int64.
//
// # What AWS counts
//
//   - A GB is 2^30 bytes, a TB 2^40. S3's own example of a bill divides byte-hours by 1,073,741,824 (aws.amazon.com/s3/faqs, "How will I be charged and billed"), AWS's price
//     list ends the tier "first 10 TB" of transfer out at 10,240 GB, and FSx takes capacities in GiB (API, StorageCapacity), of which examples that others
//     publish price 1,200 as 1,200 GB-months. So bytes of any kind are divided by 2^30 here; for NAT and Direct Connect this is the same convention, and not said by AWS.
//   - A GB-month is a GB through all hours of the calendar month, in UTC: the same example has 744 hours for a March. FSx bills by the second, for the average of a month
//     (aws.amazon.com/fsx/lustre/pricing). The 730 hours of AWS's calculator are an average year,
//     and wrong by up to 8.6 percent, in a February.
//   - Tiers count what an account uses of a rate in a calendar month: Bill is told how much there was before.
//   - Free allowances (100 GB of transfer, 20,000 requests to KMS) are not in the books that we ship: they are an account's, and may be used up.
//
// # Promises
//
// Everything here is pure. A rate that the book does not have is an error, never zero dollars. The cost of a line is what the month costs with it, less what it cost before, each
// rounded to a millionth of a dollar: so a use billed in two halves costs what it costs at once, to the last digit, and a larger use never costs less. Nothing overflows: what
// is beyond [MoneyMost] is an error. A book older than [OldAfter] is used, and the bill says so. A Book does not change once it is read, and may be asked by many goroutines.
//
// What a burst will use is estimated elsewhere (tiering/burst), whether there is money for it in tiering/burst/budget.
//
// Tests: TestStories has bills worked out by hand, which a second calculator (testdata/calculator.py) repeats with fractions; TestTiers* are the properties.
package pricing
